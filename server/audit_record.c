/* What one request leaves in the log: gathered while it runs, and written as the members
 * of its line (audit.c has the format). Every list has a cap and what is past it is counted. */
#include "../ingest/rules.h"
#include "audit_file.h"
#include <sodium.h>

void bw_audit_record_init(bw_audit_record *a, bw_ctx *ctx, const char *event)
{
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->event = event;
}

void bw_audit_record_clear(bw_audit_record *a)
{
    bw_buf_clear(&a->ids);
}

void bw_audit_add_permit(bw_audit_record *a, bw_action action, const uint8_t digest[16],
                         size_t n, const uint8_t *list, size_t named)
{
    static const uint8_t none[BW_LIST_DIGEST];
    const uint8_t *of = list ? list : none;
    for (size_t i = 0; i < a->npermits; i++)
        if (a->permits[i].action == action && a->permits[i].named == named &&
            memcmp(a->permits[i].list, of, BW_LIST_DIGEST) == 0 &&
            memcmp(a->permits[i].digest, digest, 16) == 0)
            return;
    if (a->npermits ==
        BW_AUDIT_PERMITS_MAX) { /* /v1/classes asks for each collection's */
        unsigned char link[16 + 1 + 16];
        memcpy(link, a->more_digest, 16);
        link[16] = (unsigned char)action;
        memcpy(link + 17, digest, 16);
        bw_require(crypto_generichash(a->more_digest, 16, link, sizeof link, NULL, 0) ==
                   0);
        a->more_permits++;
        return;
    }
    a->permits[a->npermits].action = action;
    memcpy(a->permits[a->npermits].digest, digest, 16);
    memcpy(a->permits[a->npermits].list, of, BW_LIST_DIGEST);
    a->permits[a->npermits].has_list = list != NULL;
    a->permits[a->npermits].named = (uint32_t)named;
    a->permits[a->npermits++].n = (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX);
}

/* "a, b" in the arena; "" when there are none, or no memory. */
static bw_str joined(bw_ctx *ctx, const bw_str *names, size_t n)
{
    bw_buf b = {0};
    bw_str kept = BW_STR("");
    for (size_t i = 0; i < n; i++) {
        bw_buf_puts(&b, i ? ", " : "");
        bw_buf_str(&b, names[i]);
    }
    if (b.failed || bw_arena_str(ctx, bw_buf_view(&b), &kept) != BW_OK)
        kept = BW_STR("");
    bw_buf_clear(&b);
    return kept;
}

void bw_audit_add_decision(bw_audit_record *a, bw_action action,
                           const bw_audit_subject *about, const bw_decision *d)
{
    bw_audit_decision *to = NULL;
    if (d->allow && a->nallowed < BW_AUDIT_ALLOWED_MAX)
        to = &a->allowed[a->nallowed++];
    else if (d->allow)
        a->more_allowed++;
    else if (a->ndenials < BW_AUDIT_DENIALS_MAX)
        to = &a->denials[a->ndenials++]; /* the first ones name the cause */
    if (!to)
        return;
    *to = (bw_audit_decision){action, *about, BW_STR(""), BW_STR("")};
    if (about->class_id) {
        bw_class_id *id = bw_arena_alloc(a->ctx, sizeof *id);
        if (id)
            *id = *about->class_id;
        to->about.class_id = id;
    }
    if (!d->allow)
        to->policies = joined(a->ctx, d->policies, d->npolicies);
    to->errors = joined(a->ctx, d->errors, d->nerrors);
}

void bw_audit_add_id(bw_audit_record *a, const bw_point_id *id,
                     const bw_class_id *class_id)
{
    if (!a)
        return;
    if (!a->ids_hash) {
        size_t want = crypto_generichash_statebytes();
        char *p = bw_arena_alloc(a->ctx, want + 64);
        if (!p)
            return; /* memory is out: the request fails on its own */
        a->ids_hash = p + (64 - ((uintptr_t)p & 63)) % 64;
        bw_require(crypto_generichash_init(a->ids_hash, NULL, 0, 16) == 0);
    }
    bw_require(crypto_generichash_update(
                   a->ids_hash, (const unsigned char *)class_id->bytes, 32) == 0);
    bw_require(crypto_generichash_update(a->ids_hash, (const unsigned char *)id,
                                         sizeof *id) == 0);
    if (a->nids < BW_AUDIT_IDS_MAX) {
        if (a->nids == 0 || bw_class_id_cmp(class_id, &a->ids_class) != 0) {
            bw_buf_puts(&a->ids, a->nids ? "]},{\"class\":\"" : "{\"class\":\"");
            bw_buf_hex(&a->ids, class_id->bytes, sizeof class_id->bytes);
            bw_buf_puts(&a->ids, "\",\"ids\":[");
            a->ids_class = *class_id;
        }
        bw_json_sep(&a->ids);
        bw_json_put_point_id(&a->ids, id);
    }
    a->nids++;
}

