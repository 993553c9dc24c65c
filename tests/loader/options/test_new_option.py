"""What an option costs: a line that declares it, and the code that obeys it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Unpack

import pytest

from toolkit.errors import UsageError
from toolkit.loader.options import fronts as declared
from toolkit.loader.options import loader
from toolkit.loader.options.fronts import OptionsOf
from toolkit.loader.options.keywords import LoaderKeywords, StreamKeywords
from toolkit.loader.options.option import Option
from toolkit.loader.tokens import options as tokens_options

PACE = Annotated[int | None, Option(None, "Batches a second, at most.", least=1)]


class PacedLoader(LoaderKeywords, total=False):
    """As if the line stood in LoaderKeywords."""

    pace: PACE


class PacedStream(StreamKeywords, total=False):
    """As if it stood in StreamKeywords."""

    pace: PACE


def test_an_option_is_one_declaration(fronts: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "LOADER", OptionsOf("a loader", PacedLoader))
    monkeypatch.setattr(tokens_options, "STREAM", OptionsOf("a token stream", PacedStream))
    for called in ("a loader", "a token stream"):
        front = fronts[called]
        assert front().options.given["pace"] is None
        assert front(pace=3).options.given["pace"] == 3
        with pytest.raises(UsageError, match=r"^pace must be an int of at least 1, got 0$"):
            front(pace=0)
        with pytest.raises(UsageError, match=rf"^{called} takes no pacee=\. Did you mean 'pace'"):
            front(pacee=3)


def test_it_is_in_signatures_and_documentation() -> None:
    @OptionsOf("a loader", PacedLoader).documented
    def front(**options: Unpack[PacedLoader]) -> None:
        """Front."""

    assert inspect.signature(front).parameters["pace"].default is None
    assert "pace: Batches a second, at most." in (front.__doc__ or "")


def test_nobody_takes_it_otherwise() -> None:
    assert all("pace" not in front.options for front in declared._ALL)
