"""A mix of datasets: samples of all of them in one order by weights, through one loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Unpack, cast

from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.loader.dataset.concat import concat
from toolkit.loader.dataset.dataset import Dataset
from toolkit.loader.dataset.joined import starts
from toolkit.loader.loader import Loader, Mixed
from toolkit.loader.mix.weights import check_sources, check_weights, heated
from toolkit.loader.options.fronts import MIXED
from toolkit.loader.options.keywords import LoaderKeywords, MixedKeywords
from toolkit.loader.options.loader import LoaderOptions, MixedOptions
from toolkit.loader.order.mix import Exhausted, MixPlan
from toolkit.loader.order.mixed import MixedOrder, Ordered, Source
from toolkit.loader.order.order import Order
from toolkit.loader.outputs.batch import Sources
from toolkit.pipelines.randomness import fold_all

if TYPE_CHECKING:
    from toolkit.pipelines.pipeline import Pipeline

__all__ = ["Mix", "MixLoader", "PlannedSource", "mix"]

_MOST_ROWS = 1 << 59  # of an epoch: half of what stands for a mix without end
_KEY = 0  # of how sources are dealt: the same under every seed, so that the mix itself can be asked for counts


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """What an epoch of a mix takes of one source.

    Attributes:
        name: Its name; of a source of a mix in the mix, both names with "/" between.
        samples: How many it has.
        weight: Its weight, as it was given.
        rows: Samples that the epoch takes of it.
        epochs: How often the epoch goes through it.
    """

    name: str
    samples: int
    weight: float
    rows: int
    epochs: float


class Mix:
    """Several datasets, to be read by weights; made by toolkit.mix(). Holds no sample, and pickles.

    Attributes:
        datasets: The sources by name, in the order of their names.
        weights: A number for each.
        exhausted: "repeat", "continue" or "stop".
        dataset: All of them joined; `batch.rows` are rows of it.
    """

    def __init__(
        self, datasets: Mapping[str, Dataset | Mix], weights: Mapping[str, float], exhausted: Exhausted
    ) -> None:
        # By name: the same sources in another order are the same mix, also for states.
        self.datasets = {name: datasets[name] for name in sorted(datasets)}
        self.weights = {name: weights[name] for name in self.datasets}
        self.exhausted = exhausted.value
        self.dataset: Dataset = concat([one.dataset if isinstance(one, Mix) else one for one in self.datasets.values()])
        rows = [self._samples(name) for name in self.datasets]
        self._plan = MixPlan(rows, list(self.weights.values()), _KEY, exhausted)
        if not self.repeats and self._plan.rows > _MOST_ROWS:
            endless = listed(name for name, one in self.datasets.items() if isinstance(one, Mix) and one.repeats)
            raise UsageError(
                f"exhausted={self.exhausted!r} never comes to an end here: the sources of {endless} begin anew. Make "
                'that one with "continue" or "stop", or this one with "repeat"'
            )

    def __len__(self) -> int:
        """Samples of an epoch. Raises TypeError: the sources begin anew, and the mix has no end."""
        if self.repeats:
            raise TypeError("a mix whose sources begin anew has no length: epoch_samples= or steps= of its loader do")
        return self._plan.rows

    def __repr__(self) -> str:
        shares = listed((f"{name} ({weight:g})" for name, weight in self.weights.items()), 5)
        return f"<toolkit.Mix of {shares}, exhausted {self.exhausted}, {len(self.dataset):,} samples>"

    @property
    def repeats(self) -> bool:
        """Whether sources begin anew, so that the mix never ends."""
        return self.exhausted == Exhausted.REPEAT.value

    @MIXED.documented
    def loader(self, pipeline: Pipeline | None = None, **options: Unpack[MixedKeywords]) -> MixLoader:
        """Return a loader over the mix; `batch.source` says where each sample is from.

        `shuffle` is within each source, and `seed` keys it. toolkit.loader.options.keywords
        declares the options.

        Raises:
            UsageError, PipelineError: An option, or a slot of the pipeline, can't be; no sample is read yet.
        """
        checked = MixedOptions(cast("LoaderKeywords", options))
        samples = checked.given["epoch_samples"]
        if self.repeats and samples is None and checked.given["steps"] is None:
            raise UsageError("a mix whose sources begin anew has no end: say epoch_samples=, or steps=")
        if not self.repeats and samples is not None:
            raise UsageError(
                f'epoch_samples= is for a mix whose sources begin anew: with exhausted="{self.exhausted}" an epoch '
                f"has {self._plan.rows} samples. Leave it out"
            )
        return MixLoader(self.dataset, pipeline, checked, mixed=self._mixed(checked))

    def _mixed(self, options: LoaderOptions) -> Mixed:
        given = options.given
        samples = given["epoch_samples"] or self._plan.rows if self.repeats else None
        return Mixed(self._order(options, given["seed"], samples), tuple(self.datasets), self._sources(), self._facts())

    def plan(self, samples: int | None = None) -> list[PlannedSource]:
        """Return what an epoch takes of each source; of a mix without end, its first `samples`."""
        if samples is None and self.repeats:
            raise UsageError("a mix whose sources begin anew has no end: say how many samples to plan")
        return list(self._planned(self._plan.rows if samples is None else samples))

    def counts(self, samples: int) -> dict[str, int]:
        """Return how many of the first `samples` of an epoch come from each source."""
        if not 0 <= samples <= self._plan.rows:
            raise UsageError(f"an epoch has {self._plan.rows} samples, and no {samples}")
        return dict(zip(self.datasets, self._plan.given(samples).tolist(), strict=True))

    def _planned(self, samples: int) -> Iterator[PlannedSource]:
        for name, rows in self.counts(samples).items():
            source, size = self.datasets[name], self._samples(name)
            if isinstance(source, Mix):
                for inner in source._planned(rows):
                    yield PlannedSource(f"{name}/{inner.name}", inner.samples, inner.weight, inner.rows, inner.epochs)
            else:
                yield PlannedSource(name, size, self.weights[name], rows, rows / size)

    def _samples(self, name: str) -> int:
        source = self.datasets[name]
        return source._plan.rows if isinstance(source, Mix) else len(source)

    def _order(self, options: LoaderOptions, seed: int, samples: int | None) -> MixedOrder:
        """Return the order of epochs, of `samples` where sources begin anew; `seed` keys the orders of the sources."""
        orders: list[Ordered] = []
        taken = None if self.repeats else self._plan.given(self._plan.rows).tolist()  # of each source by an epoch
        for number, source in enumerate(self.datasets.values()):
            own = fold_all(seed, number)
            if isinstance(source, Mix):
                # Where this mix ends, one without end goes on in the next epoch where it was in this one.
                endless = source._plan.rows if taken is None else taken[number]
                orders.append(source._order(options, own, endless if source.repeats else None))
            else:
                orders.append(Order(len(source), options.shuffle, own))
        firsts = starts([self._samples_joined(source) for source in self.datasets.values()]).tolist()
        parts = [Source(order, first) for order, first in zip(orders, firsts, strict=True)]
        return MixedOrder(parts, self._plan, f"{options.shuffle.value} mix", samples)

    def _facts(self) -> dict[str, object]:
        """Return what decides how sources are dealt: a state holds it."""
        sources = [
            [name, weight, source._facts() if isinstance(source, Mix) else None]
            for (name, source), weight in zip(self.datasets.items(), self.weights.values(), strict=True)
        ]
        return {"exhausted": self.exhausted, "sources": sources}

    def _sources(self) -> Sources:
        names, rows = [], []
        for name, source in self._leaves():
            names.append(name)
            rows.append(source.stored.rows)
        return Sources(tuple(names), starts(rows))

    def _leaves(self) -> Iterator[tuple[str, Dataset]]:
        for name, source in self.datasets.items():
            if isinstance(source, Mix):
                yield from ((f"{name}/{inner}", leaf) for inner, leaf in source._leaves())
            else:
                yield name, source

    @staticmethod
    def _samples_joined(source: Dataset | Mix) -> int:
        return len(source.dataset if isinstance(source, Mix) else source)


class MixLoader(Loader):
    """A loader over a mix; made by Mix.loader()."""

    def counts(self) -> dict[str, int]:
        """Return how many samples of this epoch each source has given to the consumer, on all ranks together.

        Of a mix whose sources begin anew: of all epochs.
        """
        assert self._mixed is not None
        given = self._mixed.order.given(self._cursor.epoch, self._cursor.position)
        return dict(zip(self._mixed.names, given.tolist(), strict=True))


def mix(
    datasets: Mapping[str, Dataset | Mix],
    weights: Mapping[str, float] | None = None,
    *,
    exhausted: Literal["repeat", "continue", "stop"] = "repeat",
    temperature: float = 1.0,
) -> Mix:
    """Return a mix of datasets, or of mixes: `mix.loader(...)` reads samples of all of them in one order.

    Weights count samples. At the end of a block (4096 samples, or more where a weight is small) each source has given
    exactly its share, and anywhere in it, to two samples, its share of those so far. Which source a sample comes from
    follows from the weights and its position alone, so a state resumes with any batch size, threads and ranks.

    Args:
        datasets: Datasets or views by name, of equal columns; the same one may come under several names.
        weights: A positive number for each, at least one in 16384 of their sum. Left out: as many as each has samples.
        exhausted: What follows the last sample of a source: "repeat" begins it anew, in another order, and never ends;
            "continue" goes on with the others, their weights renormalised, until every sample came once; "stop" ends
            the epoch there.
        temperature: Weights are taken to the power of 1 / temperature: above 1 the small ones gain.

    Raises:
        UsageError: Names, weights or columns can't be; the message names them.
    """
    words = [one.value for one in Exhausted]
    if exhausted not in words:
        raise UsageError(
            f"exhausted must be one of {', '.join(words)}, got {short(exhausted, 80, quoted=True)}."
            f"{did_you_mean(exhausted, words) if isinstance(exhausted, str) else ''}"
        )
    for name, source in check_sources(datasets):
        if not isinstance(source, Dataset | Mix):
            raise UsageError(f"a mix takes datasets, and {name!r} is {short(source, 80)}: toolkit.open() it")
        if isinstance(source, Dataset) and not len(source):
            raise UsageError(f"the dataset {name!r} has no samples: leave it out")
    given = weights
    if given is None:
        given = {name: len(one.dataset if isinstance(one, Mix) else one) for name, one in datasets.items()}
    checked = check_weights(datasets, given)
    return Mix(datasets, heated(checked, temperature), Exhausted(exhausted))
