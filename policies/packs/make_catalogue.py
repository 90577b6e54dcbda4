#!/usr/bin/env python3
"""Writes catalogue.json, the pack's table of places, law and words, from a file of country
facts (schema bailiwick.catalogue.jurisdictions/1).

    python3 make_catalogue.py jurisdictions.json > catalogue.json

Every row is one fact with its source and the date on which it was gathered. What nobody
has researched is written down as unknown (null, "unknown": true), never left to a
default. Zones and words are ours; each has the text of law or standard that it stands for."""
import json
import sys

# id, kind, parents, name, source, more. A group says where a country lies; "allow" opens
# what a rule would close; "deny" closes. An unknown allow-list is empty, an unknown
# deny-list holds every country.
ZONES = [
    ("world", "group", [], "every country whose localisation rules have been researched",
     "localisation facts of this catalogue", {"members": "researched"}),
    ("gdpr-area", "group", [], "where the GDPR applies: EEA and the EU's outermost regions",
     "GDPR art. 3; TFEU arts. 349 and 355(1)", {}),
    ("EEA", "group", ["gdpr-area", "lgpd-adequate"], "European Economic Area",
     "Agreement on the European Economic Area; in lgpd-adequate by Resolution CD/ANPD 32 of 26 January 2026", {}),
    ("EU", "group", ["EEA"], "member states of the European Union", "TEU art. 52", {}),
    ("gdpr-adequate", "allow", [], "full adequacy decision under GDPR art. 45",
     "GDPR art. 45; members: table adequacy", {"regime": "gdpr"}),
    ("gdpr-adequate-conditional", "allow", [], "adequacy for recipients that hold the named certification only",
     "GDPR art. 45; members: table adequacy", {"regime": "gdpr"}),
    ("uk-adequate", "allow", [], "full adequacy under the UK GDPR",
     "UK GDPR art. 45A; members: table adequacy", {"regime": "uk-gdpr"}),
    ("uk-adequate-conditional", "allow", [], "UK adequacy for recipients that hold the named certification only",
     "UK GDPR art. 45A; members: table adequacy", {"regime": "uk-gdpr"}),
    ("fadp-adequate", "allow", [], "on the Federal Council's list",
     "FADP art. 16(1), DPO annex 1; members: table adequacy", {"regime": "fadp"}),
    ("fadp-adequate-conditional", "allow", [], "on the Federal Council's list for certified recipients only",
     "FADP art. 16(1), DPO annex 1; members: table adequacy", {"regime": "fadp"}),
    ("lgpd-adequate", "allow", [], "recognised as adequate by the ANPD: the EEA by an edge, others by adequacy",
     "LGPD art. 33(I); Resolution CD/ANPD 32 of 26 January 2026 (EU member states, Iceland, Liechtenstein, Norway)",
     {"regime": "lgpd", "confidence": "medium"}),
    ("pdpl-sa-adequate", "allow", [], "on the Saudi authority's list of adequate countries",
     "Saudi PDPL art. 29; Transfer Regulation 2024 art. 3(1)",
     {"regime": "pdpl-sa", "unknown": True, "note": "no published list was found; look at the authority's site"}),
    ("pdpl-ae-adequate", "allow", [], "approved by the UAE Data Office as adequate",
     "UAE Federal Decree-Law 45/2021 art. 22",
     {"regime": "pdpl-ae", "unknown": True, "note": "no published list was found; look at the Data Office's site"}),
    ("dpdp-restricted", "deny", [], "countries to which the Indian government restricts transfers",
     "DPDP Act 2023 s. 16(1); no notification known",
     {"regime": "dpdp", "confidence": "medium", "note": "known to be empty, which is not the same as unknown"}),
    ("dual-use-eu001", "allow", [], "destinations of Union general export authorisation EU001",
     "Regulation (EU) 2021/821 annex II section A",
     {"countries": ["AU", "CA", "CH", "GB", "IS", "JP", "LI", "NO", "NZ", "US"], "confidence": "medium"}),
    ("ear-permitted", "allow", [], "beyond the US, where a licence or exception under the EAR covers this tenant",
     "15 CFR parts 740 and 748",
     {"unknown": True, "note": "licences are the operator's own; list the destinations that they cover"}),
    ("ear-embargoed", "deny", [], "country group E of the US Export Administration Regulations",
     "15 CFR part 740 supplement 1, country groups E:1 and E:2",
     {"countries": ["CU", "IR", "KP", "SY"], "confidence": "medium", "note": "Syria: check for a later delisting"}),
    ("itar-proscribed", "deny", [], "countries proscribed by the US arms regulations",
     "22 CFR 126.1", {"unknown": True, "note": "the list changes often; take it from the regulation in force"}),
    ("us-countries-of-concern", "deny", [], "countries of concern of the US bulk data rule",
     "28 CFR 202.601 with 202.208 (China includes Hong Kong and Macau)",
     {"countries": ["CN", "CU", "HK", "IR", "KP", "MO", "RU", "VE"], "confidence": "high"}),
]
# The certification of the recipient that each partial decision asks for, as a word.
PARTIAL = {
    ("gdpr", "US"): "dpf", ("uk-gdpr", "US"): "dpf-uk", ("fadp", "US"): "dpf-ch",
    ("gdpr", "JP"): "appi", ("uk-gdpr", "JP"): "appi",
    ("gdpr", "CA"): "pipeda", ("uk-gdpr", "CA"): "pipeda", ("fadp", "CA"): "pipeda",
    ("gdpr", "KR"): "pipa",
}
ADEQUACY = [("gdpr", "eu_adequacy"), ("uk-gdpr", "uk_adequacy"), ("fadp", "swiss_adequacy")]
# The zones into which a regime's adequacy decisions put a country.
REGIME_ZONES = {
    "gdpr": ("gdpr-adequate", "gdpr-adequate-conditional"), "uk-gdpr": ("uk-adequate", "uk-adequate-conditional"),
    "fadp": ("fadp-adequate", "fadp-adequate-conditional"), "lgpd": ("lgpd-adequate", None),
    "pdpl-sa": ("pdpl-sa-adequate", None), "pdpl-ae": ("pdpl-ae-adequate", None),
}
WORDS = {
    "regimes": [
        ("gdpr", "Regulation (EU) 2016/679"), ("uk-gdpr", "UK GDPR and Data Protection Act 2018"),
        ("fadp", "Swiss Federal Act on Data Protection"), ("hipaa", "45 CFR Parts 160 and 164"),
        ("pipl", "Personal Information Protection Law of the PRC, 2021"),
        ("dpdp", "Digital Personal Data Protection Act 2023 (India)"),
        ("lgpd", "Lei 13.709/2018 (Brazil)"),
        ("pdpl-sa", "Personal Data Protection Law, Royal Decree M/19 as amended by M/148 (Saudi Arabia)"),
        ("pdpl-ae", "Federal Decree-Law 45/2021 (United Arab Emirates)")],
    "categories": [
        ("pi", "personal information of any kind"), ("special", "GDPR art. 9 data"),
        ("criminal", "GDPR art. 10 data"), ("health", "data concerning health, GDPR art. 4(15)"),
        ("phi", "protected health information, 45 CFR 160.103"), ("hr", "employment records"),
        ("financial", "payment and account data"), ("legal", "contracts, claims, advice"),
        ("technical", "manuals, source code, designs"), ("public", "published already"),
        ("defence", "defence and security"), ("important-data", "PRC Data Security Law art. 21"),
        ("ciio", "data of a critical information infrastructure operator, PIPL art. 40"),
        ("children", "children too young to consent alone: GDPR art. 8, 16 CFR 312.2")],
    "labels": [
        ("sovereign-eu", "place and operator free of control from outside the EU (SecNumCloud 3.2, ch. 19.6)"),
        ("internal", "not for publication; no rule of this pack reads it"),
        ("confidential", "need to know; no rule of this pack reads it"),
        ("restricted", "processing is restricted, GDPR art. 18"),
        ("dual-use-eu", "listed in annex I of Regulation (EU) 2021/821"),
        ("ear", "technology or source code that needs a licence under the EAR, 15 CFR 734.3"),
        ("itar", "technical data, 22 CFR 120.33"),
        ("us-bulk", "bulk US sensitive or government-related data, 28 CFR 202.205 to 202.222"),
        ("expires", "each point names its own end (_expires_at), GDPR art. 5(1)(e)"),
        ("keep-to-2026", "kept to the end of that year"), ("keep-to-2027", "kept to the end of that year"),
        ("keep-to-2028", "kept to the end of that year"), ("keep-to-2029", "kept to the end of that year"),
        ("keep-to-2030", "kept to the end of that year")],
    "purposes": [
        ("search", "finding and reading documents at work"), ("support", "helping customers or users"),
        ("analysis", "statistics and reports"), ("research", "scientific research, GDPR art. 89"),
        ("care", "medical care"), ("payroll", "paying staff"), ("hr", "managing staff"),
        ("sales", "selling"), ("marketing", "advertising"), ("operations", "running systems"),
        ("compliance", "meeting legal duties"), ("audit", "checking by auditors"),
        ("legal-claims", "GDPR art. 17(3)(e), art. 18(2)"), ("rights", "requests of data subjects, GDPR ch. III"),
        ("profiling", "evaluating persons, GDPR art. 4(4)")],
    "safeguards": [
        ("scc", "standard contractual clauses, Decision (EU) 2021/914"), ("bcr", "binding corporate rules, GDPR art. 47"),
        ("tia", "transfer impact assessment, EDPB Recommendations 01/2020"),
        ("scc-ch", "clauses recognised by the FDPIC"), ("idta", "UK international data transfer agreement"),
        ("uk-addendum", "UK addendum to the EU clauses"),
        ("cac-assessment", "security assessment, PIPL art. 40"), ("cac-contract", "standard contract filed, PIPL art. 38"),
        ("cac-certification", "certification, PIPL art. 38"),
        ("explicit-consent", "of the data subjects, GDPR art. 9(2)(a)"),
        ("authorised-by-law", "processing of criminal data that the law authorises, GDPR art. 10"),
        ("hipaa-authorization", "signed by the individual, 45 CFR 164.508"),
        ("irb-waiver", "of that authorization, for research, 45 CFR 164.512(i)"),
        ("lgpd-scc", "standard clauses of Resolução CD/ANPD 19/2024, LGPD art. 33 II b"),
        ("lgpd-specific", "specific clauses that the ANPD approved, LGPD art. 33 II a"),
        ("lgpd-bcr", "global corporate rules that the ANPD approved, LGPD art. 33 II c"),
        ("lgpd-consent", "specific and highlighted consent, LGPD art. 33 VIII"),
        ("sa-scc", "SDAIA's standard clauses, Saudi transfer regulation of 2024"),
        ("sa-bcr", "binding common rules, same regulation"),
        ("sa-accreditation", "certificate of accreditation, same regulation"),
        ("sa-risk-assessment", "of the transfer, same regulation"),
        ("ae-contract", "contract that binds to the Decree-Law's duties, its art. 23"),
        ("ae-consent", "express consent to the transfer, its art. 23"),
        ("ae-health-exception", "health data may leave by ministerial decision, Federal Law 2/2019 art. 13"),
        ("parental-consent", "GDPR art. 8(1), 16 CFR 312.5"),
        ("coppa-assurances", "written, of the recipient, 16 CFR 312.8"),
        ("dpia", "data protection impact assessment, GDPR art. 35"),
        ("export-licence-eu", "authorisation, Regulation (EU) 2021/821 art. 12"),
        ("export-licence-us", "licence of the Bureau of Industry and Security, 15 CFR Part 748"),
        ("export-licence-ddtc", "licence or agreement approved under 22 CFR Parts 123 to 125"),
        ("cisa-requirements", "security requirements for restricted transactions, 28 CFR 202.248")],
    "certs": [
        ("dpf", "EU-US Data Privacy Framework participant"), ("dpf-uk", "UK Extension to it"),
        ("dpf-ch", "Swiss-US Data Privacy Framework"), ("appi", "private-sector handler under Japan's APPI"),
        ("pipeda", "organisation subject to Canada's PIPEDA"), ("pipa", "controller under Korea's PIPA, no excluded activity"),
        ("secnumcloud-3.2", "ANSSI SecNumCloud 3.2"), ("hds", "French health data host certification")],
    "hw": [("tee", "memory encryption with attestation"), ("gpu", "accelerator")],
}
COLLECTED = "gathered planning data, no text of law named"
OPEN = "not researched"


