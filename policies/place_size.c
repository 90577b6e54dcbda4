/* How many machines a workload needs (place.h): plain arithmetic on the careful side,
 * written so that a reader can redo it by hand. The constants' sources: our own
 * measurements (tests/bench, one core of a Zen 3: 10 to 12.5 GB/s of flat scan, 2,143
 * queries a second of HNSW over 300,000 x 384 at recall 0.958, about half that near
 * 0.99) and the roofline of exact search on an H200 (1,000,000 x 384 in f16, batch of
 * 32: 0.24 ms at best; half of the best is expected).
 *
 *   row      dimension * bits / 8 bytes, rounded up; + 16 of ids and marks; + 256 of
 * links (64 of 4 bytes) in a graph memory   rows * row * 1.25 (growth, and a segment
 * being rebuilt) <= 0.9 of what there is
 *
 *   gpu-flat (NVIDIA; every vector is read once for 32 queries; f32 scans in f16 and is
 *            rescored from host memory, which therefore holds the rows, too)
 *     t      2 * max((rows * row + 8 * 32 * rows) / (0.9 * bandwidth),
 *                    2 * 32 * rows * dimension / (0.7 * peak)) + 60 us
 *     load   qps * t / 32;  latency t + 0.3 ms (gathering the batch)
 *     rows   vectors / devices, rounded up: devices share the rows, each sees each
 * query
 *
 *   cpu-flat (recall above 0.99, or at most 50,000 vectors)
 *     t      rows * row / (vCPUs * 5 GB/s);  load qps * t;  latency t
 *
 *   cpu-graph
 *     one vCPU's queries a second: q = base * 384 / max(dimension, 384)
 *            * log2(300,000) / log2(max(rows, 300,000)) / 2, base 2,000 up to recall
 * 0.95, 1,000 up to 0.99; half, since a vCPU is half a core shards as memory demands,
 * then whole copies of them; load qps / (copies * vCPUs * q); latency 1 / q
 *
 *   model    parameters * bytes * 1.2 on every device; its share of the time is
 *            tokens a second * 2 * parameters / (0.3 * f16 peak * devices) */
#include "place.h"

#include <math.h>

static const double HEADROOM = 1.25, USABLE = 0.9, ROW_EXTRA = 16, GRAPH_EXTRA = 256,
                    BATCH = 32, GPU_CALL_S = 60e-6, GATHER_MS = 0.3, VCPU_BYTES_S = 5e9,
                    MODEL_SLACK = 1.2, MODEL_PEAK = 0.3, FLAT_MAX = 50000,
                    GRAPH_MEASURED = 300000, GIB = 1073741824.0;

typedef struct machine {
    double vcpu, host, device, bandwidth, peak, peak16,
        devices; /* bytes, bytes/s, flop/s; <= 0 unknown */
    bool gpu;
} machine;

static double scaled(double v, double by)
{
    return v > 0 ? v * by : BW_UNKNOWN;
}

