"""`bailiwick place` on ten written workloads and a few more (data/place): everything it says is worked
out a second time here, from the data alone. The law by the reference Cedar engine over
entities that are built here from the catalogue and the market; machines and prices by the
formulas of policies/market/README.md, written anew. And for each workload what a person
found by hand."""
import glob
import json
import math
import os
import re
import subprocess
import sys

import pytest

from cell import BINARY, SOURCE, Cell

cedarpy = pytest.importorskip("cedarpy")
DATA = os.path.join(SOURCE, "tests", "data", "place")
CLOSED = {"restricted": "restricted-region", "announced": "announced-region", "dedicated": "dedicated-access"}
BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "b1": 1}
KEYS = {"prices": ("instance", "region", "market"), "rates": ("from", "to"), "cert_words": ("name",)}

# name: (arguments, exit status, what a person found by hand)
WORKLOADS = {
    "01-hospital-fr": ([], 3, {}),
    "02-hipaa-us": ([], 3, {}),
    "03-bank-ch": ([], 0, {"countries": {"CH"}}),
    "04-public-body-de": ([], 3, {}),
    # 2.288 CNY * 730; the price is of 2024
    "05-pipl-cn": ([], 0, {"countries": {"CN"}, "first": ("aws:inf1.xlarge", "aws:cn-north-1", 1, 1670.24)}),
    # 0.20 USD * 730
    "06-dpdp-in": ([], 0, {"countries": {"IN"}, "first": ("lambda:cpu_4x_general", "lambda:asia-south-1", 1, 146.00)}),
    # 1.9539 USD * 730; the ARM types are cheaper, and out by no-kernel
    "07-uk-council": ([], 0, {"countries": {"GB"}, "first": ("aws:gr6.4xlarge", "aws:eu-west-2", 1, 1426.35)}),
    "08-air-gap": (["--packs", "base,residency,purpose,air-gap"], 3, {}),
    "09-startup-spot": ([], 0, {}),
    # two H200: 10M * 1536 B * 1.25 = 19.2 GB fits one; its scan of 10M rows takes 8.3 ms of 5
    "10-low-latency": ([], 0, {"first": ("nebius:gpu-h200-sxm_1gpu-16vcpu-200gb", "nebius:eu-north1", 2, 5110.00)}),
    # 200,000 * 2 * 560M = 224 Tflop/s; a chip gives 0.3 * 64: twelve; 12 * 0.228 * 730
    "11-embed-inferentia": ([], 0, {"countries": {"US"}, "first": ("aws:inf1.xlarge", "aws:us-east-1", 12, 1997.28)}),
}
WITH_OVERLAY = {
    # 2 replicas * 3.10 EUR * 730
    "01-hospital-fr": {"first": ("outscale:1x-L40S", "outscale:cloudgouv-eu-west-1", 2, 4526.00),
                       "regions": {"outscale:cloudgouv-eu-west-1"}},
    "02-hipaa-us": {"regions": {"aws:us-east-1"}, "first": ("aws:inf1.xlarge", "aws:us-east-1", 1, 166.44)},
    "04-public-body-de": {"regions": {"stackit:eu01", "ionos:de/fra"}, "countries": {"DE"}},
    "08-air-gap": {"regions": {"bunker:b1"}, "first": ("bunker:cpu-64", "bunker:b1", 1, 1022.00)},
    "09-startup-spot": {"first": ("vastai:1x-RTX-4090", "vastai:host-17", 1, 153.30)},
}


# ---- the data ----

def key_of(table, row):
    return tuple(row[k] for k in KEYS.get(table, ("id",)))


class Market:
    def __init__(self, overlay=None):
        self.t = {}
        files = [os.path.join(SOURCE, "policies", "market", n + ".json") for n in ("places", "accelerators", "instances")]
        for path in files + ([overlay] if overlay else []):
            with open(path, encoding="utf-8") as f:
                for table, rows in json.load(f).items():
                    if isinstance(rows, list):
                        self.t.setdefault(table, {}).update((key_of(table, r), r) for r in rows)
        self.catalogue = catalogue_entities()
        self.words = {r["name"]: r["word"] for r in self.t["cert_words"].values()}

    def rows(self, table):
        return [self.t[table][k] for k in sorted(self.t.get(table, {}))]

    def one(self, table, name):
        return self.t[table][(name,)]

    def certs(self, region):
        return {self.words[c["name"]] for c in self.rows("certifications")
                if c["status"] == "held" and c.get("confidence") != "low" and c["name"] in self.words
                and region["id"] in (c["regions"] or [])}

    def operator(self, region):
        return self.one("entities", region.get("operator") or self.one("providers", region["provider"])["entity"])

    def price(self, instance, region, market):
        prices = self.t["prices"]
        return prices.get((instance["id"], region["id"], market)) or prices.get((instance["id"], "*", market))


