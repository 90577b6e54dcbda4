"""Noninterference: what a caller may not read changes no byte of what the caller gets.

Each trial makes a pair of worlds that differ only in forbidden data: world B also holds
documents of classes that the observer may not read (too sensitive, another purpose), another
tenant's collection of the same name, other people's keys; inserted, deleted, re-inserted,
with restarts in between. The observer does the same things in both worlds, and every answer
must be equal byte for byte: status, headers and body, but for `Date` and the request id.

`time` is a constant. Refusals under load (408, 429, 503, 507) are outside the promise.
Seed: BW_SEED; BW_NIGHTLY=1 runs all 200 pairs, else a reduced number.
"""
import http.client
import json
import os
import random
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
        raw = r.read()
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


def forbidden_step(rng, c, pool, writer, alien):
    """One random change to what the observer must not notice; world B only."""
    p = f"/collections/{c}"
    kind = rng.randrange(6)
    if kind <= 2:
        labels = rng.choice(SHUT)
        pts = [point(rng, i, labels, secret=True) for i in rng.sample(pool, rng.randint(1, 20))]
        # Where a pooled id is visible to the writer in an open class, the upsert would be a move
        # of readable data: keep to ids of the forbidden range there.
        seen = {r["id"] for r in writer.ok("POST", f"{p}/points", {"ids": [x["id"] for x in pts], "with_payload": False})["result"]}
        pts = [x for x in pts if x["id"] not in seen] or [point(rng, rng.randint(10**6, 10**7), labels, secret=True)]
        writer.ok("PUT", f"{p}/points?wait=true", {"points": pts})
    elif kind == 3:
        gone = [x["id"] for x in writer.ok("POST", f"{p}/points/scroll", {
            "limit": 5, "filter": {"must": [{"key": "page_content", "match": {"text": SECRET}}]}})["result"]["points"]]
        if gone:
            writer.ok("POST", f"{p}/points/delete?wait=true", {"points": gone})
    elif kind == 4:
        if not alien.ok("GET", f"{p}/exists")["result"]["exists"]:
            alien.ok("PUT", p, {"vectors": {"size": DIM, "distance": "Dot"}})
        alien.ok("PUT", f"{p}/points?wait=true", {"points": [
            {"id": i, "vector": vector(rng), "payload": {"page_content": SECRET, "_labels": OPEN[0]}} for i in rng.sample(range(60), 5)]})
    else:
        writer.cell.key_add(f"extra{rng.getrandbits(32)}", tenant="acme", clearance=rng.randint(0, 5),
                            purposes=["support"])


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
        setup = {"vectors": {"": {"size": DIM, "distance": rng.choice(["Cosine", "Dot", "Euclid", "Manhattan"])}},
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
        steps = 0

        def hide(n):
            nonlocal steps
            for _ in range(n):
                forbidden_step(hidden, c, pool, wb, alien)
                steps += 1
        hide(hidden.randint(0, 4))
        for w in (a, b):
            if base:
                Client(w, keys["writer"]).ok("PUT", f"/collections/{c}/points?wait=true", {"points": base})
        hide(hidden.randint(1, 4))
        if trial % 6 == 5:
            b.restart()
        if trial % 12 == 7:
            a.restart()
        oa, ob = Client(a, keys["observer"]), Client(b, keys["observer"])
        for n, (method, path, body) in enumerate(probes(random.Random(seed + "/probes"), c, pool)):
            ra, rb = oa.call(method, path, body), ob.call(method, path, body)
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
        differing_worlds += ca != cb
        for w in (a, b):
            Client(w, keys["writer"]).ok("DELETE", f"/collections/{c}")
    print(f"{compared} answers compared, {answered} of them 200, {differing_worlds} pairs of worlds differed")
    assert answered > compared / 2
    assert differing_worlds > TRIALS / 3
