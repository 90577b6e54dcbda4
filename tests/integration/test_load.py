"""Many callers at once: keys made and revoked, policies changed, points written and read, the
log queried, connections cut in the middle. Run under the thread sanitizer as well. Nothing
is timed; every answer must be one of those that its state allows."""
import os
import random
import socket
import threading

from cell import Cell

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}
ROUNDS = int(os.environ.get("BW_LOAD_ROUNDS", "25"))


def test_load__mixed_callers():
    seed = int(os.environ.get("BW_SEED", "1"))
    print("BW_SEED=%d" % seed)
    with Cell(dev=False, country="FR", operator="eucloud", settings={"audit.segment_bytes": 65536}) as c:
        base = c.get("/v1/policies").json()["policies"]
        writer = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll"], labels=LABELS)
        assert c.put("/collections/x", {"vectors": {"size": 4, "distance": "Dot"}}, key=writer).status == 200
        errors, written = [], []

        def guarded(work):
            def run(n):
                rnd = random.Random(seed * 100 + n)
                try:
                    for i in range(ROUNDS):
                        work(rnd, n, i)
                except BaseException as e:
                    errors.append("%s %d: %r" % (work.__name__, n, e))
            return run

        def write(rnd, n, i):
            p = n * 100000 + i
            r = c.put("/collections/x/points?wait=true", {"points": [{"id": p, "vector": [1, 2, 3, p]}]}, key=writer)
            assert r.status == 200, r
            written.append(p)
            assert c.get("/collections/x/points/%d" % p, key=writer).status == 200

        def read(rnd, n, i):
            r = c.post("/collections/x/points/query", {"query": [1, 1, 1, 1], "limit": rnd.choice([1, 10, 100])},
                       key=writer)
            assert r.status == 200, r
            assert c.get("/metrics").status == 200
            assert c.get("/v1/audit?limit=50").status == 200

        def keys(rnd, n, i):
            key = c.key_add("tmp%d" % n, "acme", purposes=["payroll"], labels=LABELS)
            me = c.get("/v1/whoami", key=key)
            assert me.status == 200
            assert c.delete("/v1/keys/" + me.json()["key"]["id"]).status == 200
            assert c.get("/v1/whoami", key=key).status == 401

        def policies(rnd, n, i):
            text = base + "\n@id(\"extra-%d\") forbid (principal == Bw::Identity::\"nobody\", action, resource);" % i
            assert c.put("/v1/policies", {"policies": text}).status == 200
            assert c.put("/v1/policies", {"policies": "permit("}).status == 422

        def cut(rnd, n, i):
            s = socket.create_connection(("127.0.0.1", c.port))
            whole = (b"POST /collections/x/points/scroll HTTP/1.1\r\nHost: 127.0.0.1\r\napi-key: " + writer.encode()
                     + b"\r\nContent-Length: 2\r\n\r\n{}")
            s.sendall(whole[:rnd.randrange(len(whole) + 1)])
            s.close()

        threads = [threading.Thread(target=guarded(f), args=(n,)) for n, f in
                   enumerate([write, write, read, read, keys, policies, cut, cut])]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors, errors
        count = c.post("/collections/x/points/count", {}, key=writer).json()["result"]["count"]
        assert count == len(written)
        assert c.cli("audit", "verify", "--data", c.data).returncode == 0
        assert c.get("/v1/policies").json()["policies"].startswith(base)