/* A string that a client chose: cut at a character's end, made valid UTF-8 by dropping
 * what is not. Control characters are escaped by the JSON writer. */
static void put_text(bw_buf *b, const char *name, bw_str s)
{
    if (!s.ptr || s.len == 0)
        return;
    size_t n = s.len < BW_AUDIT_TEXT_MAX ? s.len : BW_AUDIT_TEXT_MAX;
    while (n > 0 && n < s.len && ((unsigned char)s.ptr[n] & 0xC0) == 0x80)
        n--;
    bw_json_put_key(b, name);
    if (bw_utf8_valid(s.ptr, n)) {
        bw_json_put_str(b, (bw_str){s.ptr, n});
        return;
    }
    bw_buf_putc(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            bw_buf_putc(b, (char)c);
        else
            bw_buf_printf(b, "\\\\x%02x", c); /* reads back as \xNN */
    }
    bw_buf_putc(b, '"');
}

static void put_permits(bw_buf *b, const bw_audit_record *r)
{
    if (r->npermits > 0) {
        bw_json_put_key(b, "permitted");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->npermits; i++) {
            bw_buf_puts(b, i ? ",{\"action\":\"" : "{\"action\":\"");
            bw_buf_puts(b, bw_action_name(r->permits[i].action));
            bw_buf_puts(b, "\",\"set\":\"");
            bw_buf_hex(b, r->permits[i].digest, 16);
            bw_buf_puts(b, "\",\"classes\":");
            bw_json_put_u64(b, r->permits[i].n);
            if (r->permits[i].has_list) {
                bw_buf_puts(b, ",\"of\":\"");
                bw_buf_hex(b, r->permits[i].list, BW_LIST_DIGEST);
                bw_buf_putc(b, '"');
            }
            if (r->permits[i].named > 0) {
                bw_buf_puts(b, ",\"named\":");
                bw_json_put_u64(b, r->permits[i].named);
            }
            bw_buf_putc(b, '}');
        }
        bw_buf_putc(b, ']');
    }
    if (r->more_permits > 0) {
        bw_buf_puts(b, ",\"permitted_more\":{\"sets\":");
        bw_json_put_u64(b, r->more_permits);
        bw_buf_puts(b, ",\"digest\":\"");
        bw_buf_hex(b, r->more_digest, 16);
        bw_buf_puts(b, "\"}");
    }
}

static void put_class(bw_buf *b, const bw_class_id *id)
{
    bw_buf_putc(b, '"');
    bw_buf_hex(b, id->bytes, sizeof id->bytes);
    bw_buf_putc(b, '"');
}

static void put_decision(bw_buf *b, const bw_audit_decision *d, bool denied)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"action\":\"");
    bw_buf_puts(b, bw_action_name(d->action));
    bw_buf_putc(b, '"');
    if (d->about.class_id) {
        bw_buf_puts(b, ",\"class\":");
        put_class(b, d->about.class_id);
    } else if (d->about.kind && strcmp(d->about.kind, "Collection") == 0) {
        bw_json_put_key(b, "on"); /* even "": a list of collections is asked so */
        bw_json_put_str(b, d->about.name);
    } else if (d->about.kind) {
        bw_buf_puts(b, ",\"cell\":true");
    }
    if (d->about.labels.len > 0) {
        bw_json_put_key(b, "labels");
        bw_buf_str(b, d->about.labels);
    }
    if (d->about.no_purpose)
        bw_buf_puts(b, ",\"purpose\":\"\"");
    if (denied) {
        bw_json_put_key(b, "policies");
        bw_json_put_str(b, d->policies);
    }
    if (d->errors.len > 0) {
        bw_json_put_key(b, "errors");
        bw_json_put_str(b, d->errors);
    }
    bw_buf_putc(b, '}');
}

