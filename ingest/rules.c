/* Label rules and the detectors' table (rules.h). Leaves out: who may store what the
 * rules say, which the policies decide. */
#include "glob.h"
#include "regex.h"
#include "rules.h"

enum { CONDITION_BYTES_MAX = 1024 };

typedef struct rule {
    bw_rule shown;                     /* first: what callers get points here */
    bw_str source, collection, tenant; /* conditions; ptr NULL: any */
    uint32_t media;                    /* bits by bw_media; 0: any */
    const bw_json *metadata;           /* object of globs, or NULL */
    bw_regex *text;
    bool raises;
    bw_label_raise raise;
} rule;

struct bw_rules {
    bw_ctx *mem; /* owns the text, its nodes and the lists */
    rule *rules;
    size_t nrules, ntext;
    bw_label_raise builtin[BW_DETECT_COUNT], more[BW_DETECT_COUNT];
};

/* ---- reading ---- */

typedef struct reading {
    bw_ctx *ctx; /* rules' own: errors are moved to the caller's at the end */
    bw_rules *r;
    const bw_catalogue *catalogue;
    bw_rules_use use;
} reading;

static bw_status bad(reading *x, const bw_json *at, const char *what)
{
    return bw_fail_at(x->ctx, BW_EINVALID, bw_json_pointer(x->ctx, at), "%s", what);
}

/* The failure of a part read by somebody who knows only its own pointers. */
static bw_status below(reading *x, const bw_json *at, bw_status st)
{
    if (st != BW_EINVALID)
        return st;
    const char *pointer = bw_arena_printf(x->ctx, "%s%s", bw_json_pointer(x->ctx, at),
                                          bw_ctx_pointer(x->ctx));
    const char *why = bw_arena_printf(x->ctx, "%s", bw_ctx_message(x->ctx));
    return pointer && why ? bw_fail_at(x->ctx, BW_EINVALID, pointer, "%s", why)
                          : BW_ENOMEM;
}

static bw_status words(reading *x, const bw_json *v, bw_str *out)
{
    if (v->kind != BW_JSON_STRING || v->str.len == 0 ||
        v->str.len > CONDITION_BYTES_MAX)
        return bad(x, v, "wants a text of 1 to 1,024 bytes");
    *out = v->str;
    return BW_OK;
}

static bw_status glob(reading *x, const bw_json *v, bw_str *out)
{
    bw_status st = words(x, v, out);
    return st == BW_OK && !bw_glob_valid(*out)
               ? bad(x, v, "no glob: `[` and a `\\` at the end are not taken")
               : st;
}

static bw_status name(reading *x, const bw_json *v, bw_str *out)
{
    bool ok =
        v->kind == BW_JSON_STRING && v->str.len > 0 && v->str.len <= BW_RULES_NAME_MAX;
    for (size_t i = 0; ok && i < v->str.len; i++)
        ok = v->str.ptr[i] > ' ' && v->str.ptr[i] <= '~' && v->str.ptr[i] != '/';
    if (!ok)
        return bad(x, v, "a name has 1 to 64 signs of ASCII, no blank and no slash");
    *out = v->str;
    return BW_OK;
}

static bw_status media(reading *x, const bw_json *v, uint32_t *out)
{
    const bw_json *e = v;
    if (v->kind != BW_JSON_STRING && v->kind != BW_JSON_ARRAY)
        return bad(x, v, "wants a media type, or a list of them");
    if (v->kind == BW_JSON_ARRAY && v->count == 0)
        return bad(x, v, "names no media type");
    for (e = v->kind == BW_JSON_ARRAY ? v->child : v; e;
         e = v->kind == BW_JSON_ARRAY ? e->next : NULL) {
        bw_media m =
            e->kind == BW_JSON_STRING ? bw_media_from_type(e->str) : BW_MEDIA_UNKNOWN;
        if (m == BW_MEDIA_UNKNOWN)
            return bad(x, e,
                       "no media type that is read: text/plain, text/markdown, "
                       "text/html, application/pdf");
        *out |= 1u << m;
    }
    return BW_OK;
}

