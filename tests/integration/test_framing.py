"""Request framing (threats row 15) and slow clients (row 16) over raw sockets.

Every malformed request carries a second, smuggled one behind it. Refused means: at most
one answer comes, it is a 4xx, and the connection is closed."""
import re
import socket
import time

import pytest
from cell import Cell

HOST = b"Host: 127.0.0.1\r\n"
SMUGGLED = b"GET /v1/whoami?smuggled=1 HTTP/1.1\r\n" + HOST + b"\r\n"
ANSWER = re.compile(rb"HTTP/1\.1 \d\d\d ")
POST = b"POST /v1/authorize HTTP/1.1\r\n"

REFUSED = {
    "cl-cl-differ": POST + HOST + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + SMUGGLED,
    "cl-cl-same": POST + HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + SMUGGLED,
    "cl-list": POST + HOST + b"Content-Length: 2, 2\r\n\r\n{}" + SMUGGLED,
    "cl-plus": POST + HOST + b"Content-Length: +2\r\n\r\n{}" + SMUGGLED,
    "cl-minus": POST + HOST + b"Content-Length: -2\r\n\r\n{}" + SMUGGLED,
    "cl-hex": POST + HOST + b"Content-Length: 0x2\r\n\r\n{}" + SMUGGLED,
    "cl-empty": POST + HOST + b"Content-Length: \r\n\r\n{}" + SMUGGLED,
    "cl-words": POST + HOST + b"Content-Length: 2 2\r\n\r\n{}" + SMUGGLED,
    "cl-huge": POST + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n{}" + SMUGGLED,
    "cl-te": POST + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-cl": POST + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-xchunked": POST + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-identity": POST + HOST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-gzip-chunked": POST + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-twice": POST + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-twice-identity": POST + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-vtab": POST + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "te-http10": b"POST /v1/authorize HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "space-before-colon": POST + HOST + b"Content-Length : 2\r\n\r\n{}" + SMUGGLED,
    "te-space-before-colon": POST + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "bare-lf-headers": b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n" + SMUGGLED,
    "bare-lf-one": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\n\r\n" + SMUGGLED,
    "bare-cr": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\rX: y\r\n\r\n" + SMUGGLED,
    "obs-fold": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n" + SMUGGLED,
    "nul-header": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n" + SMUGGLED,
    "nul-path": b"GET /a\x00b HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "no-host": b"GET / HTTP/1.1\r\n\r\n" + SMUGGLED,
    "two-hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n" + SMUGGLED,
    "two-authorizations": b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n" + SMUGGLED,
    "two-api-keys": b"GET / HTTP/1.1\r\n" + HOST + b"api-key: a\r\napi-key: b\r\n\r\n" + SMUGGLED,
    "absolute-form": b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "asterisk": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "authority": b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "http-2-word": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n" + SMUGGLED,
    "http-3-fields": b"GET / x HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "chunk-bare-lf": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n" + SMUGGLED,
    "chunk-0x": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk-negative": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk-overflow": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk-short": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "header-no-colon": b"GET / HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n" + SMUGGLED,
    "header-no-name": b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n" + SMUGGLED,
}

# Well formed, if odd: served as one request, and the next one as another.
SERVED = {
    "get": b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "lower-case-names": b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "chunked": POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunked-upper": POST + HOST + b"Transfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "length": POST + HOST + b"Content-Length: 2\r\n\r\n{}",
    "length-zeros": POST + HOST + b"Content-Length: 002\r\n\r\n{}",
}


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=True) as c:
        yield c


def talk(cell, data, timeout=5.0):
    """Everything that comes back until the server closes; (bytes, closed)."""
    s = socket.create_connection(("127.0.0.1", cell.port), timeout=timeout)
    got, closed = b"", False
    try:
        s.sendall(data)
        while True:
            part = s.recv(65536)
            if not part:
                closed = True
                break
            got += part
    except socket.timeout:
        pass
    except (ConnectionResetError, BrokenPipeError):
        closed = True
    finally:
        s.close()
    return got, closed


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_framing__refused_and_closed(cell, name):
    got, closed = talk(cell, REFUSED[name], timeout=12.0)
    assert len(ANSWER.findall(got)) <= 1, got
    assert b'"principal"' not in got, "the smuggled request was answered"
    if got:
        assert got.split(b" ")[1][:1] in (b"4", b"5"), got
    assert closed, "the connection stays open: %r" % got


