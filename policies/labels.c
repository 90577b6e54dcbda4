/* Label sets (labels.h): read strictly, put into one form, named by its hash.
 *
 * The canonical form is what two clients that mean the same send the same bytes of:
 *
 *   {"tenant":T,"regimes":[…],"residency":[…],"sensitivity":N,"categories":[…],
 *    "labels":[…],"purposes":[…],"legal_hold":B}
 *
 * members in this order, no blanks, lists sorted bytewise without duplicates, no regime
 * written as ["none"] (so that what we show can be sent back). Every word is ASCII by
 * the vocabulary's rules, so there is one spelling and nothing to escape. The class id
 * is BLAKE2b-256 of these bytes; both are on disk for good: never change them.
 *
 * A label that is left out must not widen: regimes, residency and sensitivity have to
 * be said, no purposes means no use at all. */
#include "labels.h"

#include <sodium.h>
#include <stdlib.h>

enum { NAME_MAX_BYTES = 64 };

/* The lists, in canonical order; "residency" is checked against places. */
static const char *const members[] = {"tenant",      "regimes",    "residency",
                                      "sensitivity", "categories", "labels",
                                      "purposes",    "legal_hold"};

const char *bw_labels_member(unsigned bit)
{
    static_assert(sizeof members / sizeof *members == BW_LABELS_MEMBERS, "one bit each");
    return members[bit];
}

static bool tenant_ok(bw_str s)
{
    if (s.len == 0 || s.len > NAME_MAX_BYTES || s.ptr[0] == '-' || s.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
              c == '.' || c == '_'))
            return false;
    }
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    return bw_str_cmp(*(const bw_str *)a, *(const bw_str *)b);
}

bw_status bw_labels__bad(bw_ctx *ctx, const char *member, const char *what)
{
    const char *at = bw_arena_printf(ctx, "/%s", member);
    return at ? bw_fail_at(ctx, BW_EINVALID, at, "%s: %s", member, what) : BW_ENOMEM;
}

static bw_status bad_word(bw_ctx *ctx, const bw_catalogue *c, const char *member,
                          bw_str word)
{
    bool place = strcmp(member, "residency") == 0;
    bw_str near = place ? bw_catalogue_near(c, word) : (bw_str){"", 0};
    const char *at = bw_arena_printf(ctx, "/%s", member);
    if (!at)
        return BW_ENOMEM;
    if (place && bw_catalogue_has_zone(c, word))
        return bw_fail_at(ctx, BW_EINVALID, at,
                          "%s: \"%.*s\" is a deny-list, and no place to keep data",
                          member, (int)word.len, word.ptr);
    return bw_fail_at(ctx, BW_EINVALID, at,
                      near.len ? "%s: \"%.*s\" is not in the vocabulary; did you mean "
                                 "\"%.*s\"?"
                               : "%s: \"%.*s\" is not in the vocabulary "
                                 "(`bailiwick catalogue show` lists it)",
                      member, (int)word.len, word.ptr, (int)near.len, near.ptr);
}

/* One element; no catalogue: a stored form, whose words were checked when it was made.
 */
static bw_status check_word(bw_ctx *ctx, const bw_catalogue *c, const char *member,
                            bw_str word)
{
    if (word.len == 0 || word.len > NAME_MAX_BYTES)
        return bw_labels__bad(ctx, member, "an empty or overlong word");
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] <= ' ' || word.ptr[i] > '~' || word.ptr[i] == '"' ||
            word.ptr[i] == '\\')
            return bw_labels__bad(ctx, member, "a word that is not in the vocabulary");
    if (!c)
        return BW_OK;
    bool known = strcmp(member, "residency") == 0
                     ? bw_catalogue_has_residency(c, word)
                     : bw_catalogue_has_word(c, member, word);
    return known ? BW_OK : bad_word(ctx, c, member, word);
}

void bw_labels__sort(bw_str *items, size_t *n)
{
    size_t kept = 0;
    if (*n)
        qsort(items, *n, sizeof *items, by_bytes);
    for (size_t i = 0; i < *n; i++)
        if (kept == 0 || !bw_str_eq(items[i], items[kept - 1]))
            items[kept++] = items[i];
    *n = kept;
}

bw_status bw_labels__list(bw_ctx *ctx, const bw_catalogue *c, const bw_json *object,
                          const char *member, bw_label_list *out)
{
    const bw_json *v = bw_json_get_value(object, member);
    *out = (bw_label_list){0};
    if (!v)
        return BW_OK;
    if (v->kind != BW_JSON_STRING && v->kind != BW_JSON_ARRAY)
        return bw_labels__bad(ctx, member, "expected a list of words");
    size_t n = v->kind == BW_JSON_STRING ? 1 : v->count;
    if (n > BW_LABELS__LIST_MAX)
        return bw_labels__bad(ctx, member, "more than 64 words");
    bw_str *items = bw_arena_alloc(ctx, (n + 1) * sizeof *items);
    if (!items)
        return BW_ENOMEM;
    const bw_json *e = v->kind == BW_JSON_STRING ? v : v->child;
    for (size_t i = 0; i < n; i++, e = e->next) {
        if (e->kind != BW_JSON_STRING)
            return bw_labels__bad(ctx, member, "expected a list of words");
        items[i] = e->str;
        /* "none" is checked by its meaning, below */
        bool none = strcmp(member, "regimes") == 0 && bw_str_is(e->str, "none");
        bw_status st = none ? BW_OK : check_word(ctx, c, member, e->str);
        if (st != BW_OK)
            return st;
    }
    bw_labels__sort(items, &n);
    *out = (bw_label_list){items, n};
    return BW_OK;
}

