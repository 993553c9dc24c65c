"""What mypy says of options: misspelt names and words are found before anything runs, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# A line that is wrong says how, behind "# wrong: ".
PROGRAM = """
import toolkit
import toolkit.torch
from toolkit import slot
from toolkit.loader.options.keywords import LoaderKeywords

ds = toolkit.open("flowers", split="train")
steps = toolkit.pipeline(slot("image").decode_image())

ds.loader(steps, batch_size=4, shuffle="full", threads="auto", max_bytes="8MiB", epochs=None, steps=3)
ds.loader(pipeline=steps, global_batch_size=8, weights=[1.0, 2.0], output=len, hold_timeout=3)
ds.loader(batch_size=4, shuffle="ful")  # wrong: incompatible type "Literal['ful']"
ds.loader(batchsize=4)  # wrong: Unexpected keyword argument "batchsize" for "loader" of "Dataset"
ds.loader(batch_size="4")  # wrong: incompatible type "str"; expected "int | None"
ds.loader(batch_size=4, drop_last=True)  # wrong: Unexpected keyword argument "drop_last"
ds.loader(batch_size=4, shuffle=True)  # wrong: incompatible type "Literal[True]"
ds.loader(batch_size=4, threads="all")  # wrong: incompatible type "Literal['all']"
ds.loader(batch_size=4, verify="allways")  # wrong: incompatible type "Literal['allways']"

ds.tokens(seq_len=8, batch_size=4, phases=[(1, 2, 3)], dtype="int64", pack="best", remainder="drop")
ds.tokens(seq_len=8, batch_size=4, shuffle="full")  # wrong: incompatible type "Literal['full']"
ds.tokens(seqlen=8)  # wrong: Unexpected keyword argument "seqlen" for "tokens" of "Dataset"
ds.tokens(seq_len=8, batch_size=4, device="cuda")  # wrong: Unexpected keyword argument "device"
ds.tokens(seq_len=8, batch_size=4, remainder="keep")  # wrong: incompatible type "Literal['keep']"

toolkit.mix_tokens({"a": ds}, {"a": 1}, seq_len=8, batch_size=4, exhausted="repeat", total_steps=3)
toolkit.mix_tokens({"a": ds}, {"a": 1}, exhausted="drop")  # wrong: incompatible type "Literal['drop']"
toolkit.mix_tokens({"a": ds}, {"a": 1}, epochs=3)  # wrong: Unexpected keyword argument "epochs" for "mix_tokens"

toolkit.torch.IterableDataset(ds, steps, batch_size=4, shuffle="block", remainder="pad")
toolkit.torch.IterableDataset(ds, steps, batch_size=4, epochs=3)  # wrong: Unexpected keyword argument "epochs"
toolkit.torch.IterableDataset(ds, batch_size=4, on_error="skp")  # wrong: incompatible type "Literal['skp']"
toolkit.torch.Dataset(ds, steps, seed=1, verify="always")
toolkit.torch.Dataset(ds, steps, batch_size=4)  # wrong: Unexpected keyword argument "batch_size"

options: LoaderKeywords = {"batch_size": 4, "shuffle": "full"}
ds.loader(steps, **options)
"""


@pytest.mark.slow
def test_mypy_finds_wrong_names_and_words(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*command, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=500)
    said = [line for line in done.stdout.splitlines() if line.startswith(f"{program}:") and ": error:" in line]
    assert said, done.stdout + done.stderr
    lines = {int(line.removeprefix(f"{program}:").split(":")[0]): line for line in said}
    wrong = {
        number: line.split("# wrong: ")[1] for number, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong: " in line
    }
    assert lines.keys() == wrong.keys(), done.stdout
    for number, says in wrong.items():
        assert says in lines[number], lines[number]
