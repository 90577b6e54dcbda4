/* Replay (replay.h): picks the requests of a log and runs each through replay_event.c.
 *
 * The chain comes first: what a log that does not hold says of its decisions cannot be
 * relied on. The files that are read are checked line by line and end to end; which files
 * those are is found from the newest backwards, so that asking for the last thousand
 * requests does not read years. */
#include "replay.h"
#include "files.h"
#include "replay_run.h"
#include "v1.h"
#include <sodium.h>

enum { MEM_BYTES = 1 << 30 };

typedef struct picking {
    replay_run *run;
    const char *dir;
    bw_audit__list files;
    bw_audit__scan *scans; /* of files[i]; lines 0 = not looked at */
    uint64_t *counts;      /* wanted requests of files[i] */
    size_t first;          /* files[first …] are read */
    uint64_t *count;       /* of the file being counted */
    uint64_t skip, take, upto;
    bw_buf latest; /* the newest line that names facts */
    bool newest;
    bw_status status;
} picking;

static bool holds(bw_str line, bw_str part)
{
    return memmem(line.ptr, line.len, part.ptr, part.len) != NULL;
}

/* When a line was written: its second member. */
static bool time_of(bw_str line, int64_t *ns)
{
    static const char before[] = ",\"time\":\"";
    const char *at = memmem(line.ptr, line.len, before, sizeof before - 1);
    if (!at)
        return false;
    at += sizeof before - 1;
    const char *end = memchr(at, '"', (size_t)(line.ptr + line.len - at));
    return end && bw_time_parse((bw_str){at, (size_t)(end - at)}, ns);
}

/* A request's event within the time asked for. The writer's own spelling is relied on: the
 * chain has proved that the line is its, and a quote in a client's text is escaped. */
static bool wanted(const replay_run *r, bw_str line)
{
    const bw_replay_options *o = r->o;
    int64_t ns = 0;
    if (!holds(line, BW_STR(",\"event\":\"request\",")))
        return false;
    if (o->since_ns == 0 && o->until_ns == 0)
        return true;
    return time_of(line, &ns) && ns >= o->since_ns &&
           (o->until_ns == 0 || ns < o->until_ns);
}

static bool count_line(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line)
{
    picking *p = arg;
    p->status = bw_ctx_check(ctx);
    if (p->status != BW_OK || seq > p->upto)
        return false;
    *p->count += wanted(p->run, line);
    if (p->newest && holds(line, BW_STR(",\"facts\":\""))) {
        p->latest.len = 0;
        bw_buf_str(&p->latest, line);
    }
    return true;
}

/* Checks and counts one file. */
static bw_status look_at(bw_ctx *ctx, picking *p, size_t i)
{
    static const uint8_t zero[BW_AUDIT_HASH];
    bool go_on = true, last = i + 1 == p->files.n;
    bw_audit__scan *sc = &p->scans[i];
    *sc = (bw_audit__scan){.last = last};
    bw_status s = bw_audit__scan_file(ctx, p->dir, p->files.numbers[i], 0, sc);
    if (s == BW_OK && sc->torn_bytes > 0 && !last)
        s = bw_fail(ctx, BW_ECORRUPT, "audit: %08llu.jsonl ends with a torn line",
                    (unsigned long long)p->files.numbers[i]);
    if (s == BW_OK && i == 0 && sc->lines > 0 &&
        (sc->first_seq != 1 || memcmp(sc->first_prev, zero, sizeof zero) != 0))
        s = bw_fail(ctx, BW_ECORRUPT, "audit: the log does not begin with event 1");
    if (s == BW_OK && !last && p->scans[i + 1].lines > 0 &&
        (p->scans[i + 1].first_seq != sc->last_seq + 1 ||
         memcmp(p->scans[i + 1].first_prev, sc->head, BW_AUDIT_HASH) != 0))
        s = bw_fail(ctx, BW_ECORRUPT, "audit: %08llu.jsonl does not follow the file before",
                    (unsigned long long)p->files.numbers[i + 1]);
    if (s != BW_OK || sc->lines == 0)
        return s;
    p->count = &p->counts[i];
    p->upto = sc->last_seq;
    p->newest = p->latest.len == 0;
    s = bw_audit__walk(ctx, p->dir, p->files.numbers[i], count_line, p, &go_on);
    return s != BW_OK ? s : p->status != BW_OK ? p->status
                          : p->latest.failed   ? bw_fail_nomem(ctx)
                                               : BW_OK;
}

/* From the newest file back until enough requests are found. */
static bw_status pick(bw_ctx *ctx, picking *p)
{
    uint64_t found = 0;
    bw_status s = bw_audit__list_files(ctx, p->dir, &p->files);
    if (s != BW_OK)
        return s;
    p->scans = bw_arena_calloc(ctx, p->files.n + 1, sizeof *p->scans);
    p->counts = bw_arena_calloc(ctx, p->files.n + 1, sizeof *p->counts);
    if (!p->scans || !p->counts)
        return bw_fail_nomem(ctx);
    p->first = p->files.n;
    while (s == BW_OK && p->first > 0 && found < p->take) {
        s = look_at(ctx, p, --p->first);
        found += p->counts[p->first];
    }
    p->skip = found > p->take ? found - p->take : 0;
    return s;
}

