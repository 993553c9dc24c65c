"""Write tests/golden/webdataset: tars with gzip, bzip2 and xz members by webdataset's writer, and what its reader says.

    python tests/golden/make_webdataset.py

Run with webdataset 1.0.2 and numpy, on a machine with GNU tar, bzip2 and xz; the tests need none of them. The same tar
lies there plain, compressed by webdataset itself (gzip), and by GNU tar (bzip2, xz). Values are what
WebDataset(...).decode() makes of the plain one: text and JSON as they are, arrays as lists, bytes in base64.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import webdataset

FOLDER = Path(__file__).parent / "webdataset"
# A GIF of one pixel.
GIF = bytes.fromhex("47494638396101000100800000ff0000ffffff21f90400000000002c00000000010001000002024401003b")


def samples() -> list[dict[str, object]]:
    return [
        {
            "__key__": f"a/{i:03d}",
            "txt": f"plain {i}",
            "caption.txt.gz": f"gunzipped {i} é" * (1 + i * 20),
            "meta.json.gz": {"number": i, "names": ["é", None]},
            "cls.gz": i % 3,
            "x.npy.gz": np.arange(i, dtype=np.float32).reshape(1, -1),
            "seg.gif.gz": GIF,
            "nii.gz": bytes([i]) * 100,
            "gz": gzip.compress(b"the writer takes this for no gzip, the reader does", mtime=0),
            "twice.txt.gz.gz": gzip.compress(b"unpacked once", mtime=0),
            "notes.txt.bz2": bz2.compress(b"as it is %d" % i),
            "notes.json.xz": lzma.compress(b'{"as it is": %d}' % i),
        }
        for i in range(4)
    ]


def plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for name in ("members.tar", "members.tar.gz"):
        with webdataset.TarWriter(str(FOLDER / name), mtime=0, user="", group="") as sink:
            for sample in samples():
                sink.write(sample)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-xf", FOLDER / "members.tar"], cwd=folder, check=True)
        for flag, suffix in (("--bzip2", "bz2"), ("--xz", "xz")):
            command = ["tar", "--sort=name", "--owner=0", "--group=0", "--mtime=@0", flag, "-cf"]
            subprocess.run([*command, FOLDER / f"members.tar.{suffix}", "a"], cwd=folder, check=True)
    read = webdataset.WebDataset(str(FOLDER / "members.tar"), shardshuffle=False).decode()
    values = [
        {name: plain(value) for name, value in sample.items() if name not in ("__url__", "__local_path__")}
        for sample in read
    ]
    told = {"webdataset": version("webdataset"), "samples": values}
    (FOLDER / "values.json").write_text(json.dumps(told, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
