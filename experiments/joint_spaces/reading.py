"""`python -m experiments.joint_spaces.reading CONFIG -o RUN`: whose vectors can be read?

Entity vectors of several sources in ERNIE and in E-BERT, where only the graph knows the answer.
What is stored in RUN is not run again; `--seed N` runs one seed, and writes no table; `--tables`
writes the table of what is there.

Axis legend: item (a person), entity, width.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

from entity_linking.annotations import write_jsonl
from entity_linking.mentions import LinkedText
from experiments.command import CELL_OPTIONS, Results, announce, run_study
from experiments.joint_spaces.trial import SHUFFLED, shuffled, trained
from kept.evaluation.paired import accuracy_counts
from kept.joint.assembly import VECTORS, JointConfig
from kept.kge.gnn.bertmk import train_bertmk
from kept.kge.gnn.recipes import train_network
from kept.kge.kinds import NETWORK_RECIPES
from kept.kge.splits import Splits
from kept.kge.training_config import BERTMKRecipe
from kept.kge.vectors import TransEVectors
from kept.lab.reading.arms import arm
from kept.lab.reading.cell import N_CURVE, SOLVED, Budget, Cell, open_host
from kept.lab.reading.measures import probe_accuracy
from kept.lab.reading.trial import Opened, ReadingTrial, accuracy, training_of
from kept.lab.reading.worlds import TASKS, PrivateWorld, Size
from kept.lab.study.cells import NONE, mean_effect, page_of
from kept.lab.study.origins import fingerprint_of, read_stored, write_stored
from kept.lab.study.tables import Table, with_interval
from kept.methods import method
from kept.randomness import torch_draws, torch_generator
from kept.tasks.datasets.example import TaskExample
from kept.training.config import RunConfig
from kept.training.finetuning.run import predict
from kept.training.loop import train
from kept.vectors import ENTITY_PREFIX, Wikipedia2VecFile
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, atlas, graph_from_records
from kg_loaders.disk.writing import write_lines

TRANSE, CHANCE = "transe", 1 / 8
STANDARDISED = ", standardised"
ROWS_ALONE = {"seeds", "strangers", "standardised"}
Reader = Literal["ernie", "ebert"]
READERS: Mapping[Reader, str] = {"ernie": "ernie-scaled", "ebert": "ebert-facts"}
"""By method, the arm of the reading controls whose settings it has; its vectors are replaced."""
CellResult = dict[str, Any]


class ReadingStudy(RunConfig):
    """`spaces` are fields of `JointConfig`, `networks` of the training of a network; `strangers`
    names for each method the source whose vectors a further row gives to other entities,
    `standardised` the sources of further rows of ERNIE (`standardise`). The outcome of a row does
    not depend on which others there are."""

    seeds: tuple[int, ...]
    steps: PositiveInt
    n_train: PositiveInt
    n_test: PositiveInt
    n_sentences: PositiveInt
    width: PositiveInt
    spaces: dict[str, dict[str, Any]]
    networks: dict[str, dict[str, Any]]
    strangers: dict[Reader, str]
    standardised: tuple[str, ...] = ()
    host: str = "minilm"
    n_layers: PositiveInt | None = 3

    @property
    def rows(self) -> list[tuple[Reader, str]]:
        """Method and source; E-BERT maps words, which spaces alone have."""
        rows: list[tuple[Reader, str]] = [
            ("ernie", name) for name in (TRANSE, *self.networks, *self.spaces)
        ]
        rows += [("ernie", f"{name}{STANDARDISED}") for name in self.standardised]
        rows += [(name, f"{source} {SHUFFLED}") for name, source in self.strangers.items()]
        return rows + [("ebert", name) for name in self.spaces]

    @property
    def origin(self) -> dict[str, str]:
        """What each row depends on."""
        return {"settings": fingerprint_of(self.model_dump(mode="json", exclude=ROWS_ALONE))}

    def cell(self, reader: Reader, seed: int) -> Cell:
        """The control and the settings of its training."""
        return Cell(
            task="occupation", arm=READERS[reader], condition="true", seed=seed,
            size=Size(n_train=self.n_train, n_test=self.n_test),
            budget=Budget(steps=self.steps, host=self.host, n_layers=self.n_layers),
        )  # fmt: skip


def run_seed(
    study: ReadingStudy, seed: int, out: Path, opened: Callable[[], Opened],
    announce: Callable[[str], None],
) -> CellResult:  # fmt: skip
    """By source, what a linear probe finds in its vectors; by row, whether each answer is right.

    Rows, and files of vectors, that are stored in `out` are not made again.
    """
    path, origin = out / f"{seed}.json", study.origin
    stored: CellResult | None = read_stored(path, origin)
    cell: CellResult = {"probe": {}, "right": {}, "steps": {}} if stored is None else stored
    world = TASKS["occupation"](study.cell("ernie", seed).size, seed)
    for reader, name in study.rows:
        row = f"{reader}: {name}"
        if row in cell["right"]:
            continue
        file = source(study, world, seed, name.removesuffix(STANDARDISED), out / str(seed))
        cell["probe"][name] = in_vectors(file, world)
        cell["right"][row], cell["steps"][row] = read(
            study, reader, seed, file, world, opened(), standardise=name.endswith(STANDARDISED)
        )
        write_stored(path, origin, cell)
        announce(
            f"seed {seed}, {row}: a probe finds {cell['probe'][name]:.3f}, it reads "
            f"{np.mean(cell['right'][row]):.3f}"
        )
    return cell


# ---- vectors ---------------------------------------------------------------
def source(study: ReadingStudy, world: PrivateWorld, seed: int, name: str, folder: Path) -> Path:
    """The file of a source's vectors, made unless it is there."""
    graph, path = world.graph, folder / f"{name}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return path
    if name.endswith(SHUFFLED):
        other_vectors = source(study, world, seed, name.removesuffix(f" {SHUFFLED}"), folder)
        write_shuffled(other_vectors, path, seed)
    elif name in study.spaces:
        kg, text = folder / "kg", folder / "texts.jsonl"
        if not text.exists():
            described(graph).save(kg, force=True)
            texts = [e.linked for e in world.train]
            texts += [LinkedText(s.text, ()) for s in atlas.sentences()[: study.n_sentences]]
            write_jsonl(texts, text)
        config = JointConfig(
            kg=kg, text=(text,), width=study.width, seed=seed, **study.spaces[name]
        )
        space, losses = trained(config, folder / name)
        space.write(folder / name, losses)
        (folder / name / VECTORS).rename(path)
    else:
        vectors = (
            TransEVectors(study.width, seed)(graph).vectors
            if name == TRANSE
            else trained_network(name, graph, width=study.width, seed=seed, **study.networks[name])
        )
        write_entities(path, graph, vectors)
    return path


