/* bailiwick ingest DIR: puts a folder of documents into a running cell over /v1/ingest.
 *
 * The source of a document is its path under DIR with '/' between parts, after --prefix and
 * a '/' if one is given. --mirror takes out of the collection what is below the prefix and
 * no longer in the folder, once every file was looked at. Labels come
 * from --label, and over them from the first rule of the rules file that holds
 * (ingest/rules.h: `match`, `media`, `labels` or `skip`; what is about the text, or
 * raises, is the cell's own `ingest.rules`). What a
 * document says about itself never sets a label. Idempotent by content, so a run that
 * was broken off is resumed by running it again. Links are not followed, names that
 * begin with '.' and kinds that cannot be read are skipped. Exit code: 0 all stored or
 * unchanged, 1 something failed, 2 wrong use, 3 nothing failed but the cell refused
 * documents (a policy's 451, or a 422). */
#include "../ingest/rules.h"
#include "cli.h"
#include "cli_mirror.h"
#include "cli_words.h"
#include "client.h"
#include "files.h"
#include "harden.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH_MAX = 64,
    FILES_MAX = 1000000,
    FILE_BYTES_MAX = 23 << 20, /* base64 of it fits into the cell's largest body */
    FACTS_MAX = BW_RULES_METADATA_MAX,
    REFUSALS_SHOWN_MAX = 200,
    BAR_WIDTH = 30
};

static const char usage[] =
    "Usage: bailiwick ingest DIR --collection C [--label name=value]… [--rules FILE]\n"
    "                 [--metadata key=value]… [--prefix P [--mirror]] [--dry-run] [--no-create]\n"
    "                 [--url URL] [--key-file FILE] [--ca FILE] [--purpose P]\n"
    "  --label       regimes, residency, categories, labels, purposes: values with "
    "commas;\n"
    "                sensitivity: 0 to 5; legal_hold: true or false; tenant: a name\n"
    "  --rules       labels by path: {\"rules\": [{\"match\": GLOB, \"labels\": "
    "{…}}]};\n"
    "                also \"media\": TYPE, and \"skip\": true in place of labels\n"
    "  --metadata    a fact about all these documents, for the cell's own rules\n"
    "  --prefix      a name for this folder: documents are called P/path\n"
    "  --mirror      documents P/… that are no longer in the folder are deleted\n"
    "  --dry-run     says what would be done, with the labels; stores and deletes nothing\n"
    "  --no-create   the collection must be there\n"
    "Exit code: 0 done, 1 failed, 2 wrong use, 3 done but some documents were "
    "refused.\n";

typedef struct files {
    const char **paths; /* relative to the folder; sorted */
    size_t n, cap;
} files;

typedef struct job {
    bw_ctx *ctx;     /* lives as long as the run */
    bw_ctx *scratch; /* of one file */
    bw_client *client;
    bw_client_options connect;
    const char *folder, *collection;
    int folder_fd; /* every file and folder is opened below it, over no link */
    bw_label_words labels;
    const char *rules_file;
    bw_rules *rules; /* NULL: none */
    const char *facts[FACTS_MAX]; /* key=value */
    size_t nfacts;
    const char *prefix; /* of sources, or NULL */
    bool no_create, terminal, dry_run, mirror;
    uint64_t begun_ns;
    files files;
    size_t deleted, stored, unchanged, skipped, refused, failed, chunks;
    const char *refusals[REFUSALS_SHOWN_MAX];
    size_t nrefusals;
} job;

/* ---- rules ---- */

static bw_status read_rules(job *j)
{
    bw_str text = {NULL, 0};
    if (!j->rules_file)
        return BW_OK;
    bw_status s = bw_file_read(j->ctx, j->rules_file, BW_RULES_BYTES_MAX, &text);
    if (s)
        return s;
    s = text.len ? bw_rules_new(j->ctx, text, BW_RULES_CLIENT, NULL, &j->rules)
                 : bw_fail(j->ctx, BW_EINVALID, "the file is empty");
    const char *why = s ? bw_arena_printf(j->ctx, "%s", bw_ctx_message(j->ctx)) : NULL;
    const char *at = s ? bw_arena_printf(j->ctx, "%s", bw_ctx_pointer(j->ctx)) : NULL;
    return why && at ? bw_fail(j->ctx, s, "%s: %s: %s", j->rules_file, at, why) : s;
}

