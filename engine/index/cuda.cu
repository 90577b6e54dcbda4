/* The CUDA module: exact search of whole partitions in device memory, by our own kernels.
 *
 * Fills the table of gpu_module.h. A batch goes: queries are cut into parts of the tensor
 * unit's precision (cuda_prepare.cuh); one pass of products over every range of rows by
 * those queries that may read it, keeping the best of each 32 rows (cuda_pass.cuh); the
 * bound says which of these groups can matter; their rows are scored again in stored
 * precision and in the CPU's order of sums, and the k best with all ties go back
 * (cuda_select.cuh). cuda_arith.h has the bound and why it holds; cuda_host.cuh the
 * memory; cuda_launch.cuh the batch. Needs the CUDA Toolkit alone, cudart linked in; the
 * driver is looked for at run time.
 *
 * Leaves out: wgmma and TMA of sm_90 (to be measured on hardware first), Manhattan (no
 * product form), skipping tiles in which a filter leaves no row. */
#include <ctime>
#include <dlfcn.h>
#include <sched.h>

#include "cuda_launch.cuh"

/* ---- which kernels ---- */

/* Few queries: one row of mma tiles, bytes decide. Up to 64: the queries come again from
 * the L2 cache for every 256 rows, a quarter of the rows' bytes. Many: 64 x 64 a warp. */
template <int T> using few = pass_shape<T, 16, 256, 1, 4, 4>;
template <int T> using some = pass_shape<T, 64, 256, 2, 4, 4>;
template <int T> using many = pass_shape<T, 128, 256, 2, 4, 4>;

template <class S> static cudaError_t shape_init(int sms, shape_info *out)
{
    int blocks = 0;
    const auto kernel = bw_cuda_pass<S>;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, S::THREADS, S::SHARED);
    *out = {kernel, S::QUERIES, S::BN, S::THREADS, S::SHARED, (uint32_t)(blocks * sms)};
    return e == cudaSuccess && blocks == 0 ? cudaErrorInvalidConfiguration : e;
}

template <int T> static cudaError_t form_init(int sms, shape_info out[NSHAPES])
{
    cudaError_t e = shape_init<few<T>>(sms, &out[0]);
    if (e == cudaSuccess)
        e = shape_init<some<T>>(sms, &out[1]);
    return e == cudaSuccess ? shape_init<many<T>>(sms, &out[2]) : e;
}

/* ---- probe ---- */

static bool driver_is_there(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return lib != NULL; /* never closed: the runtime wants it too */
}

static void say(bw_gpu_probe *out, bw_gpu_reason reason, const char *text)
{
    out->reason = reason;
    (void)snprintf(out->text, sizeof out->text, "%s", text);
}

static void device_probe(int i, bw_gpu_probe *out)
{
    bw_gpu_device *d = &out->devices[out->ndevices++];
    cudaDeviceProp p;
    d->index = (uint32_t)i;
    d->driver = out->driver;
    d->runtime = out->runtime;
    d->reason = BW_GPU_FAILED;
    if (cudaGetDeviceProperties(&p, i) != cudaSuccess) {
        (void)cudaGetLastError();
        return;
    }
    int khz = 0;
    (void)cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, i);
    d->cc_major = (uint32_t)p.major;
    d->cc_minor = (uint32_t)p.minor;
    d->sms = (uint32_t)p.multiProcessorCount;
    d->memory_gbps = (uint32_t)(2.0 * khz * (p.memoryBusWidth / 8) / 1e6);
    d->memory_total = p.totalGlobalMem;
    memcpy(d->uuid, p.uuid.bytes, sizeof d->uuid);
    (void)snprintf(d->name, sizeof d->name, "%.*s", (int)sizeof d->name - 1, p.name);
    d->reason = p.major >= 8 ? BW_GPU_READY : BW_GPU_OLD_DEVICE;
}

