/* See index.h. For each of the three variables a request finds the lists that hold: of
 * the policies without a constraint, of its uid (==), of its uid and ancestors (in), of
 * its type (is). The variable with the fewest policies gives the candidates, whose
 * scopes are then looked at in full. Ancestors are enumerated, or the keys are tried
 * one by one, whichever is less. Intersecting three bitmaps instead was measured: 39 µs
 * a request with 10,000 policies for other roles, mostly spent marking policies that
 * one variable drops. */
#include "index.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

/* ---- building ---- */
typedef struct entry { /* one policy under one key */
    uint32_t key, policy;
} entry;

typedef struct builder {
    bw_ctx *ctx, *pool;
    bw_cedar__index *ix;
    uint32_t keys_cap;
    entry *entries;
    uint32_t nentries, entries_cap;
} builder;

static uint64_t key_hash(const bw_cedar__uid *uid, uint8_t var, uint8_t op)
{
    return uid->hash + (uint64_t)(var * 8 + op) * UINT64_C(0x9e3779b97f4a7c15);
}

static const bw_cedar__key *find_key(const bw_cedar__index *ix,
                                     const bw_cedar__uid *uid, uint8_t var, uint8_t op)
{
    if (ix->nkeys == 0)
        return NULL;
    for (uint32_t i = (uint32_t)key_hash(uid, var, op) & ix->mask;;
         i = (i + 1) & ix->mask) {
        if (ix->slots[i] == 0)
            return NULL;
        const bw_cedar__key *k = &ix->keys[ix->slots[i] - 1];
        if (k->var == var && k->op == op && bw_cedar__uid_eq(&k->uid, uid))
            return k;
    }
}

static void slot_put(bw_cedar__index *ix, uint32_t key)
{
    const bw_cedar__key *k = &ix->keys[key];
    uint32_t i = (uint32_t)key_hash(&k->uid, k->var, k->op) & ix->mask;
    while (ix->slots[i] != 0)
        i = (i + 1) & ix->mask;
    ix->slots[i] = key + 1;
}

static bw_status grow_keys(builder *b)
{
    uint32_t cap = b->keys_cap ? b->keys_cap * 2 : 16;
    bw_cedar__index *ix = b->ix;
    void *keys = bw_arena_grow(b->pool, ix->keys, ix->nkeys * sizeof *ix->keys,
                               cap * sizeof *ix->keys);
    uint32_t *slots =
        bw_arena_calloc(b->pool, cap * 2, sizeof *slots); /* at most half full */
    if (!keys || !slots)
        return bw_fail_nomem(b->ctx);
    ix->keys = keys;
    ix->slots = slots;
    ix->mask = cap * 2 - 1;
    b->keys_cap = cap;
    for (uint32_t i = 0; i < ix->nkeys; i++)
        slot_put(ix, i);
    return BW_OK;
}

static bw_status add(builder *b, const bw_cedar__uid *uid, uint8_t var, uint8_t op,
                     uint32_t policy)
{
    bw_cedar__index *ix = b->ix;
    const bw_cedar__key *k = find_key(ix, uid, var, op);
    if (!k) {
        if (ix->nkeys == b->keys_cap)
            TRY(grow_keys(b));
        ix->keys[ix->nkeys] = (bw_cedar__key){.uid = *uid, .var = var, .op = op};
        k = &ix->keys[ix->nkeys++];
        slot_put(ix, ix->nkeys - 1);
        ix->nin[var] += op == BW_CEDAR__SCOPE_IN;
    }
    if (b->nentries == b->entries_cap) {
        uint32_t cap = b->entries_cap ? b->entries_cap * 2 : 64;
        void *grown =
            bw_arena_grow(b->ctx, b->entries, b->nentries * sizeof *b->entries,
                          cap * sizeof *b->entries);
        if (!grown)
            return bw_fail_nomem(b->ctx);
        b->entries = grown;
        b->entries_cap = cap;
    }
    b->entries[b->nentries++] = (entry){(uint32_t)(k - ix->keys), policy};
    return BW_OK;
}

