/* Values: hash, total order, sets, records. See value.h.
 *
 * Sorting is insertion for short lists and heapsort for long ones: in place, no heap,
 * no recursion, n log n at worst; stability does not matter since equal elements merge.
 */
#include "value.h"

#include <pthread.h>
#include <sodium.h>

static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void hash_start(void)
{
    randombytes_buf(hash_key, sizeof hash_key);
}

uint64_t bw_cedar__hash(bw_str type, bw_str id)
{
    uint64_t a, b;
    static_assert(crypto_shorthash_BYTES == sizeof a, "SipHash-2-4 gives 64 bits");
    pthread_once(&hash_once, hash_start);
    crypto_shorthash((unsigned char *)&a, (const unsigned char *)type.ptr, type.len,
                     hash_key);
    crypto_shorthash((unsigned char *)&b, (const unsigned char *)id.ptr, id.len,
                     hash_key);
    return a * UINT64_C(0x9e3779b97f4a7c15) + b;
}

/* ---- order ---- */
static int cmp_str(bw_str a, bw_str b, uint64_t *cost)
{
    *cost += (a.len < b.len ? a.len : b.len) / 64;
    return bw_str_cmp(a, b);
}

static int cmp_i64(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int cmp_items(const bw_cedar_value *a, const bw_cedar_value *b, uint64_t *cost)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    if (a->u.items == b->u.items)
        return 0;
    int c = 0;
    for (uint32_t i = 0; i < a->n && c == 0; i++)
        c = bw_cedar__cmp(&a->u.items[i], &b->u.items[i], cost);
    return c;
}

static int cmp_members(const bw_cedar_value *a, const bw_cedar_value *b, uint64_t *cost)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    if (a->u.members == b->u.members)
        return 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const bw_cedar__member *x = &a->u.members[i], *y = &b->u.members[i];
        int c = cmp_str(x->key, y->key, cost);
        if (c == 0)
            c = bw_cedar__cmp(&x->value, &y->value, cost);
        if (c != 0)
            return c;
    }
    return 0;
}

/* Recursion follows the nesting of values, which is bounded (value.h). */
int bw_cedar__cmp(const bw_cedar_value *a, const bw_cedar_value *b, uint64_t *cost)
{
    ++*cost;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    switch ((bw_cedar__kind)a->kind) {
    case BW_CEDAR__BOOL:
        return (int)a->u.boolean - (int)b->u.boolean;
    case BW_CEDAR__LONG:
    case BW_CEDAR__DECIMAL:
    case BW_CEDAR__DATETIME:
    case BW_CEDAR__DURATION:
        return cmp_i64(a->u.integer, b->u.integer);
    case BW_CEDAR__STRING:
        return cmp_str(bw_cedar__text(a), bw_cedar__text(b), cost);
    case BW_CEDAR__ENTITY: {
        if (bw_cedar__uid_eq(a->u.uid, b->u.uid))
            return 0;
        int c = cmp_str(a->u.uid->type, b->u.uid->type, cost);
        return c != 0 ? c : cmp_str(a->u.uid->id, b->u.uid->id, cost);
    }
    case BW_CEDAR__SET:
        return cmp_items(a, b, cost);
    case BW_CEDAR__RECORD:
        return cmp_members(a, b, cost);
    case BW_CEDAR__IP:
        return bw_cedar__ip_cmp(a->u.ip, b->u.ip);
    }
    return 0;
}

/* ---- sets ---- */
static void sift_down(bw_cedar_value *v, size_t root, size_t n, uint64_t *cost)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && bw_cedar__cmp(&v[child], &v[child + 1], cost) < 0)
            child++;
        if (bw_cedar__cmp(&v[root], &v[child], cost) >= 0)
            return;
        bw_cedar_value t = v[root];
        v[root] = v[child];
        v[child] = t;
    }
}

