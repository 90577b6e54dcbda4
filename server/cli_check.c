/* audit verify, doctor: what an operator runs beside a cell.
 * None of them needs a key or changes anything, but for doctor's question to a running
 * cell. */
#include "cli.h"
#include "cli_policy.h"
#include "client.h"
#include "files.h"
#include "harden.h"
#include "labelling.h"
#include "v1.h"
#include "../engine/index/cuvs.h"
#include "../engine/index/gpu_load.h"
#include "../engine/kernels/code4.h"
#include "../engine/kernels/fastscan.h"
#include <errno.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- audit ---- */

static const char audit_usage[] =
    "Usage: bailiwick audit verify (--data DIR | FOLDER) [--expect SEQ:HASH]\n"
    "Checks every event's hash and order, offline and without a key. --expect: a "
    "number and hash\n"
    "noted earlier (GET /v1/audit tells the head), so that a cut end shows as well.\n";

static bool parse_expect(const char *text, uint64_t *seq, uint8_t hash[BW_AUDIT_HASH])
{
    uint64_t n = 0;
    size_t got = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*c - '0'), &n))
            return false;
    *seq = n;
    return *c == ':' && n > 0 && strlen(c + 1) == 2 * BW_AUDIT_HASH &&
           sodium_hex2bin(hash, BW_AUDIT_HASH, c + 1, strlen(c + 1), NULL, &got,
                          NULL) == 0 &&
           got == BW_AUDIT_HASH;
}

int bw_cli_audit(int argc, char **argv)
{
    const char *dir = NULL, *data = NULL;
    uint64_t seq = 0;
    uint8_t hash[BW_AUDIT_HASH] = {0};
    bw_audit_report rep;
    char hex[2 * BW_AUDIT_HASH + 1];
    if (bw_cli_help(argc, argv))
        return bw_cli_say(audit_usage, sizeof audit_usage - 1);
    if (argc < 2 || strcmp(argv[1], "verify") != 0)
        return bw_cli_usage(audit_usage);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            data = argv[++i];
        else if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc &&
                 parse_expect(argv[i + 1], &seq, hash))
            i++;
        else if (argv[i][0] != '-' && !dir)
            dir = argv[i];
        else
            return bw_cli_wrong(argc, argv, i, 0, audit_usage);
    }
    if (!dir == !data)
        return bw_cli_missing("audit", "one of --data and FOLDER (not both) is", audit_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    if (ctx && data)
        dir = bw_path_join(ctx, data, "audit");
    int code = 0;
    if (ctx && dir && !bw_file_exists(dir)) {
        (void)bw_fail(ctx, BW_ENOTFOUND, "%s: no such folder", dir);
        code = bw_cli_fail(ctx, "audit verify");
    } else if (!ctx || !dir || sodium_init() < 0 ||
        bw_audit_verify(ctx, dir, seq, hash, &rep) != BW_OK) {
        code = bw_cli_fail(ctx, "audit verify");
    } else {
        sodium_bin2hex(hex, sizeof hex, rep.head, sizeof rep.head);
        (void)printf("%llu events in %llu file(s) hold; head %llu:%s\n",
                     (unsigned long long)rep.events, (unsigned long long)rep.files,
                     (unsigned long long)rep.last_seq, hex);
    }
    bw_ctx_free(ctx);
    return code;
}

/* ---- doctor ---- */

static const char doctor_usage[] =
    "Usage: bailiwick doctor --data DIR [--config FILE]\n"
    "       bailiwick doctor --url URL --key-file FILE [--ca FILE] [--purpose P]\n"
    "The first looks at a data folder; the second asks a running cell what this key "
    "may do with\n"
    "its own default labels, and why not; and what it may query for which purpose.\n";

static int problems;

static void note(bool ok, const char *what, const char *more)
{
    (void)printf("%-5s %s%s%s\n", ok ? "ok" : "FAIL", what, more[0] ? ": " : "", more);
    problems += !ok;
}

