"""`python -m experiments.joint_spaces.medical CONFIG -o RUN`: whose vectors help on medical text?

ERNIE and E-BERT, each with vectors of several sources, are asked whether a drug that no training
text names is given against a disease. The graph joins drugs and proteins, diseases and what they
are a kind of, diseases and symptoms; no triple joins a drug and a disease. Needs KEPT_DATA.

Axis legend: entity, width.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from entity_linking.annotations import write_jsonl
from entity_linking.dictionary import DictionaryLinker
from experiments.joint_spaces.reading import trained_network, write_entities, write_shuffled
from experiments.joint_spaces.trial import trained
from experiments.stages import StagedStudy, main
from kept.joint.assembly import VECTORS, JointConfig
from kept.kge.vectors import TransEVectors
from kept.randomness import generator
from kept.tasks.datasets import public_files
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records
from kg_loaders.disk.writing import write_lines

FOLDER = "medical"
DRUGS = "drugbank_open/drugbank-slim.tsv"
PROTEINS = "drugbank_open/proteins.tsv"
DISEASES = "disease_ontology/HumanDO.tsv"
SYMPTOMS = "disease_ontology/disease-symptom.tsv"
INDICATIONS = "indications/indications.tsv"
SLIMS = tuple(f"disease_ontology/DO_{n}_slim.obo" for n in ("cancer", "infectious_disease", "rare"))
STATED, NOT_GIVEN = "given", "not given"
_TERM = re.compile(r'^id: (\S+)\n(?:.*\n)*?def: "((?:[^"\\]|\\.)*)"', re.MULTILINE)


class Question(NamedTuple):
    """Whether a drug is given against a disease; identifiers and names."""

    drug: tuple[str, str]
    disease: tuple[str, str]
    label: str

    def row(self) -> dict[str, Any]:
        """The question in Wiki80's form."""
        tokens = ["Is"]
        places = []
        for (name, words), before in ((self.drug, []), (self.disease, ["given", "against"])):
            tokens += before
            start = len(tokens)
            tokens += words.split()
            places.append({"id": name, "pos": [start, len(tokens)]})
        return {"token": [*tokens, "?"], "h": places[0], "t": places[1], "relation": self.label}


def table(root: Path, name: str) -> Iterator[dict[str, str]]:
    """The rows of a table of the folder."""
    yield from public_files.table(root / FOLDER / name, is_quoted=True)


def records(root: Path) -> list[Record]:
    """The graph: triples, names, and descriptions of drugs and diseases."""
    drugs = {row["drugbank_id"]: row for row in table(root, DRUGS)}
    triples = [
        Triple(row["drugbank_id"], row["category"], row["uniprot_id"])
        for row in table(root, PROTEINS)
        if row["drugbank_id"] in drugs
    ]
    of_label = {row["label"]: row["id"] for row in table(root, DISEASES)}
    labels = {row["id"]: row["label"] for row in table(root, DISEASES)}
    for row in table(root, DISEASES):
        if row["subClassOf"] in of_label:
            triples.append(Triple(row["id"], "is a", of_label[row["subClassOf"]]))
    for row in table(root, SYMPTOMS):
        triples.append(Triple(row["disease_id"], "has symptom", row["symptom_id"]))
        labels.setdefault(row["disease_id"], row["disease_label"])
        labels[row["symptom_id"]] = row["symptom_label"]
    labels |= {name: row["name"] for name, row in drugs.items()}
    descriptions = {name: row["description"] for name, row in drugs.items()}
    for slim in SLIMS:
        for term in public_files.content(root / FOLDER / slim).split("[Term]"):
            descriptions |= dict(_TERM.findall(term.strip()))
    texts = [
        Text(name, kind, " ".join(words.split()), "en")
        for kind, named in ((TextKind.LABEL, labels), (TextKind.DESCRIPTION, descriptions))
        for name, words in named.items()
        if words and words.strip()
    ]
    return [*dict.fromkeys(triples), *texts]


