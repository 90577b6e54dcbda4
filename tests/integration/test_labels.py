"""Labels without new clients: rules and detectors at ingest, and relabelling, on a real cell.

The cell stands in France; its rules file is the demo's, with raises. What callers may do is the
default policy set's affair."""
import json
import os
import zlib

import pytest

import cell as cells
from cell import Cell

MODEL = os.path.join(os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick")), "model")
DEMO = os.path.join(cells.SOURCE, "tests", "data", "demo")
IBAN, MAIL, CARD, PHONE = "DE89 3704 0044 0532 0130 00", "jane.doe@example.org", "4111 1111 1111 1111", "+33 1 42 68 53 00"
LOW = {"regimes": ["none"], "residency": ["EU"], "sensitivity": 1, "purposes": ["audit"]}


def rules(*more, detectors=None):
    with open(os.path.join(DEMO, "rules.json")) as f:
        demo = json.load(f)["rules"]
    for r in demo:
        r["name"] = r["match"][:2]
    out = {"rules": list(more) + demo}
    if detectors:
        out["detectors"] = detectors
    return out


RULES = rules({"name": "hr", "match": "hr/*", "metadata": {"dept": "hr-*"}, "labels": dict(LOW, sensitivity=3, categories=["hr"])},
              {"name": "other", "tenant": "acme", "collection": "rules*", "match": "box/*", "labels": LOW},
              {"name": "minutes", "media": "text/markdown", "text": "(?i)minutes of the board", "labels": dict(LOW, sensitivity=4)},
              {"name": "secret", "text": r"(?i)\btop secret\b", "raise": {"sensitivity": 4, "residency": ["FR"]}},
              {"name": "claims", "match": "*/claims/*", "raise": {"legal_hold": True}},
              {"name": "swiss", "text": "only in Bern", "raise": {"residency": ["CH"]}})


class House:
    """A cell, its keys, and short words for calls."""

    def __init__(self, c, folder):
        self.c, self.folder, self.keys = c, folder, {}
        self.key("loader", clearance=5)
        self.key("junior", clearance=2)
        self.key("reader", clearance=5, roles=["reader"])
        self.key("alien", tenant="hosp", clearance=5)

    def key(self, name, tenant="acme", clearance=3, roles=("editor",), purposes=("audit", "care", "hr")):
        self.keys[name] = self.c.key_add(name, tenant, clearance=clearance, roles=list(roles), purposes=list(purposes))
        (self.folder / name).write_text(self.keys[name] + "\n")

    def call(self, path, body, key="loader", status=200):
        r = self.c.post(path, body, key=self.keys[key])
        assert r.status == status, r
        return r.json()

    def ingest(self, collection, source, text, status=200, key="loader", **more):
        return self.call("/v1/ingest", dict(collection=collection, source=source, text=text, create=True, **more), key, status)

    def relabel(self, collection, status=200, key="loader", **body):
        return self.call("/v1/relabel", dict(collection=collection, **body), key, status)

    def points(self, collection, key="loader"):
        r = self.call("/collections/%s/points/scroll" % collection, {"limit": 1000, "with_payload": True, "with_vector": True}, key)
        return r["result"]["points"]

    def event(self, principal, route):
        events = self.c.get("/v1/audit?principal=%s&event=request&limit=1000" % principal).json()["events"]
        return [e for e in events if e.get("route") == route][-1]

    def command(self, *args, key="loader"):
        return self.c.cli(*args, "--url", self.c.url, "--key-file", str(self.folder / key))


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    overlay = {"legal_entities": [{"id": "eucloud", "seat": "FR", "control_zones": ["EU"], "foreign_share_max": "12.5",
                                   "foreign_share_sum": "20.0", "baa_with": [], "certs": [], "source": "test", "date": "2026-11-30"}]}
    (folder / "catalogue.json").write_text(json.dumps(overlay))
    (folder / "rules.json").write_text(json.dumps(RULES))
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL,
              settings={"policies.catalogue": str(folder / "catalogue.json"), "ingest.rules": str(folder / "rules.json"),
                        "labels.detect": "all"}) as c:
        yield House(c, folder)


