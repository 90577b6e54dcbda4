/* Stored rows: what goes in comes out, and no damaged byte gets through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/store/rec.h"
#include "rnd.h"
#include <sodium.h>

static const bw_vector_spec specs[3] = {{.name = {"a", 1}, .dim = 3},
                                        {.name = {"s", 1}, .sparse = true},
                                        {.name = {"b", 1}, .dim = 5}};

static bw_rec *make(bw_ctx *ctx, bool rich)
{
    static const uint32_t indices[2] = {4, 4000000000u};
    static const float values[2] = {-1.5f, 0.25f};
    static const bw_rec_sparse sparse = {1, 2, indices, values};
    bw_rec_in in = {.id = {1, 2, 1, 0}};
    if (rich)
        in = (bw_rec_in){.id = {0, UINT64_MAX, 0, 0},
                         .payload = BW_STR("{\"a\": 1}"),
                         .text = BW_STR(""),
                         .facts = {-5, BW_STR("subject"), BW_STR("source"), BW_STR("")},
                         .ntokens = 77,
                         .sparse = &sparse,
                         .nsparse = 1};
    bw_rec *rec;
    assert_int_equal(bw_rec_new(ctx, &in, &rec), BW_OK);
    rec->version = 9;
    return rec;
}

static void encode(const bw_rec *rec, bool with_dense, bool skeleton, bw_buf *out)
{
    static const float a[3] = {1, 2, 3}, b[5] = {5, 6, 7, 8, 9};
    const bw_dense dense[3] = {{with_dense ? a : NULL, 1, false},
                               {NULL, 0, false},
                               {with_dense ? b : NULL, 1, false}};
    out->len = 0;
    bw_rec_encode(rec, specs, 3, dense, skeleton, out);
    assert_false(out->failed);
}

static void test_rec__comes_back_as_it_was(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf buf = {0};
    bw_rec *rec = make(ctx, true), *got;
    bw_dense dense[3];
    encode(rec, true, false, &buf);
    assert_int_equal(bw_rec_decode(ctx, bw_buf_view(&buf), specs, 3, 42, &got, dense),
                     BW_OK);
    assert_int_equal(got->key, 42);
    assert_int_equal(got->version, 9);
    assert_int_equal(got->id.lo, UINT64_MAX);
    assert_true(bw_str_eq(got->payload, rec->payload));
    assert_true(got->text.ptr && got->text.len == 0); /* empty is not none */
    assert_int_equal(got->facts.expires_at_ns, -5);
    assert_true(bw_str_is(got->facts.subject, "subject"));
    assert_true(got->facts.model.ptr && got->facts.model.len == 0);
    assert_int_equal(got->ntokens, 77);
    const bw_rec_sparse *sp = bw_rec_sparse_get(got, 1);
    assert_non_null(sp);
    assert_int_equal(sp->indices[1], 4000000000u);
    assert_true(sp->values[0] == -1.5f);
    assert_null(dense[1].data);
    float b[5];
    memcpy(b, dense[2].data, sizeof b);
    assert_true(b[4] == 9);
    bw_rec_release(got);

    encode(rec, true, true, &buf); /* a skeleton keeps id and dense vectors only */
    assert_int_equal(bw_rec_decode(ctx, bw_buf_view(&buf), specs, 3, 42, &got, dense),
                     BW_OK);
    assert_true(got->skeleton);
    assert_null(got->payload.ptr);
    assert_null(got->facts.subject.ptr);
    assert_int_equal(got->nsparse, 0);
    assert_non_null(dense[0].data);
    assert_null(memmem(buf.ptr, buf.len, "subject", 7));
    bw_rec_release(got);
    bw_rec_release(rec);
    bw_buf_clear(&buf);
    bw_ctx_free(ctx);
}

