/* Replay in small: known events, hostile events in a sound chain, memory that runs out. */
#include <server/audit_file.h>
#include <server/files.h>
#include <server/replay.h>

#include "rnd.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include "failing_alloc.h"
#include "pack.h"

#define SOURCED ",\"source\":\"test\",\"date\":\"2026-01-01\""
static const char catalogue[] =
    "{\"date\":\"2026-01-01\",\"zones\":[{\"id\":\"EU\",\"kind\":\"group\",\"countries\":[\"FR\"]" SOURCED "},"
    "{\"id\":\"ok\",\"kind\":\"allow\"" SOURCED "},{\"id\":\"half\",\"kind\":\"allow\"" SOURCED "}],"
    "\"countries\":[{\"code\":\"FR\",\"in\":[\"EU\"]" SOURCED "}],"
    "\"vocabulary\":{\"regimes\":[{\"word\":\"gdpr\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "},"
    "{\"word\":\"uk-gdpr\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "},"
    "{\"word\":\"fadp\",\"zone\":\"ok\",\"conditional\":\"half\"" SOURCED "}],\"purposes\":[{\"word\":\"a\"" SOURCED "}]}}";
#define OWN \
    "@id(\"own\") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };" \
    "@id(\"adm\") permit (principal, action == Bw::Action::\"Admin\", resource);"
#define SHUT OWN "@id(\"shut\") forbid (principal, action == Bw::Action::\"Query\", resource is Bw::DataClass) when { resource.sensitivity > 1 };"
static const char *const labels[] = {
    "{\"tenant\":\"acme\",\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}",
    "{\"tenant\":\"acme\",\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":2,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}",
    "{\"tenant\":\"zeta\",\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":0,\"categories\":[],\"labels\":[],\"purposes\":[],\"legal_hold\":false}"};

typedef struct fixture {
    bw_ctx *ctx;
    char dir[64];
    const char *audit;
    bw_class_id ids[3]; /* sorted */
    char policies[BW_DIGEST_TEXT + 1], facts[BW_DIGEST_TEXT + 1], list[BW_DIGEST_TEXT + 1], set[BW_DIGEST_TEXT + 1];
} fixture;

