"""`KnowledgeSentences`: an encoder of kept as the module of a `SentenceTransformer`.

Axis legend: text, node, width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from entity_linking.mentions import LinkedText, Linker
from kept.auto import AutoEncoder
from kept.batches.tensors import batch_of, tensors_of
from kept.errors import ConfigError, MissingExtraError
from kg_loaders import KnowledgeGraph

try:
    from sentence_transformers.models import Module
except ImportError as error:
    raise MissingExtraError(
        "a module of sentence-transformers needs it: pip install 'kept[sentence-transformers]'"
    ) from error

ENCODER, GRAPH = "encoder", "kg"
TOKENS = "is_token"


class KnowledgeSentences(Module):  # type: ignore[misc]
    """The one module of `SentenceTransformer(modules=[...])`: texts in, their vectors out.

    Texts are strings, which `linker` links (by default the names of the graph), or linked texts,
    whose links stay. The vectors are those of `AutoEncoder.encode`. `save` writes encoder and
    graph, and `SentenceTransformer(folder, trust_remote_code=True)` opens both: the library asks
    for that word for every module that is not its own. A `linker` is not saved.
    """

    save_in_root = False

    def __init__(
        self,
        encoder: AutoEncoder,
        kg: KnowledgeGraph | str | Path | None = None,
        *,
        linker: Linker | None = None,
    ) -> None:
        super().__init__()
        opened = kg if kg is None or isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)
        if opened is not None:
            encoder.encoder.require_graph(opened)
        self._opened, self._graph, self._linker = encoder, opened, linker
        self.encoder = encoder.encoder
        self.tokenizer = encoder.tokenizer

    def __repr__(self) -> str:
        return f"KnowledgeSentences({self._opened!r}, {self._graph!r})"

    @property
    def modalities(self) -> list[str]:
        """Texts alone."""
        return ["text"]

    @property
    def max_seq_length(self) -> int:
        """The longest text, in word pieces."""
        return self._opened.builder.max_words

    def get_embedding_dimension(self) -> int:
        """The width of the vectors."""
        return int(self.encoder.host.config.hidden_size)

    get_sentence_embedding_dimension = get_embedding_dimension
    """As releases before 6 call it."""

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Return the texts as the encoder reads them; raises `ConfigError` for other inputs.

        A `prompt` is put before plain texts; linked ones have their characters counted already.
        """
        del options
        texts = [_text(each, prompt or "") for each in inputs]
        batch, is_token = self._opened.batch(texts, self._graph, self._linker)
        # the library calls padding by this name, and looks at no other
        return {**tensors_of(batch), TOKENS: is_token, "attention_mask": batch.node_mask}

    def forward(self, features: Mapping[str, Tensor], **options: Any) -> dict[str, Tensor]:
        """Return `sentence_embedding [text width]` and `token_embeddings [text node width]`."""
        del options
        others = (TOKENS, "attention_mask")
        fields = {name: value for name, value in features.items() if name not in others}
        states = self.encoder(batch_of(fields)).node_states
        modules = self._opened.sentence_modules
        is_read = features[TOKENS] if modules is None else features["node_mask"]
        vectors = [
            row[keep].mean(0) if modules is None else modules.vector(row[keep])
            for row, keep in zip(states, is_read, strict=True)
        ]
        return {**features, "sentence_embedding": torch.stack(vectors), "token_embeddings": states}

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the encoder and the graph below `output_path`."""
        del args, options
        self._opened.save_pretrained(Path(output_path) / ENCODER, force=True)
        if self._graph is not None:
            self._graph.save(Path(output_path) / GRAPH, force=True)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Self:
        """Return what `save` wrote to a folder, or to a hub's repository."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        passed = {name: options[name] for name in names if name in options}
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder=subfolder, **passed))
        graph = folder / GRAPH
        return cls(AutoEncoder.from_pretrained(folder / ENCODER), graph if graph.is_dir() else None)


def _text(value: Any, prompt: str) -> str | LinkedText:
    """One text of the library's inputs, the prompt before it."""
    if isinstance(value, str):
        return prompt + value
    if not isinstance(value, LinkedText):
        raise ConfigError(f"{value!r} is neither a string nor a linked text")
    if prompt:
        raise ConfigError(
            "a prompt would move the links of a linked text; put it into the text before linking"
        )
    return value
