"""Noninterference: what a caller may not read changes no byte of what the caller gets.

Each trial makes a pair of worlds that differ only in forbidden data: world B also holds
documents of classes that the observer may not read (too sensitive, another purpose; with ids
that the observer sees, too; expired ones), another tenant's collections, aliases and payload
indexes of the same names, other people's keys; inserted, changed, deleted, revoked, with
restarts in between. The observer does the same things in both worlds, and every answer
must be equal byte for byte: status, headers and body, but for `Date` and the request id.

`time` is a constant. Refusals under load (408, 429, 503, 507) are outside the promise.
Seed: BW_SEED; BW_NIGHTLY=1 runs all 200 pairs, else a reduced number.
"""
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import tempfile
import urllib.parse
import uuid

import pytest

from cell import Cell

SEED = int(os.environ.get("BW_SEED", "1"))
NIGHTLY = os.environ.get("BW_NIGHTLY") == "1"
TRIALS = int(os.environ.get("BW_TRIALS", "200" if NIGHTLY else "24"))
DIM = 8
WORDS = ("retention ledger ward patient invoice audit transfer border clause payroll "
         "embargo cipher Vertrag Pflege contrat santé").split()
# The one word that only forbidden documents hold, besides the common ones.
SECRET = "zanzibar"

OPEN = [  # classes that the observer may read
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]},
    {"regimes": ["none"], "residency": ["EU"], "sensitivity": 2, "purposes": ["support", "care"]},
]
SHUT = [  # classes that it may not
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 5, "purposes": ["support"]},
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["payroll"]},
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 4, "purposes": ["care"], "categories": ["health"]},
]