static bw_status add_scope(builder *b, const bw_cedar__scope *s, uint8_t var,
                           uint32_t policy)
{
    if (s->op == BW_CEDAR__SCOPE_IS) {
        bw_cedar__uid type = bw_cedar__uid_make(s->type, (bw_str){0});
        return add(b, &type, var, BW_CEDAR__SCOPE_IS, policy);
    }
    uint8_t op = s->op == BW_CEDAR__SCOPE_EQ ? BW_CEDAR__SCOPE_EQ : BW_CEDAR__SCOPE_IN;
    for (uint32_t i = 0; i < s->n; i++)
        TRY(add(b, &s->uids[i], var, op, policy));
    return BW_OK;
}

/* Entries to lists: counted, then placed; policies stay ascending. */
static bw_status place(builder *b)
{
    bw_cedar__index *ix = b->ix;
    uint32_t *lists = bw_arena_alloc(b->pool, b->nentries * sizeof *lists);
    uint32_t *at = bw_arena_calloc(b->ctx, ix->nkeys + 1, sizeof *at);
    if (!lists || !at)
        return bw_fail_nomem(b->ctx);
    for (uint32_t i = 0; i < b->nentries; i++)
        at[b->entries[i].key + 1]++;
    for (uint32_t k = 0; k < ix->nkeys; k++) {
        ix->keys[k].policies = lists + at[k];
        ix->keys[k].n = at[k + 1];
        at[k + 1] += at[k];
    }
    for (uint32_t i = 0; i < b->nentries; i++)
        lists[at[b->entries[i].key]++] = b->entries[i].policy;
    return BW_OK;
}

bw_status bw_cedar__index_build(bw_ctx *ctx, bw_cedar_policies *set)
{
    builder b = {.ctx = ctx, .pool = set->pool};
    b.ix = bw_arena_calloc(set->pool, 1, sizeof *b.ix);
    uint32_t *all = bw_arena_alloc(set->pool, 3 * (size_t)set->n * sizeof *all);
    if (!b.ix || !all)
        return bw_fail_nomem(ctx);
    for (uint8_t var = 0; var < 3; var++) {
        b.ix->all[var] = all;
        for (uint32_t i = 0; i < set->n; i++) {
            const bw_cedar__policy *p = &set->policies[i];
            if (p->is_template)
                continue;
            if (p->scope[var].op == BW_CEDAR__SCOPE_ALL)
                all[b.ix->nall[var]++] = i;
            else
                TRY(add_scope(&b, &p->scope[var], var, i));
        }
        all += b.ix->nall[var];
    }
    TRY(place(&b));
    set->index = b.ix;
    return BW_OK;
}

/* ---- asking ---- */
/* Of one variable: the lists that hold, perhaps one twice (the marks do not mind). */
typedef struct found {
    const bw_cedar__index *ix;
    const bw_cedar__key **keys;
    uint32_t nkeys, keys_max;
    uint32_t policies; /* in the lists, and those without a constraint */
    uint8_t var;
} found;

static void note(found *f, const bw_cedar__key *k)
{
    if (!k)
        return;
    assert(f->nkeys < f->keys_max);
    f->keys[f->nkeys++] = k;
    f->policies += k->n;
}

static void note_ancestor(const bw_cedar__uid *uid, void *user)
{
    found *f = user;
    note(f, find_key(f->ix, uid, f->var, BW_CEDAR__SCOPE_IN));
}

static void note_ins(found *f, bw_cedar__run *run)
{
    const bw_cedar__uid *uid = run->vars[f->var].u.uid;
    if (bw_cedar__each_ancestor(run, uid, f->ix->nin[f->var], note_ancestor, f)) {
        note_ancestor(uid, f);
        return;
    }
    for (uint32_t k = 0; k < f->ix->nkeys; k++) {
        const bw_cedar__key *key = &f->ix->keys[k];
        if (key->var == f->var && key->op == BW_CEDAR__SCOPE_IN &&
            bw_cedar__is_in(run, uid, &key->uid))
            note(f, key);
    }
}

static bw_status find_lists(const bw_cedar__index *ix, bw_cedar__run *run, uint8_t var,
                            found *f)
{
    const bw_cedar__uid *uid = run->vars[var].u.uid;
    *f = (found){
        .ix = ix, .var = var, .policies = ix->nall[var], .keys_max = ix->nin[var] + 3};
    f->keys = bw_arena_alloc(run->ctx, f->keys_max * sizeof *f->keys);
    if (!f->keys)
        return bw_fail_nomem(run->ctx);
    if (ix->nkeys == 0)
        return BW_OK;
    bw_cedar__uid type = bw_cedar__uid_make(uid->type, (bw_str){0});
    note(f, find_key(ix, uid, var, BW_CEDAR__SCOPE_EQ));
    note(f, find_key(ix, &type, var, BW_CEDAR__SCOPE_IS));
    if (ix->nin[var])
        note_ins(f, run);
    return BW_OK;
}

