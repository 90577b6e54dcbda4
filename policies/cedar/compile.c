/* Tree to program. The walk keeps its own stack, so chains of any length are fine.
 * What is constant is computed here, unless it fails: then it stays, since its error
 * belongs to the evaluation. A constant left of && or ||, or between if and then,
 * decides here what is compiled at all. What stores or the request say is never a
 * constant. */
#include "code.h"
#include "schema.h"

typedef struct frame {
    const bw_cedar__expr *e;
    uint32_t i;        /* next child */
    bool decided;      /* the first child was a constant: no jumps */
    uint32_t patch[2]; /* instructions whose jump targets are still open */
} frame;

typedef struct compiler {
    bw_ctx *ctx, *pool;
    const bw_cedar__type *shape; /* of the resource; or NULL */
    bw_cedar__instr *ins;
    uint32_t n, cap;
    uint32_t depth, depth_max; /* of the value stack */
    uint32_t barrier; /* the last place that a jump lands on: nothing folds across it */
    frame *frames;
    uint32_t nframes, frames_cap;
} compiler;

enum { CODE_MAX = 1 << 26 };

static bw_status emit(compiler *c, bw_cedar__instr in, int effect)
{
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? c->cap * 2 : 32;
        void *grown = c->n < CODE_MAX ? bw_arena_grow(c->ctx, c->ins, c->n * sizeof in,
                                                      cap * sizeof in)
                                      : NULL;
        if (!grown)
            return bw_fail_nomem(c->ctx);
        c->ins = grown;
        c->cap = cap;
    }
    c->ins[c->n++] = in;
    c->depth = (uint32_t)((int)c->depth + effect);
    if (c->depth > c->depth_max)
        c->depth_max = c->depth;
    return BW_OK;
}

static bw_status emit_op(compiler *c, bw_cedar__ins ins, uint32_t n, int effect)
{
    return emit(c, (bw_cedar__instr){.ins = (uint8_t)ins, .n = n}, effect);
}

static bw_status push_frame(compiler *c, const bw_cedar__expr *e)
{
    if (c->nframes == c->frames_cap) {
        uint32_t cap = c->frames_cap ? c->frames_cap * 2 : 64;
        void *grown = bw_arena_grow(c->ctx, c->frames, c->nframes * sizeof *c->frames,
                                    cap * sizeof *c->frames);
        if (!grown)
            return bw_fail_nomem(c->ctx);
        c->frames = grown;
        c->frames_cap = cap;
    }
    c->frames[c->nframes++] = (frame){.e = e};
    return BW_OK;
}

/* The open jump at `from` lands on what is emitted next. */
static void land(compiler *c, uint32_t from)
{
    c->ins[from].n = c->n;
    c->barrier = c->n;
}

/* ---- folding ---- */
/* Whether the n topmost values are constants. A branch that ends in a constant is none:
 * `if c then A else B` leaves one of two. */
static bool constants_on_top(const compiler *c, uint32_t n)
{
    if (n > c->n || c->n - n < c->barrier)
        return false;
    for (uint32_t i = c->n - n; i < c->n; i++)
        if (c->ins[i].ins != BW_CEDAR__I_CONST)
            return false;
    return true;
}

/* Replaces the n topmost constants by one. */
static bw_status fold(compiler *c, uint32_t n, bw_cedar_value v)
{
    c->n -= n;
    c->depth -= n;
    return emit(c, (bw_cedar__instr){.ins = BW_CEDAR__I_CONST, .u.value = v}, 1);
}

/* Bool, and nothing else. */
static bool constant_bool(const compiler *c, bool *truth)
{
    if (!constants_on_top(c, 1) || c->ins[c->n - 1].u.value.kind != BW_CEDAR__BOOL)
        return false;
    *truth = c->ins[c->n - 1].u.value.u.boolean;
    return true;
}

static void drop_constant(compiler *c)
{
    c->n--;
    c->depth--;
}

/* Whether the instruction asks a store when its first operand is an entity. */
static bool asks_store(uint8_t ins)
{
    return ins == BW_CEDAR__I_IN || ins == BW_CEDAR__I_HAS_TAG ||
           ins == BW_CEDAR__I_GET_TAG || ins == BW_CEDAR__I_GET ||
           ins == BW_CEDAR__I_HAS;
}

/* An instruction on the n topmost values, or what it comes to when they are constants.
 */
