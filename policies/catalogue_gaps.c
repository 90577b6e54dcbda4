/* What the catalogue does not know, and what it has known for too long: lists for the
 * operator, who puts the facts into an overlay. Each gap says what is not known, what
 * reads it and how it is decided meanwhile, and where the fact goes. Nothing here
 * changes a decision: what is unknown denies without this list. */
#include "catalogue_impl.h"

#include "../engine/base/map.h"

#define ROW_END "\"source\":\"...\",\"date\":\"YYYY-MM-DD\"}"

typedef struct gaps {
    bw_ctx *ctx;
    const bw_catalogue *c;
    const bw_catalogue_scope *scope;
    bw_catalogue_gap *items;
    size_t n, cap;
    bw_map *legal; /* ids of the operator's own legal entities */
} gaps;

/* ---- scope ---- */

static bool regime_in(const gaps *g, bw_str regime)
{
    bool in = regime.len == 0 || g->scope->nregimes == 0;
    for (size_t i = 0; i < g->scope->nregimes && !in; i++)
        in = bw_str_eq(g->scope->regimes[i], regime);
    return in;
}

/* In one of the places, or kept out of it by the very fact that is missing. */
static bool country_in(const gaps *g, bw_str country, bool localisation)
{
    bool in = country.len == 0 || g->scope->nplaces == 0;
    for (size_t i = 0; i < g->scope->nplaces && !in; i++) {
        const bw_json *zone =
            bw_catalogue__get(g->c, BW_CAT_ZONES, g->scope->places[i]);
        in = bw_catalogue_in(g->c, country, g->scope->places[i]) ||
             (localisation && zone && bw_json_get(zone, "members"));
    }
    return in;
}

/* Texts in the arena, or NULL when memory is out. */
static bw_status add(gaps *g, const char *kind, bw_str country, bw_str regime,
                     const char *fact, const char *why, const char *put)
{
    if (!fact || !why || !put)
        return bw_fail_nomem(g->ctx);
    if (!regime_in(g, regime) ||
        !country_in(g, country, strcmp(kind, "localisation") == 0))
        return BW_OK;
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 512;
        bw_catalogue_gap *more =
            bw_arena_grow(g->ctx, g->items, g->cap * sizeof *more, cap * sizeof *more);
        if (!more)
            return bw_fail_nomem(g->ctx);
        g->items = more;
        g->cap = cap;
    }
    g->items[g->n++] = (bw_catalogue_gap){kind, country, regime, fact, why, put};
    return BW_OK;
}

#define TEXT(...) bw_arena_printf(g->ctx, __VA_ARGS__)
#define S(s)      (int)(s).len, (s).ptr
static const bw_str nobody = {"", 0};

/* ---- countries ---- */

/* Zones that a country lies in although its rules are not known: decisions reach it
 * through them. */
static const char *open_zones(gaps *g, size_t place)
{
    const bw_catalogue *c = g->c;
    bw_buf b = {0};
    for (size_t z = 0; z < c->nplaces; z++)
        if (!c->places[z].country && bw_catalogue__lies_in(c, place, z) &&
            !bw_str_is(bw_catalogue__str(c->places[z].row, "kind"), "deny"))
            bw_buf_printf(&b, "%s%.*s", b.len ? ", " : "; yet it lies in ",
                          S(c->places[z].name));
    bw_str text = bw_buf_view(&b);
    const char *out = b.failed ? NULL : TEXT("%.*s", S(text));
    bw_buf_clear(&b);
    return out;
}

static bw_status country_gaps(gaps *g, size_t place)
{
    bw_str code = g->c->places[place].name,
           name = bw_catalogue__str(g->c->places[place].row, "name");
    bw_status st = BW_OK;
    if (bw_str_is(bw_catalogue__level(g->c, code), "unknown")) {
        const char *zones = open_zones(g, place);
        st =
            zones
                ? add(g, "localisation", code, nobody,
                      TEXT("localisation rules of %.*s (%.*s)", S(code), S(name)),
                      TEXT("zone world leaves it out, Country.localisation is "
                           "\"unknown\"%s",
                           zones),
                      TEXT(
                          "/localisation/-: {\"country\":\"%.*s\",\"level\":\"strict\"|"
                          "\"copy\"|\"sectoral\"|\"conditional\"|\"none-known\","
                          "\"laws\":[...]," ROW_END,
                          S(code)))
                : bw_fail_nomem(g->ctx);
    }
    if (st == BW_OK && bw_str_is(bw_catalogue__access(g->c, code), "unknown"))
        st = add(
            g, "foreign-access", code, nobody,
            TEXT("laws by which the state reaches data: %.*s (%.*s)", S(code), S(name)),
            "Country.foreignAccess is \"unknown\"",
            TEXT("/foreign_access/-: {\"country\":\"%.*s\",\"law\":\"...\","
                 "\"extraterritorial\":true|false," ROW_END,
                 S(code)));
    return st;
}

