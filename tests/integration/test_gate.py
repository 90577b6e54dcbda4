"""The gate: who gets in, and what differs for whom (threats rows 3, 4, 7, 8, 14, 19; bug
reports K)."""
import itertools
import json
import os
import re
import threading

import pytest
from cell import Cell, SOURCE

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}
SECRET = dict(LABELS, sensitivity=5, purposes=["analysis"])  # neither sees the other's
OPEN = {"/", "/healthz", "/livez", "/readyz"}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]


def routes():
    """(method, path) of every row of the route tables, read from their source."""
    found = set()
    for name in os.listdir(os.path.join(SOURCE, "server")):
        if not name.endswith(".c"):
            continue
        with open(os.path.join(SOURCE, "server", name)) as f:
            text = f.read()
        for method, pattern in re.findall(r'[({]"(GET|POST|PUT|PATCH|DELETE)",\s*"(/[^"]*)"', text):
            found.add((method, pattern.replace("{}", "x")))
    assert len(found) > 60
    return sorted(found)


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        c.ana = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll", "analysis"], clearance=3,
                          default_purpose="payroll", labels=LABELS)
        c.boss = c.key_add("boss", "acme", roles=["editor"], purposes=["analysis"], clearance=5, labels=SECRET)
        c.other = c.key_add("zoe", "zeta", roles=["editor"], purposes=["payroll"], labels=LABELS)
        make(c, "docs")
        yield c


def make(c, name):
    assert c.put("/collections/" + name, {"vectors": {"size": 2, "distance": "Dot"}}, key=c.ana).status == 200
    r = c.put("/collections/%s/points?wait=true" % name, {"points": [
        {"id": i, "vector": [1, i], "payload": {"n": i}} for i in (1, 2, 3)]}, key=c.ana)
    assert r.status == 200, r


def hidden(c, name):
    r = c.put("/collections/%s/points?wait=true" % name, {"points": [
        {"id": i, "vector": [9, i], "payload": {"n": i, "secret": "x"}} for i in (3, 50, 51)]}, key=c.boss)
    assert r.status == 200, r


def spellings(path):
    yield path
    yield path + "/"
    yield path + "//"
    yield "/" + path
    yield path.upper()
    yield path.replace("/", "//")
    yield "/." + path
    yield "/x/.." + path
    yield "/%2e" + path
    yield path.replace("o", "%6f")
    yield path + "?api-key=x"
    yield path + "%00"
    yield path + ";x=y"


def test_matrix__no_key_no_entry(cell):
    """Every route × methods × spellings, without a key and with a wrong one."""
    wrong = "bw_0123456789ab_" + "A" * 43
    connection = cell.connection()
    tried = 0
    for (_, path), method in itertools.product(routes(), METHODS):
        for spelling in spellings(path):
            if method == "GET" and spelling.split("?")[0] in OPEN | {p + "/" for p in OPEN - {"/"}}:
                continue
            for key in (None, wrong) if spelling == path else (None,):
                try:
                    r = cell.call(method, spelling, key=key, connection=connection)
                except Exception:  # the cell closed a kept connection: once more on a new one
                    connection = cell.connection()
                    r = cell.call(method, spelling, key=key, connection=connection)
                assert r.status == 401, (method, spelling, r)
                if method != "HEAD":
                    assert r.body in (b"Must provide an API key or an Authorization bearer token",
                                      b"Invalid API key or JWT")
                    assert r.headers["content-type"] == "text/plain"
                tried += 1
    print("%d requests refused" % tried)


def test_matrix__open_paths_only_by_get(cell):
    for path in OPEN:
        assert cell.get(path, key=None).status == 200
        for method in METHODS[1:]:
            assert cell.call(method, path, key=None).status == 401, (method, path)
    assert cell.get("/", key=None).json()["version"] == "1.19.0"


