"""ERNIE's data preparation and metrics against runs of the original."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Visibility
from kept.evaluation.classification import masked_accuracy, micro_scores, typing_scores
from kept.objectives.entity_denoising import EntityDenoisingOptions, corrupt_entities
from tests.parity.stored_digits import half_unit
from tests.reference import original_ernie as original
from tests.reference.original_ernie import Annotation, OriginalTokenizer
from tests.reference.original_ernie_instances import (
    CLS,
    MASK,
    N_RANDOM_WORDS,
    PAD,
    SEP,
    InstanceConfig,
    entities_of,
    original_instances,
)

METHOD = "ernie"
TYPING_PROGRAMS = {"open_entity(eval_typing.py)": False, "figer(eval_figer.py)": True}
"""The programs that score types, and whether each takes the best type of a text without any."""


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def batch_of(ids: torch.Tensor) -> KnowledgeBatch:
    """A batch whose entity rows are the original's ids, -1 for none."""
    n_batch, n_node = ids.shape
    zeros = torch.zeros_like(ids)
    return KnowledgeBatch(
        node_ids=zeros,
        node_kinds=zeros,
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=torch.arange(n_node).repeat(n_batch, 1),
        segment_ids=zeros,
        visibility=Visibility.everyone(n_batch, n_node),
        entity_ids=(ids + N_SPECIAL_ROWS).where(ids >= 0, PAD_ROW),
    )


def test_entity_corruption(folder: Path, compared: Any) -> None:
    """The same draws corrupt the same entities; labels and candidates are from before."""
    golden = read(folder, "dea_collate")
    ids = torch.tensor(golden["entity_ids_original"])
    fates: list[float] = []
    picks: list[float] = []
    for kind, *values in golden["draws"]:
        if kind == "uniform":
            fates.append(values[0])
            picks.append(0.0)
        else:  # an index among the candidates, of which 0 is the zero vector
            low, high, value = values
            picks[-1] = (value - low + 0.5) / (high - low + 1)
    batch = corrupt_entities(
        batch_of(ids),
        torch.tensor(fates, dtype=torch.float64),
        torch.tensor(picks, dtype=torch.float64),
        options=EntityDenoisingOptions(zero_candidate=True),
    )
    candidates = batch.sampled_entities
    entities = (batch.entity_ids - N_SPECIAL_ROWS).where(batch.entity_ids != PAD_ROW, -1)
    compared.equal("corrupted", entities.tolist(), golden["entity_ids_corrupted"])
    in_order = (candidates - N_SPECIAL_ROWS).where(candidates != PAD_ROW, -1)
    compared.equal("candidates", in_order.tolist(), golden["unique_ids_sorted"])
    compared.equal("n_candidates", len(candidates), golden["n_candidates"])
    slots = torch.searchsorted(in_order, batch.entity_labels - N_SPECIAL_ROWS)
    slots = slots.where(batch.entity_labels != IGNORE, -1)
    compared.equal("labels", slots.tolist(), golden["ent_labels"])
    is_slot = (batch.entity_ids >= N_SPECIAL_ROWS) | (batch.positions == 0)
    compared.equal("ent_mask", is_slot.long().tolist(), golden["ent_mask"])


def annotations_of(rows: list[Any]) -> list[Annotation]:
    return [Annotation(*row) for row in rows]


def rows_of(annotations: list[Annotation]) -> list[list[Any]]:
    return [[a.entity, a.start, a.end, a.score] for a in annotations]


class Aligned:
    """One case of alignment.json."""

    def __init__(self, golden: Any, index: int) -> None:
        self.case = golden["cases"][index]
        self.text = self.case["text"]
        self.tokenizer = OriginalTokenizer(golden["vocab"], lower_case=self.case["do_lower_case"])
        self.entity_ids = golden["entity2id"]
        self.kept = original.confident(
            [
                Annotation(a["qid"], a["start"], a["end"], a["score"])
                for a in self.case["annotations"]
            ],
            self.case["threshold"],
        )

    def features(self, tokens: list[str], tags: list[str]) -> dict[str, Any]:
        result = original.features(
            tokens,
            tags,
            tokenizer=self.tokenizer,
            entity_ids=self.entity_ids,
            max_length=self.case["max_seq_length"],
        )
        return {
            "tokens": list(result.tokens),
            "input_ids": list(result.input_ids),
            "input_mask": list(result.input_mask),
            "segment_ids": list(result.segment_ids),
            "input_ent": list(result.entity_ids),
            "ent_mask": list(result.entity_mask),
        }