static bool run_line(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line)
{
    picking *p = arg;
    replay_run *r = p->run;
    bw_json *v;
    replay_event e;
    if (seq > p->upto)
        return false;
    if (!wanted(r, line))
        return true;
    if (p->skip > 0) {
        p->skip--;
        return true;
    }
    memset(&e, 0, sizeof e);
    e.seq = seq;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    p->status = bw_json_parse(ctx, line, BW_JSON_CEDAR, &v);
    e.v = v;
    if (p->status == BW_OK) {
        p->status = replay_event_run(r, &e);
    } else if (p->status == BW_EINVALID) { /* no writer of ours made it */
        r->decisions++;
        p->status = replay_note_reason(r, &e, 1, "the event is not JSON");
    }
    bw_arena_release(ctx, mark);
    r->from_seq = r->from_seq ? r->from_seq : seq;
    r->to_seq = seq;
    return p->status == BW_OK;
}

/* A candidate that nobody would accept is no report but an error. */
static bw_status try_candidate(replay_run *r, const picking *p)
{
    bw_json *v;
    bw_str policies = {NULL, 0}, facts = {NULL, 0};
    if (!r->candidate || p->latest.len == 0)
        return BW_OK;
    bw_status s = bw_json_parse(r->ctx, bw_buf_view(&p->latest), BW_JSON_CEDAR, &v);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, v, "policies", &policies);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, v, "facts", &facts);
    if (s != BW_OK)
        return s;
    const replay_rules *u = replay_rules_get(r, policies, facts, true);
    if (!u)
        return bw_fail_nomem(r->ctx);
    return u->why ? bw_fail(r->ctx, BW_EINVALID, "%s", u->why) : BW_OK;
}

static bw_status run_all(replay_run *r, picking *p)
{
    bw_status s = try_candidate(r, p);
    for (size_t i = p->first; i < p->files.n && s == BW_OK; i++) {
        bool go_on = true;
        p->upto = p->scans[i].last_seq;
        if (p->scans[i].lines > 0)
            s = bw_audit__walk(r->ctx, p->dir, p->files.numbers[i], run_line, p, &go_on);
        if (s == BW_OK)
            s = p->status;
    }
    return s;
}

bw_status replay_run_open(replay_run *r)
{
    r->mem = bw_ctx_new(MEM_BYTES);
    r->sets = bw_ctx_new(MEM_BYTES);
    bw_map **maps[] = {&r->memo,         &r->rows,      &r->reasons,
                       &r->by_principal, &r->by_action, &r->by_class};
    bool made = r->mem && r->sets;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        made = (*maps[i] = bw_map_new()) != NULL && made;
    return made ? BW_OK : bw_fail_nomem(r->ctx);
}

void replay_run_close(replay_run *r)
{
    replay_rules_clear(r);
    bw_map *maps[] = {r->memo,         r->rows,      r->reasons,
                      r->by_principal, r->by_action, r->by_class};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        bw_map_free(maps[i]);
    bw_register_book_free(r->book);
    bw_ctx_free(r->sets);
    bw_ctx_free(r->mem);
}

static void put_head(const picking *p, bw_buf *out)
{
    char hex[2 * BW_AUDIT_HASH + 1];
    const bw_audit__scan *sc = NULL;
    for (size_t i = p->first; i < p->files.n; i++)
        if (p->scans[i].lines > 0)
            sc = &p->scans[i];
    if (!sc || out->failed || out->len == 0)
        return;
    sodium_bin2hex(hex, sizeof hex, sc->head, sizeof sc->head);
    out->len--; /* before the closing brace */
    bw_buf_printf(out, ",\"head\":{\"seq\":%llu,\"hash\":\"%s\"}}",
                  (unsigned long long)sc->last_seq, hex);
}

bw_status bw_replay_run(bw_ctx *ctx, const bw_replay_options *o, bw_buf *out)
{
    replay_run r = {.ctx = ctx, .o = o};
    picking p = {.run = &r,
                 .dir = o->audit ? o->audit : bw_path_join(ctx, o->dir, "audit"),
                 .take = o->last ? o->last : BW_REPLAY_LAST_MAX};
    r.candidate = o->policies.ptr || o->entities.ptr || o->overlay.ptr;
    if (!p.dir)
        return bw_fail_nomem(ctx);
    bw_status s = replay_run_open(&r);
    if (s == BW_OK)
        s = bw_register_read(ctx, p.dir, &r.book);
    if (s == BW_OK)
        s = pick(ctx, &p);
    if (s == BW_OK)
        s = run_all(&r, &p);
    if (s == BW_OK)
        s = replay_report_put(&r, out);
    if (s == BW_OK)
        put_head(&p, out);
    replay_run_close(&r);
    bw_buf_clear(&p.latest);
    return s;
}
