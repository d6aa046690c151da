"""Which questions are put: facts of Wikidata in words, drawn by seed and by popularity.

CoDEx-M, LAMA's T-REx and the training facts of LPAQA are written as files, and `kept kg build`
makes the graph of them. A question is about one relation of a head; each third of popularity has
equally many.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt

from entity_linking.mentions import Mention
from kept.lab.questions.items import Item, values_of
from kept.randomness import generator
from kept.tasks.datasets.public_files import (
    every_fact,
    relation_names,
    table,
    types_of,
    wikidata_labels,
)
from kept.training.config import RunConfig
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_json, write_text

POPULARITY = ("rarest third", "middle third", "most popular third")


class Wordings(BaseModel):
    """The beginning of an answer, and questions of the dev and of the test part."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begin: str
    dev: tuple[str, ...]
    test: tuple[str, ...]


class Settings(RunConfig):
    """The file `questions.yaml`."""

    decoder: str
    max_facts: PositiveInt
    n_new: PositiveInt
    n_candidates: PositiveInt
    per_third: PositiveInt
    dev_per_third: PositiveInt
    least_facts: PositiveInt
    relations: dict[str, Wordings]


@dataclass(frozen=True)
class Question:
    """A question, and what slices are made from.

    `third` of the popularity of its subject; `degree` counts the triples of all sources that the
    subject is in, `n_facts` those of the graph that it is the head of.
    """

    item: Item
    third: int
    degree: int
    n_facts: int


# ---- the graph -----------------------------------------------------------------------------------
def write_sources(data: Path, folder: Path) -> None:
    """Write the files that `kept kg build` reads: facts whose ends have labels, and their names."""
    labels = wikidata_labels(data)
    facts = list(dict.fromkeys(every_fact(data)))
    named = [fact for fact in facts if fact.head in labels and fact.tail in labels]
    entities = dict.fromkeys(end for fact in named for end in (fact.head, fact.tail))
    aliases = table(data / "wikidata_labels/qid_aliases.tsv")
    relations, used = relation_names(data), sorted({fact.relation for fact in named})
    tables: dict[str, Iterable[Iterable[str]]] = {
        "facts": named,
        "labels": ((entity, labels[entity]) for entity in entities),
        "aliases": ((row["qid"], row["alias"]) for row in aliases if row["qid"] in entities),
        "types": types_of(data, entities),
        "relations": ((name, relations[name]) for name in used),
    }
    for name, rows in tables.items():
        write_text(folder / f"{name}.tsv", "".join("\t".join(r) + "\n" for r in rows), force=True)
    degrees = Counter(end for fact in facts for end in (fact.head, fact.tail))
    write_json(folder / "degrees.json", {e: degrees[e] for e in entities}, force=True)


def graph_of(data: Path, folder: Path) -> tuple[KnowledgeGraph, Mapping[str, int]]:
    """Return the graph, built by `kept kg build` where it is not there yet, and all degrees."""
    if not (folder / "kg").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        write_sources(data, folder)
        options = [
            text
            for option, name in (
                ("labels", "labels"), ("aliases", "aliases"), ("types", "types"),
                ("relation-labels", "relations"),
            )
            for text in (f"--{option}", str(folder / f"{name}.tsv"))
        ]  # fmt: skip
        facts, out = str(folder / "facts.tsv"), str(folder / "kg")
        command = [sys.executable, "-m", "kept", "kg", "build", facts, *options, "-o", out]
        subprocess.run(command, check=True)
    degrees = json.loads((folder / "degrees.json").read_text(encoding="utf-8"))
    return KnowledgeGraph.open(folder / "kg"), degrees


# ---- the draw ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Pool:
    """The heads that questions may be about, by third of popularity, in one drawn order."""

    graph: KnowledgeGraph
    degrees: Mapping[str, int]
    settings: Settings

    @cached_property
    def heads(self) -> tuple[tuple[int, ...], ...]:
        """Heads with enough facts and a relation that can be asked for; equal degrees together."""
        graph = self.graph
        enough = np.flatnonzero(np.diff(graph.out_offsets) >= self.settings.least_facts)
        heads = np.array([head for head in enough.tolist() if self.relations_of(head)])
        degrees = np.array([self.degrees[graph.entities.name(head)] for head in heads.tolist()])
        cuts = np.quantile(degrees, [1 / 3, 2 / 3], method="higher")
        thirds = np.searchsorted(cuts, degrees, side="left")
        draws = generator(0, "heads of popular questions")
        return tuple(tuple(draws.permutation(heads[thirds == i]).tolist()) for i in range(3))

    def relations_of(self, head: int) -> list[str]:
        """The relations that can be asked for: no value says its answer by the head's name."""
        name = self.graph.label(head).casefold()
        names = []
        for relation in np.unique(self.graph.outgoing(head)[:, 1]).tolist():
            values = [v.casefold() for v in values_of(self.graph, head, relation)]
            is_open = not any(value in name or name in value for value in values)
            if is_open and self.graph.relations.name(relation) in self.settings.relations:
                names.append(self.graph.relations.name(relation))
        return names

    def draw(self, seed: int | None) -> tuple[Question, ...]:
        """The questions of a seed, none of whose heads another seed has; None: the dev part."""
        n_dev, n = self.settings.dev_per_third, self.settings.per_third
        draws = generator(0 if seed is None else seed, f"popular questions, dev {seed is None}")
        questions = []
        for third, heads in enumerate(self.heads):
            start = 0 if seed is None else n_dev + seed * n
            chosen = heads[:n_dev] if seed is None else heads[start : start + n]
            if len(chosen) < (n_dev if seed is None else n):
                raise ValueError(f"the {POPULARITY[third]} has no {n} heads left for seed {seed}")
            questions += [self._question(head, third, draws, seed is None) for head in chosen]
        return tuple(questions)

    def _question(
        self, head: int, third: int, draws: np.random.Generator, is_dev: bool
    ) -> Question:
        graph, name = self.graph, self.graph.label(head)
        relation = str(draws.choice(self.relations_of(head)))
        wordings = self.settings.relations[relation]
        wording = str(draws.choice(wordings.dev if is_dev else wordings.test))
        start = wording.index("{name}")
        entity = graph.entities.name(head)
        item = Item(
            wording.format(name=name), Mention(start, start + len(name)), entity, relation,
            values_of(graph, head, graph.relations.id(relation)),
            wordings.begin.format(name=name),
        )  # fmt: skip
        return Question(item, third, self.degrees[entity], len(graph.outgoing(head)))


def fingerprint_of(questions: Iterable[Question]) -> str:
    """Return a hash of questions with their answers."""
    items = [(q.item.question, q.item.begin, q.item.entity, q.item.answers) for q in questions]
    text = json.dumps(items)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
