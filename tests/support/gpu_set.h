/* The rows, queries and exact answers of the GPU benchmark (tools/engine/gpu_bench.c): rows
 * from a file or drawn by number and seed, so that any part of them can be made alone; held
 * once on the host in stored precision, cut into segments. */
#ifndef BW_TEST_GPU_SET_H
#define BW_TEST_GPU_SET_H
#include "engine/kernels/kernels.h"
#include "engine/kernels/typed.h"
#include "engine/index/cuda_arith.h"
#include "npy.h"
#include "rnd.h"

enum {
    SET_CENTRES = 1024,  /* topics that the drawn rows lie around */
    SET_PART = 1024,     /* rows made, sent or scanned in one go */
    SET_PERCENTS_MAX = 8,
    SET_K_MAX = 128,
    SET_CHECK_MAX = 64   /* queries with an exact answer */
};

/* Who may read what, of `percent` of the rows:
 * SEGMENTS  all queries the same first segments; the rest is never touched
 * BITS      all queries all segments, by one bitset each, rows drawn by chance
 * MIXED     each query its own segments, a run that begins at the query's number */
typedef enum set_mode { SET_SEGMENTS, SET_BITS, SET_MIXED, SET_MODES } set_mode;
static const char *const set_mode_names[SET_MODES] = {"segments", "bits", "mixed"};

typedef struct set_hit {
    float key;
    uint32_t row; /* of the set */
} set_hit;

typedef struct gpu_set {
    bw_dtype dtype;
    bw_metric metric;
    uint32_t dim, k, nsegments, pool, check, npercents;
    uint32_t percents[SET_PERCENTS_MAX];
    size_t n;
    uint64_t seed;
    void *rows;           /* n × dim stored, segment after segment */
    float *scales;        /* n for int8, else NULL */
    float *queries;       /* pool × dim */
    set_hit *exact;       /* check × modes × percents × k, best first */
    uint32_t *exact_n;    /* check × modes × percents */
} gpu_set;

