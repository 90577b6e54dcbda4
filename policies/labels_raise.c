/* Raising: what may be added to a label set after somebody has chosen it.
 *
 * A rule or a detector that was never meant to decide must not be able to open anything,
 * so a raise goes up in one order on label sets (bw_labels_at_least) and in no other
 * direction: lists of what binds grow by union, lists of what is allowed shrink by
 * intersection, the sensitivity is a maximum. What comes out is checked against that
 * order every time.
 *
 * The order is one of sets. No order of labels can promise that each policy anybody
 * writes answers a raised set more strictly: a rule may read a word as a permission.
 * The words of the vocabulary that the packs read so, or that say it outright, cannot be
 * raised to: "public", "expires", "keep-to-…". */
#include "labels.h"

#include <stdlib.h>

/* ---- the order ---- */

static bool has(const bw_label_list *l, bw_str word)
{
    for (size_t i = 0; i < l->n; i++)
        if (bw_str_eq(l->items[i], word))
            return true;
    return false;
}

static bool has_all(const bw_label_list *of, const bw_label_list *words)
{
    for (size_t i = 0; i < words->n; i++)
        if (!has(of, words->items[i]))
            return false;
    return true;
}

/* A word that left the catalogue is still in itself. */
static bool lies_in(const bw_catalogue *c, bw_str place, bw_str zone)
{
    return bw_str_eq(place, zone) || bw_catalogue_within(c, place, zone);
}

static bool within(const bw_catalogue *c, const bw_label_list *places,
                   const bw_label_list *zones)
{
    for (size_t i = 0; i < places->n; i++) {
        bool found = false;
        for (size_t j = 0; j < zones->n && !found; j++)
            found = lies_in(c, places->items[i], zones->items[j]);
        if (!found)
            return false;
    }
    return true;
}

bool bw_labels_at_least(const bw_catalogue *catalogue, const bw_labels *a,
                        const bw_labels *b)
{
    return bw_str_eq(a->tenant, b->tenant) && a->sensitivity >= b->sensitivity &&
           a->legal_hold >= b->legal_hold && has_all(&a->regimes, &b->regimes) &&
           has_all(&a->categories, &b->categories) && has_all(&a->labels, &b->labels) &&
           has_all(&b->purposes, &a->purposes) &&
           within(catalogue, &a->residency, &b->residency);
}

static bool same(const bw_label_list *a, const bw_label_list *b)
{
    return a->n == b->n && has_all(a, b); /* neither has duplicates */
}

uint32_t bw_labels_diff(const bw_labels *a, const bw_labels *b)
{
    return (uint32_t)!bw_str_eq(a->tenant, b->tenant) |
           (uint32_t)!same(&a->regimes, &b->regimes) << 1 |
           (uint32_t)!same(&a->residency, &b->residency) << 2 |
           (uint32_t)(a->sensitivity != b->sensitivity) << 3 |
           (uint32_t)!same(&a->categories, &b->categories) << 4 |
           (uint32_t)!same(&a->labels, &b->labels) << 5 |
           (uint32_t)!same(&a->purposes, &b->purposes) << 6 |
           (uint32_t)(a->legal_hold != b->legal_hold) << 7;
}

/* ---- a raise as it is written ---- */

static bool lifts(const char *member, bw_str word)
{
    static const char kept[] = "keep-to-";
    if (strcmp(member, "categories") == 0)
        return bw_str_is(word, "public");
    if (strcmp(member, "regimes") == 0)
        return bw_str_is(word, "none");
    return strcmp(member, "labels") == 0 &&
           (bw_str_is(word, "expires") ||
            (word.len >= sizeof kept - 1 &&
             memcmp(word.ptr, kept, sizeof kept - 1) == 0));
}

static bw_status added(bw_ctx *ctx, const bw_catalogue *c, const bw_json *object,
                       const char *member, bw_label_list *out)
{
    bw_status st = bw_labels__list(ctx, c, object, member, out);
    for (size_t i = 0; st == BW_OK && i < out->n; i++)
        if (lifts(member, out->items[i]))
            st = bw_labels__bad(ctx, member,
                                "a raise cannot add a word that lifts a rule");
    return st;
}

static bw_status sensitivity(bw_ctx *ctx, const bw_json *object, uint32_t *out)
{
    const bw_json *v = bw_json_get_value(object, "sensitivity");
    uint64_t n;
    if (!v)
        return BW_OK;
    if (!bw_json_u64(v, &n) || n > BW_LABELS__SENSITIVITY_MAX)
        return bw_labels__bad(ctx, "sensitivity", "a whole number from 0 to 5");
    *out = (uint32_t)n;
    return BW_OK;
}