static void check_machine(bw_ctx *ctx, const bw_config *c)
{
    struct rlimit rl = {0, 0};
    struct statvfs fs;
    const char *dir = bw_arena_cstr(ctx, c->data_folder);
    rlim_t want = (rlim_t)(c->connections + c->open_partitions * 3 + 256);
    note(sqlite3_libversion_number() >= 3040000, "SQLite is 3.40 or newer",
         sqlite3_libversion());
    note(getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_max >= want,
         "enough open files may be had", "");
    bool space = dir && statvfs(dir, &fs) == 0 &&
                 (uint64_t)fs.f_bavail * fs.f_frsize > (uint64_t)1 << 30;
    note(space, "more than 1 GiB is free where the data stands", "");
}

static void check_folder(bw_ctx *ctx, const char *dir)
{
    static const char *const files[] = {"secrets/keys", "secrets/subjects"};
    struct stat st;
    bw_keys *keys = NULL;
    bw_audit_report rep;
    static const uint8_t none[BW_AUDIT_HASH];
    bw_status s = bw_folder_check(ctx, dir, false);
    note(s == BW_OK, "the folder was made by init",
         s == BW_OK ? "" : bw_ctx_message(ctx));
    for (size_t i = 0; i < 2; i++) {
        const char *path = bw_path_join(ctx, dir, files[i]);
        note(path && stat(path, &st) == 0 && (st.st_mode & 077) == 0,
             "a secret is its owner's alone", files[i]);
    }
    s = bw_keys_open(ctx, dir, &keys);
    note(s == BW_OK, "keys.json reads", s == BW_OK ? "" : bw_ctx_message(ctx));
    bw_keys_close(keys);
    const char *audit = bw_path_join(ctx, dir, "audit");
    if (audit && bw_file_exists(audit)) {
        s = bw_audit_verify(ctx, audit, 0, none, &rep);
        note(s == BW_OK, "the audit log's chain holds",
             s == BW_OK ? "" : bw_ctx_message(ctx));
    }
}

static void check_policies(bw_ctx *ctx, bw_config *c, const char *dir)
{
    bw_policy_bench b = {0};
    bw_str text;
    const char *file = bw_path_join(ctx, dir, "policies.cedar");
    bw_status s = file ? bw_policy_bench_open(ctx, c, dir, &b) : bw_fail_nomem(ctx);
    if (s == BW_OK)
        s = bw_file_read(ctx, file, BW_POLICIES_BYTES_MAX, &text);
    if (s == BW_OK)
        s = bw_policy_bench_try(ctx, &b, text);
    note(s == BW_OK, "the policies in force are accepted",
         s == BW_OK ? "" : bw_ctx_message(ctx));
    if (b.catalogue) {
        bw_rules *rules = NULL;
        note(bw_catalogue_has_country(b.catalogue, c->cell_country),
             "cell.country is in the catalogue", "");
        s = bw_labelling_rules(ctx, c, b.catalogue, &rules);
        note(s == BW_OK, "the label rules of ingest are accepted",
             s == BW_OK ? "" : bw_ctx_message(ctx));
        bw_rules_free(rules);
    }
    bw_policy_bench_close(&b);
}

/* Which level of instructions searches take; BW_ISA may force a lower one. */
static void check_cpu(void)
{
    (void)printf("      CPU: %s kernels, %s for 4-bit codes, %s for graphs\n",
                 bw_kernels_get()->isa, bw_code4_get()->isa, bw_fastscan_get()->isa);
}

/* What a GPU would be used with, and why not. A cell without one is in order; a module
 * that is there and refused is not. */
