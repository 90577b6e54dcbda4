"""Public bug reports of other systems, sections A (filters) and E (ids and payloads) of
cases/bug-reports.md, each by its number there; the right-hand column is what must hold."""
import json
import random
import re
import threading

import pytest

SEED = 20240917


def points(n, make, dim=4, start=0):
    return {"points": [dict(id=i, **make(i)) for i in range(start, start + n)]}


def create(cell, name, **body):
    body.setdefault("vectors", {"size": 4, "distance": "Cosine"})
    r = cell.put("/collections/" + name, body)
    assert r.status == 200, r


def put(cell, name, body, status=200):
    r = cell.put("/collections/%s/points?wait=true" % name, body)
    assert r.status == status, r
    return r


def vector(i):
    rnd = random.Random(SEED + i)
    return [rnd.uniform(-1, 1) for _ in range(4)]


def scroll(cell, name, f, **kw):
    r = cell.post("/collections/%s/points/scroll" % name, dict({"filter": f, "limit": 1000}, **kw))
    assert r.status == 200, r
    return r.json()["result"]["points"]


def ids(cell, name, f):
    return [p["id"] for p in scroll(cell, name, f)]


def match(key, value):
    return {"must": [{"key": key, "match": {"value": value}}]}


def index(cell, name, field, kind):
    r = cell.put("/collections/%s/index?wait=true" % name, {"field_name": field, "field_schema": kind})
    assert r.status == 200, r


# ---- A. filters ----

def test_1_an_index_answers_whole_while_writes_go_on(cell, name):
    create(cell, name)
    put(cell, name, points(50, lambda i: {"vector": vector(i), "payload": {"category_id": "cat_a" if i % 2 else "cat_b"}}))
    stop = threading.Event()

    def writer():
        i = 1000
        while not stop.is_set():
            put(cell, name, points(5, lambda k: {"vector": vector(k), "payload": {"category_id": "cat_z"}}, start=i))
            i += 5

    t = threading.Thread(target=writer)
    t.start()
    try:
        index(cell, name, "category_id", "keyword")
        f = match("category_id", "cat_a")
        for _ in range(66):
            assert cell.post("/collections/%s/points/count" % name, {"filter": f}).json()["result"]["count"] == 25
            assert len(scroll(cell, name, f)) == 25
            r = cell.post("/collections/%s/points/query" % name, {"query": vector(3), "filter": f, "limit": 100})
            assert len(r.json()["result"]["points"]) == 25
    finally:
        stop.set()
        t.join()


def test_2_is_null_agrees_in_both_spellings_with_and_without_an_index(cell, name):
    values = [{"s": None}, {"s": [None, "a"]}, {"s": []}, {}, {"s": "a"}]
    for twin in (name, name + "_i"):
        create(cell, twin)
        put(cell, twin, points(5, lambda i: {"vector": vector(i), "payload": values[i]}))
    index(cell, name + "_i", "s", "keyword")
    answers = [ids(cell, twin, {"must": [form]}) for twin in (name, name + "_i")
               for form in ({"is_null": {"key": "s"}}, {"key": "s", "is_null": True})]
    assert answers[0] == [0, 1] and all(a == answers[0] for a in answers)
    for twin in (name, name + "_i"):
        assert ids(cell, twin, {"must": [{"key": "s", "is_null": False}]}) == [2, 3, 4]
    cell.delete("/collections/%s_i" % name)


def test_3_values_count_of_null(cell, name):
    create(cell, name)
    put(cell, name, points(3, lambda i: {"vector": vector(i), "payload": [{"state": None}, {"state": "active"}, {}][i]}))
    assert ids(cell, name, {"must": [{"key": "state", "values_count": {"gte": 1}}]}) == [1]
    assert ids(cell, name, {"must": [{"key": "state", "values_count": {"lt": 1}}]}) == [0, 2]


def test_4_points_without_payload_do_not_match(cell, name):
    create(cell, name)
    put(cell, name, points(10, lambda i: {"vector": vector(i)} if i in (3, 6) else
                           {"vector": vector(i), "payload": {"color": "red"}}))
    r = cell.post("/collections/%s/points/query" % name, {"query": vector(3), "filter": match("color", "red"), "limit": 10})
    assert sorted(p["id"] for p in r.json()["result"]["points"]) == [0, 1, 2, 4, 5, 7, 8, 9]


