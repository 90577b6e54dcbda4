/* Files and folders of a cell's data: the lock of one process, durable creation and
 * replacement. Every call that can fail is checked, also close and the sync of the
 * folder, since a file whose name is not on disk is lost with it. */
#ifndef BW_STORE_FS_H
#define BW_STORE_FS_H
#include "../base/base.h"

/* Makes a folder (mode 0700) and syncs its parent; one that is there is fine. */
BW_MUST_USE bw_status bw_fs_mkdir(bw_ctx *ctx, const char *path);
BW_MUST_USE bw_status bw_fs_sync_dir(bw_ctx *ctx, const char *path);
/* Syncs a file that others have written. */
BW_MUST_USE bw_status bw_fs_sync_file(bw_ctx *ctx, const char *path);
/* Is there a file of that suffix in the folder? false: nor the folder, perhaps. */
BW_MUST_USE bw_status bw_fs_any(bw_ctx *ctx, const char *dir, const char *suffix,
                                bool *out);
bool bw_fs_exists(const char *path);
/* A missing file is no error. The folder is not synced. */
BW_MUST_USE bw_status bw_fs_unlink(bw_ctx *ctx, const char *path);
/* Write, sync, rename, sync the folder. mode: of the file. */
BW_MUST_USE bw_status bw_fs_replace(bw_ctx *ctx, const char *dir, const char *name,
                                    const void *bytes, size_t n, unsigned mode);
/* The whole file into out; BW_ENOTFOUND, BW_ECORRUPT over bytes_max. */
BW_MUST_USE bw_status bw_fs_read(bw_ctx *ctx, const char *path, size_t bytes_max,
                                 bw_buf *out);
/* Takes an exclusive lock for the life of the descriptor; BW_EUNAVAILABLE when another
 * process has it. */
BW_MUST_USE bw_status bw_fs_lock(bw_ctx *ctx, const char *path, int *fd);
#endif
