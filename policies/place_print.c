/* A plan for a program (JSON, everything) and for a person (a table, or all about one
 * region or type). place.h. */
#include "../engine/base/map.h"
#include "place.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- JSON ---- */

static void put_text(bw_buf *b, const char *key, bw_str s)
{
    bw_json_put_key(b, key);
    if (s.ptr)
        bw_json_put_str(b, s);
    else
        bw_buf_puts(b, "null");
}

static void put_number(bw_buf *b, const char *key, double v)
{
    bw_json_put_key(b, key);
    if (v < 0)
        bw_buf_puts(b, "null");
    else
        bw_json_put_f64(b, v);
}

static void put_bool(bw_buf *b, const char *key, bool v)
{
    bw_json_put_key(b, key);
    bw_buf_puts(b, v ? "true" : "false");
}

static void put_reasons(bw_buf *b, const char *key, const bw_reasons *list)
{
    bw_json_put_key(b, key);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < list->n; i++) {
        bw_json_sep(b);
        bw_buf_putc(b, '{');
        put_text(b, "rule", list->items[i].rule);
        if (list->items[i].detail.ptr)
            put_text(b, "detail", list->items[i].detail);
        bw_buf_putc(b, '}');
    }
    bw_buf_putc(b, ']');
}

static void put_price(bw_buf *b, const bw_price *p)
{
    bw_json_put_key(b, "price");
    if (!p) {
        bw_buf_puts(b, "null");
        return;
    }
    bw_buf_putc(b, '{');
    put_number(b, "per_hour", p->per_hour);
    put_text(b, "currency", p->currency);
    put_text(b, "date", p->fact.date);
    put_text(b, "source", p->fact.source);
    bw_buf_putc(b, '}');
}

static void put_size(bw_buf *b, const bw_offer *o)
{
    const bw_sizing *s = &o->size;
    put_text(b, "engine", bw_str_c(s->engine));
    if (s->count > 0) {
        put_number(b, "machines_a_replica", s->count);
        put_number(b, "machines", o->machines);
        put_number(b, "row_bytes", s->row_bytes);
        put_number(b, "host_bytes", s->host_bytes);
        put_number(b, "device_bytes", s->device_bytes);
        put_number(b, "model_bytes", s->model_bytes);
        put_number(b, "rows", s->rows);
        put_number(b, "memory_use", s->memory_use);
        put_number(b, "load", s->load);
        put_number(b, "latency_ms", s->latency_ms);
        put_number(b, "capacity_qps", s->capacity_qps);
    }
    put_number(b, "per_month", s->rule ? BW_UNKNOWN : o->monthly);
}

static void put_offer(bw_buf *b, const bw_offer *o)
{
    const bw_region *g = o->region->region;
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    if (o->in) {
        bw_json_put_key(b, "rank_cost");
        bw_json_put_u64(b, o->rank_cost);
        bw_json_put_key(b, "rank_fit");
        bw_json_put_u64(b, o->rank_fit);
        put_bool(b, "pareto", o->pareto);
    }
    put_text(b, "region", g->id);
    put_text(b, "instance", o->instance->id);
    put_bool(b, "spot", o->spot);
    if (!o->in)
        put_reasons(b, "reasons", &o->out);
    if (o->in) {
        put_text(b, "country", g->country);
        put_text(b, "provider", g->provider_id);
        put_text(b, "operator", g->operator_id);
        put_text(b, "accelerator", o->instance->accelerator_id);
        put_number(b, "accelerators", o->instance->accelerator_count);
        put_number(b, "fit", o->fit);
        put_reasons(b, "because", &o->verdict->permits);
        put_reasons(b, "notes", &o->notes);
    }
    put_size(b, o);
    put_price(b, o->price);
    bw_buf_putc(b, '}');
}

static void put_region_out(bw_buf *b, const bw_plan_region *r)
{
    const bw_region *g = r->region;
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    put_text(b, "region", g->id);
    put_text(b, "country", g->country);
    put_text(b, "provider", g->provider_id);
    put_text(b, "operator", g->operator_id);
    put_reasons(b, "reasons", &r->out);
    bw_json_put_strs(b, "unknown", r->gaps.items, r->gaps.n);
    bw_buf_putc(b, '}');
}

static void put_profile(bw_buf *b, const bw_profile *p)
{
    bw_json_put_key(b, "profile");
    bw_buf_putc(b, '{');
    put_text(b, "name", p->name);
    put_text(b, "currency", p->currency);
    bw_json_put_key(b, "actions");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < p->nactions; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, bw_str_c(bw_action_name(p->actions[i])));
    }
    bw_buf_putc(b, ']');
    bw_json_put_key(b, "classes");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < p->nclasses; i++) {
        bw_json_sep(b);
        bw_buf_str(b, p->class_text[i]);
    }
    bw_buf_puts(b, "]}");
}

