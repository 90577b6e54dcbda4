"""@langchain/qdrant and @qdrant/js-client-rest under Node 20 or later, unmodified.

`server/deps.sh test` installs them from js/package.json into BW_DEPS/js, and Node with
them where the machine's own is older."""
import os
import shutil
import subprocess

import pytest

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "js")
DEPS = os.environ.get("BW_DEPS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bailiwick")
FOLDER = os.path.join(DEPS, "js")


def node():
    own = os.path.join(FOLDER, "node_modules", "node", "bin", "node")
    return own if os.path.exists(own) else shutil.which("node")


@pytest.mark.skipif(not os.path.isdir(os.path.join(FOLDER, "node_modules", "@langchain", "qdrant")),
                    reason="the JavaScript clients are not installed (server/deps.sh test)")
def test_javascript_clients(cell):
    script = os.path.join(FOLDER, "clients.mjs")
    shutil.copy(os.path.join(HERE, "clients.mjs"), script)  # modules are found beside the script
    r = subprocess.run([node(), script, cell.url], cwd=FOLDER, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=120)
    print(r.stdout)
    assert r.returncode == 0, r.stdout
    assert r.stdout.count("ok ") == 6
