/* bailiwick eval: asks a running cell judged queries over /v1/query and says how good its
 * answers are, for one or more modes, with 95 % intervals over the queries (Student's t) and
 * paired differences between the first mode and the others.
 *
 * The forms are those of BEIR (Thakur et al. 2021): queries as JSON lines {"_id", "text"},
 * judgements as lines "query, tab, document, tab, gain" below one line of names. A document
 * is what ingest called its source; of several chunks the best counts, so a ranking is of
 * documents. Queries without a gain above 0 are left out and counted. Exit code: 0 done, 1
 * failed, 2 wrong use. */
#include "../engine/base/map.h"
#include "cli.h"
#include "client.h"
#include "files.h"
#include "harden.h"
#include "ranking.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    FILE_BYTES_MAX = 64 << 20,
    QUERIES_MAX = 100000,
    MODES_MAX = 3,
    K_MAX = 100,
    CHUNKS_A_DOCUMENT = 4 /* hits asked for, for each document that is wanted */
};

static const char usage[] =
    "Usage: bailiwick eval --queries FILE --qrels FILE --collection C [--mode M[,M…]] [--k N]\n"
    "                 [--prefix P] [--filter JSON] [--json] [--purpose P] [--url URL]\n"
    "                 [--key-file FILE] [--ca FILE]\n"
    "  --queries   JSON lines {\"_id\": …, \"text\": …}\n"
    "  --qrels     lines of query, tab, document, tab, gain; the first line is left out\n"
    "  --mode      dense, bm25, hybrid; the first is compared with the others (hybrid,dense,bm25)\n"
    "  --k         how many documents of an answer count, 1 to 100 (10)\n"
    "  --prefix    that ingest put before the documents' names\n"
    "Prints nDCG, recall and mean reciprocal rank with 95 % intervals over the queries.\n"
    "Exit code: 0 done, 1 failed, 2 wrong use.\n";

typedef struct judgement {
    bw_str document;
    double gain;
} judgement;

typedef struct query {
    bw_str id, text;
    judgement *judged; /* gains above 0 */
    size_t n, cap;
} query;

typedef struct eval {
    bw_client_options connect;
    const char *queries_file, *qrels_file, *collection, *modes, *prefix, *filter;
    unsigned long k;
    bool json;
    const char *mode[MODES_MAX];
    size_t nmodes;
    bw_ctx *ctx, *scratch; /* the run's, one answer's */
    bw_client *client;
    query *queries; /* then those with judgements alone */
    size_t n, unjudged, stray; /* stray: judgements of queries that are not there */
    bw_ranking_score *scores[MODES_MAX]; /* n each */
} eval;

/* ---- options ---- */

static bool take_modes(eval *x)
{
    static const char *const known[] = {"dense", "bm25", "hybrid"};
    const char *at = x->modes ? x->modes : "hybrid,dense,bm25";
    for (size_t n; *at; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        const char *mode = NULL;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strlen(known[i]) == n && memcmp(known[i], at, n) == 0)
                mode = known[i];
        for (size_t i = 0; i < x->nmodes; i++)
            if (mode == x->mode[i])
                mode = NULL;
        if (!mode)
            return false;
        x->mode[x->nmodes++] = mode;
    }
    return x->nmodes > 0;
}

static int take_options(eval *x, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **at;
    } values[] = {{"--queries", &x->queries_file}, {"--qrels", &x->qrels_file},
                  {"--collection", &x->collection}, {"--mode", &x->modes},
                  {"--prefix", &x->prefix},         {"--filter", &x->filter}};
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&x->connect, argc, argv, i);
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end = NULL;
        if (n < 0)
            return 2;
        for (size_t v = 0; n == 0 && value && v < sizeof values / sizeof *values; v++)
            if (strcmp(argv[i], values[v].name) == 0) {
                *values[v].at = value;
                n = 2;
            }
        if (n == 0 && strcmp(argv[i], "--k") == 0 && value) {
            x->k = strtoul(value, &end, 10);
            n = *value && !*end && x->k >= 1 && x->k <= K_MAX ? 2 : 0;
        } else if (n == 0 && strcmp(argv[i], "--json") == 0) {
            x->json = true;
            n = 1;
        }
        if (n == 0)
            return bw_cli_wrong(argc, argv, i, n, usage);
        i += n;
    }
    if (!x->queries_file || !x->qrels_file || !x->collection)
        return bw_cli_missing("eval",
                              !x->queries_file ? "--queries is"
                              : !x->qrels_file ? "--qrels is"
                                               : "--collection is",
                              usage);
    if (!take_modes(x)) {
        (void)fprintf(stderr, "bailiwick eval: --mode: dense, bm25, hybrid, each once\n");
        return 2;
    }
    return 0;
}

