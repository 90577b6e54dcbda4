/* The audit log: chain, torn tails, rotation, query, 500 mutations. */
#include <server/audit.h>
#include <server/files.h>

#include "rnd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    bw_ctx *ctx;
    char dir[64];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-audit-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static const char *file_of(fixture *f, unsigned n)
{
    return bw_arena_printf(f->ctx, "%s/%08u.jsonl", f->dir, n);
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (unsigned n = 1; n < 200; n++)
        (void)unlink(file_of(f, n));
    (void)rmdir(f->dir);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void write_some(fixture *f, bw_audit *a, int n, bool sync)
{
    for (int i = 0; i < n; i++) {
        bw_audit_record r;
        bw_class_id c = {{1, 2, 3}};
        bw_audit_record_init(&r, f->ctx, "request");
        r.principal = i % 2 ? BW_STR("ana") : BW_STR("bo\n\"\x1b[31m");
        r.method = BW_STR("GET");
        r.path = BW_STR("/a\r\nfake");
        r.status = i % 3 ? 200 : 451;
        r.now_ns = 1000000000;
        for (int k = 0; k < 3; k++) {
            bw_point_id id = {0, (uint64_t)k, 0, 0};
            bw_audit_add_id(&r, &id, &c);
        }
        assert_int_equal(bw_audit_write(f->ctx, a, &r, sync), BW_OK);
        bw_audit_record_clear(&r);
    }
}

static bw_status verify(fixture *f, uint64_t *events)
{
    bw_audit_report rep;
    static const uint8_t none[BW_AUDIT_HASH];
    bw_status s = bw_audit_verify(f->ctx, f->dir, 0, none, &rep);
    if (s == BW_OK)
        *events = rep.events;
    return s;
}

static bw_str slurp(fixture *f, unsigned n)
{
    bw_str s;
    assert_int_equal(bw_file_read(f->ctx, file_of(f, n), 1 << 26, &s), BW_OK);
    return s;
}

static void spill(fixture *f, unsigned n, bw_str s)
{
    assert_int_equal(bw_file_replace(f->ctx, file_of(f, n), s, 0600), BW_OK);
}

static void test_audit__chains_over_restarts_and_files(void **state)
{
    fixture *f = *state;
    uint64_t events = 0, seq;
    uint8_t head[BW_AUDIT_HASH];
    bw_audit_report rep;
    for (int i = 0; i < 5; i++) {
        bw_audit *a;
        assert_int_equal(bw_audit_open(f->ctx, f->dir, 2000, &a), BW_OK);
        write_some(f, a, 10, i == 1);
        bw_audit_head(a, &seq, head);
        assert_int_equal(seq, (i + 1) * 10);
        bw_audit_close(a);
    }
    assert_int_equal(verify(f, &events), BW_OK);
    assert_int_equal(events, 50);
    assert_int_equal(bw_audit_verify(f->ctx, f->dir, seq, head, &rep), BW_OK);
    assert_true(rep.files > 3 && rep.expected_found);
    head[0] ^= 1;
    assert_int_equal(bw_audit_verify(f->ctx, f->dir, seq, head, &rep), BW_ECORRUPT);
}

/* A new file is synced, and its folder: not where others' connections wait for it. */
static void test_audit__a_brief_attempt_begins_no_file(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    uint64_t seq, before;
    uint8_t head[BW_AUDIT_HASH];
    bw_audit_record r;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1, &a), BW_OK); /* an event fills it */
    write_some(f, a, 1, false);
    bw_audit_head(a, &before, head);
    bw_audit_record_init(&r, f->ctx, "request");
    bw_ctx_set_brief(f->ctx, UINT64_MAX);
    assert_int_equal(bw_audit_write(f->ctx, a, &r, false), BW_ETIMEOUT);
    assert_true(bw_ctx_was_cut(f->ctx));
    bw_ctx_set_brief(f->ctx, 0);
    bw_audit_head(a, &seq, head);
    assert_int_equal(seq, before);
    assert_int_equal(bw_audit_write(f->ctx, a, &r, false), BW_OK);
    bw_audit_record_clear(&r);
    bw_audit_close(a);
    assert_int_equal(verify(f, &seq), BW_OK);
    assert_int_equal(seq, before + 1);
}

static void test_audit__lines_parse_back(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    size_t lines = 0;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_OK);
    write_some(f, a, 4, true);
    bw_audit_close(a);
    bw_str s = slurp(f, 1);
    while (s.len > 0) {
        const char *lf = memchr(s.ptr, '\n', s.len);
        bw_json *o;
        assert_non_null(lf);
        assert_int_equal(bw_json_parse(f->ctx, (bw_str){s.ptr, (size_t)(lf - s.ptr)},
                                       BW_JSON_REQUEST, &o),
                         BW_OK);
        assert_true(bw_str_eq(bw_json_get(o, "path")->str, BW_STR("/a\r\nfake")));
        assert_true(bw_str_eq(bw_json_get(o, "principal")->str,
                              lines % 2 ? BW_STR("ana") : BW_STR("bo\n\"\x1b[31m")));
        s = (bw_str){lf + 1, s.len - (size_t)(lf + 1 - s.ptr)};
        lines++;
    }
    assert_int_equal(lines, 4);
}

