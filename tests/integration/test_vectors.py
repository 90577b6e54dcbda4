"""Stored precision, wanted recall and the deadline of a search, as a client sees them."""
import json
import random
import struct

import pytest

from cell import Cell

DIM = 12
NAMES = {"float32": None, "float16": "e", "uint8": "e", "bfloat16": "b", "int8": "i"}


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def stored(kind, values):
    """What the cell may show again of a vector that it was given."""
    if kind == "float32":
        return [f32(v) for v in values]
    if kind in ("float16", "uint8"):
        return [struct.unpack("e", struct.pack("e", v))[0] for v in values]
    if kind == "bfloat16":
        out = []
        for v in values:
            bits = struct.unpack("I", struct.pack("f", v))[0]
            bits += 0x7FFF + (bits >> 16 & 1)
            out.append(struct.unpack("f", struct.pack("I", bits & 0xFFFF0000))[0])
        return out
    return None


@pytest.fixture(scope="module")
def c():
    with Cell(dev=True) as cell:
        yield cell


def points(rnd, n, kind):
    def value():
        return float(rnd.randrange(256)) if kind == "uint8" else rnd.uniform(-2, 2)
    return [{"id": i, "vector": [value() for _ in range(DIM)], "payload": {"n": i}} for i in range(n)]


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_datatype__vectors_come_back_and_survive_a_restart(c, kind):
    name = "/collections/d-" + kind
    r = c.put(name, {"vectors": {"size": DIM, "distance": "Dot", "datatype": kind}})
    assert r.status == 200, r
    pts = points(random.Random(kind), 300, kind)
    assert c.put(name + "/points?wait=true", {"points": pts}).status == 200
    assert c.get(name).json()["result"]["config"]["params"]["vectors"]["datatype"] == kind

    def seen():
        r = c.post(name + "/points", {"ids": [p["id"] for p in pts], "with_vector": True})
        q = c.post(name + "/points/query", {"query": pts[7]["vector"], "limit": 20, "with_vector": True})
        assert r.status == 200 and q.status == 200
        return r.json()["result"], q.json()["result"]
    first = seen()
    for p, got in zip(pts, first[0]):
        want = stored(kind, p["vector"])
        if want is not None:
            assert [f32(v) for v in got["vector"]] == want, (kind, p["id"])
        else:
            scale = max(abs(v) for v in p["vector"]) / 127
            assert all(abs(a - b) <= scale * 0.501 for a, b in zip(got["vector"], p["vector"]))
    # A change of the payload leaves the vector's bits alone.
    assert c.post(name + "/points/payload?wait=true", {"payload": {"x": 1}, "points": [7, 8]}).status == 200
    second = seen()
    assert [p["vector"] for p in second[0]] == [p["vector"] for p in first[0]]
    c.restart()
    assert seen() == second


def test_datatype__a_value_that_does_not_fit_is_refused_whole(c):
    name = "/collections/over"
    assert c.put(name, {"vectors": {"size": 2, "distance": "Dot", "datatype": "float16"}}).status == 200
    r = c.put(name + "/points?wait=true", {"points": [{"id": 1, "vector": [1, 2]}, {"id": 2, "vector": [1, 1e6]}]})
    assert 400 <= r.status < 500 and "float16" in r.text, r
    assert c.post(name + "/points/count", {"exact": True}).json()["result"]["count"] == 0


def test_schema__unknown_words_of_storage_are_refused(c):
    for bad in ({"datatype": "float64"}, {"_index": "magic"}, {"quantization_config": {"cubic": {}}},
                {"on_disk": 1}, {"hnsw_config": {"m": -1}}):
        r = c.put("/collections/bad", {"vectors": dict({"size": 2, "distance": "Dot"}, **bad)})
        assert r.status in (400, 422), (bad, r)
    ok = {"size": 2, "distance": "Dot", "on_disk": True, "_index": "faiss-hnsw",
          "hnsw_config": {"m": 24, "ef_construct": 120, "full_scan_threshold": 20, "on_disk": True},
          "quantization_config": {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}}
    r = c.put("/collections/good", {"vectors": ok, "hnsw_config": {"m": 8}})
    assert r.status == 200, r
    got = c.get("/collections/good").json()["result"]["config"]
    assert got["params"]["vectors"] == ok and got["hnsw_config"]["m"] == 8