static void sort_values(bw_cedar_value *v, size_t n, uint64_t *cost)
{
    if (n <= 12) {
        for (size_t i = 1; i < n; i++) {
            bw_cedar_value t = v[i];
            size_t k = i;
            for (; k > 0 && bw_cedar__cmp(&v[k - 1], &t, cost) > 0; k--)
                v[k] = v[k - 1];
            v[k] = t;
        }
        return;
    }
    for (size_t i = n / 2; i-- > 0;)
        sift_down(v, i, n, cost);
    for (size_t end = n - 1; end > 0; end--) {
        bw_cedar_value t = v[0];
        v[0] = v[end];
        v[end] = t;
        sift_down(v, 0, end, cost);
    }
}

uint32_t bw_cedar__set_sort(bw_cedar_value *items, uint32_t n, uint64_t *cost)
{
    if (n == 0)
        return 0;
    sort_values(items, n, cost);
    uint32_t k = 1;
    for (uint32_t i = 1; i < n; i++)
        if (bw_cedar__cmp(&items[i], &items[k - 1], cost) != 0)
            items[k++] = items[i];
    return k;
}

enum { SHORT_SET = 8 };

/* Few strings: most differ in length, which is quicker seen than their order. */
static bool short_set_has(const bw_cedar_value *set, const bw_cedar_value *text,
                          uint64_t *cost)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->u.items[i].kind == BW_CEDAR__STRING && set->u.items[i].n == text->n) {
            *cost += text->n / 64;
            if (bw_str_eq(bw_cedar__text(&set->u.items[i]), bw_cedar__text(text)))
                return true;
        }
    return false;
}

bool bw_cedar__set_has(const bw_cedar_value *set, const bw_cedar_value *v,
                       uint64_t *cost)
{
    uint32_t lo = 0, hi = set->n;
    if (hi <= SHORT_SET && v->kind == BW_CEDAR__STRING)
        return short_set_has(set, v, cost);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = bw_cedar__cmp(&set->u.items[mid], v, cost);
        if (c == 0)
            return true;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

bool bw_cedar__set_has_all(const bw_cedar_value *set, const bw_cedar_value *part,
                           uint64_t *cost)
{
    if (part->n > set->n)
        return false;
    for (uint32_t i = 0; i < part->n; i++)
        if (!bw_cedar__set_has(set, &part->u.items[i], cost))
            return false;
    return true;
}

bool bw_cedar__set_has_any(const bw_cedar_value *a, const bw_cedar_value *b,
                           uint64_t *cost)
{
    const bw_cedar_value *small = a->n < b->n ? a : b, *large = small == a ? b : a;
    for (uint32_t i = 0; i < small->n; i++)
        if (bw_cedar__set_has(large, &small->u.items[i], cost))
            return true;
    return false;
}

/* ---- records ---- */
static void sift_members(bw_cedar__member *m, size_t root, size_t n)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && bw_str_cmp(m[child].key, m[child + 1].key) < 0)
            child++;
        if (bw_str_cmp(m[root].key, m[child].key) >= 0)
            return;
        bw_cedar__member t = m[root];
        m[root] = m[child];
        m[child] = t;
    }
}

bool bw_cedar__record_sort(bw_cedar__member *m, uint32_t n)
{
    bool sorted = true;
    for (uint32_t i = 1; i < n && sorted; i++)
        sorted = bw_str_cmp(m[i - 1].key, m[i].key) < 0;
    if (sorted)
        return true;
    for (size_t i = n / 2; i-- > 0;)
        sift_members(m, i, n);
    for (size_t end = n - 1; end > 0; end--) {
        bw_cedar__member t = m[0];
        m[0] = m[end];
        m[end] = t;
        sift_members(m, 0, end);
    }
    for (uint32_t i = 1; i < n; i++)
        if (bw_str_eq(m[i - 1].key, m[i].key))
            return false;
    return true;
}

