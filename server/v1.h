/* What the /v1 handlers share. Private to v1_*.c. Unknown members are refused here (our
 * own routes); errors carry the JSON pointer of the field. */
#ifndef BW_V1_H
#define BW_V1_H
#include "gate_request.h"
#include "limits.h"

/* The body as an object whose members are all among `allowed` (ended by NULL). */
BW_MUST_USE bw_status bw_v1_body(bw_request *r, const char *const *allowed,
                                 const bw_json **out);
BW_MUST_USE bw_status bw_v1_members(bw_ctx *ctx, const bw_json *object,
                                    const char *const *allowed);
/* A string member; absent or null leaves *out. */
BW_MUST_USE bw_status bw_v1_string(bw_ctx *ctx, const bw_json *object, const char *name,
                                   bw_str *out);
/* A list of strings, sorted, unique; absent or null leaves *out. */
BW_MUST_USE bw_status bw_v1_strings(bw_ctx *ctx, const bw_json *object,
                                    const char *name, bw_words *out);
/* Required string member of lo … hi bytes; a 400 with its pointer else. */
BW_MUST_USE bw_status bw_v1_text(bw_ctx *ctx, const bw_json *body, const char *name,
                                 size_t lo, size_t hi, bw_str *out);
/* Unsigned member in lo … hi; absent leaves *out. */
BW_MUST_USE bw_status bw_v1_number(bw_ctx *ctx, const bw_json *o, const char *name,
                                   uint32_t lo, uint32_t hi, uint32_t *out);
BW_MUST_USE bw_status bw_v1_flag(bw_ctx *ctx, const bw_json *o, const char *name,
                                 bool *out);
/* {"id","country","operator","certs","hw"}: what is absent is none. */
BW_MUST_USE bw_status bw_v1_place(bw_ctx *ctx, const bw_json *object, bw_place *out);
void bw_v1_put_place(bw_buf *b, const char *key, const bw_place *p);
BW_MUST_USE bw_status
bw_v1_done(bw_request *r, bw_response *response); /* BW_ENOMEM if the body failed */

BW_MUST_USE bw_status bw_v1_need_policies(bw_request *r); /* BW_ECONFLICT: --dev has none */
bw_status bw_v1_policies_get(bw_request *r, bw_response *out);
bw_status bw_v1_policies_put(bw_request *r, bw_response *out);
bw_status bw_v1_policies_dry_run(bw_request *r, bw_response *out);
bw_status bw_v1_entities_get(bw_request *r, bw_response *out);
bw_status bw_v1_entities_put(bw_request *r, bw_response *out);
bw_status bw_v1_policies_replay(bw_request *r, bw_response *out);
bw_status bw_v1_authorize(bw_request *r, bw_response *out);
bw_status bw_v1_classes(bw_request *r, bw_response *out);
bw_status bw_v1_collections(bw_request *r, bw_response *out);
bw_status bw_v1_collection_put(bw_request *r, bw_response *out);
bw_status bw_v1_collection_seal(bw_request *r, bw_response *out);
bw_status bw_v1_keys_list(bw_request *r, bw_response *out);
bw_status bw_v1_keys_add(bw_request *r, bw_response *out);
bw_status bw_v1_keys_revoke(bw_request *r, bw_response *out);
bw_status bw_v1_audit(bw_request *r, bw_response *out);
bw_status bw_v1_whoami(bw_request *r, bw_response *out);
bw_status bw_metrics(bw_request *r, bw_response *out);

/* A key whose words nobody knows would only ever be denied: refused when it is made. */
BW_MUST_USE bw_status bw_v1_key_check(bw_ctx *ctx, const bw_catalogue *c,
                                      const bw_json *body, const bw_key_record *k);

/* One question of authorize or the dry run:
 * {"principal":{…key record…},"action","labels":{…} | "collection": name | "cell":true,
 *  "purpose"?,"safeguards"?,"dest"?:{id,country,operator,certs,hw}}; the dry run's also has
 * "at" (a place) and "now". */
typedef struct bw_v1_question {
    bw_question q;
    bw_principal principal;
    bw_place dest, at;
    bw_str label_text; /* canonical; none: kind and name say what */
    bw_class_id class_id;
    const char *kind; /* "Collection", "Node" */
    bw_str tenant, name;
} bw_v1_question;
BW_MUST_USE bw_status bw_v1_question_parse(bw_ctx *ctx, const bw_catalogue *catalogue,
                                           const bw_json *v, const bw_caller *self,
                                           bw_str cell_id, bw_v1_question *out);
/* fn for every copy of every point that matches, page by page; an error of it ends the walk. */
BW_MUST_USE bw_status bw_v1_each_point(bw_request *r, const bw_read *read,
                                       const bw_filter *filter,
                                       bw_status (*fn)(void *arg, const bw_hit *hit),
                                       void *arg);
/* The error of before, with a pointer that begins at this one. */
BW_MUST_USE bw_status bw_v1_within(bw_ctx *ctx, bw_status s, const char *where);
/* Whether the action is one on what the question is about; BW_EINVALID tells what it wants. */
BW_MUST_USE bw_status bw_v1_question_fits(bw_ctx *ctx, const bw_v1_question *q);
/* By these policies; a collection may be named by an alias. */
BW_MUST_USE bw_status bw_v1_decide(bw_request *r, bw_authority *a, const bw_v1_question *q,
                                   bw_decision *d);
void bw_v1_put_decision(bw_buf *b, const bw_decision *d); /* members, no braces */
#endif