/* A call over many collections names every permitted set: the first ones by itself, the
 * others by their number and a digest that any of them changes. */
static void test_audit__no_permitted_set_is_left_out(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    enum { SETS = BW_AUDIT_PERMITS_MAX + 9 };
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_OK);
    for (int turn = 0; turn < 3; turn++) {
        bw_audit_record r;
        bw_audit_record_init(&r, f->ctx, "request");
        for (int i = 0; i < SETS; i++) {
            uint8_t digest[16] = {(uint8_t)i};
            digest[15] = turn == 2 && i == SETS - 3;
            bw_audit_add_permit(&r, BW_ACTION_QUERY, digest, 7, NULL, 0);
        }
        assert_int_equal(bw_audit_write(f->ctx, a, &r, true), BW_OK);
        bw_audit_record_clear(&r);
    }
    bw_audit_close(a);
    bw_str s = slurp(f, 1), digests[3];
    for (int turn = 0; turn < 3; turn++) {
        const char *lf = memchr(s.ptr, '\n', s.len);
        bw_json *o;
        uint64_t n;
        assert_non_null(lf);
        assert_int_equal(bw_json_parse(f->ctx, (bw_str){s.ptr, (size_t)(lf - s.ptr)},
                                       BW_JSON_REQUEST, &o),
                         BW_OK);
        assert_int_equal(bw_json_get(o, "permitted")->count, BW_AUDIT_PERMITS_MAX);
        const bw_json *more = bw_json_get(o, "permitted_more");
        assert_true(bw_json_u64(bw_json_get(more, "sets"), &n) && n == 9);
        digests[turn] = bw_json_get(more, "digest")->str;
        s = (bw_str){lf + 1, s.len - (size_t)(lf + 1 - s.ptr)};
    }
    assert_true(digests[0].len == 32 && bw_str_eq(digests[0], digests[1]));
    assert_false(bw_str_eq(digests[0], digests[2]));
}

static void test_audit__cuts_every_torn_tail(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    uint64_t events = 0;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_OK);
    write_some(f, a, 3, true);
    bw_audit_close(a);
    bw_str whole = slurp(f, 1);
    size_t last = 0;
    for (size_t i = 0; i + 1 < whole.len; i++)
        if (whole.ptr[i] == '\n')
            last = i + 1;
    for (size_t cut = last; cut < whole.len; cut += 7) {
        spill(f, 1, (bw_str){whole.ptr, cut});
        assert_int_equal(verify(f, &events), cut == last ? BW_OK : BW_ECORRUPT);
        if (cut > last)
            assert_non_null(strstr(bw_ctx_message(f->ctx), "the next start cuts it"));
        assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_OK);
        write_some(f, a, 1, false);
        bw_audit_close(a);
        assert_int_equal(verify(f, &events), BW_OK);
        assert_int_equal(
            events,
            cut == last ? 3 : 4); /* two whole ones, the note of the cut, the new one */
    }
    /* A whole but wrong last line is no torn tail. */
    char *bad = bw_arena_alloc(f->ctx, whole.len);
    memcpy(bad, whole.ptr, whole.len);
    bad[last + 20] ^= 1;
    spill(f, 1, (bw_str){bad, whole.len});
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_ECORRUPT);
}

/* Lines of one file, as offsets. */
static size_t split(bw_str s, size_t *at, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len && n < max; i++)
        if (i == 0 || s.ptr[i - 1] == '\n')
            at[n++] = i;
    at[n] = s.len;
    return n;
}

static void test_audit_verify__finds_500_mutations(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    uint64_t events = 0;
    rnd r = rnd_start("audit mutations", 1);
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &a), BW_OK);
    write_some(f, a, 40, false);
    bw_audit_close(a);
    bw_str whole = slurp(f, 1);
    static size_t at[64];
    size_t n = split(whole, at, 60);
    assert_int_equal(n, 40);
    for (int round = 0; round < 500; round++) {
        bw_buf b = {0};
        size_t i = rnd_below(&r, n), j = rnd_below(&r, n - 1);
        if (j >= i)
            j++;
        unsigned kind = (unsigned)rnd_below(&r, 5);
        size_t flip = rnd_below(&r, whole.len);
        for (size_t k = 0; k < n; k++) {
            size_t pick = k;
            if (kind == 1 && k == i &&
                k + 1 < n) /* drop (not the last: that is --expect's) */
                continue;
            if (kind == 2 && (k == i || k == j)) /* swap */
                pick = k == i ? j : i;
            bw_buf_put(&b, whole.ptr + at[pick], at[pick + 1] - at[pick]);
            if (kind == 3 && k == i) /* twice */
                bw_buf_put(&b, whole.ptr + at[pick], at[pick + 1] - at[pick]);
        }
        if (kind == 1 && i + 1 == n)
            kind = 0;
        if (kind == 0 || kind == 4)
            b.ptr[flip] ^= (char)(1 << rnd_below(&r, 8));
        spill(f, 1, bw_buf_view(&b));
        bw_buf_clear(&b);
        if (verify(f, &events) != BW_ECORRUPT)
            fail_msg("mutation %u at %zu was not found", kind,
                     kind == 0 || kind == 4 ? flip : i);
    }
}

