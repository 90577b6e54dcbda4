/* bailiwick seal: after a bulk load, waits until a collection's graphs serve, however often
 * the cell's deadline of one request (server.request_s) passes meanwhile. Exit code: 0 done,
 * 1 failed or refused, 2 wrong use. */
#include "cli.h"
#include "client.h"
#include "harden.h"
#include <stdio.h>

static const char usage[] =
    "Usage: bailiwick seal --collection C [--url URL] [--key-file FILE] [--ca FILE]\n"
    "Makes the points of every class that the key sees one segment with its index, and\n"
    "waits for it, however long that takes; what has begun goes on if this command is\n"
    "stopped. Reads and writes go on meanwhile. Needs the right to manage the collection.\n"
    "Exit code: 0 done, 1 failed or refused, 2 wrong use.\n";

/* Asks until the answer is another one than 408, which says that the cell's deadline passed
 * and the graphs are still being built: the next request waits for the rest. */
static bw_status ask_until_sealed(bw_ctx *ctx, bw_client *client, const char *path)
{
    const bw_json *answer;
    bw_status s;
    while ((s = bw_client_json(ctx, client, "POST", path, BW_STR("{}"), &answer)) ==
           BW_ETIMEOUT)
        fprintf(stderr, "seal: the graphs are still being built; waiting on\n");
    return s;
}

int bw_cli_seal(int argc, char **argv)
{
    bw_client_options connect = {.timeout_s = 3600}; /* the cell's own deadline decides */
    bw_client *client = NULL;
    const char *collection = NULL, *path;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&connect, argc, argv, i);
        if (n == 0 && i + 1 < argc && strcmp(argv[i], "--collection") == 0) {
            collection = argv[i + 1];
            n = 2;
        }
        if (n < 0)
            return 2;
        if (n == 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (!collection || strpbrk(collection, "/?#%"))
        return bw_cli_missing("seal", "--collection is", usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx ? bw_harden(ctx) : BW_ENOMEM;
    if (!s)
        s = bw_client_open(ctx, &connect, &client);
    path = s ? NULL : bw_arena_printf(ctx, "/v1/collections/%s/seal", collection);
    if (!s)
        s = path ? ask_until_sealed(ctx, client, path) : BW_ENOMEM;
    int code = s ? bw_cli_fail(ctx, "seal") : bw_cli_say("sealed\n", 7);
    bw_client_close(client);
    bw_ctx_free(ctx);
    return code;
}
