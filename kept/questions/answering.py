"""From what was written to what counts: exactly the value, the value chosen, a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kept.decoders.kblam.wording import is_refusal
from kept.questions.items import QuestionSet
from kept.questions.prompts import Prompting
from kept.questions.showing import ShownItem
from kept.randomness import generator

ARTICLE = re.compile(r"^(a|an|the)\s+")
STOP = re.compile(r"\s*([.,;!?\n<]|$)")
EXACT, CHOSEN, REFUSED = "exact", "chosen", "refused"
MEASURES = {
    EXACT: "exactly the value is written, but for an article before it",
    CHOSEN: "of the candidates' first pieces the right value's is the most probable; values that "
    "begin alike share what they get",
    REFUSED: "that the answer is not known is written",
}


def is_right(written: str, value: str) -> bool:
    """Whether exactly the value was written, up to a stop, an article before it or not.

    >>> is_right(" a Baker. He", "baker"), is_right(" a baker's dozen", "baker")
    (True, False)
    """
    text, wanted = written.strip().lower(), value.strip().lower()
    for start in dict.fromkeys((text, ARTICLE.sub("", text))):
        if wanted and start.startswith(wanted) and STOP.match(start[len(wanted) :]):
            return True
    return False


def candidates(
    questions: QuestionSet, each: ShownItem, also: Sequence[str], n: int, seed: int
) -> list[str]:
    """Up to `n` values of the question's relation, sorted; those of `also` among them.

    `questions` hold the unedited graph, so that every condition has the same ones.
    """
    relation = questions.fact_of(each.item)[1]
    wanted = dict.fromkeys((*each.item.answers, *also))
    others = [value for value in questions.values[relation] if value not in wanted]
    draws = generator(seed, "candidates", each.index)
    drawn = [others[i] for i in draws.permutation(len(others))[: max(n - len(wanted), 0)]]
    return sorted([*wanted, *drawn])


@dataclass(frozen=True)
class Judged:
    """An answer: the value that was written, the one that was chosen, counts of each measure."""

    written: str
    chosen: str
    counts: dict[str, list[float]]


def judged(
    prompting: Prompting, each: ShownItem, values: Sequence[str], text: str, scores: Tensor
) -> Judged:
    """What was written to an item, `scores` `[word]` of its first piece among `values`."""
    first = [prompting.pieces(value)[0] for value in values]
    best = max(dict.fromkeys(first), key=lambda piece: float(scores[piece]))
    alike = [value for value, piece in zip(values, first, strict=True) if piece == best]
    share = len(set(alike) & set(each.right)) / len(alike)
    exact = any(is_right(text, value) for value in each.right)
    counts = {EXACT: float(exact), CHOSEN: share, REFUSED: float(is_refusal(text))}
    return Judged(
        text.partition("<|")[0].strip(),
        " or ".join(alike),
        {name: [right, 1.0, 1.0] for name, right in counts.items()},
    )
