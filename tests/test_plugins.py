"""Plugins are found by their entry points, without being imported; one that is broken is named by whoever asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_plugins import install

from toolkit.errors import PluginError, UsageError
from toolkit.plugins import Plugin, PluginKind, find_plugin, plugin_names, plugins

ROOT = Path(__file__).parent.parent


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, in front of the others."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for module in [name for name in sys.modules if name.startswith("made_")]:
        if module != "made_plugins":
            del sys.modules[module]


def of(folder: Path) -> list[Plugin]:
    """The plugins of the packages that a test made."""
    assert folder.is_dir()
    return [plugin for plugin in plugins() if plugin.distribution.startswith("made-")]


def test_they_are_found_by_kind_name_and_package_and_not_imported(site: Path) -> None:
    install(site, "made-b", {"toolkit.outputs": {"lists": "made_b:SPEC"}, "console_scripts": {"b": "made_b:main"}})
    install(site, "made-a", {"toolkit.steps": {"zoom": "made_a:Zoom", "clip": "made_a:Clip"}}, version="2.5")
    step, output = PluginKind.STEP, PluginKind.OUTPUT
    assert of(site) == [
        Plugin(step, "clip", "made_a:Clip", "made-a", "2.5"),
        Plugin(step, "zoom", "made_a:Zoom", "made-a", "2.5"),
        Plugin(output, "lists", "made_b:SPEC", "made-b", "1.0"),
    ]
    assert {"clip", "zoom"} <= set(plugin_names(step))
    assert find_plugin(step, "zoom") == Plugin(step, "zoom", "made_a:Zoom", "made-a", "2.5")
    assert find_plugin(output, "zoom") is None
    assert not {"made_a", "made_b"} & sys.modules.keys()


def test_the_first_package_of_a_name_counts(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "made-a", {"toolkit.steps": {"clip": "old:Clip"}}, version="1.0")
    install(tmp_path / "newer", "Made_A", {"toolkit.steps": {"clip": "new:Clip"}}, version="2.0")
    monkeypatch.syspath_prepend(tmp_path / "newer")
    found = find_plugin(PluginKind.STEP, "clip")
    assert found is not None
    assert (found.package, found.target) == ("Made_A 2.0", "new:Clip")


def test_two_packages_of_one_name_are_both_named(site: Path) -> None:
    install(site, "made-a", {"toolkit.steps": {"clip": "a:Clip"}})
    install(site, "made-b", {"toolkit.steps": {"clip": "b:Clip"}}, version="3.0")
    said = r"the step 'clip' is added by made-a 1\.0 \(entry point a:Clip\) and made-b 3\.0 \(entry point b:Clip\)"
    with pytest.raises(PluginError, match=f"{said}: uninstall all but one of them"):
        find_plugin(PluginKind.STEP, "clip")
    assert find_plugin(PluginKind.OUTPUT, "clip") is None


@pytest.mark.parametrize(
    ("text", "target", "says"),
    [
        ("import nowhere", "made_c:SPEC", "ModuleNotFoundError: No module named 'nowhere'"),
        ("x = ", "made_c:SPEC", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('first\\nsecond')", "made_c:SPEC", "RuntimeError: first. Update"),
        ("raise SystemExit(3)", "made_c:SPEC", "SystemExit: 3"),
        ("class Odd(Exception): pass\nraise Odd", "made_c:SPEC", "Odd. Update"),
        ("class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd", "made_c:SPEC", "a Odd that can't be shown"),
        ("raise BaseExceptionGroup('two', [SystemExit()])", "made_c:SPEC", "BaseExceptionGroup: two"),
        ("raise GeneratorExit", "made_c:SPEC", "GeneratorExit. Update"),
        ("", "made_c:SPEC", "AttributeError: module 'made_c' has no attribute 'SPEC'"),
        (None, "made_c:SPEC", "ModuleNotFoundError: No module named 'made_c'"),
        ("", "made c", "can't be imported"),
    ],
)
def test_what_can_not_be_imported_says_whose_it_is(site: Path, text: str | None, target: str, says: str) -> None:
    install(site, "made-c", {"toolkit.outputs": {"odd": target}}, module=text)
    plugin = find_plugin(PluginKind.OUTPUT, "odd")
    assert plugin is not None
    with pytest.raises(PluginError) as caught:
        plugin.load()
    assert isinstance(caught.value, UsageError)
    assert f"the output 'odd' of made-c 1.0 (entry point {target}): it can't be imported: " in str(caught.value)
    assert says in str(caught.value)
    assert str(caught.value).endswith("Update made-c, or uninstall it")
    assert caught.value.__cause__ is not None


def test_ctrl_c_while_one_is_imported_is_no_fault_of_it(site: Path) -> None:
    install(site, "made-c", {"toolkit.outputs": {"odd": "made_c:SPEC"}}, module="raise KeyboardInterrupt")
    plugin = find_plugin(PluginKind.OUTPUT, "odd")
    assert plugin is not None
    with pytest.raises(KeyboardInterrupt):
        plugin.load()


def test_what_one_prints_stays_out_of_the_results(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "made-c", {"toolkit.outputs": {"odd": "made_c:SPEC"}}, module="print('hello')\nSPEC = 1")
    plugin = find_plugin(PluginKind.OUTPUT, "odd")
    assert plugin is not None
    assert plugin.load() == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "hello\n")


def test_what_can_not_be_read_is_passed_over(site: Path) -> None:
    install(site, "made-a", {"toolkit.steps": {"clip": "a:Clip"}})
    (site / "made_a-1.0.dist-info/entry_points.txt").write_bytes(b"[toolkit.steps]\n\xff\xfe = a:b\n")
    install(site, "made-b", {"toolkit.steps": {}})
    (site / "made_b-1.0.dist-info/entry_points.txt").write_text("toolkit.steps without a section\n")
    install(site, "made-c", {"toolkit.steps": {"zoom": "c:Zoom"}})
    (site / "made_c-1.0.dist-info/METADATA").unlink()
    install(site, "made-d", {"toolkit.steps": {"crop2": "d:Crop"}})
    assert [plugin.name for plugin in of(site)] == ["crop2"]


def test_nothing_looks_for_plugins_that_needs_none(tmp_path: Path) -> None:
    program = """
        import toolkit.plugins
        def refuse():
            raise SystemExit("somebody looked for plugins")
        toolkit.plugins._installed = refuse
        from pictures import make_folder
        from pathlib import Path
        from toolkit.cli.main import run
        make_folder(Path("photos"), {"train/cat": 4})
        assert run(["--help"]) == 0 == run(["pack", "--help"]) == run(["bench", "--help"])
        assert run(["pack", "photos", "ds"]) == run(["verify", "ds"]) == run(["inspect", "ds"]) == 0
        import toolkit
        ds = toolkit.open("ds")
        steps = toolkit.pipeline(toolkit.slot("image").decode_image().resize((8, 8)).maybe(toolkit.chain().hflip()))
        for output in ("numpy", "torch"):
            assert len(list(ds.loader(steps, batch_size=2, output=output))) == 2
        assert not hasattr(toolkit.slot("x"), "__array__")
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in program.splitlines())],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