static bw_status text_of(void *arg, const bw_class_id *id, bw_str *out)
{
    (void)arg;
    for (size_t i = 0; i < 3; i++) {
        bw_class_id is;
        *out = bw_str_c(labels[i]);
        bw_labels_class_id(*out, &is);
        if (bw_class_id_cmp(&is, id) == 0)
            return BW_OK;
    }
    return BW_ENOTFOUND;
}

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* A data folder: texts, the register with one list of three classes (two of them acme's). */
static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-replay-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->audit = bw_path_join(f->ctx, f->dir, "audit");
    assert_int_equal(bw_dir_make(f->ctx, f->audit), BW_OK);
    bw_facts facts = {.schema = pack_file(f->ctx, "bw.cedarschema"), .catalogue = bw_str_c(catalogue),
                      .cell = {BW_STR("par"), BW_STR("FR"), BW_STR("op"), NULL, NULL, 0, 0}};
    assert_int_equal(bw_archive_keep(f->ctx, f->dir, BW_ARCHIVE_POLICIES, BW_STR(OWN), f->policies), BW_OK);
    assert_int_equal(bw_facts_keep(f->ctx, f->dir, &facts, f->facts), BW_OK);
    bw_register *r;
    bw_class_id own[2];
    uint8_t digest[BW_LIST_DIGEST];
    for (size_t i = 0; i < 3; i++)
        bw_labels_class_id(bw_str_c(labels[i]), &f->ids[i]);
    memcpy(own, f->ids, sizeof own);
    qsort(f->ids, 3, sizeof *f->ids, by_id);
    qsort(own, 2, sizeof *own, by_id);
    assert_int_equal(bw_register_open(f->ctx, f->audit, &r), BW_OK);
    assert_int_equal(bw_register_list(f->ctx, r, 1, 1, f->ids, 3, text_of, NULL, digest), BW_OK);
    bw_register_close(r);
    sodium_bin2hex(f->list, sizeof f->list, digest, sizeof digest);
    bw_register_digest(own, 2, digest);
    sodium_bin2hex(f->set, sizeof f->set, digest, sizeof digest);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    const char *command = bw_arena_printf(f->ctx, "rm -r %s", f->dir);
    assert_int_equal(system(command), 0);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

/* A log of these events' members, in a sound chain. */
static void write_log(fixture *f, const bw_str *events, size_t n)
{
    bw_buf log = {0};
    uint8_t head[BW_AUDIT_HASH] = {0};
    char hex[2 * BW_AUDIT_HASH + 1];
    for (size_t i = 0; i < n; i++) {
        bw_buf b = {0};
        bw_buf_printf(&b, "{\"seq\":%zu,\"time\":\"2026-11-30T12:00:%02zuZ\",", i + 1, i % 60);
        bw_buf_str(&b, events[i]);
        sodium_bin2hex(hex, sizeof hex, head, sizeof head);
        bw_buf_printf(&b, ",\"prev\":\"%s\"", hex);
        bw_audit__hash(head, bw_buf_view(&b), head);
        sodium_bin2hex(hex, sizeof hex, head, sizeof head);
        bw_buf_printf(&b, ",\"hash\":\"%s\"}\n", hex);
        bw_buf_str(&log, bw_buf_view(&b));
        bw_buf_clear(&b);
    }
    FILE *out = fopen(bw_path_join(f->ctx, f->audit, "00000001.jsonl"), "wb"); /* unsynced: written often */
    assert_true(out && fwrite(log.ptr, 1, log.len, out) == log.len && fclose(out) == 0);
    bw_buf_clear(&log);
}

static bw_str sound_event(fixture *f)
{
    return bw_str_c(bw_arena_printf(
        f->ctx,
        "\"event\":\"request\",\"principal\":\"ana\",\"tenant\":\"acme\",\"seat\":\"FR\",\"clearance\":3,\"roles\":[\"r\"],"
        "\"purpose\":\"a\",\"safeguards\":[],\"permitted\":[{\"action\":\"Query\",\"set\":\"%s\",\"classes\":2,\"of\":\"%s\"}],"
        "\"allowed\":[{\"action\":\"Admin\",\"cell\":true}],"
        "\"denied\":[{\"action\":\"ManageCollection\",\"on\":\"docs\",\"policies\":\"\"}],\"policies\":\"%s\",\"facts\":\"%s\"",
        f->set, f->list, f->policies, f->facts));
}

static bw_status run(fixture *f, bw_ctx *ctx, const char *candidate, bw_buf *out)
{
    bw_replay_options o = {.dir = f->dir, .policies = bw_str_c(candidate)};
    return bw_replay_run(ctx, &o, out);
}

static bool says(const bw_buf *b, const char *what)
{
    return memmem(b->ptr, b->len, what, strlen(what)) != NULL;
}

static void test_replay__tells_what_turns(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    bw_str events[3] = {sound_event(f), BW_STR("\"event\":\"policies\""), sound_event(f)};
    write_log(f, events, 3);
    assert_int_equal(run(f, f->ctx, NULL, &b), BW_OK);
    assert_true(says(&b, "\"requests\":2,\"without_decisions\":0,\"decisions\":10,\"reproduced\":10,\"not_reproduced\":0"));
    assert_true(says(&b, "\"candidate\":false") && says(&b, "\"from_seq\":1,\"to_seq\":3"));
    b.len = 0;
    assert_int_equal(run(f, f->ctx, SHUT, &b), BW_OK);
    assert_true(says(&b, "\"allow\":4,\"deny\":4,\"to_allow\":0,\"to_deny\":2,\"requests_changed\":2"));
    assert_true(says(&b, "\"turns\":\"deny\",\"policies\":\"shut\",\"errors\":\"\",\"decisions\":2,\"requests\":2,\"first_seq\":1,\"last_seq\":3"));
    bw_buf_clear(&b);
}

/* An event from before replays, one of a list that nobody kept, one that says something else. */
static void test_replay__names_what_it_cannot_reproduce(void **state)
{
    fixture *f = *state;
    bw_buf b = {0};
    bw_str text = sound_event(f);
    const char *lost = bw_arena_printf(f->ctx, "%.*s", (int)text.len, text.ptr), *other = bw_arena_printf(f->ctx, "%s", lost);
    memcpy(strstr(lost, f->list), "00000000", 8);
    memcpy(strstr(other, f->set), "00000000", 8);
    bw_str events[4] = {BW_STR("\"event\":\"request\",\"principal\":\"ana\",\"tenant\":\"acme\",\"permitted\":[{\"action\":\"Query\","
                               "\"set\":\"00000000000000000000000000000000\",\"classes\":2}],\"policies\":\"x\""),
                        bw_str_c(lost), bw_str_c(other), text};
    write_log(f, events, 4);
    assert_int_equal(run(f, f->ctx, NULL, &b), BW_OK);
    assert_true(says(&b, "\"requests\":4,\"without_decisions\":0,\"decisions\":14,\"reproduced\":9,\"not_reproduced\":5"));
    assert_true(says(&b, "\"reason\":\"the event is from before replays: it does not say who asked with which rights\",\"decisions\":1,\"first_seq\":1"));
    assert_true(says(&b, "\"reason\":\"the register does not have the list of classes of a set\",\"decisions\":1,\"first_seq\":2"));
    assert_true(says(&b, "\"reason\":\"the recorded rules decide otherwise than the log says\",\"decisions\":3,\"first_seq\":3"));
    bw_buf_clear(&b);
}

/* Every event of the log is either reproduced or has a reason, whatever it says. */
static void test_replay__takes_hostile_events(void **state)
{
    fixture *f = *state;
    rnd g = rnd_start("test_replay", 1);
    const bw_str sound = sound_event(f);
    static const char *const odd[] = {
        "\"event\":\"request\",\"permitted\":1,\"named\":{},\"allowed\":\"x\",\"denied\":[1,2]",
        "\"event\":\"request\",\"permitted\":[{}],\"named\":[1],\"allowed\":[null],\"denied\":[[]]",
        "\"event\":\"request\",\"permitted_more\":{\"sets\":-1},\"allowed_more\":18446744073709551615",
        "\"event\":\"request\",\"event\":\"request\",\"x\":1", "\"event\":\"request\",\"x\":\"", "\"event\":\"request\",",
    };
    for (int i = 0; i < 400; i++) {
        bw_arena_mark mark = bw_arena_mark_get(f->ctx);
        bw_str events[2];
        bw_buf b = {0};
        assert_int_equal(bw_arena_str(f->ctx, sound, &events[0]), BW_OK);
        char *p = (char *)(uintptr_t)events[0].ptr;
        for (size_t k = 0, n = 1 + rnd_below(&g, 3); k < n; k++) {
            size_t at = 18 + rnd_below(&g, events[0].len - 18);
            if (p[at] != '\n' && p[at] != '"')
                p[at] = rnd_below(&g, 3) ? (char)(32 + rnd_below(&g, 95)) : p[rnd_below(&g, events[0].len)];
        }
        events[1] = i % 5 ? sound : bw_str_c(odd[(size_t)i / 5 % (sizeof odd / sizeof *odd)]);
        write_log(f, events, 2);
        bw_status s = run(f, f->ctx, i % 2 ? SHUT : NULL, &b);
        if (s != BW_OK && s != BW_EINVALID) /* the newest event names the facts that the candidate is tried with */
            fail_msg("run %d: %s: %s", i, bw_status_name(s), bw_ctx_message(f->ctx));
        bw_json *v;
        if (s == BW_OK)
            assert_int_equal(bw_json_parse(f->ctx, bw_buf_view(&b), BW_JSON_CEDAR, &v), BW_OK);
        bw_buf_clear(&b);
        bw_arena_release(f->ctx, mark);
    }
}

static void step(void *arg)
{
    fixture *f = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf b = {0};
    bw_status s = ctx ? run(f, ctx, SHUT, &b) : BW_ENOMEM;
    assert_true(s == BW_OK || (s == BW_ENOMEM && failing_hit));
    if (s == BW_OK)
        assert_true(says(&b, "\"reproduced\":5,\"not_reproduced\":0") && says(&b, "\"to_deny\":1,"));
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
}

/* Whole and right, or BW_ENOMEM: never a report of less. */
static void test_replay__without_memory(void **state)
{
    fixture *f = *state;
    bw_str event = sound_event(f);
    write_log(f, &event, 1);
    long base = failing_live;
    for (int lasts = 0; lasts < 2; lasts++)
        for (long n = 0;; n += 1 + n / (getenv("BW_NIGHTLY") ? 1000 : 12)) { /* each of the first, then a sample */
            failing_arm(n, lasts);
            step(f);
            bool hit = failing_hit;
            failing_arm(-1, false);
            assert_int_equal(failing_live, base);
            if (!hit)
                break;
        }
}

int main(void)
{
    failing_set();
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_replay__tells_what_turns), T(test_replay__names_what_it_cannot_reproduce), T(test_replay__takes_hostile_events), T(test_replay__without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
