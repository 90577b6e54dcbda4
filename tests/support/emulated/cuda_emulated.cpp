/* The GPU module's own source, run on the CPU: each CUDA thread is a fiber, a block's fibers
 * take turns, and blocks run one after the other. Fibers change hands only where threads of
 * a warp or of a block meet, so a kernel that lacks a barrier reads what is not there yet
 * (copies into shared memory come as late as their wait allows, or at once: both are tried).
 *
 * What this shows: that layouts, indices, masks, the ring of stages, the bound, selection,
 * rescoring and the host's side are right, with every access checked by the sanitizers.
 * What it can't show: that the hardware does what the PTX ISA says, races between
 * instructions, speed. */
#include <cmath>
#include <dlfcn.h>
#include <ucontext.h>
#include <deque>
#include <set>
#include <vector>

#include "cuda_runtime.h"

struct emu_control emu_control = {1, 8, 13000, 0, 0, 0, 0, 0, 0};
emu_thread *emu_now;

/* ---- fibers ---- */

enum { STACK_BYTES = 64 << 10, SNAPS = 64, FIBERS_MAX = 1024 };

struct copy_job {
    uint32_t to;
    const void *from;
    bool take;
};
struct fiber {
    emu_thread id;
    ucontext_t context;
    std::vector<std::vector<copy_job>> groups; /* committed, oldest first */
    std::vector<copy_job> open;
    bool done;
};
struct warp {
    uint8_t value[32 * EMU_LANE_BYTES];
    uint8_t snaps[SNAPS][32 * EMU_LANE_BYTES];
    uint32_t here;      /* lanes that wait */
    int result[32];     /* the snapshot that each lane waited for; −1 = waits */
    unsigned next;
};
static std::vector<fiber> fibers;
static std::vector<warp> warps;
/* On the heap for good: what they hold is reachable when leaks are looked for. */
static std::vector<char *> &stacks = *new std::vector<char *>;
static ucontext_t scheduler;
static size_t current, waiting, running;
static uint64_t barrier_turn;
static std::vector<uint8_t> shared_bytes;
static const std::function<void()> *kernel_body;

static void yield_now()
{
    swapcontext(&fibers[current].context, &scheduler);
    emu_now = &fibers[current].id;
}

static void barrier_check()
{
    if (waiting > 0 && waiting == running) {
        waiting = 0;
        barrier_turn++;
    }
}

void __syncthreads()
{
    const uint64_t turn = barrier_turn;
    waiting++;
    barrier_check();
    while (barrier_turn == turn)
        yield_now();
}

const uint8_t *emu_meet(uint32_t mask, const void *value, size_t bytes)
{
    const unsigned lane = emu_now->thread.x & 31;
    warp &w = warps[emu_now->thread.x / 32];
    if (bytes > EMU_LANE_BYTES || !(mask >> lane & 1))
        abort();
    memcpy(w.value + lane * EMU_LANE_BYTES, value, bytes);
    w.here |= 1u << lane;
    w.result[lane] = -1;
    if ((w.here & mask) == mask) {
        memcpy(w.snaps[w.next], w.value, sizeof w.value);
        for (unsigned l = 0; l < 32; l++)
            if (mask >> l & 1)
                w.result[l] = (int)w.next;
        w.here &= ~mask;
        w.next = (w.next + 1) % SNAPS; /* nobody lags so many behind: all must meet again */
    }
    while (w.result[lane] < 0)
        yield_now();
    return w.snaps[w.result[lane]];
}

uint32_t __ballot_sync(uint32_t mask, bool v)
{
    const uint8_t *all = emu_meet(mask, &v, sizeof v);
    uint32_t out = 0;
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1 && emu_get<bool>(all, l))
            out |= 1u << l;
    return out;
}

uint32_t __match_any_sync(uint32_t mask, uint32_t v)
{
    const uint8_t *all = emu_meet(mask, &v, sizeof v);
    uint32_t out = 0;
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1 && emu_get<uint32_t>(all, l) == v)
            out |= 1u << l;
    return out;
}