bw_status bw_label_raise_parse(bw_ctx *ctx, const bw_catalogue *catalogue,
                               const bw_json *object, bw_label_raise *out)
{
    bw_label_raise r = {0};
    bw_status st = bw_labels__members(ctx, object);
    if (st == BW_OK && bw_json_get(object, "tenant"))
        st = bw_labels__bad(ctx, "tenant", "a raise does not change whose the data is");
    if (st == BW_OK)
        st = sensitivity(ctx, object, &r.sensitivity);
    if (st == BW_OK)
        st = added(ctx, catalogue, object, "regimes", &r.regimes);
    if (st == BW_OK)
        st = added(ctx, catalogue, object, "categories", &r.categories);
    if (st == BW_OK)
        st = added(ctx, catalogue, object, "labels", &r.labels);
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "residency", &r.residency);
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "purposes", &r.purposes);
    if (st != BW_OK)
        return st;
    r.keeps_residency = bw_json_get_value(object, "residency") != NULL;
    r.keeps_purposes = bw_json_get_value(object, "purposes") != NULL;
    if (r.keeps_residency && r.residency.n == 0)
        return bw_labels__bad(ctx, "residency", "names no place");
    const bw_json *hold = bw_json_get_value(object, "legal_hold");
    if (hold && hold->kind != BW_JSON_TRUE)
        return bw_labels__bad(ctx, "legal_hold", "a raise can only set it to true");
    r.legal_hold = hold != NULL;
    *out = r;
    return BW_OK;
}

/* ---- raising ---- */

static bw_status list_of(bw_ctx *ctx, const char *member, bw_str *items, size_t n,
                         bw_label_list *out)
{
    bw_labels__sort(items, &n);
    if (n > BW_LABELS__LIST_MAX)
        return bw_labels__bad(ctx, member, "the raise gives more than 64 words");
    *out = (bw_label_list){items, n};
    return BW_OK;
}

static bw_status unite(bw_ctx *ctx, const char *member, const bw_label_list *more,
                       bw_label_list *list)
{
    if (has_all(list, more))
        return BW_OK;
    bw_str *items = bw_arena_alloc(ctx, (list->n + more->n) * sizeof *items);
    if (!items)
        return BW_ENOMEM;
    for (size_t i = 0; i < list->n; i++)
        items[i] = list->items[i];
    for (size_t i = 0; i < more->n; i++)
        items[list->n + i] = more->items[i];
    return list_of(ctx, member, items, list->n + more->n, list);
}

static bw_status keep_purposes(bw_ctx *ctx, const bw_label_list *kept,
                               bw_label_list *list)
{
    bw_str *items = bw_arena_alloc(ctx, (list->n + 1) * sizeof *items);
    size_t n = 0;
    if (!items)
        return BW_ENOMEM;
    for (size_t i = 0; i < list->n; i++)
        if (has(kept, list->items[i]))
            items[n++] = list->items[i];
    *list = (bw_label_list){items, n};
    return BW_OK;
}

/* Of two places the inner one. Zones that only overlap have no name for what they share:
 * nothing of them is kept, which is less than they share and never more. */
static bw_status keep_residency(bw_ctx *ctx, const bw_catalogue *c,
                                const bw_label_list *kept, bw_label_list *list)
{
    bw_str *items = bw_arena_alloc(ctx, (list->n * kept->n + 1) * sizeof *items);
    size_t n = 0;
    if (!items)
        return BW_ENOMEM;
    for (size_t i = 0; i < list->n; i++)
        for (size_t j = 0; j < kept->n; j++) {
            if (lies_in(c, list->items[i], kept->items[j]))
                items[n++] = list->items[i];
            else if (lies_in(c, kept->items[j], list->items[i]))
                items[n++] = kept->items[j];
        }
    if (n == 0)
        return bw_labels__bad(ctx, "residency",
                              "the raise leaves no place to keep the data in");
    return list_of(ctx, "residency", items, n, list);
}

bw_status bw_labels_raise(bw_ctx *ctx, const bw_catalogue *catalogue,
                          const bw_labels *base, const bw_label_raise *raise,
                          bw_labels *out)
{
    bw_labels l = *base;
    bw_status st = unite(ctx, "regimes", &raise->regimes, &l.regimes);
    if (st == BW_OK)
        st = unite(ctx, "categories", &raise->categories, &l.categories);
    if (st == BW_OK)
        st = unite(ctx, "labels", &raise->labels, &l.labels);
    if (st == BW_OK && raise->keeps_purposes)
        st = keep_purposes(ctx, &raise->purposes, &l.purposes);
    if (st == BW_OK && raise->keeps_residency)
        st = keep_residency(ctx, catalogue, &raise->residency, &l.residency);
    if (st != BW_OK)
        return st;
    if (l.sensitivity < raise->sensitivity)
        l.sensitivity = raise->sensitivity;
    l.legal_hold = l.legal_hold || raise->legal_hold;
    bw_require(bw_labels_at_least(catalogue, &l, base));
    *out = l;
    return BW_OK;
}
