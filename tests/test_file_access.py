"""Files are touched in toolkit.storage, and in the few places that have a reason: read from the syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent / "toolkit"

# Folders and files whose code may touch files, and why.
ALLOWED = {
    "storage/": "it is what everybody else asks",
    "sources/": "an input isn't a dataset: each kind reads its own",
    "memory/": "asks the system how much memory there is",
    "checks/doctor.py": "looks at the machine",
    "config/load.py": "reads the user's own config",
    "cli/main.py": "standard streams that were closed lead to the null device",
    "cli/output.py": "a pipe that was closed leads to the null device",
    "pipelines/image/libjpeg.py": "looks into a library that this process has loaded",
}

# What doesn't look at the disk: anything else of these modules does, or may.
HARMLESS = {
    "os": {
        "PathLike",
        "cpu_count",
        "environ",
        "fsdecode",
        "fsencode",
        "fspath",
        "getpid",
        "register_at_fork",
        "sched_getaffinity",
    },
    "os.path": {"abspath", "basename", "commonpath", "dirname", "isabs", "join", "normpath", "relpath", "split"},
    "io": {"BytesIO", "RawIOBase"},
    "mmap": {"MADV_DONTNEED", "PAGESIZE"},
}
# Modules that nobody imports for anything but files.
FOR_FILES = {"builtins", "fcntl", "glob", "pathlib", "shutil", "tempfile"}
# Functions of other modules, by the names that those have here.
OF_FILES = {
    "pa": {"OSFile", "create_memory_map", "input_stream", "memory_map", "output_stream"},
    "np": {"fromfile", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt", "savez", "savez_compressed"},
}
# Methods that only paths and arrays have.
METHODS = {
    "hardlink_to",
    "is_dir",
    "is_file",
    "is_symlink",
    "iterdir",
    "lstat",
    "mkdir",
    "read_bytes",
    "read_text",
    "rglob",
    "rmdir",
    "symlink_to",
    "tofile",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}


def touches(source: str) -> Iterator[str]:
    """Yield what a file's code has that touches files, with its line. What only annotates is no such thing."""
    tree = ast.parse(source)
    notes = {
        id(part)
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if note is not None
        for part in ast.walk(note)
    }
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    own |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    for node in ast.walk(tree):
        what = None
        if isinstance(node, ast.Import):
            what = next((alias.name for alias in node.names if alias.name.split(".")[0] in FOR_FILES), None)
        elif isinstance(node, ast.ImportFrom):
            known = HARMLESS.get(node.module or "")
            if (node.module or "").split(".")[0] in FOR_FILES:
                what = node.module
            elif known is not None:
                what = next((f"{node.module}.{one.name}" for one in node.names if one.name not in known), None)
        elif isinstance(node, ast.Attribute) and id(node) not in notes:
            module = ast.unparse(node.value)
            name = f"{module}.{node.attr}"
            other = module in HARMLESS and node.attr not in HARMLESS[module] and name not in HARMLESS
            what = name if other or node.attr in OF_FILES.get(module, ()) else None
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "open" and "open" not in own:
                what = "open"
            elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                what = f".{node.func.attr}()"
        if what is not None:
            yield f"line {node.lineno}: {what}"


def allowed(name: str) -> str | None:
    return next((one for one in ALLOWED if name == one or (one.endswith("/") and name.startswith(one))), None)


def test_files_are_touched_in_storage_alone() -> None:
    wrong, used = [], set()
    for path in sorted(HOUSE.rglob("*.py")):
        name = path.relative_to(HOUSE).as_posix()
        found = list(touches(path.read_text()))
        if found and allowed(name):
            used.add(allowed(name))
        elif found:
            wrong.append(f"{name}, {found}")
    assert not wrong, "ask a Store, or a function of toolkit.storage"
    assert used == ALLOWED.keys(), "take what needs no leave from the list"


@pytest.mark.parametrize(
    "line",
    [
        "open('a')",
        "with open('a', 'rb', buffering=0) as file: pass",
        "builtins.open('a')\nimport builtins",
        "import io\nio.open('a')",
        "import os\nos.stat('a')",
        "import os\nos.path.exists('a')",
        "import os\nlook = os.path.isfile",
        "from os import unlink",
        "from os.path import exists",
        "import shutil",
        "import tempfile",
        "from pathlib import Path",
        "Path('a').read_bytes()",
        "(folder / 'a').unlink()",
        "import mmap\nmmap.mmap(3, 0)",
        "pa.memory_map('a')",
        "pa.OSFile('a')",
        "np.fromfile('a')",
        "np.memmap('a')",
        "array.tofile('a')",
        "import fcntl",
    ],
)
def test_what_touches_files_is_seen(line: str) -> None:
    assert list(touches(line))


@pytest.mark.parametrize(
    "line",
    [
        "import os\nos.path.join('a', 'b')",
        "import os\ndef f(path: str | os.PathLike[str]) -> None: ...",
        "from toolkit.loader.api import open\nopen('a')",
        "def open(path): ...\nopen('a')",
        "import mmap\ndef f(data: bytes | mmap.mmap) -> mmap.mmap: ...",
        "import io\nio.BytesIO(b'')",
        "store.read('a')",
        "place.open()",
    ],
)
def test_what_touches_none_is_let_be(line: str) -> None:
    assert not list(touches(line))
