/* The kind "graph": one layer of links with RaBitQ codes of the neighbours in each row
 * (SymphonyQG, 2411.12229; codes: RaBitQ, 2405.12497). Private to graph*.c.
 *
 * A node is a set of equal rows (nearly always one). Its row in memory is
 * bw_rabitq_layout's: the node's own int8 code, 1-bit codes of R neighbours relative to
 * it, their factors and ids, in whole cache lines; a visit reads that and nothing else.
 * The entry row has the same form, with the mean for its own vector and a few hundred
 * nodes from all over for its neighbours: it takes the place of upper layers.
 *
 * Differences from the paper: int8 instead of f32 in the row (final keys come from the
 * stored rows), factors in half precision, empty lanes instead of random links, a wide
 * entry row, a build in rounds on a frozen graph: the same bytes with any number of
 * threads and on every ISA.
 *
 * Constant after build or load, but for the scratch slots and their bytes, which are atomic. */
#ifndef BW_INDEX_GRAPH_H
#define BW_INDEX_GRAPH_H
#include "kinds.h"
#include "rabitq.h"
#include "rotate.h"

enum {
    BW_GRAPH_R = 32,
    BW_GRAPH_R_MAX = 128,
    BW_GRAPH_EF_BUILD = 200,
    BW_GRAPH_EF_BUILD_MAX = 2000,
    BW_GRAPH_EF_MAX = 8192,
    BW_GRAPH_NODES_MIN = 64,  /* fewer are scanned */
    BW_GRAPH_ENTRIES_MAX = 4096,
    BW_GRAPH_SLOTS = 16,      /* scratches kept for the next searches */
    BW_GRAPH_RUNGS = 40,      /* of the ladder of efforts, at most */
    BW_GRAPH_FEW_ROWS = 5000, /* fewer are tuned in coarse steps, and as a part of more */
    BW_GRAPH_QUESTIONS = 800, /* that an index is tuned with */
    BW_GRAPH_DIM_MAX = 16384
};

typedef struct bw_graph_scratch bw_graph_scratch;

/* What tuning found: recall@10 of an effort, as a lower 95 % bound. Both rise. */
typedef struct bw_graph_rung {
    uint32_t effort;
    float recall;
} bw_graph_rung;

typedef struct bw_graph {
    bw_index base;
    bw_index_params params; /* M = R and ef_construction filled in */
    /* rows and nodes */
    size_t n;        /* rows */
    uint32_t nodes;  /* 0: the index is scanned (too few, or not fit for a graph) */
    uint32_t *first; /* nodes + 1: node i's rows are members[first[i]] …; NULL: node = row */
    uint32_t *members;
    /* geometry: rotated = rotation of (x − mean)·scale */
    bw_rotate *rotate;
    float *mean; /* dim */
    float scale;
    float length; /* of rows, for dot: queries are brought to it */
    /* the graph */
    bw_rabitq_layout row, wide;
    uint8_t *block, *block_start; /* nodes × row.stride; block_start is what is freed */
    uint8_t *entry;               /* one row of the form `wide` */
    /* tuning */
    uint32_t nrungs;
    bw_graph_rung rungs[BW_GRAPH_RUNGS];
    /* scratches not in use */
    _Atomic(bw_graph_scratch *) slots[BW_GRAPH_SLOTS];
    atomic_size_t scratch_bytes; /* of searches: in the slots, or at work */
} bw_graph;

static inline const uint8_t *bw_graph_row(const bw_graph *g, uint32_t node)
{
    return g->block + (size_t)node * g->row.stride;
}

/* A node and its distance (L2 squared, in the rotated and scaled space). Total order:
 * distance, then node. */
typedef struct bw_graph_link {
    float d;
    uint32_t id;
} bw_graph_link;

static inline bool bw_graph_nearer(bw_graph_link a, bw_graph_link b)
{
    return a.d < b.d || (a.d == b.d && a.id < b.id);
}
void bw_graph__sort(bw_graph_link *links, size_t n); /* no allocation; any n */

/* ---- graph.c ---- */
bw_graph *bw_graph__new(const bw_index_params *params, size_t n); /* NULL: no memory */
bool bw_graph__block_new(bw_graph *g); /* g->row and g->nodes set; false: no memory */
void bw_graph__free(bw_index *ix);

