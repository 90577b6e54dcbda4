/* Opens a Hugging Face folder of a BERT-family sentence encoder (encoder.h).
 *
 *   config.json                hidden_size, num_hidden_layers, …; hidden_act must be
 * gelu tokenizer_config.json      do_lower_case, strip_accents, tokenize_chinese_chars
 *   vocab.txt | tokenizer.json pieces
 *   sentence_bert_config.json  max_seq_length (else the model's positions)
 *   1_Pooling/config.json      mean (also without the file) or CLS; others are refused
 *   model.safetensors          weights, with or without the prefix "bert."
 *
 * The folder is the operator's, its files are hostile all the same: sizes are capped
 * and checked before they are used. Left out: other position schemes, other
 * activations, pytorch_model.bin (a pickle), prompts. */
#include "encoder_model.h"
#include "safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    HIDDEN_MAX = 8192,
    HEADS_MAX = 256,
    LAYERS_MAX = 128,
    INTERMEDIATE_MAX = 65536,
    POSITIONS_MAX = 8192,
    TYPES_MAX = 64,
    VOCAB_MAX = 4 << 20
};
static const size_t WEIGHTS_BYTES_MAX = (size_t)8 << 30;

/* The loader's state: ctx of its own, so that scratch leaves the caller's arena alone.
 */
typedef struct loader {
    bw_ctx *ctx;
    const char *folder;
    bw_encoder *e;
    bw_safetensors st;
    const char *prefix;
} loader;

/* *out is a bw_alloc block of the file's bytes; BW_ENOTFOUND when there is none. */
static bw_status read_file(bw_ctx *ctx, const char *folder, const char *name,
                           size_t bytes_max, char **out, size_t *n)
{
    char *buf = NULL;
    bw_status status = BW_OK;
    const char *path = bw_arena_printf(ctx, "%s/%s", folder, name);
    if (!path)
        return bw_fail_nomem(ctx);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? bw_fail(ctx, BW_ENOTFOUND, "model: %s is missing", name)
                   : bw_fail_errno(ctx, name, errno);
    struct stat s;
    size_t len = 0, size;
    if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode) || s.st_size < 0 ||
        (size_t)s.st_size > bytes_max) {
        status = bw_fail(ctx, BW_ECORRUPT, "model: %s is no file or too large", name);
        goto out;
    }
    size = (size_t)s.st_size;
    buf = bw_alloc(size + 1);
    if (!buf) {
        status = bw_fail_nomem(ctx);
        goto out;
    }
    while (len < size) {
        ssize_t got = read(fd, buf + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            status = got ? bw_fail_errno(ctx, name, errno)
                         : bw_fail(ctx, BW_EIO, "model: %s shrank", name);
            goto out;
        }
        len += (size_t)got;
    }
    *out = buf;
    *n = size;
    buf = NULL;
out:
    close(fd);
    bw_free(buf);
    return status;
}

/* Parses a small JSON file; *out = NULL when it is not there. The text joins the arena.
 */
static bw_status read_config(loader *l, const char *name, const bw_json **out)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    bw_status st = read_file(l->ctx, l->folder, name, CONFIG_BYTES_MAX, &text, &n);
    if (st)
        return st == BW_ENOTFOUND ? BW_OK : st;
    bw_str copy;
    bw_json *root;
    st = bw_arena_str(l->ctx, (bw_str){text, n}, &copy);
    bw_free(text);
    if (!st)
        st = bw_json_parse(l->ctx, copy, BW_JSON_REQUEST, &root);
    if (!st && root->kind != BW_JSON_OBJECT)
        st = bw_fail(l->ctx, BW_ECORRUPT, "model: %s holds no object", name);
    if (!st)
        *out = root;
    return st;
}

/* A size within 1 … max; absent takes `fallback` when that is not 0. */
static bw_status size_member(bw_ctx *ctx, const bw_json *o, const char *key,
                             uint32_t max, uint32_t fallback, uint32_t *out)
{
    const bw_json *v = bw_json_get_value(o, key);
    uint64_t n = fallback;
    if ((v || fallback == 0) && (!bw_json_u64(v, &n) || n == 0 || n > max))
        return bw_fail(ctx, BW_ECORRUPT, "model: %s is missing or not within 1 and %u",
                       key, max);
    *out = (uint32_t)n;
    return BW_OK;
}

static bool flag(const bw_json *o, const char *key, bool fallback)
{
    const bw_json *v = bw_json_get_value(o, key);
    return bw_json_is_bool(v) ? v->kind == BW_JSON_TRUE : fallback;
}