# ---- rules and detectors ----

def test_documents_are_labelled_by_the_cells_rules(house):
    r = house.command("ingest", os.path.join(DEMO, "documents"), "--collection", "rules-demo")
    assert r.returncode == 3 and "11 stored, 0 unchanged, 0 skipped, 2 refused" in r.stdout, r
    assert "ch/patientendossier.md: 451" in r.stdout and "us/discharge-notes.txt: 451" in r.stdout
    want = {"fr": ["gdpr"], "de": ["gdpr"], "en": ["none"]}
    got = house.points("rules-demo")
    assert {p["payload"]["metadata"]["source"][:2] for p in got} == set(want)
    for p in got:
        assert p["_labels"]["regimes"] == want[p["payload"]["metadata"]["source"][:2]], p
    again = house.command("ingest", os.path.join(DEMO, "documents"), "--collection", "rules-demo")
    assert "0 stored, 11 unchanged, 0 skipped, 2 refused" in again.stdout, again


@pytest.mark.parametrize("source,more,rule,level", [
    ("hr/1.txt", {"metadata": {"dept": "hr-paris"}}, "hr", 3),
    ("box/1.txt", {}, "other", 1),
    ("x/1.md", {}, "minutes", 4),
    ("en/hr/1.txt", {"metadata": {"dept": "hr-paris"}}, "en", 0),
])
def test_the_first_rule_that_holds_gives_the_base(house, source, more, rule, level):
    r = house.ingest("rules1", source, "Minutes of the Board, and nothing else", **more)
    assert r["labelled"] == {"base": "rule", "rule": rule, "raised": [], "found": {}}, r
    assert r["labels"]["sensitivity"] == level and r["labels"]["tenant"] == "acme"


def test_what_nothing_labels_is_refused(house):
    for source, more in (("hr/1.txt", {"metadata": {"dept": "sales"}}), ("hr/1.txt", {}), ("x/1.txt", {}), ("x/1.md", {})):
        r = house.ingest("rules-none", source, "plain", status=422, **more)
        assert "_labels" in r["error"]["message"], r
    assert house.ingest("rules-none", "box/1.txt", "plain", status=422, key="alien")["error"]["pointer"] == "/_labels"
    assert house.c.get("/collections/rules-none", key=house.keys["loader"]).status == 404


def test_findings_raise_and_are_told_by_kind_alone(house):
    text = "# Note\n\nWrite to %s or call %s.\n\nPay to %s.\n" % (MAIL, PHONE, IBAN)
    r = house.ingest("rules1", "box/pay.md", text)
    assert r["labels"]["sensitivity"] == 3 and r["labels"]["categories"] == ["financial", "pi"], r
    assert r["labelled"]["found"] == {"email": 1, "phone": 1, "iban": 1}
    assert r["labelled"]["raised"] == [{"detector": "email", "members": ["sensitivity", "categories"]},
                                       {"detector": "iban", "members": ["sensitivity", "categories"]}]
    event = house.event("loader", "/v1/ingest")
    assert event["labelled"] == r["labelled"] and event["status"] == 200
    for value in (MAIL, IBAN, PHONE):
        assert value not in json.dumps(r) and value not in json.dumps(event)
    [p] = [p for p in house.points("rules1") if p["payload"]["metadata"]["source"] == "box/pay.md"]
    assert p["_labels"]["sensitivity"] == 3
    again = house.ingest("rules1", "box/pay.md", text)
    assert again["unchanged"] and again["labelled"] == r["labelled"]
    # one number less: the document goes down again, by itself
    lower = house.ingest("rules1", "box/pay.md", text.replace(IBAN, "cash"))
    assert lower["labels"]["sensitivity"] == 2 and lower["deleted"] == 1


def test_labels_of_the_request_are_raised_as_well(house):
    r = house.ingest("rules1", "fr/own.txt", "card %s" % CARD, labels=dict(LOW, sensitivity=5))
    assert r["labelled"]["base"] == "request" and r["labels"]["sensitivity"] == 5
    assert r["labelled"]["raised"] == [{"detector": "payment-card", "members": ["categories"]}]