def around(every: Sequence[Record], wanted: set[str], n_steps: int) -> list[Record]:
    """The triples within `n_steps` of the entities `wanted`, and the texts of their ends."""
    triples = [record for record in every if isinstance(record, Triple)]
    for _ in range(n_steps):
        wanted = wanted | {e for t in triples if t.head in wanted for e in (t.head, t.tail)}
    chosen = [t for t in triples if t.head in wanted]
    ends = {end for t in chosen for end in (t.head, t.tail)}
    return [*chosen, *(r for r in every if isinstance(r, Text) and r.node in ends)]


def questions(root: Path, share: float) -> tuple[list[Question], list[Question]]:
    """Training and test questions, of other drugs; half of each is answered "not given".

    A false disease is drawn as often as it is a right one, and is no indication of the drug in any
    of the table's three categories.
    """
    arguments, every = defaultdict(list), defaultdict(set)
    for row in table(root, INDICATIONS):
        drug = (row["drugbank_id"], row["drug"])
        disease = (row["doid_id"], row["disease"])
        every[drug].add(disease)
        if row["category"] != "NOT":
            arguments[drug].append(disease)
    pool = [disease for diseases in arguments.values() for disease in diseases]
    draws = generator(0, "false diseases")
    names = sorted(arguments)
    order = generator(0, "drugs asked").permutation(len(names)).tolist()
    heads = {names[i] for i in order[: round(share * len(names))]}
    parts: tuple[list[Question], list[Question]] = ([], [])
    for drug in names:
        for disease in arguments[drug]:
            while (other := pool[int(draws.integers(len(pool)))]) in every[drug]:
                pass
            part = parts[drug in heads]
            part += [Question(drug, disease, STATED), Question(drug, other, NOT_GIVEN)]
    return parts


def prepare(study: StagedStudy, root: Path, folder: Path) -> None:
    """The graph, the task's files, linked texts, and every file of vectors."""
    files = study.files
    train, test = questions(root, files["share_asked"])
    for name, part in (("train", train), ("test", test)):
        if not (folder / f"{name}.jsonl").exists():
            lines = (json.dumps(question.row()).encode() + b"\n" for question in part)
            write_lines(folder / f"{name}.jsonl", lines)
    if not (folder / "kg").exists():
        ends = {end[0] for q in [*train, *test] for end in (q.drug, q.disease)}
        drugs = {row["drugbank_id"] for row in table(root, DRUGS)}
        chosen = around(records(root), ends | drugs, files["n_steps"])
        graph_from_records(chosen, sources=("DrugBank's open part", "Disease Ontology")).save(
            folder / "kg"
        )
    graph = KnowledgeGraph.open(folder / "kg")
    if not (folder / "texts.jsonl").exists():
        texts = [
            text
            for entity in range(graph.n_entities)
            for text, _ in graph.entity_texts.of(entity, TextKind.DESCRIPTION)
        ]
        write_jsonl(DictionaryLinker(graph).link(texts), folder / "texts.jsonl")
    for name in files["sources"]:
        for seed in study.seeds:
            vectors_of(study, graph, name, seed, folder)


def vectors_of(
    study: StagedStudy, graph: KnowledgeGraph, name: str, seed: int, output: Path
) -> None:
    """`NAME-SEED.txt`, and `NAME-others-SEED.txt`: each entity's given to another."""
    path, width = output / f"{name}-{seed}.txt", study.files["width"]
    if not path.exists():
        print(f"vectors of {name}, seed {seed}", flush=True)
        settings = study.files["sources"][name]
        if "model" in settings:
            config = JointConfig(
                kg=output / "kg", text=(output / "texts.jsonl",), width=width, seed=seed, **settings
            )
            folder = output / f"{name}-{seed}"
            space, losses = trained(config, folder)
            space.write(folder, losses)
            (folder / VECTORS).rename(path)
        else:
            write_entities(path, graph, _of_graph(graph, name, settings, width, seed))
    others = output / f"{name}-others-{seed}.txt"
    if not others.exists():
        write_shuffled(path, others, seed)


def _of_graph(
    graph: KnowledgeGraph, name: str, settings: dict[str, Any], width: int, seed: int
) -> Tensor:
    if name == "transe":
        vectors: Tensor = TransEVectors(width, seed)(graph).vectors
    else:
        vectors = trained_network(name, graph, width=width, seed=seed, **settings)
    return vectors


if __name__ == "__main__":
    main("experiments.joint_spaces.medical", prepare)
