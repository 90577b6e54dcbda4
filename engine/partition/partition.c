/* A partition's life: making its file, reading it, its payload indexes, its end
 * (part.h; store/partfile.h has the format). */
#include "../store/fs.h"
#include "part.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

/* One block: the specs, then the bytes of their names. */
static bw_vector_spec *copy_specs(const bw_vector_spec *specs, uint32_t n)
{
    size_t bytes = (size_t)n * sizeof *specs + 1;
    for (uint32_t i = 0; i < n; i++)
        bytes += specs[i].name.len;
    bw_vector_spec *out = bw_calloc(1, bytes);
    if (!out)
        return NULL;
    char *at = (char *)(out + n);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = specs[i];
        if (specs[i].name.len > 0)
            memcpy(at, specs[i].name.ptr, specs[i].name.len);
        out[i].name.ptr = at;
        at += specs[i].name.len;
    }
    return out;
}

bw_status bw_partition_new(bw_ctx *ctx, bw_part_env *env, const bw_partfile_id *id,
                           const bw_vector_spec *specs, uint32_t nvec,
                           bw_partition **out)
{
    bw_partition *p = bw_calloc(1, sizeof *p);
    if (!p)
        return bw_fail_nomem(ctx);
    atomic_init(&p->refs, 1);
    atomic_init(&p->loaded, false);
    atomic_init(&p->stale, false);
    pthread_mutex_init(&p->db_lock, NULL);
    p->env = env;
    p->id = *id;
    p->nvec = nvec;
    p->specs = copy_specs(specs, nvec);
    size_t n = strlen(env->dir) + 32;
    p->path = bw_alloc(n);
    if (!p->specs || !p->path) {
        bw_partition_release(p);
        return bw_fail_nomem(ctx);
    }
    (void)snprintf(p->path, n, "%s/%llu.db", env->dir, (unsigned long long)id->number);
    *out = p;
    return BW_OK;
}

void bw_partition_acquire(bw_partition *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

/* The engine's list drops its reference after it took `current` and closed the file. */
void bw_partition_release(bw_partition *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    assert(!p->current && !p->db);
    pthread_mutex_destroy(&p->db_lock);
    bw_free(p->specs);
    bw_free(p->path);
    bw_free(p);
}

bw_status bw_partition_create(bw_ctx *ctx, bw_partition *p)
{
    /* A crash before the number was recorded may have left these. */
    static const char *const suffixes[] = {"", "-journal", "-wal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *path = bw_arena_printf(ctx, "%s%s", p->path, suffixes[i]);
        bw_status st = path ? bw_fs_unlink(ctx, path) : BW_ENOMEM;
        if (st != BW_OK)
            return st;
    }
    return bw_partfile_create(ctx, p->path, &p->id, p->env->null_sync, &p->env->health);
}

bw_status bw_partition_remove_files(bw_ctx *ctx, const char *dir, uint64_t number)
{
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, "%llu.", (unsigned long long)number);
    DIR *d = opendir(dir);
    if (!d)
        return bw_fail_errno(ctx, "read the data folder", errno);
    bw_status st = BW_OK;
    struct dirent *e;
    while (st == BW_OK && (errno = 0, e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, prefix, (size_t)n) != 0)
            continue;
        const char *path = bw_arena_printf(ctx, "%s/%s", dir, e->d_name);
        st = path ? bw_fs_unlink(ctx, path) : BW_ENOMEM;
    }
    if (st == BW_OK && errno != 0)
        st = bw_fail_errno(ctx, "read the data folder", errno);
    (void)closedir(d);
    return st == BW_OK ? bw_fs_sync_dir(ctx, dir) : st;
}

/* ---- payload indexes ---- */

static bw_status index_new(bw_ctx *ctx, const bw_snapshot *s, const bw_index_spec *spec,
                           bw_index_entry **out)
{
    bw_index_entry *e = bw_calloc(1, sizeof *e);
    if (!e)
        return bw_fail_nomem(ctx);
    atomic_init(&e->refs, 1);
    bw_status st = bw_payload_index_new(ctx, spec, &e->ix);
    if (st != BW_OK) {
        bw_free(e);
        return st;
    }
    for (size_t i = bw_bitmap_next(&s->live, 0); st == BW_OK && i < s->nrows;
         i = bw_bitmap_next(&s->live, i + 1)) {
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        st = bw_payload_index_add(ctx, e->ix, (uint32_t)i, s->rows->recs[i]->payload);
        bw_arena_release(ctx, mark);
    }
    if (st != BW_OK) {
        bw_payload_index_free(e->ix);
        bw_free(e);
        return st;
    }
    *out = e;
    return BW_OK;
}

bw_status bw_snapshot_indexes(bw_ctx *ctx, const bw_snapshot *s,
                              const bw_index_spec *specs, uint32_t n,
                              const bw_index_set *share, bw_str changed,
                              bw_index_set **out)
{
    bw_index_set *set = bw_index_set_new(n);
    if (!set)
        return bw_fail_nomem(ctx);
    bw_status st = BW_OK;
    for (uint32_t i = 0; st == BW_OK && i < n; i++) {
        for (uint32_t j = 0;
             share && j < share->n && !bw_str_eq(specs[i].field, changed); j++) {
            bw_index_entry *e = share->entries[j];
            if (!bw_str_eq(bw_payload_index_field(e->ix), specs[i].field))
                continue;
            atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
            set->entries[i] = e;
        }
        if (!set->entries[i])
            st = index_new(ctx, s, &specs[i], &set->entries[i]);
    }
    if (st != BW_OK) {
        bw_index_set_release(set);
        return st;
    }
    *out = set;
    return BW_OK;
}

bw_status bw_partition_reindex(bw_ctx *ctx, bw_partition *p,
                               const bw_index_spec *indexes, uint32_t nindexes,
                               bw_str changed, bw_snapshot **next)
{
    const bw_snapshot *cur = p->current;
    bw_index_set *set;
    bw_status st =
        bw_snapshot_indexes(ctx, cur, indexes, nindexes, cur->indexes, changed, &set);
    if (st != BW_OK)
        return st;
    bw_snapshot *d;
    st = bw_snapshot_draft(ctx, cur, cur->nrows, &d);
    if (st != BW_OK) {
        bw_index_set_release(set);
        return st;
    }
    bw_index_set_release(d->indexes);
    d->indexes = set;
    *next = d;
    return BW_OK;
}

bw_status bw_partition_tidy(bw_ctx *ctx, bw_partition *p, const bw_index_spec *indexes,
                            uint32_t nindexes, bw_snapshot **next)
{
    const bw_snapshot *cur = p->current;
    uint64_t kept = cur->nlive;
    for (uint32_t i = 0; i < cur->nsegs; i++)
        kept += cur->segs[i].dead;
    *next = NULL;
    if (cur->gen->n <= 2 * kept + p->env->gap_rows_min)
        return BW_OK;
    bw_snapshot *d;
    bw_status st = bw_snapshot_renumber(ctx, cur, &d);
    if (st != BW_OK)
        return st;
    st = bw_snapshot_indexes(ctx, d, indexes, nindexes, NULL, (bw_str){NULL, 0},
                             &d->indexes);
    if (st != BW_OK)
        bw_snapshot_release(d);
    else
        *next = d;
    return st;
}
