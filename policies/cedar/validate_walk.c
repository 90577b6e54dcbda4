/* Typing an expression: operators that may leave a child out, and the capabilities that
 * pass from one child to the next. Rules: language description, section 8. The rest is
 * in validate_rules.c. No recursion: chains are of any length. */
#include "validate.h"

#define TRY(call)                \
    do {                         \
        bw_status try_ = (call); \
        if (try_ != BW_OK)       \
            return try_;         \
    } while (0)

typedef bw_cedar__checker checker;
typedef bw_cedar__vnode vnode;
typedef bw_cedar__typed typed;

typedef struct bw_cedar__frame {
    const vnode *v;
    uint32_t i;      /* next child */
    uint32_t mark;   /* of the capabilities when it began */
    uint32_t base;   /* its children's results begin here */
    bool one_branch; /* IF: the condition is known */
    uint32_t *saved; /* IF, OR: capabilities of the earlier branch */
    uint32_t nsaved;
} frame;

static bw_status room(checker *c, void **items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return BW_OK;
    uint32_t more = *cap ? *cap * 2 : 64;
    void *grown = bw_arena_grow(c->pool, *items, n * size, more * size);
    if (!grown)
        return bw_fail_nomem(c->ctx);
    *items = grown;
    *cap = more;
    return BW_OK;
}

/* ---- capabilities ---- */
bw_status bw_cedar__hold(checker *c, uint32_t shape)
{
    void *items = c->held;
    TRY(room(c, &items, c->nheld, &c->held_cap, sizeof *c->held));
    c->held = items;
    c->held[c->nheld++] = shape;
    c->active[shape]++;
    return BW_OK;
}

void bw_cedar__drop(checker *c, uint32_t mark)
{
    while (c->nheld > mark)
        c->active[c->held[--c->nheld]]--;
}

/* Takes what lies above the mark out of force and keeps it in the frame. */
static bw_status save(checker *c, frame *f)
{
    f->nsaved = c->nheld - f->mark;
    f->saved = bw_arena_alloc(c->env, f->nsaved * sizeof *f->saved);
    if (!f->saved)
        return bw_fail_nomem(c->ctx);
    if (f->nsaved)
        memcpy(f->saved, c->held + f->mark, f->nsaved * sizeof *f->saved);
    c->steps += f->nsaved;
    bw_cedar__drop(c, f->mark);
    return BW_OK;
}

static bw_status restore(checker *c, const frame *f)
{
    bw_cedar__drop(c, f->mark);
    for (uint32_t i = 0; i < f->nsaved; i++)
        TRY(bw_cedar__hold(c, f->saved[i]));
    return BW_OK;
}

/* Leaves above the mark what was saved too, each once. */
static void intersect(checker *c, const frame *f)
{
    uint32_t kept = f->mark;
    c->seen_at++;
    for (uint32_t i = 0; i < f->nsaved; i++)
        c->seen[f->saved[i]] = c->seen_at;
    for (uint32_t i = f->mark; i < c->nheld; i++) {
        uint32_t shape = c->held[i];
        if (c->seen[shape] == c->seen_at) {
            c->seen[shape] = 0;
            c->held[kept++] = shape;
        } else {
            c->active[shape]--;
        }
    }
    c->steps += c->nheld - f->mark;
    c->nheld = kept;
}

/* ---- the walk ---- */
static bw_status finish(checker *c, frame *f, typed result)
{
    void *items = c->done;
    c->ndone = f->base;
    TRY(room(c, &items, c->ndone, &c->done_cap, sizeof *c->done));
    c->done = items;
    c->done[c->ndone++] = result;
    c->nframes--;
    return BW_OK;
}

static bw_status finish_bool(checker *c, frame *f, uint8_t kind)
{
    return finish(c, f, (typed){.type = bw_cedar__type_of(kind)});
}

static bw_status push(checker *c, uint32_t node)
{
    void *items = c->frames;
    TRY(bw_cedar__step(c, 1));
    TRY(room(c, &items, c->nframes, &c->frames_cap, sizeof *c->frames));
    c->frames = items;
    c->frames[c->nframes++] =
        (frame){.v = &c->low.nodes[node], .mark = c->nheld, .base = c->ndone};
    return BW_OK;
}

/* The Bool of child i, whose result is the k-th. */
static bw_status operand(checker *c, const frame *f, uint32_t i, uint32_t k,
                         uint8_t *out)
{
    return bw_cedar__want_bool(c, f->v, i, c->done[f->base + k].type, out);
}

