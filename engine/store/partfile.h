/* The file of one partition: `p/<number>.db` in the cell's folder.
 *
 * SQLite, application_id 0x42775031 ("BwP1"), user_version = BW_PARTFILE_VERSION:
 *   meta(name, value)      number, collection: whose file it is (checked at open)
 *                          version:  writes that touched the partition so far
 *                          writes:   rows written + rows ended, ever (seal and adopt
 * marks) next_key: key of the next row; keys are never used again grow_written: rows
 * written to the growing segment next_segment: number of the next sealed segment
 *   owner(class)           the class's 32 bytes (checked at open)
 *   row(key, dead, rec)    rec.h; by rising key. dead = 1: a skeleton that a graph
 *                        needs; 2: the same, and not in the merge that covers it
 *   segment(no, build, key_first, key_last, sealed_at, adopted, slots)  sealed segments:
 *                          ranges of keys, disjoint; rows beyond the last belong to the
 *                          growing segment. slots = rows in the range (dead ones too);
 *                          build counts rebuilds, 0 = no graph is wanted. adopted = 2: a
 *                          merge in the making, over whole segments (from version 2 on);
 *                          slots are the rows that it gathered
 *   staged(tx, seq, kill, rec)  rows of a transaction over several files, waiting for
 *                          its record in the catalogue: kill = key of a row that ends
 *                          (rec empty), or 0 and rec = a new row
 *   ft                     FTS5 `porter unicode61`, contentless, rowid = key
 * Every write is one SQLite transaction, so a crash leaves the state before or after
 * it. The writer is the only connection. */
#ifndef BW_STORE_PARTFILE_H
#define BW_STORE_PARTFILE_H
#include "rec.h"
#include "sql.h"

enum { BW_PARTFILE_APP = 0x42775031, BW_PARTFILE_VERSION = 2 };

typedef struct bw_part_state {
    uint64_t version, writes, grow_written;
    int64_t next_key;
    uint32_t next_segment;
} bw_part_state;

typedef struct bw_part_segment {
    uint32_t no, build;
    int64_t key_first, key_last;
    uint64_t sealed_at;
    uint32_t slots;
    bool adopted;
} bw_part_segment;

typedef struct bw_partfile_id {
    uint64_t number, collection;
    bw_class_id class_id;
} bw_partfile_id;

/* Makes, syncs and closes a new file with its empty tables. Nothing is in it that could
 * be lost, so it is written without syncs and synced once (null_sync: not even that); its folder is the caller's.
 */
BW_MUST_USE bw_status bw_partfile_create(bw_ctx *ctx, const char *path,
                                         const bw_partfile_id *id, bool null_sync,
                                         bw_health *health);
/* check: look through the pages (after an unclean start). BW_ECORRUPT also for a file
 * that is another partition's. */
BW_MUST_USE bw_status bw_partfile_open(bw_ctx *ctx, const char *path,
                                       const bw_partfile_id *id, bool null_sync,
                                       bool check, bw_health *health, bw_db **out);

BW_MUST_USE bw_status bw_partfile_state(bw_ctx *ctx, bw_db *db, bw_part_state *out);
/* In ctx's arena, by rising key: the sealed segments, and the merges in the making. */
BW_MUST_USE bw_status bw_partfile_segments(bw_ctx *ctx, bw_db *db,
                                           bw_part_segment **out, uint32_t *n,
                                           bw_part_segment **merges, uint32_t *nmerges);

typedef enum bw_row_mark { BW_ROW_LIVES, BW_ROW_DEAD, BW_ROW_LEFT_OUT } bw_row_mark;
typedef bw_status (*bw_partfile_row_fn)(bw_ctx *ctx, void *arg, int64_t key,
                                        bw_row_mark mark, bw_str rec);
/* The rows with keys in [first, last], by rising key. */
BW_MUST_USE bw_status bw_partfile_rows(bw_ctx *ctx, bw_db *db, int64_t first,
                                       int64_t last, bw_partfile_row_fn fn, void *arg);

/* Inside a transaction of the caller: */
BW_MUST_USE bw_status bw_partfile_put_row(bw_ctx *ctx, bw_db *db, int64_t key,
                                          bw_str rec, bw_str text);
/* skeleton none: the row goes; else it stays as a dead one. text: what the row's text
 * was. */
BW_MUST_USE bw_status bw_partfile_end_row(bw_ctx *ctx, bw_db *db, int64_t key,
                                          bw_str skeleton, bw_str text);
typedef enum bw_scrub {
    BW_SCRUB_DEAD,  /* dead rows go */
    BW_SCRUB_MARK,  /* dead rows are left out of the merge that begins */
    BW_SCRUB_MARKED /* rows that were left out go: the merge is adopted */
} bw_scrub;
typedef struct bw_scrub_range {
    int64_t key_first, key_last;
    bw_scrub what;
} bw_scrub_range;
BW_MUST_USE bw_status bw_partfile_scrub(bw_ctx *ctx, bw_db *db, const bw_scrub_range *r);
BW_MUST_USE bw_status bw_partfile_put_state(bw_ctx *ctx, bw_db *db,
                                            const bw_part_state *s);
BW_MUST_USE bw_status bw_partfile_put_segments(bw_ctx *ctx, bw_db *db,
                                               const bw_part_segment *s, uint32_t n,
                                               const bw_part_segment *merges,
                                               uint32_t nmerges);

BW_MUST_USE bw_status bw_partfile_stage(bw_ctx *ctx, bw_db *db, uint64_t tx,
                                        uint32_t seq, int64_t kill, bw_str rec);
BW_MUST_USE bw_status bw_partfile_unstage(bw_ctx *ctx, bw_db *db, uint64_t tx);
/* Transactions that have staged rows; in ctx's arena, rising. */
BW_MUST_USE bw_status bw_partfile_staged(bw_ctx *ctx, bw_db *db, uint64_t **out,
                                         size_t *n);
typedef bw_status (*bw_partfile_staged_fn)(bw_ctx *ctx, void *arg, int64_t kill,
                                           bw_str rec);
BW_MUST_USE bw_status bw_partfile_staged_rows(bw_ctx *ctx, bw_db *db, uint64_t tx,
                                              bw_partfile_staged_fn fn, void *arg);

/* Slots of the statements that other files keep on the connection. */
enum { BW_PARTFILE_SLOT_TEXT = 30, BW_PARTFILE_SLOT_OWNER = 31 };
#endif
