/* Rules of the past: an authority for each (policies, facts) that the log names, made from
 * the kept texts, and the candidate's over the same facts. */
#include "replay_run.h"

enum { RULES_MAX = 32, RULES_EVENT = 4 }; /* held at once; of one event */

static void rules_close(replay_rules *u)
{
    bw_authority_free(u->authority);
    bw_catalogue_free(u->catalogue);
    u->authority = NULL;
    u->catalogue = NULL;
}

void replay_rules_clear(replay_run *r)
{
    bw_str key;
    uint64_t *value;
    for (size_t it = 0; r->rules && bw_map_next(r->rules, &it, &key, &value);)
        if (*value)
            rules_close((replay_rules *)(uintptr_t)*value);
    bw_map_free(r->rules);
    r->rules = NULL;
}

void replay_rules_trim(replay_run *r)
{
    if (r->rules && bw_map_count(r->rules) > RULES_MAX - RULES_EVENT)
        replay_rules_clear(r);
}

static bw_status build(replay_run *r, bw_str policies, const bw_facts *f, replay_rules *u)
{
    bw_cedar_policies *parsed;
    bw_status s = bw_catalogue_parse(r->ctx, f->catalogue, f->overlay, &u->catalogue);
    bw_authority_options o = {.schema = f->schema,
                              .policies = policies,
                              .entities = f->entities,
                              .catalogue = u->catalogue,
                              .at = f->cell,
                              .supposed = true};
    if (s == BW_OK)
        s = bw_authority_new(r->ctx, &o, &u->authority);
    if (s == BW_OK)
        s = bw_cedar_policies_parse(r->ctx, policies, &parsed);
    if (s != BW_OK)
        return s;
    u->reads_now = bw_cedar_policies_read_context(parsed, BW_STR("now"));
    bw_cedar_policies_free(parsed);
    return BW_OK;
}

static bw_status load(replay_run *r, bw_str policies, bw_str facts, bool candidate,
                      replay_rules *u)
{
    bw_facts f;
    bw_str text;
    bw_status s = bw_facts_get(r->ctx, r->o->dir, facts, &f);
    if (s == BW_OK && candidate && r->o->policies.ptr)
        text = r->o->policies;
    else if (s == BW_OK)
        s = bw_archive_get(r->ctx, r->o->dir, BW_ARCHIVE_POLICIES, policies, &text);
    if (s != BW_OK)
        return s;
    if (candidate && r->o->entities.ptr)
        f.entities = r->o->entities;
    if (candidate && r->o->overlay.ptr)
        f.overlay = r->o->overlay;
    return build(r, text, &f, u);
}

/* What the rules cannot be had for, kept with them: it is the reason of many events. */
static const char *reason_of(replay_run *r, bool candidate)
{
    const char *at = bw_ctx_pointer(r->ctx);
    return bw_arena_printf(r->mem, "%s%s%s%s",
                           candidate ? "the candidate is not accepted with the facts of then: "
                                     : "",
                           at, at[0] ? ": " : "", bw_ctx_message(r->ctx));
}

replay_rules *replay_rules_get(replay_run *r, bw_str policies, bw_str facts, bool candidate)
{
    bool fresh = false;
    const char *key = bw_arena_printf(
        r->ctx, "%c%.*s %.*s", candidate ? 'c' : 'r',
        (int)(candidate && r->o->policies.ptr ? 0 : policies.len), policies.ptr,
        (int)facts.len, facts.ptr);
    if (!key)
        return NULL;
    if (!r->rules && !(r->rules = bw_map_new()))
        return NULL;
    uint64_t *slot = bw_map_put(r->rules, key, strlen(key), &fresh);
    if (!slot)
        return NULL;
    if (*slot)
        return (replay_rules *)(uintptr_t)*slot;
    replay_rules *u = bw_arena_calloc(r->mem, 1, sizeof *u);
    if (!u)
        return NULL;
    *slot = (uint64_t)(uintptr_t)u;
    bw_status s = load(r, policies, facts, candidate, u);
    if (s == BW_OK)
        return u;
    rules_close(u);
    if (s == BW_ENOMEM || s == BW_ETIMEOUT)
        return NULL;
    u->why = reason_of(r, candidate);
    return u->why ? u : NULL;
}
