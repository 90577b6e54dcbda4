"""The GPU benchmark: its arithmetic, its way out without a device, and the whole of it on
the emulated module (figures of no meaning there)."""
import os
import subprocess
import sys

import gpu_bench
import numpy as np
import pytest

BUILD = os.environ.get("BW_BUILD", "")
EMULATED = os.path.join(BUILD, "tests", "gpu_bench_emulated")
REPLY = {"card": "C", "rows": 1000, "dtype": "f16", "percent": 50, "mode": "bits", "batch": 4, "qps": 200.0,
         "p50_ms": 1.0, "p99_ms": 2.0, "bytes": 1e9, "flops": 4e9, "checked": 3, "differ": 0}


def test_chunk_rows__fit_and_hold_k():
    assert gpu_bench.chunk_rows(20000000, 4096, 2, 2 << 30) == 262144
    assert gpu_bench.chunk_rows(1000, 1, 2, 2 << 30) == 1000
    assert gpu_bench.chunk_rows(1000, 4096, 4, 1) == gpu_bench.K


def test_permitted_rows__are_the_first_segments():
    assert gpu_bench.permitted_rows(1000000, 100, 10) == 100000
    assert gpu_bench.permitted_rows(1000000, 100, 100) == 1000000
    assert gpu_bench.permitted_rows(700, 5, 1) == 140
    assert gpu_bench.permitted_rows(701, 5, 50) == 423
    assert gpu_bench.permitted_rows(701, 5, 100) == 701


def test_recall__is_by_id():
    assert gpu_bench.recall([[1, 2], [3, 4]], [[2, 1], [3, 5]]) == 0.75
    assert gpu_bench.recall([[1, 2]], [[]]) == 0


def test_row_of__gives_shares_and_the_ratio():
    row = dict(zip(gpu_bench.HEAD, gpu_bench.row_of([REPLY], [{"qps": 50.0, "recall": 0.99}], 100.0, 1.0)))
    assert row["bytes"] == "50 %"  # 1 GB in 4/200 s of 100 GB/s
    assert row["products"] == "20 %"
    assert row["recall"] == "1.0 of 3"
    assert row["ratio"].startswith("4.00")
    alone = dict(zip(gpu_bench.HEAD, gpu_bench.row_of([dict(REPLY, differ=1)], [], None, None)))
    assert alone["recall"] == "1 differ of 3" and alone["ratio"] == "–" and alone["bytes"] == "–"


def test_settings__take_all_rows_once():
    assert gpu_bench.settings([100, 1]) == [("segments", 100), ("segments", 1), ("bits", 1)]
    assert gpu_bench.settings([50]) == [("segments", 50), ("bits", 50)]


def run(*words):
    return subprocess.run([sys.executable, gpu_bench.__file__] + list(words), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=900)


def test_gpu_bench__says_what_is_missing_and_leaves_with_77(tmp_path):
    driver = os.path.join(BUILD, "tests", "gpu_bench")
    if not os.path.exists(driver):
        pytest.skip("gpu_bench is not built")
    done = run("--driver", driver, "--folder", str(tmp_path), "--n", "100")  # no module there
    assert done.returncode == 77, done.stdout + done.stderr
    assert "not run: module:" in done.stdout


@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_driver__gives_a_peer_its_rows_and_the_exact_answers(tmp_path, dtype):
    if not os.path.exists(EMULATED):
        pytest.skip("gpu_bench_emulated is not built")
    driver = gpu_bench.Driver(EMULATED, [("n", 203), ("dim", 12), ("segments", 4), ("pool", 6), ("check", 5),
                                         ("dtype", dtype), ("workspace-mb", 24), ("pinned-mb", 4),
                                         ("percents", "50,10")])
    path = str(tmp_path / "part")

    def read(what, kind, *words):
        driver.ask(what, path, *words)
        return np.fromfile(path, dtype=kind)
    rows = np.concatenate([read("rows", np.float32, 0, 100), read("rows", np.float32, 100, 1000)]).reshape(-1, 12)
    queries = read("queries", np.float32).reshape(-1, 12)
    assert rows.shape == (203, 12) and queries.shape == (6, 12)
    keys = queries[:5].astype(np.float64) @ rows.astype(np.float64).T
    for percent in (50, 10):
        first = np.arange(203) < gpu_bench.permitted_rows(203, 4, percent)
        drawn = read("mask", np.uint8, percent) == 1
        assert 0.2 * percent < 100 * drawn.mean() < 3 * percent
        for mode, allowed in (("segments", first), ("bits", drawn)):
            exact = driver.ask("exact", mode, percent)["exact"]
            k = min(gpu_bench.K, int(allowed.sum()))
            best = np.argsort(-np.where(allowed, keys, -np.inf), axis=1)[:, :k]
            assert exact == best.tolist()
    assert driver.close() == 0


def test_gpu_bench__runs_from_end_to_end_on_the_emulated_module():
    if not os.path.exists(EMULATED):
        pytest.skip("gpu_bench_emulated is not built")
    done = run("--driver", EMULATED, "--folder", "", "--n", "300", "--dim", "16", "--segments", "2", "--dtypes",
               "f16,i8", "--batches", "3", "--percents", "100,50", "--rounds", "1", "--ms", "1", "--pool", "8",
               "--check", "4", "--workspace-mb", "24", "--pinned-mb", "4", "--gbps", "1", "--tflops", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| Emulated")]
    assert len(lines) == 6
    assert all("| 1.0 of " in line for line in lines)
