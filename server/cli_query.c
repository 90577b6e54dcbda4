/* bailiwick query "text": asks a running cell over /v1/query and prints the hits, or
 * the cell's answer as it came (--json). Exit code: 0 answered (also without hits), 1
 * failed, 2 wrong use. */
#include "cli.h"
#include "cli_words.h"
#include "client.h"
#include "harden.h"
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "Usage: bailiwick query TEXT --collection C [--purpose P] [--mode "
    "dense|bm25|hybrid]\n"
    "                 [--limit N] [--filter JSON] [--recall R] [--explain] [--json]\n"
    "                 [--url URL] [--key-file FILE] [--ca FILE]\n";

typedef struct ask {
    bw_client_options connect;
    const char *text, *collection, *mode, *filter, *recall;
    unsigned long limit;
    bool explain, json;
} ask;

/* Goes into the request as it stands, so it must be a JSON number; the cell checks the
 * range. */
static bool recall_text(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    if (digits != 1 || s[1] == '\0')
        return digits == 1;
    return s[1] == '.' && s[2] != '\0' && s[2 + strspn(s + 2, "0123456789")] == '\0';
}

static int take_options(ask *a, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&a->connect, argc, argv, i);
        const char *value = i + 1 < argc ? argv[i + 1] : NULL, **at = NULL;
        char *end = NULL;
        if (n < 0)
            return 2;
        if (strcmp(argv[i], "--collection") == 0)
            at = &a->collection;
        else if (strcmp(argv[i], "--mode") == 0)
            at = &a->mode;
        else if (strcmp(argv[i], "--filter") == 0)
            at = &a->filter;
        else if (strcmp(argv[i], "--recall") == 0)
            at = &a->recall;
        if (n == 0 && at && value) {
            *at = value;
            n = at == &a->recall && !recall_text(value) ? 0 : 2;
        } else if (n == 0 && strcmp(argv[i], "--limit") == 0 && value) {
            a->limit = strtoul(value, &end, 10);
            n = *value && !*end && a->limit ? 2 : 0;
        } else if (n == 0 && (strcmp(argv[i], "--explain") == 0 ||
                              strcmp(argv[i], "--json") == 0)) {
            *(argv[i][2] == 'e' ? &a->explain : &a->json) = true;
            n = 1;
        } else if (n == 0 && strncmp(argv[i], "--", 2) != 0 && !a->text) {
            a->text = argv[i];
            n = 1;
        }
        if (n == 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (!a->text || !a->collection)
        return bw_cli_missing("query", a->text ? "--collection is" : "the question is",
                              usage);
    return 0;
}

/* The cell would say so as well, but with a place in a body that nobody has seen. */
static bw_status check_filter(bw_ctx *ctx, const ask *a)
{
    bw_json *root;
    char why[160];
    if (!a->filter || bw_json_parse(ctx, bw_str_c(a->filter), BW_JSON_REQUEST, &root) == BW_OK)
        return BW_OK;
    (void)snprintf(why, sizeof why, "%s", bw_ctx_message(ctx));
    return bw_fail(ctx, BW_EINVALID, "--filter: %s", why);
}

static void request_body(const ask *a, bw_buf *b)
{
    bw_buf_puts(b, "{\"query\":");
    bw_json_put_str(b, bw_str_c(a->text));
    bw_json_put_key(b, "collection");
    bw_json_put_str(b, bw_str_c(a->collection));
    bw_json_put_key(b, "limit");
    bw_json_put_u64(b, a->limit);
    if (a->mode) {
        bw_json_put_key(b, "mode");
        bw_json_put_str(b, bw_str_c(a->mode));
    }
    if (a->filter) {
        bw_json_put_key(b, "filter");
        bw_buf_puts(b, a->filter);
    }
    if (a->recall) {
        bw_json_put_key(b, "recall");
        bw_buf_puts(b, a->recall);
    }
    if (a->explain)
        bw_buf_puts(b, ",\"explain\":true");
    bw_buf_putc(b, '}');
}

