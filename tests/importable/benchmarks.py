"""The folder `benchmarks` as a package, though the checkout that holds it is on no path."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[2] / "benchmarks")]
