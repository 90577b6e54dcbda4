/* What the process holds: memory comes back after deletes and drops, and the ledger says
 * how much there is. Resident anonymous pages, so bounds are generous. */
#include "engine_cell.h"

#include "engine/base/json.h"
#include <malloc.h>

enum { DIM = 128, ROWS = 60000, PIECE = 1000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(BW_DEBUG)
int main(void)
{
    puts("skipped: sanitizers and debug builds keep freed memory");
    return 0;
}
#else

/* Bytes of anonymous memory: resident less shared (files mapped, /dev/shm). */
static double resident(void)
{
    unsigned long long size, all, shared;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu %llu", &size, &all, &shared), 3);
    assert_int_equal(fclose(f), 0);
    return (double)(all - shared) * (double)sysconf(_SC_PAGESIZE);
}

static double figure(cell *c, const char *name)
{
    bw_str json;
    bw_json *doc;
    uint64_t n = 0;
    OK(bw_engine_stats(c->ctx, c->engine, &json));
    OK(bw_json_parse(c->ctx, json, BW_JSON_REQUEST, &doc));
    assert_true(bw_json_u64(bw_json_get(doc, name), &n));
    bw_ctx_reset(c->ctx);
    return (double)n;
}

static void fill(cell *c, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i += PIECE) {
        cell_upsert_range(c, 1, i, i + PIECE, DIM);
        bw_ctx_reset(c->ctx);
    }
}

static void delete_most(cell *c)
{
    bw_access a = cell_access(c, 1, 1);
    for (uint64_t at = 0; at < ROWS / 10 * 9; at += PIECE) {
        bw_point_id *ids = bw_arena_calloc(c->ctx, PIECE, sizeof *ids);
        uint32_t n = 0;
        for (uint64_t i = at; i < at + PIECE; i++)
            ids[n++] = cell_id(i);
        bw_op op = {.kind = BW_OP_DELETE, .ids = ids, .nids = n};
        bw_write_result r;
        OK(cell_write(c, &a, &op, 1, &r));
        bw_ctx_reset(c->ctx);
        a = cell_access(c, 1, 1);
    }
}

static void test_memory__comes_back(void **state)
{
    (void)state;
    cell own, *c = &own;
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.null_sync = true;
    cell_init(c, &o);
    double before = resident();
    cell_collection(c, DIM, BW_METRIC_MANHATTAN, 4);
    bw_ctx_reset(c->ctx);
    fill(c, 0, ROWS);
    double full = resident() - before, said = figure(c, "memory_bytes");
    printf("full: %.1f MB resident, ledger %.1f MB\n", full / 1e6, said / 1e6);
    delete_most(c);
    double left = resident() - before, left_said = figure(c, "memory_bytes");
    printf("a tenth left: %.1f MB resident, ledger %.1f MB\n", left / 1e6,
           left_said / 1e6);
    bool existed = false;
    OK(bw_collection_drop(c->ctx, c->engine, TENANT, NAME, &existed));
    assert_true(existed);
    double dropped = resident() - before;
    printf("dropped: %.1f MB resident, ledger %.1f MB\n", dropped / 1e6,
           figure(c, "memory_bytes") / 1e6);
    malloc_trim(0);
    printf("trimmed: %.1f MB resident\n", (resident() - before) / 1e6);
    assert_true(said > 0.6 * full && said < 1.2 * full);
    assert_true(left < 0.45 * full);
    assert_true(dropped < 0.15 * full);
    cell_clear(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory__comes_back),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
#endif
