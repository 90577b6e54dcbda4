/* What a replay found, gathered and written: totals, reasons, turns. Sorted by key, never by
 * when something was met or by where a hash put it. */
#include "replay_run.h"
#include <sodium.h>
#include <stdlib.h>

typedef struct turn_row {
    replay_turn turn; /* all of it in mem */
    bw_str tenant, principal;
    uint64_t decisions, requests, first_seq, last_seq;
} turn_row;

typedef struct reason_row {
    uint64_t decisions, first_seq;
} reason_row;

typedef struct tally {
    uint64_t to_allow, to_deny;
} tally;

/* The value of a key, made zeroed in mem if it is new. NULL: no memory. */
static void *value_of(replay_run *r, bw_map *map, const void *key, size_t n, size_t bytes,
                      bool *fresh)
{
    *fresh = false;
    uint64_t *slot = bw_map_put(map, key, n, fresh);
    if (slot && !*slot)
        *slot = (uint64_t)(uintptr_t)bw_arena_calloc(r->mem, 1, bytes);
    return slot ? (void *)(uintptr_t)*slot : NULL;
}

bw_status replay_note_reason(replay_run *r, const replay_event *e, uint64_t decisions,
                             const char *reason)
{
    bool fresh;
    if (!bw_map_get(r->reasons, reason, strlen(reason)) &&
        bw_map_count(r->reasons) >= BW_REPLAY_REASONS_MAX)
        reason = "further reasons";
    reason_row *row =
        value_of(r, r->reasons, reason, strlen(reason), sizeof *row, &fresh);
    if (!row)
        return bw_fail_nomem(r->ctx);
    row->decisions += decisions;
    if (fresh)
        row->first_seq = e->seq;
    return BW_OK;
}

/* ---- turns ---- */

static void put_subject_key(bw_buf *b, const replay_subject *s)
{
    char hex[BW_CLASS_TEXT + 1];
    if (s->class_id) {
        bw_class_id_hex(s->class_id, hex);
        bw_buf_printf(b, "class\n%s", hex);
    } else {
        bw_buf_puts(b, strcmp(s->kind, "Collection") == 0 ? "collection\n" : "cell\n");
        bw_buf_str(b, s->name);
    }
}

static bw_status add_tally(replay_run *r, bw_map *map, bw_str key, bool allow)
{
    bool fresh;
    tally *t = value_of(r, map, key.ptr, key.len, sizeof *t, &fresh);
    if (!t)
        return bw_fail_nomem(r->ctx);
    t->to_allow += allow;
    t->to_deny += !allow;
    return BW_OK;
}

static bw_status add_tallies(replay_run *r, const replay_event *e, const replay_turn *t)
{
    bw_buf b = {0};
    bw_buf_str(&b, e->who.tenant);
    bw_buf_putc(&b, '\n');
    bw_buf_str(&b, e->who.id);
    bw_status s = b.failed ? bw_fail_nomem(r->ctx)
                           : add_tally(r, r->by_principal, bw_buf_view(&b), t->allow);
    b.len = 0;
    put_subject_key(&b, &t->about);
    if (s == BW_OK)
        s = b.failed ? bw_fail_nomem(r->ctx)
                     : add_tally(r, r->by_class, bw_buf_view(&b), t->allow);
    bw_buf_clear(&b);
    return s == BW_OK
               ? add_tally(r, r->by_action, bw_str_c(bw_action_name(t->action)), t->allow)
               : s;
}

static bw_status row_fill(replay_run *r, const replay_event *e, const replay_turn *t,
                          turn_row *row)
{
    row->turn = *t;
    row->first_seq = e->seq;
    if (t->about.class_id) {
        bw_class_id *id = bw_arena_alloc(r->mem, sizeof *id);
        if (!id)
            return bw_fail_nomem(r->ctx);
        *id = *t->about.class_id;
        row->turn.about.class_id = id;
    }
    const struct {
        bw_str from, *to;
    } texts[] = {{e->who.tenant, &row->tenant},
                 {e->who.id, &row->principal},
                 {t->about.name, &row->turn.about.name},
                 {t->about.labels, &row->turn.about.labels},
                 {t->policies, &row->turn.policies},
                 {t->errors, &row->turn.errors}};
    bw_status s = BW_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && s == BW_OK; i++)
        s = bw_arena_str(r->mem, texts[i].from, texts[i].to);
    return s == BW_OK ? s : bw_fail_nomem(r->ctx);
}

