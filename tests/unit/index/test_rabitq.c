/* Rotation and RaBitQ codes: orthogonal, unbiased, as precise as the papers say, and
 * the same bytes on every ISA. */
#include "engine/index/rabitq.h"
#include "engine/index/rotate.h"
#include "rnd.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { DIM_MAX = 8192, R_MAX = 64 };
#define ROTATION_HASH UINT64_C(0xacd513ccfd65f1bb)

typedef struct fixture {
    rnd r;
    float *in[3], *out[3];
    uint8_t *row, *other;
    void *query_memory;
    bw_rabitq_query query;
} fixture;

static void *vectors(size_t bytes)
{
    void *p = bw_alloc_vectors(bytes);
    assert_non_null(p);
    return p;
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = rnd_start("test_rabitq", 20261130);
    for (size_t i = 0; i < 3; i++) {
        f->in[i] = vectors(DIM_MAX * sizeof(float));
        f->out[i] = vectors(DIM_MAX * sizeof(float));
    }
    const size_t stride = bw_rabitq_layout_of(BW_RABITQ_L2, DIM_MAX, R_MAX).stride;
    f->row = vectors(stride);
    f->other = vectors(stride);
    f->query_memory = vectors(bw_rabitq_query_bytes(DIM_MAX));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        bw_free_vectors(f->in[i]);
        bw_free_vectors(f->out[i]);
    }
    bw_free_vectors(f->row);
    bw_free_vectors(f->other);
    bw_free_vectors(f->query_memory);
    bw_free(f);
    return 0;
}

static void gauss(fixture *f, float *v, size_t dim, double sigma)
{
    for (size_t i = 0; i < dim; i++)
        v[i] = (float)(sigma * rnd_gauss(&f->r));
}

static double dot(const float *a, const float *b, size_t dim)
{
    double s = 0;
    for (size_t i = 0; i < dim; i++)
        s += (double)a[i] * (double)b[i];
    return s;
}

static double l2sq(const float *a, const float *b, size_t dim)
{
    return dot(a, a, dim) + dot(b, b, dim) - 2 * dot(a, b, dim);
}

static bw_rotate *rotation(uint32_t dim, uint64_t seed)
{
    bw_rotate *r = bw_rotate_new(dim, seed);
    assert_non_null(r);
    return r;
}

/* ---- rotation -------------------------------------------------------------------- */
static void test_rotate__keeps_lengths_and_inner_products(void **state)
{
    fixture *f = *state;
    const uint32_t dims[] = {1, 3, 64, 65, 100, 128, 384, 768, 1024, 1028, 4160, 8192};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        const uint32_t dim = dims[d], padded = bw_rotate_padded(dim);
        assert_true(padded % 64 == 0 && padded >= dim && padded < dim + 64);
        bw_rotate *r = rotation(dim, 7 + d);
        assert_true(bw_rotate_bytes(r) >= 16u * padded);
        for (size_t i = 0; i < 2; i++) {
            gauss(f, f->in[i], dim, 1);
            bw_rotate_apply(r, f->in[i], NULL, 1, f->out[i]);
        }
        const double aa = dot(f->in[0], f->in[0], dim), bb = dot(f->in[1], f->in[1], dim);
        const double a = dot(f->out[0], f->out[0], padded) - aa,
                     ab = dot(f->out[0], f->out[1], padded) -
                          dot(f->in[0], f->in[1], dim);
        print_message("dim %u: %.2e, %.2e\n", dim, a / aa, ab / sqrt(aa * bb));
        assert_true(fabs(a) <= 3e-6 * aa && fabs(ab) <= 3e-6 * sqrt(aa * bb));
        bw_rotate_free(r);
    }
}

static void test_rotate__spreads_one_coordinate_over_all(void **state)
{
    fixture *f = *state;
    for (uint32_t dim = 64; dim <= 1024; dim += 320) {
        bw_rotate *r = rotation(dim, 3);
        double most = 0;
        for (uint32_t i = 0; i < dim; i += 7) {
            memset(f->in[0], 0, dim * sizeof(float));
            f->in[0][i] = 1;
            bw_rotate_apply(r, f->in[0], NULL, 1, f->out[0]);
            for (uint32_t j = 0; j < dim; j++)
                most = fmax(most, fabs((double)f->out[0][j]));
        }
        print_message("dim %u: %.2f/sqrt(dim)\n", dim, most * sqrt(dim));
        assert_true(most < 9 / sqrt(dim)); /* worst where T is far from all */
        bw_rotate_free(r);
    }
}

