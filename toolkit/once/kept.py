"""Pack files at the first use, and open that pack at later ones, as long as the files are what they were."""

from __future__ import annotations

import os
import time

import msgspec

from toolkit.errors import ExistsError, NotFoundError
from toolkit.format.pin import MANIFEST, REPORTS, Version, resolve
from toolkit.once.origin import Files
from toolkit.options.option import options_of, take
from toolkit.pack.job import PackJob
from toolkit.pack.make import make_job
from toolkit.pack.prepare import make_shaper, shaping_options
from toolkit.pack.report import listing_hash
from toolkit.pack.run import pack
from toolkit.sources.make import make_source
from toolkit.storage.local import LocalStore
from toolkit.storage.store import WritingError

__all__ = ["kept"]

_LOOK_AGAIN = 0.1  # seconds, while another process packs


def kept(files: Files, dataset: str | os.PathLike[str]) -> Version:
    """Return the version that the files were packed to, or pack them first.

    Whoever comes while another process packs them waits, and opens what that one made.

    Raises:
        ExistsError: The folder holds something else, or the files have changed since.
        ToolkitError: As toolkit.pack().
    """
    job = make_job([*files.paths, os.fsdecode(dataset)], take(options_of(PackJob), dict(files.options)))
    store = LocalStore(job.dataset)
    while True:
        if store.info(MANIFEST) is not None:
            version = resolve(job.dataset)
            _check(version, job, files)
            return version
        try:
            pack(job)
        except WritingError:
            time.sleep(_LOOK_AGAIN)
        except ExistsError:
            if store.info(MANIFEST) is None:  # an unfinished pack of something else
                raise


def _check(version: Version, job: PackJob, files: Files) -> None:
    """Raise ExistsError unless a version is what these files would be packed to, as far as their listing tells."""
    kind, source = make_source(job.source_kind, job.source_options)
    survey = make_shaper(job, source).survey
    options = shaping_options(job, survey, kind)
    then = dict(version.manifest.options)
    differing = sorted(name for name in options.keys() | then.keys() if options.get(name) != then.get(name))
    if differing:
        name = differing[0]
        raise ExistsError(
            f"{version.root!r} was packed of something else than {files}, or with other options: {name} was "
            f"{then.get(name)!r}, now {options.get(name)!r}. {_advice(version)}"
        )
    if _listing(version) != listing_hash(survey):
        raise ExistsError(
            f"{files} isn't what {version.root!r} was packed of: files were added, removed or changed since. "
            f"{_advice(version)}"
        )


def _advice(version: Version) -> str:
    return (
        f'Pack anew, by toolkit.pack(..., {version.root!r}, on_existing="overwrite"); or open {version.root!r} itself, '
        "which is as it was"
    )


def _listing(version: Version) -> object:
    """Return the hash of the listing that a version was packed of; None where it isn't known."""
    try:
        facts = msgspec.json.decode(version.store.read(f"{REPORTS}/{version.pin}.provenance.json"))
    except (NotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return facts.get("listing") if isinstance(facts, dict) else None
