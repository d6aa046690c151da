"""What a training of `kept kgc train` is given, checked against the scorer that it names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from kept.errors import ConfigError
from kept.kge.kinds import SCORERS, ScorerKind
from kept.kge.options import ScorerOptions
from kept.kge.splits import Splits
from kept.kge.trained import DESCRIPTION

_RECORDED: dict[str, Any] = {
    "reciprocal": False, "epochs": None, "width": None, "norm": None, "host": None,
    "batch_size": None, "steps": None, "tokens": None, "ask": None, "weights": None, "of": (),
    "literals": False,
}  # fmt: skip
"""Options that the record of every training has, given or not: those of 0.2, whose addresses stay.

A later option is in the record of the scorers that take it.
"""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """A scorer by its `name`, the split, and the scorer's own options.

    `literals`: they are read, by an option or because the scorers of a mix read them.
    """

    name: str
    seed: int
    holdout: float
    scorer: ScorerOptions
    literals: bool = False

    @classmethod
    def of(cls, name: str, *, seed: int, holdout: float, **options_given: Any) -> Self:
        """Return checked options.

        Raises `ConfigError` for an unknown scorer and for options that it does not take; None,
        False and () are not given.
        """
        if name not in SCORERS:
            raise ConfigError(f"scorer {name!r} is unknown; take one of {', '.join(SCORERS)}")
        values = {
            key: value for key, value in options_given.items() if value not in (None, False, ())
        }
        takes = SCORERS[name].options.model_fields
        if odd := sorted(values.keys() - takes.keys()):
            flags = ", ".join(map(_flag, takes)) if takes else "no options"
            raise ConfigError(f"{name} takes no {', '.join(map(_flag, odd))}; it takes {flags}")
        try:
            options = SCORERS[name].options.model_validate(values)
        except ValidationError as error:
            faults = (f"{_flag(str(f['loc'][0]))}: {f['msg']}" for f in error.errors())
            raise ConfigError(f"{name}: {'; '.join(faults)}") from None
        literals = bool(getattr(options, "literals", False))
        return cls(name=name, seed=seed, holdout=holdout, scorer=options, literals=literals)

    @property
    def kind(self) -> ScorerKind:
        """The line of the scorer."""
        return SCORERS[self.name]

    @property
    def weights(self) -> Path | None:
        """The weights that it starts from or takes as they are, if any."""
        return getattr(self.scorer, "weights", None)

    @property
    def parts(self) -> tuple[Path, ...]:
        """Folders of the scorers of a mix."""
        return getattr(self.scorer, "of", ())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def training_fingerprint(options: TrainOptions, splits: Splits) -> dict[str, Any]:
    """All that a training's outcome depends on, by name, as JSON values."""
    about = {"scorer": options.name, "seed": options.seed, "holdout": options.holdout}
    about |= _RECORDED | options.scorer.model_dump() | {"literals": options.literals}
    if options.weights is not None:
        about["weights"] = _hash_of(options.weights)
    about["of"] = [
        hashlib.sha256((p / DESCRIPTION).read_bytes()).hexdigest() for p in options.parts
    ]
    about |= {"graph": splits.graph.content_hash, "splits": splits.splits_hash}
    return {name.replace("_", "-"): value for name, value in about.items()}


def _hash_of(weights: Path) -> str:
    """Of a file, or of all files of a run's folder that hold weights."""
    files = sorted(weights.glob("*.safetensors")) if weights.is_dir() else [weights]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
