"""What a fit has shown, in one sentence, and what to do about it, in another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kept.lab.fitting.data import Coverage

COVERED = 0.5
"""Share of mentions with facts below which the graph cannot decide."""
AMBIGUOUS = 0.3
GOOD = 0.9
UNEVEN = 0.8
"""Share of one label above which the others are too rare to be learned."""
SHARE_KEPT = 0.5
"""A gain of which another entity's facts keep more than this share is not one of facts."""
PAGE = "docs/how-to/fit.md"


@dataclass(frozen=True)
class Findings:
    """Scores on test: of the chosen model, without knowledge, always the most frequent answer, and
    of the chosen model shown another entity's facts (None: it reads none).

    `n` are the test items, `from_memory` those about a name that training has; `rival_on_dev` and
    `none_on_dev` are scores of the best method and of the model without the graph when they were
    chosen.
    """

    score: float
    none: float
    majority: float
    wrong: float | None
    n: int
    coverage: Coverage
    rival_on_dev: float | None = None
    none_on_dev: float | None = None
    from_memory: int = 0

    @property
    def noise(self) -> float:
        """Half the width of a 95 % interval of a share of `n` items, at worst."""
        return 1.96 * math.sqrt(0.25 / max(1, self.n))


@dataclass(frozen=True)
class Verdict:
    """A key for programs, the verdict, and the remedy ("" where none is needed)."""

    key: str
    verdict: str
    remedy: str = ""

    def __str__(self) -> str:
        parts = [self.verdict, self.remedy] if self.remedy else [self.verdict]
        return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def verdict(findings: Findings) -> Verdict:
    """Return the verdict on `findings`."""
    if findings.wrong is not None:
        return _with_knowledge(findings, findings.wrong)
    return _without_knowledge(findings)


def _with_knowledge(findings: Findings, wrong: float) -> Verdict:
    scores = (
        f"{findings.score:.2f} against {findings.none:.2f} without; with another entity's facts "
        f"{wrong:.2f}"
    )
    gain = findings.score - findings.none
    if findings.score <= findings.majority:
        return _nothing_learned(findings)
    if gain <= 0:
        return Verdict("no-gain", f"knowledge does not help on test: {scores}", _cause(findings))
    if wrong - findings.none > SHARE_KEPT * gain:
        return Verdict(
            "not-facts",
            f"something other than the facts helps: {scores}",
            "the gain is the same with facts of other entities, so train without the "
            "graph (--methods none)",
        )
    if gain < findings.noise / 2:
        return Verdict(
            "unclear",
            f"knowledge may help: {scores}, on {findings.n} test items",
            "label more texts, or give --seeds 3",
        )
    return Verdict("decides", f"knowledge decides: {scores}", _limits(findings))


def _without_knowledge(findings: Findings) -> Verdict:
    is_near = findings.score <= findings.majority + findings.noise / 2
    if findings.score <= findings.majority or (is_near and findings.score < GOOD):
        return _nothing_learned(findings)
    best = "" if findings.rival_on_dev is None else (
        f"; on dev {findings.none_on_dev:.2f} without knowledge, {findings.rival_on_dev:.2f} with "
        "the best method"
    )  # fmt: skip
    if findings.from_memory > findings.n / 2 and findings.score >= GOOD:
        return Verdict(
            "memory",
            f"names decide: {findings.score:.2f} without knowledge, and {findings.from_memory} of "
            f"{findings.n} test names are in training, too{best}",
            "to see whether the graph decides for new names, leave out the column of splits (kept "
            "fit then keeps the rows of a name together), or put each name into one split",
        )
    text = f"the text decides: {findings.score:.2f} without knowledge{best}"
    if findings.coverage.with_facts < COVERED:
        return Verdict("low-coverage", text, _cause(findings))
    if findings.score >= GOOD:
        return Verdict("text-decides", text)
    return Verdict("no-gain", text, _cause(findings))


def _nothing_learned(findings: Findings) -> Verdict:
    text = (
        f"nothing was learned: {findings.score:.2f}, and always the most frequent answer gets "
        f"{findings.majority:.2f}"
    )
    if findings.majority > UNEVEN:
        return Verdict(
            "nothing-learned",
            text,
            f"{findings.majority:.0%} of the test examples have the same label: label more texts "
            "of the other classes",
        )
    return Verdict("nothing-learned", text, _cause(findings))


def _limits(findings: Findings) -> str:
    is_short = findings.coverage.with_facts < 1 - findings.noise
    return _cause(findings) if findings.score < GOOD and is_short else ""


def _cause(findings: Findings) -> str:
    """The likeliest cause, with what to do."""
    coverage = findings.coverage
    if coverage.linked < COVERED:
        return (
            f"the graph covers {coverage.linked:.0%} of the {coverage.of}: add aliases or entities "
            f"(kept kg build --aliases FILE), see {PAGE}"
        )
    if coverage.with_facts < COVERED:
        return (
            f"{coverage.linked:.0%} of the {coverage.of} are linked and {coverage.with_facts:.0%} "
            "have facts: add triples about them"
        )
    if coverage.ambiguous > AMBIGUOUS:
        return (
            f"{coverage.ambiguous:.0%} of the {coverage.of} may be one of several entities of that "
            "name: link by hand (column mentions), or train a linker (kept link train)"
        )
    return (
        "the graph may not hold what decides the labels, or not as a fact of the mention "
        "itself, or the examples may be too few: look at what is read (kept explore), add facts, "
        "label more texts, or give a longer --budget"
    )
