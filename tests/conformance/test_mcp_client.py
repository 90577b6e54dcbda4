"""The reference MCP client lists and calls every tool, over both transports (streamable
HTTP with a bearer key, and stdio) and in both generations: the 2025 handshake, the
2026-07-28 envelope, and `auto`, which asks the cell what it speaks. The client checks
every answer against its own models and a tool's result against the cell's outputSchema;
that the schemas are schemas is checked here."""
import json
import os
import re

import jsonschema
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import cell as cells
from cell import Cell

DEPS = os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick"))
MODEL = os.environ.get("BW_MODEL", os.path.join(DEPS, "model"))
TOOLS = ["search", "get_passage", "list_collections", "explain_access"]
OVERLAY = {"legal_entities": [
    {"id": "eucloud", "seat": "FR", "control_zones": ["EU"], "foreign_share_max": "12.5",
     "foreign_share_sum": "20.0", "baa_with": [], "certs": [], "source": "test", "date": "2026-11-30"}]}
LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 2, "purposes": ["care"]}


@pytest.fixture(scope="module")
def paris(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paris")
    (folder / "catalogue.json").write_text(json.dumps(OVERLAY))
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL,
              settings={"policies.catalogue": str(folder / "catalogue.json")}) as c:
        c.key = c.key_add("nurse", tenant="demo", seat="FR", clearance=3, roles=["editor"], purposes=["care"])
        c.key_file = str(folder / "key")
        (folder / "key").write_text(c.key + "\n")
        text = "# Wards\n\n## Hours\n\nWards open at seven.\n\n## 陈发虎\n\n病房七点开放。\n"
        r = c.post("/v1/ingest", {"collection": "house", "source": "wards.md", "text": text, "create": True,
                                  "labels": LABELS}, key=c.key)
        assert r.status == 200, r
        yield c


def over_http(c):
    http = create_mcp_http_client(headers={"Authorization": "Bearer " + c.key})
    return streamable_http_client(c.url + "/mcp", http_client=http)


def over_stdio(c):
    return stdio_client(StdioServerParameters(command=cells.BINARY, env=c.env, args=[
        "mcp", "--url", c.url, "--key-file", c.key_file, "--purpose", "care"]))


@pytest.fixture(params=[over_http, over_stdio], ids=["http", "stdio"])
def transport(request, paris):
    return request.param(paris)


@pytest.mark.parametrize("mode,version", [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")])
async def test_every_tool_is_listed_and_called(transport, mode, version):
    async with Client(transport, mode=mode, read_timeout_seconds=60) as client:
        assert client.protocol_version == version
        listed = (await client.list_tools()).tools
        assert [t.name for t in listed] == TOOLS
        for t in listed:
            assert t.annotations.read_only_hint is True and len(t.description) < 200
            for schema in (t.input_schema, t.output_schema):
                assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
                jsonschema.Draft202012Validator.check_schema(schema)
        schemas = {t.name: t.input_schema for t in listed}

        async def call(name, **arguments):
            jsonschema.validate(arguments, schemas[name])
            r = await client.call_tool(name, arguments)
            assert r.is_error is False, r
            assert json.loads(r.content[0].text) == r.structured_content
            return r.structured_content

        assert [c["name"] for c in (await call("list_collections"))["collections"]] == ["house"]
        for query in ("when do wards open?", "陈发虎", "🚀", "متى تفتح الأجنحة"):
            found = await call("search", query=query, collection="house", limit=5, mode="hybrid")
            assert found["passages"] and found["place"]["country"] == "FR"
            assert all(p["source"] == "wards.md" and p["jurisdiction"] == "FR" and p["decision"] for p in found["passages"])
        first = found["passages"][0]
        whole = await call("get_passage", collection="house", id=first["id"])
        assert whole["passage"]["text"] == first["text"] and len(whole["before"]) + len(whole["after"]) == 1
        why = await call("explain_access", collection="house", id=first["id"])
        assert why["explanation"]["decision"] == "allow"
        assert len((await call("explain_access", collection="house"))["explanation"]["classes"]) == 1
        refused = await client.call_tool("search", {"query": "x", "collection": "absent"})
        assert refused.is_error and "not_found" in refused.content[0].text


async def test_a_ping_of_the_2025_generation(transport):
    async with Client(transport, mode="legacy", read_timeout_seconds=60) as client:
        await client.send_ping()


def snippets():
    """The indented JSON blocks of README's section about assistants."""
    with open(os.path.join(cells.SOURCE, "README.md")) as f:
        section = f.read().split("## Coding assistants")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.M)
    return [json.loads(b) for b in blocks]


@pytest.mark.parametrize("config", snippets(), ids=range(len(snippets())))
async def test_the_snippets_of_the_readme_connect(paris, config):
    """Each entry as its client reads it: secrets filled in, the host and the files ours."""
    (server,) = (config.get("servers") or config["mcpServers"]).values()
    if "url" in server:
        secrets = {"${input:key}": paris.key, "$COPILOT_MCP_KEY": "Bearer " + paris.key, "${BAILIWICK_KEY}": paris.key,
                   "Bearer KEY": "Bearer " + paris.key}
        headers = {}
        for name, value in server["headers"].items():
            for secret, meant in secrets.items():
                value = value.replace(secret, meant)
            headers[name] = value
        assert headers == {"Authorization": "Bearer " + paris.key}
        url = server["url"].replace("https://CELL", paris.url)
        transport = streamable_http_client(url, http_client=create_mcp_http_client(headers=headers))
    else:
        assert server["command"] == "bailiwick"
        args = [{"https://CELL": paris.url, "ana.key": paris.key_file}.get(a, a) for a in server["args"]]
        transport = stdio_client(StdioServerParameters(command=cells.BINARY, args=args, env=paris.env))
    async with Client(transport, mode="legacy", read_timeout_seconds=60) as client:
        found = await client.call_tool("search", {"query": "wards", "collection": "house", "mode": "bm25"})
        assert found.structured_content["passages"]
    for t in server.get("autoApprove", []) + server.get("tools", []):
        assert t == "*" or t in TOOLS


def test_the_readme_has_every_assistant():
    assert len(snippets()) == 7
