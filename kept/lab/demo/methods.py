"""Every method on the demo's sentences: the experiment `atlas`, and its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from entity_linking.annotations import write_jsonl
from kept.errors import CheckpointError
from kept.inputs.controls.conditions import Knowledge
from kept.kgc.split import CompletionSplit
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.report.page import Section, picture, prose, verdict
from kept.lab.study.comparison_tables import (
    conditions,
    cost_table,
    pair_table,
    score_table,
    verdict_table,
)
from kept.lab.study.pictures import draw_all_curves
from kept.lab.study.verdicts import Compared
from kept.tasks.datasets.atlas import write_atlas
from kept.training.log import Reporter

METHODS = "methods"
SETTINGS = {"dev": "transductive", "test": "inductive"}
CONTROLS: tuple[Knowledge, ...] = ("shuffled", "off")


def write_task(folder: Path, split: CompletionSplit) -> None:
    """The files of the experiment `atlas` into `folder/atlas`: sets, and texts to read before.

    Every third training text is read before the task; the facts of the others are trained on.
    """
    target = folder / "atlas"
    target.mkdir(exist_ok=True)
    texts = {example.linked.text: example.linked for example in split.train}
    before = dict(list(texts.items())[::3])
    write_jsonl(before.values(), target / "texts.jsonl", force=True)
    train = [example for example in split.train if example.linked.text not in before]
    for name, examples in {"train": train, **split.tests}.items():
        write_atlas(target / f"{name}.jsonl", examples)


def compare_methods(
    experiment: Experiment,
    methods: Sequence[str],
    folder: Path,
    *,
    announce: Callable[[str], None],
    reporter: Reporter | None,
    should_stop: Callable[[], bool],
) -> tuple[Compared, ...]:
    """Compare both settings; a run answers both, so that the second trains nothing.

    Raises CheckpointError for a folder of runs that version 0.1 made.
    """
    runs = folder / METHODS
    if old := sorted(runs.glob("*/outcome.json")):
        raise CheckpointError(
            f"{old[0].parent} is a run of kept 0.1, which compared methods in another way; remove "
            f"{runs} and run kept demo --methods again"
        )
    name = f"{experiment.name}-inductive"
    inductive = experiment.model_copy(update={"name": name, "asked": "test"})
    return tuple(
        compare(
            each, root=folder, folder=runs, methods=methods, controls=CONTROLS, seeds=1,
            announce=announce, reporter=reporter, should_stop=should_stop,
        )
        for each in (experiment, inductive)
    )  # fmt: skip


def method_sections(comparisons: Sequence[Compared], runs: Path) -> list[Section]:
    """Verdicts, scores, differences by setting; costs and curves. `runs` is the runs' folder."""
    sections = []
    for compared in comparisons:
        if not compared.rows:
            continue
        setting, n = SETTINGS[compared.experiment.asked], len(compared.pairs)
        missing = f"Not finished, run the command again to resume: {'; '.join(compared.missing)}"
        chance = (
            "What this shows: each method trains, and what its knowledge changed here. Not which "
            f"method is best: it is one seed, and of {n} comparisons at 5 % about {0.05 * n:.0f} "
            "would be called a difference by chance if they were not corrected."
        )
        blocks = (
            prose(conditions(compared)),
            *([verdict(missing)] if compared.missing else []),
            *(verdict(f"Left out: {name}: {why}") for name, why in compared.left_out.items()),
            verdict_table(compared).html(),
            score_table(compared).html(),
            pair_table(compared).html(),
            *map(
                prose,
                filter(None, (chance, compared.experiment.differs, *compared.experiment.notes)),
            ),
        )
        sections.append(Section(f"Methods compared: {setting}", blocks))
    if sections:
        curves = runs / "curves.png"
        draw_all_curves(comparisons[0], runs, curves, force=True)
        costs = cost_table(comparisons[0]).html()
        blocks = (costs, picture(curves, "Losses of the task over steps"))
        sections.append(Section("Methods compared: training and cost", blocks))
    return sections