@pytest.mark.parametrize("f,where", [
    ({"must": [{"key": "a", "match": {}}]}, "/filter/must/0/match"),
    ({"must": [{"key": "a", "range": {"gte": "x", "lt": "y"}}]}, "/filter/must/0/range/gte"),
    ({"must": [{"key": "", "match": {"value": 1}}]}, "/filter/must/0/key"),
    ({"must": {}}, "/filter/must"),
    ({"must": [{"unknown_condition": {"key": "a"}}]}, "/filter/must/0/unknown_condition"),
    ({"mst": []}, "/filter/mst"),
    ({"key": "a", "match": {"value": 1}}, "/filter/key"),
])
def test_5_malformed_conditions_are_refused_and_named(cell, name, f, where):
    create(cell, name)
    put(cell, name, points(3, lambda i: {"vector": vector(i), "payload": {"a": i}}))
    for path, body in (("points/scroll", {}), ("points/count", {}), ("points/delete", {}),
                       ("points/query", {"query": [1, 0, 0, 0]})):
        r = cell.post("/collections/%s/%s" % (name, path), dict(body, filter=f))
        assert r.status == 400 and where in r.json()["status"]["error"], r
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 3


@pytest.mark.parametrize("body", [{"must": []}, {"match": {"value": 1}}, {"should": [{"has_id": [1]}]},
                                  {"range": {"gt": 1}}, {"is_empty": {"key": "a"}}, {"key": "a"}])
def test_5_sibling_filter_words_at_the_wrong_level(cell, name, body):
    create(cell, name)
    for path, rest in (("points/scroll", {}), ("points/count", {}), ("points/query", {"query": [1, 0, 0, 0]}),
                       ("points/delete", {"points": [1]}), ("points", {"ids": [1]})):
        r = cell.post("/collections/%s/%s" % (name, path), dict(rest, **body))
        assert r.status == 400 and "belongs inside a filter" in r.json()["status"]["error"], (path, r)


def test_6_a_batch_of_must_not_queries(cell, name):
    create(cell, name)
    put(cell, name, points(300, lambda i: {"vector": vector(i), "payload": {"entity_id": "e%d" % (i % 50)}}))
    searches = [{"query": vector(i), "limit": 1000, "score_threshold": -1, "with_payload": True,
                 "filter": {"must_not": [{"key": "entity_id", "match": {"value": "e%d" % i}}]}} for i in range(50)]
    r = cell.post("/collections/%s/points/query/batch" % name, {"searches": searches}).json()["result"]
    for i, answer in enumerate(r):
        got = [p["payload"]["entity_id"] for p in answer["points"]]
        assert len(got) == 294 and "e%d" % i not in got


def test_7_filters_before_and_after_the_graph_is_turned_on(cell, name):
    create(cell, name, hnsw_config={"m": 0})
    index(cell, name, "chatbot_id", "keyword")
    index(cell, name, "kb", "keyword")
    rnd = random.Random(SEED)
    truth = []
    rows = []
    for i in range(2000):
        p = {"chatbot_id": "c%d" % rnd.randrange(3)}
        kb = rnd.choice([None, "X", "Y", "absent", []])
        if kb != "absent":
            p["kb"] = kb
        rows.append({"id": i, "vector": vector(i), "payload": p})
        if p["chatbot_id"] == "c1" and (not p.get("kb") or kb == "Y"):
            truth.append(i)
    put(cell, name, {"points": rows})
    f = {"must": [{"key": "chatbot_id", "match": {"value": "c1"}},
                  {"should": [{"is_empty": {"key": "kb"}}, {"key": "kb", "match": {"value": "Y"}}]}]}

    def same():
        assert ids(cell, name, f) == truth
        r = cell.post("/collections/%s/points/query" % name, {"query": vector(7), "filter": f, "limit": 2000})
        assert sorted(p["id"] for p in r.json()["result"]["points"]) == truth
    same()
    assert cell.patch("/collections/" + name, {"hnsw_config": {"m": 16}}).status == 200
    same()


