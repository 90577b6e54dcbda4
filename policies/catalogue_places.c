/* Places: one table of names for zones and countries, the edges between them, what lies
 * in what, and all of it as Cedar entities.
 *
 * Every country has a zone of its own name, and edges hang on that zone, so that
 * `Zone::"FR" in Zone::"EU"` holds as `Country::"FR" in Zone::"EU"` does. Where edges
 * come from: "in" of zones and countries, "countries" of zones, an adequacy decision
 * (full: the regime's zone; partial with its condition known: the conditional zone;
 * else none), "members": "researched" (each country whose localisation level is known),
 * and an unknown deny-list, in which every country lies until somebody writes the list
 * down: a rule that forbids what is in it then forbids all, and no rule has to know. */
#include "catalogue_impl.h"

#include <stdlib.h>

enum { NEAR_MAX = 2 }; /* edits between a typo and what was meant */

static int by_place(const void *a, const void *b)
{
    return bw_str_cmp(((const bw_cat_place *)a)->name, ((const bw_cat_place *)b)->name);
}

static int by_edge(const void *a, const void *b)
{
    const bw_cat_edge *x = a, *y = b;
    if (x->child != y->child)
        return x->child < y->child ? -1 : 1;
    return x->parent < y->parent ? -1 : x->parent > y->parent;
}

