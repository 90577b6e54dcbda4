/* Opens the CUDA driver and cuVS, and says in words why they are not used.
 *
 * The order matters: cuVS loads happily without a driver (0.4 s and 360 MB), makes its
 * resources without a device and even gives a device number then; only the first sync is
 * honest. So the driver is asked first, and a sync last. A version gate stands between,
 * because functions changed their arguments under the same names (26.06 to 26.08, and
 * 27.02 is announced).
 *
 * Where from: the folder `cuvs` beside an installed GPU module, laid out as wheels are
 * (nobody but root and the cell's user may be able to change what is opened there), else
 * by name as the system's loader finds it. No path comes from a request or from a
 * variable of ours. RTLD_LOCAL keeps cuVS's C++ out of FAISS's way. Nothing is ever
 * closed: threads and exit handlers of CUDA live in it. */
#include "cuvs_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef BW_GPU_FOLDER_INSTALLED
#define BW_GPU_FOLDER_INSTALLED "/usr/lib/bailiwick"
#endif

enum { PATH_BYTES_MAX = 4096 };

static const char *const reasons[BW_CUVS_NREASONS] = {
    [BW_CUVS_READY] = "ready",
    [BW_CUVS_OFF] = "switched off",
    [BW_CUVS_NO_DRIVER] = "no CUDA driver (libcuda.so.1)",
    [BW_CUVS_DRIVER_FAILED] = "the CUDA driver failed",
    [BW_CUVS_NO_DEVICE] = "no GPU is visible",
    [BW_CUVS_OLD_DRIVER] = "the CUDA driver is older than 13.0",
    [BW_CUVS_NO_LIBRARY] = "cuVS is not installed, or not wholly",
    [BW_CUVS_OTHER_ABI] = "another cuVS than 26.08 to 26.x",
    [BW_CUVS_MISSING_SYMBOL] = "cuVS lacks a function",
    [BW_CUVS_RUNTIME_FAILED] = "the GPU does not work",
};

const char *bw_cuvs_reason_text(uint32_t reason)
{
    return reason < BW_CUVS_NREASONS ? reasons[reason] : "unknown reason";
}

/* A cuVS text is "<kind> at file=… line=… function=<a screenful of C++>: <message>", then
 * a stack trace on further lines. The message proper stands after the last "]: " or ">: "
 * of the first line, or after "Reason=". */
const char *bw_cuvs__essence(const char *text, int *length)
{
    if (!text)
        text = "no text";
    const char *end = text + strcspn(text, "\n"), *start = text;
    for (const char *p = text; p + 2 < end; p++)
        if ((p[0] == ']' || p[0] == '>') && p[1] == ':' && p[2] == ' ')
            start = p + 3;
    const char *reason = strstr(start, "Reason=");
    if (reason && reason < end)
        start = reason + sizeof "Reason=" - 1;
    const ptrdiff_t n = end - start;
    *length = n < 300 ? (int)n : 300;
    return start;
}

static bw_cuvs_reason refuse(char text[BW_CUVS_TEXT_MAX], bw_cuvs_reason why,
                             const char *more)
{
    int length = 0;
    const char *words = bw_cuvs__essence(more, &length);
    (void)snprintf(text, BW_CUVS_TEXT_MAX, "%s%s%.*s", reasons[why],
                   length > 0 ? ": " : "", length, words);
    return why;
}

static void take_symbol(void *lib, const char *name, void *field)
{
    void *symbol = dlsym(lib, name);
    memcpy(field, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
}

/* ---- may it be opened? ---- */

/* NULL: only root and the cell's user can change what stands at `path`; else what is
 * wrong. Folders above count too: who may write to one may put another in its place,
 * but not where the sticky bit forbids it. */
static const char *distrust(const char *path)
{
    char real[PATH_BYTES_MAX];
    struct stat st;
    _Static_assert(PATH_BYTES_MAX >= 4096, "realpath writes PATH_MAX bytes");
    if (!realpath(path, real))
        return "it is not there";
    for (bool first = true;; first = false) {
        if (lstat(real, &st) != 0)
            return "it cannot be looked at";
        const bool open_to_all = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
        const bool sticky = !first && S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0;
        if ((open_to_all && !sticky) || (st.st_uid != 0 && st.st_uid != geteuid()))
            return first ? "others may write to it" : "others may write to its folder";
        char *slash = strrchr(real, '/');
        if (!slash || real[1] == 0)
            return NULL;
        slash[slash == real] = 0; /* at last "/" itself */
    }
}

static void *open_file(const char *path, char why[BW_CUVS_TEXT_MAX])
{
    const char *fault = distrust(path);
    void *lib = fault ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        (void)snprintf(why, BW_CUVS_TEXT_MAX, "%s%s%s", fault ? path : "",
                       fault ? ": " : "", fault ? fault : dlerror());
    return lib;
}

/* The wheels' own search paths do not find what lies in sibling packages. Opening those
 * first is enough: the loader matches what is loaded by its name. */
static void *open_wheels(const char *folder, char why[BW_CUVS_TEXT_MAX])
{
    static const char *const files[] = {
        "rapids_logger/lib64/librapids_logger.so", "librmm/lib64/librmm.so",
        "libkvikio/lib64/libkvikio.so",            "nvidia/cu13/lib/libnvrtc.so.13",
        "libcuvs/lib64/libcuvs.so",                "libcuvs/lib64/libcuvs_c.so"};
    void *lib = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_BYTES_MAX];
        const int n = snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        if (n < 0 || (size_t)n >= sizeof path)
            return NULL;
        lib = open_file(path, why);
        if (!lib)
            return NULL;
    }
    return lib;
}

