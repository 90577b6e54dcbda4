/* serve and config; what the commands share. */
#include "cli.h"
#include "files.h"
#include "harden.h"
#include "httpd.h"
#include "server.h"
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

int bw_cli_say(const char *text, size_t n)
{
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0 ? 0 : 1;
}

int bw_cli_usage(const char *text)
{
    (void)fputs(text, stderr);
    return 2;
}

bool bw_cli_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* A word that is no option is not repeated, nor what follows '=': it may be a key. */
int bw_cli_wrong(int argc, char **argv, int i, int n, const char *usage)
{
    if (n == 0 && argv[i][0] == '-')
        (void)fprintf(stderr, "bailiwick %s: %.*s %s\n\n", argv[0],
                      (int)strcspn(argv[i], "="), argv[i],
                      i + 1 < argc ? "is unknown here, or its value is wrong"
                                   : "is unknown here, or wants a value");
    else if (n == 0)
        (void)fprintf(stderr, "bailiwick %s: word %d is one too many\n\n", argv[0], i);
    return bw_cli_usage(usage);
}

int bw_cli_missing(const char *command, const char *what, const char *usage)
{
    (void)fprintf(stderr, "bailiwick %s: %s missing\n\n", command, what);
    return bw_cli_usage(usage);
}

int bw_cli_fail(bw_ctx *ctx, const char *what)
{
    const char *at = ctx ? bw_ctx_pointer(ctx) : "";
    (void)fprintf(stderr, "bailiwick %s: %s%s%s\n", what, at, at[0] ? ": " : "",
                  ctx ? bw_ctx_message(ctx) : "out of memory");
    return 1;
}

static int override(bw_cli_settings *s, const char *name, const char *value)
{
    if (s->nover == BW_CLI_OVERRIDES_MAX)
        return -1;
    s->over[s->nover++] = (bw_config_override){name, value};
    return 2;
}

int bw_cli_setting(bw_cli_settings *s, int argc, char **argv, int i)
{
    static const char *const known[] = {"--config", "--data", "--set", "--listen"};
    bool ours = false;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        ours = ours || strcmp(argv[i], known[k]) == 0;
    if (!ours)
        return 0;
    if (i + 1 >= argc) {
        (void)fprintf(stderr, "bailiwick: %s wants a value\n", argv[i]);
        return -1;
    }
    char *value = argv[i + 1];
    if (strcmp(argv[i], "--config") == 0) {
        s->config_file = value;
    } else if (strcmp(argv[i], "--data") == 0) {
        s->data = value;
    } else if (strcmp(argv[i], "--listen") == 0) {
        return override(s, "server.listen", value);
    } else {
        char *eq = strchr(value, '=');
        if (!eq) {
            (void)fprintf(stderr, "bailiwick: --set wants name=value\n");
            return -1;
        }
        *eq = '\0';
        return override(s, value, eq + 1);
    }
    return 2;
}

bw_status bw_cli_config(bw_ctx *ctx, bw_cli_settings *s, bw_config *out)
{
    bw_str text = {NULL, 0};
    bw_status st = BW_OK;
    if (s->config_file) {
        st = bw_file_read(ctx, s->config_file, CONFIG_BYTES_MAX, &text);
    } else if (s->data) {
        const char *path = bw_path_join(ctx, s->data, "bailiwick.conf");
        st = path ? bw_file_read(ctx, path, CONFIG_BYTES_MAX, &text)
                  : bw_fail_nomem(ctx);
        if (st == BW_ENOTFOUND)
            st = BW_OK;
    }
    if (st == BW_OK && s->data && s->nover < BW_CLI_OVERRIDES_MAX)
        s->over[s->nover++] = (bw_config_override){"data.folder", s->data};
    if (st == BW_OK)
        st = bw_config_parse(ctx, text, s->over, s->nover, out);
    return st;
}

/* ---- config ---- */

static const char config_usage[] =
    "Usage: bailiwick config [--config FILE | --data DIR] [--set name=value]\n"
    "Prints every setting, what it means and its value.\n";

