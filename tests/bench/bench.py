"""Queries a second at a stated recall@10: Bailiwick in one process and over HTTP, beside
faiss-cpu, hnswlib and qdrant-edge-py, all in one run on the same vectors.

    python tests/bench/bench.py [--n 20000] [--rounds 3] [--only NAME,…] [--build DIR] [--write]

Every contender is built once, climbs a ladder of efforts (ef or nprobe) until it reaches
a recall of 0.95 and of 0.99, and is then timed at those efforts in rounds: in each round
every contender has one turn, in an order that rotates. One thread, one query a call,
k = 10. Two figures: queries a second of the clock on the wall, and of the process's own
CPU time, which a shared machine disturbs less (over HTTP: the server's). Medians over the rounds. A contender that is not there (package
not installed, server not built) is listed as not run.

--n beyond the stored rows grows them: a real row plus Gaussian noise shaped by the data's
principal axes with the median distance to a tenth neighbour as its length, renormalised.
"""
import argparse
import datetime
import http.client
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SHARED = os.environ.get("BW_SHARED", os.path.join(SOURCE, "..", "shared"))
BUILD = os.environ.get("BW_BUILD", os.path.join(SOURCE, "build", "release"))
K = 10
TARGETS = (0.95, 0.99)
LADDER = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
SEAL_ROWS = 50000  # up to here a partition has no graph unless told to seal earlier
NOISE = 0.927  # median distance to a 10th neighbour in the stored rows


class NotRun(Exception):
    pass


# ---- data ----
def load(n, nq):
    rows = np.load(os.path.join(SHARED, "bench", "minilm-20k.f16.npy")).astype(np.float32)
    queries = np.load(os.path.join(SHARED, "bench", "minilm-queries-500.f16.npy")).astype(np.float32)
    if n <= len(rows):
        rows = rows[:n]
    else:
        rows = np.concatenate([rows, grow(rows, n - len(rows))])
    return unit(rows), unit(queries[:nq])


def unit(x):
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)


def grow(rows, n):
    rng = np.random.default_rng(20261130)
    centred = rows - rows.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(centred.T))
    shape = (axes * np.sqrt(np.maximum(values, 0))).T.astype(np.float32)
    out = []
    for begin in range(0, n, 50000):
        m = min(50000, n - begin)
        noise = rng.standard_normal((m, rows.shape[1]), dtype=np.float32) @ shape
        noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
        out.append(unit(rows[rng.integers(0, len(rows), m)] + noise))
    return np.concatenate(out)


def exact(rows, queries):
    """The true ten, by inner product in double precision where floats nearly tie."""
    truth = []
    for q in queries:
        s = rows @ q
        near = np.argpartition(-s, 4 * K)[:4 * K]
        d = rows[near].astype(np.float64) @ q.astype(np.float64)
        truth.append(near[np.lexsort((near, -d))][:K])
    return np.array(truth)


def recall(found, truth):
    return float(np.mean([len(set(a[:K]) & set(b)) / K for a, b in zip(found, truth)]))


# ---- contenders: build(rows, queries), search(effort) -> ((wall s, CPU s), row numbers) ----
class Stopwatch:
    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self):
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


class Contender:
    ladder = LADDER
    effort = "ef"
    build_s = None

    def close(self):
        pass


