/* The market's loader (offers.h): one generic reader driven by a table of members for
 * each kind of row. Every member is known by name, type and limits, or refused; every
 * row says its source and date. References are checked once all files are read, so that
 * an overlay may add a provider and its regions in any order.
 *
 * Left out: prices that move by the hour, and anything that fetches. */
#include "offers.h"
#include "../engine/base/map.h"
#include "../engine/base/unseen.h"

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FILE_BYTES_MAX = 8 << 20,
    ROWS_MAX = 20000,
    LIST_MAX = 512,
    ID_MAX = 100,
    TEXT_MAX = 2000,
    KEY_MAX = 3 * ID_MAX + 3,
    VERSION_TEXT = 64
};
static const double NUMBER_MAX = 1e9;

/* ---- what a row may hold ---- */

typedef enum kind { ID, TEXT, WORD, NUMBER, BOOL, TEXTS, DATE, COUNTRY } kind;
enum { REQUIRED = 1, NULLABLE = 2, POSITIVE = 4 };

typedef struct field {
    const char *name;
    kind kind;
    int rule;
    size_t at;         /* offset in the row */
    const char *words; /* WORD: "a|b|c" */
} field;

#define AT(type, member) offsetof(type, member)
#define FACT                                                              \
    {"source", TEXT, REQUIRED, AT(bw_fact, source), NULL},                \
        {"date", DATE, REQUIRED, AT(bw_fact, date), NULL},                \
        {"note", TEXT, 0, AT(bw_fact, note), NULL},                       \
    {                                                                     \
        "confidence", WORD, 0, AT(bw_fact, confidence), "high|medium|low" \
    }

static const field entity_fields[] = {
    {"id", ID, REQUIRED, AT(bw_legal, id), NULL},
    {"name", TEXT, 0, AT(bw_legal, name), NULL},
    {"seat", COUNTRY, REQUIRED | NULLABLE, AT(bw_legal, seat), NULL},
    {"control_zones", TEXTS, REQUIRED | NULLABLE, AT(bw_legal, control_zones), NULL},
    {"foreign_share_max", ID, REQUIRED | NULLABLE, AT(bw_legal, share_max), NULL},
    {"foreign_share_sum", ID, REQUIRED | NULLABLE, AT(bw_legal, share_sum), NULL},
    {"baa_with", TEXTS, 0, AT(bw_legal, baa_with), NULL},
    {"certs", TEXTS, 0, AT(bw_legal, certs), NULL},
    FACT};
static const field provider_fields[] = {
    {"id", ID, REQUIRED, AT(bw_provider, id), NULL},
    {"name", TEXT, REQUIRED, AT(bw_provider, name), NULL},
    {"kind", WORD, REQUIRED, AT(bw_provider, kind),
     "hyperscaler|gpu-cloud|marketplace|sovereign-cloud|on-prem"},
    {"entity", ID, REQUIRED, AT(bw_provider, entity), NULL},
    {"spot", BOOL, REQUIRED, AT(bw_provider, spot), NULL},
    {"decentralised", BOOL, 0, AT(bw_provider, decentralised), NULL},
    {"inference_api", TEXTS, REQUIRED | NULLABLE, AT(bw_provider, inference_api), NULL},
    {"foreign_law_exposure", TEXTS, 0, AT(bw_provider, foreign_law), NULL},
    FACT};
static const field region_fields[] = {
    {"id", ID, REQUIRED, AT(bw_region, id), NULL},
    {"provider", ID, REQUIRED, AT(bw_region, provider_id), NULL},
    {"native_id", ID, 0, AT(bw_region, native_id), NULL},
    {"country", COUNTRY, REQUIRED | NULLABLE, AT(bw_region, country), NULL},
    {"city", TEXT, 0, AT(bw_region, city), NULL},
    {"operator", ID, 0, AT(bw_region, operator_id), NULL},
    {"partition", TEXT, 0, AT(bw_region, partition), NULL},
    {"access", WORD, REQUIRED, AT(bw_region, access),
     "general|dedicated|restricted|announced"},
    {"accelerators", TEXTS, REQUIRED | NULLABLE, AT(bw_region, accelerators), NULL},
    {"services", TEXTS, 0, AT(bw_region, services), NULL},
    {"hw", TEXTS, 0, AT(bw_region, hw), NULL},
    FACT};
