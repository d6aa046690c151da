"""The options of commands that read files of RDF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kept.apps.cli.declared import option
from kg_loaders.damage import DamagePolicy


@dataclass(frozen=True, kw_only=True)
class RdfOptions:
    """How files of RDF are read, and what is done at a faulty line of any file."""

    damage: DamagePolicy = option(
        "What to do at a line that is malformed.", default=DamagePolicy.STOP
    )
    base: str | None = option(
        "Base against which relative IRIs are resolved (default: http://kept.invalid/).",
        metavar="IRI", rich_help_panel="RDF",
    )  # fmt: skip
    names: list[str] | None = option(
        "RDF: a predicate whose values are texts, and what they are: label, alias, description or "
        "none. May be repeated.",
        metavar="IRI=KIND", rich_help_panel="RDF",
    )  # fmt: skip
    context: list[str] | None = option(
        "JSON-LD: address of a remote context and the local file to read in its place. A FILE "
        "alone replaces all other remote contexts.",
        metavar="URL=FILE", rich_help_panel="RDF",
    )  # fmt: skip

    def of_rdf(self) -> dict[str, Any]:
        """Return the options of the RDF reader that were given, each checked.

        Raises `SourceError` for a base, a name or a context that cannot be.
        """
        options: dict[str, Any] = {}
        if self.base is not None:
            from kg_loaders.rdf.bases import require_base

            options["base_iri"] = require_base(self.base)
        if self.names:
            from kg_loaders.rdf.names import text_predicates

            text_predicates(self.names)
            options["names"] = tuple(self.names)
        if self.context:
            from kg_loaders.rdf.contexts import contexts_of

            options["contexts"] = contexts_of(self.context)
        return options

    def require_no_quarantine(self, command: str) -> None:
        """Raise `SourceError` for `--damage quarantine`, of a command that has no such file."""
        from kg_loaders.errors import SourceError

        if self.damage is DamagePolicy.QUARANTINE:
            raise SourceError(f"{command} puts no lines aside; use --damage skip, or mend them")