static bw_status metadata(reading *x, const bw_json *v, const bw_json **out)
{
    bw_str unused;
    if (v->kind != BW_JSON_OBJECT || v->count == 0 || v->count > BW_RULES_METADATA_MAX)
        return bad(x, v, "wants an object of 1 to 64 globs");
    for (const bw_json *m = v->child; m; m = m->next) {
        bw_status st = glob(x, m, &unused);
        if (st != BW_OK)
            return st;
    }
    *out = v;
    return BW_OK;
}

static bw_status pattern(reading *x, const bw_json *v, bw_regex **out)
{
    char why[200] = "";
    if (v->kind != BW_JSON_STRING || v->str.len == 0 ||
        v->str.len > BW_REGEX_PATTERN_MAX)
        return bad(x, v, "wants a pattern of 1 to 4,096 bytes");
    if (++x->r->ntext > BW_RULES_TEXT_MAX)
        return bad(x, v, "more than 64 rules with `text`");
    switch (bw_regex_new(v->str.ptr, v->str.len, out, why, sizeof why)) {
    case BW_REGEX_YES:
        return BW_OK;
    case BW_REGEX_BAD:
        return bw_fail_at(x->ctx, BW_EINVALID, bw_json_pointer(x->ctx, v),
                          "no pattern: %s", why);
    default:
        return bw_fail_nomem(x->ctx);
    }
}

/* Whose the data is, the caller's key says. A cell's label sets are complete: what is
 * wrong with one shows now and not with the first document. */
static bw_status labels(reading *x, const bw_json *v, const bw_json **out)
{
    bw_labels unused;
    if (v->kind != BW_JSON_OBJECT)
        return bad(x, v, "wants an object");
    *out = v;
    if (x->use == BW_RULES_CLIENT)
        return BW_OK;
    if (bw_json_get(v, "tenant"))
        return bad(x, bw_json_get(v, "tenant"),
                   "a rule does not say whose the data is");
    return below(x, v,
                 bw_labels_parse(x->ctx, x->catalogue, v, BW_STR("any"), &unused));
}

static bw_status condition(reading *x, const bw_json *m, rule *out)
{
    if (bw_str_is(m->key, "match"))
        return glob(x, m, &out->source);
    if (bw_str_is(m->key, "media"))
        return media(x, m, &out->media);
    if (x->use == BW_RULES_CLIENT)
        return bad(x, m,
                   "no member of a rule that a client can follow (the cell's own "
                   "rules: `ingest.rules`)");
    if (bw_str_is(m->key, "collection"))
        return glob(x, m, &out->collection);
    if (bw_str_is(m->key, "tenant"))
        return words(x, m, &out->tenant);
    if (bw_str_is(m->key, "metadata"))
        return metadata(x, m, &out->metadata);
    if (bw_str_is(m->key, "text"))
        return pattern(x, m, &out->text);
    return bad(x, m, "unknown member of a rule");
}

static bw_status member(reading *x, const bw_json *m, rule *out)
{
    bool client = x->use == BW_RULES_CLIENT;
    if (bw_str_is(m->key, "name"))
        return name(x, m, &out->shown.name);
    if (bw_str_is(m->key, "labels"))
        return labels(x, m, &out->shown.labels);
    if (bw_str_is(m->key, "skip") && client) {
        out->shown.skip = m->kind == BW_JSON_TRUE;
        return out->shown.skip ? BW_OK : bad(x, m, "wants true");
    }
    if (bw_str_is(m->key, "raise") && !client) {
        out->raises = true;
        return below(x, m, bw_label_raise_parse(x->ctx, x->catalogue, m, &out->raise));
    }
    return condition(x, m, out);
}

static bool has_condition(const rule *r)
{
    return r->source.ptr || r->collection.ptr || r->tenant.ptr || r->media ||
           r->metadata || r->text;
}

