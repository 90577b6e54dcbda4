/* The catalogue (catalogue.h): reads the pack's table of places and words with the
 * operator's additions over it, checks that every reference has a target, and turns
 * places into Cedar entities.
 *
 *   {"date", "zones": [{"id", "in": [zone…], "countries"?: [code…]}],
 *    "countries": [{"code", "in": [zone…]}],
 *    "adequacy": [{"regime", "country", "zone", "certs"?: [word…]}],
 *    "legal_entities": [{"id", "seat", "control_zones", "foreign_share_max",
 *                        "foreign_share_sum", "baa_with", "certs"}],
 *    "vocabulary": {kind: [{"word"}]}}
 *
 * Other members are the facts' sources, for readers. An overlay has the same shape: an
 * entry with a known key (id, code, regime and country, word) takes the place of the
 * pack's, and "remove": true takes it away; so an operator can withdraw an adequacy
 * decision the day it falls. Left out: anything that computes with dates; an expired
 * decision is removed by whoever keeps the file. */
#include "catalogue.h"
#include "../engine/base/map.h"

#include <sodium.h>

/* The tables, and the members of a row that make its key. */
enum { ZONES, COUNTRIES, ADEQUACY, ENTITIES, NTABLES };
static const struct table {
    const char *name, *key, *key2;
} tables[NTABLES] = {{"zones", "id", NULL},
                     {"countries", "code", NULL},
                     {"adequacy", "regime", "country"},
                     {"legal_entities", "id", NULL}};

enum { WORD_MAX = 64, VERSION_TEXT = 64 };

struct bw_catalogue {
    bw_ctx *mem;           /* owns the parsed trees; immutable once built */
    bw_map *rows[NTABLES]; /* key -> bw_json of the row in force */
    bw_map *words;         /* "kind\nword" */
    bw_map *members;       /* "code\nzone": edges from zone lists */
    bw_buf entities;       /* Cedar entities, list elements */
    char version[VERSION_TEXT];
};

static bool word_ok(bw_str s, bool upper)
{
    if (s.len == 0 || s.len > WORD_MAX || s.ptr[0] == '-' || s.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
              c == '.' || (upper && c >= 'A' && c <= 'Z')))
            return false;
    }
    return true;
}

static bw_status bad(bw_ctx *ctx, const bw_json *v, const char *what)
{
    const char *at = bw_json_pointer(ctx, v);
    return at ? bw_fail_at(ctx, BW_EINVALID, at, "catalogue: %s", what) : BW_ENOMEM;
}

static bool member_str(const bw_json *row, const char *name, bw_str *out)
{
    const bw_json *v = bw_json_get_value(row, name);
    if (!v || v->kind != BW_JSON_STRING)
        return false;
    *out = v->str;
    return true;
}

