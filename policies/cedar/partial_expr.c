/* Folding one expression while the resource is unknown: typed partial evaluation after
 * RFC 95 and the Lean model's Cedar/TPE, for policies that nobody need have validated.
 * So nothing is taken for a Bool, or for unable to error, that is not seen to be so:
 * the model reads both off the types.
 *
 * The walk is bottom up with a stack of frames, one for each node under way, and a
 * stack of parts, one for each operand that is done. A part is a known value or a
 * residual expression; a residual whose children did not change is the policy's own
 * node. Values are computed by the evaluator's own instructions, so they cannot differ
 * from it.
 *
 * Unknown is: the variable `resource`; attributes and tags of any entity of the
 * resource's type, since it may be the resource; and what an entity is in, if it or one
 * of its ancestors is of that type. */
#include "residual.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef struct bw_cedar__fold_frame {
    const bw_cedar__expr *e;
    uint32_t i; /* next child */
    bool checked;
} frame;
typedef bw_cedar__part part;
typedef bw_cedar__folder folder;

static const bw_cedar__expr error_node = {.op = BW_CEDAR__ERROR};

/* ---- parts ---- */
static part known(bw_cedar_value v, const bw_cedar__expr *e)
{
    return (part){.known = true, .total = true, .kind = v.kind, .e = e, .value = v};
}

static part truth(bool b)
{
    return known(bw_cedar__bool(b), NULL);
}

static part error(void)
{
    return (part){.kind = BW_CEDAR__ANY_KIND, .e = &error_node};
}

static bool failed(const part *p)
{
    return !p->known && p->e->op == BW_CEDAR__ERROR;
}

static bool is_truth(const part *p, bool b)
{
    return p->known && p->kind == BW_CEDAR__BOOL && p->value.u.boolean == b;
}

static bool is_resource(const part *p)
{
    return !p->known && p->e->op == BW_CEDAR__VAR;
}

/* Cannot error, and gives this kind. */
static bool sure(const part *p, bw_cedar__kind kind)
{
    return p->total && p->kind == kind;
}

/* Fit for the right side of `in`, and cannot error. */
static bool sure_of_in(const part *p)
{
    if (!p->total || p->kind == BW_CEDAR__ENTITY)
        return p->total;
    if (p->kind != BW_CEDAR__SET)
        return false;
    if (!p->known)
        return p->type && p->type->element->kind == BW_CEDAR__ENTITY;
    for (uint32_t i = 0; i < p->value.n; i++)
        if (p->value.u.items[i].kind != BW_CEDAR__ENTITY)
            return false;
    return true;
}

/* ---- stacks ---- */
static bw_status push_frame(folder *f, const bw_cedar__expr *e, bool checked)
{
    if (f->nframes == f->frames_cap) {
        uint32_t cap = f->frames_cap ? f->frames_cap * 2 : 32;
        void *grown = bw_arena_grow(f->ctx, f->frames, f->nframes * sizeof *f->frames,
                                    cap * sizeof *f->frames);
        if (!grown)
            return bw_fail_nomem(f->ctx);
        f->frames = grown;
        f->frames_cap = cap;
    }
    f->frames[f->nframes++] = (frame){.e = e, .checked = checked};
    return BW_OK;
}

static bw_status push_part(folder *f, const part *p)
{
    if (f->nparts == f->parts_cap) {
        uint32_t cap = f->parts_cap ? f->parts_cap * 2 : 32;
        void *grown = bw_arena_grow(f->ctx, f->parts, f->nparts * sizeof *f->parts,
                                    cap * sizeof *f->parts);
        if (!grown)
            return bw_fail_nomem(f->ctx);
        f->parts = grown;
        f->parts_cap = cap;
    }
    f->parts[f->nparts++] = *p;
    return BW_OK;
}

/* ---- nodes ---- */
bw_status bw_cedar__fold_node(folder *f, bw_cedar__op op, uint32_t offset, uint32_t n,
                              bw_cedar__expr **out, const bw_cedar__expr ***children)
{
    struct {
        bw_cedar__expr e;
        const bw_cedar__expr *children[];
    } *node = bw_arena_alloc(f->run.ctx, sizeof *node + n * sizeof *node->children);
    if (!node)
        return bw_fail_nomem(f->ctx);
    node->e = (bw_cedar__expr){
        .op = (uint8_t)op, .n = n, .offset = offset, .child = node->children};
    *out = &node->e;
    *children = node->children;
    return BW_OK;
}

