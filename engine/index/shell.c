/* One FAISS index (HNSW or IVF) over one shell of rows: FAISS's C API, and bw_faiss.h
 * for what that lacks. faiss.c cuts the rows into shells and goes through them.
 *
 * FAISS only proposes rows. Each is scored again from the stored row with our kernels,
 * so a hit's key has the same bits whichever index found it. With a filter the effort
 * grows with what is forbidden; where a scan of the allowed rows costs no more, it is
 * done instead, and is exact. When fewer than min(k, allowed) rows come back, the
 * effort is widened and at last everything allowed is scanned.
 *
 * FAISS's messages name source paths: they go to the log, never into a ctx. */
#include "shell.h"
#include "bw_faiss.h"

#include <faiss/c_api/AutoTune_c.h>
#include <faiss/c_api/error_c.h>
#include <faiss/c_api/Index_c.h>
#include <faiss/c_api/index_factory_c.h>
#include <faiss/c_api/index_io_c.h>
#include <math.h>

extern void omp_set_num_threads(int n); /* libgomp; Clang brings no omp.h */

enum {
    EF_DEFAULT = 64,    /* recall@10 0.98 and more on 20,000 × 384 */
    EF_MAX = 8192,      /* FAISS's candidate heap is searched linearly */
    SPARE = 16,         /* rescored beyond k: FAISS's rounding and ours may differ */
    PERMITTED_MIN = 16, /* permitted rows wanted among the nearest that are visited */
    SCAN_ROWS_PER_EF = 64,   /* scanning that many rows costs about one step of ef */
    SHELL_ROWS_MIN = 2048,   /* fewer rows are scanned */
    POINTS_PER_LIST_MIN = 39 /* fewer, and k-means warns on stderr */
};
/* Squares of lengths beyond these leave the range of floats: such shells are scanned.
 */
static const double LENGTH_MAX = 1e18, LENGTH_MIN = 1e-18;

/* FAISS's thread count is the calling thread's own setting, and any thread may come. */
static void threads_one(void)
{
    static _Thread_local bool done;
    if (!done) {
        omp_set_num_threads(1);
        done = true;
    }
}

static bw_status faiss_failed(bw_ctx *ctx, bw_status status, const char *what, int rc,
                              const char *words)
{
    bw_log(BW_LOG_WARN, "faiss: %s: rc %d: %s", what, rc, words ? words : "");
    if (rc == BW_FAISS_NOMEM)
        return bw_fail_nomem(ctx);
    return bw_fail(ctx, status, "FAISS failed to %s", what);
}

static bool metric_is_l2(bw_metric metric)
{
    return metric == BW_METRIC_EUCLID;
}

double bw_shell__length(const float *v, size_t dim)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += (double)v[i] * (double)v[i];
    return sqrt(s);
}

const char *bw_shell__faiss_version(void)
{
    return bw_faiss_version();
}

static size_t shell_row(const bw_shell *shell, size_t i)
{
    return shell->rows ? shell->rows[i] : i;
}

/* ---- building ---- */

static size_t nlist_choose(const bw_shell_kind *kind, size_t n)
{
    size_t nlist =
        kind->params.nlist
            ? (size_t)((double)kind->params.nlist * (double)n / (double)kind->n)
            : (size_t)(4 * sqrt((double)n));
    if (nlist > n / POINTS_PER_LIST_MIN)
        nlist = n / POINTS_PER_LIST_MIN;
    return nlist ? nlist : 1;
}

static int set_parameter(FaissIndex *ix, const char *name, double value)
{
    FaissParameterSpace *space = NULL;
    int rc = faiss_ParameterSpace_new(&space);
    if (rc == 0)
        rc = faiss_ParameterSpace_set_index_parameter(space, ix, name, value);
    faiss_ParameterSpace_free(space);
    return rc;
}

