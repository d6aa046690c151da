"""The probe against loops: one item, one candidate, one mask at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from entity_linking.mentions import LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.candidates import Candidates, spelled, whole_words
from kept.lab.probing.engine import (
    LONG,
    NO_OBJECTS,
    NOT_REQUESTED,
    OUTSIDE,
    UNKNOWN,
    probe,
)
from kept.lab.probing.items.item import HOLE, ClozeItem, objects_of
from kept.lab.probing.models.plain import PlainMaskedLM
from kept.lab.probing.passes import MASKED
from kept.lab.probing.ranks import rank_answers
from kept.lab.probing.results import Likelihood, ProbeResult, read_answers, write_answers
from kg_loaders.errors import ExistsError
from tests.kept.tiny_hosts import FAMILIES
from tests.reference.original_cloze import rank_cloze

VOCABULARY = ["city", "river", "old", "near", "flows", "a", "x", "bonn", "River"]
OBJECTS = {"P1": ["city", "paris", "river", "old city", "bonn", "rome"], "P2": ["the seine", "a"]}


def masked_lm(family: str, tokenizer: Any) -> PreTrainedModel:
    """A random masked LM of two layers over the tokenizer's words; ELECTRA's table is narrower."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        pad_token_id=0,
        initializer_range=0.3,
        **({"embedding_size": 8} if family == "electra" else {}),
    )
    model = AutoModelForMaskedLM.from_config(config).eval()
    model.get_output_embeddings().bias.data.normal_()
    return model


def item(text: str, answer: str, relation: str = "P1", **more: Any) -> ClozeItem:
    start = text.index(HOLE)
    hole = Mention(start, start + len(HOLE))
    return ClozeItem(text, relation, LinkedText(text, ()), hole, "s", answer, **more)


ITEMS = [
    item("the [Y] flows .", "river"),
    item("near the old city of a [Y] of the river", "city", also_right=("bonn", "river")),
    item("[Y] near", "paris"),
    item("a and of [Y] .", "the seine", "P2", also_right=("a",)),
    item("of [Y] a", "old city"),
    item("old [Y]", "a", "P2"),
]


@pytest.fixture(scope="module", params=["bert", "roberta", "electra"])
def family(request: pytest.FixtureRequest) -> str:
    assert request.param in FAMILIES
    return str(request.param)


@pytest.fixture(scope="module")
def model(family: str, tokenizer: Any) -> PlainMaskedLM:
    return PlainMaskedLM(masked_lm(family, tokenizer), tokenizer)


@cache
def untouched(family: str, tokenizer: Any) -> PreTrainedModel:
    """A probed model is taken apart; this one answers by itself."""
    return masked_lm(family, tokenizer)


def logits(family: str, tokenizer: Any, text: str) -> tuple[torch.Tensor, list[int]]:
    """The untouched model's own logits `[node word]`, and the ids that it read."""
    encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        scores = untouched(family, tokenizer)(**encoded).logits[0]
    return scores.log_softmax(-1), encoded["input_ids"][0].tolist()


def probed(model: PlainMaskedLM, items: Sequence[ClozeItem] = ITEMS, **options: Any) -> ProbeResult:
    sizes = {"vocabulary": VOCABULARY, "objects": OBJECTS} | options
    return probe(model, items, **sizes)


def test_restricted_ranks_are_those_of_a_loop(
    family: str, model: PlainMaskedLM, tokenizer: Any
) -> None:
    listed = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in VOCABULARY]
    ids = [pieces[0] for pieces in listed if len(pieces) == 1]
    ids = list(dict.fromkeys(ids))
    scored = 0
    for answer, item_ in zip(probed(model).answers, ITEMS, strict=True):
        gold = tokenizer(item_.answer, add_special_tokens=False)["input_ids"]
        if len(gold) > 1:
            assert answer.restricted is None
            assert answer.skipped["restricted"] == LONG
            continue
        words, read = logits(family, tokenizer, item_.linked.text.replace(HOLE, "[MASK]"))
        row = words[read.index(tokenizer.mask_token_id)].numpy()
        others = [spelled([name], tokenizer)[0] for name in item_.also_right]
        competing = [i for i in ids if (i,) not in others]
        expected = rank_cloze(row, gold[0], candidate_ids=competing, top=None)
        assert answer.restricted is not None
        assert (answer.restricted.rank, answer.restricted.n_candidates) == (
            expected.rank, len(competing),
        )  # fmt: skip
        best = rank_cloze(row, gold[0], candidate_ids=ids, top=None).ranked_ids[:10]
        assert answer.restricted.top == tuple(tokenizer.convert_ids_to_tokens(best))
        chance = np.exp(row[ids]).max() / np.exp(row[ids]).sum()
        assert answer.restricted.probability == pytest.approx(chance, abs=1e-5)
        scored += 1
    assert scored == 3


