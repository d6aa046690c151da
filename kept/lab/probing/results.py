"""Results of a probe: for every item its rank in both rankings, or why it has none.

Axis legend: item, candidate.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kept.errors import EvaluationError
from kg_loaders.disk.writing import write_text

Mode = Literal["weights", "graph"]
"""A model answers from its weights alone, or also from a graph that it reads: never mixed."""
RankingName = Literal["restricted", "objects"]
RANKINGS: tuple[RankingName, ...] = ("restricted", "objects")
Likelihood = Literal["at_once", "one_by_one", "left_to_right", "truth"]
TIES = "among equal scores the candidate that is first in the list comes first"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rank of an answer. `rank` counts from 1 among `n_candidates`, other right ones left out.

    `score` is the answer's, `top` the best candidates (all of them, right ones too), best first.
    `probability` is that of `top[0]`, by the softmax over the candidates' scores, and `correct`
    whether `top[0]` is right.
    """

    rank: int
    n_candidates: int
    score: float
    top: tuple[str, ...]
    probability: float
    correct: bool

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

    `group` is the item's own, else its fact, else its id: the cluster of the bootstrap.
    `asked_shown`: whether the input had a fact that joins the ends of the item's own.
    """

    id: str
    relation: str
    group: str
    subject: str
    answer: str
    restricted: Ranking | None = None
    objects: Ranking | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    asked_shown: bool = False

    def ranking(self, name: RankingName) -> Ranking | None:
        """The ranking called `name`."""
        return self.restricted if name == "restricted" else self.objects


@dataclass(frozen=True)
class ProbeResult:
    """All answers of one model in one mode, in the order of the items.

    `method` is a line of `kept.methods.METHODS`, "masked-lm" for a plain Hugging Face model,
    or "decoder". `asked_facts`: whether facts between the ends of an item's own were "hidden" or
    "shown"; "none" where only the weights answer. `likelihood`: how answers of several pieces are
    scored (see `kept.lab.probing.engine`). `left_out`: candidates that could not be ranked, by
    reason. `cut`: `kept.graphs.cuts.Cut.as_json` of the questions with one mask; None where none
    is cut.
    """

    model: str
    method: str
    mode: Mode
    asked_facts: Literal["hidden", "shown", "none"]
    likelihood: Likelihood
    answers: tuple[ProbeAnswer, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    ties: str = TIES
    cut: dict[str, int] | None = None

    def scored(self, ranking: RankingName) -> list[tuple[ProbeAnswer, Ranking]]:
        """Answers that have a rank in `ranking`, with it."""
        pairs = ((answer, answer.ranking(ranking)) for answer in self.answers)
        return [(answer, ranked) for answer, ranked in pairs if ranked is not None]

    def skipped(self, ranking: RankingName) -> dict[str, int]:
        """How many items have no rank, by reason, most frequent first."""
        counts: dict[str, int] = {}
        for answer in self.answers:
            if answer.ranking(ranking) is None:
                reason = answer.skipped[ranking]
                counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def settings(self) -> dict[str, Any]:
        """Everything but the answers."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name != "answers"}


def write_answers(result: ProbeResult, path: Path, *, force: bool = False) -> None:
    """Write JSONL: the settings in the first line, then one answer per line; atomic.

    `force` replaces a file that is there. Raises `WriteError`.
    """
    lines = [result.settings(), *(dataclasses.asdict(answer) for answer in result.answers)]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_text(path, text, force=force)


def read_answers(path: Path) -> ProbeResult:
    """What `write_answers` wrote; raises `EvaluationError` naming the faulty line."""
    *lines, rest = path.read_text(encoding="utf-8").split("\n")
    if rest:
        raise EvaluationError(f"{path}:{len(lines) + 1} is incomplete; run the probe again")
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
        except (ValueError, TypeError, KeyError) as error:
            raise EvaluationError(
                f"{path}:{number} is not an answer of a probe: {error}"
            ) from error
    try:
        return ProbeResult(**settings, answers=tuple(answers))
    except TypeError as error:
        raise EvaluationError(f"{path}:1 holds no settings of a probe: {error}") from error


def _answer(values: dict[str, Any]) -> ProbeAnswer:
    for name in RANKINGS:
        if (value := values[name]) is not None:
            values[name] = Ranking(**{**value, "top": tuple(value["top"])})
    return ProbeAnswer(**values)
