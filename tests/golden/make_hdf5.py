"""Write tests/golden/hdf5: a file of every type that HDF5 has columns for, and what h5py reads of it; damaged files.

    python tests/golden/make_hdf5.py

Written with h5py 3.16.0 over HDF5 2.0.0.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

FOLDER = Path(__file__).parent / "hdf5"
ROWS = 12


def plain(value: Any) -> Any:
    """A value as JSON has it; bytes as the text of each byte's number."""
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()] if value.dtype.kind != "V" else value.tobytes().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, complex):
        return [value.real, value.imag]
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def write(path: Path) -> None:
    rng = np.random.default_rng(11)
    rows = np.arange(ROWS)
    with h5py.File(path, "w") as file:
        file.attrs["made by"] = "make_hdf5.py"
        file["n"] = rows
        file["big"] = (rows * 300).astype(">i2")
        file["half"] = (rows / 4).astype("<f2")
        file["flag"] = rows % 3 == 0
        file.create_dataset("kind", data=rows % 3, dtype=h5py.enum_dtype({"dog": 1, "cat": 0, "bird": 2}, "i1"))
        file.create_dataset("level", data=rows % 2 * 10, dtype=h5py.enum_dtype({"low": 0, "high": 10}, "<u2"))
        file.create_dataset("text", data=[f"é {i}" * (i % 4) for i in rows], dtype=h5py.string_dtype())
        file["short"] = np.array([f"s{i}".encode() for i in rows], "S5")
        data = file.create_dataset("data", (ROWS,), h5py.vlen_dtype("u1"))
        lists = file.create_dataset("lists", (ROWS,), h5py.vlen_dtype(">f4"))
        for i in rows:
            data[i] = rng.integers(0, 256, i % 5, np.uint8)
            lists[i] = np.arange(i % 4, dtype="f4") / 2
        file["row"] = rng.integers(0, 99, (ROWS, 3), np.uint16)
        file.create_dataset("grid", data=rng.random((ROWS, 4, 5)), chunks=(5, 3, 5), compression="gzip", shuffle=True)
        file.create_dataset("zipped", data=rng.integers(0, 9, (ROWS, 40)), chunks=(2, 40), compression="lzf")
        file.create_dataset("summed", data=rows * 1.5, chunks=(5,), fletcher32=True)
        file["wave"] = rng.random(ROWS) + 1j * rng.random(ROWS)
        record = np.dtype([("a", ">u2"), ("b", h5py.string_dtype()), ("c", "<f8", (2,))])
        file["record"] = np.array([(i, f"b{i}", (i, i / 2)) for i in rows], record)
        file["linked"] = h5py.SoftLink("/n")
        file["version"] = 3


def values(path: Path) -> dict[str, Any]:
    with h5py.File(path, "r") as file:
        found: dict[str, Any] = {}
        for name in file:
            array = file[name][()]
            if not np.shape(array):
                continue
            if array.dtype.names:
                for part in array.dtype.names:
                    found[f"{name}.{part}"] = plain(list(array[part])) if part == "b" else plain(array[part])
            else:
                found[name] = plain(list(array)) if array.dtype.kind == "O" else plain(array)
        return found


def write_damaged(folder: Path) -> None:
    """Write files with one changed byte: HDF5 2.0.0 crashes when it reads one, and never comes back from the other."""
    whole = folder / "whole.h5"
    with h5py.File(whole, "w", libver="earliest") as file:
        file.create_dataset("a", data=np.arange(60).reshape(20, 3), chunks=(5, 3), compression="gzip")
        file.create_dataset("t", data=["ab", "c"] * 10, dtype=h5py.string_dtype())
        lists = file.create_dataset("v", (20,), h5py.vlen_dtype("i4"))
        for i in range(20):
            lists[i] = np.arange(i % 5)
    data = whole.read_bytes()
    whole.unlink()
    for name, at, value in (("crash", 6121, 9), ("hang", 9032, 20)):
        damaged = bytearray(data)
        damaged[at] = value
        (folder / f"{name}.h5.gz").write_bytes(gzip.compress(damaged, mtime=0))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write(FOLDER / "types.h5")
    text = json.dumps(values(FOLDER / "types.h5"), indent=None, sort_keys=True)
    (FOLDER / "types.json").write_text(text.replace('], "', '],\n"') + "\n")
    write_damaged(FOLDER)
