/* The kinds faiss-hnsw and faiss-ivf: rows cut into shells of like length, each with a
 * FAISS index of its own (shell.c).
 *
 * Why shells: a graph over rows of differing lengths is poor. On 20,000 × 384
 * embeddings with log-normal lengths (sigma 0.5), recall@10 at ef 64 was 0.86 for L2;
 * 0.97 for inner product, but 0.13 when a filter left the shorter half (no link leads
 * there); 0.28 with the reduction of inner product to L2 by one more dimension
 * (Bachrach et al. 2014), because nearly all rows then crowd at one pole. Cut by length
 * as in Yan et al. 2018 ("Norm-ranging LSH for maximum inner product search", section
 * 3), with neighbouring lengths at most SHELL_RATIO apart, all of these are 0.95 or
 * more, and a bound by length skips most shells: |q|·|x| for products, ||q|−|x|| for
 * distances. Rows of one length (cosine, and most embedding models) make one shell,
 * which costs nothing.
 *
 * Saved form (the caller adds a MAC and checks it before load; FAISS trusts its input):
 *   0   8   "BWFAISS1"
 *   8   16  FAISS's version, padded with zeros
 *   24  4   kind: 0 HNSW, 1 IVF      28  4  metric (bw_metric)
 *   32  4   dim                      36  4  M (HNSW) or nlist as asked (IVF)
 *   40  4   ef_construction or 0     44  4  number of shells
 *   48  8   seed                     56  8  rows n
 *   then, when there is more than one shell, n bytes: each row's shell;
 *   then for each shell 32 bytes: rows, shortest, longest (doubles), bytes of its
 *   stream (0: scanned); then FAISS's streams in that order, and nothing after them.
 * Little-endian, as memory is on the machines that this builds for.
 *
 * Threads: an index is immutable after build; search is thread-safe. FAISS keeps global
 * search statistics without locks; nothing reads them. Leaves out: quantised kinds,
 * adding to or removing from a built index (the segment is rebuilt). */
#include "../base/ln.h"
#include "shell.h"

#include <math.h>

#define SHELL_RATIO 1.5

enum {
    M_DEFAULT = 16,
    M_MAX = 512, /* FAISS keeps 2·M links of 4 bytes a row */
    EF_CONSTRUCTION_DEFAULT = 100,
    EF_CONSTRUCTION_MAX = 4096,
    NLIST_MAX = 65536,
    DIM_MAX = 65536,
    SHELLS_MAX = 64 /* the last holds all that is shorter than 1.5^-63 of the longest */
};

typedef struct faiss_header {
    char magic[8], faiss[16];
    uint32_t kind, metric, dim, links_or_lists, ef_construction, nshells;
    uint64_t seed, n;
} faiss_header;
static_assert(sizeof(faiss_header) == 64, "stored size");

typedef struct shell_header {
    uint64_t n;
    double lo, hi;
    uint64_t stream_bytes;
} shell_header;
static_assert(sizeof(shell_header) == 32, "stored size");

typedef struct faiss_index {
    bw_index base;
    bw_shell_kind kind;
    size_t nshells;
    bw_shell shells[SHELLS_MAX];
} faiss_index;

static bw_status params_fill(bw_ctx *ctx, bool hnsw, const bw_index_params *in,
                             size_t n, bw_index_params *p)
{
    *p = *in;
    if (p->metric == BW_METRIC_MANHATTAN)
        return bw_fail(ctx, BW_EINVALID, "Manhattan distance has no approximate index");
    if (p->dim == 0 || p->dim > DIM_MAX)
        return bw_fail(ctx, BW_EINVALID, "index dimension %u is out of range", p->dim);
    if (n > INT32_MAX)
        return bw_fail(ctx, BW_EINVALID,
                       "a segment of %zu rows is too large for an index", n);
    if (hnsw) {
        p->M = p->M ? p->M : M_DEFAULT;
        p->ef_construction =
            p->ef_construction ? p->ef_construction : EF_CONSTRUCTION_DEFAULT;
        if (p->M < 2 || p->M > M_MAX || p->ef_construction > EF_CONSTRUCTION_MAX)
            return bw_fail(ctx, BW_EINVALID, "HNSW parameters are out of range");
        p->nlist = 0;
        return BW_OK;
    }
    if (p->nlist > NLIST_MAX)
        return bw_fail(ctx, BW_EINVALID, "IVF parameters are out of range");
    p->M = p->ef_construction = 0;
    return BW_OK;
}

