/* The rows of the catalogue's tables: which members each has, of what kind, and what
 * the names in it must stand for. A fact without source or date is refused, as is every
 * member that no table knows: a misspelt one would silently say nothing. */
#include "catalogue_impl.h"

#include "../engine/base/unseen.h"

#include <stdio.h>

enum { LIST_MAX = 1024, TEXT_MAX = 2000, LAW_MAX = 200, DAY_S = 86400 };

typedef enum member_kind {
    TEXT,   /* 1 to 2,000 bytes, not blank */
    NAME,   /* 1 to 64 of A-Z a-z 0-9 - . */
    WORD,   /* the same in lower case, and not "none" */
    CODE,   /* two capital letters, and not ZZ */
    ALPHA3, /* three */
    DATE,   /* YYYY-MM-DD */
    YEAR,   /* 1900 to 2999 */
    BOOL,
    YES,   /* true, or left out */
    SHARE, /* a text from "0.0" to "100.0": per cent, up to four decimals */
    TEXTS, /* lists, of at most 1,024 */
    TENANTS,
    ZONES_IN, /* zones or countries */
    CODES,
    CERTS,
    CHOICE /* one of choices */
} member_kind;

enum { KEY = 1, NEEDED = 2, NULLABLE = 4 };

typedef struct member {
    const char *name;
    member_kind kind;
    unsigned flags;
    const char *const *choices;
} member;

static const char *const zone_kinds[] = {"group", "allow", "deny", NULL};
static const char *const memberships[] = {"researched", NULL};
static const char *const levels[] = {"strict",      "copy",       "sectoral",
                                     "conditional", "none-known", NULL};
static const char *const statuses[] = {"full", "partial", NULL};
static const char *const confidences[] = {"high", "medium", "low", NULL};

/* What every row has. */
static const member common[] = {{"source", TEXT, NEEDED, NULL},
                                {"date", DATE, NEEDED, NULL},
                                {"confidence", CHOICE, 0, confidences},
                                {"note", TEXT, 0, NULL},
                                {"remove", YES, 0, NULL},
                                {NULL, TEXT, 0, NULL}};

static const member zones[] = {
    {"id", NAME, KEY, NULL},       {"kind", CHOICE, NEEDED, zone_kinds},
    {"in", ZONES_IN, 0, NULL},     {"name", TEXT, 0, NULL},
    {"countries", CODES, 0, NULL}, {"members", CHOICE, 0, memberships},
    {"unknown", YES, 0, NULL},     {"regime", WORD, 0, NULL},
    {NULL, TEXT, 0, NULL}};
static const member countries[] = {
    {"code", CODE, KEY, NULL},  {"alpha3", ALPHA3, 0, NULL}, {"name", TEXT, 0, NULL},
    {"part_of", CODE, 0, NULL}, {"in", ZONES_IN, 0, NULL},   {NULL, TEXT, 0, NULL}};
static const member localisation[] = {{"country", CODE, KEY, NULL},
                                      {"level", CHOICE, NEEDED | NULLABLE, levels},
                                      {"laws", TEXTS, 0, NULL},
                                      {"summary", TEXT, 0, NULL},
                                      {NULL, TEXT, 0, NULL}};
static const member foreign[] = {{"country", CODE, KEY, NULL},
                                 {"law", TEXT, KEY | NULLABLE, NULL},
                                 {"extraterritorial", BOOL, NEEDED | NULLABLE, NULL},
                                 {"summary", TEXT, 0, NULL},
                                 {NULL, TEXT, 0, NULL}};
static const member adequacy[] = {{"regime", WORD, KEY, NULL},
                                  {"country", CODE, KEY, NULL},
                                  {"status", CHOICE, NEEDED | NULLABLE, statuses},
                                  {"certs", CERTS, NULLABLE, NULL},
                                  {"decision", TEXT, 0, NULL},
                                  {"year", YEAR, 0, NULL},
                                  {"scope", TEXT, 0, NULL},
                                  {"expires", DATE, 0, NULL},
                                  {NULL, TEXT, 0, NULL}};
