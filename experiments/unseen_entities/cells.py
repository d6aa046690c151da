"""A cell: every row of the table on a world under a seed, as the ranks of the right answers.

Each network is trained once. A mix weighs the scores of its parts, divided by their spread on
validation; its weights, one of each part and direction, make validation's answers likeliest, as
those of `kept.kgc.mixing` do. What a control reads of the test it also reads of validation, so
that its mix may learn to ignore it.

Axis legend: question, part (of a mix), candidate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from experiments.unseen_entities.paths import (
    PathScorer,
    PathSettings,
    make_path_model,
    train_paths,
)
from experiments.unseen_entities.texts import (
    CONTROLS,
    TextReader,
    TextScorer,
    TextSettings,
    control_rows,
    train_text,
)
from experiments.unseen_entities.worlds import (
    TEST,
    TEXT_KINDS,
    VALID,
    SplitGraph,
    with_facts,
)
from kept.evaluation.ranking import SLOTS, Direction
from kept.kge.inductive import DegreeScorer, PageRankScorer

SIDES: tuple[Direction, ...] = ("head", "tail")
FITTED = {
    "text + ULTRA": ("text", "ULTRA"),
    "text + NBFNet": ("text", "NBFNet"),
    "ULTRA + NBFNet": ("ULTRA", "NBFNet"),
    "text + paths": ("text", "ULTRA", "NBFNet"),
    "text + paths, facts withheld": ("text", "ULTRA, facts withheld", "NBFNet, facts withheld"),
    "paths, facts withheld": ("ULTRA, facts withheld", "NBFNet, facts withheld"),
    **{f"text ({kind}) + paths": (f"text ({kind})", "ULTRA", "NBFNet") for kind in CONTROLS},
}
"""The mixes that validation fits, with their parts."""
UNFITTED = {
    f"text ({kind}) + paths, weights of the true": (f"text ({kind})", "ULTRA", "NBFNet")
    for kind in ("another", "cut")
}
"""Mixes under the weights of "text + paths"."""
FEW = (1, 4)
"""Most facts of an unseen entity that are read, in rows of their own."""
FIRST = 0
"""The seed under which networks also read fewer facts."""
ALONE = (
    "text", *(f"text ({kind})" for kind in CONTROLS), "ULTRA", "NBFNet",
    "ULTRA, facts withheld", "NBFNet, facts withheld",
)  # fmt: skip
READ_AS = {"true": ("true", "another", "shuffled"), "cut": ("cut",), "words": ("words",)}
"""By the kind of text that is read, what is scored."""
Ranks = NDArray[np.uint32]


@dataclass(frozen=True)
class CellSettings:
    """How the networks of a graph are trained, and how many questions are scored at once."""

    text: TextSettings
    ultra: PathSettings
    nbfnet: PathSettings
    scored: int = 32


@dataclass(frozen=True, eq=False)
class Outcome:
    """Twice the rank of each question's answer by row (ties at their mean place), and notes."""

    ranks: dict[str, Ranks]
    notes: dict[str, Any]