static machine machine_of(const bw_profile *p, const bw_instance *i)
{
    const bw_accelerator *a = i->accelerator;
    double peak = bw_str_is(p->precision, "int8")   ? a->int8_tops
                  : bw_str_is(p->precision, "bf16") ? a->bf16_tflops
                                                    : a->fp16_tflops;
    return (machine){.vcpu = i->vcpu,
                     .host = scaled(i->memory_gib, GIB * USABLE),
                     .device = scaled(a->memory_gb, 1e9 * USABLE),
                     .bandwidth = scaled(a->memory_bw_gbs, 1e9),
                     .peak = scaled(peak, 1e12),
                     .peak16 = scaled(a->fp16_tflops, 1e12),
                     .devices = i->accelerator_count,
                     /* our device kernels are CUDA, and have no one-bit form */
                     .gpu = bw_str_is(a->kind, "gpu") &&
                            bw_str_is(a->vendor, "nvidia") &&
                            !bw_str_is(p->precision, "b1")};
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double model_load(const bw_profile *p, const machine *m, double n)
{
    return p->model_parameters > 0 ? p->model_tokens_s * 2 * p->model_parameters /
                                         (MODEL_PEAK * m->peak16 * n * m->devices)
                                   : 0;
}

static void try_gpu(const bw_profile *p, const machine *m, double n, bw_sizing *s)
{
    double k = n * m->devices, row = s->row_bytes;
    s->rows = ceil(p->vectors / k);
    double bytes = s->rows * row + 8 * BATCH * s->rows;
    double t = 2 * larger(bytes / (0.9 * m->bandwidth),
                          2 * BATCH * s->rows * p->dimension / (0.7 * m->peak)) +
               GPU_CALL_S;
    s->memory_use = (s->device_bytes / k + s->model_bytes) / m->device;
    if (m->host > 0)
        s->memory_use = larger(s->memory_use, s->host_bytes / n / m->host);
    s->load = p->qps * t / BATCH + model_load(p, m, n);
    s->capacity_qps = BATCH / t;
    s->latency_ms = t * 1000 + GATHER_MS;
}

static double graph_rate(const bw_profile *p, double rows)
{
    double base = p->recall > 0.95 ? 1000 : 2000;
    return base * 384 / larger(p->dimension, 384) * log2(GRAPH_MEASURED) /
           log2(larger(rows, GRAPH_MEASURED)) / 2;
}

static void try_cpu(const bw_profile *p, const machine *m, double n, bool graph,
                    bw_sizing *s)
{
    if (graph) {
        double shards = larger(ceil(s->host_bytes / m->host), 1);
        if (shards > n)
            shards = n; /* too few: memory_use says so */
        s->rows = ceil(p->vectors / shards);
        double rate = graph_rate(p, s->rows);
        s->rate = rate;
        s->memory_use = s->host_bytes / shards / m->host;
        s->capacity_qps = floor(n / shards) * m->vcpu * rate;
        s->latency_ms = 1000 / rate;
        s->extrapolated = s->rows > GRAPH_MEASURED;
    } else {
        s->rows = ceil(p->vectors / n);
        double t = s->rows * (s->row_bytes) / (m->vcpu * VCPU_BYTES_S);
        s->memory_use = s->host_bytes / n / m->host;
        s->capacity_qps = 1 / t;
        s->latency_ms = t * 1000;
    }
    s->load = p->qps / s->capacity_qps + model_load(p, m, n);
    if (s->model_bytes > 0)
        s->memory_use = larger(s->memory_use, s->model_bytes / m->device);
}

static void try_model(const bw_profile *p, const machine *m, double n, bw_sizing *s)
{
    s->memory_use = s->model_bytes / m->device;
    s->load = model_load(p, m, n);
}

/* Our kernels beside the plain ones are x86-64 with AVX2 or more; the figures are
 * theirs. */
static bool has_kernel(const bw_accelerator *a)
{
    for (size_t i = 0; i < a->isa.n; i++)
        if (a->isa.items[i].len > 3 && (memcmp(a->isa.items[i].ptr, "avx", 3) == 0 ||
                                        memcmp(a->isa.items[i].ptr, "amx", 3) == 0))
            return true;
    return a->isa.items == NULL; /* a GPU's host, which nobody describes */
}

/* What is missing to work it out at all. */
static const char *unknown_figure(const bw_profile *p, const bw_instance *i,
                                  const machine *m, bool gpu)
{
    if (p->model_parameters > 0 && (m->peak16 <= 0 || m->device <= 0 || m->devices < 1))
        return "inference-unknown";
    if (p->vectors < 1)
        return NULL;
    if (!gpu && !has_kernel(i->accelerator))
        return "no-kernel";
    if (gpu && (m->bandwidth <= 0 || m->peak <= 0))
        return "throughput-unknown";
    if (gpu ? m->device <= 0 : m->host <= 0)
        return "memory-unknown";
    return !gpu && m->vcpu <= 0 ? "throughput-unknown" : NULL;
}

static const char *too_small(const bw_profile *p, const bw_sizing *s)
{
    if (s->memory_use > 1)
        return "memory";
    if (s->load > 1)
        return "throughput";
    return p->vectors >= 1 && p->latency_ms > 0 && s->latency_ms > p->latency_ms
               ? "latency"
               : NULL;
}

void bw_place_size(const bw_profile *p, const bw_instance *i, bw_sizing *out)
{
    const machine m = machine_of(p, i);
    bw_sizing s = {
        .engine = "none", .bandwidth = m.bandwidth, .peak = m.peak, .peak16 = m.peak16};
    bool graph = !m.gpu && p->recall <= 0.99 && p->vectors > FLAT_MAX;
    s.row_bytes = ceil(p->dimension * p->bits / 8);
    s.host_bytes =
        p->vectors * (s.row_bytes + ROW_EXTRA + (graph ? GRAPH_EXTRA : 0)) * HEADROOM;
    s.model_bytes = p->model_parameters * p->model_bytes * MODEL_SLACK;
    if (m.gpu && p->bits > 16)
        s.row_bytes = p->dimension * 2;
    if (p->vectors >= 1)
        s.engine = m.gpu ? "gpu-flat" : graph ? "cpu-graph" : "cpu-flat";
    s.device_bytes = m.gpu ? p->vectors * s.row_bytes * HEADROOM : 0;
    s.host_memory_unknown = m.gpu && m.host <= 0 && p->vectors >= 1;
    s.rule = unknown_figure(p, i, &m, m.gpu);
    if (!s.rule)
        do {
            s.count++;
            if (p->vectors < 1)
                try_model(p, &m, s.count, &s);
            else if (m.gpu)
                try_gpu(p, &m, s.count, &s);
            else
                try_cpu(p, &m, s.count, graph, &s);
            s.rule = too_small(p, &s);
        } while (s.rule && s.count < BW_PLACE_INSTANCES_MAX);
    *out = s;
}
