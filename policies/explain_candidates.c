/* Which single changes of facts could turn a condition: read off the test that it
 * makes, its literals and the values of its other side. Only facts that the table of
 * explain_facts.c knows, and never which tenant somebody or something belongs to. What
 * is proposed here is a guess; the search decides. */
#include "explain_private.h"

enum { ITEMS_MAX = 1000, PICKS = 3, KNOWN_MAX = 8, NUMBER_MAX = 5, SHARE_MAX = 1000000 };

typedef struct guess {
    bw_explaining *x;
    const bw_asked *asked;
    bw_candidates *out;
    bw_status status;
} guess;

/* ---- facts of paths ---- */

/* The fact that a path is (or, with *inside, that it leads into): the longest that
 * fits. */
static bw_fact fact_of(bw_str path, bool *inside)
{
    bw_fact found = BW_FACT_COUNT;
    size_t best = 0;
    for (int f = 0; f < BW_FACT_COUNT; f++) {
        bw_str p = bw_str_c(bw_facts[f].path);
        bool begins = path.len >= p.len && memcmp(path.ptr, p.ptr, p.len) == 0;
        if (begins && p.len > best &&
            (path.len == p.len || path.ptr[p.len] == '.' || path.ptr[p.len] == '[')) {
            found = (bw_fact)f;
            best = p.len;
            *inside = path.len > p.len;
        }
    }
    return found;
}

static bw_fact direct(const bw_cedar_leaf *side)
{
    bool inside = false;
    bw_fact f = side->path.len ? fact_of(side->path, &inside) : BW_FACT_COUNT;
    return inside ? BW_FACT_COUNT : f;
}

/* ---- proposing ---- */

static bool offered(const guess *g, bw_fact f)
{
    if (bw_fact__of_labels(f))
        return g->asked->facts.has_labels && g->x->may_label;
    return true;
}

/* Whether a fact could have that value at all: what is said must be known. */
static bool known(const guess *g, bw_fact f, bw_verb verb, bw_str value)
{
    static const char *const kinds[BW_FACT_COUNT] = {
        [BW_FACT_PURPOSE] = "purposes",
        [BW_FACT_SAFEGUARDS] = "safeguards",
        [BW_FACT_DEST_CERTS] = "certs",
        [BW_FACT_DEST_HW] = "hw",
        [BW_FACT_DEST_OP_CERTS] = "certs",
        [BW_FACT_AT_CERTS] = "certs",
        [BW_FACT_AT_HW] = "hw",
        [BW_FACT_AT_OP_CERTS] = "certs",
        [BW_FACT_REGIMES] = "regimes",
        [BW_FACT_CATEGORIES] = "categories",
        [BW_FACT_LABELS] = "labels",
        [BW_FACT_PURPOSES] = "purposes"};
    const bw_catalogue *c = g->x->now.catalogue;
    if (verb == BW_CHANGE_REMOVE || (f == BW_FACT_PURPOSE && value.len == 0))
        return true;
    if (kinds[f])
        return bw_catalogue_has_word(c, kinds[f], value);
    return bw_facts[f].shape == BW_SHAPE_COUNTRY ? bw_catalogue_has_country(c, value)
           : bw_facts[f].shape == BW_SHAPE_ZONES ? bw_catalogue_has_zone(c, value)
                                                 : value.len > 0;
}

static void propose(guess *g, bw_fact f, bw_verb verb, bw_str value)
{
    bw_candidates *c = g->out;
    if (f >= BW_FACT_COUNT || !offered(g, f) || !known(g, f, verb, value))
        return;
    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].fact == f && c->items[i].verb == verb &&
            bw_str_eq(c->items[i].value, value))
            return;
    if (c->n == BW_CANDIDATES_MAX) {
        c->cut = true;
        return;
    }
    c->items[c->n++] = (bw_change){f, verb, value};
}

