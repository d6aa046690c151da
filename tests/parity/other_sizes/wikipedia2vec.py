"""Vectors of width 4, one page fewer, other tables and fewer pairs; what follows from them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from kept.joint.corpus import tokenise
from kept.joint.skip_gram import keep_table, noise_table
from tests.parity import test_wikipedia2vec as parity
from tests.parity.other_sizes import tensors
from tests.reference import original_wikipedia2vec as original

WIDTH, N_NEGATIVES, N_PAIRS, N_SIMILAR = 4, 2, 5, 3
SIZES = {"words.power0.75.size200": 130, "entities.power1.size60": 45}


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    config = tensors.read(folder, "config") | {"dim": WIDTH, "negative": N_NEGATIVES}
    data = tensors.read(folder, "data")
    data["pages"].popitem()
    _print(config, data)
    tensors.write(config, folder, "config")
    n_items, draws = len(data["vocabulary"]), torch.Generator().manual_seed(3)
    n_words = data["entity_offset"]
    state = {n: torch.randn(n_items, WIDTH, generator=draws) for n in ("syn0", "syn1")}
    inputs, outputs = tensors.load(folder, "inputs"), tensors.load(folder, "outputs")
    for name in [*inputs]:
        if name.startswith("pairs."):
            first, second = name.removeprefix("pairs.").split("_")
            inputs[name] = torch.stack(
                [_random_links(kind, n_words, n_items, draws) for kind in (first, second)], 1
            )
        elif name.endswith("syn0_init"):
            inputs[name] = 0.1 * torch.randn(n_items, WIDTH, generator=draws)
        elif name.endswith("link_indices"):
            inputs[name] = torch.randint(n_words, n_items, (12,), generator=draws)
    draw = original.twister(config["seed"] + N_NEGATIVES)
    inputs["mt19937_draws_for_seed_plus_neg"] = torch.tensor([draw() for _ in range(9)])
    for record in data["train"].values():
        record["page_order"] = [list(data["pages"]) for _ in record["page_order"]]
        n = sum(map(len, record["page_order"]))
        rates = parity.page_rates(np.arange(n), n, record["init_alpha"], record["min_alpha"])
        record["learning_rates"] = rates.tolist()
    tensors.store(inputs, folder, "inputs")
    tensors.store(state, folder, "state_dict")
    tensors.write(data, folder, "data")
    tensors.store(_tables(outputs, data), folder, "outputs")
    _trained(folder)


def _random_links(kind: str, n_words: int, n_items: int, draws: torch.Generator) -> torch.Tensor:
    low, high = (0, n_words) if kind == "word" else (n_words, n_items)
    return torch.randint(low, high, (N_PAIRS,), generator=draws)


def _print(config: dict[str, Any], data: dict[str, Any]) -> None:
    """The vocabulary, link graph and mentions of the pages that are left, by our corpus."""
    titles = {x["title"] for page in data["pages"].values() for text in page for x in text["links"]}
    data["vocabulary"] = [{"kind": "entity", "name": title} for title in sorted(titles)]
    corpus, names = parity.corpus_of(config, data), parity.graph_of(data).entities
    entities = [names.name(int(i)) for i in corpus.entities]
    items = [("word", word) for word in corpus.words] + [("entity", name) for name in entities]
    counts = [*corpus.word_counts.tolist(), *corpus.entity_counts.tolist()]
    data["vocabulary"] = [
        {"kind": kind, "name": name, "index": i, "count": n}
        for i, ((kind, name), n) in enumerate(zip(items, counts, strict=True))
    ]
    data["entity_offset"] = len(corpus.words)
    data["link_graph"] = {
        name: corpus.edges[corpus.edges[:, 0] == len(corpus.words) + i, 1].tolist()
        for i, name in enumerate(entities)
    }
    result = original.mention_table(parity.named_pages(data))
    data["mentions"] = [
        {"text": text, "entity": entity, **shares} for (text, entity), shares in result.items()
    ]
    aliases: dict[str, list[str]] = {}
    for text, entity in result:
        aliases.setdefault(text, []).append(entity)
    for record in data["detected"]:
        places = original.detect(tokenise(record["text"]), aliases)
        record["found"] = [
            dict(zip(("start", "end", "entity"), span, strict=True)) for span in places
        ]


def _tables(outputs: dict[str, torch.Tensor], data: dict[str, Any]) -> dict[str, torch.Tensor]:
    result = {"exp_table": outputs["exp_table"]}
    for kind, message in (("words", "word"), ("entities", "entity")):
        items = [item for item in data["vocabulary"] if item["kind"] == message]
        counts = np.array([item["count"] for item in items])
        rows = np.array([item["index"] for item in items])
        result[f"neg_table.{kind}.power0"] = torch.from_numpy(rows)
        for name, size in SIZES.items():
            if name.startswith(kind):
                power = float(name.split("power")[1].split(".size")[0])
                table = rows[noise_table(counts, power, size)]
                result[f"neg_table.{name.split('.size')[0]}.size{size}"] = torch.from_numpy(table)
        if kind == "words":
            for sample in ("0.0", "0.02"):
                kept = keep_table(counts, float(sample)).astype(np.int64)
                result[f"word_sampling_table.{sample}"] = torch.from_numpy(kept)
    return result


class _Recorder:
    """Stands where the tests compare and keeps what ours are."""

    def __init__(self) -> None:
        self.values: dict[str, torch.Tensor] = {}

    def close(self, name: str, actual: torch.Tensor, expected: object, **_: object) -> None:
        self.values[name] = actual.clone()

    def equal(self, *_: object) -> None:
        pass


def _trained(folder: Path) -> None:
    """Vectors after the pair updates and the passes, and the most similar items."""
    outputs, config = tensors.load(folder, "outputs"), tensors.read(folder, "config")
    data, inputs = tensors.read(folder, "data"), tensors.load(folder, "inputs")
    empty = torch.zeros(len(data["vocabulary"]), WIDTH)
    groups = [n for n in inputs if n.startswith("pairs.")]
    named = [f"{group}.neg{n}" for group in groups for n in (0, config["negative"])]
    named += [f"train.{name}" for name in data["train"]]
    due = {f"{name}.{part}": empty for name in named for part in ("syn0", "syn1")}
    tensors.store(outputs | due, folder, "outputs")
    golden, recorder = parity.golden.__wrapped__(folder), _Recorder()
    parity.test_pair_updates(golden, recorder)
    parity.test_passes_in_the_order_of_their_draws(golden, recorder)
    tensors.store(outputs | recorder.values, folder, "outputs")
    (key,) = (name for name in data if name.startswith("most_similar_to_item_"))
    vectors = tensors.load(folder, "state_dict")["syn0"]
    row = int(key.rsplit("_", 1)[1])
    best = torch.cosine_similarity(vectors[row], vectors, dim=1).topk(N_SIMILAR)
    names = [data["vocabulary"][i]["name"] for i in best.indices.tolist()]
    data[key] = [list(pair) for pair in zip(names, best.values.tolist(), strict=True)]
    tensors.write(data, folder, "data")