# ---- the law: the reference engine ----

def uid(kind, name):
    return {"type": "Bw::" + kind, "id": name}


def ref(kind, name):
    return {"__entity": uid(kind, name)}


def catalogue_entities():
    with open(os.path.join(SOURCE, "policies", "packs", "catalogue.json"), encoding="utf-8") as f:
        c = json.load(f)
    level = {r["country"]: r["level"] or "unknown" for r in c["localisation"]}
    groups = {n["code"]: set(n.get("in") or []) for n in c["countries"]}
    for z in c["zones"]:
        unlisted = z.get("unknown") and z["kind"] == "deny"
        for code in groups:
            if code in (z.get("countries") or []) or unlisted or (z.get("members") and level[code] != "unknown"):
                groups[code].add(z["id"])
    regimes = {w["word"]: w for w in c["vocabulary"]["regimes"]}
    conditional = [w for w in regimes if "conditional" in regimes[w]]
    certs = {code: dict.fromkeys(conditional, []) for code in groups}
    for a in c["adequacy"]:
        if a["status"] == "full":
            groups[a["country"]].add(regimes[a["regime"]]["zone"])
        elif a["status"] == "partial" and a.get("certs"):
            groups[a["country"]].add(regimes[a["regime"]]["conditional"])
        if a["regime"] in conditional:
            certs[a["country"]][a["regime"]] = a.get("certs") or []
    out = [{"uid": uid("Zone", z["id"]), "attrs": {}, "parents": [uid("Zone", p) for p in z["in"]]} for z in c["zones"]]
    for code in groups:
        out.append({"uid": uid("Zone", code), "attrs": {}, "parents": [uid("Zone", p) for p in sorted(groups[code])]})
        out.append({"uid": uid("Country", code), "parents": [uid("Zone", code)],
                    "attrs": {"adequacyCerts": certs[code], "localisation": level[code]}})
    return out


def entity(e):
    share = lambda v: {"__extn": {"fn": "decimal", "arg": v or "100.0"}}  # noqa: E731
    return {"uid": uid("LegalEntity", e["id"]), "parents": [], "attrs": {
        "seat": ref("Country", e["seat"] or "ZZ"), "controlZones": [ref("Zone", z) for z in e["control_zones"] or ["unknown"]],
        "foreignShareMax": share(e["foreign_share_max"]), "foreignShareSum": share(e["foreign_share_sum"]),
        "baaWith": [ref("Tenant", t) for t in e.get("baa_with") or []], "certs": e.get("certs") or []}}


def node_id(m, region, hw):
    """All that a policy sees of a place; many regions share it, so that few are asked about."""
    return "%s %s %s %s" % (region["country"], m.operator(region)["id"], ",".join(sorted(m.certs(region))), ",".join(sorted(hw)))


def label_set(c, who):
    return {"tenant": ref("Tenant", c.get("tenant", who["tenant"])), "regimes": [r for r in c["regimes"] if r != "none"],
            "residency": [ref("Zone", z) for z in c["residency"]], "sensitivity": c["sensitivity"],
            "categories": c.get("categories", []), "labels": c.get("labels", []), "purposes": c.get("purposes", []),
            "legalHold": c.get("legal_hold", False)}