def test_recall__is_taken_everywhere_and_checked(c):
    name = "/collections/r"
    assert c.put(name, {"vectors": {"size": DIM, "distance": "Cosine"}}).status == 200
    pts = points(random.Random(3), 400, "float32")
    assert c.put(name + "/points?wait=true", {"points": pts}).status == 200
    q = pts[3]["vector"]
    calls = {
        "query": lambda p: ({"query": q, "limit": 5, "params": p}, "/points/query"),
        "search": lambda p: ({"vector": q, "limit": 5, "params": p}, "/points/search"),
        "batch": lambda p: ({"searches": [{"query": q, "limit": 5, "params": p}]}, "/points/query/batch"),
        "groups": lambda p: ({"query": q, "limit": 5, "group_by": "n", "params": p}, "/points/query/groups"),
        "recommend": lambda p: ({"positive": [3], "limit": 5, "params": p}, "/points/recommend"),
    }
    for what, make in calls.items():
        answers = []
        for p in ({"exact": True}, {"recall": 0.9}, {"recall": 1}, {"recall": 0.999, "exact": True}, {"hnsw_ef": 32}):
            body, path = make(p)
            r = c.post(name + path, body)
            assert r.status == 200, (what, p, r)
            answers.append(r.body)
        assert len(set(answers)) == 1, what  # so few rows are scanned, and a scan is exact
        for p in ({"recall": 0.89}, {"recall": 1.01}, {"recall": "high"}, {"recall": 0.95, "hnsw_ef": 32}):
            body, path = make(p)
            assert c.post(name + path, body).status == 400, (what, p)
    r = c.post(name + "/points/query?explain=true", {"query": q, "limit": 5, "params": {"recall": 0.95}})
    search = r.json()["explain"]["plan"]["searches"][0]
    assert search["rows_permitted"] == 400 and search["rows_scanned"] == 400
    assert search["recall_bound"] == 1 and search["hops"] == 0 and search["segments_graph"] == 0
    assert search["segments_flat"] + search["segments_codes"] >= 1


def test_batch__answers_are_those_of_single_queries(c):
    name = "/collections/r"
    rnd = random.Random(5)
    searches = [{"query": [rnd.uniform(-1, 1) for _ in range(DIM)], "limit": rnd.choice([1, 7, 30]),
                 "with_vector": True} for _ in range(40)]
    searches[3]["filter"] = {"must": [{"key": "n", "range": {"lt": 100}}]}
    searches[4]["query"] = 17
    searches[5]["score_threshold"] = 0.1
    searches[6]["offset"] = 2
    r = c.post(name + "/points/query/batch", {"searches": searches})
    assert r.status == 200
    for one, got in zip(searches, r.json()["result"]):
        assert c.post(name + "/points/query", one).json()["result"] == got


def test_timeout__ends_in_408_and_never_in_a_part_of_the_answer(c):
    name = "/collections/slow"
    assert c.put(name, {"vectors": {"size": 8, "distance": "Euclid"}}).status == 200
    rnd = random.Random(9)
    pts = [{"id": i, "vector": [rnd.random() for _ in range(8)]} for i in range(3000)]
    assert c.put(name + "/points?wait=true", {"points": pts}).status == 200
    ask = {"query": {"recommend": {"positive": list(range(1000)), "strategy": "sum_scores"}}, "limit": 3}
    body = json.dumps({"searches": [ask] * 400}).encode()
    r = c.call("POST", name + "/points/query/batch?timeout=1", body, headers={"Content-Type": "application/json"})
    assert r.status == 408, r
    assert "result" not in r.json() and r.json()["status"]["error"].startswith("Timeout")
    assert c.post(name + "/points/query?timeout=1", {"query": pts[0]["vector"], "limit": 3}).status == 200