static void put_decisions(bw_buf *b, const bw_audit_record *r)
{
    put_permits(b, r);
    if (r->nnamed > 0) {
        bw_json_put_key(b, "named");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->nnamed; i++) {
            bw_json_sep(b);
            put_class(b, &r->named[i]);
        }
        bw_buf_putc(b, ']');
    }
    if (r->nallowed > 0) {
        bw_json_put_key(b, "allowed");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->nallowed; i++)
            put_decision(b, &r->allowed[i], false);
        bw_buf_putc(b, ']');
    }
    if (r->more_allowed > 0) {
        bw_json_put_key(b, "allowed_more");
        bw_json_put_u64(b, r->more_allowed);
    }
    if (r->ndenials > 0) {
        bw_json_put_key(b, "denied");
        bw_buf_putc(b, '[');
        for (size_t i = 0; i < r->ndenials; i++)
            put_decision(b, &r->denials[i], true);
        bw_buf_putc(b, ']');
    }
}

/* What the key proved when it was used: a record may be replaced later. */
static void put_who(bw_buf *b, const bw_principal *p)
{
    bw_json_put_key(b, "seat");
    bw_json_put_str(b, p->seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, p->clearance);
    bw_json_put_strs(b, "roles", p->roles, p->nroles);
}

static void put_labelling(bw_buf *b, const bw_audit_record *r)
{
    uint32_t any = 0;
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        any |= r->found[k];
    if (r->labelled.len > 0) {
        bw_json_put_key(b, "labelled");
        bw_buf_str(b, r->labelled);
    }
    if (r->relabelled.len > 0) {
        bw_json_put_key(b, "relabelled");
        bw_buf_str(b, r->relabelled);
    }
    if (any) {
        bw_json_put_key(b, "found");
        bw_detected_put(r->found, b);
    }
}

void bw_audit__put_members(bw_buf *b, const bw_audit_record *r)
{
    bw_json_put_key(b, "event");
    bw_json_put_str(b, bw_str_c(r->event));
    if (r->request_id) {
        char id[17];
        bw_u64_hex(r->request_id, id);
        bw_buf_puts(b, ",\"request\":\"");
        bw_buf_puts(b, id);
        bw_buf_putc(b, '"');
    }
    put_text(b, "key", r->key_id);
    put_text(b, "principal", r->principal);
    put_text(b, "tenant", r->tenant);
    if (r->who && strcmp(r->event, "begin") != 0) /* its request event says it */
        put_who(b, r->who);
    put_text(b, "method", r->method);
    if (r->pattern)
        put_text(b, "route", bw_str_c(r->pattern));
    else
        put_text(b, "path", r->path);
    put_text(b, "collection", r->collection);
    if (r->action)
        put_text(b, "action", bw_str_c(r->action));
    put_text(b, "purpose", r->purpose);
    if (r->nsafeguards > 0)
        bw_json_put_strs(b, "safeguards", r->safeguards, r->nsafeguards);
    put_decisions(b, r);
    put_labelling(b, r);
    if (r->policy_version) {
        bw_json_put_key(b, "policy_version");
        bw_json_put_u64(b, r->policy_version);
    }
    if (r->policy_version_end != 0 && r->policy_version_end != r->policy_version) {
        bw_json_put_key(b, "policy_version_end");
        bw_json_put_u64(b, r->policy_version_end);
    }
    put_text(b, "policies", r->policy_digest);
    put_text(b, "facts", r->facts_digest);
    put_text(b, "policies_end", r->policy_digest_end);
    put_text(b, "facts_end", r->facts_digest_end);
    put_text(b, "catalogue", r->catalogue_version);
    if (r->status) {
        bw_json_put_key(b, "status");
        bw_json_put_u64(b, (uint64_t)r->status);
    }
    if (r->folded > 1) {
        bw_json_put_key(b, "times");
        bw_json_put_u64(b, r->folded);
    }
    if (r->nids > 0) {
        unsigned char digest[16];
        crypto_generichash_state state;
        memcpy(&state, r->ids_hash, crypto_generichash_statebytes());
        bw_require(crypto_generichash_final(&state, digest, sizeof digest) == 0);
        bw_json_put_key(b, "returned");
        bw_json_put_u64(b, r->nids);
        bw_buf_puts(b, ",\"returned_digest\":\"");
        bw_buf_hex(b, digest, sizeof digest);
        bw_buf_putc(b, '"');
        bw_json_put_key(b, "ids");
        bw_buf_putc(b, '[');
        bw_buf_str(b, bw_buf_view(&r->ids));
        bw_buf_puts(b, "]}]");
    }
}
