/* What each condition of a filter means, row by row (Qdrant's Filter; the rules were
 * checked against its engine without payload indexes, which is the reference here):
 *
 *  - a value that is an array stands for its elements, one level deep;
 *  - match compares strings, integers and booleans of the same kind; 42.0 is a float
 *    and matches no integer; `except` holds for any non-null value that is not listed,
 *    also a float, an object or an array inside the array;
 *  - range takes integers and floats by exact value; date ranges take strings only;
 *  - values_count counts null and nothing as 0, a scalar as 1;
 *  - is_empty: no value, or all are null or []; is_null: some value is null or holds one;
 *  - nested: some element of the array is an object that meets the whole filter.
 *
 * Recursion follows the filter's own nesting, capped by BW_FILTER_DEPTH_MAX. */
#include "filter.h"
#include <stdlib.h>

enum { WORDS_MAX = 4096 }; /* of one text condition, repeated ones too */
enum { CONDITION_BYTES = 64, CHECK_BYTES = 1 << 18 }; /* one's least; between two looks */

/* ---- making ready ---- */

typedef struct build {
    bw_ctx *ctx;
    const bw_collection_info *info;
    uint32_t nodes, words_max;
} build;

static bw_status build_clause(build *b, const bw_filter *f, unsigned depth,
                              bw_clause **out);

static int cmp_value(const void *a, const void *b)
{
    return bw_value_cmp(a, b);
}

static int cmp_id(const void *a, const void *b)
{
    return bw_point_id_cmp(a, b);
}

static bw_status build_values(build *b, bw_cnode *n)
{
    uint32_t count = n->cond->nvalues, unique = 0;
    bw_value *v = bw_arena_alloc(b->ctx, count * sizeof *v);
    if (!v)
        return BW_ENOMEM;
    if (count > 0)
        memcpy(v, n->cond->values, count * sizeof *v);
    qsort(v, count, sizeof *v, cmp_value);
    for (uint32_t i = 0; i < count; i++) {
        if (unique == 0 || bw_value_cmp(&v[unique - 1], &v[i]) != 0)
            v[unique++] = v[i];
    }
    n->values = v;
    n->nvalues = unique;
    return BW_OK;
}

static bw_status build_ids(build *b, bw_cnode *n)
{
    uint32_t count = n->cond->nids;
    bw_point_id *ids = bw_arena_alloc(b->ctx, count * sizeof *ids);
    if (!ids)
        return BW_ENOMEM;
    if (count > 0)
        memcpy(ids, n->cond->ids, count * sizeof *ids);
    qsort(ids, count, sizeof *ids, cmp_id);
    n->ids = ids;
    n->nids = count;
    return BW_OK;
}

typedef struct word_list {
    build *b;
    bw_str *words;
    uint32_t n;
    bw_status status;
} word_list;