static void propose_number(guess *g, bw_fact f, int64_t n)
{
    char *text = NULL;
    if (bw_facts[f].shape == BW_SHAPE_NUMBER && n >= 0 && n <= NUMBER_MAX)
        text = bw_arena_printf(g->x->scratch, "%lld", (long long)n);
    else if (bw_facts[f].shape == BW_SHAPE_DECIMAL && n >= 0 && n <= SHARE_MAX)
        text = bw_arena_printf(g->x->scratch, "%lld.%04lld", (long long)(n / 10000),
                               (long long)(n % 10000));
    else
        return;
    if (text)
        propose(g, f, BW_CHANGE_SET, bw_str_c(text));
    else
        g->status = bw_fail_nomem(g->x->scratch);
}

static bool numeric(bw_fact f)
{
    return f < BW_FACT_COUNT && (bw_facts[f].shape == BW_SHAPE_NUMBER ||
                                 bw_facts[f].shape == BW_SHAPE_DECIMAL);
}

static bool listed(bw_fact f)
{
    if (f >= BW_FACT_COUNT)
        return false;
    bw_shape s = bw_facts[f].shape;
    return s == BW_SHAPE_WORDS || s == BW_SHAPE_ZONES || s == BW_SHAPE_TENANTS;
}

static bool single(bw_fact f) /* a name of its own */
{
    if (f >= BW_FACT_COUNT)
        return false;
    bw_shape s = bw_facts[f].shape;
    return s == BW_SHAPE_WORD || s == BW_SHAPE_COUNTRY || s == BW_SHAPE_OPERATOR ||
           s == BW_SHAPE_PLACE;
}

/* The name that a value is, if it may be said and is one that the fact takes. */
static bool name_for(const guess *g, bw_fact f, const bw_cedar_value *v, bw_str *out)
{
    static const char *const types[] = {
        [BW_SHAPE_COUNTRY] = "Bw::Country",      [BW_SHAPE_ZONES] = "Bw::Zone",
        [BW_SHAPE_OPERATOR] = "Bw::LegalEntity", [BW_SHAPE_PLACE] = "Bw::Node",
        [BW_SHAPE_TENANTS] = "Bw::Tenant",       [BW_SHAPE_ROLES] = "Bw::Role"};
    if (!v || !bw_explain__show(v, g->x))
        return false;
    bw_cedar_look l = bw_cedar_value_look(v);
    bw_shape s = bw_facts[f].shape;
    *out = l.text;
    return s == BW_SHAPE_WORD || s == BW_SHAPE_WORDS
               ? l.kind == BW_CEDAR_STRING
               : l.kind == BW_CEDAR_ENTITY && types[s] &&
                     bw_str_eq(l.type, bw_str_c(types[s]));
}

/* ---- sets as items ---- */

static uint32_t items_of(const bw_cedar_value *v)
{
    if (!v)
        return 0;
    bw_cedar_look l = bw_cedar_value_look(v);
    return l.kind == BW_CEDAR_SET ? l.n : 1;
}

/* So many of them are looked at: each may be held against a set as long. */
static uint32_t looked_at(guess *g, const bw_cedar_value *v)
{
    uint32_t n = items_of(v);
    if (n <= ITEMS_MAX)
        return n;
    g->out->cut = true;
    return ITEMS_MAX;
}

static const bw_cedar_value *item_of(const bw_cedar_value *v, uint32_t i)
{
    return bw_cedar_value_look(v).kind == BW_CEDAR_SET ? bw_cedar_value_item(v, i) : v;
}

static bool same_name(const bw_cedar_value *a, const bw_cedar_value *b)
{
    bw_cedar_look x = bw_cedar_value_look(a), y = bw_cedar_value_look(b);
    return x.kind == y.kind && bw_str_eq(x.text, y.text) && bw_str_eq(x.type, y.type);
}

static bool has_item(const bw_cedar_value *set, const bw_cedar_value *v)
{
    for (uint32_t i = 0; i < items_of(set); i++)
        if (same_name(item_of(set, i), v))
            return true;
    return false;
}

static void propose_item(guess *g, bw_fact f, bw_verb verb, const bw_cedar_value *v)
{
    bw_str name;
    if (f < BW_FACT_COUNT && name_for(g, f, v, &name))
        propose(g, f, verb, name);
}

/* ---- countries ---- */

