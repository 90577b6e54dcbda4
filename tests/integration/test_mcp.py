"""MCP: the law of /mcp in both generations, and its tools behind the gate.

The messages are written from the protocol's text, not by a client library (that is
conformance/test_mcp_client.py). bm25 questions need no encoder; two use it."""
import base64
import json
import os

import pytest

from cell import Cell

DEPS = os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick"))
MODEL = os.environ.get("BW_MODEL", os.path.join(DEPS, "model"))
MODERN = "2026-07-28"
LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26"]
META = "io.modelcontextprotocol/"
TOOLS = ["search", "get_passage", "list_collections", "explain_access"]
GUIDE = "# Guide\n\n## Cats\n\nCats sleep most of the day.\n\n## Rockets\n\nRockets burn fuel.\n\n## Tea\n\nTea is a drink.\n"
LANGUAGES = {"zh.md": "陈发虎研究员的古气候论文在兰州发表。", "emoji.md": "The launch 🚀 party 🎉 is on Friday.",
             "he.md": "שלום עולם, זה מסמך בעברית.", "ar.md": "مرحبا بالعالم هذا نص عربي."}


def ingest(c, collection, source, text, key="admin", **more):
    r = c.post("/v1/ingest", {"collection": collection, "source": source, "text": text, "create": True, **more}, key=key)
    assert r.status == 200, r
    return r.json()


@pytest.fixture(scope="module")
def dev():
    with Cell(dev=True, model=MODEL) as c:
        ingest(c, "guide", "guide.md", GUIDE)
        for source, text in LANGUAGES.items():
            ingest(c, "tongues", source, text)
        yield c


OVERLAY = {"legal_entities": [
    {"id": "eucloud", "seat": "FR", "control_zones": ["EU"], "foreign_share_max": "12.5",
     "foreign_share_sum": "20.0", "baa_with": [], "certs": [], "source": "test", "date": "2026-11-30"}]}
CARE = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 2, "purposes": ["care"]}
AUDIT = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 2, "purposes": ["audit"]}


@pytest.fixture(scope="module")
def paris(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paris")
    (folder / "catalogue.json").write_text(json.dumps(OVERLAY))
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL, settings={
            "policies.catalogue": str(folder / "catalogue.json"), "server.origins": "https://ide.example"}) as c:
        c.keys, c.folder = {}, folder
        for name, tenant, purposes in [("loader", "demo", ["audit"]), ("nurse", "demo", ["care"]),
                                       ("outsider", "other", ["care"])]:
            c.keys[name] = c.key_add(name, tenant=tenant, seat="FR", clearance=4, purposes=purposes,
                                     roles=["editor" if name == "loader" else "reader"])
            (folder / name).write_text(c.keys[name] + "\n")
        ingest(c, "house", "open.md", "# Care\n\nWards open at seven.\n", key=c.keys["loader"], labels=CARE)
        ingest(c, "house", "secret.md", "# Audit\n\nWards failed the audit.\n", key=c.keys["loader"], labels=AUDIT)
        yield c


def message(method, params=None, id=1):
    m = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        m["id"] = id
    if params is not None:
        m["params"] = params
    return m


def modern(method, params=None, id=1, version=MODERN):
    params = dict(params or {})
    params["_meta"] = {META + "protocolVersion": version, META + "clientCapabilities": {},
                       META + "clientInfo": {"name": "test", "version": "1"}}
    return message(method, params, id)


def modern_headers(m, **more):
    h = {"MCP-Protocol-Version": m["params"]["_meta"][META + "protocolVersion"], "Mcp-Method": m["method"]}
    if m["method"] == "tools/call":
        h["Mcp-Name"] = m["params"]["name"]
    h.update({k.replace("_", "-"): v for k, v in more.items()})
    return {k: v for k, v in h.items() if v is not None}


def post(c, body, headers=None, **kw):
    return c.post("/mcp", body, headers=headers, **kw)


def call(c, tool, arguments, key="admin", failed=False, **kw):
    r = post(c, message("tools/call", {"name": tool, "arguments": arguments}), key=key, **kw)
    assert r.status == 200, r
    result = r.json()["result"]
    assert result["isError"] is failed, result
    assert [x["type"] for x in result["content"]] == ["text"]
    got = json.loads(result["content"][0]["text"])
    if failed:
        assert "structuredContent" not in result
        return got["error"]
    assert result["structuredContent"] == got
    return got


