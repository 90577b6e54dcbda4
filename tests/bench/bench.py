"""Bailiwick beside its peers, everything in one run on the same vectors.

    python tests/bench/bench.py [WHAT] [--n 20000] [--rounds 9] [--only NAME,…] [--quick]
                                [--build DIR] [--out DIR] [--write]

WHAT: curve (the default: recall against queries a second), filter (a part of the data is
permitted), scan (bandwidth and the exact scans), http (throughput and cost of the server),
ingest (bulk load, and queries during it), memory (build time, memory, text, cold start),
growth (rows and classes), all. Each prints a table and draws SVG files into --out (default
build/bench); --write appends the table to RESULTS.md and puts the drawings into plots/.
--quick: sizes for a look whether all runs. README.md says how everything is measured.
"""
import argparse
import datetime
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
# module, rows, queries, rounds; the same of --quick
PARTS = {
    "curve": ("curve", (20000, 10000, 15), (20000, 1000, 3)),
    "filter": ("filters", (20000, 2000, 9), (20000, 200, 2)),
    "scan": ("scan", (1000000, 200, 9), (30000, 20, 3)),
    "http": ("serve", (20000, 500, 3), (2000, 100, 1)),
    "ingest": ("ingest", (50000, 500, 3), (3000, 100, 1)),
    "memory": ("memory", (1000000, 500, 1), (20000, 100, 1)),
    "growth": ("growth", (2000000, 500, 5), (20000, 100, 2)),
}


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", nargs="?", default="curve", choices=list(PARTS) + ["all"])
    p.add_argument("--n", type=int, help="rows; beyond the stored 20,000 they are grown")
    p.add_argument("--queries", type=int, help="the first 500 are real ones, those beyond are grown")
    p.add_argument("--rounds", type=int)
    p.add_argument("--seconds", type=float, default=0.3, help="about how long one turn of a round takes")
    p.add_argument("--threads", type=int, default=os.cpu_count(), help="of builds; queries have one")
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                   help="what ratios are taken of; cpu on a machine that is shared")
    p.add_argument("--only", default="", help="contenders whose names contain one of these, comma-separated")
    p.add_argument("--quick", action="store_true", help="sizes for a look whether all runs")
    p.add_argument("--build", help="build folder (default build/release, or BW_BUILD)")
    p.add_argument("--out", default=os.path.join(SOURCE, "build", "bench"), help="folder for the drawings")
    p.add_argument("--write", action="store_true", help="append to RESULTS.md, drawings into plots/")
    return p.parse_args()


def free_name(folder, name):
    """name, or name-2, name-3, … where a drawing of an earlier run stands: RESULTS.md shows both."""
    i, free = 1, name
    while os.path.exists(os.path.join(folder, free + ".svg")):
        i += 1
        free = "%s-%d" % (name, i)
    return free


def run_part(what, args):
    module, full, quick = PARTS[what]
    n, queries, rounds = quick if args.quick else full
    mine = argparse.Namespace(**vars(args))
    mine.n, mine.queries, mine.rounds = args.n or n, args.queries or queries, args.rounds or rounds
    table, plots = importlib.import_module(module).run(mine)
    table = table.replace("\n\n", "\n\n%s. " % datetime.date.today().isoformat(), 1)
    print("\n" + table, flush=True)
    kept = {free_name(os.path.join(HERE, "plots"), name): picture for name, picture in plots.items()}
    draw(args.out, plots)
    if args.write:
        draw(os.path.join(HERE, "plots"), kept)
        with open(os.path.join(HERE, "RESULTS.md"), "a") as f:
            f.write("\n" + table)
            for name in kept:
                f.write("\n![%s](plots/%s.svg)\n" % (name, name))


def draw(folder, plots):
    os.makedirs(folder, exist_ok=True)
    for name, picture in plots.items():
        path = os.path.join(folder, name + ".svg")
        picture.save(path)
        print(path, file=sys.stderr)


def main():
    args = options()
    if args.build:
        os.environ["BW_BUILD"] = args.build
    sys.path.insert(0, HERE)
    for what in PARTS if args.what == "all" else (args.what,):
        run_part(what, args)


if __name__ == "__main__":
    main()
