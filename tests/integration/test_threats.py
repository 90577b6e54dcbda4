"""Threats rows 6, 7 and 8 as families, and the holes that attacks on this server found
(each kept under its name). Row 6: injection strings in every string field of every route.
Row 7: every route of the table against every kind of foreign object; a foreign one and an
absent one give the same bytes, and nothing of the foreign one changes. Row 8 (every route
without a key) is test_gate.py's; here the table is walked with a key that may do nothing.
"""
import json
import os
import re
from urllib.parse import quote

import pytest
from cell import Cell, SOURCE

OPEN = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "purposes": ["support"]}
HIGH = dict(OPEN, sensitivity=5)
HELD = dict(OPEN, legal_hold=True)
PAYROLL = dict(OPEN, purposes=["payroll"])
MARK = "zanzibar"  # a word that only hidden points hold
HIDDEN, ABSENT = (90504050, 90504051), (90504060, 90504061)  # long: no key id or time holds one by chance
MODEL = os.path.join(os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick")), "model")


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        c.low = c.key_add("lou", "acme", clearance=2, roles=["editor"], purposes=["support"], labels=OPEN)
        c.boss = c.key_add("bea", "acme", clearance=5, roles=["editor"], purposes=["support", "payroll"])
        c.pay = c.key_add("pat", "acme", clearance=5, roles=["editor"], purposes=["payroll"])
        c.alien = c.key_add("al", "hosp", clearance=5, roles=["editor"], purposes=["support"], labels=OPEN)
        c.mute = c.key_add("mu", "empty", clearance=0, roles=["reader"])
        yield c
        assert c.process.poll() is None, "the process died"
        assert not any("promise broken" in line or "ERROR: AddressSanitizer" in line or "runtime error" in line
                       for line in c.log), "".join(c.log[-50:])


def point(i, labels=None, **payload):
    if labels is not None:
        payload["_labels"] = labels
    return {"id": i, "vector": {"": [1.0, float(i % 97)], "sp": {"indices": [i % 7], "values": [1.0]}}, "payload": payload}


def make(c, name, key, points):
    r = c.put("/collections/" + name, {"vectors": {"": {"size": 2, "distance": "Dot"}}, "sparse_vectors": {"sp": {}}}, key=key)
    assert r.status == 200, r
    for field, kind in (("s", "keyword"), ("n", "integer")):
        assert c.put("/collections/%s/index?wait=true" % name, {"field_name": field, "field_schema": kind}, key=key).status == 200
    r = c.put("/collections/%s/points?wait=true" % name, {"points": points}, key=key)
    assert r.status == 200, r


@pytest.fixture
def coll(cell):
    make(cell, "docs", cell.boss, [point(i, OPEN, s="v%d" % i, n=i, page_content="plain words %d" % i) for i in (1, 2, 3)] +
         [point(i, HIGH, s=MARK, n=i, page_content=MARK) for i in (3,) + HIDDEN])
    yield "/collections/docs"
    cell.delete("/collections/docs", key=cell.boss)


def clean(cell, r):
    """No answer of ours is a fault, names the machine or shows what is hidden."""
    assert r.status < 500, r
    low = r.body.lower()
    for word in (cell.data.encode(), b"sqlite", b"select ", b".c:", b"/engine/", b"no such column", b"syntax error", b"fts5"):
        assert word not in low, r


# ---- row 6 ----

def strings():
    """200 and more strings that mean something to SQL, FTS5, GLOB, JSON, Cedar, paths, shells, logs."""
    base = ["", " ", "'", "''", '"', '""', "`", "\\", "\\\\", ";", "--", "-- ", "/*", "*/", "#", "%", "%%", "_", "?", "??", "*", "**",
            "^", "^a", "a*", "*a", "+", "-", "-a", "(", ")", "()", "(()", "[", "]", "[a-z]", "[^a]", "{", "}", "{}", "[]", "$", "$1", "$$",
            ":a", "@a", "?1", ":1", "|", "||", "&", "&&", "<", ">", "<>", "=", "!=", "~", "\t", "\n", "\r\n", "\x1b[31m", "\x7f", "\u0000",
            "a\u0000b", "\u200b", "\u202e", "\ufeff", "\u2028", "\uff07", "\u02bc", "\u0399", "\U0001f600", "\ud800", "\udfff\ud800",
            "%00", "%27", "%2e%2e", "..", "../", "../../etc/passwd", "/", "//", "\\..\\", "file:///etc/passwd", "C:\\", "NUL", "null",
            "None", "true", "false", "NaN", "Infinity", "1e999", "0x10", "-0", "1.0", "00", "18446744073709551616"]
    sql = ["' or '1'='1", "' or 1=1 --", '" or ""="', "1 or 1=1", "') or ('1'='1", "' union select * from sqlite_master --",
           "'; drop table points; --", "'; attach database '/tmp/x' as y; --", "1; pragma writable_schema=1", "' and 1=0 union all select payload from rec --",
           "x' collate nocase --", "' || (select group_concat(payload) from rec) || '", "%' escape '%", "' limit 100 offset 0 --", "' glob '*",
           "1) or (1=1", "' or class_id is not null --", "' or _labels like '%", "load_extension('x')", "randomblob(1000000000)"]
    fts = ["NEAR", "NEAR(a b, 5)", "a NEAR b", "a NEAR/2 b", "a AND b", "a OR b", "NOT a", "a NOT b", "AND", "OR", "OR OR", "NOT", "payload:a", "text:a",
           "text : zanzibar", "{text}: zanzibar", "- text : a", "^zanzibar", "zanzi*", '"zanzi" *', '"a" + "b"', "a + b", "rowid:1", "rank:1", "*:*",
           "(a OR zanzibar)", "plain OR zanzibar", '"plain" OR "zanzibar"', "plain) OR (zanzibar", 'plain" OR "zanzibar', "optimize", "rebuild",
           "integrity-check", "delete-all", "zanzibar zanzibar", "ZANZIBAR", "z\u0061nzibar"]
    engines = ['{"must":[]}', '{"$ne":null}', '{"$gt":""}', '[{"match_all":{}}]', '"}],"should":[{}]}', 's"}}]}}#', "must", "must_not", "has_id", "class_id",
               "tenant", "_labels", "_labels.tenant", "metadata._labels", "_labels.sensitivity", '"_labels"."tenant"', "s[]", "s[0]", "s.", ".s", "s..n",
               "s[*]", "s[-1]", "s[99999999999999999999]", '"s"', '"s', 's"', "$.s", "/s", "s/../n", "docs/points", "docs%2fpoints", "docs?x=y",
               "permit(principal,action,resource);", 'Bw::Tenant::"hosp"', "acme/docs", "hosp/theirs", "hosp", "acme\" || true || \"", "__proto__",
               "constructor", "${jndi:ldap://127.0.0.1/a}", "{{7*7}}", "<script>alert(1)</script>", "`id`", "$(id)", "|id", "a,b", "support,payroll",
               "(a+)+$", "a" * 255, "a" * 256, "a" * 5000, "\u00e9" * 127, "\u00e9" * 128, "'" * 1000, "((((" * 200, "-" * 500, "* " * 500, "NOT " * 300]
    out = []
    for s in base + sql + fts + engines:
        if s not in out:
            out.append(s)
    assert len(out) >= 200, len(out)
    return out


STRINGS = strings()


def fields(s):
    """Every string field of every route that takes one, with s in it: (method, path, body)."""
    p, q = "/collections/docs", quote(s, safe="", errors="surrogatepass")
    f = lambda **c: {"filter": {"must": [dict({"key": "s"}, **c)]}}
    yield "POST", p + "/points/scroll", f(match={"value": s})
    yield "POST", p + "/points/scroll", f(match={"any": [s, MARK + "x"]})
    yield "POST", p + "/points/scroll", f(match={"except": [s]})
    yield "POST", p + "/points/scroll", f(match={"text": s})
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"key": "page_content", "match": {"text": s}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"key": s, "match": {"value": MARK}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must_not": [{"key": s, "match": {"value": "x"}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"is_empty": {"key": s}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"is_null": {"key": s}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"nested": {"key": s, "filter": {"must_not": [{"key": s, "match": {"value": s}}]}}}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"has_id": [s]}]}}
    yield "POST", p + "/points/scroll", {"filter": {"must": [{"has_vector": s}]}}
    yield "POST", p + "/points/scroll", f(range={"gte": s})
    yield "POST", p + "/points/scroll", {"filter": {s: [{"key": "s", "match": {"value": MARK}}]}}
    yield "POST", p + "/points/scroll", {"order_by": s}
    yield "POST", p + "/points/scroll", {"order_by": {"key": "n", "direction": s}}
    yield "POST", p + "/points/scroll", {"order_by": {"key": "n", "start_from": s}}
    yield "POST", p + "/points/scroll", {"offset": s}
    yield "POST", p + "/points/scroll", {"with_payload": [s]}
    yield "POST", p + "/points/scroll", {"with_payload": {"exclude": [s]}, "with_vector": [s]}
    yield "POST", p + "/points/scroll", {"shard_key": s}
    yield "POST", p + "/points/count", f(match={"value": s})
    yield "POST", p + "/points", {"ids": [s]}
    yield "POST", p + "/facet", {"key": s}
    yield "POST", p + "/points/query", {"query": s}
    yield "POST", p + "/points/query", {"query": [1, 1], "using": s}
    yield "POST", p + "/points/query", {"query": {"fusion": s}, "prefetch": [{"query": [1, 1], "using": s}]}
    yield "POST", p + "/points/query", {"query": {"order_by": s}}
    yield "POST", p + "/points/query", {"query": {"recommend": {"positive": [s], "strategy": s}}}
    yield "POST", p + "/points/query", {"query": 1, "lookup_from": {"collection": s, "vector": s}}
    yield "POST", p + "/points/query/groups", {"query": [1, 1], "group_by": s}
    yield "POST", p + "/points/query/groups", {"query": [1, 1], "group_by": "n", "with_lookup": s}
    yield "POST", p + "/points/search", {"vector": {"name": s, "vector": [1, 1]}, "limit": 5}
    yield "POST", p + "/points/recommend", {"positive": [s], "limit": 5}
    yield "POST", p + "/points/payload?wait=true", {"payload": {"t": 1}, "key": s, "points": [92]}
    yield "POST", p + "/points/payload/delete?wait=true", {"keys": [s], "points": [92]}
    yield "POST", p + "/points/delete?wait=true", {"filter": {"must": [{"key": "q", "match": {"value": s}}]}}
    yield "POST", p + "/points/delete?wait=true", {"points": [s] if not s.isdigit() else [77]}
    yield "POST", p + "/points/vectors/delete?wait=true", {"vector": [s + "x"], "points": [77]}
    yield "PUT", p + "/index", {"field_name": "_x", "field_schema": s}
    yield "DELETE", p + "/index/q" + q, None
    yield "GET", p + "/points/" + q, None
    yield "GET", "/collections/" + q, None
    yield "GET", "/collections/x" + q + "/exists", None
    yield "GET", p + "/points/1?consistency=" + q, None
    yield "PUT", p + "/points?ordering=" + q, {"points": [point(2, OPEN)]}
    yield "POST", "/collections/aliases", {"actions": [{"rename_alias": {"old_alias_name": s, "new_alias_name": "x" + s}}]}
    yield "POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": s, "alias_name": "x"}}]}
    yield "POST", "/v1/query", {"query": s, "collection": "docs", "mode": "bm25"}
    yield "POST", "/v1/query", {"query": "plain", "collection": s, "mode": "bm25"}
    yield "POST", "/v1/query", {"query": "plain", "collection": "docs", "mode": s}
    yield "POST", "/v1/authorize", {"action": s, "labels": OPEN}
    yield "POST", "/v1/authorize", {"action": "ManageCollection", "collection": s}
    yield "POST", "/v1/authorize", {"action": "Query", "labels": dict(OPEN, purposes=[s])}
    yield "POST", "/v1/explain", {"action": s, "labels": OPEN}
    yield "POST", "/v1/explain", {"action": "ManageCollection", "collection": s}
    yield "POST", "/v1/explain", {"action": "Query", "collection": s, "point": s}
    yield "POST", "/v1/explain", {"action": "Query", "class": s}
    yield "POST", "/v1/explain", {"action": "Transfer", "labels": OPEN, "dest": {"id": s, "country": s, "operator": s, "certs": [s], "hw": [s]}}
    yield "POST", "/v1/explain/result", {"collection": s, "mode": s}
    yield "POST", "/v1/ingest", {"collection": s, "source": s, "text": s, "media_type": s}
    yield "POST", "/v1/ingest", {"collection": "docs", "source": "x.txt", "text": "t", "metadata": {s: s}}
    yield "POST", "/v1/relabel", {"collection": s, "points": [s], "labels": OPEN}
    yield "POST", "/v1/relabel", {"collection": "docs", "filter": {"must": [{"key": "s", "match": {"value": s}}]}, "raise": {"labels": [s]}}
    yield "POST", "/v1/relabel", {"collection": "docs", "filter": {"must": [{"key": s, "match": {"value": MARK}}]}, "raise": {"sensitivity": 2}}
    yield "GET", "/v1/collections?x=" + q, None
    for member in ("tenant", "regimes", "residency", "categories", "labels", "purposes"):
        yield "PUT", p + "/points?wait=true", {"points": [point(90, dict(OPEN, **{member: s if member == "tenant" else [s]}))]}
    for fact in ("_expires_at", "_model"):
        yield "PUT", p + "/points?wait=true", {"points": [point(91, OPEN, **{fact: s})]}


