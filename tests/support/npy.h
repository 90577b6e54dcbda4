/* Reads a two-dimensional NumPy array of half or single floats (.npy, C order). */
#ifndef BW_TEST_NPY_H
#define BW_TEST_NPY_H
#include <stddef.h>

typedef struct npy {
    float *values; /* n × dim, 64-byte aligned; the caller's: bw_free_vectors */
    size_t n, dim;
} npy;

/* At most rows_max rows (0 = all). Returns 0, or -1 with a line on stderr. */
int npy_read(const char *path, size_t rows_max, npy *out);
#endif
