"""`python -m experiments.ebert CONFIG -o RUN`: train E-BERT's linking head, link, score as AIDA.

Needs KEPT_DATA; what is stored in RUN is not run again (`--row`, `--seed`: one cell, no table).

Axis legend: seed, text, count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt
from transformers.utils.logging import disable_progress_bar

from entity_linking.annotations import write_jsonl
from entity_linking.annotations.aida import Span
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText
from experiments.command import data_root, study_parser
from experiments.joint_spaces.reading import shuffle_vectors
from experiments.joint_spaces.study import trained
from experiments.wk_completion.data import World, read_world
from kept.batches import N_SPECIAL_ROWS
from kept.encoders.ebert import EBERT
from kept.evaluation.crossed import difference, effect
from kept.evaluation.paired import Counts, f1_value
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, EBERTView
from kept.heads.model import KnowledgeForTask
from kept.joint.assembly import VECTORS, JointConfig
from kept.lab.reading.cell import Budget, open_host
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.lab.study.tables import Table, with_interval
from kept.randomness import generator, torch_draws
from kept.tasks.datasets.public_files import table
from kept.tasks.kinds import LINKING, SCORE
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.linking.decoding import EBERTLinker
from kept.training.finetuning.linking.questions import CandidateData, questions_of
from kept.training.loop import train
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.disk.writing import write_json, write_text

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

    def __init__(self, study: LinkingStudy, world: World, aliases: Sequence[Text]) -> None:
        self.graph = with_aliases(world.graph, aliases)
        gold = by_text(world)
        order = generator(0, "texts of linking").permutation(len(gold)).tolist()
        n = study.n_train
        self.train = [gold[i] for i in order[:n]]
        self.asked = [gold[i] for i in order[n : n + study.n_asked]]
        linker = DictionaryLinker(self.graph)
        self.proposed = linker.link([text.text for text in self.train])
        self.to_link = linker.link([text.text for text in self.asked])

    @property
    def fingerprint(self) -> str:
        """Of the graph and all links."""
        parts = (self.train, self.asked, self.proposed, self.to_link)
        return fingerprint_of(self.graph.content_hash, repr(parts))


def with_aliases(graph: KnowledgeGraph, aliases: Sequence[Text]) -> KnowledgeGraph:
    """The graph with further names of its entities, so that a name may mean several."""
    names = graph.entities
    labels = [Text(names.name(i), TextKind.LABEL, graph.label(i), "en") for i in range(len(names))]
    own = [alias for alias in aliases if alias.node in names and len(alias.value) > 2]
    relations = graph.relations
    triples = [
        Triple(names.name(h), relations.name(r), names.name(t))
        for h, r, t in graph.triples.tolist()
    ]
    return graph_from_records([*triples, *labels, *own])


def by_text(world: World) -> list[LinkedText]:
    """T-REx's sentences, each once, with the links of all facts that it states."""
    links: dict[str, dict[Any, Any]] = {}
    for example in world.examples:
        own = links.setdefault(example.linked.text, {})
        for link in example.linked.links:
            if link.entity is not None:
                own.setdefault(link.mention, link)
    return [
        LinkedText(text, tuple(own[mention] for mention in sorted(own)))
        for text, own in links.items()
    ]


