/* Runs a loader in a child process, which a hostile document may take over and will
 * then find nothing in: it is our own program started afresh (so no byte of the cell's
 * memory is in it), it gets the document on descriptor 0 and a pipe on 1, and before it
 * looks at the document it sets limits and a seccomp filter: no open, no network, no
 * new process, no executable memory. Opens fail with EACCES (poppler asks for fonts and
 * goes on); every other call that is not on the list ends the child.
 *
 * The start: posix_spawn of /proc/self/exe with argv[0] = CHILD_NAME. A constructor,
 * which runs before main, sees that name and never returns. So any program that links
 * this library (the cell, a test) can load, and no helper has to be installed.
 *
 * Sanitizer builds: ASan maps terabytes and reads /proc for reports, so there the limit
 * on address space is off and the filter lets opens through to read; network, processes
 * and the other limits are as in release.
 *
 * What comes back is as hostile as the document: lengths are capped, text is checked
 * and cleaned by document.c. */
#include "raw.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_NAME "bailiwick-loader"
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum {
    CPU_SECONDS_MAX = 15,
    WALL_SECONDS_MAX = 30,
    INPUT_BYTES_MAX = 256 << 20,
    OUTPUT_BYTES_MAX = BW_RAW_BYTES_MAX + (64 << 20) /* text and its frames */
};
static const rlim_t MEMORY_BYTES_MAX = (rlim_t)2 << 30;

typedef struct frame {
    uint32_t kind, heading, page, len;
} frame;

/* ---- the child ---- */

static bool write_all(int fd, const void *p, size_t n)
{
    const char *b = p;
    while (n > 0) {
        ssize_t w = write(fd, b, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return false;
        b += w;
        n -= (size_t)w;
    }
    return true;
}

static bool send_frame(frame f, bw_str text)
{
    f.len = (uint32_t)text.len;
    return write_all(1, &f, sizeof f) && write_all(1, text.ptr, text.len);
}

static bool limit(int what, rlim_t n)
{
    struct rlimit r = {n, n};
    return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

static bool set_limits(void)
{
    return prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
           limit(RLIMIT_CORE, 0) && limit(RLIMIT_CPU, CPU_SECONDS_MAX) &&
           limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_NOFILE, 16) &&
           (SANITIZED || limit(RLIMIT_AS, MEMORY_BYTES_MAX));
}

static bool set_filter(void)
{
    static const int allowed[] = {
        SCMP_SYS(read),         SCMP_SYS(write),         SCMP_SYS(close),
        SCMP_SYS(lseek),        SCMP_SYS(fstat),         SCMP_SYS(newfstatat),
        SCMP_SYS(munmap),       SCMP_SYS(mremap),        SCMP_SYS(brk),
        SCMP_SYS(madvise),      SCMP_SYS(futex),         SCMP_SYS(exit),
        SCMP_SYS(exit_group),   SCMP_SYS(rt_sigreturn),  SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigaction), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
        SCMP_SYS(time),         SCMP_SYS(getrandom),     SCMP_SYS(getpid),
        SCMP_SYS(gettid),       SCMP_SYS(sched_yield),   SCMP_SYS(getuid),
        SCMP_SYS(geteuid),      SCMP_SYS(getgid),        SCMP_SYS(getegid),
        SCMP_SYS(uname),        SCMP_SYS(sysinfo)};
    static const int refused[] = {
        SCMP_SYS(open),       SCMP_SYS(openat),     SCMP_SYS(access),
        SCMP_SYS(faccessat),  SCMP_SYS(faccessat2), SCMP_SYS(stat),
        SCMP_SYS(lstat),      SCMP_SYS(statx),      SCMP_SYS(readlink),
        SCMP_SYS(readlinkat), SCMP_SYS(ioctl),      SCMP_SYS(prlimit64),
        SCMP_SYS(getcwd)};
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < sizeof allowed / sizeof *allowed; i++)
        ok = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
    for (size_t i = 0; ok && i < sizeof refused / sizeof *refused; i++)
        ok = seccomp_rule_add(f, SANITIZED ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EACCES),
                              refused[i], 0) == 0;
    ok = ok && seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
    ok = ok && seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
    if (SANITIZED) {
        static const int more[] = {
            SCMP_SYS(sigaltstack), SCMP_SYS(prctl),  SCMP_SYS(sched_getaffinity),
            SCMP_SYS(getdents64),  SCMP_SYS(tgkill), SCMP_SYS(getrlimit),
            SCMP_SYS(pipe),        SCMP_SYS(pipe2),  SCMP_SYS(fcntl)};
        for (size_t i = 0; ok && i < sizeof more / sizeof *more; i++)
            ok = seccomp_rule_add(f, SCMP_ACT_ALLOW, more[i], 0) == 0;
    }
    ok = ok && seccomp_load(f) == 0; /* also sets no_new_privs */
    seccomp_release(f);
    return ok;
}

