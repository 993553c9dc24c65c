"""Look for faults with made-up input: targets by name, so many seconds each; what does a fault is kept.

    make fuzz SECONDS=60 SEED=0 TARGETS="jpeg body"          every target without TARGETS, other inputs without SEED
    python tests/fuzz/run.py [--seconds 60] [--jobs 1] [--list] [NAME ...]
    python tests/fuzz/run.py --replay FILE NAME              one kept input again, with its report

Prints how often each target ran. Exits with 1 when anything was found: the input lies in build/fuzz/found/NAME then.

To add a target, write one file; its stem is its name. tests/fuzz/corpus/NAME holds inputs to begin with, a few kB in
all, of our own making; what is learnt from them lies in build/fuzz/corpus/NAME.

    tests/fuzz/functions/NAME.py
        Python. `fuzz(data: bytes) -> object` uses the input; whatever it raises is a finding, so it catches what a user
        may get for bad input. Something new that it returns (hashable) makes the input one to go on from.
        Optional: `seeds() -> list[bytes]` for more to begin with; `SANITIZED = True` for sanitized extensions.
        Taking more than 10 s, growing by more than 1 GiB and dying are findings too.
        tests/fuzz/inputs.py helps with those that read a file.
    tests/fuzz/native/NAME.c
        libFuzzer, with ASan and UBSan: LLVMFuzzerTestOneInput, linked with the C files of toolkit/_native. abort() says
        that an answer is wrong.
    PROGRAMS below
        Anything else: a program that takes --seconds, --start (a seed) and --findings FOLDER, prints "executions: N",
        and exits with 1 when it found something.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "fuzz"
sys.path.insert(0, str(HERE.parent))

from sanitize.build import environment, native_objects  # noqa: E402

PROGRAMS = {"datasets": [sys.executable, str(HERE / "datasets.py"), "--processes", "1", "--sanitized"]}
INPUT_SECONDS = 10
GROWTH_MIB = 1024
START_SECONDS = 180  # beyond its time: imports under ASan, the last input, the report


@dataclass(frozen=True)
class Target:
    """What is run: a command, and where it keeps what it finds."""

    name: str
    kind: str

    @property
    def corpus(self) -> Path:
        return HERE / "corpus" / self.name

    @property
    def learnt(self) -> Path:
        return BUILD / "corpus" / self.name

    @property
    def found(self) -> Path:
        return BUILD / "found" / self.name


def targets() -> dict[str, Target]:
    """Return every target by name."""
    made = [Target(path.stem, "native") for path in sorted((HERE / "native").glob("*.c"))]
    made += [Target(path.stem, "function") for path in sorted((HERE / "functions").glob("*.py"))]
    made += [Target(name, "program") for name in PROGRAMS]
    by_name = {target.name: target for target in made}
    assert len(by_name) == len(made), "two targets have one name"
    return by_name


def built(target: Target) -> Path:
    """Compile a target in C with everything in toolkit/_native that is C; return the program."""
    source, program = HERE / "native" / f"{target.name}.c", BUILD / "native" / target.name
    compiled = native_objects("clang", BUILD / "native", "fuzzer-no-link,address,undefined,float-cast-overflow")
    flags = ["-fsanitize=fuzzer,address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    include = f"-I{ROOT / 'toolkit' / '_native'}"
    command = ["clang", "-g", "-O1", "-std=gnu11", *flags, include, "-o", program, source, *compiled, "-ljpeg", "-lm"]
    subprocess.run([str(part) for part in command], check=True)
    return program


def command_of(target: Target, seconds: int, seed: int, replay: Path | None) -> tuple[list[str], dict[str, str] | None]:
    """Return the command that runs a target, and its environment."""
    if target.kind == "program":
        if replay:
            raise SystemExit(f"{target.name} says itself how to run an input again: see tests/fuzz/{target.name}.py")
        given = ["--seconds", str(seconds), "--start", str(seed), "--findings", str(target.found)]
        return PROGRAMS[target.name] + given, None
    if target.kind == "function":
        source = HERE / "functions" / f"{target.name}.py"
        loop = [sys.executable, str(HERE / "loop.py"), str(source), str(target.found)]
        loop += ["--replay", str(replay)] if replay else ["--seconds", str(seconds), "--seed", str(seed)]
        loop += ["--corpus", str(target.corpus), "--learnt", str(target.learnt)]
        return loop, environment() if "\nSANITIZED = True\n" in source.read_text() else None
    program = [str(built(target))]
    if replay:
        return [*program, str(replay)], None
    limits = [f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={2 * GROWTH_MIB}"]
    folders = [str(folder) for folder in (target.learnt, target.corpus) if folder.exists()]
    options = ["-print_final_stats=1", f"-seed={seed + 1}", f"-artifact_prefix={target.found}/", "-use_value_profile=1"]
    return [*program, *limits, *options, *folders], None


def executions(output: str) -> int | None:
    """Return how often a target says that it ran."""
    said = re.findall(r"^(?:executions|stat::number_of_executed_units): +(\d+)$", output, re.MULTILINE)
    said = said or re.findall(r"^#(\d+)\s", output, re.MULTILINE)  # libFuzzer, ended by a finding
    return int(said[-1]) if said else None


def run(target: Target, seconds: int, seed: int) -> tuple[bool, str]:
    """Run a target; return whether it is well, and what there is to say."""
    for folder in (target.learnt, target.found):
        folder.mkdir(parents=True, exist_ok=True)
    command, given = command_of(target, seconds, seed, None)
    process = subprocess.Popen(
        command, cwd=ROOT, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        output, _ = process.communicate(timeout=seconds + START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return False, f"{target.name}: does not end ({seconds} s were given)"
    count = executions(output)
    ran = f"{count:,}" if count is not None else "unknown number of"
    said = f"{target.name}: {ran} executions in {seconds} s (seed {seed})"
    if process.returncode == 0 and count:
        return True, said
    kept = sorted(str(path.relative_to(ROOT)) for path in target.found.iterdir())
    return False, f"{output[-8000:]}\n{said}: FOUND (exit {process.returncode}); kept: {', '.join(kept) or 'nothing'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 when something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets; all of them by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets at the same time")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 30), help="the same one makes the same inputs"
    )
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--replay", type=Path, help="run this input once")
    given = parser.parse_args(argv)
    known = targets()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"no target is called {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in given.names or known]
    if given.list:
        print("\n".join(target.name for target in chosen))
        return 0
    if given.replay:
        command, environment_ = command_of(chosen[0], 0, 0, given.replay.resolve())
        return subprocess.run(command, cwd=ROOT, env=environment_).returncode
    for target in chosen:  # compile before the clocks run
        if target.kind == "native":
            built(target)
        elif target.kind == "function":
            command_of(target, 0, 0, None)
    well = True
    with ThreadPoolExecutor(given.jobs) as pool:
        for good, said in pool.map(lambda target: run(target, given.seconds, given.seed), chosen):
            print(said, flush=True)
            well = well and good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
