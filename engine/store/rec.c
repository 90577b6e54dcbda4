/* Rows: one block of memory each, counted; and the stored form (rec.h). */
#include "rec.h"

#include <sodium.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the stored forms are written for little-endian machines"
#endif

enum {
    REC_MAGIC = 0x31725742,
    REC_HEAD = 68,
    REC_VECTOR = 12,
    REC_HASH = 8,
    HAS_PAYLOAD = 1,
    HAS_TEXT = 2,
    HAS_SUBJECT = 4,
    HAS_SOURCE = 8,
    HAS_MODEL = 16,
    IS_UUID = 32,
    IS_SKELETON = 64,
    NSTRINGS = 5,
    FORM_SPARSE = 1
};

/* By bw_dtype: the form number that is stored, and the bytes of an element. */
static const uint32_t forms[BW_NDTYPES] = {0, 2, 3, 4};
static const uint32_t widths[BW_NDTYPES] = {4, 2, 2, 1};

static const unsigned char hash_key[crypto_shorthash_KEYBYTES] = "bailiwick row 1";

/* The five strings of a row, in stored order. */
static void strings_of(const bw_rec *rec, bw_str out[NSTRINGS])
{
    out[0] = rec->payload;
    out[1] = rec->text;
    out[2] = rec->facts.subject;
    out[3] = rec->facts.source;
    out[4] = rec->facts.model;
}

static char *place(char **at, bw_str *s)
{
    if (!s->ptr)
        return NULL;
    char *p = *at;
    if (s->len > 0)
        memcpy(p, s->ptr, s->len);
    *at += s->len + 1; /* one spare byte: an empty string has an address too */
    s->ptr = p;
    return p;
}

bw_status bw_rec_new(bw_ctx *ctx, const bw_rec_in *in, bw_rec **out)
{
    size_t bytes = sizeof(bw_rec) + in->nsparse * sizeof(bw_rec_sparse);
    for (uint32_t i = 0; i < in->nsparse; i++)
        bytes += (size_t)in->sparse[i].n * 8;
    bytes += in->payload.len + in->text.len + in->facts.subject.len +
             in->facts.source.len + in->facts.model.len + NSTRINGS;
    bw_rec *rec = bw_alloc(bytes);
    if (!rec)
        return bw_fail_nomem(ctx);
    memset(rec, 0, sizeof *rec);
    atomic_init(&rec->refs, 1);
    rec->id = in->id;
    rec->ntokens = in->ntokens;
    rec->nsparse = in->nsparse;
    rec->bytes = bytes;
    bw_rec_sparse *sparse = (bw_rec_sparse *)(rec + 1);
    char *at = (char *)(sparse + in->nsparse);
    for (uint32_t i = 0; i < in->nsparse; i++) {
        const bw_rec_sparse *s = &in->sparse[i];
        size_t n = (size_t)s->n * 4;
        sparse[i] = (bw_rec_sparse){s->vec, s->n, (uint32_t *)at, (float *)(at + n)};
        if (n > 0) {
            memcpy(at, s->indices, n);
            memcpy(at + n, s->values, n);
        }
        at += 2 * n;
    }
    rec->sparse = sparse;
    rec->payload = in->payload;
    rec->text = in->text;
    rec->facts = in->facts;
    place(&at, &rec->payload);
    place(&at, &rec->text);
    place(&at, &rec->facts.subject);
    place(&at, &rec->facts.source);
    place(&at, &rec->facts.model);
    assert(at <= (char *)rec + bytes);
    *out = rec;
    return BW_OK;
}

void bw_rec_acquire(bw_rec *rec)
{
    atomic_fetch_add_explicit(&rec->refs, 1, memory_order_relaxed);
}

void bw_rec_release(bw_rec *rec)
{
    if (rec && atomic_fetch_sub_explicit(&rec->refs, 1, memory_order_acq_rel) == 1)
        bw_free(rec);
}

