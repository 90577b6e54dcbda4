/* The encoder against the recorded reference (retrieval/encoder-reference.jsonl): the
 * same token ids for all texts, cosine >= 0.9999; and the promise of encoder.h: the
 * same bits alone, in any batch, with any number of threads, on every ISA. A debug
 * build takes every sixteenth text for the vectors (all of them for the ids). BW_MODEL
 * names the model's folder; else the one that server/deps.sh installs. A checkout
 * without the reference data skips the program, and ctest says so. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ingest/encoder_model.h"

enum { TEXTS_MAX = 1000, SKIPPED = 77 };
static const char reference_file[] = BW_SHARED "/retrieval/encoder-reference.jsonl";

typedef struct reference {
    bw_ctx *ctx;
    bw_encoder *e;
    bw_str text[TEXTS_MAX];
    const bw_json *ids[TEXTS_MAX], *vector[TEXTS_MAX];
    size_t n;
} reference;

static const char *model_folder(void)
{
    static char path[4096];
    const char *model = getenv("BW_MODEL"), *deps = getenv("BW_DEPS"),
               *home = getenv("HOME");
    if (model)
        return model;
    if (deps)
        snprintf(path, sizeof path, "%s/model", deps);
    else
        snprintf(path, sizeof path, "%s/.cache/bailiwick/model", home ? home : "");
    return path;
}

static bw_str read_all(bw_ctx *ctx, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is missing", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *p = bw_arena_alloc(ctx, n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, n, f), n);
    fclose(f);
    return (bw_str){p, n};
}

static int setup(void **state)
{
    static reference r;
    r.ctx = bw_ctx_new((size_t)1 << 30);
    assert_non_null(r.ctx);
    if (bw_encoder_open(r.ctx, model_folder(), &r.e) != BW_OK)
        fail_msg("%s: %s", model_folder(), bw_ctx_message(r.ctx));
    bw_str all = read_all(r.ctx, reference_file);
    for (size_t i = 0; i < all.len && r.n < TEXTS_MAX;) {
        const char *eol = memchr(all.ptr + i, '\n', all.len - i);
        size_t n = eol ? (size_t)(eol - all.ptr) - i : all.len - i;
        bw_json *line;
        bw_json_limits limits = BW_JSON_REQUEST;
        limits.nul_ok = true;
        if (bw_json_parse(r.ctx, (bw_str){all.ptr + i, n}, limits, &line) != BW_OK)
            fail_msg("reference line %zu: %s", r.n, bw_ctx_message(r.ctx));
        r.text[r.n] = bw_json_get(line, "text")->str;
        r.ids[r.n] = bw_json_get(line, "input_ids");
        r.vector[r.n++] = bw_json_get(line, "embedding");
        i += n + 1;
    }
    assert_true(r.n >= 200);
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    reference *r = *state;
    if (!r)
        return 0;
    bw_encoder_close(r->e);
    bw_ctx_free(r->ctx);
    return 0;
}

static void encoder__ids_equal_the_reference(void **state)
{
    reference *r = *state;
    size_t bad = 0;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t want[8192];
        const uint32_t *ids;
        size_t n;
        assert_true(r->ids[i]->count < 8192);
        assert_int_equal(bw_json_u32(r->ctx, r->ids[i], want), BW_OK);
        assert_int_equal(bw_encoder_tokenize(r->ctx, r->e, r->text[i], &ids, &n),
                         BW_OK);
        if (n != r->ids[i]->count || memcmp(ids, want, n * sizeof *ids) != 0) {
            print_error("text %zu: %zu ids, expected %u\n", i, n, r->ids[i]->count);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

#ifdef BW_DEBUG
enum { STRIDE = 16, COMPANY = 8 };
#else
enum { STRIDE = 1, COMPANY = 24 };
#endif

static void encoder__vectors_are_near_the_reference(void **state)
{
    reference *r = *state;
    size_t dim = bw_encoder_dim(r->e), n = 0;
    bw_str texts[TEXTS_MAX];
    for (size_t i = 0; i < r->n; i += STRIDE)
        texts[n++] = r->text[i];
    float *got = bw_arena_calloc(r->ctx, n * dim, sizeof *got),
          *want = bw_arena_calloc(r->ctx, dim, sizeof *want);
    assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts, n, got), BW_OK);
    double worst = 1;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(r->vector[i * STRIDE]->count, dim);
        assert_int_equal(bw_json_f32(r->ctx, r->vector[i * STRIDE], want), BW_OK);
        double dot = 0, a = 0, b = 0;
        for (size_t k = 0; k < dim; k++) {
            dot += (double)got[i * dim + k] * (double)want[k];
            a += (double)got[i * dim + k] * (double)got[i * dim + k];
            b += (double)want[k] * (double)want[k];
        }
        double cosine = dot / sqrt(a * b);
        worst = cosine < worst ? cosine : worst;
        assert_true(fabs(a - 1) < 1e-5);
    }
    print_message("%zu texts, lowest cosine %.9f\n", n, worst);
    assert_true(worst >= 0.9999);
}

/* Every text alone is the oracle for batches, threads and levels. */
static void encoder__bits_do_not_depend_on_company(void **state)
{
    reference *r = *state;
    enum { N = COMPANY };
    size_t dim = bw_encoder_dim(r->e), bytes = N * dim * sizeof(float);
    bw_str texts[N];
    for (size_t i = 0; i < N; i++)
        texts[i] = r->text[i * r->n / N];
    float *alone = bw_arena_calloc(r->ctx, N * dim, sizeof *alone),
          *got = bw_arena_calloc(r->ctx, N * dim, sizeof *got);
    bw_encoder__set_threads(1);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts + i, 1, alone + i * dim),
                         BW_OK);
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        bw_encoder__set_threads(threads);
        memset(got, 0, bytes);
        assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts, N, got), BW_OK);
        assert_memory_equal(got, alone, bytes);
    }
    bw_encoder__set_threads(0);
    for (size_t first = 1; first < N;
         first += N / 3) { /* other neighbours, other groups */
        assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts + first, N - first, got),
                         BW_OK);
        assert_memory_equal(got, alone + first * dim,
                            bytes - first * dim * sizeof(float));
    }
}

