"""`Explorer`: what the page asks, answered from a graph, a linker and readers.

Axis legend: mention, candidate, triple.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from entity_linking.explain import Explanation as LinkExplanation
from entity_linking.explain import explain
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.pipeline import Pipeline
from kept.apps.explorer.changes import changed_graph
from kept.apps.explorer.corrections import record
from kept.apps.explorer.questions import NameQuestion, Question
from kept.apps.explorer.readers import Reader, cut, names_of, with_choices
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.entity import entity_named

N_CANDIDATES = 12
N_RELATIONS = 300
N_REMEMBERED = 32


@dataclass(eq=False)
class Explorer:
    """A graph, its linker, and all that reads texts: the methods, and any runs.

    `gold` is where corrections go; None where there is nowhere to write.

    >>> from kept import atlas                                             # doctest: +SKIP
    >>> explorer = Explorer(graph, linker, readers)                        # doctest: +SKIP
    >>> explorer.link(Question("Paris lies on the Seine."))["links"][0]["label"]  # doctest: +SKIP
    'Paris'
    """

    graph: KnowledgeGraph
    linker: Pipeline
    readers: Sequence[Reader]
    gold: Path | None = None
    _linked: OrderedDict[str, LinkedText] = field(default_factory=OrderedDict)
    _graphs: OrderedDict[bytes, KnowledgeGraph] = field(default_factory=OrderedDict)

    # ---- what the page knows from the start --------------------------------
    def about(self) -> dict[str, Any]:
        """Return the graph in numbers, the readers and the relations."""
        graph = self.graph
        n_shown = min(graph.n_relations, N_RELATIONS)
        return {
            "graph": ", ".join(
                (
                    counted(graph.n_entities, "entities", ","),
                    counted(graph.n_relations, "relations", ","),
                    counted(graph.n_triples, "facts", ","),
                )
            ),
            "readers": [reader.about() for reader in self.readers],
            "relations": [cut(graph.relation_label(i)) for i in range(n_shown)],
            "gold": None if self.gold is None else str(self.gold),
        }

    def example(self) -> str:
        """Return a first text: the best-known entity's first fact in words; "" for no facts."""
        graph = self.graph
        if not graph.n_triples:
            return ""
        head = int(np.diff(graph.out_offsets).argmax())
        _, relation, tail = graph.outgoing(head)[0].tolist()
        parts = (graph.label(head), graph.relation_label(relation), graph.label(tail))
        return " ".join(cut(part) for part in parts)

    # ---- the panes ---------------------------------------------------------
    def link(self, question: Question) -> dict[str, Any]:
        """Return the mentions of a text with their candidates, the best first, and why."""
        linked = self._text(question)
        (explained,) = explain(self.linker, [linked])
        return {
            "text": linked.text,
            "links": [
                self._link(link, linked.text, reasons)
                for link, reasons in zip(linked.links, explained, strict=True)
            ],
        }

    def read(self, question: Question) -> dict[str, Any]:
        """Return what a reader reads of the text, and its answer if it is a run."""
        graph = self._graph(question)
        linked, reader = self._text(question), self._reader(question)
        return reader.read(linked, graph, question.targets, self.linker, narrow=question.narrow)

    def used(self, question: Question) -> dict[str, Any]:
        """Return the answer without each fact and each link (see `Predictor.explain`)."""
        reader = self._reader(question)
        if reader.predictor is None:
            raise ConfigError(
                f"{reader.name} has no trained weights here: give a run of kept finetune as --model"
            )
        graph = self._graph(question)
        example = reader.example(self._text(question), question.targets)
        explanation = reader.predictor.explain(example, graph, self.linker, about=question.about)
        fields = explanation.as_json()
        for one in fields["influences"]:
            one["what"] = cut(one["what"])
            one["fact"] = None if one["row"] is None else names_of(graph, one["row"])
        return fields

    def what_if(self, question: Question) -> dict[str, Any]:
        """Return what is read and answered before and after the changes of the graph."""
        if not question.changes:
            raise ConfigError("nothing is changed yet: delete, add, edit or shuffle facts first")
        before = self.read(msgspec.structs.replace(question, changes=()))
        after = self.read(question)
        graph = self._graph(question)
        return {"before": before, "after": after, "moved": self._moved(graph)}

    def correct(self, question: Question) -> dict[str, Any]:
        """Write the choices for the mentions of a text as its gold links."""
        if self.gold is None:
            raise ConfigError("corrections have no file here: start kept explore with --gold FILE")
        choices = self._choices(question)
        self._text(question)  # refuses choices that fit no mention
        n_texts, n_links = record(self.gold, question.text, choices)
        return {"path": str(self.gold), "n_texts": n_texts, "n_links": n_links}

    def names(self, question: NameQuestion) -> dict[str, Any]:
        """Return the entities that a name may mean, the best first."""
        whole = Link(Mention(0, len(question.name)), (), None, 1.0)
        (linked,) = self.linker.propose([LinkedText(question.name, (whole,))])
        entities = [candidate.entity for candidate in linked.links[0].candidates]
        if self.graph.entities.find(question.name) is not None:
            entities.insert(0, question.name)
        return {"entities": [self._entity(name) for name in dict.fromkeys(entities[:N_CANDIDATES])]}

    # ---- parts -------------------------------------------------------------
    def _reader(self, question: Question) -> Reader:
        for reader in self.readers:
            if reader.key == question.reader:
                return reader
        keys = ", ".join(reader.key for reader in self.readers)
        raise ConfigError(f"there is no model called {question.reader!r}; there are {keys}")

    def _link_text(self, text: str) -> LinkedText:
        if text not in self._linked:
            (self._linked[text],) = self.linker.link([text])
            if len(self._linked) > N_REMEMBERED:
                self._linked.popitem(last=False)
        return self._linked[text]

    def _text(self, question: Question) -> LinkedText:
        """The text with the linker's links, mentions that the page adds, and its choices."""
        linked = self._link_text(question.text)
        choices = self._choices(question)
        places = [(link.mention.start, link.mention.end) for link in linked.links]
        added = sorted(choices.keys() - set(places))
        if added:
            linked = self._with_mentions(linked, added)
        return with_choices(linked, choices)

    def _choices(self, question: Question) -> dict[tuple[int, int], str | None]:
        """The entities that were chosen, by identifier, label or alias; raises `KgError`."""
        return {
            (c.start, c.end): None if c.entity is None else entity_named(self.graph, c.entity).id
            for c in question.choices
        }

    def _with_mentions(self, linked: LinkedText, places: Sequence[tuple[int, int]]) -> LinkedText:
        """Mentions that the linker did not find, with their candidates."""
        links, end = linked.links, 0
        for span in places:
            start, stop = span
            overlaps = any(k.mention.start < stop and start < k.mention.end for k in links)
            if not end <= start < stop <= len(linked.text) or overlaps:
                raise ConfigError(
                    f"no mention can be at characters {start} to {stop}: it is outside the text, "
                    "or overlaps another one"
                )
            end = stop
        unlinked = tuple(Link(Mention(*span), (), None, 1.0) for span in places)
        (resolved,) = self.linker.disambiguate([LinkedText(linked.text, unlinked)])
        both = sorted((*links, *resolved.links), key=lambda link: link.mention)
        return dataclasses.replace(linked, links=tuple(both))

    def _graph(self, question: Question) -> KnowledgeGraph:
        if not question.changes:
            return self.graph
        key = msgspec.json.encode(question.changes)
        if key not in self._graphs:
            self._graphs[key] = changed_graph(self.graph, question.changes)
            if len(self._graphs) > 2:
                self._graphs.popitem(last=False)
        return self._graphs[key]

    def _moved(self, graph: KnowledgeGraph) -> dict[str, int]:
        kept = int(graph.contains(np.asarray(self.graph.triples)).sum())
        return {"gone": self.graph.n_triples - kept, "new": graph.n_triples - kept}

    def _link(self, link: Link, text: str, reasons: Sequence[LinkExplanation]) -> dict[str, Any]:
        candidates = [
            {
                **self._entity(each.candidate.entity),
                "confidence": each.confidence,
                "why": cut(each.reason),
                "parts": each.parts,
            }
            for each in reasons[:N_CANDIDATES]
        ]
        return {
            "start": link.mention.start,
            "end": link.mention.end,
            "words": text[link.mention.start : link.mention.end],
            "entity": link.entity,
            "label": None if link.entity is None else self._entity(link.entity)["label"],
            "confidence": link.confidence,
            "ambiguous": link.is_ambiguous,
            "equals": [self._entity(name)["label"] for name in link.equals[:N_CANDIDATES]],
            "candidates": candidates,
            "n_more": max(len(reasons) - N_CANDIDATES, 0),
        }

    def _entity(self, name: str) -> dict[str, Any]:
        row = self.graph.entities.find(name)
        if row is None:
            return {"entity": name, "label": cut(name), "description": "", "n_facts": 0}
        n_facts = len(self.graph.outgoing(row)) + len(self.graph.incoming(row))
        description = self.graph.description(row) or ", ".join(self.graph.type_labels(row)[:3])
        label = cut(self.graph.label(row))
        return {"entity": name, "label": label, "description": cut(description), "n_facts": n_facts}
