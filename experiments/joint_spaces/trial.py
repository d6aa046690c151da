"""`python -m experiments joint_spaces CONFIG -o RUN [--seeds N]`: vectors of words and entities
as what ERNIE reads of its entities.

Spaces are trained on the experiment's own graph, without the triples between two entities that are
asked, and on texts in which no such pair is. So is ERNIE's own TransE. Needs KEPT_DATA; the same
command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor

from entity_linking.annotations import write_jsonl
from experiments.command import Results, announce, data_root, run_study
from kept.joint.assembly import VECTORS, Assembled, JointConfig
from kept.joint.training import train
from kept.joint.writing import write_vectors
from kept.lab.comparison.compare import compare
from kept.lab.comparison.data import ExperimentData
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import shipped_experiments
from kept.lab.study.comparison_tables import to_json, to_markdown
from kept.lab.study.verdicts import Compared
from kept.options import merged
from kept.randomness import generator
from kept.training.config import RunConfig

SHUFFLED = "strangers"


class VectorStudy(RunConfig):
    """`experiment` lies over the shipped one that it extends; each space becomes a row of ERNIE.

    `strangers_of` names the space whose vectors a further row gives to other entities.
    """

    extends: str
    experiment: dict[str, Any]
    ernie: dict[str, Any]
    n_texts: PositiveInt
    spaces: dict[str, dict[str, Any]]
    strangers_of: str

    def base(self) -> Experiment:
        """The experiment, whose rows have no vectors of a space yet."""
        shipped = Experiment.fields_of(shipped_experiments()[self.extends])
        rows = {"ernie": {"options": self.ernie}}
        return Experiment(**merged(shipped, self.experiment) | {"methods": rows})

    def with_spaces(self, files: dict[str, Path]) -> Experiment:
        """The experiment with a row for each file of vectors."""
        base = self.base()
        rows = {
            f"ernie-{name}": {"method": "ernie", "options": self.ernie | {"vectors": str(path)}}
            for name, path in files.items()
        }
        return base.model_copy(update={"methods": base.methods | rows})


def compare_spaces(
    study: VectorStudy, root: Path, folder: Path, *, seeds: int, announce: Callable[[str], None]
) -> Compared:
    """Train the spaces that are not there, then compare; nothing in `folder` is done again."""
    folder.mkdir(parents=True, exist_ok=True)
    experiment = study.with_spaces(spaces(study, root, folder, announce))
    return compare(
        experiment, root=root, folder=folder, methods=tuple(experiment.methods), controls=(),
        seeds=seeds, announce=announce,
    )  # fmt: skip


def spaces(
    study: VectorStudy, root: Path, folder: Path, announce: Callable[[str], None]
) -> dict[str, Path]:
    """A file of vectors for each space, and for the strangers."""
    base = study.base()
    data = ExperimentData(base, root, folder)
    text = folder / "joint.jsonl"
    if not text.exists():
        assert base.pretraining is not None
        stage = base.pretraining.model_copy(update={"n_texts": study.n_texts})
        more = ExperimentData(base.model_copy(update={"pretraining": stage}), root, folder)
        write_jsonl(more.texts, text)
    files = {name: folder / name / VECTORS for name in (*study.spaces, SHUFFLED)}
    for name, settings in study.spaces.items():
        if not files[name].exists():
            config = JointConfig(kg=data.graph_folder, text=(text,), **settings)
            space, losses = trained(config, folder / name)
            space.write(folder / name, losses)
            announce(f"{name}: {space.corpus}, loss {losses[0]:.3f} to {losses[-1]:.3f}")
            if name == study.strangers_of:
                (folder / SHUFFLED).mkdir(exist_ok=True)
                vectors = shuffled(space.vectors()[0], len(space.corpus.words), config.seed)
                write_vectors(files[SHUFFLED], space.corpus, space.graph, vectors, force=True)
    return files


def trained(config: JointConfig, folder: Path) -> tuple[Assembled, list[float]]:
    """A trained space, from its checkpoint if there is one."""
    folder.mkdir(exist_ok=True)
    assembled = Assembled(config)
    result = train(
        assembled.space, folder, epochs=assembled.settings.epochs,
        fingerprint=assembled.fingerprint, resume=True,
        checkpoint_seconds=config.checkpoint_seconds,
    )  # fmt: skip
    return assembled, result.losses


def shuffled(vectors: Tensor, n_words: int, seed: int) -> Tensor:
    """The same vectors, each entity's given to another: nothing of an entity is in its own."""
    n = len(vectors) - n_words
    turn = np.roll(order := generator(seed, "strangers").permutation(n), 1)
    places = np.empty(n, np.int64)
    places[order] = turn
    return torch.cat([vectors[:n_words], vectors[n_words:][torch.from_numpy(places)]])


def run(study: VectorStudy, arguments: argparse.Namespace) -> Results:
    """Train and compare what is missing; return the page and every number."""
    compared = compare_spaces(
        study, data_root(), arguments.out, seeds=arguments.seeds, announce=announce
    )  # fmt: skip
    return to_markdown(compared, f"{arguments.command} --seeds {arguments.seeds}"), to_json(
        compared
    )


if __name__ == "__main__":
    run_study(__doc__, VectorStudy, run, {"--seeds": {"type": int, "default": 3}})
