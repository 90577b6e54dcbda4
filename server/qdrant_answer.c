/* The envelope and the points of an answer (contract, sections 1 and 2).
 *
 * `time` is the constant 0.0: how long a search took is no part of the answer (a caller
 * could read hidden data from it). Additions of ours that all clients let through: a
 * point's label set as `_labels` beside its payload (when payload is shown), `explain`
 * in the envelope. Payloads go out as the bytes that came in. */
#include "qdrant.h"

enum { CHECK_BYTES = 1 << 15 }; /* of an answer, between two looks at the time: the text of
                                   some 5,000 components of vectors, 100 microseconds */

void bw_qdrant__open(bw_response *response)
{
    bw_buf_puts(&response->body, "{\"result\":");
}

bw_status bw_qdrant__close(bw_ctx *ctx, bw_response *response)
{
    bw_buf_puts(&response->body, ",\"status\":\"ok\",\"time\":0.0}");
    return response->body.failed ? bw_fail_nomem(ctx) : BW_OK;
}

bw_status bw_qdrant__answer_true(bw_ctx *ctx, bw_response *response, bool value)
{
    bw_qdrant__open(response);
    bw_buf_puts(&response->body, value ? "true" : "false");
    return bw_qdrant__close(ctx, response);
}

/* ---- vectors ---- */

static void put_vector(bw_buf *b, const bw_vector *v)
{
    if (v->sparse) {
        bw_buf_puts(b, "{\"indices\":[");
        for (uint32_t i = 0; i < v->n; i++) {
            if (i)
                bw_buf_putc(b, ',');
            bw_json_put_u64(b, v->indices[i]);
        }
        bw_buf_puts(b, "],\"values\":");
    }
    bw_buf_putc(b, '[');
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            bw_buf_putc(b, ',');
        bw_json_put_f32(b, v->values[i]);
    }
    bw_buf_puts(b, v->sparse ? "]}" : "]");
}

static bool named(const bw_qdrant_show *show, bw_str name)
{
    for (uint32_t i = 0; show->names && i < show->nnames; i++)
        if (bw_str_eq(show->names[i], name))
            return true;
    return show->names == NULL;
}

/* A point with only the unnamed vector shows it as a bare list. */
static void put_vectors(bw_buf *b, const bw_hit *hit, const bw_qdrant_show *show)
{
    const bw_vector *only = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < hit->nvectors; i++)
        if (named(show, hit->vectors[i].name)) {
            only = &hit->vectors[i];
            n++;
        }
    if (n == 1 && only->name.len == 0 && !only->sparse) {
        put_vector(b, only);
        return;
    }
    bw_buf_putc(b, '{');
    for (uint32_t i = 0; i < hit->nvectors; i++) {
        if (!named(show, hit->vectors[i].name))
            continue;
        bw_json_sep(b);
        bw_json_put_str(b, hit->vectors[i].name);
        bw_buf_putc(b, ':');
        put_vector(b, &hit->vectors[i]);
    }
    bw_buf_putc(b, '}');
}

/* ---- points ---- */

static bw_status put_labels(bw_qdrant_call *c, bw_buf *b, const bw_class_id *id)
{
    if (!c->last_labels.ptr || bw_class_id_cmp(&c->last_class, id) != 0) {
        bw_status s = bw_gate_label_text(c->r, id, &c->last_labels);
        if (s != BW_OK)
            return s;
        c->last_class = *id;
    }
    bw_json_put_key(b, "_labels");
    bw_buf_str(b, c->last_labels);
    return BW_OK;
}

/* A date's is microseconds of Unix time (the planner's doing), as Qdrant counts them.
 */
static void put_order_value(bw_buf *b, const bw_number *v)
{
    bw_json_put_key(b, "order_value");
    if (!v->is_int) {
        bw_json_put_f64(b, v->real);
        return;
    }
    if (v->negative)
        bw_buf_putc(b, '-');
    bw_json_put_u64(b, v->mag);
}

bw_status bw_qdrant__put_hit(bw_qdrant_call *c, const bw_hit *hit,
                             bw_qdrant_hit_form form, const bw_qdrant_show *show)
{
    bw_buf *b = &c->response->body;
    bw_status s = BW_OK;
    bw_buf_puts(b, "{\"id\":");
    bw_json_put_point_id(b, &hit->id);
    if (form == BW_HIT_SCORED) {
        bw_json_put_key(b, "version");
        bw_json_put_u64(b, hit->version);
        bw_json_put_key(b, "score");
        bw_json_put_f32(b, hit->has_score ? hit->score : 1.0f);
    }
    if (show->payload) {
        bw_json_put_key(b, "payload");
        s = bw_qdrant__put_payload(c->p.ctx, b, hit->payload, show);
        if (s == BW_OK)
            s = put_labels(c, b, &hit->class_id);
    }
    if (show->vector) {
        bw_json_put_key(b, "vector");
        put_vectors(b, hit, show);
    }
    if (hit->has_order_value)
        put_order_value(b, &hit->order_value);
    bw_buf_putc(b, '}');
    bw_audit_add_id(c->r->audit, &hit->id, &hit->class_id);
    if (s == BW_OK && b->len > BW_LIMIT_ANSWER_BYTES)
        s = bw_qdrant__wrong(&c->p,
                             "the answer is longer than %d MiB; ask for fewer points",
                             BW_LIMIT_ANSWER_BYTES >> 20);
    return s;
}

bw_status bw_qdrant__put_hits(bw_qdrant_call *c, const bw_hit *hits, size_t n,
                              bw_qdrant_hit_form form, const bw_qdrant_show *show)
{
    bw_buf *b = &c->response->body;
    size_t looked = b->len; /* where the time was looked at last */
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            bw_buf_putc(b, ',');
        bw_status s = bw_qdrant__put_hit(c, &hits[i], form, show);
        if (s == BW_OK && b->len - looked > CHECK_BYTES) {
            looked = b->len;
            s = bw_ctx_check(c->p.ctx);
        }
        if (s != BW_OK)
            return s;
    }
    bw_buf_putc(b, ']');
    return BW_OK;
}

void bw_qdrant__put_value(bw_buf *b, const bw_value *v)
{
    if (v->kind == BW_VALUE_STRING) {
        bw_json_put_str(b, v->str);
    } else if (v->kind == BW_VALUE_BOOL) {
        bw_buf_puts(b, v->boolean ? "true" : "false");
    } else {
        if (v->negative)
            bw_buf_putc(b, '-');
        bw_json_put_u64(b, v->mag);
    }
}
