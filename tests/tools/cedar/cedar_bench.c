/* What a decision costs: bw_cedar_authorize alone over the first pack, with everything
 * parsed; reading the request's context and one small store too; and what the scope
 * index saves when a set holds policies that cannot apply. Prints nanoseconds, judges
 * nothing. Usage: cedar_bench PACKS_FOLDER [SET] */
#include "policies/cedar/cedar.h"
#include "policies/pack_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 5, CALLS = 20000 };

static bw_str file(bw_ctx *ctx, const char *dir, const char *name)
{
    const char *path = bw_arena_printf(ctx, "%s/%s", dir, name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    char *text = bw_arena_alloc(ctx, 1 << 20);
    if (!f || !text) {
        fprintf(stderr, "cedar_bench: no file %s\n", name);
        exit(2);
    }
    size_t n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return (bw_str){text, n};
}

static bw_status pack(void *dir, bw_ctx *ctx, const char *name, bw_str *out)
{
    const char *path = bw_arena_printf(ctx, "%s/%s", (const char *)dir, name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f)
        return bw_fail(ctx, BW_ENOTFOUND, "no file %s", name);
    fclose(f);
    *out = file(ctx, dir, name);
    return BW_OK;
}

static uint64_t cpu_ns(void) /* others on the machine disturb it less */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(bw_ctx *ctx, bw_status st)
{
    if (st == BW_OK)
        return;
    fprintf(stderr, "cedar_bench: %s %s\n", bw_ctx_pointer(ctx), bw_ctx_message(ctx));
    exit(1);
}

static const char base_text[] =
    "[{\"uid\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"attrs\":{\"adequacyCerts\":{"
    "\"gdpr\":[],\"uk-gdpr\":[],\"fadp\":[]},"
    "\"localisation\":\"none-known\",\"foreignAccess\":\"domestic\"},"
    "\"parents\":[{\"type\":\"Bw::Zone\",\"id\":\"EU\"},{\"type\":\"Bw::Zone\",\"id\":"
    "\"gdpr-area\"}]},"
    "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"EU\"},\"attrs\":{},\"parents\":[{"
    "\"type\":\"Bw::Zone\",\"id\":\"EEA\"}]},"
    "{\"uid\":{\"type\":\"Bw::Zone\",\"id\":\"EEA\"},\"attrs\":{},\"parents\":[{"
    "\"type\":\"Bw::Zone\",\"id\":\"world\"}]},"
    "{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"op\"},\"attrs\":{\"seat\":{"
    "\"type\":\"Bw::Country\",\"id\":\"FR\"},"
    "\"controlZones\":[{\"type\":\"Bw::Zone\",\"id\":\"EU\"}],\"foreignShareMax\":\"1."
    "0\",\"foreignShareSum\":\"2.0\",\"baaWith\":[],"
    "\"certs\":[\"hds\"]},\"parents\":[]},"
    "{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"par1\"},\"attrs\":{\"country\":{\"type\":"
    "\"Bw::Country\",\"id\":\"FR\"},\"operator\":"
    "{\"type\":\"Bw::LegalEntity\",\"id\":\"op\"},\"certs\":[\"hds\"],\"hw\":[\"tee\"]}"
    ",\"parents\":[]},"
    "{\"uid\":{\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"attrs\":{},\"parents\":[]}]";
static const char extra_text[] =
    "[{\"uid\":{\"type\":\"Bw::Identity\",\"id\":\"ana\"},\"attrs\":{\"tenant\":{"
    "\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"clearance\":3,"
    "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"}},\"parents\":[{\"type\":\"Bw::"
    "Role\",\"id\":\"editor\"}]},"
    "{\"uid\":{\"type\":\"Bw::DataClass\",\"id\":\"c\"},\"attrs\":{\"tenant\":{"
    "\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"regimes\":[\"gdpr\"],"
    "\"residency\":[{\"type\":\"Bw::Zone\",\"id\":\"EEA\"}],\"sensitivity\":2,"
    "\"categories\":[\"hr\"],\"labels\":[],\"purposes\":[\"payroll\"],"
    "\"legalHold\":false},\"parents\":[]}]";
