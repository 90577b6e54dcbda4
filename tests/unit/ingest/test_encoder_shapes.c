/* The encoder on small models of odd shapes, made here from a seed, against a plain
 * forward pass in double: heads and layers that fill no panel, both poolings, weights
 * in F32 and BF16, names with and without prefix, vocab.txt and tokenizer.json; and
 * folders that are damaged. BW_SEED repeats a run. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "ingest/encoder_model.h"

enum { VOCAB = 12, POSITIONS = 40, LAYERS_MAX = 3, TENSORS_MAX = 64, DIM_MAX = 96 };

typedef struct shape {
    size_t hidden, heads, layers, wide, tokens_max;
    bool cls, brain, prefix, json;
} shape;

typedef struct tensor {
    char name[96];
    size_t rows, cols;
    float *values; /* as the file holds them, so after rounding to BF16 */
} tensor;

typedef struct model {
    shape s;
    char folder[64];
    tensor t[TENSORS_MAX];
    size_t n;
} model;

static uint64_t seed_state;
static float uniform(void) /* -1 … 1, xorshift64 */
{
    seed_state ^= seed_state << 13;
    seed_state ^= seed_state >> 7;
    seed_state ^= seed_state << 17;
    return (float)(seed_state >> 40) * 0x1p-23f - 1.0f;
}

static void add(model *m, const char *name, size_t rows, size_t cols, float base,
                float spread)
{
    assert_true(m->n < TENSORS_MAX);
    tensor *t = &m->t[m->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rows = rows;
    t->cols = cols;
    t->values = calloc(rows * cols, sizeof(float));
    for (size_t i = 0; i < rows * cols; i++) {
        t->values[i] = base + spread * uniform();
        if (m->s.brain) { /* what BF16 keeps */
            uint32_t bits;
            memcpy(&bits, &t->values[i], 4);
            bits &= 0xFFFF0000u;
            memcpy(&t->values[i], &bits, 4);
        }
    }
}

static void add_pair(model *m, const char *name, size_t out, size_t in, bool norm)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    add(m, full, norm ? 1 : out, norm ? out : in, norm ? 1 : 0, norm ? 0.3f : 0.4f);
    snprintf(full, sizeof full, "%s.bias", name);
    add(m, full, 1, out, 0, 0.2f);
}

static const float *find(const model *m, const char *layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", layer, name);
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, full) == 0)
            return m->t[i].values;
    fail_msg("no tensor %s", full);
    return NULL;
}

static void make_tensors(model *m)
{
    static const char *const square[] = {"attention.self.query", "attention.self.key",
                                         "attention.self.value",
                                         "attention.output.dense"};
    size_t h = m->s.hidden;
    char name[96];
    add(m, "embeddings.word_embeddings.weight", VOCAB, h, 0, 1);
    add(m, "embeddings.position_embeddings.weight", POSITIONS, h, 0, 0.5f);
    add(m, "embeddings.token_type_embeddings.weight", 2, h, 0, 0.5f);
    add_pair(m, "embeddings.LayerNorm", h, 0, true);
    for (size_t l = 0; l < m->s.layers; l++) {
        for (size_t i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "encoder.layer.%zu.%s", l, square[i]);
            add_pair(m, name, h, h, false);
        }
        snprintf(name, sizeof name, "encoder.layer.%zu.intermediate.dense", l);
        add_pair(m, name, m->s.wide, h, false);
        snprintf(name, sizeof name, "encoder.layer.%zu.output.dense", l);
        add_pair(m, name, h, m->s.wide, false);
        snprintf(name, sizeof name, "encoder.layer.%zu.attention.output.LayerNorm", l);
        add_pair(m, name, h, 0, true);
        snprintf(name, sizeof name, "encoder.layer.%zu.output.LayerNorm", l);
        add_pair(m, name, h, 0, true);
    }
}

static FILE *create(const model *m, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", m->folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    return f;
}

