/* bailiwick explain: why a question to the policies is answered as it is and what would
 * turn it; of a running cell (/v1/explain), or without one of a policy set and a
 * written down principal. Prints sentences, or the answer as it came (--json). Exit
 * code: 0 answered, 1 failed, 2 wrong use. */
#include "cli.h"
#include "cli_policy.h"
#include "cli_words.h"
#include "client.h"
#include "files.h"
#include "harden.h"
#include "v1_explain.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "Usage: bailiwick explain ACTION --label name=value… [--dest JSON]\n"
    "       bailiwick explain ACTION --class ID | --collection C [--point ID] | "
    "--cell\n"
    "       bailiwick explain --event SEQ      (a refusal of the audit log; "
    "ReadAudit)\n"
    "       bailiwick explain --result COLLECTION      (where a query's answer comes "
    "from)\n"
    "                 [--principal JSON] [--purpose P] [--safeguards A,B] [--changes "
    "N]\n"
    "                 [--json] [--url URL] [--key-file FILE] [--ca FILE]\n"
    "Of a policy set, without a cell: --offline or --policies FILE, with\n"
    "  --principal "
    "'{\"principal\":ID,\"tenant\":T,\"seat\":CC,\"clearance\":N,\"roles\":[…]}'\n"
    "  [--data DIR | --config FILE] [--set cell.country=CC]; the action is about "
    "--label,\n"
    "  --collection or --cell.\n";

enum { TEXT_MAX = 1000 };

typedef struct ask {
    bw_cli_settings set;
    bw_client_options connect;
    bw_label_words labels;
    const char *action, *class, *collection, *point, *dest, *principal, *safeguards,
        *changes, *event, *result, *policies;
    bool cell, offline, json;
} ask;

/* ---- words ---- */

static const char **value_of(ask *a, const char *word)
{
    const struct {
        const char *word, **at;
    } words[] = {{"--class", &a->class},         {"--collection", &a->collection},
                 {"--point", &a->point},         {"--dest", &a->dest},
                 {"--principal", &a->principal}, {"--safeguards", &a->safeguards},
                 {"--changes", &a->changes},     {"--event", &a->event},
                 {"--result", &a->result},       {"--policies", &a->policies}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].at;
    return NULL;
}

static bool *flag_of(ask *a, const char *word)
{
    return strcmp(word, "--cell") == 0      ? &a->cell
           : strcmp(word, "--offline") == 0 ? &a->offline
           : strcmp(word, "--json") == 0    ? &a->json
                                            : NULL;
}

/* Words taken from argv[i] on: 0 = none, -1 = said already. */
static int take(ask *a, int argc, char **argv, int i)
{
    int n = bw_client_option(&a->connect, argc, argv, i);
    if (n == 0)
        n = bw_cli_setting(&a->set, argc, argv, i);
    const char **at = value_of(a, argv[i]);
    bool *flag = flag_of(a, argv[i]);
    if (n == 0 && at && i + 1 < argc) {
        *at = argv[i + 1];
        n = 2;
    } else if (n == 0 && strcmp(argv[i], "--label") == 0 && i + 1 < argc) {
        n = bw_label_words_take(&a->labels, argv[i + 1]) ? 2 : -1;
    } else if (n == 0 && flag) {
        *flag = true;
        n = 1;
    } else if (n == 0 && argv[i][0] != '-' && !a->action) {
        a->action = argv[i];
        n = 1;
    }
    return n;
}

static int take_options(ask *a, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int n = take(a, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    a->offline = a->offline || a->policies;
    if (!a->event && !a->result && !a->action)
        return bw_cli_missing("explain", "the action (Query, Store, …) is", usage);
    if (a->action && a->labels.n == 0 && !a->class && !a->collection && !a->cell)
        return bw_cli_missing("explain", "--label, --class, --collection or --cell is",
                              usage);
    if (a->offline && (!a->principal || a->class || a->point || a->event || a->result))
        return bw_cli_missing(
            "explain",
            "without a cell --principal is (and an action about --label, "
            "--collection or --cell)",
            usage);
    return 0;
}

/* ---- the body ---- */

static void put_text(bw_buf *b, const char *key, const char *value)
{
    if (!value)
        return;
    bw_json_put_key(b, key);
    bw_json_put_str(b, bw_str_c(value));
}

static void put_raw(bw_buf *b, const char *key, const char *value)
{
    if (!value)
        return;
    bw_json_put_key(b, key);
    bw_buf_puts(b, value);
}

static void put_words(bw_buf *b, const char *key, const char *list)
{
    bw_json_put_key(b, key);
    bw_buf_putc(b, '[');
    while (*list) {
        size_t n = strcspn(list, ",");
        bw_json_sep(b);
        bw_json_put_str(b, (bw_str){list, n});
        list += n + (list[n] == ',');
    }
    bw_buf_putc(b, ']');
}

static bool digits(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s);
}

