/* The file that a graph is saved in (build.h has the format, byte by byte). */
#include "../store/fs.h"
#include "build_private.h"

#include <sodium.h>

enum { HEAD = 96, LENGTH_AT = 88, DIGEST = BW_ROWS_DIGEST };
static const char magic[8] = {'B', 'W', 'g', 'r', 'a', 'p', 'h', '2'};

static void put(char *at, const void *p, size_t n)
{
    memcpy(at, p, n);
}

static void head_of(const struct bw_build *job, char out[HEAD])
{
    const bw_matrix *m = job->matrix;
    uint32_t metric = (uint32_t)m->metric, kind = (uint32_t)job->kind;
    uint64_t rows = m->cap, len = 0;
    put(out, magic, sizeof magic);
    put(out + 8, &job->id.number, 8);
    put(out + 16, &job->id.segment, 4);
    put(out + 20, &job->id.build, 4);
    put(out + 24, &job->id.vec, 4);
    put(out + 28, &m->dim, 4);
    put(out + 32, &metric, 4);
    put(out + 36, &kind, 4);
    put(out + 40, &rows, 8);
    bw_matrix_digest(m, (unsigned char *)out + 48);
    put(out + 80, &job->M, 4);
    put(out + 84, &job->ef_construction, 4);
    put(out + LENGTH_AT, &len, 8);
}

bw_index_params bw_build__params(const struct bw_build *job)
{
    return (bw_index_params){.metric = job->matrix->metric,
                             .dim = job->matrix->dim,
                             .M = job->M,
                             .ef_construction = job->ef_construction,
                             .seed = 1,
                             .threads = job->threads};
}

static bw_status parse(bw_ctx *ctx, const unsigned char key[BW_MAC_KEY],
                       const struct bw_build *job, const bw_buf *file, bw_index **out)
{
    if (file->len < HEAD + DIGEST)
        return BW_ECORRUPT;
    size_t body = file->len - DIGEST;
    unsigned char mac[DIGEST];
    crypto_generichash(mac, sizeof mac, (const unsigned char *)file->ptr, body, key,
                       BW_MAC_KEY);
    if (sodium_memcmp(mac, file->ptr + body, sizeof mac) != 0)
        return BW_ECORRUPT;
    char head[HEAD];
    uint64_t len;
    head_of(job, head);
    memcpy(&len, file->ptr + LENGTH_AT, 8);
    if (memcmp(head, file->ptr, LENGTH_AT) != 0 || len != body - HEAD)
        return BW_ECORRUPT;
    bw_index_params params = bw_build__params(job);
    return job->ops->load(ctx, &params, file->ptr + HEAD, len, out);
}

bw_status bw_build__load(bw_ctx *ctx, const char *dir, const unsigned char key[BW_MAC_KEY],
                         const struct bw_build *job, bw_index **out)
{
    const char *name = bw_made_name(ctx, &job->id, "graph");
    const char *path = name ? bw_arena_printf(ctx, "%s/%s", dir, name) : NULL;
    if (!path)
        return BW_ENOMEM;
    bw_buf file = {0};
    bw_status st = bw_fs_read(ctx, path, (size_t)1 << 36, &file);
    if (st == BW_OK)
        st = parse(ctx, key, job, &file, out);
    bw_buf_clear(&file);
    return st;
}

void bw_build__save(bw_ctx *ctx, const char *dir, const unsigned char key[BW_MAC_KEY],
                    const struct bw_build *job, const bw_index *index)
{
    const char *name = bw_made_name(ctx, &job->id, "graph");
    bw_buf file = {0};
    char head[HEAD];
    head_of(job, head);
    bw_buf_put(&file, head, sizeof head);
    bw_status st = name ? job->ops->save(ctx, index, &file) : BW_ENOMEM;
    if (st == BW_OK && !file.failed) {
        uint64_t len = file.len - HEAD;
        memcpy(file.ptr + LENGTH_AT, &len, 8);
        unsigned char mac[DIGEST];
        crypto_generichash(mac, sizeof mac, (unsigned char *)file.ptr, file.len, key,
                           BW_MAC_KEY);
        bw_buf_put(&file, mac, sizeof mac);
        if (!file.failed)
            st = bw_fs_replace(ctx, dir, name, file.ptr, file.len, 0600);
    }
    if (st != BW_OK || file.failed)
        bw_log(BW_LOG_WARN, "partition: a graph could not be saved: %s",
               bw_ctx_message(ctx));
    bw_buf_clear(&file);
}
