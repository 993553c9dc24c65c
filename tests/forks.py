"""Children forked from the process of the tests itself."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import warnings
from collections.abc import Callable

__all__ = ["forked"]


def forked(target: Callable[..., object], *args: object) -> multiprocessing.process.BaseProcess:
    """Start a child forked from this process, of which JAX and Python warn where another test has started threads."""
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child.start()
    return child
