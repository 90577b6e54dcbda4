/* Writes: upsert, delete, payload and vector calls, and batches of them (contract,
 * section 5.4; items 3, 6, 11).
 *
 * One request is one bw_write, so a batch is all or nothing. Every point's class comes
 * from the labels that it came with, else from the key's or the collection's defaults
 * (bw_gate_class, which decides Store): a point without any is a 422 that names
 * `_labels`, one that may not be stored here a 451. What the caller may change of what
 * is there already is decided by the four sets of bw_access, inside the engine's
 * transaction. The write is durable before the answer whatever `wait` says; without it
 * the answer says "acknowledged", as clients expect. */
#include "labelling.h"
#include "qdrant.h"
#include "server.h"

/* The points of an upsert are ours until bw_write: the parser allocated them. */
static bw_status classify(bw_qdrant_call *c, bw_op *op, const bw_qdrant_labels *labels)
{
    bw_point *points = (bw_point *)op->points;
    bool detect = bw_str_is(c->r->server->config.labels_detect, "all");
    for (uint32_t i = 0; i < op->npoints; i++) {
        bw_status s = detect ? bw_labelling_point(c->r, &c->info, labels->given[i],
                                                  points[i].text, &points[i].class_id)
                             : bw_gate_class(c->r, &c->info, labels->given[i],
                                             &points[i].class_id);
        if (s == BW_EINVALID)
            c->p.status = 422;
        if (s == BW_OK && points[i].facts.subject.ptr)
            s = bw_gate_subject(c->r, points[i].facts.subject,
                                &points[i].facts.subject);
        if (s != BW_OK)
            return s;
    }
    return BW_OK;
}

static bw_status upsert_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    bw_qdrant_labels labels;
    bw_status s = bw_qdrant__upsert(&c->p, body, op, &labels);
    return s == BW_OK ? classify(c, op, &labels) : s;
}

/* Which action was denied: the class is outside the set that some operation needs. */
static bw_action denied_action(const bw_access *access, const bw_op *ops, size_t n,
                               const bw_class_id *id)
{
    bool changes = false;
    for (size_t i = 0; i < n; i++)
        changes |= ops[i].kind != BW_OP_DELETE;
    if (changes && !bw_permit_has(&access->store, id))
        return BW_ACTION_STORE;
    if (!bw_permit_has(&access->remove, id))
        return BW_ACTION_DELETE;
    return BW_ACTION_RELABEL;
}

static void put_result(bw_qdrant_call *c, const bw_op *op, const uint64_t *changed)
{
    bw_buf *b = &c->response->body;
    bw_buf_puts(b, "{\"operation_id\":0,\"status\":");
    bw_buf_puts(b, c->wait ? "\"completed\"" : "\"acknowledged\"");
    if (changed &&
        op->kind == BW_OP_DELETE) { /* only what the caller could see and delete */
        bw_json_put_key(b, "points_deleted");
        bw_json_put_u64(b, *changed);
    }
    bw_buf_putc(b, '}');
}

static bw_status write_ops(bw_qdrant_call *c, const bw_access *access, const bw_op *ops,
                           size_t n, bool list)
{
    bw_write_result result = {0};
    bw_status s = bw_write(c->p.ctx, bw_server_engine(c->r->server), c->info.tenant,
                           c->info.name, access, ops, n, &result);
    if (s == BW_EDENIED)
        return bw_gate_denied(c->r, &result.denied_class,
                              denied_action(access, ops, n, &result.denied_class));
    if (s != BW_OK)
        return bw_qdrant__engine_failed(c, s);
    bw_buf *b = &c->response->body;
    bw_qdrant__open(c->response);
    if (list)
        bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            bw_buf_putc(b, ',');
        put_result(c, &ops[i], list ? NULL : &result.points_changed);
    }
    if (list)
        bw_buf_putc(b, ']');
    return bw_qdrant__close(c->p.ctx, c->response);
}

typedef bw_status (*op_reader)(bw_qdrant_call *c, const bw_json *body, bw_op *op);

