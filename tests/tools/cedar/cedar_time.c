/* How long one request of a case takes, for tests/bench/policies.py, which times the
 * reference engine beside it. Reads a case (policies, entities, one request; the form
 * is
 * ../shared/cedar's) from the file named; for every line on standard input measures
 * again and answers with one line of JSON:
 *
 *   {"ready_ns": …, "json_ns": …, "allow": …, "reasons": …, "errors": …}
 *
 * ready: entities and context are there, as in a cell that serves; json: both are read
 * from their JSON first. Wall time of one call, the median of a batch. */
#include "policies/cedar/cedar.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 500, JSON_BATCH = 50, CASE_MAX = 16 << 20 };

typedef struct timing {
    bw_ctx *world, *ctx;
    bw_cedar_policies *policies;
    bw_cedar_entities *entities;
    bw_str entities_text, context_text;
    bw_cedar_request request;
} timing;

static void must(bw_ctx *ctx, bw_status st)
{
    if (st == BW_OK)
        return;
    fprintf(stderr, "cedar_time: %s\n", bw_ctx_message(ctx));
    exit(1);
}

static bw_str text_of(const bw_json *object, const char *key)
{
    const bw_json *v = object ? bw_json_get(object, key) : NULL;
    return v && v->kind == BW_JSON_STRING ? v->str : BW_STR("");
}

static bw_cedar_uid uid_of(const bw_json *object, const char *key)
{
    const bw_json *v = bw_json_get(object, key);
    return (bw_cedar_uid){text_of(v, "type"), text_of(v, "id")};
}

static void load(timing *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = bw_arena_alloc(t->world, CASE_MAX);
    bw_json *json = NULL;
    if (!f || !text)
        exit(2);
    size_t n = fread(text, 1, CASE_MAX, f);
    fclose(f);
    must(t->world, bw_json_parse(t->world, (bw_str){text, n}, BW_JSON_CEDAR, &json));
    const bw_json *entities = bw_json_get(json, "entities"),
                  *q = bw_json_get(json, "request"),
                  *context = q ? bw_json_get(q, "context") : NULL;
    if (!entities || !context)
        exit(2);
    t->entities_text = entities->raw;
    t->context_text = context->raw;
    must(t->world,
         bw_cedar_policies_parse(t->world, text_of(json, "policies"), &t->policies));
    must(t->world, bw_cedar_entities_parse(t->world, entities, NULL, &t->entities));
    t->request = (bw_cedar_request){.principal = uid_of(q, "principal"),
                                    .action = uid_of(q, "action"),
                                    .resource = uid_of(q, "resource")};
    must(t->world, bw_cedar_context_read(t->world, NULL, NULL, context,
                                         &t->request.context_value));
}

static bw_cedar_answer ready(timing *t)
{
    bw_cedar_answer a;
    must(t->ctx,
         bw_cedar_authorize(t->ctx, t->policies, t->entities, NULL, &t->request, &a));
    return a;
}

static void from_json(timing *t)
{
    bw_json *entities = NULL, *context = NULL;
    bw_cedar_entities *e = NULL;
    bw_cedar_request q = t->request;
    bw_cedar_answer a;
    must(t->ctx, bw_json_parse(t->ctx, t->entities_text, BW_JSON_CEDAR, &entities));
    must(t->ctx, bw_cedar_entities_parse(t->ctx, entities, NULL, &e));
    must(t->ctx, bw_json_parse(t->ctx, t->context_text, BW_JSON_CEDAR, &context));
    q.context_value = NULL;
    q.context = context;
    must(t->ctx, bw_cedar_authorize(t->ctx, t->policies, e, NULL, &q, &a));
    bw_cedar_entities_free(e);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void measure(timing *t)
{
    static uint64_t taken[BATCH];
    bw_cedar_answer a = {0};
    for (int i = 0; i < BATCH; i++) {
        bw_ctx_reset(t->ctx);
        uint64_t start = bw_clock_mono_ns();
        a = ready(t);
        taken[i] = bw_clock_mono_ns() - start;
    }
    qsort(taken, BATCH, sizeof *taken, by_size);
    printf("{\"ready_ns\":%llu,\"allow\":%s,\"reasons\":%zu,\"errors\":%zu,",
           (unsigned long long)taken[BATCH / 2], a.allow ? "true" : "false", a.nreasons,
           a.nerrors);
    for (int i = 0; i < JSON_BATCH; i++) {
        bw_ctx_reset(t->ctx);
        uint64_t start = bw_clock_mono_ns();
        from_json(t);
        taken[i] = bw_clock_mono_ns() - start;
    }
    qsort(taken, JSON_BATCH, sizeof *taken, by_size);
    printf("\"json_ns\":%llu}\n", (unsigned long long)taken[JSON_BATCH / 2]);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    timing t = {.world = bw_ctx_new(0), .ctx = bw_ctx_new(0)};
    char line[16];
    if (argc < 2 || !t.world || !t.ctx) {
        fprintf(stderr, "usage: cedar_time CASE.json\n");
        return 2;
    }
    load(&t, argv[1]);
    while (fgets(line, sizeof line, stdin))
        measure(&t);
    bw_cedar_entities_free(t.entities);
    bw_cedar_policies_free(t.policies);
    bw_ctx_free(t.ctx);
    bw_ctx_free(t.world);
    return 0;
}
