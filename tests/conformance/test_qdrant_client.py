"""qdrant-client (Python) over items 1 to 15 of the contract, against an open cell."""
import math
import uuid

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models as m
from qdrant_client.http.exceptions import UnexpectedResponse

POINTS = [
    (1, [1.0, 0.0, 0.0, 0.0], {"city": "Berlin", "n": 10, "f": 1.5, "ok": True, "tags": ["a", "b"],
                               "at": "2024-01-01T00:00:00Z", "txt": "The quick brown fox", "grp": "g1"}),
    (2, [0.8, 0.6, 0.0, 0.0], {"city": "Munich", "n": 20, "f": 2.5, "ok": False, "tags": ["b"],
                               "at": "2024-06-15T12:30:00Z", "txt": "a lazy dog", "grp": "g1"}),
    (3, [0.0, 1.0, 0.0, 0.0], {"city": "Paris", "n": 30, "f": 3.5, "ok": True, "tags": [],
                               "at": "2025-01-01T00:00:00+02:00", "txt": "quick dog", "grp": "g2"}),
    (4, [0.0, 0.0, 1.0, 0.0], {"city": ["Berlin", "Rome"], "n": [1, 2, 3], "nul": None,
                               "tags": ["c", "d", "e"], "o": {"in": {"x": 5}}, "grp": "g2"}),
    (5, [-1.0, 0.0, 0.0, 0.0], {"arr": [{"k": "x", "v": 1}, {"k": "y", "v": 2}], "n": -5,
                                "nul": "set", "grp": "g3"}),
    (6, [0.6, 0.8, 0.0, 0.0], {"arr": [{"k": "x", "v": 2}, {"k": "y", "v": 1}],
                               "n": 9007199254740993, "o": {"in": {"x": 7}}}),
]


def fill(client, name, distance=m.Distance.COSINE):
    client.create_collection(name, vectors_config=m.VectorParams(size=4, distance=distance))
    client.upsert(name, [m.PointStruct(id=i, vector=v, payload=p) for i, v, p in POINTS], wait=True)


def ids(points):
    return [p.id for p in points]


def fails(status, text, call, *args, **kw):
    with pytest.raises(UnexpectedResponse) as e:
        call(*args, **kw)
    assert e.value.status_code == status, e.value
    assert text in e.value.content.decode()
    assert e.value.content.startswith(b'{"status"')


# ---- 1, 2: service and collections ----

def test_service(client):
    assert client.info().version == "1.19.0"
    assert client.get_collections() is not None


