"""Build time and memory per million rows; text, sparse and hybrid queries; two threads; a
cold start. Memory is what a process holds more after the build than before it (smaps_rollup:
anonymous pages, and pages of files, which the system may take back), beside the f32 size.
The process that drives a contender holds the rows once more, before the build: not counted.
The engine is measured when its load has ended as `bailiwick seal` ends it. "vectors and
index" is its own ledger of rows, scales, codes and graph, without ids, records and the cache
of blocks (256 MiB at most, of any number of rows); a library's index is all that it holds.
"""
import json

import data
import measure
from curve import chosen
from drive import Engine, Kind, NotRun, Peer, rows_of, say

FLAT = 1  # bw_index_choice


def contenders(n):
    ours = [Kind("graph", "bailiwick graph, index alone"), Kind("codes", "bailiwick 4-bit codes, index alone"),
            Engine("bailiwick engine, f32", (), sealed=True),
            Engine("bailiwick engine, f32 on file", (), on_disk=True, sealed=True),
            Engine("bailiwick engine, int8", (), dtype="i8", sealed=True),
            Engine("bailiwick engine, int8, scan", (), dtype="i8", index=FLAT, sealed=True)]
    peers = [Peer("rabitq-8", "rabitqlib SymphonyQG 8-bit"), Peer("rabitq-raw", "rabitqlib SymphonyQG raw"),
             Peer("hnswlib", "hnswlib M 16")]
    rest = [Peer("faiss-hnsw", "faiss HNSW32"), Peer("faiss-hnsw-sq8", "faiss HNSW32,SQ8"), Peer("scann", "scann"),
            Peer("svs", "scalable-vs Vamana f32"), Peer("usearch", "usearch bf16"), Peer("voyager", "voyager"),
            Peer("qdrant-edge", "qdrant-edge m 16")]
    peers += rest if n < 500000 else []
    for p in peers:
        p.kept = None  # built here and now
    return ours + peers


GOALS = {"bailiwick engine, f32 on file": "1.5", "bailiwick engine, int8, scan": "0.4"}


def ledger_of(c):
    """Bytes of an engine's rows and their indexes; None of anything else."""
    if not isinstance(c, Engine):
        return None
    said = c.ask("stats")
    return sum(said[k] for k in ("vector_bytes", "code_bytes", "graph_bytes"))


def measured_build(c, s, threads):
    """{"before", "after"} of memory_of around the build of one contender."""
    if isinstance(c, Peer):
        before = {}
        start = c.start

        def started(*a, **k):
            start(*a, **k)
            c.ask(json.dumps({"do": "ready"}))
            before.update(measure.memory_of(c.process.pid))
        c.start = started
        c.build(s, threads)
        c.start = start
    else:
        before = {}
        ask = c.ask

        def asked(line):
            if line.startswith(("build", "fill")) and not before:
                if isinstance(c, Kind):
                    ask("ready")
                before.update(measure.memory_of(c.process.pid))
            return ask(line)
        c.ask = asked
        c.build(s, threads)
        c.ask = ask
    return before, measure.memory_of(c.process.pid)


def build_table(args, s, notes, versions):
    raw = s.n * s.dim * 4
    rows = []
    for c in chosen(contenders(args.n), args.only):
        try:
            before, after = measured_build(c, s, args.threads)
            grown = {k: max(0, after[k] - before.get(k, 0)) for k in after}
            per, held = 1e6 / s.n, ledger_of(c)
            rows.append([c.name, measure.number(c.build_s * per, 1),
                         measure.number((c.build_cpu or float("nan")) * per, 1),
                         measure.number(grown["anonymous"] * per / 1e6, 0), measure.number(grown["file"] * per / 1e6, 0),
                         "%.2f" % (grown["anonymous"] / raw), "%.2f" % (sum(grown.values()) / raw),
                         "–" if held is None else "%.2f" % (held / raw), GOALS.get(c.name, "–")])
            versions.add(c.version)
            say("%-36s %s" % (c.name, rows[-1][1:]))
        except NotRun as e:
            notes.append("%s: not run (%s)" % (c.name, e))
        finally:
            c.close()
    head = ["contender", "build s per million", "CPU s per million", "anonymous MB per million", "file MB per million",
            "anonymous : raw f32", "all : raw f32", "vectors and index : raw f32", "wanted"]
    return measure.table(head, rows)


def words_table(args, s, notes):
    """Dense, text (BM25), sparse and hybrid queries of one engine, one and two threads."""
    c, rows = Engine("bailiwick engine with words", (), words=True), []
    try:
        c.build(s, args.threads)
        for what in ("dense", "text", "sparse", "hybrid"):
            c.what, speeds = what, []
            if what == "text":  # the first queries make the lists of words (partition/words.c)
                first = c.search(0, 0, args.queries)["seconds"]
                notes.append("the first %d text queries, which make the lists: %.1f s" % (args.queries, first))
            for threads in (1, 2):
                c.ask("threads %d" % threads)
                r = c.search(0, 0, min(10, args.queries))
                n = max(10, min(args.queries, int(10 * 3.0 / max(r["seconds"], 1e-6))))
                turns = [c.search(0, 0, n)["seconds"] for _ in range(max(3, args.rounds))]
                speeds.append(n / measure.median(turns))
            found = sum(x >= 0 for row in rows_of(r, data.K) for x in row) / max(1, len(rows_of(r, data.K)))
            rows.append([what] + [measure.number(v, 1) for v in speeds] + ["%.2f" % (speeds[1] / speeds[0]), "%.1f" % found])
            say("%-10s %s" % (what, rows[-1][1:]))
        c.ask("threads 1")
        cold = c.ask("reopen")
        notes.append("cold start: opened in %.1f ms, first query %.1f ms (its files were in the page cache)"
                     % (1e3 * cold["seconds"], cold["first_ms"]))
    except NotRun as e:
        notes.append("words: not run (%s)" % e)
    finally:
        c.close()
    return measure.table(["query", "QPS, one thread", "QPS, two threads", "two : one", "hits a query"], rows)


def run(args):
    s = data.Set(args.n, args.queries)
    notes, versions, begun = [], set(), measure.load()
    builds = build_table(args, s, notes, versions)
    words = words_table(args, s, notes)
    title = "Build, memory, words: n = %s, dim = %d" % (measure.number(args.n, 0), s.dim)
    return ("### %s\n\n%s; builds with %d threads; load %.1f to %.1f; %s. Text: 40 words a point of 50,000 with Zipf's "
            "frequencies, 3 a query; sparse: 40 and 12 indices of the same.\n\n%s\n\n%s\n\n%s\n" % (
                title, measure.machine(), args.threads, begun, measure.load(),
                ", ".join(sorted(v for v in versions if v)) or "no peer", builds, words,
                "\n".join("- %s" % n for n in notes))), {}
