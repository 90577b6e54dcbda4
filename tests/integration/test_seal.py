"""The end of a bulk load: a call, a command, and the PATCH that clients of Qdrant's send."""
import os
import random

from cell import Cell

LABELS = {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "categories": [], "labels": [],
          "purposes": ["payroll"], "legal_hold": False}


def fill(c, name, n, key, first=0):
    points = [{"id": i, "vector": [(i * 7) % 13, (i * 5) % 11, i % 3, 1]} for i in range(first, first + n)]
    for at in range(0, n, 500):
        r = c.put("/collections/%s/points?wait=true" % name, {"points": points[at:at + 500]}, key=key)
        assert r.status == 200, r


def ask(c, name, key):
    r = c.post("/collections/%s/points/query" % name, {"query": [1, 2, 3, 4], "limit": 5}, key=key)
    return [(p["id"], p["score"]) for p in r.json()["result"]["points"]]


def segments(c):
    text = c.get("/metrics").text
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if line.startswith("bailiwick_engine_")}


def test_seal__by_call_command_and_patch(tmp_path):
    with Cell(dev=False, country="FR", operator="eucloud", settings={"data.seal_rows": 200}) as c:
        ana = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll"], labels=LABELS)
        assert c.put("/collections/x", {"vectors": {"size": 4, "distance": "Dot"},
                                        "optimizers_config": {"indexing_threshold": 0}}, key=ana).status == 200
        fill(c, "x", 1100, ana)
        before = ask(c, "x", ana)
        r = c.post("/v1/collections/x/seal", {}, key=ana)
        assert r.status == 200 and r.json() == {"sealed": True}, r
        for body, where in (({"force": True}, "/force"), ({"exact": 1, "x": 2}, "/exact"), ([1], "")):
            r = c.post("/v1/collections/x/seal", body, key=ana)
            assert r.status == 400 and where in r.text, r
        m = segments(c)
        assert m["bailiwick_engine_segments_sealed"] == 1 and m["bailiwick_engine_graphs_serving"] == 1
        assert m["bailiwick_engine_merges_pending"] == 0
        assert ask(c, "x", ana) == before
        fill(c, "x", 700, ana)
        r = c.patch("/collections/x", {"optimizers_config": {"indexing_threshold": 20000}}, key=ana)
        assert r.status == 200, r
        assert segments(c)["bailiwick_engine_segments_sealed"] == 1
        assert ask(c, "x", ana) == before
        fill(c, "x", 350, ana, first=2000)
        before = ask(c, "x", ana)
        for threshold, sealed in ((30000, False), (30000, True)):  # another number; the same again
            r = c.patch("/collections/x", {"optimizers_config": {"indexing_threshold": threshold}}, key=ana)
            assert r.status == 200, r
            assert (segments(c)["bailiwick_engine_segments_sealed"] == 1) == sealed
        assert ask(c, "x", ana) == before
        (tmp_path / "ana").write_text(ana)
        os.chmod(tmp_path / "ana", 0o600)
        args = ["--url", c.url, "--key-file", str(tmp_path / "ana")]
        done = c.cli("seal", "--collection", "x", *args)
        assert done.returncode == 0 and done.stdout == "sealed\n", done
        assert c.cli("seal", "--collection", "none", *args).returncode == 1
        assert c.cli("seal", *args).returncode == 2
        assert c.post("/v1/collections/none/seal", {}, key=ana).status in (403, 404)
        reader = c.key_add("rob", "acme", purposes=["payroll"], labels=LABELS)
        r = c.post("/v1/collections/x/seal", {}, key=reader)
        assert r.status == 403, r


def test_seal__the_command_outlasts_the_deadline_of_a_request(tmp_path):
    """Seconds of building against a deadline of one: the command asks until the graph serves."""
    with Cell(dev=False, country="FR", operator="eucloud", settings={"server.request_s": 1}) as c:
        ana = c.key_add("ana", "acme", roles=["editor"], purposes=["payroll"], labels=LABELS)
        assert c.put("/collections/x", {"vectors": {"size": 64, "distance": "Cosine"}}, key=ana).status == 200
        draw = random.Random(7)
        for at in range(0, 4000, 200):
            points = [{"id": i, "vector": [draw.gauss(0, 1) for _ in range(64)]} for i in range(at, at + 200)]
            while c.put("/collections/x/points?wait=true", {"points": points}, key=ana).status == 408:
                pass  # a slow machine: again, it is the same write
        (tmp_path / "ana").write_text(ana)
        os.chmod(tmp_path / "ana", 0o600)
        done = c.cli("seal", "--collection", "x", "--url", c.url, "--key-file", str(tmp_path / "ana"), timeout=600)
        assert done.returncode == 0 and done.stdout == "sealed\n", done
        assert set(done.stderr.splitlines()) <= {"seal: the graphs are still being built; waiting on"}, done
        assert segments(c)["bailiwick_engine_graphs_serving"] == 1


def test_metrics__every_figure_of_the_engine_says_what_it_is():
    with Cell(dev=True) as c:
        lines = c.get("/metrics").text.splitlines()
        mute = [line for line in lines if line.endswith(" Of the engine.")]
        assert len(lines) > 100 and not mute, mute
