/* policy test: test files run one after another, failures in words, JUnit for machines. */
#include "cli.h"
#include "cli_policy.h"
#include "cli_words.h"
#include "client.h"
#include "files.h"
#include "junit.h"
#include "v1.h"
#include <sodium.h>
#include <stdio.h>

static const char test_usage[] =
    "Usage: bailiwick policy test FILE… [--policies FILE] [--data DIR | --config FILE]\n"
    "                             [--junit FILE] [--filter TEXT] [--cedar-errors] [--set "
    "name=value]\n"
    "Asks the policy set of each test file, or --policies, the questions of that file; "
    "exit status 0 = all\n"
    "answers are as expected, 1 = some are not or a file is none.\n"
    "--data: facts and, for files that name no set, the set of this data folder.\n"
    "--url URL --key-file FILE [--ca FILE]: asks a running cell's dry run (the key needs "
    "Admin) by its own facts;\n"
    "what a test file names is the candidate there.\n"
    "--filter: only cases whose name holds TEXT.  --junit: results as JUnit XML.\n"
    "--cedar-errors: Cedar's own semantics, to compare: a forbid that errors is skipped, "
    "and a set is not\n"
    "validated. Nowhere else can these rules be turned off.\n"
    "A file, shortened (server/policy_test.h has it whole):\n"
    "  {\"policies\": [\"PACK\", {\"file\": F}, {\"text\": T}], \"catalogue\": {…}, "
    "\"entities\": […],\n"
    "   \"places\": {NAME: {\"country\", \"operator\", \"certs\", \"hw\"}},\n"
    "   \"principals\": {NAME: {\"tenant\", \"seat\", \"clearance\", \"roles\"}}, "
    "\"classes\": {NAME: {label set}},\n"
    "   \"cell\": PLACE, \"purpose\": P, \"safeguards\": […], \"now\": T,\n"
    "   \"cases\": [{\"name\", \"principal\", \"action\", \"class\" | \"labels\" | "
    "\"collection\" | \"cell\": true,\n"
    "              \"at\", \"dest\", \"purpose\", \"safeguards\", \"now\",\n"
    "              \"expect\": \"allow\" | {\"decision\", \"policies\", \"errors\"}}]}\n";

enum { FILES_MAX = 1024, LINE_CAP = 8192 };

typedef struct test_run {
    bw_cli_settings set;
    bw_policy_test_options o;
    const char *files[FILES_MAX];
    const char *policies, *junit;
    bw_client_options connect;
    bw_client *client;
    bool remote;
    size_t nfiles, cases, failed, broken, filtered;
    bw_buf suites;
} test_run;

static bool value_of(int argc, char **argv, int *i, const char *name, const char **out)
{
    if (strcmp(argv[*i], name) != 0 || *i + 1 >= argc)
        return false;
    *out = argv[*i + 1];
    *i += 2;
    return true;
}

/* 0, or the exit status of wrong use. */
static int parse_words(test_run *r, int argc, char **argv)
{
    const char *filter = NULL;
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&r->set, argc, argv, i);
        i += n > 0 ? n : 0;
        if (n > 0 || value_of(argc, argv, &i, "--policies", &r->policies) ||
            value_of(argc, argv, &i, "--junit", &r->junit) ||
            value_of(argc, argv, &i, "--filter", &filter))
            continue;
        if (n == 0)
            n = bw_client_option(&r->connect, argc, argv, i);
        if (n > 0) {
            r->remote = true;
            i += n;
            continue;
        }
        if (n == 0 && strcmp(argv[i], "--cedar-errors") == 0)
            r->o.cedar_errors = true;
        else if (n == 0 && argv[i][0] != '-' && r->nfiles < FILES_MAX)
            r->files[r->nfiles++] = argv[i];
        else
            return bw_cli_wrong(argc, argv, i, n, test_usage);
        i++;
    }
    r->o.filter = bw_str_c(filter);
    if (r->remote && (r->set.data || r->o.cedar_errors)) /* a cell has its facts and rules */
        return bw_cli_missing("policy test", "--url without --data and --cedar-errors is",
                              test_usage);
    return r->nfiles ? 0 : bw_cli_missing("policy test", "FILE is", test_usage);
}

static bw_status ask_cell(void *arg, bw_ctx *ctx, bw_str body, const bw_json **answer)
{
    return bw_client_json(ctx, arg, "POST", "/v1/policies/dry-run", body, answer);
}

/* The set in force, for files that name none: whether it reads the time. */
static bw_status cell_open(bw_ctx *ctx, test_run *r)
{
    const bw_json *now;
    bw_status s = bw_client_open(ctx, &r->connect, &r->client);
    if (s == BW_OK)
        s = bw_client_json(ctx, r->client, "GET", "/v1/policies", (bw_str){NULL, 0}, &now);
    if (s == BW_OK)
        s = bw_v1_string(ctx, now, "policies", &r->o.fallback);
    r->o.ask = ask_cell;
    r->o.ask_arg = r->client;
    return s;
}

