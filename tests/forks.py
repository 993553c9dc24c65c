"""Children forked from the process of the tests itself."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.process
import warnings
from collections.abc import Callable, Iterator

__all__ = ["forked", "unheard"]


def forked(target: Callable[..., object], *args: object) -> multiprocessing.process.BaseProcess:
    """Start a child forked from this process."""
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    with unheard():
        child.start()
    return child


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Hear no warnings: JAX and Python warn of a fork where another test has started threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