static const field word_fields[] = {
    {"name", ID, REQUIRED, AT(bw_cert_word, name), NULL},
    {"word", ID, REQUIRED, AT(bw_cert_word, word), NULL},
    FACT};
static const field certification_fields[] = {
    {"id", ID, REQUIRED, AT(bw_certification, id), NULL},
    {"provider", ID, REQUIRED, AT(bw_certification, provider_id), NULL},
    {"name", ID, REQUIRED, AT(bw_certification, name), NULL},
    {"status", WORD, REQUIRED, AT(bw_certification, status), "held|not-held|unknown"},
    {"regions", TEXTS, REQUIRED | NULLABLE, AT(bw_certification, regions), NULL},
    {"scope", TEXT, 0, AT(bw_certification, scope), NULL},
    FACT};
static const field accelerator_fields[] = {
    {"id", ID, REQUIRED, AT(bw_accelerator, id), NULL},
    {"vendor", ID, REQUIRED, AT(bw_accelerator, vendor), NULL},
    {"kind", WORD, REQUIRED, AT(bw_accelerator, kind), "gpu|asic|cpu"},
    {"isa", TEXTS, 0, AT(bw_accelerator, isa), NULL},
    {"memory_gb", NUMBER, REQUIRED | NULLABLE | POSITIVE, AT(bw_accelerator, memory_gb),
     NULL},
    {"memory_bw_gbs", NUMBER, REQUIRED | NULLABLE | POSITIVE,
     AT(bw_accelerator, memory_bw_gbs), NULL},
    {"fp16_tflops", NUMBER, REQUIRED | NULLABLE | POSITIVE,
     AT(bw_accelerator, fp16_tflops), NULL},
    {"bf16_tflops", NUMBER, REQUIRED | NULLABLE | POSITIVE,
     AT(bw_accelerator, bf16_tflops), NULL},
    {"int8_tops", NUMBER, REQUIRED | NULLABLE | POSITIVE, AT(bw_accelerator, int8_tops),
     NULL},
    FACT};
static const field instance_fields[] = {
    {"id", ID, REQUIRED, AT(bw_instance, id), NULL},
    {"provider", ID, REQUIRED, AT(bw_instance, provider_id), NULL},
    {"native_id", ID, NULLABLE, AT(bw_instance, native_id), NULL},
    {"accelerator", ID, REQUIRED, AT(bw_instance, accelerator_id), NULL},
    {"accelerator_count", NUMBER, REQUIRED, AT(bw_instance, accelerator_count), NULL},
    {"vcpu", NUMBER, REQUIRED | NULLABLE | POSITIVE, AT(bw_instance, vcpu), NULL},
    {"memory_gib", NUMBER, REQUIRED | NULLABLE | POSITIVE, AT(bw_instance, memory_gib),
     NULL},
    {"spot", BOOL, REQUIRED, AT(bw_instance, spot), NULL},
    {"hw", TEXTS, 0, AT(bw_instance, hw), NULL},
    FACT};
static const field price_fields[] = {
    {"instance", ID, REQUIRED, AT(bw_price, instance_id), NULL},
    {"region", ID, REQUIRED, AT(bw_price, region_id), NULL},
    {"market", WORD, REQUIRED, AT(bw_price, market), "on-demand|spot"},
    {"per_hour", NUMBER, REQUIRED, AT(bw_price, per_hour), NULL},
    {"currency", ID, NULLABLE, AT(bw_price, currency), NULL},
    {"stale", BOOL, 0, AT(bw_price, stale), NULL},
    FACT};
static const field rate_fields[] = {
    {"from", ID, REQUIRED, AT(bw_rate, from), NULL},
    {"to", ID, REQUIRED, AT(bw_rate, to), NULL},
    {"value", NUMBER, REQUIRED | POSITIVE, AT(bw_rate, value), NULL},
    FACT};

