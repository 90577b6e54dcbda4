/* Figures for the operator. They cover every class, so no caller but an administrator
 * may see them. */
#include "base/json.h"
#include "engine_impl.h"
#include "index/cuvs.h"
#include "index/gpu_host.h"
#include "kernels/typed.h"

#include <stdio.h>

/* Where a collection's memory is, and the names under which it is told. */
enum { VECTORS, CODES, GRAPHS, IDS, PAYLOAD, SPARSE, WORDS, INDEXES, NPARTS };
static const char *const part_names[NPARTS] = {[VECTORS] = "vector_bytes",
                                               [CODES] = "code_bytes",
                                               [GRAPHS] = "graph_bytes",
                                               [IDS] = "id_bytes",
                                               [PAYLOAD] = "row_bytes",
                                               [SPARSE] = "sparse_bytes",
                                               [WORDS] = "word_bytes",
                                               [INDEXES] = "payload_index_bytes"};

/* In bytes. Blocks that merges have gathered count too. `file` is not memory of the
 * process: what lies in files of blocks (the cache of these belongs to the cell). Left
 * out: single small objects, older snapshots that a reader still holds, SQLite's page
 * caches (1 MiB an open file). */
typedef struct ledger {
    uint64_t bytes[NPARTS], file;
} ledger;

typedef struct sums {
    uint64_t partitions, loaded, stale, points, dead, segments, merges, graphs;
    ledger memory;
} sums;

static void add_matrix(const bw_matrix *m, ledger *t)
{
    uint64_t codes = m->codes ? bw_codes_bytes(m->codes) : 0;
    uint64_t ids = (uint64_t)m->cap * (sizeof *m->ids + sizeof(uint32_t)); /* and ord */
    t->bytes[CODES] += codes;
    t->bytes[IDS] += ids;
    t->bytes[VECTORS] += bw_matrix_bytes(m) - codes - (uint64_t)m->cap * sizeof *m->ids;
    if (!m->data)
        t->file += (uint64_t)m->cap * m->dim * bw_dtype_size(m->dtype);
    const bw_index *ix = bw_build_index(m); /* or not serving yet */
    t->bytes[GRAPHS] += ix ? ix->ops->bytes(ix) : 0;
}

static void add_gen(const bw_gen *g, ledger *t)
{
    for (const bw_row_table *r = bw_gen_rows(g); r; r = r->older)
        t->bytes[IDS] += (uint64_t)r->cap * (sizeof *r->ids + sizeof *r->keys +
                                             sizeof(bw_rec *) + sizeof *r->prev);
    const bw_id_table *ids = atomic_load_explicit(&g->ids, memory_order_acquire);
    for (; ids; ids = ids->older)
        t->bytes[IDS] += ((uint64_t)ids->mask + 1) * sizeof ids->slots[0];
}

static void add_snapshot(const bw_snapshot *s, sums *t)
{
    t->points += s->nlive;
    t->dead += s->nrows - s->nlive;
    t->segments += s->nsegs;
    t->merges += s->nmerges;
    add_gen(s->gen, &t->memory);
    t->memory.bytes[IDS] += bw_bitmap_words(s->live.nbits) * sizeof(uint64_t);
    for (uint32_t v = 0; v < s->part->nvec; v++)
        for (uint32_t i = 0; i < s->vecs[v].n; i++) {
            const bw_block_ref *r = &s->vecs[v].items[i];
            bool adopted = r->seg >= 0 && s->segs[r->seg].p.adopted;
            add_matrix(r->b->m, &t->memory);
            t->graphs += adopted && bw_build_index(r->b->m);
        }
    for (uint32_t i = 0; i < s->nmerges; i++)
        for (uint32_t v = 0; v < s->part->nvec; v++)
            if (s->merges[i].blocks[v])
                add_matrix(s->merges[i].blocks[v]->m, &t->memory);
    for (uint32_t i = 0; i < s->nrows; i++)
        t->memory.bytes[PAYLOAD] += s->rows->recs[i] ? s->rows->recs[i]->bytes : 0;
    bw_snapshot_index_rdlock(s);
    for (uint32_t v = 0; v < s->part->nvec; v++)
        if (s->gen->sparse[v])
            t->memory.bytes[SPARSE] += bw_sparse_bytes(s->gen->sparse[v]);
    for (uint32_t i = 0; i < s->indexes->n; i++)
        t->memory.bytes[INDEXES] += bw_payload_index_bytes(s->indexes->entries[i]->ix);
    bw_snapshot_index_unlock(s);
    t->memory.bytes[WORDS] += bw_snapshot_text_bytes(s);
}