const bw_rec_sparse *bw_rec_sparse_get(const bw_rec *rec, uint32_t vec)
{
    for (uint32_t i = 0; i < rec->nsparse; i++)
        if (rec->sparse[i].vec == vec)
            return &rec->sparse[i];
    return NULL;
}

static void put32(bw_buf *b, uint32_t v)
{
    bw_buf_put(b, &v, sizeof v);
}

static void put64(bw_buf *b, uint64_t v)
{
    bw_buf_put(b, &v, sizeof v);
}

void bw_rec_encode(const bw_rec *rec, const bw_vector_spec *specs, uint32_t nvec,
                   const bw_dense *dense, bool skeleton, bw_buf *out)
{
    size_t start = out->len;
    bw_str strings[NSTRINGS] = {{NULL, 0}};
    if (!skeleton)
        strings_of(rec, strings);
    uint32_t flags = (rec->id.is_uuid ? IS_UUID : 0u) | (skeleton ? IS_SKELETON : 0u);
    for (uint32_t i = 0; i < NSTRINGS; i++)
        flags |= strings[i].ptr ? 1u << i : 0u;
    uint32_t nvectors = skeleton ? 0 : rec->nsparse;
    for (uint32_t v = 0; v < nvec; v++)
        nvectors += dense[v].data ? 1 : 0;
    put32(out, REC_MAGIC);
    put32(out, flags);
    put64(out, rec->id.hi);
    put64(out, rec->id.lo);
    put64(out, rec->version);
    put64(out, (uint64_t)(skeleton ? 0 : rec->facts.expires_at_ns));
    put32(out, skeleton ? 0 : rec->ntokens);
    put32(out, nvectors);
    for (uint32_t i = 0; i < NSTRINGS; i++)
        put32(out, (uint32_t)strings[i].len);
    for (uint32_t v = 0; v < nvec; v++) {
        if (!dense[v].data)
            continue;
        assert(!dense[v].raw);
        put32(out, v);
        put32(out, forms[specs[v].dtype]);
        put32(out, specs[v].dim);
    }
    for (uint32_t i = 0; i < (skeleton ? 0 : rec->nsparse); i++) {
        put32(out, rec->sparse[i].vec);
        put32(out, FORM_SPARSE);
        put32(out, rec->sparse[i].n);
    }
    for (uint32_t i = 0; i < NSTRINGS; i++)
        bw_buf_str(out, strings[i]);
    for (uint32_t v = 0; v < nvec; v++) {
        if (!dense[v].data)
            continue;
        if (specs[v].dtype == BW_DTYPE_I8)
            bw_buf_put(out, &dense[v].scale, sizeof dense[v].scale);
        bw_buf_put(out, dense[v].data, (size_t)specs[v].dim * widths[specs[v].dtype]);
    }
    for (uint32_t i = 0; i < (skeleton ? 0 : rec->nsparse); i++) {
        bw_buf_put(out, rec->sparse[i].indices, (size_t)rec->sparse[i].n * 4);
        bw_buf_put(out, rec->sparse[i].values, (size_t)rec->sparse[i].n * 4);
    }
    if (out->failed)
        return;
    unsigned char hash[crypto_shorthash_BYTES];
    crypto_shorthash(hash, (const unsigned char *)out->ptr + start, out->len - start,
                     hash_key);
    static_assert(sizeof hash == REC_HASH, "the stored hash has 8 bytes");
    bw_buf_put(out, hash, sizeof hash);
}

static uint32_t get32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t get64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bw_status damaged(bw_ctx *ctx)
{
    return bw_fail(ctx, BW_ECORRUPT, "store: a row is damaged");
}