/* p as a node: what is known becomes a VALUE. */
static bw_status node_of(folder *f, const part *p, uint32_t offset,
                         const bw_cedar__expr **out)
{
    bw_cedar__expr *e;
    const bw_cedar__expr **none;
    *out = p->e;
    if (p->e)
        return BW_OK;
    TRY(bw_cedar__fold_node(f, BW_CEDAR__VALUE, offset, 0, &e, &none));
    e->u.value = p->value;
    *out = e;
    return BW_OK;
}

/* The node op over the parts, e's otherwise; e itself when nothing changed. */
static bw_status rebuild(folder *f, bw_cedar__op op, const bw_cedar__expr *e,
                         const part *p, const bw_cedar__expr **out)
{
    bool same = op == e->op;
    for (uint32_t i = 0; i < e->n; i++)
        same = same && p[i].e == e->child[i];
    *out = e;
    if (same)
        return BW_OK;
    bw_cedar__expr *node;
    const bw_cedar__expr **child;
    TRY(bw_cedar__fold_node(f, op, e->offset, e->n, &node, &child));
    for (uint32_t i = 0; i < e->n; i++)
        TRY(node_of(f, &p[i], e->child[i]->offset, &child[i]));
    node->which = e->which;
    if (op == e->op) {
        node->u = e->u;
        node->nnames = e->nnames;
    }
    *out = node;
    return BW_OK;
}

/* ---- what is known of a residual ---- */
static bool call_is_total(const bw_cedar__expr *e, const part *p)
{
    bw_cedar__fn fn = (bw_cedar__fn)e->which;
    bool decimal =
             fn >= BW_CEDAR__FN_LESS_THAN && fn <= BW_CEDAR__FN_GREATER_THAN_OR_EQUAL,
         ip = fn >= BW_CEDAR__FN_IS_IPV4 && fn <= BW_CEDAR__FN_IS_IN_RANGE;
    uint32_t n = decimal || fn == BW_CEDAR__FN_IS_IN_RANGE ? 2 : 1;
    bool total = (decimal || ip) && e->n == n;
    for (uint32_t i = 0; i < e->n; i++)
        total = total && sure(&p[i], decimal ? BW_CEDAR__DECIMAL : BW_CEDAR__IP);
    return total;
}

/* The declared attribute that `p.name` is: of the resource that is promised to conform,
 * or of a record in it. *declares: whether p's attributes are known at all. */
static const bw_cedar__attr *attr_of(const folder *f, const part *p, bw_str name,
                                     bool *declares)
{
    const bw_cedar__type *record =
        is_resource(p) ? (f->resource ? f->resource->shape : NULL) : p->type;
    *declares = record && record->kind == BW_CEDAR__RECORD;
    return *declares ? bw_cedar__type_attr(record, name) : NULL;
}

static bool ordered(const part *a, const part *b)
{
    return a->total && b->total && a->kind == b->kind &&
           (a->kind == BW_CEDAR__LONG || a->kind == BW_CEDAR__DATETIME ||
            a->kind == BW_CEDAR__DURATION);
}

static bool all_total(const part *p, uint32_t n)
{
    bool total = true;
    for (uint32_t i = 0; i < n; i++)
        total = total && p[i].total;
    return total;
}

static void describe_get(const folder *f, const bw_cedar__expr *e, const part *p,
                         part *out)
{
    bool declares;
    const bw_cedar__attr *attr = attr_of(f, p, e->u.names[0], &declares);
    if (!attr)
        return;
    out->type = attr->type;
    out->kind = attr->type->kind;
    out->total = attr->required && p->total;
}

static void describe_if(const part *p, part *out)
{
    out->total = sure(&p[0], BW_CEDAR__BOOL) && p[1].total && p[2].total;
    out->kind = p[1].kind == p[2].kind ? p[1].kind : (uint8_t)BW_CEDAR__ANY_KIND;
    out->type = p[1].type == p[2].type ? p[1].type : NULL;
}

