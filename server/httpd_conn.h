/* Connections and their absolute deadlines. Private to httpd*.c. */
#ifndef BW_HTTPD_CONN_H
#define BW_HTTPD_CONN_H
#include "server.h"
#include <sys/socket.h>

typedef enum bw_phase { /* what the connection is doing; each has its deadline */
                        BW_PHASE_HEADERS, /* from accept, or the first line of a later
                                             request */
                        BW_PHASE_BODY,
                        BW_PHASE_RUN, /* a worker has it: the request's own deadline
                                         rules */
                        BW_PHASE_WRITE,
                        BW_PHASE_IDLE /* kept alive, nothing of the next request yet */
} bw_phase;

typedef struct bw_conn {
    struct bw_conn *prev, *next; /* guarded by the table's lock */
    int fd;
    unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
    bool refused;              /* over a limit or not the proxy: answered and shut */
    _Atomic int phase;
    _Atomic uint64_t since_ns;
    _Atomic uint64_t bytes; /* of the body so far, or of the answer */
} bw_conn;

typedef struct bw_conn_table bw_conn_table;

/* Starts the reaper thread. proxies: only these peers are let in (n = 0: all). */
BW_MUST_USE bw_status bw_conn_table_new(bw_ctx *ctx, bw_server *server,
                                        bool restrict_peers, bw_conn_table **out);
void bw_conn_table_free(bw_conn_table *t); /* after the last connection is gone */
/* NULL when memory is out. A connection over a limit is answered 503 and shut at once.
 */
bw_conn *bw_conn_add(bw_conn_table *t, int fd, const struct sockaddr *peer, bool tls);
void bw_conn_remove(bw_conn_table *t, bw_conn *c); /* before its fd is closed */
void bw_conn_phase(bw_conn *c, bw_phase phase, uint64_t bytes);
#endif
