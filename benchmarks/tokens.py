"""Compare streaming tokens with other loaders of tokens and with gathers written by hand: in turns, medians and spread.

    python benchmarks/tokens.py --work DIR [--tokens 200M] [--rounds 3] [--peer-path DIR:DIR] [--json]

Every side delivers batches of 32 x 1024 tokens as int32, shuffled by blocks of 1024 tokens (Roxxel: of 4096 bytes, its
default), in the consumer's thread or one of its own, and the consumer sums every token with numpy. Each side and round
is a fresh process; the files are read once before it is timed. toolkit has two figures: "first" is the first epoch of
a process, in which every byte's CRC32C is checked, "later" the median of the epochs after it.

The text is what Debian installs (documentation, manual pages, package descriptions), or --text FOLDERS; tokenised by a
BPE of 32,000 words that is trained on a part of it when `tokenizers` is installed, else as bytes. Where there is less
of it than --tokens it is repeated, and the report says how often. It is made once, and kept in --work.

memmap is a gather as nanoGPT has it, over an np.memmap of uint16; C is the same with the cast in a loop of C, its order
and output made beforehand. --peer-path are the peers' site folders, as made by pip install --target DIR roxxel
mosaicml-streaming litdata; a peer that can't be imported or fails is left out, with its reason. A ratio is toolkit's
rate by that side's in the same round, their median: above 1 toolkit was faster.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SIDES", "main", "prepare"]

ROWS, SEQ_LEN = 32, 1024
TEXT = ("/usr/share/doc", "/usr/share/man")
TRAINED_BYTES = 8_000_000
VOCABULARY = 32_000
LATER_EPOCHS = 3

C_GATHER = """
#include <stdint.h>
void gather(const uint16_t *ids, const int64_t *starts, int64_t rows, int64_t length, int32_t *out)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++)
            out[r * length + i] = ids[starts[r] + i];
}
"""

# --- the text --------------------------------------------------------------------------------------------------------


def texts(folders: list[str]) -> Iterator[str]:
    """Yield the documents: text files below the folders, gzipped or not; by default package descriptions too."""
    for folder in folders:
        for base, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                path = os.path.join(base, name)
                try:
                    with gzip.open(path) if name.endswith(".gz") else open(path, "rb") as file:
                        data = file.read(4 << 20)
                    yield data.decode()
                except (OSError, EOFError, UnicodeDecodeError):
                    continue  # a broken link, a picture, another encoding
    if tuple(folders) == TEXT and shutil.which("apt-cache"):
        done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=False)
        yield from done.stdout.decode("utf-8", "replace").split("\n\n")


def prepare(work: Path, wanted: int, folders: list[str], peer_path: str, peers: list[str]) -> dict[str, Any]:
    """Make what every side reads, unless it is there; return what it consists of."""
    facts_file = work / "facts.json"
    asked = {"tokens": wanted, "folders": folders, "peers": [peer_path, *peers]}
    if facts_file.exists():
        facts: dict[str, Any] = json.loads(facts_file.read_text())
        if facts["asked"] == asked:
            return facts
    for name in ("ds", "mds", "lit"):
        shutil.rmtree(work / name, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    documents, facts = _tokenised(work, wanted, folders)
    ids = np.concatenate(documents)[:wanted]
    ids.tofile(work / "tokens.bin")
    import toolkit

    ends = np.cumsum([len(document) for document in documents])
    repeated = np.split(ids, ends[ends < len(ids)])
    toolkit.pack_tokens(repeated, work / "ds", vocabulary=VOCABULARY + 1, on_existing="overwrite")
    facts |= {"asked": asked, "tokens": len(ids), "documents": len(repeated), "sum": int(ids.astype(np.int64).sum())}
    facts["peers"] = {side: _peer(side, "write", work, peer_path) for side in peers}
    facts_file.write_text(json.dumps(facts))
    return facts


def _tokenised(work: Path, wanted: int, folders: list[str]) -> tuple[list[np.ndarray], dict[str, Any]]:
    from toolkit.sources.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(_train(work, folders) or "bytes", eos=True)
    made: list[np.ndarray] = []
    total = nbytes = 0
    part: list[str] = []
    for text in texts(folders):
        part.append(text)
        nbytes += len(text)
        if sum(map(len, part)) > 4_000_000:
            ends, ids = tokenizer.encode(part)
            made += np.split(ids.astype(np.uint16), ends[1:-1])
            total, part = total + len(ids), []
        if total >= wanted:
            break
    if part and total < wanted:
        ends, ids = tokenizer.encode(part)
        made += np.split(ids.astype(np.uint16), ends[1:-1])
        total += len(ids)
    if not total:
        raise SystemExit(f"no text below {', '.join(folders)}: say where there is some, with --text")
    facts = {"text_bytes": nbytes, "distinct_tokens": min(total, wanted), "tokenizer": tokenizer.encoding.tokenizer}
    return made * -(-wanted // total), facts


def _train(work: Path, folders: list[str]) -> str | None:
    path = work / "tokenizer.json"
    if path.exists():
        return str(path)
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        return None

    def some() -> Iterator[str]:
        left = TRAINED_BYTES
        for number, text in enumerate(texts(folders)):
            if number % 4 == 0:
                yield text
                left -= len(text)
            if left < 0:
                return

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(some(), trainer)
    tokenizer.save(str(path))
    return str(path)


# --- the sides: each is a function in a process of its own ------------------------------------------------------------

Epoch = Callable[[], Iterator[np.ndarray]]


def side_toolkit(work: Path) -> Epoch:
    """Return an epoch of a stream that checks what it reads."""
    import toolkit

    stream = toolkit.open(work / "ds").tokens(
        seq_len=SEQ_LEN, batch_size=ROWS, shuffle="block", remainder="drop", threads=THREADS["toolkit"]
    )
    return lambda: (batch["tokens"] for batch in stream)


def side_memmap(work: Path) -> Epoch:
    """Return an epoch as it is written in training scripts."""
    ids = np.memmap(work / "tokens.bin", np.uint16, "r")
    rng = np.random.default_rng(0)

    def epoch() -> Iterator[np.ndarray]:
        starts = rng.permutation(len(ids) // SEQ_LEN) * SEQ_LEN
        for first in range(0, len(starts) - ROWS + 1, ROWS):
            rows = [ids[start : start + SEQ_LEN].astype(np.int32) for start in starts[first : first + ROWS]]
            yield np.stack(rows)

    return epoch


def side_c(work: Path) -> Epoch:
    """Return an epoch that a loop of C gathers."""
    source, library = work / "gather.c", work / "gather.so"
    source.write_text(C_GATHER)
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
    gather = ctypes.CDLL(str(library)).gather
    gather.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    ids = np.memmap(work / "tokens.bin", np.uint16, "r")
    starts = np.random.default_rng(0).permutation(len(ids) // SEQ_LEN) * SEQ_LEN
    out = np.empty((ROWS, SEQ_LEN), np.int32)

    def epoch() -> Iterator[np.ndarray]:
        address, order, into = ids.ctypes.data, starts.ctypes.data, out.ctypes.data
        for first in range(0, len(starts) - ROWS + 1, ROWS):
            gather(address, order + 8 * first, ROWS, SEQ_LEN, into)
            yield out

    return epoch


def write_roxxel(work: Path) -> None:
    from roxxel import Roxxel

    path = work / "data.rox"
    path.unlink(missing_ok=True)
    ids = np.fromfile(work / "tokens.bin", np.uint16)
    Roxxel(str(path)).write(iter(np.array_split(ids, max(1, len(ids) >> 20))), block_size=4096)


def side_roxxel(work: Path) -> Epoch:
    from roxxel import Roxxel

    data = Roxxel(str(work / "data.rox"))

    def epoch() -> Iterator[np.ndarray]:
        return (np.asarray(batch) for batch in data.stream(seq_len=SEQ_LEN, batch_size=ROWS, seed=0, dtype=np.int32))

    return epoch


def write_mds(work: Path) -> None:
    from streaming import MDSWriter

    ids = np.fromfile(work / "tokens.bin", np.uint16)
    with MDSWriter(out=str(work / "mds"), columns={"tokens": f"ndarray:uint16:{SEQ_LEN}"}) as out:
        for start in range(0, len(ids) - SEQ_LEN + 1, SEQ_LEN):
            out.write({"tokens": ids[start : start + SEQ_LEN]})


def side_mds(work: Path) -> Epoch:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(local=str(work / "mds"), shuffle=True, batch_size=ROWS)
    loader = DataLoader(dataset, batch_size=ROWS, drop_last=True, collate_fn=_stacked)
    return lambda: iter(loader)


def _stacked(samples: list[dict[str, np.ndarray]]) -> np.ndarray:
    return np.stack([sample["tokens"] for sample in samples]).astype(np.int32)


def write_litdata(work: Path) -> None:
    from litdata import TokensLoader, optimize

    optimize(
        fn=_LitParts(str(work / "tokens.bin")),
        inputs=list(range(16)),
        output_dir=str(work / "lit"),
        chunk_size=SEQ_LEN * 8192,
        num_workers=1,
        item_loader=TokensLoader(block_size=SEQ_LEN),
    )


class _LitParts:
    """Yields the tokens of one of sixteen parts; a class, since LitData pickles it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, part: int) -> Iterator[Any]:
        import torch

        ids = np.memmap(self.path, np.uint16, "r")
        each = len(ids) // 16 // SEQ_LEN * SEQ_LEN
        for start in range(part * each, (part + 1) * each, SEQ_LEN * 64):
            yield torch.from_numpy(ids[start : min(start + SEQ_LEN * 64, (part + 1) * each)].astype(np.int32))


