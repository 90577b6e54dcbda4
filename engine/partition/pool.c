/* Open partition files, at most `max` at a time (part.h). The data of a closed
 * partition stay in memory, so that only writes and text search open it again.
 *
 * Lock order: a partition's db_lock, then the pool's lock; files are closed outside
 * the pool's lock. A pinned file is in somebody's hands and is never closed, so with
 * more than max threads at work the number can pass max by that many. */
#include "part.h"

void bw_pool_init(bw_pool *pool, uint32_t max)
{
    *pool = (bw_pool){.max = max};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->closed, NULL);
}

static void unlink_part(bw_pool *pool, bw_partition *p)
{
    *(p->newer ? &p->newer->older : &pool->newest) = p->older;
    *(p->older ? &p->older->newer : &pool->oldest) = p->newer;
    p->newer = p->older = NULL;
}

static void link_newest(bw_pool *pool, bw_partition *p)
{
    p->newer = NULL;
    p->older = pool->newest;
    *(pool->newest ? &pool->newest->newer : &pool->oldest) = p;
    pool->newest = p;
}

/* Closes the file that was not used for the longest time, if one more would pass the
 * limit. The pool's lock is held, and given up while SQLite closes the file: whoever
 * wants that partition meanwhile waits, since two connections must never meet. */
static bool evict(bw_pool *pool)
{
    if (pool->open < pool->max)
        return false;
    bw_partition *p = pool->oldest;
    while (p && (p->pinned || bw_db_is_suspect(p->db)))
        p = p->newer;
    if (!p)
        return false;
    bw_db *db = p->db;
    unlink_part(pool, p);
    p->db = NULL;
    p->closing = true;
    bw_partition_acquire(p);
    pthread_mutex_unlock(&pool->lock);
    bw_db_close(db);
    pthread_mutex_lock(&pool->lock);
    p->closing = false;
    pool->open--;
    pthread_cond_broadcast(&pool->closed);
    pthread_mutex_unlock(&pool->lock);
    bw_partition_release(
        p); /* perhaps the last reference, and then pool.c is asked again */
    pthread_mutex_lock(&pool->lock);
    return true;
}

static bw_status open_file(bw_ctx *ctx, bw_partition *p, bw_db **out)
{
    bw_db *db;
    bw_status st = bw_partfile_open(ctx, p->path, &p->id, p->env->null_sync,
                                    p->env->check && !p->checked, &p->env->health, &db);
    if (st != BW_OK)
        return st;
    st = bw_text_register(ctx, db);
    if (st != BW_OK) {
        bw_db_close(db);
        return st;
    }
    p->checked = true;
    *out = db;
    return BW_OK;
}

bw_status bw_pool_get(bw_ctx *ctx, bw_partition *p, bw_db **out)
{
    bw_pool *pool = &p->env->pool;
    pthread_mutex_lock(&pool->lock);
    while (p->closing)
        pthread_cond_wait(&pool->closed, &pool->lock);
    if (p->db) {
        assert(!p->pinned);
        p->pinned = true;
        unlink_part(pool, p);
        link_newest(pool, p);
        pthread_mutex_unlock(&pool->lock);
        *out = p->db;
        return BW_OK;
    }
    while (evict(pool))
        ;
    pool->open++;
    pthread_mutex_unlock(&pool->lock);
    bw_db *db = NULL;
    bw_status st = open_file(ctx, p, &db);
    pthread_mutex_lock(&pool->lock);
    if (st == BW_OK) {
        p->db = db;
        p->pinned = true;
        link_newest(pool, p);
    } else {
        pool->open--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (st == BW_OK)
        *out = db;
    return st;
}

void bw_pool_put(bw_partition *p)
{
    pthread_mutex_lock(&p->env->pool.lock);
    assert(p->pinned);
    p->pinned = false;
    pthread_mutex_unlock(&p->env->pool.lock);
}

void bw_pool_forget(bw_partition *p)
{
    bw_pool *pool = &p->env->pool;
    pthread_mutex_lock(&pool->lock);
    while (p->closing)
        pthread_cond_wait(&pool->closed, &pool->lock);
    bw_db *db = p->db;
    if (db) {
        assert(!p->pinned);
        unlink_part(pool, p);
        p->db = NULL;
        pool->open--;
    }
    pthread_mutex_unlock(&pool->lock);
    bw_db_close(db);
}

void bw_pool_clear(bw_pool *pool)
{
    while (pool->oldest)
        bw_pool_forget(pool->oldest);
    pthread_cond_destroy(&pool->closed);
    pthread_mutex_destroy(&pool->lock);
}
