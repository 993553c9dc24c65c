"""Write what the declared options make; with --check only compare it.

These are toolkit/pack/front.py, the function toolkit.pack, toolkit/pack/index/front.py, the function toolkit.index, and
toolkit/once/keywords.py, the options of toolkit.open for what isn't packed.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from toolkit.options.compound import Pairs
from toolkit.options.option import Option, options_of
from toolkit.options.values import Choice
from toolkit.pack.index.job import IndexJob
from toolkit.pack.job import PackJob
from toolkit.sources.options import InputOptions

FRONT = Path(__file__).parent.parent / "toolkit" / "pack" / "front.py"
KEYWORDS = FRONT.parent.parent / "once" / "keywords.py"
# Of what isn't packed yet, toolkit.open takes the options of the input, but those that its own split= and columns= and
# a loader's shuffle= are for; and what becomes of samples that can't be packed.
ONCE = {*options_of(InputOptions), "source_kind", "key_conflict", "max_rejects"} - {"split", "columns", "shuffle_seed"}
INDEX = FRONT.parent / "index" / "front.py"
_WIDTH = 120
_WORD = re.compile(r"'([^']+)'|([A-Za-z0-9_]+)")  # of an example in YAML
_HEAD = '''"""Pack from Python. Made by scripts/make_pack.py of the declared options: don't edit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from toolkit.options.option import options_of, take
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.make import make_job, paths_of
from toolkit.pack.passes import Progress
from toolkit.pack.run import pack as run
from toolkit.pack.writer.objects import is_path, pack_object

__all__ = ["pack"]

'''
_KEYWORDS_HEAD = '''"""What toolkit.open takes of pack's options. Made by scripts/make_pack.py: don't edit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

__all__ = ["SourceKeywords"]


class SourceKeywords(TypedDict, total=False):
    """Options for what isn't packed yet, as toolkit.pack() has them.

    Attributes:
'''
_ABOUT = '''    """Pack `source` into `dataset`; return what was packed, as `toolkit pack --json` prints it.

    Nothing is printed. A kill at any instant leaves the dataset as it was, or the new version; the same call again goes
    on where it was.

    Args:
        source: A folder or file, or several: an image folder ([SPLIT/]CLASS/IMAGE), or Parquet, TFRecord, WebDataset,
            text or ROXXEL02 files. Patterns and {000..099} lists are paths too. Or samples that a program has: an
            iterable of dicts, or of tuples with `columns`; a DataFrame of polars or pandas; an Arrow table; a dataset
            of Hugging Face datasets or of torch; or a dict of these by split. See docs/writing.md.
        dataset: Folder to make.
'''
_INDEX_HEAD = '''"""Index from Python. Made by scripts/make_pack.py of the declared options: don't edit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from toolkit.options.option import take
from toolkit.pack.index.job import IndexJob, IndexResult
from toolkit.pack.index.run import index as run
from toolkit.pack.make import job_of, paths_of
from toolkit.pack.passes import Progress

__all__ = ["index"]

