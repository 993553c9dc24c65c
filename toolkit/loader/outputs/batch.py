"""What a loader delivers: a mapping of columns, with the keys and positions of its samples."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolkit.escapes import plain, short
from toolkit.loader.outputs.registry import every, watch
from toolkit.loader.outputs.values import each_inside

if TYPE_CHECKING:
    from toolkit.loader.dataset.fetch import Fetcher
    from toolkit.loader.outputs.spec import OutputSpec

__all__ = ["Batch", "MovableBatch", "Origin", "Sources"]

OriginT = TypeVar("OriginT")

# What lets a framework know a class of batches, by package, where it was not called yet.
_unmet: dict[type[Mapping[str, Any]], dict[str, Callable[[type[Mapping[str, Any]]], None]]] = {}
_registering = threading.Lock()
_SHOWN_COLUMNS = 12


class MovableBatch(Mapping[str, Any], Generic[OriginT]):
    """Columns by name, which Lightning and Accelerate can move to a device, and JAX takes as a pytree of them.

    It can be pickled and copied, with what says where it comes from: its origin. Those libraries make batches of their
    own, too: `type(batch)(columns)`. Such a one has the columns and nothing else; whoever asks it for an attribute of
    the origin gets AttributeError.
    """

    __slots__ = ("__weakref__", "_columns", "_origin")

    def __init__(self, columns: Mapping[str, Any], origin: OriginT | None = None) -> None:
        """`origin` is kept as long as the batch is."""
        self._columns = dict(columns)
        self._origin = origin
        unmet = _unmet.get(type(self))
        for package in _unmet_by(type(self)) if unmet is None else unmet:
            if package in sys.modules:
                _register(type(self), package)

    def __getitem__(self, column: str) -> Any:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def copy(self) -> Self:
        """Return the batch in memory of its own, which counts against no limit; as pickle and copy.deepcopy do."""
        return copy.deepcopy(self)

    def __copy__(self) -> Self:
        """Return another batch of the same arrays."""
        return self._with(self._columns)

    def __reduce__(self) -> tuple[Any, ...]:
        origin = None if self._origin is None else self._portable(self._origin)
        return type(self), (self._columns,) if origin is None else (self._columns, origin)

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """Return the batch with its torch tensors on `device`, those in lists, tuples and dicts too; the rest stays."""
        return self._with({name: _moved(values, device, non_blocking) for name, values in self._columns.items()})

    def _with(self, columns: Mapping[str, Any]) -> Self:
        """Return the same samples with other columns."""
        return type(self)(columns, self._origin)

    def _known(self, attribute: str) -> OriginT:
        """Return the origin, which `attribute` is of. Raises AttributeError: there is none."""
        if self._origin is None:
            raise AttributeError(
                f"this {type(self).__name__} was made of columns alone, by a jax.tree function or another library, and "
                f"has no {attribute}: take it from the batch that the loader gave, before"
            )
        return self._origin

    def _portable(self, origin: OriginT) -> OriginT:
        """Return the origin as it goes into a pickle or a copy: it may not need the dataset."""
        return origin


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch's samples come from: what Batch documents, and `token`, its life to the memory budget.

    `fetcher` reads keys; where a batch was copied or pickled, they are here instead.
    """

    fetcher: Fetcher | None
    epoch: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    mask: Any
    present: Mapping[str, Any]
    token: object
    keys: list[str | None] = field(default_factory=list)
    sources: Sources | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a mix, in the order of their rows: names, and int64 (n,), the first row of each."""

    names: tuple[str, ...]
    first_rows: NDArray[np.int64]


class Batch(MovableBatch[Origin]):
    """Columns of a batch by name. The arrays are the consumer's own: writable, and valid as long as they are held.

    It can be pickled and deep-copied, with its positions, keys, mask and epoch; its lists count as held until it is
    gone.
    Bytes that no slot reads are a BytesColumn: a sequence of bytes in one block.
    To JAX it is a pytree with its columns as leaves; what comes out of jax.tree.map or jit has those and nothing else.
    """

    __slots__ = ()

    @property
    def epoch(self) -> int:
        """The epoch it belongs to."""
        return self._known("epoch").epoch

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64 (n,): positions of this process' samples in the epoch's order; -1 where it is padded."""
        return self._known("positions").positions

    @property
    def rows(self) -> NDArray[np.int64]:
        """int64 (n,): rows of the split; -1 where it is padded."""
        return self._known("rows").rows

    @property
    def mask(self) -> Any:
        """Bool (n,): True where a sample was delivered; elsewhere arrays hold zeros, lists and bytes None.

        A numpy array; with `sharding=` a JAX array of the global batch, cut as the columns are.
        """
        return self._known("mask").mask

    @property
    def present(self) -> Mapping[str, Any]:
        """For each optional slot what mask is for all: False where its value was missing and `fill` stands for it."""
        return self._known("present").present

    @property
    def source(self) -> list[str | None]:
        """Names of the datasets of a mix that the samples come from; None where it is padded, and all without a mix."""
        origin = self._known("source")
        if origin.sources is None:
            return [None] * len(origin.rows)
        found = np.searchsorted(origin.sources.first_rows, origin.rows, side="right") - 1
        return [origin.sources.names[number] if number >= 0 else None for number in found.tolist()]

    @property
    def sample_keys(self) -> list[str | None]:
        """Keys of the samples, of skipped ones too, None where it is padded; read from the dataset when asked for."""
        origin = self._known("sample_keys")
        if origin.fetcher is None:
            return list(origin.keys)
        real = origin.rows[origin.rows >= 0]
        keys: list[str | None] = [*origin.fetcher.keys(origin.fetcher.locate(real))]
        return keys + [None] * (len(origin.rows) - len(real))

    def __repr__(self) -> str:
        of = f" epoch {self._origin.epoch}, {len(self._origin.rows):,} samples" if self._origin else ""
        columns = [f"{plain(short(name, 40))} {_described(values)}" for name, values in self.items()]
        more = [f"{len(columns) - _SHOWN_COLUMNS} more"] if len(columns) > _SHOWN_COLUMNS else []
        return f"<toolkit.Batch{of}: {', '.join([*columns[:_SHOWN_COLUMNS], *more])}>"

    def _portable(self, origin: Origin) -> Origin:
        """Read the keys now: where it arrives, there may be no dataset."""
        return replace(origin, fetcher=None, token=None, present=dict(self.present), keys=self.sample_keys)


