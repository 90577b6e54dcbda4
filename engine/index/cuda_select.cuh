/* From the pass's group maxima to the answer: which groups the bound reaches, the canonical
 * keys of their rows, and the k best with all ties.
 *
 * select: tau = the k-th largest lower bound among the query's groups. k rows have a
 * canonical value of at least tau, so whatever can be among the k best, or tie with the
 * k-th, lies in a group whose upper bound reaches tau. All such groups are rescored, so the
 * answer is complete whenever they fit into groups_max: no second try is needed for that.
 * rescore: a warp a group; eight rows at once, four lanes a row with four partial sums
 * each, so that a step reads whole 32-byte sectors and the order of sums is the CPU's.
 * finish: the k-th largest key, and every row at or above it.
 *
 * The k-th largest of n values is found by four counting passes over their bytes, most
 * significant first; lanes of a warp that meet in a bin are added up before they touch it,
 * as nearly all values share their leading byte. */
#ifndef BW_CUDA_SELECT_CUH
#define BW_CUDA_SELECT_CUH
#include "cuda_prepare.cuh"

enum { SELECT_THREADS = 512, FINISH_THREADS = 256, RESCORE_THREADS = 128 };

/* The order of the k-th largest value, 0 when fewer than k are there. All threads of the
 * block; get(i) gives bw_cuda_order of value i < n, 0 = absent. */
template <class GET> __device__ uint32_t kth_largest(uint32_t n, uint32_t k, GET get)
{
    __shared__ uint32_t bins[256], s_prefix, s_left;
    uint32_t prefix = 0, left = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x)
            bins[i] = 0;
        __syncthreads();
        for (uint32_t i0 = 0; i0 < n; i0 += blockDim.x) {
            const uint32_t i = i0 + threadIdx.x;
            const uint32_t o = i < n ? get(i) : 0;
            const bool in = o != 0 && (shift == 24 || (o >> shift >> 8) == prefix);
            const uint32_t active = __ballot_sync(~0u, in);
            if (in) {
                const uint32_t bin = o >> shift & 255u;
                const uint32_t peers = __match_any_sync(active, bin);
                if ((int)(threadIdx.x & 31) == __ffs(peers) - 1)
                    atomicAdd(&bins[bin], __popc(peers));
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int b = 255;
            while (b >= 0 && bins[b] < left)
                left -= bins[b--];
            s_prefix = b < 0 ? ~0u : prefix << 8 | (uint32_t)b;
            s_left = left;
        }
        __syncthreads();
        if (s_prefix == ~0u && shift == 24)
            return 0;
        prefix = s_prefix;
        left = s_left;
        __syncthreads();
    }
    return prefix;
}

__device__ __forceinline__ float order_value(uint32_t o)
{
    return bw_cuda_float((o & 0x80000000u) ? o ^ 0x80000000u : ~o);
}

/* The query's span that holds the group. */
__device__ __forceinline__ const pass_span *span_of(const select_launch &p, uint32_t q, uint32_t group)
{
    uint32_t lo = p.span0[q], hi = p.span0[q + 1];
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (p.spans[mid].group0 <= group)
            lo = mid;
        else
            hi = mid;
    }
    return p.spans + lo;
}

__global__ void __launch_bounds__(SELECT_THREADS) bw_cuda_select(const select_launch p)
{
    __shared__ uint32_t count;
    const uint32_t q = blockIdx.x, n = p.groups[q];
    const float *lows = p.lows + p.low0[q];
    const bw_cuda_query form = p.forms[q];
    if (threadIdx.x == 0)
        count = 0;
    const uint32_t o = kth_largest(n, p.k, [=](uint32_t i) { return bw_cuda_order(lows[i]); });
    const float tau = o == 0 ? -INFINITY : order_value(o);
    for (uint32_t i = threadIdx.x; i < n && !form.beyond; i += blockDim.x) {
        const float low = lows[i];
        if (low != low)
            continue;
        const pass_span *s = span_of(p, q, i);
        const float2 b = p.items[s->item].bounds[i - s->group0];
        if (!bw_cuda_group_reaches(low, bw_cuda_group_error(&form, b.x, b.y), tau))
            continue;
        const uint32_t at = atomicAdd(&count, 1);
        if (at < p.groups_max)
            p.chosen[(size_t)q * p.groups_max + at] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t flags = (form.beyond ? (uint32_t)BW_GPU_BEYOND : 0u) |
                               (count > p.groups_max ? (uint32_t)BW_GPU_MORE_GROUPS : 0u);
        p.answers[q] = {0, flags, count, 0};
    }
}

/* Four elements from i on, decoded; those past dim come back as they are and are not used. */
template <int DTYPE>
__device__ __forceinline__ void load_four(const uint8_t *row, uint32_t i, float scale, float x[4])
{
    if constexpr (DTYPE == BW_GPU_F32) {
        const float4 v = __ldg((const float4 *)(row + (size_t)i * 4));
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    } else if constexpr (DTYPE == BW_GPU_I8) {
        const uint32_t v = __ldg((const uint32_t *)(row + i));
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[j] = bw_cuda_from_i8((int8_t)(v >> 8 * j), scale);
    } else {
        const uint2 v = __ldg((const uint2 *)(row + (size_t)i * 2));
        const uint32_t w[2] = {v.x, v.y};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint16_t h = (uint16_t)(w[j / 2] >> 16 * (j & 1));
            x[j] = DTYPE == BW_GPU_F16 ? bw_cuda_from_f16(h) : bw_cuda_from_bf16(h);
        }
    }
}

