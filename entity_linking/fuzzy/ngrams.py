"""`NameSegment`: which names share n-grams with a spelling; flat arrays, mapped from disk.

A spelling's form is case-folded, with one space for any white space (`form_of`). Its n-grams are
the substrings of 2, 3 and 4 characters of the form between two spaces, as a set:

    cosine(a, b) = |A ∩ B| / sqrt(|A| |B|)

N-grams are kept as 32-bit hashes. Two of a million differing n-grams share a hash with a
probability of about 1 in 4,000 each, which raises a cosine by one n-gram and nothing else.

Files of a segment (axis legend: name, gram, posting, bearer, entity):

    grams.npy            uint32 [gram], sorted       gram_offsets.npy   int64 [gram+1]
    postings.npy         int32 [posting]: names that hold gram g, ascending, are rows
                         gram_offsets[g]:gram_offsets[g+1]
    sizes.npy            int32 [name]: distinct n-grams of a name
    surfaces.arrow       names as first written; distinct by form, in order of arrival
    bearer_offsets.npy   int64 [name+1] into
    bearers.npy          int32 [bearer], rows of entities.arrow
    weights.npy          int32 [bearer]
    entities.arrow       identifiers, distinct
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.surfaces import normalise
from kg_loaders.vocabulary import strings

SIZES = (2, 3, 4)
FORMS_PER_CHUNK = 65_536
MAX_WEIGHT = 2**31 - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_STEP, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


class Name(NamedTuple):
    """A name of an entity; `weight` says how much it means this one among those who bear it."""

    entity: str
    surface: str
    weight: int = 1


def form_of(surface: str) -> str:
    """What spellings are compared by.

    >>> form_of("  New\\tYORK ")
    'new york'
    """
    return " ".join(normalise(surface, fold=True)[0].split())


@dataclass(frozen=True, eq=False, kw_only=True)
class NameSegment:
    """Names, their bearers and the inverted index of their n-grams; see above for the shapes."""

    grams: NDArray[np.uint32]
    gram_offsets: NDArray[np.int64]
    postings: NDArray[np.int32]
    sizes: NDArray[np.int32]
    surfaces: Any
    bearer_offsets: NDArray[np.int64]
    bearers: NDArray[np.int32]
    weights: NDArray[np.int32]
    entities: Any

    @property
    def n_names(self) -> int:
        return len(self.sizes)

    @property
    def n_entities(self) -> int:
        return len(self.entities)

    def columns(self) -> dict[str, Any]:
        """Every array by its name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def bearers_of(self, name: int) -> Iterator[tuple[str, int]]:
        """`(entity, weight)` of each entity that bears the name."""
        start, stop = int(self.bearer_offsets[name]), int(self.bearer_offsets[name + 1])
        rows = zip(
            self.bearers[start:stop].tolist(), self.weights[start:stop].tolist(), strict=True
        )
        return ((str(self.entities[row].as_py()), weight) for row, weight in rows)

    def nearest(
        self, grams: NDArray[np.uint32], n: int, max_postings: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The `n` names with the highest cosine to the distinct `grams [gram]`, and the cosines.

        Names come from the rarest n-grams whose postings together are at most `max_postings` (the
        rarest is read always). The 4n with the highest cosine on those n-grams are compared on all
        of them. A name may so be missed only if its shared n-grams are mostly frequent ones. Ties
        go to the name that came first.
        """
        lists = self._postings_of(grams)
        if not lists:
            return np.empty(0, np.int32), np.empty(0)
        n_postings = np.cumsum([len(postings) for postings in lists])
        n_read = max(int(np.searchsorted(n_postings, max_postings, side="right")), 1)
        names, counts = _runs(np.concatenate(lists[:n_read]))
        best = _top(counts / np.sqrt(self.sizes[names]), 4 * n)
        names, counts = names[best], counts[best]
        for postings in lists[n_read:]:
            places = np.minimum(np.searchsorted(postings, names), len(postings) - 1)
            counts += postings[places] == names
        cosines = counts / np.sqrt(len(grams) * self.sizes[names].astype(np.float64))
        ranked = np.lexsort((names, -cosines))[:n]
        return names[ranked], cosines[ranked]

    def _postings_of(self, grams: NDArray[np.uint32]) -> list[NDArray[np.int32]]:
        """The names of each n-gram that any name holds, the shortest list first."""
        if not len(self.grams):
            return []
        places = np.minimum(np.searchsorted(self.grams, grams), len(self.grams) - 1)
        places = places[self.grams[places] == grams]
        starts, stops = self.gram_offsets[places], self.gram_offsets[places + 1]
        order = np.argsort(stops - starts, kind="stable")
        pairs = zip(starts[order].tolist(), stops[order].tolist(), strict=True)
        return [self.postings[start:stop] for start, stop in pairs]


# ---- building ------------------------------------------------------------------------------------
def build_segment(names: Sequence[Name]) -> NameSegment:
    """Index `names`; one without characters is left out, of equal ones the highest weight counts.

    Needs about 8 bytes for each n-gram of each name while it sorts. `LinkingError` for a weight
    below 1 and for lone surrogates, which no file could hold.
    """
    forms: dict[str, int] = {}
    entities: dict[str, int] = {}
    surfaces: list[str] = []
    borne = np.zeros((len(names), 3), np.int64)
    n_borne = 0
    for name in names:
        form = form_of(_checked(name).surface)
        if not form:
            continue
        number = forms.setdefault(form, len(forms))
        if number == len(surfaces):
            surfaces.append(name.surface)
        owner = entities.setdefault(name.entity, len(entities))
        borne[n_borne] = number, owner, name.weight
        n_borne += 1
    grams, gram_offsets, postings = _invert(list(forms))
    bearer_offsets, bearers, weights = _heaviest(borne[:n_borne], len(forms))
    return NameSegment(
        grams=grams,
        gram_offsets=gram_offsets,
        postings=postings,
        sizes=np.bincount(postings, minlength=len(forms)).astype(np.int32),
        surfaces=strings(surfaces),
        bearer_offsets=bearer_offsets,
        bearers=bearers,
        weights=weights,
        entities=strings(entities),
    )


def _checked(name: Name) -> Name:
    if not 1 <= name.weight <= MAX_WEIGHT:
        raise LinkingError(f"{name} has weight {name.weight}; give 1 to {MAX_WEIGHT}")
    for text in (name.entity, name.surface):
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise LinkingError(f"{text!r} holds half of a surrogate pair; decode the text again")
    return name


def _invert(
    forms: Sequence[str],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int32]]:
    lengths = np.fromiter(map(len, forms), np.int64, len(forms)) + 2
    n_pairs = sum(int(np.maximum(lengths - size + 1, 0).sum()) for size in SIZES)
    pairs = np.empty(n_pairs, np.uint64)
    end = 0
    for start in range(0, len(forms), FORMS_PER_CHUNK):
        rows, hashes = _hashes(forms[start : start + FORMS_PER_CHUNK])
        chunk = pairs[end : end + len(rows)]
        np.left_shift(hashes.astype(np.uint64), _HALF, out=chunk)
        chunk |= (rows + start).astype(np.uint64)
        end += len(rows)
    pairs.sort()
    pairs = pairs[_firsts(pairs)]
    postings = (pairs & _LOW).astype(np.int32)
    pairs >>= _HALF
    hashes = pairs.astype(np.uint32)
    starts = np.flatnonzero(_firsts(hashes))
    return hashes[starts], np.append(starts, len(hashes)).astype(np.int64), postings


def _heaviest(
    borne: NDArray[np.int64], n_names: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """CSR by name of `borne [row 3]` (name, entity, weight), one row per name and entity."""
    borne = borne[np.lexsort((-borne[:, 2], borne[:, 1], borne[:, 0]))]
    borne = borne[_firsts(borne[:, 0]) | _firsts(borne[:, 1])]
    offsets = np.append(0, np.cumsum(np.bincount(borne[:, 0], minlength=n_names)))
    return offsets.astype(np.int64), borne[:, 1].astype(np.int32), borne[:, 2].astype(np.int32)


# ---- n-grams -------------------------------------------------------------------------------------
def gram_sets(forms: Sequence[str]) -> list[NDArray[np.uint32]]:
    """The distinct hashed n-grams of each form, ascending."""
    rows, hashes = _hashes(forms)
    pairs = rows.astype(np.uint64) << _HALF | hashes
    pairs.sort()
    pairs = pairs[_firsts(pairs)]
    limits = np.searchsorted(pairs, np.arange(1, len(forms), dtype=np.uint64) << _HALF)
    return np.split((pairs & _LOW).astype(np.uint32), limits) if forms else []


def _hashes(forms: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """The form and the hash of every n-gram in every place."""
    if not forms:
        return np.empty(0, np.int64), np.empty(0, np.uint32)
    text = " " + "  ".join(forms) + " "
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    lengths = np.fromiter(map(len, forms), np.int64, len(forms)) + 2
    form = np.repeat(np.arange(len(forms)), lengths)
    rolled, rows, hashes = codes, [], []
    for size in range(2, max(SIZES) + 1):
        rolled = rolled[:-1] * _STEP + codes[size - 1 :]
        if size in SIZES:
            whole = form[: len(rolled)] == form[size - 1 :]
            rows.append(form[: len(rolled)][whole])
            mixed = rolled[whole] * _MIX
            hashes.append(((mixed ^ (mixed >> _HALF)) * _MIX >> _HALF).astype(np.uint32))
    return np.concatenate(rows), np.concatenate(hashes)


# ---- arrays --------------------------------------------------------------------------------------
def _firsts(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values differ from the one before them."""
    first = np.ones(len(values), np.bool_)
    first[1:] = values[1:] != values[:-1]
    return first


def _runs(values: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Distinct values, ascending, and how often each occurs."""
    values = np.sort(values)
    starts = np.flatnonzero(_firsts(values))
    return values[starts], np.diff(starts, append=len(values))


def _top(scores: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Places of the `n` highest scores, ascending; of equal scores the first places."""
    if len(scores) <= n:
        return np.arange(len(scores))
    limit = np.partition(scores, -n)[-n]
    above, equal = np.flatnonzero(scores > limit), np.flatnonzero(scores == limit)
    return np.sort(np.concatenate([above, equal[: n - len(above)]]))
