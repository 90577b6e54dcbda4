/* The plan (place.h): every region of the market is asked for by law, then by wish,
 * then every instance type of its provider by size and price; what is in is ranked.
 *
 * The policies are asked about the region as a place with the hardware that a type
 * brings along, once for each distinct set: a rule that wants memory encryption lets
 * some types of a region in and others not. The place is where the cell would run and
 * where bytes would go, so it is both `at` and `dest` of each question.
 *
 * All reasons are gathered, not the first alone. Ranking has no ties left to chance:
 * the last two keys are the ids. */
#include "place.h"

#include <stdlib.h>

enum { OFFERS_MAX = 100000, VERDICTS_MAX = 16 };

typedef struct planning {
    bw_ctx *ctx;
    bw_authority *authority;
    const bw_market *m;
    const bw_profile *p;
    size_t noffers; /* of all regions */
} planning;

static const bw_str none = {NULL, 0};

static bw_status add(bw_ctx *ctx, bw_reasons *list, bw_str rule, bw_str detail)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 4;
        bw_reason *items = bw_arena_grow(ctx, list->items, list->n * sizeof *items,
                                         cap * sizeof *items);
        if (!items)
            return BW_ENOMEM;
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = (bw_reason){rule, detail};
    return BW_OK;
}

static bw_status add_all(bw_ctx *ctx, bw_reasons *list, const bw_reasons *more)
{
    bw_status st = BW_OK;
    for (size_t i = 0; i < more->n && st == BW_OK; i++)
        st = add(ctx, list, more->items[i].rule, more->items[i].detail);
    return st;
}

/* ---- the law ---- */

/* Appends "Store" to the detail of the rule, which starts with the class it is about.
 */
static bw_status determined_by(bw_ctx *ctx, bw_reasons *list, size_t class_at,
                               bw_str policy, bw_action action)
{
    const char *rule = bw_arena_printf(ctx, "policy:%.*s", (int)policy.len, policy.ptr);
    const char *head = bw_arena_printf(ctx, "class %zu:", class_at);
    if (!rule || !head)
        return BW_ENOMEM;
    for (size_t i = 0; i < list->n; i++) {
        bw_reason *r = &list->items[i];
        size_t n = strlen(head);
        if (!bw_str_eq(r->rule, bw_str_c(rule)) || r->detail.len < n ||
            memcmp(r->detail.ptr, head, n) != 0)
            continue;
        const char *more = bw_arena_printf(ctx, "%.*s %s", (int)r->detail.len,
                                           r->detail.ptr, bw_action_name(action));
        if (!more)
            return BW_ENOMEM;
        r->detail = bw_str_c(more);
        return BW_OK;
    }
    const char *detail = bw_arena_printf(ctx, "%s %s", head, bw_action_name(action));
    return detail ? add(ctx, list, bw_str_c(rule), bw_str_c(detail)) : BW_ENOMEM;
}

static bw_status ask(const planning *k, size_t class_at, bw_action action,
                     bw_verdict_at *v)
{
    const bw_profile *p = k->p;
    bw_decision d;
    bw_question q = {.principal = &p->principal,
                     .action = action,
                     .purpose = p->purpose,
                     .safeguards = p->safeguards.items,
                     .nsafeguards = p->safeguards.n,
                     .dest = &v->place,
                     .at = &v->place,
                     .now_ns = bw_clock_unix_ns()};
    bw_status st = bw_decide_class(k->ctx, k->authority, &q, &p->class_id[class_at],
                                   p->class_text[class_at], &d);
    if (st != BW_OK)
        return st;
    v->allowed = v->allowed && d.allow;
    bw_reasons *list = d.allow ? &v->permits : &v->denials;
    if (d.npolicies == 0)
        return determined_by(k->ctx, list, class_at,
                             d.nerrors ? BW_STR("undecidable") : BW_STR("no-permit"),
                             action);
    for (size_t i = 0; i < d.npolicies && st == BW_OK; i++)
        st = determined_by(k->ctx, list, class_at, d.policies[i], action);
    return st;
}

static bool same_hw(bw_texts a, const bw_place *b)
{
    if (a.n != b->nhw)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (!bw_str_eq(a.items[i], b->hw[i]))
            return false;
    return true;
}

