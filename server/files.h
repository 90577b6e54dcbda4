/* Small files that must be whole: read at once, replaced by write, fsync, rename,
 * fsync of the folder (security.md, section 5). Paths are the operator's, never a
 * request's. */
#ifndef BW_FILES_H
#define BW_FILES_H
#include "../engine/base/base.h"

/* The file's bytes in ctx's arena, with a NUL after them that is not counted.
 * BW_ENOTFOUND when it is not there; BW_EINVALID above bytes_max. */
BW_MUST_USE bw_status bw_file_read(bw_ctx *ctx, const char *path, size_t bytes_max,
                                   bw_str *out);
/* The same below an open folder: the path crosses no link and leaves the folder
 * nowhere, whatever somebody puts there meanwhile, and no pipe or device is waited on.
 */
BW_MUST_USE bw_status bw_file_read_below(bw_ctx *ctx, int folder, const char *path,
                                         size_t bytes_max, bw_str *out);
/* A descriptor of a file or folder below `folder`, by the same rules; -1 and errno. */
int bw_open_below(int folder, const char *path, int flags);
/* The new content is there whole and durable, or the old one still is. mode: of the
 * file. */
BW_MUST_USE bw_status bw_file_replace(bw_ctx *ctx, const char *path, bw_str content,
                                      unsigned mode);
BW_MUST_USE bw_status bw_dir_sync(bw_ctx *ctx, const char *dir);
/* Makes one folder (not its parents) with mode 0700; there already is fine. */
BW_MUST_USE bw_status bw_dir_make(bw_ctx *ctx, const char *dir);
bool bw_file_exists(const char *path);
/* dir/name in ctx's arena; NULL when memory is out. */
const char *bw_path_join(bw_ctx *ctx, const char *dir, const char *name);
/* Writes all n bytes, past signals and short writes; 0 or the errno. */
int bw_write_all(int fd, const void *p, size_t n);
#endif
