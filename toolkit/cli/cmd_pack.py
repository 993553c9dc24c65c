"""`toolkit pack`: files that people have become a pinned dataset."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated

import typer
from typer.core import TyperCommand

from toolkit.cli.config_options import ConfigOption, SetOption
from toolkit.cli.image_options import ImageEncodingOption, ShortSideOption, VerifyImagesOption
from toolkit.cli.options import (
    DebugOption,
    JsonOption,
    ProgressOption,
    QuietOption,
    at_least,
    choice,
    envvar,
    parse_budget,
    parse_jobs,
    parse_size,
)
from toolkit.cli.output import Interrupted, note, print_document, print_line, print_views
from toolkit.cli.progress import shown_progress
from toolkit.cli.source_options import (
    ColumnsOption,
    EosOption,
    EosTokenOption,
    ExcludeOption,
    IncludeOption,
    KeyOption,
    KindOption,
    MapOption,
    MissingOption,
    RawOption,
    RenameOption,
    SourceKindOption,
    TextColumnOption,
    TokenizerOption,
    UserMetadataOption,
)
from toolkit.errors import RejectsError
from toolkit.format.encodings import KEEP, ImageEncoding
from toolkit.pack.job import DEFAULT_SHARD_BYTES, KeyConflict, OnExisting, PackJob
from toolkit.processors import processors
from toolkit.report.text import count, plain
from toolkit.sources.imagefolder import DEFAULT_SPLIT, SPLIT_FOLDERS, LabelMode, read_classes
from toolkit.sources.options import Missing, SourceKind, VerifyImages

__all__ = ["PackCommand", "pack"]

_SHOWN_NAMES = 3


class PackCommand(TyperCommand):
    """The command without hidden arguments in its usage line, which SOURCE... stands for."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the words of the usage line."""
        shown = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        return ["[OPTIONS]", *(piece for param in shown for piece in param.get_usage_pieces(ctx))]


