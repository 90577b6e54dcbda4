"""Threat row 6: no string in any field widens the permitted set, reaches SQL, FTS5 or Cedar
as syntax, or ends in a fault of ours. 200 strings in every string field; the answers hold
no point of a class that the caller may not read, and no 5xx."""
import itertools
import json
import random
from urllib.parse import quote

import pytest
from cell import Cell

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}
SECRET = dict(LABELS, sensitivity=5, purposes=["analysis"])
CANARY = "zanzibar-canary"

SEEDS = ["'", '"', "`", "\\", ";", "--", "/*", "*/", "' OR '1'='1", '" OR ""="', "1 OR 1=1", "x' UNION SELECT 1,2,3 --",
         "'; DROP TABLE points; --", "rows WHERE 1", "%", "_", "*", "?", "[a-z]*", "NEAR(a b)", "a NEAR/2 b", "^a", "a*",
         "body:a", "{body meta}: a", "a AND b", "a OR b", "NOT a", "(", ")", "((((", "a - b", "+a", "\"a\" b", "\"\"", "''",
         "\u0000", "a\u0000b", "\n", "\r\n", "\t", "\u2028", "\u200b", "\u202e", "\ufeff", "\uffff", "é", "e\u0301",
         "../../etc/passwd", "..", ".", "/", "//", "%2e%2e%2f", "file:///etc/passwd", "C:\\", "CON", "\u2215", "$where",
         "$ne", "{\"$gt\":\"\"}", "{{7*7}}", "${7*7}", "<script>", "]]>", "&amp;", "permit(principal,action,resource);",
         "Bw::DataClass::\"x\"", "resource in Bw::Zone::\"EEA\"", "true", "null", "[]", "[*]", "a[]", "a[].b", "a[-1]",
         "a[99999999999]", "a..b", ".a", "a.", "\"a\".\"b\"", "\"a", "a\"", "_labels", "_class", "metadata._labels", "_text",
         "class_id", "rowid", "a" * 300, "a." * 70 + "a", "0", "-1", "18446744073709551616", "1e999", "NaN", "urn:uuid:x",
         "00000000-0000-0000-0000-000000000000", CANARY, "tenant", "acme", "zeta"]


def strings():
    rnd = random.Random(1)
    out = list(dict.fromkeys(SEEDS))
    while len(out) < 200:
        out.append(rnd.choice(SEEDS) + rnd.choice(SEEDS))
    return out[:200]


def shapes(s):
    """(method, path, body) with the string in every field that takes one."""
    p = "/collections/docs/points"
    match = lambda m: {"filter": {"must": [m]}, "limit": 100, "with_payload": True}
    v = [1, 1]
    yield "POST", p + "/scroll", match({"key": s, "match": {"value": "x"}})
    yield "POST", p + "/scroll", match({"key": "city", "match": {"value": s}})
    yield "POST", p + "/scroll", match({"key": "city", "match": {"any": [s, "x"]}})
    yield "POST", p + "/scroll", match({"key": "city", "match": {"except": [s]}})
    yield "POST", p + "/scroll", match({"key": "city", "match": {"text": s}})
    yield "POST", p + "/scroll", match({"key": s, "range": {"gte": 0}})
    yield "POST", p + "/scroll", match({"key": "n", "range": {"gte": s}})
    yield "POST", p + "/scroll", match({"is_empty": {"key": s}})
    yield "POST", p + "/scroll", match({"is_null": {"key": s}})
    yield "POST", p + "/scroll", match({"has_id": [s]})
    yield "POST", p + "/scroll", match({"has_vector": s})
    yield "POST", p + "/scroll", match({"nested": {"key": s, "filter": {"must": []}}})
    yield "POST", p + "/scroll", match({s: {"key": "city"}})
    yield "POST", p + "/scroll", {"filter": {s: []}, "limit": 100, "with_payload": True}
    yield "POST", p + "/scroll", {"order_by": s, "limit": 100, "with_payload": True}
    yield "POST", p + "/scroll", {"order_by": {"key": "n", "direction": s}, "limit": 100, "with_payload": True}
    yield "POST", p + "/scroll", {"offset": s, "limit": 100, "with_payload": True}
    yield "POST", p + "/scroll", {"with_payload": [s], "limit": 100}
    yield "POST", p + "/scroll", {"with_payload": {"exclude": [s]}, "limit": 100}
    yield "POST", p + "/query", {"query": v, "using": s, "limit": 100, "with_payload": True}
    yield "POST", p + "/query", {"query": s, "limit": 100, "with_payload": True}
    yield "POST", p + "/query", {"query": {"fusion": s}, "prefetch": [{"query": v}], "limit": 100, "with_payload": True}
    yield "POST", p + "/query", {"query": 1, "lookup_from": {"collection": s}, "limit": 100, "with_payload": True}
    yield "POST", p + "/query/groups", {"query": v, "group_by": s, "limit": 100, "with_payload": True}
    yield "POST", "/collections/docs/facet", {"key": s, "limit": 100}
    yield "POST", p + "/count", {"filter": {"must": [{"key": s, "match": {"value": s}}]}}
    yield "POST", p, {"ids": [s], "with_payload": True}
    yield "POST", p + "/delete", {"points": [s]}
    yield "POST", p + "/delete", {"filter": {"must": [{"key": s, "match": {"value": s}}]}}
    yield "POST", p + "/payload/delete", {"keys": [s], "filter": {"must": [{"key": "city", "match": {"value": s}}]}}
    part = quote(s, safe="")
    if part not in ("docs", ".", ".."):
        yield "GET", "/collections/" + part, None
        yield "POST", "/collections/%s/points/scroll" % part, {"limit": 100}
        yield "GET", p + "/" + part, None
        yield "GET", "/collections/docs/" + part, None
        yield "GET", "/v1/" + part, None
    yield "POST", "/v1/authorize", {"action": s, "labels": LABELS}
    yield "POST", "/v1/authorize", {"action": "Query", "labels": dict(LABELS, purposes=[s])}
    yield "POST", "/v1/authorize", {"action": "Query", "labels": dict(LABELS, tenant=s)}
    yield "POST", "/v1/authorize", {"action": "Query", "labels": {s: s}}
    yield "POST", "/v1/query", {"collection": "docs", "query": s or "x", "mode": "bm25", "limit": 100}
    yield "POST", "/v1/query", {"collection": s, "query": CANARY, "mode": "bm25"}


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        c.ana = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll", "analysis"], clearance=3,
                          default_purpose="payroll", labels=LABELS)
        c.boss = c.key_add("boss", "acme", roles=["editor"], purposes=["analysis"], clearance=5, labels=SECRET)
        c.zoe = c.key_add("zoe", "zeta", roles=["editor"], purposes=["payroll"], clearance=5, labels=LABELS)
        point = lambda i, text: {"id": i, "vector": [1, i], "payload": {
            "n": i, "city": text, "page_content": text, "metadata": {"city": text, "arr": [{"k": text}]}}}
        for key, text, first in ((c.ana, "plain", 1), (c.boss, CANARY, 100), (c.zoe, CANARY, 200)):
            c.put("/collections/docs", {"vectors": {"size": 2, "distance": "Dot"}}, key=key)
            for field, schema in (("n", "integer"), ("city", "keyword")):
                c.put("/collections/docs/index?wait=true", {"field_name": field, "field_schema": schema}, key=key)
            r = c.put("/collections/docs/points?wait=true", {"points": [point(first + i, text) for i in range(5)]},
                      key=key)
            assert r.status == 200, r
        yield c


