/* Rows of sealed vectors, in memory or on file (place.h). */
#include "place.h"
#include "../kernels/typed.h"

#include <sodium.h>

uint64_t bw_matrix_row_bytes(const bw_matrix *m)
{
    return (uint64_t)m->cap * m->dim * bw_dtype_size(m->dtype);
}

void bw_matrix_digest(const bw_matrix *m, unsigned char out[BW_ROWS_DIGEST])
{
    if (!m->data) {
        memcpy(out, m->digest, BW_ROWS_DIGEST);
        return;
    }
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, BW_ROWS_DIGEST);
    crypto_generichash_update(&h, m->data, (size_t)bw_matrix_row_bytes(m));
    if (m->scales)
        crypto_generichash_update(&h, (const unsigned char *)m->scales,
                                  m->cap * sizeof *m->scales);
    crypto_generichash_final(&h, out, BW_ROWS_DIGEST);
}

static void rows_identity(const bw_matrix *m, const bw_build_id *id,
                          const unsigned char digest[BW_ROWS_DIGEST],
                          unsigned char out[BW_BLOCK_ID])
{
    const uint64_t all[] = {id->number, id->segment, id->build, id->vec,
                            m->dim,     m->dtype,    m->cap};
    crypto_generichash_state h;
    crypto_generichash_init(&h, NULL, 0, BW_BLOCK_ID);
    crypto_generichash_update(&h, (const unsigned char *)"BWrows1", 8);
    crypto_generichash_update(&h, (const unsigned char *)all, sizeof all);
    crypto_generichash_update(&h, digest, BW_ROWS_DIGEST);
    crypto_generichash_final(&h, out, BW_BLOCK_ID);
}

static bw_status spill(bw_ctx *ctx, const bw_places *p, bw_matrix *m,
                       const bw_build_id *id)
{
    unsigned char digest[BW_ROWS_DIGEST], identity[BW_BLOCK_ID];
    uint64_t length = bw_matrix_row_bytes(m);
    bw_matrix_digest(m, digest);
    rows_identity(m, id, digest, identity);
    const char *name = bw_made_name(ctx, id, "rows");
    const char *path = name ? bw_arena_printf(ctx, "%s/%s", p->dir, name) : NULL;
    bw_blockfile *f =
        path ? bw_blockfile_new(p->cache, path, identity, p->key, length) : NULL;
    if (!f)
        return bw_fail_nomem(ctx);
    bw_status st = bw_blockfile_check(ctx, f);
    if (st != BW_OK) { /* none, or another's: it is made */
        bw_block_writer *w = NULL;
        st = bw_block_writer_new(ctx, p->dir, name, identity, p->key, &w);
        if (st == BW_OK) {
            st = bw_block_write(ctx, w, m->data, (size_t)length);
            if (st == BW_OK)
                st = bw_block_writer_finish(ctx, w);
            else
                bw_block_writer_abandon(w);
        }
        if (st == BW_OK)
            st = bw_blockfile_check(ctx, f); /* held open: it may lose its name */
    }
    if (st != BW_OK) {
        bw_blockfile_free(f);
        return st;
    }
    memcpy(m->digest, digest, BW_ROWS_DIGEST);
    m->file = f;
    bw_free_vectors(m->data);
    m->data = NULL;
    return BW_OK;
}

void bw_place_rows(bw_places *p, bw_matrix *m, const bw_build_id *id, bool on_disk,
                   bool movable)
{
    assert(m->data && !m->file && !m->held);
    const uint64_t bytes = bw_matrix_row_bytes(m);
    uint64_t sum =
        atomic_fetch_add_explicit(&p->held, bytes, memory_order_relaxed) + bytes;
    if (movable && (on_disk || (p->budget > 0 && sum > p->budget))) {
        bw_ctx *ctx = bw_ctx_new(0);
        if (!ctx || spill(ctx, p, m, id) != BW_OK)
            bw_log(BW_LOG_WARN, "partition: vectors stay in memory: %s",
                   ctx ? bw_ctx_message(ctx) : "no memory");
        bw_ctx_free(ctx);
    }
    if (m->data)
        m->held = &p->held;
    else
        atomic_fetch_sub_explicit(&p->held, bytes, memory_order_relaxed);
}
