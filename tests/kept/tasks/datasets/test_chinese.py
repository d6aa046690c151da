"""Characters as tokens, and mentions in text without blanks by longest match."""

from __future__ import annotations

import pytest

from kept.errors import ConfigError
from kept.tasks.datasets.chinese import character_tokenizer, subject_linker
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.reference.original_kbert import SPECIAL_TAGS, longest_match

FACTS = [
    ("北京", "首都", "中国"), ("苹果公司", "首席执行官", "库克"), ("苹果", "属于", "水果"),
    ("是", "类别", "动词"), ("tim", "is", "ceo"),
]  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    subjects = [Text(fact[0], TextKind.LABEL, fact[0], "zh") for fact in FACTS]
    return graph_from_records([*(Triple(*fact) for fact in FACTS), *subjects])


def links_of(graph: KnowledgeGraph, text: str, **options: int) -> list[tuple[str, str | None]]:
    (linked,) = subject_linker(graph, **options).link([text])
    return [(text[k.mention.start : k.mention.end], k.entity) for k in linked.links]


def test_the_longest_subject_is_found_in_running_text(graph: KnowledgeGraph) -> None:
    assert links_of(graph, "他说苹果公司在北京，苹果好吃。") == [
        ("苹果公司", "苹果公司"),
        ("北京", "北京"),
        ("苹果", "苹果"),
    ]
    assert links_of(graph, "北京北京") == [("北京", "北京")] * 2


def test_single_characters_only_when_asked(graph: KnowledgeGraph) -> None:
    assert links_of(graph, "北京是首都") == [("北京", "北京")]
    assert links_of(graph, "北京是首都", min_length=1) == [("北京", "北京"), ("是", "是")]


def test_latin_subjects_keep_case_and_word_borders(graph: KnowledgeGraph) -> None:
    assert links_of(graph, "tim在北京time Tim") == [("tim", "tim"), ("北京", "北京")]


def test_longest_match_segments() -> None:
    lexicon = {"北京", "北京大学", "tim", "京大", *SPECIAL_TAGS}
    assert longest_match("[CLS]在北京大学 time[SEP]", lexicon) == [
        "[CLS]", "在", "北京大学", "time", "[SEP]",
    ]  # fmt: skip
    assert longest_match("北京大", lexicon) == ["北京", "大"]
    assert longest_match("tim学tim2", lexicon) == ["tim", "学", "tim2"]
    assert longest_match("", lexicon) == []
    assert longest_match("ab", set()) == ["ab"]


def test_characters_by_count_then_code_point() -> None:
    tokenizer = character_tokenizer(["好 好书Ａ", "书a？"], min_count=1)
    assert tokenizer.convert_ids_to_tokens(range(5, len(tokenizer))) == ["a", "书", "好", "?"]
    encoded = tokenizer("好 A新", return_offsets_mapping=True)
    assert tokenizer.convert_ids_to_tokens(encoded.input_ids) == [
        "[CLS]", "好", "a", "[UNK]", "[SEP]",
    ]  # fmt: skip
    assert encoded.offset_mapping[1:4] == [(0, 1), (2, 3), (3, 4)]
    assert len(character_tokenizer(["好好书"], min_count=2)) == 6
    pair = tokenizer("好", "书", return_token_type_ids=True)
    assert pair.token_type_ids == [0, 0, 0, 1, 1]
    with pytest.raises(ConfigError, match="min_count is 0"):
        character_tokenizer([], min_count=0)