@pytest.mark.parametrize("name", sorted(SERVED))
def test_framing__well_formed_is_served(cell, name):
    got, _ = talk(cell, SERVED[name] + b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") == 2, got
    assert b"healthz check passed" in got


def test_framing__chunk_extension_makes_no_second_request(cell):
    """Chunk extensions are legal: refused or ignored, but never a door."""
    got, _ = talk(cell, POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") <= 1


def test_targets__escapes_are_checked(cell):
    for path in ("/%00", "/collections/%00", "/collections/a%", "/collections/%zz", "/collections/%2e%2e",
                 "/collections/../collections", "/collections/./x", "/collections/a%0d%0ab", "/collections/%ff",
                 "/collections/a%2Fb", "/collections/docs%2fpoints"):
        assert cell.get(path).status == 400, path
    assert cell.get("/healthz/").status == 200
    assert cell.get("/healthz//").status == 404


def test_dev__host_and_origin(cell):
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}, {"Host": "localhost@evil"},
                    {"Host": "127.0.0.1:80:80"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": "http://127.0.0.1.evil.example"}, {"Origin": "file://"}):
        r = cell.get("/collections", headers=headers)
        assert r.status == 403, headers
        assert cell.get("/", headers=headers).status == 403
    for headers in ({"Host": "localhost"}, {"Host": "localhost:%d" % cell.port}, {"Host": "[::1]:1"},
                    {"Origin": "http://localhost:3000"}, {"Origin": "https://127.0.0.1"}):
        assert cell.get("/", headers=headers).status == 200, headers


def test_bodies__cap_and_one_above(cell):
    cap = 32 << 20
    path = "/v1/collections/none"
    at = cell.put(path, b" " * cap)
    assert at.status == 400 and b"too large" not in at.body
    above = cell.put(path, b" " * (cap + 1))
    assert above.status == 413 and b"too large" in above.body
    qdrant = cell.put("/collections/none", b" " * (cap + 1))
    assert qdrant.status == 400 and b"too large" in qdrant.body
    chunked = POST + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 33 \
        + b"0\r\n\r\n"
    got, _ = talk(cell, chunked, timeout=20)
    assert got == b"" or got.startswith(b"HTTP/1.1 413"), got[:100]
    assert cell.get("/healthz").status == 200


def test_slow__headers_are_cut_and_others_served():
    """200 drippers at a byte a second: all closed by their absolute deadline."""
    with Cell(dev=True, settings={"server.headers_s": 2, "server.idle_s": 3}) as c:
        drips = [socket.create_connection(("127.0.0.1", c.port)) for _ in range(200)]
        line = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 1000
        started, open_now, worst = time.monotonic(), list(drips), 0.0
        at = 0
        while open_now and time.monotonic() - started < 15:
            before = time.monotonic()
            assert c.get("/healthz").status == 200
            worst = max(worst, time.monotonic() - before)
            still = []
            for s in open_now:
                try:
                    s.send(line[at:at + 1])
                    s.setblocking(False)
                    try:
                        if s.recv(1) == b"":
                            continue
                    except BlockingIOError:
                        pass
                    still.append(s)
                except OSError:
                    pass
            open_now, at = still, at + 1
            time.sleep(0.5)
        for s in drips:
            s.close()
        assert not open_now, "%d drippers live on" % len(open_now)
        print("good client's worst answer: %.3f s" % worst)


def test_slow__idle_and_unread_answers_are_cut():
    with Cell(dev=True, settings={"server.headers_s": 2, "server.idle_s": 2}) as c:
        s = socket.create_connection(("127.0.0.1", c.port), timeout=10)
        s.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
        assert s.recv(1) == b""  # closed when idle for too long
        s.close()


def test_limits__connections_over_the_limit_get_503():
    with Cell(dev=True, settings={"server.connections": 8, "server.headers_s": 20}) as c:
        held = [socket.create_connection(("127.0.0.1", c.port)) for _ in range(8)]
        time.sleep(0.5)
        got, closed = talk(c, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert got.startswith(b"HTTP/1.1 503") and closed
        assert b"Retry-After" in got
        held.pop().close()
        for _ in range(100):
            got, _ = talk(c, b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            if got.startswith(b"HTTP/1.1 200"):
                break
            time.sleep(0.1)
        assert got.startswith(b"HTTP/1.1 200")
        for s in held:
            s.close()


def test_limits__connections_of_one_address():
    with Cell(dev=True, settings={"server.connections_per_address": 4, "server.headers_s": 20}) as c:
        held = [socket.create_connection(("127.0.0.1", c.port)) for _ in range(4)]
        time.sleep(0.5)
        got, closed = talk(c, b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert got.startswith(b"HTTP/1.1 503") and closed
        other = socket.create_connection(("127.0.0.1", c.port), source_address=("127.0.0.2", 0), timeout=10)
        other.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert other.recv(1000).startswith(b"HTTP/1.1 200")
        for s in held + [other]:
            s.close()


def test_limits__bodies_in_memory_together():
    """Two bodies that are each allowed and too much together: one of them gets a 503."""
    part = 20 << 20
    with Cell(dev=True, settings={"limits.bodies_bytes": 32 << 20}) as c:
        head = b"PUT /v1/collections/x HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (part + 1)
        pair = [socket.create_connection(("127.0.0.1", c.port), timeout=60) for _ in range(2)]
        for s in pair:
            s.sendall(head + b" " * part)
        for s in pair:
            s.sendall(b" ")
        # Whichever passes the limit is refused, the other is judged as what it is: how fast
        # each arrives is the machine's affair.
        assert sorted(s.recv(1000)[:12] for s in pair) == [b"HTTP/1.1 400", b"HTTP/1.1 503"]
        for s in pair:
            s.close()
        for _ in range(100):  # room again once they are gone
            r = c.put("/v1/collections/x", b" " * part)
            if r.status == 400:
                break
            time.sleep(0.05)
        assert r.status == 400


def test_slow__bodies_are_cut():
    """A body that drips below server.rate_bytes ends after the 10 s of grace."""
    with Cell(dev=True) as c:
        s = socket.create_connection(("127.0.0.1", c.port), timeout=30)
        s.sendall(b"PUT /v1/collections/x HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n")
        closed = False
        for _ in range(60):
            try:
                s.sendall(b" ")
                s.settimeout(0.5)
                if s.recv(1) == b"":
                    closed = True
                    break
            except socket.timeout:
                continue
            except OSError:
                closed = True
                break
        s.close()
        assert closed
        assert c.get("/healthz").status == 200
