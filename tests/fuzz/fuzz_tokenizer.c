/* WordPiece over any bytes with a small vocabulary, and vocabularies of any bytes: the
 * input up to the first zero byte is the text, what follows is a vocabulary. */
#include "ingest/wordpiece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(bw_ctx *ctx, bw_str vocabulary, bool json, bw_str text)
{
    bw_wordpiece *w = NULL;
    uint32_t ids[64];
    bw_wordpiece_options o = {true, true, true};
    if (bw_wordpiece_new(ctx, vocabulary, json, o, &w) != BW_OK)
        return;
    for (size_t max = 2; max <= 64; max += 31) {
        size_t n = bw_wordpiece_run(w, text, ids, max);
        bw_require(n >= 2 && n <= max);
        for (size_t i = 0; i < n; i++)
            bw_require(ids[i] < bw_wordpiece_ids(w));
    }
    bw_wordpiece_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char fixed[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##"
                                "b\nab\n##ab\nz\xC3\xBC\n\xE6\x97\xA5\n.\n,\n";
    bw_ctx *ctx = bw_ctx_new(0);
    bw_require(ctx != NULL);
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    bw_str text = {(const char *)data, zero ? (size_t)(zero - data) : size};
    run(ctx, BW_STR(fixed), false, (bw_str){(const char *)data, size});
    if (zero) {
        bw_str rest = {(const char *)zero + 1, size - text.len - 1};
        run(ctx, rest, false, text);
        run(ctx, rest, true, text);
    }
    bw_ctx_free(ctx);
    return 0;
}
