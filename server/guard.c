/* The framing guard. See guard.h. libmicrohttpd at discipline level 2 already refuses
 * most malformed lines; what it lets through or folds together (two Content-Length of
 * one value, two Host, two Authorization, Content-Length beside Transfer-Encoding) ends
 * here. */
#include "guard.h"
#include <strings.h>

static bool name_is(bw_str name, const char *want)
{
    size_t n = strlen(want);
    return name.len == n && strncasecmp(name.ptr, want, n) == 0;
}

static bool digits(bw_str v, uint64_t *out)
{
    uint64_t n = 0;
    if (v.len == 0 || v.len > 18)
        return false;
    for (size_t i = 0; i < v.len; i++) {
        if (v.ptr[i] < '0' || v.ptr[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(v.ptr[i] - '0');
    }
    *out = n;
    return true;
}

/* "127.0.0.1", "localhost", "[::1]", each with or without a port. */
static bool is_this_machine(bw_str host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        uint64_t port;
        if (host.len < n || strncasecmp(host.ptr, names[i], n) != 0)
            continue;
        if (host.len == n)
            return true;
        if (host.ptr[n] == ':' &&
            digits((bw_str){host.ptr + n + 1, host.len - n - 1}, &port))
            return port <= 65535;
    }
    return false;
}

bool bw_guard_origin_is_local(bw_str origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (origin.len > n && strncasecmp(origin.ptr, schemes[i], n) == 0)
            return is_this_machine((bw_str){origin.ptr + n, origin.len - n});
    }
    return false;
}

typedef struct counts {
    unsigned length, transfer, host, authorization, api_key, purpose, safeguards,
        origin;
    bw_str host_value, transfer_value;
    bool bad_length;
} counts;

static void take_once(bw_str *at, bw_str value, bool *twice)
{
    *twice = *twice || at->ptr;
    *at = value;
}

static void count_header(const bw_header *h, counts *c, bw_guarded *g)
{
    if (name_is(h->name, "content-length")) {
        c->length++;
        g->has_length = true;
        if (!digits(h->value, &g->content_length))
            c->bad_length = true;
    } else if (name_is(h->name, "transfer-encoding")) {
        c->transfer++;
        c->transfer_value = h->value;
    } else if (name_is(h->name, "host")) {
        c->host++;
        c->host_value = h->value;
    } else if (name_is(h->name, "authorization")) {
        c->authorization++;
        g->authorization = h->value;
    } else if (name_is(h->name, "api-key")) {
        c->api_key++;
        g->api_key = h->value;
    } else if (name_is(h->name, "x-bailiwick-purpose")) {
        c->purpose++;
        g->purpose = h->value;
    } else if (name_is(h->name, "x-bailiwick-safeguards")) {
        c->safeguards++;
        g->safeguards = h->value;
    } else if (name_is(h->name, "origin")) {
        c->origin++;
        take_once(&g->mcp.origin, h->value, &g->mcp.origin_twice);
    } else if (name_is(h->name, "mcp-protocol-version")) {
        take_once(&g->mcp.version, h->value, &g->mcp.twice);
    } else if (name_is(h->name, "mcp-method")) {
        take_once(&g->mcp.method, h->value, &g->mcp.twice);
    } else if (name_is(h->name, "mcp-name")) {
        take_once(&g->mcp.name, h->value, &g->mcp.twice);
    } else if (name_is(h->name, "content-type")) {
        g->content_type = h->value;
    }
}

static bool name_ok(bw_str name)
{
    if (name.len == 0)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == ':')
            return false;
    }
    return true;
}

static bool value_ok(bw_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

int bw_guard_check(const bw_header *headers, size_t n, bw_str version, bw_str target,
                   bool dev, bw_guarded *out, const char **why)
{
    counts c = {0};
    memset(out, 0, sizeof *out);
    *why = "the request is not well formed";
    if (n > BW_GUARD_HEADERS_MAX) {
        *why = "too many headers";
        return 431;
    }
    for (size_t i = 0; i < n; i++) {
        if (!name_ok(headers[i].name) || !value_ok(headers[i].value))
            return 400;
        count_header(&headers[i], &c, out);
    }
    if (target.len == 0 || target.ptr[0] != '/') {
        *why = "only a target that begins with / is served";
        return 400;
    }
    for (size_t i = 0; i < target.len; i++)
        if ((unsigned char)target.ptr[i] <= ' ' ||
            (unsigned char)target.ptr[i] == 0x7f || target.ptr[i] == '#')
            return 400;
    if (c.host != 1 || c.length > 1 || c.bad_length || c.transfer > 1 ||
        c.authorization > 1 || c.api_key > 1)
        return 400;
    if (c.transfer == 1) {
        if (c.length > 0 || !bw_str_is(version, "HTTP/1.1") ||
            !name_is(c.transfer_value, "chunked"))
            return 400;
        out->chunked = true;
    }
    out->gate_header_twice = c.purpose > 1 || c.safeguards > 1;
    if (dev && (!is_this_machine(c.host_value) || c.origin > 1 ||
                (c.origin == 1 && !bw_guard_origin_is_local(out->mcp.origin)))) {
        *why = "Forbidden: a --dev cell answers programs of this machine only";
        return 403;
    }
    return 0;
}
