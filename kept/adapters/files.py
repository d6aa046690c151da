"""One adapter on disk: `adapter.safetensors` and `adapter.json`, for any host of the same sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from kept.adapters.adapter import Adapter, AdapterOptions
from kept.errors import CheckpointError
from kept.model_files import readable, require_finite
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import whole_folder
from kg_loaders.errors import GraphMismatchError

WEIGHTS_FILE, HEADER_FILE = "adapter.safetensors", "adapter.json"
ADAPTER = FolderFormat(
    kind="kept-adapter",
    version=2,
    what="an adapter",
    remedy="train and save the adapter again",
    make="train one: kept pretrain --method kadapter",
    mark=WEIGHTS_FILE,
    error=CheckpointError,
    manifest=HEADER_FILE,
    takes_links=True,
)
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

    The folder appears whole, in the place of an adapter that is there. The header seals the
    weights and itself (`kg_loaders.disk.seals`).
    """
    tensors = {k: v.cpu().contiguous() for k, v in adapter.state_dict().items()}
    about = {
        "name": name,
        "host": {"model_type": host.model_type} | {k: getattr(host, k) for k in HOST_SIZES},
        "options": dataclasses.asdict(adapter.options),
    }
    with whole_folder(folder, **replaced(ADAPTER), force=True) as part:
        save_file(tensors, part / WEIGHTS_FILE)
        seal(part, ADAPTER, about, [WEIGHTS_FILE])


def find_adapter(path: str | Path) -> Path:
    """The folder at `path` if it holds an adapter, or that of the only one a run there trained.

    Raises `CheckpointError` when there is none, or several.
    """
    source = Path(path)
    if (source / HEADER_FILE).is_file():
        return source
    folders = sorted(header.parent for header in (source / RUN_FOLDER).glob(f"*/{HEADER_FILE}"))
    if len(folders) != 1:
        raise CheckpointError(
            f"{source} holds no {HEADER_FILE}, and "
            + (
                f"{len(folders)} adapters in {RUN_FOLDER}/"
                if folders
                else f"no {RUN_FOLDER}/ of a run"
            )
            + "; name the folder of one adapter"
        )
    return folders[0]


def read_adapter(folder: str | Path, host: Any) -> SavedAdapter:
    """Read an adapter for a host with the configuration `host`.

    Raises `CheckpointError` when files are missing, altered or of another host's sizes.
    """
    adapter_folder = Path(folder)
    sealed = open_sealed(adapter_folder, ADAPTER)
    sealed.require_files([WEIGHTS_FILE])
    header = sealed.values
    missing = [key for key in ("name", "host", "options") if key not in header]
    sizes = header.get("host")
    missing += [f"host.{k}" for k in HOST_SIZES if not isinstance(sizes, dict) or k not in sizes]
    if missing:
        raise CheckpointError(
            f"{adapter_folder / HEADER_FILE} lacks {', '.join(missing)}; {ADAPTER.remedy}"
        )
    with readable(adapter_folder / WEIGHTS_FILE):
        tensors = load_file(adapter_folder / WEIGHTS_FILE)
    require_finite(tensors, adapter_folder / WEIGHTS_FILE)
    sealed.remember()
    for name in HOST_SIZES:
        required, actual = header["host"][name], getattr(host, name)
        if required != actual:
            raise CheckpointError(
                f"adapter {header['name']!r} in {adapter_folder} needs a host with {name} "
                f"{required}, this one has {actual}"
            )
    options = _options(adapter_folder, header, host)
    n_numbers = sum(value.numel() for value in tensors.values())
    if options.width * max(options.width, options.intermediate) > n_numbers:
        raise CheckpointError(
            f"{adapter_folder / HEADER_FILE}: width {options.width:,} and intermediate "
            f"{options.intermediate:,}, but the weights hold {n_numbers:,} numbers; "
            f"{ADAPTER.remedy}"
        )
    return SavedAdapter(adapter_folder, str(header["name"]), options, tensors)


def _options(source: Path, header: Mapping[str, Any], host: Any) -> AdapterOptions:
    try:
        return AdapterOptions.read(header["options"], host)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{source / HEADER_FILE}: {error}; {ADAPTER.remedy}") from error