@dataclass(frozen=True, eq=False)
class PartQuestions:
    """The questions of a part, heads first: who competes, and the column of the right answer.

    `blocked [2, known]`: rows and columns of known answers, and of what is no candidate.
    """

    triples: Tensor
    columns: Tensor
    gold: Tensor
    blocked: Tensor

    @classmethod
    def of(cls, world: SplitGraph, part: int, device: Any) -> PartQuestions:
        """Return those of validation or the test."""
        rows, columns = world.questions(part), world.candidates(part)
        filter = world.filter(part)
        places = np.full(world.n_entities, -1)
        places[columns] = np.arange(len(columns))
        blocked, gold = [], []
        for number, side in enumerate(SIDES):
            questions, answers = filter.known(side, rows)
            right = rows[:, SLOTS[side]]
            other = answers != right[questions]
            inside = places[answers[other]]
            known = np.stack([questions[other] + number * len(rows), inside])
            blocked.append(known[:, inside >= 0])
            gold.append(places[right])
        arrays = (rows, columns, np.concatenate(gold), np.concatenate(blocked, 1))
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    @property
    def side(self) -> Tensor:
        """0 where the head is the answer, 1 where the tail is, `[question]`."""
        return torch.arange(2, device=self.gold.device).repeat_interleave(len(self.triples))

    def scored(self, scorer: Any) -> Tensor:
        """Return the scores of all candidates, minus infinity for known answers."""
        parts = [scorer.scores(side, self.triples.cpu())[:, self.columns.to("cpu")]
                 if isinstance(scorer, DegreeScorer | PageRankScorer)
                 else scorer.scores(side, self.triples)[:, self.columns]
                 for side in SIDES]  # fmt: skip
        scores = torch.cat([part.to(self.gold.device, torch.float32) for part in parts])
        scores[self.blocked[0], self.blocked[1]] = -torch.inf
        return scores

    def doubled_ranks(self, scores: Tensor) -> Ranks:
        """Return twice the rank of the right answers."""
        if bool(scores.isnan().any()):
            raise ValueError("a score is NaN")
        right = scores.gather(1, self.gold[:, None])
        above, level = (scores > right).sum(1), (scores == right).sum(1)
        return (2 * above + level + 1).cpu().numpy().astype(np.uint32)


# ---- mixes ---------------------------------------------------------------------------------------
def fit_weights(parts: Sequence[Tensor], gold: Tensor, side: Tensor) -> NDArray[np.float64]:
    """Return the weights `[side part]` of the least cross entropy, none below zero."""
    rows = []
    for number in range(len(SIDES)):
        is_held_out = side == number
        rows.append(_fit([part[is_held_out] for part in parts], gold[is_held_out]))
    return np.stack(rows)


def _fit(parts: Sequence[Tensor], gold: Tensor) -> NDArray[np.float64]:
    blocked = ~parts[0].isfinite()
    finite = [part.masked_fill(blocked, 0.0) for part in parts]
    right = torch.stack([part.gather(1, gold[:, None])[:, 0] for part in finite])

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        mixed = sum(float(w) * part for w, part in zip(weights, finite, strict=True))
        log_total = mixed.masked_fill_(blocked, -torch.inf).logsumexp(1)  # type: ignore[union-attr]
        chances = (mixed - log_total[:, None]).exp_()
        expected = torch.stack([(part * chances).sum(1) for part in finite])
        column = torch.tensor(weights, dtype=right.dtype, device=right.device)
        value = log_total.double().mean() - (column @ right).double().mean()
        gradient = (expected - right).double().mean(1)
        return float(value), gradient.cpu().numpy()

    start = np.ones(len(parts)) / len(parts)
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start))
    return np.asarray(optimum.x)


def spread(scores: Tensor) -> float:
    """Return the spread of the finite scores; 1 where all are equal."""
    finite = scores[scores.isfinite()].double()
    return float(finite.std(correction=0)) or 1.0


def mixed(parts: Sequence[Tensor], weights: NDArray[np.float64], side: Tensor) -> Tensor:
    """Return the weighed sum; minus infinity stays."""
    table = torch.tensor(weights, dtype=parts[0].dtype, device=side.device)[side]
    blocked = ~parts[0].isfinite()
    total = sum(table[:, i : i + 1] * part.masked_fill(blocked, 0.0)
                for i, part in enumerate(parts))  # fmt: skip
    return total.masked_fill_(blocked, -torch.inf)  # type: ignore[union-attr]


# ---- a cell --------------------------------------------------------------------------------------
def run_baselines(world: SplitGraph) -> Outcome:
    """Return the ranks by degree and PageRank, which read facts and learn nothing."""
    questions = PartQuestions.of(world, TEST, "cpu")
    sizes = {"n_entities": world.n_entities}
    scorers = {
        "degree": DegreeScorer(world.context(TEST), n_relations=world.n_relations, **sizes),
        "PageRank": PageRankScorer(world.context(TEST), **sizes),
    }
    ranks = {name: questions.doubled_ranks(questions.scored(scorer))
             for name, scorer in scorers.items()}  # fmt: skip
    return Outcome(ranks, {})