def test_collection_life(client, name):
    assert not client.collection_exists(name)
    assert client.create_collection(
        name, vectors_config={"a": m.VectorParams(size=3, distance=m.Distance.EUCLID, on_disk=True),
                              "b": m.VectorParams(size=2, distance=m.Distance.DOT,
                                                  hnsw_config=m.HnswConfigDiff(m=4))},
        sparse_vectors_config={"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        hnsw_config=m.HnswConfigDiff(ef_construct=64), on_disk_payload=True, metadata={"owner": "x"},
        quantization_config=m.ScalarQuantization(scalar=m.ScalarQuantizationConfig(type=m.ScalarType.INT8)))
    assert client.collection_exists(name)
    assert name in [c.name for c in client.get_collections().collections]
    info = client.get_collection(name)
    v = info.config.params.vectors
    assert v["a"].size == 3 and v["a"].distance == m.Distance.EUCLID and v["a"].on_disk
    assert v["b"].hnsw_config.m == 4
    assert info.config.params.sparse_vectors["s"].modifier == m.Modifier.IDF
    assert info.config.hnsw_config.ef_construct == 64 and info.config.hnsw_config.m == 16
    assert info.config.metadata == {"owner": "x"} and info.points_count == 0
    assert info.config.quantization_config.scalar.type == m.ScalarType.INT8
    fails(409, "Wrong input: Collection `%s` already exists!" % name, client.create_collection, name,
          vectors_config=m.VectorParams(size=4, distance=m.Distance.DOT))
    assert client.update_collection(name, optimizers_config=m.OptimizersConfigDiff(indexing_threshold=5),
                                    metadata={"k": 1})
    info = client.get_collection(name)
    assert info.config.optimizer_config.indexing_threshold == 5
    assert info.config.metadata == {"owner": "x", "k": 1}
    assert client.delete_collection(name) is True
    assert client.delete_collection(name) is False
    fails(404, "Not found: Collection `%s` doesn't exist!" % name, client.get_collection, name)


# ---- 3, 11: upserts ----

def test_upsert_forms(client, name):
    client.create_collection(name, vectors_config=m.VectorParams(size=4, distance=m.Distance.DOT))
    r = client.upsert(name, [m.PointStruct(id=0, vector=[1, 0, 0, 0])], wait=True)
    assert r.status == m.UpdateStatus.COMPLETED and r.operation_id is not None
    r = client.upsert(name, [m.PointStruct(id=0, vector=[1, 0, 0, 0])], wait=False)
    assert r.status == m.UpdateStatus.ACKNOWLEDGED
    u = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
    client.upsert(name, m.Batch(ids=[2 ** 64 - 1, u.hex], vectors=[[0, 1, 0, 0], [0, 0, 1, 0]],
                                payloads=[{"b": 1}, {}]))
    got = client.retrieve(name, [0, 2 ** 64 - 1, "urn:uuid:" + str(u), 7], with_payload=True)
    assert ids(got) == [0, 2 ** 64 - 1, str(u)]
    assert got[1].payload == {"b": 1} and got[2].payload == {}
    client.upload_points(name, [m.PointStruct(id=i, vector=[i, 0, 0, 0]) for i in range(100, 130)],
                         batch_size=7, wait=True)
    client.upload_collection(name, vectors=np.eye(4, dtype=np.float32), ids=[200, 201, 202, 203],
                             payload=[{"u": i} for i in range(4)], wait=True)
    assert client.count(name).count == 37


def test_upsert_replaces_the_whole_point_and_is_idempotent(client, name):
    fill(client, name)
    for _ in range(2):
        client.upsert(name, [m.PointStruct(id=1, vector=[0, 1, 0, 0], payload={"b": 1})])
    p = client.retrieve(name, [1], with_vectors=True)[0]
    assert p.payload == {"b": 1} and p.vector == [0, 1, 0, 0]
    assert client.count(name).count == 6


def test_update_filter_and_mode(client, name):
    fill(client, name)
    p = m.PointStruct(id=1, vector=[0, 1, 0, 0], payload={"c": 1})
    no = m.Filter(must=[m.FieldCondition(key="city", match=m.MatchValue(value="Rome"))])
    client.upsert(name, [p], update_filter=no)
    assert client.retrieve(name, [1])[0].payload["city"] == "Berlin"
    client.upsert(name, [p, m.PointStruct(id=50, vector=[1, 0, 0, 0])], update_mode=m.UpdateMode.INSERT_ONLY)
    assert client.retrieve(name, [1])[0].payload["city"] == "Berlin"
    assert client.count(name).count == 7
    client.upsert(name, [p, m.PointStruct(id=51, vector=[1, 0, 0, 0])], update_mode=m.UpdateMode.UPDATE_ONLY)
    assert client.retrieve(name, [1])[0].payload == {"c": 1}
    assert client.count(name).count == 7


def test_bad_points_leave_nothing(client, name):
    client.create_collection(name, vectors_config=m.VectorParams(size=4, distance=m.Distance.DOT))
    good = m.PointStruct(id=1, vector=[1, 0, 0, 0])
    fails(400, "Vector dimension error: expected dim: 4, got 1", client.upsert, name,
          [good, m.PointStruct(id=2, vector=[1.0])])
    fails(400, "Not existing vector name error: zzz", client.upsert, name,
          [good, m.PointStruct(id=2, vector={"zzz": [1, 0, 0, 0]})])
    for bad in ("abc", "1", -1):
        fails(400, "is not a valid point ID", client.upsert, name,
              [good, m.PointStruct.model_construct(id=bad, vector=[1, 0, 0, 0])])
    assert client.count(name).count == 0


def test_payload_is_given_back_equal(client, name):
    client.create_collection(name, vectors_config={})
    payload = {"ü": "日本語 😀", "esc": "a\"b\\c\n\t\u0001", "deep": {"a": [{"b": [1, 2.5, None, True, {"c": []}]}]},
               "e": {}, "big": 12345678901234567, "max": 2 ** 64 - 1, "neg": -0.5, "exp": 1e-07, "z": 1, "a": 2}
    client.upsert(name, [m.PointStruct(id=1, vector={}, payload=payload)])
    got = client.retrieve(name, [1])[0].payload
    assert got == payload and list(got) == list(payload)


# ---- 4, 10: search and scores ----

def test_query_nearest(client, name):
    fill(client, name)
    r = client.query_points(name, query=[1.0, 0, 0, 0], limit=10).points
    assert ids(r) == [1, 2, 6, 3, 4, 5] or ids(r) == [1, 2, 6, 4, 3, 5]
    assert [round(p.score, 3) for p in r] == [1, .8, .6, 0, 0, -1]
    assert r[0].payload["city"] == "Berlin" and r[0].vector is None
    assert ids(client.query_points(name, query=[1.0, 0, 0, 0], limit=2, offset=1).points) == [2, 6]
    assert ids(client.query_points(name, query=[1.0, 0, 0, 0], score_threshold=0.7).points) == [1, 2]
    # strict: a score equal to the threshold stays out
    assert ids(client.query_points(name, query=[1.0, 0, 0, 0], score_threshold=1.0).points) == []
    r = client.query_points(name, query=[1.0, 0, 0, 0], limit=1, with_vectors=True, with_payload=["n"],
                            search_params=m.SearchParams(hnsw_ef=64, exact=True)).points
    assert r[0].payload == {"n": 10} and r[0].vector == [1, 0, 0, 0]
    f = m.Filter(must=[m.FieldCondition(key="city", match=m.MatchValue(value="Berlin"))])
    assert ids(client.query_points(name, query=np.array([1.0, 0, 0, 0]), query_filter=f).points) == [1, 4]
    assert ids(client.query_points(name, query=1, limit=2).points) == [2, 6]
    fails(404, "Not found: No point with id 999 found", client.query_points, name, query=999)
    fails(400, "Vector dimension error: expected dim: 4, got 2", client.query_points, name, query=[1.0, 2.0])


@pytest.mark.parametrize("distance,order,scores,cut,kept", [
    (m.Distance.DOT, [2, 1, 3], [9, 2, -3], 2.0, [2]),
    (m.Distance.EUCLID, [1, 3, 2], [0, math.sqrt(17), 5], 5.0, [1, 3]),
    (m.Distance.MANHATTAN, [1, 3, 2], [0, 5, 7], 5.0, [1]),
    (m.Distance.COSINE, [1, 2, 3], [1, 9 / math.sqrt(82), -3 / math.sqrt(18)], 0.0, [1, 2]),
])
def test_distances(client, name, distance, order, scores, cut, kept):
    client.create_collection(name, vectors_config=m.VectorParams(size=2, distance=distance))
    client.upsert(name, [m.PointStruct(id=1, vector=[1, 1]), m.PointStruct(id=2, vector=[4, 5]),
                         m.PointStruct(id=3, vector=[-3, 0])])
    r = client.query_points(name, query=[1.0, 1.0]).points
    assert ids(r) == order and np.allclose([p.score for p in r], scores, atol=1e-3)
    assert ids(client.query_points(name, query=[1.0, 1.0], score_threshold=cut).points) == kept
    back = client.retrieve(name, [2], with_vectors=True)[0].vector
    want = [4 / math.sqrt(41), 5 / math.sqrt(41)] if distance == m.Distance.COSINE else [4, 5]
    assert np.allclose(back, want, atol=1e-6)


def test_named_and_sparse(client, name):
    client.create_collection(name, vectors_config={"a": m.VectorParams(size=2, distance=m.Distance.DOT),
                                                   "b": m.VectorParams(size=3, distance=m.Distance.EUCLID)},
                             sparse_vectors_config={"s": m.SparseVectorParams()})
    client.upsert(name, [
        m.PointStruct(id=1, vector={"a": [1, 0], "b": [1, 0, 0], "s": m.SparseVector(indices=[5, 1], values=[.5, 2])}),
        m.PointStruct(id=2, vector={"a": [0, 1], "s": m.SparseVector(indices=[5], values=[1])}),
        m.PointStruct(id=3, vector={"b": [0, 1, 0]})])
    assert ids(client.query_points(name, query=[1.0, 0.0], using="a").points) == [1, 2]
    assert ids(client.query_points(name, query=[0.0, 1.0, 0.0], using="b").points) == [3, 1]
    q = m.SparseVector(indices=[5, 7], values=[2, 9])
    r = client.query_points(name, query=q, using="s").points
    assert ids(r) == [2, 1] and [p.score for p in r] == [2.0, 1.0]
    p = client.retrieve(name, [1], with_vectors=["a", "s"])[0]
    assert p.vector["a"] == [1, 0] and p.vector["s"].indices == [1, 5] and "b" not in p.vector
    fails(400, "Not existing vector name error: zzz", client.query_points, name, query=[1.0, 0.0], using="zzz")
    fails(400, "Not existing vector name error", client.query_points, name, query=[1.0, 0.0])
    client.update_vectors(name, [m.PointVectors(id=2, vector={"a": [5, 5]})])
    assert client.retrieve(name, [2], with_vectors=["a"])[0].vector["a"] == [5, 5]
    client.delete_vectors(name, vectors=["a"], points=[1])
    assert "a" not in client.retrieve(name, [1], with_vectors=True)[0].vector
    hv = m.Filter(must=[m.HasVectorCondition(has_vector="a")])
    assert ids(client.scroll(name, scroll_filter=hv)[0]) == [2]


def test_sparse_idf(client, name):
    client.create_collection(name, vectors_config={}, sparse_vectors_config={
        "s": m.SparseVectorParams(modifier=m.Modifier.IDF)})
    client.upsert(name, [m.PointStruct(id=i, vector={"s": m.SparseVector(indices=x, values=[1.0] * len(x))})
                         for i, x in ((1, [1, 2]), (2, [1]), (3, [1]), (4, [3]))])
    r = client.query_points(name, query=m.SparseVector(indices=[1, 2], values=[1, 1]), using="s").points
    idf = lambda df: math.log((4 - df + .5) / (df + .5) + 1)  # noqa: E731
    assert r[0].id == 1 and abs(r[0].score - idf(3) - idf(1)) < 1e-3
    assert abs(r[1].score - idf(3)) < 1e-3 and len(r) == 3


# ---- 5, 14: filters ----

F = m.FieldCondition
FILTERS = [
    (m.Filter(must=[F(key="city", match=m.MatchValue(value="Berlin"))]), [1, 4]),
    (m.Filter(must=[F(key="n", match=m.MatchValue(value=2))]), [4]),
    (m.Filter(must=[F(key="n", match=m.MatchValue(value=9007199254740992))]), []),
    (m.Filter(must=[F(key="n", match=m.MatchValue(value=9007199254740993))]), [6]),
    (m.Filter(must=[F(key="ok", match=m.MatchValue(value=False))]), [2]),
    (m.Filter(must=[F(key="o.in.x", match=m.MatchValue(value=5))]), [4]),
    (m.Filter(must=[F(key="arr[].k", match=m.MatchValue(value="x"))]), [5, 6]),
    (m.Filter(must=[F(key="arr.k", match=m.MatchValue(value="x"))]), []),
    (m.Filter(must=[F(key="arr[1].v", match=m.MatchValue(value=2))]), [5]),
    (m.Filter(must=[F(key="city", match=m.MatchAny(any=["Paris", "Rome"]))]), [3, 4]),
    (m.Filter(must=[F(key="city", match=m.MatchAny(any=[]))]), []),
    (m.Filter(must=[F(key="city", match=m.MatchExcept(**{"except": ["Berlin"]}))]), [2, 3, 4]),
    (m.Filter(must=[F(key="city", match=m.MatchExcept(**{"except": []}))]), [1, 2, 3, 4]),
    (m.Filter(must=[F(key="txt", match=m.MatchText(text="QUICK"))]), [1, 3]),
    (m.Filter(must=[F(key="txt", match=m.MatchText(text="dog quick"))]), [3]),
    (m.Filter(must=[F(key="txt", match=m.MatchText(text="qui"))]), []),
    (m.Filter(must=[F(key="n", range=m.Range(gt=10, lt=31))]), [2, 3]),
    (m.Filter(must=[F(key="f", range=m.Range(gte=1.5, lte=2.5))]), [1, 2]),
    (m.Filter(must=[F(key="at", range=m.DatetimeRange(gte="2024-06-01T00:00:00Z"))]), [2, 3]),
    (m.Filter(must=[F(key="at", range=m.DatetimeRange(lt="2024-12-31T23:00:00Z", gt="2024-01-01"))]), [2, 3]),
    (m.Filter(must=[F(key="tags", values_count=m.ValuesCount(gte=2))]), [1, 4]),
    (m.Filter(must=[F(key="tags", values_count=m.ValuesCount(lt=1))]), [3, 5, 6]),
    (m.Filter(must=[m.IsEmptyCondition(is_empty=m.PayloadField(key="tags"))]), [3, 5, 6]),
    (m.Filter(must=[m.IsEmptyCondition(is_empty=m.PayloadField(key="nul"))]), [1, 2, 3, 4, 6]),
    (m.Filter(must=[m.IsNullCondition(is_null=m.PayloadField(key="nul"))]), [4]),
    (m.Filter(must=[m.HasIdCondition(has_id=[2, 5, 999])]), [2, 5]),
    (m.Filter(must=[m.HasIdCondition(has_id=[])]), []),
    (m.Filter(must=[m.HasVectorCondition(has_vector="")]), [1, 2, 3, 4, 5, 6]),
    (m.Filter(must=[m.NestedCondition(nested=m.Nested(key="arr", filter=m.Filter(must=[
        F(key="k", match=m.MatchValue(value="x")), F(key="v", match=m.MatchValue(value=1))])))]), [5]),
    (m.Filter(must_not=[F(key="grp", match=m.MatchValue(value="g1"))]), [3, 4, 5, 6]),
    (m.Filter(should=[F(key="n", match=m.MatchValue(value=10)), F(key="grp", match=m.MatchValue(value="g3"))]), [1, 5]),
    (m.Filter(should=[], must=[F(key="grp", match=m.MatchValue(value="g3"))]), [5]),
    (m.Filter(min_should=m.MinShould(conditions=[F(key="ok", match=m.MatchValue(value=True)),
                                                 F(key="n", range=m.Range(gte=20)),
                                                 F(key="tags", match=m.MatchValue(value="b"))], min_count=2)), [1, 2, 3]),
    (m.Filter(must=[m.Filter(should=[m.HasIdCondition(has_id=[1]), m.Filter(must_not=[m.HasIdCondition(
        has_id=[1, 2, 3, 4])])])]), [1, 5, 6]),
    (m.Filter(), [1, 2, 3, 4, 5, 6]),
    (m.Filter(must=[]), [1, 2, 3, 4, 5, 6]),
]


@pytest.fixture(scope="module")
def filled(client):
    fill(client, "filled_twin")
    yield "filled_twin"
    client.delete_collection("filled_twin")


@pytest.fixture(scope="module")
def indexed(client):
    name = "indexed_twin"
    fill(client, name)
    for field, kind in (("city", "keyword"), ("n", "integer"), ("f", "float"), ("ok", "bool"), ("at", "datetime"),
                        ("grp", "keyword"), ("tags", "keyword"), ("nul", "keyword"), ("o.in.x", "integer"),
                        ("arr[].k", "keyword")):
        client.create_payload_index(name, field, kind)
    yield name
    client.delete_collection(name)


@pytest.mark.parametrize("at", range(len(FILTERS)))
def test_filters_with_and_without_an_index(client, filled, indexed, at):
    f, want = FILTERS[at]
    for name in (filled, indexed):
        assert ids(client.scroll(name, scroll_filter=f, limit=100)[0]) == want
        assert client.count(name, count_filter=f).count == len(want)
        got = client.query_points(name, query=[1.0, 0, 0, 0], query_filter=f, limit=100).points
        assert sorted(ids(got)) == want


# ---- 6: delete, retrieve, scroll, count ----

def test_delete_scroll_count(client, name):
    fill(client, name)
    page, nxt = client.scroll(name, limit=4)
    assert ids(page) == [1, 2, 3, 4] and nxt == 5 and page[0].vector is None
    page, nxt = client.scroll(name, limit=4, offset=nxt)
    assert ids(page) == [5, 6] and nxt is None
    u = "00000000-0000-0000-0000-000000000001"
    client.upsert(name, [m.PointStruct(id=u, vector=[1, 0, 0, 0])])
    assert ids(client.scroll(name, limit=20)[0])[-1] == u
    assert client.delete(name, points_selector=[u, 777]).status == m.UpdateStatus.COMPLETED
    client.delete(name, points_selector=m.Filter(must=[F(key="grp", match=m.MatchValue(value="g1"))]))
    assert ids(client.scroll(name)[0]) == [3, 4, 5, 6]
    assert client.count(name, exact=False).count == 4
    client.delete(name, points_selector=m.FilterSelector(filter=m.Filter()))
    assert client.count(name).count == 0


def test_selectors(client, name):
    client.create_collection(name, vectors_config=m.VectorParams(size=2, distance=m.Distance.DOT))
    client.upsert(name, [m.PointStruct(id=1, vector=[3, 4], payload={"a": 1, "b": {"c": 2, "d": 3}})])
    r = lambda **kw: client.retrieve(name, [1], **kw)[0]  # noqa: E731
    assert r(with_payload=["b.c"]).payload == {"b": {"c": 2}}
    assert r(with_payload=m.PayloadSelectorExclude(exclude=["b.c"])).payload == {"a": 1, "b": {"d": 3}}
    assert r(with_payload=m.PayloadSelectorInclude(include=["a"])).payload == {"a": 1}
    assert r(with_payload=False).payload is None
    assert r(with_vectors=True).vector == [3, 4]


# ---- 7, 8, 13: hybrid, MMR, the other queries ----

def test_fusion(client, name):
    fill(client, name)
    two = [m.Prefetch(query=[1.0, 0, 0, 0], limit=2), m.Prefetch(query=[0, 1.0, 0, 0], limit=2)]
    r = client.query_points(name, prefetch=two, query=m.FusionQuery(fusion=m.Fusion.RRF)).points
    assert {p.id: round(p.score, 3) for p in r} == {1: .5, 3: .5, 2: .333, 6: .333}
    r = client.query_points(name, prefetch=two, query=m.RrfQuery(rrf=m.Rrf(k=60))).points
    assert abs(r[0].score - 1 / 60) < 1e-4
    r = client.query_points(name, prefetch=two, query=m.RrfQuery(rrf=m.Rrf(weights=[3.0, 1.0]))).points
    assert r[0].id == 1 and abs(r[0].score - .75) < 1e-3
    f = m.Filter(must=[m.HasIdCondition(has_id=[2, 3])])
    r = client.query_points(name, prefetch=two, query=m.FusionQuery(fusion=m.Fusion.RRF), query_filter=f).points
    assert sorted(ids(r)) == [2, 3]
    assert ids(client.query_points(name, prefetch=two, query=m.FusionQuery(fusion=m.Fusion.RRF),
                                   score_threshold=.4).points) in ([1, 3], [3, 1])
    d = client.query_points(name, prefetch=[m.Prefetch(query=[1.0, 0, 0, 0], limit=3),
                                            m.Prefetch(query=[.8, .6, 0, 0], limit=3)],
                            query=m.FusionQuery(fusion=m.Fusion.DBSF)).points
    assert d[0].id == 2 and abs(d[0].score - 1.126) < 2e-3
    r = client.query_points(name, prefetch=m.Prefetch(query=[0, 1.0, 0, 0], limit=3), query=[1.0, 0, 0, 0]).points
    assert ids(r) == [2, 6, 3]
    nested = m.Prefetch(prefetch=[m.Prefetch(query=[0, 1.0, 0, 0], limit=3)], query=[1.0, 0, 0, 0], limit=2)
    assert ids(client.query_points(name, prefetch=[nested], query=[.6, .8, 0, 0]).points) == [6, 2]


def test_mmr_follows_diversity(client, name):
    fill(client, name)
    def mmr(diversity, limit=3, candidates=6, **kw):
        return ids(client.query_points(name, query=m.NearestQuery(nearest=[1.0, 0, 0, 0], mmr=m.Mmr(
            diversity=diversity, candidates_limit=candidates)), limit=limit, **kw).points)
    assert mmr(0.0) == [1, 2, 6]
    assert mmr(0.9)[0] == 1 and mmr(0.9) != [1, 2, 6]
    f = m.Filter(must=[m.HasIdCondition(has_id=[1, 2])])
    assert mmr(0.1, query_filter=f) == [1, 2]


def test_batch_groups_recommend(client, name):
    fill(client, name)
    client.create_payload_index(name, "grp", "keyword")
    r = client.query_batch_points(name, [m.QueryRequest(query=[1.0, 0, 0, 0], limit=1), m.QueryRequest(
        query=[0, 1.0, 0, 0], limit=2, with_payload=True, filter=m.Filter(must=[F(key="n", range=m.Range(gte=20))]))])
    assert [ids(x.points) for x in r] == [[1], [3, 6]] and r[0].points[0].payload is None
    g = client.query_points_groups(name, group_by="grp", query=[1.0, 0, 0, 0], group_size=1, limit=2).groups
    assert [x.id for x in g] == ["g1", "g2"] and g[0].hits[0].id == 1
    client.create_collection(name + "_docs", vectors_config={})
    client.upsert(name + "_docs", [m.PointStruct(id=1, vector={}, payload={"title": "one"})])
    client.set_payload(name, {"doc": 1}, points=[1, 2])
    g = client.query_points_groups(name, group_by="doc", query=[1.0, 0, 0, 0], group_size=2,
                                   with_lookup=m.WithLookup(collection=name + "_docs")).groups
    assert g[0].id == 1 and ids(g[0].hits) == [1, 2] and g[0].lookup.payload == {"title": "one"}
    client.delete_collection(name + "_docs")
    rec = lambda **kw: client.query_points(name, query=m.RecommendQuery(recommend=m.RecommendInput(**kw)), limit=2).points  # noqa: E731
    assert ids(rec(positive=[1], negative=[5])) == [2, 6]
    assert abs(rec(positive=[1], negative=[5], strategy=m.RecommendStrategy.BEST_SCORE)[0].score - .7222) < 1e-3
    assert abs(rec(positive=[1], negative=[5], strategy=m.RecommendStrategy.SUM_SCORES)[0].score - 1.6) < 1e-3
    assert rec(positive=[[0.0, 1.0, 0, 0], 2])[0].id == 6


def test_no_query_order_by_and_lookup_from(client, name):
    fill(client, name)
    r = client.query_points(name, limit=3).points
    assert ids(r) == [1, 2, 3] and [p.score for p in r] == [1, 1, 1]
    fails(400, "No range index for", client.scroll, name, order_by="f")
    client.create_payload_index(name, "f", "float")
    assert ids(client.scroll(name, order_by="f")[0]) == [1, 2, 3]
    assert ids(client.scroll(name, order_by=m.OrderBy(key="f", direction=m.Direction.DESC, start_from=2.5))[0]) == [2, 1]
    client.create_payload_index(name, "at", "datetime")
    r = client.scroll(name, order_by=m.OrderBy(key="at", start_from="2024-06-01T00:00:00Z"))[0]
    assert ids(r) == [2, 3] and r[0].order_value == 1718454600000000  # microseconds
    r = client.query_points(name, query=m.OrderByQuery(order_by=m.OrderBy(key="f", direction=m.Direction.DESC))).points
    assert ids(r) == [3, 2, 1]
    client.create_collection(name + "_o", vectors_config={"v": m.VectorParams(size=4, distance=m.Distance.DOT)})
    client.upsert(name + "_o", [m.PointStruct(id=77, vector={"v": [0, 0, 1, 0]})])
    r = client.query_points(name, query=77, lookup_from=m.LookupLocation(collection=name + "_o", vector="v"), limit=1)
    assert ids(r.points) == [4]
    client.delete_collection(name + "_o")
    fails(404, "doesn't exist", client.query_points, name, query=77,
          lookup_from=m.LookupLocation(collection="nowhere", vector="v"))


def test_facet(client, name):
    fill(client, name)
    fails(400, "No appropriate index", client.facet, name, key="city")
    client.create_payload_index(name, "city", "keyword")
    hits = client.facet(name, key="city").hits
    assert [(h.value, h.count) for h in hits] == [("Berlin", 2), ("Munich", 1), ("Paris", 1), ("Rome", 1)]


# ---- 9, 12: indexes, aliases ----

def test_payload_indexes(client, name):
    fill(client, name)
    for field, kind in (("city", "keyword"), ("n", "integer"), ("f", "float"), ("ok", "bool"), ("loc", "geo"),
                        ("at", "datetime"), ("txt", "text"), ("uid", "uuid")):
        client.create_payload_index(name, field, kind)
    client.create_payload_index(name, "grp", m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True))
    schema = client.get_collection(name).payload_schema
    assert schema["city"].data_type == m.PayloadSchemaType.KEYWORD and schema["city"].points == 4
    assert schema["grp"].params.is_tenant is True and len(schema) == 9
    client.delete_payload_index(name, "grp")
    assert "grp" not in client.get_collection(name).payload_schema


