"""The packs in the reference engine: it validates all of them, and gives every case of
packs/tests the answer that is written there. The entities are made here, from the catalogue
file and the case alone, so that the engine's own way to them is checked as well. Skipped where
the reference engine's Python package is missing."""
import glob
import json
import os
import re
import subprocess

import pytest

from cell import BINARY, SOURCE

cedarpy = pytest.importorskip("cedarpy")
PACKS = os.path.join(SOURCE, "policies", "packs")
MOVES = {"Store", "Replicate", "Transfer", "Export", "Embed"}
KEYS = {"zones": ["id"], "countries": ["code"], "localisation": ["country"], "foreign_access": ["country", "law"],
        "adequacy": ["regime", "country"], "legal_entities": ["id"]}


def schema():
    with open(os.path.join(PACKS, "bw.cedarschema")) as f:
        return f.read()


def compose(names):
    return subprocess.run([BINARY, "policy", "compose"] + names, check=True, stdout=subprocess.PIPE, text=True).stdout


def uid(kind, name):
    return {"type": "Bw::" + kind, "id": name}


def ref(kind, name):
    return {"__entity": uid(kind, name)}


def entity(kind, name, parents=(), /, **attrs):
    return {"uid": uid(kind, name), "attrs": attrs, "parents": list(parents)}


def decimal(share):
    return {"__extn": {"fn": "decimal", "arg": share or "100.0"}}


def merged(overlay):
    """The catalogue's tables as {key: row}, the overlay's rows in place of the shipped ones."""
    with open(os.path.join(PACKS, "catalogue.json")) as f:
        shipped = json.load(f)
    tables = {t: {tuple(r[k] for k in key): r for source in (shipped, overlay) for r in source.get(t, [])}
              for t, key in KEYS.items()}
    return tables, {r["word"]: r for r in shipped["vocabulary"]["regimes"]}


def edges(tables, regimes):
    """(place, zone) pairs."""
    countries = [c["code"] for c in tables["countries"].values()]
    researched = [c for c in countries if tables["localisation"].get((c,), {}).get("level")]
    for row in list(tables["zones"].values()) + list(tables["countries"].values()):
        yield from ((row.get("id") or row["code"], z) for z in row.get("in", []))
    for z in tables["zones"].values():
        inside = z.get("countries", []) + (researched if "members" in z else [])
        if z["kind"] == "deny" and z.get("unknown"):
            inside = countries
        yield from ((c, z["id"]) for c in inside)
    for a in tables["adequacy"].values():
        word = "zone" if a["status"] == "full" else "conditional" if a["status"] == "partial" and a.get("certs") else None
        if word and regimes[a["regime"]].get(word):
            yield a["country"], regimes[a["regime"]][word]


def access(tables, country):
    laws = [r for r in tables["foreign_access"].values() if r["country"] == country and r.get("law")]
    return "unknown" if not laws else "extraterritorial" if any(r["extraterritorial"] for r in laws) else "domestic"


def world(overlay):
    tables, regimes = merged(overlay)
    parents = {}
    for place, zone in edges(tables, regimes):
        parents.setdefault(place, set()).add(zone)
    codes = [c["code"] for c in tables["countries"].values()]
    for name in codes + [z["id"] for z in tables["zones"].values()] + ["unknown"]:
        yield entity("Zone", name, (uid("Zone", z) for z in sorted(parents.get(name, ()))))
    for c in codes:
        certs = {r: tables["adequacy"].get((r, c), {}).get("certs") or [] for r in regimes if regimes[r].get("conditional")}
        yield entity("Country", c, [uid("Zone", c)], adequacyCerts=certs, foreignAccess=access(tables, c),
                     localisation=tables["localisation"].get((c,), {}).get("level") or "unknown")
    for e in tables["legal_entities"].values():
        yield entity("LegalEntity", e["id"], seat=ref("Country", e["seat"]), certs=e["certs"] or [],
                     controlZones=[ref("Zone", z) for z in e["control_zones"] or ["unknown"]],
                     foreignShareMax=decimal(e["foreign_share_max"]), foreignShareSum=decimal(e["foreign_share_sum"]),
                     baaWith=[ref("Tenant", t) for t in e["baa_with"]])


