"""`nlp.add_pipe("kept_linker", config={"kg": "kg/"})`: kept's linkers by spaCy's config.

spaCy finds this module by the entry point `spacy_factories`. The parts are put together by
`kept.linking.linkers`, what happens to a Doc is in `kept.linking.spacy_component`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from entity_linking.cache import CachedLinker
from entity_linking.names.rules.case import Case
from entity_linking.parts import Disambiguator
from kept.linking.linkers import LinkerSettings, Method, linker_key, open_graph, open_linker
from kept.linking.spacy_component import Alignment, Annotator, Policy

from spacy.language import Language  # isort: skip - after the module that says how to get it

DEFAULTS: dict[str, Any] = {
    "index": None,
    "model": None,
    "method": "prior",
    "case": None,
    "nil_below": 0.0,
    "use_ents": True,
    "add": False,
    "label": "KEPT",
    "alignment_mode": "expand",
    "cache": None,
    "typed": False,
}


@Language.factory(  # type: ignore[untyped-decorator]
    "kept_linker",
    default_config=DEFAULTS,
    assigns=["doc.ents", "doc.spans", "doc._.kept_lost", "span._.kept_link", "token.ent_kb_id"],
)
def make_kept_linker(
    nlp: Language,
    name: str,
    kg: str,
    index: str | None,
    model: str | None,
    method: Method,
    case: Case | None,
    nil_below: float,
    use_ents: bool,
    add: bool,
    label: str,
    alignment_mode: Alignment,
    cache: str | None,
    typed: bool,
) -> Annotator:
    """A component for the graph at `kg`; `cache` is a folder that keeps what was linked.

    `typed`: entities have the types that the graph gives them (`KnowledgeGraph.type_labels`).
    """
    settings = LinkerSettings(
        kg=kg, index=index, model=model, method=method, case=case, nil_below=nil_below
    )
    graph = open_graph(settings)
    linker: Disambiguator = open_linker(settings, graph)
    if cache is not None:
        linker = CachedLinker(linker, cache, linker_key(settings, graph))
    policy = Policy(
        use_ents=use_ents, add=add, label=label, alignment_mode=alignment_mode, typed=typed
    )

    def type_of(entity: str) -> str | None:
        row = graph.entities.find(entity)
        return None if row is None else next(iter(graph.type_labels(row)), None)

    return Annotator(
        linker,
        policy,
        settings=asdict(settings),
        graph_hash=graph.content_hash,
        name=name,
        type_of=type_of,
    )