static void propose_country(guess *g, bw_fact f, bw_str code, const bw_cedar_uid *in)
{
    bw_cedar_uid uid = {BW_STR("Bw::Country"), code};
    if (code.len && (!in || bw_cedar_trace_in(g->asked->trace, &uid, in)))
        propose(g, f, BW_CHANGE_SET, code);
}

/* Countries of a zone: those that the question names first, then by code. */
static void propose_countries(guess *g, bw_fact f, const bw_cedar_uid *zone)
{
    const bw_what_if *w = &g->asked->facts;
    const bw_str *ids;
    size_t n;
    propose_country(g, f, g->x->now.at->country, zone);
    propose_country(g, f, w->dest.country, zone);
    propose_country(g, f, w->at.country, zone);
    propose_country(g, f, w->who.seat, zone);
    g->status = bw_cedar_trace_members(g->asked->trace, BW_STR("Bw::Country"), zone,
                                       PICKS, &ids, &n);
    for (size_t i = 0; i < n && g->status == BW_OK; i++)
        propose(g, f, BW_CHANGE_SET, ids[i]);
}

static void propose_known(guess *g, bw_fact f, const char *type)
{
    const bw_str *ids;
    size_t n;
    if (!g->x->ask->privileged)
        return;
    g->status = bw_cedar_trace_members(g->asked->trace, bw_str_c(type), NULL, KNOWN_MAX,
                                       &ids, &n);
    for (size_t i = 0; i < n && g->status == BW_OK; i++)
        propose(g, f, BW_CHANGE_SET, ids[i]);
}

/* Other values of a fact, where the condition does not say which. */
static void propose_others(guess *g, bw_fact f, const bw_cedar_value *now)
{
    const bw_what_if *w = &g->asked->facts;
    const bw_explain_ask *ask = g->x->ask;
    switch (bw_facts[f].shape) {
    case BW_SHAPE_WORD:
        for (size_t i = 0; i < ask->nclaimable; i++)
            propose(g, f, BW_CHANGE_SET, ask->claimable[i]);
        for (size_t i = 0; i < w->labels.purposes.n; i++)
            propose(g, f, BW_CHANGE_SET, w->labels.purposes.items[i]);
        propose(g, f, BW_CHANGE_SET, BW_STR(""));
        return;
    case BW_SHAPE_COUNTRY:
        propose_countries(g, f, NULL);
        for (size_t i = 0; i < w->labels.residency.n && g->status == BW_OK; i++) {
            bw_cedar_uid zone = {BW_STR("Bw::Zone"), w->labels.residency.items[i]};
            propose_countries(g, f, &zone);
        }
        return;
    case BW_SHAPE_OPERATOR:
        propose(g, f, BW_CHANGE_SET, g->x->now.at->operator_id);
        propose_known(g, f, "Bw::LegalEntity");
        return;
    case BW_SHAPE_PLACE:
        propose_known(g, f, "Bw::Node");
        return;
    case BW_SHAPE_ROLES:
        for (size_t i = 0; i < w->who.nroles; i++)
            propose(g, f, BW_CHANGE_REMOVE, w->who.roles[i]);
        return;
    case BW_SHAPE_WORDS:
    case BW_SHAPE_ZONES:
    case BW_SHAPE_TENANTS:
        for (size_t i = 0; f == BW_FACT_SAFEGUARDS && i < ask->nrecorded; i++)
            propose(g, f, BW_CHANGE_ADD, ask->recorded[i]);
        for (uint32_t i = 0; i < items_of(now); i++)
            propose_item(g, f, BW_CHANGE_REMOVE, item_of(now, i));
        return;
    case BW_SHAPE_NUMBER:
    case BW_SHAPE_DECIMAL:
        if (now) {
            int64_t step = bw_facts[f].shape == BW_SHAPE_NUMBER ? 1 : 10000;
            propose_number(g, f, bw_cedar_value_look(now).integer + step);
            propose_number(g, f, bw_cedar_value_look(now).integer - step);
        }
        return;
    case BW_SHAPE_BOOL:
        propose(g, f, BW_CHANGE_SET,
                now && bw_cedar_value_look(now).boolean ? BW_STR("false")
                                                        : BW_STR("true"));
        return;
    }
}