/* key, or "key\nkey2". */
static bw_status row_key(bw_ctx *ctx, const struct table *t, const bw_json *row,
                         bw_str *out)
{
    bw_str a, b;
    if (!member_str(row, t->key, &a) || !word_ok(a, true))
        return bad(ctx, row, "a row without a proper key");
    if (!t->key2) {
        *out = a;
        return BW_OK;
    }
    if (!member_str(row, t->key2, &b) || !word_ok(b, true))
        return bad(ctx, row, "a row without a proper key");
    char *text =
        bw_arena_printf(ctx, "%.*s\n%.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
    if (!text)
        return BW_ENOMEM;
    *out = bw_str_c(text);
    return BW_OK;
}

static bw_status put_row(bw_ctx *ctx, bw_map *map, bw_str key, const bw_json *row)
{
    const bw_json *gone = bw_json_get(row, "remove");
    if (gone && gone->kind == BW_JSON_TRUE) {
        bw_map_remove(map, key.ptr, key.len);
        return BW_OK;
    }
    uint64_t *slot = bw_map_put(map, key.ptr, key.len, NULL);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = (uint64_t)(uintptr_t)row;
    return BW_OK;
}

static bw_status read_table(bw_ctx *ctx, bw_catalogue *c, int which,
                            const bw_json *root)
{
    const bw_json *list = bw_json_get_value(root, tables[which].name);
    if (!list)
        return BW_OK;
    if (list->kind != BW_JSON_ARRAY)
        return bad(ctx, list, "expected a list of rows");
    for (const bw_json *row = list->child; row; row = row->next) {
        bw_str key;
        bw_status st = row_key(ctx, &tables[which], row, &key);
        if (st == BW_OK)
            st = put_row(ctx, c->rows[which], key, row);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status word_key(bw_ctx *ctx, bw_str kind, bw_str word, bw_str *out)
{
    char *text = bw_arena_printf(ctx, "%.*s\n%.*s", (int)kind.len, kind.ptr,
                                 (int)word.len, word.ptr);
    if (!text)
        return BW_ENOMEM;
    *out = bw_str_c(text);
    return BW_OK;
}

static bw_status read_words(bw_ctx *ctx, bw_catalogue *c, const bw_json *root)
{
    const bw_json *all = bw_json_get_value(root, "vocabulary");
    if (!all)
        return BW_OK;
    if (all->kind != BW_JSON_OBJECT)
        return bad(ctx, all, "expected lists of words by kind");
    for (const bw_json *kind = all->child; kind; kind = kind->next) {
        if (kind->kind != BW_JSON_ARRAY)
            return bad(ctx, kind, "expected a list of words");
        for (const bw_json *row = kind->child; row; row = row->next) {
            bw_str word, key;
            if (!member_str(row, "word", &word) || !word_ok(word, false) ||
                bw_str_is(word, "none"))
                return bad(ctx, row,
                           "a word is 1 to 64 of a-z 0-9 - . and not \"none\"");
            bw_status st = word_key(ctx, kind->key, word, &key);
            if (st == BW_OK)
                st = put_row(ctx, c->words, key, row);
            if (st != BW_OK)
                return st;
        }
    }
    return BW_OK;
}

bool bw_catalogue_has_country(const bw_catalogue *c, bw_str code)
{
    return bw_map_get(c->rows[COUNTRIES], code.ptr, code.len) != NULL;
}

bool bw_catalogue_has_zone(const bw_catalogue *c, bw_str zone)
{
    return bw_map_get(c->rows[ZONES], zone.ptr, zone.len) ||
           bw_catalogue_has_country(c, zone);
}

bool bw_catalogue_has_word(const bw_catalogue *c, const char *kind, bw_str word)
{
    char key[2 * WORD_MAX + 2];
    size_t n = strlen(kind);
    if (n > WORD_MAX || word.len == 0 || word.len > WORD_MAX)
        return false;
    memcpy(key, kind, n);
    key[n] = '\n';
    memcpy(key + n + 1, word.ptr, word.len);
    return bw_map_get(c->words, key, n + 1 + word.len) != NULL;
}

/* Every string of the list must be a zone (or a country, with `countries`). */
static bw_status check_places(bw_ctx *ctx, const bw_catalogue *c, const bw_json *list,
                              bool countries)
{
    if (!list)
        return BW_OK;
    if (list->kind != BW_JSON_ARRAY)
        return bad(ctx, list, "expected a list of names");
    for (const bw_json *v = list->child; v; v = v->next)
        if (v->kind != BW_JSON_STRING ||
            !(countries ? bw_catalogue_has_country(c, v->str)
                        : bw_catalogue_has_zone(c, v->str)))
            return bad(ctx, v,
                       countries ? "not a country of this catalogue"
                                 : "not a zone of this catalogue");
    return BW_OK;
}

static bw_status check_zone(bw_ctx *ctx, bw_catalogue *c, bw_str id, const bw_json *row)
{
    const bw_json *countries = bw_json_get_value(row, "countries");
    if (bw_catalogue_has_country(c, id))
        return bad(ctx, row, "a zone has the name of a country");
    bw_status st = check_places(ctx, c, bw_json_get_value(row, "in"), false);
    if (st == BW_OK)
        st = check_places(ctx, c, countries, true);
    if (st != BW_OK || !countries)
        return st;
    for (const bw_json *v = countries->child; v; v = v->next) {
        bw_str key;
        st = word_key(ctx, v->str, id, &key);
        if (st != BW_OK)
            return st;
        if (!bw_map_put(c->members, key.ptr, key.len, NULL))
            return bw_fail_nomem(ctx);
    }
    return BW_OK;
}

static bw_status check_country(bw_ctx *ctx, const bw_catalogue *c, bw_str code,
                               const bw_json *row)
{
    if (code.len != 2 || code.ptr[0] < 'A' || code.ptr[0] > 'Z' || code.ptr[1] < 'A' ||
        code.ptr[1] > 'Z')
        return bad(ctx, row, "a country's code is two capital letters");
    return check_places(ctx, c, bw_json_get_value(row, "in"), false);
}

static bw_status check_adequacy(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    bw_str regime, country, zone;
    if (!member_str(row, "regime", &regime) ||
        !bw_catalogue_has_word(c, "regimes", regime))
        return bad(ctx, row, "adequacy under an unknown regime");
    if (!member_str(row, "country", &country) ||
        !bw_catalogue_has_country(c, country) || !member_str(row, "zone", &zone) ||
        !bw_map_get(c->rows[ZONES], zone.ptr, zone.len))
        return bad(ctx, row, "adequacy of an unknown country or zone");
    const bw_json *certs = bw_json_get_value(row, "certs");
    if (certs && certs->kind != BW_JSON_ARRAY)
        return bad(ctx, certs, "expected a list of words");
    for (const bw_json *v = certs ? certs->child : NULL; v; v = v->next)
        if (v->kind != BW_JSON_STRING || !bw_catalogue_has_word(c, "certs", v->str))
            return bad(ctx, v, "not a certification of this catalogue");
    return BW_OK;
}

/* A list of texts, if it is there at all. */
static bw_status check_texts(bw_ctx *ctx, const bw_json *list)
{
    if (list && list->kind != BW_JSON_ARRAY)
        return bad(ctx, list, "expected a list of texts");
    for (const bw_json *v = list ? list->child : NULL; v; v = v->next)
        if (v->kind != BW_JSON_STRING)
            return bad(ctx, v, "expected a text");
    return BW_OK;
}

static bw_status check_entity(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    bw_str seat, share;
    if (!member_str(row, "seat", &seat) || !bw_catalogue_has_country(c, seat))
        return bad(ctx, row, "a legal entity without a known seat");
    if (!member_str(row, "foreign_share_max", &share) ||
        !member_str(row, "foreign_share_sum", &share))
        return bad(ctx, row,
                   "a legal entity without its foreign shares (decimal texts)");
    const bw_json *zones = bw_json_get_value(row, "control_zones");
    if (!zones)
        return bad(ctx, row, "a legal entity without control_zones");
    bw_status st = check_texts(ctx, bw_json_get_value(row, "baa_with"));
    if (st == BW_OK)
        st = check_texts(ctx, bw_json_get_value(row, "certs"));
    return st == BW_OK ? check_places(ctx, c, zones, false) : st;
}

static bw_status check_rows(bw_ctx *ctx, bw_catalogue *c)
{
    bw_str key;
    uint64_t *value;
    for (int which = 0; which < NTABLES; which++)
        for (size_t it = 0; bw_map_next(c->rows[which], &it, &key, &value);) {
            const bw_json *row = (const bw_json *)(uintptr_t)*value;
            bw_status st = which == ZONES       ? check_zone(ctx, c, key, row)
                           : which == COUNTRIES ? check_country(ctx, c, key, row)
                           : which == ADEQUACY  ? check_adequacy(ctx, c, row)
                                                : check_entity(ctx, c, row);
            if (st != BW_OK)
                return st;
        }
    return BW_OK;
}

/* ---- Cedar entities ---- */

static void put_uid(bw_buf *b, const char *type, bw_str id)
{
    bw_json_sep(b);
    bw_buf_printf(b, "{\"type\":\"Bw::%s\",\"id\":", type);
    bw_json_put_str(b, id);
    bw_buf_putc(b, '}');
}

static void put_ref(bw_buf *b, const char *type, bw_str id)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"__entity\":");
    put_uid(b, type, id);
    bw_buf_putc(b, '}');
}

static void open_entity(bw_buf *b, const char *type, bw_str id)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"uid\":");
    put_uid(b, type, id);
}

