"""What a program does with toolkit.writer(), for the driver: it writes records, a part of them, or merges parts."""

from __future__ import annotations

import numpy as np

import toolkit

__all__ = ["write_records"]

OPTIONS = {"columns": {"data": "bytes", "label": "label"}, "shard_size": "64KiB", "jobs": 1}


def write_records(dataset: str, what: str, records: str, part: str = "0") -> int:
    """Write so many records of 40 kB, or merge so many parts; print the pin.

    Args:
        dataset: The folder.
        what: "whole", "part" of two, or "merge".
        records: How many.
        part: Which part.
    """
    if what == "merge":
        print(f"pin={toolkit.merge_parts(dataset, parts=2).pin}")
        return 0
    given = {"part": int(part), "parts": 2, "classes": ["even", "odd"]} if what == "part" else {}
    with toolkit.writer(dataset, on_existing="resume", **OPTIONS, **given) as w:
        for number in range(w.done, int(records)):
            data = np.random.default_rng(number).bytes(40_000)
            w.add(data=data, label=("even", "odd")[number % 2], key=f"{part}-{number}")
    print("done" if w.result is None else f"pin={w.result.pin}")
    return 0
