"""Cloze ranking: windows, ties, restricted lists, reasons for leaving a sample out."""

from __future__ import annotations

from tests.reference.original_cloze import filter_samples, rank_cloze, restricted_ids, word_forms


def test_ranks_within_a_list_and_a_window() -> None:
    logits = [0.5, 3.0, 1.0, 2.0]
    whole = rank_cloze(logits, 2, candidate_ids=None, top=None)
    assert (whole.rank, whole.ranked_ids, whole.gold_score) == (3, (1, 3, 2, 0), 1.0)
    assert (whole.hit(1), whole.hit(3), whole.reciprocal) == (0.0, 1.0, 1 / 3)
    assert rank_cloze(logits, 2, candidate_ids=[0, 2], top=None).rank == 1
    for outside in (
        rank_cloze(logits, 2, candidate_ids=None, top=2),
        rank_cloze(logits, 2, candidate_ids=[0, 1], top=None),
    ):
        assert (outside.rank, outside.reciprocal, outside.hit(10)) == (None, 0.0, 0.0)


def test_ties_go_to_the_earlier_entry() -> None:
    assert rank_cloze([1.0, 1.0, 1.0], 0, candidate_ids=[2, 0, 1], top=None).ranked_ids == (2, 0, 1)


def test_forms_keep_their_token_ids() -> None:
    forms = word_forms([" a", "a", " a", " a", "a"])
    assert forms == ["a", "_a_", "a_2", "a_3", "_a__4"]
    assert restricted_ids(forms, ["a_3", "nowhere", "a"]) == [3, 0]


def test_every_reason_is_counted() -> None:
    forms = ["New", "York", "Rome", "_me_"]
    pieces = {"New York": [0, 1], "Rome": [2], "York": [3]}
    samples = [
        {"sub_label": "s", "obj_label": "New York"},
        {"obj_label": "Rome"},
        {"sub_label": "s", "obj_label": "Oslo"},
        {"sub_label": "s", "obj_label": "York"},
        {"sub_label": "s", "obj_label": "Rome", "judgments": [{"judgment": "no"}]},
    ]
    kept, skipped = filter_samples(
        samples, words=["New", "York", "Rome"], forms=forms, encode=pieces.__getitem__
    )
    assert kept == samples[:1]
    assert skipped == {
        "no subject or object": 1,
        "object outside the word list": 1,
        "object is not spelled by its tokens": 1,
        "judged wrong": 1,
    }