/* ---- the two files ---- */

static bool next_line(bw_str *rest, bw_str *line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
    *line = (bw_str){rest->ptr, n};
    if (n > 0 && line->ptr[n - 1] == '\r')
        line->len--;
    n += end != NULL;
    *rest = (bw_str){rest->ptr + n, rest->len - n};
    return true;
}

static bw_status wrong_line(eval *x, const char *file, size_t line, const char *why)
{
    return bw_fail(x->ctx, BW_EINVALID, "%s, line %zu: %s", file, line, why);
}

static bw_status read_query(eval *x, bw_map *ids, bw_str line, size_t no)
{
    bw_json *v = NULL;
    bool fresh;
    if (bw_json_parse(x->ctx, line, BW_JSON_REQUEST, &v) != BW_OK)
        return wrong_line(x, x->queries_file, no, "wants a JSON object");
    const bw_json *id = bw_json_get(v, "_id"), *text = bw_json_get(v, "text");
    if (!id || !text || id->kind != BW_JSON_STRING || text->kind != BW_JSON_STRING ||
        text->str.len == 0)
        return wrong_line(x, x->queries_file, no, "wants the strings _id and text");
    if (x->n == QUERIES_MAX)
        return wrong_line(x, x->queries_file, no, "more than 100,000 queries");
    uint64_t *at = bw_map_put(ids, id->str.ptr, id->str.len, &fresh);
    if (!at)
        return bw_fail_nomem(x->ctx);
    if (!fresh)
        return wrong_line(x, x->queries_file, no, "this _id was there before");
    *at = x->n;
    x->queries[x->n++] = (query){.id = id->str, .text = text->str};
    return BW_OK;
}

static bw_status read_queries(eval *x, bw_map *ids)
{
    bw_str rest, line;
    bw_status s = bw_file_read(x->ctx, x->queries_file, FILE_BYTES_MAX, &rest);
    x->queries = s ? NULL : bw_arena_calloc(x->ctx, QUERIES_MAX, sizeof *x->queries);
    if (!s && !x->queries)
        s = bw_fail_nomem(x->ctx);
    for (size_t no = 1; !s && next_line(&rest, &line); no++)
        if (line.len > 0)
            s = read_query(x, ids, line, no);
    return s;
}

static bw_status add_judgement(eval *x, query *q, bw_str document, double gain)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 8;
        judgement *p =
            bw_arena_grow(x->ctx, q->judged, q->n * sizeof *p, cap * sizeof *p);
        if (!p)
            return bw_fail_nomem(x->ctx);
        q->judged = p;
        q->cap = cap;
    }
    q->judged[q->n++] = (judgement){document, gain};
    return BW_OK;
}

static bw_status read_judgement(eval *x, const bw_map *ids, bw_str line, size_t no)
{
    const char *one = memchr(line.ptr, '\t', line.len);
    const char *two = one ? memchr(one + 1, '\t', (size_t)(line.ptr + line.len - one - 1)) : NULL;
    char number[32], *end = NULL;
    size_t n = two ? (size_t)(line.ptr + line.len - two - 1) : 0;
    if (n == 0 || n >= sizeof number)
        return wrong_line(x, x->qrels_file, no, "wants query, tab, document, tab, gain");
    memcpy(number, two + 1, n);
    number[n] = '\0';
    double gain = strtod(number, &end);
    if (*end || !(gain >= 0 && gain <= 1e6))
        return wrong_line(x, x->qrels_file, no, "a gain is a number from 0 to 1,000,000");
    const uint64_t *at = bw_map_get(ids, line.ptr, (size_t)(one - line.ptr));
    if (!at) {
        x->stray++;
        return BW_OK;
    }
    query *q = &x->queries[*at];
    bw_str document = {one + 1, (size_t)(two - one - 1)};
    for (size_t i = 0; i < q->n; i++)
        if (bw_str_eq(q->judged[i].document, document))
            return wrong_line(x, x->qrels_file, no, "this document was judged before");
    return gain > 0 ? add_judgement(x, q, document, gain) : BW_OK;
}

