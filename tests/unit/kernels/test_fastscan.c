/* FastScan: the sums are those of the definition, on every ISA, at every size. */
#include "engine/kernels/fastscan.h"
#include "rnd.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { NISA = sizeof isas / sizeof *isas };
/* 4,096 is the last size without a flush; 4,160 where 16 bits end; 1,088 is 1,028 padded. */
static const size_t dims[] = {64, 128, 384, 768, 1024, 1088, 4096, 4160, 8192, 65536};
enum { NDIMS = sizeof dims / sizeof *dims, DIM_MAX = 65536 };

typedef struct fixture {
    rnd r;
    float *q, *x, *c, *v, *w;
    uint32_t *flips;
    uint8_t *codes, *bits[2], *entries[2];
    int16_t *q16[2];
    int8_t *i8;
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
    f->r = rnd_start("test_fastscan", 20261130);
    float **const floats[] = {&f->q, &f->x, &f->c, &f->v, &f->w};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        *floats[i] = vectors(DIM_MAX * sizeof(float));
    f->flips = vectors(4 * DIM_MAX * sizeof(uint32_t));
    f->codes = vectors(bw_fastscan_bytes(DIM_MAX));
    f->i8 = vectors(DIM_MAX);
    for (size_t i = 0; i < 2; i++) {
        f->bits[i] = vectors(DIM_MAX / 8);
        f->entries[i] = vectors(bw_fastscan_bytes(DIM_MAX));
        f->q16[i] = vectors(DIM_MAX * sizeof(int16_t));
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_free_vectors(f->q);
    bw_free_vectors(f->x);
    bw_free_vectors(f->c);
    bw_free_vectors(f->v);
    bw_free_vectors(f->w);
    bw_free_vectors(f->flips);
    bw_free_vectors(f->codes);
    bw_free_vectors(f->i8);
    for (size_t i = 0; i < 2; i++) {
        bw_free_vectors(f->bits[i]);
        bw_free_vectors(f->entries[i]);
        bw_free_vectors(f->q16[i]);
    }
    bw_free(f);
    return 0;
}

static void gauss(fixture *f, float *v, size_t dim)
{
    for (size_t i = 0; i < dim; i++)
        v[i] = (float)rnd_gauss(&f->r);
}

static void random_bytes(fixture *f, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)rnd_below(&f->r, 256);
}

