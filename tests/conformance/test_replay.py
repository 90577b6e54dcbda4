"""The recorded calls of real clients, sent again in order to an empty cell.

Each file of qdrant/recordings is one run. Compared: status, content type, keys, ids,
order, payloads; scores and vectors within 1e-3 (the order among equal scores is free).
Not compared, as the recordings' own description says: time, version, operation_id,
tuning numbers, the wording of errors. Keys of ours that all clients let through are
listed in OURS.

replay_exceptions.txt lists by name the pairs of the contract's item 16 and of LATER:
they are sent all the same, and must be refused cleanly (400 in the error form), or are
sent without the vector that the cell does not serve. It lists too the pairs whose answer
hangs on the free order among equal scores of a prefetch (each is shown to have such a tie).
MMR picks among ties as well (a query that is a stored point's own vector makes every
later pick one): there both answers must be pickings by the contract's formula.
"""
import http.client
import json
import os
import urllib.parse

import pytest

from cell import Cell

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("BW_SHARED") or os.path.join(HERE, "..", "..", "..", "shared")
RECORDINGS = os.path.join(SHARED, "qdrant", "recordings")
FILES = ["js", "langchain", "langchain_legacy_client_1_15", "langchain_standard", "llamaindex",
         "qdrant_client", "raw_http", "raw_http_apikey"]
OURS = {"_labels", "points_deleted", "bailiwick"}
OPTIONAL = {"commit", "usage"}
FREE = {"time", "version", "operation_id", "usage", "title", "commit"}
EPS = 1e-3

pytestmark = pytest.mark.skipif(not os.path.isdir(RECORDINGS), reason="no recordings at BW_SHARED")


