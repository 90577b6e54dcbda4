/* .npy: "\x93NUMPY", major, minor, header length (2 bytes, from version 2 on 4), a
 * Python dict as text, then the values (numpy.lib.format, versions 1 to 3). */
#include "npy.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/base/base.h"

enum { HEADER_MAX = 4096 };

static int npy_fail(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    return -1;
}

/* IEEE half to single; exact. */
static float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023u, bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | mantissa << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        const float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Reads the dict's three keys; width becomes 2 or 4. */
static int header_parse(const char *text, size_t *n, size_t *dim, size_t *width)
{
    const char *shape = strstr(text, "'shape': (");
    if (!shape || !strstr(text, "'fortran_order': False"))
        return -1;
    *width = strstr(text, "'<f2'") ? 2 : strstr(text, "'<f4'") ? 4 : 0;
    char *end;
    *n = strtoull(shape + 10, &end, 10);
    if (*end != ',')
        return -1;
    *dim = strtoull(end + 1, &end, 10);
    return *width && *n && *dim && *n < 1u << 28 && *dim <= 65536 ? 0 : -1;
}

static int header_read(FILE *f, size_t *n, size_t *dim, size_t *width)
{
    unsigned char head[12];
    char text[HEADER_MAX + 1];
    if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return -1;
    size_t length = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, f) != 2)
            return -1;
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > HEADER_MAX || fread(text, 1, length, f) != length)
        return -1;
    text[length] = 0;
    return header_parse(text, n, dim, width);
}

int npy_read(const char *path, size_t rows_max, npy *out)
{
    size_t n, dim, width;
    FILE *f = fopen(path, "rb");
    if (!f)
        return npy_fail(path, "cannot be opened");
    int rc = -1;
    float *values = NULL;
    if (header_read(f, &n, &dim, &width) != 0) {
        npy_fail(path, "is not a two-dimensional .npy of f16 or f32");
        goto out;
    }
    if (rows_max && n > rows_max)
        n = rows_max;
    values = bw_alloc_vectors(n * dim * sizeof *values);
    if (!values) {
        npy_fail(path, "memory is out");
        goto out;
    }
    /* Halves are read into the back half of their own place and widened forwards. */
    char *raw = (char *)values + n * dim * (sizeof *values - width);
    if (fread(raw, width, n * dim, f) != n * dim) {
        npy_fail(path, "is cut off");
        goto out;
    }
    for (size_t i = 0; width == 2 && i < n * dim; i++) {
        uint16_t h;
        memcpy(&h, raw + 2 * i, sizeof h);
        values[i] = half_to_float(h);
    }
    *out = (npy){values, n, dim};
    values = NULL;
    rc = 0;
out:
    bw_free_vectors(values);
    fclose(f);
    return rc;
}