static bw_status faiss_new(bw_ctx *ctx, bool hnsw, const bw_index_params *params,
                           size_t n, faiss_index **out)
{
    bw_index_params filled;
    const bw_status status = params_fill(ctx, hnsw, params, n, &filled);
    if (status != BW_OK)
        return status;
    faiss_index *f = bw_calloc(1, sizeof *f);
    if (!f)
        return bw_fail_nomem(ctx);
    f->base.ops = hnsw ? &bw_index__faiss_hnsw : &bw_index__faiss_ivf;
    f->kind = (bw_shell_kind){hnsw, filled, n};
    *out = f;
    return BW_OK;
}

static void faiss_free(bw_index *ix)
{
    faiss_index *f = (faiss_index *)ix;
    if (!f)
        return;
    for (size_t i = 0; i < f->nshells; i++)
        bw_shell__clear(&f->shells[i]);
    bw_free(f);
}

/* ---- building ---- */

/* numbers[row] = its shell, 0 for the longest rows; returns how many numbers are in use
 * at most. Empty shells are left in; shells_make closes the gaps. */
static size_t rows_number(const bw_shell_kind *kind, const float *rows,
                          uint8_t *numbers, double *lengths)
{
    double longest = 0;
    for (size_t r = 0; r < kind->n; r++) {
        lengths[r] = bw_shell__length(rows + r * kind->params.dim, kind->params.dim);
        longest = fmax(longest, lengths[r]);
    }
    for (size_t r = 0; r < kind->n; r++) {
        const double far =
            lengths[r] > 0 ? (bw_ln(longest) - bw_ln(lengths[r])) / bw_ln(SHELL_RATIO)
                           : (double)SHELLS_MAX;
        numbers[r] = (uint8_t)fmin(far, (double)(SHELLS_MAX - 1));
    }
    return SHELLS_MAX;
}

/* Fills f->shells' row tables from numbers; closes gaps in the numbering. */
static bw_status shells_make(bw_ctx *ctx, faiss_index *f, uint8_t *numbers, size_t used)
{
    size_t count[SHELLS_MAX] = {0};
    uint8_t renumbered[SHELLS_MAX] = {0};
    for (size_t r = 0; r < f->kind.n; r++)
        count[numbers[r]]++;
    for (size_t i = 0; i < used; i++) {
        if (count[i] == 0)
            continue;
        renumbered[i] = (uint8_t)f->nshells;
        f->shells[f->nshells++].n = count[i];
    }
    if (f->nshells <= 1)
        return BW_OK; /* rows NULL: the same numbers */
    size_t filled[SHELLS_MAX] = {0};
    for (size_t i = 0; i < f->nshells; i++) {
        f->shells[i].rows = bw_alloc(f->shells[i].n * sizeof(uint32_t));
        if (!f->shells[i].rows)
            return bw_fail_nomem(ctx);
    }
    for (size_t r = 0; r < f->kind.n; r++) {
        const uint8_t i = renumbered[numbers[r]];
        f->shells[i].rows[filled[i]++] = (uint32_t)r;
    }
    return BW_OK;
}

static bw_status shells_cut(bw_ctx *ctx, faiss_index *f, const float *rows)
{
    const size_t n = f->kind.n;
    uint8_t *numbers = bw_calloc(n, sizeof *numbers);
    double *lengths = bw_calloc(n, sizeof *lengths);
    bw_status status = BW_ENOMEM;
    if (!numbers || !lengths) {
        status = bw_fail_nomem(ctx);
        goto out;
    }
    /* Cosine rows have length 1; the few without a direction (0) are no shell of
     * theirs. */
    size_t used = 1;
    if (f->kind.params.metric != BW_METRIC_COSINE)
        used = rows_number(&f->kind, rows, numbers, lengths);
    status = shells_make(ctx, f, numbers, used);
    for (size_t i = 0; status == BW_OK && i < f->nshells; i++) {
        bw_shell *shell = &f->shells[i];
        shell->lo = f->kind.params.metric == BW_METRIC_COSINE ? 1 : INFINITY;
        shell->hi = f->kind.params.metric == BW_METRIC_COSINE ? 1 : 0;
        for (size_t r = 0; used > 1 && r < shell->n; r++) {
            const double l = lengths[shell->rows ? shell->rows[r] : r];
            shell->lo = fmin(shell->lo, l);
            shell->hi = fmax(shell->hi, l);
        }
    }
out:
    bw_free(numbers);
    bw_free(lengths);
    return status;
}

