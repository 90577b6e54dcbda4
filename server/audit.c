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
#include "../ingest/rules.h"
#include "audit_file.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESERVE_MIN = 4 << 20, RESERVE_STEP = 16 << 20 };

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

/* ---- the record as JSON ---- */

void bw_audit_record_init(bw_audit_record *a, bw_ctx *ctx, const char *event)
{
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->event = event;
}

void bw_audit_record_clear(bw_audit_record *a)
{
    bw_buf_clear(&a->ids);
}

void bw_audit_add_permit(bw_audit_record *a, bw_action action, const uint8_t digest[16],
                         size_t n, const uint8_t *list, size_t named)
{
    static const uint8_t none[BW_LIST_DIGEST];
    const uint8_t *of = list ? list : none;
    for (size_t i = 0; i < a->npermits; i++)
        if (a->permits[i].action == action && a->permits[i].named == named &&
            memcmp(a->permits[i].list, of, BW_LIST_DIGEST) == 0 &&
            memcmp(a->permits[i].digest, digest, 16) == 0)
            return;
    if (a->npermits ==
        BW_AUDIT_PERMITS_MAX) { /* /v1/classes asks for each collection's */
        unsigned char link[16 + 1 + 16];
        memcpy(link, a->more_digest, 16);
        link[16] = (unsigned char)action;
        memcpy(link + 17, digest, 16);
        bw_require(crypto_generichash(a->more_digest, 16, link, sizeof link, NULL, 0) ==
                   0);
        a->more_permits++;
        return;
    }
    a->permits[a->npermits].action = action;
    memcpy(a->permits[a->npermits].digest, digest, 16);
    memcpy(a->permits[a->npermits].list, of, BW_LIST_DIGEST);
    a->permits[a->npermits].has_list = list != NULL;
    a->permits[a->npermits].named = (uint32_t)named;
    a->permits[a->npermits++].n = (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX);
}

/* "a, b" in the arena; "" when there are none, or no memory. */
static bw_str joined(bw_ctx *ctx, const bw_str *names, size_t n)
{
    bw_buf b = {0};
    bw_str kept = BW_STR("");
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(&b, i ? ", " : "");
        bw_buf_str(&b, names[i]);
    }
    if (b.failed || bw_arena_str(ctx, bw_buf_view(&b), &kept) != BW_OK)
        kept = BW_STR("");
    bw_buf_clear(&b);
    return kept;
}

void bw_audit_add_decision(bw_audit_record *a, bw_action action,
                           const bw_audit_subject *about, const bw_decision *d)
{
    bw_audit_decision *to = NULL;
    if (d->allow && a->nallowed < BW_AUDIT_ALLOWED_MAX)
        to = &a->allowed[a->nallowed++];
    else if (d->allow)
        a->more_allowed++;
    else if (a->ndenials < BW_AUDIT_DENIALS_MAX)
        to = &a->denials[a->ndenials++]; /* the first ones name the cause */
    if (!to)
        return;
    *to = (bw_audit_decision){action, *about, BW_STR(""), BW_STR("")};
    if (about->class_id) {
        bw_class_id *id = bw_arena_alloc(a->ctx, sizeof *id);
        if (id)
            *id = *about->class_id;
        to->about.class_id = id;
    }
    if (!d->allow)
        to->policies = joined(a->ctx, d->policies, d->npolicies);
    to->errors = joined(a->ctx, d->errors, d->nerrors);
}

