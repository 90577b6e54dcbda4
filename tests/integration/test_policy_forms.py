"""policy fmt, policy json, policy from-json on the command line; and the packs are laid out."""
import glob
import json
import os
import subprocess

from cell import BINARY

PACKS = os.path.join(os.path.dirname(__file__), "..", "..", "policies", "packs")
WILD = "permit(principal,action,resource)when{// why\n1==1};"
TIDY = "permit (principal, action, resource)\nwhen { // why\n  1 == 1\n};\n"


def policy(*args):
    return subprocess.run([BINARY, "policy", *args], capture_output=True, text=True, timeout=60)


def test_fmt__rewrites_in_place_and_keeps_the_mode(tmp_path):
    file = tmp_path / "a.cedar"
    file.write_text(WILD)
    file.chmod(0o640)
    r = policy("fmt", "--check", str(file))
    assert (r.returncode, r.stdout, r.stderr) == (1, f"{file}\n", "") and file.read_text() == WILD
    r = policy("fmt", "--stdout", str(file))
    assert (r.returncode, r.stdout) == (0, TIDY) and file.read_text() == WILD
    assert policy("fmt", str(file)).returncode == 0
    assert file.read_text() == TIDY and file.stat().st_mode & 0o777 == 0o640
    assert policy("fmt", "--check", str(file)).returncode == 0


def test_fmt__leaves_alone_what_does_not_parse(tmp_path):
    bad, good = tmp_path / "bad.cedar", tmp_path / "good.cedar"
    bad.write_text("permit(principal;")
    good.write_text(WILD)
    r = policy("fmt", str(bad), str(good))
    assert r.returncode == 1 and "bad.cedar: line 1, column 17: expected ','" in r.stderr
    assert bad.read_text() == "permit(principal;" and good.read_text() == TIDY


def test_packs__are_laid_out():
    files = sorted(glob.glob(os.path.join(PACKS, "*.cedar")))
    r = policy("fmt", "--check", *files)
    assert files and (r.returncode, r.stdout, r.stderr) == (0, "", "")


def test_json__there_and_back(tmp_path):
    text, form = tmp_path / "a.cedar", tmp_path / "a.json"
    text.write_text("@id(\"x\") permit(principal == ?principal, action, resource) unless { context has a.b };")
    r = policy("json", str(text))
    p = json.loads(r.stdout)["templates"]["policy0"]
    assert r.returncode == 0 and p["principal"] == {"op": "==", "slot": "?principal"} and p["annotations"] == {"id": "x"}
    form.write_text(r.stdout)
    r = policy("from-json", str(form))
    assert r.returncode == 0 and r.stdout == (
        "@id(\"x\")\npermit (principal == ?principal, action, resource)\nunless { context has a && context.a has b };\n")
    form.write_text("{\"staticPolicies\": {\"p\": 1}, \"templates\": {}, \"templateLinks\": []}")
    r = policy("from-json", str(form))
    assert r.returncode == 1 and "a.json: /staticPolicies/p: expected an object" in r.stderr


def test_wrong_use__is_told():
    for args in (["fmt"], ["fmt", "--check", "--stdout", "x"], ["json"], ["json", "a", "b"], ["from-json", "--x"]):
        r = policy(*args)
        assert r.returncode == 2 and "Usage: bailiwick policy" in r.stderr
    assert policy("fmt", "--help").returncode == 0
