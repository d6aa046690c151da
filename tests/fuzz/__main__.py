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
    targets: Sequence[str], folder: Path, *, seconds: float, seed: str = "0", least: int = 0
) -> tuple[bool, str]:
    """Whether targets are clean, and the last that their process said."""
    options = {"seed": seed, "seconds": seconds, "least": least, "place": folder}
    command = [sys.executable, "-P", "-m", "tests.fuzz.worker", *targets]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    limit = seconds * len(targets) + GRACE_SECONDS
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=with_tests()
        )
    except subprocess.TimeoutExpired as expired:
        return False, f"an example that does not end: {expired.stdout!r}"
    message = f"{run.stdout.strip()[-4000:]} {run.stderr.strip()[-2000:] if run.returncode else ''}"
    return (
        run.returncode == 0,
        message if run.returncode >= 0 else f"signal {-run.returncode}: {message}",
    )


def main() -> int:
    """Fuzz what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default="0")
    arguments = parser.parse_args()
    n_findings = 0
    for target in arguments.targets:
        folder = FINDINGS / target
        is_clean, message = fuzz(
            [target], folder / "files", seconds=arguments.seconds, seed=arguments.seed
        )
        n_findings += not is_clean
        if is_clean:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            folder.rmdir()
        summary = message.split(":")[-1].strip() if is_clean else f"FINDING: {message}"
        sys.stdout.write(f"{target:<18}{summary}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(arguments.targets)} targets, {n_findings} findings\n")
    return 1 if n_findings else 0


if __name__ == "__main__":
    sys.exit(main())