static const char context_text[] =
    "{\"at\":{\"__entity\":{\"type\":\"Bw::Node\",\"id\":\"par1\"}},\"purpose\":"
    "\"payroll\",\"safeguards\":[]}";
static const char move_text[] =
    "{\"at\":{\"__entity\":{\"type\":\"Bw::Node\",\"id\":\"par1\"}},\"dest\":{\"__"
    "entity\":{\"type\":\"Bw::Node\",\"id\":\"par1\"}},"
    "\"purpose\":\"payroll\",\"safeguards\":[]}";

typedef struct bench {
    bw_ctx *world, *ctx;
    bw_cedar_policies *policies;
    bw_cedar_schema *schema;
    bw_cedar_entities *base;
} bench;

/* One call with the context and, when `whole`, the small store read from their texts.
 */
static bool once(bench *b, const char *action, const char *context,
                 const bw_cedar_entities *extra)
{
    bw_cedar_entities *mine = NULL;
    bw_json *json = NULL;
    bw_cedar_answer a;
    if (!extra) {
        must(b->ctx, bw_json_parse(b->ctx, bw_str_c(extra_text), BW_JSON_CEDAR, &json));
        must(b->ctx, bw_cedar_entities_parse(b->ctx, json, b->schema, &mine));
    }
    must(b->ctx, bw_json_parse(b->ctx, bw_str_c(context), BW_JSON_CEDAR, &json));
    bw_cedar_request q = {.principal = {BW_STR("Bw::Identity"), BW_STR("ana")},
                          .action = {BW_STR("Bw::Action"), bw_str_c(action)},
                          .resource = {BW_STR("Bw::DataClass"), BW_STR("c")},
                          .context = json,
                          .extra = extra ? extra : mine};
    must(b->ctx, bw_cedar_authorize(b->ctx, b->policies, b->base, b->schema, &q, &a));
    bw_cedar_entities_free(mine);
    bw_ctx_reset(b->ctx);
    return a.allow;
}

static void measure(bench *b, const char *what, const char *action, const char *context,
                    const bw_cedar_entities *extra)
{
    uint64_t best = UINT64_MAX;
    size_t allowed = 0;
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t t = cpu_ns();
        for (int i = 0; i < CALLS; i++)
            allowed += once(b, action, context, extra);
        t = cpu_ns() - t;
        best = t < best ? t : best;
    }
    printf("%-58s %8.0f ns  (%s)\n", what, (double)best / (double)CALLS,
           allowed ? "allow" : "deny");
}

/* ---- residuals: one query, and every class of a cell ---- */
enum { CLASSES = 300, PARTIALS = 2000 };

