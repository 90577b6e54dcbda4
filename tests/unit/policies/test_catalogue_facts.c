/* The shipped facts: where a table of countries lies, checked by hand against the
 * decisions and treaties; that every name in the packs is one of the catalogue's; what
 * gaps, old facts, show and diff say of it. */
#include <policies/catalogue.h>

#include <dirent.h>
#include <setjmp.h>
#include <cmocka.h>
#include "pack.h"

#define SD ",\"source\":\"s\",\"date\":\"2026-11-30\""

static int setup(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    *state = pack_catalogue(ctx, NULL);
    bw_ctx_free(ctx);
    return 0;
}

static int teardown(void **state)
{
    bw_catalogue_free(*state);
    return 0;
}

/* Columns, in the order of the marks in a row. */
static const char *const zones[] = {
    "world", "gdpr-area", "EEA", "EU", "gdpr-adequate", "gdpr-adequate-conditional",
    "uk-adequate", "uk-adequate-conditional", "fadp-adequate", "fadp-adequate-conditional", "lgpd-adequate",
    "dual-use-eu001", "ear-embargoed", "us-countries-of-concern"};
static const struct {
    const char *code, *in;
} countries[] = {
    /*      w g E e  G c  U c  F c  L  D E C */
    {"FR", "x x x x  . .  x .  x .  x  . . ."},
    {"DE", "x x x x  . .  x .  x .  x  . . ."},
    {"IE", "x x x x  . .  x .  x .  x  . . ."},
    {"HR", "x x x x  . .  x .  x .  x  . . ."},
    {"CY", "x x x x  . .  x .  x .  x  . . ."},
    {"NO", "x x x .  . .  x .  x .  x  x . ."},
    {"IS", "x x x .  . .  x .  x .  x  x . ."},
    {"LI", "x x x .  . .  x .  x .  x  x . ."},
    {"GF", "x x . .  . .  x .  x .  .  . . ."}, /* outermost region: EU law, no row of its own in other lists */
    {"RE", "x x . .  . .  x .  x .  .  . . ."},
    {"AX", "x x . .  . .  x .  x .  .  . . ."},
    {"GB", "x . . .  x .  . .  x .  .  x . ."},
    {"CH", "x . . .  x .  x .  . .  .  x . ."},
    {"GG", ". . . .  x .  x .  x .  .  . . ."},
    {"JE", ". . . .  x .  x .  x .  .  . . ."},
    {"IM", ". . . .  x .  x .  x .  .  . . ."},
    {"FO", ". . . .  x .  x .  x .  .  . . ."},
    {"AD", ". . . .  x .  x .  x .  .  . . ."},
    {"MC", ". . . .  . .  . .  x .  .  . . ."},
    {"GI", ". . . .  . .  x .  x .  .  . . ."},
    {"IL", "x . . .  x .  x .  x .  .  . . ."},
    {"NZ", "x . . .  x .  x .  x .  .  x . ."},
    {"AR", "x . . .  x .  x .  x .  .  . . ."},
    {"UY", ". . . .  x .  x .  x .  .  . . ."},
    {"BR", "x . . .  x .  . .  . .  .  . . ."}, /* EU since January 2026; neither UK nor CH */
    {"JP", "x . . .  . x  . x  . .  .  x . ."},
    {"CA", "x . . .  . x  . x  . x  .  x . ."},
    {"US", "x . . .  . x  . x  . x  .  x . ."},
    {"KR", "x . . .  . x  x .  . .  .  . . ."}, /* the UK's decision is full */
    {"AU", "x . . .  . .  . .  . .  .  x . ."},
    {"IN", "x . . .  . .  . .  . .  .  . . ."},
    {"SG", "x . . .  . .  . .  . .  .  . . ."},
    {"CN", "x . . .  . .  . .  . .  .  . . x"},
    {"HK", "x . . .  . .  . .  . .  .  . . x"},
    {"RU", "x . . .  . .  . .  . .  .  . . x"},
    {"SA", "x . . .  . .  . .  . .  .  . . ."},
    {"AE", "x . . .  . .  . .  . .  .  . . ."},
    {"KP", ". . . .  . .  . .  . .  .  . x x"},
    {"CU", ". . . .  . .  . .  . .  .  . x x"},
    {"SY", ". . . .  . .  . .  . .  .  . x ."},
    {"AF", ". . . .  . .  . .  . .  .  . . ."},
    {"AQ", ". . . .  . .  . .  . .  .  . . ."},
    {"GL", ". . . .  . .  . .  . .  .  . . ."}, /* Denmark, but not the EU */
    {"XK", ". . . .  . .  . .  . .  .  . . ."}, /* no code of ISO 3166-1: no place at all */
};

