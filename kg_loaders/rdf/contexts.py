"""Contexts of JSON-LD that lie elsewhere, from files that the user names: nothing is fetched.

    {"@context": "https://schema.org", ...}     with  {"https://schema.org": "schemaorg.jsonld"}

The context takes the place of its address before the document is parsed. Runs in the process of
`kg_loaders.rdf.document_parser`, within its limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kg_loaders.errors import SourceError

ALL_OTHERS = ""
"""The key of the file that stands for every context without one of its own."""


class ContextError(Exception):
    """A file with a context that cannot be used."""


def contexts_of(named: Mapping[str, str | Path] | Iterable[str]) -> dict[str, Path]:
    """Return the file of each address; `named` is a mapping, or texts `URL=FILE` or `FILE`.

    Raises `SourceError` for a file that is not there.

    >>> contexts_of(())
    {}
    """
    if not isinstance(named, Mapping):
        named = dict(_split(text) for text in named)
    files = {plain_address(key): Path(file).absolute() for key, file in named.items()}
    for address, file in files.items():
        if not file.is_file():
            raise SourceError(
                f"the context {address or 'for all addresses'}: {file} is not a file; save "
                f"what the "
                "address gives there"
            )
    return files


def _split(text: str) -> tuple[str, str]:
    """A file may have an equals sign in its name: an address has a colon before it."""
    address, equals, file = text.partition("=")
    if not equals or Path(text).is_file():
        return ALL_OTHERS, text
    return address, file


def plain_address(address: str) -> str:
    """Return what http and https, with and without a slash at the end, have in common.

    >>> plain_address("https://schema.org/") == plain_address("http://schema.org")
    True
    """
    return address.removeprefix("https:").removeprefix("http:").rstrip("/")


class Contexts:
    """Puts contexts into documents, at most `n_bytes` of them in each."""

    def __init__(self, files: Mapping[str, str | Path], n_bytes: int) -> None:
        self._files, self._left = {key: str(file) for key, file in files.items()}, n_bytes
        self._loaded: dict[str, tuple[Any, int]] = {}

    def put_into(self, document: Any, within: tuple[str, ...] = ()) -> None:
        """Replace the addresses of contexts that have a file, wherever they are in `document`."""
        for holder in _holders(document):
            value = holder["@context"]
            if isinstance(value, list):
                holder["@context"] = [part for each in value for part in self._of(each, within)]
            else:
                parts = self._of(value, within)
                holder["@context"] = parts[0] if len(parts) == 1 else parts

    def _of(self, context: Any, within: tuple[str, ...]) -> list[Any]:
        """The context itself, or those that its address stands for."""
        if isinstance(context, dict) and isinstance(context.get("@import"), str):
            imported = self._of(context["@import"], within)
            if len(imported) == 1 and isinstance(imported[0], dict):
                rest = {name: value for name, value in context.items() if name != "@import"}
                return [{**imported[0], **rest}]
        if not isinstance(context, str):
            return [context]
        file = self._files.get(plain_address(context)) or self._files.get(ALL_OTHERS)
        if file is None or file in within:
            return [context]
        if file not in self._loaded:
            self._loaded[file] = self._load(file, (*within, file))
        loaded, n_bytes = self._loaded[file]
        self._left -= n_bytes
        if self._left < 0:
            raise MemoryError("contexts unfold beyond the budget")
        return loaded if isinstance(loaded, list) else [loaded]

    def _load(self, file: str, within: tuple[str, ...]) -> tuple[Any, int]:
        try:
            data = Path(file).read_bytes()
            document = json.loads(data)
        except (OSError, ValueError, RecursionError) as error:
            raise ContextError(f"the context {file} cannot be read: {error}") from error
        if not isinstance(document, dict) or "@context" not in document:
            raise ContextError(f'the context {file} is not an object with "@context"')
        self.put_into(document, within)
        return document["@context"], len(data)


def addresses(document: Any) -> list[str]:
    """Return the addresses of contexts that a document names, each once, in its order."""
    named: dict[str, None] = {}
    for holder in _holders(document):
        value = holder["@context"]
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str):
                named[part] = None
            elif isinstance(part, dict) and isinstance(part.get("@import"), str):
                named[part["@import"]] = None
    return list(named)


def _holders(document: Any) -> Iterator[dict[str, Any]]:
    """The objects that have a context, outer ones first."""
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if "@context" in value:
                yield value
            pending.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            pending.extend(reversed(value))
