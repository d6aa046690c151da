"""A GPU that is not there: tensors on `cuda` whose numbers a processor computes.

Inside `pretend_gpu()` `device="cuda"` works on a machine without one. Values are real, so a step
may read them. It raises where a real GPU would, for an operation on tensors of two devices, and
counts what makes a real one and the program wait for each other.

A process knows the device from the import of this module on. That import has to come before its
first backward pass, when torch starts a thread for each device.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
NAME, HOST = "gpu", torch.device("cpu")

WAITS = {
    aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten._unique2,
    aten._unique, aten.unique_dim, aten.unique_consecutive, aten.bincount, aten.is_nonzero,
    aten._coalesce, aten.histc,
}  # fmt: skip
"""Operations whose result, or its size, the program has to wait for."""
TAKES_HOST_INDICES = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Operations that take indices in host memory, and copy them."""
COPIES = {aten._to_copy, aten.copy_}


class OnGPU(Tensor):
    """A tensor that says it is on a GPU; `inner` has its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnGPU:
        form: dict[str, Any] = {}
        if inner.layout == torch.strided:
            form = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        whole: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.size(), dtype=inner.dtype, layout=inner.layout,
            device=torch.device(NAME, 0), **form,
        )  # fmt: skip
        whole.inner = inner
        return whole  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"OnGPU({self.inner!r})"

    def tolist(self) -> Any:
        """As of any tensor: the values are copied to the host."""
        return self.to(HOST).tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {}, Waits())


class Waits(TorchDispatchMode):
    """Computes what is on the GPU, and counts by line of kept the operations that wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _compute(func, args, kwargs or {}, self)

    def add(self, what: str) -> None:
        """Count one operation."""
        frames = [f for f in traceback.extract_stack() if "/kept/" in f.filename]
        ours = [f for f in frames if "/tests/" not in f.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        self.lines[f"{where} {what}"] += 1

    @property
    def total(self) -> int:
        """How many operations waited."""
        return self.lines.total()


def _device(value: Any) -> torch.device | None:
    return None if value is None else torch.device(value)


def _compute(func: Any, args: Any, kwargs: Mapping[str, Any], waits: Waits) -> Any:
    flat, form = tree_flatten((args, dict(kwargs)))
    tensors = [value for value in flat if isinstance(value, Tensor)]
    packet, name = func.overloadpacket, func.overloadpacket.__name__
    device = _device(kwargs.get("device"))
    to_gpu = device is not None and device.type == NAME
    is_on_gpu = any(isinstance(tensor, OnGPU) for tensor in tensors)
    if not to_gpu and not is_on_gpu:
        return func(*args, **kwargs)
    _count(packet, name, tensors, args, kwargs, waits)
    if packet not in COPIES:
        _require_one_device(packet, name, tensors)
    inner = [value.inner if isinstance(value, OnGPU) else value for value in flat]
    inner = [HOST if isinstance(v, torch.device) else v for v in inner]
    inner_args, inner_kwargs = tree_unflatten(inner, form)
    result = func(*inner_args, **inner_kwargs)
    if device is not None and device.type != NAME:
        return result
    known = {id(value.inner): value for value in flat if isinstance(value, OnGPU)}
    known |= {id(v): v for v in flat if isinstance(v, Tensor) and not isinstance(v, OnGPU)}

    def outside(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return known[id(value)] if id(value) in known else OnGPU(value)

    results, shape = tree_flatten(result)
    return tree_unflatten([outside(value) for value in results], shape)


def _count(
    packet: Any, name: str, tensors: Sequence[Tensor], args: Any, kwargs: Mapping[str, Any],
    waits: Waits,
) -> None:  # fmt: skip
    if packet in WAITS:
        waits.add(name)
    elif packet is aten._to_copy:
        from_gpu, device = isinstance(args[0], OnGPU), _device(kwargs.get("device"))
        crosses = device is not None and (device.type == NAME) != from_gpu
        if crosses and not kwargs.get("non_blocking"):
            waits.add("to host" if from_gpu else "to gpu")
    elif packet is aten.copy_:
        non_blocking = (args[2] if len(args) > 2 else None) or kwargs.get("non_blocking")
        if isinstance(args[0], OnGPU) != isinstance(args[1], OnGPU) and not non_blocking:
            waits.add("copy_")
    elif packet is aten.repeat_interleave and kwargs.get("output_size") is None:
        waits.add(name)
    elif packet in TAKES_HOST_INDICES:
        for index in args[1]:
            if index is not None and (not isinstance(index, OnGPU) or index.dtype == torch.bool):
                waits.add(f"{name} by {'mask' if index.dtype == torch.bool else 'host indices'}")


def _require_one_device(packet: Any, name: str, tensors: Sequence[Tensor]) -> None:
    if packet in TAKES_HOST_INDICES:
        return
    on_host = [t for t in tensors if not isinstance(t, OnGPU) and t.dim() > 0]
    if on_host:
        raise RuntimeError(
            f"{name}: expected all tensors to be on the same device, but one of "
            f"{tuple(on_host[0].shape)} is on cpu"
        )


@contextmanager
def _new_parameters() -> Iterator[None]:
    """Moved modules get other parameters here: of an old one only the numbers would change."""
    future: Any = torch.__future__
    before = future.get_overwrite_module_params_on_conversion()
    future.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_overwrite_module_params_on_conversion(before)


class _Device:
    """What torch asks of a device that is not its own."""

    def is_available(self) -> bool:
        """Yes."""
        return True

    def is_initialized(self) -> bool:
        """From the start."""
        return True

    def current_device(self) -> int:
        """The only one."""
        return 0

    def device_count(self) -> int:
        """One."""
        return 1

    def get_rng_state(self, _device: Any = None) -> Tensor:
        """Nothing is drawn here: the processor draws."""
        return torch.zeros(1)

    def set_rng_state(self, _state: Tensor, _device: Any = None) -> None:
        """See `get_rng_state`."""

    def manual_seed_all(self, _seed: int) -> None:
        """See `get_rng_state`."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What autocast may compute in."""
        return [torch.bfloat16, torch.float16]


_setup_privateuseone_for_python_backend(NAME, _Device())


@contextmanager
def pretend_gpu() -> Iterator[Waits]:
    """Let tensors be on `gpu` here."""
    with _new_parameters(), patch.object(Tensor, "pin_memory", lambda tensor, *_: tensor):
        waits = Waits()
        before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="gpu") moves it then
        try:
            with waits:
                yield waits
        finally:
            torch._C._set_only_lift_cpu_tensors(before)
