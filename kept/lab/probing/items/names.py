"""LAMA-UHN: facts that cannot be guessed from the subject's name.

Poerner, Waltinger and Schütze, "E-BERT: Efficient-Yet-Effective Entity Embeddings for BERT"
(Findings of EMNLP 2020), section 2.1: LAMA without helpful names. The first filter leaves out facts
whose answer is part of the subject's name, the second those whose answer a masked language model
guesses from a part of a person's name. Theirs is BERT-base, cased; ours takes any model, and the
result names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from entity_linking.mentions import LinkedText
from kept.evaluation.leakage import answer_in_subject
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.items.templates import Template

PERSON_RELATIONS: Mapping[str, str] = {
    "P19": "city", "P20": "city", "P27": "country", "P103": "language", "P1412": "language",
}  # fmt: skip
"""Relations whose subjects are persons, and what a name may reveal of each."""
TOP = 3

Ranks = Callable[[Sequence[ClozeItem]], Sequence[int | None]]
"""Rank of each item's answer, from 1; None where the model cannot rank it."""


@dataclass(frozen=True)
class WithoutHelpfulNames:
    """The remaining facts, and how many each filter removed.

    `model` guessed from names among `candidates`; the first `top` count. `n_unranked`: facts on
    persons of which it could rank no question; they stay.
    """

    items: tuple[ClozeItem, ...]
    n_asked: int
    n_string: int
    n_name: int
    n_unranked: int
    model: str
    candidates: str
    top: int

    def __str__(self) -> str:
        return (
            f"{self.n_asked} questions = {len(self.items)} left + {self.n_string} with the answer "
            f"inside the subject + {self.n_name} guessed from a person's name by {self.model} "
            f"(first {self.top} of {self.candidates}); {self.n_unranked} on persons not ranked"
        )


def name_questions(item: ClozeItem) -> list[ClozeItem]:
    """Questions on each blank-separated part of a person's name; none for other relations.

    >>> text = "Ada King was born in [Y] ."
    >>> from entity_linking.mentions import Mention
    >>> asked = ClozeItem("1", "P19", LinkedText(text, ()), Mention(21, 24), "Ada King", "London")
    >>> [question.linked.text for question in name_questions(asked)][0]
    'Ada is a common name in the following city: [Y].'
    """
    kind = PERSON_RELATIONS.get(item.relation)
    if kind is None:
        return []
    template = Template(item.relation, f"[X] is a common name in the following {kind}: {HOLE}.")
    questions = []
    for number, part in enumerate(dict.fromkeys(item.subject.split())):
        id = f"{item.id}/name-{number}"
        linked, hole = template.fill(part, None, id)
        linked = LinkedText(linked.text, (), id)
        questions.append(
            ClozeItem(id, item.relation, linked, hole, part, item.answer, (), None, item.id)
        )
    return questions


def without_helpful_names(
    items: Sequence[ClozeItem], ranks: Ranks, *, model: str, candidates: str, top: int = TOP
) -> WithoutHelpfulNames:
    """Apply both filters; `ranks` is called once, with the questions of all names."""
    remaining = [item for item in items if not answer_in_subject(item.subject, item.answer)]
    by_item = [name_questions(item) for item in remaining]
    ranked = iter(ranks([question for questions in by_item for question in questions]))
    unguessed, n_unranked = [], 0
    for item, questions in zip(remaining, by_item, strict=True):
        name_ranks = [next(ranked) for _ in questions]
        n_unranked += bool(questions) and all(rank is None for rank in name_ranks)
        if not any(rank is not None and rank <= top for rank in name_ranks):
            unguessed.append(item)
    return WithoutHelpfulNames(
        tuple(unguessed),
        len(items),
        len(items) - len(remaining),
        len(remaining) - len(unguessed),
        n_unranked,
        model,
        candidates,
        top,
    )
