"""Matrix products in float32 on a processor: by torch's own library (MKL), or by oneDNN.

On AMD's processors MKL takes a kernel that runs at half of what oneDNN reaches in the same process;
on Intel's the two are alike. So both are timed once on a machine, and the faster one computes: the
linear layers of every host and method (`use_products`), in training and inference, and the scores
of graph completion.
The environment variable `KEPT_PRODUCTS` decides where it is set: "torch", "onednn", or "auto".

The two round differently: states of MiniLM differ by about 2e-6. Small products, other types and
devices, autocast, compilation and export are always torch's.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kept.cache_folder import cache_folder
from kept.errors import ConfigError
from kg_loaders.disk.writing import write_json
from kg_loaders.errors import KgError

Way = Literal["torch", "onednn"]
SETTING = "KEPT_PRODUCTS"
LEAST_GAIN = 1.25
"""How many times as fast oneDNN must be to be chosen."""
LEAST_WORK = 1 << 20
"""Multiplications of a product below which torch's shorter way to it is faster."""
N_WORDS, WIDTH, N_TIMES = 128, 384, 6
STORED = "products.json"
LARGEST_STORED = 1 << 20


@dataclass(frozen=True)
class ProductChoice:
    """The library that computes products, and how many times as fast oneDNN was; None: untimed."""

    way: Way
    gain: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        name = "oneDNN" if self.way == "onednn" else "torch's own library"
        if self.gain is None:
            return f"{name} ({self.reason})"
        return f"{name} (oneDNN is {self.gain:.1f} times as fast here)"


_choices: list[ProductChoice] = []
"""The choice of this process, on top the one of the innermost `using`; empty before the first."""


def choice() -> ProductChoice:
    """Return what computes products in this process; timed at the first call."""
    if not _choices:
        _choices.append(choose_products())
    return _choices[-1]


@contextmanager
def using(way: Way) -> Iterator[None]:
    """Compute products in `way` meanwhile, in all threads of the process.

    Raises `ConfigError` for "onednn" in a torch that was built without it.
    """
    if way == "onednn" and not has_onednn():
        raise ConfigError("this torch was built without oneDNN; install torch from its own wheels")
    choice()  # so that the one below is that of the process
    _choices.append(ProductChoice(way, reason="as the run says"))
    try:
        yield
    finally:
        _choices.pop()


def has_onednn() -> bool:
    """Return whether torch was built with oneDNN for this processor."""
    is_built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return is_built and platform.machine() in ("x86_64", "AMD64")


def choose_products(*, store: bool = True) -> ProductChoice:
    """Return what `KEPT_PRODUCTS` names, or the faster library on this machine.

    With `store` the times of a machine are kept in kept's cache folder, under its processor and the
    version of torch. Raises `ConfigError` for another value of `KEPT_PRODUCTS`.
    """
    setting = os.environ.get(SETTING) or "auto"
    if setting not in ("auto", "torch", "onednn"):
        raise ConfigError(f"{SETTING} is {setting!r}; use auto, torch or onednn")
    if not has_onednn():
        if setting == "onednn":
            raise ConfigError(f"{SETTING} is onednn, but this torch was built without oneDNN")
        return ProductChoice("torch", reason="this torch has no oneDNN for this processor")
    if setting != "auto":
        return ProductChoice(cast(Way, setting), reason=f"{SETTING}={setting}")
    gains, key = _stored_gains(), _machine_key()
    if key not in gains:
        gains[key] = measured_gain()
        if store:
            _store_gains(gains)
    gain = gains[key]
    return ProductChoice("onednn" if gain >= LEAST_GAIN else "torch", gain)


def _machine_key() -> str:
    """A hash of what the times depend on."""
    facts = [torch.__version__, torch.backends.cpu.get_cpu_capability(), _processor()]
    facts += [f"{name}={os.environ.get(name)}" for name in sorted(os.environ)
              if name.startswith(("MKL_", "DNNL_", "ONEDNN_")) or name == "LD_PRELOAD"]  # fmt: skip
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8", "replace").splitlines() if info.is_file() else []
    named = ("vendor_id", "cpu family", "model", "model name", "flags")
    facts = [line for line in lines if line.partition("\t")[0].strip() in named][: len(named)]
    return "\n".join(facts) or platform.processor()


def _stored_gains() -> dict[str, float]:
    """The gain of each machine in the cache; empty where there is none that can be read."""
    try:
        path = cache_folder() / STORED
        if not path.is_file() or path.stat().st_size > LARGEST_STORED:
            return {}
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}


def _store_gains(gains: dict[str, float]) -> None:
    """Write the file; where that fails, as in a folder that is read-only, the next process times
    them too."""
    try:
        path = cache_folder() / STORED
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, gains, force=True)
    except (OSError, KgError):
        return