static const struct table {
    const char *name, *key[3]; /* the members that make a row's key */
    const field *fields;
    size_t nfields, bytes;
} tables[BW_MARKET_TABLES] = {
#define TABLE(name, type, fields, ...)                                            \
    {                                                                             \
        name, {__VA_ARGS__}, fields, sizeof fields / sizeof *fields, sizeof(type) \
    }
    TABLE("entities", bw_legal, entity_fields, "id"),
    TABLE("providers", bw_provider, provider_fields, "id"),
    TABLE("regions", bw_region, region_fields, "id"),
    TABLE("cert_words", bw_cert_word, word_fields, "name"),
    TABLE("certifications", bw_certification, certification_fields, "id"),
    TABLE("accelerators", bw_accelerator, accelerator_fields, "id"),
    TABLE("instances", bw_instance, instance_fields, "id"),
    TABLE("prices", bw_price, price_fields, "instance", "region", "market"),
    TABLE("rates", bw_rate, rate_fields, "from", "to"),
};

typedef struct row {
    bw_str key;
    void *value;
    const char *file;
    size_t file_at;
    size_t list_at; /* its number in that file, for messages */
} row;

struct bw_market {
    bw_ctx *mem;                     /* owns texts, trees and rows */
    bw_map *index[BW_MARKET_TABLES]; /* key -> row */
    row *rows[BW_MARKET_TABLES];     /* sorted by key */
    size_t n[BW_MARKET_TABLES];
    const bw_certification **certs; /* by provider, then id */
    char version[VERSION_TEXT];
};

typedef struct reading {
    bw_ctx *ctx;
    bw_market *m;
    const bw_catalogue *catalogue;
    const char *file;
    size_t file_at; /* its number */
} reading;

static bw_status bad(const reading *r, const bw_json *v, const char *what)
{
    const char *at = bw_json_pointer(r->ctx, v);
    return at ? bw_fail_at(r->ctx, BW_EINVALID, at, "%s: %s", r->file, what)
              : BW_ENOMEM;
}

/* ---- members ---- */

static bool id_ok(bw_str s)
{
    if (s.len == 0 || s.len > ID_MAX || s.ptr[0] == ' ' || s.ptr[s.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < ' ' || s.ptr[i] > '~')
            return false;
    return true;
}

static bool word_ok(bw_str s, const char *words)
{
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, "|");
        if (bw_str_eq(s, (bw_str){w, n}))
            return true;
        w += n + (w[n] == '|');
    }
    return false;
}

/* Texts reach terminals as they are, so none may give orders to one. */
static bool text_ok(bw_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (bw_utf8_unseen(s.ptr + i, s.len - i) > 0)
            return false;
    return s.len > 0 && s.len <= TEXT_MAX;
}

/* "2026", "2026-07" or "2026-07-20": as fine as it is known. */
static bool date_ok(bw_str s)
{
    static const char day[] = "2000-01-01";
    char whole[sizeof day];
    int64_t ns;
    if (s.len != 4 && s.len != 7 && s.len != 10)
        return false;
    memcpy(whole, day, sizeof day);
    memcpy(whole, s.ptr, s.len);
    for (size_t i = 0; i < sizeof day - 1; i++)
        if (i == 4 || i == 7 ? whole[i] != '-' : whole[i] < '0' || whole[i] > '9')
            return false;
    return bw_time_parse((bw_str){whole, sizeof day - 1}, &ns);
}

static bw_status read_texts(const reading *r, const bw_json *v, bw_texts *out)
{
    if (v->kind != BW_JSON_ARRAY || v->count > LIST_MAX)
        return bad(r, v, "wants a list of at most 512 texts");
    bw_str *items = bw_arena_calloc(r->m->mem, v->count + 1, sizeof *items);
    size_t n = 0;
    if (!items)
        return bw_fail_nomem(r->ctx);
    for (const bw_json *e = v->child; e; e = e->next) {
        if (e->kind != BW_JSON_STRING || !text_ok(e->str))
            return bad(r, e, "wants a text of 1 to 2000 bytes, no control characters");
        items[n++] = e->str;
    }
    *out = (bw_texts){items, n};
    return BW_OK;
}

static bw_status read_string(const reading *r, const field *f, const bw_json *v,
                             bw_str *out)
{
    if (v->kind != BW_JSON_STRING || !text_ok(v->str))
        return bad(r, v, "wants a text of 1 to 2000 bytes, no control characters");
    if (f->kind == ID && !id_ok(v->str))
        return bad(r, v, "wants 1 to 100 printable ASCII characters");
    if (f->kind == WORD && !word_ok(v->str, f->words))
        return bad(r, v, "is none of the words allowed here");
    if (f->kind == DATE && !date_ok(v->str))
        return bad(r, v, "wants a date: YYYY, YYYY-MM or YYYY-MM-DD");
    if (f->kind == COUNTRY && !bw_catalogue_has_country(r->catalogue, v->str))
        return bad(r, v, "is no country of the catalogue");
    *out = v->str;
    return BW_OK;
}