def zones(facts):
    members = {"EU": [], "EEA": [], "gdpr-area": []}
    for c in facts["countries"]:
        group = "EU" if c["eu"] else "EEA" if c["eea"] else "gdpr-area" if c["gdpr_applies"] else None
        if group:
            members[group].append(c["code"])
    for zone, kind, up, name, source, more in ZONES:
        yield {"id": zone, "kind": kind, "in": up, "name": name,
               **({"countries": members[zone]} if zone in members else {}), **more, "source": source}


def country(c):
    note = c.get("territory_note")
    return {"code": c["code"], "alpha3": c["alpha3"], "name": c["name"],
            **({"part_of": c["part_of"]} if c.get("part_of") else {}),
            **({"note": note} if note else {}), "source": "ISO 3166-1"}


def localisation(c):
    x = c["localisation"]
    if not x or not x.get("level"):
        return {"country": c["code"], "level": None, "source": OPEN}
    laws = x.get("laws", [])
    return {"country": c["code"], "level": x["level"], "summary": x["summary"], "laws": laws,
            "confidence": x["confidence"], "source": "; ".join(laws) or COLLECTED}


def foreign_access(c):
    for x in c["foreign_access"]:
        yield {"country": c["code"], "law": x["law"], "extraterritorial": x["extraterritorial"],
               "summary": x["summary"], "confidence": x["confidence"], "source": x["law"]}
    if not c["foreign_access"]:
        yield {"country": c["code"], "law": None, "extraterritorial": None, "source": OPEN}