static void check_gpu(bw_ctx *ctx)
{
    char text[BW_GPU_TEXT_MAX];
    uint32_t reason;
    const bw_gpu_module *m = bw_gpu_load(&reason, text);
    bw_gpu_probe *p = m ? bw_arena_calloc(ctx, 1, sizeof *p) : NULL;
    if (!p) {
        if (reason == BW_GPU_BAD_MODULE)
            note(false, "the GPU module may be loaded", text);
        else
            (void)printf("      GPU: %s; the CPU searches\n", text);
        return;
    }
    m->probe(p);
    (void)printf("      GPU: %s%s\n", p->text,
                 p->reason == BW_GPU_READY ? "" : "; the CPU searches");
    for (uint32_t i = 0; i < p->ndevices; i++) {
        const bw_gpu_device *d = &p->devices[i];
        (void)printf("      GPU %u: %s, compute capability %u.%u, %llu of %llu MiB free, driver for "
                     "CUDA %u.%u: %s\n",
                     d->index, d->name, d->cc_major, d->cc_minor,
                     (unsigned long long)(d->memory_free >> 20),
                     (unsigned long long)(d->memory_total >> 20), d->driver / 1000,
                     d->driver % 1000 / 10, bw_gpu_reason_text(d->reason));
    }
}

/* For collections that ask for cuVS; one line says what is missing. */
static void check_cuvs(void)
{
    char text[BW_CUVS_TEXT_MAX];
    bw_log_set_level(BW_LOG_ERROR); /* the line below says what the log would */
    const bool ready = bw_cuvs_probe(text) == BW_CUVS_READY;
    bw_log_set_level(BW_LOG_INFO);
    (void)printf("      cuVS: %s%s\n", text,
                 ready ? "" : "; collections with the index cuvs-cagra are scanned");
}

static void doctor_folder(bw_ctx *ctx, bw_cli_settings *set)
{
    bw_config c;
    bw_status s = bw_cli_config(ctx, set, &c);
    note(s == BW_OK, "the configuration reads", s == BW_OK ? "" : bw_ctx_message(ctx));
    if (s != BW_OK)
        return;
    s = bw_config_check_serve(ctx, &c);
    note(s == BW_OK, "the configuration may serve",
         s == BW_OK ? "" : bw_ctx_message(ctx));
    check_machine(ctx, &c);
    check_cpu();
    if (bw_str_is(c.gpu, "auto"))
        check_gpu(ctx);
    else
        (void)printf("      GPU: switched off by data.gpu; the CPU searches\n");
    bw_cuvs_switch(bw_str_is(c.gpu, "auto"));
    check_cuvs();
    check_folder(ctx, set->data);
    check_policies(ctx, &c, set->data);
    if (c.model_folder.len > 0) {
        const char *dir = bw_arena_cstr(ctx, c.model_folder);
        const char *model = dir ? bw_path_join(ctx, dir, "model.safetensors") : NULL;
        note(model && bw_file_exists(model), "the model folder has its weights", "");
    } else {
        (void)printf("      no model.folder is set: `ingest` and dense or hybrid `query` are "
                     "refused\n");
    }
}

static void ask_action(bw_ctx *ctx, bw_client *client, const char *action,
                       bw_str labels)
{
    const bw_json *a;
    char line[400];
    const char *body = bw_arena_printf(ctx, "{\"action\":\"%s\",\"labels\":%.*s}",
                                       action, (int)labels.len, labels.ptr);
    bw_status s =
        body ? bw_client_json(ctx, client, "POST", "/v1/authorize", bw_str_c(body), &a)
             : BW_ENOMEM;
    if (s != BW_OK) {
        note(false, action, bw_ctx_message(ctx));
        return;
    }
    const bw_json *decision = bw_json_get(a, "decision"),
                  *policies = bw_json_get(a, "policies");
    bw_str p = policies ? policies->raw : BW_STR("[]");
    (void)snprintf(line, sizeof line, "by %.*s", (int)(p.len < 300 ? p.len : 300),
                   p.ptr);
    note(decision && decision->kind == BW_JSON_STRING &&
             bw_str_is(decision->str, "allow"),
         action, line);
}