def seen_ids(node):
    """All point ids of an answer."""
    if isinstance(node, dict):
        if "id" in node and ("version" in node or "payload" in node or "vector" in node or "score" in node):
            yield node["id"]
        for v in node.values():
            yield from seen_ids(v)
    elif isinstance(node, list):
        for v in node:
            yield from seen_ids(v)


def test_injection__no_string_in_any_field_widens_an_answer(cell, coll):
    boss = lambda: cell.post(coll + "/points/scroll", {"filter": {"must": [{"key": "s", "match": {"value": MARK}}]}, "with_vector": True},
                             key=cell.boss).body
    before = boss()
    assert before.count(MARK.encode()) >= 6
    connection = cell.connection()
    tried = answered = 0
    for s in STRINGS:
        cell.put(coll + "/points?wait=true", {"points": [point(92, OPEN, s="w")]}, key=cell.low, connection=connection)
        for method, path, body in fields(s):
            raw = json.dumps(body).encode() if body is not None else None
            try:
                r = cell.call(method, path, raw, key=cell.low, connection=connection)
            except Exception:  # the cell closed a kept connection
                connection = cell.connection()
                r = cell.call(method, path, raw, key=cell.low, connection=connection)
            assert r.status < 500, (method, path, body, r)
            low = r.body.lower()
            assert cell.data.encode() not in r.body and b"sqlite_" not in low.replace(s.lower().encode("utf-8", "replace"), b""), (path, body, r)
            if r.status == 200:
                answered += 1
                if r.body:
                    assert not set(seen_ids(r.json())) & set(HIDDEN), (method, path, body, r)
                    if MARK not in s.lower():
                        assert MARK.encode() not in r.body, (method, path, body, r)
            tried += 1
        for i in (90, 91, 92):
            cell.post(coll + "/points/delete?wait=true", {"points": [i]}, key=cell.low, connection=connection)
    print("%d requests, %d of them answered" % (tried, answered))
    assert boss() == before
    assert answered > tried / 5
    assert cell.get("/collections", key=cell.low).json()["result"]["collections"] == [{"name": "docs"}]