static void put_zone_uids(bw_buf *b, const bw_json *list)
{
    for (const bw_json *v = list ? list->child : NULL; v; v = v->next)
        put_uid(b, "Zone", v->str);
}

static void put_zone(bw_buf *b, bw_str id, const bw_json *row)
{
    open_entity(b, "Zone", id);
    bw_buf_puts(b, ",\"attrs\":{},\"parents\":[");
    put_zone_uids(b, bw_json_get_value(row, "in"));
    bw_buf_puts(b, "]}");
}

/* Edges to groups hang on the country's own zone, so `Zone::"FR" in Zone::"EU"` holds.
 */
static void put_country_zone(const bw_catalogue *c, bw_buf *b, bw_str code,
                             const bw_json *row)
{
    bw_str key;
    uint64_t *value;
    open_entity(b, "Zone", code);
    bw_buf_puts(b, ",\"attrs\":{},\"parents\":[");
    put_zone_uids(b, bw_json_get_value(row, "in"));
    for (size_t it = 0; bw_map_next(c->members, &it, &key, NULL);)
        if (key.len > 3 && memcmp(key.ptr, code.ptr, 2) == 0)
            put_uid(b, "Zone", (bw_str){key.ptr + 3, key.len - 3});
    for (size_t it = 0; bw_map_next(c->rows[ADEQUACY], &it, &key, &value);) {
        bw_str zone;
        if (memcmp(key.ptr + key.len - 2, code.ptr, 2) == 0 &&
            member_str((const bw_json *)(uintptr_t)*value, "zone", &zone))
            put_uid(b, "Zone", zone);
    }
    bw_buf_puts(b, "]}");
}

