"""Parts: where each of several writers puts its own, and what it says when all its records are safe."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.format.names import PARTS
from toolkit.format.tables import encode_schema_table, parse_schema_table
from toolkit.pack.job import PackJob
from toolkit.pack.writer.checkpoints import COMPLETE
from toolkit.pack.writer.declared import Declared, declared_as
from toolkit.storage.local import LocalStore
from toolkit.storage.store import WritableStore

__all__ = ["Part", "PartFacts", "check_part", "count_records", "part_folder", "read_facts", "write_facts"]

_MOST_PARTS = 100_000
_NAME = re.compile(r"(\d{6})-of-(\d{6})")


class Part(msgspec.Struct, frozen=True):
    """Which one of how many parts."""

    number: int
    of: int

    def key(self, number: int) -> str:
        """Return the key of a record that has none."""
        return f"{self.number}-{number}"


class PartFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished part says: of its columns, and of the options that shape shards; and how many records it had."""

    kinds: dict[str, str]
    schema: bytes
    classes: dict[str, tuple[str, ...]]
    image_encoding: str
    short_side: int | None
    shard_size: int
    records: int

    @property
    def columns(self) -> list[Declared]:
        """The columns as they were declared."""
        schema = parse_schema_table(self.schema, "of a part")
        return [declared_as(field.name, Kind(self.kinds[field.name]), field.type) for field in schema]


_FACTS = msgspec.json.Decoder(PartFacts)  # made within the import: see toolkit.format.manifest


def check_part(part: int | None, parts: int | None) -> Part | None:
    """Return which part is asked for, None for none. Raises UsageError."""
    if part is None and parts is None:
        return None
    for name, value in (("part", part), ("parts", parts)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} must be a whole number, got {value!r}: part= and parts= belong together")
    if part is None or parts is None or not 1 <= parts <= _MOST_PARTS or not 0 <= part < parts:
        raise UsageError(f"part={part} of parts={parts}: parts are numbered from 0, and there are up to {_MOST_PARTS}")
    return Part(part, parts)


def part_folder(part: Part) -> str:
    """Return the folder of a part inside the dataset."""
    return f"{PARTS}/{part.number:06d}-of-{part.of:06d}"


def other_counts(store: WritableStore, parts: int) -> list[int]:
    """Return the numbers of parts, other than this one, that some parts lying there say."""
    counts = {int(match[2]) for one in store.entries(PARTS) if (match := _NAME.fullmatch(one.name))}
    return sorted(counts - {parts})


def write_facts(
    store: WritableStore, job: PackJob, columns: Sequence[Declared], classes: Mapping[str, Sequence[str]], records: int
) -> None:
    """Say, durably, that a part has all its records."""
    facts = PartFacts(
        kinds={one.name: one.kind.value for one in columns},
        schema=encode_schema_table(pa.schema([pa.field(one.name, one.type) for one in columns])),
        classes={name: tuple(names) for name, names in classes.items()},
        image_encoding=str(job.image_encoding),
        short_side=job.short_side,
        shard_size=job.shard_size,
        records=records,
    )
    store.write(COMPLETE, msgspec.json.encode(facts))


def count_records(store: WritableStore) -> int:
    """Return how many records a finished part had. Raises SourceError."""
    return _facts(store).records


def _facts(store: WritableStore, part: str = "this part") -> PartFacts:
    try:
        return _FACTS.decode(store.read(COMPLETE))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f'{part} is damaged ({error}): write it anew, with on_existing="overwrite"') from error


def read_facts(dataset: str, parts: int) -> list[PartFacts]:
    """Return what each part says.

    Raises:
        SourceError: Parts are missing or unfinished, or differ; the message names them.
    """
    found: list[PartFacts] = []
    missing, unfinished = [], []
    for number in range(parts):
        store = LocalStore(os.path.join(dataset, part_folder(Part(number, parts))))
        if store.info(COMPLETE) is not None:
            found.append(_facts(store, f"part {number}"))
        elif store.entries():
            unfinished.append(number)
        else:
            missing.append(number)
    if missing or unfinished:
        said = [
            f"{_listed(numbers)} {why}"
            for numbers, why in ((missing, "missing"), (unfinished, "unfinished"))
            if numbers
        ]
        others = other_counts(LocalStore(dataset), parts)
        hint = f" There are parts of parts={others[0]}." if others else ""
        raise SourceError(
            f"{dataset!r}: {' and '.join(said)} of {parts} parts: write these with part= and parts={parts}, an "
            f'unfinished one with on_existing="resume", and merge again.{hint}'
        )
    for number, facts in enumerate(found):
        for name in ("kinds", "schema", "classes", "image_encoding", "short_side", "shard_size"):
            if getattr(facts, name) != getattr(found[0], name):
                what = "columns" if name in ("kinds", "schema") else name
                raise SourceError(f"part {number} was written with other {what} than part 0: write one of them anew")
    return found


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"part {shown} is" if len(numbers) == 1 else f"parts {shown} are"
