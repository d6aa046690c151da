"""What every saved model of `kept` shares: it knows the graph whose ids it was made with."""

from __future__ import annotations

from typing import Any, TypeVar

from transformers import PreTrainedModel

from kept.errors import CheckpointError
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError

Model = TypeVar("Model", bound="KnowledgeModel")


class KnowledgeModel(PreTrainedModel):  # type: ignore[misc]
    """Abstract: a Hugging Face model whose config names a graph.

    `config.id_space_hash` is the hash of the vocabularies that the tables' rows follow,
    `config.content_hash` that of the whole graph.
    """

    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    def require_graph(self, graph: KnowledgeGraph) -> None:
        """Raise `GraphMismatchError` unless this model's entity and relation rows are `graph`'s."""
        made_with = self.config.id_space_hash
        if made_with != graph.id_space_hash:
            raise GraphMismatchError(
                f"this {type(self).__name__} was made with the id space "
                f"{made_with or '(none: a temporary entity vocabulary)'}, the graph has "
                f"{graph.id_space_hash}; open the graph it was made with, or train on this one"
            )

    def freeze(self) -> None:
        """Freeze what this model never trains; loading calls it, for it makes new parameters."""

    @classmethod
    def from_pretrained(
        cls: type[Model],
        name_or_path: Any,
        *args: Any,
        graph: KnowledgeGraph | None = None,
        **options: Any,
    ) -> Model:
        """Load a saved model, every weight of it; with `graph`, also check `require_graph`.

        Raises `CheckpointError` naming every missing or unexpected weight. A bare encoder may be
        loaded from a model with heads.
        """
        options["output_loading_info"] = True
        model, info = super().from_pretrained(name_or_path, *args, **options)
        missing = sorted(info["missing_keys"])
        bare = not hasattr(model, cls.base_model_prefix)
        unexpected = [] if bare else sorted(info["unexpected_keys"])
        if missing or unexpected:
            raise CheckpointError(
                f"{name_or_path} does not fit {cls.__name__}: missing {missing}, "
                f"unexpected {unexpected}"
            )
        model.freeze()
        if graph is not None:
            model.require_graph(graph)
        loaded: Model = model
        return loaded
