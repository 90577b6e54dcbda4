/* Where the rows of a sealed vector lie: in memory, or in a file of blocks beside the
 * partition (build.h has its name, store/blockfile.h its format).
 *
 * To file go the rows of a vector that is `on_disk`, and those that do not fit into the
 * cell's budget (`data.vector_bytes`) any more when their segment is sealed, gathered or
 * loaded. Who has a place keeps it; the biggest go first, since a merged segment comes
 * when those that it was made of are still there, and at a start the small ones are
 * placed before the big ones. Growing rows, codes, ids and graphs are in memory always,
 * and not counted. No answer depends on the place: kernels give the same bits, and
 * whether a graph answers does not look at it (index/choose.c). So the sum may depend on
 * other partitions and on when a reader lets go of an old snapshot.
 *
 * Locked inside. */
#ifndef BW_PARTITION_PLACE_H
#define BW_PARTITION_PLACE_H
#include "made.h"
#include "rows.h"

typedef struct bw_places {
    const char *dir;            /* the folder p/ */
    const unsigned char *key;   /* BW_BLOCK_KEY bytes */
    bw_block_cache *cache;
    uint64_t budget;            /* bytes; 0 = no limit */
    atomic_ullong held;         /* bytes of sealed rows in memory */
} bw_places;

/* m: complete, its rows in memory, nobody else has it yet. movable: its index kind reads
 * rows from file. If the file cannot be made the rows stay in memory, and a line in the
 * log says so. */
void bw_place_rows(bw_places *p, bw_matrix *m, const bw_build_id *id, bool on_disk,
                   bool movable);
/* Of the stored rows and their scales. */
void bw_matrix_digest(const bw_matrix *m, unsigned char out[BW_ROWS_DIGEST]);
#endif
