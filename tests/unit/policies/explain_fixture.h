/* What the tests of explain share: the packs, some operators, and random questions. */
#ifndef BW_TEST_EXPLAIN_FIXTURE_H
#define BW_TEST_EXPLAIN_FIXTURE_H
#include <policies/explain.h>

#include <setjmp.h>
#include <cmocka.h>
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

static inline void put_refs(bw_buf *b, const char *type, bw_str names)
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
static inline void changed_names(bw_buf *b, const char *names, const bw_what_if *w, const char *id,
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

static inline bw_str set_or(const bw_what_if *w, const char *id, bw_fact dest, bw_fact at, const char *else_)
{
    for (size_t i = 0; w && i < w->noperators; i++) {
        const bw_change *c = &w->operators[i];
        bw_str whose = c->fact < BW_FACT_AT ? w->dest.operator_id : w->at.operator_id;
        if ((c->fact == dest || c->fact == at) && bw_str_eq(whose, bw_str_c(id)))
            return c->value;
    }
    return bw_str_c(else_);
}

static inline bw_str entities_text(bw_ctx *ctx, const bw_what_if *w)
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

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
    fixture *f = *state;
    bw_catalogue_free(f->catalogue);
    bw_ctx_free(f->ctx);
    return 0;
}

static const bw_str none[1];
static const bw_place paris = {.id = {"par1", 4}, .country = {"FR", 2}, .operator_id = {"eucloud", 7}, .certs = none, .hw = none};

static inline bw_authority *authority_by(fixture *f, bw_str policies, bool cedar_errors)
{
    bw_authority *a;
    bw_authority_options o = {.schema = f->schema, .policies = policies, .catalogue = f->catalogue,
                              .entities = entities_text(f->ctx, NULL), .at = paris, .cedar_errors = cedar_errors};
    if (bw_authority_new(f->ctx, &o, &a) != BW_OK)
        fail_msg("authority: %s", bw_ctx_message(f->ctx));
    return a;
}

static inline bw_authority *authority(fixture *f, bw_str policies)
{
    return authority_by(f, policies, false);
}

static inline bw_str labels(fixture *f, const char *json)
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

static inline bw_explanation explain(fixture *f, bw_authority *a, const bw_explain_ask *ask)
{
    bw_explanation e;
    if (bw_explain(f->ctx, a, ask, &e) != BW_OK)
        fail_msg("explain: %s", bw_ctx_message(f->ctx));
    return e;
}

static inline bw_str json_of(fixture *f, const bw_explanation *e)
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

static inline bool says(bw_str text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

#define SAYS(text, what)                                                        \
    do {                                                                        \
        if (!says((text), (what)))                                              \
            fail_msg("no %s in %.*s", (what), (int)(text).len, (text).ptr);     \
    } while (0)

static const bw_str purposes[] = {{"care", 4}, {"support", 7}};

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

static inline const char *pick(rnd *r, const char *const *list, size_t n)
{
    return list[rnd_below(r, n)];
}
#define PICK(r, ...)                                                                 \
    pick((r), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Some words of a list, quoted; perhaps none. */
static inline void put_some(bw_buf *b, rnd *r, const char *const *list, size_t n, unsigned in)
{
    for (size_t i = 0; i < n; i++)
        if (rnd_below(r, in) == 0) {
            bw_json_sep(b);
            bw_buf_printf(b, "\"%s\"", list[i]);
        }
}
#define SOME(b, r, in, ...)                                                               \
    put_some((b), (r), (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (in))

static inline bw_str random_labels(world *w)
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

static inline void random_words(world *w, const bw_str **out, size_t *n, const char *const *list, size_t count, unsigned in)
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

static inline void random_place(world *w, bw_place *p, const char *id)
{
    *p = (bw_place){.id = bw_str_c(id),
        .country = bw_str_c(PICK(&w->r, "FR", "DE", "US", "CN", "JP", "IN", "CH", "GB", "IS", "AF")),
        .operator_id = bw_str_c(PICK(&w->r, "eucloud", "uscloud", "local", "usfr", "nobody"))};
    WORDS(w, &p->certs, &p->ncerts, 3, "hds", "secnumcloud-3.2");
    WORDS(w, &p->hw, &p->nhw, 3, "gpu", "tee");
}

static inline void random_ask(world *w)
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
#endif
