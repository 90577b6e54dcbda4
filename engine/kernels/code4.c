/* Chooses the kernels over 4-bit codes, at the level that kernels.c chose (so BW_ISA
 * holds here too), with VNNI where the CPU has it. Compiled without ISA flags. */
#include "code4_isa.h"

#include <stdatomic.h>

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
