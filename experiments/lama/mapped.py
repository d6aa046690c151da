"""`python -m experiments.lama.mapped CONFIG -o RUN`: what E-BERT's mapped vectors bring to LAMA.

E-BERT (Poerner et al. 2020, section 4.1) trains nothing: the row `host` of `experiments.lama` is
asked again, with a vector before the subject or in its place. Vectors are those of joint spaces,
trained on the study's text (no sentence of which names a probed pair) and its graph, with or
without the probed facts. Needs KEPT_DATA; what is stored in RUN is not done again.

Axis legend: seed, group (questions about one fact), count.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from entity_linking.annotations import write_jsonl
from experiments.command import CELL_OPTIONS, Results, data_root, run_cells, run_study
from experiments.ebert.trial import space_vectors
from experiments.lama.data import read_world
from experiments.lama.probing import read_questions
from experiments.lama.study import HOST, MLM, LamaStudy, Row, copy_head
from experiments.lama.trial import LamaTrial
from experiments.stages import write_host
from kept import hosts
from kept.encoders.ebert import EBERT
from kept.evaluation.paired import Counts
from kept.joint.assembly import JointConfig
from kept.lab.probing.engine import probe
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.probing.results import RANKINGS, ProbeResult
from kept.lab.study.cells import (
    CellTrial,
    counts_of_digits,
    digits,
    mean_effect,
    page_of,
    paired_effects,
    share,
)
from kept.lab.study.origins import Origin, fingerprint_of
from kept.lab.study.tables import Table, with_interval
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.config import RunConfig

CellResult = dict[str, Any]
"""By ranking: of each question whether the first answer is right, and its group and id."""


class MappedRow(BaseModel):
    """`space` None: an entity is the mean of its label's pieces. `others`: every entity has the
    vector of another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    says: str
    space: str | None = None
    knowledge: Literal["held_out", "given"] = "given"
    form: Literal["concat", "replace"] = "concat"
    others: bool = False


class MappedStudy(RunConfig):
    """`study` is the file beside this one whose row `host` is asked, with `changes` to its fields
    and the first `n_layers` of its host;
    `spaces` are fields of `JointConfig`; `seeds` those of the spaces."""

    study: str
    changes: dict[str, Any] = Field(default_factory=dict)
    n_layers: PositiveInt | None = None
    seeds: tuple[int, ...]
    spaces: dict[str, dict[str, Any]]
    rows: dict[str, MappedRow]
    differences: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MappedTrial(CellTrial):
    """The row `host` of `lama` and the rows of the file, asked its questions."""

    study: MappedStudy
    lama: LamaTrial

    @property
    def folder(self) -> Path:  # type: ignore[override]
        """The folder of both."""
        return self.lama.folder

    @property
    def rows(self) -> Sequence[str]:
        """The host alone, then the rows of the file."""
        return [HOST, *self.study.rows]

    def seeds(self, row: str) -> tuple[int, ...]:
        """A row without a space has nothing that a seed could change."""
        study = self.study
        return study.seeds if row != HOST and study.rows[row].space else study.seeds[:1]

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / "mapped" / f"{row}-{seed}.json"

    def origin(self, row: str, seed: int) -> Origin:
        """See `CellTrial.origin`."""
        row_settings = None if row == HOST else self.study.rows[row]
        space = (
            None
            if row_settings is None or row_settings.space is None
            else self.study.spaces[row_settings.space]
        )
        fields = None if row_settings is None else row_settings.model_dump(exclude={"says"})
        return {
            "settings": fingerprint_of(self.lama.study.settings_of(Row(HOST)), space, fields),
            "data": self.lama.origin(HOST, seed)["data"],
        }

    def run(self, row: str, seed: int) -> CellResult:
        """Return the first answers of a row, among objects and among words."""
        if row == HOST:
            model = self.lama.open(Row(HOST), "weights")
        else:
            model = self.model(self.study.rows[row], seed)
        questions = self.lama.questions
        probed = probe(
            model, questions.items, vocabulary=questions.vocabulary, objects=questions.objects
        )
        return first_answers(probed)

    def summary(self, row: str, seed: int, cell: CellResult) -> str:
        """See `CellTrial.summary`."""
        return f"{row}, seed {seed}: P@1 {share(cell['objects']['right']):.3f}"

    def model(self, row: MappedRow, seed: int) -> ClozeModel:
        """Return the host with E-BERT around it, with its graph's names; nothing is trained."""
        lama, world = self.lama.study, self.lama.world
        first = KnowledgeForPreTraining.from_pretrained(self.folder / HOST)
        graph, tokenizer = world.graphs[row.knowledge], hosts.load_tokenizer(lama.host)
        source = {} if row.space is None else {"vectors_from": str(self._vectors(row, seed))}
        with torch_draws(lama.seed, "initial weights"):
            encoder = EBERT.for_graph(first.encoder.host, graph, tokenizer, seed=0, **source)
            model = KnowledgeForPreTraining.of(encoder, MLM)
        copy_head(first, model)
        view = {"form": row.form, **source}
        return KeptMaskedLM(model, tokenizer, "graph", graph, builder=lama.builder, view=view)

    def _vectors(self, row: MappedRow, seed: int) -> Path:
        """Return the file of a row's vectors; spaces that are there are not trained again."""
        assert row.space is not None
        spaces = self.folder / "spaces"
        text, kg = spaces / "texts.jsonl", spaces / row.knowledge
        spaces.mkdir(parents=True, exist_ok=True)
        if not text.exists():
            write_jsonl([text for document in self.lama.world.documents for text in document], text)
        if not kg.exists():
            self.lama.world.graphs[row.knowledge].save(kg)
        config = JointConfig(kg=kg, text=(text,), seed=seed, **self.study.spaces[row.space])
        folder = spaces / f"{row.space}-{row.knowledge}-{seed}"
        return space_vectors(config, folder, others=row.others)


