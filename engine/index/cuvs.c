/* The kind "cuvs-cagra": CAGRA graphs on a GPU by NVIDIA's cuVS (cuvs.h).
 *
 * Ootomo et al. 2023, "CAGRA: Highly parallel graph construction and approximate nearest
 * neighbor search for GPUs" (arXiv 2308.15136), as cuVS 26.08 and later has it. One index
 * a segment. A collection must ask for it by name.
 *
 * cuVS proposes, we score: places of its answers may hold row numbers that the filter
 * excludes, the same row twice, numbers that mean nothing, or what was there before; its
 * scores depend on the batch. So a place counts only if its row is below n and allowed by
 * the host's own bitmap, once; and the row's key comes from the stored row by our kernels.
 *
 * Slower, never wrong: below a fifth of the rows allowed (CAGRA's recall falls to pieces
 * there), for k beyond what a block of threads holds, when too few rows come back even
 * with a wider search, and when the device fails, all allowed rows are scanned, exactly.
 * Where cuVS cannot be used, a build is BW_EUNAVAILABLE and the segment stays without an
 * index, which is a scan too.
 *
 * Threads: immutable after build; search may be called by any number of threads. Leaves
 * out: saving (cuVS's format is not stable between releases, is read through a path
 * alone, and its reader was hardened as late as 26.06: it is rebuilt instead), deriving,
 * metrics other than cosine, more than one device. */
#include "cuvs_device.h"

#include <math.h>

enum {
    ROWS_MIN = 4096,      /* fewer are always scanned */
    DEGREE_DEFAULT = 32,
    DEGREE_MAX = 256,
    DIM_MAX = 65536,
    ITOPK_DEFAULT = 128,
    SPARE = 16,           /* rescored beyond k, and k/2 at least */
    ALLOWED_SHARE = 5,    /* one in so many must be allowed */
    SCAN_BATCH = 256
};

typedef struct cuvs_index {
    bw_index base;
    bw_metric metric;
    uint32_t dim;
    size_t n;
    bw_cuvs_graph *graph; /* NULL: few rows, always scanned */
} cuvs_index;

static void cuvs_free(bw_index *ix)
{
    cuvs_index *c = (cuvs_index *)ix;
    if (!c)
        return;
    bw_cuvs__release(c->graph);
    bw_free(c);
}

/* ---- building ---- */

static bw_status refused(bw_ctx *ctx, const char *why)
{
    bw_cuvs__count(&bw_cuvs__counts.refused, 1);
    return bw_fail(ctx, BW_EUNAVAILABLE, "cuVS is not used: %s", why);
}

/* What went wrong on the device, as a status: our words, cuVS's to the log. */
static bw_status build_failed(bw_ctx *ctx, const bw_cuvs_answer *a)
{
    if (a->what[0])
        bw_log(BW_LOG_WARN, "cuvs: an index was not built: %s", a->what);
    if (a->how == BW_CUVS_FULL)
        return refused(ctx, "too little GPU memory is free");
    if (a->how == BW_CUVS_LOST)
        return refused(ctx, bw_cuvs_reason_text(BW_CUVS_RUNTIME_FAILED));
    return refused(ctx, "it failed to build");
}

static bool is_unit(const float *row, size_t dim)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += (double)row[i] * (double)row[i];
    return s > 0.81 && s < 1.21; /* int8 rows are a little off */
}

/* Decodes and uploads; *odd counts the rows that are not of length one. */
static bw_status rows_put(bw_ctx *ctx, const bw_index_params *p, const bw_rows *rows,
                          bw_cuvs_graph *g, size_t *odd, bw_cuvs_answer *a)
{
    const size_t dim = p->dim, stride = bw_cuvs__stride(p->dim);
    size_t batch = BW_CUVS_PUT_BYTES / (stride * sizeof(float));
    batch = batch > SCAN_BATCH ? SCAN_BATCH : batch > 0 ? batch : 1;
    float *plain = bw_alloc_vectors(batch * dim * sizeof(float));
    float *padded = bw_alloc_vectors(batch * stride * sizeof(float));
    uint32_t which[SCAN_BATCH];
    bw_status st = plain && padded ? BW_OK : bw_fail_nomem(ctx);
    a->how = BW_CUVS_DONE;
    for (size_t r = 0; r < rows->n && st == BW_OK && a->how == BW_CUVS_DONE; r += batch) {
        const size_t n = rows->n - r < batch ? rows->n - r : batch;
        for (size_t i = 0; i < n; i++)
            which[i] = (uint32_t)(r + i);
        st = bw_rows_get(ctx, rows, which, n, plain);
        if (st != BW_OK)
            break;
        for (size_t i = 0; i < n; i++) {
            memcpy(padded + i * stride, plain + i * dim, dim * sizeof(float));
            *odd += !is_unit(plain + i * dim, dim);
        }
        st = bw_cuvs__put(ctx, g, r, n, padded, p->stop, a);
    }
    bw_free_vectors(plain);
    bw_free_vectors(padded);
    return st;
}

