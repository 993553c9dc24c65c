"""Pieces go from thread to thread, whatever fails or interrupts."""

from __future__ import annotations

import threading

import pytest

from toolkit.pack.writer.flow import Flow


def test_an_error_comes_up_however_often_one_puts() -> None:
    def make(piece: int) -> int:
        raise ZeroDivisionError

    flow: Flow[int, int] = Flow(make, print, 1)
    failures = 0
    while failures < 10:  # more than wait at a time
        try:
            flow.put(1)
        except ZeroDivisionError:
            failures += 1
    flow.abort()


def test_giving_up_waits_for_what_is_being_taken_after_an_interrupt() -> None:
    begun, go_on, taken = threading.Event(), threading.Event(), []

    def take(piece: int) -> None:
        begun.set()
        assert go_on.wait(60)
        taken.append(piece)

    flow: Flow[int, int] = Flow(lambda piece: piece, take, 1)
    flow.put(7)
    assert begun.wait(60)
    join = flow._thread.join

    def interrupted() -> None:
        flow._thread.join = join  # type: ignore[method-assign]
        threading.Timer(0.05, go_on.set).start()
        raise KeyboardInterrupt

    flow._thread.join = interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        flow.close()
    flow.abort()
    assert taken == [7]
    assert not flow._thread.is_alive()
