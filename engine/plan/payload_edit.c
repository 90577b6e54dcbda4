/* Edits of a payload's JSON bytes (select.h): what is not touched keeps its bytes and
 * its place. The rules are those of Qdrant's engine, which was asked case by case:
 *
 *  merge   each member of the patch replaces the one of its name or is put at the end;
 * a null in the patch takes the member away. With a key path the same happens to the
 *          object there; a value of another kind on the way gives way to a new object
 * (for a key) or to [] (for an index or []); an index past the end changes nothing.
 *  remove  drops the member at the end of the path; `a[]` empties the array, an index
 * as the last step drops nothing.
 *
 * One walk writes the new bytes while it reads the old ones, a frame for each step of
 * the path (BW_PATH_STEPS_MAX). */
#include "../base/json.h"
#include "../partition/payload.h"
#include "select.h"
#include <stdlib.h>

typedef struct member {
    bw_str name;       /* unescaped */
    bw_str key, value; /* bytes */
    size_t at;         /* place in the patch */
    bool used;
} member;

typedef struct edit {
    bw_ctx *ctx;
    bw_buf out;
    member *patch; /* sorted by name; NULL: removing */
    size_t npatch;
    bw_buf scratch;
} edit;

static const char *end_of(bw_str s)
{
    return s.ptr + s.len;
}

static void put_span(edit *e, const char *from, const char *to)
{
    bw_buf_put(&e->out, from, (size_t)(to - from));
}

/* ---- the patch ---- */

static int cmp_name(const void *a, const void *b)
{
    return bw_str_cmp(((const member *)a)->name, ((const member *)b)->name);
}

