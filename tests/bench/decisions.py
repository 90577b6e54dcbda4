"""What decisions cost, beside the reference engine (cedarpy) in the same run: single ones,
kept and made anew, over 10 policies, 100, the default set and all packs, and the permitted set of a
collection, kept and made anew.

    python tests/bench/decisions.py [--classes 300] [--rounds 3] [--build DIR] [--write]

Ours come from `bw_decide_bench` ("authorization alone" is Cedar's part of a cold decision;
the rest is the question's entities, its key, the answer's names and keeping it): CPU time of its one thread, medians. The reference's are
its own clock for authorization alone (of the wall, in whole microseconds, everything
parsed before) and, beside it, the CPU time of the whole call through the Python binding:
the median of 301 calls, and for a set the least of three calls for each class, added up,
so that other work on the machine counts little. Both engines get the same policies, schema, entities and
requests, and must answer alike: an answer that differs ends the run.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BW_BUILD", os.path.join(SOURCE, "build", "release"))
SIZES = ((10, "eu-baseline", "10 policies"), (100, "eu-baseline", "100 policies"),
         (0, "eu-baseline", "eu-baseline"), (0, "all", "all packs"))


def ours(build, classes, policies, packs, world):
    tool = os.path.join(build, "tests", "bw_decide_bench")
    out = subprocess.run([tool, os.path.join(SOURCE, "policies", "packs"), str(classes), str(policies),
                          packs, world],
                         check=True, capture_output=True, text=True).stdout
    return {row["what"]: row["ns"] for row in map(json.loads, out.splitlines())}


class Reference:
    """One world parsed once."""

    def __init__(self, world):
        import cedarpy
        self.cedarpy, self.requests = cedarpy, world["requests"]
        self.schema = cedarpy.Schema.from_str(world["schema"])
        self.policies = cedarpy.PolicySet.from_str(world["policies"])
        self.entities = cedarpy.Entities.from_json_str(json.dumps(world["entities"]), self.schema)

    def ask(self, r):
        """(microseconds of authorization, CPU nanoseconds of the call)"""
        q = {"principal": 'Bw::Identity::"%s"' % r["principal"], "action": 'Bw::Action::"Query"',
             "resource": 'Bw::DataClass::"%s"' % r["class"],
             "context": {"at": {"__entity": {"type": "Bw::Node", "id": "par1"}}, "purpose": "support",
                         "safeguards": []}}
        begin = time.process_time_ns()
        a = self.cedarpy.is_authorized(q, self.policies, self.entities, self.schema)
        spent = time.process_time_ns() - begin
        if a.allowed != r["allow"] or a.diagnostics.errors:
            sys.exit("the engines differ on %s: %s %s" % (r["class"], a.decision, a.diagnostics.errors))
        return a.metrics["authz_duration_micros"], spent

    def least(self, r, calls=3):
        rows = [self.ask(r) for _ in range(calls)]
        return min(m for m, _ in rows) * 1000, min(s for _, s in rows)

    def all(self):
        rows = [self.least(r) for r in self.requests]
        return sum(m for m, _ in rows), sum(s for _, s in rows)

    def one(self, calls=301):
        r = next(r for r in self.requests if r["allow"])
        rows = [self.ask(r) for _ in range(calls)]
        return statistics.median(m for m, _ in rows) * 1000, statistics.median(s for _, s in rows)


def measure(args):
    table = []
    for policies, packs, name in SIZES:
        mine, theirs = [], []
        for _ in range(args.rounds):
            with tempfile.NamedTemporaryFile(suffix=".json") as f:
                mine.append(ours(args.build, args.classes, policies, packs, f.name))
                with open(f.name) as g:
                    reference = Reference(json.load(g))
            one = reference.one()
            theirs.append({"authorization alone": one, "decision, cold": one, "set, cold": reference.all()})
        for what in ("authorization alone", "decision, cold", "decision, kept", "set, cold", "set, kept"):
            ns = statistics.median(m[what] for m in mine)
            clock, call = (statistics.median(t[what][i] for t in theirs) for i in (0, 1)) \
                if what in theirs[0] else (None, None)
            table.append((name, what, ns, clock, call))
    return table


def show(ns):
    return "–" if ns is None else "%.2f" % (ns / 1000)


def text(args, table):
    load = ", load %.0f" % os.getloadavg()[0]
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), platform.machine())
    import importlib.metadata
    lines = ["### Decisions: %d classes, microseconds" % args.classes, "",
             "%s. %s, %d cores%s, Python %s; cedarpy %s. Median of %d rounds." % (
                 datetime.date.today(), cpu, os.cpu_count(), load, platform.python_version(),
                 importlib.metadata.version("cedarpy"), args.rounds), "",
             "| policies | what | ours | reference: its clock | reference: the call | its clock : ours |",
             "|---|---|---|---|---|---|"]
    for name, what, ns, clock, call in table:
        lines.append("| %s | %s | %s | %s | %s | %s |" % (
            name, what, show(ns), show(clock), show(call), "–" if clock is None else "%.1f" % (clock / ns)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--write", action="store_true", help="append to RESULTS.md")
    args = parser.parse_args()
    result = text(args, measure(args))
    print(result)
    if args.write:
        with open(os.path.join(HERE, "RESULTS.md"), "a") as f:
            f.write("\n" + result)


if __name__ == "__main__":
    main()
