/* Where a workload may run, and what that costs: regions, instance types and prices of the
 * market (offers.h), each in or out by named rules. First the law: the authority is asked
 * whether the classes may be there (a what-if question); then the machine: how many are
 * needed by memory, load and latency (place_size.c has the formulas); then the price.
 *
 * A plan is a starting point. Figures of machines are estimates on the careful side,
 * prices have a date, and what is unknown is said and ranks after what is known. */
#ifndef BW_PLACE_H
#define BW_PLACE_H
#include "offers.h"

enum { BW_PLACE_CLASSES_MAX = 64, BW_PLACE_INSTANCES_MAX = 64, BW_PLACE_HOURS_MONTH = 730 };

typedef struct bw_profile {
    const bw_catalogue *catalogue; /* borrowed: what lies in which zone */
    bw_str name;
    bw_principal principal;
    bw_str purpose;
    bw_texts safeguards;
    bw_str class_text[BW_PLACE_CLASSES_MAX]; /* canonical label sets */
    bw_class_id class_id[BW_PLACE_CLASSES_MAX];
    size_t nclasses;
    bw_action actions[BW_ACTION_COUNT];
    size_t nactions;
    double vectors, dimension, replicas, qps;
    bw_str precision;     /* "f32", "f16", "bf16", "int8", "b1" */
    double bits;          /* of it, a component */
    double recall;        /* wanted recall@10, 0.5 to 1 */
    double latency_ms;    /* of a search inside the cell; or BW_UNKNOWN = no objective */
    double model_parameters, model_bytes, model_tokens_s; /* parameters 0 = no model; bytes each */
    double budget;        /* a month; or BW_UNKNOWN */
    bw_str currency;      /* of budget and ranking */
    bool spot;            /* may machines be taken away at short notice? */
    bw_texts countries, providers, hw, certs, inference_api; /* items NULL: any; countries or zones */
} bw_profile;

/* Strict JSON (README, "Profile"); BW_EINVALID with the pointer. Texts point into `v`'s.
 * classes: label objects that stand in for the profile's own, or NULL. */
BW_MUST_USE bw_status bw_profile_read(bw_ctx *ctx, const bw_catalogue *catalogue, const bw_json *v,
                                      const bw_json *classes, bw_profile *out);

/* ---- machines ---- */

typedef struct bw_sizing {
    const char *rule;   /* NULL: fits; else why no number of machines does */
    const char *engine; /* "gpu-flat", "cpu-flat", "cpu-graph", "none" */
    double count;       /* machines of one replica; BW_PLACE_INSTANCES_MAX tried where none fits */
    double row_bytes, host_bytes, device_bytes, model_bytes; /* a row in the index; whole needs with headroom */
    double rows;        /* that one device or machine scans for a query */
    double memory_use, load; /* shares of the tightest memory and of the time, of 1 */
    double latency_ms;  /* a search inside the cell */
    double capacity_qps;
    double bandwidth, peak, peak16; /* of one device: bytes and operations a second, or BW_UNKNOWN */
    double rate;        /* of a graph: queries a second of one vCPU */
    bool host_memory_unknown, extrapolated;
} bw_sizing;

/* Pure arithmetic; never fails: `rule` says what did not. */
void bw_place_size(const bw_profile *p, const bw_instance *i, bw_sizing *out);

/* ---- the plan ---- */

typedef struct bw_reason {
    bw_str rule;   /* "policy:ID", or one of README's "Rules" */
    bw_str detail; /* or none */
} bw_reason;
typedef struct bw_reasons {
    bw_reason *items;
    size_t n, cap;
} bw_reasons;

typedef struct bw_verdict_at { /* what the policies say of one region with certain hardware */
    bw_place place;
    bool allowed;
    bw_reasons denials, permits; /* the policies that determined it */
} bw_verdict_at;

typedef struct bw_offer {
    const struct bw_plan_region *region;
    const bw_verdict_at *verdict;
    const bw_instance *instance;
    const bw_price *price; /* NULL: none known */
    bool spot, in, pareto;
    bw_reasons out;        /* why it is out */
    bw_reasons notes;      /* what is unknown or doubtful, though it is in */
    bw_sizing size;
    double machines;       /* size.count * replicas */
    double monthly;        /* in the profile's currency, or BW_UNKNOWN */
    double fit;            /* share of the machines that the workload uses, 0 to 1 */
    uint32_t rank_cost, rank_fit; /* from 1; 0 = out */
} bw_offer;

typedef struct bw_plan_region {
    const bw_region *region;
    bool in;           /* some offer of it is */
    bw_reasons out;    /* why the whole region is out; none: look at its offers */
    bw_verdict_at *verdicts;
    size_t nverdicts;
    bw_texts gaps;
    bw_offer *offers;
    size_t noffers;
} bw_plan_region;

typedef struct bw_plan {
    const bw_profile *profile;
    const bw_market *market;
    bw_plan_region *regions; /* in order of their ids */
    size_t nregions;
    bw_offer **by_cost, **by_fit; /* the offers that are in */
    size_t nin;
} bw_plan;

/* authority: over the same catalogue, whose entities hold the market's operators
 * (bw_market_entities). Everything in ctx's arena; profile and market must outlive it. */
BW_MUST_USE bw_status bw_place_plan(bw_ctx *ctx, bw_authority *authority, const bw_market *m,
                                    const bw_profile *p, bw_plan *out);

/* place_print.c: the whole plan as JSON; or a table for a person, with the first `limit`
 * places (by cost, or by fit) and a count of the rest by rule; or all that there is about one region or
 * instance type (false: neither has that id). catalogue_version is shown. */
void bw_plan_json(const bw_plan *plan, bw_str catalogue_version, bw_buf *out);
void bw_plan_table(const bw_plan *plan, bw_str catalogue_version, bool by_fit, size_t limit,
                   bw_buf *out);
bool bw_plan_explain(const bw_plan *plan, bw_str id, bw_buf *out);
#endif
