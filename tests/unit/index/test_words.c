/* Lists of words against a plain loop over all texts: counts, scores bit for bit, ties. */
#include "engine/index/words.h"
#include "rnd.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROWS = 9000, VOCABULARY = 300, LENGTH = 24, K_MAX = 50, QUERY_MAX = 12 };

typedef struct fixture {
    rnd r;
    bw_ctx *ctx;
    bw_words *w;
    uint16_t texts[ROWS][LENGTH];
    uint32_t lengths[ROWS]; /* 0: no text */
    bw_point_id ids[ROWS];
    bw_bitmap allowed;
} fixture;

static size_t live; /* bytes that are allocated; the tests have one thread */

static void *count_alloc(size_t n)
{
    void *p = malloc(n);
    live += malloc_usable_size(p);
    return p;
}

static void *count_realloc(void *old, size_t n)
{
    live -= malloc_usable_size(old);
    void *p = realloc(old, n);
    live += malloc_usable_size(p ? p : old);
    return p;
}

static void count_free(void *p)
{
    live -= malloc_usable_size(p);
    free(p);
}

static const bw_allocator counting = {count_alloc, count_realloc, count_free};

static bw_str word_of(uint32_t n, char text[16])
{
    int len = snprintf(text, 16, "w%u", n);
    return (bw_str){text, (size_t)len};
}

/* Few words are in most texts, many in hardly any. */
static uint16_t draw(rnd *r)
{
    double u = rnd_unit(r);
    return (uint16_t)((double)VOCABULARY * u * u * u * u);
}

static void add(fixture *f, uint32_t row)
{
    char text[16];
    if (f->lengths[row] > 0)
        assert_int_equal(bw_words_begin(f->ctx, f->w, row, f->lengths[row]), BW_OK);
    for (uint32_t i = 0; i < f->lengths[row]; i++)
        assert_int_equal(bw_words_put(f->ctx, f->w, word_of(f->texts[row][i], text)),
                         BW_OK);
    bw_words_end(f->w, row + 1);
}

static int setup(void **state)
{
    fixture *f = bw_calloc(1, sizeof *f);
    f->r = rnd_start("words", 20261201);
    f->ctx = bw_ctx_new(0);
    f->w = bw_words_new();
    assert_non_null(f->w);
    assert_true(bw_bitmap_heap(ROWS, &f->allowed));
    for (uint32_t row = 0; row < ROWS; row++) {
        f->lengths[row] = rnd_below(&f->r, 9) == 0 ? 0 : 1 + (uint32_t)rnd_below(&f->r, LENGTH);
        for (uint32_t i = 0; i < f->lengths[row]; i++)
            f->texts[row][i] = draw(&f->r);
        if (row % 10 == 9) { /* the same scores once more: ids decide */
            f->lengths[row] = f->lengths[row - 1];
            memcpy(f->texts[row], f->texts[row - 1], sizeof f->texts[row]);
        }
        f->ids[row] = (bw_point_id){.lo = rnd_below(&f->r, 1000)};
        add(f, row);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_words_free(f->w);
    bw_bitmap_free(&f->allowed);
    bw_ctx_free(f->ctx);
    bw_free(f);
    return 0;
}

static uint32_t tf_of(const fixture *f, uint32_t row, uint32_t word)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->lengths[row]; i++)
        n += f->texts[row][i] == word;
    return n;
}

typedef struct question {
    uint32_t words[QUERY_MAX], lists[QUERY_MAX];
    double idf[QUERY_MAX], mean;
    size_t n;
    uint32_t end;
} question;

static void oracle(const fixture *f, const question *q, bw_topk *out)
{
    for (uint32_t row = 0; row < q->end; row++) {
        double sum = 0;
        if (!bw_bitmap_get(&f->allowed, row))
            continue;
        for (size_t j = 0; j < q->n; j++) {
            double tf = tf_of(f, row, q->words[j]);
            double norm = 1.0 - 0.75 + (q->mean > 0 ? 0.75 * (double)f->lengths[row] / q->mean : 0);
            if (tf > 0)
                sum += q->idf[j] * tf * (1.2 + 1.0) / (tf + 1.2 * norm);
        }
        const bw_candidate c = {(float)sum, 3, row, f->ids[row]};
        if (sum > 0)
            bw_topk_push(out, &c);
    }
}

