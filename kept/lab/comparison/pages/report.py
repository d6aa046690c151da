"""A comparison of an experiment's runs as one offline page, with CSV files beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kept import hosts
from kept.csv_text import csv_text
from kept.evaluation.correlation import CORRELATIONS
from kept.graphs.drawing.draw import draw_svg
from kept.graphs.graph import NodeKind
from kept.lab.comparison.compared import Compared, ComparedRow
from kept.lab.comparison.judging import Judge
from kept.lab.comparison.pages.dot_rows import picture_of
from kept.lab.comparison.pages.headline import headline
from kept.lab.comparison.pages.pictures import draw_all_curves
from kept.lab.comparison.pages.tables import (
    COSTS,
    GAINS,
    PAIRS,
    PRIMARY,
    PUBLISHED,
    SCORES,
    SHARES,
    SLICES,
    VERDICTS,
    conditions,
    cost_cells,
    gain_cells,
    pair_cells,
    primary_cells,
    published_cells,
    score_cells,
    share_cells,
    slice_kinds,
    verdict_cells,
)
from kept.lab.comparison.runs import ExperimentRuns
from kept.lab.comparison.stored import RunKey
from kept.lab.comparison.tuning import RATES
from kept.lab.report.page import Section, drawing, page, picture, prose, quoted, table, verdict
from kept.methods import BASELINE
from kept.plotting import can_draw
from kept.training.finetuning.answers import Answer
from kg_loaders.disk.writing import refuse_file, write_text

N_ITEMS = 2


@dataclass(frozen=True)
class Difference:
    """An item that a method or the baseline, and not both, has right in most seeds.

    `answers`: by arm, those of its seeds; where they disagree, with the number of seeds.
    """

    index: int
    gold: tuple[str, ...]
    answers: dict[str, str]
    is_won: bool


CSVS = ("scores", "pairs", "gains", "differences")


@dataclass(frozen=True)
class _Item:
    """The answers of an arm's seeds; `is_right`: in more than half of them."""

    gold: tuple[str, ...]
    answers: str
    is_right: bool

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> _Item:
        counts_of = [answer.counts["accuracy"] for answer in answers if answer.counts]
        n_right = sum(right == gold for right, _, gold in counts_of)
        counts = Counter(answer.predicted for answer in answers)
        parts = []
        for each in sorted(counts, key=lambda each: (-counts[each], each)):
            seeds = f" ({counts[each]} of {len(answers)})" if len(counts) > 1 else ""
            parts.append((", ".join(each) or "nothing") + seeds)
        return cls(answers[0].gold, ", ".join(parts), 2 * n_right > len(answers))


def write_report(
    compared: Compared, runs: ExperimentRuns, path: Path, *, force: bool = False
) -> list[Path]:
    """The page, and scores, pairs and differences as CSV beside it; all files written.

    `force` replaces existing files. Raises `WriteError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stem = path.with_suffix("")
    curves = stem.with_name(f"{stem.name}.curves.png")
    csvs = {name: stem.with_name(f"{stem.name}.{name}.csv") for name in CSVS}
    for each in (path, curves, *csvs.values()):
        refuse_file(each, force=force)
    methods = [row.method for row in compared.rows if row.knowledge == "true"]
    judge = Judge(runs)
    changed = {name: differences(compared, judge, name) for name in methods}
    gains = [
        [kind, *cells] for kind in slice_kinds(compared) for cells in gain_cells(compared, kind)
    ]
    tables: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]] = {
        "scores": (SCORES, score_cells(compared)),
        "pairs": (PAIRS, pair_cells(compared)),
        "gains": (("kind", *GAINS), gains),
        "differences": (
            ("method", "index", "gold", "answers", "won"),
            [
                [name, d.index, " ".join(d.gold), _answers_in_words(d), d.is_won]
                for name, rows in changed.items()
                for d in rows
            ],
        ),
    }
    written = [path]
    for name, (columns, cells) in tables.items():
        written.append(csvs[name])
        write_text(csvs[name], csv_text(columns, cells), force=force)
    pictures = [curves] if can_draw() else []
    for picture_path in pictures:
        draw_all_curves(compared, runs.folder, picture_path, force=force)
    sections = [
        Section("", (verdict(headline(compared)), *_caution(compared), *picture_of(compared))),
        *_tables(compared),
        *_rates(compared),
        Section(
            "Curves",
            tuple(
                picture(picture_path, "Losses of the task over steps") for picture_path in pictures
            ),
            folded=True,
        ),
        *[_examples(compared, runs, name, changed[name]) for name in methods if changed[name]],
        Section("Costs", (table(COSTS, cost_cells(compared), "One run of each arm"),), folded=True),
        Section("Published", _published(compared), folded=True),
    ]
    write_text(path, page(compared.experiment.name, "", sections), force=force)
    return [*written, *pictures]


def _tables(compared: Compared) -> list[Section]:
    """The numbers behind the picture, folded; a table without rows is left out."""
    kinds = slice_kinds(compared)
    gains = [table(GAINS, gain_cells(compared, kind), f"By {kind}") for kind in kinds]
    parts = {
        "Verdicts": (
            table(VERDICTS, verdict_cells(compared), "True knowledge"),
            *_primary(compared),
        ),
        "Scores": (
            prose(conditions(compared)),
            table(SCORES, score_cells(compared), "Scores"),
            table(SHARES, share_cells(compared), "Shares, means over seeds"),
        ),
        "Differences": (table(PAIRS, pair_cells(compared), "True knowledge minus the other"),),
        "Where the gain lies": (prose(SLICES), *gains) if kinds else (),
    }
    return [Section(title, blocks, folded=True) for title, blocks in parts.items()]


def differences(compared: Compared, judge: Judge, name: str) -> list[Difference]:
    """Items that one side has right in most seeds and the other in no more than half."""
    if compared.experiment.metric in CORRELATIONS:
        return []  # a number is not right or wrong
    arms = {row.knowledge: row for row in compared.rows if row.method == name}
    base = next((row for row in compared.rows if row.method == BASELINE), None)
    if base is None:
        return []
    items_of = {f"knowledge {kind}": _items(row, judge) for kind, row in arms.items()}
    items_of["none"] = _items(base, judge)
    ours, theirs = items_of["knowledge true"], items_of["none"]
    changed = []
    for index, item in ours.items():
        if index not in theirs or item.is_right == theirs[index].is_right:
            continue
        answers = {arm: items[index].answers for arm, items in items_of.items() if index in items}
        changed.append(Difference(index, item.gold, answers, is_won=item.is_right))
    return changed


def _items(row: ComparedRow, judge: Judge) -> dict[int, _Item]:
    """The answers of a row's seeds to each item."""
    by_item: dict[int, list[Answer]] = {}
    for record in row.records:
        for answer in judge.answers(record):
            if not answer.is_cut_off:
                by_item.setdefault(answer.index, []).append(answer)
    return {index: _Item.of(answers) for index, answers in by_item.items()}


