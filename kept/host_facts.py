"""Four facts about a host, looked at whenever one is opened: precision, frozen parameters, modules
that peft injected, and the length of its tokenizer against the rows of its word table.

Each of them changes what a run does without an error: half-precision weights round small updates
away, frozen ones do not move at all, injected modules are saved under names that no host has, and
a token without a row fails in the middle of training.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from kept.errors import HostError, MissingExtraError
from kept.model_settings import settings_text

ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MERGE = (
    "merge it into its base and save that: peft.AutoPeftModel.from_pretrained(FOLDER)"
    ".merge_and_unload().save_pretrained(MERGED), and give MERGED"
)
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json")

_log = logging.getLogger("kept")


# ---- precision -----------------------------------------------------------------------------------
def stored_precisions(folder: Path) -> tuple[str, ...]:
    """Return the float types of the weights in a folder, by the number of tensors that have each.

    Empty where the folder holds no safetensors files that can be read.
    """
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("model*.safetensors")):
        try:
            with safe_open(path, framework="pt") as weights:
                counts.update(weights.get_slice(name).get_dtype() for name in weights.offset_keys())
        except (OSError, SafetensorError):
            return ()
    return tuple(FLOATS[name] for name, _ in counts.most_common() if name in FLOATS)


def report_precision(name: str | Path, stored: tuple[str, ...], dtype: torch.dtype) -> None:
    """Log, once per host, that weights are stored or read in another precision than float32."""
    is_plain = all(each == "float32" for each in stored) and dtype == torch.float32
    if not is_plain:
        _log_once(_precision_line(name, stored, dtype))


def _precision_line(name: str | Path, stored: tuple[str, ...], dtype: torch.dtype) -> str:
    loaded = str(dtype).removeprefix("torch.")
    saved = " and ".join(stored) or loaded
    if dtype == torch.float32:
        return f"{name} is stored in {saved}: loaded in float32, in which it can be trained"
    return f"{name} is stored in {saved}: computed in {loaded}, which is for inference alone"


def require_trainable_precision(model: nn.Module) -> None:
    """Raise `HostError` where a parameter that is to be trained is in half precision.

    Updates smaller than a weight's last bit would be lost, and AdamW's epsilon is 0 in float16.
    """
    halves = [
        (name, parameter)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.dtype in (torch.float16, torch.bfloat16)
    ]
    if halves:
        name, parameter = halves[0]
        dtype = str(parameter.dtype).removeprefix("torch.")
        raise HostError(
            f"{len(halves)} parameters to be trained are in half precision ({name} in {dtype}), in "
            "which small updates are lost; load the host in float32 (kept.hosts.load_host does) or "
            "call model.float(), and give precision: bf16 for products in half precision"
        )


# ---- frozen parameters and injected modules ------------------------------------------------------
def require_bare(host: nn.Module, name: str | Path = "the host") -> None:
    """Raise `HostError` for a host with modules of peft, whose weights have other names."""
    injected = [module_name for module_name, module in host.named_modules() if _is_of_peft(module)]
    if injected or _is_of_peft(host):
        module_name = injected[0] if injected else type(host).__name__
        raise HostError(f"{name} has modules that peft injected ({module_name}); {MERGE}")


def report_frozen(host: nn.Module, name: str | Path = "the host") -> None:
    """Log, once per host, how many of its parameters are frozen as it was given."""
    frozen = [not parameter.requires_grad for parameter in host.parameters()]
    if any(frozen):
        _log_once(
            f"{sum(frozen)} of {len(frozen)} parameters of {name} are frozen and will not be "
            "trained; host.requires_grad_(True) makes them trainable"
        )


def report_whole(model_type: str) -> None:
    """Log, once per family, that a host is run as a whole."""
    _log_once(
        f"{model_type} hosts are run as a whole: kept does not know their layers, so only methods "
        "that need none work, such as none, words, kepler and ebert"
    )


def _is_of_peft(module: nn.Module) -> bool:
    return type(module).__module__.partition(".")[0] == "peft"


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter that peft saved, and no model of its own."""
    path = Path(folder)
    return (path / ADAPTER).is_file() and not (path / "config.json").is_file()


