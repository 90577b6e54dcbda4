/* libmicrohttpd around the gate.
 *
 *   I/O thread (epoll): first line -> exchange made; headers -> guard, key; body
 * collected; then the connection is suspended and the exchange queued worker:
 * bw_gate_serve, then the connection is resumed I/O thread: the answer is queued, sent,
 * the exchange freed
 *
 * So a slow client never holds a worker and a slow request never holds a socket thread.
 * A short question (a route marked so, a body of at most BRIEF_BODY) is first tried on the
 * I/O thread: the way to a worker and back would cost more than its answer. The attempt
 * ends before it waits for anything or does much (bw_ctx_set_brief), nothing has happened
 * then, and a worker serves the request; the path's next ones go there at once, but for one
 * in BRIEF_SKIP. No answer depends on which thread gave it.
 * What a request held is freed by its worker: giving back the pages of a large one takes
 * milliseconds, in which a socket thread would serve nobody. httpd_pool.c has the workers.
 * Nothing is decided here: framing is guard.c's, keys and routes are the gate's. MHD's
 * POST processor, digest and basic auth are never used (most of its CVEs).
 * The client's discipline level is 2: stricter than RFC 9112's "may".
 * No locks of its own. */
#include "httpd.h"
#include "files.h"
#include "gate.h"
#include "guard.h"
#include "httpd_conn.h"
#include "httpd_pool.h"
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    DISCIPLINE_LEVEL = 2,
    CONNECTION_MEMORY = 32768, /* request line and headers of one connection */
    DRAIN_BYTES_MAX = 1 << 20, /* a refused body up to this is read, so that the client
                                  sees the answer */
    OVERLONG_FACTOR =
        4, /* a body over the limit up to this many times is read and dropped as well */
    LARGE_BODY = 1 << 18, /* bytes: some milliseconds of reading */
    BRIEF_BODY = 1 << 16, /* bytes: some 100 microseconds of reading */
    BRIEF_NS = 300000,    /* how long an I/O thread's other connections may wait for one */
    BRIEF_SKIP = 63,
    PATHS = 256, /* kinds of paths that are told apart, by a hash */
    PEM_BYTES_MAX = 1 << 20
};

typedef enum stage {
    STAGE_NEW,
    STAGE_BODY,
    STAGE_QUEUED,
    STAGE_ANSWER,
    STAGE_SENT
} stage;

typedef struct exchange {  /* one request and its answer */
    bw_job job; /* first: the pool's pointer is ours */
    struct bw_httpd *httpd;
    struct MHD_Connection *connection;
    bw_conn *conn;
    stage at;
    char *target; /* raw, with the query; heap */
    char method[16];
    bw_ctx *ctx;
    bw_guarded headers;
    bw_key_record key;
    bool has_key;
    bw_buf body;
    uint64_t reserved; /* of limits.bodies_bytes */
    int refuse_status; /* for the gate: body too long */
    const char *refuse_text;
    bool drain; /* out is the answer already; the body is read and dropped */
    bool close;
    uint64_t id;
    bw_response out;
} exchange;

struct bw_httpd {
    bw_server *server;
    struct MHD_Daemon *daemon;
    bw_conn_table *conns;
    int listen_fd;
    char host[INET6_ADDRSTRLEN];
    uint16_t port;
    bool tls;
    bw_pool *pool;
    _Atomic uint64_t bodies; /* bytes of request bodies in memory */
    _Atomic uint64_t ids;    /* requests so far */
    unsigned char id_key[crypto_shorthash_KEYBYTES];
    _Atomic int64_t exchanges;
    _Atomic uint8_t skip[PATHS]; /* so many of a path's next requests are not tried */
};

/* ---- answers ---- */

/* A keyed hash of a count: unique enough, and tells nobody how many requests there were. */
static uint64_t next_id(bw_httpd *h)
{
    static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "an id is one hash");
    uint64_t n = atomic_fetch_add_explicit(&h->ids, 1, memory_order_relaxed), id;
    bw_require(crypto_shorthash((unsigned char *)&id, (const unsigned char *)&n,
                                sizeof n, h->id_key) == 0);
    return id;
}

