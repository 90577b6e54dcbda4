/* place: which regions, providers and machine types a workload may run on, and what
 * that costs. Offline: the shipped packs and market (or those named), no cell needed.
 */
#include "cli_place.h"
#include "../policies/pack_set.h"
#include "../policies/place.h"
#include "cli.h"
#include "client.h"
#include "files.h"
#include "server.h"
#include <sodium.h>
#include <stdio.h>

enum {
    PROFILE_BYTES_MAX = 1 << 20,
    MARKET_BYTES_MAX = 8 << 20,
    OVERLAYS_MAX = BW_CLI_MARKET_OVERLAYS_MAX,
    FILES_MAX = OVERLAYS_MAX + 3,
    LIMIT_USUAL = 20
};

static const char usage[] =
    "Usage: bailiwick place --profile FILE [options]\n"
    "Which regions, providers and machine types the policies permit for a workload, by "
    "cost and by fit;\n"
    "everything that is out is out by a named rule. Nothing is sent anywhere.\n"
    "  --policies FILE    the policy set to ask (default: DATA/policies.cedar, else "
    "the "
    "shipped one)\n"
    "  --packs A,B,…      or: these packs and sets of the packs' folder together\n"
    "  --entities FILE    the operator's Cedar entities (legal entities, tenants)\n"
    "  --overlay FILE     own sites, contracts, certificates, prices; may be repeated\n"
    "  --market DIR       the market's files (default: the shipped ones)\n"
    "  --data DIR, --config FILE, --set name=value   facts and packs of a data folder\n"
    "  --classes          take the classes from a running cell (--url, --key-file, "
    "--ca) "
    "instead of the profile's\n"
    "  --json             everything, for a program\n"
    "  --explain ID       all about one region or instance type (repeatable up to 8)\n"
    "  --by cost|fit      order of the table\n"
    "  --limit N          rows of the table (default 20)\n"
    "Exit status: 0 some place is in, 1 failed, 2 wrong use, 3 no place is in.\n"
    "What each rule, note and formula means: policies/market/README.md. A starting "
    "point for a\n"
    "decision of yours, not advice: prices have a date, figures are estimates.\n";

typedef struct options {
    bw_cli_settings set;
    bw_client_options client;
    const char *profile, *policies, *packs, *entities, *market;
    const char *overlay[OVERLAYS_MAX], *explain[OVERLAYS_MAX];
    size_t noverlays, nexplain, limit;
    bool json, classes, by_fit;
} options;

/* A word with a value; words taken. */
static int take_value(options *o, int argc, char **argv, int i)
{
    const struct {
        const char *name, **to;
    } single[] = {{"--profile", &o->profile},
                  {"--policies", &o->policies},
                  {"--packs", &o->packs},
                  {"--entities", &o->entities},
                  {"--market", &o->market}};
    if (i + 1 >= argc)
        return 0;
    for (size_t k = 0; k < sizeof single / sizeof *single; k++)
        if (strcmp(argv[i], single[k].name) == 0) {
            *single[k].to = argv[i + 1];
            return 2;
        }
    if (strcmp(argv[i], "--overlay") == 0 && o->noverlays < OVERLAYS_MAX) {
        o->overlay[o->noverlays++] = argv[i + 1];
        return 2;
    }
    if (strcmp(argv[i], "--explain") == 0 && o->nexplain < OVERLAYS_MAX) {
        o->explain[o->nexplain++] = argv[i + 1];
        return 2;
    }
    if (strcmp(argv[i], "--by") == 0) {
        o->by_fit = strcmp(argv[i + 1], "fit") == 0;
        return o->by_fit || strcmp(argv[i + 1], "cost") == 0 ? 2 : 0;
    }
    if (strcmp(argv[i], "--limit") == 0) {
        size_t n = 0;
        const char *c = argv[i + 1];
        for (; *c >= '0' && *c <= '9' && n < 1000000; c++)
            n = n * 10 + (size_t)(*c - '0');
        if (*c || c == argv[i + 1])
            return 0;
        o->limit = n;
        return 2;
    }
    return 0;
}

static int take(options *o, int argc, char **argv, int i)
{
    if (strcmp(argv[i], "--json") == 0) {
        o->json = true;
        return 1;
    }
    if (strcmp(argv[i], "--classes") == 0) {
        o->classes = true;
        return 1;
    }
    int n = bw_cli_setting(&o->set, argc, argv, i);
    if (n == 0)
        n = bw_client_option(&o->client, argc, argv, i);
    return n ? n : take_value(o, argc, argv, i);
}

typedef struct bench {
    bw_catalogue *catalogue;
    bw_market *market;
    bw_authority *authority;
    bw_str policies, schema, entities;
} bench;

