/* policy check: would this cell accept the set? The words of `policy test` and `policy
 * replay` have files of their own. None of them changes anything. */
#include "cli_policy.h"
#include "cli.h"
#include "cli_words.h"
#include "files.h"
#include <sodium.h>
#include <stdio.h>

enum { FINDING_MAX = 2048 };

static const char policy_usage[] =
    "Usage: bailiwick policy check FILE [--level N] [--data DIR | --config FILE]\n"
    "                             [--set name=value]\n"
    "       bailiwick policy test FILE… (its own --help)\n"
    "       bailiwick policy replay CANDIDATE.cedar (its own --help)\n"
    "       bailiwick policy put FILE --url URL --key-file FILE (its own --help)\n"
    "       bailiwick policy packs, bailiwick policy compose NAME… (their own --help)\n"
    "       bailiwick policy fmt FILE…, bailiwick policy json FILE, bailiwick policy "
    "from-json FILE\n"
    "       (their own --help)\n"
    "check: FILE is a policy set that this cell would accept. --level N: and no policy\n"
    "  looks into more than N entities one after the other.\n"
    "test: asks a policy set the questions of test files and compares the answers.\n"
    "replay: what a set would have changed in the requests of the log.\n"
    "put: makes a set the running cell's.\n"
    "packs: which packs of rules there are.  compose: some of them as one set.\n"
    "fmt: lays policies out.  json, from-json: policies in Cedar's other form.\n";

bw_status bw_policy_bench_open(bw_ctx *ctx, bw_config *c, const char *dir,
                               bw_policy_bench *out)
{
    memset(out, 0, sizeof *out);
    bw_status s = bw_facts_open(ctx, c, dir, &out->pack, &out->catalogue,
                                &out->entities);
    if (c->cell_country.len == 0)
        c->cell_country = BW_STR("FR");
    if (c->cell_operator.len == 0)
        c->cell_operator = BW_STR("unknown");
    bw_config_place(c, &out->at);
    return s;
}

bw_status bw_policy_bench_try(bw_ctx *ctx, bw_policy_bench *b, bw_str policies)
{
    bw_authority_options o = {.schema = b->pack.schema,
                              .policies = policies,
                              .entities = b->entities,
                              .catalogue = b->catalogue,
                              .at = b->at};
    return bw_authority_new(ctx, &o, &b->authority);
}

void bw_policy_bench_close(bw_policy_bench *b)
{
    bw_authority_free(b->authority);
    bw_catalogue_free(b->catalogue);
    b->authority = NULL;
    b->catalogue = NULL;
}

/* Prints every finding of validation, a line each; BW_EINVALID when one is an error. */
static bw_status print_findings(bw_ctx *ctx, bw_str schema_text, bw_str text, int level,
                                const char *file)
{
    const bw_cedar_validate_options options = {.level = level};
    bw_cedar_policies *p = NULL;
    bw_cedar_schema *schema = NULL;
    bw_cedar_validation v;
    bw_status s = bw_cedar_schema_parse(ctx, schema_text, &schema);
    if (s == BW_OK)
        s = bw_cedar_policies_parse(ctx, text, &p);
    if (s == BW_OK)
        s = bw_cedar_policies_validate(ctx, p, schema, &options, &v);
    for (size_t i = 0; s == BW_OK && i < v.nfindings; i++) {
        char plain[FINDING_MAX]; /* the policies' own words are in it */
        const char *line = bw_cedar_finding_text(ctx, p, &v.findings[i]);
        if (line)
            bw_cli_plain(line, strlen(line), plain, sizeof plain);
        (void)printf("%s: %s\n", file, line ? plain : "out of memory");
    }
    if (s == BW_OK && v.more)
        (void)printf("%s: and more\n", file);
    if (s == BW_OK && !v.valid)
        s = bw_fail(ctx, BW_EINVALID, "%s does not validate", file);
    bw_cedar_policies_free(p);
    bw_cedar_schema_free(schema);
    return s;
}

/* Words taken from argv[i] on: 0 = none. One digit: no schema of ours chains more. */
static int take_level(int argc, char **argv, int i, int *level)
{
    if (strcmp(argv[i], "--level") != 0 || i + 1 >= argc || argv[i + 1][0] < '0' ||
        argv[i + 1][0] > '9' || argv[i + 1][1])
        return 0;
    *level = argv[i + 1][0] - '0';
    return 2;
}

static int policy_check(int argc, char **argv)
{
    bw_cli_settings set = {0};
    bw_policy_bench b = {0};
    bw_config c;
    bw_str text;
    const char *file = NULL;
    int level = -1;
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&set, argc, argv, i);
        if (n == 0)
            n = take_level(argc, argv, i, &level);
        if (n == 0 && argv[i][0] != '-' && !file) {
            file = argv[i];
            n = 1;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, policy_usage);
        i += n;
    }
    if (!file)
        return bw_cli_missing("policy check", "FILE is", policy_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx && sodium_init() >= 0 ? bw_cli_config(ctx, &set, &c) : BW_ENOMEM;
    if (s == BW_OK)
        s = bw_policy_bench_open(ctx, &c, set.data, &b);
    if (s == BW_OK)
        s = bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text);
    if (s == BW_OK)
        s = print_findings(ctx, b.pack.schema, text, level, file);
    if (s == BW_OK)
        s = bw_policy_bench_try(ctx, &b, text);
    if (s == BW_OK)
        (void)printf("%s: accepted\n", file);
    int code = s == BW_OK ? 0 : bw_cli_fail(ctx, "policy check");
    bw_policy_bench_close(&b);
    bw_ctx_free(ctx);
    return code;
}

int bw_cli_policy(int argc, char **argv)
{
    static struct {
        char name[20]; /* what its messages begin with */
        int (*run)(int argc, char **argv);
    } words[] = {{"policy check", policy_check},
                 {"policy test", bw_cli_policy_test},
                 {"policy replay", bw_cli_policy_replay},
                 {"policy put", bw_cli_policy_put},
                 {"policy packs", bw_cli_packs},
                 {"policy compose", bw_cli_packs},
                 {"policy fmt", bw_cli_policy_fmt},
                 {"policy json", bw_cli_policy_form},
                 {"policy from-json", bw_cli_policy_form}};
    for (size_t i = 0; argc > 1 && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(argv[1], words[i].name + sizeof "policy") == 0 &&
            !(words[i].run == policy_check && bw_cli_help(argc, argv))) {
            argv[1] = words[i].name;
            return words[i].run(argc - 1, argv + 1);
        }
    return bw_cli_help(argc, argv) ? bw_cli_say(policy_usage, sizeof policy_usage - 1)
                                   : bw_cli_usage(policy_usage);
}