const bw_cedar_value *bw_cedar__record_get(const bw_cedar_value *record, bw_str key)
{
    uint32_t lo = 0, hi = record->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = bw_str_cmp(record->u.members[mid].key, key);
        if (c == 0)
            return &record->u.members[mid].value;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- names ---- */
static bool ident_start(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool bw_cedar__is_ident(bw_str s)
{
    if (s.len == 0 || !ident_start(s.ptr[0]))
        return false;
    for (size_t i = 1; i < s.len; i++)
        if (!ident_start(s.ptr[i]) && !(s.ptr[i] >= '0' && s.ptr[i] <= '9'))
            return false;
    return true;
}

bool bw_cedar__is_reserved(bw_str s)
{
    static const bw_str words[] = {
        {"true", 4}, {"false", 5}, {"if", 2},   {"then", 4}, {"else", 4},
        {"in", 2},   {"has", 3},   {"like", 4}, {"is", 2},   {"__cedar", 7},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bw_str_eq(s, words[i]))
            return true;
    return false;
}

bool bw_cedar__is_path(bw_str s)
{
    size_t start = 0;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != ':')
            continue;
        bw_str part = {s.ptr + start, i - start};
        if (!bw_cedar__is_ident(part) || bw_cedar__is_reserved(part))
            return false;
        if (i == s.len)
            return true;
        if (i + 1 >= s.len || s.ptr[i + 1] != ':')
            return false;
        start = i + 2;
        i++;
    }
    return false;
}

bw_str bw_cedar__path_last(bw_str s)
{
    for (size_t i = s.len; i >= 2; i--)
        if (s.ptr[i - 1] == ':')
            return (bw_str){s.ptr + i, s.len - i};
    return s;
}

/* ---- copies ---- */
static bool copy_uid(bw_ctx *pool, const bw_cedar__uid *uid, bw_cedar_value *out)
{
    bw_cedar__uid *copy = bw_arena_alloc(pool, sizeof *copy);
    if (!copy || bw_arena_str(pool, uid->type, &copy->type) != BW_OK ||
        bw_arena_str(pool, uid->id, &copy->id) != BW_OK)
        return false;
    copy->hash = uid->hash;
    out->u.uid = copy;
    return true;
}

static bool copy_items(bw_ctx *pool, const bw_cedar_value *v, bw_cedar_value *out)
{
    bw_cedar_value *items = bw_arena_alloc(pool, v->n * sizeof *items);
    out->u.items = items;
    for (uint32_t i = 0; items && i < v->n; i++)
        if (!bw_cedar__value_copy(pool, &v->u.items[i], &items[i]))
            return false;
    return items != NULL;
}

static bool copy_members(bw_ctx *pool, const bw_cedar_value *v, bw_cedar_value *out)
{
    bw_cedar__member *m = bw_arena_alloc(pool, v->n * sizeof *m);
    out->u.members = m;
    for (uint32_t i = 0; m && i < v->n; i++)
        if (bw_arena_str(pool, v->u.members[i].key, &m[i].key) != BW_OK ||
            !bw_cedar__value_copy(pool, &v->u.members[i].value, &m[i].value))
            return false;
    return m != NULL;
}

bool bw_cedar__value_copy(bw_ctx *pool, const bw_cedar_value *v, bw_cedar_value *out)
{
    bw_cedar__ip *ip;
    bw_str text;
    *out = *v;
    switch ((bw_cedar__kind)v->kind) {
    case BW_CEDAR__STRING:
        if (bw_arena_str(pool, bw_cedar__text(v), &text) != BW_OK)
            return false;
        out->u.text = text.ptr;
        return true;
    case BW_CEDAR__ENTITY:
        return copy_uid(pool, v->u.uid, out);
    case BW_CEDAR__SET:
        return copy_items(pool, v, out);
    case BW_CEDAR__RECORD:
        return copy_members(pool, v, out);
    case BW_CEDAR__IP:
        if (!(ip = bw_arena_alloc(pool, sizeof *ip)))
            return false;
        *ip = *v->u.ip;
        out->u.ip = ip;
        return true;
    default:
        return true;
    }
}
