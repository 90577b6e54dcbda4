/* Whatever nests, in every input: 250 levels work from end to end, 100,000 are an
 * ordinary error, and neither needs more than a small stack. What only chains may be
 * long. */
#include "cedar_fixture.h"
#include "cedar_laws.h"
#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
enum { STACK = 4 << 20 }; /* its frames are several times as large */
#else
enum { STACK = 1 << 20 };
#endif
enum { FEW = 250, MANY = 100000, JSON_FEW = 110 };

/* before, open × n, middle, close × n, after */
typedef struct shape {
    const char *before, *open, *middle, *close, *after;
} shape;

#define WHEN "permit(principal, action, resource) when { "
static const shape texts[] = {
    {WHEN, "(", "true", ")", " };"},
    {WHEN, "true || true && 1 == 2 + 3 * (", "true", ")", " };"},
    {WHEN, "[", "", "]", " == 1 };"},
    {WHEN, "{a: ", "1", "}", " == 1 };"},
    {WHEN, "!(", "true", ")", " };"},
    {WHEN, "-(", "1", ")", " == 1 };"},
    {WHEN, "if true then ", "true", " else true", " };"},
    {WHEN, "if ", "true", " then true else true", " };"},
    {WHEN, "ip(", "\"::1\"", ")", " == 1 };"},
    {WHEN, "[].contains(", "1", ")", " };"},
    {"permit(principal == ", "(", "A::\"a\"", ")", ", action, resource);"},
};
/* No nesting: any number of them. */
static const shape chains[] = {
    {WHEN, "true && ", "true", "", " };"},
    {WHEN, "false || ", "true", "", " };"},
    {WHEN, "1 + ", "1", "", " == 1 };"},
    {WHEN, "if false then true else ", "true", "", " };"},
    {WHEN "context", ".a", "", "", " == 1 };"},
    {WHEN "[]", ".isEmpty()", "", "", " };"},
    {"permit(principal, action in [", "Action::\"a\", ", "", "", "], resource);"},
};
#define JSON_BEFORE                                                            \
    "{\"staticPolicies\":{\"p\":{\"effect\":\"permit\",\"principal\":{\"op\":" \
    "\"All\"},\"action\":{\"op\":\"All\"},\"resource\":{\"op\":\"All\"},"      \
    "\"conditions\":["                                                         \
    "{\"kind\":\"when\",\"body\":"
#define JSON_AFTER "}]}},\"templates\":{},\"templateLinks\":[]}"
static const shape jsons[] = {
    {JSON_BEFORE, "{\"!\":{\"arg\":", "{\"Value\":true}", "}}", JSON_AFTER},
    {JSON_BEFORE, "{\"Set\":[", "{\"Value\":true}", "]}", JSON_AFTER},
    {JSON_BEFORE, "{\"Record\":{\"a\":", "{\"Value\":true}", "}}", JSON_AFTER},
    {JSON_BEFORE "{\"Value\":", "[", "1", "]", "}" JSON_AFTER},
    {JSON_BEFORE, "{\"&&\":{\"right\":{\"Value\":true},\"left\":", "{\"Value\":true}",
     "}}", JSON_AFTER},
};
static const shape schemas[] = {
    {"type T = ", "Set<", "Long", ">", ";"},
    {"entity A = {a: ", "{a: ", "Long", "}", "};"},
    {"{\"\":{\"actions\":{},\"entityTypes\":{},\"commonTypes\":{\"T\":",
     "{\"type\":\"Set\",\"element\":", "{\"type\":\"Long\"}", "}", "}}}"},
};
static const shape stores[] = {
    {"[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"parents\":[],\"attrs\":{\"x\":", "[",
     "1", "]", "}}]"},
    {"[{\"uid\":{\"type\":\"A\",\"id\":\"a\"},\"parents\":[],\"attrs\":{\"x\":",
     "{\"a\":", "1", "}", "}}]"},
};
static const shape contexts[] = {
    {"{\"x\":", "[", "1", "]", "}"},
    {"{\"x\":", "{\"a\":", "1", "}", "}"},
};

static bw_str build(bw_buf *b, const shape *s, int n)
{
    b->len = 0;
    bw_buf_puts(b, s->before);
    for (int i = 0; i < n; i++)
        bw_buf_puts(b, s->open);
    bw_buf_puts(b, s->middle);
    for (int i = 0; i < n; i++)
        bw_buf_puts(b, s->close);
    bw_buf_puts(b, s->after);
    assert_false(b->failed);
    return bw_buf_view(b);
}

typedef struct job {
    void (*run)(bw_ctx *ctx, const shape *s, int n);
    const shape *s;
    int n;
} job;

static void *work(void *user)
{
    job *j = user;
    bw_ctx *ctx = bw_ctx_new(0);
    j->run(ctx, j->s, j->n);
    bw_ctx_free(ctx);
    return NULL;
}