static void print_member(const bw_json *hit, const char *name, const char *label)
{
    char text[240];
    const bw_json *v = bw_json_get_value(hit, name);
    if (!v)
        return;
    bw_str s = v->kind == BW_JSON_STRING ? v->str : v->raw;
    bw_cli_plain(s.ptr, s.len, text, sizeof text);
    (void)printf("%s%s", label, text);
}

static void print_hit(const bw_json *hit, unsigned rank)
{
    char text[400];
    const bw_json *t = bw_json_get_value(hit, "text"),
                  *score = bw_json_get_value(hit, "score");
    (void)printf("%u. ", rank);
    print_member(hit, "source", "");
    print_member(hit, "page", ", page ");
    print_member(hit, "headings", " — ");
    (void)printf("  (%.4f)\n", score ? score->real : 0.0);
    if (t && t->kind == BW_JSON_STRING) {
        bw_cli_plain(t->str.ptr, t->str.len, text, sizeof text);
        (void)printf("   %s\n", text);
    }
    print_member(hit, "labels", "   labels ");
    (void)printf("\n");
}

/* Nothing was found: that the request claims no purpose is the usual reason, and the
 * caller's own affair, so it may be said. */
static void explain_nothing(bw_ctx *ctx, const ask *a, bw_client *client)
{
    const bw_json *who;
    (void)bw_cli_say("no hits\n", 8);
    if (!a->connect.key_file ||
        bw_client_json(ctx, client, "GET", "/v1/whoami", (bw_str){NULL, 0}, &who) != BW_OK)
        return;
    const bw_json *purpose = bw_json_get(who, "purpose");
    if (purpose && bw_str_is(purpose->str, ""))
        (void)fprintf(stderr,
                      "bailiwick query: no purpose is claimed (--purpose, or the key's "
                      "default), and data\nkept for a purpose is shown for that purpose "
                      "only; `bailiwick doctor --url … --key-file …`\ntells what the key "
                      "may claim\n");
}

static int print_answer(bw_ctx *ctx, const ask *a, bw_client *client, const bw_json *answer)
{
    unsigned rank = 0;
    if (a->json) {
        bw_cli_say(answer->raw.ptr, answer->raw.len);
        return bw_cli_say("\n", 1);
    }
    const bw_json *hits = bw_json_get(answer, "hits"), *e = NULL;
    if (!bw_json_is_array(hits) || bw_json_elements(ctx, hits, &e) != BW_OK) {
        (void)fprintf(stderr, "bailiwick query: the cell's answer holds no hits\n");
        return 1;
    }
    for (; e; e = e->next)
        print_hit(e, ++rank);
    if (rank == 0)
        explain_nothing(ctx, a, client);
    const bw_json *plan = bw_json_get_value(answer, "explain");
    if (plan)
        (void)printf("plan: %.*s\n", (int)plan->raw.len, plan->raw.ptr);
    return 0;
}

int bw_cli_query(int argc, char **argv)
{
    ask a = {.limit = 5};
    bw_client *client = NULL;
    const bw_json *answer;
    bw_buf body = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    int code = take_options(&a, argc, argv);
    if (code)
        return code;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx ? bw_harden(ctx) : BW_ENOMEM; /* a key is in its memory */
    if (!s)
        s = bw_client_open(ctx, &a.connect, &client);
    if (!s)
        s = check_filter(ctx, &a);
    if (!s)
        request_body(&a, &body);
    if (!s)
        s = body.failed ? bw_fail_nomem(ctx)
                        : bw_client_json(ctx, client, "POST", "/v1/query",
                                         bw_buf_view(&body), &answer);
    code = s ? bw_cli_fail(ctx, "query") : print_answer(ctx, &a, client, answer);
    bw_buf_clear(&body);
    bw_client_close(client);
    bw_ctx_free(ctx);
    return code;
}
