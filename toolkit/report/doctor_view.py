"""What toolkit finds on a machine, as a table for a terminal."""

from __future__ import annotations

from toolkit.checks.doctor import Component, Environment
from toolkit.report.tables import View, table
from toolkit.report.text import size_text

__all__ = ["doctor_views"]


def doctor_views(found: Environment) -> list[View]:
    """Return a line for each component, and what to do about those that aren't as they should be."""
    rows = [[one.name, one.version or "-", _state(one), one.detail] for one in found.components]
    views: list[View] = [
        f"toolkit {found.toolkit}, Python {found.python}, {found.platform}",
        f"{found.processor}: {found.processors_usable} of {found.processors} processors usable",
        f"memory: {_memory(found)}",
        "",
        table(["component", "version", "state", "detail"], rows),
    ]
    if found.plugins:
        plugins = [[one.kind, one.name, one.package, "ok" if one.ok else "broken", one.target] for one in found.plugins]
        views += ["", table(["plugin", "name", "package", "state", "entry point"], plugins)]
    fixes = [f"{one.name}: {one.fix}" for one in found.components if one.fix]
    fixes += [f"plugin: {one.fault}" for one in found.plugins if not one.ok]
    if fixes:
        views += ["", *fixes]
    return [*views, "", "everything needed works" if found.ok else "something needed is broken: see above"]


def _state(component: Component) -> str:
    if component.ok:
        return "ok"
    return "broken" if component.needed else "optional"


def _memory(found: Environment) -> str:
    parts = [
        f"{size_text(value)} {what}".strip()
        for value, what in (
            (found.memory_bytes, ""),
            (found.memory_available_bytes, "available"),
            (found.memory_limit_bytes, f"limit ({found.memory_limit_source})"),
        )
        if value is not None
    ]
    return ", ".join(parts) or "unknown"
