"""Fixtures of the client suites: one open cell a module, a client, a fresh name."""
import hashlib
import itertools
import os
import sys
import warnings

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from cell import Cell  # noqa: E402

COUNTER = itertools.count(1)


@pytest.fixture(scope="module")
def cell():
    with Cell(dev=True) as c:
        yield c


@pytest.fixture(scope="module")
def client(cell):
    from qdrant_client import QdrantClient
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a version that clients doubt is a failure
        c = QdrantClient(url=cell.url, timeout=60)
        yield c
        c.close()


@pytest.fixture
def name(cell):
    n = "c%d_%s" % (next(COUNTER), hashlib.sha1(os.urandom(8)).hexdigest()[:6])
    yield n
    cell.delete("/collections/" + n)
