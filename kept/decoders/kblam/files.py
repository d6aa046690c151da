"""A KBLaM on disk, without its host (`kblam.safetensors`, `kblam.json`), and released weights."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.model import KBLaM
from kept.errors import CheckpointError, ConfigError
from kept.model_files import readable, require_finite
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS_FILE, HEADER_FILE = "kblam.safetensors", "kblam.json"
KBLAM = FolderFormat(
    kind="kept-kblam",
    version=1,
    what="a KBLaM",
    remedy="train and save the KBLaM again",
    make="train one: python -m experiments kblam",
    mark=WEIGHTS_FILE,
    error=CheckpointError,
    manifest=HEADER_FILE,
    takes_links=True,
)
HOST_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads")
"""What two hosts must share for a KBLaM of one to fit the other."""
RELEASED = (
    (r"encoder\.key_projector\.", "projector_k."),
    (r"encoder\.value_projector\.", "projector_v."),
    (r"queries\.(\d+)\.", r"model.layers.\1.self_attn.q_proj_new."),
)
"""Our names to those of the released code, in the order in which they are tried."""
UNREAD = re.compile(r"embedding\.weight|.*\.self_attn\.(q_proj_new\.weight|score_shift)")
"""Released tensors that the released code never reads, or not in layers without facts."""


def released_name(our_name: str) -> str:
    """The released code's name of one of our tensors.

    >>> released_name("queries.3.weight")
    'model.layers.3.self_attn.q_proj_new.weight'
    """
    for ours, theirs in RELEASED:
        name, n = re.subn(f"^{ours}", theirs, our_name)
        if n:
            return name
    raise CheckpointError(
        f"{our_name} is not a tensor of a KBLaM; give names as own_state has them"
    )


def load_released(model: KBLaM, *states: Mapping[str, Tensor]) -> None:
    """Set the weights of `model` from those of a released language model and encoder.

    Tensors of the host are passed over: open the host with them. Raises `CheckpointError` naming
    what is missing, what is left over, and what is of another shape.
    """
    tensors = {name: value for state in states for name, value in state.items()}
    model_state = model.own_state()
    names = {name: released_name(name) for name in model_state}
    host = model.host.state_dict()
    faults = [f"lacks {theirs}" for theirs in names.values() if theirs not in tensors]
    faults += [
        f"has no place for {name}"
        for name in tensors
        if name not in names.values() and name not in host and not UNREAD.fullmatch(name)
    ]
    faults += [
        f"{theirs} is {tuple(tensors[theirs].shape)}, not {tuple(model_state[name].shape)}"
        for name, theirs in names.items()
        if theirs in tensors and tensors[theirs].shape != model_state[name].shape
    ]
    if faults:
        raise CheckpointError("these are not the weights of this KBLaM: " + "; ".join(faults[:5]))
    model.load_own_state({name: tensors[theirs] for name, theirs in names.items()})


def save_kblam(folder: str | Path, model: KBLaM) -> None:
    """Write what is trained, and how it is made; the host is not written.

    The folder appears whole, in the place of one that is there, and is sealed.
    """
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.own_state().items()}
    about = {
        "host": {name: getattr(model.host.config, name) for name in HOST_SIZES},
        "config": dataclasses.asdict(model.config),
    }
    with whole_folder(folder, **replaced(KBLAM), force=True) as part:
        save_file(tensors, part / WEIGHTS_FILE)
        seal(part, KBLAM, about, [WEIGHTS_FILE])


def load_kblam(folder: str | Path, host: PreTrainedModel) -> KBLaM:
    """The KBLaM of a folder around `host`, in evaluation mode.

    Raises `CheckpointError` for files that are missing, altered, or of a host of other sizes.
    """
    model_folder = Path(folder)
    sealed = open_sealed(model_folder, KBLAM)
    sealed.require_files([WEIGHTS_FILE])
    header = sealed.values
    sizes = {name: getattr(host.config, name) for name in HOST_SIZES}
    if header.get("host") != sizes:
        raise CheckpointError(
            f"{model_folder} belongs to a host of {header.get('host')}, not of {sizes}"
        )
    try:
        model = KBLaM(host, KBLaMConfig(**header["config"]))
    except (ConfigError, KeyError, TypeError) as error:
        raise CheckpointError(f"{model_folder / HEADER_FILE}: {error}; {KBLAM.remedy}") from error
    with readable(model_folder / WEIGHTS_FILE):
        tensors = load_file(model_folder / WEIGHTS_FILE)
    require_finite(tensors, model_folder / WEIGHTS_FILE)
    try:
        model.load_own_state(tensors)
    except (ConfigError, RuntimeError) as error:
        raise CheckpointError(f"{model_folder / WEIGHTS_FILE}: {error}; {KBLAM.remedy}") from error
    sealed.remember()
    return model.eval()
