"""A tagger of names: the first layers of a host, fine-tuned to say where names begin and end."""

from __future__ import annotations

from entity_linking.detection import SpanTagger
from kg_loaders.disk.kinds import require_file_or_folder

SPACY = "spacy:"


def open_tagger(name: str) -> SpanTagger:
    """The tagger of a folder that `kept link train-tagger` made, or of `spacy:NAME`.

    Raises `LinkIndexError` for a folder that is damaged or none, `SourceError` for a pipe,
    `MissingExtraError` without spaCy, `LinkingError` for a pipeline that is not installed or
    finds no named entities.
    """
    if name.startswith(SPACY):
        from kept.linking.tagging.spacy_entities import SpacyTagger

        return SpacyTagger.named(name.removeprefix(SPACY))
    from kept.linking.tagging.tagger import Tagger

    require_file_or_folder(name)
    return Tagger.open(name)
