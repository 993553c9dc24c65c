"""Kinds of sources that other packages add."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_plugins import install

from toolkit.errors import PluginError, SourceError, UsageError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.plugins import PluginKind, plugins
from toolkit.sources import registry
from toolkit.sources.detect import find_kind

NOTES = '''
"""Notes: text files of another name."""

from toolkit.sources.kinds.text.spec import TextSpec


class Notes(TextSpec):
    name = "notes"
    title = "notes"
    sign = "notes by name (.note)"
    is_faint = False

    def looks_like(self, path):
        return path.endswith(".note")


SPEC = Notes()
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for module in ("made_notes", "made_other"):
        sys.modules.pop(module, None)


def with_notes(site: Path, text: str | None = NOTES, name: str = "notes") -> None:
    install(site, "made-notes", {"toolkit.sources": {name: "made_notes:SPEC"}}, module=text)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.note").write_text("a note")
    (tmp_path / "in/README.md").write_text("about notes")
    return tmp_path / "in"


def test_it_is_found_behind_the_others(site: Path, inputs: Path, tmp_path: Path) -> None:
    with_notes(site)
    assert "notes" not in registry.names()
    assert "notes" in registry.known_names()
    assert "made_notes" not in sys.modules
    with pytest.raises(UsageError, match=r"source kind must be one of .*notes.*, got 'note'\. Did you mean 'notes'\?"):
        registry.named("note")
    (tmp_path / "text").mkdir()
    (tmp_path / "text/b.txt").write_text("a text")
    assert find_kind([str(tmp_path / "text")]) == "text"
    assert "made_notes" not in sys.modules
    assert find_kind([str(inputs)]) == find_kind([str(inputs / "a.note")]) == "notes"
    assert registry.named("notes").title == "notes"
    assert "notes" not in [spec.name for spec in registry.every()]


def test_what_toolkit_knows_stays_what_it_is(site: Path, inputs: Path) -> None:
    with_notes(site)
    (inputs / "x.jpg").write_bytes(b"\xff\xd8\xff")
    assert find_kind([str(inputs)]) == "imagefolder"
    assert "made_notes" not in sys.modules


def test_two_plugins_are_not_guessed_at(site: Path, inputs: Path) -> None:
    with_notes(site)
    other = NOTES.replace('"notes"', '"other"')
    install(site, "made-other", {"toolkit.sources": {"other": "made_other:SPEC"}}, module=other)
    with pytest.raises(SourceError, match=r"several kinds \(notes and other\): say which with --source-kind"):
        find_kind([str(inputs)])


BROKEN = {
    "an error": ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    "no kind": ("SPEC = 3", "it is of type int, and must be a kind of source"),
    "no make": (NOTES.replace("(TextSpec)", "(SourceSpec)").replace("TextSpec", "SourceSpec, TextSpec"), "TypeError"),
    "another name": (NOTES.replace('"notes"\n    t', '"note"\n    t'), "its name is 'note': the entry point must be"),
    "no title": (NOTES.replace('title = "notes"', "title = None"), "Notes has no title, which must be texts"),
    "options": (NOTES.replace("is_faint", 'accepts = frozenset({"colour"})\n    is_faint'), "it accepts colour, which"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_named_and_breaks_no_other(site: Path, inputs: Path, tmp_path: Path, case: str) -> None:
    text, says = BROKEN[case]
    with_notes(site, text)
    with pytest.raises(PluginError) as caught:
        registry.named("notes")
    said = str(caught.value)
    assert said.startswith("the source 'notes' of made-notes 1.0 (entry point made_notes:SPEC): ")
    assert says in said
    assert find_kind([str(inputs)]) == "text"
    with pytest.raises(SourceError, match="is of no kind that is known") as unknown:
        find_kind([str(inputs / "a.note")])
    assert said in str(unknown.value)
    assert pack(PackJob(source=str(inputs), dataset=str(tmp_path / "ds"))).samples == 1


def test_one_that_fails_at_a_file_is_named(site: Path, inputs: Path) -> None:
    with_notes(site, NOTES.replace('path.endswith(".note")', "path.nothing"))
    with pytest.raises(SourceError, match="the source 'notes' failed: AttributeError: 'str' object has no"):
        find_kind([str(inputs / "a.note")])
    (inputs / "README.md").unlink()
    with pytest.raises(SourceError, match=r"nothing to pack in .*the source 'notes' failed: AttributeError"):
        find_kind([str(inputs)])


def test_a_kind_of_toolkit_wins(site: Path) -> None:
    with_notes(site, NOTES.replace('"notes"\n    t', '"text"\n    t'), "text")
    assert registry.named("text").title == "text files"
    assert "made_notes" not in sys.modules
    (plugin,) = [one for one in plugins(PluginKind.SOURCE) if one.distribution == "made-notes"]
    with pytest.raises(PluginError, match="toolkit has a kind of source of that name, which is the one that is used"):
        registry.load_source(plugin)