'''
_INDEX_ABOUT = '''    """Make `dataset` of `source`, whose media stay there; return what `toolkit index --json` prints.

    Shards hold where each value lies and what proves it; keys, labels, order and digests are those of a pack. Nothing
    is printed. A kill at any instant leaves the dataset as it was, or the new version; the same call again goes on
    where it was.

    Args:
        source: A folder or file, or several: an image folder ([SPLIT/]CLASS/IMAGE), uncompressed WebDataset tars or
            TFRecord files. Patterns and {000..099} lists are paths too. It must stay where it is, or be named where it
            is now when the dataset is opened.
        dataset: Folder to make.
'''
_RAISES = '''        progress: Called now and then, by one thread at a time, with the samples done, those in all (None
            when only reading tells), the bytes read and those in all.

    Raises:
        UsageError: An option doesn't take its value, contradicts another, or means nothing for the source.
        NotFoundError, SourceError: The input isn't there, or can't be packed.
        ExistsError: The dataset is there already; see `on_existing`.
        RejectsError: More samples were rejected than `max_rejects`; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
'''


def front() -> str:
    """Return the module of toolkit.pack, formatted as ruff does."""
    arguments, given, documentation = _parts(options_of(PackJob).values())
    return (
        _HEAD
        + arguments.aliases
        + "\n\ndef pack(\n"
        + "    source: Any,\n"
        + "    dataset: str | os.PathLike[str],\n    *,\n"
        + arguments.text
        + "    progress: Progress | None = None,\n) -> PackResult:\n"
        + _ABOUT
        + documentation
        + _RAISES
        + given
        + "    if not is_path(source):\n"
        + "        return pack_object(source, dataset, given, progress)\n"
        + "    job = make_job(paths_of(source, dataset), take(options_of(PackJob), given))\n"
        + "    return run(job) if progress is None else run(job, progress)\n"
    )


def index_front() -> str:
    """Return the module of toolkit.index."""
    arguments, given, documentation = _parts(IndexJob.declared().values())
    return (
        _INDEX_HEAD
        + arguments.aliases
        + "\n\ndef index(\n"
        + "    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],\n"
        + "    dataset: str | os.PathLike[str],\n    *,\n"
        + arguments.text
        + "    progress: Progress | None = None,\n) -> IndexResult:\n"
        + _INDEX_ABOUT
        + documentation
        + _RAISES
        + given
        + "    job = job_of(IndexJob, paths_of(source, dataset), take(IndexJob.declared(), given))\n"
        + "    return run(job) if progress is None else run(job, progress)\n"
    )


class _Arguments(NamedTuple):
    text: str
    aliases: str


def _parts(options: Iterable[Option]) -> tuple[_Arguments, str, str]:
    """Return the arguments of a function with these options, the dict of what it was given, and their documentation."""
    aliases: dict[str, str] = {}
    listed = list(options)
    text = "".join(f"    {_argument(option, aliases)},\n" for option in listed)
    given = "".join(f'        "{option.name}": {option.name},\n' for option in listed)
    return (
        _Arguments(text, "".join(f"{name} = {literal}\n" for name, literal in aliases.items())),
        f"    given = {{\n{given}    }}\n",
        "".join(map(_documentation, listed)),
    )


def _argument(option: Option, aliases: dict[str, str]) -> str:
    annotation = option.value.annotation
    nothing = " | None" if option.default is None else ""
    default = f'"{option.default}"' if isinstance(option.default, str) else str(option.default)
    written = f"{option.name}: {annotation}{nothing} = {default}"
    if len(f"    {written},") <= _WIDTH:
        return written
    if not (isinstance(option.value, Pairs) and isinstance(option.value.values, Choice)):
        raise ValueError(f"{written}: too long for a line")
    inner = option.value.values.annotation
    alias = f"_{option.name.title().replace('_', '')}"
    aliases[alias] = inner
    return written.replace(inner, alias)


def _documentation(option: Option) -> str:
    text = option.help.replace("SOURCE", "`source`").replace("DATASET", "`dataset`")
    if isinstance(option.value, Pairs):
        text += f" As {_WORD.sub(_quoted, option.value.example)}."
    return (
        textwrap.fill(
            f"{option.name}: {text}",
            _WIDTH,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )


def _quoted(word: re.Match[str]) -> str:
    return f'"{word[1] or word[2]}"'


def keywords() -> str:
    """Return the module of the options that toolkit.open has for what isn't packed."""
    options = [option for name, option in options_of(PackJob).items() if name in ONCE]
    fields = "".join(f"    {option.name}: {option.value.annotation}\n" for option in options)
    return _KEYWORDS_HEAD + "".join(map(_documentation, options)) + '    """\n\n' + fields


def main() -> int:
    """Write the modules, or check them; return the exit code."""
    late = 0
    for path, new in ((FRONT, front()), (INDEX, index_front()), (KEYWORDS, keywords())):
        if "--check" not in sys.argv[1:]:
            path.write_text(new)
        elif new != path.read_text():
            print(f"{path} is out of date: run python scripts/make_pack.py", file=sys.stderr)
            late = 1
    return late


if __name__ == "__main__":
    sys.exit(main())
