"""The comparison of methods as sections of a page."""

from __future__ import annotations

from pathlib import Path

from kept.completion.method_comparison import MethodComparison
from kept.completion.method_runs import MethodsConfig
from kept.completion.method_tables import (
    COSTS,
    DIFFERENCES,
    LOSSES,
    SCORES,
    cost_cells,
    difference_cells,
    loss_cells,
    score_cells,
)
from kept.methods import BASELINE, title
from kept.report.page import Section, gallery, prose, table, verdict


def method_sections(
    comparison: MethodComparison, config: MethodsConfig, folder: Path
) -> list[Section]:
    """Scores and differences by setting, then losses and costs; `folder` is that of the runs."""
    blocks = [*map(prose, _about(config, comparison))]
    if comparison.missing:
        blocks.append(verdict(f"Not finished, run again to go on: {', '.join(comparison.missing)}"))
    for setting in dict.fromkeys(row.setting for row in comparison.rows):
        rows = [row for row in comparison.rows if row.setting == setting]
        differences = [d for d in comparison.differences if d.setting == setting]
        caption = f"{setting.capitalize()}: accuracy, 95 % bootstrap intervals over entity pairs"
        blocks += [
            table(SCORES, score_cells(rows, comparison.outcomes), caption),
            table(
                DIFFERENCES,
                difference_cells(differences),
                f"{setting.capitalize()}: the method with true knowledge minus the other, on the "
                "same questions: paired bootstrap interval, sign-flip test",
            ),
        ]
    blocks.append(prose(_caution(comparison)))
    return [Section("Methods compared", tuple(blocks)), _training_section(comparison, folder)]


def _about(config: MethodsConfig, comparison: MethodComparison) -> list[str]:
    before, after = config.pretraining, config.finetuning
    stated = {name: f"{share:.0%}" for name, share in comparison.stated.items()}
    task = (
        f"Which relation joins two marked entities of a sentence? Every method is pre-trained for "
        f"{before.steps} steps on the training sentences and fine-tuned for {after.steps} steps "
        f"on their facts: host {config.host}, batches of {before.batch_size}, seed {config.seed}, "
        "the same sentences and rates for all. No graph holds a triple between two entities that "
        "are asked, and no input a triple between the two that it is about. Entity vectors and "
        "triples come from the training graph alone: of the inductive heads it knows only the "
        "names and descriptions."
    )
    kinds = (
        "Knowledge true: the method with its paper's objectives. Shuffled: the same on a graph "
        "whose objects are shuffled within each relation, in pre-training, vectors and tests. "
        "Off: no link and no triple; masked words take the place of the method's objectives then, "
        "for as many steps. The row none is the host pre-trained by masked words alone. Where a "
        "method without knowledge is none, bit by bit, it was not trained twice."
    )
    limits = (
        "Objects keep their type when they are shuffled, so that shuffled labels of pairs, which "
        "K-Adapter is pre-trained on, are fewer rather than false: a triple joins two mentions in "
        f"{stated['true']} of the training sentences of the true graph and {stated['shuffled']} "
        "of the shuffled one. With the true graph K-Adapter's pre-training asks what the task "
        "asks: what it gains may be more steps on that question. Every mention brings its one gold "
        "entity, so that KnowBERT has nothing to tell apart. KEPLER reads descriptions, which may "
        "state an asked fact and are never shuffled."
    )
    return [task, kinds, limits]


def _caution(comparison: MethodComparison) -> str:
    n = len(comparison.differences)
    return (
        f"What this shows: each method trains, and what its knowledge changed here. What it does "
        f"not show: which method is best. It is one seed, a small choice of facts, a small "
        f"host and seconds of training where the papers take days; the sentences mostly say the "
        f"relation themselves; and of {n} comparisons at 5 % about {0.05 * n:.0f} would be called "
        "a difference by chance."
    )


def _training_section(comparison: MethodComparison, folder: Path) -> Section:
    outcomes = [o for o in comparison.outcomes if not o.is_baseline]
    curves = [
        (folder / f"{o.method}-{o.knowledge}" / "pretraining" / "curves.png", title(o.method))
        for o in outcomes
        if o.knowledge == "true" or o.method == BASELINE
    ]
    return Section(
        "Methods compared: training and cost",
        (
            prose(
                "Losses are means of the first and the last five steps; class is the one of "
                "fine-tuning, the others are of pre-training. A method that reads no link when it "
                "is asked has none linked. Times are the model's, graphs being made before, in "
                "batches of 32."
            ),
            table(COSTS, cost_cells(outcomes), "What each run costs"),
            table(LOSSES, loss_cells(outcomes), "Losses"),
            prose("Pre-training of none and of each method with true knowledge:"),
            gallery(curves),
        ),
    )
