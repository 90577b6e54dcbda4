/* The facts that a change may be about, and a question with changes made (explain.h).
 */
#include "explain_private.h"

#include <stdlib.h>

#define CALLER     "caller"
#define OPERATOR   "operator"
#define ADMIN      "administrator"
#define CONTROLLER "controller"

const bw_fact_row bw_facts[BW_FACT_COUNT] = {
    [BW_FACT_PURPOSE] = {"purpose", "context.purpose", BW_SHAPE_WORD, ADMIN},
    [BW_FACT_SAFEGUARDS] = {"safeguards", "context.safeguards", BW_SHAPE_WORDS, ADMIN},
    [BW_FACT_DEST] = {"dest", "context.dest", BW_SHAPE_PLACE, CALLER},
    [BW_FACT_DEST_COUNTRY] = {"dest.country", "context.dest.country", BW_SHAPE_COUNTRY,
                              CALLER},
    [BW_FACT_DEST_OPERATOR] = {"dest.operator", "context.dest.operator",
                               BW_SHAPE_OPERATOR, CALLER},
    [BW_FACT_DEST_CERTS] = {"dest.certs", "context.dest.certs", BW_SHAPE_WORDS,
                            OPERATOR},
    [BW_FACT_DEST_HW] = {"dest.hw", "context.dest.hw", BW_SHAPE_WORDS, OPERATOR},
    [BW_FACT_DEST_OP_CERTS] = {"dest.operator.certs", "context.dest.operator.certs",
                               BW_SHAPE_WORDS, OPERATOR},
    [BW_FACT_DEST_OP_BAA] = {"dest.operator.baaWith", "context.dest.operator.baaWith",
                             BW_SHAPE_TENANTS, OPERATOR},
    [BW_FACT_DEST_OP_SEAT] = {"dest.operator.seat", "context.dest.operator.seat",
                              BW_SHAPE_COUNTRY, OPERATOR},
    [BW_FACT_DEST_OP_ZONES] = {"dest.operator.controlZones",
                               "context.dest.operator.controlZones", BW_SHAPE_ZONES,
                               OPERATOR},
    [BW_FACT_DEST_OP_SHARE_MAX] = {"dest.operator.foreignShareMax",
                                   "context.dest.operator.foreignShareMax",
                                   BW_SHAPE_DECIMAL, OPERATOR},
    [BW_FACT_DEST_OP_SHARE_SUM] = {"dest.operator.foreignShareSum",
                                   "context.dest.operator.foreignShareSum",
                                   BW_SHAPE_DECIMAL, OPERATOR},
    [BW_FACT_AT] = {"at", "context.at", BW_SHAPE_PLACE, CALLER},
    [BW_FACT_AT_COUNTRY] = {"at.country", "context.at.country", BW_SHAPE_COUNTRY,
                            CALLER},
    [BW_FACT_AT_OPERATOR] = {"at.operator", "context.at.operator", BW_SHAPE_OPERATOR,
                             CALLER},
    [BW_FACT_AT_CERTS] = {"at.certs", "context.at.certs", BW_SHAPE_WORDS, OPERATOR},
    [BW_FACT_AT_HW] = {"at.hw", "context.at.hw", BW_SHAPE_WORDS, OPERATOR},
    [BW_FACT_AT_OP_CERTS] = {"at.operator.certs", "context.at.operator.certs",
                             BW_SHAPE_WORDS, OPERATOR},
    [BW_FACT_AT_OP_BAA] = {"at.operator.baaWith", "context.at.operator.baaWith",
                           BW_SHAPE_TENANTS, OPERATOR},
    [BW_FACT_AT_OP_SEAT] = {"at.operator.seat", "context.at.operator.seat",
                            BW_SHAPE_COUNTRY, OPERATOR},
    [BW_FACT_AT_OP_ZONES] = {"at.operator.controlZones",
                             "context.at.operator.controlZones", BW_SHAPE_ZONES,
                             OPERATOR},
    [BW_FACT_AT_OP_SHARE_MAX] = {"at.operator.foreignShareMax",
                                 "context.at.operator.foreignShareMax",
                                 BW_SHAPE_DECIMAL, OPERATOR},
    [BW_FACT_AT_OP_SHARE_SUM] = {"at.operator.foreignShareSum",
                                 "context.at.operator.foreignShareSum",
                                 BW_SHAPE_DECIMAL, OPERATOR},
    [BW_FACT_ROLES] = {"roles", "principal", BW_SHAPE_ROLES, ADMIN},
    [BW_FACT_CLEARANCE] = {"clearance", "principal.clearance", BW_SHAPE_NUMBER, ADMIN},
    [BW_FACT_SEAT] = {"seat", "principal.seat", BW_SHAPE_COUNTRY, ADMIN},
    [BW_FACT_RESIDENCY] = {"labels.residency", "resource.residency", BW_SHAPE_ZONES,
                           CONTROLLER},
    [BW_FACT_REGIMES] = {"labels.regimes", "resource.regimes", BW_SHAPE_WORDS,
                         CONTROLLER},
    [BW_FACT_CATEGORIES] = {"labels.categories", "resource.categories", BW_SHAPE_WORDS,
                            CONTROLLER},
    [BW_FACT_LABELS] = {"labels.labels", "resource.labels", BW_SHAPE_WORDS, CONTROLLER},
    [BW_FACT_PURPOSES] = {"labels.purposes", "resource.purposes", BW_SHAPE_WORDS,
                          CONTROLLER},
    [BW_FACT_SENSITIVITY] = {"labels.sensitivity", "resource.sensitivity",
                             BW_SHAPE_NUMBER, CONTROLLER},
    [BW_FACT_LEGAL_HOLD] = {"labels.legal_hold", "resource.legalHold", BW_SHAPE_BOOL,
                            CONTROLLER},
};

