/* Reads, checks and walks the audit log's files; the offline verifier. The format is in
 * audit.c. Needs no running cell, no key and no secret. */
#include "audit_file.h"
#include "files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_CHUNK = 1 << 16 };
#define HASH_MEMBER ",\"hash\":\""
#define PREV_MEMBER ",\"prev\":\""
enum {
    HASH_TAIL = sizeof HASH_MEMBER - 1 + 64 + 2,
    PREV_TAIL = sizeof PREV_MEMBER - 1 + 64 + 1
};

const char *bw_audit__path(bw_ctx *ctx, const char *dir, uint64_t number)
{
    return bw_arena_printf(ctx, "%s/%08llu.jsonl", dir, (unsigned long long)number);
}

void bw_audit__hash(const uint8_t prev[BW_AUDIT_HASH], bw_str bytes,
                    uint8_t out[BW_AUDIT_HASH])
{
    crypto_generichash_state st;
    bw_require(crypto_generichash_init(&st, NULL, 0, BW_AUDIT_HASH) == 0 &&
               crypto_generichash_update(&st, prev, BW_AUDIT_HASH) == 0 &&
               crypto_generichash_update(&st, (const unsigned char *)bytes.ptr,
                                         bytes.len) == 0 &&
               crypto_generichash_final(&st, out, BW_AUDIT_HASH) == 0);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* "00000012.jsonl" -> 12; 0 = not one of ours. */
static uint64_t file_number(const char *name)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; name[i] >= '0' && name[i] <= '9' && i < 18; i++)
        n = n * 10 + (uint64_t)(name[i] - '0');
    return i >= 8 && strcmp(name + i, ".jsonl") == 0 ? n : 0;
}

bw_status bw_audit__list_files(bw_ctx *ctx, const char *dir, bw_audit__list *out)
{
    uint64_t *v = NULL;
    size_t n = 0, cap = 0;
    bw_status s = BW_OK;
    DIR *d = opendir(dir);
    if (!d)
        return bw_fail_errno(ctx, dir, errno);
    for (struct dirent *e; s == BW_OK && (errno = 0, e = readdir(d)) != NULL;) {
        uint64_t number = file_number(e->d_name);
        if (number == 0)
            continue;
        if (n == cap) {
            size_t bytes = cap * sizeof *v;
            cap = cap ? cap * 2 : 64;
            v = bw_arena_grow(ctx, v, bytes, cap * sizeof *v);
            if (!v)
                s = bw_fail_nomem(ctx);
        }
        if (v)
            v[n++] = number;
    }
    (void)closedir(d);
    if (s != BW_OK)
        return s;
    if (n > 0)
        qsort(v, n, sizeof *v, by_number);
    for (size_t i = 1; i < n; i++)
        if (v[i] != v[i - 1] + 1)
            return bw_fail(ctx, BW_ECORRUPT, "audit: file %08llu.jsonl is missing",
                           (unsigned long long)(v[i - 1] + 1));
    *out = (bw_audit__list){v, n};
    return BW_OK;
}

/* ---- lines ---- */

typedef struct line_reader {
    int fd;
    bw_buf buf;
    size_t at;       /* next byte to look at */
    uint64_t offset; /* of buf's first byte in the file */
    bool eof;
} line_reader;

/* The next whole line without its LF; *more false at the end (a torn rest stays in
 * buf). */
static bw_status line_next(bw_ctx *ctx, line_reader *r, bw_str *line, bool *more)
{
    char chunk[READ_CHUNK];
    size_t from = r->at;
    for (;;) {
        char *lf = r->buf.len > from
                       ? memchr(r->buf.ptr + from, '\n', r->buf.len - from)
                       : NULL;
        if (lf) {
            *line = (bw_str){r->buf.ptr + r->at, (size_t)(lf - r->buf.ptr) - r->at};
            r->at = (size_t)(lf - r->buf.ptr) + 1;
            *more = true;
            return BW_OK;
        }
        if (r->eof || r->buf.len - r->at > BW_AUDIT_LINE_MAX) {
            *more = false;
            return BW_OK;
        }
        if (r->at > 0) { /* drop what was read */
            memmove(r->buf.ptr, r->buf.ptr + r->at, r->buf.len - r->at);
            r->buf.len -= r->at;
            r->offset += r->at;
            r->at = 0;
        }
        from = r->buf.len;
        ssize_t n = read(r->fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bw_fail_errno(ctx, "audit log", errno);
        r->eof = n == 0;
        bw_buf_put(&r->buf, chunk, (size_t)n);
        if (r->buf.failed)
            return bw_fail_nomem(ctx);
    }
}

static bool line_seq(bw_str line, uint64_t *seq)
{
    static const char head[] = "{\"seq\":";
    uint64_t n = 0;
    size_t i = sizeof head - 1;
    if (line.len < i || memcmp(line.ptr, head, i) != 0)
        return false;
    size_t begin = i;
    for (; i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9'; i++)
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(line.ptr[i] - '0'), &n))
            return false;
    *seq = n;
    return i > begin && i < line.len && line.ptr[i] == ',';
}