static struct MHD_Response *response_of(exchange *e)
{
    bw_response *o = &e->out;
    if (o->body.failed)
        return NULL;
    size_t n = o->body.len;
    struct MHD_Response *r;
    if (n == 0)
        r = MHD_create_response_empty(MHD_RF_NONE);
    else
        r = MHD_create_response_from_buffer_with_free_callback(n, o->body.ptr, bw_free);
    if (!r)
        return NULL;
    memset(&o->body, 0, sizeof o->body); /* MHD owns the bytes now */
    bool ok = true;
    if (n > 0 || o->content_type)
        ok = MHD_add_response_header(r, "Content-Type",
                                     o->content_type ? o->content_type
                                                     : "application/json") == MHD_YES;
    for (size_t i = 0; i < o->nheaders && ok; i++)
        ok = MHD_add_response_header(r, o->headers[i][0], o->headers[i][1]) == MHD_YES;
    char id[17];
    bw_u64_hex(e->id, id);
    if (ok)
        ok = MHD_add_response_header(r, "x-bailiwick-request-id", id) == MHD_YES;
    if (ok && e->close)
        ok = MHD_add_response_header(r, "Connection", "close") == MHD_YES;
    if (!ok) {
        MHD_destroy_response(r);
        return NULL;
    }
    return r;
}

static enum MHD_Result send_answer(exchange *e)
{
    unsigned status = (unsigned)(e->out.status ? e->out.status : 200);
    uint64_t n = e->out.body.len;
    bw_counters *c = &e->httpd->server->counters;
    struct MHD_Response *r = response_of(e);
    if (!r)
        return MHD_NO; /* memory is out: the connection closes */
    atomic_fetch_add_explicit(&c->by_class[status / 100 < 6 ? status / 100 : 5], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes_out, n, memory_order_relaxed);
    e->at = STAGE_SENT;
    bw_conn_phase(e->conn, BW_PHASE_WRITE, n);
    enum MHD_Result ok = MHD_queue_response(e->connection, status, r);
    MHD_destroy_response(r);
    return ok;
}

static void fail_with(exchange *e, int status, bw_status code, const char *text)
{
    bw_str path = {e->target, strcspn(e->target, "?")};
    bw_error_response(&e->out, bw_error_family(path), status, code, text, "");
}

/* Refuses before the gate: the body, if it is short, is read and dropped first. */
static enum MHD_Result refuse(exchange *e)
{
    bool body = e->headers.chunked || e->headers.content_length > 0;
    if (!body ||
        (e->headers.has_length && e->headers.content_length <= DRAIN_BYTES_MAX)) {
        e->drain = true;
        e->at = STAGE_BODY;
        bw_conn_phase(e->conn, BW_PHASE_BODY, 0);
        return MHD_YES;
    }
    e->close = true;
    return send_answer(e);
}

static enum MHD_Result refuse_and_close(exchange *e, int status, const char *text)
{
    bw_server *s = e->httpd->server;
    atomic_fetch_add_explicit(&s->counters.refused_framing, 1, memory_order_relaxed);
    bw_gate_refused(s, "framing", status);
    fail_with(e, status, BW_EINVALID, text);
    e->close = true;
    return send_answer(e);
}

static enum MHD_Result busy(exchange *e)
{
    atomic_fetch_add_explicit(&e->httpd->server->counters.refused_busy, 1,
                              memory_order_relaxed);
    fail_with(e, 503, BW_EUNAVAILABLE,
              "Service unavailable: the cell is busy or stopping");
    e->out.headers[0][0] = "Retry-After";
    e->out.headers[0][1] = "1";
    e->out.nheaders = 1;
    e->close = true;
    return send_answer(e);
}

/* ---- workers ---- */

