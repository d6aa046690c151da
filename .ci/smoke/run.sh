#!/bin/bash
# kept as users have it: as `make venv` installs it, and from the wheel in an environment of its own.
#   run.sh PYTHON OUT
# The wheel's environment takes the third-party packages of PYTHON by a .pth file, and kept from the
# wheel alone: a .pth file that lies in the folders named there is not read, so no editable install is.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
PYTHON=$(realpath -s "$(command -v "$1")")
rm -rf "$2" && mkdir -p "$2" && OUT=$(realpath "$2")
echo "as make venv installs it"
"$PYTHON" -P "$ROOT/.ci/smoke" "$ROOT" "$OUT/editable" --all

cd "$ROOT" && rm -rf build/lib
"$PYTHON" -m build --quiet --wheel --no-isolation --outdir "$OUT/dist"
"$PYTHON" -m venv --without-pip "$OUT/venv"
SITE=$("$OUT/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$PYTHON" -P -c 'import sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' > "$SITE/libraries.pth"
"$PYTHON" -m zipfile -e "$OUT"/dist/*.whl "$SITE"
echo "from the wheel"
"$OUT/venv/bin/python" -P "$ROOT/.ci/smoke" "$ROOT" "$OUT/wheel"
