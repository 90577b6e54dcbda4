/* The little of OpenMP's header that FAISS's own headers name, for Clang without
 * libomp-dev (CMakeLists.txt puts this folder on the path only then).
 *
 * FAISS's library was built by GCC against libgomp, whose omp_lock_t this is; the headers
 * that we include pass it by reference alone. GCC's own omp.h is no way out: Clang 14
 * refuses its attributes. */
#ifndef BW_GOMP_OMP_H
#define BW_GOMP_OMP_H
typedef struct omp_lock_t {
    unsigned char bytes[4] __attribute__((aligned(4)));
} omp_lock_t;
#endif
