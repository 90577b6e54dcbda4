/* API keys. See keys.h.
 *
 * keys.json  {"format":1,"keys":[{"id":…,"hash":"64 hex",record…}]}
 *            replaced by write, fsync, rename, fsync of the folder at each change:
 * after a crash the old or the new list is there, whole. secrets/keys  32 random bytes:
 * the key of BLAKE2b.
 *
 * All records of one generation live in the arena of one ctx; a change parses the new
 * file text into a fresh one and swaps it under the write lock. Leaves out: JWTs. */
#include "keys.h"
#include "../engine/base/map.h"
#include "files.h"
#include "secrets.h"
#include <pthread.h>
#include <sodium.h>

enum { KEYS_FILE_MAX = 64 * 1024 * 1024, WORD_MAX = 128 };

typedef struct stored_key {
    bw_key_record record;
    unsigned char hash[32];
} stored_key;

typedef struct generation { /* immutable after build */
    bw_ctx *ctx;
    stored_key *keys;
    size_t n;
    bw_map *by_id; /* id -> index */
} generation;

struct bw_keys {
    char *dir;
    unsigned char *secret;
    pthread_rwlock_t lock;  /* guards now */
    pthread_mutex_t change; /* one writer; taken before lock */
    generation *now;
};

static void generation_free(generation *g)
{
    if (!g)
        return;
    bw_map_free(g->by_id);
    bw_ctx_free(g->ctx);
    bw_free(g);
}

/* ---- records ---- */

static bool word_ok(bw_str w)
{
    if (w.len == 0 || w.len > WORD_MAX)
        return false;
    for (size_t i = 0; i < w.len; i++) {
        char c = w.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || strchr("-_.@:+", c)) ||
            c == '\0')
            return false;
    }
    return true;
}

static bw_status parse_word(bw_ctx *ctx, const bw_json *v, bw_str *out)
{
    if (v->kind != BW_JSON_STRING || !word_ok(v->str))
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "wants 1 to %d letters, digits or -_.@:+", WORD_MAX);
    *out = v->str;
    return BW_OK;
}

static bw_status parse_words(bw_ctx *ctx, const bw_json *v, bw_words *out)
{
    if (!bw_json_is_array(v) || v->count > BW_KEY_WORDS_MAX ||
        v->kind == BW_JSON_NUMBERS)
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "wants a list of at most %d words", BW_KEY_WORDS_MAX);
    bw_str *w = bw_arena_calloc(ctx, v->count + 1, sizeof *w);
    if (!w)
        return bw_fail_nomem(ctx);
    size_t n = 0;
    for (const bw_json *e = v->child; e; e = e->next) {
        bw_status s = parse_word(ctx, e, &w[n]);
        if (s != BW_OK)
            return s;
        size_t at = n; /* kept sorted and unique: decisions want it so */
        while (at > 0 && bw_str_cmp(w[at], w[at - 1]) < 0) {
            bw_str t = w[at];
            w[at] = w[at - 1];
            w[at - 1] = t;
            at--;
        }
        if (at == 0 || !bw_str_eq(w[at], w[at - 1])) {
            n++;
        } else {
            memmove(&w[at], &w[at + 1], (n - at) * sizeof *w);
        }
    }
    *out = (bw_words){w, n};
    return BW_OK;
}

static bw_status parse_time(bw_ctx *ctx, const bw_json *v, int64_t *out)
{
    if (v->kind != BW_JSON_STRING || !bw_time_parse(v->str, out))
        return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                          "wants a date-time");
    return BW_OK;
}

