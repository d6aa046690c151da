"""Wikipedia2Vec's vocabulary, tables, pair updates and training passes against the original's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from kept.joint.corpus import Corpus, read_corpus, tokenise
from kept.joint.skip_gram import Tables, keep_table, noise_table, sigmoids
from kept.joint.wikipedia2vec import Wikipedia2Vec, Wikipedia2VecSettings, page_rates
from kg_loaders import Text, TextKind, Triple, graph_from_records
from tests.reference import original_wikipedia2vec as original

METHOD = "wikipedia2vec"
ATOL = 1e-6


@dataclass(frozen=True, eq=False)
class Golden:
    """The folder, their pages as our corpus, and where each of our items stands among theirs."""

    config: dict[str, Any]
    data: dict[str, Any]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    state: dict[str, Tensor]
    corpus: Corpus
    theirs: NDArray[np.int64]

    def tables(self, inputs: Tensor, outputs: Tensor) -> Tables:
        """Their tables in the order of our items."""
        return Tables(inputs[self.theirs].clone(), outputs[self.theirs].clone())

    def compare(self, name: str, tables: Tables, compared: Any) -> None:
        for part, ours in (("syn0", tables.inputs), ("syn1", tables.outputs)):
            expected = self.outputs[f"{name}.{part}"][self.theirs]
            compared.close(f"{name}.{part}", ours, expected, atol=ATOL)

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Their words or entities in the order in which their tables take them."""
        return [item for item in self.data["vocabulary"] if item["kind"] == kind]

    def noise(self, kind: str, power: float, size: int) -> NDArray[np.int64]:
        """Their items to draw from, by our table."""
        items = self.items(kind)
        rows = noise_table(np.array([item["count"] for item in items]), power, size)
        return np.array([item["index"] for item in items])[rows]


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    config, data = (
        json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("config", "data")
    )
    data = with_redirects_followed(data)
    tensors = (load_file(folder / f"{n}.safetensors") for n in ("inputs", "outputs", "state_dict"))
    corpus = corpus_of(config, data)
    at = {(v["kind"], v["name"]): v["index"] for v in data["vocabulary"]}
    names = graph_of(data).entities
    ours = [("word", word) for word in corpus.words]
    ours += [("entity", names.name(int(i))) for i in corpus.entities]
    return Golden(config, data, *tensors, corpus, np.array([at[item] for item in ours]))


def with_redirects_followed(data: dict[str, Any]) -> dict[str, Any]:
    """The data with every link to the page that its title leads to; no link to a part of a page."""
    target_of = dict(data["redirects"])
    pages = {
        name: [
            text | {"links": [
                link | {"title": target_of.get(link["title"], link["title"])}
                for link in text["links"] if "#" not in link["title"]
            ]}
            for text in texts
        ]
        for name, texts in data["pages"].items()
    }  # fmt: skip
    return data | {"pages": pages}


def graph_of(data: dict[str, Any]) -> Any:
    """A triple for each link between pages that have links to them."""
    known = {v["name"] for v in data["vocabulary"] if v["kind"] == "entity"}
    links = [
        (page, link["title"])
        for page, texts in data["pages"].items()
        for text in texts
        for link in text["links"]
    ]
    triples = [Triple(a, "links to", b) for a, b in dict.fromkeys(links) if {a, b} <= known]
    return graph_from_records(
        [*(Text(n, TextKind.LABEL, n, "en") for n in sorted(known)), *triples]
    )


def corpus_of(config: dict[str, Any], data: dict[str, Any], *, mentions: bool = False) -> Corpus:
    """Their pages, with the links that are there, in their order; then those of other mentions."""
    texts, pages, order = [], [], []
    names: dict[str, list[str]] = {}
    for mention in data["mentions"] if mentions else ():
        names.setdefault(mention["text"], []).append(mention["entity"])
    for number, page in enumerate(data["pages"].values()):
        for record in page:
            links = [(x["start"], x["end"], x["title"]) for x in record["links"]]
            for each in original.detect(tokenise(record["text"]), names):
                if not any(each[0] < end and start < each[1] for start, end, _ in links):
                    links.append(each)
            sorted_links = tuple(gold_link(*link) for link in sorted(links))
            texts.append(LinkedText(record["text"], sorted_links))
            pages.append(number)
            order.append([sorted(links).index(link) for link in links])
    corpus = read_corpus(
        texts, graph_of(data), pages=pages, min_word_count=config["min_word_count"],
        min_entity_count=config["min_entity_count"], min_tokens=config["min_paragraph_len"],
    )  # fmt: skip
    rows = corpus.links.copy()
    for (begin, end), order_of_entity in zip(pairwise(corpus.link_offsets), order, strict=True):
        if end > begin:
            rows[begin:end] = corpus.links[begin:end][order_of_entity]
    return replace(corpus, links=rows)


