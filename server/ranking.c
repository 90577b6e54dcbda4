/* Figures of merit of a ranking (ranking.h). */
#include "ranking.h"
#include "../engine/base/ln.h"
#include <math.h>
#include <stdlib.h>

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double dcg(const double *gains, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += gains[i] * bw_ln(2) / bw_ln((double)i + 2);
    return sum;
}

void bw_ranking_of(const double *gains, size_t n, double *judged, size_t njudged, size_t k,
                   bw_ranking_score *out)
{
    size_t found = 0;
    n = n < k ? n : k;
    qsort(judged, njudged, sizeof *judged, falling);
    *out = (bw_ranking_score){.ndcg = dcg(gains, n) / dcg(judged, njudged < k ? njudged : k)};
    for (size_t i = 0; i < n; i++) {
        if (!(gains[i] > 0))
            continue;
        if (found++ == 0)
            out->rr = 1 / (double)(i + 1);
    }
    out->recall = (double)found / (double)njudged;
}

double bw_student_t975(size_t degrees)
{
    const double z = 1.959963984540054, v = (double)degrees;
    const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, z9 = z7 * z * z;
    if (degrees == 1)
        return 12.706204736432095;
    if (degrees == 2)
        return 4.302652729911275;
    return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v) +
           (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / (92160 * v * v * v * v);
}

bw_interval bw_interval_of(const double *values, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    const double mean = sum / (double)n;
    if (n == 1)
        return (bw_interval){mean, -INFINITY, INFINITY};
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    const double half = bw_student_t975(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return (bw_interval){mean, mean - half, mean + half};
}
