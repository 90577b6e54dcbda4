"""Servers on loopback: throughput, latency and CPU a query at 1, 8 and 64 connections.

Ours is a full cell (keys, decision, audit; not --dev) with the rows, and one with a single
row: what a query costs there is HTTP, JSON, gate and audit. Chroma's own server stands beside
it. The load is http_load (C, keep-alive, a closed loop), 64 queries in turn, k = 10, spelled
as Python spells floats. The client shares the machine with the server.
"""
import http.client
import importlib
import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

import data
import measure
from drive import BUILD, NotRun, say

CONNECTIONS = (1, 8, 64)
BATCH = 500


def http_load(port, pid, path, lines, connections, requests, key=None, method="POST", warm=200):
    tool = os.path.join(BUILD, "tests", "http_load")
    if not os.path.exists(tool):
        raise NotRun("http_load is not built")
    command = [tool, "--port", str(port), "--pid", str(pid), "--path", path, "--lines", lines, "--method", method,
               "--connections", str(connections), "--requests", str(requests), "--warm", str(warm)]
    out = subprocess.run(command + (["--key", key] if key else []), capture_output=True, text=True)
    if not out.stdout.strip():
        raise NotRun("http_load: %s" % out.stderr.strip()[-200:])
    return json.loads(out.stdout)


class Server:
    """url paths and bodies of one kind of server over one kept-alive connection."""
    name, key = "", None

    def connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def call(self, method, path, body=None):
        data_ = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["api-key"] = self.key
        self.connection.request(method, path, data_, headers)
        r = self.connection.getresponse()
        text = r.read()
        if r.status >= 300:
            raise NotRun("%s %s %s: %d %r" % (self.name, method, path, r.status, text[:200]))
        return json.loads(text) if text else None

    def put_rows(self, bodies):
        """Seconds to send bodies that are ready, one after the other."""
        begun = time.perf_counter()
        for body in bodies:
            self.call(*self.upsert, body)
        return time.perf_counter() - begun

    def search(self, query, k=data.K):
        raise NotImplementedError


class Bailiwick(Server):
    name = "bailiwick"
    upsert = ("PUT", "/collections/bench/points?wait=true")
    query_path = "/collections/bench/points/query"

    def __init__(self, dim, settings=None):
        binary = os.path.join(BUILD, "bailiwick")
        if not os.path.exists(binary):
            raise NotRun("bailiwick is not built")
        os.environ["BW_BINARY"] = binary
        sys.path.insert(0, os.path.join(data.SOURCE, "tests", "support"))
        cell = importlib.import_module("cell")
        self.cell = cell.Cell(dev=False, country="FR", operator="nuage", settings=settings)
        self.cell.__enter__()
        labels = {"tenant": "acme", "regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1,
                  "purposes": ["support"]}
        self.key = self.cell.key_add("ana", tenant="acme", seat="FR", clearance=5, roles=["editor", "admin"],
                                     purposes=["support"], labels=labels)
        self.port, self.pid = self.cell.port, self.cell.process.pid
        self.connect()
        self.call("PUT", "/collections/bench", {"vectors": {"size": dim, "distance": "Cosine"}})

    def bodies(self, rows, first=0):
        return [json.dumps({"points": [{"id": first + b + i, "vector": v} for i, v in
                                       enumerate(rows[b:b + BATCH].tolist())]}).encode()
                for b in range(0, len(rows), BATCH)]

    def query_body(self, q):
        return {"query": q.tolist(), "limit": data.K}

    def found(self, answer):
        return [p["id"] for p in answer["result"]["points"]]

    def close(self):
        self.connection.close()
        self.cell.close()


