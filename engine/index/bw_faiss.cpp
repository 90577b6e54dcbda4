/* The only C++ of the engine: FAISS calls that its C API lacks. Compiles against FAISS
 * 1.7.3 (Debian 12, built from its source package) and 1.11 (Debian 13).
 *
 * No exception leaves this file. Leaves out whatever the C API of both versions has:
 * making, training, adding, reading and writing are in faiss.c. */
#include "bw_faiss.h"

#include <cstdio>
#include <exception>
#include <faiss/impl/AuxIndexStructures.h>
#include <faiss/impl/IDSelector.h>
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <mutex>
#include <new>
#include <utility>

namespace
{
int fail(int rc, const char *what, char *err, size_t cap)
{
    if (err && cap)
        std::snprintf(err, cap, "%s", what);
    return rc;
}

struct Permit final : faiss::IDSelector {
    const bw_faiss_permit *p;
    explicit Permit(const bw_faiss_permit *permit) : p(permit)
    {
    }
    bool is_member(int64_t id) const override
    {
        size_t bit = size_t(id);
        if (p->map) {
            if (bit >= p->nmap)
                return false;
            bit = p->map[bit];
        }
        return bit < p->nbits && (p->words[bit / 64] >> (bit % 64) & 1);
    }
};

struct Distance final : faiss::FlatCodesDistanceComputer {
    const size_t dim;
    bw_faiss_kernel *const kernel;
    const float *query = nullptr;
    Distance(const faiss::IndexFlat &rows, bw_faiss_kernel *k)
        : FlatCodesDistanceComputer(rows.codes.data(), rows.code_size),
          dim(size_t(rows.d)), kernel(k)
    {
    }
    const float *row(int64_t i) const
    {
        return reinterpret_cast<const float *>(codes + size_t(i) * code_size);
    }
    void set_query(const float *x) override
    {
        query = x;
    }
    float symmetric_dis(int64_t i, int64_t j) override
    {
        return kernel(row(i), row(j), dim);
    }
    float distance_to_code(const uint8_t *code) override
    {
        return kernel(query, reinterpret_cast<const float *>(code), dim);
    }
};

/* Written to a file it is the IndexFlat that it is. */
struct Rows final : faiss::IndexFlat {
    bw_faiss_kernel *const kernel;
    Rows(faiss::IndexFlat &from, bw_faiss_kernel *k)
        : IndexFlat(from.d, from.metric_type), kernel(k)
    {
        codes = std::move(from.codes);
        ntotal = from.ntotal;
    }
    faiss::FlatCodesDistanceComputer *get_FlatCodesDistanceComputer() const override
    {
        return new Distance(*this, kernel);
    }
};

const faiss::Index *cpp(const FaissIndex_H *ix)
{
    return reinterpret_cast<const faiss::Index *>(ix);
}
} // namespace

extern "C" int bw_faiss_search(const FaissIndex_H *cix, const float *x, int64_t k,
                               int effort, const bw_faiss_permit *permit, float *dis,
                               int64_t *rows, char *err, size_t errcap)
{
    try {
        const faiss::Index *ix = cpp(cix);
        Permit selector(permit);
        faiss::IDSelector *sel = permit ? &selector : nullptr;
        if (dynamic_cast<const faiss::IndexHNSW *>(ix)) {
            faiss::SearchParametersHNSW p;
            p.sel = sel;
            p.efSearch = effort;
            ix->search(1, x, k, dis, rows, &p);
        } else if (auto v = dynamic_cast<const faiss::IndexIVF *>(ix)) {
            faiss::SearchParametersIVF p;
            p.sel = sel;
            p.nprobe = size_t(effort);
            p.max_codes = v->max_codes;
            ix->search(1, x, k, dis, rows, &p);
        } else {
            return fail(BW_FAISS_UNSUPPORTED, "index type takes no permitted set", err,
                        errcap);
        }
        return BW_FAISS_OK;
    } catch (const std::bad_alloc &) {
        return fail(BW_FAISS_NOMEM, "out of memory", err, errcap);
    } catch (const std::exception &e) {
        return fail(BW_FAISS_ERROR, e.what(), err, errcap);
    } catch (...) {
        return fail(BW_FAISS_ERROR, "unknown exception", err, errcap);
    }
}

