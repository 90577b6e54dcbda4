/* The catalogue for readers: what it says about a place and where that comes from, and
 * what an exchange of one catalogue for another changes. */
#include "catalogue_impl.h"

/* ---- show ---- */

static bool names(const bw_json *v, bw_str name)
{
    if (v->kind == BW_JSON_STRING)
        return bw_str_eq(v->str, name);
    for (const bw_json *e = v->kind == BW_JSON_ARRAY ? v->child : NULL; e; e = e->next)
        if (e->kind == BW_JSON_STRING && bw_str_eq(e->str, name))
            return true;
    return false;
}

/* A fact is about the places that it names, and about the zone that it fills. */
static bool is_about(const bw_catalogue *c, int table, const bw_json *row, bw_str name)
{
    static const char *const members[] = {
        "id",   "code",        "country", "seat",      "part_of",
        "zone", "conditional", "in",      "countries", "control_zones"};
    const bw_json *zone = table == BW_CAT_ADEQUACY && !bw_json_get(row, "remove")
                              ? bw_catalogue__decision_zone(c, row)
                              : NULL;
    if (name.len == 0 || (zone && bw_str_eq(zone->str, name)))
        return true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const bw_json *v = bw_json_get(row, members[i]);
        if (v && names(v, name))
            return true;
    }
    return false;
}

static void put_facts(const bw_catalogue *c, bw_buf *b, bw_str name, bool removed)
{
    for (int t = 0; t < BW_CAT_TABLES; t++) {
        const bw_cat_row *rows = removed ? c->removed[t] : c->rows[t];
        size_t n = removed ? c->nremoved[t] : c->nrows[t];
        for (size_t i = 0; i < n; i++) {
            const bw_json *row = rows[i].json;
            if (!is_about(c, t, row, name))
                continue;
            bw_json_sep(b);
            bw_buf_printf(b, "{\"table\":\"%s\",\"from\":\"%s\",",
                          bw_catalogue__table(t),
                          bw_catalogue__ours(c, row) ? "overlay" : "shipped");
            if (t == BW_CAT_WORDS) /* the kind of a word is in its key alone */
                bw_buf_printf(b, "\"kind\":\"%.*s\",",
                              (int)strcspn(rows[i].key.ptr, "\n"), rows[i].key.ptr);
            bw_buf_puts(b, "\"fact\":");
            bw_catalogue__put_row(b, row);
            bw_buf_putc(b, '}');
        }
    }
}

static bool is_unwritten(const bw_cat_place *p)
{
    return !p->country && bw_catalogue__unknown(p->row) &&
           bw_str_is(bw_catalogue__str(p->row, "kind"), "deny");
}

typedef enum relation { INSIDE, AROUND, UNWRITTEN } relation;

/* A list of names: the countries that lie in this place, the places in which it lies
 * (itself left out), and those of them that hold every country until they are known. */
static void put_places(const bw_catalogue *c, bw_buf *b, size_t place, relation want)
{
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < c->nplaces; i++) {
        const bw_cat_place *p = &c->places[i];
        if (i != place &&
            (want == INSIDE ? p->country && bw_catalogue__lies_in(c, i, place)
                            : bw_catalogue__lies_in(c, place, i) &&
                                  (want == AROUND || is_unwritten(p)))) {
            bw_json_sep(b);
            bw_json_put_str(b, p->name);
        }
    }
    bw_buf_putc(b, ']');
}

static void put_place(const bw_catalogue *c, bw_buf *b, size_t place)
{
    const bw_cat_place *p = &c->places[place];
    bw_buf_puts(b, "{\"name\":");
    bw_json_put_str(b, p->name);
    bw_json_put_key(b, "kind");
    bw_json_put_str(b,
                    p->country ? BW_STR("country") : bw_catalogue__str(p->row, "kind"));
    bw_json_put_key(b, "unknown");
    bw_buf_puts(b, !p->country && bw_catalogue__unknown(p->row) ? "true" : "false");
    bw_json_put_key(b, "lies_in");
    put_places(c, b, place, AROUND);
    bw_json_put_key(b, "unwritten");
    put_places(c, b, place, UNWRITTEN);
    bw_json_put_key(b, "countries");
    put_places(c, b, place, INSIDE);
}

