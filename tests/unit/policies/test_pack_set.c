/* Packs: their heads, and what a composition takes and refuses. */
#include <policies/pack_set.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include "pack.h"

typedef struct fake { /* file name, text, …, NULL */
    const char *const *files;
} fake;

static bw_status fake_read(void *user, bw_ctx *ctx, const char *file, bw_str *out)
{
    const fake *f = user;
    for (size_t i = 0; f->files[i]; i += 2)
        if (strcmp(f->files[i], file) == 0) {
            *out = bw_str_c(f->files[i + 1]);
            return BW_OK;
        }
    return bw_fail(ctx, BW_ENOTFOUND, "no %s", file);
}

#define HEAD(name) \
    "// " name ": a title\n// Date: 2026-11-30\n// Articles: law A art. 1;\n//   law B\n" \
    "// Leaves out: much\n// A starting point, no legal advice.\n"

static const char *const files[] = {
    "a.cedar", HEAD("a") "@id(\"one\") permit(principal, action, resource);\n",
    "b.cedar", HEAD("b") "@id(\"two\") forbid(principal, action, resource);",
    "twin.cedar", HEAD("twin") "@id(\"one\") forbid(principal, action, resource);",
    "anon.cedar", HEAD("anon") "forbid(principal, action, resource);",
    "broken.cedar", HEAD("broken") "\nforbid(",
    "sets/both.set", "# two\na\n\nb\n", "sets/hole.set", "a\nnowhere\n",
    "sets/nest.set", "both\n", NULL};

static bw_status compose(bw_ctx *ctx, const char *spaced, bw_str *out)
{
    fake f = {files};
    bw_pack_source source = {fake_read, &f};
    bw_str names[8];
    size_t n = 0;
    for (const char *p = spaced; *p; n++) {
        size_t len = strcspn(p, " ");
        names[n] = (bw_str){p, len};
        p += len + (p[len] == ' ');
    }
    return bw_pack_compose(ctx, &source, names, n, out);
}

static void test_pack_compose__puts_packs_and_sets_together(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_str ab, set;
    bw_cedar_policies *p;
    assert_int_equal(compose(ctx, "a b", &ab), BW_OK);
    assert_int_equal(compose(ctx, "both", &set), BW_OK);
    assert_true(bw_str_eq(ab, set));
    assert_int_equal(bw_cedar_policies_parse(ctx, ab, &p), BW_OK);
    assert_int_equal(bw_cedar_policies_count(p), 2);
    bw_cedar_policies_free(p);
    bw_ctx_free(ctx);
}

static void test_pack_compose__refuses_unknown_names_and_twins(void **state)
{
    (void)state;
    static const struct {
        const char *names, *message;
        bw_status status;
    } bad[] = {
        {"nowhere", "there is no pack or set nowhere", BW_ENOTFOUND},
        {"hole", "set hole: there is no pack nowhere", BW_EINVALID},
        {"nest", "set nest: there is no pack both", BW_EINVALID},
        {"a a", "the pack a comes twice", BW_EINVALID},
        {"both b", "the pack b comes twice", BW_EINVALID},
        {"a twin", "pack twin: the @id \"one\" is taken", BW_EINVALID},
        {"anon", "pack anon: policy 0 has no @id", BW_EINVALID},
        {"broken", "pack broken: line 8", BW_EINVALID},
        {"../a", "a pack's name is 1 to 64 of a-z 0-9 -", BW_EINVALID},
    };
    bw_ctx *ctx = bw_ctx_new(0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bw_str out = {NULL, 7};
        assert_int_equal(compose(ctx, bad[i].names, &out), bad[i].status);
        assert_int_equal(out.len, 7);
        if (!strstr(bw_ctx_message(ctx), bad[i].message))
            fail_msg("%s: %s", bad[i].names, bw_ctx_message(ctx));
    }
    bw_ctx_free(ctx);
}

