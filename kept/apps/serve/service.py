"""`Service`: what is asked, answered from a graph, a linker and models.

Every method takes the questions of a batch and returns as many answers, ready for JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from entity_linking.mentions import LinkedText, Mention
from entity_linking.pipeline import Pipeline
from kept.apps.explorer.readers import Reader
from kept.apps.serve.completing import Completion
from kept.apps.serve.errors import NotServedError
from kept.apps.serve.knowledge import MOST_CANDIDATES, Asking, facts_of_name, links_of
from kept.apps.serve.predicting import Predictions, PredictRequestItem
from kept.apps.serve.requests import Cloze, CompleteRequest, FactsRequest, ShowRequest
from kept.auto import AutoEncoder
from kept.errors import ConfigError
from kept.lab.probing.candidates import whole_words
from kept.lab.probing.engine import probe
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.models.base import ClozeModel
from kept.suggestions import no_such
from kg_loaders import KnowledgeGraph


@dataclass(eq=False)
class Service:
    """A graph with its linker, who reads texts by key, and the models that were given."""

    graph: KnowledgeGraph
    linker: Pipeline
    readers: Mapping[str, Reader]
    encoder: AutoEncoder | None = None
    cloze: ClozeModel | None = None
    completion: Completion | None = None
    predictions: Predictions = field(init=False)
    asking: Asking = field(init=False)

    def __post_init__(self) -> None:
        self.predictions = Predictions.of(self.graph, self.linker, self.readers)
        self.asking = Asking(self.graph, self.linker)

    def link(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the links of each text with their candidates, in the text's order."""
        return [
            {"text": linked.text, "links": links_of(self.graph, linked, MOST_CANDIDATES)}
            for linked in self.linker.link(list(texts))
        ]

    def facts(self, requests: Sequence[FactsRequest]) -> list[dict[str, Any]]:
        """Return who each name is, and its facts."""
        return [facts_of_name(self.graph, each.name, each.n) for each in requests]

    def ask(self, questions: Sequence[tuple[str, float | None]]) -> list[dict[str, Any]]:
        """Return the answer to each question, at least as sure as its number."""
        return [self.asking.answer(question, least) for question, least in questions]

    def predict(self, requests: Sequence[PredictRequestItem]) -> list[dict[str, Any]]:
        """Return the prediction of a run for each item."""
        return self.predictions.predict(requests)

    def show(self, requests: Sequence[ShowRequest]) -> list[dict[str, Any]]:
        """Return what a method or a run reads of each text: facts, a summary, an SVG picture."""
        linked = self.linker.link([each.text for each in requests])
        pages = []
        for each, text in zip(requests, linked, strict=True):
            if each.method not in self.readers:
                raise no_such("reader", each.method, self.readers)
            pages.append(self.readers[each.method].read(text, self.graph, (), self.linker))
        return pages

    def encode(self, texts: Sequence[str], *, mentions: bool = False) -> list[dict[str, Any]]:
        """Return the vector of each text, and, where asked for, one for each linked mention."""
        if self.encoder is None:
            raise NotServedError("there is no encoder here: start kept serve with --model")
        encoded = self.encoder.encode(list(texts), kg=self.graph, linker=self.linker)
        return [
            {"sentence": text.sentence.tolist()}
            | ({"mentions": [
                {"start": link.mention.start, "end": link.mention.end, "entity": link.entity,
                 "vector": vector.tolist()}
                for link, vector in zip(text.links, text.mentions, strict=True)
            ]} if mentions else {})
            for text in encoded
        ]  # fmt: skip

    def encode_mentions(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return `encode` with mentions."""
        return self.encode(texts, mentions=True)

    def probe(self, requests: Sequence[tuple[Cloze, int]]) -> list[dict[str, Any]]:
        """Return the best answers of a masked LM to each question, from its weights alone."""
        if self.cloze is None:
            raise NotServedError("there is no masked LM here: start kept serve with --probe")
        return [self._probe(question, n, self.cloze) for question, n in requests]

    def complete(self, requests: Sequence[CompleteRequest]) -> list[dict[str, Any]]:
        """Return the best answers for the slot "?" of each triple (see `best_answers`)."""
        if self.completion is None:
            raise NotServedError("there is no triple scorer here: start kept serve with --kgc")
        return [self.completion.best(*each.triple, each.n) for each in requests]

    # ---- parts -------------------------------------------------------------
    def _probe(self, question: Cloze, n: int, model: ClozeModel) -> dict[str, Any]:
        start = question.text.find(HOLE)
        if start < 0 or question.text.count(HOLE) > 1:
            raise ConfigError(f"{question.text[:60]!r} must hold {HOLE} once, where the answer is")
        names = question.candidates or whole_words(model.tokenizer)
        item = ClozeItem(
            id="asked", relation="asked", linked=LinkedText(question.text, ()),
            hole=Mention(start, start + len(HOLE)), subject="", answer=names[0],
        )  # fmt: skip
        words = None if question.candidates else names
        objects = {"asked": names} if question.candidates else None
        (answer,) = probe(model, [item], vocabulary=words, objects=objects, n_top=n).answers
        name = "objects" if question.candidates else "restricted"
        ranking = answer.ranking("objects" if question.candidates else "restricted")
        if ranking is None:
            raise ConfigError(f"{question.text[:60]!r} cannot be answered: {answer.skipped[name]}")
        return {
            "answers": list(ranking.top),
            "probability": ranking.probability,
            "n_candidates": ranking.n_candidates,
        }
