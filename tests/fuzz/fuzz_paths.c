/* Payload paths, values and edits on hostile bytes. Input: a path, a newline, a patch,
 * a newline, a payload. Bytes that are no JSON must not lead past their end; of a
 * checked payload an edit must make a checked payload, and the same edit again must
 * change nothing. */
#include "engine/base/json.h"
#include "engine/partition/payload.h"
#include "engine/partition/payload_index.h"
#include "engine/plan/select.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool touch(void *arg, bw_str raw)
{
    bw_buf *scratch = arg;
    bw_value value;
    bw_number number;
    bw_str text, rest, e;
    int64_t ns;
    (void)bw_raw_value(raw, scratch, &value);
    (void)bw_raw_number(raw, &number);
    if (bw_raw_string(raw, scratch, &text))
        (void)bw_payload_time(text, &ns);
    if (bw_raw_array_begin(raw, &rest)) {
        while (bw_raw_array_next(&rest, &e))
            ;
    }
    return true;
}

static bool valid(bw_ctx *ctx, bw_str text)
{
    bw_json *root;
    return bw_json_parse(ctx, text, BW_JSON_REQUEST, &root) == BW_OK &&
           root->kind == BW_JSON_OBJECT;
}

static void index_it(bw_ctx *ctx, bw_str path, bw_str payload)
{
    static const char *const types[] = {"keyword", "float", "text", "datetime"};
    for (size_t i = 0; i < 4; i++) {
        bw_index_spec spec = {path, bw_str_c(types[i]), {NULL, 0}};
        bw_payload_index *ix;
        if (bw_payload_index_new(ctx, &spec, &ix) != BW_OK)
            return;
        bw_require(bw_payload_index_add(ctx, ix, 0, payload) == BW_OK);
        bw_payload_index_free(ix);
    }
}

static void edit_it(bw_ctx *ctx, bw_str path, bw_str patch, bw_str payload)
{
    bw_str once, twice, less;
    if (bw_payload_merge(ctx, payload, patch, path, &once) == BW_OK) {
        bw_require(valid(ctx, once));
        bw_require(bw_payload_merge(ctx, once, patch, path, &twice) == BW_OK);
        bw_require(bw_str_eq(once, twice));
    }
    bw_require(bw_payload_remove(ctx, payload, &path, 1, &less) == BW_OK);
    bw_require(valid(ctx, less));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(0);
    const char *p = (const char *)data, *end = p + size;
    const char *a = size ? memchr(p, '\n', size) : NULL;
    const char *b = a ? memchr(a + 1, '\n', (size_t)(end - a - 1)) : NULL;
    if (!ctx || !b) {
        bw_ctx_free(ctx);
        return 0;
    }
    bw_str text = {p, (size_t)(a - p)}, patch = {a + 1, (size_t)(b - a - 1)};
    bw_str payload = {b + 1, (size_t)(end - b - 1)};
    bw_path path;
    bw_buf scratch = {0};
    if (bw_path_parse(ctx, text, &path) == BW_OK) {
        (void)bw_path_each(&path, payload, touch, &scratch);
        index_it(ctx, text, payload);
        if (valid(ctx, payload) && valid(ctx, patch))
            edit_it(ctx, text, patch, payload);
    }
    bw_buf_clear(&scratch);
    bw_ctx_free(ctx);
    return 0;
}
