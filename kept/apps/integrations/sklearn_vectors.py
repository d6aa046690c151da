"""`KnowledgeVectors`: texts to vectors as a scikit-learn transformer.

Axis legend: text, width.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kept.auto import AutoEncoder
from kept.errors import ConfigError, MissingExtraError
from kg_loaders import KnowledgeGraph

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingExtraError(
        "vectors in pipelines need scikit-learn: pip install 'kept[sklearn]'"
    ) from error


class KnowledgeVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sentence vectors of `AutoEncoder`, for pipelines, `clone`, grids and pickles.

    `model` is what `AutoEncoder.from_pretrained` opens, `kg` the folder of the graph that its
    method reads (None for one that reads none). Nothing is learned from the data: `fit` opens both.
    A pickle holds the two names, not the weights.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.linear_model import LogisticRegression
    >>> pipeline = make_pipeline(KnowledgeVectors(), LogisticRegression())
    >>> texts = ["a good film", "a fine film", "a bad film", "a poor film"]
    >>> pipeline.fit(texts, [1, 1, 0, 0]).predict(["a fine film"]).tolist()
    [1]
    """

    def __init__(
        self, model: str = "minilm", kg: str | None = None, *, batch_size: int = 32
    ) -> None:
        self.model, self.kg, self.batch_size = model, kg, batch_size

    def fit(self, X: Iterable[str], y: object = None) -> Self:
        """Open model and graph; raises what opening them raises, `ConfigError` for no texts."""
        _texts(X)
        self._open()
        self.n_features_out_ = int(self._encoder.encoder.host.config.hidden_size)
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Return the vectors `[text width]`; raises as `AutoEncoder.encode` does."""
        check_is_fitted(self)
        if not hasattr(self, "_encoder"):
            self._open()
        encoded = self._encoder.encode(_texts(X), kg=self._graph, batch_size=self.batch_size)
        vectors: NDArray[np.float32] = encoded.sentences.numpy()
        return vectors

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return a name per dimension: `kept0`, `kept1` and so on."""
        check_is_fitted(self)
        return np.array([f"kept{i}" for i in range(self.n_features_out_)], dtype=object)

    def _open(self) -> None:
        encoder = AutoEncoder.from_pretrained(self.model)
        graph = None if self.kg is None else KnowledgeGraph.open(self.kg)
        if graph is not None:
            encoder.encoder.require_graph(graph)
        self._encoder, self._graph = encoder, graph

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_encoder", "_graph")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_out_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.input_tags.one_d_array = True
        tags.requires_fit = True
        return tags


def _texts(X: Iterable[str]) -> list[str]:
    if isinstance(X, str):
        raise ConfigError(f"{X[:40]!r} is one text; give a list of texts")
    texts = list(np.asarray(X, dtype=object).ravel() if isinstance(X, np.ndarray) else X)
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise ConfigError(f"{wrong!r} is not text; give a list of strings, one per sample")
    if not texts:
        raise ConfigError("there is no text; give one or more")
    return [str(text) for text in texts]
