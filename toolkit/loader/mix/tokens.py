"""A mix of token datasets: rows of one batch from several sources by weights, with exact counts at every position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.mix.weights import check_sources, check_weights
from toolkit.loader.options.fronts import MIX
from toolkit.loader.options.keywords import MixKeywords
from toolkit.loader.order.mix import Exhausted, MixPlan
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.loader.tokens.filler import Columns, TokenFiller
from toolkit.loader.tokens.options import StreamOptions, mix_options
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Place, Schedule, Step
from toolkit.loader.tokens.steps import StepStream
from toolkit.loader.tokens.stream import check_fit
from toolkit.loader.tokens.stretches import WindowOrder
from toolkit.pipelines.randomness import fold_all

if TYPE_CHECKING:
    from toolkit.loader.dataset.dataset import Dataset

__all__ = ["TokenMix", "mix_tokens"]

_ORDER_VERSION = 1
_SHOWN_SOURCES = 5


class TokenMix(StepStream):
    """Iterates over batches whose rows come from several datasets; made by mix_tokens()."""

    _is_whole = True

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        weights: Mapping[str, float],
        options: StreamOptions,
        exhausted: Exhausted,
    ) -> None:
        """Raises UsageError: names or weights can't be, or an option doesn't fit the datasets."""
        given = options.given
        check_sources(datasets)
        checked = check_weights(datasets, weights)
        _check_encodings(datasets)
        self.options = options
        self.datasets = dict(datasets)
        self.weights = checked
        self.exhausted = exhausted
        verify = given["verify"]
        runs = [OpenRun(one if verify is None else one.verified(verify)) for one in datasets.values()]
        for run in runs:
            check_fit(options, run)
        self._plan = MixPlan(
            [-(-run.tokens // options.longest) for run in runs],
            list(self.weights.values()),
            given["seed"],
            exhausted,
        )
        orders = [
            WindowOrder(options.block, partial(fold_all, _ORDER_VERSION, given["seed"], number))
            for number in range(len(runs))
        ]
        filler = _MixFiller(
            Columns.of(options, runs[0]),
            options.placement.ranges,
            options.rank,
            options.world_size,
            LoaderStats(),
            runs,
            orders,
            self._plan,
        )
        super().__init__(
            Schedule(units=self._plan.rows, phases=options.phases, pad=True, unit_tokens=options.longest),
            filler,
            options,
        )

    def sources(self, batch: TokenBatch) -> list[str | None]:
        """Return the name of the dataset of each of this process' rows of a batch; None for padding."""
        step = next(self._schedule.steps(batch.place, 1))
        rows = np.concatenate([np.arange(low, high) for low, high in self._filler.rows_of(step.phase)])
        found, _ = self._plan.sources(step.place.position, step.units)
        names = list(self.datasets)
        return [names[found[row]] if row < step.units else None for row in rows.tolist()]

    def counts(self, place: Place | None = None) -> dict[str, int]:
        """Return how many rows each dataset gave before `place`: before where the consumer stands when None."""
        given = self._plan.given((self._place if place is None else place).position)
        return dict(zip(self.datasets, given.tolist(), strict=True))

    def _datasets_text(self) -> str:
        shares = [f"{name} ({weight:g})" for name, weight in self.weights.items()]
        more = f" and {len(shares) - _SHOWN_SOURCES} more" if len(shares) > _SHOWN_SOURCES else ""
        return f"of {', '.join(shares[:_SHOWN_SOURCES])}{more}"

    def _identity(self) -> dict[str, object]:
        options = self.options
        return {
            # In order: rows are dealt by a source's number. JSON may come back with its keys in another order.
            "sources": [
                [name, f"{dataset.split}@{dataset.pin}", self.weights[name]] for name, dataset in self.datasets.items()
            ],
            "exhausted": self.exhausted.value,
            "seq_len": options.longest,
            "shuffle": options.given["shuffle"],
            "seed": options.given["seed"],
            "block_size": options.block,
        }


