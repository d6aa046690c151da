"""Runs of a word-knowledge completion: each ranks the relations of every setting.

A folder of runs is as in `kept.lab.comparison.stored`; trained CoLAKEs lie in `pretrained/`, as
those that differ at test only share one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kept.errors import CheckpointError
from kept.evaluation.ranking import RankingResult
from kept.inputs.controls.conditions import COMPARED
from kept.kgc.rankers import Answers, Questions, dkrl, most_frequent, triple_scorer
from kept.kgc.split import CompletionSplit
from kept.lab.comparison.data import binding_of, digests_of
from kept.lab.comparison.experiment import RunRecord
from kept.lab.comparison.stored import Arm, Run, RunKey, StoredRuns
from kept.lab.comparison.strata import item_traits
from kept.lab.completion.config import COLAKE, DKRL, HIDDEN, CompletionConfig
from kept.methods import BASELINE
from kept.tasks.datasets.example import TaskExample, clusters, from_relation
from kept.training.finetuning.answers import ANSWERS, Answer, write_answers
from kept.training.log import Reporter
from kg_loaders.disk.writing import claim

VERSION = 1
"""Part of every hash; raised when a default changes, as hashes leave defaults out."""
SKIPPED = "skipped"


@dataclass(frozen=True, eq=False)
class CompletionRuns(StoredRuns):
    """The runs of `config` on `split` in `folder`."""

    config: CompletionConfig
    split: CompletionSplit
    folder: Path
    reporter: Reporter | None = None

    @property
    def plan(self) -> CompletionConfig:
        """The configuration."""
        return self.config

    @property
    def keys(self) -> list[RunKey]:
        """All runs, seed by seed; the baseline predicts the most frequent relation."""
        rows: list[Arm] = [(BASELINE, "off"), *self._trained]
        rows += [(COLAKE, knowledge) for knowledge in COMPARED]
        rows += [(HIDDEN, knowledge) for knowledge in COMPARED[1:]]
        return [RunKey(*row, seed) for seed in range(self.config.seeds) for row in rows]

    @property
    def _trained(self) -> list[Arm]:
        """Methods that read no sentence."""
        return [(name, "true") for name in (*self.config.scorers, DKRL)]

    def rivals(self, method: str) -> list[Arm]:
        """CoLAKE is compared with the methods that read no sentence, and with itself misled."""
        hidden: list[Arm] = [(HIDDEN, knowledge) for knowledge in COMPARED[1:]]
        return [*self._trained, *hidden] if method == COLAKE else []

    def of(self, key: RunKey) -> Run[CompletionConfig]:
        """The run of a key."""
        config, sources = self.config, dict[str, Any]()
        if key.method in (COLAKE, HIDDEN):
            sources = config.model_dump(mode="json", include={"builder", "masking", "n_negatives"})
            sources["training"] = binding_of(config.colake_of(key.seed).training)
        elif key.method != BASELINE:
            sources = {"recipe": config.recipes.get(key.method, {})}
        if key.method in (COLAKE, HIDDEN, DKRL):
            sources |= {"host": config.host, "folders": digests_of(config.host)}
        settings = {
            "version": VERSION,
            "task": "word-knowledge completion",
            "data": self.data,
            "method": key.method,
            "knowledge": key.knowledge,
            "seed": config.seed + key.seed,
            **sources,
        }
        return Run(key, config, settings)

    def make(self, key: RunKey) -> RunRecord:
        """See `StoredRuns.make`. UnfinishedError: a training's own budget ended it."""
        run, started = self.of(key), time.monotonic()
        answers = self._ranked(key)
        run_folder = self.folder / run.name
        run_folder.mkdir(exist_ok=True)
        results = answers.results.items()
        rows = (row for name, ranks in results for row in self._rows(name, ranks))
        write_answers(run_folder / ANSWERS, rows)
        return RunRecord(
            run=run.name,
            experiment=self.config.name,
            method=key.method,
            knowledge=key.knowledge,
            seed=key.seed,
            scores={name: ranks.conditions() | ranks.metrics() for name, ranks in results}
            | {name: {SKIPPED: why} for name, why in answers.skipped.items()},
            costs={"seconds": time.monotonic() - started},
            settings=run.settings,
        )

    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """Every run stores its counts: CheckpointError."""
        raise CheckpointError(
            f"{path} has no answers to {self.config.asked} with their ranks; remove its folder and "
            "give the command again"
        )

    def trained(self, key: RunKey) -> Path:
        """The folder of a run's CoLAKE; that with true facts where only the test hides them."""
        trained_key = key if key.method == COLAKE else RunKey(COLAKE, "true", key.seed)
        return self.folder / "pretrained" / self.of(trained_key).name

    def _ranked(self, key: RunKey) -> Answers:
        config, split, name = self.config, self.split, key.method
        changes, seed = config.recipes.get(name, {}), config.seed + key.seed
        if name == BASELINE:
            return most_frequent(split, self.questions)
        if name == DKRL:
            return dkrl(split, self.questions, host=config.host, changes=changes, seed=seed)
        if name not in (COLAKE, HIDDEN):
            return triple_scorer(name, split, self.questions, changes=changes, seed=seed)
        run, run_folder = config.colake_of(key.seed), self.trained(key)
        run_folder.parent.mkdir(exist_ok=True)
        with claim(run_folder):
            knowledge = key.knowledge if name == COLAKE else "true"
            model = run.train(split, knowledge, run_folder, self.reporter)
        return run.ask(model, split, self.questions, knowledge=key.knowledge)

    def _rows(self, setting: str, result: RankingResult) -> list[Answer]:
        """`ranks`: the numbers of relations above and equal to the gold one.

        Slices are by the head's facts in the graph.
        """
        examples = [from_relation(example) for example in self.split.tests[setting]]
        train = [from_relation(example) for example in self.split.train]
        traits = item_traits(list(map(_of_head, examples)), train, self.split.context_graph)
        counts, reciprocal = result.counts, (1 / result.ranks).tolist()
        ranks = zip(counts.n_greater.tolist(), counts.n_equal.tolist(), strict=True)
        return [
            Answer(
                setting,
                i,
                example.linked.id,
                group,
                example.labels,
                (),
                counts={self.config.metric: [reciprocal[i], 1.0, 1.0], "ranks": [*rank]},
                traits=dataclasses.asdict(traits[i]),
            )
            for i, (example, group, rank) in enumerate(
                zip(examples, clusters(examples), ranks, strict=True)
            )
        ]

    @cached_property
    def questions(self) -> Questions:
        """The questions, and the filter of all known triples."""
        return Questions.of(self.split)

    @cached_property
    def data(self) -> str:
        """SHA-256 over the graphs and the training and evaluation examples."""
        split, state = self.split, hashlib.sha256()
        for graph in (split.full_graph, split.train_graph, split.context_graph):
            state.update(graph.content_hash.encode())
        for part in (split.train, *split.tests.values()):
            for example in part:
                fact = (example.linked.text, example.head, example.relation, example.tail)
                state.update("\0".join(fact).encode() + b"\n")
        return state.hexdigest()


def _of_head(example: TaskExample) -> TaskExample:
    """With the link of its head alone."""
    text, (head, _) = example.linked, example.targets
    links = tuple(link for link in text.links if link.mention == head)
    return dataclasses.replace(example, linked=dataclasses.replace(text, links=links))