/* Kind, type and whether it can error, of node op over the parts. */
static void describe(const folder *f, bw_cedar__op op, const bw_cedar__expr *e,
                     const part *p, part *out)
{
    out->kind = BW_CEDAR__BOOL; /* of most operators */
    out->total = false;
    switch (op) {
    case BW_CEDAR__IF:
        describe_if(p, out);
        return;
    case BW_CEDAR__GET:
        out->kind = BW_CEDAR__ANY_KIND;
        describe_get(f, e, p, out);
        return;
    case BW_CEDAR__GET_TAG:
        out->kind = BW_CEDAR__ANY_KIND;
        return;
    case BW_CEDAR__NEG:
    case BW_CEDAR__ADD:
    case BW_CEDAR__SUB:
    case BW_CEDAR__MUL:
        out->kind = BW_CEDAR__LONG;
        return;
    case BW_CEDAR__SET_OF:
    case BW_CEDAR__RECORD_OF:
        out->kind = op == BW_CEDAR__SET_OF ? BW_CEDAR__SET : BW_CEDAR__RECORD;
        out->total = all_total(p, e->n);
        return;
    case BW_CEDAR__CALL:
        out->total = call_is_total(e, p);
        if (!out->total)
            out->kind = BW_CEDAR__ANY_KIND;
        return;
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
        out->total = sure(&p[0], BW_CEDAR__BOOL) && sure(&p[1], BW_CEDAR__BOOL);
        return;
    case BW_CEDAR__NOT:
        out->total = sure(p, BW_CEDAR__BOOL);
        return;
    case BW_CEDAR__EQ:
    case BW_CEDAR__NE:
        out->total = all_total(p, 2);
        return;
    case BW_CEDAR__LT:
    case BW_CEDAR__LE:
    case BW_CEDAR__GT:
    case BW_CEDAR__GE:
        out->total = ordered(&p[0], &p[1]);
        return;
    case BW_CEDAR__IS:
    case BW_CEDAR__IN:
        out->total = sure(p, BW_CEDAR__ENTITY) && (e->n == 1 || sure_of_in(&p[1]));
        return;
    case BW_CEDAR__CONTAINS:
        out->total = sure(p, BW_CEDAR__SET) && p[1].total;
        return;
    case BW_CEDAR__CONTAINS_ALL:
    case BW_CEDAR__CONTAINS_ANY:
        out->total = sure(p, BW_CEDAR__SET) && sure(&p[1], BW_CEDAR__SET);
        return;
    case BW_CEDAR__IS_EMPTY:
        out->total = sure(p, BW_CEDAR__SET);
        return;
    case BW_CEDAR__HAS_TAG:
        out->total = sure(p, BW_CEDAR__ENTITY) && sure(&p[1], BW_CEDAR__STRING);
        return;
    case BW_CEDAR__HAS:
        out->total =
            e->nnames == 1 && (sure(p, BW_CEDAR__ENTITY) || sure(p, BW_CEDAR__RECORD));
        return;
    case BW_CEDAR__LIKE:
        out->total = sure(p, BW_CEDAR__STRING);
        return;
    default:
        out->kind = BW_CEDAR__ANY_KIND;
    }
}

/* ---- lineages ---- */
enum { LINEAGE_MAX = 128 }; /* larger ones are looked up in the stores */

typedef struct gathering {
    const bw_cedar__uid *uids[LINEAGE_MAX + 1];
    uint32_t n;
} gathering;

static void gather(const bw_cedar__uid *uid, void *user)
{
    gathering *g = user;
    g->uids[g->n++] = uid;
}

