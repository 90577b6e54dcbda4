/* The row drivers of the wide ISA files, each of which includes this after saying what
 * its registers are:
 *   vf, VW            a register of VW floats (8 or 16)
 *   v16               the 16 partial sums of one row; v16_zero, v16_fold
 *   vf_zero, vf_store, vf_load(type, row, i, scale), vf_part (n < VW elements, the rest
 *   zero), vf_step(op, s, a, b), vf_keep(old, new, n: the first n lanes are new)
 * and row16(op, type, s, query, row, i, scale), row_rest(…, n): 16 or n < 16 elements.
 *
 * Two shapes. One query: four rows at a time, so that independent sums hide the latency
 * of a fused multiply-add (4, two a cycle). Several queries: four of them by two rows,
 * VW sums at a time (a row's sums are independent, so a pass over the lower half and
 * one over the upper give the same bits), which is eight chains, and six loads for
 * eight steps. In a block the rows in hand stay in L1 while groups of four queries
 * pass; for many queries stored rows are decoded once. Rows ahead are asked for by the
 * program, because a hardware stream ends with every page and starts slowly. */
#ifndef BW_KERNELS_WIDE_H
#define BW_KERNELS_WIDE_H

#if __has_attribute(uninitialized)
#define UNSET __attribute__((uninitialized)) /* written before it is read; no clearing */
#else
#define UNSET
#endif

enum {
    ROWS = 4,        /* of one query's step */
    GROUP = 4,       /* queries of one pass */
    PAIR = 2,        /* rows of one pass */
    LINE_BYTES = 64, /* of a cache line */
    TILE_BYTES = 8 << 10,  /* rows in hand: a quarter of L1 */
    L2_BYTES = 128 << 10, /* a quarter of it */
    DECODE_FROM = 8, /* more queries than this: decoding once is the cheaper (Zen 1) */
    DECODED_FLOATS = 8192 /* a tile of decoded rows on the stack: 32 KiB; dim 4096 */
};

INLINE size_t type_size(bw_dtype t)
{
    return t == BW_DTYPE_F32 ? 4 : t == BW_DTYPE_I8 ? 1 : 2;
}

INLINE float scale_of(bw_dtype t, const float *scales, size_t i)
{
    return t == BW_DTYPE_I8 ? scales[i] : 1;
}

INLINE float row_one(bw_kernel_op op, bw_dtype t, const float *query, const void *row,
                     float scale, size_t dim)
{
    const vf c = vf_all(scale);
    v16 s = v16_zero();
    size_t i = 0;
    for (; i + 16 <= dim; i += 16)
        s = row16(op, t, s, query, row, i, c);
    if (i < dim)
        s = row_rest(op, t, s, query, row, i, c, dim - i);
    return v16_fold(s);
}

typedef struct four {
    const char *row[ROWS];
    vf scale[ROWS];
    v16 sum[ROWS];
} four;

INLINE void four16(bw_kernel_op op, bw_dtype t, four *f, const float *query, size_t i)
{
    f->sum[0] = row16(op, t, f->sum[0], query, f->row[0], i, f->scale[0]);
    f->sum[1] = row16(op, t, f->sum[1], query, f->row[1], i, f->scale[1]);
    f->sum[2] = row16(op, t, f->sum[2], query, f->row[2], i, f->scale[2]);
    f->sum[3] = row16(op, t, f->sum[3], query, f->row[3], i, f->scale[3]);
}