def test_tokens(golden: Golden, compared: Any) -> None:
    for text, expected in golden.data["tokens"].items():
        compared.equal("tokens", [list(token) for token in tokenise(text)], expected)


def test_vocabulary_and_link_graph(golden: Golden, compared: Any) -> None:
    corpus = golden.corpus
    counts = {v["index"]: v["count"] for v in golden.data["vocabulary"]}
    actual = np.concatenate([corpus.word_counts, corpus.entity_counts]).tolist()
    compared.equal("counts", actual, [counts[i] for i in golden.theirs.tolist()])
    compared.equal("items", sorted(golden.theirs.tolist()), sorted(counts))
    compared.equal("first entity", len(corpus.words), golden.data["entity_offset"])
    names = {v["name"]: v["index"] for v in golden.data["vocabulary"] if v["kind"] == "entity"}
    for name, expected in golden.data["link_graph"].items():
        item = golden.theirs.tolist().index(names[name])
        begin, end = corpus.edge_offsets[item - len(corpus.words) :][:2]
        compared.equal("neighbours", sorted(golden.theirs[corpus.edges[begin:end, 1]]), expected)


def test_tables(golden: Golden, compared: Any) -> None:
    compared.close("sigmoids", sigmoids(), golden.outputs["exp_table"], atol=ATOL)
    n = 0
    for name, expected in golden.outputs.items():
        if name.startswith("word_sampling_table."):
            sample = float(name.removeprefix("word_sampling_table."))
            named = [v for v in golden.data["vocabulary"] if v["kind"] == "word"]
            counts = np.array([v["count"] for v in sorted(named, key=lambda v: v["index"])])
            compared.equal(name, keep_table(counts, sample).tolist(), expected.tolist())
        elif name.startswith("neg_table."):
            _, kind, *rest = name.split(".")
            report = ".".join(rest).removeprefix("power").split(".size")
            one = {"words": "word", "entities": "entity"}[kind]
            actual = golden.noise(one, float(report[0]), len(expected))
            compared.equal(name, actual.tolist(), expected.tolist())
        n += name.startswith(("word_sampling_table.", "neg_table."))
    assert n


def named_pages(data: dict[str, Any]) -> list[list[tuple[list[str], list[tuple[str, str]]]]]:
    """Of each page's texts, the words and the links with their names, in lower case."""

    def words(text: str) -> list[str]:
        return [token[0].lower() for token in tokenise(text)]

    return [
        [(words(t["text"]), [(" ".join(words(x["text"])), x["title"]) for x in t["links"]])
         for t in page]
        for page in data["pages"].values()
    ]  # fmt: skip


def test_mention_table_and_detection(golden: Golden, compared: Any) -> None:
    table = original.mention_table(named_pages(golden.data))
    names: dict[str, list[str]] = {}
    for record in golden.data["mentions"]:
        actual = table[record["text"], record["entity"]]
        compared.equal("mention", actual, {key: record[key] for key in actual})
        names.setdefault(record["text"], []).append(record["entity"])
    for record in golden.data["detected"]:
        expected = [tuple(each.values()) for each in record["found"]]
        compared.equal("detected", original.detect(tokenise(record["text"]), names), expected)


# ---- updates ------------------------------------------------------------------------------------
PAIR_NOISE = {
    "word_word": "neg_table.words.power0.75.", "entity_word": "neg_table.words.power0",
    "word_entity": "neg_table.entities.power1.",
}  # fmt: skip
"""Which of their tables each group of pairs drew from: the first whose name begins so."""


def test_pair_updates(golden: Golden, compared: Any) -> None:
    groups = [name for name in golden.inputs if name.startswith("pairs.")]
    assert groups
    for group in groups:
        table = PAIR_NOISE[group.removeprefix("pairs.")]
        noise = next(golden.outputs[n] for n in sorted(golden.outputs) if n.startswith(table))
        rows = np.argsort(golden.theirs)[noise.numpy()]
        pairs = np.argsort(golden.theirs)[golden.inputs[group].numpy()].tolist()
        messages = [n for n in golden.outputs if n.startswith(f"{group}.neg") and "syn0" in n]
        for name in messages:
            n = int(name.removeprefix(f"{group}.neg").removesuffix(".syn0"))
            tables = golden.tables(golden.state["syn0"], golden.state["syn1"])
            draw = original.twister(golden.config["seed"] + n)
            for pair in pairs:
                rate = golden.config["pair_alpha"]
                original.step(tables, tuple(pair), rows, n, rate, draw)
            golden.compare(name.removesuffix(".syn0"), tables, compared)


