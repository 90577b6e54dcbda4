/* Chunks -> points (points.h). */
#include "points.h"
#include "../engine/base/json.h"
#include <sodium.h>

/* Raise it when a loader, the cleaner, the chunker or the payload changes its output,
 * so that the next ingest writes again instead of saying "unchanged". */
static const char pipeline_version[] = "bailiwick.ingest/1";

static void add(crypto_generichash_state *h, const void *p, size_t n)
{
    uint64_t len = n;
    bw_require(crypto_generichash_update(h, (const unsigned char *)&len, sizeof len) ==
               0);
    bw_require(n == 0 || crypto_generichash_update(h, p, n) == 0);
}

static void add_str(crypto_generichash_state *h, bw_str s)
{
    add(h, s.ptr, s.len);
}

bw_status bw_source_digest(bw_ctx *ctx, bw_str bytes, bw_media media,
                           const bw_encoder *e, const bw_chunk_options *o,
                           const bw_source *s, bw_str *hex)
{
    crypto_generichash_state h;
    unsigned char hash[32];
    uint64_t numbers[5] = {(uint64_t)media, o->bytes_target, o->bytes_max,
                           o->bytes_overlap, (uint64_t)s->facts.expires_at_ns};
    char *out = bw_arena_alloc(ctx, 2 * sizeof hash + 1);
    if (!out)
        return bw_fail_nomem(ctx);
    bw_require(crypto_generichash_init(&h, NULL, 0, sizeof hash) == 0);
    add(&h, pipeline_version, sizeof pipeline_version - 1);
    add_str(&h, bytes);
    add(&h, numbers, sizeof numbers);
    add_str(&h, bw_encoder_model(e));
    add_str(&h, s->facts.subject);
    bw_require(crypto_generichash_final(&h, hash, sizeof hash) == 0);
    sodium_bin2hex(out, 2 * sizeof hash + 1, hash, sizeof hash);
    *hex = (bw_str){out, 2 * sizeof hash};
    return BW_OK;
}

void bw_source_point_id(const bw_source *s, uint32_t ordinal, bw_point_id *out)
{
    crypto_generichash_state h;
    unsigned char b[16];
    bw_require(crypto_generichash_init(&h, NULL, 0, sizeof b) == 0);
    add_str(&h, BW_STR("bailiwick.point/1"));
    add_str(&h, s->tenant);
    add_str(&h, s->collection);
    add_str(&h, s->source);
    add(&h, s->class_id.bytes, sizeof s->class_id.bytes);
    add(&h, &ordinal, sizeof ordinal); /* both supported machines are little-endian */
    bw_require(crypto_generichash_final(&h, b, sizeof b) == 0);
    b[6] = (unsigned char)((b[6] & 0x0F) | 0x80); /* version 8 */
    b[8] = (unsigned char)((b[8] & 0x3F) | 0x80); /* variant 10 */
    *out = (bw_point_id){.is_uuid = 1};
    for (int i = 0; i < 8; i++) {
        out->hi = out->hi << 8 | b[i];
        out->lo = out->lo << 8 | b[8 + i];
    }
}

static void put_member(bw_buf *b, const char *key, bw_str value)
{
    if (!value.len)
        return;
    bw_json_put_key(b, key);
    bw_json_put_str(b, value);
}

static void put_number(bw_buf *b, const char *key, uint64_t value)
{
    bw_json_put_key(b, key);
    bw_json_put_u64(b, value);
}

static bw_status payload(bw_ctx *ctx, const bw_source *s, const bw_document *d,
                         const bw_chunk *c, size_t n, bw_str *out)
{
    bw_buf b = {0};
    bw_buf_puts(&b, "{\"page_content\":");
    bw_json_put_str(&b, c->text);
    bw_buf_puts(&b, ",\"metadata\":{");
    put_member(&b, "source", s->source);
    put_member(&b, "title", d->title);
    put_member(&b, "headings", c->headings);
    if (c->page)
        put_number(&b, "page", c->page);
    put_number(&b, "byte_begin", c->byte_begin);
    put_number(&b, "byte_end", c->byte_end);
    put_number(&b, "ordinal", c->ordinal);
    put_number(&b, "chunks", n);
    put_member(&b, "digest", s->digest);
    if (d->garbled)
        bw_buf_puts(&b, ",\"suspected_garbled\":true");
    bw_buf_puts(&b, "}}");
    bw_status st =
        b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return st;
}

/* What is encoded: the chunk under its heading path, unless it begins with a heading.
 * *block: where the last chunk began, for chunks in order. */
static bw_status encoded_text(bw_ctx *ctx, const bw_document *d, const bw_chunk *c,
                              size_t *block, bw_str *out)
{
    while (*block + 1 < d->nblocks && d->blocks[*block + 1].byte_begin <= c->byte_begin)
        ++*block;
    const bw_block *b = &d->blocks[*block];
    *out = c->text;
    if (!c->headings.len || (b->heading && b->byte_begin == c->byte_begin))
        return BW_OK;
    char *p = bw_arena_alloc(ctx, c->headings.len + 1 + c->text.len);
    if (!p)
        return bw_fail_nomem(ctx);
    memcpy(p, c->headings.ptr, c->headings.len);
    p[c->headings.len] = '\n';
    memcpy(p + c->headings.len + 1, c->text.ptr, c->text.len);
    *out = (bw_str){p, c->headings.len + 1 + c->text.len};
    return BW_OK;
}

bw_status bw_points_build(bw_ctx *ctx, const bw_encoder *e, const bw_source *s,
                          const bw_document *d, const bw_chunk *chunks, size_t n,
                          const bw_point **out)
{
    size_t dim = bw_encoder_dim(e);
    bw_point *points = bw_arena_calloc(ctx, n + 1, sizeof *points);
    bw_vector *vectors = bw_arena_calloc(ctx, n + 1, sizeof *vectors);
    bw_str *texts = bw_arena_calloc(ctx, n + 1, sizeof *texts);
    float *values = bw_arena_calloc(ctx, (n + 1) * dim, sizeof *values);
    if (!points || !vectors || !texts || !values)
        return bw_fail_nomem(ctx);
    bw_status st = BW_OK;
    for (size_t i = 0, block = 0; i < n && !st; i++)
        st = encoded_text(ctx, d, &chunks[i], &block, &texts[i]);
    if (!st)
        st = bw_encoder_encode(ctx, e, texts, n, values);
    for (size_t i = 0; i < n && !st; i++) {
        vectors[i] = (bw_vector){
            .name = BW_STR(""), .values = values + i * dim, .n = (uint32_t)dim};
        points[i] = (bw_point){.class_id = s->class_id,
                               .text = chunks[i].text,
                               .facts = s->facts,
                               .vectors = &vectors[i],
                               .nvectors = 1};
        bw_source_point_id(s, chunks[i].ordinal, &points[i].id);
        st = payload(ctx, s, d, &chunks[i], n, &points[i].payload);
    }
    *out = points;
    return st;
}