static bw_status adequacy_gap(gaps *g, const bw_json *row)
{
    bw_str regime = bw_catalogue__str(row, "regime"),
           country = bw_catalogue__str(row, "country"),
           scope = bw_catalogue__str(row, "scope");
    if (bw_catalogue__decision_zone(g->c, row))
        return BW_OK;
    return add(g, "adequacy", country, regime,
               bw_json_get_value(row, "status")
                   ? TEXT("condition of the %.*s adequacy of %.*s: %.*s", S(regime),
                          S(country), S(scope))
                   : TEXT("status of the %.*s adequacy of %.*s", S(regime), S(country)),
               "the decision puts the country in no zone",
               TEXT("/adequacy/-: {\"regime\":\"%.*s\",\"country\":\"%.*s\","
                    "\"status\":\"full\"|\"partial\",\"certs\":[...]," ROW_END,
                    S(regime), S(country)));
}

static bw_status zone_gap(gaps *g, const bw_cat_place *zone)
{
    bw_str kind = bw_catalogue__str(zone->row, "kind"),
           note = bw_catalogue__str(zone->row, "note"),
           source = bw_catalogue__str(zone->row, "source");
    if (!bw_catalogue__unknown(zone->row))
        return BW_OK;
    return add(
        g, "zone", nobody, bw_catalogue__str(zone->row, "regime"),
        TEXT("list of zone %.*s (%.*s)%s%.*s", S(zone->name), S(source),
             note.len ? "; " : "", S(note)),
        bw_str_is(kind, "deny") ? "every country lies in it: what a rule forbids "
                                  "there it forbids everywhere"
                                : "it is empty: no rule lets anything through by it",
        TEXT(
            "/zones/-: {\"id\":\"%.*s\",\"kind\":\"%.*s\",\"countries\":[...]," ROW_END,
            S(zone->name), S(kind)));
}

/* ---- legal entities ---- */

static bw_status entity_gaps(gaps *g, bw_str id, const bw_json *row)
{
    static const struct {
        const char *name, *why;
    } members[] = {
        {"control_zones", "its control counts as foreign to every zone"},
        {"foreign_share_max", "it counts as 100 per cent"},
        {"foreign_share_sum", "it counts as 100 per cent"},
        {"certs", "it counts as holding none, and meets no condition of adequacy"}};
    bw_status st = BW_OK;
    for (size_t i = 0; i < sizeof members / sizeof *members && st == BW_OK; i++)
        if (!bw_json_get_value(row, members[i].name))
            st = add(g, "legal-entity", nobody, nobody,
                     TEXT("%s of legal entity %.*s", members[i].name, S(id)),
                     members[i].why,
                     TEXT("/legal_entities/-: {\"id\":\"%.*s\",\"%s\":...,...," ROW_END,
                          S(id), members[i].name));
    return st;
}

/* ---- low confidence ---- */

/* "adequacy gdpr US": table and key, whose members a line feed parts. */
static const char *row_name(gaps *g, int table, const bw_cat_row *row)
{
    char *text = TEXT("%s %.*s", bw_catalogue__table(table), S(row->key));
    for (char *p = text; p && *p; p++)
        if (*p == '\n')
            *p = ' ';
    return text;
}

static bw_str row_country(int table, const bw_json *row)
{
    return bw_catalogue__str(row, table == BW_CAT_COUNTRIES ? "code" : "country");
}

