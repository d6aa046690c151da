"""Openers of folders: graph, indexes, scorer, model, and a run's answers, each used after it opens.

The folders are made when fuzzing starts, out of a graph of ten entities.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.fuzz.targets import Files, Target, of_corpus

NAMES = ("Paris", "France", "Berlin", "Germany", "Seine", "river", "city", "Rhine", "EU", "Basel")


@cache
def small_graph() -> KnowledgeGraph:
    """Ten entities, two relations, labels, an alias with a count and a description."""
    triples = [Triple(f"Q{i}", f"P{i % 2}", f"Q{i * 7 % 10}") for i in range(10)]
    labels = [Text(f"Q{i}", TextKind.LABEL, name, "en") for i, name in enumerate(NAMES)]
    more = [
        Text("Q0", TextKind.ALIAS, "City of Light", "en", 12),
        Text("Q0", TextKind.DESCRIPTION, "capital of France", "en"),
        Text("Q0", TextKind.TYPE, "Q6"),
        Text("P0", TextKind.LABEL, "part of", "en", 0, True),
    ]
    return graph_from_records([*triples, *labels, *more])


def _files_of(folder: Path) -> Files:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def seeds_of(make: Callable[[Path], object]) -> Callable[[], list[Files]]:
    def seeds() -> list[Files]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "x"
            make(folder)
            return [_files_of(folder)]

    return seeds


def _open_graph(folder: Path, random: Random) -> None:
    graph = KnowledgeGraph.open(folder, verify=random.random() < 0.2)
    for entity in range(min(graph.n_entities, 20)):
        assert isinstance(graph.label(entity), str)
        rows = [*graph.outgoing(entity).tolist(), *graph.incoming(entity).tolist()]
        assert all(
            0 <= h < graph.n_entities and 0 <= r < graph.n_relations and 0 <= t < graph.n_entities
            for h, r, t in rows
        )
        assert graph.aliases(entity) is not None
        assert graph.types(entity) is not None
        assert graph.description(entity) != ""
    assert graph.entities.find("Q3") in (None, *range(graph.n_entities))
    assert graph.contains(graph.triples[:3]).all()


def _make_names(folder: Path) -> None:
    from entity_linking.names.index import NameIndex

    counts = [("Paris", "Q0", 9), ("light", "Q0", 2)]
    NameIndex.build(small_graph(), counts=counts).save(folder)


def _open_names(folder: Path, random: Random) -> None:
    from entity_linking.names.index import NameIndex

    index = NameIndex.open(folder, verify=random.random() < 0.2)
    for name in ("Paris", "paris", "City of Light", "nothing"):
        for entry in index.find(name):
            assert repr(entry)
    assert len(index.identifiers(range(index.n_entities))) == index.n_entities
    assert index.numbers(["Q0", "Q99"]).max() < index.n_entities


def _make_fuzzy(folder: Path) -> None:
    from entity_linking.fuzzy.index import FuzzyIndex

    FuzzyIndex.of_graph(small_graph()).save(folder)


def _open_fuzzy(folder: Path, random: Random) -> None:
    from entity_linking.fuzzy.index import FuzzyIndex

    index = FuzzyIndex.open(folder, verify=random.random() < 0.2)
    for name in ("Pari", "Germny", "xyz"):
        assert index.search(name) is not None


def _make_index(folder: Path) -> None:
    from kept.linking.index import LinkIndex

    LinkIndex.build(small_graph(), folder, fuzzy=True)


def _open_index(folder: Path, random: Random) -> None:
    from kept.linking.index import LinkIndex

    index = LinkIndex.open(folder)
    index.require(small_graph())
    assert index.names.find("Paris") is not None


def make_scorer_folder(folder: Path) -> None:
    import torch

    from kept.kge import make_scorer
    from kept.kge.trained import save_scorer

    graph = small_graph()
    sizes = {"n_entities": graph.n_entities, "n_relations": graph.n_relations, "width": 4}
    scorer = make_scorer("distmult", **sizes, generator=torch.Generator())
    save_scorer(folder, scorer, graph, {"seed": 0})


def _open_scorer(folder: Path, random: Random) -> None:
    import torch

    from kept.kge.trained import load_scorer

    loaded = load_scorer(folder, small_graph())
    assert all(torch.isfinite(t).all() for t in loaded.scorer.state_dict().values())


def make_model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAMES]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert", vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    from kept.methods import METHODS

    encoder = METHODS["kbert"].encoder.from_host(AutoModel.from_config(config), small_graph())
    encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _open_model(folder: Path, random: Random) -> None:
    import torch

    from kept.auto import AutoEncoder

    encoder = AutoEncoder.from_pretrained(folder)
    states = encoder.encoder.state_dict().values()
    assert all(torch.isfinite(t).all() for t in states if t.is_floating_point())


def _answers(folder: Path, random: Random) -> None:
    from kept.training.finetuning.answers import read_answers

    for answer in read_answers(next(folder.iterdir()), "test"):
        assert repr(answer)


OPENERS: dict[str, Target] = {
    "folder.graph": Target(seeds_of(lambda folder: small_graph().save(folder)), _open_graph),
    "folder.names": Target(seeds_of(_make_names), _open_names),
    "folder.fuzzy": Target(seeds_of(_make_fuzzy), _open_fuzzy),
    "folder.index": Target(seeds_of(_make_index), _open_index),
    "folder.scorer": Target(seeds_of(make_scorer_folder), _open_scorer),
    "folder.model": Target(seeds_of(make_model), _open_model),
    "run.answers": of_corpus("run.answers", _answers),
}