def points_of(value):
    """All ids and texts anywhere in an answer that belong to points."""
    if isinstance(value, dict):
        if "id" in value and ("payload" in value or "score" in value or "text" in value):
            yield value
        for v in value.values():
            yield from points_of(v)
    elif isinstance(value, list):
        for v in value:
            yield from points_of(v)


def test_injection__no_string_widens_the_answer(cell):
    connection, tried = cell.connection(), 0
    for s in strings():
        for method, path, body in shapes(s):
            try:
                r = cell.call(method, path, body, key=cell.ana, connection=connection)
            except Exception:
                connection.close()
                connection = cell.connection()
                r = cell.call(method, path, body, key=cell.ana, connection=connection)
            tried += 1
            assert r.status < 500, (path, body, r)
            if not r.body.startswith(b"{"):
                continue
            answer = r.json()
            for p in points_of(answer):
                assert p["id"] in range(1, 6), (path, body, p)
            if r.status == 200 and CANARY not in s:
                assert CANARY.encode() not in r.body, (path, body, r)
            if r.status == 200 and path.endswith("/count"):
                assert answer["result"]["count"] <= 5
    connection.close()
    print("%d requests" % tried)
    # Nobody else's points were touched, and hers are there but for what she may delete.
    for key in (cell.boss, cell.zoe):
        got = cell.post("/collections/docs/points/scroll", {"limit": 100, "with_payload": True}, key=key).json()
        assert len(got["result"]["points"]) == 5
        assert all(p["payload"]["city"] == CANARY for p in got["result"]["points"])


def test_injection__headers_and_parameters(cell):
    for s in strings():
        if any(ord(ch) < 32 or ord(ch) > 126 for ch in s):
            continue
        for name in ("x-bailiwick-purpose", "x-bailiwick-safeguards", "x-tenant", "x-forwarded-user"):
            r = cell.post("/collections/docs/points/scroll", {"limit": 100}, key=cell.ana, headers={name: s})
            assert r.status in (200, 403), (name, s, r)
            for p in points_of(r.json()):
                assert p["id"] in range(1, 6)
        for name, path in itertools.product(("timeout", "consistency", "tenant", "purpose"),
                                            ("/collections/docs/points/count",)):
            r = cell.post("%s?%s=%s" % (path, name, quote(s, safe="")), {}, key=cell.ana)
            assert r.status in (200, 400, 422), (name, s, r)
        r = cell.get("/v1/audit?principal=%s" % quote(s, safe=""))
        assert r.status == 200 and json.loads(r.body)["events"] == [], s
