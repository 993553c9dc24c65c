"""Index a source: pack it, with its media where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from toolkit.errors import UsageError
from toolkit.pack.index.job import IndexJob, IndexResult
from toolkit.pack.passes import Progress
from toolkit.pack.run import packing
from toolkit.storage.local import LocalStore
from toolkit.storage.roots_file import followed, read_roots

__all__ = ["index", "indexing"]

_NO_KEY = (
    "your key can't be kept, which would prove later that you wrote this dataset's roots.json: name its roots when you "
    "open it (roots=, --roots), or let $XDG_STATE_HOME name a folder of your own and index again"
)


def index(job: IndexJob, progress: Progress = lambda *_: None) -> IndexResult:
    """Carry out `job`; return what was indexed. Kills and errors are as toolkit.pack.run.pack() has them."""
    with indexing(job, progress) as result:
        return result


@contextlib.contextmanager
def indexing(job: IndexJob, progress: Progress = lambda *_: None) -> Iterator[IndexResult]:
    """Carry out `job`, and forget what a stopped index goes on from only when the block has ended well."""
    with packing(job, progress) as packed:
        store = LocalStore(job.dataset)
        result = IndexResult.of(packed, job.trust, read_roots(store).of(packed.pin))
        try:
            followed(store, packed.pin)
        except UsageError:
            result = replace(result, warnings=(*result.warnings, _NO_KEY))
        yield result