static int cmp_word(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

static bool add_word(void *arg, bw_str word)
{
    word_list *l = arg;
    if (l->n == WORDS_MAX) {
        l->status = bw_fail(l->b->ctx, BW_EINVALID,
                            "A text condition has over %d words", (int)WORDS_MAX);
        return false;
    }
    if ((l->n & (l->n - 1)) == 0) { /* a power of two: the room is used up */
        size_t bytes = l->n * sizeof *l->words;
        size_t more = bytes ? 2 * bytes : sizeof *l->words;
        l->words = bw_arena_grow(l->b->ctx, l->words, bytes, more);
    }
    l->status = l->words ? bw_arena_str(l->b->ctx, word, &l->words[l->n]) : BW_ENOMEM;
    if (l->status != BW_OK)
        return false;
    l->n++;
    return true;
}

static bw_status build_words(build *b, bw_cnode *n)
{
    word_list l = {b, NULL, 0, BW_OK};
    uint32_t unique = 0;
    bw_words_each(n->cond->text, add_word, &l);
    if (l.status != BW_OK)
        return l.status;
    if (l.n > 1)
        qsort(l.words, l.n, sizeof *l.words, cmp_word);
    for (uint32_t i = 0; i < l.n; i++) {
        if (unique == 0 || !bw_str_eq(l.words[unique - 1], l.words[i]))
            l.words[unique++] = l.words[i];
    }
    n->words = l.words;
    n->nwords = unique;
    if (unique > b->words_max)
        b->words_max = unique;
    return BW_OK;
}

static uint32_t find_vector(const bw_collection_info *info, bw_str name)
{
    for (uint32_t i = 0; info && i < info->nvectors; i++) {
        if (bw_str_eq(info->vectors[i].name, name))
            return i;
    }
    return UINT32_MAX;
}

/* `nested` looks at the elements of the array at its key, with or without a last []. */
static bw_status build_nested_path(build *b, bw_cnode *n)
{
    bw_path p = n->path;
    if (p.steps[p.n - 1].kind == BW_STEP_ALL)
        return BW_OK;
    if (p.n == BW_PATH_STEPS_MAX)
        return bw_fail(b->ctx, BW_EINVALID, "A payload path has over %d steps",
                       (int)BW_PATH_STEPS_MAX);
    bw_step *steps = bw_arena_alloc(b->ctx, (p.n + 1) * sizeof *steps);
    if (!steps)
        return BW_ENOMEM;
    memcpy(steps, p.steps, p.n * sizeof *steps);
    steps[p.n] = (bw_step){BW_STEP_ALL, {NULL, 0}, 0};
    n->path = (bw_path){steps, p.n + 1};
    return BW_OK;
}

static bw_status build_node(build *b, const bw_condition *c, unsigned depth,
                            bw_cnode *n)
{
    *n = (bw_cnode){.cond = c, .vec = UINT32_MAX};
    if (++b->nodes > BW_FILTER_NODES_MAX)
        return bw_fail(b->ctx, BW_EINVALID, "A filter has over %d conditions",
                       (int)BW_FILTER_NODES_MAX);
    if (c->kind == BW_COND_FILTER)
        return build_clause(b, c->filter, depth + 1, &n->sub);
    if (c->kind == BW_COND_HAS_ID)
        return build_ids(b, n);
    if (c->kind == BW_COND_HAS_VECTOR) {
        n->vec = find_vector(b->info, c->key);
        return BW_OK;
    }
    bw_status st = bw_path_parse(b->ctx, c->key, &n->path);
    if (st != BW_OK)
        return st;
    if (c->kind == BW_COND_NESTED) {
        st = build_nested_path(b, n);
        return st != BW_OK ? st : build_clause(b, c->filter, depth + 1, &n->sub);
    }
    if (c->kind == BW_COND_MATCH_TEXT)
        return build_words(b, n);
    return build_values(b, n);
}

static bw_status build_list(build *b, const bw_condition *list, uint32_t n,
                            unsigned depth, bw_cnode **out)
{
    bw_cnode *nodes = bw_arena_alloc(b->ctx, n * sizeof *nodes);
    if (!nodes)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        bw_status st = build_node(b, &list[i], depth, &nodes[i]);
        if (st != BW_OK)
            return st;
    }
    *out = nodes;
    return BW_OK;
}

static bw_status build_clause(build *b, const bw_filter *f, unsigned depth,
                              bw_clause **out)
{
    if (depth > BW_FILTER_DEPTH_MAX)
        return bw_fail(b->ctx, BW_EINVALID, "A filter is nested over %d deep",
                       (int)BW_FILTER_DEPTH_MAX);
    bw_clause *c = bw_arena_calloc(b->ctx, 1, sizeof *c);
    if (!c)
        return BW_ENOMEM;
    c->nmust = f->nmust;
    c->nshould = f->nshould;
    c->nmust_not = f->nmust_not;
    c->nmin_should = f->nmin_should;
    c->min_count = f->min_count;
    c->has_min_should = f->has_min_should;
    bw_status st = build_list(b, f->must, f->nmust, depth, &c->must);
    if (st == BW_OK)
        st = build_list(b, f->should, f->nshould, depth, &c->should);
    if (st == BW_OK)
        st = build_list(b, f->must_not, f->nmust_not, depth, &c->must_not);
    if (st == BW_OK)
        st = build_list(b, f->min_should, f->nmin_should, depth, &c->min_should);
    *out = c;
    return st;
}

/* ---- equal trees ---- */

static bool same_number(const bw_number *a, const bw_number *b)
{
    return a->is_int == b->is_int && a->negative == b->negative && a->mag == b->mag &&
           a->real == b->real;
}