static bw_status one_rule(reading *x, const bw_json *v, rule *out)
{
    const char *place = bw_arena_printf(x->ctx, "/rules/%zu", x->r->nrules - 1);
    if (!place)
        return BW_ENOMEM;
    if (v->kind != BW_JSON_OBJECT)
        return bad(x, v, "wants an object");
    out->shown.name = bw_str_c(place);
    for (const bw_json *m = v->child; m; m = m->next) {
        bw_status st = member(x, m, out);
        if (st != BW_OK)
            return st;
    }
    if ((out->shown.labels != NULL) + out->shown.skip + out->raises != 1)
        return bad(x, v,
                   x->use == BW_RULES_CLIENT ? "wants one of `labels` and `skip`"
                                             : "wants one of `labels` and `raise`");
    if (!out->raises && !has_condition(out))
        return bad(x, v, "wants a condition (`\"match\": \"*\"` holds always)");
    return BW_OK;
}

/* ---- detectors ---- */

/* What is found says that somebody can be told by it (e-mail, phone), that money moves by
 * it, or that a state tells people apart by it. */
static const struct {
    uint32_t sensitivity;
    bw_str category;
} classes[] = {{2, {"pi", 2}}, {3, {"financial", 9}}, {3, {"pi", 2}}};

static size_t class_of(bw_detect_kind kind)
{
    if (kind == BW_DETECT_EMAIL || kind == BW_DETECT_PHONE)
        return 0;
    return kind == BW_DETECT_IBAN || kind == BW_DETECT_CARD ? 1 : 2;
}

static bw_status built_in(reading *x)
{
    for (int k = 0; k < BW_DETECT_COUNT; k++) {
        size_t c = class_of((bw_detect_kind)k);
        if (!bw_catalogue_has_word(x->catalogue, "categories", classes[c].category))
            return bw_fail(x->ctx, BW_EINVALID,
                           "the vocabulary lacks the category %s, which detectors add",
                           classes[c].category.ptr);
        x->r->builtin[k] = (bw_label_raise){.sensitivity = classes[c].sensitivity,
                                            .categories = {&classes[c].category, 1}};
    }
    return BW_OK;
}

/* A raise beside the built-in one, so that less cannot be had by writing more. */
static bw_status detectors(reading *x, const bw_json *v)
{
    bw_detect_kind k;
    if (v->kind != BW_JSON_OBJECT)
        return bad(x, v, "wants an object of raises");
    for (const bw_json *m = v->child; m; m = m->next) {
        if (!bw_detect_parse(m->key, &k))
            return bad(x, m, "no detector has this name");
        bw_status st =
            below(x, m, bw_label_raise_parse(x->ctx, x->catalogue, m, &x->r->more[k]));
        if (st != BW_OK)
            return st;
        if (bw_json_get_value(m, "sensitivity") &&
            x->r->more[k].sensitivity < x->r->builtin[k].sensitivity)
            return bad(x, bw_json_get(m, "sensitivity"),
                       "below what the detector raises to by itself");
    }
    return BW_OK;
}

/* ---- the file ---- */

static bw_status read_list(reading *x, const bw_json *list)
{
    size_t max = x->use == BW_RULES_CELL ? BW_RULES_CELL_MAX : BW_RULES_CLIENT_MAX;
    if (list->kind != BW_JSON_ARRAY || list->count > max)
        return bw_fail_at(x->ctx, BW_EINVALID, bw_json_pointer(x->ctx, list),
                          "wants a list of at most %zu rules", max);
    x->r->rules = bw_arena_calloc(x->ctx, list->count + 1u, sizeof *x->r->rules);
    if (!x->r->rules)
        return bw_fail_nomem(x->ctx);
    bw_status st = BW_OK;
    for (const bw_json *e = list->child; e && st == BW_OK; e = e->next)
        st = one_rule(x, e, &x->r->rules[x->r->nrules++]);
    return st;
}

static bw_status read_file(reading *x, bw_str text)
{
    static const bw_json_limits limits = {
        .depth_max = 8, .nodes_max = 500000, .bytes_max = BW_RULES_BYTES_MAX};
    bw_json *root;
    bw_str kept;
    bw_status st = bw_arena_str(x->ctx, text, &kept);
    if (st == BW_OK)
        st = bw_json_parse(x->ctx, kept, limits, &root);
    if (st != BW_OK)
        return st;
    if (root->kind != BW_JSON_OBJECT || !bw_json_get(root, "rules"))
        return bad(x, root, "wants {\"rules\": […]}");
    for (const bw_json *m = root->child; m && st == BW_OK; m = m->next) {
        if (bw_str_is(m->key, "rules"))
            st = read_list(x, m);
        else if (bw_str_is(m->key, "detectors") && x->use == BW_RULES_CELL)
            st = detectors(x, m);
        else
            st = bad(x, m, "unknown member");
    }
    return st;
}