const char *bw_fact_name(bw_fact f)
{
    return (unsigned)f < BW_FACT_COUNT ? bw_facts[f].name : "";
}

const char *bw_fact__attribute(bw_fact f)
{
    static const char dest[] = "context.dest.operator.", at[] = "context.at.operator.";
    if (f >= BW_FACT_DEST_OP_CERTS && f <= BW_FACT_DEST_OP_SHARE_SUM)
        return bw_facts[f].path + sizeof dest - 1;
    if (f >= BW_FACT_AT_OP_CERTS && f <= BW_FACT_AT_OP_SHARE_SUM)
        return bw_facts[f].path + sizeof at - 1;
    return NULL;
}

/* ---- changes made ---- */

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

/* A copy with one word more or less; sorted, without duplicates. */
static bw_status change_words(bw_ctx *ctx, const bw_change *c, const bw_str **items,
                              size_t *n)
{
    bw_str *list = bw_arena_calloc(ctx, *n + 1, sizeof *list);
    size_t count = 0;
    if (!list)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < *n; i++)
        if (!bw_str_eq((*items)[i], c->value))
            list[count++] = (*items)[i];
    if (c->verb == BW_CHANGE_ADD)
        list[count++] = c->value;
    if (count)
        qsort(list, count, sizeof *list, by_bytes);
    *items = list;
    *n = count;
    return BW_OK;
}

static uint32_t number_of(bw_str text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len && n < 1000000; i++)
        n = n * 10 + (uint32_t)(text.ptr[i] - '0');
    return n;
}

static bw_status change_place(bw_ctx *ctx, const bw_change *c, bw_fact first,
                              const char *elsewhere, bw_place *p)
{
    p->id = bw_str_c(elsewhere); /* what is known of the place no longer fits it */
    switch ((int)c->fact - (int)first) {
    case 0: /* a place that the entities know: they say the rest */
        *p = (bw_place){.id = c->value};
        return BW_OK;
    case 1:
        p->country = c->value;
        return BW_OK;
    case 2:
        p->operator_id = c->value;
        return BW_OK;
    case 3:
        return change_words(ctx, c, &p->certs, &p->ncerts);
    default:
        return change_words(ctx, c, &p->hw, &p->nhw);
    }
}

static bw_status change_labels(bw_ctx *ctx, const bw_change *c, bw_labels *l)
{
    bw_label_list *list = c->fact == BW_FACT_RESIDENCY    ? &l->residency
                          : c->fact == BW_FACT_REGIMES    ? &l->regimes
                          : c->fact == BW_FACT_CATEGORIES ? &l->categories
                          : c->fact == BW_FACT_LABELS     ? &l->labels
                                                          : &l->purposes;
    if (c->fact == BW_FACT_SENSITIVITY)
        l->sensitivity = number_of(c->value);
    else if (c->fact == BW_FACT_LEGAL_HOLD)
        l->legal_hold = bw_str_is(c->value, "true");
    else
        return change_words(ctx, c, &list->items, &list->n);
    return BW_OK;
}

static bw_status change_one(bw_ctx *ctx, const bw_change *c, bw_what_if *w,
                            bw_change *operators)
{
    if (bw_fact__attribute(c->fact)) {
        operators[w->noperators++] = *c;
        return BW_OK;
    }
    if (c->fact >= BW_FACT_DEST && c->fact <= BW_FACT_DEST_HW) {
        w->has_dest = true;
        return change_place(ctx, c, BW_FACT_DEST, "elsewhere", &w->dest);
    }
    if (c->fact >= BW_FACT_AT && c->fact <= BW_FACT_AT_HW)
        return change_place(ctx, c, BW_FACT_AT, "another-cell", &w->at);
    if (bw_fact__of_labels(c->fact))
        return change_labels(ctx, c, &w->labels);
    switch (c->fact) {
    case BW_FACT_PURPOSE:
        w->purpose = c->value;
        return BW_OK;
    case BW_FACT_SAFEGUARDS:
        return change_words(ctx, c, &w->safeguards, &w->nsafeguards);
    case BW_FACT_ROLES:
        return change_words(ctx, c, &w->who.roles, &w->who.nroles);
    case BW_FACT_CLEARANCE:
        w->who.clearance = number_of(c->value);
        return BW_OK;
    default:
        w->who.seat = c->value;
        return BW_OK;
    }
}

bw_status bw_what_if_make(bw_ctx *ctx, const bw_explain_ask *ask, const bw_place *at,
                          const bw_change *changes, size_t n, bw_what_if *out)
{
    const bw_question *q = ask->q;
    bw_what_if w = {.action = q->action,
                    .who = *q->principal,
                    .purpose = q->purpose,
                    .safeguards = q->safeguards,
                    .nsafeguards = q->nsafeguards,
                    .at = q->at ? *q->at : *at,
                    .now_ns = q->now_ns,
                    .has_labels = ask->label_text.ptr != NULL};
    bw_change *operators = bw_arena_calloc(ctx, n + 1, sizeof *operators);
    bw_status st = operators ? BW_OK : bw_fail_nomem(ctx);
    w.has_dest = q->dest && !bw_str_eq(q->dest->id, w.at.id);
    w.dest = w.has_dest ? *q->dest : w.at;
    if (w.has_dest && bw_str_eq(q->dest->id, at->id))
        w.dest = *at; /* facts of the cell are its configuration's */
    if (st == BW_OK && w.has_labels)
        st = bw_labels_from_canonical(ctx, ask->label_text, &w.labels);
    w.operators = operators;
    for (size_t i = 0; i < n && st == BW_OK; i++)
        st = change_one(ctx, &changes[i], &w, operators);
    if (st == BW_OK)
        *out = w;
    return st;
}
