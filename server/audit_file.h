/* Reading the audit log's files, shared by recovery, query and the offline verifier; and
 * what audit_record.c writes.
 * Private to audit*.c. */
#ifndef BW_AUDIT_FILE_H
#define BW_AUDIT_FILE_H
#include "audit.h"

typedef struct bw_audit__list { /* ascending numbers without gaps */
    const uint64_t *numbers;
    size_t n;
} bw_audit__list;

typedef struct bw_audit__scan {
    bool last;
    uint64_t lines, first_seq, last_seq, good_bytes, torn_bytes;
    uint8_t first_prev[BW_AUDIT_HASH], head[BW_AUDIT_HASH];
} bw_audit__scan;

const char *bw_audit__path(bw_ctx *ctx, const char *dir, uint64_t number);
void bw_audit__hash(const uint8_t prev[BW_AUDIT_HASH], bw_str bytes,
                    uint8_t out[BW_AUDIT_HASH]);
/* BW_ECORRUPT when a number is missing between the first and the last. */
BW_MUST_USE bw_status bw_audit__list_files(bw_ctx *ctx, const char *dir,
                                           bw_audit__list *out);
/* Checks the chain inside one file; lines_max 0 = all. A last line without LF is torn.
 */
BW_MUST_USE bw_status bw_audit__scan_file(bw_ctx *ctx, const char *dir, uint64_t number,
                                          uint64_t lines_max, bw_audit__scan *out);
/* Whole lines (without LF) of one file in order until fn returns false. */
typedef bool (*bw_audit__line_fn)(bw_ctx *ctx, void *arg, uint64_t seq, bw_str line);
BW_MUST_USE bw_status bw_audit__walk(bw_ctx *ctx, const char *dir, uint64_t number,
                                     bw_audit__line_fn fn, void *arg, bool *go_on);
/* A record's members, without braces. audit_record.c */
void bw_audit__put_members(bw_buf *b, const bw_audit_record *r);
#endif
