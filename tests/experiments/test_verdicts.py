"""Committed verdicts, recomputed: the pages hold what the committed scores give."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats

from experiments import pages, verdicts
from kept.evaluation.crossed import Effect

FOLDER = Path(verdicts.__file__).parent
PAIRS = sorted(FOLDER.glob("*/*.pairs.csv"))


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.name.partition(".")[0])
def test_pages_are_those_of_the_committed_scores(path: Path) -> None:
    name = path.name.removesuffix(".pairs.csv")
    rows = verdicts.verdicts(path.with_name(f"{name}.scores.csv"), path)
    page = path.with_name(f"{name}.verdicts.md").read_text(encoding="utf-8")
    assert page == verdicts.page(name, rows)
    html = path.with_name(f"{name}.html")
    assert html.read_text(encoding="utf-8") == pages.rebuilt(html)  # python -m experiments.pages
    results = path.with_name(f"{name}.results.md").read_text(encoding="utf-8")
    assert f"({name}.verdicts.md)" in results


def test_completion_is_one_model_a_row() -> None:
    folder = FOLDER / "wk_completion"
    assert verdicts.one_model(folder / "results.json") == (folder / "verdicts.md").read_text()


def test_colakes_gain_by_seeds_is_the_paired_t_test() -> None:
    """The scores of wiki80's page; scipy's p of the three seeds' differences."""
    folder = FOLDER / "relation_extraction"
    rows = verdicts.verdicts(folder / "wiki80.scores.csv", folder / "wiki80.pairs.csv")
    (row,) = (row for row in rows if row[:2] == ["CoLAKE", "none"])
    expected = stats.ttest_rel([0.415, 0.494, 0.482], [0.425, 0.424, 0.411]).pvalue
    assert row[6] == f"{expected:.4f}" == "0.2452"
    assert row[-2:] == ["CoLAKE is better", "not shown"]


def test_a_verdict_is_open_where_the_answers_would_decide() -> None:
    effect = Effect(0.05, 0.0001, 0.0004, 3, 500)
    row = {"method": "A", "against": "none"}
    assert verdicts.verdict_of(effect, 0.2, 0.04, row) == "open: A by seeds alone"
    assert verdicts.verdict_of(effect, 0.04, 0.03, row) == "A is better"
    assert verdicts.verdict_of(effect, 0.2, 0.06, row) == "not shown"
