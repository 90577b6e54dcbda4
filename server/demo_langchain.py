"""A LangChain program as its users write it: QdrantVectorStore, nothing of Bailiwick's.
Usage: demo_langchain.py URL KEY_FILE. The embedding is LangChain's own stand-in, so that
no model is needed; the store is the point here."""
import sys

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore

url, key = sys.argv[1], open(sys.argv[2]).read().strip()
store = QdrantVectorStore.from_documents(
    [Document(page_content="The ward closes its doors at eight.", metadata={"page": 1}),
     Document(page_content="Visitors sign the book at the desk.", metadata={"page": 2}),
     Document(page_content="Medicines are locked away at night.", metadata={"page": 3})],
    DeterministicFakeEmbedding(size=64), url=url, api_key=key, collection_name="langchain-demo", prefer_grpc=False)
for doc, score in store.similarity_search_with_score("Visitors sign the book at the desk.", k=2):
    print(f"{score:.3f}  {doc.page_content}  {doc.metadata}")
retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 2})
print([d.metadata["page"] for d in retriever.invoke("Visitors sign the book at the desk.")])
store.client.delete_collection("langchain-demo")
