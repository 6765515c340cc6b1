#!/bin/sh
# Creates the virtual environment that the Makefile uses: make_venv.sh FOLDER
set -eu

venv=$1
python=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }

if ! command -v "$python" >/dev/null 2>&1; then
    say "$python was not found. Install Python 3.11 or newer (Debian: apt install python3), or name it: make PYTHON=..."
    exit 4
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$("$python" --version) is too old: atonc needs Python 3.11 or newer. Name another one: make PYTHON=python3.12"
    exit 4
fi

# Debian splits venv off: `import venv` works without it, `ensurepip` does not
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "python3-venv is missing: installing the Debian package"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >&2
    else
        say "Python's venv module is incomplete. Install it (Debian, Ubuntu: sudo apt install python3-venv) and repeat."
        exit 4
    fi
fi

"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv "$venv"
if ! "$venv/bin/python" -m pip install --quiet --editable '.[dev]'; then
    say "The packages could not be installed. Check the network or the package index (pip config list) and repeat."
    exit 4
fi
