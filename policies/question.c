/* Questions as fingerprints and as Cedar JSON (question.h). */
#include "question.h"

#include <sodium.h>

static const char *const action_names[BW_ACTION_COUNT] = {
    "Query",  "Store", "Replicate", "Transfer",         "Export",    "Embed",
    "Delete", "Erase", "Relabel",   "ManageCollection", "ReadAudit", "Admin"};

const char *bw_action_name(bw_action a)
{
    return (unsigned)a < BW_ACTION_COUNT ? action_names[a] : "";
}

bool bw_action_parse(bw_str name, bw_action *out)
{
    for (int i = 0; i < BW_ACTION_COUNT; i++)
        if (bw_str_eq(name, bw_str_c(action_names[i]))) {
            *out = (bw_action)i;
            return true;
        }
    return false;
}

bool bw_action__moves(bw_action a)
{
    return a == BW_ACTION_STORE || a == BW_ACTION_REPLICATE ||
           a == BW_ACTION_TRANSFER || a == BW_ACTION_EXPORT || a == BW_ACTION_EMBED;
}

/* ---- fingerprints: every text with its length, so that fields cannot run together
 * ---- */

typedef struct hasher {
    crypto_generichash_state state;
    unsigned char
        pending[256]; /* few large updates: an update costs more than a copy */
    size_t n;
} hasher;

static void hash_flush(hasher *h)
{
    crypto_generichash_update(&h->state, h->pending, h->n);
    h->n = 0;
}

static void hash_bytes(hasher *h, const void *p, size_t n)
{
    if (n > sizeof h->pending - h->n) {
        hash_flush(h);
        if (n > sizeof h->pending) {
            crypto_generichash_update(&h->state, p, n);
            return;
        }
    }
    if (n)
        memcpy(h->pending + h->n, p, n);
    h->n += n;
}

static void hash_u64(hasher *h, uint64_t v)
{
    hash_bytes(h, &v, sizeof v);
}

static void hash_str(hasher *h, bw_str s)
{
    hash_u64(h, s.len);
    hash_bytes(h, s.ptr, s.len);
}

static void hash_strs(hasher *h, const bw_str *s, size_t n)
{
    hash_u64(h, n);
    for (size_t i = 0; i < n; i++)
        hash_str(h, s[i]);
}

static void hash_begin(hasher *h)
{
    crypto_generichash_init(&h->state, NULL, 0, 32);
    h->n = 0;
}

static void hash_end(hasher *h, uint8_t out[32])
{
    hash_flush(h);
    crypto_generichash_final(&h->state, out, 32);
}

static void hash_place(hasher *h, const bw_place *p)
{
    hash_u64(h, p != NULL);
    if (!p)
        return;
    hash_str(h, p->id);
    hash_str(h, p->country);
    hash_str(h, p->operator_id);
    hash_strs(h, p->certs, p->ncerts);
    hash_strs(h, p->hw, p->nhw);
}

void bw_question__fingerprint(const bw_question *q, uint64_t version, bool reads_now,
                              bw_fingerprint *out)
{
    const bw_principal *p = q->principal;
    hasher h;
    hash_begin(&h);
    hash_u64(&h, version);
    hash_u64(&h, (uint64_t)q->action);
    hash_str(&h, p->id);
    hash_str(&h, p->tenant);
    hash_str(&h, p->seat);
    hash_u64(&h, p->clearance);
    hash_strs(&h, p->roles, p->nroles);
    hash_str(&h, q->purpose);
    hash_strs(&h, q->safeguards, q->nsafeguards);
    hash_place(&h, q->dest);
    hash_place(&h, q->at);
    if (reads_now) /* as fine as a policy can see it: the answer expires with it */
        hash_u64(&h, (uint64_t)(q->now_ns / 1000000));
    hash_end(&h, out->bytes);
}

void bw_object__fingerprint(const char *kind, bw_str tenant, bw_str name,
                            bw_class_id *out)
{
    hasher h;
    hash_begin(&h);
    hash_str(&h, bw_str_c(kind));
    hash_str(&h, tenant);
    hash_str(&h, name);
    hash_end(&h, out->bytes);
}

/* ---- Cedar JSON ---- */

