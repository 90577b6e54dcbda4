/* Blocks of vectors in their stored precision (rows.h): putting rows in, and the view
 * through which kernels and indexes read them.
 *
 * Codes are made as rows are appended, so that a growing block is searched like a
 * sealed one and nothing is built when it is sealed. Leaves out the release (build.c
 * owns what a matrix ends with). */
#include "../index/gpu_host.h"
#include "../kernels/typed.h"
#include "../kernels/kernels.h"
#include "heal.h"
#include "rows.h"

bw_matrix *bw_matrix_new(const bw_vector_spec *spec, uint32_t cap)
{
    bw_matrix *m = bw_calloc(1, sizeof *m);
    if (!m)
        return NULL;
    size_t bytes;
    atomic_init(&m->refs, 1);
    m->dim = spec->dim;
    m->cap = cap;
    m->dtype = spec->dtype;
    m->metric = spec->metric;
    m->gpu_identity = bw_gpu_identity();
    if (!__builtin_mul_overflow(cap * bw_dtype_size(spec->dtype), spec->dim, &bytes))
        m->data = bw_alloc_vectors(bytes);
    m->ids = bw_calloc(cap, sizeof *m->ids);
    bool good = m->data && m->ids;
    if (good && m->dtype == BW_DTYPE_I8)
        good = (m->scales = bw_calloc(cap, sizeof *m->scales)) != NULL;
    if (good && cap >= BW_CODES_ROWS_MIN && bw_codes_metric(m->metric))
        good = (m->codes = bw_codes_new(m->metric, m->dim, cap)) != NULL;
    if (!good) {
        bw_matrix_release(m);
        return NULL;
    }
    return m;
}

