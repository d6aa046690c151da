"""From settings to a linker: the one place where the parts of linking are put together.

The command line, the spaCy component, caches and experiments all ask `open_linker`; without an
index, model or decision and by method `prior` it is `entity_linking.DictionaryLinker`:

    mentions     names of the graph (`NameLinker`) behind its gates, or these and what a tagger
                 finds, each with its probability (`entity_linking.detection`)
    candidates   names in all their forms; where they know nothing, names spelled alike; where
                 these know nothing either, entities whose cards are like the context
    scorer       by method, below
    decision     plain, for a trained model with its NIL (`nil_from`: NIL competes), or fitted

Methods: `prior` is p(entity | surface) alone. `overlap`, `dense` and `coherence` add one scorer to
its logarithm; `mix` is `entity_linking.scorers.mix.default_mix`. `trained` is a re-ranker made by
`kept link train`. Without an index all of it is made in memory from the graph, vectors by MiniLM
and for the method `dense` alone; with one, a part that it does not hold is not made. Only vectors
load torch, and only what a method needs is imported: linking by names alone starts quickly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from entity_linking.cache import fingerprint
from entity_linking.decision import Decision
from entity_linking.dictionary import candidates_of
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.fuzzy.of_graph import SpeltAlike
from entity_linking.mentions import Linker
from entity_linking.names import Gates, NameCandidates, NameIndex, NameLinker
from entity_linking.names.identifiers import by_identifiers
from entity_linking.names.rules.case import CASES, Case
from entity_linking.parts import CandidateSource, Scorer, SentenceEncoder
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.whole_names import UNKNOWN_NAMESAKE, WholeNameScorer
from entity_linking.sources import NotDeprecated
from kept.linking.graphs import read_graph
from kept.linking.index import LinkIndex, load_encoder
from kept.linking.tagging import GLINER, OTHERS, tagger_folder
from kept.suggestions import is_there, not_there
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.disk.seals import sha256_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from entity_linking.dense.index import DenseIndex
    from entity_linking.detection import EndToEnd
    from entity_linking.detection.misspelt import TypoIndex

Method = Literal["prior", "overlap", "dense", "coherence", "mix", "trained"]
METHODS: tuple[Method, ...] = get_args(Method)
HOST = "minilm"
ADDED = ("coherence", "dense", "cross")
"""Scorers that a re-ranker may read beside those of `entity_linking.scorers.mix`."""
EXPENSIVE = ("dense", "cross")
"""Those that a host reads: a re-ranker asks them about mentions that the others leave open."""
NAMED = Gates(named_only=True, whole_names=True, name_runs=True)
"""Which names count with a tagger, which also proposes other spellings."""
CAPITALS = replace(NAMED, where_cased=True)
"""Which names count with `capitals`; by their prior alone, names of unknown things too."""
NAMED_VERSION = 2
"""Of the rules behind `NAMED`; part of the keys of caches, so that links by other rules are not
taken for these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkerSettings:
    """What makes a linker; checked when made, written as JSON, sent to other processes.

    `kg` is the folder of a graph, or a file that `kept kg build` reads, then with the files
    `labels` and `aliases`. `index` is a folder that `kept link index` made, `model` one that
    `kept link train` made, `decision` a file of `entity_linking.calibration.save_decision`.
    `case` None is that of the index, "smart" without one; `languages` belong to the index too.
    `capitals` takes only what is written as a name where it stands (`CAPITALS`), in texts in which
    names have capitals; each text shows by itself whether it is one. By names alone, what is named
    but not in the graph is NIL then. `misspelt` finds names with a slip in a word too; `deprecated`
    links terms that their source calls deprecated or obsolete too, and belongs to the index.
    `tagger` is a folder that `kept link train-tagger` made, or `spacy:NAME`, a pipeline of spaCy
    with named entities, or `gliner:NAME=type,type`; `pronouns` links "he", "it" and "the town" too
    and needs one that knows persons.
    """

    kg: str
    labels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    index: str | None = None
    model: str | None = None
    decision: str | None = None
    method: Method = "prior"
    case: Case | None = None
    min_prior: float = 0.0
    nil_below: float = 0.0
    nil_from: float | None = None
    min_length: int = 2
    languages: tuple[str, ...] | None = None
    deprecated: bool = False
    tagger: str | None = None
    pronouns: bool = False
    misspelt: bool = False
    capitals: bool = False

    @property
    def names_unknown(self) -> bool:
        """Whether names of what the graph does not have are NIL, by `WholeNameScorer`."""
        return self.capitals and self.method == "prior" and self.tagger is None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise LinkingError(f"method is {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.case not in (None, *CASES):
            raise LinkingError(f"case is {self.case!r}; choose one of {', '.join(CASES)}")
        Decision(nil_below=self.nil_below, nil_from=self.nil_from)
        Gates(min_prior=self.min_prior, min_length=self.min_length)
        if (self.method == "trained") != (self.model is not None):
            raise LinkingError("method 'trained' needs a model, and a model this method")
        if self.pronouns and self.tagger is None:
            raise LinkingError(
                "pronouns are linked to persons, which a tagger finds; name one with --tagger"
            )
        if self.decision is not None and (self.nil_below or self.nil_from is not None):
            raise LinkingError(
                "a fitted decision has its own thresholds; give no nil_below and no nil_from"
            )
        if self.nil_from is not None and self.method != "trained" and self.tagger is None:
            raise LinkingError(
                "nil_from is about NIL, which only method 'trained' and taggers give a share; give "
                "one of them, or nil_below"
            )
        if (self.labels or self.aliases) and Path(self.kg).is_dir():
            raise LinkingError(
                f"{self.kg} is a folder and has its names; labels and aliases go with a file, or "
                "into the folder by `kept kg build`"
            )


def settings_of(
    kg: str | Path,
    *,
    index: Path | None = None,
    reranker: Path | None = None,
    case: Case | None = None,
) -> LinkerSettings:
    """Return the settings of a graph linked by names, or by a re-ranker of `kept link train`."""
    return LinkerSettings(
        kg=str(kg),
        case=case,
        index=None if index is None else str(index),
        model=None if reranker is None else str(reranker),
        method="prior" if reranker is None else "trained",
    )


def settings_from(options: Any, *names: str) -> LinkerSettings:
    """Return the settings of the fields, or those of `names`, that the options of a command have.

    None is not given; paths become text.
    """
    values: dict[str, Any] = {}
    for name in names or (field.name for field in fields(LinkerSettings)):
        value = getattr(options, name, None)
        if isinstance(value, list):
            values[name] = tuple(map(str, value))
        elif value is not None:
            values[name] = str(value) if isinstance(value, Path) else value
    return LinkerSettings(**values)


def open_graph(settings: LinkerSettings) -> KnowledgeGraph:
    """The graph of the settings, see `kept.linking.graphs.read_graph`."""
    return read_graph(
        settings.kg, labels=settings.labels, aliases=settings.aliases, languages=settings.languages
    )


def open_linker(
    settings: LinkerSettings, graph: KnowledgeGraph | None = None
) -> Pipeline | EndToEnd:
    """The linker of the settings; `graph` saves opening it again."""
    graph = open_graph(settings) if graph is None else graph
    pipeline = open_pipeline(settings, graph)
    return pipeline if settings.tagger is None else _end_to_end(settings, pipeline, graph)


def open_pipeline(settings: LinkerSettings, graph: KnowledgeGraph | None = None) -> Pipeline:
    """The linker of the settings without its tagger: names alone find the mentions."""
    graph = open_graph(settings) if graph is None else graph
    parts = _Parts(settings, graph)
    gates = Gates(min_prior=settings.min_prior, min_length=settings.min_length)
    if settings.tagger is not None or settings.capitals:
        named = NAMED if settings.tagger is not None else CAPITALS
        gates = replace(
            named, min_prior=settings.min_prior, min_length=settings.min_length,
            unknown_runs=settings.names_unknown,
        )  # fmt: skip
    scorer, decision = _decided_by(settings, graph, parts.scorer())
    mentions: Linker = NameLinker(parts.names, gates)
    if settings.misspelt:
        from entity_linking.detection.misspelt import WithMisspelt

        mentions = WithMisspelt(NameLinker(parts.names, gates), parts.typos)
    likeness = parts.typos.likeness if settings.misspelt else None
    return Pipeline(mentions, parts.source(), scorer, decision, likeness=likeness)


def open_for_training(
    settings: LinkerSettings,
    graph: KnowledgeGraph,
    added: Sequence[str] = (),
    *,
    by_name_only: NDArray[np.bool_] | None = None,
) -> tuple[Pipeline, dict[str, Scorer]]:
    """The linker whose candidates a re-ranker learns to order, and the scorers that it reads.

    `added` are of `ADDED`: "coherence" walks the graph, "dense" compares cards with the context,
    whose nearest cards are candidates too, "cross" reads both together. Scorers know the entities
    `by_name_only` `[entity]` by name alone (`kept.linking.bare`). Raises `LinkingError` for other
    names, and for `by_name_only` with "dense", whose cards are made.
    """
    from entity_linking.scorers.mix import default_scorers

    unknown = sorted({*added} - {*ADDED})
    if unknown:
        raise LinkingError(
            f"no scorer to add is called {unknown[0]!r}; add one of {', '.join(ADDED)}"
        )
    parts = _Parts(settings, graph, reads=tuple(added))
    read = graph
    if by_name_only is not None:
        from kept.linking.bare import names_only

        if "dense" in added:
            raise LinkingError(
                "the cards of an index are made, so that dense knows every entity as the graph "
                "does; leave --bare or dense away"
            )
        read = names_only(graph, by_name_only)
    scorers = default_scorers(read) | {name: parts.named_scorer(name, read) for name in added}
    gates = Gates(min_prior=settings.min_prior, min_length=settings.min_length)
    return Pipeline(NameLinker(parts.names, gates), parts.source(), PriorScorer()), scorers


def _end_to_end(settings: LinkerSettings, pipeline: Pipeline, graph: KnowledgeGraph) -> EndToEnd:
    """The linker whose mentions a tagger finds too."""
    from entity_linking.detection import EndToEnd, NamesAndTagger
    from entity_linking.detection.pronouns import PERSONS
    from kept.linking.tagging import open_tagger

    assert settings.tagger is not None
    tagger = open_tagger(settings.tagger, graph)
    if settings.pronouns and not PERSONS.intersection(tagger.kinds):
        raise LinkingError(
            f"{settings.tagger} finds {', '.join(tagger.kinds)}, no persons "
            f"({', '.join(sorted(PERSONS))}), so that no pronoun can be linked; leave pronouns away"
        )
    both = NamesAndTagger(pipeline.mentions, tagger)
    return EndToEnd(both, pipeline, pronouns=settings.pronouns)


def linker_key(settings: LinkerSettings, graph: KnowledgeGraph) -> str:
    """Names the linker for a cache: what its folders hold counts, not where they lie."""
    values = asdict(settings)
    for name in ("kg", "labels", "aliases"):
        del values[name]  # the graph's hash says it all
    if not settings.capitals:
        del values["capitals"]  # keys from before there was this setting
    if settings.capitals or settings.tagger is not None:
        values["named"] = NAMED_VERSION
    for name in ("index", "model", "decision", "tagger"):
        if values[name] is not None and not str(values[name]).startswith(OTHERS):
            values[name] = _hash_of_manifests(Path(tagger_folder(values[name])))
    if settings.tagger is not None and settings.tagger.startswith(GLINER):
        values["tagger"] = _of_gliner(settings.tagger)
    return fingerprint(graph.content_hash, values)


# ---- parts -----------------------------------------------------------------
class _Parts:
    """The parts that an index holds, or that the graph alone makes."""

    def __init__(
        self, settings: LinkerSettings, graph: KnowledgeGraph, *, reads: tuple[str, ...] = ()
    ) -> None:
        """`reads`: scorers of a re-ranker that is not there yet."""
        self._settings, self._graph, self._reads = settings, graph, reads
        self._index: LinkIndex | None = None
        if settings.index is not None:
            self._index = _open_index(settings, settings.index, graph)
            self.names = self._index.names
        else:
            self._graph = by_identifiers(graph)
            case = settings.case or "smart"
            self.names = NameIndex.build(
                self._graph, languages=settings.languages, case=case, deprecated=settings.deprecated
            )

    def source(self) -> CandidateSource:
        """Names, then what is spelled alike, then what is like the context."""
        further: list[CandidateSource] = []
        if self._index is None and not self._settings.names_unknown:
            languages, deprecated = self._settings.languages, self._settings.deprecated
            further.append(SpeltAlike(self._graph, languages, deprecated=deprecated))
        elif self._index is not None and self._index.fuzzy is not None:
            from entity_linking.fuzzy.index import FuzzyCandidates

            further.append(FuzzyCandidates(self._index.fuzzy))
        if self._settings.method == "dense" or "dense" in self._trained_with:
            from entity_linking.dense.context import DenseCandidates

            further.append(DenseCandidates(*self._dense))
        by_name: CandidateSource = NameCandidates(self.names)
        if self._settings.misspelt:
            from entity_linking.detection.misspelt import TypoCandidates

            by_name = TypoCandidates(by_name, self.typos)
        source = candidates_of(by_name, further, self._settings.min_prior)
        if self.names.manifest.deprecated:
            return source
        return NotDeprecated(source, self._graph)

    @cached_property
    def typos(self) -> TypoIndex:
        """What words of text are slips of those of names."""
        from entity_linking.detection.misspelt import TypoIndex  # few need it

        return TypoIndex(self.names)

    def scorer(self) -> Scorer:
        """What the method says."""
        match self._settings.method:
            case "prior":
                return WholeNameScorer() if self._settings.names_unknown else PriorScorer()
            case "mix":
                from entity_linking.scorers.mix import default_mix

                return default_mix(self._graph)
            case "trained":
                from entity_linking.scorers.reranker import Reranker

                assert self._settings.model is not None
                names = self._trained_with
                return Reranker.open(self._settings.model, {n: self.named_scorer(n) for n in names})
            case other:
                from entity_linking.scorers.mix import DEFAULT_WEIGHTS, Mix

                weights = {name: DEFAULT_WEIGHTS.get(name, 1.0) for name in ("prior", other)}
                return Mix({name: (self.named_scorer(name), w) for name, w in weights.items()})

    @cached_property
    def _trained_with(self) -> tuple[str, ...]:
        if self._settings.model is None:
            return self._reads
        from entity_linking.scorers.reranker import Reranker

        return Reranker.scorer_names(self._settings.model)

    def named_scorer(self, name: str, graph: KnowledgeGraph | None = None) -> Scorer:
        """One scorer alone, perhaps over another graph of the same ids."""
        graph = self._graph if graph is None else graph
        if name == "coherence":
            from entity_linking.scorers.coherence import CoherenceScorer

            return CoherenceScorer(graph)
        if name == "dense":
            from entity_linking.dense.context import ContextScorer

            return ContextScorer(*self._dense)
        if name == "cross":
            if self._index is None:
                raise LinkingError(
                    "a cross-encoder is part of an index: make one with kept link index KG "
                    "-o INDEX --cross DIR"
                )
            return self._index.cross(graph)
        from entity_linking.scorers.mix import default_scorers

        scorers = default_scorers(graph)
        if name not in scorers:
            raise LinkIndexError(
                f"{self._settings.model} was trained with the scorer {name!r}, which only its "
                f"maker has; here are {', '.join([*scorers, *ADDED])}"
            )
        return scorers[name]

    @cached_property
    def _dense(self) -> tuple[DenseIndex, SentenceEncoder]:
        from entity_linking.dense.cards import CardOptions
        from entity_linking.dense.context import DenseIndex, RememberingEncoder

        if self._index is not None:
            encoder = self._index.encoder()
            assert self._index.dense is not None
            return self._index.dense, RememberingEncoder(encoder)
        encoder = load_encoder(HOST)
        languages = self._settings.languages
        index = DenseIndex.build(self._graph, encoder, cards=CardOptions(languages=languages))
        return index, RememberingEncoder(encoder)


def _open_index(settings: LinkerSettings, folder: str, graph: KnowledgeGraph) -> LinkIndex:
    index = LinkIndex.open(folder)
    index.require(graph)
    of_index = index.names.manifest.languages
    if settings.case not in (None, index.names.case):
        raise LinkingError(
            f"{folder} was made with case {index.names.case!r}, not {settings.case!r}; leave "
            f"out --case, or make the index again with it"
        )
    if settings.languages not in (None, of_index):
        raise LinkingError(
            f"{folder} was made with languages {of_index}, not {settings.languages}; leave "
            f"out --language, or make the index again with them"
        )
    if settings.deprecated and not index.names.manifest.deprecated:
        raise LinkingError(
            f"{folder} was made without the names of deprecated terms; make it again with "
            f"--deprecated, or leave out --deprecated here"
        )
    return index


def _decided_by(
    settings: LinkerSettings, graph: KnowledgeGraph, scorer: Scorer
) -> tuple[Scorer, Decision]:
    """The scorer and its decision; names + prior where a fitted decision falls back to them."""
    if settings.decision is not None:
        from entity_linking.calibration.fitting import load_decision

        fitted = load_decision(settings.decision, graph)
        scorer_name = fitted.instead_of or fitted.scorer
        if scorer_name != repr(scorer):
            raise LinkIndexError(
                f"{settings.decision} was fitted on scores of {scorer_name}, not of {scorer!r}; "
                "link with the method and model of `kept link calibrate`, or fit it again"
            )
        if bool(fitted.tagger) != (settings.tagger is not None):
            raise LinkIndexError(
                f"{settings.decision} was fitted {'with' if fitted.tagger else 'without'} a "
                "tagger; link as `kept link calibrate` did, or fit it again"
            )
        return PriorScorer() if fitted.instead_of else scorer, fitted.decision
    if settings.names_unknown:
        return scorer, replace(UNKNOWN_NAMESAKE, nil_below=settings.nil_below)
    nil_score = 0.0 if settings.method == "trained" else None  # a re-ranker's NIL stands at 0
    return scorer, Decision(
        nil_score=nil_score, nil_below=settings.nil_below, nil_from=settings.nil_from
    )


def _of_gliner(name: str) -> str:
    """The name of a GLiNER with the hash of its files, where it is a folder."""
    model, _, types = name.removeprefix(GLINER).partition("=")
    files = sorted(each for each in Path(model).glob("*") if each.is_file())
    return fingerprint(types, [(each.name, sha256_of(each)) for each in files] or model)


def _hash_of_manifests(folder: Path) -> str:
    require_file_or_folder(folder)
    if not is_there(folder):
        raise LinkIndexError(not_there(folder))
    if folder.is_dir() and not any(folder.glob("*.json")):  # of ours each has one at its top
        raise LinkIndexError(f"{folder} holds no manifest; `kept link index` and `train` make one")
    manifests = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
    hashed = hashlib.sha256()
    for path in manifests:
        name = str(path.relative_to(folder)) if path != folder else ""
        hashed.update(name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()
