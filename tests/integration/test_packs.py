"""Packs on the command line: what there is, what a composition takes, and that a cell starts
with the one named eu-baseline."""
import subprocess

from cell import BINARY, Cell


def policy(*args):
    return subprocess.run([BINARY, "policy"] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)


def test_policy_packs__names_law_and_date():
    r = policy("packs")
    assert r.returncode == 0 and not r.stderr
    rows = [line.split(None, 2) for line in r.stdout.split("\n") if line and not line.startswith((" ", "sets:", "Every"))]
    assert len(rows) >= 20 and rows == sorted(rows)
    assert all(date == "2026-11-30" for _, date, _ in rows)
    assert r.stdout.count("    from: ") == r.stdout.count("    leaves out: ") == len(rows)
    assert "\nsets: all eu-baseline\n" in r.stdout and "no legal advice" in r.stdout


def test_policy_packs__lets_no_pack_speak_to_the_terminal(tmp_path):
    (tmp_path / "evil.cedar").write_text(
        "// evil: a \x1b[2J title \u009b2J \u202e– dash\n// Date: 2026-01-01\n// Articles: x\n// Leaves out: y\n"
        "// A starting point, no legal advice.\n@id(\"e\") permit (principal, action, resource);\n", encoding="utf-8")
    r = policy("packs", "--set", "policies.packs=%s" % tmp_path)
    assert r.returncode == 0 and "evil                 2026-01-01  a ?[2J title ?2J ?– dash\n" in r.stdout, r


def test_policy_compose__prints_a_set_that_is_accepted(tmp_path):
    r = policy("compose", "base", "residency", "air-gap")
    assert r.returncode == 0 and r.stdout.startswith("// Composed of base, residency, air-gap.\n")
    file = tmp_path / "set.cedar"
    file.write_text(policy("compose", "all", "air-gap").stdout)
    assert policy("check", str(file)).returncode == 0


def test_policy_compose__refuses_unknown_and_repeated_names():
    for names, said in ((["nope"], "there is no pack or set nope"), (["base", "base"], "the pack base comes twice"),
                        (["eu-baseline", "gdpr"], "the pack gdpr comes twice"), (["../base"], "a pack's name is")):
        r = policy("compose", *names)
        assert r.returncode == 1 and said in r.stderr and not r.stdout, (names, r.stderr)
    assert policy("compose").returncode == 2
    for word in ("packs", "compose"):
        assert policy(word, "--help").stdout.startswith("Usage: bailiwick policy")
    assert policy("packs", "base").returncode == 2


def test_cell__starts_with_eu_baseline():
    with Cell(dev=False, country="FR", operator="eucloud") as c:
        assert c.get("/v1/policies").json()["policies"] == policy("compose", "eu-baseline").stdout