static bw_status graph_make(bw_ctx *ctx, const bw_index_params *p, const bw_rows *rows,
                            bw_cuvs_graph **out)
{
    const uint32_t degree = p->M ? p->M : DEGREE_DEFAULT;
    char text[BW_CUVS_TEXT_MAX];
    const bw_cuvs_reason reason = bw_cuvs__ready(text);
    if (reason != BW_CUVS_READY)
        return refused(ctx, bw_cuvs_reason_text(reason));
    bw_cuvs_answer a = {BW_CUVS_DONE, ""};
    bw_cuvs_graph *g = NULL;
    size_t odd = 0;
    bw_status st = bw_cuvs__open(ctx, rows->n, p->dim, p->stop, &g, &a);
    if (st == BW_OK && a.how == BW_CUVS_DONE)
        st = rows_put(ctx, p, rows, g, &odd, &a);
    if (st == BW_OK && a.how == BW_CUVS_DONE && odd > rows->n / 100)
        st = refused(ctx, "too many rows are without direction");
    if (st == BW_OK && a.how == BW_CUVS_DONE)
        st = bw_cuvs__build(ctx, g, degree, p->stop, &a);
    if (st == BW_OK && a.how != BW_CUVS_DONE)
        st = build_failed(ctx, &a);
    if (st == BW_OK)
        *out = g;
    else
        bw_cuvs__release(g);
    return st;
}

static bw_status cuvs_build(bw_ctx *ctx, const bw_index_params *params,
                            const bw_rows *rows, bw_index **out)
{
    if (params->metric != BW_METRIC_COSINE)
        return bw_fail(ctx, BW_EINVALID, "cuvs-cagra is for the cosine metric alone");
    if (params->dim == 0 || params->dim > DIM_MAX || params->M > DEGREE_MAX ||
        params->M == 1)
        return bw_fail(ctx, BW_EINVALID, "cuvs-cagra parameters are out of range");
    if (rows->n > INT32_MAX)
        return bw_fail(ctx, BW_EINVALID,
                       "a segment of %zu rows is too large for an index", rows->n);
    cuvs_index *c = bw_calloc(1, sizeof *c);
    if (!c)
        return bw_fail_nomem(ctx);
    c->base.ops = &bw_index__cuvs;
    c->metric = params->metric;
    c->dim = params->dim;
    c->n = rows->n;
    bw_status st = BW_OK;
    if (rows->n >= ROWS_MIN)
        st = graph_make(ctx, params, rows, &c->graph);
    if (st != BW_OK) {
        bw_free(c);
        return st;
    }
    bw_cuvs__count(&bw_cuvs__counts.builds, 1);
    *out = &c->base;
    return BW_OK;
}

/* ---- searching ---- */

/* Keys of the rows and into the heap; `which` rises. */
static bw_status rows_push(bw_ctx *ctx, const cuvs_index *c, const bw_index_search *s,
                           const uint32_t *which, size_t n, bw_topk *out)
{
    float keys[SCAN_BATCH];
    for (size_t at = 0; at < n; at += SCAN_BATCH) {
        const size_t m = n - at < SCAN_BATCH ? n - at : SCAN_BATCH;
        const bw_status st =
            bw_rows_keys(ctx, s->rows, c->metric, s->query, which + at, m, keys);
        if (st != BW_OK)
            return st;
        for (size_t i = 0; i < m; i++) {
            const uint32_t row = which[at + i];
            bw_require(bw_bitmap_get(s->allowed, row));
            if (!bw_topk_wants(out, keys[i]))
                continue;
            const bw_candidate hit = {keys[i], s->part, s->row0 + row, s->ids[row]};
            bw_topk_push(out, &hit);
        }
    }
    if (s->rescored)
        *s->rescored += n;
    return BW_OK;
}

static bw_status scan(bw_ctx *ctx, const cuvs_index *c, const bw_index_search *s,
                      bw_topk *out)
{
    uint32_t which[SCAN_BATCH];
    bw_status st = BW_OK;
    for (size_t row = bw_bitmap_next(s->allowed, 0); st == BW_OK && row < c->n;) {
        size_t n = 0;
        for (; n < SCAN_BATCH && row < c->n; row = bw_bitmap_next(s->allowed, row + 1))
            which[n++] = (uint32_t)row;
        st = rows_push(ctx, c, s, which, n, out);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
    }
    return st;
}

static bool has_direction(const float *query, size_t dim)
{
    for (size_t i = 0; i < dim; i++)
        if (query[i] != 0)
            return true;
    return false;
}

static void sort_rising(uint32_t *rows, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2) /* Shell's: no recursion, n <= 1,024 */
        for (size_t i = gap; i < n; i++) {
            const uint32_t row = rows[i];
            size_t j = i;
            for (; j >= gap && rows[j - gap] > row; j -= gap)
                rows[j] = rows[j - gap];
            rows[j] = row;
        }
}

