/* Kept texts (archive.h). A record of facts is one line of JSON with this order of
 * members, so equal facts have one digest:
 *   {"schema":D,"catalogue":D,"overlay":D|null,"entities":D|null,
 *    "cell":{"id","country","operator","certs","hw"}} */
#include "archive.h"
#include "files.h"
#include "v1.h"
#include <sodium.h>

static const struct {
    const char *name, *ext;
} kinds[BW_ARCHIVE_KINDS] = {{"policies", "cedar"},
                             {"entities", "json"},
                             {"catalogue", "json"},
                             {"schema", "cedarschema"},
                             {"facts", "json"}};

const char *bw_archive_name(bw_archive_kind kind)
{
    return kinds[kind].name;
}

void bw_archive_digest(bw_str text, char out[BW_DIGEST_TEXT + 1])
{
    unsigned char d[BW_DIGEST_TEXT / 2];
    bw_require(crypto_generichash(d, sizeof d, (const unsigned char *)text.ptr,
                                  text.len, NULL, 0) == 0);
    sodium_bin2hex(out, BW_DIGEST_TEXT + 1, d, sizeof d);
}

static const char *path_of(bw_ctx *ctx, const char *dir, bw_archive_kind kind,
                           const char *hex)
{
    return bw_arena_printf(ctx, "%s/%s/%s.%s", dir, kinds[kind].name, hex,
                           kinds[kind].ext);
}

bw_status bw_archive_keep(bw_ctx *ctx, const char *dir, bw_archive_kind kind, bw_str text,
                          char out[BW_DIGEST_TEXT + 1])
{
    char hex[BW_DIGEST_TEXT + 1];
    bw_archive_digest(text, hex);
    const char *folder = bw_path_join(ctx, dir, kinds[kind].name);
    const char *path = path_of(ctx, dir, kind, hex);
    if (!folder || !path)
        return bw_fail_nomem(ctx);
    bw_status s = bw_dir_make(ctx, folder);
    if (s == BW_EINVALID) /* a file in its place: our fault, not the request's */
        return bw_fail(ctx, BW_EIO, "the folder %s cannot be made", kinds[kind].name);
    if (s == BW_OK && !bw_file_exists(path))
        s = bw_file_replace(ctx, path, text, 0600);
    if (s == BW_OK && out)
        memcpy(out, hex, sizeof hex);
    return s;
}

static bool is_digest(bw_str s)
{
    bool fit = s.len == BW_DIGEST_TEXT;
    for (size_t i = 0; i < s.len && fit; i++)
        fit = (s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f');
    return fit;
}

bw_status bw_archive_get(bw_ctx *ctx, const char *dir, bw_archive_kind kind, bw_str digest,
                         bw_str *out)
{
    char hex[BW_DIGEST_TEXT + 1];
    if (!is_digest(digest))
        return bw_fail(ctx, BW_EINVALID, "no digest of %s", kinds[kind].name);
    const char *name = bw_arena_cstr(ctx, digest);
    const char *path = name ? path_of(ctx, dir, kind, name) : NULL;
    if (!path)
        return bw_fail_nomem(ctx);
    bw_status s = bw_file_read(ctx, path, 64 << 20, out);
    if (s == BW_ENOTFOUND)
        return bw_fail(ctx, s, "%s/%s.%s is missing", kinds[kind].name, name,
                       kinds[kind].ext);
    if (s != BW_OK)
        return s;
    bw_archive_digest(*out, hex);
    return memcmp(hex, name, sizeof hex) == 0
               ? BW_OK
               : bw_fail(ctx, BW_ECORRUPT, "%s/%s.%s does not fit its name",
                         kinds[kind].name, name, kinds[kind].ext);
}

/* ---- facts ---- */

bw_status bw_facts_keep(bw_ctx *ctx, const char *dir, const bw_facts *f,
                        char out[BW_DIGEST_TEXT + 1])
{
    const struct {
        const char *name;
        bw_archive_kind kind;
        bw_str text;
    } parts[] = {{"schema", BW_ARCHIVE_SCHEMA, f->schema},
                 {"catalogue", BW_ARCHIVE_CATALOGUE, f->catalogue},
                 {"overlay", BW_ARCHIVE_CATALOGUE, f->overlay},
                 {"entities", BW_ARCHIVE_ENTITIES, f->entities}};
    bw_buf b = {0};
    bw_status s = BW_OK;
    bw_buf_putc(&b, '{');
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && s == BW_OK; i++) {
        char hex[BW_DIGEST_TEXT + 1];
        bw_json_put_key(&b, parts[i].name);
        if (parts[i].text.len == 0) {
            bw_buf_puts(&b, "null");
            continue;
        }
        s = bw_archive_keep(ctx, dir, parts[i].kind, parts[i].text, hex);
        bw_json_put_str(&b, bw_str_c(hex));
    }
    bw_v1_put_place(&b, "cell", &f->cell);
    bw_buf_puts(&b, "}\n");
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(ctx)
                     : bw_archive_keep(ctx, dir, BW_ARCHIVE_FACTS, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return s;
}

static bw_status get_part(bw_ctx *ctx, const char *dir, bw_archive_kind kind,
                          const bw_json *root, const char *name, bw_str *out)
{
    bw_str hex = {NULL, 0};
    *out = (bw_str){NULL, 0};
    bw_status s = bw_v1_string(ctx, root, name, &hex);
    return s == BW_OK && hex.ptr ? bw_archive_get(ctx, dir, kind, hex, out) : s;
}

bw_status bw_facts_get(bw_ctx *ctx, const char *dir, bw_str digest, bw_facts *out)
{
    bw_str text;
    bw_json *root;
    bw_status s = bw_archive_get(ctx, dir, BW_ARCHIVE_FACTS, digest, &text);
    if (s == BW_OK)
        s = bw_json_parse(ctx, text, BW_JSON_REQUEST, &root);
    if (s == BW_OK)
        s = get_part(ctx, dir, BW_ARCHIVE_SCHEMA, root, "schema", &out->schema);
    if (s == BW_OK)
        s = get_part(ctx, dir, BW_ARCHIVE_CATALOGUE, root, "catalogue", &out->catalogue);
    if (s == BW_OK)
        s = get_part(ctx, dir, BW_ARCHIVE_CATALOGUE, root, "overlay", &out->overlay);
    if (s == BW_OK)
        s = get_part(ctx, dir, BW_ARCHIVE_ENTITIES, root, "entities", &out->entities);
    return s == BW_OK ? bw_v1_place(ctx, bw_json_get(root, "cell"), &out->cell) : s;
}