uint8_t *emu_shared()
{
    return shared_bytes.data();
}

static void fiber_main()
{
    (*kernel_body)();
    fibers[current].done = true;
    running--;
    barrier_check();
    swapcontext(&fibers[current].context, &scheduler);
}

static void block_run(dim3 grid, dim3 block, dim3 at)
{
    fibers.assign(block.x, fiber());
    warps.assign((block.x + 31) / 32, warp());
    waiting = 0;
    running = block.x;
    for (unsigned t = 0; t < block.x; t++) {
        fiber &f = fibers[t];
        f.id = {dim3(t), at, block, grid};
        f.done = false;
        if (stacks.size() <= t)
            stacks.push_back((char *)malloc(STACK_BYTES));
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = stacks[t];
        f.context.uc_stack.ss_size = STACK_BYTES;
        f.context.uc_link = NULL;
        makecontext(&f.context, fiber_main, 0);
    }
    while (running > 0)
        for (current = 0; current < fibers.size(); current++) {
            if (fibers[current].done)
                continue;
            emu_now = &fibers[current].id;
            swapcontext(&scheduler, &fibers[current].context);
        }
}

void emu_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &body)
{
    if (emu_control.lost)
        return;
    kernel_body = &body;
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
            shared_bytes.assign(shared, 0xA5);
            block_run(grid, block, dim3(x, y));
        }
    emu_now = NULL;
}

/* ---- copies into shared memory ---- */

static void copy_do(const copy_job &c)
{
    uint8_t *to = shared_bytes.data() + c.to;
    if (c.to % 16 != 0 || (uintptr_t)c.from % 16 != 0 || c.to + 16 > shared_bytes.size())
        abort();
    if (c.take)
        memcpy(to, c.from, 16);
    else
        memset(to, 0, 16);
}

void copy16(uint32_t to, const void *from, bool take)
{
    const copy_job c = {to, from, take};
    if (emu_control.eager)
        copy_do(c);
    else
        fibers[current].open.push_back(c);
}

void copy_commit()
{
    fibers[current].groups.push_back(fibers[current].open);
    fibers[current].open.clear();
}

void emu_copy_wait(unsigned left)
{
    std::vector<std::vector<copy_job>> &g = fibers[current].groups;
    while (g.size() > left) {
        for (const copy_job &c : g.front())
            copy_do(c);
        g.erase(g.begin());
    }
}

/* ---- the tensor unit's sums ---- */

static int exponent(double v) /* 2^e <= |v| < 2^(e+1); zero and subnormals count as −1023 */
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return (int)(u >> 52 & 2047) - 1023;
}

static double cut(double v, int bit) /* towards zero at a multiple of 2^bit */
{
    const int drop = bit - (exponent(v) - 52);
    uint64_t u;
    if (drop <= 0)
        return v;
    if (drop > 52)
        return 0;
    memcpy(&u, &v, sizeof u);
    u &= ~0ull << drop;
    memcpy(&v, &u, sizeof u);
    return v;
}

float emu_sum_block(float c, const double *products, int n)
{
    const int bits = emu_control.wrong_sums ? 12 : 23;
    double most = fabs((double)c), sum = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(products[i]));
    if (most == 0 || !std::isfinite(most))
        return most == 0 ? 0 : NAN;
    const int last = exponent(most) - bits;
    for (int i = 0; i < n; i++)
        sum += cut(products[i], last);
    sum += cut(c, last);
    return (float)cut(sum, exponent(sum) - bits);
}

/* ---- the runtime ---- */

struct emu_event {
    int asked;
    bool recorded;
};
struct emu_stream {
    int unused;
};
struct block_head { /* before each piece of device memory */
    size_t bytes, pad[7];
};