def side_litdata(work: Path) -> Epoch:
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

    dataset = StreamingDataset(
        str(work / "lit"), item_loader=TokensLoader(block_size=SEQ_LEN), shuffle=True, drop_last=True
    )
    loader = StreamingDataLoader(dataset, batch_size=ROWS, drop_last=True)
    return lambda: (batch.numpy() for batch in loader)


SIDES: dict[str, Callable[[Path], Epoch]] = {
    "toolkit": side_toolkit,
    "memmap": side_memmap,
    "C": side_c,
    "roxxel": side_roxxel,
    "mds": side_mds,
    "litdata": side_litdata,
}
READ = {
    "toolkit": "ds",
    "memmap": "tokens.bin",
    "C": "tokens.bin",
    "roxxel": "data.rox",
    "mds": "mds",
    "litdata": "lit",
}  # what each side reads, below --work
WRITERS = {"roxxel": write_roxxel, "mds": write_mds, "litdata": write_litdata}
THREADS = {"toolkit": 0}
DISTRIBUTIONS = {"roxxel": "roxxel", "mds": "mosaicml-streaming", "litdata": "litdata"}


def _measure(side: str, work: Path) -> dict[str, Any]:
    """Run a side's epochs in this process."""
    read = work / READ[side]
    for path in [read] if read.is_file() else read.rglob("*"):
        if path.is_file():
            path.read_bytes()
    begun = time.perf_counter()
    epoch = SIDES[side](work)
    rates, first_batch = [], 0.0
    for number in range(1 + LATER_EPOCHS):
        start = time.perf_counter()
        total = tokens = 0
        for batch in epoch():
            if not tokens:
                first_batch = first_batch or time.perf_counter() - begun
            total += int(batch.sum(dtype=np.int64))
            tokens += batch.size
        rates.append(tokens / (time.perf_counter() - start))
        if number == 0:
            checked = {"tokens": tokens, "sum": total}
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    anonymous = int(status["RssAnon"].split()[0]) / 1024
    return {
        "first": rates[0],
        "later": statistics.median(rates[1:]),
        "open_s": first_batch,
        "anonymous": anonymous,
        **checked,
    }


