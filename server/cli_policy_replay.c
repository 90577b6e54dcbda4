/* policy replay: past decisions under a candidate, from a data folder or a running cell. */
#include "cli.h"
#include "cli_policy.h"
#include "cli_words.h"
#include "client.h"
#include "files.h"
#include "replay.h"
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>

static const char replay_usage[] =
    "Usage: bailiwick policy replay (CANDIDATE.cedar | --self) (--data DIR [--audit FOLDER] "
    "| --url URL --key-file FILE [--ca FILE])\n"
    "                               [--entities FILE] [--catalogue FILE] [--last N] [--since "
    "TIME] [--until TIME] [--json]\n"
    "Takes the log's decisions again: first by the rules that they were made by, which must "
    "give what the log says,\n"
    "then by CANDIDATE (and other entities, another overlay of the catalogue), and tells "
    "which turn.\n"
    "--self: only whether the log can be reproduced; exit status 1 if a decision cannot.\n"
    "--data: reads the folder, beside a running cell or without one. --audit: the log from "
    "elsewhere.\n"
    "--url: asks a running cell; the key needs Admin and ReadAudit, and the last 10,000 "
    "requests can be asked for.\n"
    "--last: the newest requests (1,000 from a cell, all of a folder).\n";

enum { LINE_CAP = 4096, CANDIDATE_BYTES_MAX = 64 << 20 };

typedef struct replay_words {
    const char *file, *data, *audit, *entities, *catalogue, *last, *since, *until;
    bool self, json, remote;
    bw_client_options client;
    bw_replay_options o;
} replay_words;

static int take(replay_words *w, int argc, char **argv, int i)
{
    const struct {
        const char *name, **to;
    } values[] = {{"--data", &w->data},           {"--audit", &w->audit},
                  {"--entities", &w->entities},   {"--catalogue", &w->catalogue},
                  {"--last", &w->last},           {"--since", &w->since},
                  {"--until", &w->until}};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
        if (strcmp(argv[i], values[k].name) == 0 && i + 1 < argc) {
            *values[k].to = argv[i + 1];
            return 2;
        }
    int n = bw_client_option(&w->client, argc, argv, i);
    w->remote = w->remote || n > 0;
    if (n != 0)
        return n;
    if (strcmp(argv[i], "--self") == 0)
        w->self = true;
    else if (strcmp(argv[i], "--json") == 0)
        w->json = true;
    else if (argv[i][0] != '-' && !w->file)
        w->file = argv[i];
    else
        return 0;
    return 1;
}

static int parse_words(replay_words *w, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int n = take(w, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, replay_usage);
        i += n;
    }
    bool candidate = w->file || w->entities || w->catalogue;
    if (w->self == candidate)
        return bw_cli_missing("policy replay",
                              "a candidate or --self (not both) is", replay_usage);
    if (w->remote == (w->data != NULL) || (w->audit && !w->data))
        return bw_cli_missing("policy replay", "one of --data and --url is", replay_usage);
    return 0;
}

static bw_status read_optional(bw_ctx *ctx, const char *file, bw_str *out)
{
    return file ? bw_file_read(ctx, file, CANDIDATE_BYTES_MAX, out) : BW_OK;
}

static bw_status read_time(bw_ctx *ctx, const char *name, const char *text, int64_t *out)
{
    return !text || bw_time_parse(bw_str_c(text), out)
               ? BW_OK
               : bw_fail(ctx, BW_EINVALID, "%s wants a date-time", name);
}

static bw_status read_number(bw_ctx *ctx, const char *text, uint64_t *out)
{
    uint64_t n = 0;
    for (const char *c = text ? text : ""; *c; c++)
        if (*c < '0' || *c > '9' || n > BW_REPLAY_LAST_MAX)
            return bw_fail(ctx, BW_EINVALID, "--last wants a number");
        else
            n = n * 10 + (uint64_t)(*c - '0');
    if (text && (n == 0 || n > BW_REPLAY_LAST_MAX))
        return bw_fail(ctx, BW_EINVALID, "--last wants 1 to %d", BW_REPLAY_LAST_MAX);
    *out = n;
    return BW_OK;
}

