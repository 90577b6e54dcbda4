/* Random filters over random payloads against a naive oracle, without and with payload
 * indexes, while another thread writes points that no filter of the test can match.
 *
 * The oracle shares nothing with the engine: it walks the generator's own trees (never
 * JSON), resolves paths from a hand-written table of steps, compares integers in 128
 * bits, splits words by hand and knows the instants of the dates that it hands out.
 * Every filter asked is {must: [live = true, F]}; the writer's points have no `live`.
 * BW_NIGHTLY=1 asks 10,000 filters, else 1,000; the seed is printed, BW_SEED sets it.
 */
#include "plan_fixture.h"
#include "rnd.h"

#include <pthread.h>
#include <stdatomic.h>

enum { POINTS = 240, DEPTH = 3, KIDS = 4 };

/* ---- trees ---- */

typedef enum node_kind {
    N_NULL,
    N_BOOL,
    N_INT,
    N_REAL,
    N_STRING,
    N_ARRAY,
    N_OBJECT
} node_kind;
typedef struct node {
    node_kind kind;
    bool truth;
    __int128 integer;
    double real;
    const char *text;
    struct node *kids[KIDS];
    const char *keys[KIDS]; /* OBJECT */
    int n;
} node;

static const char *const strings[] = {"a", "b", "red fox", "Fox, RED!", "blue",
                                      "",  "1", "true",    "q\"\\x",    "fox_blue den"};
static const struct {
    const char *text;
    int64_t s; /* seconds */
} dates[] = {{"2024-01-01T00:00:00Z", 1704067200},
             {"2024-01-01T02:00:00+02:00", 1704067200},
             {"2023-06-01", 1685577600},
             {"1969-12-31T23:59:59Z", -1}};
static const char *const integers[] = {"0",
                                       "1",
                                       "-1",
                                       "2",
                                       "42",
                                       "9007199254740992",
                                       "9007199254740993",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "18446744073709551615"};
static const double reals[] = {
    0.0, 1.0, -1.0, 0.5, 42.0, 9007199254740992.0, 1e19, 18446744073709551616.0};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static __int128 int_of(const char *s)
{
    __int128 v = 0;
    for (const char *p = s + (*s == '-'); *p; p++)
        v = v * 10 + (*p - '0');
    return *s == '-' ? -v : v;
}

static node *make(bw_ctx *ctx, node_kind kind)
{
    node *n = bw_arena_calloc(ctx, 1, sizeof *n);
    assert_non_null(n);
    n->kind = kind;
    return n;
}

static node *random_scalar(bw_ctx *ctx, rnd *r)
{
    static const node_kind kinds[] = {N_NULL, N_BOOL,   N_INT,    N_INT,
                                      N_REAL, N_STRING, N_STRING, N_STRING};
    node *n = make(ctx, kinds[rnd_below(r, COUNT(kinds))]);
    n->truth = rnd_below(r, 2);
    n->real = reals[rnd_below(r, COUNT(reals))];
    n->text = integers[rnd_below(r, COUNT(integers))];
    if (n->kind == N_INT)
        n->integer = int_of(n->text);
    if (n->kind == N_STRING)
        n->text = rnd_below(r, 3) == 0 ? dates[rnd_below(r, COUNT(dates))].text
                                       : strings[rnd_below(r, COUNT(strings))];
    return n;
}

static node *random_node(bw_ctx *ctx, rnd *r, int depth)
{
    static const char *const names[] = {"k", "x", "y", "d.t"};
    size_t kind = rnd_below(r, depth > 2 ? 3 : 6);
    if (kind < 3)
        return random_scalar(ctx, r);
    node *n = make(ctx, kind < 5 ? N_ARRAY : N_OBJECT);
    n->n = (int)rnd_below(r, KIDS);
    for (int i = 0; i < n->n; i++) {
        n->kids[i] = random_node(ctx, r, depth + 1);
        n->keys[i] = names[(size_t)i];
    }
    return n;
}

