/* How good a ranking of documents is, by graded judgements, and how sure that is. Plain
 * arithmetic; private to the command `eval`. */
#ifndef BW_RANKING_H
#define BW_RANKING_H
#include <stdbool.h>
#include <stddef.h>

typedef struct bw_ranking_score { /* of one query; each 0 … 1 */
    double ndcg;   /* Järvelin and Kekäläinen, TOIS 20(4), 2002: the gain as it is given,
                    * discount 1 / log2(rank + 1), over the best ranking there can be */
    double recall; /* of the documents with a gain, the share among the first k */
    double rr;     /* 1 / rank of the first of them, among the first k; else 0 */
} bw_ranking_score;

/* gains: of the documents in the order of the answer, none twice, n of them; judged: the
 * gains above 0 of all documents of the query, njudged > 0; it is sorted, falling. */
void bw_ranking_of(const double *gains, size_t n, double *judged, size_t njudged, size_t k,
                   bw_ranking_score *out);

typedef struct bw_interval {
    double mean, lo, hi;
} bw_interval;

/* The mean of n independent values and its 95 % interval by Student's t. n = 1: the
 * interval is all there is, −inf … +inf. n > 0. */
bw_interval bw_interval_of(const double *values, size_t n);
/* The 0.975 quantile of Student's t: exact for 1 and 2 degrees of freedom, else by the
 * expansion in Abramowitz and Stegun, 26.7.5, within 0.2 %. degrees > 0. */
double bw_student_t975(size_t degrees);
#endif
