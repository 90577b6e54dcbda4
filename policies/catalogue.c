/* The catalogue (catalogue.h): reads the pack's tables with the operator's rows over
 * them, checks shape and names, and tells whether they know a place or a word.
 *
 *   {"schema": "bailiwick.catalogue/2", "date", "notice",
 *    "zones": [{"id", "kind": "group"|"allow"|"deny", "in": [zone…], "countries":
 * [code…], "members": "researched", "unknown": true, "regime", "name"}], "countries":
 * [{"code", "alpha3", "name", "in": [zone…], "part_of"}], "localisation": [{"country",
 * "level": strict…|null, "laws": [text…], "summary"}], "foreign_access": [{"country",
 * "law"|null, "extraterritorial"|null, "summary"}], "adequacy": [{"regime", "country",
 * "status", "certs": [word…]|null, "decision", …}], "organisations": [{"id", "name",
 * "kind", "regime", "status", …}], "legal_entities": [{"id", "seat", "control_zones":
 * [zone…]|null, "foreign_share_max"|null, "foreign_share_sum"|null, "baa_with":
 * [tenant…], "certs": [word…]|null}], "vocabulary": {kind: [{"word", "zone",
 * "conditional"}]}}
 *
 * Every row is one fact and has "source" and "date" of its own; "confidence" and "note"
 * may be there (catalogue_rows.c has the members). An overlay has the same shape: a row
 * with a known key (id, code, country, country and law, regime and country, kind and
 * word) takes the place of the pack's, and "remove": true takes it away; so an operator
 * can withdraw an adequacy decision the day it falls.
 *
 * Left out: anything that reads the clock; `catalogue check --as-of` tells what is old
 * or expired, and an expired decision is removed by whoever keeps the file. */
#include "catalogue_impl.h"

#include "../engine/base/map.h"

#include <sodium.h>
#include <stdlib.h>

enum { ROWS_MAX = 8192, DATE_TEXT = 10 };
static const bw_json_limits limits = {
    .depth_max = 8, .nodes_max = 400000, .bytes_max = 4 << 20};

typedef struct merging { /* maps of one load: key -> row */
    bw_map *rows[BW_CAT_TABLES], *removed[BW_CAT_TABLES];
    bw_map *seen; /* "table\nkey" of the file at hand */
    bw_str date;
} merging;

/* ---- reading ---- */

static int by_key(const void *a, const void *b)
{
    return bw_str_cmp(((const bw_cat_row *)a)->key, ((const bw_cat_row *)b)->key);
}

const bw_json *bw_catalogue__get(const bw_catalogue *c, int table, bw_str key)
{
    bw_cat_row want = {.key = key};
    const bw_cat_row *found =
        c->nrows[table]
            ? bsearch(&want, c->rows[table], c->nrows[table], sizeof want, by_key)
            : NULL;
    return found ? found->json : NULL;
}

const bw_json *bw_catalogue__get2(const bw_catalogue *c, int table, bw_str a, bw_str b)
{
    char key[BW_CAT_KEY_MAX];
    if (a.len > BW_CAT_WORD_MAX || b.len > BW_CAT_WORD_MAX)
        return NULL;
    memcpy(key, a.ptr, a.len);
    key[a.len] = '\n';
    memcpy(key + a.len + 1, b.ptr, b.len);
    return bw_catalogue__get(c, table, (bw_str){key, a.len + 1 + b.len});
}

bool bw_catalogue__ours(const bw_catalogue *c, const bw_json *row)
{
    uintptr_t at = (uintptr_t)row->raw.ptr, start = (uintptr_t)c->overlay.ptr;
    return c->overlay.len > 0 && at >= start && at < start + c->overlay.len;
}

bw_str bw_catalogue__str(const bw_json *row, const char *name)
{
    const bw_json *v = bw_json_get(row, name);
    return v && v->kind == BW_JSON_STRING ? v->str : (bw_str){"", 0};
}