def verdicts(m, profile, args):
    """(region, hw) -> ({(policy, class, action)} that deny, those that permit), by the reference engine."""
    packs = args[args.index("--packs") + 1].split(",") if "--packs" in args else ["eu-baseline"]
    policies = subprocess.run([BINARY, "policy", "compose"] + packs, check=True, stdout=subprocess.PIPE).stdout.decode()
    ids = re.findall(r'^@id\("([^"]+)"\)', policies, re.M)
    who = profile["principal"]
    place_of = {(r["id"], tuple(sorted(hw))): (node_id(m, r, hw), r) for r in m.rows("regions") if r["country"]
                for hw in [set(r.get("hw") or []) | extra for extra in (set(), {"gpu"})]}
    nodes = {node: (r, hw) for (_, hw), (node, r) in place_of.items()}
    entities = m.catalogue + [entity(e) for e in m.rows("entities")]
    entities += [{"uid": uid("Node", node), "parents": [], "attrs": {
        "country": ref("Country", r["country"]), "operator": ref("LegalEntity", m.operator(r)["id"]),
        "certs": sorted(m.certs(r)), "hw": list(hw)}} for node, (r, hw) in nodes.items()]
    entities += [{"uid": uid("Identity", who["principal"]), "parents": [uid("Role", r) for r in who["roles"]], "attrs": {
        "tenant": ref("Tenant", who["tenant"]), "seat": ref("Country", who["seat"]), "clearance": who["clearance"]}}]
    entities += [{"uid": uid("DataClass", str(i)), "parents": [], "attrs": label_set(c, who)}
                 for i, c in enumerate(profile["classes"])]
    asked, requests = [], []
    for node in nodes:
        for i in range(len(profile["classes"])):
            for a in profile.get("actions", ["Store", "Query", "Embed", "Replicate"]):
                context = {"at": ref("Node", node), "purpose": profile.get("purpose", ""), "safeguards": profile.get("safeguards", [])}
                if a != "Query":
                    context["dest"] = context["at"]
                asked.append((node, i, a))
                requests.append({"principal": 'Bw::Identity::"%s"' % who["principal"], "action": 'Bw::Action::"%s"' % a,
                                 "resource": 'Bw::DataClass::"%d"' % i, "context": context})
    groups = [{"uid": uid("Action", a), "attrs": {}, "parents": [uid("Action", g) for g in gs]} for a, gs in (
        ("Query", ["access"]), ("Store", ["move", "change"]), ("Embed", ["move"]), ("Replicate", ["move"]))]
    answers = cedarpy.is_authorized_batch(requests, policies, json.dumps(entities + groups))
    determined = {node: (set(), set()) for node in nodes}
    for (node, i, a), answer in zip(asked, answers):
        assert not answer.diagnostics.errors
        names = [ids[int(p[len("policy"):])] for p in answer.diagnostics.reasons] or ["no-permit"]
        determined[node][answer.allowed].update(("policy:" + n, i, a) for n in names)
    return {place: determined[node] for place, (node, _) in place_of.items()}


def within(catalogue, country, names):
    """Whether the country is one of the names or lies in one of those zones."""
    parents = {e["uid"]["id"]: [p["id"] for p in e["parents"]] for e in catalogue if e["uid"]["type"] == "Bw::Zone"}
    seen, todo = set(), [country]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += parents[at]
    return bool(seen & set(names))


# ---- machines and prices ----