bw_status bw_catalogue_show(bw_ctx *ctx, const bw_catalogue *c, bw_str name,
                            bw_buf *out)
{
    size_t place = bw_catalogue__place(c, name);
    if (name.len && place == SIZE_MAX) {
        bw_str near = bw_catalogue_near(c, name);
        return bw_fail(ctx, BW_ENOTFOUND,
                       near.len ? "no such country or zone; did you mean \"%.*s\"?"
                                : "no such country or zone",
                       (int)near.len, near.ptr);
    }
    if (name.len) {
        put_place(c, out, place);
    } else {
        bw_buf_puts(out, "{\"zones\":[");
        for (size_t i = 0; i < c->nplaces; i++)
            if (!c->places[i].country) {
                bw_json_sep(out);
                put_place(c, out, i);
                bw_buf_putc(out, '}');
            }
        bw_buf_putc(out, ']');
    }
    bw_json_put_key(out, "version");
    bw_json_put_str(out, bw_catalogue_version(c));
    bw_json_put_key(out, "facts");
    bw_buf_putc(out, '[');
    put_facts(c, out, name, false);
    bw_buf_puts(out, "]");
    bw_json_put_key(out, "removed");
    bw_buf_putc(out, '[');
    put_facts(c, out, name, true);
    bw_buf_puts(out, "]}");
    return out->failed ? bw_fail_nomem(ctx) : BW_OK;
}

/* ---- diff ---- */

typedef struct diff {
    const bw_catalogue *from, *to;
    bw_buf *b;
    size_t n;
} diff;

static void open_change(diff *d, const char *change, const char *what, bw_str name)
{
    d->n++;
    bw_json_sep(d->b);
    bw_buf_printf(d->b, "{\"change\":\"%s\",\"what\":\"%s\",\"name\":", change, what);
    bw_json_put_str(d->b, name);
}

static void put_change(diff *d, const char *change, const char *what, bw_str name)
{
    open_change(d, change, what, name);
    bw_buf_putc(d->b, '}');
}

static void put_member(diff *d, const char *change, const char *what, bw_str name,
                       bw_str zone)
{
    open_change(d, change, what, name);
    bw_json_put_key(d->b, "zone");
    bw_json_put_str(d->b, zone);
    bw_buf_putc(d->b, '}');
}

static void put_exchange(diff *d, const char *what, bw_str name, bw_str from, bw_str to)
{
    if (bw_str_eq(from, to))
        return;
    open_change(d, "changed", what, name);
    bw_json_put_key(d->b, "from");
    bw_json_put_str(d->b, from);
    bw_json_put_key(d->b, "to");
    bw_json_put_str(d->b, to);
    bw_buf_putc(d->b, '}');
}

/* Zones that `have` puts the place into and `other` does not. */
static void put_members(diff *d, const char *change, const bw_catalogue *have,
                        const bw_catalogue *other, bw_str name)
{
    size_t p = bw_catalogue__place(have, name);
    for (size_t z = 0; p != SIZE_MAX && z < have->nplaces; z++)
        if (z != p && bw_catalogue__lies_in(have, p, z) &&
            !bw_catalogue_in(other, name, have->places[z].name))
            put_member(d, change, have->places[p].country ? "country" : "zone", name,
                       have->places[z].name);
}

/* The condition of a regime's partial adequacy, as words between commas. */
static void put_condition(const bw_catalogue *c, bw_buf *b, bw_str regime,
                          bw_str country)
{
    const bw_json *row = bw_catalogue__get2(c, BW_CAT_ADEQUACY, regime, country);
    const bw_json *certs = row ? bw_json_get_value(row, "certs") : NULL;
    for (const bw_json *v = certs ? certs->child : NULL; v; v = v->next)
        bw_buf_printf(b, "%s%.*s", v == certs->child ? "" : ",", (int)v->str.len,
                      v->str.ptr);
}

