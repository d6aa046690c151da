"""Folders of models: sealed where kept wrote them, else checked for their structure.

What kept writes carries `checksums.json` (`kg_loaders.disk.seals`): it lists weights, tokenizer,
configuration and the run's settings; opening verifies it. Folders of others have none: every file
must parse, and no weight be missing, left over or not finite, but altered numbers go unnoticed, as
the log says once per folder.

Weights must be finite. Buffers may hold minus infinity, which masks do, but no NaN.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from kept.errors import CheckpointError, KeptError
from kept.model_settings import require_sane
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.errors import KgError

MODEL = FolderFormat(
    kind="kept model",
    version=2,
    what="a model of kept",
    remedy="fetch, save or train it again; an interrupted run can be completed with --resume",
    make="train one: kept pretrain, kept finetune",
    mark="model.safetensors",
    error=CheckpointError,
    manifest="checksums.json",
    takes_links=True,
)
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "config.json", "adapter_config.json")
"""Files that decide what a model computes: in a sealed folder each must be listed."""
EXTENDED, NEW_ROWS = "extended.json", "new_rows.jsonl"
"""What `kept extend` says of a run that follows a graph which grew (`kept.training.extending`)."""
OTHER_FILES = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "finetune.json", "pretrain.json",
    "encoder.json", EXTENDED, NEW_ROWS, "fit.json", "questions.json", "modules.json",
    "sentence_bert_config.json", "chat_template.jinja", "*.model",
)  # fmt: skip
N_NAMED = 5
OURS = ("kept", "entity_linking", "kg_loaders")
"""Packages of which a missing module is a fault of the installation, not of a model's files."""
ROWS_AT_ONCE = 1 << 13


def seal_model(folder: str | Path) -> None:
    """Write `checksums.json` over the model in `folder`, with what lies beside it now."""
    path = Path(folder)
    seal(path, MODEL, {}, _matches(path, (*WEIGHTS, *OTHER_FILES)))


def verify_model(folder: str | Path) -> None:
    """Raise `CheckpointError` unless the files in `folder` can be those that were written.

    Every listed file is read against its checksum, unless that is remembered. Without a
    `checksums.json` the structure is checked, and the log says that it was only that.
    """
    path = Path(folder)
    require_sane(path)
    if not (path / MODEL.manifest).is_file():
        _check_structure(path)
        _say_unsealed(str(path.absolute()))
        return
    sealed = open_sealed(path, MODEL)
    unlisted = [name for name in _matches(path, WEIGHTS) if name not in sealed.files]
    if unlisted:
        raise CheckpointError(
            f"{path / unlisted[0]} is not listed in {MODEL.manifest}, so it is no part of the "
            "model that was saved here; remove it"
        )
    if not sealed.is_known:
        _check_structure(path)
        sealed.remember()


def require_finite(tensors: nn.Module | Mapping[str, Tensor], location: str | Path) -> None:
    """Raise `CheckpointError` naming the weights of `location` that are NaN or infinite."""
    module = tensors if isinstance(tensors, nn.Module) else None
    masks = {name for name, _ in module.named_buffers()} if module is not None else set()
    named = module.state_dict() if module is not None else tensors
    assert isinstance(named, Mapping)
    faulty = [
        name
        for name, value in named.items()
        if value.is_floating_point() and not _is_number(value, is_mask=name in masks)
    ]
    if faulty:
        more = f" and {len(faulty) - N_NAMED} more" if len(faulty) > N_NAMED else ""
        raise CheckpointError(
            f"{location} holds NaN or infinite weights in {', '.join(faulty[:N_NAMED])}{more}; "
            f"{MODEL.remedy}"
        )


def _is_number(value: Tensor, *, is_mask: bool) -> bool:
    if is_mask:
        value = value.masked_fill(value == -torch.inf, 0)
    parts = (
        torch.split(value, ROWS_AT_ONCE) if value.dim() else (value,)
    )  # a table takes no copy of itself
    return all(bool(torch.isfinite(part).all()) for part in parts)


