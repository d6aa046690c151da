"""`python -m experiments ebert CONFIG -o RUN`: train E-BERT's linking head, link, score as AIDA.

Needs KEPT_DATA; what is stored in RUN is not run again.

Axis legend: seed, text, count.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from entity_linking.annotations import write_jsonl
from entity_linking.annotations.aida import Span
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText
from experiments.command import CELL_OPTIONS, Results, data_root, run_cells, run_study
from experiments.joint_spaces.reading import write_shuffled
from experiments.joint_spaces.trial import trained
from experiments.wk_completion.data import RelationData, read_world
from kept.batches import N_SPECIAL_ROWS
from kept.encoders.ebert import EBERT
from kept.evaluation.paired import Counts, f1_value
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, EBERTView
from kept.heads.model import KnowledgeForTask
from kept.joint.assembly import VECTORS, JointConfig
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.cells import CellTrial, mean_effect, page_of, paired_effects
from kept.lab.study.origins import Origin, fingerprint_of
from kept.lab.study.tables import Table, with_interval
from kept.randomness import generator, torch_draws
from kept.tasks.datasets.public_files import table
from kept.tasks.kinds import LINKING, SCORE
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.linking.decoding import EBERTLinker
from kept.training.finetuning.linking.questions import CandidateData, questions_of
from kept.training.loop import train
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

NAMES = "names"
"""The row without a model: the best prior of the graph's names."""
SpanCounts = list[list[int]]
"""Of each text: right, predicted and gold links."""


class LinkingRow(BaseModel):
    """`vectors`: of the joint space, of another entity there, or the mean of a label's pieces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    says: str
    vectors: Literal["joint", "others", "labels"]


class LinkingStudy(RunConfig):
    """Sizes, training, and rows; `space` are fields of `JointConfig`."""

    host: str
    n_layers: PositiveInt | None
    seeds: tuple[int, ...]
    n_train: PositiveInt
    n_asked: PositiveInt
    steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat
    head_rate: PositiveFloat
    max_words: PositiveInt
    n_rounds: PositiveInt
    space: dict[str, Any]
    rows: dict[str, LinkingRow]
    differences: tuple[tuple[str, str], ...]

    @property
    def builder(self) -> BuilderConfig:
        """How texts become graphs: words, and linked entities in the place of theirs."""
        return BuilderConfig(max_words=self.max_words, max_nodes=2 * self.max_words, **WORDS_ONLY)

    def training(self, seed: int) -> TrainConfig:
        """How a row is trained."""
        return TrainConfig(
            seed=seed, steps=self.steps, batch_size=self.batch_size, learning_rate=self.head_rate,
            host_learning_rate=self.learning_rate, warmup_steps=self.steps // 10, device="cpu",
            threads=1, gradient_norms_every=None, checkpoint_seconds=None, keep=1,
        )  # fmt: skip


class Data:
    """The graph with aliases, and gold and proposed links of training and evaluation texts."""

    def __init__(self, study: LinkingStudy, world: RelationData, aliases: Sequence[Text]) -> None:
        self.graph = with_aliases(world.graph, aliases)
        gold = by_text(world)
        order = generator(0, "texts of linking").permutation(len(gold)).tolist()
        n = study.n_train
        self.train = [gold[i] for i in order[:n]]
        self.questions = [gold[i] for i in order[n : n + study.n_asked]]
        linker = DictionaryLinker(self.graph)
        self.proposed = linker.link([text.text for text in self.train])
        self.to_link = linker.link([text.text for text in self.questions])

    @property
    def fingerprint(self) -> str:
        """Of the graph and all links."""
        parts = (self.train, self.questions, self.proposed, self.to_link)
        return fingerprint_of(self.graph.content_hash, repr(parts))


def with_aliases(graph: KnowledgeGraph, aliases: Sequence[Text]) -> KnowledgeGraph:
    """The graph with further names of its entities, so that a name may mean several."""
    names = graph.entities
    labels = [Text(names.name(i), TextKind.LABEL, graph.label(i), "en") for i in range(len(names))]
    values = [alias for alias in aliases if alias.node in names and len(alias.value) > 2]
    relations = graph.relations
    triples = [
        Triple(names.name(h), relations.name(r), names.name(t))
        for h, r, t in graph.triples.tolist()
    ]
    return graph_from_records([*triples, *labels, *values])


def by_text(world: RelationData) -> list[LinkedText]:
    """T-REx's sentences, each once, with the links of all facts that it states."""
    links: dict[str, dict[Any, Any]] = {}
    for example in world.examples:
        of_text = links.setdefault(example.linked.text, {})
        for link in example.linked.links:
            if link.entity is not None:
                of_text.setdefault(link.mention, link)
    return [
        LinkedText(text, tuple(of_text[mention] for mention in sorted(of_text)))
        for text, of_text in links.items()
    ]


