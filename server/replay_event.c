/* One request of the log: its decisions taken again, under the recorded rules first.
 *
 * A permitted set is reproduced when the same digest comes out of the same list of
 * classes; a single decision when it has the same answer, and a denial the same policies
 * and errors. When rules came into force while the request ran, those of its begin or
 * those of its end may have decided. Whatever differs, or cannot be asked for want of a
 * text, is noted with its reason and goes no further: what a candidate would change can
 * only be told of a decision that is understood. */
#include "replay_run.h"
#include "v1.h"
#include <sodium.h>

enum { MEMO_SETS_MAX = 1 << 16, MEMO_BYTES_MAX = 256 << 20 };

#define DIFFERS "the recorded rules decide otherwise than the log says"

typedef struct set_turns { /* what came of one set; kept for equal ones */
    const char *reason;    /* not reproduced */
    uint64_t decisions, allow, deny;
    replay_turn *turns;
    size_t nturns;
} set_turns;

static bw_status nomem(replay_run *r)
{
    return bw_fail_nomem(r->ctx);
}

static void question(const replay_event *e, bw_action action, bw_question *q)
{
    *q = (bw_question){.principal = &e->who,
                       .action = action,
                       .purpose = e->purpose,
                       .safeguards = e->safeguards,
                       .nsafeguards = e->nsafeguards,
                       .now_ns = e->now_ns};
}

static bool hex16(const bw_json *v, uint8_t out[16])
{
    size_t got = 0;
    return v && v->kind == BW_JSON_STRING && v->str.len == 32 &&
           sodium_hex2bin(out, 16, v->str.ptr, v->str.len, NULL, &got, NULL) == 0 &&
           got == 16;
}

bw_status replay_join(bw_ctx *mem, const bw_str *names, size_t n, bw_str *out)
{
    bw_buf b = {0};
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(&b, i ? ", " : "");
        bw_buf_str(&b, names[i]);
    }
    bw_status s = b.failed ? BW_ENOMEM : bw_arena_str(mem, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return s;
}

/* ---- the two states of the rules that a request may have met ---- */

typedef struct rules_pair {
    bw_str policies, facts;
} rules_pair;

static size_t pairs_of(const replay_event *e, rules_pair out[2])
{
    out[0] = (rules_pair){e->policies, e->facts};
    out[1] = (rules_pair){e->policies_end.ptr ? e->policies_end : e->policies,
                          e->facts_end.ptr ? e->facts_end : e->facts};
    return e->policies_end.ptr || e->facts_end.ptr ? 2 : 1;
}

/* ---- permitted sets ---- */

typedef struct set_question {
    bw_action action;
    uint8_t set[16];
    bw_class_id *ids;
    bw_str *texts;
    size_t n;
} set_question;

static bool parse_class(const bw_json *v, bw_class_id *out)
{
    return v && v->kind == BW_JSON_STRING && bw_class_id_parse(v->str, out);
}

static void add_named(const replay_event *e, uint64_t named, set_question *q,
                      const char **why)
{
    const bw_json *list = bw_json_get(e->v, "named"), *v = list ? list->child : NULL;
    for (uint64_t i = 0; i < named; i++, v = v->next) {
        bw_class_id id;
        if (!v || !parse_class(v, &id)) {
            *why = "the event does not name the classes that a set was decided over";
            return;
        }
        size_t at = 0;
        while (at < q->n && bw_class_id_cmp(&q->ids[at], &id) < 0)
            at++;
        if (at < q->n && bw_class_id_cmp(&q->ids[at], &id) == 0)
            continue;
        memmove(&q->ids[at + 1], &q->ids[at], (q->n - at) * sizeof id);
        q->ids[at] = id;
        q->n++;
    }
}

