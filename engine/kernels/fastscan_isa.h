/* What the FastScan files share: the table of each ISA, bounds, and the float loops in
 * the compiler's own vectors of BW_W floats (4, 8 or 16), which the includer sets beside
 * sign_bits(), a mask of BW_W lanes as bits.
 *
 * The loops add, subtract and multiply, never fuse, and hold 16 partial sums whatever
 * BW_W is; so a wider vector changes the speed and nothing else. */
#ifndef BW_FASTSCAN_ISA_H
#define BW_FASTSCAN_ISA_H
#include "fastscan.h"

#include <math.h>

extern const bw_fastscan bw_fastscan__scalar;
#if defined(__x86_64__)
extern const bw_fastscan bw_fastscan__avx2;   /* needs AVX2, FMA and F16C */
extern const bw_fastscan bw_fastscan__avx512; /* needs AVX-512 F, BW, DQ, VL besides */
#endif

enum {
    FS_STEPS = 61,   /* of a group's largest Σ|q|: four roundings bring it to 63 at most */
    FS_CHUNK = 4096, /* dimensions whose sums stay below 2^16: 63·4096/4 */
    FS_SUMS = 16,
};

/* 61/largest, or 0 where that is no number to divide by. `bits` are of a float ≥ 0 or of
 * a NaN, so that one comparison of whole numbers finds infinity and NaN too. */
static inline float fs_steps(int32_t bits, float steps, float *step)
{
    const float largest = bw_fastscan_float((uint32_t)bits);
    if (bits >= 0x7F800000 || largest < 0x1p-100f) {
        *step = 0;
        return 0;
    }
    *step = largest / steps;
    return steps / largest;
}

#ifdef BW_W
typedef float vf __attribute__((vector_size(4 * BW_W), may_alias));
typedef float vfu __attribute__((vector_size(4 * BW_W), may_alias, aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * BW_W), may_alias));
typedef int32_t viu __attribute__((vector_size(4 * BW_W), may_alias, aligned(4)));
enum { NV = FS_SUMS / BW_W };

/* Bits of the lanes where mask is all ones, lane 0 lowest. */
static inline uint32_t sign_bits(vi mask);

static inline float fs_fold(const vf v[NV])
{
    float s[FS_SUMS];
    memcpy(s, v, sizeof s);
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            s[i] += s[i + width];
    return s[0];
}

static inline bw_fastscan_signs fs_signs(const float *x, const float *c, size_t dim,
                                         uint8_t *bits)
{
    const vi top = (vi){0} + INT32_MIN;
    vf rr[NV] = {0}, rw[NV] = {0}, cw[NV] = {0}, rc[NV] = {0};
    for (size_t i = 0; i < dim; i += FS_SUMS) {
        uint32_t b = 0;
        for (size_t j = 0; j < NV; j++) {
            const vf cj = *(const vfu *)(c + i + j * BW_W);
            const vf r = *(const vfu *)(x + i + j * BW_W) - cj;
            const vi up = (vi)(r > (vf){0});
            rr[j] += r * r;
            rw[j] += (vf)((vi)r & ~top);
            cw[j] += (vf)((vi)cj ^ (~up & top));
            rc[j] += r * cj;
            b |= sign_bits(up) << (j * BW_W);
        }
        bits[i / 8] = (uint8_t)b;
        bits[i / 8 + 1] = (uint8_t)(b >> 8);
    }
    return (bw_fastscan_signs){.rr = fs_fold(rr),
                               .rw = fs_fold(rw) * 0.5f,
                               .cw = fs_fold(cw) * 0.5f,
                               .rc = fs_fold(rc)};
}

static inline void fs_grid(const float *x, size_t dim, float scale, float *xv, float *vv)
{
    const vf magic = (vf){0} + 0x1.8p23f; /* adding it leaves no room for a fraction */
    vf a[NV] = {0}, b[NV] = {0};
    for (size_t i = 0; i < dim; i += FS_SUMS)
        for (size_t j = 0; j < NV; j++) {
            const vf xj = *(const vfu *)(x + i + j * BW_W);
            const vf v = (xj * scale + magic) - magic;
            a[j] += xj * v;
            b[j] += v * v;
        }
    *xv = fs_fold(a);
    *vv = fs_fold(b);
}

/* One level inside a vector: lane i and lane i ^ h become sum and difference. */
#if BW_W == 4
#define FS_NEG(h)                                                                    \
    (vi) { 0, (h) == 1 ? INT32_MIN : 0, (h) == 2 ? INT32_MIN : 0, INT32_MIN }