static void gpu_probe(bw_gpu_probe *out)
{
    int driver = 0, runtime = 0, n = 0;
    memset(out, 0, sizeof *out);
    (void)cudaRuntimeGetVersion(&runtime);
    out->runtime = (uint32_t)runtime;
    if (!driver_is_there()) {
        say(out, BW_GPU_NO_DRIVER, "no CUDA driver (libcuda.so.1) on this machine");
        return;
    }
    (void)cudaDriverGetVersion(&driver);
    out->driver = (uint32_t)driver;
    const cudaError_t e = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    if (e == cudaErrorInsufficientDriver || (e == cudaSuccess && driver / 1000 < runtime / 1000)) {
        say(out, BW_GPU_OLD_DRIVER, "");
        (void)snprintf(out->text, sizeof out->text, "the driver is for CUDA %d.%d, the module needs %d.%d",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        return;
    }
    if (e == cudaErrorNoDevice || (e == cudaSuccess && n == 0)) {
        say(out, BW_GPU_NO_DEVICE, "a CUDA driver, but no device is visible");
        return;
    }
    if (e != cudaSuccess) {
        say(out, BW_GPU_FAILED, cudaGetErrorName(e));
        return;
    }
    say(out, BW_GPU_OLD_DEVICE, "no device of compute capability 8.0 or more");
    for (int i = 0; i < n && i < BW_GPU_DEVICES_MAX; i++) {
        device_probe(i, out);
        if (out->devices[i].reason == BW_GPU_READY && out->reason != BW_GPU_READY)
            say(out, BW_GPU_READY, out->devices[i].name);
    }
}

/* ---- the self-test ---- */

enum { TRIALS = 64, A_BYTES = 16 * 32, B_BYTES = 8 * 32, C_COUNT = 16 * 8 };

static uint32_t noise(uint64_t *s) /* SplitMix64's step, high bits */
{
    uint64_t z = (*s += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

/* Values of one trial: plain, widely spread, subnormal in f16, or all just below what the
 * accumulator's last place can hold. */
static float trial_value(int trial, uint64_t *s)
{
    const float f = 1 + (float)(noise(s) >> 16) * 0x1p-16f, sign = noise(s) & 1 ? -1.0f : 1.0f;
    switch (trial % 4) {
    case 0:
        return sign * f;
    case 1:
        return sign * f * bw_cuda_pow2((int)(noise(s) % 24) - 14);
    case 2:
        return sign * f * bw_cuda_pow2(-16 - (int)(noise(s) % 8));
    default:
        return f * 0x1p-12f;
    }
}

template <int T> static bool trial_holds(const uint8_t *a, const uint8_t *b, const float *c, const float *got)
{
    for (int i = 0; i < C_COUNT; i++) {
        const uint16_t *x = (const uint16_t *)(a + i / 8 * 32), *y = (const uint16_t *)(b + i % 8 * 32);
        double exact = c[i], size = fabs((double)c[i]);
        for (int j = 0; j < 16; j++) {
            const double u = T == FORM_F16 ? bw_cuda_from_f16(x[j]) : bw_cuda_from_bf16(x[j]);
            const double v = T == FORM_F16 ? bw_cuda_from_f16(y[j]) : bw_cuda_from_bf16(y[j]);
            exact += u * v;
            size += fabs(u * v);
        }
        if (!(fabs(got[i] - exact) <= 16 * 0x1p-22 * size))
            return false;
    }
    return true;
}

/* Runs `TRIALS` tiles in one launch; *fits says whether every sum is within the bound. */
template <int T> static cudaError_t unit_test(bool *fits)
{
    using sum = typename unit<T>::sum;
    const size_t na = TRIALS * A_BYTES, nb = TRIALS * B_BYTES, nc = TRIALS * C_COUNT * sizeof(sum);
    const size_t bytes = na + nb + 2 * nc;
    uint8_t *host = (uint8_t *)calloc(1, bytes), *device = NULL;
    uint64_t s = 0xB1A5 + T;
    if (!host)
        return cudaErrorMemoryAllocation;
    sum *c = (sum *)(host + na + nb), *got = (sum *)(host + na + nb + nc);
    for (size_t i = 0; i < (na + nb) / 2; i++) {
        const int trial = (int)(i < na / 2 ? i / (A_BYTES / 2) : (i - na / 2) / (B_BYTES / 2));
        const float v = T == FORM_I8 ? 0 : trial_value(trial, &s);
        ((uint16_t *)host)[i] = T == FORM_F16    ? bw_cuda_to_f16(v)
                                : T == FORM_BF16 ? bw_cuda_to_bf16(v)
                                                 : (uint16_t)noise(&s);
    }
    for (int i = 0; i < TRIALS * C_COUNT; i++)
        c[i] = T == FORM_I8 ? (sum)(noise(&s) >> 8) : (sum)trial_value(i / C_COUNT % 4 == 3 ? 0 : i / C_COUNT, &s);
    cudaError_t e = cudaMalloc(&device, bytes);
    if (e == cudaSuccess)
        e = cudaMemcpy(device, host, bytes - nc, cudaMemcpyHostToDevice);
    if (e == cudaSuccess) {
        BW_CUDA_LAUNCH(bw_cuda_test<T>, TRIALS, 32, 0, (cudaStream_t)0, device, device + na,
                       (const sum *)(device + na + nb), (sum *)(device + na + nb + nc));
        e = cudaGetLastError();
    }
    if (e == cudaSuccess)
        e = cudaMemcpy(got, device + na + nb + nc, nc, cudaMemcpyDeviceToHost);
    *fits = true;
    for (int t = 0; e == cudaSuccess && t < TRIALS; t++) {
        const uint8_t *a = host + t * A_BYTES, *b = host + na + t * B_BYTES;
        if constexpr (T != FORM_I8) {
            *fits = *fits && trial_holds<T>(a, b, c + t * C_COUNT, got + t * C_COUNT);
        } else {
            for (int i = 0; i < C_COUNT; i++) {
                int32_t exact = c[t * C_COUNT + i];
                for (int j = 0; j < 32; j++)
                    exact += (int8_t)a[i / 8 * 32 + j] * (int8_t)b[i % 8 * 32 + j];
                *fits = *fits && exact == got[t * C_COUNT + i];
            }
        }
    }
    (void)cudaFree(device);
    free(host);
    return e;
}

/* ---- open, close ---- */

static cudaError_t gpu_start(bw_gpu *g, bool *fits)
{
    int sms = 0, pools = 0;
    bool f16 = false, bf16 = false, i8 = false;
    cudaError_t e = cudaSetDevice(g->device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, g->device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, g->device);
    g->pooled = pools != 0;
    if (e == cudaSuccess)
        e = form_init<FORM_F16>(sms, g->shapes[FORM_F16]);
    if (e == cudaSuccess)
        e = form_init<FORM_BF16>(sms, g->shapes[FORM_BF16]);
    if (e == cudaSuccess)
        e = form_init<FORM_I8>(sms, g->shapes[FORM_I8]);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&g->up, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&g->uploaded, cudaEventDisableTiming);
    for (int i = 0; i < 2 && e == cudaSuccess; i++) {
        upload_slab *s = &g->slabs[i];
        e = cudaHostAlloc((void **)&s->pinned, BW_GPU_UPLOAD_MAX + UPLOAD_ROWS_MAX * sizeof(float),
                          cudaHostAllocDefault);
        if (e == cudaSuccess)
            e = cudaMalloc(&s->scales, UPLOAD_ROWS_MAX * sizeof(float));
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming);
    }
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX && e == cudaSuccess; i++) {
        bw_gpu_ticket *t = &g->tickets[i];
        e = cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking);
        if (e == cudaSuccess)
            e = cudaEventCreate(&t->first);
        if (e == cudaSuccess)
            e = cudaEventCreate(&t->last);
        if (e == cudaSuccess)
            e = cudaHostAlloc((void **)&t->pinned, g->pinned, cudaHostAllocDefault);
        if (e == cudaSuccess)
            e = cudaMalloc(&t->device, g->workspace);
    }
    if (e == cudaSuccess)
        e = unit_test<FORM_F16>(&f16);
    if (e == cudaSuccess)
        e = unit_test<FORM_BF16>(&bf16);
    if (e == cudaSuccess)
        e = unit_test<FORM_I8>(&i8);
    *fits = f16 && bf16 && i8;
    return e;
}

