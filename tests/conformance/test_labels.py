"""The house's rules on Qdrant's calls, in a full cell in Paris with keys and policies:
labels decide a point's class, a denied write is a 451 that names the policy, labels come
back beside the payload, what a caller may not see is absent, on every route."""
import json

import pytest
from qdrant_client import QdrantClient

import fakes
from cell import Cell

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")

OPEN = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]}
HIGH = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 4, "purposes": ["support"]}
ABROAD = {"regimes": ["none"], "residency": ["US"], "sensitivity": 1, "purposes": ["support"]}
HELD = dict(OPEN, legal_hold=True)
V = [1.0, 0.0]


@pytest.fixture(scope="module")
def full():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        c.writer = c.key_add("wes", tenant="acme", clearance=5, roles=["editor"], purposes=["support"])
        c.low = c.key_add("lou", tenant="acme", clearance=2, roles=["editor"], purposes=["support"])
        c.reader = c.key_add("rae", tenant="acme", clearance=5, roles=["reader"], purposes=["support"])
        c.labelled = c.key_add("len", tenant="acme", clearance=5, roles=["editor"], purposes=["support"], labels=OPEN)
        c.alien = c.key_add("al", tenant="hosp", clearance=5, roles=["editor"], purposes=["support"])
        yield c


@pytest.fixture
def coll(full):
    assert full.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}}, key=full.writer).status == 200
    yield "/collections/x"
    full.delete("/collections/x", key=full.writer)


def put(full, coll, points, key=None):
    return full.put(coll + "/points?wait=true", {"points": points}, key=key or full.writer)


def point(i, labels=None, **payload):
    if labels is not None:
        payload["_labels"] = labels
    return {"id": i, "vector": V, "payload": payload}


def result(r):
    assert r.status == 200, r
    return r.json()["result"]


def error(r, status):
    assert r.status == status and r.body.startswith(b'{"status":{"error":'), r
    return r.json()["status"]["error"]


def count(full, coll, key):
    return result(full.post(coll + "/points/count", {}, key=key))["count"]


def test_without_labels_422_names_them(full, coll):
    assert "_labels" in error(put(full, coll, [point(1)]), 422)
    assert "_labels" in error(put(full, coll, [{"id": 1, "vector": V}]), 422)
    for bad in ("x", 7, [1], {"regimes": ["gdpr"]}, dict(OPEN, sensitivity=9), dict(OPEN, regimes=["gdrp"]),
                dict(OPEN, unknown=1)):
        assert "_labels" in error(put(full, coll, [point(1, bad)]), 422)
    assert count(full, coll, full.writer) == 0


def test_labels_come_from_payload_metadata_key_or_collection(full, coll):
    assert put(full, coll, [point(1, OPEN)]).status == 200
    assert put(full, coll, [point(2, metadata={"_labels": OPEN})]).status == 200
    assert put(full, coll, [point(3)], key=full.labelled).status == 200
    r = full.put("/collections/y", {"vectors": {"size": 2, "distance": "Dot"}, "metadata": {"_labels": OPEN}}, key=full.writer)
    assert r.status == 200, r
    assert put(full, "/collections/y", [point(4)]).status == 200
    full.delete("/collections/y", key=full.writer)
    assert "metadata._labels" in error(full.put("/collections/z", {"metadata": {"_labels": {"x": 1}}}, key=full.writer), 422)
    got = result(full.post(coll + "/points", {"ids": [1, 2, 3]}, key=full.writer))
    labels = [p["_labels"] for p in got]
    assert labels[0] == labels[1] == labels[2] and labels[0]["regimes"] == ["gdpr"] and labels[0]["tenant"] == "acme"
    # inside the payload only where the client put them
    assert got[0]["payload"]["_labels"] == OPEN and got[1]["payload"] == {"metadata": {"_labels": OPEN}}
    assert got[2]["payload"] == {}


def test_a_denied_write_is_451_with_the_policy_in_the_first_190_bytes(full, coll):
    r = put(full, coll, [point(1, OPEN), point(2, ABROAD)])
    assert "residency-move" in error(r, 451) and b"residency-move" in r.body[:190]
    assert count(full, coll, full.writer) == 0  # nothing of the batch is there
    assert put(full, coll, [point(1, HIGH)], key=full.low).status == 451


def test_a_reader_may_not_write_or_manage(full, coll):
    put(full, coll, [point(1, OPEN)])
    assert put(full, coll, [point(2, OPEN)], key=full.reader).status == 451
    assert full.post(coll + "/points/delete?wait=true", {"points": [1]}, key=full.reader).status == 451
    assert full.post(coll + "/points/payload?wait=true", {"payload": {"a": 1}, "points": [1]}, key=full.reader).status == 451
    assert full.put("/collections/new", {}, key=full.reader).status == 403
    assert full.delete(coll, key=full.reader).status == 403
    assert full.put(coll + "/index", {"field_name": "a", "field_schema": "keyword"}, key=full.reader).status == 403
    assert full.post("/collections/aliases", {"actions": []}, key=full.reader).status == 403
    assert count(full, coll, full.reader) == 1


