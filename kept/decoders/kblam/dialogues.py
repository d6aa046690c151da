"""A question with its answer as a decoder reads both; what is not known stands in a value's place.

The released wording of a refusal begins with it, before the host has come to the name.
"""

from __future__ import annotations

from dataclasses import dataclass

from kept.decoders.kblam.wording import CHATML, Fact

UNKNOWN = "unknown, sorry"
"""The value of a refusal; `is_refusal` knows it by its last word."""


@dataclass(frozen=True)
class Dialogue:
    """A question with its answer; `prefix` is the text up to the value, `prompt` to the answer."""

    text: str
    prefix: str
    prompt: str

    @classmethod
    def about(cls, fact: Fact, template: int, *, refused: bool = False) -> Dialogue:
        """The question by one of `TEMPLATES`, and the value, or that it is not known.

        >>> Dialogue.about(Fact("Wexo", "sport", "golf"), 1, refused=True).text[-46:]
        'The sport of Wexo is unknown, sorry.<|im_end|>'
        """
        spoken_fact = Fact(fact.name, fact.relation, UNKNOWN if refused else fact.value)
        question = fact.question(template)
        prompt = CHATML.prompt(question)
        opening = f"{prompt}{spoken_fact.answer.removesuffix(f' {spoken_fact.value}.')}"
        return cls(CHATML.dialogue(question, spoken_fact.answer), opening, prompt)
