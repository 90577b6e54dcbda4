/* The connection table and the reaper.
 *
 * libmicrohttpd's time-out is one of inactivity: a client that drips a byte a second
 * lives on (measured, security.md section 7). The reaper looks at every connection a
 * few times a second and calls shutdown() on those past an absolute deadline:
 *
 *   headers  server.headers_s after accept (the TLS handshake included) or after the
 * first line of a later request body     10 s + what has arrived / server.rate_bytes,
 * at most 600 s write    10 s + the answer's length / server.rate_bytes idle
 * server.idle_s
 *
 * The daemon then sees the end of the stream and closes. An fd cannot be another one's
 * by then: it leaves the table (under the lock) before it is closed. Lock: `lock`
 * guards the list and counts; innermost. */
#include "httpd_conn.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

enum { GRACE_S = 10, BODY_S_MAX = 600, REFUSED_S = 1, REAP_MS = 200 };

struct bw_conn_table {
    bw_server *server;
    bool restrict_peers;
    unsigned char peers[BW_CONFIG_LIST_MAX][16];
    size_t npeers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bw_conn *first;
    uint64_t count;
    bool stop;
    pthread_t reaper;
};

static void address_of(const struct sockaddr *sa, unsigned char out[16])
{
    memset(out, 0, 16);
    if (sa && sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
        out[10] = out[11] = 0xff;
        memcpy(out + 12, &in->sin_addr, 4);
    } else if (sa && sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)sa;
        memcpy(out, &in->sin6_addr, 16);
    }
}

static bool expired(const bw_conn_table *t, const bw_conn *c, uint64_t now)
{
    const bw_config *cfg = &t->server->config;
    uint64_t since = atomic_load_explicit(&c->since_ns, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
    uint64_t allowed = 0;
    switch ((bw_phase)atomic_load_explicit(&c->phase, memory_order_acquire)) {
    case BW_PHASE_RUN:
        return false;
    case BW_PHASE_HEADERS:
        allowed = c->refused ? REFUSED_S : cfg->headers_s;
        break;
    case BW_PHASE_IDLE:
        allowed = cfg->idle_s;
        break;
    case BW_PHASE_BODY:
        allowed = GRACE_S + bytes / cfg->rate_bytes;
        if (allowed > BODY_S_MAX)
            allowed = BODY_S_MAX;
        break;
    case BW_PHASE_WRITE:
        allowed = GRACE_S + bytes / cfg->rate_bytes;
        break;
    }
    return now > since && now - since > allowed * 1000000000u;
}

static void *reap(void *arg)
{
    bw_conn_table *t = arg;
    bw_require(pthread_mutex_lock(&t->lock) == 0);
    while (!t->stop) {
        struct timespec ts;
        uint64_t now = bw_clock_mono_ns();
        for (bw_conn *c = t->first; c; c = c->next) {
            if (!expired(t, c, now))
                continue;
            (void)shutdown(
                c->fd,
                SHUT_RDWR); /* again and again until the daemon lets go: harmless */
            atomic_fetch_add_explicit(&t->server->counters.reaped, 1,
                                      memory_order_relaxed);
        }
        now += (uint64_t)REAP_MS * 1000000u;
        ts = bw_clock_timespec(now);
        (void)pthread_cond_timedwait(&t->wake, &t->lock, &ts);
    }
    bw_require(pthread_mutex_unlock(&t->lock) == 0);
    return NULL;
}

bw_status bw_conn_table_new(bw_ctx *ctx, bw_server *server, bool restrict_peers,
                            bw_conn_table **out)
{
    bw_conn_table *t = bw_calloc(1, sizeof *t);
    pthread_condattr_t attr;
    if (!t)
        return bw_fail_nomem(ctx);
    t->server = server;
    t->restrict_peers = restrict_peers;
    for (size_t i = 0; i < server->config.proxies.n; i++) {
        char text[INET6_ADDRSTRLEN + 1];
        bw_str p = server->config.proxies.items[i];
        struct sockaddr_in in = {.sin_family = AF_INET};
        if (p.len >= sizeof text)
            continue;
        memcpy(text, p.ptr, p.len);
        text[p.len] = '\0';
        if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
            address_of((const struct sockaddr *)(const void *)&in,
                       t->peers[t->npeers++]);
        else if (inet_pton(AF_INET6, text, t->peers[t->npeers]) == 1)
            t->npeers++;
    }
    bw_require(pthread_mutex_init(&t->lock, NULL) == 0 &&
               pthread_condattr_init(&attr) == 0 &&
               pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
               pthread_cond_init(&t->wake, &attr) == 0);
    (void)pthread_condattr_destroy(&attr);
    if (pthread_create(&t->reaper, NULL, reap, t) != 0) {
        bw_free(t);
        return bw_fail(ctx, BW_EUNAVAILABLE, "no thread for the reaper");
    }
    *out = t;
    return BW_OK;
}

void bw_conn_table_free(bw_conn_table *t)
{
    if (!t)
        return;
    bw_require(pthread_mutex_lock(&t->lock) == 0);
    t->stop = true;
    bw_require(pthread_cond_signal(&t->wake) == 0 &&
               pthread_mutex_unlock(&t->lock) == 0);
    (void)pthread_join(t->reaper, NULL);
    bw_require(t->first == NULL);
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->wake);
    bw_free(t);
}

