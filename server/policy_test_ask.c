/* The cases of a test file put to a running cell: its dry run is asked, some at a time.
 */
#include "policy_test_run.h"

enum { ASK_CASES = 500 };

static void put_text(bw_buf *b, const char *key, bw_str s)
{
    bw_json_put_key(b, key);
    bw_json_put_str(b, s);
}

static void ask_subject(bw_buf *b, const test_case *c)
{
    if (!c->kind) {
        bw_json_put_key(b, "labels");
        bw_buf_str(b, c->label_text);
    } else if (c->name.ptr) {
        put_text(b, "collection", c->name);
    } else {
        bw_buf_puts(b, ",\"cell\":true");
    }
}

static bw_status ask_put(test_file *t, const bw_json *v, bw_buf *b)
{
    test_case c;
    char when[40];
    bw_arena_mark mark = bw_arena_mark_get(t->ctx);
    bw_status s = policy_test_case(t, v, &c);
    if (s == BW_OK && c.kind && c.name.ptr && !bw_str_eq(c.tenant, c.principal.tenant))
        s = policy_test_wants(
            t->ctx, v, "a running cell is asked about the principal's own collections");
    if (s != BW_OK)
        return s;
    bw_json_sep(b);
    bw_buf_puts(b, "{\"principal\":{");
    put_text(b, "principal", c.principal.id);
    put_text(b, "tenant", c.principal.tenant);
    put_text(b, "seat", c.principal.seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, c.principal.clearance);
    bw_json_put_strs(b, "roles", c.principal.roles, c.principal.nroles);
    bw_buf_putc(b, '}');
    put_text(b, "action", bw_str_c(bw_action_name(c.q.action)));
    ask_subject(b, &c);
    put_text(b, "purpose", c.q.purpose);
    bw_json_put_strs(b, "safeguards", c.q.safeguards, c.q.nsafeguards);
    if (c.q.dest)
        bw_v1_put_place(b, "dest", c.q.dest);
    if (c.q.at || bw_json_get_value(t->root, "cell"))
        bw_v1_put_place(b, "at", c.q.at ? c.q.at : &t->cell);
    if (c.q.now_ns) {
        bw_time_format(c.q.now_ns, when);
        put_text(b, "now", bw_str_c(when));
    }
    bw_buf_putc(b, '}');
    bw_arena_release(t->ctx, mark);
    return BW_OK;
}

/* What the file itself brings along is the candidate; the rest is the cell's. */
static void ask_begin(const test_file *t, bw_buf *b)
{
    static const char *const parts[] = {"entities", "catalogue"};
    bw_buf_putc(b, '{');
    if (t->own_policies.ptr)
        put_text(b, "policies", t->own_policies);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const bw_json *v = bw_json_get_value(t->root, parts[i]);
        if (!v)
            continue;
        bw_json_put_key(b, parts[i]);
        bw_buf_str(b, v->raw);
    }
    bw_json_put_key(b, "requests");
    bw_buf_putc(b, '[');
}

/* Cases from `first` on whose list entries are at cases[]; n of them. */
static bw_status ask_some(test_file *t, const bw_json *const *first,
                          bw_policy_case *cases, size_t n, size_t *failed)
{
    bw_buf b = {0};
    const bw_json *answer, *results;
    bw_status s = BW_OK;
    ask_begin(t, &b);
    for (size_t i = 0; i < n && s == BW_OK; i++)
        s = ask_put(t, first[i], &b);
    bw_buf_puts(&b, "]}");
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(t->ctx)
                     : t->o->ask(t->o->ask_arg, t->ctx, bw_buf_view(&b), &answer);
    bw_buf_clear(&b);
    if (s != BW_OK)
        return s;
    results = bw_json_get(answer, "results");
    if (!results || results->kind != BW_JSON_ARRAY || results->count != n)
        return bw_fail(t->ctx, BW_EINVALID, "the cell gave no answer to each case");
    results = results->child;
    for (size_t i = 0; i < n && s == BW_OK; i++, results = results->next) {
        s = policy_test_run_case(t, first[i], results, &cases[i]);
        *failed += cases[i].failure.len > 0;
    }
    return s;
}

bw_status policy_test_ask(test_file *t, const bw_json *const *v, bw_policy_case *cases,
                          size_t n, size_t *failed)
{
    bw_status s = BW_OK;
    for (size_t i = 0; i < n && s == BW_OK; i += ASK_CASES)
        s = ask_some(t, v + i, cases + i, n - i < ASK_CASES ? n - i : ASK_CASES,
                     failed);
    return s;
}