static void test_catalogue__puts_each_country_where_the_law_does(void **state)
{
    const bw_catalogue *c = *state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof countries / sizeof *countries; i++) {
        const char *mark = countries[i].in;
        for (size_t z = 0; z < sizeof zones / sizeof *zones; z++) {
            mark += strspn(mark, " ");
            bool want = *mark++ == 'x';
            if (bw_catalogue_in(c, bw_str_c(countries[i].code), bw_str_c(zones[z])) != want) {
                print_error("%s %s %s\n", countries[i].code, want ? "is not in" : "is in", zones[z]);
                wrong++;
            }
        }
    }
    assert_int_equal(wrong, 0);
    assert_false(bw_catalogue_has_zone(c, BW_STR("XK")));
}

static void test_catalogue__counts_what_the_facts_count(void **state)
{
    const bw_catalogue *c = *state;
    static const struct {
        const char *zone;
        uint32_t n;
    } sizes[] = {{"EU", 27}, {"EEA", 30}, {"gdpr-adequate", 12}, {"gdpr-adequate-conditional", 4}, {"uk-adequate", 49},
                 {"uk-adequate-conditional", 3}, {"fadp-adequate", 49}, {"fadp-adequate-conditional", 2},
                 {"lgpd-adequate", 30}, {"world", 93}, {"pdpl-sa-adequate", 0}, {"pdpl-ae-adequate", 0},
                 {"ear-permitted", 0}, {"dpdp-restricted", 0}, {"itar-proscribed", 249}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = 0;
        char code[3] = "AA";
        for (code[0] = 'A'; code[0] <= 'Z'; code[0]++)
            for (code[1] = 'A'; code[1] <= 'Z'; code[1]++)
                n += bw_catalogue_has_country(c, bw_str_c(code)) && bw_catalogue_in(c, bw_str_c(code), bw_str_c(sizes[i].zone));
        if (n != sizes[i].n)
            fail_msg("%s: %u", sizes[i].zone, n);
    }
}

/* Names of the Zone entities in the order that Cedar gets them, and the edges between. */
static size_t zone_index(const bw_str *names, size_t n, bw_str name)
{
    size_t i = 0;
    while (i < n && !bw_str_eq(names[i], name))
        i++;
    return i;
}

/* What lies in what by following the entities' own parents must be what we say. */
static void test_catalogue_in__follows_the_entities(void **state)
{
    enum { MAX = 512 };
    static bw_str names[MAX];
    static bool up[MAX][MAX];
    const bw_catalogue *c = *state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf b = {0};
    bw_json *list;
    size_t n = 0, lies = 0;
    bw_buf_putc(&b, '[');
    bw_catalogue_put_entities(c, &b);
    bw_buf_putc(&b, ']');
    assert_int_equal(bw_json_parse(ctx, bw_buf_view(&b), BW_JSON_CEDAR, &list), BW_OK);
    for (const bw_json *e = list->child; e; e = e->next)
        if (bw_str_is(bw_json_get(bw_json_get(e, "uid"), "type")->str, "Bw::Zone"))
            names[n++] = bw_json_get(bw_json_get(e, "uid"), "id")->str;
    assert_int_equal(n, 249 + 19 + 1); /* and Zone "unknown" */
    memset(up, 0, sizeof up);
    for (const bw_json *e = list->child; e; e = e->next) {
        size_t i = zone_index(names, n, bw_json_get(bw_json_get(e, "uid"), "id")->str);
        if (!bw_str_is(bw_json_get(bw_json_get(e, "uid"), "type")->str, "Bw::Zone"))
            continue;
        up[i][i] = true;
        for (const bw_json *p = bw_json_get(e, "parents")->child; p; p = p->next)
            up[i][zone_index(names, n, bw_json_get(p, "id")->str)] = true;
    }
    for (size_t k = 0; k < n; k++) /* Warshall */
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; up[i][k] && j < n; j++)
                up[i][j] = up[i][j] || up[k][j];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            bool known = !bw_str_is(names[i], "unknown") && !bw_str_is(names[j], "unknown");
            if (bw_catalogue_in(c, names[i], names[j]) != (known && up[i][j]))
                fail_msg("%.*s in %.*s", (int)names[i].len, names[i].ptr, (int)names[j].len, names[j].ptr);
            lies += known && up[i][j] && i != j;
        }
    assert_true(lies > 600);
    bw_buf_clear(&b);
    bw_ctx_free(ctx);
}

