/* A workload's profile from JSON (place.h). Every member is known or refused; a class,
 * a country, a purpose, a safeguard must be of the catalogue, since a word that nobody
 * knows would make an answer about another workload than the one that was meant. */
#include "place.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIST_MAX = 64, TEXT_MAX = 100 };

typedef struct reading {
    bw_ctx *ctx;
    const bw_catalogue *catalogue;
} reading;

static bw_status bad(const reading *r, const bw_json *v, const char *what)
{
    const char *at = bw_json_pointer(r->ctx, v);
    return at ? bw_fail_at(r->ctx, BW_EINVALID, at, "profile: %s", what) : BW_ENOMEM;
}

static bw_status members(const reading *r, const bw_json *v, const char *const *allowed)
{
    if (v->kind != BW_JSON_OBJECT)
        return bad(r, v, "wants an object");
    for (const bw_json *e = v->child; e; e = e->next) {
        size_t i = 0;
        while (allowed[i] && !bw_str_eq(e->key, bw_str_c(allowed[i])))
            i++;
        if (!allowed[i])
            return bad(r, e, "is no member of a profile");
    }
    return BW_OK;
}

static bw_status text_of(const reading *r, const bw_json *v, bw_str *out)
{
    if (v->kind != BW_JSON_STRING || v->str.len == 0 || v->str.len > TEXT_MAX)
        return bad(r, v, "wants a text of 1 to 100 bytes");
    for (size_t i = 0; i < v->str.len; i++)
        if (v->str.ptr[i] < ' ' || v->str.ptr[i] > '~')
            return bad(r, v, "wants printable ASCII");
    *out = v->str;
    return BW_OK;
}

/* Absent leaves *out, unless it is needed. */
static bw_status text(const reading *r, const bw_json *v, const char *name, bool needed,
                      bw_str *out)
{
    const bw_json *e = bw_json_get(v, name);
    if (!e && needed) {
        char why[64];
        (void)snprintf(why, sizeof why, "lacks \"%s\"", name);
        return bad(r, v, why);
    }
    return e ? text_of(r, e, out) : BW_OK;
}

typedef struct range {
    const char *name;
    double least, most;
    bool needed, whole;
} range;

