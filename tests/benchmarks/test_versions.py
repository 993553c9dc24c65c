"""The comparison of two checkouts: each side is measured, and one that isn't compiled is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import versions
from pictures import make_folder


def test_both_checkouts_are_measured(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", {"a": 8})
    figures = versions.measure(tmp_path / "in", versions.HERE, cases=["image"], count=8, repeats=2, work=tmp_path)
    assert [figure.name for figure in figures] == [
        "image, eval exact",
        "image, eval fast",
        "image, train exact",
    ]
    assert all(len(figure.ours) == len(figure.theirs) == 2 for figure in figures)
    assert all(rate > 0 for figure in figures for rate in (*figure.ours, *figure.theirs))


def test_a_checkout_without_compiled_modules_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    assert versions.main([str(tmp_path / "in"), "--other", str(tmp_path)]) == 1
    assert "is not compiled" in capsys.readouterr().err


def test_a_ratio_is_taken_within_a_repeat() -> None:
    figure = versions.Figure(name="pack", ours=(2.0, 30.0, 4.0), theirs=(1.0, 10.0, 4.0))
    assert figure.ratios == [2.0, 3.0, 1.0]
    assert figure.ratio == 2.0
