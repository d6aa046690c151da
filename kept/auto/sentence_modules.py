"""How a model of sentence-transformers makes one vector of a text: pooling and normalising.

Such a folder (Reimers and Gurevych 2019, "Sentence-BERT", EMNLP, section 3) names its modules in
`modules.json`. Of them the encoder, a pooling by one of `POOLINGS` and a normalisation are read;
others are named in the log.

Axis legend: token (special ones too), width.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.utils import cached_file

from kept import hosts
from kept.errors import CheckpointError, HostError
from kept.suggestions import is_there

MODULES, LENGTH = "modules.json", "sentence_bert_config.json"
Pooling = Literal["mean", "cls", "max"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
_OLD_NAMES: Mapping[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
"""How versions before 6 name a pooling."""
PREFIX = "sentence_transformers.models."
_log = logging.getLogger("kept")


@dataclass(frozen=True)
class SentenceModules:
    """`pooling` of all tokens, special ones too, and whether the vector has length 1 then.

    `max_words`: the longest text that the model reads, where its folder says so.
    """

    pooling: Pooling
    normalize: bool = False
    max_words: int | None = None

    def vector(self, tokens: Float[Tensor, "token width"]) -> Float[Tensor, " width"]:
        """Return the sentence's vector of the states of its tokens.

        >>> SentenceModules("max").vector(torch.tensor([[1.0, 0.0], [0.0, 2.0]])).tolist()
        [1.0, 2.0]
        """
        if self.pooling == "cls":
            vector = tokens[0]
        else:
            vector = tokens.mean(0) if self.pooling == "mean" else tokens.max(0).values
        return torch.nn.functional.normalize(vector, dim=0) if self.normalize else vector

    def as_json(self) -> dict[str, Any]:
        """The fields, as `encoder.json` holds them."""
        return asdict(self)

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> SentenceModules | None:
        """Return what a saved model's settings hold; None where they hold none.

        Raises `CheckpointError` for what kept did not write.
        """
        values = settings.get("sentences")
        if values is None:
            return None
        try:
            modules = cls(**values)
        except TypeError as error:
            raise CheckpointError(f"sentences: {values!r} is not what kept writes") from error
        if modules.pooling not in POOLINGS or not isinstance(modules.normalize, bool):
            raise CheckpointError(f"sentences: {values!r} is not what kept writes")
        return modules


def read_sentence_modules(name: str | Path, revision: str | None = None) -> SentenceModules | None:
    """Return what `modules.json` of a folder or a hub's model says; None without one.

    Modules that are not read are named in the log, and where the pooling is none of `POOLINGS`,
    None is returned. Raises `HostError` for a file that is not of sentence-transformers.
    """
    modules = _json(name, MODULES, revision)
    if modules is None:
        return None
    try:
        kinds = [(str(each["type"]).rpartition(".")[2], str(each["path"])) for each in modules]
        pooling, unread = None, []
        for kind, path in kinds:
            if kind == "Pooling":
                pooling, refused = _pooling(_json(name, f"{path}/config.json", revision))
                unread += [f"Pooling ({refused})"] if refused else []
            elif kind not in ("Transformer", "Normalize"):
                unread.append(kind)
        length = _json(name, LENGTH, revision)
        max_words = None if length is None else length.get("max_seq_length")
    except (KeyError, TypeError, AttributeError) as error:
        raise HostError(
            f"{name}/{MODULES} names no modules ({type(error).__name__}: {error}); fetch the model "
            "again"
        ) from error
    if unread:
        _log.warning(
            "%s names %s, which are not read: the vectors are not those of "
            "sentence_transformers.SentenceTransformer",
            f"{name}/{MODULES}", ", ".join(unread),
        )  # fmt: skip
    if pooling is None:
        return None
    n_words = max_words if isinstance(max_words, int) and max_words > 2 else None
    return SentenceModules(pooling, ("Normalize" in [kind for kind, _ in kinds]), n_words)


def write_sentence_modules(
    folder: Path, modules: SentenceModules, *, width: int, max_words: int
) -> None:
    """Write the files with which sentence-transformers opens a folder that holds an encoder."""
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    kinds += [("Normalize", "2_Normalize")] if modules.normalize else []
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": PREFIX + kind}
        for i, (kind, path) in enumerate(kinds)
    ]
    pooling: dict[str, Any] = {name: modules.pooling == kind for name, kind in _OLD_NAMES.items()}
    pooling["word_embedding_dimension"] = width
    length = {"max_seq_length": max_words, "do_lower_case": False}
    for _, path in kinds[1:]:
        (folder / path).mkdir()
    for name, values in ((MODULES, rows), ("1_Pooling/config.json", pooling), (LENGTH, length)):
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def longest_text(modules: SentenceModules | None, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the longest text that a model of sentence-transformers reads, where it is stated."""
    if modules is None:
        return None
    stated = [modules.max_words, int(tokenizer.model_max_length)]
    return min(n for n in stated if n is not None)


def _pooling(config: Any) -> tuple[Pooling | None, str]:
    """The pooling of a configuration, and what of it is not read."""
    named = config.get("pooling_mode") if isinstance(config, Mapping) else None
    if named is None:
        modes = [key for key, on in (config or {}).items() if "pooling_mode" in key and on is True]
        names = [_OLD_NAMES.get(mode, mode.removeprefix("pooling_mode_")) for mode in modes]
    else:
        names = [named] if isinstance(named, str) else [str(each) for each in named]
    if len(names) == 1 and names[0] in POOLINGS:
        return names[0], ""
    return None, " and ".join(names) or "without a mode"


def _json(name: str | Path, file: str, revision: str | None) -> Any:
    """The content of a file of a folder or a hub's model; None where it is not there."""
    if str(name) in hosts.PACKAGED:
        return None
    if is_there(name):
        path: Any = Path(name) / file
    else:
        path = cached_file(
            str(name), file, revision=revision, local_files_only=not hosts.has_network(),
            _raise_exceptions_for_gated_repo=False, _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )  # fmt: skip
    if path is None or not Path(path).is_file():
        return None
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise HostError(f"{path} cannot be read ({error}); fetch the model again") from error
