#!/usr/bin/env bash
# Make .venv with everything that tests, benchmarks and the demo need. Safe to run again; quick when nothing changed.
#   scripts/setup.sh            system headers, Python packages, toolkit itself (compiled, editable)
# PYTHON names the interpreter to use (default python3); it must be 3.11 or newer.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v "$python" >/dev/null || die "$python is missing: install Python 3.11 or newer, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || die "$python is $("$python" -V 2>&1): toolkit needs Python 3.11 or newer; set PYTHON to one"

# --- system packages: only those whose header or tool is missing -----------------------------------------------
missing=()
need() { missing+=("$1"); }
command -v gcc >/dev/null || need gcc
command -v pkg-config >/dev/null || need pkg-config
has() { command -v pkg-config >/dev/null && pkg-config --exists "$1"; }
has libjpeg || need libjpeg62-turbo-dev
has zlib || need zlib1g-dev
has libwebp || need libwebp-dev
has libtiff-4 || need libtiff-dev
has lcms2 || need liblcms2-dev # colour profiles
"$python" -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' \
    || need python3-dev
if [ ${#missing[@]} -gt 0 ]; then
    install="apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null \
            || die "could not install them; run: apt-get update && $install"
    else
        die "these system packages are missing: ${missing[*]}. Run: sudo $install"
    fi
fi

# --- Python packages: pinned, not resolved, so that pillow-simd stays in pillow's place -------------------------
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
stamp() { cat "$@" | sha256sum | cut -d' ' -f1; }
packages=$(stamp requirements/dev.txt)
if [ "$(cat "$venv/.packages" 2>/dev/null)" != "$packages" ]; then
    say "installing Python packages (a few minutes the first time)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/dev.txt
    "$venv/bin/python" -m pip uninstall --quiet --yes pillow 2>/dev/null || true
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-cache-dir --force-reinstall \
        "$(grep -i '^pillow-simd==' requirements/dev.txt)"
    echo "$packages" > "$venv/.packages"
    rm -f "$venv/.toolkit"
fi

# --- toolkit itself: compiled in place ---------------------------------------------------------------------------
sources=$(stamp pyproject.toml setup.py $(ls toolkit/_native/*.pyx toolkit/_native/*.pxd toolkit/_native/*_*.c toolkit/_native/*.h | LC_ALL=C sort))
if [ "$(cat "$venv/.toolkit" 2>/dev/null)" != "$sources" ] || ! ls toolkit/_native/*.so >/dev/null 2>&1; then
    say "compiling toolkit"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    echo "$sources" > "$venv/.toolkit"
fi