def error(r, status, code, id=1):
    m = r.json()
    assert (r.status, m["error"]["code"], m["id"], m["jsonrpc"]) == (status, code, id, "2.0"), r
    return m["error"]


# ---- the 2025 versions ----

@pytest.mark.parametrize("asked,given", [(v, v) for v in LEGACY] + [("2024-11-05", LEGACY[0]), ("2027-01-01", LEGACY[0]),
                                                                  (MODERN, LEGACY[0])])
def test_initialize_negotiates(dev, asked, given):
    r = post(dev, message("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
    got = r.json()["result"]
    assert r.status == 200 and got["protocolVersion"] == given and got["capabilities"] == {"tools": {}}
    assert got["serverInfo"]["name"] == "bailiwick" and "resultType" not in got
    assert r.headers["Content-Type"] == "application/json" and "Mcp-Session-Id" not in r.headers


def test_notifications_and_responses_are_accepted_without_a_body(dev):
    for m in (message("notifications/initialized", id=None), message("notifications/cancelled", {"requestId": 1}, id=None),
              {"jsonrpc": "2.0", "id": 7, "result": {}}):
        r = post(dev, m)
        assert (r.status, r.body) == (202, b""), r


@pytest.mark.parametrize("version", LEGACY + [None])
def test_ping_and_list_with_each_version(dev, version):
    h = {"MCP-Protocol-Version": version} if version else {}
    assert post(dev, message("ping"), h).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    r = post(dev, message("tools/list"), h)
    assert [t["name"] for t in r.json()["result"]["tools"]] == TOOLS
    assert r.body == post(dev, message("tools/list", {}), h).body


def test_a_version_that_nobody_speaks_is_a_400(dev):
    e = error(post(dev, message("tools/list"), {"MCP-Protocol-Version": "1999-01-01"}), 400, -32022)
    assert e["data"] == {"supported": [MODERN] + LEGACY, "requested": "1999-01-01"}


def test_get_and_delete_are_405(dev):
    for method in ("GET", "DELETE"):
        r = dev.call(method, "/mcp")
        assert r.status == 405 and r.headers["Allow"] == "POST", r


@pytest.mark.parametrize("token", ["0", "-7", "9007199254740993", "123456789012345678901234567890", '"a"', '"\\u0041\\n"', '""'])
def test_an_id_comes_back_as_the_token_that_it_was(dev, token):
    r = post(dev, b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % token.encode())
    assert r.body == b'{"jsonrpc":"2.0","id":%s,"result":{}}' % token.encode(), r


@pytest.mark.parametrize("body", [
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e3,"method":"ping"}', b'{"jsonrpc":"2.0","id":[1],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * 1023), b'3', b'"ping"', b'[]', b'null'])
def test_what_is_no_message_is_refused_without_an_id(dev, body):
    error(post(dev, body), 400, -32600, None)


@pytest.mark.parametrize("body", [
    b'{"id":1,"method":"ping"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","id":1,"method":"%s"}' % (b"m" * 129),
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5}}}'])
def test_a_wrong_request_gets_its_id_back(dev, body):
    error(post(dev, body), 400, -32600, 1)


@pytest.mark.parametrize("body", [b"", b"{", b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}', b"\x00", b"{}{}",
                                  b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b"[" * 100 + b"]" * 100])
def test_what_is_no_json_is_a_parse_error(dev, body):
    error(post(dev, body), 400, -32700, None)


def test_a_message_has_one_mebibyte_at_most(dev):
    m = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}'
    fits = m % (b"x" * ((1 << 20) - len(m) + 2))
    assert len(fits) == 1 << 20 and post(dev, fits).status == 200
    error(post(dev, fits + b" "), 413, -32600, None)


def test_batches_belong_to_one_version(dev):
    two = [message("ping", id=1), message("notifications/initialized", id=None), message("nope", id="b"),
           {"jsonrpc": "2.0", "id": None, "method": "ping"}]
    r = post(dev, two)
    assert r.status == 200 and [(m["id"], m.get("error", {}).get("code")) for m in r.json()] == [(1, None), ("b", -32601), (None, -32600)]
    assert post(dev, two, {"MCP-Protocol-Version": "2025-03-26"}).body == r.body
    for version in ("2025-06-18", "2025-11-25", MODERN):
        error(post(dev, two, {"MCP-Protocol-Version": version}), 400, -32600, None)
    r = post(dev, [message("notifications/initialized", id=None)])
    assert (r.status, r.body) == (202, b"")
    assert len(post(dev, [message("ping")] * 32).json()) == 32
    error(post(dev, [message("ping")] * 33), 400, -32600, None)
    r = post(dev, [message("initialize", {"protocolVersion": LEGACY[0]}), modern("tools/list", id=2)])
    assert [m["error"]["code"] for m in r.json()] == [-32601, -32600]


