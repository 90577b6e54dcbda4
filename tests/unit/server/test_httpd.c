/* The HTTP side with handlers of ours and real sockets on loopback: who waits for whom.
 * Nothing is timed; a handler is held until the test lets it go. */
#include <server/files.h>
#include <server/httpd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 4, SOON_S = 60 };

typedef struct fixture {
    bw_ctx *ctx;
    bw_server server;
    bw_httpd *httpd;
    char dir[64];
} fixture;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held;
static int inside, inside_most, done; /* of the handler that is held */

static bw_status hold(bw_request *r, bw_response *out)
{
    pthread_mutex_lock(&lock);
    inside++;
    inside_most = inside > inside_most ? inside : inside_most;
    pthread_cond_broadcast(&changed);
    while (held)
        pthread_cond_wait(&changed, &lock);
    inside--;
    done++;
    pthread_mutex_unlock(&lock);
    bw_json_put_u64(&out->body, r->body.len);
    return BW_OK;
}

static bw_status echo(bw_request *r, bw_response *out)
{
    bw_buf_str(&out->body, r->body);
    return BW_OK;
}

static bw_status headed(bw_request *r, bw_response *out)
{
    out->headers[0][0] = "X-Mine";
    out->headers[0][1] = bw_arena_printf(r->ctx, "%s", "in the arena");
    out->nheaders = 1;
    bw_buf_puts(&out->body, "1");
    return BW_OK;
}

/* Brief where the body does not want it to wait. */
static bw_status may_hold(bw_request *r, bw_response *out)
{
    if (!bw_str_is(r->body, "wait"))
        return echo(r, out);
    bw_status st = bw_ctx_may_wait(r->ctx);
    return st == BW_OK ? hold(r, out) : st;
}

static const bw_route routes[] = {
    {"PUT", "/c/{}/points", hold, BW_ROUTE_KEY, BW_ACTION_STORE, BW_FAMILY_QDRANT, true, false},
    {"POST", "/c/{}/points/delete", hold, BW_ROUTE_KEY, BW_ACTION_STORE,
     BW_FAMILY_QDRANT, true, false},
    {"POST", "/c/{}/points/query", echo, BW_ROUTE_KEY, BW_ACTION_QUERY,
     BW_FAMILY_QDRANT, false, false},
    {"POST", "/c/{}/brief", may_hold, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT,
     false, true},
    {"POST", "/c/{}/held", hold, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
    {"GET", "/c/{}", headed, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_QDRANT, false, false},
    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1, false, false},
};