static void gpu_close(bw_gpu *g)
{
    if (!g)
        return;
    if (!g->lost && (cudaSetDevice(g->device) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess))
        g->lost = true;
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX; i++)
        ticket_let_go(g, &g->tickets[i]);
    while (g->segments)
        segment_drop(g, g->segments);
    while (g->all_bits)
        bits_drop(g, g->all_bits);
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX && !g->lost; i++) {
        bw_gpu_ticket *t = &g->tickets[i];
        (void)cudaFree(t->device);
        (void)cudaFreeHost(t->pinned);
        if (t->first)
            (void)cudaEventDestroy(t->first);
        if (t->last)
            (void)cudaEventDestroy(t->last);
        if (t->stream)
            (void)cudaStreamDestroy(t->stream);
    }
    for (int i = 0; i < 2 && !g->lost; i++) {
        (void)cudaFree(g->slabs[i].scales);
        (void)cudaFreeHost(g->slabs[i].pinned);
        if (g->slabs[i].done)
            (void)cudaEventDestroy(g->slabs[i].done);
    }
    if (!g->lost && g->uploaded)
        (void)cudaEventDestroy(g->uploaded);
    if (!g->lost && g->up)
        (void)cudaStreamDestroy(g->up);
    free(g);
}

static bw_gpu_status refuse(bw_gpu_reason why, const char *what, uint32_t *reason, char text[BW_GPU_TEXT_MAX])
{
    *reason = why;
    (void)snprintf(text, BW_GPU_TEXT_MAX, "%s", what);
    return why == BW_GPU_FULL ? BW_GPU_NOMEM : BW_GPU_LOST;
}

