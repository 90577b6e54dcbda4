/* A load of one call over kept-alive connections, and what it cost the server.
 *
 *     http_load --port P --pid PID --path /collections/x/points/query [--connections 1]
 *               [--requests 20000] [--warm 1000] [--dim 384] [--key KEY] [--seed 1]
 *               [--method POST] [--body FILE] [--lines FILE] [--payload]
 *
 * One thread, epoll, loopback only. Each connection sends a request, reads its answer
 * to the end, and sends the next, until `requests` were answered: a closed loop. Bodies
 * are 64 queries whose numbers are spelled as Python's client spells an f32 (the
 * shortest decimal of the widened double, up to 17 digits); --body sends a file instead,
 * --lines a file's lines in turn (the first 64).
 * Prints one line of JSON: requests, failures (a status other than 200), seconds, the
 * latencies' 50th and 99th percentile, and the user and system time that process PID
 * took meanwhile, per request (fields 14 and 15 of /proc/PID/stat, so use thousands of
 * requests: a tick is 10 ms). */
#include "engine/base/base.h"
#include "rnd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODIES = 64, CONNECTIONS_MAX = 1024, ANSWER_BYTES = 1 << 20 };

typedef struct options {
    const char *path, *key, *method, *body_file, *lines_file;
    long port, pid, connections, requests, warm, dim, seed;
    bool payload;
} options;

typedef struct client {
    int fd;
    bw_str request;
    size_t sent, got;
    uint64_t begun_ns;
    char *answer;
} client;

typedef struct load {
    options o;
    bw_buf requests[BODIES];
    size_t nbodies;
    client clients[CONNECTIONS_MAX];
    int epoll;
    long started, answered, failed, in_flight, target;
    uint64_t *latencies; /* of the measured ones; NULL while warming */
} load;

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "http_load: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

/* ---- requests ---- */

/* As Python writes a float: the fewest of 15 to 17 digits that read back. */
static void put_double(bw_buf *b, double v)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    bw_buf_puts(b, text);
}

static void put_query(bw_buf *b, const options *o, rnd *r)
{
    bw_buf_puts(b, "{\"query\":{\"nearest\":[");
    for (long i = 0; i < o->dim; i++) {
        if (i)
            bw_buf_putc(b, ',');
        put_double(b, (double)(float)(rnd_gauss(r) * 0.051));
    }
    bw_buf_printf(b, "]},\"limit\":10,\"with_vector\":false,\"with_payload\":%s}",
                  o->payload ? "true" : "false");
}

static void put_file(bw_buf *b, const char *path)
{
    char part[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        bw_buf_put(b, part, n);
    (void)fclose(f);
}

/* The next line of the text without its end; none after the last. */
static bw_str next_line(bw_str *text)
{
    const char *end = text->len ? memchr(text->ptr, '\n', text->len) : NULL;
    const size_t len = end ? (size_t)(end - text->ptr) : text->len;
    const bw_str line = {text->ptr, len};
    text->ptr += len + (end != NULL);
    text->len -= len + (end != NULL);
    return line;
}

static void make_requests(load *l)
{
    rnd r = {(uint64_t)l->o.seed};
    bw_buf lines = {0};
    if (l->o.lines_file)
        put_file(&lines, l->o.lines_file);
    bw_str rest = bw_buf_view(&lines);
    for (size_t i = 0; i < (l->o.body_file ? 1 : BODIES); i++) {
        bw_buf body = {0};
        if (l->o.lines_file && rest.len == 0)
            break;
        l->nbodies++;
        if (l->o.body_file)
            put_file(&body, l->o.body_file);
        else if (l->o.lines_file)
            bw_buf_str(&body, next_line(&rest));
        else
            put_query(&body, &l->o, &r);
        bw_buf_printf(&l->requests[i],
                      "%s %s HTTP/1.1\r\nhost: 127.0.0.1:%ld\r\naccept: */*\r\n"
                      "accept-encoding: gzip, deflate\r\nconnection: keep-alive\r\n"
                      "user-agent: http_load\r\ncontent-type: application/json\r\n",
                      l->o.method, l->o.path, l->o.port);
        if (l->o.key)
            bw_buf_printf(&l->requests[i], "api-key: %s\r\n", l->o.key);
        bw_buf_printf(&l->requests[i], "content-length: %zu\r\n\r\n", body.len);
        bw_buf_str(&l->requests[i], bw_buf_view(&body));
        if (l->requests[i].failed)
            die("memory");
        bw_buf_clear(&body);
    }
    bw_buf_clear(&lines);
    if (l->nbodies == 0)
        die("no lines");
}

/* ---- one connection ---- */

static void connect_one(load *l, client *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)l->o.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->answer = bw_alloc(ANSWER_BYTES + 1);
    if (c->fd < 0 || !c->answer ||
        connect(c->fd, (struct sockaddr *)(void *)&to, sizeof to) != 0)
        die("connect");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0)
        die("epoll");
}

