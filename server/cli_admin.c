/* init and key: a data folder's first administrator, and the life of its keys.
 *
 * key works on a running cell (--url, --key-file of an administrator: /v1/keys) or,
 * with
 * --data, straight on the folder of a cell that is stopped (its lock says so). A key is
 * printed once, or written to --out (mode 0600); it is never taken from argv. */
#include "cli.h"
#include "client.h"
#include "files.h"
#include "harden.h"
#include "secrets.h"
#include "v1.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

static const char init_usage[] =
    "Usage: bailiwick init --data DIR [--set name=value]... [--tenant NAME] [--admin "
    "ID]\n"
    "                      [--seat COUNTRY] [--admin-key-file FILE]\n"
    "Makes the folder, its secrets, bailiwick.conf (see `bailiwick config`), the "
    "policies of the\n"
    "installed pack, and one administrator (role admin) whose key is shown once or "
    "written to\n"
    "FILE. Set cell.country and cell.operator here or in bailiwick.conf before "
    "`serve`.\n";

static const char key_usage[] =
    "Usage: bailiwick key add    WHERE --principal ID --tenant NAME --seat COUNTRY "
    "[--clearance 0-5]\n"
    "                            [--roles a,b] [--purposes a,b] [--default-purpose a]\n"
    "                            [--safeguards a,b] [--labels JSON] [--out FILE]\n"
    "       bailiwick key list   WHERE\n"
    "       bailiwick key revoke WHERE --id ID\n"
    "WHERE: --url URL --key-file FILE [--ca FILE] (a running cell; FILE \"-\" is standard "
    "input), or\n"
    "       --data DIR (the folder of a cell that is stopped)\n";

/* FILE for a key (new, mode 0600) is made before the key: one that cannot be handed over
 * would be in force and nobody's. No FILE: standard output, *fd = -1. */
static bw_status out_open(bw_ctx *ctx, const char *file, int *fd)
{
    *fd = -1;
    if (file)
        *fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return file && *fd < 0
               ? bw_fail(ctx, BW_EIO, "no key was made: %s: %s", file, strerror(errno))
               : BW_OK;
}

static void out_drop(const char *file, int fd)
{
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(file);
    }
}

/* The key to the opened file, which is closed, or to standard output. */
static bw_status hand_over(bw_ctx *ctx, const char *file, int *out, const char *text)
{
    char line[BW_KEY_TEXT + 2];
    int n = snprintf(line, sizeof line, "%s\n", text);
    bw_status s = BW_OK;
    if (n < 0 || (size_t)n >= sizeof line)
        return bw_fail(ctx, BW_EINTERNAL, "a key has an odd length");
    if (*out < 0) {
        s = bw_cli_say(line, (size_t)n) == 0
                ? BW_OK
                : bw_fail(ctx, BW_EIO, "standard output is closed");
    } else {
        int err = bw_write_all(*out, line, (size_t)n);
        if (close(*out) != 0 && err == 0)
            err = errno;
        *out = -1;
        if (err != 0)
            s = bw_fail(ctx, BW_EIO, "%s: %s", file, strerror(err));
    }
    sodium_memzero(line, sizeof line);
    return s;
}

/* ---- init ---- */

typedef struct init_options {
    bw_cli_settings set;
    const char *tenant, *admin, *seat, *key_file;
} init_options;

static bw_status init_policies(bw_ctx *ctx, const char *dir, const bw_config *c)
{
    bw_pack pack;
    bw_str text, entities;
    bw_catalogue *catalogue = NULL;
    bw_authority *authority = NULL;
    const char *path = bw_path_join(ctx, dir, "policies.cedar");
    bw_status s = path ? bw_facts_open(ctx, c, dir, &pack, &catalogue, &entities)
                       : bw_fail_nomem(ctx);
    if (s == BW_OK && c->policies_file.len > 0) {
        const char *own = bw_arena_cstr(ctx, c->policies_file);
        s = own ? bw_file_read(ctx, own, BW_POLICIES_BYTES_MAX, &text)
                : bw_fail_nomem(ctx);
    } else if (s == BW_OK) {
        text = pack.policies;
    }
    if (s == BW_OK && c->cell_country.len > 0 &&
        !bw_catalogue_has_country(catalogue, c->cell_country))
        s = bw_fail(ctx, BW_EINVALID, "cell.country is not in the catalogue");
    if (s == BW_OK && c->cell_country.len > 0 &&
        c->cell_operator.len > 0) { /* a trial start */
        bw_authority_options o = {.schema = pack.schema,
                                  .policies = text,
                                  .entities = entities,
                                  .catalogue = catalogue};
        bw_config_place(c, &o.at);
        s = bw_authority_new(ctx, &o, &authority);
    }
    if (s == BW_OK)
        s = bw_file_replace(ctx, path, text, 0600);
    bw_authority_free(authority);
    bw_catalogue_free(catalogue);
    return s;
}

