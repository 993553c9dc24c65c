"""The SIGBUS guard: a shard cut short while open is a status; any other SIGBUS does what it did before."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import PATIENCE

from toolkit._native.shards import body as module

PRELUDE = """
import faulthandler, mmap, os, signal, sys, threading
import numpy as np
from toolkit._native.shards import body as module
from toolkit._native.shards.body import Body, ShardMap
from toolkit._native.shards.fetch import FetchBuffer, fetch_binary, fetch_bytes, fetch_fixed
from toolkit._native.shards.sums import ChunkSums
path = sys.argv[1]
def body(size=200_000):
    open(path, "wb").write(bytes(size))
    sums = ChunkSums(); sums.update(bytes(size))
    with open(path, "rb") as file:
        return Body(ShardMap(file.fileno(), size), 0, size, 1, sums.digest(), np.empty((0, 2), np.int64))
def cut(): os.truncate(path, 0)
def read(b): return b.read(0, np.empty(200_000, np.uint8))
def real_fault():
    with open(path, "w+b") as file:
        file.truncate(8192); m = mmap.mmap(file.fileno(), 8192); file.truncate(0)
    return m[4096]
"""


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(tmp_path / "s")]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def lives(code: str, tmp_path: Path) -> None:
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def dies(code: str, tmp_path: Path) -> str:
    done = run(code, tmp_path)
    assert done.returncode == -signal.SIGBUS, (done.returncode, done.stderr[-2000:])
    return done.stderr


READS = """
assert read(b)[0] == module.READ_FAULT
assert read(b)[0] == module.READ_FAULT
print("alive")
"""


@pytest.mark.parametrize("touched", ["pass", "read(b)"], ids=["unchecked", "checked"])
def test_a_file_that_is_cut_short_while_open_is_a_status(tmp_path: Path, touched: str) -> None:
    lives(f"b = body(); {touched}; cut()" + READS, tmp_path)


def test_faulthandler_enabled_before(tmp_path: Path) -> None:
    lives("faulthandler.enable(); b = body(); cut()" + READS, tmp_path)


def test_faulthandler_enabled_after(tmp_path: Path) -> None:
    lives("b = body(); faulthandler.enable(); cut()" + READS, tmp_path)


def test_faulthandler_enabled_between_two_shards(tmp_path: Path) -> None:
    lives("body(); faulthandler.enable(); b = body(); cut()" + READS, tmp_path)


FETCHES = """
from toolkit._native.shards.gather import find_values, gather_values, gather_windows
from toolkit._native.tokens.gather import TokenShard
from toolkit._native.tokens.run import TokenRun
SIZE = 200_000
def columns():  # 1: offsets of ids or of a binary column, 3: the data of either
    data = np.zeros(SIZE // 8, "<i8"); data[1] = 16
    open(path, "wb").write(data.tobytes()); sums = ChunkSums(); sums.update(data.tobytes())
    places = np.array([[0, 0], [0, 16], [0, 0], [SIZE - 16, 16]], np.int64)
    with open(path, "rb") as file:
        return Body(ShardMap(file.fileno(), SIZE), 0, SIZE, 1, sums.digest(), places)
none = np.empty(0, np.int32); row = np.zeros(1, np.int64); seen = np.zeros(1, np.int32); bad = np.zeros(1, np.int64)
one, two, addresses = np.ones(1, np.int64), np.array([0, 16]), np.zeros(1, np.uint64)
def fixed(b): fetch_fixed([b], row, none, 3, 8, np.zeros(8, np.uint8), seen, bad); return seen[0]
def binary(b): fetch_binary([b], row, none, 1, 3, 8, FetchBuffer(), addresses, one.copy(), seen, bad); return seen[0]
def bytes_(b): fetch_bytes([b], row, none, 1, 3, 8, seen, bad); return seen[0]
def find(b): find_values([b], row, none, 1, 3, 8, one.copy(), one.copy(), seen, bad); return seen[0]
def gather(b): seen[:] = 0; gather_values([b], row, row, two, seen, bad, np.zeros(16, np.uint8)); return seen[0]
def windows(b):
    inside = np.array([[0, 0, 2, 8]], np.int64)
    gather_windows([b], row, row, one * 8, inside, seen, bad, np.zeros((1, 2, 8), np.uint8)); return seen[0]
def tokens(b):
    run = TokenRun(one * 4, 4); run.attach(0, TokenShard([b], 3, 1, 4))
    failure = run.gather(row, one, row, np.zeros(4, np.uint8), 4, 1)[1]; return failure and failure[0]
"""


@pytest.mark.parametrize("fetch", ["fixed", "binary", "bytes_", "find", "gather", "windows", "tokens"])
@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "lambda *_: None"], ids=["default", "returns"])
def test_a_handler_that_took_the_guards_place_is_put_behind_it(tmp_path: Path, fetch: str, handler: str) -> None:
    body = f"b = columns(); signal.signal(signal.SIGBUS, {handler}); cut(); assert {fetch}(b) == module.READ_FAULT"
    lives(f"{FETCHES}\n{body}; print('alive')", tmp_path)


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "lambda *_: None"], ids=["default", "returns"])
@pytest.mark.parametrize("touched", ["pass", "read(b)"], ids=["unchecked", "checked"])
def test_whole_reads_find_the_guard_in_front_again(tmp_path: Path, handler: str, touched: str) -> None:
    lives(f"b = body(); {touched}; signal.signal(signal.SIGBUS, {handler}); cut()" + READS, tmp_path)


def test_a_thread_that_was_made_with_the_signal_blocked_is_asked_to_take_it(tmp_path: Path) -> None:
    code = """
    b = body(); cut(); found = []
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    thread = threading.Thread(target=lambda: found.append(read(b)[0])); thread.start(); thread.join()
    assert found == [module.READ_FAULT]
    print("alive")
    """
    lives(code, tmp_path)


OTHERS = """
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>
static struct sigaction behind[2];
static sigjmp_buf out;
static void put(int which, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction mine = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGBUS, &mine, &behind[which]);
}
static void on_first(int n, siginfo_t *info, void *context) {
    (void)!write(2, "first\\n", 6);
    if (behind[0].sa_flags & SA_SIGINFO) behind[0].sa_sigaction(n, info, context); else signal(SIGBUS, SIG_DFL);
}
static void on_second(int n, siginfo_t *info, void *context) {
    (void)!write(2, "second\\n", 7);
    if (behind[1].sa_flags & SA_SIGINFO) behind[1].sa_sigaction(n, info, context); else signal(SIGBUS, SIG_DFL);
}
static void on_jump(int n, siginfo_t *info, void *context) { siglongjmp(out, 1); }
void first(void) { put(0, on_first); }
void second(void) { put(1, on_second); }
void jumps(void) { struct sigaction kept = behind[0]; put(0, on_jump); behind[0] = kept; }
int survives(const volatile char *at) { if (sigsetjmp(out, 1)) return 1; (void)*at; return 0; }
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Code that loads handlers of other libraries: first() and second() call the one behind them, jumps() leaves."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "others.c").write_text(OTHERS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "others.so", folder / "others.c"], check=True)
    return f"import ctypes; c = ctypes.CDLL({str(folder / 'others.so')!r})\n"


