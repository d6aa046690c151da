"""What the golden vectors cover: of the committed folder exactly, of another one something.

The parity tests take every size and count from the folder and so would pass over a file that has
lost its cases; here the committed files' own numbers stand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

COMMITTED = Path(__file__).parents[1] / "golden"


@pytest.fixture
def committed(golden_root: Path) -> Path:
    """The committed folder; a test of it is left out where --golden names another."""
    if golden_root != COMMITTED:
        pytest.skip(f"{golden_root} need not have the cases of {COMMITTED}")
    return golden_root


def read(root: Path, name: str) -> Any:
    return json.loads((root / f"{name}.json").read_text(encoding="utf-8"))


def load(root: Path, name: str) -> dict[str, Tensor]:
    return load_file(root / f"{name}.safetensors")


@pytest.mark.parametrize(
    ("name", "keys", "n"),
    [
        ("kbert/injection", ["cases"], 32),
        ("ernie/alignment", ["cases"], 5),
        ("ernie/create_instances", ["rows"], 9),
        ("ernie/grads_info", ["stored"], 116),
        ("kadapter/config", ["skip_variants"], 5),
        ("kadapter/config", ["like_roberta"], 5),
        ("kadapter/features", ["find_head", "examples"], 4),
        ("kepler/kg_completion", ["results"], 18),
        ("knowbert/candidates", ["pairs", "pairs"], 8),
        ("knowbert/candidates", ["wordnet", "runs"], 35),
        ("colake/graph", ["documents"], 7),
        ("colake/lama", ["rows"], 20),
        ("dkrl/data", ["entities"], 6),
        ("simkgc/tokenization_fb15k237", ["examples"], 68),
        ("simkgc/evaluation", ["runs"], 18),
        ("kblam/cases", ["cases"], 28),
        ("kblam/cases", ["pruning"], 4),
        ("kblam/config", ["kb_encoders"], 6),
        ("kblam/text", ["triples"], 24),
        ("kblam/training", ["micro_batches"], 15),
        ("libert/constraints", ["all_examples"], 38),
        ("libert/constraints", ["features", "rows"], 38),
        ("sensebert/tokenizer", ["cases"], 6),
        ("sentilare/pretrain_examples", ["cases"], 12),
        ("sentilare/prior_polarity", ["gloss_attention_in_order"], 12),
        ("sentilare/finetune_features", ["cases"], 3),
    ],
)
def test_counts(golden_root: Path, name: str, keys: list[str], n: int) -> None:
    cases = read(golden_root, name)
    for key in keys:
        cases = cases[key]
    assert len(cases) == n if golden_root == COMMITTED else cases


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("colake/grads", 73),
        ("ernie/grads", 116),
        ("kbert/grads", 57),
        ("kblam/grads", 85),
        ("kepler/grads", 136),
        ("knowbert/wiki/grads", 53),
        ("knowbert/wordnet_wiki/grads", 106),
    ],
)
def test_gradients_of_all_parameters(committed: Path, name: str, n: int) -> None:
    """Parity tests take a part of them as well."""
    assert len(load(committed, name)) == n


@pytest.mark.parametrize(
    ("name", "mask", "empty"),
    [
        ("ernie/inputs", "attention_mask", 0),
        ("kepler/inputs", "mlm.src_tokens", 1),
        ("kbert/inputs", "mask", 0),
        ("knowbert/wiki/inputs", "tokens", 0),
        ("kadapter/inputs", "find_head.attention_mask", 0),
        ("kblam/inputs", "left.attention_mask", 0),
    ],
)
def test_some_rows_are_padded(committed: Path, name: str, mask: str, empty: int) -> None:
    values = load(committed, name)[mask] != empty
    assert not values.all()
    assert values.any(1).all()


def test_a_subject_is_forced_apart(committed: Path) -> None:
    """The case where pkuseg's words and the longest match give different trees."""
    cases = [
        c for c in read(committed, "kbert/injection")["cases"] if c["split_source"] == "forced"
    ]
    assert sum(c["name"] == "overlap: inner word segmented out" for c in cases) == 2


@pytest.mark.parametrize("name", ["knowbert/wiki", "knowbert/wordnet_wiki"])
def test_a_gold_entity_is_the_null_entity(committed: Path, name: str) -> None:
    vocabularies = read(committed, f"{name}/config")["entity_vocab"]
    gold = {
        k: v for k, v in load(committed, f"{name}/inputs").items() if k.startswith("gold_entities.")
    }
    nulls = {names.index("@@NULL@@") + 1 for names in vocabularies.values()}
    assert all(nulls & set(ids.flatten().tolist()) for ids in gold.values())