static question ask(fixture *f)
{
    question q = {.n = 1 + rnd_below(&f->r, QUERY_MAX),
                  .mean = rnd_below(&f->r, 8) == 0 ? 0 : 1 + 30 * rnd_unit(&f->r),
                  .end = rnd_below(&f->r, 3) == 0 ? (uint32_t)rnd_below(&f->r, ROWS) : ROWS};
    char text[16];
    for (size_t j = 0; j < q.n; j++) {
        q.words[j] = rnd_below(&f->r, 2) ? draw(&f->r)
                                         : (uint32_t)rnd_below(&f->r, VOCABULARY + 5);
        q.lists[j] = bw_words_find(f->w, word_of(q.words[j], text));
        uint64_t df = bw_words_df(f->w, q.lists[j], q.end, NULL), want = 0;
        for (uint32_t row = 0; row < q.end; row++)
            want += tf_of(f, row, q.words[j]) > 0;
        assert_int_equal(df, want);
        q.idf[j] = log(1.0 + ((double)ROWS - (double)df + 0.5) / ((double)df + 0.5));
    }
    return q;
}

static void test_words_search__is_a_plain_loop(void **state)
{
    fixture *f = *state;
    static const size_t ks[] = {1, 10, K_MAX};
    for (int round = 0; round < 120; round++) {
        question q = ask(f);
        const size_t share = 1 + rnd_below(&f->r, 4), k = ks[round % 3];
        for (uint32_t row = 0; row < ROWS; row++)
            if (share == 1 || rnd_below(&f->r, share * share * share) == 0)
                bw_bitmap_set(&f->allowed, row);
            else
                bw_bitmap_unset(&f->allowed, row);
        bw_candidate got[K_MAX], want[K_MAX];
        bw_topk a, b;
        bw_topk_init(&a, got, k);
        bw_topk_init(&b, want, k);
        /* Another partition's rows prune here. */
        for (size_t i = 0; round % 4 == 3 && i < k; i++) {
            const bw_candidate c = {(float)i / 4, 1, (uint32_t)i, {.lo = 500 + i}};
            bw_topk_push(&a, &c);
            bw_topk_push(&b, &c);
        }
        const bw_words_query w = {.lists = q.lists,
                                  .idf = q.idf,
                                  .n = q.n,
                                  .mean = q.mean,
                                  .end = q.end,
                                  .allowed = &f->allowed,
                                  .ids = f->ids,
                                  .part = 3};
        assert_int_equal(bw_words_search(f->ctx, f->w, &w, &a), BW_OK);
        oracle(f, &q, &b);
        bw_topk_sort(&a);
        bw_topk_sort(&b);
        assert_int_equal(a.n, b.n);
        for (size_t i = 0; i < a.n; i++) {
            assert_int_equal(got[i].row, want[i].row);
            assert_memory_equal(&got[i].key, &want[i].key, sizeof got[i].key);
        }
    }
}

static void test_words_df__counts_what_is_visible(void **state)
{
    fixture *f = *state;
    char text[16];
    for (uint32_t row = 0; row < ROWS; row++)
        if (rnd_below(&f->r, 3) == 0)
            bw_bitmap_set(&f->allowed, row);
    for (uint32_t word = 0; word < VOCABULARY + 5; word += 7) {
        uint32_t list = bw_words_find(f->w, word_of(word, text)), end = ROWS - word;
        uint64_t want = 0;
        for (uint32_t row = 0; row < end; row++)
            want += tf_of(f, row, word) > 0 && bw_bitmap_get(&f->allowed, row);
        assert_int_equal(bw_words_df(f->w, list, end, &f->allowed), want);
    }
}