static node *random_payload(bw_ctx *ctx, rnd *r)
{
    static const char *const names[] = {"a", "n", "arr", "live"};
    node *n = make(ctx, N_OBJECT);
    for (size_t i = 0; i < 3; i++) {
        if (rnd_below(r, 6) == 0)
            continue;
        n->keys[n->n] = names[i];
        n->kids[n->n++] = random_node(ctx, r, 0);
    }
    n->keys[n->n] = "live";
    n->kids[n->n] = make(ctx, N_BOOL);
    n->kids[n->n++]->truth = true;
    return n;
}

/* ---- trees as JSON ---- */

static void print_string(bw_buf *b, rnd *r, const char *s)
{
    bw_buf_putc(b, '"');
    for (; *s; s++) { /* some letters as escapes: the same string */
        if (*s == '"' || *s == '\\')
            bw_buf_printf(b, "\\%c", *s);
        else if (rnd_below(r, 20) == 0)
            bw_buf_printf(b, "\\u%04x", (unsigned char)*s);
        else
            bw_buf_putc(b, *s);
    }
    bw_buf_putc(b, '"');
}

static void print_node(bw_buf *b, rnd *r, const node *n)
{
    switch (n->kind) {
    case N_NULL:
        bw_buf_puts(b, "null");
        break;
    case N_BOOL:
        bw_buf_puts(b, n->truth ? "true" : "false");
        break;
    case N_INT:
        bw_buf_puts(b, n->text);
        break;
    case N_REAL:
        bw_buf_printf(b, "%.17e", n->real);
        break;
    case N_STRING:
        print_string(b, r, n->text);
        break;
    case N_ARRAY:
    case N_OBJECT:
        bw_buf_putc(b, n->kind == N_ARRAY ? '[' : '{');
        for (int i = 0; i < n->n; i++) {
            bw_buf_puts(b, i ? ", " : "");
            if (n->kind == N_OBJECT) {
                print_string(b, r, n->keys[i]);
                bw_buf_putc(b, ':');
            }
            print_node(b, r, n->kids[i]);
        }
        bw_buf_putc(b, n->kind == N_ARRAY ? ']' : '}');
        break;
    }
}

/* ---- paths: text for the engine, steps for the oracle ---- */

enum { ALL = -1, KEY = -2 };
typedef struct path_case {
    const char *text;
    struct {
        int step; /* index, ALL or KEY */
        const char *key;
    } steps[4];
    int n;
} path_case;
static const path_case paths[] = {
    {"a", {{KEY, "a"}}, 1},
    {"n", {{KEY, "n"}}, 1},
    {"arr", {{KEY, "arr"}}, 1},
    {"a[]", {{KEY, "a"}, {ALL, NULL}}, 2},
    {"a[0]", {{KEY, "a"}, {0, NULL}}, 2},
    {"n.k", {{KEY, "n"}, {KEY, "k"}}, 2},
    {"n.\"d.t\"", {{KEY, "n"}, {KEY, "d.t"}}, 2},
    {"arr[].k", {{KEY, "arr"}, {ALL, NULL}, {KEY, "k"}}, 3},
    {"arr[][]", {{KEY, "arr"}, {ALL, NULL}, {ALL, NULL}}, 3},
    {"arr[1].x", {{KEY, "arr"}, {1, NULL}, {KEY, "x"}}, 3},
    {"zz", {{KEY, "zz"}}, 1},
};
/* Relative to an element, inside `nested`. */
static const path_case inner_paths[] = {{"k", {{KEY, "k"}}, 1},
                                        {"x", {{KEY, "x"}}, 1},
                                        {"x[]", {{KEY, "x"}, {ALL, NULL}}, 2}};

/* ---- filters: the engine's, and for each condition its path ---- */

typedef struct cond_path { /* conditions are found by address */
    const bw_condition *c;
    const path_case *path;
} cond_path;
static cond_path registry[4096];
static size_t nregistry;