@pytest.mark.parametrize("likelihood", ["at_once", "one_by_one"])
def test_objects_are_scored_as_by_a_loop(
    family: str, model: PlainMaskedLM, tokenizer: Any, likelihood: Likelihood
) -> None:
    result = probed(model, likelihood=likelihood)
    assert result.likelihood == likelihood
    for answer, item_ in zip(result.answers, ITEMS, strict=True):
        scores = {}
        for name in OBJECTS[item_.relation]:
            pieces = tokenizer(name, add_special_tokens=False)["input_ids"]
            scores_of_pieces = []
            for j, piece in enumerate(pieces):
                pieces_in_text = ["[MASK]"] * len(pieces)
                if likelihood == "one_by_one":
                    pieces_in_text = tokenizer.convert_ids_to_tokens(pieces)
                    pieces_in_text[j] = "[MASK]"
                text = item_.linked.text.replace(HOLE, " ".join(["[MASK]"] * len(pieces)))
                words, read = logits_with(family, tokenizer, text, pieces_in_text)
                scores_of_pieces.append(float(words[read[j], piece]))
            scores[name] = float(np.mean(scores_of_pieces))
        order = sorted(scores, key=lambda name: -scores[name])
        assert answer.objects is not None
        assert answer.objects.top == tuple(order)
        assert answer.objects.score == pytest.approx(scores[item_.answer], abs=1e-4)
        competing = [name for name in order if name not in item_.also_right]
        assert answer.objects.rank == competing.index(item_.answer) + 1
        assert answer.objects.n_candidates == len(competing)
        assert answer.objects.correct == (order[0] in (item_.answer, *item_.also_right))


