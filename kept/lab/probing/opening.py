"""From a folder or a name to a model that can be probed."""

from __future__ import annotations

from pathlib import Path

from kept import hosts
from kept.encoders import ENCODERS
from kept.errors import ConfigError
from kept.lab.probing.decoders import DecoderLM, is_decoder
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.results import Mode
from kept.model_settings import model_type_of
from kg_loaders import KnowledgeGraph


def open_model(
    name: str | Path,
    mode: Mode = "weights",
    kg: KnowledgeGraph | str | Path | None = None,
    *,
    show_asked: bool = False,
) -> ClozeModel | DecoderLM:
    """The masked LM in a folder or of a hub name, the run in a folder, or a decoder, to be probed.

    Mode "graph" needs a graph, and a method that reads one at inference, or a decoder. There, facts
    between the two ends of a question's fact are held out unless `show_asked`. Raises `ConfigError`
    for a mode that the model does not have, `HostError` for a model without a trained head over
    words.
    """
    if show_asked and mode == "weights":
        raise ConfigError("mode weights shows no facts; show_asked belongs to mode graph")
    if is_ours(name):
        from kept.lab.probing.models.enriched import KeptMaskedLM

        return KeptMaskedLM.open(Path(name), mode, kg, show_asked=show_asked)
    if is_decoder(name):
        graph = KnowledgeGraph.open(kg) if isinstance(kg, str | Path) else kg
        if mode == "graph" and graph is None:
            raise ConfigError(
                "mode graph writes facts before the text: give the graph, --kg FOLDER"
            )
        return DecoderLM.open(name, graph if mode == "graph" else None, show_asked=show_asked)
    if mode == "graph":
        raise ConfigError(f"{name} is a plain masked LM, which reads no graph; use mode weights")
    from kept.lab.probing.models.plain import PlainMaskedLM

    return PlainMaskedLM.open(str(hosts.minilm_folder() if str(name) == "minilm" else name))


def is_ours(name: str | Path) -> bool:
    """Whether a folder's configuration is that of an encoder of ours."""
    return model_type_of(name) in ENCODERS
