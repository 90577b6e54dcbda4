/* Stored rows with any bytes: first as they come (the check sum refuses nearly all),
 * then with the right check sum, so that the lengths are tried too. */
#include "engine/store/rec.h"

#include <sodium.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(bw_ctx *ctx, const char *p, size_t n)
{
    static const bw_vector_spec specs[4] = {
        {.name = {"a", 1}, .dim = 3},
        {.name = {"s", 1}, .sparse = true},
        {.name = {"b", 1}, .dim = 5, .dtype = BW_DTYPE_F16},
        {.name = {"c", 1}, .dim = 5, .dtype = BW_DTYPE_I8}};
    bw_rec *rec;
    bw_dense dense[4];
    if (bw_rec_decode(ctx, (bw_str){p, n}, specs, 4, 1, &rec, dense) != BW_OK)
        return;
    bw_buf again = {0};
    bw_rec_encode(rec, specs, 4, dense, rec->skeleton, &again);
    bw_require(!again.failed && again.len <= n); /* a vector given twice is stored once */
    bw_buf_clear(&again);
    bw_rec_release(rec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (sodium_init() < 0)
        return 0;
    bw_ctx *ctx = bw_ctx_new(1 << 22);
    char *copy = bw_alloc(size + 8);
    if (ctx && copy) {
        if (size > 0)
            memcpy(copy, data, size);
        decode(ctx, copy, size);
        crypto_shorthash((unsigned char *)copy + size, (unsigned char *)copy, size,
                         (const unsigned char *)"bailiwick row 1");
        decode(ctx, copy, size + 8);
    }
    bw_free(copy);
    bw_ctx_free(ctx);
    return 0;
}
