/* The market's facts as Cedar sees them (offers.h): a region as a Node, legal entities
 * with what is unknown about them written so that it denies, and the list of what is
 * unknown for a person to find out. */
#include "../engine/base/map.h"
#include "offers.h"

#include <stdlib.h>

/* What stands for the unknown. No catalogue has such a country or zone, so that no
 * group holds it, and all is foreign. */
static const char unknown_country[] = "ZZ", unknown_zone[] = "unknown",
                  unknown_share[] = "100.0";

bool bw_texts_have(bw_texts list, bw_str word)
{
    for (size_t i = 0; i < list.n; i++)
        if (bw_str_eq(list.items[i], word))
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static size_t sort_unique(bw_str *s, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(s, n, sizeof *s, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !bw_str_eq(s[kept - 1], s[i]))
            s[kept++] = s[i];
    return kept;
}

/* Held for sure, here: low confidence and a scope that nobody has stated are not
 * enough. */
static bool covers(const bw_certification *c, const bw_region *r)
{
    return bw_str_is(c->status, "held") && !bw_str_is(c->fact.confidence, "low") &&
           bw_texts_have(c->regions, r->id);
}

bw_status bw_market_hw(bw_ctx *ctx, const bw_region *r, bw_texts hw, bw_texts *out)
{
    bw_str *words = bw_arena_calloc(ctx, r->hw.n + hw.n + 1, sizeof *words);
    size_t n = 0;
    if (!words)
        return BW_ENOMEM;
    for (size_t i = 0; i < r->hw.n; i++)
        words[n++] = r->hw.items[i];
    for (size_t i = 0; i < hw.n; i++)
        words[n++] = hw.items[i];
    *out = (bw_texts){words, sort_unique(words, n)};
    return BW_OK;
}

bw_status bw_market_place(bw_ctx *ctx, const bw_market *m, const bw_region *r,
                          bw_texts hw, bw_place *out)
{
    size_t n, ncerts = 0;
    const bw_certification *const *held =
        bw_market_certifications(m, r->provider_id, &n);
    bw_str *certs = bw_arena_calloc(ctx, n + 1, sizeof *certs);
    bw_texts words;
    if (!certs || bw_market_hw(ctx, r, hw, &words) != BW_OK)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const bw_cert_word *w = bw_market_find(m, BW_MARKET_CERT_WORDS, held[i]->name);
        if (w && covers(held[i], r))
            certs[ncerts++] = w->word;
    }
    *out = (bw_place){.id = r->id,
                      .country = r->country,
                      .operator_id = r->operator->id,
                      .certs = certs,
                      .ncerts = sort_unique(certs, ncerts),
                      .hw = words.items,
                      .nhw = words.n};
    return BW_OK;
}

/* ---- legal entities ---- */

static void put_ref(bw_buf *b, const char *type, bw_str id)
{
    bw_json_sep(b);
    bw_buf_printf(b, "{\"__entity\":{\"type\":\"Bw::%s\",\"id\":", type);
    bw_json_put_str(b, id);
    bw_buf_puts(b, "}}");
}

static void put_refs(bw_buf *b, const char *member, const char *type, bw_texts list)
{
    bw_json_put_key(b, member);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < list.n; i++)
        put_ref(b, type, list.items[i]);
    bw_buf_putc(b, ']');
}

static void put_share(bw_buf *b, const char *member, bw_str share)
{
    bw_json_put_key(b, member);
    bw_buf_puts(b, "{\"__extn\":{\"fn\":\"decimal\",\"arg\":");
    bw_json_put_str(b, share.ptr ? share : bw_str_c(unknown_share));
    bw_buf_puts(b, "}}");
}

static void put_legal(bw_buf *b, const bw_legal *e)
{
    const bw_str nowhere = bw_str_c(unknown_zone);
    bw_json_sep(b);
    bw_buf_puts(b, "{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":");
    bw_json_put_str(b, e->id);
    bw_buf_puts(b, "},\"parents\":[],\"attrs\":{\"seat\":");
    put_ref(b, "Country", e->seat.ptr ? e->seat : bw_str_c(unknown_country));
    put_refs(b, "controlZones", "Zone",
             e->control_zones.n ? e->control_zones : (bw_texts){&nowhere, 1});
    put_share(b, "foreignShareMax", e->share_max);
    put_share(b, "foreignShareSum", e->share_sum);
    put_refs(b, "baaWith", "Tenant", e->baa_with);
    bw_json_put_key(b, "certs");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < e->certs.n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, e->certs.items[i]);
    }
    bw_buf_puts(b, "]}}");
}

/* The ids of Bw::LegalEntity in a list of entities JSON, in either spelling of a uid.
 */
static bw_status own_ids(bw_ctx *ctx, const bw_json *own, bw_map *ids)
{
    for (const bw_json *e = own ? own->child : NULL; e; e = e->next) {
        const bw_json *uid = bw_json_get(e, "uid");
        const bw_json *inner = bw_json_get(uid, "__entity");
        const bw_json *type = bw_json_get(inner ? inner : uid, "type");
        const bw_json *id = bw_json_get(inner ? inner : uid, "id");
        if (type && id && type->kind == BW_JSON_STRING && id->kind == BW_JSON_STRING &&
            bw_str_is(type->str, "Bw::LegalEntity") &&
            !bw_map_put(ids, id->str.ptr, id->str.len, NULL))
            return bw_fail_nomem(ctx);
    }
    return BW_OK;
}

