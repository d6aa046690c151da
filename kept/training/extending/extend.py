"""`extend`: the model of a run for a graph that grew.

Rows of old entities and relations stay bitwise as they are, at the numbers that these have now;
those of new ones start as `kept.training.extending.starts` says, and are listed. What is trained
stays trained: no step is taken here.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from kept import hosts
from kept.auto.saved import RUN_FILES, saved_encoder, saved_settings, saved_tokenizer
from kept.encoders import read_config
from kept.encoders.base import KnowledgeEncoder, KnowledgeModel
from kept.errors import CheckpointError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.kge.trained import SCORER
from kept.layers.rows import RowTable
from kept.model_files import EXTENDED, NEW_ROWS
from kept.model_settings import settings_text
from kept.objectives.model import KnowledgeForPreTraining
from kept.suggestions import no_such
from kept.training.extending.starts import (
    MEAN,
    STARTS,
    StartContext,
    best_first,
    has_row,
    mean_row,
    scores,
)
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.seals import is_of
from kg_loaders.disk.writing import refuse_folder, whole_folder
from kg_loaders.errors import GraphMismatchError

N_NAMED = 3


@dataclass(frozen=True)
class TableGrowth:
    """What became of one table.

    `starts` counts the new rows by how they started, `likeness` is
    `kept.training.extending.starts.scores` of its old rows (none for relations).
    """

    name: str
    of: str
    n_old: int
    n_new: int
    starts: Mapping[str, int]
    likeness: Mapping[str, float | None] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Extension:
    """The model that follows `graph`, and what is new in it.

    `new_rows` are `(entity or relation, name, start)`; `start` is "" where the method has no table.
    """

    model: KnowledgeModel
    before: KnowledgeGraph
    graph: KnowledgeGraph
    tables: tuple[TableGrowth, ...]
    new_rows: tuple[tuple[str, str, str], ...]

    def as_json(self) -> dict[str, Any]:
        """Hashes, sizes and tables; without the rows."""
        return {
            "graph_before": _hashes(self.before),
            "graph": _hashes(self.graph),
            "n_new_entities": self.graph.n_entities - self.before.n_entities,
            "n_new_relations": self.graph.n_relations - self.before.n_relations,
            "n_new_triples": self.graph.n_triples - self.before.n_triples,
            "tables": [dataclasses.asdict(table) for table in self.tables],
        }


def extend(
    run: str | Path,
    graph: KnowledgeGraph,
    *,
    before: KnowledgeGraph | None = None,
    start: str | None = None,
) -> Extension:
    """The model in the folder `run` for `graph`, which holds all that the run's graph names.

    `before` is that graph (default: where the run's configuration says). `start` names the first
    choice of `STARTS`; without it each table takes the one that guesses its old rows best. An
    entity that it has no row for takes the next best, and the mean row at last. Raises
    `CheckpointError`, `GraphMismatchError` and `ConfigError`, each with why it cannot be.
    """
    if start is not None and start not in STARTS:
        raise no_such("start", start, STARTS)
    folder = Path(run)
    settings = _require_run(folder)
    model = _model(folder)
    before = _graph_before(settings, model, folder) if before is None else before
    model.require_graph(before)
    _require_grown(before, graph)
    tokenizer = saved_tokenizer(folder)
    words = hosts.word_table(_encoder_of(model).host).weight.detach()
    new_rows = {
        "entity": torch.from_numpy(graph.entities.ids(before.entities.array).astype(np.int64)),
        "relation": torch.from_numpy(graph.relations.ids(before.relations.array).astype(np.int64)),
    }
    is_old = {
        "entity": _mask(new_rows["entity"], graph.n_entities),
        "relation": _mask(new_rows["relation"], graph.n_relations),
    }
    world = StartContext(graph, is_old["entity"], words, tokenizer)
    grown, marks = [], dict[str, NDArray[np.object_]]()
    for table in model.row_tables():
        growth, used = _grow(model, table, new_rows[table.of], is_old[table.of], world, start)
        grown.append(growth)
        marks.setdefault(table.of, used)
    model.follow(graph)
    rows = tuple(_new_rows(graph, is_old, marks))
    return Extension(model, before, graph, tuple(grown), rows)


def write_extension(
    extension: Extension,
    run: str | Path,
    kg: str | Path,
    output: str | Path,
    *,
    force: bool = False,
) -> None:
    """Write the folder of a run that was extended; all or nothing, `force` replaces such a one.

    The model, its tokenizer and its configuration, whose `kg` is now the folder `kg`, are as in any
    run. `EXTENDED` tells of this and earlier extensions, `NEW_ROWS` lists every row that no
    training has seen. Scores and logs of `run` are of the old graph and stay behind.
    """
    run, inputs = Path(run), [run, kg]
    how: Any = {"kind": "extended run", "is_kind": is_extended, "force": force, "inputs": inputs}
    with whole_folder(output, **how) as part:
        _write_settings(run, Path(kg), part)
        (part / EXTENDED).write_text(_history_json(extension, run), encoding="utf-8")
        (part / NEW_ROWS).write_text(_listed(extension, run), encoding="utf-8")
        extension.model.tokenizer = saved_tokenizer(run)
        extension.model.save_pretrained(part)
        _encoder_of(extension.model).save_trained_parts(part)


def refuse_output(output: str | Path, inputs: Sequence[str | Path], *, force: bool) -> None:
    """Raise what `write_extension` would for its folder, before the work."""
    refuse_folder(output, kind="extended run", is_kind=is_extended, force=force, inputs=inputs)


def is_extended(folder: Path) -> bool:
    """Whether `extend` made a folder."""
    return (folder / EXTENDED).is_file()


# ---- what is asked of a run ----------------------------------------------------------------------
def _require_run(folder: Path) -> dict[str, Any]:
    """The configuration of a run whose model may follow a graph; raises with a reason."""
    if is_of(folder, SCORER):
        raise CheckpointError(
            f"{folder} is a triple scorer, which knows an entity by its facts alone: train it on "
            "the new graph (kept kgc train), or take ULTRA, which follows any graph"
        )
    if (folder / "vectors.json").is_file():
        raise CheckpointError(
            f"{folder} is a run of kept vectors: words and entities share one space that is "
            f"learned together, so it cannot be extended; run it again on the new graph"
        )
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"{folder} holds no finished model (config.json); give the folder of kept pretrain or "
            "kept finetune"
        )
    settings = saved_settings(folder)
    knowledge = settings.get("knowledge", "true")
    if knowledge != "true":
        raise ConfigError(
            f"{folder} was trained with knowledge={knowledge!r}, a control, whose graph is none "
            "that grows; extend the run with the true graph"
        )
    return settings


def _model(folder: Path) -> KnowledgeModel:
    """The model with what was trained on top of its encoder."""
    config = read_config(folder)
    if not config.head and not config.objectives:
        return saved_encoder(folder)
    kind = KnowledgeForTask if config.head else KnowledgeForPreTraining
    model: KnowledgeModel = kind.from_pretrained(folder)
    model.eval()
    return model


def _encoder_of(model: KnowledgeModel) -> KnowledgeEncoder:
    encoder = model if isinstance(model, KnowledgeEncoder) else model.encoder
    assert isinstance(encoder, KnowledgeEncoder)
    return encoder


def _graph_before(
    settings: Mapping[str, Any], model: KnowledgeModel, folder: Path
) -> KnowledgeGraph:
    graph_folder = settings.get("kg")
    if not isinstance(graph_folder, str) or not (Path(graph_folder) / "manifest.json").is_file():
        raise ConfigError(
            f"the graph that {folder} was made with ({model.config.id_space_hash[:12]}) is not at "
            f"{graph_folder or '(no place is written)'}; name its folder with --before"
        )
    return KnowledgeGraph.open(graph_folder)


def _require_grown(before: KnowledgeGraph, graph: KnowledgeGraph) -> None:
    if before.content_hash == graph.content_hash:
        raise GraphMismatchError(f"{graph} is the graph that the run was made with; nothing grew")
    for what, old, new in (
        ("entities", before.entities, graph.entities),
        ("relations", before.relations, graph.relations),
    ):
        lost = np.flatnonzero(new.ids(old.array) < 0)
        if len(lost):
            names = ", ".join(old.name(int(i)) for i in lost[:N_NAMED])
            more = f" and {len(lost) - N_NAMED} more" if len(lost) > N_NAMED else ""
            raise GraphMismatchError(
                f"{graph} lacks {what} of the run's graph ({names}{more}); only graphs with "
                f"additions (kept kg add) can be used; train again for a graph that lost or "
                f"merged entities"
            )


# ---- growing -------------------------------------------------------------------------------------
def _grow(
    model: nn.Module,
    table: RowTable,
    new_rows: Tensor,
    is_old: Bool[Tensor, " node"],
    world: StartContext,
    start: str | None,
) -> tuple[TableGrowth, NDArray[np.object_]]:
    """Put the grown table into the model; the second value names the start of each new row."""
    old = model.get_parameter(table.name)
    special, n_old = table.n_special, len(new_rows)
    if len(old) != special + n_old:
        raise GraphMismatchError(
            f"{table.name} has {len(old) - special} rows and the run's graph {n_old} "
            f"{table.of} ids; it belongs to another graph; train it again"
        )
    rows = old.new_zeros(special + len(is_old), *old.shape[1:], requires_grad=False)
    likeness: dict[str, float | None] = {}
    with torch.no_grad():
        rows[:special] = old[:special]
        rows[new_rows + special] = old[special:]
        vectors = rows[special:]
        if table.of == "entity" and vectors.ndim == 1:
            used = _start_numbers(vectors, is_old)
        elif table.of == "entity":
            likeness, used = _start_entities(vectors, table, world, start)
        else:
            used = _start_relations(vectors, table, is_old, world)
    _put(model, table.name, rows, requires_grad=old.requires_grad)
    counts = dict(sorted(Counter(used.tolist()).items()))
    return TableGrowth(table.name, table.of, n_old, len(used), counts, likeness), used


def _start_entities(
    rows: Float[Tensor, "entity width"], table: RowTable, world: StartContext, start: str | None
) -> tuple[dict[str, float | None], NDArray[np.object_]]:
    """Fill the rows of new entities; how good each start is, and which each new one took."""
    in_words = table.space == "words"
    likeness = scores(rows, world, in_words=in_words)
    new = (~world.is_old).nonzero()[:, 0]
    used = np.full(len(new), MEAN, dtype=object)
    is_known = has_row(rows, world)
    rows[new] = mean_row(rows, is_known)
    waiting = torch.ones(len(new), dtype=torch.bool)
    of_new = ~world.is_old[(~is_known).nonzero()[:, 0]]
    for name in best_first(likeness, () if start is None else (start,)):
        if not waiting.any():
            break
        vectors, has_vector = STARTS[name](rows, is_known, world, in_words)
        vectors, has_vector = vectors[of_new], has_vector[of_new] & waiting
        rows[new[has_vector]] = vectors[has_vector]
        used[has_vector.numpy()] = name
        waiting &= ~has_vector
    return likeness, used


def _start_numbers(
    numbers: Float[Tensor, " entity"], is_old: Bool[Tensor, " entity"]
) -> NDArray[np.object_]:
    """Fill the numbers of new entities (a bias) with the mean of the old ones."""
    numbers[~is_old] = numbers[is_old].mean() if bool(is_old.any()) else 0.0
    return np.full(int((~is_old).sum()), MEAN, dtype=object)


def _start_relations(
    rows: Tensor, table: RowTable, is_old: Bool[Tensor, " relation"], world: StartContext
) -> NDArray[np.object_]:
    """Fill the rows of new relations: from their names in the space of words, else the mean."""
    new = (~is_old).nonzero()[:, 0]
    used = np.full(len(new), MEAN, dtype=object)
    if len(new) == 0:
        return used
    if is_old.any():
        rows[new] = rows[is_old].mean(0)
    if table.space == "words":
        names = [world.graph.relation_label(relation) for relation in new.tolist()]
        vectors, is_known = world.names(names)
        rows[new[is_known]] = vectors[is_known].to(rows)
        used[is_known.numpy()] = "names"
    return used


def _put(model: nn.Module, name: str, rows: Tensor, *, requires_grad: bool) -> None:
    module_name, _, attribute = name.rpartition(".")
    module = model.get_submodule(module_name)
    setattr(module, attribute, nn.Parameter(rows, requires_grad=requires_grad))
    if isinstance(module, nn.Embedding):
        module.num_embeddings = len(rows)
    elif isinstance(module, nn.Linear):
        module.out_features = len(rows)


def _mask(new_rows: Tensor, n: int) -> Bool[Tensor, " node"]:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[new_rows] = True
    return mask


# ---- files ---------------------------------------------------------------------------------------
def _new_rows(
    graph: KnowledgeGraph, is_old: Mapping[str, Tensor], marks: Mapping[str, NDArray[np.object_]]
) -> Iterator[tuple[str, str, str]]:
    for kind, names in (("entity", graph.entities), ("relation", graph.relations)):
        new = (~is_old[kind]).nonzero()[:, 0].numpy()
        starts = marks.get(kind, np.full(len(new), ""))
        for name, start in zip(names.array.take(new).to_pylist(), starts, strict=True):
            yield kind, name, str(start)


def _hashes(graph: KnowledgeGraph) -> dict[str, str]:
    return {"content_hash": graph.content_hash, "id_space_hash": graph.id_space_hash}


def _write_settings(run: Path, kg: Path, part: Path) -> None:
    """The run's configuration, with the new graph."""
    for name in RUN_FILES:
        if (run / name).is_file():
            values = json.loads(settings_text(run / name))
            values |= {"kg": str(kg.resolve())} if "kg" in values else {}
            (part / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _history_json(extension: Extension, run: Path) -> str:
    earlier = []
    if is_extended(run):
        earlier = json.loads(settings_text(run / EXTENDED))["extensions"]
    history = {"run": str(run.resolve()), **extension.as_json()}
    return json.dumps({"extensions": [*earlier, history]}, indent=1, ensure_ascii=False) + "\n"


def _listed(extension: Extension, run: Path) -> str:
    earlier = (run / NEW_ROWS).read_text(encoding="utf-8") if is_extended(run) else ""
    fields = ("of", "name", "start")
    rows = (dict(zip(fields, row, strict=True)) for row in extension.new_rows)
    return earlier + "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
