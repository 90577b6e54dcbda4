/* bailiwick relabel: moves points to other labels over /v1/relabel, or shows what that
 * would do. Exit code: 0 done (also when nothing had to move), 1 failed or refused, 2
 * wrong use, 3 a dry run that would be refused. */
#include "cli.h"
#include "cli_words.h"
#include "client.h"
#include "harden.h"
#include <stdio.h>

static const char usage[] =
    "Usage: bailiwick relabel --collection C (--points ID,… | --source S | --filter "
    "JSON)\n"
    "                 (--label name=value… | --raise name=value…) [--dry-run] "
    "[--json]\n"
    "                 [--purpose P] [--url URL] [--key-file FILE] [--ca FILE]\n"
    "  --points    numbers and UUIDs, with commas\n"
    "  --source    all points of a document, by the name that ingest gave it\n"
    "  --label     the new label set, whole (names as in `ingest --help`)\n"
    "  --raise     added to the labels that the points have: it can only restrict\n"
    "  --dry-run   says which labels would change and what the policies say; changes "
    "nothing\n"
    "All points move, or none. Exit code: 0 done, 1 failed or refused, 2 wrong use, 3 "
    "a "
    "dry run\n"
    "that would be refused.\n";

typedef struct job {
    bw_client_options connect;
    const char *collection, *points, *source, *filter;
    bw_label_words labels, raise;
    bool dry_run, json;
} job;

/* Words that argv[i] took: 0 none, -1 wrong and said. */
static int take_word(job *j, int argc, char **argv, int i)
{
    const struct {
        const char *name;
        const char **at;
    } values[] = {{"--collection", &j->collection},
                  {"--points", &j->points},
                  {"--source", &j->source},
                  {"--filter", &j->filter}};
    if (strcmp(argv[i], "--dry-run") == 0 || strcmp(argv[i], "--json") == 0) {
        *(argv[i][2] == 'd' ? &j->dry_run : &j->json) = true;
        return 1;
    }
    if (i + 1 >= argc)
        return 0;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        if (strcmp(argv[i], values[k].name) == 0) {
            *values[k].at = argv[i + 1];
            return 2;
        }
    bool label = strcmp(argv[i], "--label") == 0;
    if (!label && strcmp(argv[i], "--raise") != 0)
        return 0;
    return bw_label_words_take(label ? &j->labels : &j->raise, argv[i + 1]) ? 2 : -1;
}

static int take_options(job *j, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&j->connect, argc, argv, i);
        if (n == 0)
            n = take_word(j, argc, argv, i);
        if (n < 0)
            return 2;
        if (n == 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (!j->collection)
        return bw_cli_missing("relabel", "--collection is", usage);
    if (!!j->points + !!j->source + !!j->filter != 1)
        return bw_cli_missing("relabel", "one of --points, --source and --filter is",
                              usage);
    if (!j->labels.n == !j->raise.n)
        return bw_cli_missing("relabel", "one of --label and --raise (not both) is",
                              usage);
    return 0;
}

/* What is no number is sent as text: the cell knows UUIDs. */
static void put_ids(const char *list, bw_buf *b)
{
    bw_json_put_key(b, "points");
    bw_buf_putc(b, '[');
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        bw_str id = {p, n};
        bool leading = n > 1 && p[0] == '0';
        if (n > 0)
            bw_json_sep(b);
        if (n > 0 && strspn(p, "0123456789") >= n && !leading)
            bw_buf_str(b, id);
        else if (n > 0)
            bw_json_put_str(b, id);
        p += n + (p[n] == ',');
    }
    bw_buf_putc(b, ']');
}

static void request_body(const job *j, bw_buf *b)
{
    bw_buf_puts(b, "{\"collection\":");
    bw_json_put_str(b, bw_str_c(j->collection));
    if (j->points)
        put_ids(j->points, b);
    if (j->filter || j->source)
        bw_json_put_key(b, "filter");
    if (j->filter)
        bw_buf_puts(b, j->filter);
    if (j->source) {
        bw_buf_puts(b, "{\"must\":[{\"key\":\"metadata.source\",\"match\":{\"value\":");
        bw_json_put_str(b, bw_str_c(j->source));
        bw_buf_puts(b, "}}]}");
    }
    bw_json_put_key(b, j->labels.n ? "labels" : "raise");
    bw_label_words_put(j->labels.n ? &j->labels : &j->raise, NULL, b);
    if (j->dry_run)
        bw_buf_puts(b, ",\"dry_run\":true");
    bw_buf_putc(b, '}');
}