PARAMETERS = {"aligned": lambda folder: range(len(read(folder, "alignment")["cases"]))}


@pytest.fixture
def aligned(folder: Path, request: pytest.FixtureRequest) -> Aligned:
    return Aligned(read(folder, "alignment"), request.param)


def test_alignment(aligned: Aligned, compared: Any) -> None:
    expected = aligned.case["plain"]
    compared.equal("kept", rows_of(aligned.kept), expected["kept_annotations"])
    tokens, tags = original.tag_pieces(aligned.text, aligned.kept, aligned.tokenizer)
    compared.equal("tokens", tokens, expected["tokens"])
    compared.equal("qids", tags, expected["token_qids"])
    ids = [aligned.entity_ids.get(tag, -1) for tag in tags]
    compared.equal("entity ids", ids, expected["token_entity_ids"])


def test_typing_input(aligned: Aligned, compared: Any) -> None:
    expected = aligned.case["typing"]
    start, end = expected["input"]["start"], expected["input"]["end"]
    text, passed = original.mark_typing(aligned.text, start, end, aligned.kept)
    compared.equal("marked", text, expected["marked_text"])
    compared.equal("passed", rows_of(passed), expected["entity_call"]["entities_passed"])
    after = original.clean(text, passed)[1]
    compared.equal("after", rows_of(after), expected["entity_call"]["entities_after"])
    span = expected["span_call"]
    tokens, tags = original.tag_span(text, start + 2, end + 2, aligned.tokenizer)
    compared.equal("span tokens", tokens, span["tokens"])
    compared.equal("span tags", tags, span["token_tag"])
    assert original.find_span(tags, aligned.case["max_seq_length"])
    tokens, tags = original.tag_pieces(text, passed, aligned.tokenizer)
    compared.equal("typing qids", tags, expected["entity_call"]["token_qids"])
    known = expected["input"]
    labels = [int(label in known["labels"]) for label in sorted(known["label_list"])]
    actual = aligned.features(tokens, tags) | {"labels": labels}
    compared.equal("typing features", actual, expected["features"])


@pytest.mark.parametrize("task", ["fewrel", "tacred"])
def test_relation_input(aligned: Aligned, task: str, compared: Any) -> None:
    expected = aligned.case[task]
    annotations = expected["input"]
    head, tail = (
        original.from_first_character(Annotation(*annotations[name])) for name in ("head", "tail")
    )
    text = original.mark_relation(aligned.text, head, tail)
    compared.equal("marked", text, expected["marked_text"])
    if task == "fewrel":
        passed = original.move_fewrel(head, tail)
    else:
        passed = original.move_tacred(aligned.kept, head, tail)
    compared.equal("passed", rows_of(passed), expected["entities_passed"])
    tokens, tags = original.tag_pieces(text, passed, aligned.tokenizer)
    compared.equal("relation tokens", tokens, expected["tokens"])
    compared.equal("relation qids", tags, expected["token_qids"])
    label_id = annotations["label_list_sorted"].index(annotations["label"])
    actual = aligned.features(tokens, tags) | {"label_id": label_id}
    compared.equal("relation features", actual, expected["features"])


def test_vanishing_chunk_shifts_the_tags(folder: Path, compared: Any) -> None:
    golden = read(folder, "alignment")
    quirk = golden["quirk"]
    tokenizer = OriginalTokenizer(golden["vocab"], lower_case=True)
    tokens, tags = original.tag_pieces(
        quirk["text"], annotations_of(quirk["annotations"]), tokenizer
    )
    compared.equal("quirk tokens", tokens, quirk["tokens"])
    compared.equal("quirk qids", tags, quirk["token_qids"])