class Faiss(Contender):
    def __init__(self, kind):
        self.kind = kind
        if kind == "Flat":
            self.ladder, self.effort = (0,), ""
        if kind == "IVF":
            self.ladder, self.effort = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192), "nprobe"
        self.name = "faiss-cpu " + kind

    def build(self, rows, queries):
        faiss = optional("faiss")
        faiss.omp_set_num_threads(1)
        self.faiss, self.queries = faiss, queries
        kind = "IVF%d,Flat" % (4 * len(rows) ** 0.5) if self.kind == "IVF" else self.kind
        self.index = faiss.index_factory(rows.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        if self.kind.startswith("HNSW"):
            self.index.hnsw.efConstruction = 100
        if not self.index.is_trained:
            self.index.train(rows)
        self.index.add(rows)
        self.version = "faiss-cpu %s" % faiss.__version__

    def search(self, effort):
        if self.kind == "IVF":
            self.index.nprobe = effort
        elif effort:
            self.index.hnsw.efSearch = effort
        found = []
        watch = Stopwatch()
        for i in range(len(self.queries)):
            found.append(self.index.search(self.queries[i:i + 1], K)[1][0])
        return watch.stop(), found


class Hnswlib(Contender):
    name = "hnswlib M 16"

    def build(self, rows, queries):
        hnswlib = optional("hnswlib")
        self.queries = queries
        self.index = hnswlib.Index(space="ip", dim=rows.shape[1])
        self.index.init_index(max_elements=len(rows), M=16, ef_construction=100, random_seed=1)
        self.index.set_num_threads(1)
        self.index.add_items(rows, num_threads=1)
        self.version = "hnswlib %s" % version_of("hnswlib")

    def search(self, effort):
        self.index.set_ef(effort)
        found = []
        watch = Stopwatch()
        for i in range(len(self.queries)):
            found.append(self.index.knn_query(self.queries[i:i + 1], k=K, num_threads=1)[0][0])
        return watch.stop(), found


class QdrantEdge(Contender):
    name = "qdrant-edge-py m 16"

    def build(self, rows, queries):
        edge = optional("qdrant_edge")
        self.edge, self.queries = edge, [q.tolist() for q in queries]
        self.folder = tempfile.TemporaryDirectory(prefix="bw-bench-edge-")
        hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10,
                                    max_indexing_threads=1)
        config = edge.EdgeConfig(
            vectors={"": edge.EdgeVectorParams(size=rows.shape[1], distance=edge.Distance.Cosine,
                                               hnsw_config=hnsw)},
            hnsw_config=hnsw, max_search_threads=1,
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1))
        self.shard = edge.EdgeShard.create(self.folder.name, config)
        for begin in range(0, len(rows), 1000):
            points = [edge.Point(begin + i, {"": v.tolist()})
                      for i, v in enumerate(rows[begin:begin + 1000])]
            self.shard.update(edge.UpdateOperation.upsert_points(points))
        while self.shard.optimize():
            pass
        self.version = "qdrant-edge-py %s" % version_of("qdrant-edge-py")

    def search(self, effort):
        edge = self.edge
        requests = [edge.QueryRequest(limit=K, query=edge.Query.Nearest(q, using=""),
                                      params=edge.SearchParams(hnsw_ef=effort))
                    for q in self.queries]
        found = []
        watch = Stopwatch()
        for r in requests:
            found.append(self.shard.query(r))
        spent = watch.stop()
        return spent, [[p.id for p in hits] for hits in found]

    def close(self):
        if hasattr(self, "shard"):
            self.shard.close()
            self.folder.cleanup()