static bw_status faiss_build(bw_ctx *ctx, bool hnsw, const bw_index_params *params,
                             const bw_rows *view, bw_index **out)
{
    const float *rows = bw_index__f32(view);
    if (!rows && view->n > 0)
        return bw_fail(ctx, BW_EINTERNAL, "the rows of a FAISS index are not in memory");
    faiss_index *f = NULL;
    bw_status status = faiss_new(ctx, hnsw, params, view->n, &f);
    if (status != BW_OK)
        return status;
    if (view->n > 0)
        status = shells_cut(ctx, f, rows);
    for (size_t i = 0; status == BW_OK && i < f->nshells; i++)
        status = bw_shell__build(ctx, &f->kind, rows, &f->shells[i]);
    if (status != BW_OK) {
        faiss_free(&f->base);
        return status;
    }
    *out = &f->base;
    return BW_OK;
}

static bw_status hnsw_build(bw_ctx *ctx, const bw_index_params *params,
                            const bw_rows *rows, bw_index **out)
{
    return faiss_build(ctx, true, params, rows, out);
}
static bw_status ivf_build(bw_ctx *ctx, const bw_index_params *params,
                           const bw_rows *rows, bw_index **out)
{
    return faiss_build(ctx, false, params, rows, out);
}

/* ---- searching ---- */

/* The shells in falling order of their bounds; ties by number. */
static void shells_order(const faiss_index *f, const double *bounds, uint8_t *order)
{
    for (size_t i = 0; i < f->nshells; i++) {
        size_t j = i;
        for (; j > 0 && bounds[order[j - 1]] < bounds[i]; j--)
            order[j] = order[j - 1];
        order[j] = (uint8_t)i;
    }
}

/* Shell by shell while one can still hold a better row. The best are gathered in a heap
 * of this segment's own, so that what is skipped, and with it the answer, depends on
 * nothing but this segment. */
static bw_status shells_search(bw_ctx *ctx, const faiss_index *f,
                               const bw_index_search *s, bool all, double query_length,
                               bw_topk *out)
{
    double bounds[SHELLS_MAX];
    uint8_t order[SHELLS_MAX];
    bw_topk best;
    const size_t k = s->k < f->kind.n ? s->k : f->kind.n;
    bw_candidate *items = bw_arena_calloc(ctx, k, sizeof *items);
    if (!items)
        return BW_ENOMEM;
    bw_topk_init(&best, items, k);
    for (size_t i = 0; i < f->nshells; i++)
        bounds[i] = bw_shell__bound(&f->kind, &f->shells[i], query_length);
    shells_order(f, bounds, order);
    for (size_t i = 0; i < f->nshells; i++) {
        if (best.n == best.k && (double)best.items[0].key > bounds[order[i]])
            break;
        const bw_status status =
            bw_shell__search(ctx, &f->kind, &f->shells[order[i]], s, all, &best);
        if (status != BW_OK)
            return status;
    }
    for (size_t i = 0; i < best.n; i++)
        bw_topk_push(out, &best.items[i]);
    return BW_OK;
}

static bw_status faiss_search(bw_ctx *ctx, const bw_index *ix, const bw_index_search *s,
                              bw_topk *out)
{
    const faiss_index *f = (const faiss_index *)ix;
    const bw_index_params *p = &f->kind.params;
    assert(s->allowed != NULL && s->allowed->nbits <= f->kind.n);
    const size_t allowed = bw_bitmap_count(s->allowed);
    if (allowed == 0 || s->k == 0)
        return BW_OK;
    const double query_length = bw_shell__length(s->query, p->dim);
    /* Without a direction all products are 0 and ids alone decide. */
    if (p->metric != BW_METRIC_EUCLID && !(query_length > 0))
        return bw_index__scan(ctx, p->metric, f->kind.n, p->dim, s, out);
    if (!bw_index__f32(s->rows))
        return bw_index__scan(ctx, p->metric, f->kind.n, p->dim, s, out);
    const bw_arena_mark mark = bw_arena_mark_get(ctx);
    const bw_status status =
        shells_search(ctx, f, s, allowed == f->kind.n, query_length, out);
    bw_arena_release(ctx, mark);
    return status;
}

/* ---- saving ---- */

