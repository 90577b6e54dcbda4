/* Graphs of sealed vectors: built in the background, saved beside the partition.
 *
 * When a graph is ready never shows: the writer adopts it at a count of writes and
 * waits there if it must. A job first tries the saved file, then builds and saves.
 *
 * Format of `p/<number>.<segment>.<vector>.graph`, little-endian:
 *    0  8 bytes "BWgraph2"
 *    8  u64 number of the partition   16 u32 segment  20 u32 build  24 u32 vector
 *   28  u32 dim   32 u32 metric   36 u32 kind (bw_index_choice)   40 u64 rows
 *   48  32 bytes BLAKE2b-256 of the rows as they are stored, and their scales
 *   80  u32 M   84 u32 ef_construction
 *   88  u64 length of the index's bytes, then these
 *  end  32 bytes BLAKE2b-256 over all before, keyed by the cell's key
 * FAISS trusts what it reads, so the MAC, and then every field, is compared before it
 * sees a byte; anything that does not fit means: build again from the rows.
 *
 * Rows on file (place.h) lie in `p/<number>.<segment>.<vector>.rows`, a file of blocks
 * (store/blockfile.h) whose identity is a digest of all the above and the rows. It is made
 * when a segment is sealed, gathered or loaded and no such file is there.
 *
 * Queries come first: the threads run at idle priority (sched(7), ioprio_set(2)). A build
 * may use all cores; the bytes do not depend on how many. Who is waited for is the next;
 * else partitions take turns, and the smaller of one partition's goes first.
 *
 * Locked inside. */
#ifndef BW_PARTITION_BUILD_H
#define BW_PARTITION_BUILD_H
#include "../store/blockfile.h"
#include "place.h"
#include "rows.h"

typedef struct bw_builder bw_builder;

enum { BW_MAC_KEY = 32 };

/* dir: the folder p/, borrowed. vector_bytes: the budget of place.h. */
bw_builder *bw_builder_new(const char *dir, const unsigned char key[BW_MAC_KEY],
                           size_t cache_bytes, uint64_t vector_bytes);
void bw_builder_free(
    bw_builder *b); /* ends the running job's thread, drops the queue */

/* Puts a graph over all cap rows of the matrix into the queue. BW_OK also when the
 * metric has no graph (m->build stays NULL). */
BW_MUST_USE bw_status bw_builder_add(bw_ctx *ctx, bw_builder *b, bw_matrix *m,
                                     const bw_vector_spec *spec,
                                     const bw_build_id *id);
/* bw_place_rows: FAISS and cuVS want rows in memory. */
void bw_builder_place(bw_builder *b, bw_matrix *m, const bw_vector_spec *spec,
                      const bw_build_id *id);
uint64_t bw_builder_budget(const bw_builder *b);
/* Returns when the matrix's graph is built or has failed; BW_ETIMEOUT at ctx's
 * deadline. */
BW_MUST_USE bw_status bw_builder_wait(bw_ctx *ctx, bw_builder *b, bw_matrix *m);
/* The saved graph and rows of a segment's vectors go, also one that is just being made: it
 * holds rows that are to leave the disk. Before a newer build is asked for. */
void bw_builder_discard(bw_builder *b, uint64_t number, uint32_t segment, uint32_t vec);
/* Files from before the start that no wanted segment owns go (made.h). */
void bw_builder_sweep(bw_ctx *ctx, bw_builder *b, uint64_t number,
                      bool (*wanted)(const void *arg, uint32_t segment),
                      const void *arg);
/* After this no file of the partition is written any more. */
void bw_builder_forget(bw_builder *b, uint64_t number);
/* The graph, or NULL when there is none: search flat. Only after bw_builder_wait. One that
 * failed for lack of memory, or for rows that could not be read, is tried again after 1, 2,
 * 4, … seconds, at most ten minutes apart, and serves from when it succeeds. */
const bw_index *bw_build_index(const bw_matrix *m);
size_t bw_builder_pending(bw_builder *b); /* queued, or being built */
typedef struct bw_builder_figures {
    uint64_t pending, retrying; /* queued or being built; failed, to be tried again */
    uint64_t failed;            /* tries in vain, ever */
    uint64_t refused;           /* saved graphs that were damaged or did not fit, ever */
} bw_builder_figures;
void bw_builder_figures_get(bw_builder *b, bw_builder_figures *out);
void bw_builder_cache_stats(bw_builder *b, bw_block_cache_stats *out);
#endif