bool bw_catalogue__true(const bw_json *row, const char *name)
{
    const bw_json *v = bw_json_get(row, name);
    return v && v->kind == BW_JSON_TRUE;
}

bool bw_catalogue_has_country(const bw_catalogue *c, bw_str code)
{
    return bw_catalogue__get(c, BW_CAT_COUNTRIES, code) != NULL;
}

bool bw_catalogue_has_zone(const bw_catalogue *c, bw_str zone)
{
    return bw_catalogue__get(c, BW_CAT_ZONES, zone) ||
           bw_catalogue_has_country(c, zone);
}

bool bw_catalogue_has_residency(const bw_catalogue *c, bw_str zone)
{
    const bw_json *row = bw_catalogue__get(c, BW_CAT_ZONES, zone);
    return row ? !bw_str_is(bw_catalogue__str(row, "kind"), "deny")
               : bw_catalogue_has_country(c, zone);
}

bool bw_catalogue_has_word(const bw_catalogue *c, const char *kind, bw_str word)
{
    return word.len > 0 && bw_catalogue__get2(c, BW_CAT_WORDS, bw_str_c(kind), word);
}

/* ---- merging ---- */

static bw_status put_row(bw_ctx *ctx, bw_catalogue *c, merging *m, int table,
                         bw_str key, const bw_json *row)
{
    bool fresh, gone = bw_catalogue__true(row, "remove");
    char *once = bw_arena_printf(c->mem, "%d\n%.*s", table, (int)key.len, key.ptr);
    uint64_t *slot = once ? bw_map_put(m->seen, once, strlen(once), &fresh) : NULL;
    if (!slot)
        return bw_fail_nomem(ctx);
    if (!fresh)
        return bw_catalogue__bad(ctx, c, row, "a second row with the same key");
    if (gone && !bw_map_remove(m->rows[table], key.ptr, key.len))
        return bw_catalogue__bad(ctx, c, row, "there is no row of this key to remove");
    slot =
        bw_map_put(gone ? m->removed[table] : m->rows[table], key.ptr, key.len, NULL);
    if (!slot)
        return bw_fail_nomem(ctx);
    *slot = (uint64_t)(uintptr_t)row;
    return bw_map_count(m->rows[table]) <= ROWS_MAX
               ? BW_OK
               : bw_catalogue__bad(ctx, c, row, "more than %d rows", ROWS_MAX);
}