/* How many classes of data the key may ask for under a purpose (NULL: as it comes). */
static void count_classes(bw_ctx *ctx, const bw_client_options *o, const char *purpose)
{
    bw_client_options as = *o;
    bw_client *client = NULL;
    const bw_json *answer;
    if (purpose)
        as.purpose = purpose;
    bw_status s = bw_client_open(ctx, &as, &client);
    if (s == BW_OK)
        s = bw_client_json(ctx, client, "GET", "/v1/classes", (bw_str){NULL, 0}, &answer);
    const bw_json *classes = s == BW_OK ? bw_json_get(answer, "classes") : NULL;
    if (s == BW_OK)
        (void)printf("      %s%s: %u of the stored label sets may be queried\n",
                     purpose ? "for the purpose " : "as asked", purpose ? purpose : "",
                     classes ? classes->count : 0u);
    else
        (void)printf("      %s: %s\n", purpose ? purpose : "as asked",
                     bw_ctx_message(ctx));
    bw_client_close(client);
}

/* Why a query may come back empty: data kept for a purpose is shown for it alone. */
static void doctor_purposes(bw_ctx *ctx, const bw_client_options *o, const bw_json *who)
{
    const bw_json *claimed = bw_json_get(who, "purpose"), *e = NULL;
    const bw_json *own = bw_json_get(bw_json_get(who, "key"), "purposes");
    bool none = claimed && bw_str_is(claimed->str, "");
    if (none)
        (void)printf("      no purpose is claimed (--purpose or x-bailiwick-purpose, else "
                     "the key's default):\n"
                     "      data that is kept for a purpose stays hidden\n");
    count_classes(ctx, o, NULL);
    if (!none || !own || bw_json_elements(ctx, own, &e) != BW_OK)
        return;
    for (; e; e = e->next) {
        const char *p = bw_arena_cstr(ctx, e->str);
        if (p)
            count_classes(ctx, o, p);
    }
}

static void doctor_cell(bw_ctx *ctx, const bw_client_options *o)
{
    static const char *const actions[] = {"Query", "Store", "Delete", "Relabel"};
    bw_client *client = NULL;
    const bw_json *who;
    bw_status s = bw_client_open(ctx, o, &client);
    if (s == BW_OK)
        s = bw_client_json(ctx, client, "GET", "/v1/whoami", (bw_str){NULL, 0}, &who);
    note(s == BW_OK, "the cell answers and knows the key", s == BW_OK ? "" : bw_ctx_message(ctx));
    const bw_json *labels =
        s == BW_OK ? bw_json_get_value(bw_json_get(who, "key"), "labels") : NULL;
    if (s == BW_OK)
        (void)printf("      %.*s\n", (int)(who->raw.len < 1000 ? who->raw.len : 1000),
                     who->raw.ptr);
    if (s == BW_OK)
        doctor_purposes(ctx, o, who);
    if (s == BW_OK && !labels)
        (void)printf("      the key has no default labels: writes must say _labels\n");
    for (size_t i = 0; labels && i < 4; i++)
        ask_action(ctx, client, actions[i], labels->raw);
    bw_client_close(client);
}

int bw_cli_doctor(int argc, char **argv)
{
    bw_cli_settings set = {0};
    bw_client_options client = {0};
    if (bw_cli_help(argc, argv))
        return bw_cli_say(doctor_usage, sizeof doctor_usage - 1);
    for (int i = 1; i < argc;) {
        int n = bw_cli_setting(&set, argc, argv, i);
        if (n == 0)
            n = bw_client_option(&client, argc, argv, i);
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, doctor_usage);
        i += n;
    }
    bool remote = client.url || client.key_file;
    if (!set.data == !remote)
        return bw_cli_missing("doctor", "one of --data and --url (not both) is",
                              doctor_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx || bw_harden(ctx) != BW_OK)
        return bw_cli_fail(ctx, "doctor");
    if (remote)
        doctor_cell(ctx, &client);
    else
        doctor_folder(ctx, &set);
    bw_ctx_free(ctx);
    return problems > 0;
}
