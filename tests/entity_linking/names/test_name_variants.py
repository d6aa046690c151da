"""Rules about names, by hand-written cases."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.names.rules.variants import (
    KIND_WEIGHTS,
    REASONS,
    Kind,
    acronyms,
    loosen,
    name_variants,
    name_words,
    query_variants,
    singulars,
)


@pytest.mark.parametrize(
    ("name", "form", "kind"),
    [
        ("Mercury (planet)", "Mercury", Kind.DISAMBIGUATOR),
        ("東京（駅）", "東京", Kind.DISAMBIGUATOR),
        ("Paris, Texas", "Paris", Kind.COMMA),
        ("The Beatles", "Beatles", Kind.ARTICLE),
        ("Apple Inc.", "Apple", Kind.LEGAL),
        ("Acme Co., Ltd.", "Acme", Kind.LEGAL),
        ("Smith and Co.", "Smith", Kind.LEGAL),
        ("Société Générale S.A.", "Societe Generale SA", Kind.SPELLING),
        ("AT&T", "AT and T", Kind.SPELLING),
        ("J. R. R. Tolkien", "JRR Tolkien", Kind.SPELLING),
        ("Jean-Luc Picard", "Jean Luc Picard", Kind.SPELLING),
        ("World War II", "World War 2", Kind.SPELLING),
        ("Second World War", "2nd World War", Kind.SPELLING),
        ("İstanbul", "Istanbul", Kind.SPELLING),
        ("World Health Organization", "WHO", Kind.ACRONYM),
        ("Department of Defense", "DoD", Kind.ACRONYM),
        ("John Fitzgerald Kennedy", "JFK", Kind.ACRONYM),
    ],
)
def test_names_are_stored_under(name: str, form: str, kind: Kind) -> None:
    assert (form, kind) in name_variants(name)


@pytest.mark.parametrize(
    ("surface", "form", "kind"),
    [
        ("President Obama", "Obama", Kind.TITLE),
        ("the late Prime Minister Blair", "Blair", Kind.TITLE),
        ("Mr. X", "X", Kind.TITLE),
        ("Obama's", "Obama", Kind.POSSESSIVE),
        ("Moses’", "Moses", Kind.POSSESSIVE),
        ("companies", "company", Kind.PLURAL),
        ("Beatle", "Beatles", Kind.PLURAL),
        ("You Tube", "YouTube", Kind.SPACING),
        ("YouTube", "You Tube", Kind.SPACING),
        ("George W. Bush", "George Bush", Kind.MIDDLE),
        ("Parisian", "Paris", Kind.DEMONYM),
        ("Italian", "Italy", Kind.DEMONYM),
        ("Germans", "Germany", Kind.DEMONYM),
        ("Japanese", "Japan", Kind.DEMONYM),
        ("Polish", "Poland", Kind.DEMONYM),
        ("Iraqi", "Iraq", Kind.DEMONYM),
        ("New Yorker", "New York", Kind.DEMONYM),
        ("Dutch", "Netherlands", Kind.DEMONYM),
        ("cellist", "cello", Kind.DEMONYM),
        ("Buddhist", "Buddhism", Kind.DEMONYM),
        ("WORLD WAR II", "WORLD WAR 2", Kind.SPELLING),
    ],
)
def test_mentions_are_looked_up_as(surface: str, form: str, kind: Kind) -> None:
    assert (form, kind) in query_variants(surface)


@pytest.mark.parametrize(
    ("form", "loose"),
    [
        ("C++", "C++"),
        ("C#", "C#"),
        ("...", "..."),
        ("3.5", "3 5"),
        ("हिन्दी", "हिन्दी"),
        ("が", "が"),
        ("Ελλάδα", "Ελλαδα"),
        ("O'Neill", "ONeill"),
    ],
)
def test_loose_spellings(form: str, loose: str) -> None:
    assert loosen(form) == loose


def test_what_is_no_acronym() -> None:
    assert acronyms("art of noise") == acronyms("Paris") == acronyms("A " * 9) == []


def test_words_of_a_name() -> None:
    assert name_words("The Bank of England plc (bank)") == ["bank", "england"]


def test_every_kind_has_a_weight_below_the_name_itself() -> None:
    assert set(KIND_WEIGHTS) == set(REASONS) == set(Kind)
    assert all(0 < KIND_WEIGHTS[kind] < 1 for kind in Kind if kind is not Kind.EXACT)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_variants_of_any_text_are_distinct_and_begin_with_it(text: str) -> None:
    for variants in (name_variants(text), query_variants(text)):
        assert len({form for form, _ in variants}) == len(variants)
        assert all(form for form, _ in variants)
    assert name_variants(text)[0] == (text, Kind.EXACT)
    assert loosen(text)


@pytest.mark.parametrize(
    ("plural", "stems"),
    [
        ("Boxes", ["Box", "Boxe"]),
        ("Germanies", ["Germany", "Germanie"]),
        ("churches", ["church", "churche"]),
        ("cats", ["cat"]),
        ("gas", []),  # too short
        ("Paris", []),
        ("Boss", []),
        ("cat", []),
    ],
)
def test_what_a_plural_may_be_of(plural: str, stems: list[str]) -> None:
    assert singulars(plural) == stems


def test_words_are_joined_only_at_one_gap() -> None:
    def joined(surface: str) -> set[str]:
        return {form for form, kind in query_variants(surface) if kind is Kind.SPACING}

    assert joined("You Tube") == joined("You-Tube") == {"YouTube"}
    assert joined("New York City") == joined("a-b c") == joined("a-b-c-d e") == set()
    assert joined("-") == joined(" ") == set()