static bw_faiss_kernel *kernel_choose(bw_metric metric)
{
    const bw_kernels *k = bw_kernels_get();
    return metric_is_l2(metric) ? k->l2sq_f32 : k->dot_f32;
}

/* rows: the shell's own, one after the other. */
static bw_status shell_fill(bw_ctx *ctx, const bw_shell_kind *kind, const float *rows,
                            bw_shell *shell)
{
    const bw_index_params *p = &kind->params;
    char description[32];
    if (kind->hnsw)
        snprintf(description, sizeof description, "HNSW%u", p->M);
    else
        snprintf(description, sizeof description, "IVF%zu,Flat", shell->nlist);
    int rc =
        faiss_index_factory(&shell->ix, (int)p->dim, description,
                            metric_is_l2(p->metric) ? METRIC_L2 : METRIC_INNER_PRODUCT);
    if (rc != 0) {
        shell->ix = NULL;
        return faiss_failed(ctx, BW_EINTERNAL, "make an index", rc,
                            faiss_get_last_error());
    }
    rc = bw_faiss_seed(shell->ix, p->seed);
    if (rc == 0)
        rc = bw_faiss_set_kernel(shell->ix, kernel_choose(p->metric));
    if (rc == 0 && kind->hnsw)
        rc = set_parameter(shell->ix, "efConstruction", p->ef_construction);
    if (rc == 0 && !faiss_Index_is_trained(shell->ix))
        rc = faiss_Index_train(shell->ix, (idx_t)shell->n, rows);
    if (rc == 0)
        rc = faiss_Index_add(shell->ix, (idx_t)shell->n, rows);
    if (rc != 0)
        return faiss_failed(ctx, BW_EINTERNAL, "build an index", rc,
                            faiss_get_last_error());
    return BW_OK;
}

bw_status bw_shell__build(bw_ctx *ctx, const bw_shell_kind *kind, const float *rows,
                          bw_shell *shell)
{
    const size_t dim = kind->params.dim;
    if (shell->n < SHELL_ROWS_MIN || shell->hi > LENGTH_MAX || shell->hi < LENGTH_MIN)
        return BW_OK; /* scanned */
    threads_one();
    shell->nlist = kind->hnsw ? 0 : nlist_choose(kind, shell->n);
    if (!shell->rows)
        return shell_fill(ctx, kind, rows, shell);
    size_t bytes;
    float *own = NULL;
    if (!__builtin_mul_overflow(shell->n, dim * sizeof *rows, &bytes))
        own = bw_alloc_vectors(bytes);
    if (!own)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < shell->n; i++)
        memcpy(own + i * dim, rows + (size_t)shell->rows[i] * dim, dim * sizeof *rows);
    const bw_status status = shell_fill(ctx, kind, own, shell);
    bw_free_vectors(own);
    return status;
}

void bw_shell__clear(bw_shell *shell)
{
    if (shell->ix)
        faiss_Index_free(shell->ix);
    bw_free(shell->rows);
    memset(shell, 0, sizeof *shell);
}

/* ---- searching ---- */

double bw_shell__bound(const bw_shell_kind *kind, const bw_shell *shell,
                       double query_length)
{
    /* Cauchy and Schwarz for products, the triangle inequality for distances. Rounding
     * of the keys stays far below the slack. */
    const double slack = 1e-4;
    switch (kind->params.metric) {
    case BW_METRIC_EUCLID: {
        const double gap = fmax(query_length - shell->hi, shell->lo - query_length);
        return gap > 0 ? -gap + slack * (query_length + shell->hi) : 0;
    }
    case BW_METRIC_COSINE:
    case BW_METRIC_DOT:
    case BW_METRIC_MANHATTAN:
    default:
        return query_length * shell->hi * (1 + slack);
    }
}

