"""Every example in the documentation runs, every link leads somewhere, every command is described."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import make_folder

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# make's targets and installing are what `make test`, `make demo` and CI do themselves.
NOT_RUN = re.compile(r"^\s*(make|sudo|pip|git|scripts/)\b")


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with `photos/` in it, as the examples assume."""
    make_folder(
        tmp_path / "photos", {"train/cat": 40, "train/dog": 40, "val/cat": 4, "val/dog": 4}, width=300, height=280
    )
    return tmp_path


def run(command: list[str], cwd: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_in_the_order_they_are_read(page: Path, workplace: Path) -> None:
    for language, text in BLOCK.findall(page.read_text()):
        if language == "sh":
            lines = [line for line in text.splitlines() if line.strip() and not NOT_RUN.match(line)]
            run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], workplace)
        elif language == "python":
            run([sys.executable, "-W", "error", "-c", text], workplace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_cli_page_is_the_help_itself() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/cli_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_has_its_section() -> None:
    listed = subprocess.run([sys.executable, "-m", "toolkit.cli.main", "--help"], capture_output=True, text=True).stdout
    commands = re.findall(r"^  (\w+)  ", listed[listed.index("Commands:") :], re.MULTILINE)
    assert commands
    assert re.findall(r"^## toolkit (\w+)$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE) == commands
