"""The committed study of the writers in small, and what its controls change."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from experiments.generators.kglm import chunk_of, mentions_of, numbered
from experiments.generators.lrlm import articles
from experiments.generators.sentences import (
    NONE,
    SHUFFLED,
    TRUE,
    Sentence,
    read_sentences,
    split,
    split_words,
    under,
)
from experiments.generators.stories import shuffled_tails
from experiments.generators.trial import WRITERS, GeneratorStudy, GeneratorTrial, to_markdown

CONFIG = Path(__file__).parents[2] / "experiments" / "generators" / "small.yaml"
TOWNS = ("Rome", "Old Town", "Bonn", "Oslo", "Lima")
JOBS = ("baker", "pilot", "poet")


def write_data(folder: Path) -> None:
    """Twelve people with a town and a job, twenty stories, some triples."""
    trex = folder / "lama" / "TREx"
    trex.mkdir(parents=True)
    for relation, values, output in (
        ("P19", TOWNS, "Ann{0} was born in [MASK] ."), ("P106", JOBS, "Ann{0} is a [MASK] .")
    ):  # fmt: skip
        rows = []
        for i in range(12):
            value = values[i % len(values)]
            evidence = {"sub_surface": f"Ann{i}", "obj_surface": value,
                        "masked_sentence": output.format(i)}  # fmt: skip
            rows.append({
                "uuid": f"{relation}-{i}", "sub_uri": f"Q{i}", "obj_uri": f"Q{value}",
                "predicate_id": relation, "evidences": [evidence],
            })  # fmt: skip
        with gzip.open(trex / f"{relation}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (folder / "stories/glucose").mkdir(parents=True)
    key = folder / "stories/glucose/test_set_answer_key.no_worker_ids.csv.gz"
    with gzip.open(key, "wt") as file:
        file.write("story\n")
        for i in range(20):
            file.write("****".join(f"Ann{i} saw a dog {j} ." for j in range(5)) + "\n")
    (folder / "commonsense/conceptnet_li2016").mkdir(parents=True)
    with gzip.open(folder / "commonsense/conceptnet_li2016/train100k.txt.gz", "wt") as file:
        file.writelines(f"IsA\tdog {i}\tanimal {i}\t2.0\n" for i in range(9))


def small_trial(folder: Path) -> GeneratorTrial:
    committed = GeneratorStudy.read(CONFIG)
    recurrent = committed.recurrent.model_copy(
        update={"width": 8, "fact_width": 4, "n_words": 12, "n_epochs": 1}
    )
    stories = committed.stories.model_copy(
        update={
            "width": 8, "n_layers": 1, "n_pieces": 300, "knowledge_steps": 2, "story_steps": 2,
            "batch_size": 4, "n_written": 1,
        }
    )  # fmt: skip
    study = committed.model_copy(
        update={
            "seeds": [0, 1], "relations": ["P19", "P106"], "test_share": 0.4,
            "recurrent": recurrent, "stories": stories,
        }
    )  # fmt: skip
    return GeneratorTrial(study, folder / "data", folder / "run")


@pytest.fixture
def sentences(tmp_path: Path) -> list[Sentence]:
    write_data(tmp_path)
    return read_sentences(tmp_path / "lama/TREx", ["P19", "P106"], 12)


def test_the_study_in_small(tmp_path: Path) -> None:
    write_data(tmp_path / "data")
    cells = small_trial(tmp_path).cells()
    assert set(cells) == set(WRITERS)
    assert all(len(item) == 2 for each in cells.values() for item in each.values())
    assert all(
        cell["perplexity"] > 1 for each in cells.values() for rows in each.values() for cell in rows
    )
    assert (
        cells["lrlm"][NONE][0]["words in a span"] == 0 < cells["lrlm"][TRUE][0]["words in a span"]
    )
    assert cells["kglm"][NONE][0]["words in a mention"] == 0
    messages = list[str]()
    again = small_trial(tmp_path)
    again = GeneratorTrial(again.study, again.data, again.folder, messages.append)
    assert again.cells() == cells
    assert messages == []
    page = to_markdown(cells, again, "a command")
    assert page.count("\n| true |") == page.count("\n| none |") == 3
    assert page.count("\n| true − shuffled |") == page.count("\n| true − none |") == 3


def test_topics_are_apart_and_facts_are_all_of_a_topic(sentences: list[Sentence]) -> None:
    parts = split(sentences, 0.3, 0)
    assert len(parts.train) + len(parts.test) == len(sentences) == 24
    assert not {s.topic for s in parts.train} & {s.topic for s in parts.test}
    assert all({f.relation for f in s.facts} == {"P19", "P106"} for s in sentences)


def test_shuffled_facts_are_others_of_the_same_relations(sentences: list[Sentence]) -> None:
    mixed = under(sentences, SHUFFLED, 0)
    assert [s.words for s in mixed] == [s.words for s in sentences]
    same = total = 0
    for sentence, other in zip(sentences, mixed, strict=True):
        assert [f.relation for f in sentence.facts] == [f.relation for f in other.facts]
        same += sum(a == b for a, b in zip(sentence.facts, other.facts, strict=True))
        total += len(sentence.facts)
    assert same < total / 2
    for relation in ("P19", "P106"):
        tails = [
            sorted({(s.topic, f.tail) for s in each for f in s.facts if f.relation == relation})
            for each in (sentences, mixed)
        ]
        assert sorted(t for _, t in tails[0]) == sorted(t for _, t in tails[1])
    assert all(not s.facts for s in under(sentences, NONE, 0))
    assert under(sentences, TRUE, 0) == sentences


def test_spans_and_mentions_are_the_words_of_tails(sentences: list[Sentence]) -> None:
    objects: dict[str, int] = {}
    result = articles(sentences, ["P19", "P106"], objects)
    assert len(objects) == len(TOWNS) + len(JOBS)
    for sentence, article in zip(sentences, result, strict=True):
        assert len(article.spans) == 1
        (span,) = article.spans
        output = " ".join(article.words[span.start : span.end])
        assert (output,) == article.facts[span.fact].aliases
        topic, tail = mentions_of(sentence)
        assert sentence.words[topic.start - 1 : topic.end - 1] == sentence.name
        assert topic.is_new
        assert " ".join(sentence.words[tail.start - 1 : tail.end - 1]) == output
        assert tail.parents == (sentence.topic,)


def test_a_chunk_can_copy_what_is_outside_the_vocabulary(sentences: list[Sentence]) -> None:
    ids = numbered(sentences, [], ["P19", "P106"], 6)
    chunk = chunk_of(sentences[:3], ids)
    assert chunk.alias_copy_inds is not None
    assert chunk.target is not None
    named = chunk.mention_type > 0
    assert bool((chunk.alias_copy_inds[named] > 0).all())
    assert bool((chunk.target[named] == 1).any())
    assert ids.n_outside > 0


def test_words_and_tails() -> None:
    assert split_words("Ann's, a-b.") == ("Ann", "'", "s", ",", "a", "-", "b", ".")
    triples = [(f"h{i}", "IsA" if i % 2 else "HasA", f"t{i}") for i in range(20)]
    mixed = shuffled_tails(triples, 0)
    assert [t[:2] for t in mixed] == [t[:2] for t in triples]
    assert sorted((r, t) for _, r, t in mixed) == sorted((r, t) for _, r, t in triples)
    assert mixed != triples