def test_a_legal_hold_stops_deletes_and_moves_of_the_whole_call(full):
    coll = "/collections/held"  # its own: it cannot be dropped either
    assert full.put(coll, {"vectors": {"size": 2, "distance": "Dot"}}, key=full.writer).status == 200
    assert put(full, coll, [point(1, OPEN), point(2, HELD)]).status == 200
    r = full.post(coll + "/points/delete?wait=true", {"points": [1, 2]}, key=full.writer)
    assert "legal-hold" in error(r, 451)
    assert "legal-hold" in error(full.post(coll + "/points/delete?wait=true", {"filter": {}}, key=full.writer), 451)
    assert "legal-hold" in error(put(full, coll, [point(2, OPEN)]), 451)  # relabelling is a move
    assert count(full, coll, full.writer) == 2
    assert result(full.post(coll + "/points/delete?wait=true", {"points": [1]}, key=full.writer))["points_deleted"] == 1
    assert "legal-hold" in error(full.delete(coll, key=full.writer), 451)
    assert count(full, coll, full.writer) == 1


def test_an_upsert_with_other_labels_moves_the_point(full, coll):
    put(full, coll, [point(1, OPEN, a=1)])
    assert put(full, coll, [point(1, HIGH, a=2)]).status == 200
    assert count(full, coll, full.low) == 0 and count(full, coll, full.writer) == 1
    assert put(full, coll, [point(1, OPEN, a=3)], key=full.low).status == 200  # free for one who cannot see it
    assert count(full, coll, full.low) == 1


# Every way to ask for a point, with an id and words that only a class above the caller holds.
def probes(coll):
    yield "GET", coll + "/points/7", None
    yield "POST", coll + "/points", {"ids": [7, 1], "with_vector": True}
    yield "POST", coll + "/points/scroll", {"limit": 100}
    yield "POST", coll + "/points/scroll", {"filter": {"must": [{"has_id": [7]}]}}
    yield "POST", coll + "/points/scroll", {"limit": 10, "order_by": "n"}
    yield "POST", coll + "/points/count", {"exact": True}
    yield "POST", coll + "/points/count", {"filter": {"must": [{"key": "k", "match": {"value": "secret"}}]}}
    yield "POST", coll + "/facet", {"key": "k"}
    yield "POST", coll + "/points/query", {"query": V, "with_payload": True}
    yield "POST", coll + "/points/query", {"query": 7}
    yield "POST", coll + "/points/query", {"query": {"recommend": {"positive": [7]}}}
    yield "POST", coll + "/points/query", {"query": {"recommend": {"positive": [1], "negative": [7]}}}
    yield "POST", coll + "/points/query", {"query": 7, "lookup_from": {"collection": "x"}}
    yield "POST", coll + "/points/query", {"prefetch": [{"query": 7}], "query": {"fusion": "rrf"}}
    yield "POST", coll + "/points/query/batch", {"searches": [{"query": V}, {"query": 7}]}
    yield "POST", coll + "/points/query/groups", {"query": V, "group_by": "k", "with_lookup": "x"}
    yield "POST", coll + "/points/search", {"vector": V, "limit": 10}
    yield "POST", coll + "/points/search/groups", {"vector": V, "limit": 10, "group_by": "k"}
    yield "POST", coll + "/points/recommend", {"positive": [7], "limit": 10}
    yield "GET", coll, None
    yield "GET", coll + "/cluster", None
    yield "POST", coll + "/points/payload?wait=true", {"payload": {"a": 1}, "points": [7]}
    yield "POST", coll + "/points/vectors/delete?wait=true", {"vector": [""], "points": [7]}
    yield "POST", coll + "/points/delete?wait=true", {"points": [7]}
    yield "POST", coll + "/points/delete?wait=true", {"filter": {"must": [{"key": "k", "match": {"value": "secret"}}]}}


def test_what_is_forbidden_is_absent_on_every_route(full):
    """The same calls twice: before the forbidden point exists, and while it does."""
    coll = "/collections/x"
    answers = []
    for hidden in (False, True):
        full.put(coll, {"vectors": {"size": 2, "distance": "Dot"}}, key=full.writer)
        for field, kind in (("k", "keyword"), ("n", "integer")):
            full.put(coll + "/index?wait=true", {"field_name": field, "field_schema": kind}, key=full.writer)
        put(full, coll, [point(1, OPEN, k="a", n=1), point(2, OPEN, k="b", n=2)])
        if hidden:
            assert put(full, coll, [point(7, HIGH, k="secret", n=7)]).status == 200
        answers.append([])
        for method, path, body in probes(coll):
            r = full.call(method, path, body, key=full.low)
            assert b"secret" not in r.body
            answers[-1].append((method, path, json.dumps(body), r.status, r.body))
        if hidden:  # it was not touched either
            got = result(full.post(coll + "/points", {"ids": [7], "with_vector": True}, key=full.writer))
            assert got[0]["vector"] == V and got[0]["payload"]["k"] == "secret"
        full.delete(coll, key=full.writer)
    for a, b in zip(*answers):
        assert a == b