/* ---- by test ---- */

static void guess_equal(guess *g, const bw_cedar_part *p)
{
    for (int i = 0; i < 2; i++) {
        const bw_cedar_leaf *mine = &p->side[i], *other = &p->side[1 - i];
        bw_fact f = direct(mine);
        if (f >= BW_FACT_COUNT || !other->value)
            continue;
        if (p->holds)
            propose_others(g, f, mine->value);
        else if (single(f))
            propose_item(g, f, BW_CHANGE_SET, other->value);
        else if (numeric(f))
            propose_number(g, f, bw_cedar_value_look(other->value).integer);
        else if (bw_facts[f].shape == BW_SHAPE_BOOL)
            propose_others(g, f, mine->value);
    }
}

static void guess_order(guess *g, const bw_cedar_part *p)
{
    if (!p->side[0].value || !p->side[1].value)
        return;
    bool equal_will_do = (p->test == BW_CEDAR_TEST_LESS_EQ) != p->holds;
    int64_t step = equal_will_do ? 0 : 1;
    int64_t a = bw_cedar_value_look(p->side[0].value).integer,
            b = bw_cedar_value_look(p->side[1].value).integer;
    bw_fact fa = direct(&p->side[0]), fb = direct(&p->side[1]);
    if (numeric(fa)) /* to hold, a must fall to b; not to hold, rise to it */
        propose_number(g, fa, p->holds ? b + step : b - step);
    if (numeric(fb))
        propose_number(g, fb, p->holds ? a - step : a + step);
}

static void guess_bool(guess *g, const bw_cedar_part *p)
{
    bw_fact f = direct(&p->side[0]);
    if (f < BW_FACT_COUNT)
        propose_others(g, f, p->side[0].value);
}

/* a in b: who is in a role, which country is in which zones. */
static void guess_in(guess *g, const bw_cedar_part *p)
{
    const bw_cedar_value *a = p->side[0].value, *b = p->side[1].value;
    bw_fact fa = direct(&p->side[0]), fb = direct(&p->side[1]);
    for (uint32_t i = 0, n = looked_at(g, b); i < n && g->status == BW_OK; i++) {
        const bw_cedar_value *group = item_of(b, i);
        bw_cedar_look l = bw_cedar_value_look(group);
        bw_cedar_uid uid = {l.type, l.text};
        if (fa == BW_FACT_ROLES)
            propose_item(g, fa, p->holds ? BW_CHANGE_REMOVE : BW_CHANGE_ADD, group);
        else if (fa < BW_FACT_COUNT && bw_facts[fa].shape == BW_SHAPE_COUNTRY &&
                 !p->holds && bw_explain__show(group, g->x))
            propose_countries(g, fa, &uid);
        if (listed(fb) && p->holds && a) {
            bw_cedar_look m = bw_cedar_value_look(a);
            bw_cedar_uid mine = {m.type, m.text};
            if (bw_cedar_trace_in(g->asked->trace, &mine, &uid))
                propose_item(g, fb, BW_CHANGE_REMOVE, group);
        }
    }
    if (fa < BW_FACT_COUNT && fa != BW_FACT_ROLES && p->holds)
        propose_others(g, fa, a);
    if (listed(fb) && !p->holds && a) /* a country's own zone has its name */
        propose(g, fb, BW_CHANGE_ADD, bw_cedar_value_look(a).text);
}

static void guess_contains(guess *g, const bw_cedar_part *p)
{
    const bw_cedar_value *set = p->side[0].value, *v = p->side[1].value;
    bw_fact fs = direct(&p->side[0]), fv = direct(&p->side[1]);
    if (single(fv) && p->holds)
        propose_others(g, fv, v);
    for (uint32_t i = 0, n = looked_at(g, set); single(fv) && !p->holds && i < n; i++)
        propose_item(g, fv, BW_CHANGE_SET, item_of(set, i));
    if (listed(fs) && v)
        propose_item(g, fs, p->holds ? BW_CHANGE_REMOVE : BW_CHANGE_ADD, v);
}

