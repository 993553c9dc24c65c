"""What every step must do: a class of tests that each step's tests inherit."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed

import toolkit
from toolkit import chain, slot
from toolkit.errors import PipelineError, SampleError
from toolkit.pipelines.fields import Argument
from toolkit.pipelines.registry import STEPS
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import ValueStep

SAMPLES = 12


class StepContract:
    """A subclass names the step's word, and says how it is used; the fixture `commit_rows` is needed.

    Attributes:
        word: The word.
        arguments: All of them, but at their defaults, as they are written; a step that draws has a name= among them.
        before: The words that come before it in a slot.
        values: Twelve stored values that the step, behind those words, takes.
        bad: One that it refuses; None where there is none.
        names: What else `arguments` speaks of.
    """

    word: str
    arguments: str
    before: str = ""
    values: pa.Array
    bad: Any = None
    names: ClassVar[Mapping[str, Any]] = {}

    def slot(self, column: str = "x") -> toolkit.Slot:
        """A slot that ends with the step."""
        made: toolkit.Slot = self.read(f'slot("{column}"){self.before}.{self.word}({self.arguments})')
        return made

    @property
    def step(self) -> Step:
        """The step."""
        return self.slot().steps[-1]

    @property
    def kind(self) -> type[Step]:
        """Its class."""
        return type(self.step)

    def read(self, text: str, **names: Any) -> Any:
        """What a text means, as it is written in a program."""
        return eval(text, {"slot": slot, "chain": chain, **self.names, **names})

    @pytest.fixture
    def ds(self, commit_rows: Callable[..., str], tmp_path: Path) -> toolkit.Dataset:
        """The values, twice: in the columns x and y."""
        commit_rows(tmp_path / "ds", {"train": [[keyed({"x": self.values, "y": self.values})]]})
        return toolkit.open(tmp_path / "ds")

    def run(self, ds: toolkit.Dataset, *slots: toolkit.Slot, **options: Any) -> list[list[Any]]:
        """What each slot gives of every sample."""
        made: list[list[Any]] = [[] for _ in slots]
        with ds.loader(toolkit.pipeline(*slots), **{"batch_size": SAMPLES, "threads": 1, **options}) as loader:
            for batch in loader:
                for values, one in zip(made, slots, strict=True):
                    values += list(batch[one.name])
        return made

    def test_it_is_documented_frozen_data(self) -> None:
        kind, doc = self.kind, self.kind.__doc__ or ""
        assert STEPS[self.word] is kind
        assert kind.word == self.word
        assert doc.splitlines()[0].endswith((".", ":")), "the docstring documents the word"
        assert not doc.startswith(f"{kind.__name__}("), "this is what dataclass writes where there is none"
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert not hasattr(self.step, "__dict__"), "slots=True is missing"
        for begun in (slot("x"), chain()):
            method = getattr(begun, self.word)
            assert (method.__name__, method.__doc__) == (self.word, kind.__doc__)
            assert inspect.signature(method).parameters == kind.signature().parameters
            assert self.word in dir(begun)
        assert kind.limits <= {field.name for field in dataclasses.fields(kind)}
        assert hash(self.slot()) == hash(self.slot())
        assert pickle.loads(pickle.dumps(self.slot())) == self.slot()

    def test_it_reads_as_it_is_written(self) -> None:
        assert repr(self.slot()) == f'slot("x"){self.before}.{self.word}({self.arguments})'
        assert self.read(f"chain().{self.step.text()}").steps == (self.step,)

    def test_describe_follows_every_field_but_limits(self) -> None:
        whole, step = self.slot(), self.step

        def describe(last: Step) -> str:
            return toolkit.pipeline(replace(whole, steps=(*whole.steps[:-1], last))).describe()

        json.dumps(step.identity())  # nothing in it that another process would write otherwise
        assert describe(step) == describe(self.step) == describe(pickle.loads(pickle.dumps(step)))
        for field in dataclasses.fields(step):
            other: Any = {"fn": max, "steps": (), "branches": (), "weights": (3.0, 1.0)}.get(field.name, "other")
            changed = describe(replace(step, **{field.name: other})) != describe(step)
            assert changed == (field.name not in step.limits), field.name

    def test_arguments_out_of_bounds_are_refused_by_name(self) -> None:
        for field in dataclasses.fields(self.kind):
            argument = Argument.of(field)
            if argument is None:
                continue
            if field.default is not dataclasses.MISSING and field.name in self.kind.signature().parameters:
                given = self.kind.signature().parameters[field.name].default
                assert argument.check(field.name, given) == field.default
            least, most = argument.least, argument.most
            for value in (None if least is None else least - 1, None if most is None else most + 1, object()):
                if value is not None and value not in (float("inf"), float("-inf")):
                    with pytest.raises(PipelineError, match=rf"^chain, step {self.word}: ") as caught:
                        self._say(field.name, value)
                    words = re.findall(r"\w+", str(caught.value))
                    # The check of an argument that several fields come of may call it by its own name.
                    assert field.name in words or field.name not in self.kind.signature().parameters, caught.value

    def _say(self, name: str, value: object) -> None:
        """Say the word with a wrong value: by name where the argument is a field, else in place of all."""
        signature = self.kind.signature()
        if name in signature.parameters:
            given = self.read(f"signature.bind({self.arguments})", signature=signature)
            given.arguments[name] = value
            getattr(chain(), self.word)(*given.args, **given.kwargs)
        else:
            getattr(chain(), self.word)((value, value))

    def test_its_rule_refuses_with_a_way_out(self) -> None:
        takes_all, said = True, []
        for kind in ValueKind:
            try:
                after = self.step.after(State(kind))
            except MisfitError as error:
                takes_all = False
                said.append(str(error))
            else:
                assert isinstance(after, State)
        assert takes_all or said
        for each in said:
            assert re.match(r"(.+: )?expected .+, got .+: .+", each), each

    def test_yaml_says_it_whole(self) -> None:
        made = toolkit.pipeline(self.slot())
        if any(callable(getattr(self.step, field.name)) for field in dataclasses.fields(self.step)):
            with pytest.raises(PipelineError, match="can't be written as YAML"):
                made.to_yaml()
        else:
            assert toolkit.Pipeline.from_yaml(made.to_yaml()) == made

    def test_what_runs_in_python_gives_pixels_that_kernels_take_or_none(self, ds: toolkit.Dataset) -> None:
        (compiled,) = toolkit.pipeline(self.slot()).compile(ds.columns, ds.schema)
        output = compiled.output
        if isinstance(self.step, ValueStep) and not self.step.is_native:
            if output.kind is ValueKind.PIXELS:
                assert (output.dtype, output.layout, output.channels in (1, 3, 4)) == ("uint8", Layout.HWC, True)
            else:
                assert output.layout is None
        else:
            assert compiled.output.layout is not None or self.step.draws

    def test_it_gives_what_its_rule_says(self, ds: toolkit.Dataset) -> None:
        (compiled,) = toolkit.pipeline(self.slot()).compile(ds.columns, ds.schema)
        (made,) = self.run(ds, self.slot())
        state = compiled.output
        assert len(made) == SAMPLES
        for value in made if state.dtype is not None else []:
            assert np.asarray(value).dtype.name == ("uint16" if state.dtype == "bfloat16" else state.dtype)
            if state.shape is not None:
                assert len(np.shape(value)) == len(state.shape)
                assert all(want in (None, size) for want, size in zip(state.shape, np.shape(value), strict=True))

    def test_how_a_run_is_cut_changes_nothing(self, ds: toolkit.Dataset) -> None:
        whole = self.run(ds, self.slot())
        for options in ({"batch_size": 1}, {"batch_size": 5, "threads": 3, "prefetch": 2}):
            assert same(self.run(ds, self.slot(), **options), whole), options
        slots = [self.slot(), self.slot("y")]
        assert same(self.run(ds, *slots), [*whole, *whole]), "the same values in two columns"

    def test_only_what_draws_follows_the_seed_and_it_has_a_name(self, ds: toolkit.Dataset) -> None:
        before, step = self.slot().steps[:-1], self.step

        def run(name: str | None, **options: Any) -> list[list[Any]]:
            return self.run(ds, replace(self.slot(), steps=(*before, replace(step, name=name))), **options)

        if not step.draws:
            assert same(self.run(ds, self.slot(), seed=1), self.run(ds, self.slot()))
            return
        assert "name" in {field.name for field in dataclasses.fields(step)}, "fields.draw_name() declares it"
        drawn = [run(None), run("a"), run("b"), run("a", seed=1)]
        assert not any(same(drawn[i], drawn[j]) for i in range(4) for j in range(i))
        assert same(run("a"), drawn[1])

    def test_a_value_that_it_refuses_is_named(self, commit_rows: Callable[..., str], tmp_path: Path) -> None:
        if self.bad is None:
            return
        values = pa.array([self.values[0].as_py(), self.bad], self.values.type)
        commit_rows(tmp_path / "ds", {"train": [[keyed({"x": values})]]})
        with pytest.raises(SampleError, match=rf"slot 'x', .*{self.word}") as caught:
            self.run(toolkit.open(tmp_path / "ds"), self.slot())
        assert (caught.value.row, caught.value.slot) == (1, "x")
        assert caught.value.step.partition("(")[0] == self.word


def same(one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Whether lists of samples hold the same values."""
    return len(one) == len(other) and all(
        len(a) == len(b) and all(map(np.array_equal, a, b)) for a, b in zip(one, other, strict=True)
    )
