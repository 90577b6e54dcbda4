/* Questions as keys and as Cedar entities (question.h). */
#include "question.h"
#include "authority.h"

#include <pthread.h>
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

/* ---- keys: every text with its length, so that fields cannot run together ---- */

typedef struct writer { /* into the key itself; what does not fit is hashed, whole */
    bw_answer_key *key;
    bool spilled;
    crypto_generichash_state state;
} writer;

static void spill(writer *w)
{
    if (!w->spilled)
        bw_require(crypto_generichash_init(&w->state, NULL, 0, 32) == 0);
    w->spilled = true;
    bw_require(crypto_generichash_update(&w->state, w->key->bytes, w->key->n) == 0);
    w->key->n = 0;
}

static void put(writer *w, const void *p, size_t n)
{
    if (n > sizeof w->key->bytes - w->key->n) {
        spill(w);
        if (n > sizeof w->key->bytes) {
            bw_require(crypto_generichash_update(&w->state, p, n) == 0);
            return;
        }
    }
    if (n)
        memcpy(w->key->bytes + w->key->n, p, n);
    w->key->n += (uint32_t)n;
}

static void put_u64(writer *w, uint64_t v)
{
    put(w, &v, sizeof v);
}

static void put_u32(writer *w, size_t v)
{
    bw_require(v <= UINT32_MAX);
    uint32_t u = (uint32_t)v;
    put(w, &u, sizeof u);
}

static void put_str(writer *w, bw_str s)
{
    put_u32(w, s.len);
    put(w, s.ptr, s.len);
}

static void put_strs(writer *w, const bw_str *s, size_t n)
{
    put_u32(w, n);
    for (size_t i = 0; i < n; i++)
        put_str(w, s[i]);
}

static void put_place(writer *w, const bw_place *p)
{
    put_u32(w, p != NULL);
    if (!p)
        return;
    put_str(w, p->id);
    put_str(w, p->country);
    put_str(w, p->operator_id);
    put_strs(w, p->certs, p->ncerts);
    put_strs(w, p->hw, p->nhw);
}

static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void hash_start(void)
{
    randombytes_buf(hash_key, sizeof hash_key);
}

/* Keyed anew in each process: nobody can choose what shares a bucket or a shard. */
static uint64_t keyed_hash(const void *p, size_t n)
{
    uint64_t h;
    static_assert(crypto_shorthash_BYTES == sizeof h, "SipHash-2-4 gives 64 bits");
    pthread_once(&hash_once, hash_start);
    crypto_shorthash((unsigned char *)&h, p, n, hash_key);
    return h;
}

uint64_t bw_question__owner(bw_str tenant)
{
    return keyed_hash(tenant.ptr, tenant.len);
}

static void finish(writer *w, bw_str tenant)
{
    bw_answer_key *k = w->key;
    if (w->spilled) { /* a length that no key written out in full has */
        spill(w);
        bw_require(crypto_generichash_final(&w->state, k->bytes, 32) == 0);
        k->n = 32;
    }
    k->hash = keyed_hash(k->bytes, k->n);
    k->owner = bw_question__owner(tenant);
}

static void put_topic(writer *w, const bw_topic *t)
{
    put_u32(w, t->kind);
    switch (t->kind) {
    case BW_TOPIC_CLASS:
        put(w, t->class_id->bytes, sizeof t->class_id->bytes);
        break;
    case BW_TOPIC_CLASSES:
        put_u64(w, t->directory);
        break;
    case BW_TOPIC_COLLECTION:
        put_str(w, t->tenant);
        put_str(w, t->name);
        break;
    case BW_TOPIC_NODE:
        break;
    }
}

void bw_question__key(const bw_question *q, const bw_topic *topic, uint64_t stamp,
                      bw_answer_key *out)
{
    const bw_principal *p = q->principal;
    BW_UNSET writer w; /* its hash state is seldom needed */
    w.key = out;
    w.spilled = false;
    out->n = 0;
    put_u64(&w, stamp);
    put_topic(&w, topic);
    put_u32(&w, q->action);
    put_str(&w, p->id);
    put_str(&w, p->tenant);
    put_str(&w, p->seat);
    put_u32(&w, p->clearance);
    put_strs(&w, p->roles, p->nroles);
    put_str(&w, q->purpose);
    put_strs(&w, q->safeguards, q->nsafeguards);
    put_place(&w, q->dest);
    put_place(&w, q->at);
    if (bw_stamp__reads_now(stamp)) /* as fine as a policy can see it */
        put_u64(&w, (uint64_t)(q->now_ns / 1000000));
    finish(&w, p->tenant);
}

void bw_class__key(const bw_class_id *id, bw_str tenant, bw_answer_key *out)
{
    memcpy(out->bytes, id->bytes, sizeof id->bytes);
    memcpy(&out->hash, id->bytes, sizeof out->hash);
    out->n = sizeof id->bytes;
    out->owner = bw_question__owner(tenant);
}

/* ---- Cedar entities: fields in the order of their names, which need no sorting then ----
 */

static bw_cedar_field texts(const char *name, const bw_str *s, size_t n)
{
    return (bw_cedar_field){.name = bw_str_c(name),
                            .kind = BW_CEDAR_FIELD_STRINGS,
                            .texts = s,
                            .n = n};
}

static bw_cedar_field number(const char *name, bw_cedar_field_kind kind, int64_t v)
{
    return (bw_cedar_field){.name = bw_str_c(name), .kind = kind, .number = v};
}

static bw_cedar_field ref(const char *name, bw_str type, const bw_str *id)
{
    return (bw_cedar_field){.name = bw_str_c(name),
                            .kind = BW_CEDAR_FIELD_ENTITY,
                            .type = type,
                            .texts = id,
                            .n = 1};
}

