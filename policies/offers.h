/* The market: legal entities, providers, their regions, accelerators, instance types and
 * prices. Data with a date and a source (policies/market/), never code; what is not known
 * stays unknown and never widens. Immutable after load, so shared freely.
 *
 * Format and meaning of every member: market/README.md. */
#ifndef BW_OFFERS_H
#define BW_OFFERS_H
#include "decision.h"

#define BW_UNKNOWN (-1.0) /* a figure that nobody has found; all others are >= 0 */

typedef struct bw_texts { /* items NULL: not known, which differs from none */
    const bw_str *items;
    size_t n;
} bw_texts;

typedef struct bw_fact { /* where a row comes from; first member of every row */
    bw_str source, date, note;
    bw_str confidence; /* "high", "medium", "low" */
} bw_fact;

typedef struct bw_legal {
    bw_fact fact;
    bw_str id, name, seat;        /* seat: country, or no ptr */
    bw_texts control_zones;
    bw_str share_max, share_sum;  /* Cedar decimals, or no ptr */
    bw_texts baa_with, certs;
} bw_legal;

typedef struct bw_provider {
    bw_fact fact;
    bw_str id, name, kind, entity;
    bool spot, decentralised;
    bw_texts inference_api, foreign_law;
} bw_provider;

typedef struct bw_region {
    bw_fact fact;
    bw_str id, provider_id, native_id, country, city, operator_id, partition;
    bw_str access; /* "general", "dedicated", "restricted", "announced" */
    bw_texts accelerators, services, hw;
    const bw_provider *provider;
    const bw_legal *operator;
} bw_region;

typedef struct bw_cert_word {
    bw_fact fact;
    bw_str name, word;
} bw_cert_word;

typedef struct bw_certification {
    bw_fact fact;
    bw_str id, provider_id, name, status, scope; /* "held", "not-held", "unknown" */
    bw_texts regions;                            /* that the scope provably covers */
} bw_certification;

typedef struct bw_accelerator {
    bw_fact fact;
    bw_str id, vendor, kind; /* "gpu", "asic", "cpu" */
    bw_texts isa;    /* of a cpu: instruction sets */
    double memory_gb, memory_bw_gbs, fp16_tflops, bf16_tflops, int8_tops;
} bw_accelerator;

typedef struct bw_instance {
    bw_fact fact;
    bw_str id, provider_id, native_id, accelerator_id;
    double accelerator_count, vcpu, memory_gib;
    bool spot;
    bw_texts hw;
    const bw_accelerator *accelerator;
} bw_instance;

typedef struct bw_price { /* of one whole instance */
    bw_fact fact;
    bw_str instance_id, region_id, market, currency; /* region "*": all; currency or no ptr */
    double per_hour;
    bool stale;
} bw_price;

typedef struct bw_rate { /* 1 `from` = value `to` */
    bw_fact fact;
    bw_str from, to;
    double value;
} bw_rate;

enum bw_market_table {
    BW_MARKET_ENTITIES, BW_MARKET_PROVIDERS, BW_MARKET_REGIONS, BW_MARKET_CERT_WORDS,
    BW_MARKET_CERTIFICATIONS, BW_MARKET_ACCELERATORS, BW_MARKET_INSTANCES,
    BW_MARKET_PRICES, BW_MARKET_RATES, BW_MARKET_TABLES
};

typedef struct bw_market bw_market;
typedef struct bw_market_file {
    const char *name; /* for messages */
    bw_str text;
} bw_market_file;

/* Files in order: a later row with the same key takes an earlier one's place, and
 * "remove": true takes it away; so an operator's overlay is one more file. Strict:
 * BW_EINVALID with the file's name and the JSON pointer, and nothing is kept. The
 * catalogue knows the countries and zones; borrowed during the call only. */
BW_MUST_USE bw_status bw_market_load(bw_ctx *ctx, const bw_catalogue *catalogue,
                                     const bw_market_file *files, size_t n, bw_market **out);
void bw_market_free(bw_market *m);
bw_str bw_market_version(const bw_market *m); /* the last file's date and a digest of all */
size_t bw_market_count(const bw_market *m, enum bw_market_table t);
/* Rows in order of their keys (bytewise); NULL past the end. */
const void *bw_market_row(const bw_market *m, enum bw_market_table t, size_t i);
const void *bw_market_find(const bw_market *m, enum bw_market_table t, bw_str id);
/* A provider's certifications by their ids: at most 512. */
const bw_certification *const *bw_market_certifications(const bw_market *m, bw_str provider, size_t *n);
/* The price of an instance in a region; the region's own wins over "*". NULL: none known. */
const bw_price *bw_market_price(const bw_market *m, bw_str instance, bw_str region, bool spot);
/* amount in `to`, or BW_UNKNOWN where the data has no rate. */
double bw_market_convert(const bw_market *m, double amount, bw_str from, bw_str to);

/* ---- facts as Cedar sees them (offers_facts.c) ---- */

/* The hardware words of a region and those of `hw` beside them: sorted, each once. */
BW_MUST_USE bw_status bw_market_hw(bw_ctx *ctx, const bw_region *r, bw_texts hw, bw_texts *out);
/* The region as a place: its operator, the certificates that provably cover it (held, of
 * more than low confidence), its hardware and the words of `hw` beside it. Lists in ctx's
 * arena. The country must be known. */
BW_MUST_USE bw_status bw_market_place(bw_ctx *ctx, const bw_market *m, const bw_region *r,
                                      bw_texts hw, bw_place *out);
/* The legal entities as Cedar entities JSON, list elements; without those whose ids are
 * in `own` (a list of entities JSON: the operator's, which wins), or NULL. Unknown seat:
 * Country "ZZ"; unknown control: Zone "unknown"; unknown share: 100 percent. */
BW_MUST_USE bw_status bw_market_entities(bw_ctx *ctx, const bw_market *m, const bw_json *own,
                                         bw_buf *out);
/* What is not known about a region, for a person to find out; lines in ctx's arena. */
BW_MUST_USE bw_status bw_market_gaps(bw_ctx *ctx, const bw_market *m, const bw_region *r,
                                     bw_texts *out);
/* Those of all regions in scope->places, once for the regions of a provider that share
 * one; appended to *list, of which *n are there. */
BW_MUST_USE bw_status bw_market_all_gaps(bw_ctx *ctx, const bw_market *m, const bw_catalogue *c,
                                         const bw_catalogue_scope *scope, bw_catalogue_gap **list,
                                         size_t *n);
bool bw_texts_have(bw_texts list, bw_str word);
#endif
