/* Single decisions (decision.h): one question about one class, one collection or the
 * cell.
 *
 * Looked for among what is kept under (rules' stamp, resource, question); on a miss the
 * few entities that belong to the question are put together and Cedar is asked. An
 * answer is one counted block with the names of its policies in it, so that giving it
 * out again copies nothing.
 *
 * Ours beyond Cedar: a forbid that errors denies, a question that Cedar cannot take
 * denies. Out of memory and out of time are errors; their effect is deny as well, since
 * nobody gets an allow.
 *
 * Lock order: change -> lock -> a shard of what is kept; none is held while Cedar runs.
 */
#include "authority.h"

#include <stddef.h>
#include <stdlib.h>

typedef struct kept_decision {
    bw_kept head;
    bw_decision d;
    bw_str names[]; /* determining, then errors; their text behind them */
} kept_decision;

static kept_decision *kept_of(const bw_decision *d)
{
    return (kept_decision *)((uintptr_t)d - offsetof(kept_decision, d));
}

/* A question that Cedar cannot take; never freed, for one reference is its own. */
static const bw_decision *refused(bw_authority *a)
{
    static const bw_str what[] = {{"undecidable", 11}};
    static kept_decision none = {
        .head = {.refs = 1}, .d = {.allow = false, .errors = what, .nerrors = 1}};
    atomic_fetch_add_explicit(&none.head.refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&a->counts.undecided, 1, memory_order_relaxed);
    return &none.d;
}

void bw_decision_release(const bw_decision *d)
{
    if (d)
        bw_kept__release(&kept_of(d)->head);
}

/* ---- classes, prepared ---- */

bw_class_entity *bw_class__find(bw_authority *a, bw_str tenant, const bw_class_id *id)
{
    BW_UNSET bw_answer_key key;
    bw_class__key(id, tenant, &key);
    return (bw_class_entity *)(void *)bw_answers__get(a->classes, &key);
}

bw_status bw_class__prepare(bw_ctx *ctx, bw_authority *a, bw_str tenant,
                            const bw_class_id *id, bw_str label_text,
                            bw_class_entity **out)
{
    enum { HEAD = (sizeof(bw_class_entity) + 15) / 16 * 16 };
    bw_labels labels;
    bw_class_id real;
    bw_answer_key key;
    char hex[BW_CLASS_TEXT + 1];
    bw_status st = bw_labels_from_canonical(ctx, label_text, &labels);
    if (st != BW_OK)
        return st;
    bw_labels_class_id(label_text, &real);
    if (bw_class_id_cmp(&real, id) != 0)
        return bw_fail(ctx, BW_ECORRUPT, "a class's label text is another class's");
    bw_class_id_hex(id, hex);
    size_t bytes = HEAD + bw_class__entity_bytes(hex, &labels);
    bw_class_entity *e = bw_alloc(bytes);
    if (!e)
        return bw_fail_nomem(ctx);
    bw_kept__init(&e->head, bytes);
    memcpy(e->hex, hex, sizeof hex);
    st = bw_class__entity(ctx, a->schema, hex, &labels, NULL, (char *)e + HEAD,
                          &e->store);
    if (st != BW_OK) {
        bw_kept__release(&e->head);
        return st;
    }
    bw_class__key(id, tenant, &key);
    bw_answers__put(a->classes, &key, &e->head);
    *out = e;
    return BW_OK;
}

/* ---- asking Cedar ---- */

bw_status bw_question__request(bw_ctx *ctx, const bw_authority *a,
                               const bw_rules *rules, const bw_question *q,
                               const char *type, bw_str id,
                               const bw_collection_name *collection,
                               const bw_cedar_entities *with, bw_cedar_request *out)
{
    const bw_cedar_value *context;
    bw_cedar_entities *extra;
    bw_status st = bw_question__context(ctx, q, &a->at, rules->reads_now, &context);
    if (st == BW_OK)
        st = bw_question__entities(ctx, a->schema, q, &a->at, collection, with, &extra);
    if (st == BW_OK)
        *out = (bw_cedar_request){
            .principal = {BW_STR("Bw::Identity"), q->principal->id},
            .action = {BW_STR("Bw::Action"), bw_str_c(bw_action_name(q->action))},
            .resource = {bw_str_c(type), id},
            .context_value = context,
            .extra = extra};
    return st;
}

