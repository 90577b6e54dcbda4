"""A right taken away is gone for every query that starts after the change was acknowledged:
policies, the operator's entities and keys are changed while queries run. Also what
/v1/entities answers, and what the figures say of decisions.

BW_CHANGES sets the number of policy changes (1,000).
"""
import http.client
import itertools
import json
import os
import threading
import urllib.parse

import pytest
from cell import Cell

CHANGES = int(os.environ.get("BW_CHANGES", "1000"))
OPEN = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
        "purposes": ["payroll"], "legal_hold": False}
HELD = dict(OPEN, sensitivity=3)  # the class whose right comes and goes
BASE = """
@id("own") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };
@id("own-collections") permit (principal, action == Bw::Action::"ManageCollection", resource);
@id("admin") permit (principal in Bw::Role::"admin", action in [Bw::Action::"Admin", Bw::Action::"ReadAudit"], resource);
"""
SHUT = BASE + """
@id("shut") forbid (principal, action == Bw::Action::"Query", resource) when { resource.sensitivity >= 3 };
"""
BY_SEAT = BASE + """
@id("by-seat") forbid (principal, action == Bw::Action::"Query", resource) when { resource.sensitivity >= 3 }
unless { principal.tenant has seat && principal.tenant.seat == Bw::Country::"FR" };
"""
SEAT = [{"uid": {"type": "Bw::Tenant", "id": "acme"}, "attrs": {"seat": {"type": "Bw::Country", "id": "FR"}},
         "parents": []}]


class Client:
    """One connection, kept alive."""

    def __init__(self, cell, key):
        u = urllib.parse.urlsplit(cell.url)
        self.http = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
        self.headers = {"api-key": key, "content-type": "application/json"}

    def call(self, method, path, body=None):
        self.http.request(method, path, None if body is None else json.dumps(body), self.headers)
        r = self.http.getresponse()
        return r.status, json.loads(r.read() or b"null")

    def close(self):
        self.http.close()


def ids_of(points):
    return {p["id"] for p in points}


def by_query(c):
    return ids_of(c.call("POST", "/collections/docs/points/query", {"query": [1, 2], "limit": 10})[1]["result"]["points"])


def by_scroll(c):
    return ids_of(c.call("POST", "/collections/docs/points/scroll", {"limit": 10})[1]["result"]["points"])


def by_ids(c):
    return ids_of(c.call("POST", "/collections/docs/points", {"ids": [1, 2, 11, 12]})[1]["result"])


def by_count(c):
    n = c.call("POST", "/collections/docs/points/count", {"exact": True})[1]["result"]["count"]
    return {2: {1, 2}, 4: {1, 2, 11, 12}}.get(n, n)


def by_facet(c):
    return {int(h["value"]) for h in
            c.call("POST", "/collections/docs/facet", {"key": "word", "limit": 10})[1]["result"]["hits"]}


READS = [by_query, by_scroll, by_count, by_facet, by_ids]


@pytest.fixture()
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        assert c.put("/v1/policies", {"policies": BASE}).status == 200
        c.ana = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll"], clearance=5,
                          default_purpose="payroll", labels=OPEN)
        assert c.put("/collections/docs", {"vectors": {"size": 2, "distance": "Dot"}}, key=c.ana).status == 200
        r = c.put("/collections/docs/index?wait=true", {"field_name": "word", "field_schema": "keyword"}, key=c.ana)
        assert r.status == 200, r
        r = c.put("/collections/docs/points?wait=true", {"points": [
            {"id": i, "vector": [1, i], "payload": {"word": str(i), "_labels": OPEN if i < 10 else HELD}}
            for i in (1, 2, 11, 12)]}, key=c.ana)
        assert r.status == 200, r
        yield c


class Load:
    """Readers, and the count of changes that have begun and that are acknowledged: after
    change k the held class is shown when k is even."""

    def __init__(self, cell, threads=3):
        self.cell, self.begun, self.acked, self.stop = cell, 0, 0, False
        self.asked, self.stale, self.broken = 0, [], []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.read, args=(i,)) for i in range(threads)]

    def read(self, i):
        client = Client(self.cell, self.cell.ana)
        try:
            for read in itertools.islice(itertools.cycle(READS), i, None):
                if self.stop:
                    break
                first = self.acked
                seen = read(client)
                last = self.begun
                good = any(seen == shown(k) for k in range(first, last + 1))
                with self.lock:
                    self.asked += 1
                    if not good:
                        self.stale.append((read.__name__, first, last, seen))
        except Exception as e:  # noqa: BLE001 - told by the test itself
            self.broken.append(repr(e))
        finally:
            client.close()

    def run(self, n, change):
        client = Client(self.cell, self.cell.ana)
        for t in self.threads:
            t.start()
        try:
            for k in range(1, n + 1):
                self.begun = k
                change(k)
                self.acked = k
                for read in (READS[k % 5], READS[(k + 2) % 5]):
                    seen = read(client)
                    if seen != shown(k):
                        self.stale.append((read.__name__, k, k, seen))
        finally:
            self.stop = True
            for t in self.threads:
                t.join()
            client.close()
        print("%d changes, %d queries meanwhile, %d stale" % (n, self.asked, len(self.stale)))
        assert self.broken == []
        assert self.stale == []
        assert self.asked > 0