static void test_audit_query__filters_and_pages(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    bw_buf b = {0};
    uint64_t next = 0, found = 0;
    bw_json *list;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 2000, &a), BW_OK);
    write_some(f, a, 30, false);
    bw_audit_filter filter = {
        .has_after = true, .limit = 4, .principal = BW_STR("ana")};
    for (int pages = 0; pages < 10; pages++) {
        bw_buf_clear(&b);
        bw_buf_putc(&b, '[');
        assert_int_equal(bw_audit_query(f->ctx, a, &filter, &b, &next), BW_OK);
        bw_buf_putc(&b, ']');
        assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &list),
                         BW_OK);
        assert_true(list->count <= 4);
        found += list->count;
        if (!next)
            break;
        filter.after = next;
    }
    assert_int_equal(found, 15);
    filter = (bw_audit_filter){.limit = 5};
    bw_buf_clear(&b);
    bw_buf_putc(&b, '[');
    assert_int_equal(bw_audit_query(f->ctx, a, &filter, &b, &next), BW_OK);
    bw_buf_putc(&b, ']');
    assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &list),
                     BW_OK);
    assert_int_equal(list->count, 5);
    assert_int_equal(bw_json_get(list->child, "seq")->mag, 26);
    /* the last seven of hers, out of three files: not hers among the last seven */
    filter = (bw_audit_filter){.limit = 7, .principal = BW_STR("ana")};
    bw_buf_clear(&b);
    bw_buf_putc(&b, '[');
    assert_int_equal(bw_audit_query(f->ctx, a, &filter, &b, &next), BW_OK);
    bw_buf_putc(&b, ']');
    assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_REQUEST, &list),
                     BW_OK);
    assert_int_equal(list->count, 7);
    assert_in_range(bw_json_get(list->child, "seq")->mag, 17, 18);
    assert_int_equal(next, 0);
    bw_buf_clear(&b);
    bw_audit_close(a);
}

typedef struct writer {
    bw_audit *a;
    bw_status s;
} writer;

static void *many(void *arg)
{
    writer *w = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    for (int i = 0; i < 50 && w->s == BW_OK; i++) {
        bw_audit_record r;
        bw_audit_record_init(&r, ctx, "request");
        r.now_ns = 1;
        w->s = bw_audit_write(ctx, w->a, &r, i % 4 == 0);
    }
    bw_ctx_free(ctx);
    return NULL;
}

static void test_audit__threads_share_syncs_and_rotation(void **state)
{
    fixture *f = *state;
    writer w[8];
    pthread_t t[8];
    uint64_t events = 0;
    bw_audit *a;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 3000, &a), BW_OK);
    for (int i = 0; i < 8; i++) {
        w[i] = (writer){a, BW_OK};
        assert_int_equal(pthread_create(&t[i], NULL, many, &w[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(w[i].s, BW_OK);
    }
    bw_audit_close(a);
    assert_int_equal(verify(f, &events), BW_OK);
    assert_int_equal(events, 400);
}

static void test_audit__missing_file_is_found(void **state)
{
    fixture *f = *state;
    bw_audit *a;
    uint64_t events;
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1000, &a), BW_OK);
    write_some(f, a, 20, false);
    bw_audit_close(a);
    assert_int_equal(verify(f, &events), BW_OK);
    assert_int_equal(unlink(file_of(f, 2)), 0);
    assert_int_equal(verify(f, &events), BW_ECORRUPT);
    assert_int_equal(unlink(file_of(f, 1)), 0);
    assert_int_equal(verify(f, &events), BW_ECORRUPT);
}

int main(void)
{
    bw_log_set_level(BW_LOG_ERROR); /* every cut tail is a warning */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_audit__chains_over_restarts_and_files,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit__a_brief_attempt_begins_no_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_audit__lines_parse_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit__no_permitted_set_is_left_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_audit__cuts_every_torn_tail, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_audit_verify__finds_500_mutations, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_audit_query__filters_and_pages, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_audit__threads_share_syncs_and_rotation,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit__missing_file_is_found, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("server/audit", tests, NULL, NULL);
}