static void put_uid(bw_buf *b, const char *type, bw_str id)
{
    bw_buf_printf(b, "{\"type\":\"Bw::%s\",\"id\":", type);
    bw_json_put_str(b, id);
    bw_buf_putc(b, '}');
}

static void put_ref(bw_buf *b, const char *member, const char *type, bw_str id)
{
    if (member)
        bw_json_put_key(b, member);
    else
        bw_json_sep(b);
    bw_buf_puts(b, "{\"__entity\":");
    put_uid(b, type, id);
    bw_buf_putc(b, '}');
}

static void put_texts(bw_buf *b, const char *member, const bw_str *s, size_t n)
{
    bw_json_put_key(b, member);
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, s[i]);
    }
    bw_buf_putc(b, ']');
}

static void open_entity(bw_buf *b, const char *type, bw_str id)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"uid\":");
    put_uid(b, type, id);
    bw_buf_puts(b, ",\"attrs\":{");
}

void bw_entity__put_place(bw_buf *b, const bw_place *place)
{
    open_entity(b, "Node", place->id);
    put_ref(b, "country", "Country", place->country);
    put_ref(b, "operator", "LegalEntity", place->operator_id);
    put_texts(b, "certs", place->certs, place->ncerts);
    put_texts(b, "hw", place->hw, place->nhw);
    bw_buf_puts(b, "},\"parents\":[]}");
}

void bw_entity__put_principal(bw_buf *b, const bw_principal *p)
{
    open_entity(b, "Identity", p->id);
    put_ref(b, "tenant", "Tenant", p->tenant);
    put_ref(b, "seat", "Country", p->seat);
    bw_json_put_key(b, "clearance");
    bw_json_put_u64(b, p->clearance);
    bw_buf_puts(b, "},\"parents\":[");
    for (size_t i = 0; i < p->nroles; i++) {
        bw_json_sep(b);
        put_uid(b, "Role", p->roles[i]);
    }
    bw_buf_puts(b, "]}");
}

void bw_entity__put_class(bw_buf *b, const char *id, const bw_labels *l)
{
    open_entity(b, "DataClass", bw_str_c(id));
    put_ref(b, "tenant", "Tenant", l->tenant);
    put_texts(b, "regimes", l->regimes.items, l->regimes.n);
    bw_json_put_key(b, "residency");
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < l->residency.n; i++)
        put_ref(b, NULL, "Zone", l->residency.items[i]);
    bw_buf_putc(b, ']');
    bw_json_put_key(b, "sensitivity");
    bw_json_put_u64(b, l->sensitivity);
    put_texts(b, "categories", l->categories.items, l->categories.n);
    put_texts(b, "labels", l->labels.items, l->labels.n);
    put_texts(b, "purposes", l->purposes.items, l->purposes.n);
    bw_json_put_key(b, "legalHold");
    bw_buf_puts(b, l->legal_hold ? "true" : "false");
    bw_buf_puts(b, "},\"parents\":[]}");
}

void bw_entity__put_collection(bw_buf *b, bw_str id, bw_str tenant, bw_str name)
{
    open_entity(b, "Collection", id);
    put_ref(b, "tenant", "Tenant", tenant);
    bw_json_put_key(b, "name");
    bw_json_put_str(b, name);
    bw_buf_puts(b, "},\"parents\":[]}");
}

void bw_question__put_context(bw_buf *b, const bw_question *q, const bw_place *at,
                              bool reads_now)
{
    bw_buf_putc(b, '{');
    put_ref(b, "at", "Node", at->id);
    if (bw_action__moves(q->action))
        put_ref(b, "dest", "Node", q->dest ? q->dest->id : at->id);
    bw_json_put_key(b, "purpose");
    bw_json_put_str(b, q->purpose);
    put_texts(b, "safeguards", q->safeguards, q->nsafeguards);
    if (reads_now) {
        char text[40];
        int64_t ms = q->now_ns / 1000000;
        bw_time_format(ms / 1000 * 1000000000,
                       text); /* Cedar wants three digits or none */
        text[strlen(text) - 1] = 0;
        bw_json_put_key(b, "now");
        bw_buf_printf(b, "{\"__extn\":{\"fn\":\"datetime\",\"arg\":\"%s.%03dZ\"}}",
                      text, (int)(ms % 1000));
    }
    bw_buf_putc(b, '}');
}