/* The indexes of the determining policies by our rules: when only an erroring forbid
 * stands against an allow, those forbids. */
static size_t determining(const bw_rules *rules, const bw_cedar_answer *c, bool closed,
                          uint32_t *out)
{
    size_t n = 0;
    if (c->allow && closed) {
        for (size_t i = 0; i < c->nerrors; i++)
            if (bw_cedar_policy_is_forbid(rules->policies, c->errors[i]))
                out[n++] = c->errors[i];
        return n;
    }
    if (c->nreasons)
        memcpy(out, c->reasons, c->nreasons * sizeof *out);
    return c->nreasons;
}

void bw_authority__note_error(bw_authority *a, const bw_rules *rules, size_t policy)
{
    bool forbid = bw_cedar_policy_is_forbid(rules->policies, policy);
    atomic_fetch_add_explicit(forbid ? &a->counts.forbids_errored
                                     : &a->counts.permits_errored,
                              1, memory_order_relaxed);
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

/* Names of policies, sorted, their bytes at *text. */
static void put_names(const bw_rules *rules, const uint32_t *index, size_t n,
                      bw_str *names, char **text)
{
    for (size_t i = 0; i < n; i++) {
        bw_str name = rules->names[index[i]];
        memcpy(*text, name.ptr, name.len);
        names[i] = (bw_str){*text, name.len};
        *text += name.len;
    }
    if (n)
        qsort(names, n, sizeof *names, by_bytes);
}

static bw_status keep_answer(bw_ctx *ctx, bw_authority *a, const bw_rules *rules,
                             const bw_cedar_answer *c, kept_decision **out)
{
    bool closed = c->forbid_errored && !a->cedar_errors;
    uint32_t *reasons =
        bw_arena_alloc(ctx, (c->nreasons + c->nerrors + 1) * sizeof *reasons);
    if (!reasons)
        return BW_ENOMEM;
    size_t n = determining(rules, c, closed, reasons), names = n + c->nerrors;
    size_t bytes = sizeof(kept_decision) + names * sizeof(bw_str);
    for (size_t i = 0; i < names; i++)
        bytes += rules->names[i < n ? reasons[i] : c->errors[i - n]].len;
    kept_decision *k = bw_alloc(bytes);
    if (!k)
        return bw_fail_nomem(ctx);
    bw_kept__init(&k->head, bytes);
    k->d = (bw_decision){.allow = c->allow && !closed,
                         .policies = k->names,
                         .npolicies = n,
                         .errors = k->names + n,
                         .nerrors = c->nerrors};
    char *text = (char *)(k->names + names);
    put_names(rules, reasons, n, k->names, &text);
    put_names(rules, c->errors, c->nerrors, k->names + n, &text);
    atomic_fetch_add_explicit(&a->counts.decisions, 1, memory_order_relaxed);
    for (size_t i = 0; i < c->nerrors; i++)
        bw_authority__note_error(a, rules, c->errors[i]);
    *out = k;
    return BW_OK;
}

/* ---- one question ---- */

typedef struct asking {
    const bw_question *q;
    bw_topic topic;
    bw_str label_text; /* CLASS */
} asking;

static bw_status ask_class(bw_ctx *ctx, bw_authority *a, const bw_rules *rules,
                           const asking *k, bw_cedar_request *request,
                           bw_cedar_answer *answer)
{
    bw_str tenant = k->q->principal->tenant;
    bw_class_entity *e = bw_class__find(a, tenant, k->topic.class_id);
    bw_status st = e ? BW_OK
                     : bw_class__prepare(ctx, a, tenant, k->topic.class_id,
                                         k->label_text, &e);
    if (st == BW_OK)
        st = bw_question__request(ctx, a, rules, k->q, "Bw::DataClass",
                                  bw_str_c(e->hex), NULL, e->store, request);
    if (st == BW_OK)
        st = bw_cedar_authorize(ctx, rules->policies, rules->facts->entities, a->schema,
                                request, answer);
    if (e)
        bw_kept__release(&e->head);
    return st;
}

static bw_status ask_object(bw_ctx *ctx, const bw_authority *a, const bw_rules *rules,
                            const asking *k, bw_cedar_request *request,
                            bw_cedar_answer *answer)
{
    const bw_topic *t = &k->topic;
    bw_collection_name c = {.tenant = t->tenant, .name = t->name};
    bw_status st;
    if (t->kind == BW_TOPIC_NODE) {
        bw_str id = k->q->at ? k->q->at->id : a->at.id;
        st = bw_question__request(ctx, a, rules, k->q, "Bw::Node", id, NULL, NULL,
                                  request);
    } else {
        char *id = bw_arena_printf(ctx, "%.*s/%.*s", (int)c.tenant.len,
                                   c.tenant.ptr ? c.tenant.ptr : "", (int)c.name.len,
                                   c.name.ptr ? c.name.ptr : "");
        if (!id)
            return BW_ENOMEM;
        c.id = bw_str_c(id);
        st = bw_question__request(ctx, a, rules, k->q, "Bw::Collection", c.id, &c, NULL,
                                  request);
    }
    return st == BW_OK ? bw_cedar_authorize(ctx, rules->policies,
                                            rules->facts->entities, a->schema, request,
                                            answer)
                       : st;
}

/* Asks Cedar; keeps the answer when there is a key. */
static bw_status ask(bw_ctx *ctx, bw_authority *a, const bw_rules *rules,
                     const asking *k, const bw_answer_key *key, const bw_decision **out)
{
    bw_cedar_request request;
    bw_cedar_answer answer;
    kept_decision *kept = NULL;
    bw_status st = k->topic.kind == BW_TOPIC_CLASS
                       ? ask_class(ctx, a, rules, k, &request, &answer)
                       : ask_object(ctx, a, rules, k, &request, &answer);
    if (bw_undecidable(st)) {
        *out = refused(a);
        return BW_OK;
    }
    if (st == BW_OK)
        st = keep_answer(ctx, a, rules, &answer, &kept);
    if (st != BW_OK)
        return st;
    if (key)
        bw_answers__put(a->answers, key, &kept->head);
    *out = &kept->d;
    return BW_OK;
}

static bw_status acquire(bw_ctx *ctx, bw_authority *a, const asking *k,
                         const bw_decision **out)
{
    BW_UNSET bw_answer_key key;
    uint64_t stamp = atomic_load_explicit(&a->stamp, memory_order_acquire);
    bw_question__key(k->q, &k->topic, stamp, &key);
    bw_kept *kept = bw_answers__get(a->answers, &key);
    if (kept) {
        *out = &((kept_decision *)(void *)kept)->d;
        return BW_OK;
    }
    bw_rules *rules = bw_rules__acquire(a);
    if (bw_rules__stamp(rules) != stamp)
        bw_question__key(k->q, &k->topic, bw_rules__stamp(rules), &key);
    bw_status st = ask(ctx, a, rules, k, &key, out);
    bw_rules__release(rules);
    return st;
}

static asking about_class(const bw_question *q, const bw_class_id *id,
                          bw_str label_text)
{
    return (asking){.q = q,
                    .topic = {.kind = BW_TOPIC_CLASS, .class_id = id},
                    .label_text = label_text};
}

bw_status bw_decision_acquire(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                              const bw_class_id *class_id, bw_str label_text,
                              const bw_decision **out)
{
    asking k = about_class(q, class_id, label_text);
    return acquire(ctx, a, &k, out);
}

bw_status bw_decision_acquire_object(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                                     const char *kind, bw_str tenant, bw_str name,
                                     const bw_decision **out)
{
    asking k = {.q = q, .topic = {.kind = BW_TOPIC_NODE}};
    if (strcmp(kind, "Collection") == 0)
        k.topic = (bw_topic){
            .kind = BW_TOPIC_COLLECTION, .tenant = tenant, .name = name};
    else if (strcmp(kind, "Node") != 0)
        return bw_fail(ctx, BW_EINTERNAL, "no kind of object \"%s\"", kind);
    return acquire(ctx, a, &k, out);
}

/* ---- the same, copied ---- */

static bw_status copy_names(bw_ctx *ctx, const bw_str *in, size_t n, const bw_str **out)
{
    bw_str *names = bw_arena_calloc(ctx, n + 1, sizeof *names);
    if (!names)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (bw_arena_str(ctx, in[i], &names[i]) != BW_OK)
            return BW_ENOMEM;
    *out = names;
    return BW_OK;
}

/* Into ctx's arena; d is released. st: whether there is a decision at all. */
static bw_status copied(bw_ctx *ctx, bw_status st, const bw_decision *d,
                        bw_decision *out)
{
    *out = (bw_decision){0};
    if (st != BW_OK)
        return st;
    bw_decision copy = *d;
    st = copy_names(ctx, d->policies, d->npolicies, &copy.policies);
    if (st == BW_OK)
        st = copy_names(ctx, d->errors, d->nerrors, &copy.errors);
    bw_decision_release(d);
    if (st == BW_OK)
        *out = copy;
    return st;
}

bw_status bw_decide_class(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                          const bw_class_id *class_id, bw_str label_text,
                          bw_decision *out)
{
    const bw_decision *d = NULL;
    bw_status st = bw_decision_acquire(ctx, a, q, class_id, label_text, &d);
    return copied(ctx, st, d, out);
}

bw_status bw_decide_object(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                           const char *kind, bw_str tenant, bw_str name,
                           bw_decision *out)
{
    const bw_decision *d = NULL;
    bw_status st = bw_decision_acquire_object(ctx, a, q, kind, tenant, name, &d);
    return copied(ctx, st, d, out);
}

/* One decision by other rules than those in force; nothing is kept. */
static bw_status dry(bw_ctx *ctx, bw_authority *a, bw_str policies,
                     bw_rule_facts *facts, const bw_question *q, bw_str label_text,
                     bw_decision *out)
{
    bw_rules *rules = NULL;
    const bw_decision *d = NULL;
    bw_class_id id;
    asking k = {.q = q, .topic = {.kind = BW_TOPIC_NODE}};
    if (label_text.ptr) {
        bw_labels_class_id(label_text, &id);
        k = about_class(q, &id, label_text);
    }
    bw_status st = bw_rules__build(ctx, a, policies, facts, &rules);
    if (st == BW_OK)
        st = ask(ctx, a, rules, &k, NULL, &d);
    bw_rules__release(rules);
    return copied(ctx, st, d, out);
}

bw_status bw_decide_dry(bw_ctx *ctx, bw_authority *a, bw_str policies,
                        const bw_question *q, bw_str label_text, bw_decision *out)
{
    bw_rules *now = bw_rules__acquire(a);
    bw_status st = dry(ctx, a, policies, now->facts, q, label_text, out);
    bw_rules__release(now);
    return st;
}

bw_status bw_decide_dry_entities(bw_ctx *ctx, bw_authority *a, bw_str entities,
                                 const bw_question *q, bw_str label_text,
                                 bw_decision *out)
{
    bw_rules *now = bw_rules__acquire(a);
    bw_rule_facts *facts = NULL;
    bw_status st = bw_rule_facts__build(ctx, a, entities, &facts);
    if (st == BW_OK)
        st = dry(ctx, a, now->text, facts, q, label_text, out);
    bw_rule_facts__release(facts);
    bw_rules__release(now);
    return st;
}
