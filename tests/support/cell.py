"""A Bailiwick cell for tests: starts the real binary on a free loopback port with a
data folder of its own, and removes both at the end.

    with Cell(dev=True) as c:
        r = c.put("/collections/x", {"vectors": {"size": 4, "distance": "Dot"}})
        assert r.status == 200 and r.json()["result"] is True

    with Cell(country="FR", operator="eucloud") as c:      # a full cell: keys, policies
        key = c.key_add("ana", tenant="acme", seat="FR", clearance=3,
                        purposes=["payroll"], labels={...})
        r = c.get("/collections", key=key)

The binary is taken from BW_BINARY (default build/debug/bailiwick). Only the standard
library is used, so any Python >= 3.9 runs it.
"""
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("BW_BINARY", os.path.join(SOURCE, "build", "debug", "bailiwick"))
START_S = float(os.environ.get("BW_START_S", "60"))


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "<%d %r>" % (self.status, self.body[:300])


class Cell:
    """dev: `serve --dev`, one open principal. Otherwise `init` is run first; its first
    administrator's key is `admin_key` and is what calls use unless they name another.

    settings: {"server.workers": 2, …} as `init --set` takes them. data: a folder to use
    (kept at the end); by default a temporary one is made and removed.
    args: more arguments of `serve`. env: more environment."""

    def __init__(self, dev=True, data=None, country=None, operator=None, settings=None,
                 args=(), env=None, tls=None, model=None):
        self.dev, self.args, self.tls = dev, list(args), tls
        self.settings = dict(settings or {})
        if country:
            self.settings["cell.country"] = country
        if operator:
            self.settings["cell.operator"] = operator
        if model:
            self.settings["model.folder"] = model
        if tls:
            self.settings["server.tls_cert"], self.settings["server.tls_key"] = tls
        self.env = dict(os.environ, **(env or {}))
        self.keep = data is not None
        self.data = data or tempfile.mkdtemp(prefix="bw-cell-")
        self.port, self.process, self.admin_key, self.log = 0, None, None, []
        self.host = "127.0.0.1"

    # ---- life ----
    def __enter__(self):
        try:
            if not self.dev and not os.path.exists(os.path.join(self.data, "cell.json")):
                self.init()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def init(self):
        key_file = os.path.join(self.data + ".admin-key")
        cmd = [BINARY, "init", "--data", self.data, "--admin-key-file", key_file]
        for name, value in self.settings.items():
            cmd += ["--set", "%s=%s" % (name, value)]
        try:
            subprocess.run(cmd, check=True, env=self.env, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=START_S)
            with open(key_file) as f:
                self.admin_key = f.read().strip()
        except subprocess.CalledProcessError as e:
            raise RuntimeError("init failed: %s%s" % (e.stdout.decode(), e.stderr.decode()))
        finally:
            if os.path.exists(key_file):
                os.unlink(key_file)

    def start(self):
        cmd = [BINARY, "serve", "--data", self.data, "--listen",
               "%s:%d" % (self.host, self.port)]
        if self.dev:
            cmd.append("--dev")
            for name, value in self.settings.items():
                cmd += ["--set", "%s=%s" % (name, value)]
        self.process = subprocess.Popen(cmd + self.args, env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = []
        threading.Thread(target=self._drain, args=(self.process.stderr,), daemon=True).start()
        # "listening on 127.0.0.1:PORT" is the first line of stdout once requests are served.
        guard = threading.Timer(START_S, self.process.kill)
        guard.start()
        try:
            line = self.process.stdout.readline().decode()
        finally:
            guard.cancel()
        if not line.startswith("listening on "):
            self.process.wait()
            time.sleep(0.1)
            raise RuntimeError("the cell did not start (exit %s): %s"
                               % (self.process.returncode, "".join(self.log)))
        self.port = int(line.strip().rsplit(":", 1)[1])
        threading.Thread(target=self._drain, args=(self.process.stdout,), daemon=True).start()

    def _drain(self, stream):
        for line in stream:
            self.log.append(line.decode("utf-8", "replace"))

    def stop(self, sig=signal.SIGTERM, timeout=60):
        """Stops gracefully; returns the exit code."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.process = None
        return code

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log_holds(self):
        """The log's chain is whole; of a killed cell, up to an end that the kill tore off."""
        r = self.cli("audit", "verify", "--data", self.data)
        return r.returncode == 0 or (self.process is None and "a crash left" in r.stderr)

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        try:
            if self.process is not None:
                code = self.stop()
                if code != 0:
                    raise RuntimeError("the cell ended with %s: %s" % (code, "".join(self.log[-40:])))
        finally:
            if not self.keep:
                shutil.rmtree(self.data, ignore_errors=True)

    # ---- calls ----
    @property
    def url(self):
        return "%s://%s:%d" % ("https" if self.tls else "http", self.host, self.port)

    def connection(self, timeout=60):
        if self.tls:
            context = ssl.create_default_context(cafile=self.tls[0])
            context.check_hostname = False
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def call(self, method, path, body=None, key="admin", headers=None, timeout=60, connection=None):
        """body: bytes as they are, anything else as JSON. key: None sends none."""
        h = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, bytearray)):
            body = json.dumps(body).encode()
            h.setdefault("Content-Type", "application/json")
        if key == "admin":
            key = self.admin_key
        if key:
            h.setdefault("api-key", key)
        c = connection or self.connection(timeout)
        try:
            c.request(method, path, body=body, headers=h)
            r = c.getresponse()
            return Response(r.status, r.headers, r.read())
        finally:
            if connection is None:
                c.close()

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.call("PUT", path, body, **kw)

    def patch(self, path, body=None, **kw):
        return self.call("PATCH", path, body, **kw)

    def delete(self, path, body=None, **kw):
        return self.call("DELETE", path, body, **kw)

    def key_add(self, principal, tenant, seat="FR", clearance=3, roles=(), purposes=(),
                default_purpose=None, safeguards=(), labels=None):
        """Makes a key through /v1/keys and returns its secret text."""
        record = {"principal": principal, "tenant": tenant, "seat": seat, "clearance": clearance,
                  "roles": list(roles), "purposes": list(purposes), "safeguards": list(safeguards)}
        if default_purpose or purposes:
            record["default_purpose"] = default_purpose or purposes[0]
        if labels is not None:
            record["labels"] = labels
        r = self.post("/v1/keys", record)
        if r.status != 200:
            raise RuntimeError("key add: %r" % r)
        return r.json()["key"]

    def cli(self, *args, **kw):
        """Runs the binary; returns subprocess.CompletedProcess with text output."""
        return subprocess.run([BINARY] + list(args), env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=kw.pop("timeout", 120), **kw)
