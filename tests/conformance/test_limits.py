"""The caps of server/limits.h over HTTP, each at the cap and one above it; large bodies;
many connections; query parameters. (Caps inside one body are in the unit tests.)"""
import json
import os
import re
import threading

import pytest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(SOURCE, "server", "limits.h"), encoding="utf-8") as _f:
    LIMIT = {k: int(v) for k, v in re.findall(r"BW_LIMIT_(\w+) =\s*(\d+)", _f.read())}


@pytest.fixture
def coll(cell, name):
    assert cell.put("/collections/" + name, {"vectors": {"size": 2, "distance": "Dot"}}).status == 200
    r = cell.put("/collections/%s/index?wait=true" % name, {"field_name": "k", "field_schema": "keyword"})
    assert r.status == 200
    r = cell.put("/collections/%s/points?wait=true" % name, {"points": [
        {"id": i, "vector": [i, 1], "payload": {"k": "v%d" % (i % 2)}} for i in range(4)]})
    assert r.status == 200
    return "/collections/" + name


def test_every_cap_is_read():
    assert LIMIT["BODY_BYTES"] == 32 * 1024 * 1024 and len(LIMIT) >= 20


def one_above(cell, path, make, cap, status=422, method="POST"):
    r = cell.call(method, path, make(cap))
    assert r.status == 200, r
    r = cell.call(method, path, make(cap + 1))
    assert r.status == status and r.body.startswith(b'{"status"'), r


def test_body_bytes(cell, coll):
    body = json.dumps({"exact": True}).encode()
    full = body + b" " * (LIMIT["BODY_BYTES"] - len(body))
    assert cell.post(coll + "/points/count", full).status == 200
    assert cell.post(coll + "/points/count", full + b" ").status == 400


