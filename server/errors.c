/* Error forms. /mcp: JSON-RPC's. Qdrant's routes: {"status":{"error":TEXT},"time":0.0}, `status` first,
 * since clients look for words in the first 200 bytes (contract, section 1). /v1:
 * {"error":{"code":…,"message":…,"pointer":…}}. An unknown path has an empty body, a
 * missing key plain text; those two are made where they arise. */
#include "gate.h"
#include <stdio.h>

int bw_error_http_status(bw_status status)
{
    switch (status) {
    case BW_OK:
        return 200;
    case BW_EINVALID:
        return 400;
    case BW_ENOTFOUND:
        return 404;
    case BW_EEXISTS:
    case BW_ECONFLICT:
        return 409;
    case BW_EDENIED:
        return 451;
    case BW_ETIMEOUT:
        return 408;
    case BW_EUNAVAILABLE:
    case BW_ENOMEM:
        return 503;
    case BW_ENOSPACE:
        return 507;
    case BW_ECORRUPT:
    case BW_EIO:
    case BW_EINTERNAL:
        break;
    }
    return 500;
}

static const char *code_of(int http_status, bw_status status)
{
    switch (http_status) {
    case 403:
        return "forbidden";
    case 404:
        return "not_found";
    case 408:
        return "timeout";
    case 409:
        return status == BW_EEXISTS ? "exists" : "conflict";
    case 413:
        return "too_large";
    case 422:
        return "out_of_range";
    case 429:
        return "rate_limited";
    case 451:
        return "denied";
    case 503:
        return status == BW_ENOMEM ? "out_of_memory" : "unavailable";
    case 507:
        return "disk_full";
    default:
        return http_status >= 500 ? "internal" : "invalid";
    }
}

bw_route_family bw_error_family(bw_str path)
{
    if (bw_str_is(path, "/mcp"))
        return BW_FAMILY_MCP;
    return path.len >= 3 && memcmp(path.ptr, "/v1", 3) == 0 &&
                   (path.len == 3 || path.ptr[3] == '/')
               ? BW_FAMILY_V1
               : BW_FAMILY_QDRANT;
}

/* A message may have been cut inside a character, or quote bytes of the request. */
static bw_str clean(const char *message, char *buf, size_t cap)
{
    size_t n = 0;
    for (const char *p = message; *p && n + 1 < cap; p++)
        buf[n++] = *p;
    buf[n] = '\0';
    for (size_t i = 0; i < 4 && n > 0 && !bw_utf8_valid(buf, n); i++)
        n--;
    if (!bw_utf8_valid(buf, n))
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)buf[i] >= 0x80)
                buf[i] = '?';
    return (bw_str){buf, n};
}

void bw_error_response(bw_response *out, bw_route_family family, int http_status,
                       bw_status status, const char *message, const char *pointer)
{
    char text[512], where[160];
    /* Our own faults: the cause is in the log, never in the answer. */
    if (http_status == 500 &&
        (status == BW_ECORRUPT || status == BW_EIO || status == BW_EINTERNAL))
        message = "Service internal error";
    if (status == BW_ENOSPACE) /* its message may name a file */
        message = "No space left on the cell's disk";
    bw_str m = clean(message, text, sizeof text);
    bw_buf_clear(&out->body);
    out->status = http_status;
    out->content_type = NULL;
    if (family == BW_FAMILY_QDRANT) {
        bw_buf_puts(&out->body, "{\"status\":{\"error\":");
        bw_json_put_str(&out->body, m);
        bw_buf_puts(&out->body, "},\"time\":0.0}");
        return;
    }
    if (family == BW_FAMILY_MCP) { /* what has no id yet: refused before it was read */
        bw_buf_printf(&out->body,
                      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":%d,"
                      "\"message\":",
                      http_status >= 500 ? -32603 : -32600);
        bw_json_put_str(&out->body, m);
        bw_buf_puts(&out->body, "}}");
        return;
    }
    bw_buf_printf(&out->body, "{\"error\":{\"code\":\"%s\",\"message\":",
                  code_of(http_status, status));
    bw_json_put_str(&out->body, m);
    bw_buf_puts(&out->body, ",\"pointer\":");
    bw_json_put_str(&out->body, clean(pointer ? pointer : "", where, sizeof where));
    bw_buf_puts(&out->body, "}}");
}