def test_injection__a_value_matches_itself_alone(cell, coll):
    """4xx or the literal: each string as a payload value is found by match and by nothing else."""
    good = [s for s in STRINGS if "\u0000" not in s and not any(0xD800 <= ord(ch) < 0xE000 for ch in s)]
    r = cell.put(coll + "/points?wait=true", {"points": [point(1000 + i, OPEN, s=s) for i, s in enumerate(good)]}, key=cell.low)
    assert r.status == 200, r
    for i, s in enumerate(good):
        for how in ({"value": s}, {"any": [s]}):
            r = cell.post(coll + "/points/scroll", {"limit": 300, "with_payload": False, "filter": {"must": [{"key": "s", "match": how}]}}, key=cell.low)
            assert r.status == 200 and [p["id"] for p in r.json()["result"]["points"]] == [1000 + i], (s, r)
    r = cell.post(coll + "/points/delete?wait=true", {"filter": {"must": [{"key": "s", "match": {"value": "'; drop table points; --"}}]}}, key=cell.low)
    assert r.json()["result"]["points_deleted"] == 1


def test_injection__headers_choose_from_the_keys_list_only(cell, coll):
    allowed = {"support", ""}
    for s in STRINGS:
        if any(ord(ch) < 32 or ord(ch) > 255 or ord(ch) == 127 for ch in s) or len(s) > 4000:
            continue
        for name in ("x-bailiwick-purpose", "x-bailiwick-safeguards"):
            r = cell.post(coll + "/points/count", {}, key=cell.low, headers={name: s})
            clean(cell, r)
            if name.endswith("purpose"):
                assert r.status in (400, 403) or s.strip() in allowed, (s, r)
            else:
                assert r.status in (400, 403) or s.replace(",", "").strip() == "", (s, r)