void bw_audit_add_id(bw_audit_record *a, const bw_point_id *id,
                     const bw_class_id *class_id)
{
    char hex[BW_CLASS_TEXT + 1];
    if (!a)
        return;
    if (!a->ids_hash) {
        size_t want = crypto_generichash_statebytes();
        char *p = bw_arena_alloc(a->ctx, want + 64);
        if (!p)
            return; /* memory is out: the request fails on its own */
        a->ids_hash = p + (64 - ((uintptr_t)p & 63)) % 64;
        bw_require(crypto_generichash_init(a->ids_hash, NULL, 0, 16) == 0);
    }
    bw_require(crypto_generichash_update(
                   a->ids_hash, (const unsigned char *)class_id->bytes, 32) == 0);
    bw_require(crypto_generichash_update(a->ids_hash, (const unsigned char *)id,
                                         sizeof *id) == 0);
    if (a->nids < BW_AUDIT_IDS_MAX) {
        if (a->nids == 0 || bw_class_id_cmp(class_id, &a->ids_class) != 0) {
            bw_class_id_hex(class_id, hex);
            bw_buf_printf(&a->ids, "%s{\"class\":\"%s\",\"ids\":[",
                          a->nids ? "]}," : "", hex);
            a->ids_class = *class_id;
        }
        bw_json_sep(&a->ids);
        bw_json_put_point_id(&a->ids, id);
    }
    a->nids++;
}

/* A string that a client chose: cut at a character's end, made valid UTF-8 by dropping
 * what is not. Control characters are escaped by the JSON writer. */
static void put_text(bw_buf *b, const char *name, bw_str s)
{
    if (!s.ptr || s.len == 0)
        return;
    size_t n = s.len < BW_AUDIT_TEXT_MAX ? s.len : BW_AUDIT_TEXT_MAX;
    while (n > 0 && n < s.len && ((unsigned char)s.ptr[n] & 0xC0) == 0x80)
        n--;
    bw_json_put_key(b, name);
    if (bw_utf8_valid(s.ptr, n)) {
        bw_json_put_str(b, (bw_str){s.ptr, n});
        return;
    }
    bw_buf_putc(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            bw_buf_putc(b, (char)c);
        else
            bw_buf_printf(b, "\\\\x%02x", c); /* reads back as \xNN */
    }
    bw_buf_putc(b, '"');
}

static void put_permits(bw_buf *b, const bw_audit_record *r)
{
    char hex[2 * BW_LIST_DIGEST + 1];
    if (r->npermits > 0) {
        bw_json_put_key(b, "permitted");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->npermits; i++) {
            sodium_bin2hex(hex, sizeof hex, r->permits[i].digest, 16);
            bw_buf_printf(b, "%s{\"action\":\"%s\",\"set\":\"%s\",\"classes\":%u",
                          i ? "," : "", bw_action_name(r->permits[i].action), hex,
                          r->permits[i].n);
            sodium_bin2hex(hex, sizeof hex, r->permits[i].list, BW_LIST_DIGEST);
            if (r->permits[i].has_list)
                bw_buf_printf(b, ",\"of\":\"%s\"", hex);
            if (r->permits[i].named > 0)
                bw_buf_printf(b, ",\"named\":%u", r->permits[i].named);
            bw_buf_putc(b, '}');
        }
        bw_buf_putc(b, ']');
    }
    if (r->more_permits > 0) {
        sodium_bin2hex(hex, sizeof hex, r->more_digest, 16);
        bw_buf_printf(b, ",\"permitted_more\":{\"sets\":%llu,\"digest\":\"%s\"}",
                      (unsigned long long)r->more_permits, hex);
    }
}

static void put_class(bw_buf *b, const bw_class_id *id)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_class_id_hex(id, hex);
    bw_buf_printf(b, "\"%s\"", hex);
}

static void put_decision(bw_buf *b, const bw_audit_decision *d, bool denied)
{
    bw_json_sep(b);
    bw_buf_printf(b, "{\"action\":\"%s\"", bw_action_name(d->action));
    if (d->about.class_id) {
        bw_buf_puts(b, ",\"class\":");
        put_class(b, d->about.class_id);
    } else if (d->about.kind && strcmp(d->about.kind, "Collection") == 0) {
        bw_json_put_key(b, "on"); /* even "": a list of collections is asked so */
        bw_json_put_str(b, d->about.name);
    } else if (d->about.kind) {
        bw_buf_puts(b, ",\"cell\":true");
    }
    if (d->about.labels.len > 0) {
        bw_json_put_key(b, "labels");
        bw_buf_str(b, d->about.labels);
    }
    if (d->about.no_purpose)
        bw_buf_puts(b, ",\"purpose\":\"\"");
    if (denied) {
        bw_json_put_key(b, "policies");
        bw_json_put_str(b, d->policies);
    }
    if (d->errors.len > 0) {
        bw_json_put_key(b, "errors");
        bw_json_put_str(b, d->errors);
    }
    bw_buf_putc(b, '}');
}

