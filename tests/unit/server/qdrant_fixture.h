/* What the parser tests of the Qdrant surface share: a request's arena, a collection to
 * check against, and a body from text. */
#ifndef QDRANT_FIXTURE_H
#define QDRANT_FIXTURE_H
#include "server/qdrant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

typedef struct fixture {
    bw_ctx *ctx;
    bw_collection_info info;
    bw_qdrant_parse p;
} fixture;

static const bw_vector_spec fixture_specs[] = {
    {.name = {"", 0}, .dim = 4, .metric = BW_METRIC_COSINE},
    {.name = {"b", 1}, .dim = 2, .metric = BW_METRIC_EUCLID},
    {.name = {"s", 1}, .sparse = true, .metric = BW_METRIC_DOT},
};
static const bw_index_spec fixture_indexes[] = {
    {.field = {"n", 1}, .type = {"integer", 7}},
    {.field = {"k", 1}, .type = {"keyword", 7}},
    {.field = {"m", 1},
     .type = {"integer", 7},
     .params = {"{\"type\":\"integer\",\"range\":false}", 32}},
};

static inline int fixture_new(void **state)
{
    static fixture f;
    f = (fixture){.ctx = bw_ctx_new(0)};
    assert_non_null(f.ctx);
    f.info = (bw_collection_info){.vectors = fixture_specs,
                                  .nvectors = 3,
                                  .indexes = fixture_indexes,
                                  .nindexes = 3,
                                  .settings = BW_STR("{\"vectors\":{}}")};
    *state = &f;
    return 0;
}

static inline int fixture_free(void **state)
{
    bw_ctx_free(((fixture *)*state)->ctx);
    return 0;
}

/* A fresh parse over `text`. NULL when the JSON itself is refused. */
static inline const bw_json *fixture_body(fixture *f, const char *text)
{
    const bw_json *body = NULL;
    bw_ctx_reset(f->ctx);
    f->p = (bw_qdrant_parse){.ctx = f->ctx, .info = &f->info};
    bw_status s = bw_qdrant__body(&f->p, bw_str_c(text), &body);
    return s == BW_OK ? body : NULL;
}

#define assert_message(f, part)                                               \
    do {                                                                      \
        if (!strstr(bw_ctx_message((f)->ctx), (part)))                        \
            fail_msg("`%s` is not in: %s", (part), bw_ctx_message((f)->ctx)); \
    } while (0)

/* "prefix" + unit n times + "suffix", in the arena of its own static buffer. */
static inline const char *fixture_repeat(const char *prefix, const char *unit,
                                         unsigned n, const char *middle,
                                         const char *end, const char *suffix)
{
    static char text[4 << 20];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", prefix);
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", unit);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s", middle);
    for (unsigned i = 0; *end && i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", end);
    snprintf(text + at, sizeof text - at, "%s", suffix);
    return text;
}
#endif