/* The classes and texts of a recorded set; *why when they cannot be had. */
static bw_status set_parse(replay_run *r, const replay_event *e, const bw_json *p,
                           set_question *q, const char **why)
{
    uint8_t list[BW_LIST_DIGEST];
    const bw_class_id *ids;
    uint64_t named = 0;
    bw_str action = {NULL, 0};
    size_t n = 0;
    bw_status s = bw_v1_string(r->ctx, p, "action", &action);
    memset(q, 0, sizeof *q);
    (void)bw_json_u64(bw_json_get(p, "named"), &named);
    if (s != BW_OK || !bw_action_parse(action, &q->action) ||
        !hex16(bw_json_get(p, "set"), q->set) || !hex16(bw_json_get(p, "of"), list) ||
        named > 100000) {
        *why = "the event does not name the classes that a set was decided over";
        return BW_OK;
    }
    s = bw_register_ids(r->ctx, r->book, list, &ids, &n);
    if (s == BW_ENOTFOUND) {
        *why = "the register does not have the list of classes of a set";
        return BW_OK;
    }
    if (s != BW_OK)
        return s;
    q->ids = bw_arena_calloc(r->ctx, n + named + 1, sizeof *q->ids);
    q->texts = bw_arena_calloc(r->ctx, n + named + 1, sizeof *q->texts);
    if (!q->ids || !q->texts)
        return nomem(r);
    if (n > 0)
        memcpy(q->ids, ids, n * sizeof *ids);
    q->n = n;
    add_named(e, named, q, why);
    for (size_t i = 0; i < q->n && !*why; i++)
        if (!bw_register_text(r->book, &q->ids[i], &q->texts[i]))
            *why = "the register does not have the labels of a class";
    return BW_OK;
}

static bw_status keep_turn(replay_run *r, set_turns *out, bw_authority *a,
                           const bw_question *q, const bw_class_id *id, bw_str text)
{
    bw_decision d;
    replay_turn *t = &out->turns[out->nturns];
    bw_class_id *copy = bw_arena_alloc(r->sets, sizeof *copy);
    bw_status s = bw_decide_class(r->ctx, a, q, id, text, &d);
    if (s != BW_OK)
        return s;
    if (!copy || replay_join(r->sets, d.policies, d.npolicies, &t->policies) != BW_OK ||
        replay_join(r->sets, d.errors, d.nerrors, &t->errors) != BW_OK)
        return nomem(r);
    *copy = *id;
    t->action = q->action;
    t->about = (replay_subject){.class_id = copy, .labels = text};
    t->allow = d.allow;
    out->nturns++;
    return BW_OK;
}

static bw_status set_compare(replay_run *r, const replay_rules *cand, const bw_question *q,
                             const set_question *sq, const bw_permit *was, set_turns *out)
{
    bw_permit now;
    uint8_t digest[16];
    bw_status s = bw_permitted_set(r->ctx, cand->authority, q, sq->ids, sq->texts, sq->n,
                                   &now, digest);
    size_t turns = 0;
    for (size_t i = 0; i < sq->n && s == BW_OK; i++) {
        bool before = bw_permit_has(was, &sq->ids[i]);
        if (before != bw_permit_has(&now, &sq->ids[i]))
            turns++;
        else if (before)
            out->allow++;
        else
            out->deny++;
    }
    if (s != BW_OK || turns == 0)
        return s;
    out->turns = bw_arena_calloc(r->sets, turns, sizeof *out->turns);
    if (!out->turns)
        return nomem(r);
    for (size_t i = 0; i < sq->n && s == BW_OK; i++)
        if (bw_permit_has(was, &sq->ids[i]) != bw_permit_has(&now, &sq->ids[i]))
            s = keep_turn(r, out, cand->authority, q, &sq->ids[i], sq->texts[i]);
    return s;
}

/* Under one state of the rules: *same when the recorded digest comes out. */
static bw_status set_under(replay_run *r, const replay_event *e, const rules_pair *pair,
                           const set_question *sq, set_turns *out, bool *same, bool *timed)
{
    bw_question q;
    bw_permit was;
    uint8_t digest[16];
    const replay_rules *u = replay_rules_get(r, pair->policies, pair->facts, false);
    if (!u)
        return nomem(r);
    out->reason = u->why;
    if (u->why)
        return BW_OK;
    question(e, sq->action, &q);
    bw_status s =
        bw_permitted_set(r->ctx, u->authority, &q, sq->ids, sq->texts, sq->n, &was, digest);
    if (s != BW_OK)
        return s;
    *same = memcmp(digest, sq->set, sizeof digest) == 0;
    *timed = *timed || u->reads_now;
    out->reason = *same ? NULL : DIFFERS;
    if (!*same || !r->candidate)
        return BW_OK;
    const replay_rules *cand = replay_rules_get(r, pair->policies, pair->facts, true);
    if (!cand)
        return nomem(r);
    *timed = *timed || cand->reads_now;
    out->reason = cand->why;
    return cand->why ? BW_OK : set_compare(r, cand, &q, sq, &was, out);
}