def test_unknown_methods_tools_and_cursors(dev):
    error(post(dev, message("resources/list")), 200, -32601)
    error(post(dev, message("tools/call", {"name": "rm"})), 200, -32602)
    error(post(dev, message("tools/call", {})), 200, -32602)
    error(post(dev, message("tools/call", {"name": "search", "arguments": []})), 200, -32602)
    error(post(dev, message("tools/list", {"cursor": "x"})), 200, -32602)
    error(post(dev, message("initialize", {})), 400, -32602)


# ---- 2026-07-28 ----

def test_discover_says_what_is_spoken(dev):
    m = modern("server/discover")
    got = post(dev, m, modern_headers(m)).json()["result"]
    assert got["supportedVersions"] == [MODERN] + LEGACY and got["capabilities"] == {"tools": {}}
    assert got["resultType"] == "complete" and got["ttlMs"] > 0 and got["cacheScope"] in ("public", "private")
    assert got["_meta"][META + "serverInfo"]["name"] == "bailiwick"


def test_modern_list_and_call(dev):
    m = modern("tools/list")
    got = post(dev, m, modern_headers(m)).json()["result"]
    assert [t["name"] for t in got["tools"]] == TOOLS and got["resultType"] == "complete" and got["ttlMs"] > 0
    m = modern("tools/call", {"name": "search", "arguments": {"query": "rockets", "collection": "guide", "mode": "bm25"}})
    r = post(dev, m, modern_headers(m, Mcp_Session_Id="none", Last_Event_ID="3"))
    got = r.json()["result"]
    assert r.status == 200 and got["resultType"] == "complete" and got["isError"] is False
    assert "Rockets burn" in got["structuredContent"]["passages"][0]["text"]
    wrapped = "=?base64?%s?=" % base64.b64encode(b"search").decode()
    assert post(dev, m, modern_headers(m, Mcp_Name=wrapped)).status == 200


@pytest.mark.parametrize("change", [
    {"MCP_Protocol_Version": None}, {"MCP_Protocol_Version": "2025-11-25"}, {"Mcp_Method": None}, {"Mcp_Method": "tools/list"},
    {"Mcp_Name": None}, {"Mcp_Name": "get_passage"}, {"Mcp_Name": "=?base64?c2Vhcm?="}, {"Mcp_Name": "=?base64?/w==?="},
    {"Mcp_Name": "Search"}, {"Mcp_Name": "=?base64?!!!!?="}])
def test_headers_must_agree_with_the_body(dev, change):
    m = modern("tools/call", {"name": "search", "arguments": {"query": "x", "collection": "guide", "mode": "bm25"}})
    assert post(dev, m, modern_headers(m)).status == 200
    error(post(dev, m, modern_headers(m, **change)), 400, -32020)


@pytest.mark.parametrize("twice,status,code", [("Mcp-Method", 400, -32020), ("MCP-Protocol-Version", 400, -32020),
                                               ("Mcp-Name", 400, -32020), ("Origin", 403, -32600)])
def test_a_header_given_twice_is_none(dev, paris, twice, status, code):
    m = modern("tools/call", {"name": "list_collections"})
    body = json.dumps(m).encode()
    c = paris.connection()
    c.putrequest("POST", "/mcp")
    headers = {**modern_headers(m), "Origin": "http://localhost", "api-key": paris.keys["nurse"], "Content-Length": str(len(body))}
    for name, value in headers.items():
        for _ in range(2 if name == twice else 1):
            c.putheader(name, value)
    c.endheaders(body)
    r = c.getresponse()
    assert r.status == status and json.loads(r.read())["error"]["code"] == code
    c.close()


def test_the_envelope_is_required(dev):
    for gone in ("protocolVersion", "clientCapabilities"):
        m = modern("tools/list")
        h = modern_headers(m)
        del m["params"]["_meta"][META + gone]
        error(post(dev, m, h), 400, -32602)
    error(post(dev, message("server/discover")), 400, -32602)