bw_status bw_rules_new(bw_ctx *ctx, bw_str text, bw_rules_use use,
                       const bw_catalogue *catalogue, bw_rules **out)
{
    bw_rules *r = bw_calloc(1, sizeof *r);
    if (r)
        r->mem = bw_ctx_new(0);
    if (!r || !r->mem) {
        bw_rules_free(r);
        return bw_fail_nomem(ctx);
    }
    reading x = {r->mem, r, catalogue, use};
    bw_status st = use == BW_RULES_CELL ? built_in(&x) : BW_OK;
    if (st == BW_OK && text.len > 0)
        st = read_file(&x, text);
    if (st != BW_OK) {
        st = bw_ctx_take_error(ctx, r->mem, st);
        bw_rules_free(r);
        return st;
    }
    *out = r;
    return BW_OK;
}

void bw_rules_free(bw_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->nrules; i++)
        bw_regex_free(r->rules[i].text);
    bw_ctx_free(r->mem);
    bw_free(r);
}

/* ---- which rules hold ---- */

static bool metadata_holds(const bw_json *globs, const bw_rule_subject *s)
{
    for (const bw_json *m = globs ? globs->child : NULL; m; m = m->next) {
        bool found = false;
        for (size_t i = 0; i < s->nmetadata && !found; i++)
            found = bw_str_eq(s->metadata[i].key, m->key) &&
                    bw_glob_match(m->str, s->metadata[i].value);
        if (!found)
            return false;
    }
    return true;
}

/* All but the text. */
static bool outside_holds(const rule *r, const bw_rule_subject *s)
{
    return (!r->source.ptr || bw_glob_match(r->source, s->source)) &&
           (!r->collection.ptr || bw_glob_match(r->collection, s->collection)) &&
           (!r->tenant.ptr || bw_str_eq(r->tenant, s->tenant)) &&
           (!r->media || (r->media >> s->media & 1u)) && metadata_holds(r->metadata, s);
}

static bw_status holds(bw_ctx *ctx, const rule *r, const bw_rule_subject *s, bool *out)
{
    const bw_str texts[] = {s->text, s->title};
    bw_regex_result found = BW_REGEX_NO;
    *out = outside_holds(r, s);
    if (!*out || !r->text)
        return BW_OK;
    for (size_t i = 0; i < 2 && found == BW_REGEX_NO; i++)
        found = bw_regex_find(r->text, texts[i].ptr ? texts[i].ptr : "", texts[i].len);
    *out = found == BW_REGEX_YES;
    return found == BW_REGEX_NOMEM ? bw_fail_nomem(ctx) : bw_ctx_check(ctx);
}

bw_status bw_rules_base(bw_ctx *ctx, const bw_rules *r, const bw_rule_subject *about,
                        const bw_rule **out, bool *later)
{
    *out = NULL;
    *later = false;
    for (size_t i = 0; i < r->nrules && !*out && !*later; i++) {
        bool hit = false;
        if (r->rules[i].raises)
            continue;
        if (r->rules[i].text && !about->has_text) {
            *later = outside_holds(&r->rules[i], about);
            continue;
        }
        bw_status st = holds(ctx, &r->rules[i], about, &hit);
        if (st != BW_OK)
            return st;
        *out = hit ? &r->rules[i].shown : NULL;
    }
    return BW_OK;
}

/* ---- raising ---- */

typedef struct raising {
    bw_ctx *ctx;
    const bw_catalogue *catalogue;
    bw_labels *labels;
    bw_raised_by *by;
    size_t n;
} raising;

