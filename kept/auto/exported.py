"""A host's layers outside torch: exported once, and computed by OpenVINO or ONNX Runtime.

What is exported takes the vectors of nodes, who sees whom and, where the family reads them in its
layers, positions. So every method profits whose knowledge is in the nodes: none, words, KEPLER,
K-BERT, CoLAKE and others that call `kept.hosts.run`. Files are in kept's cache folder, under the
hash of the weights.

Axis legend: batch, node, width.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import Visibility
from kept.errors import ConfigError, MissingExtraError
from kept.host_families import Family, WholeHost, family_of
from kept.hosts import Runner
from kept.layers.products import using
from kept.prepared import prepared_folder
from kept.telemetry import without_telemetry

PACKAGES = {"openvino": ("openvino",), "onnx": ("onnx", "onnxruntime")}
"""The packages of each backend, and the extra of the same name."""


def open_runner(host: PreTrainedModel, backend: str, *, bf16: bool = False) -> Runner:
    """Return what computes the layers of `host` by `backend`, with torch's number of threads.

    Raises `MissingExtraError` where its packages are not installed, and `ConfigError` for a host
    that cannot be exported.
    """
    gone = [name for name in PACKAGES[backend] if find_spec(name) is None]
    if gone:
        raise MissingExtraError(
            f"backend {backend!r} needs {' and '.join(gone)}: pip install 'kept[{backend}]'"
        )
    if isinstance(family_of(host.config), WholeHost):
        raise ConfigError(
            f"a {host.config.model_type} host is run as a whole, so its layers cannot be exported; "
            "use backend 'torch'"
        )
    if backend == "openvino":
        return _openvino_runner(host, bf16=bf16)
    return _onnx_runner(host)


class _Layers(nn.Module):
    """A host's layers as a function of tensors alone."""

    def __init__(self, host: PreTrainedModel) -> None:
        super().__init__()
        self.host = host

    def forward(
        self, hidden: Tensor, visible: Tensor, positions: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the states after every layer."""
        visibility = Visibility(visible)
        return hosts.run(self.host, hidden, visibility, positions=positions)[1:]


def _reads_positions(host: PreTrainedModel) -> bool:
    return type(family_of(host.config)).stepper is not Family.stepper


def _example(host: PreTrainedModel) -> tuple[Tensor, ...]:
    """Inputs to trace: two texts of five nodes."""
    width = int(host.config.hidden_size)
    visible = torch.ones(2, 5, 5, dtype=torch.bool)
    hidden = torch.zeros(2, 5, width)
    positions = torch.arange(5).expand(2, 5).contiguous()
    return (hidden, visible, positions) if _reads_positions(host) else (hidden, visible)


def _openvino_runner(host: PreTrainedModel, *, bf16: bool) -> Runner:
    with without_telemetry():
        import openvino

    def export(folder: Path) -> None:
        with without_telemetry():
            model = openvino.convert_model(_Layers(host).eval(), example_input=_example(host))
        openvino.save_model(model, folder / "layers.xml", compress_to_fp16=False)

    folder = _exported(host, f"openvino-{openvino.__version__.partition('-')[0]}", export)
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32",
    }
    compiled = openvino.Core().compile_model(folder / "layers.xml", "CPU", settings)

    def run(hidden: Tensor, visible: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
        inputs = [each.numpy() for each in _inputs(host, hidden, visible, positions)]
        result = compiled.create_infer_request().infer(inputs, share_inputs=True)
        return tuple(torch.from_numpy(result[port]) for port in compiled.outputs)

    return run


def _onnx_runner(host: PreTrainedModel) -> Runner:
    import onnxruntime

    names = ["hidden", "visible", "positions"][: len(_example(host))]
    axes = {"hidden": {0: "batch", 1: "node"}, "visible": {0: "batch", 1: "node", 2: "node"},
            "positions": {0: "batch", 1: "node"}}  # fmt: skip
    outputs = [f"layer_{number}" for number in range(int(host.config.num_hidden_layers))]

    def export(folder: Path) -> None:
        torch.onnx.export(
            _Layers(host).eval(), _example(host), str(folder / "layers.onnx"), dynamo=False,
            input_names=names, output_names=outputs, opset_version=17,
            dynamic_axes={name: axes[name] for name in names}
            | dict.fromkeys(outputs, axes["hidden"]),
        )  # fmt: skip

    folder = _exported(host, f"onnx-{torch.__version__.partition('+')[0]}", export)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        folder / "layers.onnx", options, providers=["CPUExecutionProvider"]
    )

    def run(hidden: Tensor, visible: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
        values = _inputs(host, hidden, visible, positions)
        feeds = {name: value.numpy() for name, value in zip(names, values, strict=True)}
        return tuple(map(torch.from_numpy, session.run(None, feeds)))

    return run


def _inputs(
    host: PreTrainedModel, hidden: Tensor, visible: Tensor, positions: Tensor | None
) -> tuple[Tensor, ...]:
    tensors = [hidden.float(), visible]
    if _reads_positions(host):
        assert positions is not None
        tensors.append(positions)
    return tuple(each.contiguous() for each in tensors)


def _exported(host: PreTrainedModel, name: str, export: Callable[[Path], None]) -> Path:
    """Return the folder with the exported layers, written whole by `export` unless it is there.

    Raises `WriteError` for a cache that cannot be written.
    """

    def prepare(folder: Path) -> None:
        with warnings.catch_warnings(), torch.no_grad(), using("torch"):
            warnings.simplefilter("ignore")  # of tracing: sizes taken for constants, which are not
            export(folder)

    try:
        return prepared_folder(f"exported/{name}-{weights_hash(host)}", prepare)
    except (RuntimeError, ValueError, TypeError) as error:
        message = " ".join(str(error).strip().splitlines()[:1])
        raise ConfigError(
            f"a {host.config.model_type} host cannot be exported ({type(error).__name__} "
            f"{message}); use backend 'torch'"
        ) from error


def weights_hash(host: PreTrainedModel) -> str:
    """A hash of the host's configuration, of all its weights, and of the way they are exported."""
    digest = hashlib.sha256(host.config.to_json_string().encode())
    for name, weight in sorted(host.state_dict().items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:24]