static bw_status delete_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__delete(&c->p, body, op);
}
static bw_status set_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__set_payload(&c->p, body, BW_OP_SET_PAYLOAD, op);
}
static bw_status overwrite_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__set_payload(&c->p, body, BW_OP_OVERWRITE_PAYLOAD, op);
}
static bw_status delete_payload_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__delete_payload(&c->p, body, op);
}
static bw_status clear_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__clear_payload(&c->p, body, op);
}
static bw_status update_vectors_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__update_vectors(&c->p, body, op);
}
static bw_status delete_vectors_op(bw_qdrant_call *c, const bw_json *body, bw_op *op)
{
    return bw_qdrant__delete_vectors(&c->p, body, op);
}

/* The call of one operation. */
static bw_status one(bw_request *r, bw_response *response, op_reader read)
{
    bw_qdrant_call c;
    bw_permit readable;
    bw_access access;
    bw_op op;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &readable);
    if (s == BW_OK)
        s = read(&c, c.body, &op);
    if (s == BW_OK) /* after the body: the classes that it names are candidates too */
        s = bw_qdrant__access(&c, &access);
    return bw_qdrant__end(&c, s == BW_OK ? write_ops(&c, &access, &op, 1, false) : s);
}

bw_status bw_qdrant_points_upsert(bw_request *r, bw_response *response)
{
    return one(r, response, upsert_op);
}
bw_status bw_qdrant_points_delete(bw_request *r, bw_response *response)
{
    return one(r, response, delete_op);
}
bw_status bw_qdrant_payload_set(bw_request *r, bw_response *response)
{
    return one(r, response, set_op);
}
bw_status bw_qdrant_payload_overwrite(bw_request *r, bw_response *response)
{
    return one(r, response, overwrite_op);
}
bw_status bw_qdrant_payload_delete(bw_request *r, bw_response *response)
{
    return one(r, response, delete_payload_op);
}
bw_status bw_qdrant_payload_clear(bw_request *r, bw_response *response)
{
    return one(r, response, clear_op);
}
bw_status bw_qdrant_vectors_update(bw_request *r, bw_response *response)
{
    return one(r, response, update_vectors_op);
}
bw_status bw_qdrant_vectors_delete(bw_request *r, bw_response *response)
{
    return one(r, response, delete_vectors_op);
}

/* ---- points/batch ---- */

static const struct {
    const char *word;
    op_reader read;
} batch_words[] = {
    {"upsert", upsert_op},
    {"delete", delete_op},
    {"set_payload", set_op},
    {"overwrite_payload", overwrite_op},
    {"delete_payload", delete_payload_op},
    {"clear_payload", clear_op},
    {"update_vectors", update_vectors_op},
    {"delete_vectors", delete_vectors_op},
};

static bw_status batch_op(bw_qdrant_call *c, const bw_json *node, bw_op *op)
{
    if (node->kind != BW_JSON_OBJECT || node->count != 1)
        return bw_qdrant__format(&c->p, node,
                                 "expected one operation, such as {\"upsert\": {…}}");
    for (size_t i = 0; i < sizeof batch_words / sizeof *batch_words; i++)
        if (bw_str_eq(node->child->key, bw_str_c(batch_words[i].word))) {
            if (node->child->kind != BW_JSON_OBJECT)
                return bw_qdrant__format(&c->p, node->child, "expected an object");
            return batch_words[i].read(c, node->child, op);
        }
    return bw_qdrant__format(&c->p, node->child, "unknown operation");
}

bw_status bw_qdrant_points_batch(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit readable;
    bw_access access;
    const bw_json *e = NULL;
    uint32_t n = 0;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &readable);
    if (s == BW_OK)
        s = bw_qdrant__list(&c.p, bw_json_get_value(c.body, "operations"), "operations",
                            BW_LIMIT_OPERATIONS, &e, &n);
    bw_op *ops = s == BW_OK ? bw_arena_calloc(r->ctx, n, sizeof *ops) : NULL;
    if (s == BW_OK && !ops)
        s = bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; s == BW_OK && i < n; i++, e = e->next)
        s = batch_op(&c, e, &ops[i]);
    if (s == BW_OK)
        s = bw_qdrant__access(&c, &access);
    return bw_qdrant__end(&c, s == BW_OK ? write_ops(&c, &access, ops, n, true) : s);
}