def tolerance(golden: dict[str, Any]) -> float:
    of_types = [[case[name] for name in TYPING_PROGRAMS] for case in golden["entity_typing"]]
    parts = ("eval_result", "score_py_p_r_f1")
    of_relations = [[case[name] for name in parts] for case in golden["tacred"]]
    return 1e-12 + half_unit(of_types, of_relations, golden["fewrel"]["eval_accuracy"])


def test_typing_metrics(folder: Path, compared: Any) -> None:
    golden = read(folder, "metrics")
    atol = tolerance(golden)
    for case in golden["entity_typing"]:
        for name, at_least_one in TYPING_PROGRAMS.items():
            expected = case[name]
            scores = typing_scores(
                case["logits"], case["labels"], threshold=0.0, at_least_one=at_least_one
            )
            compared.close("strict", scores.exact, expected["eval_accuracy"], atol=atol)
            compared.close(
                "strict count",
                scores.exact * len(case["labels"]),
                expected["exact_match_count"],
                atol=1e-9,
            )
            for kind in ("macro", "micro"):
                actual = getattr(scores, kind)
                compared.close(
                    f"loose {kind}",
                    [actual.precision, actual.recall, actual.f1],
                    expected[f"{kind}_p_r_f1"],
                    atol=atol,
                )


def test_relation_metrics(folder: Path, compared: Any) -> None:
    """`score.py` calls precision 1 where nothing was found; F1 is 0 there as here."""
    golden = read(folder, "metrics")
    fewrel, atol = golden["fewrel"], tolerance(golden)
    best = np.asarray(fewrel["logits"]).argmax(axis=1)
    compared.equal("predictions", best.tolist(), fewrel["predictions"])
    accuracy = masked_accuracy(fewrel["logits"], fewrel["labels"])
    compared.close("accuracy", accuracy, fewrel["eval_accuracy"], atol=atol)
    compared.equal("correct", int((best == fewrel["labels"]).sum()), fewrel["correct"])
    for case in golden["tacred"]:
        scores = micro_scores(case["pred"], case["gold"], no_relation=case["na_id"])
        everything = micro_scores(case["pred"], case["gold"], no_relation=None)
        compared.close(
            "tacred",
            [everything.recall, scores.precision, scores.recall, scores.f1],
            [case["eval_result"][k] for k in ("acc", "micro_p", "micro_r", "micro_f1")],
            atol=atol,
        )
        precision, recall, f1 = case["score_py_p_r_f1"]
        found_any = any(p != case["na_id"] for p in case["pred"])
        compared.close(
            "score.py",
            [scores.precision if found_any else 1.0, scores.recall, scores.f1],
            [precision, recall, f1],
            atol=atol,
        )


def test_pretraining_instances(folder: Path, compared: Any) -> None:
    golden = read(folder, "create_instances")
    settings = golden["settings"]
    assert tuple(settings[n] for n in ("cls", "sep", "mask", "pad")) == (CLS, SEP, MASK, PAD)
    assert settings["random_word_upper"] == N_RANDOM_WORDS - 1
    config = InstanceConfig(
        max_length=settings["max_seq_length"],
        short_probability=settings["short_seq_prob"],
        masked_probability=settings["masked_lm_prob"],
        max_masked=settings["max_predictions_per_seq"],
        n_copies=settings["dupe_factor"],
    )
    rows = original_instances(
        golden["docs_token"],
        golden["docs_entity"],
        golden["entity2id"],
        config=config,
        draws=random.Random(settings["python_random_seed"]),
    )
    actual = [
        {
            "input_ids": list(row.input_ids),
            "input_mask": list(row.input_mask),
            "segment_ids": list(row.segment_ids),
            "masked_lm_labels": list(row.masked_labels),
            "entity": list(row.entity_ids),
            "entity_mask": list(row.entity_mask),
            "next_sentence_label": int(row.is_random_next),
        }
        for row in rows
    ]
    compared.equal("instances", actual, golden["rows"])


def test_runs_of_an_entity_alternate_in_the_original() -> None:
    """Also across the number that stands before a sentence: here its length is the entity's id."""
    line = [1, 5, "Q1", "Q1", "Q1", "#UNK#", "Q2", 3, "Q3"]
    assert entities_of(line, {"Q1": 7, "Q3": 3}) == [1, 5, 7, -1, 7, -1, -1, 3, -1]
