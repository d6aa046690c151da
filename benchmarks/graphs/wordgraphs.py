"""Graphs a second: the builder beside loops over lists, on the same texts, with equal results.

    python benchmarks/graphs/wordgraphs.py [--graphs 256] [--repeats 7]

Made-up graph of 5,000 entities and texts whose graphs have about 142 nodes. The rows run in turn,
`--repeats` times; a line has the median of graphs a processor second and of the ratio to the loops
of the same turn. Loops and kept call the same tokenizer, which is a row of its own; "one by one" is
a call a text in place of one pass over 32; "floor" only copies the boolean matrices. At the end the
fitted exponent over 64, 128 and 256 texts: time grows as the number of texts to that power.
"""

from __future__ import annotations

import argparse
import os
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from entity_linking.mentions import Link, LinkedText, Mention
from kept.graphs.builder import BuilderConfig, build_many, encode_words
from kept.graphs.views import adjacency, colake_batch, colake_view
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kept" / "graphs"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from graph_oracle import oracle, plain

from benchmarks.measuring import growth, in_turn, once, three_sizes, write_line

N_ENTITIES, N_RELATIONS, N_TRIPLES, N_WORDS = 5_000, 200, 60_000, 62
CONFIG = BuilderConfig(max_neighbours=8, max_nodes=256)


def make_tokenizer() -> Any:
    names = ["[UNK]", "[CLS]", "[SEP]", *string.ascii_lowercase]
    names += [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")


def make_texts(n: int, graph: KnowledgeGraph) -> list[LinkedText]:
    """Texts of two-letter words, five of them linked."""
    draws = np.random.default_rng(0)
    texts = []
    for _ in range(n):
        letters = draws.integers(97, 123, (N_WORDS, 2)).astype(np.uint8)
        words = [bytes(pair).decode() for pair in letters]
        places = sorted(draws.choice(N_WORDS, 5, replace=False).tolist())
        links = tuple(
            Link(Mention(3 * i, 3 * i + 2), (), graph.entities.name(int(e)), 1.0)
            for i, e in zip(places, draws.integers(graph.n_entities, size=5), strict=True)
        )
        texts.append(LinkedText(" ".join(words), links))
    return texts


def report(rows: list[tuple[str, int, Callable[[], object]]], repeats: int) -> None:
    """Each row a text, in turn; the first is what the others are compared with."""
    times = np.array([[once(run).processor / n for _, n, run in rows] for _ in range(repeats)])
    for number, (name, _, _) in enumerate(rows):
        write_line(
            row=name, graphs_a_second=round(1 / float(np.median(times[:, number]))),
            times_as_fast=round(float(np.median(times[:, 0] / times[:, number])), 2), equal=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    draws = np.random.default_rng(1)
    rows = draws.integers([N_ENTITIES, N_RELATIONS, N_ENTITIES], size=(N_TRIPLES, 3))
    graph = graph_from_records(Triple(f"Q{h}", f"P{r}", f"Q{t}") for h, r, t in rows.tolist())
    tokenizer, texts = make_tokenizer(), make_texts(options.graphs, graph)
    n_slow = min(64, options.graphs)
    outgoing: dict[int, list[int]] = {}
    for row, head in enumerate(graph.triples[:, 0].tolist()):
        outgoing.setdefault(head, []).append(row)

    def loops() -> list[dict[str, Any]]:
        return [
            oracle(text, tokenizer, graph, generator(0, "graph", 0, i), CONFIG, outgoing=outgoing)
            for i, text in enumerate(texts[:n_slow])
        ]

    built = build_many(texts, tokenizer, graph, seed=0, config=CONFIG)
    for ours, theirs in zip(built, loops(), strict=False):
        if plain(ours, adjacency(ours)) != theirs:
            raise SystemExit("the builder and the loops disagree")
    sizes = [item.n_nodes for item in built]
    views = [colake_view(item) for item in built]

    def build(n: int = len(texts), of: int = 32) -> None:
        for i in range(0, n, of):
            part = texts[i : i + of]
            colake_batch(build_many(part, tokenizer, graph, seed=0, config=CONFIG))

    raw = [text.text for text in texts]
    print(f"{len(texts)} texts, {np.mean(sizes):.0f} nodes a graph ({min(sizes)} to {max(sizes)})")
    rows: list[tuple[str, int, Callable[[], object]]] = [
        ("loops over lists", n_slow, loops),
        ("build, view, stack by 32", len(texts), build),
        ("build, view, one by one", len(texts), lambda: build(of=1)),
        ("build", len(texts), lambda: build_many(texts, tokenizer, graph, seed=0, config=CONFIG)),
        ("word pieces only", len(texts), lambda: encode_words(
            raw, tokenizer, max_words=CONFIG.max_words)),
        ("view, stack by 32", len(texts), lambda: [
            colake_batch(built[i : i + 32]) for i in range(0, len(texts), 32)]),
        ("floor: copy matrices", len(texts), lambda: [v.visibility.mask.clone() for v in views]),
    ]  # fmt: skip
    report(rows, options.repeats)
    counts = three_sizes(len(texts))
    by_size = in_turn([lambda n=n: build(n) for n in counts], options.repeats)
    growth("build, view, stack by 32", "texts", counts, [spent.processor for spent in by_size])


if __name__ == "__main__":
    main()