static int setup(void **state)
{
    static const bw_config_override over[] = {{"server.workers", "4"},
                                              {"server.listen", "127.0.0.1:0"}};
    fixture *f = calloc(1, sizeof *f);
    bw_server *s = &f->server;
    bw_log_set_level(BW_LOG_ERROR);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-httpd-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(bw_audit_open(f->ctx, f->dir, 1 << 20, &s->audit), BW_OK);
    assert_int_equal(bw_config_parse(f->ctx, BW_STR(""), over, 2, &s->config), BW_OK);
    s->config.dev = true;
    s->dev_caller = (bw_caller){
        .principal = {.id = BW_STR("dev"), .tenant = BW_STR("dev")}, .open = true};
    s->tables[0] = routes;
    held = true;
    inside = inside_most = done = 0;
    assert_int_equal(bw_httpd_start(f->ctx, s, &f->httpd), BW_OK);
    *state = f;
    return 0;
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    held = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int teardown(void **state)
{
    fixture *f = *state;
    let_go();
    bw_httpd_stop(f->httpd);
    bw_audit_close(f->server.audit);
    (void)unlink(bw_path_join(f->ctx, f->dir, "00000001.jsonl"));
    (void)rmdir(f->dir);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

/* ---- a client ---- */

static int dial(const fixture *f)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(bw_httpd_port(f->httpd)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval soon = {SOON_S, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *method, const char *path, const char *body, size_t n)
{
    char head[256];
    int len = snprintf(head, sizeof head,
                       "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n",
                       method, path, n);
    assert_int_equal(send(fd, head, (size_t)len, MSG_NOSIGNAL), len);
    while (n > 0) {
        ssize_t sent = send(fd, body, n, MSG_NOSIGNAL);
        assert_true(sent > 0);
        body += sent;
        n -= (size_t)sent;
    }
}

/* One answer; its status; the text stays in `text`. */
static int hear(int fd, char *text, size_t cap)
{
    size_t got = 0, want = 0;
    do {
        ssize_t n = recv(fd, text + got, want ? want - got : 1, 0);
        assert_true(n > 0); /* 0 or an error: no answer within SOON_S */
        got += (size_t)n;
        assert_true(got < cap);
        text[got] = '\0';
        if (!want && got >= 4 && memcmp(text + got - 4, "\r\n\r\n", 4) == 0) {
            const char *length = strcasestr(text, "content-length:");
            assert_non_null(length);
            want = got + strtoul(length + 15, NULL, 10);
        }
    } while (!want || got < want);
    return (int)strtol(text + 9, NULL, 10);
}

static void wait_inside(int n)
{
    pthread_mutex_lock(&lock);
    while (inside < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* More writes than there are workers are held; queries are answered all the same, on a
 * kept-alive connection and on fresh ones; and every write is answered in the end. */
static void test_httpd__held_writes_hold_no_query(void **state)
{
    enum { WRITES = 12, QUERIES = 40 };
    fixture *f = *state;
    int writers[WRITES], reader = dial(f);
    char text[4096];
    for (int i = 0; i < WRITES; i++) {
        writers[i] = dial(f);
        if (i & 1)
            say(writers[i], "POST", "/c/x/points/delete", "{}", 2);
        else
            say(writers[i], "PUT", "/c/x/points?wait=true", "{}", 2);
    }
    wait_inside(WORKERS / 2);
    for (int i = 0; i < QUERIES; i++) {
        int fd = i & 1 ? dial(f) : reader;
        say(fd, "POST", "/c/x/points/query", "{\"q\":1}", 7);
        assert_int_equal(hear(fd, text, sizeof text), 200);
        assert_non_null(strstr(text, "{\"q\":1}"));
        if (fd != reader)
            close(fd);
    }
    pthread_mutex_lock(&lock);
    assert_int_equal(inside_most, WORKERS / 2);
    assert_int_equal(done, 0);
    pthread_mutex_unlock(&lock);
    let_go();
    for (int i = 0; i < WRITES; i++) {
        assert_int_equal(hear(writers[i], text, sizeof text), 200);
        close(writers[i]);
    }
    assert_int_equal(done, WRITES);
    assert_true(inside_most <= WORKERS / 2);
    close(reader);
}

/* A body over 256 KiB counts as heavy whatever its route; so does an escaped path. */
static void test_httpd__large_bodies_hold_no_query(void **state)
{
    enum { LARGE = 300000, N = 6 };
    fixture *f = *state;
    int fds[N], reader = dial(f);
    char text[4096], *body = malloc(LARGE);
    assert_non_null(body);
    memset(body, ' ', LARGE);
    for (int i = 0; i < N; i++) {
        fds[i] = dial(f);
        if (i & 1)
            say(fds[i], "POST", "/c/x/held", body, LARGE);
        else
            say(fds[i], "POST", "/c/x/h%65ld", "{}", 2);
    }
    wait_inside(WORKERS / 2);
    for (int i = 0; i < 20; i++) {
        say(reader, "POST", "/c/x/points/query", "{}", 2);
        assert_int_equal(hear(reader, text, sizeof text), 200);
    }
    assert_int_equal(inside_most, WORKERS / 2);
    let_go();
    for (int i = 0; i < N; i++) {
        assert_int_equal(hear(fds[i], text, sizeof text), 200);
        assert_non_null(strstr(text, i & 1 ? "300000" : "\r\n\r\n2"));
        close(fds[i]);
    }
    free(body);
    close(reader);
}

/* 64 connections, each answer its own; a client that stops in the middle holds nobody. */
static void test_httpd__many_connections_get_their_own_answers(void **state)
{
    enum { N = 64, ROUNDS = 20 };
    fixture *f = *state;
    int fds[N], slow = dial(f);
    char text[4096], body[64], id[N][17];
    const char *half = "POST /c/x/points/query HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Content-Length: 100\r\n\r\n{\"half\":";
    assert_true(send(slow, half, strlen(half), MSG_NOSIGNAL) > 0);
    for (int i = 0; i < N; i++)
        fds[i] = dial(f);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            int n = snprintf(body, sizeof body, "{\"from\":%d,\"round\":%d}", i, round);
            say(fds[i], "POST", "/c/x/points/query", body, (size_t)n);
        }
        for (int i = N; i-- > 0;) {
            (void)snprintf(body, sizeof body, "{\"from\":%d,\"round\":%d}", i, round);
            assert_int_equal(hear(fds[i], text, sizeof text), 200);
            assert_non_null(strstr(text, body));
            const char *at = strstr(text, "x-bailiwick-request-id: ");
            assert_non_null(at);
            (void)snprintf(id[i], sizeof id[i], "%.16s", at + 24);
            assert_int_equal(strspn(id[i], "0123456789abcdef"), 16);
            for (int k = i + 1; k < N; k++)
                assert_string_not_equal(id[i], id[k]);
        }
    }
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close(slow);
}

/* A header that a handler made in the request's memory outlives the worker. */
static void test_httpd__headers_of_the_arena_are_sent(void **state)
{
    fixture *f = *state;
    char text[4096];
    int fd = dial(f);
    for (int i = 0; i < 3; i++) {
        say(fd, "GET", "/c/x", "", 0);
        assert_int_equal(hear(fd, text, sizeof text), 200);
        assert_non_null(strstr(text, "X-Mine: in the arena\r\n"));
    }
    close(fd);
}

static uint64_t answered_brief(fixture *f)
{
    return atomic_load(&f->server.counters.answered_brief);
}

/* Short questions are answered where they are read. One that has to wait goes to a
 * worker and holds nobody: not its own I/O thread's other connections either (there are
 * more than there are such threads). After it its path is left to the workers for a while. */
static void test_httpd__short_questions_are_answered_where_they_are_read(void **state)
{
    enum { N = 70 };
    fixture *f = *state;
    char text[4096], body[32];
    int fds[N], waiting = dial(f);
    for (int i = 0; i < N; i++)
        fds[i] = dial(f);
    say(waiting, "POST", "/c/x/brief", "wait", 4);
    wait_inside(1);
    assert_int_equal(answered_brief(f), 0);
    for (int i = 0; i < 2 * N; i++) {
        int n = snprintf(body, sizeof body, "{\"from\":%d}", i);
        say(fds[i % N], "POST", i < N ? "/c/y/brief" : "/c/x/brief", body, (size_t)n);
        assert_int_equal(hear(fds[i % N], text, sizeof text), 200);
        assert_non_null(strstr(text, body));
        if (i + 1 == N)
            assert_int_equal(answered_brief(f), N);
    }
    assert_true(answered_brief(f) > N && answered_brief(f) < 2 * N - 50);
    let_go();
    assert_int_equal(hear(waiting, text, sizeof text), 200);
    assert_int_equal(done, 1);
    char *large = calloc(1, 70000);
    assert_non_null(large);
    memset(large, 'x', 70000);
    uint64_t before = answered_brief(f);
    say(fds[0], "POST", "/c/y/brief", large, 70000);
    char *answer = malloc(100000);
    assert_non_null(answer);
    assert_int_equal(hear(fds[0], answer, 100000), 200);
    assert_int_equal(answered_brief(f), before);
    free(answer);
    free(large);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close(waiting);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_httpd__held_writes_hold_no_query),
        T(test_httpd__large_bodies_hold_no_query),
        T(test_httpd__many_connections_get_their_own_answers),
        T(test_httpd__headers_of_the_arena_are_sent),
        T(test_httpd__short_questions_are_answered_where_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