static bw_status options_fill(bw_ctx *ctx, replay_words *w)
{
    bw_replay_options *o = &w->o;
    bw_status s = read_optional(ctx, w->file, &o->policies);
    if (s == BW_OK)
        s = read_optional(ctx, w->entities, &o->entities);
    if (s == BW_OK)
        s = read_optional(ctx, w->catalogue, &o->overlay);
    if (s == BW_OK)
        s = read_time(ctx, "--since", w->since, &o->since_ns);
    if (s == BW_OK)
        s = read_time(ctx, "--until", w->until, &o->until_ns);
    if (s == BW_OK)
        s = read_number(ctx, w->last, &o->last);
    o->dir = w->data;
    o->audit = w->audit;
    return s;
}

/* ---- from a cell ---- */

static void put_raw(bw_buf *b, const char *name, bw_str json)
{
    if (!json.ptr)
        return;
    bw_json_put_key(b, name);
    bw_buf_str(b, json);
}

static void put_string(bw_buf *b, const char *name, bw_str s)
{
    if (!s.ptr)
        return;
    bw_json_put_key(b, name);
    bw_json_put_str(b, s);
}

static bw_status ask_cell(bw_ctx *ctx, const replay_words *w, const bw_json **out)
{
    bw_client *client = NULL;
    bw_buf b = {0};
    bw_buf_putc(&b, '{');
    put_string(&b, "policies", w->o.policies);
    put_raw(&b, "entities", w->o.entities);
    put_raw(&b, "catalogue", w->o.overlay);
    put_string(&b, "since", bw_str_c(w->since));
    put_string(&b, "until", bw_str_c(w->until));
    if (w->o.last) {
        bw_json_put_key(&b, "last");
        bw_json_put_u64(&b, w->o.last);
    }
    bw_buf_putc(&b, '}');
    bw_status s = b.failed ? bw_fail_nomem(ctx) : bw_client_open(ctx, &w->client, &client);
    if (s == BW_OK)
        s = bw_client_json(ctx, client, "POST", "/v1/policies/replay", bw_buf_view(&b), out);
    bw_client_close(client);
    bw_buf_clear(&b);
    return s;
}

