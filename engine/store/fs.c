/* Files and folders of a cell's data (fs.h). Linux only: flock, O_CLOEXEC. */
#include "fs.h"
#include "failpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bw_status sync_path(bw_ctx *ctx, const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return bw_fail_errno(ctx, "open a file or folder", errno);
    int rc = fsync(fd);
    int err = errno;
    if (close(fd) != 0 && rc == 0) {
        rc = -1;
        err = errno;
    }
    return rc == 0 ? BW_OK : bw_fail_errno(ctx, "sync a file or folder", err);
}

bw_status bw_fs_sync_dir(bw_ctx *ctx, const char *path)
{
    bw_status st = sync_path(ctx, path, O_RDONLY | O_DIRECTORY);
    return st == BW_OK ? bw_failpoint(ctx, "fs.synced_dir") : st;
}

bw_status bw_fs_sync_file(bw_ctx *ctx, const char *path)
{
    bw_status st = sync_path(ctx, path, O_RDWR);
    /* The failpoint's name is the path: what was synced. */
    return st == BW_OK ? bw_failpoint(ctx, path) : st;
}

bw_status bw_fs_mkdir(bw_ctx *ctx, const char *path)
{
    if (mkdir(path, 0700) == 0) {
        const char *parent = bw_arena_printf(ctx, "%s/..", path);
        return parent ? bw_fs_sync_dir(ctx, parent) : BW_ENOMEM;
    }
    if (errno != EEXIST)
        return bw_fail_errno(ctx, "make the data folder", errno);
    struct stat sb;
    if (stat(path, &sb) != 0)
        return bw_fail_errno(ctx, "look at the data folder", errno);
    if (!S_ISDIR(sb.st_mode))
        return bw_fail(ctx, BW_EINVALID, "the data folder's path is not a folder");
    return BW_OK;
}

bool bw_fs_exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

bw_status bw_fs_any(bw_ctx *ctx, const char *dir, const char *suffix, bool *out)
{
    *out = false;
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? BW_OK : bw_fail_errno(ctx, "read a folder", errno);
    size_t n = strlen(suffix);
    struct dirent *e;
    while (!*out && (errno = 0, e = readdir(d)) != NULL) {
        size_t len = strlen(e->d_name);
        *out = len > n && memcmp(e->d_name + len - n, suffix, n) == 0;
    }
    bw_status st =
        !*out && errno != 0 ? bw_fail_errno(ctx, "read a folder", errno) : BW_OK;
    (void)closedir(d);
    return st;
}

bw_status bw_fs_unlink(bw_ctx *ctx, const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return bw_fail_errno(ctx, "remove a file", errno);
    return BW_OK;
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

bw_status bw_fs_replace(bw_ctx *ctx, const char *dir, const char *name,
                        const void *bytes, size_t n, unsigned mode)
{
    const char *to = bw_arena_printf(ctx, "%s/%s", dir, name);
    const char *tmp = bw_arena_printf(ctx, "%s/%s.tmp", dir, name);
    if (!to || !tmp)
        return BW_ENOMEM;
    /* One that a crash left may be of a mode that we cannot open for writing. */
    bw_status st = bw_fs_unlink(ctx, tmp);
    if (st != BW_OK)
        return st;
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (fd < 0)
        return bw_fail_errno(ctx, "make a file", errno);
    int rc = write_all(fd, bytes, n);
    if (rc == 0)
        rc = fsync(fd);
    int err = errno;
    if (close(fd) != 0 && rc == 0) {
        rc = -1;
        err = errno;
    }
    if (rc == 0 && rename(tmp, to) != 0) {
        rc = -1;
        err = errno;
    }
    if (rc != 0) {
        (void)unlink(tmp);
        return bw_fail_errno(ctx, "write a file", err);
    }
    return bw_fs_sync_dir(ctx, dir);
}

bw_status bw_fs_read(bw_ctx *ctx, const char *path, size_t bytes_max, bw_buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? bw_fail(ctx, BW_ENOTFOUND, "no such file")
                               : bw_fail_errno(ctx, "open a file", errno);
    bw_status st = BW_OK;
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        st = bw_fail_errno(ctx, "look at a file", errno);
        goto out;
    }
    if (sb.st_size < 0 || (uint64_t)sb.st_size > bytes_max) {
        st = bw_fail(ctx, BW_ECORRUPT, "a file is longer than its format allows");
        goto out;
    }
    for (;;) {
        char chunk[65536];
        ssize_t r = read(fd, chunk, sizeof chunk);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0) {
            st = bw_fail_errno(ctx, "read a file", errno);
            break;
        }
        if (r == 0)
            break;
        bw_buf_put(out, chunk, (size_t)r);
        if (out->len > bytes_max) {
            st = bw_fail(ctx, BW_ECORRUPT, "a file is longer than its format allows");
            break;
        }
    }
    if (st == BW_OK && out->failed)
        st = bw_fail_nomem(ctx);
out:
    (void)close(fd); /* read only: nothing to lose */
    return st;
}

bw_status bw_fs_lock(bw_ctx *ctx, const char *path, int *fd)
{
    int f = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (f < 0)
        return bw_fail_errno(ctx, "open the lock file", errno);
    if (flock(f, LOCK_EX | LOCK_NB) != 0) {
        int err = errno;
        (void)close(f);
        if (err == EWOULDBLOCK)
            return bw_fail(ctx, BW_EUNAVAILABLE,
                           "the data folder is in use by another process");
        return bw_fail_errno(ctx, "lock the data folder", err);
    }
    *fd = f;
    return BW_OK;
}