def vectors_file(study: LinkingStudy, row: str, seed: int, data: Data, out: Path) -> Path | None:
    """The file of a row's vectors, trained unless it is there; None for those of labels."""
    kind = study.rows[row].vectors
    if kind == "labels":
        return None
    folder = out / "spaces" / str(seed)
    if not (folder / VECTORS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not (out / "kg").exists():
            data.graph.save(out / "kg")
            write_jsonl(data.train, out / "train.jsonl", force=True)
        config = JointConfig(kg=out / "kg", text=(out / "train.jsonl",), seed=seed, **study.space)
        made, losses = trained(config, folder)
        made.write(folder, losses)
    if kind == "joint":
        return folder / VECTORS
    if not (folder / "others.txt").exists():
        shuffle_vectors(folder / VECTORS, folder / "others.txt", seed)
    return folder / "others.txt"


def linked_by(study: LinkingStudy, row: str, seed: int, data: Data, out: Path) -> list[LinkedText]:
    """The evaluation texts as a row links them: E-BERT trained on the training texts' questions."""
    file = vectors_file(study, row, seed, data, out)
    source = {} if file is None else {"vectors_from": str(file)}
    host, tokenizer = open_host(Budget(host=study.host, n_layers=study.n_layers))
    with torch_draws(seed, "initial weights"):
        encoder = EBERT.for_graph(host, data.graph, tokenizer, seed=seed, **source)
        encoder.freeze_parts(("words",))
        model = KnowledgeForTask.of(encoder, "candidates", [SCORE], problem_type=LINKING)
    has_vector = encoder.entity_vectors.weight[N_SPECIAL_ROWS:].any(1).numpy()

    def known(name: str) -> bool:
        number = data.graph.entities.find(name)
        return number is not None and bool(has_vector[number])

    shown: dict[str, Any] = {
        "builder": study.builder,
        "view": EBERTView.of(data.graph, tokenizer, form="replace", **source),
        "prime": True,
    }
    questions = questions_of(data.proposed, known, str(tokenizer.mask_token), gold=data.train)
    questions = [question for question in questions if question.gold is not None]
    training = CandidateData(questions, data.graph, tokenizer, **shown)
    with tempfile.TemporaryDirectory(prefix="kept-linking-") as folder:
        train(model, training, study.training(seed), Path(folder))
    linker = EBERTLinker(
        model, tokenizer, data.graph, DictionaryLinker(data.graph), is_known=known,
        n_rounds=study.n_rounds, **shown,
    )  # fmt: skip
    return linker.disambiguate(data.to_link)


def spans_of(text: LinkedText) -> list[Span]:
    """First word, last word and entity of each link, as AIDA's form has them."""
    starts = [0, *(i + 1 for i, letter in enumerate(text.text) if letter == " ")]
    return [
        (sum(s <= k.mention.start for s in starts) - 1, sum(s < k.mention.end for s in starts) - 1,
         k.entity)
        for k in text.links
        if k.entity is not None
    ]  # fmt: skip


def counts_of(gold: Sequence[LinkedText], found: Sequence[LinkedText]) -> SpanCounts:
    """Of each text: right, predicted and gold spans."""
    counts = []
    for right, linked in zip(gold, found, strict=True):
        one, other = set(spans_of(right)), set(spans_of(linked))
        counts.append([len(one & other), len(other), len(one)])
    return counts


def run_cell(study: LinkingStudy, row: str, seed: int, data: Data, out: Path) -> SpanCounts:
    """The counts of a row under a seed, from its file in `out` if it is there."""
    told = None if row == NAMES else study.rows[row].vectors
    shared = study.model_dump(mode="json", exclude={"rows", "seeds", "differences"})
    origin = {"settings": fingerprint_of(shared, told), "data": data.fingerprint}
    path = out / "cells" / f"{row}-{seed}.json"

    def count() -> SpanCounts:
        linked = data.to_link if row == NAMES else linked_by(study, row, seed, data, out)
        return counts_of(data.asked, linked)

    counts: SpanCounts = stored_with(path, origin, count)
    return counts


# ---- the page --------------------------------------------------------------
def page(study: LinkingStudy, cells: Mapping[str, Sequence[SpanCounts]], command: str) -> str:
    """Micro scores of every row over its seeds, and differences of F1."""
    n = len(next(iter(cells.values()))[0])
    about = (
        f"Micro precision, recall and F1 in AIDA's form (first and last word, entity) on {n} "
        "sentences of T-REx, 95 % intervals over seeds and sentences. T-REx annotates the ends of "
        "facts alone: what else a linker finds counts as wrong."
    )
    rows = []
    for row, seeds in cells.items():
        says = "the best prior of the graph's names" if row == NAMES else study.rows[row].says
        counts = [np.array(told, np.float64) for told in seeds]
        sums = [each.sum(0) for each in counts]
        precision = np.mean([right / max(predicted, 1) for right, predicted, _ in sums])
        recall = np.mean([right / max(gold, 1) for right, _, gold in sums])
        of_seeds = ", ".join(f"{f1_value(each[None])[0]:.3f}" for each in sums)
        f1 = with_interval(effect(np.stack(counts), f1_value))
        rows.append([row, f"{precision:.3f}", f"{recall:.3f}", f1, of_seeds, says])
    differences = []
    for ours, theirs in study.differences:
        if ours in cells and theirs in cells:
            less = difference(*_sides(cells[ours], cells[theirs]), f1_value)
            differences.append([f"{ours} − {theirs}", with_interval(less, "+"), f"{less.p:.3f}"])
    columns = "row", "precision", "recall", "F1", "of each seed", "what it is"
    parts = (
        "# E-BERT's entity linking", f"`{command}`", about, Table(columns, rows).compact(),
        Table(("difference of F1", "estimate", "p"), differences).compact(),
    )  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _sides(ours: Sequence[SpanCounts], theirs: Sequence[SpanCounts]) -> list[list[Counts]]:
    """Both sides' counts by seed; the one without seeds stands against each of the other's."""
    n = max(len(ours), len(theirs))
    return [
        [np.array(side[i % len(side)], np.float64) for i in range(n)] for side in (ours, theirs)
    ]


def read_aliases(root: Path) -> list[Text]:
    """Further names of Wikidata's entities."""
    rows = table(root / "wikidata_labels/qid_aliases.tsv")
    return [Text(row["qid"], TextKind.ALIAS, row["alias"], "en") for row in rows]


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--row")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    study, root = LinkingStudy.read(given.config), data_root()
    given.out.mkdir(parents=True, exist_ok=True)
    data = Data(study, read_world(root, ("s",)), read_aliases(root))
    cells: dict[str, list[SpanCounts]] = {}
    for seed in study.seeds if given.seed is None else (given.seed,):
        for row in (NAMES, *study.rows) if given.row is None else (given.row,):
            if row != NAMES or seed == study.seeds[0]:
                told = run_cell(study, row, seed, data, given.out)
                cells.setdefault(row, []).append(told)
                right, found, gold = np.array(told).sum(0).tolist()
                print(f"seed {seed}, {row}: {right} right of {found}, {gold} gold", flush=True)
    if given.row is None and given.seed is None:
        command = f"python -m experiments.ebert {given.config} -o {given.out}"
        text = page(study, cells, command)
        write_text(given.out / "results.md", text, force=True)
        write_json(given.out / "results.json", cells, force=True)
        print(text)


if __name__ == "__main__":
    main()