/* What v is in, as a table; NULL when that is too much or not known. */
static bw_status lineage_of(folder *f, const bw_cedar_value *v,
                            const bw_cedar__lineage **out)
{
    gathering g;
    g.n = 0;
    *out = NULL;
    if (v->kind != BW_CEDAR__ENTITY || !bw_cedar__lineage_known(&f->run, v->u.uid) ||
        !bw_cedar__each_ancestor(&f->run, v->u.uid, LINEAGE_MAX, gather, &g))
        return BW_OK;
    gather(v->u.uid, &g);
    uint32_t size = 4; /* at most half full */
    while (size < 2 * g.n)
        size *= 2;
    bw_cedar__lineage *l = bw_arena_calloc(
        f->run.ctx, 1, sizeof *l + size * sizeof(const bw_cedar__uid *));
    if (!l)
        return bw_fail_nomem(f->ctx);
    l->mask = size - 1;
    for (uint32_t k = 0; k < g.n; k++) {
        uint32_t i = (uint32_t)g.uids[k]->hash & l->mask;
        while (l->slots[i])
            i = (i + 1) & l->mask;
        l->slots[i] = g.uids[k];
    }
    *out = l;
    return BW_OK;
}

/* `v in <residual>`, its lineage beside it. */
static bw_status attach_lineage(folder *f, const part *p, part *r)
{
    const bw_cedar__lineage *l;
    bw_cedar__expr *e;
    const bw_cedar__expr **child;
    TRY(lineage_of(f, &p->value, &l));
    if (!l)
        return BW_OK;
    TRY(bw_cedar__fold_node(f, BW_CEDAR__IN, r->e->offset, 2, &e, &child));
    child[0] = r->e->child[0];
    child[1] = r->e->child[1];
    e->u.lineage = l;
    r->e = e;
    return BW_OK;
}

static bw_status keep(folder *f, bw_cedar__op op, const bw_cedar__expr *e,
                      const part *p, part *out)
{
    part r = {0};
    describe(f, op, e, p, &r);
    TRY(rebuild(f, op, e, p, &r.e));
    if (op == BW_CEDAR__IN && p->known)
        TRY(attach_lineage(f, p, &r));
    *out = r;
    return BW_OK;
}

/* ---- all operands known ---- */
static bool unknown_entity(const folder *f, const bw_cedar_value *v)
{
    return v->kind == BW_CEDAR__ENTITY && bw_str_eq(v->u.uid->type, *f->run.unknown);
}

static bw_cedar__instr instr_of(bw_cedar__op op, const bw_cedar__expr *e)
{
    bw_cedar__instr in = {.which = e->which, .n = e->n};
    switch (op) {
    case BW_CEDAR__GET:
    case BW_CEDAR__HAS:
    case BW_CEDAR__IS:
        in.ins = op == BW_CEDAR__GET   ? BW_CEDAR__I_GET
                 : op == BW_CEDAR__HAS ? BW_CEDAR__I_HAS
                                       : BW_CEDAR__I_IS;
        in.u.name = e->u.names[0];
        break;
    case BW_CEDAR__LIKE:
        in.ins = BW_CEDAR__I_LIKE;
        in.u.pattern = &e->u.pattern;
        break;
    case BW_CEDAR__SET_OF:
        in.ins = BW_CEDAR__I_SET;
        break;
    case BW_CEDAR__RECORD_OF:
        in.ins = BW_CEDAR__I_RECORD;
        in.u.names = e->u.names;
        break;
    case BW_CEDAR__CALL:
        in.ins = BW_CEDAR__I_CALL;
        break;
    default:
        in.ins = (uint8_t)bw_cedar__ins_of(op);
    }
    return in;
}

static bw_status stopped(folder *f)
{
    if (f->run.steps > BW_CEDAR_STEPS_MAX && !f->run.nomem)
        return bw_fail(f->ctx, BW_EINVALID,
                       "partial evaluation takes more than %d steps",
                       BW_CEDAR_STEPS_MAX);
    return bw_fail_nomem(f->ctx);
}

static bw_status apply(folder *f, const bw_cedar__instr *in, const part *p, uint32_t n,
                       part *out)
{
    bw_cedar_value few[4], *stack = few;
    if (n > 3 && !(stack = bw_arena_alloc(f->ctx, (n + 1) * sizeof *stack)))
        return bw_fail_nomem(f->ctx);
    stack[0] = (bw_cedar_value){0};
    for (uint32_t i = 0; i < n; i++)
        stack[i + 1] = p[i].value;
    bw_cedar__outcome o = bw_cedar__apply(&f->run, in, stack, n);
    if (o == BW_CEDAR__STOPPED)
        return stopped(f);
    *out = o == BW_CEDAR__ERRED ? error() : known(stack[1], NULL);
    return BW_OK;
}