/* What the policies say of the region with this hardware; asked once. */
static bw_status verdict(const planning *k, bw_plan_region *r, bw_texts hw,
                         const bw_verdict_at **out)
{
    bw_verdict_at v = {.allowed = true};
    bw_texts words;
    bw_status st = bw_market_hw(k->ctx, r->region, hw, &words);
    if (st != BW_OK)
        return st;
    for (size_t i = 0; i < r->nverdicts; i++)
        if (same_hw(words, &r->verdicts[i].place)) {
            *out = &r->verdicts[i];
            return BW_OK;
        }
    if (r->nverdicts == VERDICTS_MAX)
        return bw_fail(k->ctx, BW_EINVALID, "%.*s: more than %d sets of hardware",
                       (int)r->region->id.len, r->region->id.ptr, VERDICTS_MAX);
    st = bw_market_place(k->ctx, k->m, r->region, words, &v.place);
    for (size_t c = 0; c < k->p->nclasses; c++)
        for (size_t a = 0; a < k->p->nactions && st == BW_OK; a++)
            st = ask(k, c, k->p->actions[a], &v);
    if (st != BW_OK)
        return st;
    r->verdicts[r->nverdicts] = v;
    *out = &r->verdicts[r->nverdicts++];
    return BW_OK;
}

/* ---- wishes about a region ---- */

static bw_status access_rule(const planning *k, bw_plan_region *r)
{
    static const struct {
        const char *access, *rule, *why;
    } closed[] = {
        {"restricted", "restricted-region", "a classified or closed partition"},
        {"announced", "announced-region", "not confirmed to serve yet"},
        {"dedicated", "dedicated-access",
         "for chosen customers; an overlay can open it"}};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (bw_str_eq(r->region->access, bw_str_c(closed[i].access)))
            return add(k->ctx, &r->out, bw_str_c(closed[i].rule),
                       bw_str_c(closed[i].why));
    return BW_OK;
}

static bw_status wished_certs(const planning *k, bw_plan_region *r)
{
    bw_place place;
    bw_status st =
        bw_market_place(k->ctx, k->m, r->region, (bw_texts){NULL, 0}, &place);
    const bw_texts held = {place.certs, place.ncerts};
    for (size_t i = 0; i < k->p->certs.n && st == BW_OK; i++)
        if (!bw_texts_have(held, k->p->certs.items[i]) &&
            !bw_texts_have(r->region->operator->certs, k->p->certs.items[i]))
            st = add(k->ctx, &r->out, BW_STR("certs"), k->p->certs.items[i]);
    return st;
}

static const char *service_of(bw_str api)
{
    return bw_str_is(api, "bedrock-invoke")     ? "bedrock"
           : bw_str_is(api, "sagemaker-invoke") ? "sagemaker_runtime"
                                                : NULL;
}

static bw_status wished_apis(const planning *k, bw_plan_region *r)
{
    bw_status st = BW_OK;
    for (size_t i = 0; i < k->p->inference_api.n && st == BW_OK; i++) {
        bw_str api = k->p->inference_api.items[i];
        const char *service = service_of(api);
        if (!bw_texts_have(r->region->provider->inference_api, api) ||
            (service && !bw_texts_have(r->region->services, bw_str_c(service))))
            st = add(k->ctx, &r->out, BW_STR("inference-api"), api);
    }
    return st;
}

static bool lies_in_any(const bw_profile *p, bw_str country)
{
    for (size_t i = 0; i < p->countries.n; i++)
        if (bw_catalogue_in(p->catalogue, country, p->countries.items[i]))
            return true;
    return false;
}

static bw_status wishes(const planning *k, bw_plan_region *r)
{
    const bw_profile *p = k->p;
    const bw_region *g = r->region;
    bw_status st = access_rule(k, r);
    if (st == BW_OK && !g->country.ptr)
        st = add(k->ctx, &r->out, BW_STR("unknown-country"), none);
    if (st == BW_OK && g->country.ptr && p->countries.items &&
        !lies_in_any(p, g->country))
        st = add(k->ctx, &r->out, BW_STR("country"), g->country);
    if (st == BW_OK && p->providers.items &&
        !bw_texts_have(p->providers, g->provider_id))
        st = add(k->ctx, &r->out, BW_STR("provider"), g->provider_id);
    if (st == BW_OK && g->country.ptr)
        st = wished_certs(k, r);
    return st == BW_OK ? wished_apis(k, r) : st;
}