/* A word that one text has more often than a byte counts, next to one that has it once
 * less; a text that failed on its way leaves nothing. */
static void test_words__counts_of_any_size_and_texts_that_failed(void **state)
{
    static const uint32_t counts[] = {1, 254, 255, 256, 70000};
    bw_ctx *ctx = bw_ctx_new(0);
    bw_words *w = bw_words_new();
    bw_words_cursor c;
    (void)state;
    for (uint32_t row = 0; row < 5; row++) {
        for (int attempt = 0; attempt < 2; attempt++) {
            assert_int_equal(bw_words_begin(ctx, w, row, counts[row] + 1), BW_OK);
            for (uint32_t i = 0; i < counts[row]; i++)
                assert_int_equal(bw_words_put(ctx, w, BW_STR("often")), BW_OK);
            assert_int_equal(bw_words_put(ctx, w, attempt ? BW_STR("end") : BW_STR("cut")),
                             BW_OK);
            if (attempt == 0)
                bw_words_undo(w);
        }
        bw_words_end(w, row + 1);
    }
    assert_int_equal(bw_words_df(w, bw_words_find(w, BW_STR("cut")), 5, NULL), 0);
    assert_int_equal(bw_words_df(w, bw_words_find(w, BW_STR("end")), 5, NULL), 5);
    bw_words_walk(w, bw_words_find(w, BW_STR("often")), 5, &c);
    for (uint32_t row = 0; row < 5; row++, c.at++) {
        assert_int_equal(bw_words_row(&c), row);
        assert_int_equal(bw_words_tf(&c), counts[row]);
    }
    assert_int_equal(bw_words_row(&c), BW_WORDS_NONE);
    assert_int_equal(bw_words_begin(ctx, w, 4, 1), BW_EINTERNAL);
    assert_true(bw_words_bytes(w) > 0);
    assert_int_equal(bw_words_find(w, BW_STR("never")), BW_WORDS_NONE);
    bw_words_free(w);
    bw_words_free(NULL);
    bw_ctx_free(ctx);
}

/* Many words of few rows: mostly tables. Above: the heap rounds small blocks up. */
static void test_words_bytes__is_what_is_held(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    const size_t before = live;
    bw_words *w = bw_words_new();
    char text[16];
    for (uint32_t row = 0; row < 20000; row++) {
        assert_int_equal(bw_words_begin(ctx, w, row, 1), BW_OK);
        assert_int_equal(bw_words_put(ctx, w, word_of(row, text)), BW_OK);
        bw_words_end(w, row + 1);
    }
    const double held = (double)(live - before), said = (double)bw_words_bytes(w);
    printf("held %.0f, said %.0f\n", held, said);
    assert_true(said > 0.6 * held && said <= held);
    bw_words_free(w);
    assert_int_equal(live, before);
    bw_ctx_free(ctx);
}

static void test_words_search__ends_at_the_deadline(void **state)
{
    fixture *f = *state;
    question q = ask(f);
    bw_candidate items[10];
    bw_topk t;
    q.lists[0] = bw_words_find(f->w, BW_STR("w0"));
    bw_topk_init(&t, items, 10);
    const bw_words_query w = {.lists = q.lists,
                              .idf = q.idf,
                              .n = 1,
                              .end = ROWS,
                              .allowed = &f->allowed,
                              .ids = f->ids};
    bw_ctx_set_deadline(f->ctx, 1);
    assert_int_equal(bw_words_search(f->ctx, f->w, &w, &t), BW_ETIMEOUT);
}

int main(void)
{
    bw_allocator_set(&counting);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_words_search__is_a_plain_loop),
        T(test_words_df__counts_what_is_visible),
        T(test_words_search__ends_at_the_deadline),
        cmocka_unit_test(test_words_bytes__is_what_is_held),
        cmocka_unit_test(test_words__counts_of_any_size_and_texts_that_failed),
    };
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