static bw_status number(const reading *r, const bw_json *v, range want, double *out)
{
    const bw_json *e = bw_json_get(v, want.name);
    char why[96];
    if (!e && !want.needed)
        return BW_OK;
    (void)snprintf(why, sizeof why,
                   want.whole ? "wants \"%s\": digits alone, %.0f to %.0f"
                              : "wants \"%s\": a number of %g to %g",
                   want.name, want.least, want.most);
    if (!e || e->kind != BW_JSON_NUMBER || !(e->real >= want.least) ||
        e->real > want.most || (want.whole && !e->is_int))
        return bad(r, e ? e : v, why);
    *out = e->real + 0.0; /* no negative zero */
    return BW_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

/* A list of texts, sorted, each once. known: whether a word is one, or NULL. */
static bw_status texts(const reading *r, const bw_json *v, const char *name,
                       bool (*known)(const bw_catalogue *, bw_str), bw_texts *out)
{
    const bw_json *list = bw_json_get(v, name);
    if (!list)
        return BW_OK;
    if (list->kind != BW_JSON_ARRAY || list->count > LIST_MAX)
        return bad(r, list, "wants a list of at most 64 texts");
    bw_str *items = bw_arena_calloc(r->ctx, list->count + 1, sizeof *items);
    size_t n = 0, kept = 0;
    if (!items)
        return BW_ENOMEM;
    for (const bw_json *e = list->child; e; e = e->next) {
        bw_status st = text_of(r, e, &items[n]);
        if (st == BW_OK && known && !known(r->catalogue, items[n]))
            st = bad(r, e, "is not of the catalogue");
        if (st != BW_OK)
            return st;
        n++;
    }
    if (n)
        qsort(items, n, sizeof *items, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !bw_str_eq(items[kept - 1], items[i]))
            items[kept++] = items[i];
    *out = (bw_texts){items, kept};
    return BW_OK;
}

static bool is_safeguard(const bw_catalogue *c, bw_str word)
{
    return bw_catalogue_has_word(c, "safeguards", word);
}

static bool is_hw(const bw_catalogue *c, bw_str word)
{
    return bw_catalogue_has_word(c, "hw", word);
}

static bw_status read_principal(const reading *r, const bw_json *root, bw_principal *p)
{
    static const char *const allowed[] = {"principal", "tenant", "seat",
                                          "clearance", "roles",  NULL};
    const bw_json *v = bw_json_get(root, "principal");
    bw_texts roles = {NULL, 0};
    double clearance = 0;
    if (!v)
        return bad(r, root, "lacks \"principal\"");
    bw_status st = members(r, v, allowed);
    if (st == BW_OK)
        st = text(r, v, "principal", true, &p->id);
    if (st == BW_OK)
        st = text(r, v, "tenant", true, &p->tenant);
    if (st == BW_OK)
        st = text(r, v, "seat", true, &p->seat);
    if (st == BW_OK && !bw_catalogue_has_country(r->catalogue, p->seat))
        st = bad(r, bw_json_get(v, "seat"), "is no country of the catalogue");
    if (st == BW_OK)
        st = number(r, v, (range){"clearance", 0, 5, true, true}, &clearance);
    if (st == BW_OK)
        st = texts(r, v, "roles", NULL, &roles);
    p->clearance = (uint32_t)clearance;
    p->roles = roles.items;
    p->nroles = roles.n;
    return st;
}

/* The message of a bad label set, with its place in the profile. */
static bw_status at_class(const reading *r, size_t n)
{
    const char *at =
        bw_arena_printf(r->ctx, "/classes/%zu%s", n, bw_ctx_pointer(r->ctx));
    const char *why = bw_arena_printf(r->ctx, "%s", bw_ctx_message(r->ctx));
    return at && why ? bw_fail_at(r->ctx, BW_EINVALID, at, "%s", why) : BW_ENOMEM;
}

static bw_status read_classes(const reading *r, const bw_json *root,
                              const bw_json *list, bw_profile *p)
{
    if (!list)
        list = bw_json_get(root, "classes");
    if (!list || list->kind != BW_JSON_ARRAY || list->count == 0 ||
        list->count > BW_PLACE_CLASSES_MAX)
        return bad(r, list ? list : root, "wants \"classes\": 1 to 64 label sets");
    for (const bw_json *v = list->child; v; v = v->next) {
        bw_labels labels;
        bw_status st =
            bw_labels_parse(r->ctx, r->catalogue, v, p->principal.tenant, &labels);
        if (st == BW_EINVALID)
            return at_class(r, p->nclasses);
        if (st == BW_OK)
            st = bw_labels_canonical(r->ctx, &labels, &p->class_text[p->nclasses]);
        if (st != BW_OK)
            return st;
        bw_labels_class_id(p->class_text[p->nclasses], &p->class_id[p->nclasses]);
        p->nclasses++;
    }
    return BW_OK;
}

static bw_status read_actions(const reading *r, const bw_json *root, bw_profile *p)
{
    static const bw_action usual[] = {BW_ACTION_STORE, BW_ACTION_QUERY, BW_ACTION_EMBED,
                                      BW_ACTION_REPLICATE};
    const bw_json *list = bw_json_get(root, "actions");
    if (!list) {
        memcpy(p->actions, usual, sizeof usual);
        p->nactions = sizeof usual / sizeof *usual;
        return BW_OK;
    }
    if (list->kind != BW_JSON_ARRAY || list->count == 0)
        return bad(r, list, "wants a list of actions");
    for (const bw_json *v = list->child; v; v = v->next) {
        bw_action a;
        if (v->kind != BW_JSON_STRING || !bw_action_parse(v->str, &a) ||
            a >= BW_ACTION_MANAGE_COLLECTION)
            return bad(r, v, "is no action on data");
        for (size_t i = 0; i < p->nactions; i++)
            if (p->actions[i] == a)
                return bad(r, v, "is said twice");
        p->actions[p->nactions++] = a;
    }
    return BW_OK;
}

static bw_status read_precision(const reading *r, const bw_json *root, bw_profile *p)
{
    static const struct {
        const char *name;
        double bits;
    } known[] = {{"f32", 32}, {"f16", 16}, {"bf16", 16}, {"int8", 8}, {"b1", 1}};
    p->precision = BW_STR("f32");
    bw_status st = text(r, root, "precision", false, &p->precision);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bw_str_eq(p->precision, bw_str_c(known[i].name)))
            p->bits = known[i].bits;
    if (st == BW_OK && p->bits == 0)
        return bad(r, bw_json_get(root, "precision"),
                   "is none of f32, f16, bf16, int8, b1");
    return st;
}

static bw_status read_model(const reading *r, const bw_json *root, bw_profile *p)
{
    static const char *const allowed[] = {"parameters", "bytes_per_parameter",
                                          "tokens_per_second", "name", NULL};
    const bw_json *v = bw_json_get(root, "model");
    bw_str name;
    if (!v)
        return BW_OK;
    p->model_bytes = 2;
    bw_status st = members(r, v, allowed);
    if (st == BW_OK)
        st = text(r, v, "name", false, &name);
    if (st == BW_OK)
        st = number(r, v, (range){"parameters", 1, 1e13, true, true},
                    &p->model_parameters);
    if (st == BW_OK)
        st = number(r, v, (range){"bytes_per_parameter", 0.5, 8, false, false},
                    &p->model_bytes);
    if (st == BW_OK)
        st = number(r, v, (range){"tokens_per_second", 0, 1e12, true, false},
                    &p->model_tokens_s);
    return st;
}

