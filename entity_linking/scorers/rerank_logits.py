"""What the networks of a re-ranker say of a table: logits, and the mean of several networks.

Several networks that began elsewhere are asked together: their shares of each candidate and of NIL
are averaged (Lakshminarayanan et al. 2017, NeurIPS), which is surer of less and right more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from entity_linking.parts import Scores
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.rerank_parts import Weights, standard
from entity_linking.scorers.rerank_table import RerankTable

_MOMENTS = ("mean", "deviation")


def relative_logits(weights: Mapping[str, Scores], table: RerankTable) -> Scores:
    """The logit of each candidate less that of NIL `[candidate]`, of all networks together.

    Sums run row by row (no matrix library), so rows do not depend on how many stand beside them;
    what a mention adds to all its candidates is summed once.
    """
    mentions = standard(table.mentions, weights, "mention")
    candidates = standard(table.candidates, weights, "candidate")
    parts, n_own, of = networks(weights), candidates.shape[1], table.rows.mention_of
    nil = (
        _logits(mentions, parts, "nil", slice(None))
        + np.array([each["nil.bias"] for each in parts]).T
    )
    linear, inner = _sums(mentions, parts, "candidate", slice(n_own, None))
    logits = _logits(candidates, parts, "candidate", slice(n_own), (linear[of], inner[of]))
    logits -= nil[of]
    return logits[:, 0] if len(parts) == 1 else mean_logits(logits, table.rows)


def mean_logits(logits: Scores, rows: CandidateRows) -> Scores:
    """The relative logits whose shares are the mean of those of `logits` `[candidate network]`."""
    candidates, nil = zip(*(log_shares(each, rows) for each in logits.T), strict=True)
    together: Scores = np.logaddexp.reduce(candidates, axis=0)
    together -= np.logaddexp.reduce(nil, axis=0)[rows.mention_of]
    return together


def log_shares(logits: Scores, rows: CandidateRows) -> tuple[Scores, Scores]:
    """Logarithms of the share of each candidate `[candidate]` and of NIL `[mention]`."""
    top = np.maximum(rows.best(logits), 0.0)
    above = np.exp(logits - top[rows.mention_of])
    total = np.exp(-top) + np.bincount(rows.mention_of, above, minlength=rows.n_mentions)
    nil: Scores = -top - np.log(total)
    candidates: Scores = logits + nil[rows.mention_of]
    return candidates, nil


# ---- several networks ------------------------------------------------------
def joined(moments: Weights, each: Sequence[Weights]) -> Weights:
    """The moments of the features and the weights of all networks, by name."""
    named = {
        of_network(i, name): values
        for i, network in enumerate(each)
        for name, values in network.items()
    }
    return {**moments, **named}


def of_network(number: int, name: str) -> str:
    """What a network's weights are called; those of the first as if it were alone."""
    return f"{number}/{name}" if number else name


def networks(weights: Mapping[str, Scores]) -> list[dict[str, Scores]]:
    """The weights of each network, by name, without the moments."""
    each: dict[str, dict[str, Scores]] = {}
    for name, values in weights.items():
        number, _, weight_name = name.rpartition("/")
        if not weight_name.endswith(_MOMENTS):
            each.setdefault(number or "0", {})[weight_name] = values
    return [each[number] for number in sorted(each, key=int)]


Sums = tuple[Scores, Scores]
"""Of the linear part `[row network]` and before the tanh `[row network hidden]`."""


def _logits(
    x: Scores, parts: Sequence[Weights], kind: str, columns: slice, more: Sums | None = None
) -> Scores:
    """`[row network]`; the tanh has single precision, which takes a fifth of the time."""
    linear, inner = _sums(x, parts, kind, columns)
    if more is not None:
        linear, inner = linear + more[0], inner + more[1]
    inner += np.array([each[f"{kind}.inner_bias"] for each in parts])
    outer = np.array([each[f"{kind}.outer"] for each in parts])
    logits: Scores = linear + np.einsum("inh,nh->in", np.tanh(inner, dtype=np.float32), outer)
    return logits


def _sums(x: Scores, parts: Sequence[Weights], kind: str, columns: slice) -> Sums:
    """What these columns of the weights make of `x`."""
    linear = np.stack([each[f"{kind}.linear"][columns] for each in parts], axis=1)
    inner = np.concatenate([each[f"{kind}.inner"][columns] for each in parts], axis=1)
    hidden = inner.shape[1] // len(parts)
    return (
        np.einsum("if,fn->in", x, linear),
        np.einsum("if,fh->ih", x, inner).reshape(len(x), len(parts), hidden),
    )
