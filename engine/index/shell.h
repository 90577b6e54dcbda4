/* One FAISS index over the rows of one range of lengths ("shell"), private to faiss.c.
 */
#ifndef BW_INDEX_SHELL_H
#define BW_INDEX_SHELL_H
#include "kinds.h"
#include <stdio.h>

struct FaissIndex_H;

typedef struct bw_shell {
    /* info, immutable after build */
    uint32_t *
        rows; /* the shell's row i is the index's row rows[i], rising; NULL: the same */
    size_t n;
    double lo, hi;           /* lengths of the shortest and the longest row */
    size_t nlist;            /* of an IVF */
    struct FaissIndex_H *ix; /* NULL: the shell is scanned */
} bw_shell;

/* What all shells of one index have in common. */
typedef struct bw_shell_kind {
    bool hnsw;              /* else IVF */
    bw_index_params params; /* defaults filled in, but nlist: 0 = by the shell's size */
    size_t n;               /* rows of all shells */
} bw_shell_kind;

/* rows: all rows of the index. Leaves shell->ix NULL when the shell is better scanned.
 */
BW_MUST_USE bw_status bw_shell__build(bw_ctx *ctx, const bw_shell_kind *kind,
                                      const float *rows, bw_shell *shell);
void bw_shell__clear(bw_shell *shell);

/* The best min(s->k, allowed) rows of the shell (or nearly: approximate) into out, with
 * keys from the stored rows. all = every row of the index is allowed. */
BW_MUST_USE bw_status bw_shell__search(bw_ctx *ctx, const bw_shell_kind *kind,
                                       const bw_shell *shell, const bw_index_search *s,
                                       bool all, bw_topk *out);
/* The largest key that a row of the shell can have, by its length alone. */
double bw_shell__bound(const bw_shell_kind *kind, const bw_shell *shell,
                       double query_length);

/* FAISS's stream; shell->ix is not NULL (write) or NULL with all else filled in (read).
 */
BW_MUST_USE bw_status bw_shell__write(bw_ctx *ctx, const bw_shell *shell, FILE *file);
BW_MUST_USE bw_status bw_shell__read(bw_ctx *ctx, const bw_shell_kind *kind,
                                     bw_shell *shell, const void *bytes, size_t n);
size_t bw_shell__bytes(const bw_shell_kind *kind, const bw_shell *shell);
const char *bw_shell__faiss_version(void);
double bw_shell__length(const float *v,
                        size_t dim); /* in doubles, always the same bits */
#endif
