/* The audit log: format, writer, recovery.
 *
 * Folder audit/, files 00000001.jsonl, 00000002.jsonl, … One event a line:
 *
 *   {"seq":N,"time":"…","event":"request",…,"prev":"64 hex","hash":"64 hex"}\n
 *
 * seq counts from 1 without gaps through all files; prev is the hash of the event
 * before (zeros for the first); hash = BLAKE2b-256(prev's 32 bytes, then the line's
 * bytes up to the comma before "hash"). So an event cannot be changed, dropped, added
 * or moved without every later hash changing; that the end is cut shows against a
 * number and hash noted elsewhere (`audit verify --expect`). Signed checkpoints are a
 * later piece.
 *
 * A request's event holds what asking its questions again needs: who (principal, tenant,
 * seat, clearance, roles), purpose, safeguards and time; `policies` and `facts`, digests of
 * kept texts (archive.h), and `…_end` where another set came into force meanwhile;
 * `permitted`, sets with the list of classes that each was decided over (`of`, in the
 * register, and the first `named` of the label sets in the request, which also say that
 * Store was allowed); `allowed` and `denied`, decisions about one class, a collection
 * (`on`) or the cell. An event from before these members lacks them and still reads.
 *
 * Writer: one write(2) an event under `lock`, so kill -9 loses nothing that was
 * answered; events of writes and denials are also on the disk before the answer
 * (fdatasync by one leader for all who wait). A write that fails is taken back
 * (ftruncate) and the request refused; after a failed sync the log is closed for good
 * until a restart, since the kernel may have dropped the pages (security.md, section
 * 5).
 *
 * Crash: at most the last line is torn, and it was answered to nobody. Open cuts it and
 * records the cut. Lock order: lock, then sync_lock. */
#include "audit.h"
#include "audit_file.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <unistd.h>

enum { RESERVE_MIN = 4 << 20, RESERVE_STEP = 16 << 20, QUERY_BYTES_MAX = 64 << 20 };

struct bw_audit {
    /* immutable */
    char *dir;
    uint64_t segment_bytes;
    /* guarded by lock */
    pthread_mutex_t lock;
    uint8_t head[BW_AUDIT_HASH];
    uint64_t file, file_bytes, seq;
    uint64_t reserved; /* the file has blocks up to here */
    bool broken;       /* a sync failed, or a torn write could not be taken back */
    uint64_t *firsts;  /* first seq of file i + 1 */
    size_t nfirsts, cap_firsts;
    /* guarded by sync_lock (fd changes under both) */
    pthread_mutex_t sync_lock;
    pthread_cond_t sync_done;
    int fd;
    bool leader, sync_failed;
    uint64_t synced;
    _Atomic uint64_t written; /* release after the write, acquire by the leader */
};

/* ---- writing ---- */

static bw_status segment_open(bw_ctx *ctx, bw_audit *a, uint64_t file)
{
    const char *path = bw_audit__path(ctx, a->dir, file);
    if (!path)
        return bw_fail_nomem(ctx);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return bw_fail_errno(ctx, "audit log", errno);
    bw_status s = bw_dir_sync(ctx, a->dir);
    if (s == BW_OK && a->nfirsts == a->cap_firsts) {
        size_t cap = a->cap_firsts ? a->cap_firsts * 2 : 16;
        uint64_t *p = bw_realloc(a->firsts, cap * sizeof *p);
        if (p) {
            a->firsts = p;
            a->cap_firsts = cap;
        } else {
            s = bw_fail_nomem(ctx);
        }
    }
    if (s != BW_OK) {
        (void)close(fd);
        return s;
    }
    bw_require(pthread_mutex_lock(&a->sync_lock) == 0);
    while (a->leader)
        bw_require(pthread_cond_wait(&a->sync_done, &a->sync_lock) == 0);
    int old = a->fd;
    bool ok =
        old < 0 || (ftruncate(old, (off_t)a->file_bytes) == 0 && fdatasync(old) == 0);
    if (ok) {
        a->fd = fd;
        a->synced = a->seq;
        if (old >= 0 && close(old) != 0)
            ok = false;
    } else {
        (void)close(fd);
    }
    a->sync_failed = a->sync_failed || !ok;
    bw_require(pthread_mutex_unlock(&a->sync_lock) == 0);
    if (!ok) {
        a->broken = true;
        return bw_fail(ctx, BW_EIO, "the audit log cannot be synced");
    }
    a->firsts[a->nfirsts++] = a->seq + 1;
    a->file = file;
    a->file_bytes = 0;
    a->reserved = 0;
    return BW_OK;
}

