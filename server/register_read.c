/* Reads the register of classes (register.h). Trusts nothing in it: a class must hash to
 * its id and a list to its name, and a difference may only build on an earlier line. */
#include "register.h"
#include "../engine/base/json.h"
#include "../policies/labels.h"
#include "files.h"
#include <sodium.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 1 << 30, DIFFERENCES_MAX = 1 << 20, HELD_IDS_MAX = 1 << 22 };

typedef struct list_line {
    const struct list_line *from; /* NULL: whole */
    const bw_json *add, *drop;    /* whole: add */
    uint8_t digest[BW_LIST_DIGEST];
    bw_class_id *ids; /* heap, while held */
    size_t n;
} list_line;

struct bw_register_book {
    bw_ctx *mem;
    bw_map *classes; /* id -> arena bw_str */
    bw_map *lists;   /* digest -> arena list_line */
    size_t held_ids;
};

static bool list_name(const bw_json *v, uint8_t out[BW_LIST_DIGEST])
{
    size_t got = 0;
    const char *end = NULL;
    return v && v->kind == BW_JSON_STRING && v->str.len == 2 * BW_LIST_DIGEST &&
           sodium_hex2bin(out, BW_LIST_DIGEST, v->str.ptr, v->str.len, NULL, &got,
                          &end) == 0 &&
           got == BW_LIST_DIGEST;
}

/* The next whole line; false at the end. *text is cut from the front. */
static bool line_next(bw_str *text, bw_str *line)
{
    const char *lf = text->len > 0 ? memchr(text->ptr, '\n', text->len) : NULL;
    if (!lf)
        return false;
    *line = (bw_str){text->ptr, (size_t)(lf - text->ptr)};
    *text = (bw_str){lf + 1, text->len - line->len - 1};
    return true;
}

static bool read_class(const bw_json *v, bw_class_id *id, bw_str *text)
{
    const bw_json *name = bw_json_get(v, "class"), *labels = bw_json_get(v, "labels");
    bw_class_id proved;
    if (!name || name->kind != BW_JSON_STRING || !bw_class_id_parse(name->str, id) ||
        !labels)
        return false;
    bw_labels_class_id(labels->raw, &proved);
    *text = labels->raw;
    return bw_class_id_cmp(&proved, id) == 0;
}

static bw_status read_text(bw_ctx *ctx, const char *path, bw_str *out)
{
    bw_status s = bw_file_read(ctx, path, FILE_BYTES_MAX, out);
    if (s == BW_ENOTFOUND)
        *out = (bw_str){"", 0};
    return s == BW_ENOTFOUND ? BW_OK : s;
}

bw_status bw_register__known(bw_ctx *ctx, const char *path, bw_map *classes, bw_map *lists,
                             uint64_t *whole_bytes)
{
    bw_ctx *own = bw_ctx_new((size_t)2 << 30); /* the text goes again */
    bw_str text, line, labels;
    if (!own)
        return bw_fail_nomem(ctx);
    bw_status s = read_text(own, path, &text);
    const char *begin = s == BW_OK ? text.ptr : NULL;
    while (s == BW_OK && line_next(&text, &line)) {
        bw_json *v;
        bw_class_id id;
        uint8_t digest[BW_LIST_DIGEST];
        bw_arena_mark mark = bw_arena_mark_get(own);
        bool fits = bw_json_parse(own, line, BW_JSON_CEDAR, &v) == BW_OK, kept = true;
        if (fits && read_class(v, &id, &labels))
            kept = bw_map_put(classes, id.bytes, sizeof id.bytes, NULL) != NULL;
        else if (fits && list_name(bw_json_get(v, "list"), digest))
            kept = bw_map_put(lists, digest, sizeof digest, NULL) != NULL;
        else
            bw_log(BW_LOG_WARN, "a line of the register of classes proves nothing");
        s = kept ? BW_OK : bw_fail_nomem(own);
        bw_arena_release(own, mark);
    }
    if (s == BW_OK)
        *whole_bytes = (uint64_t)(text.ptr - begin);
    else
        s = bw_ctx_take_error(ctx, own, s);
    bw_ctx_free(own);
    return s;
}

