/* The register of classes: what the log's class ids and lists of classes mean.
 *
 * A permitted set is decided over the classes of a collection. Its event names that list
 * by digest, and the register holds each list and each class's label text once, so that
 * events stay small and a replay can ask the same question again. audit/classes.jsonl,
 * beside the log and to be kept with it:
 *
 *   {"class":"64 hex","labels":{canonical label set}}
 *   {"list":"32 hex","of":["64 hex",…]}
 *   {"list":"32 hex","from":"32 hex","add":[…],"drop":[…]}    from: an earlier line's list
 *
 * A class id is the hash of its labels and a list's name that of its ids (BLAKE2b-128,
 * ids in order), so every line proves itself against the log, which is chained. A list
 * that differs little from the collection's last one is written as the difference: ten
 * thousand classes that come one by one cost twice their number, not its square.
 *
 * Lines are on the disk before the event that names them. A torn last line is cut. */
#ifndef BW_REGISTER_H
#define BW_REGISTER_H
#include "../engine/base/map.h"

enum { BW_LIST_DIGEST = 16 };

typedef struct bw_register bw_register; /* locked inside */

BW_MUST_USE bw_status bw_register_open(bw_ctx *ctx, const char *audit_dir,
                                       bw_register **out);
void bw_register_close(bw_register *r); /* NULL is accepted */

/* The label text of a class; BW_OK or the request fails. */
typedef bw_status (*bw_register_text_fn)(void *arg, const bw_class_id *id, bw_str *out);

/* The digest of the list that (uid, version) names, recorded with all its classes.
 * ids: sorted, n of them; looked at only when the version is new;
 * without `text` that is BW_ENOTFOUND. */
BW_MUST_USE bw_status bw_register_list(bw_ctx *ctx, bw_register *r, uint64_t uid,
                                       uint64_t version, const bw_class_id *ids, size_t n,
                                       bw_register_text_fn text, void *arg,
                                       uint8_t digest[BW_LIST_DIGEST]);
/* One class outside any list. */
BW_MUST_USE bw_status bw_register_class(bw_ctx *ctx, bw_register *r, const bw_class_id *id,
                                        bw_str label_text);
void bw_register_digest(const bw_class_id *ids, size_t n, uint8_t digest[BW_LIST_DIGEST]);

/* ---- reading (register_read.c): offline or beside a running cell ---- */

typedef struct bw_register_book bw_register_book; /* one thread at a time */
/* An absent file is an empty book. Lines that do not prove themselves are left out. */
BW_MUST_USE bw_status bw_register_read(bw_ctx *ctx, const char *audit_dir,
                                       bw_register_book **out);
void bw_register_book_free(bw_register_book *b);
bool bw_register_text(const bw_register_book *b, const bw_class_id *id, bw_str *out);
/* The ids of a list, valid until the next call. BW_ENOTFOUND: not there, or not provable. */
BW_MUST_USE bw_status bw_register_ids(bw_ctx *ctx, bw_register_book *b,
                                      const uint8_t digest[BW_LIST_DIGEST],
                                      const bw_class_id **out, size_t *n);
/* Bytes of the file up to the end of its last whole line; what is named there goes into
 * the two maps (class id and list digest -> 1). For bw_register_open. */
BW_MUST_USE bw_status bw_register__known(bw_ctx *ctx, const char *path,
                                         bw_map *classes, bw_map *lists,
                                         uint64_t *whole_bytes);
#endif
