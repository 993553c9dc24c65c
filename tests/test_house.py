"""The house keeps its rules: short files, imports that point down, packages that hold nothing, tests in the same rooms,
and files touched in storage alone.

Read from the sources alone, and the linter's contracts (pyproject.toml) cover the rest: it can't see compiled modules,
so it takes an import of one for an import of the root package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "toolkit"
NATIVE = HOUSE / "_native"

LONGEST = 400
REASON = "Longer than 400 lines because"

# Rooms of compiled modules, and those that each may use besides itself.
NATIVE_ROOMS: dict[str, set[str]] = {
    "batch": {"image"},
    "memory": set(),
    "order": set(),
    "image": {"memory"},
    "shards": {"memory", "order"},
    "tokens": {"memory", "order", "shards"},
}
# The rooms that lie low in the house, and the compiled ones that fit them.
LOW_ROOMS = {
    "memory": {"memory"},
    "storage": {"shards"},
    "format": {"shards"},
    "loader/order": {"order"},
}

# Who imports modules of toolkit by name, and why; import-linter doesn't see these imports.
BY_NAME = {
    "__init__.py": "public names are made when they are asked for: `toolkit --help` loads no numpy",
    "checks/doctor.py": "says which modules can't be imported, and why",
    "loader/api.py": "to_torch() gives what toolkit/torch.py has, above it: torch is imported when it is asked for",
    "loader/outputs/registry.py": "an output is imported when it is asked for",
    "sources/registry.py": "a kind of source is imported when it is asked for",
}

# Folders and files whose code may touch files, and why.
ALLOWED = {
    "storage/": "it is what everybody else asks",
    "sources/": "an input isn't a dataset: each kind reads its own",
    "memory/": "asks the system how much memory there is",
    "checks/doctor.py": "looks at the machine",
    "options/load.py": "reads the user's own config",
    "cli/main.py": "standard streams that were closed lead to the null device",
    "cli/output.py": "a pipe that was closed leads to the null device",
    "pipelines/image/libjpeg.py": "looks into a library that this process has loaded",
    "plugins.py": "reads what installers wrote down of packages",
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

# Folders of tests that concern no room.
NO_ROOMS = {"benchmarks", "contracts", "examples", "faults", "fuzz", "golden", "new_ops", "release", "sanitize"}


def name(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def sources(*suffixes: str) -> list[Path]:
    return sorted(path for suffix in suffixes for path in HOUSE.rglob(f"*{suffix}"))


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, for types too; a cimport counts. `from toolkit import x` gives "toolkit"."""
    if path.suffix in (".pyx", ".pxd", ".pxi"):
        for found in re.finditer(r"^\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))", path.read_text(), re.M):
            yield found[1] or found[2]
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def included(path: Path) -> Iterator[Path]:
    """The headers of ours that a C file includes; of a .pyx, those that it declares."""
    for found in re.finditer(r'^\s*(?:#\s*include|cdef extern from) "([^"]+)"', path.read_text(), re.M):
        for folder in (path.parent, NATIVE):
            if (folder / found[1]).is_file():
                yield (folder / found[1]).resolve()
                break


def head(path: Path) -> str:
    """What a file says of itself first, in one line."""
    text = path.read_text()
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(text)) or ""
    else:
        found = re.match(r'\s*(?:"""(.*?)"""|/\*(.*?)\*/)', text, re.S)
        said = (found[1] or found[2] or "") if found else ""
    return " ".join(re.sub(r"^\s*\* ", "", said, flags=re.M).split())


def test_a_file_is_short_or_says_why_it_is_not() -> None:
    long = {
        name(path): len(path.read_text().splitlines())
        for path in sources(".py", ".pyx", ".pxd", ".pxi", ".c", ".h")
        if len(path.read_text().splitlines()) > LONGEST and REASON not in head(path)
    }
    assert not long, f'split it, or say in its first docstring or comment: "{REASON} ..."'


def test_the_reason_is_found_in_docstrings_and_in_comments(tmp_path: Path) -> None:
    for file, text in {
        "a.py": f'"""A.\n\n{REASON[:15]}\n{REASON[16:]} it is a table.\n"""\n',
        "a.pyx": f'"""A.\n\n{REASON} it is a table.\n"""\n',
        "a.c": f"/* A.\n *\n * {REASON[:15]}\n * {REASON[16:]} it is a table. */\n",
    }.items():
        (tmp_path / file).write_text(text)
        assert REASON in head(tmp_path / file)
        (tmp_path / file).write_text("x = 1\n" + text)
        assert REASON not in head(tmp_path / file)


@pytest.mark.parametrize("kind", ["toolkit", "."])
def test_imports_name_the_module_and_not_the_root_package(kind: str) -> None:
    wrong = [
        f"{name(path)} imports {module}"
        for path in sources(".py", ".pyi", ".pyx", ".pxd", ".pxi")
        for module in imported(path)
        if (module == "toolkit" if kind == "toolkit" else module.startswith(kind))
    ]
    assert not wrong


