"""Bulk load over HTTP (rows a second beside Chroma's server, and qdrant-edge in-process), and
queries while half of that load comes in: p50 and p99 against the idle server's.

Bodies of 500 rows are made before the clock starts and sent over one connection, each
acknowledged (ours: synced to disk) before the next. When the server has done what the load left
it to do, queries are asked for some seconds over one connection (http_load), then again while a
paced writer sends rows at half the measured rate; seal_rows is a quarter of the rows, at most the
default, so that graphs are being built meanwhile. Ours is a full cell.
"""
import threading
import time

import numpy as np

import data
import measure
from drive import NotRun, Peer, say
from serve import BATCH, Bailiwick, Chroma, http_load, lines_of


class Writer(threading.Thread):
    """Sends bodies at a pace over a connection of its own until told to stop."""

    def __init__(self, server, bodies, rows_per_s):
        super().__init__(daemon=True)
        self.server, self.bodies, self.pause = server, bodies, BATCH / rows_per_s
        self.stop, self.sent, self.failed = threading.Event(), 0, None

    def run(self):
        try:
            self.server.connect()
            due = time.perf_counter()
            while not self.stop.is_set() and self.sent < len(self.bodies):
                self.server.call(*self.server.upsert, self.bodies[self.sent])
                self.sent += 1
                due += self.pause
                self.stop.wait(max(0, due - time.perf_counter()))
        except (NotRun, OSError) as e:
            self.failed = e


def settle(server, most_s=60):
    """Until the server has used next to no CPU for two seconds (builders are through); False if it
    never did."""
    end, quiet = time.monotonic() + most_s, 0
    while quiet < 2 and time.monotonic() < end:
        before = measure.cpu_of(server.pid)
        time.sleep(1)
        quiet = quiet + 1 if measure.cpu_of(server.pid) - before <= 0.1 else 0
    return quiet == 2


def latencies(server, lines, requests, rounds):
    got = [http_load(server.port, server.pid, server.query_path, lines, 1, requests, server.key) for _ in range(rounds)]
    return {f: measure.median([r[f] for r in got]) for f in ("qps", "p50_us", "p99_us")}


def one(server, s, args):
    """(rows a second, idle, during) of one server."""
    rows = np.asarray(s.rows)
    loaded = server.bodies(rows[:s.n // 2])
    rate = (s.n // 2) / server.put_rows(loaded)
    say("%-12s %.0f rows a second" % (server.name, rate))
    if not settle(server):
        say("%-12s is still busy a minute after its load" % server.name)
    lines = lines_of(server, s)
    requests = 200 if args.quick else int(max(1000, 3 * latencies(server, lines, 1000, 1)["qps"]))  # some 3 s a round
    idle = latencies(server, lines, requests, args.rounds)
    more = server.bodies(rows[s.n // 2:], s.n // 2)
    writer = Writer(server, more * (1 if args.quick else 4), rate / 2)
    writer.start()
    try:
        during = latencies(server, lines, requests, args.rounds)
        busy = writer.is_alive()
    finally:
        writer.stop.set()
        writer.join(120)
    if writer.failed:
        raise NotRun("its writer failed: %s" % writer.failed)
    say("%-12s idle %s during %s" % (server.name, idle, during))
    return rate, idle, during, busy, writer.sent * BATCH


def run(args):
    s = data.Set(args.n, max(64, args.queries))
    rows, notes, begun = [], [], measure.load()
    seal = min(16384, max(1000, s.n // 4))  # at most what it is by default
    for name, make in (("bailiwick", lambda: Bailiwick(s.dim, {"data.seal_rows": seal})), ("Chroma", lambda: Chroma(s.dim))):
        if args.only and not any(x in name for x in args.only.split(",")):
            continue
        server = None
        try:
            server = make()
            rate, idle, during, busy, sent = one(server, s, args)
            times = [during[f] / idle[f] for f in ("p50_us", "p99_us")]
            rows.append([name, measure.number(rate, 0)] + [measure.number(x[f], 0) for x in (idle, during)
                                                           for f in ("p50_us", "p99_us")] +
                        ["%.2f" % t for t in times] + ["1.5 and 3" if name == "bailiwick" else "–"])
            if not busy:
                notes.append("%s: the writer was through after %d rows, before the last queries" % (name, sent))
        except NotRun as e:
            notes.append("%s: not run (%s)" % (name, e))
            say(notes[-1])
        finally:
            if server:
                server.close()
    rows += edge(args, s, notes)
    return ("### Bulk load, and queries during it: n = %s, dim = %d\n\n%s; %d rounds, load %.1f to %.1f; bodies of %d rows, "
            "one connection; ours seals every %s rows.\n\n%s\n\n%s\n" % (
                measure.number(s.n, 0), s.dim, measure.machine(), args.rounds, begun, measure.load(), BATCH,
                measure.number(seal, 0),
                measure.table(["server", "rows/s alone", "idle p50, µs", "idle p99", "at half load p50", "p99",
                               "p50 : idle", "p99 : idle", "wanted, at most"], rows),
                "\n".join("- %s" % n for n in notes))), {}


def edge(args, s, notes):
    if args.only and "qdrant" not in args.only:
        return []
    c = Peer("qdrant-edge", "qdrant-edge, in-process")
    try:
        reply = c.build(s, args.threads)
        return [[c.name, measure.number(s.n / reply["upsert_seconds"], 0)] + ["–"] * 7]
    except NotRun as e:
        notes.append("%s: not run (%s)" % (c.name, e))
        return []
    finally:
        c.close()