def test_answer_bytes(cell, coll):
    """One point of 16 MiB, shown 15 times and 17 times."""
    big = 16 * 1024 * 1024
    r = cell.put(coll + "/points?wait=true", {"points": [{"id": 9, "vector": [1, 1], "payload": {"a": "x" * big}}]})
    assert r.status == 200, r
    search = {"query": [1, 1], "filter": {"must": [{"has_id": [9]}]}, "with_payload": True}
    for times, status in ((LIMIT["ANSWER_BYTES"] // big - 1, 200), (LIMIT["ANSWER_BYTES"] // big + 1, 400)):
        r = cell.post(coll + "/points/query/batch", {"searches": [search] * times}, timeout=300)
        assert r.status == status
    assert "ask for fewer points" in r.json()["status"]["error"]
    assert cell.post(coll + "/points/count", {}).status == 200


def test_json_depth(cell, coll):
    def make(levels):  # payload at depth: body, points, point, payload are 4 of them
        return ('{"points":[{"id":9,"vector":[1,1],"payload":{"a":%s%s}}]}'
                % ("[" * (levels - 4), "]" * (levels - 4))).encode()
    one_above(cell, coll + "/points", make, LIMIT["JSON_DEPTH"], status=400, method="PUT")


@pytest.mark.parametrize("path,make,cap", [
    ("/points/scroll", lambda n: {"limit": n}, "LIMIT"),
    ("/points/search", lambda n: {"vector": [1, 1], "limit": n}, "LIMIT"),
    ("/points/query", lambda n: {"query": [1, 1], "offset": n}, "OFFSET"),
    ("/facet", lambda n: {"key": "k", "limit": n}, "LIMIT"),
    ("/points/query/groups", lambda n: {"query": [1, 1], "group_by": "k", "group_size": n}, "GROUP_SIZE"),
    ("/points/query/batch", lambda n: {"searches": [{"query": 1, "limit": 1}] * n}, "SEARCHES"),
    ("/points/batch", lambda n: {"operations": [{"delete": {"points": [77]}}] * n}, "OPERATIONS"),
    ("/points", lambda n: {"ids": list(range(n))}, "IDS"),
    ("/points/payload/delete", lambda n: {"points": [77], "keys": ["a"] * n}, "KEYS"),
    ("/points/query", lambda n: {"query": [1, 1], "with_payload": ["a"] * n}, "KEYS"),
    ("/points/query", lambda n: {"query": {"nearest": [1, 1], "mmr": {"candidates_limit": n}}}, "MMR_CANDIDATES"),
    ("/points/query", lambda n: {"query": [1, 1], "params": {"hnsw_ef": n}}, "EF"),
])
def test_caps_of_calls(cell, coll, path, make, cap):
    one_above(cell, coll + path, make, LIMIT[cap])


def test_cap_of_points(cell, coll):
    def make(n):
        return ('{"points":[%s]}' % ",".join('{"id":%d,"vector":{}}' % i for i in range(n))).encode()
    r = cell.put(coll + "/points?wait=true", make(LIMIT["POINTS"] + 1))
    assert r.status == 422
    r = cell.put(coll + "/points?wait=true", make(LIMIT["POINTS"]), timeout=300)
    assert r.status == 200
    assert cell.post(coll + "/points/count", {}).json()["result"]["count"] == LIMIT["POINTS"]


def test_cap_of_names_and_settings(cell, name):
    def vectors(n):
        return {"vectors": {"n" * n: {"size": 1, "distance": "Dot"}}}

    def metadata(n):
        return {"metadata": {"a": "x" * n}}
    for make, cap in ((vectors, LIMIT["VECTOR_NAME"]), (lambda n: {"vectors": {"size": n, "distance": "Dot"}}, LIMIT["DIM"])):
        assert cell.put("/collections/" + name, make(cap + 1)).status == 422
        assert cell.put("/collections/" + name, make(cap)).status == 200
        cell.delete("/collections/" + name)
    assert cell.put("/collections/" + name, metadata(LIMIT["SETTINGS_BYTES"])).status == 422
    assert cell.put("/collections/" + name, metadata(LIMIT["SETTINGS_BYTES"] - 200)).status == 200


def test_cap_of_payload_indexes(cell, name):
    cell.put("/collections/" + name, {})
    for i in range(LIMIT["INDEXES"] + 1):
        r = cell.put("/collections/%s/index?wait=true" % name, {"field_name": "f%d" % i, "field_schema": "keyword"})
        assert r.status == (200 if i < LIMIT["INDEXES"] else 400), (i, r)


def test_cap_of_alias_actions(cell):
    act = {"delete_alias": {"alias_name": "none"}}
    r = cell.post("/collections/aliases", {"actions": [act] * (LIMIT["ALIAS_ACTIONS"] + 1)})
    assert r.status == 422
    assert cell.post("/collections/aliases", {"actions": [act] * LIMIT["ALIAS_ACTIONS"]}).status != 422


@pytest.mark.parametrize("query,status", [
    ("wait=true", 200), ("wait=false", 200), ("wait=yes", 400), ("wait=", 400), ("ordering=weak", 200),
    ("ordering=loose", 400), ("timeout=5", 200), ("timeout=0", 400), ("timeout=-1", 400), ("timeout=x", 400),
    ("consistency=majority", 200), ("consistency=2", 200), ("consistency=few", 400), ("unknown=1", 200)])
def test_query_parameters(cell, coll, query, status):
    r = cell.put(coll + "/points?" + query, {"points": [{"id": 1, "vector": [1, 1]}]})
    assert r.status == status, r
    if status == 400:
        assert r.json()["status"]["error"].startswith("Deserialize error in query parameters: "), r


def test_explain_shows_the_plan(cell, coll):
    r = cell.post(coll + "/points/query?explain=true", {"query": [1, 1]}).json()
    assert isinstance(r["explain"], dict) and r["result"]["points"]
    assert "explain" not in cell.post(coll + "/points/query", {"query": [1, 1]}).json()


def test_a_thousand_wide_vectors_in_one_body(cell, name):
    cell.put("/collections/" + name, {"vectors": {"size": 768, "distance": "Cosine"}})
    body = {"points": [{"id": i, "vector": [((i * 7919 + k * 104729) % 1000) / 500 - 1 for k in range(768)]}
                       for i in range(1000)]}
    assert cell.put("/collections/%s/points?wait=true" % name, body).status == 200
    r = cell.post("/collections/%s/points/query" % name, {"query": body["points"][17]["vector"], "limit": 1})
    assert r.json()["result"]["points"][0]["id"] == 17


def test_many_connections_read_what_they_wrote(cell, coll):
    failures = []

    def work(t):
        try:
            c = cell.connection()
            for i in range(25):
                pid = 1000 + t * 100 + i
                r = cell.put(coll + "/points?wait=true", {"points": [
                    {"id": pid, "vector": [t, i], "payload": {"k": "t%d" % t}}]}, connection=c)
                assert r.status == 200, r
                r = cell.post(coll + "/points/count", {"filter": {"must": [
                    {"key": "k", "match": {"value": "t%d" % t}}]}}, connection=c)
                assert r.json()["result"]["count"] == i + 1, r
                got = cell.post(coll + "/points/query", {"query": [1, 1], "limit": 1000, "with_payload": True}, connection=c)
                assert all("payload" in p for p in got.json()["result"]["points"])
            c.close()
        except Exception as e:  # noqa: BLE001 (told to the main thread)
            failures.append("%d: %r" % (t, e))
    threads = [threading.Thread(target=work, args=(t,)) for t in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    assert cell.post(coll + "/points/count", {}).json()["result"]["count"] == 4 + 12 * 25
