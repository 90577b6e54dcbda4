"""What a scan reads and how fast: the f32 scan against a plain read of the same memory
(kern_bench), the exact scan over 4-bit codes against it (scan_bench, k = 10, 100, 1,000), and
beside faiss's flat index at the stored 20,000 rows; then whether flat and codes find the same
on 10,000 queries and on data made to be hard (duplicates, clusters, zero vectors, huge norms).
"""
import json
import os
import subprocess

import numpy as np

import data
import measure
from drive import BUILD, Kind, NotRun, Peer, Process, rows_of, say

KS = (10, 100, 1000)


def tool(name, *arguments):
    """The lines of JSON of one of our programs, or none with a note."""
    path = os.path.join(BUILD, "tests", name)
    if not os.path.exists(path):
        return [], "%s: not run (not built)" % name
    out = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True)
    if out.returncode:
        return [], "%s: not run (%s)" % (name, out.stderr.strip()[-200:])
    return [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")], None


def bandwidth(args, notes):
    n = min(args.n, 500000)
    got, note = tool("kern_bench", n, 384, args.rounds)
    if note:
        notes.append(note)
    rows = []
    for g in got:
        for t in ("f32", "f16", "bf16", "i8"):
            if t in g:
                block = g[t].get("block_ms", {})
                rows.append([g["isa"], measure.number(g["rows"], 0), t, "%.2f" % g["read_gbs"], "%.2f" % g[t]["gbs"],
                             "%.3f" % g[t]["share"], " / ".join("%.2f" % block[k] for k in ("1", "4", "16") if k in block)])
    head = ["ISA", "rows", "type", "plain read, GB/s", "scan, GB/s", "scan : read (f32: >= 0.90 is wanted)",
            "ms a query, 1 / 4 / 16 queries in a pass"]
    return measure.table(head, rows)


def codes_against_f32(args, notes):
    rows = []
    for n in (20000, args.n) if args.n > 20000 else (args.n,):
        count = args.queries if n <= 20000 else max(10, args.queries // 10)
        got, note = tool("scan_bench", os.path.join(data.SHARED, "bench", "minilm-20k.f16.npy"),
                         os.path.join(data.SHARED, "bench", "minilm-queries-500.f16.npy"), n, count, args.rounds)
        if note:
            notes.append(note)
        for g in got:
            if "k" in g:
                rows.append([g["isa"], measure.number(g["n"], 0), g["k"], measure.number(g["f32_us"], 0),
                             measure.number(g["codes_us"], 0), "%.2f" % g["ratio"], "4" if g["n"] >= 1000000 else "–",
                             measure.number(g["codes8_us"], 0), measure.number(g["rescored"], 0), g["differ"]])
    head = ["ISA", "rows", "k", "f32 scan, µs", "codes, µs", "f32 : codes", "wanted", "codes, 8 queries a pass, µs each",
            "rows rescored", "answers that differ"]
    return measure.table(head, rows)


def beside_faiss(args, notes):
    """20,000 rows, single queries: ours exact, faiss flat, in turns."""
    s = data.Set(20000, args.queries)
    pair, rows = [Kind("codes", "bailiwick exact codes"), Kind("flat", "bailiwick flat f32"),
                  Peer("faiss-flat", "faiss flat")], []
    try:
        for c in pair:
            c.build(s, args.threads)
        for k in KS:
            times = {c.name: [] for c in pair}
            for i in range(args.rounds):
                for c in pair[i % 3:] + pair[:i % 3]:
                    r = c.search(0, 0, min(args.queries, 200), k)
                    seconds = r["cpu"] if args.clock == "cpu" else r["seconds"]
                    times[c.name].append(1e6 * seconds / min(args.queries, 200))
            ours, faiss = times["bailiwick exact codes"], times["faiss flat"]
            rows.append([k] + [measure.number(measure.median(times[c.name]), 0) for c in pair] +
                        [measure.interval(measure.bootstrap(list(zip(faiss, ours)))), "9"])
        notes.append(pair[2].version)
    except NotRun as e:
        notes.append("beside faiss: not run (%s)" % e)
    finally:
        for c in pair:
            c.close()
    head = ["k", "codes, µs", "f32 scan, µs", "faiss flat, µs", "faiss : codes (95 % interval)", "wanted"]
    return measure.table(head, rows)


def hard_sets(dim=96, n=8000, nq=500):
    rng = np.random.default_rng(data.SEED + 6)
    plain = rng.standard_normal((n, dim), dtype=np.float32)
    queries = rng.standard_normal((nq, dim), dtype=np.float32)
    centres = 10 * rng.standard_normal((20, dim), dtype=np.float32)
    clusters = centres[rng.integers(0, 20, n)] + 1e-4 * plain
    zeros = plain.copy()
    zeros[rng.integers(0, n, n // 2)] = 0
    huge = plain * (10.0 ** rng.uniform(-18, 15, (n, 1))).astype(np.float32)
    queries[:50] = clusters[:50]
    queries[50] = 0
    return {"random": (plain, queries), "duplicates": (plain[rng.integers(0, 50, n)], queries),
            "clusters": (clusters, queries), "zero vectors": (zeros, queries), "huge norms": (huge, queries)}


class Pair(Process):
    """bw_bench over two files, any metric."""

    def __init__(self, rows, queries, metric):
        super().__init__("pair")
        self.start([os.path.join(BUILD, "tests", "bw_bench"), rows, queries, metric])
        for kind in ("flat", "codes"):
            self.ask("build %s" % kind)

    def differ(self, k, nq):
        a, b = (rows_of(self.ask("search %s 0 0 %d %d" % (kind, nq, k)), k) for kind in ("flat", "codes"))
        return sum(x != y for x, y in zip(a, b))


def same_answers(args, notes):
    rows = []
    sets = {"real and grown": (None, None)}
    sets.update(hard_sets())
    folder = os.path.join(data.CACHE, "hard")
    os.makedirs(folder, exist_ok=True)
    for name, (x, q) in sets.items():
        paths = [os.path.join(folder, "%s-%s.npy" % (name.replace(" ", "-"), part)) for part in ("rows", "queries")]
        if x is None:
            s = data.Set(20000, 200 if args.quick else 10000)
            paths, nq = [s.rows_path, s.queries_path], s.nq
        else:
            np.save(paths[0], x)
            np.save(paths[1], q)
            nq = len(q)
        for metric in ("cosine", "dot", "euclid"):
            pair = None
            try:
                pair = Pair(*paths, metric)
                rows.append([name, metric, measure.number(nq, 0)] + [pair.differ(k, nq) for k in (10, 100)])
            except NotRun as e:
                notes.append("%s, %s: not run (%s)" % (name, metric, e))
            finally:
                if pair:
                    pair.close()
            say("same answers: %s %s %s" % (name, metric, rows[-1][3:] if rows else ""))
    return measure.table(["data", "metric", "queries", "answers that differ, k = 10", "k = 100"], rows)


def run(args):
    notes, begun = [], measure.load()
    names = [s for s in (args.only or "").split(",") if s]
    parts = [part(args, notes) for part in (bandwidth, codes_against_f32, beside_faiss, same_answers)
             if not names or any(s in part.__name__ for s in names)]
    return ("### Scans: dim = 384, one thread, single queries\n\n%s; %d rounds, load %.1f to %.1f; CPU time of the "
            "thread but where faiss is beside (%s).\n\n%s\n%s\n" % (
                measure.machine(), args.rounds, begun, measure.load(), args.clock, "\n\n".join(parts),
                "\n" + "\n".join("- %s" % n for n in notes) if notes else "")), {}
