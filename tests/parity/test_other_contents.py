"""The parity tests take golden folders of any contents.

Each test makes a copy of the committed folder whose contents are of another kind, but still what
the original says: fewer numbers, rounded ones, or cases whose answers follow from the rules of the
original. Then the parity tests of the method must pass on the copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from kept.graphs.graph import NodeKind
from tests.forked import Forked
from tests.parity.colake.test_colake_model import kinds_of
from tests.parity.other_sizes.tensors import COMMITTED, load, read, store, write

HERE = Path(__file__).parent
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""Plugins of pytest that the process had loaded from which this one is forked."""


def run(golden: Path, files: Iterable[str], *, only: str = "") -> tuple[int, str]:
    """The exit status and output of the parity tests in `files` on the folder `golden`."""
    named = [next(HERE.rglob(name)) for name in files]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", IMPORTED]
    process = Forked([*command, "-k", only, "--golden", golden, *named], os.environ)
    output, _ = process.communicate()
    return process.returncode, output


def passes(golden: Path, files: Iterable[str], *, only: str = "") -> None:
    status, output = run(golden, files, only=only)
    assert status == 0, output[-6000:]
    assert "passed" in output
    assert "skipped" not in output


def copy(golden: Path, *methods: str) -> None:
    for method in methods:
        shutil.copytree(COMMITTED / method, golden / method)


# ---- gradients stored for a part of the parameters ----------------------------------------------
WITH_GRADIENTS = {
    "colake": ["test_colake_model.py", "test_colake_finetuning.py"],
    "commonsense_gpt2": ["test_guan.py"],
    "ebert": ["test_ebert_linking.py"],
    "ernie": ["test_ernie_model.py"],
    "kadapter": ["test_kadapter_model.py"],
    "kbert": ["test_kbert.py"],
    "kblam": ["test_kblam.py", "test_kblam_training.py"],
    "kepler": ["test_kepler.py"],
    "kglm": ["test_kglm.py"],
    "knowbert": ["test_knowbert_model.py"],
    "ktnet": ["test_ktnet.py"],
    "libert": ["test_libert.py"],
    "lrlm": ["test_lrlm.py"],
    "sensebert": ["test_sensebert.py"],
    "sentilare": ["test_sentilare.py"],
    "simkgc": ["test_simkgc.py"],
    "ultra": ["test_ultra.py"],
    "wklm": ["test_wklm.py"],
}
"""The methods whose folders hold gradients, and the tests that read them."""
ABOUT_GRADIENTS = "gradients or tasks or heads or tagger or forward or training or layers"


def is_gradient(file: Path, name: str) -> bool:
    """Whether the tensor `name` of a golden file is a gradient of a parameter."""
    marked = (".grad.", "grad.", "grad:")
    return "grads" in file.stem or (file.stem != "sparse_adam" and any(m in name for m in marked))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_gradients_of_a_part_of_the_parameters(tmp_path: Path, first: int) -> None:
    """Every other gradient is stored, from the first or from the second on."""
    copy(tmp_path, *WITH_GRADIENTS)
    for method in WITH_GRADIENTS:
        n_before = n_after = 0
        for file in (tmp_path / method).rglob("*.safetensors"):
            tensors = load_file(file)
            names = sorted(name for name in tensors if is_gradient(file, name))
            left_out = names[1 - first :: 2]
            n_before, n_after = n_before + len(names), n_after + len(names) - len(left_out)
            if left_out:
                kept = {n: v for n, v in tensors.items() if n not in left_out}
                save_file(kept, file)
        assert 0 < n_after < n_before, method
    info = read(tmp_path / "ernie", "grads_info")
    write(info | {"stored": [*load(tmp_path / "ernie", "grads")]}, tmp_path / "ernie", "grads_info")
    files = [name for names in WITH_GRADIENTS.values() for name in names]
    passes(tmp_path, files, only=ABOUT_GRADIENTS)