static void row_push(const bw_shell_kind *kind, const bw_index_search *s, size_t row,
                     bw_topk *out)
{
    const size_t dim = kind->params.dim;
    const float key = bw_metric_key(bw_kernels_get(), kind->params.metric, s->query,
                                    bw_index__f32(s->rows) + row * dim, dim);
    if (!bw_topk_wants(out, key))
        return;
    const bw_candidate c = {key, s->part, s->row0 + (uint32_t)row, s->ids[row]};
    bw_topk_push(out, &c);
}

static bw_status shell_scan(bw_ctx *ctx, const bw_shell_kind *kind,
                            const bw_shell *shell, const bw_index_search *s,
                            bw_topk *out)
{
    if (!shell->rows)
        return bw_index__scan(ctx, kind->params.metric, shell->n, kind->params.dim, s,
                              out);
    for (size_t i = 0; i < shell->n; i++)
        if (bw_bitmap_get(s->allowed, shell->rows[i]))
            row_push(kind, s, shell->rows[i], out);
    return BW_OK;
}

static size_t shell_allowed(const bw_shell *shell, const bw_index_search *s, bool all)
{
    if (all)
        return shell->n;
    if (!shell->rows)
        return bw_bitmap_count(s->allowed);
    size_t n = 0;
    for (size_t i = 0; i < shell->n; i++)
        n += bw_bitmap_get(s->allowed, shell->rows[i]);
    return n;
}

typedef struct attempt {
    size_t effort, effort_max; /* efSearch or nprobe; 0 = scan */
} attempt;

/* HNSW walks the whole graph and keeps permitted rows alone, so ef grows until some
 * PERMITTED_MIN permitted rows lie among the ef nearest (measured: recall@10 of 0.98
 * needs ef · fraction >= 10); an IVF meets permitted rows in farther lists. */
static attempt attempt_plan(const bw_shell_kind *kind, const bw_shell *shell,
                            const bw_index_search *s, size_t allowed)
{
    const double forbid = (double)shell->n / (double)allowed; /* >= 1 */
    attempt a = {0, kind->hnsw ? EF_MAX : shell->nlist};
    if (kind->hnsw) {
        size_t ef = s->effort ? s->effort : EF_DEFAULT;
        ef = ef < s->k + SPARE ? s->k + SPARE : ef;
        const double wanted = fmax((double)ef, forbid > 1 ? (double)PERMITTED_MIN * forbid : 0);
        if (wanted <= (double)EF_MAX &&
            (double)allowed > wanted * (double)SCAN_ROWS_PER_EF)
            a.effort = (size_t)wanted;
        return a;
    }
    const double base =
        s->effort ? (double)s->effort : fmax(8, 4 * sqrt((double)shell->nlist));
    const double wanted = base * forbid;
    if (wanted < (double)shell->nlist / 2 && allowed > SHELL_ROWS_MIN)
        a.effort = (size_t)wanted;
    return a;
}

/* k rows at most into rows (arena of ctx); *found of them. */
static bw_status rows_find(bw_ctx *ctx, const bw_shell *shell, const bw_index_search *s,
                           bool all, size_t effort, size_t k, int64_t **rows,
                           size_t *found)
{
    float *distances = bw_arena_alloc(ctx, k * sizeof *distances);
    *rows = bw_arena_alloc(ctx, k * sizeof **rows);
    if (!distances || !*rows)
        return BW_ENOMEM;
    const bw_faiss_permit permit = {s->allowed->words, s->allowed->nbits, shell->rows,
                                    shell->rows ? shell->n : 0};
    char words[200] = "";
    const int rc =
        bw_faiss_search(shell->ix, s->query, (int64_t)k, (int)effort,
                        all ? NULL : &permit, distances, *rows, words, sizeof words);
    if (rc != 0)
        return faiss_failed(ctx, BW_EINTERNAL, "search an index", rc, words);
    *found = 0;
    while (*found < k && (*rows)[*found] >= 0)
        ++*found; /* FAISS pads at the end, with −1 */
    return BW_OK;
}