bw_status bw_market_entities(bw_ctx *ctx, const bw_market *m, const bw_json *own,
                             bw_buf *out)
{
    bw_map *ids = bw_map_new();
    bw_status st = ids ? own_ids(ctx, own, ids) : bw_fail_nomem(ctx);
    const bw_legal *e;
    for (size_t i = 0;
         st == BW_OK && (e = bw_market_row(m, BW_MARKET_ENTITIES, i)) != NULL; i++)
        if (!bw_map_get(ids, e->id.ptr, e->id.len))
            put_legal(out, e);
    bw_map_free(ids);
    return st == BW_OK && out->failed ? bw_fail_nomem(ctx) : st;
}

/* ---- gaps ---- */

typedef struct gaps {
    bw_ctx *ctx;
    bw_str *items;
    size_t n, cap;
    bool failed;
} gaps;

static void gap(gaps *g, const char *what, bw_str about, bw_str detail)
{
    const char *text = bw_arena_printf(
        g->ctx, "%s%s%.*s%s%.*s", what, about.len ? " " : "", (int)about.len,
        about.len ? about.ptr : "", detail.len ? ": " : "", (int)detail.len,
        detail.len ? detail.ptr : "");
    if (!text || g->n == g->cap) {
        g->failed = true;
        return;
    }
    g->items[g->n++] = bw_str_c(text);
}

static void operator_gaps(gaps *g, const bw_legal *e)
{
    const bw_str none = {NULL, 0};
    if (!e->seat.ptr)
        gap(g, "seat of operator", e->id, none);
    if (!e->control_zones.items)
        gap(g, "who controls operator", e->id, none);
    if (!e->share_max.ptr || !e->share_sum.ptr)
        gap(g, "foreign shares of operator", e->id, BW_STR("counted as 100 percent"));
    if (!e->certs.items)
        gap(g, "adequacy certifications (dpf and the like) of operator", e->id, none);
    if (!e->baa_with.items)
        gap(g, "business associate agreements of operator", e->id, none);
}

static bool proved(const bw_market *m, bw_str name, const bw_region *r)
{
    size_t n;
    const bw_certification *const *held =
        bw_market_certifications(m, r->provider_id, &n);
    for (size_t i = 0; i < n; i++)
        if (bw_str_eq(held[i]->name, name) && covers(held[i], r))
            return true;
    return false;
}

/* A certificate that the provider may well hold here, and why it does not count. */
static void cert_gap(gaps *g, const bw_market *m, const bw_certification *c,
                     const bw_region *r)
{
    if (bw_str_is(c->status, "not-held") ||
        (c->regions.items && !bw_texts_have(c->regions, r->id)) ||
        proved(m, c->name, r))
        return;
    if (bw_str_is(c->status, "unknown"))
        gap(g, "certificate", c->name,
            c->fact.note.ptr ? c->fact.note : BW_STR("status unknown"));
    else if (!c->regions.items)
        gap(g, "certificate", c->name,
            c->scope.ptr ? c->scope : BW_STR("held, but its scope is not stated"));
    else if (bw_str_is(c->fact.confidence, "low"))
        gap(g, "certificate", c->name, BW_STR("held with low confidence only"));
    else if (!bw_market_find(m, BW_MARKET_CERT_WORDS, c->name))
        gap(g, "certificate", c->name, BW_STR("no word for it"));
}

bw_status bw_market_gaps(bw_ctx *ctx, const bw_market *m, const bw_region *r,
                         bw_texts *out)
{
    size_t n;
    const bw_certification *const *held =
        bw_market_certifications(m, r->provider_id, &n);
    gaps g = {.ctx = ctx, .cap = n + 8};
    g.items = bw_arena_calloc(ctx, g.cap, sizeof *g.items);
    if (!g.items)
        return BW_ENOMEM;
    if (!r->country.ptr)
        gap(&g, "country", (bw_str){NULL, 0}, (bw_str){NULL, 0});
    operator_gaps(&g, r->operator);
    for (size_t i = 0; i < n; i++)
        cert_gap(&g, m, held[i], r);
    if (!r->hw.items)
        gap(&g, "hardware (tee)", (bw_str){NULL, 0}, (bw_str){NULL, 0});
    if (!r->accelerators.items)
        gap(&g, "accelerators", (bw_str){NULL, 0}, BW_STR("not researched"));
    if (g.failed)
        return bw_fail_nomem(ctx);
    *out = (bw_texts){g.items, g.n};
    return BW_OK;
}

/* ---- the gaps of all regions, folded ---- */

typedef struct region_gap {
    const bw_region *region;
    bw_str what;
} region_gap;

typedef struct folding {
    bw_ctx *ctx;
    region_gap *items;
    size_t n, cap;
    bw_map *regions; /* in scope, by provider */
} folding;

