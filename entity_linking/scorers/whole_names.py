"""`WholeNameScorer`: names with their prior, for text that names what the graph does not have.

The prior of a surface is shared among the candidates, so a lone one has all of it, even where the
surface has no more than a word of its name ("University of Ulm" for a graph that has Ulm alone).
Here such a candidate counts little, and a namesake that the graph does not have competes:

    score(c) = log(prior(c) share(c))        share 1 for a whole name, PART for a part of one
    score(NIL) = log(UNKNOWN)

A mention that is short for a longer one of its text ("Beckham" after "David Beckham") counts as
whole: the longer one says who is meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from entity_linking.decision import Decision
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.names.rules.variants import REASONS, Kind
from entity_linking.parts import Scores

PART = 0.1
"""Below `UNKNOWN`, so that a part of a name alone never outweighs NIL."""
UNKNOWN = 0.2
"""Weight of a namesake that the graph does not have. Of 0, .2, .3 and .4 the one that is above
ELEVANT's prior baseline on each of RSS-500, Reuters-128 and Wiki-Fair by required F1."""
UNKNOWN_NAMESAKE = Decision(nil_score=math.log(UNKNOWN), nil_from=0.0)
"""What to decide by with the scores of `WholeNameScorer`: NIL competes and is always said."""
_OF_PARTS = (*(REASONS[kind] for kind in (Kind.PARTIAL, Kind.INSIDE, Kind.OVERLAP)), "like ")


class WholeNameScorer:
    """Scores as in this module's formula; `floor` is the least `prior(c) share(c)`.

    >>> from entity_linking.mentions import Link, Mention
    >>> ulm = Candidate("Q3012", 1.0, 1.0, "holds label 'Ulm'")
    >>> text = LinkedText("University of Ulm", (Link(Mention(0, 17), (ulm,), None, 1.0),))
    >>> float(WholeNameScorer().scores([text])[0][0][0]) < UNKNOWN_NAMESAKE.nil_score
    True
    """

    def __init__(self, floor: float = 1e-4) -> None:
        self._floor = floor

    def __repr__(self) -> str:
        return f"WholeNameScorer(floor={self._floor})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; none is above 0."""
        return [
            [np.log([self._weight(c) for c in link.candidates] or np.zeros(0)) for link in t.links]
            for t in texts
        ]

    def _weight(self, candidate: Candidate) -> float:
        share = PART if candidate.reason.startswith(_OF_PARTS) else 1.0
        return max(candidate.prior * share, self._floor)
