/* Files made from the vectors of sealed segments, beside the partitions' own:
 * `p/<number>.<segment>.<vector>.graph` and `.rows` (build.h has what is in them).
 *
 * Which of them are wanted is in the partition's file alone. They are made before a write
 * is committed and removed before, so a crash can leave one that no segment owns: the
 * folder is listed once, when the cell opens, and what is not wanted goes when its
 * partition has been read. What was only half written goes at once. */
#ifndef BW_PARTITION_MADE_H
#define BW_PARTITION_MADE_H
#include "../base/base.h"

typedef struct bw_build_id {
    uint64_t number; /* of the partition */
    uint32_t segment, build, vec;
} bw_build_id;

typedef struct bw_made bw_made; /* what was there at the start; immutable */

/* dir: borrowed. A folder that cannot be listed is logged, and nothing is swept then.
 * NULL: no memory. */
bw_made *bw_made_new(const char *dir);
void bw_made_free(bw_made *m); /* NULL is accepted */
/* The name in the folder, in ctx's arena; NULL: no memory. suffix: "graph" or "rows". */
const char *bw_made_name(bw_ctx *ctx, const bw_build_id *id, const char *suffix);
/* Removes one and syncs the folder, if it is there. What goes wrong is logged. */
void bw_made_remove(bw_ctx *ctx, const char *dir, const bw_build_id *id,
                    const char *suffix);
/* Removes a partition's files from before the start whose segment is not wanted. */
void bw_made_sweep(bw_ctx *ctx, const bw_made *m, uint64_t number,
                   bool (*wanted)(const void *arg, uint32_t segment), const void *arg);
#endif
