"""The rows, queries, classes and true answers of a run, made once and kept in a folder
(BW_BENCH_CACHE, by default beside what server/deps.sh installs) as .npy files.

Growing, seeded: pick a real row, add Gaussian noise shaped by the data's principal axes
with the median distance to a tenth neighbour (0.927) as its length, renormalise. The first
500 queries are the stored ones, those beyond are grown from the 500 in the same way:
10,000 of them give a recall within some 0.1 %.
"""
import hashlib
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SHARED = os.environ.get("BW_SHARED", os.path.join(SOURCE, "..", "shared"))
DEPS = os.environ.get("BW_DEPS", os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.join(os.path.expanduser("~"), ".cache")), "bailiwick"))
CACHE = os.environ.get("BW_BENCH_CACHE", os.path.join(DEPS, "bench"))
K = 10
NOISE = 0.927
SEED = 20261130
CLASSES = 200


def unit(x):
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)


def stored(name):
    return unit(np.load(os.path.join(SHARED, "bench", name)).astype(np.float32))


def shape_of(rows):
    """dim × dim: standard normals times this have the rows' covariance."""
    values, axes = np.linalg.eigh(np.cov((rows - rows.mean(axis=0)).T))
    return (axes * np.sqrt(np.maximum(values, 0))).T.astype(np.float32)


def grow(base, shape, n, seed):
    rng = np.random.default_rng(seed)
    out = []
    for begin in range(0, n, 50000):
        m = min(50000, n - begin)
        noise = rng.standard_normal((m, base.shape[1]), dtype=np.float32) @ shape
        noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
        out.append(unit(base[rng.integers(0, len(base), m)] + noise))
    return np.concatenate(out) if out else base[:0]


def kept(name, make):
    """The array of a cache file, read through a mapping; made first where it is missing."""
    path = os.path.join(CACHE, name + ".npy")
    if not os.path.exists(path):
        os.makedirs(CACHE, exist_ok=True)
        part = "%s.%d.npy" % (path, os.getpid())
        np.save(part, make())
        os.replace(part, path)
    return np.load(path, mmap_mode="r"), path


class Set:
    """n rows, nq queries (the first `real` of them stored ones), their true ten over all rows."""

    def __init__(self, n, nq):
        self.n, self.nq, self.real = n, nq, min(nq, 500)
        self.rows, self.rows_path = kept("rows-%d" % n, self._rows)
        self.queries, self.queries_path = kept("queries-%d" % nq, self._queries)
        self.dim = self.rows.shape[1]

    def _rows(self):
        real = stored("minilm-20k.f16.npy")
        return np.concatenate([real[:self.n], grow(real, shape_of(real), max(0, self.n - len(real)), SEED)])

    def _queries(self):
        real = stored("minilm-queries-500.f16.npy")
        if self.nq <= len(real):
            return real[:self.nq]
        shape = shape_of(stored("minilm-20k.f16.npy"))
        return np.concatenate([real, grow(real, shape, self.nq - len(real), SEED + 1)])

    def truth(self):
        return kept("truth-%d-%d" % (self.n, self.nq), lambda: exact(self.rows, self.queries))[0]

    def truth_among(self, allowed, name):
        """The true ten among the rows of a boolean mask."""
        digest = hashlib.blake2b(np.packbits(allowed).tobytes(), digest_size=8).hexdigest()

        def make():
            which = np.flatnonzero(allowed)
            found = exact(self.rows[which], self.queries)
            return np.where(found < 0, -1, which[found])
        return kept("truth-%d-%d-%s-%s" % (self.n, self.nq, name, digest), make)[0]


def exact(rows, queries, k=K, block=8192, group=1000):
    """nq × k row numbers by inner product, ties by row; -1 where there are fewer rows.

    Single precision finds 4k candidates a query (a block's products against the 4k-th best
    so far), double precision orders them.
    """
    out = np.full((len(queries), k), -1, dtype=np.int64)
    for begin in range(0, len(queries), group):
        q = np.asarray(queries[begin:begin + group])
        for i, near in enumerate(candidates(rows, q, 4 * k, block)):
            d = np.asarray(rows[near], dtype=np.float64) @ q[i].astype(np.float64)
            best = near[np.lexsort((near, -d))][:k]
            out[begin + i, :len(best)] = best
    return out