static void write_text(const model *m, const char *name, const char *text)
{
    FILE *f = create(m, name);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void write_weights(const model *m)
{
    bw_buf head = {0};
    size_t size = m->s.brain ? 2 : 4, at = 0;
    bw_buf_putc(&head, '{');
    for (size_t i = 0; i < m->n; i++) {
        const tensor *t = &m->t[i];
        size_t bytes = t->rows * t->cols * size;
        bw_buf_printf(&head, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":", i ? "," : "",
                      m->s.prefix ? "bert." : "", t->name, m->s.brain ? "BF16" : "F32");
        if (strstr(t->name, "bias") || strstr(t->name, "LayerNorm"))
            bw_buf_printf(&head, "[%zu]", t->cols);
        else
            bw_buf_printf(&head, "[%zu,%zu]", t->rows, t->cols);
        bw_buf_printf(&head, ",\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    bw_buf_putc(&head, '}');
    FILE *f = create(m, "model.safetensors");
    for (size_t i = 0; i < 8; i++)
        fputc((int)((uint64_t)head.len >> (8 * i) & 255), f);
    fwrite(head.ptr, 1, head.len, f);
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < m->t[i].rows * m->t[i].cols; k++)
            fwrite((const char *)&m->t[i].values[k] + (4 - size), 1, size, f);
    assert_int_equal(fclose(f), 0);
    bw_buf_clear(&head);
}

static const char *const pieces[VOCAB] = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "##a", "##b", "dog", "cat", "."};

static void model_make(model *m, shape s)
{
    char config[512];
    *m = (model){.s = s};
    snprintf(m->folder, sizeof m->folder, "/tmp/bw-model-XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    make_tensors(m);
    write_weights(m);
    snprintf(config, sizeof config,
             "{\"model_type\":\"bert\",\"hidden_act\":\"gelu\",\"hidden_size\":%zu,"
             "\"num_attention_heads\":%zu,\"num_hidden_layers\":%zu,\"intermediate_"
             "size\":%zu,"
             "\"max_position_embeddings\":%d,\"vocab_size\":%d,\"layer_norm_eps\":1e-6,"
             "\"_name_or_path\":\"made/he\\\"re\\\\\"}",
             s.hidden, s.heads, s.layers, s.wide, POSITIONS, VOCAB);
    write_text(m, "config.json", config);
    snprintf(config, sizeof config, "{\"max_seq_length\":%zu}", s.tokens_max);
    write_text(m, "sentence_bert_config.json", config);
    bw_buf b = {0};
    if (s.json)
        bw_buf_puts(&b, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{");
    for (size_t i = 0; i < VOCAB; i++)
        if (s.json)
            bw_buf_printf(&b, "%s\"%s\":%zu", i ? "," : "", pieces[i], i);
        else
            bw_buf_printf(&b, "%s\n", pieces[i]);
    if (s.json)
        bw_buf_puts(&b, "}}}");
    bw_buf_putc(&b, '\0');
    write_text(m, s.json ? "tokenizer.json" : "vocab.txt", b.ptr);
    bw_buf_clear(&b);
    if (s.cls) {
        char path[160];
        snprintf(path, sizeof path, "%s/1_Pooling", m->folder);
        assert_int_equal(mkdir(path, 0700), 0);
        write_text(
            m, "1_Pooling/config.json",
            "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}");
    }
}

static void model_remove(model *m)
{
    static const char *const names[] = {
        "config.json",      "sentence_bert_config.json", "vocab.txt",
        "tokenizer.json",   "1_Pooling/config.json",     "1_Pooling",
        "model.safetensors"};
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", m->folder, names[i]);
        (void)remove(path);
    }
    assert_int_equal(rmdir(m->folder), 0);
    for (size_t i = 0; i < m->n; i++)
        free(m->t[i].values);
}

/* ---- the plain forward pass ---- */

static void plain_linear(const float *w, const float *b, const double *x, size_t in,
                         size_t out, double *y)
{
    for (size_t j = 0; j < out; j++) {
        y[j] = (double)b[j];
        for (size_t k = 0; k < in; k++)
            y[j] += (double)w[j * in + k] * x[k];
    }
}

static void plain_norm(const float *gain, const float *bias, double *x, size_t n)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(var + 1e-6) * (double)gain[i] + (double)bias[i];
}

static void plain_attention(const model *m, const char *layer, double (*x)[DIM_MAX],
                            size_t t, double (*out)[DIM_MAX])
{
    static double q[POSITIONS][DIM_MAX], k[POSITIONS][DIM_MAX], v[POSITIONS][DIM_MAX];
    size_t h = m->s.hidden, d = h / m->s.heads;
    for (size_t i = 0; i < t; i++) {
        plain_linear(find(m, layer, "attention.self.query.weight"),
                     find(m, layer, "attention.self.query.bias"), x[i], h, h, q[i]);
        plain_linear(find(m, layer, "attention.self.key.weight"),
                     find(m, layer, "attention.self.key.bias"), x[i], h, h, k[i]);
        plain_linear(find(m, layer, "attention.self.value.weight"),
                     find(m, layer, "attention.self.value.bias"), x[i], h, h, v[i]);
    }
    for (size_t i = 0; i < t; i++)
        for (size_t c = 0; c < h; c += d) {
            double p[POSITIONS], sum = 0;
            for (size_t j = 0; j < t; j++) {
                double dot = 0;
                for (size_t e = c; e < c + d; e++)
                    dot += q[i][e] * k[j][e];
                sum += p[j] = exp(dot / sqrt((double)d));
            }
            for (size_t e = c; e < c + d; e++) {
                out[i][e] = 0;
                for (size_t j = 0; j < t; j++)
                    out[i][e] += p[j] / sum * v[j][e];
            }
        }
}

static void plain_layer(const model *m, size_t l, double (*x)[DIM_MAX], size_t t)
{
    static double mixed[POSITIONS][DIM_MAX];
    double y[DIM_MAX], wide[4 * DIM_MAX];
    size_t h = m->s.hidden;
    char layer[40];
    snprintf(layer, sizeof layer, "encoder.layer.%zu.", l);
    plain_attention(m, layer, x, t, mixed);
    for (size_t i = 0; i < t; i++) {
        plain_linear(find(m, layer, "attention.output.dense.weight"),
                     find(m, layer, "attention.output.dense.bias"), mixed[i], h, h, y);
        for (size_t e = 0; e < h; e++)
            x[i][e] += y[e];
        plain_norm(find(m, layer, "attention.output.LayerNorm.weight"),
                   find(m, layer, "attention.output.LayerNorm.bias"), x[i], h);
        plain_linear(find(m, layer, "intermediate.dense.weight"),
                     find(m, layer, "intermediate.dense.bias"), x[i], h, m->s.wide,
                     wide);
        for (size_t e = 0; e < m->s.wide; e++)
            wide[e] = wide[e] * 0.5 * erfc(-wide[e] / sqrt(2.0));
        plain_linear(find(m, layer, "output.dense.weight"),
                     find(m, layer, "output.dense.bias"), wide, m->s.wide, h, y);
        for (size_t e = 0; e < h; e++)
            x[i][e] += y[e];
        plain_norm(find(m, layer, "output.LayerNorm.weight"),
                   find(m, layer, "output.LayerNorm.bias"), x[i], h);
    }
}

static void plain_encode(const model *m, const uint32_t *ids, size_t t, double *out)
{
    static double x[POSITIONS][DIM_MAX];
    size_t h = m->s.hidden;
    const float *words = find(m, "embeddings.", "word_embeddings.weight");
    const float *places = find(m, "embeddings.", "position_embeddings.weight");
    const float *types = find(m, "embeddings.", "token_type_embeddings.weight");
    for (size_t i = 0; i < t; i++) {
        for (size_t e = 0; e < h; e++)
            x[i][e] = (double)words[ids[i] * h + e] + (double)places[i * h + e] +
                      (double)types[e];
        plain_norm(find(m, "embeddings.", "LayerNorm.weight"),
                   find(m, "embeddings.", "LayerNorm.bias"), x[i], h);
    }
    for (size_t l = 0; l < m->s.layers; l++)
        plain_layer(m, l, x, t);
    double length = 0;
    for (size_t e = 0; e < h; e++) {
        out[e] = x[0][e];
        for (size_t i = 1; i < t && !m->s.cls; i++)
            out[e] += x[i][e];
        length += out[e] * out[e];
    }
    for (size_t e = 0; e < h; e++)
        out[e] /= sqrt(length);
}

/* ---- tests ---- */

static void check_model(bw_ctx *ctx, const model *m)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    bw_str texts[] = {
        BW_STR("a b c dog."), BW_STR(""), BW_STR("abba cat cat dog zebra a.b.c"),
        BW_STR("a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
               "a a a a a a a a a a a a a a a a a a")};
    enum { N = sizeof texts / sizeof *texts };
    float got[N * DIM_MAX], first[N * DIM_MAX];
    bw_encoder *e;
    if (bw_encoder_open(ctx, m->folder, &e) != BW_OK)
        fail_msg("%s", bw_ctx_message(ctx));
    assert_int_equal(bw_encoder_dim(e), m->s.hidden);
    assert_int_equal(bw_encoder_tokens_max(e), m->s.tokens_max);
    assert_memory_equal(bw_encoder_model(e).ptr, "here@", 5);
    for (size_t l = 0; l < 3; l++) {
        if (!bw_encoder__set_isa(e, isas[l]))
            continue;
        assert_int_equal(bw_encoder_encode(ctx, e, texts, N, got), BW_OK);
        if (l == 0)
            memcpy(first, got, sizeof first);
        assert_memory_equal(got, first, N * m->s.hidden * sizeof *got);
    }
    for (size_t i = 0; i < N; i++) {
        const uint32_t *ids;
        size_t n;
        double want[DIM_MAX], worst = 0;
        assert_int_equal(bw_encoder_tokenize(ctx, e, texts[i], &ids, &n), BW_OK);
        assert_true(n <= m->s.tokens_max);
        plain_encode(m, ids, n, want);
        for (size_t k = 0; k < m->s.hidden; k++)
            worst = fmax(worst, fabs(want[k] - (double)got[i * m->s.hidden + k]));
        if (worst > 2e-5)
            fail_msg("hidden %zu, text %zu: off by %g", m->s.hidden, i, worst);
    }
    bw_encoder_close(e);
}

static void encoder__odd_shapes_agree_with_a_plain_forward_pass(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {32, 1, 1, 64, 32, false, false, false, false},
        {40, 5, 2, 52, 40, false, false, true, false},
        {96, 3, 3, 200, 17, true, false, false, true},
        {18, 2, 1, 7, 33, true, true, true, true},
        {64, 2, 2, 128, 2, false, true, false, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bw_ctx *ctx = bw_ctx_new(0);
        model m;
        model_make(&m, shapes[i]);
        check_model(ctx, &m);
        model_remove(&m);
        bw_ctx_free(ctx);
    }
}

static void refused(const model *m, const char *file, const char *text,
                    const char *word)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_encoder *e = NULL;
    write_text(m, file, text);
    bw_status st = bw_encoder_open(ctx, m->folder, &e);
    if (st == BW_OK || !strstr(bw_ctx_message(ctx), word))
        fail_msg("%s = %s: \"%s\" does not say \"%s\"", file, text, bw_ctx_message(ctx),
                 word);
    assert_null(e);
    bw_ctx_free(ctx);
}

