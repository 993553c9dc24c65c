"""Write toolkit/pipelines/words.pyi, which tells editors and mypy the words; with --check only compare it."""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

from toolkit.pipelines.families import FAMILIES
from toolkit.pipelines.registry import STEPS
from toolkit.pipelines.step import Step, literal

STUB = Path(__file__).parent.parent / "toolkit" / "pipelines" / "words.pyi"
_WIDTH = 120
_HEAD = '''"""The words of slots and chains. Made by scripts/make_words.py of the registered steps: don't edit it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from toolkit.pipelines.pixels import Pixels
from toolkit.pipelines.step import Step, Steps

class Words(ABC):
    """What steps are added to. Immutable: a word returns a new one. Each registered step is a method."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Who is speaking, for messages: slot 'image'."""

    @abstractmethod
    def with_step(self, step: Step) -> Self:
        """Return this with one more step. Raises PipelineError when it doesn't fit."""
'''
_TAIL = '''
def word_of(step: type[Step]) -> Callable[..., Words]:
    """Return the method that adds such a step: its arguments' faults get the place."""
'''


def stub() -> str:
    """Return the stub, formatted as ruff does."""
    return _HEAD + "".join("\n" + _method(step) for step in _steps()) + _TAIL


def _steps() -> list[type[Step]]:
    places = [family.__name__ for family in FAMILIES]
    return sorted(STEPS.values(), key=lambda step: places.index(step.__module__))


def _method(step: type[Step]) -> str:
    arguments = ["self", *_arguments(step)]
    head = f"    def {step.word}({', '.join(arguments)}) -> Self:"
    if len(head) > _WIDTH:
        inside = f"        {', '.join(arguments)}"
        if len(inside) > _WIDTH:
            inside = "".join(f"        {argument},\n" for argument in arguments).removesuffix("\n")
        head = f"    def {step.word}(\n{inside}\n    ) -> Self:"
    doc = inspect.cleandoc(step.__doc__ or "")
    doc = f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""'
    return f"{head}\n{textwrap.indent(doc, '        ')}\n"


def _arguments(step: type[Step]) -> list[str]:
    written = []
    starred = False
    for name, argument in step.signature().parameters.items():
        if argument.kind is inspect.Parameter.VAR_POSITIONAL:
            written.append(f"*{name}: {argument.annotation}")
            starred = True
            continue
        if argument.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            written.append("*")
            starred = True
        default = "" if argument.default is inspect.Parameter.empty else f" = {literal(argument.default)}"
        written.append(f"{name}: {argument.annotation}{default}")
    return written


def main() -> int:
    """Write the stub, or check it; return the exit code."""
    new = stub()
    if "--check" in sys.argv[1:]:
        if new != STUB.read_text():
            print(f"{STUB} is out of date: run python scripts/make_words.py", file=sys.stderr)
        return int(new != STUB.read_text())
    STUB.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
