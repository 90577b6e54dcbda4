"""Random Cedar schemas, and policies that mostly have types under them: for the verdicts of
strict validation. Everything comes from one random.Random, so a seed replays a run."""

from cedar_cases import DATES, DECIMALS, DURATIONS, IPS, text

PLAIN = ["Bool", "Long", "String", "ipaddr", "decimal", "datetime", "duration"]
NAMES = ["a", "b", "c", "d", "odd key", "in"]
ORDERED = ["Long", "datetime", "duration"]


def name(attr):
    return attr if attr.isidentifier() and attr != "in" else text(attr)


def spell(t):
    """A type as a schema writes it. Types: a name, ("set", t), ("rec", {name: (t, required)})."""
    if isinstance(t, str):
        return t
    if t[0] == "set":
        return f"Set<{spell(t[1])}>"
    return "{" + ", ".join(f"{name(k)}{'' if req else '?'}: {spell(v)}" for k, (v, req) in t[1].items()) + "}"


class Typed:
    def __init__(self, rnd):
        self.r = rnd

    def pick(self, *items):
        return self.r.choice(items)

    def often(self, p):
        return self.r.random() < p

    # ---- schemas ----
    def world(self):
        spaced = self.often(0.4)
        self.types = ["A", "B", "C", "N::D" if spaced else "D"][:self.r.randint(2, 4)]
        self.enum = {"E": ["x", "y"]} if self.often(0.6) else {}
        self.all = self.types + list(self.enum)
        self.parents = {t: self.r.sample(self.types, self.r.choice([0, 0, 1, 1, 2])) for t in self.types}
        self.tags = {t: self.type(1) for t in self.types if self.often(0.4)}
        self.shape = {t: self.record(2) for t in self.types}
        self.groups = ["g", "h"][:self.r.randint(0, 2)]
        names = ["r", "s", "t"][:self.r.randint(1, 3)]
        self.actions = {n: (self.r.sample(self.all, self.r.randint(1, min(2, len(self.all)))),
                            self.r.sample(self.all, self.r.randint(1, min(3, len(self.all)))),
                            self.record(2), [g for g in self.groups if self.often(0.5)]) for n in names}
        lines = [f"entity {e} enum [{', '.join(map(text, ids))}];" for e, ids in self.enum.items()]
        for t in self.types:
            body = (f"entity {t.split('::')[-1]} in [{', '.join(self.parents[t])}] = {spell(('rec', self.shape[t]))}"
                    + (f" tags {spell(self.tags[t])};" if t in self.tags else ";"))
            lines.append(f"namespace N {{ {body} action other appliesTo {{ principal: {t}, resource: {t} }}; }}" if "::" in t else body)
        lines += [f"action {g};" for g in self.groups]
        for n, (p, q, context, groups) in self.actions.items():
            above = f"in [{', '.join(groups)}] " if groups else ""
            lines.append(f"action {n} {above}appliesTo {{ principal: [{', '.join(p)}], resource: "
                         f"[{', '.join(q)}], context: {spell(('rec', context))} }};")
        self.schema = "\n".join(lines)
        return self.schema

    def type(self, d):
        k = self.r.random()
        if d > 0 and k < 0.2:
            return ("set", self.type(d - 1))
        if d > 0 and k < 0.35:
            return ("rec", self.record(d - 1))
        return self.r.choice(self.all if k < 0.6 else PLAIN)

    def record(self, d):
        return {k: (self.type(d), self.often(0.6)) for k in self.r.sample(NAMES, self.r.randint(0, 4))}

    # ---- what an environment offers: (expression, type, chain of guards that it needs) ----
    def roots(self):
        p, q, context, _ = self.actions[self.action]
        self.env = {"principal": self.r.choice(p), "resource": self.r.choice(q), "context": ("rec", context),
                    "action": "Action"}
        found, todo = [], [(v, t, []) for v, t in self.env.items()]
        for e, t, guards in todo:
            found.append((e, t, guards))
            attrs = self.shape.get(t, {}) if isinstance(t, str) else t[1] if t[0] == "rec" else {}
            if e.count(".") + e.count("[") < 3:
                for k, (v, req) in attrs.items():
                    dot = k if k.isidentifier() and k != "in" else None
                    todo.append((f"{e}.{dot}" if dot else f"{e}[{text(k)}]", v,
                                 guards if req else guards + [f"{e} has {dot or text(k)}"]))
            if isinstance(t, str) and t in self.tags and len(guards) < 2:
                todo.append((f'{e}.getTag("k")', self.tags[t], guards + [f'{e}.hasTag("k")']))
        self.found = found

    # ---- expressions of a type; `held` are guards known to be true ----
    def expr(self, t, d, held):
        if self.often(0.015):
            t = self.type(1)
        if t == "Bool":
            return self.bool(d, held)
        k = self.r.random()
        paths = [f for f in self.found if f[1] == t]
        if paths and k < 0.6:
            e, _, guards = self.r.choice(paths)
            missing = [g for g in guards if g not in held]
            if not missing or d <= 0 or self.often(0.03):
                return e if not missing or self.often(0.1) else self.plain(t, d, held)
            return f"(if {' && '.join(missing)} then {e} else {self.plain(t, d - 1, held)})"
        if d > 0 and k < 0.7:
            g = self.bool(d - 1, held)
            return f"(if {g} then {self.expr(t, d - 1, held)} else {self.expr(t, d - 1, held)})"
        if d > 0 and k < 0.75:
            key = self.pick("a", "b")
            return f"{{{key}: {self.expr(t, d - 1, held)}, c: {self.expr(self.type(0), 0, held)}}}.{key}"
        return self.plain(t, d, held)

    def plain(self, t, d, held):
        x = lambda u: self.expr(u, d - 1, held)
        if isinstance(t, tuple):
            if t[0] == "set":
                return "[" + ", ".join(self.expr(t[1], d - 1, held) for _ in range(self.r.choice([1, 1, 2, 2, 3] + [0] * self.often(0.05)))) + "]"
            keys = list(t[1].items())
            self.r.shuffle(keys)
            return "{" + ", ".join(f"{name(k)}: {self.expr(v, d - 1, held)}" for k, (v, req) in keys if req or self.often(0.5)) + "}"
        if t == "Bool":
            return self.pick("true", "false")
        if t == "Long":
            return self.pick("1", "-2", "0") if d <= 0 or self.often(0.5) else self.pick(
                lambda: f"({x('Long')} {self.pick('+', '-', '*')} {x('Long')})", lambda: f"-({x('Long')})",
                lambda: f"({x('duration')}).toDays()")()
        if t == "String":
            return self.pick('"a"', '"b"')
        if t in ("ipaddr", "decimal", "datetime", "duration"):
            if d > 0 and t == "datetime" and self.often(0.3):
                return f"({x('datetime')}).offset({x('duration')})"
            arg = text(self.r.choice({"ipaddr": IPS, "decimal": DECIMALS, "datetime": DATES, "duration": DURATIONS}[t]))
            if self.often(0.02):
                arg = self.pick('"no"', "principal", '(if true then "1.0" else "1.0")', arg + ", " + arg)
            return f"{'ip' if t == 'ipaddr' else t}({arg})"
        if t == "Action":
            return f'Action::"{self.pick(*self.actions, *self.groups)}"'
        return f"{t}::{text(self.r.choice(self.enum.get(t, ['i', 'j'])) if not self.often(0.01) else 'nope')}"

    def path(self, fits, held):
        """Something at hand whose type fits, mostly without a guard that is missing."""
        fit = [f for f in self.found if fits(f[1])] or self.found[:1]
        safe = [f for f in fit if not set(f[2]) - set(held)]
        return self.r.choice(fit if self.often(0.02) or not safe else safe)

    def guard(self, held):
        guarded = [f[2][i] for f in self.found for i in range(len(f[2])) if not set(f[2][:i]) - set(held)]
        if guarded and self.often(0.7):
            return self.r.choice(guarded)
        e, t, _ = self.path(lambda t: t in self.all or t == "Action" or t[0] == "rec", held)
        return f"{e} has {self.pick('a', 'b', 'c', 'a.b', 'b.c.d', text('odd key'))}"

    def bool(self, d, held):
        if d <= 0:
            return self.pick("true", "false", "(context == context)", f"({self.guard(held)})", self.leaf(held))
        x = lambda u: self.expr(u, d - 1, held)
        ent = lambda: self.r.choice(self.all + ["Action"] * self.often(0.2))
        k = self.r.random()
        if k < 0.3:  # a chain that uses what it has asked for
            held = list(held)
            parts = []
            for _ in range(self.r.randint(2, 4)):
                g = self.guard(held) if self.often(0.5) else None
                parts.append(g or self.bool(d - 1, held))
                if g and not self.often(0.03):
                    held.append(g)
            return "(" + " && ".join(parts) + ")"
        if k < 0.36:
            return f"({self.bool(d - 1, held)} || {self.bool(d - 1, held)})"
        if k < 0.4:
            g = self.guard(held)
            return f"(({g} || ({g} && {self.bool(d - 1, held)})) && {self.bool(d - 1, held + [g])})"
        if k < 0.44:
            g = self.guard(held)
            return f"(!({g}) || {self.bool(d - 1, held + [g])})"
        if k < 0.5:
            g = self.guard(held) if self.often(0.6) else self.bool(d - 1, held)
            return f"(if {g} then {self.bool(d - 1, held + [g])} else {self.bool(d - 1, held)})"
        if k < 0.54:
            return f"!({self.bool(d - 1, held)})"
        return self.leaf(held, d, x, ent)

    def leaf(self, held, d=0, x=None, ent=None):
        x = x or (lambda u: self.expr(u, 0, held))
        ent = ent or (lambda: self.r.choice(self.all))
        same = self.r.choice([f[1] for f in self.found]) if self.often(0.5) else self.type(1)
        order = self.r.choice(ORDERED)
        one = self.path(lambda t: t in self.all or t == "Action", held)[0]
        return self.pick(
            lambda: f"({x(same)} {self.pick('==', '!=')} {x(same)})", lambda: f"({x(ent())} == {x(ent())})",
            lambda: f"({x(order)} {self.pick('<', '<=', '>', '>=')} {x(order)})",
            lambda: f"({one if self.often(0.6) else x(ent())} in {x(ent())})", lambda: f"({x(ent())} in {x(('set', ent()))})",
            lambda: f"(action in {self.pick(x('Action'), x(('set', 'Action')))})",
            lambda: f"({one} is {self.r.choice(self.all + ['Action'])})", lambda: f"({one} is {ent()} in {x(ent())})",
            lambda: f"{x(('set', same))}.contains({x(same)})", lambda: f"{x(('set', same))}.{self.pick('containsAll', 'containsAny')}({x(('set', same))})",
            lambda: f"{x(('set', same))}.isEmpty()", lambda: f'({x("String")} like "a*")', lambda: f"({one}).hasTag({x('String')})",
            lambda: f"{x('ipaddr')}.{self.pick('isIpv4()', 'isInRange(' + x('ipaddr') + ')')}",
            lambda: f"{x('decimal')}.lessThan({x('decimal')})")()

    # ---- policies ----
    def scope(self, var):
        t, other = self.env[var], self.r.choice(self.all)
        t = t if self.often(0.85) else other
        above = self.r.choice(self.parents.get(t) or [t]) if self.often(0.85) else other
        uid = lambda u: self.plain(u, 0, [])
        k = self.r.random()
        if k < 0.45:
            return var
        if k < 0.55:
            return f"{var} == {uid(t)}"
        if k < 0.7:
            return f"{var} in {uid(above)}"
        if k < 0.85:
            return f"{var} is {t}" if not self.often(0.02) else f"{var} is Nope"
        if k < 0.92:
            return f"{var} is {t} in {uid(above)}"
        return self.pick(f"{var} == ?{var}", f"{var} in ?{var}", f"{var} is {t} in ?{var}")

    def policy(self):
        self.action = self.r.choice(list(self.actions))
        self.roots()
        k = self.r.random()
        every = list(self.actions) + self.groups
        action = (f'action == Action::"{self.action}"' if k < 0.6 else "action" if k < 0.7 else
                  f'action in Action::"{self.r.choice(every)}"' if k < 0.8 else
                  "action in [" + ", ".join(f'Action::"{a}"' for a in self.r.sample(every, min(len(every), self.r.randint(1, 3)))) + "]"
                  if k < 0.98 else self.pick('action == Action::"nope"', "action in []", 'action in [Action::"r", N::Action::"other"]'))
        held, clauses = [], []
        for _ in range(self.r.choice([0, 1, 1, 1, 2, 3])):
            if self.often(0.3):
                g = self.guard(held)
                clauses.append(f"when {{ {g} }}")
                held.append(g)
            clauses.append(f"{self.pick('when', 'when', 'unless')} {{ {self.bool(self.r.randint(1, 3), held)} }}")
        return f"{self.pick('permit', 'forbid')}({self.scope('principal')}, {action}, {self.scope('resource')}) {' '.join(clauses)};"
