"""Knowledge graph and text in one space, aligned by links and by names.

Wang, Zhang, Feng and Chen 2014, "Knowledge Graph and Text Jointly Embedding" (EMNLP), section 3:
facts, words that stand together, and an alignment are one likelihood. `s` is the sigmoid and `z`
that of `kept.joint.likelihood`.

Axis legend: pair, triple, negative, width.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from kept.joint.likelihood import BIAS, Negatives, prediction_losses


def fact_losses(
    head: Tensor,
    relation: Tensor,
    tail: Tensor,
    negatives: Mapping[str, Negatives],
    bias: float = BIAS,
) -> Tensor:
    """Minus `log Pr(h|r,t) + log Pr(r|h,t) + log Pr(t|h,r)` of each triple, `[triple]`.

    Section 3.1, the knowledge model: `z(h, r, t) = bias - |h + r - t|^2 / 2`. `negatives` are the
    negatives of "head", "relation" and "tail".
    """
    return (
        prediction_losses(tail - relation, head, negatives["head"], bias)
        + prediction_losses(tail - head, relation, negatives["relation"], bias)
        + prediction_losses(head + relation, tail, negatives["tail"], bias)
    )


def word_losses(first: Tensor, second: Tensor, negatives: Negatives, bias: float = BIAS) -> Tensor:
    """Minus `log Pr(second | first)` of words that stand together, `[pair]`.

    Section 3.2, the text model: a word has one vector, unlike in skip-gram; a pair comes both ways.
    """
    return prediction_losses(first, second, negatives, bias)


def link_losses(entity: Tensor, word: Tensor, negatives: Negatives, bias: float = BIAS) -> Tensor:
    """Minus `log Pr(w | e)` of a word beside a link to e, `[pair]`: section 3.3, by anchors."""
    return prediction_losses(entity, word, negatives, bias)


def name_triples(
    head: Tensor, tail: Tensor, head_name: Tensor, tail_name: Tensor
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The triples with names in place of entities: heads, tails, and which triples have them.

    Section 3.3, by names: (w_h, r, t), (h, r, w_t) and (w_h, r, w_t), as far as head and tail have
    a name in the vocabulary. Shapes: ids `[triple]`, names -1 where there is none.
    """
    has_head, has_tail = head_name >= 0, tail_name >= 0
    return [
        (head_name, tail, has_head),
        (head, tail_name, has_tail),
        (head_name, tail_name, has_head & has_tail),
    ]
