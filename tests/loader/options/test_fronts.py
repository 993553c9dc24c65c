"""All fronts take their options alike: the same checks in the same words, and an answer to names that aren't theirs."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

import toolkit
from toolkit.errors import NotFoundError, UsageError
from toolkit.loader.mix.tokens import mix_tokens
from toolkit.loader.options import fronts as module
from toolkit.loader.options.fronts import BATCHES, LOADER, MIX, SAMPLES, STREAM, TORCH_WORDS, OptionsOf
from toolkit.loader.options.loader import OnError
from toolkit.loader.order.cut import Remainder
from toolkit.loader.order.mix import Exhausted
from toolkit.loader.order.order import Shuffle
from toolkit.loader.tokens import options as tokens_options

ALL = {front.called: front for front in (LOADER, STREAM, MIX, BATCHES, SAMPLES)}
HUGE = 10**5000  # has no text: Python refuses to write so many digits

WRONG: list[tuple[str, Any, str]] = [
    ("batch_size", 0, "batch_size must be an int of at least 1, got 0"),
    ("batch_size", 4.0, "batch_size must be an int of at least 1, got 4.0"),
    ("global_batch_size", True, "global_batch_size must be an int of at least 1, got True"),
    ("seed", "x", "seed must be an int, got 'x'"),
    ("seed", True, "seed must be an int, got True"),
    ("epochs", 0, "epochs must be an int of at least 1, got 0"),
    ("until_epoch", 0, "until_epoch must be an int of at least 1, got 0"),
    ("steps", 2.5, "steps must be an int of at least 1, got 2.5"),
    ("threads", -1, "threads must be an int of at least 0 or 'auto', got -1"),
    ("threads", "all", "threads must be an int of at least 0 or 'auto', got 'all'"),
    ("threads", "atuo", "threads must be an int of at least 0 or 'auto', got 'atuo'. Did you mean 'auto'?"),
    ("prefetch", None, "prefetch must be an int of at least 0, got None"),
    ("rank", -1, "rank must be an int of at least 0, got -1"),
    ("world_size", 0, "world_size must be an int of at least 1, got 0"),
    ("max_bytes", 1.5, "max_bytes must be a number of bytes or text as in '512MiB', got 1.5"),
    ("max_bytes", 0, "max_bytes must be at least 1, got 0"),
    ("max_bytes", "8M", "'8M' can mean two sizes"),
    ("max_bytes", -1, "max_bytes must be at least 1, got -1"),
    ("max_bytes", 10**30, "max_bytes must be a number of bytes below 2**63, got 1000"),
    ("max_bytes", "ful", "max_bytes: 'ful' is not a size"),
    ("max_bytes", "", "max_bytes: '' is not a size"),
    ("max_bytes", HUGE, "max_bytes must be a number of bytes below 2**63, got a int that can't be shown"),
    ("batch_size", HUGE, "batch_size must be an int of at least 1, below 2**63, got a int"),
    ("rank", HUGE, "rank must be an int of at least 0, below 2**63, got a int"),
    ("world_size", HUGE, "world_size must be an int of at least 1, below 2**63, got a int"),
    ("seq_len", HUGE, "seq_len must be an int of at least 1, below 2**63, got a int"),
    ("pad_id", HUGE, "pad_id must be an int of at least 0, below 2**63, got a int"),
    ("hold_timeout", HUGE, "hold_timeout must be a number above 0, got a int"),
    ("output", HUGE, "output must be one of numpy, torch, jax, got a int"),
    ("device", HUGE, "is "),
    ("dtype", HUGE, "dtype must be one of int32, int64, uint16, uint32, got a int"),
    ("phases", HUGE, "phases must be a list of (steps, batch_size, seq_len), got a int"),
    ("phases", [(HUGE, 1, 1)], "phases must be (steps, batch_size, seq_len) each, ints"),
    ("completed_phases", [(HUGE, 1, 1)], "completed_phases must be (steps, batch_size, seq_len) each, ints"),
    ("sharding", 5, "sharding must be a NamedSharding, or a mapping of one for each column, got 5"),
    ("weights", "x" * 5000, "weights must be an array or 'balanced', got 'xxx"),
    ("hold_timeout", 0, "hold_timeout must be a number above 0, got 0"),
    ("hold_timeout", float("nan"), "hold_timeout must be a number above 0, got nan"),
    ("hold_timeout", "1", "hold_timeout must be a number above 0, got '1'"),
    ("verify", "allways", "verify must be one of touch, always, got 'allways'. Did you mean 'always'?"),
    ("output", "pytorch", "output must be one of numpy, torch, jax, got 'pytorch'. Did you mean 'torch'?"),
    ("output", 3, "output must be one of numpy, torch, jax, got 3."),
    ("shuffle", True, "got True. Say shuffle="),
    ("shuffle", np.bool_(True), "shuffle must be one of none, "),
    ("shuffle", "blok", "got 'blok'. Did you mean 'block'?"),
    ("remainder", "padd", "got 'padd'. Did you mean 'pad'?"),
    ("weights", "equal", "weights must be an array or 'balanced', got 'equal'"),
    ("on_error", "skp", "on_error must be one of raise, skip, got 'skp'. Did you mean 'skip'?"),
    ("max_skips", -1, "max_skips must be an int of at least 0, got -1"),
    ("targets", "no", "targets must be True or False, got 'no'"),
    ("documents", 1, "documents must be True or False, got 1"),
    ("dtype", "float32", "dtype must be one of int32, int64, uint16, uint32, got 'float32'"),
    ("dtype", "nothing", "dtype must be one of int32, int64, uint16, uint32, got 'nothing'"),
    ("dtype", ">i4", "dtype must be in this machine's byte order, got '>i4': 'int32'"),
    ("phases", [3], "phases must be (steps, batch_size, seq_len) each, ints of at least 1, got 3 as number 0"),
    ("phases", 3, "phases must be a list of (steps, batch_size, seq_len), got 3"),
    ("completed_phases", [(1, 2, 0)], "completed_phases must be (steps, batch_size, seq_len) each"),
    ("pack", "worst", "pack must be one of best, first, got 'worst'"),
    ("tokenizer", 7, "tokenizer must be a str or a PathLike, got 7"),
    ("exhausted", "drop", "exhausted must be one of repeat, continue, stop, got 'drop'"),
    ("seq_len", 0, "seq_len must be an int of at least 1, got 0"),
    ("pad_id", 10**12, "pad_id 1000000000000 doesn't fit int32"),
    ("start_step", -1, "start_step must be an int of at least 0, got -1"),
    ("block_size", 3, "block_size must be an int of at least 16, got 3"),
]


@pytest.mark.parametrize(
    ("name", "value", "says"), WRONG, ids=[f"{place}-{name}" for place, (name, *_) in enumerate(WRONG)]
)
def test_a_wrong_value_is_refused_in_the_same_words_everywhere(
    fronts: dict[str, Callable[..., Any]], name: str, value: Any, says: str
) -> None:
    takers = [called for called, front in ALL.items() if name in front.options]
    assert takers
    for called in takers:
        with pytest.raises(UsageError) as caught:
            fronts[called](**{name: value})
        assert says in str(caught.value)


def test_a_tokenizer_that_is_not_there_is_the_options(fronts: dict[str, Callable[..., Any]]) -> None:
    for called in ("a token stream", "a mix"):
        with pytest.raises(NotFoundError, match=r"^tokenizer: no tokenizer file at 'nowhere"):
            fronts[called](tokenizer="nowhere.json")


def test_options_that_some_refused_mean_the_same_everywhere(fronts: dict[str, Callable[..., Any]]) -> None:
    for front in (front for called, front in fronts.items() if called != "toolkit.torch.Dataset"):
        wanted = [list(map(repr, batch.values())) for batch in front()]
        for options in ({"threads": 0}, {"threads": "auto"}, {"threads": 2, "prefetch": 0}, {"verify": "always"}):
            assert [list(map(repr, batch.values())) for batch in front(**options)] == wanted, options


def test_ranks_are_the_launchers_everywhere(
    fronts: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under torchrun a stream that nobody told its rank gave every rank the same tokens."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("a token stream", "a mix"):
        said = [batch["tokens"].tolist() for batch in fronts[name](rank=1, world_size=2)]
        assert [batch["tokens"].tolist() for batch in fronts[name]()] == said
        assert [batch["tokens"].tolist() for batch in fronts[name](rank=0, world_size=2)] != said
    loader = fronts["a loader"](remainder="pad")
    assert (loader.cut.rank, loader.cut.world_size) == (1, 2)
    for name in ("a loader", "a token stream", "a mix", "toolkit.torch.IterableDataset"):
        with pytest.raises(UsageError, match="give both, or none"):
            fronts[name](rank=1)
        with pytest.raises(UsageError, match="rank 2 of a world of 2: ranks count from 0"):
            fronts[name](rank=2, world_size=2)


@pytest.mark.parametrize(
    ("name", "front", "says"),
    [
        ("batchsize", "a loader", "a loader takes no batchsize=. Did you mean 'batch_size'?"),
        ("bacth_size", "a mix", "a mix takes no bacth_size=. Did you mean 'batch_size'?"),
        ("zzz", "toolkit.torch.Dataset", "toolkit.torch.Dataset takes no zzz=. It takes seed, verify"),
        ("drop_last", "a loader", "a loader takes no drop_last=: say remainder='drop'"),
        ("drop_last", "a token stream", "a token stream takes no drop_last=: say remainder='drop'"),
        ("drop_last", "toolkit.torch.IterableDataset", "takes no drop_last=: say remainder='drop'"),
        ("num_workers", "a loader", "a loader takes no num_workers=: say threads="),
        ("num_workers", "toolkit.torch.IterableDataset", "it is DataLoader's own: give it to DataLoader"),
        ("num_workers", "toolkit.torch.Dataset", "it is DataLoader's own: give it to DataLoader"),
        ("prefetch_factor", "a token stream", "say prefetch="),
        ("sampler", "a loader", "shuffle= gives an order"),
        ("sampler", "toolkit.torch.Dataset", "DataLoader says what a batch is"),
        ("device", "a token stream", "a token stream takes no device=: tensors are on the CPU: move each batch with"),
        ("tail", "a token stream", "a token stream takes no tail=. It takes seed"),
        ("on_error", "a mix", "a mix takes no on_error=: every token comes, or the loop raises"),
        ("seq_len", "a loader", "a loader takes no seq_len=: it is for a token stream"),
        ("epochs", "a mix", "a mix takes no epochs=: bound it with until_epoch="),
        ("epochs", "toolkit.torch.IterableDataset", "an iter() gives one epoch: call set_epoch()"),
        ("batch_size", "toolkit.torch.Dataset", "it gives samples one by one, and DataLoader says what a batch is"),
    ],
)
def test_a_name_that_is_not_taken_is_answered(
    fronts: dict[str, Callable[..., Any]], name: str, front: str, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fronts[front](**{name: 1})
    assert says in str(caught.value)


@pytest.mark.parametrize("front", ALL.values(), ids=ALL)
def test_answers_name_what_the_front_takes(front: OptionsOf[Any]) -> None:
    others = {name for other in ALL.values() for name in other.options} | TORCH_WORDS.keys() | front.instead.keys()
    for name in sorted(others - front.options.keys()):
        answer = module._instead(front, name)
        assert answer[0] == ":", name
        for said in re.findall(r"(\w+)=", answer):
            assert said in {*front.options, "columns"}, f"{front.called} is told to say {said}= in place of {name}="


@pytest.mark.parametrize("front", ALL.values(), ids=ALL)
def test_defaults_pass_their_own_checks_and_options_are_documented(front: OptionsOf[Any]) -> None:
    for name, declared in front.options.items():
        declared.check(front.default(name))
        assert declared.option.doc.endswith("."), name
        assert declared.text, name
    assert front.defaults.keys() <= front.options.keys()


ENUMS: list[tuple[OptionsOf[Any], str, type[enum.Enum]]] = [
    (LOADER, "shuffle", Shuffle),
    (LOADER, "remainder", Remainder),
    (LOADER, "on_error", OnError),
    (STREAM, "shuffle", tokens_options.Shuffle),
    (STREAM, "pack", tokens_options.Fit),
    (MIX, "exhausted", Exhausted),
]


@pytest.mark.parametrize(("front", "name", "members"), ENUMS)
def test_words_are_those_of_the_code_that_obeys(front: OptionsOf[Any], name: str, members: type[enum.Enum]) -> None:
    words = [word for kind in front.options[name].types if get_origin(kind) is Literal for word in get_args(kind)]
    assert sorted(words) == sorted(member.value for member in members)


def test_help_and_signatures_have_every_option() -> None:
    torch = pytest.importorskip("toolkit.torch")
    calls = {
        LOADER: toolkit.Dataset.loader,
        STREAM: toolkit.Dataset.tokens,
        MIX: mix_tokens,
        BATCHES: torch.IterableDataset.__init__,
        SAMPLES: torch.Dataset.__init__,
    }
    for front, call in ((front, calls[front]) for front in calls):
        parameters = inspect.signature(call).parameters
        for name, declared in front.options.items():
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[name].default == front.default(name)
            assert f"\n    {name}: " in (inspect.getdoc(call) or "")
            assert declared.text == parameters[name].annotation
        assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    loader = inspect.signature(toolkit.Dataset.loader)
    assert str(loader.parameters["threads"]) == "threads: \"int | Literal['auto']\" = 'auto'"
    assert inspect.signature(toolkit.Dataset.tokens).parameters["threads"].default == 1


def test_options_are_kept_as_they_were_checked(packed: Path) -> None:
    options = {"batch_size": 4, "shuffle": "full"}
    loader = toolkit.open(packed, split="val", columns=["label"]).loader(**options)
    assert options == {"batch_size": 4, "shuffle": "full"}
    assert loader.options.given["shuffle"] == "full"
    assert loader.options.given["prefetch"] == 4