static bw_status compose(bw_ctx *ctx, const bw_config *c, const char *list, bw_str *out)
{
    bw_str names[BW_PACKS_MAX];
    size_t n = 0;
    for (const char *at = list;; at++) {
        size_t len = strcspn(at, ",");
        if (n == BW_PACKS_MAX)
            return bw_fail(ctx, BW_EINVALID, "--packs: more than %d names",
                           BW_PACKS_MAX);
        names[n++] = (bw_str){at, len};
        at += len;
        if (!*at)
            break;
    }
    return bw_pack_compose_in(ctx, bw_pack_folder(ctx, c), names, n, out);
}

static bw_status open_facts(bw_ctx *ctx, const options *o, bw_config *c, bench *b)
{
    bw_pack pack;
    const char *kept =
        o->set.data ? bw_path_join(ctx, o->set.data, "policies.cedar") : NULL;
    bw_status st =
        bw_facts_open(ctx, c, o->set.data, &pack, &b->catalogue, &b->entities);
    if (st != BW_OK)
        return st;
    b->schema = pack.schema;
    b->policies = pack.policies;
    if (o->policies)
        st = bw_file_read(ctx, o->policies, BW_POLICIES_BYTES_MAX, &b->policies);
    else if (o->packs)
        st = compose(ctx, c, o->packs, &b->policies);
    else if (kept && bw_file_exists(kept))
        st = bw_file_read(ctx, kept, BW_POLICIES_BYTES_MAX, &b->policies);
    if (st == BW_OK && o->entities)
        st = bw_file_read(ctx, o->entities, BW_PACK_BYTES_MAX, &b->entities);
    if (st == BW_OK && o->entities && b->entities.len == 0)
        st = bw_fail(ctx, BW_EINVALID, "%s is empty", o->entities);
    return st;
}

bw_status bw_cli_market_open(bw_ctx *ctx, const bw_config *c, const char *folder,
                             const char *const *overlay, size_t noverlays,
                             const bw_catalogue *catalogue, bw_market **out)
{
    static const char *const shipped[] = {"places.json", "accelerators.json",
                                          "instances.json"};
    bw_market_file files[FILES_MAX];
    size_t n = 0;
    bw_require(noverlays <= OVERLAYS_MAX);
    if (!folder) {
        const char *packs = bw_pack_folder(ctx, c);
        folder = packs ? bw_path_join(ctx, packs, "../market") : NULL;
    }
    if (!folder)
        return bw_fail(ctx, BW_ENOTFOUND,
                       "no market is installed; name one by --market");
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        const char *path = bw_path_join(ctx, folder, shipped[i]);
        files[n].name = shipped[i];
        bw_status st = path
                           ? bw_file_read(ctx, path, MARKET_BYTES_MAX, &files[n++].text)
                           : bw_fail_nomem(ctx);
        if (st != BW_OK)
            return st;
    }
    for (size_t i = 0; i < noverlays; i++) {
        files[n].name = overlay[i];
        bw_status st =
            bw_file_read(ctx, overlay[i], MARKET_BYTES_MAX, &files[n++].text);
        if (st != BW_OK)
            return st;
    }
    return bw_market_load(ctx, catalogue, files, n, out);
}

/* The operator's entities with the market's legal entities beside them. */
static bw_status all_entities(bw_ctx *ctx, const bench *b, bw_buf *out)
{
    bw_buf places = {0};
    bw_json *known, *own = NULL;
    bw_buf_putc(&places, '[');
    bw_catalogue_put_entities(b->catalogue, &places);
    bw_buf_puts(&places, places.len > 1 ? "," : "");
    bw_str inner = {"", 0};
    bw_status st =
        b->entities.len ? bw_json_parse(ctx, b->entities, BW_JSON_CEDAR, &own) : BW_OK;
    if (st == BW_EINVALID)
        st = bw_fail_at(ctx, st, bw_ctx_pointer(ctx), "entities: %s",
                        bw_ctx_message(ctx));
    if (st == BW_OK && own && own->kind != BW_JSON_ARRAY)
        st = bw_fail(ctx, BW_EINVALID, "entities: expected a list");
    if (st == BW_OK && own && own->count > 0)
        inner = (bw_str){own->raw.ptr + 1, own->raw.len - 2};
    if (inner.len)
        bw_buf_str(&places, inner);
    else if (places.len > 1)
        places.len--;
    bw_buf_putc(&places, ']');
    if (st == BW_OK)
        st = places.failed
                 ? bw_fail_nomem(ctx)
                 : bw_json_parse(ctx, bw_buf_view(&places), BW_JSON_CEDAR, &known);
    bw_buf_putc(out, '[');
    bw_buf_str(out, inner);
    if (st == BW_OK)
        st = bw_market_entities(ctx, b->market, known, out);
    bw_buf_putc(out, ']');
    bw_buf_clear(&places);
    return st == BW_OK && out->failed ? bw_fail_nomem(ctx) : st;
}

