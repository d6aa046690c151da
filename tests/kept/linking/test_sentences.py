from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from entity_linking import DictionaryLinker, LinkedText
from entity_linking.dense.context import ContextScorer, DenseCandidates, DenseIndex
from entity_linking.pipeline import Pipeline
from kept.errors import ConfigError
from kept.hosts import minilm_folder
from kept.linking.sentences import HostSentenceEncoder, Pooling
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records
from tests.kept.tiny_hosts import FAMILIES, fast_tokenizer, tiny_host

TEXTS = [
    "Paris is the capital of France.",
    "",
    "Niger",
    "The river that gives two countries their names bends north to Timbuktu and then turns away.",
    "Paris is the capital of France.",
    "😀 東京",
]


@pytest.fixture(scope="module")
def minilm() -> HostSentenceEncoder:
    return HostSentenceEncoder("minilm", batch_size=4)


@pytest.mark.minilm
def test_minilm_is_read_as_its_card_says(minilm: HostSentenceEncoder) -> None:
    """Mean over the mask, then length 1: the plain way, in one padded batch."""
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    host = AutoModel.from_pretrained(minilm_folder()).eval()
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = host(**encoded).last_hidden_state
    mask = encoded["attention_mask"][..., None].float()
    expected = normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    vectors = minilm.encode(TEXTS)
    np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)
    alone = np.concatenate([minilm.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], vectors[4], atol=1e-6)
    assert minilm.name.startswith("minilm/mean/")
    assert minilm.encode([]).shape == (0, minilm.width) == (0, 384)


@pytest.mark.minilm
def test_the_first_piece_is_another_vector(minilm: HostSentenceEncoder) -> None:
    first = HostSentenceEncoder("minilm", pooling="cls", max_length=16)
    assert first.name != minilm.name
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    host = AutoModel.from_pretrained(minilm_folder()).eval()
    encoded = tokenizer(TEXTS[3], truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        state = host(**encoded).last_hidden_state[0, 0]
    np.testing.assert_allclose(first.encode(TEXTS)[3], normalize(state, dim=0), atol=1e-5)


@pytest.mark.minilm
def test_vectors_do_not_depend_on_the_batch_size(minilm: HostSentenceEncoder) -> None:
    single = HostSentenceEncoder("minilm", batch_size=1)
    np.testing.assert_allclose(single.encode(TEXTS), minilm.encode(TEXTS), atol=1e-5)
    with pytest.raises(ConfigError, match="batch_size is 0; give 1 or more"):
        HostSentenceEncoder("minilm", batch_size=0)


AMBIGUOUS = [
    ("The president flew from [Niger] to Niamey, where the army keeps its barracks.", "Q1032"),
    ("Boats loaded with salt go down the [Niger] past Timbuktu to the delta.", "Q3542"),
    ("From Tbilisi the road through [Georgia] climbs to the Caucasus.", "Q230"),
    ("Peach farms and the city of Atlanta made [Georgia] rich in the American South.", "Q1428"),
    ("[Paris] has museums along the Seine, and the government of France sits there.", "Q90"),
    ("He grew up on a ranch near [Paris], in the north-east of Texas.", "Q830149"),
    ("The [Congo] is a river that carries more water than any other in Africa.", "Q3503"),
    ("General [Washington] crossed the Delaware and became the first president.", "Q23"),
    ("Congress and the White House are in [Washington].", "Q61"),
]


@pytest.mark.minilm
def test_context_tells_namesakes_apart(minilm: HostSentenceEncoder) -> None:
    """Above chance among the entities of the atlas that bear the name, mention by mention."""
    linker = DictionaryLinker(atlas.graph(), case="insensitive")
    texts, gold = [], []
    for marked, entity in AMBIGUOUS:
        start, stop = marked.index("["), marked.index("]") - 1
        (link,) = [
            link
            for link in linker.link([marked.replace("[", "").replace("]", "")])[0].links
            if link.mention.start == start and link.mention.end == stop
        ]
        assert entity in {candidate.entity for candidate in link.candidates}, marked
        texts.append(LinkedText(marked.replace("[", "").replace("]", ""), (link,)))
        gold.append(entity)
    chance = sum(1 / len(text.links[0].candidates) for text in texts)
    assert chance < 0.6 * len(texts)

    names = {c.entity for text in texts for c in text.links[0].candidates}
    index = DenseIndex.build(_around(names), minilm)
    chosen = Pipeline(linker, DenseCandidates(index, minilm), ContextScorer(index, minilm))
    right = [
        text.links[0].entity == entity
        for text, entity in zip(chosen.decide(texts), gold, strict=True)
    ]
    assert sum(right) >= chance + 2, right
    linked = chosen.propose(texts)
    near = [
        entity in [c.entity for c in text.links[0].candidates[:10]]
        for text, entity in zip(linked, gold, strict=True)
    ]
    assert sum(near) >= 7, near


def _around(names: set[str]) -> KnowledgeGraph:
    """What the atlas says of these entities, and the names of their neighbours."""
    records = list(atlas.records())
    facts = [r for r in records if isinstance(r, Triple) and r.head in names]
    near = {fact.tail for fact in facts} - names
    return graph_from_records(
        [
            *facts,
            *(
                r
                for r in records
                if isinstance(r, Text)
                and (
                    r.is_relation
                    or r.node in names
                    or (r.node in near and r.kind == TextKind.LABEL)
                )
            ),
        ]
    )


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random host of a family with a tokenizer of one word a piece."""
    path = tmp_path_factory.mktemp("host") / f"my-{request.param}"
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tiny_host(request.param, n_positions=16).save_pretrained(path)
    fast_tokenizer(inner).save_pretrained(path)
    return path


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_every_family_reads_texts_one_by_one(folder: Path, pooling: Pooling) -> None:
    encoder = HostSentenceEncoder(folder, pooling=pooling, max_length=12, batch_size=3)
    texts = ["a b c", "", "a", "h g f e d c b a", "a b c d e f g h a b c d e f g h", "a b c", "b a"]
    together = encoder.encode(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-5)
    assert np.abs(together[0] - together[6]).max() > 1e-3
    np.testing.assert_allclose(  # cut to ten pieces and the two special ones
        together[4], encoder.encode(["a b c d e f g h a b"])[0], atol=1e-5
    )


def test_the_name_holds_the_weights(folder: Path, tmp_path: Path) -> None:
    name = HostSentenceEncoder(folder, max_length=9).name
    moved = shutil.copytree(folder, tmp_path / folder.name)
    assert HostSentenceEncoder(moved, max_length=12).name == name
    assert HostSentenceEncoder(moved, pooling="cls", max_length=12).name != name
    other = AutoModel.from_pretrained(moved)
    with torch.no_grad():
        next(other.parameters())[3, 0] += 1e-4
    other.save_pretrained(moved)
    assert HostSentenceEncoder(moved, max_length=12).name != name


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"pooling": "max"}, "'max'"), ({"max_length": 513}, "513"), ({"batch_size": 0}, "0")],
)
def test_wrong_options_are_told(folder: Path, wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        HostSentenceEncoder(folder, **({"max_length": 9} | wrong))  # type: ignore[arg-type]
