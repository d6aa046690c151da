"""A comparison of an experiment's runs as one offline page, with CSV files beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kept import hosts
from kept.evaluation.correlation import CORRELATIONS
from kept.graphs.drawing.draw import draw_svg
from kept.graphs.graph import NodeKind
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.report.page import Section, drawing, picture, prose, quoted, verdict
from kept.lab.study.comparison_tables import (
    SLICES,
    conditions,
    cost_table,
    gain_table,
    pair_table,
    primary_table,
    published_table,
    rate_table,
    score_table,
    share_table,
    slice_kinds,
    verdict_table,
)
from kept.lab.study.design import RunKey
from kept.lab.study.judge import Judge
from kept.lab.study.pages import refuse_pages, write_pages
from kept.lab.study.pictures import draw_all_curves, picture_of
from kept.lab.study.run import Study
from kept.lab.study.tables import Table
from kept.lab.study.verdicts import Compared, ComparedRow, headline
from kept.methods import BASELINE
from kept.plotting import can_draw
from kept.training.finetuning.answers import Answer

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
    compared: Compared, study: Study[ComparisonTrial], path: Path, *, force: bool = False
) -> list[Path]:
    """Write the page, and scores, pairs, gains and differences as CSV; return all files written.

    `force` replaces existing files. Raises `WriteError`.
    """
    judge = Judge(study)
    methods = [row.method for row in compared.rows if row.knowledge == "true"]
    changed = {name: differences(compared, judge, name) for name in methods}
    tables = [score_table(compared), pair_table(compared), _all_gains(compared), _changed(changed)]
    curves = path.with_suffix("").with_name(f"{path.stem}.curves.png")
    refuse_pages(path, tables, curves, force=force)
    pictures = [curves] if can_draw() else []
    for each in pictures:
        draw_all_curves(compared, study.folder, each, force=force)
    losses = tuple(picture(each, "Losses of the task over steps") for each in pictures)
    examples = [
        _examples(compared, study.trial, name, changed[name]) for name in methods if changed[name]
    ]
    sections = [
        Section("", (verdict(headline(compared)), *_caution(compared), *picture_of(compared))),
        *_tables(compared),
        Section("Curves", losses, folded=True),
        *examples,
        Section("Costs", (cost_table(compared).html(),), folded=True),
        Section("Published", _published(compared), folded=True),
    ]
    written = write_pages(path, compared.experiment.name, sections, tables, force=force)
    return [*written, *pictures]


def _all_gains(compared: Compared) -> Table:
    """Return the gains on every kind of slice, the kind first."""
    rows, columns = list[Sequence[object]](), gain_table(compared, "").columns
    for kind in slice_kinds(compared):
        rows += [[kind, *cells] for cells in gain_table(compared, kind).rows]
    return Table(("kind", *columns), rows, name="gains")


def _changed(changed: Mapping[str, Sequence[Difference]]) -> Table:
    """Return the items that knowledge changed, a row each."""
    rows = [
        [name, each.index, " ".join(each.gold), _answers_in_words(each), each.is_won]
        for name, differences_of in changed.items()
        for each in differences_of
    ]
    return Table(("method", "index", "gold", "answers", "won"), rows, name="differences")


def _tables(compared: Compared) -> list[Section]:
    """Return the numbers behind the picture, folded; a table without rows is left out."""
    kinds = slice_kinds(compared)
    gains = [gain_table(compared, kind).html() for kind in kinds]
    scores = score_table(compared).html(), share_table(compared).html()
    parts = {
        "Verdicts": (verdict_table(compared).html(), primary_table(compared).html()),
        "Scores": (prose(conditions(compared)), *scores),
        "Differences": (pair_table(compared).html(),),
        "Where the gain is": (prose(SLICES), *gains) if kinds else (),
        "Learning rates": (rate_table(compared).html(),),
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
    compared: Compared, trial: ComparisonTrial, name: str, changed: Sequence[Difference]
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
    data = trial.evaluation_data(name)
    position = {int(index): i for i, index in enumerate(data.indices.tolist())}
    tokenizer = hosts.load_tokenizer(trial.config(RunKey(name, "true", 0)).host)
    for word, rows in (("won", won), ("lost", lost)):
        n_shown = 0
        for each in rows:
            if n_shown == N_ITEMS:
                break
            built = data.sample_graph(position[each.index], epoch=0, seed=0)
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
    table = published_table(compared.experiment)
    blocks = [table.html()] if table else []
    differs, notes = compared.experiment.differs, compared.experiment.notes
    lines = [f"What differs: {differs}"] if differs else []
    return (*blocks, *map(prose, (*lines, *notes)))


def _caution(compared: Compared) -> list[str]:
    notes = []
    if compared.missing:
        notes.append(verdict(f"Not finished: {'; '.join(compared.missing)}"))
    notes += [verdict(f"Left out: {name}: {why}") for name, why in compared.left_out.items()]
    notes += [verdict(f"Low coverage: {line}.") for line in compared.cautions]
    notes += [verdict(f"Below a baseline: {line}.") for line in compared.shortfalls]
    return notes
