"""`python -m experiments generators CONFIG -o RUN`: perplexity with facts, others' facts, and none.

LRLM, KGLM and Guan et al.'s generator, each trained and tested under every condition and seed, one
file each; the same command goes on where it was stopped. Needs KEPT_DATA.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from experiments.command import announce, data_root, run_study
from experiments.generators.kglm import kglm_perplexity
from experiments.generators.lrlm import RecurrentPlan, lrlm_perplexity
from experiments.generators.sentences import CONDITIONS, TRUE, Split, read_sentences, split, under
from experiments.generators.stories import Stories, StoryPlan, read_triples, story_scores
from kept.decoders.generators.stories import read_glucose
from kept.evaluation.statistics import seed_interval
from kept.lab.study.cells import PlainCellTrial, page_of
from kept.lab.study.tables import Table
from kept.training.config import RunConfig

Scores = dict[str, float]
Cells = dict[str, dict[str, list[Scores]]]
"""By writer and condition, the scores of each seed."""
GLUCOSE = "stories/glucose/test_set_answer_key.no_worker_ids.csv.gz"
CONCEPTNET = "commonsense/conceptnet_li2016/train100k.txt.gz"
WRITERS = ("lrlm", "kglm", "guan")


class GeneratorStudy(RunConfig):
    """`relations` of T-REx, so many sentences of each; a share of their topics is tested."""

    seeds: list[NonNegativeInt]
    relations: list[str]
    per_relation: PositiveInt
    test_share: PositiveFloat
    recurrent: RecurrentPlan
    stories: StoryPlan


@dataclass(frozen=True, eq=False)
class GeneratorTrial(PlainCellTrial):
    """The writers of a study; data lie in `data`, cells in `folder`."""

    study: GeneratorStudy
    data: Path
    folder: Path
    announce: Callable[[str], None] = field(default=lambda text: None)
    form = Scores
    rows = tuple(f"{writer}.{condition}" for writer in WRITERS for condition in CONDITIONS)

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.study.seeds

    @cached_property
    def split(self) -> Split:
        """Sentences of T-REx."""
        study, folder = self.study, self.data / "lama" / "TREx"
        sentences = read_sentences(folder, study.relations, study.per_relation)
        return split(sentences, study.test_share, 0)

    @cached_property
    def stories(self) -> Stories:
        """GLUCOSE's stories and ConceptNet's triples."""
        plan = self.study.stories
        stories = read_glucose(self.data / GLUCOSE)
        return Stories.of(stories, read_triples(self.data / CONCEPTNET, plan.n_triples, 0),
                          plan.n_pieces)  # fmt: skip

    def scores(self, writer: str, condition: str, seed: int) -> Scores:
        """What a writer scores that was trained and tested under a condition."""
        if writer == "guan":
            return story_scores(self.stories, condition, self.study.stories, seed)
        train, test = (under(part, condition, seed) for part in (self.split.train, self.split.test))
        make = {"lrlm": lrlm_perplexity, "kglm": kglm_perplexity}[writer]
        return make(train, test, self.study.relations, self.study.recurrent, seed)

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / "cells" / f"{row}.{seed}.json"

    def run(self, row: str, seed: int) -> Scores:
        """Return the scores of a writer under a condition, with four places."""
        writer, condition = row.split(".")
        scores = self.scores(writer, condition, seed)
        self.announce(f"{writer}, {condition}, seed {seed}: {scores}")
        return {name: round(value, 4) for name, value in scores.items()}

    def cells(self) -> Cells:
        """Return every cell; all of a seed are made before the next."""
        self.run_missing()
        cells = self.stored()
        return {writer: {condition: [*cells[f"{writer}.{condition}"].values()]
                         for condition in CONDITIONS} for writer in WRITERS}  # fmt: skip


def to_markdown(cells: Cells, trial: GeneratorTrial, command: str) -> str:
    """Return the page: each measure's mean over seeds with its interval, and each seed."""
    n = [len(trial.split.train), len(trial.split.test)]
    n += map(len, trial.stories.stories.values())
    about = (
        f"LRLM and KGLM: {n[0]} sentences of T-REx to learn from, {n[1]} about other topics "
        f"to be tested on. Guan et al.: {', '.join(map(str, n[2:]))} stories of GLUCOSE to "
        "learn from, to choose by (not used) and to be tested on. Each is trained and tested "
        "under its condition. The mean over seeds with its interval of 95 % (Student's t over "
        "seeds; none of one seed), then each seed. Differences are of the same seed."
    )
    parts = []
    for writer, conditions in cells.items():
        names = list(conditions[TRUE][0])
        rows = [
            [condition, *(_mean_in_words([each[name] for each in seeds]) for name in names)]
            for condition, seeds in conditions.items()
        ]
        for control in CONDITIONS[1:]:
            pairs = list(zip(conditions[TRUE], conditions[control], strict=True))
            less = [[ours[name] - theirs[name] for ours, theirs in pairs] for name in names]
            rows.append([f"true − {control}", *map(_mean_in_words, less)])
        parts += [f"## {writer}", Table(("facts", *names), rows).markdown()]
    title = f"Writers with facts, with others' facts, and without\n<!-- written by {command} -->"
    return page_of(title, "", about, *parts)


def _mean_in_words(values: list[float]) -> str:
    digits = 1 if max(map(abs, values)) >= 10 else 3
    mean = f"{sum(values) / len(values):.{digits}f}"
    if len(values) > 1:
        interval = seed_interval(values)
        mean += f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{mean} ({', '.join(f'{v:.{digits}f}' for v in values)})"


def run(study: GeneratorStudy, arguments: argparse.Namespace) -> tuple[str, object]:
    """Make what is missing; return the page and every cell."""
    trial = GeneratorTrial(study, data_root(), arguments.out, announce)
    cells = trial.cells()
    return to_markdown(cells, trial, arguments.command), cells


if __name__ == "__main__":
    run_study(__doc__, GeneratorStudy, run)