@pytest.mark.parametrize(
    ("order", "heard"),
    [
        ("body(); c.first(); body()", ["first"]),
        ("c.first(); b = body(); c.second(); read(b)", ["second", "first"]),
        ("b = body(); c.first(); read(b); c.second(); read(b)", ["second", "first"]),
        ("c.first(); b = body(); c.second(); read(b); read(b); body()", ["second", "first"]),
    ],
)
def test_handlers_that_call_the_one_behind_them_hear_of_a_fault_once(
    tmp_path: Path, others: str, order: str, heard: list[str]
) -> None:
    assert dies(f"{others}{order}; real_fault()", tmp_path).splitlines() == heard
    lives(f"{others}{order}; b = body(); cut()" + READS, tmp_path)


def test_a_handler_that_jumps_out_does_so_every_time(tmp_path: Path, others: str) -> None:
    code = """
    b = body(); c.jumps(); read(b)
    with open(path + "2", "w+b") as file:
        file.truncate(8192); m = mmap.mmap(file.fileno(), 8192); file.truncate(0)
    c.survives.argtypes = [ctypes.c_void_p]
    at = np.frombuffer(m, np.uint8).ctypes.data
    for _ in range(40):
        assert c.survives(at + 4096) == 1
        assert c.survives(at) == 1
    cut()
    """
    lives(others + textwrap.dedent(code) + READS, tmp_path)