/* Four rows; `ahead` bytes further there are rows that may be asked for, 0: none. */
INLINE void rows_four(bw_kernel_op op, bw_dtype t, const float *query, const char *row,
                      const float *scales, size_t dim, float *out, size_t ahead)
{
    const size_t size = type_size(t), line = LINE_BYTES / size, bytes = dim * size;
    four f;
    size_t i = 0;
    f.row[0] = row, f.row[1] = row + bytes;
    f.row[2] = row + 2 * bytes, f.row[3] = row + 3 * bytes;
    f.scale[0] = vf_all(scale_of(t, scales, 0));
    f.scale[1] = vf_all(scale_of(t, scales, 1));
    f.scale[2] = vf_all(scale_of(t, scales, 2));
    f.scale[3] = vf_all(scale_of(t, scales, 3));
    f.sum[0] = f.sum[1] = f.sum[2] = f.sum[3] = v16_zero();
    for (; i + line <= dim; i += line) {
        if (ahead) {
            const char *p = row + ahead + i * size;
            __builtin_prefetch(p, 0, 3);
            __builtin_prefetch(p + bytes, 0, 3);
            __builtin_prefetch(p + 2 * bytes, 0, 3);
            __builtin_prefetch(p + 3 * bytes, 0, 3);
        }
        four16(op, t, &f, query, i);
        if (line > 16)
            four16(op, t, &f, query, i + 16);
        if (line > 32) {
            four16(op, t, &f, query, i + 32);
            four16(op, t, &f, query, i + 48);
        }
    }
    for (; i + 16 <= dim; i += 16)
        four16(op, t, &f, query, i);
    if (i < dim) {
        const size_t rest = dim - i;
        f.sum[0] = row_rest(op, t, f.sum[0], query, f.row[0], i, f.scale[0], rest);
        f.sum[1] = row_rest(op, t, f.sum[1], query, f.row[1], i, f.scale[1], rest);
        f.sum[2] = row_rest(op, t, f.sum[2], query, f.row[2], i, f.scale[2], rest);
        f.sum[3] = row_rest(op, t, f.sum[3], query, f.row[3], i, f.scale[3], rest);
    }
    out[0] = v16_fold(f.sum[0]);
    out[1] = v16_fold(f.sum[1]);
    out[2] = v16_fold(f.sum[2]);
    out[3] = v16_fold(f.sum[3]);
}

INLINE void rows_loop(bw_kernel_op op, bw_dtype t, const float *query, const void *rows,
                      const float *scales, size_t n, size_t dim, float *out)
{
    const size_t bytes = dim * type_size(t);
    const char *row = rows;
    size_t i = 0;
    for (; i + ROWS <= n; i += ROWS)
        rows_four(op, t, query, row + i * bytes, scales ? scales + i : NULL, dim,
                  out + i, i + 2 * ROWS <= n ? ROWS * bytes : 0);
    for (; i < n; i++)
        out[i] = row_one(op, t, query, row + i * bytes, scale_of(t, scales, i), dim);
}

typedef struct pair {
    const float *query[GROUP];
    const char *row[PAIR];
    vf scale[PAIR], sum[GROUP][PAIR];
} pair;

/* Else the compiler folds the load into both of its uses: ten loads for eight steps.
 * Beside conversions it may: that was the faster of the two (Zen 1). */
#define IN_REGISTER(v)             \
    do {                           \
        if (t == BW_DTYPE_F32)     \
            __asm__("" : "+x"(v)); \
    } while (0)

/* One step of all eight sums: LOAD(type, p, scale) the elements, KEEP(old, new) the
 * sum. */
