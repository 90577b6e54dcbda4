/* Permitted sets against full authorization: for random policies (with conditions that
 * error), facts and classes, what is found by residuals, by single decisions and by
 * bw_cedar_authorize over entities read from JSON is the same; what is kept is what is
 * made anew, also after policies and facts were replaced. BW_NIGHTLY=1: more rounds. */
#include <policies/decision.h>

#include <setjmp.h>

#include <cmocka.h>

#include "rnd.h"

static const char schema_text[] =
    "namespace Bw { entity Zone in [Zone]; entity Country in [Zone] = { risk: Long };"
    "entity Role in [Role]; entity Tenant = { level: Long, seat?: Country } tags "
    "String;"
    "entity LegalEntity = { seat: Country };"
    "entity Node = { country: Country, operator: LegalEntity, certs: Set<String>,"
    "  hw: Set<String> };"
    "entity Identity in [Role] = { tenant: Tenant, clearance: Long, seat: Country };"
    "entity Collection = { tenant: Tenant, name: String };"
    "entity DataClass = { tenant: Tenant, regimes: Set<String>, residency: Set<Zone>,"
    "  sensitivity: Long, categories: Set<String>, labels: Set<String>,"
    "  purposes: Set<String>, legalHold: Bool, note?: String };"
    "type Access = { at: Node, purpose: String, safeguards: Set<String>, now?: "
    "datetime };"
    "type Move = { at: Node, dest: Node, purpose: String, safeguards: Set<String>,"
    "  now?: datetime };"
    "action access, move;"
    "action Query in [access] appliesTo { principal: [Identity], resource: [DataClass],"
    "  context: Access };"
    "action Store in [move] appliesTo { principal: [Identity], resource: [DataClass],"
    "  context: Move };"
    "action Export in [move, access] appliesTo { principal: [Identity],"
    "  resource: [DataClass], context: Move }; }";

enum { CLASSES = 24, QUESTIONS = 3 };

typedef struct world {
    bw_ctx *ctx; /* of one round */
    bw_ctx *long_lived;
    bw_catalogue *catalogue;
    bw_cedar_schema *schema;
    rnd r;
    bw_class_id ids[CLASSES]; /* sorted */
    bw_str texts[CLASSES];
    char hex[CLASSES][BW_CLASS_TEXT + 1];
    size_t listed, allowed, denied, errors, refused;
    bw_str policies, entities; /* in force in `old` */
    bw_authority *old;         /* lives through all replacements */
} world;

static const bw_str none[1];
static const bw_place here = {.id = {"par1", 4},
                              .country = {"FR", 2},
                              .operator_id = {"eucloud", 7},
                              .certs = none,
                              .hw = none};

static const char *pick(rnd *r, const char *const *list, size_t n)
{
    return list[rnd_below(r, n)];
}
#define PICK(r, ...)                              \
    pick((r), (const char *const[]){__VA_ARGS__}, \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bw_str pick_str(rnd *r, const char *const *list, size_t n)
{
    return bw_str_c(pick(r, list, n));
}

/* ---- classes: also of zones, tenants and words that nothing else knows ---- */

static bw_label_list some(world *w, const char *const *from, size_t n, size_t least)
{
    bw_str *items = bw_arena_calloc(w->long_lived, n, sizeof *items);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) /* sorted as they are written */
        if (rnd_below(&w->r, 3) == 0 || n - i <= least - count)
            items[count++] = bw_str_c(from[i]);
    return (bw_label_list){items, count};
}
#define SOME(w, least, ...)                       \
    some((w), (const char *const[]){__VA_ARGS__}, \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (least))