def test_compiled_modules_import_down() -> None:
    wrong = []
    for path in [path for path in sources(".pyx", ".pxd", ".pyi") if NATIVE in path.parents]:
        room = path.relative_to(NATIVE).parts[0]
        for module in imported(path):
            parts = module.split(".")
            if parts[0] == "toolkit" and (parts[1] != "_native" or parts[2] not in {room} | NATIVE_ROOMS[room]):
                wrong.append(f"{name(path)} imports {module}")
    assert not wrong


def test_c_files_include_down_and_in_no_circle() -> None:
    wrong = []
    headers: dict[Path, set[Path]] = {}
    for path in sources(".c", ".h", ".pyx", ".pxd"):
        headers[path.resolve()] = set(included(path))
        room = path.relative_to(NATIVE).parts[0]
        for header in headers[path.resolve()]:
            if header.relative_to(NATIVE.resolve()).parts[0] not in {room} | NATIVE_ROOMS[room]:
                wrong.append(f"{name(path)} includes {header.name}")
    assert not wrong
    while headers:
        leaves = {path for path, includes in headers.items() if not includes & headers.keys()}
        assert leaves, f"these include each other: {sorted(path.name for path in headers)}"
        headers = {path: includes for path, includes in headers.items() if path not in leaves}


def test_every_compiled_room_has_its_place_in_the_order() -> None:
    rooms = {path.parent.name for path in NATIVE.glob("*/__init__.py")}
    assert rooms == NATIVE_ROOMS.keys()


def test_low_rooms_use_the_compiled_ones_that_fit_them() -> None:
    wrong = []
    for room, allowed in LOW_ROOMS.items():
        for path in (HOUSE / room).rglob("*.py"):
            for module in imported(path):
                parts = module.split(".")
                if parts[:2] == ["toolkit", "_native"] and parts[2] not in allowed:
                    wrong.append(f"{name(path)} imports {module}")
    assert not wrong


def by_name(path: Path) -> bool:
    """Whether a file imports a module by a name that is one of toolkit's, or may be one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in ("import_module", "__import__", "find_spec", "run_module"):
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.JoinedStr):
            first = first.values[0]
        known = isinstance(first, ast.Constant) and isinstance(first.value, str)
        if not known or first.value.split(".")[0] == "toolkit":
            return True
    return False


def test_only_the_root_and_registries_import_by_name() -> None:
    found = {name(path) for path in sources(".py") if by_name(path)}
    assert not found - BY_NAME.keys(), (
        "import it plainly, late if it must be, or make it a registry and give the reason"
    )


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
            full = f"{module}.{node.attr}"
            other = module in HARMLESS and node.attr not in HARMLESS[module] and full not in HARMLESS
            what = full if other or node.attr in OF_FILES.get(module, ()) else None
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "open" and "open" not in own:
                what = "open"
            elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                what = f".{node.func.attr}()"
        if what is not None:
            yield f"line {node.lineno}: {what}"


def allowed(file: str) -> str | None:
    return next((one for one in ALLOWED if file == one or (one.endswith("/") and file.startswith(one))), None)


def test_files_are_touched_in_storage_alone() -> None:
    wrong, used = [], set()
    for path in sorted(HOUSE.rglob("*.py")):
        found, leave = list(touches(path.read_text())), allowed(name(path))
        if found and leave:
            used.add(leave)
        elif found:
            wrong.append(f"{name(path)}, {found}")
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


def test_a_package_is_one_line_that_says_what_it_holds() -> None:
    wrong = []
    for folder in [HOUSE, *(path for path in HOUSE.rglob("*") if path.is_dir())]:
        files = [path for path in folder.iterdir() if path.suffix in (".py", ".pyx")]
        if not files or folder == HOUSE:
            continue
        init = folder / "__init__.py"
        body = ast.parse(init.read_text()).body if init.exists() else []
        said = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
        if not (isinstance(said, ast.Constant) and isinstance(said.value, str) and "\n" not in said.value.strip()):
            wrong.append(name(folder))
    assert not wrong


def test_tests_lie_in_the_rooms_that_they_test() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("*.py")}
    wrong = []
    for folder in sorted(folders):
        if not folder.parts or folder.parts[0] in NO_ROOMS:
            continue
        room = Path("_native", *folder.parts[1:]) if folder.parts[0] == "native" else folder
        if not (HOUSE / room / "__init__.py").is_file():
            wrong.append(f"tests/{folder.as_posix()} tests no room: there is no toolkit/{room.as_posix()}")
    assert not wrong


# What forks itself in a process of its own, or as a child that warnings are silenced for.
FORKING = {"forks.py", "faults/driver.py", "fuzz/loop.py"}


def test_tests_fork_and_draw_as_steady_ones_do() -> None:
    """JAX warns of a fork wherever another test has imported it, and a warning is an error; drawing is never timed."""
    tests, wrong = ROOT / "tests", []
    for path in sorted(tests.rglob("*.py")):
        where = path.relative_to(tests).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="fork" | "forkpty")) if where not in FORKING:
                    wrong.append(
                        f"{where}:{node.lineno} forks the process of all tests: forks.forked() does it quietly"
                    )
                case ast.keyword(arg="suppress_health_check") if "too_slow" not in ast.unparse(node.value):
                    wrong.append(
                        f"{where}:{node.value.lineno} leaves too_slow out, which conftest.py says for the rest"
                    )
    assert not wrong
