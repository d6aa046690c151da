"""The features of a re-ranker: columns of candidates and of mentions, made from scorers.

For each scorer, by name: `NAME` its score, `NAME.lead` the score minus the best of the other
candidates (0 if alone), `NAME.rank` 1 / (1 + candidates with a higher score). Of the mention:
`NAME.best` and `NAME.gap` (best minus second), `candidates` (log of their number), `alone`,
`words` (log), `capitals` (share of the words that begin with one), `others` (log of one plus the
other mentions of the text that have a candidate). Mentions without a candidate have 0 in all that
asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from entity_linking.parts import Scorer, Scores
from entity_linking.scorers.candidate_rows import CandidateRows, Ints
from entity_linking.scorers.mix import scorer_column

MENTION_FEATURES = ("candidates", "alone", "words", "capitals", "others")
OF_CANDIDATES = ("", ".lead", ".rank")
OF_MENTIONS = (".best", ".gap")


@dataclass(frozen=True, eq=False)
class RerankTable:
    """`candidates` float64 `[candidate feature]`, `mentions` float64 `[mention feature]`.

    `scorers` are the names behind the columns, in order; the features of a mention come first,
    then two columns a scorer; of a candidate there are three columns a scorer.
    """

    rows: CandidateRows
    scorers: tuple[str, ...]
    candidates: Scores
    mentions: Scores

    def without(self, scorer: str) -> RerankTable:
        """The same table without the columns of one scorer."""
        kept = [i for i, name in enumerate(self.scorers) if name != scorer]
        n_own = len(MENTION_FEATURES)
        mention = [*range(n_own), *(n_own + 2 * i + j for i in kept for j in range(2))]
        return RerankTable(
            self.rows,
            tuple(self.scorers[i] for i in kept),
            self.candidates[:, [3 * i + j for i in kept for j in range(3)]],
            self.mentions[:, mention],
        )

    def of(self, chosen: NDArray[np.bool_]) -> RerankTable:
        """The rows of some mentions, `chosen [mention]`, and texts without the links of others."""
        is_kept = iter(chosen.tolist())
        texts = [
            replace(text, links=tuple(link for link in text.links if next(is_kept)))
            for text in self.rows.texts
        ]
        rows = CandidateRows.of(texts)
        mine = chosen[self.rows.mention_of]
        return RerankTable(rows, self.scorers, self.candidates[mine], self.mentions[chosen])

    def with_scorers(self, scorers: Mapping[str, Scorer]) -> RerankTable:
        """The same table with the columns of further scorers, which read its texts."""
        of_candidates, of_mentions = [self.candidates], [self.mentions]
        for name, scorer in scorers.items():
            columns, shared = _features(self.rows, scorer_column(self.rows, name, scorer))
            of_candidates.append(columns)
            of_mentions.append(shared)
        return RerankTable(
            self.rows,
            (*self.scorers, *scorers),
            np.concatenate(of_candidates, axis=1),
            np.concatenate(of_mentions, axis=1),
        )


def feature_names(scorers: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the columns of candidates and of mentions."""
    of_candidates = tuple(f"{name}{kind}" for name in scorers for kind in OF_CANDIDATES)
    of_mentions = tuple(f"{name}{kind}" for name in scorers for kind in OF_MENTIONS)
    return of_candidates, (*MENTION_FEATURES, *of_mentions)


def tabulate(scorers: Mapping[str, Scorer], texts: Sequence[LinkedText]) -> RerankTable:
    """The features of the candidates that the links bear; what they are linked to is not read."""
    rows = CandidateRows.of(texts)
    columns = np.stack(_own_features(rows), axis=1)
    table = RerankTable(rows, (), np.zeros((len(rows), 0)), columns)
    return table.with_scorers(scorers)


def _features(rows: CandidateRows, values: Scores) -> tuple[Scores, Scores]:
    """Of one scorer: `OF_CANDIDATES` `[candidate 3]` and `OF_MENTIONS` `[mention 2]`."""
    order = rows.order(values)
    lead = values - rows.others_best(values, order)
    rank = (1.0 / (1.0 + rows.n_better(values, order))).astype(np.float64)
    gap = np.where(rows.sizes > 1, rows.best(lead), 0.0)
    return np.stack([values, lead, rank], axis=1), np.stack([rows.best(values), gap], axis=1)


def together(tables: Sequence[RerankTable]) -> RerankTable:
    """The texts of several tables in one, in order."""
    return RerankTable(
        CandidateRows.of([text for table in tables for text in table.rows.texts]),
        tables[0].scorers,
        np.concatenate([table.candidates for table in tables]),
        np.concatenate([table.mentions for table in tables]),
    )


def targets(rows: CandidateRows, *, absent: str) -> Ints:
    """The place of each mention's gold entity among its candidates `[mention]`.

    -1 is NIL: the link has no entity, or with `absent="nil"` one that is not a candidate. -2 is to
    be left out: with `absent="skip"` the latter; always, mentions without a candidate.
    """
    answers = np.full(rows.n_mentions, -1, np.int64)
    links = (link for text in rows.texts for link in text.links)
    for i, link in enumerate(links):
        places = [j for j, c in enumerate(link.candidates) if c.entity == link.entity]
        if places:
            answers[i] = places[0]
        elif not link.candidates or (link.entity is not None and absent == "skip"):
            answers[i] = -2
    return answers


def _own_features(rows: CandidateRows) -> list[Scores]:
    words = [
        text.text[link.mention.start : link.mention.end].split()
        for text in rows.texts
        for link in text.links
    ]
    n_words = np.array([len(w) for w in words], np.float64)
    capitals = np.array([sum(w[0].isupper() for w in ws) for ws in words], np.float64)
    sizes: NDArray[np.int64] = rows.sizes
    return [
        np.log(np.maximum(sizes, 1)),
        (sizes == 1).astype(np.float64),
        np.log1p(n_words),
        capitals / np.maximum(n_words, 1),
        np.log1p(rows.n_others()),
    ]