def class_id(labels):
    """The id of a class: anybody can compute it from the labels (policies/README.md)."""
    lists = {k: sorted(labels.get(k, [])) for k in ("regimes", "residency", "categories", "labels", "purposes")}
    text = json.dumps({"tenant": "acme", "regimes": lists["regimes"], "residency": lists["residency"], "sensitivity": labels["sensitivity"],
                       "categories": lists["categories"], "labels": lists["labels"], "purposes": lists["purposes"], "legal_hold": False},
                      separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


class Client:
    """One principal's connection to one cell; keeps (status, headers, body) as they came."""

    def __init__(self, cell, key, purpose=None):
        self.cell, self.key, self.purpose = cell, key, purpose

    def call(self, method, path, body=None):
        u = urllib.parse.urlsplit(self.cell.url)
        c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
        headers = {"api-key": self.key}
        if self.purpose:
            headers["x-bailiwick-purpose"] = self.purpose
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["content-type"] = "application/json"
        c.request(method, path, data, headers)
        r = c.getresponse()
        raw = r.read().replace((r.headers["x-bailiwick-request-id"] or "\0").encode(), b"REQUEST")  # MCP's decision
        kept = sorted((k.lower(), v) for k, v in r.getheaders()
                      if k.lower() not in ("date", "x-bailiwick-request-id"))
        c.close()
        return r.status, kept, raw

    def ok(self, method, path, body=None):
        status, _, raw = self.call(method, path, body)
        assert status == 200, (method, path, status, raw[:300])
        return json.loads(raw) if raw else None


def vector(rng):
    return [round(rng.gauss(0, 1), 4) for _ in range(DIM)]


def point(rng, pid, labels, secret=False):
    words = [rng.choice(WORDS) for _ in range(rng.randint(3, 12))]
    if secret:
        words += [SECRET, "retention"] * rng.randint(1, 3)
    idx = sorted(rng.sample(range(40), rng.randint(1, 6)))
    return {
        "id": pid,
        "vector": {"": vector(rng), "sp": {"indices": idx, "values": [round(rng.uniform(-1, 2), 3) for _ in idx]}},
        "payload": {"page_content": " ".join(words), "kind": rng.choice("abc"), "n": rng.randint(0, 9),
                    "tags": rng.sample(["x", "y", "z"], rng.randint(0, 3)), "_labels": labels},
    }


def ids_pool(rng):
    return list(range(1, 60)) + [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(10)]


def probes(rng, c, pool):
    """What the observer does in both worlds: reads of every kind, writes, errors."""
    q, some = vector(rng), rng.sample(pool, 8)
    flt = {"must": [{"key": "kind", "match": {"value": rng.choice("abc")}}],
           "must_not": [{"key": "n", "range": {"gt": 7}}]}
    sp = {"indices": [1, 5, 9, 20], "values": [1.0, 0.5, 0.25, 2.0]}
    p = f"/collections/{c}"
    yield from [
        ("GET", "/collections", None), ("GET", p, None), ("GET", f"{p}/exists", None), ("GET", "/aliases", None),
        ("POST", f"{p}/points/count", {"exact": True}), ("POST", f"{p}/points/count", {"filter": flt}),
        ("POST", f"{p}/points/scroll", {"limit": 5, "with_vector": True}),
        ("POST", f"{p}/points/scroll", {"limit": 100, "filter": flt}),
        ("POST", f"{p}/points/scroll", {"limit": 4, "offset": some[0]}),
        ("POST", f"{p}/points/scroll", {"limit": 7, "order_by": {"key": "n", "direction": "desc"}}),
        ("POST", f"{p}/points", {"ids": some, "with_payload": True, "with_vector": True}),
        ("POST", f"{p}/points/query", {"query": q, "limit": 10, "with_payload": True}),
        ("POST", f"{p}/points/query", {"query": q, "limit": 1000, "params": {"exact": True}}),
        ("POST", f"{p}/points/query", {"query": q, "limit": 6, "filter": flt, "score_threshold": 0.05}),
        ("POST", f"{p}/points/query", {"query": sp, "using": "sp", "limit": 9}),
        ("POST", f"{p}/points/query", {"prefetch": [{"query": q, "limit": 9}, {"query": sp, "using": "sp", "limit": 9}],
                                       "query": {"fusion": "rrf"}, "limit": 9}),
        ("POST", f"{p}/points/query", {"prefetch": [{"query": q, "limit": 9}, {"query": sp, "using": "sp", "limit": 9}],
                                       "query": {"fusion": "dbsf"}, "limit": 9}),
        ("POST", f"{p}/points/query", {"query": {"nearest": q, "mmr": {"diversity": 0.6, "candidates_limit": 15}}, "limit": 5}),
        ("POST", f"{p}/points/query", {"query": q, "limit": 5, "params": {"recall": 0.9}}),
        ("POST", f"{p}/points/query", {"query": q, "limit": 5, "params": {"recall": 0.5}}),
        ("POST", f"{p}/points/query?explain=true", {"query": q, "limit": 5, "filter": flt, "params": {"hnsw_ef": 16}}),
        ("POST", f"{p}/points/query/batch?explain=true",
         {"searches": [{"query": q, "limit": 3}, {"query": some[4], "limit": 4}, {"query": q, "limit": 2, "filter": flt},
                       {"query": q, "limit": 5, "params": {"recall": 0.95}}]}),
        ("POST", f"{p}/points/query", {"limit": 5, "offset": 2}),
        ("POST", f"{p}/points/query", {"query": {"recommend": {"positive": [some[1]], "negative": [some[2]]}}, "limit": 5}),
        ("POST", f"{p}/points/query/batch", {"searches": [{"query": q, "limit": 3}, {"query": sp, "using": "sp", "limit": 3}]}),
        ("POST", f"{p}/points/query/groups", {"query": q, "group_by": "kind", "group_size": 2, "limit": 3}),
        ("POST", f"{p}/points/search", {"vector": q, "limit": 4, "with_payload": True}),
        ("POST", f"{p}/facet", {"key": "kind", "limit": 10, "exact": True}),
        ("POST", f"{p}/facet", {"key": "tags", "limit": 10, "filter": flt}),
        ("POST", f"{p}/points/scroll", {"filter": {"must": [{"has_id": some}]}, "limit": 50}),
        ("POST", f"{p}/points/query", {"query": some[3], "limit": 4}),
        ("POST", f"{p}/points/query", {"query": vector(rng)[:3], "limit": 4}),
        ("POST", f"{p}/points/query", {"query": q, "using": "nothing", "limit": 4}),
        ("POST", f"{p}/points/scroll", {"filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}, "limit": 50}),
        ("POST", "/v1/query", {"query": f"{SECRET} retention clause", "collection": c, "mode": "bm25", "limit": 10}),
        ("POST", "/v1/query", {"query": "retention patient", "collection": c, "mode": "bm25", "limit": 3, "explain": True}),
        ("GET", "/v1/classes?collection=" + c, None), ("GET", "/metrics", None), ("GET", "/v1/audit", None),
        ("GET", "/collections/absent", None), ("GET", f"{p}/points/9999", None),
    ]
    for pid in some[:4]:
        yield ("GET", f"{p}/points/{pid}", None)
    # Writes of the observer: upserts on ids that forbidden classes may hold too, edits, deletes.
    yield ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, OPEN[0]) for i in some[:3]]})
    yield ("POST", f"{p}/points/payload?wait=true", {"payload": {"kind": "z"}, "points": some[2:6]})
    yield ("POST", f"{p}/points/delete?wait=true", {"points": [some[0], some[6]]})
    yield ("POST", f"{p}/points/delete?wait=true", {"filter": {"must": [{"key": "n", "match": {"value": 3}}]}})
    yield ("POST", f"{p}/points/count", {"exact": True})
    yield ("POST", f"{p}/points/scroll", {"limit": 200, "with_vector": True})
    yield ("POST", f"{p}/points/query", {"query": q, "limit": 20, "with_payload": True, "with_vector": True})
    yield from more_reads(rng, c, pool, q, sp)
    yield from more_writes(rng, c, pool)
    yield ("GET", p, None)
    yield ("PAGES", f"{p}/points/scroll", {"limit": 11, "with_vector": True})
    yield ("POST", f"{p}/points/query", {"query": q, "limit": 100, "with_payload": True, "with_vector": True})