int bw_cli_show_config(int argc, char **argv)
{
    bw_cli_settings set = {0};
    bw_config config;
    bw_buf b = {0};
    int code = 1;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(config_usage, sizeof config_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&set, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, config_usage);
        i += n;
    }
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx || bw_cli_config(ctx, &set, &config) != BW_OK) {
        code = bw_cli_fail(ctx, "config");
    } else {
        bw_config_print(&config, &b);
        code = b.failed ? 1 : bw_cli_say(b.ptr, b.len);
    }
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
    return code;
}

/* ---- serve ---- */

static const char serve_usage[] =
    "Usage: bailiwick serve --data DIR [--config FILE] [--listen ADDRESS:PORT] [--set "
    "name=value]\n"
    "       bailiwick serve --dev --data DIR [--listen 127.0.0.1:6333]\n"
    "--dev: no keys, no policies, one class; loopback only, for a first look and for "
    "tests.\n"
    "Prints \"listening on ADDRESS:PORT\" once it serves. SIGTERM and SIGINT stop it "
    "gracefully.\n";

/* A handler and not sigwait: libraries start threads before main that block nothing,
 * and a signal that one of them gets must stop the cell as well. sem_post may run in a
 * handler. */
static sem_t stop_asked;

static void on_stop(int sig)
{
    (void)sig;
    (void)sem_post(&stop_asked);
}

static bw_status catch_signals(bw_ctx *ctx)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_stop;
    sa.sa_flags = SA_RESTART;
    if (sem_init(&stop_asked, 0, 0) != 0 || sigaction(SIGTERM, &sa, NULL) != 0 ||
        sigaction(SIGINT, &sa, NULL) != 0)
        return bw_fail(ctx, BW_EINTERNAL, "signals cannot be caught: %s",
                       strerror(errno));
    return BW_OK;
}

static int wait_for_stop(bw_httpd *h)
{
    const char *host = bw_httpd_host(h);
    if (printf(strchr(host, ':') ? "listening on [%s]:%u\n" : "listening on %s:%u\n",
               host, bw_httpd_port(h)) < 0 ||
        fflush(stdout) != 0)
        bw_log(BW_LOG_WARN, "stdout is closed");
    while (sem_wait(&stop_asked) != 0)
        continue; /* interrupted */
    bw_log(BW_LOG_INFO, "stopping");
    return 0;
}

static int serve(bw_ctx *ctx, bw_ctx *home, const bw_config *config)
{
    bw_server *server = NULL;
    bw_httpd *httpd = NULL;
    int code = 0;
    bw_status s = catch_signals(ctx);
    if (s == BW_OK && !config->dev) { /* a mistyped folder, before what is not set in it */
        const char *dir = bw_arena_cstr(ctx, config->data_folder);
        s = dir ? bw_folder_check(ctx, dir, false) : bw_fail_nomem(ctx);
    }
    if (s == BW_OK)
        s = bw_config_check_serve(ctx, config);
    if (s == BW_OK)
        s = bw_server_open(ctx, config, home, &server);
    if (s == BW_OK)
        s = bw_httpd_start(ctx, server, &httpd);
    if (s == BW_OK)
        code = wait_for_stop(httpd);
    else
        code = bw_cli_fail(ctx, "serve");
    bw_httpd_stop(httpd);
    bw_server_close(server);
    return code;
}

int bw_cli_serve(int argc, char **argv)
{
    bw_cli_settings set = {0};
    bw_config config;
    bool dev = false;
    int code = 1;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(serve_usage, sizeof serve_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&set, argc, argv, i);
        if (n == 0 && strcmp(argv[i], "--dev") == 0) {
            dev = true;
            n = 1;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, serve_usage);
        i += n;
    }
    bw_ctx *ctx = bw_ctx_new(0), *home = bw_ctx_new(0);
    if (!ctx || !home) {
        code = bw_cli_fail(NULL, "serve");
    } else if (bw_harden(ctx) != BW_OK) {
        code = bw_cli_fail(ctx, "serve");
    } else if (bw_cli_config(home, &set, &config) != BW_OK) {
        code = bw_cli_fail(home, "serve");
    } else if (config.data_folder.len == 0) {
        code = bw_cli_missing("serve", "--data DIR is", serve_usage);
    } else {
        config.dev = dev;
        code = serve(ctx, home, &config);
    }
    bw_ctx_free(ctx);
    bw_ctx_free(home);
    return code;
}