static bw_status rule_of(job *j, const char *path, const bw_rule **out)
{
    const bw_rule_subject about = {.source = bw_str_c(path),
                                   .media = bw_media_from_name(bw_str_c(path))};
    bool later;
    *out = NULL;
    return j->rules ? bw_rules_base(j->ctx, j->rules, &about, out, &later) : BW_OK;
}

/* ---- the folder ---- */

static bw_status add_file(job *j, const char *path)
{
    files *f = &j->files;
    if (f->n == FILES_MAX)
        return bw_fail(j->ctx, BW_EINVALID, "more than %d files", FILES_MAX);
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 256;
        const char **p =
            bw_arena_grow(j->ctx, f->paths, f->n * sizeof *p, cap * sizeof *p);
        if (!p)
            return bw_fail_nomem(j->ctx);
        f->paths = p;
        f->cap = cap;
    }
    f->paths[f->n++] = path;
    return BW_OK;
}

/* Folders still to read: their paths and how deep they lie. */
typedef struct pending {
    const char *path[4096];
    unsigned depth[4096];
    size_t n;
} pending;

static bw_status take_entry(job *j, pending *todo, const char *dir, unsigned depth,
                            int fd, const char *name)
{
    struct stat st;
    if (name[0] == '.')
        return BW_OK;
    const char *path = *dir ? bw_arena_printf(j->ctx, "%s/%s", dir, name)
                            : bw_arena_printf(j->ctx, "%s", name);
    if (!path)
        return bw_fail_nomem(j->ctx);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return bw_fail_errno(j->ctx, "a file of the folder", errno);
    if (S_ISREG(st.st_mode))
        return add_file(j, path);
    if (!S_ISDIR(st.st_mode))
        return BW_OK; /* links, devices */
    if (depth == DEPTH_MAX || todo->n == sizeof todo->path / sizeof *todo->path)
        return bw_fail(j->ctx, BW_EINVALID, "folders too deep or too many");
    todo->depth[todo->n] = depth + 1;
    todo->path[todo->n++] = path;
    return BW_OK;
}

static bw_status read_folder(job *j, pending *todo, const char *dir, unsigned depth)
{
    int fd = bw_open_below(j->folder_fd, *dir ? dir : ".", O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        bw_status failed = bw_fail_errno(j->ctx, *dir ? dir : "folder", errno);
        if (fd >= 0)
            close(fd);
        return failed;
    }
    bw_status s = BW_OK;
    for (struct dirent *e; !s && (e = readdir(d)) != NULL;)
        s = take_entry(j, todo, dir, depth, fd, e->d_name);
    closedir(d);
    return s;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bw_status list_files(job *j)
{
    static pending todo;
    todo.n = 0;
    j->folder_fd = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->folder_fd < 0)
        return bw_fail(j->ctx, BW_EIO, "%s: %s", j->folder, strerror(errno));
    bw_status s = read_folder(j, &todo, "", 0);
    while (!s && todo.n > 0) {
        todo.n--;
        s = read_folder(j, &todo, todo.path[todo.n], todo.depth[todo.n]);
    }
    if (!s && j->files.n)
        qsort(j->files.paths, j->files.n, sizeof *j->files.paths, by_text);
    return s;
}

/* ---- one document ---- */

