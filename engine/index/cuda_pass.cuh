/* The first pass: products of a tile of queries with a tile of rows on tensor cores, and
 * for each query the best row of every group of 32 it may read.
 *
 * mma.sync takes queries as its 16 rows (A) and stored rows as its 8 columns (B); both lie
 * in memory with the dimension running fastest, which is what row.col wants, so nothing is
 * transposed. Slices of 64 bytes of every row of both tiles go through a ring of stages in
 * shared memory with cp.async; the ring runs on over tile ends, so the epilogue of one
 * tile hides behind the loads of the next. In a stage the four 16-byte parts of a row are
 * stored at part ^ (row/2 & 3), so that eight rows read by ldmatrix meet 32 different banks.
 *
 * Why the best of a group and not a list of the k best: a register and two shuffles a
 * group instead of heaps in shared memory, the same work whatever the order of rows, any
 * k, no retry that data could provoke; and the bound tells exactly which groups must be
 * rescored (cuda_arith.h, cuda_select.cuh). One float in 32 products is written: 0.5 % of
 * the bytes of the rows a query at 384 dimensions in f16.
 *
 * The two parts of a bf16 or int8 query lie 8 rows of A apart, so one thread holds both
 * sums of a pair and joins them; the main loop knows nothing of it.
 *
 * Rows outside an item's range are not loaded (cp.async with 0 source bytes fills zeros).
 * Rows that a bitset excludes are multiplied with their tile and dropped in the epilogue. */
#ifndef BW_CUDA_PASS_CUH
#define BW_CUDA_PASS_CUH
#include "cuda_types.cuh"
#include "cuda_unit.cuh"

/* ---- shapes ---- */

/* T form, BM rows of A (queries × parts), BN stored rows, WM × WN warps, STAGES in the ring. */
template <int T_, int BM_, int BN_, int WM_, int WN_, int STAGES_> struct pass_shape {
    static constexpr int T = T_, BM = BM_, BN = BN_, WM = WM_, WN = WN_, STAGES = STAGES_;
    static constexpr int PARTS = T == FORM_F16 ? 1 : 2;
    static constexpr int QUERIES = BM / PARTS;
    static constexpr int THREADS = WM * WN * 32;
    static constexpr int BLOCKS = BM * BN > 64 * 256 ? 1 : 2; /* wanted on a multiprocessor */
    static constexpr int MT = BM / WM / 16, NT = BN / WN / 8; /* mma tiles of a warp */
    static constexpr int GROUPS = NT / 4;                     /* groups of 32 rows of a warp */
    static constexpr int STAGE_BYTES = (BM + BN) * BW_CUDA_SLICE;
    static constexpr int SHARED = STAGES * STAGE_BYTES;
    static constexpr int A_COPIES = BM * 4 < THREADS ? 1 : BM * 4 / THREADS;
    static constexpr int B_COPIES = BN * 4 / THREADS;
    static_assert(NT % 4 == 0 && MT >= 1, "a warp takes whole groups");
    static_assert(BN * 4 % THREADS == 0 && THREADS % 8 == 0, "copies come out even");
};

/* Where a tile lies. Tiles are numbered by item, then rows, then queries, so that
 * neighbouring blocks read the same rows from the L2 cache. */
struct tile_place {
    const pass_item *item;
    uint32_t row, slot; /* first row of the item, first read of the item */
};

template <class S>
__device__ __forceinline__ tile_place tile_find(const pass_launch &p, uint32_t tile)
{
    uint32_t lo = 0, hi = p.nitems; /* the last item whose first tile is <= tile */
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (p.items[mid].tile0 <= tile)
            lo = mid;
        else
            hi = mid;
    }
    const pass_item *item = p.items + lo;
    const uint32_t t = tile - item->tile0;
    const uint32_t nq = (item->nreads + S::QUERIES - 1) / S::QUERIES;
    const uint32_t r = t / nq;
    return {item, r * S::BN, (t - r * nq) * S::QUERIES};
}

