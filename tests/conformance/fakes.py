"""Embeddings that need no model: the same text gives the same vector everywhere."""
import hashlib
import math

WORDS = "alpha beta gamma delta epsilon zeta eta theta".split()


def dense(text, size=8):
    """A unit vector from the text's hash."""
    raw = hashlib.sha256(text.encode()).digest()
    v = [(raw[i] - 127.5) / 127.5 for i in range(size)]
    n = math.sqrt(sum(x * x for x in v))
    return [x / n for x in v]


def sparse(text):
    """(indices, values): one for each word, by its count."""
    counts = {}
    for w in text.lower().split():
        k = int.from_bytes(hashlib.md5(w.encode()).digest()[:4], "big")
        counts[k] = counts.get(k, 0) + 1
    return list(counts), [float(c) for c in counts.values()]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
