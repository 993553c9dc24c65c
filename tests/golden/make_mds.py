"""Write tests/golden/mds: datasets of MosaicML Streaming, and in values.json what its own reader gives of them.

    python tests/golden/make_mds.py

Run with mosaicml-streaming 0.13, NumPy 2.1 and Pillow 13.0, none of which the tests need. Pictures are noted as the
pixels that Pillow makes of what the reader gives.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

HERE = Path(__file__).parent / "mds"
SCALARS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["float16", "float32", "float64"]
MODES = ("1", "L", "P", "LA", "RGB", "RGBA", "I;16", "I")

EVERYTHING = {
    "a_bytes": "bytes",
    "a_str": "str",
    "an_int": "int",
    **{f"a_{name}": name for name in SCALARS},
    "a_str_int": "str_int",
    "a_str_float": "str_float",
    "a_str_decimal": "str_decimal",
    "an_array": "ndarray",
    "an_array_of_a_type": "ndarray:float32",
    "an_array_of_a_shape": "ndarray:int16:2,3",
    "a_jpeg": "jpeg",
    "a_png": "png",
    "a_pil": "pil",
    "jpegs": "list[jpeg]",
    "pngs": "list[png]",
    "pils": "list[pil]",
    "a_jpegarray": "jpegarray",
    "some_json": "json",
}


def picture(rng: np.random.Generator, mode: str) -> Image.Image:
    size = (int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    if mode in ("I", "I;16"):
        values = rng.integers(0, 1 << 16, size[::-1])
        return Image.fromarray(values.astype(np.int32 if mode == "I" else np.uint16))
    if mode == "1":
        return Image.fromarray(rng.integers(0, 2, size[::-1]).astype(np.bool_))
    channels = len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, size, rng.bytes(size[0] * size[1] * channels))


def jpeg(rng: np.random.Generator) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        picture(rng, "RGB").save(file.name)
        return Path(file.name).read_bytes()


def everything(count: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(7)
    dtypes = ("uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64")
    for i in range(count):
        numbers: dict[str, Any] = {}
        for name in SCALARS:
            dtype = np.dtype(name)
            if dtype.kind == "f":
                numbers[f"a_{name}"] = dtype.type([0.1, -0.0, 3e4][i % 3])
            else:
                limits = np.iinfo(dtype)
                numbers[f"a_{name}"] = [limits.min, limits.max, 5][i % 3]
        shape = tuple(rng.integers(1, 4, i % 3 + 1).tolist())
        if i == 4:
            shape = (300,)  # sides of two bytes
        yield {
            "a_bytes": b"" if i == 2 else rng.bytes(i),
            "a_str": ["", "text", "Grüße, 世界\n"][i % 3],
            "an_int": [-(1 << 63), (1 << 63) - 1, 0][i % 3],
            **numbers,
            "a_str_int": [-(1 << 63), 12, (1 << 63) - 1][i % 3],
            "a_str_float": [0.1, -1e300, float("inf")][i % 3],
            "a_str_decimal": Decimal(["0.10", "-1E+400", "123456789012345678901234567890.5"][i % 3]),
            "an_array": rng.integers(0, 100, shape).astype(dtypes[i % len(dtypes)]),
            "an_array_of_a_type": rng.random(shape).astype(np.float32),
            "an_array_of_a_shape": rng.integers(-9, 9, (2, 3)).astype(np.int16),
            "a_jpeg": picture(rng, "RGB"),
            "a_png": picture(rng, "RGBA"),
            "a_pil": picture(rng, MODES[i % len(MODES)]),
            "jpegs": [picture(rng, "RGB") for _ in range(i % 3)],
            "pngs": [picture(rng, "L") for _ in range(i % 2)],
            "pils": [picture(rng, "RGB") for _ in range(i % 3)],
            "a_jpegarray": [jpeg(rng) for _ in range(i % 2 + 1)],
            "some_json": [{"a": [1, 2.5, None]}, [], "text"][i % 3],
        }


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case bytes():
            return {"hex": value.hex()}
        case Decimal():
            return str(value)
        case np.ndarray():
            return {"dtype": value.dtype.name, "shape": list(value.shape), "hex": value.tobytes().hex()}
        case np.generic():
            return value.item()
        case Image.Image():
            return {"mode": value.mode, "pixels": plain(np.asarray(value))}
        case list() if value and isinstance(value[0], Image.Image):
            return [plain(one) for one in value]
    return value


def write(name: str, columns: dict[str, str], samples: list[dict[str, Any]], **options: Any) -> list[Any]:
    with MDSWriter(columns=columns, out=str(HERE / name), **options) as writer:
        for sample in samples:
            writer.write(sample)
    clean_stale_shared_memory()
    with tempfile.TemporaryDirectory() as folder:
        read = StreamingDataset(
            remote=str(HERE / name), local=folder, batch_size=1, shuffle=False, allow_unsafe_types=True
        )
        return [{key: plain(value) for key, value in read[i].items()} for i in range(len(samples))]


def main() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    small = [{"id": i, "text": f"text {i} " * (i % 5)} for i in range(9)]
    two = {"id": "int", "text": "str"}
    values = {
        "everything": write(
            "everything", EVERYTHING, list(everything(11)), hashes=["sha1", "sha256", "xxh64"], size_limit=8192
        ),
        "pickled": write("pickled", {"a": "pkl", "id": "int"}, [{"a": (1, "b"), "id": i} for i in range(3)]),
    }
    for split, part in {"train": small, "val": small[3:7]}.items():
        values[f"splits/{split}"] = write(f"splits/{split}", two, part, size_limit=320, hashes=["md5"])
    for name in ("zstd", "gz:5", "bz2", "br", "snappy"):
        folder = name.partition(":")[0]
        values[folder] = write(folder, two, small, compression=name, hashes=["sha256", "xxh3_64"], size_limit=320)
    text = json.dumps(values, indent=None, separators=(",", ":"), sort_keys=True)
    (HERE / "values.json").write_text(text.replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    main()
