"""A cell's life: start, refusals to start, TLS, keys by command line, graceful stop, a log
that cannot be written."""
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time

import pytest
from cell import BINARY, Cell

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}
PLACE = ["--set", "cell.country=FR", "--set", "cell.operator=eucloud"]


def run(*args, **kw):
    return subprocess.run([BINARY] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, **kw)


def test_cli__help_and_version():
    assert run("--version").stdout.startswith("bailiwick ")
    assert run("--help").returncode == 0
    for args in ([], ["nope"], ["serve"], ["init"], ["key"], ["key", "nope"], ["audit"], ["policy"], ["doctor"],
                 ["serve", "--nope"], ["serve", "--data"]):
        assert run(*args).returncode == 2, args
    for command in ("serve", "init", "key", "config", "policy", "audit", "doctor", "ingest", "query"):
        for words in ([command, "--help"], [command, "add", "-h"]):
            r = run(*words)
            assert r.returncode == 0 and r.stdout.startswith("Usage: bailiwick " + command) and not r.stderr, words


def test_cli__says_what_is_missing_or_wrong(tmp_path):
    for args, said in ((["serve"], "--data DIR is missing"), (["init"], "--data DIR is missing"),
                       (["serve", "--dta", "x"], "--dta "), (["config", "--key=SECRET"], "--key "),
                       (["query", "x"], "--collection is missing"), (["query"], "the question is missing"),
                       (["query", "x", "--collection", "c", "--limit", "0"], "--limit "),
                       (["ingest", "DIR"], "--collection is missing"), (["ingest", "a", "SECRET"], "word 2 "),
                       (["key", "add", "--principal", "x"], "one of --url and --data"),
                       (["key", "add", "--data", "d", "--principal", "x", "--tenant", "t"], "--seat is missing"),
                       (["key", "revoke", "--data", "d"], "--id is missing"),
                       (["policy", "check"], "FILE is missing"), (["policy", "test"], "FILE is missing"),
                       (["audit", "verify"], "one of --data and FOLDER"), (["doctor"], "one of --data and --url")):
        r = run(*args)
        assert r.returncode == 2 and said in r.stderr.split("\n")[0] and "Usage: " in r.stderr, (args, r.stderr)
        assert "SECRET" not in r.stderr and not r.stdout
    r = run("serve", "--data", tmp_path / "typo")
    assert r.returncode == 1 and "bailiwick init" in r.stderr
    for args, said in ((["ingest", tmp_path / "typo", "--collection", "c"], "No such file"),
                       (["serve", "--dev", "--data", tmp_path / "m", "--listen", "127.0.0.1:0", "--set",
                         "model.folder=" + str(tmp_path / "typo")], "config.json")):
        r = run(*args)
        assert r.returncode == 1 and said in r.stderr, r.stderr
    r = run("audit", "verify", "--data", tmp_path / "typo")
    assert r.returncode == 1 and "no such folder" in r.stderr
    r = run("query", "x", "--collection", "c", "--url", "http://127.0.0.1:1")
    assert r.returncode == 1 and "no cell is running there" in r.stderr
    r = run("init", "--data", tmp_path / "x", "--set", "cell.country=QQ", "--set", "cell.operator=me")
    assert r.returncode == 1 and "cell.country" in r.stderr and not r.stdout
    assert not (tmp_path / "x").exists()  # the folder that it made goes again