def test_aliases(client, name):
    fill(client, name)
    alias = name + "_al"
    op = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name=name, alias_name=alias))
    assert client.update_collection_aliases([op])
    assert client.count(alias).count == 6 and client.collection_exists(alias)
    assert [a.alias_name for a in client.get_collection_aliases(name).aliases] == [alias]
    assert alias in [a.alias_name for a in client.get_aliases().aliases]
    client.update_collection_aliases([m.RenameAliasOperation(rename_alias=m.RenameAlias(
        old_alias_name=alias, new_alias_name=alias + "2"))])
    fails(404, "doesn't exist", client.count, alias)
    assert client.count(alias + "2").count == 6
    client.update_collection_aliases([m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name=alias + "2"))])
    switch = [m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name=alias)),  # not there the first time
              m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name=name, alias_name=alias))]
    for _ in range(2):
        assert client.update_collection_aliases(switch) and client.count(alias).count == 6
    client.update_collection_aliases(switch[:1])
    missing = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name="nowhere", alias_name=alias))
    fails(404, "Not found: Collection `nowhere` doesn't exist!", client.update_collection_aliases, [missing])


# ---- 11: payload calls, batches ----

def test_payload_calls(client, name):
    client.create_collection(name, vectors_config={})
    client.upsert(name, [m.PointStruct(id=1, vector={}, payload={"a": 1, "o": {"p": 1}}),
                         m.PointStruct(id=2, vector={}, payload={"a": 2})])
    got = lambda i: client.retrieve(name, [i])[0].payload  # noqa: E731
    client.set_payload(name, {"b": 2}, points=[1])
    assert got(1) == {"a": 1, "o": {"p": 1}, "b": 2}
    two = m.Filter(must=[F(key="a", match=m.MatchValue(value=2))])
    client.set_payload(name, {"z": 9}, points=two)
    assert got(2) == {"a": 2, "z": 9}
    client.set_payload(name, {"q": 3}, points=[1], key="o")
    assert got(1)["o"] == {"p": 1, "q": 3}
    client.overwrite_payload(name, {"only": 1}, points=[1])
    assert got(1) == {"only": 1}
    client.delete_payload(name, keys=["z"], points=two)
    assert got(2) == {"a": 2}
    client.clear_payload(name, points_selector=[1])
    assert got(1) == {}


