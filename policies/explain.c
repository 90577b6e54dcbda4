/* Explained decisions (explain.h): one snapshot held, the decision asked without the
 * cache, each policy that has a part in it traced and written down, then the search. */
#include "explain_private.h"

#include <stdlib.h>

enum { NEAREST = 3, LOOKED_AT_MAX = 4096 };

/* ---- what may be shown ---- */

static bool words_have(const bw_label_list *l, bw_str word)
{
    for (size_t i = 0; i < l->n; i++)
        if (bw_str_eq(l->items[i], word))
            return true;
    return false;
}

static bool texts_have(const bw_str *items, size_t n, bw_str word)
{
    bw_label_list l = {items, n};
    return words_have(&l, word);
}

static bool known_word(const bw_explaining *x, bw_str s)
{
    static const char *const kinds[] = {
        "regimes", "categories", "labels", "purposes", "safeguards", "certs", "hw"};
    const bw_explain_ask *ask = x->ask;
    const bw_question *q = ask->q;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bw_catalogue_has_word(x->now.catalogue, kinds[i], s))
            return true;
    const bw_place *at = q->at ? q->at : x->now.at, *dest = q->dest ? q->dest : at;
    return s.len == 0 || bw_str_eq(s, q->purpose) || bw_str_eq(s, ask->name) ||
           texts_have(q->safeguards, q->nsafeguards, s) ||
           texts_have(ask->claimable, ask->nclaimable, s) ||
           texts_have(ask->recorded, ask->nrecorded, s) ||
           texts_have(at->certs, at->ncerts, s) || texts_have(at->hw, at->nhw, s) ||
           texts_have(dest->certs, dest->ncerts, s) ||
           texts_have(dest->hw, dest->nhw, s);
}

bool bw_explain__show(const bw_cedar_value *v, void *user)
{
    static const char *const public[] = {"Bw::Zone", "Bw::Country", "Bw::Role",
                                         "Bw::Action"};
    const bw_explaining *x = user;
    const bw_question *q = x->ask->q;
    bw_cedar_look l = bw_cedar_value_look(v);
    if (x->ask->privileged || (l.kind != BW_CEDAR_STRING && l.kind != BW_CEDAR_ENTITY))
        return true;
    if (l.kind == BW_CEDAR_STRING)
        return known_word(x, l.text);
    for (size_t i = 0; i < sizeof public / sizeof *public; i++)
        if (bw_str_eq(l.type, bw_str_c(public[i])))
            return true;
    const bw_place *at = q->at ? q->at : x->now.at, *dest = q->dest ? q->dest : at;
    if (bw_str_is(l.type, "Bw::Tenant"))
        return bw_str_eq(l.text, q->principal->tenant);
    if (bw_str_is(l.type, "Bw::Identity"))
        return bw_str_eq(l.text, q->principal->id);
    if (bw_str_is(l.type, "Bw::Node"))
        return bw_str_eq(l.text, at->id) || bw_str_eq(l.text, dest->id);
    if (bw_str_is(l.type, "Bw::LegalEntity"))
        return bw_str_eq(l.text, at->operator_id) ||
               bw_str_eq(l.text, dest->operator_id);
    return false;
}

/* ---- near misses ---- */

static int near_cmp(const void *pa, const void *pb)
{
    const bw_near *a = pa, *b = pb;
    if (a->failing != b->failing)
        return a->failing < b->failing ? -1 : 1;
    return a->policy < b->policy ? -1 : a->policy > b->policy;
}

/* One policy of many: how it comes out, and whether the asker may see all its names (of
 * one whose scope fits). Each may take as many steps as a whole decision. Nothing stays
 * in scratch but a message. */
static bw_status glance(bw_explaining *x, bw_cedar_trace *t, uint32_t policy,
                        bw_cedar_reasons *r, bool *shown)
{
    bw_status st = bw_ctx_check(x->ctx);
    *shown = true;
    if (st != BW_OK)
        return bw_ctx_take_error(x->scratch, x->ctx, st);
    st = bw_cedar_trace_outcome(t, policy, r);
    if (st != BW_OK || !r->scope_fits || x->ask->privileged)
        return st;
    bw_arena_mark mark = bw_arena_mark_get(x->scratch);
    st = bw_cedar_policy_literals(x->scratch, x->now.policies, policy, bw_explain__show,
                                  x, shown);
    bw_arena_release(x->scratch, mark);
    return st;
}

bw_status bw_explain__nearest(bw_explaining *x, bw_cedar_trace *t, size_t most,
                              bw_near *out, size_t *n, bool *all)
{
    size_t count = bw_cedar_policies_count(x->now.policies), found = 0;
    bw_near *list = bw_arena_alloc(x->scratch, (count + 1) * sizeof *list);
    if (!list)
        return bw_fail_nomem(x->scratch);
    *all = count <= LOOKED_AT_MAX;
    for (uint32_t i = 0; i < count && i < LOOKED_AT_MAX; i++) {
        bw_cedar_reasons r;
        bool shown;
        if (bw_cedar_policy_is_forbid(x->now.policies, i))
            continue;
        bw_status st = glance(x, t, i, &r, &shown);
        if (st != BW_OK)
            return st;
        if (r.scope_fits && shown && r.satisfied != BW_CEDAR_TRUE)
            list[found++] = (bw_near){i, r.failing};
        *all = *all && shown; /* what is left out could be a way */
    }
    if (found)
        qsort(list, found, sizeof *list, near_cmp);
    *all = *all && found <= most;
    *n = found < most ? found : most;
    memcpy(out, list, *n * sizeof *out);
    return BW_OK;
}