static uint8_t kind_of(const typed *t) /* of what was a Bool, or taken for one */
{
    return t->type && bw_cedar__type_is_bool(t->type) ? t->type->kind : BW_CEDAR__BOOL;
}

static bw_status step_and(checker *c, frame *f)
{
    uint8_t a, b;
    if (f->i == 0)
        return push(c, f->v->child[f->i++]);
    if (f->i == 1) {
        TRY(operand(c, f, 0, 0, &a));
        if (a == BW_CEDAR__FALSE) {
            bw_cedar__drop(c, f->mark);
            return finish_bool(c, f, a);
        }
        return push(c, f->v->child[f->i++]);
    }
    a = kind_of(&c->done[f->base]);
    TRY(operand(c, f, 1, 1, &b));
    if (b == BW_CEDAR__FALSE)
        bw_cedar__drop(c, f->mark);
    return finish_bool(c, f, b == BW_CEDAR__TRUE ? a : b);
}

static bw_status step_or(checker *c, frame *f)
{
    uint8_t a, b;
    if (f->i == 0)
        return push(c, f->v->child[f->i++]);
    if (f->i == 1) {
        TRY(operand(c, f, 0, 0, &a));
        if (a == BW_CEDAR__TRUE) {
            bw_cedar__drop(c, f->mark);
            return finish_bool(c, f, a);
        }
        TRY(save(c, f));
        return push(c, f->v->child[f->i++]);
    }
    a = kind_of(&c->done[f->base]);
    TRY(operand(c, f, 1, 1, &b));
    if (b == BW_CEDAR__TRUE)
        bw_cedar__drop(c, f->mark);
    else if (a == BW_CEDAR__FALSE)
        ; /* what the right side gives */
    else if (b == BW_CEDAR__FALSE)
        TRY(restore(c, f));
    else
        intersect(c, f);
    return finish_bool(
        c, f, a == BW_CEDAR__FALSE || b == BW_CEDAR__TRUE ? b : BW_CEDAR__BOOL);
}

static bw_status step_if(checker *c, frame *f)
{
    uint8_t test;
    if (f->i == 0)
        return push(c, f->v->child[f->i++]);
    if (f->i == 1) {
        TRY(operand(c, f, 0, 0, &test));
        f->one_branch = test != BW_CEDAR__BOOL;
        f->i = test == BW_CEDAR__FALSE ? 3 : 2;
        if (test == BW_CEDAR__FALSE)
            bw_cedar__drop(c, f->mark);
        return push(c, f->v->child[f->i - 1]);
    }
    const typed a = c->done[f->base + 1];
    if (f->one_branch)
        return finish(c, f, a);
    if (f->i == 2) {
        TRY(save(c, f));
        return push(c, f->v->child[f->i++]);
    }
    const typed b = c->done[f->base + 2];
    typed both = {0};
    intersect(c, f);
    if (a.type && b.type) {
        TRY(bw_cedar__join(c, a.type, b.type, &both.type));
        if (!both.type)
            TRY(bw_cedar__fail_join(c, f->v, a.type, b.type));
        else
            TRY(bw_cedar__reach_join(c, &a.reach, &b.reach, &both.reach));
    }
    return finish(c, f, both);
}

static bw_status step(checker *c, frame *f)
{
    switch ((bw_cedar__op)f->v->op) {
    case BW_CEDAR__AND:
        return step_and(c, f);
    case BW_CEDAR__OR:
        return step_or(c, f);
    case BW_CEDAR__IF:
        return step_if(c, f);
    default:
        break;
    }
    bw_cedar__drop(c, f->mark);
    if (f->i < f->v->n)
        return push(c, f->v->child[f->i++]);
    typed result = {0};
    TRY(bw_cedar__check_rule(c, f->v, c->done + f->base, &result));
    return finish(c, f, result);
}

bw_status bw_cedar__check_condition(checker *c, uint32_t node, uint8_t *out)
{
    c->nframes = c->ndone = 0;
    void *first = c->done;
    TRY(room(c, &first, 0, &c->done_cap, sizeof *c->done));
    c->done = first;
    TRY(push(c, node));
    while (c->nframes > 0)
        TRY(step(c, &c->frames[c->nframes - 1]));
    const vnode whole = {.n = 1, .child = &node};
    return bw_cedar__want_bool(c, &whole, 0, c->done[0].type, out);
}
