"""What a benchmark does with its figures: interpolate a curve, bootstrap a ratio, fit a
growth, write a table, say what machine it ran on. Pure functions but for the last part.
"""
import math
import os
import platform
import random
import statistics


def median(values):
    return statistics.median(values) if values else float("nan")


def at_recall(points, recall):
    """QPS of a curve at a recall: log QPS linear in recall between its neighbours.

    points: [(recall, qps), …] in any order. Of points that another one beats in both only
    the better counts. None where the curve does not reach; a curve that begins above the
    recall gives its fastest point (less effort was not asked of it).
    """
    front = frontier(points)
    if not front or front[-1][0] < recall:
        return None
    if front[0][0] >= recall:
        return front[0][1]
    for (r0, q0), (r1, q1) in zip(front, front[1:]):
        if r0 <= recall <= r1:
            t = (recall - r0) / (r1 - r0)
            return math.exp((1 - t) * math.log(q0) + t * math.log(q1))
    return None


def frontier(points):
    """The points that none beats in recall and QPS at once, by rising recall."""
    out = []
    for r, q in sorted(points, key=lambda p: (-p[0], -p[1])):
        if q > 0 and (not out or q > out[-1][1]):
            out.append((r, q))
    return out[::-1]


def bootstrap(pairs, statistic=None, draws=2000, seed=1, level=0.95):
    """(value, low, high) of a statistic over rounds drawn anew with replacement.

    pairs: one item a round, kept whole, so that what a round's two turns share (the
    machine's mood) cancels. statistic: of a list of them; by default the median of a/b.
    """
    if statistic is None:
        def statistic(chosen):
            return median([a / b for a, b in chosen])
    if not pairs:
        return (float("nan"),) * 3
    rng = random.Random(seed)
    drawn = sorted(statistic([pairs[rng.randrange(len(pairs))] for _ in pairs])
                   for _ in range(draws))
    edge = (1 - level) / 2
    low = drawn[int(edge * (draws - 1))]
    high = drawn[int(math.ceil((1 - edge) * (draws - 1)))]
    return statistic(pairs), low, high


def exponent(sizes, values):
    """b of the least-squares fit values = a · sizes^b."""
    x, y = [math.log(s) for s in sizes], [math.log(v) for v in values]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mx) ** 2 for a in x)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / spread if spread else float("nan")


def percentile(values, share):
    """The value that a share of them does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


# ---- tables ----
def number(v, digits=None):
    if v is None or (isinstance(v, float) and math.isnan(v)):
        return "–"
    if isinstance(v, str):
        return v
    if digits is None:
        digits = 0 if abs(v) >= 100 else 1 if abs(v) >= 10 else 2
    return "%s" % format(v, ",.%df" % digits)


def interval(triple, digits=2):
    return "–" if triple is None else "%s (%s–%s)" % tuple(number(float(v), digits) for v in triple)


def table(head, rows):
    lines = ["| %s |" % " | ".join(head), "|%s|" % "|".join("---" for _ in head)]
    return "\n".join(lines + ["| %s |" % " | ".join(str(c) for c in row) for row in rows])


# ---- the machine ----
def machine():
    """Model, ISA, cores and load: what a figure means nothing without."""
    model, isa = platform.processor() or platform.machine(), ""
    try:
        with open("/proc/cpuinfo") as f:
            fields = dict((k.strip(), v.strip()) for k, v in
                          (line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line))
        model, flags = fields.get("model name", model), fields.get("flags", "").split()
        isa = ", AVX-512" if "avx512f" in flags else ", AVX2" if "avx2" in flags else ""
        isa += "".join(", %s" % name for flag, name in
                       (("avx512_vnni", "VNNI"), ("avx512_bf16", "BF16")) if flag in flags)
    except OSError:
        pass
    return "%s%s, %d cores" % (model, isa, os.cpu_count())


def load():
    try:
        return os.getloadavg()[0]
    except OSError:
        return float("nan")


def memory_of(pid):
    """Bytes that a process holds in memory: {"anonymous", "file"} (smaps_rollup, Pss: a
    page that others map too counts in part)."""
    fields = {}
    with open("/proc/%d/smaps_rollup" % pid) as f:
        for line in f:
            parts = line.split()
            if len(parts) >= 3 and parts[2] == "kB":
                fields[parts[0].rstrip(":")] = int(parts[1]) * 1024
    anonymous = fields.get("Pss_Anon", fields.get("Anonymous", 0))
    return {"anonymous": anonymous, "file": max(0, fields.get("Pss", 0) - anonymous)}


def cpu_of(pid):
    """Seconds of user and system time of a process so far, all threads (10 ms steps)."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
