/* One world for the tests of Cedar: a schema, a store, and short ways to ask. */
#ifndef CEDAR_FIXTURE_H
#define CEDAR_FIXTURE_H
#include <policies/cedar/cedar.h>

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* wants setjmp.h before it */

typedef struct world {
    bw_ctx *ctx;
    bw_cedar_schema *schema;
    bw_cedar_entities *entities;
} world;

static const char world_entities[] =
    "[{\"uid\":{\"type\":\"User\",\"id\":\"alice\"},\"attrs\":{\"age\":30,\"name\":"
    "\"Alice\",\"manager\":"
    "{\"__entity\":{\"type\":\"User\",\"id\":\"bob\"}},\"tags\":[\"a\",\"b\"],"
    "\"address\":{\"city\":\"Paris\","
    "\"geo\":{\"lat\":1}},\"gone\":{\"__entity\":{\"type\":\"User\",\"id\":\"nobody\"}}"
    "},\"parents\":"
    "[{\"type\":\"Team\",\"id\":\"red\"}],\"tags\":{\"role\":\"editor\"}},"
    "{\"uid\":{\"type\":\"User\",\"id\":\"bob\"},\"attrs\":{\"age\":50},\"parents\":[]}"
    ","
    "{\"uid\":{\"type\":\"Team\",\"id\":\"red\"},\"attrs\":{},\"parents\":[{\"type\":"
    "\"Team\",\"id\":\"all\"}]},"
    "{\"uid\":{\"type\":\"Doc\",\"id\":\"d\"},\"attrs\":{\"owner\":{\"__entity\":{"
    "\"type\":\"User\",\"id\":"
    "\"alice\"}}},\"parents\":[{\"type\":\"Folder\",\"id\":\"f\"}]},"
    "{\"uid\":{\"type\":\"Action\",\"id\":\"read\"},\"attrs\":{},\"parents\":[{"
    "\"type\":\"Action\",\"id\":\"any\"}]}]";
static const char world_context[] =
    "{\"n\":7,\"s\":\"text\",\"ip\":{\"__extn\":{\"fn\":\"ip\",\"arg\":\"10.1.2.3\"}},"
    "\"set\":[1,2,2,3],\"deep\":{\"a\":{\"b\":true}}}";

static inline const bw_json *json_of(bw_ctx *ctx, const char *text)
{
    bw_json *v = NULL;
    bw_status st = bw_json_parse(ctx, bw_str_c(text), BW_JSON_CEDAR, &v);
    if (st != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    return v;
}

static inline bw_cedar_policies *policies_of(bw_ctx *ctx, const char *text)
{
    bw_cedar_policies *p = NULL;
    if (bw_cedar_policies_parse(ctx, bw_str_c(text), &p) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    return p;
}

static inline bw_cedar_schema *schema_of(bw_ctx *ctx, const char *text)
{
    bw_cedar_schema *s = NULL;
    if (bw_cedar_schema_parse(ctx, bw_str_c(text), &s) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(ctx));
    return s;
}

static inline bw_cedar_entities *entities_of(bw_ctx *ctx, const bw_cedar_schema *schema,
                                             const char *text)
{
    bw_cedar_entities *e = NULL;
    if (bw_cedar_entities_parse(ctx, json_of(ctx, text), schema, &e) != BW_OK)
        fail_msg("%s: %s at %s", text, bw_ctx_message(ctx), bw_ctx_pointer(ctx));
    return e;
}

static inline bool accepts(bw_ctx *ctx, const char *text)
{
    bw_cedar_policies *p = NULL;
    bw_status st = bw_cedar_policies_parse(ctx, bw_str_c(text), &p);
    bw_cedar_policies_free(p);
    assert_true(st == BW_OK || st == BW_EINVALID);
    return st == BW_OK;
}

static inline bw_cedar_uid uid(const char *type, const char *id)
{
    return (bw_cedar_uid){bw_str_c(type), bw_str_c(id)};
}

static inline bw_cedar_request request_of(world *w)
{
    return (bw_cedar_request){.principal = uid("User", "alice"),
                              .action = uid("Action", "read"),
                              .resource = uid("Doc", "d"),
                              .context = json_of(w->ctx, world_context)};
}

static inline bw_cedar_answer ask(world *w, const char *text)
{
    bw_cedar_policies *p = policies_of(w->ctx, text);
    bw_cedar_request q = request_of(w);
    bw_cedar_answer a;
    if (bw_cedar_authorize(w->ctx, p, w->entities, NULL, &q, &a) != BW_OK)
        fail_msg("%s: %s", text, bw_ctx_message(w->ctx));
    bw_cedar_policies_free(p);
    return a;
}

/* 'T', 'F', or 'E' for an error: what an expression comes to as the condition of a
 * permit. */
static inline char truth(world *w, const char *expr)
{
    char text[4096];
    snprintf(text, sizeof text, "permit(principal, action, resource) when { %s };",
             expr);
    bw_cedar_answer a = ask(w, text);
    return a.nerrors ? 'E' : a.allow ? 'T' : 'F';
}

static inline int world_setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    w->ctx = bw_ctx_new(0);
    w->entities = entities_of(w->ctx, NULL, world_entities);
    *state = w;
    return 0;
}

static inline int world_teardown(void **state)
{
    world *w = *state;
    bw_cedar_entities_free(w->entities);
    bw_cedar_schema_free(w->schema);
    bw_ctx_free(w->ctx);
    free(w);
    return 0;
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
#endif
