"""Replay: the log reproduces itself whatever was asked under whatever rules, and a candidate turns exactly what
it must."""
import http.client
import json
import os
import random
import re
import shutil
import threading
import time

import pytest
from cell import SOURCE, Cell

MODEL = os.environ.get("BW_MODEL", os.path.join(os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick")), "model"))

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}
SECRET = dict(LABELS, sensitivity=5, purposes=["analysis"])
HELD = dict(LABELS, legal_hold=True)
ABROAD = dict(LABELS, residency=["US"])
ADMIN = '@id("admin-cell") permit (principal in Bw::Role::"admin", action, resource);\n'
OWN = ('@id("own") permit (principal, action, resource is Bw::DataClass) when { resource.tenant == principal.tenant };\n'
       '@id("manage") permit (principal, action == Bw::Action::"ManageCollection", resource is Bw::Collection) '
       'when { resource.tenant == principal.tenant };\n')
BASE = ADMIN + OWN


def replay(c, *args, data=None):
    r = c.cli("policy", "replay", *[str(a) for a in args], "--data", data or c.data, "--json")
    return (json.loads(r.stdout) if r.stdout else None), r


def itself(c, data=None):
    report, r = replay(c, "--self", data=data)
    assert report, r.stderr
    assert r.returncode == (report["not_reproduced"] > 0)
    return report


def put_policies(c, text):
    r = c.put("/v1/policies", {"policies": text, "force": True})
    assert r.status == 200, r


def keys(c):
    add = lambda who, tenant, **kw: c.key_add(who, tenant, purposes=["payroll", "analysis"], **kw)
    return {"ana": add("ana", "acme", roles=["editor"], clearance=3, default_purpose="payroll", labels=LABELS),
            "boss": add("boss", "acme", roles=["editor", "dpo"], clearance=5, default_purpose="analysis", labels=SECRET),
            "raj": add("raj", "acme", roles=["reader"], clearance=1, seat="IN", safeguards=["scc", "tia"]),
            "zoe": add("zoe", "zeta", roles=["editor"], clearance=2, default_purpose="payroll", labels=LABELS)}


def traffic(c, k, rng, n):
    """n requests of every kind; none of the answers matters here."""
    new = lambda **kw: {"id": rng.randrange(1, 30), "vector": [1, rng.randrange(9)], "payload": dict({"n": 1}, **kw)}
    who, name = (lambda: rng.choice(sorted(k))), (lambda: rng.choice(["docs", "more", "as"]))
    up = lambda labels: c.put("/collections/%s/points?wait=true" % name(), {"points": [
        new(**({"_labels": rng.choice(labels)} if rng.random() < .7 else {})) for _ in range(rng.randrange(1, 4))]},
        key=k[who()])
    acts = [
        lambda: c.post("/collections/%s/points/query" % name(), {"query": [1, 1], "limit": 3}, key=k[who()]),
        lambda: c.post("/collections/%s/points/query" % name(), {"query": [1, 1], "limit": 3}, key=k[who()],
                       headers={"x-bailiwick-purpose": rng.choice(["payroll", "analysis", "marketing"])}),
        lambda: c.post("/collections/%s/points/count" % name(), {}, key=k[who()], headers={"x-bailiwick-safeguards": "scc"}),
        lambda: c.get("/collections/%s/points/%d" % (name(), rng.randrange(1, 30)), key=k[who()]),
        lambda: up([LABELS, SECRET, HELD, dict(LABELS, sensitivity=2)]), lambda: up([ABROAD, LABELS]),
        lambda: c.post("/collections/%s/points/delete?wait=true" % name(), {"points": [rng.randrange(1, 30)]}, key=k[who()]),
        lambda: c.post("/collections/%s/points/payload?wait=true" % name(), {"payload": {"m": 1}, "points": [1, 2]}, key=k[who()]),
        lambda: c.get("/v1/classes", key=k[who()]), lambda: c.get("/collections", key=k[who()]),
        lambda: c.post("/v1/authorize", {"action": "Query", "labels": SECRET}, key=k[who()]),
        lambda: c.put("/collections/%s" % rng.choice(["docs", "more", "new"]), {"vectors": {"size": 2, "distance": "Dot"}}, key=k[who()]),
        lambda: c.post("/collections/aliases", {"actions": [{"create_alias": {"alias_name": "as", "collection_name": "docs"}}]}, key=k[who()]),
        lambda: c.delete("/collections/new", key=k[who()]), lambda: c.get("/v1/keys", key=k[who()]),
        lambda: c.get("/metrics", key=k[who()]), lambda: c.get("/v1/audit?limit=1", key=k[who()]),
        lambda: c.get("/nope", key=k[who()]), lambda: c.get("/collections", key="bad")]
    for _ in range(n):
        r = rng.choice(acts)()
        assert r.status < 500, r


def company(seat):
    """The operator's company, as an entity: what a rule may ask of it."""
    return [{"uid": {"type": "Bw::LegalEntity", "id": "eucloud"}, "parents": [], "attrs": {
        "seat": {"__entity": {"type": "Bw::Country", "id": seat}}, "controlZones": [], "baaWith": [], "certs": [],
        "foreignShareMax": {"__extn": {"fn": "decimal", "arg": "0.0"}},
        "foreignShareSum": {"__extn": {"fn": "decimal", "arg": "0.0"}}}}]


@pytest.fixture
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        yield c


def test_self__reproduces_mixed_traffic_under_random_rules(cell):
    """Rules drawn anew again and again, in force while requests run, keys revoked, restarts between: 100 %."""
    seed = int(os.environ.get("BW_SEED", "1"))
    print("BW_SEED=%d" % seed)
    rng, k = random.Random(seed), keys(cell)
    original = cell.get("/v1/policies").json()["policies"]
    traffic(cell, k, rng, 60)
    conditions = ["resource.sensitivity >= %d", "principal.clearance > %d", 'context.purpose == "payroll"',
                  'principal in Bw::Role::"reader"', "principal.seat == context.at.country", "resource.legalHold",
                  "context.at.operator.seat == context.at.country", 'context.safeguards.contains("scc")', "resource.regimes.contains(\"gdpr\")",
                  'context has now && context.now > datetime("2020-01-01T00:00:00.%03dZ")']
    for turn in range(int(os.environ.get("BW_ROUNDS", "20" if os.environ.get("BW_NIGHTLY") else "5"))):
        text = BASE
        for i in range(rng.randrange(1, 6)):
            when = rng.choice(conditions)
            when = when % rng.randrange(6) if "%" in when else when
            action = rng.choice(["Query", "Store", "Delete", "Relabel"])
            text += '@id("r%d") %s (principal, action == Bw::Action::"%s", resource is Bw::DataClass) %s { %s };\n' % (
                i, rng.choice(["permit", "forbid"]), action, rng.choice(["when", "unless"]), when)
        put_policies(cell, text if turn % 4 != 3 else original)
        if turn == 1:
            ident = cell.get("/v1/whoami", key=k["zoe"]).json()["key"]["id"]
            assert cell.delete("/v1/keys/" + ident).status == 200
            k["zoe"] = cell.key_add("zoe", "zeta", roles=["reader"], clearance=0, purposes=["payroll"])
        if turn % 2:
            assert cell.put("/v1/entities", {"entities": company(rng.choice(["FR", "US"])), "force": True}).status == 200
        if turn == 2:
            cell.kill9()
            cell.start()
        traffic(cell, k, rng, 40)
    report = itself(cell)
    assert report["not_reproduced"] == 0, report["reasons"]
    assert report["decisions"] > 150 and report["requests"] > 120 and report["candidate"] is False
    again, _ = replay(cell, "--self")
    assert again == report
    # What was in force all along turns nothing that was decided by it.
    texts = os.path.join(cell.data, "policies", cell.get("/v1/policies").json()["digest"] + ".cedar")
    same, r = replay(cell, texts, "--last", 30)
    c = same["candidate"]
    assert (c["to_allow"], c["to_deny"], c["turns"]) == (0, 0, [])
    assert same["reproduced"] == c["allow"] + c["deny"] == same["decisions"]
    # Any other set: everything is either turned or not, and the sums agree.
    other, r = replay(cell, write(cell, "other.cedar", BASE))
    assert other, r.stderr
    c = other["candidate"]
    assert other["reproduced"] == c["allow"] + c["deny"] + c["to_allow"] + c["to_deny"]
    for sums in ("by_principal", "by_action", "by_class"):
        for way in ("to_allow", "to_deny"):
            assert sum(row[way] for row in c[sums]) == c[way], sums
    assert sum(row["decisions"] for row in c["turns"]) == c["to_allow"] + c["to_deny"] > 0


def write(c, name, text):
    path = os.path.join(c.data, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def made(cell):
    """Known traffic under BASE: three queries by ana, one by boss, a write abroad that is allowed, one by zoe."""
    k = keys(cell)
    put_policies(cell, BASE)
    for who in ("ana", "zoe"):
        assert cell.put("/collections/docs", {"vectors": {"size": 2, "distance": "Dot"}}, key=k[who]).status == 200
    point = lambda i, labels: {"points": [{"id": i, "vector": [1, 1], "payload": {"_labels": labels}}]}
    for who, i, labels in (("ana", 1, LABELS), ("ana", 2, ABROAD), ("boss", 3, SECRET), ("zoe", 1, LABELS)):
        assert cell.put("/collections/docs/points?wait=true", point(i, labels), key=k[who]).status == 200
    k["seq"] = cell.get("/v1/audit?limit=1").json()["head"]["seq"] + 2  # that call is an event as well
    for who in ("ana", "ana", "ana", "boss"):
        assert cell.post("/collections/docs/points/query", {"query": [1, 1], "limit": 3}, key=k[who]).status == 200
    return k


def all_routes():
    """(method, path, handler) of every row of the tables, out of their sources: a new route is driven too."""
    found = []
    for name in ("qdrant_routes.c", "v1_routes.c", "v1_ingest.c"):
        with open(os.path.join(SOURCE, "server", name), encoding="utf-8") as f:
            found += re.findall(r'[({]\s*"(GET|POST|PUT|PATCH|DELETE)",\s*"(/[^"]*)",\s*(\w+)', f.read())
    return sorted(found, key=lambda r: (["PUT", "PATCH", "POST", "GET", "DELETE"].index(r[0]), -len(r[1]) * (r[0] == "DELETE"), r))


def route_body(method, pattern, text):
    group = {"group_by": "n", "limit": 2, "group_size": 1}
    point, ids = {"id": 5, "vector": [1, 1], "payload": {"n": 1}}, {"points": [1]}
    who = {"principal": "new", "tenant": "acme", "seat": "FR", "clearance": 0, "roles": []}
    c, p = "/collections/{}", "/collections/{}/points"
    bodies = {
        ("POST", "/collections/aliases"): {"actions": [{"create_alias": {"alias_name": "b", "collection_name": "docs"}}]},
        ("PUT", c): {"vectors": {"size": 2, "distance": "Dot"}}, ("PATCH", c): {"params": {}},
        ("PUT", c + "/index"): {"field_name": "n", "field_schema": "integer"}, ("POST", c + "/facet"): {"key": "n"},
        ("PUT", p): {"points": [point]}, ("POST", p): {"ids": [1]}, ("POST", p + "/delete"): {"points": [78]},
        ("POST", p + "/batch"): {"operations": [{"upsert": {"points": [point]}}, {"delete": {"points": [79]}}]},
        ("PUT", p + "/vectors"): {"points": [{"id": 5, "vector": [1, 2]}]}, ("POST", p + "/vectors/delete"): dict(ids, vector=[""]),
        ("POST", p + "/payload/delete"): dict(ids, keys=["m"]), ("POST", p + "/payload/clear"): {"points": [5]},
        ("POST", p + "/payload"): dict(ids, payload={"m": 1}), ("PUT", p + "/payload"): dict(ids, payload={"m": 1}),
        ("POST", p + "/recommend"): {"positive": [1], "limit": 2}, ("POST", p + "/search"): {"vector": [1, 1], "limit": 3},
        ("POST", p + "/recommend/batch"): {"searches": [{"positive": [1], "limit": 2}]},
        ("POST", p + "/recommend/groups"): dict(group, positive=[1]), ("POST", p + "/query/groups"): dict(group, query=[1, 1]),
        ("POST", p + "/search/groups"): dict(group, vector=[1, 1]), ("POST", p + "/query/batch"): {"searches": [{"query": [1, 1]}]},
        ("POST", p + "/search/batch"): {"searches": [{"vector": [1, 1], "limit": 3}]}, ("POST", p + "/query"): {"query": [1, 1]},
        ("POST", "/v1/ingest"): {"collection": "read", "text": "A text.", "source": "a.txt", "create": True},
        ("POST", "/v1/query"): {"collection": "read", "query": "x"},
        ("POST", "/v1/relabel"): {"collection": "docs", "points": [5], "labels": SECRET}, ("PUT", "/v1/collections/{}"): {"labels": LABELS},
        ("POST", "/v1/authorize"): {"action": "Query", "labels": SECRET}, ("POST", "/v1/explain"): {"action": "Query", "labels": SECRET},
        ("POST", "/v1/explain/result"): {"collection": "docs"}, ("PUT", "/v1/entities"): {"entities": company("FR")},
        ("POST", "/v1/policies/dry-run"): {"requests": [{"principal": who, "action": "Query", "labels": SECRET}]},
        ("POST", "/v1/policies/replay"): {"policies": text, "last": 5}, ("PUT", "/v1/policies"): {"policies": text}, ("POST", "/v1/keys"): who}
    return None if method == "GET" else bodies.get((method, pattern), {})


def test_self__reproduces_every_route():
    """Each route by who may all, some and little: what decides is in the log so that it can be decided again."""
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL) as c:
        every_route(c)


def every_route(cell):
    ana = made(cell)["ana"]
    raj = cell.key_add("raj", "acme", roles=["reader"], clearance=0, seat="IN", purposes=["payroll"])
    limited = BASE + '@id("in") forbid (principal, action, resource is Bw::DataClass) when { principal.seat == Bw::Country::"IN" };\n'
    put_policies(cell, limited)
    best = {}
    for method, pattern, handler in all_routes():
        for key in (raj, cell.admin_key, ana):
            path = pattern.replace("{}", "docs", 1).replace("{}", "n" if "/index/" in pattern else "1")
            r = cell.call(method, path, route_body(method, pattern, limited), key=key)
            assert r.status < 500, (method, path, r)
            if handler not in ("bw_qdrant_not_served", "bw_qdrant_single_node"):
                best[method, pattern] = min(r.status, best.get((method, pattern), 999))
    report = itself(cell)
    assert (report["not_reproduced"], report["not_in_log"]) == (0, 0), report["reasons"]
    missed = {k for k, status in best.items() if status >= 400}
    assert missed == {("DELETE", "/v1/keys/{}")}, missed  # no key of that name


def test_candidate__turns_exactly_what_it_must(cell):
    made(cell)
    shut = BASE + ('@id("no-secrets") forbid (principal, action == Bw::Action::"Query", resource is Bw::DataClass) '
                   'when { resource.sensitivity == 5 };\n'
                   '@id("not-abroad") forbid (principal, action == Bw::Action::"Store", resource is Bw::DataClass) '
                   'when { !(context.dest.country in resource.residency) };\n')
    report, _ = replay(cell, write(cell, "c.cedar", shut), "--last", 4)
    c = report["candidate"]
    # Three classes of acme in each of four queries; one of them is secret.
    assert (report["requests"], report["decisions"], report["not_reproduced"]) == (4, 12, 0)
    assert (c["allow"], c["deny"], c["to_allow"], c["to_deny"], c["requests_changed"]) == (8, 0, 0, 4, 4)
    assert c["by_principal"] == [{"tenant": "acme", "principal": "ana", "to_allow": 0, "to_deny": 3},
                                 {"tenant": "acme", "principal": "boss", "to_allow": 0, "to_deny": 1}]
    assert c["by_action"] == [{"action": "Query", "to_allow": 0, "to_deny": 4}]
    assert [(t["principal"], t["turns"], t["policies"], t["errors"], t["decisions"], t["requests"]) for t in c["turns"]] == [
        ("ana", "deny", "no-secrets", "", 3, 3), ("boss", "deny", "no-secrets", "", 1, 1)]
    secret = c["turns"][0]["class"]
    assert report["classes"] == {secret: dict(SECRET, tenant="acme")}
    assert [(b["kind"], b["name"]) for b in c["by_class"]] == [("class", secret)]
    # All of it: ana's Store abroad turns, once for the label set that she named and once in the set of the write.
    report, _ = replay(cell, os.path.join(cell.data, "c.cedar"))
    stores = [t for t in report["candidate"]["turns"] if t["action"] == "Store"]
    assert {(t["principal"], t["policies"]) for t in stores} == {("ana", "not-abroad"), ("boss", "not-abroad")}
    assert [t["requests"] for t in stores if t["principal"] == "ana"] == [1]
    # Denied under one set, allowed by the other, in words.
    put_policies(cell, shut)
    k = cell.key_add("ben", "acme", roles=["editor"], purposes=["payroll"], labels=ABROAD)
    r = cell.put("/collections/docs/points?wait=true", {"points": [{"id": 9, "vector": [1, 1]}]}, key=k)
    assert r.status == 451
    r = cell.cli("policy", "replay", write(cell, "base.cedar", BASE), "--data", cell.data, "--last", "1")
    assert r.returncode == 0, r.stderr
    assert "under the candidate 2 turn to allow and 0 to deny, in 1 requests" in r.stdout, r.stdout
    assert "  allow Store            class" in r.stdout and "ben of acme: by own (1 requests" in r.stdout
    assert '"residency":["US"]' in r.stdout
    assert itself(cell)["not_reproduced"] == 0


def test_candidate__of_entities_and_catalogue(cell):
    """What the operator knows of its own company changes decisions as rules do."""
    k = made(cell)
    rule = BASE + ('@id("eu-operator") forbid (principal, action == Bw::Action::"Query", resource is Bw::DataClass) '
                   'unless { context.at.operator.seat == context.at.country };\n')
    put_policies(cell, rule)
    cell.post("/collections/docs/points/query", {"query": [1, 1], "limit": 3}, key=k["ana"])
    fr = write(cell, "fr.json", json.dumps(company("FR")))
    report, r = replay(cell, "--entities", fr, "--last", 1)
    c = report["candidate"]
    assert (c["to_allow"], c["to_deny"]) == (3, 0) and {t["policies"] for t in c["turns"]} == {"own"}, r.stdout
    report, _ = replay(cell, "--entities", write(cell, "us.json", json.dumps(company("US"))), "--last", 1)
    c = report["candidate"]
    assert (c["to_allow"], c["to_deny"], c["deny"]) == (0, 0, 3)
    overlay = {"legal_entities": [{"id": "eucloud", "date": "2026-11-30", "source": "test", "seat": "FR", "control_zones": ["EU"], "foreign_share_max": "0.0",
                                   "foreign_share_sum": "0.0", "baa_with": [], "certs": []}]}
    report, r = replay(cell, "--catalogue", write(cell, "o.json", json.dumps(overlay)), "--last", 1)
    assert report, r.stderr
    assert report["candidate"]["to_allow"] == 3
    # In force from now on: what was decided before still reproduces by the facts of then.
    for seat in ("FR", "US"):
        assert cell.put("/v1/entities", {"entities": company(seat)}).status == 200
        assert cell.post("/collections/docs/points/count", {}, key=k["ana"]).json()["result"]["count"] == 3 * (seat == "FR")
    assert itself(cell)["not_reproduced"] == 0
    for bad, said in (("{}", "entities"), ('[{"uid":1}]', "entities"), ("[", "JSON")):
        report, r = replay(cell, "--entities", write(cell, "bad.json", bad))
        assert r.returncode == 1 and not report and r.stderr.startswith("bailiwick policy replay: "), r.stderr
    report, r = replay(cell, write(cell, "bad.cedar", "permit (principal, action, resource) when { context.nope };"))
    assert r.returncode == 1 and not report and "nope" in r.stderr


def test_log__that_lost_something_says_so(cell, tmp_path):
    k = made(cell)
    put_policies(cell, BASE + '@id("none") forbid (principal, action == Bw::Action::"Query", resource);')
    cell.post("/collections/docs/points/query", {"query": [1, 1], "limit": 3}, key=k["ana"])
    digest, facts = cell.get("/v1/policies").json()["digest"], os.listdir(os.path.join(cell.data, "facts"))
    cell.stop()
    whole = itself(cell)
    assert whole["not_reproduced"] == 0

    def without(change):
        data = str(tmp_path / "copy")
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(cell.data, data)
        change(data)
        return itself(cell, data)

    gone = without(lambda d: os.remove(os.path.join(d, "policies", digest + ".cedar")))
    assert gone["not_reproduced"] > 0 and gone["reproduced"] + gone["not_reproduced"] == whole["decisions"]
    assert [r["reason"] for r in gone["reasons"]] == ["policies/%s.cedar is missing" % digest]
    gone = without(lambda d: shutil.copy(os.path.join(d, "cell.json"), os.path.join(d, "policies", digest + ".cedar")))
    assert [r["reason"] for r in gone["reasons"]] == ["policies/%s.cedar does not fit its name" % digest]
    gone = without(lambda d: os.remove(os.path.join(d, "facts", facts[0])))
    assert gone["reproduced"] == 0 and "facts/%s is missing" % facts[0] in gone["reasons"][0]["reason"]
    gone = without(lambda d: shutil.rmtree(os.path.join(d, "schema")))
    assert gone["reproduced"] == 0 and "schema/" in gone["reasons"][0]["reason"]
    gone = without(lambda d: os.remove(os.path.join(d, "audit", "classes.jsonl")))
    assert {r["reason"] for r in gone["reasons"]} == {"the register does not have the labels of a class",
                                                     "the register does not have the list of classes of a set"}
    register = os.path.join("audit", "classes.jsonl")

    def relabel(d):
        with open(os.path.join(d, register)) as f:
            text = f.read()
        with open(os.path.join(d, register), "w") as f:
            f.write(text.replace('"sensitivity":5', '"sensitivity":0'))
    gone = without(relabel)
    assert {r["reason"] for r in gone["reasons"]} == {"the register does not have the labels of a class"}

    # The log itself: one changed, dropped or swapped line, and nothing is said of any decision.
    def tamper(edit):
        data = str(tmp_path / "copy")
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(cell.data, data)
        log = os.path.join(data, "audit", "00000001.jsonl")
        with open(log) as f:
            lines = f.readlines()
        with open(log, "w") as f:
            f.writelines(edit(lines))
        report, r = replay(cell, "--self", data=data)
        assert r.returncode == 1 and report is None, r.stdout
        assert "00000001.jsonl" in r.stderr or "begin with event 1" in r.stderr, r.stderr
    for old, new in (('"status":200', '"status":451'), ('"principal":"', '"principal":"x'), ('"of":"', '"of":"0'),
                     ('"clearance":3', '"clearance":5')):
        def edit(lines):
            i = next(i for i, s in enumerate(lines) if old in s)
            return lines[:i] + [lines[i].replace(old, new, 1)] + lines[i + 1:]
        tamper(edit)
    tamper(lambda s: s[:5] + s[6:])
    tamper(lambda s: s[:4] + [s[5], s[4]] + s[6:])
    tamper(lambda s: s[1:])


def test_route__asks_for_admin_and_read_audit_and_is_bounded(cell):
    reader = cell.key_add("adm", "main", roles=["admin"])
    k = made(cell)
    ask = lambda body, key=None: cell.post("/v1/policies/replay", body, **({"key": key} if key else {}))
    r = ask({"policies": BASE, "last": 4})
    assert r.status == 200 and r.json()["candidate"]["allow"] == 12
    assert ask({}).json()["candidate"] is False and ask({}).json()["not_reproduced"] == 0
    assert ask({"last": 1}, reader).status == 200
    assert ask({}, k["ana"]).status == 403
    put_policies(cell, ADMIN.replace("action, resource", 'action == Bw::Action::"Admin", resource') + OWN)
    assert ask({}).status == 403  # Admin without ReadAudit
    put_policies(cell, BASE)
    for bad in ({"last": 0}, {"last": 10001}, {"last": "1"}, {"nope": 1}, {"policies": 1}, {"entities": {}}, {"catalogue": []},
                {"since": "yesterday"}, {"until": 1}, []):
        assert ask(bad).status == 400, bad
    for bad in ({"policies": "permit"}, {"policies": "permit (principal, action, resource) when { context.nope };"},
                {"entities": ["x"]}, {"catalogue": {"zones": ["x"]}}, {"catalogue": {"zones": [[]]}}):
        assert ask(bad).status == 422, bad
    assert ask(b'{"entities": ' + b"[" * 70 + b"]" * 70 + b"}").status in (400, 422)
    assert ask({"since": "2099-01-01T00:00:00Z"}).json()["requests"] == 0
    assert ask({"until": "2001-01-01T00:00:00Z"}).json()["requests"] == 0
    r = cell.cli("policy", "replay", "--self", "--url", cell.url, "--key-file", write(cell, "admin", cell.admin_key), "--last", "4")
    assert r.returncode == 0 and " reproduced, 0 not" in r.stdout, r.stderr
    for words in ([], ["--self"], ["--self", "x", "--data", "d"], ["x"], ["x", "--data", "d", "--url", "u"],
                  ["--self", "--data", "d", "--nope"]):
        assert cell.cli("policy", "replay", *words).returncode == 2, words
    assert cell.cli("policy", "replay", "--self", "--data", cell.data, "--last", "0").returncode == 1
    assert cell.cli("policy", "replay", "--self", "--data", "/nonexistent").returncode == 1


def test_log__of_ten_thousand_requests_in_several_files():
    """Bounded: equal questions are decided once, and the newest are found without reading all."""
    with Cell(dev=False, country="FR", operator="eucloud", settings={"audit.segment_bytes": 1048576}) as c:
        made(c)
        k = c.key_add("cat", "acme", roles=["editor"], purposes=["payroll"])
        connection = c.connection()
        for _ in range(10000 if os.environ.get("BW_NIGHTLY") else 2500):
            assert c.post("/collections/docs/points/count", {}, key=k, connection=connection).status == 200
        connection.close()
        files = [n for n in os.listdir(os.path.join(c.data, "audit")) if n != "classes.jsonl"]
        assert len(files) > 1
        report = itself(c)
        assert report["not_reproduced"] == 0 and report["decisions"] > 7500
        shut = write(c, "c.cedar", BASE + '@id("shut") forbid (principal, action == Bw::Action::"Query", resource);')
        last, _ = replay(c, shut, "--last", 100)
        assert last["requests"] == 100 and last["candidate"]["to_deny"] == 300
        assert last["to_seq"] - last["from_seq"] == 99
        r = c.post("/v1/policies/replay", {"policies": BASE, "last": 2000})
        assert r.status == 200 and r.json()["requests"] == 2000 and r.json()["candidate"]["to_deny"] == 0
        # A file in the middle that does not hold is met only where it is read.
        c.stop()
        log = os.path.join(c.data, "audit", "00000001.jsonl")
        with open(log, "rb") as f:
            text = f.read()
        with open(log, "wb") as f:
            f.write(text.replace(b'"status":200', b'"status":404', 1))
        assert replay(c, "--self", "--last", 100)[1].returncode == 0
        assert replay(c, "--self")[1].returncode == 1


def test_dry_run__sums_up_what_a_candidate_changes(cell):
    k = keys(cell)
    put_policies(cell, BASE)
    who = lambda p, tenant="acme", **kw: dict({"principal": p, "tenant": tenant, "seat": "FR", "clearance": 3, "roles": []}, **kw)
    ask = lambda **body: cell.post("/v1/policies/dry-run", body)
    shut = BASE + ('@id("shut") forbid (principal, action == Bw::Action::"Query", resource is Bw::DataClass) '
                   'when { resource.sensitivity > 1 || (context has now && context.now > datetime("2030-01-01")) };\n'
                   '@id("own-cell") forbid (principal, action == Bw::Action::"Store", resource is Bw::DataClass) '
                   'unless { context.at.country == context.dest.country };\n'
                   '@id("lead") permit (principal == Bw::Identity::"ana", action == Bw::Action::"Admin", resource);\n')
    requests = [{"principal": who("ana"), "action": "Query", "labels": LABELS},
                {"principal": who("ana"), "action": "Query", "labels": SECRET},
                {"principal": who("zoe", "zeta"), "action": "Query", "labels": dict(SECRET, tenant="acme")},
                {"principal": who("ben"), "action": "Query", "labels": LABELS, "now": "2031-01-01T00:00:00Z"},
                {"principal": who("ben"), "action": "Store", "labels": LABELS,
                 "at": {"id": "va1", "country": "US", "operator": "x"}, "dest": {"id": "par", "country": "FR", "operator": "x"}},
                {"principal": who("ana"), "action": "Admin", "cell": True},
                {"principal": who("ana"), "action": "ManageCollection", "collection": "docs"}]
    now = ask(requests=requests).json()
    assert [d["decision"] for d in now["results"]] == ["allow", "allow", "deny", "allow", "allow", "deny", "allow"]
    assert "summary" not in now and "was" not in now["results"][0]
    r = ask(requests=requests, policies=shut)
    got = r.json()
    assert [(d["was"], d["decision"], d["policies"]) for d in got["results"]] == [
        ("allow", "allow", ["own"]), ("allow", "deny", ["shut"]), ("deny", "deny", ["shut"]), ("allow", "deny", ["shut"]),
        ("allow", "deny", ["own-cell"]), ("deny", "allow", ["lead"]), ("allow", "allow", ["manage"])], r
    s = got["summary"]
    assert (s["allow"], s["deny"], s["to_allow"], s["to_deny"], s["requests_changed"]) == (2, 1, 1, 3, 4)
    assert s["by_principal"] == [{"tenant": "acme", "principal": "ana", "to_allow": 1, "to_deny": 1},
                                 {"tenant": "acme", "principal": "ben", "to_allow": 0, "to_deny": 2}]
    assert {b["kind"] for b in s["by_class"]} == {"class", "cell"}
    assert sorted(c["sensitivity"] for c in got["classes"].values()) == [1, 5]
    rule = BASE + ('@id("eu-operator") forbid (principal, action == Bw::Action::"Query", resource is Bw::DataClass) '
                   'unless { context.at.operator.seat == context.at.country };\n')
    put_policies(cell, rule)
    got = ask(requests=requests[:1], entities=company("FR")).json()
    assert (got["results"][0]["was"], got["results"][0]["decision"], got["summary"]["to_allow"]) == ("deny", "allow", 1)
    assert cell.get("/v1/entities").json()["entities"] == []  # nothing is kept
    for bad in (dict(policies="permit"), dict(entities=[1]), dict(entities=["x"]), dict(catalogue={"zones": ["x"]})):
        assert ask(requests=[], **bad).status in (400, 422), bad
    for bad in ([{"at": 1}], [{"now": "x"}], [{"at": {"id": "x"}}]):
        assert ask(requests=[dict(requests[0], **bad[0])]).status == 400, bad
    assert ask(requests=[{}]).status == ask(requests={}).status == ask().status == 400
    assert cell.post("/v1/authorize", {"action": "Query", "labels": LABELS, "now": "2031-01-01T00:00:00Z"},
                     key=k["ana"]).status == 400
    put_policies(cell, BASE)
    assert ask(requests=requests, policies=shut).body == r.body


def test_put__of_an_invalid_set_names_all_findings_and_keeps_the_old(cell):
    old = cell.get("/v1/policies").json()
    bad = BASE + ('@id("one") forbid (principal, action == Bw::Action::"Query", resource is Bw::DataClass)\n'
                  'when { resource.nope };\n'
                  '@id("two") forbid (principal, action == Bw::Action::"Delete", resource is Bw::DataClass)\n'
                  'when { resource.sensitivity == "high" && resource.tenant.also };\n')
    for force in (False, True):
        r = cell.put("/v1/policies", {"policies": bad, "force": force})
        error = r.json()["error"]
        assert r.status == 422 and error["pointer"] == "/policies" and set(error) == {"code", "message", "pointer", "findings"}
        said = [f["message"] for f in error["findings"] if not f["warning"]]
        assert len(said) >= 2 and any("one" in m and "nope" in m for m in said) and any("two" in m for m in said), said
        assert all(f["line"] > 0 and f["column"] > 0 for f in error["findings"])
        assert error["message"] == said[0]
        assert cell.get("/v1/policies").json() == old
    error = cell.put("/v1/policies", {"policies": "permit"}).json()["error"]
    assert error["findings"] == [] and "line 1" in error["message"]
    event = cell.get("/v1/audit?limit=1").json()["events"][-1]
    assert (event["route"], event["status"]) == ("/v1/policies", 422)
    assert cell.get("/v1/policies").json() == old


def test_self__holds_while_rules_change_and_after_kills(cell):
    """Requests run while rules come and go and the process is killed: whatever was answered is in the log with rules
    that are kept; only what met two changes within one request may be told apart no more, and says so."""
    k = made(cell)
    sets = [BASE] + [BASE + '@id("s%d") forbid (principal, action == Bw::Action::"%s", resource is Bw::DataClass) '
                     'when { resource.sensitivity == %d };\n' % (i, a, 5 * (i % 2)) for i, a in enumerate(["Query", "Store"] * 2)]
    for turn in range(3):
        stop = threading.Event()

        def repeat(call):
            while not stop.is_set():
                try:
                    call()
                except (OSError, http.client.HTTPException):
                    return  # killed

        point = {"points": [{"id": 1, "vector": [1, 1]}]}
        calls = [lambda: cell.put("/v1/policies", {"policies": random.choice(sets)}),
                 lambda: cell.put("/v1/entities", {"entities": company(random.choice(["FR", "US"]))}),
                 lambda: cell.post("/collections/docs/points/query", {"query": [1, 1], "limit": 1}, key=k["ana"]),
                 lambda: cell.put("/collections/docs/points?wait=true", point, key=k["zoe"])]
        threads = [threading.Thread(target=repeat, args=(c,)) for c in calls]
        for t in threads:
            t.start()
        before = cell_events(cell)
        while cell_events(cell) < before + 150:
            time.sleep(0.01)  # polls; how long it takes does not matter
        cell.kill9()
        stop.set()
        for t in threads:
            t.join()
        report = itself(cell)
        left = [r for r in report["reasons"] if "changed while the request ran" not in r["reason"]]
        assert left == [] and report["reproduced"] > 100, report["reasons"]
        cell.start()


def cell_events(c):
    with open(os.path.join(c.data, "audit", "00000001.jsonl"), "rb") as f:
        return f.read().count(b"\n")


def test_walk__check_test_replay_put_explain(cell, tmp_path):
    """The README's walk for a data-protection officer, as it stands there."""
    k = made(cell)
    key, ana = write(cell, "admin", cell.admin_key), write(cell, "ana", k["ana"])
    at = ["--url", cell.url, "--key-file", key]
    new = write(cell, "new.cedar", BASE + '@id("no-secrets") forbid (principal, action == Bw::Action::"Query", '
                'resource is Bw::DataClass) when { resource.sensitivity == 5 };\n')
    write(cell, "cases.json", json.dumps({
        "principals": {"ana": {"tenant": "acme", "seat": "FR", "clearance": 3}}, "classes": {"secret": SECRET},
        "cases": [{"name": "a secret stays one", "principal": "ana", "action": "Query", "class": "secret",
                   "expect": {"decision": "deny", "policies": ["no-secrets"]}}]}))
    run = lambda *words: cell.cli(*words)
    r = run("policy", "check", new)
    assert r.returncode == 0, r.stderr
    r = run("policy", "test", os.path.join(cell.data, "cases.json"), "--policies", new)
    assert (r.returncode, r.stdout) == (0, "1 passed, 0 failed\n"), r.stdout + r.stderr
    r = run("policy", "test", os.path.join(cell.data, "cases.json"), "--policies", new, *at)
    assert (r.returncode, r.stdout) == (0, "1 passed, 0 failed\n"), r.stdout + r.stderr
    r = run("policy", "test", os.path.join(cell.data, "cases.json"), *at)  # by what is in force
    assert r.returncode == 1 and "got      allow by own\n" in r.stdout, r.stdout + r.stderr
    r = run("policy", "replay", new, *at, "--last", "10")
    assert r.returncode == 0 and "0 turn to allow and 4 to deny" in r.stdout, r.stdout + r.stderr
    bad = write(cell, "bad.cedar", BASE + "permit (principal, action, resource) when { context.nope };")
    r = run("policy", "put", bad, *at)
    assert r.returncode == 1 and "refused (422)" in r.stderr and "nope" in r.stderr
    r = run("policy", "put", write(cell, "shut.cedar", OWN), *at)
    assert r.returncode == 1 and "refused (409)" in r.stderr
    assert cell.get("/v1/policies").json()["policies"] == BASE
    r = run("policy", "put", new, *at)
    assert r.returncode == 0 and r.stdout == "in force: %s\n" % cell.get("/v1/policies").json()["digest"], r.stderr
    r = run("explain", "Query", "--url", cell.url, "--key-file", ana, "--label", "regimes=gdpr", "--label", "residency=EEA",
            "--label", "sensitivity=5", "--label", "purposes=analysis")
    assert "no-secrets" in r.stdout, r.stdout + r.stderr
    for command in ("check", "test", "replay", "put", "packs", "compose", "fmt"):
        r = run("policy", command, "--nope")
        assert r.returncode == 2 and r.stderr.startswith("bailiwick policy %s: --nope " % command), r.stderr
    for words in ([], ["x", "--nope"], ["x", "y"]):
        assert run("policy", "put", *words).returncode == 2
