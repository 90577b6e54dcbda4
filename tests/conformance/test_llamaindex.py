"""llama-index-vector-stores-qdrant: add, query in every mode, every operator, hybrid,
delete, get_nodes, clear, a VectorStoreIndex; sync and async."""
import uuid

import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.core.vector_stores import (FilterCondition, FilterOperator, MetadataFilter, MetadataFilters,
                                            VectorStoreQuery)
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import AsyncQdrantClient, QdrantClient

import fakes

N = 6
IDS = [str(uuid.UUID(int=100 + i)) for i in range(N)]
TEXTS = ["alpha zero", "beta one", "gamma two", "delta three", "epsilon four", "zeta five"]


def nodes():
    out = []
    for i in range(N):
        meta = {"author": "ann" if i < 3 else "bob", "year": 2000 + i, "score": i + .5, "tags": ["x", "t%d" % i],
                "theme": "Theme number %d" % i}
        if i == 0:
            meta["extra"] = "yes"
        n = TextNode(id_=IDS[i], text=TEXTS[i], metadata=meta, embedding=fakes.dense(TEXTS[i]))
        n.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="doc%d" % (i // 2))
        out.append(n)
    return out


def sparse_fn(texts):
    pairs = [fakes.sparse(t) for t in texts]
    return [p[0] for p in pairs], [p[1] for p in pairs]


@pytest.fixture(params=[False, True], ids=["dense", "hybrid"])
def hybrid(request):
    return request.param


@pytest.fixture
def store(cell, name, hybrid):
    kw = dict(enable_hybrid=True, sparse_doc_fn=sparse_fn, sparse_query_fn=sparse_fn) if hybrid else {}
    s = QdrantVectorStore(collection_name=name, client=QdrantClient(url=cell.url),
                          aclient=AsyncQdrantClient(url=cell.url), batch_size=4, **kw)
    s.add(nodes())
    return s


def query(text, k=N, **kw):
    return VectorStoreQuery(query_embedding=fakes.dense(text), similarity_top_k=k, **kw)


def at(result):
    return sorted(IDS.index(i) for i in result.ids)


def test_query_gives_nodes_back(store):
    r = store.query(query("gamma two", 2))
    assert r.ids[0] == IDS[2] and r.similarities[0] > 0.999 and r.nodes[0].text == "gamma two"
    assert r.nodes[0].metadata["year"] == 2002


F, O = MetadataFilter, FilterOperator
OPERATORS = [
    (F(key="author", value="ann"), [0, 1, 2]),
    (F(key="year", value=2001), [1]),
    (F(key="score", value=1.5), [1]),
    (F(key="tags", value="t4"), [4]),
    (F(key="author", value="ann", operator=O.NE), [3, 4, 5]),
    (F(key="year", value=2003, operator=O.GT), [4, 5]),
    (F(key="year", value=2003, operator=O.GTE), [3, 4, 5]),
    (F(key="year", value=2002, operator=O.LT), [0, 1]),
    (F(key="year", value=2002, operator=O.LTE), [0, 1, 2]),
    (F(key="author", value=["ann", "eve"], operator=O.IN), [0, 1, 2]),
    (F(key="year", value=[2001, 2005], operator=O.IN), [1, 5]),
    (F(key="author", value="ann,eve", operator=O.IN), [0, 1, 2]),
    (F(key="author", value=["bob"], operator=O.NIN), [0, 1, 2]),
    (F(key="theme", value="number 3", operator=O.TEXT_MATCH), [3]),
    (F(key="theme", value="THEME 4", operator=O.TEXT_MATCH_INSENSITIVE), [4]),
    (F(key="extra", value=None, operator=O.IS_EMPTY), [1, 2, 3, 4, 5]),
]


@pytest.mark.parametrize("i", range(len(OPERATORS)))
def test_operators(store, i):
    f, want = OPERATORS[i]
    assert at(store.query(query("x", filters=MetadataFilters(filters=[f])))) == want
    assert sorted(IDS.index(n.node_id) for n in store.get_nodes(filters=MetadataFilters(filters=[f]))) == want


def test_conditions_and_ids(store):
    ann, late = F(key="author", value="ann"), F(key="year", value=2001, operator=O.GTE)
    q = lambda **kw: at(store.query(query("x", **kw)))  # noqa: E731
    for condition, want in ((FilterCondition.AND, [1, 2]), (FilterCondition.OR, [0, 1, 2, 3, 4, 5]),
                            (FilterCondition.NOT, [])):
        assert q(filters=MetadataFilters(filters=[ann, late], condition=condition)) == want
    inner = MetadataFilters(filters=[F(key="year", value=2000), F(key="year", value=2005)], condition=FilterCondition.OR)
    assert q(filters=MetadataFilters(filters=[inner, ann])) == [0]
    assert q(doc_ids=["doc1"]) == [2, 3]
    assert q(node_ids=[IDS[4], IDS[5]]) == [4, 5]
    with pytest.raises(NotImplementedError):
        q(filters=MetadataFilters(filters=[F(key="tags", value="x", operator=O.CONTAINS)]))


@pytest.mark.parametrize("hybrid", [True], ids=["hybrid"], indirect=True)
def test_hybrid_modes(store, hybrid):
    r = store.query(query("beta one", 2, query_str="beta one", mode=VectorStoreQueryMode.SPARSE, sparse_top_k=2))
    assert r.ids[0] == IDS[1]
    r = store.query(query("beta one", 3, query_str="gamma two", mode=VectorStoreQueryMode.HYBRID, sparse_top_k=3))
    assert {IDS[1], IDS[2]} <= set(r.ids)
    f = MetadataFilters(filters=[F(key="author", value="bob")])
    r = store.query(query("beta one", 3, query_str="beta one", mode=VectorStoreQueryMode.HYBRID, filters=f))
    assert all(IDS.index(i) >= 3 for i in r.ids)


def test_get_delete_clear(store):
    assert [n.node_id for n in store.get_nodes(node_ids=[IDS[1]])] == [IDS[1]]
    assert store.get_nodes(node_ids=[IDS[1]])[0].embedding is not None
    store.delete("doc0")
    assert len(store.get_nodes()) == 4
    store.delete("no such document")
    store.delete_nodes(node_ids=[IDS[2]])
    store.delete_nodes(filters=MetadataFilters(filters=[F(key="year", value=2003)]))
    assert sorted(n.node_id for n in store.get_nodes()) == IDS[4:]
    store.add(nodes()[:1])
    assert len(store.get_nodes()) == 3
    store.clear()
    assert not store.client.collection_exists(store.collection_name)


@pytest.mark.asyncio
async def test_async(cell, name, hybrid):
    kw = dict(enable_hybrid=True, sparse_doc_fn=sparse_fn, sparse_query_fn=sparse_fn) if hybrid else {}
    s = QdrantVectorStore(collection_name=name, client=QdrantClient(url=cell.url),
                          aclient=AsyncQdrantClient(url=cell.url), **kw)
    await s.async_add(nodes())
    r = await s.aquery(query("gamma two", 2))
    assert r.ids[0] == IDS[2]
    f = MetadataFilters(filters=[F(key="author", value="bob")])
    assert at(await s.aquery(query("x", filters=f))) == [3, 4, 5]
    assert len(await s.aget_nodes(filters=f)) == 3
    await s.adelete("doc0")
    await s.adelete_nodes(node_ids=[IDS[5]])
    assert len(await s.aget_nodes()) == 3
    await s.aclear()


def test_vector_store_index(cell, name):
    s = QdrantVectorStore(collection_name=name, client=QdrantClient(url=cell.url))
    docs = [Document(text=t, metadata={"n": i}, doc_id="d%d" % i) for i, t in enumerate(TEXTS)]
    index = VectorStoreIndex.from_documents(docs, storage_context=StorageContext.from_defaults(vector_store=s),
                                            embed_model=MockEmbedding(embed_dim=4))
    f = MetadataFilters(filters=[F(key="n", value=3)])
    got = index.as_retriever(similarity_top_k=3, filters=f).retrieve("anything")
    assert [n.node.metadata["n"] for n in got] == [3]
    index.insert(Document(text="new", metadata={"n": 9}, doc_id="d9"))
    index.delete_ref_doc("d3")
    again = VectorStoreIndex.from_vector_store(s, embed_model=MockEmbedding(embed_dim=4))
    ns = sorted(n.node.metadata["n"] for n in again.as_retriever(similarity_top_k=20).retrieve("x"))
    assert ns == [0, 1, 2, 4, 5, 9]