/* Blocks past the file's end, so that the event of a write that is about to run cannot
 * fail for want of space: a write that happened and is answered 507 would be neither
 * refused nor acknowledged. A file system without fallocate does without. */
bw_status bw_audit_reserve(bw_ctx *ctx, bw_audit *a)
{
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    if (a->reserved < a->file_bytes + RESERVE_MIN) {
        if (fallocate(a->fd, FALLOC_FL_KEEP_SIZE, (off_t)a->file_bytes, RESERVE_STEP) ==
            0)
            a->reserved = a->file_bytes + RESERVE_STEP;
        else if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
            s = bw_fail(ctx, BW_ENOSPACE, "no space for the audit log");
    }
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    return s;
}

/* Appends the finished line; holds lock. */
static bw_status append(bw_ctx *ctx, bw_audit *a, bw_str line,
                        const uint8_t hash[BW_AUDIT_HASH])
{
    int err = bw_write_all(a->fd, line.ptr, line.len);
    if (err != 0) {
        if (ftruncate(a->fd, (off_t)a->file_bytes) != 0)
            a->broken = true;
        return bw_fail_errno(ctx, "audit log", err);
    }
    a->file_bytes += line.len;
    a->seq++;
    memcpy(a->head, hash, BW_AUDIT_HASH);
    atomic_store_explicit(&a->written, a->seq, memory_order_release);
    return BW_OK;
}

static bw_status write_locked(bw_ctx *ctx, bw_audit *a, bw_str members, int64_t now_ns)
{
    bw_buf b = {0};
    uint8_t hash[BW_AUDIT_HASH];
    char when[40];
    bw_time_format(now_ns ? now_ns : bw_clock_unix_ns(), when);
    bw_buf_reserve(&b, members.len + 256);
    bw_buf_puts(&b, "{\"seq\":");
    bw_json_put_u64(&b, a->seq + 1);
    bw_buf_puts(&b, ",\"time\":\"");
    bw_buf_puts(&b, when);
    bw_buf_putc(&b, '"');
    if (members.len > 0)
        bw_buf_putc(&b, ',');
    bw_buf_str(&b, members);
    bw_buf_puts(&b, ",\"prev\":\"");
    bw_buf_hex(&b, a->head, sizeof a->head);
    bw_buf_putc(&b, '"');
    bw_audit__hash(a->head, bw_buf_view(&b), hash);
    bw_buf_puts(&b, ",\"hash\":\"");
    bw_buf_hex(&b, hash, sizeof hash);
    bw_buf_puts(&b, "\"}\n");
    bw_status s = BW_OK;
    if (b.failed)
        s = bw_fail_nomem(ctx);
    else if (b.len > BW_AUDIT_LINE_MAX)
        s = bw_fail(ctx, BW_EINTERNAL, "an audit event is too long");
    else
        s = append(ctx, a, bw_buf_view(&b), hash);
    bw_buf_clear(&b);
    return s;
}

static bw_status sync_to(bw_ctx *ctx, bw_audit *a, uint64_t seq)
{
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&a->sync_lock) == 0);
    while (a->synced < seq && !a->sync_failed) {
        if (a->leader) {
            bw_require(pthread_cond_wait(&a->sync_done, &a->sync_lock) == 0);
            continue;
        }
        a->leader = true;
        int fd = a->fd;
        uint64_t upto = atomic_load_explicit(&a->written, memory_order_acquire);
        bw_require(pthread_mutex_unlock(&a->sync_lock) == 0);
        bool ok = fdatasync(fd) == 0;
        bw_require(pthread_mutex_lock(&a->sync_lock) == 0);
        a->leader = false;
        if (!ok)
            a->sync_failed = true;
        else if (upto > a->synced)
            a->synced = upto;
        bw_require(pthread_cond_broadcast(&a->sync_done) == 0);
    }
    if (a->synced < seq)
        s = bw_fail(ctx, BW_EIO, "the audit log cannot be synced");
    bw_require(pthread_mutex_unlock(&a->sync_lock) == 0);
    return s;
}