/* until_ns: of a brief attempt; 0: none. False: the attempt was cut, nothing has happened. */
static bool run(exchange *e, uint64_t until_ns)
{
    size_t n = strcspn(e->target, "?");
    bw_str query = e->target[n] ? bw_str_c(e->target + n + 1) : BW_STR("");
    bw_gate_input in = {.ctx = e->ctx,
                        .method = bw_str_c(e->method),
                        .path = {e->target, n},
                        .query = query,
                        .body = bw_buf_view(&e->body),
                        .key = e->has_key ? &e->key : NULL,
                        .purpose = e->headers.purpose,
                        .safeguards = e->headers.safeguards,
                        .purpose_twice = e->headers.gate_header_twice,
                        .refuse_status = e->refuse_status,
                        .refuse_text = e->refuse_text,
                        .request_id = e->id,
                        .mcp = &e->headers.mcp};
    bw_ctx_set_trace(e->ctx, e->id);
    if (until_ns)
        return bw_gate_serve_brief(e->httpd->server, &in, until_ns, &e->out);
    bw_gate_serve(e->httpd->server, &in, &e->out);
    return true;
}

static void drop_body(exchange *e);

static void leave(exchange *e)
{
    drop_body(e);
    if (e->out.nheaders == 0) { /* headers may lie in the arena */
        bw_ctx_free(e->ctx);
        e->ctx = NULL;
    }
    e->at = STAGE_ANSWER;
}

static void work(bw_job *job)
{
    exchange *e = (exchange *)(void *)job;
    (void)run(e, 0);
    leave(e);
    MHD_resume_connection(e->connection); /* e is the I/O thread's again */
}

/* Under the pool's lock: before a worker can resume it. */
static void hand_over(bw_job *job)
{
    exchange *e = (exchange *)(void *)job;
    e->at = STAGE_QUEUED;
    bw_conn_phase(e->conn, BW_PHASE_RUN, 0);
    MHD_suspend_connection(e->connection);
}

/* FNV-1a; of two paths with one hash each counts for the other. */
static size_t kind_of(bw_str path)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < path.len; i++)
        hash = (hash ^ (unsigned char)path.ptr[i]) * 16777619u;
    return (hash ^ hash >> 16) % PATHS;
}

