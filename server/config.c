/* The configuration file: one table of settings, its parser and its printer.
 *
 *   file    = { line LF }
 *   line    = blank | "#" text | name "=" value      (spaces around both are dropped)
 *   list    = words with commas between
 *
 * The same table documents, parses and prints, so they cannot part. Leaves out: secrets
 * (files under the data folder) and everything that an administrator changes while the
 * cell runs (keys, policies, entities). */
#include "config.h"
#include <arpa/inet.h>

enum { CONFIG_VALUE_MAX = 4096 };

typedef enum setting_kind { SET_STR, SET_LIST, SET_U64 } setting_kind;

typedef struct setting {
    const char *name;
    setting_kind kind;
    size_t offset;
    const char *initial;
    uint64_t min, max; /* SET_U64 */
    const char *doc;   /* lines with \n between */
} setting;

#define AT(field) offsetof(bw_config, field)
static const setting settings[] = {
    {"cell.id", SET_STR, AT(cell_id), "cell1", 0, 0,
     "Name of this cell (Cedar: Bw::Node::\"…\"). Letters, digits, - _ . up to 64."},
    {"cell.country", SET_STR, AT(cell_country), "", 0, 0,
     "Country that this machine stands in, ISO 3166 alpha-2 as in the catalogue (FR).\n"
     "A cell does not serve until it is said: every rule of residency rests on it."},
    {"cell.operator", SET_STR, AT(cell_operator), "", 0, 0,
     "Legal entity that runs the machine: an id in the catalogue or in "
     "policies.entities.\n"
     "Must be said as well; an entity without facts is denied whatever asks for them."},
    {"cell.certs", SET_LIST, AT(cell_certs), "", 0, 0,
     "Certifications of this place, e.g. secnumcloud-3.2, hds. Statements of the "
     "operator."},
    {"cell.hw", SET_LIST, AT(cell_hw), "", 0, 0,
     "Hardware facts of this place, e.g. tee, gpu."},
    {"server.listen", SET_STR, AT(listen), "127.0.0.1:6333", 0, 0,
     "Address and port; IPv6 in brackets; port 0 takes a free one. Beyond loopback TLS "
     "or\n"
     "a stated proxy is needed, or the start is refused."},
    {"server.prefix", SET_STR, AT(prefix), "", 0, 0,
     "URL prefix before every path (/base), or nothing. Paths without it are unknown."},
    {"server.tls_cert", SET_STR, AT(tls_cert), "", 0, 0,
     "PEM file with the certificate chain. With server.tls_key it turns TLS on."},
    {"server.tls_key", SET_STR, AT(tls_key), "", 0, 0,
     "PEM file with the private key; must not be readable by group or others."},
    {"server.proxies", SET_LIST, AT(proxies), "", 0, 0,
     "Addresses of the TLS-ending proxies in front of a cell without TLS. Beyond "
     "loopback\n"
     "connections from other addresses are closed. No header of theirs is trusted."},
    {"server.origins", SET_LIST, AT(origins), "", 0, 0,
     "Web origins (https://host) whose pages may call /mcp, besides this machine's. "
     "Requests\n"
     "without an Origin are none of a page's and pass."},
    {"server.io_threads", SET_U64, AT(io_threads), "0", 0, 64,
     "Threads that read and write sockets, and answer short questions where they read\n"
     "them; 0 = as many as processors, at least 2."},
    {"server.workers", SET_U64, AT(workers), "0", 0, 256,
     "Threads that run requests; 0 = twice the processors, at least 4."},
    {"server.connections", SET_U64, AT(connections), "1024", 8, 60000,
     "Open connections; one more is answered 503 at once."},
    {"server.connections_per_address", SET_U64, AT(connections_per_address), "512", 1,
     60000, "The same from one address."},
    {"server.headers_s", SET_U64, AT(headers_s), "10", 1, 600,
     "Seconds that a request's headers may take, however they drip."},
    {"server.idle_s", SET_U64, AT(idle_s), "60", 1, 3600,
     "Seconds that a kept-alive connection may wait for its next request."},
    {"server.rate_bytes", SET_U64, AT(rate_bytes), "16384", 1, 1000000000,
     "Bytes a second that a body must arrive and an answer be taken with, after 10 s."},
    {"server.request_s", SET_U64, AT(request_s), "60", 1, 3600,
     "Deadline of one request in seconds; `timeout` in the query can only shorten it."},
    {"server.stop_s", SET_U64, AT(stop_s), "30", 1, 600,
     "Seconds that running requests get to end when the cell is stopped."},
    {"data.folder", SET_STR, AT(data_folder), "", 0, 0,
     "The data folder; --data wins."},
    {"data.open_partitions", SET_U64, AT(open_partitions), "256", 8, 16384,
     "SQLite files kept open at once (about three descriptors each)."},
    {"data.seal_rows", SET_U64, AT(seal_rows), "16384", 16, 100000000,
     "Rows after which a growing segment is sealed and gets its own index."},
    {"data.vector_bytes", SET_U64, AT(vector_bytes), "0", 0, 1ull << 50,
     "Memory for the vectors of sealed segments; what does not fit lies in files and\n"
     "is read by block. No answer changes. 0 = no limit. The setting on_disk of a\n"
     "collection puts all of its sealed vectors there."},
    {"data.gpu", SET_STR, AT(gpu), "auto", 0, 0,
     "auto: exact searches run on a GPU where the GPU module and a device are found; off: "
     "never.\n"
     "The answers are the same. off also keeps collections with the index cuvs-cagra from it."},
    {"data.exact_rows", SET_U64, AT(exact_rows), "50000", 1, 4294967295,
     "Below so many permitted points an answer is exact unless the request asks for less\n"
     "(params.recall, params.hnsw_ef); from there on 0.99 of it is wanted."},
    {"policies.packs", SET_STR, AT(packs_folder), "", 0, 0,
     "Folder of the policy packs; nothing = the installed one."},
    {"policies.file", SET_STR, AT(policies_file), "", 0, 0,
     "Cedar text that a new data folder starts with instead of the pack's. Afterwards "
     "the\n"
     "policies in force are policies.cedar in the data folder, changed by PUT "
     "/v1/policies."},
    {"policies.entities", SET_STR, AT(entities_file), "", 0, 0,
     "The operator's Cedar entities (JSON): legal entities, tenants, nodes; nothing =\n"
     "entities.json in the data folder, if there is one."},
    {"policies.catalogue", SET_STR, AT(catalogue_file), "", 0, 0,
     "JSON that is merged over the pack's catalogue: words and zones of your own; "
     "nothing =\n"
     "catalogue.json in the data folder, if there is one."},
    {"model.folder", SET_STR, AT(model_folder), "", 0, 0,
     "Hugging Face folder of the embedding model for /v1/ingest and /v1/query; nothing "
     "=\n"
     "none: those two answer 409."},
    {"ingest.rules", SET_STR, AT(ingest_rules), "", 0, 0,
     "JSON file of label rules for /v1/ingest (ingest/README.md): labels by path, media "
     "type,\n"
     "facts and text, and what raises them. Read at the start; nothing = the built-in\n"
     "detectors of personal data alone."},
    {"labels.detect", SET_STR, AT(labels_detect), "ingest", 0, 0,
     "Where detectors of personal data raise labels: ingest (documents), or all (the "
     "texts of\n"
     "points as well, on the Qdrant routes)."},
    {"audit.segment_bytes", SET_U64, AT(audit_segment_bytes), "67108864", 65536,
     1099511627776,
     "Bytes after which the audit log begins a new file. Files are never removed by "
     "the cell."},
    {"limits.body_bytes", SET_U64, AT(body_bytes), "33554432", 1024, 33554432,
     "Longest request body."},
    {"limits.bodies_bytes", SET_U64, AT(bodies_bytes), "536870912", 33554432,
     1099511627776, "All request bodies in memory together; beyond it 503."},
    {"limits.arena_bytes", SET_U64, AT(arena_bytes), "268435456", 1048576, 17179869184,
     "Memory that one request may take besides its body."},
};
enum { NSETTINGS = sizeof settings / sizeof settings[0] };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bw_str trim(bw_str s)
{
    while (s.len > 0 && is_space(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static bool parse_u64(bw_str v, uint64_t *out)
{
    uint64_t n = 0;
    if (v.len == 0)
        return false;
    for (size_t i = 0; i < v.len; i++) {
        if (v.ptr[i] < '0' || v.ptr[i] > '9' || __builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(v.ptr[i] - '0'), &n))
            return false;
    }
    *out = n;
    return true;
}

static bw_status set_list(bw_ctx *ctx, const setting *st, bw_str value,
                          bw_config_list *list)
{
    list->n = 0;
    while (value.len > 0) {
        const char *comma = memchr(value.ptr, ',', value.len);
        size_t n = comma ? (size_t)(comma - value.ptr) : value.len;
        bw_str word = trim((bw_str){value.ptr, n});
        size_t skip = comma ? n + 1 : n;
        value = (bw_str){value.ptr + skip, value.len - skip};
        if (word.len == 0)
            continue;
        if (list->n == BW_CONFIG_LIST_MAX)
            return bw_fail(ctx, BW_EINVALID, "%s: more than %d words", st->name,
                           BW_CONFIG_LIST_MAX);
        list->items[list->n++] = word;
    }
    return BW_OK;
}

static bw_status set_value(bw_ctx *ctx, const setting *st, bw_str value, bw_config *c)
{
    char *at = (char *)c + st->offset;
    bw_str kept;
    if (value.len > CONFIG_VALUE_MAX ||
        memchr(value.ptr ? value.ptr : "", '\0', value.len))
        return bw_fail(ctx, BW_EINVALID, "%s: the value is too long or holds a NUL",
                       st->name);
    bw_status s = bw_arena_str(ctx, value, &kept);
    if (s != BW_OK)
        return s;
    if (st->kind == SET_STR) {
        memcpy(at, &kept, sizeof kept);
        return BW_OK;
    }
    if (st->kind == SET_LIST)
        return set_list(ctx, st, kept, (bw_config_list *)(void *)at);
    uint64_t n;
    if (!parse_u64(kept, &n) || n < st->min || n > st->max)
        return bw_fail(ctx, BW_EINVALID, "%s: wants a whole number from %llu to %llu",
                       st->name, (unsigned long long)st->min,
                       (unsigned long long)st->max);
    memcpy(at, &n, sizeof n);
    return BW_OK;
}

static const setting *find(bw_str name)
{
    for (size_t i = 0; i < NSETTINGS; i++)
        if (bw_str_eq(name, bw_str_c(settings[i].name)))
            return &settings[i];
    return NULL;
}

static bw_status parse_line(bw_ctx *ctx, bw_str line, unsigned number, bw_config *c,
                            bool *seen)
{
    line = trim(line);
    if (line.len == 0 || line.ptr[0] == '#')
        return BW_OK;
    const char *eq = memchr(line.ptr, '=', line.len);
    if (!eq)
        return bw_fail(ctx, BW_EINVALID, "configuration, line %u: wants name = value",
                       number);
    bw_str name = trim((bw_str){line.ptr, (size_t)(eq - line.ptr)});
    bw_str value = trim((bw_str){eq + 1, line.len - (size_t)(eq + 1 - line.ptr)});
    const setting *st = find(name);
    if (!st)
        return bw_fail(ctx, BW_EINVALID, "configuration, line %u: unknown setting %.*s",
                       number, (int)(name.len < 64 ? name.len : 64), name.ptr);
    if (seen[st - settings])
        return bw_fail(ctx, BW_EINVALID, "configuration, line %u: %s is set twice",
                       number, st->name);
    seen[st - settings] = true;
    return set_value(ctx, st, value, c);
}

static bw_status check(bw_ctx *ctx, const bw_config *c)
{
    bw_str id = c->cell_id;
    if (id.len == 0 || id.len > 64)
        return bw_fail(ctx, BW_EINVALID, "cell.id: wants 1 to 64 characters");
    for (size_t i = 0; i < id.len; i++) {
        char h = id.ptr[i];
        if (!((h >= 'a' && h <= 'z') || (h >= 'A' && h <= 'Z') ||
              (h >= '0' && h <= '9') || h == '-' || h == '_' || h == '.'))
            return bw_fail(ctx, BW_EINVALID, "cell.id: letters, digits, - _ . only");
    }
    if (c->prefix.len > 0 &&
        (c->prefix.ptr[0] != '/' || c->prefix.ptr[c->prefix.len - 1] == '/'))
        return bw_fail(ctx, BW_EINVALID,
                       "server.prefix: begins with / and does not end with it");
    if ((c->tls_cert.len > 0) != (c->tls_key.len > 0))
        return bw_fail(ctx, BW_EINVALID,
                       "server.tls_cert and server.tls_key go together");
    if (!bw_str_is(c->labels_detect, "ingest") && !bw_str_is(c->labels_detect, "all"))
        return bw_fail(ctx, BW_EINVALID, "labels.detect: wants ingest or all");
    if (!bw_str_is(c->gpu, "auto") && !bw_str_is(c->gpu, "off"))
        return bw_fail(ctx, BW_EINVALID, "data.gpu: wants auto or off");
    for (size_t i = 0; i < c->proxies.n; i++) {
        unsigned char bytes[16];
        const char *p = bw_arena_cstr(ctx, c->proxies.items[i]);
        if (!p ||
            (inet_pton(AF_INET, p, bytes) != 1 && inet_pton(AF_INET6, p, bytes) != 1))
            return bw_fail(ctx, BW_EINVALID, "server.proxies: wants IP addresses");
    }
    return BW_OK;
}

bw_status bw_config_parse(bw_ctx *ctx, bw_str text, const bw_config_override *over,
                          size_t nover, bw_config *out)
{
    bw_config c;
    bool seen[NSETTINGS] = {false};
    unsigned number = 0;
    bw_status s = BW_OK;
    memset(&c, 0, sizeof c);
    for (size_t i = 0; i < NSETTINGS && s == BW_OK; i++)
        s = set_value(ctx, &settings[i], bw_str_c(settings[i].initial), &c);
    while (text.len > 0 && s == BW_OK) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end ? (size_t)(end - text.ptr) : text.len;
        s = parse_line(ctx, (bw_str){text.ptr, n}, ++number, &c, seen);
        size_t skip = end ? n + 1 : n;
        text = (bw_str){text.ptr + skip, text.len - skip};
    }
    for (size_t i = 0; i < nover && s == BW_OK; i++) {
        const setting *st = find(bw_str_c(over[i].name));
        s = st ? set_value(ctx, st, trim(bw_str_c(over[i].value)), &c)
               : bw_fail(ctx, BW_EINVALID, "unknown setting %.64s", over[i].name);
    }
    if (s == BW_OK)
        s = check(ctx, &c);
    if (s == BW_OK)
        *out = c;
    return s;
}

bw_status bw_listen_parse(bw_ctx *ctx, bw_str text, const char **host, uint16_t *port,
                          bool *loopback)
{
    size_t colon = text.len;
    uint64_t n;
    unsigned char bytes[16];
    static const unsigned char one[16] = {[15] = 1};
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == ':')
            colon = i;
    if (colon == text.len ||
        !parse_u64((bw_str){text.ptr + colon + 1, text.len - colon - 1}, &n) ||
        n > 65535)
        return bw_fail(ctx, BW_EINVALID, "server.listen: wants ADDRESS:PORT");
    bw_str h = {text.ptr, colon};
    bool six = h.len >= 2 && h.ptr[0] == '[' && h.ptr[h.len - 1] == ']';
    if (six)
        h = (bw_str){h.ptr + 1, h.len - 2};
    if (bw_str_is(h, "localhost"))
        h = BW_STR("127.0.0.1");
    const char *cstr = bw_arena_cstr(ctx, h);
    if (!cstr)
        return bw_fail(ctx, BW_EINVALID, "listen: bad address");
    if (six && inet_pton(AF_INET6, cstr, bytes) == 1)
        *loopback = memcmp(bytes, one, 16) == 0;
    else if (!six && inet_pton(AF_INET, cstr, bytes) == 1)
        *loopback = bytes[0] == 127;
    else
        return bw_fail(ctx, BW_EINVALID,
                       "listen: wants an IP address (IPv6 in brackets)");
    *host = cstr;
    *port = (uint16_t)n;
    return BW_OK;
}