SHUT = '\nforbid(principal, action == Bw::Action::"Admin", resource);'


def test_injection__administration(cell):
    policies = cell.get("/v1/policies").json()["digest"]
    keys = len(cell.get("/v1/keys").json()["keys"])
    made = 0
    for s in STRINGS:
        for field in ("principal", "tenant", "seat", "roles", "purposes", "safeguards", "default_purpose"):
            record = {"principal": "p", "tenant": "t", "seat": "FR", "roles": [], "purposes": [], "safeguards": []}
            record[field] = [s] if isinstance(record.get(field), list) else s
            r = cell.post("/v1/keys", json.dumps(record).encode())
            clean(cell, r)
            if r.status == 200:
                assert re.fullmatch(r"[A-Za-z0-9_.@:+-]+", s), (field, s)
                made += 1
            else:
                assert r.status == 400, r
        clean(cell, cell.delete("/v1/keys/" + quote(s, safe="", errors="surrogatepass")))
        r = cell.put("/v1/policies", json.dumps({"policies": s + SHUT}).encode())
        assert r.status in (400, 409, 422), (s, r)  # never a set in force: it would shut this key out
        for param in ("principal", "key", "action", "collection", "event"):
            r = cell.get("/v1/audit?%s=%s&limit=5" % (param, quote(s, safe="", errors="surrogatepass")))
            clean(cell, r) if r.status != 200 else None
            if r.status == 200:
                for e in r.json()["events"]:
                    assert e.get(param, "")[:200] == s[:200] or s == "", (param, s, e)
    assert cell.get("/v1/policies").json()["digest"] == policies
    assert len(cell.get("/v1/keys").json()["keys"]) == keys + made


