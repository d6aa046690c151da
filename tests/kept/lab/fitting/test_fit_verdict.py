"""The verdict of a fit, by what was measured."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kept.lab.fitting.data import Coverage
from kept.lab.fitting.verdict import Findings, verdict

FULL = Coverage("mentions", 100, 1.0, 1.0, 0.0)
SPARSE = Coverage("mentions", 100, 0.12, 0.12, 0.0)
ENTITY_ALONE = Coverage("mentions", 100, 0.9, 0.1, 0.0)
TWINS = Coverage("mentions", 100, 1.0, 1.0, 0.8)


@pytest.mark.parametrize(
    ("fields", "coverage", "key", "words"),
    [
        ({"score": 0.91, "none": 0.22, "wrong": 0.19}, FULL, "decides",
         "knowledge decides: 0.91 against 0.22 without; with another entity's facts 0.19"),
        ({"score": 0.6, "none": 0.22, "wrong": 0.2}, SPARSE, "decides", "add aliases"),
        ({"score": 0.9, "none": 0.5, "wrong": 0.88}, FULL, "not-facts", "something other"),
        ({"score": 0.5, "none": 0.6, "wrong": 0.4}, FULL, "no-gain", "does not help"),
        ({"score": 0.62, "none": 0.6, "wrong": 0.4}, FULL, "unclear", "may help"),
        ({"score": 0.24, "none": 0.2, "wrong": 0.2}, FULL, "unclear", "on 100 test items"),
        ({"score": 0.26, "none": 0.2, "wrong": 0.2}, FULL, "decides", "0.26 against 0.20"),
        ({"score": 0.2, "none": 0.1, "wrong": 0.1}, FULL, "nothing-learned", "gets 0.20"),
        ({"score": 0.26, "none": 0.26}, FULL, "no-gain", "the text decides: 0.26"),
        ({"score": 0.15, "none": 0.1, "wrong": 0.1}, FULL, "nothing-learned", "0.20"),
        ({"score": 0.98, "none": 0.98}, FULL, "text-decides", "the text decides"),
        ({"score": 0.98, "none": 0.98}, SPARSE, "low-coverage", "covers 12% of the mentions"),
        ({"score": 0.6, "none": 0.6}, ENTITY_ALONE, "low-coverage", "add triples"),
        ({"score": 0.6, "none": 0.6}, TWINS, "no-gain", "several entities of that name"),
        ({"score": 0.21, "none": 0.21}, SPARSE, "nothing-learned", "add aliases"),
        ({"score": 0.21, "none": 0.21}, FULL, "nothing-learned", "label more texts"),
        ({"score": 0.95, "none": 0.95, "majority": 0.95}, FULL, "nothing-learned",
         "95% of the test examples have the same label"),
        ({"score": 0.98, "none": 0.98, "majority": 0.95}, FULL, "text-decides", "the text decides"),
    ],
)  # fmt: skip
def test_findings_have_a_verdict_and_a_remedy(
    fields: dict[str, Any], coverage: Coverage, key: str, words: str
) -> None:
    outcome = verdict(Findings(**{"majority": 0.2, "wrong": None, "n": 100, **fields},
                             coverage=coverage))  # fmt: skip
    assert outcome.key == key
    assert words in f"{outcome.verdict}. {outcome.remedy}"
    assert str(outcome).endswith(".")


def test_a_verdict_names_a_remedy_where_more_of_the_graph_could_help() -> None:
    def sentence(score: float, coverage: Coverage) -> str:
        return str(verdict(Findings(score, 0.2, 0.2, 0.1, 100, coverage)))

    decides = "Knowledge decides: 0.60 against 0.20 without; with another entity's facts 0.10."
    assert sentence(0.6, FULL) == decides
    assert sentence(0.6, ENTITY_ALONE) == (
        f"{decides} 90% of the mentions are linked and 10% have facts: add triples about them."
    )
    assert sentence(0.9, ENTITY_ALONE).endswith("facts 0.10."), "good enough as it is"
    n_and_noise = {100: 0.098, 1: 0.98, 0: 0.98}
    for n, noise in n_and_noise.items():
        assert Findings(0, 0, 0, 0, n, FULL).noise == pytest.approx(noise)


def test_names_that_training_has_are_not_the_text() -> None:
    findings = Findings(
        score=1.0, none=1.0, majority=0.2, wrong=None, n=30, coverage=FULL, from_memory=30
    )
    outcome = verdict(findings)
    assert outcome.key == "memory"
    assert "30 of 30 test names are in training" in str(outcome)
    assert "keeps the rows of a name together" in outcome.remedy
    assert verdict(dataclasses.replace(findings, from_memory=15)).key == "text-decides"
    assert verdict(dataclasses.replace(findings, from_memory=16)).key == "memory"
