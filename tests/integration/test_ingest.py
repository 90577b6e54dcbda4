"""Documents in, questions answered: /v1/ingest, /v1/query and the commands over them.

One --dev cell for the routes, one full cell in France for labels, refusals and callers.
The model is the one that server/deps.sh installs (BW_DEPS/model), or BW_MODEL."""
import base64
import http.server
import json
import os
import socket
import subprocess
import threading

import pytest

import cell as cells
from cell import Cell

DEPS = os.environ.get("BW_DEPS", os.path.expanduser("~/.cache/bailiwick"))
MODEL = os.environ.get("BW_MODEL", os.path.join(DEPS, "model"))
DEMO = os.path.join(cells.SOURCE, "tests", "data", "demo")
DOCUMENTS = os.path.join(DEMO, "documents")


@pytest.fixture(scope="module")
def dev():
    with Cell(dev=True, model=MODEL) as c:
        yield c


def ingest(c, collection, source, text=None, status=200, key="admin", **more):
    body = {"collection": collection, "source": source, "create": True, **more}
    if text is not None:
        body["text"] = text
    r = c.post("/v1/ingest", body, key=key)
    assert r.status == status, r
    return r.json()


def query(c, collection, text, key="admin", headers=None, status=200, **more):
    r = c.post("/v1/query", {"collection": collection, "query": text, **more}, key=key, headers=headers)
    assert r.status == status, r
    return r.json()


def points(c, collection, **kw):
    r = c.post("/collections/%s/points/scroll" % collection, {"limit": 1000, "with_payload": True}, **kw)
    assert r.status == 200, r
    return r.json()["result"]["points"]


TEXT = "# Plan\n\n## Cats\n\nCats sleep most of the day.\n\n## Rockets\n\nRockets burn fuel and oxidiser.\n"


def test_ingest_is_idempotent_by_content(dev):
    first = ingest(dev, "idem", "plan.md", TEXT)
    assert (first["unchanged"], first["chunks"], first["deleted"]) == (False, 2, 0)
    assert first["title"] == "Plan" and first["warning"] is None
    before = points(dev, "idem")
    again = ingest(dev, "idem", "plan.md", TEXT)
    assert (again["unchanged"], again["chunks"], again["digest"]) == (True, 2, first["digest"])
    assert points(dev, "idem") == before


def test_a_changed_document_replaces_its_chunks(dev):
    ingest(dev, "change", "plan.md", TEXT)
    ingest(dev, "change", "other.md", "# Other\n\nbody\n")
    r = ingest(dev, "change", "plan.md", "# Plan\n\nOne paragraph is left.\n")
    assert (r["chunks"], r["deleted"]) == (1, 1)
    got = {p["payload"]["metadata"]["source"]: p["payload"]["page_content"] for p in points(dev, "change")}
    assert got == {"plan.md": "Plan\n\nOne paragraph is left.", "other.md": "Other\n\nbody"}
    r = ingest(dev, "change", "plan.md", " \n")
    assert (r["chunks"], r["deleted"]) == (0, 1) and "no text" in r["warning"]
    assert len(points(dev, "change")) == 1


def test_payload_carries_provenance(dev):
    ingest(dev, "prov", "plan.md", TEXT)
    p = sorted(points(dev, "prov"), key=lambda p: p["payload"]["metadata"]["ordinal"])[1]
    m = p["payload"]["metadata"]
    assert m["headings"] == "Plan > Rockets" and m["ordinal"] == 1 and m["chunks"] == 2
    clean = "Plan\n\nCats\n\nCats sleep most of the day.\n\nRockets\n\nRockets burn fuel and oxidiser."
    assert clean[m["byte_begin"]:m["byte_end"]] == p["payload"]["page_content"]
    assert p["id"][14] == "8" and p["id"][19] in "89ab"


@pytest.mark.parametrize("mode", ["dense", "bm25", "hybrid"])
def test_every_mode_finds_the_right_chunk(dev, mode):
    ingest(dev, "modes", "plan.md", TEXT)
    hits = query(dev, "modes", "what fuel do rockets burn", mode=mode, limit=2)["hits"]
    assert "Rockets burn" in hits[0]["text"] and hits[0]["source"] == "plan.md"
    assert hits[0]["headings"] == "Plan > Rockets" and hits[0]["class"] and hits[0]["labels"]["tenant"]
    assert all(a["score"] >= b["score"] for a, b in zip(hits, hits[1:]))