static bool hex32(const char *p, uint8_t out[BW_AUDIT_HASH])
{
    size_t got = 0;
    const char *end = NULL;
    if (sodium_hex2bin(out, BW_AUDIT_HASH, p, 2 * BW_AUDIT_HASH, NULL, &got, &end) !=
            0 ||
        got != BW_AUDIT_HASH || end != p + 2 * BW_AUDIT_HASH)
        return false;
    for (size_t i = 0; i < 2 * BW_AUDIT_HASH; i++)
        if (p[i] >= 'A' && p[i] <= 'F') /* one spelling only: every byte counts */
            return false;
    return true;
}

/* Splits a line into its number, prev and hash, and checks the hash. */
static bool line_check(bw_str line, uint64_t *seq, uint8_t prev[BW_AUDIT_HASH],
                       uint8_t hash[BW_AUDIT_HASH])
{
    uint8_t want[BW_AUDIT_HASH];
    if (line.len < HASH_TAIL + PREV_TAIL || !line_seq(line, seq))
        return false;
    const char *tail = line.ptr + line.len - HASH_TAIL;
    const char *before = tail - PREV_TAIL;
    if (memcmp(tail, HASH_MEMBER, sizeof HASH_MEMBER - 1) != 0 ||
        memcmp(tail + HASH_TAIL - 2, "\"}", 2) != 0 ||
        memcmp(before, PREV_MEMBER, sizeof PREV_MEMBER - 1) != 0 || tail[-1] != '"' ||
        !hex32(tail + sizeof HASH_MEMBER - 1, hash) ||
        !hex32(before + sizeof PREV_MEMBER - 1, prev))
        return false;
    bw_audit__hash(prev, (bw_str){line.ptr, (size_t)(tail - line.ptr)}, want);
    return memcmp(want, hash, BW_AUDIT_HASH) == 0;
}

static bw_status reader_open(bw_ctx *ctx, const char *dir, uint64_t number,
                             line_reader *r)
{
    const char *path = bw_audit__path(ctx, dir, number);
    memset(r, 0, sizeof *r);
    r->fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (!path)
        return bw_fail_nomem(ctx);
    return r->fd < 0 ? bw_fail_errno(ctx, "audit log", errno) : BW_OK;
}

static void reader_close(line_reader *r)
{
    bw_buf_clear(&r->buf);
    if (r->fd >= 0)
        (void)close(r->fd);
}

/* Walks one file; checks each line against the one before when there is one. */
static bw_status scan(bw_ctx *ctx, line_reader *r, uint64_t number, uint64_t lines_max,
                      bw_audit__scan *out)
{
    bw_str line;
    bool more = true;
    bw_status s = BW_OK;
    while (s == BW_OK && (lines_max == 0 || out->lines < lines_max)) {
        uint64_t seq = 0;
        uint8_t prev[BW_AUDIT_HASH], hash[BW_AUDIT_HASH];
        s = line_next(ctx, r, &line, &more);
        if (s != BW_OK || !more)
            break;
        if (!line_check(line, &seq, prev, hash))
            return bw_fail(ctx, BW_ECORRUPT,
                           "audit: %08llu.jsonl, line %llu does not fit its hash",
                           (unsigned long long)number,
                           (unsigned long long)(out->lines + 1));
        if (out->lines > 0 &&
            (seq != out->last_seq + 1 || memcmp(prev, out->head, BW_AUDIT_HASH) != 0))
            return bw_fail(
                ctx, BW_ECORRUPT,
                "audit: %08llu.jsonl, line %llu does not follow the one before",
                (unsigned long long)number, (unsigned long long)(out->lines + 1));
        if (out->lines == 0) {
            out->first_seq = seq;
            memcpy(out->first_prev, prev, BW_AUDIT_HASH);
        }
        out->last_seq = seq;
        memcpy(out->head, hash, BW_AUDIT_HASH);
        out->lines++;
        out->good_bytes = r->offset + r->at;
    }
    if (s == BW_OK && !more) {
        if (r->buf.len - r->at > BW_AUDIT_LINE_MAX)
            return bw_fail(
                ctx, BW_ECORRUPT, "audit: %08llu.jsonl, line %llu is too long",
                (unsigned long long)number, (unsigned long long)(out->lines + 1));
        out->torn_bytes = r->buf.len - r->at;
    }
    return s;
}