# ---- metrics stored rounded ---------------------------------------------------------------------
WITH_METRICS = {
    "colake": {"metrics": ["result"], "lama": ["MRR", "label_score (called PERPLEXITY)"]},
    "ebert": {"entity_linking": ["eval_precision_recall_f1"], "aida": ["score"]},
    "ernie": {
        "metrics": [
            "open_entity(eval_typing.py)", "figer(eval_figer.py)", "eval_accuracy", "eval_result",
            "score_py_p_r_f1",
        ]
    },
    "kadapter": {"metrics": ["result", "result_p_r_f", "micro_f1", "macro_f1", "accuracy"]},
    "kepler": {"kg_completion": ["metrics"]},
    "kglm": {"losses": ["metrics_over_all_chunks"]},
    "knowbert": {
        "metrics": ["metrics", "cumulative [precision, recall, f1]", "mrr"],
        "wiki/losses_and_metrics": ["metrics", "metrics_after_one_batch"],
        "wordnet_wiki/losses_and_metrics": ["metrics", "metrics_after_one_batch"],
    },
    "simkgc": {"evaluation": ["metrics"]},
    "ultra": {"evaluation": ["metrics"]},
}  # fmt: skip
"""The files of each method that hold metrics, and the keys above them."""
METRIC_TESTS = [
    "test_colake_finetuning.py", "test_ebert_linking.py", "test_ernie_preparation.py",
    "test_kadapter_features.py", "test_kepler_completion.py", "test_kglm.py",
    "test_knowbert_metrics.py", "test_simkgc_evaluation.py", "test_ultra.py",
    "test_golden_metrics.py",
]  # fmt: skip


def rounded(value: Any, keys: Iterable[str], places: int, *, below: bool = False) -> Any:
    """`value` with the numbers under `keys` rounded."""
    if isinstance(value, dict):
        return {k: rounded(v, keys, places, below=below or k in keys) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(each, keys, places, below=below) for each in value]
    return round(value, places) if below and isinstance(value, float) else value


def with_rounded_metrics(golden: Path, places: int) -> None:
    copy(golden, *WITH_METRICS)
    for method, files in WITH_METRICS.items():
        for name, keys in files.items():
            before = read(golden / method, name)
            after = rounded(before, keys, places)
            assert places > 3 or after != before, (method, name)
            write(after, golden / method, name)


@pytest.mark.slow
@pytest.mark.parametrize("places", [3, 6])
def test_metrics_stored_rounded(tmp_path: Path, places: int) -> None:
    with_rounded_metrics(tmp_path, places)
    passes(tmp_path, METRIC_TESTS)


@pytest.mark.slow
def test_a_metric_that_is_wrong_in_its_last_stored_place(tmp_path: Path) -> None:
    """The tolerance of rounded metrics is half a unit: the next rounded number is refused."""
    with_rounded_metrics(tmp_path, 3)
    metrics = read(tmp_path / "colake", "metrics")
    metrics["macro"]["result"]["recall"] += 0.001
    write(metrics, tmp_path / "colake", "metrics")
    status, output = run(tmp_path, ["test_colake_finetuning.py"], only="test_metrics")
    assert status == 1
    assert "1 failed" in output


# ---- padding that is not exactly what it was -----------------------------------------------------
@pytest.mark.slow
def test_padding_within_the_tolerance(tmp_path: Path) -> None:
    """CoLAKE's and K-BERT's padding to 1e-3, as -10000 leaves it; all others' to rounding."""
    copy(tmp_path, "colake", "kbert", "kepler", "ktnet")
    inputs = load(tmp_path / "colake", "inputs")
    real, kinds = inputs["attention_mask"].bool().any(dim=1), kinds_of(inputs)
    change_padding(tmp_path / "colake", "outputs", ~real, 1e-3)
    outputs = load(tmp_path / "colake", "outputs")
    for kind, name in zip(NodeKind, ("word_pred", "entity_pred", "relation_pred"), strict=True):
        is_padding = ~real[kinds == kind].view(len(real), -1)
        outputs[name][is_padding] = 0
    store(outputs, tmp_path / "colake", "outputs")
    mask = load(tmp_path / "kbert", "inputs")["mask"] == 0
    change_padding(tmp_path / "kbert", "outputs", mask, 1e-3)
    change_padding(tmp_path / "kbert", "outputs_float64", mask, 1e-10)
    shown = load(tmp_path / "kepler", "inputs")["mlm.src_tokens"]
    padding = shown == read(tmp_path / "kepler", "config")["pad"]
    change_padding(tmp_path / "kepler", "outputs", padding, 1e-7)
    state = load(tmp_path / "ktnet", "state_dict")
    state["concept_emb_mat"][0] = 1e-9
    store(state, tmp_path / "ktnet", "state_dict")
    files = ["test_colake_model.py", "test_kbert.py", "test_kepler.py", "test_ktnet.py"]
    passes(tmp_path, files, only="states or padding or float64 or concept_vectors")


def change_padding(golden: Path, name: str, padding: Tensor, size: float) -> None:
    """Add a little noise to all states over `padding [batch node]`."""
    tensors, draws = load(golden, name), torch.Generator().manual_seed(0)
    n_changed = 0
    for value in tensors.values():
        if value.shape[:2] == padding.shape and value.ndim == 3:
            noise = torch.rand(value[padding].shape, generator=draws) * size
            value[padding] += noise.to(value.dtype)
            n_changed += 1
    assert padding.any()
    assert n_changed
    store(tensors, golden, name)