static void put_decisions(bw_buf *b, const bw_audit_record *r)
{
    put_permits(b, r);
    if (r->nnamed > 0) {
        bw_json_put_key(b, "named");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->nnamed; i++) {
            bw_json_sep(b);
            put_class(b, &r->named[i]);
        }
        bw_buf_putc(b, ']');
    }
    if (r->nallowed > 0) {
        bw_json_put_key(b, "allowed");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->nallowed; i++)
            put_decision(b, &r->allowed[i], false);
        bw_buf_putc(b, ']');
    }
    if (r->more_allowed > 0) {
        bw_json_put_key(b, "allowed_more");
        bw_json_put_u64(b, r->more_allowed);
    }
    if (r->ndenials > 0) {
        bw_json_put_key(b, "denied");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->ndenials; i++)
            put_decision(b, &r->denials[i], true);
        bw_buf_putc(b, ']');
    }
}

static void put_words(bw_buf *b, const char *name, const bw_str *words, size_t n)
{
    bw_json_put_key(b, name);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, words[i]);
    }
    bw_buf_putc(b, ']');
}

/* What the key proved when it was used: a record may be replaced later. */
static void put_who(bw_buf *b, const bw_principal *p)
{
    bw_json_put_key(b, "seat");
    bw_json_put_str(b, p->seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, p->clearance);
    put_words(b, "roles", p->roles, p->nroles);
}

static void put_labelling(bw_buf *b, const bw_audit_record *r)
{
    uint32_t any = 0;
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        any |= r->found[k];
    if (r->labelled.len > 0) {
        bw_json_put_key(b, "labelled");
        bw_buf_str(b, r->labelled);
    }
    if (r->relabelled.len > 0) {
        bw_json_put_key(b, "relabelled");
        bw_buf_str(b, r->relabelled);
    }
    if (any) {
        bw_json_put_key(b, "found");
        bw_detected_put(r->found, b);
    }
}

