/* The safetensors format (safetensors.h). Left out: sharded files, quantised types. */
#include "safetensors.h"

enum { HEADER_BYTES_MAX = 64 << 20, DIMS_MAX = 8 };

typedef struct tensor {
    size_t dims[DIMS_MAX];
    size_t ndims, count;
    const unsigned char *data;
    size_t value_bytes;
    bw_str dtype;
} tensor;

bw_status bw_safetensors_parse(bw_ctx *ctx, bw_str bytes, bw_safetensors *out)
{
    if (bytes.len < 8)
        return bw_fail(ctx, BW_ECORRUPT, "safetensors: shorter than its length field");
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)bytes.ptr[i];
    if (n > bytes.len - 8 || n > HEADER_BYTES_MAX)
        return bw_fail(ctx, BW_ECORRUPT,
                       "safetensors: header longer than the file or the limit");
    bw_json *header;
    bw_json_limits limits = {
        .depth_max = 8, .nodes_max = 4000000, .bytes_max = HEADER_BYTES_MAX};
    bw_status st =
        bw_json_parse(ctx, (bw_str){bytes.ptr + 8, (size_t)n}, limits, &header);
    if (st)
        return st;
    if (header->kind != BW_JSON_OBJECT)
        return bw_fail(ctx, BW_ECORRUPT, "safetensors: header is no object");
    out->header = header;
    out->data = (const unsigned char *)bytes.ptr + 8 + n;
    out->data_len = bytes.len - 8 - (size_t)n;
    return BW_OK;
}

static size_t dtype_bytes(bw_str dtype)
{
    if (bw_str_is(dtype, "F64"))
        return 8;
    if (bw_str_is(dtype, "F32"))
        return 4;
    return bw_str_is(dtype, "F16") || bw_str_is(dtype, "BF16") ? 2 : 0;
}

/* Array of at most DIMS_MAX exact integers; false for anything else. */
static bool sizes(const bw_json *array, size_t *out, size_t *n)
{
    *n = 0;
    if (!bw_json_is_array(array) || array->count > DIMS_MAX)
        return false;
    if (array->count == 0)
        return true;
    uint64_t wide = 0;
    const char *p = array->raw.ptr, *end = p + array->raw.len;
    bool digits = false;
    for (; p < end; p++) { /* the raw form: digits, commas, brackets, blanks only */
        if (*p >= '0' && *p <= '9') {
            if (wide > (SIZE_MAX >> 5))
                return false;
            wide = wide * 10 + (uint64_t)(*p - '0');
            digits = true;
        } else if (*p == ',' || *p == ']') {
            if (!digits || *n == DIMS_MAX)
                return false;
            out[(*n)++] = (size_t)wide;
            wide = 0;
            digits = false;
        } else if (*p != '[' && *p != ' ' && *p != '\n' && *p != '\t' && *p != '\r') {
            return false;
        }
    }
    return *n == array->count;
}

static bool find(const bw_safetensors *s, const char *name, tensor *out)
{
    const bw_json *t = bw_json_get(s->header, name);
    const bw_json *dtype = bw_json_get(t, "dtype");
    size_t span[DIMS_MAX], nspan;
    if (!t || t->kind != BW_JSON_OBJECT || !dtype || dtype->kind != BW_JSON_STRING)
        return false;
    out->dtype = dtype->str;
    out->value_bytes = dtype_bytes(dtype->str);
    if (out->value_bytes == 0 ||
        !sizes(bw_json_get(t, "shape"), out->dims, &out->ndims) ||
        !sizes(bw_json_get(t, "data_offsets"), span, &nspan) || nspan != 2)
        return false;
    out->count = 1;
    for (size_t i = 0; i < out->ndims; i++)
        if (__builtin_mul_overflow(out->count, out->dims[i], &out->count))
            return false;
    size_t bytes;
    if (__builtin_mul_overflow(out->count, out->value_bytes, &bytes) ||
        span[0] > span[1] || span[1] > s->data_len || span[1] - span[0] != bytes)
        return false;
    out->data = s->data + span[0];
    return true;
}

bool bw_safetensors_has(const bw_safetensors *s, const char *name)
{
    return bw_json_get(s->header, name) != NULL;
}

size_t bw_safetensors_rows(const bw_safetensors *s, const char *name, size_t cols)
{
    tensor t;
    return find(s, name, &t) && t.ndims == 2 && t.dims[1] == cols ? t.dims[0] : 0;
}

static float from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31,
             fraction = h & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000 | fraction << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else { /* subnormal: fraction · 2^-24, exact in f32 */
        float f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

bw_status bw_safetensors_read(bw_ctx *ctx, const bw_safetensors *s, const char *name,
                              size_t rows, size_t cols, float *out)
{
    tensor t;
    if (!find(s, name, &t))
        return bw_fail(ctx, BW_ECORRUPT,
                       "safetensors: tensor %s is missing, malformed or of a type "
                       "that is not read",
                       name);
    bool fits = t.ndims == 2   ? t.dims[0] == rows && t.dims[1] == cols
                : t.ndims == 1 ? rows == 1 && t.dims[0] == cols
                               : false;
    if (!fits)
        return bw_fail(ctx, BW_ECORRUPT, "safetensors: tensor %s is not %zu x %zu",
                       name, rows, cols);
    bool brain = bw_str_is(t.dtype, "BF16");
    for (size_t i = 0; i < t.count;
         i++) { /* x86-64 and ARM64 are little-endian, as the file */
        const unsigned char *p = t.data + i * t.value_bytes;
        if (t.value_bytes == 4) {
            memcpy(out + i, p, 4);
        } else if (t.value_bytes == 8) {
            double d;
            memcpy(&d, p, 8);
            out[i] = (float)d;
        } else {
            uint16_t h;
            memcpy(&h, p, 2);
            uint32_t bits = (uint32_t)h << 16;
            if (brain)
                memcpy(out + i, &bits, 4);
            else
                out[i] = from_half(h);
        }
    }
    return BW_OK;
}
