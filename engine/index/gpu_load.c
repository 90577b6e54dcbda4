/* Finds and opens the GPU module once; says in words why there is none.
 *
 * The module is code that runs inside the cell, so it is held to what the loader of the
 * system holds its own libraries to: a regular file in a folder, both writable by root or
 * by the cell's user alone. The file is opened once, looked at through its descriptor and
 * loaded through the same, so that nothing can be put in its place in between. Folders
 * come from the build and from where the binary stands; never from a request, and not
 * from the environment either (a cell that runs with more rights than its caller would
 * lend them out).
 *
 * Leaves out: opening a device (gpu_module.h), and what to do without one. */
#include "gpu_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef BW_GPU_FOLDER_INSTALLED
#define BW_GPU_FOLDER_INSTALLED "/usr/lib/bailiwick"
#endif

#ifndef BW_GPU_FOLDER_BELOW
#define BW_GPU_FOLDER_BELOW "lib/bailiwick"
#endif

static_assert((int)BW_GPU_F32 == (int)BW_DTYPE_F32 && (int)BW_GPU_F16 == (int)BW_DTYPE_F16 &&
                  (int)BW_GPU_BF16 == (int)BW_DTYPE_BF16 && (int)BW_GPU_I8 == (int)BW_DTYPE_I8,
              "the module's precisions are the engine's");
static_assert(sizeof(bw_gpu_item) == 24 && sizeof(bw_gpu_read) == 16 &&
                  sizeof(bw_gpu_hit) == 12 && sizeof(bw_gpu_answer) == 16,
              "layouts of the module's table");

enum { PATH_BYTES_MAX = 4096 };
static const char module_file[] = "bailiwick_cuda.so";

static const char *const reasons[BW_GPU_NREASONS] = {
    [BW_GPU_READY] = "ready",
    [BW_GPU_NO_MODULE] = "no GPU module is installed",
    [BW_GPU_BAD_MODULE] = "the GPU module is not used",
    [BW_GPU_NO_DRIVER] = "no CUDA driver (libcuda.so.1)",
    [BW_GPU_OLD_DRIVER] = "the CUDA driver is too old for the module",
    [BW_GPU_NO_DEVICE] = "no GPU is visible",
    [BW_GPU_OLD_DEVICE] = "the GPU's compute capability is below 8.0",
    [BW_GPU_FULL] = "too little GPU memory is free",
    [BW_GPU_ARITHMETIC] = "the GPU's sums are outside the bound that exact answers need",
    [BW_GPU_FAILED] = "the GPU could not be asked",
};

static const char *const statuses[] = {
    [BW_GPU_OK] = "ok",
    [BW_GPU_AGAIN] = "busy",
    [BW_GPU_NOMEM] = "out of GPU memory",
    [BW_GPU_LOST] = "the GPU is lost",
    [BW_GPU_TIMEOUT] = "the GPU did not answer in time",
    [BW_GPU_INVALID] = "wrong use of the GPU",
    [BW_GPU_UNSUPPORTED] = "not done on the GPU",
};

const char *bw_gpu_reason_text(uint32_t reason)
{
    return reason < BW_GPU_NREASONS ? reasons[reason] : "unknown reason";
}

const char *bw_gpu_status_text(uint32_t status)
{
    return status < sizeof statuses / sizeof *statuses ? statuses[status]
                                                       : "unknown status";
}

static const bw_gpu_module *refuse(uint32_t *reason, char text[BW_GPU_TEXT_MAX],
                                   bw_gpu_reason why, const char *more)
{
    *reason = (uint32_t)why;
    (void)snprintf(text, BW_GPU_TEXT_MAX, "%s%s%s", reasons[why], more[0] ? ": " : "",
                   more);
    return NULL;
}

