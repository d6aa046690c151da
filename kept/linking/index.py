"""`LinkIndex`: the folder that `kept link index` makes, names and what may stand beside them.

    manifest.json    what is in it; the host of the sentence encoder, if there are vectors
    names/           `entity_linking.names.NameIndex`
    fuzzy/           `entity_linking.fuzzy.FuzzyIndex`, if asked for
    dense/           `entity_linking.dense.index.DenseIndex`, if asked for
    cross/           `kept.linking.matching.cross.CrossScorer`, if one was given

Each part is sealed by its own manifest, which holds the hashes of its graphs. Adding a graph adds
to one part after the other and passes over those that have it, so an addition that died is
repeated, not mended.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from entity_linking.errors import LinkIndexError
from entity_linking.names import NameCandidates, NameIndex
from entity_linking.names.rules.case import Case
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import claim, whole_folder

if TYPE_CHECKING:
    from entity_linking.dense.index import DenseIndex
    from entity_linking.fuzzy.index import FuzzyIndex
    from entity_linking.parts import SentenceEncoder
    from kept.linking.matching.cross import CrossScorer

LINKS = FolderFormat(
    kind="kept link index",
    version=2,
    what="a link index",
    remedy="make the index again: kept link index KG -o INDEX --force",
    make="`kept link index KG -o INDEX` makes one",
    mark="names/manifest.json",
    error=LinkIndexError,
)
RECALLS = (1, 5, 30)

Counts = Iterable[tuple[str, str, int]]
Progress = Callable[[int, int], None]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in `manifest.json`."""

    has_fuzzy: bool = False
    has_cross: bool = False
    host: str | None = None


@dataclass(frozen=True, slots=True)
class LinkIndex:
    """An opened index; parts that were not asked for are None."""

    folder: Path
    manifest: Manifest
    names: NameIndex
    fuzzy: FuzzyIndex | None = None
    dense: DenseIndex | None = None

    @classmethod
    def open(cls, folder: str | Path) -> LinkIndex:
        """Map every part; `LinkIndexError` when one cannot be trusted."""
        index_folder = Path(folder)
        manifest = open_sealed(index_folder, LINKS).about(Manifest)
        dense = None
        if manifest.host is not None:
            from entity_linking.dense.index import DenseIndex

            dense = DenseIndex.open(index_folder / "dense")
        names = NameIndex.open(index_folder / "names")
        fuzzy = None
        if manifest.has_fuzzy:
            from entity_linking.fuzzy.index import FuzzyIndex

            fuzzy = FuzzyIndex.open(index_folder / "fuzzy")
        for part, graphs in (
            ("fuzzy", fuzzy.graph_hashes if fuzzy else ()),
            ("dense", dense.manifest.graphs if dense else ()),
        ):
            if not {*graphs} <= {*names.graph_hashes}:
                raise LinkIndexError(
                    f"{index_folder / part} was made from other graphs than "
                    f"{index_folder / 'names'}; {LINKS.remedy}"
                )
        return cls(index_folder, manifest, names, fuzzy, dense)

    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        folder: str | Path,
        *,
        counts: Counts = (),
        case: Case = "smart",
        languages: Sequence[str] | None = None,
        deprecated: bool = False,
        fuzzy: bool = False,
        host: str | None = None,
        cross: str | Path | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> LinkIndex:
        """Make all parts from `graph`; the folder appears when it is whole.

        `host` names the host of the sentence encoder ("minilm", or a folder), or is a folder of
        `kept link train-encoder`; `cross` is one of `kept link train-encoder --cross`, which is
        copied. `deprecated` also takes terms that their source calls deprecated. Vectors that a
        build left that died are taken over. `force` replaces an index that is there.
        """
        target = Path(folder)
        inputs = [] if graph.folder is None else [graph.folder]
        with whole_folder(target, **replaced(LINKS), force=force, inputs=inputs) as part:
            names = NameIndex.build(
                graph, counts=counts, case=case, languages=languages, deprecated=deprecated
            )
            names.save(part / "names")
            if fuzzy:
                from entity_linking.fuzzy.index import FuzzyIndex

                spelt = FuzzyIndex.of_graph(graph, languages, deprecated=deprecated)
                spelt.save(part / "fuzzy")
            if host is not None:
                _build_dense(graph, host, languages, target, part / "dense", progress)
            if cross is not None:
                from kept.linking.matching.cross import CrossScorer

                CrossScorer.open(cross, graph)  # only what can be read is copied
                shutil.copytree(cross, part / "cross")
            manifest = Manifest(has_fuzzy=fuzzy, has_cross=cross is not None, host=host)
            seal(part, LINKS, msgspec.to_builtins(manifest), ())
        return cls.open(target)

    def add(
        self, graph: KnowledgeGraph, *, counts: Counts = (), progress: Progress | None = None
    ) -> LinkIndex:
        """The index with the entities of another graph too; what is there is not made again.

        What another process has added since this one was opened stays. Raises `InUseError` while
        another process adds to it.
        """
        with claim(self.folder):
            return LinkIndex.open(self.folder)._add(graph, counts, progress)

    def _add(self, graph: KnowledgeGraph, counts: Counts, progress: Progress | None) -> LinkIndex:
        """As `add`, of an index that was opened under its folder's lock."""
        self.names.add(graph, counts=counts).save(self.folder / "names")
        languages = self.names.manifest.languages
        if self.fuzzy is not None and graph.content_hash not in self.fuzzy.graph_hashes:
            from entity_linking.fuzzy.index import names_of

            names = names_of(graph, languages, deprecated=self.names.manifest.deprecated)
            self.fuzzy.add_to(self.folder / "fuzzy", names, graph_hash=graph.content_hash)
        if self.dense is not None and graph.content_hash not in self.dense.manifest.graphs:
            added = self.dense.add(graph, self.encoder(), progress=progress)
            added.save(self.folder / "dense", force=True)
        return LinkIndex.open(self.folder)

    def encoder(self) -> SentenceEncoder:
        """The sentence encoder that made the vectors; loads torch."""
        if self.dense is None or self.manifest.host is None:
            raise LinkIndexError(
                f"{self.folder} has no vectors; make it with `kept link index --dense`"
            )
        encoder = load_encoder(self.manifest.host)
        self.dense.require_encoder(encoder)
        return encoder

    def cross(self, graph: KnowledgeGraph) -> CrossScorer:
        """The cross-encoder over the cards of `graph`; loads torch."""
        from kept.linking.matching.cross import CrossScorer

        if not self.manifest.has_cross:
            raise LinkIndexError(
                f"{self.folder} has no cross-encoder; make it with `kept link index --cross DIR`"
            )
        return CrossScorer.open(self.folder / "cross", graph)

    def require(self, graph: KnowledgeGraph) -> None:
        """Raise `LinkIndexError` unless the index was made from `graph`, or it was added."""
        if graph.content_hash not in self.names.graph_hashes:
            raise LinkIndexError(
                f"{self.folder} was made from other graphs than {graph}; make it again, or add "
                "this one: kept link index KG --add-to INDEX"
            )