static void diff_conditions(diff *d, bw_str country)
{
    for (size_t i = 0; i < d->to->nrows[BW_CAT_WORDS]; i++) {
        const bw_json *regime = d->to->rows[BW_CAT_WORDS][i].json;
        bw_buf from = {0}, to = {0};
        bw_str word = bw_catalogue__str(regime, "word");
        if (!bw_json_get(regime, "conditional"))
            continue;
        put_condition(d->from, &from, word, country);
        put_condition(d->to, &to, word, country);
        if (from.failed || to.failed)
            d->b->failed = true;
        else if (from.len && to.len)
            put_exchange(d, "condition", country, bw_buf_view(&from), bw_buf_view(&to));
        bw_buf_clear(&from);
        bw_buf_clear(&to);
    }
}

static void diff_places(diff *d)
{
    const bw_catalogue *a = d->from, *b = d->to;
    for (size_t i = 0, k = 0; i < a->nplaces || k < b->nplaces;) {
        int order = i == a->nplaces ? 1
                    : k == b->nplaces
                        ? -1
                        : bw_str_cmp(a->places[i].name, b->places[k].name);
        const bw_cat_place *p = order > 0 ? &b->places[k] : &a->places[i];
        if (order != 0)
            put_change(d, order > 0 ? "new" : "gone", p->country ? "country" : "zone",
                       p->name);
        put_members(d, "gained", b, a, p->name);
        put_members(d, "lost", a, b, p->name);
        if (order == 0 && p->country) {
            diff_conditions(d, p->name);
            put_exchange(d, "localisation", p->name, bw_catalogue__level(a, p->name),
                         bw_catalogue__level(b, p->name));
            put_exchange(d, "foreign-access", p->name, bw_catalogue__access(a, p->name),
                         bw_catalogue__access(b, p->name));
        }
        i += order <= 0;
        k += order >= 0;
    }
}

static bool same_row(diff *d, const bw_json *x, const bw_json *y)
{
    bw_buf a = {0}, b = {0};
    bw_catalogue__put_row(&a, x);
    bw_catalogue__put_row(&b, y);
    bool same = bw_str_eq(bw_buf_view(&a), bw_buf_view(&b));
    d->b->failed = d->b->failed || a.failed || b.failed;
    bw_buf_clear(&a);
    bw_buf_clear(&b);
    return same;
}

/* Words by being there, legal entities by what they say. A word's key is kind and word.
 */
static void diff_rows(diff *d, int table, const char *what, bool contents)
{
    for (int side = 0; side < 2; side++) {
        const bw_catalogue *have = side ? d->to : d->from,
                           *other = side ? d->from : d->to;
        for (size_t i = 0; i < have->nrows[table]; i++) {
            const bw_cat_row *row = &have->rows[table][i];
            const bw_json *twin = bw_catalogue__get(other, table, row->key);
            const char *cut = memchr(row->key.ptr, '\n', row->key.len);
            size_t kind = cut ? (size_t)(cut - row->key.ptr) : 0;
            bw_str name = cut ? (bw_str){cut + 1, row->key.len - kind - 1} : row->key;
            if (twin && (!contents || !side || same_row(d, row->json, twin)))
                continue;
            open_change(d, twin ? "changed" : side ? "new" : "gone", what, name);
            if (cut) {
                bw_json_put_key(d->b, "kind");
                bw_json_put_str(d->b, (bw_str){row->key.ptr, kind});
            }
            bw_buf_putc(d->b, '}');
        }
    }
}

bw_status bw_catalogue_diff(bw_ctx *ctx, const bw_catalogue *from,
                            const bw_catalogue *to, bw_buf *out, size_t *n)
{
    diff d = {.from = from, .to = to, .b = out};
    bw_buf_putc(out, '[');
    diff_places(&d);
    diff_rows(&d, BW_CAT_ENTITIES, "legal-entity", true);
    diff_rows(&d, BW_CAT_WORDS, "word", false);
    bw_buf_putc(out, ']');
    if (out->failed)
        return bw_fail_nomem(ctx);
    *n = d.n;
    return BW_OK;
}