# ---- row 7 ----

def table():
    found = []
    for name in ("qdrant_routes.c", "v1_routes.c", "v1_ingest.c"):
        with open(os.path.join(SOURCE, "server", name)) as f:
            found += re.findall(r'[({]"(GET|POST|PUT|PATCH|DELETE)",\s*"(/[^"]*)"', f.read())
    assert len(found) > 60
    return found


def bodies(c, i):
    """A body for each route: collection c, point i."""
    flt = {"must": [{"has_id": [i]}]}
    q = {"query": i, "limit": 3}
    return {
        "PUT /collections/{}": [{"vectors": {"size": 2, "distance": "Dot"}}],
        "PATCH /collections/{}": [{"metadata": {"a": 1}}],
        "POST /collections/aliases": [
            {"actions": [{"create_alias": {"collection_name": c, "alias_name": "grab"}}]},
            {"actions": [{"rename_alias": {"old_alias_name": c, "new_alias_name": "grab"}}]},
            {"actions": [{"delete_alias": {"alias_name": c}}]}],
        "PUT /collections/{}/index": [{"field_name": "zz", "field_schema": "keyword"}],
        "PUT /collections/{}/points": [{"points": [point(i, OPEN, s="mine")]}, {"batch": {"ids": [i], "vectors": [[1, 1]], "payloads": [{"_labels": OPEN}]}},
                                       {"points": [point(i, OPEN)], "update_mode": "update_only"},
                                       {"points": [point(i, OPEN)], "update_filter": {"must": [{"key": "s", "match": {"value": MARK}}]}, "update_mode": "update_only"}],
        "POST /collections/{}/points": [{"ids": [i], "with_vector": True}],
        "POST /collections/{}/points/delete": [{"points": [i]}, {"filter": flt}, {"filter": {"must": [{"key": "s", "match": {"value": MARK}}]}}],
        "POST /collections/{}/points/payload": [{"payload": {"x": 1}, "points": [i]}, {"payload": {"x": 1}, "filter": flt}],
        "PUT /collections/{}/points/payload": [{"payload": {"x": 1}, "points": [i]}],
        "POST /collections/{}/points/payload/delete": [{"keys": ["s"], "points": [i]}],
        "POST /collections/{}/points/payload/clear": [{"points": [i]}, {"filter": flt}],
        "PUT /collections/{}/points/vectors": [{"points": [{"id": i, "vector": [0, 0]}]}],
        "POST /collections/{}/points/vectors/delete": [{"vector": [""], "points": [i]}],
        "POST /collections/{}/points/batch": [{"operations": [o]} for o in (
            {"delete": {"points": [i]}}, {"set_payload": {"payload": {"x": 1}, "points": [i]}}, {"overwrite_payload": {"payload": {}, "points": [i]}},
            {"clear_payload": {"points": [i]}}, {"delete_payload": {"keys": ["s"], "points": [i]}}, {"delete_vectors": {"vector": [""], "points": [i]}},
            {"update_vectors": {"points": [{"id": i, "vector": [0, 0]}]}})],
        "POST /collections/{}/points/scroll": [{"filter": flt}, {"offset": i, "limit": 2}, {"order_by": "n"}],
        "POST /collections/{}/points/count": [{"filter": flt}, {}],
        "POST /collections/{}/facet": [{"key": "s"}, {"key": "s", "filter": flt}],
        "POST /collections/{}/points/query": [q, {"query": {"recommend": {"positive": [i]}}}, {"query": {"recommend": {"positive": [1], "negative": [i]}}},
                                              {"prefetch": [q], "query": {"fusion": "rrf"}}, {"query": i, "lookup_from": {"collection": c}},
                                              {"query": {"nearest": i, "mmr": {"diversity": 0.5}}}, {"query": [1, 1], "filter": flt}],
        "POST /collections/{}/points/query/batch": [{"searches": [{"query": [1, 1]}, q]}],
        "POST /collections/{}/points/query/groups": [{"query": i, "group_by": "s"}, {"query": [1, 1], "group_by": "n", "with_lookup": c}],
        "POST /collections/{}/points/search": [{"vector": [1, 1], "limit": 9, "filter": flt}],
        "POST /collections/{}/points/search/batch": [{"searches": [{"vector": [1, 1], "limit": 9}]}],
        "POST /collections/{}/points/search/groups": [{"vector": [1, 1], "limit": 9, "group_by": "s"}],
        "POST /collections/{}/points/recommend": [{"positive": [i], "limit": 9}],
        "POST /collections/{}/points/recommend/batch": [{"searches": [{"positive": [i], "limit": 9}]}],
        "POST /collections/{}/points/recommend/groups": [{"positive": [i], "limit": 9, "group_by": "s"}],
        "POST /v1/ingest": [{"collection": c, "source": "s", "text": "t"}],
        "POST /v1/query": [{"collection": c, "query": "plain " + MARK, "mode": "bm25", "explain": True}, {"collection": c, "query": "a", "mode": "dense"}],
        "POST /v1/relabel": [{"collection": c, "points": [i], "labels": dict(OPEN, sensitivity=2)},
                             {"collection": c, "points": [i], "raise": {"sensitivity": 3}, "dry_run": True},
                             {"collection": c, "filter": {"must": [{"key": "s", "match": {"value": MARK}}]}, "raise": {"sensitivity": 3}}],
        "POST /v1/authorize": [{"action": "ManageCollection", "collection": c}],
        "POST /v1/explain": [{"action": "ManageCollection", "collection": c}, *({"action": a, "collection": c, "point": i} for a in ("Query", "Delete", "Export")),
                             {"action": "Query", "collection": c, "class": "ab" * 32}],
        "POST /v1/explain/result": [{"collection": c}],
        "PUT /v1/collections/{}": [{"labels": OPEN}],
    }