static bw_status parse_member(bw_ctx *ctx, const bw_json *v, bool stored,
                              bw_key_record *r)
{
    if (bw_str_is(v->key, "principal"))
        return parse_word(ctx, v, &r->principal);
    if (bw_str_is(v->key, "tenant"))
        return parse_word(ctx, v, &r->tenant);
    if (bw_str_is(v->key, "seat"))
        return parse_word(ctx, v, &r->seat);
    if (bw_str_is(v->key, "clearance")) {
        uint64_t n;
        if (!bw_json_u64(v, &n) || n > 5)
            return bw_fail_at(ctx, BW_EINVALID, "/clearance",
                              "wants a whole number from 0 to 5");
        r->clearance = (uint32_t)n;
        return BW_OK;
    }
    if (bw_str_is(v->key, "roles"))
        return parse_words(ctx, v, &r->roles);
    if (bw_str_is(v->key, "purposes"))
        return parse_words(ctx, v, &r->purposes);
    if (bw_str_is(v->key, "safeguards"))
        return parse_words(ctx, v, &r->safeguards);
    if (bw_str_is(v->key, "default_purpose"))
        return v->kind == BW_JSON_NULL ? BW_OK
                                       : parse_word(ctx, v, &r->default_purpose);
    if (bw_str_is(v->key, "labels")) {
        if (v->kind != BW_JSON_OBJECT && v->kind != BW_JSON_NULL)
            return bw_fail_at(ctx, BW_EINVALID, "/labels", "wants an object");
        r->labels = v->kind == BW_JSON_OBJECT ? v->raw : (bw_str){NULL, 0};
        return BW_OK;
    }
    if (stored && bw_str_is(v->key, "id"))
        return parse_word(ctx, v, &r->id);
    if (stored && bw_str_is(v->key, "created"))
        return parse_time(ctx, v, &r->created_ns);
    if (stored && bw_str_is(v->key, "revoked"))
        return v->kind == BW_JSON_NULL ? BW_OK : parse_time(ctx, v, &r->revoked_ns);
    if (stored && bw_str_is(v->key, "hash"))
        return BW_OK;
    return bw_fail_at(ctx, BW_EINVALID, bw_json_pointer(ctx, v),
                      "unknown member of a key");
}

static bw_status record_parse(bw_ctx *ctx, const bw_json *object, bool stored,
                              bw_key_record *out)
{
    bw_key_record r;
    memset(&r, 0, sizeof r);
    if (!object || object->kind != BW_JSON_OBJECT)
        return bw_fail_at(ctx, BW_EINVALID, "", "wants a JSON object");
    for (const bw_json *v = object->child; v; v = v->next) {
        bw_status s = parse_member(ctx, v, stored, &r);
        if (s != BW_OK)
            return s;
    }
    if (r.principal.len == 0 || r.tenant.len == 0 || r.seat.len == 0)
        return bw_fail_at(ctx, BW_EINVALID, "",
                          "principal, tenant and seat must be said");
    if (r.default_purpose.len > 0) {
        bool in = false;
        for (size_t i = 0; i < r.purposes.n; i++)
            in = in || bw_str_eq(r.purposes.items[i], r.default_purpose);
        if (!in)
            return bw_fail_at(ctx, BW_EINVALID, "/default_purpose",
                              "is not among purposes");
    }
    *out = r;
    return BW_OK;
}

bw_status bw_key_record_parse(bw_ctx *ctx, const bw_json *object, bw_key_record *out)
{
    return record_parse(ctx, object, false, out);
}

static void put_members(bw_buf *b, const bw_key_record *r)
{
    char when[40];
    bw_json_put_key(b, "id");
    bw_json_put_str(b, r->id);
    bw_json_put_key(b, "principal");
    bw_json_put_str(b, r->principal);
    bw_json_put_key(b, "tenant");
    bw_json_put_str(b, r->tenant);
    bw_json_put_key(b, "seat");
    bw_json_put_str(b, r->seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, r->clearance);
    bw_json_put_strs(b, "roles", r->roles.items, r->roles.n);
    bw_json_put_strs(b, "purposes", r->purposes.items, r->purposes.n);
    bw_json_put_key(b, "default_purpose");
    if (r->default_purpose.len > 0)
        bw_json_put_str(b, r->default_purpose);
    else
        bw_buf_puts(b, "null");
    bw_json_put_strs(b, "safeguards", r->safeguards.items, r->safeguards.n);
    bw_json_put_key(b, "labels");
    bw_buf_str(b, r->labels.len > 0 ? r->labels : BW_STR("null"));
    bw_json_put_key(b, "created");
    bw_time_format(r->created_ns, when);
    bw_json_put_str(b, bw_str_c(when));
    bw_json_put_key(b, "revoked");
    bw_time_format(r->revoked_ns, when);
    if (r->revoked_ns != 0)
        bw_json_put_str(b, bw_str_c(when));
    else
        bw_buf_puts(b, "null");
}

void bw_key_record_put(bw_buf *out, const bw_key_record *r)
{
    bw_buf_putc(out, '{');
    put_members(out, r);
    bw_buf_putc(out, '}');
}

