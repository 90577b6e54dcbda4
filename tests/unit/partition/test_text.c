/* Text: words, term frequencies, snapshots older than the table. */
#include "engine/partition/part.h"
#include "engine/store/failpoint.h"
#include "engine_cell.h"

enum { DIM = 2 };

static int setup(void **state)
{
    cell *c = calloc(1, sizeof *c);
    cell_init(c, NULL);
    cell_collection(c, DIM, BW_METRIC_DOT, 3);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    cell *c = *state;
    cell_clear(c);
    free(c);
    return 0;
}

static void put(cell *c, unsigned class_no, uint64_t id, const char *text)
{
    bw_point p = cell_point(c, class_no, id, DIM, text);
    cell_upsert(c, &p, 1);
}

/* The lists in memory say what the table says: rows, counts, scores to the bit. */
static void check_lists(cell *c, const bw_snapshot *s, const bw_text_query *q,
                        const bw_text_stats *stats, const bw_text_match *m, size_t n)
{
    enum { K = 3 };
    bw_text_stats own = {0};
    bw_text_found found;
    bw_candidate got[K], want[K];
    bw_topk a, b;
    bw_bitmap rows, visible;
    const bw_bitmap *live = bw_snapshot_live(s);
    uint64_t *df = bw_arena_calloc(c->ctx, q->nterms, sizeof *df);
    double *idf = bw_arena_alloc(c->ctx, q->nterms * sizeof *idf);
    OK(bw_snapshot_text_find(c->ctx, s, q, live, &own, df, &found));
    assert_memory_equal(&own, stats, sizeof own);
    for (size_t j = 0; j < q->nterms; j++) {
        uint64_t have = 0;
        for (size_t i = 0; i < n; i++)
            have += m[i].tf[j] > 0;
        assert_int_equal(df[j], have);
        idf[j] = 1.0 / (double)(1 + j);
    }
    OK(bw_bitmap_arena(c->ctx, s->nrows, &rows));
    OK(bw_bitmap_arena(c->ctx, s->nrows, &visible));
    bw_bitmap_copy(&visible, live);
    bw_snapshot_text_rows(s, q, &found, &rows);
    bw_bitmap_and(&rows, &visible);
    assert_int_equal(bw_bitmap_count(&rows), n);
    bw_topk_init(&a, got, K);
    bw_topk_init(&b, want, K);
    const bw_text_weights weights = {idf, 5};
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        assert_true(bw_bitmap_get(&rows, m[i].row));
        for (size_t j = 0; j < q->nterms; j++)
            if (m[i].tf[j] > 0)
                sum += bw_bm25_part(idf[j], m[i].tf[j], bw_bm25_norm(m[i].length, 5));
        const bw_candidate k = {(float)sum, 1, m[i].row, *bw_snapshot_id(s, m[i].row)};
        bw_topk_push(&b, &k);
    }
    OK(bw_snapshot_text_best(c->ctx, s, q, &found, &weights, live, 1, &a));
    bw_topk_sort(&a);
    bw_topk_sort(&b);
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(got[i].row, want[i].row);
        assert_memory_equal(&got[i].key, &want[i].key, sizeof got[i].key);
    }
}

/* "id:len:tf,tf id:…" of what one class holds of a query; statistics at the end. */
static const char *find_in(cell *c, const bw_snapshot *s, const char *query)
{
    const bw_str *terms;
    size_t nterms, n;
    OK(bw_text_terms(c->ctx, bw_str_c(query), &terms, &nterms));
    bw_text_stats stats = {0};
    const bw_text_match *m;
    OK(bw_snapshot_text(c->ctx, s, terms, nterms, bw_snapshot_live(s), &stats, &m, &n));
    bw_text_query q = {.terms = terms, .nterms = nterms};
    OK(bw_text_stems(c->ctx, terms, nterms, &q.stems));
    check_lists(c, s, &q, &stats, m, n);
    bw_buf b = {0};
    for (size_t i = 0; i < n; i++) {
        bw_buf_printf(&b,
                      "%llu:%u:", (unsigned long long)bw_snapshot_id(s, m[i].row)->lo,
                      m[i].length);
        for (size_t k = 0; k < nterms; k++)
            bw_buf_printf(&b, k ? ",%u" : "%u", m[i].tf[k]);
        bw_buf_putc(&b, ' ');
    }
    bw_buf_printf(&b, "docs=%llu tokens=%llu", (unsigned long long)stats.ndocs,
                  (unsigned long long)stats.ntokens);
    bw_str out;
    OK(bw_arena_str(c->ctx, bw_buf_view(&b), &out));
    bw_buf_clear(&b);
    return bw_arena_printf(c->ctx, "%.*s", (int)out.len, out.ptr);
}