bw_status replay_note_turn(replay_run *r, replay_event *e, const replay_turn *t)
{
    bw_buf b = {0};
    bool fresh = false;
    bw_buf_str(&b, e->who.tenant);
    bw_buf_putc(&b, '\n');
    bw_buf_str(&b, e->who.id);
    bw_buf_printf(&b, "\n%02d\n", (int)t->action);
    put_subject_key(&b, &t->about);
    bw_buf_puts(&b, t->allow ? "\nallow\n" : "\ndeny\n");
    bw_buf_str(&b, t->policies);
    bw_buf_putc(&b, '\n');
    bw_buf_str(&b, t->errors);
    bw_status s = b.failed ? bw_fail_nomem(r->ctx) : add_tallies(r, e, t);
    e->changed = true;
    r->to_allow += t->allow;
    r->to_deny += !t->allow;
    bool full = bw_map_count(r->rows) >= BW_REPLAY_ROWS_MAX &&
                !bw_map_get(r->rows, b.ptr, b.len);
    r->rows_left_out += full;
    turn_row *row = NULL;
    if (s == BW_OK && !full) {
        row = value_of(r, r->rows, b.ptr, b.len, sizeof *row, &fresh);
        s = row ? BW_OK : bw_fail_nomem(r->ctx);
    }
    bw_buf_clear(&b);
    if (s == BW_OK && fresh)
        s = row_fill(r, e, t, row);
    if (s != BW_OK || !row)
        return s;
    row->decisions++;
    row->requests += row->last_seq != e->seq;
    row->last_seq = e->seq;
    return BW_OK;
}

/* ---- the report ---- */

typedef struct entry {
    bw_str key;
    void *value;
} entry;

static int by_key(const void *a, const void *b)
{
    return bw_str_cmp(((const entry *)a)->key, ((const entry *)b)->key);
}

static const entry *sorted(replay_run *r, const bw_map *map)
{
    size_t n = bw_map_count(map), i = 0;
    entry *list = bw_arena_calloc(r->mem, n + 1, sizeof *list);
    uint64_t *value;
    for (size_t it = 0; list && bw_map_next(map, &it, &list[i].key, &value); i++)
        list[i].value = (void *)(uintptr_t)*value;
    if (list && n > 0)
        qsort(list, n, sizeof *list, by_key);
    return list;
}

static void put_count(bw_buf *b, const char *name, uint64_t n)
{
    bw_json_put_key(b, name);
    bw_json_put_u64(b, n);
}

static void put_string(bw_buf *b, const char *name, bw_str s)
{
    bw_json_put_key(b, name);
    bw_json_put_str(b, s);
}

static bw_status put_reasons(replay_run *r, bw_buf *b)
{
    const entry *list = sorted(r, r->reasons);
    bw_json_put_key(b, "reasons");
    bw_buf_putc(b, '[');
    for (size_t i = 0; list && i < bw_map_count(r->reasons); i++) {
        const reason_row *row = list[i].value;
        bw_json_sep(b);
        bw_buf_putc(b, '{');
        put_string(b, "reason", list[i].key);
        put_count(b, "decisions", row->decisions);
        put_count(b, "first_seq", row->first_seq);
        bw_buf_putc(b, '}');
    }
    bw_buf_putc(b, ']');
    return list ? BW_OK : bw_fail_nomem(r->ctx);
}

static void put_subject(bw_buf *b, const replay_subject *s)
{
    char hex[BW_CLASS_TEXT + 1];
    if (s->class_id) {
        bw_class_id_hex(s->class_id, hex);
        put_string(b, "class", bw_str_c(hex));
    } else if (strcmp(s->kind, "Collection") == 0) {
        put_string(b, "collection", s->name);
    } else {
        bw_buf_puts(b, ",\"cell\":true");
    }
}

static void put_row(bw_buf *b, const turn_row *row)
{
    bw_json_sep(b);
    bw_buf_putc(b, '{');
    put_string(b, "tenant", row->tenant);
    put_string(b, "principal", row->principal);
    put_string(b, "action", bw_str_c(bw_action_name(row->turn.action)));
    put_subject(b, &row->turn.about);
    put_string(b, "turns", row->turn.allow ? BW_STR("allow") : BW_STR("deny"));
    put_string(b, "policies", row->turn.policies);
    put_string(b, "errors", row->turn.errors);
    put_count(b, "decisions", row->decisions);
    put_count(b, "requests", row->requests);
    put_count(b, "first_seq", row->first_seq);
    put_count(b, "last_seq", row->last_seq);
    bw_buf_putc(b, '}');
}

