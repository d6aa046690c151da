"""From the options of `kept serve` to a service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entity_linking.names.rules.case import Case
from kept.apps.explorer.opening import case_of
from kept.apps.explorer.readers import method_readers, run_reader
from kept.apps.serve.completing import open_completion
from kept.apps.serve.service import Service
from kept.auto import AutoEncoder
from kept.auto.computing import Backend, Precision
from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.opening import open_model
from kept.linking.linkers import open_graph, open_pipeline, settings_of


def open_service(
    kg: Path,
    *,
    model: str | None = None,
    runs: Sequence[Path] = (),
    probe: str | None = None,
    kgc: Path | None = None,
    index: Path | None = None,
    reranker: Path | None = None,
    tokenizer: str = "minilm",
    case: Case | None = None,
    backend: Backend = "torch",
    precision: Precision = "fp32",
) -> Service:
    """Return the service of a graph's folder and of the models that are given.

    `backend` and `precision` are those of `model` (`AutoEncoder.compute_with`).
    `case` is how case counts in links by names; None: that of `index`, else that of the runs and of
    `model`.

    Raises what opening each of them raises, and `GraphMismatchError` for models of other ids.
    """
    served = [(folder, run_reader(folder, number)) for number, folder in enumerate(runs)]
    encoder = (
        None
        if model is None
        else AutoEncoder.from_pretrained(model, backend=backend, precision=precision)
    )
    if index is None and case is None:
        case = case_of([reader for _, reader in served], encoder)
    settings = settings_of(kg, index=index, reranker=reranker, case=case)
    graph = open_graph(settings)
    readers = {reader.key: reader for reader in method_readers(load_tokenizer(tokenizer))}
    for folder, reader in served:
        if reader.predictor is not None:
            reader.predictor.model.encoder.require_graph(graph)
        readers[folder.name] = reader
    if encoder is not None:
        encoder.encoder.require_graph(graph)
    return Service(
        graph,
        open_pipeline(settings, graph),
        readers,
        encoder=encoder,
        cloze=None if probe is None else open_masked(probe),
        completion=None if kgc is None else open_completion(kg, kgc),
    )


def open_masked(name: str) -> ClozeModel:
    """Return the masked LM or run of that name; raises `ConfigError` for a decoder."""
    model = open_model(name)
    if not isinstance(model, ClozeModel):
        raise ConfigError(f"{name} is a decoder; /probe needs a masked language model or a run")
    return model
