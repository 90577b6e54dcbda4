/* POST /v1/ingest: a document in, its chunks as points in one transaction.
 *
 *   body -> collection, or the description of one to make -> base labels, Store for them
 *   child process loads -> labels raised by rules and detectors -> Store and Embed
 *   what the collection holds of this source -> unchanged? done
 *   chunks -> vectors -> collection made, if asked -> one bw_write: upserts, deletes of
 *   what is left over
 *
 * dry_run goes as far as what is there of the source and tells what would be done: the
 * same decisions, no class made known, no collection, nothing encoded, nothing written.
 *
 * A document is opened by nobody who may not store its base labels, and kept under the
 * raised ones alone. Idempotent by content and class: the digest in the payload says
 * that nothing has to be done. What the caller cannot see of the
 * source counts as absent, like everywhere; what it sees in another class and may not
 * remove makes the call a 451.
 *
 * Locks: one of `turns` (64, by source), held around the last look and the write; the
 * engine's own are taken inside.
 *
 * Left out: fetching (we fetch no URL), attachments, documents longer than a body. */
#include "../engine/base/map.h"
#include "v1_ingest_private.h"
#include <pthread.h>

enum { OLD_POINTS_MAX = 1 << 20 };

typedef bw_v1__ingest ingest;

const bw_route bw_routes_ingest[] = {
    {"POST", "/v1/ingest", bw_v1_ingest, BW_ROUTE_KEY, BW_ACTION_STORE, BW_FAMILY_V1,
     true, false},
    {"POST", "/v1/query", bw_v1_query, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1,
     false, false},
    {"POST", "/v1/relabel", bw_v1_relabel, BW_ROUTE_KEY, BW_ACTION_RELABEL,
     BW_FAMILY_V1, true, false},
    {NULL, NULL, NULL, BW_ROUTE_KEY, BW_ACTION_QUERY, BW_FAMILY_V1, false, false},
};

/* ---- the collection ---- */

bw_status bw_v1_encoder(bw_request *r, const bw_collection_info *info,
                        const bw_encoder **out)
{
    const bw_encoder *e = bw_server_encoder(r->server);
    if (!e)
        return bw_fail(r->ctx, BW_ECONFLICT,
                       "this cell has no encoder (model.folder in its configuration)");
    const bw_vector_spec *v = bw_qdrant__spec(info, BW_STR(""));
    if (!v || v->sparse || v->dim != bw_encoder_dim(e))
        return bw_fail(
            r->ctx, BW_ECONFLICT,
            "the collection has no unnamed vector of %u values, which the cell's "
            "encoder makes",
            bw_encoder_dim(e));
    bw_str model = bw_encoder_model(e);
    bw_qdrant_parse p = {.ctx = r->ctx, .info = info};
    bw_status s = bw_qdrant__model(&p, model, &model);
    *out = e;
    return s;
}

/* The encoder's size, cosine, the unnamed vector, bound to the model. */
static bw_status describe_collection(ingest *x)
{
    bw_request *r = x->r;
    const bw_encoder *e = bw_server_encoder(r->server);
    if (!e)
        return bw_fail(x->ctx, BW_ECONFLICT,
                       "this cell has no encoder (model.folder in its configuration)");
    bw_status s = bw_gate_manage(r, x->source.collection);
    if (s)
        return s;
    bw_str model = bw_encoder_model(e);
    const char *text = bw_arena_printf(
        x->ctx,
        "{\"vectors\":{\"size\":%u,\"distance\":\"Cosine\"},\"metadata\":"
        "{\"_model\":\"%.*s\"}}",
        bw_encoder_dim(e), (int)model.len, model.ptr);
    bw_qdrant_parse p = {.ctx = x->ctx};
    bw_qdrant_schema schema;
    const bw_json *body;
    s = text ? bw_qdrant__body(&p, bw_str_c(text), &body) : bw_fail_nomem(x->ctx);
    if (!s)
        s = bw_qdrant__create(&p, body, &schema);
    if (s)
        return s;
    x->info = (bw_collection_info){.tenant = x->source.tenant,
                                   .name = x->source.collection,
                                   .vectors = schema.vectors,
                                   .nvectors = schema.nvectors,
                                   .settings = schema.settings};
    x->unmade = true;
    return BW_OK;
}

/* Made only when its first points are ready to be written: what is refused before
 * leaves no collection behind. With an index on the source, which every later call asks
 * for. Another request may have been faster, with another shape. */
