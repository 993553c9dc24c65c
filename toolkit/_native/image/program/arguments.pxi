"""Checks of what a program is made with; included in program.pyx."""


def _one_of(known, name, what):
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    return known[name]


def _floats(values, count, name, default):
    values = [default] * count if values is None else [float(value) for value in values]
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise ValueError(f"{name} must be {count} finite numbers, not {values}")
    return values