static const path_case *path_of(const bw_condition *c)
{
    for (size_t i = 0; i < nregistry; i++) {
        if (registry[i].c == c)
            return registry[i].path;
    }
    return NULL;
}

static bw_number number_of(const char *text)
{
    bw_number n;
    bool ok = bw_raw_number(bw_str_c(text), &n);
    assert_true(ok);
    return n;
}

static bw_number random_bound(rnd *r, bool date, bool small)
{
    if (small) {
        uint64_t v = rnd_below(r, 4);
        return (bw_number){true, false, v, (double)v};
    }
    if (date) {
        int64_t ns = dates[rnd_below(r, COUNT(dates))].s * 1000000000;
        return (bw_number){true, ns < 0, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns,
                           (double)ns};
    }
    if (rnd_below(r, 2))
        return number_of(integers[rnd_below(r, COUNT(integers))]);
    return (bw_number){false, false, 0, reals[rnd_below(r, COUNT(reals))]};
}

static void random_range(rnd *r, bw_range *x, bool date, bool small)
{
    x->has_gt = rnd_below(r, 3) == 0;
    x->has_gte = rnd_below(r, 3) == 0;
    x->has_lt = rnd_below(r, 3) == 0;
    x->has_lte = rnd_below(r, 3) == 0;
    x->gt = random_bound(r, date, small);
    x->gte = random_bound(r, date, small);
    x->lt = random_bound(r, date, small);
    x->lte = random_bound(r, date, small);
}

static void random_values(bw_ctx *ctx, rnd *r, bw_condition *c, size_t n)
{
    bw_value *v = bw_arena_calloc(ctx, n, sizeof *v);
    for (size_t i = 0; i < n; i++) {
        size_t kind = rnd_below(r, 5);
        if (kind < 2) {
            v[i] = (bw_value){.kind = BW_VALUE_STRING,
                              .str = bw_str_c(strings[rnd_below(r, COUNT(strings))])};
        } else if (kind < 4) {
            bw_number x = number_of(integers[rnd_below(r, COUNT(integers))]);
            v[i] =
                (bw_value){.kind = BW_VALUE_INT, .mag = x.mag, .negative = x.negative};
        } else {
            v[i] = (bw_value){.kind = BW_VALUE_BOOL, .boolean = rnd_below(r, 2)};
        }
    }
    c->values = v;
    c->nvalues = (uint32_t)n;
}