def test_key__none_is_made_that_cannot_be_handed_over(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    data = tmp_path / "d"
    r = run("init", "--data", data, "--admin-key-file", taken, *PLACE)
    assert r.returncode == 1 and "no key was made" in r.stderr
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    before = run("key", "list", "--data", data).stdout
    who = ["--principal", "ana", "--tenant", "acme", "--seat", "FR"]
    for out in (taken, tmp_path / "none" / "k"):
        r = run("key", "add", "--data", data, "--out", out, *who)
        assert r.returncode == 1 and "no key was made" in r.stderr
    for more, said in ((["--clearance", "x"], "--clearance"), (["--labels", "{x"], "--labels: JSON"),
                       (["--seat", "QQ"], "/seat: "), (["--default-purpose", "care"], "/default_purpose: ")):
        r = run("key", "add", "--data", data, *who, *more)
        assert r.returncode == 1 and said in r.stderr, (more, r.stderr)
    # A record that is refused leaves no file, on a running cell either.
    assert run("key", "add", "--data", data, "--out", tmp_path / "n", *who, "--clearance", "9").returncode == 1
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        key = tmp_path / "admin"
        key.write_text(c.admin_key + "\n")
        at = ["--url", c.url, "--key-file", key]
        ids = run("key", "list", *at).stdout
        r = run("key", "add", *at, "--out", tmp_path / "n", *who[:-1], "QQ")
        assert r.returncode == 1 and "/seat" in r.stderr, r.stderr
        assert run("key", "add", *at, "--out", taken, *who).returncode == 1
        assert run("key", "list", *at).stdout == ids
        r = run("key", "list", "--url", c.url + "/base", "--key-file", key)
        assert r.returncode == 1 and "404: there is no such path" in r.stderr, r.stderr
        for at in (at, ["--data", data]):
            r = run("key", "add", *at, *who, "--roles", "reader,raeder")
            assert r.returncode == 0 and "role raeder;" in r.stderr and "role reader" not in r.stderr, r.stderr
    assert not (tmp_path / "n").exists() and taken.read_text() == "mine"
    assert run("key", "list", "--data", data).stdout.startswith(before)


def test_config__prints_every_setting_documented():
    text = run("config").stdout
    names = [line.split(" = ")[0] for line in text.split("\n") if " = " in line and not line.startswith("#")]
    assert len(names) > 25 and len(set(names)) == len(names)
    for block in text.strip().split("\n\n")[1:]:
        assert block.startswith("# ") and " = " in block.split("\n")[-1]
    r = run("config", "--set", "server.workers=9999")
    assert r.returncode == 1 and "server.workers" in r.stderr


def test_dev__refusals(tmp_path):
    for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"):
        r = run("serve", "--dev", "--data", tmp_path / "a", "--listen", listen)
        assert r.returncode == 1 and "listening" not in r.stdout, listen
    assert run("init", "--data", tmp_path / "b", "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    r = run("serve", "--dev", "--data", tmp_path / "b", "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and "--dev" in r.stderr
    # Nor a folder of somebody else's, in which nothing is touched.
    before = sorted(os.listdir(tmp_path / "b"))
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("mine")
    r = run("serve", "--dev", "--data", tmp_path / "papers", "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and "--dev" in r.stderr
    assert os.listdir(tmp_path / "papers") == ["thesis.txt"] and sorted(os.listdir(tmp_path / "b")) == before
    for _ in range(2):
        with Cell(dev=True, data=str(tmp_path / "c")) as c:
            assert c.get("/").status == 200
    r = run("serve", "--data", tmp_path / "c", "--listen", "127.0.0.1:0", *PLACE)
    assert r.returncode == 1 and "--dev" in r.stderr
    assert run("key", "list", "--data", tmp_path / "c").returncode == 1


def test_serve__refuses_beyond_loopback_without_tls(tmp_path):
    assert run("init", "--data", tmp_path / "d", "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    r = run("serve", "--data", tmp_path / "d", "--listen", "0.0.0.0:0")
    assert r.returncode == 1 and "loopback" in r.stderr
    assert run("init", "--data", tmp_path / "e", "--admin-key-file", tmp_path / "k2", "--seat", "FR").returncode == 0
    r = run("serve", "--data", tmp_path / "e", "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and "cell.country" in r.stderr
    assert run("serve", "--data", tmp_path / "none", "--listen", "127.0.0.1:0").returncode == 1


def test_init__files_are_the_owners_alone(tmp_path):
    data = tmp_path / "d"
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    for name in ("secrets/keys", "secrets/subjects", "keys.json", "cell.json", "bailiwick.conf", "policies.cedar"):
        assert stat.S_IMODE(os.stat(data / name).st_mode) & 0o077 == 0, name
    assert stat.S_IMODE(os.stat(tmp_path / "k").st_mode) == 0o600
    assert run("init", "--data", data, *PLACE).returncode == 1  # never twice
    os.chmod(data / "secrets/keys", 0o640)
    r = run("serve", "--data", data, "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and "secrets/keys" in r.stderr


def test_key__life_on_a_stopped_and_a_running_cell(tmp_path):
    data, admin = str(tmp_path / "d"), str(tmp_path / "k")
    assert run("init", "--data", data, "--admin-key-file", admin, *PLACE).returncode == 0
    add = ["key", "add", "--principal", "ana", "--tenant", "acme", "--seat", "FR", "--clearance", "2",
           "--roles", "editor", "--purposes", "payroll,analysis", "--default-purpose", "payroll",
           "--labels", json.dumps(LABELS)]
    r = run(*add, "--data", data)
    assert r.returncode == 0, r.stderr
    stopped = r.stdout.strip()
    assert run(*add[:-1], "{\"regimes\":[\"nope\"]}", "--data", data).returncode == 1
    assert len(run("key", "list", "--data", data).stdout.strip().split("\n")) == 2
    with Cell(dev=False, data=data) as c:
        assert c.get("/v1/whoami", key=stopped).json()["key"]["purposes"] == ["analysis", "payroll"]
        assert run("key", "list", "--data", data).returncode == 1  # in use
        where = ["--url", c.url, "--key-file", admin]
        out = str(tmp_path / "bo")
        r = run(*add, *where, "--out", out)
        assert r.returncode == 0 and r.stdout == "", r.stderr
        with open(out) as f:
            running = f.read().strip()
        assert c.get("/v1/whoami", key=running).status == 200
        # The administrator's key from standard input.
        with open(admin) as f:
            r = run("key", "list", "--url", c.url, "--key-file", "-", input=f.read())
        assert r.returncode == 0 and len(r.stdout.strip().split("\n")) == 3
        ident = c.get("/v1/whoami", key=running).json()["key"]["id"]
        assert run("key", "revoke", *where, "--id", ident).returncode == 0
        assert c.get("/v1/whoami", key=running).status == 401
        r = run("key", "list", "--url", c.url, "--key-file", out)
        assert r.returncode == 1 and "401" in r.stderr
        assert "FAIL" not in run("doctor", "--url", c.url, "--key-file", admin).stdout
    assert run("key", "revoke", "--data", data, "--id", ident).returncode == 0
    told = run("doctor", "--data", data)
    assert told.stderr == "", told
    told = told.stdout
    assert "FAIL" not in told and " kernels, " in told and "GPU: " in told and "cuVS: " in told, told
    assert "switched off" not in told, told
    (tmp_path / "off.conf").write_text("data.gpu = off\n")
    told = run("doctor", "--data", data, "--config", str(tmp_path / "off.conf")).stdout
    assert "GPU: switched off by data.gpu" in told and "cuVS: switched off" in told, told


@pytest.mark.parametrize("command", [("query", "x", "--collection", "c"), ("ingest", ".", "--collection", "c"),
                                     ("key", "list"), ("doctor",)])
def test_client__no_key_in_clear_beyond_this_machine(tmp_path, command):
    (tmp_path / "k").write_text("bw_0123456789ab_" + "A" * 43)
    for url in ("http://192.0.2.1:1", "http://cell.example:1", "192.0.2.1:1", "http://127.0.0.1.example:1",
                "http://[2001:db8::1]:1", "http://localhost@192.0.2.1:1", "ftp://127.0.0.1", "file:///etc/passwd", ""):
        r = run(*command, "--url", url, "--key-file", tmp_path / "k")
        out = r.stdout + r.stderr
        assert r.returncode == 1 and ("in clear" in out or "--url wants" in out), (url, r)
        assert "AAAA" not in out


def make_cert(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    return cert, key


def test_tls__serves_and_refuses_plain_and_old(tmp_path):
    tls = make_cert(tmp_path)
    with Cell(dev=False, country="FR", operator="eucloud", tls=tls) as c:
        assert c.get("/v1/whoami").status == 200
        assert c.get("/collections", key=None).status == 401
        body = {"vectors": {"size": 2, "distance": "Dot"}}
        assert c.put("/collections/x", body).status == 200
        big = c.post("/v1/authorize", b" " * (2 << 20))
        assert big.status == 400
        s = socket.create_connection(("127.0.0.1", c.port), timeout=10)
        s.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert not s.recv(1000).startswith(b"HTTP/1.1 200")
        s.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        try:
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
        except (ValueError, ssl.SSLError):
            return
        with pytest.raises((ssl.SSLError, ConnectionError)):
            old.wrap_socket(socket.create_connection(("127.0.0.1", c.port), timeout=10)).version()
        # The command line over TLS, with the certificate named.
        with open(tmp_path / "admin", "w") as f:
            f.write(c.admin_key + "\n")
        r = run("key", "list", "--url", c.url, "--key-file", tmp_path / "admin", "--ca", tls[0])
        assert r.returncode == 0, r.stderr
        assert run("key", "list", "--url", c.url, "--key-file", tmp_path / "admin").returncode == 1


def test_tls__key_file_must_be_private(tmp_path):
    cert, key = make_cert(tmp_path)
    os.chmod(key, 0o644)
    data = tmp_path / "d"
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE, "--set", "server.tls_cert=" + cert,
               "--set", "server.tls_key=" + key).returncode == 0
    r = run("serve", "--data", data, "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and "tls_key" in r.stderr


def test_prefix__is_stripped_and_required():
    with Cell(dev=False, country="FR", operator="eucloud", settings={"server.prefix": "/base"}) as c:
        assert c.get("/base/", key=None).status == 200
        assert c.get("/base", key=None).status == 200
        assert c.get("/base/healthz", key=None).status == 200
        assert c.get("/base/v1/whoami").status == 200
        for path in ("/v1/whoami", "/healthz", "/", "/basement", "/base/base/v1/whoami"):
            assert c.get(path).status == 404, path
            assert c.get(path, key=None).status == 401, path


def test_stop__running_requests_end():
    """SIGTERM during writes: every 200 that was given is there after the restart."""
    with Cell(dev=True) as c:
        c.put("/collections/x", {"vectors": {"size": 4, "distance": "Dot"}})
        done, stop = [], threading.Event()

        def write(base):
            n = 0
            while not stop.is_set() and n < 100000:
                n += 1
                try:
                    r = c.put("/collections/x/points?wait=true",
                              {"points": [{"id": base + n, "vector": [1, 2, 3, 4]}]})
                except OSError:
                    return
                except Exception:
                    return
                if r.status == 200:
                    done.append(base + n)
                else:
                    assert r.status == 503, r
                    return

        threads = [threading.Thread(target=write, args=(k * 1000000,)) for k in range(4)]
        for t in threads:
            t.start()
        while len(done) < 40:
            time.sleep(0.01)
        assert c.stop() == 0
        stop.set()
        for t in threads:
            t.join()
        c.start()
        count = c.post("/collections/x/points/count", {}).json()["result"]["count"]
        assert count >= len(done)
        got = c.post("/collections/x/points", {"ids": done, "with_payload": False}).json()["result"]
        assert len(got) == len(done)


def test_stop__sigint_and_idle_connections():
    with Cell(dev=True) as c:
        idle = socket.create_connection(("127.0.0.1", c.port))
        half = socket.create_connection(("127.0.0.1", c.port))
        half.sendall(b"POST /collections/x/points HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.2)
        assert c.stop(signal.SIGINT, timeout=20) == 0
        idle.close()
        half.close()
        c.start()


def test_folder__one_process_at_a_time(tmp_path):
    with Cell(dev=True, data=str(tmp_path / "d")) as c:
        r = run("serve", "--dev", "--data", c.data, "--listen", "127.0.0.1:0")
        assert r.returncode == 1 and "in use" in r.stderr
        assert c.get("/").status == 200


def test_audit__a_log_that_was_taken_away_is_missed(tmp_path):
    """A cell without collections starts with an empty log; one with a collection says what is wrong."""
    data = str(tmp_path / "d")
    with Cell(dev=True, data=data) as c:
        c.stop()
        shutil.rmtree(os.path.join(data, "audit"))
        c.start()
        assert c.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}}).status == 200
        c.stop()
        shutil.rmtree(os.path.join(data, "audit"))
        with pytest.raises(RuntimeError) as e:
            c.start()
        assert "is empty, and collections are there" in str(e.value)
        assert c.stop() == 1  # it has ended itself


def test_audit__unwritable_log_refuses_service():
    """No entry, no service: a limit on file size stands in for a full disk."""
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        key = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll"], labels=LABELS)
        c.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}}, key=key)
        log = os.path.join(c.data, "audit", "00000001.jsonl")
        seq = c.get("/v1/audit?limit=1").json()["head"]["seq"]
        size = os.path.getsize(log)
        resource.prlimit(c.process.pid, resource.RLIMIT_FSIZE, (size + 200, resource.RLIM_INFINITY))
        for method, path, body in (("GET", "/v1/whoami", None), ("GET", "/collections", None),
                                   ("PUT", "/collections/x/points?wait=true",
                                    {"points": [{"id": 1, "vector": [1, 1]}]})):
            r = c.call(method, path, body, key=key)
            assert r.status in (503, 507), (method, path, r)
            assert b"acme" not in r.body and b"points" not in r.body
        assert c.get("/healthz", key=None).status == 200
        resource.prlimit(c.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # Room again: it goes on without a restart, and nothing of the refused write is there.
        assert c.get("/v1/whoami", key=key).status == 200
        assert c.post("/collections/x/points/count", {}, key=key).json()["result"]["count"] == 0
        assert c.get("/v1/audit?limit=1").json()["head"]["seq"] > seq
        done = c.cli("audit", "verify", "--data", c.data)
        assert done.returncode == 0, done.stderr


def test_audit__survives_kill_9_and_shows_a_cut_end():
    with Cell(dev=True) as c:
        for i in range(50):
            c.put("/collections/k%d" % i, {"vectors": {"size": 2, "distance": "Dot"}})
        head = c.get("/v1/audit?limit=1").json()["head"]
        c.kill9()
        expect = "%d:%s" % (head["seq"], head["hash"])
        assert c.cli("audit", "verify", "--data", c.data, "--expect", expect).returncode == 0
        log = os.path.join(c.data, "audit", "00000001.jsonl")
        with open(log, "rb") as f:
            lines = f.read().splitlines(True)
        with open(log, "wb") as f:
            f.write(b"".join(lines[:-3]))
        assert c.cli("audit", "verify", "--data", c.data).returncode == 0
        assert c.cli("audit", "verify", "--data", c.data, "--expect", expect).returncode == 1
        with open(log, "wb") as f:
            f.write(b"".join(lines[:5] + lines[6:]))
        assert c.cli("audit", "verify", "--data", c.data).returncode == 1
        with open(log, "wb") as f:
            f.write(b"".join(lines))
        c.start()


def test_policy__check(tmp_path):
    good, bad = tmp_path / "good.cedar", tmp_path / "bad.cedar"
    good.write_text('@id("all") permit(principal, action, resource);')
    bad.write_text('permit(principal, action, resource')
    assert run("policy", "check", good).returncode == 0
    assert run("policy", "check", bad).returncode == 1
    bad.write_text('@id("a") permit(principal, action, resource) when { context.purpose > 1 };\n'
                   '@id("b") permit(principal, action, resource) when { principal.age == 2 };\n'
                   '@id("c") permit(principal, action, resource) when { false };\n')
    r = run("policy", "check", bad)
    assert r.returncode == 1 and "does not validate" in r.stderr
    at = [line[len(str(bad)) + 2:] for line in r.stdout.splitlines()]
    assert [a.split(": ")[0] for a in at] == ["a, 1:53", "b, 2:53", "c, 3:53"] and ": warning: " in at[2], r.stdout
    bad.write_text('permit(principal, action, resource) when { false };')
    r = run("policy", "check", bad)
    assert r.returncode == 0 and ": warning: " in r.stdout and "accepted" in r.stdout
    good.write_text('@id("far") permit(principal, action == Bw::Action::"Query", resource)\n'
                    'when { context.at.operator.seat == principal.seat };')
    assert run("policy", "check", good, "--level", "2").returncode == 0
    r = run("policy", "check", "--level", "1", good)
    assert r.returncode == 1 and "far, 2:" in r.stdout and "level 1" in r.stdout, r.stdout
    assert run("policy", "check", good, "--level", "-1").returncode == 2


def test_process__is_not_dumpable():
    with Cell(dev=True) as c:
        with open("/proc/%d/status" % c.process.pid) as f:
            status = f.read()
        assert "NoNewPrivs:\t1" in status
        with open("/proc/%d/limits" % c.process.pid) as f:
            assert "Max core file size        0" in f.read()


def test_timeout__is_checked():
    with Cell(dev=True) as c:
        c.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}})
        for bad in ("0", "-1", "x", "1.5", ""):
            r = c.post("/collections/x/points/count?timeout=" + bad, {})
            assert r.status == 400 and b"Deserialize error in query parameters" in r.body, bad
        for good in ("1", "60", "3000"):
            assert c.post("/collections/x/points/count?timeout=" + good, {}).status == 200