static uint32_t bit(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

/* What the table says of one dimension: entry with its bit, less entry without. */
static int32_t weight(const bw_fastscan_table *t, size_t i)
{
    const uint8_t *e = t->entries + i / 4 * 16;
    return (int32_t)e[1u << i % 4] - (int32_t)e[0];
}

static void test_fastscan_table__is_the_query_in_steps(void **state)
{
    fixture *f = *state;
    const bw_fastscan *k = bw_fastscan_isa("scalar");
    for (size_t d = 0; d < NDIMS; d++) {
        const size_t dim = dims[d];
        gauss(f, f->q, dim);
        bw_fastscan_table t = {.entries = f->entries[0], .dim = (uint32_t)dim};
        k->table(f->q, &t);
        int32_t total = 0;
        uint32_t most = 0;
        for (size_t i = 0; i < dim; i++) {
            const int32_t v = weight(&t, i);
            total += abs(v);
            assert_true(fabsf((float)v * 2 * t.half_step - f->q[i]) <=
                        t.half_step * 1.001f);
        }
        for (size_t i = 0; i < dim; i += 4)
            for (size_t b = 0; b < 16; b++) {
                int32_t want = 0;
                for (size_t j = 0; j < 4; j++) {
                    const int32_t v = weight(&t, i + j);
                    want += b >> j & 1 ? (v > 0 ? v : 0) : (v < 0 ? -v : 0);
                }
                const uint32_t have = t.entries[i * 4 + b];
                assert_int_equal(have, want);
                most = have > most ? have : most;
            }
        assert_int_equal(t.total, total);
        assert_in_range(most, BW_FASTSCAN_ENTRY_MAX - 6, BW_FASTSCAN_ENTRY_MAX);
    }
}

static void test_fastscan_sums__are_those_of_the_bits(void **state)
{
    fixture *f = *state;
    for (size_t d = 0; d < NDIMS; d++) {
        const size_t dim = dims[d];
        gauss(f, f->q, dim);
        bw_fastscan_table t = {.entries = f->entries[0], .dim = (uint32_t)dim};
        bw_fastscan_isa("scalar")->table(f->q, &t);
        uint32_t want[32];
        for (uint32_t lane = 0; lane < 32; lane++) {
            random_bytes(f, f->bits[0], dim / 8);
            bw_fastscan_put(f->codes, dim, lane, f->bits[0]);
            int32_t sum = 0;
            for (size_t i = 0; i < dim; i++) {
                const int32_t v = weight(&t, i);
                sum += (bit(f->bits[0], i) ? v : 0) + (v < 0 ? -v : 0);
            }
            want[lane] = (uint32_t)sum;
        }
        for (size_t i = 0; i < NISA; i++) {
            const bw_fastscan *k = bw_fastscan_isa(isas[i]);
            uint32_t have[32];
            if (!k)
                continue;
            k->sums(&t, f->codes, have);
            assert_memory_equal(have, want, sizeof want);
        }
    }
}

static void test_fastscan_sums__hold_the_largest_entries(void **state)
{
    fixture *f = *state;
    memset(f->entries[0], BW_FASTSCAN_ENTRY_MAX, bw_fastscan_bytes(DIM_MAX));
    random_bytes(f, f->codes, bw_fastscan_bytes(DIM_MAX));
    for (size_t d = 0; d < NDIMS; d++)
        for (size_t i = 0; i < NISA; i++) {
            const bw_fastscan *k = bw_fastscan_isa(isas[i]);
            const bw_fastscan_table t = {.entries = f->entries[0],
                                         .dim = (uint32_t)dims[d]};
            uint32_t have[32];
            if (!k)
                continue;
            k->sums(&t, f->codes, have);
            for (size_t lane = 0; lane < 32; lane++)
                assert_int_equal(have[lane], BW_FASTSCAN_ENTRY_MAX * dims[d] / 4);
        }
}

/* Fills q with what a table could choke on. */
static void awkward(fixture *f, float *q, size_t dim, size_t kind)
{
    gauss(f, q, dim);
    switch (kind) {
    case 1:
        memset(q, 0, dim * sizeof *q);
        break;
    case 2:
        q[dim / 2] = INFINITY;
        break;
    case 3:
        q[dim - 1] = NAN;
        break;
    case 4: /* no step divides them */
        for (size_t i = 0; i < dim; i++)
            q[i] *= 0x1p-140f;
        break;
    case 5: /* the sum of a group overflows */
        for (size_t i = 0; i < dim; i++)
            q[i] = copysignf(FLT_MAX, q[i]);
        break;
    case 6: /* exact halves of a step, one dimension far above all others */
        for (size_t i = 0; i < dim; i++)
            q[i] = (float)(int)rnd_below(&f->r, 9) * 0.5f - 2;
        q[0] = 61;
        q[1] = q[2] = q[3] = 0;
        break;
    default:
        break;
    }
}

static void same_query(fixture *f, const bw_fastscan *k, const bw_fastscan *oracle,
                       size_t dim)
{
    bw_fastscan_table t[2] = {{.entries = f->entries[0], .dim = (uint32_t)dim},
                              {.entries = f->entries[1], .dim = (uint32_t)dim}};
    oracle->table(f->q, &t[0]);
    k->table(f->q, &t[1]);
    assert_int_equal(t[0].total, t[1].total);
    assert_int_equal(bw_fastscan_bits(t[0].half_step), bw_fastscan_bits(t[1].half_step));
    assert_memory_equal(t[0].entries, t[1].entries, bw_fastscan_bytes(dim));
    float step[2];
    oracle->query(f->q, dim, f->q16[0], &step[0]);
    k->query(f->q, dim, f->q16[1], &step[1]);
    assert_int_equal(bw_fastscan_bits(step[0]), bw_fastscan_bits(step[1]));
    assert_memory_equal(f->q16[0], f->q16[1], dim * sizeof(int16_t));
    assert_int_equal(oracle->dot_i8(f->i8, f->q16[0], dim),
                     k->dot_i8(f->i8, f->q16[0], dim));

    uint16_t add[32], scale[32];
    float out[2][32] __attribute__((aligned(64)));
    for (size_t i = 0; i < 32; i++) {
        add[i] = (uint16_t)(rnd_below(&f->r, 0x7C00) | rnd_below(&f->r, 2) << 15);
        scale[i] = (uint16_t)(rnd_below(&f->r, 0x7C00) | rnd_below(&f->r, 2) << 15);
        if (rnd_below(&f->r, 4) == 0) {
            add[i] = 0x7C00;
            scale[i] = 0;
        }
    }
    const float base = (float)rnd_gauss(&f->r), worst = (float)rnd_gauss(&f->r) * 1000;
    const uint32_t a = oracle->estimate(&t[0], f->codes, add, scale, base, worst, out[0]),
                   b = k->estimate(&t[0], f->codes, add, scale, base, worst, out[1]);
    assert_int_equal(a, b);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

static void same_code(fixture *f, const bw_fastscan *k, const bw_fastscan *oracle, size_t dim)
{
    const bw_fastscan_signs a = oracle->signs(f->x, f->c, dim, f->bits[0]),
                            b = k->signs(f->x, f->c, dim, f->bits[1]);
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_equal(f->bits[0], f->bits[1], dim / 8);
    float s[4];
    oracle->grid(f->x, dim, 31.7f, &s[0], &s[1]);
    k->grid(f->x, dim, 31.7f, &s[2], &s[3]);
    assert_memory_equal(s, s + 2, 2 * sizeof *s);
    size_t top = 64;
    while (top <= dim / 2)
        top *= 2;
    memcpy(f->v, f->x, dim * sizeof(float));
    memcpy(f->w, f->x, dim * sizeof(float));
    oracle->rotate(f->v, dim, top, f->flips);
    k->rotate(f->w, dim, top, f->flips);
    assert_memory_equal(f->v, f->w, dim * sizeof(float));
}

static void test_fastscan__has_the_same_bits_on_every_isa(void **state)
{
    fixture *f = *state;
    const bw_fastscan *oracle = bw_fastscan_isa("scalar");
    for (size_t i = 0; i < 4 * DIM_MAX; i++)
        f->flips[i] = (uint32_t)rnd_below(&f->r, 2) << 31;
    random_bytes(f, f->codes, bw_fastscan_bytes(DIM_MAX));
    for (size_t i = 0; i < DIM_MAX; i++)
        f->i8[i] = (int8_t)((int)rnd_below(&f->r, 255) - 127);
    for (size_t i = 1; i < NISA; i++) {
        const bw_fastscan *k = bw_fastscan_isa(isas[i]);
        if (!k) {
            print_message("no %s here\n", isas[i]);
            continue;
        }
        assert_string_equal(k->isa, isas[i]);
        for (size_t d = 0; d < NDIMS; d++) {
            for (size_t kind = 0; kind < 7; kind++) {
                awkward(f, f->q, dims[d], kind);
                same_query(f, k, oracle, dims[d]);
            }
            gauss(f, f->x, dims[d]);
            gauss(f, f->c, dims[d]);
            for (size_t j = 0; j < dims[d]; j += 5) /* ties of x and c */
                f->c[j] = f->x[j];
            same_code(f, k, oracle, dims[d]);
        }
    }
}

static void test_fastscan_estimate__says_nothing_for_a_query_without_direction(void **state)
{
    fixture *f = *state;
    for (size_t kind = 1; kind <= 5; kind++) {
        awkward(f, f->q, 384, kind);
        for (size_t i = 0; i < NISA; i++) {
            const bw_fastscan *k = bw_fastscan_isa(isas[i]);
            if (!k)
                continue;
            bw_fastscan_table t = {.entries = f->entries[0], .dim = 384};
            k->table(f->q, &t);
            uint16_t add[32] = {0}, scale[32];
            float out[32] __attribute__((aligned(64)));
            memset(scale, 0x3C, sizeof scale);
            assert_int_equal(k->estimate(&t, f->codes, add, scale, 2, 3, out), UINT32_MAX);
            for (size_t lane = 0; lane < 32; lane++)
                assert_true(out[lane] == 2);
            float step;
            k->query(f->q, 384, f->q16[0], &step);
            if (kind != 5) /* single values do fit */
                assert_true(step == 0 && k->dot_i8(f->i8, f->q16[0], 384) == 0);
        }
    }
}

static void test_fastscan_dot_i8__cannot_overflow(void **state)
{
    fixture *f = *state;
    for (size_t d = 0; d < NDIMS; d++) {
        const int32_t most = bw_fastscan_query_max(dims[d]);
        for (size_t i = 0; i < dims[d]; i++) {
            f->i8[i] = i % 2 ? 127 : -127;
            f->q16[0][i] = (int16_t)(i % 2 ? most : -most);
        }
        for (size_t i = 0; i < NISA; i++) {
            const bw_fastscan *k = bw_fastscan_isa(isas[i]);
            if (k)
                assert_int_equal(k->dot_i8(f->i8, f->q16[0], dims[d]),
                                 127 * (int32_t)dims[d] * most);
        }
    }
}

static void test_fastscan_put__leaves_other_lanes_alone(void **state)
{
    fixture *f = *state;
    enum { DIM = 384 };
    uint8_t want[32][DIM / 8], have[DIM / 8];
    for (uint32_t lane = 0; lane < 32; lane++) {
        random_bytes(f, want[lane], DIM / 8);
        bw_fastscan_put(f->codes, DIM, lane, want[lane]);
    }
    for (size_t n = 0; n < 100; n++) {
        const uint32_t lane = (uint32_t)rnd_below(&f->r, 32);
        random_bytes(f, want[lane], DIM / 8);
        bw_fastscan_put(f->codes, DIM, lane, want[lane]);
        for (uint32_t i = 0; i < 32; i++) {
            bw_fastscan_take(f->codes, DIM, i, have);
            assert_memory_equal(have, want[i], sizeof have);
        }
    }
}

static void test_fastscan_unhalf__is_exact(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const int e = (int)(h >> 10 & 31), m = (int)(h & 0x3FF);
        const float x = bw_fastscan_unhalf((uint16_t)h);
        if (e == 31) {
            assert_true(m ? x != x : isinf(x));
            continue;
        }
        const float want = e ? ldexpf((float)(1024 + m), e - 25) : ldexpf((float)m, -24);
        assert_true(x == (h & 0x8000 ? -want : want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastscan_table__is_the_query_in_steps),
        cmocka_unit_test(test_fastscan_sums__are_those_of_the_bits),
        cmocka_unit_test(test_fastscan_sums__hold_the_largest_entries),
        cmocka_unit_test(test_fastscan__has_the_same_bits_on_every_isa),
        cmocka_unit_test(test_fastscan_estimate__says_nothing_for_a_query_without_direction),
        cmocka_unit_test(test_fastscan_dot_i8__cannot_overflow),
        cmocka_unit_test(test_fastscan_put__leaves_other_lanes_alone),
        cmocka_unit_test(test_fastscan_unhalf__is_exact),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
