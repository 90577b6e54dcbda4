"""Random Cedar cases for the differential test: policies, schemas, entities, requests and
damaged texts. Everything comes from one random.Random, so a seed replays a run."""

import json

SCHEMA = """
entity Tier enum ["gold", "silver"];
entity Group in [Group] = { level: Long };
entity User in [Group] = { age: Long, name: String, active: Bool, addr?: ipaddr, score: decimal, joined: datetime,
  ttl: duration, tier: Tier, boss?: User, langs: Set<String>, nums: Set<Long>, loc: { country: String, zone?: Long },
  friends: Set<User> } tags String;
namespace App {
  type Meta = { pii: Bool, region: __cedar::String };
  entity Folder in [Folder];
  entity Doc in [Folder, User] = { owner: User, size: Long, labels: Set<String>, meta: Meta, at?: datetime, cost: decimal } tags Set<Long>;
}
action any;
action anyRead in [any];
action read, list in [anyRead] appliesTo { principal: User, resource: [App::Doc, App::Folder], context: Ctx };
action write in [any] appliesTo { principal: [User, Group], resource: App::Doc, context: Ctx };
type Ctx = { n: Long, s: String, ip: ipaddr, now?: datetime, who: User, flags: Set<String>, deep: { a?: { b: Bool } } };
"""

IPS = ["1.2.3.4", "10.0.0.0/8", "127.0.0.1/32", "224.0.0.0/4", "::1", "ff00::/8", "2001:db8::/32", "0.0.0.0/0", "::/0",
       "1:2:3:4:5:6:7:8", "fe80::1/10"]
DECIMALS = ["0.0", "1.0", "1.00", "-1.5", "3.1415", "922337203685477.5807", "-922337203685477.5808", "0.0001"]
DATES = ["2024-02-29", "1970-01-01", "1969-12-31T23:59:59Z", "2024-10-15T11:35:00.123+0530", "0000-01-01", "9999-12-31T23:59:59.999Z"]
DURATIONS = ["1h", "60m", "0ms", "-1d2h3m4s5ms", "36500d", "9223372036854775807ms", "-106751991167d7h12m55s808ms", "1s"]
STRINGS = ["", "a", "abc", "a*b", "é☃", "tab\tq\"", "back\\slash", "\0z", "FR", "pii", "x" * 40]
LONGS = [0, 1, -1, 7, 42, 9223372036854775807, -9223372036854775808, 100]
IDS = ["a", "b", "c", "d", "é\"", "long id with blanks"]


def text(value):
    """A Cedar string literal."""
    out = ['"']
    for c in value:
        out.append({'"': '\\"', "\\": "\\\\", "\0": "\\0", "\r": "\\r"}.get(c, c))
    return "".join(out) + '"'