static bw_status read_member(const reading *r, const field *f, const bw_json *v,
                             char *value)
{
    void *to = value + f->at;
    if (v->kind == BW_JSON_NULL)
        return f->rule & NULLABLE ? BW_OK : bad(r, v, "may not be null");
    switch (f->kind) {
    case BOOL:
        if (!bw_json_is_bool(v))
            return bad(r, v, "wants true or false");
        *(bool *)to = v->kind == BW_JSON_TRUE;
        return BW_OK;
    case NUMBER:
        if (v->kind != BW_JSON_NUMBER || !(v->real >= 0) || v->real > NUMBER_MAX ||
            (f->rule & POSITIVE && v->real < 1e-9))
            return bad(r, v,
                       f->rule & POSITIVE ? "wants a number above 0, at most 1e9"
                                          : "wants a number of 0 to 1e9");
        *(double *)to = v->real;
        return BW_OK;
    case TEXTS:
        return read_texts(r, v, to);
    default:
        return read_string(r, f, v, to);
    }
}

static bw_status read_row(const reading *r, const struct table *t, const bw_json *v,
                          void **out)
{
    char *value = bw_arena_calloc(r->m->mem, 1, t->bytes);
    if (!value)
        return bw_fail_nomem(r->ctx);
    for (size_t i = 0; i < t->nfields; i++)
        if (t->fields[i].kind == NUMBER)
            *(double *)(void *)(value + t->fields[i].at) = BW_UNKNOWN;
    for (const bw_json *e = v->child; e; e = e->next) {
        const field *f = NULL;
        for (size_t i = 0; i < t->nfields && !f; i++)
            if (bw_str_eq(e->key, bw_str_c(t->fields[i].name)))
                f = &t->fields[i];
        if (!f)
            return bad(r, e, "is no member of this table");
        bw_status st = f ? read_member(r, f, e, value) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    for (size_t i = 0; i < t->nfields; i++)
        if (t->fields[i].rule & REQUIRED && !bw_json_get(v, t->fields[i].name)) {
            char why[64];
            (void)snprintf(why, sizeof why, "lacks \"%s\"", t->fields[i].name);
            return bad(r, v, why);
        }
    *out = value;
    return BW_OK;
}

/* ---- tables ---- */

static bw_status row_key(const reading *r, const struct table *t, const bw_json *v,
                         char *key, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < 3 && t->key[i]; i++) {
        const bw_json *e = bw_json_get(v, t->key[i]);
        if (!e || e->kind != BW_JSON_STRING || !id_ok(e->str))
            return bad(r, e ? e : v, "is a row without a proper key");
        if (i)
            key[(*len)++] = '\n';
        memcpy(key + *len, e->str.ptr, e->str.len);
        *len += e->str.len;
    }
    return BW_OK;
}

/* {key…, "remove": true}, and on what ground; it has no facts. */
static bw_status remove_row(const reading *r, const struct table *t, bw_map *index,
                            const bw_json *v, bw_str key)
{
    static const char *const grounds[] = {"remove", "source", "date", "note"};
    const bw_json *gone = bw_json_get(v, "remove");
    if (gone->kind != BW_JSON_TRUE)
        return bad(r, gone, "wants true");
    for (const bw_json *e = v->child; e; e = e->next) {
        bool fits = false;
        for (size_t i = 0; i < 3 && t->key[i]; i++)
            fits = fits || bw_str_eq(e->key, bw_str_c(t->key[i]));
        for (size_t i = 0; i < sizeof grounds / sizeof *grounds; i++)
            fits = fits || bw_str_eq(e->key, bw_str_c(grounds[i]));
        if (!fits)
            return bad(r, e, "has no place in a removal");
    }
    return bw_map_remove(index, key.ptr, key.len)
               ? BW_OK
               : bad(r, gone, "removes a row that is not there");
}