static bool same_range(const bw_range *a, const bw_range *b)
{
    return a->has_gt == b->has_gt && a->has_gte == b->has_gte &&
           a->has_lt == b->has_lt && a->has_lte == b->has_lte &&
           (!a->has_gt || same_number(&a->gt, &b->gt)) &&
           (!a->has_gte || same_number(&a->gte, &b->gte)) &&
           (!a->has_lt || same_number(&a->lt, &b->lt)) &&
           (!a->has_lte || same_number(&a->lte, &b->lte));
}

static bool same_clause(const bw_clause *a, const bw_clause *b);

static bool same_node(const bw_cnode *a, const bw_cnode *b)
{
    if (a->cond->kind != b->cond->kind || a->cond->negate != b->cond->negate ||
        !bw_str_eq(a->cond->key, b->cond->key) || a->nvalues != b->nvalues ||
        a->nids != b->nids || a->nwords != b->nwords ||
        !same_range(&a->cond->range, &b->cond->range))
        return false;
    for (uint32_t i = 0; i < a->nvalues; i++) {
        if (bw_value_cmp(&a->values[i], &b->values[i]) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->nids; i++) {
        if (bw_point_id_cmp(&a->ids[i], &b->ids[i]) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->nwords; i++) {
        if (!bw_str_eq(a->words[i], b->words[i]))
            return false;
    }
    return !a->sub || same_clause(a->sub, b->sub);
}

static bool same_nodes(const bw_cnode *a, uint32_t na, const bw_cnode *b, uint32_t nb)
{
    if (na != nb)
        return false;
    for (uint32_t i = 0; i < na; i++) {
        if (!same_node(&a[i], &b[i]))
            return false;
    }
    return true;
}

static bool same_clause(const bw_clause *a, const bw_clause *b)
{
    return a->has_min_should == b->has_min_should &&
           (!a->has_min_should || a->min_count == b->min_count) &&
           same_nodes(a->must, a->nmust, b->must, b->nmust) &&
           same_nodes(a->should, a->nshould, b->should, b->nshould) &&
           same_nodes(a->must_not, a->nmust_not, b->must_not, b->nmust_not) &&
           same_nodes(a->min_should, a->nmin_should, b->min_should, b->nmin_should);
}

bool bw_matcher_same(const bw_matcher *a, const bw_matcher *b)
{
    return same_clause(a->root, b->root);
}

/* LangChain sends the filter of a hybrid query in the root and in every prefetch: one
 * of the same is enough. */
static void drop_repeated(bw_clause *root)
{
    bw_cnode *last = &root->must[root->nmust - 1];
    for (uint32_t i = 0; i + 1 < root->nmust; i++) {
        if (same_node(&root->must[i], last)) {
            root->nmust--;
            return;
        }
    }
}

bw_status bw_matcher_init(bw_ctx *ctx, bw_matcher *m, const bw_filter *const *filters,
                          size_t n, const bw_collection_info *info)
{
    static const bw_condition whole = {.kind = BW_COND_FILTER};
    build b = {ctx, info, 0, 0};
    *m = (bw_matcher){.ctx = ctx};
    m->root = bw_arena_calloc(ctx, 1, sizeof *m->root);
    if (!m->root)
        return BW_ENOMEM;
    m->root->must = bw_arena_calloc(ctx, n, sizeof *m->root->must);
    if (!m->root->must)
        return BW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!filters[i])
            continue;
        bw_cnode *node = &m->root->must[m->root->nmust++];
        *node = (bw_cnode){.cond = &whole, .vec = UINT32_MAX};
        bw_status st = build_clause(&b, filters[i], 0, &node->sub);
        if (st != BW_OK)
            return st;
        drop_repeated(m->root);
    }
    m->seen = bw_arena_calloc(ctx, b.words_max / 64 + 1, sizeof *m->seen);
    return m->seen ? BW_OK : BW_ENOMEM;
}

void bw_matcher_clear(bw_matcher *m)
{
    bw_buf_clear(&m->scratch);
}

/* ---- one value ---- */

typedef struct visit {
    bw_matcher *m;
    const bw_cnode *node;
    const bw_subject *subject;
    uint64_t values; /* how many the path reached */
    bool hit;
} visit;

static bool in_values(const bw_cnode *n, const bw_value *v)
{
    return n->nvalues > 0 &&
           bsearch(v, n->values, n->nvalues, sizeof *v, cmp_value) != NULL;
}

