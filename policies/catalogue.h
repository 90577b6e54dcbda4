/* The catalogue: countries, zones, localisation, foreign access, adequacy, legal
 * entities, the label vocabulary. Data with a date and a source for every fact
 * (policies/packs/), never code. Immutable after load. */
#ifndef BW_CATALOGUE_H
#define BW_CATALOGUE_H
#include "../engine/base/json.h"

typedef struct bw_catalogue bw_catalogue;
/* text: the pack's catalogue.json, with the operator's own additions (or NULL) merged over it.
 * BW_EINVALID names the JSON pointer in the file at fault. */
BW_MUST_USE bw_status bw_catalogue_parse(bw_ctx *ctx, bw_str text, bw_str overlay, bw_catalogue **out);
void bw_catalogue_free(bw_catalogue *c);
/* Date and digest of what the facts in force say; order and layout of the files are nothing to it. */
bw_str bw_catalogue_version(const bw_catalogue *c);
bool bw_catalogue_has_country(const bw_catalogue *c, bw_str code);
bool bw_catalogue_has_zone(const bw_catalogue *c, bw_str zone); /* or a country: it is a zone of its own */
/* Whether data may be kept "in" it: a country or a zone that is no deny-list, which would say
 * the opposite, and holds every country while nobody has written it down. */
bool bw_catalogue_has_residency(const bw_catalogue *c, bw_str zone);
/* Whether a zone or country is the zone or lies in it, at any distance. False for unknown names. */
bool bw_catalogue_in(const bw_catalogue *c, bw_str place, bw_str zone);
/* Whether each country in the place is in the zone, however either is written down (EU and
 * world share no row). False for unknown names. */
bool bw_catalogue_within(const bw_catalogue *c, bw_str place, bw_str zone);
/* The shipped zone or country that an unknown name was probably meant to be; empty if none is near. */
bw_str bw_catalogue_near(const bw_catalogue *c, bw_str name);
/* kind: "regimes", "categories", "labels", "purposes", "safeguards", "certs", "hw" */
bool bw_catalogue_has_word(const bw_catalogue *c, const char *kind, bw_str word);
/* The zones and countries as Cedar entities JSON, appended as list elements. */
void bw_catalogue_put_entities(const bw_catalogue *c, bw_buf *out);

/* ---- what an operator asks about it ---- */

/* A fact that nobody knows, or that should be looked at again. Texts in ctx's arena. */
typedef struct bw_catalogue_gap {
    const char *kind; /* localisation, foreign-access, adequacy, zone, confidence, legal-entity, node, stale, expired; offer (of `catalogue gaps --market`) */
    bw_str country;   /* whose fact it is, or empty */
    bw_str regime;    /* the only regime that reads it, or empty */
    const char *fact; /* what is not known */
    const char *why;  /* what reads it, and what happens meanwhile */
    const char *put;  /* the overlay's pointer, and the row to put there */
} bw_catalogue_gap;

/* What a decision could depend on. Empty lists ask about everything. */
typedef struct bw_catalogue_scope {
    const bw_str *regimes; /* only gaps that bear on these */
    size_t nregimes;
    const bw_str *places;  /* only countries in, or kept out of, these zones or countries */
    size_t nplaces;
    bw_str entities;       /* the operator's Cedar entities JSON, looked through as well; or none */
} bw_catalogue_scope;

/* Everything unknown or of low confidence, by kind and name. */
BW_MUST_USE bw_status bw_catalogue_gaps(bw_ctx *ctx, const bw_catalogue *c, const bw_catalogue_scope *scope,
                                        bw_catalogue_gap **out, size_t *n);
/* Facts older than max_age_days on the day as_of (YYYY-MM-DD), and decisions that have expired by then. */
BW_MUST_USE bw_status bw_catalogue_stale(bw_ctx *ctx, const bw_catalogue *c, bw_str as_of, uint32_t max_age_days,
                                         bw_catalogue_gap **out, size_t *n);
/* One JSON object: all about a country or zone, or, without a name, the whole catalogue. Each
 * fact says its table, whether it is shipped or the overlay's, source and date. BW_ENOTFOUND
 * with the nearest name. */
BW_MUST_USE bw_status bw_catalogue_show(bw_ctx *ctx, const bw_catalogue *c, bw_str name, bw_buf *out);
/* What an exchange of `from` for `to` changes: a JSON list of {"change": "gained" | "lost" | "new" |
 * "gone" | "changed", "what", "name", "zone" or "from" and "to"}; *n = how many. */
BW_MUST_USE bw_status bw_catalogue_diff(bw_ctx *ctx, const bw_catalogue *from, const bw_catalogue *to, bw_buf *out,
                                        size_t *n);
#endif