static bw_status keep_row(const reading *r, int which, const bw_json *v, size_t at)
{
    const struct table *t = &tables[which];
    bw_map *index = r->m->index[which];
    char key[KEY_MAX];
    size_t len;
    void *value = NULL;
    if (v->kind != BW_JSON_OBJECT)
        return bad(r, v, "wants an object");
    bw_status st = row_key(r, t, v, key, &len);
    if (st != BW_OK)
        return st;
    uint64_t *slot = bw_map_get(index, key, len);
    if (slot && ((const row *)(uintptr_t)*slot)->file_at == r->file_at)
        return bad(r, v, "is a second row with the same key");
    if (bw_json_get(v, "remove"))
        return remove_row(r, t, index, v, (bw_str){key, len});
    st = read_row(r, t, v, &value);
    if (st != BW_OK)
        return st;
    if (!slot && bw_map_count(index) >= ROWS_MAX)
        return bad(r, v, "is a row too many");
    row *kept = bw_arena_alloc(r->m->mem, sizeof *kept);
    slot = kept ? bw_map_put(index, key, len, NULL) : NULL;
    if (!slot || bw_arena_str(r->m->mem, (bw_str){key, len}, &kept->key) != BW_OK)
        return bw_fail_nomem(r->ctx);
    kept->value = value;
    kept->file = r->file;
    kept->file_at = r->file_at;
    kept->list_at = at;
    *slot = (uint64_t)(uintptr_t)kept;
    return BW_OK;
}