def logits_with(
    family: str, tokenizer: Any, text: str, pieces: list[str]
) -> tuple[torch.Tensor, list[int]]:
    """Log-probabilities where the masks of `text` are replaced by `shown`, and their places."""
    encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    places = (encoded["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    encoded["input_ids"][0, places] = torch.tensor(tokenizer.convert_tokens_to_ids(pieces))
    with torch.inference_mode():
        return untouched(family, tokenizer)(**encoded).logits[0].log_softmax(-1), places


@pytest.mark.parametrize("likelihood", ["at_once", "one_by_one"])
def test_sizes_change_nothing(model: PlainMaskedLM, likelihood: Likelihood) -> None:
    whole = probed(model, likelihood=likelihood)
    single = probed(model, likelihood=likelihood, batch_size=1, chunk_size=1)
    for one, other in zip(whole.answers, single.answers, strict=True):
        for left, right in ((one.restricted, other.restricted), (one.objects, other.objects)):
            assert (left is None) == (right is None)
            if left is not None and right is not None:
                assert (left.rank, left.top) == (right.rank, right.top)
                assert left.score == pytest.approx(right.score, abs=1e-5)


def test_every_item_is_ranked_or_skipped_with_its_reason(model: PlainMaskedLM) -> None:
    long = "a " * 60
    items = [
        item("the [Y]", "near"),
        item("the [Y]", "\u4e00"),
        item("the [Y]", "paris"),
        item(f"{long}[Y]", "city"),
        item("a [MASK] of [Y]", "city"),
        item("the [Y]", "city", "P9"),
        item("the [Y]", "flows", "P2"),
    ]
    result = probed(model, items)
    assert [(a.skipped.get("restricted"), a.skipped.get("objects")) for a in result.answers] == [
        (None, OUTSIDE["objects"]),
        (UNKNOWN, UNKNOWN),
        (LONG, None),
        (None, None),  # behind the longest text: the part around the hole is read
        (MASKED, MASKED),
        (None, NO_OBJECTS),
        (None, OUTSIDE["objects"]),
    ]
    assert result.skipped("objects")[OUTSIDE["objects"]] == 2
    assert len(result.scored("objects")) + sum(result.skipped("objects").values()) == len(items)
    assert result.left_out == {
        "words: more than one piece": 1, "words: the same pieces as an earlier one": 1,
    }  # fmt: skip
    neither = probed(model, items[:1], vocabulary=None, objects=None)
    assert neither.answers[0].skipped == {"restricted": NOT_REQUESTED, "objects": NOT_REQUESTED}
    assert probed(model, []).answers == ()


def test_ties_go_to_the_earlier_and_right_ones_do_not_compete() -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0]])
    names = list("abcde")

    def of(gold: int, others: Sequence[int] = (), n_top: int = 10) -> Any:
        (answer,) = rank_answers(scores, [gold], [others], names, n_top=n_top)
        return answer

    assert [of(gold).rank for gold in range(5)] == [4, 1, 2, 3, 5]
    assert of(0).top == ("b", "c", "d", "a", "e")
    assert of(0, n_top=2).top == ("b", "c")
    assert (of(2, [1]).rank, of(2, [1]).n_candidates, of(2, [1]).correct) == (1, 4, True)
    assert (of(3, [2, 3]).rank, of(3, [2, 3]).correct) == (2, False)
    with pytest.raises(EvaluationError, match="not finite"):
        rank_answers(torch.tensor([[float("nan")]]), [0], [()], ["a"], n_top=1)


def test_candidates_are_told_apart_by_their_pieces(tokenizer: Any) -> None:
    candidates = Candidates.of(["City", "city", "old  city", "old city", "\u4e00"], tokenizer)
    assert candidates.names == ("City", "old  city")
    assert candidates.left_out == {
        "the same pieces as an earlier one": 2, "the tokenizer has no pieces for it": 1,
    }  # fmt: skip
    assert sorted(candidates.by_length) == [1, 2]
    words = whole_words(tokenizer)
    assert words[:2] == ["the", "river"]
    assert "." not in words
    assert all("#" not in word for word in words)


def test_objects_of_items_are_all_their_right_answers() -> None:
    assert objects_of(ITEMS) == {
        "P1": ["bonn", "city", "old city", "paris", "river"], "P2": ["a", "the seine"],
    }  # fmt: skip


def test_answers_survive_a_file(model: PlainMaskedLM, tmp_path: Any) -> None:
    result = probed(model)
    write_answers(result, tmp_path / "answers.jsonl")
    assert read_answers(tmp_path / "answers.jsonl") == result
    groups = [dataclasses.replace(one, group="g") for one in ITEMS]
    assert {answer.group for answer in probed(model, groups).answers} == {"g"}
    for broken in ("", '{"model": "m"}\n', '{"x": 1}\n{}\n', "no\n"):
        (tmp_path / "broken.jsonl").write_text(broken, encoding="utf-8")
        with pytest.raises(EvaluationError, match=r"broken\.jsonl"):
            read_answers(tmp_path / "broken.jsonl")


def test_a_file_of_answers_is_whole_or_refused(model: PlainMaskedLM, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    result = probed(model)
    write_answers(result, path)
    whole = path.read_bytes()
    for cut in (whole[:-1], whole[:-30]):
        path.write_bytes(cut)
        with pytest.raises(
            EvaluationError, match=rf"answers\.jsonl:{len(ITEMS) + 1} is incomplete"
        ):
            read_answers(path)
    linked = tmp_path / "linked.jsonl"
    linked.hardlink_to(path)
    with pytest.raises(ExistsError):
        write_answers(result, path)
    path.unlink()
    write_answers(result, path)  # another file took its place, that one was not written into
    assert (path.read_bytes(), linked.read_bytes()) == (whole, cut)
    assert sorted(tmp_path.iterdir()) == [path, linked]