def shown(k):
    return {1, 2, 11, 12} if k % 2 == 0 else {1, 2}


def test_policies__changed_a_thousand_times_are_never_seen_late(cell):
    admin = Client(cell, cell.admin_key)

    def change(k):
        status, body = admin.call("PUT", "/v1/policies", {"policies": SHUT if k % 2 else BASE})
        assert status == 200, body

    Load(cell).run(CHANGES, change)
    version = cell.get("/v1/policies").json()["version"]
    assert version >= CHANGES
    admin.close()


def test_entities__are_never_seen_late(cell):
    admin = Client(cell, cell.admin_key)
    assert cell.put("/v1/entities", {"entities": SEAT}).status == 200
    assert cell.put("/v1/policies", {"policies": BY_SEAT}).status == 200

    def change(k):
        status, body = admin.call("PUT", "/v1/entities", {"entities": [] if k % 2 else SEAT})
        assert status == 200, body

    Load(cell).run(60, change)
    admin.close()


def test_keys__are_gone_when_the_answer_says_so(cell):
    admin, load = Client(cell, cell.admin_key), Load(cell, 2)
    record = {"principal": "tmp", "tenant": "acme", "seat": "FR", "clearance": 5, "roles": ["editor"],
              "purposes": ["payroll"], "default_purpose": "payroll", "safeguards": []}

    def come_and_go(k):
        status, made = admin.call("POST", "/v1/keys", record)
        assert status in (200, 201), made
        client = Client(cell, made["key"])
        assert READS[k % 5](client) == shown(0)
        status, body = admin.call("DELETE", "/v1/keys/" + made["id"])
        assert status == 200, body
        client.http.request("POST", "/collections/docs/points/count", "{}", client.headers)
        r = client.http.getresponse()
        r.read()
        assert r.status == 401
        client.close()

    def change(_):
        for k in range(30):
            come_and_go(k)
        assert admin.call("PUT", "/v1/policies", {"policies": SHUT})[0] == 200

    load.run(1, change)
    admin.close()


def test_classes__that_come_and_go_are_seen_at_once(cell):
    """A set is kept for a list of classes: another list is another set, of the same name too."""
    client = Client(cell, cell.ana)
    for again in range(3):
        expected = by_scroll(client) if again == 0 else set()
        for i in range(20, 32):  # each a class of its own
            labels = dict(OPEN, sensitivity=i % 6, purposes=["payroll", "analysis"][:1 + (i >= 26)])
            status, body = client.call("PUT", "/collections/docs/points?wait=true", {"points": [
                {"id": i, "vector": [1, i], "payload": {"word": str(i), "_labels": labels}}]})
            assert status == 200, body
            expected.add(i)
            status, body = client.call("POST", "/collections/docs/points/scroll", {"limit": 100})
            assert ids_of(body["result"]["points"]) == expected
        assert client.call("DELETE", "/collections/docs")[0] == 200
        assert client.call("PUT", "/collections/docs", {"vectors": {"size": 2, "distance": "Dot"}})[0] == 200
        assert by_scroll(client) == set()
    client.close()


def stated(kind, name, attrs=None, parents=()):
    return {"uid": {"type": "Bw::" + kind, "id": name}, "attrs": attrs or {}, "parents": [{"type": "Bw::Zone", "id": p} for p in parents]}


def country(code):
    return stated("Country", code, {"adequacyCerts": {"gdpr": [], "uk-gdpr": [], "fadp": []}, "localisation": "none-known",
                                    "foreignAccess": "domestic"}, ["EU"])