static bw_status raise_by(raising *x, const bw_label_raise *raise, bw_raised_by who)
{
    bw_labels next;
    bw_status st = bw_labels_raise(x->ctx, x->catalogue, x->labels, raise, &next);
    if (st != BW_OK)
        return st;
    who.members = bw_labels_diff(x->labels, &next);
    *x->labels = next;
    if (!who.members)
        return BW_OK;
    bool again = x->n > 0 && !who.rule.ptr && !x->by[x->n - 1].rule.ptr &&
                 x->by[x->n - 1].kind == who.kind;
    if (again)
        x->by[x->n - 1].members |= who.members;
    else
        x->by[x->n++] = who;
    return BW_OK;
}

static void count(bw_str text, bw_detected *sum)
{
    bw_detected d;
    bw_detect(text, &d);
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        sum->count[k] += d.count[k];
    sum->steps += d.steps;
}

/* A path is looked at part by part: a slash is no end of a word to a detector. */
static void count_path(bw_str path, bw_detected *sum)
{
    while (path.len > 0) {
        const char *slash = memchr(path.ptr, '/', path.len);
        size_t n = slash ? (size_t)(slash - path.ptr) : path.len;
        count((bw_str){path.ptr, n}, sum);
        n += slash != NULL;
        path = (bw_str){path.ptr + n, path.len - n};
    }
}

static bw_status raise_by_findings(raising *x, const bw_rules *r, const bw_detected *d)
{
    bw_status st = BW_OK;
    for (int k = 0; k < BW_DETECT_COUNT && st == BW_OK; k++) {
        bw_raised_by who = {.kind = (bw_detect_kind)k};
        if (d->count[k] == 0)
            continue;
        st = raise_by(x, &r->builtin[k], who);
        if (st == BW_OK)
            st = raise_by(x, &r->more[k], who);
    }
    return st;
}

static bw_status begin(raising *x, bw_ctx *ctx, const bw_catalogue *catalogue, size_t n,
                       bw_labels *l)
{
    *x = (raising){.ctx = ctx, .catalogue = catalogue, .labels = l};
    x->by = bw_arena_calloc(ctx, n + BW_DETECT_COUNT, sizeof *x->by);
    return x->by ? BW_OK : bw_fail_nomem(ctx);
}

bw_status bw_rules_raise(bw_ctx *ctx, const bw_rules *r, const bw_catalogue *catalogue,
                         const bw_rule_subject *about, bw_labels *l, bw_raised *out)
{
    raising x;
    bw_detected found = {0};
    bw_labels raised = *l;
    bw_require(about->has_text);
    bw_status st = begin(&x, ctx, catalogue, r->nrules, &raised);
    for (size_t i = 0; i < r->nrules && st == BW_OK; i++) {
        bool hit = false;
        if (r->rules[i].raises)
            st = holds(ctx, &r->rules[i], about, &hit);
        if (st == BW_OK && hit)
            st = raise_by(&x, &r->rules[i].raise,
                          (bw_raised_by){.rule = r->rules[i].shown.name});
    }
    if (st != BW_OK)
        return st;
    count(about->text, &found);
    count(about->title, &found);
    count_path(about->source, &found);
    st = raise_by_findings(&x, r, &found);
    if (st != BW_OK)
        return st;
    *l = raised;
    *out = (bw_raised){x.by, x.n, found};
    return BW_OK;
}

bw_status bw_rules_detect(bw_ctx *ctx, const bw_rules *r, const bw_catalogue *catalogue,
                          bw_str text, bw_labels *l, bw_raised *out)
{
    raising x;
    bw_detected found = {0};
    bw_labels raised = *l;
    count(text, &found);
    bw_status st = begin(&x, ctx, catalogue, 0, &raised);
    if (st == BW_OK)
        st = raise_by_findings(&x, r, &found);
    if (st != BW_OK)
        return st;
    *l = raised;
    *out = (bw_raised){x.by, x.n, found};
    return BW_OK;
}

void bw_detected_put(const uint32_t count[BW_DETECT_COUNT], bw_buf *b)
{
    bw_buf_putc(b, '{');
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        if (count[k]) {
            bw_json_put_key(b, bw_detect_name((bw_detect_kind)k));
            bw_json_put_u64(b, count[k]);
        }
    bw_buf_putc(b, '}');
}
