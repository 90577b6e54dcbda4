/* Files of blocks with a MAC each, read through one bounded cache: vectors that do not
 * stay in memory. What such a file holds can always be made again from SQLite.
 *
 * Format, little-endian: blocks of BW_BLOCK_BYTES; the last one is as long as the others.
 *   a block   BW_BLOCK_DATA bytes, then 32 bytes BLAKE2b-256 over (identity, u64 number of
 *             the block, data), keyed by the cell's key
 *   block 0   8 bytes "BWblock1", u64 length of the content, the identity, zeros
 *   block 1…  the content; zeros after its end
 * The identity is the owner's: what the content belongs to. It is part of every MAC, so
 * blocks cannot change places, within a file or between files; the length of the content
 * is compared with the file's, so blocks cannot be missing. This layer is the only one
 * that knows a block's bytes: encryption will go here.
 *
 * Measured: see README.md. Opened by the first read; many readers at a time. */
#ifndef BW_STORE_BLOCKFILE_H
#define BW_STORE_BLOCKFILE_H
#include "../base/base.h"

enum {
    BW_BLOCK_BYTES = 65536,
    BW_BLOCK_MAC = 32,
    BW_BLOCK_DATA = BW_BLOCK_BYTES - BW_BLOCK_MAC,
    BW_BLOCK_ID = 64, /* of an identity; shorter ones are filled up with zeros */
    BW_BLOCK_KEY = 32
};

/* ---- the cache: bounded, shared by all files of a cell; locked inside ---- */

typedef struct bw_block_cache bw_block_cache;
typedef struct bw_block_cache_stats {
    uint64_t bytes, bytes_max;  /* held now; budget */
    uint64_t hits, misses;      /* reads of a block */
    uint64_t damaged;           /* blocks that were refused */
} bw_block_cache_stats;

/* bytes_max: rounded down to blocks, at least a few. Blocks are allocated when they are
 * first needed. NULL: no memory. */
bw_block_cache *bw_block_cache_new(size_t bytes_max);
void bw_block_cache_free(bw_block_cache *cache); /* after its files; NULL is accepted */
void bw_block_cache_stats_get(bw_block_cache *cache, bw_block_cache_stats *out);

/* ---- writing: one thread; nothing is seen under the name before finish ---- */

typedef struct bw_block_writer bw_block_writer;
BW_MUST_USE bw_status bw_block_writer_new(bw_ctx *ctx, const char *dir, const char *name,
                                          const unsigned char id[BW_BLOCK_ID],
                                          const unsigned char key[BW_BLOCK_KEY],
                                          bw_block_writer **out);
BW_MUST_USE bw_status bw_block_write(bw_ctx *ctx, bw_block_writer *w, const void *p,
                                     size_t n);
/* Syncs, renames, syncs the folder. Frees w in any case. On failure nothing has the name
 * that had it not before, but where the folder alone could not be synced: then the new
 * file has its name, and may lose it in a crash. */
BW_MUST_USE bw_status bw_block_writer_finish(bw_ctx *ctx, bw_block_writer *w);
void bw_block_writer_abandon(bw_block_writer *w); /* NULL is accepted */

/* ---- reading: many threads at a time ---- */

typedef struct bw_blockfile bw_blockfile;
/* Opens nothing yet. length: what the content must have. cache and key are copied or
 * borrowed for the life of the file (cache borrowed, key copied). NULL: no memory. */
bw_blockfile *bw_blockfile_new(bw_block_cache *cache, const char *path,
                               const unsigned char id[BW_BLOCK_ID],
                               const unsigned char key[BW_BLOCK_KEY], uint64_t length);
/* Takes its name away, so that the next start makes it again if nobody does before: a
 * block is damaged. */
void bw_blockfile_disown(bw_blockfile *f);
/* Begins to write the file anew, with its name, identity and key; the content must be
 * what it was. Ends with bw_block_writer_finish and bw_blockfile_renew, or is abandoned. */
BW_MUST_USE bw_status bw_blockfile_rewrite(bw_ctx *ctx, bw_blockfile *f,
                                           bw_block_writer **out);
/* Reads come from the file that has the name now, also those that are under way: its
 * blocks are the same, byte by byte. keep: else the name goes, and the next start makes
 * the file again. BW_ECORRUPT: it is not such a file; nothing has changed. */
BW_MUST_USE bw_status bw_blockfile_renew(bw_ctx *ctx, bw_blockfile *f, bool keep);
void bw_blockfile_free(bw_blockfile *f); /* nobody reads; NULL is accepted */
/* Does the file exist, whole, with that identity, length and key? Reads its head alone.
 * BW_ENOTFOUND, BW_ECORRUPT. */
BW_MUST_USE bw_status bw_blockfile_check(bw_ctx *ctx, bw_blockfile *f);
/* n bytes of the content from offset (within the length: asserted). BW_ECORRUPT: a block
 * is damaged or the file is another's; out may then hold anything. */
BW_MUST_USE bw_status bw_blockfile_read(bw_ctx *ctx, bw_blockfile *f, uint64_t offset,
                                        size_t n, void *out);
#endif
