"""A trained scorer on disk: `model.safetensors` beside `model.json`, bound to one id space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor

from kept.errors import CheckpointError, ConfigError
from kept.kge.kinds import FORMULAS
from kept.kge.reciprocal import Reciprocal, make_reciprocal
from kept.kge.scorers import DistanceScorer, Scorer, make_scorer
from kept.kge.splits import Seen, Splits
from kept.model_files import readable, require_finite
from kept.values import shown_value
from kg_loaders import GraphMismatchError, KnowledgeGraph
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, is_of, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
SCORER = FolderFormat(
    kind="kept triple scorer",
    version=2,
    what="a trained scorer",
    remedy="train it again with `kept kgc train`",
    make="make one with `kept kgc train`",
    mark=WEIGHTS,
    error=CheckpointError,
    manifest=DESCRIPTION,
    takes_links=True,
)


_KINDS = {str: "a text", dict: "an object", int: "a whole number", bool: "true or false"}
_OF_A_TABLE: dict[str, type] = {
    "id_space_hash": str, "reciprocal": bool, "n_entities": int, "n_relations": int, "width": int,
}  # fmt: skip
"""What the description of a scorer with a vector for each entity says."""


@dataclass(frozen=True, eq=False)
class TrainedScorer:
    """A scorer and the record of its training."""

    scorer: Scorer
    training: dict[str, Any]


def save_scorer(
    folder: Path,
    scorer: Scorer,
    graph: KnowledgeGraph,
    training: dict[str, Any],
    *,
    force: bool = False,
) -> None:
    """Write the folder, whole or not at all; `training` is kept as JSON.

    `force` replaces a scorer that is there. CheckpointError: the scorer's tables are not of this
    graph's size. WriteError: the folder exists or cannot be written.
    """
    if (scorer.n_entities, scorer.n_relations) != (graph.n_entities, graph.n_relations):
        raise CheckpointError(
            f"the scorer has {scorer.n_entities} entities and {scorer.n_relations} relations, "
            f"{graph!r} has others"
        )
    formula = scorer.inner if isinstance(scorer, Reciprocal) else scorer
    described = {
        "scorer": FORMULAS.name_of(formula),
        "reciprocal": formula is not scorer,
        "width": scorer.width,
        "norm": formula.norm if isinstance(formula, DistanceScorer) else None,
        "n_entities": scorer.n_entities,
        "n_relations": scorer.n_relations,
        "id_space_hash": graph.id_space_hash,
        "training": training,
    }
    write_described(folder, described, scorer.state_dict(), force=force)


def write_described(
    folder: Path,
    described: dict[str, Any],
    weights: Mapping[str, Tensor],
    *,
    extra_files: Callable[[Path], list[str]] = lambda part: [],
    force: bool = False,
) -> None:
    """Write a sealed folder of `model.json` and `model.safetensors`, whole or not at all.

    `extra_files` writes further files into the folder it is given and returns their names.
    WriteError: the folder exists or cannot be written.
    """
    tensors = save({name: t.detach().cpu().contiguous() for name, t in weights.items()})
    with whole_folder(folder, **replaced(SCORER), force=force) as part:
        (part / WEIGHTS).write_bytes(tensors)
        further = sorted(extra_files(part))
        listed = {**described, "further": further} if further else described
        seal(part, SCORER, listed, [WEIGHTS, *further])


def is_scorer(folder: Path) -> bool:
    """Whether `folder` looks like one that `save_scorer` wrote."""
    return is_of(folder, SCORER)


def load_scorer(folder: Path, graph: KnowledgeGraph) -> TrainedScorer:
    """Read a folder written by `save_scorer`, for the same id space only.

    CheckpointError: missing, altered or too new. GraphMismatchError: made with another graph's ids.
    """
    described = _table_description(folder, graph)
    sizes = {name: described[name] for name in ("n_entities", "n_relations", "width")}
    make = make_reciprocal if described["reciprocal"] else make_scorer
    with readable(folder / WEIGHTS):
        weights = load((folder / WEIGHTS).read_bytes())
        n_numbers = sum(each.numel() for each in weights.values())
        if not 1 <= sizes["width"] <= n_numbers:  # before a table of that width is made
            raise ValueError(f"width {sizes['width']:,}, but {n_numbers:,} numbers in all")
        try:
            scorer: Scorer = make(
                described["scorer"], **sizes, generator=torch.Generator(), norm=described["norm"]
            )
        except ConfigError as error:
            raise CheckpointError(f"{folder / DESCRIPTION}: {error}; {SCORER.remedy}") from error
        scorer.load_state_dict(weights)
    require_finite(scorer, folder / WEIGHTS)
    return TrainedScorer(scorer, described["training"])


def mapped_entities(folder: Path, graph: KnowledgeGraph) -> Tensor:
    """The vectors of a scorer's entities `[entity width]`, read where they lie in its file.

    The system may take their memory back. Raises what `load_scorer` raises.
    """
    described, file = _table_description(folder, graph), folder / WEIGHTS
    with readable(file), safe_open(file, framework="pt") as weights:
        vectors: Tensor = weights.get_tensor("entities")
        expected = (described["n_entities"], described["width"])
        if tuple(vectors.shape) != expected:
            raise ValueError(f"entities are {tuple(vectors.shape)}, expected {expected}")
    require_finite({"entities": vectors}, file)
    return vectors


def _table_description(folder: Path, graph: KnowledgeGraph) -> dict[str, Any]:
    """The description of a scorer that keeps a vector for each entity of `graph`."""
    described = read_description(folder)
    if described["scorer"] not in FORMULAS:
        raise CheckpointError(
            f"{folder} holds {described['scorer']!r}, which reads graphs and keeps no vector of an "
            "entity; give a scorer of `kept kgc train` that does: " + ", ".join(FORMULAS)
        )
    _require_fields(folder, described, _OF_A_TABLE)
    if described["id_space_hash"] != graph.id_space_hash:
        raise GraphMismatchError(
            f"{folder} was trained with id space {described['id_space_hash'][:12]}, the given "
            f"graph has {graph.id_space_hash[:12]}; train again, or give the graph of the training"
        )
    for name in ("n_entities", "n_relations"):
        if described[name] != getattr(graph, name):
            raise CheckpointError(
                f"{folder / DESCRIPTION}: {name} is {described[name]:,}, the graph with its id "
                f"space has {getattr(graph, name):,}; {SCORER.remedy}"
            )
    return described


def check_splits(folder: Path, splits: Splits) -> None:
    """Refuse to test the scorer in `folder` on other splits than it was trained with.

    A graph with one more triple is split anew, so that most of its test set was trained on.
    GraphMismatchError: other splits. CheckpointError: `training` does not hold the `splits_hash`.
    """
    trained_with = read_description(folder)["training"].get("splits_hash")
    if trained_with is None:
        raise CheckpointError(
            f"{folder / DESCRIPTION} does not say with which splits it was trained, so that test "
            "triples may have been trained on; train again with `kept kgc train`"
        )
    if trained_with != splits.splits_hash:
        raise GraphMismatchError(
            f"{folder} was trained with splits {trained_with[:12]}, the given source has "
            f"{splits.splits_hash[:12]}: its test triples may have been trained on; train "
            f"again, or "
            "give the source of the training"
        )


def unseen_ids(splits: Splits) -> dict[str, list[int]]:
    """Ids of entities and relations in no training triple, as `training` keeps them: "unseen"."""
    seen = splits.seen
    return {
        name: np.flatnonzero(~has).tolist()
        for name, has in (("entities", seen.entities), ("relations", seen.relations))
    }


def read_seen(folder: Path, splits: Splits) -> Seen:
    """Return what the training of the scorer in `folder` saw, whatever triples the source has by
    now.

    Older folders lack it; they are taken to have seen the training split of `splits`.
    """
    unseen = read_description(folder)["training"].get("unseen")
    if unseen is None:
        return splits.seen
    all_seen = Seen(
        np.ones(splits.graph.n_entities, np.bool_), np.ones(splits.graph.n_relations, np.bool_)
    )
    all_seen.entities[unseen["entities"]] = False
    all_seen.relations[unseen["relations"]] = False
    return all_seen


def read_description(folder: Path) -> dict[str, Any]:
    """`model.json`, after its checksum and those of the files have matched."""
    sealed = open_sealed(folder, SCORER)
    sealed.require_files([WEIGHTS, *sealed.values.get("further", [])])
    sealed.remember()
    values = dict(sealed.values)
    _require_fields(folder, values, {"scorer": str, "training": dict})
    return values


def _require_fields(folder: Path, values: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    """Raise `CheckpointError` for a description without a field, or with one of another kind."""
    for name, kind in fields.items():
        if type(values.get(name)) is not kind:
            raise CheckpointError(
                f"{folder / DESCRIPTION}: {name} is {shown_value(values.get(name))}, expected "
                f"{_KINDS[kind]}; {SCORER.remedy}"
            )
