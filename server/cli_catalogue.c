/* catalogue show, gaps, check, diff: what the law as data says here, what it does not
 * know, whether an operator's overlay will be taken, and what it would change. None of
 * them needs a key or changes anything. */
#include "cli.h"
#include "cli_place.h"
#include "cli_policy.h"
#include "cli_words.h"
#include "files.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

static const char catalogue_usage[] =
    "Usage: bailiwick catalogue show [COUNTRY | ZONE] [--json] [FACTS]\n"
    "       bailiwick catalogue gaps [--regime R]... [--in ZONE]... [--classes FILE]\n"
    "                                [--market] [--market-overlay FILE]... [--json] "
    "[FACTS]\n"
    "       bailiwick catalogue check [OVERLAY] [--as-of YYYY-MM-DD [--max-age DAYS]]\n"
    "                                [--json] [FACTS]\n"
    "       bailiwick catalogue diff OLD NEW [--overlays] [--json] [FACTS]\n"
    "FACTS is --overlay FILE, --data DIR, --config FILE, --set name=value: whose "
    "overlay\n"
    "lies over the shipped catalogue; without it, the shipped catalogue alone.\n"
    "show: the facts in force about a place, or about all, each with origin, source, "
    "date;\n  without a name also the words that labels, keys and cells may use.\n"
    "gaps: what nobody knows and decisions could depend on, what happens meanwhile, "
    "and\n"
    "  where in an overlay the fact goes; DATA/entities.json is looked through as "
    "well.\n"
    "  --regime, --in: only what bears on these.  --classes: a JSON list of label "
    "sets;\n"
    "  their regimes and residency are taken.  --market: also what is not known of "
    "the\n"
    "  regions on offer (--market-overlay: what place calls --overlay).\n"
    "check: would a cell take OVERLAY?  --as-of: facts older than DAYS (365) on that "
    "day,\n"
    "  and decisions that have expired by then.\n"
    "diff: countries and zones gained and lost between two catalogue files, or, with\n"
    "  --overlays, between two overlays of the shipped catalogue.\n"
    "Exit: 0 nothing to report, 1 failed or refused, 2 wrong use, 3 gaps, old facts "
    "or\n"
    "differences.\n";

enum {
    FOUND = 3,
    SCOPE_MAX = 64,
    AGE_DAYS = 365,
    AGE_DAYS_MAX = 36500,
    LINE_MAX_BYTES = 4096
};

typedef struct words { /* what the command line says */
    bw_cli_settings set;
    const char *verb, *names[2], *overlay, *classes, *as_of;
    bw_str regimes[SCOPE_MAX], places[SCOPE_MAX];
    size_t nnames, nregimes, nplaces;
    uint32_t max_age_days;
    const char *offers[BW_CLI_MARKET_OVERLAYS_MAX];
    size_t noffers;
    bool json, overlays, age, market;
} words;

/* ---- words ---- */

static bool take_number(const char *text, uint32_t *out)
{
    uint32_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || n > AGE_DAYS_MAX)
            return false;
        n = n * 10 + (uint32_t)(*p - '0');
    }
    *out = n;
    return *text && n <= AGE_DAYS_MAX;
}

static bool add_word(bw_str *list, size_t *n, const char *word)
{
    if (*n == SCOPE_MAX)
        return false;
    list[(*n)++] = bw_str_c(word);
    return true;
}

/* Words taken, or 0. */
static int take_valued(words *w, const char *name, const char *value)
{
    bool ok = true;
    if (strcmp(name, "--overlay") == 0)
        w->overlay = value;
    else if (strcmp(name, "--classes") == 0)
        w->classes = value;
    else if (strcmp(name, "--as-of") == 0)
        w->as_of = value;
    else if (strcmp(name, "--max-age") == 0)
        ok = w->age = take_number(value, &w->max_age_days);
    else if (strcmp(name, "--regime") == 0)
        ok = add_word(w->regimes, &w->nregimes, value);
    else if (strcmp(name, "--in") == 0)
        ok = add_word(w->places, &w->nplaces, value);
    else if (strcmp(name, "--market-overlay") == 0 &&
             w->noffers < BW_CLI_MARKET_OVERLAYS_MAX)
        w->offers[w->noffers++] = value, w->market = true;
    else
        ok = false;
    return ok ? 2 : 0;
}