def load_encoder(host: str) -> SentenceEncoder:
    """Sentence vectors by mean pooling over a host, or a trained encoder's; loads torch."""
    from kept.linking.matching.encoder import MatchingEncoder, is_matching
    from kept.linking.sentences import HostSentenceEncoder

    if is_matching(Path(host)):
        return MatchingEncoder.open(host)
    return HostSentenceEncoder(host)


def name_recall(
    index: NameIndex, graph: KnowledgeGraph, *, n_names: int = 1000, seed: int = 0
) -> tuple[int, dict[int, float]]:
    """Of names of `graph` drawn by `seed`, the share whose entity is among the first k candidates.

    It says how ambiguous the names are; text that writes them differently is harder.
    """
    texts = graph.entity_texts
    rows = np.flatnonzero(np.isin(np.asarray(texts.kinds), (TextKind.LABEL, TextKind.ALIAS)))
    sample = np.random.default_rng(seed).permutation(rows)[:n_names]
    owners = np.searchsorted(texts.offsets, sample, side="right") - 1
    candidates = NameCandidates(index, max_candidates=max(RECALLS))
    hits = dict.fromkeys(RECALLS, 0)
    for row, owner in zip(sample.tolist(), owners.tolist(), strict=True):
        proposed = [c.entity for c in candidates.of_surface(texts.values[row].as_py())]
        for k in RECALLS:
            hits[k] += graph.entities.name(owner) in proposed[:k]
    return len(sample), {k: n / max(len(sample), 1) for k, n in hits.items()}


def bytes_of(folder: Path) -> int:
    """Of all files; they are mapped, so this is also the memory at most."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _build_dense(
    graph: KnowledgeGraph,
    host: str,
    languages: Sequence[str] | None,
    target: Path,
    folder: Path,
    progress: Progress | None,
) -> None:
    from entity_linking.dense.cards import CardOptions
    from entity_linking.dense.index import DenseIndex

    shards = target.with_name(f".{target.name}.vectors")
    cards = CardOptions(languages=None if languages is None else tuple(languages))
    index = DenseIndex.build(
        graph, load_encoder(host), cards=cards, checkpoint=shards, progress=progress
    )
    index.save(folder)
    shutil.rmtree(shards)
