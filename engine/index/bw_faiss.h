/* What FAISS's C API lacks on Debian 12 (1.7.3), and what it does not catch.
 *
 * Every function here ends all C++ exceptions inside itself. The opaque type is the C
 * API's FaissIndex; this header needs none of FAISS's own, so that tests can use it. */
#ifndef BW_FAISS_H
#define BW_FAISS_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

struct FaissIndex_H;

enum {
    BW_FAISS_OK = 0,
    BW_FAISS_UNSUPPORTED = -10, /* the index's type takes no permitted set */
    BW_FAISS_ERROR = -11,       /* FAISS threw */
    BW_FAISS_NOMEM = -12
};

/* Which of FAISS's rows may come back: row i when bit map[i] (map NULL: bit i) of
 * words is set; bits from nbits on count as 0. */
typedef struct bw_faiss_permit {
    const uint64_t *words;
    size_t nbits;
    const uint32_t *map;
    size_t nmap;
} bw_faiss_permit;

/* One query: a batch would go to BLAS, whose bits depend on the batch's size.
 *   effort  efSearch (HNSW) or nprobe (IVF), > 0
 *   permit  NULL permits all
 *   dis, rows  k of each; missing neighbours have row −1
 * On failure err (if errcap > 0) holds a terminated message that may name source paths:
 * for the log only. HNSW: ask for k = effort; FAISS 1.7.3 sizes its candidate heap by
 * max(k, the index's own efSearch), not by the call's efSearch. */
int bw_faiss_search(const struct FaissIndex_H *ix, const float *x, int64_t k,
                    int effort, const bw_faiss_permit *permit, float *dis,
                    int64_t *rows, char *err, size_t errcap);

/* Seeds levels (HNSW) or k-means (IVF); before train and add. */
int bw_faiss_seed(struct FaissIndex_H *ix, uint64_t seed);

/* An HNSW's distances by our kernel instead of FAISS's own: product (or squared L2, as
 * the index's metric is) of two rows. The graph is then the same on every ISA and with
 * every build of FAISS, and 1.7.3 searches faster. Before train and add, and after
 * reading; an IVF is left as it is. */
typedef float bw_faiss_kernel(const float *a, const float *b, size_t dim);
int bw_faiss_set_kernel(struct FaissIndex_H *ix, bw_faiss_kernel *kernel);

/* After reading: is it a trained HNSW (or IVF, hnsw = 0) over flat storage with these
 * figures? 1 = yes. */
int bw_faiss_fits(const struct FaissIndex_H *ix, int hnsw, int l2, int64_t dim,
                  int64_t n);

int64_t bw_faiss_nlist(const struct FaissIndex_H *ix); /* of an IVF; else 0 */

/* Long work of the calling thread asks `stop` several times a second and gives up with
 * an error once it says 1; NULL = never ask. Once a process: bw_faiss_stop_install. */
void bw_faiss_stop_when(int (*stop)(const void *), const void *arg);
int bw_faiss_stop_install(void);

const char *bw_faiss_version(void); /* "1.7.3" */

#ifdef __cplusplus
}
#endif
#endif