static int take(words *w, int argc, char **argv, int i)
{
    if (strcmp(argv[i], "--json") == 0)
        return w->json = true, 1;
    if (strcmp(argv[i], "--market") == 0)
        return w->market = true, 1;
    if (strcmp(argv[i], "--overlays") == 0)
        return w->overlays = true, 1;
    if (argv[i][0] == '-')
        return i + 1 < argc ? take_valued(w, argv[i], argv[i + 1]) : 0;
    if (!w->verb)
        return w->verb = argv[i], 1;
    if (w->nnames == 2)
        return 0;
    return w->names[w->nnames++] = argv[i], 1;
}

/* ---- text ---- */

/* Facts are the operator's own words, but a terminal takes none of them as orders. */
static void say(const char *text, size_t n)
{
    char plain[LINE_MAX_BYTES];
    bw_cli_plain(text, n, plain, sizeof plain);
    (void)fputs(plain, stdout);
}

static void say_member(const bw_json *v, const char *between)
{
    if (v->kind == BW_JSON_ARRAY && v->count == 0)
        say("none", 4);
    if (v->kind != BW_JSON_ARRAY) {
        bw_str s = v->kind == BW_JSON_STRING ? v->str : v->raw;
        say(v->kind == BW_JSON_NULL ? "unknown" : s.ptr,
            v->kind == BW_JSON_NULL ? 7 : s.len);
        return;
    }
    for (const bw_json *e = v->child; e; e = e->next) {
        say(e->str.ptr, e->str.len);
        (void)fputs(e->next ? between : "", stdout);
    }
}

static void say_list(const bw_json *object, const char *name, const char *title)
{
    const bw_json *v = bw_json_get(object, name);
    if (!v || v->count == 0)
        return;
    (void)printf("%s: ", title);
    say_member(v, " ");
    (void)putchar('\n');
}

static void say_fact(const bw_json *f, const char *removed)
{
    const bw_json *row = bw_json_get(f, "fact");
    bw_str table = bw_json_get(f, "table")->str, from = bw_json_get(f, "from")->str,
           date = bw_json_get(row, "date")->str,
           source = bw_json_get(row, "source")->str;
    (void)printf("\n%.*s (%.*s%s, %.*s): ", (int)table.len, table.ptr, (int)from.len,
                 from.ptr, removed, (int)date.len, date.ptr);
    say(source.ptr, source.len);
    (void)putchar('\n');
    for (const bw_json *v = row->child; v; v = v->next) {
        if (bw_str_is(v->key, "date") || bw_str_is(v->key, "source"))
            continue;
        (void)printf("  %.*s: ", (int)v->key.len, v->key.ptr);
        say_member(v, "; ");
        (void)putchar('\n');
    }
}

static void say_place(const bw_json *place)
{
    const bw_json *countries = bw_json_get(place, "countries");
    bw_str name = bw_json_get(place, "name")->str,
           kind = bw_json_get(place, "kind")->str;
    (void)printf("%-26.*s %.*s", (int)name.len, name.ptr, (int)kind.len, kind.ptr);
    if (bw_str_is(kind, "country"))
        (void)putchar('\n');
    else if (bw_json_get(place, "unknown")->kind != BW_JSON_TRUE)
        (void)printf(", %u countries\n", countries->count);
    else if (bw_str_is(kind, "deny"))
        (void)puts(", not written down: holds every country");
    else if (countries->count)
        (void)printf(", not written down: %u countries by decisions alone\n",
                     countries->count);
    else
        (void)puts(", not written down: empty");
}

/* What labels, keys and cells may say: a line of words for each kind. */
static void say_words(const bw_json *facts)
{
    bw_str last = {"", 0};
    for (const bw_json *f = facts->child; f; f = f->next) {
        const bw_json *kind = bw_json_get(f, "kind");
        if (!kind)
            continue;
        bw_str word = bw_json_get(bw_json_get(f, "fact"), "word")->str;
        if (!bw_str_eq(kind->str, last))
            (void)printf("%s%.*s:", last.len ? "\n" : "", (int)kind->str.len,
                         kind->str.ptr);
        (void)printf(" %.*s", (int)word.len, word.ptr);
        last = kind->str;
        const bw_json *next_kind = f->next ? bw_json_get(f->next, "kind") : NULL;
        if (bw_str_is(last, "regimes") && !(next_kind && bw_str_eq(next_kind->str, last)))
            (void)fputs("; or none, alone", stdout);
    }
    if (last.len)
        (void)putchar('\n');
}

/* A place with its facts; or all zones and words, and the facts that the operator put
 * or took. */
