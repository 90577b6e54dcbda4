"""Forty callers on three classes: each reads what it wrote, every hit has its payload, a
collection is dropped and made anew under load, bodies are cut off. And answers over sealed
segments: as many as there are, exact ones as by brute force, the same bits after a restart.
Bounded by rounds; nothing is timed."""
import math
import os
import random
import socket
import threading

from cell import Cell

SEED = int(os.environ.get("BW_SEED", "1"))
ROUNDS = int(os.environ.get("BW_LOAD_ROUNDS", "6"))
LABELS = [{"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": s, "purposes": ["support"]} for s in (0, 1, 2)]


class Crowd:
    def __init__(self, cell, key):
        self.c, self.key = cell, key

    def post(self, path, body):
        return self.c.post("/collections/" + path, body, key=self.key)

    def writer(self, rnd, n):
        mine, only = {}, {"must": [{"key": "own", "match": {"value": n}}]}
        for _ in range(ROUNDS):
            ids = sorted({n * 10000 + rnd.randrange(100) for _ in range(rnd.randrange(1, 30))})
            gen = rnd.getrandbits(30)
            if rnd.random() < 0.7:
                points = [{"id": i, "vector": [i % 97, gen % 89, 1, 2], "payload": {
                    "own": n, "gen": gen, "page_content": "g%d" % gen, "_labels": LABELS[(i + gen) % 3]}} for i in ids]
                r = self.c.put("/collections/x/points?wait=true", {"points": points}, key=self.key)
                mine.update({i: gen for i in ids})
            else:
                r = self.post("x/points/delete?wait=true", {"points": ids})
                mine = {i: g for i, g in mine.items() if i not in ids}
            assert r.status == 200, r
            assert self.post("x/points/count", {"filter": only}).json()["result"]["count"] == len(mine)
            got = self.post("x/points/scroll", {"filter": only, "limit": 1000}).json()["result"]["points"]
            assert {p["id"]: p["payload"]["gen"] for p in got} == mine and len(got) == len(mine)
            got = self.post("x/points/query", {"query": [1, 1, 1, 1], "limit": 50, "filter": only}).json()["result"]["points"]
            assert len(got) == min(50, len(mine))

    def reader(self, rnd, n):
        for _ in range(ROUNDS * 3):
            r = self.post("x/points/query", {"query": [rnd.random() * 97 for _ in range(4)], "limit": 50, "with_payload": True})
            assert r.status == 200, r
            hits = r.json()["result"]["points"]
            assert len({p["id"] for p in hits}) == len(hits)
            for p in hits:
                assert p["payload"]["page_content"] == "g%d" % p["payload"]["gen"]
                assert p["payload"]["own"] == p["id"] // 10000

    def dropper(self, rnd, n):
        for _ in range(ROUNDS):
            assert self.c.delete("/collections/d", key=self.key).status in (200, 404)
            body = {"vectors": {"size": 4, "distance": "Euclid"}}
            assert self.c.put("/collections/d", body, key=self.key).status in (200, 409)

    def guest(self, rnd, n):
        """Uses the collection that the droppers drop."""
        for _ in range(ROUNDS * 2):
            points = {"points": [{"id": rnd.randrange(100), "vector": [1, 2, 3, 4],
                                  "payload": {"a": 1, "_labels": LABELS[rnd.randrange(3)]}}]}
            assert self.c.put("/collections/d/points?wait=true", points, key=self.key).status in (200, 404)
            r = self.post("d/points/query", {"query": [1, 2, 3, 4], "limit": 5, "with_payload": True})
            assert r.status in (200, 404), r
            if r.status == 200:
                assert all(p["payload"]["a"] == 1 for p in r.json()["result"]["points"])

    def cutter(self, rnd, n):
        body = b'{"points":[{"id":1,"vector":[1,2,3,4],"payload":{"own":-1}}]}'
        head = "PUT /collections/x/points?wait=true HTTP/1.1\r\nHost: 127.0.0.1\r\napi-key: %s\r\n" % self.key
        whole = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        for _ in range(ROUNDS * 3):
            with socket.create_connection(("127.0.0.1", self.c.port)) as s:
                s.sendall(whole[:rnd.randrange(len(whole) - 1)])


