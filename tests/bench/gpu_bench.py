#!/usr/bin/env python3
"""The GPU module beside its own limits and beside PyTorch's matmul + topk, on one card.

  python tests/bench/gpu_bench.py [--n 1000000,20000000] [--dtypes f16,bf16,i8,f32]
      [--batches 1,8,64,256,1024,4096] [--percents 100,50,10,1] [--rounds 5] [--write]

First the card's rates (a copy of device memory, a large product), then for each size and
precision both hold the same rows and take turns within a round; medians of the rounds.
PyTorch: f16 and bf16 as stored, int8 as f16 (its int8 product has no topk to go with), f32
with TF32 allowed; chunks whose scores fit into --chunk-mb, topk of each and of all. Under
`segments` it gets the permitted rows as one slice, under `bits` a mask over the scores.
Its recall is by id against the CPU's exact answers of a few queries; ours is the driver's
check, which ends the run when an id or a bit differs.

77 and a line that says what is missing, where there is no module, driver or device.
Without PyTorch, or without a device for it, our part runs alone, shares of the paper's
bandwidth left out unless --gbps and --tflops say what the card can do.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BW_BUILD", os.path.join(SOURCE, "build", "release"))
SKIPPED = 77
K = 10
HEAD = ("card", "rows", "precision", "permitted", "batch", "QPS", "p50 ms", "p99 ms", "bytes", "products",
        "recall", "PyTorch QPS", "its recall", "ratio")


class Missing(Exception):
    """No module, driver or device."""


class Driver:
    """gpu_bench on the other end of two pipes."""

    def __init__(self, binary, options):
        if not os.path.exists(binary):
            raise Missing("driver program: %s is not built" % os.path.basename(binary))
        self.process = subprocess.Popen([binary] + [str(w) for pair in options for w in pair],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"failed": "its process ended with %d" % self.process.wait()}
        if "missing" in reply:
            self.process.communicate()
            raise Missing("%s: %s" % (reply["missing"], reply["not_run"]))
        if "failed" in reply:
            raise RuntimeError(reply["failed"])
        return reply

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        """Its exit status: not 0 when an answer differed from the CPU's."""
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(300)