static bw_status open_authority(bw_ctx *ctx, bench *b)
{
    bw_buf entities = {0};
    bw_status st = all_entities(ctx, b, &entities);
    bw_authority_options o = {.schema = b->schema,
                              .policies = b->policies,
                              .entities = bw_buf_view(&entities),
                              .catalogue = b->catalogue,
                              /* never asked about: every question names its place */
                              .at = {.id = BW_STR("place"),
                                     .country = BW_STR("ZZ"),
                                     .operator_id = BW_STR("unknown")}};
    if (st == BW_OK)
        st = bw_authority_new(ctx, &o, &b->authority);
    bw_buf_clear(&entities);
    return st;
}

/* The labels of the classes that a key of a running cell may query. */
static bw_status classes_of(bw_ctx *ctx, const options *o, const bw_json **out)
{
    bw_client *client = NULL;
    const bw_json *answer;
    bw_json *list;
    bw_buf b = {0};
    bw_str text;
    bw_status st = bw_client_open(ctx, &o->client, &client);
    if (st == BW_OK)
        st = bw_client_json(ctx, client, "GET", "/v1/classes", (bw_str){NULL, 0},
                            &answer);
    bw_client_close(client);
    if (st != BW_OK)
        return st;
    const bw_json *classes = bw_json_get(answer, "classes");
    bw_buf_putc(&b, '[');
    for (const bw_json *v = classes ? classes->child : NULL; v; v = v->next) {
        const bw_json *labels = bw_json_get(v, "labels");
        bw_json_sep(&b);
        bw_buf_str(&b, labels ? labels->raw : BW_STR("null"));
    }
    bw_buf_putc(&b, ']');
    st = b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (st == BW_OK)
        st = bw_json_parse(ctx, text, BW_JSON_REQUEST, &list);
    if (st == BW_OK)
        *out = list;
    return st;
}

static bw_status read_profile(bw_ctx *ctx, const options *o, const bench *b,
                              bw_profile *out)
{
    bw_str text;
    bw_json *v;
    const bw_json *classes = NULL;
    bw_status st = bw_file_read(ctx, o->profile, PROFILE_BYTES_MAX, &text);
    if (st != BW_OK)
        return st;
    st = bw_json_parse(ctx, text, BW_JSON_REQUEST, &v);
    if (st == BW_EINVALID)
        return bw_fail_at(ctx, st, bw_ctx_pointer(ctx), "profile: %s",
                          bw_ctx_message(ctx));
    if (st == BW_OK && o->classes)
        st = classes_of(ctx, o, &classes);
    return st == BW_OK ? bw_profile_read(ctx, b->catalogue, v, classes, out) : st;
}

static bw_status show(bw_ctx *ctx, const options *o, const bench *b,
                      const bw_plan *plan)
{
    bw_str version = bw_catalogue_version(b->catalogue);
    bw_buf out = {0};
    bw_status st = BW_OK;
    for (size_t i = 0; i < o->nexplain && st == BW_OK; i++)
        if (!bw_plan_explain(plan, bw_str_c(o->explain[i]), &out))
            st = bw_fail(ctx, BW_ENOTFOUND, "--explain: no region or type has that id");
    if (o->json)
        bw_plan_json(plan, version, &out);
    else if (o->nexplain == 0)
        bw_plan_table(plan, version, o->by_fit, o->limit, &out);
    if (st == BW_OK && out.failed)
        st = bw_fail_nomem(ctx);
    if (st == BW_OK && bw_cli_say(out.ptr, out.len) != 0)
        st = bw_fail(ctx, BW_EIO, "the answer could not be written");
    bw_buf_clear(&out);
    return st;
}

static int place(bw_ctx *ctx, options *o)
{
    bw_config c;
    bench b = {0};
    bw_profile profile;
    bw_plan plan = {0};
    bw_status st = bw_cli_config(ctx, &o->set, &c);
    if (st == BW_OK)
        st = open_facts(ctx, o, &c, &b);
    if (st == BW_OK)
        st = bw_cli_market_open(ctx, &c, o->market, o->overlay, o->noverlays,
                                b.catalogue, &b.market);
    if (st == BW_OK)
        st = open_authority(ctx, &b);
    if (st == BW_OK)
        st = read_profile(ctx, o, &b, &profile);
    if (st == BW_OK)
        st = bw_place_plan(ctx, b.authority, b.market, &profile, &plan);
    if (st == BW_OK)
        st = show(ctx, o, &b, &plan);
    int code = st != BW_OK ? bw_cli_fail(ctx, "place") : plan.nin > 0 ? 0 : 3;
    bw_authority_free(b.authority);
    bw_market_free(b.market);
    bw_catalogue_free(b.catalogue);
    return code;
}

int bw_cli_place(int argc, char **argv)
{
    options o = {.limit = LIMIT_USUAL};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    for (int i = 1; i < argc;) {
        int n = take(&o, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (!o.profile)
        return bw_cli_missing("place", "--profile FILE is", usage);
    bw_ctx *ctx = bw_ctx_new(0);
    int code = ctx && sodium_init() >= 0 ? place(ctx, &o) : bw_cli_fail(NULL, "place");
    bw_ctx_free(ctx);
    return code;
}
