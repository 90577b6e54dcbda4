/* Packs and sets of packs (pack_set.h). Ids are looked at over the whole composition:
 * they are what refusals and the audit log show, so no two rules may share one. */
#include "pack_set.h"
#include "../engine/base/map.h"

enum { NAME_MAX_BYTES = 64, BYTES_MAX = 4 << 20 };

/* ---- heads ---- */

static const char notice[] = "A starting point, no legal advice.";

static bw_str next_line(bw_str *text)
{
    size_t n = 0;
    while (n < text->len && text->ptr[n] != '\n')
        n++;
    bw_str line = {text->ptr, n};
    n += n < text->len;
    *text = (bw_str){text->ptr + n, text->len - n};
    return line;
}

static bool starts(bw_str s, bw_str with)
{
    return s.len >= with.len && memcmp(s.ptr, with.ptr, with.len) == 0;
}

static bw_str after(bw_str s, size_t n)
{
    return (bw_str){s.ptr + n, s.len - n};
}

/* Adds " more" to a value that goes on. */
static bw_status go_on(bw_ctx *ctx, bw_str *value, bw_str more)
{
    char *text = bw_arena_printf(ctx, "%.*s %.*s", (int)value->len, value->ptr,
                                 (int)more.len, more.ptr);
    if (!text)
        return bw_fail_nomem(ctx);
    *value = bw_str_c(text);
    return BW_OK;
}

bw_status bw_pack_info_read(bw_ctx *ctx, bw_str name, bw_str text, bw_pack_info *out)
{
    bw_pack_info info = {.name = name};
    const struct {
        bw_str key;
        bw_str *value;
    } fields[] = {{BW_STR("Date: "), &info.date},
                  {BW_STR("Articles: "), &info.articles},
                  {BW_STR("Leaves out: "), &info.leaves_out}};
    bw_str line = next_line(&text), *last = NULL;
    bool said = false;
    char *head = bw_arena_printf(ctx, "// %.*s: ", (int)name.len, name.ptr);
    if (!head)
        return bw_fail_nomem(ctx);
    if (starts(line, bw_str_c(head)))
        info.title = after(line, strlen(head));
    for (line = next_line(&text); starts(line, BW_STR("// ")); line = next_line(&text)) {
        bw_str rest = after(line, 3), *here = NULL;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0] && !here; i++)
            if (starts(rest, fields[i].key)) {
                here = fields[i].value;
                *here = after(rest, fields[i].key.len);
            }
        if (!here && last && starts(rest, BW_STR("  "))) {
            if (go_on(ctx, last, after(rest, 2)) != BW_OK)
                return BW_ENOMEM;
            here = last;
        }
        said = said || bw_str_is(rest, notice);
        last = here;
    }
    if (!info.title.len || !info.date.len || !info.articles.len || !info.leaves_out.len ||
        !said)
        return bw_fail(ctx, BW_EINVALID,
                       "pack %.*s: the head wants a title, Date, Articles, Leaves out "
                       "and the line \"%s\"",
                       (int)name.len, name.ptr, notice);
    *out = info;
    return BW_OK;
}

/* ---- compositions ---- */

typedef struct composer {
    const bw_pack_source *source;
    bw_map *packs, *ids; /* seen */
    bw_str names[BW_PACKS_MAX], texts[BW_PACKS_MAX];
    size_t n, bytes;
} composer;