static const member organisations[] = {{"id", NAME, KEY, NULL},
                                       {"name", TEXT, NEEDED, NULL},
                                       {"kind", TEXT, NEEDED, NULL},
                                       {"regime", WORD, 0, NULL},
                                       {"status", CHOICE, 0, statuses},
                                       {"decision", TEXT, 0, NULL},
                                       {"year", YEAR, 0, NULL},
                                       {"scope", TEXT, 0, NULL},
                                       {NULL, TEXT, 0, NULL}};
static const member entities[] = {{"id", NAME, KEY, NULL},
                                  {"name", TEXT, 0, NULL},
                                  {"seat", CODE, NEEDED, NULL},
                                  {"control_zones", ZONES_IN, NEEDED | NULLABLE, NULL},
                                  {"foreign_share_max", SHARE, NEEDED | NULLABLE, NULL},
                                  {"foreign_share_sum", SHARE, NEEDED | NULLABLE, NULL},
                                  {"baa_with", TENANTS, NEEDED, NULL},
                                  {"certs", CERTS, NEEDED | NULLABLE, NULL},
                                  {NULL, TEXT, 0, NULL}};
static const member words[] = {{"word", WORD, KEY, NULL},
                               {"zone", NAME, 0, NULL},
                               {"conditional", NAME, 0, NULL},
                               {NULL, TEXT, 0, NULL}};

static const struct table {
    const char *name;
    const member *members;
} tables[BW_CAT_TABLES] = {{"zones", zones},
                           {"countries", countries},
                           {"localisation", localisation},
                           {"foreign_access", foreign},
                           {"adequacy", adequacy},
                           {"organisations", organisations},
                           {"legal_entities", entities},
                           {"vocabulary", words}};

static const char *const kinds[] = {"regimes",    "categories", "labels", "purposes",
                                    "safeguards", "certs",      "hw"};

const char *bw_catalogue__table(int table)
{
    return tables[table].name;
}

bool bw_catalogue__is_kind(bw_str kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bw_str_eq(kind, bw_str_c(kinds[i])))
            return true;
    return false;
}

bw_status bw_catalogue__bad(bw_ctx *ctx, const bw_catalogue *c, const bw_json *at,
                            const char *fmt, ...)
{
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const char *pointer = n >= 0 ? bw_json_pointer(ctx, at) : NULL;
    if (!pointer)
        return bw_fail_nomem(ctx);
    return bw_fail_at(ctx, BW_EINVALID, pointer, "%s: %s",
                      bw_catalogue__ours(c, at) ? "catalogue overlay" : "catalogue",
                      what);
}

/* ---- kinds ---- */

static bool letters(bw_str s, size_t n)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < 'A' || s.ptr[i] > 'Z')
            return false;
    return s.len == n;
}

static bool is_name(bw_str s, bool upper)
{
    if (s.len == 0 || s.len > BW_CAT_WORD_MAX || s.ptr[0] == '-' || s.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
              c == '.' || (upper && c >= 'A' && c <= 'Z')))
            return false;
    }
    return !bw_str_is(s, "none") && !bw_str_is(s, "unknown");
}

static bool is_text(bw_str s)
{
    bool seen = false;
    for (size_t i = 0; i < s.len; i++) {
        if (bw_utf8_unseen(s.ptr + i, s.len - i) > 0)
            return false;
        seen = seen || s.ptr[i] != ' ';
    }
    return seen && s.len <= TEXT_MAX;
}

