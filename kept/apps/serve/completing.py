"""Triples with a gap, completed by a scorer over a graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kept.evaluation.ranking import HasScores
from kept.kgc.completers.folders import is_completer, open_completer
from kept.kgc.completers.texts.literals import with_literals
from kept.kge.calibration import Calibration
from kept.kge.prediction import best_answers, by_identifiers
from kept.kge.splits import Seen, Splits, read_splits
from kept.kge.trained import load_scorer, read_description, read_seen


@dataclass(frozen=True, eq=False)
class Completion:
    """A scorer over the triples that it answers about."""

    splits: Splits
    scorer: HasScores
    seen: Seen
    calibration: Calibration | None = None
    is_inductive: bool = False

    def best(self, head: str, relation: str, tail: str, n: int) -> dict[str, Any]:
        """Return the best answers for the slot "?" (see `best_answers`); names may be labels."""
        question = by_identifiers(self.splits.graph, (head, relation, tail))
        answers = best_answers(
            self.scorer, self.splits, self.seen, question, n=n, untrained=self.is_inductive,
            calibration=self.calibration,
        )  # fmt: skip
        return asdict(answers)


def open_completion(kg: Path, model: Path) -> Completion:
    """Return the scorer in `model` over the triples of `kg`; an inductive one takes any graph."""
    training = read_description(model)["training"]
    splits = read_splits(kg, holdout=training.get("holdout", 0.05), seed=training.get("seed", 0))
    if training.get("literals", False):
        splits = with_literals(splits, kg)
    stored = training.get("calibration")
    calibration = None if stored is None else Calibration.from_json(stored)
    if is_completer(model):
        scorer = open_completer(model).completer.on(splits.graph, splits.train)
        return Completion(splits, scorer, splits.seen, calibration, is_inductive=True)
    scorer_alone = load_scorer(model, splits.graph).scorer
    return Completion(splits, scorer_alone, read_seen(model, splits), calibration)