/* The copying half of the kernel: what this thread loads of each slice. */
template <class S> struct feeder {
    const uint8_t *rows;           /* this thread's first row of the tile, its part */
    const uint8_t *queries[S::A_COPIES];
    uint32_t left;                 /* rows of the tile that may be loaded */
    uint32_t tile, slice;
    uint32_t to; /* this thread's place in stage 0, rows of B */

    __device__ __forceinline__ void tile_start(const pass_launch &p)
    {
        if (tile >= p.ntiles)
            return;
        const tile_place at = tile_find<S>(p, tile);
        const uint32_t part = threadIdx.x & 3, row = threadIdx.x >> 2;
        left = at.item->rows - at.row;
        rows = at.item->form + (size_t)(at.row + row) * p.stride + part * 16;
#pragma unroll
        for (int i = 0; i < S::A_COPIES; i++) {
            /* A's row m: query and part of it (see the head of the file) */
            const uint32_t m = (threadIdx.x + i * S::THREADS) >> 2;
            const uint32_t q = S::PARTS == 1 ? m : (m >> 4) * 8 + (m & 7);
            const uint32_t half = S::PARTS == 1 ? 0 : m >> 3 & 1;
            const uint32_t slot = at.slot + q;
            queries[i] = NULL;
            if (m < S::BM && slot < at.item->nreads)
                queries[i] = p.queries +
                             ((size_t)p.reads[at.item->read0 + slot].query * S::PARTS + half) *
                                 p.stride +
                             part * 16;
        }
    }

    __device__ __forceinline__ void start(const pass_launch &p, uint32_t base)
    {
        const uint32_t part = threadIdx.x & 3, row = threadIdx.x >> 2;
        tile = blockIdx.x;
        slice = 0;
        left = 0;
        rows = NULL;
#pragma unroll
        for (int i = 0; i < S::A_COPIES; i++)
            queries[i] = NULL;
        /* THREADS/4 is a multiple of 8 rows, so the swizzle is the same for all copies */
        to = base + row * BW_CUDA_SLICE + ((part ^ (row >> 1 & 3)) << 4);
        tile_start(p);
    }

    __device__ __forceinline__ void next(const pass_launch &p, uint32_t stage)
    {
        if (tile < p.ntiles) {
            const uint32_t here = to + stage * S::STAGE_BYTES;
            const uint32_t row = threadIdx.x >> 2;
#pragma unroll
            for (int i = 0; i < S::A_COPIES; i++) {
                if (S::BM * 4 >= S::THREADS || threadIdx.x < S::BM * 4)
                    copy16(here + i * (S::THREADS / 4) * BW_CUDA_SLICE,
                           queries[i] ? queries[i] + slice * BW_CUDA_SLICE : p.queries,
                           queries[i] != NULL);
            }
            const uint8_t *from = rows + slice * BW_CUDA_SLICE;
#pragma unroll
            for (int i = 0; i < S::B_COPIES; i++) {
                const uint32_t r = i * (S::THREADS / 4);
                const bool take = row + r < left;
                copy16(here + (S::BM + r) * BW_CUDA_SLICE,
                       take ? from + (size_t)r * p.stride : p.queries, take);
            }
            if (++slice == p.slices) {
                slice = 0;
                tile += gridDim.x;
                tile_start(p);
            }
        }
        copy_commit();
    }
};

/* ---- what a tile leaves behind ---- */

template <class S, class SUM>
__device__ __forceinline__ float sum_join(const SUM (&c)[4], int half, int j)
{
    if constexpr (S::T == FORM_F16)
        return c[half * 2 + j];
    else if constexpr (S::T == FORM_BF16)
        return c[j] + c[2 + j];
    else
        return bw_cuda_join_i8(c[j], c[2 + j]);
}

