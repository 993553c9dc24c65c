"""Ctrl-C, as a real signal to a real process: it reaches the loop at once, and nothing else is said or left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from PIL import Image
from waiting import PATIENCE

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

SECONDS = 30.0  # half a second is what it takes, on a machine with nothing else to do; who isn't woken takes a minute

_PROGRAM = """
    import sys, threading, time
    import toolkit
    from toolkit import slot
    from toolkit.checks.verify import verify

    path = sys.argv[1]
    ds = toolkit.open(path, split="train")
    images = slot("image").decode_image().resize_short(64).center_crop(64)
    begun = threading.Barrier(2, action=lambda: print("begun", flush=True))  # of both threads of a loader
    said = threading.local()

    def say_once():
        if not hasattr(said, "begun"):
            said.begun = True
            begun.wait()

    def slow(value):
        say_once()
        time.sleep(2)
        return value

    def stuck(value):
        say_once()
        time.sleep(1e6)

    def function():  # 75 s
        with ds.loader(toolkit.pipeline(slot("label").python(slow, "object")), batch_size=75, threads=2) as loader:
            return list(loader)

    def never_returns():
        with ds.loader(toolkit.pipeline(slot("label").python(stuck, "object")), batch_size=6, threads=2) as loader:
            return list(loader)

    def batch_map():  # 75 s
        made = toolkit.pipeline(images, batch_maps=[lambda columns, rng: slow(columns)])
        return [batch.epoch for batch in ds.loader(made, batch_size=2, threads=2)]

    def budget():
        loader = ds.loader(toolkit.pipeline(images), batch_size=30, max_bytes=600_000, hold_timeout=75)
        return list(loader)

    def full_batch():
        large = toolkit.pipeline(slot("image").decode_image().resize_short(2500).center_crop(2500))
        return [batch.epoch for batch in ds.loader(large, batch_size=16, threads=2, prefetch=0, epochs=100)]

    def busy():
        return [batch.epoch for batch in ds.loader(toolkit.pipeline(images), batch_size=2, threads=2, epochs=10**6)]

    def opening():
        while True:
            toolkit.open(path, split="train")

    def verifying():  # once: what Python runs when threads of a pool are collected can lose an interrupt
        verify(path, full=True, decode=True, jobs=2)

    def left():
        return [thread for thread in threading.enumerate() if thread.name.startswith("toolkit")]

    try:
        if sys.argv[2] not in ("function", "never_returns", "batch_map"):  # where the functions say it
            print("begun", flush=True)
        globals()[sys.argv[2]]()
    except KeyboardInterrupt:
        print("caught", flush=True)
        until = time.monotonic() + 75
        while left() and time.monotonic() < until and sys.argv[2] != "never_returns":
            time.sleep(0.01)
        print(len(left()), flush=True)
        raise
"""
_OFTEN = textwrap.dedent(
    """
    import os, random, signal, sys, time
    reader, writer = os.pipe()
    if os.fork() == 0:  # a process that is asked for an interrupt, and sends it a little later
        os.close(writer)
        while os.read(reader, 1):
            time.sleep(random.uniform(0.005, 0.03))
            os.kill(os.getppid(), signal.SIGINT)
        os._exit(0)

    import toolkit
    from toolkit import slot

    path, what, count = sys.argv[1:]
    ds = toolkit.open(path, split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize_short(64).center_crop(64))

    def opened():
        while True:
            yield toolkit.open(path, split="train")

    caught = 0
    for _ in range(int(count)):
        loader = ds.loader(steps, batch_size=2, threads=2, epochs=10**6)
        try:
            os.write(writer, b"x")
            until = time.monotonic() + 60
            for batch in loader if what == "busy" else opened():
                if time.monotonic() > until:
                    break
        except KeyboardInterrupt:
            caught += 1
        loader.close()
    print("caught", caught)
    """
)
_CASES = ["function", "never_returns", "batch_map", "budget", "full_batch", "busy", "opening", "verifying"]


@pytest.fixture
def slow_to_verify(tmp_path: Path) -> Path:
    """A dataset of 320 pictures of 32 megapixels each, whose verification takes a minute."""
    folder = tmp_path / "src" / "train" / "black"
    folder.mkdir(parents=True)
    Image.new("RGB", (8000, 4000)).save(folder / "0.png", compress_level=1)
    for i in range(1, 320):
        os.link(folder / "0.png", folder / f"{i}.png")
    pack(PackJob(source=str(tmp_path / "src"), dataset=str(tmp_path / "ds"), shard_size=1_000_000))
    return tmp_path / "ds"


@pytest.mark.parametrize("case", _CASES)
def test_an_interrupt_reaches_the_loop_and_ends_the_process(
    packed: Path, case: str, request: pytest.FixtureRequest
) -> None:
    dataset = request.getfixturevalue("slow_to_verify") if case == "verifying" else packed
    command = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(dataset), case]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        too_long = threading.Timer(PATIENCE, process.kill)
        too_long.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(0.5)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "caught\n"
            caught = time.monotonic() - begun
            threads, errors = process.stdout.read(), process.stderr.read()
            process.wait(PATIENCE)
            ended = time.monotonic() - begun
        finally:
            too_long.cancel()
            process.kill()
    print(f"{case}: caught after {caught:.2f} s, ended after {ended:.2f} s")
    assert max(caught, ended) < SECONDS
    assert process.returncode == -signal.SIGINT
    assert int(threads) == (2 if case == "never_returns" else 0)
    assert errors.startswith("Traceback (most recent call last):")
    assert errors.endswith("KeyboardInterrupt\n")
    assert errors.count("Traceback") == 1
    assert "ignored" not in errors


@pytest.mark.parametrize(("what", "count"), [("busy", 100), ("opening", 300)])
def test_a_busy_loop_loses_no_interrupt(packed: Path, what: str, count: int) -> None:
    """Python prints an interrupt that hits a finalizer, and goes on."""
    command = [sys.executable, "-c", _OFTEN, str(packed), what, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"caught {count}\n", "")