static bw_gpu_status gpu_open(const bw_gpu_options *options, bw_gpu **out, uint32_t *reason,
                              char text[BW_GPU_TEXT_MAX])
{
    bool fits = false;
    bw_gpu_probe *p = (bw_gpu_probe *)calloc(1, sizeof *p);
    bw_gpu *g = (bw_gpu *)calloc(1, sizeof *g);
    bw_gpu_status s = BW_GPU_OK;
    if (!p || !g) {
        s = refuse(BW_GPU_FULL, "host memory", reason, text);
    } else {
        gpu_probe(p);
        if (p->reason != BW_GPU_READY)
            s = refuse((bw_gpu_reason)p->reason, p->text, reason, text);
        else if (options->device >= p->ndevices)
            s = refuse(BW_GPU_NO_DEVICE, "no device of that number", reason, text);
        else if (p->devices[options->device].reason != BW_GPU_READY)
            s = refuse((bw_gpu_reason)p->devices[options->device].reason, "this device", reason, text);
    }
    free(p);
    if (s != BW_GPU_OK) {
        free(g);
        return s;
    }
    g->device = (int)options->device;
    g->workspace = options->workspace_bytes ? options->workspace_bytes : 512ull << 20;
    g->pinned = options->pinned_bytes ? options->pinned_bytes : 32ull << 20;
    const cudaError_t e = gpu_start(g, &fits);
    if (e == cudaSuccess && fits) {
        *out = g;
        *reason = BW_GPU_READY;
        (void)snprintf(text, BW_GPU_TEXT_MAX, "ready");
        return BW_GPU_OK;
    }
    if (e == cudaSuccess)
        s = refuse(BW_GPU_ARITHMETIC, "the self-test of the tensor unit's sums failed", reason, text);
    else
        s = refuse(e == cudaErrorMemoryAllocation ? BW_GPU_FULL : BW_GPU_FAILED, cudaGetErrorName(e), reason,
                   text);
    (void)cudaGetLastError();
    gpu_close(g);
    return s;
}

/* ---- waiting ---- */

static bw_gpu_status gpu_poll(bw_gpu *g, bw_gpu_ticket *t, bw_gpu_result *out)
{
    const bw_gpu_status s = gpu_enter(g);
    float ms = 0;
    if (s != BW_GPU_OK)
        return s;
    if (t->state != TICKET_FLYING)
        return gpu_wrong(g, BW_GPU_INVALID, "ticket");
    TRY(g, cudaEventQuery(t->last), "batch");
    if (cudaEventElapsedTime(&ms, t->first, t->last) != cudaSuccess) {
        (void)cudaGetLastError();
        ms = 0;
    }
    *out = {t->nq, t->hits_max, t->answers, t->hits, ms, 0};
    return BW_GPU_OK;
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Looks again and again for 200 µs, as most batches are short; then sleeps in between. */
static bw_gpu_status gpu_wait(bw_gpu *g, bw_gpu_ticket *t, uint64_t timeout_ns, bw_gpu_result *out)
{
    const uint64_t start = now_ns();
    for (;;) {
        const bw_gpu_status s = gpu_poll(g, t, out);
        if (s != BW_GPU_AGAIN)
            return s;
        const uint64_t passed = now_ns() - start;
        if (timeout_ns != 0 && passed >= timeout_ns)
            return gpu_wrong(g, BW_GPU_TIMEOUT, "batch: no answer in time");
        if (passed < 200000) {
            (void)sched_yield();
        } else {
            const struct timespec nap = {0, 20000};
            (void)nanosleep(&nap, NULL);
        }
    }
}

static bw_gpu_status gpu_wipe(bw_gpu *g)
{
    const bw_gpu_status s = gpu_enter(g);
    if (s != BW_GPU_OK)
        return s;
    for (int i = 0; i < BW_GPU_INFLIGHT_MAX; i++) {
        bw_gpu_ticket *t = &g->tickets[i];
        if (t->state != TICKET_FREE)
            continue;
        memset(t->pinned, 0, g->pinned);
        TRY(g, cudaMemsetAsync(t->device, 0, g->workspace, t->stream), "wipe");
    }
    for (int i = 0; i < 2; i++)
        if (cudaEventQuery(g->slabs[i].done) == cudaSuccess)
            memset(g->slabs[i].pinned, 0, BW_GPU_UPLOAD_MAX + UPLOAD_ROWS_MAX * sizeof(float));
    return BW_GPU_OK;
}

static const char *gpu_last_error(const bw_gpu *g)
{
    return g->error;
}

static const bw_gpu_module table = {
    BW_GPU_ABI,     sizeof(bw_gpu_module), "cuda",           gpu_probe,        gpu_open,
    gpu_close,      gpu_memory,            gpu_last_error,   gpu_segment_bytes, gpu_segment_new,
    gpu_segment_write, gpu_segment_free,   gpu_bits_new,     gpu_bits_free,    gpu_launch,
    gpu_poll,       gpu_wait,              gpu_release,      gpu_wipe,
};

extern "C" __attribute__((visibility("default"))) const bw_gpu_module *bw_gpu_module_get(uint32_t abi);
extern "C" const bw_gpu_module *bw_gpu_module_get(uint32_t abi)
{
    return abi == BW_GPU_ABI ? &table : NULL;
}
