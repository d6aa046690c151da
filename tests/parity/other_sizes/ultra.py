"""ULTRA of width 6 with two layers of each network, on fewer triples and smaller batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.parity import test_ultra as parity
from tests.parity.other_sizes import tensors

CONFIG = {"dim": 6, "relation_layers": 2, "entity_layers": 2}
SIZES = {8: 6, 16: 12, 32: 18}
LAYER_SIZES = {6: 4, 12: 8, 18: 12, 72: 48, 78: 52}
N_BATCH = 5
READ_BY_ROW = ("batch_h_t_r", "strict.batch", "random.batch_used_for_training")


class Stored(dict[str, Any]):
    """What a parity test would compare, by its key in the file."""

    def close(self, name: str, actual: Any, expected: Any, **_: Any) -> None:
        self[name] = torch.as_tensor(actual).to(torch.as_tensor(expected).dtype)

    def equal(self, name: str, actual: Any, expected: Any) -> None:
        self[name] = actual


def found_by(test: Callable[..., None], *arguments: Any) -> Stored:
    result = Stored()
    test(*arguments, result)
    return result


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    tensors.write(tensors.read(folder, "config") | CONFIG, folder, "config")
    graph = tensors.read(folder, "graph")
    graph["triples"], graph["test"] = graph["triples"][:-2], graph["test"][1:]
    tensors.write(graph, folder, "graph")
    golden = parity.golden.__wrapped__(folder)
    tensors.write(graph | _graph(golden), folder, "graph")
    golden = parity.golden.__wrapped__(folder)
    state = tensors.weights(tensors.load(folder, "state_dict"), SIZES, n_layers=2)
    tensors.store(state, folder, "state_dict")
    _forward(folder, golden)
    _layers(folder, golden)
    _training(folder, golden)
    _evaluation(folder, golden)


def _graph(golden: parity.Golden) -> dict[str, Any]:
    result = found_by(parity.test_edges, golden)
    return {name: result[name] for name in result if name in golden.graph}


def _forward(folder: Path, golden: parity.Golden) -> None:
    concatenated = tensors.load(folder, "concat_hidden_f64")
    weights_of_model = tensors.weights(tensors.part(concatenated, "param."), SIZES, n_layers=2)
    tensors.store(
        {k: v for k, v in concatenated.items() if not k.startswith("param.")}
        | tensors.with_prefix(weights_of_model, "param."),
        folder, "concat_hidden_f64",
    )  # fmt: skip
    for direction in parity.ENDS:
        for dtype in parity.ATOL:
            name = f"forward_{direction}_f{torch.finfo(dtype).bits}"
            old = tensors.load(folder, name)
            tensors.store(old | {"queries_h_t_r": old["queries_h_t_r"][1:]}, folder, name)
            result = found_by(parity.test_scores, golden, direction, dtype)
            if dtype == torch.float64:
                result |= found_by(parity.test_states_of_every_layer, golden, direction)
            kept = {k: v for k, v in old.items() if k in result}
            assert len(kept) > 3
            output = {k: result[k] for k in kept} | {"queries_h_t_r": old["queries_h_t_r"][1:]}
            tensors.store(output, folder, name)
    for direction in parity.ENDS:
        concatenated = tensors.load(folder, "concat_hidden_f64")
        result = found_by(parity.test_all_layers_read_together, golden, direction)
        tensors.store(concatenated | result, folder, "concat_hidden_f64")


def _layers(folder: Path, golden: parity.Golden) -> None:
    """Width 4 instead of 6, one kind of layer fewer."""
    content = tensors.read(folder, "layers")[1:]
    tensors.write(content, folder, "layers")
    data, draws = tensors.load(folder, "layers_f64"), torch.Generator().manual_seed(5)
    for name in [*data]:
        is_table = name.endswith((".relation.weight", "linear.bias")) and ".grad" not in name
        shape = [LAYER_SIZES.get(n, n) for n in data[name].shape]
        if name in ("edge_index", "edge_type", "edge_weight"):
            continue
        if name == "query" or is_table or "." not in name or ".param." in name:
            data[name] = torch.randn(shape, generator=draws, dtype=torch.float64)
    tensors.store(data, folder, "layers_f64")
    for one in content:
        for direction in one["directions"]:
            data |= found_by(parity.test_layers, golden, (one["name"], direction))
    tensors.store(data, folder, "layers_f64")


def _training(folder: Path, golden: parity.Golden) -> None:
    data = tensors.load(folder, "training_batch")
    n_tails = N_BATCH // 2
    data |= {name: data[name][:N_BATCH] for name in READ_BY_ROW}
    data |= {
        "strict.rand_tail": data["strict.rand_tail"][:n_tails],
        "strict.rand_head": data["strict.rand_head"][: N_BATCH - n_tails],
    }
    batch = data["batch_h_t_r"]
    data["strict.batch"] = batch[:, None].repeat(1, data["strict.batch"].shape[1], 1)
    tensors.store(data, folder, "training_batch")
    result = found_by(parity.test_negatives_and_easy_edges, golden)
    for side, part, slot in (("tail", slice(0, n_tails), 1), ("head", slice(n_tails, None), 0)):
        data["strict.batch"][part, 1:, slot] = torch.tensor(result[f"strict.{side}"])
    tensors.store(data, folder, "training_batch")
    result = found_by(parity.test_negatives_and_easy_edges, golden)
    data |= {name: torch.tensor(value) for name, value in result.items() if name in data}
    tensors.store(data, folder, "training_batch")
    losses, grads = tensors.load(folder, "training_loss"), tensors.load(folder, "grads")
    grads = {k: v for k, v in grads.items() if ".layers.2." not in k}
    tensors.store(grads, folder, "grads")
    for direction in parity.ENDS:
        losses |= found_by(parity.test_losses, golden, direction)
        grads |= found_by(parity.test_gradients, golden, direction)
    tensors.store(losses, folder, "training_loss")
    tensors.store(grads, folder, "grads")
    step = tensors.load(folder, "optimizer_step")
    state = tensors.load(folder, "state_dict")
    step = {"batch": step["batch"][:N_BATCH], "loss": step["loss"]}
    step |= tensors.with_prefix(state, "after.")
    tensors.store(step, folder, "optimizer_step")
    tensors.store(step | found_by(parity.test_an_optimiser_step, golden), folder, "optimizer_step")


def _evaluation(folder: Path, golden: parity.Golden) -> None:
    data = tensors.read(folder, "evaluation")
    data["ties"] = {
        name: value[1:] if isinstance(value, list) else value
        for name, value in data["ties"].items()
    }
    tensors.write(data, folder, "evaluation")
    for direction in parity.ENDS:
        result = found_by(parity.test_ranks, golden, direction)
        for name, value in result.items():
            if name.endswith("candidate_mask"):
                data[name] = value
            elif name in data[direction]["metrics"]:
                data[direction]["metrics"][name] = float(value)
            else:
                data[direction][name] = value
    tensors.write(data, folder, "evaluation")