static bw_status read_rows(bw_ctx *ctx, bw_catalogue *c, merging *m, int table,
                           bw_str kind, const bw_json *list)
{
    if (list->kind != BW_JSON_ARRAY)
        return bw_catalogue__bad(ctx, c, list, "expected a list of rows");
    for (const bw_json *row = list->child; row; row = row->next) {
        bw_str key;
        bw_status st = bw_catalogue__check_shape(ctx, c, table, kind, row, &key);
        if (st == BW_OK)
            st = put_row(ctx, c, m, table, key, row);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status read_words(bw_ctx *ctx, bw_catalogue *c, merging *m,
                            const bw_json *all)
{
    if (all->kind != BW_JSON_OBJECT)
        return bw_catalogue__bad(ctx, c, all, "expected lists of words by kind");
    for (const bw_json *kind = all->child; kind; kind = kind->next) {
        if (!bw_catalogue__is_kind(kind->key))
            return bw_catalogue__bad(ctx, c, kind, "no kind of words");
        bw_status st = read_rows(ctx, c, m, BW_CAT_WORDS, kind->key, kind);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status read_top(bw_ctx *ctx, bw_catalogue *c, merging *m, const bw_json *v)
{
    if (bw_str_is(v->key, "schema"))
        return v->kind == BW_JSON_STRING && bw_str_is(v->str, "bailiwick.catalogue/2")
                   ? BW_OK
                   : bw_catalogue__bad(ctx, c, v,
                                       "this version reads \"bailiwick.catalogue/2\"");
    if (bw_str_is(v->key, "notice"))
        return v->kind == BW_JSON_STRING
                   ? BW_OK
                   : bw_catalogue__bad(ctx, c, v, "expected a text");
    if (bw_str_is(v->key, "date")) {
        if (v->kind != BW_JSON_STRING || !bw_catalogue__is_date(v->str, NULL))
            return bw_catalogue__bad(ctx, c, v, "expected a date, YYYY-MM-DD");
        if (bw_str_cmp(v->str, m->date) > 0)
            m->date = v->str;
        return BW_OK;
    }
    for (int t = 0; t < BW_CAT_TABLES; t++)
        if (bw_str_eq(v->key, bw_str_c(bw_catalogue__table(t))))
            return t == BW_CAT_WORDS ? read_words(ctx, c, m, v)
                                     : read_rows(ctx, c, m, t, (bw_str){"", 0}, v);
    return bw_catalogue__bad(ctx, c, v, "unknown member");
}

static bw_status read_text(bw_ctx *ctx, bw_catalogue *c, merging *m, bw_str text,
                           bool overlay)
{
    bw_json *root;
    bw_str own;
    bw_status st = bw_arena_str(c->mem, text, &own); /* rows point into it */
    if (st == BW_OK)
        st = bw_json_parse(c->mem, own, limits, &root);
    if (st != BW_OK)
        return bw_ctx_take_error(ctx, c->mem, st);
    if (overlay)
        c->overlay = own;
    if (root->kind != BW_JSON_OBJECT)
        return bw_catalogue__bad(ctx, c, root, "expected an object");
    bw_map_free(m->seen);
    if (!(m->seen = bw_map_new()))
        return bw_fail_nomem(ctx);
    for (const bw_json *v = root->child; v; v = v->next)
        if ((st = read_top(ctx, c, m, v)) != BW_OK)
            return st;
    return m->date.len || overlay ? BW_OK
                                  : bw_catalogue__bad(ctx, c, root, "has no date");
}

/* The rows of a map by key, in c->mem. */
static bw_status sorted(bw_ctx *ctx, bw_catalogue *c, const bw_map *map,
                        bw_cat_row **out, size_t *n)
{
    bw_str key;
    uint64_t *value;
    bw_cat_row *rows = bw_arena_alloc(c->mem, (bw_map_count(map) + 1) * sizeof *rows);
    if (!rows)
        return bw_fail_nomem(ctx);
    *n = 0;
    for (size_t it = 0; bw_map_next(map, &it, &key, &value); (*n)++) {
        rows[*n].json = (const bw_json *)(uintptr_t)*value;
        if (bw_arena_str(c->mem, key, &rows[*n].key) != BW_OK)
            return bw_fail_nomem(ctx);
    }
    if (*n)
        qsort(rows, *n, sizeof *rows, by_key);
    *out = rows;
    return BW_OK;
}

static bw_status merge(bw_ctx *ctx, bw_catalogue *c, merging *m, bw_str text,
                       bw_str overlay)
{
    for (int t = 0; t < BW_CAT_TABLES; t++)
        if (!(m->rows[t] = bw_map_new()) || !(m->removed[t] = bw_map_new()))
            return bw_fail_nomem(ctx);
    bw_status st = read_text(ctx, c, m, text, false);
    if (st == BW_OK &&
        overlay.ptr) /* a file cut to nothing withdraws nothing: refused */
        st = read_text(ctx, c, m, overlay, true);
    for (int t = 0; t < BW_CAT_TABLES && st == BW_OK; t++) {
        st = sorted(ctx, c, m->rows[t], &c->rows[t], &c->nrows[t]);
        if (st == BW_OK)
            st = sorted(ctx, c, m->removed[t], &c->removed[t], &c->nremoved[t]);
    }
    for (int t = 0; t < BW_CAT_TABLES; t++)
        for (size_t i = 0; i < c->nrows[t] && st == BW_OK; i++)
            st = bw_catalogue__check_names(ctx, c, t, c->rows[t][i].json);
    return st;
}

/* ---- version ---- */

static int by_name(const void *a, const void *b)
{
    return bw_str_cmp((*(const bw_json *const *)a)->key,
                      (*(const bw_json *const *)b)->key);
}

static int by_text(const void *a, const void *b)
{
    return bw_str_cmp((*(const bw_json *const *)a)->str,
                      (*(const bw_json *const *)b)->str);
}

enum { MEMBERS_MAX = 16, LIST_MAX = 1024 }; /* catalogue_rows.c refuses more */

/* Members of an object, or texts of a list, in order. */
static size_t in_order(const bw_json *v, const bw_json *out[], size_t cap,
                       int (*order)(const void *, const void *))
{
    size_t n = 0;
    for (const bw_json *e = v->child; e; e = e->next) {
        bw_require(n < cap);
        out[n++] = e;
    }
    if (n)
        qsort(out, n, sizeof *out, order);
    return n;
}

static void put_value(bw_buf *b, const bw_json *v)
{
    if (v->kind == BW_JSON_STRING) {
        bw_json_put_str(b, v->str);
    } else if (v->kind == BW_JSON_ARRAY) {
        const bw_json *items[LIST_MAX];
        size_t n = in_order(v, items, LIST_MAX, by_text);
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < n; i++) {
            bw_json_sep(b);
            bw_json_put_str(b, items[i]->str);
        }
        bw_buf_putc(b, ']');
    } else {
        bw_buf_str(b, v->raw);
    }
}

void bw_catalogue__put_row(bw_buf *b, const bw_json *row)
{
    const bw_json *members[MEMBERS_MAX];
    size_t n = in_order(row, members, MEMBERS_MAX, by_name);
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, members[i]->key);
        bw_buf_putc(b, ':');
        put_value(b, members[i]);
    }
    bw_buf_putc(b, '}');
}

static bw_status make_version(bw_ctx *ctx, bw_catalogue *c, bw_str date)
{
    unsigned char digest[16];
    char hex[2 * sizeof digest + 1];
    bw_buf b = {0};
    for (int t = 0; t < BW_CAT_TABLES; t++) {
        bw_buf_printf(&b, "\n%s", bw_catalogue__table(t));
        for (size_t i = 0; i < c->nrows[t]; i++) {
            bw_json_put_str(
                &b, c->rows[t][i].key); /* the kind of a word is in its key alone */
            bw_catalogue__put_row(&b, c->rows[t][i].json);
        }
    }
    bool failed = b.failed;
    if (!failed) {
        bw_require(crypto_generichash(digest, sizeof digest,
                                      (const unsigned char *)b.ptr, b.len, NULL,
                                      0) == 0);
        sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
        bw_require(date.len == DATE_TEXT);
        memcpy(c->version, date.ptr, DATE_TEXT);
        c->version[DATE_TEXT] = '/';
        memcpy(c->version + DATE_TEXT + 1, hex, sizeof hex);
    }
    bw_buf_clear(&b);
    return failed ? bw_fail_nomem(ctx) : BW_OK;
}

bw_str bw_catalogue_version(const bw_catalogue *c)
{
    return bw_str_c(c->version);
}

/* ---- life ---- */

static bw_status build(bw_ctx *ctx, bw_catalogue *c, bw_str text, bw_str overlay)
{
    merging m = {0};
    if (!(c->mem = bw_ctx_new(0)))
        return bw_fail_nomem(ctx);
    bw_status st = merge(ctx, c, &m, text, overlay);
    if (st == BW_OK)
        st = bw_catalogue__make_places(ctx, c);
    if (st == BW_OK)
        st = bw_catalogue__make_entities(ctx, c);
    if (st == BW_OK)
        st = make_version(ctx, c, m.date);
    for (int t = 0; t < BW_CAT_TABLES; t++) {
        bw_map_free(m.rows[t]);
        bw_map_free(m.removed[t]);
    }
    bw_map_free(m.seen);
    return st;
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
    bw_buf_clear(&c->entities);
    bw_ctx_free(c->mem);
    bw_free(c);
}
