/* The key store and the configuration. */
#include <server/config.h>
#include <server/files.h>
#include <server/keys.h>
#include <server/secrets.h>

#include <setjmp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    bw_ctx *ctx;
    char dir[64];
    bw_keys *keys;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_true(sodium_init() >= 0);
    f->ctx = bw_ctx_new(0);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/bw-keys-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(bw_keys_create(f->ctx, f->dir), BW_OK);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &f->keys), BW_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bw_keys_close(f->keys);
    static const char *const names[] = {"secrets/keys", "secrets", "keys.json"};
    for (size_t i = 0; i < 3; i++)
        (void)remove(bw_path_join(f->ctx, f->dir, names[i]));
    (void)rmdir(f->dir);
    bw_ctx_free(f->ctx);
    free(f);
    return 0;
}

static void reopen(fixture *f)
{
    bw_keys_close(f->keys);
    f->keys = NULL;
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &f->keys), BW_OK);
}

static bw_key_record parse(fixture *f, const char *json)
{
    bw_json *v;
    bw_key_record r;
    assert_int_equal(bw_json_parse(f->ctx, bw_str_c(json), BW_JSON_REQUEST, &v), BW_OK);
    assert_int_equal(bw_key_record_parse(f->ctx, v, &r), BW_OK);
    return r;
}

static const char ana[] =
    "{\"principal\":\"ana\",\"tenant\":\"acme\",\"seat\":\"FR\",\"clearance\":3,"
    "\"roles\":[\"editor\"],\"purposes\":[\"payroll\",\"analysis\",\"payroll\"],"
    "\"default_purpose\":\"payroll\",\"safeguards\":[\"tia\",\"scc\"],"
    "\"labels\":{\"regimes\":[\"gdpr\"]}}";

static void test_keys_add__is_kept_and_verified(void **state)
{
    fixture *f = *state;
    bw_key_record r = parse(f, ana), got;
    char text[BW_KEY_TEXT + 1], id[BW_KEY_ID + 1], wrong[BW_KEY_TEXT + 1];
    assert_int_equal(bw_keys_add(f->ctx, f->keys, &r, text, id), BW_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(bw_keys_verify(f->ctx, f->keys, bw_str_c(text), &got), BW_OK);
        assert_true(bw_str_is(got.principal, "ana") && bw_str_is(got.tenant, "acme"));
        assert_int_equal(got.clearance, 3);
        assert_int_equal(got.purposes.n, 2); /* sorted, once each */
        assert_true(bw_str_is(got.purposes.items[0], "analysis"));
        assert_true(bw_str_is(got.default_purpose, "payroll"));
        assert_true(bw_str_is(got.safeguards.items[0], "scc"));
        assert_true(bw_str_is(got.labels, "{\"regimes\":[\"gdpr\"]}"));
        reopen(f);
    }
    for (size_t i = 0; i < BW_KEY_TEXT; i++) { /* no other spelling passes */
        memcpy(wrong, text, sizeof wrong);
        wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
        assert_int_equal(bw_keys_verify(f->ctx, f->keys, bw_str_c(wrong), &got),
                         BW_EDENIED);
    }
    assert_int_equal(
        bw_keys_verify(f->ctx, f->keys, (bw_str){text, BW_KEY_TEXT - 1}, &got),
        BW_EDENIED);
    assert_int_equal(bw_keys_verify(f->ctx, f->keys, BW_STR(""), &got), BW_EDENIED);
}

static void test_keys__file_holds_no_key(void **state)
{
    fixture *f = *state;
    bw_key_record r = parse(f, ana);
    char text[BW_KEY_TEXT + 1], id[BW_KEY_ID + 1];
    bw_str file;
    assert_int_equal(bw_keys_add(f->ctx, f->keys, &r, text, id), BW_OK);
    assert_int_equal(
        bw_file_read(f->ctx, bw_path_join(f->ctx, f->dir, "keys.json"), 1 << 20, &file),
        BW_OK);
    assert_null(memmem(file.ptr, file.len, text + 4 + BW_KEY_ID, 20));
    assert_non_null(memmem(file.ptr, file.len, id, BW_KEY_ID));
}