static void test_rotate__is_fixed_by_its_seed(void **state)
{
    fixture *f = *state;
    gauss(f, f->in[0], 384, 1);
    bw_rotate *a = rotation(384, 5), *b = rotation(384, 5), *c = rotation(384, 6);
    bw_rotate_apply(a, f->in[0], NULL, 1, f->out[0]);
    bw_rotate_apply(b, f->in[0], NULL, 1, f->out[1]);
    assert_memory_equal(f->out[0], f->out[1], 384 * sizeof(float));
    bw_rotate_apply(c, f->in[0], NULL, 1, f->out[1]);
    assert_memory_not_equal(f->out[0], f->out[1], 384 * sizeof(float));
    /* A power of two goes through all rounds unharmed. */
    bw_rotate_apply(a, f->in[0], NULL, 8, f->out[1]);
    for (size_t i = 0; i < 384; i++)
        assert_true(f->out[1][i] == 8 * f->out[0][i]);
    bw_rotate_free(a);
    bw_rotate_free(b);
    bw_rotate_free(c);
    /* One rotation for ever: a saved index depends on it. */
    bw_rotate *r = rotation(96, 1);
    for (size_t i = 0; i < 96; i++)
        f->in[0][i] = (float)i;
    bw_rotate_apply(r, f->in[0], NULL, 1, f->out[0]);
    uint64_t hash = 0;
    for (size_t i = 0; i < 128; i++)
        hash = hash * 0x100000001B3u ^ bw_fastscan_bits(f->out[0][i]);
    print_message("rotation of 0 … 95 by seed 1: %016llx\n", (unsigned long long)hash);
    assert_true(hash == ROTATION_HASH);
    bw_rotate_free(r);
}

static void test_rotate__takes_the_mean_away(void **state)
{
    fixture *f = *state;
    gauss(f, f->in[0], 100, 1);
    gauss(f, f->in[1], 100, 1);
    bw_rotate *r = rotation(100, 5);
    bw_rotate_apply(r, f->in[0], f->in[1], 0.25f, f->out[0]);
    for (size_t i = 0; i < 100; i++)
        f->in[2][i] = (f->in[0][i] - f->in[1][i]) * 0.25f;
    bw_rotate_apply(r, f->in[2], NULL, 1, f->out[1]);
    assert_memory_equal(f->out[0], f->out[1], 128 * sizeof(float));
    bw_rotate_free(r);
}

/* ---- codes ------------------------------------------------------------------------ */
static void set_query(fixture *f, bw_rabitq_form form, const float *q, uint32_t dim)
{
    bw_rabitq_query_lay(&f->query, dim, f->query_memory);
    bw_rabitq_query_set(&f->query, bw_fastscan_get(), form, q);
}

/* A row whose centre is in[0], 32 neighbours at `near` from it; the query too. Adds the
 * error of r·(q − c) over |r||q − c| to the moments. */
