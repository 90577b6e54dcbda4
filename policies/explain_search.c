/* The search for smallest changes (explain.h): breadth first over sets of changes. A
 * set that does not turn the denial is grown by changes that could turn what still
 * stands in the way: of the policies that do, the first alone is looked at, since each
 * of them must go, and of its conditions those that the trace lists, since one of them
 * must turn. Ends with the first size at which a way was found that leaves the labels
 * alone: that data should have others is seldom what the asker wants to hear. */
#include "../engine/base/map.h"
#include "explain_private.h"

#include <stdlib.h>

enum { NODES_MAX = 8 * BW_EXPLAIN_TRIES_MAX, NEAR_PERMITS_MAX = 16 };

typedef struct searching {
    bw_explaining *x;
    bw_change_set *nodes; /* the queue; its strings are in x->ctx */
    size_t head, tail;
    bw_map *seen; /* keys of sets */
    bw_change_set found[BW_EXPLAIN_SETS_MAX];
    size_t nfound;
    uint32_t size_max, tried;
    bool cut, enough; /* a way was found that leaves the labels as they are */
} searching;

/* ---- sets ---- */

static int change_cmp(const bw_change *a, const bw_change *b)
{
    if (a->fact != b->fact)
        return a->fact < b->fact ? -1 : 1;
    if (a->verb != b->verb)
        return a->verb < b->verb ? -1 : 1;
    return bw_str_cmp(a->value, b->value);
}

static bool of_place(bw_fact f, bw_fact place)
{
    return f > place && f <= place + (BW_FACT_AT - BW_FACT_DEST - 1);
}

/* Two changes that cannot be made at once, or say the same. */
static bool clash(const bw_change *a, const bw_change *b)
{
    for (int i = 0; i < 2; i++) {
        const bw_change *whole = i ? b : a, *part = i ? a : b;
        if ((whole->fact == BW_FACT_DEST || whole->fact == BW_FACT_AT) &&
            of_place(part->fact, whole->fact))
            return true;
    }
    return a->fact == b->fact &&
           (a->verb == BW_CHANGE_SET || b->verb == BW_CHANGE_SET ||
            bw_str_eq(a->value, b->value));
}

/* The set with a change more, in order; false: it does not go with the others. */
static bool grown(const bw_change_set *from, const bw_change *c, bw_change_set *out)
{
    uint32_t at = 0;
    *out = *from;
    for (uint32_t i = 0; i < from->n; i++) {
        if (clash(&from->changes[i], c))
            return false;
        at += change_cmp(&from->changes[i], c) < 0;
    }
    memmove(out->changes + at + 1, out->changes + at, (from->n - at) * sizeof *c);
    out->changes[at] = *c;
    out->n++;
    return true;
}

/* Whether the set is new; it is known from now on. */
static bw_status note_seen(searching *s, const bw_change_set *set, bool *fresh)
{
    bw_buf key = {0};
    for (uint32_t i = 0; i < set->n; i++) {
        bw_buf_printf(&key, "%d/%d/", (int)set->changes[i].fact,
                      (int)set->changes[i].verb);
        bw_json_put_str(&key, set->changes[i].value);
    }
    bool ok = !key.failed && bw_map_put(s->seen, key.ptr, key.len, fresh) != NULL;
    bw_buf_clear(&key);
    return ok ? BW_OK : bw_fail_nomem(s->x->ctx);
}

/* Whether a way that was found is part of the set. */
static bool holds_way(const searching *s, const bw_change_set *set)
{
    for (size_t i = 0; i < s->nfound; i++) {
        uint32_t shared = 0;
        for (uint32_t k = 0; k < set->n && shared < s->found[i].n; k++)
            shared += change_cmp(&set->changes[k], &s->found[i].changes[shared]) == 0;
        if (shared == s->found[i].n)
            return true;
    }
    return false;
}