def test_keys__headers(cell):
    k = cell.ana
    assert cell.get("/collections", key=k).status == 200
    for value in ("Bearer " + k, "bearer " + k):
        assert cell.get("/collections", key=None, headers={"Authorization": value}).status == 200
    for headers in ({"Authorization": k}, {"Authorization": "Basic " + k}, {"Authorization": "Bearer"},
                    {"Authorization": "Bearer  " + k}, {"api-key": ""}, {"api-key": k + "x"}, {"api-key": k[:-1]},
                    {"api-key": k.upper()}, {"Cookie": "api-key=" + k}, {"X-Api-Key": k},
                    {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-User": "admin"}, {"Forwarded": "for=127.0.0.1"},
                    {"X-User": "admin"}, {"X-Original-URL": "/healthz"}, {"X-HTTP-Method-Override": "GET"},
                    {"SourceID": "1"}, {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}):
        assert cell.get("/collections", key=None, headers=headers).status == 401, headers
    # They change nothing beside a key, either.
    r = cell.get("/v1/keys", key=k, headers={"X-User": "admin", "X-Forwarded-User": "admin"})
    assert r.status == 403


def test_unknown_paths__are_empty_404s(cell):
    for method, path in (("GET", "/nope"), ("GET", "/v1/nope"), ("HEAD", "/collections"), ("OPTIONS", "/collections"),
                         ("PATCH", "/collections"), ("GET", "//collections"), ("GET", "/Collections")):
        r = cell.call(method, path, key=cell.ana)
        assert (r.status, r.body) == (404, b""), (method, path)


def test_purpose__only_inside_the_keys_list(cell):
    path, body = "/collections/docs/points/count", {}
    assert cell.post(path, body, key=cell.ana).json()["result"]["count"] == 3
    ask = lambda **h: cell.post(path, body, key=cell.ana, headers={k.replace("_", "-"): v for k, v in h.items()})
    assert ask(x_bailiwick_purpose="payroll").json()["result"]["count"] == 3
    assert ask(x_bailiwick_purpose="analysis").json()["result"]["count"] == 0  # allowed to say, not in the labels
    for bad in ("marketing", "", "payroll ", "PAYROLL", "payroll,analysis", "*"):
        r = ask(x_bailiwick_purpose=bad)
        assert r.status in (403, 200), bad
        assert bad.strip() in ("payroll",) or r.status == 403, bad
    r = ask(x_bailiwick_safeguards="scc")
    assert r.status == 403 and r.json()["status"]["error"].startswith("Forbidden: ")


def test_access__cell_routes_need_their_action(cell):
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/000000000000"),
                         ("GET", "/v1/policies"), ("PUT", "/v1/policies"), ("POST", "/v1/policies/dry-run"),
                         ("GET", "/v1/audit")):
        r = cell.call(method, path, {} if method in ("POST", "PUT") else None, key=cell.ana)
        assert r.status == 403, (method, path, r)
        assert r.json()["error"]["code"] == "forbidden"


READS = [
    ("GET", "/collections", None), ("GET", "/collections/docs", None), ("GET", "/collections/docs/exists", None),
    ("GET", "/collections/docs/aliases", None), ("GET", "/aliases", None), ("GET", "/metrics", None),
    ("GET", "/telemetry", None), ("GET", "/cluster", None), ("GET", "/collections/docs/cluster", None),
    ("GET", "/v1/classes", None), ("GET", "/v1/collections", None), ("GET", "/v1/whoami", None),
    ("GET", "/collections/docs/points/3", None), ("GET", "/collections/docs/points/50", None),
    ("POST", "/collections/docs/points", {"ids": [1, 3, 50, 51], "with_vector": True}),
    ("POST", "/collections/docs/points/count", {}),
    ("POST", "/collections/docs/points/count", {"filter": {"must": [{"key": "secret", "match": {"value": "x"}}]}}),
    ("POST", "/collections/docs/points/scroll", {"limit": 100, "with_vector": True}),
    ("POST", "/collections/docs/points/query", {"query": [9, 9], "limit": 10, "with_payload": True}),
    ("POST", "/collections/docs/points/query", {"query": 50, "limit": 10}),
    ("POST", "/collections/docs/points/query", {"query": {"recommend": {"positive": [50]}}, "limit": 10}),
    ("POST", "/collections/docs/points/search", {"vector": [9, 9], "limit": 10}),
    ("POST", "/collections/docs/points/query/groups", {"query": [9, 9], "group_by": "n", "limit": 10}),
    ("POST", "/collections/docs/facet", {"key": "n"}),
    ("POST", "/v1/explain", {"action": "Delete", "collection": "docs", "point": 50}), ("POST", "/v1/explain", {"action": "Query", "collection": "docs", "point": 3}),
    ("POST", "/v1/explain/result", {"collection": "docs"}),
]


def answer(r):
    return (r.status, r.body, sorted((k.lower(), v) for k, v in r.headers.items()
                                     if k.lower() not in ("date", "x-bailiwick-request-id")))