/* ---- the book ---- */

static bw_status take_line(bw_register_book *b, bw_str line)
{
    bw_json *v;
    bw_class_id id;
    bw_str text, *kept;
    uint8_t from[BW_LIST_DIGEST], digest[BW_LIST_DIGEST];
    uint64_t *slot = NULL;
    bw_status s = bw_json_parse(b->mem, line, BW_JSON_CEDAR, &v);
    if (s != BW_OK)
        return s == BW_ENOMEM ? s : BW_OK;
    if (read_class(v, &id, &text)) {
        kept = bw_arena_calloc(b->mem, 1, sizeof *kept);
        slot = kept ? bw_map_put(b->classes, id.bytes, sizeof id.bytes, NULL) : NULL;
        if (!slot)
            return bw_fail_nomem(b->mem);
        *kept = text;
        *slot = (uint64_t)(uintptr_t)kept;
        return BW_OK;
    }
    list_line l = {.add = bw_json_get(v, "of"), .drop = bw_json_get(v, "drop")};
    if (!list_name(bw_json_get(v, "list"), digest))
        return BW_OK;
    if (list_name(bw_json_get(v, "from"), from)) {
        slot = bw_map_get(b->lists, from, sizeof from);
        l.from = slot ? (const list_line *)(uintptr_t)*slot : NULL;
        l.add = bw_json_get(v, "add");
        if (!l.from)
            return BW_OK;
    }
    if (!l.add || bw_map_get(b->lists, digest, sizeof digest))
        return BW_OK;
    memcpy(l.digest, digest, sizeof digest);
    list_line *line_kept = bw_arena_calloc(b->mem, 1, sizeof *line_kept);
    slot = line_kept ? bw_map_put(b->lists, digest, sizeof digest, NULL) : NULL;
    if (!slot)
        return bw_fail_nomem(b->mem);
    *line_kept = l;
    *slot = (uint64_t)(uintptr_t)line_kept;
    return BW_OK;
}

bw_status bw_register_read(bw_ctx *ctx, const char *audit_dir, bw_register_book **out)
{
    bw_str text, line;
    const char *path = bw_path_join(ctx, audit_dir, "classes.jsonl");
    bw_register_book *b = path ? bw_calloc(1, sizeof *b) : NULL;
    if (!b)
        return bw_fail_nomem(ctx);
    b->mem = bw_ctx_new((size_t)2 << 30);
    b->classes = bw_map_new();
    b->lists = bw_map_new();
    bw_status s = b->mem && b->classes && b->lists ? read_text(b->mem, path, &text)
                                                   : bw_fail_nomem(ctx);
    while (s == BW_OK && line_next(&text, &line))
        s = take_line(b, line);
    if (s == BW_OK) {
        *out = b;
        return BW_OK;
    }
    if (b->mem)
        s = bw_ctx_take_error(ctx, b->mem, s);
    bw_register_book_free(b);
    return s;
}

static void forget(bw_register_book *b, list_line *l)
{
    b->held_ids -= l->ids ? l->n : 0;
    bw_free(l->ids);
    l->ids = NULL;
}

static void forget_all(bw_register_book *b)
{
    bw_str key;
    uint64_t *value;
    for (size_t it = 0; b->lists && bw_map_next(b->lists, &it, &key, &value);)
        forget(b, (list_line *)(uintptr_t)*value);
}

void bw_register_book_free(bw_register_book *b)
{
    if (!b)
        return;
    forget_all(b);
    bw_map_free(b->classes);
    bw_map_free(b->lists);
    bw_ctx_free(b->mem);
    bw_free(b);
}

bool bw_register_text(const bw_register_book *b, const bw_class_id *id, bw_str *out)
{
    const uint64_t *slot = bw_map_get(b->classes, id->bytes, sizeof id->bytes);
    if (slot)
        *out = *(const bw_str *)(uintptr_t)*slot;
    return slot != NULL;
}

/* ---- lists ---- */

static int by_id(const void *a, const void *b)
{
    return bw_class_id_cmp(a, b);
}

