/* The inside of bw_catalogue, shared by catalogue*.c. */
#ifndef BW_CATALOGUE_IMPL_H
#define BW_CATALOGUE_IMPL_H
#include "catalogue.h"

enum { BW_CAT_ZONES, BW_CAT_COUNTRIES, BW_CAT_LOCALISATION, BW_CAT_ACCESS, BW_CAT_ADEQUACY,
       BW_CAT_ORGANISATIONS, BW_CAT_ENTITIES, BW_CAT_WORDS, BW_CAT_TABLES };
enum { BW_CAT_WORD_MAX = 64, BW_CAT_KEY_MAX = 2 * BW_CAT_WORD_MAX + 2 };

typedef struct bw_cat_row {
    bw_str key; /* the key members, with a line feed between them */
    const bw_json *json;
} bw_cat_row;

typedef struct bw_cat_place { /* a zone, or a country's own zone */
    bw_str name;
    const bw_json *row;
    bool country;
} bw_cat_place;

typedef struct bw_cat_edge { /* indexes of places */
    uint32_t child, parent;
} bw_cat_edge;

struct bw_catalogue {
    bw_ctx *mem;    /* owns trees, rows and places */
    bw_str overlay; /* a row whose bytes lie here is the operator's */
    bw_cat_row *rows[BW_CAT_TABLES]; /* in force, by key */
    size_t nrows[BW_CAT_TABLES];
    bw_cat_row *removed[BW_CAT_TABLES]; /* the overlay's removals, by key */
    size_t nremoved[BW_CAT_TABLES];
    bw_cat_place *places; /* by name */
    size_t nplaces;
    bw_cat_edge *edges; /* by child, then parent; no two alike */
    size_t nedges;
    uint64_t *in; /* nplaces rows of nwords: the places that each lies in, itself included */
    size_t nwords;
    bw_buf entities; /* Cedar entities, list elements */
    char version[64];
};

/* ---- rows (catalogue_rows.c) ---- */
const char *bw_catalogue__table(int table); /* its name in the file */
/* Shape: known members of the right kind, source and date. Fills key (in c->mem). */
BW_MUST_USE bw_status bw_catalogue__check_shape(bw_ctx *ctx, const bw_catalogue *c, int table, bw_str kind,
                                                const bw_json *row, bw_str *key);
/* That what the row names exists, once all rows are in force. */
BW_MUST_USE bw_status bw_catalogue__check_names(bw_ctx *ctx, const bw_catalogue *c, int table,
                                                const bw_json *row);
BW_MUST_USE bw_status bw_catalogue__bad(bw_ctx *ctx, const bw_catalogue *c, const bw_json *at, const char *fmt, ...)
    BW_PRINTF(4, 5);
bool bw_catalogue__is_date(bw_str s, int64_t *days); /* days since 1970-01-01 */
bool bw_catalogue__is_kind(bw_str kind);             /* of words */

/* ---- reading ---- */
const bw_json *bw_catalogue__get(const bw_catalogue *c, int table, bw_str key);
const bw_json *bw_catalogue__get2(const bw_catalogue *c, int table, bw_str a, bw_str b);
bool bw_catalogue__ours(const bw_catalogue *c, const bw_json *row); /* from the overlay */
bw_str bw_catalogue__str(const bw_json *row, const char *name);     /* empty if absent or null */
bool bw_catalogue__true(const bw_json *row, const char *name);
void bw_catalogue__put_row(bw_buf *b, const bw_json *row); /* canonical: members and texts sorted */

/* ---- places (catalogue_places.c) ---- */
BW_MUST_USE bw_status bw_catalogue__make_places(bw_ctx *ctx, bw_catalogue *c);
BW_MUST_USE bw_status bw_catalogue__make_entities(bw_ctx *ctx, bw_catalogue *c);
size_t bw_catalogue__place(const bw_catalogue *c, bw_str name); /* SIZE_MAX if none */
static inline bool bw_catalogue__lies_in(const bw_catalogue *c, size_t place, size_t zone)
{
    return c->in[place * c->nwords + zone / 64] >> (zone % 64) & 1;
}
/* The zone (a text) into which a decision puts its country; NULL: nowhere. */
const bw_json *bw_catalogue__decision_zone(const bw_catalogue *c, const bw_json *adequacy);
bool bw_catalogue__unknown(const bw_json *zone); /* a zone whose list the operator must fill in */
bw_str bw_catalogue__level(const bw_catalogue *c, bw_str country);  /* localisation, or "unknown" */
bw_str bw_catalogue__access(const bw_catalogue *c, bw_str country); /* extraterritorial, domestic, unknown */
#endif
