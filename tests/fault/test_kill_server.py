"""kill -9 of a running cell during mixed writes from several clients.

Each client owns a range of ids and keeps a journal of what was acknowledged. A batch spreads
over three governance classes, so it is one transaction over three partitions. After each
kill and restart a client's points must be exactly the state after its last acknowledged
write, or that state with the one write that was under way applied whole: nothing lost,
nothing half-applied. The audit chain must verify each time.

BW_NIGHTLY=1 kills 100 times, else a reduced number. Seed: BW_SEED.
"""
import json
import os
import random
import threading
import time

from cell import Cell

SEED = int(os.environ.get("BW_SEED", "1"))
KILLS = int(os.environ.get("BW_KILLS", "100" if os.environ.get("BW_NIGHTLY") == "1" else "12"))
CLIENTS, IDS, DIM = 3, 24, 4
CLASSES = [
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]},
    {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 2, "purposes": ["support"]},
    {"regimes": ["none"], "residency": ["EU"], "sensitivity": 0, "purposes": ["support"]},
]
C = "/collections/k"


class Writer:
    """One client: random writes to its own ids; `state` is what was acknowledged."""

    def __init__(self, n, cell, key):
        self.n, self.cell, self.key = n, cell, key
        self.rng = random.Random(f"{SEED}/{n}")
        self.state, self.pending, self.acked = {}, None, 0

    def ids(self):
        return [self.n * 1000 + i for i in range(IDS)]

    def make(self):
        """The next write: (method, path, body, state after it)."""
        after = dict(self.state)
        kind = self.rng.randrange(5)
        some = self.rng.sample(self.ids(), self.rng.randint(2, 9))
        if kind <= 1:
            points = []
            for i in some:
                gen = self.rng.getrandbits(40)
                points.append({"id": i, "vector": [float(i), float(gen % 97), 1.0, 0.5],
                               "payload": {"gen": gen, "page_content": f"row {gen}", "_labels": CLASSES[i % 3]}})
                after[i] = (gen, None, (float(i), float(gen % 97)), CLASSES[i % 3]["sensitivity"])
            return "PUT", f"{C}/points?wait=true", {"points": points}, after
        if kind == 2:
            for i in some:
                after.pop(i, None)
            return "POST", f"{C}/points/delete?wait=true", {"points": some}, after
        if kind == 3:  # out of three partitions into one
            labels = self.rng.choice(CLASSES)
            for i in some:
                if i in after:
                    after[i] = after[i][:3] + (labels["sensitivity"],)
            return "POST", "/v1/relabel", {"collection": "k", "points": some, "labels": labels}, after
        mark = self.rng.getrandbits(30)
        for i in some:
            if i in after:
                after[i] = (after[i][0], mark) + after[i][2:]
        return "POST", f"{C}/points/payload?wait=true", {"payload": {"mark": mark}, "points": some}, after

    def run(self):
        while True:
            method, path, body, after = self.make()
            self.pending = after
            try:
                r = self.cell.call(method, path, body, key=self.key, timeout=30)
            except OSError:
                return
            except Exception as e:  # http.client: the connection died in the middle of an answer
                if type(e).__module__ == "http.client":
                    return
                raise
            assert r.status == 200, r
            self.state, self.pending = after, None
            self.acked += 1

    def read(self):
        r = self.cell.post(f"{C}/points", {"ids": self.ids(), "with_payload": True, "with_vector": True}, key=self.key)
        assert r.status == 200, r
        got = {}
        for p in r.json()["result"]:
            assert p["id"] not in got, f"point {p['id']} twice"
            v = p["vector"]
            assert p["payload"]["page_content"] == f"row {p['payload']['gen']}"
            got[p["id"]] = (p["payload"]["gen"], p["payload"].get("mark"), (v[0], v[1]), p["_labels"]["sensitivity"])
        return got


def test_kill_server__keeps_all_that_it_acknowledged():
    rng = random.Random(SEED)
    print(f"seed {SEED}, {KILLS} kills")
    applied_unacked = 0
    cell = Cell(dev=False, country="FR", operator="eucloud")
    cell.__enter__()
    try:
        key = cell.key_add("writer", tenant="acme", clearance=5, roles=["editor", "admin"], purposes=["support"])
        assert cell.put(C, {"vectors": {"size": DIM, "distance": "Euclid"}}, key=key).status == 200
        writers = [Writer(n, cell, key) for n in range(CLIENTS)]
        for kill in range(KILLS):
            threads = [threading.Thread(target=w.run) for w in writers]
            for t in threads:
                t.start()
            time.sleep(rng.uniform(0.02, 0.6))
            cell.kill9()
            for t in threads:
                t.join(60)
                assert not t.is_alive()
            assert cell.log_holds(), kill
            cell.start()
            for w in writers:
                got = w.read()
                if got != w.state:
                    assert w.pending is not None and got == w.pending, (
                        f"seed {SEED}, kill {kill}, client {w.n}: lost or half-applied:\n"
                        f"acknowledged {json.dumps(sorted(w.state.items()))}\n"
                        f"pending {json.dumps(sorted((w.pending or {}).items()))}\n"
                        f"found {json.dumps(sorted(got.items()))}")
                    applied_unacked += 1
                w.state, w.pending = got, None
            assert cell.log_holds(), kill
        acked = sum(w.acked for w in writers)
    finally:
        cell.close()
    print(f"{acked} writes acknowledged, 0 lost; {applied_unacked} unacknowledged ones were applied whole")
    assert acked > KILLS, "the kills came before the writes: nothing was tested"