/* ---- the file ---- */

static void put_stored(bw_buf *b, const stored_key *k)
{
    char hex[65];
    sodium_bin2hex(hex, sizeof hex, k->hash, sizeof k->hash);
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    put_members(b, &k->record);
    bw_json_put_key(b, "hash");
    bw_json_put_str(b, bw_str_c(hex));
    bw_buf_putc(b, '}');
}

static bw_status parse_stored(bw_ctx *ctx, const bw_json *v, stored_key *out)
{
    size_t got = 0;
    bw_status s = record_parse(ctx, v, true, &out->record);
    if (s != BW_OK)
        return s;
    const bw_json *hash = bw_json_get(v, "hash");
    if (!hash || hash->kind != BW_JSON_STRING ||
        sodium_hex2bin(out->hash, sizeof out->hash, hash->str.ptr, hash->str.len, NULL,
                       &got, NULL) != 0 ||
        got != sizeof out->hash || out->record.id.len != BW_KEY_ID)
        return bw_fail(ctx, BW_ECORRUPT, "keys.json: a record has no id or hash");
    return BW_OK;
}

/* Into g, whose ctx is fresh. text is copied. */
static bw_status generation_parse(generation *g, bw_str text)
{
    bw_ctx *ctx = g->ctx;
    bw_json *root;
    bw_str copy;
    uint64_t format;
    bw_status s = bw_arena_str(ctx, text, &copy);
    if (s == BW_OK)
        s = bw_json_parse(ctx, copy,
                          (bw_json_limits){.depth_max = 16,
                                           .nodes_max = 4000000,
                                           .bytes_max = KEYS_FILE_MAX},
                          &root);
    if (s != BW_OK)
        return s;
    const bw_json *keys = bw_json_get(root, "keys");
    if (!bw_json_u64(bw_json_get(root, "format"), &format) || format != 1 ||
        !bw_json_is_array(keys))
        return bw_fail(ctx, BW_ECORRUPT, "keys.json: unknown format");
    g->keys = bw_arena_calloc(ctx, keys->count + 1, sizeof *g->keys);
    g->by_id = bw_map_new();
    if (!g->keys || !g->by_id)
        return bw_fail_nomem(ctx);
    for (const bw_json *v = keys->child; v && s == BW_OK; v = v->next) {
        bool fresh = false;
        s = parse_stored(ctx, v, &g->keys[g->n]);
        if (s != BW_OK)
            break;
        bw_str id = g->keys[g->n].record.id;
        uint64_t *slot = bw_map_put(g->by_id, id.ptr, id.len, &fresh);
        if (!slot)
            return bw_fail_nomem(ctx);
        if (!fresh)
            return bw_fail(ctx, BW_ECORRUPT, "keys.json: an id is there twice");
        *slot = g->n++;
    }
    return s;
}

static bw_status generation_new(bw_ctx *ctx, bw_str text, generation **out)
{
    generation *g = bw_calloc(1, sizeof *g);
    if (!g || !(g->ctx = bw_ctx_new((size_t)1 << 30))) {
        bw_free(g);
        return bw_fail_nomem(ctx);
    }
    bw_status s = generation_parse(g, text);
    if (s != BW_OK) {
        s = bw_ctx_take_error(ctx, g->ctx, s);
        generation_free(g);
        return s;
    }
    *out = g;
    return BW_OK;
}

/* Writes the current list with `changed` in place of index `at` (or after the end),
 * then serves it. Holds k->change. */
static bw_status keys_commit(bw_ctx *ctx, bw_keys *k, size_t at,
                             const stored_key *changed)
{
    bw_buf b = {0};
    generation *next = NULL, *old;
    const char *path = bw_path_join(ctx, k->dir, "keys.json");
    bw_status s = path ? BW_OK : bw_fail_nomem(ctx);
    bw_buf_puts(&b, "{\"format\":1,\"keys\":[");
    for (size_t i = 0; i < k->now->n; i++)
        put_stored(&b, i == at ? changed : &k->now->keys[i]);
    if (at == k->now->n)
        put_stored(&b, changed);
    bw_buf_puts(&b, "]}\n");
    if (s == BW_OK && b.failed)
        s = bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = generation_new(ctx, bw_buf_view(&b), &next);
    if (s == BW_OK)
        s = bw_file_replace(ctx, path, bw_buf_view(&b), 0600);
    if (s == BW_OK) {
        bw_require(pthread_rwlock_wrlock(&k->lock) == 0);
        old = k->now;
        k->now = next;
        bw_require(pthread_rwlock_unlock(&k->lock) == 0);
        generation_free(old);
    } else {
        generation_free(next);
    }
    bw_buf_clear(&b);
    return s;
}