#define FS_SWAP(v, h) __builtin_shufflevector(v, v, 0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h))
#elif BW_W == 8
#define FS_N(i, h) ((i) & (h) ? INT32_MIN : 0)
#define FS_NEG(h)                                                                    \
    (vi) { 0, FS_N(1, h), FS_N(2, h), FS_N(3, h), FS_N(4, h), FS_N(5, h), FS_N(6, h), \
           FS_N(7, h) }
#define FS_SWAP(v, h)                                                                 \
    __builtin_shufflevector(v, v, 0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h), 4 ^ (h), 5 ^ (h), \
                            6 ^ (h), 7 ^ (h))
#else
#define FS_N(i, h) ((i) & (h) ? INT32_MIN : 0)
#define FS_NEG(h)                                                                     \
    (vi) { 0, FS_N(1, h), FS_N(2, h), FS_N(3, h), FS_N(4, h), FS_N(5, h), FS_N(6, h),  \
           FS_N(7, h), FS_N(8, h), FS_N(9, h), FS_N(10, h), FS_N(11, h), FS_N(12, h),  \
           FS_N(13, h), FS_N(14, h), FS_N(15, h) }
#define FS_SWAP(v, h)                                                                  \
    __builtin_shufflevector(v, v, 0 ^ (h), 1 ^ (h), 2 ^ (h), 3 ^ (h), 4 ^ (h), 5 ^ (h), \
                            6 ^ (h), 7 ^ (h), 8 ^ (h), 9 ^ (h), 10 ^ (h), 11 ^ (h),    \
                            12 ^ (h), 13 ^ (h), 14 ^ (h), 15 ^ (h))
#endif
#define FS_LEVEL(v, h) ((vf)((vi)(v) ^ FS_NEG(h)) + FS_SWAP(v, h))

static inline vf fs_inside(vf v)
{
    v = FS_LEVEL(v, 1);
    v = FS_LEVEL(v, 2);
#if BW_W >= 8
    v = FS_LEVEL(v, 4);
#endif
#if BW_W == 16
    v = FS_LEVEL(v, 8);
#endif
    return v;
}

/* Two levels (h and 2h) of the four vectors at p, p + h, p + 2h, p + 3h; `first`: times
 * *first, and after the levels inside them. */
static inline __attribute__((always_inline)) void fs_two_levels(float *p, size_t h, const vf *first)
{
    vf a = *(vf *)p, b = *(vf *)(p + h), c = *(vf *)(p + 2 * h), d = *(vf *)(p + 3 * h);
    if (first) {
        a = fs_inside(a * *first);
        b = fs_inside(b * *first);
        c = fs_inside(c * *first);
        d = fs_inside(d * *first);
    }
    const vf ab = a + b, ba = a - b, cd = c + d, dc = c - d;
    *(vf *)p = ab + cd;
    *(vf *)(p + h) = ba + dc;
    *(vf *)(p + 2 * h) = ab - cd;
    *(vf *)(p + 3 * h) = ba - dc;
}

/* Hadamard transform in place; n a power of two ≥ 64, factor 1/√n. */
static inline void fs_hadamard(float *v, size_t n, const vf factor)
{
    for (size_t i = 0; i < n; i += 4 * BW_W)
        fs_two_levels(v + i, BW_W, &factor);
    size_t h = 4 * BW_W;
    for (; 2 * h < n; h *= 4)
        for (size_t i = 0; i < n; i += 4 * h)
            for (size_t j = i; j < i + h; j += BW_W)
                fs_two_levels(v + j, h, NULL);
    if (h < n)
        for (size_t j = 0; j < h; j += BW_W) {
            const vf a = *(vf *)(v + j), b = *(vf *)(v + j + h);
            *(vf *)(v + j) = a + b;
            *(vf *)(v + j + h) = a - b;
        }
}

static inline void fs_rotate(float *v, size_t dim, size_t top, const uint32_t *flips)
{
    const vf factor = (vf){0} + (float)(1 / sqrt((double)top));
    for (size_t round = 0; round < 4; round++, flips += dim) {
        for (size_t i = 0; i < dim; i += BW_W)
            *(vi *)(v + i) ^= *(const viu *)(flips + i);
        fs_hadamard(round % 2 ? v + (dim - top) : v, top, factor);
        if (top == dim)
            continue;
        /* Twice 1/√2 is an exact half, every other round. */
        const vf half = (vf){0} + (round % 2 ? 0.5f : 1.0f);
        for (size_t i = 0; i < dim / 2; i += BW_W) {
            const vf a = *(vf *)(v + i) * half, b = *(vf *)(v + dim / 2 + i) * half;
            *(vf *)(v + i) = a + b;
            *(vf *)(v + dim / 2 + i) = a - b;
        }
    }
}
#endif
#endif