#define PAIR_STEP(op, t, p, LOAD, KEEP)                                      \
    do {                                                                     \
        const vf a = LOAD(t, p->row[0], p->scale[0]);                        \
        const vf b = LOAD(t, p->row[1], p->scale[1]);                        \
        vf q0 = LOAD(BW_DTYPE_F32, p->query[0], a);                          \
        vf q1 = LOAD(BW_DTYPE_F32, p->query[1], a);                          \
        vf q2 = LOAD(BW_DTYPE_F32, p->query[2], a);                          \
        vf q3 = LOAD(BW_DTYPE_F32, p->query[3], a);                          \
        IN_REGISTER(q0);                                                     \
        IN_REGISTER(q1);                                                     \
        IN_REGISTER(q2);                                                     \
        IN_REGISTER(q3);                                                     \
        p->sum[0][0] = KEEP(p->sum[0][0], vf_step(op, p->sum[0][0], q0, a)); \
        p->sum[0][1] = KEEP(p->sum[0][1], vf_step(op, p->sum[0][1], q0, b)); \
        p->sum[1][0] = KEEP(p->sum[1][0], vf_step(op, p->sum[1][0], q1, a)); \
        p->sum[1][1] = KEEP(p->sum[1][1], vf_step(op, p->sum[1][1], q1, b)); \
        p->sum[2][0] = KEEP(p->sum[2][0], vf_step(op, p->sum[2][0], q2, a)); \
        p->sum[2][1] = KEEP(p->sum[2][1], vf_step(op, p->sum[2][1], q2, b)); \
        p->sum[3][0] = KEEP(p->sum[3][0], vf_step(op, p->sum[3][0], q3, a)); \
        p->sum[3][1] = KEEP(p->sum[3][1], vf_step(op, p->sum[3][1], q3, b)); \
    } while (0)

INLINE void pair_step(bw_kernel_op op, bw_dtype t, pair *p, size_t i)
{
#define FULL(type, x, scale) vf_load(type, x, i, scale)
#define NEW(old, new) new
    PAIR_STEP(op, t, p, FULL, NEW);
#undef FULL
#undef NEW
}

/* n < VW elements. */
INLINE void pair_rest(bw_kernel_op op, bw_dtype t, pair *p, size_t i, size_t n)
{
#define PART(type, x, scale) vf_part(type, x, i, scale, n)
#define FIRST(old, new) vf_keep(old, new, n)
    PAIR_STEP(op, t, p, PART, FIRST);
#undef PART
#undef FIRST
}

/* Sums of four queries with two rows, lanes `from` … from + VW - 1 of the 16; `ahead`
 * bytes further there are rows that may be asked for, 0: none. */
INLINE void pair_pass(bw_kernel_op op, bw_dtype t, pair *p, size_t dim, size_t from,
                      size_t ahead, float sums[GROUP * PAIR][16])
{
    const size_t size = type_size(t), line = LINE_BYTES / size;
    size_t i = 0;
    p->sum[0][0] = p->sum[0][1] = p->sum[1][0] = p->sum[1][1] = vf_zero();
    p->sum[2][0] = p->sum[2][1] = p->sum[3][0] = p->sum[3][1] = vf_zero();
    for (; i + line <= dim; i += line) {
        if (ahead) {
            __builtin_prefetch(p->row[0] + ahead + i * size, 0, 3);
            __builtin_prefetch(p->row[1] + ahead + i * size, 0, 3);
        }
        pair_step(op, t, p, i + from);
        if (line > 16)
            pair_step(op, t, p, i + 16 + from);
        if (line > 32) {
            pair_step(op, t, p, i + 32 + from);
            pair_step(op, t, p, i + 48 + from);
        }
    }
    for (; i + 16 <= dim; i += 16)
        pair_step(op, t, p, i + from);
    if (i + from < dim && dim - i - from >= VW)
        pair_step(op, t, p, i + from);
    else if (i + from < dim)
        pair_rest(op, t, p, i + from, dim - i - from);
    vf_store(sums[0] + from, p->sum[0][0]), vf_store(sums[1] + from, p->sum[0][1]);
    vf_store(sums[2] + from, p->sum[1][0]), vf_store(sums[3] + from, p->sum[1][1]);
    vf_store(sums[4] + from, p->sum[2][0]), vf_store(sums[5] + from, p->sum[2][1]);
    vf_store(sums[6] + from, p->sum[3][0]), vf_store(sums[7] + from, p->sum[3][1]);
}

/* m rows in hand with all whole groups of four queries. The first look at the rows asks for those `ahead` bytes further, if not 0.
 *   out[q·n + i], i < m */
