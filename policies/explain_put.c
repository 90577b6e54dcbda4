/* An explanation as JSON (explain.h). */
#include "../engine/base/json.h"
#include "explain.h"

static void put_str(bw_buf *b, const char *key, bw_str s)
{
    bw_json_put_key(b, key);
    bw_json_put_str(b, s);
}

static void put_part(bw_buf *b, const bw_explained_part *p)
{
    bw_json_sep(b);
    bw_buf_printf(b, "{\"clause\":\"%s\",\"condition\":",
                  p->clause < 0 ? "scope"
                  : p->unless   ? "unless"
                                : "when");
    bw_json_put_str(b, p->text);
    bw_json_put_key(b, "is");
    bw_buf_puts(b, p->failed ? "\"error\"" : p->truth ? "true" : "false");
    if (p->error)
        put_str(b, "error", bw_str_c(p->error));
    bw_buf_puts(b, ",\"values\":{");
    for (size_t i = 0; i < p->nvalues; i++) {
        bw_json_sep(b);
        bw_json_put_str(b, p->values[i].path);
        bw_buf_putc(b, ':');
        if (p->values[i].text.ptr)
            bw_json_put_str(b, p->values[i].text);
        else
            bw_buf_puts(b, "null");
    }
    bw_buf_puts(b, "}}");
}

static void put_policy(bw_buf *b, const bw_explained_policy *p)
{
    bw_json_sep(b);
    bw_buf_puts(b, "{\"policy\":");
    bw_json_put_str(b, p->name);
    put_str(b, "effect", p->forbid ? BW_STR("forbid") : BW_STR("permit"));
    put_str(b, "why", bw_str_c(p->why));
    if (p->text.ptr)
        put_str(b, "text", p->text);
    if (p->source.ptr)
        put_str(b, "source", p->source);
    bw_buf_puts(b, ",\"conditions\":[");
    for (size_t i = 0; i < p->nparts; i++)
        put_part(b, &p->parts[i]);
    bw_buf_puts(b, p->cut ? "],\"more\":true}" : "]}");
}

static void put_set(bw_buf *b, const bw_explanation *e, size_t at)
{
    static const char *const verbs[] = {"set", "add", "remove"};
    bw_json_sep(b);
    bw_buf_putc(b, '[');
    for (uint32_t k = 0; k < e->sets[at].n; k++) {
        const bw_change *c = &e->sets[at].changes[k];
        bw_json_sep(b);
        bw_buf_printf(b, "{\"fact\":\"%s\",\"%s\":", bw_fact_name(c->fact),
                      verbs[c->verb]);
        bw_json_put_str(b, c->value);
        put_str(b, "by", bw_str_c(e->who[at * BW_EXPLAIN_CHANGES_CAP + k]));
        bw_buf_putc(b, '}');
    }
    bw_buf_putc(b, ']');
}

static void put_search(bw_buf *b, const bw_explanation *e)
{
    bw_buf_printf(b, ",\"search\":{\"tried\":%u,\"changes_at_most\":%u,\"complete\":%s",
                  e->tried, e->changes_max, e->complete ? "true" : "false");
    if (e->nsets == 0)
        bw_buf_printf(b,
                      ",\"says\":\"no change of at most %u facts among those that the "
                      "failing conditions read turns it\"",
                      e->changes_max);
    bw_buf_putc(b, '}');
}

void bw_explanation_put(bw_buf *b, const bw_explanation *e)
{
    put_str(b, "decision", e->decision.allow ? BW_STR("allow") : BW_STR("deny"));
    bw_json_put_strs(b, "policies", e->decision.policies, e->decision.npolicies);
    bw_json_put_strs(b, "errors", e->decision.errors, e->decision.nerrors);
    bw_buf_puts(b, ",\"because\":[");
    for (size_t i = 0; i < e->npolicies; i++)
        put_policy(b, &e->policies[i]);
    bw_buf_putc(b, ']');
    if (e->decision.allow || e->changes_max == 0)
        return;
    bw_buf_puts(b, ",\"changes\":[");
    for (size_t i = 0; i < e->nsets; i++)
        put_set(b, e, i);
    bw_buf_putc(b, ']');
    put_search(b, e);
}
