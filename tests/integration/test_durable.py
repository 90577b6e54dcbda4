"""What a cell does with a damaged or half-copied data folder, with few descriptors and with
little memory: precise refusals that change nothing, clean 503s, and service where it can be had.
Seeds are printed; nothing is timed."""
import contextlib
import hashlib
import os
import random
import resource
import shutil
import socket
import sqlite3
import subprocess
import threading

import pytest
from cell import BINARY, Cell

LABELS = [{"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": s, "purposes": ["support"]} for s in (0, 1, 2)]


def tree(folder):
    found = {}
    for where, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


def serve(data):
    """The exit code and the errors of a start, or None where it serves."""
    p = subprocess.Popen([BINARY, "serve", "--data", str(data), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if p.stdout.readline().startswith("listening on "):
        p.terminate()
        p.communicate(timeout=60)
        return None, ""
    _, err = p.communicate(timeout=60)
    return p.returncode, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A stopped cell with one collection of 40 points."""
    data = str(tmp_path_factory.mktemp("durable") / "d")
    with Cell(dev=False, data=data, country="FR", operator="eucloud") as c:
        key = c.key_add("ana", "acme", clearance=5, roles=["editor", "admin"], purposes=["support"], labels=LABELS[0])
        assert c.put("/collections/x", {"vectors": {"size": 4, "distance": "Dot"}}, key=key).status == 200
        points = [{"id": i, "vector": [1, 2, 3, i]} for i in range(40)]
        assert c.put("/collections/x/points?wait=true", {"points": points}, key=key).status == 200
    return data, key


def rewrite(path, change):
    os.chmod(path, 0o600)
    with open(path, "rb") as f:
        content = f.read()
    with open(path, "wb") as f:
        f.write(change(content))


def half(content):
    return content[:len(content) // 2]


def first_policies(content):
    """The same set without its last policy: still a set that parses."""
    return content[:content.rindex(b"\n@id(") + 1]


def sql(statement):
    def change(path):
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(statement)
            db.commit()
    return change


DAMAGE = [
    ("keys.json", lambda p: rewrite(p, half), "keys.json"),
    ("keys.json", lambda p: rewrite(p, lambda b: b""), "keys.json"),
    ("cell.json", lambda p: rewrite(p, lambda b: b"{"), "cell.json"),
    ("cell.json", lambda p: rewrite(p, lambda b: b.replace(b"1", b"2")), "format"),
    ("secrets/keys", lambda p: rewrite(p, half), "secrets/keys"),
    ("policies.cedar", lambda p: rewrite(p, lambda b: b""), "policies.cedar"),
    ("policies.cedar", lambda p: rewrite(p, half), "policies.cedar"),
    ("policies.cedar", lambda p: rewrite(p, first_policies), "policies.cedar"),
    ("engine/catalogue.db", lambda p: rewrite(p, lambda b: b""), "catalogue.db"),
    ("engine/catalogue.db", lambda p: rewrite(p, half), "catalogue.db"),
    ("engine/catalogue.db", lambda p: rewrite(p, lambda b: b"garbage" * 2000), "catalogue.db"),
    ("engine/catalogue.db", sql("PRAGMA user_version=99"), "format 99"),
    ("engine/catalogue.db", sql("PRAGMA application_id=5"), "catalogue.db"),
    ("engine/key", lambda p: rewrite(p, half), "key"),
    ("engine", shutil.rmtree, "catalogue.db"),
    ("audit", shutil.rmtree, "audit"),
    ("audit/00000001.jsonl", lambda p: rewrite(p, lambda b: b.replace(b'"status":200', b'"status":201', 1)), "00000001.jsonl"),
]


@pytest.mark.parametrize("at", range(len(DAMAGE)))
def test_damage__is_refused_by_name_and_nothing_changes(folder, tmp_path, at):
    name, damage, word = DAMAGE[at]
    copy = tmp_path / "copy"
    shutil.copytree(folder[0], copy)
    damage(str(copy / name))
    before = tree(copy)
    code, err = serve(copy)
    assert code == 1, "%s: it serves" % name
    assert word in err, err
    made = {"audit/00000001.jsonl"} if name == "audit" else set()
    assert {k: v for k, v in tree(copy).items() if k not in made} == before, name


def test_damage__of_one_partition_leaves_the_others(folder, tmp_path):
    """A file of a newer format, cut, or gone: its collection answers 500, another one works."""
    data, key = folder
    for damage in (os.unlink, lambda p: rewrite(p, half), sql("PRAGMA user_version=99")):
        copy = tmp_path / "copy"
        shutil.copytree(data, copy)
        damage(str(copy / "engine/p/1.db"))
        with Cell(dev=False, data=str(copy)) as c:
            assert c.post("/collections/x/points/count", {}, key=key).status == 500
            assert c.put("/collections/y", {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200
            point = {"points": [{"id": 1, "vector": [1, 2]}]}
            assert c.put("/collections/y/points?wait=true", point, key=key).status == 200
            assert c.post("/collections/y/points/count", {}, key=key).json()["result"]["count"] == 1
            c.stop()
            print("".join(c.log))
            assert any(" 500 corrupt: store: " in line for line in c.log), c.log
        shutil.rmtree(copy)


def test_policies__an_accepted_set_may_be_copied_back(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder[0], copy)
    kept = os.listdir(copy / "policies")
    rewrite(str(copy / "policies.cedar"), lambda b: b"")
    assert serve(copy)[0] == 1
    shutil.copy(copy / "policies" / kept[0], copy / "policies.cedar")
    assert serve(copy)[0] is None


def test_serve__twice_on_one_folder(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder[0], copy)
    with Cell(dev=False, data=str(copy)) as c:
        code, err = serve(copy)
        assert code == 1 and "in use" in err
        assert c.post("/collections/x/points/count", {}, key=folder[1]).json()["result"]["count"] == 40


def test_copy_while_writing__starts_or_refuses_a_collection(tmp_path):
    """cp -r of a folder under writes: it starts, each collection is whole or refused, and takes writes."""
    stop, failed = threading.Event(), []
    with Cell(dev=False, data=str(tmp_path / "d"), country="FR", operator="eucloud",
              settings={"data.seal_rows": 200}) as c:
        key = c.key_add("ana", "acme", clearance=5, roles=["editor", "admin"], purposes=["support"], labels=LABELS[0])
        for n in range(3):
            assert c.put("/collections/x%d" % n, {"vectors": {"size": 4, "distance": "Euclid"}}, key=key).status == 200

        def write(n):
            rnd = random.Random(n)
            while not stop.is_set():
                points = [{"id": rnd.randrange(500), "vector": [rnd.random() for _ in range(4)],
                           "payload": {"_labels": LABELS[rnd.randrange(3)]}} for _ in range(30)]
                r = c.put("/collections/x%d/points?wait=true" % n, {"points": points}, key=key)
                if r.status != 200:
                    failed.append(r)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        try:
            for at in range(3):
                copy = str(tmp_path / ("copy%d" % at))
                subprocess.run(["cp", "-r", c.data, copy], stderr=subprocess.DEVNULL)  # files come and go
                with Cell(dev=False, data=copy) as other:
                    for n in range(3):
                        path = "/collections/x%d/points" % n
                        count = other.post(path + "/count", {}, key=key)
                        assert count.status in (200, 500), count
                        if count.status == 500:
                            continue
                        rows = other.post(path + "/scroll", {"limit": 10000}, key=key).json()["result"]["points"]
                        assert len({p["id"] for p in rows}) == len(rows) == count.json()["result"]["count"]
                        more = {"points": [{"id": 9999, "vector": [1, 2, 3, 4]}]}
                        assert other.put(path + "?wait=true", more, key=key).status == 200
                assert other.cli("audit", "verify", "--data", copy).returncode == 0
        finally:
            stop.set()
            for t in threads:
                t.join()
    assert not failed, failed


@contextlib.contextmanager
def limited(what, value):
    """The limit, hard and soft, for processes started inside."""
    real = subprocess.Popen

    def popen(*args, **kw):
        return real(*args, preexec_fn=lambda: resource.setrlimit(what, (value, value)), **kw)

    subprocess.Popen = popen
    try:
        yield
    finally:
        subprocess.Popen = real


def test_descriptors__few_are_enough_for_many_collections(tmp_path):
    """64 descriptors, 60 collections, more clients than descriptors: nothing fails."""
    with limited(resource.RLIMIT_NOFILE, 64):
        c = Cell(dev=True)
        c.start()
    try:
        for n in range(60):
            path = "/collections/c%d" % n
            assert c.put(path, {"vectors": {"size": 4, "distance": "Dot"}}).status == 200, n
            points = {"points": [{"id": 1, "vector": [1, 2, 3, 4], "payload": {"page_content": "a word"}}]}
            assert c.put(path + "/points?wait=true", points).status == 200, n
            assert len(c.post(path + "/points/query", {"query": [1, 1, 1, 1]}).json()["result"]["points"]) == 1
        idle = [socket.create_connection(("127.0.0.1", c.port), timeout=10) for _ in range(100)]
        for s in idle:
            s.close()
        for n in range(60):
            r = c.put("/collections/c%d/points?wait=true" % n, {"points": [{"id": 2, "vector": [4, 3, 2, 1]}]})
            assert r.status in (200, 503), r  # 503: a closed connection is still counted
            if r.status == 503:
                r = c.put("/collections/c%d/points?wait=true" % n, {"points": [{"id": 2, "vector": [4, 3, 2, 1]}]})
    finally:
        c.close()


def test_descriptors__too_few_are_refused_at_the_start(tmp_path):
    with limited(resource.RLIMIT_NOFILE, 32):
        c = Cell(dev=True, data=str(tmp_path / "d"))
        with pytest.raises(RuntimeError, match="open files"):
            c.start()
    assert not os.path.exists(tmp_path / "d")


def sanitized():
    with open(BINARY, "rb") as f:
        return b"__asan_init" in f.read()


@pytest.mark.skipif(sanitized(), reason="AddressSanitizer reserves more than the limit; the release build runs it")
def test_memory__its_end_is_503_and_nothing_is_lost():
    with limited(resource.RLIMIT_AS, 400 << 20):
        c = Cell(dev=True)
        c.start()
    try:
        assert c.put("/collections/x", {"vectors": {"size": 256, "distance": "Euclid"}}).status == 200
        acknowledged, refused = 0, 0
        lock = threading.Lock()

        def write(n):
            nonlocal acknowledged, refused
            points = [{"id": n * 100 + i, "vector": [float(i)] * 256, "payload": {"page_content": "x" * 2000}}
                      for i in range(100)]
            try:
                r = c.put("/collections/x/points?wait=true", {"points": points})
            except Exception:  # the connection itself could not be served
                with lock:
                    refused += 1
                return
            assert r.status in (200, 503), r
            with lock:
                acknowledged += r.status == 200
                refused += r.status != 200

        n = 0
        while refused < 20 and n < 2000:
            threads = [threading.Thread(target=write, args=(n + i,)) for i in range(4)]
            n += 4
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        assert refused >= 20 and not [line for line in c.log if " 500 " in line]
        assert c.process.poll() is None
        c.kill9()
        c.start()
        assert c.post("/collections/x/points/count", {}).json()["result"]["count"] >= acknowledged * 100
    finally:
        c.close()
