"""What a view calls its columns: stored names changed, and the key as a column; nothing stored is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from toolkit.errors import NotFoundError, UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.format.schema import DIGEST, KEY, Column, Derived, Kind, is_own_name

__all__ = ["Names", "check_known", "checked_names", "checked_renames", "new_name"]

_SHOWN = 80  # characters of a value that an error shows
_MOST_LISTED = 64


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one split's columns.

    Attributes:
        changed: (stored name, name) of columns that are called otherwise.
        key: The name of the column that gives the key; None without one.
    """

    changed: tuple[tuple[str, str], ...] = ()
    key: str | None = None

    def renamed(self, renames: Mapping[str, str]) -> Names:
        """Return these names with some of them changed: from the name as it is now to the new one."""
        now = {name: stored for stored, name in self.changed}
        changed = dict(self.changed)
        for name, new in renames.items():
            if name != self.key:
                changed[now.get(name, name)] = new
        others = tuple(sorted((stored, name) for stored, name in changed.items() if stored != name))
        return Names(others, None if self.key is None else renames.get(self.key, self.key))

    def with_key(self, name: str) -> Names:
        """Return these names, with the key as a column."""
        return replace(self, key=name)

    def schema(self, stored: pa.Schema, derived: Sequence[Derived]) -> pa.Schema:
        """Return the schema of shards by these names. The key's column stands last: no buffers are its own.

        Metadata speaks of stored names: it is left out where one is called otherwise.
        """
        if self == Names():
            return stored
        called = dict(self.changed)
        called.update(zip((one.name for one in derived), (one.name for one in self.derived(derived)), strict=True))
        fields = [field.with_name(called.get(field.name, field.name)) for field in stored]
        if self.key is not None:
            fields.append(pa.field(self.key, pa.string(), nullable=False))
        return pa.schema(fields, metadata=None if self.changed else stored.metadata)

    def columns(self, stored: Sequence[Column]) -> tuple[Column, ...]:
        """Return columns by these names, and the key's behind them."""
        called = dict(self.changed)
        columns = [msgspec.structs.replace(one, name=called.get(one.name, one.name)) for one in stored]
        if self.key is not None:
            columns.append(Column(name=self.key, kind=Kind.TEXT, arrow_type=str(pa.string())))
        return tuple(columns)

    def classes(self, stored: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the class names of columns by these names."""
        called = dict(self.changed)
        return {called.get(name, name): names for name, names in stored.items()}

    def derived(self, stored: Sequence[Derived]) -> tuple[Derived, ...]:
        """Return derived columns, which are called after those that they are made of."""
        called = dict(self.changed)
        return tuple(msgspec.structs.replace(one, of=called.get(one.of, one.of)) for one in stored)


def check_known(call: str, names: Iterable[str], schema: pa.Schema) -> None:
    """Raise NotFoundError where there is no stored column of a name."""
    for name in names:
        if name not in schema.names:
            known = [one for one in schema.names if not is_own_name(one)]
            made = [one for one in schema.names if is_own_name(one) and one not in (KEY, DIGEST)]
            also = f", and derived of them {listed(made, _MOST_LISTED)}" if made else ""
            raise NotFoundError(
                f"{call}: there is no column {short(name, _SHOWN, quoted=True)}; the columns are "
                f"{listed(known, _MOST_LISTED)}{also}.{did_you_mean(name, [*known, *made])}"
            )


def checked_names(call: str, given: object, schema: pa.Schema, *, own: Collection[str] = ()) -> list[str]:
    """Return a list of names of columns, each once. `own` are those of the format's that may be named as well.

    Raises:
        UsageError: It is no list of texts, a name comes twice, or is the format's own.
        NotFoundError: There is no such column.
    """
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(one, str) for one in given):
        said = f": [{short(given, _SHOWN, quoted=True)}]" if isinstance(given, str) else ""
        raise UsageError(
            f"{call} takes a list of names of columns{said}; got {short(given, _SHOWN, quoted=True)}"
            + (". Rows are ds[[0, 1]]" if call == "select" and not isinstance(given, str) else "")
        )
    names = list(given)
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"{call} names {short(name, _SHOWN, quoted=True)} {times} times: name each column once")
        if name in (KEY, DIGEST) and name not in own:
            hint = '; with_key("key") makes the key a column' if name == KEY else ""
            raise UsageError(f"{call}: {name} is the format's own and no column{hint}")
    check_known(call, names, schema)
    return names


def checked_renames(given: object, schema: pa.Schema) -> dict[str, str]:
    """Return the names that change, from now to new. Raises UsageError, NotFoundError."""
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for pair in given.items() for one in pair):
        raise UsageError(
            f'rename takes names as they are and as they shall be, {{"image": "picture"}}; got '
            f"{short(given, _SHOWN, quoted=True)}"
        )
    check_known("rename", given, schema)
    for name in given:
        if is_own_name(name):
            hint = "with_key() gives the key a name" if name == KEY else "it is called after the column it is made of"
            raise UsageError(f"rename: {name} is the format's own name, {hint}")
    renames = {name: new for name, new in given.items() if name != new}
    for new, times in Counter(renames.get(name, name) for name in schema.names).items():
        if times > 1:
            clash = [name for name in schema.names if renames.get(name, name) == new]
            raise UsageError(
                f"rename: {listed(clash)} would all be called {short(new, _SHOWN, quoted=True)}. All stored columns "
                "count, also those that aren't selected: give each a name of its own"
            )
    for new in renames.values():
        _check_new("rename", new)
    return renames


def new_name(call: str, given: object, schema: pa.Schema) -> str:
    """Return the name of a column that is to be made. Raises UsageError."""
    if not isinstance(given, str):
        raise UsageError(f"{call} takes the name of a column, got {short(given, _SHOWN, quoted=True)}")
    _check_new(call, given)
    if given in schema.names:
        raise UsageError(
            f"{call}: there is a column {short(given, _SHOWN, quoted=True)} already, read or not: take another name"
        )
    return given


def _check_new(call: str, name: str) -> None:
    if not name or is_own_name(name) or "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise UsageError(
            f"{call}: {short(name, _SHOWN, quoted=True)} can't name a column: names that begin with __ are the "
            "format's own"
        )