/* The requests of one path differ little in what they take. */
static bool answer_here(exchange *e, bw_str path)
{
    bw_httpd *h = e->httpd;
    _Atomic uint8_t *skip = &h->skip[kind_of(path)];
    uint8_t left = atomic_load_explicit(skip, memory_order_relaxed);
    if (left > 0) { /* two at once may count as one: it does not matter */
        atomic_store_explicit(skip, left - 1, memory_order_relaxed);
        return false;
    }
    bw_conn_phase(e->conn, BW_PHASE_RUN, 0);
    if (run(e, bw_clock_mono_ns() + BRIEF_NS)) {
        leave(e);
        atomic_fetch_add_explicit(&h->server->counters.answered_brief, 1,
                                  memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(skip, BRIEF_SKIP, memory_order_relaxed);
    return false;
}

static enum MHD_Result submit(exchange *e)
{
    bw_httpd *h = e->httpd;
    bw_str path = {e->target, strcspn(e->target, "?")};
    bw_gate_work is = bw_gate_work_of(h->server, bw_str_c(e->method), path);
    if (is == BW_WORK_BRIEF && e->body.len <= BRIEF_BODY && !e->refuse_status &&
        answer_here(e, path))
        return send_answer(e);
    e->job.heavy = e->body.len > LARGE_BODY || is == BW_WORK_WRITE;
    return bw_pool_push(h->pool, &e->job, hand_over) ? MHD_YES : busy(e);
}

/* ---- one request's steps in the I/O thread ---- */

typedef struct header_list {
    bw_header items[BW_GUARD_HEADERS_MAX + 1];
    size_t n;
} header_list;

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                   size_t key_size, const char *value,
                                   size_t value_size)
{
    header_list *l = cls;
    (void)kind;
    if (l->n == BW_GUARD_HEADERS_MAX + 1)
        return MHD_NO;
    l->items[l->n++] = (bw_header){{key, key_size}, {value ? value : "", value_size}};
    return MHD_YES;
}

static bool keep(exchange *e, bw_str *s)
{
    return !s->ptr || bw_arena_str(e->ctx, *s, s) == BW_OK;
}

static enum MHD_Result begin(exchange *e, const char *method, const char *version)
{
    bw_server *s = e->httpd->server;
    header_list list = {.n = 0};
    const char *why = "";
    atomic_fetch_add_explicit(&s->counters.requests, 1, memory_order_relaxed);
    e->ctx = bw_ctx_new(s->config.arena_bytes);
    if (!e->ctx)
        return MHD_NO;
    e->id = next_id(e->httpd);
    memcpy(e->method, method, strnlen(method, sizeof e->method - 1)); /* zeroed before */
    (void)MHD_get_connection_values_n(e->connection, MHD_HEADER_KIND, take_header,
                                      &list);
    int status = bw_guard_check(list.items, list.n, bw_str_c(version),
                                bw_str_c(e->target), s->config.dev, &e->headers, &why);
    if (status == 0 && strlen(method) >= sizeof e->method)
        status = 400;
    if (status != 0)
        return refuse_and_close(e, status, why);
    /* The worker reads these while MHD may reuse its buffer: copies. */
    bw_mcp_headers *m = &e->headers.mcp;
    if (!keep(e, &e->headers.purpose) || !keep(e, &e->headers.safeguards) ||
        !keep(e, &m->origin) || !keep(e, &m->version) || !keep(e, &m->method) ||
        !keep(e, &m->name))
        return MHD_NO;
    if (atomic_load_explicit(&s->stopping, memory_order_relaxed))
        return busy(e);
    bw_str path = {e->target, strcspn(e->target, "?")};
    if (!s->config.dev && !bw_gate_is_open(s, bw_str_c(e->method), path)) {
        e->has_key = bw_gate_authenticate(s, e->ctx, e->headers.api_key,
                                          e->headers.authorization, &e->key, &e->out);
        if (!e->has_key) {
            atomic_fetch_add_explicit(&s->counters.refused_key, 1,
                                      memory_order_relaxed);
            bw_gate_refused(s, "key", 401);
            return refuse(e);
        }
    }
    if (e->headers.has_length && e->headers.content_length > s->config.body_bytes) {
        e->refuse_status = bw_error_family(path) == BW_FAMILY_QDRANT ? 400 : 413;
        e->refuse_text = "Payload too large: the body is over the limit";
        if (e->headers.content_length > OVERLONG_FACTOR * s->config.body_bytes) {
            e->close = true;
            return submit(
                e); /* through the gate: it is recorded; the body is never read */
        }
    }
    e->at = STAGE_BODY;
    bw_conn_phase(e->conn, BW_PHASE_BODY, 0);
    return MHD_YES;
}

/* What it took of limits.bodies_bytes is there for others at once, not when its client
 * has sent the rest. */
static void drop_body(exchange *e)
{
    bw_buf_clear(&e->body);
    atomic_fetch_sub_explicit(&e->httpd->bodies, e->reserved, memory_order_relaxed);
    e->reserved = 0;
}

static enum MHD_Result take_body(exchange *e, const char *data, size_t *size)
{
    bw_httpd *h = e->httpd;
    const bw_config *c = &h->server->config;
    size_t n = *size;
    *size = 0;
    atomic_fetch_add_explicit(&e->conn->bytes, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->server->counters.bytes_in, n, memory_order_relaxed);
    if (e->drain || e->refuse_status)
        return atomic_load_explicit(&e->conn->bytes, memory_order_relaxed) >
                       OVERLONG_FACTOR * c->body_bytes
                   ? MHD_NO
                   : MHD_YES;
    if (n > c->body_bytes - e->body.len) { /* chunked: its length is known only now */
        e->refuse_status =
            bw_error_family((bw_str){e->target, strcspn(e->target, "?")}) ==
                    BW_FAMILY_QDRANT
                ? 400
                : 413;
        e->refuse_text = "Payload too large: the body is over the limit";
        e->close = true;
        drop_body(e);
        return MHD_YES;
    }
    uint64_t before = atomic_fetch_add_explicit(&h->bodies, n, memory_order_relaxed);
    e->reserved += n;
    if (before + n > c->bodies_bytes) {
        fail_with(e, 503, BW_EUNAVAILABLE,
                  "Service unavailable: too many bodies at once");
        e->drain = true;
        e->close = true;
        drop_body(e);
        return MHD_YES;
    }
    if (e->body.len == 0 && e->headers.has_length && e->headers.content_length > n) {
        /* One allocation for a body of stated length, once its first bytes are there.
         */
        char *p = e->headers.content_length > 65536
                      ? NULL
                      : bw_alloc((size_t)e->headers.content_length);
        if (p) {
            e->body.ptr = p;
            e->body.cap = (size_t)e->headers.content_length;
        }
    }
    bw_buf_put(&e->body, data, n);
    return e->body.failed ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection,
                                 const char *url, const char *method,
                                 const char *version, const char *upload_data,
                                 size_t *upload_data_size, void **req_cls)
{
    exchange *e = *req_cls;
    (void)cls;
    (void)url;
    (void)connection;
    if (!e || e->conn->refused)
        return MHD_NO;
    switch (e->at) {
    case STAGE_NEW:
        return begin(e, method, version);
    case STAGE_BODY:
        if (*upload_data_size > 0)
            return take_body(e, upload_data, upload_data_size);
        return e->drain ? send_answer(e) : submit(e);
    case STAGE_ANSWER:
        return send_answer(e);
    case STAGE_QUEUED:
    case STAGE_SENT:
        break;
    }
    return MHD_NO;
}

/* Called when the first line is there: the exchange begins, with the raw target. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *connection)
{
    bw_httpd *h = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    bw_conn *conn = info ? info->socket_context : NULL;
    size_t n = strlen(uri) + 1;
    exchange *e = conn ? bw_calloc(1, sizeof *e) : NULL;
    char *target = bw_alloc(n);
    if (!e || !target) {
        bw_free(e);
        bw_free(target);
        return NULL;
    }
    memcpy(target, uri, n);
    e->target = target;
    e->httpd = h;
    e->connection = connection;
    e->conn = conn;
    if (atomic_load_explicit(&conn->phase, memory_order_relaxed) == BW_PHASE_IDLE)
        bw_conn_phase(conn, BW_PHASE_HEADERS, 0);
    atomic_fetch_add_explicit(&h->exchanges, 1, memory_order_relaxed);
    return e;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **req_cls,
                         enum MHD_RequestTerminationCode toe)
{
    bw_httpd *h = cls;
    exchange *e = *req_cls;
    (void)connection;
    (void)toe;
    if (!e)
        return;
    *req_cls = NULL;
    bw_conn_phase(e->conn, BW_PHASE_IDLE, 0);
    drop_body(e);
    sodium_memzero(&e->headers, sizeof e->headers);
    bw_buf_clear(&e->out.body);
    bw_ctx_free(e->ctx);
    bw_free(e->target);
    bw_free(e);
    atomic_fetch_sub_explicit(&h->exchanges, 1, memory_order_relaxed);
}

static void on_connection(void *cls, struct MHD_Connection *connection,
                          void **socket_context,
                          enum MHD_ConnectionNotificationCode toe)
{
    bw_httpd *h = cls;
    if (toe == MHD_CONNECTION_NOTIFY_CLOSED) {
        bw_conn_remove(h->conns, *socket_context);
        *socket_context = NULL;
        return;
    }
    /* Each call returns the same storage of the connection: take the value before the
     * next. */
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int fd = info ? info->connect_fd : -1;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (fd >= 0)
        *socket_context =
            bw_conn_add(h->conns, fd, info ? info->client_addr : NULL, h->tls);
}