def test_crowd__every_caller_reads_what_it_wrote():
    print("BW_SEED=%d" % SEED)
    with Cell(dev=False, country="FR", operator="eucloud", settings={"data.seal_rows": 300}) as c:
        key = c.key_add("ana", "acme", clearance=5, roles=["editor", "admin"], purposes=["support"], labels=LABELS[0])
        for name in "xd":
            assert c.put("/collections/" + name, {"vectors": {"size": 4, "distance": "Euclid"}}, key=key).status == 200
        crowd, errors = Crowd(c, key), []

        def run(work, n):
            try:
                work(random.Random(SEED * 1000 + n), n)
            except BaseException as e:
                errors.append("%s %d: %r" % (work.__name__, n, e))

        works = [crowd.writer] * 12 + [crowd.reader] * 14 + [crowd.dropper] * 2 + [crowd.guest] * 8 + [crowd.cutter] * 4
        threads = [threading.Thread(target=run, args=(f, n)) for n, f in enumerate(works)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors, errors
        cut = {"filter": {"must": [{"key": "own", "match": {"value": -1}}]}}
        assert crowd.post("x/points/count", cut).json()["result"]["count"] == 0
        before = crowd.post("x/points/scroll", {"limit": 10000, "with_vector": True}).body
        c.kill9()
        c.start()
        assert crowd.post("x/points/scroll", {"limit": 10000, "with_vector": True}).body == before


def test_sealed__answers_are_complete_exact_and_the_same_after_a_restart():
    """Deletes of the nearest 1,000 points, filters, equal vectors; segments of 300 rows with graphs."""
    rnd = random.Random(SEED)
    print("BW_SEED=%d" % SEED)
    dim, own = 8, {}
    filters = [(None, lambda p: True), ({"must": [{"key": "cat", "match": {"value": "a"}}]}, lambda p: p["cat"] == "a"),
               ({"must": [{"key": "r", "range": {"lt": 20}}]}, lambda p: p["r"] < 20),
               ({"must": [{"key": "cat", "match": {"value": "none"}}]}, lambda p: False)]
    with Cell(dev=True, settings={"data.seal_rows": 300}) as c:
        assert c.put("/collections/x", {"vectors": {"size": dim, "distance": "Euclid"}}).status == 200

        def upsert(ids, vector=None):
            points = []
            for i in ids:
                v = vector or [rnd.randrange(-8, 9) + i / 8192 for _ in range(dim)]  # exact in f32
                own[i] = (v, {"cat": "ab"[i % 2], "r": rnd.randrange(200)})
                points.append({"id": i, "vector": v, "payload": own[i][1]})
            assert c.put("/collections/x/points?wait=true", {"points": points}).status == 200

        def nearest(q, keep):
            return sorted((math.dist(q, v), i) for i, (v, p) in own.items() if keep(p))

        def ask(q, k, cond, exact):
            body = {"query": q, "limit": k, "params": {"exact": exact}}
            r = c.post("/collections/x/points/query", dict(body, filter=cond) if cond else body)
            assert r.status == 200, r
            return r

        def check(q):
            for cond, keep in filters:
                true = nearest(q, keep)
                for k in (1, 10, 28, 1500):
                    for exact in (True, False):
                        got = ask(q, k, cond, exact).json()["result"]["points"]
                        assert len({p["id"] for p in got}) == len(got) == min(k, len(true)), (k, exact, cond)
                        assert all(p["id"] in own and keep(own[p["id"]][1]) for p in got)
                        if exact:
                            for p, (d, _) in zip(got, true):
                                assert abs(p["score"] - d) < 1e-3
                        elif k == 10 and true:
                            assert len({p["id"] for p in got} & {i for _, i in true[:10]}) >= min(10, len(true)) * 0.7

        def restart(kill):
            def answers():
                return [ask(q, k, cond, False).body for q in asked for k in (1, 10, 100) for cond, _ in filters]
            before = answers()
            if kill:
                c.kill9()
                c.start()
            else:
                c.restart()
            assert answers() == before

        asked = [[rnd.uniform(-8, 8) for _ in range(dim)] for _ in range(3)]
        for at in range(0, 2400, 200):
            upsert(range(at, at + 200))
        check(asked[0])
        restart(False)
        for field, kind in (("cat", "keyword"), ("r", "integer")):
            assert c.put("/collections/x/index?wait=true", {"field_name": field, "field_schema": kind}).status == 200
        restart(True)
        gone = [i for _, i in nearest(asked[1], lambda p: True)[:1000]]
        assert c.post("/collections/x/points/delete?wait=true", {"points": gone}).status == 200
        for i in gone:
            del own[i]
        check(asked[1])
        restart(True)
        for at in range(10000, 10800, 200):
            upsert(range(at, at + 200), vector=[0.5] * dim)
        check([0.5] * dim)
        restart(False)