static bw_status enqueue(searching *s, const bw_change_set *from, const bw_change *c)
{
    bw_change_set next;
    bool fresh;
    if (!grown(from, c, &next))
        return BW_OK;
    bw_status st = note_seen(s, &next, &fresh);
    if (st != BW_OK || !fresh || holds_way(s, &next))
        return st;
    if (s->tail == NODES_MAX) {
        s->cut = true;
        return BW_OK;
    }
    for (uint32_t i = 0; i < next.n && st == BW_OK; i++)
        if (next.changes[i].value.ptr == c->value.ptr) /* it is in scratch yet */
            st = bw_arena_str(s->x->ctx, c->value, &next.changes[i].value);
    s->nodes[s->tail++] = next;
    return st;
}

/* ---- what stands in the way ---- */

static bw_status gather(searching *s, const bw_asked *asked, uint32_t policy,
                        bw_candidates *c)
{
    bw_cedar_reasons r;
    bw_status st = bw_cedar_trace_policy(asked->trace, policy, &r);
    if (st != BW_OK)
        return st;
    s->cut = s->cut || r.cut;
    for (uint32_t i = 0; i < r.nparts && st == BW_OK; i++)
        st = bw_explain__candidates(s->x, asked, &r.parts[i], c);
    return st;
}

static bw_status gather_permits(searching *s, const bw_asked *asked, bw_candidates *c)
{
    bw_near near[NEAR_PERMITS_MAX];
    size_t n;
    bool all;
    bw_status st =
        bw_explain__nearest(s->x, asked->trace, NEAR_PERMITS_MAX, near, &n, &all);
    s->cut = s->cut || (st == BW_OK && !all);
    for (size_t i = 0; i < n && st == BW_OK; i++)
        st = gather(s, asked, near[i].policy, c);
    return st;
}

static bw_status grow(searching *s, const bw_change_set *from, const bw_asked *asked)
{
    const bw_cedar_answer *a = &asked->answer;
    bw_candidates c = {.n = 0};
    bw_status st = BW_OK;
    if (!a->allow && a->nreasons > 0) {
        st = gather(s, asked, a->reasons[0], &c);
    } else if (!a->allow) {
        st = gather_permits(s, asked, &c);
    } else {
        for (size_t i = 0; i < a->nerrors && c.n == 0 && st == BW_OK; i++)
            if (bw_cedar_policy_is_forbid(s->x->now.policies, a->errors[i]))
                st = gather(s, asked, a->errors[i], &c);
    }
    if (st != BW_OK)
        return bw_ctx_take_error(s->x->ctx, s->x->scratch, st);
    s->cut = s->cut || c.cut;
    for (size_t i = 0; i < c.n && st == BW_OK; i++)
        st = enqueue(s, from, &c.items[i]);
    return st;
}

/* ---- ways that were found ---- */

static bw_status turns(searching *s, const bw_change_set *set, bool *out)
{
    bw_asked asked;
    s->tried++;
    bw_status st = bw_asked__ask(s->x, set->changes, set->n, NULL, &asked);
    bw_asked__clear(&asked);
    *out = st == BW_OK && asked.allow;
    return st;
}

static void keep(searching *s, const bw_change_set *set)
{
    for (size_t i = 0; i < s->nfound; i++) {
        bool same = s->found[i].n == set->n;
        for (uint32_t k = 0; same && k < set->n; k++)
            same = change_cmp(&s->found[i].changes[k], &set->changes[k]) == 0;
        if (same)
            return;
    }
    if (s->nfound < BW_EXPLAIN_SETS_MAX)
        s->found[s->nfound++] = *set;
    else
        s->cut = true;
    bool labels = false;
    for (uint32_t i = 0; i < set->n; i++)
        labels = labels || bw_fact__of_labels(set->changes[i].fact);
    s->enough = s->enough || !labels;
}

/* Keeps the set, or those of its parts that turn the denial alone. */
static bw_status keep_smallest(searching *s, const bw_change_set *set)
{
    bool smaller = false;
    uint32_t minimal[1 << BW_EXPLAIN_CHANGES_CAP], n = 0;
    for (uint32_t bits = 1; bits + 1 < 1u << set->n; bits++) {
        bw_change_set part = {.n = 0};
        bool holds_one = false, does;
        for (uint32_t i = 0; i < n;
             i++) /* what contains a way is none that is smallest */
            holds_one = holds_one || (bits & minimal[i]) == minimal[i];
        if (holds_one)
            continue;
        for (uint32_t i = 0; i < set->n; i++)
            if (bits & 1u << i)
                part.changes[part.n++] = set->changes[i];
        bw_status st = turns(s, &part, &does);
        if (st != BW_OK)
            return st;
        if (does) {
            minimal[n++] = bits; /* bits ascend: a part comes before what contains it */
            keep(s, &part);
            smaller = true;
        }
    }
    if (!smaller)
        keep(s, set);
    return BW_OK;
}

