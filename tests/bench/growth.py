"""How queries grow: with rows (10^4 to 2·10^6, our graph and the exact scan, at fixed recall)
and with classes (1 to 10,000 over the same rows, all permitted, and a hundredth of the
classes). The exponent b of time = a · size^b is fitted by least squares in logs.
"""
import os

import numpy as np

import data
import measure
import plot
from curve import chosen
from drive import EF, EF_LARGE, Engine, Kind, NotRun, climb, rounds, say
from memory import FLAT

TARGETS = (0.95, 0.99)


def sizes_of(args):
    steps = [10000, 20000, 50000, 100000, 300000, 1000000, 2000000]
    return [n for n in steps if n <= args.n] or [args.n]


def by_rows(args, notes):
    """{contender: {target: [(n, qps)]}}; the stored rows, then grown ones, seeded."""
    out = {}
    for n in sizes_of(args):
        mine = chosen([Kind("graph", "graph", EF if n < 500000 else EF_LARGE), Kind("codes", "exact codes", ("0",)),
                       Engine("engine", ("0.95", "0.99", "exact"))], args.only)
        if not mine:
            break
        s = data.Set(n, args.queries)
        truth = s.truth()
        for c in mine:
            try:
                c.build(s, args.threads)
                turns = climb(c, truth, args.queries, TARGETS, seconds=args.seconds)
                rounds(turns, args.rounds, args.queries)
                curve = [(t.recall, measure.median(t.cpu_qps if args.clock == "cpu" else t.qps)) for t in turns]
                for target in TARGETS:
                    qps = measure.at_recall(curve, target)
                    if qps:
                        out.setdefault(c.name, {}).setdefault(target, []).append((n, qps))
                say("%9d %-12s %s" % (n, c.name, curve))
            except NotRun as e:
                notes.append("%s at %d rows: not run (%s)" % (c.name, n, e))
            finally:
                c.close()
    return out


def by_classes(args, notes):
    """[(classes, share permitted, qps, recall)]"""
    n = min(args.n, 100000)
    s, out = data.Set(n, args.queries), []
    for classes in (1, 10, 100, 1000, 10000):
        if classes > n // 10:
            continue
        base = os.path.join(data.CACHE, "growth-%d-%d" % (n, classes))
        labels = np.random.default_rng(data.SEED + 7).integers(0, classes, n).astype(np.uint32)
        labels[:classes] = np.arange(classes)
        labels.tofile(base + ".u32")
        c = Engine("engine", ("exact",), base + ".u32", index=FLAT)  # no graph: every answer is exact
        try:
            c.build(s, args.threads)
            for share in (1.0, 0.01) if classes >= 100 else (1.0,):
                chosen = np.arange(max(1, int(classes * share)), dtype=np.uint32)
                chosen.tofile(base + ".permit.u32")
                c.permit(base + ".permit.u32")
                truth = s.truth_among(np.isin(labels, chosen), "growth-%d" % classes)
                turns = climb(c, truth, args.queries, TARGETS, seconds=args.seconds)
                rounds(turns, args.rounds, args.queries)
                qps = measure.median(turns[0].cpu_qps if args.clock == "cpu" else turns[0].qps)
                out.append((classes, len(chosen) / classes, qps, turns[0].recall))
                say("%6d classes, %4.0f %% permitted: %.0f" % (classes, 100 * share, qps))
        except NotRun as e:
            notes.append("%d classes: not run (%s)" % (classes, e))
        finally:
            c.close()
    return n, out


def run(args):
    notes, begun = [], measure.load()
    rows = by_rows(args, notes)
    n, classes = by_classes(args, notes) if not args.only or "classes" in args.only else (args.n, [])
    return report(args, rows, n, classes, notes, begun)


def report(args, rows, n, classes, notes, begun):
    table, picture = [], plot.Plot("Growth with rows, dim = 384, k = 10, one thread", "rows", "queries a second",
                                   log_x=True, log_y=True)
    for name, targets in rows.items():
        for target, points in targets.items():
            fit = "%.2f" % measure.exponent([p[0] for p in points], [1 / p[1] for p in points]) if len(points) > 1 else "–"
            table.append([name, "%.2f" % target, "; ".join("%s: %s" % (measure.number(a, 0), measure.number(b, 0))
                                                            for a, b in points), fit])
            picture.line("%s at %.2f" % (name, target), points)
    many = plot.Plot("Growth with classes, %s rows, exact, one thread" % measure.number(n, 0), "classes",
                     "queries a second", log_x=True, log_y=True)
    lines = []
    for label, pick in (("all permitted", lambda s: s == 1.0), ("1 % permitted", lambda s: s < 0.5)):
        points = [(c, q) for c, share, q, _ in classes if pick(share)]
        if points:
            fit = "%.2f" % measure.exponent([p[0] for p in points], [1 / p[1] for p in points]) if len(points) > 1 else "–"
            lines.append([label, "; ".join("%s: %s" % (measure.number(a, 0), measure.number(b, 0)) for a, b in points), fit])
            many.line(label, points)
    text = ("### Growth: dim = 384, k = 10, one thread\n\n%s; %d queries, %d rounds, clock %s, load %.1f to %.1f.\n\n%s\n\n"
            "Classes over %s rows, every answer exact:\n\n%s\n\n%s\n" % (
                measure.machine(), args.queries, args.rounds, args.clock, begun, measure.load(),
                measure.table(["contender", "recall", "rows: QPS", "exponent of time"], table), measure.number(n, 0),
                measure.table(["permitted", "classes: QPS", "exponent of time"], lines),
                "\n".join("- %s" % x for x in notes)))
    return text, {name: p for name, p in (("growth-rows", picture), ("growth-classes", many)) if p.lines}