static int by_parent(const void *a, const void *b)
{
    const bw_cat_edge *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return x->child < y->child ? -1 : x->child > y->child;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool same_but_case(bw_str a, bw_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

static int by_folded(const void *a, const void *b)
{
    bw_str x = (*(const bw_cat_place *const *)a)->name,
           y = (*(const bw_cat_place *const *)b)->name;
    for (size_t i = 0; i < x.len && i < y.len; i++)
        if (lower(x.ptr[i]) != lower(y.ptr[i]))
            return lower(x.ptr[i]) < lower(y.ptr[i]) ? -1 : 1;
    if (x.len != y.len)
        return x.len < y.len ? -1 : 1;
    return bw_str_cmp(x, y);
}

size_t bw_catalogue__place(const bw_catalogue *c, bw_str name)
{
    bw_cat_place want = {.name = name};
    const bw_cat_place *p =
        c->nplaces ? bsearch(&want, c->places, c->nplaces, sizeof want, by_place)
                   : NULL;
    return p ? (size_t)(p - c->places) : SIZE_MAX;
}

bool bw_catalogue_in(const bw_catalogue *c, bw_str place, bw_str zone)
{
    size_t p = bw_catalogue__place(c, place), z = bw_catalogue__place(c, zone);
    return p != SIZE_MAX && z != SIZE_MAX && bw_catalogue__lies_in(c, p, z);
}

bool bw_catalogue_within(const bw_catalogue *c, bw_str place, bw_str zone)
{
    size_t p = bw_catalogue__place(c, place), z = bw_catalogue__place(c, zone);
    if (p == SIZE_MAX || z == SIZE_MAX)
        return false;
    for (size_t i = 0; i < c->nplaces && !bw_catalogue__lies_in(c, p, z); i++)
        if (c->places[i].country && bw_catalogue__lies_in(c, i, p) &&
            !bw_catalogue__lies_in(c, i, z))
            return false;
    return true;
}

bool bw_catalogue__unknown(const bw_json *zone)
{
    return bw_catalogue__true(zone, "unknown");
}

bw_str bw_catalogue__level(const bw_catalogue *c, bw_str country)
{
    const bw_json *row = bw_catalogue__get(c, BW_CAT_LOCALISATION, country);
    bw_str level = row ? bw_catalogue__str(row, "level") : (bw_str){"", 0};
    return level.len ? level : BW_STR("unknown");
}

/* The furthest reach of any known law; a country of which none is known is unknown. */
bw_str bw_catalogue__access(const bw_catalogue *c, bw_str country)
{
    bw_str reach = BW_STR("unknown");
    for (size_t i = 0; i < c->nrows[BW_CAT_ACCESS]; i++) {
        const bw_json *row = c->rows[BW_CAT_ACCESS][i].json;
        if (!bw_str_eq(bw_catalogue__str(row, "country"), country) ||
            !bw_json_get_value(row, "law"))
            continue;
        if (bw_catalogue__true(row, "extraterritorial"))
            return BW_STR("extraterritorial");
        reach = BW_STR("domestic");
    }
    return reach;
}

/* ---- edges ---- */

typedef struct edges {
    bw_ctx *ctx;
    bw_catalogue *c;
    bw_cat_edge *items;
    size_t n, cap;
} edges;

static bw_status add_edge(edges *e, size_t child, size_t parent)
{
    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 1024;
        bw_cat_edge *more = bw_realloc(e->items, cap * sizeof *more);
        if (!more)
            return bw_fail_nomem(e->ctx);
        e->items = more;
        e->cap = cap;
    }
    e->items[e->n++] = (bw_cat_edge){(uint32_t)child, (uint32_t)parent};
    return BW_OK;
}

/* Both names have been checked. */
static bw_status add_named(edges *e, bw_str child, bw_str parent)
{
    size_t a = bw_catalogue__place(e->c, child), b = bw_catalogue__place(e->c, parent);
    bw_require(a != SIZE_MAX && b != SIZE_MAX);
    return add_edge(e, a, b);
}

static bw_status zone_edges(edges *e, size_t zone)
{
    const bw_json *row = e->c->places[zone].row, *v = bw_json_get(row, "countries");
    bool all =
        bw_catalogue__unknown(row) && bw_str_is(bw_catalogue__str(row, "kind"), "deny");
    bool researched = bw_json_get(row, "members") != NULL;
    bw_status st = BW_OK;
    for (v = v ? v->child : NULL; v && st == BW_OK; v = v->next)
        st = add_named(e, v->str, e->c->places[zone].name);
    for (size_t i = 0; i < e->c->nplaces && (all || researched) && st == BW_OK; i++)
        if (e->c->places[i].country &&
            (all ||
             !bw_str_is(bw_catalogue__level(e->c, e->c->places[i].name), "unknown")))
            st = add_edge(e, i, zone);
    return st;
}

/* NULL: the decision puts the country nowhere. */
const bw_json *bw_catalogue__decision_zone(const bw_catalogue *c, const bw_json *row)
{
    bw_str status = bw_catalogue__str(row, "status");
    const bw_json *regime = bw_catalogue__get2(c, BW_CAT_WORDS, BW_STR("regimes"),
                                               bw_catalogue__str(row, "regime"));
    if (bw_str_is(status, "full"))
        return bw_json_get(regime, "zone");
    return bw_str_is(status, "partial") && bw_json_get_value(row, "certs")
               ? bw_json_get(regime, "conditional")
               : NULL;
}

static bw_status gather_edges(edges *e)
{
    const bw_catalogue *c = e->c;
    bw_status st = BW_OK;
    for (size_t i = 0; i < c->nplaces && st == BW_OK; i++) {
        const bw_json *in = bw_json_get(c->places[i].row, "in");
        for (const bw_json *v = in ? in->child : NULL; v && st == BW_OK; v = v->next)
            st = add_named(e, c->places[i].name, v->str);
        if (st == BW_OK && !c->places[i].country)
            st = zone_edges(e, i);
    }
    for (size_t i = 0; i < c->nrows[BW_CAT_ADEQUACY] && st == BW_OK; i++) {
        const bw_json *row = c->rows[BW_CAT_ADEQUACY][i].json,
                      *zone = bw_catalogue__decision_zone(c, row);
        if (zone)
            st = add_named(e, bw_catalogue__str(row, "country"), zone->str);
    }
    return st;
}

static void sort_unique(edges *e)
{
    size_t kept = 0;
    if (e->n)
        qsort(e->items, e->n, sizeof *e->items, by_edge);
    for (size_t i = 0; i < e->n; i++)
        if (kept == 0 || by_edge(&e->items[i], &e->items[kept - 1]) != 0)
            e->items[kept++] = e->items[i];
    e->n = kept;
}

/* ---- what lies in what ---- */

/* Parents first (Kahn 1962): a place is done when all its parents are; what never gets
 * done lies in a circle. */
static bw_status close_over(bw_ctx *ctx, bw_catalogue *c)
{
    size_t n = c->nplaces, done = 0, queued = 0;
    c->nwords = n / 64 + 1;
    c->in = bw_arena_calloc(c->mem, (n + 1) * c->nwords, sizeof *c->in);
    uint32_t *open = bw_arena_calloc(c->mem, n + 1, sizeof *open),
             *queue = bw_arena_calloc(c->mem, n + 1, sizeof *queue);
    bw_cat_edge *down = bw_arena_calloc(c->mem, c->nedges + 1, sizeof *down);
    if (!c->in || !open || !queue || !down)
        return bw_fail_nomem(ctx);
    memcpy(down, c->edges, c->nedges * sizeof *down);
    if (c->nedges)
        qsort(down, c->nedges, sizeof *down, by_parent);
    for (size_t i = 0; i < c->nedges; i++)
        open[c->edges[i].child]++;
    for (size_t i = 0; i < n; i++) {
        c->in[i * c->nwords + i / 64] |= UINT64_C(1) << (i % 64);
        if (open[i] == 0)
            queue[queued++] = (uint32_t)i;
    }
    for (; done < queued; done++) {
        const bw_cat_edge first = {0, queue[done]};
        size_t lo = 0, hi = c->nedges;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (by_parent(&down[mid], &first) < 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        for (; lo < c->nedges && down[lo].parent == queue[done]; lo++) {
            uint32_t child = down[lo].child;
            for (size_t w = 0; w < c->nwords; w++)
                c->in[child * c->nwords + w] |= c->in[queue[done] * c->nwords + w];
            if (--open[child] == 0)
                queue[queued++] = child;
        }
    }
    for (size_t i = 0; i < n && done < n; i++)
        if (open[i] > 0)
            return bw_catalogue__bad(ctx, c, c->places[i].row,
                                     "the zone lies in itself, by way of others");
    return BW_OK;
}

/* Names that differ only by case are one slip of the finger apart. */
static bw_status check_case(bw_ctx *ctx, const bw_catalogue *c)
{
    const bw_cat_place **folded =
        bw_arena_alloc(c->mem, (c->nplaces + 1) * sizeof *folded);
    if (!folded)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < c->nplaces; i++)
        folded[i] = &c->places[i];
    if (c->nplaces)
        qsort(folded, c->nplaces, sizeof *folded, by_folded);
    for (size_t i = 1; i < c->nplaces; i++)
        if (same_but_case(folded[i]->name, folded[i - 1]->name)) {
            bool ours = bw_catalogue__ours(c, folded[i]->row);
            const bw_cat_place *at = folded[ours ? i : i - 1],
                               *other = folded[ours ? i - 1 : i];
            return bw_catalogue__bad(ctx, c, at->row,
                                     "the name differs from \"%.*s\" by case alone",
                                     (int)other->name.len, other->name.ptr);
        }
    return BW_OK;
}

bw_status bw_catalogue__make_places(bw_ctx *ctx, bw_catalogue *c)
{
    edges e = {.ctx = ctx, .c = c};
    size_t nzones = c->nrows[BW_CAT_ZONES], ncountries = c->nrows[BW_CAT_COUNTRIES];
    c->places = bw_arena_alloc(c->mem, (nzones + ncountries + 1) * sizeof *c->places);
    if (!c->places)
        return bw_fail_nomem(ctx);
    if (nzones >
        1024) /* with at most 676 countries, "in" stays below half a megabyte */
        return bw_catalogue__bad(ctx, c, c->rows[BW_CAT_ZONES][0].json,
                                 "more than 1024 zones");
    for (size_t i = 0; i < nzones + ncountries; i++) {
        bool country = i >= nzones;
        const bw_cat_row *row = country ? &c->rows[BW_CAT_COUNTRIES][i - nzones]
                                        : &c->rows[BW_CAT_ZONES][i];
        c->places[c->nplaces++] = (bw_cat_place){row->key, row->json, country};
    }
    if (c->nplaces)
        qsort(c->places, c->nplaces, sizeof *c->places, by_place);
    bw_status st = check_case(ctx, c);
    if (st == BW_OK)
        st = gather_edges(&e);
    if (st == BW_OK) {
        sort_unique(&e);
        c->edges = bw_arena_calloc(c->mem, e.n + 1, sizeof *c->edges);
        c->nedges = e.n;
        if (c->edges && e.n)
            memcpy(c->edges, e.items, e.n * sizeof *e.items);
        st = c->edges ? close_over(ctx, c) : bw_fail_nomem(ctx);
    }
    bw_free(e.items);
    return st;
}

/* ---- the name that was meant ---- */

/* Levenshtein's distance, case left out; or NEAR_MAX + 1. */
static size_t distance(bw_str a, bw_str b)
{
    size_t row[BW_CAT_WORD_MAX + 1];
    if (a.len > BW_CAT_WORD_MAX || b.len > BW_CAT_WORD_MAX ||
        a.len > b.len + NEAR_MAX || b.len > a.len + NEAR_MAX)
        return NEAR_MAX + 1;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t swap = diagonal + (lower(a.ptr[i - 1]) != lower(b.ptr[j - 1]));
            size_t step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = swap < step ? swap : step;
        }
    }
    return row[b.len];
}