def test_8_a_filter_that_matches_nothing_after_an_append(cell, name):
    create(cell, name)
    put(cell, name, points(1000, lambda i: {"vector": vector(i), "payload": {"k": "a"}}))
    index(cell, name, "k", "keyword")
    put(cell, name, points(1000, lambda i: {"vector": vector(i), "payload": {"k": "b"}}, start=1000))
    r = cell.post("/collections/%s/points/query" % name, {"query": vector(1), "filter": match("k", "c"), "limit": 10})
    assert r.json()["result"]["points"] == []


def test_9_the_root_filter_is_folded_into_each_prefetch(cell, name):
    create(cell, name, vectors={"size": 2, "distance": "Dot"})
    put(cell, name, {"points": [{"id": i, "vector": [10 - i, i], "payload": {"group": "ab"[i % 2]}} for i in range(8)]})
    body = {"prefetch": [{"query": [1, 0], "limit": 2}, {"query": [0, 1], "limit": 2}], "query": {"fusion": "rrf"}}
    r = cell.post("/collections/%s/points/query" % name, dict(body, filter=match("group", "a"))).json()["result"]["points"]
    # of a (0, 2, 4, 6): the first list is 0, 2, the second 6, 4
    assert {p["id"]: round(p["score"], 4) for p in r} == {0: .5, 6: .5, 2: .3333, 4: .3333}


def test_10_groups_give_the_scores_of_the_query(cell, name):
    create(cell, name)
    put(cell, name, points(60, lambda i: {"vector": vector(i), "payload": {"g": "g%d" % (i % 6)}}))
    body = {"prefetch": [{"query": vector(1), "limit": 20}, {"query": vector(2), "limit": 20}], "query": {"fusion": "rrf"}}
    flat = cell.post("/collections/%s/points/query" % name, dict(body, limit=60)).json()["result"]["points"]
    score = {p["id"]: p["score"] for p in flat}
    r = cell.post("/collections/%s/points/query/groups" % name, dict(body, group_by="g", group_size=3)).json()["result"]
    shared = [p for g in r["groups"] for p in g["hits"]]
    assert shared
    for p in shared:
        assert p["id"] in score and abs(p["score"] - score[p["id"]]) < 1e-6


# ---- E. ids and payloads ----

def test_30_ids_above_two_to_the_63(cell, name):
    create(cell, name)
    big = [13570027672830659665, 18446744073709551615]
    put(cell, name, {"points": [{"id": i, "vector": [1, 0, 0, 0]} for i in big]})
    raw = cell.post("/collections/%s/points" % name, {"ids": big}).text
    assert '"id":13570027672830659665' in raw and '"id":18446744073709551615' in raw
    assert ids(cell, name, {"must": [{"has_id": big}]}) == big
    put(cell, name, b'{"points":[{"id":18446744073709551616,"vector":[1,0,0,0]}]}', 400)


def test_31_a_float_that_is_whole_matches_alike_with_and_without_an_index(cell, name):
    for twin, kind in ((name, None), (name + "_i", "integer"), (name + "_f", "float")):
        create(cell, twin)
        put(cell, twin, b'{"points":[{"id":1,"vector":[1,0,0,0],"payload":{"age":42.0}},'
                        b'{"id":2,"vector":[1,0,0,0],"payload":{"age":42}}]}')
        if kind:
            index(cell, twin, "age", kind)
    got = {json.dumps(ids(cell, twin, match("age", 42))) for twin in (name, name + "_i", name + "_f")}
    ranged = {json.dumps(ids(cell, twin, {"must": [{"key": "age", "range": {"gte": 42, "lte": 42}}]}))
              for twin in (name, name + "_i", name + "_f")}
    assert len(got) == 1 and ranged == {"[1, 2]"}
    for twin in ("_i", "_f"):
        cell.delete("/collections/" + name + twin)


