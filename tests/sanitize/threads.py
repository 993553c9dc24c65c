"""Compiles tests/sanitize/threads.c with ThreadSanitizer and runs it: python tests/sanitize/threads.py [SECONDS]."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from build import BUILD, NATIVE, native_objects

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the harness; return its exit status."""
    folder = BUILD / "threads"
    objects = native_objects("gcc", folder, "thread")
    program = folder / "threads"
    command = ["gcc", "-g", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-fsanitize=thread"]
    command += [f"-I{NATIVE}", "-o", str(program), str(HERE / "threads.c"), *map(str, objects), "-ljpeg", "-lm"]
    subprocess.run(command, check=True)
    options = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:handle_sigbus=0"}
    return subprocess.run([str(program), *sys.argv[1:]], env=options).returncode


if __name__ == "__main__":
    sys.exit(main())
