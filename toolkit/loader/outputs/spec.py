"""What an output is: one class that says what batches become, what that needs, and where the arrays may be placed.

A subclass in a module of toolkit.loader.outputs.kinds, and its one instance there, SPEC, are all that an output is made
of. That module imports its framework when a method needs it, and not before: names and placement options of all
outputs are looked at by programs that have none of the frameworks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from toolkit.errors import UsageError
from toolkit.loader.outputs.values import Converter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolkit.memory.pool import Allocate

__all__ = ["Arrays", "Mesh", "OutputSpec", "PlacementOption", "RowPlacement", "RowRange"]

# Rows [low, high) of a global batch.
RowRange = tuple[int, int]


class Mesh(Protocol):
    """Says which samples of a global batch each process reads, where the arrays' placement decides that."""

    @property
    def rank(self) -> int:
        """Which of the processes that share a global batch this is."""

    @property
    def world_size(self) -> int:
        """How many they are."""

    def ranges(self, global_batch: int) -> Sequence[RowRange]:
        """Return the places of a global batch that this process reads. Raises UsageError: it can't be cut equally."""

    def check(self, names: Sequence[str], shapes: Mapping[str, tuple[int, ...] | None]) -> None:
        """Check `names` of the columns, and what is known of a sample's shape, None for a list. Raises UsageError."""


class Arrays(Protocol):
    """Turns filled columns into arrays of a framework, where they are wanted."""

    @property
    def allocate(self) -> Allocate:
        """What makes the memory that batches are filled in."""

    @property
    def mesh(self) -> Mesh | None:
        """What each process reads; None: what its rank says."""

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns as arrays; lists stay lists, of arrays where they were. `dtypes`: see Converter."""

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return what says for each sample whether it is there, for use beside the columns."""

    def collect(self) -> None:
        """Make the framework let go of the memory of dead arrays now."""


@dataclass(frozen=True, slots=True)
class RowPlacement:
    """How rows of a token stream become arrays.

    Attributes:
        place: Makes the array of this process' rows; gets the global shape (rows, seq_len) as well.
        ranges: Gives the rows of a global batch of that shape which this process fills; None: its rank says it.
        processes: How many processes share a global batch; None: the world size says it.
    """

    place: Callable[[NDArray[Any], tuple[int, int]], Any]
    ranges: Callable[[tuple[int, int]], Sequence[RowRange]] | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class PlacementOption:
    """A loader's option that an output takes: `device` or `sharding`.

    Attributes:
        refusal: What is said where another output was asked for; {value} and {output} are what was given.
        implies: Whether the option alone, output= being left out, asks for this output.
    """

    refusal: str
    implies: bool = False


class OutputSpec(ABC):
    """An output. A subclass gives `name` and _converter(); whatever else differs from plain host memory it overrides.

    Attributes:
        name: What output= is given, and what the module is called.
        package: What must be installed, as it is imported; "" for nothing.
        extra: The extra of toolkit that installs it.
        options: Loader options of placement that it takes, by name.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""
    extra: ClassVar[str] = ""
    options: ClassVar[Mapping[str, PlacementOption]] = {}

    @property
    def install(self) -> str:
        """The command that installs what it needs. An output that is no part of toolkit says it itself."""
        return f"pip install 'toolkit[{self.extra}]'"

    def converter(self) -> Converter:
        """Return what turns columns into arrays. Raises UsageError: the framework isn't installed."""
        try:
            return self._converter()
        except ImportError as error:
            raise UsageError(f"output={self.name!r} needs {self.package}, which is missing: {self.install}") from error

    @abstractmethod
    def _converter(self) -> Converter:
        """Return what turns columns into arrays. Raises ImportError: the framework isn't installed."""

    def collector(self) -> Callable[[], None]:
        """Return what makes the framework let go of the memory of dead arrays. Called when converter() was."""
        return _nothing

    def arrays(self, *, device: Any = None, sharding: Any = None) -> Arrays:
        """Return what makes a loader's batches, placed as the options say; those in `options` alone are given.

        Raises:
            UsageError: The framework isn't installed, or arrays can't be placed there.
        """
        from toolkit.loader.outputs.host import HostArrays

        return HostArrays(self.converter(), self.collector())

    def rows(self, sharding: Any = None) -> RowPlacement:
        """Return what makes a token stream's arrays. Raises UsageError as arrays()."""
        convert = self.converter()
        return RowPlacement(lambda rows, shape: convert(rows))

    def ready(self) -> Callable[[Iterable[Any]], object]:
        """Start the framework, so that a benchmark doesn't measure that; return what waits for arrays to be there."""
        self.converter()
        return _nothing_to_wait_for

    def registrar(self) -> Callable[[type[Mapping[str, Any]]], None] | None:
        """Return what lets the framework know a class of batches, made by kind(columns); None where it needn't.

        It is called once a class, when somebody imported the framework.
        """
        return None


def _nothing() -> None:
    pass


def _nothing_to_wait_for(arrays: Iterable[Any]) -> None:
    pass
