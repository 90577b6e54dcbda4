/* A small HTTP client of a running cell, for the command line (libcurl).
 *
 * Options every client command shares: --url URL (default http://127.0.0.1:6333),
 * --key-file FILE ("-" = standard input; a key never stands in argv or the
 * environment), --ca FILE (a CA that curl's store lacks). One thread at a time. */
#ifndef BW_CLIENT_H
#define BW_CLIENT_H
#include "../engine/base/json.h"

typedef struct bw_client bw_client;

typedef struct bw_client_options {
    const char *url;      /* NULL = the default */
    const char *key_file; /* NULL = no key is sent */
    const char *ca_file;  /* NULL = the system's */
    const char *purpose;  /* x-bailiwick-purpose, or NULL */
    uint32_t timeout_s;   /* of one call; 0 = 120 */
} bw_client_options;

/* Takes argv[i] when it is one of the shared options (and argv[i + 1]); returns how
 * many words were taken: 0 = not one of them, -1 = its value is missing (said on
 * stderr). */
int bw_client_option(bw_client_options *o, int argc, char **argv, int i);

BW_MUST_USE bw_status bw_client_open(bw_ctx *ctx, const bw_client_options *o,
                                     bw_client **out);
void bw_client_close(bw_client *c); /* wipes the key; NULL is accepted */

/* One call. path begins with '/'; body none = no body. BW_OK whenever an HTTP answer
 * came
 * (*http_status tells which; *answer is its body in ctx's arena); BW_EUNAVAILABLE when
 * none came. */
BW_MUST_USE bw_status bw_client_call(bw_ctx *ctx, bw_client *c, const char *method,
                                     const char *path, bw_str body, int *http_status,
                                     bw_str *answer);
/* A POST with more headers ("Name: value", ended by NULL). */
BW_MUST_USE bw_status bw_client_post(bw_ctx *ctx, bw_client *c, const char *path,
                                     bw_str body, const char *const *headers,
                                     int *http_status, bw_str *answer);
/* The same as bw_client_call with a JSON answer parsed; a status >= 300 is a failure whose message is the
 * cell's own error text (BW_EDENIED for 403 and 451, BW_ENOTFOUND for 404, …). */
BW_MUST_USE bw_status bw_client_json(bw_ctx *ctx, bw_client *c, const char *method,
                                     const char *path, bw_str body,
                                     const bw_json **answer);
/* Percent-encodes one path part or query value; in ctx's arena, NULL when memory is
 * out. */
const char *bw_client_escape(bw_ctx *ctx, bw_str part);
#endif