static void put(bw_buf *b, const char *key, uint64_t v)
{
    bw_json_put_key(b, key);
    bw_json_put_u64(b, v);
}

static uint64_t total_of(const ledger *l)
{
    uint64_t n = 0;
    for (int i = 0; i < NPARTS; i++)
        n += l->bytes[i];
    return n;
}

static void add_ledger(ledger *to, const ledger *l)
{
    for (int i = 0; i < NPARTS; i++)
        to->bytes[i] += l->bytes[i];
    to->file += l->file;
}

static void put_ledger(bw_buf *b, const bw_collection *c, const sums *t)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"tenant\":");
    bw_json_put_str(b, c->info.tenant);
    bw_buf_puts(b, ",\"name\":");
    bw_json_put_str(b, c->info.name);
    bw_buf_putc(b, ',');
    put(b, "points", t->points);
    for (int i = 0; i < NPARTS; i++)
        put(b, part_names[i], t->memory.bytes[i]);
    put(b, "memory_bytes", total_of(&t->memory));
    put(b, "file_bytes", t->memory.file);
    bw_buf_putc(b, '}');
}

static void add_collection(bw_collection *c, sums *t)
{
    pthread_rwlock_rdlock(&c->view);
    for (uint32_t j = 0; j < c->nparts; j++) {
        t->partitions++;
        t->stale += atomic_load(&c->parts[j]->stale);
        if (!atomic_load_explicit(&c->parts[j]->loaded, memory_order_acquire) ||
            !c->parts[j]->current)
            continue;
        t->loaded++;
        add_snapshot(c->parts[j]->current, t);
    }
    pthread_rwlock_unlock(&c->view);
}

static void add_sums(sums *to, const sums *t)
{
    to->partitions += t->partitions;
    to->loaded += t->loaded;
    to->stale += t->stale;
    to->points += t->points;
    to->dead += t->dead;
    to->segments += t->segments;
    to->merges += t->merges;
    to->graphs += t->graphs;
    add_ledger(&to->memory, &t->memory);
}

static void add(bw_engine_figures *to, const char *name, uint64_t value)
{
    assert(to->n < BW_ENGINE_FIGURES_MAX);
    bw_engine_figure *f = &to->each[to->n++];
    const int n = snprintf(f->name, sizeof f->name, "%s", name);
    bw_require(n > 0 && (size_t)n < sizeof f->name);
    f->value = value;
}

/* Exact scans on a GPU, and cuVS: all 0 where there is none. Device memory is not the
 * process's. What the CPU did in its stead is told by reason. */
static void add_gpu(bw_engine_figures *to, bw_gpu_host *host)
{
    bw_gpu_counters c = {0};
    bw_cuvs_stats v;
    uint64_t cpu = 0;
    if (host)
        bw_gpu_host_counters(host, &c);
    bw_cuvs_stats_get(&v);
    add(to, "gpu_devices", c.devices);
    add(to, "gpu_devices_lost", c.lost);
    add(to, "gpu_queries_queued", c.queued);
    add(to, "gpu_queries", c.queries);
    add(to, "gpu_batches", c.batches);
    add(to, "gpu_widened", c.widened);
    for (int i = 0; i < BW_GPU_NWHY; i++) {
        char name[48];
        int n = snprintf(name, sizeof name, "gpu_fallbacks_%s", bw_gpu_why_text((bw_gpu_why)i));
        assert(n > 0 && (size_t)n < sizeof name);
        add(to, name, c.cpu[i]);
        cpu += c.cpu[i];
    }
    add(to, "gpu_fallbacks", cpu);
    add(to, "gpu_uploads", c.uploads);
    add(to, "gpu_upload_bytes", c.upload_bytes);
    add(to, "gpu_segments", c.segments);
    add(to, "gpu_segments_evicted", c.evicted);
    add(to, "gpu_segments_refused", c.refused);
    add(to, "gpu_segment_bytes", c.segment_bytes);
    add(to, "gpu_bitset_bytes", c.bits_bytes);
    add(to, "cuvs_builds", v.builds);
    add(to, "cuvs_builds_refused", v.refused);
    add(to, "cuvs_searches", v.searches);
    add(to, "cuvs_batches", v.batches);
    add(to, "cuvs_fallbacks", v.scans_short + v.scans_failed);
    add(to, "cuvs_device_bytes", v.device_bytes);
}