/* `e has a.b.c` on a value, step by step; kept whole when it comes upon the unknown. */
static bw_status has_path(folder *f, const bw_cedar__expr *e, const part *p, part *out)
{
    part at = *p;
    for (uint32_t i = 0; i < e->nnames; i++) {
        bw_cedar__instr in = {.ins = BW_CEDAR__I_HAS, .u.name = e->u.names[i]};
        part here;
        if (unknown_entity(f, &at.value))
            return keep(f, BW_CEDAR__HAS, e, p, out);
        TRY(apply(f, &in, &at, 1, &here));
        if (!is_truth(&here, true) || i + 1 == e->nnames) {
            *out = here;
            return BW_OK;
        }
        in.ins = BW_CEDAR__I_GET;
        TRY(apply(f, &in, &at, 1, &at));
    }
    return BW_OK;
}

/* Whether a equals b, or one of its members. */
static bool among(const bw_cedar_value *a, const bw_cedar_value *b)
{
    if (b->kind == BW_CEDAR__ENTITY)
        return bw_cedar__uid_eq(a->u.uid, b->u.uid);
    for (uint32_t i = 0; i < b->n; i++)
        if (bw_cedar__uid_eq(a->u.uid, b->u.items[i].u.uid))
            return true;
    return false;
}

/* op: IN for `is … in` whose type fits, too. */
static bw_status compute(folder *f, bw_cedar__op op, const bw_cedar__expr *e,
                         const part *p, part *out)
{
    switch (op) {
    case BW_CEDAR__HAS:
        return has_path(f, e, p, out);
    case BW_CEDAR__GET:
    case BW_CEDAR__HAS_TAG:
    case BW_CEDAR__GET_TAG:
        if (unknown_entity(f, &p->value) &&
            (op == BW_CEDAR__GET || p[1].kind == BW_CEDAR__STRING))
            return keep(f, op, e, p, out);
        break;
    case BW_CEDAR__IN:
        if (p->kind == BW_CEDAR__ENTITY && sure_of_in(&p[1]) &&
            !among(&p->value, &p[1].value) &&
            !bw_cedar__lineage_known(&f->run, p->value.u.uid))
            return keep(f, op, e, p, out);
        break;
    default:
        break;
    }
    bw_cedar__instr in = instr_of(op, e);
    return apply(f, &in, p, e->n, out);
}

/* ---- some operands known ---- */
/* Whether the resource may be b, or be in it. */
static bool may_be_in(const folder *f, const bw_cedar__uid *b)
{
    return !f->resource || bw_str_eq(f->resource->name, b->type) ||
           bw_cedar__may_be_below(f->schema, (uint32_t)(f->resource - f->schema->types),
                                  b->type);
}

/* `resource in x`, x known. */
static bw_status resource_in(folder *f, const bw_cedar__expr *e, const part *p,
                             part *out)
{
    const bw_cedar_value *x = &p[1].value;
    *out = error();
    if (!sure_of_in(&p[1]))
        return BW_OK;
    bool may = x->kind == BW_CEDAR__ENTITY && may_be_in(f, x->u.uid);
    for (uint32_t i = 0; x->kind == BW_CEDAR__SET && i < x->n; i++)
        may = may || may_be_in(f, x->u.items[i].u.uid);
    *out = truth(false);
    return may ? keep(f, BW_CEDAR__IN, e, p, out) : BW_OK;
}

/* Whether the two cannot be equal, and cannot error. */
static bool differ(const folder *f, const part *a, const part *b)
{
    if (!a->total || !b->total)
        return false;
    if (a->kind != b->kind)
        return a->kind != BW_CEDAR__ANY_KIND && b->kind != BW_CEDAR__ANY_KIND;
    const part *r = is_resource(a) ? a : b, *x = r == a ? b : a;
    return is_resource(r) && x->known && !unknown_entity(f, &x->value);
}