def described(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph, each entity's own name as its description."""
    names = graph.entities
    records: list[Record] = [
        Triple(names.name(h), graph.relations.name(r), names.name(t))
        for h, r, t in graph.triples.tolist()
    ]
    for i in range(graph.n_entities):
        for kind in (TextKind.LABEL, TextKind.DESCRIPTION):
            records.append(Text(names.name(i), kind, graph.label(i), "en"))
    return graph_from_records(records)


def trained_network(
    name: str, graph: KnowledgeGraph, *, width: int, seed: int, **fields: Any
) -> Float[Tensor, "entity width"]:
    """The states of a network's entities, trained on all triples by its recipe; `fields`
    are those of its training."""
    recipe = NETWORK_RECIPES[name]
    config = dataclasses.replace(recipe.config, validate_every=0, patience=0, **fields)
    recipe = dataclasses.replace(recipe, config=config, width=width)
    triples = np.array(graph.triples)
    splits = Splits(graph, triples, triples[:0], triples[:0])
    draws = torch_generator(seed, "network", name)
    inputs: dict[str, Any] = {"generator": draws, "validate": lambda scorer: 0.0}
    if isinstance(recipe, BERTMKRecipe):
        return train_bertmk(splits, recipe, **inputs)[0].entities.detach()
    return train_network(splits, recipe, **inputs)[0].entities.detach()


def write_entities(path: Path, graph: KnowledgeGraph, vectors: Tensor) -> None:
    """Entities alone, in Wikipedia2Vec's text format."""

    def lines() -> Iterator[bytes]:
        yield f"{len(vectors)} {vectors.shape[1]}\n".encode()
        for i, row in enumerate(vectors.tolist()):
            yield f"{ENTITY_PREFIX}{graph.entities.name(i)} {' '.join(map(str, row))}\n".encode()

    write_lines(path, lines(), force=True)


def write_shuffled(source: Path, target: Path, seed: int) -> None:
    """The file again, each entity's vector given to another; words keep theirs."""
    first, *lines = source.read_text(encoding="utf-8").splitlines()
    keys, rows = zip(*(line.split(" ", 1) for line in lines), strict=True)
    n_words = sum(not key.startswith(ENTITY_PREFIX) for key in keys)
    order = shuffled(torch.arange(len(keys))[:, None], n_words, seed)[:, 0].tolist()
    moved = [f"{key} {rows[position]}" for key, position in zip(keys, order, strict=True)]
    write_lines(target, (f"{line}\n".encode() for line in [first, *moved]), force=True)


def in_vectors(file: Path, world: PrivateWorld) -> float:
    """The accuracy of a linear probe that is asked the vectors alone."""
    vectors = Wikipedia2VecFile(file)(world.graph).vectors
    numbers = {name: i for i, name in enumerate(world.classes)}

    def parts(examples: Sequence[TaskExample]) -> tuple[Tensor, Tensor]:
        ids = [world.graph.entities.find(e.linked.links[0].entity or "") for e in examples]
        classes = torch.tensor([numbers[e.labels[0]] for e in examples])
        return vectors[torch.tensor(ids)], classes

    return probe_accuracy(parts(world.train), parts(world.test), penalty=0.01)


# ---- reading ---------------------------------------------------------------
def read(
    study: ReadingStudy, reader: Reader, seed: int, file: Path,
    world: PrivateWorld, opened: Opened, *, standardise: bool = False,
) -> tuple[list[bool], int]:  # fmt: skip
    """Whether each answer is right after training with the vectors of `file`, and the steps."""
    cell, (host, tokenizer) = study.cell(reader, seed), opened
    chosen = arm(cell.arm)
    options: dict[str, Any] = {"vectors_from": str(file)}
    if reader == "ernie":
        options = {**chosen.options, "vectors": str(file), "standardise": standardise}
    with torch_draws(seed, "initial weights"):
        encoder = method(chosen.method).encoder.for_graph(
            host, world.graph, tokenizer, seed=seed, **options
        )
    view = {} if reader == "ernie" else {"vectors_from": str(file)}
    trial = ReadingTrial.around(encoder, cell, world, world.graph, tokenizer)
    trial = dataclasses.replace(trial, arm=dataclasses.replace(chosen, view=view))
    test, curve = trial.data(world.test), [0.0]

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        curve.append(accuracy(trial.model, test, N_CURVE))
        return {"accuracy": curve[-1]}

    with tempfile.TemporaryDirectory(prefix="kept-vectors-") as folder:
        result = train(
            trial.model, trial.data(world.train, is_training=True), training_of(cell, study.steps),
            Path(folder), evaluate=evaluate, should_stop=lambda: min(curve[-2:]) >= SOLVED,
        )  # fmt: skip
    answers = predict(trial.model, test, threshold=0.0)
    right = [a == e.labels for a, e in zip(answers, test.examples, strict=True)]
    return right, result.step


# ---- the page --------------------------------------------------------------
def page(study: ReadingStudy, seeds: Sequence[CellResult], command: str) -> str:
    """Return the page: of each source the probe of its vectors, and what each method reads."""
    names = [TRANSE, *study.networks, *study.spaces]
    names += [f"{name}{STANDARDISED}" for name in study.standardised]
    names += dict.fromkeys(f"{source} {SHUFFLED}" for source in study.strangers.values())
    about = (
        f"Accuracy on {study.n_test} people whom no training text names, 95 % intervals over "
        f"{len(seeds)} seeds and people; by chance {CHANCE:.3f}. *Probe*: a linear one of the "
        f"vectors alone, mean over seeds. Behind the semicolon: the steps of each seed, at most "
        f"{study.steps}. A cell with fewer of them was not run with all seeds; with one, its "
        "interval is over people alone."
    )
    rows = []
    for name in names:
        probes = [seed["probe"][name] for seed in seeds if name in seed["probe"]]
        cells = [_cell(seeds, f"{reader}: {name}") for reader in READERS]
        rows.append([name, f"{np.mean(probes):.3f}" if probes else NONE, *cells])
    columns = "vectors of", "probe", "ERNIE", "E-BERT"
    return page_of("Whose vectors can be read?", command, about, Table(columns, rows))


def _cell(seeds: Sequence[CellResult], row: str) -> str:
    with_row = [seed for seed in seeds if row in seed["right"]]
    if not with_row:
        return NONE
    steps = ", ".join(str(seed["steps"][row]) for seed in with_row)
    accuracy = mean_effect([accuracy_counts(seed["right"][row]) for seed in with_row])
    return f"{with_interval(accuracy)}; {steps}"


def run(study: ReadingStudy, arguments: argparse.Namespace) -> Results | None:
    """Run what is missing; return the page and what is stored, None for one seed alone."""
    budget = study.cell("ernie", 0).budget
    chosen = study.seeds if arguments.seed is None else (arguments.seed,)
    if not arguments.tables:
        for seed in chosen:
            run_seed(study, seed, arguments.out, lambda: open_host(budget), announce)
    if arguments.seed is not None:
        return None
    cells = [read_stored(arguments.out / f"{seed}.json", study.origin) for seed in chosen]
    cells = [cell for cell in cells if cell is not None]
    return page(study, cells, arguments.command), cells


if __name__ == "__main__":
    options = {name: CELL_OPTIONS[name] for name in ("--seed", "--tables")}
    run_study(__doc__, ReadingStudy, run, options, name="reading")
