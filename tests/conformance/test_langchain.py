"""langchain-qdrant: every retrieval mode, sync and async, and langchain-tests' suite.

The stock suite cannot pass on any Qdrant (contract 5.1): its ids are "1", "2", the class
never sets Document.id and adds two metadata keys. MappedStore translates those three on
the test's side and leaves every call to the library.
"""
import uuid

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from langchain_qdrant.sparse_embeddings import SparseEmbeddings, SparseVector
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse

import fakes


class Dense(Embeddings):
    def embed_documents(self, texts):
        return [fakes.dense(t) for t in texts]

    def embed_query(self, text):
        return fakes.dense(text)


class Sparse(SparseEmbeddings):
    def embed_documents(self, texts):
        return [self.embed_query(t) for t in texts]

    def embed_query(self, text):
        i, v = fakes.sparse(text)
        return SparseVector(indices=i, values=v)


MODES = [(RetrievalMode.DENSE, ""), (RetrievalMode.DENSE, "named"), (RetrievalMode.SPARSE, ""),
         (RetrievalMode.HYBRID, ""), (RetrievalMode.HYBRID, "named")]
TEXTS = ["alpha one", "beta two", "gamma three", "delta four"]
METAS = [{"page": i, "lang": "en" if i % 2 == 0 else "de", "n": {"x": i}} for i in range(4)]


def store(cell, name, mode, vector_name, **kw):
    return QdrantVectorStore.from_texts(
        TEXTS, None if mode == RetrievalMode.SPARSE else Dense(), METAS, url=cell.url, collection_name=name,
        retrieval_mode=mode, vector_name=vector_name,
        sparse_embedding=None if mode == RetrievalMode.DENSE else Sparse(), **kw)


@pytest.mark.parametrize("mode,vector_name", MODES)
def test_search_paths(cell, name, mode, vector_name):
    s = store(cell, name, mode, vector_name)
    assert s.similarity_search("beta two", k=1)[0].page_content == "beta two"
    docs = s.similarity_search_with_score("beta two", k=4)
    assert docs[0][0].metadata["page"] == 1
    assert [x for _, x in docs] == sorted((x for _, x in docs), reverse=True)
    f = m.Filter(must=[m.FieldCondition(key="metadata.lang", match=m.MatchValue(value="en"))])
    got = s.similarity_search("alpha one gamma three", k=4, filter=f)
    assert got and all(d.metadata["lang"] == "en" for d in got)
    f = m.Filter(must=[m.FieldCondition(key="metadata.page", range=m.Range(gte=2))])
    got = s.similarity_search("gamma three delta four", k=4, filter=f, search_params=m.SearchParams(exact=True))
    assert sorted(d.metadata["page"] for d in got) == [2, 3]
    f = m.Filter(must=[m.FieldCondition(key="metadata.n.x", match=m.MatchValue(value=2))])
    assert [d.metadata["page"] for d in s.similarity_search("gamma three", filter=f)] == [2]
    if mode == RetrievalMode.DENSE:
        assert s.similarity_search("beta two", k=4, score_threshold=0.99)[0].metadata["page"] == 1
        assert len(s.similarity_search("beta two", k=4, score_threshold=0.99)) == 1
    if mode == RetrievalMode.HYBRID:
        for fusion in (m.Fusion.RRF, m.Fusion.DBSF):
            assert s.similarity_search("beta two", k=2, hybrid_fusion=m.FusionQuery(fusion=fusion))[0].metadata["page"] == 1


@pytest.mark.parametrize("vector_name", ["", "named"])
def test_by_vector_and_mmr(cell, name, vector_name):
    s = store(cell, name, RetrievalMode.DENSE, vector_name)
    v = fakes.dense("beta two")
    assert s.similarity_search_by_vector(v, k=1)[0].page_content == "beta two"
    assert s.similarity_search_with_score_by_vector(v, k=1)[0][1] > 0.999
    # lambda_mult goes into `diversity` as it stands: 0 is pure relevance (bug report 42)
    by_score = [d.page_content for d in s.similarity_search("beta two", k=4)]
    assert [d.page_content for d in s.max_marginal_relevance_search("beta two", k=4, fetch_k=4, lambda_mult=0.0)] == by_score
    got = s.max_marginal_relevance_search("beta two", k=4, fetch_k=4, lambda_mult=1.0)
    first, left = by_score[0], [t for t in TEXTS if t != by_score[0]]
    picked = [first]
    while left:  # pure diversity: the least similar to what was picked, each time
        nxt = min(left, key=lambda t: max(fakes.cosine(fakes.dense(t), fakes.dense(p)) for p in picked))
        picked.append(nxt)
        left.remove(nxt)
    assert [d.page_content for d in got] == picked
    f = m.Filter(must=[m.FieldCondition(key="metadata.lang", match=m.MatchValue(value="de"))])
    assert all(d.metadata["lang"] == "de" for d in s.max_marginal_relevance_search("beta two", k=4, filter=f))
    r = s.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.99, "filter": f})
    assert [d.page_content for d in r.invoke("beta two")] == ["beta two"]
    r = s.as_retriever(search_type="mmr", search_kwargs={"k": 2, "filter": f})
    assert len(r.invoke("beta two")) == 2