bw_status bw_audit_ready(bw_ctx *ctx, bw_audit *a)
{
    bw_require(pthread_mutex_lock(&a->sync_lock) == 0);
    bool failed = a->sync_failed;
    bw_require(pthread_mutex_unlock(&a->sync_lock) == 0);
    return failed
               ? bw_fail(ctx, BW_EUNAVAILABLE, "the audit log is closed after an error")
               : BW_OK;
}

bw_status bw_audit_write(bw_ctx *ctx, bw_audit *a, const bw_audit_record *r, bool sync)
{
    bw_buf members = {0};
    uint64_t seq = 0;
    bw_buf_reserve(&members, 1500 + r->ids.len);
    bw_audit__put_members(&members, r);
    bw_status s =
        members.failed || r->ids.failed ? bw_fail_nomem(ctx) : bw_audit_ready(ctx, a);
    if (s == BW_OK) {
        bw_require(pthread_mutex_lock(&a->lock) == 0);
        if (a->broken)
            s = bw_fail(ctx, BW_EUNAVAILABLE, "the audit log is closed after an error");
        if (s == BW_OK && a->file_bytes >= a->segment_bytes) { /* syncs, under the lock */
            s = bw_ctx_may_wait(ctx);
            if (s == BW_OK)
                s = segment_open(ctx, a, a->file + 1);
        }
        if (s == BW_OK)
            s = write_locked(ctx, a, bw_buf_view(&members), r->now_ns);
        seq = a->seq;
        bw_require(pthread_mutex_unlock(&a->lock) == 0);
    }
    bw_buf_clear(&members);
    if (s == BW_OK && sync)
        s = sync_to(ctx, a, seq);
    return s;
}

void bw_audit_head(bw_audit *a, uint64_t *seq, uint8_t hash[BW_AUDIT_HASH])
{
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    *seq = a->seq;
    memcpy(hash, a->head, BW_AUDIT_HASH);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
}

/* ---- opening ---- */

/* First numbers of all files, the chain of the last one, its torn tail cut. */
static bw_status recover(bw_ctx *ctx, bw_audit *a, const bw_audit__list *files,
                         uint64_t *cut)
{
    for (size_t i = 0; i < files->n; i++) {
        bw_audit__scan scan = {.last = i + 1 == files->n};
        bw_arena_mark mark = bw_arena_mark_get(ctx);
        bw_status s = bw_audit__scan_file(ctx, a->dir, files->numbers[i],
                                          scan.last ? 0 : 1, &scan);
        bw_arena_release(ctx, mark);
        if (s != BW_OK)
            return s;
        a->firsts[a->nfirsts++] = scan.first_seq ? scan.first_seq : a->seq + 1;
        if (!scan.last)
            continue;
        a->file = files->numbers[i];
        a->file_bytes = scan.good_bytes;
        *cut = scan.torn_bytes;
        if (scan.lines > 0) {
            a->seq = scan.last_seq;
            memcpy(a->head, scan.head, BW_AUDIT_HASH);
        } else if (files->n > 1) { /* rotated, then killed before its first line */
            s = bw_audit__scan_file(ctx, a->dir, files->numbers[i - 1], 0, &scan);
            if (s != BW_OK)
                return s;
            a->seq = scan.last_seq;
            memcpy(a->head, scan.head, BW_AUDIT_HASH);
            a->firsts[a->nfirsts - 1] = a->seq + 1;
        }
    }
    return BW_OK;
}

