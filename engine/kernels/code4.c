/* Chooses the kernels over 4-bit codes, at the level that kernels.c chose (so BW_ISA
 * holds here too), with VNNI where the CPU has it. Compiled without ISA flags. */
#include "code4_isa.h"

#include <stdatomic.h>

enum { LANES = 16, SPAN_MIN = 2 * BW_CODE4_LINE /* 16 · 15 · 127 fit whatever the query */ };

/* Whether bytes from … to − 1 of both planes stay in 16 bits. */
static bool span_fits(const int8_t *q, size_t stride, size_t from, size_t to)
{
    int32_t plus[LANES] = {0}, minus[LANES] = {0};
    for (const int8_t *plane = q; plane <= q + stride; plane += stride)
        for (size_t i = from; i < to; i += LANES)
            for (size_t j = 0; j < LANES; j++) {
                const int32_t v = plane[i + j];
                plus[j] += v > 0 ? v : 0;
                minus[j] += v < 0 ? -v : 0;
            }
    bool fits = true;
    for (size_t j = 0; j < LANES; j += 2)
        fits = fits && 15 * (plus[j] + plus[j + 1]) <= INT16_MAX &&
               15 * (minus[j] + minus[j + 1]) <= INT16_MAX;
    return fits;
}

size_t bw_code4_span(const int8_t *q, size_t stride)
{
    for (size_t span = stride;; span = (span / 2 + SPAN_MIN - 1) / SPAN_MIN * SPAN_MIN) {
        bool fits = true;
        for (size_t i = 0; i < stride && fits; i += span)
            fits = span_fits(q, stride, i, stride - i < span ? stride : i + span);
        if (fits || span <= SPAN_MIN)
            return span;
    }
}

const bw_code4 *bw_code4_isa(const char *isa)
{
    if (!isa)
        return NULL;
    if (strcmp(isa, "scalar") == 0)
        return &bw_code4__scalar;
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0 && bw_kernels_isa("avx2"))
        return &bw_code4__avx2;
    if (strcmp(isa, "avx512") == 0 && bw_kernels_isa("avx512"))
        return &bw_code4__avx512;
    if (strcmp(isa, "avx512vnni") == 0 && bw_kernels_isa("avx512") &&
        __builtin_cpu_supports("avx512vnni"))
        return &bw_code4__avx512vnni;
#endif
    return NULL;
}

static const bw_code4 *code4_choose(void)
{
    const char *isa = bw_kernels_get()->isa;
    const bw_code4 *k =
        bw_code4_isa(strcmp(isa, "avx512") == 0 ? "avx512vnni" : isa);
    if (!k)
        k = bw_code4_isa(isa);
    return k ? k : &bw_code4__scalar;
}

const bw_code4 *bw_code4_get(void)
{
    static _Atomic(const bw_code4 *) chosen; /* as in kernels.c: all choose the same */
    const bw_code4 *k = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!k) {
        k = code4_choose();
        atomic_store_explicit(&chosen, k, memory_order_release);
    }
    return k;
}