static void random_ids(bw_ctx *ctx, rnd *r, bw_condition *c)
{
    size_t n = rnd_below(r, 60);
    bw_point_id *ids = bw_arena_calloc(ctx, n, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = fx_id(rnd_below(r, POINTS + 20));
    c->ids = ids;
    c->nids = (uint32_t)n;
}

static const bw_filter *random_filter(bw_ctx *ctx, rnd *r, int depth, bool inner);

static void random_condition(bw_ctx *ctx, rnd *r, int depth, bool inner,
                             bw_condition *c)
{
    static const char *const texts[] = {"fox", "RED fox", "den blue", "a",
                                        "",    "1",       "fox fox"};
    size_t kind = rnd_below(r, depth < DEPTH ? 14 : 11);
    *c = (bw_condition){0};
    const path_case *path = inner ? &inner_paths[rnd_below(r, COUNT(inner_paths))]
                                  : &paths[rnd_below(r, COUNT(paths))];
    c->key = bw_str_c(path->text);
    c->negate = rnd_below(r, 2);
    static const bw_condition_kind kinds[] = {
        BW_COND_MATCH_VALUE,  BW_COND_MATCH_ANY,  BW_COND_MATCH_EXCEPT,
        BW_COND_MATCH_TEXT,   BW_COND_RANGE,      BW_COND_DATE_RANGE,
        BW_COND_VALUES_COUNT, BW_COND_IS_EMPTY,   BW_COND_IS_NULL,
        BW_COND_HAS_ID,       BW_COND_HAS_VECTOR, BW_COND_NESTED,
        BW_COND_FILTER,       BW_COND_FILTER};
    c->kind = kinds[kind];
    random_range(r, &c->range, c->kind == BW_COND_DATE_RANGE,
                 c->kind == BW_COND_VALUES_COUNT);
    random_values(ctx, r, c, c->kind == BW_COND_MATCH_VALUE ? 1 : rnd_below(r, 4));
    c->text = bw_str_c(texts[rnd_below(r, COUNT(texts))]);
    if (c->kind == BW_COND_HAS_ID)
        random_ids(ctx, r, c);
    if (c->kind == BW_COND_HAS_VECTOR)
        c->key = rnd_below(r, 2) ? BW_STR("") : BW_STR("none");
    if (c->kind == BW_COND_NESTED) {
        path = &paths[rnd_below(r, 2) ? 2 : 3]; /* arr, a[] */
        c->key = bw_str_c(path->text);
    }
    if (c->kind == BW_COND_NESTED || c->kind == BW_COND_FILTER)
        c->filter =
            random_filter(ctx, r, depth + 1, inner || c->kind == BW_COND_NESTED);
    assert_true(nregistry < COUNT(registry));
    registry[nregistry++] = (cond_path){c, path};
}

static const bw_condition *random_list(bw_ctx *ctx, rnd *r, int depth, bool inner,
                                       uint32_t *n)
{
    *n = (uint32_t)(rnd_below(r, 2) ? 0 : 1 + rnd_below(r, 2));
    bw_condition *list = bw_arena_calloc(ctx, *n, sizeof *list);
    for (uint32_t i = 0; i < *n; i++)
        random_condition(ctx, r, depth, inner, &list[i]);
    return list;
}

static const bw_filter *random_filter(bw_ctx *ctx, rnd *r, int depth, bool inner)
{
    bw_filter *f = bw_arena_calloc(ctx, 1, sizeof *f);
    f->must = random_list(ctx, r, depth, inner, &f->nmust);
    f->should = random_list(ctx, r, depth, inner, &f->nshould);
    f->must_not = random_list(ctx, r, depth, inner, &f->nmust_not);
    if (rnd_below(r, 6) == 0) {
        f->min_should = random_list(ctx, r, depth, inner, &f->nmin_should);
        f->min_count = rnd_below(r, 3);
        f->has_min_should = true;
    }
    return f;
}

/* ---- the oracle ---- */

typedef struct reached {
    const node *items[256];
    int n;
} reached;

static void resolve(const node *n, const path_case *p, int step, reached *out)
{
    if (step == p->n) {
        assert_true(out->n < (int)COUNT(out->items));
        out->items[out->n++] = n;
        return;
    }
    int want = p->steps[step].step;
    for (int i = 0; i < n->n; i++) {
        bool take = n->kind == N_OBJECT
                        ? want == KEY && strcmp(n->keys[i], p->steps[step].key) == 0
                        : n->kind == N_ARRAY && (want == ALL || want == i);
        if (take)
            resolve(n->kids[i], p, step + 1, out);
    }
}

static bool is_value(const node *n, const bw_value *v)
{
    if (v->kind == BW_VALUE_BOOL)
        return n->kind == N_BOOL && n->truth == v->boolean;
    if (v->kind == BW_VALUE_INT)
        return n->kind == N_INT &&
               n->integer == (v->negative ? -(__int128)v->mag : (__int128)v->mag);
    return n->kind == N_STRING && strlen(n->text) == v->str.len &&
           memcmp(n->text, v->str.ptr, v->str.len) == 0;
}

static bool in_list(const node *n, const bw_condition *c)
{
    for (uint32_t i = 0; i < c->nvalues; i++) {
        if (is_value(n, &c->values[i]))
            return true;
    }
    return false;
}

/* a − b's sign; all doubles of the test are whole or halves below 2^65: doubled, exact.
 */
static int compare(const node *a, const bw_number *b)
{
    __int128 x = a->kind == N_INT ? a->integer * 2 : (__int128)(a->real * 2);
    __int128 y = b->is_int ? (b->negative ? -(__int128)b->mag : (__int128)b->mag) * 2
                           : (__int128)(b->real * 2);
    return (x > y) - (x < y);
}

static bool in_range(const node *n, const bw_range *r)
{
    return (!r->has_gt || compare(n, &r->gt) > 0) &&
           (!r->has_gte || compare(n, &r->gte) >= 0) &&
           (!r->has_lt || compare(n, &r->lt) < 0) &&
           (!r->has_lte || compare(n, &r->lte) <= 0);
}

static bool is_date(const node *n, node *out)
{
    for (size_t i = 0; i < COUNT(dates) && n->kind == N_STRING; i++) {
        if (strcmp(dates[i].text, n->text) == 0) {
            *out = (node){.kind = N_INT, .integer = (__int128)dates[i].s * 1000000000};
            return true;
        }
    }
    return false;
}

static bool alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Whether `text` holds the word w … w+n, as a whole word. */
static bool has_word(const char *text, const char *w, size_t n)
{
    for (size_t i = 0; text[i]; i++) {
        size_t j = 0;
        if (!alnum(text[i]) || (i > 0 && alnum(text[i - 1])))
            continue;
        while (j < n && text[i + j] && lower(text[i + j]) == lower(w[j]))
            j++;
        if (j == n && !alnum(text[i + j]))
            return true;
    }
    return false;
}

static bool has_words(const node *n, bw_str words)
{
    size_t found = 0;
    for (size_t i = 0; n->kind == N_STRING && i < words.len;) {
        size_t j = i;
        while (j < words.len && alnum(words.ptr[j]))
            j++;
        if (j > i) {
            if (!has_word(n->text, words.ptr + i, j - i))
                return false;
            found++;
        }
        i = j + 1;
    }
    return found > 0;
}

static bool scalar_meets(const node *n, const bw_condition *c)
{
    node date;
    switch (c->kind) {
    case BW_COND_MATCH_VALUE:
    case BW_COND_MATCH_ANY:
        return in_list(n, c);
    case BW_COND_MATCH_EXCEPT:
        return n->kind != N_NULL && !in_list(n, c);
    case BW_COND_MATCH_TEXT:
        return has_words(n, c->text);
    case BW_COND_RANGE:
        return (n->kind == N_INT || n->kind == N_REAL) && in_range(n, &c->range);
    default:
        return is_date(n, &date) && in_range(&date, &c->range);
    }
}

static bool oracle(const bw_filter *f, uint64_t id, const node *payload, bool inner);

static bool value_meets(const node *n, const bw_condition *c)
{
    node count = {.kind = N_INT,
                  .integer = n->kind == N_NULL    ? 0
                             : n->kind == N_ARRAY ? n->n
                                                  : 1};
    bool any = false;
    switch (c->kind) {
    case BW_COND_VALUES_COUNT:
        return in_range(&count, &c->range);
    case BW_COND_IS_EMPTY:
        return n->kind != N_NULL &&
               !(n->kind == N_ARRAY && n->n == 0); /* is not empty */
    case BW_COND_IS_NULL:
        for (int i = 0; n->kind == N_ARRAY && i < n->n; i++)
            any = any || n->kids[i]->kind == N_NULL;
        return any || n->kind == N_NULL;
    default:
        for (int i = 0; n->kind == N_ARRAY && i < n->n; i++)
            any = any || scalar_meets(n->kids[i], c);
        return n->kind == N_ARRAY ? any : scalar_meets(n, c);
    }
}

static bool oracle_nested(const bw_condition *c, const node *payload)
{
    reached r = {.n = 0};
    path_case p = *path_of(c);
    if (p.steps[p.n - 1].step != ALL)
        p.steps[p.n++].step = ALL;
    resolve(payload, &p, 0, &r);
    for (int i = 0; i < r.n; i++) {
        if (r.items[i]->kind == N_OBJECT && oracle(c->filter, 0, r.items[i], true))
            return true;
    }
    return false;
}

static bool oracle_condition(const bw_condition *c, uint64_t id, const node *payload,
                             bool inner)
{
    if (c->kind == BW_COND_FILTER)
        return oracle(c->filter, id, payload, inner);
    if (c->kind == BW_COND_HAS_VECTOR)
        return !inner && c->key.len == 0;
    if (c->kind == BW_COND_HAS_ID) {
        for (uint32_t i = 0; i < c->nids && !inner; i++) {
            if (c->ids[i].lo == id)
                return true;
        }
        return false;
    }
    if (c->kind == BW_COND_NESTED)
        return oracle_nested(c, payload);
    reached r = {.n = 0};
    bool any = false;
    resolve(payload, path_of(c), 0, &r);
    for (int i = 0; i < r.n; i++)
        any = any || value_meets(r.items[i], c);
    if (c->kind == BW_COND_IS_EMPTY)
        return any == c->negate;
    if (c->kind == BW_COND_IS_NULL)
        return any != c->negate;
    static const node nothing = {.kind = N_NULL};
    return r.n == 0 && c->kind == BW_COND_VALUES_COUNT ? value_meets(&nothing, c) : any;
}

static bool oracle(const bw_filter *f, uint64_t id, const node *payload, bool inner)
{
    uint64_t should = 0, min = 0;
    for (uint32_t i = 0; i < f->nmust; i++) {
        if (!oracle_condition(&f->must[i], id, payload, inner))
            return false;
    }
    for (uint32_t i = 0; i < f->nmust_not; i++) {
        if (oracle_condition(&f->must_not[i], id, payload, inner))
            return false;
    }
    for (uint32_t i = 0; i < f->nshould; i++)
        should += oracle_condition(&f->should[i], id, payload, inner);
    for (uint32_t i = 0; i < f->nmin_should; i++)
        min += oracle_condition(&f->min_should[i], id, payload, inner);
    return (f->nshould == 0 || should > 0) &&
           (!f->has_min_should || min >= f->min_count);
}

/* ---- the writer ---- */

typedef struct writer {
    fixture *f;
    atomic_bool stop;
    uint64_t writes;
} writer;

/* Points with the same fields and values, but not `live`: upserts, moves, deletes. */
static void *write_on(void *arg)
{
    writer *w = arg;
    fixture *f = w->f;
    bw_ctx *ctx = bw_ctx_new(0);
    rnd r = {99};
    while (!atomic_load(&w->stop)) {
        bw_buf b = {0};
        bw_access access = {f->all, f->all, f->all, f->all};
        bw_write_result result;
        node *payload = random_payload(ctx, &r);
        payload->n--; /* without live */
        print_node(&b, &r, payload);
        float v[] = {1, 1};
        bw_vector vector = {BW_STR(""), v, NULL, FX_DIM, false};
        bw_point p = {.id = fx_id(1000000 + rnd_below(&r, 50)),
                      .class_id = f->classes[rnd_below(&r, 3)],
                      .payload = bw_buf_view(&b),
                      .vectors = &vector,
                      .nvectors = 1};
        bw_op op = {.kind = rnd_below(&r, 4) ? BW_OP_UPSERT : BW_OP_DELETE,
                    .points = &p,
                    .npoints = 1,
                    .ids = &p.id,
                    .nids = 1};
        bw_status st =
            bw_write(ctx, f->engine, FX_TENANT, FX_NAME, &access, &op, 1, &result);
        bw_buf_clear(&b);
        if (st != BW_OK)
            print_message("writer: %s\n", bw_ctx_message(ctx));
        w->writes += st == BW_OK;
        bw_ctx_reset(ctx);
    }
    bw_ctx_free(ctx);
    return NULL;
}

/* ---- the test ---- */

static const bw_filter *live_and(bw_ctx *ctx, const bw_filter *f)
{
    static const bw_value yes = {.kind = BW_VALUE_BOOL, .boolean = true};
    bw_condition *c = bw_arena_calloc(ctx, 2, sizeof *c);
    bw_filter *both = bw_arena_calloc(ctx, 1, sizeof *both);
    c[0] = (bw_condition){.kind = BW_COND_MATCH_VALUE,
                          .key = BW_STR("live"),
                          .values = &yes,
                          .nvalues = 1};
    c[1] = (bw_condition){.kind = BW_COND_FILTER, .filter = f};
    *both = (bw_filter){.must = c, .nmust = 2};
    return both;
}

static void ask(fixture *f, node *const *payloads, uint64_t seed, size_t filters,
                const char *phase)
{
    size_t matched = 0;
    for (size_t i = 0; i < filters; i++) {
        rnd r = {seed + i};
        nregistry = 0;
        const bw_filter *filter = random_filter(f->ctx, &r, 0, false);
        bw_scroll s = {.filter = live_and(f->ctx, filter), .limit = 2 * POINTS};
        bw_result *result;
        size_t n, at = 0;
        uint64_t count;
        fx_ok(f, f->ctx, bw_scroll_run(f->ctx, f->engine, &f->read, &s, &result));
        const bw_hit *hits = bw_result_hits(result, 0, &n);
        for (uint64_t id = 0; id < POINTS; id++) {
            bool want = oracle(filter, id, payloads[id], false),
                 got = at < n && hits[at].id.lo == id;
            if (want != got)
                fail_msg("%s: filter %zu (BW_SEED=%llu), point %llu: %s", phase, i,
                         (unsigned long long)seed, (unsigned long long)id,
                         got ? "must not match" : "must match");
            at += got;
        }
        assert_int_equal(at, n);
        bw_result_free(result);
        fx_ok(f, f->ctx, bw_count(f->ctx, f->engine, &f->read, s.filter, &count));
        assert_int_equal(count, n);
        matched += n;
        bw_ctx_reset(f->ctx);
    }
    print_message("%s: %zu filters, %zu matches\n", phase, filters, matched);
    assert_true(matched > filters); /* the generator is not vacuous */
}

static void index_all(fixture *f, uint64_t seed)
{
    static const char *const types[] = {"keyword",  "integer", "float", "bool",
                                        "datetime", "text",    "uuid"};
    rnd r = {seed};
    for (size_t i = 0; i < COUNT(paths); i++)
        fx_index(f, paths[i].text, types[rnd_below(&r, COUNT(types))]);
    fx_index(f, "live", "bool");
}

static void test_filter_oracle__random_filters_while_writes_go_on(void **state)
{
    static const bw_vector_spec spec = {
        .name = {"", 0}, .dim = FX_DIM, .metric = BW_METRIC_DOT};
    (void)state;
    fixture *f = fx_new(&spec, 1);
    rnd r = rnd_start("filter_oracle", 20261130);
    uint64_t seed = r.state;
    const char *nightly = getenv("BW_NIGHTLY");
    size_t filters = nightly && *nightly == '1' ? 10000 : 1000;
    bw_ctx *trees = bw_ctx_new(0);
    node *payloads[POINTS];
    for (uint64_t id = 0; id < POINTS; id++) {
        bw_buf b = {0};
        payloads[id] = random_payload(trees, &r);
        print_node(&b, &r, payloads[id]);
        bw_buf_putc(&b, '\0');
        fx_put(f, (int)(id % 3), id, 1, 1, b.ptr);
        bw_buf_clear(&b);
    }
    writer w = {.f = f};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    ask(f, payloads, seed, filters, "without indexes");
    for (uint64_t round = 0; round < 5; round++) { /* other kinds of index each time */
        index_all(f, seed + round);
        ask(f, payloads, seed + round * filters / 5, filters / 5, "with indexes");
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    print_message("%llu writes went on\n", (unsigned long long)w.writes);
    assert_true(w.writes > 0);
    bw_ctx_free(trees);
    fx_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_oracle__random_filters_while_writes_go_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
