/* The planner's table: how one block of rows is searched, from counts alone.
 *
 * Costs are in cache lines of 64 bytes read in a stream, the unit in which the machine
 * spends its time: same data, same question, same choice on every machine and on every
 * day; no clock is looked at. Source of the figures: measured lines of time each (flat
 * scan of f32 rows about 5 ns a line from memory, 4-bit codes 8 ns a line with their
 * arithmetic, a hop of a graph 25 ns a line). Whoever measures better raises the
 * version; the bench's notes say what was measured. Pure functions. */
#ifndef BW_CHOOSE_H
#define BW_CHOOSE_H
#include <bailiwick/types.h>

enum { BW_CHOOSE_VERSION = 3 };

enum {
    BW_EXACT_ROWS = 50000 /* below so many permitted rows a search is exact unless told */
};
#define BW_RECALL_DEFAULT 0.99f /* from there on, unless told */
#define BW_RECALL_MIN 0.90f

typedef enum bw_choice {
    BW_CHOICE_SCAN = 0,  /* every permitted row in stored precision */
    BW_CHOICE_CODES = 1, /* 4-bit codes, then what their bound leaves: exact as well */
    BW_CHOICE_GRAPH = 2
} bw_choice;

/* What a search asks for. */
typedef struct bw_choose_ask {
    bool exact;
    uint32_t ef;        /* hnsw_ef; 0 = not given */
    float recall;       /* 0 = not given */
    uint64_t permitted; /* rows that the whole search may look at, over all partitions */
    uint32_t exact_rows; /* BW_EXACT_ROWS unless the operator has set another */
} bw_choose_ask;

/* May a graph answer it? *recall: what it then has to give (0: the caller named ef). */
bool bw_choose_approximate(const bw_choose_ask *ask, float *recall);

typedef struct bw_choose_block {
    size_t rows, permitted; /* of the block: all, and those the search may look at (>= 1) */
    size_t k;
    uint32_t dim;
    bw_dtype dtype;
    bool codes;    /* the block has 4-bit codes */
    bool on_file;  /* its rows are not in memory: scan or codes, never graph or not */
    bool chained;  /* the list is full of other blocks' rows, whose worst key prunes here */
    uint64_t whole; /* > 0: the block is one of a pass whose query has its codes, and whose
                     * blocks are rescored together; rows that the pass may look at */
    uint32_t hops; /* that a graph needs when all rows are permitted; 0: no graph */
    uint32_t hop_lines; /* cache lines of one hop */
} bw_choose_block;

/* *lines: the cost of what was chosen; may be NULL. */
bw_choice bw_choose(const bw_choose_block *b, uint64_t *lines);

/* The hops of a graph for the k best, by the effort that it takes for ten: the k
 * themselves and half as many around them are looked into. */
uint32_t bw_choose_hops(uint32_t effort, size_t k);

/* The effort (ef, beam size) to plan with where a kind has not measured its own. */
uint32_t bw_choose_effort(float recall, size_t rows, size_t k);
#endif