def first_answers(probed: ProbeResult) -> CellResult:
    """Return whether the first answer is right, by ranking."""
    cell: CellResult = {}
    for ranking in reversed(RANKINGS):
        scored = probed.scored(ranking)
        cell[ranking] = {
            "id": [answer.id for answer, _ in scored],
            "group": [answer.group for answer, _ in scored],
            "right": digits(ranked.hit(1) == 1 for _, ranked in scored),
        }
    return cell


# ---- the page ------------------------------------------------------------------------------------
def counts_of(cell: CellResult, ranking: str, ids: frozenset[str] | None) -> Counts:
    """Return right, answered and asked of each group, of the questions `ids` (None: of all)."""
    part = cell[ranking]
    rows = [
        (group, digit)
        for id_, group, digit in zip(part["id"], part["group"], part["right"], strict=True)
        if ids is None or id_ in ids
    ]
    return counts_of_digits("".join(digit for _, digit in rows), [group for group, _ in rows])


def page(
    study: MappedStudy, cells: Mapping[str, Mapping[int, CellResult]], without: frozenset[str],
    n_asked: int, command: str,
) -> str:  # fmt: skip
    """Return P@1 of each row in three ways, then the differences."""
    about = (
        f"P@1 in per cent over {n_asked} facts of T-REx, 95 % intervals over facts and, where "
        "there are some, seeds of the space. *Objects*: among all objects of the relation; *UHN*: "
        f"the same over the {len(without)} facts left by LAMA-UHN's filters; *words*: among LAMA's "
        "common words of one piece. Nothing is trained but the spaces."
    )
    kinds = ("objects", None), ("objects", without), ("restricted", None)
    counts = [
        {row: {seed: counts_of(cell, *kind) for seed, cell in of_row.items()}
         for row, of_row in cells.items()} for kind in kinds
    ]  # fmt: skip
    rows = []
    for row, of_row in cells.items():
        says = "the host alone" if row == HOST else study.rows[row].says
        scores = [with_interval(mean_effect(of[row].values()), percent=True) for of in counts]
        rows.append([row, len(of_row), *scores, says])
    objects, uhn = (paired_effects(of, study.differences) for of in counts[:2])
    differences = []
    for both in zip(objects, uhn, strict=True):
        gaps = [(with_interval(gap, "+", percent=True), f"{gap.p:.3f}") for _, gap in both]
        differences.append([both[0][0], *gaps[0], *gaps[1]])
    return page_of(
        "E-BERT on LAMA and LAMA-UHN", command, about,
        Table(("row", "seeds", "objects", "UHN", "words", "what it is"), rows),
        Table(("difference", "objects", "p", "UHN", "p"), differences),
    )  # fmt: skip


# ---- the command ---------------------------------------------------------------------------------
def run(study: MappedStudy, arguments: argparse.Namespace) -> Results | None:
    """Train the host, run what is missing; return the page and which answers are right."""
    root, host = data_root(), arguments.out / "first-layers"
    fields = yaml.safe_load(arguments.config.with_name(study.study).read_text(encoding="utf-8"))
    write_host(fields["host"], study.n_layers, host)
    lama = LamaStudy.model_validate(fields | study.changes | {"host": str(host)})
    world = read_world(
        root, per_relation=lama.facts_per_relation, n_texts=lama.n_texts, seed=lama.seed
    )
    first = LamaTrial(lama, arguments.out, world, read_questions(root / "lama", lama, world))
    first.train(Row(HOST))
    without = first.names()
    if (cells := run_cells(MappedTrial(study, first), arguments)) is None:
        return None
    right = {
        name: {seed: {kind: cell[kind]["right"] for kind in cell} for seed, cell in of_row.items()}
        for name, of_row in cells.items()
    }
    return page(study, cells, without, len(first.questions.items), arguments.command), right


if __name__ == "__main__":
    run_study(__doc__, MappedStudy, run, CELL_OPTIONS, name="mapped.results")
