/* The mirror of a folder (cli_mirror.h), over the Qdrant routes: scroll for the first chunk
 * of every document, delete by its source. */
#include "cli_mirror.h"
#include "../engine/base/map.h"
#include <stdlib.h>

enum { PAGE = 1000, SOURCES_MAX = 1000000 };

typedef struct mirror {
    const bw_mirror *m;
    bw_ctx *ctx;     /* lives as long as the run */
    bw_ctx *scratch; /* of one call */
    bw_client *client;
    const char *points; /* /collections/NAME/points */
    bw_map *gone;       /* sources to delete: two classes may hold one */
} mirror;

static int path_cmp(const void *key, const void *member)
{
    return strcmp(key, *(const char *const *)member);
}

/* The path of a source below the prefix; NULL: it belongs to somebody else. */
static const char *path_of(const mirror *x, bw_str source)
{
    size_t n = strlen(x->m->prefix);
    if (source.len <= n + 1 || memcmp(source.ptr, x->m->prefix, n) != 0 ||
        source.ptr[n] != '/')
        return NULL;
    return bw_arena_printf(x->scratch, "%.*s", (int)(source.len - n - 1),
                           source.ptr + n + 1);
}

static bw_status take_source(mirror *x, const bw_json *point)
{
    const bw_json *source = bw_json_get(
        bw_json_get(bw_json_get(point, "payload"), "metadata"), "source");
    bool fresh;
    if (!source || source->kind != BW_JSON_STRING)
        return BW_OK;
    const char *path = path_of(x, source->str);
    if (!path || (x->m->npaths > 0 &&
                  bsearch(path, x->m->paths, x->m->npaths, sizeof *x->m->paths, path_cmp)))
        return BW_OK;
    if (bw_map_count(x->gone) == SOURCES_MAX)
        return bw_fail(x->ctx, BW_EINVALID, "more than %d documents would go",
                       SOURCES_MAX);
    return bw_map_put(x->gone, source->str.ptr, source->str.len, &fresh)
               ? BW_OK
               : bw_fail_nomem(x->ctx);
}

/* One page from *offset (JSON text, empty at the start) on; empty again: the last one. */
static bw_status take_page(mirror *x, bw_buf *offset)
{
    bw_buf body = {0};
    bw_str answer;
    bw_json *v = NULL;
    int http = 0;
    bw_buf_printf(&body,
                  "{\"limit\":%d,\"with_vector\":false,\"with_payload\":"
                  "[\"metadata.source\"],\"filter\":{\"must\":[{\"key\":"
                  "\"metadata.ordinal\",\"match\":{\"value\":0}}]}",
                  PAGE);
    if (offset->len) {
        bw_buf_puts(&body, ",\"offset\":");
        bw_buf_str(&body, bw_buf_view(offset));
    }
    bw_buf_putc(&body, '}');
    const char *path = bw_arena_printf(x->scratch, "%s/scroll", x->points);
    bw_status s = body.failed || !path
                      ? bw_fail_nomem(x->scratch)
                      : bw_client_call(x->scratch, x->client, "POST", path,
                                       bw_buf_view(&body), &http, &answer);
    bw_buf_clear(&body);
    bw_buf_clear(offset);
    if (s || http == 404)
        return s;
    if (http != 200 || bw_json_parse(x->scratch, answer, BW_JSON_REQUEST, &v) != BW_OK)
        return bw_fail(x->scratch, BW_EUNAVAILABLE,
                       "the cell answered %d when asked for its documents", http);
    const bw_json *result = bw_json_get(v, "result"), *points = bw_json_get(result, "points");
    for (const bw_json *p = points ? points->child : NULL; p && !s; p = p->next)
        s = take_source(x, p);
    const bw_json *next = bw_json_get_value(result, "next_page_offset");
    if (next)
        bw_buf_str(offset, next->raw);
    return s || !offset->failed ? s : bw_fail_nomem(x->scratch);
}

static bw_status find_gone(mirror *x)
{
    bw_buf offset = {0};
    bw_status s;
    do {
        s = take_page(x, &offset);
        if (s)
            s = bw_ctx_take_error(x->ctx, x->scratch, s);
        bw_ctx_reset(x->scratch);
    } while (!s && offset.len);
    bw_buf_clear(&offset);
    return s;
}

static bw_status delete_source(mirror *x, bw_str source)
{
    bw_buf body = {0};
    const bw_json *answer;
    bw_buf_puts(&body, "{\"filter\":{\"must\":[{\"key\":\"metadata.source\",\"match\":"
                       "{\"value\":");
    bw_json_put_str(&body, source);
    bw_buf_puts(&body, "}}]}}");
    const char *path = bw_arena_printf(x->scratch, "%s/delete?wait=true", x->points);
    bw_status s = body.failed || !path
                      ? bw_fail_nomem(x->scratch)
                      : bw_client_json(x->scratch, x->client, "POST", path,
                                       bw_buf_view(&body), &answer);
    bw_buf_clear(&body);
    return s;
}

bw_status bw_mirror_run(bw_ctx *ctx, bw_client *client, const bw_mirror *m)
{
    mirror x = {.m = m,
                .ctx = ctx,
                .scratch = bw_ctx_new((size_t)64 << 20),
                .client = client,
                .gone = bw_map_new()};
    const char *name = bw_client_escape(ctx, bw_str_c(m->collection));
    x.points = name ? bw_arena_printf(ctx, "/collections/%s/points", name) : NULL;
    bw_status s = x.points && x.scratch && x.gone ? find_gone(&x) : bw_fail_nomem(ctx);
    size_t it = 0;
    bw_str key;
    uint64_t *unused;
    while (!s && bw_map_next(x.gone, &it, &key, &unused)) {
        bw_status done = m->dry_run ? BW_OK : delete_source(&x, key);
        const char *source = bw_arena_printf(x.scratch, "%.*s", (int)key.len, key.ptr);
        if (!source)
            s = bw_fail_nomem(ctx);
        else if (!done || done == BW_EDENIED)
            m->tell(m->arg, source, done ? 451 : 200, done ? bw_ctx_message(x.scratch) : "");
        else
            s = bw_ctx_take_error(ctx, x.scratch, done);
        bw_ctx_reset(x.scratch);
    }
    bw_map_free(x.gone);
    bw_ctx_free(x.scratch);
    return s;
}
