/* Rows on file that cannot be read any more, made again from the partition's own file.
 *
 * A block of a `.rows` file that is damaged, or that the disk does not give back, costs
 * nothing but time: SQLite has the same bytes. Who meets it (a search, a write, a builder,
 * a device's upload; with or without locks) marks the matrix, once in the log, and fails
 * with BW_ECORRUPT. The next view of the partition makes the file again before anything
 * is read, and a read or write that failed so is tried once more by its caller. The matrix
 * stays the same one, for older snapshots too: only what its descriptor names changes.
 *
 * The new file is believed if the digest of its rows is the one that the matrix has had
 * since it was sealed. Rows that have left the store meanwhile (a rebuild, a merge; an
 * older snapshot still reads them) cannot be made again: those reads fail until they end. */
#ifndef BW_PARTITION_HEAL_H
#define BW_PARTITION_HEAL_H
#include "rows.h"

struct bw_partition;
struct bw_snapshot;

typedef struct bw_heals { /* of a cell */
    atomic_uint damaged; /* files that wait to be made again */
    atomic_ullong found, healed, failed; /* ever: damaged files; made again; tries in vain */
} bw_heals;

static inline bool bw_heals_wait(const bw_heals *h)
{
    return atomic_load_explicit(&h->damaged, memory_order_relaxed) > 0;
}

/* For a block of a sealed segment whose rows were just placed; nothing to do where they
 * are in memory. keys: by ordinal. The matrix takes a reference to the partition. */
BW_MUST_USE bw_status bw_home_set(bw_ctx *ctx, struct bw_partition *p, uint32_t vec,
                                  const bw_block *b, const int64_t *keys);
void bw_home_free(bw_matrix *m); /* the last reference is gone; without one is accepted */
void bw_matrix_damaged(const bw_matrix *m); /* any thread, under any lock; idempotent */
/* Makes the damaged files of the snapshot again. No lock of the partition is held. What
 * fails is logged and counted, and tried again a second later at the earliest. BW_ETIMEOUT:
 * there are some, and ctx's attempt is a brief one; nothing else is an error. */
BW_MUST_USE bw_status bw_snapshot_heal(bw_ctx *ctx, const struct bw_snapshot *s);
#endif