/* `x has a`, x the resource that conforms, or a record in it. */
static bool has_declared(const folder *f, const bw_cedar__expr *e, const part *p,
                         bool *yes)
{
    bool declares;
    const bw_cedar__attr *attr = attr_of(f, p, e->u.names[0], &declares);
    *yes = attr != NULL;
    return declares && p->total && (attr ? attr->required && e->nnames == 1 : true);
}

static bw_status strict(folder *f, bw_cedar__op op, const bw_cedar__expr *e,
                        const part *p, part *out)
{
    bool all = true, yes;
    *out = error();
    for (uint32_t i = 0; i < e->n; i++) {
        if (failed(&p[i]))
            return BW_OK;
        all = all && p[i].known;
    }
    if (all)
        return compute(f, op, e, p, out);
    switch (op) {
    case BW_CEDAR__EQ:
    case BW_CEDAR__NE:
        if (!differ(f, &p[0], &p[1]))
            break;
        *out = truth(op == BW_CEDAR__NE);
        return BW_OK;
    case BW_CEDAR__IN:
        if (is_resource(p) && p[1].known)
            return resource_in(f, e, p, out);
        if (!p->known || !is_resource(&p[1]))
            break;
        if (p->kind == BW_CEDAR__ENTITY &&
            !bw_cedar__lineage_known(&f->run, p->value.u.uid))
            break;
        *out = p->kind == BW_CEDAR__ENTITY ? truth(false) : error();
        return BW_OK;
    case BW_CEDAR__IS:
        if (!is_resource(p) || e->n != 1)
            break;
        *out = truth(bw_str_eq(*f->run.unknown, e->u.names[0]));
        return BW_OK;
    case BW_CEDAR__HAS:
        if (!has_declared(f, e, p, &yes))
            break;
        *out = truth(yes);
        return BW_OK;
    case BW_CEDAR__GET: {
        bool declares;
        if (attr_of(f, p, e->u.names[0], &declares) || !declares)
            break;
        return BW_OK; /* what is not declared is not there */
    }
    default:
        break;
    }
    return keep(f, op, e, p, out);
}

/* ---- && and || ---- */
/* Both operands were folded; the left one did not decide. */
static bw_status join(folder *f, const frame *fr, const part *p, part *out)
{
    bool and_ = fr->e->op == BW_CEDAR__AND;
    const part *l = &p[0], *r = &p[1];
    if (l->known && r->known) { /* the left gave way to the right */
        *out = r->kind == BW_CEDAR__BOOL ? *r : error();
        return BW_OK;
    }
    if (l->known && (failed(r) || r->kind == BW_CEDAR__BOOL || fr->checked)) {
        *out = *r;
        return BW_OK;
    }
    if (is_truth(r, and_) && (l->kind == BW_CEDAR__BOOL || fr->checked)) {
        *out = *l;
        return BW_OK;
    }
    if (is_truth(r, !and_) && sure(l, BW_CEDAR__BOOL)) {
        *out = *r;
        return BW_OK;
    }
    return keep(f, fr->e->op, fr->e, p, out);
}

/* ---- the walk ---- */
/* The frame's node came to p, its first n operands are done with. */
static bw_status settle(folder *f, uint32_t n, const part *p)
{
    f->nparts -= n;
    f->nframes--;
    if (n == 0)
        return push_part(f, p);
    f->parts[f->nparts++] = *p; /* p may be one of those operands */
    return BW_OK;
}

/* Whether the type of what p yields, an entity, is known to be another. */
static bool other_type(const folder *f, const part *p, bw_str type)
{
    if (p->known)
        return !bw_str_eq(p->value.u.uid->type, type);
    if (is_resource(p))
        return !bw_str_eq(*f->run.unknown, type);
    return sure(p, BW_CEDAR__ENTITY) && p->type && !bw_str_eq(p->type->name, type);
}

/* After the first operand of &&, ||, if, is … in: perhaps the others are not looked at.
 * *done: the frame is settled, or has become another. */