static bw_status try_next(searching *s)
{
    bw_change_set set = s->nodes[s->head++];
    bw_asked asked;
    s->tried += set.n > 0;
    bw_status st = bw_asked__ask(s->x, set.changes, set.n, NULL, &asked);
    if (st != BW_OK)
        return st;
    if (asked.allow) {
        bw_asked__clear(&asked);
        return keep_smallest(s, &set);
    }
    if (!asked.undecidable && set.n < s->size_max && !s->enough)
        st = grow(s, &set, &asked);
    bw_asked__clear(&asked);
    return st;
}

static int way_cmp(const void *pa, const void *pb)
{
    const bw_change_set *a = pa, *b = pb;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (uint32_t i = 0; i < a->n; i++) {
        int c = change_cmp(&a->changes[i], &b->changes[i]);
        if (c)
            return c;
    }
    return 0;
}

static const char *who_can(const bw_explain_ask *ask, const bw_change *c)
{
    bool word = c->fact == BW_FACT_PURPOSE || c->fact == BW_FACT_SAFEGUARDS;
    const bw_str *own = c->fact == BW_FACT_PURPOSE ? ask->claimable : ask->recorded;
    size_t n = c->fact == BW_FACT_PURPOSE ? ask->nclaimable : ask->nrecorded;
    for (size_t i = 0; word && i < n; i++)
        if (bw_str_eq(own[i], c->value))
            return "caller";
    if (c->fact == BW_FACT_PURPOSE && c->value.len == 0)
        return "caller";
    return bw_facts[c->fact].who;
}

static bw_status report(searching *s, bw_explanation *out)
{
    bw_ctx *ctx = s->x->ctx;
    size_t n = s->nfound;
    bw_change_set *sets = bw_arena_calloc(ctx, n + 1, sizeof *sets);
    const char **who =
        bw_arena_calloc(ctx, (n + 1) * BW_EXPLAIN_CHANGES_CAP, sizeof *who);
    if (!sets || !who)
        return bw_fail_nomem(ctx);
    if (n)
        qsort(s->found, n, sizeof *sets, way_cmp);
    for (size_t i = 0; i < n; i++) {
        sets[i] = s->found[i];
        for (uint32_t k = 0; k < sets[i].n; k++)
            who[i * BW_EXPLAIN_CHANGES_CAP + k] =
                who_can(s->x->ask, &sets[i].changes[k]);
    }
    out->sets = sets;
    out->who = who;
    out->nsets = n;
    out->tried = s->tried;
    out->changes_max = s->size_max;
    out->complete = !s->cut && s->head == s->tail;
    return BW_OK;
}

bw_status bw_explain__search(bw_explaining *x, bw_explanation *out)
{
    uint32_t want = x->ask->changes_max ? x->ask->changes_max : BW_EXPLAIN_CHANGES_MAX;
    searching s = {.x = x,
                   .size_max =
                       want < BW_EXPLAIN_CHANGES_CAP ? want : BW_EXPLAIN_CHANGES_CAP};
    s.nodes = bw_alloc(NODES_MAX * sizeof *s.nodes);
    s.seen = bw_map_new();
    bw_status st = s.nodes && s.seen ? BW_OK : bw_fail_nomem(x->ctx);
    if (st == BW_OK)
        s.nodes[s.tail++] = (bw_change_set){.n = 0};
    while (st == BW_OK && s.head < s.tail && s.tried < BW_EXPLAIN_TRIES_MAX) {
        if (s.enough && s.nodes[s.head].n > s.nodes[s.head - 1].n)
            s.tail = s.head; /* the next are larger than what was found */
        else
            st = try_next(&s);
    }
    if (st == BW_OK)
        st = report(&s, out);
    bw_map_free(s.seen);
    bw_free(s.nodes);
    return st;
}