def test_filter_and_explain(dev):
    ingest(dev, "filt", "a.md", "# A\n\nrockets\n")
    ingest(dev, "filt", "b.md", "# B\n\nrockets\n")
    only = {"must": [{"key": "metadata.source", "match": {"value": "b.md"}}]}
    r = query(dev, "filt", "rockets", filter=only, explain=True)
    assert [h["source"] for h in r["hits"]] == ["b.md"] and r["explain"]
    r = dev.post("/v1/query", {"collection": "filt", "query": "x", "filter": {"must": [{"keys": "a"}]}})
    assert r.status == 400


def test_pdf_has_pages_and_latin_1_is_read(dev):
    for name in ("de/kreditakten.pdf", "fr/sortie-du-patient.txt"):
        with open(os.path.join(DOCUMENTS, name), "rb") as f:
            ingest(dev, "kinds", name, content_base64=base64.b64encode(f.read()).decode())
    hit = query(dev, "kinds", "Einsicht mit Zweck und Uhrzeit", mode="bm25", limit=1)["hits"][0]
    assert (hit["source"], hit["page"]) == ("de/kreditakten.pdf", 2)
    hit = query(dev, "kinds", "lettre de liaison", mode="bm25", limit=1)["hits"][0]
    assert "décidée" in hit["text"]


def test_vectors_are_those_of_the_encoder_alone(dev):
    ingest(dev, "bits", "a.txt", "The same sentence.")
    ingest(dev, "bits", "b.txt", "The same sentence.")
    r = dev.post("/collections/bits/points/scroll", {"limit": 9, "with_vector": True})
    a, b = (p["vector"] for p in r.json()["result"]["points"])
    assert a == b and len(a) == 384 and abs(sum(x * x for x in a) - 1) < 1e-4


@pytest.mark.parametrize("body,status,pointer", [
    ({"collection": "bad", "source": "s", "text": "t", "colection": "x"}, 400, "/colection"),
    ({"source": "s", "text": "t"}, 400, "/collection"),
    ({"collection": "bad", "source": "", "text": "t"}, 400, "/source"),
    ({"collection": "bad", "source": "s"}, 400, ""),
    ({"collection": "bad", "source": "s", "text": "t", "content_base64": "dA=="}, 400, ""),
    ({"collection": "bad", "source": "s.txt", "content_base64": "d"}, 400, "/content_base64"),
    ({"collection": "bad", "source": "s.xyz", "content_base64": "dA=="}, 400, "/name"),
    ({"collection": "bad", "source": "s", "text": "t", "media_type": "image/png"}, 400, "/media_type"),
    ({"collection": "bad", "source": "s", "text": "t", "expires_at": "soon"}, 400, "/expires_at"),
    ({"collection": "bad", "source": "s", "text": "t", "labels": []}, 400, "/labels"),
    ({"collection": "bad", "source": "s", "text": "t", "chunk": {"target": 1}}, 400, "/chunk/target"),
    ({"collection": "bad", "source": "s", "text": "t", "create": 1}, 400, "/create"),
])
def test_wrong_bodies_name_the_field(dev, body, status, pointer):
    r = dev.post("/v1/ingest", body)
    assert r.status == status and r.json()["error"]["pointer"] == pointer, r


def test_wrong_questions_name_the_field(dev):
    ingest(dev, "q", "a.md", "# A\n\nbody\n")
    for body, pointer in [({"query": "x"}, "/collection"), ({"query": "", "collection": "q"}, "/query"),
                          ({"query": "x", "collection": "q", "limit": 0}, "/limit"),
                          ({"query": "x", "collection": "q", "limit": 1001}, "/limit"),
                          ({"query": "x", "collection": "q", "mode": "magic"}, "/mode"),
                          ({"query": "x", "collection": "q", "explain": 1}, "/explain"),
                          ({"query": "x", "collection": "q", "top": 3}, "/top")]:
        r = dev.post("/v1/query", body)
        assert r.status == 400 and r.json()["error"]["pointer"] == pointer, (body, r)
    assert dev.post("/v1/query", {"query": "x", "collection": "q", "limit": 1000}).status == 200


def test_absent_collection_and_bad_documents(dev):
    r = dev.post("/v1/ingest", {"collection": "absent", "source": "s", "text": "t"})
    assert r.status == 404, r
    assert dev.post("/v1/query", {"collection": "absent", "query": "t"}).status == 404
    broken = base64.b64encode(b"%PDF-1.4 nothing more").decode()
    r = dev.post("/v1/ingest", {"collection": "broken", "source": "x.pdf", "content_base64": broken, "create": True})
    assert r.status == 422 and "pdf" in r.json()["error"]["message"], r
    assert ingest(dev, "broken", "y.txt", "still works")["chunks"] == 1


def test_a_collection_of_another_shape_is_a_conflict(dev):
    dev.put("/collections/small", {"vectors": {"size": 4, "distance": "Dot"}})
    r = dev.post("/v1/ingest", {"collection": "small", "source": "s", "text": "t"})
    assert r.status == 409, r