static void print_raw(const char *label, const bw_json *v)
{
    char text[700];
    if (!v)
        return;
    bw_cli_plain(v->raw.ptr, v->raw.len, text, sizeof text);
    (void)printf("  %s %s\n", label, text);
}

static void print_class(bw_ctx *ctx, const bw_json *c)
{
    uint64_t n = 0;
    const bw_json *e = NULL, *decisions = bw_json_get(c, "decisions");
    (void)bw_json_u64(bw_json_get(c, "points"), &n);
    (void)printf("%llu points\n", (unsigned long long)n);
    print_raw("from", bw_json_get(c, "from_labels"));
    print_raw("to  ", bw_json_get(c, "to_labels"));
    if (!bw_json_is_array(decisions) || bw_json_elements(ctx, decisions, &e) != BW_OK)
        return;
    for (; e; e = e->next) {
        const bw_json *action = bw_json_get(e, "action"),
                      *decision = bw_json_get(e, "decision"),
                      *policies = bw_json_get(e, "policies");
        if (action && decision && policies && bw_json_is_array(policies) && !policies->child)
            (void)printf("  %.*s: %.*s by no policy that can be named: none permits it, or the "
                         "labels are another tenant's\n",
                         (int)action->str.len, action->str.ptr, (int)decision->str.len,
                         decision->str.ptr);
        else if (action && decision && policies)
            (void)printf("  %.*s: %.*s by %.*s\n", (int)action->str.len,
                         action->str.ptr, (int)decision->str.len, decision->str.ptr,
                         (int)(policies->raw.len < 400 ? policies->raw.len : 400),
                         policies->raw.ptr);
    }
}

static int print_answer(bw_ctx *ctx, const job *j, const bw_json *a)
{
    const bw_json *allowed = bw_json_get(a, "allowed"), *e = NULL,
                  *classes = bw_json_get(a, "classes");
    uint64_t moved = 0, unchanged = 0;
    int refused = allowed && allowed->kind == BW_JSON_FALSE ? 3 : 0;
    if (j->json) {
        (void)bw_cli_say(a->raw.ptr, a->raw.len);
        return bw_cli_say("\n", 1) ? 1 : refused;
    }
    if (!bw_json_is_array(classes) || bw_json_elements(ctx, classes, &e) != BW_OK) {
        (void)fprintf(stderr,
                      "bailiwick relabel: the cell's answer is not understood\n");
        return 1;
    }
    for (; e; e = e->next)
        print_class(ctx, e);
    (void)bw_json_u64(bw_json_get(a, "moved"), &moved);
    (void)bw_json_u64(bw_json_get(a, "unchanged"), &unchanged);
    (void)printf("%llu moved, %llu had these labels already%s\n",
                 (unsigned long long)moved, (unsigned long long)unchanged,
                 !j->dry_run ? ""
                 : refused   ? " (dry run: it would be refused)"
                             : " (dry run: it would be allowed)");
    return refused;
}

int bw_cli_relabel(int argc, char **argv)
{
    job j = {.connect = {.timeout_s = 3600}}; /* the cell's own deadline decides */
    bw_client *client = NULL;
    const bw_json *answer;
    bw_buf body = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    int code = take_options(&j, argc, argv);
    if (code)
        return code;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx ? bw_harden(ctx) : BW_ENOMEM;
    if (!s)
        s = bw_client_open(ctx, &j.connect, &client);
    if (!s)
        request_body(&j, &body);
    if (!s)
        s = body.failed ? bw_fail_nomem(ctx)
                        : bw_client_json(ctx, client, "POST", "/v1/relabel",
                                         bw_buf_view(&body), &answer);
    code = s ? bw_cli_fail(ctx, "relabel") : print_answer(ctx, &j, answer);
    bw_buf_clear(&body);
    bw_client_close(client);
    bw_ctx_free(ctx);
    return code;
}
