"""What a probe returns: for every item its rank in both rankings, or why it has none.

Axis legend: item, candidate.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kept.errors import EvaluationError

Mode = Literal["weights", "graph"]
"""A model answers from its weights alone, or from a graph that it reads, too: never mixed."""
RankingName = Literal["restricted", "objects"]
RANKINGS: tuple[RankingName, ...] = ("restricted", "objects")
Likelihood = Literal["at_once", "one_by_one"]
TIES = "of equal scores the candidate that stands earlier in the list comes first"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Where the answer came. `rank` counts from 1 among `n_candidates`, other right ones left out.

    `score` is the answer's, `top` the best candidates (all of them, right ones too), best first.
    `probability` is that of `top[0]`: the softmax over the candidates' scores.
    """

    rank: int
    n_candidates: int
    score: float
    top: tuple[str, ...]
    probability: float

    @property
    def reciprocal(self) -> float:
        """1 / rank."""
        return 1 / self.rank

    def hit(self, k: int) -> float:
        """1 when the answer is among the first `k`."""
        return float(self.rank <= k)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """One item's answer. `skipped` says for each ranking that is None why it is.

    `group` is the item's own, else its fact, else its id: what a bootstrap draws together.
    `asked_shown`: in mode "graph", whether a fact that joins subject and answer was shown.
    """

    id: str
    relation: str
    group: str
    subject: str
    answer: str
    restricted: Ranking | None = None
    objects: Ranking | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    asked_shown: bool | None = None

    def ranking(self, name: RankingName) -> Ranking | None:
        """The ranking called `name`."""
        return self.restricted if name == "restricted" else self.objects


@dataclass(frozen=True)
class ProbeResult:
    """All answers of one model in one mode, in the order of the items.

    `method` is a line of `kept.methods.METHODS`, or "masked-lm" for a plain Hugging Face model.
    `asked_facts`: whether facts between subject and answer were "hidden" or "shown"; "none" where
    the mode shows no facts. `likelihood`: how answers of several pieces are scored (see
    `kept.probing.engine.probe`).
    """

    model: str
    method: str
    mode: Mode
    asked_facts: Literal["hidden", "shown", "none"]
    likelihood: Likelihood
    answers: tuple[ProbeAnswer, ...]
    ties: str = TIES

    def scored(self, ranking: RankingName) -> list[tuple[ProbeAnswer, Ranking]]:
        """Answers that have a rank in `ranking`, with it."""
        pairs = ((answer, answer.ranking(ranking)) for answer in self.answers)
        return [(answer, found) for answer, found in pairs if found is not None]

    def skipped(self, ranking: RankingName) -> dict[str, int]:
        """How many items have no rank, by reason, most frequent first."""
        counts: dict[str, int] = {}
        for answer in self.answers:
            if answer.ranking(ranking) is None:
                reason = answer.skipped[ranking]
                counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def settings(self) -> dict[str, str]:
        """Everything but the answers."""
        return {
            name: getattr(self, name)
            for name in ("model", "method", "mode", "asked_facts", "likelihood", "ties")
        }


def write_answers(result: ProbeResult, path: Path) -> None:
    """JSONL: the settings in the first line, then an answer a line."""
    lines = [result.settings(), *(dataclasses.asdict(answer) for answer in result.answers)]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def read_answers(path: Path) -> ProbeResult:
    """What `write_answers` wrote; raises `EvaluationError` naming the faulty line."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if not lines:
        raise EvaluationError(f"{path} is empty; write it with write_answers or kept probe")
    settings: dict[str, Any] = {}
    answers = []
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            if number == 1:
                settings = values
            else:
                answers.append(_answer(values))
        except (ValueError, TypeError) as error:
            raise EvaluationError(f"{path}:{number} is no answer of a probe: {error}") from error
    try:
        return ProbeResult(**settings, answers=tuple(answers))
    except TypeError as error:
        raise EvaluationError(f"{path}:1 holds no settings of a probe: {error}") from error


def _answer(values: dict[str, Any]) -> ProbeAnswer:
    for name in RANKINGS:
        if (found := values[name]) is not None:
            values[name] = Ranking(**{**found, "top": tuple(found["top"])})
    return ProbeAnswer(**values)


def merged(results: Iterable[ProbeResult]) -> ProbeResult:
    """Answers of several probes as one; raises `EvaluationError` unless their settings agree."""
    parts = list(results)
    if not parts:
        raise EvaluationError("there is no result to merge")
    for part in parts[1:]:
        if part.settings() != parts[0].settings():
            raise EvaluationError(
                f"results of different probes never mix: {parts[0].settings()} and "
                f"{part.settings()}"
            )
    return dataclasses.replace(parts[0], answers=tuple(_answers(parts)))


def _answers(results: Iterable[ProbeResult]) -> Iterator[ProbeAnswer]:
    for result in results:
        yield from result.answers