def calls(c, i, other):
    """Every route of the table with the collection c, point i; `other` for what a path needs besides."""
    known = bodies(c, i)
    for method, pattern in table():
        path = pattern.replace("{}", c, 1) if "/collections/{}" in pattern else pattern
        path = path.replace("/points/{}", "/points/%d" % i).replace("{}", other)
        if method in ("PUT", "POST", "PATCH") and method != "DELETE":
            path += "?wait=true"
        for body in known.get("%s %s" % (method, pattern), [None] if method in ("GET", "DELETE") else [{}]):
            yield method, path, body


def answer(r, *names):
    raw = r.body
    for n in names:
        raw = raw.replace(n.encode(), b"N")
    return r.status, raw, sorted((k.lower(), v) for k, v in r.headers.items()
                                 if k.lower() not in ("date", "x-bailiwick-request-id", "content-length"))


def test_objects__every_route_against_foreign_collections(cell, coll):
    """The other tenant's collection and alias, each beside a name that nobody has."""
    make(cell, "theirs", cell.alien, [point(i, OPEN, s=MARK, n=i, page_content=MARK) for i in (1, 2, 50)])
    assert cell.post("/collections/aliases", {"actions": [{"create_alias": {"collection_name": "theirs", "alias_name": "nickie"}}]},
                     key=cell.alien).status == 200
    look = lambda: [answer(cell.call(m, p, b, key=cell.alien)) for m, p, b in (
        ("GET", "/collections/theirs", None), ("GET", "/aliases", None), ("GET", "/v1/classes", None), ("GET", "/v1/collections", None),
        ("POST", "/collections/theirs/points/scroll", {"limit": 100, "with_vector": True}))]
    before = look()
    alien_key = [k["id"] for k in cell.get("/v1/keys").json()["keys"] if k["principal"] == "al"][0]
    tried = 0
    for foreign, absent in (("theirs", "nobody"), ("nickie", "nobody")):
        for key in (cell.low, cell.mute):
            there, none = ([(m, p, b, cell.call(m, p, b, key=key)) for m, p, b in calls(name, 50, other)]
                           for name, other in ((foreign, alien_key), (absent, "f" * len(alien_key))))
            for (m, p, b, r), (_, _, _, r2) in zip(there, none):
                clean(cell, r)
                assert answer(r, foreign, alien_key) == answer(r2, absent, "f" * len(alien_key)), (m, p, b, r, r2)
                if MARK not in json.dumps(b):
                    assert MARK.encode() not in r.body, (m, p, b, r)
                tried += 1
            for name in (foreign, absent):
                cell.delete("/collections/" + name, key=key)
            assert look() == before
    print("%d pairs" % tried)
    assert cell.get("/v1/whoami", key=cell.alien).status == 200
    cell.delete("/collections/theirs", key=cell.alien)