static void measure(fixture *f, bw_rabitq_form form, uint32_t dim, double near,
                    double moments[3])
{
    const bw_rabitq_layout l = bw_rabitq_layout_of(form, dim, 32);
    const bw_fastscan *k = bw_fastscan_get();
    float *c = f->out[0], *q = f->out[1], *x[32], est[32] __attribute__((aligned(64)));
    float *block = vectors(32 * dim * sizeof(float));
    gauss(f, c, dim, 1 / sqrt(dim));
    gauss(f, q, dim, near / sqrt(dim));
    bw_rabitq_row_init(&l, f->row);
    bw_rabitq_row_own(&l, f->row, c);
    for (uint32_t i = 0; i < 32; i++) {
        x[i] = block + (size_t)i * dim;
        gauss(f, x[i], dim, near / sqrt(dim));
        for (uint32_t j = 0; j < dim; j++)
            x[i][j] += c[j];
        bw_rabitq_row_put(&l, f->row, i, i, x[i], c);
    }
    for (uint32_t j = 0; j < dim; j++)
        q[j] += c[j];
    set_query(f, form, q, dim);
    const double exact =
        form == BW_RABITQ_L2 ? l2sq(c, q, dim) : -dot(c, q, dim);
    (void)bw_rabitq_estimate(k, &l, &f->query, f->row, 0, (float)exact, INFINITY, est);
    for (uint32_t i = 0; i < 32; i++) {
        const double lengths = sqrt(l2sq(x[i], c, dim) * l2sq(q, c, dim));
        double error = form == BW_RABITQ_L2 ? ((double)est[i] - l2sq(x[i], q, dim)) / 2
                                            : (double)est[i] + dot(x[i], q, dim);
        error /= lengths;
        moments[0] += 1;
        moments[1] += error;
        moments[2] += error * error;
    }
    bw_free_vectors(block);
}

static void test_rabitq_estimate__is_unbiased_and_as_precise_as_its_paper(void **state)
{
    fixture *f = *state;
    const uint32_t dims[] = {64, 384, 768, 1024};
    for (size_t form = 0; form < 2; form++)
        for (size_t d = 0; d < 4; d++) {
            double m[3] = {0};
            for (size_t n = 0; n < 100; n++)
                measure(f, (bw_rabitq_form)form, dims[d], 0.5, m);
            const double sigma = 0.7555 / sqrt(dims[d] - 1.0), rms = sqrt(m[2] / m[0]);
            print_message("form %zu, dim %u: bias %.5f, rms %.4f (paper %.4f)\n", form,
                          dims[d], m[1] / m[0], rms, sigma);
            assert_true(fabs(m[1] / m[0]) < 4 * sigma / sqrt(m[0] / 32));
            assert_true(rms < 1.1 * sigma && rms > 0.8 * sigma);
        }
}

static void test_rabitq_distance__of_own_code_is_near(void **state)
{
    fixture *f = *state;
    const uint32_t dims[] = {64, 384, 1024, 4160};
    for (size_t form = 0; form < 2; form++)
        for (size_t d = 0; d < 4; d++) {
            const uint32_t dim = dims[d];
            const bw_rabitq_layout l = bw_rabitq_layout_of((bw_rabitq_form)form, dim, 32);
            double sum = 0;
            for (size_t n = 0; n < 300; n++) {
                gauss(f, f->out[0], dim, 1 / sqrt(dim));
                gauss(f, f->out[1], dim, 1 / sqrt(dim));
                bw_rabitq_row_own(&l, f->row, f->out[0]);
                set_query(f, l.form, f->out[1], dim);
                const double have =
                    (double)bw_rabitq_distance(bw_fastscan_get(), &l, &f->query, f->row);
                const double error = form == BW_RABITQ_L2
                                         ? (have - l2sq(f->out[0], f->out[1], dim)) / 2
                                         : have + dot(f->out[0], f->out[1], dim);
                sum += error * error;
            }
            const double rms = sqrt(sum / 300) * sqrt(dim);
            print_message("form %zu, dim %u: rms %.5f/sqrt(dim)\n", form, dim, rms);
            assert_true(rms < 0.0095); /* 8 bits over ±3 to 4 sigma */
        }
}