static void draw_bar(const job *j, size_t done, const char *path)
{
    char bar[BAR_WIDTH + 1], name[48], pace[64] = "";
    const double seconds = (double)(bw_clock_mono_ns() - j->begun_ns) * 1e-9;
    if (done > 0 && seconds > 1)
        (void)snprintf(pace, sizeof pace, ", %.1f/s, %.0f s left", (double)done / seconds,
                       seconds / (double)done * (double)(j->files.n - done));
    size_t full = j->files.n ? done * BAR_WIDTH / j->files.n : BAR_WIDTH;
    for (size_t i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    bw_cli_plain(path, strlen(path), name, sizeof name);
    (void)fprintf(stderr, "\r\033[K[%s] %zu/%zu %s%s", bar, done, j->files.n, name, pace);
    (void)fflush(stderr);
}

/* One line an outcome, in order on stdout; beside a bar only what a person has to see.
 */
static void report(job *j, const char *word, const char *path, const char *detail,
                   bool important)
{
    char name[512], text[512];
    bw_cli_plain(path, strlen(path), name, sizeof name);
    bw_cli_plain(detail, strlen(detail), text, sizeof text);
    if (j->terminal && !important)
        return;
    if (j->terminal)
        (void)fprintf(stderr, "\r\033[K");
    (void)fprintf(j->terminal ? stderr : stdout, "%-9s %s%s%s\n", word, name,
                  *text ? ": " : "", text);
}

static void put_facts(const job *j, bw_buf *b)
{
    bw_json_put_key(b, "metadata");
    bw_buf_putc(b, '{');
    for (size_t i = 0; i < j->nfacts; i++) {
        size_t n = strcspn(j->facts[i], "=");
        bw_json_sep(b);
        bw_json_put_str(b, (bw_str){j->facts[i], n});
        bw_buf_putc(b, ':');
        bw_json_put_str(b, bw_str_c(j->facts[i] + n + 1));
    }
    bw_buf_putc(b, '}');
}

static bw_status request_body(job *j, const char *path, const bw_rule *r, bw_str bytes,
                              bw_buf *b)
{
    size_t n = sodium_base64_encoded_len(bytes.len, sodium_base64_VARIANT_ORIGINAL);
    char *base64 = bw_alloc(n);
    if (!base64)
        return bw_fail_nomem(j->scratch);
    sodium_bin2base64(base64, n, (const unsigned char *)bytes.ptr, bytes.len,
                      sodium_base64_VARIANT_ORIGINAL);
    bw_buf_puts(b, "{\"collection\":");
    bw_json_put_str(b, bw_str_c(j->collection));
    bw_json_put_key(b, "source");
    const char *source = j->prefix ? bw_arena_printf(j->scratch, "%s/%s", j->prefix, path)
                                   : path;
    bw_json_put_str(b, bw_str_c(source ? source : path));
    if (j->dry_run) {
        bw_json_put_key(b, "dry_run");
        bw_buf_puts(b, "true");
    }
    bw_json_put_key(b, "create");
    bw_buf_puts(b, j->no_create ? "false" : "true");
    if (j->labels.n || (r && r->labels)) {
        bw_json_put_key(b, "labels");
        bw_label_words_put(&j->labels, r ? r->labels : NULL, b);
    }
    if (j->nfacts)
        put_facts(j, b);
    bw_json_put_key(b, "content_base64");
    bw_buf_putc(b, '"');
    bw_buf_put(b, base64, n - 1);
    bw_buf_puts(b, "\"}");
    bw_free(base64);
    return b->failed || !source ? bw_fail_nomem(j->scratch) : BW_OK;
}

static void refused(job *j, const char *path, int http, const char *why)
{
    char detail[300];
    (void)snprintf(detail, sizeof detail, "%d %.250s", http, why);
    j->refused++;
    report(j, "refused", path, detail, true);
    const char *line = j->nrefusals < REFUSALS_SHOWN_MAX
                           ? bw_arena_printf(j->ctx, "%s: %s", path, detail)
                           : NULL;
    if (line)
        j->refusals[j->nrefusals++] = line;
}

/* A dry run's line, with the labels that the document would have. */
static void would_store(job *j, const char *path, const bw_json *answer, const char *detail)
{
    const bw_json *labels = bw_json_get_value(answer, "labels");
    const char *text = bw_arena_printf(j->scratch, "%s, labels %.*s", detail,
                                       labels ? (int)labels->raw.len : 4,
                                       labels ? labels->raw.ptr : "none");
    report(j, "would", path, text ? text : detail, true);
}

/* BW_OK unless the run cannot go on. */
static bw_status judge(job *j, const char *path, int http, bw_str answer)
{
    bw_json *v = NULL;
    char detail[300] = "";
    if (bw_json_parse(j->scratch, answer, BW_JSON_REQUEST, &v) != BW_OK)
        v = NULL;
    if (http == 200 && v) {
        uint64_t chunks = 0;
        const bw_json *same = bw_json_get(v, "unchanged"),
                      *warning = bw_json_get_value(v, "warning");
        bool unchanged = same && same->kind == BW_JSON_TRUE;
        (void)bw_json_u64(bw_json_get(v, "chunks"), &chunks);
        j->unchanged += unchanged;
        j->stored += !unchanged;
        j->chunks += chunks;
        (void)snprintf(detail, sizeof detail, "%llu chunks%s%.*s",
                       (unsigned long long)chunks, warning ? ", " : "",
                       warning ? (int)(warning->str.len < 200 ? warning->str.len : 200)
                               : 0,
                       warning ? warning->str.ptr : "");
        if (j->dry_run && !unchanged) {
            would_store(j, path, v, detail);
            return BW_OK;
        }
        report(j, unchanged ? "unchanged" : "stored", path, detail, warning != NULL);
        return BW_OK;
    }
    const bw_json *error = bw_json_get(v, "error"),
                  *message = bw_json_get(error, "message");
    const char *why =
        message && message->kind == BW_JSON_STRING
            ? bw_arena_printf(j->scratch, "%.*s",
                              (int)(message->str.len < 250 ? message->str.len : 250),
                              message->str.ptr)
            : "no reason was given";
    why = why ? why : "";
    if (http == 451 || http == 422) {
        refused(j, path, http, why);
        return BW_OK;
    }
    if (http == 401 || http == 403 || http == 404 || http == 409)
        return bw_fail(j->ctx, BW_EDENIED, "the cell answered %d: %s", http, why);
    (void)snprintf(detail, sizeof detail, "%d %.250s", http, why);
    j->failed++;
    report(j, "failed", path, detail, true);
    return BW_OK;
}

static bw_status one_file(job *j, const char *path)
{
    const bw_rule *r;
    bw_str bytes, answer;
    int http = 0;
    bw_buf body = {0};
    bw_status s = rule_of(j, path, &r);
    if (s)
        return s;
    if ((r && r->skip) || bw_media_from_name(bw_str_c(path)) == BW_MEDIA_UNKNOWN) {
        j->skipped++;
        report(j, "skipped", path, "", false);
        return BW_OK;
    }
    if (!bw_utf8_valid(path, strlen(path)))
        s = bw_fail(j->scratch, BW_EINVALID, "the name is not UTF-8");
    if (!s)
        s = bw_file_read_below(j->scratch, j->folder_fd, path, FILE_BYTES_MAX, &bytes);
    if (!s)
        s = request_body(j, path, r, bytes, &body);
    if (s) {
        j->failed++;
        report(j, "failed", path, bw_ctx_message(j->scratch), true);
        bw_buf_clear(&body);
        return BW_OK;
    }
    for (unsigned attempt = 0; attempt < 3;
         attempt++) { /* idempotent, so trying again is safe */
        s = bw_client_call(j->scratch, j->client, "POST", "/v1/ingest",
                           bw_buf_view(&body), &http, &answer);
        if (s == BW_OK && http != 503 && http != 429)
            break;
        if (attempt < 2)
            (void)usleep(200000u << (2 * attempt));
    }
    bw_buf_clear(&body);
    return s ? bw_ctx_take_error(j->ctx, j->scratch, s) : judge(j, path, http, answer);
}

/* ---- the run ---- */

static int take_options(job *j, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int n = bw_client_option(&j->connect, argc, argv, i);
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (n < 0)
            return 2;
        if (n == 0 && strcmp(argv[i], "--no-create") == 0) {
            j->no_create = true;
            n = 1;
        } else if (n == 0 && strcmp(argv[i], "--dry-run") == 0) {
            j->dry_run = true;
            n = 1;
        } else if (n == 0 && strcmp(argv[i], "--mirror") == 0) {
            j->mirror = true;
            n = 1;
        } else if (n == 0 && strcmp(argv[i], "--prefix") == 0 && value && *value) {
            j->prefix = value;
            n = 2;
        } else if (n == 0 && strcmp(argv[i], "--collection") == 0 && value) {
            j->collection = value;
            n = 2;
        } else if (n == 0 && strcmp(argv[i], "--rules") == 0 && value) {
            j->rules_file = value;
            n = 2;
        } else if (n == 0 && strcmp(argv[i], "--metadata") == 0 && value &&
                   strchr(value, '=') && j->nfacts < FACTS_MAX) {
            j->facts[j->nfacts++] = value;
            n = 2;
        } else if (n == 0 && strcmp(argv[i], "--label") == 0 && value) {
            if (!bw_label_words_take(&j->labels, argv[i + 1]))
                return 2;
            n = 2;
        } else if (n == 0 && argv[i][0] != '-' && !j->folder) {
            j->folder = argv[i];
            n = 1;
        } else if (n == 0) {
            return bw_cli_wrong(argc, argv, i, n, usage);
        }
        i += n;
    }
    if (!j->folder || !j->collection)
        return bw_cli_missing("ingest", j->folder ? "--collection is" : "the folder is",
                              usage);
    if (j->mirror && !j->prefix) /* else it would take out what others have stored */
        return bw_cli_missing("ingest", "with --mirror, --prefix is", usage);
    return 0;
}

