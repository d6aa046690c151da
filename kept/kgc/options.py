"""Options of `kept kgc train`: those of every run, and those of every scorer in its table."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from kept.bounds import MAX_SEED
from kept.help_texts import SEED
from kept.kge.kinds import SCORERS
from kept.training.config import RunConfig

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class ScorerRun(RunConfig):
    """What every training of a scorer is given; a field is an option, its description the help."""

    source: Path = Field(
        description="Folder of a graph, or of a data set with train, valid and test."
    )
    output: Path = Field(description="Folder to make.", json_schema_extra={"short": "-o"})
    scorer: str = Field(
        "complex",
        description="Kind of scorer: {kept.kge.kinds:SCORERS}. rgcn, compgcn and bertmk are "
        "networks over the graph. ultra and nbfnet (paths), simkgc, dkrl, kepler and colake "
        "(texts) also answer for graphs that they were not trained on. mix is a weighted sum of "
        "trained scorers (--of). Every other one has a vector per entity.",
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description=SEED)
    holdout: float = Field(
        0.05,
        ge=0,
        le=0.5,
        description="If SOURCE has no splits: share of its triples to hold out for testing, and "
        "the same share for validation.",
    )
    checkpoint_seconds: float = Field(
        60.0, ge=0, le=86_400, description="Smallest number of seconds between two checkpoints."
    )
    force: bool = Field(False, description="Replace OUTPUT if it is a scorer.")
    settings: tuple[str, ...] = Field(
        (),
        description="An option of a scorer that a plugin adds. May be repeated.",
        json_schema_extra={"flag": "--set", "metavar": "NAME=VALUE"},
    )

    def scorer_options(self) -> dict[str, Any]:
        """Return the options that are given of the scorer itself.

        >>> KgcTrainOptions(source="kg", output="out", epochs=2).scorer_options()
        {'epochs': 2}
        """
        fields = self.model_fields_set - ScorerRun.model_fields.keys()
        values = {name: getattr(self, name) for name in sorted(fields)}
        return {name: value for name, value in values.items() if value not in (None, False, ())}


def _fields() -> dict[str, Any]:
    """Return each option of kept's scorers once, with those that take it in its description."""
    infos: dict[str, FieldInfo] = {}
    takers: dict[str, list[str]] = {}
    for name, kind in SCORERS.built_in.items():
        for field, info in kind.options.model_fields.items():
            infos.setdefault(field, copy(info))
            takers.setdefault(field, []).append(name)
    for field, info in infos.items():
        info.description = f"{info.description} For {_listed(takers[field])}."
    return {field: (info.annotation, info) for field, info in infos.items()}


def _listed(names: list[str]) -> str:
    """Return names with commas, or those that are left out where these are fewer."""
    others = [name for name in SCORERS.built_in if name not in names]
    if len(others) < len(names) - 1:
        return f"all but {', '.join(others)}"
    return ", ".join(names)


KgcTrainOptions: type[ScorerRun] = create_model("KgcTrainOptions", __base__=ScorerRun, **_fields())
"""`ScorerRun` with a field for every option of a scorer."""
