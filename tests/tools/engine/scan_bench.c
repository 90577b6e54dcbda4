/* The exact scan over 4-bit codes beside the flat f32 scan, single queries, one thread.
 *
 *   scan_bench rows.npy queries.npy [rows] [queries] [rounds] [percent]
 *
 * Grows the rows to `rows` by bench/README's rule (noise shaped by the data: a Gaussian
 * mix of 16 centred rows, scaled to 0.927). A round runs every query through both, one
 * after the other by turns; per k one JSON line of medians over the rounds, in CPU time. Checks that
 * both give the same ids and bits. `percent` of the rows are allowed, by chance. */
#include "engine/index/codes.h"
#include "npy.h"
#include "rnd.h"

#include <time.h>

enum { ROUNDS_MAX = 64, MIX = 16, KMAX = 1000 };
static const double NOISE = 0.927;

static void grow(const npy *real, size_t n, float *out)
{
    const size_t dim = real->dim;
    double mean[4096] = {0};
    rnd r = {7};
    for (size_t i = 0; i < real->n; i++)
        for (size_t d = 0; d < dim; d++)
            mean[d] += (double)real->values[i * dim + d] / (double)real->n;
    for (size_t i = 0; i < n; i++) {
        float *x = out + i * dim;
        if (i < real->n) {
            memcpy(x, real->values + i * dim, dim * sizeof *x);
            continue;
        }
        float noise[4096] = {0};
        double sum = 0, len = 0;
        for (size_t m = 0; m < MIX; m++) {
            const float g = (float)rnd_gauss(&r);
            const float *y = real->values + rnd_below(&r, real->n) * dim;
            for (size_t d = 0; d < dim; d++)
                noise[d] += g * y[d];
            sum += (double)g;
        }
        for (size_t d = 0; d < dim; d++) {
            noise[d] -= (float)(sum * mean[d]);
            len += (double)noise[d] * (double)noise[d];
        }
        const float scale = (float)(NOISE / sqrt(len));
        const float *base = real->values + rnd_below(&r, real->n) * dim;
        for (size_t d = 0; d < dim; d++)
            x[d] = base[d] + scale * noise[d];
        bw_normalize_f32(x, dim);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

typedef struct bench {
    bw_ctx *ctx;
    bw_rows rows;
    bw_codes *codes;
    bw_bitmap allowed;
    bw_point_id *ids;
    npy queries;
} bench;

/* CPU time of this thread: what other programs of a shared machine take is left out. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double run_flat(bench *b, const float *q, size_t k, bw_candidate *items)
{
    bw_topk t;
    bw_topk_init(&t, items, k);
    const uint64_t t0 = now_ns();
    bw_scan_f32(bw_kernels_get(), BW_METRIC_DOT, q, b->rows.data, b->rows.n, b->rows.dim,
                &b->allowed, b->ids, 0, 0, &t);
    const uint64_t t1 = now_ns();
    bw_topk_sort(&t);
    return (double)(t1 - t0) * 1e-3;
}

static double run_codes(bench *b, const float *const *q, size_t nq, size_t k,
                        bw_candidate *items, uint64_t *rescored)
{
    bw_topk t[BW_CODES_QUERIES_MAX];
    bw_codes_query cq[BW_CODES_QUERIES_MAX];
    uint64_t counts[BW_CODES_QUERIES_MAX] = {0};
    for (size_t j = 0; j < nq; j++) {
        bw_topk_init(&t[j], items + j * k, k);
        cq[j] = (bw_codes_query){q[j], &b->allowed, &t[j]};
    }
    const uint64_t t0 = now_ns();
    if (bw_codes_scan(b->ctx, b->codes, &b->rows, cq, nq, b->ids, 0, 0, counts) != BW_OK)
        exit(1);
    const uint64_t t1 = now_ns();
    for (size_t j = 0; j < nq; j++) {
        bw_topk_sort(&t[j]);
        *rescored += counts[j];
    }
    return (double)(t1 - t0) * 1e-3;
}

static bool same(const bw_candidate *a, const bw_candidate *b, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (memcmp(&a[i].key, &b[i].key, sizeof a->key) != 0 || a[i].row != b[i].row)
            return false;
    return true;
}

static void measure(bench *b, size_t nq, size_t rounds, size_t k)
{
    bw_candidate *want = bw_calloc(k, sizeof *want);
    bw_candidate *got = bw_calloc(k * BW_CODES_QUERIES_MAX, sizeof *got);
    double flat[ROUNDS_MAX] = {0}, codes[ROUNDS_MAX] = {0}, eight[ROUNDS_MAX] = {0};
    uint64_t rescored = 0, other = 0;
    size_t differ = 0;
    for (size_t r = 0; r < rounds; r++) {
        const float *q[BW_CODES_QUERIES_MAX];
        for (size_t i = 0; i < nq; i++) {
            q[0] = b->queries.values + i * b->rows.dim;
            flat[r] += run_flat(b, q[0], k, want) / (double)nq;
            codes[r] += run_codes(b, q, 1, k, got, &rescored) / (double)nq;
            differ += !same(want, got, k);
        }
        for (size_t i = 0; i + 8 <= nq; i += 8) {
            for (size_t j = 0; j < 8; j++)
                q[j] = b->queries.values + (i + j) * b->rows.dim;
            eight[r] += run_codes(b, q, 8, k, got, &other) / (double)(nq / 8 * 8);
        }
    }
    const double f = median(flat, rounds), c = median(codes, rounds);
    const size_t n = bw_bitmap_count(&b->allowed), dim = b->rows.dim;
    printf("{\"isa\": \"%s\", \"n\": %zu, \"allowed\": %zu, \"dim\": %zu, \"k\": %zu, "
           "\"f32_us\": %.1f, \"codes_us\": %.1f, \"codes8_us\": %.1f, \"ratio\": %.2f, "
           "\"f32_gbs\": %.2f, \"codes_gbs\": %.2f, \"rescored\": %.1f, \"differ\": %zu}\n",
           bw_kernels_get()->isa, b->rows.n, n, dim, k, f, c, median(eight, rounds), f / c,
           (double)(n * dim * 4) / f * 1e-3,
           (double)(n * (b->codes->stride + 12)) / c * 1e-3,
           (double)rescored / (double)(nq * rounds), differ);
    fflush(stdout);
    bw_free(want);
    bw_free(got);
}

int main(int argc, char **argv)
{
    npy real;
    bench b = {.ctx = bw_ctx_new(0)};
    if (argc < 3 || npy_read(argv[1], 0, &real) != 0 ||
        npy_read(argv[2], 0, &b.queries) != 0 || real.dim > 4096)
        return 1;
    const size_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : real.n;
    size_t nq = argc > 4 ? strtoull(argv[4], NULL, 10) : 100;
    size_t rounds = argc > 5 ? strtoull(argv[5], NULL, 10) : 5;
    const size_t percent = argc > 6 ? strtoull(argv[6], NULL, 10) : 100;
    nq = nq < b.queries.n ? nq : b.queries.n;
    rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    float *rows = bw_alloc_vectors(n * real.dim * sizeof *rows);
    b.ids = bw_calloc(n, sizeof *b.ids);
    b.codes = bw_codes_new(BW_METRIC_DOT, (uint32_t)real.dim, (uint32_t)n);
    if (!rows || !b.ids || !b.codes || !bw_bitmap_heap(n, &b.allowed))
        return 1;
    grow(&real, n, rows);
    rnd r = {11};
    for (size_t i = 0; i < n; i++) {
        b.ids[i].lo = i;
        if (rnd_below(&r, 100) < percent)
            bw_bitmap_set(&b.allowed, i);
    }
    b.rows = (bw_rows){
        .dtype = BW_DTYPE_F32, .dim = (uint32_t)real.dim, .n = n, .data = rows};
    const uint64_t t0 = now_ns();
    for (size_t i = 0; i < n; i++)
        bw_codes_put(b.codes, (uint32_t)i, rows + i * real.dim);
    printf("{\"coding_us_per_row\": %.2f, \"bytes_per_row\": %.1f}\n",
           (double)(now_ns() - t0) * 1e-3 / (double)n,
           (double)bw_codes_bytes(b.codes) / (double)n);
    static const size_t ks[] = {10, 100, KMAX};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        measure(&b, nq, rounds, ks[i] < n ? ks[i] : n);
    bw_bitmap_free(&b.allowed);
    bw_codes_free(b.codes);
    bw_free(b.ids);
    bw_free_vectors(rows);
    bw_free_vectors(real.values);
    bw_free_vectors(b.queries.values);
    bw_ctx_free(b.ctx);
    return 0;
}