/* The one gate through which a row number from the device comes in: rising, each once. */
static size_t hits_sift(const cuvs_index *c, const bw_index_search *s, bw_cuvs_hits *h)
{
    size_t n = 0, kept = 0, refused_rows = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (h->rows[i] >= c->n) /* says "nothing" in one of several ways */
            continue;
        if (!bw_bitmap_get(s->allowed, h->rows[i])) {
            refused_rows++;
            continue;
        }
        if (isfinite(h->scores[i])) /* else not written, or a mark */
            h->rows[n++] = h->rows[i];
    }
    sort_rising(h->rows, n);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && h->rows[kept - 1] == h->rows[i])
            refused_rows++;
        else
            h->rows[kept++] = h->rows[i];
    }
    if (refused_rows > 0)
        bw_cuvs__count(&bw_cuvs__counts.dropped, refused_rows);
    return kept;
}

static uint32_t round_32(size_t n)
{
    return (uint32_t)((n + 31) / 32 * 32);
}

/* *scanned: the caller scans, and which counter says so. */
static bw_status walk(bw_ctx *ctx, const cuvs_index *c, const bw_index_search *s,
                      size_t allowed, bw_topk *out, atomic_uint_fast64_t **scanned)
{
    const size_t want = s->k < allowed ? s->k : allowed;
    const size_t spare = s->k / 2 > SPARE ? s->k / 2 : SPARE;
    const size_t wanted = s->k + spare < c->n ? s->k + spare : c->n;
    size_t itopk = s->effort ? s->effort : ITOPK_DEFAULT;
    itopk = itopk < wanted ? wanted : itopk;
    itopk = itopk > BW_CUVS_ITOPK_MAX ? BW_CUVS_ITOPK_MAX : round_32(itopk);
    bw_cuvs_hits *hits = bw_arena_alloc(ctx, sizeof *hits);
    if (!hits)
        return BW_ENOMEM;
    for (bool first = true;; first = false) {
        bw_cuvs_answer a = {BW_CUVS_DONE, ""};
        const bw_status st =
            bw_cuvs__search(ctx, c->graph, s->query, allowed == c->n ? NULL : s->allowed,
                            (uint32_t)itopk, (uint32_t)wanted, hits, &a);
        if (st != BW_OK)
            return st;
        if (a.how != BW_CUVS_DONE) {
            *scanned = &bw_cuvs__counts.scans_failed;
            if (a.what[0] && a.how != BW_CUVS_LOST &&
                atomic_load_explicit(*scanned, memory_order_relaxed) == 0)
                bw_log(BW_LOG_WARN, "cuvs: a search failed and is a scan, as later ones are "
                                    "without a word: %s", a.what);
            return BW_OK;
        }
        const size_t n = hits_sift(c, s, hits);
        if (s->hops)
            *s->hops += itopk;
        if (n >= want)
            return rows_push(ctx, c, s, hits->rows, n, out);
        if (itopk == BW_CUVS_ITOPK_MAX) {
            *scanned = &bw_cuvs__counts.scans_short;
            return BW_OK;
        }
        bw_cuvs__count(&bw_cuvs__counts.widened, first);
        itopk = itopk * 4 < BW_CUVS_ITOPK_MAX ? itopk * 4 : BW_CUVS_ITOPK_MAX;
    }
}

static bw_status cuvs_search(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                             bw_topk *out)
{
    const cuvs_index *c = (const cuvs_index *)ix;
    assert(s->rows->dim == c->dim && s->rows->n >= c->n && s->allowed->nbits == c->n);
    const size_t allowed = bw_bitmap_count(s->allowed);
    if (allowed == 0 || s->k == 0)
        return BW_OK;
    atomic_uint_fast64_t *scanned = &bw_cuvs__counts.scans_filter;
    const size_t spare = s->k / 2 > SPARE ? s->k / 2 : SPARE;
    if (c->graph && allowed >= (c->n + ALLOWED_SHARE - 1) / ALLOWED_SHARE &&
        s->k <= BW_CUVS_ITOPK_MAX && s->k + spare <= BW_CUVS_ITOPK_MAX &&
        has_direction(s->query, c->dim)) {
        const bw_arena_mark mark = bw_arena_mark_get(ctx);
        scanned = NULL;
        const bw_status st = walk(ctx, c, s, allowed, out, &scanned);
        bw_arena_release(ctx, mark);
        if (st != BW_OK || !scanned)
            return st;
    }
    bw_cuvs__count(scanned, 1);
    return scan(ctx, c, s, out);
}

static size_t cuvs_bytes(const bw_index *ix)
{
    (void)ix;
    return sizeof(cuvs_index); /* of the host; the device's are in bw_cuvs_stats */
}

const bw_index_ops bw_index__cuvs = {
    .name = "cuvs-cagra",
    .exact = false,
    .filtered = true,
    .metrics = {[BW_METRIC_COSINE] = true},
    .dim_max = DIM_MAX,
    .M_max = DEGREE_MAX,
    .build = cuvs_build,
    .search = cuvs_search,
    .bytes = cuvs_bytes,
    .free = cuvs_free,
};