static bw_status read_budget(const reading *r, const bw_json *root, bw_profile *p)
{
    static const char *const allowed[] = {"per_month", "currency", NULL};
    const bw_json *v = bw_json_get(root, "budget");
    p->budget = BW_UNKNOWN;
    p->currency = BW_STR("USD");
    if (!v)
        return BW_OK;
    bw_status st = members(r, v, allowed);
    if (st == BW_OK)
        st = number(r, v, (range){"per_month", 0, 1e12, true, false}, &p->budget);
    if (st == BW_OK)
        st = text(r, v, "currency", true, &p->currency);
    for (size_t i = 0; st == BW_OK && i < p->currency.len; i++)
        if (p->currency.len != 3 || p->currency.ptr[i] < 'A' ||
            p->currency.ptr[i] > 'Z')
            st = bad(r, bw_json_get(v, "currency"),
                     "wants three capital letters (ISO 4217)");
    return st;
}

static bw_status read_load(const reading *r, const bw_json *root, bw_profile *p)
{
    const bw_json *spot = bw_json_get(root, "spot");
    p->replicas = 1;
    p->recall = 0.95;
    p->latency_ms = BW_UNKNOWN;
    bw_status st =
        number(r, root, (range){"vectors", 0, 1e12, true, true}, &p->vectors);
    if (st == BW_OK)
        st = number(r, root, (range){"dimension", 1, 65536, true, true}, &p->dimension);
    if (st == BW_OK)
        st = number(r, root, (range){"replicas", 1, 16, false, true}, &p->replicas);
    if (st == BW_OK)
        st = number(r, root, (range){"qps", 0, 1e9, true, false}, &p->qps);
    if (st == BW_OK)
        st = number(r, root, (range){"recall", 0.5, 1, false, false}, &p->recall);
    if (st == BW_OK)
        st = number(r, root, (range){"latency_ms", 0.01, 1e6, false, false},
                    &p->latency_ms);
    if (st == BW_OK)
        st = read_precision(r, root, p);
    if (st == BW_OK && spot && !bw_json_is_bool(spot))
        st = bad(r, spot, "wants true or false");
    p->spot = spot && spot->kind == BW_JSON_TRUE;
    return st;
}

static bw_status read_wishes(const reading *r, const bw_json *root, bw_profile *p)
{
    bw_status st = texts(r, root, "safeguards", is_safeguard, &p->safeguards);
    if (st == BW_OK)
        st = texts(r, root, "countries", bw_catalogue_has_zone, &p->countries);
    if (st == BW_OK)
        st = texts(r, root, "providers", NULL, &p->providers);
    if (st == BW_OK)
        st = texts(r, root, "hw", is_hw, &p->hw);
    if (st == BW_OK)
        st = texts(r, root, "certs", NULL, &p->certs);
    if (st == BW_OK)
        st = texts(r, root, "inference_api", NULL, &p->inference_api);
    return st;
}

bw_status bw_profile_read(bw_ctx *ctx, const bw_catalogue *catalogue, const bw_json *v,
                          const bw_json *classes, bw_profile *out)
{
    static const char *const allowed[] = {
        "name",          "principal", "purpose",    "safeguards", "classes",
        "actions",       "vectors",   "dimension",  "precision",  "replicas",
        "qps",           "recall",    "latency_ms", "model",      "budget",
        "spot",          "countries", "providers",  "hw",         "certs",
        "inference_api", NULL};
    const reading r = {ctx, catalogue};
    memset(out, 0, sizeof *out);
    out->catalogue = catalogue;
    bw_status st = members(&r, v, allowed);
    if (st == BW_OK)
        st = text(&r, v, "name", false, &out->name);
    if (st == BW_OK)
        st = read_principal(&r, v, &out->principal);
    if (st == BW_OK)
        st = text(&r, v, "purpose", false, &out->purpose);
    if (st == BW_OK && out->purpose.len &&
        !bw_catalogue_has_word(catalogue, "purposes", out->purpose))
        st = bad(&r, bw_json_get(v, "purpose"), "is not of the catalogue");
    if (st == BW_OK)
        st = read_classes(&r, v, classes, out);
    if (st == BW_OK)
        st = read_actions(&r, v, out);
    if (st == BW_OK)
        st = read_load(&r, v, out);
    if (st == BW_OK)
        st = read_model(&r, v, out);
    if (st == BW_OK)
        st = read_budget(&r, v, out);
    if (st == BW_OK)
        st = read_wishes(&r, v, out);
    if (st == BW_OK && out->vectors < 1 && out->model_parameters < 1)
        st = bad(&r, v, "wants vectors or a model");
    return st;
}