/* adequacyCerts: {regime: [cert…]} for every regime that some adequacy row names. */
static void put_certs(const bw_catalogue *c, bw_buf *b, bw_str code)
{
    bw_str key, other, regime = {0};
    uint64_t *value;
    bw_buf_puts(b, "{\"adequacyCerts\":{");
    for (size_t it = 0; bw_map_next(c->rows[ADEQUACY], &it, &key, NULL);) {
        bool first = true; /* the regime's first row writes its member */
        regime = (bw_str){key.ptr, key.len - 3};
        for (size_t k = 0; first && bw_map_next(c->rows[ADEQUACY], &k, &other, NULL) &&
                           other.ptr != key.ptr;)
            first = !bw_str_eq((bw_str){other.ptr, other.len - 3}, regime);
        if (!first)
            continue;
        bw_json_sep(b);
        bw_json_put_str(b, regime);
        bw_buf_puts(b, ":[");
        char own[WORD_MAX + 4];
        memcpy(own, regime.ptr, regime.len);
        own[regime.len] = '\n';
        memcpy(own + regime.len + 1, code.ptr, 2);
        value = bw_map_get(c->rows[ADEQUACY], own, regime.len + 3);
        const bw_json *certs =
            value ? bw_json_get_value((const bw_json *)(uintptr_t)*value, "certs")
                  : NULL;
        for (const bw_json *v = certs ? certs->child : NULL; v; v = v->next) {
            bw_json_sep(b);
            bw_json_put_str(b, v->str);
        }
        bw_buf_putc(b, ']');
    }
    bw_buf_puts(b, "}}");
}

static void put_decimal(bw_buf *b, const char *name, const bw_json *v)
{
    bw_json_put_key(b, name);
    bw_buf_puts(b, "{\"__extn\":{\"fn\":\"decimal\",\"arg\":");
    bw_json_put_str(b, v->str);
    bw_buf_puts(b, "}}");
}

static void put_legal_entity(bw_buf *b, bw_str id, const bw_json *row)
{
    bw_str seat = {0};
    const bw_json *v;
    member_str(row, "seat", &seat);
    open_entity(b, "LegalEntity", id);
    bw_buf_puts(b, ",\"parents\":[],\"attrs\":{\"seat\":");
    put_ref(b, "Country", seat);
    bw_json_put_key(b, "controlZones");
    bw_buf_putc(b, '[');
    for (v = bw_json_get(row, "control_zones")->child; v; v = v->next)
        put_ref(b, "Zone", v->str);
    bw_buf_putc(b, ']');
    put_decimal(b, "foreignShareMax", bw_json_get(row, "foreign_share_max"));
    put_decimal(b, "foreignShareSum", bw_json_get(row, "foreign_share_sum"));
    bw_json_put_key(b, "baaWith");
    bw_buf_putc(b, '[');
    for (v = bw_json_get_value(row, "baa_with") ? bw_json_get(row, "baa_with")->child
                                                : NULL;
         v; v = v->next)
        put_ref(b, "Tenant", v->str);
    bw_buf_puts(b, "],\"certs\":[");
    for (v = bw_json_get_value(row, "certs") ? bw_json_get(row, "certs")->child : NULL;
         v; v = v->next) {
        bw_json_sep(b);
        bw_json_put_str(b, v->str);
    }
    bw_buf_puts(b, "]}}");
}