def candidates(rows, q, m, block):
    """For each query the row numbers of its m largest products, rising."""
    top = np.full((len(q), m), -np.inf, dtype=np.float32)  # the m best so far, unordered
    which = np.full((len(q), m), -1, dtype=np.int64)
    for begin in range(0, len(rows), block):
        s = q @ np.asarray(rows[begin:begin + block]).T
        floor = top.min(axis=1)
        for i in np.flatnonzero((s > floor[:, None]).any(axis=1)):
            better = np.flatnonzero(s[i] > floor[i])
            scores = np.concatenate([top[i], s[i, better]])
            keep = np.argpartition(-scores, m - 1)[:m]
            numbers = np.concatenate([which[i], begin + better])
            top[i], which[i] = scores[keep], numbers[keep]
    return [np.sort(w[w >= 0]) for w in which]


def recall(found, truth):
    """Mean share of the true ones that were found; truths shorter than k count whole."""
    shares = []
    for a, b in zip(found, truth):
        want = set(int(x) for x in b if x >= 0)
        if want:
            shares.append(len(want & set(int(x) for x in a)) / len(want))
    return float(np.mean(shares))


# ---- classes ----
def sizes_of(n, classes=CLASSES):
    """Class sizes falling as 1/rank, together n."""
    weights = 1.0 / np.arange(1, classes + 1)
    sizes = np.floor(n * weights / weights.sum()).astype(np.int64)
    sizes[0] += n - sizes.sum()
    return sizes


def classes_at_random(n, classes=CLASSES):
    """u32 class number of each row, drawn at random."""
    labels = np.repeat(np.arange(classes, dtype=np.uint32), sizes_of(n, classes))
    return np.random.default_rng(SEED + 2).permutation(labels)


def classes_by_topic(rows, classes=CLASSES):
    """u32 class number of each row: as many topics as classes, found by k-means on 20,000
    rows; the sizes 1/rank are cut along the order of the topics (each row by its centre,
    centres by their first principal axis), so a class is one topic, some, or part of one."""
    sample = np.asarray(rows[:20000])
    centres = kmeans(sample, classes)
    axis = shape_of(centres)[-1]
    order = np.argsort(np.argsort(centres @ axis))  # place of each centre along the axis
    place = np.concatenate([
        order[np.argmax(np.asarray(rows[b:b + 16384]) @ centres.T, axis=1)]
        for b in range(0, len(rows), 16384)])
    by_topic = np.argsort(place, kind="stable")
    cut = np.random.default_rng(SEED + 4).permutation(classes)  # which class comes where
    labels = np.empty(len(rows), dtype=np.uint32)
    labels[by_topic] = np.repeat(cut.astype(np.uint32), sizes_of(len(rows), classes)[cut])
    return labels


def kmeans(rows, k, passes=12):
    rng = np.random.default_rng(SEED + 3)
    centres = rows[rng.choice(len(rows), k, replace=False)]
    for _ in range(passes):
        nearest = np.argmax(rows @ centres.T, axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, rows)
        empty = np.flatnonzero(np.bincount(nearest, minlength=k) == 0)
        sums[empty] = rows[rng.choice(len(rows), len(empty), replace=False)]
        centres = unit(sums)
    return centres


def permit_of(labels, share):
    """Classes whose rows together come nearest below or at a share of all rows, drawn in a
    seeded order: sorted class numbers (at least one)."""
    sizes = np.bincount(labels)
    chosen, total, want = [], 0, share * len(labels)
    for c in np.random.default_rng(SEED + 5 + int(share * 1000)).permutation(len(sizes)):
        if total + sizes[c] <= want * 1.02:
            chosen.append(int(c))
            total += int(sizes[c])
    return sorted(chosen) or [int(np.argmin(sizes))]