def _examples(
    compared: Compared, runs: ExperimentRuns, name: str, changed: Sequence[Difference]
) -> Section:
    won = [d for d in changed if d.is_won]
    lost = [d for d in changed if not d.is_won]
    called = compared.experiment.title(name)
    blocks = [
        prose(
            f"{len(won)} items right in more than half of the seeds with {called} and not without, "
            f"{len(lost)} the other way round. The first {N_ITEMS} of each that show an entity, "
            "with the graph that the method was shown; all of them are in the CSV file."
        )
    ]
    data = runs.evaluation_data(name)
    position = {int(index): i for i, index in enumerate(data.indices.tolist())}
    tokenizer = hosts.load_tokenizer(runs.of(RunKey(name, "true", 0)).config.host)
    for word, rows in (("won", won), ("lost", lost)):
        n_shown = 0
        for each in rows:
            if n_shown == N_ITEMS:
                break
            built = data.drawn(position[each.index], epoch=0, seed=0)
            if not (built.kinds == NodeKind.ENTITY).any():
                continue
            n_shown += 1
            blocks += [
                quoted(word, data.examples[position[each.index]].linked.text),
                prose(f"Gold: {', '.join(each.gold)}. {_answers_in_words(each)}"),
                drawing(draw_svg(built, data.graph, tokenizer)),
            ]
    return Section(f"What {called} changed", tuple(blocks), folded=True)


def _answers_in_words(each: Difference) -> str:
    return "; ".join(f"{arm}: {answers}" for arm, answers in each.answers.items())


def _published(compared: Compared) -> tuple[str, ...]:
    cells = published_cells(compared.experiment)
    blocks = [table(PUBLISHED, cells, "Published")] if cells else []
    differs, notes = compared.experiment.differs, compared.experiment.notes
    lines = [f"What differs: {differs}"] if differs else []
    return (*blocks, *map(prose, (*lines, *notes)))


def _rates(compared: Compared) -> list[Section]:
    if not compared.rates:
        return []
    rates = table(RATES, compared.rates, "Chosen by each row")
    return [Section("Learning rates", (rates,), folded=True)]


def _primary(compared: Compared) -> list[str]:
    if not compared.primary:
        return []
    return [table(PRIMARY, primary_cells(compared), "The contrast that the file names")]


def _caution(compared: Compared) -> list[str]:
    notes = []
    if compared.missing:
        notes.append(verdict(f"Not finished: {'; '.join(compared.missing)}"))
    notes += [verdict(f"Left out: {name}: {why}") for name, why in compared.left_out.items()]
    notes += [verdict(f"Low coverage: {line}.") for line in compared.cautions]
    notes += [verdict(f"Below a baseline: {line}.") for line in compared.shortfalls]
    return notes
