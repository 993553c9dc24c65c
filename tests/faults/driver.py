"""Run the command line, or a writer of records, many times, each in a child forked from a process that has done it all.

A child then costs a few ms: what is imported late, is imported. The first run is not forked and nothing happens to it.

Reads a JSON object a line: args, folder, trace, at, fault (see shim.c), kill_after, out, err. Answers with the exit
status and, of a child that ended by itself, how many calls below the folder it made.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import traceback

from records import write_records  # which lies beside this: it is run as a script

from toolkit.cli.main import run as run_command

shim = ctypes.CDLL(sys.argv[1])
shim.fault_calls.restype = ctypes.c_long


def run(args: list[str]) -> int:
    """Run a command line, or what a program does with records."""
    return write_records(*args[1:]) if args[0] == "records" else run_command(args)


def redirect(order: dict[str, object]) -> None:
    for number, name in ((1, "out"), (2, "err")):
        fd = os.open(str(order[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, number)
        os.close(fd)


def child(order: dict[str, object], calls: int) -> int:
    redirect(order)
    shim.fault_arm(
        os.fsencode(str(order["folder"])),
        os.fsencode(str(order["trace"])),
        ctypes.c_long(order["at"]),  # type: ignore[arg-type]
        ctypes.c_int(order["fault"]),  # type: ignore[arg-type]
    )
    signal.setitimer(signal.ITIMER_REAL, order["kill_after"])  # type: ignore[arg-type]
    try:
        code = run([str(arg) for arg in order["args"]])  # type: ignore[attr-defined]
    except BaseException:  # the program's own last words, as Python would say them
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(calls, str(shim.fault_calls()).encode())
    return code


answers = os.fdopen(os.dup(1), "w")
warm = json.loads(sys.stdin.readline())
redirect(warm)
run(warm["args"])
gc.freeze()  # or the first collection in each child would copy every page
print("{}", file=answers, flush=True)
for line in sys.stdin:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os._exit(child(json.loads(line), write))
    os.close(write)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    calls = os.read(read, 64)
    os.close(read)
    print(json.dumps({"code": status, "calls": int(calls or 0)}), file=answers, flush=True)