static const char *find(cell *c, unsigned class_no, const char *query)
{
    bw_view v = cell_view(c, class_no, class_no);
    assert_int_equal(v.nparts, 1);
    const char *out = find_in(c, v.parts[0], query);
    bw_view_close(&v);
    return out;
}

static void test_text_terms__split_as_the_table_does(void **state)
{
    cell *c = *state;
    struct {
        const char *in, *out;
    } cases[] = {
        {"Running runs RUN!", "running"}, /* one stem, its first word */
        {"Müller's café-bar", "muller s cafe bar"},
        {"a\" OR b* NEAR(c) col:d -e", "a or b near c col d e"},
        {"", ""},
        {"  ,;  ", ""},
        {"agreed agree", "agreed"},
        {"naïve NAIVE", "naive"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bw_str *terms;
        size_t n;
        OK(bw_text_terms(c->ctx, bw_str_c(cases[i].in), &terms, &n));
        bw_buf b = {0};
        for (size_t k = 0; k < n; k++) {
            bw_buf_puts(&b, k ? " " : "");
            bw_buf_str(&b, terms[k]);
        }
        assert_true(bw_str_eq(bw_buf_view(&b), bw_str_c(cases[i].out)));
        bw_buf_clear(&b);
    }
}

static void test_snapshot_text__counts_terms_and_lengths(void **state)
{
    cell *c = *state;
    put(c, 1, 1, "The law of the sea. Laws at sea");
    put(c, 1, 2, "A ship");
    put(c, 1, 3, NULL);
    put(c, 1, 4, "agreed agree agreement");
    put(c, 2, 5, "law law law");
    for (int round = 0; round < 2; round++) {
        assert_string_equal(find(c, 1, "law sea"), "1:8:2,2 docs=3 tokens=13");
        assert_string_equal(find(c, 1, "ship law"), "1:8:0,2 2:2:1,0 docs=3 tokens=13");
        assert_string_equal(find(c, 1, "nothing"), "docs=3 tokens=13");
        assert_string_equal(find(c, 1, "agreed"), "4:3:2 docs=3 tokens=13");
        assert_string_equal(find(c, 2, "law"), "5:3:3 docs=1 tokens=3");
        cell_reopen(c);
    }
}

static void test_snapshot_text__a_query_is_never_syntax(void **state)
{
    cell *c = *state;
    put(c, 1, 1, "and or not near");
    const char *queries[] = {
        "\"",     "a AND (",         "text:near", "near*",          "^near",
        "\"near", "NEAR(or not, 5)", "- + {}",    "near\"\" OR \"x"};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        assert_non_null(strstr(find(c, 1, queries[i]), "docs=1 tokens=4"));
    assert_string_equal(find(c, 1, "NOT"), "1:4:1 docs=1 tokens=4");
}

static void test_snapshot_text__old_snapshots_find_what_they_cover(void **state)
{
    cell *c = *state;
    put(c, 1, 1, "old words here");
    put(c, 1, 2, "other words");
    put(c, 1, 3, "agreed words");
    bw_view v = cell_view(c, 1, 1);
    const char *words = find_in(c, v.parts[0], "words old"),
               *agreed = find_in(c, v.parts[0], "agreed");
    put(c, 1, 1, "new text");
    put(c, 1, 4, "words words");
    bw_point_id gone[] = {cell_id(2), cell_id(3)};
    bw_access a = cell_access(c, 1, 3);
    bw_op op = {.kind = BW_OP_DELETE, .ids = gone, .nids = 2};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    assert_string_equal(find_in(c, v.parts[0], "words old"), words);
    assert_string_equal(find_in(c, v.parts[0], "agreed"), agreed);
    assert_string_equal(find(c, 1, "words old"), "4:2:2,0 docs=2 tokens=4");
    bw_view_close(&v);
}

static void test_snapshot_text__changes_that_keep_the_text_keep_its_words(void **state)
{
    cell *c = *state;
    put(c, 1, 1, "stable words");
    bw_point_id id = cell_id(1);
    bw_access a = cell_access(c, 1, 3);
    bw_op op = {.kind = BW_OP_SET_PAYLOAD,
                .ids = &id,
                .nids = 1,
                .payload = BW_STR("{\"x\":1}")};
    bw_write_result r;
    OK(cell_write(c, &a, &op, 1, &r));
    for (int round = 0; round < 2; round++) {
        assert_string_equal(find(c, 1, "stable"), "1:2:1 docs=1 tokens=2");
        cell_reopen(c);
    }
}

#ifdef BW_DEBUG
static bw_status refuse_commit(const char *name)
{
    return strcmp(name, "db.commit") == 0 ? BW_EIO : BW_OK;
}

/* A refused write gives its keys back, and its rows in memory must not answer to them.
 */
static void test_snapshot_text__finds_what_comes_after_a_refused_write(void **state)
{
    cell *c = *state;
    put(c, 1, 1, "first words");
    bw_point p[3];
    for (unsigned i = 0; i < 3; i++)
        p[i] = cell_point(c, 1, 10 + i, DIM, "refused words");
    bw_access a = cell_access(c, 1, 3);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = 3};
    bw_write_result r;
    for (uint64_t id = 2; id < 6; id++) {
        bw_failpoint_set(refuse_commit);
        assert_int_equal(cell_write(c, &a, &op, 1, &r), BW_EIO);
        bw_failpoint_set(NULL);
        put(c, 1, id, "later words");
    }
    put(c, 1, 3, "other");
    assert_string_equal(find(c, 1, "words"), "1:2:1 2:2:1 4:2:1 5:2:1 docs=5 tokens=9");
    bw_view old = cell_view(c, 1, 1);
    put(c, 1, 4, "other");
    assert_string_equal(find_in(c, old.parts[0], "words"),
                        "1:2:1 2:2:1 4:2:1 5:2:1 docs=5 tokens=9");
    bw_view_close(&old);
}
#endif