/* ---- offers ---- */

/* "gpu" beside what the type brings itself. */
static bw_status hw_of(bw_ctx *ctx, const bw_instance *i, bw_texts *out)
{
    bw_str *items = bw_arena_calloc(ctx, i->hw.n + 2, sizeof *items);
    size_t n = 0;
    if (!items)
        return BW_ENOMEM;
    for (; n < i->hw.n; n++)
        items[n] = i->hw.items[n];
    if (!bw_str_is(i->accelerator->kind, "cpu"))
        items[n++] = BW_STR("gpu");
    *out = (bw_texts){items, n};
    return BW_OK;
}

static bw_status price_of(const planning *k, bw_offer *o)
{
    o->price = bw_market_price(k->m, o->instance->id, o->region->region->id, o->spot);
    o->monthly = BW_UNKNOWN;
    if (!o->price)
        return add(k->ctx, &o->notes, BW_STR("price-unknown"), none);
    if (!o->price->currency.ptr)
        return add(k->ctx, &o->notes, BW_STR("currency-unknown"), o->price->fact.note);
    o->monthly =
        bw_market_convert(k->m, o->price->per_hour * o->machines * BW_PLACE_HOURS_MONTH,
                          o->price->currency, k->p->currency);
    bw_status st = BW_OK;
    if (o->monthly < 0)
        st = add(k->ctx, &o->notes, BW_STR("rate-unknown"), o->price->currency);
    if (st == BW_OK && o->price->stale)
        st = add(k->ctx, &o->notes, BW_STR("price-stale"), o->price->fact.date);
    return st;
}

/* Does the region have the type? A price there says yes; a list of accelerators without
 * it says no; otherwise nobody has looked. */
static bw_status offered_here(const planning *k, bw_offer *o)
{
    const bw_region *g = o->region->region;
    const bw_price *own = bw_market_price(k->m, o->instance->id, g->id, false);
    own = own ? own : bw_market_price(k->m, o->instance->id, g->id, true);
    bool cpu = bw_str_is(o->instance->accelerator->kind, "cpu");
    bool listed = !cpu && g->accelerators.items;
    bool seen = listed && bw_texts_have(g->accelerators, o->instance->accelerator_id);
    if (own && (seen || !bw_str_is(own->region_id, "*")))
        return BW_OK;
    if (listed && !seen)
        return add(k->ctx, &o->out, BW_STR("not-seen-here"),
                   o->instance->accelerator_id);
    return add(k->ctx, &o->notes, BW_STR("availability-unconfirmed"), none);
}

static bw_status wished_hw(const planning *k, bw_offer *o, bw_texts hw)
{
    bw_status st = BW_OK;
    for (size_t i = 0; i < k->p->hw.n && st == BW_OK; i++)
        if (!bw_texts_have(hw, k->p->hw.items[i]) &&
            !bw_texts_have(o->region->region->hw, k->p->hw.items[i]))
            st = add(k->ctx, &o->out, BW_STR("hw"), k->p->hw.items[i]);
    return st;
}

static bw_status doubts(const planning *k, bw_offer *o)
{
    bw_status st = BW_OK;
    if (o->spot)
        st = add(k->ctx, &o->notes, BW_STR("interruptible"), none);
    if (st == BW_OK && o->region->region->provider->decentralised)
        st = add(k->ctx, &o->notes, BW_STR("decentralised"),
                 o->region->region->operator_id);
    if (st == BW_OK && k->p->latency_ms > 0)
        st = add(k->ctx, &o->notes, BW_STR("network-latency-unknown"), none);
    if (st == BW_OK && o->size.host_memory_unknown)
        st = add(k->ctx, &o->notes, BW_STR("host-memory-unknown"), none);
    if (st == BW_OK && o->size.extrapolated)
        st = add(k->ctx, &o->notes, BW_STR("beyond-measured-size"), none);
    if (st == BW_OK && (bw_str_is(o->instance->fact.confidence, "low") ||
                        bw_str_is(o->region->region->fact.confidence, "low") ||
                        bw_str_is(o->instance->accelerator->fact.confidence, "low")))
        st = add(k->ctx, &o->notes, BW_STR("low-confidence"), none);
    return st;
}