static bw_status read_shape(loader *l, const bw_json *config)
{
    bw_encoder_shape *s = &l->e->shape;
    const bw_json *act = bw_json_get(config, "hidden_act"),
                  *type = bw_json_get(config, "model_type");
    const bw_json *scheme = bw_json_get_value(config, "position_embedding_type");
    const bw_json *eps = bw_json_get_value(config, "layer_norm_eps");
    if (!config)
        return bw_fail(l->ctx, BW_EINVALID,
                       "model: the folder has no config.json (model.folder)");
    if (!type || !bw_str_is(type->str, "bert") || !act ||
        !bw_str_is(act->str, "gelu") || (scheme && !bw_str_is(scheme->str, "absolute")))
        return bw_fail(
            l->ctx, BW_EINVALID,
            "model: only BERT with absolute positions and gelu is supported");
    s->norm_eps = eps && eps->kind == BW_JSON_NUMBER ? (float)eps->real : 1e-12f;
    bw_status st =
        size_member(l->ctx, config, "hidden_size", HIDDEN_MAX, 0, &s->hidden);
    if (!st)
        st =
            size_member(l->ctx, config, "num_attention_heads", HEADS_MAX, 0, &s->heads);
    if (!st)
        st =
            size_member(l->ctx, config, "num_hidden_layers", LAYERS_MAX, 0, &s->layers);
    if (!st)
        st = size_member(l->ctx, config, "intermediate_size", INTERMEDIATE_MAX, 0,
                         &s->intermediate);
    if (!st)
        st = size_member(l->ctx, config, "max_position_embeddings", POSITIONS_MAX, 0,
                         &s->positions);
    if (!st)
        st = size_member(l->ctx, config, "type_vocab_size", TYPES_MAX, 2, &s->types);
    if (!st)
        st = size_member(l->ctx, config, "vocab_size", VOCAB_MAX, 0, &s->vocab);
    if (!st && (s->hidden % s->heads != 0 || s->positions < 2 ||
                !(s->norm_eps >= 0 && s->norm_eps < 1)))
        st = bw_fail(l->ctx, BW_ECORRUPT, "model: config.json contradicts itself");
    return st;
}

/* Length, pooling, tokenizer options. */
static bw_status read_options(loader *l, bw_wordpiece_options *o)
{
    const bw_json *sentence, *pooling, *tokenizer;
    bw_encoder_shape *s = &l->e->shape;
    bw_status st = read_config(l, "sentence_bert_config.json", &sentence);
    if (!st)
        st = read_config(l, "1_Pooling/config.json", &pooling);
    if (!st)
        st = read_config(l, "tokenizer_config.json", &tokenizer);
    if (!st)
        st = size_member(l->ctx, sentence, "max_seq_length", POSITIONS_MAX,
                         s->positions, &s->tokens_max);
    if (st)
        return st;
    if (s->tokens_max > s->positions)
        s->tokens_max = s->positions;
    if (s->tokens_max < 2)
        return bw_fail(l->ctx, BW_ECORRUPT,
                       "model: max_seq_length leaves no room for a text");
    s->pool_cls = flag(pooling, "pooling_mode_cls_token", false);
    if (flag(pooling, "pooling_mode_mean_tokens", !s->pool_cls) == s->pool_cls ||
        flag(pooling, "pooling_mode_max_tokens", false) ||
        flag(pooling, "pooling_mode_lasttoken", false) ||
        flag(pooling, "pooling_mode_mean_sqrt_len_tokens", false) ||
        flag(pooling, "pooling_mode_weightedmean_tokens", false))
        return bw_fail(l->ctx, BW_EINVALID, "model: pooling must be mean or CLS");
    o->lowercase = flag(tokenizer, "do_lower_case", true) ||
                   flag(sentence, "do_lower_case", false);
    o->strip_accents = flag(tokenizer, "strip_accents", o->lowercase);
    o->split_cjk = flag(tokenizer, "tokenize_chinese_chars", true);
    return BW_OK;
}

static bw_status read_vocabulary(loader *l, bw_wordpiece_options o,
                                 crypto_generichash_state *digest)
{
    char *text = NULL;
    size_t n = 0;
    bool json = false;
    bw_status st =
        read_file(l->ctx, l->folder, "vocab.txt", CONFIG_BYTES_MAX, &text, &n);
    if (st == BW_ENOTFOUND) {
        json = true;
        st = read_file(l->ctx, l->folder, "tokenizer.json",
                       4 * (size_t)CONFIG_BYTES_MAX, &text, &n);
    }
    if (st)
        return st;
    crypto_generichash_update(digest, (const unsigned char *)text, n);
    st = bw_wordpiece_new(l->ctx, (bw_str){text, n}, json, o, &l->e->wordpiece);
    bw_free(text);
    if (!st && bw_wordpiece_ids(l->e->wordpiece) > l->e->shape.vocab)
        st =
            bw_fail(l->ctx, BW_ECORRUPT,
                    "model: the vocabulary has more pieces than the weights have rows");
    return st;
}

