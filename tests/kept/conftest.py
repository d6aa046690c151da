"""A small word-piece tokenizer and made-up linked texts."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
from tiny_hosts import fast_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kg_loaders import KnowledgeGraph

WORDS = ["the", "river", "flows", "through", "city", "of", "old", "and", "near", "a"]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Lower-casing word pieces: ten words and single letters, so that names fall apart."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.punctuation]
    names += [c for c in string.ascii_lowercase + string.digits if c not in names]
    names += [f"##{c}" for c in string.ascii_lowercase + string.digits]
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return fast_tokenizer(inner)


def linked_text(names: list[str | None], graph: KnowledgeGraph) -> LinkedText:
    """A text that mentions `names` (entities, plain words, None for NIL) in order, all linked."""
    text, links = "", []
    for i, name in enumerate(names):
        if name in WORDS:
            text += f"{name} "
            continue
        entity = None if name is None else graph.entities.find(name)
        surface = "nobody" if entity is None else graph.label(entity)
        mention = Mention(len(text), len(text) + len(surface))
        confidence = 1 / (i + 1)
        candidates = () if name is None else (Candidate(name, 0.5, 0.5),)
        links.append(Link(mention, candidates, name, confidence))
        text += f"{surface} "
    return LinkedText(text.rstrip(), tuple(links))


@pytest.fixture(scope="session")
def linked(small_graph: KnowledgeGraph) -> list[LinkedText]:
    """Forty texts of words, entities, unknown entities and NIL links."""
    generator = np.random.default_rng(3)
    pool = [*WORDS, *WORDS, *small_graph.entities, *small_graph.entities, "Q-unknown", None]
    texts = []
    for _ in range(40):
        chosen = generator.integers(len(pool), size=int(generator.integers(1, 14)))
        texts.append(linked_text([pool[i] for i in chosen], small_graph))
    return texts
