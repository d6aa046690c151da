"""The restatement of both originals says what is stored, and our tests pass on its small folders.

`tests/parity/test_other_sizes.py` runs the tests on large folders of the same makers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.forked import Forked
from tests.parity.other_sizes import greaselm, qagnn, tensors
from tests.parity.subgraph import making
from tests.reference import original_subgraphs as reference
from tests.reference.original_subgraphs import Network, Words

HERE = Path(__file__).parent
MAKERS = {"qagnn": qagnn, "greaselm": greaselm}
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""Plugins of pytest that the process had loaded from which this one is forked."""
EXACT = {"atol": 1e-12, "rtol": 1e-12}


@pytest.mark.parametrize("method", MAKERS)
def test_our_tests_pass_on_one_question(method: str, tmp_path: Path) -> None:
    """Two choices, hardly an edge, no variant, the other loss in training."""
    folder = tmp_path / method
    folder.mkdir()
    MAKERS[method].make(folder, MAKERS[method].FEW)
    files = sorted(HERE.glob(f"test_{method}*.py"))
    assert files
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", IMPORTED]
    process = Forked([*command, "--golden", tmp_path, *files], os.environ)
    output, _ = process.communicate()
    assert process.returncode == 0, output[-6000:]
    assert "passed" in output
    assert "skipped" not in output


def stored(folder: Path, name: str) -> dict[str, Tensor]:
    return making.cast(tensors.load(folder, name), torch.float64)


def agrees(net: Network, labels: Tensor, expected: dict[str, Tensor]) -> None:
    """Every stored value of a case; of the language model's states the first tokens."""
    values = making.with_losses(net, labels) | making.after(net)
    assert expected
    for name, value in expected.items():
        ours = values[name]
        ours = ours[:, : value.shape[1]] if name.startswith("lm.") else ours
        torch.testing.assert_close(ours.double(), value.double(), **EXACT)


def settings_of(folder: Path, name: str) -> dict[str, Any]:
    config: dict[str, Any] = tensors.read(folder, "config")
    return config | config["variants"].get(name, {})


@pytest.mark.parametrize("mode", ["eval", "train"])
@torch.no_grad()
def test_the_restatement_of_qagnn(mode: str) -> None:
    folder = tensors.COMMITTED / "qagnn"
    inputs, outputs = tensors.load(folder, "inputs"), stored(folder, "outputs_f64")
    rows = making.rows_from(inputs)
    for name in ("main", *settings_of(folder, "main")["variants"]):
        settings = settings_of(folder, name)
        state = stored(folder, f"state_dict_{name}")
        net = Network(state, mode == "train", settings["n_attention_head"])
        sentence = inputs["sent_vecs"].double()
        reference.qagnn(net, rows, sentence, settings["num_choice"], settings["n_etype"])
        agrees(net, inputs["labels"], tensors.part(outputs, f"{name}.{mode}."))


@pytest.mark.parametrize("mode", ["eval", "train"])
@torch.no_grad()
def test_the_restatement_of_greaselm(mode: str) -> None:
    folder = tensors.COMMITTED / "greaselm"
    inputs, outputs = tensors.load(folder, "inputs"), stored(folder, "outputs_f64")
    text = [inputs[f"text.{name}"].flatten(0, 1)
            for name in ("input_ids", "input_mask", "segment_ids")]  # fmt: skip
    for name in ("main", *settings_of(folder, "main")["variants"]):
        settings = settings_of(folder, name)
        prefix = f"{name}." if f"{name}.edge_type.0.0" in inputs else ""
        state = stored(folder, "state_dict_main")
        if (folder / f"state_dict_only_{name}.safetensors").is_file():
            state |= stored(folder, f"state_dict_only_{name}")
        net = Network(state, mode == "train", settings["n_attention_head"])
        words = Words(*text, settings["lm_config"]["pad_token_id"])
        reference.greaselm(net, making.rows_from(inputs, prefix=prefix), words, settings)
        agrees(net, inputs["labels"], tensors.part(outputs, f"{name}.{mode}."))