def pack(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE...",
            help="An image folder ([SPLIT/]CLASS/IMAGE), or Parquet, TFRecord, WebDataset, text or ROXXEL02 files: "
            "files, folders, patterns or {000..099} lists.",
            show_default=False,
        ),
    ],
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Folder to make.", show_default=False)],
    # A shell expands corpus/*.jsonl: with more than two paths the last is DATASET, and all others are SOURCE.
    further: Annotated[list[str] | None, typer.Argument(metavar=" ", hidden=True)] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            envvar=envvar("--split"),
            help="Name of the split, train if not given; with split folders, the one to pack.",
        ),
    ] = None,
    shard_size: Annotated[
        int,
        typer.Option(
            "--shard-size",
            envvar=envvar("--shard-size"),
            parser=parse_size,
            metavar="SIZE",
            show_default="256MiB",
            help="Fill shards up to this: bytes, or with a unit as in 100MB, 256MiB.",
        ),
    ] = DEFAULT_SHARD_BYTES,
    label_mode: Annotated[
        str,
        typer.Option(
            "--label-mode",
            envvar=envvar("--label-mode"),
            parser=choice(LabelMode),
            metavar="auto|none|imagefolder",
            help="Labels from class folders: when there are any, never, or always.",
        ),
    ] = LabelMode.AUTO.value,
    require_labels: Annotated[
        bool,
        typer.Option(
            "--require-labels", envvar=envvar("--require-labels"), help="Refuse images that lie in no class folder."
        ),
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes", envvar=envvar("--classes"), metavar="FILE", help="Class names in id order, one a line."
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            envvar=envvar("--jobs"),
            parser=parse_jobs,
            metavar="N|auto",
            show_default="auto: the processors",
            help="Shards written at the same time; never changes the result.",
        ),
    ] = processors(),
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            envvar=envvar("--limit"),
            parser=at_least(1),
            metavar="N",
            help="At most N samples of each split.",
        ),
    ] = None,
    shuffle_seed: Annotated[
        int | None,
        typer.Option(
            "--shuffle-seed",
            envvar=envvar("--shuffle-seed"),
            parser=at_least(0),
            metavar="N",
            help="Spread the samples of each split over its shards, in an order that N decides.",
        ),
    ] = None,
    key_conflict: Annotated[
        str,
        typer.Option(
            "--key-conflict",
            envvar=envvar("--key-conflict"),
            parser=choice(KeyConflict),
            metavar="error|suffix",
            help="A sample whose key an earlier one has: refuse the input, or call it KEY#1, KEY#2, ...",
        ),
    ] = KeyConflict.ERROR.value,
    on_existing: Annotated[
        str,
        typer.Option(
            "--on-existing",
            envvar=envvar("--on-existing"),
            parser=choice(OnExisting),
            metavar="refuse|resume|overwrite|append",
            help="When DATASET is there already. A killed pack goes on where it was in any case, and resume does "
            "nothing else; overwritten versions stay readable by their pins.",
        ),
    ] = OnExisting.REFUSE.value,
    extend_classes: Annotated[
        bool,
        typer.Option(
            "--extend-classes",
            envvar=envvar("--extend-classes"),
            help="An append may bring new classes; their ids come behind the old ones.",
        ),
    ] = False,
    max_rejects: Annotated[
        float,
        typer.Option(
            "--max-rejects",
            envvar=envvar("--max-rejects"),
            parser=parse_budget,
            metavar="N|P%",
            show_default="0",
            help="Rejected samples to tolerate: a number, or a share of all as in 1%.",
        ),
    ] = 0,
    source_kind: SourceKindOption = None,
    mapping: MapOption = None,
    columns: ColumnsOption = None,
    rename: RenameOption = None,
    kinds: KindOption = None,
    key: KeyOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    missing: MissingOption = Missing.ERROR.value,
    raw: RawOption = False,
    verify_images: VerifyImagesOption = VerifyImages.HEADER.value,
    image_encoding: ImageEncodingOption = str(KEEP),
    short_side: ShortSideOption = None,
    tokenizer: TokenizerOption = None,
    text_column: TextColumnOption = None,
    eos: EosOption = False,
    eos_token: EosTokenOption = None,
    user: UserMetadataOption = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", envvar=envvar("--dry-run"), help="Say what would be packed; write nothing.")
    ] = False,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Pack SOURCE into DATASET.

    The last line on stdout is for programs: samples=600 shards=2 bytes=21087276 seconds=0.37 pin=<sha256>.
    """
    sources = [source, dataset, *(further or [])]
    dataset = sources.pop()
    job = PackJob(
        source=sources[0],
        more_sources=tuple(sources[1:]),
        dataset=dataset,
        split=split,
        shard_bytes=shard_size,
        label_mode=LabelMode(label_mode),
        require_labels=require_labels,
        classes=None if classes is None else read_classes(classes),
        jobs=jobs,
        limit=limit,
        shuffle_seed=shuffle_seed,
        key_conflict=KeyConflict(key_conflict),
        on_existing=OnExisting(on_existing),
        extend_classes=extend_classes,
        max_rejects=max_rejects,
        source_kind=None if source_kind is None else SourceKind(source_kind),
        mapping=mapping,
        columns=None if columns is None else tuple(columns),
        rename=rename or {},
        kinds=kinds or {},
        key=key,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        missing=Missing(missing),
        raw=raw,
        verify_images=VerifyImages(verify_images),
        image_encoding=ImageEncoding.parse(image_encoding),
        short_side=short_side,
        tokenizer=tokenizer,
        text_column=text_column,
        eos=eos,
        eos_token=eos_token,
        user=user or {},
    )
    if dry_run:
        _plan(job, json=json, quiet=quiet)
    else:
        _pack(job, json=json, progress=progress, quiet=quiet)


def _pack(job: PackJob, *, json: bool, progress: bool | None, quiet: bool) -> None:
    from toolkit.pack.run import pack as run_pack
    from toolkit.report.pack_view import pack_views

    before = _current_pin(job.dataset)
    try:
        with shown_progress("packing", "bytes", progress, quiet=quiet) as update:
            result = run_pack(job, lambda samples, all_samples, nbytes, all_bytes: update(nbytes, all_bytes))
    except KeyboardInterrupt as error:
        if _current_pin(job.dataset) != before:
            raise Interrupted("interrupted, after the dataset was committed") from error
        raise Interrupted("interrupted; nothing was committed. The same command goes on where it was") from error
    report = None
    if result.rejects:
        report = os.path.join(job.dataset, "reports", f"{result.pin}.rejects.jsonl")
    if not quiet:
        _note_split(job, result.splits)
        _note_class_folders(job.source, labelled=result.classes is not None)
    if json:
        document = {**asdict(result), "rejects_report": report, "options": _options(job)}
        print_document("toolkit.pack/1", document)
        return
    if not quiet:
        print_views(pack_views(result, job, report))
    print_line(
        f"samples={result.samples} shards={result.shards} bytes={result.bytes} "
        f"seconds={result.seconds:.2f} pin={result.pin}"
    )


def _plan(job: PackJob, *, json: bool, quiet: bool) -> None:
    from toolkit.pack.run import plan
    from toolkit.report.pack_view import plan_views

    planned = plan(job)
    exists = _current_pin(job.dataset) is not None
    if not quiet:
        _note_split(job, planned.splits)
        _note_class_folders(job.source, labelled=planned.classes is not None)
        if exists and job.on_existing is OnExisting.REFUSE:
            note(f"{job.dataset!r} already holds a dataset: packing would need --on-existing overwrite")
    splits = planned.splits.values()
    counts = [split.samples for split in splits]
    samples = None if None in counts else sum(number or 0 for number in counts)
    if json:
        document = {**asdict(planned), "dataset": job.dataset, "dataset_exists": exists, "options": _options(job)}
        print_document("toolkit.pack-plan/1", document)
    else:
        if not quiet:
            print_views(plan_views(planned, job))
        print_line(
            f"dry_run=true samples={'unknown' if samples is None else samples} shards={sum(s.tasks for s in splits)} "
            f"source_bytes={sum(s.bytes for s in splits)}"
        )
    allowed = job.allowed_rejects(len(planned.rejects) + sum(number or 0 for number in counts))
    if len(planned.rejects) > allowed:
        note(f"{count(len(planned.rejects), 'sample')} would be rejected, {allowed} allowed (--max-rejects)")
        raise typer.Exit(RejectsError.exit_code)


def _options(job: PackJob) -> dict[str, object]:
    return {
        "source": job.source,
        "more_sources": list(job.more_sources),
        "source_kind": None if job.source_kind is None else job.source_kind.value,
        "split": job.split,
        "shard_bytes": job.shard_bytes,
        "label_mode": job.label_mode.value,
        "require_labels": job.require_labels,
        "classes_given": job.classes is not None,
        "jobs": job.jobs,
        "limit": job.limit,
        "shuffle_seed": job.shuffle_seed,
        "key_conflict": job.key_conflict.value,
        "on_existing": job.on_existing.value,
        "extend_classes": job.extend_classes,
        "max_rejects": job.max_rejects,
        "map": job.mapping,
        "columns": job.columns,
        "rename": job.rename,
        "kind": {column: kind.value for column, kind in job.kinds.items()},
        "key": job.key,
        "include": job.include,
        "exclude": job.exclude,
        "missing": job.missing.value,
        "tfrecord_raw": job.raw,
        "verify_images": job.verify_images.value,
        "image_encoding": str(job.image_encoding),
        "short_side": job.short_side,
        "tokenizer": job.tokenizer,
        "text_column": job.text_column,
        "eos": job.eos,
        "eos_token": job.eos_token,
        "user_metadata": job.user,
    }


def _current_pin(dataset: str) -> str | None:
    """Return the pin of the dataset's current version, or None where there is none."""
    try:
        with open(os.path.join(dataset, "manifest.json"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _note_split(job: PackJob, splits: Collection[str]) -> None:
    """Say when a folder named like a split became the split train, because its own name counts for nothing."""
    name = os.path.basename(os.path.abspath(job.source))
    if job.split is None and list(splits) == [DEFAULT_SPLIT] and name in SPLIT_FOLDERS and name != DEFAULT_SPLIT:
        note(f"the samples of {name!r} became the split {DEFAULT_SPLIT!r}: give --split {name} to name it so")


def _note_class_folders(source: str, *, labelled: bool) -> None:
    """Say when folders that look like splits became classes: by their case, or by what lies beside them."""
    if not labelled or not os.path.isdir(source):
        return
    with os.scandir(source) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if set(folders) <= set(SPLIT_FOLDERS):
        return
    alike = [name for name in folders if name.lower() in SPLIT_FOLDERS]
    if not alike:
        return
    others = [name for name in folders if name.lower() not in SPLIT_FOLDERS]
    cause = f"beside {_names(others)}" if others else "split folders are written in lower case"
    note(f"{_names(alike)} became class names, not splits: {cause}. Splits are {', '.join(SPLIT_FOLDERS)}")


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(plain(name)) for name in names[:_SHOWN_NAMES])
    return f"{shown} and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else shown
