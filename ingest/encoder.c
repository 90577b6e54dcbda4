/* The forward pass of a BERT encoder and the sharing of texts among threads
 * (encoder.h).
 *
 * Rows (tokens) of several texts lie below each other, without padding, so weights are
 * read once for up to GROUP_ROWS rows. Every step works on one row, or, in attention,
 * on the rows of one text alone, in an order that depends on that text's length only:
 * so neither the group, nor its size, nor the thread can change a bit.
 *
 * Layer (post-norm, Vaswani et al. 2017; Devlin et al. 2019):
 *   x <- norm(x + Wo · concat_h softmax(q k' / √d) v);  x <- norm(x + W2 gelu(W1 x))
 * Then mean over tokens (or the first one), then length 1.
 *
 * Memory of a worker: GROUP_ROWS · (5 · hidden + intermediate) f32 and one head's
 * attention, t × t. Left out: dropout, the pooler layer (sentence encoders do not use
 * it). */
#include "../engine/kernels/kernels.h"
#include "encoder_model.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { GROUP_ROWS = 256, THREADS_MAX = 32 };

typedef struct text_tokens {
    const uint32_t *ids;
    size_t n;
} text_tokens;

/* Scratch of one worker, carved out of one block. */
typedef struct scratch {
    float *block;
    float *x, *qkv, *mix,
        *wide; /* rows × hidden, 3 hidden, hidden, max(hidden, intermediate) */
    float *scores, *keys, *values;
} scratch;

/* One encode call, shared by its workers. */
typedef struct job {
    const bw_encoder *e;
    const text_tokens *texts;
    const size_t *group_begin; /* ngroups + 1 indexes into texts */
    size_t ngroups, rows_max, tokens_max;
    float *out;
    atomic_size_t next; /* relaxed: groups are independent */
    atomic_bool stop;   /* relaxed: only a hint */
    atomic_bool nomem;  /* read after join */
} job;

static size_t padded(size_t n)
{
    return (n + BW_GEMM_PANEL - 1) / BW_GEMM_PANEL * BW_GEMM_PANEL;
}

static bool scratch_new(const job *j, scratch *s)
{
    const bw_encoder_shape *m = &j->e->shape;
    size_t h = m->hidden,
           wide = m->intermediate > m->hidden ? m->intermediate : m->hidden;
    size_t d = padded(h / m->heads), t = padded(j->tokens_max), rows = j->rows_max;
    size_t sizes[7] = {rows * h, rows * 3 * h,       rows * h, rows * wide,
                       t * t,    t * (h / m->heads), t * d};
    size_t total = 0;
    for (size_t i = 0; i < 7; i++)
        total += sizes[i] = padded(sizes[i]);
    s->block = bw_alloc_vectors(total * sizeof(float));
    if (!s->block)
        return false;
    float **fields[7] = {&s->x,      &s->qkv,  &s->mix,   &s->wide,
                         &s->scores, &s->keys, &s->values};
    float *p = s->block;
    for (size_t i = 0; i < 7; p += sizes[i], i++)
        *fields[i] = p;
    return true;
}

static void linear(const bw_encoder *e, const bw_linear *w, const float *x, size_t rows,
                   float *y)
{
    e->gemm->matmul(x, w->in, rows, w->in, w->panels, w->out, w->bias, y, w->out);
}

static void embed(const bw_encoder *e, const text_tokens *text, float *x)
{
    size_t h = e->shape.hidden;
    for (size_t p = 0; p < text->n; p++, x += h) {
        const float *word = e->words + (size_t)text->ids[p] * h,
                    *position = e->positions + p * h;
        for (size_t i = 0; i < h; i++)
            x[i] = word[i] + e->type0[i] + position[i];
        e->gemm->layer_norm(x, NULL, h, e->embedding_norm.gain, e->embedding_norm.bias,
                            e->shape.norm_eps);
    }
}

/* One text's attention: t rows of qkv -> t rows of out. */
static void attend(const bw_encoder *e, const scratch *s, const float *qkv, size_t t,
                   float *out)
{
    size_t h = e->shape.hidden, d = h / e->shape.heads, wide = padded(t);
    float scale = 1.0f / sqrtf((float)d);
    for (size_t head = 0; head < e->shape.heads; head++) {
        const float *q = qkv + head * d, *k = q + h, *v = k + h;
        bw_gemm_pack(k, 3 * h, t, d, s->keys);
        bw_gemm_pack_rows(v, 3 * h, d, t, s->values);
        e->gemm->matmul(q, 3 * h, t, d, s->keys, wide, NULL, s->scores, wide);
        for (size_t i = 0; i < t; i++)
            e->gemm->softmax(s->scores + i * wide, t, scale);
        e->gemm->matmul(s->scores, wide, t, t, s->values, d, NULL, out + head * d, h);
    }
}

static void pool(const bw_encoder *e, const float *x, size_t t, float *out)
{
    size_t h = e->shape.hidden;
    memcpy(out, x, h * sizeof *out);
    for (size_t p = 1; p < t && !e->shape.pool_cls; p++)
        for (size_t i = 0; i < h; i++)
            out[i] += x[p * h + i];
    bw_normalize_f32(out, h); /* the mean's divisor falls away */
}

