"""A part of the rows is permitted: ours by its partitions, peers by their own filters.

200 classes with sizes falling as 1/rank, drawn at random or cut along topics; about 1, 10
and 50 % of the rows permitted, k = 10, one thread. Each contender takes the least effort of
its ladder with a recall of 0.99 (a peer that does not get there shows its best, and does not
count as best peer). "One index a class" is what a user can build without a filter; it is in
the table and counted apart. The cost of the cached permitted set comes from bw_decide_bench.
"""
import json
import os
import subprocess

import numpy as np

import data
import measure
import plot
from curve import chosen
from drive import BUILD, Engine, NotRun, Peer, Turn, rounds, rows_of, say

SHARES = (0.01, 0.10, 0.50)
GOALS = {0.01: 5.0, 0.10: 5.0, 0.50: 1.5}
RECALL = 0.99
LADDER = (32, 64, 128, 256, 512)
PER_CLASS = "faiss, one index a class"
SLOW = "hnswlib + callback"


def contenders(labels):
    env = {"BW_BENCH_LABELS": labels + ".npy"}
    classes = labels + ".u32"
    return [Engine("bailiwick engine", ("0.99", "0.995", "exact"), classes),
            Peer("faiss-flat", "faiss flat + bitmap", ("0",)),
            Peer("faiss-hnsw", "faiss HNSW32 + bitmap", (16,) + LADDER),
            Peer("qdrant-edge", "qdrant-edge match any", (16,) + LADDER, env),
            Peer("hnswlib", SLOW, LADDER),
            Peer("faiss-classes", PER_CLASS, (16,) + LADDER)]


def reach(c, truth, nq, seconds, budget_s=20.0):
    """The first effort of the ladder with the recall, or the best; a slow one is judged by
    fewer queries."""
    best, n = None, min(nq, 50)
    for effort in c.ladder:
        r = c.search(effort, 0, n)
        per = r["seconds"] / n
        more = min(nq, max(n, int(budget_s / max(per, 1e-7))))
        if more > n:
            r = c.search(effort, 0, more)
        turn = Turn(c, effort)
        turn.recall = data.recall(rows_of(r, data.K), truth[:more])
        turn.count = max(5, min(nq, int(seconds / max(per, 1e-7))))
        if best is None or turn.recall > best.recall:
            best = turn
        if turn.recall >= RECALL:
            return turn
    return best


def permit(c, labels, classes, folder):
    if isinstance(c, Engine):
        path = os.path.join(folder, "permit.u32")
        np.array(classes, dtype=np.uint32).tofile(path)
        c.permit(path)
    else:
        c.permit(labels + ".npy", classes)


def labels_of(s, how):
    """Path without ending of the classes: .npy for peers, .u32 for ours."""
    base = os.path.join(data.CACHE, "classes-%d-%s" % (s.n, how))
    made, path = data.kept("classes-%d-%s" % (s.n, how), lambda: data.classes_at_random(s.n)
                           if how == "random" else data.classes_by_topic(s.rows))
    np.asarray(made, dtype=np.uint32).tofile(base + ".u32")
    return np.asarray(made), path[:-len(".npy")]


