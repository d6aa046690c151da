"""`FittedAnswerer`: questions answered from a graph in one of several ways, with refusals.

Ways: `none`, the decoder alone; `values`, the values of the relation that is asked about, without a
decoder (`kept.decoders.answering`); `words`, `branches` and `nodes`, the value that the decoder
finds likeliest with the facts of the entity in view (`kept.lab.questions.readers`). Each way but
`none`
refuses where the graph does not hold what is asked, with a confidence below `least`.

Axis legend: question, word.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec
from torch import Tensor
from transformers import PreTrainedModel

from entity_linking.mentions import Link, LinkedText, Linker, Mention
from entity_linking.names.rules.case import Case
from entity_linking.parts import SentenceEncoder
from kept.decoders import load_decoder
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answer, Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder, is_available
from kept.errors import CheckpointError
from kept.hosts import load_tokenizer
from kept.lab.fitting.data import subject_of
from kept.lab.questions.answering import is_right
from kept.lab.questions.items import Item, QuestionSet
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.readers import AloneReader, FactsAs, Reader, TreeReader, write_all
from kept.lab.questions.showing import ItemSet, ShownItem
from kept.linking.linkers import LinkerSettings, open_linker
from kept.linking.sentences import HostSentenceEncoder
from kept.model_files import MODEL, verify_model
from kept.model_settings import settings_text
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_json

FILE = "questions.json"
MOST_FACTS, MOST_NEW = 256, 256
Way = Literal["none", "values", "words", "branches", "nodes"]
WAYS: tuple[Way, ...] = get_args(Way)
"""From the cheapest: of equally good ones the first is taken."""
NO_FACT = "the graph has no fact of what the question names"


@dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """How a folder answers, as `questions.json` has it.

    `n_new`: word pieces that the decoder writes at most. `linker` is a method of `kept link`.
    """

    way: Way
    kg: str
    decoder: str = "smollm2"
    linker: str = "prior"
    case: Case = "smart"
    max_facts: int = 8
    n_new: int = 12
    least: float = LEAST_CONFIDENCE

    def __post_init__(self) -> None:
        if not (1 <= self.max_facts <= MOST_FACTS and 1 <= self.n_new <= MOST_NEW):
            raise ValueError(
                f"max_facts is {self.max_facts} and n_new {self.n_new}; they are from 1 to "
                f"{MOST_FACTS} and {MOST_NEW}"
            )
        if not 0 <= self.least <= 1:
            raise ValueError(f"least is {self.least}; it is a confidence from 0 to 1")


@dataclass(frozen=True)
class EntityQuestion:
    """A question, the entity whose facts are shown with it (None: nobody's), and where it is named.

    `name` is the whole question where no part of it is a name.
    """

    text: str
    entity: str | None
    name: Mention

    @classmethod
    def of(cls, linked: LinkedText, entity: str | None, graph: KnowledgeGraph) -> Self:
        """The question about `entity`, at its link, else where a name of it stands."""
        places = [link.mention for link in linked.links if link.entity and link.entity == entity]
        number = None if entity is None else graph.entities.find(entity)
        if number is not None and not places:
            names = [graph.label(number), *(name for name, _ in graph.aliases(number))]
            starts = [(linked.text.find(name), len(name)) for name in names]
            places = [Mention(start, start + n) for start, n in starts if start >= 0 and n]
        return cls(linked.text, entity, places[0] if places else Mention(0, len(linked.text)))


class OneEntity:
    """A linker that finds the given entity of each text, at the place where the text names it."""

    def __init__(self, questions: Sequence[EntityQuestion]) -> None:
        self._by_text = {each.text.strip(): each for each in questions}

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """The texts, each with one link, or none."""
        linked = []
        for text in texts:
            question = self._by_text[text]
            links = (
                () if question.entity is None else (Link(question.name, (), question.entity, 1.0),)
            )
            linked.append(LinkedText(text, links))
        return linked


@dataclass(frozen=True, eq=False)
class FittedAnswerer:
    """Answers in the way of `settings` over `graph`."""

    settings: AnswerSettings
    graph: KnowledgeGraph
    encoder: SentenceEncoder
    _vectors: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: str | Path, kg: KnowledgeGraph | str | Path | None = None) -> Self:
        """The answerer of a folder of `kept fit`, over its graph or another.

        Raises `CheckpointError` for a folder without `questions.json`.
        """
        settings = read_settings(Path(folder))
        graph = kg if isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg or settings.kg)
        return cls(settings, graph, sentence_encoder())

    @cached_property
    def host(self) -> PreTrainedModel:
        """The decoder, opened when it is first needed."""
        return load_decoder(self.settings.decoder)

    @cached_property
    def prompting(self) -> Prompting:
        """How questions are put to the decoder."""
        return Prompting(load_tokenizer(self.settings.decoder), "own", self.settings.max_facts)

    @cached_property
    def linker(self) -> Linker:
        """Finds whom a question names."""
        settings = LinkerSettings(
            kg=self.settings.kg, method=self.settings.linker, case=self.settings.case  # type: ignore[arg-type]
        )  # fmt: skip
        return open_linker(settings, self.graph)

    def answer(self, question: str) -> Answer:
        """The answer to one question."""
        return self.answer_texts([question])[0]

    def answer_texts(self, questions: Sequence[str]) -> list[Answer]:
        """The answers to questions, each about the entity that the linker finds in it."""
        items = []
        for linked in self.linker.link([question.strip() for question in questions]):
            entity = subject_of(linked.links, self.graph)
            items.append(EntityQuestion.of(linked, entity, self.graph))
        return self.answers(items)

    def answers(
        self,
        questions: Sequence[EntityQuestion],
        *,
        way: Way | None = None,
        graph: KnowledgeGraph | None = None,
    ) -> list[Answer]:
        """The answers to questions, in their order.

        `way`: another than that of the settings; `graph`: one with other triples.
        """
        graph, way = graph or self.graph, way or self.settings.way
        if way == "none":
            return self._without_graph(questions, graph)
        answers = self.values(questions, graph, least=self.settings.least)
        if way == "values":
            return answers
        places = [i for i, each in enumerate(answers) if not each.refusal]
        likeliest = self._likeliest([questions[i] for i in places], graph, way)
        for i, values in zip(places, likeliest, strict=True):
            answers[i] = _with_values(answers[i], values, graph, questions[i].entity)
        return answers

    def values(
        self, questions: Sequence[EntityQuestion], graph: KnowledgeGraph, *, least: float
    ) -> list[Answer]:
        """What `kept ask` answers, with the confidence that the graph holds what is asked."""
        answerer = Answerer(graph, OneEntity(questions), self.encoder)
        answerer.matcher.vectors = self._vectors
        return [answerer.answer(each.text, least=least) for each in questions]

    # ---- what a decoder does -----------------------------------------------
    def _without_graph(
        self, questions: Sequence[EntityQuestion], graph: KnowledgeGraph
    ) -> list[Answer]:
        reader = AloneReader(self.host, self.prompting)
        texts = self._read(reader, _view(questions, graph))[0]
        return [Answer(each.text, (text,)) for each, text in zip(questions, texts, strict=True)]

    def _likeliest(
        self, questions: Sequence[EntityQuestion], graph: KnowledgeGraph, way: FactsAs
    ) -> list[tuple[str, ...]]:
        """Of the values in view the one whose first word piece is the likeliest.

        Of values that begin alike the one that is written; else all of them.
        """
        if not questions:
            return []
        view = _view(questions, graph)
        reader = TreeReader(self.host, self.prompting, way)
        texts, scores = self._read(reader, view)
        choices = []
        for each, text, item_scores in zip(view.items, texts, scores, strict=True):
            facts = self.prompting.facts(view.questions, each.entity or "")
            values = list(dict.fromkeys(graph.label(tail) for tail in facts[:, 2].tolist()))
            first = {value: self.prompting.pieces(value)[0] for value in values}
            best = max(first.values(), key=lambda piece: float(item_scores[piece]), default=None)
            alike = tuple(value for value in values if first[value] == best)
            choices.append(tuple(v for v in alike if is_right(text, v))[:1] or alike)
        return choices

    def _read(self, reader: Reader, view: ItemSet) -> tuple[list[str], Tensor]:
        output = write_all(reader, self.prompting, view, self.settings.n_new)
        return [text.partition("<|")[0].strip() for text in output.texts], output.scores


def _view(questions: Sequence[EntityQuestion], graph: KnowledgeGraph) -> ItemSet:
    items = tuple(Item(each.text, each.name, each.entity or "", "", ()) for each in questions)
    rows = zip(questions, items, strict=True)
    view_items = (ShownItem(i, item, each.entity, ()) for i, (each, item) in enumerate(rows))
    return ItemSet(QuestionSet(graph, items, {}), tuple(view_items))


def _with_values(
    answer: Answer, values: tuple[str, ...], graph: KnowledgeGraph, entity: str | None
) -> Answer:
    """An answer with the values that a decoder chose, and the facts that have them."""
    if entity is None or not values:
        return dataclasses.replace(answer, values=(), facts=(), refusal=NO_FACT)
    facts = [
        (graph.label(head), graph.relation_label(relation), graph.label(tail))
        for head, relation, tail in graph.outgoing(graph.entities.id(entity)).tolist()
    ]
    value_facts = tuple(fact for fact in facts if fact[2] in values)
    relation = value_facts[0][1] if value_facts else answer.relation
    return dataclasses.replace(answer, values=values, facts=value_facts, relation=relation)


# ---- files ---------------------------------------------------------------------------------------
def read_settings(folder: Path) -> AnswerSettings:
    """Return the settings of a folder; `CheckpointError` where it has none, or a file was altered.

    Folders of earlier versions have no checksums.
    """
    path = folder / FILE
    if (folder / MODEL.manifest).is_file():
        verify_model(folder)
    try:
        values = json.loads(settings_text(path))
        return msgspec.convert(values, AnswerSettings)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); give the folder of `kept fit` on questions"
        ) from error


def write_settings(settings: AnswerSettings, folder: Path) -> None:
    """Write them for `FittedAnswerer.open`."""
    write_json(folder / FILE, asdict(settings), indent=2, force=True)


def answers_questions(folder: str | Path) -> bool:
    """Whether a folder is one of `kept fit` on questions."""
    return (Path(folder) / FILE).is_file()


def sentence_encoder(n_threads: int = 2) -> SentenceEncoder:
    """The quick encoder where it is installed, else MiniLM by torch."""
    return FastSentenceEncoder(n_threads) if is_available() else HostSentenceEncoder("minilm")
