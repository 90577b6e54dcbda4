/* What the two threads of cuvs_device.c do with a job: the calls of cuVS and of the
 * driver, and what their failures mean; private to the files cuvs*.c. */
#ifndef BW_CUVS_WORK_H
#define BW_CUVS_WORK_H
#include "cuvs_device.h"

enum { BW_CUVS_BATCH_MAX = 64 };

typedef enum bw_cuvs_job_kind {
    BW_CUVS_JOB_OPEN,
    BW_CUVS_JOB_PUT,
    BW_CUVS_JOB_BUILD,
    BW_CUVS_JOB_SEARCH,
    BW_CUVS_JOB_DROP
} bw_cuvs_job_kind;

typedef struct bw_cuvs_job { /* owns its memory; a lane's lock guards next and over */
    struct bw_cuvs_job *next;
    bw_cuvs_job_kind kind;
    atomic_uint refs;
    bool over;
    bw_cuvs_outcome how; /* both written before `over` */
    char what[BW_CUVS_TEXT_MAX];
    bw_cuvs_graph *graph;
    float *data;     /* PUT: n × stride rows; SEARCH: stride f32 */
    size_t row0, n;  /* PUT; BUILD: n is the degree */
    uint64_t *words; /* SEARCH: the graph's nwords; NULL: every row is allowed */
    uint32_t itopk, wanted;
    bw_cuvs_hits *hits;
} bw_cuvs_job;

struct bw_cuvs_graph {
    atomic_uint refs;
    size_t n, nwords; /* rows; 64-bit words of a filter over them */
    uint32_t dim, stride;
    /* On the device. Written by the building thread before anyone searches; the index
     * is a view of the vectors and goes before them. */
    CUdeviceptr vectors, filter;
    cuvsDataset_t dataset;
    cuvsCagraIndex_t index;
    /* The searching thread's: what `filter` holds, so that like filters go up once. */
    uint64_t *filter_host;
    bool filter_known;
    bw_cuvs_job drop; /* queued by the last release, which may not fail */
};

typedef struct bw_cuvs_worker { /* one thread's */
    const bw_cuvs_api *api;
    bool builds;
    bool open, bound;
    CUstream stream;
    cuvsResources_t resources;
    cuvsCagraSearchParams_t params;
    /* One pinned slab and its like on the device: queries, row numbers, scores. */
    char *slab;
    CUdeviceptr device_slab;
    char what[BW_CUVS_TEXT_MAX]; /* of the last failure */
} bw_cuvs_worker;

BW_MUST_USE bw_cuvs_outcome bw_cuvs__worker_open(bw_cuvs_worker *w);
void bw_cuvs__worker_close(bw_cuvs_worker *w);
/* One job, or several searches that may share a call. */
BW_MUST_USE bw_cuvs_outcome bw_cuvs__work(bw_cuvs_worker *w, bw_cuvs_job *const *jobs,
                                          size_t n);
bool bw_cuvs__may_share(const bw_cuvs_job *a, const bw_cuvs_job *b);
size_t bw_cuvs__batch_max(const bw_cuvs_job *j);
#endif
