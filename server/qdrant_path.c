/* Payload paths: a.b.c, arr[].k (all elements), arr[0], "a.b".c (contract, section 3).
 *
 * Source: Qdrant's JsonPath. A bare part may be any text without . [ ] " and control
 * characters, which is wider than Qdrant's letters, digits, _ and -: no such text has a
 * second meaning. A quoted part is taken as it stands, without escapes. */
#include "qdrant.h"

static bool step_key(bw_str text, size_t *at, bw_qdrant_step *out)
{
    size_t i = *at;
    if (i < text.len && text.ptr[i] == '"') {
        size_t from = ++i;
        while (i < text.len && text.ptr[i] != '"')
            i++;
        if (i == text.len || i == from)
            return false;
        *out = (bw_qdrant_step){BW_STEP_KEY, {text.ptr + from, i - from}, 0};
        *at = i + 1;
        return true;
    }
    size_t from = i;
    while (i < text.len && !strchr(".[]\"", text.ptr[i]) && (unsigned char)text.ptr[i] >= 0x20)
        i++;
    if (i == from)
        return false;
    *out = (bw_qdrant_step){BW_STEP_KEY, {text.ptr + from, i - from}, 0};
    *at = i;
    return true;
}

static bool step_index(bw_str text, size_t *at, bw_qdrant_step *out)
{
    size_t i = *at + 1; /* past the [ */
    uint64_t index = 0;
    size_t from = i;
    while (i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9' && i - from < 10)
        index = index * 10 + (uint64_t)(text.ptr[i++] - '0');
    if (i >= text.len || text.ptr[i] != ']' || index > UINT32_MAX)
        return false;
    *out = (bw_qdrant_step){i == from ? BW_STEP_ALL : BW_STEP_INDEX, {NULL, 0}, (uint32_t)index};
    *at = i + 1;
    return true;
}

bool bw_qdrant__path(bw_ctx *ctx, bw_str text, bw_qdrant_path *out, bool *nomem)
{
    bw_qdrant_step steps[BW_LIMIT_PATH_STEPS];
    uint32_t n = 0;
    size_t at = 0;
    *nomem = false;
    if (text.len == 0 || text.len > BW_LIMIT_PATH_BYTES || !step_key(text, &at, &steps[n++]))
        return false;
    while (at < text.len) {
        if (n == BW_LIMIT_PATH_STEPS)
            return false;
        if (text.ptr[at] == '.') {
            at++;
            if (!step_key(text, &at, &steps[n++]))
                return false;
        } else if (text.ptr[at] != '[' || !step_index(text, &at, &steps[n++])) {
            return false;
        }
    }
    bw_qdrant_step *kept = bw_arena_alloc(ctx, n * sizeof *kept);
    if (!kept) {
        *nomem = true;
        return false;
    }
    memcpy(kept, steps, n * sizeof *kept);
    *out = (bw_qdrant_path){kept, n};
    return true;
}

bw_status bw_qdrant__path_field(bw_qdrant_parse *p, const bw_json *node, const char *what,
                                bw_str *out)
{
    bw_qdrant_path path;
    bool nomem;
    if (!node)
        return bw_qdrant__format(p, NULL, "missing field `%s`", what);
    if (node->kind != BW_JSON_STRING)
        return bw_qdrant__format(p, node, "expected a payload path as a string");
    if (!bw_qdrant__path(p->ctx, node->str, &path, &nomem))
        return nomem ? bw_fail_nomem(p->ctx)
                     : bw_qdrant__format(p, node, "not a payload path (a.b, a[].b, a[0], \"a.b\".c)");
    *out = node->str;
    return BW_OK;
}