def test_another_tenant_sees_nothing_and_every_name_is_free(full, coll):
    put(full, coll, [point(1, OPEN)])
    full.post("/collections/aliases", {"actions": [{"create_alias": {"collection_name": "x", "alias_name": "al"}}]}, key=full.writer)
    absent = full.get("/collections/nowhere", key=full.alien)
    for path in ("x", "al"):
        r = full.get("/collections/" + path, key=full.alien)
        assert r.status == 404 and r.body == absent.body.replace(b"nowhere", path.encode())
    assert result(full.get("/collections", key=full.alien)) == {"collections": []}
    assert result(full.get("/aliases", key=full.alien)) == {"aliases": []}
    assert result(full.delete("/collections/x", key=full.alien)) is False
    for path, body in (("points/query", {"query": V, "lookup_from": {"collection": "x"}}),):
        full.put("/collections/mine", {"vectors": {"size": 2, "distance": "Dot"}}, key=full.alien)
        assert full.post("/collections/mine/" + path, body, key=full.alien).status == 404
    assert full.put("/collections/x", {}, key=full.alien).status == 200
    assert result(full.delete("/collections/x", key=full.alien)) is True
    full.delete("/collections/mine", key=full.alien)
    assert count(full, coll, full.writer) == 1


def test_the_subject_is_kept_as_a_hash_beside_the_payload(full, coll):
    assert put(full, coll, [point(1, OPEN, _subject="patient-4711", _source="ward.csv")]).status == 200
    raw = full.post(coll + "/points", {"ids": [1]}, key=full.writer).body
    assert b"ward.csv" in raw


# ---- unmodified clients ----

def test_langchain_with_a_key_and_labels_in_the_metadata(full):
    from langchain_core.embeddings import Embeddings
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client.http.exceptions import UnexpectedResponse

    class Fake(Embeddings):
        def embed_documents(self, texts):
            return [fakes.dense(t) for t in texts]

        def embed_query(self, text):
            return fakes.dense(text)

    def store(key):
        return QdrantVectorStore(client=QdrantClient(url=full.url, api_key=key), collection_name="lc", embedding=Fake())

    QdrantVectorStore.from_texts(["open words", "high words"], Fake(), [{"_labels": OPEN}, {"_labels": HIGH}],
                                 url=full.url, api_key=full.writer, collection_name="lc")
    assert len(store(full.writer).similarity_search("words", k=9)) == 2
    assert [d.page_content for d in store(full.low).similarity_search("high words", k=9)] == ["open words"]
    store(full.labelled).add_texts(["by the key"])  # a client that knows nothing of labels
    assert len(store(full.low).similarity_search("x", k=9)) == 2
    with pytest.raises(UnexpectedResponse) as e:
        store(full.writer).add_texts(["abroad"], [{"_labels": ABROAD}])
    assert e.value.status_code == 451 and "residency-move" in str(e.value)  # str() shows 200 bytes
    with pytest.raises(UnexpectedResponse) as e:
        store(full.writer).add_texts(["no labels"])
    assert e.value.status_code == 422 and "_labels" in str(e.value)
    full.delete("/collections/lc", key=full.writer)


def test_llamaindex_with_a_key_and_labels_in_the_metadata(full):
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores import VectorStoreQuery
    from llama_index.vector_stores.qdrant import QdrantVectorStore

    def store(key):
        return QdrantVectorStore(collection_name="li", client=QdrantClient(url=full.url, api_key=key))

    nodes = [TextNode(text=t, metadata={"_labels": labels}, embedding=fakes.dense(t))
             for t, labels in (("open words", OPEN), ("high words", HIGH))]
    store(full.writer).add(nodes)
    q = VectorStoreQuery(query_embedding=fakes.dense("high words"), similarity_top_k=9)
    assert len(store(full.writer).query(q).nodes) == 2
    got = store(full.low).query(q).nodes
    assert [n.text for n in got] == ["open words"] and got[0].metadata["_labels"] == OPEN
    full.delete("/collections/li", key=full.writer)


def test_collection_of_a_model(full):
    r = full.put("/collections/m", {"vectors": {"size": 2, "distance": "Dot"}, "metadata": {"_model": "A"}}, key=full.writer)
    assert r.status == 200
    assert put(full, "/collections/m", [point(1, OPEN, _model="B")]).status == 409
    assert put(full, "/collections/m", [point(1, OPEN, _model="A")]).status == 200
    full.delete("/collections/m", key=full.writer)
