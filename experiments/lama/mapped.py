"""`python -m experiments.lama.mapped CONFIG -o RUN`: what E-BERT's mapped vectors bring to LAMA.

E-BERT (Poerner et al. 2020, section 4.1) trains nothing: the row `host` of `experiments.lama` is
asked again, with a vector before the subject or in its place. Vectors are those of joint spaces,
trained on the study's text (no sentence of which names a probed pair) and its graph, with or
without the probed facts. Needs KEPT_DATA; what is stored in RUN is not done again.

Axis legend: seed, group (questions about one fact), count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from transformers.utils.logging import disable_progress_bar

from entity_linking.annotations import write_jsonl
from experiments.command import data_root, study_parser
from experiments.joint_spaces.reading import shuffle_vectors
from experiments.joint_spaces.study import trained
from experiments.lama.data import LamaWorld, read_world
from experiments.lama.probing import Questions, helpful_names, open_row, read_questions
from experiments.lama.study import HOST, MLM, LamaStudy, Row, copy_head, train_row
from experiments.stages import write_host
from kept import hosts
from kept.encoders.ebert import EBERT
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.joint.assembly import VECTORS, JointConfig
from kept.lab.probing.engine import probe
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.probing.results import ProbeResult
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.lab.study.tables import Table, with_interval
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_json, write_text

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

    def seeds_of(self, row: str) -> tuple[int, ...]:
        """A row without a space has nothing that a seed could change."""
        return self.seeds if row != HOST and self.rows[row].space else self.seeds[:1]


def vectors(study: MappedStudy, row: MappedRow, seed: int, world: LamaWorld, out: Path) -> Path:
    """The file of a row's vectors; spaces that are there are not trained again."""
    assert row.space is not None
    folder = out / "spaces" / f"{row.space}-{row.knowledge}-{seed}"
    own, text = folder / VECTORS, out / "spaces" / "texts.jsonl"
    if not own.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not text.exists():
            write_jsonl([text for document in world.documents for text in document], text)
        if not (kg := out / "spaces" / row.knowledge).exists():
            world.graphs[row.knowledge].save(kg)
        config = JointConfig(kg=kg, text=(text,), seed=seed, **study.spaces[row.space])
        made, losses = trained(config, folder)
        made.write(folder, losses)
    if not row.others:
        return own
    moved = folder / "others.txt"
    if not moved.exists():
        shuffle_vectors(own, moved, seed)
    return moved


def mapped_model(
    row: MappedRow, file: Path | None, lama: LamaStudy, world: LamaWorld, out: Path
) -> ClozeModel:
    """The row `host` with E-BERT around it, asked with its graph's names; nothing is trained."""
    first = KnowledgeForPreTraining.from_pretrained(out / HOST)
    graph, tokenizer = world.graphs[row.knowledge], hosts.load_tokenizer(lama.host)
    source = {} if file is None else {"vectors_from": str(file)}
    with torch_draws(lama.seed, "initial weights"):
        encoder = EBERT.for_graph(first.encoder.host, graph, tokenizer, seed=0, **source)
        model = KnowledgeForPreTraining.of(encoder, MLM)
    copy_head(first, model)
    return KeptMaskedLM(
        model, tokenizer, "graph", graph, builder=lama.builder, view={"form": row.form, **source}
    )


def run_row(
    study: MappedStudy,
    name: str,
    seed: int,
    lama: LamaStudy,
    world: LamaWorld,
    asked: Questions,
    out: Path,
) -> CellResult:
    """What a row answers under a seed, from its file in `out` if it is there."""
    row = None if name == HOST else study.rows[name]
    space = None if row is None or row.space is None else study.spaces[row.space]
    told = None if row is None else row.model_dump(exclude={"says"})
    origin = {
        "settings": fingerprint_of(lama.settings_of(Row(HOST)), space, told),
        "data": fingerprint_of(world.fingerprint, asked.fingerprint),
    }
    path = out / "mapped" / f"{name}-{seed}.json"

    def answers() -> CellResult:
        if row is None:
            model = open_row(Row(HOST), "weights", lama, world, out)
        else:
            file = vectors(study, row, seed, world, out) if row.space else None
            model = mapped_model(row, file, lama, world, out)
        probed = probe(model, asked.items, vocabulary=asked.vocabulary, objects=asked.objects)
        return as_told(probed)

    stored: CellResult = stored_with(path, origin, answers)
    return stored


def as_told(found: ProbeResult) -> CellResult:
    """The first answers of a probe."""
    told: CellResult = {}
    for ranking in ("objects", "restricted"):
        scored = found.scored(ranking)  # type: ignore[arg-type]
        told[ranking] = {
            "id": [answer.id for answer, _ in scored],
            "group": [answer.group for answer, _ in scored],
            "right": "".join("01"[int(ranked.hit(1))] for _, ranked in scored),
        }
    return told


