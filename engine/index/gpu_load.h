/* Finding and opening the GPU module. Only from a folder that the build or the operator's
 * installation names (beside the binary, then the library folder of its prefix, then the
 * configured one), never from a path that came with a request; a file or folder that
 * others may write is refused.
 * Loaded once a process and never unloaded. Thread-safe. */
#ifndef BW_GPU_LOAD_H
#define BW_GPU_LOAD_H
#include "../base/base.h"
#include "gpu_module.h"

/* The table, or NULL with *reason (NO_MODULE, BAD_MODULE) and a line of text. The answer
 * of the first call is kept. */
const bw_gpu_module *bw_gpu_load(uint32_t *reason, char text[BW_GPU_TEXT_MAX]);
/* As above from one folder, without keeping the answer: for tests. */
const bw_gpu_module *bw_gpu_load_from(const char *folder, uint32_t *reason,
                                      char text[BW_GPU_TEXT_MAX]);
/* For tests of the host's logic: this table instead of a module (NULL: as before). Before
 * any thread uses the GPU. */
void bw_gpu_load_use(const bw_gpu_module *table);
const char *bw_gpu_reason_text(uint32_t reason); /* a few words, never NULL */
const char *bw_gpu_status_text(uint32_t status);
#endif
