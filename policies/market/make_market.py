#!/usr/bin/env python3
"""Writes places.json, instances.json and accelerators.json, here or in OUT_FOLDER, from three files
of researched facts (schemas bailiwick.catalogue.providers/1, instances/1, accelerators/1).

    python3 make_market.py FACTS_FOLDER ../packs/catalogue.json [OUT_FOLDER]

Nothing is added but what the tables below say, each with its reason. What the facts do
not say becomes null, and null never widens: an unknown foreign share counts as 100
percent, an unknown parent as control from an unknown zone, a certificate whose scope is
not stated as not held, an unknown price as unknown."""
import json
import os
import re
import sys

# Operators of single regions that are another legal entity than the provider's own:
# (text of the facts, id, seat, countries that control it).
OPERATORS = [
    ("Sinnet (Beijing)", "sinnet", "CN", ["CN"]),
    ("NWCD (Ningxia)", "nwcd", "CN", ["CN"]),
    ("21Vianet", "21vianet", "CN", ["CN"]),
    ("AWS European Sovereign Cloud GmbH (Germany), owned by Amazon", "aws-eusc", "DE", ["DE", "US"]),
    ("OVH US LLC (separate US entity)", "ovh-us", "US", ["US", "FR"]),
]
# SecNumCloud 3.2 itself demands what the shares measure: a qualified service's operator is
# held from outside the EU to at most 24 percent by one holder and 39 by all (ch. 19.6).
SHARE_BOUNDS = {"outscale": ("24.0", "39.0"), "s3ns": ("24.0", "39.0")}
# What a scope's own words prove, and no more. A list of region ids, or a predicate.
SCOPES = {
    ("aws", "HDS"): [("HDS", lambda r, eu: r["country"] in eu and r.get("partition") == "aws")],
    ("aws", "FedRAMP"): [
        ("FedRAMP Moderate", lambda r, eu: r["native_id"] in ("us-east-1", "us-east-2", "us-west-1", "us-west-2")),
        ("FedRAMP High", lambda r, eu: r.get("partition") == "aws-us-gov")],
    ("outscale", "SecNumCloud"): [("SecNumCloud 3.2", lambda r, eu: r["native_id"] == "cloudgouv-eu-west-1")],
    ("s3ns", "SecNumCloud"): [("SecNumCloud 3.2", lambda r, eu: True)],  # the entry is PREMI3NS itself
}
# Names of certificates and the word that policies and profiles use. "soc-2" is no cert of
# the packs; a profile may ask for any word.
CERT_WORDS = [
    ("SecNumCloud 3.2", "secnumcloud-3.2", "ANSSI, SecNumCloud reference 3.2"),
    ("HDS", "hds", "French Public Health Code art. L1111-8"),
    ("BSI C5", "c5", "BSI Cloud Computing Compliance Criteria Catalogue"),
    ("BSI IT-Grundschutz", "it-grundschutz", "BSI Standard 200"),
    ("ISO 27001", "iso-27001", "ISO/IEC 27001"),
    ("SOC 2", "soc-2", "AICPA Trust Services Criteria"),
    ("SOC 1/2/3", "soc-2", "AICPA Trust Services Criteria"),
    ("FedRAMP Moderate", "fedramp-moderate", "FedRAMP baseline Moderate"),
    ("FedRAMP High", "fedramp-high", "FedRAMP baseline High"),
]


def day(text):
    """(date as far as it is known, note or None)"""
    m = re.match(r"\d{4}(-\d\d){0,2}", text)
    return m.group(0), (text[m.end():].strip(" ,") + " in its source" if m.end() < len(text) else None)


def put(row, **more):
    row.update((k, v) for k, v in more.items() if v is not None)
    return row


def zones_of(countries, eu):
    return sorted({"EU" if c in eu else c for c in countries if c not in (None, "ZZ")})


def entity(eid, name, seat, countries, eu, source, date, shares=None, note=None):
    known = [c for c in countries if c not in (None, "ZZ")]
    row = {"id": eid, "name": name, "seat": None if seat == "ZZ" else seat,
           "control_zones": zones_of(countries, eu) if len(known) == len(countries) else None,
           "foreign_share_max": shares[0] if shares else None,
           "foreign_share_sum": shares[1] if shares else None, "source": source, "date": date}
    if shares:
        row["note"] = "shares are the bounds that SecNumCloud 3.2 ch. 19.6 attests, not figures"
    return put(row, note=note)


def access_of(provider, region):
    """general; dedicated = only for chosen customers; restricted; announced."""
    if region.get("status") == "restricted":
        return "restricted"
    if region.get("status") == "listed-in-partition-file-only":
        return "announced"
    if region.get("access") == "dedicated" or "US persons" in region.get("note", "") or \
            region.get("sovereign_partition") == "Azure Government":
        return "dedicated"
    return "general"


