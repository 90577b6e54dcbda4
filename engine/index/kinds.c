/* The table of index kinds, and the start of the libraries below them.
 *
 * Compiled without ISA flags: bw_index_start must be able to run, and to say no in
 * words, on a CPU on which FAISS would die of an illegal instruction. */
#include "kinds.h"
#include "bw_faiss.h"

/* OpenBLAS keeps threads of its own; FAISS reaches it when it trains an IVF. Declared
 * here because its header's place differs between the two Debians. */
extern void openblas_set_num_threads(int n);

const bw_index_ops *bw_index_kind(const char *name)
{
    static const bw_index_ops *const kinds[] = {&bw_index__flat, &bw_index__graph,
                                                &bw_index__faiss_hnsw, &bw_index__faiss_ivf,
                                                &bw_index__cuvs, &bw_index__null};
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

bw_status bw_index_start(bw_ctx *ctx)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi2"))
        return bw_fail(
            ctx, BW_EUNAVAILABLE,
            "this CPU lacks AVX2, FMA or BMI2, which the FAISS library needs");
#else
    (void)ctx;
#endif
    /* One thread: the same rows give the same index, and a build takes one core.
     * FAISS's own BLAS threshold is left alone: a search hands over one query at a
     * time, which never goes to BLAS, and an IVF's training would be ten times slower
     * without it. */
    openblas_set_num_threads(1);
    if (bw_faiss_stop_install() != BW_FAISS_OK)
        return bw_fail_nomem(ctx);
    return BW_OK;
}

static int stop_asked(const void *flag)
{
    return atomic_load_explicit((const atomic_bool *)flag, memory_order_relaxed);
}

void bw_index_stop_when(const atomic_bool *flag)
{
    bw_faiss_stop_when(flag ? stop_asked : NULL, flag);
}