template <class S, class SUM>
__device__ __forceinline__ void tile_finish(const pass_launch &p, uint32_t tile,
                                            const SUM (&acc)[S::MT][S::NT][4])
{
    const tile_place at = tile_find<S>(p, tile);
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t wm = warp % S::WM, wn = warp / S::WM;
    const uint32_t row0 = at.row + wn * (S::BN / S::WN);
#pragma unroll
    for (int g = 0; g < S::GROUPS; g++) {
        const uint32_t first = row0 + g * BW_GPU_GROUP, group = first / BW_GPU_GROUP;
        if (first >= at.item->rows)
            break;
        const uint32_t left = at.item->rows - first;
        const uint32_t inside = left >= 32 ? ~0u : (1u << left) - 1;
        const float2 bound = at.item->bounds[group];
        float2 factor[4][2]; /* of this thread's eight rows */
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const float4 f = *(const float4 *)(at.item->factors + first + n * 8 + (lane & 3) * 2);
            factor[n][0] = make_float2(f.x, f.y);
            factor[n][1] = make_float2(f.z, f.w);
        }
#pragma unroll
        for (int m = 0; m < S::MT; m++) {
#pragma unroll
            for (int half = 0; half < (S::PARTS == 1 ? 2 : 1); half++) {
                const uint32_t q = (wm * S::MT + m) * (16 / S::PARTS) + half * 8 + (lane >> 2);
                const bool live = at.slot + q < at.item->nreads;
                float best = -INFINITY;
                uint32_t word = 0;
                const pass_read *read = p.reads + at.item->read0 + at.slot + q;
                const bw_cuda_query *form = p.forms;
                if (live) {
                    form = p.forms + read->query;
                    word = read->bits ? read->bits[group] & inside : inside;
                    const float by = form->unit;
                    const uint32_t mine = word >> (lane & 3) * 2;
#pragma unroll
                    for (int n = 0; n < 4; n++) {
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            const float v = sum_join<S>(acc[m][g * 4 + n], half, j) * by;
                            const float w = __fmaf_rn(v, factor[n][j].x, factor[n][j].y);
                            best = (mine >> (n * 8 + j) & 1) ? fmaxf(best, w) : best;
                        }
                    }
                }
                best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
                best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
                if (live && (lane & 3) == 0)
                    p.lows[read->low0 + group] =
                        word ? bw_cuda_group_low(best, bw_cuda_group_error(form, bound.x, bound.y))
                             : bw_cuda_absent();
            }
        }
    }
}

/* ---- the kernel ---- */

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) bw_cuda_pass(const pass_launch p)
{
    BW_CUDA_SHARED(shared);
    using U = unit<S::T>;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t wm = warp % S::WM, wn = warp / S::WM;
    /* ldmatrix: lanes 0–7, 8–15, … name the rows of four 8×16-byte matrices */
    const uint32_t a_row = wm * S::MT * 16 + (lane & 15), a_part = lane >> 4;
    const uint32_t b_row = S::BM + wn * S::NT * 8 + (lane & 7) + (lane >> 4) * 8,
                   b_part = lane >> 3 & 1;
    const uint32_t a_at = base + a_row * BW_CUDA_SLICE, a_swap = a_row >> 1 & 3;
    const uint32_t b_at = base + b_row * BW_CUDA_SLICE, b_swap = b_row >> 1 & 3;

    feeder<S> feed;
    feed.start(p, base);
#pragma unroll
    for (int s = 0; s < S::STAGES - 1; s++)
        feed.next(p, s);

    uint32_t stage = 0;
    for (uint32_t tile = blockIdx.x; tile < p.ntiles; tile += gridDim.x) {
        typename U::sum acc[S::MT][S::NT][4];
#pragma unroll
        for (int m = 0; m < S::MT; m++)
#pragma unroll
            for (int n = 0; n < S::NT; n++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    acc[m][n][j] = 0;
        for (uint32_t slice = 0; slice < p.slices; slice++) {
            copy_wait<S::STAGES - 2>();
            __syncthreads(); /* the slice is here, and the stage before it is free */
            feed.next(p, stage == 0 ? S::STAGES - 1 : stage - 1);
            const uint32_t here = stage * S::STAGE_BYTES;
#pragma unroll
            for (int step = 0; step < 2; step++) {
                uint32_t a[S::MT][4];
#pragma unroll
                for (int m = 0; m < S::MT; m++)
                    load4(a[m], a_at + here + m * 16 * BW_CUDA_SLICE +
                                    (((step * 2 + a_part) ^ a_swap) << 4));
#pragma unroll
                for (int n = 0; n < S::NT; n += 2) {
                    uint32_t b[4];
                    load4(b, b_at + here + n * 8 * BW_CUDA_SLICE +
                                 (((step * 2 + b_part) ^ b_swap) << 4));
#pragma unroll
                    for (int m = 0; m < S::MT; m++) {
                        U::mma(acc[m][n], a[m], b[0], b[1]);
                        U::mma(acc[m][n + 1], a[m], b[2], b[3]);
                    }
                }
            }
            stage = stage + 1 == S::STAGES ? 0 : stage + 1;
        }
        tile_finish<S>(p, tile, acc);
    }
    copy_wait<0>();
}
#endif