bw_status bw_config_check_serve(bw_ctx *ctx, const bw_config *c)
{
    const char *host;
    uint16_t port;
    bool loopback;
    bw_status s = bw_listen_parse(ctx, c->listen, &host, &port, &loopback);
    if (s != BW_OK)
        return s;
    if (c->dev && !loopback)
        return bw_fail(ctx, BW_EINVALID, "--dev listens on loopback only");
    if (c->dev && c->ingest_rules.len > 0)
        return bw_fail(ctx, BW_EINVALID, "--dev has one class: no ingest.rules");
    if (c->dev && c->tls_cert.len > 0)
        return bw_fail(ctx, BW_EINVALID,
                       "--dev has no TLS: it is for this machine alone");
    if (!loopback && c->tls_cert.len == 0 && c->proxies.n == 0)
        return bw_fail(ctx, BW_EINVALID,
                       "server.listen is beyond loopback: set server.tls_cert and "
                       "server.tls_key, or "
                       "server.proxies if a proxy ends TLS");
    if (!c->dev && (c->cell_country.len == 0 || c->cell_operator.len == 0))
        return bw_fail(ctx, BW_EINVALID, "cell.country and cell.operator must be set");
    return BW_OK;
}

void bw_config_print(const bw_config *c, bw_buf *out)
{
    bw_buf_puts(out, "# Bailiwick's configuration. A line: name = value. Unknown names "
                     "are refused.\n");
    for (size_t i = 0; i < NSETTINGS; i++) {
        const setting *st = &settings[i];
        const char *at = c ? (const char *)c + st->offset : NULL;
        bw_buf_puts(out, "\n# ");
        for (const char *d = st->doc; *d; d++) {
            bw_buf_putc(out, *d);
            if (*d == '\n')
                bw_buf_puts(out, "# ");
        }
        if (st->kind == SET_U64)
            bw_buf_printf(out, "\n# From %llu to %llu.", (unsigned long long)st->min,
                          (unsigned long long)st->max);
        bw_buf_printf(out,
                      " Default: %s\n%s = ", st->initial[0] ? st->initial : "nothing",
                      st->name);
        if (!at) {
            bw_buf_puts(out, st->initial);
        } else if (st->kind == SET_U64) {
            uint64_t n;
            memcpy(&n, at, sizeof n);
            bw_buf_printf(out, "%llu", (unsigned long long)n);
        } else if (st->kind == SET_STR) {
            bw_str v;
            memcpy(&v, at, sizeof v);
            bw_buf_str(out, v);
        } else {
            const bw_config_list *l = (const bw_config_list *)(const void *)at;
            for (size_t k = 0; k < l->n; k++) {
                if (k > 0)
                    bw_buf_puts(out, ", ");
                bw_buf_str(out, l->items[k]);
            }
        }
        bw_buf_putc(out, '\n');
    }
}

void bw_config_place(const bw_config *c, bw_place *out)
{
    *out = (bw_place){.id = c->cell_id,
                      .country = c->cell_country,
                      .operator_id = c->cell_operator,
                      .certs = c->cell_certs.items,
                      .ncerts = c->cell_certs.n,
                      .hw = c->cell_hw.items,
                      .nhw = c->cell_hw.n};
}
