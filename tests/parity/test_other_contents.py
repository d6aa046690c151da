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

import pytest
from safetensors.torch import load_file, save_file

from tests.forked import Forked
from tests.parity.other_sizes.tensors import COMMITTED, load, read, write

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
