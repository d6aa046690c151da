"""The scores of a fine-tuning run, as it writes them, against the originals' own; and all of them.

The functions behind are compared one by one beside each method; here the originals' predictions go
in as labels and what `metrics.json` of a run would say comes out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import MULTI, SINGLE
from kept.tasks.scores.official_scores import NO_RELATION
from kept.tasks.scores.scores import scores
from tests.parity.stored_digits import half_unit

METRICS = {
    "colake": {"macro", "micro", "typing", "mlm_accuracy"},
    "ernie": {"entity_typing", "fewrel", "tacred"},
    "kadapter": {"entity_typing", "tacred", "trex_rc", "find_head"},
    "knowbert": {"f1_set", "mrr", "decode"},
}
"""What each original's `metrics.json` holds; each is compared in this folder."""
LAMA_ROWS = {
    "sample", "label", "restricted", "topk", "P_AT", "MRR", "P_AT_X", "P_AT_1", "ranked_ids",
    "masked_position", "label_token_id", "label_score (called PERPLEXITY)", "ranked_words",
    "two_masks_only_first_scored",
}  # fmt: skip
RESULT = ("precision", "recall", "f_score")
INPUTS = {"logits", "labels", "pred", "predictions", "target", "gold"}
P_R_F1 = ("precision", "recall", "f1")


def read(root: Path, method: str, name: str = "metrics") -> dict[str, Any]:
    result: dict[str, Any] = json.loads((root / method / f"{name}.json").read_text())
    return result


def scores_of(predicted: Any, gold: Any, kind: str, **more: Any) -> dict[str, Any]:
    examples = [TaskExample(LinkedText(f"text {i}", ()), g) for i, g in enumerate(gold)]
    draws = generator(0, "t")
    options = {"problem_type": kind, "no_relation": None, "generator": draws} | more
    return scores(predicted, examples, **options)


def single(classes: list[int], none: int | None = None) -> list[tuple[str, ...]]:
    return [(NO_RELATION if c == none else str(c),) for c in classes]


def tolerance(metrics: dict[str, Any]) -> float:
    """What the numbers of a `metrics.json` allow, by those that are no inputs."""
    return 1e-12 + half_unit(results_in(metrics))


def results_in(value: Any) -> Any:
    if isinstance(value, list):
        return [results_in(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: results_in(each) for key, each in value.items() if key not in INPUTS}


def types(rows: Any) -> list[tuple[str, ...]]:
    return [tuple(str(i) for i in np.flatnonzero(row)) for row in np.asarray(rows) > 0]


def values(scores: dict[str, Any]) -> list[float]:
    return [scores[name] for name in P_R_F1]


@pytest.mark.parametrize("method", METRICS)
def test_every_metric_of_the_originals_is_listed(golden_root: Path, method: str) -> None:
    assert set(read(golden_root, method)) == METRICS[method]


def test_every_part_of_lama_is_listed(golden_root: Path) -> None:
    facts = read(golden_root, "colake", "lama")
    assert {key for row in facts["rows"] for key in row} <= LAMA_ROWS


def test_typing(golden_root: Path, compared: Any) -> None:
    """Open Entity as ERNIE scores it; K-Adapter and CoLAKE share its micro and strict scores."""
    cases = []
    golden = {method: read(golden_root, method) for method in METRICS}
    atols = {method: tolerance(metrics) for method, metrics in golden.items()}
    for case in golden["ernie"]["entity_typing"]:
        expected = case["open_entity(eval_typing.py)"]
        micro, macro = expected["micro_p_r_f1"], expected["macro_p_r_f1"]
        strict, atol = expected["eval_accuracy"], atols["ernie"]
        cases.append((case["logits"], case["labels"], micro, macro, strict, atol))
    stored = golden["kadapter"]["entity_typing"]
    expected, n = stored["result"], len(stored["target"])
    strict = expected["exact_match_count"] / n
    micro, macro = expected["loose_micro_p_r_f"], expected["loose_macro_p_r_f"]
    cases.append((stored["logits"], stored["target"], micro, macro, strict, atols["kadapter"]))
    stored = golden["colake"]["typing"]
    micro = [stored["result"][f"micro_{name}"] for name in "prf"]
    strict = stored["result"]["acc"]  # rounded to six places there
    cases.append((stored["logits"], stored["target"], micro, None, strict, atols["colake"]))
    for logits, gold, micro, macro, strict, atol in cases:
        ours = scores_of(types(logits), types(gold), MULTI)
        compared.close("run: typing micro", values(ours["micro"]), micro, atol=atol)
        compared.close("run: typing strict", ours["accuracy"]["estimate"], strict, atol=1e-6 + atol)
        if macro is not None:
            compared.close("run: typing macro", values(ours["macro"]), macro, atol=atol)


def test_relations(golden_root: Path, compared: Any) -> None:
    """Micro without a class (CoLAKE, TACRED of ERNIE and K-Adapter), macro, and plain accuracy."""
    golden = {method: read(golden_root, method) for method in METRICS}
    atols = {method: tolerance(metrics) for method, metrics in golden.items()}
    micro = golden["colake"]["micro"]
    none = micro["no_relation_idx"]
    result, atol = [micro["result"][k] for k in RESULT], atols["colake"]
    cases = [(micro["pred"], micro["target"], none, result, atol)]
    stored = golden["kadapter"]["tacred"]
    none, result, atol = stored["no_relation"], stored["result_p_r_f"], atols["kadapter"]
    cases.append((stored["pred"], stored["target"], none, result, atol))
    for case in golden["ernie"]["tacred"]:
        result = [case["eval_result"][name] for name in ("micro_p", "micro_r", "micro_f1")]
        cases.append((case["pred"], case["gold"], case["na_id"], result, atols["ernie"]))
    for pred, gold, none, expected, atol in cases:
        labels = single(pred, none), single(gold, none)
        ours = scores_of(*labels, SINGLE, no_relation=NO_RELATION, format="tacred")
        compared.close("run: relations micro", values(ours["micro"]), expected, atol=atol)
        official = ours["official"]
        three = [*(official["beside"][name] for name in P_R_F1[:2]), official["estimate"]]
        compared.close("run: TACRED", three, expected, atol=atol)
    macro = golden["colake"]["macro"]
    ours = scores_of(single(macro["pred"]), single(macro["target"]), SINGLE)
    expected = [macro["result"][name] for name in RESULT]
    compared.close("run: relations macro", values(ours["macro"]), expected, atol=atols["colake"])
    stored = golden["kadapter"]["trex_rc"]
    ours = scores_of(single(stored["pred"]), single(stored["target"]), SINGLE)
    f1s = [ours[kind]["f1"] for kind in ("micro", "macro")]
    expected = [stored["micro_f1"], stored["macro_f1"]]
    compared.close("run: T-REx", f1s, expected, atol=atols["kadapter"])
    stored = golden["ernie"]["fewrel"]
    ours = scores_of(single(stored["predictions"]), single(stored["labels"]), SINGLE)
    accuracy = ours["accuracy"]["estimate"]
    compared.close("run: FewRel", accuracy, stored["eval_accuracy"], atol=atols["ernie"])
