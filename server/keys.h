/* API keys: who a caller is, what it may claim, its defaults.
 *
 * A key is "bw_" ID "_" SECRET: ID is 12 hex digits and public (logs, audit), SECRET is
 * 256 random bits in base64url, shown once. Stored is only BLAKE2b-256 of the whole
 * key, keyed with the cell's own secret (secrets/keys, mode 0400), so that a copied
 * keys.json is of no use without that file. Records live in keys.json, replaced whole.
 *
 * Locked inside; a revoked key fails from the next request on, on any connection. */
#ifndef BW_KEYS_H
#define BW_KEYS_H
#include "../engine/base/json.h"

enum {
    BW_KEY_ID = 12,      /* hex digits */
    BW_KEY_TEXT = 59,    /* bw_ + ID + _ + 43 */
    BW_KEYS_MAX = 20000, /* the file is rewritten whole at each change */
    BW_KEY_WORDS_MAX = 64
};

typedef struct bw_keys bw_keys;

typedef struct bw_words {
    const bw_str *items;
    size_t n;
} bw_words;

typedef struct bw_key_record {
    bw_str id;
    bw_str principal, tenant, seat;
    uint32_t clearance;
    bw_words roles;
    bw_words purposes;      /* claimable */
    bw_str default_purpose; /* none = the caller has no purpose unless it says one */
    bw_words safeguards;    /* claimable: facts that an administrator recorded */
    bw_str labels;          /* JSON text of the default label set, or none */
    int64_t created_ns, revoked_ns; /* 0 = not revoked */
} bw_key_record;

/* Makes secrets/keys and an empty keys.json in the data folder. */
BW_MUST_USE bw_status bw_keys_create(bw_ctx *ctx, const char *dir);
/* Refuses a secret file that is missing, short or open to others. */
BW_MUST_USE bw_status bw_keys_open(bw_ctx *ctx, const char *dir, bw_keys **out);
void bw_keys_close(bw_keys *k); /* NULL is accepted */

/* A record from a JSON object: principal, tenant, seat, clearance, roles, purposes,
 * default_purpose, safeguards, labels. Unknown members are refused; borrows from it. */
BW_MUST_USE bw_status bw_key_record_parse(bw_ctx *ctx, const bw_json *object,
                                          bw_key_record *out);
void bw_key_record_put(bw_buf *out,
                       const bw_key_record *r); /* as JSON, without the hash */

/* Durable before it returns. text gets the key: wipe it after it was shown. */
BW_MUST_USE bw_status bw_keys_add(bw_ctx *ctx, bw_keys *k, const bw_key_record *r,
                                  char text[BW_KEY_TEXT + 1], char id[BW_KEY_ID + 1]);
/* BW_ENOTFOUND; revoking again is fine. */
BW_MUST_USE bw_status bw_keys_revoke(bw_ctx *ctx, bw_keys *k, bw_str id);
BW_MUST_USE bw_status bw_keys_list(bw_ctx *ctx, bw_keys *k, const bw_key_record **out,
                                   size_t *n);
/* The record of a presented key, copied to ctx's arena. BW_EDENIED when it is none of
 * ours or revoked: the same message for both. */
BW_MUST_USE bw_status bw_keys_verify(bw_ctx *ctx, bw_keys *k, bw_str presented,
                                     bw_key_record *out);
#endif