/* A class store each, as the engine keeps them: three tenants, most of the own one. */
static void make_classes(bench *b, bw_cedar_entities **stores, bw_str *ids)
{
    static const bw_str regimes[] = {BW_STR("gdpr"), BW_STR("hipaa"), BW_STR("none"),
                                     BW_STR("pipl"), BW_STR("uk-gdpr")};
    static const bw_str zones[] = {BW_STR("EEA"), BW_STR("EU"), BW_STR("world"),
                                   BW_STR("FR"), BW_STR("US")};
    static const bw_str purposes[] = {BW_STR("analytics"), BW_STR("payroll"),
                                      BW_STR("support"), BW_STR("care")};
    static const bw_str tenants[] = {BW_STR("acme"), BW_STR("acme"), BW_STR("acme"),
                                     BW_STR("other")};
    for (size_t i = 0; i < CLASSES; i++) {
        ids[i] = bw_str_c(bw_arena_printf(b->world, "%064zx", i * 7919 + 1));
        const bw_cedar_field fields[] = {
            {BW_STR("tenant"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("Bw::Tenant"),
             &tenants[i % 4], 1},
            {BW_STR("regimes"), BW_CEDAR_FIELD_STRINGS, 0, BW_STR(""), &regimes[i % 5],
             i % 5 < 4 ? 1 + i % 2 : 1},
            {BW_STR("residency"), BW_CEDAR_FIELD_ENTITIES, 0, BW_STR("Bw::Zone"),
             &zones[i % 3], 1 + i % 3},
            {BW_STR("sensitivity"), BW_CEDAR_FIELD_LONG, (int64_t)(i % 5), BW_STR(""),
             NULL, 0},
            {BW_STR("categories"), BW_CEDAR_FIELD_STRINGS, 0, BW_STR(""), purposes, 0},
            {BW_STR("labels"), BW_CEDAR_FIELD_STRINGS, 0, BW_STR(""), purposes, 0},
            {BW_STR("purposes"), BW_CEDAR_FIELD_STRINGS, 0, BW_STR(""), purposes,
             1 + i % 4},
            {BW_STR("legalHold"), BW_CEDAR_FIELD_BOOL, 0, BW_STR(""), NULL, 0}};
        const bw_cedar_entity one = {.uid = {BW_STR("Bw::DataClass"), ids[i]},
                                     .fields = fields,
                                     .nfields = sizeof fields / sizeof *fields};
        must(b->world, bw_cedar_entities_make(b->world, b->schema, &one, 1, NULL, NULL,
                                              &stores[i]));
    }
}

static void measure_residuals(bench *b, const char *action, const char *context)
{
    bw_cedar_entities *stores[CLASSES], *who;
    bw_str ids[CLASSES], role = BW_STR("editor"), tenant = BW_STR("acme"),
                         seat = BW_STR("FR");
    const bw_cedar_field fields[] = {
        {BW_STR("tenant"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("Bw::Tenant"), &tenant, 1},
        {BW_STR("seat"), BW_CEDAR_FIELD_ENTITY, 0, BW_STR("Bw::Country"), &seat, 1},
        {BW_STR("clearance"), BW_CEDAR_FIELD_LONG, 3, BW_STR(""), NULL, 0}};
    const bw_cedar_entity ana = {{BW_STR("Bw::Identity"), BW_STR("ana")},
                                 fields,
                                 3,
                                 BW_STR("Bw::Role"),
                                 &role,
                                 1};
    const bw_cedar_partial_options on = {.resources_conform = true};
    const bw_cedar_value *value;
    bw_json *json = NULL;
    bw_cedar_request q = {.principal = {BW_STR("Bw::Identity"), BW_STR("ana")},
                          .action = {BW_STR("Bw::Action"), bw_str_c(action)},
                          .resource = {BW_STR("Bw::DataClass"), BW_STR("")}};
    make_classes(b, stores, ids);
    must(b->world,
         bw_cedar_entities_make(b->world, b->schema, &ana, 1, NULL, NULL, &who));
    must(b->world, bw_json_parse(b->world, bw_str_c(context), BW_JSON_CEDAR, &json));
    must(b->world, bw_cedar_context_read(b->world, b->schema, &q.action, json, &value));
    q.context_value = value;
    q.extra = who;
    uint64_t best = UINT64_MAX, each = UINT64_MAX;
    size_t permitted = 0, open = 0;
    for (int r = 0; r < ROUNDS; r++) {
        bw_cedar_residuals *left = NULL;
        uint64_t t = cpu_ns();
        for (int i = 0; i < PARTIALS; i++) {
            bw_cedar_residuals_free(left);
            must(b->ctx, bw_cedar_partial(b->ctx, b->policies, b->base, b->schema, &q,
                                          &on, &left));
        }
        t = cpu_ns() - t;
        best = t < best ? t : best;
        open = bw_cedar_residuals_count(left, BW_CEDAR_RESIDUAL_OPEN);
        t = cpu_ns();
        for (int k = 0; k < PARTIALS / 10; k++) {
            permitted = 0;
            for (size_t i = 0; i < CLASSES; i++) {
                const bw_cedar_uid uid = {BW_STR("Bw::DataClass"), ids[i]};
                bool allow;
                must(b->ctx,
                     bw_cedar_residuals_allow(b->ctx, left, stores[i], &uid, &allow));
                permitted += allow;
            }
        }
        t = cpu_ns() - t;
        each = t < each ? t : each;
        bw_cedar_residuals_free(left);
    }
    printf("%s, partial evaluation: %zu policies stay open %8.0f ns\n", action, open,
           (double)best / PARTIALS);
    printf("%s, each of %d classes (%zu permitted) %20.0f ns\n", action, CLASSES,
           permitted, (double)each / (PARTIALS / 10 * CLASSES));
}

static void measure_validation(bench *b)
{
    uint64_t best = UINT64_MAX;
    size_t findings = 0;
    for (int r = 0; r < 20; r++) {
        bw_cedar_validation v;
        uint64_t t = cpu_ns();
        must(b->ctx,
             bw_cedar_policies_validate(b->ctx, b->policies, b->schema, NULL, &v));
        t = cpu_ns() - t;
        best = t < best ? t : best;
        findings = v.nfindings;
        bw_ctx_reset(b->ctx);
    }
    printf("%-58s %8.0f ns  (%zu findings)\n", "validating all of them", (double)best,
           findings);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: cedar_bench PACKS_FOLDER [SET]\n");
        return 2;
    }
    bench b = {.world = bw_ctx_new(0), .ctx = bw_ctx_new(0)};
    bw_json *json = NULL;
    bw_cedar_entities *extra = NULL;
    bw_pack_source packs = {pack, argv[1]};
    bw_str text;
    const bw_str set = argc > 2 ? bw_str_c(argv[2]) : BW_STR("eu-baseline");
    must(b.world, bw_pack_compose(b.world, &packs, &set, 1, &text));
    must(b.world, bw_cedar_schema_parse(
                      b.world, file(b.world, argv[1], "bw.cedarschema"), &b.schema));
    must(b.world, bw_cedar_policies_parse(b.world, text, &b.policies));
    must(b.world, bw_json_parse(b.world, bw_str_c(base_text), BW_JSON_CEDAR, &json));
    must(b.world, bw_cedar_entities_parse(b.world, json, b.schema, &b.base));
    must(b.world, bw_json_parse(b.world, bw_str_c(extra_text), BW_JSON_CEDAR, &json));
    must(b.world, bw_cedar_entities_parse(b.world, json, b.schema, &extra));
    printf("the set: %zu policies\n", bw_cedar_policies_count(b.policies));
    measure(&b, "Query, entities ready", "Query", context_text, extra);
    measure(&b, "Transfer, entities ready", "Transfer", move_text, extra);
    measure(&b, "Query, principal and class read from JSON", "Query", context_text,
            NULL);
    measure(&b, "Transfer, principal and class read from JSON", "Transfer", move_text,
            NULL);
    measure_residuals(&b, "Query", context_text);
    measure_residuals(&b, "Transfer", move_text);
    measure_validation(&b);
    bw_buf more = {0}; /* the same and 10,000 that speak of other principals */
    bw_buf_str(&more, text);
    for (int i = 0; i < 10000; i++)
        bw_buf_printf(&more,
                      "forbid(principal in Bw::Role::\"other%d\", action == "
                      "Bw::Action::\"Query\", resource)"
                      " when { resource.legalHold };\n",
                      i);
    bw_cedar_policies_free(b.policies);
    must(b.world, bw_cedar_policies_parse(b.world, bw_buf_view(&more), &b.policies));
    bw_buf_clear(&more);
    measure(&b, "Query, 10,000 more policies for other roles", "Query", context_text,
            extra);
    measure_validation(&b);
    bw_cedar_entities_free(extra);
    bw_cedar_entities_free(b.base);
    bw_cedar_policies_free(b.policies);
    bw_cedar_schema_free(b.schema);
    bw_ctx_free(b.ctx);
    bw_ctx_free(b.world);
    return 0;
}