/* The canonical sum of one row; all four lanes of the row, of which lane 0 has the result. */
template <int DTYPE>
__device__ __forceinline__ float row_sum(const uint8_t *row, float scale, const float *query,
                                         uint32_t dim, bool euclid, uint32_t l)
{
    float s[4] = {0, 0, 0, 0};
    const uint32_t whole = dim & ~(uint32_t)(BW_CUDA_SUMS - 1);
#pragma unroll 4
    for (uint32_t i = l * 4; i < whole; i += BW_CUDA_SUMS) {
        float x[4];
        load_four<DTYPE>(row, i, scale, x);
#pragma unroll
        for (int j = 0; j < 4; j++)
            s[j] = bw_cuda_step(euclid, __ldg(query + i + j), x[j], s[j]);
    }
    if (whole + l * 4 < dim) {
        const uint32_t i = whole + l * 4;
        float x[4];
        load_four<DTYPE>(row, i, scale, x); /* strides are whole slices: inside the row's bytes */
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < dim)
                s[j] = bw_cuda_step(euclid, __ldg(query + i + j), x[j], s[j]);
    }
#pragma unroll
    for (int o = 2; o > 0; o /= 2)
#pragma unroll
        for (int j = 0; j < 4; j++)
            s[j] = bw_cuda_add(s[j], __shfl_xor_sync(~0u, s[j], o));
    return bw_cuda_fold4(s);
}

template <int DTYPE>
__global__ void __launch_bounds__(RESCORE_THREADS) bw_cuda_rescore(const select_launch p)
{
    const uint32_t q = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const uint32_t place = blockIdx.x * (RESCORE_THREADS / 32) + warp;
    const uint32_t n = min(p.answers[q].groups, p.groups_max);
    if (place >= n)
        return;
    const uint32_t group = p.chosen[(size_t)q * p.groups_max + place];
    const pass_span *s = span_of(p, q, group);
    const pass_item &item = p.items[s->item];
    const uint32_t g = group - s->group0, first = g * BW_GPU_GROUP;
    const uint32_t left = item.rows - first;
    const uint32_t *bits = p.reads[s->read].bits;
    const uint32_t word = (bits ? bits[g] : ~0u) & (left >= 32 ? ~0u : (1u << left) - 1);
    const float *query = p.vectors + (size_t)q * p.dim;
    float *keys = p.keys + ((size_t)q * p.groups_max + place) * BW_GPU_GROUP;
    for (uint32_t r0 = 0; r0 < BW_GPU_GROUP; r0 += 8) {
        const uint32_t r = r0 + lane / BW_CUDA_LANES;
        const bool take = word >> r & 1;
        if (!__any_sync(~0u, take)) {
            if (lane % BW_CUDA_LANES == 0)
                keys[r] = bw_cuda_absent();
            continue;
        }
        /* A row that may not be read is not: its lanes take the first that may. */
        const uint32_t mine = take ? r : (uint32_t)__ffs(word) - 1;
        const uint8_t *row = item.stored + (size_t)(first + mine) * p.stored_stride;
        const float scale = DTYPE == BW_GPU_I8 ? item.factors[first + mine].x : 1;
        const float sum = row_sum<DTYPE>(row, scale, query, p.dim, p.euclid != 0, lane % BW_CUDA_LANES);
        if (lane % BW_CUDA_LANES == 0)
            keys[r] = take ? bw_cuda_key(p.euclid != 0, sum) : bw_cuda_absent();
    }
}

__global__ void __launch_bounds__(FINISH_THREADS) bw_cuda_finish(const select_launch p)
{
    __shared__ uint32_t count;
    const uint32_t q = blockIdx.x;
    bw_gpu_answer a = p.answers[q];
    const uint32_t n = min(a.groups, p.groups_max) * BW_GPU_GROUP;
    const float *keys = p.keys + (size_t)q * p.groups_max * BW_GPU_GROUP;
    if (threadIdx.x == 0)
        count = 0;
    const uint32_t o = kth_largest(n, p.k, [=](uint32_t i) { return bw_cuda_order(keys[i]); });
    const uint32_t least = o == 0 ? 1 : o;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float key = keys[i];
        if (bw_cuda_order(key) < least)
            continue;
        const uint32_t at = atomicAdd(&count, 1);
        if (at >= p.hits_max)
            continue;
        const uint32_t group = p.chosen[(size_t)q * p.groups_max + i / BW_GPU_GROUP];
        const pass_span *s = span_of(p, q, group);
        p.hits[(size_t)q * p.hits_max + at] = {key, p.items[s->item].number,
                                               (group - s->group0) * BW_GPU_GROUP + i % BW_GPU_GROUP};
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        a.ties = count;
        a.n = min(count, p.hits_max);
        if (count > p.hits_max)
            a.flags |= BW_GPU_MORE_HITS;
        if (a.flags == 0)
            a.flags = BW_GPU_COVERED;
        p.answers[q] = a;
    }
}
#endif
