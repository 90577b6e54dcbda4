/* Figures for the operator. They cover every class, so no caller but an administrator
 * may see them. */
#include "base/json.h"
#include "engine_impl.h"

typedef struct sums {
    uint64_t partitions, loaded, stale, points, dead, segments, graphs, vector_bytes,
        row_bytes;
} sums;

static void add_snapshot(const bw_snapshot *s, sums *t)
{
    t->points += s->nlive;
    t->dead += s->nrows - s->nlive;
    t->segments += s->nsegs;
    for (uint32_t v = 0; v < s->part->nvec; v++)
        for (uint32_t i = 0; i < s->vecs[v].n; i++) {
            const bw_block_ref *r = &s->vecs[v].items[i];
            t->vector_bytes += bw_matrix_bytes(r->b->m);
            if (r->seg >= 0 && s->segs[r->seg].p.adopted && bw_build_index(r->b->m))
                t->graphs++;
        }
    for (uint32_t i = 0; i < s->nrows; i++)
        t->row_bytes += s->rows->recs[i] ? s->rows->recs[i]->bytes : 0;
}

static void put(bw_buf *b, const char *key, uint64_t v)
{
    bw_json_put_key(b, key);
    bw_json_put_u64(b, v);
}

bw_status bw_engine_stats(bw_ctx *ctx, bw_engine *e, bw_str *json)
{
    sums t = {0};
    pthread_rwlock_rdlock(&e->names);
    for (uint32_t i = 0; i < e->ncollections; i++) {
        bw_collection *c = e->collections[i];
        pthread_rwlock_rdlock(&c->view);
        for (uint32_t j = 0; j < c->nparts; j++) {
            t.partitions++;
            t.stale += atomic_load(&c->parts[j]->stale);
            if (!atomic_load_explicit(&c->parts[j]->loaded, memory_order_acquire) ||
                !c->parts[j]->current)
                continue;
            t.loaded++;
            add_snapshot(c->parts[j]->current, &t);
        }
        pthread_rwlock_unlock(&c->view);
    }
    uint64_t collections = e->ncollections;
    pthread_rwlock_unlock(&e->names);
    pthread_mutex_lock(&e->env.pool.lock);
    uint64_t open = e->env.pool.open;
    pthread_mutex_unlock(&e->env.pool.lock);

    bw_buf b = {0};
    bw_buf_putc(&b, '{');
    put(&b, "collections", collections);
    put(&b, "partitions", t.partitions);
    put(&b, "partitions_loaded", t.loaded);
    put(&b, "partitions_stale", t.stale);
    put(&b, "files_open", open);
    put(&b, "points", t.points);
    put(&b, "rows_dead", t.dead);
    put(&b, "segments_sealed", t.segments);
    put(&b, "graphs_serving", t.graphs);
    put(&b, "graphs_pending", bw_builder_pending(e->env.builder));
    put(&b, "vector_bytes", t.vector_bytes);
    put(&b, "row_bytes", t.row_bytes);
    bw_json_put_key(&b, "writes_stopped");
    bw_buf_puts(&b, atomic_load(&e->env.health.poisoned) ? "true" : "false");
    bw_buf_putc(&b, '}');
    bw_status st =
        b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), json);
    bw_buf_clear(&b);
    return st;
}