static void test_keys_revoke__lasts(void **state)
{
    fixture *f = *state;
    bw_key_record r = parse(f, ana), got;
    char a[BW_KEY_TEXT + 1], b[BW_KEY_TEXT + 1], id_a[BW_KEY_ID + 1],
        id_b[BW_KEY_ID + 1];
    const bw_key_record *list;
    size_t n;
    assert_int_equal(bw_keys_add(f->ctx, f->keys, &r, a, id_a), BW_OK);
    assert_int_equal(bw_keys_add(f->ctx, f->keys, &r, b, id_b), BW_OK);
    assert_int_equal(bw_keys_revoke(f->ctx, f->keys, bw_str_c(id_a)), BW_OK);
    assert_int_equal(bw_keys_revoke(f->ctx, f->keys, bw_str_c(id_a)), BW_OK);
    assert_int_equal(bw_keys_revoke(f->ctx, f->keys, BW_STR("000000000000")),
                     BW_ENOTFOUND);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(bw_keys_verify(f->ctx, f->keys, bw_str_c(a), &got),
                         BW_EDENIED);
        assert_int_equal(bw_keys_verify(f->ctx, f->keys, bw_str_c(b), &got), BW_OK);
        assert_int_equal(bw_keys_list(f->ctx, f->keys, &list, &n), BW_OK);
        assert_int_equal(n, 2);
        assert_true(list[0].revoked_ns != 0 && list[1].revoked_ns == 0);
        reopen(f);
    }
}

static void test_keys_record__refuses(void **state)
{
    fixture *f = *state;
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"principal\":\"a\",\"tenant\":\"t\"}",
        "{\"principal\":\"\",\"tenant\":\"t\",\"seat\":\"FR\"}",
        "{\"principal\":\"a b\",\"tenant\":\"t\",\"seat\":\"FR\"}",
        "{\"principal\":\"a\\\"\",\"tenant\":\"t\",\"seat\":\"FR\"}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"clearance\":6}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"clearance\":-1}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"extra\":1}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"id\":"
        "\"000000000000\"}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"roles\":\"admin\"}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"roles\":[1]}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"labels\":[]}",
        "{\"principal\":\"a\",\"tenant\":\"t\",\"seat\":\"FR\",\"default_purpose\":"
        "\"x\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bw_json *v;
        bw_key_record r;
        assert_int_equal(bw_json_parse(f->ctx, bw_str_c(bad[i]), BW_JSON_REQUEST, &v),
                         BW_OK);
        assert_int_equal(bw_key_record_parse(f->ctx, v, &r), BW_EINVALID);
    }
}

static void test_keys_open__refuses_odd_secrets(void **state)
{
    fixture *f = *state;
    const char *path = bw_path_join(f->ctx, f->dir, "secrets/keys");
    bw_keys *k = NULL;
    assert_int_equal(chmod(path, 0440), 0);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &k), BW_EINVALID);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 31), 0);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &k), BW_ECORRUPT);
    assert_int_equal(truncate(path, 33), 0);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &k), BW_ECORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &k), BW_EIO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(bw_keys_open(f->ctx, f->dir, &k), BW_EIO);
    assert_int_equal(bw_secret_create(f->ctx, f->dir, "keys"), BW_OK);
    assert_int_equal(bw_secret_create(f->ctx, f->dir, "keys"), BW_EEXISTS);
    assert_null(k);
}

/* ---- configuration ---- */