static bw_status make_collection(ingest *x)
{
    static const bw_index_spec index = {.field = {"metadata.source", 15},
                                        .type = {"keyword", 7}};
    bw_engine *engine = bw_server_engine(x->r->server);
    bw_str tenant = x->info.tenant, name = x->info.name;
    bw_status s = bw_collection_create(x->ctx, engine, &x->info);
    if (!s)
        s = bw_collection_index_put(x->ctx, engine, tenant, name, &index);
    else if (s == BW_EEXISTS)
        s = BW_OK;
    if (!s)
        s = bw_gate_access(x->r, name, &x->info, &x->access);
    return s ? s : bw_v1_encoder(x->r, &x->info, &x->encoder);
}

static bw_status find_collection(ingest *x)
{
    bw_permit permit;
    bw_status s =
        bw_gate_permit(x->r, x->source.collection, BW_ACTION_QUERY, &x->info, &permit);
    if (s != BW_ENOTFOUND || !x->create)
        return s;
    return describe_collection(x);
}

/* ---- labels ---- */

static bw_rule_subject subject_of(const ingest *x)
{
    return (bw_rule_subject){.tenant = x->source.tenant,
                             .collection = x->source.collection,
                             .source = x->source.source,
                             .media = x->media,
                             .metadata = x->metadata,
                             .nmetadata = x->nmetadata};
}

static bw_status begin_labels(ingest *x)
{
    bw_rule_subject about = subject_of(x);
    if (x->r->server->config.dev)
        return bw_gate_class(x->r, &x->info, x->labels, &x->source.class_id);
    return bw_labelling_begin(x->r, &x->info, x->labels, &about, &x->labelling);
}

static bw_status try_labels(ingest *x, const bw_rule_subject *about)
{
    bw_status s = bw_labelling_try(x->r, &x->info, about, &x->labelling);
    if (!s)
        s = bw_labels_canonical(x->ctx, &x->labelling.labels, &x->canonical);
    if (!s)
        bw_labels_class_id(x->canonical, &x->source.class_id);
    return s;
}

static bw_status end_labels(ingest *x, const bw_document *d)
{
    bw_rule_subject about = subject_of(x);
    about.has_text = true;
    about.text = d->text;
    about.title = d->title;
    if (x->r->server->config.dev)
        return BW_OK;
    return x->dry_run ? try_labels(x, &about)
                      : bw_labelling_end(x->r, &x->info, &about, &x->labelling,
                                         &x->source.class_id);
}

/* ---- what is there of the source ---- */

static bool same_content(const ingest *x, const bw_hit *hit, const bw_json *metadata)
{
    const bw_json *digest = bw_json_get(metadata, "digest");
    return bw_class_id_cmp(&hit->class_id, &x->source.class_id) == 0 && digest &&
           digest->kind == BW_JSON_STRING && bw_str_eq(digest->str, x->source.digest);
}

static bw_status note_old(void *arg, const bw_hit *hit)
{
    ingest *x = arg;
    bw_json *payload;
    if (x->nold == x->cap_old) {
        size_t cap = x->cap_old ? 2 * x->cap_old : 256;
        bw_point_id *p =
            cap <= OLD_POINTS_MAX
                ? bw_arena_grow(x->ctx, x->old, x->nold * sizeof *p, cap * sizeof *p)
                : NULL;
        if (!p)
            return bw_fail_nomem(x->ctx);
        x->old = p;
        x->cap_old = cap;
    }
    x->old[x->nold++] = hit->id;
    bw_status s = bw_json_parse(x->ctx, hit->payload, BW_QDRANT_JSON, &payload);
    if (s)
        return s == BW_EINVALID
                   ? bw_fail(x->ctx, BW_ECORRUPT, "a stored payload is no JSON")
                   : s;
    const bw_json *metadata = bw_json_get(payload, "metadata");
    if (same_content(x, hit, metadata)) {
        x->old_same++;
        (void)bw_json_u64(bw_json_get(metadata, "chunks"), &x->old_chunks);
    }
    return BW_OK;
}

static bw_status find_old(ingest *x)
{
    bw_value value = {.kind = BW_VALUE_STRING, .str = x->source.source};
    bw_condition is_source = {.kind = BW_COND_MATCH_VALUE,
                              .key = BW_STR("metadata.source"),
                              .values = &value,
                              .nvalues = 1};
    bw_filter filter = {.must = &is_source, .nmust = 1};
    bw_read read = {
        .tenant = x->source.tenant, .name = x->info.name, .permit = &x->access.read};
    return bw_v1_each_point(x->r, &read, &filter, note_old, x);
}