static bw_status options_fill(bw_ctx *ctx, test_run *r, bw_policy_bench *b)
{
    bw_config c;
    bw_status s = bw_cli_config(ctx, &r->set, &c);
    if (s == BW_OK)
        s = bw_policy_bench_open(ctx, &c, r->set.data, b);
    if (s != BW_OK)
        return s;
    r->o.pack = b->pack;
    r->o.packs = bw_pack_folder(ctx, &c);
    r->o.entities = b->entities;
    r->o.at = b->at;
    r->o.fallback = b->pack.policies;
    const char *running = r->set.data ? bw_path_join(ctx, r->set.data, "policies.cedar")
                                      : NULL;
    if (running)
        s = bw_file_read(ctx, running, BW_POLICIES_BYTES_MAX, &r->o.fallback);
    if (s == BW_OK && r->policies)
        s = bw_file_read(ctx, r->policies, BW_POLICIES_BYTES_MAX, &r->o.policies);
    return s == BW_OK && r->remote ? cell_open(ctx, r) : s;
}

/* Lines of others' text, each after `before`. */
static void print_lines(const char *before, bw_str text)
{
    char line[LINE_CAP];
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end ? (size_t)(end - text.ptr) : text.len;
        bw_cli_plain(text.ptr, n, line, sizeof line);
        (void)printf("%s%s\n", before, line);
        n += end != NULL;
        text = (bw_str){text.ptr + n, text.len - n};
    }
}

static void print_failures(const char *file, const bw_policy_test_result *res)
{
    char name[LINE_CAP], path[LINE_CAP];
    bw_cli_plain(file, strlen(file), path, sizeof path);
    for (size_t i = 0; i < res->n; i++) {
        const bw_policy_case *c = &res->cases[i];
        if (c->failure.len == 0)
            continue;
        bw_cli_plain(c->name.ptr, c->name.len, name, sizeof name);
        (void)printf("FAIL %s: %s\n", path, name);
        print_lines("     ", c->question);
        print_lines("     ", c->failure);
    }
}

static void run_file(test_run *r, const char *file)
{
    bw_policy_test_result res = {0};
    bw_ctx *ctx = bw_ctx_new(0);
    char said[LINE_CAP] = "";
    bw_status s = ctx ? bw_policy_test_run(ctx, &r->o, file, &res) : BW_ENOMEM;
    if (s != BW_OK) {
        const char *at = ctx ? bw_ctx_pointer(ctx) : "";
        (void)snprintf(said, sizeof said, "%s%s%s", at, at[0] ? ": " : "",
                       ctx ? bw_ctx_message(ctx) : "out of memory");
        char plain[LINE_CAP];
        bw_cli_plain(said, strlen(said), plain, sizeof plain);
        (void)fprintf(stderr, "bailiwick policy test: %s: %s\n", file, plain);
        r->broken++;
    }
    print_failures(file, &res);
    r->cases += res.n;
    r->failed += res.failed;
    r->filtered += res.filtered;
    bw_junit_put(&r->suites, file, &res, bw_str_c(said[0] ? said : NULL));
    bw_ctx_free(ctx);
}

static bw_status write_junit(bw_ctx *ctx, const test_run *r)
{
    bw_buf b = {0};
    bw_junit_document(&b, bw_buf_view(&r->suites), r->cases + r->broken, r->failed,
                      r->broken);
    bw_status s = b.failed || r->suites.failed
                      ? bw_fail_nomem(ctx)
                      : bw_file_replace(ctx, r->junit, bw_buf_view(&b), 0644);
    bw_buf_clear(&b);
    return s;
}

static int run_all(bw_ctx *ctx, test_run *r)
{
    for (size_t i = 0; i < r->nfiles; i++)
        run_file(r, r->files[i]);
    (void)printf("%zu passed, %zu failed", r->cases - r->failed, r->failed);
    if (r->broken)
        (void)printf(", %zu files not run", r->broken);
    if (r->filtered)
        (void)printf(", %zu left out by --filter", r->filtered);
    (void)printf("\n");
    if (r->junit && write_junit(ctx, r) != BW_OK)
        return bw_cli_fail(ctx, "policy test");
    if (r->cases == 0 && !r->broken) {
        (void)fputs("bailiwick policy test: no case was run\n", stderr);
        return 1;
    }
    return r->failed || r->broken ? 1 : 0;
}

int bw_cli_policy_test(int argc, char **argv)
{
    bw_policy_bench b = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(test_usage, sizeof test_usage - 1);
    test_run *r = bw_calloc(1, sizeof *r);
    bw_ctx *ctx = bw_ctx_new(0);
    int code = r ? parse_words(r, argc, argv) : 1;
    if (r && code == 0) {
        bw_status s = ctx && sodium_init() >= 0 ? options_fill(ctx, r, &b) : BW_ENOMEM;
        code = s == BW_OK ? run_all(ctx, r) : bw_cli_fail(ctx, "policy test");
    }
    if (r) {
        bw_buf_clear(&r->suites);
        bw_client_close(r->client);
    }
    bw_policy_bench_close(&b);
    bw_ctx_free(ctx);
    bw_free(r);
    return code;
}
