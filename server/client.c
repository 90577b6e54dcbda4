/* The command line's HTTP client. See client.h. libcurl, plain http and https only, no
 * redirects (a redirect would carry the key elsewhere), no proxy from the environment.
 */
#include "client.h"
#include "files.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

enum { KEY_BYTES_MAX = 4096, ANSWER_BYTES_MAX = 256 << 20 };

struct bw_client {
    CURL *curl;
    const char *url; /* without a trailing slash; ctx's arena */
    const char *ca_file, *purpose;
    char *key; /* sodium_malloc: "api-key: …" */
    long timeout_s;
};

int bw_client_option(bw_client_options *o, int argc, char **argv, int i)
{
    const char **at = NULL;
    if (strcmp(argv[i], "--url") == 0)
        at = &o->url;
    else if (strcmp(argv[i], "--key-file") == 0)
        at = &o->key_file;
    else if (strcmp(argv[i], "--ca") == 0)
        at = &o->ca_file;
    else if (strcmp(argv[i], "--purpose") == 0)
        at = &o->purpose;
    if (!at)
        return 0;
    if (i + 1 >= argc) {
        (void)fprintf(stderr, "bailiwick: %s wants a value\n", argv[i]);
        return -1;
    }
    *at = argv[i + 1];
    return 2;
}

/* The first line of a file or of standard input, into guarded memory with the header's
 * name. */
static bw_status read_key(bw_ctx *ctx, const char *file, char **out)
{
    static const char name[] = "api-key: ";
    size_t got = 0;
    char *key = sodium_malloc(sizeof name + KEY_BYTES_MAX);
    int fd = strcmp(file, "-") == 0 ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    bw_status s = BW_OK;
    if (!key)
        s = bw_fail_nomem(ctx);
    else if (fd < 0)
        s = bw_fail(ctx, BW_ENOTFOUND, "the key file cannot be opened: %s",
                    strerror(errno));
    if (s == BW_OK)
        memcpy(key, name, sizeof name - 1);
    while (s == BW_OK && got < KEY_BYTES_MAX) {
        char *at = key + sizeof name - 1 + got;
        ssize_t n =
            read(fd, at, 1); /* byte by byte: a pipe may hold more than the key */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            s = bw_fail_errno(ctx, "key file", errno);
        if (n <= 0 || *at == '\n' || *at == '\r')
            break;
        if (*at <= ' ' || *at == 0x7f)
            s = bw_fail(ctx, BW_EINVALID, "the key file does not hold a key");
        got++;
    }
    if (fd > STDERR_FILENO)
        (void)close(fd);
    if (s == BW_OK && (got == 0 || got == KEY_BYTES_MAX))
        s = bw_fail(ctx, BW_EINVALID, "the key file does not hold a key");
    if (s == BW_OK) {
        key[sizeof name - 1 + got] = '\0';
        *out = key;
    } else {
        sodium_free(key);
    }
    return s;
}

/* "127.…", "localhost", "[::1]" */
static bool is_this_machine(const char *host)
{
    unsigned char bytes[4];
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, bytes) == 1 && bytes[0] == 127);
}

/* A key leaves this machine over TLS or not at all: a cell beyond loopback has TLS, or
 * a proxy that ends it. */
static bw_status check_url(bw_ctx *ctx, const char *url, bool has_key)
{
    char *scheme = NULL, *host = NULL;
    CURLU *u = curl_url();
    bw_status s = u ? BW_OK : bw_fail_nomem(ctx);
    if (s == BW_OK && (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
                       curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
                       curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
                       (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)))
        s = bw_fail(ctx, BW_EINVALID,
                    "--url wants http://HOST:PORT or https://HOST:PORT");
    if (s == BW_OK && has_key && strcmp(scheme, "https") != 0 && !is_this_machine(host))
        s = bw_fail(ctx, BW_EINVALID,
                    "the key would cross the network in clear: use https://");
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(u);
    return s;
}

