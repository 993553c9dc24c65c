"""The table of damage: toolkit gives all samples or an error that names the place, whatever was damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import reliability as benchmark


def test_every_damage_of_toolkits_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"nothing", "shard: payload flipped", "shard removed", "running: shards rewritten"}
    monkeypatch.setattr(benchmark, "DAMAGES", [one for one in benchmark.DAMAGES if one.name in chosen])
    lines = list(benchmark.table([], tmp_path, ["toolkit"]))
    cells = {line.split(" | ")[0][2:]: set(line.rstrip(" |").split(" | ")[1:]) for line in lines[2:]}
    assert cells == {
        "nothing": {"all samples"},
        "shard: payload flipped": {"error, named"},
        "shard removed": {"error, named"},
        "running: shards rewritten": {"error, named"},
    }
