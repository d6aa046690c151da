"""Released adapter files become models; anything odd about them is named and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kept.convert.kadapter import convert
from kept.errors import CheckpointError, ConfigError
from kept.objectives.model import KnowledgeForPreTraining
from tests.kept.convert.releases import GOLDEN, kadapter_host
from tests.kept.tiny_hosts import tiny_host

SHORT = {"factual": "fac.", "linguistic": "lin."}
KNOWN = {"layers": "0,2", "n_heads": 3}


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    return load_file(GOLDEN / "kadapter/state_dict.safetensors")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kadapter_host(tmp_path_factory.mktemp("host"))


def released(state: dict[str, Tensor], name: str, folder: Path, *, with_host: bool = False) -> Path:
    """A file in the layout of the release, in a folder of its own."""
    parts = {SHORT[name]: ""} | ({"host.": "model."} if with_host else {})
    kept = {
        new + k.removeprefix(old): v
        for old, new in parts.items()
        for k, v in state.items()
        if k.startswith(old)
    }
    torch.save(kept, folder / "pytorch_model.bin")
    return folder


@pytest.mark.parametrize("with_host", [False, True])
@pytest.mark.parametrize("name", SHORT)
def test_a_released_file(
    state: dict[str, Tensor], host: str, tmp_path: Path, name: str, with_host: bool
) -> None:
    model = convert(
        released(state, name, tmp_path, with_host=with_host), adapter=name, host=host, **KNOWN
    )
    encoder = model.encoder
    assert encoder.names == [name]
    options = encoder.adapters[name].options
    assert (options.width, options.n_layers, options.intermediate) == (24, 2, 40)
    block = f"adapters.{name}.blocks.1.layers.0.output.dense.weight"
    theirs = state[f"{SHORT[name]}adapter.1.encoder.layer.0.output.dense.weight"]
    assert torch.equal(encoder.state_dict()[block], theirs)
    words = encoder.host.embeddings.word_embeddings.weight
    same = torch.equal(words, state["host.embeddings.word_embeddings.weight"])
    assert same is with_host
    model.save_pretrained(tmp_path / "saved")
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "saved")
    for key, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


def test_faulty_files_and_options(state: dict[str, Tensor], host: str, tmp_path: Path) -> None:
    file = released(state, "factual", tmp_path) / "pytorch_model.bin"
    with pytest.raises(ConfigError, match="use one of"):
        convert(file, adapter="tea", host=host, **KNOWN)
    with pytest.raises(ConfigError, match="has 2 blocks"):
        convert(file, adapter="factual", host=host)
    with pytest.raises(ConfigError, match="write numbers with commas"):
        convert(file, adapter="factual", host=host, layers="0;2")
    linguistic = released(state, "linguistic", tmp_path)
    with pytest.raises(CheckpointError, match="weights that the key table does not know"):
        convert(linguistic, adapter="factual", host=host, **KNOWN)
    kept = torch.load(released(state, "factual", tmp_path) / "pytorch_model.bin")
    for name, message in (
        ("com_dense.bias", r"missing \['objectives.relation_pairs.features.com_dense.bias'\]"),
        ("out_proj.weight", "is not an adapter of K-Adapter"),
    ):
        torch.save({k: v for k, v in kept.items() if k != name}, file)
        with pytest.raises(CheckpointError, match=message):
            convert(file, adapter="factual", host=host, **KNOWN)
    torch.save(kept | {"tea.weight": torch.zeros(1)}, file)
    with pytest.raises(CheckpointError, match=r"tea\.weight"):
        convert(file, adapter="factual", host=host, **KNOWN)
    torch.save([1, 2], file)
    with pytest.raises(CheckpointError, match="does not hold a state dict"):
        convert(file, adapter="factual", host=host, **KNOWN)


def test_a_host_of_other_sizes(state: dict[str, Tensor], tmp_path: Path) -> None:
    tiny_host("roberta").save_pretrained(tmp_path / "small")
    with pytest.raises((CheckpointError, ConfigError)):
        convert(
            released(state, "factual", tmp_path),
            adapter="factual",
            host=str(tmp_path / "small"),
            **KNOWN,
        )