static void test_config__prints_what_it_reads(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_config a, b;
    bw_buf one = {0}, two = {0};
    (void)state;
    bw_str text = BW_STR(
        "# mine\n\n cell.id = par1 \ncell.country=FR\ncell.operator = eucloud\r\n"
        "cell.certs = hds , secnumcloud-3.2\nserver.workers = 7\nserver.prefix=/base");
    assert_int_equal(bw_config_parse(ctx, text, NULL, 0, &a), BW_OK);
    assert_true(bw_str_is(a.cell_id, "par1") && bw_str_is(a.cell_operator, "eucloud"));
    assert_int_equal(a.cell_certs.n, 2);
    assert_true(bw_str_is(a.cell_certs.items[1], "secnumcloud-3.2"));
    assert_int_equal(a.workers, 7);
    bw_config_print(&a, &one);
    assert_int_equal(bw_config_parse(ctx, bw_buf_view(&one), NULL, 0, &b), BW_OK);
    bw_config_print(&b, &two);
    assert_true(bw_str_eq(bw_buf_view(&one), bw_buf_view(&two)));
    bw_config_override over = {"server.workers", "3"};
    assert_int_equal(bw_config_parse(ctx, text, &over, 1, &b), BW_OK);
    assert_int_equal(b.workers, 3);
    bw_buf_clear(&one);
    bw_buf_clear(&two);
    bw_ctx_free(ctx);
}

static void test_config__refuses(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    bw_config c;
    (void)state;
    static const char *const bad[] = {"x",
                                      "no.such = 1",
                                      "server.workers = 257",
                                      "server.workers = -1",
                                      "server.workers = 1k",
                                      "server.io_threads = 65",
                                      "cell.id =",
                                      "cell.id = a b",
                                      "cell.id = a\ncell.id = b",
                                      "server.prefix = base",
                                      "server.prefix = /base/",
                                      "server.tls_cert = x",
                                      "server.proxies = example.org",
                                      "limits.body_bytes = 33554433"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bw_config_parse(ctx, bw_str_c(bad[i]), NULL, 0, &c),
                         BW_EINVALID);
    bw_ctx_free(ctx);
}

static void test_config__loopback_or_tls(void **state)
{
    bw_ctx *ctx = bw_ctx_new(0);
    (void)state;
    static const struct {
        const char *text;
        bool dev, ok;
    } rows[] = {
        {"server.listen = 127.0.0.1:0", true, true},
        {"server.listen = localhost:1", true, true},
        {"server.listen = [::1]:6333", true, true},
        {"server.listen = 0.0.0.0:6333", true, false},
        {"server.listen = [::]:6333", true, false},
        {"server.listen = 192.0.2.1:6333\nserver.proxies = 192.0.2.9", true, false},
        {"server.tls_cert = a\nserver.tls_key = b", true, false},
        {"cell.country = FR\ncell.operator = o\nserver.listen = 0.0.0.0:6333", false,
         false},
        {"cell.country = FR\ncell.operator = o\nserver.listen = "
         "0.0.0.0:1\nserver.proxies = 192.0.2.9",
         false, true},
        {"cell.country = FR\ncell.operator = o\nserver.listen = "
         "0.0.0.0:1\nserver.tls_cert=a\nserver.tls_key=b",
         false, true},
        {"cell.country = FR\ncell.operator = o", false, true},
        {"cell.country = FR", false, false},
        {"server.listen = example.org:1", true, false},
        {"server.listen = 127.0.0.1", true, false},
        {"server.listen = 127.0.0.1:65536", true, false},
        {"server.listen = ::1:6333", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bw_config c;
        assert_int_equal(bw_config_parse(ctx, bw_str_c(rows[i].text), NULL, 0, &c),
                         BW_OK);
        c.dev = rows[i].dev;
        assert_int_equal(bw_config_check_serve(ctx, &c) == BW_OK, rows[i].ok);
    }
    bw_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_add__is_kept_and_verified, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_keys__file_holds_no_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_revoke__lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_record__refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_open__refuses_odd_secrets, setup,
                                        teardown),
        cmocka_unit_test(test_config__prints_what_it_reads),
        cmocka_unit_test(test_config__refuses),
        cmocka_unit_test(test_config__loopback_or_tls),
    };
    return cmocka_run_group_tests_name("server/keys", tests, NULL, NULL);
}