static void guess_any(guess *g, const bw_cedar_part *p)
{
    for (int i = 0; i < 2; i++) {
        const bw_cedar_value *mine = p->side[i].value, *other = p->side[1 - i].value;
        bw_fact f = direct(&p->side[i]);
        for (uint32_t k = 0, n = looked_at(g, other); listed(f) && k < n; k++) {
            const bw_cedar_value *v = item_of(other, k);
            if (!p->holds)
                propose_item(g, f, BW_CHANGE_ADD, v);
            else if (mine && has_item(mine, v))
                propose_item(g, f, BW_CHANGE_REMOVE, v);
        }
    }
}

static void guess_all(guess *g, const bw_cedar_part *p)
{
    const bw_cedar_value *all = p->side[0].value, *part = p->side[1].value;
    bw_fact fa = direct(&p->side[0]), fp = direct(&p->side[1]);
    if (!listed(fa) && !listed(fp))
        return;
    for (uint32_t k = 0, n = looked_at(g, part); k < n; k++) {
        const bw_cedar_value *v = item_of(part, k);
        bool there = all && has_item(all, v);
        if (there != p->holds)
            continue;
        if (listed(fa))
            propose_item(g, fa, p->holds ? BW_CHANGE_REMOVE : BW_CHANGE_ADD, v);
        if (listed(fp) && !p->holds)
            propose_item(g, fp, BW_CHANGE_REMOVE, v);
        if (!p->holds)
            return; /* all that are missing are wanted: each way begins with the first
                     */
    }
}

/* What the condition reads beyond its sides, or cannot read: other values of it. */
static void guess_leaves(guess *g, const bw_cedar_part *p)
{
    bool inside = false;
    for (uint32_t i = 0; i < p->nleaves && g->status == BW_OK; i++) {
        bw_fact f =
            p->leaves[i].path.len ? fact_of(p->leaves[i].path, &inside) : BW_FACT_COUNT;
        while (f < BW_FACT_COUNT && g->status == BW_OK) {
            propose_others(g, f,
                           p->truth == BW_CEDAR_FAILED || inside ? NULL
                                                                 : p->leaves[i].value);
            /* and what it hangs on: an operator's certs on which operator it is */
            bw_str path = bw_str_c(bw_facts[f].path);
            while (path.len && path.ptr[path.len - 1] != '.')
                path.len--;
            f = path.len ? fact_of((bw_str){path.ptr, path.len - 1}, &inside)
                         : BW_FACT_COUNT;
            inside = true;
        }
    }
}

bw_status bw_explain__candidates(bw_explaining *x, const bw_asked *asked,
                                 const bw_cedar_part *part, bw_candidates *out)
{
    guess g = {.x = x, .asked = asked, .out = out, .status = BW_OK};
    if (part->truth != BW_CEDAR_FAILED)
        switch (part->test) {
        case BW_CEDAR_TEST_BOOL:
            guess_bool(&g, part);
            break;
        case BW_CEDAR_TEST_EQ:
            guess_equal(&g, part);
            break;
        case BW_CEDAR_TEST_LESS:
        case BW_CEDAR_TEST_LESS_EQ:
            guess_order(&g, part);
            break;
        case BW_CEDAR_TEST_IN:
            guess_in(&g, part);
            break;
        case BW_CEDAR_TEST_CONTAINS:
            guess_contains(&g, part);
            break;
        case BW_CEDAR_TEST_CONTAINS_ALL:
            guess_all(&g, part);
            break;
        case BW_CEDAR_TEST_CONTAINS_ANY:
            guess_any(&g, part);
            break;
        case BW_CEDAR_TEST_EMPTY:
        case BW_CEDAR_TEST_OTHER:
            break;
        }
    bool inside_only = part->test == BW_CEDAR_TEST_EMPTY ||
                       part->test == BW_CEDAR_TEST_OTHER ||
                       part->truth == BW_CEDAR_FAILED;
    for (uint32_t i = 0; i < part->nleaves && !inside_only; i++) {
        bool inside = false;
        (void)(part->leaves[i].path.len && fact_of(part->leaves[i].path, &inside));
        inside_only = inside;
    }
    if (g.status == BW_OK && inside_only)
        guess_leaves(&g, part);
    return g.status;
}
