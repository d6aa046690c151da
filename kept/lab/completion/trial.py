"""Runs of a word-knowledge completion: each ranks the relations of every setting.

A folder of runs is as in `kept.lab.study.store`; trained CoLAKEs lie in `pretrained/`, as those
that differ at test only share one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kept.evaluation.ranking import RankingResult
from kept.inputs.controls.conditions import COMPARED
from kept.kgc.rankers import Answers as RankedRelations
from kept.kgc.rankers import Questions, dkrl, most_frequent, triple_scorer
from kept.kgc.split import CompletionSplit
from kept.lab.comparison.items import item_traits
from kept.lab.completion.config import COLAKE, DKRL, HIDDEN, CompletionConfig
from kept.lab.study.addresses import binding_of, digests_of, run_hash
from kept.lab.study.design import Arm, RunKey
from kept.lab.study.trial import Answers, Trial
from kept.methods import BASELINE
from kept.tasks.datasets.example import TaskExample, clusters, from_relation
from kept.training.finetuning.answers import Answer
from kept.training.log import Reporter
from kg_loaders.disk.writing import claim

VERSION = 1
"""Part of every hash; raised when a default changes, as hashes leave defaults out."""
SKIPPED = "skipped"


@dataclass(frozen=True, eq=False)
class CompletionTrial(Trial):
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

    def settings(self, key: RunKey) -> dict[str, Any]:
        """See `Trial.settings`."""
        config, sources = self.config, dict[str, Any]()
        if key.method in (COLAKE, HIDDEN):
            sources = config.model_dump(mode="json", include={"builder", "masking", "n_negatives"})
            sources["training"] = binding_of(config.colake_of(key.seed).training)
        elif key.method != BASELINE:
            sources = {"recipe": config.recipes.get(key.method, {})}
        if key.method in (COLAKE, HIDDEN, DKRL):
            sources |= {"host": config.host, "folders": digests_of(config.host)}
        return {
            "version": VERSION,
            "task": "word-knowledge completion",
            "data": self.data,
            "method": key.method,
            "knowledge": key.knowledge,
            "seed": config.seed + key.seed,
            **sources,
        }

    def run(self, key: RunKey, run_folder: Path) -> Answers:
        """See `Trial.run`. UnfinishedError: a training's own budget ended it."""
        started, rows, ranked = time.monotonic(), list[Answer](), self._ranked(key)
        for name, ranks in ranked.results.items():
            rows += self._rows(name, ranks)
        scores = {
            name: ranks.conditions() | ranks.metrics() for name, ranks in ranked.results.items()
        }
        scores |= {name: {SKIPPED: why} for name, why in ranked.skipped.items()}
        return Answers(rows, scores, {"seconds": time.monotonic() - started})

    def trained(self, key: RunKey) -> Path:
        """The folder of a run's CoLAKE; that with true facts where only the test hides them."""
        trained_key = key if key.method == COLAKE else RunKey(COLAKE, "true", key.seed)
        return self.folder / "pretrained" / run_hash(self.settings(trained_key))

    def _ranked(self, key: RunKey) -> RankedRelations:
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
        return run.rank(model, split, self.questions, knowledge=key.knowledge)

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
