"""The judged queries of Cranfield through /v1/ingest and /v1/query against the recorded
reference pipeline (retrieval/README.md): nDCG@10 of dense search within 0.002 of 0.3709,
reciprocal rank fusion of dense and BM25 above both.

Every abstract is one document of one chunk; the text given is title, newline, text.
Runs on the release binary when there is one (encoding is what takes the time)."""
import collections
import json
import math
import os
import threading

import pytest

import cell as cells
from cell import Cell

SHARED = os.environ.get("BW_SHARED", os.path.join(cells.SOURCE, "..", "shared"))
CRANFIELD = os.path.join(SHARED, "retrieval", "cranfield")
DEPS = os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick"))
MODEL = os.environ.get("BW_MODEL", os.path.join(DEPS, "model"))
FAST = os.environ.get("BW_FAST_BINARY", os.path.join(cells.SOURCE, "build", "release", "bailiwick"))
DENSE_REFERENCE = 0.3709
pytestmark = pytest.mark.skipif(not os.path.isdir(CRANFIELD), reason="no judged queries at BW_SHARED")


def lines(name):
    with open(os.path.join(CRANFIELD, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def judgements():
    gains = collections.defaultdict(dict)
    with open(os.path.join(CRANFIELD, "qrels.tsv"), encoding="utf-8") as f:
        next(f)
        for line in f:
            query, document, gain = line.split()
            gains[query][document] = int(gain)
    return gains


def ndcg(gains, found, k=10):
    def dcg(values):
        return sum(v / math.log2(i + 2) for i, v in enumerate(values[:k]))
    return dcg([gains.get(d, 0) for d in found]) / dcg(sorted(gains.values(), reverse=True))


def in_parallel(jobs, work, threads=4):
    """work(job) for all jobs; the first failure is raised again."""
    jobs, failures = list(reversed(jobs)), []

    def run():
        while jobs and not failures:
            try:
                work(jobs.pop())
            except IndexError:
                return
            except BaseException as e:
                failures.append(e)
    ts = [threading.Thread(target=run) for _ in range(threads)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    if failures:
        raise failures[0]


@pytest.fixture(scope="module")
def cell():
    saved = cells.BINARY
    if os.path.exists(FAST):
        cells.BINARY = FAST
    try:
        with Cell(dev=True, model=MODEL) as c:
            yield c
    finally:
        cells.BINARY = saved


def test_cranfield(cell):
    corpus, queries, gains = lines("corpus.jsonl"), lines("queries.jsonl"), judgements()
    assert len(corpus) == 1400 and len(queries) == 150
    chunks = collections.Counter()

    def put(d):
        r = cell.post("/v1/ingest", {"collection": "cranfield", "source": d["_id"], "create": True,
                                     "text": d["title"] + "\n" + d["text"],
                                     "chunk": {"target": 16384, "max": 32768}}, timeout=120)
        assert r.status == 200, r
        chunks[r.json()["chunks"]] += 1

    put(corpus[0])
    in_parallel(corpus[1:], put)
    assert set(chunks) <= {0, 1}, chunks  # one abstract has no text at all
    mean = {}
    for mode in ("dense", "bm25", "hybrid"):
        found = {}

        def ask(q):
            r = cell.post("/v1/query", {"collection": "cranfield", "query": q["text"], "mode": mode, "limit": 10},
                          timeout=120)
            assert r.status == 200, r
            found[q["_id"]] = [h["source"] for h in r.json()["hits"]]

        in_parallel(queries, ask)
        mean[mode] = sum(ndcg(gains[q], found[q]) for q in gains) / len(gains)
    print("nDCG@10", {m: round(v, 4) for m, v in mean.items()})
    assert abs(mean["dense"] - DENSE_REFERENCE) <= 0.002, mean
    assert mean["hybrid"] > mean["dense"] and mean["hybrid"] > mean["bm25"], mean
    r = cell.cli("eval", "--queries", os.path.join(CRANFIELD, "queries.jsonl"), "--qrels",
                 os.path.join(CRANFIELD, "qrels.tsv"), "--collection", "cranfield", "--json", "--url", cell.url)
    assert r.returncode == 0, r
    said = json.loads(r.stdout)
    print({k: v["nDCG"] for part in ("modes", "differences") for k, v in said[part].items()})
    assert said["queries"] == len(gains)
    assert all(abs(said["modes"][m]["nDCG"][0] - mean[m]) < 1e-5 for m in mean), (said, mean)
    assert said["differences"]["hybrid - dense"]["nDCG"][1] > 0, said  # the lower 95 % bound of the paired difference
