"""Candidates by hand-computed priors: words in common, initials, ties; what linkers decide."""

from __future__ import annotations

from typing import Any

import pytest

from entity_linking import LinkedText, LinkingError, gold_link
from entity_linking.names import Gates, NameCandidates, NameIndex, NameLinker, PriorFormula
from entity_linking.names import candidates as candidates_module
from entity_linking.names.priors import rank_entities
from entity_linking.names.rules.case import raised_forms
from entity_linking.names.rules.variants import KIND_WEIGHTS, Kind, demonym_stems, query_variants
from kg_loaders import Text, TextKind, graph_from_records


def index_of(names: dict[str, str]) -> NameIndex:
    return NameIndex.build(
        graph_from_records([Text(e, TextKind.LABEL, name) for e, name in names.items()])
    )


def test_words_in_common_count_by_their_share_of_the_name() -> None:
    """Popularity and counts are 0 here, so the priors are shares of the weights."""
    names = {"Q1": "Alpha Beta", "Q2": "Delta", "Q3": "Beta Gamma Epsilon", "Q4": "Zeta"}
    actual = NameCandidates(index_of(names)).of_surface("Beta Delta")
    inside = KIND_WEIGHTS[Kind.INSIDE] * 1 / 2  # "Delta" is half of the mention
    overlaps = [KIND_WEIGHTS[Kind.OVERLAP] * share for share in (1 / 2, 1 / 3)]
    total = inside + sum(overlaps)
    expected = [("Q2", inside), ("Q1", overlaps[0]), ("Q3", overlaps[1])]
    assert [c.entity for c in actual] == [entity for entity, _ in expected]
    assert [c.prior for c in actual] == pytest.approx([weight / total for _, weight in expected])


def test_initials_stand_for_all_names_before_the_last() -> None:
    index = index_of({"Q1": "John Ronald Reuel Tolkien", "Q2": "Christopher Tolkien"})
    best = NameCandidates(index).of_surface("J. R. R. Tolkien")[0]
    assert (best.entity, best.reason) == ("Q1", "initials of label 'John Ronald Reuel Tolkien'")


def test_scores_are_priors_also_of_what_is_taken_over_from_a_longer_mention() -> None:
    """Of the longer mention's candidates, and of those that the short one alone has."""
    names = {"Q1": "World Health Organization", "Q2": "WHO", "Q3": "Who"}
    text = "The World Health Organization (WHO) met"
    links = (gold_link(4, 29, None), gold_link(31, 34, None))
    longer, short = NameCandidates(index_of(names)).candidates([LinkedText(text, links)])[0]
    alone = {c.entity: c.prior for c in NameCandidates(index_of(names)).of_surface("WHO")}
    assert [c.entity for c in longer] == ["Q1"]
    assert {c.entity for c in short} == set(alone) == {"Q1", "Q2", "Q3"}
    share = 1 - next(c.prior for c in short if c.entity == "Q2") / alone["Q2"]
    assert 0 < share < 1
    for candidate in short:
        taken = share if candidate.entity == "Q1" else 0.0
        prior = (1 - share) * alone[candidate.entity] + taken
        assert candidate.score == candidate.prior == pytest.approx(prior)
    assert [c.prior for c in short] == sorted((c.prior for c in short), reverse=True)


def test_one_candidate_may_be_asked_for_and_a_tie_goes_to_the_lower_identifier() -> None:
    first = index_of({"Q7": "Paris", "Q9": "Paris"})
    second = graph_from_records([Text(e, TextKind.LABEL, "Paris") for e in ("Q1", "Q8")])
    for index in (first.add(second), first):
        actual = NameCandidates(index, max_candidates=1).of_surface("Paris")
        lowest = min(index.identifiers(range(index.n_entities)))
        assert [c.entity for c in actual] == [lowest]
        (link,) = NameLinker(index, max_candidates=1).link(["In Paris."])[0].links
        assert [c.entity for c in link.candidates] == [lowest]


@pytest.mark.parametrize("wrong", [{"alpha": -0.1}, {"m": 0.0}, {"m": -1.0}, {"alias": 0.0}])
def test_numbers_that_make_no_prior_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(LinkingError, match=r"needs alpha of 0 or more, m and alias above 0"):
        PriorFormula(**wrong)