static void encoder__damaged_folders_are_refused(void **state)
{
    (void)state;
    model m;
    model_make(&m, (shape){32, 2, 1, 64, 32, false, false, false, false});
    refused(&m, "config.json", "{}", "only BERT");
    refused(&m, "config.json", "[]", "object");
    refused(&m, "config.json", "{\"model_type\":\"bert\",\"hidden_act\":\"relu\"}",
            "only BERT");
    refused(&m, "config.json", "{\"model_type\":\"bert\",\"hidden_act\":\"gelu\"}",
            "hidden_size");
    refused(
        &m, "config.json",
        "{\"model_type\":\"bert\",\"hidden_act\":\"gelu\",\"hidden_size\":4000000000}",
        "hidden_size");
    static const char wrong[] = "{\"model_type\":\"bert\",\"hidden_act\":\"gelu\","
                                "\"hidden_size\":%s,\"num_attention_heads\":%s,"
                                "\"num_hidden_layers\":1,\"intermediate_size\":64,"
                                "\"max_position_embeddings\":40,\"vocab_size\":%s}";
    char config[400];
    (void)snprintf(config, sizeof config, wrong, "32", "5", "12");
    refused(&m, "config.json", config, "contradicts");
    (void)snprintf(config, sizeof config, wrong, "64", "2", "12");
    refused(&m, "config.json", config, "is not 12 x 64");
    (void)snprintf(config, sizeof config, wrong, "32", "2", "11");
    refused(&m, "config.json", config, "more pieces");
    (void)snprintf(config, sizeof config, wrong, "32", "2", "12");
    write_text(&m, "config.json", config);
    refused(&m, "model.safetensors", "short", "safetensors");
    refused(&m, "vocab.txt", "a\nb\n", "missing");
    model_remove(&m);
}

