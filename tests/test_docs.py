"""Every example in the documentation runs, every link and path leads somewhere, every command and room is described."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_plugins import install_example
from pictures import make_folder
from waiting import PATIENCE

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "toolkit"
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What looks like a name of ours and isn't one: the key of a record batch's metadata.
NO_NAMES = {"toolkit.crc32c"}
# make's targets and installing are what `make test`, `make demo` and CI do themselves.
NOT_RUN = re.compile(r"^\s*(make|sudo|pip|git|scripts/)\b")


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code_spans(page: Path) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", BLOCK.sub("", page.read_text())))


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page in links."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_named(dotted: str) -> bool:
    """Whether toolkit.a.b.c is a module, or a name that a module's source has; nothing is imported."""
    parts = dotted.split(".")[1:]
    at = HOUSE
    while parts and (at / parts[0]).is_dir():
        at /= parts.pop(0)
    if parts and (at / f"{parts[0]}.py").is_file():
        at /= f"{parts.pop(0)}.py"
    else:
        at /= "__init__.py"
    return not parts or re.search(rf"\b{parts[0]}\b", at.read_text()) is not None


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with `photos/` in it, as the examples assume."""
    make_folder(
        tmp_path / "photos", {"train/cat": 40, "train/dog": 40, "val/cat": 4, "val/dog": 4}, width=300, height=280
    )
    return tmp_path


def run(command: list[str], cwd: Path, **variables: str) -> None:
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "120",
    }
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_run_in_the_order_they_are_read(page: Path, workplace: Path) -> None:
    paths = [os.environ.get("PYTHONPATH", "")]
    if page.name == "plugins.md":  # which says: pip install examples/plugin
        paths.append(str(install_example(workplace / "site")))
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "XDG_CACHE_HOME": str(workplace / "cache")}
    for language, text in BLOCK.findall(page.read_text()):
        if language == "sh":
            lines = [line for line in text.splitlines() if line.strip() and not NOT_RUN.match(line)]
            run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], workplace, **variables)
        elif language == "python":
            run([sys.executable, "-W", "error", "-c", text], workplace, **variables)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            leads_to = page.parent / target if target else page
            assert leads_to.exists(), f"{page_name(page)} links to {target}"
            if anchor:
                assert anchor in anchors(leads_to), f"{page_name(page)} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_paths_and_names_of_ours_exist(page: Path) -> None:
    rooms = {path.name for path in HOUSE.iterdir() if path.is_dir()}
    missing = []
    for span in code_spans(page):
        if re.fullmatch(r"(toolkit|tests|scripts|benchmarks|docs)/[\w./*-]+", span):
            exists = any(ROOT.glob(span))
        elif re.fullmatch(r"\w+/[\w./*-]*", span) and span.split("/")[0] in rooms and page.parent != ROOT:
            exists = any(HOUSE.glob(span))
        elif re.fullmatch(r"toolkit(\.\w+)+", span) and span not in NO_NAMES:
            exists = is_named(span)
        else:
            continue
        if not exists:
            missing.append(span)
    assert not missing, f"{page_name(page)} names what isn't there"


def test_the_architecture_is_short_and_has_every_room() -> None:
    lines = ARCHITECTURE.read_text().splitlines()
    assert len(lines) <= 200, "it is read in one sitting: details belong to docs/decisions/"
    listed = {name for line in lines if line.startswith("|") for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    rooms = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    modules = {path.name for path in HOUSE.glob("*.py")} - {"__init__.py"}
    inner = {f"loader/{path.parent.name}" for path in (HOUSE / "loader").glob("*/__init__.py")}
    assert not (rooms | modules | inner) - listed, "give it a line in the table of docs/architecture.md"


def test_every_room_of_decisions_is_in_their_index() -> None:
    folder = ROOT / "docs/decisions"
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (folder / "README.md").read_text()))
    assert linked == {page.name for page in folder.glob("*.md")} - {"README.md"}


def test_cli_page_is_the_help_itself() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/cli_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_has_its_section() -> None:
    listed = subprocess.run([sys.executable, "-m", "toolkit.cli.main", "--help"], capture_output=True, text=True).stdout
    commands = re.findall(r"^  (\w+)  ", listed[listed.index("Commands:") :], re.MULTILINE)
    assert commands
    assert re.findall(r"^## toolkit (\w+)$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE) == commands
