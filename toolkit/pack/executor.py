"""Run tasks on local threads, results in task order, a bounded number ahead.

Threads are enough: a pack that keeps the source's bytes spends its time in reads, hashes and writes, which all release
the GIL. Another executor (Ray) has to offer the same one function.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["run_in_order"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def run_in_order(
    function: Callable[[_In], _Out], tasks: Iterable[_In], jobs: int, cancelled: threading.Event
) -> Iterator[_Out]:
    """Yield function(task) for each task in order, `jobs` at a time.

    The first error in task order is raised, after `cancelled` was set and every running task has ended; so it is when
    the caller stops early.
    """
    ahead: deque[Future[_Out]] = deque()
    with ThreadPoolExecutor(jobs, thread_name_prefix="toolkit-pack") as pool:
        try:
            for task in tasks:
                ahead.append(pool.submit(function, task))
                if len(ahead) > jobs:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BaseException:
            cancelled.set()
            for future in ahead:
                future.cancel()
            raise
