"""Scores of SimKGC for `kept.evaluation.ranking.rank`, with re-ranking by neighbourhood.

Wang et al. 2022, "SimKGC" (ACL), section 3.4; released code intfloat/SimKGC.

Axis legend: batch, candidate, entity, text, width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kept.errors import EvaluationError
from kept.evaluation.ranking import Direction
from kept.kge.simkgc.networks import BiEncoder
from kept.kge.simkgc.texts import Links, Texts, tokenise

BATCH_SIZE = 256


class SimKGCScorer:
    """Cosines of questions and entities; entities near the question's own are raised.

    `weight` is added to every entity within `n_hops` of the question's entity in `links`, itself
    included; without links nothing is. The temperature changes no order and is not applied.
    """

    def __init__(
        self,
        model: BiEncoder,
        tokenizer: PreTrainedTokenizerBase,
        texts: Texts,
        *,
        n_tokens: int,
        links: Links | None = None,
        weight: float = 0.0,
        n_hops: int = 2,
    ) -> None:
        self.model, self.tokenizer, self.texts, self.n_tokens = model, tokenizer, texts, n_tokens
        self.links, self.weight, self.n_hops = links, weight, n_hops
        self.entities = self.encode([texts.entity(i) for i in range(len(texts.names))])

    def encode(
        self, first: Sequence[str], seconds: Sequence[str] | None = None
    ) -> Float[Tensor, "text width"]:
        """`encode_texts` with the scorer's own model."""
        return encode_texts(self.model, self.tokenizer, first, seconds, n_tokens=self.n_tokens)

    def questions(self, direction: Direction, triples: Tensor) -> Float[Tensor, "batch width"]:
        """Vectors of the questions; EvaluationError: relations, which SimKGC cannot rank."""
        heads, relations, tails = (column.tolist() for column in triples.unbind(1))
        n = len(self.texts.relations)
        if direction == "relation":
            raise EvaluationError("SimKGC ranks heads and tails; leave the direction relation out")
        if direction == "head":
            heads, relations = tails, [relation + n for relation in relations]
        pairs = list(zip(heads, relations, strict=True))
        rows_by_pair = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        vectors = self.encode(
            [self.texts.entity(entity) for entity, _ in rows_by_pair],
            [self.texts.relation(relation) for _, relation in rows_by_pair],
        )
        return vectors[torch.tensor([rows_by_pair[pair] for pair in pairs])]

    def scores(self, direction: Direction, triples: Tensor, /) -> Float[Tensor, "batch candidate"]:
        """Cosines, raised by neighbourhood."""
        scores = self.questions(direction, triples) @ self.entities.T
        if self.links is None or not self.weight:
            return scores
        anchors = triples[:, 2 if direction == "head" else 0].tolist()
        near = {one: torch.from_numpy(self.links.within(one, self.n_hops)) for one in anchors}
        for row, anchor in enumerate(anchors):
            scores[row, near[anchor]] += self.weight
        return scores


@torch.no_grad()
def encode_texts(
    model: BiEncoder,
    tokenizer: PreTrainedTokenizerBase,
    first: Sequence[str],
    seconds: Sequence[str] | None = None,
    *,
    n_tokens: int,
) -> Float[Tensor, "text width"]:
    """Vectors of entities' texts, or of questions where there are `seconds`.

    Texts of like length share a batch, which changes no vector beyond rounding.
    """
    model.eval()
    encode = model.encode_entities if seconds is None else model.encode_questions
    order = sorted(range(len(first)), key=lambda i: (len(first[i]), i))
    parts = []
    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        chunk_seconds = None if seconds is None else [seconds[i] for i in rows]
        texts = [first[i] for i in rows]
        parts.append(encode(tokenise(tokenizer, texts, chunk_seconds, n_tokens=n_tokens)))
    vectors = torch.cat(parts)
    return vectors[torch.tensor(order).argsort()]