static void test_rabitq_row__never_chooses_an_empty_lane(void **state)
{
    fixture *f = *state;
    const bw_rabitq_layout l = bw_rabitq_layout_of(BW_RABITQ_L2, 384, 64);
    float est[32] __attribute__((aligned(64)));
    gauss(f, f->out[0], 384, 1);
    gauss(f, f->out[1], 384, 1);
    gauss(f, f->out[2], 384, 1);
    set_query(f, l.form, f->out[1], 384);
    bw_rabitq_row_init(&l, f->row);
    bw_rabitq_row_own(&l, f->row, f->out[0]);
    for (uint32_t block = 0; block < 2; block++)
        assert_int_equal(bw_rabitq_estimate(bw_fastscan_get(), &l, &f->query, f->row, block,
                                            700, INFINITY, est),
                         0);
    for (size_t n = 0; n < 200; n++) {
        const uint32_t lane = (uint32_t)rnd_below(&f->r, 64);
        uint32_t want[2] = {0};
        if (rnd_below(&f->r, 2))
            bw_rabitq_row_put(&l, f->row, lane, (uint32_t)n, f->out[2], f->out[0]);
        else
            bw_rabitq_row_clear(&l, f->row, lane);
        for (uint32_t i = 0; i < 64; i++)
            if (bw_rabitq_row_ids(&l, f->row)[i] != BW_RABITQ_NONE)
                want[i / 32] |= 1u << i % 32;
        for (uint32_t block = 0; block < 2; block++)
            assert_int_equal(bw_rabitq_estimate(bw_fastscan_get(), &l, &f->query, f->row,
                                                block, 700, INFINITY, est),
                             want[block]);
    }
}

static void test_rabitq_row__of_duplicates_estimates_the_centre(void **state)
{
    fixture *f = *state;
    for (size_t form = 0; form < 2; form++) {
        const bw_rabitq_layout l = bw_rabitq_layout_of((bw_rabitq_form)form, 384, 32);
        float est[32] __attribute__((aligned(64)));
        gauss(f, f->out[0], 384, 1);
        gauss(f, f->out[1], 384, 1);
        set_query(f, l.form, f->out[1], 384);
        bw_rabitq_row_init(&l, f->row);
        bw_rabitq_row_put(&l, f->row, 9, 1, f->out[0], f->out[0]);
        assert_int_equal(
            bw_rabitq_estimate(bw_fastscan_get(), &l, &f->query, f->row, 0, 5, 6, est),
            1u << 9);
        assert_true(est[9] == 5);
        assert_int_equal(
            bw_rabitq_estimate(bw_fastscan_get(), &l, &f->query, f->row, 0, 5, 5, est), 0);
        /* Rows of zeros, and of what floats cannot square. */
        memset(f->out[2], 0, 384 * sizeof(float));
        bw_rabitq_row_own(&l, f->row, f->out[2]);
        assert_true(bw_rabitq_distance(bw_fastscan_get(), &l, &f->query, f->row) ==
                    f->query.add);
        f->out[2][5] = 1e30f;
        bw_rabitq_row_put(&l, f->row, 9, 1, f->out[2], f->out[0]);
        assert_int_equal(bw_rabitq_estimate(bw_fastscan_get(), &l, &f->query, f->row, 0, 5,
                                            INFINITY, est),
                         0);
    }
}

static void test_rabitq_row__is_rewritten_lane_by_lane(void **state)
{
    fixture *f = *state;
    const bw_rabitq_layout l = bw_rabitq_layout_of(BW_RABITQ_L2, 128, 64);
    float *all = vectors(100 * 128 * sizeof(float)), *c = f->out[0];
    uint32_t holds[64];
    gauss(f, c, 128, 1);
    gauss(f, all, 100 * 128, 1);
    memset(holds, 0xFF, sizeof holds);
    bw_rabitq_row_init(&l, f->row);
    bw_rabitq_row_own(&l, f->row, c);
    for (size_t n = 0; n < 1000; n++) {
        const uint32_t lane = (uint32_t)rnd_below(&f->r, 64);
        const uint32_t id = (uint32_t)rnd_below(&f->r, 100);
        const uint32_t to = (uint32_t)rnd_below(&f->r, 64), was = holds[lane];
        switch (rnd_below(&f->r, 4)) {
        case 0:
            bw_rabitq_row_clear(&l, f->row, lane);
            holds[lane] = BW_RABITQ_NONE;
            break;
        case 1:
            bw_rabitq_row_move(&l, f->row, lane, to);
            holds[lane] = BW_RABITQ_NONE;
            holds[to] = was;
            break;
        default:
            bw_rabitq_row_put(&l, f->row, lane, id, all + (size_t)id * 128, c);
            holds[lane] = id;
            break;
        }
    }
    bw_rabitq_row_init(&l, f->other);
    bw_rabitq_row_own(&l, f->other, c);
    for (uint32_t i = 0; i < 64; i++)
        if (holds[i] != BW_RABITQ_NONE)
            bw_rabitq_row_put(&l, f->other, i, holds[i], all + (size_t)holds[i] * 128, c);
    assert_memory_equal(f->row, f->other, l.stride);
    bw_free_vectors(all);
}