/* Nothing but the type of the resource is known, or of what else uid is in: not all. */
static bool scope_may_hold(const bw_cedar__scope *s, const bw_cedar__uid *uid,
                           bool resource)
{
    switch ((bw_cedar__scope_op)s->op) {
    case BW_CEDAR__SCOPE_EQ:
        return resource ? bw_str_eq(uid->type, s->uids->type)
                        : bw_cedar__uid_eq(uid, s->uids);
    case BW_CEDAR__SCOPE_IS:
    case BW_CEDAR__SCOPE_IS_IN:
        return bw_str_eq(uid->type, s->type);
    default:
        return true;
    }
}

static bool scope_holds(bw_cedar__run *run, const bw_cedar__scope *s, int var)
{
    const bw_cedar__uid *uid = run->vars[var].u.uid;
    if (run->unknown && !bw_cedar__lineage_known(run, uid))
        return scope_may_hold(s, uid, var == BW_CEDAR__RESOURCE);
    switch ((bw_cedar__scope_op)s->op) {
    case BW_CEDAR__SCOPE_ALL:
        return true;
    case BW_CEDAR__SCOPE_EQ:
        return bw_cedar__uid_eq(uid, s->uids);
    case BW_CEDAR__SCOPE_IS:
        return bw_str_eq(uid->type, s->type);
    case BW_CEDAR__SCOPE_IS_IN:
        if (!bw_str_eq(uid->type, s->type))
            return false;
        break;
    case BW_CEDAR__SCOPE_IN:
    case BW_CEDAR__SCOPE_IN_LIST:
        break;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (bw_cedar__is_in(run, uid, &s->uids[i]))
            return true;
    return false;
}

static void mark_one(const bw_cedar_policies *set, bw_cedar__run *run, uint32_t i,
                     uint64_t *bits)
{
    const bw_cedar__policy *p = &set->policies[i];
    if (scope_holds(run, &p->scope[1], 1) && scope_holds(run, &p->scope[0], 0) &&
        scope_holds(run, &p->scope[2], 2))
        bits[i / 64] |= (uint64_t)1 << (i % 64);
}

/* Marks the policies of a list that hold in all three variables. */
static void mark(const bw_cedar_policies *set, bw_cedar__run *run, const uint32_t *list,
                 uint32_t n, uint64_t *bits)
{
    for (uint32_t i = 0; i < n; i++)
        mark_one(set, run, list[i], bits);
    run->steps += n;
}

/* Without a list: no variable's lineage is known. */
static void mark_all(const bw_cedar_policies *set, bw_cedar__run *run, uint64_t *bits)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (!set->policies[i].is_template)
            mark_one(set, run, i, bits);
    run->steps += set->n;
}

bw_status bw_cedar__index_match(const bw_cedar_policies *set, bw_cedar__run *run,
                                uint64_t **out)
{
    const bw_cedar__index *ix = set->index;
    uint64_t *bits = bw_arena_calloc(run->ctx, set->n / 64 + 1, sizeof *bits);
    if (!bits)
        return bw_fail_nomem(run->ctx);
    found f[3], *best = NULL;
    for (uint8_t var = 0; var < 3; var++) {
        if (!bw_cedar__lineage_known(run, run->vars[var].u.uid))
            continue;
        TRY(find_lists(ix, run, var, &f[var]));
        if (!best || f[var].policies < best->policies)
            best = &f[var];
    }
    if (!best)
        mark_all(set, run, bits);
    else
        mark(set, run, ix->all[best->var], ix->nall[best->var], bits);
    for (uint32_t k = 0; best && k < best->nkeys; k++)
        mark(set, run, best->keys[k]->policies, best->keys[k]->n, bits);
    if (run->nomem) /* an ancestry was not walked: the marks are not to be trusted */
        return bw_fail_nomem(run->ctx);
    *out = bits;
    return BW_OK;
}