static bw_status audit_start(bw_ctx *ctx, bw_audit *a)
{
    bw_audit__list files;
    uint64_t cut = 0;
    bw_status s = bw_audit__list_files(ctx, a->dir, &files);
    if (s != BW_OK)
        return s;
    if (files.n == 0)
        return segment_open(ctx, a, 1);
    a->cap_firsts = files.n + 16;
    a->firsts = bw_calloc(a->cap_firsts, sizeof *a->firsts);
    const char *path = bw_audit__path(ctx, a->dir, files.numbers[files.n - 1]);
    if (!a->firsts || !path)
        return bw_fail_nomem(ctx);
    s = recover(ctx, a, &files, &cut);
    if (s != BW_OK)
        return s;
    a->fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (a->fd < 0)
        return bw_fail_errno(ctx, "audit log", errno);
    if (cut > 0 && (ftruncate(a->fd, (off_t)a->file_bytes) != 0 || fsync(a->fd) != 0))
        return bw_fail_errno(ctx, "audit log", errno);
    a->synced = a->seq;
    atomic_store_explicit(&a->written, a->seq, memory_order_release);
    if (cut > 0) {
        bw_audit_record r;
        bw_audit_record_init(&r, ctx, "tail-cut");
        r.folded = cut; /* bytes */
        bw_log(BW_LOG_WARN, "audit: cut a torn last line of %llu bytes",
               (unsigned long long)cut);
        s = bw_audit_write(ctx, a, &r, true);
    }
    return s;
}

bw_status bw_audit_open(bw_ctx *ctx, const char *dir, uint64_t segment_bytes,
                        bw_audit **out)
{
    bw_audit *a = bw_calloc(1, sizeof *a);
    size_t n = strlen(dir) + 1;
    if (!a)
        return bw_fail_nomem(ctx);
    a->fd = -1;
    a->segment_bytes = segment_bytes;
    bw_require(pthread_mutex_init(&a->lock, NULL) == 0 &&
               pthread_mutex_init(&a->sync_lock, NULL) == 0 &&
               pthread_cond_init(&a->sync_done, NULL) == 0);
    a->dir = bw_alloc(n);
    bw_status s = a->dir ? bw_dir_make(ctx, dir) : bw_fail_nomem(ctx);
    if (s == BW_OK) {
        memcpy(a->dir, dir, n);
        s = audit_start(ctx, a);
    }
    if (s == BW_OK)
        *out = a;
    else
        bw_audit_close(a);
    return s;
}

void bw_audit_close(bw_audit *a)
{
    if (!a)
        return;
    if (a->fd >= 0) {
        if (a->reserved > a->file_bytes && ftruncate(a->fd, (off_t)a->file_bytes) != 0)
            bw_log(BW_LOG_WARN, "audit: reserved space was not given back");
        if (fdatasync(a->fd) != 0)
            bw_log(BW_LOG_ERROR, "audit: the last sync failed");
        (void)close(a->fd);
    }
    bw_free(a->firsts);
    bw_free(a->dir);
    (void)pthread_mutex_destroy(&a->lock);
    (void)pthread_mutex_destroy(&a->sync_lock);
    (void)pthread_cond_destroy(&a->sync_done);
    bw_free(a);
}

/* ---- reading ---- */

static bool member_is(const bw_json *o, const char *name, bw_str want)
{
    const bw_json *v = want.ptr ? bw_json_get(o, name) : NULL;
    return !want.ptr || (v && v->kind == BW_JSON_STRING && bw_str_eq(v->str, want));
}

static bool filters(const bw_audit_filter *f)
{
    return f->principal.ptr || f->key.ptr || f->action.ptr || f->collection.ptr ||
           f->event.ptr || f->status != 0;
}

enum { TEXTS = 5 }; /* of a filter */

/* The filter's texts as lines of ours have them: no need to parse one without them. */
static bw_status write_texts(bw_ctx *ctx, const bw_audit_filter *f, bw_str out[TEXTS])
{
    const bw_str texts[TEXTS] = {f->principal, f->key, f->action, f->collection,
                                 f->event};
    bw_buf b = {0};
    bw_status s = BW_OK;
    for (int i = 0; s == BW_OK && i < TEXTS; i++) {
        b.len = 0;
        if (texts[i].ptr)
            bw_json_put_str(&b, texts[i]);
        s = b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), &out[i]);
    }
    bw_buf_clear(&b);
    return s;
}

static bool holds(bw_str line, const bw_str texts[TEXTS])
{
    for (int i = 0; i < TEXTS; i++)
        if (texts[i].len && !memmem(line.ptr, line.len, texts[i].ptr, texts[i].len))
            return false;
    return true;
}

