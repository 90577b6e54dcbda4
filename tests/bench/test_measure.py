"""The benchmark's own arithmetic: interpolation, intervals, fits, exact answers, drawings."""
import math
import xml.etree.ElementTree as tree

import bench
import data
import measure
import numpy as np
import plot
import pytest


def test_at_recall__lies_between_neighbours_in_log_qps():
    points = [(0.90, 1000.0), (1.00, 10.0)]
    assert measure.at_recall(points, 0.95) == pytest.approx(100.0)
    assert measure.at_recall(points, 0.90) == pytest.approx(1000.0)
    assert measure.at_recall(points, 1.00) == pytest.approx(10.0)


def test_at_recall__is_none_where_the_curve_does_not_reach():
    assert measure.at_recall([(0.90, 1000.0), (0.98, 10.0)], 0.99) is None
    assert measure.at_recall([], 0.5) is None


def test_at_recall__of_an_exact_contender_is_its_one_point():
    assert measure.at_recall([(1.0, 7.0)], 0.95) == 7.0


def test_frontier__leaves_out_points_that_another_beats():
    points = [(0.9, 100.0), (0.95, 120.0), (0.99, 50.0), (0.98, 40.0)]
    assert measure.frontier(points) == [(0.95, 120.0), (0.99, 50.0)]


def test_bootstrap__holds_the_ratio_and_knows_no_noise():
    value, low, high = measure.bootstrap([(2.0, 1.0)] * 9)
    assert (value, low, high) == (2.0, 2.0, 2.0)
    pairs = [(10 + i % 3, 10.0) for i in range(30)]
    value, low, high = measure.bootstrap(pairs)
    assert low <= value <= high and low >= 1.0 and high <= 1.2
    assert measure.bootstrap(pairs) == (value, low, high)  # seeded


def test_bootstrap__pairs_cancel_what_a_round_shares():
    mood = [1.0, 3.0, 0.5, 2.0, 0.25]
    assert measure.bootstrap([(1.2 * m, m) for m in mood])[1:] == pytest.approx((1.2, 1.2))


def test_exponent__of_a_power_is_the_power():
    sizes = [10, 100, 1000]
    assert measure.exponent(sizes, [3 * s ** 0.4 for s in sizes]) == pytest.approx(0.4)


def test_percentile__is_the_nearest_rank():
    assert measure.percentile([5, 1, 4, 2, 3], 0.5) == 3
    assert measure.percentile(range(1, 101), 0.99) == 99
    assert measure.percentile([7], 0.99) == 7


def test_number__and_table():
    assert measure.number(12345.6, 0) == "12,346"
    assert measure.number(None) == measure.number(float("nan")) == "–"
    assert measure.table(["a", "b"], [[1, "x"]]) == "| a | b |\n|---|---|\n| 1 | x |"


def test_plot__is_xml_with_every_point_inside():
    picture = plot.Plot("a < b & c", "x", "y", log_x=True, log_y=True)
    picture.line("one", [(1, 10), (1000, 0.5), (0, 3)]).line("two", [(5, 5)]).line("none", [])
    root = tree.fromstring(picture.text())
    lines = [e for e in root.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2
    for line in lines:
        for pair in line.get("points").split():
            x, y = map(float, pair.split(","))
            assert plot.LEFT <= x <= plot.WIDTH - plot.RIGHT and plot.TOP <= y <= plot.HEIGHT - plot.BOTTOM
    assert any(e.text == "a < b & c" for e in root.iter())


def test_plot__without_lines_is_still_a_picture():
    tree.fromstring(plot.Plot("t", "x", "y").text())


def test_axis__has_round_ticks_within():
    for values, log in (([0.85, 1.0], False), ([3, 70000], True), ([5, 5], False), ([-2, 40], False)):
        axis = plot.Axis(values, log)
        assert 1 <= len(axis.ticks()) <= 16
        assert all(0 <= axis.share(v) <= 1 for v in axis.ticks())


def test_exact__is_the_sorted_inner_product():
    rng = np.random.default_rng(1)
    rows = data.unit(rng.standard_normal((300, 16)).astype(np.float32))
    rows[7] = rows[200]  # a tie goes to the lower row
    queries = data.unit(rng.standard_normal((20, 16)).astype(np.float32))
    queries[0] = rows[7]
    want = np.argsort(-(queries.astype(np.float64) @ rows.T.astype(np.float64)), axis=1, kind="stable")[:, :10]
    assert (data.exact(rows, queries, block=64, group=7) == want).all()
    few = data.exact(rows[:4], queries)
    assert (few[:, 4:] == -1).all() and (np.sort(few[:, :4]) == np.arange(4)).all()


def test_recall__counts_found_ones_and_short_truths_whole():
    assert data.recall([[1, 2, 3], [9, 8, 7]], [[1, 2, 4], [7, 8, 9]]) == pytest.approx(5 / 6)
    assert data.recall([[1, -1]], [[1, -1]]) == 1.0


def test_classes__fall_as_one_over_rank_and_hold_every_row():
    sizes = data.sizes_of(20000)
    assert sizes.sum() == 20000 and len(sizes) == 200 and (sizes > 0).all()
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.05)
    labels = data.classes_at_random(20000)
    assert (np.bincount(labels) == sizes).all()
    rows = data.unit(np.random.default_rng(2).standard_normal((5000, 8)).astype(np.float32))
    assert (np.bincount(data.classes_by_topic(rows, 20)) == data.sizes_of(5000, 20)).all()


def test_permit_of__comes_near_the_share():
    labels = data.classes_at_random(20000)
    for share in (0.01, 0.10, 0.50):
        chosen = data.permit_of(labels, share)
        assert chosen == sorted(set(chosen))
        assert share * 0.9 <= np.isin(labels, chosen).mean() <= share * 1.03


def test_grow__is_seeded_and_of_unit_length():
    base = data.unit(np.random.default_rng(3).standard_normal((50, 8)).astype(np.float32))
    a, b = (data.grow(base, data.shape_of(base), 100, 5) for _ in range(2))
    assert (a == b).all() and a.shape == (100, 8)
    assert np.linalg.norm(a, axis=1) == pytest.approx(np.ones(100), abs=1e-5)
    assert math.isfinite(float(a.sum()))


def test_free_name__leaves_an_earlier_drawing_alone(tmp_path):
    assert bench.free_name(str(tmp_path), "curve-9-5q") == "curve-9-5q"
    for name in ("curve-9-5q.svg", "curve-9-5q-2.svg"):
        (tmp_path / name).write_text("")
    assert bench.free_name(str(tmp_path), "curve-9-5q") == "curve-9-5q-3"
    assert bench.free_name(str(tmp_path), "curve-9-6q") == "curve-9-6q"
