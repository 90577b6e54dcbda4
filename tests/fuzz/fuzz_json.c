/* The JSON reader against cJSON. Where ours accepts, cJSON must accept too and give the
 * same tree as far as it can hold it (doubles for integers, no numbers beyond 63
 * characters); numbers and f32 arrays must equal strtod; what we write must read back.
 * The other direction is free: we refuse more on purpose (json.h). */
#include <engine/base/json.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(c)                                                                         \
    do {                                                                                 \
        if (!(c)) {                                                                      \
            fprintf(stderr, "fuzz_json: %s (line %d)\n", #c, __LINE__);                  \
            abort();                                                                     \
        }                                                                                \
    } while (0)

/* cJSON's buffer for one number; longer ones it cuts or refuses. */
enum { CJSON_NUMBER_MAX = 60 };

static double text_real(bw_str raw)
{
    char copy[1200];
    CHECK(raw.len < sizeof copy);
    memcpy(copy, raw.ptr, raw.len);
    copy[raw.len] = 0;
    char *end;
    double d = strtod(copy, &end);
    CHECK(*end == 0);
    return d;
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_number(const bw_json *v)
{
    double want = text_real(v->raw);
    CHECK(isfinite(want));
    if (v->is_int) {
        char text[24];
        snprintf(text, sizeof text, "%s%llu", v->negative ? "-" : "", (unsigned long long)v->mag);
        CHECK(bw_str_eq(v->raw, bw_str_c(text)));
    }
    CHECK(same_bits(v->real, want));
}

static void check_numbers(bw_ctx *ctx, const bw_json *v)
{
    const bw_json *e;
    CHECK(bw_json_elements(ctx, v, &e) == BW_OK);
    float *f = bw_arena_calloc(ctx, v->count, sizeof *f);
    CHECK(f);
    bw_status st = bw_json_f32(ctx, v, f);
    uint32_t n = 0;
    bool finite = true;
    for (; e; e = e->next, n++) {
        check_number(e);
        finite = finite && isfinite((float)e->real);
        if (finite)
            CHECK(f[n] == (float)e->real && !signbit(f[n]) == !signbit(e->real));
    }
    CHECK(n == v->count && finite == (st == BW_OK));
}

/* One node against cJSON's; children come in the same order. Depth is capped by both. */
static void compare(bw_ctx *ctx, const bw_json *v, const cJSON *c)
{
    CHECK(c);
    switch (v->kind) {
    case BW_JSON_NULL: CHECK(cJSON_IsNull(c)); break;
    case BW_JSON_TRUE: CHECK(cJSON_IsTrue(c)); break;
    case BW_JSON_FALSE: CHECK(cJSON_IsFalse(c)); break;
    case BW_JSON_NUMBER:
        CHECK(cJSON_IsNumber(c) && c->valuedouble == v->real);
        check_number(v);
        break;
    case BW_JSON_STRING:
        CHECK(cJSON_IsString(c) && bw_str_eq(v->str, bw_str_c(c->valuestring)));
        CHECK(bw_utf8_valid(v->str.ptr, v->str.len));
        break;
    case BW_JSON_NUMBERS: {
        const bw_json *e;
        CHECK(cJSON_IsArray(c) && cJSON_GetArraySize(c) == (int)v->count);
        check_numbers(ctx, v);
        CHECK(bw_json_elements(ctx, v, &e) == BW_OK);
        for (const cJSON *k = c->child; k; k = k->next, e = e->next)
            CHECK(cJSON_IsNumber(k) && k->valuedouble == e->real);
        break;
    }
    case BW_JSON_ARRAY:
    case BW_JSON_OBJECT: {
        CHECK(v->kind == BW_JSON_ARRAY ? cJSON_IsArray(c) : cJSON_IsObject(c));
        CHECK(cJSON_GetArraySize(c) == (int)v->count);
        const cJSON *k = c->child;
        for (const bw_json *m = v->child; m; m = m->next, k = k->next) {
            CHECK(m->parent == v);
            if (v->kind == BW_JSON_OBJECT) {
                CHECK(bw_str_eq(m->key, bw_str_c(k->string)));
                CHECK(bw_json_get_str(v, m->key) == m);
            }
            compare(ctx, m, k);
        }
        break;
    }
    }
}

static bool cjson_can_hold(bw_str text)
{
    size_t run = 0;
    for (size_t i = 0; i < text.len; i++) {
        run = strchr("0123456789+-eE.", text.ptr[i]) && text.ptr[i] ? run + 1 : 0;
        if (run > CJSON_NUMBER_MAX)
            return false;
    }
    return true;
}

static void write_tree(bw_buf *b, bw_ctx *ctx, const bw_json *v)
{
    switch (v->kind) {
    case BW_JSON_STRING: bw_json_put_str(b, v->str); break;
    case BW_JSON_NUMBER:
        if (v->is_int && v->negative)
            bw_json_put_i64(b, (int64_t)(0 - v->mag));
        else if (v->is_int)
            bw_json_put_u64(b, v->mag);
        else
            bw_json_put_f64(b, v->real);
        break;
    case BW_JSON_ARRAY:
    case BW_JSON_OBJECT:
        bw_buf_putc(b, v->kind == BW_JSON_ARRAY ? '[' : '{');
        for (const bw_json *m = v->child; m; m = m->next) {
            bw_json_sep(b);
            if (v->kind == BW_JSON_OBJECT) {
                bw_json_put_str(b, m->key);
                bw_buf_putc(b, ':');
            }
            write_tree(b, ctx, m);
        }
        bw_buf_putc(b, v->kind == BW_JSON_ARRAY ? ']' : '}');
        break;
    default: bw_buf_str(b, v->raw);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_ctx *ctx = bw_ctx_new(64 * 1024 * 1024);
    bw_str text = {(const char *)data, size};
    bw_json *v;
    CHECK(ctx);
    bw_status st = bw_json_parse(ctx, text, BW_JSON_REQUEST, &v);
    CHECK(st == BW_OK || st == BW_EINVALID);
    CHECK(bw_utf8_valid(bw_ctx_message(ctx), strlen(bw_ctx_message(ctx))));
    if (st == BW_OK) {
        if (cjson_can_hold(text)) {
            const char *end;
            char *copy = bw_arena_alloc(ctx, size + 1);
            CHECK(copy);
            memcpy(copy, data, size);
            copy[size] = 0;
            cJSON *c = cJSON_ParseWithOpts(copy, &end, 1);
            compare(ctx, v, c);
            cJSON_Delete(c);
        }
        bw_buf b = {0};
        write_tree(&b, ctx, v);
        bw_json *again;
        CHECK(!b.failed && bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_REQUEST, &again) == BW_OK);
        bw_buf c = {0};
        write_tree(&c, ctx, again);
        CHECK(bw_str_eq(bw_buf_view(&b), bw_buf_view(&c)));
        bw_buf_clear(&b);
        bw_buf_clear(&c);
    }
    bw_ctx_free(ctx);
    return 0;
}