/* The vectors' data lie at `data`; sparse ones are gathered into `sparse`. */
static bw_status decode_vectors(bw_ctx *ctx, const char *heads, uint32_t n,
                                const char *data, const char *end,
                                const bw_vector_spec *specs, uint32_t nvec,
                                bw_dense *dense, bw_rec_sparse *sparse,
                                uint32_t *nsparse)
{
    *nsparse = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t vec = get32(heads), form = get32(heads + 4), count = get32(heads + 8);
        heads += REC_VECTOR;
        if (vec >= nvec)
            return damaged(ctx);
        const bw_vector_spec *spec = &specs[vec];
        size_t width = spec->sparse ? 8 : widths[spec->dtype];
        if (form != (spec->sparse ? (uint32_t)FORM_SPARSE : forms[spec->dtype]) ||
            (!spec->sparse && count != spec->dim))
            return damaged(ctx);
        float scale = 1;
        if (!spec->sparse && spec->dtype == BW_DTYPE_I8) {
            if ((size_t)(end - data) < sizeof scale)
                return damaged(ctx);
            memcpy(&scale, data, sizeof scale);
            data += sizeof scale;
        }
        if ((size_t)(end - data) / width < count)
            return damaged(ctx);
        if (!spec->sparse) {
            dense[vec] = (bw_dense){data, scale, false};
        } else {
            uint32_t *copy = bw_arena_alloc(ctx, (size_t)count * 8);
            if (!copy)
                return BW_ENOMEM;
            memcpy(copy, data, (size_t)count * 8);
            for (uint32_t j = 1; j < count; j++)
                if (copy[j] <= copy[j - 1])
                    return damaged(ctx);
            sparse[(*nsparse)++] =
                (bw_rec_sparse){vec, count, copy, (const float *)(copy + count)};
        }
        data += count * width;
    }
    return data == end ? BW_OK : damaged(ctx);
}

bw_status bw_rec_decode(bw_ctx *ctx, bw_str bytes, const bw_vector_spec *specs,
                        uint32_t nvec, int64_t key, bw_rec **out, bw_dense *dense)
{
    if (bytes.len < REC_HEAD + REC_HASH || get32(bytes.ptr) != REC_MAGIC)
        return damaged(ctx);
    size_t body = bytes.len - REC_HASH;
    unsigned char hash[crypto_shorthash_BYTES];
    crypto_shorthash(hash, (const unsigned char *)bytes.ptr, body, hash_key);
    if (get64((const char *)hash) != get64(bytes.ptr + body))
        return damaged(ctx);
    const char *p = bytes.ptr, *end = p + body;
    uint32_t flags = get32(p + 4), nvectors = get32(p + 44);
    if (nvectors > nvec || (size_t)(end - p - REC_HEAD) / REC_VECTOR < nvectors)
        return damaged(ctx);
    const char *heads = p + REC_HEAD, *at = heads + (size_t)nvectors * REC_VECTOR;
    bw_str strings[NSTRINGS];
    for (uint32_t i = 0; i < NSTRINGS; i++) {
        size_t len = get32(p + 48 + 4 * i);
        if (len > (size_t)(end - at) || (!(flags >> i & 1) && len > 0))
            return damaged(ctx);
        strings[i] = (flags >> i & 1) ? (bw_str){at, len} : (bw_str){NULL, 0};
        at += len;
    }
    for (uint32_t v = 0; v < nvec; v++)
        dense[v] = (bw_dense){NULL, 0, false};
    bw_rec_sparse *sparse = bw_arena_calloc(ctx, nvectors, sizeof *sparse);
    if (!sparse)
        return BW_ENOMEM;
    uint32_t nsparse;
    bw_status st = decode_vectors(ctx, heads, nvectors, at, end, specs, nvec, dense,
                                  sparse, &nsparse);
    if (st != BW_OK)
        return st;
    bw_rec_in in = {
        .id = {get64(p + 8), get64(p + 16), (flags & IS_UUID) != 0, 0},
        .payload = strings[0],
        .text = strings[1],
        .facts = {(int64_t)get64(p + 32), strings[2], strings[3], strings[4]},
        .ntokens = get32(p + 40),
        .sparse = sparse,
        .nsparse = nsparse};
    bw_rec *rec;
    st = bw_rec_new(ctx, &in, &rec);
    if (st != BW_OK)
        return st;
    rec->key = key;
    rec->version = get64(p + 24);
    rec->skeleton = (flags & IS_SKELETON) != 0;
    *out = rec;
    return BW_OK;
}