def space_vectors(config: JointConfig, folder: Path, *, others: bool) -> Path:
    """Return the file of a space's vectors, trained unless it is there.

    `others`: each entity has the vector of another.
    """
    vectors, shuffled = folder / VECTORS, folder / "others.txt"
    if not vectors.exists():
        folder.mkdir(parents=True, exist_ok=True)
        space, losses = trained(config, folder)
        space.write(folder, losses)
    if others and not shuffled.exists():
        write_shuffled(vectors, shuffled, config.seed)
    return shuffled if others else vectors


def spans_of(text: LinkedText) -> list[Span]:
    """First word, last word and entity of each link, as AIDA's form has them."""
    starts = [0, *(i + 1 for i, letter in enumerate(text.text) if letter == " ")]
    return [
        (sum(s <= k.mention.start for s in starts) - 1, sum(s < k.mention.end for s in starts) - 1,
         k.entity)
        for k in text.links
        if k.entity is not None
    ]  # fmt: skip


def counts_of(gold: Sequence[LinkedText], linked_texts: Sequence[LinkedText]) -> SpanCounts:
    """Of each text: right, predicted and gold spans."""
    counts = []
    for right, linked in zip(gold, linked_texts, strict=True):
        one, other = set(spans_of(right)), set(spans_of(linked))
        counts.append([len(one & other), len(other), len(one)])
    return counts


@dataclass(frozen=True)
class LinkingTrial(CellTrial):
    """The rows of the study on `data`, and the row of the names' best prior."""

    study: LinkingStudy
    data: Data
    folder: Path

    @property
    def rows(self) -> Sequence[str]:
        """The prior, then the rows of the file."""
        return [NAMES, *self.study.rows]

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.study.seeds[:1] if row == NAMES else self.study.seeds

    def origin(self, row: str, seed: int) -> Origin:
        """See `CellTrial.origin`."""
        vectors = None if row == NAMES else self.study.rows[row].vectors
        shared = self.study.model_dump(mode="json", exclude={"rows", "seeds", "differences"})
        return {"settings": fingerprint_of(shared, vectors), "data": self.data.fingerprint}

    def run(self, row: str, seed: int) -> SpanCounts:
        """Return the counts of the evaluation texts as a row links them."""
        linked = self.data.to_link if row == NAMES else self._linked(row, seed)
        return counts_of(self.data.questions, linked)

    def summary(self, row: str, seed: int, cell: SpanCounts) -> str:
        """See `CellTrial.summary`."""
        right, predicted, gold = np.array(cell).sum(0).tolist()
        return f"seed {seed}, {row}: {right} right of {predicted}, {gold} gold"

    def _vectors(self, row: str, seed: int) -> Path | None:
        """Return the file of a row's vectors; None for those of labels."""
        kind, out = self.study.rows[row].vectors, self.folder
        if kind == "labels":
            return None
        if not (out / "kg").exists():
            self.data.graph.save(out / "kg")
            write_jsonl(self.data.train, out / "train.jsonl", force=True)
        text = (out / "train.jsonl",)
        config = JointConfig(kg=out / "kg", text=text, seed=seed, **self.study.space)
        return space_vectors(config, out / "spaces" / str(seed), others=kind == "others")

    def _linked(self, row: str, seed: int) -> list[LinkedText]:
        """Return the evaluation texts linked by E-BERT, trained on those of training."""
        study, data, file = self.study, self.data, self._vectors(row, seed)
        source: dict[str, Any] = {} if file is None else {"vectors_from": str(file)}
        host, tokenizer = open_host(Budget(host=study.host, n_layers=study.n_layers))
        with torch_draws(seed, "initial weights"):
            encoder = EBERT.for_graph(host, data.graph, tokenizer, seed=seed, **source)
            encoder.freeze_parts(("words",))
            model = KnowledgeForTask.of(encoder, "candidates", [SCORE], problem_type=LINKING)
        has_vector = encoder.entity_vectors.weight[N_SPECIAL_ROWS:].any(1).numpy()

        def known(name: str) -> bool:
            number = data.graph.entities.find(name)
            return number is not None and bool(has_vector[number])

        options: dict[str, Any] = {
            "builder": study.builder,
            "view": EBERTView.of(data.graph, tokenizer, form="replace", **source),
            "prime": True,
        }
        questions = questions_of(data.proposed, known, str(tokenizer.mask_token), gold=data.train)
        questions = [question for question in questions if question.gold is not None]
        training = CandidateData(questions, data.graph, tokenizer, **options)
        with tempfile.TemporaryDirectory(prefix="kept-linking-") as folder:
            train(model, training, study.training(seed), Path(folder))
        linker = EBERTLinker(
            model, tokenizer, data.graph, DictionaryLinker(data.graph), is_known=known,
            n_rounds=study.n_rounds, **options,
        )  # fmt: skip
        return linker.disambiguate(data.to_link)


