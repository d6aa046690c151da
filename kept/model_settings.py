"""What a model's folder says of itself, refused by name before anything is built of it.

A folder may come from anyone; a seal shows that nobody altered it since, not that it means well. So
sealed folders and others are looked at alike, before transformers reads them:

- files are regular files, and the shards that an index names lie in the folder;
- sizes are whole numbers that a model can have, and no larger than the weights beside them;
- numbers are numbers: no NaN, no dropout beyond 0 to 1, no text as a length;
- attention is one that transformers itself holds: any other name would be fetched from a hub;
- weights are floating-point numbers, none of which would be cast without a word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kept.errors import CheckpointError
from kept.values import shown_value
from kg_loaders.disk.kinds import odd_kind

CONFIGS = ("config.json", "generation_config.json", "tokenizer_config.json")
FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What transformers may open in a folder."""
INDEXES = "*.index.json"
ATTENTION = ("eager", "sdpa", "flex_attention")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "num_hidden_groups")
WIDTHS = (
    "hidden_size", "embedding_size", "n_embd", "intermediate_size", "n_inner", "dim", "hidden_dim",
)  # fmt: skip
SIZES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(LAYERS, (1, 1000)),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_key_value_heads"), (1, 10_000)
    ),
    **dict.fromkeys((*WIDTHS, "head_dim"), (1, 1_000_000)),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), (1, 10**8)),
    "vocab_size": (1, 10**8),
    "type_vocab_size": (0, 10_000),
    "inner_group_num": (1, 1000),
    "n_layers": (0, 1000),
    "position_buckets": (-1, 10**6),
    "max_relative_positions": (-1, 10**6),
    "conv_kernel_size": (0, 1000),
    "local_attention": (1, 10**6),
    "num_labels": (0, 10**6),
    "chunk_size_feed_forward": (0, 10**6),
    "n_entities": (0, 2**31 - 1),
    "n_relations": (0, 2**31 - 1),
}
"""From the name of a size to the least and the largest that a model can have."""
POSITIVE = ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_epsilon", "rope_theta")
FLOATS = ("F64", "F32", "F16", "BF16")
HEADER_BYTES = 100_000_000
"""The longest header that safetensors itself reads."""
SLACK = 4
"""How many times the numbers in the weights a table may have: packed ones hold several each."""
LARGEST = 2**63 - 1
MOST_BYTES = 1 << 24
"""Of a file of settings: those of the largest models have a million."""

_WEIGHT = re.compile(r"(?<!\.attn)\.(weight|bias)")
_DROPOUT = re.compile(r"dropout|_pdrop$|layerdrop")


def require_sane(folder: Path) -> None:
    """Raise `CheckpointError` naming the first thing in `folder` that no model of anyone needs."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder of a model; give the folder")
    for pattern in FILES:
        for path in sorted(folder.glob(pattern)):
            require_regular(path)
    for path in sorted(folder.glob(INDEXES)):
        _require_shards_here(path)
    weights = _Weights.of(folder)
    for name in CONFIGS:
        path = folder / name
        if path.is_file():
            require_settings(path, _read(path), weights)


def settings_text(path: Path) -> str:
    """Return the text of a file of settings, which may be a stranger's.

    Raises `CheckpointError` for what is no file, and for one that is longer than settings are;
    `OSError` and `UnicodeDecodeError` are as of any file.
    """
    require_regular(path)
    n_bytes = path.stat().st_size
    if n_bytes > MOST_BYTES:
        raise CheckpointError(
            f"{path} has {n_bytes:,} bytes, and settings have {MOST_BYTES:,} at most; fetch or "
            "save the model again"
        )
    return path.read_text(encoding="utf-8")


def model_type_of(folder: str | Path) -> str:
    """What the configuration in a folder says that the model is; "" where it says nothing.

    A file that cannot be read is named by what opens the model.
    """
    path = Path(folder) / "config.json"
    try:
        values = json.loads(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return ""
    return str(values.get("model_type", "")) if isinstance(values, dict) else ""


def require_regular(path: Path) -> None:
    """Raise `CheckpointError` for a pipe, a socket or a device, which may never end."""
    kind = odd_kind(path)
    if kind is not None:
        raise CheckpointError(f"{path} is {kind}, not a file; put the file itself there")


@dataclass(frozen=True)
class _Weights:
    """What the headers of the weights in a folder say: how many tensors and numbers there are."""

    n_tensors: int
    n_numbers: int

    @classmethod
    def of(cls, folder: Path) -> _Weights | None:
        """Those of `model*.safetensors`, or None; CheckpointError for one that is not a float."""
        paths = sorted(folder.glob("model*.safetensors"))
        tensors = [shape for path in paths for shape in _shapes(path)]
        return cls(len(tensors), sum(tensors)) if tensors else None


def require_settings(path: Path, values: Any, weights: _Weights | None = None) -> None:
    """Raise `CheckpointError` for a setting of a model's JSON file that none can have."""
    if not isinstance(values, dict):
        raise CheckpointError(
            f"{path} holds a {type(values).__name__}, not the fields of an object; fetch or save "
            "the model again"
        )
    for fields in _objects(values):
        for name, value in fields.items():
            fault = _fault(name, value, path.name)
            if fault:
                raise CheckpointError(f"{path}: {name} {fault}; fetch or save the model again")
        if weights is not None:
            _require_size_of(path, fields, weights)


