"""The note of the version that is about to be committed: a pack that was stopped before it said its pin says it later.

DATASET/.commit is written before the commit and goes last of all, when the pin has been said and the journal is gone.
Where it names the current version, the same command has nothing to do but to say so. It holds hashes and counts only.
"""

from __future__ import annotations

import contextlib

import msgspec

from toolkit.errors import NotFoundError
from toolkit.format.names import COMMIT_NOTE
from toolkit.format.pin import MANIFEST, REPORTS
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.pack.committed import Committed
from toolkit.pack.job import PackJob
from toolkit.pack.prepare import Prepared
from toolkit.pack.slices import fingerprint
from toolkit.sources.reject import Reject
from toolkit.storage.store import WritableStore

__all__ = ["CommitNote"]

_NOTE = msgspec.json.Decoder(Committed)  # made within the import: see toolkit.format.manifest


class CommitNote:
    """The note in a dataset. Its writer holds the dataset's lock."""

    def __init__(self, store: WritableStore) -> None:
        """Look at nothing yet."""
        self._store = store

    def write(self, job: PackJob, prepared: Prepared, pin: str, *, added: int, renamed: int, rejected: int) -> None:
        """Say durably which version is about to be committed."""
        note = Committed(
            pin=pin,
            base=None if prepared.base is None else prepared.base.pin,
            job=_job_hash(job, prepared),
            input=_input_hash(prepared),
            added=added,
            renamed=renamed,
            rejected=rejected,
            passed_over=prepared.rows.survey.skipped.get("missing", 0),
        )
        self._store.write(COMMIT_NOTE, msgspec.json.encode(note))

    def current(self) -> Committed | None:
        """Return the note when the version that it names is the current one, else None."""
        try:
            data, manifest = self._store.read(COMMIT_NOTE), self._store.read(MANIFEST)
        except NotFoundError:
            return None
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            note = _NOTE.decode(data)
            return note if note.pin == sha256(manifest) else None
        return None

    def of(self, job: PackJob, prepared: Prepared) -> Committed | None:
        """Return the note when the current version is what this very job made of the input as it is now."""
        note = self.current()
        if note is None or (note.job, note.input) != (_job_hash(job, prepared), _input_hash(prepared)):
            return None
        return note if note.rejected <= job.allowed_rejects(note.added + note.rejected) else None

    def rejects(self, note: Committed) -> list[Reject]:
        """Return the rejected samples of the commit, as its report has them."""
        try:
            lines = self._store.read(f"{REPORTS}/{note.pin}.rejects.jsonl").splitlines()
        except NotFoundError:
            return []
        return [Reject(**msgspec.json.decode(line)) for line in lines]

    def remove(self) -> None:
        """Forget it."""
        if self._store.info(COMMIT_NOTE) is not None:
            self._store.delete([COMMIT_NOTE])


def _job_hash(job: PackJob, prepared: Prepared) -> str:
    return sha256(msgspec.json.encode([prepared.asked, dict(job.user_metadata)], order="sorted"))


def _input_hash(prepared: Prepared) -> str:
    schema_hash = sha256(encode_schema_table(prepared.schema))
    listed = [(part.split, part.number, fingerprint(part, schema_hash)) for part in prepared.survey.slices]
    return sha256(msgspec.json.encode([listed, sorted(prepared.survey.splits)]))
