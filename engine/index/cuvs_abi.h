/* What we call of cuVS and of the CUDA driver, in declarations of our own: a build needs
 * no header of NVIDIA, and a binary no library of theirs.
 *
 * cuVS 26.08 to 26.x, C API; the driver API of CUDA 13. Types and names are those of the
 * libraries, so that with -DREAL_CUVS_HEADERS the real headers take the place of this
 * text and every line of the lists is checked against them (tests/check_cuvs.sh compares
 * the layouts of both ways too). Parameter structs are only ever made by the library's
 * own Create functions: fields may be appended.
 *
 * Left out: whatever we do not call (brute force, IVF-PQ, HNSW, serialising). */
#ifndef BW_CUVS_ABI_H
#define BW_CUVS_ABI_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef REAL_CUVS_HEADERS
#include <cuda.h>
#include <cuvs/core/c_api.h>
#include <cuvs/core/dataset.h>
#include <cuvs/neighbors/cagra.h>
#else
/* ---- DLPack without versions, unchanged since 0.5 ---- */
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef struct {
    DLDeviceType device_type;
    int device_id;
} DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2 } DLDataTypeCode;
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset; /* most calls ignore it: 0 */
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

/* ---- the driver; its result codes are ints to us ---- */
typedef int CUresult, CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *cudaStream_t; /* the same handle */

/* ---- cuVS ---- */
typedef enum { CUVS_ERROR = 0, CUVS_SUCCESS = 1 } cuvsError_t;
typedef enum { CUVS_LOG_LEVEL_ERROR = 4 } cuvsLogLevel_t;
typedef enum { L2Expanded = 0 } cuvsDistanceType;
typedef uintptr_t cuvsResources_t;
enum cuvsFilterType { NO_FILTER = 0, BITSET = 1 };
typedef struct {
    uintptr_t addr; /* of a DLManagedTensor, not of the words */
    enum cuvsFilterType type;
} cuvsFilter;
typedef struct {
    uintptr_t addr;
    DLDataType dtype;
} cuvsCagraIndex, *cuvsCagraIndex_t;
typedef struct cuvsDataset_opaque *cuvsDataset_t; /* held, never looked into */

enum cuvsCagraGraphBuildAlgo { NN_DESCENT = 2 };
struct cuvsCagraIndexParams {
    cuvsDistanceType metric;
    size_t intermediate_graph_degree, graph_degree;
    enum cuvsCagraGraphBuildAlgo build_algo;
    size_t nn_descent_niter;
    void *graph_build_params;
};
typedef struct cuvsCagraIndexParams *cuvsCagraIndexParams_t;
enum cuvsCagraSearchAlgo { SINGLE_CTA = 0, MULTI_CTA = 1, AUTO = 100 };
enum cuvsCagraHashMode { AUTO_HASH = 100 };
struct cuvsCagraSearchParams {
    size_t max_queries, itopk_size, max_iterations;
    enum cuvsCagraSearchAlgo algo;
    size_t team_size, search_width, min_iterations, thread_block_size;
    enum cuvsCagraHashMode hashmap_mode;
    size_t hashmap_min_bitlen;
    float hashmap_max_fill_rate;
    uint32_t num_random_samplings;
    uint64_t rand_xor_mask;
    bool persistent;
    float persistent_lifetime, persistent_device_usage;
};
typedef struct cuvsCagraSearchParams *cuvsCagraSearchParams_t;
#endif