static bw_status set_run(replay_run *r, const replay_event *e, const bw_json *p,
                         set_turns *out, bool *timed)
{
    set_question sq;
    rules_pair pairs[2];
    const char *why = NULL;
    bool same = false;
    bw_status s = set_parse(r, e, p, &sq, &why);
    out->decisions = sq.n > 0 && !why ? sq.n : why ? 1 : 0;
    if (s != BW_OK || why) {
        out->reason = why;
        return s;
    }
    size_t n = pairs_of(e, pairs);
    for (size_t i = 0; i < n && s == BW_OK && !same; i++)
        s = set_under(r, e, &pairs[i], &sq, out, &same, timed);
    if (s == BW_OK && !same && n == 2 && out->reason && strcmp(out->reason, DIFFERS) == 0)
        out->reason = "the rules changed while the request ran, and neither decides so";
    return s;
}

/* Equal questions about equal lists have equal answers, unless a policy reads the time. */
static bw_status memo_key(replay_run *r, const replay_event *e, const bw_json *p,
                          bw_buf *key)
{
    static const char *const parts[] = {"policies",  "facts",   "policies_end", "facts_end",
                                        "principal", "tenant",  "seat",         "clearance",
                                        "roles",     "purpose", "safeguards"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const bw_json *v = bw_json_get(e->v, parts[i]);
        if (v)
            bw_buf_str(key, v->raw);
        bw_buf_putc(key, '\n');
    }
    bw_buf_str(key, p->raw);
    return key->failed ? nomem(r) : BW_OK;
}

static bw_status set_note(replay_run *r, replay_event *e, const set_turns *t)
{
    bw_status s = BW_OK;
    r->decisions += t->decisions;
    if (t->reason)
        return replay_note_reason(r, e, t->decisions, t->reason);
    r->reproduced += t->decisions;
    r->allow += t->allow;
    r->deny += t->deny;
    for (size_t i = 0; i < t->nturns && s == BW_OK; i++)
        s = replay_note_turn(r, e, &t->turns[i]);
    return s;
}

/* Full memory forgets: equal questions are then asked again. */
static bw_status memo_trim(replay_run *r)
{
    if (bw_map_count(r->memo) < MEMO_SETS_MAX && bw_arena_used(r->sets) < MEMO_BYTES_MAX)
        return BW_OK;
    bw_map_free(r->memo);
    bw_ctx_reset(r->sets);
    r->memo = bw_map_new();
    return r->memo ? BW_OK : nomem(r);
}

static bw_status permit_run(replay_run *r, replay_event *e, const bw_json *p)
{
    bw_buf key = {0};
    bool named = bw_json_get(p, "named") != NULL, timed = false;
    bw_status s = memo_trim(r);
    if (s == BW_OK && !named)
        s = memo_key(r, e, p, &key);
    uint64_t *slot = s == BW_OK && !named ? bw_map_get(r->memo, key.ptr, key.len) : NULL;
    if (s != BW_OK || slot) {
        bw_buf_clear(&key);
        return s == BW_OK ? set_note(r, e, (const set_turns *)(uintptr_t)*slot) : s;
    }
    bw_arena_mark mark = bw_arena_mark_get(r->sets);
    set_turns *t = bw_arena_calloc(r->sets, 1, sizeof *t);
    s = t ? set_run(r, e, p, t, &timed) : nomem(r);
    if (s == BW_OK)
        s = set_note(r, e, t);
    if (s == BW_OK && !named && !timed)
        slot = bw_map_put(r->memo, key.ptr, key.len, NULL);
    if (slot)
        *slot = (uint64_t)(uintptr_t)t;
    else /* asked for this event only */
        bw_arena_release(r->sets, mark);
    bw_buf_clear(&key);
    return s;
}

/* ---- single decisions ---- */

typedef struct single {
    bw_action action;
    replay_subject about;
    bw_class_id class_id;
    bw_str policies, errors;
    bool allow, no_purpose, any_errors;
} single;

static bw_status decide(replay_run *r, const replay_event *e, const single *d,
                        const replay_rules *u, bw_decision *out)
{
    bw_question q;
    question(e, d->action, &q);
    if (d->no_purpose)
        q.purpose = BW_STR("");
    if (d->about.class_id)
        return bw_decide_class(r->ctx, u->authority, &q, d->about.class_id,
                               d->about.labels, out);
    return bw_decide_object(r->ctx, u->authority, &q, d->about.kind, e->who.tenant,
                            d->about.name, out);
}