static bw_status init_config(bw_ctx *ctx, const char *dir, const bw_config *c)
{
    bw_buf b = {0};
    bw_config own = *c;
    const char *path = bw_path_join(ctx, dir, "bailiwick.conf");
    own.data_folder = (bw_str){NULL, 0}; /* the folder may be moved */
    bw_config_print(&own, &b);
    bw_status s = !path || b.failed ? bw_fail_nomem(ctx)
                                    : bw_file_replace(ctx, path, bw_buf_view(&b), 0600);
    bw_buf_clear(&b);
    return s;
}

static bw_status init_admin(bw_ctx *ctx, const char *dir, const bw_config *c,
                            const init_options *o, int *out)
{
    static const bw_str roles[] = {{"admin", 5}};
    bw_keys *keys = NULL;
    char text[BW_KEY_TEXT + 1], id[BW_KEY_ID + 1];
    bw_key_record r = {.principal = bw_str_c(o->admin ? o->admin : "admin"),
                       .tenant = bw_str_c(o->tenant ? o->tenant : "main"),
                       .seat = o->seat ? bw_str_c(o->seat) : c->cell_country,
                       .clearance = 5,
                       .roles = {roles, 1}};
    if (r.seat.len == 0)
        return bw_fail(
            ctx, BW_EINVALID,
            "say --seat, or --set cell.country: where the administrator sits");
    bw_status s = bw_keys_open(ctx, dir, &keys);
    if (s == BW_OK)
        s = bw_keys_add(ctx, keys, &r, text, id);
    if (s == BW_OK)
        s = hand_over(ctx, o->key_file, out, text);
    sodium_memzero(text, sizeof text);
    bw_keys_close(keys);
    return s;
}

/* A folder that a failed init made goes again, unless something stands in it by now. */
static void init_undo(bw_ctx *ctx, const char *dir)
{
    const char *path = bw_path_join(ctx, dir, "lock");
    if (path && unlink(path) == 0)
        (void)rmdir(dir);
}

static bw_status init_run(bw_ctx *ctx, init_options *o)
{
    bw_config c;
    int lock = -1, out = -1;
    const char *dir = o->set.data;
    const char *marker = bw_path_join(ctx, dir, "cell.json");
    const bool made = !bw_file_exists(dir);
    bw_status s = marker ? bw_dir_make(ctx, dir) : bw_fail_nomem(ctx);
    if (s == BW_OK && bw_file_exists(marker))
        return bw_fail(ctx, BW_EEXISTS, "%s is a data folder already", dir);
    if (s == BW_OK)
        s = bw_folder_lock(ctx, dir, &lock);
    if (s == BW_OK)
        s = bw_cli_config(ctx, &o->set, &c);
    if (s == BW_OK)
        s = out_open(ctx, o->key_file, &out);
    if (s == BW_OK)
        s = init_policies(ctx, dir, &c);
    if (s == BW_OK)
        s = bw_keys_create(ctx, dir);
    if (s == BW_OK)
        s = bw_secret_create(ctx, dir, "subjects");
    if (s == BW_OK)
        s = init_config(ctx, dir, &c);
    if (s == BW_OK)
        s = init_admin(ctx, dir, &c, o, &out);
    if (s == BW_OK)
        s = bw_folder_mark(ctx, dir,
                           false); /* last: a half-made folder is no data folder */
    out_drop(o->key_file, out);
    if (s != BW_OK && made && lock >= 0)
        init_undo(ctx, dir);
    if (lock >= 0)
        (void)close(lock);
    return s;
}

