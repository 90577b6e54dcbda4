/* Power cuts: only what was synced is kept.
 *
 * A VFS copies each file into an image of the disk at the moment when its sync returns,
 * and nothing else ever gets there: an image is what a disk that loses every unsynced
 * byte would hold. A new database file appears, and a removed journal goes, only when
 * our code syncs the folder (SQLite itself syncs it for a new log, not for these).
 * Every image taken during a write must open, and show the state before or after that
 * write; the image after the acknowledgement must show it. */
#include "engine/store/failpoint.h"
#include "engine_cell.h"
#include "fault_vfs.h"
#include "rnd.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#ifndef BW_DEBUG
int main(void)
{
    puts("failpoints are in the debug build only");
    return 0;
}
#else

enum { DIM = 4, IDS = 12, WRITES = 40, IMAGES_MAX = 64 };

static cell own, *c = &own;
static char image[80]; /* the disk as it is now */
static unsigned nimages;
static bool recording;

static void copy_file(const char *from, const char *to)
{
    char buf[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
        assert_int_equal(write(out, buf, (size_t)n), n);
    close(in);
    close(out);
}

static void copy_dir(const char *from, const char *to)
{
    char a[600], b[600];
    (void)mkdir(to, 0700);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(a, sizeof a, "%s/%s", from, e->d_name);
        (void)snprintf(b, sizeof b, "%s/%s", to, e->d_name);
        struct stat sb;
        assert_int_equal(stat(a, &sb), 0);
        if (!S_ISDIR(sb.st_mode))
            copy_file(a, b);
    }
    closedir(d);
}

static void image_dir(unsigned n, char out[120])
{
    (void)snprintf(out, 120, "%s.%u", image, n);
}

static void keep_image(void)
{
    char dir[120], from[160], to[160];
    assert_true(nimages < IMAGES_MAX);
    image_dir(nimages++, dir);
    copy_dir(image, dir);
    (void)snprintf(from, sizeof from, "%s/p", image);
    (void)snprintf(to, sizeof to, "%s/p", dir);
    copy_dir(from, to);
}

static void in_image(const char *path, const char *suffix, char out[400])
{
    (void)snprintf(out, 400, "%s%s%s", image, path + strlen(c->dir), suffix);
}

static bool is_ours(const char *path)
{
    return recording && strncmp(path, c->dir, strlen(c->dir)) == 0;
}

static void on_sync(const char *path)
{
    if (!is_ours(path))
        return;
    char to[400], later[400];
    in_image(path, "", to);
    in_image(path, ".new", later);
    size_t n = strlen(path);
    bool is_new_db = strcmp(path + n - 3, ".db") == 0 && access(to, F_OK) != 0;
    copy_file(path, is_new_db ? later : to);
    keep_image();
}

static void on_remove(const char *path)
{
    if (!is_ours(path))
        return;
    char gone[400];
    in_image(path, "", gone);
    (void)unlink(gone);
}

/* The folder was synced: new names appear, old ones go. */
static bw_status on_failpoint(const char *name)
{
    if (name[0] == '/') /* a file that was synced without SQLite */
        on_sync(name);
    if (!recording || strcmp(name, "fs.synced_dir") != 0)
        return BW_OK;
    char parts[120], kept[400], real[400];
    (void)snprintf(parts, sizeof parts, "%s/p", image);
    DIR *d = opendir(parts);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(kept, sizeof kept, "%s/%.200s", parts, e->d_name);
        (void)snprintf(real, sizeof real, "%s/p/%.200s", c->dir, e->d_name);
        size_t n = strlen(kept);
        if (strcmp(kept + n - 4, ".new") == 0) {
            char named[400];
            memcpy(named, kept, n - 4);
            named[n - 4] = 0;
            assert_int_equal(rename(kept, named), 0);
        } else if (access(real, F_OK) != 0) {
            assert_int_equal(unlink(kept), 0);
        }
    }
    closedir(d);
    return BW_OK;
}

/* The points of the image as text. */
static bw_str state_of(const char *dir)
{
    cell *real = c, other = *c;
    assert_true(strlen(dir) < sizeof other.dir);
    memcpy(other.dir, dir, strlen(dir) + 1);
    c = &other;
    recording = false;
    cell_open(c);
    bw_str dump = cell_dump(c, 1, 3, DIM);
    bw_engine_close(c->engine);
    c = real;
    return dump;
}

static void random_write(rnd *r, unsigned round)
{
    bw_point p[5];
    uint32_t n = 1 + (uint32_t)rnd_below(r, 5);
    bw_point_id ids[5];
    char *payload = bw_arena_printf(c->ctx, "{\"round\":%u}", round);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = cell_point(c, 1 + (unsigned)rnd_below(r, 3), rnd_below(r, IDS), DIM,
                          "words");
        p[i].payload = bw_str_c(payload);
        ids[i] = p[i].id;
    }
    bw_access a = cell_access(c, 1, 3);
    bw_op op = {.kind = BW_OP_UPSERT, .points = p, .npoints = n};
    if (rnd_below(r, 4) == 0)
        op = (bw_op){.kind = BW_OP_DELETE, .ids = ids, .nids = n};
    bw_write_result res;
    OK(cell_write(c, &a, &op, 1, &res));
}

static void test_power__only_synced_bytes_are_needed(void **state)
{
    (void)state;
    rnd r = rnd_start("power", 3);
    bw_engine_options o = BW_ENGINE_OPTIONS_INIT;
    o.seal_rows = 20;
    o.exact_rows = 10;
    o.graphs_first = true;
    o.adopt_rows = 10;
    o.open_partitions_max = 2; /* files are closed and opened under way */
    cell_init(c, &o);
    cell_collection(c, DIM, BW_METRIC_DOT, 3);
    bw_engine_close(c->engine);
    (void)snprintf(image, sizeof image, "%s-image", c->dir);
    copy_dir(c->dir, image);
    char parts[100];
    (void)snprintf(parts, sizeof parts, "%s/p", image);
    assert_int_equal(mkdir(parts, 0700), 0);
    fault_synced = on_sync;
    fault_removed = on_remove;
    bw_failpoint_set(on_failpoint);
    recording = true;
    cell_open(c);
    unsigned looked = 0, half = 0;
    for (unsigned round = 0; round < WRITES; round++) {
        bw_str before = cell_dump(c, 1, 3, DIM);
        nimages = 0;
        recording = true;
        random_write(&r, round);
        recording = false;
        bw_str after = cell_dump(c, 1, 3, DIM);
        keep_image();
        for (unsigned i = 0; i < nimages; i++) {
            char dir[120];
            image_dir(i, dir);
            bw_str got = state_of(dir);
            bool is_after = bw_str_eq(got, after);
            if (!is_after && !bw_str_eq(got, before))
                fail_msg("write %u, image %u of %u: neither before nor after", round, i,
                         nimages);
            if (i + 1 == nimages)
                assert_true(is_after); /* acknowledged is durable */
            half += !is_after;
            looked++;
            cell_remove_dir(dir);
        }
        bw_ctx_reset(c->ctx);
    }
    print_message("%u images of %d writes, %u of them from before the commit\n", looked,
                  WRITES, half);
    assert_true(half > 10 && looked - half > 10);
    fault_synced = fault_removed = NULL;
    bw_failpoint_set(NULL);
    cell_remove_dir(image);
    cell_clear(c);
}

int main(void)
{
    fault_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power__only_synced_bytes_are_needed)};
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
#endif
