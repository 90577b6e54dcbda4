/* Explained decisions: the values that failed, changes that turn a denial (all of them,
 * decided once more by the authority itself), none with a part that would do, and nothing
 * shown that the asker did not say. */
#include <policies/explain.h>

#include <setjmp.h>
#include <cmocka.h>
#include "failing_alloc.h"
#include "pack.h"
#include "rnd.h"

typedef struct fixture {
    bw_ctx *ctx;
    bw_catalogue *catalogue;
    bw_str schema, policies;
} fixture;

/* Two operators, as the operator's entities file has them. */
typedef struct operator_row {
    const char *id, *seat, *zones, *certs;
    const char *share_max, *share_sum;
    const char *baa; /* elements */
} operator_row;
static const operator_row operators[] = {
    {"eucloud", "FR", "EU", "", "12.5", "20.0", ""},
    {"uscloud", "US", "world", "\"dpf\",\"appi\"", "100.0", "100.0", "\"hosp\""},
    {"local", "IN", "world", "", "0.0", "0.0", ""},
    {"usfr", "FR", "world", "\"dpf\"", "100.0", "100.0", "\"acme\",\"hosp\""},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static void put_refs(bw_buf *b, const char *type, bw_str names)
{
    bw_json *list;
    bw_ctx *ctx = bw_ctx_new(0);
    const char *text = bw_arena_printf(ctx, "[%.*s]", (int)names.len, names.ptr);
    assert_int_equal(bw_json_parse(ctx, bw_str_c(text), BW_JSON_REQUEST, &list), BW_OK);
    for (const bw_json *v = list->child; v; v = v->next) {
        bw_json_sep(b);
        bw_buf_printf(b, "{\"type\":\"Bw::%s\",\"id\":\"%.*s\"}", type, (int)v->str.len, v->str.ptr);
    }
    bw_ctx_free(ctx);
}

/* A list of quoted names with the changes of one attribute made. */
static void changed_names(bw_buf *b, const char *names, const bw_what_if *w, const char *id,
                          bw_fact dest, bw_fact at)
{
    bw_json *list;
    bw_ctx *ctx = bw_ctx_new(0);
    const char *text = bw_arena_printf(ctx, "[%s]", names);
    assert_int_equal(bw_json_parse(ctx, bw_str_c(text), BW_JSON_REQUEST, &list), BW_OK);
    for (const bw_json *v = list->child; v; v = v->next) {
        bool stays = true;
        for (size_t i = 0; w && i < w->noperators; i++) {
            const bw_change *c = &w->operators[i];
            bw_str whose = c->fact < BW_FACT_AT ? w->dest.operator_id : w->at.operator_id;
            if ((c->fact == dest || c->fact == at) && bw_str_eq(whose, bw_str_c(id)) && bw_str_eq(c->value, v->str))
                stays = false;
        }
        if (stays) {
            bw_json_sep(b);
            bw_buf_str(b, v->raw);
        }
    }
    for (size_t i = 0; w && i < w->noperators; i++) {
        const bw_change *c = &w->operators[i];
        bw_str whose = c->fact < BW_FACT_AT ? w->dest.operator_id : w->at.operator_id;
        if ((c->fact == dest || c->fact == at) && bw_str_eq(whose, bw_str_c(id)) && c->verb == BW_CHANGE_ADD) {
            bw_json_sep(b);
            bw_json_put_str(b, c->value);
        }
    }
    bw_ctx_free(ctx);
}

static bw_str set_or(const bw_what_if *w, const char *id, bw_fact dest, bw_fact at, const char *else_)
{
    for (size_t i = 0; w && i < w->noperators; i++) {
        const bw_change *c = &w->operators[i];
        bw_str whose = c->fact < BW_FACT_AT ? w->dest.operator_id : w->at.operator_id;
        if ((c->fact == dest || c->fact == at) && bw_str_eq(whose, bw_str_c(id)))
            return c->value;
    }
    return bw_str_c(else_);
}

static bw_str entities_text(bw_ctx *ctx, const bw_what_if *w)
{
    bw_buf b = {0}, names = {0};
    bw_str out;
    bw_buf_putc(&b, '[');
    for (size_t i = 0; i < OPERATORS; i++) {
        const operator_row *o = &operators[i];
        bw_str seat = set_or(w, o->id, BW_FACT_DEST_OP_SEAT, BW_FACT_AT_OP_SEAT, o->seat),
               max = set_or(w, o->id, BW_FACT_DEST_OP_SHARE_MAX, BW_FACT_AT_OP_SHARE_MAX, o->share_max),
               sum = set_or(w, o->id, BW_FACT_DEST_OP_SHARE_SUM, BW_FACT_AT_OP_SHARE_SUM, o->share_sum);
        bw_json_sep(&b);
        bw_buf_printf(&b, "{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"%s\"},\"parents\":[],\"attrs\":{"
                      "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"%.*s\"},\"foreignShareMax\":\"%.*s\","
                      "\"foreignShareSum\":\"%.*s\",\"controlZones\":[", o->id, (int)seat.len, seat.ptr,
                      (int)max.len, max.ptr, (int)sum.len, sum.ptr);
        bw_buf_clear(&names);
        changed_names(&names, bw_arena_printf(ctx, "\"%s\"", o->zones), w, o->id, BW_FACT_DEST_OP_ZONES, BW_FACT_AT_OP_ZONES);
        put_refs(&b, "Zone", bw_buf_view(&names));
        bw_buf_puts(&b, "],\"baaWith\":[");
        bw_buf_clear(&names);
        changed_names(&names, o->baa, w, o->id, BW_FACT_DEST_OP_BAA, BW_FACT_AT_OP_BAA);
        put_refs(&b, "Tenant", bw_buf_view(&names));
        bw_buf_puts(&b, "],\"certs\":[");
        changed_names(&b, o->certs, w, o->id, BW_FACT_DEST_OP_CERTS, BW_FACT_AT_OP_CERTS);
        bw_buf_puts(&b, "]}}");
    }
    bw_buf_puts(&b, ",{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"par2\"},\"parents\":[],\"attrs\":{"
                "\"country\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"operator\":{\"type\":\"Bw::LegalEntity\",\"id\":\"usfr\"},"
                "\"certs\":[\"hds\"],\"hw\":[\"tee\",\"gpu\"]}}]");
    assert_false(b.failed);
    assert_int_equal(bw_arena_str(ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    bw_buf_clear(&names);
    return out;
}

static int setup(void **state)
{
    static fixture f;
    f.ctx = bw_ctx_new(0);
    f.schema = pack_file(f.ctx, "bw.cedarschema");
    static const bw_str set[] = {{"eu-baseline", 11}};
    f.policies = pack_compose(f.ctx, set, 1);
    f.catalogue = pack_catalogue(f.ctx, "{}");
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

static const bw_str none[1];
static const bw_place paris = {.id = {"par1", 4}, .country = {"FR", 2}, .operator_id = {"eucloud", 7}, .certs = none, .hw = none};

static bw_authority *authority(fixture *f, bw_str policies)
{
    bw_authority *a;
    bw_authority_options o = {.schema = f->schema, .policies = policies, .catalogue = f->catalogue,
                              .entities = entities_text(f->ctx, NULL), .at = paris};
    if (bw_authority_new(f->ctx, &o, &a) != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(f->ctx));
    return a;
}

static bw_str labels(fixture *f, const char *json)
{
    bw_json *v;
    bw_labels l;
    bw_str text;
    if (bw_json_parse(f->ctx, bw_str_c(json), BW_JSON_REQUEST, &v) != BW_OK ||
        bw_labels_parse(f->ctx, f->catalogue, v, BW_STR("acme"), &l) != BW_OK)
        fail_msg("%s: %s %s", json, bw_ctx_pointer(f->ctx), bw_ctx_message(f->ctx));
    assert_int_equal(bw_labels_canonical(f->ctx, &l, &text), BW_OK);
    return text;
}

static bw_explanation explain(fixture *f, bw_authority *a, const bw_explain_ask *ask)
{
    bw_explanation e;
    if (bw_explain(f->ctx, a, ask, &e) != BW_OK)
        fail_msg("explain: %s", bw_ctx_message(f->ctx));
    return e;
}

static bw_str json_of(fixture *f, const bw_explanation *e)
{
    bw_buf b = {0};
    bw_json *v;
    bw_str out;
    bw_buf_putc(&b, '{');
    bw_explanation_put(&b, e);
    bw_buf_putc(&b, '}');
    assert_int_equal(bw_arena_str(f->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    assert_int_equal(bw_json_parse(f->ctx, out, BW_JSON_REQUEST, &v), BW_OK);
    return out;
}

static bool says(bw_str text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

#define SAYS(text, what)                                                        \
    do {                                                                        \
        if (!says((text), (what)))                                              \
            fail_msg("no %s in %.*s", (what), (int)(text).len, (text).ptr);     \
    } while (0)

static const bw_str purposes[] = {{"care", 4}, {"support", 7}};

static void test_explain__tells_the_condition_and_its_values(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &ana, .action = BW_ACTION_QUERY, .purpose = BW_STR("care")};
    bw_explain_ask ask = {.q = &q, .claimable = purposes, .nclaimable = 2,
        .label_text = labels(f, "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    assert_false(e.decision.allow);
    SAYS(text, "\"policies\":[\"purpose\"]");
    SAYS(text, "\"condition\":\"resource.purposes.contains(context.purpose)\",\"is\":false");
    SAYS(text, "\"context.purpose\":\"\\\"care\\\"\"");
    SAYS(text, "\"resource.purposes\":\"[\\\"support\\\"]\"");
    SAYS(text, "[{\"fact\":\"purpose\",\"set\":\"support\",\"by\":\"caller\"}]");
    SAYS(text, "[{\"fact\":\"labels.purposes\",\"add\":\"care\",\"by\":\"controller\"}]");
    assert_true(e.complete);
    q.purpose = BW_STR("support");
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    assert_true(e.decision.allow && e.nsets == 0 && e.tried == 0);
    SAYS(text, "\"policy\":\"own-tenant\",\"effect\":\"permit\",\"why\":\"determining\"");
    SAYS(text, "\"policy\":\"residency-at\",\"effect\":\"forbid\",\"why\":\"checked\"");
    SAYS(text, "\"condition\":\"context.at.country in resource.residency\",\"is\":true");
    SAYS(text, "\"context.at.country\":\"Bw::Country::\\\"FR\\\"\"");
    bw_authority_free(a);
}

static void test_explain__tells_the_nearest_permit(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal low = {.id = BW_STR("low"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 1};
    bw_question q = {.principal = &low, .action = BW_ACTION_QUERY, .purpose = BW_STR("support")};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"gdpr\"],\"residency\":[\"EU\"],\"sensitivity\":4,\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    SAYS(text, "\"policies\":[],");
    SAYS(text, "\"policy\":\"own-tenant\",\"effect\":\"permit\",\"why\":\"nearest\"");
    SAYS(text, "\"condition\":\"principal.clearance >= resource.sensitivity\",\"is\":false");
    SAYS(text, "[{\"fact\":\"clearance\",\"set\":\"4\",\"by\":\"administrator\"}]");
    assert_false(says(text, "labels.sensitivity")); /* who cannot relabel is not told how */
    ask.privileged = true;
    e = explain(f, a, &ask);
    SAYS(json_of(f, &e), "[{\"fact\":\"labels.sensitivity\",\"set\":\"1\",\"by\":\"controller\"}]");
    bw_authority_free(a);
}

static void test_explain__names_an_error_and_what_mends_it(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, f->policies);
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_place dest = {.id = BW_STR("par9"), .country = BW_STR("FR"), .operator_id = BW_STR("nobody"), .certs = none, .hw = none};
    static const bw_str snc[] = {{"secnumcloud-3.2", 15}};
    dest.certs = snc;
    dest.ncerts = 1;
    bw_question q = {.principal = &ana, .action = BW_ACTION_STORE, .purpose = BW_STR(""), .dest = &dest};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1,\"labels\":[\"sovereign-eu\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    assert_false(e.decision.allow);
    SAYS(text, "\"policies\":[\"no-extra-eu-control\"],\"errors\":[\"no-extra-eu-control\"]");
    SAYS(text, "\"why\":\"error\"");
    SAYS(text, "\"is\":\"error\",\"error\":\"attribute of an entity that is in no store\"");
    SAYS(text, "\"context.dest.operator.seat\":null");
    SAYS(text, "[{\"fact\":\"dest.operator\",\"set\":\"eucloud\",\"by\":\"caller\"}]");
    bw_authority_free(a);
}

/* Other tenants' names: in an operator's contracts, in conditions, in policies. */
static void test_explain__shows_nothing_of_others(void **state)
{
    fixture *f = *state;
    bw_str more = BW_STR(
        "@id(\"partners\") permit (principal, action, resource) when { principal.tenant == Bw::Tenant::\"zanzibar\" };"
        "@id(\"barred\") forbid (principal, action == Bw::Action::\"Query\", resource) when { [Bw::Tenant::\"zanzibar\", Bw::Tenant::\"acme\"].contains(principal.tenant) };"
        "@id(\"words\") forbid (principal, action == Bw::Action::\"Query\", resource) when { context.purpose != \"project-zanzibar\" && resource.purposes.contains(\"support\") };");
    char *all = bw_arena_printf(f->ctx, "%.*s%.*s", (int)f->policies.len, f->policies.ptr, (int)more.len, more.ptr);
    bw_authority *a = authority(f, bw_str_c(all));
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 1};
    bw_place dest = {.id = BW_STR("va1"), .country = BW_STR("US"), .operator_id = BW_STR("uscloud"), .certs = none, .hw = none};
    bw_question q = {.principal = &ana, .action = BW_ACTION_STORE, .purpose = BW_STR(""), .dest = &dest};
    bw_explain_ask ask = {.q = &q,
        .label_text = labels(f, "{\"regimes\":[\"hipaa\"],\"residency\":[\"US\"],\"sensitivity\":1,\"categories\":[\"phi\"],\"purposes\":[\"support\"]}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str text = json_of(f, &e);
    SAYS(text, "\"context.dest.operator.baaWith\":\"[]\"");
    SAYS(text, "{\"fact\":\"dest.operator.baaWith\",\"add\":\"acme\",\"by\":\"operator\"}");
    assert_false(says(text, "hosp"));
    q.action = BW_ACTION_QUERY;
    q.purpose = BW_STR("support");
    q.dest = NULL;
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    SAYS(text, "\"policies\":[\"barred\",\"residency-at\",\"words\"]");
    SAYS(text, "[Bw::Tenant::\\\"...\\\", Bw::Tenant::\\\"acme\\\"].contains(principal.tenant)");
    SAYS(text, "context.purpose != \\\"...\\\"");
    assert_false(says(text, "zanzibar"));
    q.action = BW_ACTION_MANAGE_COLLECTION;
    ask = (bw_explain_ask){.q = &q, .kind = "Collection", .tenant = BW_STR("acme"), .name = BW_STR("docs")};
    e = explain(f, a, &ask);
    text = json_of(f, &e);
    SAYS(text, "\"policy\":\"manage-collection\",\"effect\":\"permit\",\"why\":\"nearest\"");
    SAYS(text, "[{\"fact\":\"roles\",\"add\":\"editor\",\"by\":\"administrator\"}]");
    assert_false(says(text, "partners") || e.complete); /* it does not claim to have looked at all */
    ask.privileged = true;
    e = explain(f, a, &ask);
    SAYS(json_of(f, &e), "\"policy\":\"partners\"");
    bw_authority_free(a);
}

/* ---- random denials ---- */

typedef struct world {
    fixture *f;
    rnd r;
    bw_authority *a;
    bw_principal who;
    bw_place at, dest;
    bw_question q;
    bw_explain_ask ask;
    size_t checked;
} world;

static const char *pick(rnd *r, const char *const *list, size_t n)
{
    return list[rnd_below(r, n)];
}
#define PICK(r, ...)                                                                 \
    pick((r), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Some words of a list, quoted; perhaps none. */
static void put_some(bw_buf *b, rnd *r, const char *const *list, size_t n, unsigned in)
{
    for (size_t i = 0; i < n; i++)
        if (rnd_below(r, in) == 0) {
            bw_json_sep(b);
            bw_buf_printf(b, "\"%s\"", list[i]);
        }
}
#define SOME(b, r, in, ...)                                                               \
    put_some((b), (r), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (in))

static bw_str random_labels(world *w)
{
    rnd *r = &w->r;
    bw_buf b = {0};
    bw_buf_printf(&b, "{\"tenant\":\"%s\",\"sensitivity\":%zu,\"legal_hold\":%s,\"regimes\":[",
                  rnd_below(r, 12) ? "acme" : "hosp", rnd_below(r, 6), rnd_below(r, 6) ? "false" : "true");
    SOME(&b, r, 4, "gdpr", "uk-gdpr", "fadp", "hipaa", "pipl", "dpdp", "lgpd", "pdpl-ae");
    if (b.ptr[b.len - 1] == '[')
        bw_buf_puts(&b, "\"none\"");
    bw_buf_puts(&b, "],\"residency\":[");
    bw_buf_printf(&b, "\"%s\"", PICK(r, "EU", "EEA", "FR", "DE", "US", "world", "CH", "GB"));
    bw_buf_puts(&b, "],\"categories\":[");
    SOME(&b, r, 5, "pi", "phi", "health", "special", "children", "important-data", "ciio");
    bw_buf_puts(&b, "],\"labels\":[");
    SOME(&b, r, 3, "sovereign-eu", "internal");
    bw_buf_puts(&b, "],\"purposes\":[");
    SOME(&b, r, 3, "support", "care", "payroll", "research");
    bw_buf_puts(&b, "]}");
    bw_str text = labels(w->f, bw_arena_printf(w->f->ctx, "%.*s", (int)b.len, b.ptr));
    bw_buf_clear(&b);
    return text;
}

static void random_words(world *w, const bw_str **out, size_t *n, const char *const *list, size_t count, unsigned in)
{
    bw_str *words = bw_arena_calloc(w->f->ctx, count + 1, sizeof *words);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        if (rnd_below(&w->r, in) == 0)
            words[(*n)++] = bw_str_c(list[i]);
    *out = words;
}
#define WORDS(w, out, n, in, ...)                                                          \
    random_words((w), (out), (n), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (in))

static void random_place(world *w, bw_place *p, const char *id)
{
    *p = (bw_place){.id = bw_str_c(id),
        .country = bw_str_c(PICK(&w->r, "FR", "DE", "US", "CN", "JP", "IN", "CH", "GB", "IS", "AF")),
        .operator_id = bw_str_c(PICK(&w->r, "eucloud", "uscloud", "local", "usfr", "nobody"))};
    WORDS(w, &p->certs, &p->ncerts, 3, "hds", "secnumcloud-3.2");
    WORDS(w, &p->hw, &p->nhw, 3, "gpu", "tee");
}

static void random_ask(world *w)
{
    static const bw_action actions[] = {BW_ACTION_QUERY, BW_ACTION_QUERY, BW_ACTION_STORE, BW_ACTION_STORE, BW_ACTION_EXPORT,
        BW_ACTION_EMBED, BW_ACTION_REPLICATE, BW_ACTION_TRANSFER, BW_ACTION_DELETE, BW_ACTION_ERASE, BW_ACTION_RELABEL};
    w->who = (bw_principal){.id = BW_STR("ana"), .tenant = BW_STR("acme"), .clearance = (uint32_t)rnd_below(&w->r, 6),
                            .seat = bw_str_c(PICK(&w->r, "FR", "US", "IN", "CN", "GB"))};
    WORDS(w, &w->who.roles, &w->who.nroles, 5, "admin", "auditor", "dpo", "editor", "exporter", "reader");
    w->q = (bw_question){.principal = &w->who, .action = actions[rnd_below(&w->r, sizeof actions / sizeof *actions)],
                         .purpose = bw_str_c(PICK(&w->r, "", "support", "care", "payroll", "research"))};
    WORDS(w, &w->q.safeguards, &w->q.nsafeguards, 6, "bcr", "cac-contract", "idta", "scc", "tia");
    if (rnd_below(&w->r, 2)) {
        random_place(w, &w->at, "there");
        w->q.at = &w->at;
    }
    if (rnd_below(&w->r, 2)) {
        random_place(w, &w->dest, "away");
        w->q.dest = &w->dest;
    }
    w->ask = (bw_explain_ask){.q = &w->q, .label_text = random_labels(w), .privileged = rnd_below(&w->r, 2),
                              .claimable = purposes, .nclaimable = 2};
}

/* Decided by the authority itself, from the facts alone. */
static bool applied(world *w, const bw_change *changes, size_t n)
{
    fixture *f = w->f;
    bw_what_if t;
    bw_class_id id;
    bw_decision d;
    bw_str text;
    assert_int_equal(bw_what_if_make(f->ctx, &w->ask, &paris, changes, n, &t), BW_OK);
    if (t.noperators)
        assert_int_equal(bw_authority_set_entities(f->ctx, w->a, entities_text(f->ctx, &t)), BW_OK);
    static const bw_str hds[] = {{"hds", 3}}, both[] = {{"gpu", 3}, {"tee", 3}};
    static const bw_place par2 = {.id = {"par2", 4}, .country = {"FR", 2}, .operator_id = {"usfr", 4},
                                  .certs = hds, .ncerts = 1, .hw = both, .nhw = 2};
    bw_place at = bw_str_is(t.at.id, "par2") ? par2 : bw_str_is(t.at.id, "par1") ? paris : t.at,
             dest = bw_str_is(t.dest.id, "par2") ? par2 : bw_str_is(t.dest.id, "par1") ? paris : t.dest;
    bw_question q = {.principal = &t.who, .action = t.action, .purpose = t.purpose, .safeguards = t.safeguards,
                     .nsafeguards = t.nsafeguards, .at = &at, .dest = t.has_dest ? &dest : NULL, .now_ns = t.now_ns};
    assert_int_equal(bw_labels_canonical(f->ctx, &t.labels, &text), BW_OK);
    bw_labels_class_id(text, &id);
    assert_int_equal(bw_decide_class(f->ctx, w->a, &q, &id, text, &d), BW_OK);
    if (t.noperators)
        assert_int_equal(bw_authority_set_entities(f->ctx, w->a, entities_text(f->ctx, NULL)), BW_OK);
    return d.allow;
}

/* An explanation's decision is the authority's, by the same policies and errors. */
static void check_decision(world *w, const bw_decision *d)
{
    bw_class_id id;
    bw_decision real;
    bw_labels_class_id(w->ask.label_text, &id);
    assert_int_equal(bw_decide_class(w->f->ctx, w->a, &w->q, &id, w->ask.label_text, &real), BW_OK);
    assert_int_equal(d->allow, real.allow);
    assert_int_equal(d->npolicies, real.npolicies);
    assert_int_equal(d->nerrors, real.nerrors);
    for (size_t i = 0; i < d->npolicies; i++)
        assert_true(bw_str_eq(d->policies[i], real.policies[i]));
    for (size_t i = 0; i < d->nerrors; i++)
        assert_true(bw_str_eq(d->errors[i], real.errors[i]));
}

static void say_change(const bw_change *c)
{
    print_message("  %s %s %.*s\n", bw_fact_name(c->fact), c->verb == BW_CHANGE_SET ? "=" : c->verb == BW_CHANGE_ADD ? "+" : "-",
                  (int)c->value.len, c->value.ptr);
}

/* Parts of a set too: those that change an operator's facts, which means new entities, for
 * every eighth set. */
static void check_set(world *w, const bw_change_set *set)
{
    bool turned = applied(w, set->changes, set->n);
    bool smaller = false, costly = false;
    for (uint32_t i = 0; i < set->n; i++)
        costly = costly || strstr(bw_fact_name(set->changes[i].fact), ".operator.");
    bool parts = !costly || w->checked++ % 8 == 0;
    for (uint32_t bits = 1; parts && bits + 1 < 1u << set->n; bits++) {
        bw_change part[BW_EXPLAIN_CHANGES_CAP];
        size_t n = 0;
        for (uint32_t i = 0; i < set->n; i++)
            if (bits & 1u << i)
                part[n++] = set->changes[i];
        smaller = smaller || applied(w, part, n);
    }
    if (turned && !smaller)
        return;
    for (uint32_t i = 0; i < set->n; i++)
        say_change(&set->changes[i]);
    bw_explanation e = explain(w->f, w->a, &w->ask);
    bw_str text = json_of(w->f, &e);
    fail_msg("%s; %s %.*s\n%.*s", turned ? "a part of it does" : "does not turn it", bw_action_name(w->q.action),
             (int)w->ask.label_text.len, w->ask.label_text.ptr, (int)text.len, text.ptr);
}

static void check_denials(world *w, size_t want)
{
    size_t denials = 0, told = 0, sets = 0, complete = 0, sizes[BW_EXPLAIN_CHANGES_CAP + 1] = {0};
    uint64_t tried = 0;
    fixture kept = *w->f;
    for (size_t asked = 0; denials < want; asked++) {
        assert_true(asked < want * 20);
        w->f->ctx = bw_ctx_new(0);
        random_ask(w);
        bw_explanation e = explain(w->f, w->a, &w->ask), again;
        check_decision(w, &e.decision);
        assert_int_equal(e.decision.allow, applied(w, NULL, 0));
        if (!e.decision.allow) {
            denials++;
            told += e.nsets > 0;
            complete += e.complete;
            sets += e.nsets;
            tried += e.tried;
            for (size_t i = 0; i < e.nsets; i++) {
                sizes[e.sets[i].n]++;
                check_set(w, &e.sets[i]);
            }
            if (denials % 16 == 0) {
                bw_str one = json_of(w->f, &e);
                again = explain(w->f, w->a, &w->ask);
                assert_true(bw_str_eq(one, json_of(w->f, &again)) || again.version != e.version);
            }
        }
        bw_ctx_free(w->f->ctx);
        w->f->ctx = kept.ctx;
    }
    printf("%zu denials, %zu of them with a way (%zu searches complete); %zu ways by size %zu/%zu/%zu, all turn; %.1f decisions a search\n",
           denials, told, complete, sets, sizes[1], sizes[2], sizes[3], (double)tried / (double)denials);
    assert_true(told > denials / 2);
}

static size_t denials_wanted(size_t day)
{
    const char *night = getenv("BW_NIGHTLY");
    return night && strcmp(night, "1") == 0 ? 20 * day : day;
}

static void test_explain__changes_turn_random_denials_of_the_packs(void **state)
{
    static const bw_str all[] = {{"all", 3}};
    world w = {.f = *state, .r = rnd_start("packs", 20261130)};
    for (int i = 0; i < 2; i++) {
        w.a = authority(w.f, i ? pack_compose(w.f->ctx, all, 1) : w.f->policies);
        check_denials(&w, denials_wanted(500));
        bw_authority_free(w.a);
    }
}

/* ---- random policies ---- */

static void put_condition(bw_buf *b, rnd *r, int depth)
{
    if (depth > 0 && rnd_below(r, 3)) {
        size_t kind = rnd_below(r, 4);
        bw_buf_puts(b, kind == 3 ? "!(" : "(");
        put_condition(b, r, depth - 1);
        if (kind < 2) {
            bw_buf_puts(b, kind ? " && " : " || ");
            put_condition(b, r, depth - 1);
        } else if (kind == 2) {
            bw_buf_puts(b, " && ");
            put_condition(b, r, depth - 1);
            bw_buf_puts(b, " || ");
            put_condition(b, r, depth - 1);
        }
        bw_buf_putc(b, ')');
        return;
    }
    bw_buf_puts(b, PICK(r, "resource.legalHold", "principal.clearance >= resource.sensitivity", "principal.clearance < 3",
        "resource.sensitivity <= 2", "resource.tenant == principal.tenant", "resource.regimes.contains(\"gdpr\")",
        "resource.regimes.containsAny([\"hipaa\", \"pipl\"])", "resource.categories.isEmpty()",
        "resource.labels.containsAll([\"internal\"])", "context.purpose == \"support\"", "context.purpose != \"\"",
        "resource.purposes.contains(context.purpose)", "context.safeguards.containsAll([\"scc\", \"tia\"])",
        "context.safeguards.contains(\"bcr\")", "context.at.country in resource.residency", "principal.seat in Bw::Zone::\"EU\"",
        "principal in Bw::Role::\"dpo\"", "principal in [Bw::Role::\"reader\", Bw::Role::\"editor\"]",
        "context.at.operator.certs.contains(\"dpf\")", "context.at.operator.seat in Bw::Zone::\"EU\"",
        "context.at.certs.contains(\"hds\")", "context.purpose like \"s*\"",
        "(if resource.legalHold then context.purpose == \"legal-claims\" else true)",
        "context.at.operator.foreignShareMax.lessThan(decimal(\"25.0\"))", "9223372036854775806 + principal.clearance > 0"));
}

static void put_random_policies(bw_buf *b, rnd *r)
{
    size_t n = 1 + rnd_below(r, 6);
    for (size_t i = 0; i <= n; i++) {
        bw_buf_printf(b, "%s (principal%s, action, resource is Bw::DataClass)", i == 0 || rnd_below(r, 3) == 0 ? "permit" : "forbid",
                      rnd_below(r, 5) ? "" : " in Bw::Role::\"editor\"");
        for (size_t c = rnd_below(r, 3); c-- > 0;) {
            bw_buf_puts(b, rnd_below(r, 2) ? " when { " : " unless { ");
            put_condition(b, r, 3);
            bw_buf_puts(b, " }");
        }
        bw_buf_puts(b, ";\n");
    }
}

static void test_explain__changes_turn_denials_of_random_policies(void **state)
{
    world w = {.f = *state, .r = rnd_start("random policies", 77)};
    size_t denied = 0, told = 0;
    for (size_t round = 0; round < denials_wanted(40); round++) {
        bw_buf b = {0};
        put_random_policies(&b, &w.r);
        w.a = authority(w.f, bw_buf_view(&b));
        bw_buf_clear(&b);
        for (int i = 0; i < 6; i++) {
            random_ask(&w);
            bw_explanation e = explain(w.f, w.a, &w.ask);
            check_decision(&w, &e.decision);
            assert_int_equal(e.decision.allow, applied(&w, NULL, 0));
            denied += !e.decision.allow;
            told += e.nsets > 0;
            for (size_t k = 0; k < e.nsets; k++)
                check_set(&w, &e.sets[k]);
        }
        bw_authority_free(w.a);
    }
    printf("%zu denials, %zu of them with a way\n", denied, told);
    assert_true(told > 0); /* many can never be met */
}

/* ---- memory ---- */

typedef struct failing {
    bw_authority *a;
    const bw_explain_ask *ask;
    const bw_str *right;
} failing;

static void explain_step(void *arg)
{
    const failing *x = arg;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_explanation e;
    bw_buf b = {0};
    if (!ctx)
        return;
    bw_status st = bw_explain(ctx, x->a, x->ask, &e);
    assert_true(st == BW_OK || (st == BW_ENOMEM && failing_hit));
    if (st == BW_OK) { /* never another explanation */
        bw_buf_putc(&b, '{');
        bw_explanation_put(&b, &e);
        bw_buf_putc(&b, '}');
        assert_true(b.failed || bw_str_eq(bw_buf_view(&b), *x->right));
        bw_buf_clear(&b);
    }
    bw_ctx_free(ctx);
}

static void test_explain__survives_every_failed_allocation(void **state)
{
    fixture *f = *state;
    bw_authority *a = authority(f, BW_STR(
        "@id(\"own\") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };"
        "@id(\"baa\") forbid (principal, action in Bw::Action::\"move\", resource is Bw::DataClass) unless { context.dest.operator.baaWith.contains(resource.tenant) && context.dest.hw.contains(\"tee\") };"));
    bw_principal ana = {.id = BW_STR("ana"), .tenant = BW_STR("acme"), .seat = BW_STR("FR"), .clearance = 3};
    bw_question q = {.principal = &ana, .action = BW_ACTION_TRANSFER, .purpose = BW_STR("")};
    bw_explain_ask ask = {.q = &q, .label_text = labels(f, "{\"regimes\":[\"none\"],\"residency\":[\"EU\"],\"sensitivity\":1}")};
    bw_explanation e = explain(f, a, &ask);
    bw_str right = json_of(f, &e);
    SAYS(right, "[{\"fact\":\"dest.hw\",\"add\":\"tee\",\"by\":\"operator\"},{\"fact\":\"dest.operator.baaWith\",\"add\":\"acme\"");
    failing x = {a, &ask, &right};
    long base = failing_live;
    assert_true(failing_sweep(explain_step, &x, 20000) > 20);
    assert_int_equal(failing_live, base);
    bw_authority_free(a);
}

int main(void)
{
    failing_set();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain__tells_the_condition_and_its_values),
        cmocka_unit_test(test_explain__tells_the_nearest_permit),
        cmocka_unit_test(test_explain__names_an_error_and_what_mends_it),
        cmocka_unit_test(test_explain__shows_nothing_of_others),
        cmocka_unit_test(test_explain__survives_every_failed_allocation),
        cmocka_unit_test(test_explain__changes_turn_random_denials_of_the_packs),
        cmocka_unit_test(test_explain__changes_turn_denials_of_random_policies),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
