/* The HTTP side: libmicrohttpd's threads read and write, our workers run the gate.
 *
 * Thread class: start and stop from one thread; everything else is inside. */
#ifndef BW_HTTPD_H
#define BW_HTTPD_H
#include "server.h"

typedef struct bw_httpd bw_httpd;

/* Listens and serves. On failure nothing is left running. */
BW_MUST_USE bw_status bw_httpd_start(bw_ctx *ctx, bw_server *server, bw_httpd **out);
uint16_t bw_httpd_port(const bw_httpd *h);
const char *bw_httpd_host(const bw_httpd *h);
/* Stops accepting, lets running requests end (server.stop_s), answers 503 to the rest,
 * closes all connections. */
void bw_httpd_stop(bw_httpd *h);
#endif
