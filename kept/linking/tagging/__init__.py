"""A tagger of names: the first layers of a host, fine-tuned to say where names begin and end."""

from __future__ import annotations

from entity_linking.detection import SpanTagger
from entity_linking.errors import LinkingError
from kept.packaged import READY, ready_weights
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.kinds import require_file_or_folder

SPACY, GLINER = "spacy:", "gliner:"
OTHERS = (SPACY, GLINER)
"""Beginnings of the names of taggers that kept did not train."""


def open_tagger(name: str, graph: KnowledgeGraph | None = None) -> SpanTagger:
    """The tagger of a folder that `kept link train-tagger` made, of `spacy:NAME`, `gliner:NAME`,
    or of `ready:NAME`, weights of the package kept-weights.

    GLiNER looks for the types behind a "=" (`gliner:NAME=city,river`), or for those that most
    entities of `graph` have. Raises `LinkIndexError` for a folder that is damaged or none,
    `SourceError` for a pipe, `MissingExtraError` without spaCy or GLiNER, `LinkingError` for a
    pipeline that is not installed or finds no named entities, and for GLiNER without types.
    """
    if name.startswith(SPACY):
        from kept.linking.tagging.spacy_entities import SpacyTagger

        return SpacyTagger.named(name.removeprefix(SPACY))
    if name.startswith(GLINER):
        from kept.linking.tagging.gliner_entities import GlinerTagger, types_in_words

        model, _, named = name.removeprefix(GLINER).partition("=")
        types = tuple(each.strip() for each in named.split(",") if each.strip())
        if not types and graph is not None:
            types = types_in_words(graph)
        return GlinerTagger.open(model, types)
    from kept.linking.tagging.tagger import Tagger

    folder = tagger_folder(name)
    require_file_or_folder(folder)
    return Tagger.open(folder)


def tagger_folder(name: str) -> str:
    """Return the folder of a tagger that kept trained; `ready:NAME` is in kept-weights.

    Raises `LinkingError` where the package is not installed or has no such weights.
    """
    if not name.startswith(READY):
        return name
    folder = ready_weights(name.removeprefix(READY))
    if folder is None:
        raise LinkingError(
            f"{name}: kept-weights is not installed or has no such weights; build its wheel "
            "(python -m experiments ready_weights), or train a tagger: kept link train-tagger"
        )
    return str(folder)