/* ---- graph_save.c ---- */
BW_MUST_USE bw_status bw_graph__save(bw_ctx *ctx, const bw_index *ix, bw_buf *out);
BW_MUST_USE bw_status bw_graph__load(bw_ctx *ctx, const bw_index_params *params,
                                     const void *bytes, size_t n, bw_index **out);

/* ---- graph_scratch.c ---- */
struct bw_graph_scratch {
    size_t bytes;
    size_t ef_cap, seen_cap;
    bw_rabitq_query query;
    float *rotated, *plain; /* of the query: padded dim; dim */
    float *estimates;       /* 32 */
    uint64_t *visited;      /* a bit a node; all 0 between walks */
    uint64_t *beam;         /* bw_graph_beam_room(ef_cap) keys */
    bw_graph_link *best;    /* the best `want` so far, nearest first */
    bw_graph_link *seen;    /* every node visited, in order */
};
bw_graph_scratch *bw_graph__scratch_new(const bw_graph *g, size_t ef_cap,
                                        size_t seen_cap); /* NULL: no memory */
void bw_graph__scratch_free(bw_graph_scratch *s);
/* The beam that a search of ef may widen to. The scratch may have room for more, left
 * by another search, which must not show. */
size_t bw_graph__beam_most(size_t ef);
/* One for a search of ef: a kept one, or new and from then on in g's bytes. Whoever took
 * it gives it back, to be kept. NULL: no memory. */
bw_graph_scratch *bw_graph__scratch_take(bw_graph *g, size_t ef);
void bw_graph__scratch_give(bw_graph *g, bw_graph_scratch *s);
void bw_graph__scratch_clear(bw_graph *g); /* frees what is kept */

/* ---- graph_search.c ---- */
typedef struct bw_graph_walk {
    size_t ef, want;      /* beam; how many of the best to keep, at most ef */
    size_t hops_max;      /* 0: as many as it takes */
    float bound;          /* distance above which nothing is wanted; +inf: none */
    size_t rank;          /* 1 … want: whose distance slack and narrow are measured by */
    float slack;          /* stop when the next is beyond (1 + slack)·rank-th; +inf: never */
    float narrow;         /* what is beyond (1 + narrow)·rank-th is scored, not expanded */
    bool once;            /* a node enters the beam once: for builds */
    const bw_bitmap *allowed; /* rows; NULL: all */
    const char *stored;       /* rows to be scored soon, stored_bytes each; NULL: none */
    size_t stored_bytes;
    bw_ctx *ctx; /* whose deadline ends the walk; NULL: none does */
    /* what the walk says */
    size_t nseen, nbest;
    bool spent; /* hops_max was reached before the walk's end */
    bool late;  /* the deadline was: what was found so far is no answer */
} bw_graph_walk;
/* Sets s->query: the graph's form of a query. */
void bw_graph__query(const bw_graph *g, bw_graph_scratch *s, const float *query);
/* From s->query, set. Leaves s->visited clean. */
void bw_graph__walk(const bw_graph *g, bw_graph_scratch *s, bw_graph_walk *w);

BW_MUST_USE bw_status bw_graph__search(bw_ctx *ctx, const bw_index *ix,
                                       const bw_index_search *s, bw_topk *out);

/* ---- graph_prune.c ---- */

/* What a build knows of its nodes. */
typedef struct bw_graph_points {
    const float *x;           /* nodes × padded dim, rotated; 64-byte aligned */
    const int8_t *codes;      /* the same as int8 */
    const bw_rabitq_own *own; /* factors of codes */
    uint32_t n, dim;          /* dim: padded */
    const bw_fastscan *k;
} bw_graph_points;

/* Room for pruning one node's candidates: what one thread needs. */
typedef struct bw_graph_pruner {
    size_t pool_cap;
    int16_t *wide;         /* dim: a node's code, widened */
    bw_graph_link *pool;   /* pool_cap candidates: the caller fills it */
    float *shade;          /* pool_cap: how far in the shade of a chosen one */
} bw_graph_pruner;
bool bw_graph__pruner_init(bw_graph_pruner *p, uint32_t dim, size_t pool_cap);
void bw_graph__pruner_clear(bw_graph_pruner *p);
/* From the codes' factors and the whole-number product of codes; never below 0. */
float bw_graph__distance(const bw_rabitq_own *a, const bw_rabitq_own *b, int32_t ip);
/* Distances of the pool's first n nodes to node i: the same for (i, j) and (j, i). */
void bw_graph__measure(const bw_graph_points *p, bw_graph_pruner *room, uint32_t i,
                       size_t n);