static bw_status emit_on(compiler *c, bw_cedar__instr in, uint32_t n)
{
    bw_cedar_value stack[3] = {{0}};
    bw_cedar__run run = {.ctx = c->pool};
    assert(n == 1 || n == 2);
    if (!constants_on_top(c, n) ||
        (asks_store(in.ins) && c->ins[c->n - n].u.value.kind == BW_CEDAR__ENTITY))
        return emit(c, in, 1 - (int)n);
    for (uint32_t i = 0; i < n; i++)
        stack[i + 1] = c->ins[c->n - n + i].u.value;
    if (bw_cedar__apply(&run, &in, stack, n) != BW_CEDAR__YES)
        return emit(c, in, 1 - (int)n);
    return fold(c, n, stack[1]);
}

static bw_status emit_set(compiler *c, const bw_cedar__expr *e)
{
    if (!constants_on_top(c, e->n))
        return emit_op(c, BW_CEDAR__I_SET, e->n, 1 - (int)e->n);
    bw_cedar_value *items = bw_arena_alloc(c->pool, e->n * sizeof *items);
    if (!items)
        return bw_fail_nomem(c->ctx);
    for (uint32_t i = 0; i < e->n; i++)
        items[i] = c->ins[c->n - e->n + i].u.value;
    uint64_t cost = 0;
    uint32_t n = bw_cedar__set_sort(items, e->n, &cost);
    return fold(c, e->n,
                (bw_cedar_value){.kind = BW_CEDAR__SET, .n = n, .u.items = items});
}

static bw_status emit_record(compiler *c, const bw_cedar__expr *e)
{
    if (!constants_on_top(c, e->n))
        return emit(c,
                    (bw_cedar__instr){
                        .ins = BW_CEDAR__I_RECORD, .n = e->n, .u.names = e->u.names},
                    1 - (int)e->n);
    bw_cedar__member *members = bw_arena_alloc(c->pool, e->n * sizeof *members);
    if (!members)
        return bw_fail_nomem(c->ctx);
    for (uint32_t i = 0; i < e->n; i++)
        members[i] = (bw_cedar__member){e->u.names[i], c->ins[c->n - e->n + i].u.value};
    bool unique = bw_cedar__record_sort(members, e->n);
    assert(unique); /* the parser saw to it */
    (void)unique;
    return fold(
        c, e->n,
        (bw_cedar_value){.kind = BW_CEDAR__RECORD, .n = e->n, .u.members = members});
}

static bw_status emit_call(compiler *c, const bw_cedar__expr *e)
{
    bw_cedar_value args[2], v;
    if (e->n > 0 && e->n <= 2 && constants_on_top(c, e->n)) {
        bool memory = false;
        for (uint32_t i = 0; i < e->n; i++)
            args[i] = c->ins[c->n - e->n + i].u.value;
        const char *why = bw_cedar__fn_call(c->pool, e->which, args, e->n, &v, &memory);
        if (memory)
            return bw_fail_nomem(c->ctx);
        if (!why)
            return fold(c, e->n, v);
    }
    return emit(
        c, (bw_cedar__instr){.ins = BW_CEDAR__I_CALL, .which = e->which, .n = e->n},
        1 - (int)e->n);
}

/* ---- nodes ---- */
/* Before child i of e is compiled (i > 0). */
static bw_status between(compiler *c, frame *f)
{
    bool truth = false;
    switch ((bw_cedar__op)f->e->op) {
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
        f->decided = constant_bool(c, &truth);
        if (f->decided && truth == (f->e->op == BW_CEDAR__OR)) {
            f->i = f->e->n; /* the right side is not looked at */
            return BW_OK;
        }
        if (f->decided) {
            drop_constant(c);
            return BW_OK;
        }
        f->patch[0] = c->n;
        return emit_op(c, f->e->op == BW_CEDAR__AND ? BW_CEDAR__I_AND : BW_CEDAR__I_OR,
                       0, -1);
    case BW_CEDAR__IF:
        if (f->decided) { /* then was it */
            f->i = f->e->n;
            return BW_OK;
        }
        if (f->i == 1 && constant_bool(c, &truth)) {
            f->decided = true;
            f->i = truth ? 1 : 2;
            drop_constant(c);
            return BW_OK;
        }
        if (f->i == 1) {
            f->patch[0] = c->n;
            return emit_op(c, BW_CEDAR__I_IF, 0, -1);
        }
        f->patch[1] = c->n;
        bw_status st =
            emit_op(c, BW_CEDAR__I_JUMP, 0, -1); /* the else branch starts below */
        land(c, f->patch[0]);
        return st;
    case BW_CEDAR__IS:
        f->patch[0] = c->n;
        return emit(
            c,
            (bw_cedar__instr){.ins = BW_CEDAR__I_IS_STEP, .u.name = f->e->u.names[0]},
            0);
    default:
        return BW_OK;
    }
}

