/* The catalogue: countries, zones, adequacy, legal entities, the label vocabulary.
 * Data with a date and a source (policies/packs/), never code. Immutable after load. */
#ifndef BW_CATALOGUE_H
#define BW_CATALOGUE_H
#include "../engine/base/json.h"

typedef struct bw_catalogue bw_catalogue;
/* text: the pack's catalogue.json, with the operator's own additions (or NULL) merged over it. */
BW_MUST_USE bw_status bw_catalogue_parse(bw_ctx *ctx, bw_str text, bw_str overlay, bw_catalogue **out);
void bw_catalogue_free(bw_catalogue *c);
bw_str bw_catalogue_version(const bw_catalogue *c); /* its date and digest */
bool bw_catalogue_has_country(const bw_catalogue *c, bw_str code);
bool bw_catalogue_has_zone(const bw_catalogue *c, bw_str zone);
/* kind: "regimes", "categories", "labels", "purposes", "safeguards" */
bool bw_catalogue_has_word(const bw_catalogue *c, const char *kind, bw_str word);
/* The zones and countries as Cedar entities JSON, appended as list elements. */
void bw_catalogue_put_entities(const bw_catalogue *c, bw_buf *out);
#endif