static void make_classes(world *w)
{
    static const char *const tenants[] = {"acme", "ghost", "hosp", "zed"};
    for (size_t n = 0; n < CLASSES;) {
        bw_labels l = {.tenant = pick_str(&w->r, tenants, 4),
                       .residency = SOME(w, 1, "EU", "FR", "US", "gone"),
                       .regimes = SOME(w, 0, "gdpr", "hipaa", "lost-word"),
                       .purposes = SOME(w, 0, "care", "support"),
                       .labels = SOME(w, 0, "internal", "lost-label"),
                       .sensitivity = (uint32_t)rnd_below(&w->r, 6),
                       .legal_hold = rnd_below(&w->r, 3) == 0};
        bw_str text;
        bw_class_id id;
        assert_int_equal(bw_labels_canonical(w->long_lived, &l, &text), BW_OK);
        bw_labels_class_id(text, &id);
        size_t k = n;
        while (k > 0 && bw_class_id_cmp(&w->ids[k - 1], &id) > 0)
            k--;
        if (k > 0 && bw_class_id_cmp(&w->ids[k - 1], &id) == 0)
            continue;
        memmove(w->ids + k + 1, w->ids + k, (n - k) * sizeof *w->ids);
        memmove(w->texts + k + 1, w->texts + k, (n - k) * sizeof *w->texts);
        w->ids[k] = id;
        w->texts[k] = text;
        n++;
    }
    for (size_t i = 0; i < CLASSES; i++)
        bw_class_id_hex(&w->ids[i], w->hex[i]);
}

static bw_status list(void *user, bw_ctx *ctx, const bw_class_id **classes, size_t *n,
                      uint64_t *version, uint8_t name[16])
{
    world *w = user;
    (void)ctx;
    (void)version;
    (void)name;
    w->listed++;
    *classes = w->ids;
    *n = CLASSES;
    return BW_OK;
}

static bw_status label_text(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out)
{
    world *w = user;
    (void)ctx;
    for (size_t i = 0; i < CLASSES; i++)
        if (bw_class_id_cmp(id, &w->ids[i]) == 0)
            *out = w->texts[i];
    return BW_OK;
}

/* ---- policies ---- */

static void put_atom(world *w, bw_buf *b)
{
    rnd *r = &w->r;
    const char *hex = w->hex[rnd_below(r, CLASSES)];
    switch (rnd_below(r, 9)) {
    case 0:
        bw_buf_printf(b, "resource == Bw::DataClass::\"%s\"", hex);
        return;
    case 1: /* an entity of the unknown's type: it may be the resource */
        bw_buf_printf(b, "Bw::DataClass::\"%s\".sensitivity < 3", hex);
        return;
    case 2:
        bw_buf_printf(b, "Bw::DataClass::\"%s\" has legalHold", hex);
        return;
    default:
        break;
    }
    bw_buf_puts(
        b,
        PICK(
            r, "resource.tenant.level > 1", /* errs: not every tenant has an entity */
            "principal.tenant.level >= resource.sensitivity",
            "(resource.tenant has seat && resource.tenant.seat in Bw::Zone::\"EU\")",
            "(resource.tenant.hasTag(\"k\") && resource.tenant.getTag(\"k\") == \"v\")",
            "(resource has note && resource.note == \"x\")", "resource has note",
            "resource.tenant == principal.tenant",
            "context.at.country in resource.residency",
            "context.at.operator.seat in resource.residency",
            "context.at.country.risk < resource.sensitivity",
            "principal.seat in resource.residency",
            "principal.seat in Bw::Zone::\"EU\"",
            "resource.residency.contains(Bw::Zone::\"gone\")",
            "resource.residency.containsAny([Bw::Zone::\"EU\", Bw::Zone::\"FR\"])",
            "resource.regimes.containsAll([\"gdpr\", \"lost-word\"])",
            "resource.labels.isEmpty()", "resource.legalHold",
            "resource.purposes.contains(context.purpose)",
            "context.safeguards.contains(\"scc\")", "context.purpose like \"c*\"",
            "principal in Bw::Role::\"staff\"", "principal == Bw::Identity::\"ana\"",
            "principal in [Bw::Role::\"editor\", Bw::Role::\"boss\"]",
            "principal.clearance >= resource.sensitivity",
            "9223372036854775805 + resource.sensitivity > 0",
            "9223372036854775805 + principal.clearance > 0",
            "(context has now && context.now < datetime(\"2026-06-01\"))",
            "(if resource.legalHold then resource.tenant.level > 0 else true)",
            "{a: resource.sensitivity, b: true}.a > 2",
            "[resource.tenant, principal.tenant].contains(Bw::Tenant::\"acme\")",
            "action in Bw::Action::\"move\"", "action == Bw::Action::\"Query\""));
}

