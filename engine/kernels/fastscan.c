/* FastScan: which ISA serves, and single lanes of a block, which need no wide code.
 *
 * This file is compiled without ISA flags, so that it can run on any CPU and say no. */
#include "fastscan_isa.h"
#include "kernels.h"

#include <assert.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool cpu_has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

const bw_fastscan *bw_fastscan_isa(const char *isa)
{
    const bw_kernels *k = bw_kernels_isa(isa); /* knows what the CPU has */
    if (!k)
        return NULL;
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0)
        return cpu_has_f16c() ? &bw_fastscan__avx2 : NULL;
    if (strcmp(isa, "avx512") == 0)
        return cpu_has_f16c() ? &bw_fastscan__avx512 : NULL;
#endif
    return &bw_fastscan__scalar;
}

const bw_fastscan *bw_fastscan_get(void)
{
    static _Atomic(const bw_fastscan *) chosen;
    const bw_fastscan *k = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!k) {
        k = bw_fastscan_isa(bw_kernels_get()->isa);
        if (!k)
            k = &bw_fastscan__scalar;
        atomic_store_explicit(&chosen, k, memory_order_release);
    }
    return k;
}

/* The byte of group 0 that holds a lane, and by how far its nibble is shifted. */
static size_t lane_byte(uint32_t lane)
{
    assert(lane < BW_FASTSCAN_LANES);
    return 2 * (lane % 8) + lane / 8 % 2;
}
static unsigned lane_shift(uint32_t lane)
{
    return lane < 16 ? 0 : 4;
}

void bw_fastscan_put(uint8_t *codes, size_t dim, uint32_t lane, const uint8_t *bits)
{
    uint8_t *at = codes + lane_byte(lane);
    const unsigned shift = lane_shift(lane), keep = 0xF0u >> shift;
    for (size_t i = 0; i < dim / 8; i++, at += 32) {
        at[0] = (uint8_t)((at[0] & keep) | (bits[i] & 15u) << shift);
        at[16] = (uint8_t)((at[16] & keep) | (unsigned)bits[i] >> 4 << shift);
    }
}

void bw_fastscan_take(const uint8_t *codes, size_t dim, uint32_t lane, uint8_t *bits)
{
    const uint8_t *at = codes + lane_byte(lane);
    const unsigned shift = lane_shift(lane);
    for (size_t i = 0; i < dim / 8; i++, at += 32)
        bits[i] = (uint8_t)((at[0] >> shift & 15u) | (at[16] >> shift & 15u) << 4);
}