static bool scalar_match(visit *v, bw_str raw)
{
    bw_value value;
    return bw_raw_value(raw, &v->m->scratch, &value) && in_values(v->node, &value);
}

static bool scalar_except(visit *v, bw_str raw)
{
    return !bw_raw_is_null(raw) && !scalar_match(v, raw);
}

static bool scalar_range(visit *v, bw_str raw)
{
    bw_number n;
    return bw_raw_number(raw, &n) && bw_range_has(&v->node->cond->range, &n);
}

static bool scalar_date(visit *v, bw_str raw)
{
    bw_str s;
    int64_t ns;
    if (!bw_raw_string(raw, &v->m->scratch, &s) || !bw_payload_time(s, &ns))
        return false;
    bw_number n = {true, ns < 0, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, (double)ns};
    return bw_range_has(&v->node->cond->range, &n);
}

typedef struct word_search {
    const bw_cnode *node;
    uint64_t *seen;
    uint32_t left;
} word_search;

static bool see_word(void *arg, bw_str word)
{
    word_search *s = arg;
    const bw_cnode *n = s->node;
    const bw_str *at = bsearch(&word, n->words, n->nwords, sizeof word, cmp_word);
    if (at) {
        size_t i = (size_t)(at - n->words);
        s->left -= (s->seen[i / 64] >> (i % 64) & 1) == 0;
        s->seen[i / 64] |= (uint64_t)1 << (i % 64);
    }
    return s->left > 0;
}

static bool scalar_text(visit *v, bw_str raw)
{
    bw_str s;
    if (v->node->nwords == 0 || !bw_raw_string(raw, &v->m->scratch, &s))
        return false;
    memset(v->m->seen, 0, (v->node->nwords / 64 + 1) * sizeof *v->m->seen);
    word_search search = {v->node, v->m->seen, v->node->nwords};
    bw_words_each(s, see_word, &search);
    return search.left == 0;
}

typedef bool (*scalar_fn)(visit *v, bw_str raw);

/* A value, or one of its elements when it is an array. */
static bool any_scalar(visit *v, bw_str raw, scalar_fn fn)
{
    bw_str rest, e;
    if (!bw_raw_array_begin(raw, &rest))
        return fn(v, raw);
    while (bw_raw_array_next(&rest, &e)) {
        if (fn(v, e))
            return true;
    }
    return false;
}

static bool value_count(visit *v, bw_str raw)
{
    uint64_t n = bw_raw_is_null(raw)    ? 0
                 : bw_raw_is_array(raw) ? bw_raw_array_count(raw)
                                        : 1;
    bw_number number = {true, false, n, (double)n};
    return bw_range_has(&v->node->cond->range, &number);
}

static bool value_empty(bw_str raw)
{
    bw_str rest, e;
    return bw_raw_is_null(raw) ||
           (bw_raw_array_begin(raw, &rest) && !bw_raw_array_next(&rest, &e));
}

static bool value_null(bw_str raw)
{
    bw_str rest, e;
    if (!bw_raw_array_begin(raw, &rest))
        return bw_raw_is_null(raw);
    while (bw_raw_array_next(&rest, &e)) {
        if (bw_raw_is_null(e))
            return true;
    }
    return false;
}

static bool test_clause(bw_matcher *m, const bw_clause *c, const bw_subject *s);

static bool value_nested(visit *v, bw_str raw)
{
    if (!bw_raw_is_object(raw))
        return false;
    bw_subject inner = {.object = raw};
    return test_clause(v->m, v->node->sub, &inner);
}

/* Sets v->hit; returns whether to go on. */
static bool visit_value(void *arg, bw_str raw)
{
    visit *v = arg;
    v->values++;
    switch (v->node->cond->kind) {
    case BW_COND_MATCH_VALUE:
    case BW_COND_MATCH_ANY:
        v->hit = any_scalar(v, raw, scalar_match);
        break;
    case BW_COND_MATCH_EXCEPT:
        v->hit = any_scalar(v, raw, scalar_except);
        break;
    case BW_COND_MATCH_TEXT:
        v->hit = any_scalar(v, raw, scalar_text);
        break;
    case BW_COND_RANGE:
        v->hit = any_scalar(v, raw, scalar_range);
        break;
    case BW_COND_DATE_RANGE:
        v->hit = any_scalar(v, raw, scalar_date);
        break;
    case BW_COND_VALUES_COUNT:
        v->hit = value_count(v, raw);
        break;
    case BW_COND_IS_EMPTY: /* hit = a value that is not empty */
        v->hit = !value_empty(raw);
        break;
    case BW_COND_IS_NULL:
        v->hit = value_null(raw);
        break;
    case BW_COND_NESTED:
        v->hit = value_nested(v, raw);
        break;
    case BW_COND_FILTER:
    case BW_COND_HAS_ID:
    case BW_COND_HAS_VECTOR:
        assert(false && "no payload kind");
        break;
    }
    return !v->hit;
}

/* ---- conditions and clauses ---- */

static bool test_has_vector(const bw_cnode *n, const bw_subject *s)
{
    if (s->snapshot) {
        bw_vector sparse;
        return n->vec != UINT32_MAX &&
               (bw_snapshot_has_dense(s->snapshot, n->vec, s->row) ||
                bw_snapshot_sparse(s->snapshot, n->vec, s->row, &sparse));
    }
    for (size_t i = 0; i < s->nvectors; i++) {
        if (bw_str_eq(s->vectors[i].name, n->cond->key))
            return true;
    }
    return false;
}

/* Each condition reads the payload anew, and a filter may have thousands of them. */
static bool in_time(bw_matcher *m, size_t bytes)
{
    m->read += bytes + CONDITION_BYTES;
    if (m->read > CHECK_BYTES) {
        m->read = 0;
        m->late = m->late || bw_ctx_check(m->ctx) != BW_OK;
    }
    return !m->late;
}

static bool test_payload(bw_matcher *m, const bw_cnode *n, const bw_subject *s)
{
    visit v = {m, n, s, 0, false};
    if (!in_time(m, s->object.len))
        return false;
    if (s->object.len > 0)
        bw_path_each(&n->path, s->object, visit_value, &v);
    switch (n->cond->kind) {
    case BW_COND_IS_EMPTY:
        return v.hit == n->cond->negate;
    case BW_COND_IS_NULL:
        return v.hit != n->cond->negate;
    case BW_COND_VALUES_COUNT:
        return v.values > 0 ? v.hit : value_count(&v, BW_STR("null"));
    default:
        return v.hit;
    }
}

bool bw_matcher_test_node(bw_matcher *m, const bw_cnode *n, const bw_subject *s)
{
    switch (n->cond->kind) {
    case BW_COND_FILTER:
        return test_clause(m, n->sub, s);
    case BW_COND_HAS_ID:
        return s->id && n->nids > 0 &&
               bsearch(s->id, n->ids, n->nids, sizeof *n->ids, cmp_id);
    case BW_COND_HAS_VECTOR:
        return s->id && test_has_vector(n, s);
    default:
        return test_payload(m, n, s);
    }
}

static bool test_clause(bw_matcher *m, const bw_clause *c, const bw_subject *s)
{
    for (uint32_t i = 0; i < c->nmust; i++) {
        if ((!c->must[i].settled || m->ask_all) &&
            !bw_matcher_test_node(m, &c->must[i], s))
            return false;
    }
    for (uint32_t i = 0; i < c->nmust_not; i++) {
        if ((!c->must_not[i].settled || m->ask_all) &&
            bw_matcher_test_node(m, &c->must_not[i], s))
            return false;
    }
    bool some = c->nshould == 0;
    for (uint32_t i = 0; i < c->nshould && !some; i++)
        some = bw_matcher_test_node(m, &c->should[i], s);
    if (!some || !c->has_min_should)
        return some;
    uint64_t met = 0;
    for (uint32_t i = 0; i < c->nmin_should && met < c->min_count; i++)
        met += bw_matcher_test_node(m, &c->min_should[i], s);
    return met >= c->min_count;
}

bool bw_matcher_test(bw_matcher *m, const bw_subject *s)
{
    bool hit = test_clause(m, m->root, s);
    m->failed = m->failed || m->scratch.failed;
    return hit;
}

bw_status bw_matcher_status(const bw_matcher *m)
{
    if (m->failed)
        return bw_fail_nomem(m->ctx);
    return m->late ? BW_ETIMEOUT : BW_OK; /* bw_ctx_check has said so */
}