class Size:
    def __init__(self, p, i, a):
        self.p, self.i, self.a, self.rule, self.n = p, i, a, None, 0
        n, d, bits = p["vectors"], p["dimension"], BITS[p.get("precision", "f32")]
        self.gpu = a["kind"] == "gpu" and a["vendor"] == "nvidia" and bits > 1
        self.graph = not self.gpu and p.get("recall", 0.95) <= 0.99 and n > 50000
        self.engine = "none" if n == 0 else "gpu-flat" if self.gpu else "cpu-graph" if self.graph else "cpu-flat"
        row = math.ceil(d * bits / 8)
        self.host = n * (row + 16 + (256 if self.graph else 0)) * 1.25
        self.row = 2 * d if self.gpu and bits == 32 else row
        self.device = n * self.row * 1.25 if self.gpu else 0
        model = p.get("model") or {"parameters": 0, "tokens_per_second": 0}
        self.params, self.tokens = model["parameters"], model["tokens_per_second"]
        self.model = self.params * model.get("bytes_per_parameter", 2) * 1.2
        peaks = {"int8": a["int8_tops"], "bf16": a["bf16_tflops"]}
        self.peak = peaks.get(p.get("precision", "f32"), a["fp16_tflops"])
        self.rule = self.unknown()
        while self.n == 0 or self.rule:
            if (self.n == 0 and self.rule) or self.n == 64:
                break
            self.n += 1
            self.attempt(self.n)
            late = n and p.get("latency_ms") and self.ms > p["latency_ms"]
            self.rule = "memory" if self.use > 1 else "throughput" if self.load > 1 else "latency" if late else None

    def unknown(self):
        a, i = self.a, self.i
        if self.params and not (a["fp16_tflops"] and a["memory_gb"] and i["accelerator_count"]):
            return "inference-unknown"
        if not self.p["vectors"]:
            return None
        if not self.gpu and "isa" in a and not any(x.startswith(("avx", "amx")) for x in a["isa"]):
            return "no-kernel"
        if self.gpu and not (a["memory_bw_gbs"] and self.peak):
            return "throughput-unknown"
        if not (a["memory_gb"] if self.gpu else i["memory_gib"]):
            return "memory-unknown"
        return "throughput-unknown" if not self.gpu and not i["vcpu"] else None

    def attempt(self, n):
        p, a, i = self.p, self.a, self.i
        host = i["memory_gib"] * 2**30 * 0.9 if i["memory_gib"] else None
        device = a["memory_gb"] * 1e9 * 0.9 if a["memory_gb"] else None
        k = n * i["accelerator_count"]
        model = self.tokens * 2 * self.params / (0.3 * a["fp16_tflops"] * 1e12 * k) if self.params else 0
        self.ms, self.wide = 0, False
        if not p["vectors"]:
            self.use, self.load = self.model / device, model
        elif self.gpu:
            rows = math.ceil(p["vectors"] / k)
            t = 2 * max((rows * self.row + 8 * 32 * rows) / (0.9 * a["memory_bw_gbs"] * 1e9),
                        64 * rows * p["dimension"] / (0.7 * self.peak * 1e12)) + 60e-6
            self.use = max((self.device / k + self.model) / device, self.host / n / host if host else 0)
            self.load, self.ms = p["qps"] * t / 32 + model, t * 1000 + 0.3
        elif self.graph:
            shards = min(max(math.ceil(self.host / host), 1), n)
            rows = math.ceil(p["vectors"] / shards)
            q = (1000 if p.get("recall", 0.95) > 0.95 else 2000) * 384 / max(p["dimension"], 384) \
                * math.log2(300000) / math.log2(max(rows, 300000)) / 2
            self.use = max(self.host / shards / host, self.model / device if self.params else 0)
            self.load, self.ms, self.wide = p["qps"] / (n // shards * i["vcpu"] * q) + model, 1000 / q, rows > 300000
        else:
            t = math.ceil(p["vectors"] / n) * self.row / (i["vcpu"] * 5e9)
            self.use = max(self.host / n / host, self.model / device if self.params else 0)
            self.load, self.ms = p["qps"] * t + model, t * 1000


def region_rules(m, p, r):
    provider, out = m.one("providers", r["provider"]), set()
    if r["access"] in CLOSED:
        out.add((CLOSED[r["access"]], None))
    if not r["country"]:
        out.add(("unknown-country", None))
    if "countries" in p and r["country"] and not within(m.catalogue, r["country"], p["countries"]):
        out.add(("country", r["country"]))
    if "providers" in p and r["provider"] not in p["providers"]:
        out.add(("provider", r["provider"]))
    held = m.certs(r) | set(m.operator(r).get("certs") or [])
    out |= {("certs", c) for c in p.get("certs", []) if r["country"] and c not in held}
    for api in p.get("inference_api", []):
        service = {"bedrock-invoke": "bedrock", "sagemaker-invoke": "sagemaker_runtime"}.get(api)
        if api not in (provider["inference_api"] or []) or (service and service not in r.get("services", [])):
            out.add(("inference-api", api))
    return out


def weigh(m, p, r, i, s, spot, denied):
    """(rules that keep it out, notes, monthly)"""
    a = m.one("accelerators", i["accelerator"])
    out, notes = {d[0] for d in denied}, set()
    own, listed = m.price(i, r, "on-demand") or m.price(i, r, "spot"), a["kind"] != "cpu" and r["accelerators"] is not None
    seen = listed and i["accelerator"] in r["accelerators"]
    if not (own and (seen or own["region"] != "*")):
        if listed and not seen:
            out.add("not-seen-here")
        else:
            notes.add("availability-unconfirmed")
    hw = set(r.get("hw") or []) | set(i.get("hw") or []) | ({"gpu"} if a["kind"] != "cpu" else set())
    if set(p.get("hw", [])) - hw:
        out.add("hw")
    if spot and not p.get("spot"):
        out.add("spot-not-allowed")
    if s.rule:
        out.add(s.rule)
    price, monthly = m.price(i, r, "spot" if spot else "on-demand"), None
    budget = p.get("budget") or {"currency": "USD"}
    if not price:
        notes.add("price-unknown")
    elif not price.get("currency"):
        notes.add("currency-unknown")
    else:
        monthly = price["per_hour"] * s.n * p.get("replicas", 1) * 730
        if price["currency"] != budget["currency"]:
            rate = m.t.get("rates", {}).get((price["currency"], budget["currency"]))
            monthly = monthly * rate["value"] if rate else None
            notes |= set() if rate else {"rate-unknown"}
        notes |= {"price-stale"} if price.get("stale") else set()
    if not s.rule and monthly is not None and monthly > budget.get("per_month", math.inf):
        out.add("budget")
    notes |= {"interruptible"} if spot else set()
    notes |= {"decentralised"} if m.one("providers", r["provider"]).get("decentralised") else set()
    notes |= {"network-latency-unknown"} if p.get("latency_ms") else set()
    if s.gpu and p["vectors"] and not i["memory_gib"]:
        notes.add("host-memory-unknown")
    if s.n and s.wide:
        notes.add("beyond-measured-size")
    if "low" in (i.get("confidence"), r.get("confidence"), a.get("confidence")):
        notes.add("low-confidence")
    return out, notes, monthly


# ---- the comparison ----

def run(name, overlay, args):
    cmd = [BINARY, "place", "--profile", os.path.join(DATA, name + ".json"), "--json"] + args
    done = subprocess.run(cmd + (["--overlay", overlay] if overlay else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


def near(got, want):
    return got == want if want is None or got is None else math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9)


def law_of(reasons):
    return {(x["rule"], int(re.match(r"class (\d+):", x["detail"]).group(1)), a)
            for x in reasons if x["rule"].startswith("policy:") for a in x["detail"].split(":")[1].split()}


def check_region(m, p, r, law, sizes, answer):
    """Compares one region; what of it should be in, as [(sort key, rank_cost)]."""
    rules, ranked = region_rules(m, p, r), []
    hw = set(r.get("hw") or [])
    instances = [i for i in m.rows("instances") if i["provider"] == r["provider"]] if r["country"] else []
    sets = [tuple(sorted(hw | ({"gpu"} if m.one("accelerators", i["accelerator"])["kind"] != "cpu" else set()))) for i in instances]
    if r["country"]:
        asked = sets or [tuple(sorted(hw))]
        if not instances:
            rules.add(("no-instances-known", None))
        everywhere = set.intersection(*(set(law[(r["id"], h)][0]) for h in asked))  # whatever the hardware
        rules |= {(d[0], None) for d in everywhere}
    got = answer["regions"].pop(r["id"], None)
    if rules:
        assert {(x["rule"], None if x["rule"].startswith("policy:") or "region" in x["rule"] or "access" in x["rule"] else x.get("detail"))
                for x in got["reasons"]} == rules, r["id"]
        assert law_of(got["reasons"]) == (everywhere if r["country"] else set())
        return ranked
    assert got is None, got
    for i, h in zip(instances, sets):
        for spot in [False, True] if i["spot"] else [False]:
            s = sizes[i["id"]]
            out, notes, monthly = weigh(m, p, r, i, s, spot, law[(r["id"], h)][0])
            o = answer["offers"].pop((r["id"], i["id"], spot))
            where = (r["id"], i["id"], spot, o)
            assert {x["rule"] for x in o.get("reasons", [])} == out, where
            assert o["engine"] == s.engine and o.get("machines_a_replica", 0) == s.n, where
            if s.n:
                assert o["machines"] == s.n * p.get("replicas", 1), where
                for key, want in (("row_bytes", s.row), ("host_bytes", s.host), ("device_bytes", s.device), ("model_bytes", s.model),
                                  ("memory_use", s.use), ("load", s.load), ("latency_ms", s.ms)):
                    assert near(o[key], want), (key, want) + where
            assert near(o["per_month"], None if s.rule else monthly), (monthly,) + where
            if not out:
                assert {x["rule"] for x in o["notes"]} == notes, where
                assert law_of(o["because"]) == law[(r["id"], h)][1] != set(), where
                fit = max(s.load, s.use)
                ranked.append(((monthly is None, monthly or 0, len(notes), -fit, spot, r["id"].encode(), i["id"].encode()), o, s.ms, fit))
    return ranked


def check_ranking(ranked):
    ranked.sort(key=lambda x: x[0])
    best = math.inf
    for n, (key, o, ms, _) in enumerate(ranked, 1):
        assert o["rank_cost"] == n, (key, o)
        assert o["pareto"] == (not key[0] and ms < best), o
        best = min(best, ms) if not key[0] else best
    fits = [o["fit"] for o in sorted((x[1] for x in ranked), key=lambda o: o["rank_fit"])]
    assert fits == sorted(fits, reverse=True) and [x[1]["rank_fit"] for x in ranked] != [] or not ranked


def check(name, overlay, args, code, found):
    with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as f:
        p = json.load(f)
    status, plan = run(name, overlay, args)
    m = Market(overlay)
    law = verdicts(m, p, args)
    answer = {"regions": {r["region"]: r for r in plan["out"]["regions"]},
              "offers": {(o["region"], o["instance"], o["spot"]): o for o in plan["in"] + plan["out"]["offers"]}}
    sizes = {i["id"]: Size(p, i, m.one("accelerators", i["accelerator"])) for i in m.rows("instances")}
    ranked = []
    for r in m.rows("regions"):
        ranked += check_region(m, p, r, law, sizes, answer)
    assert not answer["regions"] and not answer["offers"]  # nothing said that is not in the data
    check_ranking(ranked)
    assert status == code and (len(ranked) > 0) == (code == 0)
    for thing in plan["out"]["regions"] + plan["out"]["offers"]:
        assert thing["reasons"] and all(x["rule"] for x in thing["reasons"]), thing
    if "first" in found:
        o = plan["in"][0]
        assert (o["instance"], o["region"], o["machines"], round(o["per_month"], 2)) == found["first"]
    if "countries" in found:
        assert {o["country"] for o in plan["in"]} == found["countries"]
    if "regions" in found:
        assert {o["region"] for o in plan["in"]} == found["regions"]
    return plan


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_shipped_data(name):
    args, code, found = WORKLOADS[name]
    check(name, None, args, code, found)


@pytest.mark.parametrize("name", sorted(WITH_OVERLAY))
def test_with_the_operators_own_facts(name):
    check(name, os.path.join(DATA, name + ".overlay.json"), WORKLOADS[name][0], 0, WITH_OVERLAY[name])


def test_every_workload_is_checked():
    names = {os.path.basename(f)[:-5] for f in glob.glob(os.path.join(DATA, "*.json"))}
    assert {n for n in names if "." not in n} == set(WORKLOADS) and len(WORKLOADS) >= 10
    assert {n.split(".")[0] for n in names if n.endswith(".overlay")} == set(WITH_OVERLAY)


def test_the_same_question_has_the_same_bytes():
    cmd = [BINARY, "place", "--profile", os.path.join(DATA, "06-dpdp-in.json")]
    for args in (["--json"], ["--by", "fit"]):
        assert subprocess.run(cmd + args, stdout=subprocess.PIPE).stdout == subprocess.run(cmd + args, stdout=subprocess.PIPE).stdout != b""


def refused(tmp_path, args, *texts):
    done = subprocess.run([BINARY, "place"] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and done.stdout == b"", done
    for text in texts:
        assert text in done.stderr.decode(), done.stderr


def test_what_is_wrong_is_named(tmp_path):
    profile = os.path.join(DATA, "06-dpdp-in.json")
    with open(profile, encoding="utf-8") as f:
        p = json.load(f)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(dict(p, vektors=1)))
    refused(tmp_path, ["--profile", str(bad)], "/vektors", "no member")
    bad.write_text("{")
    refused(tmp_path, ["--profile", str(bad)], "profile: JSON")
    bad.write_text("")
    refused(tmp_path, ["--profile", profile, "--entities", str(bad)], "is empty")
    os.mkfifo(tmp_path / "pipe")  # nobody writes: must not wait
    refused(tmp_path, ["--profile", str(tmp_path / "pipe")], "no plain file")
    bad.write_text(json.dumps(dict(p, classes=[dict(p["classes"][0], regimes=["gdrp"])])))
    refused(tmp_path, ["--profile", str(bad)], "/classes/0/regimes")
    over = {"schema": "bailiwick.market/1", "date": "2026-11-30", "regions": [
        {"id": "aws:eu-west-1", "provider": "aws", "country": "IE", "access": "general", "accelerators": None, "hw": ["tee"], "date": "2026-11-30"}]}
    bad.write_text(json.dumps(over))
    refused(tmp_path, ["--profile", profile, "--overlay", str(bad)], "/regions/0", 'lacks "source"')
    refused(tmp_path, ["--profile", profile, "--explain", "no:such"], "no region or type")


def test_help_and_misuse():
    out = subprocess.run([BINARY, "place", "--help"], stdout=subprocess.PIPE).stdout.decode()
    assert "Usage: bailiwick place" in out and "--overlay" in out
    assert subprocess.run([BINARY, "place"], stderr=subprocess.PIPE).returncode == 2
    assert subprocess.run([BINARY, "place", "--profile", "x", "--limit", "many"], stderr=subprocess.PIPE).returncode == 2


def test_entities_of_the_operator_win(tmp_path):
    """A business associate agreement in the operator's Cedar entities, and memory encryption in the overlay."""
    entities = tmp_path / "entities.json"
    entities.write_text(json.dumps([entity({"id": "aws", "seat": "US", "control_zones": ["US"], "foreign_share_max": None,
                                            "foreign_share_sum": None, "baa_with": ["clinic"]})]))
    over = tmp_path / "over.json"
    with open(os.path.join(DATA, "02-hipaa-us.overlay.json"), encoding="utf-8") as f:
        tables = json.load(f)
    del tables["entities"]
    over.write_text(json.dumps(tables))
    status, without = run("02-hipaa-us", str(over), [])
    assert status == 3 and not without["in"]
    status, plan = run("02-hipaa-us", str(over), ["--entities", str(entities)])
    assert status == 0 and {o["region"] for o in plan["in"]} == {"aws:us-east-1"}


def test_classes_of_a_running_cell(tmp_path):
    labels = {"regimes": ["gdpr"], "residency": ["EU"], "sensitivity": 1, "categories": ["pi"], "purposes": ["search"]}
    key_file = tmp_path / "key"
    with Cell(dev=False, country="FR", operator="us-ours") as c:
        key = c.key_add("ana", tenant="fast", seat="FR", clearance=3, roles=["editor"], purposes=["search"],
                        default_purpose="search", labels=labels)
        assert c.put("/collections/x", {"vectors": {"size": 2, "distance": "Dot"}}, key=key).status == 200
        assert c.put("/collections/x/points?wait=true", {"points": [{"id": 1, "vector": [1, 0]}]}, key=key).status == 200
        key_file.write_text(key)
        args = ["--classes", "--url", "http://%s:%d" % (c.host, c.port), "--key-file", str(key_file)]
        status, plan = run("10-low-latency", None, args + ["--data", c.data])
    assert status == 0 and [x["residency"] for x in plan["profile"]["classes"]] == [["EU"]]


def test_entities_of_the_catalogue_win(tmp_path):
    """The same agreement, as a legal entity of the operator's catalogue."""
    overlay = tmp_path / "catalogue.json"
    overlay.write_text(json.dumps({"date": "2026-11-30", "legal_entities": [
        {"id": "aws", "seat": "US", "control_zones": ["US"], "foreign_share_max": "100.0", "foreign_share_sum": "100.0",
         "baa_with": ["clinic"], "certs": [], "source": "contract (example)", "date": "2026-11-01"}]}))
    over = tmp_path / "over.json"
    with open(os.path.join(DATA, "02-hipaa-us.overlay.json"), encoding="utf-8") as f:
        tables = json.load(f)
    del tables["entities"]
    over.write_text(json.dumps(tables))
    status, plan = run("02-hipaa-us", str(over), ["--set", "policies.catalogue=%s" % overlay])
    assert status == 0 and {o["region"] for o in plan["in"]} == {"aws:us-east-1"}


def test_shipped_files_are_what_the_facts_give(tmp_path):
    market = os.path.join(SOURCE, "policies", "market")
    facts = os.path.join(os.environ.get("BW_SHARED", os.path.join(SOURCE, "..", "shared")), "catalogue")
    if not os.path.exists(os.path.join(facts, "providers.json")):
        pytest.skip("no files of researched facts")
    subprocess.run([sys.executable, os.path.join(market, "make_market.py"), facts,
                    os.path.join(SOURCE, "policies", "packs", "catalogue.json"), str(tmp_path)], check=True)
    for name in ("places.json", "accelerators.json", "instances.json"):
        with open(os.path.join(market, name), "rb") as f:
            assert (tmp_path / name).read_bytes() == f.read(), name