void bw_plan_json(const bw_plan *plan, bw_str catalogue_version, bw_buf *out)
{
    bw_buf_puts(out, "{\"schema\":\"bailiwick.place/1\"");
    put_text(out, "market", bw_market_version(plan->market));
    put_text(out, "catalogue", catalogue_version);
    put_profile(out, plan->profile);
    bw_buf_puts(out, ",\"in\":[");
    for (size_t i = 0; i < plan->nin; i++)
        put_offer(out, plan->by_cost[i]);
    bw_buf_puts(out, "],\"out\":{\"regions\":[");
    for (size_t r = 0; r < plan->nregions; r++)
        if (plan->regions[r].out.n > 0)
            put_region_out(out, &plan->regions[r]);
    bw_buf_puts(out, "],\"offers\":[");
    for (size_t r = 0; r < plan->nregions; r++)
        for (size_t i = 0; i < plan->regions[r].noffers; i++)
            if (plan->regions[r].out.n == 0 && !plan->regions[r].offers[i].in)
                put_offer(out, &plan->regions[r].offers[i]);
    bw_buf_puts(out, "]}}\n");
}

/* ---- text ---- */

static void say_reasons(bw_buf *b, const bw_reasons *list)
{
    for (size_t i = 0; i < list->n; i++)
        bw_buf_printf(b, "%s%.*s%s%.*s%s", i ? ", " : "", (int)list->items[i].rule.len,
                      list->items[i].rule.ptr, list->items[i].detail.ptr ? " (" : "",
                      (int)list->items[i].detail.len,
                      list->items[i].detail.ptr ? list->items[i].detail.ptr : "",
                      list->items[i].detail.ptr ? ")" : "");
}

static void say_cost(bw_buf *b, const bw_plan *plan, const bw_offer *o)
{
    if (o->monthly < 0)
        bw_buf_printf(b, "%12s", "unknown");
    else
        bw_buf_printf(b, "%12.2f", o->monthly);
    bw_buf_printf(b, " %.*s", (int)plan->profile->currency.len,
                  plan->profile->currency.ptr);
}

static void say_row(bw_buf *b, const bw_plan *plan, const bw_offer *o)
{
    bw_buf_printf(b, "%4u  %4u%c ", o->rank_cost, o->rank_fit, o->pareto ? '*' : ' ');
    say_cost(b, plan, o);
    bw_buf_printf(b, "  %.0f x %.*s%s in %.*s (%.*s), %s, %.0f %% used", o->machines,
                  (int)o->instance->id.len, o->instance->id.ptr, o->spot ? " spot" : "",
                  (int)o->region->region->id.len, o->region->region->id.ptr,
                  (int)o->region->region->country.len, o->region->region->country.ptr,
                  o->size.engine, 100 * o->fit);
    if (plan->profile->vectors >= 1)
        bw_buf_printf(b, ", %.3g ms", o->size.latency_ms);
    if (o->notes.n) {
        bw_buf_puts(b, "; ");
        say_reasons(b, &o->notes);
    }
    bw_buf_putc(b, '\n');
}

static void say_version(bw_buf *b, const bw_plan *plan, bw_str catalogue_version)
{
    bw_str v = bw_market_version(plan->market);
    bw_buf_printf(b, "market %.*s, catalogue %.*s\n", (int)v.len, v.ptr,
                  (int)catalogue_version.len, catalogue_version.ptr);
}

typedef struct tally {
    bw_str rule;
    uint64_t n;
} tally;

static int by_rule(const void *a, const void *b)
{
    return bw_str_cmp(((const tally *)a)->rule, ((const tally *)b)->rule);
}

static void count_rules(bw_map *rules, const bw_reasons *list, bw_buf *b)
{
    for (size_t i = 0; i < list->n; i++) {
        bool again = false; /* once for each that is out, however many details */
        for (size_t k = 0; k < i && !again; k++)
            again = bw_str_eq(list->items[k].rule, list->items[i].rule);
        if (again)
            continue;
        uint64_t *slot =
            bw_map_put(rules, list->items[i].rule.ptr, list->items[i].rule.len, NULL);
        if (slot)
            ++*slot;
        else
            b->failed = true;
    }
}

/* "12 by policy:gdpr-ch5": how many each rule keeps out. One may be out by several. */
static void say_rules(bw_buf *b, bw_map *rules)
{
    size_t n = bw_map_count(rules), k = 0;
    tally *list = bw_calloc(n + 1, sizeof *list);
    bw_str rule;
    uint64_t *count;
    if (!list) {
        b->failed = true;
        return;
    }
    for (size_t it = 0; bw_map_next(rules, &it, &rule, &count);)
        list[k++] = (tally){rule, *count};
    qsort(list, n, sizeof *list, by_rule);
    for (size_t i = 0; i < n; i++)
        bw_buf_printf(b, "%6llu  %.*s\n", (unsigned long long)list[i].n,
                      (int)list[i].rule.len, list[i].rule.ptr);
    bw_free(list);
}