static void write_on(client *c)
{
    while (c->sent < c->request.len) {
        ssize_t n = send(c->fd, c->request.ptr + c->sent, c->request.len - c->sent,
                         MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            die("send");
        c->sent += (size_t)n;
    }
}

static void next_request(load *l, client *c)
{
    if (l->started == l->target)
        return;
    c->request = bw_buf_view(&l->requests[(size_t)l->started % l->nbodies]);
    l->started++;
    l->in_flight++;
    c->sent = c->got = 0;
    c->begun_ns = bw_clock_mono_ns();
    write_on(c);
}

/* Whether the answer is here to its end. */
static bool complete(const client *c)
{
    c->answer[c->got] = '\0';
    const char *end = strstr(c->answer, "\r\n\r\n");
    const char *length = end ? strcasestr(c->answer, "\r\ncontent-length:") : NULL;
    if (!end)
        return false;
    if (!length || length > end)
        die("an answer without a length");
    size_t body = strtoul(length + 17, NULL, 10);
    return c->got >= (size_t)(end + 4 - c->answer) + body;
}

static void read_on(load *l, client *c)
{
    for (;;) {
        ssize_t n = recv(c->fd, c->answer + c->got, ANSWER_BYTES - c->got, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            die("the server closed a connection");
        c->got += (size_t)n;
        if (!complete(c))
            continue;
        if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0) {
            if (l->failed++ == 0)
                fprintf(stderr, "http_load: %.400s\n", c->answer);
        }
        if (l->latencies)
            l->latencies[l->answered] = bw_clock_mono_ns() - c->begun_ns;
        l->answered++;
        l->in_flight--;
        next_request(l, c);
    }
}

static void run(load *l, long requests)
{
    struct epoll_event events[CONNECTIONS_MAX];
    l->started = l->answered = 0;
    l->target = requests;
    for (long i = 0; i < l->o.connections; i++)
        next_request(l, &l->clients[i]);
    while (l->answered < requests) {
        int n = epoll_wait(l->epoll, events, CONNECTIONS_MAX, 60000);
        if (n == 0)
            die("no answer for a minute");
        for (int i = 0; i < n; i++) {
            client *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                write_on(c);
            if (events[i].events & EPOLLIN)
                read_on(l, c);
        }
    }
}

/* ---- figures ---- */

/* User and system time of a process in microseconds; 0 without --pid. */
static void cpu_of(long pid, double *user, double *kernel)
{
    char path[64], text[2048];
    *user = *kernel = 0;
    if (pid <= 0)
        return;
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        die(path);
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 14; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        die("/proc/PID/stat");
    char *next;
    const double tick = 1e6 / (double)sysconf(_SC_CLK_TCK);
    *user = (double)strtoull(p, &next, 10) * tick;
    *kernel = (double)strtoull(next, NULL, 10) * tick;
}

static int cmp_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void measure(load *l)
{
    double user0, kernel0, user1, kernel1;
    size_t n = (size_t)l->o.requests;
    run(l, l->o.warm);
    l->failed = 0;
    l->latencies = bw_calloc(n, sizeof *l->latencies);
    if (!l->latencies)
        die("memory");
    cpu_of(l->o.pid, &user0, &kernel0);
    uint64_t begun = bw_clock_mono_ns();
    run(l, l->o.requests);
    double seconds = (double)(bw_clock_mono_ns() - begun) / 1e9;
    cpu_of(l->o.pid, &user1, &kernel1);
    qsort(l->latencies, n, sizeof *l->latencies, cmp_u64);
    printf("{\"connections\":%ld,\"requests\":%zu,\"failed\":%ld,\"seconds\":%.3f,"
           "\"qps\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"server_user_us\":%.1f,"
           "\"server_system_us\":%.1f,\"server_us\":%.1f}\n",
           l->o.connections, n, l->failed, seconds, (double)n / seconds,
           (double)l->latencies[n / 2] / 1e3, (double)l->latencies[n - 1 - n / 100] / 1e3,
           (user1 - user0) / (double)n, (kernel1 - kernel0) / (double)n,
           (user1 + kernel1 - user0 - kernel0) / (double)n);
    bw_free(l->latencies);
}

static void number(const char *text, long lo, long hi, long *out)
{
    char *end;
    *out = strtol(text, &end, 10);
    if (*end || *out < lo || *out > hi)
        die("a number out of range");
}

static void read_options(int argc, char **argv, options *o)
{
    *o = (options){.path = "/collections/x/points/query",
                   .method = "POST",
                   .connections = 1,
                   .requests = 20000,
                   .warm = 1000,
                   .dim = 384,
                   .seed = 1};
    const struct {
        const char *name;
        const char **text;
        long *value, lo, hi;
    } rows[] = {{"--path", &o->path, NULL, 0, 0},
                {"--key", &o->key, NULL, 0, 0},
                {"--method", &o->method, NULL, 0, 0},
                {"--body", &o->body_file, NULL, 0, 0},
                {"--lines", &o->lines_file, NULL, 0, 0},
                {"--port", NULL, &o->port, 1, 65535},
                {"--pid", NULL, &o->pid, 1, 1 << 30},
                {"--connections", NULL, &o->connections, 1, CONNECTIONS_MAX},
                {"--requests", NULL, &o->requests, 1, 1 << 30},
                {"--warm", NULL, &o->warm, 0, 1 << 30},
                {"--dim", NULL, &o->dim, 1, 65536},
                {"--seed", NULL, &o->seed, 0, 1 << 30}};
    for (int i = 1; i < argc; i++) {
        size_t row = 0, nrows = sizeof rows / sizeof rows[0];
        if (strcmp(argv[i], "--payload") == 0) {
            o->payload = true;
            continue;
        }
        while (row < nrows && strcmp(argv[i], rows[row].name) != 0)
            row++;
        if (row == nrows || i + 1 == argc)
            die(argv[i]);
        i++;
        if (rows[row].text)
            *rows[row].text = argv[i];
        else
            number(argv[i], rows[row].lo, rows[row].hi, rows[row].value);
    }
    if (!o->port)
        die("--port is missing");
}

int main(int argc, char **argv)
{
    static load l;
    read_options(argc, argv, &l.o);
    make_requests(&l);
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l.epoll < 0)
        die("epoll");
    for (long i = 0; i < l.o.connections; i++)
        connect_one(&l, &l.clients[i]);
    measure(&l);
    for (long i = 0; i < l.o.connections; i++) {
        (void)close(l.clients[i].fd);
        bw_free(l.clients[i].answer);
    }
    for (size_t i = 0; i < BODIES; i++)
        bw_buf_clear(&l.requests[i]);
    return l.failed ? 1 : 0;
}
