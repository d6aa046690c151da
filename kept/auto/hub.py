"""Models on a hub: fetched by name, pushed as a folder. No file but a model's is taken or sent."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from kept import hosts
from kept.encoders import ENCODERS
from kept.errors import CheckpointError, ConfigError
from kept.host_facts import is_adapter
from kept.model_files import MODEL, OTHER_FILES, WEIGHTS
from kept.model_settings import model_type_of
from kept.suggestions import is_there, require_local

CARD = "README.md"
FILES = (*WEIGHTS, *OTHER_FILES, MODEL.manifest, CARD)
"""What is fetched and sent, by name."""


def model_folder(name: str | Path, revision: str | None = None) -> Path | None:
    """Return the folder of a model of kept, fetched first where `name` is a hub's; None for a host.

    `revision` is the branch, tag or commit of a hub's. Raises `HostError` for a path that is not
    there, `CheckpointError` for a name that cannot be fetched, `ConfigError` for a revision of a
    folder.
    """
    if str(name) in hosts.PACKAGED:
        return None
    if is_there(name):
        if revision is not None:
            raise ConfigError(f"{name} is a folder, which has no revision; leave it out")
        is_host = model_type_of(name) in hosts.FAMILIES or is_adapter(name)
        return None if is_host else Path(name)
    require_local(name)
    try:
        local = not hosts.has_network()
        config = hf_hub_download(
            str(name), "config.json", revision=revision, local_files_only=local
        )
        if model_type_of(Path(config).parent) not in ENCODERS:
            return None
        folder = snapshot_download(
            str(name), revision=revision, local_files_only=local, allow_patterns=list(FILES)
        )
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"{name} cannot be fetched: {type(error).__name__}: {reason}; give a folder, a name "
            "that the hub knows, or, without a network, one fetched before"
        ) from error
    return Path(folder)


def push_folder(
    folder: Path, repo_id: str, *, private: bool, token: str | None, message: str
) -> str:
    """Send the model in `folder` as one commit, and return the commit's address.

    The repository is made where there is none. Raises `ConfigError` without a network.
    """
    if hosts.is_offline():
        raise ConfigError("a push needs the network: leave out --offline and HF_HUB_OFFLINE")
    api = HfApi(token=token, library_name="kept")
    api.create_repo(repo_id, private=private, exist_ok=True)
    commit = api.upload_folder(
        repo_id=repo_id, folder_path=folder, commit_message=message, allow_patterns=list(FILES)
    )
    return str(commit.commit_url)