INLINE void tile_loop(bw_kernel_op op, bw_dtype t, const float *const *queries, size_t nq,
                     const char *rows, const float *scales, size_t m, size_t dim,
                     size_t ahead, float *out, size_t n)
{
    const size_t bytes = dim * type_size(t);
    for (size_t q = 0; q + GROUP <= nq; q += GROUP) {
        pair p = {.query = {queries[q], queries[q + 1], queries[q + 2], queries[q + 3]}};
        UNSET float sums[GROUP * PAIR][16];
        for (size_t i = 0; i < m; i += PAIR) {
            const size_t j = i + 1 < m ? i + 1 : i; /* an odd last row pairs with itself */
            p.row[0] = rows + i * bytes, p.row[1] = rows + j * bytes;
            p.scale[0] = vf_all(scale_of(t, scales, i));
            p.scale[1] = vf_all(scale_of(t, scales, j));
            pair_pass(op, t, &p, dim, 0, q == 0 ? ahead : 0, sums);
            if (VW < 16)
                pair_pass(op, t, &p, dim, 8, 0, sums);
            for (size_t g = 0; g < GROUP; g++) {
                out[(q + g) * n + i] = v16_fold(v16_of(sums[g * PAIR]));
                out[(q + g) * n + j] = v16_fold(v16_of(sums[g * PAIR + (j != i)]));
            }
        }
    }
}

INLINE void decode_loop(bw_dtype t, const void *row, float scale, size_t dim, float *out)
{
    const vf c = vf_all(scale);
    size_t i = 0;
    for (; i + VW <= dim; i += VW)
        vf_store(out + i, vf_load(t, row, i, c));
    if (i < dim) {
        UNSET float rest[VW];
        vf_store(rest, vf_part(t, row, i, c, dim - i));
        memcpy(out + i, rest, (dim - i) * sizeof *out);
    }
}

/* The three inner loops of an operation and a type, once each: the functions of the
 * table call them. */
typedef void tile_fn(const float *const *queries, size_t nq, const char *rows,
                     const float *scales, size_t m, size_t dim, size_t ahead, float *out,
                     size_t n);
#define LOOPS_OF(op, OP, t, T)                                                         \
    static void loop_##op##_##t(const float *query, const void *rows,                  \
                                const float *scales, size_t n, size_t dim, float *out) \
    {                                                                                  \
        rows_loop(BW_KERNEL_##OP, BW_DTYPE_##T, query, rows, scales, n, dim, out);     \
    }                                                                                  \
    static void tile_##op##_##t(const float *const *queries, size_t nq,                \
                                const char *rows, const float *scales, size_t m,       \
                                size_t dim, size_t ahead, float *out, size_t n)        \
    {                                                                                  \
        tile_loop(BW_KERNEL_##OP, BW_DTYPE_##T, queries, nq, rows, scales, m, dim,     \
                  ahead, out, n);                                                      \
    }