static bw_status ask_folder(bw_ctx *ctx, const replay_words *w, const bw_json **out)
{
    bw_buf b = {0};
    bw_str text;
    bw_json *root;
    bw_status s = bw_replay_run(ctx, &w->o, &b);
    if (s == BW_OK)
        s = bw_arena_str(ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (s == BW_OK)
        s = bw_json_parse(ctx, text, BW_JSON_CEDAR, &root);
    if (s == BW_OK)
        *out = root;
    return s;
}

/* ---- in words ---- */

static uint64_t number(const bw_json *v, const char *name)
{
    uint64_t n = 0;
    (void)bw_json_u64(bw_json_get(v, name), &n);
    return n;
}

/* A member's text, fit for a terminal; of eight buffers in turn. */
static const char *word(const bw_json *v, const char *name)
{
    static char buffers[8][LINE_CAP];
    static unsigned turn;
    char *out = buffers[turn++ % 8];
    const bw_json *m = bw_json_get(v, name);
    bw_str s = !m ? BW_STR("") : m->kind == BW_JSON_STRING ? m->str : m->raw;
    bw_cli_plain(s.ptr, s.len, out, LINE_CAP);
    return out;
}

static const bw_json *items(const bw_json *v, const char *name)
{
    const bw_json *list = bw_json_get(v, name);
    return list ? list->child : NULL;
}

static void print_turns_of(const bw_json *v)
{
    (void)printf("%8" PRIu64 " to allow %8" PRIu64 " to deny\n", number(v, "to_allow"),
                 number(v, "to_deny"));
}

static void print_tallies(const bw_json *root, const bw_json *c)
{
    (void)printf("by principal:\n");
    for (const bw_json *v = items(c, "by_principal"); v; v = v->next) {
        (void)printf("  %s of %s:", word(v, "principal"), word(v, "tenant"));
        print_turns_of(v);
    }
    (void)printf("by action:\n");
    for (const bw_json *v = items(c, "by_action"); v; v = v->next) {
        (void)printf("  %s:", word(v, "action"));
        print_turns_of(v);
    }
    (void)printf("by class:\n");
    for (const bw_json *v = items(c, "by_class"); v; v = v->next) {
        const char *id = word(v, "name");
        const bw_json *labels = bw_json_get(root, "classes");
        if (strcmp(word(v, "kind"), "class") == 0) {
            (void)printf("  class %.12s:", id);
            print_turns_of(v);
            (void)printf("    %s\n", word(labels, id));
        } else {
            (void)printf("  %s %s:", word(v, "kind"), id);
            print_turns_of(v);
        }
    }
}

static void print_turn(const bw_json *v)
{
    const char *policies = word(v, "policies"), *errors = word(v, "errors");
    (void)printf("  %-5s %-16s ", word(v, "turns"), word(v, "action"));
    if (bw_json_get(v, "class"))
        (void)printf("class %.12s", word(v, "class"));
    else if (bw_json_get(v, "collection"))
        (void)printf("collection %s", word(v, "collection"));
    else
        (void)printf("the cell");
    (void)printf("  %s of %s: by %s%s%s (%" PRIu64 " requests, events %" PRIu64
                 " to %" PRIu64 ")\n",
                 word(v, "principal"), word(v, "tenant"),
                 policies[0] ? policies : "no policy", errors[0] ? ", with errors in " : "",
                 errors, number(v, "requests"), number(v, "first_seq"),
                 number(v, "last_seq"));
}

static void print_candidate(const bw_json *root)
{
    const bw_json *c = bw_json_get(root, "candidate");
    if (!c || c->kind != BW_JSON_OBJECT)
        return;
    (void)printf("under the candidate %" PRIu64 " turn to allow and %" PRIu64
                 " to deny, in %" PRIu64 " requests; %" PRIu64 " stay allowed, %" PRIu64
                 " denied\n",
                 number(c, "to_allow"), number(c, "to_deny"), number(c, "requests_changed"),
                 number(c, "allow"), number(c, "deny"));
    if (number(c, "to_allow") + number(c, "to_deny") == 0)
        return;
    print_tallies(root, c);
    (void)printf("turns:\n");
    for (const bw_json *v = items(c, "turns"); v; v = v->next)
        print_turn(v);
    if (number(c, "turns_left_out"))
        (void)printf("  and %" PRIu64 " decisions that are not listed\n",
                     number(c, "turns_left_out"));
}

static void print_report(const bw_json *root)
{
    (void)printf("%" PRIu64 " requests, events %" PRIu64 " to %" PRIu64 "; %" PRIu64
                 " of them without a decision\n",
                 number(root, "requests"), number(root, "from_seq"), number(root, "to_seq"),
                 number(root, "without_decisions"));
    (void)printf("%" PRIu64 " decisions: %" PRIu64 " reproduced, %" PRIu64 " not",
                 number(root, "decisions"), number(root, "reproduced"),
                 number(root, "not_reproduced"));
    if (number(root, "not_in_log"))
        (void)printf("; %" PRIu64 " more are only counted in the log",
                     number(root, "not_in_log"));
    (void)printf("\n");
    for (const bw_json *v = items(root, "reasons"); v; v = v->next)
        (void)printf("  not reproduced: %" PRIu64 " from event %" PRIu64 ": %s\n",
                     number(v, "decisions"), number(v, "first_seq"), word(v, "reason"));
    print_candidate(root);
}

int bw_cli_policy_replay(int argc, char **argv)
{
    replay_words w = {0};
    const bw_json *root = NULL;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(replay_usage, sizeof replay_usage - 1);
    int code = parse_words(&w, argc, argv);
    if (code != 0)
        return code;
    bw_ctx *ctx = bw_ctx_new((size_t)4 << 30);
    bw_status s = ctx && sodium_init() >= 0 ? options_fill(ctx, &w) : BW_ENOMEM;
    if (s == BW_OK)
        s = w.remote ? ask_cell(ctx, &w, &root) : ask_folder(ctx, &w, &root);
    if (s != BW_OK) {
        code = bw_cli_fail(ctx, "policy replay");
    } else if (w.json) {
        code = bw_cli_say(root->raw.ptr, root->raw.len) | bw_cli_say("\n", 1);
    } else {
        print_report(root);
    }
    if (s == BW_OK && code == 0 && w.self)
        code = number(root, "not_reproduced") > 0;
    bw_ctx_free(ctx);
    return code;
}
