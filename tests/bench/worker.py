"""One peer in a process of its own, driven by lines of JSON, so that contenders can take
turns and libraries with OpenMP runtimes of their own never meet.

    python worker.py PEER ROWS.npy QUERIES.npy
stdin:  {"do": "build", "threads": 1, "kept": FOLDER or null}   the index over all rows
        {"do": "permit", "labels": FILE.npy, "classes": [..]}  what later searches may find
        {"do": "search", "effort": 32, "from": 0, "count": 1000, "k": 10}
        {"do": "ready"}                          answers when the rows are loaded
stdout: {"seconds", "cpu"} and, of a search, "rows": k row numbers a query, -1 where there is
        none; {"not_run": why} where the library is missing or refuses.

Only searching is timed, one thread. Libraries whose call takes an array of queries and goes
through it one by one with one thread get the array (no cost of Python a query): rabitqlib,
hnswlib, usearch, voyager, scalable-vs, faiss's graphs and IVF. faiss flat would multiply
matrices then, so it, scann and qdrant-edge are called query by query.
"""
import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
import numpy as np


class NotRun(Exception):
    pass


def optional(module, package=None):
    try:
        found = importlib.import_module(module)
    except ImportError as e:
        raise NotRun("%s is not installed" % (package or module)) from e
    except Exception as e:
        raise NotRun("%s: %s" % (package or module, e)) from e
    package = package or module
    return found, "%s %s" % (package, importlib.metadata.version(package))


class Peer:
    version = ""

    def __init__(self, rows, queries, kind):
        self.rows, self.queries, self.kind = rows, queries, kind
        self.allowed = None

    def permit(self, labels, classes):
        raise NotRun("has no filter here")

    def prepare(self, effort, begin, n, k):
        """What is not timed: requests built, effort set."""

    def close(self):
        pass


class Faiss(Peer):
    """kind: what index_factory takes; {root} is 4·√n. faiss flat: query by query."""

    def build(self, threads):
        self.faiss, self.version = optional("faiss", "faiss-cpu")
        self.faiss.omp_set_num_threads(threads)
        kind = self.kind.replace("{root}", "%d" % (4 * len(self.rows) ** 0.5))
        self.index = self.faiss.index_factory(self.rows.shape[1], kind, self.faiss.METRIC_INNER_PRODUCT)
        if "HNSW" in kind:
            self.index.hnsw.efConstruction = 200
        if not self.index.is_trained:
            self.index.train(self.rows)
        self.index.add(self.rows)
        self.faiss.omp_set_num_threads(1)
        self.parameters = None

    def permit(self, labels, classes):
        self.allowed = np.packbits(np.isin(labels, classes), bitorder="little")
        self.selector = self.faiss.IDSelectorBitmap(self.allowed)

    def prepare(self, effort, begin, n, k):
        faiss, sel = self.faiss, {"sel": self.selector} if self.allowed is not None else {}
        if "HNSW" in self.kind:
            self.parameters = faiss.SearchParametersHNSW(efSearch=effort, **sel)
        elif "IVF" in self.kind:
            ivf = faiss.SearchParametersIVF(nprobe=effort, **sel)
            self.parameters = ivf
            if "RFlat" in self.kind:
                self.parameters = faiss.IndexRefineSearchParameters(k_factor=10, base_index_params=ivf)
                self.base_parameters = ivf
        else:
            self.parameters = faiss.SearchParameters(**sel) if sel else None

    def search(self, effort, begin, n, k):
        if self.kind == "Flat":
            return [self.index.search(self.queries[i:i + 1], k, params=self.parameters)[1][0]
                    for i in range(begin, begin + n)]
        return self.index.search(self.queries[begin:begin + n], k, params=self.parameters)[1]


class Hnswlib(Peer):
    def build(self, threads):
        hnswlib, self.version = optional("hnswlib")
        self.index = hnswlib.Index(space="ip", dim=self.rows.shape[1])
        self.index.init_index(max_elements=len(self.rows), M=16, ef_construction=200, random_seed=1)
        for i in range(0, len(self.rows), 50000):
            self.index.add_items(self.rows[i:i + 50000], num_threads=threads)
        self.index.set_num_threads(1)

    def permit(self, labels, classes):
        self.allowed = np.isin(labels, classes).tolist()

    def save(self, path):
        self.index.save_index(path)

    def load(self, path):
        hnswlib, self.version = optional("hnswlib")
        self.index = hnswlib.Index(space="ip", dim=self.rows.shape[1])
        self.index.load_index(path, max_elements=len(self.rows))
        self.index.set_num_threads(1)

    def search(self, effort, begin, n, k):
        self.index.set_ef(max(effort, k))
        allowed = self.allowed.__getitem__ if self.allowed is not None else None
        try:
            return self.index.knn_query(self.queries[begin:begin + n], k=k, num_threads=1, filter=allowed)[0]
        except RuntimeError:  # fewer than k found: it says so for the whole array
            found = np.full((n, k), -1, dtype=np.int64)
            for i in range(n):
                try:
                    found[i] = self.index.knn_query(self.queries[begin + i], k=k, num_threads=1,
                                                    filter=allowed)[0][0]
                except RuntimeError:
                    pass
            return found


