"""Every front, ready to be given options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit

Front = Callable[..., Any]


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "tokens"
    toolkit.pack_tokens([np.arange(1000), np.arange(500)], path, vocabulary=1000)
    return path


@pytest.fixture
def fronts(packed: Path, tokens: Path) -> dict[str, Front]:
    """By the name that errors call them; each with what it needs."""
    torch = pytest.importorskip("toolkit.torch")
    samples, text = toolkit.open(packed, split="val", columns=["label"]), toolkit.open(tokens)

    def given(call: Callable[..., Any], *args: Any, **needed: Any) -> Front:
        return lambda **options: call(*args, **{**needed, **options})

    return {
        "a loader": given(samples.loader, batch_size=4),
        "a token stream": given(text.tokens, batch_size=4, seq_len=8),
        "a mix": given(toolkit.mix_tokens, {"a": text}, {"a": 1}, batch_size=4, seq_len=8),
        "toolkit.torch.IterableDataset": given(torch.IterableDataset, samples, batch_size=4),
        "toolkit.torch.Dataset": given(torch.Dataset, samples),
    }