def test_32_a_key_with_dots_is_addressed_by_quotes(cell, name):
    create(cell, name)
    put(cell, name, {"points": [{"id": 1, "vector": [1, 0, 0, 0]},
                                {"id": 2, "vector": [1, 0, 0, 0], "payload": {"tb_9": {"6": {"11": "nested"}}}}]})
    r = cell.post("/collections/%s/points/payload?wait=true" % name, {"payload": {"tb_9.6.11": "x"}, "points": [1]})
    assert r.status == 200, r
    assert ids(cell, name, {"must_not": [{"is_empty": {"key": '"tb_9.6.11"'}}]}) == [1]
    assert ids(cell, name, {"must_not": [{"is_empty": {"key": "tb_9.6.11"}}]}) == [2]
    assert ids(cell, name, match('"tb_9.6.11"', "x")) == [1]


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e999", "3.5e38", "-3.5e38", "null", '"x"', "true"])
def test_33_what_is_no_finite_number_is_refused_with_its_place(cell, name, bad):
    create(cell, name)
    put(cell, name, {"points": [{"id": 1, "vector": [0, 0, 0, 0]}]})  # a zero vector is fine
    r = put(cell, name, ('{"points":[{"id":2,"vector":[1,0,%s,0]}]}' % bad).encode(), 400)
    error = r.json()["status"]["error"]
    assert re.search(r"/points/0/vector(/2\b|.*\b2\b)", error), error
    q = cell.post("/collections/%s/points/query" % name, ('{"query":[1,0,%s,0]}' % bad).encode())
    assert q.status == 400
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 1
    r = cell.post("/collections/%s/points/query" % name, {"query": [1, 0, 0, 0]}).json()["result"]["points"]
    assert r[0]["score"] == 0


def test_34_the_same_id_twice_in_a_batch_last_wins_whole(cell, name):
    create(cell, name, vectors={"a": {"size": 2, "distance": "Dot"}, "b": {"size": 2, "distance": "Dot"},
                                "c": {"size": 2, "distance": "Dot"}})
    put(cell, name, {"points": [{"id": 1, "vector": {"a": [1, 0], "b": [0, 1]}, "payload": {"first": 1}},
                                {"id": 1, "vector": {"c": [1, 1]}, "payload": {"second": 2}}]})
    r = cell.post("/collections/%s/points" % name, {"ids": [1], "with_vector": True}).json()["result"]
    assert len(r) == 1 and r[0]["vector"] == {"c": [1, 1]} and r[0]["payload"] == {"second": 2}
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 1


@pytest.mark.parametrize("batch,says", [
    ({"ids": [1, 2], "vectors": [[1, 0, 0, 0]]}, "1 vectors for 2 ids"),
    ({"ids": [1], "vectors": [1, 0, 0, 0]}, "[["),
    ({"ids": [1], "vectors": {"": [1, 0, 0, 0]}}, "one vector for each id"),
    ({"ids": [1]}, "vectors"),
    ({"ids": [1], "vectors": [[1, 0, 0, 0]], "payloads": {"a": 1}}, "list of payloads"),
    ([{"id": 1}], "ids"),
])
def test_35_a_wrong_batch_shape_names_the_right_one(cell, name, batch, says):
    create(cell, name)
    r = cell.put("/collections/%s/points" % name, {"batch": batch})
    assert r.status in (400, 422) and says in r.json()["status"]["error"], r


def test_36_another_embedding_model_is_refused(cell, name):
    create(cell, name, metadata={"_model": "model-a"})
    put(cell, name, {"points": [{"id": 1, "vector": [1, 0, 0, 0]},
                                {"id": 2, "vector": [1, 0, 0, 0], "payload": {"_model": "model-a"}}]})
    r = put(cell, name, {"points": [{"id": 3, "vector": [1, 0, 0, 0], "payload": {"_model": "model-b"}}]}, 409)
    assert "model" in r.json()["status"]["error"]
    q = cell.post("/collections/%s/points/query" % name, {"query": [1, 0, 0, 0], "_model": "model-b"})
    assert q.status == 409
    assert cell.post("/collections/%s/points/query" % name, {"query": [1, 0, 0, 0], "_model": "model-a"}).status == 200
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 2
    # the collection's keeper may let a second model in
    assert cell.patch("/collections/" + name, {"metadata": {"_model": ["model-a", "model-b"]}}).status == 200
    put(cell, name, {"points": [{"id": 3, "vector": [1, 0, 0, 0], "payload": {"_model": "model-b"}}]})


# ---- siblings ----

def test_22_delete_tells_how_many(cell, name):
    create(cell, name)
    put(cell, name, points(5, lambda i: {"vector": vector(i), "payload": {"k": i % 2}}))
    r = cell.post("/collections/%s/points/delete?wait=true" % name, {"filter": match("k", 1)})
    assert r.json()["result"]["points_deleted"] == 2 and r.json()["result"]["status"] == "completed"