static void put_members(bw_buf *b, const bw_audit_record *r)
{
    bw_json_put_key(b, "event");
    bw_json_put_str(b, bw_str_c(r->event));
    if (r->request_id) {
        bw_buf_printf(b, ",\"request\":\"%016llx\"", (unsigned long long)r->request_id);
    }
    put_text(b, "key", r->key_id);
    put_text(b, "principal", r->principal);
    put_text(b, "tenant", r->tenant);
    if (r->who && strcmp(r->event, "begin") != 0) /* its request event says it */
        put_who(b, r->who);
    put_text(b, "method", r->method);
    if (r->pattern)
        put_text(b, "route", bw_str_c(r->pattern));
    else
        put_text(b, "path", r->path);
    put_text(b, "collection", r->collection);
    if (r->action)
        put_text(b, "action", bw_str_c(r->action));
    put_text(b, "purpose", r->purpose);
    if (r->nsafeguards > 0)
        put_words(b, "safeguards", r->safeguards, r->nsafeguards);
    put_decisions(b, r);
    put_labelling(b, r);
    if (r->policy_version) {
        bw_json_put_key(b, "policy_version");
        bw_json_put_u64(b, r->policy_version);
    }
    if (r->policy_version_end != 0 && r->policy_version_end != r->policy_version) {
        bw_json_put_key(b, "policy_version_end");
        bw_json_put_u64(b, r->policy_version_end);
    }
    put_text(b, "policies", r->policy_digest);
    put_text(b, "facts", r->facts_digest);
    put_text(b, "policies_end", r->policy_digest_end);
    put_text(b, "facts_end", r->facts_digest_end);
    put_text(b, "catalogue", r->catalogue_version);
    if (r->status) {
        bw_json_put_key(b, "status");
        bw_json_put_u64(b, (uint64_t)r->status);
    }
    if (r->folded > 1) {
        bw_json_put_key(b, "times");
        bw_json_put_u64(b, r->folded);
    }
    if (r->nids > 0) {
        unsigned char digest[16];
        char hex[33];
        crypto_generichash_state state;
        memcpy(&state, r->ids_hash, crypto_generichash_statebytes());
        bw_require(crypto_generichash_final(&state, digest, sizeof digest) == 0);
        sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
        bw_json_put_key(b, "returned");
        bw_json_put_u64(b, r->nids);
        bw_json_put_key(b, "returned_digest");
        bw_json_put_str(b, bw_str_c(hex));
        bw_json_put_key(b, "ids");
        bw_buf_putc(b, '[');
        bw_buf_str(b, bw_buf_view(&r->ids));
        bw_buf_puts(b, "]}]");
    }
}

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
    char when[40], hex[2 * BW_AUDIT_HASH + 1];
    bw_time_format(now_ns ? now_ns : bw_clock_unix_ns(), when);
    bw_buf_printf(&b, "{\"seq\":%llu,\"time\":\"%s\"", (unsigned long long)(a->seq + 1),
                  when);
    if (members.len > 0)
        bw_buf_putc(&b, ',');
    bw_buf_str(&b, members);
    sodium_bin2hex(hex, sizeof hex, a->head, sizeof a->head);
    bw_buf_printf(&b, ",\"prev\":\"%s\"", hex);
    bw_audit__hash(a->head, bw_buf_view(&b), hash);
    sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    bw_buf_printf(&b, ",\"hash\":\"%s\"}\n", hex);
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
    put_members(&members, r);
    bw_status s =
        members.failed || r->ids.failed ? bw_fail_nomem(ctx) : bw_audit_ready(ctx, a);
    if (s == BW_OK) {
        bw_require(pthread_mutex_lock(&a->lock) == 0);
        if (a->broken)
            s = bw_fail(ctx, BW_EUNAVAILABLE, "the audit log is closed after an error");
        if (s == BW_OK && a->file_bytes >= a->segment_bytes)
            s = segment_open(ctx, a, a->file + 1);
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

static bool matches(bw_ctx *ctx, bw_str line, const bw_audit_filter *f)
{
    bw_json *o;
    uint64_t status = 0;
    if (!f->principal.ptr && !f->key.ptr && !f->action.ptr && !f->collection.ptr &&
        !f->event.ptr && f->status == 0)
        return true;
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
    if (w->found == w->f->limit || w->looked > (uint64_t)64 << 20) {
        w->next = seq - 1;
        return false;
    }
    w->looked += line.len;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    if (matches(ctx, line, w->f)) {
        bw_json_sep(w->out);
        bw_buf_str(w->out, line);
        w->found++;
    }
    bw_arena_release(ctx, mark);
    return true;
}

bw_status bw_audit_query(bw_ctx *ctx, bw_audit *a, const bw_audit_filter *f,
                         bw_buf *out, uint64_t *next)
{
    query_walk w = {.f = f, .out = out};
    uint64_t file = 1, last;
    bw_require(pthread_mutex_lock(&a->lock) == 0);
    w.upto = a->seq;
    w.after = f->has_after ? f->after : (a->seq > f->limit ? a->seq - f->limit : 0);
    last = a->file;
    for (size_t i = 0; i < a->nfirsts; i++)
        if (a->firsts[i] <= w.after + 1)
            file = last - (a->nfirsts - 1 - i);
    bw_require(pthread_mutex_unlock(&a->lock) == 0);
    bw_status s = BW_OK;
    bool go_on = true;
    for (; file <= last && go_on && s == BW_OK; file++)
        s = bw_audit__walk(ctx, a->dir, file, query_line, &w, &go_on);
    *next = w.next;
    return s;
}