/* Descriptor 0 -> memory. */
static bool read_document(bw_str *out)
{
    off_t size = lseek(0, 0, SEEK_END);
    if (size < 0 || size > INPUT_BYTES_MAX || lseek(0, 0, SEEK_SET) != 0)
        return false;
    char *p = bw_alloc((size_t)size + 1);
    size_t n = 0;
    while (p && n < (size_t)size) {
        ssize_t got = read(0, p + n, (size_t)size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        n += (size_t)got;
    }
    *out = (bw_str){p, n};
    return p != NULL;
}

#ifdef BW_DEBUG
/* What a taken-over loader would try; tests ask for it by a media number. */
static void try_forbidden(unsigned media)
{
    if (media == 1000)
        (void)!socket(AF_INET, SOCK_STREAM, 0);
    if (media == 1001)
        (void)!fork();
    if (media == 1002)
        (void)!mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (media == 1003)
        for (;;) {
        }
}
#endif

static int child_main(const char *media)
{
    bw_str bytes;
    bw_media kind = (bw_media)strtoul(media, NULL, 10);
    bw_ctx *ctx = bw_ctx_new((size_t)512 << 20);
    bw_raw raw = {.ctx = ctx};
    if (!ctx || close_range(3, ~0U, 0) != 0)
        return 3;
    if (kind == BW_MEDIA_PDF)
        bw_load_pdf_warm_up();
    if (!set_limits() || !set_filter() || !read_document(&bytes))
        return 4;
#ifdef BW_DEBUG
    try_forbidden((unsigned)kind);
#endif
    bw_status st = bw_load_media(kind, bytes, &raw);
    bool ok = true;
    for (size_t i = 0; i < raw.n && ok && !st; i++)
        ok = send_frame((frame){'B', raw.blocks[i].heading, raw.blocks[i].page, 0},
                        raw.blocks[i].text);
    if (ok && !st && raw.title.len)
        ok = send_frame((frame){.kind = 'T'}, raw.title);
    if (ok && !st && raw.warning.len)
        ok = send_frame((frame){.kind = 'W', .heading = raw.garbled}, raw.warning);
    bw_str message = st ? bw_str_c(bw_ctx_message(ctx)) : (bw_str){"", 0};
    ok = ok && send_frame((frame){.kind = 'E', .heading = (uint32_t)st}, message);
    return ok ? 0 : 5;
}

__attribute__((constructor)) static void become_child(int argc, char **argv)
{
    if (argc == 2 && argv && argv[0] && strcmp(argv[0], CHILD_NAME) == 0)
        _exit(child_main(argv[1]));
}

/* ---- the parent ---- */

/* A sealed file in memory that holds the document. */
static bw_status document_fd(bw_ctx *ctx, bw_str bytes, int *out)
{
    int fd = memfd_create("document", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return bw_fail_errno(ctx, "loader: memory file", errno);
    if (!write_all(fd, bytes.ptr, bytes.len) ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        bw_status st = bw_fail_errno(ctx, "loader: memory file", errno);
        close(fd);
        return st;
    }
    *out = fd;
    return BW_OK;
}

static bw_status start(bw_ctx *ctx, bw_media media, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char number[16];
    char *argv[] = {(char[]){CHILD_NAME}, number, NULL};
    const char *asan = getenv("ASAN_OPTIONS"), *tsan = getenv("TSAN_OPTIONS");
    char *envp[] = {(char[]){"LC_ALL=C"}, (char[]){"FONTCONFIG_FILE=/dev/null"}, NULL,
                    NULL, NULL};
    size_t nenv = 2;
    if (SANITIZED && asan)
        envp[nenv++] = bw_arena_printf(ctx, "ASAN_OPTIONS=%s", asan);
    if (SANITIZED && tsan && envp[nenv - 1])
        envp[nenv++] = bw_arena_printf(ctx, "TSAN_OPTIONS=%s", tsan);
    snprintf(number, sizeof number, "%u", (unsigned)media);
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return bw_fail_nomem(ctx);
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&actions, in, 0) ||
             posix_spawn_file_actions_adddup2(&actions, out, 1) ||
             posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) ||
             posix_spawnattr_setsigmask(&attr, &none) ||
             posix_spawnattr_setsigdefault(&attr, &all) ||
             posix_spawnattr_setflags(&attr,
                                      POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        rc = rc ? ENOMEM
                : posix_spawn(pid, "/proc/self/exe", &actions, &attr, argv, envp);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return rc ? bw_fail(ctx, BW_EUNAVAILABLE,
                        "loader: the child process cannot be started")
              : BW_OK;
}

/* Everything that the child writes, until it closes the pipe, the deadline, the cap. */
static bw_status drain(bw_ctx *ctx, int fd, bw_buf *buf)
{
    uint64_t end = bw_clock_mono_ns() + WALL_SECONDS_MAX * (uint64_t)1000000000;
    if (bw_ctx_deadline(ctx) && bw_ctx_deadline(ctx) < end)
        end = bw_ctx_deadline(ctx);
    for (;;) {
        static const size_t step = 1 << 16;
        char block[1 << 16];
        uint64_t now = bw_clock_mono_ns();
        if (now >= end)
            return bw_fail(ctx, BW_EINVALID,
                           "loader: the document took too long to read");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, (int)((end - now) / 1000000 + 1));
        ssize_t got = ready > 0 ? read(fd, block, step) : -1;
        if (ready == 0 || (got < 0 && errno == EINTR))
            continue;
        if (got < 0)
            return bw_fail_errno(ctx, "loader: pipe", errno);
        if (got == 0)
            return BW_OK;
        if (buf->len + (size_t)got > OUTPUT_BYTES_MAX)
            return bw_fail(ctx, BW_EINVALID,
                           "loader: the document holds more text than the limit");
        bw_buf_put(buf, block, (size_t)got);
        if (buf->failed)
            return bw_fail_nomem(ctx);
    }
}