static void *open_library(const bw_cuvs_places *places, char why[BW_CUVS_TEXT_MAX])
{
    static const char installed[] = BW_GPU_FOLDER_INSTALLED "/cuvs";
    if (places && places->library)
        return open_file(places->library, why);
    if (places && places->folder)
        return open_wheels(places->folder, why);
    if (access(installed, F_OK) == 0) /* a fault there is told, not passed over */
        return open_wheels(installed, why);
    void *lib = dlopen("libcuvs_c.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = dlopen("libcuvs_c.so", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        (void)snprintf(why, BW_CUVS_TEXT_MAX, "%s", dlerror());
    return lib;
}

/* ---- the questions ---- */

static bw_cuvs_reason ask_driver(const bw_cuvs_places *places, bw_cuvs_api *api,
                                 char text[BW_CUVS_TEXT_MAX])
{
    char why[BW_CUVS_TEXT_MAX];
    const bool given = places && places->driver;
    void *lib = given ? open_file(places->driver, why)
                      : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return refuse(text, BW_CUVS_NO_DRIVER, given ? why : dlerror());
#define TAKE(name, result, params)                                                         \
    take_symbol(lib, #name, &api->name);                                                   \
    if (!api->name)                                                                        \
        return refuse(text, BW_CUVS_DRIVER_FAILED, "it lacks " #name);
    BW_CUDA_SYMBOLS(TAKE)
#undef TAKE
    const int rc = api->cuInit(0);
    if (rc != 0) {
        enum { NO_DEVICE = 100 };
        (void)snprintf(why, sizeof why, "cuInit gave %d", rc);
        return refuse(text, rc == NO_DEVICE ? BW_CUVS_NO_DEVICE : BW_CUVS_DRIVER_FAILED,
                      why);
    }
    int devices = 0, version = 0;
    if (api->cuDeviceGetCount(&devices) != 0 || devices <= 0)
        return refuse(text, BW_CUVS_NO_DEVICE, "");
    if (api->cuDriverGetVersion(&version) != 0 || version < BW_CUVS_DRIVER_MIN) {
        (void)snprintf(why, sizeof why, "%d, wanted is %d", version,
                       (int)BW_CUVS_DRIVER_MIN);
        return refuse(text, BW_CUVS_OLD_DRIVER, why);
    }
    return BW_CUVS_READY;
}

static bw_cuvs_reason ask_library(const bw_cuvs_places *places, bw_cuvs_api *api,
                                  char text[BW_CUVS_TEXT_MAX])
{
    char why[BW_CUVS_TEXT_MAX] = "";
    void *lib = open_library(places, why);
    if (!lib)
        return refuse(text, BW_CUVS_NO_LIBRARY, why);
    /* The version before the symbols: an older one lacks some, and its number says more. */
    take_symbol(lib, "cuvsVersionGet", &api->cuvsVersionGet);
    if (!api->cuvsVersionGet)
        return refuse(text, BW_CUVS_MISSING_SYMBOL, "cuvsVersionGet");
    if (api->cuvsVersionGet(&api->major, &api->minor, &api->patch) != CUVS_SUCCESS)
        api->major = 0;
    if (api->major != BW_CUVS_OLDEST_MAJOR || api->minor < BW_CUVS_OLDEST_MINOR) {
        (void)snprintf(why, sizeof why, "%u.%02u.%02u", api->major, api->minor, api->patch);
        return refuse(text, BW_CUVS_OTHER_ABI, why);
    }
#define TAKE(name, result, params)                                                         \
    take_symbol(lib, #name, &api->name);                                                   \
    if (!api->name)                                                                        \
        return refuse(text, BW_CUVS_MISSING_SYMBOL, #name);
    BW_CUVS_SYMBOLS(TAKE)
#undef TAKE
    return BW_CUVS_READY;
}

/* The first question that a missing or broken device cannot answer with success. */
static bw_cuvs_reason ask_device(bw_cuvs_api *api, char text[BW_CUVS_TEXT_MAX])
{
    cuvsResources_t r = 0;
    api->cuvsSetLogLevel(CUVS_LOG_LEVEL_ERROR); /* it writes to stderr by itself */
    const bool ok = api->cuvsResourcesCreate(&r) == CUVS_SUCCESS &&
                    api->cuvsStreamSync(r) == CUVS_SUCCESS;
    if (!ok) /* before the next success clears it */
        (void)refuse(text, BW_CUVS_RUNTIME_FAILED, api->cuvsGetLastErrorText());
    if (r)
        (void)api->cuvsResourcesDestroy(r);
    return ok ? BW_CUVS_READY : BW_CUVS_RUNTIME_FAILED;
}

bw_cuvs_reason bw_cuvs__load(const bw_cuvs_places *places, bw_cuvs_api *api,
                             char text[BW_CUVS_TEXT_MAX])
{
    memset(api, 0, sizeof *api);
    bw_cuvs_reason why = ask_driver(places, api, text);
    if (why == BW_CUVS_READY)
        why = ask_library(places, api, text);
    if (why == BW_CUVS_READY)
        why = ask_device(api, text);
    if (why == BW_CUVS_READY)
        (void)snprintf(text, BW_CUVS_TEXT_MAX, "cuVS %u.%02u.%02u is loaded", api->major,
                       api->minor, api->patch);
    return why;
}