class Classes(Peer):
    """One index a class, the permitted ones searched in turn and merged: what a user of the
    library builds who wants no filter. Small classes are flat, larger ones HNSW."""
    FLAT = 1000

    def build(self, threads):
        self.faiss, self.version = optional("faiss", "faiss-cpu")
        self.threads, self.built = threads, {}

    def permit(self, labels, classes):
        self.faiss.omp_set_num_threads(self.threads)
        for c in classes:
            if c in self.built:
                continue
            which = np.flatnonzero(labels == c)
            index = self.faiss.index_factory(
                self.rows.shape[1], "Flat" if len(which) <= self.FLAT else "HNSW32",
                self.faiss.METRIC_INNER_PRODUCT)
            if len(which) > self.FLAT:
                index.hnsw.efConstruction = 200
            index.add(np.ascontiguousarray(self.rows[which]))
            self.built[c] = (which, index)
        self.faiss.omp_set_num_threads(1)
        self.chosen = [self.built[c] for c in classes]

    def prepare(self, effort, begin, n, k):
        self.parameters = self.faiss.SearchParametersHNSW(efSearch=effort)

    def search(self, effort, begin, n, k):
        # Class by class over the slice of queries; the merge is numpy's. Flat ones one query
        # at a time, since a matrix product would be another question.
        scores, numbers = [], []
        for which, index in self.chosen:
            if len(which) <= self.FLAT:
                parts = [index.search(self.queries[i:i + 1], k) for i in range(begin, begin + n)]
                s, rows = np.vstack([p[0] for p in parts]), np.vstack([p[1] for p in parts])
            else:
                s, rows = index.search(self.queries[begin:begin + n], k, params=self.parameters)
            scores.append(s)
            numbers.append(np.where(rows < 0, -1, which[rows]))
        scores, numbers = np.hstack(scores), np.hstack(numbers)
        keep = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(numbers, keep, axis=1)

    def close(self):
        self.built = {}


class Rabitq(Peer):
    """SymphonyQG, degree 32; kind: bits of the own vector's code, 0 = raw f32."""

    def build(self, threads):
        rabitqlib, self.version = optional("rabitqlib")
        self.index = rabitqlib.SymqgIndex(self.rows.shape[1], 32, "l2", int(self.kind))
        self.index.build(self.rows, 200, threads)

    def save(self, path):
        self.index.save(path)

    def load(self, path):
        rabitqlib, self.version = optional("rabitqlib")
        self.index = rabitqlib.SymqgIndex.load(path)

    def search(self, effort, begin, n, k):
        a, b = self.index.search(self.queries[begin:begin + n], k, effort, 1)
        return a if a.dtype.kind in "iu" else b


class Scann(Peer):
    def build(self, threads):
        scann, self.version = optional("scann")
        leaves = max(20, int(len(self.rows) ** 0.5))
        builder = scann.scann_ops_pybind.builder(self.rows, 10, "dot_product")
        self.leaves = leaves
        self.index = (builder.set_n_training_threads(threads)
                      .tree(leaves, 10, training_sample_size=min(len(self.rows), 250000))
                      .score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build())

    def search(self, effort, begin, n, k):
        leaves, reorder = effort
        return [self.index.search(self.queries[i], final_num_neighbors=k, leaves_to_search=leaves,
                                  pre_reorder_num_neighbors=reorder)[0]
                for i in range(begin, begin + n)]


class Svs(Peer):
    def build(self, threads):
        svs, self.version = optional("svs", "scalable-vs")
        self.svs = svs
        parameters = svs.VamanaBuildParameters(graph_max_degree=64, window_size=200, alpha=0.95)
        self.index = svs.Vamana.build(parameters, self.rows, svs.DistanceType.MIP, num_threads=threads)
        self.index.num_threads = 1

    def search(self, effort, begin, n, k):
        self.index.search_window_size = max(effort, k)
        return self.index.search(self.queries[begin:begin + n], k)[0]


class Usearch(Peer):
    def build(self, threads):
        _, self.version = optional("usearch")
        from usearch.index import Index
        self.index = Index(ndim=self.rows.shape[1], metric="ip", dtype="bf16", connectivity=16,
                           expansion_add=200)
        self.index.add(np.arange(len(self.rows)), self.rows, threads=threads)

    def search(self, effort, begin, n, k):
        self.index.expansion_search = effort
        return self.index.search(self.queries[begin:begin + n], k, threads=1).keys


class Voyager(Peer):
    def build(self, threads):
        voyager, self.version = optional("voyager")
        self.index = voyager.Index(voyager.Space.InnerProduct, num_dimensions=self.rows.shape[1],
                                   M=16, ef_construction=200)
        self.index.add_items(self.rows, num_threads=threads)

    def search(self, effort, begin, n, k):
        return self.index.query(self.queries[begin:begin + n], k=k, num_threads=1,
                                query_ef=max(effort, k))[0]