/* X(name, result, (parameters)); all are needed. */
#define BW_CUDA_SYMBOLS(X)                                                                 \
    X(cuInit, CUresult, (unsigned int))                                                    \
    X(cuDriverGetVersion, CUresult, (int *))                                               \
    X(cuDeviceGetCount, CUresult, (int *))                                                 \
    X(cuDeviceGet, CUresult, (CUdevice *, int))                                            \
    X(cuDevicePrimaryCtxRetain, CUresult, (CUcontext *, CUdevice))                         \
    X(cuCtxSetCurrent, CUresult, (CUcontext))                                              \
    X(cuStreamCreateWithPriority, CUresult, (CUstream *, unsigned int, int))               \
    X(cuMemGetInfo_v2, CUresult, (size_t *, size_t *))                                     \
    X(cuMemAlloc_v2, CUresult, (CUdeviceptr *, size_t))                                    \
    X(cuMemFree_v2, CUresult, (CUdeviceptr))                                               \
    X(cuMemAllocHost_v2, CUresult, (void **, size_t))                                      \
    X(cuMemFreeHost, CUresult, (void *))                                                   \
    X(cuMemcpyHtoDAsync_v2, CUresult, (CUdeviceptr, const void *, size_t, CUstream))       \
    X(cuMemcpyDtoHAsync_v2, CUresult, (void *, CUdeviceptr, size_t, CUstream))             \
    X(cuMemsetD32Async, CUresult, (CUdeviceptr, unsigned int, size_t, CUstream))

#define BW_CUVS_SYMBOLS(X)                                                                 \
    X(cuvsVersionGet, cuvsError_t, (uint16_t *, uint16_t *, uint16_t *))                   \
    X(cuvsGetLastErrorText, const char *, (void))                                          \
    X(cuvsSetLogLevel, void, (cuvsLogLevel_t))                                             \
    X(cuvsRMMAsyncMemoryResourceEnable, cuvsError_t, (void))                               \
    X(cuvsResourcesCreate, cuvsError_t, (cuvsResources_t *))                               \
    X(cuvsResourcesDestroy, cuvsError_t, (cuvsResources_t))                                \
    X(cuvsStreamSet, cuvsError_t, (cuvsResources_t, cudaStream_t))                         \
    X(cuvsStreamSync, cuvsError_t, (cuvsResources_t))                                      \
    X(cuvsDatasetMakePaddedView, cuvsError_t,                                              \
      (cuvsResources_t, DLManagedTensor *, cuvsDataset_t *))                               \
    X(cuvsDatasetDestroy, cuvsError_t, (cuvsDataset_t))                                    \
    X(cuvsCagraIndexParamsCreate, cuvsError_t, (cuvsCagraIndexParams_t *))                 \
    X(cuvsCagraIndexParamsDestroy, cuvsError_t, (cuvsCagraIndexParams_t))                  \
    X(cuvsCagraSearchParamsCreate, cuvsError_t, (cuvsCagraSearchParams_t *))               \
    X(cuvsCagraSearchParamsDestroy, cuvsError_t, (cuvsCagraSearchParams_t))                \
    X(cuvsCagraIndexCreate, cuvsError_t, (cuvsCagraIndex_t *))                             \
    X(cuvsCagraIndexDestroy, cuvsError_t, (cuvsCagraIndex_t))                              \
    X(cuvsCagraBuild, cuvsError_t,                                                         \
      (cuvsResources_t, cuvsCagraIndexParams_t, cuvsDataset_t, cuvsCagraIndex_t))          \
    X(cuvsCagraSearch, cuvsError_t,                                                        \
      (cuvsResources_t, cuvsCagraSearchParams_t, cuvsCagraIndex_t, DLManagedTensor *,      \
       DLManagedTensor *, DLManagedTensor *, cuvsFilter))

#define BW_CUVS_FIELD(name, result, params) result(*name) params;
typedef struct bw_cuvs_api {
    BW_CUDA_SYMBOLS(BW_CUVS_FIELD)
    BW_CUVS_SYMBOLS(BW_CUVS_FIELD)
    uint16_t major, minor, patch;
} bw_cuvs_api;
#undef BW_CUVS_FIELD

#ifdef REAL_CUVS_HEADERS
#define BW_CUVS_CHECK(name, result, params)                                                \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) params),      \
                   #name " differs");
BW_CUDA_SYMBOLS(BW_CUVS_CHECK)
BW_CUVS_SYMBOLS(BW_CUVS_CHECK)
#undef BW_CUVS_CHECK
#endif
#endif