static void put_body(const ask *a, bw_buf *b)
{
    bw_buf_putc(b, '{');
    put_text(b, "action", a->action);
    if (a->labels.n) {
        bw_json_put_key(b, "labels");
        bw_label_words_put(&a->labels, NULL, b);
    }
    put_text(b, "class", a->class);
    put_text(b, "collection", a->collection);
    if (a->point && digits(a->point))
        put_raw(b, "point", a->point);
    else
        put_text(b, "point", a->point);
    put_raw(b, "cell", a->cell ? "true" : NULL);
    put_raw(b, "dest", a->dest);
    put_raw(b, "principal", a->principal);
    if (a->principal) { /* a key's own come by headers */
        put_text(b, "purpose", a->connect.purpose);
        if (a->safeguards)
            put_words(b, "safeguards", a->safeguards);
    }
    if (!a->offline) {
        put_raw(b, "changes_max", a->changes);
        put_raw(b, "event", a->event);
    }
    bw_buf_putc(b, '}');
}

/* The cell would say so as well, but with a place in a body that nobody has seen. */
static bw_status check_json(bw_ctx *ctx, const char *option, const char *text)
{
    bw_json *root;
    char why[160];
    if (!text || bw_json_parse(ctx, bw_str_c(text), BW_JSON_REQUEST, &root) == BW_OK)
        return BW_OK;
    (void)snprintf(why, sizeof why, "%s", bw_ctx_message(ctx));
    return bw_fail(ctx, BW_EINVALID, "%s: %s", option, why);
}

static bw_status check_numbers(bw_ctx *ctx, const ask *a)
{
    if ((a->event && !digits(a->event)) || (a->changes && !digits(a->changes)))
        return bw_fail(ctx, BW_EINVALID, "--event and --changes want whole numbers");
    return BW_OK;
}

/* ---- printing ---- */

static void say(const bw_json *object, const char *name, const char *before)
{
    char text[TEXT_MAX];
    const bw_json *v = bw_json_get_value(object, name);
    if (!v)
        return;
    bw_str s = v->kind == BW_JSON_STRING ? v->str : v->raw;
    bw_cli_plain(s.ptr, s.len, text, sizeof text);
    (void)printf("%s%s", before, text);
}

static const bw_json *first(const bw_json *object, const char *name)
{
    const bw_json *v = bw_json_get_value(object, name);
    return v && v->kind == BW_JSON_ARRAY ? v->child : NULL;
}

static void say_place(const bw_json *e, const char *name)
{
    const bw_json *p = bw_json_get_value(e, name);
    if (!p)
        return;
    (void)printf(", %s", name);
    say(p, "id", " ");
    say(p, "country", " (");
    say(p, "operator", ", ");
    (void)printf(")");
}

static void say_conditions(const bw_json *policy)
{
    char path[TEXT_MAX];
    for (const bw_json *c = first(policy, "conditions"); c; c = c->next) {
        say(c, "clause", "    ");
        say(c, "condition", " ");
        say(c, "is", " is ");
        say(c, "error", ": ");
        (void)printf("\n");
        const bw_json *values = bw_json_get_value(c, "values");
        for (const bw_json *v = values ? values->child : NULL; v; v = v->next) {
            bw_cli_plain(v->key.ptr, v->key.len, path, sizeof path);
            (void)printf("      %s", path);
            if (v->kind == BW_JSON_STRING) {
                bw_cli_plain(v->str.ptr, v->str.len, path, sizeof path);
                (void)printf(" = %s\n", path);
            } else {
                (void)printf(" cannot be read\n");
            }
        }
    }
}

