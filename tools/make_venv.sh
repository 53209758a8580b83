#!/bin/sh
# make_venv.sh FOLDER PYTHON...: make a virtual environment with the first Python that can.
# It must be 3.11 or later and bring venv with pip, which some systems package apart from Python itself.
set -u
folder=$1
shift
bare=
for python in "$@"; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        exec "$python" -m venv "$folder"
    fi
    bare=${bare:-$python}
done
if [ -n "$bare" ]; then
    echo "$bare has no venv module. Install it (Debian and Ubuntu: apt-get install python3-venv), then run make again." >&2
else
    echo "No Python 3.11 or later among: $*. Install one (python.org, or your system's packages), then run make again." >&2
fi
exit 1