static void test_pack_info_read__reads_the_head(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_pack_info info;
    assert_int_equal(bw_pack_info_read(ctx, BW_STR("a"), bw_str_c(files[1]), &info), BW_OK);
    assert_true(bw_str_is(info.title, "a title") && bw_str_is(info.date, "2026-11-30") &&
                bw_str_is(info.articles, "law A art. 1; law B") && bw_str_is(info.leaves_out, "much"));
    assert_int_equal(bw_pack_info_read(ctx, BW_STR("b"), bw_str_c(files[1]), &info), BW_EINVALID);
    assert_int_equal(bw_pack_info_read(ctx, BW_STR("a"), BW_STR("// a: b\n// Date: x\n"), &info), BW_EINVALID);
    bw_ctx_free(ctx);
}

/* Each shipped pack has a whole head, @source and @text at every policy, and is strictly
 * valid without a warning: no rule of it can err on data that fits the schema. */
static size_t check_shipped(bw_ctx *ctx, const bw_cedar_schema *schema, const char *file)
{
    bw_cedar_validation v;
    bw_str text = pack_file(ctx, file), value, name = {file, strlen(file) - strlen(".cedar")};
    bw_pack_info info;
    bw_cedar_policies *p;
    if (bw_pack_info_read(ctx, name, text, &info) != BW_OK ||
        bw_cedar_policies_parse(ctx, text, &p) != BW_OK)
        fail_msg("%s: %s", file, bw_ctx_message(ctx));
    size_t n = bw_cedar_policies_count(p);
    for (size_t i = 0; i < n; i++)
        if (!bw_cedar_policy_annotation(p, i, BW_STR("source"), &value) || value.len == 0 ||
            !bw_cedar_policy_annotation(p, i, BW_STR("text"), &value) || value.len == 0)
            fail_msg("%s: policy %zu lacks @source or @text", file, i);
    assert_int_equal(bw_cedar_policies_validate(ctx, p, schema, NULL, &v), BW_OK);
    if (v.nfindings > 0)
        fail_msg("%s: %s", file, bw_cedar_finding_text(ctx, p, &v.findings[0]));
    bw_cedar_policies_free(p);
    return n;
}

static void test_shipped_packs__have_heads_and_sources_and_are_valid(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    const char *folder = bw_arena_printf(ctx, "%s/policies/packs", BW_SOURCE);
    DIR *d = opendir(folder);
    size_t packs = 0, policies = 0;
    bw_str all[64], out;
    bw_cedar_schema *schema;
    assert_non_null(d);
    assert_int_equal(bw_cedar_schema_parse(ctx, pack_file(ctx, "bw.cedarschema"), &schema), BW_OK);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 7 || strcmp(e->d_name + n - 6, ".cedar") != 0)
            continue;
        policies += check_shipped(ctx, schema, e->d_name);
        assert_int_equal(bw_arena_str(ctx, (bw_str){e->d_name, n - 6}, &all[packs++]), BW_OK);
    }
    closedir(d);
    bw_cedar_schema_free(schema);
    out = pack_compose(ctx, all, packs); /* so @ids are unique over all packs */
    assert_true(out.len > 0);
    print_message("%zu packs, %zu policies\n", packs, policies);
    assert_true(packs >= 20 && policies >= 50);
    const bw_str sets[] = {BW_STR("all"), BW_STR("air-gap")}; /* no pack is forgotten in "all" */
    bw_cedar_policies *p;
    assert_int_equal(bw_cedar_policies_parse(ctx, pack_compose(ctx, sets, 2), &p), BW_OK);
    assert_int_equal(bw_cedar_policies_count(p), policies);
    bw_cedar_policies_free(p);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_compose__puts_packs_and_sets_together),
        cmocka_unit_test(test_pack_compose__refuses_unknown_names_and_twins),
        cmocka_unit_test(test_pack_info_read__reads_the_head),
        cmocka_unit_test(test_shipped_packs__have_heads_and_sources_and_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