def _objects(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The object and all inside it, in lists too."""
    rest: list[Any] = [values]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest += value.values()
        elif isinstance(value, list):
            rest += value


def _fault(name: str, value: Any, file: str) -> str:
    """What is wrong with a field of any object in a configuration, or ""."""
    if name == "model_max_length":
        is_length = _is_number(value) and value >= 1
        return (
            ""
            if value is None or is_length
            else f"is {shown_value(value)}, expected a number from 1"
        )
    if _is_number(value) and (value != value or abs(value) > LARGEST):
        return f"is {shown_value(value)}, which is not a number that a model can have"
    if value is None:
        return ""
    if name in SIZES:
        least, most = SIZES[name]
        is_size = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        is_list = isinstance(value, list)  # one for each layer, which only other families have
        expected = f"is {shown_value(value)}, expected a whole number from {least:,} to {most:,}"
        return "" if is_size or is_list else expected
    if _DROPOUT.search(name) and not isinstance(value, (bool, dict)):
        is_share = _is_number(value) and 0 <= value <= 1
        return "" if is_share else f"is {shown_value(value)}, expected a share from 0 to 1"
    if name in POSITIVE or name == "initializer_range":
        is_positive = _is_number(value) and math.isfinite(value) and value >= 0
        return "" if is_positive else f"is {shown_value(value)}, expected a number from 0"
    if name.strip("_").startswith("attn_implementation"):
        names = list(value.values()) if isinstance(value, dict) else [value]
        if all(each is None or each in ATTENTION or each is True for each in names):
            return ""
        known = ", ".join(ATTENTION)
        return f"is {shown_value(value)}, none of {known}: another's code would be fetched"
    return ""


def _require_size_of(path: Path, fields: Mapping[str, Any], weights: _Weights) -> None:
    """Raise for layers or tables that the weights beside the configuration cannot hold."""
    layers = [(name, fields[name]) for name in LAYERS if isinstance(fields.get(name), int)]
    for name, n in layers:
        if n > weights.n_tensors:
            raise CheckpointError(
                f"{path}: {name} is {n:,}, but the weights hold {weights.n_tensors:,} tensors; "
                "fetch or save the model again"
            )
    widths = {name: fields[name] for name in WIDTHS if isinstance(fields.get(name), int)}
    if not widths:
        return
    width = min(widths.values())
    rows = {name: fields[name] for name in ("vocab_size", *widths) if name in fields}
    for name, n in rows.items():
        if isinstance(n, int) and n * width > SLACK * weights.n_numbers:
            raise CheckpointError(
                f"{path}: {name} is {n:,} at a width of {width:,}, but the weights hold "
                f"{weights.n_numbers:,} numbers; fetch or save the model again"
            )


def _require_shards_here(path: Path) -> None:
    """Raise unless every file that an index of shards names lies beside it."""
    values = _read(path)
    named = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(named, dict):
        raise CheckpointError(f"{path} names no weights; fetch or save the model again")
    for name in dict.fromkeys(map(_shown_name, named.values())):
        if name is None or Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{path} names {name!r} as a file of weights, which is not a safetensors "
                f"file in its "
                "folder; put the file there and name it alone"
            )
        if not (path.parent / name).exists():
            raise CheckpointError(f"{path.parent / name} is missing, which {path.name} names")


def _shapes(path: Path) -> Iterator[int]:
    """How many numbers each tensor of a safetensors file has, by its header.

    A header that cannot be read is left to what reads the file itself. Raises `CheckpointError` for
    a weight that is not a floating-point number.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; put the file of weights itself there")
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length) if length <= HEADER_BYTES else b""
    try:
        tensors = json.loads(header)
        rows = [(name, t["dtype"], math.prod(t["shape"]))
                for name, t in tensors.items() if name != "__metadata__"]  # fmt: skip
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return
    for name, kind, size in rows:
        if kind not in FLOATS and _WEIGHT.search(name):
            raise CheckpointError(
                f"{path} holds {name} as {kind}, expected one of {', '.join(FLOATS)}: save "
                f"the weights as floating-point numbers"
            )
        yield size


def _read(path: Path) -> Any:
    try:
        return json.loads(settings_text(path))
    except (ValueError, RecursionError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); fetch or save the model again"
        ) from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown_name(value: Any) -> str | None:
    return value if isinstance(value, str) else None