static void say_shown(const bw_json *shown)
{
    const bw_json *zones = bw_json_get(shown, "zones"), *v;
    bw_str version = bw_json_get(shown, "version")->str;
    (void)printf("catalogue %.*s\n", (int)version.len, version.ptr);
    if (zones)
        for (v = zones->child; v; v = v->next)
            say_place(v);
    else
        say_place(shown);
    if (zones)
        say_words(bw_json_get(shown, "facts"));
    say_list(shown, "lies_in", "lies in");
    say_list(shown, "unwritten",
             "of these it lies in because nobody has written the list down");
    say_list(shown, "countries", "countries");
    for (v = bw_json_get(shown, "facts")->child; v; v = v->next)
        if (!zones || bw_str_is(bw_json_get(v, "from")->str, "overlay"))
            say_fact(v, "");
    for (v = bw_json_get(shown, "removed")->child; v; v = v->next)
        say_fact(v, " removes");
}

static void say_change(const bw_json *v)
{
    bw_str change = bw_json_get(v, "change")->str, what = bw_json_get(v, "what")->str,
           name = bw_json_get(v, "name")->str;
    const bw_json *zone = bw_json_get(v, "zone"), *kind = bw_json_get(v, "kind"),
                  *from = bw_json_get(v, "from");
    bool more = bw_str_is(change, "gained") || bw_str_is(change, "new");
    (void)printf("%c %.*s %.*s",
                 from || bw_str_is(change, "changed") ? '~'
                 : more                               ? '+'
                                                      : '-',
                 (int)what.len, what.ptr, (int)name.len, name.ptr);
    if (zone)
        (void)printf(" in %.*s", (int)zone->str.len, zone->str.ptr);
    if (kind)
        (void)printf(" of %.*s", (int)kind->str.len, kind->str.ptr);
    if (from) {
        bw_str to = bw_json_get(v, "to")->str;
        (void)printf(": %.*s -> %.*s", (int)from->str.len, from->str.ptr, (int)to.len,
                     to.ptr);
    }
    (void)putchar('\n');
}

/* What several in a row have in common stands once, behind the last. */
static void say_gap(const bw_catalogue_gap *g, const bw_catalogue_gap *next)
{
    (void)printf("%s: ", g->kind);
    say(g->fact, strlen(g->fact));
    (void)putchar('\n');
    if (next && strcmp(next->why, g->why) == 0 && strcmp(next->put, g->put) == 0)
        return;
    (void)fputs("  ", stdout);
    say(g->why, strlen(g->why));
    (void)fputs("\n  ", stdout);
    say(g->put, strlen(g->put));
    (void)putchar('\n');
}

static bw_status say_gaps(const words *w, const bw_catalogue_gap *gaps, size_t n,
                          bw_buf *b)
{
    bw_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        const bw_catalogue_gap *g = &gaps[i];
        const struct {
            const char *name;
            bw_str text;
        } members[] = {{"kind", bw_str_c(g->kind)}, {"country", g->country},
                       {"regime", g->regime},       {"fact", bw_str_c(g->fact)},
                       {"why", bw_str_c(g->why)},   {"put", bw_str_c(g->put)}};
        if (!w->json) {
            say_gap(g, i + 1 < n ? g + 1 : NULL);
            continue;
        }
        bw_json_sep(b);
        bw_buf_putc(b, '{');
        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            bw_json_put_key(b, members[k].name);
            bw_json_put_str(b, members[k].text);
        }
        bw_buf_putc(b, '}');
    }
    bw_buf_puts(b, "]\n");
    if (w->json && (b->failed || bw_cli_say(b->ptr, b->len) != 0))
        return BW_ENOMEM;
    return BW_OK;
}

/* ---- verbs: BW_OK, and *found whether there is something to report ---- */

static bw_status run_show(bw_ctx *ctx, words *w, const bw_policy_bench *b, bw_buf *out,
                          bool *found)
{
    bw_json *shown;
    *found = false;
    bw_status st = bw_catalogue_show(ctx, b->catalogue, bw_str_c(w->names[0]), out);
    if (st == BW_OK && !w->json) {
        st = bw_json_parse(ctx, bw_buf_view(out), BW_JSON_REQUEST, &shown);
        if (st == BW_OK)
            say_shown(shown);
    } else if (st == BW_OK) {
        bw_buf_putc(out, '\n');
        (void)bw_cli_say(out->ptr, out->len);
    }
    return st;
}