static void tell_gone(void *arg, const char *source, int http, const char *why)
{
    job *j = arg;
    if (http == 451) {
        refused(j, source, http, why);
        return;
    }
    j->deleted++;
    report(j, j->dry_run ? "would" : "deleted", source, j->dry_run ? "delete" : "", true);
}

static bw_status mirror(job *j)
{
    const bw_mirror m = {.collection = j->collection,
                         .prefix = j->prefix,
                         .paths = j->files.paths,
                         .npaths = j->files.n,
                         .dry_run = j->dry_run,
                         .tell = tell_gone,
                         .arg = j};
    return bw_mirror_run(j->ctx, j->client, &m);
}

static int summary(const job *j)
{
    if (j->terminal)
        (void)fprintf(stderr, "\r\033[K");
    (void)printf(
        "%zu %sstored, %zu unchanged, %zu skipped, %zu refused, %zu failed; %zu chunks\n",
        j->stored, j->dry_run ? "would be " : "", j->unchanged, j->skipped, j->refused,
        j->failed, j->chunks);
    if (j->mirror)
        (void)printf("%zu no longer in the folder %s\n", j->deleted,
                     j->dry_run ? "would be deleted" : "deleted");
    if (j->nrefusals)
        (void)printf("refused by the cell:\n");
    for (size_t i = 0; i < j->nrefusals; i++) {
        char line[600];
        bw_cli_plain(j->refusals[i], strlen(j->refusals[i]), line, sizeof line);
        (void)printf("  %s\n", line);
    }
    if (j->refused > j->nrefusals)
        (void)printf("  … and %zu more\n", j->refused - j->nrefusals);
    return j->failed ? 1 : j->refused ? 3 : 0;
}

