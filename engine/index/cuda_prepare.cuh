/* What is worked out once: the forms and factors of rows when they are written, the parts
 * and the bound of queries, and the self-test of the tensor unit. A warp a row or query. */
#ifndef BW_CUDA_PREPARE_CUH
#define BW_CUDA_PREPARE_CUH
#include "cuda_pass.cuh"

struct rows_launch {
    const uint8_t *stored; /* first row; stored_stride apart */
    uint8_t *form;         /* f32 only: its f16 form is written here */
    const float *scales;   /* int8 only */
    float2 *factors;       /* of the first row; written */
    float2 *norms;         /* norm, error of each row; written */
    uint32_t n, dim, dtype, euclid, stored_stride, form_stride;
};

__device__ __forceinline__ float stored_get(uint32_t dtype, const uint8_t *row, uint32_t i, float scale)
{
    switch (dtype) {
    case BW_GPU_F32:
        return ((const float *)row)[i];
    case BW_GPU_F16:
        return bw_cuda_from_f16(((const uint16_t *)row)[i]);
    case BW_GPU_BF16:
        return bw_cuda_from_bf16(((const uint16_t *)row)[i]);
    default:
        return bw_cuda_from_i8(((const int8_t *)row)[i], scale);
    }
}

__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

__device__ __forceinline__ double warp_sum(double v)
{
#pragma unroll
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

/* fmaxf passes over a NaN; here it must count as beyond all range. */
__device__ __forceinline__ float size_of(float x)
{
    const float a = fabsf(x);
    return a <= 0x1p126f ? a : INFINITY;
}

__global__ void bw_cuda_rows(const rows_launch p)
{
    const uint32_t row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= p.n)
        return;
    const uint8_t *stored = p.stored + (size_t)row * p.stored_stride;
    const float scale = p.dtype == BW_GPU_I8 ? p.scales[row] : 1;
    float most = 0;
    for (uint32_t i = lane; i < p.dim; i += 32)
        most = fmaxf(most, size_of(stored_get(p.dtype, stored, i, scale)));
    most = warp_max(most);
    const bool fine = bw_cuda_in_range(most);
    const float unit = p.dtype == BW_GPU_F32 && fine ? bw_cuda_unit(p.dtype, most) : 1;
    double x2 = 0, e2 = 0;
    for (uint32_t i = lane; fine && i < p.dim; i += 32) {
        const float x = stored_get(p.dtype, stored, i, scale);
        x2 += (double)x * x;
        if (p.dtype == BW_GPU_F32) {
            const uint16_t h = bw_cuda_to_f16(x / unit);
            const double e = (double)x - (double)(bw_cuda_from_f16(h) * unit);
            e2 += e * e;
            ((uint16_t *)(p.form + (size_t)row * p.form_stride))[i] = h;
        }
    }
    for (uint32_t i = lane; !fine && p.dtype == BW_GPU_F32 && i < p.dim; i += 32)
        ((uint16_t *)(p.form + (size_t)row * p.form_stride))[i] = 0;
    const bw_cuda_row f = bw_cuda_row_factors(p.dtype, p.euclid != 0, most,
                                              p.dtype == BW_GPU_I8 ? scale : unit, warp_sum(x2),
                                              warp_sum(e2));
    if (lane == 0) {
        p.factors[row] = make_float2(f.scale, f.add);
        p.norms[row] = make_float2(f.norm, f.error);
    }
}

/* bounds[g] of `n` groups from the norms of their 32 rows each; rows never written are 0. */
__global__ void bw_cuda_groups(const float2 *norms, float2 *bounds, uint32_t n)
{
    const uint32_t g = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (g >= n)
        return;
    const float2 f = norms[(size_t)g * BW_GPU_GROUP + lane];
    const float x = warp_max(f.x), e = warp_max(f.y);
    if (lane == 0)
        bounds[g] = make_float2(x, e);
}

/* vectors nq × dim → parts (zeros behind dim are there already) and forms. */
__global__ void bw_cuda_queries(const float *vectors, uint8_t *parts, bw_cuda_query *forms,
                                uint32_t nq, uint32_t dim, uint32_t dtype, uint32_t euclid,
                                uint32_t stride)
{
    const uint32_t q = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (q >= nq)
        return;
    const float *v = vectors + (size_t)q * dim;
    const uint32_t nparts = bw_cuda_parts(dtype);
    uint8_t *high = parts + (size_t)q * nparts * stride, *low = high + stride;
    float most = 0;
    for (uint32_t i = lane; i < dim; i += 32)
        most = fmaxf(most, size_of(v[i]));
    most = warp_max(most);
    const bool fine = bw_cuda_in_range(most);
    const float unit = fine ? bw_cuda_unit(dtype, most) : 1;
    double q2 = 0, e2 = 0;
    for (uint32_t i = lane; i < stride / bw_cuda_form_bytes(dtype); i += 32) {
        uint16_t part[2] = {0, 0};
        if (fine && i < dim) {
            const double e = (double)v[i] - (double)bw_cuda_query_parts(dtype, v[i], unit, part);
            q2 += (double)v[i] * v[i];
            e2 += e * e;
        }
        if (dtype == BW_GPU_I8) {
            high[i] = (uint8_t)part[0];
            low[i] = (uint8_t)part[1];
        } else {
            ((uint16_t *)high)[i] = part[0];
            if (nparts == 2)
                ((uint16_t *)low)[i] = part[1];
        }
    }
    q2 = warp_sum(q2);
    e2 = warp_sum(e2);
    if (lane == 0)
        forms[q] = bw_cuda_query_bound(dtype, euclid != 0, dim, most, unit, q2, e2);
}

/* ---- self-test: c + A·B of one 16×8 tile, 32 bytes deep, as the unit does it ---- */

template <int T>
__global__ void bw_cuda_test(const uint8_t *a, const uint8_t *b, const typename unit<T>::sum *c,
                             typename unit<T>::sum *out)
{
    const uint32_t lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    a += (size_t)blockIdx.x * 16 * 32;
    b += (size_t)blockIdx.x * 8 * 32;
    c += (size_t)blockIdx.x * 16 * 8;
    out += (size_t)blockIdx.x * 16 * 8;
    uint32_t fa[4];
    for (uint32_t i = 0; i < 4; i++)
        fa[i] = *(const uint32_t *)(a + (g + (i & 1) * 8) * 32 + (i >> 1) * 16 + t * 4);
    const uint32_t b0 = *(const uint32_t *)(b + g * 32 + t * 4),
                   b1 = *(const uint32_t *)(b + g * 32 + 16 + t * 4);
    typename unit<T>::sum d[4];
    for (uint32_t i = 0; i < 4; i++)
        d[i] = c[(g + (i >> 1) * 8) * 8 + t * 2 + (i & 1)];
    unit<T>::mma(d, fa, b0, b1);
    for (uint32_t i = 0; i < 4; i++)
        out[(g + (i >> 1) * 8) * 8 + t * 2 + (i & 1)] = d[i];
}
#endif