extern "C" int bw_faiss_seed(FaissIndex_H *cix, uint64_t seed)
{
    try {
        auto ix = reinterpret_cast<faiss::Index *>(cix);
        const int s = int((seed ^ seed >> 32) & 0x7FFFFFFF);
        if (auto h = dynamic_cast<faiss::IndexHNSW *>(ix))
            h->hnsw.rng = faiss::RandomGenerator(s);
        else if (auto v = dynamic_cast<faiss::IndexIVF *>(ix))
            v->cp.seed = s;
        else
            return BW_FAISS_UNSUPPORTED;
        return BW_FAISS_OK;
    } catch (...) {
        return BW_FAISS_ERROR;
    }
}

extern "C" int bw_faiss_set_kernel(FaissIndex_H *cix, bw_faiss_kernel *kernel)
{
    try {
        auto h =
            dynamic_cast<faiss::IndexHNSW *>(reinterpret_cast<faiss::Index *>(cix));
        if (!h)
            return BW_FAISS_OK;
        auto flat = dynamic_cast<faiss::IndexFlat *>(h->storage);
        if (!flat || !h->own_fields)
            return BW_FAISS_UNSUPPORTED;
        auto rows = new Rows(*flat, kernel);
        delete flat;
        h->storage = rows;
        return BW_FAISS_OK;
    } catch (const std::bad_alloc &) {
        return BW_FAISS_NOMEM;
    } catch (...) {
        return BW_FAISS_ERROR;
    }
}

extern "C" int bw_faiss_fits(const FaissIndex_H *cix, int hnsw, int l2, int64_t dim,
                             int64_t n)
{
    try {
        const faiss::Index *ix = cpp(cix);
        const auto metric = l2 ? faiss::METRIC_L2 : faiss::METRIC_INNER_PRODUCT;
        if (ix->d != dim || ix->ntotal != n || !ix->is_trained ||
            ix->metric_type != metric)
            return 0;
        if (hnsw) {
            auto h = dynamic_cast<const faiss::IndexHNSW *>(ix);
            auto s = h ? dynamic_cast<const faiss::IndexFlat *>(h->storage) : nullptr;
            return s && s->d == dim && s->ntotal == n &&
                   h->hnsw.levels.size() == size_t(n);
        }
        auto v = dynamic_cast<const faiss::IndexIVFFlat *>(ix);
        return v && v->quantizer && v->quantizer->d == dim &&
               v->quantizer->ntotal == int64_t(v->nlist);
    } catch (...) {
        return 0;
    }
}

extern "C" int64_t bw_faiss_nlist(const FaissIndex_H *cix)
{
    auto v = dynamic_cast<const faiss::IndexIVF *>(
        cpp(cix)); /* of a pointer: cannot throw */
    return v ? int64_t(v->nlist) : 0;
}

namespace
{
thread_local int (*stop_function)(const void *);
thread_local const void *stop_argument;

/* FAISS asks it from the thread that works: one thread a build (omp_set_num_threads).
 */
struct Stop final : faiss::InterruptCallback {
    bool want_interrupt() override
    {
        return stop_function && stop_function(stop_argument) != 0;
    }
};
} // namespace

extern "C" void bw_faiss_stop_when(int (*stop)(const void *), const void *arg)
{
    stop_function = stop;
    stop_argument = arg;
}

extern "C" int bw_faiss_stop_install(void)
{
    try {
        std::lock_guard<std::mutex> guard(faiss::InterruptCallback::lock);
        if (!faiss::InterruptCallback::instance)
            faiss::InterruptCallback::instance.reset(new Stop);
        return BW_FAISS_OK;
    } catch (...) {
        return BW_FAISS_NOMEM;
    }
}

#define BW_S2(a) #a
#define BW_S(a)  BW_S2(a)
extern "C" const char *bw_faiss_version(void)
{
    return BW_S(FAISS_VERSION_MAJOR) "." BW_S(FAISS_VERSION_MINOR) "." BW_S(
        FAISS_VERSION_PATCH);
}