static bw_status read_table(const reading *r, int which, const bw_json *list)
{
    size_t at = 0;
    if (list->kind != BW_JSON_ARRAY)
        return bad(r, list, "wants a list of rows");
    for (const bw_json *v = list->child; v; v = v->next) {
        bw_status st = keep_row(r, which, v, at++);
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status read_root(const reading *r, const bw_json *root, bw_str *date)
{
    if (root->kind != BW_JSON_OBJECT)
        return bad(r, root, "wants an object");
    const bw_json *schema = bw_json_get(root, "schema");
    if (!schema || schema->kind != BW_JSON_STRING ||
        !bw_str_is(schema->str, "bailiwick.market/1"))
        return bad(r, root, "wants \"schema\": \"bailiwick.market/1\"");
    const bw_json *day = bw_json_get(root, "date");
    if (!day || day->kind != BW_JSON_STRING || !date_ok(day->str))
        return bad(r, root, "wants \"date\": YYYY-MM-DD");
    *date = day->str;
    for (const bw_json *v = root->child; v; v = v->next) {
        int which = 0;
        while (which < BW_MARKET_TABLES &&
               !bw_str_eq(v->key, bw_str_c(tables[which].name)))
            which++;
        if (which == BW_MARKET_TABLES && v != schema && v != day)
            return bad(r, v, "is no table of the market");
        bw_status st = which < BW_MARKET_TABLES ? read_table(r, which, v) : BW_OK;
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static bw_status read_file(reading *r, const bw_market_file *f, bw_str *date)
{
    bw_json *root;
    bw_str own; /* rows point into it */
    bw_ctx *mem = r->m->mem;
    r->file = f->name;
    if (f->text.len > FILE_BYTES_MAX)
        return bw_fail(r->ctx, BW_EINVALID, "%s: more than 8 MiB", f->name);
    bw_status st = bw_arena_str(mem, f->text, &own);
    if (st == BW_OK)
        st = bw_json_parse(mem, own, BW_JSON_REQUEST, &root);
    if (st == BW_EINVALID)
        return bw_fail_at(r->ctx, st, bw_ctx_pointer(mem), "%s: %s", f->name,
                          bw_ctx_message(mem));
    return st == BW_OK ? read_root(r, root, date) : bw_ctx_take_error(r->ctx, mem, st);
}

/* ---- references ---- */

static bw_status bad_row(const reading *r, int which, const row *w, const char *why)
{
    char at[64];
    (void)snprintf(at, sizeof at, "/%s/%zu", tables[which].name, w->list_at);
    return bw_fail_at(r->ctx, BW_EINVALID, at, "%s: %s", w->file, why);
}

static bw_status lost(const reading *r, int which, const row *w, const char *what,
                      bw_str name)
{
    char why[ID_MAX + 40];
    (void)snprintf(why, sizeof why, "%s \"%.*s\" is unknown", what,
                   (int)(name.len < ID_MAX ? name.len : ID_MAX), name.ptr);
    return bad_row(r, which, w, why);
}

static bw_status all_known(const reading *r, int which, const row *w, bw_texts list,
                           enum bw_market_table in, const char *what)
{
    for (size_t i = 0; i < list.n; i++)
        if (!bw_market_find(r->m, in, list.items[i]))
            return lost(r, which, w, what, list.items[i]);
    return BW_OK;
}

/* 0 to 100 with one to four decimals: what Cedar's decimal takes. */
static bool share_ok(bw_str s)
{
    size_t dot = 0;
    double v = 0;
    if (!s.ptr)
        return true;
    while (dot < s.len && s.ptr[dot] >= '0' && s.ptr[dot] <= '9')
        v = v * 10 + (s.ptr[dot++] - '0');
    if (dot == 0 || dot > 3 || dot + 2 > s.len || s.len > dot + 5 || s.ptr[dot] != '.')
        return false;
    for (size_t i = dot + 1; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9' || (v >= 100 && s.ptr[i] != '0'))
            return false;
    return v <= 100;
}

static bw_status link_entity(const reading *r, const row *w, bw_legal *e)
{
    for (size_t i = 0; i < e->control_zones.n; i++)
        if (!bw_catalogue_has_zone(r->catalogue, e->control_zones.items[i]))
            return lost(r, BW_MARKET_ENTITIES, w, "zone", e->control_zones.items[i]);
    if (!share_ok(e->share_max) || !share_ok(e->share_sum))
        return bad_row(
            r, BW_MARKET_ENTITIES, w,
            "a foreign share is per cent as a text, \"0.0\" to \"100.0\", or "
            "null if unknown");
    if (e->control_zones.items &&
        e->control_zones.n == 0) /* an empty set passes rules */
        return bad_row(r, BW_MARKET_ENTITIES, w,
                       "control_zones names at least one zone (null if not known)");
    return BW_OK;
}

static bw_status link_region(const reading *r, const row *w, bw_region *v)
{
    v->provider = bw_market_find(r->m, BW_MARKET_PROVIDERS, v->provider_id);
    if (!v->provider)
        return lost(r, BW_MARKET_REGIONS, w, "provider", v->provider_id);
    if (!v->operator_id.ptr)
        v->operator_id = v->provider->entity;
    v->operator= bw_market_find(r->m, BW_MARKET_ENTITIES, v->operator_id);
    if (!v->operator)
        return lost(r, BW_MARKET_REGIONS, w, "operator", v->operator_id);
    return all_known(r, BW_MARKET_REGIONS, w, v->accelerators, BW_MARKET_ACCELERATORS,
                     "accelerator");
}

static bw_status link_instance(const reading *r, const row *w, bw_instance *v)
{
    v->accelerator = bw_market_find(r->m, BW_MARKET_ACCELERATORS, v->accelerator_id);
    if (!v->accelerator)
        return lost(r, BW_MARKET_INSTANCES, w, "accelerator", v->accelerator_id);
    if (!bw_market_find(r->m, BW_MARKET_PROVIDERS, v->provider_id))
        return lost(r, BW_MARKET_INSTANCES, w, "provider", v->provider_id);
    if (bw_str_is(v->accelerator->kind, "cpu") != (v->accelerator_count < 1))
        return bad_row(r, BW_MARKET_INSTANCES, w,
                       "accelerator_count is 0 for a CPU type, else at least 1");
    return BW_OK;
}

static bw_status link_certification(const reading *r, const row *w,
                                    const bw_certification *v)
{
    if (!bw_market_find(r->m, BW_MARKET_PROVIDERS, v->provider_id))
        return lost(r, BW_MARKET_CERTIFICATIONS, w, "provider", v->provider_id);
    for (size_t i = 0; i < v->regions.n; i++) {
        const bw_region *reg =
            bw_market_find(r->m, BW_MARKET_REGIONS, v->regions.items[i]);
        if (!reg || !bw_str_eq(reg->provider_id, v->provider_id))
            return lost(r, BW_MARKET_CERTIFICATIONS, w, "region", v->regions.items[i]);
    }
    return BW_OK;
}

static bw_status link_price(const reading *r, const row *w, const bw_price *v)
{
    const bw_instance *i = bw_market_find(r->m, BW_MARKET_INSTANCES, v->instance_id);
    const bw_region *reg = bw_market_find(r->m, BW_MARKET_REGIONS, v->region_id);
    if (!i)
        return lost(r, BW_MARKET_PRICES, w, "instance", v->instance_id);
    if (!bw_str_is(v->region_id, "*") &&
        (!reg || !bw_str_eq(reg->provider_id, i->provider_id)))
        return lost(r, BW_MARKET_PRICES, w, "region", v->region_id);
    return BW_OK;
}

static bw_status link_row(const reading *r, int which, const row *w)
{
    switch (which) {
    case BW_MARKET_ENTITIES:
        return link_entity(r, w, w->value);
    case BW_MARKET_PROVIDERS: {
        const bw_provider *p = w->value;
        return bw_market_find(r->m, BW_MARKET_ENTITIES, p->entity)
                   ? BW_OK
                   : lost(r, which, w, "entity", p->entity);
    }
    case BW_MARKET_REGIONS:
        return link_region(r, w, w->value);
    case BW_MARKET_CERTIFICATIONS:
        return link_certification(r, w, w->value);
    case BW_MARKET_INSTANCES:
        return link_instance(r, w, w->value);
    case BW_MARKET_PRICES:
        return link_price(r, w, w->value);
    default:
        return BW_OK;
    }
}

static int by_key(const void *a, const void *b)
{
    return bw_str_cmp(((const row *)a)->key, ((const row *)b)->key);
}

static bw_status sort_rows(const reading *r, int which)
{
    bw_market *m = r->m;
    uint64_t *value;
    bw_str key;
    m->rows[which] =
        bw_arena_calloc(m->mem, bw_map_count(m->index[which]) + 1, sizeof(row));
    if (!m->rows[which])
        return bw_fail_nomem(r->ctx);
    for (size_t it = 0; bw_map_next(m->index[which], &it, &key, &value);)
        m->rows[which][m->n[which]++] = *(const row *)(uintptr_t)*value;
    qsort(m->rows[which], m->n[which], sizeof(row), by_key);
    return BW_OK;
}

static int by_holder(const void *x, const void *y)
{
    const bw_certification *a = *(const bw_certification *const *)x,
                           *b = *(const bw_certification *const *)y;
    int c = bw_str_cmp(a->provider_id, b->provider_id);
    return c ? c : bw_str_cmp(a->id, b->id);
}

/* Each region is held against its provider's certifications, and those against each
 * other: the limit keeps that short. */
static bw_status sort_certifications(const reading *r)
{
    bw_market *m = r->m;
    size_t n = m->n[BW_MARKET_CERTIFICATIONS], count = 0;
    m->certs = bw_arena_calloc(m->mem, n + 1, sizeof *m->certs);
    if (!m->certs)
        return bw_fail_nomem(r->ctx);
    for (size_t i = 0; i < n; i++)
        m->certs[i] = bw_market_row(m, BW_MARKET_CERTIFICATIONS, i);
    if (n)
        qsort(m->certs, n, sizeof *m->certs, by_holder);
    for (size_t i = 0; i < n; i++) {
        bw_str provider = m->certs[i]->provider_id;
        bool same = i && bw_str_eq(provider, m->certs[i - 1]->provider_id);
        count = same ? count + 1 : 1;
        if (count > LIST_MAX)
            return bw_fail_at(r->ctx, BW_EINVALID, "/certifications",
                              "provider \"%.*s\" has more than %d certifications",
                              (int)provider.len, provider.ptr, LIST_MAX);
    }
    return BW_OK;
}

static bw_status build(reading *r, const bw_market_file *files, size_t n)
{
    crypto_generichash_state hash;
    unsigned char digest[16];
    char hex[2 * sizeof digest + 1];
    bw_str date = {"", 0};
    bw_status st = BW_OK;
    crypto_generichash_init(&hash, NULL, 0, sizeof digest);
    for (size_t i = 0; i < n && st == BW_OK; i++) {
        uint64_t len = files[i].text.len;
        crypto_generichash_update(&hash, (const unsigned char *)&len, sizeof len);
        crypto_generichash_update(&hash, (const unsigned char *)files[i].text.ptr, len);
        r->file_at = i;
        st = read_file(r, &files[i], &date);
    }
    crypto_generichash_final(&hash, digest, sizeof digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    (void)snprintf(r->m->version, VERSION_TEXT, "%.*s/%s", (int)date.len, date.ptr,
                   hex);
    for (int t = 0; t < BW_MARKET_TABLES && st == BW_OK; t++)
        st = sort_rows(r, t);
    if (st == BW_OK)
        st = sort_certifications(r);
    for (int t = 0; t < BW_MARKET_TABLES; t++)
        for (size_t i = 0; i < r->m->n[t] && st == BW_OK; i++)
            st = link_row(r, t, &r->m->rows[t][i]);
    return st;
}

bw_status bw_market_load(bw_ctx *ctx, const bw_catalogue *catalogue,
                         const bw_market_file *files, size_t n, bw_market **out)
{
    bw_market *m = bw_calloc(1, sizeof *m);
    if (!m)
        return bw_fail_nomem(ctx);
    reading r = {.ctx = ctx, .m = m, .catalogue = catalogue};
    bool whole = (m->mem = bw_ctx_new(0)) != NULL;
    for (int t = 0; t < BW_MARKET_TABLES; t++)
        whole = (m->index[t] = bw_map_new()) != NULL && whole;
    bw_status st = whole ? build(&r, files, n) : bw_fail_nomem(ctx);
    if (st != BW_OK) {
        bw_market_free(m);
        return st;
    }
    *out = m;
    return BW_OK;
}

void bw_market_free(bw_market *m)
{
    if (!m)
        return;
    for (int t = 0; t < BW_MARKET_TABLES; t++)
        bw_map_free(m->index[t]);
    bw_ctx_free(m->mem);
    bw_free(m);
}

/* ---- looking up ---- */

bw_str bw_market_version(const bw_market *m)
{
    return bw_str_c(m->version);
}

size_t bw_market_count(const bw_market *m, enum bw_market_table t)
{
    return m->n[t];
}

const void *bw_market_row(const bw_market *m, enum bw_market_table t, size_t i)
{
    return i < m->n[t] ? m->rows[t][i].value : NULL;
}

const void *bw_market_find(const bw_market *m, enum bw_market_table t, bw_str id)
{
    const uint64_t *slot = bw_map_get(m->index[t], id.ptr, id.len);
    return slot ? ((const row *)(uintptr_t)*slot)->value : NULL;
}

const bw_certification *const *bw_market_certifications(const bw_market *m,
                                                        bw_str provider, size_t *n)
{
    size_t lo = 0, hi = m->n[BW_MARKET_CERTIFICATIONS], all = hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bw_str_cmp(m->certs[mid]->provider_id, provider) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*n = 0; lo + *n < all && bw_str_eq(m->certs[lo + *n]->provider_id, provider);)
        ++*n;
    return m->certs + lo;
}

static const void *find3(const bw_market *m, enum bw_market_table t, bw_str a, bw_str b,
                         bw_str c)
{
    const bw_str parts[3] = {a, b, c};
    char key[KEY_MAX];
    size_t n = 0;
    for (size_t i = 0; i < 3 && parts[i].ptr; i++) {
        if (parts[i].len > ID_MAX)
            return NULL;
        if (i)
            key[n++] = '\n';
        memcpy(key + n, parts[i].ptr, parts[i].len);
        n += parts[i].len;
    }
    return bw_market_find(m, t, (bw_str){key, n});
}

const bw_price *bw_market_price(const bw_market *m, bw_str instance, bw_str region,
                                bool spot)
{
    bw_str market = spot ? BW_STR("spot") : BW_STR("on-demand");
    const bw_price *p = find3(m, BW_MARKET_PRICES, instance, region, market);
    return p ? p : find3(m, BW_MARKET_PRICES, instance, BW_STR("*"), market);
}

double bw_market_convert(const bw_market *m, double amount, bw_str from, bw_str to)
{
    if (bw_str_eq(from, to))
        return amount;
    const bw_rate *rate = find3(m, BW_MARKET_RATES, from, to, (bw_str){NULL, 0});
    return rate ? amount * rate->value : BW_UNKNOWN;
}