int bw_cli_ingest(int argc, char **argv)
{
    static job j; /* large */
    if (bw_cli_help(argc, argv))
        return bw_cli_say(usage, sizeof usage - 1);
    j = (job){.ctx = bw_ctx_new(0),
              .scratch = bw_ctx_new((size_t)256 << 20),
              .folder_fd = -1,
              .connect = {.timeout_s = 3600}, /* the cell's own deadline decides */
              .terminal = isatty(STDERR_FILENO) == 1};
    int code = take_options(&j, argc, argv);
    bw_status s = j.ctx && j.scratch ? bw_harden(j.ctx) : BW_ENOMEM;
    if (code == 0 && !s) {
        s = read_rules(&j);
        if (!s)
            s = list_files(&j);
        if (!s)
            s = bw_client_open(j.ctx, &j.connect, &j.client);
        j.begun_ns = bw_clock_mono_ns();
        for (size_t i = 0; i < j.files.n && !s; i++) {
            if (j.terminal)
                draw_bar(&j, i, j.files.paths[i]);
            s = one_file(&j, j.files.paths[i]);
            bw_ctx_reset(j.scratch);
        }
        if (!s && j.mirror)
            s = mirror(&j);
        if (s && j.terminal)
            (void)fprintf(stderr, "\r\033[K");
        code = s ? bw_cli_fail(j.ctx, "ingest") : summary(&j);
    }
    if (j.folder_fd >= 0)
        (void)close(j.folder_fd);
    bw_rules_free(j.rules);
    bw_client_close(j.client);
    bw_ctx_free(j.scratch);
    bw_ctx_free(j.ctx);
    return code;
}