static bool parse_ids(const bw_json *list, bw_class_id *out, size_t *n)
{
    *n = 0;
    if (list && list->kind != BW_JSON_ARRAY)
        return false;
    for (const bw_json *v = list ? list->child : NULL; v; v = v->next)
        if (v->kind != BW_JSON_STRING || !bw_class_id_parse(v->str, &out[(*n)++]))
            return false;
    if (*n > 0)
        qsort(out, *n, sizeof *out, by_id);
    return true;
}

/* out = base without drop, with add; all sorted. */
static size_t apply(const list_line *base, const bw_class_id *add, size_t nadd,
                    const bw_class_id *drop, size_t ndrop, bw_class_id *out)
{
    size_t n = 0, d = 0, a = 0;
    for (size_t i = 0; i < (base ? base->n : 0); i++) {
        const bw_class_id *id = &base->ids[i];
        while (a < nadd && bw_class_id_cmp(&add[a], id) < 0)
            out[n++] = add[a++];
        while (d < ndrop && bw_class_id_cmp(&drop[d], id) < 0)
            d++;
        if (d == ndrop || bw_class_id_cmp(&drop[d], id) != 0)
            out[n++] = *id;
    }
    while (a < nadd)
        out[n++] = add[a++];
    return n;
}

/* The ids of one line whose base has its own. */
static bw_status fill(bw_register_book *b, list_line *l)
{
    size_t most = l->add->count, most_drop = l->drop ? l->drop->count : 0, nadd, ndrop;
    size_t have = l->from ? l->from->n : 0;
    uint8_t digest[BW_LIST_DIGEST];
    bw_class_id *out = bw_calloc(have + most + 1, sizeof *out);
    bw_arena_mark mark = bw_arena_mark_get(b->mem);
    bw_class_id *add = bw_arena_calloc(b->mem, most + 1, sizeof *add),
                *drop = bw_arena_calloc(b->mem, most_drop + 1, sizeof *drop);
    if (!out || !add || !drop) {
        bw_free(out);
        return bw_fail_nomem(b->mem);
    }
    bool fits = parse_ids(l->add, add, &nadd) && parse_ids(l->drop, drop, &ndrop);
    size_t n = fits ? apply(l->from, add, nadd, drop, ndrop, out) : 0;
    bw_arena_release(b->mem, mark);
    bw_register_digest(out, n, digest);
    if (!fits || memcmp(digest, l->digest, sizeof digest) != 0) {
        bw_free(out);
        return BW_ENOTFOUND;
    }
    l->ids = out;
    l->n = n;
    b->held_ids += n;
    return BW_OK;
}

bw_status bw_register_ids(bw_ctx *ctx, bw_register_book *b,
                          const uint8_t digest[BW_LIST_DIGEST], const bw_class_id **out,
                          size_t *n)
{
    const uint64_t *slot = bw_map_get(b->lists, digest, BW_LIST_DIGEST);
    list_line *l = slot ? (list_line *)(uintptr_t)*slot : NULL;
    size_t depth = 0;
    if (b->held_ids > HELD_IDS_MAX)
        forget_all(b);
    for (const list_line *p = l; p && !p->ids; p = p->from)
        if (++depth > DIFFERENCES_MAX)
            return bw_fail(ctx, BW_ENOTFOUND, "the list of classes is no list");
    bw_status s = l ? BW_OK : BW_ENOTFOUND;
    list_line **way = s == BW_OK ? bw_arena_calloc(ctx, depth + 1, sizeof *way) : NULL;
    if (s == BW_OK && !way)
        return bw_fail_nomem(ctx);
    size_t k = depth;
    for (list_line *p = l; p && !p->ids; p = (list_line *)p->from)
        way[--k] = p;
    for (size_t i = 0; i < depth && s == BW_OK; i++) {
        s = fill(b, way[i]);
        if (i > 0)
            forget(b, way[i - 1]);
    }
    if (s == BW_ENOMEM)
        return bw_ctx_take_error(ctx, b->mem, s);
    if (s != BW_OK)
        return bw_fail(ctx, BW_ENOTFOUND, "the register does not have the list of classes");
    *out = l->ids;
    *n = l->n;
    return BW_OK;
}