@pytest.mark.parametrize(
    ("surface", "entities"), [("May", ["Q1"]), ("MAY", ["Q2"]), ("may", ["Q3"])]
)
def test_what_is_written_just_so_hides_what_is_raised(surface: str, entities: list[str]) -> None:
    index = index_of({"Q1": "May", "Q2": "MAY", "Q3": "may"})
    linker = NameLinker(index, Gates(stop_words=frozenset()))
    (link,) = linker.link([f"in {surface} there"])[0].links
    assert [c.entity for c in link.candidates] == entities


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("asthma attack", ["Asthma attack", "ASTHMA ATTACK", "Asthma Attack"]),
        ("iPhone", ["IPhone", "IPHONE"]),
        ("of Mice and Men", ["Of Mice and Men", "OF MICE AND MEN"]),
        ("Paris", ["PARIS"]),
        ("who", ["Who"]),
        ("US", []),
        ("TNF-alpha", ["TNF-ALPHA", "TNF-Alpha"]),
        ("IFN gamma", ["IFN GAMMA", "IFN Gamma"]),
        ("beta-catenin", ["Beta-catenin", "BETA-CATENIN", "Beta-Catenin"]),
        ("mother-in-law", ["Mother-in-law", "MOTHER-IN-LAW", "Mother-In-Law", "Mother-in-Law"]),
        ("alphabet City", ["Alphabet City", "ALPHABET CITY"]),
    ],
)
def test_a_text_may_raise_the_case_of_a_name(name: str, raised: list[str]) -> None:
    assert raised_forms(name) == raised


def test_a_longer_match_that_is_written_as_no_name_hides_no_shorter_one() -> None:
    linker = NameLinker(index_of({"Q1": "Paris Match", "Q2": "Paris"}), Gates(named_only=True))
    text = "They said that Paris match days are long, in Paris."
    links = linker.link([text])[0].links
    assert [(text[k.mention.start : k.mention.end], k.entity) for k in links] == [
        ("Paris", "Q2"),
        ("Paris", "Q2"),
    ]


def test_a_longer_form_that_makes_no_mention_hides_no_shorter_one() -> None:
    """What stands before a comma is a way to look a name up, not to find one in a text."""
    linker = NameLinker(index_of({"Q1": "New York City, NY", "Q2": "New York"}))
    text = "They went to New York City."
    links = linker.link([text])[0].links
    assert [(text[k.mention.start : k.mention.end], k.entity) for k in links] == [
        ("New York", "Q2")
    ]


def plurals(surface: str) -> set[str]:
    return {form for form, kind in query_variants(surface) if kind is Kind.PLURAL}


def test_a_plural_is_made_of_what_ends_in_a_latin_letter() -> None:
    assert "New Yorks" in plurals("New York")
    assert "Øres" in plurals("Øre")
    for surface in ("Boeing 747", "Łódź", "Paris", "AC/DC!"):
        assert surface + "s" not in plurals(surface)


@pytest.mark.parametrize(
    ("surface", "doubled", "stem"),
    [
        ("rapper", "rapping", "raping"),
        ("Rapper", "Rapp", "Rap"),
        ("swimmer", "swimming", "swiming"),
    ],
)
def test_a_doubled_letter_before_an_ending_may_be_one(
    surface: str, doubled: str, stem: str
) -> None:
    stems = demonym_stems(surface)
    assert stems.index(doubled) < stems.index(stem)


def test_letters_that_are_not_doubled_stay() -> None:
    assert "Berli" not in demonym_stems("Berliner")
    assert "Berlin" in demonym_stems("Berliner")
    assert "JAPAN" in demonym_stems("JAPANESE")


def test_a_surface_is_ranked_once_however_often_it_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    rankings = []

    def counting(*arguments: Any) -> Any:
        rankings.append(arguments)
        return rank_entities(*arguments)

    monkeypatch.setattr(candidates_module, "rank_entities", counting)
    candidates = NameCandidates(index_of({"Q1": "Alpha", "Q2": "Beta"}))
    candidates.learn(["Alpha", "Alpha"])
    candidates.learn(["Beta", "Alpha"])
    assert candidates.of_surface("Alpha")[0].entity == "Q1"
    assert len(rankings) == 2