static void rows_rescore(const bw_shell_kind *kind, const bw_shell *shell,
                         const bw_index_search *s, const int64_t *found, size_t n,
                         bw_topk *out)
{
    for (size_t i = 0; i < n; i++) {
        bw_require(found[i] >= 0 && (size_t)found[i] < shell->n);
        const size_t row = shell_row(shell, (size_t)found[i]);
        bw_require(bw_bitmap_get(s->allowed, row));
        row_push(kind, s, row, out);
    }
}

bw_status bw_shell__search(bw_ctx *ctx, const bw_shell_kind *kind,
                           const bw_shell *shell, const bw_index_search *s, bool all,
                           bw_topk *out)
{
    const size_t allowed = shell_allowed(shell, s, all);
    if (allowed == 0)
        return BW_OK;
    attempt a = {0, 0};
    if (shell->ix)
        a = attempt_plan(kind, shell, s, allowed);
    const size_t want = s->k < allowed ? s->k : allowed;
    threads_one();
    while (a.effort > 0) {
        /* HNSW: k = effort, or 1.7.3's heap of candidates would stay small
         * (bw_faiss.h). */
        size_t k = kind->hnsw ? a.effort : s->k + SPARE;
        k = k < shell->n ? k : shell->n;
        int64_t *rows = NULL;
        size_t found = 0;
        const bw_status status =
            rows_find(ctx, shell, s, all, a.effort, k, &rows, &found);
        if (status != BW_OK)
            return status;
        if (found >= want) {
            rows_rescore(kind, shell, s, rows,
                         found < s->k + SPARE ? found : s->k + SPARE, out);
            return BW_OK;
        }
        a.effort = a.effort * 4 <= a.effort_max ? a.effort * 4 : 0;
    }
    return shell_scan(ctx, kind, shell, s, out);
}

/* ---- saving ---- */

bw_status bw_shell__write(bw_ctx *ctx, const bw_shell *shell, FILE *file)
{
    const int rc = faiss_write_index(shell->ix, file);
    if (rc != 0)
        return faiss_failed(ctx, BW_EINTERNAL, "save an index", rc,
                            faiss_get_last_error());
    return BW_OK;
}

bw_status bw_shell__read(bw_ctx *ctx, const bw_shell_kind *kind, bw_shell *shell,
                         const void *bytes, size_t n)
{
    threads_one();
    /* fmemopen wants a mutable buffer; with "rb" it does not write to it. */
    FILE *file = fmemopen((void *)(uintptr_t)bytes, n, "rb");
    if (!file)
        return bw_fail_nomem(ctx);
    const int rc = faiss_read_index(file, 0, &shell->ix);
    fclose(file); /* read-only: nothing to lose */
    if (rc != 0) {
        shell->ix = NULL;
        return faiss_failed(ctx, BW_ECORRUPT, "read an index", rc,
                            faiss_get_last_error());
    }
    if (!bw_faiss_fits(shell->ix, kind->hnsw, metric_is_l2(kind->params.metric),
                       (int64_t)kind->params.dim, (int64_t)shell->n))
        return bw_fail(ctx, BW_ECORRUPT, "saved index does not fit its header");
    if (bw_faiss_set_kernel(shell->ix, kernel_choose(kind->params.metric)) != 0)
        return bw_fail_nomem(ctx);
    shell->nlist = (size_t)bw_faiss_nlist(shell->ix);
    return BW_OK;
}

size_t bw_shell__bytes(const bw_shell_kind *kind, const bw_shell *shell)
{
    const size_t row = kind->params.dim * sizeof(float);
    size_t bytes = shell->rows ? shell->n * sizeof *shell->rows : 0;
    if (!shell->ix)
        return bytes;
    if (kind->hnsw) /* 2·M links on the ground level, about M/(M−1) · M above; level,
                       offset */
        return bytes + shell->n * (row + (2 * (size_t)kind->params.M + 2) * 4 + 12);
    return bytes + shell->n * (row + 8) + shell->nlist * row;
}