static void say_changes(const bw_json *e)
{
    static const char *const verbs[] = {"set", "add", "remove"}, *const signs[] = {
                                                                     " := ", " += ",
                                                                     " -= "};
    unsigned n = 0;
    if (first(e, "changes"))
        (void)printf("it would be allowed with\n");
    for (const bw_json *set = first(e, "changes"); set; set = set->next) {
        (void)printf("  %u.", ++n);
        for (const bw_json *c = set->child; c; c = c->next) {
            say(c, "fact", c == set->child ? " " : " and ");
            for (size_t i = 0; i < 3; i++)
                say(c, verbs[i], signs[i]);
            say(c, "by", " (");
            (void)printf(")");
        }
        (void)printf("\n");
    }
    const bw_json *search = bw_json_get_value(e, "search");
    if (!search)
        return;
    say(search, "says", "");
    if (bw_json_get_value(search, "says"))
        (void)printf("\n");
    const bw_json *complete = bw_json_get_value(search, "complete");
    if (complete && complete->kind == BW_JSON_FALSE)
        (void)printf("the search ended at its bound; there may be other ways\n");
}

static void say_explanation(const bw_json *e)
{
    say(e, "decision", "");
    say(e, "action", ": ");
    say(e, "principal", " by ");
    const bw_json *purpose = bw_json_get_value(e, "purpose");
    if (purpose && purpose->str.len)
        say(e, "purpose", " for ");
    say_place(e, "at");
    say_place(e, "dest");
    (void)printf("\n");
    say(e, "says", "  ");
    say(e, "labels", "labels ");
    if (bw_json_get_value(e, "says") || bw_json_get_value(e, "labels"))
        (void)printf("\n");
    for (const bw_json *p = first(e, "because"); p; p = p->next) {
        say(p, "policy", "  ");
        say(p, "effect", " (");
        say(p, "why", ", ");
        say(p, "source", "; ");
        (void)printf(")\n");
        say(p, "text", "    ");
        if (bw_json_get_value(p, "text"))
            (void)printf("\n");
        say_conditions(p);
    }
    say_changes(e);
}

static void say_residency(const bw_json *r)
{
    const bw_json *embedding = bw_json_get_value(r, "embedding");
    (void)printf("searched");
    say_place(r, "cell");
    (void)printf("\n");
    if (embedding) {
        say(embedding, "provider", "embedded by ");
        say(embedding, "because", ": ");
        (void)printf("\n");
    }
    for (const bw_json *c = first(r, "classes"); c; c = c->next) {
        say(c, "class", "class ");
        (void)printf("\n");
        say_explanation(c);
    }
    say(r, "more_classes", "further classes: ");
    (void)printf("\n");
}