def test_draws(golden: Golden, compared: Any) -> None:
    draw = original.twister(golden.config["seed"] + golden.config["negative"])
    expected = golden.inputs["mt19937_draws_for_seed_plus_neg"].tolist()
    compared.equal("draws", [draw() for _ in expected], expected)


def test_similarity(golden: Golden, compared: Any) -> None:
    (name,) = (n for n in golden.data if n.startswith("most_similar_to_item_"))
    vectors = golden.tables(golden.state["syn0"], golden.state["syn1"]).inputs
    item = golden.theirs.tolist().index(int(name.rsplit("_", 1)[1]))
    actual = F.cosine_similarity(vectors[item], vectors, dim=1)
    by_index = {v["index"]: v["name"] for v in golden.data["vocabulary"]}
    best = actual.topk(len(golden.data[name]))
    names = [by_index[golden.theirs[i]] for i in best.indices.tolist()]
    compared.equal("most similar", names, [message[0] for message in golden.data[name]])
    compared.close("cosines", best.values, [report[1] for report in golden.data[name]], atol=ATOL)


# ---- passes -------------------------------------------------------------------------------------
PLAIN = "no_negatives_window1"
"""The pass that learned from links alone; the others also from mentions that are not linked."""


@dataclass(frozen=True, eq=False)
class Pass:
    """What a training read: our corpus, pages in order, each one's rate and graph entities."""

    record: dict[str, Any]
    corpus: Corpus
    tables: Tables
    order: list[int]
    schedule: NDArray[np.int64]
    rates: list[float]

    @classmethod
    def of(cls, golden: Golden, name: str) -> Pass:
        record, names = golden.data["train"][name], list(golden.data["pages"])
        order = [names.index(page) for epoch in record["page_order"] for page in epoch]
        n = record["entities_per_page"]
        indices = golden.inputs.get(f"train.{name}.link_indices")
        rows = np.empty(0, np.int64) if indices is None else indices.numpy()[: n * len(order)]
        schedule = np.argsort(golden.theirs)[rows].reshape(len(order), n)
        corpus = corpus_of(golden.config, golden.data, mentions=name != PLAIN)
        first = golden.inputs[f"train.{name}.syn0_init"]
        tables = golden.tables(first, torch.zeros_like(first))
        return cls(record, corpus, tables, order, schedule, record["learning_rates"])


def test_learning_rates(golden: Golden, compared: Any) -> None:
    for record in golden.data["train"].values():
        n = len(record["learning_rates"])
        actual = page_rates(np.arange(n), n, record["init_alpha"], record["min_alpha"])
        compared.close("rates", actual, record["learning_rates"], atol=1e-12)


def test_passes_in_the_order_of_their_draws(golden: Golden, compared: Any) -> None:
    rows = np.argsort(golden.theirs)
    noise = rows[golden.noise("word", 0, 0)], rows[golden.noise("entity", 0, 0)]
    for name in golden.data["train"]:
        run = Pass.of(golden, name)
        keep = keep_table(golden.corpus.word_counts, 0.0)
        settings = original.Settings(run.record["window"], run.record["negative"], noise, keep)
        schedule, draw = iter(run.schedule.tolist()), original.twister(run.record["worker_seed"])
        original.pages(run.tables, run.corpus, run.order, schedule, iter(run.rates), draw, settings)
        golden.compare(f"train.{name}", run.tables, compared)


def test_passes_of_our_own(golden: Golden, compared: Any) -> None:
    """Where nothing is drawn, ours are theirs."""
    fixed = [n for n, t in golden.data["train"].items() if (t["window"], t["negative"]) == (1, 0)]
    assert fixed
    for name in fixed:
        run = Pass.of(golden, name)
        settings = Wikipedia2VecSettings(window=1, negatives=0, sample=0.0, batch_pairs=1)
        model = Wikipedia2Vec(run.corpus, settings, run.tables, seed=0)
        model.train(np.array(run.order), np.array(run.rates), run.schedule)
        golden.compare(f"train.{name}", run.tables, compared)