static bw_status read_files(eval *x)
{
    bw_str rest, line;
    bw_map *ids = bw_map_new();
    bw_status s = ids ? read_queries(x, ids) : bw_fail_nomem(x->ctx);
    if (!s)
        s = bw_file_read(x->ctx, x->qrels_file, FILE_BYTES_MAX, &rest);
    for (size_t no = 1; !s && next_line(&rest, &line); no++)
        if (no > 1 && line.len > 0)
            s = read_judgement(x, ids, line, no);
    bw_map_free(ids);
    size_t kept = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->queries[i].n > 0)
            x->queries[kept++] = x->queries[i];
    x->unjudged = x->n - kept;
    x->n = kept;
    return s || kept ? s
                     : bw_fail(x->ctx, BW_EINVALID,
                               "%s judges no query of %s above 0", x->qrels_file,
                               x->queries_file);
}

/* ---- one query ---- */

static void request_body(const eval *x, const query *q, const char *mode, bw_buf *b)
{
    bw_buf_puts(b, "{\"query\":");
    bw_json_put_str(b, q->text);
    bw_json_put_key(b, "collection");
    bw_json_put_str(b, bw_str_c(x->collection));
    bw_buf_printf(b, ",\"mode\":\"%s\",\"limit\":%lu", mode, x->k * CHUNKS_A_DOCUMENT);
    if (x->filter) {
        bw_json_put_key(b, "filter");
        bw_buf_puts(b, x->filter);
    }
    bw_buf_putc(b, '}');
}

/* The name by which the judgements know a hit's document; false: none. */
static bool document_of(const eval *x, const bw_json *hit, bw_str *out)
{
    const bw_json *source = bw_json_get(hit, "source");
    size_t n = x->prefix ? strlen(x->prefix) : 0;
    if (!source || source->kind != BW_JSON_STRING)
        return false;
    *out = source->str;
    if (!x->prefix)
        return true;
    if (out->len <= n || memcmp(out->ptr, x->prefix, n) != 0 || out->ptr[n] != '/')
        return false;
    *out = (bw_str){out->ptr + n + 1, out->len - n - 1};
    return true;
}

static double gain_of(const query *q, bw_str document)
{
    for (size_t i = 0; i < q->n; i++)
        if (bw_str_eq(q->judged[i].document, document))
            return q->judged[i].gain;
    return 0;
}

static bw_status score(eval *x, const query *q, const bw_json *answer,
                       bw_ranking_score *out)
{
    bw_str seen[K_MAX];
    double gains[K_MAX];
    size_t n = 0;
    double *judged = bw_arena_calloc(x->scratch, q->n, sizeof *judged);
    const bw_json *hits = bw_json_get(answer, "hits"), *h = NULL;
    if (!judged)
        return bw_fail_nomem(x->scratch);
    if (!bw_json_is_array(hits) || bw_json_elements(x->scratch, hits, &h) != BW_OK)
        return bw_fail(x->scratch, BW_EUNAVAILABLE, "the cell's answer holds no hits");
    for (size_t i = 0; i < q->n; i++)
        judged[i] = q->judged[i].gain;
    for (; h && n < x->k; h = h->next) {
        bool again = !document_of(x, h, &seen[n]);
        for (size_t i = 0; i < n && !again; i++)
            again = bw_str_eq(seen[i], seen[n]);
        if (again)
            continue;
        gains[n] = gain_of(q, seen[n]);
        n++;
    }
    bw_ranking_of(gains, n, judged, q->n, x->k, out);
    return BW_OK;
}

static bw_status ask(eval *x, const query *q, const char *mode, bw_ranking_score *out)
{
    const bw_json *answer;
    bw_buf body = {0};
    request_body(x, q, mode, &body);
    bw_status s = body.failed ? bw_fail_nomem(x->scratch)
                              : bw_client_json(x->scratch, x->client, "POST", "/v1/query",
                                               bw_buf_view(&body), &answer);
    if (!s)
        s = score(x, q, answer, out);
    bw_buf_clear(&body);
    if (s)
        s = bw_ctx_take_error(x->ctx, x->scratch, s);
    bw_ctx_reset(x->scratch);
    return s;
}

static bw_status ask_all(eval *x)
{
    bw_status s = BW_OK;
    for (size_t m = 0; m < x->nmodes && !s; m++) {
        x->scores[m] = bw_arena_calloc(x->ctx, x->n, sizeof *x->scores[m]);
        if (!x->scores[m])
            return bw_fail_nomem(x->ctx);
        for (size_t i = 0; i < x->n && !s; i++)
            s = ask(x, &x->queries[i], x->mode[m], &x->scores[m][i]);
    }
    return s;
}

