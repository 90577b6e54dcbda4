"""Against the judge: Qdrant's own engine in one process (qdrant-edge-py), the same random
points, filters, queries, selectors and payload calls. What differs on purpose is named in
KNOWN. Seed: BW_SEED; BW_NIGHTLY=1 runs ten times as many."""
import json
import os
import random
import tempfile

import pytest

qe = pytest.importorskip("qdrant_edge")

SEED = int(os.environ.get("BW_SEED", "1"))
TIMES = 10 if os.environ.get("BW_NIGHTLY") == "1" else 1
EPS = 1e-3
N = 60


def judge(distance="Cosine", size=4, sparse=None):
    config = qe.EdgeConfig(
        vectors=qe.EdgeVectorParams(size=size, distance=getattr(qe.Distance, distance)),
        sparse_vectors={"s": qe.EdgeSparseVectorParams(modifier=sparse)} if sparse is not False else None)
    return qe.EdgeShard.create(tempfile.mkdtemp(prefix="bw-judge-"), config)


# ---- random data ----

DATES = ["2024-01-01T00:00:00Z", "2024-06-15T12:30:00.25Z", "2025-01-01T00:00:00+02:00", "2023-12-31"]


def scalar(rnd):
    return rnd.choice([None, True, False, rnd.randint(-3, 3), 2 ** 53 + rnd.randint(0, 2), rnd.choice([.5, 1.5, -2.0, 3.0]),
                       rnd.choice(["a", "b", "quick fox", "lazy Dog", ""]), rnd.choice(DATES)])


def value(rnd, depth=0):
    k = rnd.random()
    if depth > 2 or k < .6:
        return scalar(rnd)
    if k < .8:
        return [value(rnd, depth + 1) for _ in range(rnd.randint(0, 3))]
    return {rnd.choice("xyz"): value(rnd, depth + 1) for _ in range(rnd.randint(0, 3))}


def payload(rnd):
    p = {k: value(rnd) for k in "abcd" if rnd.random() < .7}
    if rnd.random() < .6:
        p["arr"] = [{"x": scalar(rnd), "y": scalar(rnd)} for _ in range(rnd.randint(0, 3))]
    return p


KEYS = ["a", "b", "c", "d", "a.x", "b.y", "arr", "arr[].x", "arr[0].y", "arr[].y", "a[]", "b[1]", "c.x.y", "zzz", "arr.x"]


def condition(rnd, depth):
    kind = rnd.randrange(12 if depth < 3 else 10)
    key = rnd.choice(KEYS)
    if kind == 0:
        v = rnd.choice(["a", "b", "quick fox", 1, 0, -2, 2 ** 53 + 1, 3])
        return {"key": key, "match": {"value": v}}
    if kind == 1:
        vs = rnd.choice([["a", "b"], [1, 2, 2 ** 53], [], ["quick fox"]])
        return {"key": key, "match": {rnd.choice(["any", "except"]): vs}}
    if kind == 2:
        return {"key": key, "match": {"text": rnd.choice(["quick", "DOG lazy", "fox", "qui", "a"])}}
    if kind == 3:
        bounds = {w: rnd.choice([-2, 0, .5, 1, 1.5, 3, 2 ** 53 + 1]) for w in rnd.sample(["gt", "gte", "lt", "lte"], rnd.randint(1, 2))}
        return {"key": key, "range": bounds}
    if kind == 4:
        return {"key": key, "range": {rnd.choice(["gt", "gte", "lt", "lte"]): rnd.choice(DATES)}}
    if kind == 5:
        return {"key": key, "values_count": {rnd.choice(["gt", "gte", "lt", "lte"]): rnd.randint(0, 3)}}
    if kind == 6:
        return {rnd.choice(["is_empty", "is_null"]): {"key": key}}
    if kind == 7:
        return {"key": rnd.choice([k for k in KEYS if "[]" not in k]), rnd.choice(["is_empty", "is_null"]): rnd.random() < .5}
    if kind == 8:
        return {"has_id": rnd.sample(range(N + 5), rnd.randint(0, 20))}
    if kind == 9:
        return {"has_vector": rnd.choice(["", "s"])}
    if kind == 10:
        inner = {"must": [dict(leaf(rnd, rnd.choice("xy"))) for _ in range(rnd.randint(1, 2))]}
        return {"nested": {"key": rnd.choice(["arr", "a"]), "filter": inner}}
    return flt(rnd, depth + 1)