/* ---- the write ---- */

static bw_action denied_action(const ingest *x, const bw_class_id *id)
{
    if (!bw_permit_has(&x->access.store, id))
        return BW_ACTION_STORE;
    return bw_permit_has(&x->access.remove, id) ? BW_ACTION_RELABEL : BW_ACTION_DELETE;
}

/* What n chunks leave over of the points that are there. */
static bw_status left_over(ingest *x, size_t n, bw_point_id **out, size_t *nout)
{
    bw_map *fresh = bw_map_new();
    bw_point_id *gone = bw_arena_calloc(x->ctx, x->nold + 1, sizeof *gone);
    bw_status s = fresh && gone ? BW_OK : bw_fail_nomem(x->ctx);
    bool unused;
    for (size_t i = 0; i < n && !s; i++) {
        bw_point_id id;
        bw_source_point_id(&x->source, (uint32_t)i, &id);
        if (!bw_map_put(fresh, &id, sizeof id, &unused))
            s = bw_fail_nomem(x->ctx);
    }
    *nout = 0;
    for (size_t i = 0; i < x->nold && !s; i++)
        if (!bw_map_get(fresh, &x->old[i], sizeof x->old[i]))
            gone[(*nout)++] = x->old[i];
    bw_map_free(fresh);
    *out = gone;
    return s;
}

static bw_status write_points(ingest *x, const bw_point *points, size_t n,
                              size_t *ndeleted)
{
    bw_point_id *gone;
    bw_status s = left_over(x, n, &gone, ndeleted);
    bw_op ops[2] = {{.kind = BW_OP_DELETE, .ids = gone, .nids = (uint32_t)*ndeleted},
                    {.kind = BW_OP_UPSERT, .points = points, .npoints = (uint32_t)n}};
    size_t first = *ndeleted ? 0 : 1, nops = 2 - first - (n ? 0 : 1);
    if (s || nops == 0)
        return s;
    bw_write_result result = {0};
    s = bw_write(x->ctx, bw_server_engine(x->r->server), x->source.tenant, x->info.name,
                 &x->access, ops + first, nops, &result);
    if (s == BW_EDENIED)
        return bw_gate_denied(x->r, &result.denied_class,
                              denied_action(x, &result.denied_class));
    for (size_t i = 0; i < n && !s; i++)
        bw_audit_add_id(x->r->audit, &points[i].id, &points[i].class_id);
    return s;
}

static bw_status answer(ingest *x, bw_response *out, const bw_document *d, size_t n,
                        size_t deleted, bool unchanged)
{
    char hex[BW_CLASS_TEXT + 1];
    bw_buf *b = &out->body;
    bw_class_id_hex(&x->source.class_id, hex);
    bw_buf_puts(b, "{\"source\":");
    bw_json_put_str(b, x->source.source);
    bw_buf_printf(b,
                  ",\"unchanged\":%s,\"chunks\":%zu,\"deleted\":%zu,\"class\":\"%s\","
                  "\"digest\":\"%.*s\"",
                  unchanged ? "true" : "false", n, deleted, hex,
                  (int)x->source.digest.len, x->source.digest.ptr);
    if (x->dry_run)
        bw_buf_puts(b, ",\"dry_run\":true");
    bw_buf_puts(b, ",\"title\":");
    if (d->title.len)
        bw_json_put_str(b, d->title);
    else
        bw_buf_puts(b, "null");
    bw_buf_printf(b, ",\"removed_characters\":%u,\"warning\":", d->removed);
    if (d->warning.len)
        bw_json_put_str(b, d->warning);
    else
        bw_buf_puts(b, n ? "null" : "\"the document holds no text\"");
    bw_str labels = x->canonical;
    bw_status s = labels.len ? BW_OK
                             : bw_gate_label_text(x->r, &x->source.class_id, &labels);
    bw_json_put_key(b, "labels");
    bw_buf_str(b, s ? BW_STR("null") : labels);
    if (x->labelling.from) {
        bw_json_put_key(b, "labelled");
        bw_labelling_put(&x->labelling, b);
    }
    bw_buf_putc(b, '}');
    return s ? s : bw_v1_done(x->r, out);
}

/* Two calls for one source at once must not leave chunks of both: from the last look at
 * what is there to the write, calls for sources of one slot take turns. The slot is by
 * (tenant, collection, source): a source may move from class to class. */