def test_nul_in_a_document_does_not_end_the_call(dev):
    """Case 63 of the public reports: a NUL from a document aborts the insert elsewhere."""
    r = ingest(dev, "nul", "a.txt", content_base64=base64.b64encode(b"before\0after and some words").decode())
    assert (r["chunks"], r["removed_characters"]) == (1, 1)
    assert points(dev, "nul")[0]["payload"]["page_content"] == "beforeafter and some words"


def test_an_expired_document_is_hidden_and_can_be_replaced(dev):
    ingest(dev, "exp", "a.txt", "rockets", expires_at="2001-01-01T00:00:00Z")
    assert query(dev, "exp", "rockets")["hits"] == []
    r = ingest(dev, "exp", "a.txt", "rockets, again")
    assert r["chunks"] == 1
    assert [h["text"] for h in query(dev, "exp", "rockets")["hits"]] == ["rockets, again"]


def test_two_writers_of_one_source_leave_one_version(dev):
    versions = ["# A\n\n## 1\n\none\n\n## 2\n\ntwo\n\n## 3\n\nthree\n", "# B\n\nshort\n",
                "# C\n\n## 1\n\nuno\n\n## 2\n\ndue\n"]
    ingest(dev, "race", "x.md", versions[0])
    for _ in range(4):
        threads = [threading.Thread(target=ingest, args=(dev, "race", "x.md", versions[i % 3])) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        got = [p["payload"]["metadata"] for p in points(dev, "race")]
        assert len({m["digest"] for m in got}) == 1 and len(got) == got[0]["chunks"], got


def test_no_document_makes_the_cell_call_out(dev):
    """threats.md, row 21: references to a trap on loopback; it must see no connection."""
    trap = socket.socket()
    trap.bind(("127.0.0.1", 0))
    trap.listen(64)
    trap.settimeout(0.2)
    u = "http://127.0.0.1:%d/" % trap.getsockname()[1]
    html = ("<!DOCTYPE html [<!ENTITY x SYSTEM '%sdtd'>]><html><head><link rel=stylesheet href='%sa.css'>"
            "<base href='%s'><meta http-equiv=refresh content='0;url=%s'><script src='%s'></script></head><body>"
            "<img src='%si.png'><iframe src='%sf'></iframe><object data='%so'></object><a href='%s'>l</a>"
            "<p style=\"background:url(%sb)\">&x;text</p></body></html>") % ((u,) * 10)
    pdf = ("%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/URI/URI(%s)>>>>endobj\n"
           "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
           "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Annots[<</Subtype/Link/Rect[0 0 9 9]/A<</S/URI"
           "/URI(%s)>>>>]/Contents 4 0 R>>endobj\n4 0 obj<</Length 0/F<</FS/URL/F(%s)>>>>stream\n\nendstream endobj\n"
           "trailer<</Root 1 0 R>>\n%%%%EOF\n") % (u, u, u)
    md = "# t\n\n![i](%si.png) [l](%s) <%s> <img src=%s>\n\n[r]: %s\n" % ((u,) * 5)
    for name, text in [("a.html", html), ("a.pdf", pdf), ("a.md", md), ("a.txt", u), ("file.txt", "file:///etc/passwd")]:
        ingest(dev, "trap", name, content_base64=base64.b64encode(text.encode()).decode())
    with pytest.raises(socket.timeout):
        trap.accept()
    trap.close()
    assert "root:" not in json.dumps(points(dev, "trap"))


# ---- a full cell: labels, refusals, callers ----

ENTITIES_OVERLAY = {"legal_entities": [
    {"id": "eucloud", "seat": "FR", "control_zones": ["EU"], "foreign_share_max": "12.5",
     "foreign_share_sum": "20.0", "baa_with": [], "certs": [], "source": "test", "date": "2026-11-30"}]}


@pytest.fixture(scope="module")
def paris(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paris")
    overlay = folder / "catalogue.json"
    overlay.write_text(json.dumps(ENTITIES_OVERLAY))
    with Cell(dev=False, country="FR", operator="eucloud", model=MODEL,
              settings={"policies.catalogue": str(overlay)}) as c:
        c.folder = folder
        keys = {
            "loader": dict(seat="FR", clearance=5, roles=["editor"], purposes=["audit"]),
            "nurse": dict(seat="FR", clearance=3, roles=["reader"], purposes=["care"]),
            "clerk": dict(seat="DE", clearance=3, roles=["reader"], purposes=["compliance"]),
            "remote": dict(seat="US", clearance=5, roles=["reader"], purposes=["care", "compliance"]),
        }
        c.keys = {}
        for name, k in keys.items():
            c.keys[name] = c.key_add(name, tenant="demo", **k)
            (folder / name).write_text(c.keys[name] + "\n")
        yield c


def command(c, *args, key="loader"):
    return c.cli(*args, "--url", c.url, "--key-file", str(c.folder / key))


def test_the_command_ingests_a_folder_and_lists_refusals(paris):
    run = lambda: command(paris, "ingest", DOCUMENTS, "--collection", "house", "--rules", os.path.join(DEMO, "rules.json"))
    first = run()
    assert first.returncode == 3, first
    assert "11 stored, 0 unchanged, 0 skipped, 2 refused, 0 failed" in first.stdout, first
    assert "residency-move" in first.stdout and "hipaa-baa" in first.stdout
    assert "ch/patientendossier.md: 451" in first.stdout and "us/discharge-notes.txt: 451" in first.stdout
    again = run()
    assert again.returncode == 3
    assert "0 stored, 11 unchanged, 0 skipped, 2 refused, 0 failed" in again.stdout, again


def seen_by(c, key, purpose=None, **more):
    headers = {"x-bailiwick-purpose": purpose} if purpose else None
    hits = query(c, "house", "How long are records kept?", key=c.keys[key], headers=headers, limit=50, **more)["hits"]
    return {h["source"].split("/")[0] for h in hits}


def test_three_callers_see_what_the_policies_let_them(paris):
    for mode in ("dense", "bm25", "hybrid"):
        assert seen_by(paris, "nurse", mode=mode) - {"en"} <= {"fr"}
    assert seen_by(paris, "nurse") == {"en", "fr"}
    assert seen_by(paris, "clerk") == {"en", "de"}
    assert seen_by(paris, "remote", "care") == {"en"}  # a reading from the US is a transfer
    assert seen_by(paris, "remote", "compliance") == {"en"}
    assert seen_by(paris, "loader") == {"en", "fr", "de"}


def test_the_query_command_prints_hits(paris):
    r = command(paris, "query", "Wie lange werden Kreditakten aufbewahrt?", "--collection", "house",
                "--purpose", "compliance", "--limit", "3", key="clerk")
    assert r.returncode == 0 and "de/kreditakten.pdf, page 1" in r.stdout, r
    r = command(paris, "query", "x", "--collection", "house", "--json", key="nurse")
    assert json.loads(r.stdout)["hits"]
    r = command(paris, "query", "x", "--collection", "nowhere", key="nurse")
    assert r.returncode == 1 and "Not found" in r.stderr, r
    assert command(paris, "query", "x", key="nurse").returncode == 2


def test_the_command_and_doctor_tell_a_purpose_that_is_not_claimed(paris):
    key = paris.post("/v1/keys", {"principal": "tacit", "tenant": "demo", "seat": "FR", "clearance": 3,
                                  "roles": ["reader"], "purposes": ["care", "search"], "safeguards": []})
    assert key.status == 200, key
    (paris.folder / "tacit").write_text(key.json()["key"] + "\n")
    silent = command(paris, "query", "records", "--collection", "house", key="tacit")
    assert silent.returncode == 0 and silent.stdout == "no hits\n" and "no purpose is claimed" in silent.stderr, silent
    said = command(paris, "query", "records", "--collection", "house", "--purpose", "care", key="tacit")
    assert said.returncode == 0 and "1. " in said.stdout and not said.stderr, said
    doctor = command(paris, "doctor", key="tacit")
    assert doctor.returncode == 0 and "no purpose is claimed" in doctor.stdout, doctor
    assert "as asked: 0 of" in doctor.stdout and "purpose care: 2 of" in doctor.stdout, doctor
    assert "no purpose is claimed" not in command(paris, "doctor", key="nurse").stdout
    bad = command(paris, "query", "x", "--collection", "house", "--filter", "{bad", key="tacit")
    assert bad.returncode == 1 and "--filter" in bad.stderr and "byte 1" in bad.stderr, bad


def test_a_reader_may_not_ingest(paris):
    r = paris.post("/v1/ingest", {"collection": "house", "source": "x", "text": "t", "labels": {
        "regimes": ["none"], "residency": ["FR"], "sensitivity": 0, "purposes": ["care"]}}, key=paris.keys["nurse"])
    assert r.status == 451 and "reader-reads" in r.json()["error"]["message"], r
    r = paris.post("/v1/ingest", {"collection": "new", "source": "x", "text": "t", "create": True},
                   key=paris.keys["nurse"])
    assert r.status == 403, r


def test_labels_are_needed_and_checked(paris):
    body = {"collection": "house", "source": "x", "text": "t"}
    r = paris.post("/v1/ingest", body, key=paris.keys["loader"])
    assert r.status == 422 and "_labels" in r.json()["error"]["message"], r
    r = paris.post("/v1/ingest", {**body, "labels": {"regimes": ["none"], "residency": ["FR"], "sensitivity": 0,
                                                     "purposes": ["cares"]}}, key=paris.keys["loader"])
    assert r.status == 422, r
    assert "x" not in {p["payload"]["metadata"]["source"] for p in points(paris, "house", key=paris.keys["loader"])}


def test_new_labels_move_the_document(paris):
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 1, "purposes": ["care", "audit"]}
    a = ingest(paris, "move", "x.txt", "moving text", key=paris.keys["loader"], labels=labels)
    b = ingest(paris, "move", "x.txt", "moving text", key=paris.keys["loader"], labels={**labels, "sensitivity": 2})
    assert a["class"] != b["class"] and (b["chunks"], b["deleted"]) == (1, 1)
    hits = query(paris, "move", "moving", key=paris.keys["loader"])["hits"]
    assert len(hits) == 1 and hits[0]["labels"]["sensitivity"] == 2


def test_an_unreachable_cell_ends_the_run(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    r = subprocess.run([cells.BINARY, "ingest", str(tmp_path), "--collection", "c", "--url", "http://127.0.0.1:1"],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and r.stderr
    r = subprocess.run([cells.BINARY, "ingest", str(tmp_path), "--collection", "c", "--label", "colour=red"],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 2


def test_refusals_and_answers_are_in_the_audit_log(paris):
    r = paris.post("/v1/ingest", {"collection": "house", "source": "swiss.txt", "text": "t", "labels": {
        "regimes": ["fadp"], "residency": ["CH"], "sensitivity": 1, "purposes": ["care"]}}, key=paris.keys["loader"])
    assert r.status == 451 and "residency-move" in r.json()["error"]["message"], r
    events = paris.get("/v1/audit?principal=loader&status=451&limit=1000").json()["events"]
    assert events and "residency-move" in json.dumps(events[-1]), events
    hits = query(paris, "house", "records", key=paris.keys["nurse"], limit=1)["hits"]
    events = paris.get("/v1/audit?principal=nurse&action=Query&limit=1000").json()["events"]
    assert hits[0]["id"] in json.dumps(events[-1])
    assert "swiss.txt" not in json.dumps(events) and "How long" not in json.dumps(events)


def test_embed_is_a_decision_of_its_own(paris):
    old = paris.get("/v1/policies").json()["policies"]
    rule = ('\n@id("no-embedding") forbid (principal, action == Bw::Action::"Embed", resource is Bw::DataClass)\n'
            'when { resource.sensitivity == 4 };\n')
    assert paris.put("/v1/policies", {"policies": old + rule}).status == 200
    try:
        body = {"collection": "house", "source": "secret.txt", "text": "t", "labels": {
            "regimes": ["none"], "residency": ["FR"], "sensitivity": 4, "purposes": ["audit"]}}
        r = paris.post("/v1/ingest", body, key=paris.keys["loader"])
        assert r.status == 451 and "no-embedding" in r.json()["error"]["message"], r
        body["labels"]["sensitivity"] = 3
        assert paris.post("/v1/ingest", body, key=paris.keys["loader"]).status == 200
    finally:
        assert paris.put("/v1/policies", {"policies": old}).status == 200


def test_a_subject_is_kept_as_a_hash_alone(paris):
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 1, "purposes": ["audit"]}
    ingest(paris, "subjects", "x.txt", "a text about somebody", key=paris.keys["loader"], labels=labels,
           subject="patient-4711")
    got = json.dumps(points(paris, "subjects", key=paris.keys["loader"]))
    assert "4711" not in got and "somebody" in got
    again = ingest(paris, "subjects", "x.txt", "a text about somebody", key=paris.keys["loader"], labels=labels,
                   subject="patient-4712")
    assert not again["unchanged"]  # the subject is part of what was ingested


def on_a_terminal(argv):
    """Runs argv with a pseudo terminal as stderr; (exit code, stdout, what the terminal got)."""
    main, side = os.openpty()
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    seen = b""
    while True:
        try:
            block = os.read(main, 4096)
        except OSError:  # the last writer is gone
            break
        if not block:
            break
        seen += block
    os.close(main)
    out = p.communicate(timeout=60)[0]
    return p.returncode, out, seen.decode()


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(dev, tmp_path):
    for i in range(3):
        (tmp_path / ("d%d.txt" % i)).write_text("document number %d" % i)
    (tmp_path / "e\x1b[31m.txt").write_text("a name that would colour the terminal")
    (tmp_path / "f.bin").write_bytes(b"\0\1")
    (tmp_path / ".hidden.txt").write_text("not read")
    os.symlink("/etc/passwd", tmp_path / "link.txt")
    argv = [cells.BINARY, "ingest", str(tmp_path), "--collection", "bar", "--url", dev.url]
    code, out, seen = on_a_terminal(argv)
    assert code == 0 and out.startswith("4 stored, 0 unchanged, 1 skipped, 0 refused, 0 failed"), (out, seen)
    assert "\r" in seen and "[####" in seen and "/5 d1.txt" in seen and "\x1b[31m" not in seen
    r = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and "\r" not in r.stdout + r.stderr and "\x1b" not in r.stdout + r.stderr
    assert "unchanged d0.txt: 1 chunks" in r.stdout and "4 unchanged" in r.stdout, r
    assert {p["payload"]["metadata"]["source"] for p in points(dev, "bar")} == \
        {"d0.txt", "d1.txt", "d2.txt", "e\x1b[31m.txt"}


def test_a_broken_run_is_resumed(dev, tmp_path):
    for i in range(12):
        (tmp_path / ("d%02d.txt" % i)).write_text("document number %d" % i)
    argv = [cells.BINARY, "ingest", str(tmp_path), "--collection", "resume", "--url", dev.url]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "stored" in p.stdout.readline()
    p.kill()
    p.communicate()
    done = len(points(dev, "resume"))
    r = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r
    words = r.stdout.strip().splitlines()[-1].split()
    stored, unchanged = int(words[0]), int(words[2])
    assert stored + unchanged == 12 and unchanged >= min(done, 1)
    got = points(dev, "resume")
    assert len(got) == 12 and len({p["payload"]["metadata"]["source"] for p in got}) == 12


def sources(c, collection, **kw):
    return {p["payload"]["metadata"]["source"] for p in points(c, collection, **kw)}


def test_a_mirror_follows_its_folder_and_nothing_else(dev, tmp_path):
    for name in ("a.txt", "b.txt", "sub/c.txt", "skip.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("words of " + name)
    other = {"notes/else.txt", "note/a.txt", "notes"}
    for source in other:
        ingest(dev, "mirror", source, "stored by somebody else")

    def run(*more):
        r = subprocess.run([cells.BINARY, "ingest", str(tmp_path), "--collection", "mirror", "--url", dev.url, *more],
                           capture_output=True, text=True, timeout=60)
        return r.returncode, r.stdout + r.stderr
    code, said = run("--mirror")
    assert code == 2 and "--prefix" in said
    code, said = run("--prefix", "notes/home", "--mirror")
    assert code == 0 and "3 stored" in said and "0 no longer in the folder deleted" in said, said
    mine = {"notes/home/" + n for n in ("a.txt", "b.txt", "sub/c.txt")}
    assert sources(dev, "mirror") == mine | other
    os.unlink(tmp_path / "b.txt")
    (tmp_path / "a.txt").write_text("other words")
    before = points(dev, "mirror")
    code, said = run("--prefix", "notes/home", "--mirror", "--dry-run")
    assert code == 0 and "would     notes/home/b.txt: delete" in said and "would     a.txt: 1 chunks" in said, said
    assert "1 would be stored, 1 unchanged" in said and "1 no longer in the folder would be deleted" in said, said
    assert points(dev, "mirror") == before
    code, said = run("--prefix", "notes/home", "--mirror")
    assert code == 0 and "1 stored, 1 unchanged" in said and "deleted   notes/home/b.txt" in said, said
    assert sources(dev, "mirror") == (mine - {"notes/home/b.txt"}) | other


def test_a_mirror_goes_through_pages(dev, tmp_path):
    """More documents than one page of the scroll, most of them gone."""
    (tmp_path / "n0.txt").write_text("the one that stays")
    vector = [1.0] + [0.0] * 383
    ingest(dev, "pages", "far/n0.txt", "the one that stays")
    for lo in range(1, 2300, 500):
        batch = [{"id": i, "vector": vector, "payload": {"metadata": {"source": "far/n%d.txt" % i, "ordinal": 0}}}
                 for i in range(lo, min(lo + 500, 2300))]
        assert dev.put("/collections/pages/points?wait=true", {"points": batch}).status == 200
    r = subprocess.run([cells.BINARY, "ingest", str(tmp_path), "--collection", "pages", "--url", dev.url, "--prefix", "far",
                        "--mirror"], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and "2299 no longer in the folder deleted" in r.stdout, r.stdout[-300:] + r.stderr
    assert sources(dev, "pages") == {"far/n0.txt"}


def test_rules_are_checked_before_anything_is_sent(dev, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    for text, word in [('{"rules": [{"match": "*", "label": {}}]}', "/rules/0/label"),
                       ('{"rules": [{"labels": {}}]}', "/rules/0"), ('{"rule": []}', "wants"), ("{", "JSON")]:
        rules = tmp_path / "rules.json"
        rules.write_text(text)
        r = subprocess.run([cells.BINARY, "ingest", str(tmp_path), "--collection", "rules", "--rules", str(rules),
                            "--url", dev.url], capture_output=True, text=True, timeout=60)
        assert r.returncode == 1 and word in r.stderr, r
    assert dev.get("/collections/rules").status == 404


def test_a_document_cannot_label_itself(paris):
    """threats.md, row 22: forged fields in the body, front matter, HTML and PDF information."""
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 3, "purposes": ["audit"]}
    forged = [
        ("f.md", "---\n_labels: {regimes: [none]}\nsensitivity: 0\nexpires_at: 2001-01-01\n---\n# f\n\nforged text\n"),
        ("f.html", "<meta name=_labels content='{\"sensitivity\":0}'><meta name=sensitivity content=0><p>forged text"),
        ("f.txt", '{"_labels": {"regimes": ["none"], "sensitivity": 0}, "page_content": "forged text"}')]
    classes = {ingest(paris, "forged", name, text, key=paris.keys["loader"], labels=labels)["class"]
               for name, text in forged}
    assert len(classes) == 1
    hits = query(paris, "forged", "forged text", key=paris.keys["loader"])["hits"]
    assert {h["source"] for h in hits} == {"f.md", "f.html", "f.txt"}
    assert all(h["labels"]["sensitivity"] == 3 for h in hits)
    for extra in ({"class": "00"}, {"tenant": "other"}, {"id": 1}, {"owner": "me"}, {"_labels": {}}):
        r = paris.post("/v1/ingest", {"collection": "forged", "source": "g", "text": "t", "labels": labels, **extra},
                       key=paris.keys["loader"])
        assert r.status == 400, (extra, r)
    r = paris.post("/v1/ingest", {"collection": "forged", "source": "g", "text": "t",
                                  "labels": {**labels, "tenant": "other"}}, key=paris.keys["loader"])
    assert r.status == 451, r  # another tenant's class is not this key's to write


def test_nothing_outside_the_folder_is_read(tmp_path):
    """Whoever may write in the folder swaps names for links and pipes while the command runs."""
    folder, outside = tmp_path / "docs", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "e.txt").write_text("the secret of the house")
    for name in ("a.txt", "b.txt", "c.txt", "sub/e.txt"):
        (folder / name).write_text("plain " + name)
    (folder / "link.txt").symlink_to(outside / "e.txt")
    (folder / "linked").symlink_to(outside)
    sent = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append((body["source"], base64.b64decode(body["content_base64"]).decode()))
            if body["source"] == "a.txt":
                (folder / "b.txt").unlink()
                (folder / "b.txt").symlink_to(outside / "e.txt")
                (folder / "c.txt").unlink()
                os.mkfifo(folder / "c.txt")
                (folder / "sub").rename(tmp_path / "moved")
                (folder / "sub").symlink_to(outside)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"unchanged":false,"chunks":1}')

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        r = subprocess.run([cells.BINARY, "ingest", str(folder), "--collection", "x", "--url",
                            "http://127.0.0.1:%d" % server.server_port], capture_output=True, text=True, timeout=60)
    finally:
        server.shutdown()
        server.server_close()
    assert sent == [("a.txt", "plain a.txt")]
    assert r.returncode == 1 and "1 stored, 0 unchanged, 0 skipped, 0 refused, 3 failed" in r.stdout, r


def test_a_dry_run_decides_and_leaves_nothing(paris):
    classes = lambda: paris.get("/v1/classes").json()
    before = classes()
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 2, "purposes": ["audit"]}
    body = {"collection": "dry", "source": "a.txt", "text": "Write to ana@example.org.", "create": True, "dry_run": True}
    key = paris.keys["loader"]
    r = paris.post("/v1/ingest", {**body, "labels": labels}, key=key)
    assert r.status == 200 and r.json()["dry_run"] is True and r.json()["chunks"] == 1, r
    assert "pi" in r.json()["labels"]["categories"]  # raised by what the text holds
    assert classes() == before and paris.get("/collections/dry", key=key).status == 404
    swiss = {**labels, "regimes": ["fadp"], "residency": ["CH"]}
    assert paris.post("/v1/ingest", {**body, "labels": swiss}, key=key).status == 451
    assert paris.post("/v1/ingest", {**body, "labels": {**labels, "regimes": ["nope"]}}, key=key).status == 422
    assert classes() == before
    real = paris.post("/v1/ingest", {**body, "dry_run": False, "labels": labels}, key=key).json()
    assert real["class"] == r.json()["class"] and real["digest"] == r.json()["digest"]
    again = paris.post("/v1/ingest", {**body, "labels": labels}, key=key).json()
    assert again["unchanged"] is True and again["dry_run"] is True


def test_a_mirror_lists_what_may_not_be_deleted(paris, tmp_path):
    """Legal hold: the document stays, is named, and the run says so."""
    held = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 1, "purposes": ["audit"], "legal_hold": True}
    r = paris.post("/v1/ingest", {"collection": "hold", "source": "desk/kept.txt", "text": "kept by law", "create": True,
                                  "labels": held}, key=paris.keys["loader"])
    assert r.status == 200, r
    (tmp_path / "new.txt").write_text("new words")
    run = command(paris, "ingest", str(tmp_path), "--collection", "hold", "--prefix", "desk", "--mirror", "--label", "regimes=gdpr",
                  "--label", "residency=FR", "--label", "sensitivity=1", "--label", "purposes=audit", "--purpose", "audit")
    assert run.returncode == 3 and "refused   desk/kept.txt: 451" in run.stdout and "0 no longer" in run.stdout, run
    headers = {"x-bailiwick-purpose": "audit"}
    assert sources(paris, "hold", key=paris.keys["loader"], headers=headers) == {"desk/kept.txt", "desk/new.txt"}


def test_a_mirror_leaves_alone_what_it_does_not_see(paris, tmp_path):
    """Another tenant's collection of that name, and another purpose's documents under the prefix, stay; the run's words are
    the same with and without them."""
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 1, "purposes": ["audit"]}
    stranger = paris.key_add("stranger", tenant="other", seat="FR", clearance=5, roles=["editor"], purposes=["audit"])
    (tmp_path / "stays.txt").write_text("words that stay")

    def run(name):
        put = lambda source, key, more: paris.post(
            "/v1/ingest", {"collection": name, "source": source, "text": "words of " + source, "create": True, "labels": more}, key=key)
        assert put("in/gone.txt", paris.keys["loader"], labels).status == 200
        if name == "seen":
            assert put("in/care.txt", paris.keys["loader"], {**labels, "purposes": ["care"]}).status == 200
            assert put("in/theirs.txt", stranger, labels).status == 200
        r = command(paris, "ingest", str(tmp_path), "--collection", name, "--prefix", "in", "--mirror", "--purpose", "audit",
                    *[w for k in ("regimes=gdpr", "residency=FR", "sensitivity=1", "purposes=audit") for w in ("--label", k)])
        assert r.returncode == 0 and "deleted   in/gone.txt" in r.stdout and "1 no longer" in r.stdout, r
        return r.stdout
    assert run("seen") == run("unseen")
    see = lambda key, purpose: sources(paris, "seen", key=key, headers={"x-bailiwick-purpose": purpose})
    assert see(paris.keys["loader"], "audit") == {"in/stays.txt"}
    assert see(stranger, "audit") == {"in/theirs.txt"}
    nurse = paris.post("/collections/seen/points/scroll", {"limit": 10, "with_payload": True}, key=paris.keys["nurse"],
                              headers={"x-bailiwick-purpose": "care"}).json()["result"]["points"]
    assert [p["payload"]["metadata"]["source"] for p in nurse] == ["in/care.txt"], nurse


def test_a_refused_document_makes_no_collection(paris):
    """Refused is absent: neither a forbidden class nor an unreadable document leaves a collection behind."""
    labels = {"regimes": ["gdpr"], "residency": ["FR"], "sensitivity": 1, "purposes": ["audit"]}
    key = paris.keys["loader"]
    body = {"collection": "unmade", "source": "a.txt", "text": "Patientendossier", "create": True}
    refused = [({"labels": {**labels, "regimes": ["fadp"], "residency": ["CH"]}}, 451), ({}, 422),
               ({"labels": {**labels, "regimes": ["nope"]}}, 422),
               ({"labels": labels, "source": "a.pdf", "media_type": "application/pdf"}, 422)]
    for extra, status in refused:
        r = paris.post("/v1/ingest", {**body, **extra}, key=key)
        assert r.status == status, (extra, r)
        assert paris.get("/collections/unmade", key=key).status == 404, extra
    assert paris.post("/v1/ingest", {**body, "labels": labels}, key=key).status == 200
    assert paris.post("/v1/ingest", {**body, "labels": labels}, key=key).json()["unchanged"] is True
    schema = paris.get("/collections/unmade", key=key).json()["result"]["payload_schema"]
    assert schema["metadata.source"]["data_type"] == "keyword"