def _unmet_by(kind: type[Mapping[str, Any]]) -> Iterable[str]:
    """Return the packages that want to know batches, none of which knows this kind yet."""
    known = {spec.package: spec.registrar() for spec in every()}
    return _unmet.setdefault(kind, {package: register for package, register in known.items() if register})


def _register(kind: type[Mapping[str, Any]], package: str) -> None:
    """Let a framework know a kind of batch, now that somebody imported it: it is never imported for this alone."""
    with _registering:
        others = dict(_unmet[kind])
        register = others.pop(package, None)
        if register is not None:
            register(kind)  # JAX refuses a second time
            _unmet[kind] = others


def _let_know(spec: OutputSpec) -> None:
    """Let a plugin's framework know the kinds of batches that were made before the plugin was asked for."""
    register = spec.registrar()
    others = {one.package for one in every() if one is not spec}
    if register is not None and spec.package not in others:
        with _registering:
            _unmet.update({kind: {**unmet, spec.package: register} for kind, unmet in _unmet.items()})


watch(_let_know)


def _described(values: Any) -> str:
    """Return dtype and shape of an array of any framework; of anything else its type and length."""
    if hasattr(values, "dtype") and hasattr(values, "shape"):
        return f"{str(values.dtype).removeprefix('torch.')} {tuple(values.shape)}"
    return f"{type(values).__name__} of {len(values):,}" if hasattr(values, "__len__") else type(values).__name__


def _moved(value: Any, device: Any, non_blocking: bool) -> Any:
    if hasattr(value, "to"):
        return value.to(device, non_blocking=non_blocking)
    return each_inside(value, lambda item: _moved(item, device, non_blocking))
