/* The command line's parts. Private to cli*.c and main.c; ingest and query are the
 * ingest side's (bw_cli_ingest, bw_cli_query). Each returns the process's exit code:
 * 0 done, 1 failed (said on stderr), 2 wrong use. */
#ifndef BW_CLI_H
#define BW_CLI_H
#include "config.h"

enum { BW_CLI_OVERRIDES_MAX = 64 };

typedef struct bw_cli_settings { /* --config, --data, --set, --listen, of commands on a
                                    data folder */
    const char *config_file, *data;
    bw_config_override over[BW_CLI_OVERRIDES_MAX];
    size_t nover;
} bw_cli_settings;

/* Takes argv[i] if it is one of the above; words taken, 0, or -1 (said on stderr). */
int bw_cli_setting(bw_cli_settings *s, int argc, char **argv, int i);
/* Reads --config or DATA/bailiwick.conf, if there is one, and applies the rest. */
BW_MUST_USE bw_status bw_cli_config(bw_ctx *ctx, bw_cli_settings *s, bw_config *out);
int bw_cli_fail(bw_ctx *ctx, const char *what); /* prints ctx's message; 1 */
bool bw_cli_help(int argc, char **argv);        /* is --help or -h among the words? */
/* argv[i] was not taken (n = 0: by nobody; n < 0: said already): names it, then usage on
 * stderr; 2. */
int bw_cli_wrong(int argc, char **argv, int i, int n, const char *usage);
/* What must be given and was not, then usage on stderr; 2. */
int bw_cli_missing(const char *command, const char *what, const char *usage);
int bw_cli_usage(const char *text); /* prints to stderr; 2 */
/* Writes all of text to stdout; 1 when that fails. */
int bw_cli_say(const char *text, size_t n);

int bw_cli_serve(int argc, char **argv);
int bw_cli_init(int argc, char **argv);
int bw_cli_key(int argc, char **argv);
int bw_cli_show_config(int argc, char **argv);
int bw_cli_policy(int argc, char **argv);
int bw_cli_packs(int argc, char **argv); /* policy packs, policy compose */
int bw_cli_catalogue(int argc, char **argv);
int bw_cli_audit(int argc, char **argv);
int bw_cli_doctor(int argc, char **argv);
int bw_cli_ingest(int argc, char **argv);
int bw_cli_query(int argc, char **argv);
int bw_cli_mcp(int argc, char **argv);
int bw_cli_place(int argc, char **argv);
int bw_cli_relabel(int argc, char **argv);
int bw_cli_eval(int argc, char **argv);
int bw_cli_seal(int argc, char **argv);
int bw_cli_explain(int argc, char **argv);
#endif