static void test_rec__any_changed_or_missing_byte_is_damage(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf buf = {0};
    for (int rich = 0; rich < 2; rich++) {
        bw_rec *rec = make(ctx, rich), *got;
        bw_dense dense[3];
        encode(rec, rich, false, &buf);
        for (size_t i = 0; i < buf.len; i++) {
            buf.ptr[i] ^= 0x10;
            assert_int_equal(
                bw_rec_decode(ctx, bw_buf_view(&buf), specs, 3, 1, &got, dense),
                BW_ECORRUPT);
            buf.ptr[i] ^= 0x10;
        }
        for (size_t n = 0; n < buf.len; n++)
            assert_int_equal(
                bw_rec_decode(ctx, (bw_str){buf.ptr, n}, specs, 3, 1, &got, dense),
                BW_ECORRUPT);
        bw_rec_release(rec);
    }
    bw_buf_clear(&buf);
    bw_ctx_free(ctx);
}

/* Bytes that pass the hash but do not fit: the lengths are checked on their own. */
static void test_rec__a_right_hash_over_wrong_lengths_is_damage(void **state)
{
    (void)state;
    rnd r = rnd_start("rec", 7);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf buf = {0};
    bw_rec *rec = make(ctx, true);
    unsigned accepted = 0;
    for (int i = 0; i < 20000; i++) {
        encode(rec, true, false, &buf);
        size_t body = buf.len - 8;
        buf.ptr[4 + rnd_below(&r, 68 + 36 - 4)] = (char)rnd_u64(&r);
        crypto_shorthash((unsigned char *)buf.ptr + body, (unsigned char *)buf.ptr,
                         body, (const unsigned char *)"bailiwick row 1");
        bw_rec *got = NULL;
        bw_dense dense[3];
        if (bw_rec_decode(ctx, bw_buf_view(&buf), specs, 3, 1, &got, dense) == BW_OK) {
            accepted++; /* an id, a version: fields of any value */
            bw_rec_release(got);
        }
        bw_ctx_reset(ctx);
    }
    assert_true(accepted > 0 && accepted < 20000);
    bw_rec_release(rec);
    bw_buf_clear(&buf);
    bw_ctx_free(ctx);
}

/* A vector in each stored precision takes its own bytes, and no other precision's. */
static void test_rec__keeps_vectors_in_their_precision(void **state)
{
    (void)state;
    static const unsigned char row[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252};
    static const size_t bytes[BW_NDTYPES] = {12, 6, 6, 3};
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf buf = {0};
    bw_rec *rec = make(ctx, false);
    size_t f32 = 0;
    for (int t = 0; t < BW_NDTYPES; t++) {
        const bw_vector_spec spec = {
            .name = {"v", 1}, .dim = 3, .dtype = (bw_dtype)t};
        const bw_dense in = {row, 0.25f, false};
        buf.len = 0;
        bw_rec_encode(rec, &spec, 1, &in, false, &buf);
        assert_false(buf.failed);
        f32 = t == BW_DTYPE_F32 ? buf.len : f32;
        assert_int_equal(f32 - 12 + bytes[t] + (t == BW_DTYPE_I8 ? 4 : 0), buf.len);
        for (int other = 0; other < BW_NDTYPES; other++) {
            const bw_vector_spec as = {
                .name = {"v", 1}, .dim = 3, .dtype = (bw_dtype)other};
            bw_rec *got;
            bw_dense dense;
            bw_status st =
                bw_rec_decode(ctx, bw_buf_view(&buf), &as, 1, 1, &got, &dense);
            assert_int_equal(st, other == t ? BW_OK : BW_ECORRUPT);
            if (st != BW_OK)
                continue;
            assert_memory_equal(dense.data, row, bytes[t]);
            assert_true(t != BW_DTYPE_I8 || dense.scale == 0.25f);
            bw_rec_release(got);
        }
    }
    bw_rec_release(rec);
    bw_buf_clear(&buf);
    bw_ctx_free(ctx);
}

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rec__comes_back_as_it_was),
        cmocka_unit_test(test_rec__keeps_vectors_in_their_precision),
        cmocka_unit_test(test_rec__any_changed_or_missing_byte_is_damage),
        cmocka_unit_test(test_rec__a_right_hash_over_wrong_lengths_is_damage),
    };
    return cmocka_run_group_tests_name("rec", tests, NULL, NULL);
}