/* Targets are decoded by uri.c, from the raw text: MHD leaves them as they came. */
static size_t on_unescape(void *cls, struct MHD_Connection *connection, char *s)
{
    (void)cls;
    (void)connection;
    return strlen(s);
}

/* ---- start and stop ---- */

static bw_status listen_on(bw_ctx *ctx, bw_httpd *h)
{
    struct sockaddr_storage sa;
    socklen_t len;
    const char *host;
    bool loopback;
    int on = 1;
    bw_status s =
        bw_listen_parse(ctx, h->server->config.listen, &host, &h->port, &loopback);
    if (s != BW_OK)
        return s;
    memset(&sa, 0, sizeof sa);
    (void)snprintf(h->host, sizeof h->host, "%s", host);
    if (strchr(host, ':')) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)(void *)&sa;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(h->port);
        (void)inet_pton(AF_INET6, host, &in->sin6_addr);
        len = sizeof *in;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)&sa;
        in->sin_family = AF_INET;
        in->sin_port = htons(h->port);
        (void)inet_pton(AF_INET, host, &in->sin_addr);
        len = sizeof *in;
    }
    h->listen_fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->listen_fd < 0)
        return bw_fail(ctx, BW_EIO, "no socket: %s", strerror(errno));
    (void)setsockopt(h->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(h->listen_fd, (struct sockaddr *)&sa, len) != 0 ||
        listen(h->listen_fd, 1024) != 0 ||
        getsockname(h->listen_fd, (struct sockaddr *)&sa, &len) != 0)
        return bw_fail(ctx, BW_EUNAVAILABLE, "cannot listen on %s port %u: %s", h->host,
                       h->port, strerror(errno));
    h->port =
        ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&sa)->sin6_port
                                       : ((struct sockaddr_in *)(void *)&sa)->sin_port);
    return BW_OK;
}