/* Reachable for good, as a lost device frees nothing. */
static std::set<block_head *> &blocks_held = *new std::set<block_head *>;
static std::deque<emu_event> &events_held = *new std::deque<emu_event>;
static std::deque<emu_stream> &streams_held = *new std::deque<emu_stream>;

static cudaError_t fine()
{
    return emu_control.lost ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = 13000;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v)
{
    *v = emu_control.driver;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = emu_control.devices;
    return emu_control.driver < 13000 ? cudaErrorInsufficientDriver
           : *n == 0                  ? cudaErrorNoDevice
                                      : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "Emulated");
    p->major = emu_control.major;
    p->multiProcessorCount = 2;
    p->totalGlobalMem = (size_t)1 << 30;
    return fine();
}
cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr a, int)
{
    *out = a == cudaDevAttrMultiProcessorCount ? 2 : 1;
    return fine();
}
cudaError_t cudaSetDevice(int)
{
    return fine();
}
cudaError_t cudaDeviceSynchronize()
{
    return fine();
}
cudaError_t cudaGetLastError()
{
    return fine();
}
const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorIllegalAddress";
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *all = (size_t)1 << 30;
    *left = *all - emu_control.live;
    return fine();
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int)
{
    return fine();
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *out)
{
    *(uint64_t *)out = 0;
    return fine();
}
cudaError_t emu_malloc(void **p, size_t n)
{
    *p = NULL;
    if (emu_control.lost)
        return cudaErrorIllegalAddress;
    if (emu_control.alloc_fails > 0 && --emu_control.alloc_fails == 0)
        return cudaErrorMemoryAllocation;
    block_head *h = (block_head *)aligned_alloc(64, (sizeof *h + n + 63) / 64 * 64);
    memset((void *)(h + 1), 0xA5, n); /* device memory begins with anything */
    h->bytes = n;
    emu_control.live += n;
    blocks_held.insert(h);
    *p = h + 1;
    return cudaSuccess;
}
cudaError_t cudaFree(void *p)
{
    if (!p)
        return cudaSuccess;
    block_head *h = (block_head *)p - 1;
    emu_control.live -= h->bytes;
    if (blocks_held.erase(h) != 1)
        abort(); /* freed twice, or never given */
    free(h);
    return fine();
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t)
{
    return cudaFree(p);
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned)
{
    return emu_malloc(p, n);
}
cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind)
{
    if (!emu_control.lost)
        memcpy(to, from, n);
    return fine();
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind k, cudaStream_t)
{
    return cudaMemcpy(to, from, n, k);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t pitch, const void *from, size_t from_pitch, size_t width, size_t n,
                              cudaMemcpyKind, cudaStream_t)
{
    for (size_t i = 0; i < n && !emu_control.lost; i++)
        memcpy((uint8_t *)to + i * pitch, (const uint8_t *)from + i * from_pitch, width);
    return fine();
}
cudaError_t cudaMemsetAsync(void *to, int v, size_t n, cudaStream_t)
{
    if (!emu_control.lost)
        memset(to, v, n);
    return fine();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    streams_held.emplace_back();
    *s = &streams_held.back();
    return fine();
}
cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return fine();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return fine();
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    events_held.emplace_back();
    *e = &events_held.back();
    return fine();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    return cudaEventCreate(e);
}
cudaError_t cudaEventDestroy(cudaEvent_t)
{
    return fine();
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t)
{
    e->asked = 0;
    e->recorded = true;
    return fine();
}
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    if (emu_control.lost)
        return cudaErrorIllegalAddress;
    return e->recorded && e->asked++ < emu_control.polls ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = 0;
    return fine();
}

/* ---- the module's source ---- */

static void *driver_open(const char *, int)
{
    return &emu_control; /* "there is a driver" */
}
#define dlopen driver_open
#define BW_CUDA_EMULATED 1
#define bw_gpu_module_get bw_gpu_emulated_get /* both may be in one program */
#include "engine/index/cuda.cu"