def measured_gain() -> float:
    """Return how many times as fast oneDNN computes a layer's product as torch's own library.

    Both take turns, in processor time of one thread; some 25 ms. The thread count and the RNG are
    left as they were.
    """
    draws, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    states = torch.randn(N_WORDS, WIDTH, generator=draws)
    weight, bias = torch.randn(4 * WIDTH, WIDTH, generator=draws), torch.zeros(4 * WIDTH)
    runs: tuple[Callable[[], Tensor], ...] = (
        lambda: F.linear(states, weight, bias),
        lambda: pointwise(states, weight, bias),
    )
    seconds: tuple[list[float], ...] = ([], [])
    try:
        torch.set_num_threads(1)
        with torch.no_grad():
            for _ in range(N_TIMES):
                for run, turns in zip(runs, seconds, strict=True):
                    start = time.thread_time()
                    run()
                    turns.append(time.thread_time() - start)
    finally:
        torch.set_num_threads(threads)
    return min(seconds[0]) / max(min(seconds[1]), 1e-9)


# ---- products ------------------------------------------------------------------------------------
def linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `states @ weight.T + bias`, as `torch.nn.functional.linear` does."""
    if not is_for_onednn(states, weight):
        return F.linear(states, weight, bias)
    tensors = (states, weight) if bias is None else (states, weight, bias)
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        product: Tensor = _Linear.apply(states, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return pointwise(states, weight, bias)


def is_for_onednn(states: Tensor, weight: Tensor) -> bool:
    """Return whether this product is oneDNN's."""
    return (
        torch._C._get_tracing_state() is None  # first, since sizes are tensors then
        and states.numel() * len(weight) >= LEAST_WORK
        and states.dtype == weight.dtype == torch.float32
        and states.device.type == weight.device.type == "cpu"
        and weight.dim() == 2
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and choice().way == "onednn"
    )


def pointwise(
    states: Tensor, weight: Tensor, bias: Tensor | None, then: str = "none", how: str = ""
) -> Tensor:
    """Return oneDNN's product; `then` "gelu" with `how` "none" or "tanh" is applied to it."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(
        states, weight, bias, then, [], how
    )
    return product


class _Linear(torch.autograd.Function):
    """`linear` with both gradients as products of the same library."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return pointwise(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        of_states = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_states = linear(rows, weight.t()).view(states.shape)
        if ctx.needs_input_grad[1]:
            of_weight = linear(rows.t(), states.reshape(-1, states.shape[-1]).t())
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(0)
        return of_states, of_weight, of_bias


# ---- layers --------------------------------------------------------------------------------------
class Linear(nn.Linear):
    """torch's linear layer, whose product is computed by the library that `choice` names.

    In inference its weights are laid out for oneDNN once (`packed`), in addition to the weights.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the product."""
        if self.training:
            _packed.pop(self, None)
            _joined.pop(self, None)
        if self.training or torch.is_grad_enabled() or not is_for_onednn(input, self.weight):
            return linear(input, self.weight, self.bias)
        return pointwise(input, packed(self), self.bias)


_packed: WeakKeyDictionary[nn.Module, tuple[Tensor, int, Tensor]] = WeakKeyDictionary()
"""Of each layer: its weight (kept alive, so that no other is at its address), that weight's number
of changes, and the laid-out copy."""


def packed(layer: nn.Linear) -> Tensor:
    """Return the layer's weight in oneDNN's layout, made anew whenever the weight has changed.

    Changes are those that torch counts: all but writing into `weight.data`.
    """
    weight = layer.weight.detach()
    if weight.is_inference():  # its changes are not counted
        return weight
    stored = _packed.get(layer)
    if (
        stored is None
        or stored[0].data_ptr() != weight.data_ptr()
        or stored[1] != weight._version
        or stored[0].shape != weight.shape
    ):
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        stored = _packed[layer] = weight, weight._version, laid_out
    return stored[2]


_joined: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], list[Tensor], Tensor, Tensor]] = (
    WeakKeyDictionary()
)
"""Of the first of some layers: what their weights and biases were, these, and the joined copies."""


def packed_together(layers: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
    """Return the weights of layers that read the same states as one weight, laid out, and so the
    biases: one product then has the outputs of all side by side, bit by bit those of each alone.

    Made anew whenever one of them has changed, as in `packed`.
    """
    parts: list[list[Any]] = [[each._parameters[name] for each in layers] for name in _PARTS]
    tensors = [*parts[0], *parts[1]]
    if any(each.is_inference() for each in tensors):  # changes are not counted
        weight, bias = (torch.cat(part).detach() for part in parts)
        return weight, bias
    marks = tuple((each.data_ptr(), each._version, each.shape) for each in tensors)
    stored = _joined.get(layers[0])
    if stored is None or stored[0] != marks:
        weight, bias = (torch.cat(part).detach() for part in parts)
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        kept_alive = [each.detach() for each in tensors]
        stored = _joined[layers[0]] = marks, kept_alive, laid_out, bias
    return stored[2], stored[3]


_PARTS = ("weight", "bias")


def use_products(model: nn.Module) -> None:
    """Make the linear layers of `model` compute with `linear`; their weights stay the same."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear
