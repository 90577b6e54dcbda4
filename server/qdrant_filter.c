/* The wire form of a filter into bw_filter (contract, section 3).
 *
 * Place: read by every call that takes a `filter`; the engine evaluates what comes out.
 * Source: Qdrant's Filter, Condition, FieldCondition (OpenAPI 1.19).
 *
 * A node that is not understood whole is a 400 that names it, never a condition that
 * matches all: an unknown word, two tests in one condition, an empty test, a path that
 * is none. Where Qdrant lets more through (unknown words in a condition, a range
 * without bounds, `"must": {}`), that is on purpose (cases of silently widened
 * answers).
 * `{}` as a filter, or as an element of a list, is a filter without clauses, as clients
 * send it. Left out: geo, text_any, phrase, prefix, slice (LATER: refused by name). */
#include "qdrant.h"

static bw_status filter_at(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                           bw_filter *out);

static bool is_clause(bw_str key)
{
    return bw_str_is(key, "must") || bw_str_is(key, "should") ||
           bw_str_is(key, "must_not") || bw_str_is(key, "min_should");
}

static const char *later_word(bw_str key)
{
    static const char *const words[] = {"geo_radius", "geo_bounding_box", "geo_polygon",
                                        "slice",      "text_any",         "phrase",
                                        "prefix"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bw_str_eq(key, bw_str_c(words[i])))
            return words[i];
    return NULL;
}

static bw_status unknown_word(bw_qdrant_parse *p, const bw_json *node,
                              const char *where)
{
    const char *later = later_word(node->key);
    if (later)
        return bw_qdrant__later(p, node, later);
    return bw_qdrant__format(p, node, "unknown word in a %s", where);
}

/* ---- match ---- */

static bw_status match_value(bw_qdrant_parse *p, const bw_json *v, bw_value *out)
{
    *out = (bw_value){0};
    if (v->kind == BW_JSON_STRING) {
        out->kind = BW_VALUE_STRING;
        out->str = v->str;
    } else if (v->kind == BW_JSON_NUMBER && v->is_int) {
        out->kind = BW_VALUE_INT;
        out->mag = v->mag;
        out->negative = v->negative && v->mag != 0;
    } else if (bw_json_is_bool(v)) {
        out->kind = BW_VALUE_BOOL;
        out->boolean = v->kind == BW_JSON_TRUE;
    } else {
        return bw_qdrant__format(p, v, "match takes a string, an integer or a bool");
    }
    return BW_OK;
}

/* any, except: all strings or all integers. */
static bw_status match_list(bw_qdrant_parse *p, const bw_json *list, bw_condition *out)
{
    const bw_json *e;
    uint32_t n;
    bw_status s = bw_qdrant__list(p, list, "values", BW_LIMIT_IDS, &e, &n);
    if (s != BW_OK)
        return s;
    bw_value *values = bw_arena_calloc(p->ctx, n, sizeof *values);
    if (!values)
        return bw_fail_nomem(p->ctx);
    for (uint32_t i = 0; e; e = e->next, i++) {
        if ((s = match_value(p, e, &values[i])) != BW_OK)
            return s;
        if (values[i].kind == BW_VALUE_BOOL || values[i].kind != values[0].kind)
            return bw_qdrant__format(p, e,
                                     "the list must be all strings or all integers");
    }
    out->values = values;
    out->nvalues = n;
    return BW_OK;
}

static bw_status match(bw_qdrant_parse *p, const bw_json *node, bw_condition *out)
{
    const bw_json *test = NULL;
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node,
                                 "expected an object with value, any, except or text");
    for (const bw_json *m = node->child; m; m = m->next) {
        if (!bw_str_is(m->key, "value") && !bw_str_is(m->key, "any") &&
            !bw_str_is(m->key, "except") && !bw_str_is(m->key, "text"))
            return unknown_word(p, m, "match");
        if (m->kind == BW_JSON_NULL)
            continue;
        if (test)
            return bw_qdrant__format(p, m, "a match has one test");
        test = m;
    }
    if (!test)
        return bw_qdrant__format(p, node, "the match is empty");
    if (bw_str_is(test->key, "value")) {
        bw_value *v = bw_arena_alloc(p->ctx, sizeof *v);
        if (!v)
            return bw_fail_nomem(p->ctx);
        out->kind = BW_COND_MATCH_VALUE;
        out->values = v;
        out->nvalues = 1;
        return match_value(p, test, v);
    }
    if (bw_str_is(test->key, "text")) {
        if (test->kind != BW_JSON_STRING)
            return bw_qdrant__format(p, test, "expected a string");
        out->kind = BW_COND_MATCH_TEXT;
        out->text = test->str;
        return BW_OK;
    }
    out->kind = bw_str_is(test->key, "any") ? BW_COND_MATCH_ANY : BW_COND_MATCH_EXCEPT;
    return match_list(p, test, out);
}

/* ---- range, values_count ---- */

bw_status bw_qdrant__number(bw_qdrant_parse *p, const bw_json *node, bw_number *out)
{
    *out = (bw_number){0};
    if (node->kind != BW_JSON_NUMBER)
        return bw_qdrant__format(p, node, "expected a number");
    *out = (bw_number){node->is_int, node->is_int && node->negative && node->mag != 0,
                       node->mag, node->real};
    return BW_OK;
}

static bw_status date(bw_qdrant_parse *p, const bw_json *node, bw_number *out)
{
    int64_t ns;
    if (node->kind != BW_JSON_STRING || !bw_payload_time(node->str, &ns))
        return bw_qdrant__format(p, node, "expected a date-time as RFC 3339 has it");
    uint64_t mag = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    *out = (bw_number){true, ns < 0, mag, (double)ns};
    return BW_OK;
}

static bw_status range(bw_qdrant_parse *p, const bw_json *node, bool counts,
                       bw_condition *out)
{
    bw_range *r = &out->range;
    uint32_t bounds = 0, dates = 0;
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected an object with gt, gte, lt or lte");
    for (const bw_json *m = node->child; m; m = m->next) {
        bw_number *bound = NULL;
        bool *has = NULL;
        if (bw_str_is(m->key, "gt"))
            bound = &r->gt, has = &r->has_gt;
        else if (bw_str_is(m->key, "gte"))
            bound = &r->gte, has = &r->has_gte;
        else if (bw_str_is(m->key, "lt"))
            bound = &r->lt, has = &r->has_lt;
        else if (bw_str_is(m->key, "lte"))
            bound = &r->lte, has = &r->has_lte;
        else
            return unknown_word(p, m, "range");
        if (m->kind == BW_JSON_NULL)
            continue;
        bool is_date = !counts && m->kind == BW_JSON_STRING;
        bw_status s = is_date ? date(p, m, bound) : bw_qdrant__number(p, m, bound);
        if (s != BW_OK)
            return s;
        if (counts && (!bound->is_int || bound->negative))
            return bw_qdrant__format(p, m, "expected an unsigned integer");
        *has = true;
        bounds++;
        dates += is_date;
    }
    if (bounds == 0)
        return bw_qdrant__format(p, node, "the range has no bound");
    if (dates != 0 && dates != bounds)
        return bw_qdrant__format(p, node,
                                 "the bounds must be all numbers or all date-times");
    out->kind = counts  ? BW_COND_VALUES_COUNT
                : dates ? BW_COND_DATE_RANGE
                        : BW_COND_RANGE;
    return BW_OK;
}

/* ---- conditions ---- */

/* {"key": k, TEST}: one test. */
static bw_status field(bw_qdrant_parse *p, const bw_json *node, bw_condition *out)
{
    const bw_json *test = NULL;
    bw_status s = bw_qdrant__path_field(p, bw_json_get(node, "key"), "key", &out->key);
    if (s != BW_OK)
        return s;
    for (const bw_json *m = node->child; m; m = m->next) {
        if (bw_str_is(m->key, "key"))
            continue;
        if (!bw_str_is(m->key, "match") && !bw_str_is(m->key, "range") &&
            !bw_str_is(m->key, "values_count") && !bw_str_is(m->key, "is_empty") &&
            !bw_str_is(m->key, "is_null")) {
            if (m->kind == BW_JSON_NULL && later_word(m->key))
                continue; /* generated clients send the whole form with nulls */
            return unknown_word(p, m, "field condition");
        }
        if (m->kind == BW_JSON_NULL)
            continue;
        if (test)
            return bw_qdrant__format(p, m,
                                     "a condition has one test; use `must` for two");
        test = m;
    }
    if (!test) {
        p->status = 422;
        return bw_fail_at(
            p->ctx, BW_EINVALID, bw_json_pointer(p->ctx, node),
            "Validation error in JSON body: [%.96s: at least one field condition "
            "must be specified]",
            bw_json_pointer(p->ctx, node));
    }
    if (bw_str_is(test->key, "match"))
        return match(p, test, out);
    if (bw_str_is(test->key, "range"))
        return range(p, test, false, out);
    if (bw_str_is(test->key, "values_count"))
        return range(p, test, true, out);
    if (!bw_json_is_bool(test))
        return bw_qdrant__format(p, test, "expected true or false");
    out->kind = bw_str_is(test->key, "is_empty") ? BW_COND_IS_EMPTY : BW_COND_IS_NULL;
    out->negate = test->kind == BW_JSON_FALSE;
    return BW_OK;
}

/* {"is_empty": {"key": k}} */
static bw_status keyed(bw_qdrant_parse *p, const bw_json *test, bw_condition *out)
{
    out->kind = bw_str_is(test->key, "is_empty") ? BW_COND_IS_EMPTY : BW_COND_IS_NULL;
    if (test->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, test, "expected {\"key\": path}");
    for (const bw_json *m = test->child; m; m = m->next)
        if (!bw_str_is(m->key, "key"))
            return unknown_word(p, m, "condition");
    const bw_json *key = bw_json_get(test, "key");
    return key ? bw_qdrant__path_field(p, key, "key", &out->key)
               : bw_qdrant__format(p, test, "missing field `key`");
}

static bw_status nested(bw_qdrant_parse *p, const bw_json *test, uint32_t depth,
                        bw_condition *out)
{
    out->kind = BW_COND_NESTED;
    if (test->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, test, "expected {\"key\": path, \"filter\": {…}}");
    for (const bw_json *m = test->child; m; m = m->next)
        if (!bw_str_is(m->key, "key") && !bw_str_is(m->key, "filter"))
            return unknown_word(p, m, "nested condition");
    const bw_json *key = bw_json_get(test, "key"),
                  *inner = bw_json_get_value(test, "filter");
    if (!key || !inner)
        return bw_qdrant__format(p, test, "missing field `%s`", key ? "filter" : "key");
    bw_status s = bw_qdrant__path_field(p, key, "key", &out->key);
    if (s != BW_OK)
        return s;
    bw_filter *f = bw_arena_calloc(p->ctx, 1, sizeof *f);
    if (!f)
        return bw_fail_nomem(p->ctx);
    out->filter = f;
    return filter_at(p, inner, depth + 1, f);
}

/* The one word of a condition that is neither a field's nor a filter's. */
static bw_status lone_test(bw_qdrant_parse *p, const bw_json *test, uint32_t depth,
                           bw_condition *out)
{
    if (bw_str_is(test->key, "is_empty") || bw_str_is(test->key, "is_null"))
        return keyed(p, test, out);
    if (bw_str_is(test->key, "nested"))
        return nested(p, test, depth, out);
    if (bw_str_is(test->key, "has_id")) {
        out->kind = BW_COND_HAS_ID;
        return bw_qdrant__ids(p, test, "point ids", &out->ids, &out->nids);
    }
    if (bw_str_is(test->key, "has_vector")) {
        out->kind = BW_COND_HAS_VECTOR;
        if (test->kind != BW_JSON_STRING)
            return bw_qdrant__format(p, test, "expected a vector name");
        out->key = test->str;
        return BW_OK;
    }
    return unknown_word(p, test, "condition");
}

static bw_status condition(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                           bw_condition *out)
{
    *out = (bw_condition){0};
    if (++p->nodes > BW_FILTER_NODES_MAX)
        return bw_qdrant__format(p, node, "the filter has more than %d conditions",
                                 BW_FILTER_NODES_MAX);
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected a condition");
    bool clauses = node->count == 0;
    for (const bw_json *m = node->child; m && !clauses; m = m->next)
        clauses = is_clause(m->key);
    if (clauses) {
        bw_filter *f = bw_arena_calloc(p->ctx, 1, sizeof *f);
        if (!f)
            return bw_fail_nomem(p->ctx);
        out->kind = BW_COND_FILTER;
        out->filter = f;
        return filter_at(p, node, depth + 1, f);
    }
    if (bw_json_get(node, "key"))
        return field(p, node, out);
    const bw_json *test = NULL;
    for (const bw_json *m = node->child; m; m = m->next) {
        if (test)
            return bw_qdrant__format(p, m,
                                     "a condition has one test; use `must` for two");
        test = m;
    }
    return lone_test(p, test, depth, out);
}

/* ---- clauses ---- */

static bw_status clause(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                        const bw_condition **out, uint32_t *n)
{
    const bw_json *first = node;
    uint32_t count = 1;
    bool list = bw_json_is_array(node);
    if (list) {
        bw_status s =
            bw_qdrant__list(p, node, "conditions", BW_FILTER_NODES_MAX, &first, &count);
        if (s != BW_OK)
            return s;
    } else if (node->kind != BW_JSON_OBJECT || node->count == 0) {
        return bw_qdrant__format(p, node, "expected a condition or a list of them");
    }
    bw_condition *c = bw_arena_calloc(p->ctx, count, sizeof *c);
    if (!c)
        return bw_fail_nomem(p->ctx);
    const bw_json *e = first;
    for (uint32_t i = 0; i < count; i++, e = e->next) {
        bw_status s = condition(p, e, depth, &c[i]);
        if (s != BW_OK)
            return s;
    }
    *out = c;
    *n = count;
    return BW_OK;
}

static bw_status min_should(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                            bw_filter *out)
{
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node,
                                 "expected {\"conditions\": […], \"min_count\": n}");
    for (const bw_json *m = node->child; m; m = m->next)
        if (!bw_str_is(m->key, "conditions") && !bw_str_is(m->key, "min_count"))
            return unknown_word(p, m, "min_should");
    const bw_json *list = bw_json_get_value(node, "conditions");
    const bw_json *count = bw_json_get_value(node, "min_count");
    if (!list || !count)
        return bw_qdrant__format(p, node, "missing field `%s`",
                                 list ? "min_count" : "conditions");
    if (!bw_json_is_array(list))
        return bw_qdrant__format(p, list, "expected a list of conditions");
    if (!bw_json_u64(count, &out->min_count))
        return bw_qdrant__format(p, count, "expected an unsigned integer");
    out->has_min_should = true;
    return clause(p, list, depth, &out->min_should, &out->nmin_should);
}

static bw_status filter_at(bw_qdrant_parse *p, const bw_json *node, uint32_t depth,
                           bw_filter *out)
{
    if (depth > BW_FILTER_DEPTH_MAX)
        return bw_qdrant__format(p, node, "the filter is nested deeper than %d",
                                 BW_FILTER_DEPTH_MAX);
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node, "expected a filter");
    for (const bw_json *m = node->child; m; m = m->next) {
        bw_status s = BW_OK;
        if (!is_clause(m->key))
            return unknown_word(p, m, "filter (must, should, must_not, min_should)");
        if (m->kind == BW_JSON_NULL)
            continue;
        if (bw_str_is(m->key, "must"))
            s = clause(p, m, depth, &out->must, &out->nmust);
        else if (bw_str_is(m->key, "should"))
            s = clause(p, m, depth, &out->should, &out->nshould);
        else if (bw_str_is(m->key, "must_not"))
            s = clause(p, m, depth, &out->must_not, &out->nmust_not);
        else
            s = min_should(p, m, depth, out);
        if (s != BW_OK)
            return s;
    }
    return BW_OK;
}

bw_status bw_qdrant__filter(bw_qdrant_parse *p, const bw_json *node,
                            const bw_filter **out)
{
    *out = NULL;
    if (!node || node->kind == BW_JSON_NULL)
        return BW_OK;
    bw_filter *f = bw_arena_calloc(p->ctx, 1, sizeof *f);
    if (!f)
        return bw_fail_nomem(p->ctx);
    bw_status s = filter_at(p, node, 1, f);
    if (s == BW_OK && (f->nmust || f->nshould || f->nmust_not || f->has_min_should))
        *out = f;
    return s;
}
