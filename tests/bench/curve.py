"""Recall against queries a second: every contender up its ladder of efforts, in rounds.

One thread, one query after the other, k = 10. Ours and the record holder (rabitqlib's
SymphonyQG, raw and 8-bit) are compared round by round at 0.95 and 0.99: each round gives
each a curve, read off at the recall (log QPS linear between neighbouring efforts), and the
ratio's confidence interval comes from drawing rounds anew. Ours also runs twice in each
round: what that ratio differs from 1 is the method's own noise.
"""
import json
import os

import data
import measure
import plot
from drive import EF, EF_LARGE, Engine, Kind, NotRun, Peer, Turn, build_all, climb, rounds, say

TARGETS = (0.95, 0.99)
CONTROL = "bailiwick graph, again"
RECALLS = ("0.90", "0.95", "0.97", "0.99", "0.995")
PROBES = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
LEAVES = [(leaves, reorder) for leaves, reorder in
          ((5, 60), (10, 80), (20, 100), (30, 150), (40, 200), (60, 300), (100, 400), (150, 600), (250, 1000))]
SCANN_20K = [(3, 60), (4, 80), (6, 100), (8, 150), (12, 200), (20, 300), (40, 400), (80, 600)]


def contenders(n):
    ef = EF if n < 500000 else EF_LARGE
    graph = Kind("graph", "bailiwick graph", ef)
    ours = [graph, Kind("codes", "bailiwick exact codes", ("0",)),
            Engine("bailiwick engine", RECALLS, sealed=True)]
    record = [Peer("rabitq-8", "rabitqlib SymphonyQG 8-bit", ef), Peer("rabitq-raw", "rabitqlib SymphonyQG raw", ef)]
    # qdrant-edge stores payloads too; scann's efforts are (leaves, rows reordered).
    rest = [Peer("hnswlib", "hnswlib M 16", ef), Peer("faiss-hnsw", "faiss HNSW32"),
            Peer("faiss-hnsw-sq8", "faiss HNSW32,SQ8"), Peer("faiss-ivfpq", "faiss IVF,PQ96x4fs,RFlat", PROBES),
            Peer("scann", "scann", LEAVES if n > 50000 else SCANN_20K), Peer("svs", "scalable-vs Vamana f32"),
            Peer("usearch", "usearch bf16"), Peer("voyager", "voyager"), Peer("qdrant-edge", "qdrant-edge m 16"),
            Peer("faiss-flat", "faiss flat", ("0",)), Kind("faiss-hnsw", "bailiwick index faiss-hnsw"),
            Kind("flat", "bailiwick flat f32", ("0",))]
    return ours + record + (rest if n < 500000 else rest[:1])


def chosen(all_of_them, only):
    names = [s for s in (only or "").split(",") if s]
    return [c for c in all_of_them if not names or any(s in c.name for s in names)]


class Result:
    def __init__(self, name, turns, clock):
        self.name, self.turns, self.clock = name, turns, clock
        self.contender = turns[0].contender

    def qps_of(self, turn, i):
        return (turn.cpu_qps if self.clock == "cpu" and turn.cpu_qps else turn.qps)[i]

    def curve(self, clock=None):
        return [(t.recall, measure.median(t.cpu_qps if (clock or self.clock) == "cpu" and t.cpu_qps else t.qps))
                for t in self.turns]

    def round_at(self, i, recall):
        return measure.at_recall([(t.recall, self.qps_of(t, i)) for t in self.turns], recall)


def ratio(a, b, recall, n):
    """(median over rounds of a : b at a recall, its 95 % interval), or None."""
    pairs = [(a.round_at(i, recall), b.round_at(i, recall)) for i in range(n)]
    if not pairs or any(x is None or y is None for x, y in pairs):
        return None
    return measure.bootstrap(pairs)


def best(results, recall):
    """Of some results the fastest at a recall."""
    at = [(measure.at_recall(r.curve(), recall), r) for r in results]
    at = [(q, r) for q, r in at if q]
    return max(at, key=lambda p: p[0])[1] if at else None


def efforts_at(result, recall):
    """The effort that first reaches a recall, and the stored queries' own recall there."""
    for t in sorted(result.turns, key=lambda t: t.recall):
        if t.recall >= recall:
            return "%s → %.4f, real %.3f" % (t.effort, t.recall, t.real)
    return "–"


