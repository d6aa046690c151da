"""The options of commands that read files of RDF."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_PANEL = "RDF"

Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="IRI",
        rich_help_panel=_PANEL,
        help="Base against which relative IRIs are resolved (default: http://kept.invalid/).",
    ),
]
PredicateKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--names",
        metavar="IRI=KIND",
        rich_help_panel=_PANEL,
        help="RDF: a predicate whose values are texts, and what they are: label, alias, "
        "description or none. May be repeated.",
    ),
]
ContextFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="URL=FILE",
        rich_help_panel=_PANEL,
        help="JSON-LD: address of a remote context and the local file to read in its place. "
        "A FILE alone replaces all other remote contexts.",
    ),
]


def rdf_options(
    base: str | None, names: list[str] | None, contexts: list[str] | None
) -> dict[str, Any]:
    """Return the options of the RDF reader that were given, each checked.

    Raises `SourceError` for a base, a name or a context that cannot be.
    """
    options: dict[str, Any] = {}
    if base is not None:
        from kg_loaders.rdf.bases import require_base

        options["base_iri"] = require_base(base)
    if names:
        from kg_loaders.rdf.names import text_predicates

        text_predicates(names)
        options["names"] = tuple(names)
    if contexts:
        from kg_loaders.rdf.contexts import contexts_of

        options["contexts"] = contexts_of(contexts)
    return options