/* ---- the answer ---- */

enum { NDCG, RECALL, RR, NFIGURES };
static const char *const figure_names[NFIGURES] = {"nDCG", "recall", "MRR"};

static double figure(const bw_ranking_score *s, int which)
{
    return which == NDCG ? s->ndcg : which == RECALL ? s->recall : s->rr;
}

/* Of mode m, or of mode m less mode `less`. room: n values. */
static bw_interval interval(const eval *x, size_t m, size_t less, int which, double *room)
{
    for (size_t i = 0; i < x->n; i++)
        room[i] = figure(&x->scores[m][i], which) -
                  (less == m ? 0 : figure(&x->scores[less][i], which));
    return bw_interval_of(room, x->n);
}

static void put_figures(const eval *x, size_t m, size_t less, double *room, bw_buf *b)
{
    for (int f = 0; f < NFIGURES; f++) {
        const bw_interval v = interval(x, m, less, f, room);
        if (x->json) { /* of one query no interval can be told */
            bw_json_put_key(b, figure_names[f]);
            bw_buf_printf(b, x->n > 1 ? "[%.6f,%.6f,%.6f]" : "[%.6f,null,null]", v.mean, v.lo,
                          v.hi);
        } else {
            bw_buf_printf(b, less == m ? "  %s@%lu %.4f (%.4f to %.4f)"
                                       : "  %s@%lu %+.4f (%+.4f to %+.4f)",
                          figure_names[f], x->k, v.mean, v.lo, v.hi);
        }
    }
}

static void put_text(const eval *x, double *room, bw_buf *b)
{
    bw_buf_printf(b, "%zu queries, %zu without judgements left out\n", x->n, x->unjudged);
    for (size_t m = 0; m < x->nmodes; m++) {
        bw_buf_printf(b, "%-16s", x->mode[m]);
        put_figures(x, m, m, room, b);
        bw_buf_putc(b, '\n');
    }
    for (size_t m = 1; m < x->nmodes; m++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s - %s", x->mode[0], x->mode[m]);
        bw_buf_printf(b, "%-16s", name);
        put_figures(x, 0, m, room, b);
        bw_buf_putc(b, '\n');
    }
}

static void put_json(const eval *x, double *room, bw_buf *b)
{
    bw_buf_printf(b, "{\"queries\":%zu,\"left_out\":%zu,\"k\":%lu,\"modes\":{", x->n,
                  x->unjudged, x->k);
    for (size_t m = 0; m < x->nmodes; m++) {
        bw_json_put_key(b, x->mode[m]);
        bw_buf_putc(b, '{');
        put_figures(x, m, m, room, b);
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "},\"differences\":{");
    for (size_t m = 1; m < x->nmodes; m++) {
        bw_json_sep(b);
        bw_buf_printf(b, "\"%s - %s\":{", x->mode[0], x->mode[m]);
        put_figures(x, 0, m, room, b);
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "}}\n");
}

static int print(const eval *x)
{
    bw_buf b = {0};
    double *room = bw_arena_calloc(x->ctx, x->n, sizeof *room);
    if (room && x->json)
        put_json(x, room, &b);
    else if (room)
        put_text(x, room, &b);
    if (x->stray)
        (void)fprintf(stderr, "bailiwick eval: %zu judgements of queries that are not asked\n",
                      x->stray);
    int code = room && !b.failed ? bw_cli_say(b.ptr, b.len) : 1;
    bw_buf_clear(&b);
    return code;
}

int bw_cli_eval(int argc, char **argv)
{
    eval x = {.k = 10, .connect = {.timeout_s = 3600}};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    int code = take_options(&x, argc, argv);
    if (code)
        return code;
    x.ctx = bw_ctx_new(0);
    x.scratch = bw_ctx_new((size_t)64 << 20);
    bw_status s = x.ctx && x.scratch ? bw_harden(x.ctx) : BW_ENOMEM;
    if (!s)
        s = read_files(&x);
    if (!s)
        s = bw_client_open(x.ctx, &x.connect, &x.client);
    if (!s)
        s = ask_all(&x);
    code = s ? bw_cli_fail(x.ctx, "eval") : print(&x);
    bw_client_close(x.client);
    bw_ctx_free(x.scratch);
    bw_ctx_free(x.ctx);
    return code;
}
