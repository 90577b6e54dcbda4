/* The safetensors header and every tensor it names, on any bytes. */
#include "ingest/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_safetensors s;
    static float out[4096];
    bw_require(ctx != NULL);
    if (bw_safetensors_parse(ctx, (bw_str){(const char *)data, size}, &s) == BW_OK)
        for (const bw_json *t = s.header->child; t; t = t->next) {
            const char *name = bw_arena_cstr(ctx, t->key);
            if (!name)
                continue;
            for (size_t cols = 1; cols <= 64; cols *= 4) {
                size_t rows = bw_safetensors_rows(&s, name, cols);
                if (rows && rows * cols <= 4096)
                    bw_require(bw_safetensors_read(ctx, &s, name, rows, cols, out) ==
                               BW_OK);
                (void)!bw_safetensors_read(ctx, &s, name, 1, cols, out);
            }
        }
    bw_ctx_free(ctx);
    return 0;
}