/* "United Kingdom", GBR and UK are one place by other names; ISO 3166-1 reserves UK. */
static bool is_alias(const bw_cat_row *country, bw_str name)
{
    return same_but_case(bw_catalogue__str(country->json, "name"), name) ||
           same_but_case(bw_catalogue__str(country->json, "alpha3"), name) ||
           (same_but_case(name, BW_STR("UK")) && bw_str_is(country->key, "GB"));
}

/* Only shipped names: an operator's own are for those who know them. */
bw_str bw_catalogue_near(const bw_catalogue *c, bw_str name)
{
    bw_str best = {"", 0};
    size_t least = NEAR_MAX + 1;
    for (size_t i = 0; i < c->nrows[BW_CAT_COUNTRIES]; i++)
        if (!bw_catalogue__ours(c, c->rows[BW_CAT_COUNTRIES][i].json) &&
            is_alias(&c->rows[BW_CAT_COUNTRIES][i], name))
            return c->rows[BW_CAT_COUNTRIES][i].key;
    for (int t = BW_CAT_ZONES; t <= BW_CAT_COUNTRIES; t++)
        for (size_t i = 0; i < c->nrows[t]; i++) {
            const bw_cat_row *row = &c->rows[t][i];
            size_t d =
                bw_catalogue__ours(c, row->json) ? least : distance(row->key, name);
            /* a short name is near to all others */
            if (d < least && (d == 0 || 2 * d < row->key.len)) {
                least = d;
                best = row->key;
            }
        }
    return best;
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

static void put_texts(bw_buf *b, const bw_json *list)
{
    bw_buf_putc(b, '[');
    for (const bw_json *v = list ? list->child : NULL; v; v = v->next) {
        bw_json_sep(b);
        bw_json_put_str(b, v->str);
    }
    bw_buf_putc(b, ']');
}

/* adequacyCerts: {regime: [cert…]} for every regime that knows partial adequacy. */
static void put_certs(const bw_catalogue *c, bw_buf *b, bw_str code)
{
    bw_json_put_key(b, "adequacyCerts");
    bw_buf_putc(b, '{');
    for (size_t i = 0; i < c->nrows[BW_CAT_WORDS]; i++) {
        const bw_json *regime = c->rows[BW_CAT_WORDS][i].json;
        if (!bw_json_get(regime, "conditional"))
            continue;
        bw_str word = bw_catalogue__str(regime, "word");
        const bw_json *row = bw_catalogue__get2(c, BW_CAT_ADEQUACY, word, code);
        bw_json_sep(b);
        bw_json_put_str(b, word);
        bw_buf_putc(b, ':');
        put_texts(b, row ? bw_json_get_value(row, "certs") : NULL);
    }
    bw_buf_putc(b, '}');
}

static void put_country(const bw_catalogue *c, bw_buf *b, bw_str code)
{
    open_entity(b, "Country", code);
    bw_buf_puts(b, ",\"parents\":[");
    put_uid(b, "Zone", code);
    bw_buf_puts(b, "],\"attrs\":{");
    put_certs(c, b, code);
    bw_json_put_key(b, "localisation");
    bw_json_put_str(b, bw_catalogue__level(c, code));
    bw_json_put_key(b, "foreignAccess");
    bw_json_put_str(b, bw_catalogue__access(c, code));
    bw_buf_puts(b, "}}");
}

/* A share that is not known may be all of it. */
static void put_share(bw_buf *b, const char *name, const bw_json *v)
{
    bw_json_put_key(b, name);
    bw_buf_puts(b, "{\"__extn\":{\"fn\":\"decimal\",\"arg\":");
    bw_json_put_str(b, v->kind == BW_JSON_STRING ? v->str : BW_STR("100.0"));
    bw_buf_puts(b, "}}");
}

/* Control that is not known comes from Zone "unknown", which lies in no other. */
static void put_legal_entity(bw_buf *b, bw_str id, const bw_json *row)
{
    const bw_json *zones = bw_json_get_value(row, "control_zones"), *v;
    open_entity(b, "LegalEntity", id);
    bw_buf_puts(b, ",\"parents\":[],\"attrs\":{\"seat\":");
    put_ref(b, "Country", bw_catalogue__str(row, "seat"));
    bw_json_put_key(b, "controlZones");
    bw_buf_putc(b, '[');
    for (v = zones ? zones->child : NULL; v; v = v->next)
        put_ref(b, "Zone", v->str);
    if (!zones)
        put_ref(b, "Zone", BW_STR("unknown"));
    bw_buf_putc(b, ']');
    put_share(b, "foreignShareMax", bw_json_get(row, "foreign_share_max"));
    put_share(b, "foreignShareSum", bw_json_get(row, "foreign_share_sum"));
    bw_json_put_key(b, "baaWith");
    bw_buf_putc(b, '[');
    for (v = bw_json_get(row, "baa_with")->child; v; v = v->next)
        put_ref(b, "Tenant", v->str);
    bw_buf_putc(b, ']');
    bw_json_put_key(b, "certs");
    put_texts(b, bw_json_get_value(row, "certs"));
    bw_buf_puts(b, "}}");
}

bw_status bw_catalogue__make_entities(bw_ctx *ctx, bw_catalogue *c)
{
    bw_buf *b = &c->entities;
    size_t edge = 0;
    for (size_t i = 0; i < c->nplaces; i++) {
        open_entity(b, "Zone", c->places[i].name);
        bw_buf_puts(b, ",\"attrs\":{},\"parents\":[");
        for (; edge < c->nedges && c->edges[edge].child == i; edge++)
            put_uid(b, "Zone", c->places[c->edges[edge].parent].name);
        bw_buf_puts(b, "]}");
        if (c->places[i].country)
            put_country(c, b, c->places[i].name);
    }
    open_entity(b, "Zone", BW_STR("unknown"));
    bw_buf_puts(b, ",\"attrs\":{},\"parents\":[]}");
    for (size_t i = 0; i < c->nrows[BW_CAT_ENTITIES]; i++)
        put_legal_entity(b, c->rows[BW_CAT_ENTITIES][i].key,
                         c->rows[BW_CAT_ENTITIES][i].json);
    return b->failed ? bw_fail_nomem(ctx) : BW_OK;
}

void bw_catalogue_put_entities(const bw_catalogue *c, bw_buf *out)
{
    bw_json_sep(out);
    bw_buf_put(out, c->entities.ptr, c->entities.len);
}