bw_status bw_client_open(bw_ctx *ctx, const bw_client_options *o, bw_client **out)
{
    const char *url = o->url ? o->url : "http://127.0.0.1:6333";
    size_t n = strlen(url);
    bw_client *c = bw_calloc(1, sizeof *c);
    if (!c)
        return bw_fail_nomem(ctx);
    bw_status s = BW_OK;
    while (n > 0 && url[n - 1] == '/')
        n--;
    c->url = bw_arena_printf(ctx, "%.*s", (int)n, url);
    c->ca_file = o->ca_file;
    c->purpose =
        o->purpose ? bw_arena_printf(ctx, "x-bailiwick-purpose: %s", o->purpose) : NULL;
    c->timeout_s = o->timeout_s ? (long)o->timeout_s : 120;
    if (sodium_init() < 0 || curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        s = bw_fail(ctx, BW_EINTERNAL, "libcurl does not start");
    if (s == BW_OK &&
        (!c->url || (o->purpose && !c->purpose) || !(c->curl = curl_easy_init())))
        s = bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = check_url(ctx, c->url, o->key_file != NULL);
    if (s == BW_OK && o->key_file)
        s = read_key(ctx, o->key_file, &c->key);
    if (s == BW_OK)
        *out = c;
    else
        bw_client_close(c);
    return s;
}

void bw_client_close(bw_client *c)
{
    if (!c)
        return;
    if (c->curl)
        curl_easy_cleanup(c->curl);
    sodium_free(c->key);
    bw_free(c);
}

static size_t take(char *p, size_t size, size_t n, void *arg)
{
    bw_buf *b = arg;
    if (b->len + size * n > ANSWER_BYTES_MAX)
        return 0;
    bw_buf_put(b, p, size * n);
    return b->failed ? 0 : size * n;
}

static CURLcode set_options(bw_client *c, const char *method, const char *url,
                            bw_str body, bw_buf *answer, struct curl_slist *headers,
                            char *error)
{
    CURLcode rc = CURLE_OK;
    curl_easy_reset(c->curl);
#define SET(option, value) \
    if (rc == CURLE_OK)    \
    rc = curl_easy_setopt(c->curl, option, value)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, 15L);
    SET(CURLOPT_TIMEOUT, c->timeout_s);
    SET(CURLOPT_CUSTOMREQUEST, method);
    if (body.ptr) {
        SET(CURLOPT_POSTFIELDS, body.ptr);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    }
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_WRITEFUNCTION, take);
    SET(CURLOPT_WRITEDATA, answer);
    SET(CURLOPT_ERRORBUFFER, error);
    if (c->ca_file) {
        SET(CURLOPT_CAINFO, c->ca_file);
    }
#undef SET
    return rc;
}

static const char *what_helps(CURLcode rc)
{
    if (rc == CURLE_PEER_FAILED_VERIFICATION)
        return " (--ca FILE names a certificate to trust)";
    if (rc == CURLE_GOT_NOTHING)
        return " (a cell with TLS wants https://)";
    if (rc == CURLE_COULDNT_CONNECT)
        return " (no cell is running there; --url names another)";
    return "";
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (more)
        *list = more;
    return more != NULL;
}

static bw_status call(bw_ctx *ctx, bw_client *c, const char *method, const char *path,
                      bw_str body, const char *const *more, int *http_status,
                      bw_str *answer)
{
    struct curl_slist *headers = NULL;
    char error[CURL_ERROR_SIZE] = "";
    bw_buf b = {0};
    long code = 0;
    const char *url = bw_arena_printf(ctx, "%s%s", c->url, path);
    bool ok = url && add_header(&headers, "Expect:");
    if (ok && body.ptr)
        ok = add_header(&headers, "Content-Type: application/json");
    if (ok && c->key)
        ok = add_header(&headers, c->key);
    if (ok && c->purpose)
        ok = add_header(&headers, c->purpose);
    for (; ok && more && *more; more++)
        ok = add_header(&headers, *more);
    bw_status s = ok ? BW_OK : bw_fail_nomem(ctx);
    if (s == BW_OK) {
        CURLcode rc = set_options(c, method, url, body, &b, headers, error);
        if (rc == CURLE_OK)
            rc = curl_easy_perform(c->curl);
        if (rc == CURLE_OK)
            rc = curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &code);
        if (rc != CURLE_OK)
            s = bw_fail(ctx, BW_EUNAVAILABLE, "%s: %s%s", c->url,
                        error[0] ? error : curl_easy_strerror(rc), what_helps(rc));
    }
    if (s == BW_OK)
        s = bw_arena_str(ctx, bw_buf_view(&b), answer);
    if (s == BW_OK)
        *http_status = (int)code;
    for (struct curl_slist *h = headers; h; h = h->next)
        if (c->key && strcmp(h->data, c->key) == 0)
            sodium_memzero(h->data, strlen(h->data)); /* curl's copy of the key */
    curl_slist_free_all(headers);
    bw_buf_clear(&b);
    return s;
}

