"""The program as a whole: help, versions, usage errors, exit codes, closed pipes, interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import PROGRAM, Cli, encoded, program, put
from typer.main import get_command
from waiting import PATIENCE, wait_until

import toolkit
from toolkit.cli import cmd_doctor
from toolkit.cli.main import app

COMMANDS = ["pack", "index", "inspect", "head", "query", "verify", "bench", "gc", "doctor", "config"]
HEAVY = ["numpy", "pyarrow", "polars", "PIL", "torch", "jax", "pandas", "yaml"]


def test_help_alone(cli: Cli) -> None:
    ended = cli()
    assert ended.code == 0
    assert ended.err == ""
    for name in COMMANDS:
        assert f"\n  {name} " in ended.out
    assert cli("--help").out == cli("-h").out == ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_command(cli: Cli, command: str) -> None:
    ended = cli(command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: toolkit {command}")
    assert cli(command, "-h").out == ended.out


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(cli: Cli, flag: str) -> None:
    ended = cli(flag)
    assert (ended.code, ended.out) == (0, f"toolkit {toolkit.__version__}\n")


@pytest.mark.parametrize("args", [["--help"], *([command, "--help"] for command in COMMANDS), ["--version"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    script = (
        "import sys\nfrom toolkit.cli.main import run\n"
        f"code = run({args!r})\n"
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "0 []"


def test_every_flag_has_a_twin() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(COMMANDS)
    for command in [*commands.values(), *commands["config"].commands.values()]:
        for param in command.params:
            if param.param_type_name == "option" and param.name != "help":
                flag = next(opt for opt in param.opts if opt.startswith("--"))
                assert param.envvar == "TOOLKIT_" + flag[2:].replace("-", "_").upper()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["pakc"], "Did you mean 'pack'?"),
        (["pack", "a", "b", "--lable-mode", "auto"], "no such option --lable-mode. Did you mean '--label-mode'?"),
        (["bench", "a", "--thread", "1"], "Did you mean '--threads'?"),
        (
            ["pack", "a", "b", "--label-mode", "atuo"],
            "'atuo' is not one of auto, none, imagefolder. Did you mean 'auto'?",
        ),
        (["pack", "a", "b", "--on-existing", "override"], "Did you mean 'overwrite'?"),
        (["bench", "a", "--output", "troch"], "Did you mean 'torch'?"),
        (["bench", "a", "--shuffle", "rows"], "'rows' is not one of full, block, none."),
        (["pack", "a", "b", "--shard-size", "10M"], "say 10MB (powers of 1000) or 10MiB (of 1024)"),
        (["pack", "a", "b", "--shard-size", "huge"], "'huge' is not a size"),
        (["pack", "a", "b", "--shard-size", "-1"], "'-1' is not a size"),
        (["pack", "a", "b", "--shard-size", "1KB"], "a shard size of 1000 bytes is too small: give at least 64KiB"),
        (["pack", "a", "b", "--jobs", "0"], "'0' is neither a number of at least 1 nor 'auto'."),
        (["pack", "a", "b", "--jobs", "atuo"], "Did you mean 'auto'?"),
        (["pack", "a", "b", "--limit", "0"], "0 is less than 1"),
        (["pack", "a", "b", "--limit", "ten"], "'ten' is not a whole number"),
        (["pack", "a", "b", "--max-rejects", "-1"], "-1 is less than 0"),
        (["bench", "a", "--threads", "1,x"], "'x' is neither a number"),
        (["inspect", "a", "--samples", "-2"], "-2 is less than 0"),
        (["pack", "a"], "Missing argument 'DATASET'"),
        (["verify", "a", "b"], "unexpected extra argument"),
        (["inspect", "a@sha256:12zz"], "isn't hexadecimal"),
    ],
)
def test_usage_errors(cli: Cli, args: list[str], said: str) -> None:
    ended = cli(*args)
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1

    ended = cli(*args, "--json")
    document = json.loads(ended.out)
    assert document["schema"] == "toolkit.error/1"
    assert document["error"]["exit_code"] == 2
    assert document["error"]["type"] == "UsageError"
    assert said in document["error"]["message"]


@pytest.mark.parametrize("command", ["inspect", "verify", "bench"])
def test_no_dataset(cli: Cli, packed: Path, command: str) -> None:
    ended = cli(command, packed.parent / "dss")
    assert ended.code == 2
    assert "no dataset at" in ended.err
    assert "Did you mean 'ds'?" in ended.err
    (packed.parent / "empty").mkdir()
    assert cli(command, packed.parent / "empty").code == 2


@pytest.mark.parametrize("command", ["inspect", "verify", "bench"])
def test_wrong_pin(cli: Cli, packed: Path, command: str) -> None:
    ended = cli(command, f"{packed}@sha256:{'0' * 12}")
    assert ended.code == 4
    assert "has no version with the pin 000000000000" in ended.err
    assert json.loads(cli(command, f"{packed}@sha256:{'0' * 64}", "--json").out)["error"] == {
        "type": "PinMismatchError",
        "message": cli(command, f"{packed}@sha256:{'0' * 64}").err.removeprefix("error: ").strip(),
        "exit_code": 4,
    }


def test_unexpected_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("odd\nvery odd")

    monkeypatch.setattr("toolkit.checks.doctor.doctor", break_down)
    ended = cli("doctor")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: unexpected RuntimeError: odd; run again with --debug for the traceback\n"
    ended = cli("doctor", "--debug")
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "break_down" in ended.err
    assert cmd_doctor.__all__ == ["doctor"]


def test_unmapped_os_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise OSError(5, "Input/output error", "/some/file")

    monkeypatch.setattr("toolkit.checks.doctor.doctor", break_down)
    ended = cli("doctor", "--json")
    assert ended.code == 5
    assert ended.err == "error: Input/output error: '/some/file'\n"
    assert json.loads(ended.out)["error"] == {
        "type": "OSError",
        "message": "Input/output error: '/some/file'",
        "exit_code": 5,
    }


def test_debug_shows_the_traceback_of_a_toolkit_error(cli: Cli, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = packed / "nothing"
    assert "Traceback" not in cli("inspect", missing).err
    for args in (["--debug", "inspect", missing], ["inspect", "--debug", missing]):
        ended = cli(*args)
        assert ended.code == 2
        assert "Traceback" in ended.err
        assert ended.err.splitlines()[-1].startswith("error: no dataset at")
    monkeypatch.setenv("TOOLKIT_DEBUG", "1")
    assert "Traceback" in cli("inspect", missing).err


@pytest.mark.parametrize("args", [["inspect"], ["inspect", "--json"], ["verify"]])
def test_closed_pipe_is_quiet(packed: Path, args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, *args, str(packed)], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_full_disk_under_stdout(packed: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "inspect", str(packed)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (5, "error: No space left on device\n")


def test_interrupted_pack(tmp_path: Path) -> None:
    data = encoded(64, 64)
    for i in range(3000):
        put(tmp_path, f"source/a/{i}.jpg", data)
    # What reads the images waits in the middle: else all might be packed before the interrupt is sent.
    inside, go_on = tmp_path / "inside", tmp_path / "go on"
    code = (
        "import os, time\n"
        "from toolkit.cli.main import main\n"
        "from toolkit.sources.kinds.imagefolder import source\n"
        "real, seen = source.read_images, [0]\n"
        "def read(entries, *rest):\n"
        "    seen[0] += len(entries)\n"
        "    if seen[0] > 1500:\n"
        f"        open({str(inside)!r}, 'w').close()\n"
        f"        while not os.path.exists({str(go_on)!r}):\n"
        "            time.sleep(0.005)\n"
        "    return real(entries, *rest)\n"
        "source.read_images = read\n"
        "main()\n"
    )
    begun = subprocess.Popen(
        [sys.executable, "-c", code, "pack", str(tmp_path / "source"), str(tmp_path / "ds"), "--shard-size", "64KiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: inside.exists() or begun.poll() is not None)
    begun.send_signal(signal.SIGINT)
    go_on.touch()
    out, err = begun.communicate(timeout=PATIENCE)
    assert (begun.returncode, out) == (130, "")
    said = r"interrupted; nothing was committed; kept: \d+ of \d+ shards\. The same command (begins anew|goes on .*)\n"
    assert re.fullmatch(said, err)
    assert not (tmp_path / "ds/manifest.json").exists()
    again = program("pack", tmp_path / "source", tmp_path / "ds", "--shard-size", "64KiB")
    afresh = program("pack", tmp_path / "source", tmp_path / "other", "--shard-size", "64KiB")
    assert again.last_line.split("pin=")[1] == afresh.last_line.split("pin=")[1]


def test_interrupted_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("toolkit.checks.doctor.doctor", stop)
    ended = cli("doctor", "--json")
    assert (ended.code, ended.err) == (130, "interrupted\n")
    assert json.loads(ended.out)["error"] == {"type": "Interrupted", "message": "interrupted", "exit_code": 130}


def test_program_ends_with_the_code(packed: Path) -> None:
    assert program("--version").code == 0
    assert program("inspect", packed / "nothing").code == 2
    assert program("inspect", f"{packed}@sha256:{'0' * 12}").code == 4


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(closed: str) -> None:
    for arguments, code in (("--version", 0), ("verify /nowhere", 2)):
        command = f"{sys.executable} -m toolkit.cli.main {arguments} {closed}"
        assert subprocess.run(command, shell=True, stdin=subprocess.DEVNULL).returncode == code