bool bw_catalogue__is_date(bw_str s, int64_t *days)
{
    int64_t ns;
    for (size_t i = 0; i < s.len; i++)
        if (i == 4 || i == 7 ? s.ptr[i] != '-' : s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    if (s.len != 10 || !bw_time_parse(s, &ns))
        return false;
    if (days)
        *days = ns / (INT64_C(1000000000) * DAY_S);
    return true;
}

/* 0.0 to 100.0 as Cedar's decimal takes it: one to four decimals. */
static bool is_share(bw_str s)
{
    size_t dot = 0;
    unsigned whole = 0;
    for (; dot < s.len && dot < 4 && s.ptr[dot] >= '0' && s.ptr[dot] <= '9'; dot++)
        whole = whole * 10 + (unsigned)(s.ptr[dot] - '0');
    size_t decimals = s.len > dot ? s.len - dot - 1 : 0;
    if (dot == 0 || dot > 3 || dot >= s.len || s.ptr[dot] != '.' || decimals == 0 ||
        decimals > 4)
        return false;
    bool zero = true;
    for (size_t i = dot + 1; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        zero = zero && s.ptr[i] == '0';
    }
    return whole < 100 || (whole == 100 && zero);
}

static bool is_choice(bw_str s, const char *const *choices)
{
    for (; *choices; choices++)
        if (bw_str_eq(s, bw_str_c(*choices)))
            return true;
    return false;
}

static bool text_fits(const member *m, bw_str s)
{
    switch (m->kind) {
    case TEXT:
        return is_text(s) && (!(m->flags & KEY) || s.len <= LAW_MAX);
    case NAME:
    case ZONES_IN:
        return is_name(s, true);
    case WORD:
    case CERTS:
        return is_name(s, false);
    case CODE:
    case CODES: /* ZZ is the country that nobody knows (offers_facts.c), and lies
                   nowhere */
        return letters(s, 2) && !bw_str_is(s, "ZZ");
    case ALPHA3:
        return letters(s, 3);
    case DATE:
        return bw_catalogue__is_date(s, NULL);
    case SHARE:
        return is_share(s);
    case CHOICE:
        return is_choice(s, m->choices);
    case TEXTS:
    case TENANTS:
        return is_text(s);
    case YEAR:
    case BOOL:
    case YES:
        break;
    }
    return false;
}

/* The words of a choice in quotes, with '|' between them, into out. */
static const char *choices_of(const member *m, char *out, size_t size)
{
    size_t n = 0;
    for (const char *const *w = m->choices; *w && n < size; w++)
        n += (size_t)snprintf(out + n, size - n, "%s\"%s\"", w > m->choices ? "|" : "",
                              *w);
    if (m->flags & NULLABLE && n < size)
        (void)snprintf(out + n, size - n, "|null");
    return out;
}

static const char *wanted(const member *m, char *choices, size_t size)
{
    switch (m->kind) {
    case TEXT:
        return m->flags & KEY ? "a text of at most 200 bytes"
                              : "a text of at most 2000 bytes";
    case NAME:
        return "1 to 64 of A-Z a-z 0-9 - . and not \"none\" or \"unknown\"";
    case WORD:
        return "1 to 64 of a-z 0-9 - . and not \"none\" or \"unknown\"";
    case CODE:
        return "a country's two capital letters, not ZZ (unknown)";
    case ALPHA3:
        return "three capital letters";
    case DATE:
        return "a date, YYYY-MM-DD";
    case YEAR:
        return "a year from 1900 to 2999";
    case BOOL:
        return "true or false";
    case YES:
        return "true, or to be left out";
    case SHARE:
        return "per cent as a text, \"0.0\" to \"100.0\", or null if unknown";
    case TEXTS:
    case TENANTS:
        return "a list of at most 1024 texts";
    case ZONES_IN:
        return "a list of at most 1024 names of zones";
    case CODES:
        return "a list of at most 1024 country codes, ZZ (unknown) not among them";
    case CERTS:
        return "a list of at most 1024 words";
    case CHOICE:
        break;
    }
    return choices_of(m, choices, size);
}

/* The value, or the element of a list, that does not fit; NULL if all does. */
static const bw_json *misfit(const member *m, const bw_json *v)
{
    uint64_t year;
    bool list = m->kind >= TEXTS && m->kind <= CERTS;
    if (v->kind == BW_JSON_NULL)
        return m->flags & NULLABLE ? NULL : v;
    if (m->kind == BOOL)
        return bw_json_is_bool(v) ? NULL : v;
    if (m->kind == YES)
        return v->kind == BW_JSON_TRUE ? NULL : v;
    if (m->kind == YEAR)
        return bw_json_u64(v, &year) && year >= 1900 && year <= 2999 ? NULL : v;
    if (!list)
        return v->kind == BW_JSON_STRING && text_fits(m, v->str) ? NULL : v;
    if (v->kind != BW_JSON_ARRAY || v->count > LIST_MAX)
        return v;
    for (const bw_json *e = v->child; e; e = e->next)
        if (e->kind != BW_JSON_STRING || !text_fits(m, e->str))
            return e;
    return NULL;
}

/* ---- shape ---- */

static const member *find(const member *list, bw_str name)
{
    for (; list->name; list++)
        if (bw_str_eq(name, bw_str_c(list->name)))
            return list;
    return NULL;
}

/* A removal says what it takes away, on what ground and since when, and nothing else.
 */
static bool needed(const member *m, bool removal)
{
    return m->flags & KEY || (m->flags & NEEDED && (!removal || m->kind == DATE ||
                                                    strcmp(m->name, "source") == 0));
}

static bw_status check_present(bw_ctx *ctx, const bw_catalogue *c, const member *list,
                               const bw_json *row, bool removal)
{
    for (; list->name; list++)
        if (needed(list, removal) && !bw_json_get(row, list->name))
            return bw_catalogue__bad(
                ctx, c, row, "has no \"%s\"%s", list->name,
                list->flags & NULLABLE ? " (null if it is not known)" : "");
    return BW_OK;
}

static bw_status check_members(bw_ctx *ctx, const bw_catalogue *c, int table,
                               const bw_json *row, bool removal)
{
    char choices[160];
    for (const bw_json *v = row->child; v; v = v->next) {
        const member *own = find(tables[table].members, v->key);
        const member *m = own ? own : find(common, v->key);
        if (!m)
            return bw_catalogue__bad(ctx, c, v, "unknown member of %s",
                                     tables[table].name);
        if (removal && own && !(m->flags & KEY))
            return bw_catalogue__bad(
                ctx, c, v, "a removal has its key, source and date, and no facts");
        const bw_json *at = misfit(m, v);
        if (at)
            return bw_catalogue__bad(ctx, c, at, "\"%s\" wants %s", m->name,
                                     wanted(m, choices, sizeof choices));
    }
    return BW_OK;
}

/* The key members with a line feed between them; a word's begins with its kind. */
static bw_status make_key(bw_ctx *ctx, const bw_catalogue *c, int table, bw_str kind,
                          const bw_json *row, bw_str *key)
{
    bw_buf b = {0};
    bw_buf_str(&b, kind);
    bool first = kind.len == 0;
    for (const member *m = tables[table].members; m->name; m++) {
        if (!(m->flags & KEY))
            continue;
        if (!first)
            bw_buf_putc(&b, '\n');
        first = false;
        bw_buf_str(&b, bw_catalogue__str(row, m->name));
    }
    bw_status st = b.failed ? BW_ENOMEM : bw_arena_str(c->mem, bw_buf_view(&b), key);
    bw_buf_clear(&b);
    return st == BW_OK ? st : bw_fail_nomem(ctx);
}

bw_status bw_catalogue__check_shape(bw_ctx *ctx, const bw_catalogue *c, int table,
                                    bw_str kind, const bw_json *row, bw_str *key)
{
    if (row->kind != BW_JSON_OBJECT)
        return bw_catalogue__bad(ctx, c, row, "expected a row");
    bool removal = bw_catalogue__true(row, "remove");
    bw_status st = check_members(ctx, c, table, row, removal);
    if (st == BW_OK)
        st = check_present(ctx, c, tables[table].members, row, removal);
    if (st == BW_OK)
        st = check_present(ctx, c, common, row, removal);
    if (st == BW_OK && removal && !c->overlay.ptr)
        st = bw_catalogue__bad(ctx, c, row, "only an overlay removes");
    return st == BW_OK ? make_key(ctx, c, table, kind, row, key) : st;
}

/* ---- names ---- */

static bool name_known(const bw_catalogue *c, member_kind kind, bw_str s)
{
    switch (kind) {
    case CODE:
    case CODES:
        return bw_catalogue_has_country(c, s);
    case ZONES_IN:
        return bw_catalogue_has_zone(c, s);
    case CERTS:
        return bw_catalogue_has_word(c, "certs", s);
    default:
        return true;
    }
}

static bw_status check_name(bw_ctx *ctx, const bw_catalogue *c, member_kind kind,
                            const bw_json *v)
{
    if (v->kind != BW_JSON_STRING || name_known(c, kind, v->str))
        return BW_OK;
    const char *what = kind == CERTS      ? "certification"
                       : kind == ZONES_IN ? "zone"
                                          : "country";
    bw_str near = kind == CERTS ? (bw_str){"", 0} : bw_catalogue_near(c, v->str);
    return near.len
               ? bw_catalogue__bad(ctx, c, v,
                                   "not a %s of this catalogue; did you mean \"%.*s\"?",
                                   what, (int)near.len, near.ptr)
               : bw_catalogue__bad(ctx, c, v, "not a %s of this catalogue", what);
}

static bool list_given(const bw_json *row, const char *name)
{
    const bw_json *v = bw_json_get_value(row, name);
    return v && v->count > 0;
}

/* Zones into which decisions are put are no groups and hold no researched members. */
static bw_status check_target(bw_ctx *ctx, const bw_catalogue *c, const bw_json *zone)
{
    const bw_json *row = bw_catalogue__get(c, BW_CAT_ZONES, zone->str);
    return row && bw_str_is(bw_catalogue__str(row, "kind"), "allow")
               ? BW_OK
               : bw_catalogue__bad(ctx, c, zone, "not an allow-zone of this catalogue");
}

static bool is_deny(const bw_json *zone)
{
    return bw_str_is(bw_catalogue__str(zone, "kind"), "deny");
}

/* What a deny-list that nobody wrote down lies in would hold every country. */
static bw_status check_parents(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    const bw_json *in = bw_json_get(row, "in");
    bool deny = is_deny(row);
    for (const bw_json *v = in ? in->child : NULL; v; v = v->next) {
        const bw_json *zone = bw_catalogue__get(c, BW_CAT_ZONES, v->str);
        if (!zone)
            return bw_catalogue__bad(ctx, c, v, "nothing lies in a country but itself");
        if (deny && !is_deny(zone))
            return bw_catalogue__bad(ctx, c, v, "a deny-list lies in deny-lists only");
        if (bw_json_get(zone, "members"))
            return bw_catalogue__bad(
                ctx, c, v,
                "its members are those whose localisation is known; add that fact");
    }
    return BW_OK;
}

static bw_status check_zone(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    bool unknown = bw_catalogue__true(row, "unknown");
    if (bw_catalogue_has_country(c, bw_catalogue__str(row, "id")))
        return bw_catalogue__bad(ctx, c, row, "a zone has the name of a country");
    if (unknown && bw_str_is(bw_catalogue__str(row, "kind"), "group"))
        return bw_catalogue__bad(ctx, c, row,
                                 "an unknown zone is an allow-list or a deny-list");
    if ((unknown || bw_json_get(row, "members")) && list_given(row, "countries"))
        return bw_catalogue__bad(ctx, c, row, "a list of countries contradicts \"%s\"",
                                 unknown ? "unknown" : "members");
    const bw_json *regime = bw_json_get(row, "regime");
    if (regime && !bw_catalogue_has_word(c, "regimes", regime->str))
        return bw_catalogue__bad(ctx, c, regime, "not a regime of this catalogue");
    return check_parents(ctx, c, row);
}

/* Full and unknown decisions have no condition; a partial one says it, or that it is
 * not known. */
static bw_status check_adequacy(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    const bw_json *regime = bw_catalogue__get2(c, BW_CAT_WORDS, BW_STR("regimes"),
                                               bw_catalogue__str(row, "regime"));
    const bw_json *certs = bw_json_get(row, "certs");
    bool partial = bw_str_is(bw_catalogue__str(row, "status"), "partial");
    if (!regime || !bw_json_get(regime, "zone"))
        return bw_catalogue__bad(ctx, c, row,
                                 "adequacy under a regime that has no zone for it");
    if (partial && !bw_json_get(regime, "conditional"))
        return bw_catalogue__bad(ctx, c, row,
                                 "this regime has no zone for partial adequacy");
    if (partial && (!certs || (certs->kind == BW_JSON_ARRAY && certs->count == 0)))
        return bw_catalogue__bad(
            ctx, c, row,
            "partial adequacy names the certs of a recipient (null if not known)");
    if (!partial && certs)
        return bw_catalogue__bad(ctx, c, certs, "certs go with partial adequacy");
    return BW_OK;
}

static bw_status check_word(bw_ctx *ctx, const bw_catalogue *c, const bw_json *row)
{
    bool regime = bw_str_is(row->parent->key, "regimes");
    const bw_json *zone = bw_json_get(row, "zone"),
                  *conditional = bw_json_get(row, "conditional");
    if ((zone || conditional) && !regime)
        return bw_catalogue__bad(ctx, c, row, "only a regime has zones");
    if (conditional && !zone)
        return bw_catalogue__bad(ctx, c, row,
                                 "a zone for partial adequacy without one for full");
    bw_status st = zone ? check_target(ctx, c, zone) : BW_OK;
    return st == BW_OK && conditional ? check_target(ctx, c, conditional) : st;
}

static bw_status check_row(bw_ctx *ctx, const bw_catalogue *c, int table,
                           const bw_json *row)
{
    const bw_json *law;
    switch (table) {
    case BW_CAT_ZONES:
        return check_zone(ctx, c, row);
    case BW_CAT_COUNTRIES:
        return check_parents(ctx, c, row);
    case BW_CAT_ACCESS:
        law = bw_json_get(row, "law");
        if ((law->kind == BW_JSON_NULL) !=
            (bw_json_get(row, "extraterritorial")->kind == BW_JSON_NULL))
            return bw_catalogue__bad(ctx, c, row,
                                     "law and reach are known, or neither is");
        return BW_OK;
    case BW_CAT_ADEQUACY:
        return check_adequacy(ctx, c, row);
    case BW_CAT_ENTITIES: /* an empty list would read as control by nobody, which fits
                             every rule */
        if (bw_json_get_value(row, "control_zones") &&
            !list_given(row, "control_zones"))
            return bw_catalogue__bad(
                ctx, c, row,
                "control_zones names at least one zone (null if not known)");
        return BW_OK;
    case BW_CAT_WORDS:
        return check_word(ctx, c, row);
    default:
        return BW_OK;
    }
}

bw_status bw_catalogue__check_names(bw_ctx *ctx, const bw_catalogue *c, int table,
                                    const bw_json *row)
{
    for (const bw_json *v = row->child; v; v = v->next) {
        const member *m = find(tables[table].members, v->key);
        if (!m || (table == BW_CAT_COUNTRIES && m->flags & KEY))
            continue;
        bw_status st = check_name(ctx, c, m->kind, v);
        for (const bw_json *e = v->kind == BW_JSON_ARRAY ? v->child : NULL;
             e && st == BW_OK; e = e->next)
            st = check_name(ctx, c, m->kind, e);
        if (st != BW_OK)
            return st;
    }
    return check_row(ctx, c, table, row);
}