def test_store_is_decided_for_the_raised_set(house):
    house.ingest("rules-junior", "box/a.txt", "a plain text")
    r = house.ingest("rules-junior", "box/b.txt", "Pay to %s" % IBAN, key="junior", status=451)
    assert IBAN not in json.dumps(r)
    assert {p["payload"]["metadata"]["source"] for p in house.points("rules-junior")} == {"box/a.txt"}
    event = house.event("junior", "/v1/ingest")
    assert event["status"] == 451 and event["labelled"]["found"] == {"iban": 1}
    assert [d["action"] for d in event["denied"]] == ["Store"]
    assert house.ingest("rules-junior", "box/b.txt", "Pay in cash", key="junior")["chunks"] == 1
    # a base that may not be stored: not even opened
    broken = dict(collection="rules-junior", source="box/x.pdf", content_base64="JVBERi0=", labels=dict(LOW, sensitivity=5))
    house.call("/v1/ingest", broken, "junior", status=451)
    house.call("/v1/ingest", dict(broken, labels=LOW), "junior", status=422)


def test_rules_about_the_text_raise(house):
    r = house.ingest("rules1", "box/s.txt", "this is TOP SECRET")
    assert (r["labels"]["sensitivity"], r["labels"]["residency"]) == (4, ["FR"])
    assert r["labelled"]["raised"] == [{"rule": "secret", "members": ["residency", "sensitivity"]}]
    r = house.ingest("rules1", "box/claims/1.txt", "a claim")
    assert r["labels"]["legal_hold"] is True
    house.ingest("rules1", "box/claims/1.txt", "another claim", status=451)  # what is held is not replaced
    r = house.ingest("rules1", "box/bern.txt", "only in Bern", status=422)  # EU and Switzerland have no country in common
    assert "residency" in r["error"]["message"] and r["error"]["pointer"] == "/_labels"


def test_points_of_other_clients_are_raised_where_the_cell_says_so(house):
    key = house.keys["loader"]
    house.c.put("/collections/qd", {"vectors": {"size": 2, "distance": "Dot"}}, key=key)
    body = {"points": [{"id": 1, "vector": [1, 0], "payload": {"page_content": "mail " + MAIL, "_labels": LOW}},
                       {"id": 2, "vector": [0, 1], "payload": {"page_content": "nothing", "_labels": LOW}},
                       {"id": 3, "vector": [0, 1], "payload": {"note": MAIL, "_labels": LOW}}]}
    assert house.c.put("/collections/qd/points?wait=true", body, key=key).status == 200
    assert [p["_labels"]["sensitivity"] for p in house.points("qd")] == [2, 1, 1]
    assert house.event("loader", "/collections/{}/points")["found"] == {"email": 1}
    body["points"][0]["payload"]["page_content"] = "pay " + IBAN
    r = house.c.put("/collections/qd/points?wait=true", body, key=house.keys["junior"])
    assert r.status == 451 and IBAN not in r.text, r


def test_wrong_facts_name_the_field(house):
    for body, pointer in (({"metadata": []}, "/metadata"), ({"metadata": {"a": 1}}, "/metadata/a"),
                          ({"metadata": {str(i): "" for i in range(65)}}, "/metadata")):
        r = house.ingest("rules1", "box/1.txt", "t", status=400, **body)
        assert r["error"]["pointer"] == pointer, r