/* Chooses at most R of the pool's n candidates for node i into out, nearest first within
 * a round; sorts the pool. fill: lanes left are given to candidates in little shade. */
size_t bw_graph__prune(const bw_graph_points *p, bw_graph_pruner *room, uint32_t i,
                       size_t n, size_t R, bool fill, bw_graph_link *out);

/* The i-th node that a lane of `node` is given when no candidate is left for it: from
 * anywhere, by a hash of seed and place; may be one that it has, or itself. */
uint32_t bw_graph__stray(uint64_t seed, uint32_t node, uint32_t i, uint32_t nodes);
enum { BW_GRAPH_STRAYS_MAX = 4 }; /* draws, times R, until lanes stay empty */

/* ---- graph_init.c: the links that the first round walks on ---- */
/* lists: n × R links, counts: n. */
BW_MUST_USE bw_status bw_graph__init(bw_ctx *ctx, const bw_graph_points *p,
                                     const bw_index_params *params, bw_graph_link *lists,
                                     uint32_t *counts);

/* ---- graph_nodes.c ---- */
/* Defaults filled in, ranges checked. */
BW_MUST_USE bw_status bw_graph__params(bw_ctx *ctx, const bw_index_params *in, size_t n,
                                       bw_index_params *p);
BW_MUST_USE bw_status bw_graph__build(bw_ctx *ctx, const bw_index_params *params,
                                      const bw_rows *rows, bw_index **out);

/* g->nodes, and first and members where rows are equal. */
BW_MUST_USE bw_status bw_graph__nodes_find(bw_ctx *ctx, bw_graph *g, const float *rows);
/* x: all nodes rotated, by g's geometry. false: told to stop. */
bool bw_graph__turn(const bw_graph *g, const bw_index_params *params, const float *rows,
                    float *x);
/* Whether g's geometry, made for other rows, can hold this node too. */
bool bw_graph__row_fits(const bw_graph *g, const float *rows, uint32_t node);

/* ---- graph_edit.c ---- */
BW_MUST_USE bw_status bw_graph__derive(bw_ctx *ctx, const bw_index_params *params,
                                       const bw_index *old, const uint32_t *map,
                                       const bw_rows *rows, bw_index **out);

/* ---- graph_build.c ---- */
bool bw_graph__entry(bw_graph *g, const float *x); /* makes the entry row; false: no memory */
/* x: the nodes, rotated. Fills g's block and entry row. */
BW_MUST_USE bw_status bw_graph__links(bw_ctx *ctx, bw_graph *g,
                                      const bw_index_params *params, float *x);
/* Why a step of a build failed: it was told to stop, or memory ran out. */
bw_status bw_graph__gave_up(bw_ctx *ctx, const bw_index_params *params);

/* ---- graph_threads.c ---- */
/* fn(arg, thread, from, to) over 0 … n-1 in pieces; every piece once, by whichever
 * thread; results must not depend on which. false: *stop became true. */
bool bw_graph__parallel(uint32_t threads, const atomic_bool *stop, size_t n, size_t piece,
                        void (*fn)(void *arg, uint32_t thread, size_t from, size_t to),
                        void *arg);

/* ---- graph_questions.c ---- */
/* Family i is questions from[i] … from[i + 1] - 1. */
typedef struct bw_graph_families {
    size_t n;
    size_t from[4];
} bw_graph_families;
/* BW_GRAPH_QUESTIONS × dim f32 into `questions`; cosine: normalised. */
BW_MUST_USE bw_status bw_graph__questions(bw_ctx *ctx, const bw_graph *g,
                                          const bw_rows *rows, float *questions,
                                          bw_graph_families *families);

/* ---- graph_tune.c ---- */
BW_MUST_USE bw_status bw_graph__tune(bw_ctx *ctx, bw_graph *g, const bw_rows *rows);
uint32_t bw_graph__effort_of(const bw_index *ix, float recall, size_t k);
float bw_graph__recall_of(const bw_index *ix, uint32_t effort);
#endif