def test_reads__hidden_data_changes_no_byte(cell):
    """Row 3: every read endpoint before and after hidden points come and go."""
    cell.put("/collections/docs/index?wait=true", {"field_name": "n", "field_schema": "integer"}, key=cell.ana)
    ask = lambda: [answer(cell.call(m, p, b, key=cell.ana)) for m, p, b in READS]
    before = ask()
    hidden(cell, "docs")
    assert ask() == before
    cell.restart()
    assert ask() == before
    cell.post("/collections/docs/points/delete?wait=true", {"points": [50]}, key=cell.boss)
    assert ask() == before
    boss = cell.post("/collections/docs/points/count", {}, key=cell.boss).json()["result"]["count"]
    assert boss == 2, "the hidden points are not there to be hidden"


def test_forbidden__is_absent(cell):
    """Row 4: a hidden id and one that never was, a foreign collection and none: same bytes."""
    hidden(cell, "docs")
    strip = lambda r, name: (r.status, r.body.replace(name.encode(), b"N"))
    for i in range(200):
        h, a = (50, 60) if i % 2 else (51, 61)
        shapes = [("GET", "/collections/docs/points/%d", None), ("POST", "/collections/docs/points/query", {"query": "%d"}),
                  ("POST", "/collections/docs/points", {"ids": ["%d"]})]
        method, path, body = shapes[i % 3]
        one, two = [cell.call(method, path % n if "%d" in path else path,
                              json.loads(json.dumps(body).replace('"%d"', str(n))) if body else None, key=cell.ana)
                    for n in (h, a)]
        assert strip(one, str(h)) == strip(two, str(a)), (method, path)
    for method, path, body in READS:
        if "docs" not in path:
            continue
        foreign = cell.call(method, path, body, key=cell.other)
        absent = cell.call(method, path.replace("docs", "none"), body, key=cell.other)
        assert strip(foreign, "docs") == strip(absent, "none"), path


def test_objects__foreign_ids_are_out_of_reach(cell):
    """Row 7: every write by a caller of the tenant who may not see the point, and by one of
    another tenant."""
    hidden(cell, "docs")
    sees = lambda: cell.post("/collections/docs/points", {"ids": [50, 51], "with_vector": True}, key=cell.boss).body
    before = sees()
    p = "/collections/docs/points"
    writes = [
        ("POST", p + "/delete?wait=true", {"points": [50, 51]}),
        ("POST", p + "/delete?wait=true", {"filter": {"must": [{"key": "secret", "match": {"value": "x"}}]}}),
        ("POST", p + "/delete?wait=true", {"filter": {"must": [{"has_id": [50, 51]}]}}),
        ("POST", p + "/payload?wait=true", {"payload": {"a": 1}, "points": [50, 51]}),
        ("PUT", p + "/payload?wait=true", {"payload": {"a": 1}, "points": [50, 51]}),
        ("POST", p + "/payload/delete?wait=true", {"keys": ["secret"], "points": [50, 51]}),
        ("POST", p + "/payload/clear?wait=true", {"points": [50, 51]}),
        ("PUT", p + "/vectors?wait=true", {"points": [{"id": 50, "vector": [0, 0]}]}),
        ("POST", p + "/vectors/delete?wait=true", {"points": [50], "vector": [""]}),
        ("POST", p + "/batch?wait=true", {"operations": [{"delete": {"points": [50, 51]}}]}),
        ("PUT", p + "?wait=true", {"points": [{"id": 50, "vector": [0, 0], "payload": {"mine": 1}}]}),
        ("DELETE", "/collections/docs", None),
    ]
    for key in (cell.other, cell.ana):
        for method, path, body in writes:
            if method == "DELETE" and key == cell.ana:
                continue  # managing the collection is her right
            cell.call(method, path, body, key=key)
            assert sees() == before, (method, path)
    # What she wrote under the hidden id is a point of her own class.
    mine = cell.get(p + "/50", key=cell.ana).json()["result"]
    assert mine["payload"] == {"mine": 1}
    cell.post(p + "/delete?wait=true", {"points": [50]}, key=cell.ana)
    assert sees() == before


