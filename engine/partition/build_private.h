/* Inside of building graphs: one build, and its saved file. build.c has the queue and the
 * threads, graph_file.c the file (build.h has its format). */
#ifndef BW_PARTITION_BUILD_PRIVATE_H
#define BW_PARTITION_BUILD_PRIVATE_H
#include "build.h"

typedef enum bw_build_state { BW_BUILD_QUEUED, BW_BUILD_RUNNING, BW_BUILD_ENDED } bw_build_state;

struct bw_build { /* owned by its matrix */
    /* immutable */
    bw_build_id id;
    bw_index_choice kind;
    const bw_index_ops *ops;
    uint32_t M, ef_construction;
    bw_matrix *matrix;
    /* builder's lock */
    bw_build_state state;
    bool settled;         /* built, or failed once: nobody waits for it any more */
    bool wanted;          /* somebody waits */
    bool discarded;       /* nothing of it may stay on disk */
    unsigned threads;     /* set when it begins */
    unsigned tries;       /* in vain */
    uint64_t due_ns;      /* of the next one */
    struct bw_build *next; /* in one of the lists: a reference to the matrix */
    /* readers take it at any time: a try that succeeds late begins to serve then */
    _Atomic(bw_index *) index;
};

bw_index_params bw_build__params(const struct bw_build *job);
/* BW_ENOTFOUND: there is no file; BW_ECORRUPT: there is one, and it is damaged or not of
 * these rows and settings. */
BW_MUST_USE bw_status bw_build__load(bw_ctx *ctx, const char *dir,
                                     const unsigned char key[BW_MAC_KEY],
                                     const struct bw_build *job, bw_index **out);
/* What goes wrong is logged: it costs the next start some time and nothing else. */
void bw_build__save(bw_ctx *ctx, const char *dir, const unsigned char key[BW_MAC_KEY],
                    const struct bw_build *job, const bw_index *index);
#endif