static int print_answer(const ask *a, const bw_json *answer)
{
    if (a->json) {
        (void)bw_cli_say(answer->raw.ptr, answer->raw.len);
        return bw_cli_say("\n", 1);
    }
    if (a->result)
        say_residency(answer);
    else if (!a->event)
        say_explanation(answer);
    if (a->event) {
        const bw_json *rules = bw_json_get_value(answer, "by_rules_of");
        say(answer, "event", "event ");
        say(answer, "status", ", answered ");
        (void)printf("%s\n", rules && bw_str_is(rules->str, "now")
                                 ? "; by the rules of now, since those of then are not kept"
                                 : "");
        if (!first(answer, "explanations"))
            (void)printf("nothing was refused\n");
        for (const bw_json *e = first(answer, "explanations"); e; e = e->next)
            say_explanation(e);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* ---- asking ---- */

static bw_status ask_cell(bw_ctx *ctx, ask *a, bw_str body, const bw_json **answer)
{
    bw_client *client = NULL;
    bw_buf b = {0};
    if (a->principal)
        a->connect.purpose = NULL;
    if (a->result) {
        bw_buf_putc(&b, '{');
        put_text(&b, "collection", a->result);
        bw_buf_putc(&b, '}');
        body = bw_buf_view(&b);
    }
    bw_status s =
        b.failed ? bw_fail_nomem(ctx) : bw_client_open(ctx, &a->connect, &client);
    if (s == BW_OK)
        s = bw_client_json(ctx, client, "POST",
                           a->result ? "/v1/explain/result" : "/v1/explain", body,
                           answer);
    bw_client_close(client);
    bw_buf_clear(&b);
    return s;
}

static bw_status policy_text(bw_ctx *ctx, const ask *a, const bw_policy_bench *bench,
                             bw_str *out)
{
    if (a->policies)
        return bw_file_read(ctx, a->policies, BW_POLICIES_BYTES_MAX, out);
    *out = bench->pack.policies;
    if (!a->set.data)
        return BW_OK;
    const char *path = bw_path_join(ctx, a->set.data, "policies.cedar");
    return path ? bw_file_read(ctx, path, BW_POLICIES_BYTES_MAX, out)
                : bw_fail_nomem(ctx);
}

static bw_status explain_here(bw_ctx *ctx, const ask *a, bw_policy_bench *bench,
                              bw_str body, bw_buf *out)
{
    bw_json *v;
    bw_v1_question q;
    bw_key_record who;
    bw_explanation e;
    bw_status s = bw_json_parse(ctx, body, BW_JSON_REQUEST, &v);
    if (s == BW_OK)
        s = bw_v1_question_parse(ctx, bench->catalogue, v, NULL, bench->at.id, &q);
    if (s == BW_OK)
        s = bw_v1_question_fits(ctx, &q);
    if (s == BW_OK)
        s = bw_key_record_parse(ctx, bw_json_get(v, "principal"), &who);
    if (s != BW_OK)
        return s;
    bw_explain_ask about = {
        .q = &q.q,
        .label_text = q.label_text,
        .kind = q.kind,
        .tenant = q.tenant,
        .name = q.name,
        .privileged = true,
        .claimable = who.purposes.items,
        .nclaimable = who.purposes.n,
        .recorded = who.safeguards.items,
        .nrecorded = who.safeguards.n,
        .changes_max = a->changes ? (uint32_t)strtoul(a->changes, NULL, 10) : 0};
    s = bw_explain(ctx, bench->authority, &about, &e);
    if (s != BW_OK)
        return s;
    bw_buf_putc(out, '{');
    bw_explanation_put(out, &e);
    bw_v1_put_asked(out, &q, &bench->at);
    bw_buf_putc(out, '}');
    return BW_OK;
}

static bw_status ask_here(bw_ctx *ctx, ask *a, bw_str body, const bw_json **answer)
{
    bw_policy_bench bench = {0};
    bw_config c;
    bw_buf out = {0};
    bw_json *v;
    bw_str text;
    bw_status s = bw_cli_config(ctx, &a->set, &c);
    if (s == BW_OK)
        s = bw_policy_bench_open(ctx, &c, a->set.data, &bench);
    if (s == BW_OK)
        s = policy_text(ctx, a, &bench, &text);
    if (s == BW_OK)
        s = bw_policy_bench_try(ctx, &bench, text);
    if (s == BW_OK)
        s = explain_here(ctx, a, &bench, body, &out);
    if (s == BW_OK)
        s = out.failed ? bw_fail_nomem(ctx)
                       : bw_arena_str(ctx, bw_buf_view(&out), &text);
    if (s == BW_OK)
        s = bw_json_parse(ctx, text, BW_JSON_CEDAR, &v);
    if (s == BW_OK)
        *answer = v;
    bw_buf_clear(&out);
    bw_policy_bench_close(&bench);
    return s;
}

int bw_cli_explain(int argc, char **argv)
{
    ask a = {0};
    const bw_json *answer;
    bw_buf body = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    int code = take_options(&a, argc, argv);
    if (code)
        return code;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx && sodium_init() >= 0 ? bw_harden(ctx) : BW_ENOMEM;
    if (s == BW_OK)
        s = check_numbers(ctx, &a);
    if (s == BW_OK)
        s = check_json(ctx, "--dest", a.dest);
    if (s == BW_OK)
        s = check_json(ctx, "--principal", a.principal);
    if (s == BW_OK)
        put_body(&a, &body);
    if (s == BW_OK && body.failed)
        s = bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = a.offline ? ask_here(ctx, &a, bw_buf_view(&body), &answer)
                      : ask_cell(ctx, &a, bw_buf_view(&body), &answer);
    code = s ? bw_cli_fail(ctx, "explain") : print_answer(&a, answer);
    bw_buf_clear(&body);
    bw_ctx_free(ctx);
    return code;
}