class Gen:
    def __init__(self, rnd):
        self.r = rnd

    def pick(self, *items):
        return self.r.choice(items)

    def some(self, items, low=0, high=3):
        return [self.r.choice(items) for _ in range(self.r.randint(low, high))]

    # ---- expressions: of a wanted type, and now and then of another ----
    def expr(self, t, d):
        if self.r.random() < 0.04:
            t = self.pick("bool", "long", "string", "set", "entity", "ip", "decimal", "datetime", "duration", "record")
        e = getattr(self, "e_" + t)(d)
        return f"({e})" if self.r.random() < 0.08 else e

    def e_bool(self, d):
        if d <= 0:
            return self.pick("true", "false", "principal.active", "(context has now)", "(resource has at)")
        x = lambda t: self.expr(t, d - 1)
        same = self.pick("long", "string", "set", "entity", "ip", "decimal", "datetime", "duration", "record", "bool")
        ordered = self.pick("long", "datetime", "duration")
        return self.pick(
            lambda: f"({x('bool')} && {x('bool')})", lambda: f"({x('bool')} || {x('bool')})", lambda: f"!({x('bool')})",
            lambda: f"(if {x('bool')} then {x('bool')} else {x('bool')})",
            lambda: f"({x(same)} {self.pick('==', '!=')} {x(same)})",
            lambda: f"({x(ordered)} {self.pick('<', '<=', '>', '>=')} {x(ordered)})",
            lambda: f"({x('entity')} in {x(self.pick('entity', 'eset'))})",
            lambda: f"({x('entity')} is {self.pick('User', 'Group', 'App::Doc', 'Tier')}{self.pick('', ' in ' + x('entity'))})",
            lambda: f"({x(self.pick('entity', 'record'))} has {self.pick('age', 'boss', 'at', 'meta.region', 'loc.zone', 'deep.a.b', text('odd key'))})",
            lambda: f"({x('string')} like {self.pattern()})", lambda: f"({x('set')}).contains({x(self.pick('string', 'long'))})",
            lambda: f"({x('set')}).{self.pick('containsAll', 'containsAny')}({x('set')})", lambda: f"({x('set')}).isEmpty()",
            lambda: f"({x('entity')}).hasTag({x('string')})",
            lambda: f"({x('ip')}).{self.pick('isIpv4()', 'isIpv6()', 'isLoopback()', 'isMulticast()', 'isInRange(' + x('ip') + ')')}",
            lambda: f"({x('decimal')}).{self.pick('lessThan', 'lessThanOrEqual', 'greaterThan', 'greaterThanOrEqual')}({x('decimal')})",
        )()

    def pattern(self):
        parts = [self.pick("*", "a", "b", "\\*", "é", "**", "\\x2a", "\\u{2a}", "F", "c") for _ in range(self.r.randint(0, 5))]
        return '"' + "".join(parts) + '"'

    def e_long(self, d):
        if d <= 0:
            return self.pick(str(self.r.choice(LONGS)), "principal.age", "context.n", "resource.size")
        x = lambda t: self.expr(t, d - 1)
        return self.pick(lambda: f"({x('long')} {self.pick('+', '-', '*')} {x('long')})", lambda: f"-({x('long')})",
                         lambda: f"(if {x('bool')} then {x('long')} else {x('long')})",
                         lambda: f"({x('duration')}).{self.pick('toMilliseconds', 'toSeconds', 'toMinutes', 'toHours', 'toDays')}()",
                         lambda: "principal.loc.zone", lambda: "{a: 1, " + text("b c") + f": {x('long')}" + "}[" + text("b c") + "]")()

    def e_string(self, d):
        if d <= 0:
            return self.pick(text(self.r.choice(STRINGS)), "principal.name", "context.s", "principal.loc.country")
        return self.pick(lambda: f"(if {self.expr('bool', d - 1)} then {self.expr('string', d - 1)} else {self.expr('string', d - 1)})",
                         lambda: f"({self.expr('entity', d - 1)}).getTag({self.expr('string', d - 1)})", lambda: "resource.meta.region")()

    def e_set(self, d):
        if d <= 0:
            return self.pick("[]", "principal.langs", "principal.nums", "resource.labels", "context.flags", "[1, 2]", '["a", "FR"]')
        t = self.pick("string", "long", "decimal", "set", "entity", "bool")
        return "[" + ", ".join(self.expr(t, d - 1) for _ in range(self.r.randint(0, 3))) + "]"

    def e_eset(self, d):
        if d <= 0:
            return self.pick("principal.friends", "[]")
        return "[" + ", ".join(self.expr("entity", d - 1) for _ in range(self.r.randint(0, 3))) + "]"

    def e_entity(self, d):
        if d > 0 and self.r.random() < 0.3:
            return self.pick(lambda: f"(if {self.expr('bool', d - 1)} then {self.expr('entity', d - 1)} else {self.expr('entity', d - 1)})",
                             lambda: f"({self.expr('entity', d - 1)}).{self.pick('boss', 'owner')}")()
        literal = self.pick("User", "Group", "App::Doc", "App::Folder") + "::" + text(self.r.choice(IDS))
        return self.pick("principal", "resource", "action", "context.who", "principal.boss", "resource.owner", literal,
                         literal, 'Tier::"gold"', 'Action::"anyRead"')

    def ext(self, fn, items, d, other):
        if d > 0 and self.r.random() < 0.3:
            return f"(if {self.expr('bool', d - 1)} then {self.expr(other, d - 1)} else {self.expr(other, d - 1)})"
        arg = text(self.r.choice(items)) if self.r.random() < 0.95 else self.expr("string", 0)
        return f"{fn}({arg})"

    def e_ip(self, d):
        return self.pick("principal.addr", "context.ip", self.ext("ip", IPS, d, "ip"))

    def e_decimal(self, d):
        return self.pick("principal.score", "resource.cost", self.ext("decimal", DECIMALS, d, "decimal"))

    def e_datetime(self, d):
        if d > 0 and self.r.random() < 0.4:
            return self.pick(lambda: f"({self.expr('datetime', d - 1)}).offset({self.expr('duration', d - 1)})",
                             lambda: f"({self.expr('datetime', d - 1)}).toDate()")()
        return self.pick("principal.joined", "context.now", self.ext("datetime", DATES, d, "datetime"))

    def e_duration(self, d):
        if d > 0 and self.r.random() < 0.4:
            return self.pick(lambda: f"({self.expr('datetime', d - 1)}).durationSince({self.expr('datetime', d - 1)})",
                             lambda: f"({self.expr('datetime', d - 1)}).toTime()")()
        return self.pick("principal.ttl", self.ext("duration", DURATIONS, d, "duration"))

    def e_record(self, d):
        if d <= 0:
            return self.pick("context", "context.deep", "principal.loc", "{}", "resource.meta")
        return "{" + ", ".join(f"{k}: {self.expr(self.pick('long', 'string', 'set', 'bool'), d - 1)}"
                               for k in self.r.sample(["a", "b", text("c d"), "e"], self.r.randint(0, 3))) + "}"

    # ---- policies ----
    def scope(self, var, types):
        t = self.r.choice(types)
        e = f"{self.r.choice(types)}::{text(self.r.choice(IDS))}"
        return var + self.pick("", "", f" == {e}", f" in {e}", f" is {t}", f" is {t} in {e}")

    def policy(self):
        action = "action" + self.pick("", "", ' == Action::"read"', ' in Action::"anyRead"', ' in [Action::"write", Action::"anyRead"]',
                                      ' in Action::"any"', " in []")
        head = self.pick("permit", "permit", "forbid")
        note = self.pick("", "", f"@id({text(self.r.choice(STRINGS))}) ", "@if ")
        clauses = "".join(f" {self.pick('when', 'when', 'unless')} {{ {self.expr('bool', self.r.randint(0, 4))} }}"
                          for _ in range(self.r.choice([0, 1, 1, 1, 2])))
        scope = (f"{self.scope('principal', ['User', 'Group'])}, {action}, "
                 f"{self.scope('resource', ['App::Doc', 'App::Folder', 'User'])}{self.pick('', ',')}")
        return f"{note}{head}({scope}){clauses};"

    # ---- data ----
    def uid(self, t, ids=IDS):
        return {"type": t, "id": self.r.choice(ids)}

    def ref(self, t, typed, ids=IDS):
        u = self.uid(t, ids)
        return u if typed and self.r.random() < 0.5 else {"__entity": u}

    def extn(self, fn, items, typed):
        call = {"fn": fn, "arg": self.r.choice(items)}
        return self.pick(call, call["arg"], {"__extn": call}) if typed else {"__extn": call}

    def keep(self, attrs, optional, typed):
        """Drops optional attributes; any attribute when there is no schema; rarely spoils one."""
        out = {k: v for k, v in attrs.items() if not ((k in optional or not typed) and self.r.random() < 0.3)}
        if self.r.random() < 0.02:
            out[self.pick("age", "zap", "size", "n")] = self.pick("1", None, 1.5, [], {"type": "User", "id": "a"})
        return out

    def user(self, typed):
        return self.keep({
            "age": self.r.choice(LONGS), "name": self.r.choice(STRINGS), "active": self.r.random() < 0.5,
            "addr": self.extn("ip", IPS, typed), "score": self.extn("decimal", DECIMALS, typed),
            "joined": self.extn("datetime", DATES, typed), "ttl": self.extn("duration", DURATIONS, typed),
            "tier": self.ref("Tier", typed, ["gold", "silver"]), "boss": self.ref("User", typed),
            "langs": self.some(STRINGS), "nums": self.some(LONGS), "friends": [self.ref("User", typed) for _ in range(self.r.randint(0, 2))],
            "loc": self.keep({"country": self.r.choice(STRINGS), "zone": self.r.choice(LONGS)}, ["zone"], typed)}, ["addr", "boss"], typed)

    def doc(self, typed):
        return self.keep({
            "owner": self.ref("User", typed), "size": self.r.choice(LONGS), "labels": self.some(STRINGS),
            "meta": {"pii": self.r.random() < 0.5, "region": self.r.choice(STRINGS)}, "at": self.extn("datetime", DATES, typed),
            "cost": self.extn("decimal", DECIMALS, typed)}, ["at"], typed)

    def entities(self, typed):
        out = []
        for i, name in enumerate(IDS):
            up = IDS[i + 1:] or ["top"]
            for t in ("User", "Group", "App::Doc", "App::Folder"):
                if self.r.random() < 0.4:
                    continue
                attrs = self.user(typed) if t == "User" else self.doc(typed) if t == "App::Doc" else {"level": 1} if t == "Group" else {}
                above = {"User": ["Group"], "Group": ["Group"], "App::Doc": ["App::Folder", "User"], "App::Folder": ["App::Folder"]}[t]
                e = {"uid": {"type": t, "id": name}, "attrs": attrs, "parents": [self.uid(self.r.choice(above), up) for _ in range(self.r.randint(0, 2))]}
                if t == "User" and self.r.random() < 0.5:
                    e["tags"] = {self.r.choice(STRINGS): self.r.choice(STRINGS)}
                if t == "App::Doc" and self.r.random() < 0.3:
                    e["tags"] = {self.r.choice(STRINGS): self.some(LONGS)}
                out.append(e)
        if not typed:
            out += [{"uid": {"type": "Action", "id": a}, "attrs": {}, "parents": [{"type": "Action", "id": p}]}
                    for a, p in (("read", "anyRead"), ("list", "anyRead"), ("write", "any"), ("anyRead", "any"))]
        return out

    def context(self, typed):
        return self.keep({
            "n": self.r.choice(LONGS), "s": self.r.choice(STRINGS), "ip": self.extn("ip", IPS, typed),
            "now": self.extn("datetime", DATES, typed), "who": self.ref("User", typed), "flags": self.some(STRINGS),
            "deep": self.pick({}, {"a": {"b": True}})}, ["now"], typed)

    def request(self, typed):
        return {"principal": self.uid(self.pick("User", "User", "User", "Group")),
                "action": {"type": "Action", "id": self.pick("read", "read", "list", "write", "write", "anyRead" if self.r.random() < 0.1 else "read")},
                "resource": self.uid(self.pick("App::Doc", "App::Doc", "App::Folder", "User" if self.r.random() < 0.2 else "App::Doc")),
                "context": self.context(typed)}

    def case(self):
        typed = self.r.random() < 0.5
        return {"source": "generated", "policies": "\n".join(self.policy() for _ in range(self.r.randint(1, 4))),
                "schema": SCHEMA if typed else None, "shouldValidate": None, "entities": self.entities(typed),
                "requests": [self.request(typed) for _ in range(3)]}

    # ---- damage ----
    def damage(self, s):
        for _ in range(self.r.choice([1, 1, 2])):
            i, j = sorted((self.r.randint(0, len(s)), self.r.randint(0, len(s))))
            j = min(j, i + self.r.choice([1, 1, 3, 12]))
            s = self.pick(lambda: s[:i] + s[j:], lambda: s[:i] + s[i:j] + s[i:],
                          lambda: s[:i] + self.r.choice(list("(){}[];,.:@!-+*<>=&|?\"\\ \t\r\n_aZ09/é") + ["::", " in ", " has ", "if ", "\\u{41}"]) + s[i:])()
        return s

    def ext_text(self):
        fn, items = self.pick(("ip", IPS), ("decimal", DECIMALS), ("datetime", DATES), ("duration", DURATIONS))
        s = self.r.choice(items)
        for _ in range(self.r.randint(0, 2)):
            i = self.r.randint(0, len(s))
            s = self.pick(lambda: s[:i] + s[i + 1:], lambda: s[:i] + self.r.choice("0123456789.:-+/TZdhmsfF ") + s[i:],
                          lambda: s[:i] + self.r.choice("0123456789") + s[i + 1:])()
        return fn, s


def dump(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r) + "\n")