def run(args, extra=()):
    s = data.Set(args.n, args.queries)
    say("true answers of %d queries over %d rows" % (args.queries, args.n))
    truth = s.truth()
    ready, notes = build_all(chosen(contenders(args.n) + list(extra), args.only), s, args.threads)
    groups = []
    for c in ready:
        try:
            turns = climb(c, truth, args.queries, TARGETS, seconds=args.seconds, least=0.85)
            groups.append((c.name, turns))
            if c.name == "bailiwick graph":
                again = [Turn(c, t.effort) for t in turns]
                for a, t in zip(again, turns):
                    a.recall, a.real, a.count = t.recall, t.real, t.count
                groups.append((CONTROL, again))
            say("%-28s %s" % (c.name, ["%s %.4f" % (t.effort, t.recall) for t in turns]))
        except NotRun as e:
            notes.append("%s: stopped (%s)" % (c.name, e))
    begun = measure.load()
    try:
        rounds([t for _, turns in groups for t in turns], args.rounds, args.queries)
    finally:
        for c in ready:
            c.close()
    results = [Result(name, turns, args.clock) for name, turns in groups if turns]
    keep(args, results)
    return report(args, s, results, notes, begun)


def name_of(args):
    """Of the files of a run: its rows and how many queries, since these make another curve."""
    return "curve-%d-%dq" % (args.n, args.queries)


def keep(args, results):
    """Every round's figures as JSON beside the drawings."""
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, name_of(args) + ".json"), "w") as f:
        json.dump([{"name": r.name, "version": r.contender.version, "build_s": r.contender.build_s,
                    "turns": [{"effort": t.effort, "recall": t.recall, "recall_real": t.real, "queries": t.count,
                               "qps": t.qps, "cpu_qps": t.cpu_qps} for t in r.turns]} for r in results], f, indent=1)


def report(args, s, results, notes, begun):
    title = "Recall and QPS: n = %s, dim = %d, k = 10, one thread" % (measure.number(args.n, 0), s.dim)
    rows = []
    for r in sorted(results, key=lambda r: -(measure.at_recall(r.curve(), 0.99) or 0)):
        c = r.contender
        row = [r.name, measure.number(c.build_s, 1)]
        for target in TARGETS:
            row += [efforts_at(r, target), measure.number(measure.at_recall(r.curve("wall"), target), 0),
                    measure.number(measure.at_recall(r.curve("cpu"), target), 0)]
        rows.append(row)
    head = ["contender", "build s"] + [h for t in TARGETS
                                       for h in ("effort → recall at %.2f" % t, "QPS, wall", "QPS, CPU")]
    lines = ["### %s" % title, "", measured(args, results, begun), "", measure.table(head, rows), ""]
    lines += ratios(args, results)
    lines += ["- %s" % n for n in notes]
    picture = plot.Plot("%s, %s queries" % (title, measure.number(args.queries, 0)), "recall@10", "queries a second", log_y=True)
    for r in results:
        if r.name != CONTROL:
            picture.line(r.name, sorted(r.curve()))
    return "\n".join(lines) + "\n", {name_of(args): picture}


def measured(args, results, begun):
    versions = sorted({r.contender.version for r in results if r.contender.version})
    isa = sorted({r.contender.isa for r in results if r.contender.isa})
    return ("%s; ours on %s; %d queries (the first 500 real); builds with %d threads; %d rounds, load %.1f to %.1f; %s. "
            "QPS are read off the curve at the recall." % (measure.machine(), "/".join(isa) or "–", args.queries,
                                                           args.threads, args.rounds, begun, measure.load(),
                                                           ", ".join(versions) or "no peer"))


def ratios(args, results):
    by_name = {r.name: r for r in results}
    ours, again = by_name.get("bailiwick graph"), by_name.get(CONTROL)
    if not ours:
        return []
    rows = []
    for target in TARGETS:
        want = 1.05 if target == 0.95 and args.n <= 20000 else 1.15
        record = best([r for r in results if r.name.startswith("rabitqlib")], target)
        other = best([r for r in results if not r.name.startswith(("rabitqlib", "bailiwick"))], target)
        for peer, label in ((record, "the better rabitqlib"), (other, "the best other"), (again, "A/A control")):
            if peer:
                goal = "%.2f" % want if peer is record else "–" if peer is other else "1.00"
                rows.append(["%.2f" % target, "%s: %s" % (label, peer.name),
                             measure.interval(ratio(ours, peer, target, args.rounds)), goal])
    return [measure.table(["recall", "ours (graph) against", "ratio (95 %% interval), %s" % args.clock, "wanted"], rows),
            ""] if rows else []