/* names: the members that the lines of a key are. */
static bw_status put_tallies(replay_run *r, bw_buf *b, const char *title, const bw_map *map,
                             const char *first, const char *second)
{
    const entry *list = sorted(r, map);
    bw_json_put_key(b, title);
    bw_buf_putc(b, '[');
    for (size_t i = 0; list && i < bw_map_count(map); i++) {
        const tally *t = list[i].value;
        bw_str key = list[i].key;
        const char *lf = second ? memchr(key.ptr, '\n', key.len) : NULL;
        size_t n = lf ? (size_t)(lf - key.ptr) : key.len;
        bw_json_sep(b);
        bw_buf_putc(b, '{');
        put_string(b, first, (bw_str){key.ptr, n});
        if (lf)
            put_string(b, second, (bw_str){lf + 1, key.len - n - 1});
        put_count(b, "to_allow", t->to_allow);
        put_count(b, "to_deny", t->to_deny);
        bw_buf_putc(b, '}');
    }
    bw_buf_putc(b, ']');
    return list ? BW_OK : bw_fail_nomem(r->ctx);
}

bw_status replay_candidate_put(replay_run *r, bw_buf *b)
{
    const entry *rows = sorted(r, r->rows);
    bw_buf_putc(b, '{');
    put_count(b, "allow", r->allow);
    put_count(b, "deny", r->deny);
    put_count(b, "to_allow", r->to_allow);
    put_count(b, "to_deny", r->to_deny);
    put_count(b, "requests_changed", r->requests_changed);
    bw_status s = put_tallies(r, b, "by_principal", r->by_principal, "tenant", "principal");
    if (s == BW_OK)
        s = put_tallies(r, b, "by_action", r->by_action, "action", NULL);
    if (s == BW_OK)
        s = put_tallies(r, b, "by_class", r->by_class, "kind", "name");
    bw_json_put_key(b, "turns");
    bw_buf_putc(b, '[');
    for (size_t i = 0; rows && i < bw_map_count(r->rows); i++)
        put_row(b, rows[i].value);
    bw_buf_putc(b, ']');
    put_count(b, "turns_left_out", r->rows_left_out);
    bw_buf_putc(b, '}');
    return rows ? s : bw_fail_nomem(r->ctx);
}

/* The label sets of the turns' classes, once each. */
bw_status replay_classes_put(replay_run *r, bw_buf *b)
{
    bw_map *seen = bw_map_new();
    bw_str key;
    uint64_t *value;
    bool fresh;
    bw_status s = seen ? BW_OK : bw_fail_nomem(r->ctx);
    for (size_t it = 0; s == BW_OK && bw_map_next(r->rows, &it, &key, &value);) {
        turn_row *row = (turn_row *)(uintptr_t)*value;
        const bw_class_id *id = row->turn.about.class_id;
        uint64_t *slot = id ? bw_map_put(seen, id->bytes, sizeof id->bytes, &fresh) : NULL;
        if (id && !slot)
            s = bw_fail_nomem(r->ctx);
        else if (slot)
            *slot = (uint64_t)(uintptr_t)&row->turn.about.labels;
    }
    const entry *list = s == BW_OK ? sorted(r, seen) : NULL;
    bw_json_put_key(b, "classes");
    bw_buf_putc(b, '{');
    for (size_t i = 0; list && i < bw_map_count(seen); i++) {
        char hex[BW_CLASS_TEXT + 1];
        const bw_str *labels = list[i].value;
        sodium_bin2hex(hex, sizeof hex, (const unsigned char *)list[i].key.ptr,
                       list[i].key.len);
        bw_json_put_key(b, hex);
        bw_buf_str(b, *labels);
    }
    bw_buf_putc(b, '}');
    bw_map_free(seen);
    return s == BW_OK && !list ? bw_fail_nomem(r->ctx) : s;
}

bw_status replay_report_put(replay_run *r, bw_buf *b)
{
    bw_buf_putc(b, '{');
    put_count(b, "requests", r->requests);
    put_count(b, "without_decisions", r->without);
    put_count(b, "decisions", r->decisions);
    put_count(b, "reproduced", r->reproduced);
    put_count(b, "not_reproduced", r->decisions - r->reproduced);
    put_count(b, "not_in_log", r->not_in_log);
    bw_status s = put_reasons(r, b);
    bw_json_put_key(b, "candidate");
    if (s == BW_OK && r->candidate)
        s = replay_candidate_put(r, b);
    else
        bw_buf_puts(b, "false");
    if (s == BW_OK)
        s = replay_classes_put(r, b);
    put_count(b, "from_seq", r->from_seq);
    put_count(b, "to_seq", r->to_seq);
    bw_buf_putc(b, '}');
    return s == BW_OK && b->failed ? bw_fail_nomem(r->ctx) : s;
}