static bw_status weigh_offer(const planning *k, bw_plan_region *r, bw_offer *o)
{
    bw_texts hw;
    bw_status st = hw_of(k->ctx, o->instance, &hw);
    if (st == BW_OK)
        st = verdict(k, r, hw, &o->verdict);
    if (st == BW_OK)
        st = add_all(k->ctx, &o->out, &o->verdict->denials);
    if (st == BW_OK)
        st = offered_here(k, o);
    if (st == BW_OK)
        st = wished_hw(k, o, hw);
    if (st == BW_OK && o->spot && !k->p->spot)
        st = add(k->ctx, &o->out, BW_STR("spot-not-allowed"), none);
    bw_place_size(k->p, o->instance, &o->size);
    if (st == BW_OK && o->size.rule)
        st = add(k->ctx, &o->out, bw_str_c(o->size.rule), none);
    o->machines = o->size.count * k->p->replicas;
    o->fit = o->size.load > o->size.memory_use ? o->size.load : o->size.memory_use;
    if (st == BW_OK)
        st = price_of(k, o);
    if (st == BW_OK && !o->size.rule && k->p->budget >= 0 && o->monthly > k->p->budget)
        st = add(k->ctx, &o->out, BW_STR("budget"), none);
    if (st == BW_OK)
        st = doubts(k, o);
    o->in = o->out.n == 0;
    r->in = r->in || o->in;
    return st;
}

static bw_status gather_offers(planning *k, bw_plan_region *r)
{
    const bw_instance *i;
    size_t n = 0;
    for (size_t at = 0; (i = bw_market_row(k->m, BW_MARKET_INSTANCES, at)) != NULL;
         at++)
        if (bw_str_eq(i->provider_id, r->region->provider_id))
            n += i->spot ? 2 : 1;
    k->noffers += n;
    if (k->noffers > OFFERS_MAX)
        return bw_fail(k->ctx, BW_EINVALID, "the market has more than %d offers",
                       OFFERS_MAX);
    r->offers = bw_arena_calloc(k->ctx, n + 1, sizeof *r->offers);
    if (!r->offers)
        return BW_ENOMEM;
    for (size_t at = 0; (i = bw_market_row(k->m, BW_MARKET_INSTANCES, at)) != NULL;
         at++)
        for (int spot = 0;
             bw_str_eq(i->provider_id, r->region->provider_id) && spot <= i->spot;
             spot++)
            r->offers[r->noffers++] =
                (bw_offer){.region = r, .instance = i, .spot = spot != 0};
    return BW_OK;
}

/* No offer at all: still say what the law would have said. */
static bw_status no_offers(const planning *k, bw_plan_region *r)
{
    const bw_verdict_at *v = NULL;
    bw_status st = add(k->ctx, &r->out, BW_STR("no-instances-known"), none);
    if (st == BW_OK)
        st = verdict(k, r, (bw_texts){NULL, 0}, &v);
    return st == BW_OK ? add_all(k->ctx, &r->out, &v->denials) : st;
}

static bool denied_by(const bw_verdict_at *v, const bw_reason *r)
{
    for (size_t i = 0; i < v->denials.n; i++)
        if (bw_str_eq(v->denials.items[i].rule, r->rule) &&
            bw_str_eq(v->denials.items[i].detail, r->detail))
            return true;
    return false;
}

/* What is denied whatever the hardware keeps the region itself out. Where each kind of
 * hardware is denied by rules of its own, the offers say so. */
static bw_status close_region(const planning *k, bw_plan_region *r)
{
    bw_status st = BW_OK;
    for (size_t i = 0; r->nverdicts && i < r->verdicts[0].denials.n; i++) {
        const bw_reason *reason = &r->verdicts[0].denials.items[i];
        bool all = true;
        for (size_t v = 1; v < r->nverdicts && all; v++)
            all = denied_by(&r->verdicts[v], reason);
        if (st == BW_OK && all)
            st = add(k->ctx, &r->out, reason->rule, reason->detail);
    }
    return st;
}