/* Nobody but root and the cell's user may change it. */
static bool is_ours(const struct stat *st)
{
    return (st->st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
           (st->st_uid == 0 || st->st_uid == geteuid());
}

/* The descriptor of the module in the folder, or -1 with *why. */
static int module_open(const char *folder, bw_gpu_reason *why, const char **more)
{
    struct stat st;
    *why = BW_GPU_NO_MODULE;
    *more = "";
    const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    const int fd = openat(dir, module_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        *why = BW_GPU_BAD_MODULE;
        if (fstat(dir, &st) != 0 || !is_ours(&st))
            *more = "others may write to its folder";
        else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
            *more = "it is no regular file";
        else if (!is_ours(&st))
            *more = "others may write to it";
        else
            *why = BW_GPU_READY;
    } else if (errno != ENOENT) {
        *why = BW_GPU_BAD_MODULE;
        *more = errno == ELOOP ? "it is a link" : "it cannot be opened";
    }
    (void)close(dir);
    if (*why == BW_GPU_READY)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

const bw_gpu_module *bw_gpu_load_from(const char *folder, uint32_t *reason,
                                      char text[BW_GPU_TEXT_MAX])
{
    char path[64];
    bw_gpu_reason why;
    const char *more;
    const int fd = module_open(folder, &why, &more);
    if (fd < 0)
        return refuse(reason, text, why, more);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* Local, so that the runtime inside it meets nobody else's symbols. Never closed. */
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)close(fd);
    if (!lib)
        return refuse(reason, text, BW_GPU_BAD_MODULE, "it does not load here");
    void *symbol = dlsym(lib, BW_GPU_SYMBOL);
    if (!symbol)
        return refuse(reason, text, BW_GPU_BAD_MODULE, "it is something else");
    bw_gpu_module_fn *get;
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from object to function */
    const bw_gpu_module *m = get(BW_GPU_ABI);
    if (!m || m->abi != BW_GPU_ABI || m->size != sizeof *m)
        return refuse(reason, text, BW_GPU_BAD_MODULE, "it belongs to another release");
    *reason = BW_GPU_READY;
    (void)snprintf(text, BW_GPU_TEXT_MAX, "the GPU module `%s` is loaded", m->name);
    return m;
}

/* The folder in which the running binary stands, without the slash. */
static bool binary_folder(char out[PATH_BYTES_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES_MAX - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash || slash == out)
        return false;
    *slash = 0;
    return true;
}

/* PREFIX/bin in folder becomes PREFIX's library folder, for a tree installed elsewhere than
 * it was configured for. False, and no change: the binary stands in no folder `bin`. */
static bool library_folder(char folder[PATH_BYTES_MAX])
{
    static const char bin[] = "/bin", below[] = "/" BW_GPU_FOLDER_BELOW;
    const size_t n = strlen(folder), nbin = sizeof bin - 1;
    if (n < nbin || strcmp(folder + n - nbin, bin) != 0 ||
        n - nbin + sizeof below > PATH_BYTES_MAX)
        return false;
    memcpy(folder + n - nbin, below, sizeof below);
    return true;
}

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static bool once_done;                  /* once_lock guards what follows */
static const bw_gpu_module *once_table; /* found */
static const bw_gpu_module *used;       /* a test's; instead of all */
static uint32_t once_reason;
static char once_text[BW_GPU_TEXT_MAX];

static void find(void)
{
    char folder[PATH_BYTES_MAX];
    once_reason = BW_GPU_NO_MODULE;
    const bool known = binary_folder(folder);
    if (known)
        once_table = bw_gpu_load_from(folder, &once_reason, once_text);
    /* A module that is refused is a fault to be told, not passed over. */
    if (known && !once_table && once_reason == BW_GPU_NO_MODULE && library_folder(folder))
        once_table = bw_gpu_load_from(folder, &once_reason, once_text);
    if (!once_table && once_reason == BW_GPU_NO_MODULE)
        once_table = bw_gpu_load_from(BW_GPU_FOLDER_INSTALLED, &once_reason, once_text);
    once_done = true;
}

const bw_gpu_module *bw_gpu_load(uint32_t *reason, char text[BW_GPU_TEXT_MAX])
{
    (void)pthread_mutex_lock(&once_lock);
    if (!used && !once_done)
        find();
    const bw_gpu_module *m = used ? used : once_table;
    *reason = used ? (uint32_t)BW_GPU_READY : once_reason;
    (void)snprintf(text, BW_GPU_TEXT_MAX, "%s", used ? used->name : once_text);
    (void)pthread_mutex_unlock(&once_lock);
    return m;
}

void bw_gpu_load_use(const bw_gpu_module *table)
{
    (void)pthread_mutex_lock(&once_lock);
    used = table;
    (void)pthread_mutex_unlock(&once_lock);
}