/* On a thread with the small stack. */
static void on_small_stack(void (*run)(bw_ctx *ctx, const shape *s, int n),
                           const shape *s, size_t count, int n)
{
    for (size_t i = 0; i < count; i++) {
        job j = {run, &s[i], n};
        pthread_attr_t attr;
        pthread_t thread;
        assert_int_equal(pthread_attr_init(&attr), 0);
        assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
        assert_int_equal(pthread_create(&thread, &attr, work, &j), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attr);
    }
}
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Asked, typed, partially evaluated, written: an answer or an ordinary error. */
static void use(bw_ctx *ctx, const bw_cedar_policies *p)
{
    bw_cedar_schema *schema =
        schema_of(ctx, "entity A; action a appliesTo { principal: A, resource: A };");
    bw_cedar_request q = {.principal = uid("A", "a"),
                          .action = uid("Action", "a"),
                          .resource = uid("A", "b")};
    bw_cedar_answer a;
    bw_cedar_validation v;
    bw_cedar_residuals *left = NULL;
    assert_int_equal(bw_cedar_authorize(ctx, p, NULL, NULL, &q, &a), BW_OK);
    assert_int_equal(bw_cedar_policies_validate(ctx, p, schema, NULL, &v), BW_OK);
    assert_int_equal(bw_cedar_partial(ctx, p, NULL, schema, &q, NULL, &left), BW_OK);
    bw_cedar_residuals_free(left);
    bw_cedar_schema_free(schema);
    assert_null(law_json(ctx, p));
    assert_null(law_write(ctx, p));
}

static void text_works(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0};
    bw_cedar_policies *p = NULL;
    bw_str text = build(&b, s, n);
    if (bw_cedar_policies_parse(ctx, text, &p) != BW_OK)
        fail_msg("%s: %s", s->open, bw_ctx_message(ctx));
    assert_null(law_format(ctx, text));
    use(ctx, p);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

static void json_works(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0};
    bw_cedar_policies *p = NULL;
    if (bw_cedar_policies_parse_json(ctx, build(&b, s, n), &p) != BW_OK)
        fail_msg("%s: %s", s->open, bw_ctx_message(ctx));
    use(ctx, p);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

static void schema_works(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0};
    bw_cedar_schema *schema = NULL;
    if (bw_cedar_schema_parse(ctx, build(&b, s, n), &schema) != BW_OK)
        fail_msg("%s: %s", s->open, bw_ctx_message(ctx));
    bw_cedar_schema_free(schema);
    bw_buf_clear(&b);
}

static bw_status read_data(bw_ctx *ctx, bw_str text, bool store)
{
    bw_json *json;
    bw_cedar_entities *e = NULL;
    const bw_cedar_value *v;
    bw_status st = bw_json_parse(ctx, text, BW_JSON_CEDAR, &json);
    if (st == BW_OK)
        st = store ? bw_cedar_entities_parse(ctx, json, NULL, &e)
                   : bw_cedar_context_read(ctx, NULL, NULL, json, &v);
    bw_cedar_entities_free(e);
    return st;
}

static void data_works(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0};
    if (read_data(ctx, build(&b, s, n), s->before[0] == '[') != BW_OK)
        fail_msg("%s: %s", s->open, bw_ctx_message(ctx));
    bw_buf_clear(&b);
}

static void all_refuse(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0}, out = {0};
    bw_cedar_policies *p = NULL;
    bw_cedar_schema *schema = NULL;
    bw_str text = build(&b, s, n);
    assert_int_equal(bw_cedar_policies_parse(ctx, text, &p), BW_EINVALID);
    assert_int_equal(bw_cedar_policies_format(ctx, text, &out), BW_EINVALID);
    assert_int_equal(bw_cedar_policies_parse_json(ctx, text, &p), BW_EINVALID);
    assert_int_equal(bw_cedar_schema_parse(ctx, text, &schema), BW_EINVALID);
    assert_int_equal(read_data(ctx, text, true), BW_EINVALID);
    assert_int_equal(read_data(ctx, text, false), BW_EINVALID);
    bw_buf_clear(&b);
}

static void test_limits__what_nests_works_at_250(void **state)
{
    (void)state;
    on_small_stack(text_works, texts, COUNT(texts), FEW);
    on_small_stack(json_works, jsons, COUNT(jsons), JSON_FEW);
    on_small_stack(schema_works, schemas, COUNT(schemas), FEW - 10);
    on_small_stack(data_works, stores, COUNT(stores), FEW);
    on_small_stack(data_works, contexts, COUNT(contexts), FEW);
}

static void test_limits__what_nests_is_refused_at_100000(void **state)
{
    (void)state;
    on_small_stack(all_refuse, texts, COUNT(texts), MANY);
    on_small_stack(all_refuse, jsons, COUNT(jsons), MANY);
    on_small_stack(all_refuse, schemas, COUNT(schemas), MANY);
    on_small_stack(all_refuse, stores, COUNT(stores), MANY);
    on_small_stack(all_refuse, contexts, COUNT(contexts), MANY);
}

static void chain_works(bw_ctx *ctx, const shape *s, int n)
{
    bw_buf b = {0};
    bw_cedar_policies *p = NULL;
    bw_str text = build(&b, s, n);
    if (bw_cedar_policies_parse(ctx, text, &p) != BW_OK)
        fail_msg("%s: %s", s->open, bw_ctx_message(ctx));
    const char *why = law_breach(ctx, text, p);
    if (why)
        fail_msg("%s: %s", s->open, why);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
}

static void test_limits__chains_may_be_long(void **state)
{
    (void)state;
    on_small_stack(chain_works, chains, COUNT(chains), 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits__what_nests_works_at_250),
        cmocka_unit_test(test_limits__what_nests_is_refused_at_100000),
        cmocka_unit_test(test_limits__chains_may_be_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
