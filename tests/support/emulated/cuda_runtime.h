/* What the GPU module uses of CUDA's runtime, for running its source on a CPU in tests: see
 * cuda_emulated.cpp. Names, arguments and results as CUDA has them; everything is done at
 * once, in order. Device memory is the host's heap, so the sanitizers see each access. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <strings.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static /* blocks run one after the other */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

/* ---- the thread that runs ---- */
struct emu_thread {
    dim3 thread, block, threads, blocks;
};
extern emu_thread *emu_now;
#define threadIdx (emu_now->thread)
#define blockIdx (emu_now->block)
#define blockDim (emu_now->threads)
#define gridDim (emu_now->blocks)

void __syncthreads();
/* Meets the lanes of `mask` and returns what each of them brought (64 bytes at most). */
const uint8_t *emu_meet(uint32_t mask, const void *value, size_t bytes);
enum { EMU_LANE_BYTES = 64 };

template <class T> static inline T emu_get(const uint8_t *all, unsigned lane)
{
    T v;
    memcpy(&v, all + lane * EMU_LANE_BYTES, sizeof v);
    return v;
}
template <class T> static inline T __shfl_xor_sync(uint32_t mask, T v, int with)
{
    return emu_get<T>(emu_meet(mask, &v, sizeof v), (threadIdx.x & 31) ^ (unsigned)with);
}
uint32_t __ballot_sync(uint32_t mask, bool v);
uint32_t __match_any_sync(uint32_t mask, uint32_t v);
static inline bool __any_sync(uint32_t mask, bool v)
{
    return __ballot_sync(mask, v) != 0;
}
static inline uint32_t atomicAdd(uint32_t *at, uint32_t v)
{
    const uint32_t old = *at;
    *at += v;
    return old;
}
static inline int __ffs(uint32_t v)
{
    return __builtin_ffs((int)v);
}
static inline int __popc(uint32_t v)
{
    return __builtin_popcount(v);
}
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
static inline uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
static inline size_t __cvta_generic_to_shared(const void *)
{
    return 0; /* the block's shared memory begins at 0 */
}
uint8_t *emu_shared();
void emu_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &body);

/* ---- the runtime ---- */
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrMemoryPoolsSupported, cudaDevAttrMemoryClockRate };
enum cudaMemPoolAttr { cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrUsedMemCurrent };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
typedef struct emu_stream *cudaStream_t;
typedef struct emu_event *cudaEvent_t;
typedef struct emu_pool *cudaMemPool_t;
struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    int major, minor, multiProcessorCount, memoryBusWidth;
    size_t totalGlobalMem;
};

/* What a test may turn. */
struct emu_control {
    int devices, major, driver;
    int eager;         /* copies into shared memory happen at once, else as late as allowed */
    int polls;         /* a recorded event is ready after so many questions */
    long alloc_fails;  /* the n-th allocation from now on; 0 = none */
    int lost;          /* every call fails */
    int wrong_sums;    /* the tensor unit cuts sums at 12 bits */
    size_t live;       /* device bytes held now */
};
extern "C" struct emu_control emu_control;

cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaDriverGetVersion(int *);
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaDeviceGetAttribute(int *, cudaDeviceAttr, int);
cudaError_t cudaSetDevice(int);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char *cudaGetErrorName(cudaError_t);
cudaError_t cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *);
cudaError_t emu_malloc(void **, size_t);
template <class T> static inline cudaError_t cudaMalloc(T **p, size_t n)
{
    return emu_malloc((void **)p, n);
}
template <class T> static inline cudaError_t cudaMallocAsync(T **p, size_t n, cudaStream_t)
{
    return emu_malloc((void **)p, n);
}
cudaError_t cudaFree(void *);
cudaError_t cudaFreeAsync(void *, cudaStream_t);
cudaError_t cudaHostAlloc(void **, size_t, unsigned);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaEventCreate(cudaEvent_t *);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
template <class F> static inline cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int)
{
    return emu_control.lost ? cudaErrorIllegalAddress : cudaSuccess;
}
template <class F>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, F *, int, size_t)
{
    *out = 1;
    return cudaSuccess;
}
#endif