def more_reads(rng, c, pool, q, sp):
    p, some = f"/collections/{c}", rng.sample(pool, 9)
    where = {"min_should": {"conditions": [{"key": "kind", "match": {"any": ["a", "z"]}}, {"has_id": some}, {"has_vector": "sp"}], "min_count": 2}}
    yield from [
        ("GET", "/telemetry", None), ("GET", f"{p}/cluster", None), ("GET", f"{p}/aliases", None), ("GET", "/v1/whoami", None),
        ("GET", "/v1/collections", None), ("GET", "/v1/keys", None), ("GET", "/v1/policies", None), ("HEAD", p, None), ("OPTIONS", p, None),
        ("POST", "/v1/authorize", {"action": "Query", "labels": SHUT[0]}), ("POST", "/v1/authorize", {"action": "ManageCollection", "collection": c}),
        ("POST", "/v1/explain", {"action": "Query", "labels": SHUT[1]}), ("POST", "/v1/explain", {"action": "ManageCollection", "collection": c}),
        *(("POST", "/v1/explain", dict({"action": rng.choice(["Query", "Delete", "Export"])}, **about)) for about in [
            *({"class": class_id(l)} for l in SHUT + OPEN[:1]), {"class": class_id(SHUT[1]), "collection": c},
            *({"collection": c, "point": i} for i in some[:4]), {"collection": c, "point": some[0], "class": class_id(SHUT[0])},
            {"collection": "theirs", "point": some[1]}]),
        ("POST", "/v1/explain/result", {"collection": c}), ("POST", "/v1/explain/result", {"collection": "theirs"}),
        *(("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}) for tool, arguments in [
            ("list_collections", {}), ("search", {"query": f"{SECRET} retention", "collection": c, "mode": "bm25", "limit": 3, "offset": rng.randint(0, 4)}),
            ("search", {"query": SECRET, "collection": "theirs", "mode": "bm25"}), ("explain_access", {"collection": c, "mode": "bm25"}),
            ("explain_access", {"collection": c, "class": class_id(SHUT[0])}), *(("explain_access", {"collection": c, "id": i}) for i in some[:3]),
            *(("get_passage", {"collection": c, "id": i, "neighbours": 2}) for i in some[:5]), ("get_passage", {"collection": "theirs", "id": some[0]})]),
        ("PAGES", f"{p}/points/scroll", {"limit": rng.randint(1, 6)}),
        ("PAGES", f"{p}/points/scroll", {"limit": 3, "filter": {"must_not": [{"key": "kind", "match": {"value": "b"}}]}}),
        ("POST", f"{p}/points/scroll", {"limit": 9, "order_by": {"key": "n", "start_from": 4}}),
        ("POST", f"{p}/points/scroll", {"limit": 90, "filter": where}),
        ("POST", f"{p}/points/count", {"filter": {"must": [{"is_empty": {"key": "tags"}}]}}),
        ("POST", f"{p}/points/query?explain=true", {"query": q, "limit": 5}),
        ("POST", f"{p}/points/query?explain=true", {"query": q, "limit": 5, "filter": where}),
        ("POST", f"{p}/points/query?explain=true", {"query": sp, "using": "sp", "limit": 5}),
        ("POST", f"{p}/points/query/batch?explain=true", {"searches": [{"query": q, "filter": where}, {"query": some[0]}]}),
        ("POST", f"{p}/points/query/groups", {"query": q, "group_by": "n", "with_lookup": c, "limit": 9, "group_size": 3}),
        ("POST", f"{p}/points/query/groups", {"query": some[0], "group_by": "tags", "limit": 9}),
        ("POST", f"{p}/points/query", {"query": some[1], "lookup_from": {"collection": c}, "limit": 4}),
        ("POST", f"{p}/points/query", {"query": some[1], "lookup_from": {"collection": "absent"}, "limit": 4}),
        ("POST", f"{p}/points/query", {"query": {"order_by": {"key": "n", "direction": "desc"}}, "limit": 8}),
        ("POST", f"{p}/points/query", {"query": {"recommend": {"positive": some[2:4], "negative": some[4:5], "strategy": "best_score"}}, "limit": 8}),
        ("POST", f"{p}/points/query", {"prefetch": {"prefetch": {"query": sp, "using": "sp", "limit": 20}, "query": q, "limit": 10}, "query": some[5], "limit": 4}),
        ("POST", f"{p}/points/recommend", {"positive": [some[6]], "limit": 5}),
        ("POST", f"{p}/points/search/batch", {"searches": [{"vector": q, "limit": 4}, {"vector": {"name": "sp", "vector": sp}, "limit": 4}]}),
        ("POST", f"{p}/points/search/groups", {"vector": q, "limit": 4, "group_by": "kind", "group_size": 3}),
        ("POST", f"{p}/facet", {"key": "n", "limit": 30}), ("POST", f"{p}/facet", {"key": "page_content", "limit": 30}),
        ("POST", "/v1/query", {"query": SECRET, "collection": c, "mode": "bm25", "filter": {"must_not": [{"has_id": some}]}, "explain": True}),
        ("POST", "/v1/query", {"query": "retention", "collection": c, "mode": "hybrid"}),
        ("POST", "/v1/ingest", {"collection": c, "source": "s", "text": "retention"}),
    ]