static void put_condition(world *w, bw_buf *b, int depth)
{
    rnd *r = &w->r;
    if (depth == 0 || rnd_below(r, 3) == 0) {
        put_atom(w, b);
        return;
    }
    size_t kind = rnd_below(r, 4);
    bw_buf_puts(b, kind == 0 ? "!(" : kind == 1 ? "(if " : "(");
    put_condition(w, b, depth - 1);
    if (kind > 0) {
        bw_buf_puts(b, kind == 1 ? " then " : kind == 2 ? " && " : " || ");
        put_condition(w, b, depth - 1);
    }
    if (kind == 1) {
        bw_buf_puts(b, " else ");
        put_condition(w, b, depth - 1);
    }
    bw_buf_putc(b, ')');
}

static bw_str random_policies(world *w)
{
    bw_buf b = {0};
    bw_str out;
    rnd *r = &w->r;
    for (size_t n = 2 + rnd_below(r, 6), i = 0; i < n; i++) {
        bw_buf_printf(&b, "%s (%s, %s, %s)",
                      i == 0 || rnd_below(r, 2) ? "permit" : "forbid",
                      PICK(r, "principal", "principal", "principal is Bw::Identity",
                           "principal in Bw::Role::\"staff\"",
                           "principal == Bw::Identity::\"ana\""),
                      PICK(r, "action", "action", "action in Bw::Action::\"access\"",
                           "action in [Bw::Action::\"move\", Bw::Action::\"Query\"]",
                           "action == Bw::Action::\"Query\""),
                      PICK(r, "resource", "resource", "resource is Bw::DataClass"));
        for (size_t c = rnd_below(r, 3); c-- > 0;) {
            bw_buf_puts(&b, rnd_below(r, 2) ? " when { " : " unless { ");
            put_condition(w, &b, 3);
            bw_buf_puts(&b, " }");
        }
        bw_buf_puts(&b, ";\n");
    }
    assert_false(b.failed);
    assert_int_equal(bw_arena_str(w->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out;
}

/* ---- facts ---- */

static void put_entity(bw_buf *b, const char *type, const char *id, const char *attrs,
                       const char *parents)
{
    bw_json_sep(b);
    bw_buf_printf(
        b,
        "{\"uid\":{\"type\":\"Bw::%s\",\"id\":\"%s\"},\"attrs\":{%s},\"parents\":[%s]}",
        type, id, attrs, parents);
}

/* Half of what there could be, and things that nobody should write: another principal
 * and another class under the names of real ones. */
static bw_str random_entities(world *w)
{
    static const char *const eu = "{\"type\":\"Bw::Zone\",\"id\":\"EU\"}";
    bw_buf b = {0};
    bw_str out;
    rnd *r = &w->r;
    bw_buf_putc(&b, '[');
    put_entity(&b, "Zone", "EU", "", "");
    put_entity(&b, "Country", "FR", rnd_below(r, 2) ? "\"risk\":1" : "\"risk\":4",
               rnd_below(r, 4) ? eu : "");
    if (rnd_below(r, 2))
        put_entity(&b, "Country", "US", "\"risk\":3",
                   "{\"type\":\"Bw::Zone\",\"id\":\"US\"}");
    if (rnd_below(r, 2))
        put_entity(&b, "Role", "editor", "",
                   "{\"type\":\"Bw::Role\",\"id\":\"staff\"}");
    put_entity(&b, "Tenant", "acme", "\"level\":2", "");
    if (rnd_below(r, 2))
        put_entity(&b, "Tenant", "hosp",
                   "\"level\":0,\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"}", "");
    if (rnd_below(r, 2))
        put_entity(&b, "LegalEntity", "eucloud",
                   "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"}", "");
    if (rnd_below(r, 3) == 0)
        put_entity(
            &b, "Identity", "ana",
            "\"tenant\":{\"type\":\"Bw::Tenant\",\"id\":\"zed\"},\"clearance\":5,"
            "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"US\"}",
            "{\"type\":\"Bw::Role\",\"id\":\"boss\"}");
    if (rnd_below(r, 3) == 0)
        put_entity(
            &b, "DataClass", w->hex[rnd_below(r, CLASSES)],
            "\"tenant\":{\"type\":\"Bw::Tenant\",\"id\":\"acme\"},\"regimes\":[],"
            "\"residency\":[],\"sensitivity\":0,\"categories\":[],\"labels\":[],"
            "\"purposes\":[\"care\",\"support\"],\"legalHold\":false,"
            "\"note\":\"x\"",
            "");
    bw_buf_putc(&b, ']');
    assert_false(b.failed);
    assert_int_equal(bw_arena_str(w->ctx, bw_buf_view(&b), &out), BW_OK);
    bw_buf_clear(&b);
    return out;
}

/* ---- questions ---- */

typedef struct asking {
    bw_principal who;
    bw_place away;
    bw_str roles[2], safeguard;
    bw_question q;
} asking;

static void random_question(world *w, asking *k)
{
    static const char *const people[] = {"ana", "bob"},
                             *const tenants[] = {"acme", "ghost", "hosp"},
                             *const countries[] = {"FR", "US", "ZZ"},
                             *const purposes[] = {"", "care", "support"};
    static const bw_action actions[] = {BW_ACTION_QUERY, BW_ACTION_STORE,
                                        BW_ACTION_EXPORT};
    rnd *r = &w->r;
    *k = (asking){.roles = {BW_STR("editor"), BW_STR("reader")},
                  .safeguard = BW_STR("scc")};
    k->who = (bw_principal){.id = pick_str(r, people, 2),
                            .tenant = pick_str(r, tenants, 3),
                            .seat = pick_str(r, countries, 3),
                            .clearance = (uint32_t)rnd_below(r, 6),
                            .roles = k->roles,
                            .nroles = rnd_below(r, 3)};
    k->away = here;
    k->away.id = BW_STR("away");
    k->away.country = pick_str(r, countries, 3);
    k->q = (bw_question){.principal = &k->who,
                         .action = actions[rnd_below(r, 3)],
                         .purpose = pick_str(r, purposes, 3),
                         .safeguards = &k->safeguard,
                         .nsafeguards = rnd_below(r, 2),
                         .dest = rnd_below(r, 2) ? &k->away : NULL,
                         .at = rnd_below(r, 4) ? NULL : &k->away,
                         .now_ns = (int64_t)(1760000000 + rnd_below(r, 40000000)) *
                                   1000000000};
}

/* ---- the witness: Cedar over JSON, with nothing of ours but the rule ---- */

static bw_json *json(world *w, bw_buf *b)
{
    bw_json *v;
    bw_str text;
    assert_false(b->failed);
    assert_int_equal(bw_arena_str(w->ctx, bw_buf_view(b), &text), BW_OK);
    bw_buf_clear(b);
    if (bw_json_parse(w->ctx, text, BW_JSON_CEDAR, &v) != BW_OK)
        fail_msg("%.*s: %s", (int)text.len, text.ptr, bw_ctx_message(w->ctx));
    return v;
}

static bw_cedar_entities *store(world *w, bw_buf *b)
{
    bw_cedar_entities *e;
    if (bw_cedar_entities_parse(w->ctx, json(w, b), w->schema, &e) != BW_OK)
        fail_msg("entities: %s", bw_ctx_message(w->ctx));
    return e;
}

static void put_place(bw_buf *b, const bw_place *p)
{
    char attrs[200];
    (void)snprintf(attrs, sizeof attrs,
                   "\"country\":{\"type\":\"Bw::Country\",\"id\":\"%.*s\"},"
                   "\"operator\":{\"type\":\"Bw::LegalEntity\",\"id\":\"eucloud\"},"
                   "\"certs\":[],\"hw\":[]",
                   (int)p->country.len, p->country.ptr);
    put_entity(b, "Node", bw_str_is(p->id, "away") ? "away" : "par1", attrs, "");
}

static void put_refs(bw_buf *b, const char *type, const bw_json *names)
{
    for (const bw_json *v = names->child; v; v = v->next)
        bw_buf_printf(b, "%s{\"type\":\"Bw::%s\",\"id\":\"%.*s\"}",
                      v == names->child ? "" : ",", type, (int)v->str.len, v->str.ptr);
}

static void put_class(world *w, bw_buf *b, size_t i)
{
    static const char *const lists[] = {"regimes", "categories", "labels", "purposes"};
    bw_json *l;
    bw_buf attrs = {0};
    assert_int_equal(bw_json_parse(w->ctx, w->texts[i], BW_JSON_REQUEST, &l), BW_OK);
    bw_str tenant = bw_json_get(l, "tenant")->str;
    bw_buf_printf(&attrs, "\"tenant\":{\"type\":\"Bw::Tenant\",\"id\":\"%.*s\"},",
                  (int)tenant.len, tenant.ptr);
    bw_buf_puts(&attrs, "\"sensitivity\":");
    bw_buf_str(&attrs, bw_json_get(l, "sensitivity")->raw);
    bw_buf_puts(&attrs, ",\"legalHold\":");
    bw_buf_str(&attrs, bw_json_get(l, "legal_hold")->raw);
    bw_buf_puts(&attrs, ",\"residency\":[");
    put_refs(&attrs, "Zone", bw_json_get(l, "residency"));
    bw_buf_putc(&attrs, ']');
    for (int k = 0; k < 4; k++) {
        bw_json_put_key(&attrs, lists[k]);
        bw_buf_str(&attrs, bw_json_get(l, lists[k])->raw);
    }
    bw_buf_putc(&attrs, 0);
    put_entity(b, "DataClass", w->hex[i], attrs.ptr, "");
    bw_buf_clear(&attrs);
}

static bw_cedar_entities *extra_of(world *w, const asking *k, size_t class)
{
    bw_buf b = {0}, roles = {0};
    char attrs[200], id[8];
    const bw_principal *p = &k->who;
    (void)snprintf(
        attrs, sizeof attrs,
        "\"tenant\":{\"type\":\"Bw::Tenant\",\"id\":\"%.*s\"},"
        "\"clearance\":%u,\"seat\":{\"type\":\"Bw::Country\",\"id\":\"%.*s\"}",
        (int)p->tenant.len, p->tenant.ptr, p->clearance, (int)p->seat.len, p->seat.ptr);
    (void)snprintf(id, sizeof id, "%.*s", (int)p->id.len, p->id.ptr);
    for (size_t i = 0; i < p->nroles; i++)
        bw_buf_printf(&roles, "%s{\"type\":\"Bw::Role\",\"id\":\"%.*s\"}", i ? "," : "",
                      (int)p->roles[i].len, p->roles[i].ptr);
    bw_buf_putc(&roles, 0);
    bw_buf_putc(&b, '[');
    put_entity(&b, "Identity", id, attrs, roles.ptr);
    if (k->q.at || (k->q.dest && k->q.action != BW_ACTION_QUERY))
        put_place(&b, &k->away);
    put_class(w, &b, class);
    bw_buf_putc(&b, ']');
    bw_buf_clear(&roles);
    return store(w, &b);
}

static bw_json *context_of(world *w, const asking *k)
{
    const bw_place *at = k->q.at ? k->q.at : &here, *dest = k->q.dest ? k->q.dest : at;
    bw_buf b = {0};
    bw_buf_printf(&b, "{\"at\":{\"type\":\"Bw::Node\",\"id\":\"%.*s\"}",
                  (int)at->id.len, at->id.ptr);
    if (k->q.action != BW_ACTION_QUERY)
        bw_buf_printf(&b, ",\"dest\":{\"type\":\"Bw::Node\",\"id\":\"%.*s\"}",
                      (int)dest->id.len, dest->id.ptr);
    bw_buf_printf(&b, ",\"purpose\":\"%.*s\",\"safeguards\":[%s]",
                  (int)k->q.purpose.len, k->q.purpose.ptr,
                  k->q.nsafeguards ? "\"scc\"" : "");
    bw_buf_printf(&b,
                  ",\"now\":{\"__extn\":{\"fn\":\"offset\",\"args\":[{\"__extn\":{"
                  "\"fn\":\"datetime\",\"arg\":\"1970-01-01\"}},{\"__extn\":{\"fn\":"
                  "\"duration\",\"arg\":\"%lldms\"}}]}}}",
                  (long long)(k->q.now_ns / 1000000));
    return json(w, &b);
}

static bw_cedar_entities *base_of(world *w)
{
    bw_buf b = {0};
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(w->catalogue, &b);
    put_place(&b, &here);
    bw_buf_putc(&b, ',');
    bw_buf_put(&b, w->entities.ptr + 1, w->entities.len - 1);
    return store(w, &b);
}

static bool witness(world *w, const bw_cedar_policies *p, const bw_cedar_entities *base,
                    const asking *k, size_t class, size_t *nerrors)
{
    bw_cedar_entities *extra = extra_of(w, k, class);
    bw_cedar_request q = {
        .principal = {BW_STR("Bw::Identity"), k->who.id},
        .action = {BW_STR("Bw::Action"), bw_str_c(bw_action_name(k->q.action))},
        .resource = {BW_STR("Bw::DataClass"), bw_str_c(w->hex[class])},
        .context = context_of(w, k),
        .extra = extra};
    bw_cedar_answer a;
    if (bw_cedar_authorize(w->ctx, p, base, w->schema, &q, &a) != BW_OK)
        fail_msg("authorize: %s", bw_ctx_message(w->ctx));
    bw_cedar_entities_free(extra);
    *nerrors = a.nerrors;
    return a.allow && !a.forbid_errored;
}

/* ---- comparing ---- */

static bw_authority *authority(world *w, bw_str policies, bw_str entities)
{
    bw_authority *a;
    bw_authority_options o = {.schema = BW_STR(schema_text),
                              .policies = policies,
                              .entities = entities,
                              .catalogue = w->catalogue,
                              .at = here,
                              .supposed = true}; /* facts that no operator may state */
    if (bw_authority_new(w->ctx, &o, &a) != BW_OK)
        fail_msg("authority: %s\n%.*s", bw_ctx_message(w->ctx), (int)policies.len,
                 policies.ptr);
    return a;
}

static void differs(const world *w, const asking *k, size_t class, const char *what)
{
    fail_msg("%s: %s by %.*s, class %.*s\n%.*s\n%.*s", what,
             bw_action_name(k->q.action), (int)k->who.id.len, k->who.id.ptr,
             (int)w->texts[class].len, w->texts[class].ptr, (int)w->policies.len,
             w->policies.ptr, (int)w->entities.len, w->entities.ptr);
}

static void check_question(world *w, bw_authority *fresh, const bw_cedar_policies *p,
                           const bw_cedar_entities *base, const asking *k)
{
    bw_directory directory = {
        .version = 1, .list = list, .label_text = label_text, .user = w};
    const bw_permitted *cold, *kept;
    bw_permit plain;
    uint8_t digest[16];
    assert_int_equal(bw_permitted_acquire(w->ctx, w->old, &k->q, &directory, &cold),
                     BW_OK);
    size_t before = w->listed;
    assert_int_equal(bw_permitted_acquire(w->ctx, w->old, &k->q, &directory, &kept),
                     BW_OK);
    assert_int_equal(w->listed, before);
    assert_ptr_equal(cold, kept);
    assert_int_equal(bw_permitted_set(w->ctx, fresh, &k->q, w->ids, w->texts, CLASSES,
                                      &plain, digest),
                     BW_OK);
    for (size_t i = 0; i < CLASSES; i++) {
        size_t nerrors;
        bool want = witness(w, p, base, k, i, &nerrors);
        if (bw_permit_has(&kept->permit, &w->ids[i]) != want)
            differs(w, k, i, want ? "lacks a class" : "has a class");
        if (bw_permit_has(&plain, &w->ids[i]) != want)
            differs(w, k, i, "made anew differs");
        for (int old = 0; old < 3; old++) { /* the last time as it is kept */
            bw_decision d;
            assert_int_equal(bw_decide_class(w->ctx, old ? w->old : fresh, &k->q,
                                             &w->ids[i], w->texts[i], &d),
                             BW_OK);
            if (d.allow != want || d.nerrors != nerrors)
                differs(w, k, i, "the single decision differs");
        }
        w->allowed += want;
        w->denied += !want;
        w->errors += nerrors > 0;
    }
    bw_permitted_release(cold);
    bw_permitted_release(kept);
}

static void keep(world *w, bw_str *in_force, bw_str text)
{
    assert_int_equal(bw_arena_str(w->long_lived, text, in_force), BW_OK);
}

/* Replaces policies, facts or both; a set that does not validate leaves the old one. */
static void change(world *w)
{
    size_t what = rnd_below(&w->r, 3);
    if (what != 0) {
        bw_str text = random_entities(w);
        if (bw_authority_set_entities(w->ctx, w->old, text) != BW_OK)
            fail_msg("entities: %s", bw_ctx_message(w->ctx));
        keep(w, &w->entities, text);
    }
    if (what != 1) {
        bw_str text = random_policies(w);
        bw_status st = bw_authority_set_policies(w->ctx, w->old, text);
        assert_true(st == BW_OK || st == BW_EINVALID);
        w->refused += st != BW_OK;
        if (st == BW_OK)
            keep(w, &w->policies, text);
    }
}

static void test_permitted__is_what_full_authorization_allows(void **state)
{
    world *w = *state;
    const char *night = getenv("BW_NIGHTLY");
    size_t rounds = night && strcmp(night, "1") == 0 ? 2000 : 40;
    asking asked[QUESTIONS];
    w->r = rnd_start("permitted", 20261130);
    make_classes(w);
    for (int i = 0; i < QUESTIONS; i++)
        random_question(w, &asked[i]);
    for (size_t round = 0; round < rounds; round++) {
        bw_cedar_policies *p;
        w->ctx = bw_ctx_new(0);
        if (round == 0) {
            keep(w, &w->entities, random_entities(w));
            w->old = authority(w, w->policies, w->entities);
        }
        change(w);
        bw_authority *fresh = authority(w, w->policies, w->entities);
        bw_cedar_entities *base = base_of(w);
        assert_int_equal(bw_cedar_policies_parse(w->ctx, w->policies, &p), BW_OK);
        random_question(w, &asked[rnd_below(&w->r, QUESTIONS)]); /* the others again */
        for (int i = 0; i < QUESTIONS; i++)
            check_question(w, fresh, p, base, &asked[i]);
        bw_cedar_policies_free(p);
        bw_cedar_entities_free(base);
        bw_authority_free(fresh);
        bw_ctx_free(w->ctx);
    }
    printf("%zu allowed, %zu denied, %zu with errors, %zu sets refused\n", w->allowed,
           w->denied, w->errors, w->refused);
    assert_true(w->allowed > rounds && w->denied > rounds && w->errors > rounds);
    assert_true(w->refused < rounds / 4);
}

static int setup(void **state)
{
    static world w;
    w.long_lived = bw_ctx_new(0);
    w.policies = BW_STR("permit (principal, action, resource);");
    assert_int_equal(
        bw_catalogue_parse(
            w.long_lived,
            BW_STR("{\"date\":\"2026-01-01\",\"zones\":[],\"countries\":[]}"),
            (bw_str){0}, &w.catalogue),
        BW_OK);
    assert_int_equal(
        bw_cedar_schema_parse(w.long_lived, BW_STR(schema_text), &w.schema), BW_OK);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;
    bw_authority_free(w->old);
    bw_cedar_schema_free(w->schema);
    bw_catalogue_free(w->catalogue);
    bw_ctx_free(w->long_lived);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permitted__is_what_full_authorization_allows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
