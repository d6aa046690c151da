"""Chinese text without a pre-trained host: a tokenizer of characters, and words by longest match.

K-BERT cuts Chinese into characters and finds its subjects with pkuseg. Here the subjects are found
by the longest match of an exact `DictionaryLinker` over running characters: no segmenter is needed,
and a subject that crosses a word's border is found, which pkuseg would not do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from entity_linking.dictionary import DictionaryLinker
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def character_tokenizer(texts: Iterable[str], *, min_count: int = 1) -> PreTrainedTokenizerFast:
    """One token a character that occurs in `texts` at least `min_count` times; blanks are dropped.

    Compatibility forms are made plain (NFKC) and Latin letters small. The most frequent characters
    come first, ties by code point, so that the same texts give the same ids.

    >>> character_tokenizer(["北京 北"]).tokenize("北海")
    ['北', '[UNK]']
    """
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; give 1 or more")
    normal = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normal.normalize_str(text))
    characters = [c for c, n in counts.items() if n >= min_count and not c.isspace()]
    ordered = [*SPECIAL_TOKENS, *sorted(characters, key=lambda c: (-counts[c], c))]
    inner = Tokenizer(models.WordLevel({c: i for i, c in enumerate(ordered)}, unk_token="[UNK]"))
    inner.normalizer = normal
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    pad, unknown, first, last, mask = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=pad,
        unk_token=unknown,
        cls_token=first,
        sep_token=last,
        mask_token=mask,
    )


def subject_linker(graph: KnowledgeGraph, *, min_length: int = 2) -> DictionaryLinker:
    """Mentions of the subjects of an `.spo` graph, longest match first, as they are written.

    Subjects of one character are left out by default: without a segmenter they are found inside
    every word that contains them.
    """
    return DictionaryLinker(graph, case="sensitive", min_length=min_length, exact=True)
