"""Contenders as processes that take turns: peers (worker.py), our index kinds (bw_bench),
our engine (engine_bench), and the rounds over them.

A contender has a name, a ladder of efforts, build(set) and search(effort, from, count, k) ->
{"seconds", "cpu", "rows"}. NotRun where something is missing: the table says so.
"""
import json
import os
import subprocess
import sys

import data

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BW_BUILD", os.path.join(data.SOURCE, "build", "release"))
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
EF = (10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768)
EF_LARGE = EF + (1024, 1536, 2048, 3072, 4096)  # a million rows want more at recall 0.99


class NotRun(Exception):
    pass


def say(s):
    print(s, file=sys.stderr, flush=True)


class Process:
    """Something on the other end of two pipes: one line out, one line of JSON back."""
    ladder, version, isa, build_s, build_cpu = EF, "", "", None, None
    found_at_once = False

    def __init__(self, name, ladder=None):
        self.name, self.process = name, None
        if ladder:
            self.ladder = ladder

    def start(self, command, env=None):
        # Nice is inherited, the environment of one thread is set.
        if not os.path.exists(command[0]):
            raise NotRun("%s is not built" % os.path.basename(command[0]))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **ONE_THREAD, **(env or {})))

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise NotRun("its process ended (%s) at: %s" % (self.process.wait(60), line[:80]))
        reply = json.loads(answer)
        if "not_run" in reply:
            raise NotRun(reply["not_run"])
        return reply

    def note(self, reply):
        self.build_s, self.build_cpu = reply["seconds"], reply.get("cpu")
        self.version, self.isa = reply.get("version", ""), reply.get("isa", "")
        return reply

    def close(self):
        if self.process:
            try:
                self.process.stdin.close()
                self.process.wait(120)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None


def rows_of(reply, k):
    flat = reply["rows"]
    if flat and isinstance(flat[0], list):
        return flat
    return [flat[i:i + k] for i in range(0, len(flat), k)]


class Peer(Process):
    """env: more environment (qdrant-edge reads its classes from there)."""

    def __init__(self, peer, name, ladder=None, env=None, kept=data.CACHE):
        super().__init__(name, ladder)
        self.peer, self.env, self.kept = peer, env, kept

    def build(self, s, threads=1):
        self.start([sys.executable, os.path.join(HERE, "worker.py"), self.peer, s.rows_path, s.queries_path],
                   self.env)
        return self.note(self.ask(json.dumps({"do": "build", "threads": threads, "kept": self.kept})))

    def permit(self, labels_path, classes):
        self.ask(json.dumps({"do": "permit", "labels": labels_path, "classes": [int(c) for c in classes]}))

    def search(self, effort, begin, count, k=data.K):
        return self.ask(json.dumps({"do": "search", "effort": effort, "from": begin, "count": count, "k": k}))


class Kind(Process):
    """One of engine/index's kinds, or the exact scan over codes, through bw_bench."""

    def __init__(self, kind, name, ladder=None):
        super().__init__(name, ladder)
        self.kind = kind

    def build(self, s, threads=1):
        self.start([os.path.join(BUILD, "tests", "bw_bench"), s.rows_path, s.queries_path, "cosine"])
        return self.note(self.ask("build %s %d" % (self.kind, threads)))

    def search(self, effort, begin, count, k=data.K):
        return self.ask("search %s %s %d %d %d" % (self.kind, effort, begin, count, k))


class Engine(Process):
    """bw_query_run over a collection of our own, filled once; classes: a file of u32, a row
    each, or none. what: dense, text, sparse, hybrid. sealed: the load ends as `bailiwick seal`
    ends it, one graph a class; else rows that grow are scanned, as while a cell is written to."""

    def __init__(self, name, ladder, classes="-", dtype="f32", on_disk=False, seal=0, adopt=0, words=False,
                 what="dense", index=0, sealed=False):
        super().__init__(name, ladder)
        self.classes, self.what, self.sealed = classes, what, sealed
        self.open = "open %s %d %d %d %d %d" % (dtype, on_disk, seal, adopt, words, index)

    def build(self, s, threads=1):
        self.start([os.path.join(BUILD, "tests", "engine_bench"), s.rows_path, s.queries_path])
        isa = self.ask(self.open)["isa"]
        filled = self.ask("fill %s" % self.classes)
        waited = self.ask("seal" if self.sealed else "wait")
        reply = {"seconds": filled["seconds"] + waited["seconds"], "isa": isa}
        return self.note(reply)

    def permit(self, path):
        self.ask("permit %s" % path)

    def search(self, effort, begin, count, k=data.K):
        return self.ask("search %s %s %d %d %d" % (self.what, effort, begin, count, k))


# ---- rounds ----
class Turn:
    """One contender at one effort: what it found once over all queries, and its rounds."""

    def __init__(self, contender, effort):
        self.contender, self.effort = contender, effort
        self.recall = self.real = None
        self.count = 0
        self.qps, self.cpu_qps = [], []

    def measure(self, begin):
        r = self.contender.search(self.effort, begin, self.count)
        self.qps.append(self.count / r["seconds"])
        if r.get("cpu"):
            self.cpu_qps.append(self.count / r["cpu"])


def climb(contender, truth, nq, targets, after=1, sample=None, seconds=0.5, least=0.80):
    """Turns up the ladder: all queries (or the first `sample`) once at each effort, from the
    first that reaches `least` until the highest target is passed `after` times."""
    turns, passed = [], 0
    for effort in contender.ladder:
        n = min(nq, sample or nq)
        r = contender.search(effort, 0, n)
        turn = Turn(contender, effort)
        found = rows_of(r, data.K)
        turn.recall = data.recall(found, truth[:n])
        turn.real = data.recall(found[:500], truth[:min(n, 500)])  # the stored queries alone
        # A turn of a round takes about `seconds`, whatever the speed.
        turn.count = max(20, min(n, int(n * seconds / max(r["seconds"], 1e-6))))
        if turn.recall >= least or effort == contender.ladder[-1]:
            turns.append(turn)
        passed += turn.recall >= max(targets)
        if passed > after:
            break
    return turns


def rounds(turns, n, nq):
    """n rounds; in each every turn comes once, in an order that rotates so that none is always
    first; a round's turns begin at the same query, each round's at another."""
    for i in range(n):
        shift = i * len(turns) // max(1, n)
        for turn in turns[shift:] + turns[:shift]:
            turn.measure(min(i * nq // n, max(0, nq - turn.count)))


def build_all(contenders, s, threads):
    """Builds in turn; (those that stand, notes about the others)."""
    ready, notes = [], []
    for c in contenders:
        try:
            c.build(s, threads)
            say("%-28s built in %.1f s" % (c.name, c.build_s))
            ready.append(c)
        except NotRun as e:
            notes.append("%s: not run (%s)" % (c.name, e))
            say(notes[-1])
            c.close()
    return ready, notes
