#!/usr/bin/env python3
"""Writes catalogue.json, the pack's table of places, adequacy and words, from a file of
country facts (schema bailiwick.catalogue.jurisdictions/1).

    python3 make_catalogue.py jurisdictions.json > catalogue.json

What the facts do not say is left out, and what is left out denies: a country whose own
rules nobody has researched is in no group and not in "world"; it can only be named. The
words below are ours; each has the text of law or standard that it stands for."""
import json
import sys

GROUPS = [  # id, parents, name
    ("world", [], "every country whose localisation rules have been researched"),
    ("gdpr-area", [], "where the GDPR applies: EEA and the EU's outermost regions"),
    ("EEA", ["gdpr-area"], "European Economic Area"),
    ("EU", ["EEA"], "member states of the European Union"),
    ("gdpr-adequate", [], "full adequacy decision under GDPR art. 45"),
    ("gdpr-adequate-conditional", [], "adequacy for recipients that hold the named certification only"),
    ("uk-adequate", [], "full adequacy under the UK GDPR"),
    ("uk-adequate-conditional", [], "UK adequacy for recipients that hold the named certification only"),
    ("fadp-adequate", [], "on the Federal Council's list (DPO annex 1)"),
    ("fadp-adequate-conditional", [], "on that list for certified recipients only"),
    ("dpdp-restricted", [], "notified under DPDP Act s. 16; none when this was written"),
    ("lgpd-adequate", [], "recognised by the ANPD under LGPD art. 33 I and 34: the EU, January 2026"),
    ("pdpl-sa-adequate", [], "adequate under art. 29 of the Saudi PDPL; no list when this was written"),
    ("pdpl-ae-adequate", [], "adequate under art. 22 of UAE Decree-Law 45/2021; no list when this was written"),
    ("dual-use-eu001", [], "destinations of authorisation EU001, Regulation (EU) 2021/821 annex II section A"),
    ("ear-permitted", [], "beyond the US, where a licence or exception under the EAR covers this tenant; the operator's to fill"),
]
# The certification of the recipient that each partial decision asks for, as a word.
PARTIAL = {
    ("gdpr", "US"): "dpf", ("uk-gdpr", "US"): "dpf-uk", ("fadp", "US"): "dpf-ch",
    ("gdpr", "JP"): "appi", ("uk-gdpr", "JP"): "appi",
    ("gdpr", "CA"): "pipeda", ("uk-gdpr", "CA"): "pipeda", ("fadp", "CA"): "pipeda",
    ("gdpr", "KR"): "pipa",
}
# Countries of the zones that no column of the facts gives. EU001: Iceland was not checked and is left out.
MEMBERS = {"dual-use-eu001": lambda facts: ["AU", "CA", "CH", "GB", "JP", "LI", "NO", "NZ", "US"],
           "lgpd-adequate": lambda facts: facts["groups"]["EU"]}
REGIMES = [("gdpr", "eu_adequacy", "gdpr-adequate"), ("uk-gdpr", "uk_adequacy", "uk-adequate"),
           ("fadp", "swiss_adequacy", "fadp-adequate")]
WORDS = {
    "regimes": [
        ("gdpr", "Regulation (EU) 2016/679"), ("uk-gdpr", "UK GDPR and Data Protection Act 2018"),
        ("fadp", "Swiss Federal Act on Data Protection"), ("hipaa", "45 CFR Parts 160 and 164"),
        ("pipl", "Personal Information Protection Law of the PRC, 2021"),
        ("dpdp", "Digital Personal Data Protection Act 2023 (India)"),
        ("lgpd", "Lei 13.709/2018 (Brazil)"),
        ("pdpl-sa", "Personal Data Protection Law, Royal Decree M/19 as amended by M/148 (Saudi Arabia)"),
        ("pdpl-ae", "Federal Decree-Law 45/2021 (United Arab Emirates)"),
        ("coppa", "Children's Online Privacy Protection Rule, 16 CFR Part 312 (United States)")],
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
        ("export-licence-us", "licence of the Bureau of Industry and Security, 15 CFR Part 748")],
    "certs": [
        ("dpf", "EU-US Data Privacy Framework participant"), ("dpf-uk", "UK Extension to it"),
        ("dpf-ch", "Swiss-US Data Privacy Framework"), ("appi", "private-sector handler under Japan's APPI"),
        ("pipeda", "organisation subject to Canada's PIPEDA"), ("pipa", "controller under Korea's PIPA, no excluded activity"),
        ("secnumcloud-3.2", "ANSSI SecNumCloud 3.2"), ("hds", "French health data host certification")],
    "hw": [("tee", "memory encryption with attestation"), ("gpu", "accelerator")],
}


def adequacy(facts):
    for c in facts["countries"]:
        for regime, field, zone in REGIMES:
            a = c[field]
            entry = {"regime": regime, "country": c["code"], "zone": zone, "status": a["status"]}
            if a["status"] == "partial":
                word = PARTIAL.get((regime, c["code"]))
                if not word:  # a condition that we cannot put into a word is not met
                    continue
                entry |= {"zone": zone + "-conditional", "certs": [word]}
            elif a["status"] != "full":
                continue
            for k in ("decision", "year", "scope", "expires", "note", "confidence"):
                if a.get(k) is not None:
                    entry[k] = a[k]
            yield entry


def zones_of(c):
    zones = []
    if c["eu"]:
        zones.append("EU")
    elif c["eea"]:
        zones.append("EEA")
    elif c["gdpr_applies"]:
        zones.append("gdpr-area")
    if (c["localisation"] or {}).get("level"):
        zones.append("world")
    return zones


def country(c):
    out = {"code": c["code"], "name": c["name"], "in": zones_of(c)}
    loc = c["localisation"]
    if loc:
        out["localisation"] = {"level": loc.get("level"), "laws": loc.get("laws", []),
                               "confidence": loc.get("confidence")}
    if c["foreign_access"]:
        out["foreign_access"] = [{"law": f["law"], "extraterritorial": f["extraterritorial"]}
                                 for f in c["foreign_access"]]
    return out


def main():
    facts = json.load(open(sys.argv[1], encoding="utf-8"))
    date, source = facts["as_of"], "%s, as of %s" % (facts["schema"], facts["as_of"])
    line = lambda x: json.dumps(x, ensure_ascii=False)
    rows = lambda xs: "[\n  " + ",\n  ".join(line(x) for x in xs) + "\n ]"
    stamp = lambda x: {**x, "date": date, "source": source}
    words = {k: [{"word": w, "date": date, "source": s} for w, s in v] for k, v in WORDS.items()}
    parts = [
        ("schema", line("bailiwick.catalogue/1")), ("date", line(date)), ("source", line(source)),
        ("notice", line(facts["legal_notice"])),
        ("zones", rows(stamp({"id": i, "in": up, "name": n} |
                             ({"countries": MEMBERS[i](facts)} if i in MEMBERS else {}))
                       for i, up, n in GROUPS)),
        ("countries", rows(stamp(country(c)) for c in facts["countries"])),
        ("adequacy", rows(stamp(a) for a in adequacy(facts))),
        ("legal_entities", "[]"),
        ("vocabulary", "{\n  " + ",\n  ".join(line(k) + ": [\n   " + ",\n   ".join(line(w) for w in v) + "]"
                                              for k, v in words.items()) + "\n }"),
    ]
    print("{\n " + ",\n ".join(line(k) + ": " + v for k, v in parts) + "\n}")


main()