int bw_cli_init(int argc, char **argv)
{
    init_options o = {0};
    int code = 0;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(init_usage, sizeof init_usage - 1);
    for (int i = 1; i < argc;) {
        const char **at = NULL;
        int n = bw_cli_setting(&o.set, argc, argv, i);
        if (n == 0 && strcmp(argv[i], "--tenant") == 0)
            at = &o.tenant;
        else if (n == 0 && strcmp(argv[i], "--admin") == 0)
            at = &o.admin;
        else if (n == 0 && strcmp(argv[i], "--seat") == 0)
            at = &o.seat;
        else if (n == 0 && strcmp(argv[i], "--admin-key-file") == 0)
            at = &o.key_file;
        if (at && i + 1 < argc) {
            *at = argv[i + 1];
            n = 2;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, init_usage);
        i += n;
    }
    if (!o.set.data)
        return bw_cli_missing("init", "--data DIR is", init_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    if (!ctx || bw_harden(ctx) != BW_OK || init_run(ctx, &o) != BW_OK)
        code = bw_cli_fail(ctx, "init");
    else
        (void)fprintf(
            stderr, "The data folder is ready. The administrator's key %s%s.\n",
            o.key_file ? "is in " : "was shown once", o.key_file ? o.key_file : "");
    bw_ctx_free(ctx);
    return code;
}

/* ---- key ---- */

typedef struct key_options {
    bw_cli_settings set;
    bw_client_options client;
    const char *principal, *tenant, *seat, *clearance, *roles, *purposes,
        *default_purpose, *safeguards;
    const char *labels, *out, *id;
} key_options;

static const char **key_option(key_options *o, const char *name)
{
    const struct {
        const char *name;
        const char **at;
    } table[] = {{"--principal", &o->principal},
                 {"--tenant", &o->tenant},
                 {"--seat", &o->seat},
                 {"--clearance", &o->clearance},
                 {"--roles", &o->roles},
                 {"--purposes", &o->purposes},
                 {"--default-purpose", &o->default_purpose},
                 {"--safeguards", &o->safeguards},
                 {"--labels", &o->labels},
                 {"--out", &o->out},
                 {"--id", &o->id}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(name, table[i].name) == 0)
            return table[i].at;
    return NULL;
}

static void put_list(bw_buf *b, const char *name, const char *words)
{
    bw_json_put_key(b, name);
    bw_buf_putc(b, '[');
    while (words && *words) {
        size_t n = strcspn(words, ",");
        if (n > 0) {
            bw_json_sep(b);
            bw_json_put_str(b, (bw_str){words, n});
        }
        words += n + (words[n] == ',');
    }
    bw_buf_putc(b, ']');
}

static void put_word(bw_buf *b, const char *name, const char *word)
{
    if (!word)
        return;
    bw_json_put_key(b, name);
    bw_json_put_str(b, bw_str_c(word));
}

/* A role that no policy in force names is no error (roles are the operator's words), but
 * a mistyped "reader" may write. */
static void warn_of_roles(bw_ctx *ctx, const char *roles, bw_str policies)
{
    while (roles && *roles) {
        size_t n = strcspn(roles, ",");
        const char *quoted = bw_arena_printf(ctx, "\"%.*s\"", (int)n, roles);
        if (n > 0 && n < 100 && quoted &&
            !memmem(policies.ptr, policies.len, quoted, n + 2))
            (void)fprintf(stderr,
                          "bailiwick key: warning: no policy in force names the role "
                          "%.*s; it neither gives nor takes anything\n",
                          (int)n, roles);
        roles += n + (roles[n] == ',');
    }
}

/* What would be refused with a place in a body that nobody has seen. */
static bw_status check_words(bw_ctx *ctx, const key_options *o)
{
    bw_json *root;
    if (o->clearance &&
        (o->clearance[0] < '0' || o->clearance[0] > '5' || o->clearance[1] != '\0'))
        return bw_fail(ctx, BW_EINVALID, "--clearance wants a number from 0 to 5");
    if (o->labels && bw_json_parse(ctx, bw_str_c(o->labels), BW_JSON_REQUEST, &root) != BW_OK) {
        const char *why = bw_arena_printf(ctx, "%s", bw_ctx_message(ctx));
        return why ? bw_fail(ctx, BW_EINVALID, "--labels: %s", why) : bw_fail_nomem(ctx);
    }
    return BW_OK;
}

/* The record as the JSON that /v1/keys takes, so that both ways check the same. */
static bw_status key_json(bw_ctx *ctx, const key_options *o, bw_str *out)
{
    bw_buf b = {0};
    bw_status s = check_words(ctx, o);
    if (s != BW_OK)
        return s;
    bw_buf_putc(&b, '{');
    put_word(&b, "principal", o->principal);
    put_word(&b, "tenant", o->tenant);
    put_word(&b, "seat", o->seat);
    put_word(&b, "default_purpose", o->default_purpose);
    bw_json_put_key(&b, "clearance");
    bw_buf_puts(&b, o->clearance ? o->clearance : "0");
    put_list(&b, "roles", o->roles);
    put_list(&b, "purposes", o->purposes);
    put_list(&b, "safeguards", o->safeguards);
    if (o->labels) {
        bw_json_put_key(&b, "labels");
        bw_buf_puts(&b, o->labels);
    }
    bw_buf_putc(&b, '}');
    s = b.failed ? bw_fail_nomem(ctx) : bw_arena_str(ctx, bw_buf_view(&b), out);
    bw_buf_clear(&b);
    return s;
}

static bw_status key_add_local(bw_ctx *ctx, const bw_config *c, const char *dir,
                               bw_keys *keys, bw_str text, const char *file)
{
    int out = -1;
    bw_json *body;
    bw_key_record r;
    bw_pack pack;
    bw_str entities;
    bw_catalogue *catalogue = NULL;
    char key[BW_KEY_TEXT + 1], id[BW_KEY_ID + 1];
    bw_status s = bw_json_parse(ctx, text, BW_JSON_REQUEST, &body);
    if (s == BW_OK)
        s = bw_key_record_parse(ctx, body, &r);
    if (s == BW_OK)
        s = bw_facts_open(ctx, c, dir, &pack, &catalogue, &entities);
    if (s == BW_OK)
        s = bw_v1_key_check(ctx, catalogue, body, &r);
    if (s == BW_OK)
        s = out_open(ctx, file, &out);
    if (s == BW_OK)
        s = bw_keys_add(ctx, keys, &r, key, id);
    if (s == BW_OK)
        s = hand_over(ctx, file, &out, key);
    out_drop(file, out);
    if (s == BW_OK)
        (void)fprintf(stderr, "key %s was made\n", id);
    sodium_memzero(key, sizeof key);
    bw_catalogue_free(catalogue);
    return s;
}

static bw_status list_local(bw_ctx *ctx, bw_keys *keys)
{
    const bw_key_record *r;
    size_t n = 0;
    bw_buf b = {0};
    bw_status s = bw_keys_list(ctx, keys, &r, &n);
    for (size_t i = 0; i < n && s == BW_OK; i++) {
        bw_key_record_put(&b, &r[i]);
        bw_buf_putc(&b, '\n');
    }
    if (s == BW_OK && (b.failed || bw_cli_say(b.len ? b.ptr : "", b.len) != 0))
        s = bw_fail(ctx, BW_EIO, "standard output is closed");
    bw_buf_clear(&b);
    return s;
}

static bw_status key_local(bw_ctx *ctx, const char *verb, key_options *o)
{
    bw_config c;
    bw_keys *keys = NULL;
    bw_str text;
    int lock = -1;
    const char *dir = o->set.data;
    bw_status s = bw_folder_check(ctx, dir, false);
    if (s == BW_OK)
        s = bw_folder_lock(ctx, dir, &lock);
    if (s == BW_EUNAVAILABLE)
        s = bw_fail(ctx, s, "the cell is running: use --url and --key-file");
    if (s == BW_OK)
        s = bw_cli_config(ctx, &o->set, &c);
    if (s == BW_OK)
        s = bw_keys_open(ctx, dir, &keys);
    if (s == BW_OK && strcmp(verb, "add") == 0) {
        s = key_json(ctx, o, &text);
        if (s == BW_OK)
            s = key_add_local(ctx, &c, dir, keys, text, o->out);
        const char *path = s == BW_OK ? bw_path_join(ctx, dir, "policies.cedar") : NULL;
        if (path && bw_file_read(ctx, path, BW_POLICIES_BYTES_MAX, &text) == BW_OK)
            warn_of_roles(ctx, o->roles, text);
    } else if (s == BW_OK && strcmp(verb, "list") == 0) {
        s = list_local(ctx, keys);
    } else if (s == BW_OK) {
        s = o->id ? bw_keys_revoke(ctx, keys, bw_str_c(o->id))
                  : bw_fail(ctx, BW_EINVALID, "--id is missing");
    }
    bw_keys_close(keys);
    if (lock >= 0)
        (void)close(lock);
    return s;
}

static bw_status key_remote_add(bw_ctx *ctx, bw_client *client, const key_options *o)
{
    bw_str text;
    const bw_json *answer = NULL;
    int out = -1;
    bw_status s = key_json(ctx, o, &text);
    if (s == BW_OK)
        s = out_open(ctx, o->out, &out);
    if (s == BW_OK)
        s = bw_client_json(ctx, client, "POST", "/v1/keys", text, &answer);
    const bw_json *key = s == BW_OK ? bw_json_get(answer, "key") : NULL;
    const char *c =
        key && key->kind == BW_JSON_STRING ? bw_arena_cstr(ctx, key->str) : NULL;
    if (s == BW_OK)
        s = c ? hand_over(ctx, o->out, &out, c)
              : bw_fail(ctx, BW_EINTERNAL, "the cell's answer has no key");
    out_drop(o->out, out);
    if (s == BW_OK && o->roles &&
        bw_client_json(ctx, client, "GET", "/v1/policies", (bw_str){NULL, 0}, &answer) ==
            BW_OK) {
        const bw_json *set = bw_json_get(answer, "policies");
        if (set && set->kind == BW_JSON_STRING)
            warn_of_roles(ctx, o->roles, set->str);
    }
    return s;
}

static bw_status key_remote(bw_ctx *ctx, const char *verb, const key_options *o)
{
    bw_client *client = NULL;
    const bw_json *answer;
    bw_status s = bw_client_open(ctx, &o->client, &client);
    if (s == BW_OK && strcmp(verb, "add") == 0) {
        s = key_remote_add(ctx, client, o);
    } else if (s == BW_OK && strcmp(verb, "list") == 0) {
        s = bw_client_json(ctx, client, "GET", "/v1/keys", (bw_str){NULL, 0}, &answer);
        const bw_json *keys = s == BW_OK ? bw_json_get(answer, "keys") : NULL;
        for (const bw_json *k = keys ? keys->child : NULL; k; k = k->next)
            if (bw_cli_say(k->raw.ptr, k->raw.len) != 0 || bw_cli_say("\n", 1) != 0)
                s = bw_fail(ctx, BW_EIO, "standard output is closed");
    } else if (s == BW_OK && !o->id) {
        s = bw_fail(ctx, BW_EINVALID, "--id is missing");
    } else if (s == BW_OK) {
        const char *id = bw_client_escape(ctx, bw_str_c(o->id));
        const char *path = id ? bw_arena_printf(ctx, "/v1/keys/%s", id) : NULL;
        s = path ? bw_client_json(ctx, client, "DELETE", path, (bw_str){NULL, 0},
                                  &answer)
                 : bw_fail_nomem(ctx);
    }
    bw_client_close(client);
    return s;
}

int bw_cli_key(int argc, char **argv)
{
    key_options o = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    int code = 0;
    if (bw_cli_help(argc, argv))
        return bw_cli_say(key_usage, sizeof key_usage - 1);
    if (strcmp(verb, "add") != 0 && strcmp(verb, "list") != 0 &&
        strcmp(verb, "revoke") != 0)
        return bw_cli_usage(key_usage);
    for (int i = 2; i < argc;) {
        int n = bw_cli_setting(&o.set, argc, argv, i);
        if (n == 0)
            n = bw_client_option(&o.client, argc, argv, i);
        const char **at = n == 0 ? key_option(&o, argv[i]) : NULL;
        if (at && i + 1 < argc) {
            *at = argv[i + 1];
            n = 2;
        }
        if (n <= 0)
            return bw_cli_wrong(argc, argv, i, n, key_usage);
        i += n;
    }
    if (!o.set.data == !(o.client.url || o.client.key_file))
        return bw_cli_missing("key", "one of --url and --data (not both) is", key_usage);
    if (strcmp(verb, "add") == 0 && (!o.principal || !o.tenant || !o.seat))
        return bw_cli_missing("key",
                              !o.principal ? "--principal is"
                              : !o.tenant  ? "--tenant is"
                                           : "--seat is",
                              key_usage);
    if (strcmp(verb, "revoke") == 0 && !o.id)
        return bw_cli_missing("key", "--id is", key_usage);
    bw_ctx *ctx = bw_ctx_new(0);
    bw_status s = ctx ? bw_harden(ctx) : BW_ENOMEM;
    if (s == BW_OK)
        s = o.set.data ? key_local(ctx, verb, &o) : key_remote(ctx, verb, &o);
    if (s != BW_OK)
        code = bw_cli_fail(ctx, "key");
    bw_ctx_free(ctx);
    return code;
}