static bool matches(bw_ctx *ctx, bw_str line, const bw_audit_filter *f,
                    const bw_str texts[TEXTS])
{
    bw_json *o;
    uint64_t status = 0;
    if (!filters(f))
        return true;
    if (!holds(line, texts))
        return false;
    if (bw_json_parse(ctx, line,
                      (bw_json_limits){.depth_max = 8, .bytes_max = BW_AUDIT_LINE_MAX},
                      &o) != BW_OK)
        return false;
    if (f->status && (!bw_json_u64(bw_json_get(o, "status"), &status) ||
                      status != (uint64_t)f->status))
        return false;
    return member_is(o, "principal", f->principal) && member_is(o, "key", f->key) &&
           member_is(o, "action", f->action) &&
           member_is(o, "collection", f->collection) && member_is(o, "event", f->event);
}

typedef struct query_walk {
    const bw_audit_filter *f;
    bw_str texts[TEXTS];
    uint64_t after, upto; /* upto: head when the query began */
    bw_buf *out;
    uint32_t found;
    uint64_t looked, next;
} query_walk;

/* Returns false to stop. */
static bool query_line(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line)
{
    query_walk *w = arg;
    if (seq <= w->after)
        return true;
    if (seq > w->upto)
        return false;
    if (w->found == w->f->limit || w->looked > QUERY_BYTES_MAX) {
        w->next = seq - 1;
        return false;
    }
    w->looked += line.len;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    if (matches(ctx, line, w->f, w->texts)) {
        bw_json_sep(w->out);
        bw_buf_str(w->out, line);
        w->found++;
    }
    bw_arena_release(ctx, mark);
    return true;
}

typedef struct last_walk { /* numbers of the newest matches of one file, in a ring */
    const query_walk *w;
    uint64_t *seqs, looked;
    size_t want, n;
} last_walk;

static bool last_line(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line)
{
    last_walk *l = arg;
    if (seq > l->w->upto)
        return false;
    l->looked += line.len;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    if (matches(ctx, line, l->w->f, l->w->texts))
        l->seqs[l->n++ % l->want] = seq;
    bw_arena_release(ctx, mark);
    return true;
}

/* Where the last `limit` matches begin: whole files from the newest back, until they
 * are found or a call's worth of bytes was looked at. */
static bw_status query_last(bw_ctx *ctx, const bw_audit *a, uint64_t file,
                            query_walk *w)
{
    size_t left = w->f->limit;
    last_walk l = {.w = w, .seqs = bw_arena_calloc(ctx, left, sizeof *l.seqs)};
    bw_status s = l.seqs ? BW_OK : bw_fail_nomem(ctx);
    for (; s == BW_OK && file > 0 && left > 0 && l.looked < QUERY_BYTES_MAX; file--) {
        bool go_on = true;
        l.want = left;
        l.n = 0;
        s = bw_audit__walk(ctx, a->dir, file, last_line, &l, &go_on);
        if (l.n > 0)
            w->after = l.seqs[l.n < left ? 0 : l.n % left] - 1;
        left -= l.n < left ? l.n : left;
    }
    return s;
}

static uint64_t file_of(bw_audit *a, uint64_t seq, uint64_t last)
{
    uint64_t file = 1;
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    size_t n =
        a->nfirsts - (size_t)(a->file - last); /* files of when the query began */
    for (size_t i = 0; i < n; i++)
        if (a->firsts[i] <= seq)
            file = last - (n - 1 - i);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    return file;
}

bw_status bw_audit_query(bw_ctx *ctx, bw_audit *a, const bw_audit_filter *f,
                         bw_buf *out, uint64_t *next)
{
    query_walk w = {.f = f, .out = out};
    bw_status s = write_texts(ctx, f, w.texts);
    bool go_on = true;
    if (s != BW_OK)
        return s;
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    uint64_t last = a->file;
    w.upto = a->seq;
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    if (f->has_after)
        w.after = f->after;
    else if (!filters(f))
        w.after = w.upto > f->limit ? w.upto - f->limit : 0;
    else {
        w.after = w.upto;
        s = query_last(ctx, a, last, &w);
    }
    for (uint64_t file = file_of(a, w.after < UINT64_MAX ? w.after + 1 : w.after, last);
         file <= last && go_on && s == BW_OK; file++)
        s = bw_audit__walk(ctx, a->dir, file, query_line, &w, &go_on);
    *next = w.next;
    return s;
}