def _peer(side: str, what: str, work: Path, peer_path: str) -> Any:
    """Write or measure a side in a process of its own; return its answer, or the text of why there is none."""
    paths = [*peer_path.split(":"), *os.environ.get("PYTHONPATH", "").split(":")] if side in WRITERS else []
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if side in WRITERS:
        environment["PYTHONPATH"] = ":".join(path for path in paths if path)
    command = [sys.executable, os.path.abspath(__file__), "--work", str(work), f"--{what}", side]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def _resume(work: Path) -> dict[str, float]:
    """Return milliseconds from a new stream to its first batch, at the first, a middle and the last step."""
    import toolkit

    ds = toolkit.open(work / "ds")
    options: dict[str, Any] = {"seq_len": SEQ_LEN, "batch_size": ROWS, "shuffle": "block", "threads": 0}
    last = ds.tokens(**options).steps_per_epoch() - 1
    found = {}
    for step in (0, last // 2, last):
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            next(iter(ds.tokens(start_step=step, **options)))
            times.append(1e3 * (time.perf_counter() - begun))
        found[f"step {step}"] = statistics.median(times)
    return found


def _report(facts: dict[str, Any], runs: dict[str, list[dict[str, Any]]], left_out: dict[str, str]) -> dict[str, Any]:
    repeats = facts["tokens"] / facts["distinct_tokens"]
    rows = {}
    for side, measured in runs.items():
        for figure in ("first", "later") if side == "toolkit" else ("later",):
            rates = [run[figure] / 1e6 for run in measured]
            rows[f"{side} {figure}" if side == "toolkit" else side] = {
                "mtok_s": statistics.median(rates),
                "min": min(rates),
                "max": max(rates),
                "ratio_later": statistics.median(
                    mine["later"] / run[figure] for mine, run in zip(runs["toolkit"], measured, strict=True)
                ),
                "ratio_first": statistics.median(
                    mine["first"] / run[figure] for mine, run in zip(runs["toolkit"], measured, strict=True)
                ),
                "anonymous_mib": statistics.median(run["anonymous"] for run in measured),
            }
    return {"tokens": facts["tokens"], "repeated": repeats, "facts": facts, "sides": rows, "left_out": left_out}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tokens", default="200M", help="a number, K or M behind it")
    parser.add_argument("--text", nargs="*", default=list(TEXT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--peer-path", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        WRITERS[args.write](args.work)
        print(json.dumps("written"))
        return
    if args.measure:
        print(json.dumps(_measure(args.measure, args.work)))
        return
    units = {"K": 1000, "M": 1_000_000}
    wanted = int(float(args.tokens.rstrip("KM")) * units.get(args.tokens[-1], 1))
    asked = args.sides.split(",")
    facts = prepare(args.work, wanted, args.text, args.peer_path, [side for side in asked if side in WRITERS])
    left_out = {side: why for side, why in facts["peers"].items() if why != "written"}
    sides = [side for side in asked if side not in left_out]
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side in list(runs):
            found = _peer(side, "measure", args.work, args.peer_path)
            if isinstance(found, str):
                left_out[side] = found
                del runs[side]
            else:
                runs[side].append(found)
    report = {**_report(facts, runs, left_out), "resume_ms": _resume(args.work)}
    if args.json:
        print(json.dumps(report))
        return
    print(f"{facts['tokens']:,} tokens of {facts['documents']:,} documents, the text {report['repeated']:.2f} times")
    print(f"batches of {ROWS} x {SEQ_LEN} int32, every token summed, {args.rounds} rounds in turns, warm page cache")
    print(f"{'':15}{'Mtok/s  [min .. max]':30}{'later by it':>12}{'first by it':>12}{'anonymous MiB':>15}")
    for name, row in report["sides"].items():
        spread = f"{row['mtok_s']:7.0f}  [{row['min']:.0f} .. {row['max']:.0f}]"
        print(f"{name:15}{spread:30}{row['ratio_later']:12.2f}{row['ratio_first']:12.2f}{row['anonymous_mib']:15.0f}")
    for side, why in left_out.items():
        print(f"left out: {DISTRIBUTIONS.get(side, side)}: {why}")
    print("new stream to first batch, ms: " + ", ".join(f"{at} {ms:.2f}" for at, ms in report["resume_ms"].items()))


if __name__ == "__main__":
    main()