/* ---- life ---- */

bw_status bw_keys_create(bw_ctx *ctx, const char *dir)
{
    const char *list = bw_path_join(ctx, dir, "keys.json");
    bw_status s = list ? bw_secret_create(ctx, dir, "keys") : bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = bw_file_replace(ctx, list, BW_STR("{\"format\":1,\"keys\":[]}\n"), 0600);
    return s;
}

bw_status bw_keys_open(bw_ctx *ctx, const char *dir, bw_keys **out)
{
    bw_str text;
    const char *list = bw_path_join(ctx, dir, "keys.json");
    bw_keys *k = bw_calloc(1, sizeof *k);
    if (!list || !k) {
        bw_free(k);
        return bw_fail_nomem(ctx);
    }
    if (pthread_rwlock_init(&k->lock, NULL) != 0 ||
        pthread_mutex_init(&k->change, NULL) != 0) {
        bw_free(k);
        return bw_fail(ctx, BW_EINTERNAL, "no lock");
    }
    size_t n = strlen(dir) + 1;
    k->dir = bw_alloc(n);
    bw_status s = k->dir ? BW_OK : bw_fail_nomem(ctx);
    if (s == BW_OK) {
        memcpy(k->dir, dir, n);
        s = bw_secret_open(ctx, dir, "keys", &k->secret);
    }
    if (s == BW_OK)
        s = bw_file_read(ctx, list, KEYS_FILE_MAX, &text);
    if (s == BW_OK)
        s = generation_new(ctx, text, &k->now);
    if (s != BW_OK && s != BW_ENOMEM && !strstr(bw_ctx_message(ctx), "keys")) {
        const char *why = bw_arena_printf(ctx, "%s: %s", list, bw_ctx_message(ctx));
        s = why ? bw_fail(ctx, s, "%s", why) : s;
    }
    if (s != BW_OK)
        bw_keys_close(k);
    else
        *out = k;
    return s;
}

void bw_keys_close(bw_keys *k)
{
    if (!k)
        return;
    generation_free(k->now);
    bw_secret_close(k->secret);
    bw_free(k->dir);
    (void)pthread_rwlock_destroy(&k->lock);
    (void)pthread_mutex_destroy(&k->change);
    bw_free(k);
}

/* ---- use ---- */

static void key_hash(const bw_keys *k, bw_str text, unsigned char out[32])
{
    bw_require(crypto_generichash(out, 32, (const unsigned char *)text.ptr, text.len,
                                  k->secret, BW_SECRET_BYTES) == 0);
}

static void key_make(char text[BW_KEY_TEXT + 1], char id[BW_KEY_ID + 1])
{
    unsigned char bits[32], idbits[BW_KEY_ID / 2];
    randombytes_buf(bits, sizeof bits);
    randombytes_buf(idbits, sizeof idbits);
    sodium_bin2hex(id, BW_KEY_ID + 1, idbits, sizeof idbits);
    memcpy(text, "bw_", 3);
    memcpy(text + 3, id, BW_KEY_ID);
    text[3 + BW_KEY_ID] = '_';
    sodium_bin2base64(text + 4 + BW_KEY_ID, BW_KEY_TEXT + 1 - 4 - BW_KEY_ID, bits,
                      sizeof bits, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(bits, sizeof bits);
}

bw_status bw_keys_add(bw_ctx *ctx, bw_keys *k, const bw_key_record *r,
                      char text[BW_KEY_TEXT + 1], char id[BW_KEY_ID + 1])
{
    stored_key fresh = {.record = *r};
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&k->change) == 0);
    if (k->now->n >= BW_KEYS_MAX) {
        s = bw_fail(ctx, BW_EUNAVAILABLE, "the cell holds %d keys already",
                    BW_KEYS_MAX);
    } else {
        do
            key_make(text, id);
        while (bw_map_get(k->now->by_id, id, BW_KEY_ID));
        bw_require(strlen(text) == BW_KEY_TEXT);
        key_hash(k, bw_str_c(text), fresh.hash);
        fresh.record.id = (bw_str){id, BW_KEY_ID};
        fresh.record.created_ns = bw_clock_unix_ns() / 1000000000 * 1000000000;
        fresh.record.revoked_ns = 0;
        s = keys_commit(ctx, k, k->now->n, &fresh);
        if (s != BW_OK)
            sodium_memzero(text, BW_KEY_TEXT + 1);
    }
    bw_require(pthread_mutex_unlock(&k->change) == 0);
    return s;
}