def base_of_adapter(folder: Path) -> str:
    """Return the folder or hub name of the model that an adapter was trained on.

    A relative path is looked for from the working directory, then from the adapter's folder.
    Raises `HostError` where the adapter's configuration names none.
    """
    try:
        values = json.loads(settings_text(folder / ADAPTER))
        name = values["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise HostError(f"{folder / ADAPTER} names no base model ({error}); {MERGE}") from error
    if not isinstance(name, str) or not name or "\0" in name:
        raise HostError(f"{folder / ADAPTER} names {name!r} as its base model; {MERGE}")
    candidate = folder / name
    return str(candidate) if not Path(name).is_dir() and candidate.is_dir() else name


def with_adapter(base: Any, folder: Path, base_name: str) -> Any:
    """Return `base` with the adapter in `folder` merged into its weights, by peft.

    Raises `MissingExtraError` without peft, `HostError` for an adapter that is stored as a pickle,
    has weights that find no place in `base`, or does not merge.
    """
    if find_spec("peft") is None:
        raise MissingExtraError(f"{folder} is a peft adapter: pip install 'kept[peft]', or {MERGE}")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise HostError(f"{folder} has no {ADAPTER_WEIGHTS}, and no pickle is read; {MERGE}")
    try:
        merged = _merged(base, folder)
    except HostError:
        raise
    except (ValueError, KeyError, TypeError, RuntimeError, AttributeError, OSError,
            SafetensorError) as error:  # fmt: skip
        reason = str(error).strip().splitlines()[:1]
        raise HostError(f"{folder} does not merge into {base_name}: {reason}; {MERGE}") from error
    require_bare(merged, folder)
    _log_once(f"{folder} is a peft adapter of {base_name}: merged into its weights, all trainable")
    return merged.requires_grad_(True)


def _merged(base: Any, folder: Path) -> Any:
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
    from peft.utils import get_peft_model_state_dict

    config = PeftConfig.from_pretrained(str(folder))
    config.task_type = None  # the head is not the adapter's concern
    wrapped = get_peft_model(base, config)
    expected = set(get_peft_model_state_dict(wrapped, save_embedding_layers=False))
    base_prefix = "" if base.base_model is not base else f"{base.base_model_prefix}."
    prefix = "base_model.model."
    state = {}
    for key, value in load_file(folder / ADAPTER_WEIGHTS).items():
        inner = key.removeprefix(prefix)
        state[prefix + inner.removeprefix(base_prefix)] = value
    children = tuple(f"{prefix}{name}." for name, _ in base.named_children())
    left_over = sorted(key for key in set(state) - expected if key.startswith(children))
    missing = sorted(expected - set(state))
    for names, fault in ((missing, "lacks"), (left_over, "has no place for")):
        if names:
            raise HostError(f"{folder} {fault} {len(names)} weights of it ({names[0]}); {MERGE}")
    set_peft_model_state_dict(wrapped, {key: state[key] for key in expected})
    return wrapped.merge_and_unload(safe_merge=True)


# ---- tokenizer and word table --------------------------------------------------------------------
def require_rows(tokenizer: Any, n_rows: int, name: str | Path = "the host") -> None:
    """Raise `HostError` where a token of `tokenizer` has no row in a word table of `n_rows`."""
    beyond = {id_: token for token, id_ in tokenizer.get_vocab().items() if id_ >= n_rows}
    if beyond:
        first = min(beyond)
        raise HostError(
            f"the tokenizer of {name} has {len(beyond)} tokens without a row in the word table of "
            f"{n_rows} (the first: {beyond[first]!r}, number {first}); add rows: "
            f"model.resize_token_embeddings({max(beyond) + 1}), train them, and save both in one "
            "folder"
        )


def rows_by_config(folder: Path) -> int | None:
    """Return the rows of the word table that `config.json` in a folder speaks of, or None."""
    try:
        values = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    for part in _objects(values):
        n_rows = part.get("vocab_size")
        if isinstance(n_rows, int) and not isinstance(n_rows, bool):
            return n_rows
    return None


def _objects(values: Any) -> Iterator[dict[str, Any]]:
    if isinstance(values, dict):
        yield values
        for key in ("host", "host_config", "text_config"):
            yield from _objects(values.get(key))


@lru_cache(maxsize=1024)
def _log_once(line: str) -> None:
    _log.warning("%s", line)
