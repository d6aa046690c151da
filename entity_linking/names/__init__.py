"""Names on disk: the alias table with priors, candidates and mentions from it."""

from entity_linking.names.candidates import NameCandidates
from entity_linking.names.counts import SurfaceCount, count_links
from entity_linking.names.index import NameIndex
from entity_linking.names.linker import Gates, NameLinker, tags_of
from entity_linking.names.priors import PriorFormula

__all__ = [
    "Gates",
    "NameCandidates",
    "NameIndex",
    "NameLinker",
    "PriorFormula",
    "SurfaceCount",
    "count_links",
    "tags_of",
]