static bw_status parse_regimes(bw_ctx *ctx, const bw_catalogue *c,
                               const bw_json *object, bw_label_list *out)
{
    bw_status st = bw_labels__list(ctx, c, object, "regimes", out);
    if (st != BW_OK)
        return st;
    if (out->n == 0)
        return bw_labels__bad(ctx, "regimes", "must be said, if only as [\"none\"]");
    for (size_t i = 0; i < out->n; i++)
        if (bw_str_is(out->items[i], "none")) {
            if (out->n > 1)
                return bw_labels__bad(ctx, "regimes", "\"none\" stands alone");
            *out = (bw_label_list){0};
        }
    return BW_OK;
}

static bw_status parse_tenant(bw_ctx *ctx, const bw_json *object, bw_str fallback,
                              bw_str *out)
{
    const bw_json *v = bw_json_get_value(object, "tenant");
    if (v && v->kind != BW_JSON_STRING)
        return bw_labels__bad(ctx, "tenant", "expected a text");
    *out = v ? v->str : fallback;
    return tenant_ok(*out) ? BW_OK : bw_labels__bad(ctx, "tenant", "1 to 64 of a-z 0-9 - _ .");
}

bw_status bw_labels__members(bw_ctx *ctx, const bw_json *object)
{
    if (!object || object->kind != BW_JSON_OBJECT)
        return bw_fail(ctx, BW_EINVALID, "labels: expected an object");
    for (const bw_json *m = object->child; m; m = m->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof members / sizeof *members && !known; i++)
            known = bw_str_eq(m->key, bw_str_c(members[i]));
        if (!known) {
            const char *at = bw_arena_printf(
                ctx, "/%.*s", (int)(m->key.len < 64 ? m->key.len : 64), m->key.ptr);
            return at ? bw_fail_at(ctx, BW_EINVALID, at, "unknown label \"%.*s\"",
                                   (int)(m->key.len < 64 ? m->key.len : 64), m->key.ptr)
                      : BW_ENOMEM;
        }
    }
    return BW_OK;
}

bw_status bw_labels_parse(bw_ctx *ctx, const bw_catalogue *catalogue,
                          const bw_json *object, bw_str default_tenant, bw_labels *out)
{
    bw_labels l = {0};
    uint64_t sensitivity;
    bw_status st = bw_labels__members(ctx, object);
    if (st == BW_OK)
        st = parse_tenant(ctx, object, default_tenant, &l.tenant);
    if (st == BW_OK)
        st = parse_regimes(ctx, catalogue, object, &l.regimes);
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "residency", &l.residency);
    if (st == BW_OK && l.residency.n == 0)
        st = bw_labels__bad(ctx, "residency",
                 "must be said: the zones or countries where the data may be");
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "categories", &l.categories);
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "labels", &l.labels);
    if (st == BW_OK)
        st = bw_labels__list(ctx, catalogue, object, "purposes", &l.purposes);
    if (st != BW_OK)
        return st;
    if (!bw_json_u64(bw_json_get_value(object, "sensitivity"), &sensitivity) ||
        sensitivity > BW_LABELS__SENSITIVITY_MAX)
        return bw_labels__bad(ctx, "sensitivity", "must be said: a whole number from 0 to 5");
    l.sensitivity = (uint32_t)sensitivity;
    const bw_json *hold = bw_json_get_value(object, "legal_hold");
    if (hold && !bw_json_is_bool(hold))
        return bw_labels__bad(ctx, "legal_hold", "expected true or false");
    l.legal_hold = hold && hold->kind == BW_JSON_TRUE;
    *out = l;
    return BW_OK;
}

static void put_list(bw_buf *b, const char *member, const bw_label_list *list)
{
    bw_json_put_strs(b, member, list->items, list->n);
}

bw_status bw_labels_canonical(bw_ctx *ctx, const bw_labels *l, bw_str *out)
{
    static const bw_str none = {"none", 4};
    const bw_label_list no_regime = {&none, 1};
    bw_buf b = {0};
    bw_buf_putc(&b, '{');
    bw_json_put_key(&b, "tenant");
    bw_json_put_str(&b, l->tenant);
    put_list(&b, "regimes", l->regimes.n ? &l->regimes : &no_regime);
    put_list(&b, "residency", &l->residency);
    bw_json_put_key(&b, "sensitivity");
    bw_json_put_u64(&b, l->sensitivity);
    put_list(&b, "categories", &l->categories);
    put_list(&b, "labels", &l->labels);
    put_list(&b, "purposes", &l->purposes);
    bw_json_put_key(&b, "legal_hold");
    bw_buf_puts(&b, l->legal_hold ? "true}" : "false}");
    bw_status st =
        b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return st;
}

/* The words are not looked up again: a class outlives a change of vocabulary. But the
 * text must be exactly the form that its labels have. */
bw_status bw_labels_from_canonical(bw_ctx *ctx, bw_str text, bw_labels *out)
{
    bw_json *object;
    bw_labels l;
    bw_str again;
    bw_status st = bw_json_parse(ctx, text, (bw_json_limits){.depth_max = 2}, &object);
    if (st == BW_OK)
        st = bw_labels_parse(ctx, NULL, object, BW_STR(""), &l);
    if (st == BW_OK)
        st = bw_labels_canonical(ctx, &l, &again);
    if (st == BW_ENOMEM)
        return st;
    if (st != BW_OK || !bw_str_eq(text, again))
        return bw_fail(ctx, BW_ECORRUPT,
                       "a class's label text is not in canonical form");
    *out = l;
    return BW_OK;
}

void bw_labels_class_id(bw_str canonical, bw_class_id *out)
{
    int rc = crypto_generichash(out->bytes, sizeof out->bytes,
                                (const unsigned char *)canonical.ptr, canonical.len,
                                NULL, 0);
    bw_require(rc == 0);
}