def run_cell(
    world: SplitGraph, folder: Path, settings: CellSettings, seed: int, device: Any
) -> Outcome:
    """Train the text and the path networks, and rank every row; `folder` holds the host."""
    clock = _Clock(device)
    parts = {part: PartQuestions.of(world, part, device) for part in (VALID, TEST)}
    scores: dict[int, dict[str, Tensor]] = {VALID: {}, TEST: {}}
    notes: dict[str, Any] = {}
    worlds = {"": world}
    if seed == FIRST:
        worlds |= {", facts withheld": with_facts(world, 0)}
        worlds |= {f", at most {n}": with_facts(world, n) for n in FEW}
    for kind, name in (("ultra", "ULTRA"), ("nbfnet", "NBFNet")):
        of_kind: PathSettings = getattr(settings, kind)
        model = make_path_model(kind, world, of_kind, seed)
        notes[f"{name} losses"] = train_paths(model, world, of_kind, seed, device)
        clock(f"{name} training")
        for suffix, read in worlds.items():
            for part in (TEST,) if suffix.startswith(", at most") else (VALID, TEST):
                scorer = PathScorer(model, read.context(part), world, device, settings.scored)
                scores[part][name + suffix] = parts[part].scored(scorer)
        del model, scorer
        clock(f"{name} scores")
    encoder, notes["text losses"] = train_text(folder, world, settings.text, seed, device)
    clock("text training")
    for kind in TEXT_KINDS:
        reader = TextReader(encoder, world, kind, settings.text, device)
        for part, questions in parts.items():
            for name in READ_AS[kind]:
                rows = control_rows(world, name, 1 if part == VALID else 2)
                row = "text" if name == "true" else f"text ({name})"
                scores[part][row] = questions.scored(TextScorer(reader, rows))
    clock("text scores")
    alone = [name for name in ALONE if name in scores[TEST]]
    ranks = {name: parts[TEST].doubled_ranks(scores[TEST][name]) for name in alone}
    notes["weights"], more = _mixes(parts, scores)
    notes["valid"] = {
        name: float(np.mean(2 / parts[VALID].doubled_ranks(value)))
        for name, value in scores[VALID].items()
    }
    clock("mixes")
    return Outcome(ranks | more, notes | {"seconds": clock.seconds})


def _mixes(
    parts: dict[int, PartQuestions], scores: dict[int, dict[str, Tensor]]
) -> tuple[dict[str, Any], dict[str, Ranks]]:
    """Return the weights of every mix, and its ranks."""
    spreads = {name: spread(value) for name, value in scores[VALID].items()}
    for of_score in scores.values():
        for name, value in of_score.items():
            value /= spreads[name.partition(", at most")[0]]
    fitted, ranks = {}, {}
    test = parts[TEST]
    for name, of in FITTED.items():
        if of[-1] not in scores[TEST]:
            continue
        valid = [scores[VALID][one] for one in of]
        fitted[name] = fit_weights(valid, parts[VALID].gold, parts[VALID].side)
        ranks[name] = test.doubled_ranks(mixed([scores[TEST][i] for i in of], fitted[name],
                                               test.side))  # fmt: skip
    unfitted: list[tuple[str, tuple[str, ...], str]] = [
        (name, of, "text + paths") for name, of in UNFITTED.items()
    ]
    for n in FEW if any(", at most" in name for name in scores[TEST]) else ():
        paths = tuple(f"{name}, at most {n}" for name in ("ULTRA", "NBFNet"))
        unfitted.append((f"paths, at most {n}", paths, "ULTRA + NBFNet"))
        unfitted.append((f"text + paths, at most {n}", ("text", *paths), "text + paths"))
    for name, of, weights_of in unfitted:
        own_scores = [scores[TEST][one] for one in of]
        ranks[name] = test.doubled_ranks(mixed(own_scores, fitted[weights_of], test.side))
    return {name: weights.round(4).tolist() for name, weights in fitted.items()}, ranks


class _Clock:
    """Seconds of each stage, with the work of the device done."""

    def __init__(self, device: Any) -> None:
        self.device, self.seconds = torch.device(device), dict[str, float]()
        self._last = time.perf_counter()

    def __call__(self, stage: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        now = time.perf_counter()
        self.seconds[stage] = round(now - self._last, 2)
        self._last = now