bw_status bw_audit__scan_file(bw_ctx *ctx, const char *dir, uint64_t number,
                              uint64_t lines_max, bw_audit__scan *out)
{
    line_reader r;
    bool last = out->last;
    memset(out, 0, sizeof *out);
    out->last = last;
    bw_status s = reader_open(ctx, dir, number, &r);
    if (s == BW_OK)
        s = scan(ctx, &r, number, lines_max, out);
    reader_close(&r);
    return s;
}

bw_status bw_audit__walk(bw_ctx *ctx, const char *dir, uint64_t number,
                         bw_audit__line_fn fn, void *arg, bool *go_on)
{
    line_reader r;
    bw_str line;
    bool more = true;
    bw_status s = reader_open(ctx, dir, number, &r);
    while (s == BW_OK && *go_on) {
        uint64_t seq;
        s = line_next(ctx, &r, &line, &more);
        if (s != BW_OK || !more)
            break;
        if (!line_seq(line, &seq))
            s = bw_fail(ctx, BW_ECORRUPT, "audit: a line of %08llu.jsonl has no number",
                        (unsigned long long)number);
        else
            *go_on = fn(ctx, arg, seq, line);
    }
    reader_close(&r);
    return s;
}

/* ---- the verifier ---- */

typedef struct expectation {
    uint64_t seq;
    const uint8_t *hash;
    bool found;
} expectation;

static bool expect_line(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line)
{
    expectation *e = arg;
    uint8_t prev[BW_AUDIT_HASH], hash[BW_AUDIT_HASH];
    uint64_t n;
    (void)ctx;
    if (seq != e->seq)
        return seq < e->seq;
    e->found =
        line_check(line, &n, prev, hash) && memcmp(hash, e->hash, BW_AUDIT_HASH) == 0;
    return false;
}

bw_status bw_audit_verify(bw_ctx *ctx, const char *dir, uint64_t expect_seq,
                          const uint8_t expect_hash[BW_AUDIT_HASH],
                          bw_audit_report *out)
{
    static const uint8_t zero[BW_AUDIT_HASH];
    bw_audit__list files;
    bw_audit_report rep;
    memset(&rep, 0, sizeof rep);
    bw_status s = bw_audit__list_files(ctx, dir, &files);
    for (size_t i = 0; s == BW_OK && i < files.n; i++) {
        bw_audit__scan sc = {.last = i + 1 == files.n};
        unsigned long long number = files.numbers[i];
        s = bw_audit__scan_file(ctx, dir, files.numbers[i], 0, &sc);
        if (s != BW_OK)
            break;
        if (sc.torn_bytes > 0)
            return bw_fail(ctx, BW_ECORRUPT, "audit: %08llu.jsonl, line %llu is torn%s",
                           number, (unsigned long long)(sc.lines + 1),
                           sc.last ? ": a crash left it, and the next start cuts it"
                                   : "");
        if (sc.lines == 0 && !sc.last)
            return bw_fail(ctx, BW_ECORRUPT, "audit: %08llu.jsonl is empty", number);
        if (sc.lines == 0)
            continue;
        if (rep.events == 0 &&
            (sc.first_seq != 1 || memcmp(sc.first_prev, zero, sizeof zero) != 0))
            return bw_fail(ctx, BW_ECORRUPT,
                           "audit: the log does not begin with event 1");
        if (rep.events > 0 && (sc.first_seq != rep.last_seq + 1 ||
                               memcmp(sc.first_prev, rep.head, sizeof zero) != 0))
            return bw_fail(
                ctx, BW_ECORRUPT,
                "audit: %08llu.jsonl, line 1 does not follow the file before", number);
        rep.events += sc.lines;
        rep.files++;
        rep.first_seq = 1;
        rep.last_seq = sc.last_seq;
        memcpy(rep.head, sc.head, sizeof rep.head);
        if (expect_seq >= sc.first_seq && expect_seq <= sc.last_seq &&
            expect_seq != 0) {
            expectation e = {expect_seq, expect_hash, false};
            bool go_on = true;
            s = bw_audit__walk(ctx, dir, files.numbers[i], expect_line, &e, &go_on);
            rep.expected_found = e.found;
        }
    }
    if (s == BW_OK && expect_seq != 0 && !rep.expected_found)
        s = bw_fail(ctx, BW_ECORRUPT,
                    "audit: event %llu is not there with that hash: the log was cut or "
                    "rewritten",
                    (unsigned long long)expect_seq);
    if (s == BW_OK)
        *out = rep;
    return s;
}