static int cmp_place(const void *a, const void *b)
{
    const member *x = *(member *const *)a, *y = *(member *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

static bw_status read_patch(edit *e, bw_str patch)
{
    bw_str rest, key, value;
    size_t n = 0;
    if (!bw_raw_object_begin(patch, &rest))
        return bw_fail(e->ctx, BW_EINVALID, "A payload must be an object");
    while (bw_raw_object_next(&rest, &key, &value))
        n++;
    e->patch = bw_arena_calloc(e->ctx, n, sizeof *e->patch);
    char *names = bw_arena_alloc(e->ctx, patch.len);
    if (!e->patch || !names)
        return BW_ENOMEM;
    (void)bw_raw_object_begin(patch, &rest);
    while (e->npatch < n && bw_raw_object_next(&rest, &key, &value)) {
        size_t len = bw_raw_unescape(key, names);
        e->patch[e->npatch] = (member){{names, len}, key, value, e->npatch, false};
        e->npatch++;
        names += len;
    }
    qsort(e->patch, e->npatch, sizeof *e->patch, cmp_name);
    return BW_OK;
}

/* ---- an object, member by member ---- */

typedef struct object_out {
    edit *e;
    const char *gap;       /* where the bytes before the next member begin */
    const char *first_gap; /* those before the first one: they hold no comma */
    const char *first_key;
    size_t members; /* written */
} object_out;

/* Writes the bytes before the member's key, then the member up to its value. */
static void keep_member(object_out *o, bw_str key, bw_str value)
{
    if (o->members++ == 0)
        put_span(o->e, o->first_gap, o->first_key);
    else
        put_span(o->e, o->gap, key.ptr - 1);
    put_span(o->e, key.ptr - 1, value.ptr);
}

static void add_member(object_out *o, bw_str key, bool plain)
{
    if (o->members++ > 0)
        bw_buf_putc(&o->e->out, ',');
    if (plain) {
        bw_json_put_str(&o->e->out, key);
    } else {
        bw_buf_putc(&o->e->out, '"');
        bw_buf_str(&o->e->out, key);
        bw_buf_putc(&o->e->out, '"');
    }
    bw_buf_putc(&o->e->out, ':');
}

static member *find_patch(edit *e, bw_str key)
{
    member probe = {.name = key};
    if (key.len > 0 && memchr(key.ptr, '\\', key.len)) {
        e->scratch.len = 0;
        bw_buf_str(&e->scratch, key);
        if (e->scratch.failed)
            return NULL;
        probe.name = (bw_str){e->scratch.ptr, bw_raw_unescape(key, e->scratch.ptr)};
    }
    return bsearch(&probe, e->patch, e->npatch, sizeof probe, cmp_name);
}

static void begin_object(object_out *o, edit *e, bw_str raw, bw_str *rest)
{
    *o = (object_out){.e = e};
    (void)bw_raw_object_begin(raw, rest);
    bw_buf_putc(&e->out, '{');
    o->gap = o->first_gap = o->first_key = rest->ptr;
}

static void next_gap(object_out *o, bw_str key, bw_str value, bool first)
{
    if (first)
        o->first_key = key.ptr - 1;
    o->gap = end_of(value);
}

static bw_status put_new_members(object_out *o, edit *e)
{
    member **order = bw_arena_alloc(e->ctx, e->npatch * sizeof *order);
    if (!order)
        return BW_ENOMEM;
    for (size_t i = 0; i < e->npatch; i++)
        order[i] = &e->patch[i];
    qsort(order, e->npatch, sizeof *order, cmp_place);
    for (size_t i = 0; i < e->npatch; i++) {
        if (!order[i]->used && !bw_raw_is_null(order[i]->value)) {
            add_member(o, order[i]->key, false);
            bw_buf_str(&e->out, order[i]->value);
        }
        order[i]->used = false; /* ready for the next object that the path reaches */
    }
    return BW_OK;
}

static bw_status put_merged(edit *e, bw_str raw)
{
    object_out o;
    bw_str rest, key, value;
    begin_object(&o, e, raw, &rest);
    for (bool first = true; bw_raw_object_next(&rest, &key, &value); first = false) {
        if (first)
            o.first_key = key.ptr - 1;
        member *m = find_patch(e, key);
        if (!m) {
            keep_member(&o, key, value);
            bw_buf_str(&e->out, value);
        } else if (!bw_raw_is_null(m->value)) {
            keep_member(&o, key, value);
            bw_buf_str(&e->out, m->value);
        }
        if (m)
            m->used = true;
        next_gap(&o, key, value, first);
    }
    bw_status st = put_new_members(&o, e);
    /* The bytes before the closing brace; after a dropped last member they are its. */
    put_span(e, o.gap, end_of(raw));
    return st;
}

/* ---- along the path ---- */

static bw_status put_edited(edit *e, bw_str raw, const bw_step *step, uint32_t n);

static bw_status edit_key(edit *e, bw_str raw, const bw_step *step, uint32_t n)
{
    bool removing = !e->patch;
    object_out o;
    bw_str rest, key, value;
    bw_status st = BW_OK;
    bool found = false;
    if (!bw_raw_is_object(raw)) {
        if (removing) {
            bw_buf_str(&e->out, raw);
            return BW_OK;
        }
        raw = BW_STR("{}");
    }
    begin_object(&o, e, raw, &rest);
    for (bool first = true; st == BW_OK && bw_raw_object_next(&rest, &key, &value);
         first = false) {
        bool here = bw_raw_key_eq(key, step->key);
        if (first)
            o.first_key = key.ptr - 1;
        if (!here || !removing || n > 1)
            keep_member(&o, key, value);
        if (!here)
            bw_buf_str(&e->out, value);
        else if (!removing || n > 1)
            st = put_edited(e, value, step + 1, n - 1);
        found = found || here;
        next_gap(&o, key, value, first);
    }
    if (st == BW_OK && !found && !removing) {
        add_member(&o, step->key, true);
        st = put_edited(e, BW_STR("null"), step + 1, n - 1);
    }
    put_span(e, o.gap, end_of(raw));
    return st;
}

static bw_status edit_elements(edit *e, bw_str raw, const bw_step *step, uint32_t n)
{
    bool removing = !e->patch;
    bw_str rest, value;
    const char *done = raw.ptr;
    bw_status st = BW_OK;
    if (!bw_raw_array_begin(raw, &rest)) {
        bw_buf_str(&e->out, removing ? raw : BW_STR("[]"));
        return BW_OK;
    }
    if (removing && n == 1) {
        bw_buf_str(&e->out, step->kind == BW_STEP_ALL ? BW_STR("[]") : raw);
        return BW_OK;
    }
    for (size_t i = 0; st == BW_OK && bw_raw_array_next(&rest, &value); i++) {
        if (step->kind == BW_STEP_INDEX && i != step->index)
            continue;
        put_span(e, done, value.ptr);
        st = put_edited(e, value, step + 1, n - 1);
        done = end_of(value);
    }
    put_span(e, done, end_of(raw));
    return st;
}

static bw_status put_edited(edit *e, bw_str raw, const bw_step *step, uint32_t n)
{
    if (n == 0)
        return put_merged(e, bw_raw_is_object(raw) ? raw : BW_STR("{}"));
    return step->kind == BW_STEP_KEY ? edit_key(e, raw, step, n)
                                     : edit_elements(e, raw, step, n);
}

static bw_status run_edit(edit *e, bw_str payload, bw_path path, bw_str *out)
{
    e->out.len = 0;
    bw_status st = put_edited(e, payload, path.steps, path.n);
    if (st == BW_OK && (e->out.failed || e->scratch.failed))
        st = bw_fail_nomem(e->ctx);
    if (st == BW_OK && e->patch && e->out.len > BW_PAYLOAD_BYTES_MAX)
        st = bw_fail(e->ctx, BW_EINVALID, "The payload would be over %d bytes",
                     (int)BW_PAYLOAD_BYTES_MAX);
    if (st == BW_OK && e->patch &&
        bw_raw_depth(bw_buf_view(&e->out)) > BW_PAYLOAD_DEPTH_MAX)
        st = bw_fail(e->ctx, BW_EINVALID, "The payload would be nested over %d deep",
                     (int)BW_PAYLOAD_DEPTH_MAX);
    return st == BW_OK ? bw_arena_str(e->ctx, bw_buf_view(&e->out), out) : st;
}

bw_status bw_payload_merge(bw_ctx *ctx, bw_str payload, bw_str patch, bw_str key,
                           bw_str *out)
{
    edit e = {.ctx = ctx};
    bw_path path = {NULL, 0};
    bw_status st = read_patch(&e, patch);
    if (st == BW_OK && key.ptr)
        st = bw_path_parse(ctx, key, &path);
    if (st == BW_OK)
        st = run_edit(&e, payload.len > 0 ? payload : BW_STR("{}"), path, out);
    bw_buf_clear(&e.out);
    bw_buf_clear(&e.scratch);
    return st;
}

bw_status bw_payload_remove(bw_ctx *ctx, bw_str payload, const bw_str *paths, size_t n,
                            bw_str *out)
{
    edit e = {.ctx = ctx};
    bw_status st = BW_OK;
    bw_str now = payload;
    for (size_t i = 0; st == BW_OK && i < n; i++) {
        bw_path path;
        st = bw_path_parse(ctx, paths[i], &path);
        if (st == BW_OK)
            st = bw_ctx_check(ctx);
        if (st == BW_OK && now.len > 0)
            st = run_edit(&e, now, path, &now);
    }
    if (st == BW_OK)
        *out = now;
    bw_buf_clear(&e.out);
    bw_buf_clear(&e.scratch);
    return st;
}