static bw_status confidence_gap(gaps *g, int table, const bw_cat_row *row)
{
    const char *name = row_name(g, table, row);
    if (!name)
        return bw_fail_nomem(g->ctx);
    return add(g, "confidence", row_country(table, row->json),
               bw_catalogue__str(row->json, "regime"),
               TEXT("%s, as of %.*s", name, S(bw_catalogue__str(row->json, "date"))),
               "decisions read it, with low confidence",
               TEXT("/%s%s/-: the same fact, checked, with source and date",
                    bw_catalogue__table(table), table == BW_CAT_WORDS ? "/..." : ""));
}

/* ---- the operator's Cedar entities ---- */

/* {"type", "id"}, or the same in an {"__entity"}. */
static bw_str uid_part(const bw_json *v, const char *name)
{
    const bw_json *inner = bw_json_get(v, "__entity");
    return v ? bw_catalogue__str(inner ? inner : v, name) : nobody;
}

/* The ids of legal entities in the operator's list. */
static bw_status list_legal_entities(gaps *g, const bw_json *list)
{
    for (const bw_json *e = list->child; e; e = e->next) {
        const bw_json *uid = bw_json_get(e, "uid");
        bw_str id = uid_part(uid, "id");
        if (bw_str_is(uid_part(uid, "type"), "Bw::LegalEntity") &&
            !bw_map_put(g->legal, id.ptr, id.len, NULL))
            return bw_fail_nomem(g->ctx);
    }
    return BW_OK;
}

static bw_status cedar_legal_entity(gaps *g, bw_str id, const bw_json *attrs)
{
    static const char *const names[] = {"seat", "controlZones", "foreignShareMax",
                                        "foreignShareSum", "certs"};
    const bw_json *zones = bw_json_get(attrs, "controlZones");
    bw_status st = BW_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && st == BW_OK; i++)
        if (!bw_json_get(attrs, names[i]))
            st = add(g, "legal-entity", nobody, nobody,
                     TEXT("%s of legal entity %.*s", names[i], S(id)),
                     "rules that read it deny", "entities.json");
    if (st == BW_OK && zones && zones->count == 0)
        st = add(g, "legal-entity", nobody, nobody,
                 TEXT("controlZones of legal entity %.*s, which are empty", S(id)),
                 "it reads as control by nobody, which passes every rule on control",
                 "entities.json");
    return st;
}

static bw_status cedar_node(gaps *g, bw_str id, const bw_json *attrs)
{
    bw_str operator_id = uid_part(bw_json_get(attrs, "operator"), "id"),
           country = uid_part(bw_json_get(attrs, "country"), "id");
    bw_status st = BW_OK;
    if (!bw_catalogue__get(g->c, BW_CAT_ENTITIES, operator_id) &&
        !bw_map_get(g->legal, operator_id.ptr, operator_id.len))
        st = add(
            g, "node", nobody, nobody,
            TEXT("operator %.*s of node %.*s", S(operator_id), S(id)),
            "rules that read its seat, control or certifications deny",
            TEXT("/legal_entities/-: {\"id\":\"%.*s\",...," ROW_END, S(operator_id)));
    if (st == BW_OK && !bw_catalogue_has_country(g->c, country))
        st = add(g, "node", nobody, nobody,
                 TEXT("country %.*s of node %.*s", S(country), S(id)),
                 "it lies in no zone",
                 TEXT("/countries/-: {\"code\":\"%.*s\"," ROW_END, S(country)));
    return st;
}

static bw_status cedar_gaps(gaps *g)
{
    bw_json *list;
    if (g->scope->entities.len == 0)
        return BW_OK;
    bw_status st = bw_json_parse(g->ctx, g->scope->entities, BW_JSON_CEDAR, &list);
    if (st == BW_OK && list->kind != BW_JSON_ARRAY)
        st = bw_fail(g->ctx, BW_EINVALID, "entities: expected a list");
    if (st == BW_OK)
        st = (g->legal = bw_map_new()) ? list_legal_entities(g, list)
                                       : bw_fail_nomem(g->ctx);
    for (const bw_json *e = st == BW_OK ? list->child : NULL; e && st == BW_OK;
         e = e->next) {
        const bw_json *uid = bw_json_get(e, "uid"), *attrs = bw_json_get(e, "attrs");
        bw_str type = uid_part(uid, "type"), id = uid_part(uid, "id");
        if (bw_str_is(type, "Bw::LegalEntity"))
            st = cedar_legal_entity(g, id, attrs);
        else if (bw_str_is(type, "Bw::Node"))
            st = cedar_node(g, id, attrs);
    }
    bw_map_free(g->legal);
    return st;
}

