/* An SQLite VFS whose n-th write, sync, truncation or creation fails, once or from then
 * on. It becomes the default VFS, so the engine's files go through it; they need no
 * shared memory (exclusive locking), so version 1 of the methods is enough. */
#ifndef BW_TEST_FAULT_VFS_H
#define BW_TEST_FAULT_VFS_H
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

typedef enum fault_kind { FAULT_FULL, FAULT_WRITE, FAULT_SYNC } fault_kind;

static struct {
    long countdown; /* −1: never */
    bool lasts, hit;
    fault_kind kind;
} fault = {-1, false, false, FAULT_FULL};

static inline void fault_arm(long n, bool lasts, fault_kind kind)
{
    fault.countdown = n;
    fault.lasts = lasts;
    fault.hit = false;
    fault.kind = kind;
}

static bool fault_now(void)
{
    if (fault.countdown < 0)
        return false;
    if (fault.countdown > 0) {
        fault.countdown--;
        return false;
    }
    fault.hit = true;
    if (!fault.lasts)
        fault.countdown = -1;
    return true;
}

/* Called after each sync that succeeded, with the file's path: what a power cut keeps.
 */
static void (*fault_synced)(const char *path);
/* Called after a removal whose folder was synced too. */
static void (*fault_removed)(const char *path);

typedef struct fault_file {
    sqlite3_file base;
    sqlite3_file *real;
    const char *path; /* SQLite keeps it while the file is open */
} fault_file;

static sqlite3_vfs fault_vfs, *fault_below;

static sqlite3_file *fault_real(sqlite3_file *f)
{
    return ((fault_file *)f)->real;
}
static int fault_close(sqlite3_file *f)
{
    return fault_real(f)->pMethods->xClose(fault_real(f));
}
static int fault_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return fault_real(f)->pMethods->xRead(fault_real(f), p, n, at);
}
static int fault_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (fault.kind != FAULT_SYNC && fault_now())
        return fault.kind == FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    return fault_real(f)->pMethods->xWrite(fault_real(f), p, n, at);
}
static int fault_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return fault_real(f)->pMethods->xTruncate(fault_real(f), n);
}
static int fault_sync(sqlite3_file *f, int flags)
{
    if (fault.kind == FAULT_SYNC && fault_now())
        return SQLITE_IOERR_FSYNC;
    int rc = fault_real(f)->pMethods->xSync(fault_real(f), flags);
    if (rc == SQLITE_OK && fault_synced && ((fault_file *)f)->path)
        fault_synced(((fault_file *)f)->path);
    return rc;
}
static int fault_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return fault_real(f)->pMethods->xFileSize(fault_real(f), n);
}
static int fault_lock(sqlite3_file *f, int how)
{
    return fault_real(f)->pMethods->xLock(fault_real(f), how);
}
static int fault_unlock(sqlite3_file *f, int how)
{
    return fault_real(f)->pMethods->xUnlock(fault_real(f), how);
}
static int fault_reserved(sqlite3_file *f, int *out)
{
    return fault_real(f)->pMethods->xCheckReservedLock(fault_real(f), out);
}
static int fault_control(sqlite3_file *f, int op, void *arg)
{
    return fault_real(f)->pMethods->xFileControl(fault_real(f), op, arg);
}
static int fault_sector(sqlite3_file *f)
{
    return fault_real(f)->pMethods->xSectorSize(fault_real(f));
}
static int fault_device(sqlite3_file *f)
{
    return fault_real(f)->pMethods->xDeviceCharacteristics(fault_real(f));
}

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags,
                      int *out)
{
    static const sqlite3_io_methods methods = {
        .iVersion = 1,
        .xClose = fault_close,
        .xRead = fault_read,
        .xWrite = fault_write,
        .xTruncate = fault_truncate,
        .xSync = fault_sync,
        .xFileSize = fault_size,
        .xLock = fault_lock,
        .xUnlock = fault_unlock,
        .xCheckReservedLock = fault_reserved,
        .xFileControl = fault_control,
        .xSectorSize = fault_sector,
        .xDeviceCharacteristics = fault_device,
    };
    (void)vfs;
    fault_file *mine = (fault_file *)f;
    mine->real = (sqlite3_file *)(mine + 1);
    mine->path = name;
    int rc = fault_below->xOpen(fault_below, name, mine->real, flags, out);
    f->pMethods = mine->real->pMethods ? &methods : NULL;
    return rc;
}

static int fault_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    (void)vfs;
    int rc = fault_below->xDelete(fault_below, name, sync_dir);
    if (rc == SQLITE_OK && sync_dir && fault_removed)
        fault_removed(name);
    return rc;
}

static inline void fault_install(void)
{
    fault_below = sqlite3_vfs_find(NULL);
    fault_vfs = *fault_below;
    fault_vfs.zName = "fault";
    fault_vfs.szOsFile += (int)sizeof(fault_file);
    fault_vfs.xOpen = fault_open;
    fault_vfs.xDelete = fault_delete;
    sqlite3_vfs_register(&fault_vfs, 1);
}
#endif
