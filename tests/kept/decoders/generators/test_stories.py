"""Stories, fakes, templates and scores of stories, against loops and on the real files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kept.decoders.generators.stories import (
    fakes,
    read_glucose,
    repeated,
    replaced,
    shuffled,
    split,
)
from kept.decoders.generators.story_scores import coverage, distinct, repetition, words_of
from kept.decoders.generators.verbalising import ATOMIC, CONCEPTNET, verbalise
from kept.errors import ConfigError, EvaluationError
from kg_loaders.errors import SourceError

STORIES = [tuple(f"s{i} {j} ." for j in range(5)) for i in range(40)]
texts = st.lists(st.lists(st.sampled_from("abc"), max_size=8), min_size=1, max_size=4)


# ---- fakes ---------------------------------------------------------------------------------------
def test_every_story_has_one_fake_of_each_kind() -> None:
    fakes_ = list(fakes(STORIES, seed=3))
    assert fakes_ == list(fakes(STORIES, seed=3))
    assert fakes_ != list(fakes(STORIES, seed=4))
    assert [label for _, label in fakes_] == [0, 1, 2, 3] * len(STORIES)
    for i, story in enumerate(STORIES):
        (true, _), (order, _), (other, _), (twice, _) = fakes_[4 * i : 4 * i + 4]
        assert true == story
        assert (order[0], sorted(order)) == (story[0], sorted(story))
        assert sum(a != b for a, b in zip(other, story, strict=True)) <= 1
        assert any(replaced(story, p, s) == other for p in range(1, 5) for s in STORIES)
        assert twice in {repeated(story, position) for position in range(1, 5)}
    assert {fakes_[4 * i + 2][0].index(s) for i, story in enumerate(STORIES)
            for s in fakes_[4 * i + 2][0] if s not in story} == {1, 2, 3, 4}  # fmt: skip


def test_a_fake_of_a_story_does_not_depend_on_those_before_it() -> None:
    first = list(fakes(STORIES, seed=0))
    assert list(fakes([*STORIES[:3], *STORIES[3:]], seed=0))[:12] == first[:12]


def test_what_cannot_be_changed() -> None:
    with pytest.raises(ConfigError, match="not an order"):
        shuffled(STORIES[0], (1, 0, 2, 3, 4))
    with pytest.raises(ConfigError, match="sentence 0"):
        repeated(STORIES[0], 0)
    with pytest.raises(ConfigError, match="sentence 5"):
        replaced(STORIES[0], 5, STORIES[1])


def test_split_is_in_file_order() -> None:
    parts = split(STORIES)
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 36, "validation": 2, "test": 2,
    }  # fmt: skip
    assert [s for part in parts.values() for s in part] == STORIES


# ---- scores --------------------------------------------------------------------------------------
@given(texts, st.integers(1, 3))
def test_scores_against_loops(stories: list[list[str]], n: int) -> None:
    seen, n_all, n_repeating = [], 0, 0
    for words in stories:
        grams = []
        for start in range(len(words)):
            if start + n <= len(words):
                grams.append(" ".join(words[start : start + n]))
        n_all += len(grams)
        n_repeating += any(grams.count(gram) > 1 for gram in grams)
        seen += grams
    if n_all:
        assert distinct(stories, n) == pytest.approx(len(dict.fromkeys(seen)) / n_all)
    else:
        with pytest.raises(EvaluationError, match=f"has {n} words"):
            distinct(stories, n)
    assert repetition(stories, n) == pytest.approx(n_repeating / len(stories))


@given(texts, st.lists(st.tuples(*[st.lists(st.sampled_from("abc"), max_size=2)] * 2), max_size=4))
def test_coverage_against_strings(
    stories: list[list[str]], pairs: list[tuple[list[str], list[str]]]
) -> None:
    n = 0
    for words in stories:
        text = "".join(words)
        n += sum("".join(h) in text and "".join(t) in text for h, t in pairs if h and t)
    assert coverage(stories, pairs) == pytest.approx(n / len(stories))


def test_no_stories_have_no_scores() -> None:
    for score in (lambda: distinct([], 1), lambda: repetition([], 1), lambda: coverage([], [])):
        with pytest.raises(EvaluationError, match="no stories"):
            score()
    with pytest.raises(ConfigError, match="n is 0"):
        repetition([["a"]], 0)


# ---- templates and files -------------------------------------------------------------------------
def test_templates_hold_head_and_tail() -> None:
    assert not CONCEPTNET.keys() & ATOMIC.keys()
    for relation in (*CONCEPTNET, *ATOMIC):
        text = verbalise("HEAD.", relation, " TAIL. ")
        assert text.count("HEAD") == text.count("TAIL") == 1
    with pytest.raises(ConfigError, match="'Nonsense' has no template"):
        verbalise("a", "Nonsense", "b")
    assert verbalise("a", "IsA", "b") == "a is a kind of b"


@pytest.mark.data
def test_every_relation_of_the_public_files_has_a_template(data_root: Path) -> None:
    folder = data_root / "commonsense"
    with gzip.open(folder / "conceptnet_li2016" / "train100k.txt.gz", "rt", encoding="utf-8") as f:
        relations = {line.split("\t")[0] for line in f}
    with gzip.open(folder / "atomic2020_eval" / "test.tsv.gz", "rt", encoding="utf-8") as f:
        relations |= {line.split("\t")[0].split("@@")[1].strip() for line in f}
    assert len(relations) > 50
    assert relations <= CONCEPTNET.keys() | ATOMIC.keys()


@pytest.mark.data
def test_glucose_holds_294_stories(data_root: Path) -> None:
    path = next((data_root / "stories" / "glucose").glob("*answer_key*.csv.gz"))
    stories = read_glucose(path)
    assert len(stories) == 294
    assert stories[0][0] == "Meg went shopping."


def test_a_file_in_another_form_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "stories.csv"
    path.write_text("story\na****b\n", encoding="utf-8")
    with pytest.raises(SourceError, match="line 2 has 2 sentences"):
        read_glucose(path)
    path.write_text("title\na\n", encoding="utf-8")
    with pytest.raises(SourceError, match="no column 'story'"):
        read_glucose(path)


def test_words() -> None:
    assert words_of("She didn't go!") == ["she", "didn't", "go", "!"]
