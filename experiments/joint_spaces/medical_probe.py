"""`python -m experiments.joint_spaces.medical_probe CONFIG -o RUN`: what do the vectors hold?

A linear probe of the vectors of a drug and a disease alone (both beside one another, and their
products), on the questions of `experiments.joint_spaces.medical`: what a reader could find at most
without curves. No text is read. Writes probe.md in RUN, whose vectors it takes.

Axis legend: seed, question, group (questions about one drug), width.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from experiments.command import Results, data_root, run_study
from experiments.joint_spaces.medical import STATED, Question, prepare, questions
from experiments.stages import StagedStudy
from kept.evaluation.crossed import difference
from kept.evaluation.paired import Counts, by_cluster, f1_value
from kept.lab.probing.layers.linear import fit
from kept.lab.study.cells import mean_effect, page_of
from kept.lab.study.tables import Table, with_interval
from kept.vectors import Wikipedia2VecFile
from kg_loaders import KnowledgeGraph

OTHERS = " of others"
PENALTY = 1.0


def features(
    vectors: Float[Tensor, "entity width"], graph: KnowledgeGraph, items: Sequence[Question]
) -> Float[Tensor, "question features"]:
    """Both vectors of each question and their products; zeros for an entity without one."""
    table = torch.cat([(vectors - vectors.mean(0)) / vectors.std(0).clamp(min=1e-9),
                       torch.zeros(1, vectors.shape[1])])  # fmt: skip
    sides = []
    for ends in ([q.drug for q in items], [q.disease for q in items]):
        ids = [graph.entities.find(name) for name, _ in ends]
        sides.append(table[[len(vectors) if i is None else i for i in ids]])
    drugs, diseases = sides
    return torch.cat([drugs, diseases, drugs * diseases], dim=1)


def counts_of(
    file: Path, graph: KnowledgeGraph, train: Sequence[Question], test: Sequence[Question]
) -> Counts:
    """Right, answered and asked of each drug, as a probe fitted on `train` answers `test`."""
    vectors = Wikipedia2VecFile(file)(graph).vectors
    gold, answers = (
        torch.tensor([question.label == STATED for question in part]).long()
        for part in (train, test)
    )
    probe = fit(features(vectors, graph, train), gold, penalty=PENALTY)
    right = probe.classes(features(vectors, graph, test)) == answers
    ones = np.ones(len(test))
    counts = np.stack([right.double().numpy(), ones, ones], 1)
    return by_cluster(counts, [question.drug[0] for question in test])


def probes(study: StagedStudy, root: Path, output: Path) -> dict[str, list[Counts]]:
    """By source, and by source of others, the counts of each seed."""
    graph = KnowledgeGraph.open(output / "kg")
    train, test = questions(root, study.files["share_asked"])
    return {
        f"{name}{kind}": [
            counts_of(output / f"{name}{'-others' if kind else ''}-{seed}.txt", graph, train, test)
            for seed in study.seeds
        ]
        for name in study.files["sources"]
        for kind in ("", OTHERS)
    }


def page(counts: Mapping[str, Sequence[Counts]], command: str) -> str:
    """Return a row for each source, then each minus that of others and minus a TransE's."""
    n = int(next(iter(counts.values()))[0][:, 1].sum())
    n_seeds = len(next(iter(counts.values())))
    about = (
        f"Accuracy of a linear probe of the vectors alone on {n} questions, half of them right by "
        f"chance; 95 % intervals over {n_seeds} seeds of the vectors and drugs."
    )
    rows = []
    for name, seeds in counts.items():
        each = ", ".join(f"{f1_value(seed.sum(0)[None])[0]:.3f}" for seed in seeds)
        rows.append([name, with_interval(mean_effect(seeds)), each])
    differences = []
    trained = [name for name in counts if not name.endswith(OTHERS)]
    pairs = [(name, f"{name}{OTHERS}") for name in trained] + [
        (name, trained[0]) for name in trained[1:]
    ]
    for one, other in pairs:
        less = difference(counts[one], counts[other], f1_value)
        differences.append([f"{one} − {other}", with_interval(less, "+"), f"{less.p:.3f}"])
    return page_of(
        "What the vectors hold of drugs and diseases", command, about,
        Table(("vectors", "accuracy", "of each seed"), rows),
        Table(("difference", "estimate", "p"), differences),
    )  # fmt: skip


def run(study: StagedStudy, arguments: argparse.Namespace) -> Results:
    """Make the vectors that are missing; return the page and each seed's accuracy."""
    root, folder = data_root(), arguments.out / "made"
    folder.mkdir(exist_ok=True)
    prepare(study, root, folder)
    counts = probes(study, root, folder)
    shares = {
        name: [float(f1_value(seed.sum(0)[None])[0]) for seed in seeds]
        for name, seeds in counts.items()
    }
    return page(counts, arguments.command), shares


if __name__ == "__main__":
    run_study(__doc__, StagedStudy, run, name="probe")
