/* A write in the making: what its operations have changed so far, over the snapshots
 * that it began with. Operations read through it, so each sees the ones before it;
 * nothing is visible to anybody else until bw_collection__commit.
 *
 * Everything is in the request's arena but the maps. One thread at a time. */
#ifndef BW_OVERLAY_H
#define BW_OVERLAY_H
#include "engine_impl.h"

typedef struct bw_staged { /* one id of one class, as the operations so far leave it */
    bw_point_id id;
    uint32_t base; /* the living row that it replaces, or BW_ROW_NONE */
    bool present, touched;
    bw_str payload, text;
    bw_point_facts facts;
    bool text_counted;
    uint32_t ntokens;
    bw_dense *dense;     /* nvec; raw: given by the caller */
    bw_vector *sparse;   /* nvec; .sparse says whether it has one */
} bw_staged;

typedef struct bw_overlay_class {
    bw_class_id id;
    bool readable;            /* the caller sees its points */
    bw_snapshot *snap;        /* NULL: no partition yet */
    const bw_bitmap *visible; /* of snap: living and not expired */
    bw_map *map;              /* id -> bw_staged*; NULL until one is staged */
    bw_staged **staged;
    uint32_t n, cap;
} bw_overlay_class;

typedef struct bw_overlay {
    bw_ctx *ctx;
    bw_collection *c;
    bw_view view;
    const bw_access *access;
    bw_overlay_class *classes; /* by rising id */
    uint32_t nclasses;
    int64_t now_ns;
} bw_overlay;

/* Opens the classes that the caller may read and those that it writes or moves points to. */
BW_MUST_USE bw_status bw_overlay_open(bw_ctx *ctx, bw_collection *c,
                                      const bw_access *access, const bw_op *ops,
                                      size_t nops, bw_overlay *out);
void bw_overlay_close(bw_overlay *o); /* zeroed is accepted */
bw_overlay_class *bw_overlay_class_get(bw_overlay *o,
                                       const bw_class_id *id); /* NULL: not opened */
/* Is there a point that a reader of the class would see? */
bool bw_overlay_sees(const bw_overlay *o, const bw_overlay_class *k,
                     const bw_point_id *id);
/* Which readable classes hold each of n points' ids, as bw_overlay_sees would say,
 * before any of them changes: lists by rising class. Class by class, so that ten
 * thousand small tables are gone through once and not once a point. */
typedef struct bw_copy {
    uint32_t class_at; /* index into classes */
    uint32_t next;     /* index into nodes; BW_ROW_NONE ends */
} bw_copy;
typedef struct bw_copies {
    uint32_t *first; /* n */
    bw_copy *nodes;
    uint32_t nnodes, cap;
} bw_copies;
BW_MUST_USE bw_status bw_overlay_copies(bw_overlay *o, const bw_point *points,
                                        uint32_t n, bw_copies *out);
/* The id's state, to be changed; the caller sets touched. */
BW_MUST_USE bw_status bw_overlay_stage(bw_overlay *o, bw_overlay_class *k,
                                       const bw_point_id *id, bw_staged **out);
/* Ids of the class's visible points that match; in the arena. */
BW_MUST_USE bw_status bw_overlay_select(bw_overlay *o, bw_overlay_class *k,
                                        const bw_filter *filter, bw_point_id **out,
                                        size_t *n);
BW_MUST_USE bw_status bw_overlay_matches(bw_overlay *o, bw_overlay_class *k,
                                         const bw_point_id *id, const bw_filter *filter,
                                         bool *out);
BW_MUST_USE bw_status bw_overlay_commit(bw_overlay *o);
#endif
