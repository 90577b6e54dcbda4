/* The planner's table (choose.h): version 3. */
#include "choose.h"

#include <assert.h>

enum {
    LINE = 64,
    SIXTEENTHS = 16, /* costs are kept in sixteenths of a line */
    SCATTER = 2,     /* a line at a place known ahead, against one of a stream */
    FILE_FACTOR = 32, /* a row through the file cache: a block, its copy, a lock */
    SCAN_ROW = 16,    /* sixteenths a row besides its bytes: bitmap, heap */
    CODES_SETUP = 64, /* lines: the query's own codes, the buffers of one pass */
    CODES_BLOCK = 4,  /* lines: one block more of a pass */
    CODES_LINE = 24,  /* sixteenths of a line of codes: bytes and their arithmetic */
    CODES_FACTORS = 12, /* bytes: step, norm, lost */
    RESCORED_MIN = 48, /* rows that the bound of 4-bit codes leaves, besides 2 k … */
    RESCORED_SHARE = 256, /* … and one in so many; */
    CHAINED_MIN = 4,      /* with a threshold from the start: these … */
    CHAINED_SHARE = 64,   /* … and one in so many */
    HOP_LINE = 5 * 16 /* sixteenths of a line of a hop: nobody knows it ahead */
};

bool bw_choose_approximate(const bw_choose_ask *ask, float *recall)
{
    *recall = 0;
    if (ask->exact || ask->recall >= 1.0f)
        return false;
    if (ask->ef > 0)
        return true;
    *recall = ask->recall > 0 ? ask->recall : BW_RECALL_DEFAULT;
    return ask->recall > 0 || ask->permitted >= ask->exact_rows;
}

static uint64_t row_bytes(const bw_choose_block *b)
{
    static const unsigned char size[BW_NDTYPES] = {4, 2, 2, 1};
    return (uint64_t)b->dim * size[b->dtype];
}

static uint64_t lines(uint64_t bytes)
{
    return (bytes + LINE - 1) / LINE;
}

/* All costs in sixteenths of a line. */

static uint64_t scan_cost(const bw_choose_block *b, bool on_file)
{
    uint64_t row = lines(row_bytes(b)) * SIXTEENTHS * (on_file ? FILE_FACTOR : 1);
    return b->permitted * (row + SCAN_ROW);
}

/* Rows of the block that its codes leave. Of a pass: the block's part of all its blocks'. */
static uint64_t rescored_rows(const bw_choose_block *b)
{
    const uint64_t whole = b->whole > b->permitted ? b->whole : b->permitted;
    const uint64_t rows = b->whole ? whole : b->permitted;
    uint64_t rescored = 2 * (uint64_t)b->k + RESCORED_MIN + rows / RESCORED_SHARE;
    const uint64_t chained = CHAINED_MIN + b->permitted / CHAINED_SHARE;
    if (b->whole)
        rescored = (uint64_t)((double)rescored * (double)b->permitted / (double)whole);
    if (b->chained && chained < rescored)
        rescored = chained;
    return rescored < b->permitted ? rescored : b->permitted;
}

static uint64_t codes_cost(const bw_choose_block *b, bool on_file)
{
    uint64_t stride = ((uint64_t)b->dim + 63) / 64 * 32 + CODES_FACTORS;
    uint64_t rescored = rescored_rows(b);
    return (b->whole ? CODES_BLOCK : CODES_SETUP) * SIXTEENTHS + b->permitted * stride * CODES_LINE / LINE +
           rescored * lines(row_bytes(b)) * SIXTEENTHS *
               (on_file ? FILE_FACTOR : SCATTER);
}

/* With a share s of the rows permitted a graph walks 1/(2 s) times as far. */
static uint64_t graph_cost(const bw_choose_block *b)
{
    uint64_t hops = b->hops, wide = hops * b->rows / (2 * b->permitted);
    return (hops > wide ? hops : wide) * b->hop_lines * HOP_LINE;
}

/* The cheaper of the two exact ways. In memory a row that a pass rescores costs its lines
 * once more: it waits, is ordered and is read alone, while few rows in all
 * that are scanned stream from a cache. (200 rows in 8 classes: 11 µs by scan, 13.7 by
 * codes; 2,040 in 32: 128 and 50.) */
static bw_choice exact_way(const bw_choose_block *b, bool on_file, uint64_t *cost)
{
    const uint64_t scan = scan_cost(b, on_file), codes = b->codes ? codes_cost(b, on_file) : 0;
    const uint64_t waiting = b->whole && !on_file
                                 ? rescored_rows(b) * lines(row_bytes(b)) * SIXTEENTHS * SCATTER
                                 : 0;
    *cost = b->codes && codes < scan ? codes : scan;
    return b->codes && codes + waiting < scan ? BW_CHOICE_CODES : BW_CHOICE_SCAN;
}

/* Whether a graph answers must not depend on where rows lie: that changes with the budget
 * of memory, and the answer does not. */
bw_choice bw_choose(const bw_choose_block *b, uint64_t *cost)
{
    assert(b->permitted > 0 && b->permitted <= b->rows);
    uint64_t in_memory, least;
    (void)exact_way(b, false, &in_memory);
    bw_choice best = exact_way(b, b->on_file, &least);
    if (b->hops > 0 && graph_cost(b) < in_memory) {
        best = BW_CHOICE_GRAPH;
        least = graph_cost(b);
    }
    if (cost)
        *cost = least / SIXTEENTHS;
    return best;
}

uint32_t bw_choose_hops(uint32_t effort, size_t k)
{
    const uint64_t most = UINT32_MAX;
    if (k <= 10)
        return effort;
    if (k >= most / 2)
        return UINT32_MAX;
    const uint64_t hops = effort + ((uint64_t)k - 10) * 3 / 2;
    return hops < most ? (uint32_t)hops : UINT32_MAX;
}

uint32_t bw_choose_effort(float recall, size_t rows, size_t k)
{
    static const struct {
        float recall;
        uint32_t effort; /* at 20,000 rows, k = 10 */
    } table[] = {{0.90f, 24}, {0.95f, 40}, {0.97f, 64}, {0.98f, 96}, {0.99f, 160},
                 {0.995f, 256}, {0.999f, 512}};
    const size_t last = sizeof table / sizeof *table - 1;
    size_t i = 0;
    while (i < last && table[i].recall < recall)
        i++;
    uint64_t effort = table[i].effort;
    for (size_t n = 40000; n < rows && n < (size_t)1 << 40; n *= 2)
        effort += effort / 6; /* 1.6 to 1.7 a decade */
    /* A slope and no step: effort does not jump with the limit. */
    return bw_choose_hops(effort < UINT32_MAX ? (uint32_t)effort : UINT32_MAX, k);
}