static bw_status as_recorded(replay_run *r, const single *d, const bw_decision *got,
                             bool *same)
{
    bw_str policies, errors;
    bw_status s = replay_join(r->ctx, got->policies, got->npolicies, &policies);
    if (s == BW_OK)
        s = replay_join(r->ctx, got->errors, got->nerrors, &errors);
    if (s != BW_OK)
        return nomem(r);
    *same = got->allow == d->allow && (d->any_errors || bw_str_eq(errors, d->errors)) &&
            (d->allow || bw_str_eq(policies, d->policies));
    return BW_OK;
}

static bw_status single_compare(replay_run *r, replay_event *e, const single *d,
                                const rules_pair *pair, const char **why)
{
    bw_decision now;
    replay_turn t = {.action = d->action, .about = d->about};
    const replay_rules *cand = replay_rules_get(r, pair->policies, pair->facts, true);
    if (!cand)
        return nomem(r);
    *why = cand->why;
    if (cand->why)
        return BW_OK;
    bw_status s = decide(r, e, d, cand, &now);
    if (s != BW_OK)
        return s;
    t.allow = now.allow;
    if (now.allow == d->allow) {
        r->allow += now.allow;
        r->deny += !now.allow;
        return BW_OK;
    }
    if (replay_join(r->ctx, now.policies, now.npolicies, &t.policies) != BW_OK ||
        replay_join(r->ctx, now.errors, now.nerrors, &t.errors) != BW_OK)
        return nomem(r);
    return replay_note_turn(r, e, &t);
}

static bw_status single_run(replay_run *r, replay_event *e, const single *d)
{
    rules_pair pairs[2];
    const char *why = NULL;
    bool same = false;
    bw_status s = BW_OK;
    size_t n = pairs_of(e, pairs), at = 0;
    r->decisions++;
    for (; at < n && s == BW_OK && !same; at++) {
        bw_decision got;
        const replay_rules *u =
            replay_rules_get(r, pairs[at].policies, pairs[at].facts, false);
        if (!u)
            return nomem(r);
        why = u->why;
        if (u->why)
            continue;
        s = decide(r, e, d, u, &got);
        if (s == BW_OK)
            s = as_recorded(r, d, &got, &same);
        why = same ? NULL : DIFFERS;
    }
    if (s == BW_OK && same && r->candidate)
        s = single_compare(r, e, d, &pairs[at - 1], &why);
    if (s != BW_OK)
        return s;
    if (why)
        return replay_note_reason(r, e, 1, why);
    r->reproduced++;
    return BW_OK;
}

/* The labels of a class: from the entry itself (proved by the id), else the register. */
static bool labels_of(const replay_run *r, const bw_json *v, single *d)
{
    const bw_json *labels = bw_json_get(v, "labels");
    bw_class_id proved;
    if (!labels)
        return bw_register_text(r->book, &d->class_id, &d->about.labels);
    d->about.labels = labels->raw;
    bw_labels_class_id(d->about.labels, &proved);
    return bw_class_id_cmp(&proved, &d->class_id) == 0;
}

static bw_status entry_run(replay_run *r, replay_event *e, const bw_json *v, bool allow)
{
    single d = {.allow = allow, .policies = BW_STR(""), .errors = BW_STR("")};
    bw_str action = {NULL, 0};
    const bw_json *class = bw_json_get(v, "class"), *on = bw_json_get(v, "on");
    bw_status s = bw_v1_string(r->ctx, v, "action", &action);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, v, "policies", &d.policies);
    if (s == BW_OK)
        s = bw_v1_string(r->ctx, v, "errors", &d.errors);
    bool known = s == BW_OK && bw_action_parse(action, &d.action);
    d.no_purpose = bw_json_get(v, "purpose") != NULL;
    const char *why = NULL;
    if (known && class && parse_class(class, &d.class_id)) {
        d.about.class_id = &d.class_id;
        if (!labels_of(r, v, &d))
            why = "the register does not have the labels of a class";
    } else if (known && on && on->kind == BW_JSON_STRING) {
        d.about = (replay_subject){.kind = "Collection", .name = on->str};
    } else if (known && bw_json_get(v, "cell")) {
        d.about = (replay_subject){.kind = "Node", .name = BW_STR("")};
    } else {
        why = "the event does not say what a decision was about";
    }
    if (!why)
        return single_run(r, e, &d);
    r->decisions++;
    return replay_note_reason(r, e, 1, why);
}