/* ---- all of them ---- */

bw_status bw_catalogue_gaps(bw_ctx *ctx, const bw_catalogue *c,
                            const bw_catalogue_scope *scope, bw_catalogue_gap **out,
                            size_t *n)
{
    gaps gathered = {.ctx = ctx, .c = c, .scope = scope}, *g = &gathered;
    bw_status st = BW_OK;
    for (size_t i = 0; i < c->nplaces && st == BW_OK; i++)
        if (!c->places[i].country)
            st = zone_gap(g, &c->places[i]);
    for (size_t i = 0; i < c->nrows[BW_CAT_ADEQUACY] && st == BW_OK; i++)
        st = adequacy_gap(g, c->rows[BW_CAT_ADEQUACY][i].json);
    for (size_t i = 0; i < c->nrows[BW_CAT_ENTITIES] && st == BW_OK; i++)
        st = entity_gaps(g, c->rows[BW_CAT_ENTITIES][i].key,
                         c->rows[BW_CAT_ENTITIES][i].json);
    if (st == BW_OK)
        st = cedar_gaps(g);
    for (int t = 0; t < BW_CAT_TABLES; t++)
        for (size_t i = 0; i < c->nrows[t] && st == BW_OK; i++)
            if (bw_str_is(bw_catalogue__str(c->rows[t][i].json, "confidence"), "low"))
                st = confidence_gap(g, t, &c->rows[t][i]);
    for (size_t i = 0; i < c->nplaces && st == BW_OK; i++)
        if (c->places[i].country)
            st = country_gaps(g, i);
    if (st != BW_OK)
        return st;
    *out = g->items;
    *n = g->n;
    return BW_OK;
}

/* ---- time ---- */

static bw_status stale_row(gaps *g, int table, const bw_cat_row *row, int64_t as_of,
                           uint32_t max_age_days)
{
    bw_str date = bw_catalogue__str(row->json, "date"),
           expires = bw_catalogue__str(row->json, "expires"),
           country = row_country(table, row->json),
           regime = bw_catalogue__str(row->json, "regime");
    int64_t day = 0, end = 0;
    bw_status st = BW_OK;
    bw_require(bw_catalogue__is_date(date, &day)); /* checked when it was read */
    bool old = day > as_of || as_of - day > max_age_days;
    bool over = expires.len && bw_catalogue__is_date(expires, &end) && end <= as_of;
    const char *name = old || over ? row_name(g, table, row) : "";
    const char *put =
        TEXT("/%s/-: the same fact, looked at again, with source and date",
             bw_catalogue__table(table));
    if (!name)
        return bw_fail_nomem(g->ctx);
    if (old)
        st = add(g, "stale", country, regime, TEXT("%s, of %.*s", name, S(date)),
                 day > as_of ? "dated after that day" : "older than that", put);
    if (st == BW_OK && over)
        st = add(g, "expired", country, regime,
                 TEXT("%s, expired on %.*s", name, S(expires)),
                 "it still counts: remove or replace it", put);
    return st;
}

bw_status bw_catalogue_stale(bw_ctx *ctx, const bw_catalogue *c, bw_str as_of,
                             uint32_t max_age_days, bw_catalogue_gap **out, size_t *n)
{
    static const bw_catalogue_scope all = {0};
    gaps g = {.ctx = ctx, .c = c, .scope = &all};
    int64_t day;
    bw_status st = bw_catalogue__is_date(as_of, &day)
                       ? BW_OK
                       : bw_fail(ctx, BW_EINVALID, "as-of wants a date, YYYY-MM-DD");
    for (int t = 0; t < BW_CAT_TABLES; t++)
        for (size_t i = 0; i < c->nrows[t] && st == BW_OK; i++)
            st = stale_row(&g, t, &c->rows[t][i], day, max_age_days);
    if (st != BW_OK)
        return st;
    *out = g.items;
    *n = g.n;
    return BW_OK;
}
