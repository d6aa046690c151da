"""Archives of AllenNLP, read without unpacking anything under their own names."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from kept.convert.tables import read_state
from kept.errors import CheckpointError

WEIGHTS, CONFIG, VOCABULARY = "weights.th", "config.json", "vocabulary/"


def read_archive(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, list[str]]]:
    """Weights, `model` of the configuration, and vocabularies by namespace."""
    try:
        with tarfile.open(path, "r:*") as archive, TemporaryDirectory() as folder:
            texts: dict[str, str] = {}
            weights = Path(folder) / WEIGHTS
            for member in archive:
                name = member.name.removeprefix("./")
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None:
                    continue
                if name == WEIGHTS:
                    with weights.open("wb") as file:
                        shutil.copyfileobj(stream, file)
                elif name == CONFIG or (name.startswith(VOCABULARY) and name.endswith(".txt")):
                    texts[name] = stream.read().decode("utf-8")
            if CONFIG not in texts or not weights.is_file():
                raise CheckpointError(
                    f"{path} lacks {CONFIG} or {WEIGHTS}: not an archive of AllenNLP"
                )
            state = read_state(weights)
            settings = json.loads(texts[CONFIG])["model"]
    except (OSError, tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read as an archive: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{CONFIG} in {path} is not AllenNLP's: {error}") from error
    vocabularies = {
        name.removeprefix(VOCABULARY).removesuffix(".txt"): text.rstrip("\n").split("\n")
        for name, text in texts.items()
        if name.startswith(VOCABULARY)
    }
    return state, settings, vocabularies
