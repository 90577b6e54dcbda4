/* Permitted sets (decision.h): which classes of a collection a question is allowed.
 *
 * Looked for among what is kept under (rules' stamp, version of the directory,
 * question). On a miss the question is evaluated once with the class unknown, and what
 * is left of the policies is finished for each class. A forbid that errors denies,
 * always (`cedar_errors` is for single decisions); what errors for some classes only is
 * counted by the single decisions about them. */
#include "authority.h"

#include <sodium.h>
#include <stddef.h>

typedef struct kept_set {
    bw_kept head;
    bw_permitted p;
    bw_class_id classes[];
} kept_set;

void bw_permitted_release(const bw_permitted *p)
{
    if (p)
        bw_kept__release((bw_kept *)((uintptr_t)p - offsetof(kept_set, p)));
}

void bw_permit_digest(const bw_permit *p, uint8_t digest[16])
{
    bw_require(crypto_generichash(digest, 16, (const unsigned char *)p->classes,
                                  p->n * sizeof *p->classes, NULL, 0) == 0);
}

typedef struct filling { /* one set under way */
    bw_ctx *ctx;
    bw_authority *a;
    const bw_rules *rules;
    const bw_question *q;
    const bw_directory *directory;
    bw_cedar_residuals *left; /* of the policies, the class being unknown */
} filling;

static void note_undecided(bw_authority *a)
{
    atomic_fetch_add_explicit(&a->counts.undecided, 1, memory_order_relaxed);
}