/* A label set that the request named and went on with: Store was allowed. */
static bw_status named_run(replay_run *r, replay_event *e, const bw_json *v)
{
    single d = {.action = BW_ACTION_STORE, .allow = true, .any_errors = true};
    const char *why = NULL;
    if (!parse_class(v, &d.class_id))
        why = "the event does not say what a decision was about";
    else if (!bw_register_text(r->book, &d.class_id, &d.about.labels))
        why = "the register does not have the labels of a class";
    d.about.class_id = &d.class_id;
    if (!why)
        return single_run(r, e, &d);
    r->decisions++;
    return replay_note_reason(r, e, 1, why);
}

/* ---- the event ---- */

static const bw_json *list_of(const bw_json *v, const char *name)
{
    const bw_json *list = bw_json_get(v, name);
    return list && list->kind == BW_JSON_ARRAY ? list->child : NULL;
}

/* *known false: from before a replay was possible, or not one of ours. */
static bw_status event_parse(replay_run *r, replay_event *e, bool *known)
{
    const struct {
        const char *name;
        bw_str *to;
    } texts[] = {{"principal", &e->who.id},        {"tenant", &e->who.tenant},
                 {"seat", &e->who.seat},           {"purpose", &e->purpose},
                 {"policies", &e->policies},       {"facts", &e->facts},
                 {"policies_end", &e->policies_end}, {"facts_end", &e->facts_end}};
    bw_words roles = {NULL, 0}, safeguards = {NULL, 0};
    uint64_t clearance = 0;
    bw_str when = {NULL, 0};
    e->purpose = BW_STR("");
    bw_status s = bw_v1_string(r->ctx, e->v, "time", &when);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && s == BW_OK; i++)
        s = bw_v1_string(r->ctx, e->v, texts[i].name, texts[i].to);
    if (s == BW_OK)
        s = bw_v1_strings(r->ctx, e->v, "roles", &roles);
    if (s == BW_OK)
        s = bw_v1_strings(r->ctx, e->v, "safeguards", &safeguards);
    *known = s == BW_OK && e->who.id.ptr && e->who.tenant.ptr && e->who.seat.ptr &&
             e->policies.ptr && e->facts.ptr && when.ptr &&
             bw_json_u64(bw_json_get(e->v, "clearance"), &clearance) &&
             clearance <= UINT32_MAX && bw_time_parse(when, &e->now_ns);
    e->who.clearance = (uint32_t)clearance;
    e->who.roles = roles.items;
    e->who.nroles = roles.n;
    e->safeguards = safeguards.items;
    e->nsafeguards = safeguards.n;
    return s == BW_EINVALID ? BW_OK : s;
}

static bw_status entries_run(replay_run *r, replay_event *e, bool known)
{
    static const struct {
        const char *name;
        int kind;
    } lists[] = {{"permitted", 0}, {"named", 1}, {"allowed", 2}, {"denied", 3}};
    bw_status s = BW_OK;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const bw_json *v = list_of(e->v, lists[i].name); v && s == BW_OK;
             v = v->next) {
            e->decided = true;
            s = bw_ctx_check(r->ctx);
            if (s != BW_OK)
                return s;
            if (!known) {
                r->decisions++;
                s = replay_note_reason(r, e, 1,
                                       "the event is from before replays: it does not say "
                                       "who asked with which rights");
            } else if (lists[i].kind == 0) {
                s = permit_run(r, e, v);
            } else if (lists[i].kind == 1) {
                s = named_run(r, e, v);
            } else {
                s = entry_run(r, e, v, lists[i].kind == 2);
            }
        }
    return s;
}

bw_status replay_event_run(replay_run *r, replay_event *e)
{
    uint64_t more = 0;
    bool known;
    replay_rules_trim(r);
    bw_status s = event_parse(r, e, &known);
    if (s == BW_OK)
        s = entries_run(r, e, known);
    if (bw_json_u64(bw_json_get(bw_json_get(e->v, "permitted_more"), "sets"), &more))
        r->not_in_log += more;
    if (bw_json_u64(bw_json_get(e->v, "allowed_more"), &more))
        r->not_in_log += more;
    r->requests++;
    r->without += !e->decided;
    r->requests_changed += e->changed;
    return s;
}
