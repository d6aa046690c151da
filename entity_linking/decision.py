"""`Decision`: from the scores of a mention's candidates to a link with a confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, Mention
from entity_linking.parts import Candidates, Scores

LIKELIEST = 0.5
"""A `nil_from` that needs no fitting: NIL is said where it is likelier than everything else."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Chooses the candidate with the highest score, or NIL.

    The raw confidence is the softmax of `scores / temperature` at the best candidate, NIL standing
    beside the candidates with `nil_score` (None: it has no share). `curve` maps raw to calibrated
    confidence, linear between its points `(raw, calibrated)`, flat outside; empty changes nothing.
    A link is NIL when its calibrated confidence is below `nil_below` or it has no candidate; its
    own confidence is then one minus that of the best candidate.

    With `nil_from` NIL is an answer that competes: a link is NIL too where NIL has the greater
    share (before the curve, which knows candidates alone), its confidence is NIL's share, and who
    finds mentions (`EndToEnd`, `Pipeline.link`) leaves those out whose NIL is less sure than
    `nil_from`: they are neither linked nor known to be nobody's.

    Where a mention was found with a probability, shares are multiplied by that probability before
    the curve. `entity_linking.calibration.fitting` fits all of them on annotated text.
    """

    temperature: float = 1.0
    nil_score: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    nil_below: float = 0.0
    nil_from: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise LinkingError(f"temperature is {self.temperature}; it must be above 0")
        if not 0.0 <= self.nil_below <= 1.0:
            raise LinkingError(f"nil_below is {self.nil_below}; it is a probability, give 0 to 1")
        if self.nil_from is not None and not 0.0 <= self.nil_from <= 1.0:
            raise LinkingError(f"nil_from is {self.nil_from}; it is a probability, give 0 to 1")
        raw = [point for point, _ in self.curve]
        if raw != sorted(set(raw)) or any(not 0 <= v <= 1 for point in self.curve for v in point):
            raise LinkingError(
                f"curve {self.curve} must rise in its first values and stay within 0 and 1"
            )

    def confidence(self, scores: Scores, span: float = 1.0) -> float:
        """Of the best of the candidates with these scores; `span`: p(it is a mention)."""
        return float(self.confidences(scores, span)[int(np.argmax(scores))])

    def confidences(self, scores: Scores, span: float = 1.0) -> Scores:
        """What each of the candidates with these scores would have, were it chosen."""
        return self._calibrated(self._shares(scores)[: len(scores)] * span)

    def nil_share(self, scores: Scores, span: float = 1.0) -> float:
        """The confidence of NIL beside candidates with these scores; `span` where there are none.

        0 where NIL has no score.
        """
        if not len(scores):
            return span
        return 0.0 if self.nil_score is None else float(self._shares(scores)[-1]) * span

    def nil_wins(self, scores: Scores) -> bool:
        """Whether NIL has a greater share than the best candidate."""
        return self.nil_score is not None and self.nil_score > float(np.max(scores))

    def says(self, link: Link) -> bool:
        """Whether who finds mentions says this one: it is linked, or surely enough NIL."""
        return link.entity is not None or link.confidence >= (self.nil_from or 0.0)

    def _calibrated(self, raw: Scores) -> Scores:
        if not self.curve:
            return raw
        points, values = np.array(self.curve).T
        curved: Scores = np.interp(raw, points, values)
        return curved

    def _shares(self, scores: Scores) -> Scores:
        """The softmax over candidates, and NIL where it has a score."""
        logits = np.asarray(scores, np.float64)
        if self.nil_score is not None:
            logits = np.append(logits, self.nil_score)
        logits = (logits - logits.max()) / self.temperature
        share = np.exp(logits)
        shares: Scores = share / share.sum()
        return shares

    def decide(
        self, mention: Mention, candidates: Candidates, scores: Scores, span: float = 1.0
    ) -> Link:
        """The link, its candidates sorted by score (ties keep their order) and bearing it."""
        if len(candidates) != len(scores):
            raise LinkingError(f"{len(scores)} scores for {len(candidates)} candidates")
        if not candidates:
            return Link(mention, (), None, span)
        order = np.argsort(-scores, kind="stable").tolist()
        values = scores.tolist()
        ranked = tuple([candidates[i].scored(values[i]) for i in order])
        shares = self._shares(scores) * span
        sure = float(self._calibrated(shares[order[:1]])[0])
        nil = 1.0 - sure
        if self.nil_from is not None:
            nil = 0.0 if self.nil_score is None else float(shares[-1])
        if sure < self.nil_below or (self.nil_from is not None and self.nil_wins(scores)):
            return Link(mention, ranked, None, nil)
        return Link(mention, ranked, ranked[0].entity, sure)
