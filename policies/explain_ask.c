/* One decision of an explanation: a question with changes made, put before Cedar under
 * the snapshot that the explanation holds. The cache is not asked: it does not know
 * why. */
#include "explain_private.h"
#include "question.h"

typedef struct operator_writer {
    bw_buf *b;
    const bw_what_if *w;
    bw_str id, attribute;
} operator_writer;

static bw_str operator_of(const bw_what_if *w, const bw_change *c)
{
    return c->fact < BW_FACT_AT ? w->dest.operator_id : w->at.operator_id;
}

static void put_entity(bw_buf *b, const char *type, bw_str id)
{
    bw_buf_printf(b, "{\"__entity\":{\"type\":\"Bw::%s\",\"id\":", type);
    bw_json_put_str(b, id);
    bw_buf_puts(b, "}}");
}

static void put_changed(bw_buf *b, const bw_change *c)
{
    switch (bw_facts[c->fact].shape) {
    case BW_SHAPE_DECIMAL:
        bw_buf_puts(b, "{\"__extn\":{\"fn\":\"decimal\",\"arg\":");
        bw_json_put_str(b, c->value);
        bw_buf_puts(b, "}}");
        return;
    case BW_SHAPE_WORDS:
        bw_json_put_str(b, c->value);
        return;
    case BW_SHAPE_COUNTRY:
        put_entity(b, "Country", c->value);
        return;
    default:
        put_entity(b, bw_facts[c->fact].shape == BW_SHAPE_ZONES ? "Zone" : "Tenant",
                   c->value);
    }
}

/* The next change of the attribute from *i on. */
static const bw_change *next_change(const operator_writer *o, size_t *i)
{
    while (*i < o->w->noperators) {
        const bw_change *c = &o->w->operators[(*i)++];
        if (bw_str_eq(o->attribute, bw_str_c(bw_fact__attribute(c->fact))) &&
            bw_str_eq(operator_of(o->w, c), o->id))
            return c;
    }
    return NULL;
}

static void put_changed_list(operator_writer *o, const bw_cedar_value *old)
{
    bw_cedar_look l = bw_cedar_value_look(old);
    const bw_change *c;
    bw_buf_putc(o->b, '[');
    for (uint32_t i = 0; l.kind == BW_CEDAR_SET && i < l.n; i++) {
        const bw_cedar_value *item = bw_cedar_value_item(old, i);
        bool stays = true;
        for (size_t k = 0; (c = next_change(o, &k)) != NULL;)
            stays = stays && !bw_str_eq(bw_cedar_value_look(item).text, c->value);
        if (!stays)
            continue;
        bw_json_sep(o->b);
        bw_cedar_value_json(o->b, item);
    }
    for (size_t k = 0; (c = next_change(o, &k)) != NULL;) {
        if (c->verb != BW_CHANGE_ADD)
            continue;
        bw_json_sep(o->b);
        put_changed(o->b, c);
    }
    bw_buf_putc(o->b, ']');
}

/* One attribute as it is, or as the changes make it. */
static void put_attribute(bw_str name, const bw_cedar_value *value, void *user)
{
    operator_writer *o = user;
    size_t i = 0;
    o->attribute = name;
    bw_json_sep(o->b);
    bw_json_put_str(o->b, name);
    bw_buf_putc(o->b, ':');
    const bw_change *c = next_change(o, &i);
    if (!c)
        bw_cedar_value_json(o->b, value);
    else if (c->verb == BW_CHANGE_SET)
        put_changed(o->b, c);
    else
        put_changed_list(o, value);
}