static void test_rabitq_layout__is_dense_and_aligned(void **state)
{
    (void)state;
    assert_int_equal(bw_rabitq_layout_of(BW_RABITQ_L2, 384, 32).stride, 2240);
    assert_int_equal(bw_rabitq_layout_of(BW_RABITQ_L2, 768, 32).stride, 4160);
    assert_int_equal(bw_rabitq_layout_of(BW_RABITQ_L2, 1024, 32).stride, 5440);
    const bw_rabitq_layout l = bw_rabitq_layout_of(BW_RABITQ_IP, 1088, 96);
    assert_true(l.codes % 64 == 0 && l.add % 64 == 0 && l.rescale % 64 == 0);
    assert_true(l.ids % 64 == 0 && l.factors % 16 == 0 && l.stride % 64 == 0);
}

/* ---- factors ---------------------------------------------------------------------- */
static void test_rabitq_half__rounds_to_nearest_and_never_up_to_infinity(void **state)
{
    fixture *f = *state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        const float x = bw_rabitq_unhalf((uint16_t)h);
        assert_int_equal(bw_rabitq_half(x), h);
        assert_int_equal(bw_rabitq_half(-x), h | 0x8000);
        if (h == 0x7BFF)
            break;
        const float next = bw_rabitq_unhalf((uint16_t)(h + 1)), middle = (x + next) / 2;
        assert_int_equal(bw_rabitq_half(middle), h + (h & 1));
        assert_int_equal(bw_rabitq_half(nextafterf(middle, 0)), h);
        assert_int_equal(bw_rabitq_half(nextafterf(middle, INFINITY)), h + 1);
    }
    for (size_t i = 0; i < 1000; i++) {
        const float x = ldexpf((float)rnd_unit(&f->r) + 1, 16 + (int)rnd_below(&f->r, 100));
        assert_int_equal(bw_rabitq_half(x), 0x7BFF);
        assert_int_equal(bw_rabitq_half(-x), 0xFBFF);
    }
    assert_int_equal(bw_rabitq_half(INFINITY), 0x7C00);
    assert_int_equal(bw_rabitq_half(NAN), 0x7C00);
}

static void test_rabitq_scale__brings_lengths_to_halves(void **state)
{
    (void)state;
    assert_true(bw_rabitq_scale(1) == 1 && bw_rabitq_scale(64) == 1);
    assert_true(bw_rabitq_scale(0) == 1 && bw_rabitq_scale(INFINITY) == 1);
    for (int e = -60; e <= 60; e++) {
        const float longest = ldexpf(1.3f, e), s = bw_rabitq_scale(longest);
        int by;
        assert_true(frexpf(s, &by) == 0.5f);
        assert_true(longest * s <= 64 && longest * s >= 0x1p-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotate__keeps_lengths_and_inner_products),
        cmocka_unit_test(test_rotate__spreads_one_coordinate_over_all),
        cmocka_unit_test(test_rotate__is_fixed_by_its_seed),
        cmocka_unit_test(test_rotate__takes_the_mean_away),
        cmocka_unit_test(test_rabitq_estimate__is_unbiased_and_as_precise_as_its_paper),
        cmocka_unit_test(test_rabitq_distance__of_own_code_is_near),
        cmocka_unit_test(test_rabitq_row__never_chooses_an_empty_lane),
        cmocka_unit_test(test_rabitq_row__of_duplicates_estimates_the_centre),
        cmocka_unit_test(test_rabitq_row__is_rewritten_lane_by_lane),
        cmocka_unit_test(test_rabitq_layout__is_dense_and_aligned),
        cmocka_unit_test(test_rabitq_half__rounds_to_nearest_and_never_up_to_infinity),
        cmocka_unit_test(test_rabitq_scale__brings_lengths_to_halves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