/* The private key's PEM in locked-away memory; the caller frees it (sodium_free wipes).
 */
static bw_status read_tls_key(bw_ctx *ctx, const char *path, char **out)
{
    struct stat st;
    bw_str text;
    if (stat(path, &st) == 0 && (st.st_mode & 077) != 0)
        return bw_fail(ctx, BW_EINVALID,
                       "server.tls_key must be readable by its owner only");
    bw_status s = bw_file_read(ctx, path, PEM_BYTES_MAX, &text);
    if (s != BW_OK)
        return s;
    *out = sodium_malloc(text.len + 1);
    if (!*out)
        return bw_fail_nomem(ctx);
    memcpy(*out, text.ptr, text.len + 1);
    sodium_memzero((void *)(uintptr_t)text.ptr, text.len);
    return BW_OK;
}

static void mhd_log(void *cls, const char *fm, va_list ap)
    __attribute__((format(printf, 2, 0)));
static void mhd_log(void *cls, const char *fm, va_list ap)
{
    char line[400];
    (void)cls;
    int n = vsnprintf(line, sizeof line, fm, ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    while (len > 0 && line[len - 1] == '\n')
        line[--len] = '\0';
    bw_log(BW_LOG_DEBUG, "http: %s", line);
}

static bw_status daemon_start(bw_ctx *ctx, bw_httpd *h)
{
    const bw_config *c = &h->server->config;
    char *key = NULL;
    bw_str cert = {NULL, 0};
    bw_status s = BW_OK;
    const unsigned io_threads = (unsigned)bw_io_threads(c);
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (h->tls) {
        const char *cert_path = bw_arena_cstr(ctx, c->tls_cert),
                   *key_path = bw_arena_cstr(ctx, c->tls_key);
        if (!cert_path || !key_path)
            return bw_fail_nomem(ctx);
        flags |= MHD_USE_TLS;
        s = bw_file_read(ctx, cert_path, PEM_BYTES_MAX, &cert);
        if (s == BW_OK)
            s = read_tls_key(ctx, key_path, &key);
        if (s != BW_OK)
            return s;
    }
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert.ptr},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0,
         (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    h->daemon = MHD_start_daemon(
        flags, h->port, NULL, NULL, on_access, h, MHD_OPTION_EXTERNAL_LOGGER, mhd_log,
        NULL, MHD_OPTION_LISTEN_SOCKET, h->listen_fd, MHD_OPTION_CLIENT_DISCIPLINE_LVL,
        (int)DISCIPLINE_LEVEL, MHD_OPTION_THREAD_POOL_SIZE, io_threads,
        MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(c->connections + bw_conn_slack(c) * io_threads),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(c->idle_s + c->headers_s),
        MHD_OPTION_URI_LOG_CALLBACK, on_target, h, MHD_OPTION_UNESCAPE_CALLBACK,
        on_unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_ARRAY,
        h->tls ? tls : none, MHD_OPTION_END);
    sodium_free(key);
    if (!h->daemon)
        return bw_fail(ctx, BW_EUNAVAILABLE,
                       h->tls ? "HTTPS does not start: are certificate and key right?"
                              : "HTTP does not start");
    h->listen_fd = -1; /* the daemon closes it */
    return BW_OK;
}

static void httpd_free(bw_httpd *h)
{
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    bw_conn_table_free(h->conns);
    if (h->listen_fd >= 0)
        (void)close(h->listen_fd);
    bw_pool_free(h->pool);
    bw_free(h);
}

bw_status bw_httpd_start(bw_ctx *ctx, bw_server *server, bw_httpd **out)
{
    bw_httpd *h = bw_calloc(1, sizeof *h);
    const char *host;
    uint16_t port;
    bool loopback = false;
    if (!h)
        return bw_fail_nomem(ctx);
    h->server = server;
    h->listen_fd = -1;
    h->tls = server->config.tls_cert.len > 0;
    randombytes_buf(h->id_key, sizeof h->id_key);
    bw_status s = bw_config_check_serve(ctx, &server->config);
    if (s == BW_OK)
        s = bw_listen_parse(ctx, server->config.listen, &host, &port, &loopback);
    if (s == BW_OK)
        s = listen_on(ctx, h);
    if (s == BW_OK)
        s = bw_conn_table_new(ctx, server, !loopback && !h->tls, &h->conns);
    if (s == BW_OK)
        s = bw_pool_new(ctx, (size_t)server->config.workers, work, &h->pool);
    if (s == BW_OK)
        s = daemon_start(ctx, h);
    if (s != BW_OK) {
        if (h->pool)
            bw_pool_close(h->pool);
        httpd_free(h);
        return s;
    }
    *out = h;
    return BW_OK;
}

uint16_t bw_httpd_port(const bw_httpd *h)
{
    return h->port;
}

const char *bw_httpd_host(const bw_httpd *h)
{
    return h->host;
}

static void sleep_ms(unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&ts, NULL);
}

void bw_httpd_stop(bw_httpd *h)
{
    if (!h)
        return;
    uint64_t until = bw_clock_mono_ns() + h->server->config.stop_s * 1000000000u;
    atomic_store_explicit(&h->server->stopping, true, memory_order_relaxed);
    MHD_socket fd = MHD_quiesce_daemon(h->daemon);
    if (fd != MHD_INVALID_SOCKET)
        (void)close(fd);
    /* Requests whose bytes are all here get their answer; later ones get a 503. */
    while (atomic_load_explicit(&h->exchanges, memory_order_relaxed) > 0 &&
           bw_clock_mono_ns() < until) {
        bool idle = bw_pool_idle(h->pool);
        sleep_ms(idle ? 20 : 5);
        if (idle && until > bw_clock_mono_ns() + 2000000000u)
            until = bw_clock_mono_ns() + 2000000000u; /* only slow clients are left */
    }
    bw_pool_close(h->pool); /* empties the queue: every suspended connection is resumed */
    httpd_free(h);
}
