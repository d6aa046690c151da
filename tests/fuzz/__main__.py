"""`python -m tests.fuzz [TARGET ...] [--seconds 60] [--seed 0]`: every target for so long.

Exits with 1 when there is a finding: an exception that is not kept's own, a crash, too much time or
memory. The files that made it stay in `.fuzz/TARGET`, to be mended and added to the corpus.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.children import with_tests
from tests.fuzz.worker import TARGETS

FINDINGS = Path(".fuzz")
GRACE_SECONDS = 300


def fuzz(
    targets: Sequence[str], place: Path, *, seconds: float, seed: str = "0", least: int = 0
) -> tuple[bool, str]:
    """Whether targets are clean, and the last that their process said."""
    options = {"seed": seed, "seconds": seconds, "least": least, "place": place}
    command = [sys.executable, "-P", "-m", "tests.fuzz.worker", *targets]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    limit = seconds * len(targets) + GRACE_SECONDS
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=with_tests()
        )
    except subprocess.TimeoutExpired as expired:
        return False, f"an example that does not end: {expired.stdout!r}"
    said = f"{ran.stdout.strip()[-4000:]} {ran.stderr.strip()[-2000:] if ran.returncode else ''}"
    return ran.returncode == 0, said if ran.returncode >= 0 else f"signal {-ran.returncode}: {said}"


def main() -> int:
    """Fuzz what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default="0")
    given = parser.parse_args()
    n_findings = 0
    for target in given.targets:
        place = FINDINGS / target
        is_clean, said = fuzz([target], place / "files", seconds=given.seconds, seed=given.seed)
        n_findings += not is_clean
        if is_clean:
            for path in sorted(place.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            place.rmdir()
        shown = said.split(":")[-1].strip() if is_clean else f"FINDING: {said}"
        sys.stdout.write(f"{target:<18}{shown}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(given.targets)} targets, {n_findings} findings\n")
    return 1 if n_findings else 0


if __name__ == "__main__":
    sys.exit(main())