# ---- the page --------------------------------------------------------------
def counts_of(told: CellResult, ranking: str, ids: frozenset[str] | None) -> Counts:
    """Right, answered and asked of each group, of the questions `ids` (None: of all)."""
    part = told[ranking]
    rows = [
        (group, digit == "1")
        for id_, group, digit in zip(part["id"], part["group"], part["right"], strict=True)
        if ids is None or id_ in ids
    ]
    return accuracy_counts([is_right for _, is_right in rows], [group for group, _ in rows])


def page(
    study: MappedStudy, cells: Mapping[str, Mapping[int, CellResult]], without: frozenset[str],
    n_asked: int, command: str,
) -> str:  # fmt: skip
    """P@1 of each row in three ways, then the differences."""
    kinds: Sequence[tuple[str, frozenset[str] | None]] = (
        ("objects", None), ("objects", without), ("restricted", None),
    )  # fmt: skip
    about = (
        f"P@1 in per cent over {n_asked} facts of T-REx, 95 % intervals over facts and, where "
        "there are some, seeds of the space. *Objects*: among all objects of the relation; *UHN*: "
        f"the same over the {len(without)} facts left by LAMA-UHN's filters; *words*: among LAMA's "
        "common words of one piece. Nothing is trained but the spaces."
    )
    rows = []
    for name, seeds in cells.items():
        scores = [
            effect(np.stack([counts_of(told, *kind) for told in seeds.values()]), f1_value)
            for kind in kinds
        ]
        says = "the host alone" if name == HOST else study.rows[name].says
        shares = [with_interval(score, percent=True) for score in scores]
        rows.append([name, len(seeds), *shares, says])
    differences = []
    for ours, theirs in study.differences:
        if ours in cells and theirs in cells:
            line = [f"{ours} − {theirs}"]
            for kind in kinds[:2]:
                each = paired_difference(cells[ours], cells[theirs], *kind)
                line += [with_interval(each, "+", percent=True), f"{each.p:.3f}"]
            differences.append(line)
    parts = (
        "# E-BERT on LAMA and LAMA-UHN", f"`{command}`", about,
        Table(("row", "seeds", "objects", "UHN", "words", "what it is"), rows).compact(),
        Table(("difference", "objects", "p", "UHN", "p"), differences).compact(),
    )  # fmt: skip
    return "\n\n".join(parts) + "\n"


def paired_difference(
    ours: Mapping[int, CellResult],
    theirs: Mapping[int, CellResult],
    ranking: str,
    ids: frozenset[str] | None,
) -> Effect:
    """Ours minus theirs, paired; a row of one seed stands against every seed of the other."""
    seeds = sorted({*ours} | {*theirs}) if 1 in (len(ours), len(theirs)) else [*ours]
    sides = [
        [counts_of(next(iter(side.values())) if len(side) == 1 else side[s], ranking, ids)
         for s in seeds]
        for side in (ours, theirs)
    ]  # fmt: skip
    return difference(*sides, f1_value)


def main() -> None:
    parser = study_parser(__doc__)
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    study, root = MappedStudy.read(given.config), data_root()
    told = yaml.safe_load(given.config.with_name(study.study).read_text(encoding="utf-8"))
    host = given.out / "first-layers"
    write_host(told["host"], study.n_layers, host)
    lama = LamaStudy.model_validate(told | study.changes | {"host": str(host)})
    world = read_world(
        root, per_relation=lama.facts_per_relation, n_texts=lama.n_texts, seed=lama.seed
    )
    asked = read_questions(root / "lama", lama, world)
    train_row(Row(HOST), lama, world, given.out)
    without = helpful_names(lama, world, asked, given.out)
    cells: dict[str, dict[int, CellResult]] = {}
    for name in (HOST, *study.rows):
        for seed in study.seeds_of(name):
            found = run_row(study, name, seed, lama, world, asked, given.out)
            cells.setdefault(name, {})[seed] = found
            share = np.mean([digit == "1" for digit in found["objects"]["right"]])
            print(f"{name}, seed {seed}: P@1 {share:.3f}", flush=True)
    command = f"python -m experiments.lama.mapped {given.config} -o {given.out}"
    text = page(study, cells, without, len(asked.items), command)
    write_text(given.out / "mapped.results.md", text, force=True)
    digits = {
        name: {seed: {kind: told[kind]["right"] for kind in told} for seed, told in seeds.items()}
        for name, seeds in cells.items()
    }
    write_json(given.out / "mapped.results.json", digits, force=True)
    print(text)


if __name__ == "__main__":
    main()
