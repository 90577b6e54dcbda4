/* What decisions cost: single ones and permitted sets, kept and made anew, over the
 * packs and their catalogue. Prints a line of JSON for each: medians of many short
 * turns, in nanoseconds of CPU time a call (other work on the machine disturbs it
 * less). Judges nothing.
 *
 * Usage: bw_decide_bench PACKS_FOLDER [CLASSES [POLICIES [SET [WORLD_FILE]]]]
 * CLASSES: of the collection (300). SET: which packs (eu-baseline). POLICIES: so many of theirs, again from the
 * start under other names when there are fewer (0: the set as it is). WORLD_FILE gets the
 * policies, schema, entities and one request a class with its answer, as JSON, so that
 * another engine can be asked the same. */
#include "policies/authority.h"
#include "policies/pack_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 201, CALLS_MAX = 200, CLASSES_MAX = 100000 };

static void must(bw_ctx *ctx, bw_status st)
{
    if (st == BW_OK)
        return;
    fprintf(stderr, "bw_decide_bench: %s %s\n", bw_ctx_pointer(ctx),
            bw_ctx_message(ctx));
    exit(1);
}

static bw_str file(bw_ctx *ctx, const char *dir, const char *name)
{
    const char *path = bw_arena_printf(ctx, "%s/%s", dir, name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    char *text = bw_arena_alloc(ctx, 4 << 20);
    if (!f || !text) {
        fprintf(stderr, "bw_decide_bench: no file %s\n", name);
        exit(2);
    }
    size_t n = fread(text, 1, 4 << 20, f);
    fclose(f);
    return (bw_str){text, n};
}

/* ---- the world ---- */

typedef struct class_row {
    bw_class_id id;
    bw_str text;
} class_row;

typedef struct bench {
    bw_ctx *world, *ctx;
    bw_catalogue *catalogue;
    bw_authority_options options;
    bw_authority *authority;
    class_row *classes; /* sorted by id */
    bw_class_id *ids;
    size_t n, one; /* the class of single decisions: the first that is allowed */
    bw_directory directory;
    uint64_t fresh; /* a principal that nobody has asked for yet */
    bool one_principal;
    size_t allowed;
} bench;

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

/* n label sets of one tenant; about a third are another's to read. */
static void make_classes(bench *b)
{
    static const bw_str eu[] = {{"EEA", 3}, {"FR", 2}}, us[] = {{"US", 2}},
                        gdpr = {"gdpr", 4}, purposes[] = {{"care", 4}, {"support", 7}};
    b->classes = bw_arena_calloc(b->world, b->n, sizeof *b->classes);
    b->ids = bw_arena_calloc(b->world, b->n, sizeof *b->ids);
    for (size_t i = 0; i < b->n; i++) {
        char *word = bw_arena_printf(b->world, "team-%zu", i);
        bw_str label = bw_str_c(word);
        bw_labels l = {.tenant = BW_STR("acme"),
                       .regimes = {&gdpr, i % 3 != 0},
                       .residency = i % 5 == 0 ? (bw_label_list){us, 1}
                                               : (bw_label_list){eu, 2},
                       .sensitivity = (uint32_t)(i % 4),
                       .labels = {&label, 1},
                       .purposes = {purposes, 2 - i % 2},
                       .legal_hold = i % 50 == 0};
        must(b->world, bw_labels_canonical(b->world, &l, &b->classes[i].text));
        bw_labels_class_id(b->classes[i].text, &b->classes[i].id);
    }
    qsort(b->classes, b->n, sizeof *b->classes, by_id);
    for (size_t i = 0; i < b->n; i++)
        b->ids[i] = b->classes[i].id;
}

static bw_status list(void *user, bw_ctx *ctx, const bw_class_id **classes, size_t *n,
                      uint64_t *version, uint8_t name[16])
{
    const bench *b = user;
    (void)ctx;
    (void)name;
    *version = 1;
    *classes = b->ids;
    *n = b->n;
    return BW_OK;
}

static bw_status label_text(void *user, bw_ctx *ctx, const bw_class_id *id, bw_str *out)
{
    const bench *b = user;
    const class_row *row = bsearch(id, b->classes, b->n, sizeof *row, by_id);
    (void)ctx;
    *out = row->text;
    return BW_OK;
}

static bw_status read_pack(void *user, bw_ctx *ctx, const char *name, bw_str *out)
{
    const char *path = bw_arena_printf(ctx, "%s/%s", (const char *)user, name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f)
        return bw_fail(ctx, BW_ENOTFOUND, "no file %s", name);
    fclose(f);
    *out = file(ctx, user, name);
    return BW_OK;
}

/* n policies of the text; a second round gets other names. */
static bw_str policies_of(bench *b, bw_str text, size_t n)
{
    bw_cedar_policies *set;
    bw_buf out = {0};
    bw_str made;
    must(b->world, bw_cedar_policies_parse(b->world, text, &set));
    size_t have = bw_cedar_policies_count(set);
    for (size_t i = 0; i < n; i++) {
        bw_str one = bw_cedar_policy_text(set, i % have);
        size_t head = sizeof "@id(\"" - 1;
        if (i >= have && one.len > head && memcmp(one.ptr, "@id(\"", head) == 0) {
            bw_buf_printf(&out, "@id(\"again-%zu-", i / have);
            one = (bw_str){one.ptr + head, one.len - head};
        }
        bw_buf_str(&out, one);
        bw_buf_putc(&out, '\n');
    }
    must(b->world, bw_arena_str(b->world, bw_buf_view(&out), &made));
    bw_buf_clear(&out);
    bw_cedar_policies_free(set);
    return made;
}

static void open_authority(bench *b, char *packs, const char *set, size_t npolicies)
{
    bw_pack_source source = {read_pack, packs};
    bw_str name = bw_str_c(set);
    must(b->world,
         bw_catalogue_parse(b->world, file(b->world, packs, "catalogue.json"),
                            (bw_str){NULL, 0}, &b->catalogue));
    static const bw_str hds = {"hds", 3}, tee = {"tee", 3};
    b->options = (bw_authority_options){
        .schema = file(b->world, packs, "bw.cedarschema"),
        .entities = BW_STR(
            "[{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"op\"},\"attrs\":{"
            "\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"controlZones\":[{"
            "\"type\":\"Bw::Zone\",\"id\":\"EU\"}],\"foreignShareMax\":\"1.0\","
            "\"foreignShareSum\":\"2.0\",\"baaWith\":[],\"certs\":[]},\"parents\":[]}]"),
        .catalogue = b->catalogue,
        .at = {BW_STR("par1"), BW_STR("FR"), BW_STR("op"), &hds, &tee, 1, 1}};
    must(b->world,
         bw_pack_compose(b->world, &source, &name, 1, &b->options.policies));
    if (npolicies > 0)
        b->options.policies = policies_of(b, b->options.policies, npolicies);
    must(b->world, bw_authority_new(b->world, &b->options, &b->authority));
    b->directory = (bw_directory){
        .version = 1, .list = list, .label_text = label_text, .user = b};
}

/* ---- what is timed ---- */

static void name_principal(bench *b, char id[24])
{
    snprintf(id, 24, "ana-%012llu",
             b->one_principal ? 0ull : (unsigned long long)++b->fresh);
}

static void question(bw_principal *who, const char *id, bw_question *q)
{
    static const bw_str roles[] = {{"editor", 6}};
    *who = (bw_principal){.id = {id, 16},
                          .tenant = BW_STR("acme"),
                          .seat = BW_STR("FR"),
                          .clearance = 3,
                          .roles = roles,
                          .nroles = 1};
    *q = (bw_question){
        .principal = who, .action = BW_ACTION_QUERY, .purpose = BW_STR("support")};
}

/* ---- the same for another engine ---- */

static void put_list(bw_buf *b, const char *key, const char *type,
                     const bw_label_list *l)
{
    bw_buf_printf(b, ",\"%s\":[", key);
    for (size_t i = 0; i < l->n; i++) {
        bw_json_sep(b);
        if (type)
            bw_buf_printf(b, "{\"__entity\":{\"type\":\"Bw::%s\",\"id\":", type);
        bw_json_put_str(b, l->items[i]);
        bw_buf_puts(b, type ? "}}" : "");
    }
    bw_buf_putc(b, ']');
}

static void put_class(bench *b, bw_buf *out, const class_row *row)
{
    bw_labels l;
    char hex[BW_CLASS_TEXT + 1];
    must(b->ctx, bw_labels_from_canonical(b->ctx, row->text, &l));
    bw_class_id_hex(&row->id, hex);
    bw_buf_printf(out,
                  ",{\"uid\":{\"type\":\"Bw::DataClass\",\"id\":\"%s\"},\"parents\":[],"
                  "\"attrs\":{\"tenant\":{\"__entity\":{\"type\":\"Bw::Tenant\",\"id\":"
                  "\"acme\"}},\"sensitivity\":%u,\"legalHold\":%s",
                  hex, l.sensitivity, l.legal_hold ? "true" : "false");
    put_list(out, "regimes", NULL, &l.regimes);
    put_list(out, "residency", "Zone", &l.residency);
    put_list(out, "categories", NULL, &l.categories);
    put_list(out, "labels", NULL, &l.labels);
    put_list(out, "purposes", NULL, &l.purposes);
    bw_buf_puts(out, "}}");
    bw_ctx_reset(b->ctx);
}

static void put_world(bench *b, const bw_question *q, bw_buf *out)
{
    bw_buf_puts(out, "{\"policies\":");
    bw_json_put_str(out, b->options.policies);
    bw_buf_puts(out, ",\"schema\":");
    bw_json_put_str(out, b->options.schema);
    bw_buf_puts(out, ",\"entities\":[");
    bw_catalogue_put_entities(b->catalogue, out);
    bw_buf_puts(out,
                ",{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"par1\"},\"parents\":[],"
                "\"attrs\":{\"country\":{\"__entity\":{\"type\":\"Bw::Country\",\"id\":"
                "\"FR\"}},\"operator\":{\"__entity\":{\"type\":\"Bw::LegalEntity\",\"id\":"
                "\"op\"}},\"certs\":[\"hds\"],\"hw\":[\"tee\"]}}");
    bw_buf_printf(out,
                  ",{\"uid\":{\"type\":\"Bw::Identity\",\"id\":\"%.*s\"},\"parents\":[{"
                  "\"type\":\"Bw::Role\",\"id\":\"editor\"}],\"attrs\":{\"tenant\":{"
                  "\"__entity\":{\"type\":\"Bw::Tenant\",\"id\":\"acme\"}},\"seat\":{"
                  "\"__entity\":{\"type\":\"Bw::Country\",\"id\":\"FR\"}},"
                  "\"clearance\":3}},",
                  (int)q->principal->id.len, q->principal->id.ptr);
    bw_str own = b->options.entities;
    bw_buf_put(out, own.ptr + 1, own.len - 2);
    for (size_t i = 0; i < b->n; i++)
        put_class(b, out, &b->classes[i]);
    bw_buf_puts(out, "],\"requests\":[");
    for (size_t i = 0; i < b->n; i++) {
        const bw_decision *d;
        char hex[BW_CLASS_TEXT + 1];
        bw_class_id_hex(&b->classes[i].id, hex);
        must(b->ctx, bw_decision_acquire(b->ctx, b->authority, q, &b->classes[i].id,
                                         b->classes[i].text, &d));
        bw_buf_printf(out,
                      "%s{\"principal\":\"%.*s\",\"class\":\"%s\",\"allow\":%s}",
                      i ? "," : "", (int)q->principal->id.len, q->principal->id.ptr,
                      hex, d->allow ? "true" : "false");
        bw_decision_release(d);
        bw_ctx_reset(b->ctx);
    }
    bw_buf_puts(out, "]}\n");
}

static void write_world(bench *b, const bw_question *q, const char *path)
{
    bw_buf out = {0};
    put_world(b, q, &out);
    FILE *f = fopen(path, "wb");
    if (!f || out.failed || fwrite(out.ptr, 1, out.len, f) != out.len ||
        fclose(f) != 0) {
        fprintf(stderr, "bw_decide_bench: cannot write %s\n", path);
        exit(1);
    }
    bw_buf_clear(&out);
}

static void decide_once(bench *b, const bw_question *q)
{
    const bw_decision *d;
    const class_row *row = &b->classes[b->one];
    must(b->ctx,
         bw_decision_acquire(b->ctx, b->authority, q, &row->id, row->text, &d));
    b->allowed += d->allow;
    bw_decision_release(d);
}

static void set_once(bench *b, const bw_question *q)
{
    const bw_permitted *p;
    must(b->ctx, bw_permitted_acquire(b->ctx, b->authority, q, &b->directory, &p));
    b->allowed += p->permit.n;
    while (p->permit.n > 0 && !bw_permit_has(&p->permit, &b->ids[b->one]))
        b->one++;
    bw_permitted_release(p);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_ns(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, double ns[TURNS], size_t allowed, size_t of)
{
    qsort(ns, TURNS, sizeof *ns, by_ns);
    printf("{\"what\":\"%s\",\"ns\":%.1f,\"ns_least\":%.1f,\"ns_p90\":%.1f,\"allowed\":%zu,"
           "\"of\":%zu}\n",
           what, ns[TURNS / 2], ns[0], ns[TURNS * 9 / 10], allowed, of);
}

static void measure(bench *b, const char *what,
                    void (*once)(bench *, const bw_question *), bool kept, int calls)
{
    static double ns[TURNS];
    bw_principal who;
    bw_question q;
    static char id[CALLS_MAX][24];
    b->one_principal = kept;
    b->allowed = 0;
    name_principal(b, id[0]);
    question(&who, id[0], &q);
    once(b, &q);
    size_t allowed = b->allowed;
    for (int t = 0; t < TURNS; t++) {
        if (!kept) /* as after a change of policies, when answers are made anew */
            bw_answers__empty(b->authority->answers);
        for (int i = 0; i < calls && !kept; i++)
            name_principal(b, id[i]);
        uint64_t begin = cpu_ns();
        for (int i = 0; i < calls; i++) {
            if (!kept)
                question(&who, id[i], &q);
            once(b, &q);
            if (!kept)
                bw_ctx_reset(b->ctx);
        }
        ns[t] = (double)(cpu_ns() - begin) / calls;
    }
    report(what, ns, allowed, once == set_once ? b->n : 1);
}

/* Cedar's part of a cold decision, everything put together before: what the reference
 * engine's own clock measures. */
static void measure_authorize(bench *b, int calls)
{
    static double ns[TURNS];
    bw_principal who;
    bw_question q;
    bw_cedar_request request;
    bw_cedar_answer answer = {0};
    bw_class_entity *e;
    char id[24];
    const class_row *row = &b->classes[b->one];
    bw_rules *rules = bw_rules__acquire(b->authority);
    name_principal(b, id);
    question(&who, id, &q);
    must(b->world, bw_class__prepare(b->world, b->authority, who.tenant, &row->id,
                                     row->text, &e));
    must(b->world,
         bw_question__request(b->world, b->authority, rules, &q, "Bw::DataClass",
                              bw_str_c(e->hex), NULL, e->store, &request));
    for (int t = 0; t < TURNS; t++) {
        uint64_t begin = cpu_ns();
        for (int i = 0; i < calls; i++) {
            must(b->ctx, bw_cedar_authorize(b->ctx, rules->policies,
                                            rules->facts->entities,
                                            b->authority->schema, &request, &answer));
            bw_ctx_reset(b->ctx);
        }
        ns[t] = (double)(cpu_ns() - begin) / calls;
    }
    report("authorization alone", ns, answer.allow, 1);
    bw_kept__release(&e->head);
    bw_rules__release(rules);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bw_decide_bench PACKS_FOLDER [CLASSES [POLICIES "
                        "[SET [WORLD_FILE]]]]\n");
        return 2;
    }
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : 300;
    bench b = {.world = bw_ctx_new(0), .ctx = bw_ctx_new(0)};
    b.n = n > 0 && n <= CLASSES_MAX ? (size_t)n : 300;
    make_classes(&b);
    long policies = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    open_authority(&b, argv[1], argc > 4 ? argv[4] : "eu-baseline",
                   policies > 0 ? (size_t)policies : 0);
    bw_principal who;
    bw_question q;
    char id[24];
    name_principal(&b, id);
    question(&who, id, &q);
    uint64_t begin = cpu_ns();
    set_once(&b, &q);
    printf("{\"what\":\"set, first: every class prepared\",\"ns\":%llu,\"of\":%zu}\n",
           (unsigned long long)(cpu_ns() - begin), b.n);
    measure_authorize(&b, 500);
    measure(&b, "decision, kept", decide_once, true, 5000);
    measure(&b, "decision, cold", decide_once, false, 200);
    measure(&b, "set, kept", set_once, true, 5000);
    measure(&b, "set, cold", set_once, false, b.n > 1000 ? 1 : 20);
    if (argc > 5)
        write_world(&b, &q, argv[5]);
    bw_authority_free(b.authority);
    bw_catalogue_free(b.catalogue);
    bw_ctx_free(b.ctx);
    bw_ctx_free(b.world);
    return 0;
}
