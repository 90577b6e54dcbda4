/* bw_embed MODEL [ISA [THREADS]] < lines.jsonl > vectors.f32
 * Each line {"text"} or {"title", "text"} (title, newline, text: BEIR's form) becomes
 * one f32 row. Rate and tokens go to stderr. For tests and measurements. */
#include <stdio.h>
#include <stdlib.h>

#include "ingest/encoder_model.h"

enum { BATCH = 64, LINE_MAX_BYTES = 1 << 20 };

typedef struct embed_state {
    bw_ctx *ctx;
    bw_encoder *e;
    bw_str texts[BATCH];
    size_t n, rows, tokens;
    float *out;
} embed_state;

static int fail_with(const bw_ctx *ctx, const char *what)
{
    fprintf(stderr, "bw_embed: %s: %s\n", what,
            ctx ? bw_ctx_message(ctx) : "out of memory");
    return 1;
}

static int flush_batch(embed_state *s)
{
    size_t dim = bw_encoder_dim(s->e);
    for (size_t i = 0; i < s->n; i++) {
        const uint32_t *ids;
        size_t n;
        if (bw_encoder_tokenize(s->ctx, s->e, s->texts[i], &ids, &n) != BW_OK)
            return fail_with(s->ctx, "tokenize");
        s->tokens += n;
    }
    if (bw_encoder_encode(s->ctx, s->e, s->texts, s->n, s->out) != BW_OK)
        return fail_with(s->ctx, "encode");
    if (fwrite(s->out, dim * sizeof(float), s->n, stdout) != s->n)
        return fail_with(s->ctx, "write");
    s->rows += s->n;
    s->n = 0;
    bw_ctx_reset(s->ctx);
    return 0;
}

static int add_line(embed_state *s, const char *line, size_t len)
{
    bw_str copy;
    bw_json *v;
    bw_json_limits limits = BW_JSON_REQUEST;
    limits.nul_ok = true;
    if (bw_arena_str(s->ctx, (bw_str){line, len}, &copy) != BW_OK ||
        bw_json_parse(s->ctx, copy, limits, &v) != BW_OK)
        return fail_with(s->ctx, "line");
    const bw_json *title = bw_json_get(v, "title"), *text = bw_json_get(v, "text");
    if (!text || text->kind != BW_JSON_STRING)
        return fail_with(s->ctx, "line without text");
    s->texts[s->n] = text->str;
    if (title && title->kind == BW_JSON_STRING) {
        size_t n = title->str.len + 1 + text->str.len;
        char *joined = bw_arena_alloc(s->ctx, n);
        if (!joined)
            return fail_with(s->ctx, "line");
        memcpy(joined, title->str.ptr, title->str.len);
        joined[title->str.len] = '\n';
        memcpy(joined + title->str.len + 1, text->str.ptr, text->str.len);
        s->texts[s->n] = (bw_str){joined, n};
    }
    return ++s->n == BATCH ? flush_batch(s) : 0;
}

int main(int argc, char **argv)
{
    embed_state s = {.ctx = bw_ctx_new(0)};
    static char line[LINE_MAX_BYTES];
    if (argc < 2 || !s.ctx)
        return fail_with(s.ctx, "usage: bw_embed MODEL [ISA [THREADS]]");
    if (bw_encoder_open(s.ctx, argv[1], &s.e) != BW_OK)
        return fail_with(s.ctx, argv[1]);
    if (argc > 2 && !bw_encoder__set_isa(s.e, argv[2]))
        return fail_with(s.ctx, "the processor lacks that level");
    bw_encoder__set_threads(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0);
    s.out = bw_calloc(BATCH * (size_t)bw_encoder_dim(s.e), sizeof(float));
    int rc = s.out ? 0 : fail_with(s.ctx, "out of memory");
    uint64_t begin = bw_clock_mono_ns();
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        size_t n = strlen(line);
        if (n > 1)
            rc = add_line(&s, line, n);
    }
    if (rc == 0 && s.n)
        rc = flush_batch(&s);
    double seconds = (double)(bw_clock_mono_ns() - begin) / 1e9;
    if (rc == 0)
        fprintf(stderr, "%zu texts, %zu tokens, %.2f s, %.1f texts/s\n", s.rows,
                s.tokens, seconds, (double)s.rows / seconds);
    bw_encoder_close(s.e);
    bw_free(s.out);
    bw_ctx_free(s.ctx);
    return rc;
}
