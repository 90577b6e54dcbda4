"""What a decision costs, beside the reference engine in the same run: 10 and 100 policies that
all come into question, and 1,000 of which 3 do.

    python tests/bench/policies.py [--rounds 15] [--build DIR] [--write]

Ours is timed by `cedar_time` (tests/tools/cedar), the reference by its own clock: cedarpy
reports how long authorization alone took (authz_duration_micros), without reading policies,
entities or the request, and how long reading the entities took. Both answers must be equal.
Medians over the rounds, in which both take turns.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile

import cedarpy

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BW_BUILD", os.path.join(SOURCE, "build", "release"))
CALLS = 20  # of the reference in one round

# Each comes into question for the request below and has to be evaluated.
APPLY = (
    'permit(principal in Group::"g{a}", action == Action::"read", resource)'
    ' when {{ resource.owner == principal || principal.level >= {b} }};',
    'forbid(principal, action in Action::"any", resource is Doc)'
    ' when {{ resource.labels.contains("l{i}") && context.addr.isInRange(ip("10.{b}.0.0/16")) }};',
    'permit(principal is User, action in [Action::"read", Action::"list"], resource in Folder::"f{a}")'
    ' when {{ resource.size < {i} && context.purpose like "pay*" }};',
    'forbid(principal, action == Action::"read", resource)'
    ' unless {{ principal.clearance >= resource.sensitivity && context.purpose != "p{i}" }};',
    'permit(principal, action, resource) when {{ principal.country in Zone::"z{a}" }} unless {{ resource.held }};',
)
OTHER = (  # scopes that do not fit: other people, other actions, other documents
    'permit(principal in Group::"other{i}", action == Action::"read", resource) when {{ resource.size > {i} }};',
    'forbid(principal, action == Action::"action{i}", resource) when {{ principal.level < {b} }};',
    'permit(principal, action, resource in Folder::"other{i}") when {{ resource.owner == principal }};',
    'forbid(principal == User::"user{i}", action, resource) unless {{ resource.held }};',
)


def policies(n, kinds=APPLY):
    return [kinds[i % len(kinds)].format(i=i, a=i % 5, b=i % 7) for i in range(n)]


def thousand():
    rest = policies(997, OTHER)
    for k, p in enumerate(policies(3)):
        rest.insert(300 * (k + 1), p)
    return rest


def entity(kind, name, attrs=None, parents=()):
    return {"uid": {"type": kind, "id": name}, "attrs": attrs or {},
            "parents": [{"type": t, "id": i} for t, i in parents]}


def ref(kind, name):
    return {"__entity": {"type": kind, "id": name}}


ENTITIES = (
    [entity("User", "ana", {"level": 9, "clearance": 3, "country": ref("Country", "FR")}, [("Group", "g4")])]
    + [entity("Group", f"g{i}", parents=[("Group", f"g{i - 1}")] if i else []) for i in range(5)]
    + [entity("Country", "FR", parents=[("Zone", "z4")])]
    + [entity("Zone", f"z{i}", parents=[("Zone", f"z{i - 1}")] if i else []) for i in range(5)]
    + [entity("Folder", f"f{i}", parents=[("Folder", f"f{i - 1}")] if i else []) for i in range(5)]
    + [entity("Doc", "d", {"owner": ref("User", "bob"), "labels": [f"m{i}" for i in range(10)], "size": 5,
                           "sensitivity": 2, "held": False}, [("Folder", "f4")])]
    + [entity("Action", "read", parents=[("Action", "any")])]
    + [entity("User", f"u{i}", {"level": i, "clearance": i, "country": ref("Country", "FR")}) for i in range(30)])
REQUEST = {"principal": {"type": "User", "id": "ana"}, "action": {"type": "Action", "id": "read"},
           "resource": {"type": "Doc", "id": "d"},
           "context": {"addr": {"__extn": {"fn": "ip", "arg": "10.1.2.3"}}, "purpose": "payroll"}}


class Ours:
    def __init__(self, build, folder, name, texts):
        path = os.path.join(folder, name + ".json")
        with open(path, "w") as f:
            json.dump({"policies": "\n".join(texts), "entities": ENTITIES, "request": REQUEST}, f)
        self.process = subprocess.Popen([os.path.join(build, "tests", "cedar_time"), path], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def reference(texts):
    request = dict(REQUEST)
    for key in ("principal", "action", "resource"):
        request[key] = f'{REQUEST[key]["type"]}::"{REQUEST[key]["id"]}"'
    text, found = "\n".join(texts), []
    for _ in range(CALLS):
        answer = cedarpy.is_authorized(request, text, ENTITIES)
        found.append((answer.metrics["authz_duration_micros"], answer.metrics["load_entities_duration_micros"]))
    return answer, [x * 1000 for x, _ in found], [(x + y) * 1000 for x, y in found]


def run(rounds, build):
    sets = {"10": policies(10), "100": policies(100), "3": policies(3), "1,000, of which 3 apply": thousand()}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        ours = {name: Ours(build, folder, str(k), texts) for k, (name, texts) in enumerate(sets.items())}
        seen = {name: ([], [], [], []) for name in sets}
        for _ in range(rounds):
            for name, texts in sets.items():
                mine = ours[name].turn()
                theirs, ready, whole = reference(texts)
                if (mine["allow"] != theirs.allowed or mine["reasons"] != len(theirs.diagnostics.reasons)
                        or mine["errors"] != len(theirs.diagnostics.errors)):
                    raise SystemExit(f"{name}: the answers differ: {mine}, {theirs.decision} {theirs.diagnostics.reasons}")
                for into, values in zip(seen[name], ([mine["ready_ns"]], ready, [mine["json_ns"]], whole)):
                    into.extend(values)
        for each in ours.values():
            each.stop()
    for name, columns in seen.items():
        rows[name] = [statistics.median(c) for c in columns]
    return rows


def table(rows):
    out = ["| policies | ours, entities ready | reference, its own clock | times | ours, entities as JSON | reference, loading them too | times |",
           "|---|---|---|---|---|---|---|"]
    for name, (ready, theirs, whole, loaded) in rows.items():
        out.append(f"| {name} | {ready / 1000:.2f} µs | {theirs / 1000:.0f} µs | {theirs / ready:.0f} | "
                   f"{whole / 1000:.1f} µs | {loaded / 1000:.0f} µs | {loaded / whole:.0f} |")
    ratio = rows["1,000, of which 3 apply"][0] / rows["3"][0]
    out += ["", f"1,000 policies of which 3 apply cost {ratio:.2f} times the 3 alone."]
    return "\n".join(out)


def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
    return (f"{datetime.date.today()}. {model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}; "
            f"Python {platform.python_version()}, cedarpy {cedarpy.__version__ if hasattr(cedarpy, '__version__') else '4.12.2'}.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = f"### policies: one decision\n\n{machine()} Medians of {options.rounds} rounds.\n\n{table(run(options.rounds, options.build))}\n"
    print(text)
    if options.write:
        with open(os.path.join(HERE, "RESULTS.md"), "a") as f:
            f.write("\n" + text)


if __name__ == "__main__":
    main()
