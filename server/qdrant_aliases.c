/* Aliases: second names of collections, of the caller's tenant (contract, section 5.4;
 * item 12). Actions of one call are applied all or none, in order. */
#include "qdrant.h"

static bw_status alias_name(bw_qdrant_parse *p, const bw_json *object,
                            const char *field, bool fresh, bw_str *out)
{
    const bw_json *v = bw_json_get_value(object, field);
    const char *why;
    if (!v || v->kind != BW_JSON_STRING)
        return bw_qdrant__format(p, v ? v : object, "missing field `%s`", field);
    *out = v->str;
    if (fresh && !bw_qdrant__name_valid(v->str, &why))
        return bw_qdrant__wrong(p, "Alias name %s", why);
    return BW_OK;
}

static bw_status action(bw_qdrant_parse *p, const bw_json *node, bw_alias_action *out)
{
    const bw_json *v;
    bw_status s;
    *out = (bw_alias_action){0};
    if (node->kind != BW_JSON_OBJECT)
        return bw_qdrant__format(p, node,
                                 "expected create_alias, rename_alias or delete_alias");
    if ((v = bw_json_get_value(node, "create_alias"))) {
        out->kind = BW_ALIAS_CREATE;
        s = alias_name(p, v, "collection_name", false, &out->collection);
        return s == BW_OK ? alias_name(p, v, "alias_name", true, &out->alias) : s;
    }
    if ((v = bw_json_get_value(node, "rename_alias"))) {
        out->kind = BW_ALIAS_RENAME;
        s = alias_name(p, v, "old_alias_name", false, &out->alias);
        return s == BW_OK ? alias_name(p, v, "new_alias_name", true, &out->new_alias)
                          : s;
    }
    if ((v = bw_json_get_value(node, "delete_alias"))) {
        out->kind = BW_ALIAS_DELETE;
        return alias_name(p, v, "alias_name", false, &out->alias);
    }
    return bw_qdrant__format(p, node,
                             "expected create_alias, rename_alias or delete_alias");
}

static bool named(const bw_alias *list, size_t nlist, const bw_alias_action *actions,
                  uint32_t n, bw_str alias)
{
    for (uint32_t i = 0; i < n; i++)
        if ((actions[i].kind == BW_ALIAS_CREATE &&
             bw_str_eq(actions[i].alias, alias)) ||
            (actions[i].kind == BW_ALIAS_RENAME &&
             bw_str_eq(actions[i].new_alias, alias)))
            return true;
    for (size_t i = 0; i < nlist; i++)
        if (bw_str_eq(list[i].alias, alias))
            return true;
    return false;
}

/* The collection that an action touches: an alias's own is the list's; an alias that is
 * not there is asked about as if it were one. */
static bw_str touched(const bw_alias *list, size_t nlist, const bw_alias_action *a)
{
    if (a->kind == BW_ALIAS_CREATE)
        return a->collection;
    for (size_t i = 0; i < nlist; i++)
        if (bw_str_eq(list[i].alias, a->alias))
            return list[i].collection;
    return a->alias;
}

/* Every item is decided before any is applied. */
static bw_status decide(bw_qdrant_call *c, const bw_alias *list, size_t nlist,
                        const bw_alias_action *actions, uint32_t n)
{
    bw_status s = n == 0 ? bw_gate_manage(c->r, BW_STR("")) : BW_OK;
    for (uint32_t i = 0; s == BW_OK && i < n; i++)
        s = bw_gate_manage(c->r, touched(list, nlist, &actions[i]));
    if (s == BW_EDENIED)
        c->response->status = 403;
    return s;
}

/* To Qdrant deleting an alias that is not there is no error, and clients lean on it: a
 * switch of an alias is "delete, create", the first time as well. */
static uint32_t drop_idle_deletes(const bw_alias *list, size_t nlist,
                                  bw_alias_action *actions, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (actions[i].kind != BW_ALIAS_DELETE ||
            named(list, nlist, actions, kept, actions[i].alias))
            actions[kept++] = actions[i];
    return kept;
}