def leaf(rnd, key):
    while True:
        c = condition(rnd, 9)
        if "key" in c:
            return dict(c, key=key)  # relative to the element


def flt(rnd, depth=0):
    f = {}
    for clause in ("must", "should", "must_not"):
        if rnd.random() < .5:
            f[clause] = [condition(rnd, depth) for _ in range(rnd.randint(0, 3))]
    if rnd.random() < .2:
        f["min_should"] = {"conditions": [condition(rnd, depth) for _ in range(3)], "min_count": rnd.randint(0, 3)}
    return f


# ---- the wire form for the judge ----

def edge_condition(c):
    if "has_id" in c:
        return qe.HasIdCondition(set(c["has_id"]))
    if "has_vector" in c:
        return qe.HasVectorCondition(c["has_vector"])
    if "nested" in c:
        return qe.NestedCondition(c["nested"]["key"], edge_filter(c["nested"]["filter"]))
    if "key" not in c and "is_empty" in c:
        return qe.IsEmptyCondition(c["is_empty"]["key"])
    if "key" not in c and "is_null" in c:
        return qe.IsNullCondition(c["is_null"]["key"])
    if "key" not in c:
        return edge_filter(c)
    if "match" in c:
        (word, v), = c["match"].items()
        m = {"value": qe.MatchValue, "any": qe.MatchAny, "except": qe.MatchExcept, "text": qe.MatchText}[word](v)
        return qe.FieldCondition(key=c["key"], match=m)
    if "range" in c:
        dates = any(isinstance(v, str) for v in c["range"].values())
        return qe.FieldCondition(key=c["key"], range=(qe.RangeDateTime if dates else qe.RangeFloat)(**c["range"]))
    if "values_count" in c:
        return qe.FieldCondition(key=c["key"], values_count=qe.ValuesCount(**c["values_count"]))
    word = "is_empty" if "is_empty" in c else "is_null"
    return qe.FieldCondition(key=c["key"], **{word: c[word]})


def edge_filter(f):
    kw = {k: [edge_condition(c) for c in f[k]] for k in ("must", "should", "must_not") if k in f}
    if "min_should" in f:
        kw["min_should"] = qe.MinShould([edge_condition(c) for c in f["min_should"]["conditions"]], f["min_should"]["min_count"])
    return qe.Filter(**kw)


def words(f):
    return json.dumps(f)


# Differences that are kept on purpose, as (what it is, when it is met).
KNOWN = [
    ("a number range beyond 2^53 is exact here, a double there",
     lambda f: str(2 ** 53)[:12] in words(f) and '"range"' in words(f)),
]
# Not asked of it: `is_null` and `is_empty` in a field condition on a path with [] (it then
# asks whether any value is; here both spellings mean the same, bug report 2), and booleans
# in match (its Python binding makes them integers).
# And in payload calls: a null in set_payload takes the key away; there it stays on a point that had no payload.


def known(f):
    return any(met(f) for _, met in KNOWN)


@pytest.fixture(scope="module")
def both(cell):
    rnd = random.Random("%d/data" % SEED)
    shard = judge()
    points, rows = [], []
    for i in range(N):
        v = [rnd.uniform(-1, 1) for _ in range(4)]
        p = payload(rnd)
        s = sorted(rnd.sample(range(12), rnd.randint(1, 5)))
        sv = [round(rnd.uniform(-1, 2), 3) for _ in s]
        vec = {"": v, "s": {"indices": s, "values": sv}} if i % 3 else {"": v}
        rows.append({"id": i, "vector": vec, "payload": p})
        edge = {"": v, "s": qe.SparseVector(s, sv)} if i % 3 else {"": v}
        points.append(qe.Point(i, edge, p))
    shard.update(qe.UpdateOperation.upsert_points(points))
    for name in ("judged", "judged_indexed"):
        r = cell.put("/collections/" + name, {"vectors": {"size": 4, "distance": "Cosine"}, "sparse_vectors": {"s": {}}})
        assert r.status == 200
        r = cell.put("/collections/%s/points?wait=true" % name, {"points": rows})
        assert r.status == 200, r
    for field, kind in (("a", "keyword"), ("b", "integer"), ("c", "float"), ("d", "datetime"), ("arr[].x", "keyword"),
                        ("a.x", "bool"), ("arr[].y", "integer")):
        assert cell.put("/collections/judged_indexed/index?wait=true", {"field_name": field, "field_schema": kind}).status == 200
    yield shard, rows
    shard.close()