def test_modern_versions_and_methods(dev):
    m = modern("tools/list", version="2027-01-01")
    assert error(post(dev, m, modern_headers(m)), 400, -32022)["data"]["requested"] == "2027-01-01"
    for method in ("ping", "resources/list", "subscriptions/listen", "nope"):
        m = modern(method)
        error(post(dev, m, modern_headers(m)), 404, -32601)
    m = modern("tools/call", {"name": "rm"})
    error(post(dev, m, modern_headers(m)), 400, -32602)
    m = modern("tools/list", version=LEGACY[0])  # named per request as well, by a 2025 client
    assert "resultType" not in post(dev, m, modern_headers(m)).json()["result"]


# ---- tools ----

def test_search_gives_whole_passages_with_their_provenance(dev):
    """Case 68: fragments without a source are of no use."""
    for i in range(25):
        ingest(dev, "many", "d%02d.md" % i, "# Doc %d\n\nThe quorum rule number %d stands here, whole to its last word: end%d.\n" % (i, i, i))
    got = call(dev, "search", {"query": "quorum rule", "collection": "many", "limit": 25, "mode": "bm25"})
    assert len(got["passages"]) == 25 and got["next_offset"] is None
    assert set(got["place"]) == {"cell", "country", "operator"}
    for p in got["passages"]:
        n = int(p["source"][1:3])
        assert p["text"] == "Doc %d\n\nThe quorum rule number %d stands here, whole to its last word: end%d." % (n, n, n)
        assert p["score"] > 0 and p["decision"] == got["decision"] and "jurisdiction" in p and p["headings"] == "Doc %d" % n
        assert len(p["digest"]) == 64 and p["labels"]["tenant"] and p["id"]


def test_pages_add_up_to_one_list(dev):
    ask = {"query": "quorum rule", "collection": "many", "mode": "hybrid"}
    whole = [p["id"] for p in call(dev, "search", {**ask, "limit": 25})["passages"]]
    got, offset = [], 0
    while offset is not None:
        page = call(dev, "search", {**ask, "limit": 7, "offset": offset})
        got += [p["id"] for p in page["passages"]]
        offset = page["next_offset"]
    assert got == whole and len(set(got)) == 25


def test_the_same_answer_as_v1_query(dev):
    for mode in ("dense", "bm25", "hybrid"):
        ask = {"query": "what do rockets burn", "collection": "guide", "mode": mode, "limit": 3}
        v1 = dev.post("/v1/query", ask).json()["hits"]
        got = call(dev, "search", ask)["passages"]
        assert [(p["id"], p["score"], p["text"], p["labels"]) for p in got] == [(h["id"], h["score"], h["text"], h["labels"]) for h in v1]


@pytest.mark.parametrize("query,source", [("陈发虎", "zh.md"), ("🚀", "emoji.md"), ("👩‍🚀 party 🎉", "emoji.md"), ("שלום עולם", "he.md"),
                                          ("\u202eمرحبا\u202c بالعالم", "ar.md")])
@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_any_script_gets_results(dev, query, source, mode):
    """Case 67: a CJK question gets an empty reply elsewhere."""
    got = call(dev, "search", {"query": query, "collection": "tongues", "limit": 4, "mode": mode})["passages"]
    assert len(got) >= 1 and all(p["text"] == LANGUAGES[p["source"]] for p in got)
    if mode == "hybrid" and source != "emoji.md":
        assert source in [p["source"] for p in got]


def test_a_long_answer_is_cut_between_passages(dev):
    for i in range(12):
        ingest(dev, "long", "l%02d.txt" % i, "quorum " + "word%d " % i * 900, chunk={"target": 8000, "max": 8000})
    ids, offset, pages = [], 0, 0
    while offset is not None:
        r = call(dev, "search", {"query": "quorum", "collection": "long", "mode": "bm25", "limit": 50, "offset": offset})
        assert len(json.dumps(r, ensure_ascii=False).encode()) < 44000
        assert all(p["text"].endswith(p["text"].split()[-1]) and "text_next_offset" not in p for p in r["passages"])
        ids += [p["id"] for p in r["passages"]]
        offset, pages = r["next_offset"], pages + 1
    assert pages > 1 and len(ids) == len(set(ids))
    whole = dev.post("/v1/query", {"query": "quorum", "collection": "long", "mode": "bm25", "limit": 100}).json()["hits"]
    assert ids == [h["id"] for h in whole]


