"""Make the job that options ask for, wherever they were given: flags, environment, YAML or Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

from toolkit.errors import UsageError
from toolkit.format.encodings import KEEP
from toolkit.options.value_type import expected
from toolkit.pack.job import PackJob
from toolkit.sources.registry import named

__all__ = ["job_of", "make_job", "paths_of"]

Job = TypeVar("Job", bound=PackJob)


def make_job(paths: Sequence[str], values: Mapping[str, Any], *, reads: bool = True) -> PackJob:
    """Return the job of a pack, as job_of() does."""
    return job_of(PackJob, paths, values, reads=reads)


def job_of(of: type[Job], paths: Sequence[str], values: Mapping[str, Any], *, reads: bool = True) -> Job:
    """Return the job of these options; whatever is refused of options alone is refused here.

    Args:
        of: A pack's job, or an index's.
        paths: The inputs, and behind them the dataset.
        values: Options by name, each as its type's read() gives it; None is as if it weren't given. Other names are
            ignored: a command has parameters besides.
        reads: Read the files that options name, such as that of class names; without it something stands for what is
            in them, and nothing is read at all.

    Raises:
        UsageError: Options contradict each other, or mean nothing for the kind of source.
        NotFoundError: There is no such file.
    """
    options = of.declared()
    given = {
        name: options[name].value.load(value, reads=reads)
        for name, value in values.items()
        if name in options and value is not None
    }
    job = of(source=paths[0], more_sources=tuple(paths[1:-1]), dataset=paths[-1], **given)
    # Without a kind, what some kind takes will do; a pack asks again for the kind that it finds.
    if not reads or job.source_kind is not None:
        # Late: it imports pyarrow, which `toolkit --help` does without.
        from toolkit.sources.make import check_options

        check_options(job.source_kind, job.source_options)
        _check_images(job)
    return job


def _check_images(job: PackJob) -> None:
    """Refuse to encode the images of what can't have any."""
    if job.image_encoding == KEEP:
        return
    if job.tokenizer is not None:
        raise UsageError(f"--image-encoding {job.image_encoding} means nothing with --tokenizer: leave it out")
    if job.source_kind is not None and not named(job.source_kind).has_images:
        raise UsageError(
            f"--image-encoding {job.image_encoding}: a source of kind {job.source_kind} has no images: leave it out"
        )


def paths_of(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], dataset: str | os.PathLike[str]
) -> list[str]:
    """Return the inputs, and behind them the dataset. Raises UsageError when there is no input, or one is no path."""
    given: object = source
    if isinstance(given, Set):
        raise UsageError("source is a set, whose order may be another one each time: give a list")
    if isinstance(given, str | os.PathLike):
        sources = [_path("source", given)]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping):
        sources = [_path(f"source[{number}]", one) for number, one in enumerate(given)]
    else:
        raise UsageError(f"source: {expected('a path, or a list of paths', given).message}")
    if not sources:
        raise UsageError("source is an empty list: give a folder, or files")
    return [*sources, _path("dataset", dataset)]


def _path(name: str, given: object) -> str:
    if isinstance(given, str | os.PathLike):
        return os.fsdecode(given)
    raise UsageError(f"{name}: {expected('a path', given).message}")