def test_points_batch_is_all_or_nothing(client, name):
    client.create_collection(name, vectors_config=m.VectorParams(size=2, distance=m.Distance.DOT))
    ops = [m.UpsertOperation(upsert=m.PointsList(points=[m.PointStruct(id=1, vector=[1, 0], payload={"a": 1}),
                                                         m.PointStruct(id=2, vector=[0, 1])])),
           m.SetPayloadOperation(set_payload=m.SetPayload(payload={"b": 2}, points=[1])),
           m.OverwritePayloadOperation(overwrite_payload=m.SetPayload(payload={"c": 3, "d": 4}, points=[1])),
           m.DeletePayloadOperation(delete_payload=m.DeletePayload(keys=["c"], points=[1])),
           m.ClearPayloadOperation(clear_payload=m.PointIdsList(points=[2])),
           m.UpdateVectorsOperation(update_vectors=m.UpdateVectors(points=[m.PointVectors(id=1, vector=[0, 5])])),
           m.DeleteOperation(delete=m.PointIdsList(points=[2]))]
    r = client.batch_update_points(name, ops)
    assert len(r) == 7 and all(x.status == m.UpdateStatus.COMPLETED for x in r)
    p = client.scroll(name, with_vectors=True)[0]
    assert ids(p) == [1] and p[0].payload == {"d": 4} and p[0].vector == [0, 5]
    bad = [m.DeleteOperation(delete=m.PointIdsList(points=[1])),
           m.UpsertOperation(upsert=m.PointsList(points=[m.PointStruct(id=3, vector=[1, 0, 0])]))]
    fails(400, "Vector dimension error", client.batch_update_points, name, bad)
    assert ids(client.scroll(name)[0]) == [1]