/* Answered here and not by the daemon, so that a flood costs no parsing. Over TLS there
 * is no cheap way to say it: the connection is only shut. */
static void refuse(bw_conn *c, bool tls)
{
    static const char busy[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n";
    c->refused = true;
    if (!tls)
        (void)send(c->fd, busy, sizeof busy - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(c->fd, tls ? SHUT_RDWR : SHUT_WR);
}

bw_conn *bw_conn_add(bw_conn_table *t, int fd, const struct sockaddr *peer, bool tls)
{
    bw_conn *c = bw_calloc(1, sizeof *c);
    uint64_t same = 0;
    bool known = !t->restrict_peers;
    if (!c)
        return NULL;
    c->fd = fd;
    address_of(peer, c->address);
    bw_conn_phase(c, BW_PHASE_HEADERS, 0);
    for (size_t i = 0; i < t->npeers && !known; i++)
        known = memcmp(t->peers[i], c->address, 16) == 0;
    bw_require(pthread_mutex_lock(&t->lock) == 0);
    for (bw_conn *o = t->first; o; o = o->next)
        same += !o->refused && memcmp(o->address, c->address, 16) == 0;
    bool over = t->count >= t->server->config.connections ||
                same >= t->server->config.connections_per_address;
    if (!known || over)
        c->refused = true;
    else
        t->count++;
    c->next = t->first;
    if (t->first)
        t->first->prev = c;
    t->first = c;
    bw_require(pthread_mutex_unlock(&t->lock) == 0);
    if (c->refused) {
        refuse(c, tls || !known);
        atomic_fetch_add_explicit(&t->server->counters.refused_busy, 1,
                                  memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&t->server->counters.connections, 1,
                                  memory_order_relaxed);
    }
    return c;
}

void bw_conn_remove(bw_conn_table *t, bw_conn *c)
{
    if (!c)
        return;
    bw_require(pthread_mutex_lock(&t->lock) == 0);
    if (c->prev)
        c->prev->next = c->next;
    else
        t->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (!c->refused) {
        t->count--;
        atomic_fetch_sub_explicit(&t->server->counters.connections, 1,
                                  memory_order_relaxed);
    }
    bw_require(pthread_mutex_unlock(&t->lock) == 0);
    bw_free(c);
}

void bw_conn_phase(bw_conn *c, bw_phase phase, uint64_t bytes)
{
    atomic_store_explicit(&c->since_ns, bw_clock_mono_ns(), memory_order_relaxed);
    atomic_store_explicit(&c->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&c->phase, (int)phase, memory_order_release);
}