/* A block of `count` floats that close frees. */
static bw_status new_block(loader *l, size_t count, float **out)
{
    size_t bytes;
    bw_encoder *e = l->e;
    bw_require(e->nblocks < e->blocks_max);
    if (__builtin_mul_overflow(count, sizeof(float), &bytes))
        return bw_fail_nomem(l->ctx);
    float *p = bw_alloc_vectors(bytes);
    if (!p)
        return bw_fail_nomem(l->ctx);
    e->blocks[e->nblocks++] = p;
    *out = p;
    return BW_OK;
}

static bw_status read_into(loader *l, const char *name, size_t rows, size_t cols,
                           float *out)
{
    const char *full = bw_arena_printf(l->ctx, "%s%s", l->prefix, name);
    if (!full)
        return bw_fail_nomem(l->ctx);
    return bw_safetensors_read(l->ctx, &l->st, full, rows, cols, out);
}

static bw_status read_block(loader *l, const char *name, size_t rows, size_t cols,
                            float **out)
{
    bw_status st =
        new_block(l, rows * cols, out); /* caps above keep the product small */
    return st ? st : read_into(l, name, rows, cols, *out);
}

static bw_status read_norm(loader *l, const char *name, bw_norm *out)
{
    const char *gain = bw_arena_printf(l->ctx, "%s.weight", name);
    const char *bias = bw_arena_printf(l->ctx, "%s.bias", name);
    if (!gain || !bias)
        return bw_fail_nomem(l->ctx);
    bw_status st = read_block(l, gain, 1, l->e->shape.hidden, &out->gain);
    return st ? st : read_block(l, bias, 1, l->e->shape.hidden, &out->bias);
}

/* Several linear maps of one input, their outputs side by side. */
static bw_status read_linear(loader *l, const char *const *names, size_t nnames,
                             size_t in, size_t out_each, bw_linear *out)
{
    size_t n = nnames * out_each;
    out->in = in;
    out->out = n;
    bw_status st = new_block(l, bw_gemm_panel_floats(n, in), &out->panels);
    if (!st)
        st = new_block(l, n, &out->bias);
    float *raw = st ? NULL : bw_alloc_vectors(n * in * sizeof *raw);
    if (!st && !raw)
        st = bw_fail_nomem(l->ctx);
    for (size_t i = 0; i < nnames && !st; i++) {
        const char *weight = bw_arena_printf(l->ctx, "%s.weight", names[i]);
        const char *bias = bw_arena_printf(l->ctx, "%s.bias", names[i]);
        st = weight && bias
                 ? read_into(l, weight, out_each, in, raw + i * out_each * in)
                 : bw_fail_nomem(l->ctx);
        if (!st)
            st = read_into(l, bias, 1, out_each, out->bias + i * out_each);
    }
    if (!st)
        bw_gemm_pack(raw, in, n, in, out->panels);
    bw_free_vectors(raw);
    return st;
}

static bw_status read_layer(loader *l, uint32_t i, bw_encoder_layer *out)
{
    static const char *const parts[] = {
        "attention.self.query",       "attention.self.key", "attention.self.value",
        "attention.output.dense",     "intermediate.dense", "output.dense",
        "attention.output.LayerNorm", "output.LayerNorm"};
    const char *names[8];
    for (size_t k = 0; k < 8; k++) {
        names[k] = bw_arena_printf(l->ctx, "encoder.layer.%u.%s", i, parts[k]);
        if (!names[k])
            return bw_fail_nomem(l->ctx);
    }
    size_t h = l->e->shape.hidden, wide = l->e->shape.intermediate;
    bw_status st = read_linear(l, names, 3, h, h, &out->qkv);
    if (!st)
        st = read_linear(l, names + 3, 1, h, h, &out->attention_out);
    if (!st)
        st = read_linear(l, names + 4, 1, h, wide, &out->up);
    if (!st)
        st = read_linear(l, names + 5, 1, wide, h, &out->down);
    if (!st)
        st = read_norm(l, names[6], &out->attention_norm);
    return st ? st : read_norm(l, names[7], &out->output_norm);
}