def test_23_a_null_match_deletes_nothing(cell, name):
    create(cell, name)
    put(cell, name, points(3, lambda i: {"vector": vector(i)}))
    for body in ({"filter": {"must": [{"key": "doc_id", "match": {"value": None}}]}}, {"filter": None}, {}):
        assert cell.post("/collections/%s/points/delete?wait=true" % name, body).status == 400
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 3


def test_payload_calls_keep_the_words_of_the_house(cell, name):
    create(cell, name)
    put(cell, name, points(1, lambda i: {"vector": vector(i), "payload": {"a": 1}}))
    for body in ({"payload": {"_labels": {}}, "points": [0]}, {"payload": {"_expires_at": 1}, "points": [0]},
                 {"payload": {"metadata": {"_labels": {}}}, "points": [0]}):
        assert cell.post("/collections/%s/points/payload" % name, body).status == 400
        assert cell.put("/collections/%s/points/payload" % name, body).status == 400
    r = cell.post("/collections/%s/points/payload/delete" % name, {"keys": ["_labels"], "points": [0]})
    assert r.status == 400


def test_expiry_hides_a_point_at_once(cell, name):
    create(cell, name)
    put(cell, name, {"points": [
        {"id": 1, "vector": [1, 0, 0, 0], "payload": {"_expires_at": "2001-01-01T00:00:00Z"}},
        {"id": 2, "vector": [1, 0, 0, 0], "payload": {"_expires_at": "2199-01-01T00:00:00Z"}}]})
    assert ids(cell, name, None) == [2]
    assert cell.post("/collections/%s/points/count" % name, {}).json()["result"]["count"] == 1
    assert cell.get("/collections/%s/points/1" % name).status == 404


def test_far_dates_are_bounds_as_they_are_values(cell, name):
    """Years that 64-bit nanoseconds do not reach: later or earlier than every other date."""
    create(cell, name)
    days = ["0001-01-01", "1600-06-01T00:00:00Z", "2024-02-29", "2262-12-31", "9999-12-31T23:59:59Z"]
    put(cell, name, {"points": [{"id": i + 1, "vector": [1, 0, 0, 0], "payload": {"d": d}} for i, d in enumerate(days)]})
    for index in (False, True):
        if index:
            r = cell.put("/collections/%s/index?wait=true" % name, {"field_name": "d", "field_schema": "datetime"})
            assert r.status == 200, r
        for bound, want in (({"gte": "0001-01-01"}, [1, 2, 3, 4, 5]), ({"gt": "1000-01-01T00:00:00Z"}, [3, 4, 5]),
                            ({"lte": "9999-12-31"}, [1, 2, 3, 4, 5]), ({"gt": "2024-02-29", "lte": "9999-12-31"}, [4, 5]),
                            ({"lt": "2024-02-29T00:00:00+01:00"}, [1, 2]), ({"gt": "9999-01-01"}, [])):
            assert ids(cell, name, {"must": [{"key": "d", "range": bound}]}) == want, (index, bound)
        assert cell.post("/collections/%s/points/scroll" % name, {"filter": {"must": [
            {"key": "d", "range": {"gt": "9999-02-29"}}]}}).status == 400
    r = cell.post("/collections/%s/points/scroll" % name, {"order_by": {"key": "d", "start_from": "0001-01-01"}})
    assert sorted(p["id"] for p in r.json()["result"]["points"]) == [1, 2, 3, 4, 5], r
    put(cell, name, {"points": [
        {"id": 8, "vector": [1, 0, 0, 0], "payload": {"_expires_at": "9999-12-31"}},
        {"id": 9, "vector": [1, 0, 0, 0], "payload": {"_expires_at": "0001-01-01"}}]})
    assert ids(cell, name, {"must": [{"has_id": [8, 9]}]}) == [8]


@pytest.mark.parametrize("path,status", [("a%2Fb", 400), ("..%2Fx", 400), ("x" * 256, 400), ("a%E2%88%95b", 400),
                                         ("a%00b", 400), ("a%5Cb", 400), ("x" * 255, 200)])
def test_62_collection_names(cell, path, status):
    r = cell.put("/collections/" + path, {"vectors": {"size": 2, "distance": "Dot"}})
    assert r.status == status, r
    if status == 200:
        cell.delete("/collections/" + path)
