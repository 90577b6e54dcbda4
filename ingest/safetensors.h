/* Reader of safetensors: u64 little-endian header length, a JSON object
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, …}, then the data.
 * The file is hostile input: every length, offset and product is checked before use.
 * Immutable after open. */
#ifndef BW_SAFETENSORS_H
#define BW_SAFETENSORS_H
#include "../engine/base/json.h"

typedef struct bw_safetensors {
    const bw_json *header; /* in the arena of the ctx that parsed it */
    const unsigned char *data;
    size_t data_len;
} bw_safetensors;

/* bytes are borrowed and must outlive *out. */
BW_MUST_USE bw_status bw_safetensors_parse(bw_ctx *ctx, bw_str bytes,
                                           bw_safetensors *out);
bool bw_safetensors_has(const bw_safetensors *s, const char *name);
/* Reads a tensor of exactly rows × cols values (one dimension: rows = 1) as f32, from
 * F32, F16, BF16 or F64. out has room for all of them. */
BW_MUST_USE bw_status bw_safetensors_read(bw_ctx *ctx, const bw_safetensors *s,
                                          const char *name, size_t rows, size_t cols,
                                          float *out);
/* rows of a two-dimensional tensor with `cols` columns; 0 when it has another shape. */
size_t bw_safetensors_rows(const bw_safetensors *s, const char *name, size_t cols);
#endif