def test_objects__every_route_against_points_of_a_hidden_class(cell, coll):
    """HIDDEN are in a class above the caller's clearance, ABSENT are nowhere."""
    look = lambda: cell.post(coll + "/points/scroll", {"limit": 100, "with_vector": True,
                             "filter": {"must": [{"key": "s", "match": {"value": MARK}}]}}, key=cell.boss).body
    before, tried = look(), 0
    assert before.count(b'"id":%d' % HIDDEN[0]) == 1
    skip = ("DELETE", "/collections/docs")  # managing the collection is the caller's right
    for hidden, absent in zip(HIDDEN, ABSENT):
        pairs = zip(calls("docs", hidden, "x"), calls("docs", absent, "x"))
        for (m, p, b), (_, p2, b2) in pairs:
            if (m, p) == skip or p.startswith("/v1/keys"):
                continue
            got = [cell.call(mm, pp, bb, key=cell.low) for mm, pp, bb in ((m, p, b), (m, p2, b2))]
            clean(cell, got[0])
            assert answer(got[0], str(hidden)) == answer(got[1], str(absent)), (m, p, b, got)
            assert MARK.encode() not in got[0].body or MARK in json.dumps(b), (m, p, b, got[0])
            for i in (hidden, absent):  # what an upsert made in the caller's own class
                cell.post(coll + "/points/delete?wait=true", {"points": [i]}, key=cell.low)
            cell.post("/collections/aliases", {"actions": [{"delete_alias": {"alias_name": "grab"}}]}, key=cell.low)
            assert look() == before, (m, p, b)
            tried += 1
    print("%d pairs" % tried)


# ---- holes that were found; each failed before its fix ----

def test_hold__a_collection_with_held_points_is_not_dropped(cell):
    """DELETE of the collection was a way around the legal hold."""
    make(cell, "held", cell.boss, [point(1, HELD), point(2, OPEN)])
    r = cell.delete("/collections/held", key=cell.low)
    assert r.status == 451 and b"legal-hold" in r.body[:190], r
    assert cell.post("/collections/held/points/count", {}, key=cell.low).json()["result"]["count"] == 2
    denied = cell.get("/v1/audit?status=451&limit=1000").json()["events"][-1]
    assert denied["denied"][0]["action"] == "Delete" and denied["collection"] == "held"
    # Once nothing held is there, it goes; an alias still drops nothing.
    make(cell, "free", cell.boss, [point(2, OPEN)])
    cell.post("/collections/aliases", {"actions": [{"create_alias": {"collection_name": "held", "alias_name": "h2"}}]}, key=cell.low)
    assert cell.delete("/collections/h2", key=cell.low).json()["result"] is False
    assert cell.delete("/collections/free", key=cell.low).json()["result"] is True


def test_hold__what_is_held_is_not_written_over(cell):
    """An upsert (also one that expires at once) or a payload call ended what was held."""
    make(cell, "kept", cell.boss, [point(1, HELD, s="evidence", page_content="evidence"), point(2, OPEN, s="free")])
    p = "/collections/kept/points"
    look = lambda: cell.post(p, {"ids": [1], "with_vector": True}, key=cell.boss).body
    before = look()
    for method, path, body in (
            ("PUT", "", {"points": [point(1, HELD, s="other")]}), ("PUT", "", {"points": [point(1, HELD, _expires_at="2020-01-01T00:00:00Z")]}),
            ("PUT", "", {"points": [point(7, HELD), point(1, HELD)]}), ("POST", "/payload", {"payload": {"s": "x"}, "filter": {}}),
            ("PUT", "/payload", {"payload": {}, "points": [1]}), ("POST", "/payload/clear", {"points": [1]}),
            ("POST", "/payload/delete", {"keys": ["s"], "points": [2, 1]}), ("PUT", "/vectors", {"points": [{"id": 1, "vector": {"": [0, 0]}}]}),
            ("POST", "/vectors/delete", {"vector": ["sp"], "points": [1]}), ("POST", "/batch", {"operations": [{"clear_payload": {"points": [1]}}]})):
        r = cell.call(method, p + path + "?wait=true", body, key=cell.low)
        assert r.status == 451 and b"legal-hold" in r.body[:190], (method, path, body, r)
        assert look() == before
    assert cell.get(p + "/2", key=cell.low).json()["result"]["payload"]["s"] == "free"  # nothing of a refused call is done
    # It still takes new points, and edits of what is not held go on.
    assert cell.put(p + "?wait=true", {"points": [point(3, HELD), point(2, OPEN, s="newer")]}, key=cell.low).status == 200
    assert cell.put(p + "?wait=true", {"points": [point(3, HELD)], "update_mode": "insert_only"}, key=cell.low).status == 200