class Chroma(Server):
    name = "Chroma"
    base = "/api/v2/tenants/default_tenant/databases/default_database/collections"

    def __init__(self, dim):
        program = os.path.join(os.path.dirname(sys.executable), "chroma")
        if not os.path.exists(program):
            raise NotRun("chromadb is not installed")
        self.folder = tempfile.mkdtemp(prefix="bw-bench-chroma-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        # The program replaces itself by, or loads, the server: one process.
        self.process = subprocess.Popen(
            [program, "run", "--path", self.folder, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=self.folder,
            env=dict(os.environ, ANONYMIZED_TELEMETRY="False", CHROMA_OPEN_TELEMETRY__ENDPOINT=""))
        self.pid = self.process.pid
        self.wait()
        made = self.call("POST", self.base, {"name": "bench", "configuration": {"hnsw": {"space": "cosine"}}})
        self.path = "%s/%s" % (self.base, made["id"])
        self.query_path, self.upsert = self.path + "/query", ("POST", self.path + "/upsert")
        self.version = importlib.metadata.version("chromadb")

    def wait(self):
        for _ in range(600):
            try:
                self.connect()
                self.call("GET", "/api/v2/heartbeat")
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
            if self.process.poll() is not None:
                break
        self.close()
        raise NotRun("Chroma's server did not start")

    def bodies(self, rows, first=0):
        return [json.dumps({"ids": [str(first + b + i) for i in range(len(rows[b:b + BATCH]))],
                            "embeddings": rows[b:b + BATCH].tolist()}).encode()
                for b in range(0, len(rows), BATCH)]

    def query_body(self, q):
        return {"query_embeddings": [q.tolist()], "n_results": data.K, "include": ["distances"]}

    def found(self, answer):
        return [int(i) for i in answer["ids"][0]]

    def close(self):
        self.connection.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def lines_of(server, s):
    path = os.path.join(data.CACHE, "lines-%s-%d.json" % (server.name, s.nq))
    with open(path, "w") as f:
        f.write("\n".join(json.dumps(server.query_body(q)) for q in np.asarray(s.queries[:64])))
    return path


def recall_of(server, s, truth, n=100):
    n = min(n, s.nq)
    found = [server.found(server.call("POST", server.query_path, server.query_body(q))) for q in np.asarray(s.queries[:n])]
    return data.recall(found, truth[:n])


def servers(args, s):
    """(name, server) of those that start, each filled; notes of the others."""
    out, notes = [], []
    for name, make, rows in (("bailiwick", lambda: Bailiwick(s.dim), s.n), ("bailiwick, one row", lambda: Bailiwick(s.dim), 1),
                             ("Chroma", lambda: Chroma(s.dim), s.n)):
        if args.only and not any(x in name for x in args.only.split(",")):
            continue
        try:
            server = make()
            out.append((name, server))
            seconds = server.put_rows(server.bodies(np.asarray(s.rows[:rows])))
            say("%-20s %d rows in %.1f s" % (name, rows, seconds))
        except NotRun as e:
            notes.append("%s: not run (%s)" % (name, e))
            say(notes[-1])
    return out, notes


def run(args):
    s = data.Set(args.n, max(64, args.queries))
    truth = s.truth()
    standing, notes = servers(args, s)
    begun, got, recalls = measure.load(), {}, {}
    try:
        for name, server in standing:
            recalls[name] = recall_of(server, s, truth) if "one row" not in name else None
        for i in range(args.rounds):
            for connections in CONNECTIONS:
                for name, server in standing[i % 3:] + standing[:i % 3]:
                    requests = requests_of(args, got.get((name, connections)))
                    r = http_load(server.port, server.pid, server.query_path, lines_of(server, s), connections, requests,
                                  server.key)
                    got.setdefault((name, connections), []).append(r)
                    say("%-20s %3d connections: %s" % (name, connections, r))
    except NotRun as e:
        notes.append("stopped: %s" % e)
    finally:
        for _, server in standing:
            server.close()
    return report(args, s, standing, got, recalls, notes, begun)


def requests_of(args, before):
    """About three seconds' worth, from the second round on; thousands, since the clock of the
    server's CPU ticks every 10 ms."""
    if args.quick:
        return 200
    return int(min(40000, max(2000, before[-1]["qps"] * 3))) if before else 2000


def report(args, s, standing, got, recalls, notes, begun):
    def of(name, connections, field):
        return measure.median([r[field] for r in got.get((name, connections), [])])

    rows = []
    for connections in CONNECTIONS:
        for name, server in standing:
            if (name, connections) not in got:
                continue
            rows.append([connections, name, "–" if recalls.get(name) is None else "%.3f" % recalls[name],
                         measure.number(of(name, connections, "qps"), 0), measure.number(of(name, connections, "p50_us"), 0),
                         measure.number(of(name, connections, "p99_us"), 0),
                         measure.number(of(name, connections, "server_us"), 0),
                         "60" if "one row" in name else "–",
                         sum(r["failed"] for r in got[(name, connections)])])
    versions = [server.version for _, server in standing if getattr(server, "version", None)]
    return ("### Over HTTP on loopback: n = %s, dim = %d, k = 10\n\n%s; %d rounds, load %.1f to %.1f; Chroma %s. A full cell "
            "with keys and audit; the client shares the cores.\n\n%s\n\n%s\n" % (
                measure.number(s.n, 0), s.dim, measure.machine(), args.rounds, begun, measure.load(),
                ", ".join(map(str, versions)) or "not run",
                measure.table(["connections", "server", "recall@10", "queries/s", "p50, µs", "p99, µs",
                               "server CPU a query, µs", "wanted, at most", "failed"], rows),
                "\n".join("- %s" % n for n in notes))), {}
