"""Write small image folders with metadata files, and what Hugging Face's datasets (5.0.1) makes of them.

    python tests/golden/make_hf_folder.py

The pictures are made here; `expected.json` has, for each folder and split, the rows in the order of `datasets`, and of
each picture the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = Path(__file__).parent / "hf_folder"


def picture(path: Path, shade: int) -> None:
    """Write a small picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (shade, 2 * shade, 3 * shade)).save(path)


def write() -> None:
    """Write the folders."""
    for split, count in (("train", 3), ("test", 2)):
        for i in range(count):
            picture(HERE / f"splits/{split}/{i}.png", 10 * i + count)
        rows = "".join(f'{i}.png,"caption, {i}",{i},{i / 3!r},{("cat", "dog")[i % 2]}\n' for i in range(count))
        (HERE / f"splits/{split}/metadata.csv").write_text(f"file_name,text,n,x,label\n{rows}")
    for i in range(3):
        picture(HERE / f"lines/pics/{i}.png", 5 * i + 1)
    lines = [
        {"n": 1, "file_name": "pics/0.png", "text": "é", "boxes": [[1, 2, 3, 4]]},
        {"n": None, "file_name": "pics/1.png", "text": None, "boxes": []},
    ]
    (HERE / "lines/metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for i in range(2):
        picture(HERE / f"pairs/in{i}.png", 7 * i + 2)
        picture(HERE / f"pairs/out{i}.png", 9 * i + 3)
    table = pa.table(
        {"input_file_name": ["in0.png", "in1.png"], "output_file_name": ["out0.png", "out1.png"], "n": [3, 4]}
    )
    pq.write_table(table, HERE / "pairs/metadata.parquet")
    for name in ("cat", "dog"):
        picture(HERE / f"classes/train/{name}/0.png", len(name))
        picture(HERE / f"classes/train/{name}/1.png", 20 + len(name))
    (HERE / "classes/train/metadata.csv").write_text("file_name,n\ncat/0.png,1\ndog/1.png,2\n")


def told(folder: Path) -> dict[str, Any]:
    """Return what `datasets` makes of a folder."""
    loaded = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(HERE / "cache"))
    found = {}
    for split, rows in loaded.items():
        plain = datasets.Features(
            {
                name: datasets.Image(decode=False) if isinstance(feature, datasets.Image) else feature
                for name, feature in rows.features.items()
            }
        )
        found[split] = [{name: value_of(value) for name, value in row.items()} for row in rows.cast(plain)]
    return found


def value_of(value: Any) -> Any:
    """Return a value as JSON has it; of a picture the hash of its bytes."""
    if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
        data = value["bytes"] or Path(value["path"]).read_bytes()
        return {"sha256": hashlib.sha256(data).hexdigest()}
    return value


if __name__ == "__main__":
    shutil.rmtree(HERE, ignore_errors=True)
    write()
    expected = {folder.name: told(folder) for folder in sorted(HERE.iterdir()) if folder.name != "cache"}
    shutil.rmtree(HERE / "cache", ignore_errors=True)
    text = json.dumps({"datasets": datasets.__version__, "folders": expected}, indent=1, sort_keys=True)
    (HERE / "expected.json").write_text(text + "\n")