static bw_status make_entities(bw_ctx *ctx, bw_catalogue *c)
{
    bw_buf *b = &c->entities;
    bw_str key;
    uint64_t *value;
    for (size_t it = 0; bw_map_next(c->rows[ZONES], &it, &key, &value);)
        put_zone(b, key, (const bw_json *)(uintptr_t)*value);
    for (size_t it = 0; bw_map_next(c->rows[COUNTRIES], &it, &key, &value);) {
        put_country_zone(c, b, key, (const bw_json *)(uintptr_t)*value);
        open_entity(b, "Country", key);
        bw_buf_puts(b, ",\"parents\":[");
        put_uid(b, "Zone", key);
        bw_buf_puts(b, "],\"attrs\":");
        put_certs(c, b, key);
        bw_buf_putc(b, '}');
    }
    for (size_t it = 0; bw_map_next(c->rows[ENTITIES], &it, &key, &value);)
        put_legal_entity(b, key, (const bw_json *)(uintptr_t)*value);
    return b->failed ? bw_fail_nomem(ctx) : BW_OK;
}

/* ---- life ---- */

static bw_status read_text(bw_ctx *ctx, bw_catalogue *c, bw_str text, bw_str *date)
{
    bw_json *root;
    bw_str own;
    bw_status st = bw_arena_str(c->mem, text, &own); /* rows point into it */
    if (st == BW_OK)
        st = bw_json_parse(c->mem, own, BW_JSON_REQUEST, &root);
    if (st != BW_OK)
        return bw_ctx_take_error(ctx, c->mem, st);
    if (root->kind != BW_JSON_OBJECT)
        return bw_fail(ctx, BW_EINVALID, "catalogue: expected an object");
    member_str(root, "date", date);
    for (int which = 0; which < NTABLES && st == BW_OK; which++)
        st = read_table(ctx, c, which, root);
    return st == BW_OK ? read_words(ctx, c, root) : st;
}

static bw_status build(bw_ctx *ctx, bw_catalogue *c, bw_str text, bw_str overlay)
{
    bw_str date = {0};
    unsigned char digest[16];
    crypto_generichash_state hash;
    c->mem = bw_ctx_new(0);
    c->words = bw_map_new();
    c->members = bw_map_new();
    for (int i = 0; i < NTABLES; i++)
        if (!(c->rows[i] = bw_map_new()))
            return bw_fail_nomem(ctx);
    if (!c->mem || !c->words || !c->members)
        return bw_fail_nomem(ctx);
    bw_status st = read_text(ctx, c, text, &date);
    if (st == BW_OK && overlay.len)
        st = read_text(ctx, c, overlay, &date);
    if (st == BW_OK)
        st = check_rows(ctx, c);
    if (st == BW_OK)
        st = make_entities(ctx, c);
    if (st != BW_OK)
        return st;
    crypto_generichash_init(&hash, NULL, 0, sizeof digest);
    crypto_generichash_update(&hash, (const unsigned char *)c->entities.ptr,
                              c->entities.len);
    bw_str key;
    for (size_t it = 0; bw_map_next(c->words, &it, &key, NULL);) {
        crypto_generichash_update(&hash, (const unsigned char *)"\n", 1);
        crypto_generichash_update(&hash, (const unsigned char *)key.ptr, key.len);
    }
    crypto_generichash_final(&hash, digest, sizeof digest);
    char hex[2 * sizeof digest + 1];
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    bw_buf v = {0};
    bw_buf_printf(&v, "%.*s/%s", (int)(date.len < 20 ? date.len : 20),
                  date.ptr ? date.ptr : "", hex);
    if (!v.failed && v.len < sizeof c->version)
        memcpy(c->version, v.ptr, v.len);
    bw_buf_clear(&v);
    return c->version[0] ? BW_OK : bw_fail_nomem(ctx);
}

bw_status bw_catalogue_parse(bw_ctx *ctx, bw_str text, bw_str overlay,
                             bw_catalogue **out)
{
    bw_catalogue *c = bw_calloc(1, sizeof *c);
    if (!c)
        return bw_fail_nomem(ctx);
    bw_status st = build(ctx, c, text, overlay);
    if (st != BW_OK) {
        bw_catalogue_free(c);
        return st;
    }
    *out = c;
    return BW_OK;
}

void bw_catalogue_free(bw_catalogue *c)
{
    if (!c)
        return;
    for (int i = 0; i < NTABLES; i++)
        bw_map_free(c->rows[i]);
    bw_map_free(c->words);
    bw_map_free(c->members);
    bw_buf_clear(&c->entities);
    bw_ctx_free(c->mem);
    bw_free(c);
}

bw_str bw_catalogue_version(const bw_catalogue *c)
{
    return bw_str_c(c->version);
}

void bw_catalogue_put_entities(const bw_catalogue *c, bw_buf *out)
{
    if (c->entities.len == 0)
        return;
    bw_json_sep(out);
    bw_buf_put(out, c->entities.ptr, c->entities.len);
}
