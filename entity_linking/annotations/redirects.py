"""Redirects: names of pages that stand for another page, resolved in the links of texts.

A Wikipedia title may be a redirect ("USA" to "United States"). A file of redirects has a line
`from<TAB>to` for each; `to` may be a redirect itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, Link, LinkedText
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

Knows = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Resolved:
    """Texts whose links lead to targets of redirects, and how many of `n_links` were resolved."""

    texts: list[LinkedText]
    n_resolved: int
    n_links: int

    def __str__(self) -> str:
        return f"{self.n_resolved:,} of {self.n_links:,} links were redirects and are resolved"


class Redirects:
    """Where each redirect leads to in the end; titles with blanks or underscores are the same.

    Raises `LinkingError` for redirects that lead in a circle.

    >>> Redirects({"U.S.": "USA", "USA": "United States"}).target("U.S.")
    'United States'
    """

    def __init__(self, targets: dict[str, str]) -> None:
        by_title = {_title(name): target for name, target in targets.items()}
        self._chains = {name: _chain(name, by_title) for name in by_title}

    def __len__(self) -> int:
        return len(self._chains)

    @classmethod
    def read(cls, path: str | Path) -> Redirects:
        """Return the redirects of a file, plain or compressed.

        Raises `LinkingError` with file and line for a line without two names, a name that leads to
        two places, or a circle.
        """
        targets: dict[str, str] = {}
        for number, _, line in read_lines(path, DamageReport()):
            parts = line.decode().split("\t")
            if len(parts) != 2 or not all(part.strip() for part in parts):
                raise LinkingError(
                    f"{path}, line {number}: {line.decode()[:60]!r} is not from<TAB>to; "
                    f"write the name, a tab, and the name that it redirects to"
                )
            name, target = (part.strip() for part in parts)
            if targets.setdefault(_title(name), target) != target:
                raise LinkingError(
                    f"{path}, line {number}: {name!r} leads to {target!r} here and to "
                    f"{targets[_title(name)]!r} before; leave one of the lines"
                )
        try:
            return cls(targets)
        except LinkingError as error:
            raise LinkingError(f"{path}: {error}") from error

    def target(self, name: str, knows: Knows | None = None) -> str:
        """Return where `name` leads: the first target that `knows` has, else the last one.

        A name that is not a redirect, or that `knows` has, is its own target.
        """
        chain = self._chains.get(_title(name), ())
        if not chain or (knows is not None and knows(name)):
            return name
        forms = [form for step in chain for form in (step, _title(step), _title(step, "_"))]
        known = (form for form in forms if knows is not None and knows(form))
        return next(known, chain[-1])

    def resolve(self, texts: Iterable[LinkedText], knows: Knows | None = None) -> Resolved:
        """Return the texts with their links and candidates led to the targets."""
        changed, n_resolved, n_links = [], 0, 0
        for text in texts:
            links = [self._resolved(link, knows) for link in text.links]
            n_resolved += sum(
                new.entity != old.entity for new, old in zip(links, text.links, strict=True)
            )
            n_links += len(links)
            changed.append(replace(text, links=tuple(links)))
        return Resolved(changed, n_resolved, n_links)

    def _resolved(self, link: Link, knows: Knows | None) -> Link:
        entity = None if link.entity is None else self.target(link.entity, knows)
        moved = [structs.replace(c, entity=self.target(c.entity, knows)) for c in link.candidates]
        if entity == link.entity and moved == list(link.candidates):
            return link
        return replace(link, entity=entity, candidates=_merged(moved))


def _merged(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Each entity once, at its best place, with the priors of its redirects together."""
    best: dict[str, Candidate] = {}
    for each in candidates:
        known = best.get(each.entity)
        if known is None:
            best[each.entity] = each
        else:
            prior = min(1.0, known.prior + each.prior)
            best[each.entity] = structs.replace(known, prior=prior)
    return tuple(best.values())


def _chain(name: str, targets: dict[str, str]) -> tuple[str, ...]:
    """The targets of a redirect, one after the other."""
    steps: dict[str, str] = {}
    title = name
    while title in targets:
        target = targets[title]
        title = _title(target)
        if title in steps or title == name:
            raise LinkingError(
                f"the redirect {name!r} leads in a circle, over {target!r}; take one of its lines "
                "out"
            )
        steps[title] = target
    return tuple(steps.values())


def _title(name: str, blank: str = " ") -> str:
    return name.replace(" " if blank == "_" else "_", blank)


def read_resolved(
    texts: list[LinkedText], path: Path | None, knows: Knows
) -> tuple[list[LinkedText], str | None]:
    """Return `texts` by the redirects of a file, and what to say about it; unchanged without one.

    Raises as `Redirects.read` does.
    """
    if path is None:
        return texts, None
    resolved = Redirects.read(path).resolve(texts, knows)
    return resolved.texts, f"{path}: {resolved}"