def test_a_handler_that_was_turned_off_later_does_not_stop_a_fault(tmp_path: Path) -> None:
    dies("b = body(); faulthandler.enable(); read(b); faulthandler.disable(); real_fault()", tmp_path)


def test_handlers_that_take_turns_are_remembered_once(tmp_path: Path) -> None:
    code = """
    b = body(); seen = []
    for i in range(200):
        signal.signal(signal.SIGBUS, [signal.SIG_IGN, lambda *_: seen.append(1)][i % 2])
        assert read(b)[0] == module.READ_OK
        os.kill(os.getpid(), signal.SIGBUS)
    assert len(seen) == 100
    cut()
    """
    lives(textwrap.dedent(code) + READS, tmp_path)


def test_the_handler_allocates_no_memory_in_a_thread_that_never_copied() -> None:
    # Ordinary thread-local memory is allocated by a thread's first use of it, which may be the handler's.
    listing = subprocess.run(
        ["readelf", "--wide", "--relocs", module.__file__], capture_output=True, text=True, check=True
    )
    assert "TLSDESC" not in listing.stdout
    assert "DTPMOD" not in listing.stdout
    assert "TPOFF" in listing.stdout or "TPREL" in listing.stdout


def test_threads_fault_at_the_same_time(tmp_path: Path) -> None:
    code = """
    b = body(); cut(); found = []
    threads = [threading.Thread(target=lambda: found.extend(read(b)[0] for _ in range(50))) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert found == [module.READ_FAULT] * 200
    print("alive")
    """
    lives(code, tmp_path)


def test_another_fault_still_kills(tmp_path: Path) -> None:
    dies("real_fault()", tmp_path)
    dies("b = body(); cut(); read(b); real_fault()", tmp_path)


@pytest.mark.parametrize(
    "order",
    [
        "faulthandler.enable(); body()",
        "body(); faulthandler.enable()",
        "body(); faulthandler.enable(); body()",
        "faulthandler.enable(); body(); faulthandler.disable(); faulthandler.enable(); body()",
    ],
)
def test_another_fault_still_kills_and_faulthandler_tells_where(tmp_path: Path, order: str) -> None:
    report = dies(order + "; real_fault()", tmp_path)
    assert report.count("Fatal Python error: Bus error") == 1
    assert "in real_fault" in report


def test_a_sent_signal_does_what_it_did_before(tmp_path: Path) -> None:
    dies("body(); os.kill(os.getpid(), signal.SIGBUS)", tmp_path)
    dies("faulthandler.enable(); body(); faulthandler.enable(); body(); os.kill(os.getpid(), signal.SIGBUS)", tmp_path)
    lives(
        "signal.signal(signal.SIGBUS, signal.SIG_IGN); b = body(); os.kill(os.getpid(), signal.SIGBUS); cut()" + READS,
        tmp_path,
    )
    lives(
        "seen = []; signal.signal(signal.SIGBUS, lambda *_: seen.append(1)); b = body();"
        "os.kill(os.getpid(), signal.SIGBUS); assert seen == [1]; cut()" + READS,
        tmp_path,
    )


def test_the_guard_holds_in_a_forked_child(tmp_path: Path) -> None:
    code = """
    b = body(); cut()
    child = os.fork()
    if not child:
        os._exit(0 if read(b)[0] == module.READ_FAULT else 1)
    assert os.waitpid(child, 0)[1] == 0
    """
    lives(code + READS.replace("\n", "\n    "), tmp_path)
