"""bailiwick catalogue: show, gaps, check and diff as an operator runs them."""
import json
import os
import re
import subprocess
import sys

import pytest
from cell import BINARY, SOURCE

SD = {"source": "test", "date": "2026-12-01"}


def run(*args):
    return subprocess.run([BINARY, "catalogue", *map(str, args)], capture_output=True, text=True, timeout=60)


def write(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.fixture
def overlay(tmp_path):
    return write(tmp_path / "overlay.json", {
        "date": "2026-12-01",
        "adequacy": [{"regime": "gdpr", "country": "US", "remove": True, **SD}],
        "localisation": [{"country": "AD", "level": "conditional", **SD}]})


def test_show__tells_origin_source_and_date(overlay):
    r = run("show", "US")
    assert r.returncode == 0 and "gdpr-adequate-conditional" in r.stdout
    assert "adequacy (shipped, 2026-11-30): (EU) 2023/1795 of 10 July 2023\n" in r.stdout
    r = run("show", "US", "--overlay", overlay)
    assert r.returncode == 0 and "adequacy (overlay removes, 2026-12-01): test" in r.stdout
    assert "gdpr-adequate-conditional" not in r.stdout
    assert "nobody has written the list down: itar-proscribed\n" in r.stdout
    assert json.loads(run("show", "US", "--json").stdout)["unwritten"] == ["itar-proscribed"]
    v = json.loads(run("show", "AD", "--json", "--overlay", overlay).stdout)
    assert "world" in v["lies_in"] and v["version"].startswith("2026-12-01/")
    assert [f["from"] for f in v["facts"] if f["table"] == "localisation"] == ["overlay"]
    whole = json.loads(run("show", "--json").stdout)
    assert all(f["fact"]["source"] and f["fact"]["date"] for f in whole["facts"]) and len(whole["facts"]) > 900
    assert "itar-proscribed            deny, not written down: holds every country\n" in run("show").stdout


def test_show__tells_a_list_unknown_but_for_one_decision(tmp_path):
    """An allow-list that nobody wrote down holds what decisions put there, and no other country."""
    one = write(tmp_path / "one.json", {"adequacy": [{"regime": "pdpl-sa", "country": "BH", "status": "full", **SD}]})
    assert "allow, not written down: empty\n" in run("show", "pdpl-sa-adequate").stdout
    assert "allow, not written down: 1 countries by decisions alone\n" in run("show", "pdpl-sa-adequate", "--overlay", one).stdout


def test_show__lists_the_words_of_labels_by_kind(tmp_path):
    own = write(tmp_path / "o.json", {"schema": "bailiwick.catalogue/2", "vocabulary": {"hw": [{"word": "cooled", **SD}]}})
    assert "\nhw: gpu tee\n" in run("show").stdout and "\nhw: cooled gpu tee\n" in run("show", "--overlay", own).stdout
    assert "hw:" not in run("show", "US").stdout
    assert " uk-gdpr; or none, alone\nsafeguards: " in run("show").stdout


def test_show__guesses_a_misspelt_name():
    r = run("show", "Germany")
    assert r.returncode == 1 and 'did you mean "DE"?' in r.stderr and r.stdout == ""
    assert run("show", "Atlantis").returncode == 1


def test_gaps__are_an_exit_status_of_their_own(tmp_path, overlay):
    r = run("gaps")
    assert r.returncode == 3 and "localisation: localisation rules of AD (Andorra)\n" in r.stdout
    words = re.search(r'  /localisation/-: {"country":"AD","level":([^,]*),', r.stdout).group(1)
    for word in words.split("|"):
        assert run("check", write(tmp_path / "o.json", {"localisation": [{"country": "AD", "level": json.loads(word), **SD}]})).returncode == 0
    no = run("check", write(tmp_path / "o.json", {"localisation": [{"country": "AD", "level": "lax", **SD}]}))
    assert no.returncode == 1 and f'"level" wants {words}|null' in no.stderr
    listed = json.loads(run("gaps", "--json").stdout)
    assert {g["kind"] for g in listed} == {"zone", "localisation", "foreign-access", "confidence"}
    assert all(g["fact"] and g["why"] and g["put"] for g in listed)
    assert "AD (Andorra)\n  zone world" not in run("gaps", "--overlay", overlay).stdout
    classes = write(tmp_path / "classes.json", [
        {"regimes": ["pdpl-sa"], "residency": ["SA", "FR"], "sensitivity": 1, "purposes": ["search"]}])
    some = json.loads(run("gaps", "--json", "--classes", classes).stdout)
    assert 0 < len(some) < 15 and {g["country"] for g in some} <= {"", "SA", "FR"}
    assert any("pdpl-sa-adequate" in g["fact"] for g in some)
    assert not any("pdpl-ae-adequate" in g["fact"] for g in some)


def test_gaps__none_is_zero(tmp_path):
    full = write(tmp_path / "full.json", {"zones": [
        {"id": z, "kind": k, "countries": [], **SD}
        for z, k in [("itar-proscribed", "deny"), ("ear-permitted", "allow")]]})
    r = run("gaps", "--overlay", full, "--in", "FR", "--regime", "gdpr")
    assert (r.returncode, r.stdout) == (0, "")


def test_gaps__look_into_the_data_folder(tmp_path):
    write(tmp_path / "entities.json", [
        {"uid": {"type": "Bw::Node", "id": "par9"}, "parents": [], "attrs": {
            "country": {"__entity": {"type": "Bw::Country", "id": "FR"}},
            "operator": {"__entity": {"type": "Bw::LegalEntity", "id": "nobody"}}, "certs": [], "hw": []}}])
    r = run("gaps", "--data", tmp_path, "--in", "EU")
    assert r.returncode == 3 and "node: operator nobody of node par9\n" in r.stdout


def test_gaps__ask_about_the_market_when_told():
    quiet = json.loads(run("gaps", "--json", "--in", "FR").stdout)
    r = run("gaps", "--json", "--in", "FR", "--market")
    offers = [g for g in json.loads(r.stdout) if g["kind"] == "offer"]
    assert r.returncode == 3 and json.loads(r.stdout)[:len(quiet)] == quiet
    assert offers and {g["country"] for g in offers} <= {"FR", ""}
    assert any("operator" in g["fact"] for g in offers)
    facts = [g["fact"] for g in offers]
    assert len(facts) == len(set(facts)) and any(re.match(r"aws, \d+ of \d+ regions \(|aws:|aws, all", f) for f in facts)
    text = run("gaps", "--in", "FR", "--market").stdout
    assert text.count("it counts as not there") == 1 and text.count("\noffer: ") == len(facts)  # why and where, once
    assert not any(g["kind"] == "offer" for g in quiet)


@pytest.mark.parametrize("rows,pointer,says", [
    ({"zones": [{"id": "z", "kind": "group", "date": "2026-12-01"}]}, "/zones/0: ", 'no "source"'),
    ({"zones": [{"id": "z", "kind": "group", "in": ["EAA"], **SD}]}, "/zones/0/in/0: ", 'did you mean "EEA"?'),
    ({"zonen": []}, "/zonen: ", "unknown member"),
    ({"vocabulary": {"regimes": [{"word": "own", "zone": "uk-adequate", "conditional": "uk-adequate-conditional", **SD}]}},
     "", "own"),  # the schema has no adequacyCerts of that name: no cell would start
])
def test_check__refuses_what_no_cell_would_take(tmp_path, rows, pointer, says):
    r = run("check", write(tmp_path / "bad.json", rows))
    assert r.returncode == 1 and r.stdout == ""
    assert pointer in r.stderr and says in r.stderr


def test_check__finds_old_facts_by_a_given_day(overlay):
    r = run("check", overlay)
    assert r.returncode == 0 and r.stdout.startswith("catalogue 2026-12-01/")
    assert run("check", "--as-of", "2026-12-31").returncode == 0
    r = run("check", overlay, "--as-of", "2027-12-01", "--max-age", "365", "--json")
    old = json.loads(r.stdout)
    assert r.returncode == 3 and {g["kind"] for g in old} == {"stale"}
    assert not any(g["fact"].startswith("localisation AD") for g in old)  # the overlay's own is younger
    r = run("check", "--as-of", "2032-01-01", "--max-age", "36500")
    assert r.returncode == 3 and r.stdout.startswith("expired: adequacy gdpr GB, expired on 2031-12-27\n")
    assert run("check", "--as-of", "soon").returncode == 1


def test_diff__names_the_edges_that_change(tmp_path, overlay):
    empty = write(tmp_path / "empty.json", {})
    r = run("diff", empty, overlay, "--overlays")
    assert r.returncode == 3
    assert "- country US in gdpr-adequate-conditional\n" in r.stdout and "+ country AD in world\n" in r.stdout
    assert "~ localisation AD: unknown -> conditional\n" in r.stdout
    assert len(json.loads(run("diff", empty, overlay, "--overlays", "--json").stdout)) == 3
    assert run("diff", empty, empty, "--overlays").returncode == 0
    shipped = os.path.join(os.path.dirname(BINARY), "packs", "catalogue.json")
    r = run("diff", shipped, shipped)
    assert (r.returncode, r.stdout) == (0, "")
    r = run("diff", shipped, overlay)  # an overlay is no catalogue of its own
    assert r.returncode == 1 and "/adequacy/0: " in r.stderr and "overlay.json: catalogue: only an overlay removes" in r.stderr
    r = run("diff", str(tmp_path), shipped)
    assert r.returncode == 1 and r.stderr.count(str(tmp_path)) == 1, r.stderr


@pytest.mark.parametrize("words", [
    [], ["list"], ["show", "FR", "DE"], ["gaps", "FR"], ["diff", "a"], ["diff", "a", "b", "c"], ["check", "a", "--overlay", "b"],
    ["gaps", "--as-of", "2026-12-01"], ["check", "--max-age", "3"], ["check", "--as-of", "2026-12-01", "--max-age", "x"],
    ["show", "--regime", "gdpr"], ["show", "--overlays"], ["gaps", "--in"], ["gaps", "--nope"], ["show", "--market"]])
def test_words__that_make_no_sense_are_usage(words):
    r = run(*words)
    assert r.returncode == 2 and "Usage: bailiwick catalogue" in r.stderr


def test_scope__must_be_known():
    r = run("gaps", "--in", "Eu")
    assert r.returncode == 1 and 'did you mean "EU"?' in r.stderr
    assert run("gaps", "--regime", "grdp").returncode == 1
    assert run("--help").returncode == 0


def test_shipped_file__is_what_its_script_makes():
    facts = os.path.join(os.environ.get("BW_SHARED", os.path.join(SOURCE, "..", "shared")), "catalogue", "jurisdictions.json")
    if not os.path.exists(facts):
        pytest.skip("no jurisdiction facts here")
    packs = os.path.join(SOURCE, "policies", "packs")
    made = subprocess.run([sys.executable, os.path.join(packs, "make_catalogue.py"), facts], capture_output=True, check=True)
    with open(os.path.join(packs, "catalogue.json"), "rb") as f:
        assert f.read() == made.stdout