/* A message of the child's is shown only as far as it is plain ASCII. */
static bw_status child_failed(bw_ctx *ctx, frame f, const char *text)
{
    char line[160];
    size_t n = 0;
    for (; n < f.len && n < sizeof line - 1; n++)
        line[n] = text[n] >= ' ' && text[n] < 0x7F ? text[n] : '?';
    line[n] = 0;
    return bw_fail(ctx, f.heading == BW_ENOMEM ? BW_ENOMEM : BW_EINVALID, "%s",
                   n ? line : "the document cannot be read");
}

static bw_status read_frames(bw_ctx *ctx, bw_str all, bw_raw *out)
{
    for (size_t i = 0; all.len - i >= sizeof(frame);) {
        frame f;
        memcpy(&f, all.ptr + i, sizeof f);
        i += sizeof f;
        if (f.len > all.len - i)
            break;
        bw_str text = {all.ptr + i, f.len};
        bw_status st = BW_OK;
        if (f.kind == 'E')
            return f.heading == BW_OK ? BW_OK : child_failed(ctx, f, text.ptr);
        if (f.kind == 'B') {
            st = bw_raw_add(out, f.heading, f.page, text);
        } else if (f.kind == 'T' && bw_utf8_valid(text.ptr, text.len)) {
            st = bw_raw_title(out, text);
        } else if (f.kind == 'W' && text.len < 200 &&
                   bw_utf8_valid(text.ptr, text.len)) {
            out->garbled = f.heading == 1;
            st = bw_arena_str(ctx, text, &out->warning);
        } else {
            break;
        }
        if (st)
            return st;
        i += f.len;
    }
    return bw_fail(ctx, BW_EINVALID,
                   "loader: the document ended the process that read it");
}

bw_status bw_child_load(bw_ctx *ctx, bw_media media, bw_str bytes, bw_raw *out)
{
    int in = -1, ends[2] = {-1, -1};
    pid_t pid = -1;
    bw_buf buf = {0};
    bw_status st;
    if (bytes.len > INPUT_BYTES_MAX)
        return bw_fail(ctx, BW_EINVALID, "the document is longer than the limit");
    st = document_fd(ctx, bytes, &in);
    if (!st && pipe2(ends, O_CLOEXEC) < 0)
        st = bw_fail_errno(ctx, "loader: pipe", errno);
    if (!st)
        st = start(ctx, media, in, ends[1], &pid);
    if (ends[1] >= 0)
        close(ends[1]);
    if (in >= 0)
        close(in);
    if (!st)
        st = drain(ctx, ends[0], &buf);
    if (pid > 0) {
        kill(pid, SIGKILL); /* it has said all, or is not to say more */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (!st)
        st = read_frames(ctx, bw_buf_view(&buf), out);
    if (ends[0] >= 0)
        close(ends[0]);
    bw_buf_clear(&buf);
    return st;
}
