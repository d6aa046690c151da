"""Which questions are put: facts of Wikidata in words, drawn by seed and by popularity.

CoDEx-M, LAMA's T-REx and the training facts of LPAQA are written as files, and `kept kg build`
makes the graph of them. A question is about one relation of a head; each third of popularity has
equally many.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, PositiveInt

from entity_linking.mentions import Mention
from kept.lab.questions.items import Item, values_of
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_json, write_text

POPULARITY = ("rarest third", "middle third", "most popular third")
Fact = tuple[str, str, str]


class Wordings(BaseModel):
    """The beginning of an answer, and questions of the dev and of the test part."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begin: str
    dev: tuple[str, ...]
    test: tuple[str, ...]


class Settings(BaseModel):
    """The file `questions.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decoder: str
    max_facts: PositiveInt
    n_new: PositiveInt
    n_candidates: PositiveInt
    per_third: PositiveInt
    dev_per_third: PositiveInt
    least_facts: PositiveInt
    relations: dict[str, Wordings]

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


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
    labels = {
        row[0]: row[1]
        for row in _rows(data / "wikidata_labels/qid_labels.tsv.gz")
        if row[2] != "fewrel-surface"  # mentions in lower case, not labels
    }
    facts = list(dict.fromkeys(facts_of_sources(data)))
    named = [fact for fact in facts if fact[0] in labels and fact[2] in labels]
    entities = dict.fromkeys(end for head, _, tail in named for end in (head, tail))
    aliases = [r[:2] for r in _rows(data / "wikidata_labels/qid_aliases.tsv.gz")]
    known = json.loads((data / "codex/relations_en.json").read_text(encoding="utf-8"))
    relations = {name: row["label"] for name, row in known.items()}
    with (data / "lama/relations.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            relations.setdefault(row["relation"], row["label"])
    types = json.loads(gzip.decompress((data / "codex/entity2types.json.gz").read_bytes()))
    kinds = json.loads(gzip.decompress((data / "codex/types_en.json.gz").read_bytes()))
    tables: dict[str, Iterable[Iterable[str]]] = {
        "facts": named,
        "labels": ((entity, labels[entity]) for entity in entities),
        "aliases": (row for row in aliases if row[0] in entities),
        "types": (
            (entity, kinds[kind]["label"])
            for entity in entities
            for kind in types.get(entity, ())
            if kind in kinds
        ),
        "relations": ((name, relations[name]) for name in sorted({fact[1] for fact in named})),
    }
    for name, rows in tables.items():
        write_text(folder / f"{name}.tsv", "".join("\t".join(r) + "\n" for r in rows), force=True)
    degrees = Counter(end for head, _, tail in facts for end in (head, tail))
    write_json(folder / "degrees.json", {e: degrees[e] for e in entities}, force=True)


def facts_of_sources(data: Path) -> Iterator[Fact]:
    for split in ("train", "valid", "test"):
        for row in _rows(data / f"codex/codex-m/{split}.txt.gz", header=False):
            yield row[0], row[1], row[2]
    for path in sorted((data / "lama/TREx").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                yield row["sub_uri"], row["predicate_id"], row["obj_uri"]
    with tarfile.open(data / "lama/lpaqa_TREx_train.tar.gz") as archive:
        for member in sorted(archive, key=lambda each: each.name):
            if (file := archive.extractfile(member)) is not None:
                for row in map(json.loads, file.read().decode().split("\n")[:-1]):
                    yield row["sub_uri"], Path(member.name).stem, row["obj_uri"]


def _rows(path: Path, *, header: bool = True) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if header:
            next(rows)
        yield from rows


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
