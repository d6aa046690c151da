"""A question as a decoder reads it, and the facts around it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link, LinkedText, Mention
from kept.decoders.asking import prompt
from kept.decoders.kblam.wording import CHAT_FORMATS
from kept.lab.questions.items import Item, QuestionSet

TOKENIZERS_MARKS = "own"


@dataclass(frozen=True, eq=False)
class Prompting:
    """A tokenizer, the marks of a turn (`chat`: "own" for the tokenizer's), facts shown at most."""

    tokenizer: PreTrainedTokenizerBase
    chat: str
    max_facts: int

    def text(self, item: Item, entity: str | None, before: str = "") -> LinkedText:
        """The question with `before` before it and the answer's beginning behind, linked."""
        links = () if entity is None else (Link(item.mention, (), entity, 1.0),)
        if self.chat == TOKENIZERS_MARKS:
            return prompt(self.tokenizer, item.question, links, before, item.begin)
        marks = CHAT_FORMATS[self.chat]
        before, begin = f"{marks.before}{before}", item.begin
        moved = tuple(
            dataclasses.replace(
                link,
                mention=Mention(len(before) + link.mention.start, len(before) + link.mention.end),
            )
            for link in links
        )
        return LinkedText(f"{before}{item.question}{marks.between}{begin}", moved)

    def question_text(self, item: Item) -> str:
        """The text up to the answer."""
        return self.text(dataclasses.replace(item, begin=""), None).text

    @property
    def end_of_turn(self) -> str:
        """What stands behind an answer."""
        end = str(self.tokenizer.eos_token or "")
        return end if self.chat == TOKENIZERS_MARKS else CHAT_FORMATS[self.chat].after

    def question_begins(self, text: str, item: Item) -> int:
        """The number of the first piece of `text` that is of the question."""
        start_of_question = text.rindex(item.question)
        pieces: Any = self.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        return next(
            i for i, (start, end) in enumerate(pieces) if end > start_of_question and end > start
        )

    def answered(self, text: LinkedText, value: str) -> LinkedText:
        """The text with a value behind it."""
        return dataclasses.replace(text, text=f"{text.text} {value}.")

    def pieces(self, value: str) -> list[int]:
        """The pieces of a value as they follow a text."""
        ids: Any = self.tokenizer(f" {value}", add_special_tokens=False)["input_ids"]
        return list(ids)

    def ended(self, value: str) -> list[int]:
        """The pieces of a value and a stop."""
        return self.pieces(f"{value}.")

    def in_words(self, questions: QuestionSet, item: Item, entity: str | None) -> LinkedText:
        """The text with the facts of `entity` as sentences about whom the question names."""
        if entity is None:
            return self.text(item, None)
        statements = "".join(
            f"{questions.statement(item.name, relation, questions.graph.label(tail))} "
            for _, relation, tail in self.facts(questions, entity).tolist()
        )
        return self.text(item, None, statements)

    def facts(self, questions: QuestionSet, entity: str) -> NDArray[np.int32]:
        """The first facts of an entity, `[fact 3]`."""
        return questions.graph.outgoing(questions.graph.entities.id(entity))[: self.max_facts]