static bw_cedar_field text(const char *name, const bw_str *s)
{
    return (bw_cedar_field){.name = bw_str_c(name),
                            .kind = BW_CEDAR_FIELD_STRING,
                            .texts = s,
                            .n = 1};
}

static bw_cedar_entity node_entity(const bw_place *p, bw_cedar_field f[4])
{
    f[0] = texts("certs", p->certs, p->ncerts);
    f[1] = ref("country", BW_STR("Bw::Country"), &p->country);
    f[2] = texts("hw", p->hw, p->nhw);
    f[3] = ref("operator", BW_STR("Bw::LegalEntity"), &p->operator_id);
    return (bw_cedar_entity){
        .uid = {BW_STR("Bw::Node"), p->id}, .fields = f, .nfields = 4};
}

static bw_cedar_entity identity_entity(const bw_principal *p,
                                       bw_cedar_field f[3])
{
    f[0] = number("clearance", BW_CEDAR_FIELD_LONG, p->clearance);
    f[1] = ref("seat", BW_STR("Bw::Country"), &p->seat);
    f[2] = ref("tenant", BW_STR("Bw::Tenant"), &p->tenant);
    return (bw_cedar_entity){.uid = {BW_STR("Bw::Identity"), p->id},
                             .fields = f,
                             .nfields = 3,
                             .parent_type = BW_STR("Bw::Role"),
                             .parents = p->roles,
                             .nparents = p->nroles};
}

static bw_cedar_entity collection_entity(const bw_collection_name *c,
                                         bw_cedar_field f[2])
{
    f[0] = ref("tenant", BW_STR("Bw::Tenant"), &c->tenant);
    f[1] = text("name", &c->name);
    return (bw_cedar_entity){
        .uid = {BW_STR("Bw::Collection"), c->id}, .fields = f, .nfields = 2};
}

static bw_cedar_entity class_entity(const char *hex, const bw_labels *l,
                                    bw_cedar_field f[8])
{
    f[0] = ref("tenant", BW_STR("Bw::Tenant"), &l->tenant);
    f[1] = texts("regimes", l->regimes.items, l->regimes.n);
    f[2] = (bw_cedar_field){.name = BW_STR("residency"),
                            .kind = BW_CEDAR_FIELD_ENTITIES,
                            .type = BW_STR("Bw::Zone"),
                            .texts = l->residency.items,
                            .n = l->residency.n};
    f[3] = number("sensitivity", BW_CEDAR_FIELD_LONG, l->sensitivity);
    f[4] = texts("categories", l->categories.items, l->categories.n);
    f[5] = texts("labels", l->labels.items, l->labels.n);
    f[6] = texts("purposes", l->purposes.items, l->purposes.n);
    f[7] = number("legalHold", BW_CEDAR_FIELD_BOOL, l->legal_hold);
    return (bw_cedar_entity){.uid = {BW_STR("Bw::DataClass"), bw_str_c(hex)},
                             .fields = f,
                             .nfields = 8};
}

size_t bw_class__entity_bytes(const char *hex, const bw_labels *labels)
{
    bw_cedar_field f[8];
    bw_cedar_entity e = class_entity(hex, labels, f);
    return bw_cedar_entities_bytes(&e, 1, NULL);
}

bw_status bw_class__entity(bw_ctx *ctx, const bw_cedar_schema *schema, const char *hex,
                           const bw_labels *labels, const bw_cedar_entities *with,
                           void *block, bw_cedar_entities **out)
{
    bw_cedar_field f[8];
    bw_cedar_entity e = class_entity(hex, labels, f);
    return bw_cedar_entities_make(ctx, schema, &e, 1, with, block, out);
}

/* What is known about this cell comes from its configuration, not from a caller: its
 * own place is in the large store already. */
bw_status bw_question__entities(bw_ctx *ctx, const bw_cedar_schema *schema,
                                const bw_question *q, const bw_place *here,
                                const bw_collection_name *collection,
                                const bw_cedar_entities *with, bw_cedar_entities **out)
{
    BW_UNSET bw_cedar_field who[3], places[2][4], named[2];
    BW_UNSET bw_cedar_entity list[4];
    size_t n = 0;
    const bw_place *at = q->at ? q->at : here;
    const bw_place *dest = bw_action__moves(q->action) && q->dest ? q->dest : at;
    list[n++] = identity_entity(q->principal, who);
    if (!bw_str_eq(at->id, here->id))
        list[n++] = node_entity(at, places[0]);
    if (!bw_str_eq(dest->id, here->id) && !bw_str_eq(dest->id, at->id))
        list[n++] = node_entity(dest, places[1]);
    if (collection)
        list[n++] = collection_entity(collection, named);
    return bw_cedar_entities_make(ctx, schema, list, n, with, NULL, out);
}

bw_status bw_question__context(bw_ctx *ctx, const bw_question *q, const bw_place *here,
                               bool reads_now, const bw_cedar_value **out)
{
    const bw_place *at = q->at ? q->at : here, *dest = q->dest ? q->dest : at;
    BW_UNSET bw_cedar_field f[5];
    size_t n = 0;
    f[n++] = ref("at", BW_STR("Bw::Node"), &at->id);
    if (bw_action__moves(q->action))
        f[n++] = ref("dest", BW_STR("Bw::Node"), &dest->id);
    if (reads_now)
        f[n++] = number("now", BW_CEDAR_FIELD_DATETIME, q->now_ns / 1000000);
    f[n++] = text("purpose", &q->purpose);
    f[n++] = texts("safeguards", q->safeguards, q->nsafeguards);
    return bw_cedar_context_make(ctx, f, n, out);
}
