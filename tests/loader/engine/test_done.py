"""What tells a consumer that a batch is done: once said, one wait sees it, whoever says it and how often."""

from __future__ import annotations

import threading
import time

from waiting import PATIENCE

from toolkit.loader.engine.done import Done


def test_one_wait_sees_what_was_said() -> None:
    done = Done()
    assert not done.is_set()
    assert not done.wait(0.01)
    done.set()
    done.set()
    assert done.is_set()
    assert done.wait(PATIENCE)
    assert not done.is_set()
    assert not done.wait(0)


def test_a_wait_ends_when_it_is_said_and_when_its_time_is_over() -> None:
    done, begun = Done(), time.monotonic()
    threading.Timer(0.1, done.set).start()
    while not done.wait(0.001):
        assert time.monotonic() - begun < PATIENCE
    assert time.monotonic() - begun >= 0.1