/* The total order: key, then number. */
static inline int set_hit_cmp(const void *a, const void *b)
{
    const set_hit *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static inline size_t set_segment_row0(const gpu_set *s, uint32_t segment)
{
    const size_t each = (s->n + s->nsegments - 1) / s->nsegments;
    const size_t at = each * segment;
    return at < s->n ? at : s->n;
}

static inline uint32_t set_segment_rows(const gpu_set *s, uint32_t segment)
{
    return (uint32_t)(set_segment_row0(s, segment + 1) - set_segment_row0(s, segment));
}

/* Segments that `percent` of them are, at least one. */
static inline uint32_t set_segments_of(const gpu_set *s, uint32_t percent)
{
    const uint32_t some = (s->nsegments * percent + 99) / 100;
    return some > 0 ? some : 1;
}

/* Whether query number q may read the segment at all. */
static inline bool set_reads(const gpu_set *s, set_mode mode, uint32_t percent, uint32_t q,
                             uint32_t segment)
{
    const uint32_t first = mode == SET_MIXED ? q % s->nsegments : 0;
    if (mode == SET_BITS)
        return true;
    return (segment + s->nsegments - first) % s->nsegments < set_segments_of(s, percent);
}

static inline bool set_bit(const gpu_set *s, uint32_t percent, size_t row)
{
    rnd r = {(s->seed ^ 0xB175u) + row * 0xD1342543DE82EF95u};
    return rnd_below(&r, 100) < percent;
}

static inline bool set_permits(const gpu_set *s, set_mode mode, uint32_t percent, uint32_t q,
                               uint32_t segment, size_t row)
{
    return mode == SET_BITS ? set_bit(s, percent, row) : set_reads(s, mode, percent, q, segment);
}

/* ---- drawing ---- */

/* Adds `size` times numbers in [−1, 1), four to a draw: millions of rows are drawn. */
static inline void set_noise(uint64_t state, float size, float *out, size_t dim)
{
    rnd r = {state};
    (void)rnd_u64(&r); /* neighbours' states differ by a constant: mixed once */
    r.state ^= rnd_u64(&r);
    for (size_t i = 0; i < dim; i += 4) {
        const uint64_t u = rnd_u64(&r);
        for (size_t j = i; j < dim && j < i + 4; j++)
            out[j] += (float)((int)(u >> (j - i) * 16 & 0xFFFFu) - 32768) * 0x1p-15f * size;
    }
}

static inline void set_draw(const gpu_set *s, size_t row, float *out)
{
    rnd r = {s->seed + row * 0x9FB21C651E98DF25u};
    const uint64_t centre = rnd_below(&r, SET_CENTRES);
    memset(out, 0, s->dim * sizeof *out);
    set_noise(s->seed * 31 + centre * 0xC2B2AE3D27D4EB4Fu + 7, 1.0f, out, s->dim);
    set_noise(rnd_u64(&r), 0.9f, out, s->dim);
    if (s->metric == BW_METRIC_COSINE)
        bw_normalize_f32(out, s->dim);
}

static inline void *set_row_at(const gpu_set *s, size_t row)
{
    return (char *)s->rows + row * s->dim * bw_dtype_size(s->dtype);
}

/* Queries: rows of the set, moved a little. */
static inline void set_queries(gpu_set *s)
{
    rnd r = {s->seed ^ 0x51EEDu};
    for (size_t q = 0; q < s->pool; q++) {
        float *out = s->queries + q * s->dim;
        const size_t row = rnd_below(&r, s->n);
        double len = 0;
        bw_decode_rows(s->dtype, set_row_at(s, row), s->scales ? s->scales + row : NULL, 1, s->dim, out);
        for (size_t j = 0; j < s->dim; j++)
            len += (double)out[j] * (double)out[j];
        set_noise(rnd_u64(&r), (float)(0.5 * sqrt(len / s->dim)), out, s->dim);
        if (s->metric == BW_METRIC_COSINE)
            bw_normalize_f32(out, s->dim);
    }
}

/* Fills rows and queries; `file`, where given, sets n and dim. False with a line on stderr. */
static inline bool set_make(gpu_set *s, const char *file)
{
    npy in = {NULL, 0, 0};
    if (file) {
        if (npy_read(file, s->n, &in) != 0)
            return false;
        s->n = in.n;
        s->dim = (uint32_t)in.dim;
    }
    if (s->nsegments > s->n)
        s->nsegments = (uint32_t)s->n;
    const size_t row = s->dim * bw_dtype_size(s->dtype);
    float *part = bw_alloc_vectors((size_t)SET_PART * s->dim * sizeof *part);
    s->rows = bw_alloc_vectors(s->n * row);
    s->queries = bw_alloc_vectors((size_t)s->pool * s->dim * sizeof *s->queries);
    if (s->dtype == BW_DTYPE_I8)
        s->scales = bw_calloc(s->n, sizeof *s->scales);
    bool fits = s->n > 0 && part && s->rows && s->queries && (s->scales || s->dtype != BW_DTYPE_I8);
    for (size_t at = 0; fits && at < s->n; at += SET_PART) {
        const size_t many = s->n - at < SET_PART ? s->n - at : SET_PART;
        for (size_t i = 0; i < many; i++) {
            float *x = part + i * s->dim;
            if (!file) {
                set_draw(s, at + i, x);
                continue;
            }
            memcpy(x, in.values + (at + i) * s->dim, s->dim * sizeof *x);
            if (s->metric == BW_METRIC_COSINE)
                bw_normalize_f32(x, s->dim);
        }
        fits = bw_encode_rows(s->dtype, part, many, s->dim, set_row_at(s, at),
                              s->scales ? s->scales + at : NULL);
    }
    if (fits)
        set_queries(s);
    else
        fprintf(stderr, "no memory, or a value does not fit the precision\n");
    bw_free_vectors(part);
    bw_free_vectors(in.values);
    return fits;
}

static inline void set_clear(gpu_set *s)
{
    bw_free_vectors(s->rows);
    bw_free(s->scales);
    bw_free_vectors(s->queries);
    bw_free(s->exact);
    bw_free(s->exact_n);
}

/* ---- exact answers ---- */

static inline size_t set_exact_at(const gpu_set *s, uint32_t q, set_mode mode, uint32_t p)
{
    return ((size_t)q * SET_MODES + (size_t)mode) * s->npercents + p;
}

/* Keeps the k best in order; *n so far. */
static inline void set_push(set_hit *best, uint32_t *n, uint32_t k, set_hit h)
{
    if (*n == k && set_hit_cmp(&h, &best[k - 1]) > 0)
        return;
    uint32_t at = *n < k ? (*n)++ : k - 1;
    for (; at > 0 && set_hit_cmp(&h, &best[at - 1]) < 0; at--)
        best[at] = best[at - 1];
    best[at] = h;
}

/* The CPU's answers of the first `check` queries for every mode and share, in one scan. */
static inline bool set_exact(gpu_set *s)
{
    const size_t lists = (size_t)s->check * SET_MODES * s->npercents;
    float *keys = bw_calloc((size_t)s->check * SET_PART + 1, sizeof *keys);
    s->exact = bw_calloc(lists * s->k + 1, sizeof *s->exact);
    s->exact_n = bw_calloc(lists + 1, sizeof *s->exact_n);
    const float *qs[SET_CHECK_MAX];
    if (!keys || !s->exact || !s->exact_n)
        return false;
    for (uint32_t q = 0; q < s->check; q++)
        qs[q] = s->queries + (size_t)q * s->dim;
    bw_block_fn *block = bw_kernels_get()->block[s->dtype][bw_metric_op(s->metric)];
    for (uint32_t g = 0; g < s->nsegments && s->check > 0; g++) {
        const size_t end = set_segment_row0(s, g + 1);
        for (size_t at = set_segment_row0(s, g); at < end; at += SET_PART) {
            const size_t many = end - at < SET_PART ? end - at : SET_PART;
            block(qs, s->check, set_row_at(s, at), s->scales ? s->scales + at : NULL, many, s->dim, keys);
            bw_keys_turn(s->metric, keys, s->check * many);
            for (size_t at_list = 0; at_list < lists; at_list++) {
                const uint32_t q = (uint32_t)(at_list / (SET_MODES * s->npercents));
                const set_mode mode = (set_mode)(at_list / s->npercents % SET_MODES);
                const uint32_t percent = s->percents[at_list % s->npercents];
                set_hit *best = s->exact + at_list * s->k;
                if (!set_reads(s, mode, percent, q, g))
                    continue;
                for (size_t i = 0; i < many; i++) {
                    const set_hit h = {keys[q * many + i], (uint32_t)(at + i)};
                    const uint32_t have = s->exact_n[at_list];
                    if ((have < s->k || h.key >= best[have - 1].key) &&
                        set_permits(s, mode, percent, q, g, at + i))
                        set_push(best, &s->exact_n[at_list], s->k, h);
                }
            }
        }
    }
    bw_free(keys);
    return true;
}

/* ---- what a batch must read and multiply ---- */

typedef struct set_cost {
    double bytes; /* rows of the first pass's form, each once however many ask, and factors */
    double flops; /* 2 · dim of every (query, row) pair */
    double unit_flops; /* as the tensor unit sees them: bf16 and int8 take queries in two parts */
} set_cost;

/* Of an item of `rows` rows that `reads` queries of the batch read. */
static inline void set_cost_add(set_cost *c, uint32_t dtype, uint32_t dim, double rows, double reads)
{
    enum { FACTORS = 8 }; /* bytes of a row's scale and summand */
    const double wide = bw_cuda_stride(dim, bw_cuda_form_bytes(dtype));
    c->bytes += rows * (wide + FACTORS);
    c->flops += 2 * dim * rows * reads;
    c->unit_flops += 2 * dim * rows * reads * bw_cuda_parts(dtype);
}

/* The value that a share of the n sorted ones does not exceed (nearest rank). */
static inline double set_percentile(const double *sorted, size_t n, double share)
{
    const double at = ceil(share * (double)n);
    return n == 0 ? 0 : sorted[at < 1 ? 0 : at > (double)n ? n - 1 : (size_t)at - 1];
}
#endif