/* Where the attribute stands in a record that lacks no optional one. */
static uint32_t place_of(const bw_cedar__type *shape, bw_str name)
{
    const bw_cedar__attr *attr = bw_cedar__type_attr(shape, name);
    return attr ? (uint32_t)(attr - shape->attrs) : 0;
}

static bw_status emit_get(compiler *c, const bw_cedar__expr *e)
{
    bw_cedar__instr *last = c->n ? &c->ins[c->n - 1] : NULL;
    if (e->child[0]->op == BW_CEDAR__VAR && last->ins == BW_CEDAR__I_VAR) {
        last->ins = BW_CEDAR__I_VAR_GET;
        last->u.name = e->u.names[0];
        if (c->shape && last->which == BW_CEDAR__RESOURCE)
            last->n = place_of(c->shape, last->u.name);
        return BW_OK;
    }
    return emit_on(
        c, (bw_cedar__instr){.ins = BW_CEDAR__I_GET, .u.name = e->u.names[0]}, 1);
}

static bw_status emit_has(compiler *c, const bw_cedar__expr *e)
{
    uint32_t first = c->n;
    if (e->nnames == 1)
        return emit_on(
            c, (bw_cedar__instr){.ins = BW_CEDAR__I_HAS, .u.name = e->u.names[0]}, 1);
    for (uint32_t i = 0; i < e->nnames; i++) {
        bool last = i + 1 == e->nnames;
        bw_cedar__instr in = {.ins = last ? BW_CEDAR__I_HAS : BW_CEDAR__I_HAS_STEP,
                              .u.name = e->u.names[i]};
        bw_status st = emit(c, in, 0);
        if (st != BW_OK)
            return st;
    }
    for (uint32_t i = first; i < c->n; i++)
        if (c->ins[i].ins == BW_CEDAR__I_HAS_STEP)
            land(c, i);
    return BW_OK;
}

bw_cedar__ins bw_cedar__ins_of(bw_cedar__op op)
{
    static const uint8_t ins[] = {
        [BW_CEDAR__NOT] = BW_CEDAR__I_NOT,
        [BW_CEDAR__NEG] = BW_CEDAR__I_NEG,
        [BW_CEDAR__IS_EMPTY] = BW_CEDAR__I_IS_EMPTY,
        [BW_CEDAR__EQ] = BW_CEDAR__I_EQ,
        [BW_CEDAR__NE] = BW_CEDAR__I_NE,
        [BW_CEDAR__LT] = BW_CEDAR__I_LT,
        [BW_CEDAR__LE] = BW_CEDAR__I_LE,
        [BW_CEDAR__GT] = BW_CEDAR__I_GT,
        [BW_CEDAR__GE] = BW_CEDAR__I_GE,
        [BW_CEDAR__IN] = BW_CEDAR__I_IN,
        [BW_CEDAR__ADD] = BW_CEDAR__I_ADD,
        [BW_CEDAR__SUB] = BW_CEDAR__I_SUB,
        [BW_CEDAR__MUL] = BW_CEDAR__I_MUL,
        [BW_CEDAR__CONTAINS] = BW_CEDAR__I_CONTAINS,
        [BW_CEDAR__CONTAINS_ALL] = BW_CEDAR__I_CONTAINS_ALL,
        [BW_CEDAR__CONTAINS_ANY] = BW_CEDAR__I_CONTAINS_ANY,
        [BW_CEDAR__HAS_TAG] = BW_CEDAR__I_HAS_TAG,
        [BW_CEDAR__GET_TAG] = BW_CEDAR__I_GET_TAG,
    };
    assert(op < sizeof ins);
    return (bw_cedar__ins)ins[op];
}

