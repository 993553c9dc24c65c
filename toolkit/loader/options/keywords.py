"""The options of all fronts: each declared once, with its type, default, check and documentation.

A class here is what one front takes as keywords: `def loader(self, **options: Unpack[LoaderKeywords])`. Editors and
mypy read the names and types; toolkit.loader.options.fronts makes checks, signatures and help() of the same lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.loader.options.option import Option
from toolkit.loader.outputs.registry import named
from toolkit.memory.sizes import parse_bytes

__all__ = [
    "BatchesKeywords",
    "LoaderKeywords",
    "MixKeywords",
    "SamplesKeywords",
    "SharedKeywords",
    "StreamKeywords",
    "WindowKeywords",
]

_LEAST_BLOCK = 16
_MOST_BYTES = (1 << 63) - 1
_DTYPES = ("int32", "int64", "uint16", "uint32")


def _shown(value: object) -> str:
    return short(value, 80, quoted=True)


def _check_bytes(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UsageError(f"{name} must be a number of bytes or text as in '512MiB', got {_shown(value)}")
    if isinstance(value, int) and value > _MOST_BYTES:
        raise UsageError(f"{name} must be a number of bytes below 2**63, got {_shown(value)}")
    try:
        least = value if isinstance(value, int) else parse_bytes(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
    if least < 1:
        raise UsageError(f"{name} must be at least 1, got {_shown(value)}")


def _check_sharding(name: str, value: Any) -> None:
    if isinstance(value, int | float):  # JAX, which isn't imported here, has the last word
        raise UsageError(f"{name} must be a NamedSharding, or a mapping of one for each column, got {_shown(value)}")


def _check_output(name: str, value: Any) -> None:
    if not callable(value):
        named(value)


def _check_weights(name: str, value: Any) -> None:
    if isinstance(value, str) and value != "balanced":
        raise UsageError(f"{name} must be an array or 'balanced', got {_shown(value)}")


def _check_dtype(name: str, value: Any) -> None:
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError):  # a number of too many digits
        dtype = np.dtype(object)
    if dtype.name not in _DTYPES:
        raise UsageError(f"{name} must be one of {', '.join(_DTYPES)}, got {_shown(value)}")
    if not dtype.isnative:
        raise UsageError(f"{name} must be in this machine's byte order, got {dtype.str!r}: {dtype.name!r}")


def _check_phases(name: str, value: Any) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"{name} must be a list of (steps, batch_size, seq_len), got {_shown(value)}")
    for place, one in enumerate(value):
        numbers = list(one) if isinstance(one, Sequence) else []
        if len(numbers) != 3 or not all(
            isinstance(n, int) and not isinstance(n, bool) and 1 <= n < 1 << 63 for n in numbers
        ):
            raise UsageError(
                f"{name} must be (steps, batch_size, seq_len) each, ints of at least 1, got {_shown(one)} as number "
                f"{place}"
            )


class SamplesKeywords(TypedDict, total=False):
    """What toolkit.torch.Dataset takes, and every front."""

    seed: Annotated[int, Option(0, "Of the order, and of random steps.")]
    verify: Annotated[
        Literal["touch", "always"] | None,
        Option(
            None,
            'When stored bytes are checked: "touch" or "always", as in toolkit.open(); left out, as the dataset was '
            "opened.",
        ),
    ]


class SharedKeywords(SamplesKeywords, total=False):
    """What every front takes that makes batches."""

    batch_size: Annotated[
        int | None, Option(None, "Samples of a batch, or rows of a token stream's, on each rank.", least=1)
    ]
    global_batch_size: Annotated[
        int | None,
        Option(None, "The same over all ranks, in place of batch_size; the ranks must divide it.", least=1),
    ]
    until_epoch: Annotated[
        int | None,
        Option(
            None,
            "The epoch before which the whole run ends, over all iter() and restarts: a state that stands there "
            "delivers nothing. Without it and steps, each iter() goes on.",
            least=1,
        ),
    ]
    steps: Annotated[
        int | None,
        Option(
            None,
            "Batches of the whole run on each rank, counted from its very first, in its state; whichever bound comes "
            "first ends it.",
            least=1,
        ),
    ]
    threads: Annotated[
        int | Literal["auto"],
        Option(
            "auto",
            'Threads that fill batches; "auto" is the number of processors that this process may use. 0 fills each '
            "batch in the consumer's thread when it is asked for: nothing is prefetched, and nobody is there to end a "
            "function of yours that takes too long.",
            least=0,
        ),
    ]
    prefetch: Annotated[
        int,
        Option(
            4,
            "Batches in flight besides the one that is delivered next, at most; one as long as the threads are slower "
            "than the consumer. Small batches of a token stream are filled together, and count as one.",
            least=0,
        ),
    ]
    rank: Annotated[
        int | None,
        Option(
            None,
            "This rank's slice of each global batch, with world_size. Left out, the launcher says both: torchrun, "
            "jax.distributed or srun.",
            least=0,
        ),
    ]
    world_size: Annotated[int | None, Option(None, "How many ranks there are: see rank.", least=1)]
    max_bytes: Annotated[
        int | str | None,
        Option(
            None,
            "The most memory that may be owned, batches that the consumer holds included: bytes, or text as in "
            '"512MiB". None: prefetch alone bounds it. Less than one batch is refused, with the number needed. In '
            "DataLoader's workers, of each.",
            check=_check_bytes,
        ),
    ]
    hold_timeout: Annotated[
        float,
        Option(
            60.0, "Seconds that the next batch waits for the consumer to let go of others before it raises.", above=0
        ),
    ]


class _EpochsKeywords(TypedDict, total=False):
    epochs: Annotated[
        int | None,
        Option(
            1,
            "Epochs that each iter() gives; None: all that are left up to until_epoch or steps. A token stream without "
            "either goes on without end.",
            least=1,
        ),
    ]


class _PlacedKeywords(TypedDict, total=False):
    output: Annotated[
        str | Callable[[Any], Any],
        Option(
            "numpy",
            '"numpy", "torch" or "jax"; or a function that makes of a batch of numpy arrays what the loop is to get. '
            "It runs in the consumer's thread.",
            check=_check_output,
        ),
    ]
    sharding: Annotated[
        Any,
        Option(
            None,
            "JAX arrays of the global batch, of which each process reads what its devices hold, in place of rank and "
            "world_size. A NamedSharding of the batch axis for all columns, or a mapping of one for each; of a token "
            "stream, one for (rows, seq_len).",
            check=_check_sharding,
        ),
    ]


class _OrderedKeywords(SharedKeywords, total=False):
    shuffle: Annotated[
        Literal["none", "full", "block"],
        Option(
            "none",
            '"full" permutes all samples anew each epoch; "block" permutes blocks of 256 neighbours, then samples '
            'within windows of 64 blocks, and reads from few places at a time; "none" keeps the stored order.',
            hints=((True, "Say shuffle='full'"), (False, "Say shuffle='none'")),
        ),
    ]
    remainder: Annotated[
        Literal["keep", "drop", "pad"],
        Option(
            "keep",
            'What becomes of samples that fill no whole batch: "keep" delivers a shorter last one (one rank only), '
            '"drop" leaves them out, "pad" fills it up with zeros: mask False, position and row -1.',
        ),
    ]
    on_error: Annotated[
        Literal["raise", "skip"],
        Option(
            "raise",
            '"raise", or "skip": a sample that is damaged or can\'t be decoded keeps its place with mask False and '
            "zeros (None in lists), and is logged and counted.",
        ),
    ]
    max_skips: Annotated[
        int, Option(100, "Samples that may be skipped on this rank in an epoch; one more raises.", least=0)
    ]


class BatchesKeywords(_OrderedKeywords, total=False):
    """What toolkit.torch.IterableDataset takes: batches of samples, one epoch an iter()."""

    weights: Annotated[
        ArrayLike | None,
        Option(
            None,
            'Draw with replacement: a number a sample of the dataset, or "balanced" for classes equally often.',
            check=_check_weights,
        ),
    ]
    epoch_samples: Annotated[
        int | None,
        Option(None, "Draws in an epoch; as many as there are samples when left out. Only with weights.", least=1),
    ]


class _DeviceKeywords(TypedDict, total=False):
    device: Annotated[
        Any,
        Option(
            None,
            'With "torch", the device that tensors are to be on: "cuda" or "cuda:1" copy from page-locked memory while '
            "earlier work goes on. Left out, tensors share the memory that was filled.",
        ),
    ]


class LoaderKeywords(BatchesKeywords, _EpochsKeywords, _PlacedKeywords, _DeviceKeywords, total=False):
    """What Dataset.loader() takes."""


class MixedKeywords(_OrderedKeywords, _EpochsKeywords, _PlacedKeywords, _DeviceKeywords, total=False):
    """What Mix.loader() takes."""

    epoch_samples: Annotated[
        int | None,
        Option(None, "Samples of an epoch, of a mix whose sources begin anew: it has no end of its own.", least=1),
    ]


class WindowKeywords(SharedKeywords, _PlacedKeywords, total=False):
    """What Dataset.tokens() and toolkit.mix_tokens() take."""

    seq_len: Annotated[int | None, Option(None, "Tokens of a row, once phases are over.", least=1)]
    start_step: Annotated[int | None, Option(None, "The step to begin at, counted from the very first.", least=0)]
    total_steps: Annotated[
        int | None,
        Option(
            None,
            "Steps to deliver at the most, from start_step on. It bounds the whole run, as steps does.",
            least=0,
        ),
    ]
    shuffle: Annotated[
        Literal["none", "block"],
        Option(
            "none",
            '"block" permutes blocks of tokens anew each epoch; "none" keeps the stored order.',
            hints=((True, "Say shuffle='block'"), (False, "Say shuffle='none'"), ("full", "Say shuffle='block'")),
        ),
    ]
    block_size: Annotated[
        int | None,
        Option(
            None,
            "Tokens of a block; the largest seq_len if not given, so that each row is one stretch of text.",
            least=_LEAST_BLOCK,
        ),
    ]
    pad_id: Annotated[int | None, Option(None, "The id that pads; the end-of-text id or 0 if not given.", least=0)]
    targets: Annotated[bool, Option(False, "Give the token that follows each in the dataset; -100 behind the last.")]
    mask_documents: Annotated[bool, Option(False, "Make the target -100 where a document ends.")]
    documents: Annotated[bool, Option(False, "Give segments and positions.")]
    dtype: Annotated[DTypeLike, Option("int32", "int32, int64, uint16 or uint32.", check=_check_dtype)]
    tokenizer: Annotated[
        str | os.PathLike[str] | None, Option(None, 'The tokenizer.json (or "bytes") that ids must be of.')
    ]


class StreamKeywords(WindowKeywords, _EpochsKeywords, total=False):
    """What Dataset.tokens() takes."""

    phases: Annotated[
        Sequence[Sequence[int]],
        Option((), "(steps, batch_size, seq_len) that come first.", check=_check_phases),
    ]
    completed_phases: Annotated[
        Sequence[Sequence[int]],
        Option((), "The same, before phases; start_step is behind them if not given.", check=_check_phases),
    ]
    remainder: Annotated[
        Literal["pad", "drop"],
        Option("pad", 'What is left at the end of an epoch: "pad" a step with it, or "drop" it.'),
    ]
    pack: Annotated[
        Literal["best", "first"] | None,
        Option(
            None,
            '"best" or "first" packs whole documents into rows instead of cutting windows: into the fullest row that '
            "has room, or the first. Longer ones are cut at seq_len. Always gives segments and positions.",
        ),
    ]
    group_documents: Annotated[
        int, Option(1024, "Consecutive documents that are packed, and shuffled, together.", least=1)
    ]


class MixKeywords(WindowKeywords, total=False):
    """What toolkit.mix_tokens() takes besides datasets and weights."""

    exhausted: Annotated[
        Literal["repeat", "continue", "stop"],
        Option(
            "continue",
            'What follows the last row of a source: "continue" goes on with the others, their weights renormalised, '
            'until every token came once; "stop" ends the mix there; "repeat" begins the source anew, shuffled anew, '
            "and never ends.",
        ),
    ]