def test_the_command_follows_rules_that_a_client_can_follow(house, tmp_path):
    docs = tmp_path / "docs"
    (docs / "a").mkdir(parents=True)
    (docs / "a" / "x.txt").write_text("one")
    (docs / "a" / "x.md").write_text("two")
    (docs / "old.txt").write_text("three")
    own = tmp_path / "rules.json"
    own.write_text(json.dumps({"rules": [{"match": "old*", "skip": True}, {"media": "text/markdown", "labels": {"sensitivity": 2}},
                                         {"match": "a/*", "labels": {}}]}))
    args = ["ingest", str(docs), "--collection", "client", "--rules", str(own), "--metadata", "dept=hr-1", "--label", "regimes=none",
            "--label", "residency=EU", "--label", "sensitivity=1", "--label", "purposes=audit"]
    r = house.command(*args)
    assert r.returncode == 0 and "2 stored, 0 unchanged, 1 skipped" in r.stdout, r
    assert {p["payload"]["metadata"]["source"]: p["_labels"]["sensitivity"] for p in house.points("client")} == {"a/x.txt": 1, "a/x.md": 2}
    for bad, at in (({"text": "x", "labels": {}}, "/rules/0/text"), ({"match": "[a]", "labels": {}}, "/rules/0/match"),
                    ({"match": "a", "raise": {}}, "/rules/0/raise"), ({"match": "a"}, "/rules/0")):
        own.write_text(json.dumps({"rules": [bad]}))
        r = house.command(*args)
        assert r.returncode == 1 and at in r.stderr, r


def test_new_rules_label_again_and_wrong_ones_do_not_start(tmp_path):
    file = tmp_path / "rules.json"
    first = {"rules": [{"name": "all", "match": "*", "labels": LOW}]}
    file.write_text(json.dumps(first))
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL, settings={"ingest.rules": str(file)}) as c:
        house = House(c, tmp_path)
        assert house.ingest("docs", "a.txt", "plain text")["labels"]["sensitivity"] == 1
        [before] = house.points("docs")
        assert house.ingest("docs", "a.txt", "plain text")["unchanged"]
        first["rules"].append({"name": "up", "raise": {"sensitivity": 3}})
        file.write_text(json.dumps(first))
        c.restart()
        r = house.ingest("docs", "a.txt", "plain text")
        assert not r["unchanged"] and r["deleted"] == 1 and r["labelled"]["raised"] == [{"rule": "up", "members": ["sensitivity"]}]
        [after] = house.points("docs")
        assert after["_labels"]["sensitivity"] == 3 and after["vector"] == before["vector"]
        for bad, at in (({"rules": [{"raise": {"legal_hold": False}}]}, "/rules/0/raise/legal_hold"),
                        ({"rules": [{"labels": dict(LOW, purposes=["audits"])}]}, "/rules/0/labels/purposes"),
                        ({"rules": [{"text": "(", "raise": {}}]}, "/rules/0/text")):
            file.write_text(json.dumps(bad))
            c.stop()
            with pytest.raises(RuntimeError, match="ingest.rules: " + at):
                c.start()
            c.process = None
            d = c.cli("doctor", "--data", c.data)
            assert d.returncode == 1 and "the label rules of ingest are accepted: ingest.rules: " + at in d.stdout, d
            file.write_text(json.dumps(first))
            c.start()
        assert "ok    the label rules of ingest are accepted" in c.cli("doctor", "--data", c.data).stdout


# ---- relabel ----

C = "/collections/"


