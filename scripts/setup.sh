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

# --- system packages: only those whose header or tool is missing (requirements/system.txt) ---------------------
is_there() {
    case $1 in
        tool:*) command -v "${1#*:}" >/dev/null ;;
        header:*) "$python" -c 'import os, sys, sysconfig; h = os.path.join(sysconfig.get_path("include"), sys.argv[1])
sys.exit(not os.path.exists(h))' "${1#*:}" ;;
        module:*) command -v pkg-config >/dev/null && pkg-config --exists "${1#*:}" ;;
    esac
}
missing=()
while read -r _ how apt _; do
    is_there "$how" || missing+=("$apt")
done < <(grep -v '^\(#\|$\)' requirements/system.txt)
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
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

# --- Python packages: pinned and hashed, not resolved, so that pillow-simd stays in pillow's place ---------------
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
stamp() { cat "$@" | sha256sum | cut -d' ' -f1; }
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"; }
packages=$(stamp requirements/dev.txt requirements/simd.txt requirements/torch.txt)
if [ "$(cat "$venv/.packages" 2>/dev/null)" != "$packages" ]; then
    say "installing Python packages (a few minutes the first time)"
    install --require-hashes -r requirements/dev.txt
    install -r requirements/torch.txt
    "$venv/bin/python" -m pip uninstall --quiet --yes pillow 2>/dev/null || true
    # Compiled anew, not taken from pip's cache: it has to fit the codecs of this machine.
    install --require-hashes --no-cache-dir --force-reinstall -r requirements/simd.txt
    echo "$packages" > "$venv/.packages"
    rm -f "$venv/.toolkit"
fi

# --- toolkit itself: compiled in place ---------------------------------------------------------------------------
sources=$(stamp pyproject.toml setup.py requirements/system.txt $(find toolkit/_native -name "*.pyx" -o -name "*.px[di]" -o -name "*.[ch]" | LC_ALL=C sort))
if [ "$(cat "$venv/.toolkit" 2>/dev/null)" != "$sources" ] || ! ls toolkit/_native/*/*.so >/dev/null 2>&1; then
    say "compiling toolkit"
    install --no-build-isolation --editable .
    echo "$sources" > "$venv/.toolkit"
fi
