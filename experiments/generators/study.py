"""The study: every writer under every condition and seed, a file each; none is made twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from experiments.generators.entities import kglm_perplexity
from experiments.generators.relation_spans import RecurrentPlan, lrlm_perplexity
from experiments.generators.sentences import CONDITIONS, TRUE, Split, read_sentences, split, under
from experiments.generators.story_writing import Bench as Stories
from experiments.generators.story_writing import StoryPlan, read_triples, story_scores
from kept.decoders.generators.stories import read_glucose
from kept.evaluation.statistics import seed_interval
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_json

Scores = dict[str, float]
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
class Bench:
    """The study, the folder of its data and that of its run."""

    study: GeneratorStudy
    data: Path
    folder: Path
    announce: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def split(self) -> Split:
        """Sentences of T-REx."""
        study = self.study
        found = read_sentences(self.data / "lama" / "TREx", study.relations, study.per_relation)
        return split(found, study.test_share, 0)

    @cached_property
    def stories(self) -> Stories:
        """GLUCOSE's stories and ConceptNet's triples."""
        plan = self.study.stories
        key = "stories/glucose/test_set_answer_key.no_worker_ids.csv.gz"
        triples = self.data / "commonsense/conceptnet_li2016/train100k.txt.gz"
        return Stories.of(
            read_glucose(self.data / key), read_triples(triples, plan.n_triples, 0), plan.n_pieces
        )

    def scores(self, writer: str, condition: str, seed: int) -> Scores:
        """What a writer scores that was trained and tested under a condition."""
        if writer == "guan":
            return story_scores(self.stories, condition, self.study.stories, seed)
        train, test = (under(part, condition, seed) for part in (self.split.train, self.split.test))
        make = {"lrlm": lrlm_perplexity, "kglm": kglm_perplexity}[writer]
        return make(train, test, self.study.relations, self.study.recurrent, seed)

    def cell(self, writer: str, condition: str, seed: int) -> Scores:
        """The same, from the run's folder if it is there."""
        path = self.folder / "cells" / f"{writer}.{condition}.{seed}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            made = self.scores(writer, condition, seed)
            write_json(path, {name: round(value, 4) for name, value in made.items()})
            self.announce(f"{writer}, {condition}, seed {seed}: {made}")
        found: Scores = json.loads(path.read_text("utf-8"))
        return found


def run(bench: Bench) -> dict[str, dict[str, list[Scores]]]:
    """Scores by writer and condition, one a seed; all of a seed before the next."""
    found: dict[str, dict[str, list[Scores]]] = {
        writer: {condition: [] for condition in CONDITIONS} for writer in WRITERS
    }
    for seed in bench.study.seeds:
        for writer, conditions in found.items():
            for condition, cells in conditions.items():
                cells.append(bench.cell(writer, condition, seed))
    return found


def to_markdown(cells: dict[str, dict[str, list[Scores]]], bench: Bench, command: str) -> str:
    """The page: each measure's mean over seeds with its interval, and each seed."""
    parts = bench.split.train, bench.split.test, *bench.stories.stories.values()
    n = [len(part) for part in parts]
    lines = [
        "# Writers with facts, with others' facts, and without",
        f"<!-- written by {command} -->",
        "",
        (
            f"LRLM and KGLM: {n[0]} sentences of T-REx to learn from, {n[1]} about other topics "
            f"to be tested on. Guan et al.: {', '.join(map(str, n[2:]))} stories of GLUCOSE to "
            "learn from, to choose by (not used) and to be tested on. Each is trained and tested "
            "under its condition. The mean over seeds with its interval of 95 % (Student's t over "
            "seeds; none of one seed), then each seed. Differences are of the same seed."
        ),
    ]
    for writer, conditions in cells.items():
        names = list(next(iter(conditions.values()))[0])
        lines += ["", f"## {writer}", "", "| facts | " + " | ".join(names) + " |"]
        lines.append("|" + " --- |" * (len(names) + 1))
        for condition, found in conditions.items():
            shown = [_mean_in_words([each[name] for each in found]) for name in names]
            lines.append("| " + " | ".join([condition, *shown]) + " |")
        for control in CONDITIONS[1:]:
            pairs = list(zip(conditions[TRUE], conditions[control], strict=True))
            shown = [
                _mean_in_words([ours[name] - theirs[name] for ours, theirs in pairs])
                for name in names
            ]
            lines.append("| " + " | ".join([f"true − {control}", *shown]) + " |")
    return "\n".join([*lines, ""])


def _mean_in_words(values: list[float]) -> str:
    digits = 1 if max(map(abs, values)) >= 10 else 3
    mean = f"{sum(values) / len(values):.{digits}f}"
    if len(values) > 1:
        interval = seed_interval(values)
        mean += f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{mean} ({', '.join(f'{v:.{digits}f}' for v in values)})"