def small_disk(tmp_path):
    """A small file system of its own, or None where mounting is not allowed."""
    where = tmp_path / "disk"
    where.mkdir()
    r = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(where)], stderr=subprocess.DEVNULL)
    return str(where) if r.returncode == 0 else None


def test_disk_full__writes_are_absent_and_all_recovers(tmp_path):
    """A really full disk: no answer but 200, 503, 507; what was refused is not there; no restart."""
    disk = small_disk(tmp_path)
    if not disk:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        with Cell(dev=True, data=disk + "/cell", settings={"audit.segment_bytes": 1 << 20}) as c:
            assert c.put("/collections/x", {"vectors": {"size": 64, "distance": "Dot"}}).status == 200
            acknowledged, refused, ballast = [], [], disk + "/ballast"
            n = 0
            for fill in range(6):
                with open(ballast, "ab") as f:
                    try:
                        f.write(b"x" * (12 << 20))
                    except OSError:
                        pass
                for _ in range(40):
                    n += 1
                    r = c.put("/collections/x/points?wait=true", {"points": [
                        {"id": n, "vector": [float(n)] * 64, "payload": {"t": "y" * 20000}}]})
                    (acknowledged if r.status == 200 else refused).append(n)
                    assert r.status in (200, 503, 507), r
            assert refused, "the disk never filled"
            assert c.get("/healthz").status == 200
            os.unlink(ballast)
            r = c.put("/collections/x/points?wait=true", {"points": [{"id": 999999, "vector": [1.0] * 64}]})
            assert r.status == 200, "no recovery without a restart: %r" % r
            got = c.post("/collections/x/points", {"ids": acknowledged + refused, "with_payload": False}).json()["result"]
            assert sorted(p["id"] for p in got) == sorted(acknowledged)
            c.kill9()
            c.start()
            got = c.post("/collections/x/points", {"ids": acknowledged + refused, "with_payload": False}).json()["result"]
            assert sorted(p["id"] for p in got) == sorted(acknowledged)
            assert c.cli("audit", "verify", "--data", c.data).returncode == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_disk_full__keeps_rules_and_register_whole(tmp_path):
    """No room: no rule and no class is half taken over; room again: all goes on, and the log still replays."""
    disk = small_disk(tmp_path)
    if not disk:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        with Cell(dev=False, country="FR", operator="eucloud", data=disk + "/cell") as c:
            key = c.key_add("ana", "acme", roles=["editor"], clearance=3, purposes=["payroll"], labels=LABELS)
            assert c.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200
            before = c.get("/v1/policies").json()
            put = lambda n: c.put("/v1/policies", {"policies": before["policies"] + "// %d\n" % n * (n * 20000)})
            point = lambda n: c.put("/collections/x/points?wait=true", {"points": [
                {"id": n, "vector": [1, 1], "payload": {"_labels": dict(LABELS, sensitivity=n)}}]}, key=key)
            with open(disk + "/ballast", "wb", buffering=0) as f:
                with pytest.raises(OSError):
                    while True:
                        f.write(b"x" * 4096)
            for n in (1, 2, 3):
                assert put(n).status in (503, 507)
                for r in (point(n), c.put("/v1/entities", {"entities": []})):
                    assert r.status in (200, 503, 507), r
            now = c.get("/v1/policies")
            assert now.status in (503, 507) or (now.json()["digest"], now.json()["version"]) == (before["digest"], before["version"])
            os.unlink(disk + "/ballast")
            for n in (1, 2, 3):
                assert (put(n).status, point(n).status) == (200, 200)
            c.kill9()
            c.start()
            assert c.post("/collections/x/points/count", {}, key=key).status == 200
            assert c.get("/v1/policies").json()["policies"].count("// 3\n") == 60000
            r = c.cli("policy", "replay", "--self", "--data", c.data)
            assert r.returncode == 0 and " 0 not" in r.stdout, r.stdout + r.stderr
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_facts__the_operators_own_reach_serve_and_commands(tmp_path):
    """catalogue.json and entities.json of the data folder: new words and legal entities."""
    data = tmp_path / "d"
    data.mkdir()
    (data / "catalogue.json").write_text(json.dumps({
        "schema": "bailiwick.catalogue/2",
        "vocabulary": {"purposes": [{"word": "own-purpose", "date": "2026-11-30", "source": "test"}]}}))
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    add = ["key", "add", "--data", data, "--principal", "ana", "--tenant", "acme", "--seat", "FR"]
    r = run(*add, "--purposes", "own-purpose")
    assert r.returncode == 0, r.stderr
    assert run(*add, "--purposes", "nobodys-purpose").returncode == 1
    key = r.stdout.strip()
    with Cell(dev=False, data=str(data)) as c:
        r = c.post("/v1/authorize", {"action": "Query", "labels": dict(LABELS, purposes=["own-purpose"])}, key=key,
                   headers={"x-bailiwick-purpose": "own-purpose"})
        assert r.status == 200, r