def places(facts, eu):
    date, out = facts["as_of"], {k: [] for k in
                                 ("entities", "providers", "regions", "cert_words", "certifications")}
    for text, eid, seat, control in OPERATORS:
        out["entities"].append(entity(eid, text, seat, control, eu, "operator named in the region's row", date))
    for p in facts["providers"]:
        parents = [p["legal_home_country"], p["ultimate_parent_country"]]
        out["entities"].append(entity(p["id"], p["name"], p["legal_home_country"], parents, eu, p["source"], date,
                                      SHARE_BOUNDS.get(p["id"]), p["ultimate_parent"]))
        out["providers"].append(put(
            {"id": p["id"], "name": p["name"], "kind": p["kind"], "entity": p["id"], "spot": p["spot"],
             "inference_api": p["inference_api"], "decentralised": p.get("decentralised", False),
             "foreign_law_exposure": p["foreign_law_exposure"], "confidence": p["confidence"],
             "source": p["source"], "date": date}, note=p.get("notes")))
        for r in p["regions"]:
            services = [s for s, on in (r.get("services") or {}).items() if on]
            op = next((e for t, e, _, _ in OPERATORS if t == r.get("operator")), None)
            assert op or "operator" not in r, r
            out["regions"].append(put(
                {"id": r["id"], "provider": p["id"], "native_id": r["native_id"], "country": r["country"],
                 "access": access_of(p, r), "accelerators": r["accelerators"],
                 "confidence": r["confidence"], "source": p["source"], "date": date},
                city=r["city"], operator=op, partition=r.get("sovereign_partition"), note=r.get("note"),
                services=services if "services" in r else None))
        if not p["regions"]:  # its place is a fact of each offer: only an overlay can say it
            out["regions"].append({"id": p["id"] + ":any", "provider": p["id"], "native_id": "any", "country": None,
                                   "access": "general", "accelerators": None, "confidence": p["confidence"],
                                   "note": "location is a fact of each offer; add the hosts you use in an overlay",
                                   "source": p["source"], "date": date})
        for c in p["certifications"]:
            status = "held" if re.match(r"held( \(|$)", c["status"]) else \
                "not-held" if c["status"].startswith("not held") else "unknown"
            for name, covers in SCOPES.get((p["id"], c["name"]), [(c["name"], None)]):
                regions = [r["id"] for r in p["regions"] if covers(r, eu) and r.get("status") != "restricted"] \
                    if covers else None
                out["certifications"].append(put(
                    {"id": "%s/%s" % (p["id"], name), "provider": p["id"], "name": name, "status": status,
                     "regions": regions, "confidence": c["confidence"], "source": p["source"], "date": date},
                    scope=c["scope"], note=c["status"] if status == "unknown" else None))
    for name, word, source in CERT_WORDS:
        out["cert_words"].append({"name": name, "word": word, "source": source, "date": date})
    return out


def price_rows(i, regions):
    for native, p in sorted((i["on_demand"] or {}).items()):
        date, note = day(p["date"])
        amount, currency = (p["usd_per_hour"], "USD") if p["usd_per_hour"] is not None else (p["price"], p["currency"])
        if "may be euros" in p.get("note", ""):
            currency = None
        region = "*" if native == "*" else "%s:%s" % (i["provider"], native)
        assert region == "*" or region in regions, region
        row = put({"instance": i["id"], "region": region, "market": "on-demand", "per_hour": amount,
                   "currency": currency, "source": p["source"], "date": date},
                  note=p.get("note") or note, stale=p.get("stale"))
        yield row
        if p.get("spot_usd_per_hour") is not None:
            yield dict(row, market="spot", per_hour=p["spot_usd_per_hour"], currency="USD")


def instances(facts, providers):
    date, sources = facts["as_of"], facts["sources"]
    regions = {r["id"] for p in providers["providers"] for r in p["regions"]}
    out, seen = {"instances": [], "prices": []}, set()
    for i in facts["instances"]:
        rows = list(price_rows(i, regions))
        source = rows[0]["source"] if rows else "skypilot-v8"
        seen.add((i["provider"], i["accelerator"]))
        out["instances"].append(put(
            {"id": i["id"], "provider": i["provider"], "native_id": i["native_id"], "accelerator": i["accelerator"],
             "accelerator_count": i["accelerator_count"], "vcpu": i["vcpu"], "memory_gib": i["memory_gib"],
             "spot": i["spot"], "source": sources[source], "date": date},
            confidence=i.get("confidence") or ("low" if "guess" in (i.get("note") or "") else None), note=i.get("note")))
        out["prices"] += [dict(r, source=sources[r["source"]]) for r in rows]
    # A provider that offers an accelerator of which no type is known: one device, no price.
    for p in providers["providers"]:
        for a in p["accelerators_offered"] or []:
            if (p["id"], a) not in seen:
                out["instances"].append({
                    "id": "%s:1x-%s" % (p["id"], a), "provider": p["id"], "native_id": None, "accelerator": a,
                    "accelerator_count": 1, "vcpu": None, "memory_gib": None, "spot": p["spot"],
                    "note": "offered, but no instance type was researched: one device as the unit",
                    "source": p["source"], "date": date})
    return out


def accelerators(facts):
    keep = ("id", "vendor", "kind", "memory_gb", "memory_bw_gbs", "fp16_tflops", "bf16_tflops", "int8_tops",
            "isa", "source", "confidence", "note")
    return {"accelerators": [put(dict({k: a[k] for k in keep if k in a}, date=facts["as_of"])) for a in facts["accelerators"]]}


def write(name, date, tables):
    out = sys.argv[3] if len(sys.argv) > 3 else os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(out, name), "w", encoding="utf-8") as f:
        f.write('{"schema": "bailiwick.market/1", "date": %s' % json.dumps(date))
        for table, rows in tables.items():
            f.write(',\n"%s": [\n%s\n]' % (table, ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)))
        f.write("}\n")


def main():
    folder, catalogue = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
    load = lambda n: json.load(open(os.path.join(folder, n + ".json"), encoding="utf-8"))  # noqa: E731
    zone = next(z for z in catalogue["zones"] if z["id"] == "EU")
    eu = set(zone["countries"])
    assert len(eu) == 27, eu
    p, i, a = load("providers"), load("instances"), load("accelerators")
    write("places.json", p["as_of"], places(p, eu))
    write("instances.json", i["as_of"], instances(i, p))
    write("accelerators.json", a["as_of"], accelerators(a))


if __name__ == "__main__":
    main()