@contextmanager
def readable(location: str | Path) -> Iterator[None]:
    """Turn errors of libraries on malformed files into a `CheckpointError` with `location`."""
    try:
        yield
    except (KeptError, KgError):
        raise
    except ImportError as error:
        if str(error.name).partition(".")[0] in OURS:
            raise  # a fault of ours, and not of the files
        raise CheckpointError(
            f"{location} cannot be read without another library ({error}); install it, or save "
            "the model without what needs it"
        ) from error
    except (ValueError, OSError, LookupError, TypeError, AttributeError, RuntimeError,
            SafetensorError, StrictDataclassError) as error:  # fmt: skip
        message = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
        raise CheckpointError(f"{location} cannot be read ({message}); {MODEL.remedy}") from error


# ---- structure -----------------------------------------------------------------------------------
def _check_structure(folder: Path) -> None:
    """Every file of the model parses: JSON is an object, weights lie within their file."""
    for name in _matches(folder, ("config.json", "tokenizer_config.json", "tokenizer.json")):
        path = folder / name
        with readable(path):
            values = json.loads(path.read_bytes())
            if not isinstance(values, dict):
                raise ValueError(f"it holds a {type(values).__name__}, not the fields of an object")
            if name == "tokenizer.json" and not isinstance(values.get("model"), dict):
                raise ValueError("it describes no model of word pieces")
    for name in _matches(folder, ("*.safetensors",)):
        try:
            with readable(folder / name), safe_open(folder / name, framework="pt") as weights:
                weights.keys()
        except MemoryError as error:
            n_bytes = (folder / name).stat().st_size
            raise CheckpointError(
                f"{folder / name} has {n_bytes:,} bytes, which do not fit into memory ({error}); "
                f"{MODEL.remedy}"
            ) from error


def _matches(folder: Path, patterns: Iterable[str]) -> list[str]:
    return sorted({path.name for each in patterns for path in folder.glob(each) if path.is_file()})


@lru_cache(maxsize=1024)
def _say_unsealed(folder: str) -> None:
    logging.getLogger("kept").warning(
        "%s has no %s: its files were checked for their structure, their numbers could not be",
        folder,
        MODEL.manifest,
    )


# ---- models of others ----------------------------------------------------------------------------
NEW = ("pooler.",)
"""Parts of a host that may be missing from its weights: they are new, and trained if ever read."""
COMPUTED = ("position_ids", "token_type_ids")
"""Buffers that older releases saved; they hold no weights."""


def require_whole(host: Any, info: Mapping[str, Any], location: str | Path) -> None:
    """Raise `CheckpointError` unless `location` held every weight of `host`, and no further layers.

    `info` is transformers' loading report. Heads that were saved with the host may be left over;
    left-over weights of the host itself mean a configuration of fewer layers.
    """
    missing = sorted(name for name in info["missing_keys"] if not name.startswith(NEW))
    prefix = f"{host.base_model_prefix}."
    children = tuple(f"{name}." for name, _ in host.named_children() if f"{name}." not in NEW)
    unexpected = sorted(
        name
        for name in info["unexpected_keys"]
        if name.removeprefix(prefix).startswith(children) and not name.endswith(COMPUTED)
    )
    for names, fault in ((missing, "lacks"), (unexpected, "has no place for")):
        if names:
            more = f" and {len(names) - N_NAMED} more" if len(names) > N_NAMED else ""
            raise CheckpointError(
                f"{location} {fault} weights of a {type(host).__name__} as its config.json "
                f"describes "
                f"it: {', '.join(names[:N_NAMED])}{more}; fetch or save the host again"
            )


def keep_weights(module: nn.Module) -> None:
    """Keep a model around `module` from initialising it again."""
    for part in module.modules():
        part._is_hf_initialized = True  # type: ignore[assignment]