static void test_snapshot_text__looks_at_the_deadline_over_ended_rows(void **state)
{
    enum { ROWS = 600 };
    cell *c = *state;
    bw_point *p = bw_arena_calloc(c->ctx, ROWS, sizeof *p);
    for (unsigned i = 0; i < ROWS; i++)
        p[i] = cell_point(c, 1, i, DIM, "early words");
    cell_upsert(c, p, ROWS);
    bw_view old = cell_view(c, 1, 1);
    cell_upsert(c, p, ROWS);
    const bw_str *terms;
    size_t nterms, n;
    OK(bw_text_terms(c->ctx, BW_STR("early"), &terms, &nterms));
    bw_text_stats stats = {0};
    const bw_text_match *m;
    const bw_bitmap *live = bw_snapshot_live(old.parts[0]);
    OK(bw_snapshot_text(c->ctx, old.parts[0], terms, nterms, live, &stats, &m, &n));
    assert_int_equal(n, ROWS);
    bw_ctx_set_deadline(c->ctx, 1);
    assert_int_equal(
        bw_snapshot_text(c->ctx, old.parts[0], terms, nterms, live, &stats, &m, &n),
        BW_ETIMEOUT);
    bw_ctx_set_deadline(c->ctx, 0);
    bw_view_close(&old);
}

/* More text than one query adds to the lists: the table answers for the rest, and each
 * query finds the same. */
static void test_snapshot_text__the_table_answers_for_what_the_lists_lack(void **state)
{
    enum { LARGE = 900000, ROWS = 6 };
    cell *c = *state;
    for (unsigned id = 0; id < ROWS; id++) {
        char *text = bw_arena_alloc(c->ctx, LARGE + 1);
        for (size_t i = 0; i < LARGE; i += 6)
            memcpy(text + i, i / 6 % 5 <= id % 5 ? "words " : "other ", 6);
        text[LARGE] = 0;
        put(c, 1, id, text);
        bw_ctx_reset(c->ctx);
    }
    cell_reopen(c);
    const char *first = NULL;
    for (int round = 0; round < 4; round++) {
        const char *now = find(c, 1, "words absent");
        if (first)
            assert_string_equal(now, first);
        first = now;
        bw_view v = cell_view(c, 1, 1);
        assert_int_equal(bw_words_rows(v.parts[0]->gen->words), round == 0 ? 3 : ROWS);
        bw_view_close(&v);
    }
    put(c, 1, 2, "few words");
    put(c, 1, 9, "words words");
    assert_non_null(strstr(find(c, 1, "words few"), "2:2:1,1 9:2:2,0"));
}

/* The first use of the tokenizers lacks memory; the next one must not remember that. */
static void test_text__starts_again_after_no_memory(void **state)
{
    cell *c = *state;
    uint32_t n = 0;
    (void)sqlite3_hard_heap_limit64(1);
    bw_status st = bw_text_count(c->ctx, BW_STR("two words"), &n);
    (void)sqlite3_hard_heap_limit64(0);
    assert_int_equal(st, BW_ENOMEM);
    OK(bw_text_count(c->ctx, BW_STR("two words"), &n));
    assert_int_equal(n, 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_text__starts_again_after_no_memory), /* first: before any text */
        T(test_text_terms__split_as_the_table_does),
        T(test_snapshot_text__counts_terms_and_lengths),
        T(test_snapshot_text__a_query_is_never_syntax),
        T(test_snapshot_text__old_snapshots_find_what_they_cover),
        T(test_snapshot_text__changes_that_keep_the_text_keep_its_words),
        T(test_snapshot_text__looks_at_the_deadline_over_ended_rows),
        T(test_snapshot_text__the_table_answers_for_what_the_lists_lack),
#ifdef BW_DEBUG
        T(test_snapshot_text__finds_what_comes_after_a_refused_write),
#endif
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
