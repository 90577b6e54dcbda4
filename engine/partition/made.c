/* Files made from vectors: their names, and what a crash left of them (made.h). */
#include "made.h"
#include "../store/fs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

typedef struct found {
    bw_build_id id; /* build is not in the name */
    bool rows;
} found;

struct bw_made {
    const char *dir;
    found *items; /* by number */
    size_t n, cap;
};

static const char *suffix_of(const found *f)
{
    return f->rows ? "rows" : "graph";
}

const char *bw_made_name(bw_ctx *ctx, const bw_build_id *id, const char *suffix)
{
    return bw_arena_printf(ctx, "%llu.%u.%u.%s", (unsigned long long)id->number,
                           id->segment, id->vec, suffix);
}

void bw_made_remove(bw_ctx *ctx, const char *dir, const bw_build_id *id,
                    const char *suffix)
{
    const char *name = ctx ? bw_made_name(ctx, id, suffix) : NULL;
    const char *path = name ? bw_arena_printf(ctx, "%s/%s", dir, name) : NULL;
    bw_status st = path ? BW_OK : BW_ENOMEM;
    if (st == BW_OK && bw_fs_exists(path)) {
        st = bw_fs_unlink(ctx, path);
        if (st == BW_OK)
            st = bw_fs_sync_dir(ctx, dir);
    }
    if (st != BW_OK)
        bw_log(BW_LOG_WARN, "partition: a file made from vectors could not be removed");
}

/* ---- the folder at the start ---- */

/* Digits alone, as we write them: no sign, no leading zero but 0 itself. */
static bool number_at(const char **at, uint64_t max, uint64_t *out)
{
    const char *p = *at;
    uint64_t n = 0;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (n > (max - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    if (*p != '.')
        return false;
    *at = p + 1;
    *out = n;
    return true;
}

static bool parse(const char *name, found *out, bool *half)
{
    uint64_t number, segment, vec;
    if (!number_at(&name, UINT64_MAX, &number) ||
        !number_at(&name, UINT32_MAX, &segment) || !number_at(&name, UINT32_MAX, &vec))
        return false;
    *out = (found){.id = {number, (uint32_t)segment, 0, (uint32_t)vec},
                   .rows = strncmp(name, "rows", 4) == 0};
    const char *suffix = suffix_of(out);
    size_t n = strlen(suffix);
    if (strncmp(name, suffix, n) != 0)
        return false;
    *half = strcmp(name + n, ".tmp") == 0;
    return *half || name[n] == 0;
}

static bw_status keep(bw_ctx *ctx, bw_made *m, const found *f)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        found *items = bw_realloc(m->items, cap * sizeof *items);
        if (!items)
            return bw_fail_nomem(ctx);
        m->items = items;
        m->cap = cap;
    }
    m->items[m->n++] = *f;
    return BW_OK;
}

static bw_status list(bw_ctx *ctx, bw_made *m)
{
    DIR *d = opendir(m->dir);
    if (!d)
        return bw_fail_errno(ctx, "read the data folder", errno);
    bw_status st = BW_OK;
    struct dirent *e;
    while (st == BW_OK && (errno = 0, e = readdir(d)) != NULL) {
        found f;
        bool half;
        if (!parse(e->d_name, &f, &half))
            continue;
        if (!half) {
            st = keep(ctx, m, &f);
            continue;
        }
        const char *path = bw_arena_printf(ctx, "%s/%s", m->dir, e->d_name);
        st = path ? bw_fs_unlink(ctx, path) : BW_ENOMEM;
    }
    if (st == BW_OK && errno != 0)
        st = bw_fail_errno(ctx, "read the data folder", errno);
    (void)closedir(d);
    return st;
}

static int by_number(const void *a, const void *b)
{
    const found *x = a, *y = b;
    return x->id.number < y->id.number ? -1 : x->id.number > y->id.number;
}

bw_made *bw_made_new(const char *dir)
{
    bw_made *m = bw_calloc(1, sizeof *m);
    bw_ctx *ctx = m ? bw_ctx_new(0) : NULL;
    if (!ctx) {
        bw_free(m);
        return NULL;
    }
    m->dir = dir;
    if (list(ctx, m) != BW_OK) {
        bw_log(BW_LOG_WARN, "partition: files made from vectors are not looked at: %s",
               bw_ctx_message(ctx));
        m->n = 0;
    }
    if (m->n > 0)
        qsort(m->items, m->n, sizeof *m->items, by_number);
    bw_ctx_free(ctx);
    return m;
}

void bw_made_free(bw_made *m)
{
    if (!m)
        return;
    bw_free(m->items);
    bw_free(m);
}

void bw_made_sweep(bw_ctx *ctx, const bw_made *m, uint64_t number,
                   bool (*wanted)(const void *arg, uint32_t segment), const void *arg)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) { /* the first of the number */
        size_t mid = lo + (hi - lo) / 2;
        if (m->items[mid].id.number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < m->n && m->items[lo].id.number == number; lo++) {
        if (wanted(arg, m->items[lo].id.segment))
            continue;
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_made_remove(ctx, m->dir, &m->items[lo].id, suffix_of(&m->items[lo]));
        bw_arena_release(ctx, mark);
    }
}