def run(args):
    s = data.Set(args.n, args.queries)
    lines, rows, bars = [], [], {}
    notes, versions, begun = [], set(), measure.load()
    for how in ("random", "topic"):
        labels, base = labels_of(s, how)
        ready = []
        for c in chosen(contenders(base), args.only):
            try:
                c.build(s, args.threads)
                say("%-32s built in %.1f s (%s)" % (c.name, c.build_s, how))
                ready.append(c)
                versions.add(c.version)
            except NotRun as e:
                notes.append("%s: not run (%s)" % (c.name, e))
                c.close()
        try:
            for share in SHARES:
                turns = share_run(args, s, ready, labels, base, share, notes)
                rows += share_rows(args, how, share, labels, turns)
                for t in turns:
                    bars.setdefault((t.contender.name, how), []).append((100 * share, qps(args, t)))
        finally:
            for c in ready:
                c.close()
    title = "A part permitted: n = %s, %d classes of sizes 1/rank, k = 10, one thread" % (
        measure.number(args.n, 0), data.CLASSES)
    lines = ["### %s" % title, "",
             "%s; %d queries; builds with %d threads; %d rounds, clock %s, load %.1f to %.1f; %s." % (
                 measure.machine(), args.queries, args.threads, args.rounds, args.clock, begun, measure.load(),
                 ", ".join(sorted(v for v in versions if v)) or "no peer"), "",
             measure.table(["classes", "permitted", "contender", "effort", "recall@10", "QPS",
                            "ours : this one (95 % interval)", "wanted"], rows), ""]
    lines += ["- %s" % n for n in sorted(set(notes))]
    lines += ["- the cached permitted set of 300 classes: %s" % permitted_set_cost()]
    picture = plot.Plot(title, "rows permitted, %", "queries a second at recall 0.99", log_x=True, log_y=True)
    for (name, how), points in bars.items():
        picture.line("%s, %s" % (name.replace("bailiwick ", "ours: "), how), points)
    return "\n".join(lines) + "\n", {"filter-%d" % args.n: picture}


def qps(args, t):
    return measure.median(t.cpu_qps if args.clock == "cpu" and t.cpu_qps else t.qps)


def share_run(args, s, ready, labels, base, share, notes):
    classes = data.permit_of(labels, share)
    allowed = np.isin(labels, classes)
    truth = s.truth_among(allowed, os.path.basename(base))
    turns = []
    for c in ready:
        try:
            permit(c, base, classes, args_folder(args))
            turn = reach(c, truth, args.queries, args.seconds)
            turns.append(turn)
            say("%4.0f %% %-32s %s → %.4f" % (100 * share, c.name, turn.effort, turn.recall))
        except NotRun as e:
            notes.append("%s at %g %%: not run (%s)" % (c.name, 100 * share, e))
    rounds(turns, args.rounds, args.queries)
    return turns


def args_folder(args):
    os.makedirs(args.out, exist_ok=True)
    return args.out


def share_rows(args, how, share, labels, turns):
    ours = [t for t in turns if t.contender.name.startswith("bailiwick") and t.recall >= RECALL]
    ours = max(ours, key=lambda t: qps(args, t)) if ours else None
    peers = [t for t in turns if not t.contender.name.startswith("bailiwick")]
    filtered = [t for t in peers if t.contender.name != PER_CLASS and t.recall >= RECALL]
    best = max(filtered, key=lambda t: qps(args, t)) if filtered else None
    classes = data.permit_of(labels, share)
    part = "%.1f %% (%d classes)" % (100 * float(np.isin(labels, classes).mean()), len(classes))
    out = []
    for t in sorted(turns, key=lambda t: -qps(args, t)):
        times = "–"
        if ours and t is not ours:
            a, b = (x.cpu_qps if args.clock == "cpu" and x.cpu_qps else x.qps for x in (ours, t))
            times = measure.interval(measure.bootstrap(list(zip(a, b))))
        goal = "%.1f" % GOALS[share] if t is best else "–"
        out.append([how, part, t.contender.name, t.effort, "%.4f" % t.recall, measure.number(qps(args, t), 0),
                    times, goal])
    return out


def permitted_set_cost():
    tool = os.path.join(BUILD, "tests", "bw_decide_bench")
    packs = os.path.join(data.SOURCE, "policies", "packs")
    if not os.path.exists(tool):
        return "not run (bw_decide_bench is not built)"
    out = subprocess.run([tool, packs, "300", "0", "eu-baseline", "/dev/null"], capture_output=True, text=True)
    for line in out.stdout.splitlines():
        row = json.loads(line)
        if row.get("what") == "set, kept":
            return "%.2f µs of CPU (at most 0.3 is wanted)" % (row["ns"] / 1000)
    return "not run (bw_decide_bench failed)"
