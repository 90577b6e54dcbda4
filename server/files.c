/* Whole small files. See files.h. Leaves out: anything that streams. */
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int bw_write_all(int fd, const void *p, size_t n)
{
    const char *c = p;
    while (n > 0) {
        ssize_t w = write(fd, c, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return errno;
        if (w == 0)
            return EIO;
        c += w;
        n -= (size_t)w;
    }
    return 0;
}

const char *bw_path_join(bw_ctx *ctx, const char *dir, const char *name)
{
    return bw_arena_printf(ctx, "%s/%s", dir, name);
}

bool bw_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* fd is closed. */
static bw_status read_whole(bw_ctx *ctx, int fd, const char *path, size_t bytes_max,
                            bw_str *out)
{
    struct stat st;
    bw_status s = BW_OK;
    if (fd < 0 && errno == ENOENT)
        return bw_fail(ctx, BW_ENOTFOUND, "%s: no such file", path);
    if (fd < 0)
        return bw_fail_errno(ctx, path, errno);
    if (fstat(fd, &st) != 0) {
        s = bw_fail_errno(ctx, path, errno);
    } else if (!S_ISREG(st.st_mode)) {
        s = bw_fail(ctx, BW_EINVALID, "%s is no plain file", path);
    } else if ((uint64_t)st.st_size > bytes_max) {
        s = bw_fail(ctx, BW_EINVALID, "%s is longer than %zu bytes", path, bytes_max);
    } else {
        size_t want = (size_t)st.st_size, got = 0;
        char *p = bw_arena_alloc(ctx, want + 1);
        if (!p)
            s = bw_fail_nomem(ctx);
        while (s == BW_OK && got < want) {
            ssize_t r = read(fd, p + got, want - got);
            if (r < 0 && errno == EINTR)
                continue;
            if (r < 0)
                s = bw_fail_errno(ctx, path, errno);
            if (r <= 0)
                break;
            got += (size_t)r;
        }
        if (s == BW_OK) {
            p[got] = '\0';
            *out = (bw_str){p, got};
        }
    }
    (void)close(fd); /* read only: nothing can be lost */
    return s;
}

bw_status bw_file_read(bw_ctx *ctx, const char *path, size_t bytes_max, bw_str *out)
{
    /* a pipe without a writer would hold us up before we see what it is */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return read_whole(ctx, fd, path, bytes_max, out);
}

/* openat2 has no wrapper in the libc of Debian 12. */
int bw_open_below(int folder, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

bw_status bw_file_read_below(bw_ctx *ctx, int folder, const char *path,
                             size_t bytes_max, bw_str *out)
{
    return read_whole(ctx, bw_open_below(folder, path, 0), path, bytes_max, out);
}

bw_status bw_dir_sync(bw_ctx *ctx, const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return bw_fail_errno(ctx, dir, errno);
    bw_status s = fsync(fd) == 0 ? BW_OK : bw_fail_errno(ctx, dir, errno);
    if (close(fd) != 0 && s == BW_OK)
        s = bw_fail_errno(ctx, dir, errno);
    return s;
}

bw_status bw_dir_make(bw_ctx *ctx, const char *dir)
{
    struct stat st;
    if (mkdir(dir, 0700) == 0)
        return BW_OK;
    if (errno != EEXIST)
        return bw_fail_errno(ctx, dir, errno);
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return bw_fail(ctx, BW_EINVALID, "%s is there and is no folder", dir);
    return BW_OK;
}

bw_status bw_file_replace(bw_ctx *ctx, const char *path, bw_str content, unsigned mode)
{
    const char *slash = strrchr(path, '/');
    const char *dir =
        slash ? bw_arena_cstr(ctx, (bw_str){path, (size_t)(slash - path)}) : ".";
    const char *tmp = bw_arena_printf(ctx, "%s.new", path);
    if (!dir || !tmp)
        return bw_fail_nomem(ctx);
    if (dir[0] == '\0')
        dir = "/";
    (void)unlink(tmp); /* of a crash; O_EXCL below keeps links out */
    int fd =
        open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, (mode_t)mode);
    if (fd < 0)
        return bw_fail_errno(ctx, tmp, errno);
    int err = bw_write_all(fd, content.ptr, content.len);
    if (err == 0 && fchmod(fd, (mode_t)mode) != 0)
        err = errno;
    if (err == 0 && fsync(fd) != 0)
        err = errno;
    if (close(fd) != 0 && err == 0)
        err = errno;
    if (err == 0 && rename(tmp, path) != 0)
        err = errno;
    if (err != 0) {
        (void)unlink(tmp);
        return bw_fail_errno(ctx, path, err);
    }
    return bw_dir_sync(ctx, dir);
}