static bw_status weigh_region(planning *k, bw_plan_region *r)
{
    bw_status st = bw_market_gaps(k->ctx, k->m, r->region, &r->gaps);
    r->verdicts = bw_arena_calloc(k->ctx, VERDICTS_MAX, sizeof *r->verdicts);
    if (st == BW_OK && !r->verdicts)
        st = BW_ENOMEM;
    if (st == BW_OK)
        st = wishes(k, r);
    if (st == BW_OK && r->region->country.ptr)
        st = gather_offers(k, r);
    if (st != BW_OK || !r->region->country.ptr)
        return st;
    if (r->noffers == 0)
        return no_offers(k, r);
    for (size_t i = 0; i < r->noffers && st == BW_OK; i++)
        st = weigh_offer(k, r, &r->offers[i]);
    if (st == BW_OK)
        st = close_region(k, r);
    for (size_t i = 0; i < r->noffers && r->out.n > 0; i++)
        r->offers[i].in = false; /* they share the region's fate */
    r->in = r->in && r->out.n == 0;
    return st;
}

/* ---- ranking ---- */

static int less_first(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_ids(const bw_offer *a, const bw_offer *b)
{
    int c = bw_str_cmp(a->region->region->id, b->region->region->id);
    c = c ? c : bw_str_cmp(a->instance->id, b->instance->id);
    return c ? c : (int)a->spot - (int)b->spot;
}

/* Known costs first and cheapest first; then fewer doubts, the better fit, what cannot
 * be taken away, and the ids. */
static int by_cost(const void *x, const void *y)
{
    const bw_offer *a = *(bw_offer *const *)x, *b = *(bw_offer *const *)y;
    int c = (a->monthly < 0) - (b->monthly < 0);
    c = c ? c : less_first(a->monthly, b->monthly);
    c = c ? c : less_first((double)a->notes.n, (double)b->notes.n);
    c = c ? c : less_first(b->fit, a->fit);
    c = c ? c : (int)a->spot - (int)b->spot;
    return c ? c : by_ids(a, b);
}

/* The fullest machine first; then known and lower cost, fewer doubts, and the ids. */
static int by_fit(const void *x, const void *y)
{
    const bw_offer *a = *(bw_offer *const *)x, *b = *(bw_offer *const *)y;
    int c = less_first(b->fit, a->fit);
    return c ? c : by_cost(x, y);
}

static bw_status rank(const planning *k, bw_plan *plan)
{
    double best = -1;
    plan->by_cost = bw_arena_calloc(k->ctx, k->noffers + 1, sizeof *plan->by_cost);
    plan->by_fit = bw_arena_calloc(k->ctx, k->noffers + 1, sizeof *plan->by_fit);
    if (!plan->by_cost || !plan->by_fit)
        return BW_ENOMEM;
    for (size_t r = 0; r < plan->nregions; r++)
        for (size_t i = 0; i < plan->regions[r].noffers; i++)
            if (plan->regions[r].offers[i].in)
                plan->by_cost[plan->nin++] = &plan->regions[r].offers[i];
    memcpy(plan->by_fit, plan->by_cost, plan->nin * sizeof *plan->by_cost);
    qsort(plan->by_cost, plan->nin, sizeof *plan->by_cost, by_cost);
    qsort(plan->by_fit, plan->nin, sizeof *plan->by_fit, by_fit);
    for (size_t i = 0; i < plan->nin; i++) {
        bw_offer *o = plan->by_cost[i];
        o->rank_cost = (uint32_t)(i + 1);
        plan->by_fit[i]->rank_fit = (uint32_t)(i + 1);
        /* Nothing with a known cost that comes before it is as fast. */
        o->pareto = o->monthly >= 0 && (best < 0 || o->size.latency_ms < best);
        if (o->pareto)
            best = o->size.latency_ms;
    }
    return BW_OK;
}

bw_status bw_place_plan(bw_ctx *ctx, bw_authority *authority, const bw_market *m,
                        const bw_profile *p, bw_plan *out)
{
    planning k = {.ctx = ctx, .authority = authority, .m = m, .p = p};
    bw_plan plan = {.profile = p, .market = m};
    plan.nregions = bw_market_count(m, BW_MARKET_REGIONS);
    plan.regions = bw_arena_calloc(ctx, plan.nregions + 1, sizeof *plan.regions);
    bw_status st = plan.regions ? BW_OK : BW_ENOMEM;
    for (size_t i = 0; i < plan.nregions && st == BW_OK; i++) {
        plan.regions[i].region = bw_market_row(m, BW_MARKET_REGIONS, i);
        st = weigh_region(&k, &plan.regions[i]);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
    }
    if (st == BW_OK)
        st = rank(&k, &plan);
    if (st == BW_OK)
        *out = plan;
    return st;
}
