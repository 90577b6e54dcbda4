/* policy fmt, policy json, policy from-json: Cedar policies laid out, and in their
 * other form. Needs no cell, no key and no data folder. */
#include "cli.h"
#include "cli_policy.h"
#include "files.h"
#include <stdio.h>
#include <sys/stat.h>

static const char fmt_usage[] =
    "Usage: bailiwick policy fmt [--check | --stdout] FILE…\n"
    "Lays out Cedar policies anew, in place: only white space changes, comments stay "
    "where\n"
    "they are. Files that do not parse are left alone; exit status 1.\n"
    "--check: changes nothing, names the files that would change; exit status 1 if "
    "any.\n"
    "--stdout: changes nothing, prints the result.\n";
static const char form_usage[] =
    "Usage: bailiwick policy json FILE.cedar\n"
    "       bailiwick policy from-json FILE.json\n"
    "json: prints the JSON form of Cedar policies (staticPolicies, templates, "
    "templateLinks).\n"
    "from-json: prints the Cedar text of that form. Text has no ids and no links: an "
    "id "
    "becomes a\n"
    "comment, a link the policy that it is.\n";

typedef struct fmt {
    bool check, print;
    size_t changed, failed;
} fmt;

/* On stderr, with what it is about. */
static void say_failure(bw_ctx *ctx, const char *command, const char *file)
{
    (void)fprintf(stderr, "bailiwick %s: %s: %s%s%s\n", command, file,
                  bw_ctx_pointer(ctx), bw_ctx_pointer(ctx)[0] ? ": " : "",
                  bw_ctx_message(ctx));
}

/* Writes the new layout over the file, whose mode stays. */
static bw_status replace(bw_ctx *ctx, const char *file, bw_str text)
{
    struct stat st;
    if (stat(file, &st) != 0)
        return bw_fail(ctx, BW_EIO, "cannot be read");
    return bw_file_replace(ctx, file, text, st.st_mode & 0777);
}

static void fmt_file(fmt *f, const char *file)
{
    bw_buf b = {0};
    bw_str text;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s =
        ctx ? bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text) : BW_ENOMEM;
    if (s == BW_OK)
        s = bw_cedar_policies_format(ctx, text, &b);
    bool changes = s == BW_OK && !bw_str_eq(text, bw_buf_view(&b));
    f->changed += changes;
    if (s == BW_OK && f->print && bw_cli_say(b.ptr ? b.ptr : "", b.len) != 0)
        s = bw_fail(ctx, BW_EIO, "standard output is closed");
    else if (changes && f->check)
        (void)printf("%s\n", file);
    else if (changes && !f->print)
        s = replace(ctx, file, bw_buf_view(&b));
    if (s != BW_OK) {
        f->failed++;
        if (ctx)
            say_failure(ctx, "policy fmt", file);
    }
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
}

int bw_cli_policy_fmt(int argc, char **argv)
{
    fmt f = {0};
    int first = 1;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(fmt_usage, sizeof fmt_usage - 1);
    for (; first < argc && argv[first][0] == '-'; first++) {
        bool check = strcmp(argv[first], "--check") == 0;
        if ((!check && strcmp(argv[first], "--stdout") != 0) ||
            (check ? f.print : f.check))
            return bw_cli_wrong(argc, argv, first, 0, fmt_usage);
        *(check ? &f.check : &f.print) = true;
    }
    if (first == argc)
        return bw_cli_missing("policy fmt", "FILE is", fmt_usage);
    for (int i = first; i < argc; i++)
        fmt_file(&f, argv[i]);
    return f.failed || (f.check && f.changed) ? 1 : 0;
}

int bw_cli_policy_form(int argc, char **argv)
{
    bool to_json = strcmp(argv[0], "policy json") == 0;
    bw_cedar_policies *p = NULL;
    bw_buf b = {0};
    bw_str text;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(form_usage, sizeof form_usage - 1);
    if (argc < 2)
        return bw_cli_missing(argv[0], "FILE is",
                              form_usage);
    if (argc > 2 || argv[1][0] == '-')
        return bw_cli_wrong(argc, argv, argc > 2 ? 2 : 1, 0, form_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s =
        ctx ? bw_file_read(ctx, argv[1], BW_POLICIES_BYTES_MAX, &text) : BW_ENOMEM;
    if (s == BW_OK)
        s = to_json ? bw_cedar_policies_parse(ctx, text, &p)
                    : bw_cedar_policies_parse_json(ctx, text, &p);
    if (s == BW_OK)
        s = to_json ? bw_cedar_policies_write_json(ctx, p, &b)
                    : bw_cedar_policies_write(ctx, p, &b);
    if (s == BW_OK && to_json)
        bw_buf_putc(&b, '\n');
    if (s == BW_OK && b.failed)
        s = bw_fail_nomem(ctx);
    if (s == BW_OK && bw_cli_say(b.ptr ? b.ptr : "", b.len) != 0)
        s = bw_fail(ctx, BW_EIO, "standard output is closed");
    if (s != BW_OK && ctx)
        say_failure(ctx, argv[0], argv[1]);
    bw_cedar_policies_free(p);
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
    return s == BW_OK ? 0 : 1;
}