def ours(cell, name, path, body):
    r = cell.post("/collections/%s/%s" % (name, path), body)
    assert r.status == 200, (body, r)
    return r.json()["result"]


def test_filters(cell, both):
    shard, rows = both
    rnd = random.Random("%d/filters" % SEED)
    met, nonempty = 0, 0
    for i in range(500 * TIMES):
        f = flt(rnd)
        want = [r.id for r in shard.scroll(qe.ScrollRequest(limit=N, filter=edge_filter(f), with_payload=False))[0]]
        for name in ("judged", "judged_indexed"):
            got = [p["id"] for p in ours(cell, name, "points/scroll", {"limit": N, "filter": f, "with_payload": False})["points"]]
            if got != want and known(f):
                met += 1
                continue
            diff = sorted(set(got) ^ set(want))
            assert got == want, "seed %d, filter %d on %s: %s\nids that differ: %s\nfirst of them: %s" % (
                SEED, i, name, words(f), diff, words(rows[diff[0]]["payload"]) if diff else "")
        nonempty += 0 < len(want) < N
    print("seed %d: %d known differences met, %d filters with some points" % (SEED, met, nonempty))
    assert nonempty > 100 * TIMES


def same_scores(got, want, what):
    a = {p["id"]: p["score"] for p in got}
    b = {p.id: p.score for p in want}
    assert a.keys() == b.keys(), "%s: ids that differ: %s" % (what, sorted(a.keys() ^ b.keys()))
    for k in b:
        assert abs(a[k] - b[k]) <= EPS * max(1, abs(b[k])), "%s: %d: %r, want %r" % (what, k, a[k], b[k])
    order = [p["score"] for p in got]
    return order


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid", "Manhattan"])
def test_scores(cell, name, distance):
    rnd = random.Random("%d/%s" % (SEED, distance))
    shard = judge(distance, sparse=qe.Modifier.Idf)
    assert cell.put("/collections/" + name, {"vectors": {"size": 4, "distance": distance},
                                             "sparse_vectors": {"s": {"modifier": "idf"}}}).status == 200
    rows, points = [], []
    for i in range(N):
        v = [rnd.uniform(-2, 2) for _ in range(4)]  # rounded ones tie under Manhattan
        if i == 7:
            v = [0.0] * 4
        s = sorted(rnd.sample(range(12), 3))
        sv = [round(rnd.uniform(-1, 2), 3) for _ in s]
        rows.append({"id": i, "vector": {"": v, "s": {"indices": s, "values": sv}}})
        points.append(qe.Point(i, {"": v, "s": qe.SparseVector(s, sv)}, {}))
    assert cell.put("/collections/%s/points?wait=true" % name, {"points": rows}).status == 200
    shard.update(qe.UpdateOperation.upsert_points(points))
    down = distance in ("Euclid", "Manhattan")
    for i in range(12 * TIMES):
        q = [rnd.uniform(-2, 2) for _ in range(4)]
        f = {"must_not": [{"has_id": rnd.sample(range(N), 10)}]}
        t = rnd.choice([None, 0.1, 2.0])
        body = {"query": q, "limit": N, "filter": f}
        if t is not None:
            body["score_threshold"] = t
        got = ours(cell, name, "points/query", body)["points"]
        want = shard.query(qe.QueryRequest(limit=N, query=qe.Query.Nearest(q), filter=edge_filter(f), score_threshold=t))
        order = same_scores(got, want, "%s nearest %d" % (distance, i))
        assert order == sorted(order, reverse=not down)
        sq = {"indices": sorted(rnd.sample(range(12), 4)), "values": [1.0, .5, -.25, 2.0]}
        got = ours(cell, name, "points/query", {"query": sq, "using": "s", "limit": N})["points"]
        want = shard.query(qe.QueryRequest(limit=N, query=qe.Query.Nearest(qe.SparseVector(**sq), using="s")))
        same_scores(got, want, "%s sparse %d" % (distance, i))
        for word, make in (("best_score", qe.Query.RecommendBestScore), ("sum_scores", qe.Query.RecommendSumScores)):
            pos, neg = [[rnd.uniform(-1, 1) for _ in range(4)] for _ in range(2)], [[rnd.uniform(-1, 1) for _ in range(4)]]
            got = ours(cell, name, "points/query", {"query": {"recommend": {"positive": pos, "negative": neg, "strategy": word}}, "limit": N})
            want = shard.query(qe.QueryRequest(limit=N, query=make(qe.RecommendQuery(pos, neg))))
            same_scores(got["points"], want, "%s %s %d" % (distance, word, i))
        q2 = [rnd.uniform(-2, 2) for _ in range(4)]
        two = [{"query": q, "limit": 20}, {"query": q2, "limit": 15}]
        edge = [qe.Prefetch(limit=20, query=qe.Query.Nearest(q)), qe.Prefetch(limit=15, query=qe.Query.Nearest(q2))]
        for wire, fusion in (({"fusion": "rrf"}, qe.Fusion.Rrf(2)), ({"fusion": "dbsf"}, qe.Fusion.Dbsf()),
                             ({"rrf": {"k": 5, "weights": [2.0, 0.5]}}, qe.Fusion.Rrf(5, [2.0, 0.5]))):
            got = ours(cell, name, "points/query", {"prefetch": two, "query": wire, "limit": N})["points"]
            want = shard.query(qe.QueryRequest(limit=N, prefetches=edge, query=fusion))
            same_scores(got, want, "%s %s %d" % (distance, wire, i))
    shard.close()