def test_a_huge_passage_is_read_in_parts(dev):
    text = "é" * 50000
    dev.put("/collections/huge", {"vectors": {"size": 4, "distance": "Dot"}})
    r = dev.put("/collections/huge/points?wait=true", {"points": [{"id": 7, "vector": [1, 0, 0, 0], "payload": {
        "page_content": text, "metadata": {"source": "h"}}}]})
    assert r.status == 200, r
    got, offset = "", 0
    while offset is not None:
        p = call(dev, "get_passage", {"collection": "huge", "id": 7, "offset": offset})["passage"]
        assert 0 < len(p["text"].encode()) <= 30000
        got += p["text"]
        offset = p.get("text_next_offset")
    assert got == text


def test_a_passage_comes_with_its_neighbours(dev):
    hit = call(dev, "search", {"query": "rockets", "collection": "guide", "mode": "bm25", "limit": 1})["passages"][0]
    got = call(dev, "get_passage", {"collection": "guide", "id": hit["id"]})
    assert got["passage"]["text"] == hit["text"]
    assert ["Cats" in p["text"] for p in got["before"]] == [True] and ["Tea" in p["text"] for p in got["after"]] == [True]
    alone = call(dev, "get_passage", {"collection": "guide", "id": hit["id"], "neighbours": 0})
    assert alone["before"] == alone["after"] == []
    first = call(dev, "get_passage", {"collection": "guide", "id": got["before"][0]["id"], "neighbours": 3})
    assert first["before"] == [] and [p["id"] for p in first["after"]] == [hit["id"], got["after"][0]["id"]]


@pytest.mark.parametrize("tool,arguments,pointer", [
    ("search", {"collection": "guide"}, "/query"), ("search", {"query": "x"}, "/collection"),
    ("search", {"query": "x", "collection": "guide", "limit": 0}, "/limit"),
    ("search", {"query": "x", "collection": "guide", "limit": 51}, "/limit"),
    ("search", {"query": "x", "collection": "guide", "offset": 101}, "/offset"),
    ("search", {"query": "x", "collection": "guide", "offset": -1}, "/offset"),
    ("search", {"query": "x", "collection": "guide", "mode": "magic"}, "/mode"),
    ("search", {"query": "x", "collection": "guide", "explain": True}, "/explain"),
    ("get_passage", {"collection": "guide"}, "/id"), ("get_passage", {"collection": "guide", "id": {}}, "/id"),
    ("get_passage", {"collection": "guide", "id": 1, "neighbours": 4}, "/neighbours"),
    ("get_passage", {"collection": "guide", "id": 1}, "/id"),
    ("list_collections", {"x": 1}, "/x"), ("explain_access", {}, "/collection")])
def test_wrong_arguments_name_the_field(dev, tool, arguments, pointer):
    assert call(dev, tool, arguments, failed=True)["pointer"] == pointer


def test_a_filter_narrows_and_a_wrong_one_is_told(dev):
    only = {"must": [{"key": "metadata.source", "match": {"value": "he.md"}}]}
    got = call(dev, "search", {"query": "x", "collection": "tongues", "mode": "dense", "filter": only})
    assert [p["source"] for p in got["passages"]] == ["he.md"]
    call(dev, "search", {"query": "x", "collection": "tongues", "filter": {"must": [{"keys": "a"}]}}, failed=True)


def test_list_collections_is_cut_and_goes_on(dev):
    names = {"n%03d_%s" % (i, "x" * 200) for i in range(240)}
    for n in names:
        assert dev.put("/collections/" + n, {}).status == 200
    got, offset, pages = [], 0, 0
    while offset is not None:
        page = call(dev, "list_collections", {"offset": offset})
        got += [c["name"] for c in page["collections"]]
        offset, pages = page["next_offset"], pages + 1
    for n in names:
        dev.delete("/collections/" + n)
    assert pages > 1 and len(got) == len(set(got)) and names <= set(got)


# ---- behind the gate ----

def test_bearer_keys(paris):
    m = message("tools/list")
    key = paris.keys["nurse"]
    assert post(paris, m, {"Authorization": "Bearer " + key}, key=None).status == 200
    assert post(paris, m, key=key).status == 200
    for h in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic " + key}):
        for method in ("POST", "GET"):
            r = paris.call(method, "/mcp", m if method == "POST" else None, headers=h, key=None)
            assert r.status == 401 and r.headers["WWW-Authenticate"] == "Bearer", r