def test_ids_delete_and_reopen(cell, name):
    s = store(cell, name, RetrievalMode.DENSE, "")
    ids = s.add_texts(["epsilon five"], [{"page": 9}], ids=[uuid.uuid4().hex])
    assert s.get_by_ids(ids)[0].page_content == "epsilon five"
    assert s.delete(ids) is True and s.get_by_ids(ids) == []
    again = QdrantVectorStore.from_existing_collection(url=cell.url, collection_name=name, embedding=Dense())
    assert again.similarity_search("gamma three", k=1)[0].page_content == "gamma three"
    with pytest.raises(Exception, match="(?i)dimension|size"):
        class Wide(Dense):
            def embed_query(self, text):
                return fakes.dense(text, 16)

            def embed_documents(self, texts):
                return [fakes.dense(t, 16) for t in texts]
        QdrantVectorStore.from_existing_collection(url=cell.url, collection_name=name, embedding=Wide())
    s2 = QdrantVectorStore.from_texts(["only"], Dense(), url=cell.url, collection_name=name, force_recreate=True)
    assert len(s2.similarity_search("only", k=9)) == 1
    with pytest.raises(UnexpectedResponse, match="404"):
        QdrantVectorStore.from_existing_collection(url=cell.url, collection_name="nowhere", embedding=Dense())


@pytest.mark.asyncio
@pytest.mark.parametrize("mode,vector_name", MODES)
async def test_async_paths(cell, name, mode, vector_name):
    s = await QdrantVectorStore.afrom_texts(
        TEXTS, None if mode == RetrievalMode.SPARSE else Dense(), METAS, url=cell.url, collection_name=name,
        retrieval_mode=mode, vector_name=vector_name,
        sparse_embedding=None if mode == RetrievalMode.DENSE else Sparse())
    assert (await s.asimilarity_search("beta two", k=1))[0].page_content == "beta two"
    ids = await s.aadd_texts(["epsilon five"])
    assert len(await s.asimilarity_search_with_score("epsilon five", k=1)) == 1
    assert await s.adelete(ids)
    if mode != RetrievalMode.SPARSE:
        assert (await s.amax_marginal_relevance_search("beta two", k=2))[0].page_content == "beta two"


class MappedStore(QdrantVectorStore):
    """ids as UUIDs on the wire, Document.id set, the two added metadata keys taken off."""
    NAMES = {}

    @classmethod
    def wire(cls, i):
        u = str(uuid.uuid5(uuid.NAMESPACE_OID, str(i)))
        cls.NAMES[u] = str(i)
        return u

    def add_texts(self, texts, metadatas=None, ids=None, **kw):
        texts = list(texts)
        ids = [str(i) if i else uuid.uuid4().hex for i in ids] if ids else [uuid.uuid4().hex for _ in texts]
        super().add_texts(texts, metadatas, [self.wire(i) for i in ids], **kw)
        return ids

    def delete(self, ids=None, **kw):
        return super().delete([self.wire(i) for i in ids], **kw)

    def get_by_ids(self, ids, /):
        return super().get_by_ids([self.wire(i) for i in ids])

    @classmethod
    def _document_from_point(cls, point, collection, content_key, metadata_key):
        d = super()._document_from_point(point, collection, content_key, metadata_key)
        meta = {k: v for k, v in d.metadata.items() if k not in ("_id", "_collection_name")}
        return Document(id=cls.NAMES.get(str(point.id), str(point.id)), page_content=d.page_content, metadata=meta)


class Standard(VectorStoreIntegrationTests):
    mode, vector_name = RetrievalMode.DENSE, ""

    @pytest.fixture
    def vectorstore(self, cell, name):
        return MappedStore.construct_instance(
            embedding=self.get_embeddings(), retrieval_mode=self.mode, collection_name=name,
            client_options={"url": cell.url}, vector_name=self.vector_name,
            sparse_embedding=Sparse() if self.mode == RetrievalMode.HYBRID else None)


class TestStandardDense(Standard):
    pass


class TestStandardNamed(Standard):
    vector_name = "named"


class TestStandardHybrid(Standard):
    mode = RetrievalMode.HYBRID


del Standard  # it is no suite itself
del VectorStoreIntegrationTests
