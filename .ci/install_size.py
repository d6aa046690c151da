"""What `pip install kept` brings: packages, their sizes, and with --install how long it takes.

python .ci/install_size.py [EXTRA ...]                # sizes, from the packages installed here
python .ci/install_size.py --install dist/kept-*.whl [EXTRA ...]   # into a new environment
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

MEGABYTE = 1_000_000
N_SHOWN = 12


def brought(extras: set[str]) -> set[str]:
    """The packages that kept needs with these extras, and what they need in turn."""
    found, waiting = set[str](), [("kept", extras)]
    seen = set[tuple[str, str]]()
    while waiting:
        name, wanted = waiting.pop()
        for line in metadata.requires(name) or []:
            need = Requirement(line)
            values = [{"extra": extra} for extra in (wanted or {""})]
            if need.marker is not None and not any(map(need.marker.evaluate, values)):
                continue
            key = (re.sub(r"[-_.]+", "-", need.name).lower(), ",".join(sorted(need.extras)))
            if key in seen:
                continue
            seen.add(key)
            try:
                metadata.distribution(key[0])
            except metadata.PackageNotFoundError:
                continue  # for another platform, or an extra that is not installed here
            waiting.append((key[0], {*need.extras}))
            if key[0] != "kept":
                found.add(key[0])
    return found


def size_of(name: str) -> int:
    """Bytes of a package's files."""
    files = metadata.files(name) or []
    return sum(file.size or 0 for file in files)


def install(wheel: str, extras: list[str]) -> float:
    """Seconds of an install into a new environment; the files come from pip's cache or index."""
    wanted = f"{Path(wheel).resolve()}[{','.join(extras)}]" if extras else wheel
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        begun = time.monotonic()
        pip = [f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", "constraints.txt", wanted], check=True)
        return time.monotonic() - begun


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--install"]:
        print(f"installed in {install(arguments[1], arguments[2:]):.0f} s")
        arguments = arguments[2:]
    names = brought({*arguments})
    sizes = sorted(((size_of(name), name) for name in names), reverse=True)
    what = f"kept[{','.join(arguments)}]" if arguments else "kept"
    print(f"{what}: {len(names)} packages, {sum(n for n, _ in sizes) / MEGABYTE:,.0f} MB")
    for n_bytes, name in sizes[:N_SHOWN]:
        print(f"  {n_bytes / MEGABYTE:8,.1f}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