/* Policies that error whatever the class is. */
static void count_errors(const filling *f)
{
    size_t n = bw_cedar_policies_count(f->rules->policies);
    if (bw_cedar_residuals_count(f->left, BW_CEDAR_RESIDUAL_ERROR) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (bw_cedar_residuals_state(f->left, i) == BW_CEDAR_RESIDUAL_ERROR)
            bw_authority__note_error(f->a, f->rules, i);
}

/* The question with the class unknown. What lies in ctx's arena belongs to f->left. */
static bw_status begin(filling *f)
{
    /* bw_class__prepare held every class against the schema */
    static const bw_cedar_partial_options options = {.resources_conform = true};
    bw_cedar_request request;
    bw_status st = bw_question__request(f->ctx, f->a, f->rules, f->q, "Bw::DataClass",
                                        BW_STR(""), NULL, NULL, &request);
    if (st == BW_OK)
        st = bw_cedar_partial(f->ctx, f->rules->policies, f->rules->facts->entities,
                              f->a->schema, &request, &options, &f->left);
    if (st == BW_OK)
        count_errors(f);
    return st;
}

static bw_status decide(filling *f, const bw_class_entity *e, bool *out)
{
    return bw_cedar_residuals_allow(
        f->ctx, f->left, e->store,
        &(bw_cedar_uid){BW_STR("Bw::DataClass"), {e->hex, BW_CLASS_TEXT}}, out);
}

static bw_status prepare(filling *f, const bw_class_id *id, bw_class_entity **out)
{
    bw_str text, tenant = f->q->principal->tenant;
    bw_arena_mark mark = bw_arena_mark_get(f->ctx);
    bw_status st = f->directory->label_text(f->directory->user, f->ctx, id, &text);
    if (st == BW_OK)
        st = bw_class__prepare(f->ctx, f->a, tenant, id, text, out);
    bw_arena_release(f->ctx, mark);
    return st;
}

enum { BATCH = 64 };

/* A few classes (sorted): those that are allowed go to out. */
static bw_status decide_batch(filling *f, uint64_t owner, const bw_class_id *classes,
                              size_t n, bw_class_id *out, size_t *count)
{
    bw_kept *kept[BATCH];
    bw_status st = BW_OK;
    bw_answers__get_classes(f->a->classes, owner, classes, n, kept);
    for (size_t i = 0; i < n; i++) {
        bw_class_entity *e = (bw_class_entity *)(void *)kept[i];
        bool allow = false;
        if (!e && st == BW_OK)
            st = prepare(f, &classes[i], &e);
        if (e && st == BW_OK)
            st = decide(f, e, &allow);
        if (e)
            bw_kept__release(&e->head);
        if (bw_undecidable(st)) { /* no reason to refuse the others */
            note_undecided(f->a);
            st = BW_OK;
        } else if (st == BW_OK && allow) {
            out[(*count)++] = classes[i];
        }
    }
    return st == BW_OK ? bw_ctx_check(f->ctx) : st;
}

/* Fills set->classes: *count of them. */
static bw_status fill(filling *f, const bw_class_id *classes, size_t n, kept_set *set,
                      size_t *count)
{
    bw_status st = begin(f);
    *count = 0;
    if (bw_undecidable(st)) { /* the question itself: nothing is permitted */
        note_undecided(f->a);
        return BW_OK;
    }
    for (size_t i = 1; i < n; i++)
        bw_require(bw_class_id_cmp(&classes[i - 1], &classes[i]) < 0);
    for (size_t i = 0; i < n && st == BW_OK; i += BATCH)
        st = decide_batch(f, bw_question__owner(f->q->principal->tenant), classes + i,
                          n - i < BATCH ? n - i : BATCH, set->classes, count);
    bw_cedar_residuals_free(f->left);
    return st;
}

static bw_status filled(filling *f, const bw_class_id *classes, size_t n,
                        kept_set **out)
{
    size_t count, bytes = sizeof(kept_set) + n * sizeof *classes;
    kept_set *set = bw_alloc(bytes);
    if (!set)
        return bw_fail_nomem(f->ctx);
    bw_status st = fill(f, classes, n, set, &count);
    if (st != BW_OK) {
        bw_free(set);
        return st;
    }
    size_t less = sizeof *set + count * sizeof *classes;
    kept_set *fit = less < bytes ? bw_realloc(set, less) : NULL;
    if (fit) {
        set = fit;
        bytes = less;
    }
    bw_kept__init(&set->head, bytes);
    set->p.permit = (bw_permit){set->classes, count};
    *out = set;
    return BW_OK;
}

static bw_status make(filling *f, bw_answer_key *key, kept_set **out)
{
    const bw_directory *d = f->directory;
    const bw_class_id *classes;
    uint64_t version = d->version;
    size_t n;
    kept_set *set = NULL;
    /* Classes that the caller may not see must not cost its budget. */
    bw_arena_mark mark = bw_arena_mark_get(f->ctx);
    uint8_t name[16] = {0};
    bw_status st = d->list(d->user, f->ctx, &classes, &n, &version, name);
    if (st == BW_OK)
        st = filled(f, classes, n, &set);
    bw_arena_release(f->ctx, mark);
    if (st != BW_OK)
        return st;
    bw_permit_digest(&set->p.permit, set->p.digest);
    memcpy(set->p.list, name, sizeof name);
    if (version) {
        bw_topic topic = {.kind = BW_TOPIC_CLASSES, .directory = version};
        bw_question__key(f->q, &topic, bw_rules__stamp(f->rules), key);
        bw_answers__put(f->a->answers, key, &set->head);
    }
    atomic_fetch_add_explicit(&f->a->counts.sets, 1, memory_order_relaxed);
    *out = set;
    return BW_OK;
}

bw_status bw_permitted_acquire(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                               const bw_directory *directory, const bw_permitted **out)
{
    BW_UNSET bw_answer_key key;
    kept_set *set = NULL;
    bw_topic topic = {.kind = BW_TOPIC_CLASSES, .directory = directory->version};
    uint64_t stamp = atomic_load_explicit(&a->stamp, memory_order_acquire);
    if (directory->version) {
        bw_question__key(q, &topic, stamp, &key);
        set = (kept_set *)(void *)bw_answers__get(a->answers, &key);
    }
    bw_status st = BW_OK;
    if (!set) {
        bw_rules *rules = bw_rules__acquire(a);
        filling f = {
            .ctx = ctx, .a = a, .rules = rules, .q = q, .directory = directory};
        st = make(&f, &key, &set);
        bw_rules__release(rules);
    }
    if (st == BW_OK)
        *out = &set->p;
    return st;
}

/* ---- classes at hand ---- */

typedef struct at_hand {
    const bw_class_id *classes;
    const bw_str *texts;
    size_t n;
} at_hand;

static bw_status hand_list(void *user, bw_ctx *ctx, const bw_class_id **classes,
                           size_t *n, uint64_t *version, uint8_t name[16])
{
    const at_hand *h = user;
    (void)ctx;
    (void)version;
    (void)name;
    *classes = h->classes;
    *n = h->n;
    return BW_OK;
}

static bw_status hand_text(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out)
{
    const at_hand *h = user;
    size_t lo = 0, hi = h->n;
    (void)ctx;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (bw_class_id_cmp(&h->classes[mid], id) <= 0)
            lo = mid;
        else
            hi = mid;
    }
    *out = h->texts[lo];
    return BW_OK;
}

bw_status bw_permitted_set(bw_ctx *ctx, bw_authority *a, const bw_question *q,
                           const bw_class_id *classes, const bw_str *label_texts,
                           size_t n, bw_permit *out, uint8_t digest[16])
{
    at_hand hand = {classes, label_texts, n};
    bw_directory directory = {
        .list = hand_list, .label_text = hand_text, .user = &hand};
    const bw_permitted *p;
    bw_status st = bw_permitted_acquire(ctx, a, q, &directory, &p);
    if (st != BW_OK)
        return st;
    bw_class_id *copy = bw_arena_alloc(ctx, (p->permit.n + 1) * sizeof *copy);
    if (copy) {
        if (p->permit.n)
            memcpy(copy, p->permit.classes, p->permit.n * sizeof *copy);
        *out = (bw_permit){copy, p->permit.n};
        memcpy(digest, p->digest, sizeof p->digest);
    }
    bw_permitted_release(p);
    return copy ? BW_OK : BW_ENOMEM;
}