@pytest.mark.parametrize("text, says", [('{"x": 1}', "/x: %s: catalogue overlay: unknown member"), ("{", "%s: JSON: expected")])
def test_facts__a_faulty_overlay_is_named(tmp_path, text, says):
    data, own = tmp_path / "d", tmp_path / "own.json"
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    own.write_text(text)
    r = run("serve", "--data", data, "--listen", "127.0.0.1:0", "--set", f"policies.catalogue={own}")
    assert r.returncode == 1 and says % own in r.stderr, r.stderr
    (data / "catalogue.json").write_text(text)
    r = run("serve", "--data", data, "--listen", "127.0.0.1:0")
    assert r.returncode == 1 and says % "catalogue.json" in r.stderr, r.stderr


def test_facts__faulty_entities_are_named(tmp_path):
    data = tmp_path / "d"
    assert run("init", "--data", data, "--admin-key-file", tmp_path / "k", *PLACE).returncode == 0
    for text, says in (('[{"x": 1}]', "/0: entities: an entity needs"), ("{}", "entities: expected a list"), ("[", "entities: JSON")):
        (data / "entities.json").write_text(text)
        r = run("serve", "--data", data, "--listen", "127.0.0.1:0")
        assert r.returncode == 1 and says in r.stderr, r.stderr
        r = run("doctor", "--data", data)
        assert r.returncode == 1 and says.split(": ", 1)[-1] in r.stdout, r.stdout


def test_doctor__finds_the_gpu_module_of_a_tree_installed_elsewhere(tmp_path):
    """What stands in the prefix's library folder is looked at: here it is no library, and that is told."""
    (tmp_path / "bin").mkdir()
    binary = shutil.copy(BINARY, tmp_path / "bin" / "bailiwick")
    for lib in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        (tmp_path / lib / "bailiwick").mkdir(parents=True)
        (tmp_path / lib / "bailiwick" / "bailiwick_cuda.so").write_text("no library")
    r = subprocess.run([binary, "doctor", "--data", tmp_path / "none"], stdout=subprocess.PIPE, text=True)
    assert "FAIL  the GPU module may be loaded: " in r.stdout and "it does not load here" in r.stdout, r
