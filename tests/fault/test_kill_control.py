"""kill -9 of a running cell while collections, aliases, payload indexes, keys and policies
change. What was acknowledged is there after the restart; the one change of each kind that was
under way is there whole or not at all; a revoked key stays revoked.

BW_NIGHTLY=1 kills 60 times, else a reduced number. Seed: BW_SEED.
"""
import http.client
import os
import random
import threading
import time

from cell import Cell

SEED = int(os.environ.get("BW_SEED", "1"))
KILLS = int(os.environ.get("BW_KILLS", "60" if os.environ.get("BW_NIGHTLY") == "1" else "6"))
LABELS = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]}


class Killed(Exception):
    """The cell died before it answered."""


class World:
    def __init__(self, cell, key):
        self.cell, self.key = cell, key
        self.base = cell.get("/v1/policies").json()["policies"]
        self.state = {"collections": {}, "aliases": {}, "indexes": {}, "policies": self.base}
        self.pending, self.live, self.gone, self.errors = {}, set(), set(), []

    def call(self, method, path, body=None, admin=False):
        try:
            r = self.cell.call(method, path, body, key="admin" if admin else self.key)
        except (OSError, http.client.HTTPException):
            raise Killed from None
        assert r.status == 200, (method, path, r)
        return r.json()

    def change(self, kind, after, *call, admin=False):
        """One change of a kind whose state is `after` once it is acknowledged."""
        self.pending[kind] = after
        self.call(*call, admin=admin)
        self.state[kind] = after
        del self.pending[kind]

    def collections(self, rnd):
        now = dict(self.state["collections"])
        name = "c%d" % rnd.randrange(5)
        if name in now:
            del now[name]
            self.change("collections", now, "DELETE", "/collections/" + name)
            return
        body = {"vectors": {"size": 4, "distance": "Euclid"}}
        self.change("collections", dict(now, **{name: []}), "PUT", "/collections/" + name, body)
        ids = list(range(1, rnd.randrange(2, 100)))
        points = {"points": [{"id": i, "vector": [i, 1, 2, 3]} for i in ids]}
        self.change("collections", dict(now, **{name: ids}), "PUT", "/collections/%s/points?wait=true" % name, points)

    def aliases(self, rnd):
        """Two actions in one call: both or none."""
        one, two = "a%d" % rnd.randrange(3), "b%d" % rnd.randrange(3)
        target = "k%d" % rnd.randrange(2)
        after = dict(self.state["aliases"], **{two: target})
        if one in after:
            del after[one]
            first = {"delete_alias": {"alias_name": one}}
        else:
            after[one] = target
            first = {"create_alias": {"alias_name": one, "collection_name": target}}
        second = {"create_alias": {"alias_name": two, "collection_name": target}}
        self.change("aliases", after, "POST", "/collections/aliases", {"actions": [first, second]})

    def indexes(self, rnd):
        field, after = "f%d" % rnd.randrange(4), dict(self.state["indexes"])
        if field in after:
            del after[field]
            self.change("indexes", after, "DELETE", "/collections/k0/index/%s?wait=true" % field)
            return
        after[field] = rnd.choice(["keyword", "integer", "float"])
        self.change("indexes", after, "PUT", "/collections/k0/index?wait=true",
                    {"field_name": field, "field_schema": after[field]})

    def policies(self, rnd):
        text = self.base + '\n@id("x%d") forbid (principal == Bw::Identity::"nobody", action, resource);' % rnd.getrandbits(40)
        self.change("policies", text, "PUT", "/v1/policies", {"policies": text}, admin=True)

    def keys(self, rnd):
        r = self.call("POST", "/v1/keys", {"principal": "p%d" % rnd.randrange(9), "tenant": "acme", "seat": "FR",
                                           "clearance": 1, "roles": [], "purposes": [], "safeguards": []}, admin=True)
        if rnd.random() < 0.5:
            self.call("DELETE", "/v1/keys/" + r["id"], admin=True)  # killed in it: not known
            self.gone.add(r["key"])
        else:
            self.live.add(r["key"])

    def found(self):
        c, k = self.cell, self.key
        names = {x["name"] for x in c.get("/collections", key=k).json()["result"]["collections"]} - {"k0", "k1"}
        rows = {}
        for n in names:
            r = c.post("/collections/%s/points/scroll" % n, {"limit": 1000}, key=k)
            assert r.status == 200, (n, r)
            rows[n] = [p["id"] for p in r.json()["result"]["points"]]
        aliases = c.get("/aliases", key=k).json()["result"]["aliases"]
        schema = c.get("/collections/k0", key=k).json()["result"]["payload_schema"]
        return {"collections": rows, "aliases": {a["alias_name"]: a["collection_name"] for a in aliases},
                "indexes": {f: v["data_type"] for f, v in schema.items()},
                "policies": c.get("/v1/policies").json()["policies"]}

    def worker(self, kind, seed):
        rnd = random.Random(seed)
        try:
            while True:
                getattr(self, kind)(rnd)
        except Killed:
            return
        except BaseException as e:  # shown by the test's own thread
            self.errors.append((kind, repr(e)))


def test_kill_control__keeps_every_acknowledged_change():
    rng = random.Random(SEED)
    print(f"seed {SEED}, {KILLS} kills")
    with Cell(dev=False, country="FR", operator="eucloud",
              settings={"data.seal_rows": 64, "audit.segment_bytes": 65536}) as cell:
        key = cell.key_add("ana", "acme", clearance=5, roles=["editor", "admin"], purposes=["support"], labels=LABELS)
        for name in ("k0", "k1"):
            assert cell.put("/collections/" + name, {"vectors": {"size": 4, "distance": "Dot"}}, key=key).status == 200
        w = World(cell, key)
        for kill in range(KILLS):
            threads = [threading.Thread(target=w.worker, args=(kind, f"{SEED}/{kill}/{kind}"))
                       for kind in ("collections", "aliases", "indexes", "keys", "policies")]
            for t in threads:
                t.start()
            time.sleep(rng.uniform(0.05, 0.6))
            cell.kill9()
            for t in threads:
                t.join(60)
                assert not t.is_alive()
            assert not w.errors, w.errors
            assert cell.log_holds()
            cell.start()
            found = w.found()
            assert cell.log_holds()
            for kind, have in found.items():
                allowed = [w.state[kind]] + ([w.pending[kind]] if kind in w.pending else [])
                assert have in allowed, f"seed {SEED}, kill {kill}, {kind}: {have} is none of {allowed}"
            w.state, w.pending = found, {}
            for secret in rng.sample(sorted(w.live), min(10, len(w.live))):
                assert cell.get("/v1/whoami", key=secret).status == 200, "a key is lost"
            for secret in rng.sample(sorted(w.gone), min(10, len(w.gone))):
                assert cell.get("/v1/whoami", key=secret).status == 401, "a revoked key is back"
        assert w.live and w.gone and w.state["aliases"], "the kills came before the changes"