/* One provider's together, then one gap's, then the regions by their ids. */
static int by_provider(const void *x, const void *y)
{
    const region_gap *a = x, *b = y;
    int c = bw_str_cmp(a->region->provider_id, b->region->provider_id);
    c = c ? c : bw_str_cmp(a->what, b->what);
    return c ? c : bw_str_cmp(a->region->id, b->region->id);
}

static bool in_scope(const bw_catalogue *c, const bw_catalogue_scope *scope,
                     bw_str country)
{
    bool in = scope->nplaces == 0 || !country.ptr;
    for (size_t i = 0; i < scope->nplaces && !in; i++)
        in = bw_catalogue_in(c, country, scope->places[i]);
    return in;
}

static bw_status add_region(folding *f, const bw_market *m, const bw_region *r)
{
    bw_texts lines;
    bw_status st = bw_market_gaps(f->ctx, m, r, &lines);
    uint64_t *count =
        bw_map_put(f->regions, r->provider_id.ptr, r->provider_id.len, NULL);
    if (st != BW_OK)
        return st;
    if (!count)
        return bw_fail_nomem(f->ctx);
    ++*count;
    if (f->n + lines.n > f->cap) {
        size_t cap = 2 * (f->n + lines.n);
        region_gap *items =
            bw_arena_grow(f->ctx, f->items, f->n * sizeof *items, cap * sizeof *items);
        if (!items)
            return BW_ENOMEM;
        f->items = items;
        f->cap = cap;
    }
    for (size_t i = 0; i < lines.n; i++)
        f->items[f->n++] = (region_gap){r, lines.items[i]};
    return BW_OK;
}

/* "aws:eu-west-1: …", "aws, all 34 regions: …" or "aws, 2 of 34 regions (a b): …". */
static const char *folded(const folding *f, const region_gap *g, size_t n)
{
    const bw_region *r = g->region;
    const uint64_t *of = bw_map_get(f->regions, r->provider_id.ptr, r->provider_id.len);
    bw_buf b = {0};
    if (n == 1)
        bw_buf_str(&b, r->id);
    else if (n == *of)
        bw_buf_printf(&b, "%.*s, all %zu regions", (int)r->provider_id.len,
                      r->provider_id.ptr, n);
    else
        bw_buf_printf(&b, "%.*s, %zu of %llu regions (", (int)r->provider_id.len,
                      r->provider_id.ptr, n, (unsigned long long)*of);
    for (size_t i = 0; i < n && n > 1 && n != *of; i++)
        bw_buf_printf(&b, "%s%.*s%s", i ? " " : "", (int)g[i].region->id.len,
                      g[i].region->id.ptr, i + 1 == n ? ")" : "");
    bw_str where = bw_buf_view(&b);
    const char *text = b.failed
                           ? NULL
                           : bw_arena_printf(f->ctx, "%.*s: %.*s", (int)where.len,
                                             where.ptr, (int)g->what.len, g->what.ptr);
    bw_buf_clear(&b);
    return text;
}

static bw_status put_folded(folding *f, bw_catalogue_gap **list, size_t *n)
{
    bw_catalogue_gap *all =
        bw_arena_grow(f->ctx, *list, *n * sizeof *all, (*n + f->n) * sizeof *all);
    if (!all)
        return BW_ENOMEM;
    for (size_t i = 0, k; i < f->n; i += k) {
        const region_gap *g = &f->items[i];
        bool one_country = true;
        for (k = 1; i + k < f->n && bw_str_eq(g[k].what, g->what) &&
                    bw_str_eq(g[k].region->provider_id, g->region->provider_id);
             k++)
            one_country =
                one_country && bw_str_eq(g[k].region->country, g->region->country);
        const char *fact = folded(f, g, k);
        if (!fact)
            return bw_fail_nomem(f->ctx);
        all[(*n)++] = (bw_catalogue_gap){
            "offer",
            one_country && g->region->country.ptr ? g->region->country : BW_STR(""),
            BW_STR(""),
            fact,
            "it counts as not there: rules that ask for it deny",
            "an overlay of the market (place --overlay): the row of the region, its "
            "operator or its provider's certificate"};
    }
    *list = all;
    return BW_OK;
}

bw_status bw_market_all_gaps(bw_ctx *ctx, const bw_market *m, const bw_catalogue *c,
                             const bw_catalogue_scope *scope, bw_catalogue_gap **list,
                             size_t *n)
{
    folding f = {.ctx = ctx, .regions = bw_map_new()};
    bw_status st = f.regions ? BW_OK : bw_fail_nomem(ctx);
    const bw_region *r;
    for (size_t i = 0;
         st == BW_OK && (r = bw_market_row(m, BW_MARKET_REGIONS, i)) != NULL; i++)
        if (in_scope(c, scope, r->country))
            st = add_region(&f, m, r);
    if (st == BW_OK && f.n)
        qsort(f.items, f.n, sizeof *f.items, by_provider);
    if (st == BW_OK && f.n)
        st = put_folded(&f, list, n);
    bw_map_free(f.regions);
    return st;
}
