/* Secret files. See secrets.h (security.md, section 4). Leaves out: wrapping by a KMS.
 */
#include "secrets.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *secret_path(bw_ctx *ctx, const char *dir, const char *name)
{
    return bw_arena_printf(ctx, "%s/secrets/%s", dir, name);
}

bw_status bw_secret_create(bw_ctx *ctx, const char *dir, const char *name)
{
    unsigned char *secret = sodium_malloc(BW_SECRET_BYTES);
    const char *folder = bw_path_join(ctx, dir, "secrets");
    const char *path = secret_path(ctx, dir, name);
    bw_status s = secret && folder && path ? BW_OK : bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = bw_dir_make(ctx, folder);
    if (s == BW_OK && bw_file_exists(path))
        s = bw_fail(ctx, BW_EEXISTS, "secrets/%s is there already", name);
    if (s == BW_OK) {
        randombytes_buf(secret, BW_SECRET_BYTES);
        s = bw_file_replace(ctx, path, (bw_str){(const char *)secret, BW_SECRET_BYTES},
                            0400);
    }
    sodium_free(secret); /* wipes */
    return s;
}

static bw_status read_secret(bw_ctx *ctx, const char *path, const char *name,
                             unsigned char *out)
{
    struct stat st;
    bw_status s = BW_OK;
    unsigned char more;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return bw_fail(ctx, BW_EIO, "secrets/%s cannot be opened: %s", name,
                       strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077) != 0)
        s = bw_fail(ctx, BW_EINVALID,
                    "secrets/%s must be a plain file that only its owner may read",
                    name);
    else if (read(fd, out, BW_SECRET_BYTES) != BW_SECRET_BYTES ||
             read(fd, &more, 1) != 0)
        s = bw_fail(ctx, BW_ECORRUPT, "secrets/%s does not hold %d bytes", name,
                    BW_SECRET_BYTES);
    (void)close(fd);
    return s;
}

bw_status bw_secret_open(bw_ctx *ctx, const char *dir, const char *name,
                         unsigned char **out)
{
    const char *path = secret_path(ctx, dir, name);
    unsigned char *secret = sodium_malloc(BW_SECRET_BYTES);
    bw_status s =
        path && secret ? read_secret(ctx, path, name, secret) : bw_fail_nomem(ctx);
    if (s == BW_OK && sodium_mprotect_readonly(secret) != 0)
        s = bw_fail(ctx, BW_EINTERNAL, "a secret's memory cannot be protected");
    if (s == BW_OK)
        *out = secret;
    else
        sodium_free(secret);
    return s;
}

void bw_secret_close(unsigned char *secret)
{
    sodium_free(secret);
}