static void add_list(bw_str *list, size_t *n, bw_label_list more)
{
    for (size_t i = 0; i < more.n && *n < SCOPE_MAX; i++)
        list[(*n)++] = more.items[i];
}

/* The regimes and places of label sets; more than fit ask about all. */
static bw_status read_classes(bw_ctx *ctx, words *w, const bw_catalogue *c)
{
    bw_str text;
    bw_json *list;
    bw_labels l;
    bw_status st = bw_file_read(ctx, w->classes, BW_POLICIES_BYTES_MAX, &text);
    if (st == BW_OK)
        st = bw_json_parse(ctx, text, BW_JSON_REQUEST, &list);
    if (st == BW_OK && list->kind != BW_JSON_ARRAY)
        st = bw_fail(ctx, BW_EINVALID, "%s: wants a list of label sets", w->classes);
    for (const bw_json *v = st == BW_OK ? list->child : NULL; v && st == BW_OK;
         v = v->next) {
        st = bw_labels_parse(ctx, c, v, BW_STR("any"), &l);
        if (st != BW_OK)
            break;
        add_list(w->regimes, &w->nregimes, l.regimes);
        add_list(w->places, &w->nplaces, l.residency);
    }
    if (w->nregimes == SCOPE_MAX)
        w->nregimes = 0;
    if (w->nplaces == SCOPE_MAX)
        w->nplaces = 0;
    return st;
}

static bw_status check_scope(bw_ctx *ctx, const words *w, const bw_catalogue *c)
{
    for (size_t i = 0; i < w->nregimes; i++)
        if (!bw_catalogue_has_word(c, "regimes", w->regimes[i]))
            return bw_fail(ctx, BW_EINVALID, "%.*s is no regime of the catalogue",
                           (int)w->regimes[i].len, w->regimes[i].ptr);
    for (size_t i = 0; i < w->nplaces; i++)
        if (!bw_catalogue_has_zone(c, w->places[i])) {
            bw_str near = bw_catalogue_near(c, w->places[i]);
            return bw_fail(
                ctx, BW_EINVALID,
                near.len ? "%.*s is no zone of the catalogue; did you mean \"%.*s\"?"
                         : "%.*s is no zone of the catalogue",
                (int)w->places[i].len, w->places[i].ptr, (int)near.len, near.ptr);
        }
    return BW_OK;
}

static bw_status run_gaps(bw_ctx *ctx, words *w, const bw_config *config,
                          const bw_policy_bench *b, bw_buf *out, bool *found)
{
    bw_market *market = NULL;
    bw_catalogue_gap *gaps;
    size_t n = 0;
    bw_status st = check_scope(ctx, w, b->catalogue);
    if (st == BW_OK && w->classes)
        st = read_classes(ctx, w, b->catalogue);
    bw_catalogue_scope scope = {.regimes = w->regimes,
                                .nregimes = w->nregimes,
                                .places = w->places,
                                .nplaces = w->nplaces,
                                .entities = b->entities};
    if (st == BW_OK)
        st = bw_catalogue_gaps(ctx, b->catalogue, &scope, &gaps, &n);
    if (st == BW_OK && w->market)
        st = bw_cli_market_open(ctx, config, NULL, w->offers, w->noffers, b->catalogue,
                                &market);
    if (st == BW_OK && w->market)
        st = bw_market_all_gaps(ctx, market, b->catalogue, &scope, &gaps, &n);
    *found = n > 0;
    if (st == BW_OK)
        st = say_gaps(w, gaps, n, out);
    bw_market_free(market);
    return st;
}

/* Facts that a schema does not take would keep a cell from starting. */
static bw_status run_check(bw_ctx *ctx, words *w, bw_policy_bench *b, bw_buf *out,
                           bool *found)
{
    bw_catalogue_gap *gaps;
    size_t n = 0;
    bw_status st = bw_policy_bench_try(ctx, b, BW_STR(""));
    if (st == BW_OK && w->as_of)
        st = bw_catalogue_stale(ctx, b->catalogue, bw_str_c(w->as_of), w->max_age_days,
                                &gaps, &n);
    if (st != BW_OK)
        return st;
    *found = n > 0;
    if (w->as_of)
        return say_gaps(w, gaps, n, out);
    bw_str v = bw_catalogue_version(b->catalogue);
    (void)printf("catalogue %.*s: accepted\n", (int)v.len, v.ptr);
    return BW_OK;
}

