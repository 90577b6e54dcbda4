"""Our Cedar against the reference engine on random cases: decisions, reasons, errors, what
is refused, which policies validate strictly, which damaged texts still parse, and the JSON form of policies, as text and laid
out. Skipped where the engine's Python package is missing. Another seed each time, printed; BW_CEDAR_SEED or BW_SEED fixes it
(run.sh gives a fresh one, too). BW_CASES sets the count (20,000; by night 100,000), BW_CEDAR_KEEP a folder to leave the
cases in. A case is one request: six ask one world."""

import json
import os
import random
import re
import subprocess

import pytest

from cedar_cases import SCHEMA, Gen, dump, text
from cedar_typed import Typed

cedarpy = pytest.importorskip("cedarpy")
COUNT = int(os.environ.get("BW_CASES", "100000" if os.environ.get("BW_NIGHTLY") else "20000"))
SEED = int(os.environ.get("BW_CEDAR_SEED") or os.environ.get("BW_SEED") or random.randrange(1 << 31))
REQUESTS = 6
FAST = os.environ.get("BW_FAST_BINARY", "")
BINARY = FAST if os.path.exists(FAST) else os.environ.get("BW_BINARY", "")
POLICY_ID = re.compile(r"policy\d+")


def runner(folder):
    fast = os.path.join(os.path.dirname(FAST), "tests", "cedar_run")
    tool = fast if os.path.exists(fast) else os.path.join(os.environ["BW_BUILD"], "tests", "cedar_run")
    out = subprocess.run([tool, str(folder)], capture_output=True, text=True, timeout=1200)
    assert out.stderr == ""
    last = out.stdout.strip().splitlines()[-1]
    failures = [line for line in out.stdout.splitlines() if line.startswith("FAILED")]
    print(f"seed {SEED}: {last}")
    assert not failures and out.returncode == 0, "\n".join([f"seed {SEED}"] + failures[:20])
    return int(last.split()[0])


def folder_of(tmp_path):
    keep = os.environ.get("BW_CEDAR_KEEP")
    if keep:
        os.makedirs(keep, exist_ok=True)
    return keep or tmp_path


def accepts(what, s):
    try:
        (cedarpy.PolicySet if what == "text" else cedarpy.Schema).from_str(s)
        return True
    except Exception:  # the engine's one way to say no
        return False


def record(case):
    """The reference's answers; None when it does not take the policies at all."""
    if not accepts("text", case["policies"]):
        return None
    asked = [{k: q[k] for k in ("principal", "action", "resource", "context")} for q in case["requests"]]
    answers = cedarpy.is_authorized_batch(asked, case["policies"], json.dumps(case["entities"]), case["schema"])
    for q, r in zip(case["requests"], answers):
        if r.decision.value not in ("Allow", "Deny"):
            q.update(decision="nodecision", reason=[], errors=[])
        else:
            q.update(decision=r.decision.value.lower(), reason=list(r.diagnostics.reasons),
                     errors=[POLICY_ID.search(str(e)).group(0) for e in r.diagnostics.errors])
    return case


def test_decisions_are_the_references(tmp_path):
    g = Gen(random.Random(SEED))
    rows, dropped = [], 0
    while len(rows) * REQUESTS < COUNT:
        case = {"id": f"random-{len(rows)}", **g.case()}
        case["requests"] += [g.request(case["schema"] is not None) for _ in range(REQUESTS - len(case["requests"]))]
        if record(case):
            rows.append(case)
        else:
            dropped += 1
    assert dropped < len(rows) / 10
    decisions = [q["decision"] for r in rows for q in r["requests"]]
    assert min(decisions.count(d) for d in ("allow", "deny", "nodecision")) > len(decisions) / 100
    folder = folder_of(tmp_path)
    dump(os.path.join(folder, "random.jsonl"), rows)
    assert runner(folder) == len(decisions)