#define LOOPS(t, T)                                                                    \
    LOOPS_OF(dot, DOT, t, T)                                                           \
    LOOPS_OF(l2sq, L2SQ, t, T)                                                         \
    LOOPS_OF(l1, L1, t, T)                                                             \
    static void values_##t(const void *row, float scale, size_t dim, float *out)       \
    {                                                                                  \
        decode_loop(BW_DTYPE_##T, row, scale, dim, out);                               \
    }
LOOPS(f32, F32)
LOOPS(f16, F16)
LOOPS(bf16, BF16)
LOOPS(i8, I8)
static bw_rows_fn *const loops[BW_NDTYPES][BW_NOPS] = {
    {loop_dot_f32, loop_l2sq_f32, loop_l1_f32},
    {loop_dot_f16, loop_l2sq_f16, loop_l1_f16},
    {loop_dot_bf16, loop_l2sq_bf16, loop_l1_bf16},
    {loop_dot_i8, loop_l2sq_i8, loop_l1_i8},
};
static tile_fn *const tiles[BW_NDTYPES][BW_NOPS] = {
    {tile_dot_f32, tile_l2sq_f32, tile_l1_f32},
    {tile_dot_f16, tile_l2sq_f16, tile_l1_f16},
    {tile_dot_bf16, tile_l2sq_bf16, tile_l1_bf16},
    {tile_dot_i8, tile_l2sq_i8, tile_l1_i8},
};
static void (*const values[BW_NDTYPES])(const void *, float, size_t, float *) = {
    values_f32, values_f16, values_bf16, values_i8};

static inline void rows_any(bw_kernel_op op, bw_dtype t, const float *query,
                            const void *rows, const float *scales, size_t n, size_t dim,
                            float *out)
{
    loops[t][op](query, rows, scales, n, dim, out);
}

static inline void decode_any(bw_dtype t, const void *row, float scale, size_t dim,
                              float *out)
{
    values[t](row, scale, dim, out);
}

/* Rows of `bytes` each that fit: whole steps of one query's shape, at least a pair. */
static size_t tile_rows(size_t cache, size_t bytes)
{
    const size_t fit = bytes > 0 ? cache / bytes : ROWS;
    return fit < ROWS ? PAIR : fit / ROWS * ROWS;
}

/* A tile with all queries: groups of four, then what is left one by one. */
static void tile_all(bw_kernel_op op, bw_dtype t, const float *const *queries, size_t nq,
                     const char *rows, const float *scales, size_t m, size_t dim,
                     size_t ahead, float *out, size_t n)
{
    tiles[t][op](queries, nq, rows, scales, m, dim, ahead, out, n);
    for (size_t q = nq / GROUP * GROUP; q < nq; q++)
        loops[t][op](queries[q], rows, scales, m, dim, out + q * n);
}

/* Stored rows are decoded once for all queries, a tile at a time; the rows of the next
 * tile are asked for meanwhile. dim <= DECODED_FLOATS / PAIR. */
static void block_decoded(bw_kernel_op op, bw_dtype t, const float *const *queries,
                          size_t nq, const char *rows, const float *scales, size_t n,
                          size_t dim, float *out)
{
    const size_t bytes = dim * type_size(t);
    const size_t tile = tile_rows(TILE_BYTES, dim * sizeof(float));
    UNSET float f32[DECODED_FLOATS];
    assert(tile * dim <= DECODED_FLOATS);
    for (size_t first = 0; first < n; first += tile) {
        const size_t m = n - first < tile ? n - first : tile;
        for (size_t i = first; i < first + m; i++) {
            const char *row = rows + i * bytes;
            for (size_t o = 0; i + tile < n && o < bytes; o += LINE_BYTES)
                __builtin_prefetch(row + tile * bytes + o, 0, 3);
            values[t](row, scale_of(t, scales, i), dim, f32 + (i - first) * dim);
        }
        tile_all(op, BW_DTYPE_F32, queries, nq, (const char *)f32, NULL, m, dim, 0,
                 out + first, n);
    }
}

static void block_any(bw_kernel_op op, bw_dtype t, const float *const *queries,
                      size_t nq, const void *rows, const float *scales, size_t n,
                      size_t dim, float *out)
{
    const size_t bytes = dim * type_size(t);
    if (t != BW_DTYPE_F32 && nq > DECODE_FROM && dim <= DECODED_FLOATS / PAIR) {
        block_decoded(op, t, queries, nq, rows, scales, n, dim, out);
        return;
    }
    /* Less than a group: the first query streams the tile into L2 for the others. */
    const size_t tile = nq == 1 ? n : tile_rows(nq < GROUP ? L2_BYTES : TILE_BYTES, bytes);
    for (size_t first = 0; first < n; first += tile) {
        const size_t m = n - first < tile ? n - first : tile;
        const size_t ahead = first + 2 * tile <= n ? tile * bytes : 0;
        tile_all(op, t, queries, nq, (const char *)rows + first * bytes,
                 scales ? scales + first : NULL, m, dim, ahead, out + first, n);
    }
}
#endif