/* A rule about a misspelt zone would never fire. */
static void test_catalogue__knows_every_place_that_a_pack_names(void **state)
{
    const bw_catalogue *c = *state;
    bw_ctx *ctx = bw_ctx_new(0);
    static const char *const literals[] = {"Bw::Zone::\"", "Bw::Country::\""};
    DIR *d = opendir(BW_SOURCE "/policies/packs");
    size_t named = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 7 || strcmp(e->d_name + n - 6, ".cedar") != 0)
            continue;
        const char *text = bw_arena_cstr(ctx, pack_file(ctx, e->d_name));
        for (size_t i = 0; i < 2; i++)
            for (const char *p = text; (p = strstr(p, literals[i])) != NULL; named++) {
                p += strlen(literals[i]);
                bw_str name = {p, strcspn(p, "\"")};
                if (!(i ? bw_catalogue_has_country(c, name) : bw_catalogue_has_zone(c, name)))
                    fail_msg("%s: no place %.*s", e->d_name, (int)name.len, name.ptr);
            }
    }
    (void)closedir(d);
    assert_true(named > 10);
    bw_ctx_free(ctx);
}

/* ---- gaps ---- */

static const bw_catalogue_gap *gap_of(const bw_catalogue_gap *gaps, size_t n, const char *kind, const char *part)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(gaps[i].kind, kind) == 0 && strstr(gaps[i].fact, part))
            return &gaps[i];
    return NULL;
}

static size_t count(const bw_catalogue_gap *gaps, size_t n, const char *kind)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += strcmp(gaps[i].kind, kind) == 0;
    return k;
}

static void test_catalogue_gaps__lists_what_the_shipped_facts_lack(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue_scope all = {0};
    bw_catalogue_gap *gaps;
    size_t n;
    assert_int_equal(bw_catalogue_gaps(ctx, *state, &all, &gaps, &n), BW_OK);
    assert_int_equal(count(gaps, n, "localisation"), 249 - 93);
    assert_int_equal(count(gaps, n, "zone"), 4);
    assert_int_equal(count(gaps, n, "adequacy"), 0); /* every condition has its word */
    assert_int_equal(count(gaps, n, "confidence"), 20 + 14 + 3);
    assert_true(count(gaps, n, "foreign-access") > 200);
    const bw_catalogue_gap *g = gap_of(gaps, n, "localisation", "AD (Andorra)");
    assert_non_null(g);
    assert_non_null(strstr(g->why, "yet it lies in fadp-adequate, gdpr-adequate, uk-adequate"));
    assert_non_null(strstr(g->put, "/localisation/-: {\"country\":\"AD\""));
    assert_non_null(strstr(gap_of(gaps, n, "zone", "itar-proscribed")->why, "every country lies in it"));
    assert_non_null(strstr(gap_of(gaps, n, "zone", "pdpl-sa-adequate")->why, "it is empty"));
    assert_null(gap_of(gaps, n, "zone", "dpdp-restricted")); /* known to be empty */
    assert_null(gap_of(gaps, n, "localisation", "FR (France)"));
    bw_ctx_free(ctx);
}

static void test_catalogue_gaps__ask_about_what_decisions_need(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    const bw_str dpdp = BW_STR("dpdp"), sa = BW_STR("pdpl-sa"), eu = BW_STR("EU"), world = BW_STR("world"), ad = BW_STR("AD");
    bw_catalogue_gap *gaps;
    size_t n;
    bw_catalogue_scope scope = {.regimes = &dpdp, .nregimes = 1, .places = &eu, .nplaces = 1};
    assert_int_equal(bw_catalogue_gaps(ctx, *state, &scope, &gaps, &n), BW_OK);
    assert_null(gap_of(gaps, n, "zone", "pdpl-sa-adequate"));
    assert_non_null(gap_of(gaps, n, "zone", "itar-proscribed")); /* of no regime: every class may carry it */
    assert_int_equal(count(gaps, n, "localisation"), 0);
    scope.regimes = &sa;
    scope.places = &world; /* what is not known is what keeps them out */
    assert_int_equal(bw_catalogue_gaps(ctx, *state, &scope, &gaps, &n), BW_OK);
    assert_non_null(gap_of(gaps, n, "zone", "pdpl-sa-adequate"));
    assert_int_equal(count(gaps, n, "localisation"), 249 - 93);
    scope.places = &ad;
    assert_int_equal(bw_catalogue_gaps(ctx, *state, &scope, &gaps, &n), BW_OK);
    assert_int_equal(count(gaps, n, "localisation"), 1);
    bw_ctx_free(ctx);
}

