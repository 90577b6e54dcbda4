/* POST /v1/policies/dry-run: questions about anybody, asked of the policies in force or of
 * a candidate (other policies, entities, overlay of the catalogue). Nothing is kept.
 *
 * With a candidate each result says what is decided now (`was`), and `summary` which turn,
 * by principal, action and class, as a replay does for the past (replay.h): first_seq and
 * last_seq there are places in the list, from 1. */
#include "replay_run.h"
#include "v1_ingest.h"

enum { DRY_RUN_MAX = 1000 };

typedef struct dry_run {
    replay_run run;
    bw_replay_options o;
    const bw_json *requests;
    bw_authority *authority; /* in force, or the candidate's */
    const bw_catalogue *catalogue;
} dry_run;

static bw_status parse(bw_request *r, dry_run *d)
{
    static const char *const allowed[] = {"policies", "entities", "catalogue", "requests",
                                          NULL};
    const bw_json *body;
    bw_status s = bw_v1_body(r, allowed, &body);
    if (s == BW_OK)
        s = bw_v1_candidate(r->ctx, body, &d->o);
    if (s != BW_OK)
        return s;
    d->requests = bw_json_get(body, "requests");
    if (!d->requests || d->requests->kind != BW_JSON_ARRAY ||
        d->requests->count > DRY_RUN_MAX)
        return bw_fail_at(r->ctx, BW_EINVALID, "/requests",
                          "wants a list of at most %d requests", DRY_RUN_MAX);
    return BW_OK;
}

static bw_status candidate_open(bw_request *r, dry_run *d)
{
    bw_in_force_view v;
    bw_status s = bw_in_force_get(r->ctx, r->server, &v);
    if (s != BW_OK)
        return s;
    const replay_rules *u = replay_rules_get(&d->run, bw_str_c(v.state.policies),
                                             bw_str_c(v.facts), true);
    if (!u)
        return bw_fail_nomem(r->ctx);
    if (u->why)
        return bw_fail(r->ctx, BW_EINVALID, "%s", u->why);
    d->authority = u->authority;
    d->catalogue = u->catalogue;
    return BW_OK;
}

static bw_status note(bw_request *r, dry_run *d, uint64_t at, const bw_v1_question *q,
                      const bw_decision *was, const bw_decision *is)
{
    replay_event e = {.seq = at, .who = q->principal};
    replay_turn t = {.action = q->q.action,
                     .about = {.class_id = q->kind ? NULL : &q->class_id,
                               .labels = q->label_text,
                               .kind = q->kind,
                               .name = q->name},
                     .allow = is->allow};
    if (was->allow == is->allow) {
        d->run.allow += is->allow;
        d->run.deny += !is->allow;
        return BW_OK;
    }
    bw_status s = replay_join(r->ctx, is->policies, is->npolicies, &t.policies);
    if (s == BW_OK)
        s = replay_join(r->ctx, is->errors, is->nerrors, &t.errors);
    if (s == BW_OK)
        s = replay_note_turn(&d->run, &e, &t);
    d->run.requests_changed++;
    return s;
}

static bw_status answer(bw_request *r, dry_run *d, const bw_json *v, uint64_t at, bw_buf *b)
{
    bw_v1_question q;
    bw_decision is, was;
    bw_status s = bw_v1_question_parse(r->ctx, d->catalogue, v, NULL,
                                       r->server->config.cell_id, &q);
    if (s == BW_OK)
        s = bw_ctx_check(r->ctx);
    if (s == BW_OK)
        s = bw_v1_decide(r, d->authority, &q, &is);
    if (s == BW_OK && d->run.candidate)
        s = bw_v1_decide(r, r->server->authority, &q, &was);
    if (s == BW_OK && d->run.candidate)
        s = note(r, d, at, &q, &was, &is);
    if (s != BW_OK)
        return s;
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    bw_v1_put_decision(b, &is);
    if (d->run.candidate)
        bw_buf_puts(b, was.allow ? ",\"was\":\"allow\"" : ",\"was\":\"deny\"");
    bw_buf_putc(b, '}');
    return BW_OK;
}

static bw_status answer_all(bw_request *r, dry_run *d, bw_buf *b)
{
    bw_status s = BW_OK;
    uint64_t at = 0;
    bw_buf_puts(b, "{\"results\":[");
    for (const bw_json *v = d->requests->child; v && s == BW_OK; v = v->next)
        s = answer(r, d, v, ++at, b);
    bw_buf_putc(b, ']');
    if (s == BW_OK && d->run.candidate) {
        bw_json_put_key(b, "summary");
        s = replay_candidate_put(&d->run, b);
        if (s == BW_OK)
            s = replay_classes_put(&d->run, b);
    }
    bw_buf_putc(b, '}');
    return s;
}

bw_status bw_v1_policies_dry_run(bw_request *r, bw_response *out)
{
    dry_run d = {.o = {.dir = r->server->dir},
                 .authority = r->server->authority,
                 .catalogue = r->server->catalogue};
    d.run.ctx = r->ctx;
    d.run.o = &d.o;
    bw_status s = bw_v1_need_policies(r);
    if (s == BW_OK)
        s = parse(r, &d);
    if (s != BW_OK)
        return s;
    d.run.candidate = d.o.policies.ptr || d.o.entities.ptr || d.o.overlay.ptr;
    s = replay_run_open(&d.run);
    if (s == BW_OK && d.run.candidate) {
        s = candidate_open(r, &d);
        if (s == BW_EINVALID)
            out->status = 422;
    }
    if (s == BW_OK)
        s = answer_all(r, &d, &out->body);
    replay_run_close(&d.run);
    return s == BW_OK ? bw_v1_done(r, out) : s;
}