def test_entities__are_replaced_whole_or_not_at_all(cell):
    first = cell.get("/v1/entities").json()
    assert first["entities"] == []
    r = cell.put("/v1/entities", {"entities": SEAT, "if_digest": first["digest"]})
    assert r.status == 200 and r.json()["entities"] == SEAT, r
    now, policies = cell.get("/v1/entities").json(), cell.get("/v1/policies").json()
    assert now["version"] > first["version"] and now["version"] == policies["version"]
    assert now["digest"] != first["digest"] and now["facts"] != first["facts"]
    assert (policies["entities"], policies["facts"]) == (now["digest"], now["facts"])
    assert policies["digest"] == now["policies"] and policies["catalogue"]

    bad = SEAT + [{"uid": {"type": "Bw::Tenant", "id": "b"}, "attrs": {"nope": 1}, "parents": []}]
    for body, status, pointer in (
            ({"entities": bad}, 422, "/entities/1/attrs"),
            ({"entities": SEAT + [{"uid": {"type": "Nope", "id": "b"}, "attrs": {}, "parents": []}]}, 422, "/entities/1"),
            ({"entities": [1]}, 422, "/entities/0"),
            # Countries and zones are the catalogue's: stated here they would lie where nobody looked.
            ({"entities": SEAT + [country("ZZ")]}, 422, "/entities/1/uid"),
            ({"entities": [country("QX")]}, 422, "/entities/0/uid"),
            ({"entities": [stated("Zone", "mine", parents=["EU"])]}, 422, "/entities/0/uid"),
            ({"entities": [stated("Role", "reader")]}, 422, "/entities/0/uid"),
            ({"entities": [stated("Collection", "acme/docs", {"tenant": {"type": "Bw::Tenant", "id": "acme"}, "name": "docs"})]}, 422, "/entities/0/uid"),
            # A misspelt member would take a fact away unseen.
            ({"entities": [dict(SEAT[0], atrs={})]}, 422, "/entities/0/atrs"),
            ({"entities": [dict(SEAT[0], uid=dict(SEAT[0]["uid"], more="x"))]}, 422, "/entities/0/uid/more"),
            ({"entities": [dict(SEAT[0], uid={"__entity": SEAT[0]["uid"], "more": 1})]}, 422, "/entities/0/uid"),
            ({"entities": {}}, 400, "/entities"),
            ({"entities": [], "if_digest": first["digest"]}, 409, "/if_digest"),
            ({"entities": [], "more": 1}, 400, "/more"),
            ({}, 400, "/entities")):
        r = cell.put("/v1/entities", body)
        assert r.status == status and r.json()["error"]["pointer"].startswith(pointer), r
    assert cell.get("/v1/entities").json() == now  # nothing changed
    for method in (cell.get, lambda p, **k: cell.put(p, {"entities": []}, **k)):
        assert method("/v1/entities", key=cell.ana).status == 403

    # Facts under which nobody could change them back are refused unless forced.
    locked = BASE + '@id("by-fact") forbid (principal, action == Bw::Action::"Admin", resource) ' \
                    'unless { principal.tenant has seat };'
    admin_tenant = cell.get("/v1/whoami").json()["key"]["tenant"]
    seats = SEAT + [dict(SEAT[0], uid={"type": "Bw::Tenant", "id": admin_tenant})]
    assert cell.put("/v1/entities", {"entities": seats}).status == 200
    assert cell.put("/v1/policies", {"policies": locked}).status == 200
    assert cell.put("/v1/entities", {"entities": []}).status == 409
    assert cell.get("/v1/entities").json()["entities"] == seats

    events = cell.get("/v1/audit?event=entities&after=0").json()["events"]
    assert len(events) == 2 and events[-1]["facts"] == cell.get("/v1/entities").json()["facts"]
    kept = cell.get("/v1/entities").json()
    cell.restart()
    again = cell.get("/v1/entities").json()
    assert (again["digest"], again["facts"], again["entities"]) == (kept["digest"], kept["facts"], seats)


def test_figures__tell_what_errored_and_what_was_kept(cell):
    def figures():
        lines = [l.split() for l in cell.get("/metrics").text.splitlines() if l.startswith("bailiwick_")]
        return {name[len("bailiwick_"):]: int(n) for name, n in lines}

    overflow = " + 9223372036854775807 > 0 };"
    assert cell.put("/v1/policies", {"policies": BASE +
        '@id("sum") permit (principal, action == Bw::Action::"Query", resource) when { principal.clearance' + overflow +
        '@id("wide") forbid (principal, action == Bw::Action::"Query", resource) when { resource.sensitivity >= 3 && '
        'resource.sensitivity' + overflow}).status == 200
    before = figures()
    client = Client(cell, cell.ana)
    for _ in range(5):
        assert by_scroll(client) == {1, 2}  # the permit is skipped, the forbid denies
    after = figures()
    assert after["permits_errored_total"] == before["permits_errored_total"] + 1
    assert after["permitted_sets_made_total"] == before["permitted_sets_made_total"] + 1
    assert after["decisions_kept_total"] >= before["decisions_kept_total"] + 4
    status, answer = client.call("POST", "/v1/authorize", {"action": "Query", "labels": HELD})
    assert (status, answer["decision"], answer["policies"]) == (200, "deny", ["wide"])
    assert sorted(answer["errors"]) == ["sum", "wide"]
    assert figures()["forbids_errored_total"] == after["forbids_errored_total"] + 1
    client.close()
