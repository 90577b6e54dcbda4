"""bailiwick eval: figures of judged queries, and what is wrong with the two files."""
import json
import math
import os
import subprocess

import pytest

import cell as cells
from cell import Cell

DEPS = os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick"))
MODEL = os.environ.get("BW_MODEL", os.path.join(DEPS, "model"))
TEXTS = {"cats": "Cats sleep most of the day and hunt at dusk.", "dogs": "Dogs bark at strangers and guard the house.",
         "rockets": "Rockets burn fuel and oxidiser to leave the ground.", "bread": "Bread rises because yeast makes gas."}
QUERIES = {"q1": "when do cats hunt", "q2": "what do rockets burn", "q3": "why does bread rise", "q4": "nobody judged this"}
QRELS = {"q1": {"cats": 2, "dogs": 1}, "q2": {"rockets": 1}, "q3": {"cats": 1}, "q9": {"dogs": 1}}


@pytest.fixture(scope="module")
def dev():
    with Cell(dev=True, model=MODEL) as c:
        for name, text in TEXTS.items():
            r = c.post("/v1/ingest", {"collection": "judged", "source": "set/" + name, "text": text, "create": True})
            assert r.status == 200, r
        yield c


@pytest.fixture
def files(tmp_path):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in QUERIES.items()))
    (tmp_path / "r.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(
        "%s\t%s\t%d\r\n" % (q, d, g) for q, of in QRELS.items() for d, g in of.items()) + "q2\tdogs\t0\n")
    return tmp_path


def run(c, folder, *more, queries="q.jsonl", qrels="r.tsv"):
    return subprocess.run([cells.BINARY, "eval", "--queries", str(folder / queries), "--qrels", str(folder / qrels),
                           "--collection", "judged", "--url", c.url, *more], capture_output=True, text=True, timeout=120)


def expected(c, mode, k):
    dcg = lambda gains: sum(g / math.log2(i + 2) for i, g in enumerate(gains[:k]))
    ndcg, recall, rr = [], [], []
    for q in ("q1", "q2", "q3"):
        hits = c.post("/v1/query", {"collection": "judged", "query": QUERIES[q], "mode": mode, "limit": 100}).json()["hits"]
        gains = [QRELS[q].get(h["source"][4:], 0) for h in hits][:k]
        ndcg.append(dcg(gains) / dcg(sorted(QRELS[q].values(), reverse=True)))
        recall.append(sum(g > 0 for g in gains) / len(QRELS[q]))
        rr.append(next((1 / (i + 1) for i, g in enumerate(gains) if g), 0))
    return {"nDCG": sum(ndcg) / 3, "recall": sum(recall) / 3, "MRR": sum(rr) / 3}


@pytest.mark.parametrize("k", [1, 2, 10])
def test_figures_are_those_of_the_answers(dev, files, k):
    r = run(dev, files, "--prefix", "set", "--k", str(k), "--json")
    assert r.returncode == 0 and "1 judgements of queries that are not asked" in r.stderr, r
    got = json.loads(r.stdout)
    assert (got["queries"], got["left_out"], got["k"]) == (3, 1, k) and list(got["modes"]) == ["hybrid", "dense", "bm25"]
    for mode, figures in got["modes"].items():
        for name, want in expected(dev, mode, k).items():
            mean, lo, hi = figures[name]
            assert abs(mean - want) < 1e-5 and lo <= mean <= hi, (mode, name, figures, want)
    for mode in ("dense", "bm25"):
        for name, (mean, lo, hi) in got["differences"]["hybrid - " + mode].items():
            assert abs(mean - got["modes"]["hybrid"][name][0] + got["modes"][mode][name][0]) < 1e-5 and lo <= mean <= hi


def test_without_its_prefix_nothing_is_found(dev, files):
    got = json.loads(run(dev, files, "--mode", "bm25", "--json").stdout)
    assert got["modes"]["bm25"]["nDCG"] == [0, 0, 0] and got["differences"] == {}


def test_lines_for_a_person(dev, files):
    r = run(dev, files, "--prefix", "set", "--mode", "dense,bm25")
    lines = r.stdout.splitlines()
    assert r.returncode == 0 and lines[0] == "3 queries, 1 without judgements left out", r
    assert lines[1].startswith("dense ") and "nDCG@10 0." in lines[1] and lines[3].startswith("dense - bm25")


@pytest.mark.parametrize("name,text,said", [
    ("q.jsonl", "[1]\n", "line 1: wants the strings _id and text"),
    ("q.jsonl", '{"_id":"q1","text":"a"}\n\n{"_id":"q1","text":"b"}\n', "line 3: this _id was there before"),
    ("q.jsonl", '{"_id":"q1"', "line 1: wants a JSON object"),
    ("r.tsv", "h\nq1 cats 1\n", "line 2: wants query, tab, document, tab, gain"),
    ("r.tsv", "h\nq1\tcats\t-1\n", "line 2: a gain is a number"),
    ("r.tsv", "h\nq1\tcats\tnan\n", "line 2: a gain is a number"),
    ("r.tsv", "h\nq1\tcats\t1\nq1\tcats\t2\n", "line 3: this document was judged before"),
    ("r.tsv", "h\nq1\tcats\t0\n", "judges no query"),
])
def test_wrong_files_are_named_by_line(dev, files, name, text, said):
    (files / name).write_text(text)
    r = run(dev, files)
    assert r.returncode == 1 and said in r.stderr and r.stdout == "", r


def test_wrong_use(dev, files):
    assert run(dev, files, "--mode", "dense,dense").returncode == 2
    assert run(dev, files, "--k", "0").returncode == 2
    assert run(dev, files, "--k", "101").returncode == 2
    r = subprocess.run([cells.BINARY, "eval", "--queries", "x"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and "--qrels is" in r.stderr