class QdrantEdge(Peer):
    def build(self, threads):
        edge, self.version = optional("qdrant_edge", "qdrant-edge-py")
        self.edge, self.filter = edge, None
        self.folder = tempfile.TemporaryDirectory(prefix="bw-bench-edge-")
        hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10000,
                                    max_indexing_threads=threads)
        config = edge.EdgeConfig(
            vectors={"": edge.EdgeVectorParams(size=self.rows.shape[1], distance=edge.Distance.Cosine,
                                               hnsw_config=hnsw)},
            hnsw_config=hnsw, max_search_threads=1,
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1))
        self.shard = edge.EdgeShard.create(self.folder.name, config)
        self.labels = None
        self.upsert()

    def upsert(self):
        """Rows in, with their class in the payload when there are classes, then indexed."""
        edge = self.edge
        path = os.environ.get("BW_BENCH_LABELS")
        labels = np.load(path) if path else None
        if labels is not None:
            self.shard.update(edge.UpdateOperation.create_field_index("c", edge.PayloadSchemaType.Integer))
        begun = time.perf_counter()
        for begin in range(0, len(self.rows), 1000):
            points = [edge.Point(begin + i, {"": v.tolist()},
                                 {"c": int(labels[begin + i])} if labels is not None else None)
                      for i, v in enumerate(self.rows[begin:begin + 1000])]
            self.shard.update(edge.UpdateOperation.upsert_points(points))
        self.upsert_seconds = time.perf_counter() - begun
        while self.shard.optimize():
            pass

    def permit(self, labels, classes):
        edge = self.edge
        self.filter = edge.Filter(must=[edge.FieldCondition("c", match=edge.MatchAny([int(c) for c in classes]))])

    def prepare(self, effort, begin, n, k):
        edge = self.edge
        self.requests = [edge.QueryRequest(limit=k, query=edge.Query.Nearest(q.tolist(), using=""),
                                           filter=self.filter, params=edge.SearchParams(hnsw_ef=effort))
                         for q in self.queries[begin:begin + n]]

    def search(self, effort, begin, n, k):
        hits = [self.shard.query(r) for r in self.requests]
        return [[p.id for p in h] for h in hits]

    def close(self):
        if hasattr(self, "shard"):
            self.shard.close()
            self.folder.cleanup()


PEERS = {
    "faiss-flat": (Faiss, "Flat"), "faiss-hnsw": (Faiss, "HNSW32"), "faiss-hnsw-sq8": (Faiss, "HNSW32,SQ8"),
    "faiss-ivfpq": (Faiss, "IVF{root},PQ96x4fs,RFlat"), "faiss-classes": (Classes, ""),
    "hnswlib": (Hnswlib, ""), "rabitq-raw": (Rabitq, "0"), "rabitq-8": (Rabitq, "8"),
    "scann": (Scann, ""), "svs": (Svs, ""), "usearch": (Usearch, ""), "voyager": (Voyager, ""),
    "qdrant-edge": (QdrantEdge, ""),
}


def build(peer, order):
    """Builds; an index of minutes is kept in the folder `kept` with what it took, and read
    from there the next time."""
    kept = order.get("kept")
    path = kept and hasattr(peer, "save") and len(peer.rows) >= 100000 and os.path.join(
        kept, "index-%s-%d" % (sys.argv[1], len(peer.rows)))
    if path and os.path.exists(path + ".json"):
        peer.load(path)
        with open(path + ".json") as f:
            return json.load(f)
    wall, cpu = time.perf_counter(), time.process_time()
    peer.build(order.get("threads", 1))
    made = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
            "version": peer.version, "upsert_seconds": getattr(peer, "upsert_seconds", None)}
    if path:
        peer.save(path)
        with open(path + ".json", "w") as f:
            json.dump(made, f)
    return made


def answer(peer, order):
    if order["do"] == "build":
        return build(peer, order)
    if order["do"] == "ready":
        return {"seconds": 0}
    if order["do"] == "permit":
        peer.permit(np.load(order["labels"]), order["classes"])
        return {"seconds": 0, "cpu": 0}
    effort, begin, n, k = order["effort"], order["from"], order["count"], order.get("k", 10)
    peer.prepare(effort, begin, n, k)
    wall, cpu = time.perf_counter(), time.process_time()
    found = peer.search(effort, begin, n, k)
    seconds = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    rows = [[int(r) if 0 <= r < 1 << 40 else -1 for r in row] for row in found]
    return dict(seconds, rows=[(row + [-1] * k)[:k] for row in rows])


def main():
    kind, setting = PEERS[sys.argv[1]]
    # What libraries print must not reach the answers' stream.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    rows, queries = (np.ascontiguousarray(np.load(p), dtype=np.float32) for p in sys.argv[2:4])
    peer = kind(rows, queries, setting)
    try:
        for line in sys.stdin:
            try:
                reply = answer(peer, json.loads(line))
            except NotRun as e:
                reply = {"not_run": str(e)}
            except Exception as e:  # a library's own refusal ends this peer, not the run
                reply = {"not_run": "%s: %s" % (type(e).__name__, str(e)[:300])}
            out.write(json.dumps(reply) + "\n")
            out.flush()
    finally:
        peer.close()


if __name__ == "__main__":
    main()
