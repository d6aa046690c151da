"""Negated, misprimed and paraphrased questions, and facts without helpful names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from entity_linking.mentions import LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.items.collections import read_collection, trex_facts
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.items.masked_sentences import facts_by_name, read_altered, read_squad
from kept.lab.probing.items.names import name_questions, without_helpful_names
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking
from kept.lab.probing.robustness import altered, consistency, rank_correlation
from kg_loaders.damage import DamagePolicy, DamageReport
from tests.kept.tiny_lama import ALTERED, jsonl, write_lama, write_tar

PART = "TREx/high_ranked"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_lama(tmp_path / "lama")


def result(rows: Sequence[tuple[str, str, str, int | None, str]]) -> ProbeResult:
    """Answers of (id, relation, group, rank, names best first)."""
    answers = tuple(
        ProbeAnswer(id, relation, group, "s", "a", restricted=None if rank is None
                    else Ranking(rank, 9, 0.0, tuple(top.split()), 0.5, rank == 1))
        for id, relation, group, rank, top in rows
    )  # fmt: skip
    return ProbeResult("m", "none", "weights", "none", "at_once", answers)


# ---- readers -----------------------------------------------------------------
def test_squad_leaves_out_two_masks(folder: Path) -> None:
    report = DamageReport()
    items = list(read_squad(folder / "Squad/test.jsonl", report))
    assert [(item.id, item.linked.text, item.subject) for item in items] == [
        ("s1", "the river is [Y]", ""), ("s3", "people lies [Y]", ""),
    ]  # fmt: skip
    assert report.skipped == {"not exactly one [MASK]": 1}
    report.check()


def test_altered_questions_with_and_without_identifiers(folder: Path) -> None:
    known = facts_by_name(trex_facts(folder))
    altered_items = list(
        read_altered(folder / "primed_negated.tar.gz", report := DamageReport(), inside=PART,
                     facts=known)
    )  # fmt: skip
    report.check()
    paris, berlin, nowhere = altered_items
    assert (paris.prime, berlin.prime) == ("Ibm", "old")
    assert paris.negated is not None
    assert paris.negated.linked.text == "Paris lies not in [Y] ."
    assert paris.misprimed.linked.text == "Ibm? ? Paris lies in [Y] ."
    for item in (paris.original, paris.negated, paris.misprimed):
        (link,) = item.linked.links
        assert item.linked.text[link.mention.start : link.mention.end] == "Paris"
        assert (link.entity, item.group) == ("Q90", "P17-0")
        assert item.fact == ("Q90", "P17", "Q142")
    assert berlin.negated is None
    assert (nowhere.original.fact, nowhere.original.linked.links) == (None, ())


def test_a_faulty_altered_question_is_rejected(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in jsonl(ALTERED[:1] * 3).splitlines()]
    rows[0]["masked_negations"] = ["nothing hidden"]
    rows[1]["masked_misprimed"] = ["Prime Paris lies in [MASK] ."]
    write_tar(tmp_path / "p.tar.gz", {"TREx/high_ranked/P17.jsonl": jsonl(rows)})
    report = DamageReport(DamagePolicy.SKIP)
    assert len(list(read_altered(tmp_path / "p.tar.gz", report, inside=PART))) == 1
    assert [rejection.line for rejection in report.rejections] == [1, 2]
    report.check()


# ---- names -------------------------------------------------------------------
def person(id: str, relation: str, subject: str, answer: str) -> ClozeItem:
    text = f"{subject} of [Y]"
    hole = Mention(len(text) - 3, len(text))
    return ClozeItem(id, relation, LinkedText(text, ()), hole, subject, answer)


def test_each_part_of_a_name_is_asked_once() -> None:
    items_of_name = name_questions(person("1", "P103", "Jean Marc Jean", "French"))
    assert [item.linked.text for item in items_of_name] == [
        "Jean is a common name in the following language: [Y].",
        "Marc is a common name in the following language: [Y].",
    ]
    assert all(item.linked.text[item.hole.start : item.hole.end] == "[Y]" for item in items_of_name)
    assert name_questions(person("1", "P101", "Jean Marc", "French")) == []


def test_both_filters_and_what_they_count() -> None:
    items = [
        person("inside", "P101", "Nintendo 64", "nintendo"),
        person("guessed", "P103", "Jean Marais", "French"),
        person("not guessed", "P103", "Kim Li", "French"),
        person("other relation", "P101", "Jean Marais", "film"),
        person("not ranked", "P19", "Jean Marais", "Cherbourg-en-Cotentin"),
    ]

    def ranks(items: Sequence[ClozeItem]) -> list[int | None]:
        ranks_ = []
        for item in items:
            known = None if "Cherbourg" in item.answer else 9
            ranks_.append(3 if item.subject == "Jean" and item.relation == "P103" else known)
        return ranks_

    left = without_helpful_names(items, ranks, model="m", candidates="words")
    assert [item.id for item in left.items] == ["not guessed", "other relation", "not ranked"]
    assert (left.n_asked, left.n_string, left.n_name, left.n_unranked) == (5, 1, 1, 1)
    assert "by m (first 3 of words)" in str(left)
    stricter = without_helpful_names(items, ranks, model="m", candidates="words", top=2)
    assert len(stricter.items) == 4


# ---- consistency -------------------------------------------------------------
def test_consistency_by_hand() -> None:
    rows = [
        ("1", "P1", "f", 1, "x y"), ("2", "P1", "f", 1, "x y"), ("3", "P1", "f", 2, "y x"),
        ("4", "P1", "g", 1, "z"), ("5", "P1", "g", 1, "z"), ("6", "P1", "alone", 1, "z"),
        ("7", "P2", "h", 2, "q"), ("8", "P2", "h", 2, "q"), ("9", "P2", "k", 1, "z"),
        ("10", "P2", "k", None, ""),
    ]  # fmt: skip
    outcome = consistency(result(rows), "restricted", seed=0)
    first, second = outcome.relations
    assert (first.n_facts, first.n_pairs, first.right) == (2, 4, 0.8)
    assert first.consistent == pytest.approx((1 / 3 + 1) / 2)
    assert (first.consistent_and_right, second.consistent_and_right) == (0.5, 0.0)
    assert (second.n_facts, second.consistent, outcome.n_single) == (1, 1.0, 2)
    assert outcome.consistent.estimate == pytest.approx((2 / 3 + 1) / 2)
    assert outcome.consistent_and_right.estimate == pytest.approx(0.25)


def test_consistency_is_sure_where_all_agree() -> None:
    names = ["P1"] * 3 + ["P2"] * 60
    rows = [(f"{i} {k}", name, str(i), 1, "x") for i, name in enumerate(names) for k in "ab"]
    outcome = consistency(result(rows), "restricted", seed=0)
    for one in (outcome.consistent, outcome.consistent_and_right):
        assert (one.estimate, one.low, one.high) == (1, 1, 1)


def test_consistency_needs_paraphrases() -> None:
    with pytest.raises(EvaluationError, match="two facts"):
        consistency(
            result([("1", "P1", "f", 1, "x"), ("2", "P1", "f", 1, "x")]), "restricted", seed=0
        )


# ---- negated and misprimed -----------------------------------------------------
def test_altered_answers_by_hand(folder: Path) -> None:
    items = list(read_altered(folder / "primed_negated.tar.gz", DamageReport(), inside=PART))
    rows = [
        ("P17-0", "P17", "0", 1, "x y z"), ("P17-0/negated", "P17", "0", 2, "y x z"),
        ("P17-0/misprimed", "P17", "0", 2, "ibm x z"),
        ("P17-1", "P17", "1", 1, "x y z"), ("P17-1/misprimed", "P17", "1", 1, "x old z"),
        ("P17-2", "P17", "2", 3, "z y x"), ("P17-2/negated", "P17", "2", 3, "z y x"),
        ("P17-2/misprimed", "P17", "2", None, ""),
    ]  # fmt: skip
    outcome = altered(items, result(rows), "restricted", seed=0)
    assert (outcome.n_negated, outcome.n_misprimed, outcome.n_not_ranked) == (2, 2, 0)
    assert outcome.same_when_negated.estimate == 0.5
    assert outcome.right_when_negated.estimate == 0.0
    assert (outcome.right.estimate, outcome.right_when_misprimed.estimate) == (1.0, 0.5)
    assert outcome.prime_answered.estimate == 0.5
    assert outcome.rank_correlation is not None
    assert outcome.rank_correlation.estimate == pytest.approx((0.5 + 1) / 2)
    with pytest.raises(EvaluationError, match="0 negated and 1 misprimed"):
        altered(items[1:2], result(rows[3:]), "restricted", seed=0)


def test_rank_correlation_is_spearmans() -> None:
    draws = np.random.default_rng(0)
    names = [f"n{i}" for i in range(30)]
    for _ in range(5):
        order = draws.permutation(30)
        other = [names[i] for i in order]
        expected = spearmanr(np.arange(30), np.argsort(order)).statistic
        assert rank_correlation(names, other) == pytest.approx(expected)
    with pytest.raises(EvaluationError, match="same two names"):
        rank_correlation(names, names[:-1])


@pytest.mark.data
def test_counts_of_the_real_altered_questions(data_root: Path) -> None:
    known = facts_by_name(trex_facts(data_root / "lama"))
    archive = data_root / "lama/primed_negated.tar.gz"
    counts = {
        part: len(list(read_altered(archive, DamageReport(), inside=part, facts=known)))
        for part in ("TREx/high_ranked", "TREx/low_ranked", "TREx/random", "SQUAD/random",
                     "ConceptNet/low_ranked")
    }  # fmt: skip
    assert counts == {
        "TREx/high_ranked": 10_469, "TREx/low_ranked": 10_469, "TREx/random": 10_469,
        "SQUAD/random": 51, "ConceptNet/low_ranked": 146,
    }  # fmt: skip


@pytest.mark.data
def test_the_first_filter_on_real_facts(data_root: Path) -> None:
    items = read_collection("trex", data_root / "lama", DamageReport())
    left = without_helpful_names(
        items, lambda asked_items: [None] * len(asked_items), model="m", candidates="w"
    )
    assert (left.n_string, left.n_name, len(left.items)) == (2_624, 0, 20_257)