static uint64_t load(const atomic_ullong *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

static void add_all(bw_engine_figures *to, bw_engine *e, const sums *t)
{
    bw_block_cache_stats cache;
    bw_builder_figures builds;
    bw_builder_cache_stats(e->env.builder, &cache);
    bw_builder_figures_get(e->env.builder, &builds);
    pthread_mutex_lock(&e->env.pool.lock);
    uint64_t open = e->env.pool.open;
    pthread_mutex_unlock(&e->env.pool.lock);
    add(to, "collections", to->collections);
    add(to, "partitions", t->partitions);
    add(to, "partitions_loaded", t->loaded);
    add(to, "partitions_stale", t->stale);
    add(to, "files_open", open);
    add(to, "points", t->points);
    add(to, "rows_dead", t->dead);
    add(to, "segments_sealed", t->segments);
    add(to, "merges_pending", t->merges);
    add(to, "graphs_serving", t->graphs);
    add(to, "graphs_pending", builds.pending);
    add(to, "graphs_retrying", builds.retrying);
    add(to, "graph_builds_failed", builds.failed);
    add(to, "graph_files_refused", builds.refused);
    for (int i = 0; i < NPARTS; i++)
        add(to, part_names[i], t->memory.bytes[i]);
    add(to, "vector_bytes_max", bw_builder_budget(e->env.builder));
    add(to, "block_cache_bytes", cache.bytes);
    add(to, "memory_bytes", total_of(&t->memory) + cache.bytes);
    add(to, "file_bytes", t->memory.file);
    add(to, "block_cache_bytes_max", cache.bytes_max);
    add(to, "block_cache_hits", cache.hits);
    add(to, "block_cache_misses", cache.misses);
    add(to, "blocks_damaged", cache.damaged);
    add(to, "row_files_damaged", load(&e->env.heals.found));
    add(to, "row_files_healed", load(&e->env.heals.healed));
    add(to, "row_files_not_healed", load(&e->env.heals.failed));
    add_gpu(to, e->env.gpu);
}

/* each: the ledger's lines; NULL: they are not wanted. */
static void figures(bw_engine *e, bw_engine_figures *out, bw_buf *each)
{
    sums all = {0};
    pthread_rwlock_rdlock(&e->names);
    for (uint32_t i = 0; i < e->ncollections; i++) {
        sums t = {0};
        add_collection(e->collections[i], &t);
        if (each)
            put_ledger(each, e->collections[i], &t);
        add_sums(&all, &t);
    }
    out->n = 0;
    out->collections = e->ncollections;
    pthread_rwlock_unlock(&e->names);
    add_all(out, e, &all);
}

void bw_engine_figures_get(bw_engine *e, bw_engine_figures *out)
{
    figures(e, out, NULL);
}

bw_status bw_engine_stats(bw_ctx *ctx, bw_engine *e, bw_str *json)
{
    bw_engine_figures all;
    bw_buf b = {0}, each = {0};
    figures(e, &all, &each);
    bw_buf_putc(&b, '{');
    for (size_t i = 0; i < all.n; i++)
        put(&b, all.each[i].name, all.each[i].value);
    bw_json_put_key(&b, "writes_stopped");
    bw_buf_puts(&b, atomic_load(&e->env.health.poisoned) ? "true" : "false");
    bw_buf_puts(&b, ",\"ledger\":[");
    bw_buf_put(&b, each.ptr ? each.ptr : "", each.len);
    bw_buf_puts(&b, "]}");
    bw_status st = b.failed || each.failed
                       ? bw_fail_nomem(ctx)
                       : bw_arena_str(ctx, bw_buf_view(&b), json);
    bw_buf_clear(&b);
    bw_buf_clear(&each);
    return st;
}