def more_writes(rng, c, pool):
    p, some = f"/collections/{c}", rng.sample(pool, 14)
    yield from [
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, OPEN[1]) for i in some[:4]], "update_mode": "insert_only"}),
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, OPEN[0]) for i in some[2:6]], "update_mode": "update_only"}),
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, OPEN[0]) for i in some[4:8]],
                                          "update_filter": {"must": [{"key": "kind", "match": {"value": "a"}}]}}),
        # Into classes that it may not read: too high is refused, another purpose is taken unseen.
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, some[0], SHUT[0])]}),
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, SHUT[1]) for i in some[5:7]]}),
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, SHUT[1]) for i in some[6:9]], "update_mode": "insert_only"}),
        ("PUT", f"{p}/points?wait=true", {"points": [point(rng, i, SHUT[1]) for i in some[7:10]],
                                          "update_filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}}),
        ("POST", f"{p}/points", {"ids": some}),
        ("PUT", f"{p}/points/vectors?wait=true", {"points": [{"id": some[9], "vector": {"": vector(rng)}}]}),
        ("POST", f"{p}/points/vectors/delete?wait=true", {"vector": ["sp"], "points": some[8:12]}),
        ("PUT", f"{p}/points/payload?wait=true", {"payload": {"kind": "y", "page_content": "retention"}, "filter": {"must": [{"key": "n", "range": {"lt": 3}}]}}),
        ("POST", f"{p}/points/payload/delete?wait=true", {"keys": ["tags", "page_content"], "points": some[10:]}),
        ("POST", f"{p}/points/payload/clear?wait=true", {"filter": {"must": [{"has_id": some[11:13]}]}}),
        ("POST", f"{p}/points/batch?wait=true", {"operations": [
            {"upsert": {"points": [point(rng, some[12], OPEN[1])]}}, {"set_payload": {"payload": {"n": 1}, "filter": {"must": [{"key": "kind", "match": {"value": "c"}}]}}},
            {"delete": {"filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}}}, {"delete_payload": {"keys": ["kind"], "points": [some[13]]}}]}),
        ("POST", f"{p}/points/batch?wait=true", {"operations": [
            {"delete": {"points": [some[13]]}}, {"update_vectors": {"points": [{"id": some[13], "vector": {"": vector(rng)}}]}}]}),
        ("POST", "/v1/relabel", {"collection": c, "points": some, "raise": {"sensitivity": 2}, "dry_run": True}),
        ("POST", "/v1/relabel", {"collection": c, "points": some[:5], "labels": OPEN[1]}),
        ("POST", "/v1/relabel", {"collection": c, "filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}, "raise": {"sensitivity": 2}}),
        ("POST", "/v1/relabel", {"collection": c, "filter": {"must": [{"has_id": some[5:9]}]}, "labels": SHUT[1]}),  # out of its own sight
        ("POST", "/v1/relabel", {"collection": c, "points": some[9:], "labels": SHUT[0]}),
        ("PUT", f"{p}/index?wait=true", {"field_name": "page_content", "field_schema": "keyword"}),
        ("GET", p, None), ("POST", f"{p}/facet", {"key": "page_content", "limit": 100}),
        ("DELETE", f"{p}/index/page_content?wait=true", None),
        ("PATCH", p, {"metadata": {"seen": 1}}), ("PUT", f"/v1/collections/{c}", {"labels": OPEN[1]}),
        ("PUT", f"{p}/points?wait=true", {"points": [{"id": some[3], "vector": {"": vector(rng)}, "payload": {"kind": "a"}}]}),
        ("POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": c, "alias_name": "nick"}}]}),
        ("POST", "/collections/nick/points/count", {}), ("GET", "/aliases", None),
        ("POST", "/collections/aliases", {"actions": [{"rename_alias": {"old_alias_name": "nick", "new_alias_name": "name"}}]}),
        ("POST", "/collections/aliases", {"actions": [{"rename_alias": {"old_alias_name": "theirs", "new_alias_name": "mine"}}]}),
        ("GET", "/collections/name/exists", None), ("GET", "/collections/theirs", None), ("DELETE", "/collections/theirs", None),
        ("POST", "/collections/aliases", {"actions": [{"delete_alias": {"alias_name": "name"}}]}),
        ("POST", f"{p}/points/delete?wait=true", {"filter": {"must": [{"has_id": some[:2]}]}}),
        ("POST", f"{p}/points/delete?wait=true", {"filter": {"must": [{"key": "page_content", "match": {"text": "retention"}}], "must_not": [{"key": "kind", "match": {"value": "a"}}]}}),
    ]


def rather_not_seen(rng, pts, writer, p):
    """Where a pooled id is visible to the writer in an open class, the upsert would be a move
    of readable data: keep to ids of the forbidden range there."""
    seen = {r["id"] for r in writer.ok("POST", f"{p}/points", {"ids": [x["id"] for x in pts], "with_payload": False})["result"]}
    return [x for x in pts if x["id"] not in seen] or [point(rng, rng.randint(10**6, 10**7), rng.choice(SHUT), secret=True)]


def forbidden_step(rng, c, pool, writer, alien, deep):
    """One random change to what the observer must not notice; world B only. deep: a writer that
    cannot see the open classes either, so that it holds the very ids of the open points."""
    p = f"/collections/{c}"
    kind = rng.randrange(11)
    if kind <= 2:
        labels = rng.choice(SHUT)
        pts = [point(rng, i, labels, secret=True) for i in rng.sample(pool, rng.randint(1, 20))]
        writer.ok("PUT", f"{p}/points?wait=true", {"points": rather_not_seen(rng, pts, writer, p)})
    elif kind == 3:
        gone = [x["id"] for x in writer.ok("POST", f"{p}/points/scroll", {
            "limit": 5, "filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}})["result"]["points"]]
        if gone:
            # Not by id alone: the observer may hold the id, too, where the writer sees it.
            writer.ok("POST", f"{p}/points/delete?wait=true", {"filter": {"must": [
                {"has_id": gone}, {"key": "page_content", "match": {"text": SECRET}}]}})
    elif kind == 4:
        if not alien.ok("GET", f"{p}/exists")["result"]["exists"]:
            alien.ok("PUT", p, {"vectors": {"size": DIM, "distance": "Dot"}})
        alien.ok("PUT", f"{p}/points?wait=true", {"points": [
            {"id": i, "vector": vector(rng), "payload": {"page_content": SECRET, "_labels": OPEN[0]}} for i in rng.sample(range(60), 5)]})
    elif kind == 5:
        writer.cell.key_add(f"extra{rng.getrandbits(32)}", tenant="acme", clearance=rng.randint(0, 5), purposes=["support"])
    elif kind <= 7:  # the ids of open points, in a class of another purpose
        pts = [point(rng, i, SHUT[1], secret=True) for i in rng.sample(pool, rng.randint(5, 30))]
        if kind == 7:
            for x in pts[::2]:
                x["payload"]["_expires_at"] = "2020-01-01T00:00:00Z"
        deep.ok("PUT", f"{p}/points?wait=true", {"points": pts})
    elif kind == 8:  # edits of what is hidden
        deep.ok("POST", f"{p}/points/payload?wait=true", {"payload": {"kind": "z", "n": 99, "page_content": SECRET}, "filter": {}})
        deep.ok("POST", f"{p}/points/delete?wait=true", {"filter": {"must": [{"key": "tags", "match": {"value": "x"}}]}})
        deep.ok("POST", "/v1/relabel", {"collection": c, "filter": {"must": [{"key": "n", "range": {"lt": 5}}]}, "raise": {"categories": ["hr"]}})
    elif kind == 9:  # the other tenant's names and settings
        if not alien.ok("GET", f"{p}/exists")["result"]["exists"]:
            alien.ok("PUT", p, {"vectors": {"size": DIM, "distance": "Dot"}})
        alien.ok("PUT", f"{p}/index?wait=true", {"field_name": "page_content", "field_schema": "text"})
        alien.ok("POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": c, "alias_name": rng.choice(["theirs", "nick", "name"])}}]})
    else:
        writer.cell.key_add(f"gone{rng.getrandbits(32)}", tenant="acme", clearance=5, purposes=["payroll"])
        ident = writer.cell.get("/v1/keys").json()["keys"][-1]["id"]
        assert writer.cell.delete("/v1/keys/" + ident).status == 200


def pages(client, path, body):
    """Every page to the end, each cursor as it came, as one answer."""
    out, offset = [], None
    for _ in range(200):
        status, headers, raw = client.call("POST", path, dict(body, offset=offset) if offset is not None else body)
        out.append((headers, raw))
        offset = json.loads(raw)["result"]["next_page_offset"] if status == 200 else None
        if offset is None:
            break
    return status, out, b"".join(raw for _, raw in out)


@pytest.fixture(scope="module")
def worlds():
    """Two cells from one folder, so that their secrets and keys are the same."""
    tmp = tempfile.mkdtemp(prefix="bw-ni-")
    a_dir, b_dir = os.path.join(tmp, "a"), os.path.join(tmp, "b")
    first = Cell(dev=False, data=a_dir, country="FR", operator="eucloud")
    first.init()
    first.start()
    keys = {
        "observer": first.key_add("observer", tenant="acme", clearance=2, roles=["editor"], purposes=["support"]),
        "writer": first.key_add("writer", tenant="acme", clearance=5, roles=["editor", "admin"],
                                purposes=["support", "payroll", "care"], default_purpose="support"),
        "deep": first.key_add("deep", tenant="acme", clearance=5, roles=["editor"], purposes=["payroll"]),
        "alien": first.key_add("alien", tenant="hosp", clearance=5, roles=["editor"], purposes=["support"]),
    }
    assert first.stop() == 0
    shutil.copytree(a_dir, b_dir)
    a, b = Cell(dev=False, data=a_dir), Cell(dev=False, data=b_dir)
    a.admin_key = b.admin_key = first.admin_key
    a.start()
    b.start()
    yield a, b, keys
    for w in (a, b):
        assert w.stop() == 0
    shutil.rmtree(tmp, ignore_errors=True)


def test_noninterference__forbidden_data_changes_no_byte(worlds):
    a, b, keys = worlds
    print(f"seed {SEED}, {TRIALS} pairs")
    compared = answered = differing_worlds = 0
    for trial in range(TRIALS):
        seed = f"{SEED}/{trial}"
        rng = random.Random(seed)
        c = f"t{trial}"
        pool = ids_pool(rng)
        setup = {"vectors": {"": {"size": DIM, "distance": rng.choice(["Cosine", "Dot", "Euclid", "Manhattan"]),
                                  "datatype": rng.choice(["float32", "float16", "uint8", "bfloat16", "int8"])}},
                 "sparse_vectors": {"sp": rng.choice([{}, {"modifier": "idf"}])}}
        base = [point(rng, i, rng.choice(OPEN)) for i in rng.sample(pool, rng.randint(0, 40))]
        indexed = rng.random() < 0.7
        for w in (a, b):
            writer = Client(w, keys["writer"])
            writer.ok("PUT", f"/collections/{c}", setup)
            if indexed:
                for field, kind in (("kind", "keyword"), ("n", "integer"), ("tags", "keyword")):
                    writer.ok("PUT", f"/collections/{c}/index?wait=true", {"field_name": field, "field_schema": kind})
        hidden = random.Random(seed + "/hidden")
        wb, alien = Client(b, keys["writer"], "payroll" if trial % 3 == 1 else None), Client(b, keys["alien"])
        deep = Client(b, keys["deep"])
        steps = 0

        def hide(n):
            nonlocal steps
            for _ in range(n):
                forbidden_step(hidden, c, pool, wb, alien, deep)
                steps += 1
        hide(hidden.randint(0, 4))
        for w in (a, b):
            if base:
                Client(w, keys["writer"]).ok("PUT", f"/collections/{c}/points?wait=true", {"points": base})
        hide(hidden.randint(1, 4))
        # A restart is no forbidden data: where one world alone had one, explain may tell into how
        # many segments the caller's own rows have been laid since.
        alone = trial % 6 == 5 or trial % 12 == 7
        if trial % 6 == 5:
            b.restart()
        if trial % 12 == 7:
            a.restart()
        oa, ob = Client(a, keys["observer"]), Client(b, keys["observer"])
        for n, (method, path, body) in enumerate(probes(random.Random(seed + "/probes"), c, pool)):
            if method == "PAGES":
                ra, rb = pages(oa, path, body), pages(ob, path, body)
            else:
                ra, rb = oa.call(method, path, body), ob.call(method, path, body)
            if alone and "explain" in path + json.dumps(body):
                ra, rb = ((*r[:2], re.sub(rb'"(segments_flat|segments_codes|rows_rescored)":\d+', b"", r[2])) for r in (ra, rb))
            compared += 1
            answered += ra[0] == 200
            assert ra == rb, (f"seed {seed}, probe {n}: {method} {path} {json.dumps(body)}\n"
                              f"world A: {ra}\nworld B: {rb}")
            assert SECRET.encode() not in rb[2] or SECRET in json.dumps(body or ""), (seed, path, rb)
            if n % 9 == 8:
                hide(1)
        # The test could not fail if B held nothing hidden: the writer must see more there.
        ca, cb = (Client(w, keys["writer"], "payroll" if trial % 3 == 1 else None)
                  .ok("POST", f"/collections/{c}/points/count", {"exact": True})["result"]["count"] for w in (a, b))
        da, db = (Client(w, keys["deep"]).ok("POST", f"/collections/{c}/points/scroll", {"limit": 1000}) for w in (a, b))
        differing_worlds += ca != cb or da != db
        for w in (a, b):
            Client(w, keys["writer"]).ok("DELETE", f"/collections/{c}")
    print(f"{compared} answers compared, {answered} of them 200, {differing_worlds} pairs of worlds differed")
    assert answered > compared / 2
    assert differing_worlds > TRIALS / 3