# ---- pure ----
def chunk_rows(n, batch, score_bytes, chunk_bytes):
    """Rows whose scores for a batch fit into chunk_bytes, at least K and at most all."""
    return max(K, min(n, chunk_bytes // (batch * score_bytes)))


def permitted_rows(n, segments, percent):
    """Rows of the first segments that `percent` of them are, as the driver cuts them."""
    each = -(-n // segments)
    return min(n, each * max(1, -(-segments * percent // 100)))


def recall(got, want):
    """Share of the wanted ids that were found; lists of lists."""
    found = sum(len(set(g) & set(w)) for g, w in zip(got, want))
    return found / max(1, sum(len(w) for w in want))


def settings(percents):
    """(mode, percent) in which both can take part; all rows once."""
    return [(m, p) for p in percents for m in (("segments",) if p == 100 else ("segments", "bits"))]


def share(amount, seconds, rate):
    return amount / seconds / rate if rate else None


def row_of(ours, theirs, gbps, tflops):
    """A line of the table: ours and theirs are the rounds' replies of one setting."""
    last, qps = ours[-1], measure.median([r["qps"] for r in ours])
    seconds = last["batch"] / qps
    peer = measure.median([t["qps"] for t in theirs]) if theirs else None
    ratio = measure.bootstrap([(a["qps"], b["qps"]) for a, b in zip(ours, theirs)]) if theirs else None
    checked, differ = (sum(r[f] for r in ours) for f in ("checked", "differ"))
    by_ids = "%s of %d" % ("1.0" if differ == 0 else "%d differ" % differ, checked) if checked else "not checked"

    def percent(v):
        return "–" if v is None else "%.0f %%" % (100 * v)
    return (last["card"], "{:,}".format(last["rows"]), last["dtype"], "%d %% %s" % (last["percent"], last["mode"]),
            last["batch"], measure.number(qps), measure.number(measure.median([r["p50_ms"] for r in ours]), 3),
            measure.number(measure.median([r["p99_ms"] for r in ours]), 3),
            percent(share(last["bytes"], seconds, gbps and gbps * 1e9)),
            percent(share(last["flops"], seconds, tflops and tflops * 1e12)), by_ids, measure.number(peer),
            measure.number(theirs[-1]["recall"], 4) if theirs else "–", measure.interval(ratio))


# ---- the peer ----
class Torch:
    """The driver's rows on the same card."""

    def __init__(self, torch, driver, dtype, folder, chunk_bytes):
        import numpy
        self.torch, self.np, self.chunk_bytes = torch, numpy, chunk_bytes
        self.n, self.dim = driver.ready["ready"], driver.ready["dim"]
        self.type = {"f32": torch.float32, "bf16": torch.bfloat16}.get(dtype, torch.float16)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.rows = torch.empty((self.n, self.dim), dtype=self.type, device="cuda")
        path, part = os.path.join(folder, "part"), 1000000
        for at in range(0, self.n, part):
            driver.ask("rows", path, at, part)
            block = numpy.fromfile(path, dtype=numpy.float32).reshape(-1, self.dim)
            self.rows[at:at + len(block)] = torch.from_numpy(block).to("cuda").to(self.type)
        driver.ask("queries", path)
        self.pool = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32).reshape(-1, self.dim)).to("cuda")
        self.segments, self.driver, self.path = driver.ready["segments"], driver, path
        self.masks, self.exact = {}, {}

    def mask(self, percent):
        if percent not in self.masks:
            self.driver.ask("mask", self.path, percent)
            bytes_ = self.np.fromfile(self.path, dtype=self.np.uint8)
            self.masks[percent] = self.torch.from_numpy(bytes_).to("cuda") == 0
        return self.masks[percent]

    def best(self, queries, mode, percent, rows=None):
        """Ids of the K best of each query, best first."""
        torch, rows = self.torch, self.rows if rows is None else rows
        n = permitted_rows(self.n, self.segments, percent) if mode == "segments" else self.n
        step = chunk_rows(n, len(queries), rows.element_size(), self.chunk_bytes)
        keys, ids = [], []
        for at in range(0, n, step):
            end = min(n, at + step)
            scores = queries @ rows[at:end].T
            if mode == "bits":
                scores.masked_fill_(self.mask(percent)[at:end], float("-inf"))
            top = torch.topk(scores, min(K, end - at), dim=1)
            keys.append(top.values)
            ids.append(top.indices + at)
        keys, ids = torch.cat(keys, 1), torch.cat(ids, 1)
        return ids.gather(1, torch.topk(keys, min(K, n), dim=1).indices)

    def run(self, batch, mode, percent, ms, exact):
        torch = self.torch
        self.best(self.pool[:batch].to(self.type), mode, percent)  # warm
        torch.cuda.synchronize()
        start, asked = time.perf_counter(), 0
        while asked < 3 * batch or time.perf_counter() - start < ms / 1e3:
            first = asked % max(1, len(self.pool) - batch + 1)
            self.best(self.pool[first:first + batch].to(self.type), mode, percent).cpu()
            asked += batch
        seconds = time.perf_counter() - start
        got = self.best(self.pool[:len(exact)].to(self.type), mode, percent).tolist()
        return {"qps": asked / seconds, "recall": recall(got, exact)}


def rates(torch):
    """Of the card, measured: GB/s that a copy of 4 GiB moves (read and written), and
    10^12 operations a second of a product in f16, the form of f16 and f32 rows."""
    a = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)

    def best_of(work):
        work()
        torch.cuda.synchronize()
        times = []
        for _ in range(10):
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return measure.median(times)
    gbps = 2 * a.numel() / best_of(lambda: b.copy_(a)) / 1e9
    tflops = 2 * 8192 ** 3 / best_of(lambda: x @ x) / 1e12
    del a, b, x
    torch.cuda.empty_cache()
    return gbps, tflops


def torch_or_none():
    try:
        import torch
    except ImportError:
        return None, "PyTorch is not installed"
    if not torch.cuda.is_available():
        return None, "PyTorch sees no device"
    return torch, "PyTorch %s" % torch.__version__


# ---- the rounds ----
def one(options, n, dtype, torch, gbps, tflops, folder):
    """Lines of the table for one size and precision."""
    words = [("n", n), ("dim", options.dim), ("dtype", dtype), ("k", K), ("segments", options.segments),
             ("percents", ",".join(str(p) for p in options.percents)), ("pool", options.pool),
             ("check", options.check), ("workspace-mb", options.workspace_mb), ("pinned-mb", options.pinned_mb)]
    words += [("folder", options.folder)] if options.folder else []
    words += [("npy", options.npy)] if options.npy else []
    driver = Driver(options.driver, words)
    driver.ready["segments"] = min(options.segments, driver.ready["ready"])
    peer = Torch(torch, driver, dtype, folder, options.chunk_mb << 20) if torch else None
    lines = []
    for mode, percent in settings(options.percents):
        exact = driver.ask("exact", mode, percent)["exact"] if peer else None
        for batch in options.batches:
            ours, theirs = [], []
            for turn in range(options.rounds):
                for who in ((0, 1), (1, 0))[turn % 2]:
                    if who == 0:
                        ours.append(driver.ask("run", batch, mode, percent, options.ms))
                    elif peer:
                        theirs.append(peer.run(batch, mode, percent, options.ms, exact))
            if any("not_run" in r for r in ours):
                print("batch %d: %s" % (batch, ours[-1].get("not_run")), file=sys.stderr)
                continue
            for r in ours:
                print(json.dumps(r), file=sys.stderr, flush=True)
            lines.append(row_of(ours, theirs, gbps, tflops))
    if driver.close() != 0:
        raise RuntimeError("answers differ from the CPU's")
    return lines


def numbers(text):
    return [int(w) for w in text.split(",")]


def arguments(argv):
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--n", type=numbers, default=[1000000, 20000000])
    a.add_argument("--npy", help="rows from a file instead")
    a.add_argument("--dim", type=int, default=384)
    a.add_argument("--dtypes", type=lambda t: t.split(","), default=["f16", "bf16", "i8", "f32"])
    a.add_argument("--batches", type=numbers, default=[1, 8, 64, 256, 512, 1024, 4096])
    a.add_argument("--percents", type=numbers, default=[100, 50, 10, 1])
    a.add_argument("--segments", type=int, default=100)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--ms", type=int, default=400, help="of each turn")
    a.add_argument("--pool", type=int, default=8192)
    a.add_argument("--check", type=int, default=8)
    a.add_argument("--workspace-mb", type=int, default=512)
    a.add_argument("--pinned-mb", type=int, default=64)
    a.add_argument("--chunk-mb", type=int, default=2048, help="of PyTorch's scores at a time")
    a.add_argument("--gbps", type=float, help="instead of measuring")
    a.add_argument("--tflops", type=float)
    a.add_argument("--folder", default=BUILD, help="with bailiwick_cuda.so; empty: where the cell looks")
    a.add_argument("--driver", default=os.path.join(BUILD, "tests", "gpu_bench"))
    a.add_argument("--write", action="store_true", help="append the table to RESULTS.md")
    return a.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    torch, peer = torch_or_none()
    folder = tempfile.mkdtemp(prefix="bw-gpu-")
    lines = []
    try:
        gbps, tflops = rates(torch) if torch else (None, None)
        gbps, tflops = options.gbps or gbps, options.tflops or tflops
        for n in options.n:
            for dtype in options.dtypes:
                lines += one(options, n, dtype, torch, gbps, tflops, folder)
                if torch:
                    torch.cuda.empty_cache()
    except Missing as e:
        print("not run: %s" % e)
        return SKIPPED
    finally:
        shutil.rmtree(folder)
    text = "GPU, k = %d, %d rounds of %d ms, %s; card: %s GB/s copied, %s TFLOP/s in f16; %s.\n\n%s\n" % (
        K, options.rounds, options.ms, peer, measure.number(gbps), measure.number(tflops), measure.machine(),
        measure.table(HEAD, lines))
    print(text)
    if options.write:
        with open(os.path.join(HERE, "RESULTS.md"), "a", encoding="utf-8") as f:
            f.write("\n## %s: GPU\n%s" % (time.strftime("%Y-%m-%d", time.gmtime()), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