static void header_make(const faiss_index *f, faiss_header *h)
{
    const bw_index_params *p = &f->kind.params;
    memset(h, 0, sizeof *h);
    memcpy(h->magic, "BWFAISS1", sizeof h->magic);
    snprintf(h->faiss, sizeof h->faiss, "%s", bw_shell__faiss_version());
    h->kind = f->kind.hnsw ? 0 : 1;
    h->metric = (uint32_t)p->metric;
    h->dim = p->dim;
    h->links_or_lists = f->kind.hnsw ? p->M : p->nlist;
    h->ef_construction = p->ef_construction;
    h->nshells = (uint32_t)f->nshells;
    h->seed = p->seed;
    h->n = f->kind.n;
}

static ssize_t buf_write(void *cookie, const char *bytes, size_t n)
{
    bw_buf *b = cookie;
    bw_buf_put(b, bytes, n);
    return b->failed ? 0 : (ssize_t)n;
}

static bw_status stream_write(bw_ctx *ctx, const bw_shell *shell, bw_buf *out)
{
    FILE *file = fopencookie(out, "wb", (cookie_io_functions_t){.write = buf_write});
    if (!file)
        return bw_fail_nomem(ctx);
    bw_status status = bw_shell__write(ctx, shell, file);
    const bool closed = fclose(file) == 0;
    /* Nothing but memory is written to: whatever else FAISS says, that is what ran out.
     */
    return out->failed || (!closed && status == BW_OK) ? bw_fail_nomem(ctx) : status;
}

static void numbers_put(const faiss_index *f, bw_buf *out)
{
    const size_t at = out->len;
    for (size_t r = 0; r < f->kind.n; r++)
        bw_buf_putc(out, 0);
    for (size_t i = 0; i < f->nshells && !out->failed; i++)
        for (size_t r = 0; r < f->shells[i].n; r++)
            out->ptr[at + f->shells[i].rows[r]] = (char)i;
}

static bw_status faiss_save(bw_ctx *ctx, const bw_index *ix, bw_buf *out)
{
    const faiss_index *f = (const faiss_index *)ix;
    faiss_header h;
    header_make(f, &h);
    bw_buf_put(out, &h, sizeof h);
    if (f->nshells > 1)
        numbers_put(f, out);
    const size_t table = out->len;
    for (size_t i = 0; i < f->nshells; i++) {
        const bw_shell *shell = &f->shells[i];
        const shell_header sh = {shell->n, shell->lo, shell->hi, 0};
        bw_buf_put(out, &sh, sizeof sh);
    }
    for (size_t i = 0; i < f->nshells; i++) {
        if (!f->shells[i].ix)
            continue;
        const size_t from = out->len;
        const bw_status status = stream_write(ctx, &f->shells[i], out);
        if (status != BW_OK)
            return status;
        const uint64_t bytes = out->len - from;
        if (!out->failed)
            memcpy(out->ptr + table + i * sizeof(shell_header) +
                       offsetof(shell_header, stream_bytes),
                   &bytes, sizeof bytes);
    }
    return out->failed ? bw_fail_nomem(ctx) : BW_OK;
}

typedef struct cursor {
    const char *p;
    size_t left;
} cursor;

/* NULL when fewer than n bytes are left. */
static const char *cursor_take(cursor *c, size_t n)
{
    if (n > c->left)
        return NULL;
    const char *p = c->p;
    c->p += n;
    c->left -= n;
    return p;
}

/* The table of shells; stream_bytes out. */
static bw_status shells_load(bw_ctx *ctx, faiss_index *f, cursor *c, uint32_t nshells,
                             uint64_t *streams)
{
    const size_t n = f->kind.n;
    if (nshells > SHELLS_MAX || (nshells == 0) != (n == 0))
        return bw_fail(ctx, BW_ECORRUPT, "saved index has %u shells", nshells);
    if (nshells > 1) {
        const char *stored = cursor_take(c, n);
        if (!stored)
            return bw_fail(ctx, BW_ECORRUPT, "saved index is cut off");
        for (size_t r = 0; r < n; r++)
            if ((uint8_t)stored[r] >= nshells)
                return bw_fail(ctx, BW_ECORRUPT, "saved index has a row in no shell");
        uint8_t *numbers = bw_alloc(n);
        if (!numbers)
            return bw_fail_nomem(ctx);
        memcpy(numbers, stored, n);
        const bw_status status = shells_make(ctx, f, numbers, nshells);
        bw_free(numbers);
        if (status != BW_OK)
            return status;
    } else if (nshells == 1) {
        f->shells[f->nshells++].n = n;
    }
    if (f->nshells != nshells)
        return bw_fail(ctx, BW_ECORRUPT, "saved index has an empty shell");
    for (size_t i = 0; i < nshells; i++) {
        shell_header sh;
        const char *p = cursor_take(c, sizeof sh);
        if (!p)
            return bw_fail(ctx, BW_ECORRUPT, "saved index is cut off");
        memcpy(&sh, p, sizeof sh);
        if (sh.n != f->shells[i].n || !(sh.lo >= 0 && sh.lo <= sh.hi))
            return bw_fail(ctx, BW_ECORRUPT, "saved index has a wrong shell");
        f->shells[i].lo = sh.lo;
        f->shells[i].hi = sh.hi;
        streams[i] = sh.stream_bytes;
    }
    return BW_OK;
}