def adequacy(facts):
    """Full and partial decisions; a country without a row has none: the lists are public and closed."""
    for c in facts["countries"]:
        for regime, field in ADEQUACY:
            a = c[field]
            if a["status"] not in ("full", "partial"):
                continue
            row = {"regime": regime, "country": c["code"], "status": a["status"]}
            if a["status"] == "partial":  # null: a condition that we cannot put into a word
                word = PARTIAL.get((regime, c["code"]))
                row["certs"] = [word] if word else None
            row |= {k: a[k] for k in ("decision", "year", "scope", "expires", "note", "confidence") if a.get(k) is not None}
            yield row | {"source": a["decision"]}


def organisation(o):
    a = o.get("eu_adequacy")
    row = {"id": o["id"], "name": o["name"], "kind": o["kind"]}
    if a:
        row |= {"regime": "gdpr", "status": a["status"], "year": a["year"], "decision": a["decision"],
                "scope": a["scope"], "confidence": a["confidence"]}
    if o.get("note"):
        row["note"] = o["note"]
    return row | {"source": o.get("regime") or a["decision"]}


def word(kind, w, source):
    row = {"word": w}
    if kind == "regimes" and w in REGIME_ZONES:
        zone, conditional = REGIME_ZONES[w]
        row |= {"zone": zone, **({"conditional": conditional} if conditional else {})}
    return row | {"source": source}


def main():
    facts = json.load(open(sys.argv[1], encoding="utf-8"))
    date, countries = facts["as_of"], facts["countries"]
    line = lambda x: json.dumps(x, ensure_ascii=False)
    rows = lambda xs, indent="  ": "[\n" + indent + (",\n" + indent).join(line({**x, "date": date}) for x in xs) + "]"
    words = ",\n  ".join(line(k) + ": " + rows((word(k, w, s) for w, s in v), "   ") for k, v in WORDS.items())
    parts = [
        ("schema", line("bailiwick.catalogue/2")), ("date", line(date)), ("notice", line(facts["legal_notice"])),
        ("zones", rows(zones(facts))),
        ("countries", rows(map(country, countries))),
        ("localisation", rows(map(localisation, countries))),
        ("foreign_access", rows(x for c in countries for x in foreign_access(c))),
        ("adequacy", rows(adequacy(facts))),
        ("organisations", rows(map(organisation, facts["non_country_entities"]))),
        ("legal_entities", "[]"),
        ("vocabulary", "{\n  " + words + "\n }"),
    ]
    print("{\n " + ",\n ".join(line(k) + ": " + v for k, v in parts) + "\n}")


main()
