"""Compiles toolkit/_native with sanitizers, in folders of its own: the ordinary extensions stay as they are.

    python tests/sanitize/build.py             the extensions, with ASan and UBSan, in build/sanitize/tree
    python tests/sanitize/build.py CMD ...     and run a command over them

build/sanitize/tree/toolkit is a package of links to the sources with extensions of its own. A Python that runs over it
needs the environment that environment() returns: libasan comes first, and malloc stands behind every allocation.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "toolkit" / "_native"
BUILD = ROOT / "build" / "sanitize"
TREE = BUILD / "tree"
SANITIZERS = "address,undefined,float-cast-overflow"
# Behind all flags that the interpreter and setup.py give: -fwrapv would hide overflows, fortification hides reports.
LAST_FLAGS = ["-fno-wrapv", "-U_FORTIFY_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]


def _stamp(paths: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256(" ".join(words).encode())
    for path in sorted(paths):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _sources() -> list[Path]:
    return [path for path in NATIVE.rglob("*") if path.suffix in (".pyx", ".pxd", ".pxi", ".h", ".c")]


def _is_current(stamp_file: Path, stamp: str) -> bool:
    return stamp_file.exists() and stamp_file.read_text() == stamp


def extensions() -> Path:
    """Compile the extensions with ASan and UBSan, if they are not there; return the folder that has `toolkit`."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # `make fuzz` and `make sanitize` at the same time
        _compile()
        return _linked()


def _compile() -> None:
    stamp = _stamp([*_sources(), ROOT / "setup.py"], SANITIZERS, *LAST_FLAGS, sys.version)
    if _is_current(BUILD / "stamp", stamp):
        return
    (BUILD / "stamp").unlink(missing_ok=True)
    compiler = BUILD / "cc"
    compiler.write_text(f'#!/bin/sh\nexec gcc "$@" -fsanitize={SANITIZERS} {" ".join(LAST_FLAGS)}\n')
    compiler.chmod(0o755)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(BUILD / "lib")]
    command += ["--build-temp", str(BUILD / "temp"), "--force", "--parallel", "2"]
    with open(BUILD / "log", "w") as log:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "CC": str(compiler)}, stdout=log, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        sys.exit((BUILD / "log").read_text()[-4000:] + f"\nsanitize: {' '.join(command)} failed")
    (BUILD / "stamp").write_text(stamp)


def _linked() -> Path:
    """Bring the package of links up to date, under those that use it."""
    package = TREE / "toolkit"
    package.mkdir(parents=True, exist_ok=True)
    wanted = {package / path.name: path for path in (ROOT / "toolkit").iterdir() if path.name != "_native"}
    compiled = BUILD / "lib" / "toolkit" / "_native"
    made = list(compiled.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
    for top, paths in ((NATIVE, [*NATIVE.rglob("*.py"), *NATIVE.rglob("*.pyi")]), (compiled, made)):
        wanted |= {package / "_native" / path.relative_to(top): path for path in paths}
    for link in wanted:
        link.parent.mkdir(parents=True, exist_ok=True)
    for link in [*package.iterdir(), *(package / "_native").rglob("*")]:
        if link.is_symlink() and (link not in wanted or link.readlink() != wanted[link]):
            link.unlink()
    for link, path in wanted.items():
        if not link.is_symlink():
            link.symlink_to(path)
    return TREE


def _library(name: str) -> str:
    found = subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
    if not Path(found).is_absolute():
        sys.exit(f"sanitize: gcc has no {name}. Install it: apt-get install libgcc-12-dev (gcc's version)")
    return str(Path(found).resolve())


def environment() -> dict[str, str]:
    """Return the environment for a Python over the sanitized extensions, which are compiled if need be."""
    tree = extensions()
    return {
        **os.environ,
        # libstdc++ too: ASan wants to know who throws, and pyarrow loads it late.
        "LD_PRELOAD": " ".join([_library("libasan.so"), _library("libubsan.so"), _library("libstdc++.so.6")]),
        "PYTHONMALLOC": "malloc",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOOLKIT_SANITIZED": "1",
        # A SIGBUS is the guard's own business; the interpreter never frees all at its end.
        "ASAN_OPTIONS": "detect_leaks=0:handle_sigbus=0:allocator_may_return_null=1:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def native_objects(compiler: str, folder: Path, sanitizers: str) -> list[Path]:
    """Compile the C files of toolkit/_native that need no Python, with `sanitizers`, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = [path for path in sorted(NATIVE.rglob("*.c")) if "Python.h" not in path.read_text()]
    flags = ["-O1", "-g", "-std=gnu11", "-ffp-contract=off", "-fno-omit-frame-pointer", f"-fsanitize={sanitizers}"]
    flags.append(f"-I{NATIVE}")
    stamp = _stamp(_sources(), compiler, *flags)
    objects = [folder / f"{'_'.join(path.relative_to(NATIVE).with_suffix('').parts)}.o" for path in sources]
    if _is_current(folder / "stamp", stamp) and all(path.exists() for path in objects):
        return objects
    for source, made in zip(sources, objects, strict=True):
        command = [compiler, *flags, "-fno-sanitize-recover=all", "-Wno-unknown-pragmas", "-c", source, "-o", made]
        subprocess.run([str(part) for part in command], check=True)
    (folder / "stamp").write_text(stamp)
    return objects


if __name__ == "__main__":
    given = environment()
    if len(sys.argv) > 1:
        os.execvpe(sys.argv[1], sys.argv[1:], given)