class Process(Contender):
    """bw_bench (tests/tools/engine): our own code in one process, driven line by line."""

    def __init__(self, kind, name, effort, ladder, files, seal=0):
        self.kind, self.name, self.effort, self.ladder = kind, name, effort, ladder
        self.files, self.seal = files, seal

    def build(self, rows, queries):
        program = os.path.join(BUILD, "tests", "bw_bench")
        if not os.path.exists(program):
            raise NotRun("build/release/tests/bw_bench is not built")
        self.nq, self.version = len(queries), None
        self.process = subprocess.Popen([program, *self.files, "cosine"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        return self.ask("build %s %d" % (self.kind, self.seal))["seconds"]

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("bw_bench ended at: " + line)
        return json.loads(answer)

    def search(self, effort):
        answer = self.ask("search %s %d" % (self.kind, effort))
        return (answer["seconds"], answer["cpu"]), np.array(answer["rows"]).reshape(self.nq, K)

    def close(self):
        if hasattr(self, "process"):
            self.process.stdin.close()
            self.process.wait(60)


class Http(Contender):
    """A cell of ours on loopback, one kept-alive connection, Qdrant's REST calls."""

    def __init__(self, name, seal=None):
        self.name, self.seal = name, seal

    def build(self, rows, queries):
        binary = os.path.join(BUILD, "bailiwick")
        if not os.path.exists(binary):
            raise NotRun("build/release/bailiwick is not built")
        os.environ["BW_BINARY"] = binary
        sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
        cell = importlib.import_module("cell")
        self.version, self.queries = None, queries
        if len(rows) <= (self.seal or SEAL_ROWS):
            self.ladder = (0,)
        self.cell = cell.Cell(dev=True, settings={"data.seal_rows": self.seal} if self.seal else None)
        self.cell.start()
        self.connect()
        self.call("PUT", "/collections/bench",
                  {"vectors": {"size": rows.shape[1], "distance": "Cosine"}})
        for begin in range(0, len(rows), 1000):
            points = [{"id": begin + i, "vector": [round(float(x), 9) for x in v]}
                      for i, v in enumerate(rows[begin:begin + 1000])]
            self.call("PUT", "/collections/bench/points?wait=true", {"points": points})
        self.wait_for_index(len(rows))

    def connect(self):
        """A new connection: the cell closes one that idles while others have their turn."""
        self.connection = http.client.HTTPConnection("127.0.0.1", self.cell.port, timeout=120)
        self.connection.connect()

    def server_cpu(self):
        """Seconds of CPU time of the cell so far, all threads (in steps of 10 ms)."""
        with open("/proc/%d/stat" % self.cell.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_for_index(self, n):
        """Until the graph serves: green, and everything indexed or small enough to scan."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            info = self.call("GET", "/collections/bench")["result"]
            if info.get("status") == "green":
                return
            time.sleep(0.2)

    def send(self, method, path, body):
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise RuntimeError("%s %s: %d %r" % (method, path, response.status, data[:200]))
        return data

    def call(self, method, path, value=None):
        return json.loads(self.send(method, path, None if value is None else json.dumps(value)))

    def search(self, effort):
        bodies = [json.dumps({"query": [round(float(x), 9) for x in q], "limit": K,
                              "params": {"hnsw_ef": effort} if effort else {}})
                  for q in self.queries]
        self.connect()
        answers = []
        watch, cpu = Stopwatch(), self.server_cpu()
        for body in bodies:
            answers.append(self.send("POST", "/collections/bench/points/query", body))
        spent = watch.stop()[0], self.server_cpu() - cpu
        return spent, [[p["id"] for p in json.loads(a)["result"]["points"]] for a in answers]

    def close(self):
        if hasattr(self, "cell"):
            self.cell.close()


def optional(module):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise NotRun("%s is not installed" % module) from e


def version_of(package):
    import importlib.metadata
    return importlib.metadata.version(package)


# ---- the run ----
def climb(contender, truth):
    """The first effort of the ladder that reaches each target: {target: (effort, recall)}."""
    reached = {}
    for effort in contender.ladder:
        r = recall(contender.search(effort)[1], truth)
        for target in TARGETS:
            if r >= target and target not in reached:
                reached[target] = (effort, r)
        if r >= max(TARGETS):
            break
    return reached


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            fields = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line)
        model = next(v.strip() for k, v in fields.items() if k.strip() == "model name")
        flags = next(v for k, v in fields.items() if k.strip() == "flags")
        model += ", AVX-512" if "avx512f" in flags else ", AVX2" if "avx2" in flags else ""
    except (OSError, StopIteration):
        pass
    return "%s, %d cores, one thread used" % (model, os.cpu_count())


def run(contenders, rows, queries, truth, rounds):
    jobs, notes = [], []
    for c in contenders:
        begin = time.perf_counter()
        try:
            built = c.build(rows, queries)
        except NotRun as e:
            notes.append("%s: not run (%s)" % (c.name, e))
            continue
        c.build_s = built if built is not None else time.perf_counter() - begin
        reached = climb(c, truth)
        efforts = sorted(set(reached.values()))
        if not efforts:
            notes.append("%s: did not reach %.2f" % (c.name, min(TARGETS)))
        jobs += [{"contender": c, "effort": e, "recall": r, "wall": [], "cpu": []} for e, r in efforts]
        print("%-28s built in %6.1f s, efforts %s" % (c.name, c.build_s, efforts), file=sys.stderr)
    for i in range(rounds):
        for job in jobs[i % len(jobs):] + jobs[:i % len(jobs)] if jobs else []:
            (wall, cpu), found = job["contender"].search(job["effort"])
            job["wall"].append(len(queries) / wall)
            if cpu:
                job["cpu"].append(len(queries) / cpu)
            job["recall"] = recall(found, truth)
    return jobs, notes


def spread(values):
    if not values:
        return "–"
    return "{:,.0f} ({:,.0f}–{:,.0f})".format(statistics.median(values), min(values), max(values))


def table(jobs, notes, rows, queries, rounds):
    versions = sorted({j["contender"].version for j in jobs if j["contender"].version})
    out = ["### n = %d, dim = %d, %d queries, k = %d" % (len(rows), rows.shape[1], len(queries), K), "",
           "%s. %s, Python %s; %s. Median of %d rounds (least–most)." % (
               datetime.date.today().isoformat(), machine(), platform.python_version(),
               ", ".join(versions) or "no peers", rounds), "",
           "| contender | effort | build s | recall@10 | QPS, wall | QPS, CPU time |",
           "|---|---|---|---|---|---|"]
    for j in sorted(jobs, key=lambda j: (j["recall"] < 0.99, -statistics.median(j["cpu"] or j["wall"]))):
        c = j["contender"]
        effort = "%s %d" % (c.effort, j["effort"]) if j["effort"] else "exact" if c.ladder == (0,) else "own choice"
        out.append("| %s | %s | %.1f | %.3f | %s | %s |" % (
            c.name, effort, c.build_s, j["recall"], spread(j["wall"]), spread(j["cpu"])))
    return "\n".join(out + [""] + ["- " + n for n in notes]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=20000)
    parser.add_argument("--nq", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of contenders' names, comma-separated")
    parser.add_argument("--build", default=BUILD, help="the build folder (a release build)")
    parser.add_argument("--write", action="store_true", help="append to tests/bench/RESULTS.md")
    a = parser.parse_args()
    globals()["BUILD"] = os.path.abspath(a.build)
    rows, queries = load(a.n, a.nq)
    truth = exact(rows, queries)
    with tempfile.TemporaryDirectory(prefix="bw-bench-") as folder:
        files = [os.path.join(folder, name) for name in ("rows.npy", "queries.npy")]
        np.save(files[0], rows)
        np.save(files[1], queries)
        nprobes = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192)
        contenders = [
            Process("flat", "bailiwick flat", "", (0,), files),
            Process("faiss-hnsw", "bailiwick index faiss-hnsw", "ef", LADDER, files),
            Process("faiss-ivf", "bailiwick index faiss-ivf", "nprobe", nprobes, files),
            Process("engine", "bailiwick engine", "ef", LADDER if a.n > SEAL_ROWS else (0,), files),
            Process("engine", "bailiwick engine, sealed early", "ef", LADDER, files, seal=a.n * 9 // 10),
            Http("bailiwick over HTTP"),
            Http("bailiwick over HTTP, sealed early", seal=a.n * 3 // 4),
            Faiss("Flat"), Faiss("HNSW16"), Faiss("HNSW32"), Faiss("IVF"), Hnswlib(), QdrantEdge()]
        only = [o for o in a.only.split(",") if o]
        contenders = [c for c in contenders if not only or any(o in c.name for o in only)]
        try:
            text = table(*run(contenders, rows, queries, truth, a.rounds), rows, queries, a.rounds)
        finally:
            for c in contenders:
                c.close()
    print(text)
    if a.write:
        with open(os.path.join(HERE, "RESULTS.md"), "a", encoding="utf-8") as f:
            f.write("\n" + text)


if __name__ == "__main__":
    main()