static bw_status decide(folder *f, frame *fr, bool *done)
{
    const part *p = &f->parts[f->nparts - 1];
    bw_cedar__op op = (bw_cedar__op)fr->e->op;
    bool logic = op == BW_CEDAR__AND || op == BW_CEDAR__OR;
    *done = false;
    if (!logic && op != BW_CEDAR__IF && op != BW_CEDAR__IS)
        return BW_OK;
    const part no = error(), false_ = truth(false);
    *done = true;
    bool fits = p->kind == (op == BW_CEDAR__IS ? BW_CEDAR__ENTITY : BW_CEDAR__BOOL);
    if (failed(p) || (p->known && !fits))
        return settle(f, 1, &no);
    if (logic && is_truth(p, op == BW_CEDAR__OR))
        return settle(f, 1, p);
    if (op == BW_CEDAR__IS && fits && other_type(f, p, fr->e->u.names[0]))
        return settle(f, 1, &false_);
    if (op == BW_CEDAR__IF && p->known) {
        *fr = (frame){.e = fr->e->child[p->value.u.boolean ? 1 : 2],
                      .checked = fr->checked};
        f->nparts--;
        return BW_OK;
    }
    *done = false;
    return BW_OK;
}

static part leaf(const folder *f, const bw_cedar__expr *e)
{
    if (e->op == BW_CEDAR__VALUE)
        return known(e->u.value, e);
    if (e->which != BW_CEDAR__RESOURCE)
        return known(f->run.vars[e->which], NULL);
    return (part){.total = true, .kind = BW_CEDAR__ENTITY, .e = e};
}

/* After all operands. */
static bw_status reduce(folder *f, const frame *fr)
{
    const bw_cedar__expr *e = fr->e;
    const part *p = f->parts + f->nparts - e->n;
    part r = error();
    bw_cedar__op op = (bw_cedar__op)e->op;
    switch (op) {
    case BW_CEDAR__VALUE:
    case BW_CEDAR__VAR:
        r = leaf(f, e);
        break;
    case BW_CEDAR__SLOT:
    case BW_CEDAR__ERROR:
        break;
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
        TRY(join(f, fr, p, &r));
        break;
    case BW_CEDAR__IF:
        TRY(keep(f, op, e, p, &r));
        break;
    case BW_CEDAR__IS: /* with two operands: the type of what is known was found to fit;
                          a type yet unknown may keep the second from being looked at */
        if (e->n == 2 && (p->known || is_resource(p)))
            op = BW_CEDAR__IN;
        if (e->n == 2 && op == BW_CEDAR__IS && !failed(p))
            TRY(keep(f, op, e, p, &r));
        else
            TRY(strict(f, op, e, p, &r));
        break;
    default:
        TRY(strict(f, op, e, p, &r));
    }
    return settle(f, e->n, &r);
}

/* Whether the parent insists that child i is a Bool. */
static bool insists(const frame *fr, uint32_t i)
{
    switch ((bw_cedar__op)fr->e->op) {
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
    case BW_CEDAR__NOT:
        return true;
    case BW_CEDAR__IF:
        return i == 0 || fr->checked;
    default:
        return false;
    }
}

bw_status bw_cedar__fold(folder *f, const bw_cedar__expr *e, bool checked, part *out)
{
    f->nframes = f->nparts = 0;
    TRY(push_frame(f, e, checked));
    while (f->nframes > 0) {
        frame *fr = &f->frames[f->nframes - 1];
        bool done = false;
        if (++f->run.steps > BW_CEDAR_STEPS_MAX)
            return stopped(f);
        if (fr->i == fr->e->n) {
            TRY(reduce(f, fr));
            continue;
        }
        if (fr->i == 1)
            TRY(decide(f, fr, &done));
        if (done)
            continue;
        uint32_t i = fr->i++;
        const bw_cedar__expr *child = fr->e->child[i];
        if (child->op == BW_CEDAR__VALUE || child->op == BW_CEDAR__VAR) {
            const part p = leaf(f, child); /* every other node: no frame for it */
            TRY(push_part(f, &p));
        } else {
            TRY(push_frame(f, child, insists(fr, i)));
        }
    }
    assert(f->nparts == 1);
    *out = f->parts[0];
    return BW_OK;
}