class File:
    def __init__(self, path):
        with open(path) as f:
            self.test = json.load(f)
        self.text = compose(self.test["policies"])
        self.ids = re.findall(r'^@id\("([^"]+)"\)', self.text, re.M)
        self.forbids = re.findall(r"^(permit|forbid) \(", self.text, re.M)
        assert len(self.ids) == len(self.forbids) > 0
        self.entities = {json.dumps(e["uid"]): e for e in
                         list(world(self.test.get("catalogue", {}))) + self.test.get("entities", [])}

    def keep(self, e):
        self.entities[json.dumps(e["uid"])] = e
        return '%s::"%s"' % (e["uid"]["type"], e["uid"]["id"])

    def place(self, p):
        name, p = (p, self.test["places"][p]) if isinstance(p, str) else (p["id"], p)
        self.keep(entity("Node", name, country=ref("Country", p["country"]), operator=ref("LegalEntity", p["operator"]),
                         certs=p.get("certs", []), hw=p.get("hw", [])))
        return ref("Node", name)

    def resource(self, case, tenant, at):
        if case.get("cell"):
            return 'Bw::Node::"%s"' % at["__entity"]["id"]
        if "collection" in case:
            c = case["collection"]
            c = {"tenant": tenant, "name": c} if isinstance(c, str) else c
            return self.keep(entity("Collection", c["tenant"] + "/" + c["name"], tenant=ref("Tenant", c["tenant"]), name=c["name"]))
        c = self.test["classes"][case["class"]]
        tenant = c.get("tenant", tenant)
        return self.keep(entity(
            "DataClass", case["class"] + "/" + tenant, tenant=ref("Tenant", tenant), legalHold=c.get("legal_hold", False),
            regimes=[r for r in c["regimes"] if r != "none"], residency=[ref("Zone", z) for z in c["residency"]],
            sensitivity=c["sensitivity"], **{k: c.get(k, []) for k in ("categories", "labels", "purposes")}))

    def request(self, case):
        who = self.test["principals"][case["principal"]]
        at = self.place(case.get("at") or self.test["cell"])
        own = {**{k: self.test[k] for k in ("purpose", "now") if k in self.test}, **case}
        context = {"at": at, "purpose": own.get("purpose", ""), "safeguards": case.get("safeguards", [])}
        if case["action"] in MOVES:
            context["dest"] = self.place(case["dest"]) if case.get("dest") else at
        if "now" in own:
            context["now"] = {"__extn": {"fn": "datetime", "arg": own["now"]}}
        return {"principal": self.keep(entity("Identity", case["principal"], (uid("Role", r) for r in who.get("roles", [])),
                                              tenant=ref("Tenant", who["tenant"]), seat=ref("Country", who["seat"]),
                                              clearance=who["clearance"])),
                "action": 'Bw::Action::"%s"' % case["action"], "resource": self.resource(case, who["tenant"], at),
                "context": context}

    def names(self, numbers):
        return sorted(self.ids[int(n)] for n in numbers)

    def answer(self, result):
        """With our rule: a forbid that errs denies, beside those that hold."""
        allow = result.decision == cedarpy.Decision.Allow
        reasons = {r[len("policy"):] for r in result.diagnostics.reasons}
        errors = {n for e in result.diagnostics.errors for n in re.findall(r"policy(\d+)", str(e))[:1]}
        erring = {n for n in errors if self.forbids[int(n)] == "forbid"}
        return {"decision": "deny" if erring or not allow else "allow", "errors": self.names(errors),
                "policies": self.names((set() if erring and allow else reasons) | erring)}


def test_packs__are_valid_in_the_reference_engine():
    for names in (["eu-baseline"], ["all", "air-gap"]):
        text = compose(names)
        result = cedarpy.validate_policies(text, schema())
        assert result.validation_passed, result.errors
        broken = text.replace("resource.regimes", "resource.regimen", 1)
        assert not cedarpy.validate_policies(broken, schema()).validation_passed


def test_packs__have_the_same_answers_in_the_reference_engine():
    cases = 0
    for path in sorted(glob.glob(os.path.join(PACKS, "tests", "*.json"))):
        f = File(path)
        requests = [f.request(c) for c in f.test["cases"]]
        results = cedarpy.is_authorized_batch(requests, f.text, list(f.entities.values()), schema())
        for case, result in zip(f.test["cases"], results):
            assert f.answer(result) == {"errors": [], **case["expect"]}, (path, case["name"])
            cases += 1
    print(cases, "cases")
    assert cases > 500