def test_write__denied_is_451_with_the_policy(cell):
    r = cell.put("/collections/docs/points?wait=true", {"points": [
        {"id": 1, "vector": [1, 1], "payload": {}},
        {"id": 77, "vector": [1, 1], "payload": {"_labels": dict(LABELS, residency=["US"])}}]}, key=cell.ana)
    assert r.status == 451
    assert r.body.startswith(b'{"status":') and b"residency-move" in r.body[:190]
    assert cell.get("/collections/docs/points/77", key=cell.ana).status == 404
    r = cell.put("/collections/docs/points?wait=true", {"points": [
        {"id": 78, "vector": [1, 1], "payload": {"_labels": dict(LABELS, residency=["Atlantis"])}}]}, key=cell.ana)
    assert r.status == 422 and b"_labels" in r.body[:190]


def test_denials__of_another_tenants_labels_name_no_policy():
    """Which policies stand in the way of another tenant's class tells what an operator has
    agreed with that tenant: with whom it has signed, which tenants it knows."""
    phi = {"regimes": ["hipaa"], "residency": ["world"], "sensitivity": 1, "categories": ["phi"], "purposes": ["care"]}
    ref = lambda kind, name: {"__entity": {"type": "Bw::" + kind, "id": name}}

    def facts(signed):
        share = {"__extn": {"fn": "decimal", "arg": "0.0"}}
        return [{"uid": {"type": "Bw::LegalEntity", "id": "eucloud"}, "parents": [], "attrs": {
            "seat": ref("Country", "FR"), "controlZones": [ref("Zone", "FR")], "foreignShareMax": share,
            "foreignShareSum": share, "certs": [], "baaWith": [ref("Tenant", t) for t in signed]}}] + [
                {"uid": {"type": "Bw::Tenant", "id": t}, "parents": [], "attrs": {}} for t in signed]

    with Cell(dev=False, country="FR", operator="eucloud", settings={"cell.hw": "tee"}) as c:
        key = c.key_add("ana", "acme", roles=["editor", "exporter"], purposes=["care"])
        dpo = c.key_add("dee", "acme", roles=["dpo"], purposes=["care"])
        assert c.put("/collections/docs", {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200

        def asks(tenant, key=key):
            labels = dict(phi, tenant=tenant)
            upsert = {"points": [{"id": 5, "vector": [1, 2], "payload": {"_labels": labels}}]}
            dest = {"id": "va1", "country": "US", "operator": "eucloud", "hw": ["tee"]}
            return [(r.status, r.body.replace(tenant.encode(), b"T")) for r in
                    [c.put("/collections/docs/points?wait=true", upsert, key=key)] +
                    [c.post("/v1/authorize", {"action": a, "labels": labels, "dest": dest}, key=key)
                     for a in ("Store", "Transfer", "Export", "Embed", "Replicate")] +
                    [c.post("/v1/authorize", {"action": a, "labels": labels}, key=key) for a in ("Store", "Query")]]

        assert c.put("/v1/entities", {"entities": facts([])}).status == 200
        before = asks("globex")
        told = asks("globex", dpo)
        assert before[0][0] == 451 and b"hipaa-baa" not in before[0][1] and b"hipaa-baa" in told[0][1]
        assert all(b'"deny","policies":[],"errors":[]' in body for _, body in before[1:])
        assert b"hipaa-baa" in told[1][1] and b"hipaa-baa" in asks("acme")[0][1]
        assert c.put("/v1/entities", {"entities": facts(["globex"])}).status == 200
        assert asks("globex") == before and asks("globex", dpo) != told
        assert "hipaa-baa" in c.get("/v1/audit?limit=100").text  # the log has the names


def test_drop__does_not_reach_what_is_held(cell):
    """Neither a held class that she sees nor one that she does not goes with its collection."""
    held, hidden_held = dict(LABELS, legal_hold=True), dict(SECRET, legal_hold=True)
    for labels, key in ((held, cell.ana), (hidden_held, cell.boss)):
        make(cell, "kept")
        r = cell.put("/collections/kept/points?wait=true", {"points": [
            {"id": 9, "vector": [1, 1], "payload": {"_labels": labels}}]}, key=key)
        assert r.status == 200, r
        for caller in (cell.ana, cell.boss):
            r = cell.delete("/collections/kept", key=caller)
            assert r.status == 451 and b"legal-hold" in r.body[:190], r
        assert cell.get("/collections/kept/points/9", key=key).status == 200
        assert cell.post("/collections/kept/points/delete", {"points": [9]}, key=key).status == 451
        # Another collection of the same tenant still goes.
        make(cell, "loose")
        assert cell.delete("/collections/loose", key=cell.ana).json()["result"] is True
        assert cell.delete("/collections/loose", key=cell.ana).json()["result"] is False
        closed = cell.get("/v1/policies").json()["policies"]
        lifted = closed.replace('@id("legal-hold")', '@id("legal-hold") /* lifted */ ').replace(
            "when { resource.legalHold };", "when { false };")
        assert cell.put("/v1/policies", {"policies": lifted.replace("/* lifted */", "")}).status == 200
        assert cell.delete("/collections/kept", key=cell.ana).json()["result"] is True
        assert cell.put("/v1/policies", {"policies": closed}).status == 200


def test_revocation__works_on_an_open_connection(cell):
    key = cell.key_add("tmp", "acme", purposes=["payroll"])
    connection = cell.connection()
    try:
        assert cell.get("/v1/whoami", key=key, connection=connection).status == 200
        ident = cell.get("/v1/whoami", key=key, connection=connection).json()["key"]["id"]
        assert cell.delete("/v1/keys/" + ident).status == 200
        assert cell.get("/v1/whoami", key=key, connection=connection).status == 401
    finally:
        connection.close()
    cell.restart()
    assert cell.get("/v1/whoami", key=key).status == 401
    assert cell.delete("/v1/keys/000000000000").status == 404


def test_keys__refuse_unknown_words(cell):
    good = {"principal": "p", "tenant": "t", "seat": "FR"}
    for change in ({"seat": "XX"}, {"purposes": ["no-such-purpose"]}, {"safeguards": ["no-such"]}, {"clearance": 9},
                   {"labels": {"regimes": ["no-such"]}}, {"extra": 1}, {"principal": "a\nb"}, {"principal": None}):
        r = cell.post("/v1/keys", dict(good, **change))
        assert r.status == 400, (change, r)
        assert set(r.json()["error"]) == {"code", "message", "pointer"}


def test_policies__change_is_atomic_and_durable(cell):
    old = cell.get("/v1/policies").json()
    for bad in ("permit(principal, action, resource", "permit(principal, action == Bw::Action::\"Nope\", resource);",
                "permit(principal is Nobody, action, resource);",
                "permit(principal, action, resource)\nwhen { context.purpose > 1 };"):
        r = cell.put("/v1/policies", {"policies": bad})
        assert r.status == 422, r
        if "purpose" in bad:
            assert r.json()["error"]["message"].startswith("policy0, 2:8: `context.purpose` has type String, ")
        assert cell.get("/v1/policies").json()["policies"] == old["policies"]
    assert cell.put("/v1/policies", {"policies": old["policies"], "if_digest": "0" * 32}).status == 409
    closed = old["policies"] + '\n@id("closed-for-now") forbid (principal, action == Bw::Action::"Query", resource);'
    count = lambda: cell.post("/collections/docs/points/count", {}, key=cell.ana).json()["result"]["count"]
    before = count()
    assert before > 0
    try:
        assert cell.put("/v1/policies", {"policies": closed, "if_digest": old["digest"]}).status == 200
        assert count() == 0
        digest = cell.get("/v1/policies").json()["digest"]
        with open(os.path.join(cell.data, "policies", digest + ".cedar")) as f:
            assert f.read() == closed
        assert cell.get("/v1/audit?after=0&event=policies&limit=1000").json()["events"][-1]["policies"] == digest
        cell.kill9()
        cell.start()
        assert cell.get("/v1/policies").json()["policies"] == closed
        assert count() == 0
    finally:
        assert cell.put("/v1/policies", {"policies": old["policies"]}).status == 200
    assert count() == before


def test_policies__racing_changes_and_readers(cell):
    """Of changes that expect the same digest one wins; a version stands for one digest in the whole log."""
    old = cell.get("/v1/policies").json()
    first = cell.get("/v1/audit?limit=1").json()["head"]["seq"]
    done, statuses = threading.Event(), []

    def read():
        while not done.is_set():
            assert cell.post("/collections/docs/points/count", {}, key=cell.ana).status == 200

    def change(i, digest):
        text = old["policies"] + '\n@id("race-%d") forbid (principal, action, resource) when { false };' % i
        statuses.append(cell.put("/v1/policies", {"policies": text, "if_digest": digest}).status)

    readers = [threading.Thread(target=read) for _ in range(2)]
    try:
        for t in readers:
            t.start()
        for turn in range(4):
            statuses.clear()
            digest = cell.get("/v1/policies").json()["digest"]
            writers = [threading.Thread(target=change, args=(8 * turn + i, digest)) for i in range(6)]
            for t in writers:
                t.start()
            for t in writers:
                t.join()
            assert sorted(statuses) == [200] + [409] * 5
    finally:
        done.set()
        for t in readers:
            t.join()
        assert cell.put("/v1/policies", {"policies": old["policies"]}).status == 200
    seen, after = {}, first
    while after is not None:
        page = cell.get("/v1/audit?limit=1000&after=%d" % after).json()
        for e in page["events"]:
            if "policy_version" in e:
                assert seen.setdefault(e["policy_version"], e["policies"]) == e["policies"], e
        after = page["next"]
    assert len(seen) >= 5


def test_manage__is_decided_on_the_collection_itself(cell):
    """A policy that names a collection holds whatever alias or batch item leads to it."""
    old = cell.get("/v1/policies").json()["policies"]
    make(cell, "kept")
    alias = lambda *actions: cell.post("/collections/aliases", {"actions": list(actions)}, key=cell.ana)
    create = lambda a, c: {"create_alias": {"alias_name": a, "collection_name": c}}
    assert alias(create("kept-as", "kept"), create("docs-as", "docs")).status == 200
    rule = ('\n@id("kept-stays") forbid (principal, action == Bw::Action::"ManageCollection", resource) '
            'when { resource.name == "kept" };')
    names = lambda: sorted(a["alias_name"] for a in cell.get("/aliases", key=cell.ana).json()["result"]["aliases"])
    try:
        assert cell.put("/v1/policies", {"policies": old + rule}).status == 200
        before = names()
        denied = [
            alias(create("docs-too", "docs"), create("kept-too", "kept")),
            alias(create("kept-too", "kept-as")),
            alias({"delete_alias": {"alias_name": "kept-as"}}),
            alias({"rename_alias": {"old_alias_name": "kept-as", "new_alias_name": "other"}}),
            cell.put("/collections/kept-as/index", {"field_name": "n", "field_schema": "integer"}, key=cell.ana),
            cell.call("DELETE", "/collections/kept-as/index/n", key=cell.ana),
            cell.call("PATCH", "/collections/kept-as", {"metadata": {"x": 1}}, key=cell.ana),
            cell.put("/v1/collections/kept-as", {"labels": None}, key=cell.ana),
            cell.put("/collections/kept/index", {"field_name": "n", "field_schema": "integer"}, key=cell.ana)]
        for i, r in enumerate(denied):
            assert r.status == 403 and b"kept-stays" in r.body, (i, r)
        assert names() == before
        for name in ("kept", "kept-as"):
            asked = cell.post("/v1/authorize", {"action": "ManageCollection", "collection": name}, key=cell.ana).json()
            assert asked["decision"] == "deny" and asked["policies"] == ["kept-stays"], asked
        assert alias({"delete_alias": {"alias_name": "docs-as"}}).status == 200
        assert alias({"delete_alias": {"alias_name": "never-was"}}).status == 200
        assert alias(create("x", "never-was")).status == 404
        assert alias().status in (200, 400, 422)
    finally:
        assert cell.put("/v1/policies", {"policies": old}).status == 200
    assert alias({"delete_alias": {"alias_name": "kept-as"}}).status == 200
    assert cell.call("DELETE", "/collections/kept", key=cell.ana).status == 200


def test_policies__dry_run_and_authorize(cell):
    who = {"principal": "raj", "tenant": "acme", "seat": "IN", "clearance": 3, "purposes": ["payroll"],
           "default_purpose": "payroll"}
    ask = lambda body: cell.post("/v1/policies/dry-run", body).json()["results"]
    fr = dict(who, principal="ana", seat="FR")
    got = ask({"requests": [{"principal": who, "action": "Query", "labels": LABELS},
                            {"principal": fr, "action": "Query", "labels": LABELS}]})
    assert [g["decision"] for g in got] == ["deny", "allow"]
    assert got[0]["policies"] == ["gdpr-remote-access"]
    got = ask({"policies": "permit(principal, action, resource);",
               "requests": [{"principal": who, "action": "Query", "labels": LABELS}]})
    assert got[0]["decision"] == "allow"
    r = cell.post("/v1/authorize", {"action": "Query", "labels": SECRET}, key=cell.ana,
                  headers={"x-bailiwick-purpose": "analysis"}).json()
    assert (r["decision"], r["policies"]) == ("deny", [])
    r = cell.post("/v1/authorize", {"action": "Transfer", "labels": LABELS,
                                    "dest": {"id": "va1", "country": "US", "operator": "nobody"}}, key=cell.ana)
    assert r.json()["decision"] == "deny", r
    assert cell.post("/v1/authorize", {"action": "Query", "labels": LABELS, "principal": who},
                     key=cell.ana).status == 400


def test_collections__default_labels(cell):
    key = cell.key_add("nodefault", "acme", roles=["editor"], purposes=["payroll"])
    cell.put("/collections/plain", {"vectors": {"size": 2, "distance": "Dot"}}, key=key)
    point = {"points": [{"id": 1, "vector": [1, 1]}]}
    r = cell.put("/collections/plain/points?wait=true", point, key=key)
    assert r.status == 422 and b"_labels" in r.body[:190]
    assert cell.put("/v1/collections/plain", {"labels": dict(LABELS, regimes=["x"])}, key=key).status == 400
    assert cell.put("/v1/collections/plain", {"labels": LABELS}, key=key).status == 200
    assert cell.put("/collections/plain/points?wait=true", point, key=key).status == 200
    listed = {c["name"]: c["labels"] for c in cell.get("/v1/collections", key=key).json()["collections"]}
    assert listed["plain"] == LABELS
    assert cell.put("/v1/collections/none", {"labels": LABELS}, key=key).status == 404
    assert cell.put("/v1/collections/plain", {"labels": None}, key=key).json()["labels"] is None


def test_audit__records_every_request(cell):
    start = cell.get("/v1/audit?limit=1").json()["head"]["seq"]
    nasty = "docs\u2028\"\\\u009b"
    from urllib.parse import quote
    cell.post("/collections/docs/points/query", {"query": [1, 1], "limit": 2}, key=cell.ana)
    cell.get("/collections/" + quote(nasty), key=cell.ana)
    cell.get("/nope\"%22", key=cell.ana)
    cell.get("/collections/a%1b%0a", key=cell.ana)
    cell.get("/v1/keys", key=cell.ana)
    cell.put("/collections/docs/points?wait=true", {"points": [
        {"id": 1, "vector": [1, 1], "payload": {"_labels": dict(LABELS, residency=["US"])}}]}, key=cell.ana)
    events = cell.get("/v1/audit?after=%d" % start).json()["events"]
    mine = [e for e in events if e.get("principal") == "ana"]
    assert [(e["event"], e.get("status")) for e in mine] == [
        ("request", 200), ("request", 404), ("request", 404), ("request", 400), ("request", 403), ("begin", None), ("request", 451)]
    query = mine[0]
    assert query["returned"] == 2 and len(query["permitted"][0]["set"]) == 32
    assert [len(g["ids"]) for g in query["ids"]] == [2]
    assert query["policies"] and query["catalogue"] and query["key"] in cell.ana
    assert mine[1]["collection"] == nasty
    assert mine[4]["denied"][0]["action"] == "Admin"
    assert mine[6]["denied"][0]["policies"] == "residency-move"
    assert [e["status"] for e in cell.get("/v1/audit?after=%d&status=451" % start).json()["events"]] == [451]
    for bad in ("limit=0", "limit=1001", "after=x", "nope=1", "status=600", "after=99999999999999999999"):
        assert cell.get("/v1/audit?" + bad).status == 400, bad
    done = cell.cli("audit", "verify", "--data", cell.data)
    assert done.returncode == 0, done.stderr
    # No payload, vector or key text in it.
    raw = {n: open(os.path.join(cell.data, "audit", n), "rb").read()
           for n in os.listdir(os.path.join(cell.data, "audit"))}
    assert not any(b"secret" in text or cell.ana.encode() in text for text in raw.values())
    log = b"".join(text for n, text in raw.items() if n != "classes.jsonl")
    assert log.count(b"\n") == sum(1 for line in log.split(b"\n") if line.startswith(b'{"seq":'))


def test_errors__tell_nothing_of_the_machine(cell):
    for r in (cell.put("/collections/docs/points", b"{", key=cell.ana), cell.post("/v1/authorize", b"[]", key=cell.ana),
              cell.get("/collections/docs/points/zzz", key=cell.ana)):
        assert r.status == 400
        assert cell.data.encode() not in r.body and b"sqlite" not in r.body.lower() and b".c:" not in r.body
