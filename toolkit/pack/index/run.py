"""Index a source: pack it, with its media where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from toolkit.pack.index.job import IndexJob, IndexResult
from toolkit.pack.passes import Progress
from toolkit.pack.run import packing
from toolkit.storage.local import LocalStore
from toolkit.storage.roots import Roots

__all__ = ["index", "indexing"]


def index(job: IndexJob, progress: Progress = lambda *_: None) -> IndexResult:
    """Carry out `job`; return what was indexed. Kills and errors are as toolkit.pack.run.pack() has them."""
    with indexing(job, progress) as result:
        return result


@contextlib.contextmanager
def indexing(job: IndexJob, progress: Progress = lambda *_: None) -> Iterator[IndexResult]:
    """Carry out `job`, and forget what a stopped index goes on from only when the block has ended well."""
    with packing(job, progress) as packed:
        roots = Roots(LocalStore(job.dataset))
        yield IndexResult.of(packed, job.trust, {name: roots.path(name, "").rstrip("/") for name in roots.names()})
