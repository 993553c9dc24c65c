"""What is done with a mutated dataset, and what must hold whatever it is: right values or an error of toolkit's own."""

from __future__ import annotations

import contextlib
import functools
import io
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from typer.main import get_command

from toolkit.errors import IntegrityError, ToolkitError

__all__ = ["ACTIONS", "Finding"]

_COMMAND = functools.cache(get_command)
FEW = 64  # samples that are read one by one, of a split that claims to have more


class Finding(Exception):
    """Something that must not be."""


def _splits(root: Path) -> Iterator[Any]:
    import toolkit
    from toolkit.format.pin import resolve

    for split in resolve(root).manifest.splits:
        yield toolkit.open(root, split=split)


def opened(root: Path) -> None:
    """Open every split and ask it everything that needs no shard."""
    for ds in _splits(root):
        if len(ds) < 0:
            raise Finding(f"a length of {len(ds)}")
        str(ds), ds.schema, ds.columns, ds.class_names, ds.files, ds.pin


def items(root: Path) -> None:
    """Read samples and slices."""
    for ds in _splits(root):
        with contextlib.suppress(ToolkitError):
            ds.keys(np.arange(min(len(ds), FEW)))
        for row in {*range(min(len(ds), FEW)), *range(max(0, len(ds) - 3), len(ds))}:
            with contextlib.suppress(ToolkitError):
                ds[row]
        view = ds[1 : len(ds) : 2]
        for row in range(min(len(view), 3)):
            with contextlib.suppress(ToolkitError):
                view[row]


def filtered(root: Path) -> None:
    """Filter by each column."""
    for ds in _splits(root):
        if len(ds) > 1_000_000:
            continue
        for column in ds.columns:
            with contextlib.suppress(ToolkitError):
                len(ds.filter(pc.field(column.name).is_valid()))


def loaded(root: Path) -> None:
    """Run an epoch of all columns, one column at a time if that fails, and one of decoded pictures."""
    import toolkit
    from toolkit import slot

    for ds in _splits(root):
        if len(ds) > 100_000:
            continue
        images = [slot(column.name).decode_image().resize(8, 8) for column in ds.columns if column.kind == "image"]
        pipelines = [None, toolkit.pipeline(*images)] if images else [None]
        for pipeline in pipelines:
            for columns in (None, *([column.name] for column in ds.columns)):
                with contextlib.suppress(ToolkitError):
                    part = toolkit.open(root, split=ds.split, columns=columns)
                    options = {"batch_size": 4, "shuffle": "full", "threads": 2, "max_bytes": 64 << 20}
                    with part.loader(pipeline, hold_timeout=5, **options) as loader:
                        got = sum(len(batch.sample_keys) for batch in loader)
                    if got != len(part):
                        raise Finding(f"an epoch of {got} samples, planned were {len(part)}")
                if pipeline is not None:
                    break


def tokens(root: Path) -> None:
    """Stream windows of tokens; every id is below the vocabulary if the dataset is called good."""
    for ds in _splits(root):
        stream = ds.tokens(seq_len=8, batch_size=2, shuffle="none", threads=0, remainder="drop")
        for number, batch in enumerate(stream):
            np.asarray(batch["tokens"]).sum()
            if number > 500:
                break


def head(root: Path) -> None:
    """Print the first samples of each split."""
    from toolkit.format.pin import resolve

    for split in resolve(root).manifest.splits:
        _program("head", root, "--split", split)


def inspected(root: Path) -> None:
    """Inspect, as text and as JSON, with labels."""
    _program("inspect", root)
    _program("inspect", root, "--json")
    _program("inspect", root, "--labels")


def quickly_verified(root: Path) -> None:
    """Verify quickly."""
    _program("verify", root)


def fully_verified(root: Path) -> None:
    """Verify everything; where nothing is found, every sample can be read and every epoch delivers what is planned."""
    code = _program("verify", root, "--full", "--decode", "--json")
    if code != 0:
        return
    for ds in _splits(root):
        rows = range(len(ds))
        if len(ds) > 100_000:
            raise Finding(f"verify --full finds nothing wrong with {len(ds)} rows")
        if len(set(ds.keys(np.arange(len(ds))))) != len(ds):
            raise Finding("verify --full finds nothing wrong with duplicate keys")
        for row in rows:
            try:
                ds[row]
            except IntegrityError as error:
                raise Finding(f"verify --full finds nothing, but row {row}: {error}") from error


def _program(*args: object) -> int:
    """Run the command line in this process; return its exit code."""
    from toolkit.cli import main

    main.get_command = _COMMAND  # typer takes longer to make the commands than they take
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.run([str(arg).encode("utf-8", "replace").decode() for arg in args])
    said = out.getvalue() + err.getvalue()
    if code not in (0, 1, 2, 3, 4, 5) or "error: unexpected " in err.getvalue():
        raise Finding(f"{args[0]} ends with {code}: {err.getvalue().strip()[-500:]}")
    if code == 0 and err.getvalue().strip() and "--json" in args:
        raise Finding(f"{args[0]} says on stderr: {err.getvalue()[:500]}")
    strange = {char for char in said if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    if strange:
        raise Finding(f"{args[0]} prints {sorted(map(hex, map(ord, strange)))}")
    return code


ACTIONS: dict[str, Callable[[Path], None]] = {
    "open": opened,
    "items": items,
    "filter": filtered,
    "load": loaded,
    "tokens": tokens,
    "head": head,
    "inspect": inspected,
    "verify": quickly_verified,
    "verify --full": fully_verified,
}