def test_origins(paris):
    m, key = message("ping"), paris.keys["nurse"]
    for origin in ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:5", "https://ide.example"):
        assert post(paris, m, {"Origin": origin}, key=key).status == 200, origin
    for origin in ("https://evil.example", "null", "https://ide.example.evil", "http://localhost.evil", "file://", ""):
        error(post(paris, m, {"Origin": origin}, key=key), 403, -32600, None)


def test_purposes_are_the_keys(paris):
    ask = {"query": "wards", "collection": "house", "mode": "bm25"}
    sources = lambda key, **kw: [p["source"] for p in call(paris, "search", ask, key=paris.keys[key], **kw)["passages"]]
    assert sources("nurse") == ["open.md"] and sources("loader") == ["secret.md"]
    r = post(paris, message("tools/list"), {"x-bailiwick-purpose": "audit"}, key=paris.keys["nurse"])
    error(r, 403, -32600, None)


def test_place_and_decision_lead_into_the_log(paris):
    r = post(paris, message("tools/call", {"name": "search", "arguments": {"query": "wards", "collection": "house", "mode": "bm25"}}),
             key=paris.keys["nurse"])
    got = r.json()["result"]["structuredContent"]
    assert got["place"] == {"cell": "cell1", "country": "FR", "operator": "eucloud"}
    assert got["passages"][0]["jurisdiction"] == "FR" and got["decision"] == r.headers["x-bailiwick-request-id"]
    events = paris.get("/v1/audit?principal=nurse&limit=20").json()["events"]
    mine = [e for e in events if got["decision"] in json.dumps(e)]
    assert len(mine) == 1 and got["passages"][0]["id"] in json.dumps(mine[0]), mine
    v1 = paris.post("/v1/query", {"query": "wards", "collection": "house", "mode": "bm25"}, key=paris.keys["nurse"])
    other = [e for e in paris.get("/v1/audit?principal=nurse&limit=1").json()["events"]][0]
    assert v1.status == 200
    same = lambda e: {k: v for k, v in e.items() if k not in ("seq", "time", "prev", "hash", "id", "request", "path", "route", "pattern")}
    assert same(other) == same(mine[0])


def test_explain_access_tells_why(paris):
    nurse = paris.keys["nurse"]
    got = call(paris, "explain_access", {"collection": "house"}, key=nurse)["explanation"]
    assert len(got["classes"]) == 1 and got["classes"][0]["labels"]["purposes"] == ["care"] and got["cell"]["country"] == "FR"
    hit = call(paris, "search", {"query": "wards", "collection": "house", "mode": "bm25"}, key=nurse)["passages"][0]
    by_id = call(paris, "explain_access", {"collection": "house", "id": hit["id"]}, key=nurse)["explanation"]
    assert by_id["decision"] == "allow" and by_id["class"] == hit["class"] and by_id["because"]
    by_class = call(paris, "explain_access", {"collection": "house", "class": hit["class"]}, key=nurse)["explanation"]
    assert by_class["class"] == hit["class"]


def test_hidden_and_absent_are_the_same_bytes(paris):
    nurse, outsider = paris.keys["nurse"], paris.keys["outsider"]
    secret = call(paris, "search", {"query": "wards", "collection": "house", "mode": "bm25"}, key=paris.keys["loader"])["passages"][0]
    absent_id = "0" * 8 + secret["id"][8:]
    absent_class = "0" * 8 + secret["class"][8:]

    def bytes_of(key, tool, arguments):
        r = post(paris, message("tools/call", {"name": tool, "arguments": arguments}), key=key)
        text = r.body.decode().replace(r.headers["x-bailiwick-request-id"], "R")
        for v in arguments.values():
            text = text.replace(str(v), "V")
        return r.status, text

    def same(key, tool, hidden, absent):
        assert bytes_of(key, tool, hidden) == bytes_of(key, tool, absent)

    for tool in ("get_passage", "explain_access"):
        same(nurse, tool, {"collection": "house", "id": secret["id"]}, {"collection": "house", "id": absent_id})
        same(outsider, tool, {"collection": "house", "id": secret["id"]}, {"collection": "houze", "id": secret["id"]})
    same(nurse, "explain_access", {"collection": "house", "class": secret["class"]}, {"collection": "house", "class": absent_class})
    for mode in ("bm25", "hybrid"):
        same(outsider, "search", {"query": "wards", "collection": "house", "mode": mode}, {"query": "wards", "collection": "houze", "mode": mode})
    same(outsider, "explain_access", {"collection": "house"}, {"collection": "houze"})
    assert call(paris, "list_collections", {}, key=outsider)["collections"] == []