def test_damaged_texts_parse_or_not_as_there(tmp_path):
    g = Gen(random.Random(SEED + 1))
    rows = []
    for i in range(COUNT // 10):
        what, s = ("text", g.damage(g.policy())) if i % 2 else ("schema", g.damage(SCHEMA))
        if what == "schema" and s.lstrip().startswith("{"):
            continue  # we take that for the other syntax
        rows.append({"id": f"damaged-{i}: {s[:60]!r}", what: s, "accept": accepts(what, s)})
    assert 0.02 < sum(r["accept"] for r in rows) / len(rows) < 0.9
    dump(tmp_path / "damaged.jsonl", rows)
    assert runner(tmp_path) == len(rows)


def test_extension_texts_are_taken_or_not_as_there(tmp_path):
    g = Gen(random.Random(SEED + 2))
    rows = []
    while len(rows) < COUNT // 2:
        batch = [g.ext_text() for _ in range(200)]
        policies = "".join(f"permit(principal, action, resource) when {{ {fn}({text(s)}) == 1 }};" for fn, s in batch)
        r = cedarpy.is_authorized({"principal": 'U::"a"', "action": 'Action::"a"', "resource": 'U::"a"', "context": {}}, policies, "[]")
        bad = {int(POLICY_ID.search(str(e)).group(0)[6:]) for e in r.diagnostics.errors}
        rows += [{"fn": fn, "arg": s, "ok": i not in bad} for i, (fn, s) in enumerate(batch)]
    assert 0.2 < sum(r["ok"] for r in rows) / len(rows) < 0.95
    dump(tmp_path / "ext.jsonl", rows)
    assert runner(tmp_path) == len(rows)


def test_policies_validate_or_not_as_there(tmp_path):
    g = Typed(random.Random(SEED + 3))
    rows, dropped = [], 0
    while len(rows) < COUNT // 4:
        schema = g.world()
        handle = cedarpy.Schema.from_str(schema)
        for policy in (g.policy() for _ in range(20)):
            if not accepts("text", policy):
                dropped += 1
                continue
            rows.append({"id": f"typed-{len(rows)}", "policies": policy, "schema": schema, "entities": [], "requests": [],
                         "shouldValidate": cedarpy.validate_policies(policy, handle).validation_passed})
    assert dropped < len(rows) / 20
    assert 0.5 < sum(r["shouldValidate"] for r in rows) / len(rows) < 0.9
    dump(tmp_path / "typed.jsonl", rows)
    assert runner(tmp_path) == len(rows)


def tool(*args):
    out = subprocess.run([BINARY, "policy", *args], capture_output=True, text=True, timeout=600)
    assert out.returncode == 0 and not out.stderr, f"seed {SEED}: {args}: {out.stderr}"
    return out.stdout


def test_forms_are_the_references(tmp_path):
    """Ours as the engine's; and the engine finds in what we lay out, and in the text that we
    write of JSON, what it found in the text."""
    g = Gen(random.Random(SEED + 4))
    texts = [t for t in (g.policy() for _ in range(COUNT // 2)) if accepts("text", t)]
    assert len(texts) > COUNT / 3
    file, form = tmp_path / "all.cedar", tmp_path / "all.json"
    for i in range(0, len(texts), 1000):
        part = "\n".join(f"{t} // {k}" for k, t in enumerate(texts[i:i + 1000]))
        file.write_text(part, encoding="utf-8", newline="")
        want = json.loads(cedarpy.policies_to_json_str(part))
        ours = tool("json", str(file))
        assert json.loads(ours) == want, f"seed {SEED}, from {i}"
        form.write_text(ours)
        laid = tool("fmt", "--stdout", str(file))
        assert [int(c) for c in re.findall(r"; // (\d+)$", laid, re.M)] == list(range(len(texts[i:i + 1000])))
        assert json.loads(cedarpy.policies_to_json_str(laid)) == want, f"seed {SEED}, from {i}, laid out"
        written = tool("from-json", str(form))
        # JSON has its policies in the order of its keys, and so has our text
        assert json.loads(cedarpy.policies_to_json_str(written)) == want, f"seed {SEED}, from {i}, written"