# ---- LATER is refused cleanly ----

def test_later_is_refused_by_name(client, name):
    fill(client, name)
    q = client.query_points
    fails(400, "sample", q, name, query=m.SampleQuery(sample=m.Sample.RANDOM))
    fails(400, "discover", q, name, query=m.DiscoverQuery(discover=m.DiscoverInput(target=1, context=[])))
    fails(400, "multi vector", q, name, query=[[1.0, 0, 0, 0]])
    fails(400, "geo_radius", client.scroll, name, scroll_filter=m.Filter(must=[F(key="loc", geo_radius=m.GeoRadius(
        center=m.GeoPoint(lon=1, lat=1), radius=1))]))
    fails(400, "multi vector", client.create_collection, name + "_m", vectors_config=m.VectorParams(
        size=2, distance=m.Distance.DOT, multivector_config=m.MultiVectorConfig(
            comparator=m.MultiVectorComparator.MAX_SIM)))
    fails(400, "not served", client.create_snapshot, name)


# ---- async ----

@pytest.mark.asyncio
async def test_async_client(cell, name):
    c = AsyncQdrantClient(url=cell.url)
    await c.create_collection(name, vectors_config=m.VectorParams(size=4, distance=m.Distance.COSINE))
    await c.upsert(name, [m.PointStruct(id=i, vector=v, payload=p) for i, v, p in POINTS])
    assert (await c.count(name)).count == 6
    assert ids((await c.query_points(name, query=[1.0, 0, 0, 0], limit=1)).points) == [1]
    assert ids((await c.scroll(name, limit=3))[0]) == [1, 2, 3]
    await c.delete(name, points_selector=[1])
    assert (await c.count(name)).count == 5
    await c.close()