/* ---- writing policies down ---- */

typedef struct telling {
    bw_explaining *x;
    bw_cedar_trace *trace;
    bw_explained_policy *list;
    size_t n;
} telling;

static bw_status text_of(bw_explaining *x, bw_buf *b, bw_str *out)
{
    bw_status st =
        b->failed ? bw_fail_nomem(x->ctx) : bw_arena_str(x->ctx, bw_buf_view(b), out);
    bw_buf_clear(b);
    return st;
}

static bw_status tell_values(bw_explaining *x, const bw_cedar_part *p,
                             bw_explained_part *out)
{
    bw_explained_value *v = bw_arena_calloc(x->ctx, p->nleaves + 1, sizeof *v);
    bw_status st = v ? BW_OK : bw_fail_nomem(x->ctx);
    for (uint32_t i = 0; i < p->nleaves && st == BW_OK; i++) {
        bw_buf b = {0};
        st = bw_arena_str(x->ctx, p->leaves[i].path, &v[i].path);
        if (st != BW_OK || !p->leaves[i].value)
            continue;
        bw_cedar_value_text(&b, p->leaves[i].value, bw_explain__show, x);
        st = text_of(x, &b, &v[i].text);
    }
    out->values = v;
    out->nvalues = p->nleaves;
    return st;
}

static bw_status tell_parts(bw_explaining *x, const bw_cedar_reasons *r,
                            bw_explained_policy *out)
{
    bw_explained_part *list = bw_arena_calloc(x->ctx, r->nparts + 1, sizeof *list);
    bw_status st = list ? BW_OK : bw_fail_nomem(x->ctx);
    for (uint32_t i = 0; i < r->nparts && st == BW_OK; i++) {
        const bw_cedar_part *p = &r->parts[i];
        bw_buf b = {0};
        list[i] = (bw_explained_part){.clause = p->clause,
                                      .unless = p->unless,
                                      .failed = p->truth == BW_CEDAR_FAILED,
                                      .truth = p->truth == BW_CEDAR_TRUE,
                                      .error = p->error};
        bw_cedar_part_text(&b, p, bw_explain__show, x);
        st = text_of(x, &b, &list[i].text);
        if (st == BW_OK)
            st = tell_values(x, p, &list[i]);
    }
    out->parts = list;
    out->nparts = r->nparts;
    out->cut = r->cut;
    return st;
}

static bw_status annotation(bw_explaining *x, uint32_t policy, const char *key,
                            bw_str *out)
{
    bw_str value;
    return bw_cedar_policy_annotation(x->now.policies, policy, bw_str_c(key), &value)
               ? bw_arena_str(x->ctx, value, out)
               : BW_OK;
}

static bw_status tell(telling *t, uint32_t policy, const char *why)
{
    bw_cedar_reasons r;
    bw_explained_policy *p = &t->list[t->n];
    if (t->n == BW_EXPLAIN_POLICIES_MAX)
        return BW_OK;
    bw_status st = bw_cedar_trace_policy(t->trace, policy, &r);
    if (st != BW_OK)
        return bw_ctx_take_error(t->x->ctx, t->x->scratch, st);
    *p = (bw_explained_policy){
        .why = why, .forbid = bw_cedar_policy_is_forbid(t->x->now.policies, policy)};
    st = bw_arena_str(t->x->ctx, t->x->now.names[policy], &p->name);
    if (st == BW_OK)
        st = annotation(t->x, policy, "source", &p->source);
    if (st == BW_OK)
        st = annotation(t->x, policy, "text", &p->text);
    if (st == BW_OK)
        st = tell_parts(t->x, &r, p);
    t->n += st == BW_OK;
    return st;
}

static bw_status tell_nearest(telling *t)
{
    bw_near near[NEAREST];
    size_t n;
    bool all;
    bw_status st = bw_explain__nearest(t->x, t->trace, NEAREST, near, &n, &all);
    if (st != BW_OK)
        return bw_ctx_take_error(t->x->ctx, t->x->scratch, st);
    for (size_t i = 0; i < n && st == BW_OK; i++)
        st = tell(t, near[i].policy, "nearest");
    return st;
}