def test_payload_selectors(cell, both):
    shard, rows = both
    rnd = random.Random("%d/selectors" % SEED)
    keys = [k for k in KEYS if "[0]" not in k and "[1]" not in k]
    for i in range(60 * TIMES):
        chosen = rnd.sample(keys, rnd.randint(1, 3))
        word = rnd.choice(["include", "exclude"])
        sel = (qe.PayloadSelector.Include if word == "include" else qe.PayloadSelector.Exclude)(chosen)
        want = {r.id: r.payload for r in shard.scroll(qe.ScrollRequest(limit=N, with_payload=sel))[0]}
        got = {p["id"]: p["payload"] for p in ours(cell, "judged", "points/scroll", {"limit": N, "with_payload": {word: chosen}})["points"]}
        for k in want:
            assert got[k] == want[k], "seed %d, %s %s of %s" % (SEED, word, chosen, words(rows[k]["payload"]))


def test_payload_calls(cell, name):
    rnd = random.Random("%d/calls" % SEED)
    shard = judge(sparse=False)
    assert cell.put("/collections/" + name, {"vectors": {"size": 4, "distance": "Cosine"}}).status == 200
    rows = [{"id": i, "vector": [1, 0, 0, i], "payload": payload(rnd)} for i in range(12)]
    assert cell.put("/collections/%s/points?wait=true" % name, {"points": rows}).status == 200
    shard.update(qe.UpdateOperation.upsert_points([qe.Point(r["id"], r["vector"], r["payload"]) for r in rows]))
    U = qe.UpdateOperation
    for i in range(150 * TIMES):
        ids = rnd.sample(range(12), 3)
        kind = rnd.randrange(5)
        p = {rnd.choice("abx"): value(rnd, 2), rnd.choice("cdy"): value(rnd, 2)}
        p = {k: "was null" if v is None else v for k, v in p.items()}
        if kind == 0:
            said = ("POST", "points/payload", {"payload": p, "points": ids})
            shard.update(U.set_payload(ids, p))
        elif kind == 1:
            key = rnd.choice(["a", "b.x", "new.deep", "arr[].z", "arr[0]", "c[].q"])
            said = ("POST", "points/payload", {"payload": p, "points": ids, "key": key})
            shard.update(U.set_payload(ids, p, key))
        elif kind == 2:
            said = ("PUT", "points/payload", {"payload": p, "points": ids})
            shard.update(U.overwrite_payload(ids, p))
        elif kind == 3:
            keys = rnd.sample(["a", "b", "a.x", "arr[].x", "arr[0]", "arr", "c.x", "zzz", "d[1]"], 2)
            said = ("POST", "points/payload/delete", {"keys": keys, "points": ids})
            shard.update(U.delete_payload(ids, keys))
        else:
            said = ("POST", "points/payload/clear", {"points": ids})
            shard.update(U.clear_payload(ids))
        r = cell.call(said[0], "/collections/%s/%s?wait=true" % (name, said[1]), said[2])
        assert r.status == 200, r
        want = {x.id: x.payload or {} for x in shard.scroll(qe.ScrollRequest(limit=50, with_payload=True))[0]}
        got = {x["id"]: x["payload"] for x in ours(cell, name, "points/scroll", {"limit": 50})["points"]}
        assert got == want, "seed %d, call %d: %s\n%s" % (SEED, i, said, [(k, got[k], want[k]) for k in want if got[k] != want[k]][:2])
    shard.close()