# ---- the page ------------------------------------------------------------------------------------
def page(study: LinkingStudy, cells: Mapping[str, Mapping[int, SpanCounts]], command: str) -> str:
    """Return micro scores of every row over its seeds, and differences of F1."""
    n = len(next(iter(cells[NAMES].values())))
    about = (
        f"Micro precision, recall and F1 in AIDA's form (first and last word, entity) on {n} "
        "sentences of T-REx, 95 % intervals over seeds and sentences. T-REx annotates the ends of "
        "facts alone: what else a linker finds counts as wrong."
    )
    counts: dict[str, dict[int, Counts]] = {
        row: {seed: np.array(cell, np.float64) for seed, cell in of_row.items()}
        for row, of_row in cells.items()
    }
    rows = []
    for row, of_row in counts.items():
        sums = [each.sum(0) for each in of_row.values()]
        precision = np.mean([right / max(predicted, 1) for right, predicted, _ in sums])
        recall = np.mean([right / max(gold, 1) for right, _, gold in sums])
        of_seeds = ", ".join(f"{f1_value(each[None])[0]:.3f}" for each in sums)
        says = "the best prior of the graph's names" if row == NAMES else study.rows[row].says
        f1 = with_interval(mean_effect(of_row.values()))
        rows.append([row, f"{precision:.3f}", f"{recall:.3f}", f1, of_seeds, says])
    differences = [
        [name, with_interval(gap, "+"), f"{gap.p:.3f}"]
        for name, gap in paired_effects(counts, study.differences)
    ]
    columns = "row", "precision", "recall", "F1", "of each seed", "what it is"
    return page_of(
        "E-BERT's entity linking", command, about, Table(columns, rows),
        Table(("difference of F1", "estimate", "p"), differences),
    )  # fmt: skip


# ---- the command ---------------------------------------------------------------------------------
def read_aliases(root: Path) -> list[Text]:
    """Return further names of Wikidata's entities."""
    rows = table(root / "wikidata_labels/qid_aliases.tsv")
    return [Text(row["qid"], TextKind.ALIAS, row["alias"], "en") for row in rows]


def run(study: LinkingStudy, arguments: argparse.Namespace) -> Results | None:
    """Run what is missing; return the page and the counts of each text."""
    root = data_root()
    data = Data(study, read_world(root, ("s",)), read_aliases(root))
    if (cells := run_cells(LinkingTrial(study, data, arguments.out), arguments)) is None:
        return None
    return page(study, cells, arguments.command), {
        row: [*of_row.values()] for row, of_row in cells.items()
    }


if __name__ == "__main__":
    run_study(__doc__, LinkingStudy, run, CELL_OPTIONS)