enum { TURNS = 64 };
static pthread_mutex_t turns[TURNS];
static pthread_once_t turns_once = PTHREAD_ONCE_INIT;

static void make_turns(void)
{
    for (size_t i = 0; i < TURNS; i++)
        bw_require(pthread_mutex_init(&turns[i], NULL) == 0);
}

static pthread_mutex_t *turn_of(const bw_source *s)
{
    bw_source any_class = *s;
    bw_point_id id;
    memset(&any_class.class_id, 0, sizeof any_class.class_id);
    bw_source_point_id(&any_class, 0, &id);
    bw_require(pthread_once(&turns_once, make_turns) == 0);
    return &turns[id.lo % TURNS];
}

static bw_status replace(ingest *x, const bw_point *points, size_t n, size_t *ndeleted)
{
    pthread_mutex_t *turn = turn_of(&x->source);
    x->nold = x->old_same = 0;
    bw_require(pthread_mutex_lock(turn) == 0);
    bw_status s = x->unmade ? make_collection(x) : BW_OK;
    if (!s)
        s = find_old(x);
    if (!s)
        s = write_points(x, points, n, ndeleted);
    bw_require(pthread_mutex_unlock(turn) == 0);
    return s;
}

/* A document that cannot be read is a 422: the request was well formed. */
static bw_status load(ingest *x, bw_document *d, const bw_chunk **chunks, size_t *n)
{
    bw_status s = bw_document_load(x->ctx, x->media, x->bytes, d);
    if (!s)
        s = bw_document_chunk(x->ctx, d, &x->chunk, chunks, n);
    if (!s && *n > BW_LIMIT_POINTS)
        s = bw_fail(x->ctx, BW_EINVALID, "the document gives more than %d chunks",
                    BW_LIMIT_POINTS);
    return s;
}

/* The class is known: may its text go to the encoder (this cell; no purpose is claimed
 * yet, so none is put before the policies), and what may the caller touch? */
static bw_status decide(ingest *x)
{
    bw_status s = x->dry_run ? bw_gate_decide_unknown(x->r, BW_ACTION_EMBED,
                                                      &x->source.class_id, x->canonical)
                             : bw_gate_decide(x->r, BW_ACTION_EMBED, &x->source.class_id);
    if (!s && !x->unmade)
        s = bw_gate_access(x->r, x->source.collection, &x->info, &x->access);
    if (!s && x->subject.ptr)
        s = bw_gate_subject(x->r, x->subject, &x->source.facts.subject);
    if (s)
        return s;
    x->source.facts.model = bw_encoder_model(x->encoder);
    s = bw_source_digest(x->ctx, x->bytes, x->media, x->encoder, &x->chunk, &x->source,
                         &x->source.digest);
    return !s && !x->unmade ? find_old(x) : s;
}

static bw_status run(ingest *x, bw_response *out)
{
    bw_document d;
    const bw_chunk *chunks = NULL;
    const bw_point *points = NULL;
    size_t n = 0, deleted = 0;
    bw_status s = begin_labels(x);
    if (!s)
        s = load(x, &d, &chunks, &n);
    if (!s)
        s = end_labels(x, &d);
    if (s == BW_EINVALID)
        out->status = 422;
    if (!s)
        s = decide(x);
    if (s)
        return s;
    if (x->nold && x->old_same == x->nold && x->old_chunks == x->nold)
        return answer(x, out, &d, x->nold, 0, true);
    if (x->dry_run) {
        bw_point_id *gone;
        s = left_over(x, n, &gone, &deleted);
        return s ? s : answer(x, out, &d, n, deleted, false);
    }
    s = bw_points_build(x->ctx, x->encoder, &x->source, &d, chunks, n, &points);
    if (!s)
        s = replace(x, points, n, &deleted);
    return s ? s : answer(x, out, &d, n, deleted, false);
}

bw_status bw_v1_ingest(bw_request *r, bw_response *out)
{
    ingest x = {
        .r = r, .ctx = r->ctx, .source = {.tenant = r->caller->principal.tenant}};
    bw_status s = bw_v1_ingest__body(&x);
    if (!s)
        s = find_collection(&x);
    if (s == BW_EDENIED)
        out->status = 403; /* the caller may not make collections */
    if (s)
        return s;
    x.source.collection = x.info.name; /* it may have come by an alias */
    s = bw_v1_encoder(r, &x.info, &x.encoder);
    return s ? s : run(&x, out);
}
