"""A LlamaIndex program as its users write it: QdrantVectorStore under a VectorStoreIndex.
Usage: demo_llamaindex.py URL KEY_FILE. MockEmbedding stands in for a model."""
import sys

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

url, key = sys.argv[1], open(sys.argv[2]).read().strip()
client = QdrantClient(url=url, api_key=key, prefer_grpc=False)
store = QdrantVectorStore(collection_name="llamaindex-demo", client=client)
index = VectorStoreIndex.from_documents(
    [Document(text="Accounts are closed by letter.", metadata={"desk": "retail"}),
     Document(text="Loans are approved by two officers.", metadata={"desk": "credit"})],
    storage_context=StorageContext.from_defaults(vector_store=store), embed_model=MockEmbedding(embed_dim=64))
only_credit = MetadataFilters(filters=[MetadataFilter(key="desk", operator=FilterOperator.EQ, value="credit")])
for node in index.as_retriever(similarity_top_k=2, filters=only_credit).retrieve("Who approves a loan?"):
    print(f"{node.score:.3f}  {node.text}  {node.metadata}")
client.delete_collection("llamaindex-demo")
