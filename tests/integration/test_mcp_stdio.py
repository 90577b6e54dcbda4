"""bailiwick mcp: the bridge from standard input to a cell's /mcp, line by line."""
import json
import select
import subprocess

import cell as cells
from cell import Cell
from test_mcp import LEGACY, MODERN, TOOLS, dev, message, modern, paris  # noqa: F401 (two fixtures)


class Bridge:
    def __init__(self, c, *args):
        self.p = subprocess.Popen([cells.BINARY, "mcp", "--url", c.url, *args], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=c.env)

    def send(self, line):
        if not isinstance(line, bytes):
            line = json.dumps(line, ensure_ascii=False).encode()
        self.p.stdin.write(line + b"\n")
        self.p.stdin.flush()

    def read(self):
        ready, _, _ = select.select([self.p.stdout], [], [], 60)
        assert ready, "no answer"
        return json.loads(self.p.stdout.readline())

    def ask(self, line):
        self.send(line)
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.p.stdin.close()
        try:
            self.code = self.p.wait(60)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            raise
        self.rest, self.stderr = self.p.stdout.read(), self.p.stderr.read().decode()
        self.p.stdout.close()
        self.p.stderr.close()


def test_stdio_survives_a_bad_byte(dev):
    """Case 66."""
    with Bridge(dev) as b:
        assert b.ask(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}') == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
        assert b.ask(message("ping", id=2)) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        r = b.ask(message("initialize", {"protocolVersion": "2027-01-01", "capabilities": {}}, id=3))
        assert r["result"]["protocolVersion"] == LEGACY[0]
        b.send(message("notifications/initialized", id=None))
        b.send(b"")
        assert b.ask(b"[1,") ["error"]["code"] == -32700
        assert b.ask(b'{"jsonrpc":"2.0","id":null,"method":"ping"}')["error"]["code"] == -32600
        assert [t["name"] for t in b.ask(message("tools/list", id="l"))["result"]["tools"]] == TOOLS
        r = b.ask(message("tools/call", {"name": "search", "arguments": {"query": "陈发虎", "collection": "tongues"}}, id=9007199254740993))
        assert r["id"] == 9007199254740993 and r["result"]["structuredContent"]["passages"]
        error_ = b.ask([message("ping")])["error"]
        assert error_["code"] == -32600  # agreed on a version without batches
    assert (b.code, b.rest) == (0, b""), b.stderr


def test_stdio_flushes_what_is_pending_at_the_end(dev):
    lines = [message("tools/list", id=i) for i in range(20)] + [message("ping", id=20)]
    p = subprocess.run([cells.BINARY, "mcp", "--url", dev.url], input=b"\r\n".join(json.dumps(m).encode() for m in lines),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert p.returncode == 0 and [json.loads(x)["id"] for x in p.stdout.splitlines()] == list(range(21)), p
    assert p.stderr == b""


def test_stdio_speaks_the_modern_generation(dev):
    with Bridge(dev) as b:
        assert b.ask(modern("server/discover"))["result"]["supportedVersions"][0] == MODERN
        r = b.ask(modern("tools/call", {"name": "search", "arguments": {"query": "tea", "collection": "guide", "mode": "bm25"}}, id="x"))
        assert r["id"] == "x" and r["result"]["resultType"] == "complete"
        assert b.ask(modern("ping"))["error"]["code"] == -32601
        assert b.ask(modern("tools/call", {"name": "söök\r\nx: y"}))["error"]["code"] == -32602
        assert b.ask(modern("tools/list", version="v\r\nx"))["error"]["code"] == -32022
    assert b.code == 0


def test_stdio_lines_are_bounded(dev):
    m = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}'
    fits = m % (b"x" * ((1 << 20) - len(m) + 2))
    with Bridge(dev) as b:
        assert b.ask(fits)["result"] == {}
        assert b.ask(fits + b" ")["error"]["code"] == -32600
        assert b.ask(b"x" * (5 << 20))["error"]["code"] == -32600
        assert b.ask(message("ping", id=5))["id"] == 5
    assert b.code == 0


def test_stdio_while_the_cell_is_down(tmp_path):
    with Cell(dev=True) as c:
        with Bridge(c) as b:
            assert b.ask(message("tools/list"))["result"]
            c.stop()
            assert b.ask(message("ping", id=2)) == {"jsonrpc": "2.0", "id": 2, "result": {}}
            r = b.ask(message("tools/list", id=3))
            assert (r["id"], r["error"]["code"]) == (3, -32603)
            c.start()
            assert b.ask(message("tools/list", id=4))["result"]
        assert b.code == 0 and "no cell is running" in b.stderr


def test_stdio_with_keys(paris):
    with Bridge(paris, "--key-file", str(paris.folder / "nurse"), "--purpose", "care") as b:
        r = b.ask(message("tools/call", {"name": "search", "arguments": {"query": "wards", "collection": "house", "mode": "bm25"}}))
        assert [p["source"] for p in r["result"]["structuredContent"]["passages"]] == ["open.md"]
    assert b.code == 0
    with Bridge(paris, "--key-file", str(paris.folder / "nurse"), "--purpose", "audit") as b:
        r = b.ask(message("tools/list", id="p"))
        assert r["id"] == "p" and "purpose" in r["error"]["message"]
    with Bridge(paris) as b:
        r = b.ask(message("tools/list", id="k"))
        assert r["id"] == "k" and "401" in r["error"]["message"]
        b.send(message("notifications/initialized", id=None))
    assert b.code == 0 and b.rest == b"" and paris.keys["nurse"] not in b.stderr


def test_stdio_wants_its_input_for_messages(paris):
    assert paris.cli("mcp", "--key-file", "-").returncode == 2
    assert paris.cli("mcp", "--nope").returncode == 2
    assert "bailiwick mcp" in paris.cli("mcp", "--help").stdout