bw_status bw_client_call(bw_ctx *ctx, bw_client *c, const char *method,
                         const char *path, bw_str body, int *http_status,
                         bw_str *answer)
{
    return call(ctx, c, method, path, body, NULL, http_status, answer);
}

bw_status bw_client_post(bw_ctx *ctx, bw_client *c, const char *path, bw_str body,
                         const char *const *headers, int *http_status, bw_str *answer)
{
    return call(ctx, c, "POST", path, body, headers, http_status, answer);
}

static bw_status status_of(int http)
{
    switch (http) {
    case 403:
    case 451:
    case 401:
        return BW_EDENIED;
    case 404:
        return BW_ENOTFOUND;
    case 408:
        return BW_ETIMEOUT;
    case 409:
        return BW_ECONFLICT;
    case 429:
    case 503:
        return BW_EUNAVAILABLE;
    case 507:
        return BW_ENOSPACE;
    default:
        return http >= 500 ? BW_EINTERNAL : BW_EINVALID;
    }
}

/* The cell's own text out of either error form; plain text as it is. */
static bw_str error_text(bw_ctx *ctx, bw_str answer)
{
    bw_json *root;
    if (bw_json_parse(ctx, answer, BW_JSON_REQUEST, &root) != BW_OK)
        return answer;
    const bw_json *v1 = bw_json_get(bw_json_get(root, "error"), "message");
    const bw_json *qdrant = bw_json_get(bw_json_get(root, "status"), "error");
    const bw_json *text = v1 ? v1 : qdrant;
    if (!text || text->kind != BW_JSON_STRING)
        return answer;
    /* Which field it is about, unless the text begins with it. */
    const bw_json *at = bw_json_get(bw_json_get(root, "error"), "pointer");
    bw_str field = at && at->kind == BW_JSON_STRING ? at->str : (bw_str){NULL, 0};
    if (field.len > 1 && field.len < 100 &&
        !(text->str.len >= field.len - 1 &&
          memcmp(text->str.ptr, field.ptr + 1, field.len - 1) == 0)) {
        const char *both =
            bw_arena_printf(ctx, "%.*s: %.*s", (int)field.len, field.ptr,
                            (int)(text->str.len < 220 ? text->str.len : 220), text->str.ptr);
        return both ? bw_str_c(both) : text->str;
    }
    return text->str;
}

bw_status bw_client_json(bw_ctx *ctx, bw_client *c, const char *method,
                         const char *path, bw_str body, const bw_json **answer)
{
    int http = 0;
    bw_str text;
    bw_json *root;
    bw_status s = bw_client_call(ctx, c, method, path, body, &http, &text);
    if (s != BW_OK)
        return s;
    if (http < 200 || http >= 300) {
        bw_str why = error_text(ctx, text);
        if (why.len == 0)
            why = http == 404 ? BW_STR("there is no such path (is --url the cell's?)")
                              : BW_STR("(no text)");
        return bw_fail(ctx, status_of(http), "%d: %.*s", http,
                       (int)(why.len < 220 ? why.len : 220),
                       why.ptr);
    }
    s = bw_json_parse(ctx, text,
                      (bw_json_limits){.depth_max = 64,
                                       .nodes_max = 4000000,
                                       .bytes_max = ANSWER_BYTES_MAX},
                      &root);
    if (s == BW_OK)
        *answer = root;
    return s;
}

const char *bw_client_escape(bw_ctx *ctx, bw_str part)
{
    static const char hex[] = "0123456789ABCDEF";
    char *p = bw_arena_alloc(ctx, part.len * 3 + 1);
    size_t n = 0;
    if (!p)
        return NULL;
    for (size_t i = 0; i < part.len; i++) {
        unsigned char ch = (unsigned char)part.ptr[i];
        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
            (ch >= '0' && ch <= '9') || ch == '-' || ch == '_' || ch == '~' ||
            (ch == '.' && part.len > 2)) {
            p[n++] = (char)ch;
        } else {
            p[n++] = '%';
            p[n++] = hex[ch >> 4];
            p[n++] = hex[ch & 15];
        }
    }
    p[n] = '\0';
    return p;
}