/* After all children of e. */
static bw_status finish(compiler *c, const frame *f)
{
    const bw_cedar__expr *e = f->e;
    bool truth = false;
    bw_status st;
    switch ((bw_cedar__op)e->op) {
    case BW_CEDAR__VALUE:
        return emit(
            c, (bw_cedar__instr){.ins = BW_CEDAR__I_CONST, .u.value = e->u.value}, 1);
    case BW_CEDAR__VAR:
        return emit(c, (bw_cedar__instr){.ins = BW_CEDAR__I_VAR, .which = e->which}, 1);
    case BW_CEDAR__SLOT:
    case BW_CEDAR__ERROR:
        return emit_op(c, BW_CEDAR__I_ERROR, 0, 1);
    case BW_CEDAR__AND:
    case BW_CEDAR__OR:
        if (constant_bool(c, &truth) && f->decided)
            return BW_OK;
        st = emit_op(c, BW_CEDAR__I_BOOL, 0, 0);
        if (!f->decided)
            land(c, f->patch[0]);
        return st;
    case BW_CEDAR__IF:
        if (!f->decided)
            land(c, f->patch[1]);
        return BW_OK;
    case BW_CEDAR__IS:
        if (e->n == 1)
            return emit_on(
                c, (bw_cedar__instr){.ins = BW_CEDAR__I_IS, .u.name = e->u.names[0]},
                1);
        st = emit_op(c, BW_CEDAR__I_IN, 0, -1);
        land(c, f->patch[0]);
        return st;
    case BW_CEDAR__GET:
        return emit_get(c, e);
    case BW_CEDAR__HAS:
        return emit_has(c, e);
    case BW_CEDAR__LIKE:
        return emit_on(
            c, (bw_cedar__instr){.ins = BW_CEDAR__I_LIKE, .u.pattern = &e->u.pattern},
            1);
    case BW_CEDAR__SET_OF:
        return emit_set(c, e);
    case BW_CEDAR__RECORD_OF:
        return emit_record(c, e);
    case BW_CEDAR__CALL:
        return emit_call(c, e);
    default:
        assert(e->n == 1 || e->n == 2);
        if (e->op == BW_CEDAR__IN && e->u.lineage)
            return emit(c,
                        (bw_cedar__instr){.ins = BW_CEDAR__I_IN_KNOWN,
                                          .u.lineage = e->u.lineage},
                        -1);
        return emit_on(c, (bw_cedar__instr){.ins = (uint8_t)bw_cedar__ins_of(e->op)},
                       e->n);
    }
}

static bw_status compile_expr(compiler *c, const bw_cedar__expr *root)
{
    bw_status st = push_frame(c, root);
    while (st == BW_OK && c->nframes > 0) {
        frame *f = &c->frames[c->nframes - 1];
        if (f->i < f->e->n) {
            if (f->i > 0)
                st = between(c, f);
            if (st == BW_OK && f->i < f->e->n)
                st = push_frame(c, f->e->child[f->i++]);
        } else {
            st = finish(c, f);
            c->nframes--;
        }
    }
    return st;
}

bw_status bw_cedar__compile(bw_ctx *ctx, bw_ctx *pool,
                            const struct bw_cedar__type *shape, bw_cedar__policy *p)
{
    if (p->nclauses == 0)
        return BW_OK;
    compiler c = {.ctx = ctx, .pool = pool, .shape = shape};
    for (uint32_t i = 0; i < p->nclauses; i++) {
        bool unless = p->clauses[i].unless, truth = false;
        bw_status st = compile_expr(&c, p->clauses[i].body);
        if (st == BW_OK && constant_bool(&c, &truth) && truth != unless)
            drop_constant(&c);
        else if (st == BW_OK)
            st = emit_op(&c, unless ? BW_CEDAR__I_UNLESS : BW_CEDAR__I_WHEN, 0, -1);
        if (st != BW_OK)
            return st;
        assert(c.depth == 0);
    }
    bw_status st = emit_op(&c, BW_CEDAR__I_END, 0, 0);
    if (st != BW_OK)
        return st;
    bw_cedar__code *code = bw_arena_alloc(pool, sizeof *code);
    bw_cedar__instr *ins = bw_arena_alloc(pool, c.n * sizeof *ins);
    if (!code || !ins)
        return bw_fail_nomem(ctx);
    memcpy(ins, c.ins, c.n * sizeof *ins);
    *code = (bw_cedar__code){ins, c.n, c.depth_max};
    p->code = code;
    return BW_OK;
}

bw_status bw_cedar__compile_expr(bw_ctx *ctx, const bw_cedar__expr *e,
                                 bw_cedar__code *out)
{
    compiler c = {.ctx = ctx, .pool = ctx};
    bw_status st = compile_expr(&c, e);
    if (st == BW_OK)
        st = emit_op(&c, BW_CEDAR__I_END, 0, 0);
    if (st == BW_OK)
        *out = (bw_cedar__code){c.ins, c.n, c.depth_max};
    return st;
}

bw_status bw_cedar__walk(bw_ctx *ctx, const bw_cedar__expr *root,
                         bool (*visit)(const bw_cedar__expr *e, void *user), void *user)
{
    compiler c = {.ctx = ctx};
    bw_status st = push_frame(&c, root);
    while (st == BW_OK && c.nframes > 0) {
        const bw_cedar__expr *e = c.frames[--c.nframes].e;
        if (!visit(e, user))
            return BW_OK;
        for (uint32_t i = e->n; i-- > 0 && st == BW_OK;)
            st = push_frame(&c, e->child[i]);
    }
    return st;
}
