"""policy test: the format, readable failures, JUnit, and what it refuses."""
import copy
import json
import os
import subprocess
import xml.dom.minidom

import pytest
from cell import BINARY, SOURCE

OPEN = '@id("all") permit (principal, action, resource);'
BROKEN = OPEN + ('@id("needs-fact") forbid (principal, action, resource) '
                 'when { context.at.operator.seat == principal.seat };')
DATA = {
    "policies": [{"text": OPEN}],
    "places": {"par1": {"country": "FR", "operator": "eucloud"},
               "va1": {"country": "US", "operator": "uscloud", "certs": ["hds"], "hw": ["tee"]}},
    "principals": {"ana": {"tenant": "acme", "seat": "FR", "clearance": 3, "roles": ["reader"]}},
    "classes": {"hr": {"regimes": ["gdpr"], "residency": ["EEA"], "sensitivity": 1, "purposes": ["payroll"]}},
    "cell": "par1", "purpose": "payroll",
    "cases": [{"name": "one", "principal": "ana", "action": "Query", "class": "hr", "expect": "allow"}]}


def run(*args, **kw):
    return subprocess.run([BINARY, "policy", "test"] + [str(a) for a in args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, **kw)


def case(**change):
    """The data with one case, changed; None drops a member."""
    d = copy.deepcopy(DATA)
    d["cases"][0].update(change)
    d["cases"][0] = {k: v for k, v in d["cases"][0].items() if v is not None}
    return d


@pytest.fixture
def ask(tmp_path):
    path = tmp_path / "t.json"

    def write(data, *args):
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return run(path, *args)
    return write


def test_cases__pass_and_fail_readably(ask):
    r = ask(DATA)
    assert (r.returncode, r.stdout, r.stderr) == (0, "1 passed, 0 failed\n", "")
    d = case(name="two", action="Transfer", at="va1", dest="par1", safeguards=["tia", "scc"],
             expect={"decision": "deny", "policies": ["z", "gdpr-ch5"]})
    d["cases"] += DATA["cases"]
    r = ask(d)
    assert r.returncode == 1 and not r.stderr
    lines = r.stdout.split("\n")
    assert lines[0].startswith("FAIL ") and lines[0].endswith("t.json: two")
    assert lines[1:] == [
        "     may ana of acme (seat FR, clearance 3, reader) Transfer class hr at va1 (US, uscloud, hds, tee) to "
        "par1 (FR, eucloud) for payroll with scc, tia?",
        "     expected deny by gdpr-ch5, z", "     got      allow by all", "1 passed, 1 failed", ""]
    assert ask(case(expect={"decision": "allow", "policies": ["all"], "errors": []})).returncode == 0
    assert "expected allow by no policy" in ask(case(expect={"decision": "allow", "policies": []})).stdout


def test_cases__know_the_checked_requests(tmp_path):
    """The requests that the pack was checked with, in this format: the same answers."""
    with open(os.path.join(SOURCE, "tests", "data", "residency.json")) as f:
        old = json.load(f)
    place = lambda v: {"country": v[0], "operator": v[1], "certs": v[2], "hw": v[3]}
    cases = []
    for who, action, what, at, dest, purpose, safeguards, decision, policies in old["requests"] + old["broken"]:
        expect = {"decision": decision.lower(), "policies": policies}
        if [who, action, what, at] in [b[:4] for b in old["broken"]]:
            expect["errors"] = policies
        cases.append({"name": str(len(cases)), "principal": who, "action": action, "class": what, "at": at,
                      "dest": dest, "purpose": purpose, "safeguards": safeguards, "expect": expect})
    for who, action, kind, tenant, name, decision, policies in old["objects"]:
        cases.append({"name": str(len(cases)), "principal": who, "action": action, "expect": {
            "decision": decision.lower(), "policies": policies}})
        cases[-1].update({"cell": True} if kind == "Node" else {"collection": {"tenant": tenant, "name": name}})
    words = {c["purpose"] for c in cases if c.get("purpose")}
    sourced = {"source": "test", "date": "2026-11-30"}
    overlay = dict(old["overlay"], vocabulary={"purposes": [{"word": w, **sourced} for w in sorted(words)]})
    (tmp_path / "t.json").write_text(json.dumps({
        "catalogue": overlay, "cell": "par1", "places": {k: place(v) for k, v in old["nodes"].items()},
        "principals": {k: {"tenant": v[0], "clearance": v[1], "seat": v[2], "roles": v[3]}
                       for k, v in old["people"].items()},
        "classes": old["classes"], "cases": cases}))
    r = run(tmp_path / "t.json")
    assert r.returncode == 0 and r.stdout == "%d passed, 0 failed\n" % len(cases), r.stdout + r.stderr


def test_cases__errors_are_expected_or_fail(ask):
    """No fact about eucloud: the forbid errors and denies; Cedar itself would skip it."""
    d = dict(case(expect={"decision": "deny", "policies": ["needs-fact"], "errors": ["needs-fact"]}),
             policies=[{"text": BROKEN}])
    assert ask(d).returncode == 0
    r = ask(d, "--cedar-errors")
    assert r.returncode == 1 and "got      allow by all, with errors in needs-fact" in r.stdout
    d["cases"][0]["expect"] = "deny"
    r = ask(d)
    assert r.returncode == 1 and "expected deny\n" in r.stdout and "with errors in needs-fact" in r.stdout
    d["cases"][0]["expect"] = {"decision": "allow", "errors": ["needs-fact"]}
    assert ask(d).returncode == 1 and ask(d, "--cedar-errors").returncode == 0
    d = dict(case(expect={"decision": "allow", "errors": ["no-such"]}),
             policies=[{"text": OPEN + '@id("no-such") forbid (principal, action, resource) when { context.nope };'}])
    assert "nope" in ask(d).stderr and ask(d, "--cedar-errors").returncode == 0
    for command in (["policy", "check", "x"], ["serve"]):
        r = subprocess.run([BINARY] + command + ["--cedar-errors"], stderr=subprocess.PIPE, text=True, timeout=60)
        assert r.returncode == 2 and "--cedar-errors" in r.stderr


def test_cases__read_now_only_when_it_is_said(ask):
    d = dict(case(expect="deny"), policies=[{"text": OPEN + '@id("late") forbid (principal, action, resource) '
                                             'when { context has now && context.now > datetime("2026-06-01") };'}])
    r = ask(d)
    assert r.returncode == 1 and "/cases/0: a policy reads now" in r.stderr
    assert ask(dict(d, now="2026-07-01T00:00:00Z")).returncode == 0
    assert ask(dict(d, now="2026-05-01T00:00:00Z")).returncode == 1
    d["cases"][0]["now"] = "2026-07-01T00:00:00Z"
    assert ask(dict(d, now="2026-05-01T00:00:00Z")).returncode == 0


def test_policies__come_from_packs_files_and_the_command(tmp_path, ask):
    (tmp_path / "own.cedar").write_text(OPEN)
    (tmp_path / "none.cedar").write_text('@id("none") forbid (principal, action, resource);')
    d = case(expect={"decision": "allow", "policies": ["all"]})
    assert ask(dict(d, policies=[{"file": "own.cedar"}])).returncode == 0
    both = dict(d, policies=[{"file": "own.cedar"}, {"text": '@id("none") forbid (principal, action, resource);'}])
    assert "got      deny by none" in ask(both).stdout
    assert "got      deny by none" in ask(d, "--policies", tmp_path / "none.cedar").stdout
    del d["policies"]
    assert "got      allow by own-tenant" in ask(d).stdout
    assert "got      allow by own-tenant" in ask(dict(d, policies=["eu-baseline"])).stdout
    assert "got      deny by no policy" in ask(dict(d, policies=["legal-hold"])).stdout
    for bad, said in ((["nope"], "/policies/0: no pack"), (["../x"], "/policies/0: a pack's name"), ([], "/policies: wants"),
                      ([{"file": "nope"}], "/policies/0/file: no such file"), ([{"file": "a", "text": ""}], "/policies/0: wants"),
                      ([{"file": 1}], "/policies/0: wants"), ([{"url": "a"}], "/policies/0/url: unknown member"),
                      ([{"text": OPEN}, {"text": "permit"}], "/policies/1: line 1, column 7"), ("eu-baseline", "/policies: wants")):
        r = ask(dict(d, policies=bad))
        assert r.returncode == 1 and said in r.stderr and "1 files not run" in r.stdout, (bad, r.stderr)


def test_check__lets_a_policy_give_no_orders_to_a_terminal(tmp_path):
    orders = "\x1b[2J\x1b]0;p\x07\u202e\u2066\x9b"
    bad = tmp_path / "bad.cedar"
    for text in ('@id("%s") permit (principal, action, resource);' % orders,
                 'permit (principal, action == Bw::Action::"%s", resource);' % orders,
                 'permit (principal, action, resource) when { principal["%s"] == 1 };' % orders.replace("\x1b", "\\u{1b}").replace("\x07", "")):
        bad.write_text(text)
        r = subprocess.run([BINARY, "policy", "check", str(bad)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = r.stdout.decode()
        assert r.returncode == 1 and "warning: a character here turns" in said
        assert not set(said) & set(orders) - set("[2J]0;p"), said


def test_file__that_asserts_nothing_or_is_wrong_is_refused(ask):
    for change, said in (
            (dict(expect=None), "/cases/0: expects nothing"), (dict(expect={}), "/cases/0/expect: "),
            (dict(expect={"policies": ["all"]}), "/cases/0/expect: "), (dict(expect="maybe"), "/cases/0/expect: "),
            (dict(expect={"decision": "allow", "policy": ["x"]}), "/cases/0/expect/policy: unknown member"),
            (dict(name=None), "/cases/0: name"), (dict(name=""), "/cases/0: name"),
            (dict(principal="bob"), "/cases/0/principal: no principal of that name"),
            (dict(principal={"id": "bob"}), "/cases/0/principal: a principal wants"),
            (dict(principal={"id": "b", "tenant": "t", "seat": "FR", "clearance": 9}), "/cases/0/principal/clearance: "),
            (dict(principal=None), "/cases/0: principal"), (dict(action="Read"), "/cases/0: wants an action"),
            (dict(action=None), "/cases/0: wants an action"), (dict(**{"class": None}), "/cases/0: wants one of"),
            (dict(cell=True), "/cases/0: wants one of"), (dict(cell=False, **{"class": None}), "/cases/0/cell: "),
            (dict(**{"class": "nope"}), "/cases/0/class: no class"), (dict(at="nope"), "/cases/0/at: no place"),
            (dict(dest={"id": "x"}), "/cases/0/dest: a place wants"), (dict(dest=1), "/cases/0/dest: wants an object"),
            (dict(purpose="payrol"), '/cases/0/purpose: "payrol" is not among'),
            (dict(safeguards=["scc", "sccc"]), '/cases/0/safeguards: "sccc" is not among'),
            (dict(now="yesterday"), "/cases/0/now: "), (dict(exepct="deny"), "/cases/0/exepct: unknown member"),
            (dict(labels={"regimes": ["gdpr"]}, **{"class": None}), "/cases/0/labels"),
            (dict(labels=[], **{"class": None}), "/cases/0/labels: "), (dict(collection=1, **{"class": None}), "/cases/0/collection")):
        r = ask(case(**change))
        assert r.returncode == 1 and ": " + said in r.stderr, (change, r.stderr)
        assert "0 passed, 0 failed, 1 files not run" in r.stdout
    for change, said in (
            (dict(cases=[]), "/cases: wants a list"), (dict(cases={}), "/cases: wants a list"), (dict(case=[]), "/case: unknown"),
            (dict(cases=DATA["cases"] * 2), "/cases/1/name: two cases"), (dict(places=[]), "/places: wants an object"),
            (dict(places={"par1": {"id": "x", "country": "FR", "operator": "o"}}), "/places/par1/id: the name is the id"),
            (dict(cell="nope"), "/cell: no place"), (dict(catalogue={"zones": [{}]}), "/catalogue/zones/0: catalogue overlay: "),
            (dict(entities={}), "entities"), (dict(cases=["x"]), "/cases/0: wants an object"),
            (dict(classes={"hr": {"regimes": ["nope"], "residency": ["EEA"], "sensitivity": 1}}), "/classes/hr/regimes: ")):
        r = ask(dict(DATA, **change))
        assert r.returncode == 1 and said in r.stderr, (change, r.stderr)
    for text in ("", "[]", "{", '{"cases": [' + "[" * 300, "\x00", '{"cases":1,"cases":2}'):
        r = ask(text)
        assert r.returncode == 1 and "1 files not run" in r.stdout and r.stderr.startswith("bailiwick policy test: "), text
    assert ask(DATA, "--filter", "zzz").returncode == 1
    assert run().returncode == 2 and run("x", "--nope").returncode == 2 and run("/nonexistent").returncode == 1


def test_junit__is_xml_whatever_the_names_are(tmp_path, ask):
    nasty = 'a<b>&"\'\u0001\u001b[31m\uffff\n\u00e9]]>'
    d = case(name=nasty, expect="deny")
    d["cases"] += DATA["cases"]
    d["cases"] += [dict(DATA["cases"][0], name="other")]
    r = ask(d, "--junit", tmp_path / "r.xml", "--filter", "e", tmp_path / "none.json")
    assert r.returncode == 1 and "\x1b" not in r.stdout and "1 left out" in r.stdout
    text = (tmp_path / "r.xml").read_bytes()
    root = xml.dom.minidom.parseString(text).documentElement
    assert (root.tagName, root.getAttribute("tests"), root.getAttribute("failures"), root.getAttribute("errors")) == (
        "testsuites", "3", "0", "1")
    r = ask(d, "--junit", tmp_path / "r.xml", tmp_path / "none.json")
    root = xml.dom.minidom.parseString((tmp_path / "r.xml").read_bytes()).documentElement
    assert [root.getAttribute(a) for a in ("tests", "failures", "errors")] == ["4", "1", "1"]
    suites = root.getElementsByTagName("testsuite")
    assert [[s.getAttribute(a) for a in ("tests", "failures", "errors")] for s in suites] == [["3", "1", "0"], ["1", "0", "1"]]
    first = suites[0].getElementsByTagName("testcase")[0]
    assert first.getAttribute("name") == 'a<b>&"\'??[31m?\n\u00e9]]>' and first.getAttribute("classname").endswith("t.json")
    failure = first.getElementsByTagName("failure")[0]
    assert failure.getAttribute("message") == "expected deny\ngot      allow by all"
    assert failure.firstChild.data.startswith("may ana of acme") and "got      allow by all" in failure.firstChild.data
    assert suites[1].getElementsByTagName("error")[0].getAttribute("message")
    before = (tmp_path / "r.xml").read_bytes()
    ask(d, "--junit", tmp_path / "r.xml", tmp_path / "none.json")
    assert (tmp_path / "r.xml").read_bytes() == before