void bw_matrix_acquire(bw_matrix *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

static size_t row_bytes(const bw_matrix *m)
{
    return m->dim * bw_dtype_size(m->dtype);
}

static char *row_at(const bw_matrix *m, uint32_t row)
{
    return (char *)m->data + row * row_bytes(m);
}

static bw_status does_not_fit(bw_ctx *ctx, bw_dtype t)
{
    static const char *const names[BW_NDTYPES] = {"float32", "float16", "bfloat16",
                                                  "int8"};
    return bw_fail(ctx, BW_EINVALID,
                   "A vector component is too large for the collection's datatype %s",
                   names[t]);
}

static bw_status put_codes(bw_ctx *ctx, bw_matrix *m, uint32_t row)
{
    if (!m->codes)
        return BW_OK;
    if (m->dtype == BW_DTYPE_F32) {
        bw_codes_put(m->codes, row, (const float *)row_at(m, row));
        return BW_OK;
    }
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    float *decoded = bw_arena_alloc(ctx, m->dim * sizeof *decoded);
    if (!decoded)
        return BW_ENOMEM;
    bw_decode_rows(m->dtype, row_at(m, row), m->scales ? m->scales + row : NULL, 1,
                   m->dim, decoded);
    bw_codes_put(m->codes, row, decoded);
    bw_arena_release(ctx, mark);
    return BW_OK;
}

static bw_status put_raw(bw_ctx *ctx, bw_matrix *m, uint32_t row, const bw_dense *v)
{
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    float *given = bw_arena_alloc(ctx, m->dim * sizeof *given);
    if (!given)
        return BW_ENOMEM;
    memcpy(given, v->data, m->dim * sizeof *given);
    if (m->metric == BW_METRIC_COSINE)
        bw_normalize_f32(given, m->dim);
    bool fits = bw_encode_rows(m->dtype, given, 1, m->dim, row_at(m, row),
                               m->scales ? m->scales + row : NULL);
    bw_arena_release(ctx, mark);
    return fits ? BW_OK : does_not_fit(ctx, m->dtype);
}

static void put_stored(bw_matrix *m, uint32_t row, const bw_dense *v,
                       const bw_point_id *id)
{
    assert(row < m->cap && m->data && !v->raw);
    m->ids[row] = *id;
    memcpy(row_at(m, row), v->data, row_bytes(m));
    if (m->scales)
        m->scales[row] = v->scale;
}

/* A row's codes are its own: the same wherever the row lies. */
static void copy_codes(bw_codes *to, uint32_t row, const bw_codes *from,
                       uint32_t from_row)
{
    memcpy(to->codes + row * to->stride, from->codes + from_row * from->stride,
           to->stride);
    to->step[row] = from->step[from_row];
    to->norm[row] = from->norm[from_row];
    to->lost[row] = from->lost[from_row];
}

bw_status bw_matrix_put(bw_ctx *ctx, bw_matrix *m, uint32_t row, const bw_dense *v,
                        const bw_point_id *id)
{
    bw_status st = BW_OK;
    if (v->raw) {
        assert(row < m->cap && m->data);
        m->ids[row] = *id;
        st = put_raw(ctx, m, row, v);
    } else {
        put_stored(m, row, v, id);
    }
    return st == BW_OK ? put_codes(ctx, m, row) : st;
}

bw_status bw_matrix_copy(bw_ctx *ctx, bw_matrix *to, uint32_t row,
                         const bw_matrix *from, uint32_t from_row)
{
    bw_dense v;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = bw_matrix_get(ctx, from, from_row, &v);
    if (st == BW_OK)
        put_stored(to, row, &v, &from->ids[from_row]);
    if (st == BW_OK && to->codes && from->codes)
        copy_codes(to->codes, row, from->codes, from_row);
    else if (st == BW_OK)
        st = put_codes(ctx, to, row);
    bw_arena_release(ctx, mark);
    return st;
}

static bw_status read_row(bw_ctx *ctx, const bw_matrix *m, uint32_t row, void *out)
{
    uint64_t at = (uint64_t)row * row_bytes(m);
    bw_status st = bw_blockfile_read(ctx, m->file, at, row_bytes(m), out);
    if (st == BW_ECORRUPT || st == BW_EIO) { /* the store has the rows: both can be mended */
        bw_matrix_damaged(m);
        return BW_ECORRUPT;
    }
    return st;
}

bw_status bw_matrix_get(bw_ctx *ctx, const bw_matrix *m, uint32_t row, bw_dense *out)
{
    *out = (bw_dense){NULL, m->scales ? m->scales[row] : 1, false};
    if (m->data) {
        out->data = row_at(m, row);
        return BW_OK;
    }
    void *copy = bw_arena_alloc(ctx, row_bytes(m));
    if (!copy)
        return BW_ENOMEM;
    out->data = copy;
    return read_row(ctx, m, row, copy);
}

/* bw_rows.fetch of a matrix on file. */
static bw_status fetch(bw_ctx *ctx, void *arg, const uint32_t *rows, size_t n,
                       float *out)
{
    const bw_matrix *m = arg;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    bw_status st = BW_OK;
    void *row = bw_arena_alloc(ctx, row_bytes(m));
    if (!row)
        return BW_ENOMEM;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        st = read_row(ctx, m, rows[i], row);
        if (st == BW_OK)
            bw_decode_rows(m->dtype, row, m->scales ? m->scales + rows[i] : NULL, 1,
                           m->dim, out + i * m->dim);
    }
    bw_arena_release(ctx, mark);
    return st;
}

bw_rows bw_matrix_view(const bw_matrix *m, size_t n)
{
    assert(n <= m->cap);
    return (bw_rows){.dtype = m->dtype,
                     .dim = m->dim,
                     .n = n,
                     .data = m->data,
                     .scales = m->scales,
                     .fetch = m->data ? NULL : fetch,
                     .arg = (void *)(uintptr_t)m};
}

size_t bw_matrix_bytes(const bw_matrix *m)
{
    return (m->data ? m->cap * row_bytes(m) : 0) +
           m->cap * (sizeof *m->ids + (m->scales ? sizeof *m->scales : 0)) +
           (m->codes ? bw_codes_bytes(m->codes) : 0);
}