static void encoder__bits_do_not_depend_on_the_isa(void **state)
{
    reference *r = *state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    size_t dim = bw_encoder_dim(r->e);
    bw_str texts[] = {BW_STR("Where may the patient records be stored?"), BW_STR(""),
                      BW_STR("\xC3\x9C"
                             "ber 日本 x")};
    float want[3 * 384], got[3 * 384];
    assert_true(dim <= 384);
    bw_encoder__set_isa(r->e, NULL);
    assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts, 3, want), BW_OK);
    for (size_t i = 0; i < 3; i++) {
        if (!bw_encoder__set_isa(r->e, isas[i])) {
            print_message("%s: not run, the processor lacks it\n", isas[i]);
            continue;
        }
        memset(got, 0, sizeof got);
        assert_int_equal(bw_encoder_encode(r->ctx, r->e, texts, 3, got), BW_OK);
        assert_memory_equal(got, want, 3 * dim * sizeof *got);
    }
    bw_encoder__set_isa(r->e, NULL);
}

static void encoder__model_has_a_name_and_a_digest(void **state)
{
    reference *r = *state;
    bw_str model = bw_encoder_model(r->e);
    assert_true(model.len > 17 && model.ptr[model.len - 17] == '@');
    assert_true(bw_encoder_tokens_max(r->e) >= 2);
}

static void encoder__folder_without_a_model_is_refused(void **state)
{
    reference *r = *state;
    bw_encoder *e = NULL;
    assert_int_not_equal(bw_encoder_open(r->ctx, "/nonexistent", &e), BW_OK);
    assert_null(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoder__ids_equal_the_reference),
        cmocka_unit_test(encoder__vectors_are_near_the_reference),
        cmocka_unit_test(encoder__bits_do_not_depend_on_company),
        cmocka_unit_test(encoder__bits_do_not_depend_on_the_isa),
        cmocka_unit_test(encoder__model_has_a_name_and_a_digest),
        cmocka_unit_test(encoder__folder_without_a_model_is_refused),
    };
    if (access(reference_file, F_OK) != 0) {
        printf("skipped: %s is missing\n", reference_file);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