bw_status bw_keys_revoke(bw_ctx *ctx, bw_keys *k, bw_str id)
{
    bw_status s = BW_OK;
    bw_require(pthread_mutex_lock(&k->change) == 0);
    const uint64_t *slot = bw_map_get(k->now->by_id, id.ptr, id.len);
    if (!slot) {
        s = bw_fail(ctx, BW_ENOTFOUND, "no such key");
    } else if (k->now->keys[*slot].record.revoked_ns == 0) {
        stored_key changed = k->now->keys[*slot];
        changed.record.revoked_ns = bw_clock_unix_ns();
        s = keys_commit(ctx, k, (size_t)*slot, &changed);
    }
    bw_require(pthread_mutex_unlock(&k->change) == 0);
    return s;
}

static bw_status copy_words(bw_ctx *ctx, bw_words in, bw_words *out)
{
    bw_str *w = bw_arena_calloc(ctx, in.n + 1, sizeof *w);
    if (!w)
        return bw_fail_nomem(ctx);
    for (size_t i = 0; i < in.n; i++) {
        bw_status s = bw_arena_str(ctx, in.items[i], &w[i]);
        if (s != BW_OK)
            return s;
    }
    *out = (bw_words){w, in.n};
    return BW_OK;
}

static bw_status copy_record(bw_ctx *ctx, const bw_key_record *in, bw_key_record *out)
{
    bw_key_record r = *in;
    bw_str *strings[] = {&r.id,   &r.principal,       &r.tenant,
                         &r.seat, &r.default_purpose, &r.labels};
    bw_words *words[] = {&r.roles, &r.purposes, &r.safeguards};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        if (!strings[i]->ptr)
            continue;
        bw_status s = bw_arena_str(ctx, *strings[i], strings[i]);
        if (s != BW_OK)
            return s;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        bw_status s = copy_words(ctx, *words[i], words[i]);
        if (s != BW_OK)
            return s;
    }
    *out = r;
    return BW_OK;
}

bw_status bw_keys_list(bw_ctx *ctx, bw_keys *k, const bw_key_record **out, size_t *n)
{
    bw_status s = BW_OK;
    bw_require(pthread_rwlock_rdlock(&k->lock) == 0);
    size_t count = k->now->n;
    bw_key_record *r = bw_arena_calloc(ctx, count + 1, sizeof *r);
    if (!r)
        s = bw_fail_nomem(ctx);
    for (size_t i = 0; i < count && s == BW_OK; i++)
        s = copy_record(ctx, &k->now->keys[i].record, &r[i]);
    bw_require(pthread_rwlock_unlock(&k->lock) == 0);
    if (s == BW_OK) {
        *out = r;
        *n = count;
    }
    return s;
}

bw_status bw_keys_verify(bw_ctx *ctx, bw_keys *k, bw_str presented, bw_key_record *out)
{
    static const unsigned char
        nobody[32]; /* the hash of no key: same work when the id is unknown */
    unsigned char hash[32];
    const uint64_t *slot = NULL;
    bw_status s = BW_EDENIED;
    if (presented.len == BW_KEY_TEXT) {
        key_hash(k, presented, hash);
        bw_require(pthread_rwlock_rdlock(&k->lock) == 0);
        slot = bw_map_get(k->now->by_id, presented.ptr + 3, BW_KEY_ID);
        const stored_key *key = slot ? &k->now->keys[*slot] : NULL;
        int same = sodium_memcmp(hash, key ? key->hash : nobody, sizeof hash);
        if (key && same == 0 && key->record.revoked_ns == 0)
            s = copy_record(ctx, &key->record, out);
        bw_require(pthread_rwlock_unlock(&k->lock) == 0);
        sodium_memzero(hash, sizeof hash);
    }
    return s == BW_EDENIED ? bw_fail(ctx, BW_EDENIED, "Invalid API key or JWT") : s;
}
