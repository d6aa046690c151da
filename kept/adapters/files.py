"""One adapter on disk: `adapter.safetensors` and `adapter.json`, loadable beside any like host."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from kept.adapters.adapter import Adapter, AdapterOptions
from kept.errors import CheckpointError, ConfigError
from kg_loaders.errors import GraphMismatchError
from kg_loaders.writing import whole_folder, write_json

FORMAT, VERSION = "kept-adapter", 1
WEIGHTS_FILE, HEADER_FILE = "adapter.safetensors", "adapter.json"
RUN_FOLDER = "adapters"
"""Beside a run's model: one folder for each adapter that it trained."""
HOST_SIZES = ("hidden_size", "num_hidden_layers")
"""What two hosts must share for an adapter of one to fit beside the other."""


@dataclass(frozen=True)
class SavedAdapter:
    """An adapter read from `folder`."""

    folder: Path
    name: str
    options: AdapterOptions
    weights: dict[str, Tensor]

    def require_graph(self, content_hash: str) -> None:
        """Raise `GraphMismatchError` if it was trained on a graph, and on another one."""
        if self.options.graph_hash not in ("", content_hash):
            raise GraphMismatchError(
                f"adapter {self.name!r} in {self.folder} was trained on the graph "
                f"{self.options.graph_hash}, not on {content_hash or '(none)'}; give the graph it "
                "was trained on, or any_graph=True"
            )


def write_adapter(folder: str | Path, name: str, adapter: Adapter, host: Any) -> None:
    """Write `adapter`, trained beside a host with the configuration `host`.

    The folder appears whole, in the place of an adapter that is there. The header holds the
    checksum of the weights.
    """
    tensors = {k: v.detach().cpu().contiguous() for k, v in adapter.state_dict().items()}
    with whole_folder(folder, kind="adapter", is_kind=_is_adapter, force=True) as part:
        save_file(tensors, part / WEIGHTS_FILE)
        values = {
            "format": FORMAT,
            "version": VERSION,
            "name": name,
            "host": {"model_type": host.model_type} | {k: getattr(host, k) for k in HOST_SIZES},
            "options": dataclasses.asdict(adapter.options),
            "sha256": _sha256(part / WEIGHTS_FILE),
        }
        write_json(part / HEADER_FILE, values, indent=2)


def _is_adapter(folder: Path) -> bool:
    return (folder / HEADER_FILE).is_file()


def find_adapter(path: str | Path) -> Path:
    """The folder at `path` if it holds an adapter, or that of the only one a run there trained.

    Raises `CheckpointError` when there is none, or several.
    """
    place = Path(path)
    if (place / HEADER_FILE).is_file():
        return place
    found = sorted(header.parent for header in (place / RUN_FOLDER).glob(f"*/{HEADER_FILE}"))
    if len(found) != 1:
        raise CheckpointError(
            f"{place} holds no {HEADER_FILE}, and "
            + (f"{len(found)} adapters in {RUN_FOLDER}/" if found else f"no {RUN_FOLDER}/ of a run")
            + "; name the folder of one adapter"
        )
    return found[0]


def read_adapter(folder: str | Path, host: Any) -> SavedAdapter:
    """Read an adapter for a host with the configuration `host`.

    Raises `CheckpointError` when files are missing, altered or of another host's sizes.
    """
    place = Path(folder)
    header = _header(place / HEADER_FILE)
    weights = place / WEIGHTS_FILE
    try:
        found = _sha256(weights)
        tensors = load_file(weights)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{weights} cannot be read: {error}") from error
    if found != header["sha256"]:
        raise CheckpointError(
            f"{weights} has SHA-256 {found}, its header says {header['sha256']}: it was altered; "
            "save the adapter again"
        )
    for name in HOST_SIZES:
        wanted, own = header["host"][name], getattr(host, name)
        if wanted != own:
            raise CheckpointError(
                f"adapter {header['name']!r} in {place} belongs beside a host with {name} "
                f"{wanted}, this one has {own}"
            )
    return SavedAdapter(place, header["name"], _options(place, header, host), tensors)


def _header(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise CheckpointError(f"{path} does not describe an adapter (no format {FORMAT!r})")
    if values.get("version") != VERSION:
        raise CheckpointError(
            f"{path} has version {values.get('version')}, this release reads {VERSION}; "
            "update kept or save the adapter again"
        )
    missing = [key for key in ("name", "host", "options", "sha256") if key not in values]
    missing += [f"host.{key}" for key in HOST_SIZES if key not in values.get("host", {})]
    if missing:
        raise CheckpointError(f"{path} lacks {', '.join(missing)}; save the adapter again")
    return values


def _options(place: Path, header: dict[str, Any], host: Any) -> AdapterOptions:
    try:
        return AdapterOptions.read(header["options"], host)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{place / HEADER_FILE}: {error}") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