@pytest.fixture
def shelf(house, request):
    """A collection of points 1 … 4; 5 is hidden from junior. (One for each test: a hold outlives its own.)"""
    key, name = house.keys["loader"], "shelf-%08x" % zlib.crc32(request.node.name.encode())
    assert house.c.put(C + name, {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200
    plain = lambda i, labels, **p: {"id": i, "vector": [i, 1], "payload": dict(p, n=i, page_content="words number %d" % i, _labels=labels)}
    points = [plain(i, dict(LOW, sensitivity=i % 2), _source="s%d" % i) for i in (1, 2, 3, 4)] + [plain(5, dict(LOW, sensitivity=5))]
    assert house.c.put(C + name + "/points?wait=true", {"points": points}, key=key).status == 200
    return name


def levels(house, shelf):
    return {p["id"]: p["_labels"]["sensitivity"] for p in house.points(shelf)}


def test_relabel_moves_points_as_they_are(house, shelf):
    before = {p["id"]: p for p in house.points(shelf)}
    new = dict(LOW, sensitivity=2, categories=["hr"])
    r = house.relabel(shelf, points=[1, 2, 99], labels=new)
    assert (r["moved"], r["unchanged"], r["dry_run"], r["allowed"]) == (2, 0, False, True)
    assert sorted(c["points"] for c in r["classes"]) == [1, 1] and len({c["to"] for c in r["classes"]}) == 1
    assert all(d["decision"] == "allow" for c in r["classes"] for d in c["decisions"])
    after = {p["id"]: p for p in house.points(shelf)}
    assert {i: p["_labels"]["sensitivity"] for i, p in after.items()} == {1: 2, 2: 2, 3: 1, 4: 0, 5: 5}
    for i in (1, 2):
        assert after[i]["_labels"]["categories"] == ["hr"]
        assert (after[i]["payload"], after[i]["vector"]) == (before[i]["payload"], before[i]["vector"])
    found = house.call("/v1/query", {"collection": shelf, "query": "number", "mode": "bm25", "limit": 9})["hits"]
    assert {h["id"]: h["labels"]["sensitivity"] for h in found} == {1: 2, 2: 2, 3: 1, 4: 0, 5: 5}
    again = house.relabel(shelf, points=[1, 2, 99], labels=new)  # once more: nothing
    assert (again["moved"], again["unchanged"], again["classes"]) == (0, 2, [])


def test_relabel_is_one_event(house, shelf):
    r = house.relabel(shelf, filter={"must": [{"key": "n", "range": {"lte": 3}}]}, **{"raise": {"sensitivity": 3, "categories": ["pi"]}})
    assert r["moved"] == 3
    event = house.event("loader", "/v1/relabel")
    assert event["action"] == "Relabel" and event["status"] == 200 and event["collection"] == shelf
    assert event["relabelled"] == [{"from": c["from"], "to": c["to"], "points": c["points"]} for c in r["classes"]]
    assert event["returned"] == 3 and len(event["returned_digest"]) == 32
    assert {i for g in event["ids"] for i in g["ids"]} == {1, 2, 3}
    assert sorted(d["action"] for d in event["allowed"]) == ["Relabel", "Relabel", "Store", "Store"]
    assert {p["action"] for p in event["permitted"]} >= {"Relabel", "Store", "Query"}


def test_raise_goes_up_from_each_set(house, shelf):
    r = house.relabel(shelf, filter={}, **{"raise": {"sensitivity": 1}})
    assert (r["moved"], r["unchanged"]) == (2, 3)
    assert levels(house, shelf) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 5}
    for bad, at in (({"legal_hold": False}, "/raise/legal_hold"), ({"residency": ["CH"]}, "/raise/residency"),
                    ({"tenant": "hosp"}, "/raise/tenant"), ({"purposes": ["audits"]}, "/raise/purposes")):
        r = house.relabel(shelf, points=[1], status=422, **{"raise": bad})
        assert r["error"]["pointer"] == at, r
    assert levels(house, shelf) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 5}


def test_a_dry_run_tells_and_does_nothing(house, shelf):
    before = house.points(shelf)
    r = house.relabel(shelf, filter={}, labels=dict(LOW, residency=["CH"]), dry_run=True)
    assert (r["moved"], r["dry_run"], r["allowed"]) == (0, True, False)
    assert sorted(c["points"] for c in r["classes"]) == [1, 2, 2]
    said = {d["action"]: d for c in r["classes"] for d in c["decisions"]}
    assert said["Relabel"]["decision"] == "allow" and said["Store"]["policies"] == ["residency-move"]
    assert house.points(shelf) == before
    assert "relabelled" not in house.event("loader", "/v1/relabel")
    classes = house.c.get("/v1/classes", key=house.keys["loader"]).text
    assert '"CH"' not in classes
    r = house.relabel(shelf, points=[1], labels=dict(LOW, tenant="hosp"), dry_run=True)
    [store] = [d for d in r["classes"][0]["decisions"] if d["action"] == "Store"]  # of others' labels no policy is named
    assert (store["decision"], store["policies"]) == ("deny", [])
    r = house.relabel(shelf, filter={}, labels=dict(LOW, residency=["FR"]), dry_run=True)
    assert r["allowed"] and house.points(shelf) == before