static void say_out(bw_buf *b, const bw_plan *plan, bool offers)
{
    bw_map *rules = bw_map_new();
    size_t n = 0;
    if (!rules) {
        b->failed = true;
        return;
    }
    for (size_t r = 0; r < plan->nregions; r++) {
        const bw_plan_region *g = &plan->regions[r];
        if (!offers && g->out.n) {
            n++;
            count_rules(rules, &g->out, b);
        }
        for (size_t i = 0; offers && g->out.n == 0 && i < g->noffers; i++)
            if (!g->offers[i].in) {
                n++;
                count_rules(rules, &g->offers[i].out, b);
            }
    }
    if (n)
        bw_buf_printf(b, "\n%zu %s out, by rule (one may be out by several):\n", n,
                      offers ? "offers in the other regions are" : "regions are");
    say_rules(b, rules);
    bw_map_free(rules);
}

/* A budget that no price can be held against would look as if it had been kept. */
static bool budget_is_idle(const bw_plan *plan)
{
    bool idle = plan->profile->budget >= 0;
    for (size_t i = 0; i < plan->nin && idle; i++)
        idle = plan->by_cost[i]->monthly < 0;
    return idle && plan->nin;
}

void bw_plan_table(const bw_plan *plan, bw_str catalogue_version, bool by_fit,
                   size_t limit, bw_buf *out)
{
    say_version(out, plan, catalogue_version);
    bw_buf_printf(out, "%zu offers are in%s\n", plan->nin,
                  !plan->nin ? "."
                  : by_fit   ? "; the fullest machines first:"
                             : "; the cheapest first, unknown prices last:");
    if (budget_is_idle(plan))
        bw_buf_printf(out,
                      "the budget kept none of them out: no price is known in %.*s "
                      "(an overlay adds prices or rates)\n",
                      (int)plan->profile->currency.len, plan->profile->currency.ptr);
    if (plan->nin)
        bw_buf_puts(out, "cost   fit      per month\n");
    for (size_t i = 0; i < plan->nin && i < limit; i++)
        say_row(out, plan, by_fit ? plan->by_fit[i] : plan->by_cost[i]);
    if (plan->nin > limit)
        bw_buf_printf(out, "      and %zu more (--limit, --json)\n", plan->nin - limit);
    say_out(out, plan, false);
    say_out(out, plan, true);
    bw_buf_puts(out,
                "\n* nothing known is both cheaper and faster. --explain REGION or "
                "TYPE tells why and how.\n");
}

static void say_figure(bw_buf *b, double v, const char *unit)
{
    if (v < 0)
        bw_buf_printf(b, "unknown%s", unit);
    else
        bw_buf_printf(b, "%g%s", v, unit);
}

static void say_machine(bw_buf *b, const bw_instance *i)
{
    const bw_accelerator *a = i->accelerator;
    bw_buf_puts(b, "  machine: ");
    say_figure(b, i->vcpu, " vCPUs, ");
    say_figure(b, i->memory_gib, " GiB");
    if (!bw_str_is(a->kind, "cpu")) {
        bw_buf_printf(b, ", %g x %.*s of ", i->accelerator_count, (int)a->id.len,
                      a->id.ptr);
        say_figure(b, a->memory_gb, " GB, ");
        say_figure(b, a->memory_bw_gbs, " GB/s, ");
        say_figure(b, a->fp16_tflops, " Tflop/s in f16");
    }
    bw_buf_putc(b, '\n');
}

/* The formulas of README with the figures in them, to be redone by hand. */
static void say_sum(bw_buf *b, const bw_profile *p, const bw_offer *o)
{
    const bw_sizing *s = &o->size;
    double devices = s->count * o->instance->accelerator_count;
    if (strcmp(s->engine, "gpu-flat") == 0)
        bw_buf_printf(
            b,
            "  t = 2 x max((%.0f x %.0f + 256 x %.0f) / (0.9 x %g), 64 x %.0f x "
            "%.0f / (0.7 x %g)) + 60 us; load %g x t / 32",
            s->rows, s->row_bytes, s->rows, s->bandwidth, s->rows, p->dimension,
            s->peak, p->qps);
    else if (strcmp(s->engine, "cpu-flat") == 0)
        bw_buf_printf(b, "  t = %.0f x %.0f / (%g vCPUs x 5e9); load %g x t", s->rows,
                      s->row_bytes, o->instance->vcpu, p->qps);
    else if (strcmp(s->engine, "cpu-graph") == 0)
        bw_buf_printf(
            b, "  q = %.4g a vCPU over %.0f rows; load %g / (%.0f x %g vCPUs x q)",
            s->rate, s->rows, p->qps, s->capacity_qps / s->rate / o->instance->vcpu,
            o->instance->vcpu);
    if (p->model_parameters > 0)
        bw_buf_printf(b, "%s %g x 2 x %g / (0.3 x %g x %g devices)",
                      p->vectors >= 1 ? " +" : "  load", p->model_tokens_s,
                      p->model_parameters, s->peak16, devices);
    bw_buf_putc(b, '\n');
}