static bw_status read_tensors(loader *l)
{
    bw_encoder *e = l->e;
    const bw_encoder_shape *s = &e->shape;
    l->prefix = bw_safetensors_has(&l->st, "bert.embeddings.word_embeddings.weight")
                    ? "bert."
                    : "";
    e->blocks_max = 5 + (size_t)s->layers * 12;
    e->blocks = bw_calloc(e->blocks_max, sizeof *e->blocks);
    e->layers = bw_calloc(s->layers, sizeof *e->layers);
    if (!e->blocks || !e->layers)
        return bw_fail_nomem(l->ctx);
    bw_status st = read_block(l, "embeddings.word_embeddings.weight", s->vocab,
                              s->hidden, &e->words);
    if (!st)
        st = read_block(l, "embeddings.position_embeddings.weight", s->positions,
                        s->hidden, &e->positions);
    if (!st)
        st = read_block(l, "embeddings.token_type_embeddings.weight", s->types,
                        s->hidden, &e->type0);
    if (!st)
        st = read_norm(l, "embeddings.LayerNorm", &e->embedding_norm);
    for (uint32_t i = 0; i < s->layers && !st; i++)
        st = read_layer(l, i, &e->layers[i]);
    return st;
}

static bw_status read_weights(loader *l, crypto_generichash_state *digest)
{
    char *bytes = NULL;
    size_t n = 0;
    bw_status st = read_file(l->ctx, l->folder, "model.safetensors", WEIGHTS_BYTES_MAX,
                             &bytes, &n);
    if (st)
        return st;
    crypto_generichash_update(digest, (const unsigned char *)bytes, n);
    st = bw_safetensors_parse(l->ctx, (bw_str){bytes, n}, &l->st);
    if (!st)
        st = read_tensors(l);
    bw_free(bytes);
    return st;
}

/* "name@digest": the last part of _name_or_path, 16 hex digits over vocabulary and
 * weights. */
static void set_model_name(bw_encoder *e, const bw_json *config,
                           crypto_generichash_state *digest)
{
    const bw_json *path = bw_json_get(config, "_name_or_path");
    bw_str name = path && path->kind == BW_JSON_STRING ? path->str : BW_STR("bert");
    const char *slash = memrchr(name.ptr, '/', name.len);
    if (slash)
        name = (bw_str){slash + 1, (size_t)(name.ptr + name.len - slash) - 1};
    char clean[65];
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < sizeof clean - 1; i++)
        if (name.ptr[i] > ' ' && name.ptr[i] < 0x7F && name.ptr[i] != '"' &&
            name.ptr[i] != '\\') /* it is put into JSON as it stands */
            clean[n++] = name.ptr[i];
    clean[n] = 0;
    unsigned char hash[32];
    char hex[17];
    crypto_generichash_final(digest, hash, sizeof hash);
    sodium_bin2hex(hex, sizeof hex, hash, 8);
    snprintf(e->model, sizeof e->model, "%s@%s", n ? clean : "bert", hex);
}

static bw_status load(loader *l)
{
    const bw_json *config;
    bw_wordpiece_options o;
    crypto_generichash_state digest;
    bw_status st = read_config(l, "config.json", &config);
    if (!st)
        st = read_shape(l, config);
    if (!st)
        st = read_options(l, &o);
    if (st)
        return st;
    crypto_generichash_init(&digest, NULL, 0, 32);
    st = read_vocabulary(l, o, &digest);
    if (!st)
        st = read_weights(l, &digest);
    if (!st)
        set_model_name(l->e, config, &digest);
    return st;
}

bw_status bw_encoder_open(bw_ctx *ctx, const char *folder, bw_encoder **out)
{
    loader l = {.ctx = bw_ctx_new((size_t)1 << 30),
                .folder = folder,
                .e = bw_calloc(1, sizeof *l.e)};
    bw_status st = BW_OK;
    if (!l.ctx || !l.e || sodium_init() < 0)
        st = bw_fail_nomem(ctx);
    if (!st) {
        l.e->gemm = bw_gemm_get();
        st = load(&l);
        if (st)
            st = bw_ctx_take_error(ctx, l.ctx, st);
    }
    if (st)
        bw_encoder_close(l.e);
    else
        *out = l.e;
    bw_ctx_free(l.ctx);
    return st;
}

void bw_encoder_close(bw_encoder *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->nblocks; i++)
        bw_free_vectors(e->blocks[i]);
    bw_wordpiece_free(e->wordpiece);
    bw_free(e->layers);
    bw_free(e->blocks);
    bw_free(e);
}