/* The forbids that could have applied and why they did not. */
static bw_status tell_checked(telling *t)
{
    bw_explaining *x = t->x;
    size_t count = bw_cedar_policies_count(x->now.policies);
    for (uint32_t i = 0; i < count && i < LOOKED_AT_MAX; i++) {
        bw_cedar_reasons r;
        bool shown;
        if (!bw_cedar_policy_is_forbid(x->now.policies, i))
            continue;
        bw_status st = glance(x, t->trace, i, &r, &shown);
        if (st != BW_OK)
            return bw_ctx_take_error(x->ctx, x->scratch, st);
        if (r.scope_fits && shown && r.satisfied == BW_CEDAR_FALSE)
            st = tell(t, i, "checked");
        if (st != BW_OK)
            return st;
    }
    return BW_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static bw_status names(bw_explaining *x, const uint32_t *index, size_t n, bool forbids,
                       const bw_str **out, size_t *nout)
{
    bw_str *list = bw_arena_calloc(x->ctx, n + 1, sizeof *list);
    size_t count = 0;
    bw_status st = list ? BW_OK : bw_fail_nomem(x->ctx);
    for (size_t i = 0; i < n && st == BW_OK; i++)
        if (!forbids || bw_cedar_policy_is_forbid(x->now.policies, index[i]))
            st = bw_arena_str(x->ctx, x->now.names[index[i]], &list[count++]);
    if (count)
        qsort(list, count, sizeof *list, by_bytes); /* as decisions have them */
    *out = list;
    *nout = count;
    return st;
}

static bw_status tell_decision(bw_explaining *x, const bw_asked *asked,
                               bw_decision *out)
{
    static const bw_str undecidable[] = {{"undecidable", 11}};
    const bw_cedar_answer *a = &asked->answer;
    bw_decision d = {.allow = asked->allow};
    if (asked->undecidable) {
        *out = (bw_decision){.errors = undecidable, .nerrors = 1};
        return BW_OK;
    }
    bool by_error = a->allow && !asked->allow; /* only a failing forbid denies */
    bw_status st =
        names(x, by_error ? a->errors : a->reasons, by_error ? a->nerrors : a->nreasons,
              by_error, &d.policies, &d.npolicies);
    if (st == BW_OK)
        st = names(x, a->errors, a->nerrors, false, &d.errors, &d.nerrors);
    *out = d;
    return st;
}

static bw_status tell_all(bw_explaining *x, const bw_asked *asked, bw_explanation *out)
{
    const bw_cedar_answer *a = &asked->answer;
    telling t = {.x = x, .trace = asked->trace};
    t.list = bw_arena_calloc(x->ctx, BW_EXPLAIN_POLICIES_MAX, sizeof *t.list);
    bw_status st =
        t.list ? tell_decision(x, asked, &out->decision) : bw_fail_nomem(x->ctx);
    if (st != BW_OK || asked->undecidable)
        return st;
    for (size_t i = 0; i < a->nreasons && st == BW_OK; i++)
        if (a->allow == asked->allow)
            st = tell(&t, a->reasons[i], "determining");
    for (size_t i = 0; i < a->nerrors && st == BW_OK; i++)
        st = tell(&t, a->errors[i], "error");
    if (st == BW_OK && !a->allow && a->nreasons == 0)
        st = tell_nearest(&t);
    if (st == BW_OK && asked->allow)
        st = tell_checked(&t);
    out->policies = t.list;
    out->npolicies = t.n;
    return st;
}

/* ---- the whole ---- */

/* Labels are the controller's to change: offered where the asker states them for
 * storing, may change them, or looks after such things. */
static bw_status may_label(bw_explaining *x)
{
    static const bw_action relabel = BW_ACTION_RELABEL;
    bw_asked asked;
    x->may_label = x->ask->label_text.ptr &&
                   (x->ask->privileged || x->ask->q->action == BW_ACTION_STORE);
    if (!x->ask->label_text.ptr || x->may_label)
        return BW_OK;
    bw_status st = bw_asked__ask(x, NULL, 0, &relabel, &asked);
    x->may_label = st == BW_OK && asked.allow;
    bw_asked__clear(&asked);
    return st;
}

static bw_status explain(bw_explaining *x, bw_explanation *out)
{
    bw_asked asked;
    bw_status st = may_label(x);
    if (st == BW_OK)
        st = bw_asked__ask(x, NULL, 0, NULL, &asked);
    if (st != BW_OK)
        return st;
    st = tell_all(x, &asked, out);
    bool search = !asked.allow && !asked.undecidable;
    bw_asked__clear(&asked);
    return st == BW_OK && search ? bw_explain__search(x, out) : st;
}

bw_status bw_explain(bw_ctx *ctx, bw_authority *a, const bw_explain_ask *ask,
                     bw_explanation *out)
{
    bw_explanation e = {.complete = true};
    bw_explaining x = {.ctx = ctx, .scratch = bw_ctx_new(0), .ask = ask};
    if (!x.scratch)
        return bw_fail_nomem(ctx);
    bw_authority__hold(a, &x.now);
    e.version = x.now.version;
    bw_status st = explain(&x, &e);
    bw_authority__let_go(&x.now);
    bw_ctx_free(x.scratch);
    if (st == BW_OK)
        *out = e;
    return st == BW_EINVALID /* the reasons cost more than the decision did */
               ? bw_fail(ctx, BW_EUNAVAILABLE,
                         "evaluation takes too many steps to be explained")
               : st;
}