static void explain_offer(bw_buf *b, const bw_plan *plan, const bw_offer *o)
{
    const bw_sizing *s = &o->size;
    bw_buf_printf(b, "%.*s%s in %.*s: %s", (int)o->instance->id.len,
                  o->instance->id.ptr, o->spot ? " spot" : "",
                  (int)o->region->region->id.len, o->region->region->id.ptr,
                  o->in ? "in" : "out by ");
    if (!o->in)
        say_reasons(b, o->region->out.n ? &o->region->out : &o->out);
    if (o->in && o->notes.n) {
        bw_buf_puts(b, "; ");
        say_reasons(b, &o->notes);
    }
    bw_buf_puts(b, "\n");
    say_machine(b, o->instance);
    if (s->count > 0)
        say_sum(b, plan->profile, o);
    if (s->count > 0)
        bw_buf_printf(b,
                      "  %s: row %.0f B; host %.0f B, device %.0f B, model %.0f B a "
                      "replica; %.0f rows a scan\n"
                      "  %.0f machines x %.0f replicas; memory %.3f, load %.3f of 1; "
                      "latency %.4g ms; %.4g queries/s\n",
                      s->engine, s->row_bytes, s->host_bytes, s->device_bytes,
                      s->model_bytes, s->rows, s->count, plan->profile->replicas,
                      s->memory_use, s->load, s->latency_ms, s->capacity_qps);
    if (o->price && !s->rule)
        bw_buf_printf(b, "  %.0f x %g %.*s an hour x %d hours = ", o->machines,
                      o->price->per_hour,
                      (int)(o->price->currency.ptr ? o->price->currency.len : 1),
                      o->price->currency.ptr ? o->price->currency.ptr : "?",
                      BW_PLACE_HOURS_MONTH);
    if (o->price && !s->rule)
        say_cost(b, plan, o);
    if (o->price && !s->rule)
        bw_buf_printf(b, " a month\n  price of %.*s: %.*s\n",
                      (int)o->price->fact.date.len, o->price->fact.date.ptr,
                      (int)o->price->fact.source.len, o->price->fact.source.ptr);
}

static void explain_region(bw_buf *b, const bw_plan_region *r)
{
    const bw_region *g = r->region;
    bw_buf_printf(b, "%.*s, %.*s: operator %.*s; ", (int)g->id.len, g->id.ptr,
                  (int)(g->country.ptr ? g->country.len : 15),
                  g->country.ptr ? g->country.ptr : "unknown country",
                  (int)g->operator_id.len, g->operator_id.ptr);
    bw_buf_puts(b, r->out.n ? "out by " : r->in ? "in" : "no offer is in");
    say_reasons(b, &r->out);
    bw_buf_puts(b, "\n");
    for (size_t v = 0; v < r->nverdicts; v++) {
        const bw_verdict_at *at = &r->verdicts[v];
        bw_buf_puts(b, "  policies, with hardware [");
        for (size_t i = 0; i < at->place.nhw; i++)
            bw_buf_printf(b, "%s%.*s", i ? " " : "", (int)at->place.hw[i].len,
                          at->place.hw[i].ptr);
        bw_buf_puts(b, "] and certificates [");
        for (size_t i = 0; i < at->place.ncerts; i++)
            bw_buf_printf(b, "%s%.*s", i ? " " : "", (int)at->place.certs[i].len,
                          at->place.certs[i].ptr);
        bw_buf_puts(b, at->allowed ? "]: allowed by " : "]: denied by ");
        say_reasons(b, at->allowed ? &at->permits : &at->denials);
        bw_buf_putc(b, '\n');
    }
    for (size_t i = 0; i < r->gaps.n; i++)
        bw_buf_printf(b, "  unknown: %.*s\n", (int)r->gaps.items[i].len,
                      r->gaps.items[i].ptr);
}

bool bw_plan_explain(const bw_plan *plan, bw_str id, bw_buf *out)
{
    bool found = false;
    for (size_t r = 0; r < plan->nregions; r++) {
        const bw_plan_region *g = &plan->regions[r];
        bool region = bw_str_eq(g->region->id, id);
        if (region)
            explain_region(out, g);
        for (size_t i = 0; i < g->noffers; i++)
            if (region || bw_str_eq(g->offers[i].instance->id, id)) {
                explain_offer(out, plan, &g->offers[i]);
                found = true;
            }
        found = found || region;
    }
    return found;
}