def test_text__goes_with_the_payload_that_it_came_from(cell):
    """A text that a payload call had taken away was still found and shown by /v1/query."""
    make(cell, "texts", cell.low, [point(i, OPEN, page_content="alpha beta", k=i) for i in range(1, 8)])
    p = "/collections/texts/points"
    ask = lambda word: sorted(h["id"] for h in cell.post("/v1/query", {"query": word, "collection": "texts", "mode": "bm25"}, key=cell.low).json()["hits"])
    assert ask("alpha") == [1, 2, 3, 4, 5, 6, 7]
    for method, path, body in (
            ("POST", "/payload", {"payload": {"page_content": "gamma"}, "points": [1]}),
            ("PUT", "/payload", {"payload": {"other": "x"}, "points": [2]}),
            ("POST", "/payload/delete", {"keys": ["page_content"], "points": [3]}),
            ("POST", "/payload/clear", {"points": [4]}),
            ("POST", "/payload", {"payload": {"k": 50}, "points": [5]}),  # leaves the text
            ("POST", "/batch", {"operations": [{"clear_payload": {"points": [6]}}, {"set_payload": {"payload": {"text": "delta"}, "points": [6]}}]})):
        assert cell.call(method, p + path + "?wait=true", body, key=cell.low).status == 200
    assert (ask("alpha"), ask("gamma"), ask("delta")) == ([5, 7], [1], [6])
    r = cell.post("/v1/query", {"query": "gamma delta", "collection": "texts", "mode": "bm25"}, key=cell.low)
    assert b"alpha" not in r.body
    cell.restart()
    assert (ask("alpha"), ask("gamma"), ask("delta")) == ([5, 7], [1], [6])
    cell.delete("/collections/texts", key=cell.low)


def test_upsert__a_condition_holds_for_points_that_the_writer_cannot_see(cell):
    """A key that may write a class but not read it replaced its points in spite of insert_only
    and update_filter. The answer tells nothing either way."""
    make(cell, "blind", cell.pay, [point(7, PAYROLL, s="theirs")])
    look = lambda i: cell.post("/collections/blind/points", {"ids": [i]}, key=cell.pay).json()["result"]
    before = look(7)
    answers = set()
    for more in ({"update_mode": "insert_only"}, {"update_filter": {"must": [{"key": "s", "match": {"value": "no"}}]}}):
        for i in (7, 8):
            r = cell.put("/collections/blind/points?wait=true", dict({"points": [point(i, PAYROLL, s="mine")]}, **more), key=cell.low)
            answers.add((r.status, r.body))
        assert look(7) == before and look(8)[0]["payload"]["s"] == "mine"
        cell.post("/collections/blind/points/delete?wait=true", {"points": [8]}, key=cell.pay)
    assert len(answers) == 1
    assert cell.post("/collections/blind/points/count", {}, key=cell.low).json()["result"]["count"] == 0
    cell.delete("/collections/blind", key=cell.pay)


def test_policies__a_set_that_shuts_its_author_out_is_refused(cell):
    """An empty or over-strict set locked the control plane for good: only the disk helped."""
    old = cell.get("/v1/policies").json()
    lock = old["policies"] + '\n@id("no-admin") forbid (principal, action == Bw::Action::"Admin", resource);'
    for bad in ("", "// nothing", lock, 'permit(principal,action,resource) when { context.nothing };'):
        r = cell.put("/v1/policies", {"policies": bad})
        assert r.status in (409, 422), (bad, r)
        assert cell.get("/v1/policies").json()["digest"] == old["digest"]
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        text = c.get("/v1/policies").json()["policies"]
        assert c.put("/v1/policies", {"policies": text.replace("admin-cell", "admin-of-cell"), "if_digest": "0" * 32}).status == 409
        assert c.put("/v1/policies", {"policies": "", "force": True}).status in (200, 403)
        assert c.get("/v1/policies").status == 403


def test_policies__bombs_leave_the_old_set(cell):
    old = cell.get("/v1/policies").json()["digest"]
    w = "permit(principal,action,resource) when { %s };"
    for text in (w % ("(" * 10000 + "true" + ")" * 10000), w % ("!" * 10000 + "true"), w % ("[" * 10000 + "]" * 10000),
                 w % ('{"a":' * 10000 + "1" + "}" * 10000), w % ("if true then " * 5000 + "true" + " else false" * 5000),
                 w % (" || ".join(["true"] * 200000)), "// " + "x" * (4 << 20), '@id("%s")' % ("a" * 100000) + w % "true",
                 '@id("a") permit(principal,action,resource);' * 2, w % "99999999999999999999 == 1", "permit(principal == ?principal,action,resource);"):
        ask = {"policies": text, "requests": [{"principal": {"principal": "a", "tenant": "acme", "seat": "FR"}, "action": "Query", "labels": OPEN}]}
        r = cell.post("/v1/policies/dry-run", ask)
        assert r.status in (200, 400, 422), r
        r = cell.put("/v1/policies", {"policies": text + SHUT})
        assert r.status in (409, 422), r
        assert cell.get("/v1/policies").json()["digest"] == old