@MIX.documented
def mix_tokens(
    datasets: Mapping[str, Dataset], weights: Mapping[str, float], **options: Unpack[MixKeywords]
) -> TokenMix:
    """Return a stream whose rows come from `datasets`, as often as their `weights` say.

    Weights count rows, are met exactly at the end of every block (4096 rows, or more where a weight is small) and to
    two rows anywhere in it. The position is counted in rows, so a state is resumed with any batch size and number of
    ranks. Under until_epoch=1 every row comes once, over all iter()
    and restarts; without a bound the next iter() deals anew.

    Args:
        datasets: Splits by name, in an order that a state holds to. They need the same tokenizer.
        weights: A positive number for each, at least one in 16384 of their sum.
        options: toolkit.loader.options.keywords declares them.

    Raises:
        UsageError: Names, weights or options can't be.
    """
    checked, exhausted = mix_options(options)
    return TokenMix(datasets, weights, checked, exhausted)


@dataclass(frozen=True)
class _MixFiller(TokenFiller):
    """Fills steps from several runs."""

    runs: Sequence[OpenRun]
    orders: Sequence[WindowOrder]
    plan: MixPlan

    def there(self, step: Step) -> NDArray[np.bool_]:
        """Return bool (rows, seq_len): which places of this process' rows hold tokens."""
        length = step.phase.seq_len
        rows, sources, numbers = self._rows([step])
        mask = np.zeros((sum(high - low for low, high in self.rows_of(step.phase)), length), np.bool_)
        for row, source, number in zip(rows.tolist(), sources.tolist(), numbers.tolist(), strict=True):
            total = self.runs[source].tokens
            mask[row, : min(length, total - number % -(-total // length) * length)] = True
        return mask

    def _rows(self, steps: list[Step]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return which rows of the output are filled, and the source and number of each."""
        first, ranges = steps[0], self.rows_of(steps[0].phase)
        wanted = np.concatenate([np.arange(low, high) for low, high in ranges])
        all_sources, all_numbers = self.plan.sources(first.place.position, first.units * len(steps))
        at = np.arange(len(steps))[:, None] * first.units + wanted
        rows = np.flatnonzero(np.broadcast_to(wanted < first.units, at.shape).reshape(-1))
        return rows, all_sources[at.reshape(-1)[rows]], all_numbers[at.reshape(-1)[rows]]

    def _copy(self, steps: list[Step], arrays: dict[str, NDArray[Any]]) -> int:
        """Fill flat arrays with the steps' rows; return the bytes that were copied. Raises CorruptShardError."""
        length = steps[0].phase.seq_len
        rows, sources, numbers = self._rows(steps)
        totals = np.array([run.tokens for run in self.runs])[sources]
        epochs, windows = np.divmod(numbers, -(-totals // length))
        counts = np.minimum(length, totals - windows * length)
        if int(counts.sum()) < len(arrays["tokens"]):
            self._pad(arrays)
        copied = 0
        for source, epoch in sorted(set(zip(sources.tolist(), epochs.tolist(), strict=True))):
            mine = np.flatnonzero((sources == source) & (epochs == epoch))
            order, run = self.orders[source], self.runs[source]
            copied += int(counts[mine].sum()) * run.width
            run.gather(
                windows[mine] * length,
                counts[mine],
                rows[mine] * length,
                arrays["tokens"],
                length,
                block=order.block,
                key=order.key(epoch),
                targets=arrays.get("targets"),
                segments=arrays.get("segments"),
                positions=arrays.get("positions"),
                mask_junctions=self.columns.mask_documents,
            )
        return copied


def _check_encodings(datasets: Mapping[str, Dataset]) -> None:
    encodings = {name: OpenRun(dataset).encoding for name, dataset in datasets.items()}
    first = next(iter(encodings))
    for name, encoding in encodings.items():
        if (encoding.tokenizer, encoding.eos) != (encodings[first].tokenizer, encodings[first].eos):
            raise UsageError(f"{first!r} and {name!r} have other tokenizers or ends of text: their ids don't mix")