static void open_and_encode(void *arg)
{
    const model *m = arg;
    long before = failing_live;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_encoder *e = NULL;
    if (ctx) {
        float out[2 * DIM_MAX];
        bw_str texts[] = {BW_STR("a b"), BW_STR("dog cat")};
        bw_status st = bw_encoder_open(ctx, m->folder, &e);
        if (st == BW_OK)
            st = bw_encoder_encode(ctx, e, texts, 2, out);
        assert_true(st == (failing_hit ? BW_ENOMEM : BW_OK));
    }
    bw_encoder_close(e);
    bw_ctx_free(ctx);
    assert_int_equal(failing_live, before);
}

static void encoder__survives_every_failed_allocation(void **state)
{
    (void)state;
    model m;
    model_make(&m, (shape){32, 2, 1, 64, 32, true, false, false, true});
    bw_encoder__set_threads(1);
    assert_true(failing_sweep(open_and_encode, &m, 2000) > 20);
    bw_encoder__set_threads(0);
    model_remove(&m);
}

int main(void)
{
    failing_set();
    const char *seed = getenv("BW_SEED");
    seed_state = 20260202 + (seed ? strtoull(seed, NULL, 10) * 0x9E3779B97F4A7C15u : 0);
    print_message("BW_SEED=%s\n", seed ? seed : "0");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoder__odd_shapes_agree_with_a_plain_forward_pass),
        cmocka_unit_test(encoder__damaged_folders_are_refused),
        cmocka_unit_test(encoder__survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
