/* policy packs, policy compose: which packs of rules there are, and their text as one
 * set. Needs no cell, no key and no data folder. */
#include "../policies/pack_set.h"
#include "cli.h"
#include "cli_words.h"
#include "files.h"
#include "server.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char packs_usage[] =
    "Usage: bailiwick policy packs [--config FILE | --data DIR] [--set name=value]\n"
    "       bailiwick policy compose NAME… [--config FILE | --data DIR] [--set name=value]\n"
    "packs: the packs and sets of policies.packs, with their date and articles.\n"
    "compose: the text of these packs and sets, fit for PUT /v1/policies and for\n"
    "`policy check`. `policy compose eu-baseline` is what a cell starts with.\n"
    "Every pack is a starting point, no legal advice.\n";

enum { LINE_MAX_BYTES = 4096 };

typedef struct names {
    bw_str items[BW_PACKS_MAX];
    size_t n;
} names;

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

/* Names of the files that end so, without the end, sorted. */
static bw_status list_folder(bw_ctx *ctx, const char *folder, const char *end, names *out)
{
    DIR *d = opendir(folder);
    bw_status s = d ? BW_OK : bw_fail(ctx, BW_EIO, "%s cannot be read", folder);
    out->n = 0;
    for (struct dirent *e; s == BW_OK && (errno = 0, e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name), tail = strlen(end);
        if (n <= tail || e->d_name[0] == '.' || strcmp(e->d_name + n - tail, end) != 0)
            continue;
        if (out->n == BW_PACKS_MAX)
            s = bw_fail(ctx, BW_EINVALID, "%s has more than %d packs", folder,
                        BW_PACKS_MAX);
        else
            s = bw_arena_str(ctx, (bw_str){e->d_name, n - tail}, &out->items[out->n++]);
    }
    if (s == BW_OK && errno != 0)
        s = bw_fail(ctx, BW_EIO, "%s cannot be read", folder);
    if (d)
        (void)closedir(d);
    if (s == BW_OK && out->n > 0)
        qsort(out->items, out->n, sizeof out->items[0], by_bytes);
    return s;
}

/* A pack may be somebody else's; a terminal takes none of its words as orders. */
static void say(bw_buf *b, const char *before, int width, bw_str text)
{
    char plain[LINE_MAX_BYTES];
    bw_cli_plain(text.ptr, text.len, plain, sizeof plain);
    bw_buf_printf(b, "%s%-*s", before, width, plain);
}

static bw_status put_pack(bw_ctx *ctx, const char *folder, bw_str name, bw_buf *b)
{
    bw_pack_info info;
    bw_str text;
    const char *file = bw_arena_printf(ctx, "%s/%.*s.cedar", folder, (int)name.len, name.ptr);
    bw_status s = file ? bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text)
                       : bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = bw_pack_info_read(ctx, name, text, &info);
    if (s != BW_OK)
        return s;
    say(b, "", 20, name);
    say(b, " ", 0, info.date);
    say(b, "  ", 0, info.title);
    say(b, "\n    from: ", 0, info.articles);
    say(b, "\n    leaves out: ", 0, info.leaves_out);
    bw_buf_putc(b, '\n');
    return BW_OK;
}

static bw_status list_packs(bw_ctx *ctx, const char *folder, bw_buf *b)
{
    names *found = bw_arena_alloc(ctx, sizeof *found);
    const char *sets = bw_path_join(ctx, folder, "sets");
    bw_status s = found && sets ? list_folder(ctx, folder, ".cedar", found)
                                : bw_fail_nomem(ctx);
    for (size_t i = 0; s == BW_OK && i < found->n; i++)
        s = put_pack(ctx, folder, found->items[i], b);
    if (s == BW_OK && bw_file_exists(sets))
        s = list_folder(ctx, sets, ".set", found);
    else if (s == BW_OK)
        found->n = 0;
    bw_buf_puts(b, "sets:");
    for (size_t i = 0; s == BW_OK && i < found->n; i++)
        say(b, " ", 0, found->items[i]);
    bw_buf_puts(b, "\nEvery pack is a starting point, no legal advice.\n");
    return s;
}

static bw_status run(bw_ctx *ctx, bw_cli_settings *set, const names *wanted, bool list,
                     bw_buf *b)
{
    bw_config c;
    bw_str text;
    bw_status s = bw_cli_config(ctx, set, &c);
    const char *folder = s == BW_OK ? bw_pack_folder(ctx, &c) : NULL;
    if (s == BW_OK && !folder)
        s = bw_fail(ctx, BW_ENOTFOUND, "no policy packs are installed; set policies.packs");
    if (s == BW_OK && list)
        return list_packs(ctx, folder, b);
    if (s == BW_OK)
        s = bw_pack_compose_in(ctx, folder, wanted->items, wanted->n, &text);
    if (s == BW_OK)
        bw_buf_str(b, text);
    return s;
}

int bw_cli_packs(int argc, char **argv)
{
    static names wanted;
    bw_cli_settings set = {0};
    bw_buf b = {0};
    bool list = strcmp(argv[0], "policy packs") == 0;
    wanted.n = 0;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(packs_usage, sizeof packs_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&set, argc, argv, i);
        if (n == 0 && argv[i][0] != '-' && !list && wanted.n < BW_PACKS_MAX) {
            wanted.items[wanted.n++] = bw_str_c(argv[i]);
            n = 1;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, packs_usage);
        i += n;
    }
    if (!list && wanted.n == 0)
        return bw_cli_missing("policy compose", "NAME is", packs_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx ? run(ctx, &set, &wanted, list, &b) : BW_ENOMEM;
    if (s == BW_OK && b.failed)
        s = bw_fail_nomem(ctx);
    if (s == BW_OK && bw_cli_say(b.ptr, b.len) != 0)
        s = bw_fail(ctx, BW_EIO, "standard output is closed");
    int code = s == BW_OK ? 0 : bw_cli_fail(ctx, list ? "policy packs" : "policy compose");
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
    return code;
}