/* The engine says that something is absent or taken; the contract's words name it. */
static bw_status failed(bw_qdrant_call *c, bw_status status,
                        const bw_alias_action *actions, uint32_t n)
{
    bw_collection_info info;
    if (status == BW_EEXISTS)
        return bw_fail(c->p.ctx, status, "Wrong input: Alias name already exists!");
    if (status != BW_ENOTFOUND)
        return bw_qdrant__engine_failed(c, status);
    for (uint32_t i = 0; i < n; i++)
        if (actions[i].kind == BW_ALIAS_CREATE &&
            bw_collection_get(c->p.ctx, bw_server_engine(c->r->server),
                              c->r->caller->principal.tenant, actions[i].collection,
                              &info) == BW_ENOTFOUND)
            return bw_qdrant__no_collection(c->p.ctx, actions[i].collection);
    return bw_fail(c->p.ctx, status, "Not found: Alias doesn't exist!");
}

bw_status bw_qdrant_aliases_apply(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    const bw_json *e = NULL;
    const bw_alias *list;
    size_t nlist = 0;
    uint32_t n = 0;
    bw_status s = bw_qdrant__begin(&c, r, response, true);
    if (s == BW_OK)
        s = bw_qdrant__list(&c.p, bw_json_get_value(c.body, "actions"), "actions",
                            BW_LIMIT_ALIAS_ACTIONS, &e, &n);
    bw_alias_action *actions =
        s == BW_OK ? bw_arena_calloc(r->ctx, n, sizeof *actions) : NULL;
    if (s == BW_OK && !actions)
        s = bw_fail_nomem(r->ctx);
    for (uint32_t i = 0; s == BW_OK && i < n; i++, e = e->next)
        s = action(&c.p, e, &actions[i]);
    if (s == BW_OK)
        s = bw_alias_list(r->ctx, bw_server_engine(r->server),
                          r->caller->principal.tenant, &list, &nlist);
    if (s == BW_OK)
        s = decide(&c, list, nlist, actions, n);
    if (s == BW_OK) {
        n = drop_idle_deletes(list, nlist, actions, n);
        s = bw_alias_apply(r->ctx, bw_server_engine(r->server),
                           r->caller->principal.tenant, actions, n);
        if (s != BW_OK)
            s = failed(&c, s, actions, n);
    }
    return bw_qdrant__end(
        &c, s == BW_OK ? bw_qdrant__answer_true(r->ctx, response, true) : s);
}

/* only: the collection whose aliases are wanted; none: all. */
static bw_status answer(bw_request *r, bw_response *response, bw_str only)
{
    const bw_alias *list;
    size_t n;
    bw_buf *b = &response->body;
    bw_status s = bw_alias_list(r->ctx, bw_server_engine(r->server),
                                r->caller->principal.tenant, &list, &n);
    if (s != BW_OK)
        return s;
    bw_qdrant__open(response);
    bw_buf_puts(b, "{\"aliases\":[");
    for (size_t i = 0; i < n; i++) {
        if (only.ptr && !bw_str_eq(list[i].collection, only))
            continue;
        bw_json_sep(b);
        bw_buf_puts(b, "{\"alias_name\":");
        bw_json_put_str(b, list[i].alias);
        bw_buf_puts(b, ",\"collection_name\":");
        bw_json_put_str(b, list[i].collection);
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "]}");
    return bw_qdrant__close(r->ctx, response);
}

bw_status bw_qdrant_aliases_list(bw_request *r, bw_response *response)
{
    return answer(r, response, (bw_str){NULL, 0});
}

bw_status bw_qdrant_collection_aliases(bw_request *r, bw_response *response)
{
    bw_qdrant_call c;
    bw_permit permit;
    bw_status s = bw_qdrant__begin(&c, r, response, false);
    if (s == BW_OK)
        s = bw_qdrant__permit(&c, BW_ACTION_QUERY, &permit);
    return bw_qdrant__end(&c, s == BW_OK ? answer(r, response, c.info.name) : s);
}
