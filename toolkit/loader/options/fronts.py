"""Who takes which options: checks of what a front is given, its signature for help(), and what to say to others' words.

An option that a front doesn't take is answered with what to do instead, and so are the words of torch's DataLoader.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, get_type_hints

from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.loader.options.keywords import (
    BatchesKeywords,
    LoaderKeywords,
    MixedKeywords,
    MixKeywords,
    SamplesKeywords,
    StreamKeywords,
)
from toolkit.loader.options.option import Declared

__all__ = ["BATCHES", "LOADER", "MIX", "MIXED", "SAMPLES", "STREAM", "OptionsOf", "check_options"]

_Keywords = TypeVar("_Keywords")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_WIDTH = 100  # of a line of documentation

# Words of torch's DataLoader and of its samplers, and what is said here instead.
TORCH_WORDS = {
    "batch_sampler": "batch_size= and shuffle= say what a batch is",
    "collate_fn": "batches are arrays already; a batch map of the pipeline, or output=FUNCTION, makes something else",
    "drop_last": "say remainder='drop'",
    "generator": "say seed=",
    "in_order": "batches always come in order: leave it out",
    "multiprocessing_context": "threads= fill batches, and no processes: leave it out",
    "num_replicas": "say world_size=",
    "num_workers": "say threads=",
    "persistent_workers": "threads= are cheap to start: leave it out",
    "pin_memory": "output='torch' with device='cuda' copies from page-locked memory",
    "pin_memory_device": "say device=",
    "prefetch_factor": "say prefetch=, in batches, of all threads together",
    "sampler": "shuffle= gives an order, weights= draws, and ds.take(rows) is a dataset of rows in their order",
    "timeout": "python(function) has a time limit of its own; hold_timeout= is for a loop that holds batches",
    "worker_init_fn": "threads= fill batches, and no processes: leave it out",
}
_LOADERS_OWN = dict.fromkeys(
    (
        *("collate_fn", "in_order", "multiprocessing_context", "num_workers", "persistent_workers", "pin_memory"),
        *("pin_memory_device", "prefetch_factor", "timeout", "worker_init_fn"),
    ),
    "it is DataLoader's own: give it to DataLoader",
)


@dataclass(frozen=True, eq=False)
class OptionsOf(Generic[_Keywords]):
    """The options of a front.

    Attributes:
        called: What errors call it.
        keywords: The class that declares them.
        defaults: Those that differ here.
        instead: What to do about names that it doesn't take.
        otherwise: The same for all others that somebody takes; None names a front that does.
    """

    called: str
    keywords: type[_Keywords]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    otherwise: str | None = None

    @cached_property
    def options(self) -> dict[str, Declared]:
        """The options by name, in the order of their declarations."""
        sources = self.keywords.__annotations__
        hints = get_type_hints(self.keywords, include_extras=True)
        return {name: Declared.of(name, hints[name], sources[name].__forward_arg__) for name in sources}

    def default(self, name: str) -> Any:
        """Return an option's default."""
        return self.defaults.get(name, self.options[name].option.default)

    def documented(self, function: _Function) -> _Function:
        """Give a function that takes them as **options their names and defaults, and their documentation."""
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        named = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=self.default(name), annotation=declared.text
            )
            for name, declared in self.options.items()
        ]
        described: Any = function  # its __signature__ is for inspect alone
        described.__signature__ = signature.replace(parameters=[*own, *named])
        said = "".join(_paragraph(name, declared.option.doc) for name, declared in self.options.items())
        described.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n{said}"
        return function


def check_options(front: OptionsOf[_Keywords], given: _Keywords) -> _Keywords:
    """Return every option of a front, those that aren't given at their defaults.

    Raises:
        UsageError: It takes no option of that name, and the message says what to do; or the value can't be.
    """
    asked, options = cast("dict[str, Any]", given), front.options
    for name in asked:
        if name not in options:
            raise UsageError(f"{front.called} takes no {short(name, 80)}={_instead(front, name)}")
    values = {name: asked[name] if name in asked else front.default(name) for name in options}
    for name, value in asked.items():
        options[name].check(value)
    return cast("_Keywords", values)