static void test_catalogue_gaps__look_through_what_the_operator_says(void **state)
{
    (void)state;
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue *c = pack_catalogue(ctx,
        "{\"zones\":[{\"id\":\"itar-proscribed\",\"kind\":\"deny\",\"countries\":[\"CN\"]" SD "}],"
        "\"localisation\":[{\"country\":\"AD\",\"level\":\"conditional\"" SD "},{\"country\":\"FR\",\"level\":null" SD "}],"
        "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"IN\",\"status\":\"partial\",\"certs\":null,\"scope\":\"banks\"" SD "},"
        "{\"regime\":\"fadp\",\"country\":\"JP\",\"status\":null" SD "}],"
        "\"legal_entities\":[{\"id\":\"op\",\"seat\":\"FR\",\"control_zones\":null,\"foreign_share_max\":null,"
        "\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":null" SD "}],"
        "\"vocabulary\":{\"purposes\":[{\"word\":\"odd\",\"confidence\":\"low\"" SD "}]}}");
    bw_catalogue_scope scope = {.entities = BW_STR(
        "[{\"uid\":{\"type\":\"Bw::LegalEntity\",\"id\":\"free\"},\"attrs\":{\"seat\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},\"controlZones\":[],"
        "\"foreignShareMax\":\"1.0\",\"certs\":[]},\"parents\":[]},"
        "{\"uid\":{\"__entity\":{\"type\":\"Bw::Node\",\"id\":\"n1\"}},\"attrs\":{\"country\":{\"__entity\":{\"type\":\"Bw::Country\",\"id\":\"XK\"}},"
        "\"operator\":{\"type\":\"Bw::LegalEntity\",\"id\":\"gone\"}},\"parents\":[]},"
        "{\"uid\":{\"type\":\"Bw::Node\",\"id\":\"n2\"},\"attrs\":{\"country\":{\"type\":\"Bw::Country\",\"id\":\"FR\"},"
        "\"operator\":{\"type\":\"Bw::LegalEntity\",\"id\":\"op\"}},\"parents\":[]}, 7, {}]")};
    bw_catalogue_gap *gaps;
    size_t n;
    assert_int_equal(bw_catalogue_gaps(ctx, c, &scope, &gaps, &n), BW_OK);
    static const char *const want[][2] = {
        {"localisation", "FR (France)"}, {"adequacy", "condition of the gdpr adequacy of IN: banks"}, {"adequacy", "status of the fadp adequacy of JP"},
        {"legal-entity", "control_zones of legal entity op"}, {"legal-entity", "foreign_share_max of legal entity op"}, {"legal-entity", "certs of legal entity op"},
        {"legal-entity", "foreignShareSum of legal entity free"}, {"legal-entity", "controlZones of legal entity free, which are empty"},
        {"node", "operator gone of node n1"}, {"node", "country XK of node n1"}, {"confidence", "vocabulary purposes odd"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!gap_of(gaps, n, want[i][0], want[i][1]))
            fail_msg("no gap %s", want[i][1]);
    assert_null(gap_of(gaps, n, "zone", "itar-proscribed"));
    assert_null(gap_of(gaps, n, "localisation", "AD (Andorra)"));
    assert_null(gap_of(gaps, n, "legal-entity", "foreign_share_sum"));
    assert_null(gap_of(gaps, n, "node", "n2"));
    scope.entities = BW_STR("{}");
    assert_int_equal(bw_catalogue_gaps(ctx, c, &scope, &gaps, &n), BW_EINVALID);
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

static void test_catalogue_stale__tells_by_a_given_day(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_catalogue_gap *gaps;
    size_t n;
    assert_int_equal(bw_catalogue_stale(ctx, *state, BW_STR("2027-11-30"), 365, &gaps, &n), BW_OK);
    assert_int_equal(n, 0);
    assert_int_equal(bw_catalogue_stale(ctx, *state, BW_STR("2027-12-01"), 365, &gaps, &n), BW_OK);
    assert_true(n > 900 && count(gaps, n, "stale") == n);
    assert_int_equal(bw_catalogue_stale(ctx, *state, BW_STR("2026-11-29"), 365, &gaps, &n), BW_OK);
    assert_true(n > 900); /* dated after that day */
    assert_int_equal(bw_catalogue_stale(ctx, *state, BW_STR("2031-12-26"), 36500, &gaps, &n), BW_OK);
    assert_int_equal(n, 0);
    assert_int_equal(bw_catalogue_stale(ctx, *state, BW_STR("2031-12-27"), 36500, &gaps, &n), BW_OK);
    assert_int_equal(n, 1);
    assert_string_equal(gaps[0].kind, "expired");
    assert_non_null(strstr(gaps[0].fact, "adequacy gdpr GB"));
    static const char *const bad[] = {"", "tomorrow", "2026-02-30", "2026-11-30T00:00:00Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bw_catalogue_stale(ctx, *state, bw_str_c(bad[i]), 1, &gaps, &n), BW_EINVALID);
    bw_ctx_free(ctx);
}

/* ---- show and diff ---- */

static bw_json *shown(bw_ctx *ctx, const bw_catalogue *c, const char *name, bw_buf *b)
{
    bw_json *v = NULL;
    bw_buf_clear(b);
    if (bw_catalogue_show(ctx, c, bw_str_c(name), b) != BW_OK || bw_json_parse(ctx, bw_buf_view(b), BW_JSON_REQUEST, &v) != BW_OK)
        fail_msg("%s: %s", name, bw_ctx_message(ctx));
    return v;
}

static void test_catalogue_show__says_where_each_fact_comes_from(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf b = {0};
    bw_catalogue *c = pack_catalogue(ctx, "{\"localisation\":[{\"country\":\"JP\",\"level\":\"copy\"" SD "}],"
                                          "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"JP\",\"remove\":true,\"source\":\"court\",\"date\":\"2026-12-01\"}]}");
    const bw_json *v = shown(ctx, c, "JP", &b);
    assert_true(bw_str_is(bw_json_get(v, "kind")->str, "country"));
    assert_non_null(strstr(b.ptr, "\"lies_in\":[\"dual-use-eu001\",\"itar-proscribed\",\"uk-adequate-conditional\",\"world\"]"));
    assert_non_null(strstr(b.ptr, "{\"table\":\"localisation\",\"from\":\"overlay\",\"fact\":{\"country\":\"JP\",\"date\":\"2026-11-30\",\"level\":\"copy\",\"source\":\"s\"}}"));
    assert_non_null(strstr(b.ptr, "{\"table\":\"countries\",\"from\":\"shipped\",\"fact\":{\"alpha3\":\"JPN\""));
    assert_non_null(strstr(b.ptr, "\"removed\":[{\"table\":\"adequacy\",\"from\":\"overlay\",\"fact\":{\"country\":\"JP\",\"date\":\"2026-12-01\""));
    for (const bw_json *f = bw_json_get(v, "facts")->child; f; f = f->next)
        assert_true(bw_json_get(bw_json_get(f, "fact"), "source") && bw_json_get(bw_json_get(f, "fact"), "date"));
    v = shown(ctx, c, "gdpr-adequate-conditional", &b);
    assert_int_equal(bw_json_get(v, "countries")->count, 3);
    assert_non_null(strstr(b.ptr, "\"decision\":\"2002/2/EC\""));
    v = shown(ctx, *state, NULL, &b);
    assert_true(bw_json_get(v, "facts")->count > 900 && bw_json_get(v, "removed")->count == 0);
    assert_int_equal(bw_json_get(v, "zones")->count, 19);
    bw_buf_clear(&b);
    assert_int_equal(bw_catalogue_show(ctx, c, BW_STR("Japon"), &b), BW_ENOTFOUND);
    assert_int_equal(bw_catalogue_show(ctx, c, BW_STR("JPN"), &b), BW_ENOTFOUND);
    assert_non_null(strstr(bw_ctx_message(ctx), "did you mean \"JP\"?"));
    bw_buf_clear(&b);
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

static void test_catalogue_diff__tells_what_an_exchange_changes(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_buf b = {0};
    size_t n;
    bw_catalogue *c = pack_catalogue(ctx,
        "{\"zones\":[{\"id\":\"club\",\"kind\":\"group\",\"in\":[\"gdpr-adequate\"],\"countries\":[\"IN\"]" SD "}],"
        "\"localisation\":[{\"country\":\"BR\",\"level\":\"strict\"" SD "}],"
        "\"foreign_access\":[{\"country\":\"AD\",\"law\":\"l\",\"extraterritorial\":true" SD "}],"
        "\"adequacy\":[{\"regime\":\"gdpr\",\"country\":\"US\",\"remove\":true" SD "},"
        "{\"regime\":\"gdpr\",\"country\":\"JP\",\"status\":\"partial\",\"certs\":[\"appi\",\"dpf\"]" SD "}],"
        "\"legal_entities\":[{\"id\":\"op\",\"seat\":\"FR\",\"control_zones\":[\"FR\"],\"foreign_share_max\":\"1.0\","
        "\"foreign_share_sum\":\"1.0\",\"baa_with\":[],\"certs\":[]" SD "}],"
        "\"vocabulary\":{\"purposes\":[{\"word\":\"marketing\",\"remove\":true" SD "}]}}");
    assert_int_equal(bw_catalogue_diff(ctx, *state, *state, &b, &n), BW_OK);
    assert_true(n == 0 && bw_str_is(bw_buf_view(&b), "[]"));
    bw_buf_clear(&b);
    assert_int_equal(bw_catalogue_diff(ctx, *state, c, &b, &n), BW_OK);
    static const char *const want[] = {
        "{\"change\":\"changed\",\"what\":\"foreign-access\",\"name\":\"AD\",\"from\":\"unknown\",\"to\":\"extraterritorial\"}",
        "{\"change\":\"changed\",\"what\":\"localisation\",\"name\":\"BR\",\"from\":\"conditional\",\"to\":\"strict\"}",
        "{\"change\":\"gained\",\"what\":\"country\",\"name\":\"IN\",\"zone\":\"club\"}",
        "{\"change\":\"gained\",\"what\":\"country\",\"name\":\"IN\",\"zone\":\"gdpr-adequate\"}",
        "{\"change\":\"changed\",\"what\":\"condition\",\"name\":\"JP\",\"from\":\"appi\",\"to\":\"appi,dpf\"}",
        "{\"change\":\"lost\",\"what\":\"country\",\"name\":\"US\",\"zone\":\"gdpr-adequate-conditional\"}",
        "{\"change\":\"new\",\"what\":\"zone\",\"name\":\"club\"}",
        "{\"change\":\"gained\",\"what\":\"zone\",\"name\":\"club\",\"zone\":\"gdpr-adequate\"}",
        "{\"change\":\"new\",\"what\":\"legal-entity\",\"name\":\"op\"}",
        "{\"change\":\"gone\",\"what\":\"word\",\"name\":\"marketing\",\"kind\":\"purposes\"}"};
    assert_int_equal(n, sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!memmem(b.ptr, b.len, want[i], strlen(want[i])))
            fail_msg("no %s in %.*s", want[i], (int)b.len, b.ptr);
    bw_buf_clear(&b);
    assert_int_equal(bw_catalogue_diff(ctx, c, *state, &b, &n), BW_OK);
    assert_int_equal(n, sizeof want / sizeof *want); /* the way back has as many steps */
    bw_buf_clear(&b);
    bw_catalogue_free(c);
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalogue__puts_each_country_where_the_law_does),
        cmocka_unit_test(test_catalogue__counts_what_the_facts_count),
        cmocka_unit_test(test_catalogue_in__follows_the_entities),
        cmocka_unit_test(test_catalogue__knows_every_place_that_a_pack_names),
        cmocka_unit_test(test_catalogue_gaps__lists_what_the_shipped_facts_lack),
        cmocka_unit_test(test_catalogue_gaps__ask_about_what_decisions_need),
        cmocka_unit_test(test_catalogue_gaps__look_through_what_the_operator_says),
        cmocka_unit_test(test_catalogue_stale__tells_by_a_given_day),
        cmocka_unit_test(test_catalogue_show__says_where_each_fact_comes_from),
        cmocka_unit_test(test_catalogue_diff__tells_what_an_exchange_changes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