static void run_group(const job *j, const scratch *s, size_t group)
{
    const bw_encoder *e = j->e;
    const text_tokens *first = j->texts + j->group_begin[group],
                      *end = j->texts + j->group_begin[group + 1];
    size_t h = e->shape.hidden, rows = 0;
    for (const text_tokens *t = first; t < end; rows += t->n, t++)
        embed(e, t, s->x + rows * h);
    for (uint32_t i = 0; i < e->shape.layers; i++) {
        const bw_encoder_layer *l = &e->layers[i];
        linear(e, &l->qkv, s->x, rows, s->qkv);
        size_t row = 0;
        for (const text_tokens *t = first; t < end; row += t->n, t++)
            attend(e, s, s->qkv + row * 3 * h, t->n, s->mix + row * h);
        linear(e, &l->attention_out, s->mix, rows, s->wide);
        for (size_t r = 0; r < rows; r++)
            e->gemm->layer_norm(s->x + r * h, s->wide + r * h, h,
                                l->attention_norm.gain, l->attention_norm.bias,
                                e->shape.norm_eps);
        linear(e, &l->up, s->x, rows, s->wide);
        e->gemm->gelu(s->wide, rows * l->up.out);
        linear(e, &l->down, s->wide, rows, s->mix);
        for (size_t r = 0; r < rows; r++)
            e->gemm->layer_norm(s->x + r * h, s->mix + r * h, h, l->output_norm.gain,
                                l->output_norm.bias, e->shape.norm_eps);
    }
    size_t row = 0;
    for (const text_tokens *t = first; t < end; row += t->n, t++)
        pool(e, s->x + row * h, t->n, j->out + (size_t)(t - j->texts) * h);
}

/* ctx is NULL in helper threads; the caller's own looks at the deadline. */
static bw_status work(job *j, bw_ctx *ctx)
{
    scratch s;
    bw_status st = BW_OK;
    if (!scratch_new(j, &s)) {
        atomic_store_explicit(&j->nomem, true, memory_order_relaxed);
        atomic_store_explicit(&j->stop, true, memory_order_relaxed);
        return BW_OK; /* told by nomem */
    }
    for (;;) {
        size_t group = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (group >= j->ngroups || atomic_load_explicit(&j->stop, memory_order_relaxed))
            break;
        if (ctx && (st = bw_ctx_check(ctx)) != BW_OK) {
            atomic_store_explicit(&j->stop, true, memory_order_relaxed);
            break;
        }
        run_group(j, &s, group);
    }
    bw_free_vectors(s.block);
    return st;
}

static void *helper(void *arg)
{
    (void)!work(arg, NULL);
    return NULL;
}

static unsigned threads_forced;

void bw_encoder__set_threads(unsigned n)
{
    threads_forced = n;
}

bool bw_encoder__set_isa(bw_encoder *e, const char *isa)
{
    const bw_gemm *g = isa ? bw_gemm_isa(isa) : bw_gemm_get();
    if (g)
        e->gemm = g;
    return g != NULL;
}

static size_t threads_wanted(size_t groups)
{
    cpu_set_t set;
    size_t n = threads_forced;
    if (n == 0)
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    n = n < groups ? n : groups;
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* The caller works too; a thread that cannot be had is done without. */
static bw_status run_job(bw_ctx *ctx, job *j)
{
    pthread_t threads[THREADS_MAX];
    size_t n = 0, wanted = threads_wanted(j->ngroups);
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, helper, j) == 0)
        n++;
    bw_status st = work(j, ctx);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (!st && atomic_load_explicit(&j->nomem, memory_order_relaxed))
        st = bw_fail_nomem(ctx);
    return st;
}

bw_status bw_encoder_tokenize(bw_ctx *ctx, const bw_encoder *e, bw_str text,
                              const uint32_t **ids, size_t *n)
{
    uint32_t *buf = bw_arena_alloc(ctx, e->shape.tokens_max * sizeof *buf);
    if (!buf)
        return bw_fail_nomem(ctx);
    *n = bw_wordpiece_run(e->wordpiece, text, buf, e->shape.tokens_max);
    *ids = buf;
    return BW_OK;
}

/* Tokens of all texts and the cut into groups of at most GROUP_ROWS rows. */
static bw_status plan(bw_ctx *ctx, job *j, const bw_str *texts, size_t n)
{
    text_tokens *t = bw_arena_calloc(ctx, n, sizeof *t);
    size_t *begin = bw_arena_calloc(ctx, n + 1, sizeof *begin);
    if (!t || !begin)
        return bw_fail_nomem(ctx);
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        bw_status st = bw_encoder_tokenize(ctx, j->e, texts[i], &t[i].ids, &t[i].n);
        if (st)
            return st;
        if (i > begin[j->ngroups] && rows + t[i].n > GROUP_ROWS) {
            begin[++j->ngroups] = i;
            rows = 0;
        }
        rows += t[i].n;
        j->rows_max = rows > j->rows_max ? rows : j->rows_max;
        j->tokens_max = t[i].n > j->tokens_max ? t[i].n : j->tokens_max;
    }
    begin[++j->ngroups] = n;
    j->texts = t;
    j->group_begin = begin;
    return BW_OK;
}

bw_status bw_encoder_encode(bw_ctx *ctx, const bw_encoder *e, const bw_str *texts,
                            size_t n, float *out)
{
    if (n == 0)
        return BW_OK;
    bw_arena_mark mark = bw_arena_mark_get(ctx);
    job j = {.e = e, .out = out};
    bw_status st = plan(ctx, &j, texts, n);
    if (!st)
        st = run_job(ctx, &j);
    bw_arena_release(ctx, mark);
    for (size_t i = 0; i < n * e->shape.hidden && !st; i++)
        if (!isfinite(out[i]))
            st = bw_fail(ctx, BW_ECORRUPT,
                         "model: a vector is not finite; the weights are damaged");
    return st;
}

uint32_t bw_encoder_dim(const bw_encoder *e)
{
    return e->shape.hidden;
}

uint32_t bw_encoder_tokens_max(const bw_encoder *e)
{
    return e->shape.tokens_max;
}

bw_str bw_encoder_model(const bw_encoder *e)
{
    return bw_str_c(e->model);
}