static bool name_ok(bw_str s)
{
    if (s.len == 0 || s.len > NAME_MAX_BYTES || s.ptr[0] == '-')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

static bw_status note_ids(bw_ctx *ctx, composer *c, bw_str name, bw_str text)
{
    bw_cedar_policies *p = NULL;
    bw_status s = bw_cedar_policies_parse(ctx, text, &p);
    if (s == BW_EINVALID) {
        const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
        s = why ? bw_fail(ctx, s, "pack %.*s: %s", (int)name.len, name.ptr, why)
                : bw_fail_nomem(ctx);
    }
    for (size_t i = 0; s == BW_OK && i < bw_cedar_policies_count(p); i++) {
        bw_str id;
        bool fresh;
        if (!bw_cedar_policy_annotation(p, i, BW_STR("id"), &id))
            s = bw_fail(ctx, BW_EINVALID, "pack %.*s: policy %zu has no @id",
                        (int)name.len, name.ptr, i);
        else if (!bw_map_put(c->ids, id.ptr, id.len, &fresh))
            s = bw_fail_nomem(ctx);
        else if (!fresh)
            s = bw_fail(ctx, BW_EINVALID, "pack %.*s: the @id \"%.*s\" is taken",
                        (int)name.len, name.ptr, (int)id.len, id.ptr);
    }
    bw_cedar_policies_free(p);
    return s;
}

static bw_status read_file(bw_ctx *ctx, composer *c, const char *folder, bw_str name,
                           const char *end, bw_str *out)
{
    const char *file =
        bw_arena_printf(ctx, "%s%.*s%s", folder, (int)name.len, name.ptr, end);
    return file ? c->source->read(c->source->user, ctx, file, out) : bw_fail_nomem(ctx);
}

static bw_status add_pack(bw_ctx *ctx, composer *c, bw_str name)
{
    bool fresh;
    bw_str text;
    if (!name_ok(name))
        return bw_fail(ctx, BW_EINVALID,
                       "a pack's name is 1 to %d of a-z 0-9 -, not \"%.*s\"",
                       NAME_MAX_BYTES, (int)(name.len < 80 ? name.len : 80), name.ptr);
    bw_status s = read_file(ctx, c, "", name, ".cedar", &text);
    if (s != BW_OK)
        return s;
    if (!bw_map_put(c->packs, name.ptr, name.len, &fresh))
        return bw_fail_nomem(ctx);
    if (!fresh)
        return bw_fail(ctx, BW_EINVALID, "the pack %.*s comes twice", (int)name.len,
                       name.ptr);
    if (c->n == BW_PACKS_MAX || text.len > BYTES_MAX - c->bytes)
        return bw_fail(ctx, BW_EINVALID, "a composition has at most %d packs and %d bytes",
                       BW_PACKS_MAX, BYTES_MAX);
    c->bytes += text.len;
    c->names[c->n] = name;
    c->texts[c->n++] = text;
    return note_ids(ctx, c, name, text);
}

/* Its lines are packs, or comments; a set names no sets. */
static bw_status add_set(bw_ctx *ctx, composer *c, bw_str name)
{
    bw_str text;
    bw_status s = read_file(ctx, c, "sets/", name, ".set", &text);
    while (s == BW_OK && text.len > 0) {
        bw_str line = next_line(&text);
        if (line.len > 0 && line.ptr[0] != '#')
            s = add_pack(ctx, c, line);
        if (s == BW_ENOTFOUND)
            s = bw_fail(ctx, BW_EINVALID, "set %.*s: there is no pack %.*s",
                        (int)name.len, name.ptr, (int)line.len, line.ptr);
    }
    return s;
}

static bw_status add(bw_ctx *ctx, composer *c, bw_str name)
{
    bw_status s = add_pack(ctx, c, name);
    if (s == BW_ENOTFOUND)
        s = add_set(ctx, c, name);
    if (s == BW_ENOTFOUND)
        s = bw_fail(ctx, s, "there is no pack or set %.*s", (int)name.len, name.ptr);
    return s;
}

static bw_status put_together(bw_ctx *ctx, const composer *c, bw_str *out)
{
    bw_buf b = {0};
    bw_buf_puts(&b, "// Composed of");
    for (size_t i = 0; i < c->n; i++)
        bw_buf_printf(&b, "%s %.*s", i ? "," : "", (int)c->names[i].len, c->names[i].ptr);
    bw_buf_puts(&b, ".\n");
    for (size_t i = 0; i < c->n; i++) {
        bw_buf_putc(&b, '\n');
        bw_buf_str(&b, c->texts[i]);
    }
    bw_status s = b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return s;
}

bw_status bw_pack_compose(bw_ctx *ctx, const bw_pack_source *source, const bw_str *names,
                          size_t n, bw_str *out)
{
    composer *c = bw_arena_calloc(ctx, 1, sizeof *c);
    if (!c)
        return bw_fail_nomem(ctx);
    c->source = source;
    c->packs = bw_map_new();
    c->ids = bw_map_new();
    bw_status s = c->packs && c->ids ? BW_OK : bw_fail_nomem(ctx);
    for (size_t i = 0; i < n && s == BW_OK; i++)
        s = add(ctx, c, names[i]);
    if (s == BW_OK)
        s = put_together(ctx, c, out);
    bw_map_free(c->packs);
    bw_map_free(c->ids);
    return s;
}
