"""Cloze probing in LAMA's manner (Petroni et al. 2019), as CoLAKE's released code does it.

Scores are raw logits at the first mask, restricted to a word list before ranking, so P@k is
relative to that list. Ties go to the earlier entry of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class ClozeRank:
    """Where the answer came among the ranked words; `rank` counts from 1, None = not ranked."""

    rank: int | None
    ranked_ids: tuple[int, ...]
    gold_score: float

    @property
    def reciprocal(self) -> float:
        """1 / rank, 0 when not ranked."""
        return 1 / self.rank if self.rank else 0.0

    def hit(self, k: int) -> float:
        """1 when the answer is among the first `k`."""
        return float(self.rank is not None and self.rank <= k)


def word_forms(pieces: Iterable[str]) -> list[str]:
    """Names of decoded tokens: a leading blank is dropped, a word's inside becomes `_x_`.

    A form met before gets its token id appended.

    >>> word_forms([" Paris", "ing", " Paris"])
    ['Paris', '_ing_', 'Paris_2']
    """
    forms: list[str] = []
    met: set[str] = set()
    for token_id, piece in enumerate(pieces):
        form = piece.strip() if piece.startswith(" ") else f"_{piece}_"
        forms.append(f"{form}_{token_id}" if form in met else form)
        met.add(forms[-1])
    return forms


def restricted_ids(forms: Sequence[str], words: Iterable[str]) -> list[int]:
    """Token ids of the words that are forms, in the order of `words`; others are left out."""
    ids = {form: i for i, form in enumerate(forms)}
    return [ids[word] for word in words if word in ids]


def rank_cloze(
    logits: ArrayLike, gold_id: int, *, candidate_ids: Sequence[int] | None, top: int | None
) -> ClozeRank:
    """Rank one masked position; `logits` `[word]`.

    `candidate_ids`: the restricted list, None = every word. `top`: length of the window outside
    which an answer counts as not ranked, None = no window. Both must be said.
    """
    scores = np.asarray(logits)
    ids = np.arange(len(scores)) if candidate_ids is None else np.asarray(candidate_ids)
    order = np.argsort(-scores[ids], kind="stable")[:top]
    ranked = ids[order].tolist()
    rank = ranked.index(gold_id) + 1 if gold_id in ranked else None
    return ClozeRank(rank, tuple(ranked), float(scores[gold_id]))


def filter_samples(
    samples: Iterable[Mapping[str, Any]],
    *,
    words: Iterable[str],
    forms: Sequence[str],
    encode: Callable[[str], Sequence[int]],
) -> tuple[list[Mapping[str, Any]], dict[str, int]]:
    """The samples that can be scored, and how many were left out for which reason.

    Kept: subject and object are given; every blank-separated part of the object is in `words`;
    the forms of its token ids (`encode`), joined by blanks, spell it; judgements, where there are
    any, do not say "no" more often than "yes".
    """
    listed = frozenset(words)
    kept: list[Mapping[str, Any]] = []
    skipped: dict[str, int] = {}
    for sample in samples:
        reason = _reason_to_skip(sample, listed, forms, encode)
        if reason is None:
            kept.append(sample)
        else:
            skipped[reason] = skipped.get(reason, 0) + 1
    return kept, skipped


def _reason_to_skip(
    sample: Mapping[str, Any],
    listed: frozenset[str],
    forms: Sequence[str],
    encode: Callable[[str], Sequence[int]],
) -> str | None:
    if "sub_label" not in sample or "obj_label" not in sample:
        return "no subject or object"
    answer = sample["obj_label"]
    if not all(part in listed for part in answer.split()):
        return "object outside the word list"
    if " ".join(forms[i] for i in encode(answer)) != answer:
        return "object is not spelled by its tokens"
    votes = [judgement["judgment"] for judgement in sample.get("judgments", ())]
    return "judged wrong" if votes.count("no") > votes.count("yes") else None


def fill_template(template: str, subject: str, *, mask: str) -> str:
    """The cloze sentence of a relation's template.

    >>> fill_template("[X] was born in [Y] .", "Ada", mask="<mask>")
    'Ada was born in <mask> .'
    """
    return template.replace("[X]", subject).replace("[Y]", mask)