def exceptions():
    """{(file, seq): (verb, argument, step)} from replay_exceptions.txt."""
    out = {}
    with open(os.path.join(HERE, "replay_exceptions.txt"), encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            verb, name, seq, step = line.split("\t")
            verb, _, argument = verb.partition(":")
            out[(name, int(seq))] = (verb, argument, step)
    return out


EXCEPTIONS = exceptions()


def without(value, name):
    """value with every member `name` taken out, at any depth."""
    if isinstance(value, dict):
        return {k: without(v, name) for k, v in value.items() if k != name}
    if isinstance(value, list):
        return [without(v, name) for v in value]
    return value


def near(a, b):
    return abs(a - b) <= EPS * max(1.0, abs(b))


class Differ:
    def __init__(self):
        self.found = []

    def say(self, where, text):
        self.found.append("%s: %s" % (where or "/", text))

    def keys(self, where, got, want):
        missing = set(want) - set(got) - OPTIONAL
        extra = set(got) - set(want) - OURS
        if missing or extra:
            self.say(where, "missing keys %s, extra keys %s" % (sorted(missing), sorted(extra)))

    def exact(self, where, got, want):
        """Payloads: JSON-equal, with the types and the order of keys."""
        if json.dumps(got) != json.dumps(want):
            self.say(where, "got %.200r, want %.200r" % (got, want))

    def same(self, where, got, want):
        if json.dumps(got, sort_keys=True) != json.dumps(want, sort_keys=True):
            self.say(where, "got %.200r, want %.200r" % (got, want))

    def floats(self, where, got, want):
        if isinstance(want, dict):
            if not isinstance(got, dict) or set(got) != set(want):
                return self.say(where, "got %.200r, want %.200r" % (got, want))
            for k in want:
                self.floats("%s/%s" % (where, k), got[k], want[k])
        elif isinstance(want, list):
            if not isinstance(got, list) or len(got) != len(want):
                return self.say(where, "got %.200r, want %.200r" % (got, want))
            for i, (a, b) in enumerate(zip(got, want)):
                self.floats("%s/%d" % (where, i), a, b)
        elif not near(got, want):
            self.say(where, "got %r, want %r" % (got, want))
        return None

    def point(self, where, got, want):
        self.keys(where, got, want)
        for k in want:
            if k not in got or k in FREE:
                continue
            if k in ("score", "vector", "order_value"):
                self.floats("%s/%s" % (where, k), got[k], want[k])
            else:
                self.exact("%s/%s" % (where, k), got[k], want[k])

    def points(self, where, got, want, ordered):
        """Equal ids in equal order; a run of one score may be in any order, and a run that
        the limit cuts may hold other ids, of that score."""
        if not isinstance(got, list) or len(got) != len(want):
            return self.say(where, "%d points, want %d" % (len(got), len(want)))
        at = 0
        while at < len(want):
            end = at + 1
            while not ordered and "score" in want[at] and end < len(want) and \
                    near(want[end]["score"], want[at]["score"]):
                end += 1
            mine = {json.dumps(p["id"]): p for p in got[at:end]}
            for i in range(at, end):
                p = mine.get(json.dumps(want[i]["id"]))
                if p is not None:
                    self.point("%s/%d" % (where, i), p, want[i])
                elif end == len(want) and not ordered and "score" in want[i]:
                    for p in got[at:end]:
                        self.floats("%s/%d/score" % (where, i), p["score"], want[at]["score"])
                else:
                    return self.say(where, "ids %s, want %s" % ([p["id"] for p in got],
                                                                [p["id"] for p in want]))
            at = end
        return None

    def schema(self, where, got, want):
        self.keys(where, got, want)
        for field in want:
            if field in got:
                self.keys("%s/%s" % (where, field), got[field], want[field])
                for k in ("data_type", "params"):
                    self.same("%s/%s/%s" % (where, field, k), got[field].get(k), want[field].get(k))

    def info(self, where, got, want):
        self.keys(where, got, want)
        for k in ("status", "points_count"):
            self.same("%s/%s" % (where, k), got.get(k), want[k])
        self.schema(where + "/payload_schema", got.get("payload_schema", {}), want["payload_schema"])
        a, b = got.get("config", {}), want["config"]
        self.keys(where + "/config", a, b)
        for k in b:
            if isinstance(b[k], dict):
                self.keys("%s/config/%s" % (where, k), a.get(k) or {}, b[k])
        for k in ("vectors", "sparse_vectors"):
            self.same("%s/config/params/%s" % (where, k), a.get("params", {}).get(k),
                      b["params"].get(k))
        self.same(where + "/config/metadata", a.get("metadata"), b.get("metadata"))

    def groups(self, where, got, want, ordered):
        self.same(where + "/*/id", [g["id"] for g in got], [g["id"] for g in want])
        for i in range(min(len(got), len(want))):
            self.keys("%s/%d" % (where, i), got[i], want[i])
            self.points("%s/%d/hits" % (where, i), got[i]["hits"], want[i]["hits"], ordered)
            if "lookup" in want[i] and "lookup" in got[i]:
                self.point("%s/%d/lookup" % (where, i), got[i]["lookup"], want[i]["lookup"])

    def many(self, where, got, want, ordered):
        if len(got) != len(want):
            return self.say(where, "%d answers, want %d" % (len(got), len(want)))
        for i, (a, b) in enumerate(zip(got, want)):
            a, b = (a["points"], b["points"]) if isinstance(b, dict) else (a, b)
            self.points("%s/%d" % (where, i), a, b, ordered)
        return None

    def result(self, got, want, ordered):
        where, first = "/result", want[0] if isinstance(want, list) and want else None
        if isinstance(first, list) or (isinstance(first, dict) and "points" in first):
            self.many(where, got, want, ordered)
        elif isinstance(first, dict) and "id" in first:
            self.points(where, got, want, ordered)
        elif isinstance(first, dict) and "operation_id" in first:
            self.same(where + "/*/status", [x["status"] for x in got], [x["status"] for x in want])
        elif not isinstance(want, dict):
            self.same(where, got, want)
        elif "payload_schema" in want:
            self.info(where, got, want)
        elif "points" in want:
            self.keys(where, got, want)
            self.points(where + "/points", got["points"], want["points"], ordered)
            self.same(where + "/next", got.get("next_page_offset"), want.get("next_page_offset"))
        elif "groups" in want:
            self.groups(where + "/groups", got["groups"], want["groups"], ordered)
        elif "app" in want:
            self.keys(where, got, want)
        elif "id" in want:
            self.point(where, got, want)
        else:
            self.keys(where, got, want)
            for k in want:
                if k in got and k not in FREE:
                    self.same("%s/%s" % (where, k), got[k], want[k])


def send(cell, key, request, body):
    c = http.client.HTTPConnection(cell.host, cell.port, timeout=60)
    path = request["path"]
    if request["query"]:
        path += "?" + urllib.parse.urlencode(request["query"])
    headers = {k: v.replace("sesame", key or "sesame") for k, v in request["headers"].items()
               if k in ("content-type", "accept", "api-key", "authorization")}
    data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
    try:
        c.request(request["method"], path, body=data, headers=headers)
        r = c.getresponse()
        return r.status, (r.getheader("content-type") or "").split(";")[0], r.read()
    finally:
        c.close()


def ask(cell, request, body):
    status, _, raw = send(cell, None, request, body)
    assert status == 200, raw
    return json.loads(raw)["result"]["points"]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def mmr_differences(cell, pair, got, want):
    """Each of the two answers, step by step: was a best candidate picked?"""
    request, body = pair["request"], pair["request"]["body"]
    q, mmr = body["query"]["nearest"], body["query"]["mmr"]
    diversity = 0.5 if mmr.get("diversity") is None else mmr["diversity"]
    plain = {k: v for k, v in body.items() if k not in ("query", "limit", "with_payload")}
    plain.update(query=q, limit=mmr.get("candidates_limit") or body["limit"], with_vector=True)
    using = body.get("using") or ""
    vectors = {}
    for p in ask(cell, request, plain):
        vectors[p["id"]] = p["vector"][using] if isinstance(p["vector"], dict) else p["vector"]
    found = []
    for name, answer in (("the cell's", got), ("the recorded", want)):
        picked = []
        for p in answer:
            value = {i: (1 - diversity) * cosine(q, v) - diversity * max(
                [cosine(v, vectors[k]) for k in picked], default=0) for i, v in vectors.items() if i not in picked}
            if p["id"] not in value or value[p["id"]] < max(value.values()) - 1e-5:
                found.append("%s pick %d is not a best one: %s" % (name, len(picked), value))
                break
            picked.append(p["id"])
    if len(got) != len(want):
        found.append("%d points, want %d" % (len(got), len(want)))
    return found


def has_tie(cell, request, prefetch):
    for p in prefetch if isinstance(prefetch, list) else [prefetch]:
        scores = [x["score"] for x in ask(cell, request, dict(p, limit=1000))]
        if any(abs(a - b) < 1e-6 for a, b in zip(scores, scores[1:])):
            return True
        if "prefetch" in p and has_tie(cell, request, p["prefetch"]):
            return True
    return False


def is_mmr(body):
    return isinstance(body, dict) and isinstance(body.get("query"), dict) and "mmr" in body["query"]


def compare(cell, pair, got, want, tie=False):
    d = Differ()
    status, kind, raw = got
    if status != want["status"]:
        d.say("", "status %d, want %d: %s" % (status, want["status"], raw[:200]))
        return d.found
    if want["body"] is None or isinstance(want["body"], str):
        if "/metrics" in pair["request"]["path"]:
            if not raw.strip():
                d.say("", "empty metrics")
        elif raw.decode() != (want["body"] or ""):
            d.say("", "body %r, want %r" % (raw[:100], want["body"]))
        return d.found
    if kind != want["content_type"].split(";")[0]:
        d.say("", "content type %s, want %s" % (kind, want["content_type"]))
    body = json.loads(raw)
    d.keys("", body, want["body"])
    if status >= 400:
        error = body["status"]["error"]
        if not isinstance(error, str) or not raw.startswith(b'{"status"'):
            d.say("", "error form %r" % raw[:80])
        if status in (404, 409) and error != want["body"]["status"]["error"]:
            d.say("", "error %r, want %r" % (error, want["body"]["status"]["error"]))
    elif "result" in want["body"]:
        if body["status"] != "ok":
            d.say("/status", repr(body["status"]))
        a, b = body["result"], want["body"]["result"]
        if tie:
            if len(a["points"]) != len(b["points"]) or not has_tie(cell, pair["request"], pair["request"]["body"]["prefetch"]):
                d.say("", "there is no tie that would excuse %r" % a)
        elif is_mmr(pair["request"]["body"]):
            for line in mmr_differences(cell, pair, a["points"], b["points"]):
                d.say("/result/points", line)
            recorded = {json.dumps(p["id"]): p for p in b["points"]}
            for p in a["points"]:
                if json.dumps(p["id"]) in recorded:
                    d.point("/result/points", p, recorded[json.dumps(p["id"])])
        else:
            d.result(a, b, False)
    return d.found


def refused(got, says):
    status, kind, raw = got
    if status not in (400, 405) or kind != "application/json":
        return ["not refused cleanly: %d %r" % (status, raw[:100])]
    error = json.loads(raw)["status"]["error"]
    return [] if (says or "not served") in error else ["refused without saying why: %r" % error]


@pytest.mark.parametrize("name", FILES)
def test_replay(name):
    with open(os.path.join(RECORDINGS, name + ".jsonl"), encoding="utf-8") as f:
        pairs = [json.loads(line) for line in f]
    failures, excepted = [], 0
    keyed = name == "raw_http_apikey"
    cell = Cell(dev=False, country="FR", operator="eucloud") if keyed else Cell(dev=True)
    with cell as c:
        for pair in pairs:
            verb, argument, step = EXCEPTIONS.get((name, pair["seq"]), (None, None, None))
            if verb:
                excepted += 1
                assert pair["step"].startswith(step), "the exception names another step: %s" % step
            body, want = pair["request"]["body"], pair["response"]
            if verb == "without":
                body = without(body, argument)
                want = dict(want, body=without(want["body"], argument))
            got = send(c, c.admin_key if keyed else None, pair["request"], body)
            found = refused(got, argument) if verb == "refused" else compare(c, pair, got, want, verb == "tie")
            for line in found:
                failures.append("%s %d [%s] %s %s %s" % (name, pair["seq"], pair["step"][:60],
                                                         pair["request"]["method"],
                                                         pair["request"]["path"], line))
    print("%s: %d pairs sent, %d of them excepted by name" % (name, len(pairs), excepted))
    assert not failures, "%d differences:\n%s" % (len(failures), "\n".join(failures[:60]))