def test_relabel_is_decided_on_both_sides(house, shelf):
    before = house.points(shelf)
    r = house.relabel(shelf, filter={}, labels=dict(LOW, residency=["CH"]), status=451)
    assert "residency-move" in r["error"]["message"], r
    assert house.relabel(shelf, points=[1], labels=dict(LOW, sensitivity=5), key="junior", status=451)
    assert "reader-reads" in house.relabel(shelf, points=[1], labels=LOW | {"sensitivity": 2}, key="reader", status=451)["error"]["message"]
    assert house.relabel(shelf, points=[1], labels=dict(LOW, tenant="hosp"), status=451)
    assert house.points(shelf) == before
    assert "relabelled" not in house.event("loader", "/v1/relabel")
    # a hold ends by no new label, and keeps the rest of the call where it is
    assert house.relabel(shelf, points=[3], **{"raise": {"legal_hold": True}})["moved"] == 1
    before = house.points(shelf)
    r = house.relabel(shelf, filter={}, labels=dict(LOW, sensitivity=2), status=451)
    assert "legal-hold" in r["error"]["message"], r
    assert house.points(shelf) == before
    denied = house.event("loader", "/v1/relabel")
    assert denied["status"] == 451 and [d["policies"] for d in denied["denied"]] == ["legal-hold"]


def test_what_a_caller_cannot_see_is_not_there(house, shelf):
    r = house.relabel(shelf, points=[5, 77], labels=dict(LOW, sensitivity=2), key="junior")
    absent = house.relabel(shelf, points=[77], labels=dict(LOW, sensitivity=2), key="junior")
    assert r == absent and r["moved"] == 0
    assert house.relabel(shelf, filter={}, labels=dict(LOW, sensitivity=2), key="junior")["moved"] == 4
    assert levels(house, shelf) == {1: 2, 2: 2, 3: 2, 4: 2, 5: 5}
    # junior's own point 5 beside the hidden one: it moves, the other stays as it is
    hidden = [p for p in house.points(shelf) if p["id"] == 5]
    point = {"id": 5, "vector": [0, 0], "payload": {"mine": True, "_labels": LOW}}
    assert house.c.put(C + shelf + "/points?wait=true", {"points": [point]}, key=house.keys["junior"]).status == 200
    assert house.relabel(shelf, points=[5], labels=dict(LOW, sensitivity=2), key="junior")["moved"] == 1
    copies = house.call("/v1/query", {"collection": shelf, "query": "number", "mode": "bm25", "limit": 9})["hits"]
    assert [h["labels"]["sensitivity"] for h in copies if h["id"] == 5] == [5]
    assert hidden[0]["_labels"]["sensitivity"] == 5
    # who sees both copies is asked which one is meant
    r = house.relabel(shelf, points=[5], labels=dict(LOW, sensitivity=2), status=409)
    assert "point 5 is there already" in r["error"]["message"], r


def test_tenants_do_not_reach_each_other(house, shelf):
    theirs = house.c.post("/v1/relabel", {"collection": shelf, "points": [1], "labels": LOW}, key=house.keys["alien"])
    absent = house.c.post("/v1/relabel", {"collection": shelf[::-1], "points": [1], "labels": LOW}, key=house.keys["alien"])
    assert theirs.status == absent.status == 404 and theirs.text.replace(shelf, shelf[::-1]) == absent.text
    house.c.put(C + shelf, {"vectors": {"size": 2, "distance": "Dot"}}, key=house.keys["alien"])
    house.c.put(C + shelf + "/points?wait=true", {"points": [{"id": 1, "vector": [9, 9], "payload": {"_labels": LOW}}]}, key=house.keys["alien"])
    before = house.points(shelf)
    assert house.relabel(shelf, filter={}, labels=dict(LOW, sensitivity=3), key="alien")["moved"] == 1
    assert house.points(shelf) == before
    assert [p["_labels"]["tenant"] for p in house.points(shelf, "alien")] == ["hosp"]
    house.c.delete(C + shelf, key=house.keys["alien"])