def _instead(front: OptionsOf[Any], name: str) -> str:
    if name in front.instead:
        return f": {front.instead[name]}"
    takers = [other.called for other in _ALL if name in other.options]
    if takers or name in TORCH_WORDS:
        return f": {front.otherwise or TORCH_WORDS.get(name) or f'it is for {takers[0]}'}"
    return f".{did_you_mean(name, front.options) or ' It takes ' + ', '.join(front.options)}"


def _paragraph(name: str, doc: str) -> str:
    return textwrap.indent(textwrap.fill(f"{name}: {doc}", _WIDTH, subsequent_indent="    "), "    ") + "\n"


_WHOLE = "every token comes, or the loop raises: leave it out"
_ON_THE_CPU = "tensors are on the CPU: move each batch with batch.to(device)"
_IN_WINDOWS = {
    "collate_fn": "batches are arrays already; output=FUNCTION makes something else of one",
    "device": _ON_THE_CPU,
    "epoch_samples": "say steps= or total_steps=",
    "max_skips": _WHOLE,
    "on_error": _WHOLE,
    "pin_memory": _ON_THE_CPU,
    "pin_memory_device": _ON_THE_CPU,
    "sampler": "shuffle='block' permutes; else the order is that of the tokens",
    "timeout": "nothing of yours runs in its threads; hold_timeout= is for a loop that holds batches",
}

LOADER = OptionsOf(
    "a loader",
    LoaderKeywords,
    instead={
        "dtype": "a step of the pipeline casts a column",
        "exhausted": "epochs= and until_epoch= say how often samples come",
        "start_step": "load a state, or call set_epoch()",
        "total_steps": "say steps=, counted from the very first",
    },
)
MIXED = OptionsOf(
    "a mix's loader",
    MixedKeywords,
    instead={
        **LOADER.instead,
        "exhausted": "toolkit.mix() takes it",
        "weights": "toolkit.mix() takes those of its sources",
    },
)
STREAM = OptionsOf(
    "a token stream",
    StreamKeywords,
    defaults={"threads": 1, "prefetch": 2},  # copying tokens is quick: one thread keeps up, and a fill is 4 MiB
    instead={
        **_IN_WINDOWS,
        "exhausted": "epochs= and until_epoch= say how often tokens come",
        "weights": "toolkit.mix_tokens() weighs datasets",
    },
)
MIX = OptionsOf(
    "a mix",
    MixKeywords,
    defaults=STREAM.defaults,
    instead={
        **_IN_WINDOWS,
        "completed_phases": "all of its steps have one form, seq_len= and batch_size=",
        "drop_last": "a last step that isn't full is padded, and batch.mask says where: leave it out",
        "epochs": "bound it with until_epoch=, steps= or total_steps=",
        "group_documents": "it cuts windows: leave it out",
        "pack": "it cuts windows: leave it out",
        "phases": "all of its steps have one form, seq_len= and batch_size=",
        "remainder": "a last step that isn't full is padded, and batch.mask says where: leave it out",
    },
)
BATCHES = OptionsOf(
    "toolkit.torch.IterableDataset",
    BatchesKeywords,
    instead={
        **_LOADERS_OWN,
        "device": "tensors come on the CPU: move them in the loop",
        "epochs": "an iter() gives one epoch: call set_epoch() before each",
        "output": "batches are dicts of tensors: leave it out",
        "sharding": "its tensors are torch's, and a sharding places JAX arrays: leave it out",
    },
)
SAMPLES = OptionsOf(
    "toolkit.torch.Dataset",
    SamplesKeywords,
    instead={**_LOADERS_OWN, "generator": "say seed=, or give DataLoader its own"},
    otherwise="it gives samples one by one, and DataLoader says what a batch is: take toolkit.torch.IterableDataset "
    "for whole batches",
)
_ALL = (LOADER, MIXED, STREAM, MIX, BATCHES, SAMPLES)