/* A store of the legal entities whose facts are changed, each once; NULL: none are. */
static bw_status operators_of(bw_explaining *x, const bw_what_if *w,
                              bw_cedar_entities **out)
{
    bw_buf b = {0};
    bw_json *list;
    bw_str text;
    if (w->noperators == 0)
        return BW_OK;
    bw_buf_putc(&b, '[');
    for (size_t i = 0; i < w->noperators; i++) {
        bw_str id = operator_of(w, &w->operators[i]);
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && !bw_str_eq(operator_of(w, &w->operators[k]), id);
        if (!first)
            continue;
        operator_writer o = {.b = &b, .w = w, .id = id};
        bw_cedar_uid uid = {BW_STR("Bw::LegalEntity"), id};
        bw_json_sep(&b);
        bw_buf_puts(&b, "{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":");
        bw_json_put_str(&b, id);
        bw_buf_puts(&b, "},\"parents\":[],\"attrs\":{");
        bw_cedar_entity_attributes(x->now.entities, &uid, put_attribute, &o);
        bw_buf_puts(&b, "}}");
    }
    bw_buf_putc(&b, ']');
    bw_status st = b.failed ? bw_fail_nomem(x->scratch)
                            : bw_arena_str(x->scratch, bw_buf_view(&b), &text);
    bw_buf_clear(&b);
    if (st == BW_OK)
        st = bw_json_parse(x->scratch, text, BW_JSON_CEDAR, &list);
    return st == BW_OK ? bw_cedar_entities_parse(x->scratch, list, x->now.schema, out)
                       : st;
}

/* ---- a place that the entities know ---- */

typedef struct place_reader {
    bw_ctx *ctx;
    bw_place *place;
    bw_status status;
} place_reader;

static void read_words(place_reader *r, const bw_cedar_value *set, const bw_str **items,
                       size_t *n)
{
    uint32_t count = bw_cedar_value_look(set).n;
    bw_str *list = bw_arena_calloc(r->ctx, count + 1, sizeof *list);
    if (!list) {
        r->status = bw_fail_nomem(r->ctx);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        list[i] = bw_cedar_value_look(bw_cedar_value_item(set, i)).text;
    *items = list;
    *n = count;
}

static void read_attribute(bw_str name, const bw_cedar_value *v, void *user)
{
    place_reader *r = user;
    if (bw_str_is(name, "country"))
        r->place->country = bw_cedar_value_look(v).text;
    else if (bw_str_is(name, "operator"))
        r->place->operator_id = bw_cedar_value_look(v).text;
    else if (bw_str_is(name, "certs"))
        read_words(r, v, &r->place->certs, &r->place->ncerts);
    else if (bw_str_is(name, "hw"))
        read_words(r, v, &r->place->hw, &r->place->nhw);
}

static bw_status know_place(bw_explaining *x, bw_place *p)
{
    place_reader r = {x->scratch, p, BW_OK};
    bw_cedar_uid uid = {BW_STR("Bw::Node"), p->id};
    if (!p->country.ptr)
        bw_cedar_entity_attributes(x->now.entities, &uid, read_attribute, &r);
    return r.status;
}

/* ---- deciding ---- */

typedef struct topic { /* what is asked about, as Cedar names it */
    const char *type;
    bw_str id;
    bw_collection_name collection;
} topic;

/* The class's store, over the operators'; or the collection's name. */
static bw_status topic_of(bw_explaining *x, const bw_what_if *w, topic *out,
                          const bw_cedar_entities **with)
{
    const bw_explain_ask *ask = x->ask;
    if (w->has_labels) {
        bw_str text;
        bw_class_id id;
        bw_cedar_entities *class;
        char *hex = bw_arena_alloc(x->scratch, BW_CLASS_TEXT + 1);
        bw_labels again;
        bw_status st = hex ? bw_labels_canonical(x->scratch, &w->labels, &text)
                           : bw_fail_nomem(x->scratch);
        if (st == BW_OK) /* a change may leave what is no label set */
            st = bw_labels_from_canonical(x->scratch, text, &again);
        if (st != BW_OK)
            return st;
        bw_labels_class_id(text, &id);
        bw_class_id_hex(&id, hex);
        st = bw_class__entity(x->scratch, x->now.schema, hex, &w->labels, *with, NULL,
                              &class);
        *out = (topic){.type = "Bw::DataClass", .id = bw_str_c(hex)};
        *with = st == BW_OK ? class : NULL;
        return st;
    }
    if (strcmp(ask->kind, "Collection") == 0) {
        bw_str name = ask->name.ptr ? ask->name : BW_STR("");
        char *id = bw_arena_printf(x->scratch, "%.*s/%.*s", (int)ask->tenant.len,
                                   ask->tenant.ptr, (int)name.len, name.ptr);
        if (!id)
            return bw_fail_nomem(x->scratch);
        *out =
            (topic){"Bw::Collection", bw_str_c(id), {bw_str_c(id), ask->tenant, name}};
        return BW_OK;
    }
    *out = (topic){.type = "Bw::Node", .id = w->at.id};
    return BW_OK;
}

static bw_status decide(bw_explaining *x, bw_asked *out)
{
    const bw_what_if *w = &out->facts;
    bw_question q = {.principal = &w->who,
                     .action = w->action,
                     .purpose = w->purpose,
                     .safeguards = w->safeguards,
                     .nsafeguards = w->nsafeguards,
                     .at = &w->at,
                     .dest = w->has_dest ? &w->dest : NULL,
                     .now_ns = w->now_ns};
    const bw_cedar_value *context;
    const bw_cedar_entities *with;
    bw_cedar_entities *extra;
    topic about;
    bw_status st = operators_of(x, w, &out->operators);
    with = out->operators;
    if (st == BW_OK)
        st = topic_of(x, w, &about, &with);
    if (st == BW_OK)
        st = bw_question__entities(x->scratch, x->now.schema, &q, x->now.at,
                                   about.collection.id.ptr ? &about.collection : NULL,
                                   with, &extra);
    if (st == BW_OK)
        st =
            bw_question__context(x->scratch, &q, x->now.at, x->now.reads_now, &context);
    if (st != BW_OK)
        return st;
    bw_cedar_request request = {
        .principal = {BW_STR("Bw::Identity"), w->who.id},
        .action = {BW_STR("Bw::Action"), bw_str_c(bw_action_name(w->action))},
        .resource = {bw_str_c(about.type), about.id},
        .context_value = context,
        .extra = extra};
    st = bw_cedar_authorize(x->scratch, x->now.policies, x->now.entities, x->now.schema,
                            &request, &out->answer);
    if (st == BW_OK)
        st = bw_cedar_trace_open(x->scratch, x->now.policies, x->now.entities,
                                 x->now.schema, &request, &out->trace);
    if (st == BW_OK)
        out->allow =
            out->answer.allow && !(out->answer.forbid_errored && !x->now.cedar_errors);
    return st;
}

bw_status bw_asked__ask(bw_explaining *x, const bw_change *changes, size_t n,
                        const bw_action *action, bw_asked *out)
{
    *out = (bw_asked){0};
    bw_ctx_reset(x->scratch);
    bw_status st = bw_ctx_check(x->ctx);
    if (st != BW_OK)
        return st;
    st = bw_what_if_make(x->scratch, x->ask, x->now.at, changes, n, &out->facts);
    if (action)
        out->facts.action = *action;
    if (st == BW_OK)
        st = know_place(x, &out->facts.at);
    if (st == BW_OK)
        st = know_place(x, &out->facts.dest);
    if (st == BW_OK)
        st = decide(x, out);
    if (st == BW_EINVALID || st == BW_ECORRUPT) { /* as decision.c: it denies */
        bw_asked__clear(out);
        *out = (bw_asked){.undecidable = true};
        return BW_OK;
    }
    if (st != BW_OK) {
        bw_asked__clear(out);
        return bw_ctx_take_error(x->ctx, x->scratch, st);
    }
    return BW_OK;
}

void bw_asked__clear(bw_asked *a)
{
    bw_cedar_entities_free(a->operators);
    a->operators = NULL;
}