static bw_status faiss_read(bw_ctx *ctx, faiss_index *f, cursor *c, uint32_t nshells)
{
    uint64_t streams[SHELLS_MAX] = {0};
    bw_status status = shells_load(ctx, f, c, nshells, streams);
    for (size_t i = 0; status == BW_OK && i < f->nshells; i++) {
        if (streams[i] == 0)
            continue;
        const char *p = cursor_take(c, streams[i]);
        if (!p)
            return bw_fail(ctx, BW_ECORRUPT, "saved index is cut off");
        status = bw_shell__read(ctx, &f->kind, &f->shells[i], p, streams[i]);
    }
    if (status == BW_OK && c->left != 0)
        status = bw_fail(ctx, BW_ECORRUPT, "saved index has bytes after its end");
    return status;
}

static bw_status faiss_load(bw_ctx *ctx, bool hnsw, const bw_index_params *params,
                            const void *bytes, size_t n, bw_index **out)
{
    faiss_header stored, expected;
    cursor c = {bytes, n};
    const char *head = cursor_take(&c, sizeof stored);
    if (!head)
        return bw_fail(ctx, BW_ECORRUPT, "saved index is cut off");
    memcpy(&stored, head, sizeof stored);
    if (stored.n > INT32_MAX)
        return bw_fail(ctx, BW_ECORRUPT, "saved index has too many rows");
    faiss_index *f = NULL;
    bw_status status = faiss_new(ctx, hnsw, params, (size_t)stored.n, &f);
    if (status != BW_OK)
        return status;
    header_make(f, &expected);
    expected.nshells = stored.nshells;
    if (memcmp(&stored, &expected, sizeof stored) != 0)
        status = bw_fail(ctx, BW_ECORRUPT,
                         "saved index has other parameters or another FAISS");
    else
        status = faiss_read(ctx, f, &c, stored.nshells);
    if (status != BW_OK) {
        faiss_free(&f->base);
        return status;
    }
    *out = &f->base;
    return BW_OK;
}

static bw_status hnsw_load(bw_ctx *ctx, const bw_index_params *params,
                           const void *bytes, size_t n, bw_index **out)
{
    return faiss_load(ctx, true, params, bytes, n, out);
}
static bw_status ivf_load(bw_ctx *ctx, const bw_index_params *params, const void *bytes,
                          size_t n, bw_index **out)
{
    return faiss_load(ctx, false, params, bytes, n, out);
}

static size_t faiss_bytes(const bw_index *ix)
{
    const faiss_index *f = (const faiss_index *)ix;
    size_t bytes = sizeof *f;
    for (size_t i = 0; i < f->nshells; i++)
        bytes += bw_shell__bytes(&f->kind, &f->shells[i]);
    return bytes;
}

#define FAISS_KIND(kind)                                                    \
    .exact = false, .filtered = true, .metrics = {true, true, true, false}, \
    .build = kind##_build, .search = faiss_search, .save = faiss_save,      \
    .load = kind##_load, .bytes = faiss_bytes, .free = faiss_free

const bw_index_ops bw_index__faiss_hnsw = {.name = "faiss-hnsw",
                                           .dim_max = DIM_MAX,
                                           .M_max = M_MAX,
                                           .ef_construction_max = EF_CONSTRUCTION_MAX,
                                           FAISS_KIND(hnsw)};
const bw_index_ops bw_index__faiss_ivf = {
    .name = "faiss-ivf", .dim_max = DIM_MAX, FAISS_KIND(ivf)};
