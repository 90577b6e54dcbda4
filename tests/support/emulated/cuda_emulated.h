/* The instructions of engine/index/cuda_unit.cuh on a CPU, after the PTX ISA's figures of
 * the fragments (mma.m16n8k16 and m16n8k32, ldmatrix). The tensor unit's sums are as bad as
 * the bound of cuda_arith.h allows: four products and the accumulator at a time, each cut
 * towards zero at 24 bits below the largest. */
#ifndef CUDA_EMULATED_H
#define CUDA_EMULATED_H
#include "engine/index/cuda_arith.h"

#define BW_CUDA_SHARED(name) uint8_t *const name = emu_shared()
#define BW_CUDA_LAUNCH(kernel, grid, block, shared, stream, ...) \
    ((void)(stream), emu_launch((grid), (block), (shared), [=] { kernel(__VA_ARGS__); }))

void copy16(uint32_t to, const void *from, bool take);
void copy_commit();
void emu_copy_wait(unsigned left);
template <int N> static inline void copy_wait()
{
    emu_copy_wait(N);
}

static inline void load4(uint32_t (&r)[4], uint32_t at)
{
    const uint8_t *all = emu_meet(~0u, &at, sizeof at);
    const unsigned lane = threadIdx.x & 31;
    for (unsigned i = 0; i < 4; i++)
        memcpy(&r[i], emu_shared() + emu_get<uint32_t>(all, i * 8 + lane / 4) + lane % 4 * 4, 4);
}

float emu_sum_block(float c, const double *products, int n); /* n products into c */

struct emu_operands {
    uint32_t a[4], b[2];
};

/* 32 bytes of row `row` of A or of column `col` of B, from the lanes that hold them. */
static inline void emu_row(const uint8_t *all, unsigned row, uint32_t out[8])
{
    for (unsigned t = 0; t < 4; t++) {
        const emu_operands o = emu_get<emu_operands>(all, row % 8 * 4 + t);
        out[t] = o.a[row / 8];
        out[4 + t] = o.a[2 + row / 8];
    }
}
static inline void emu_col(const uint8_t *all, unsigned col, uint32_t out[8])
{
    for (unsigned t = 0; t < 4; t++) {
        const emu_operands o = emu_get<emu_operands>(all, col * 4 + t);
        out[t] = o.b[0];
        out[4 + t] = o.b[1];
    }
}

template <int T> struct unit;
template <bool BF> struct emu_float_unit {
    using sum = float;
    static double value(uint32_t w, unsigned i)
    {
        const uint16_t h = (uint16_t)(w >> 16 * i);
        return BF ? bw_cuda_from_bf16(h) : bw_cuda_from_f16(h);
    }
    static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        const emu_operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
        const uint8_t *all = emu_meet(~0u, &mine, sizeof mine);
        const unsigned lane = threadIdx.x & 31;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t x[8], y[8];
            double p[16];
            emu_row(all, lane / 4 + i / 2 * 8, x);
            emu_col(all, lane % 4 * 2 + i % 2, y);
            for (unsigned k = 0; k < 16; k++)
                p[k] = value(x[k / 2], k % 2) * value(y[k / 2], k % 2);
            for (unsigned k = 0; k < 16; k += 4)
                c[i] = emu_sum_block(c[i], p + k, 4);
        }
    }
};
template <> struct unit<0> : emu_float_unit<false> {};
template <> struct unit<1> : emu_float_unit<true> {};
template <> struct unit<2> {
    using sum = int32_t;
    static void mma(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        const emu_operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
        const uint8_t *all = emu_meet(~0u, &mine, sizeof mine);
        const unsigned lane = threadIdx.x & 31;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t x[8], y[8];
            emu_row(all, lane / 4 + i / 2 * 8, x);
            emu_col(all, lane % 4 * 2 + i % 2, y);
            for (unsigned k = 0; k < 32; k++)
                c[i] += (int8_t)(x[k / 4] >> k % 4 * 8) * (int8_t)(y[k / 4] >> k % 4 * 8);
        }
    }
};
#endif