@pytest.mark.parametrize("body,pointer", [
    ({"points": [1], "labels": LOW, "dry": True}, "/dry"),
    ({"points": [1], "filter": {}, "labels": LOW}, ""),
    ({"labels": LOW}, ""),
    ({"points": [1]}, ""),
    ({"points": [1], "labels": LOW, "raise": {}}, ""),
    ({"points": [1], "labels": LOW, "dry_run": 1}, "/dry_run"),
    ({"points": 1, "labels": LOW}, None),
    ({"points": [-1], "labels": LOW}, None),
    ({"filter": {"must": [{"keys": "a"}]}, "labels": LOW}, None),
])
def test_wrong_bodies_change_nothing(house, shelf, body, pointer):
    before = house.points(shelf)
    r = house.c.post("/v1/relabel", dict(body, collection=shelf), key=house.keys["loader"])
    assert r.status == 400 and pointer in (None, r.json()["error"]["pointer"]), r
    assert house.points(shelf) == before


def test_labels_have_to_be_whole(house, shelf):
    r = house.relabel(shelf, points=[1], labels={"sensitivity": 2}, status=422)
    assert r["error"]["pointer"] == "/labels/regimes", r


def test_the_command_relabels_and_shows_first(house, shelf):
    args = ["relabel", "--collection", shelf, "--points", "1,2", "--raise", "sensitivity=3", "--raise", "categories=pi"]
    r = house.command(*args, "--dry-run")
    assert r.returncode == 0 and "0 moved" in r.stdout and "it would be allowed" in r.stdout and "Relabel: allow" in r.stdout, r
    assert levels(house, shelf)[1] == 1
    r = house.command(*args)
    assert r.returncode == 0 and "2 moved" in r.stdout and levels(house, shelf)[1] == 3, r
    r = house.command("relabel", "--collection", shelf, "--filter", '{"must": [{"key": "n", "match": {"value": 4}}]}', "--label", "regimes=none",
                      "--label", "residency=CH", "--label", "sensitivity=1", "--label", "purposes=audit", "--dry-run", "--json")
    assert r.returncode == 3 and json.loads(r.stdout)["allowed"] is False, r
    house.ingest("docs", "box/a.txt", "text", labels=LOW)
    r = house.command("relabel", "--collection", "docs", "--source", "box/a.txt", "--raise", "sensitivity=4")
    assert r.returncode == 0 and "1 moved" in r.stdout, r
    assert house.ingest("docs", "box/a.txt", "text", labels=dict(LOW, sensitivity=4))["unchanged"]
    r = house.command("relabel", "--collection", "docs", "--source", "box/a.txt", "--dry-run", "--label", "tenant=hosp",
                      "--label", "regimes=none", "--label", "residency=EU", "--label", "sensitivity=1", "--label", "purposes=audit")
    assert r.returncode == 3 and "  Store: deny by no policy that can be named: none permits it, or " in r.stdout, r
    assert house.command("relabel", "--collection", shelf, "--points", "1").returncode == 2
    assert house.command("relabel", "--collection", "nowhere", "--points", "1", "--raise", "sensitivity=4").returncode == 1


def test_the_log_tells_every_decision_again(house, shelf):
    """All that the tests above asked, raised bases, dry runs and refused moves among them."""
    house.relabel(shelf, points=[1], labels=dict(LOW, sensitivity=2), dry_run=True)
    house.ingest("replayed", "box/1.txt", "mail " + MAIL, labels=LOW)
    r = house.c.post("/v1/policies/replay", {"last": 10000})
    assert r.status == 200 and r.json()["decisions"] > 20, r
    assert (r.json()["not_reproduced"], r.json()["not_in_log"]) == (0, 0), r.json()["reasons"]


def test_a_dev_cell_has_one_class():
    with Cell(dev=True) as c:
        c.put(C + "x", {"vectors": {"size": 2, "distance": "Dot"}})
        assert c.post("/v1/relabel", {"collection": "x", "points": [1], "labels": LOW}).status == 400
        assert c.post("/v1/relabel", {"collection": "y", "points": [1], "labels": LOW}).status == 404
