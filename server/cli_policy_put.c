/* policy put: makes a set the running cell's. Nothing changes unless the cell accepts it and
 * nobody else changed the set in between. */
#include "cli.h"
#include "cli_policy.h"
#include "cli_words.h"
#include "client.h"
#include "files.h"
#include <sodium.h>
#include <stdio.h>

static const char put_usage[] =
    "Usage: bailiwick policy put FILE --url URL --key-file FILE [--ca FILE] [--force]\n"
    "Puts the set in force in a running cell (PUT /v1/policies; the key needs Admin). A set "
    "that does not\n"
    "validate is refused with every finding, and the old one stays.\n"
    "--force: even if this key would lose Admin by it.\n";

static void print_findings(const bw_json *answer)
{
    char line[4096];
    const bw_json *list = bw_json_get(bw_json_get(answer, "error"), "findings");
    for (const bw_json *v = list ? list->child : NULL; v; v = v->next) {
        const bw_json *m = bw_json_get(v, "message");
        if (!m || m->kind != BW_JSON_STRING)
            continue;
        bw_cli_plain(m->str.ptr, m->str.len, line, sizeof line);
        (void)fprintf(stderr, "  %s\n", line);
    }
}

/* The digest in force goes along: who changed the set meanwhile is not overwritten. */
static bw_status put(bw_ctx *ctx, bw_client *client, bw_str text, bool force)
{
    const bw_json *now, *digest;
    bw_buf b = {0};
    bw_str answer;
    bw_json *root;
    int status = 0;
    bw_status s = bw_client_json(ctx, client, "GET", "/v1/policies", (bw_str){NULL, 0}, &now);
    if (s != BW_OK)
        return s;
    digest = bw_json_get(now, "digest");
    bw_buf_puts(&b, "{\"policies\":");
    bw_json_put_str(&b, text);
    bw_json_put_key(&b, "if_digest");
    bw_json_put_str(&b, digest ? digest->str : BW_STR(""));
    bw_buf_printf(&b, ",\"force\":%s}", force ? "true" : "false");
    s = b.failed ? bw_fail_nomem(ctx)
                 : bw_client_call(ctx, client, "PUT", "/v1/policies", bw_buf_view(&b),
                                  &status, &answer);
    bw_buf_clear(&b);
    if (s == BW_OK)
        s = bw_json_parse(ctx, answer, BW_JSON_REQUEST, &root);
    if (s != BW_OK)
        return s;
    if (status >= 300) {
        const bw_json *why = bw_json_get(bw_json_get(root, "error"), "message");
        bw_str m = why && why->kind == BW_JSON_STRING ? why->str : BW_STR("refused");
        print_findings(root);
        return bw_fail(ctx, BW_EINVALID, "refused (%d): %.*s", status,
                       (int)(m.len < 200 ? m.len : 200), m.ptr);
    }
    digest = bw_json_get(root, "digest");
    (void)printf("in force: %.*s\n", digest ? (int)digest->str.len : 0,
                 digest ? digest->str.ptr : "");
    return BW_OK;
}

int bw_cli_policy_put(int argc, char **argv)
{
    bw_client_options o = {0};
    bw_client *client = NULL;
    const char *file = NULL;
    bool force = false;
    bw_str text;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(put_usage, sizeof put_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&o, argc, argv, i);
        if (n == 0 && strcmp(argv[i], "--force") == 0) {
            force = true;
            n = 1;
        } else if (n == 0 && argv[i][0] != '-' && !file) {
            file = argv[i];
            n = 1;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, put_usage);
        i += n;
    }
    if (!file)
        return bw_cli_missing("policy put", "FILE is", put_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx && sodium_init() >= 0
                      ? bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text)
                      : BW_ENOMEM;
    if (s == BW_OK)
        s = bw_client_open(ctx, &o, &client);
    if (s == BW_OK)
        s = put(ctx, client, text, force);
    int code = s == BW_OK ? 0 : bw_cli_fail(ctx, "policy put");
    bw_client_close(client);
    bw_ctx_free(ctx);
    return code;
}
