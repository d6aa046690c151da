"""What `kept kgc train` is told, and which scorer takes which option."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kept.errors import ConfigError
from kept.kgc.completers.base import COMPLETERS
from kept.kgc.kge.splits import Splits
from kept.kgc.kge.trained import DESCRIPTION
from kept.kgc.kge.training_config import NETWORK_RECIPES, RECIPES


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What `kept kgc train` was told; None: the recipe's."""

    name: str
    seed: int
    holdout: float
    reciprocal: bool = False
    epochs: int | None = None
    width: int | None = None
    norm: int | None = None
    host: str | None = None
    batch_size: int | None = None
    steps: int | None = None
    tokens: int | None = None
    ask: int | None = None
    weights: Path | None = None
    of: tuple[Path, ...] = ()
    literals: bool = False


TEXTS = frozenset({"simkgc", "dkrl", "kepler", "colake"})
"""Scorers that read texts."""
TABLES = frozenset({"reciprocal", "epochs", "width", "norm"})
TAKES = {
    "ultra": frozenset({"epochs", "width", "batch_size", "ask", "weights"}),
    "nbfnet": frozenset({"epochs", "width", "batch_size", "ask"}),
    "mix": frozenset({"of"}),
    "simkgc": frozenset({"epochs", "host", "batch_size", "steps", "tokens", "literals"}),
    "dkrl": frozenset({"epochs", "host", "batch_size", "literals"}),
    "kepler": frozenset({"epochs", "host", "batch_size", "tokens", "ask", "weights", "literals"}),
    "colake": frozenset({"epochs", "host", "batch_size", "tokens", "ask", "literals"}),
}
"""Options of a scorer; all others take those of `TABLES`."""


def require_options(options: TrainOptions) -> None:
    """Raise `ConfigError` for an unknown scorer, and for options that are not its own."""
    known = [*RECIPES, *NETWORK_RECIPES, *COMPLETERS]
    if options.name not in known:
        raise ConfigError(f"scorer {options.name!r} is unknown; take one of {', '.join(known)}")
    takes = TAKES.get(options.name, TABLES)
    given = {
        name: value for name, value in asdict(options).items() if value not in (None, False, ())
    }
    odd = sorted(given.keys() - takes - {"name", "seed", "holdout"})
    if odd:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in odd)
        raise ConfigError(
            f"{options.name} takes no {flags}; it takes "
            + ", ".join(f"--{name.replace('_', '-')}" for name in sorted(takes))
        )


def what_decides(options: TrainOptions, splits: Splits) -> dict[str, Any]:
    """All that a training's outcome depends on, by name, as JSON values."""
    told = {"scorer": options.name} | {k: v for k, v in asdict(options).items() if k != "name"}
    if options.weights is not None:
        told["weights"] = _hash_of(options.weights)
    told["of"] = [hashlib.sha256((p / DESCRIPTION).read_bytes()).hexdigest() for p in options.of]
    told |= {"graph": splits.graph.content_hash, "splits": splits.splits_hash}
    return {name.replace("_", "-"): value for name, value in told.items()}


def _hash_of(weights: Path) -> str:
    """Of a file, or of all files of a run's folder that hold weights."""
    files = sorted(weights.glob("*.safetensors")) if weights.is_dir() else [weights]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