static bw_status read_side(bw_ctx *ctx, const words *w, const char *file,
                           const bw_policy_bench *b, bw_catalogue **out)
{
    bw_str text;
    bw_status st = bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text);
    if (st != BW_OK)
        return st;
    st = w->overlays ? bw_catalogue_parse(ctx, b->pack.catalogue, text, out)
                     : bw_catalogue_parse(ctx, text, (bw_str){NULL, 0}, out);
    return st == BW_EINVALID ? bw_fail_at(ctx, st, bw_ctx_pointer(ctx), "%s: %s", file,
                                          bw_ctx_message(ctx))
                             : st;
}

static bw_status run_diff(bw_ctx *ctx, words *w, const bw_policy_bench *b, bw_buf *out,
                          bool *found)
{
    bw_catalogue *from = NULL, *to = NULL;
    bw_json *list;
    size_t n = 0;
    bw_status st = read_side(ctx, w, w->names[0], b, &from);
    if (st == BW_OK)
        st = read_side(ctx, w, w->names[1], b, &to);
    if (st == BW_OK)
        st = bw_catalogue_diff(ctx, from, to, out, &n);
    if (st == BW_OK && !w->json) {
        st = bw_json_parse(ctx, bw_buf_view(out), BW_JSON_REQUEST, &list);
        for (const bw_json *v = st == BW_OK ? list->child : NULL; v; v = v->next)
            say_change(v);
    } else if (st == BW_OK) {
        bw_buf_putc(out, '\n');
        (void)bw_cli_say(out->ptr, out->len);
    }
    bw_catalogue_free(from);
    bw_catalogue_free(to);
    *found = n > 0;
    return st;
}

static bw_status run(bw_ctx *ctx, words *w, bw_buf *out, bool *found)
{
    bw_config c;
    bw_policy_bench b = {0};
    bw_status st = bw_cli_config(ctx, &w->set, &c);
    if (st == BW_OK && w->overlay)
        c.catalogue_file = bw_str_c(w->overlay);
    if (st == BW_OK)
        st = bw_policy_bench_open(ctx, &c, w->set.data, &b);
    if (st == BW_OK)
        st = strcmp(w->verb, "show") == 0    ? run_show(ctx, w, &b, out, found)
             : strcmp(w->verb, "gaps") == 0  ? run_gaps(ctx, w, &c, &b, out, found)
             : strcmp(w->verb, "check") == 0 ? run_check(ctx, w, &b, out, found)
                                             : run_diff(ctx, w, &b, out, found);
    bw_policy_bench_close(&b);
    return st;
}

/* Whether the words make sense together. */
static bool fits(words *w)
{
    static const struct {
        const char *verb;
        size_t least, most;
    } verbs[] = {{"show", 0, 1}, {"gaps", 0, 0}, {"check", 0, 1}, {"diff", 2, 2}};
    bool known = false;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs && w->verb; i++)
        known = known || (strcmp(w->verb, verbs[i].verb) == 0 &&
                          w->nnames >= verbs[i].least && w->nnames <= verbs[i].most);
    if (!known || (strcmp(w->verb, "check") == 0 && w->overlay && w->nnames))
        return false;
    if ((w->as_of || w->age) && (strcmp(w->verb, "check") != 0 || !w->as_of))
        return false;
    if ((w->nregimes || w->nplaces || w->classes || w->market) &&
        strcmp(w->verb, "gaps") != 0)
        return false;
    return !w->overlays || strcmp(w->verb, "diff") == 0;
}

int bw_cli_catalogue(int argc, char **argv)
{
    words w = {.max_age_days = AGE_DAYS};
    bw_buf out = {0};
    bool found = false;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(catalogue_usage, sizeof catalogue_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&w.set, argc, argv, i);
        if (n == 0)
            n = take(&w, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, catalogue_usage);
        i += n;
    }
    if (!fits(&w))
        return bw_cli_usage(catalogue_usage);
    if (strcmp(w.verb, "check") == 0 && w.nnames)
        w.overlay = w.names[0];
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status st = ctx && sodium_init() >= 0 ? run(ctx, &w, &out, &found) : BW_ENOMEM;
    if (st == BW_OK && fflush(stdout) != 0)
        st = bw_fail(ctx, BW_EIO, "stdout cannot be written");
    int code = st == BW_OK ? (found ? FOUND : 0) : bw_cli_fail(ctx, "catalogue");
    bw_buf_clear(&out);
    bw_ctx_free(ctx);
    return code;
}
