"""/v1/explain and `bailiwick explain`: the reasons, changes that work when they are made,
and not one byte about what the asker may not know: a forbidden class, point or collection
and an absent one answer alike, whatever is stored beside them."""
import json
import os
import subprocess

import pytest
from cell import BINARY, SOURCE, Cell

OPEN = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]}
HIGH = dict(OPEN, sensitivity=5)
PAY = dict(OPEN, purposes=["payroll"])
HELD = dict(OPEN, legal_hold=True)
US = {"id": "va1", "country": "US", "operator": "uscloud", "certs": [], "hw": []}


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        c.low = c.key_add("lou", "acme", clearance=2, roles=["editor"], purposes=["support", "care"])
        c.boss = c.key_add("bea", "acme", clearance=5, roles=["editor"], purposes=["support", "payroll"])
        c.dpo = c.key_add("dee", "acme", clearance=5, roles=["dpo"], purposes=["support"])
        c.alien = c.key_add("al", "hosp", clearance=5, roles=["editor"], purposes=["support"])
        for name, key in (("docs", c.boss), ("theirs", c.alien)):
            assert c.put("/collections/" + name, {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200
        c.ids = {}
        for i, (labels, key, name) in enumerate([(OPEN, c.boss, "docs"), (HIGH, c.boss, "docs"), (HELD, c.boss, "docs"),
                                                 (OPEN, c.alien, "theirs")], 1):
            r = c.put("/collections/%s/points?wait=true" % name, {"points": [{"id": i, "vector": [1, i], "payload": {"_labels": labels}}]}, key=key)
            assert r.status == 200, r
        r = c.put("/collections/docs/points?wait=true", {"points": [{"id": 9, "vector": [1, 9], "payload": {"_labels": PAY}}]},
                  key=c.boss, headers={"x-bailiwick-purpose": "payroll"})
        assert r.status == 200, r
        yield c
        assert c.process.poll() is None, "the process died"


def ask(at, key, status=200, **body):
    r = at.post("/v1/explain", body, key=key)
    assert r.status == status, r
    return r.json()


def class_of(cell, labels, tenant="acme"):
    """Anybody can compute a class's id from its labels."""
    import hashlib
    lists = {k: sorted(labels.get(k, [])) for k in ("regimes", "residency", "categories", "labels", "purposes")}
    text = json.dumps({"tenant": tenant, "regimes": lists["regimes"], "residency": lists["residency"],
                       "sensitivity": labels["sensitivity"], "categories": lists["categories"], "labels": lists["labels"],
                       "purposes": lists["purposes"], "legal_hold": labels.get("legal_hold", False)}, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def raw(r):
    return (r.status, r.body, sorted((k.lower(), v) for k, v in r.headers.items()
                                     if k.lower() not in ("date", "x-bailiwick-request-id")))


def test_explain__says_why_and_what_would_turn_it(cell):
    e = ask(cell, cell.low, action="Query", labels=PAY)
    assert (e["decision"], e["policies"], e["errors"]) == ("deny", ["purpose"], [])
    why = e["because"][0]
    assert why["policy"] == "purpose" and why["why"] == "determining" and why["source"] and why["text"]
    part = [c for c in why["conditions"] if c["is"] is False and "purposes" in c["condition"]][0]
    assert part["values"] == {"resource.purposes": '["payroll"]', "context.purpose": '"support"'}
    assert [{"fact": "purpose", "set": "payroll", "by": "administrator"}] in e["changes"]
    assert e["search"]["complete"] is True and e["rules"]["policies"] == cell.get("/v1/policies").json()["digest"]
    assert e["at"]["country"] == "FR" and e["principal"] == "lou"
    # the boss may claim it herself, and then it is allowed
    e = ask(cell, cell.boss, action="Query", labels=PAY)
    assert [{"fact": "purpose", "set": "payroll", "by": "caller"}] in e["changes"]
    r = cell.post("/v1/explain", {"action": "Query", "labels": PAY}, key=cell.boss, headers={"x-bailiwick-purpose": "payroll"})
    assert r.json()["decision"] == "allow" and "changes" not in r.json()
    assert "residency-at" in [p["policy"] for p in r.json()["because"] if p["why"] == "checked"]
    # no permit: the nearest is named
    e = ask(cell, cell.low, action="Query", labels=HIGH)
    assert e["policies"] == [] and e["because"][0]["why"] == "nearest"
    assert [{"fact": "clearance", "set": "5", "by": "administrator"}] in e["changes"]
    # elsewhere
    e = ask(cell, cell.low, action="Transfer", labels=OPEN, dest=US)
    assert e["policies"] == ["residency-move"] and e["errors"] == ["gdpr-ch5"]  # nobody knows that operator
    assert [{"fact": "dest.country", "set": "FR", "by": "caller"}] in e["changes"], e["changes"]
    assert e["dest"] == US
    e = ask(cell, cell.low, action="ManageCollection", collection="docs")
    assert e["decision"] == "allow" and e["collection"] == "docs"
    e = ask(cell, cell.low, action="Admin", cell=True)
    assert [{"fact": "roles", "add": "admin", "by": "administrator"}] in e["changes"]


def test_explain__stored_things_that_the_caller_may_query(cell):
    one = ask(cell, cell.low, action="Delete", collection="docs", point=3)
    assert one["policies"] == ["legal-hold"] and one["class"] == class_of(cell, HELD)
    assert one["labels"]["legal_hold"] is True
    for body in ({"class": one["class"]}, {"class": one["class"], "collection": "docs"},
                 {"class": one["class"], "collection": "docs", "point": 3}):
        assert ask(cell, cell.low, action="Delete", **body) == one
    # who may not change labels is not told to; the DPO is
    assert not any(c["fact"].startswith("labels.") for s in one["changes"] for c in s)
    told = ask(cell, cell.dpo, action="Delete", collection="docs", point=3)
    assert [{"fact": "labels.legal_hold", "set": "false", "by": "controller"}] in told["changes"]


def forms(cell):
    """(about something forbidden, the same about something absent), for lou of acme."""
    pairs = []
    absent = "ab" * 32
    for action in ("Query", "Delete", "Export", "Store"):
        for there in (class_of(cell, HIGH), class_of(cell, PAY), class_of(cell, OPEN, "hosp")):
            pairs.append(({"action": action, "class": there}, {"action": action, "class": absent}))
            pairs.append(({"action": action, "class": there, "collection": "docs"}, {"action": action, "class": absent, "collection": "docs"}))
            pairs.append(({"action": action, "class": there, "collection": "docs", "point": 1}, {"action": action, "class": absent, "collection": "docs", "point": 1}))
        for there in (2, 9):
            pairs.append(({"action": action, "collection": "docs", "point": there}, {"action": action, "collection": "docs", "point": 77}))
        pairs.append(({"action": action, "collection": "theirs", "point": 4}, {"action": action, "collection": "nobody", "point": 4}))
        pairs.append(({"action": action, "collection": "theirs"}, {"action": action, "collection": "nobody"}))
        pairs.append(({"action": action, "collection": "theirs", "class": class_of(cell, OPEN, "hosp")},
                      {"action": action, "collection": "nobody", "class": class_of(cell, OPEN, "hosp")}))
    pairs.append(({"action": "ManageCollection", "collection": "theirs"}, {"action": "ManageCollection", "collection": "nobody"}))
    return pairs


def test_explain__forbidden_and_absent_are_the_same_bytes(cell):
    pairs = forms(cell)
    for there, absent in pairs:
        got = [cell.post("/v1/explain", b, key=cell.low) for b in (there, absent)]
        strip = lambda r: raw(r)[:1] + (r.body.replace(b"theirs", b"N").replace(b"nobody", b"N"),)
        assert strip(got[0]) == strip(got[1]), (there, got)
    one, two = [cell.post("/v1/explain/result", {"collection": n}, key=cell.low) for n in ("theirs", "nobody")]
    assert one.status == 404 and one.body.replace(b"theirs", b"N") == two.body.replace(b"nobody", b"N")
    print("%d pairs" % len(pairs))


def test_explain__hidden_data_changes_no_byte(cell):
    probes = [("/v1/explain", b) for pair in forms(cell) for b in pair]
    probes += [("/v1/explain", {"action": "Query", "labels": l}) for l in (OPEN, HIGH, PAY, HELD)]
    probes += [("/v1/explain", {"action": "Delete", "collection": "docs", "point": 1}), ("/v1/explain/result", {"collection": "docs"}),
               ("/v1/query", {"query": "x", "collection": "docs", "mode": "bm25", "explain": True})]
    look = lambda: [raw(cell.post(p, b, key=cell.low)) for p, b in probes]
    before = look()
    points = [{"id": i, "vector": [1, i], "payload": {"_labels": l, "page_content": "x"}}
              for i, l in ((1, HIGH), (77, HIGH), (78, dict(HIGH, categories=["pi"])))]
    assert cell.put("/collections/docs/points?wait=true", {"points": points[1:]}, key=cell.boss).status == 200
    assert cell.put("/collections/nobody", {"vectors": {"size": 2, "distance": "Dot"}}, key=cell.alien).status == 200
    assert look() == before
    cell.post("/collections/docs/points/delete?wait=true", {"points": [77, 78]}, key=cell.boss)
    cell.delete("/collections/nobody", key=cell.alien)
    assert look() == before


def test_explain__about_others_wants_read_audit(cell):
    who = {"principal": "max", "tenant": "acme", "seat": "FR", "clearance": 1, "roles": [], "purposes": ["support"], "default_purpose": "support", "safeguards": []}
    for body in ({"principal": who, "action": "Query", "labels": OPEN}, {"event": 1}):
        for key in (cell.low, cell.alien, cell.boss):
            r = cell.post("/v1/explain", body, key=key)
            assert r.status == 403 and r.json()["error"]["code"] == "forbidden", r
    e = ask(cell, cell.dpo, principal=who, action="Query", labels=HIGH)
    assert e["principal"] == "max" and [{"fact": "clearance", "set": "5", "by": "administrator"}] in e["changes"]
    # labels of another tenant would ask about its contracts
    r = cell.post("/v1/explain", {"action": "Query", "labels": dict(OPEN, tenant="hosp")}, key=cell.low)
    assert r.status == 400 and r.json()["error"]["pointer"] == "/labels/tenant"
    assert ask(cell, cell.dpo, action="Query", labels=dict(OPEN, tenant="hosp"))["decision"] == "deny"


def test_explain__a_past_refusal(cell):
    r = cell.put("/collections/docs/points?wait=true", {"points": [{"id": 50, "vector": [1, 1], "payload": {"_labels": HIGH}}]}, key=cell.low)
    assert r.status == 451 and b"/v1/explain" in r.body
    event = cell.get("/v1/audit?status=451&limit=1000").json()["events"][-1]
    e = ask(cell, cell.dpo, event=event["seq"])
    assert e["status"] == 451 and e["rules_changed_since"] is False and len(e["explanations"]) == 1
    one = e["explanations"][0]
    assert one["decision"] == "deny" and one["principal"] == "lou" and one["action"] == "Store" and one["labels"]["sensitivity"] == 5
    assert [{"fact": "clearance", "set": "5", "by": "administrator"}] in one["changes"]
    ask(cell, cell.dpo, status=404, event=10**9)
    # by the rules of then, when others are in force
    old = cell.get("/v1/policies").json()["policies"]
    assert cell.put("/v1/policies", {"policies": old + '@id("later") forbid (principal, action == Bw::Action::"Store", resource);'}).status == 200
    try:
        then = ask(cell, cell.dpo, event=event["seq"])
        now = ask(cell, cell.low, action="Store", labels=HIGH)
        assert now["policies"] == ["later"]
        assert then["rules_changed_since"] is True and then["by_rules_of"] == "then"
        assert then["explanations"][0]["policies"] == one["policies"] == [] and then["explanations"][0]["changes"] == one["changes"]
        assert then["explanations"][0]["rules"]["policies"] == event["policies"] != now["rules"]["policies"]
    finally:
        assert cell.put("/v1/policies", {"policies": old}).status == 200
    # asking left its own events
    asked = [x for x in cell.get("/v1/audit?principal=dee&limit=1000").json()["events"] if x.get("route") == "/v1/explain"]
    assert len(asked) >= 2


@pytest.mark.parametrize("body, pointer", [
    ({}, ""), ({"action": "Fly", "cell": True}, "/action"), ({"action": "Query"}, ""), ({"action": "Query", "labels": 3}, "/labels"),
    ({"action": "Query", "collection": "docs"}, "/action"), ({"action": "Query", "cell": True}, "/action"), ({"action": "Admin", "labels": OPEN}, "/action"),
    ({"action": "ManageCollection", "cell": True}, "/action"), ({"action": "Admin", "collection": "docs"}, "/action"),
    ({"action": "Query", "labels": OPEN, "cell": True}, ""), ({"action": "Query", "class": "xyz"}, "/class"), ({"action": "Query", "class": 7}, "/class"),
    ({"action": "Query", "class": "ab" * 32, "labels": OPEN}, ""), ({"action": "Query", "point": 1}, "/collection"),
    ({"action": "Query", "collection": "docs", "point": []}, "/point"), ({"action": "Query", "collection": 5, "point": 1}, "/collection"),
    ({"action": "Query", "labels": OPEN, "changes_max": 9}, "/changes_max"), ({"action": "Query", "labels": OPEN, "nope": 1}, "/nope"),
    ({"action": "Query", "labels": OPEN, "purpose": "support"}, "/purpose"), ({"action": "Query", "labels": OPEN, "dest": {"id": "x"}}, "/dest"),
    ({"action": "Query", "labels": dict(OPEN, regimes=["nope"])}, "/labels/regimes"), ({"action": "Query", "cell": False}, "/cell"),
])
def test_explain__refuses_what_it_does_not_know(cell, body, pointer):
    r = cell.post("/v1/explain", body, key=cell.low)
    assert r.status == 400, r
    if pointer is not None:
        assert r.json()["error"]["pointer"] == pointer, r


def test_explain__residency_of_a_result(cell):
    r = cell.post("/v1/query", {"query": "anything", "collection": "docs", "mode": "bm25", "explain": True}, key=cell.low).json()
    home = r["residency"]
    assert home["cell"] == {"id": home["cell"]["id"], "country": "FR", "operator": "eucloud", "certs": [], "hw": []}
    assert home["embedding"] is None and home["more_classes"] == 0
    assert sorted(c["class"] for c in home["classes"]) == sorted([class_of(cell, OPEN), class_of(cell, HELD)])
    for c in home["classes"]:
        assert c["decision"] == "allow" and c["policies"] == ["own-tenant"]
        at = [p for p in c["because"] if p["policy"] == "residency-at"][0]
        assert at["conditions"][0]["values"]["context.at.country"] == 'Bw::Country::"FR"'
    assert cell.post("/v1/explain/result", {"collection": "docs", "mode": "bm25"}, key=cell.low).json() == home


# ---- the command line ----

def cli(cell, *args, key=None, tmp=None):
    extra = []
    if key:
        path = os.path.join(str(tmp), "key")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(key)
        extra = ["--url", cell.url, "--key-file", path]
    return subprocess.run([BINARY, "explain", *args, *extra], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


LABELS = ["--label", "regimes=gdpr", "--label", "residency=EU", "--label", "purposes=payroll"]


def test_cli__asks_a_cell(cell, tmp_path):
    r = cli(cell, "Query", *LABELS, "--label", "sensitivity=1", key=cell.low, tmp=tmp_path)
    assert r.returncode == 0, r
    assert "deny" in r.stdout and "purpose" in r.stdout and "resource.purposes.contains(context.purpose)" in r.stdout
    assert 'purpose := payroll (administrator)' in r.stdout, r.stdout
    r = cli(cell, "Query", *LABELS, "--label", "sensitivity=1", "--json", key=cell.low, tmp=tmp_path)
    assert json.loads(r.stdout)["policies"] == ["purpose"]
    r = cli(cell, "Delete", "--collection", "docs", "--point", "3", key=cell.low, tmp=tmp_path)
    assert r.returncode == 0 and "legal-hold" in r.stdout
    r = cli(cell, "--result", "docs", key=cell.low, tmp=tmp_path)
    assert r.returncode == 0 and "own-tenant" in r.stdout and "FR" in r.stdout
    seq = cell.get("/v1/audit?status=451&limit=1000").json()["events"][-1]["seq"]
    r = cli(cell, "--event", str(seq), key=cell.dpo, tmp=tmp_path)
    assert r.returncode == 0 and "clearance := 5 (administrator)" in r.stdout, r
    r = cli(cell, "--event", str(seq), key=cell.low, tmp=tmp_path)
    assert r.returncode == 1 and "ReadAudit" in r.stderr


def test_cli__answers_without_a_cell(tmp_path):
    who = json.dumps({"principal": "ana", "tenant": "acme", "seat": "FR", "clearance": 3, "roles": []})
    r = cli(None, "Query", *LABELS, "--label", "sensitivity=4", "--principal", who, "--purpose", "payroll", "--offline")
    assert r.returncode == 0 and "clearance := 4 (administrator)" in r.stdout, r
    mine = tmp_path / "own.cedar"
    mine.write_text('@id("only-dpo") permit (principal in Bw::Role::"dpo", action, resource);')
    r = cli(None, "Query", *LABELS, "--label", "sensitivity=4", "--principal", who, "--policies", str(mine), "--json")
    assert r.returncode == 0, r
    e = json.loads(r.stdout)
    assert e["changes"] == [[{"fact": "roles", "add": "dpo", "by": "administrator"}]]
    for bad in (["Fly", "--offline"], ["Query", "--offline", "--principal", "{"], ["Query"], [], ["--nope"]):
        r = cli(None, *bad)
        assert r.returncode in (1, 2) and r.stderr and not r.stdout, (bad, r)
