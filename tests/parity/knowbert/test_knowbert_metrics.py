"""KnowBERT's decoding of links, set F1 and MRR against the original's results.

The original adds 1e-13 below the line of every ratio, hence the tolerance.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from entity_linking.scoring import LinkScore
from kept.batches import N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.evaluation.ranking import RankCounts
from kept.linking.knowbert import ALWAYS, decode
from tests.parity.stored_digits import half_unit

METHOD = "knowbert"
PARAMETERS = {
    "variant": lambda folder: [path.parent.name for path in sorted(folder.glob("*/config.json"))]
}
"""The models, one per sub-folder."""
ATOL = 1e-11
Item = tuple[tuple[int, int], int]


@pytest.fixture(scope="module")
def variant(folder: Path, request: pytest.FixtureRequest) -> Path:
    return folder / str(request.param)


def score(gold: list[set[Any]], predicted: list[set[Any]]) -> LinkScore:
    pairs = list(zip(gold, predicted, strict=True))
    return LinkScore(
        sum(len(g) for g, _ in pairs),
        sum(len(p) for _, p in pairs),
        sum(len(g & p) for g, p in pairs),
    )


def values(link_score: LinkScore) -> list[float]:
    return [link_score.precision, link_score.recall, link_score.f1]


def rows(ids: Tensor, null: int) -> Tensor:
    """Rows of the original's ids: NULL is UNKNOWN_ROW, 0 padding."""
    moved = (ids + N_SPECIAL_ROWS).where(ids != null, UNKNOWN_ROW)
    return moved.where(ids != 0, PAD_ROW)


def check_decoding(
    compared: Any,
    scores: Tensor,
    spans: Tensor,
    entities: Tensor,
    gold: Tensor,
    null: int,
    expected: dict[str, Any],
) -> None:
    threshold = expected["decode_threshold"]
    chosen = decode(scores, rows(entities, null), threshold=max(threshold, ALWAYS))
    links: list[set[Item]] = []
    golds: list[set[Item]] = []
    written = []
    for sample, choices in enumerate(chosen.tolist()):
        links.append(set())
        golds.append(set())
        for (start, end), row, right in zip(
            spans[sample].tolist(), choices, gold[sample, :, 0].tolist(), strict=True
        ):
            if row != UNKNOWN_ROW:
                links[-1].add(((start, end), row - N_SPECIAL_ROWS))
                written.append([sample, [start, end], row - N_SPECIAL_ROWS])
            if right not in (0, null):
                golds[-1].add(((start, end), right))
    compared.equal("decoded", written, expected["decoded [batch, [start,end], entity_id]"])
    metrics = expected["metrics"]
    names = ("precision", "recall", "f1")
    result = values(score(golds, links))
    atol = ATOL + half_unit(metrics)
    compared.close("el", result, [metrics[f"el_{name}"] for name in names], atol=atol)
    unlabelled = [[{span for span, _ in part} for part in parts] for parts in (golds, links)]
    result = values(score(*unlabelled))
    compared.close("span", result, [metrics[f"span_{name}"] for name in names], atol=atol)


def test_decoding(folder: Path, compared: Any) -> None:
    for item in json.loads((folder / "metrics.json").read_text())["decode"]:
        tensors = (
            torch.tensor(item[name])
            for name in ("linking_scores", "candidate_spans", "candidate_entities", "gold_entities")
        )
        check_decoding(compared, *tensors, item["null_entity_id"], item)


def test_links_of_the_models(variant: Path, compared: Any) -> None:
    inputs = load_file(variant / "inputs.safetensors")
    outputs = load_file(variant / "outputs.safetensors")
    actual = json.loads((variant / "losses_and_metrics.json").read_text())
    for kg, both in actual["entity_linking"].items():
        for kind in ("margin", "softmax"):
            check_decoding(
                compared,
                outputs[f"kar.{kg}.linking_scores"],
                inputs[f"candidates.{kg}.candidate_spans"],
                inputs[f"candidates.{kg}.candidate_entities"],
                inputs[f"gold_entities.{kg}"],
                both["null_entity_id"],
                both[kind],
            )


def reciprocal_rank(predictions: Tensor, labels: Tensor, chosen: Tensor) -> float:
    """Mean over `chosen [batch node]`, ties against us."""
    scores, golds = predictions[chosen], labels[chosen]
    of_gold = scores.gather(1, golds[:, None])
    counts = RankCounts(
        (scores > of_gold).sum(1).numpy().astype(np.int64),
        (scores == of_gold).sum(1).numpy().astype(np.int64) - 1,
    )
    return float((1 / counts.ranks("pessimistic")).mean())


def test_set_f1_and_mrr(folder: Path, compared: Any) -> None:
    golden = json.loads((folder / "metrics.json").read_text())
    gold: list[set[Any]] = []
    predicted: list[set[Any]] = []
    cumulative = "cumulative [precision, recall, f1]"
    atol = ATOL + half_unit([item[cumulative] for item in golden["f1_set"]])
    for item in golden["f1_set"]:
        for name, sets in (("gold", gold), ("pred", predicted)):
            sets.extend({(tuple(span), entity) for span, entity in part} for part in item[name])
        compared.close("set F1", values(score(gold, predicted)), item[cumulative], atol=atol)
    mrr = golden["mrr"]
    actual = reciprocal_rank(
        torch.tensor(mrr["predictions"]),
        torch.tensor(mrr["labels"]),
        torch.tensor(mrr["mask"], dtype=torch.bool),
    )
    compared.close("mrr", actual, mrr["mrr"], atol=1e-6 + half_unit(mrr["mrr"]))


def test_metrics_after_one_batch(variant: Path, compared: Any) -> None:
    """All but `mrr`, which is 0 in both: that pass did not feed it (see the test above)."""
    inputs = load_file(variant / "inputs.safetensors")
    outputs = load_file(variant / "outputs.safetensors")
    metrics = json.loads((variant / "losses_and_metrics.json").read_text())
    expected = metrics["metrics_after_one_batch"]
    assert expected["mrr"] == 0
    half = half_unit(expected)
    is_pair = inputs["next_sentence_label"] >= 0
    right = outputs["nsp_logits"].argmax(1) == inputs["next_sentence_label"]
    accuracy = float(right[is_pair].float().mean())
    compared.close("nsp accuracy", accuracy, expected["nsp_accuracy"], atol=1e-6 + half)
    for loss in ("lm", "nsp"):
        value = outputs[f"loss_{'mlm' if loss == 'lm' else loss}"][0]
        compared.close(f"{loss} loss", value, expected[f"{loss}_loss"], atol=1e-5 + half)
    for kg, both in metrics["entity_linking"].items():
        kind = both["configured_loss_type"]
        for key, value in both[kind]["metrics"].items():
            compared.close(f"{kg} {key}", value, expected[f"{kg}_{key}"], atol=ATOL + 2 * half)
