"""`toolkit doctor`: what works here."""

from __future__ import annotations

import typer

from toolkit.cli.options import DebugOption, JsonOption
from toolkit.cli.output import print_document, print_views

__all__ = ["doctor"]


def doctor(json: JsonOption = False, debug: DebugOption = False) -> None:
    """Show versions, codecs, which PIL runs, and what is missing.

    Exit codes: 0 everything needed works; 1 something needed is broken.
    """
    from toolkit.checks.doctor import doctor as run_doctor
    from toolkit.report.doctor_view import doctor_views

    found = run_doctor()
    if json:
        print_document("toolkit.doctor/1", {"ok": found.ok, **vars(found)})
    else:
        print_views(doctor_views(found))
    if not found.ok:
        raise typer.Exit(1)
