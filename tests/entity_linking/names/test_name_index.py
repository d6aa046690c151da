"""The index on disk: look-ups, saving, adding, damage, processes; candidates and their priors."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import LinkedText, LinkingError, gold_link
from entity_linking.errors import LinkIndexError
from entity_linking.mentions import Candidate
from entity_linking.names import NameCandidates, NameIndex, PriorFormula, count_links
from entity_linking.names.rules.variants import KIND_WEIGHTS, Kind
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import ExistsError
from tests.flips import forge

ENTITY_NAMES = {
    "Q10520": ["David Beckham"],
    "Q83495": ["Victoria Beckham", "Posh Spice"],
    "Q18125": ["Manchester"],
    "Q18656": ["Manchester United F.C.", "Manchester United"],
    "Q7817": ["World Health Organization"],
    "Q38": ["Italy"],
    "Q34660": ["J. K. Rowling"],
    "Q9682": ["Joanne Rowling"],
    "Q76": ["Barack Obama"],
    "Q308": ["Mercury (planet)"],
    "Q925": ["Mercury"],
    "Q406": ["İstanbul"],
    "Q1490": ["東京都"],
    "Q1": ["👩‍💻 Club"],
    "Q2": ["Café de Flore"],
}  # fmt: skip


def graph_of(names: dict[str, list[str]], *triples: Triple) -> KnowledgeGraph:
    texts = [
        Text(entity, TextKind.ALIAS if i else TextKind.LABEL, name, "en")
        for entity, of_entity in names.items()
        for i, name in enumerate(of_entity)
    ]
    return graph_from_records([*texts, *triples])


@pytest.fixture(scope="module")
def world() -> NameIndex:
    return NameIndex.build(graph_of(ENTITY_NAMES))


def mentions(text: str, *surfaces: str) -> LinkedText:
    starts = [text.index(surface) for surface in surfaces]
    return LinkedText(
        text,
        tuple(gold_link(a, a + len(s), None) for a, s in zip(starts, surfaces, strict=True)),
    )


def proposed(index: NameIndex, surface: str) -> tuple[Candidate, ...]:
    return NameCandidates(index).candidates([mentions(surface, surface)])[0][0]


@pytest.mark.parametrize(
    ("surface", "entity", "reason"),
    [
        ("Italy", "Q38", "label 'Italy'"),
        ("Italian", "Q38", "derived from label 'Italy'"),
        ("WHO", "Q7817", "acronym of label 'World Health Organization'"),
        ("JK Rowling", "Q34660", "spelling of label 'J. K. Rowling'"),
        ("j. rowling", "Q9682", "initials of label 'Joanne Rowling'"),
        ("President Obama", "Q76", "part of label 'Barack Obama'"),
        ("Obama's", "Q76", "part of label 'Barack Obama'"),
        ("Posh", "Q83495", "part of alias 'Posh Spice'"),
        ("Barack Hussein Obama", "Q76", "with a middle name, label 'Barack Obama'"),
        ("istanbul", "Q406", "spelling of label 'İstanbul'"),
        ("東京都", "Q1490", "label '東京都'"),
        ("👩‍💻 club", "Q1", f"label {'👩‍💻 Club'!r}"),
        ("Cafe\u0301 de Flore", "Q2", "label 'Café de Flore'"),
        ("cafe de flore", "Q2", "spelling of label 'Café de Flore'"),
    ],
)
def test_candidates_say_why(world: NameIndex, surface: str, entity: str, reason: str) -> None:
    best = proposed(world, surface)[0]
    assert (best.entity, best.reason) == (entity, reason)


def test_priors_are_shares_in_order(world: NameIndex) -> None:
    actual = proposed(world, "Mercury")
    assert [c.entity for c in actual] == ["Q925", "Q308"]
    assert actual[0].prior == pytest.approx(1 / 1.9)
    assert sum(c.prior for c in actual) == pytest.approx(1)
    assert proposed(world, "Zanzibar") == ()


def test_a_short_name_inherits_from_the_long_one_wherever_it_stands(world: NameIndex) -> None:
    source = NameCandidates(world)
    after = mentions(
        "David Beckham met him. Then Beckham left", "David Beckham", "Beckham left"[:7]
    )
    assert after.links[1].mention.start == 6
    text = "Beckham and Manchester. Victoria Beckham, of Manchester United, and WHO"
    early = mentions(text, "Beckham", "Manchester", "Victoria Beckham", "Manchester United")
    beckham, manchester, _, _ = source.candidates([early])[0]
    assert beckham[0].entity == "Q83495"
    assert beckham[0].reason == "short for 'Victoria Beckham' at 24: label 'Victoria Beckham'"
    assert [c.entity for c in manchester[:2]] == ["Q18125", "Q18656"]
    acronym = mentions("World Health Organization (WHO)", "World Health Organization", "WHO")
    assert source.candidates([acronym])[0][1][0].reason.startswith("short for 'World Health")
    alone = NameCandidates(world, in_document=False).candidates([early])[0]
    assert alone[0] == proposed(world, "Beckham")


def test_popularity_and_counts_move_the_prior() -> None:
    names = {"Q1": ["Paris"], "Q2": ["Paris"], "Q3": ["Rome"]}
    triples = [Triple("Q2", "P1", "Q3"), Triple("Q2", "P2", "Q3"), Triple("Q2", "P3", "Q3")]
    graph = graph_of(names, *triples)
    index = NameIndex.build(graph)
    assert [(c.entity, c.prior) for c in proposed(index, "Paris")] == [
        ("Q2", pytest.approx(2 / 3)),
        ("Q1", pytest.approx(1 / 3)),
    ]
    flat = NameCandidates(index, formula=PriorFormula(alpha=0.0)).of_surface("Paris")
    assert [c.prior for c in flat] == [0.5, 0.5]
    gold = [LinkedText("Paris, Rom", (gold_link(0, 5, "Q1"), gold_link(7, 10, "Q3")))] * 45
    counted = NameIndex.build(graph, counts=[*count_links(gold), ("Paris", "Q99", 5)])
    best = proposed(counted, "Paris")[0]
    guess = 46**0.5 / (46**0.5 + 2)
    assert (best.entity, best.prior) == ("Q1", pytest.approx((45 + 10 * guess) / 55))
    assert proposed(counted, "Rom")[0].reason == "seen linked as 'Rom'"
    assert counted.manifest.parts[0].n_counts_skipped == 1


def test_counts_of_names_add_up_and_a_name_counts_once() -> None:
    """n(s, e) sums over the names that a surface leads to; of two languages the higher count.

    A label and an alias written alike are two names; the same name in an added graph is not.
    """

    def index_of(**counts: int) -> NameIndex:
        rows = [
            ("Q1", TextKind.LABEL, "JK Rowling", "en", counts["label"]),
            ("Q1", TextKind.ALIAS, "JK Rowling", "en", 6),
            ("Q1", TextKind.ALIAS, "J.K. Rowling", "en", 8),
            ("Q1", TextKind.ALIAS, "JK Rowling", "fr", counts["alias"]),
            ("Q2", TextKind.ALIAS, "JK Rowling", "en", 5),
        ]
        return NameIndex.build(graph_from_records([Text(*row) for row in rows]))

    def priors(index: NameIndex) -> dict[str, float]:
        return {c.entity: c.prior for c in proposed(index, "JK Rowling")}

    of_first = 3 + 9 + 8 * KIND_WEIGHTS[Kind.SPELLING]
    expected = (of_first + 10 * 2 / 3) / (of_first + 5 + 10)  # a label weighs twice an alias
    assert priors(index_of(label=3, alias=9))["Q1"] == pytest.approx(expected)
    again = graph_from_records([Text("Q1", TextKind.ALIAS, "JK Rowling", "de", 12)])
    higher = priors(index_of(label=3, alias=9).add(again))
    assert higher == pytest.approx(priors(index_of(label=3, alias=12)))


def test_a_counted_surface_has_spellings_and_no_other_variant() -> None:
    """Unlike a label, it is what texts said: a spelling of it is it, a part of it is not."""
    graph = graph_of({"Q1": ["Nobody"]})
    counts = [("J. K. Rowling", "Q1", 5), ("Mercury (planet)", "Q1", 5)]
    index = NameIndex.build(graph, counts=counts)
    assert proposed(index, "J. K. Rowling")[0].reason == "seen linked as 'J. K. Rowling'"
    assert proposed(index, "JK Rowling")[0].reason == "spelling of seen linked as 'J. K. Rowling'"
    assert proposed(index, "Mercury") == ()
    assert proposed(NameIndex.build(graph_of({"Q1": ["Mercury (planet)"]})), "Mercury")


def test_languages_are_chosen() -> None:
    texts = [
        Text("Q1", TextKind.LABEL, "Munich", "en"),
        Text("Q1", TextKind.LABEL, "München", "de"),
        Text("Q1", TextKind.ALIAS, "MUC"),
    ]
    index = NameIndex.build(graph_from_records(texts), languages=["en"])
    assert index.n_names == 2
    assert proposed(index, "München") == ()
    assert NameIndex.build(graph_from_records(texts)).n_names == 3


# ---- disk ------------------------------------------------------------------
SURFACES = [
    *(name for of_entity in ENTITY_NAMES.values() for name in of_entity),
    "Beckham",
    "WHO",
    "obama",
    "x",
]


def answers(index: NameIndex, surfaces: Sequence[str] = SURFACES) -> list[tuple[Candidate, ...]]:
    source = NameCandidates(index)
    return [source.of_surface(surface) for surface in surfaces]


def test_saved_and_opened_it_answers_the_same(world: NameIndex, tmp_path: Path) -> None:
    saved = world.save(tmp_path / "names")
    assert answers(saved) == answers(world)
    assert answers(NameIndex.open(tmp_path / "names", verify=True)) == answers(world)
    assert repr(saved) == repr(world)
    assert [file.name for file in (tmp_path / "names").glob(".*.part")] == []
    with pytest.raises(LinkIndexError, match="force"):
        world.save(tmp_path / "names")
    assert answers(world.save(tmp_path / "names", force=True)) == answers(world)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ExistsError, match="no name index"):
        world.save(tmp_path / "other", force=True)


def test_an_addition_is_a_further_segment(tmp_path: Path) -> None:
    old = graph_of({"Q1": ["Paris"], "Q2": ["Rome"]})
    new = graph_of({"Q1": ["Paris", "Lutetia"], "Q3": ["Berlin"]}, Triple("Q3", "P1", "Q1"))
    index = NameIndex.build(old).save(tmp_path / "names")
    before = sorted(p.name for p in (tmp_path / "names").iterdir())
    more = index.add(new).save(tmp_path / "names")
    after = sorted(p.name for p in (tmp_path / "names").iterdir())
    assert set(before) < set(after)
    assert len(after) == len(before) + 1
    assert (more.n_entities, more.n_names, len(more.segments)) == (3, 4, 2)
    assert more.graph_hashes == (old.content_hash, new.content_hash)
    assert more.add(new) is more
    assert proposed(more, "Lutetia")[0].entity == "Q1"
    assert more.popularity[more.numbers(["Q1"])[0]] == 1
    with pytest.raises(LinkIndexError, match="another process"):
        index.add(graph_of({"Q9": ["Oslo"]})).save(tmp_path / "names")


NAME = st.text("abAB éßı東.-", min_size=1, max_size=6).filter(str.strip)
NAMES = st.dictionaries(
    st.sampled_from(["Q1", "Q2", "Q3", "Q4"]),
    st.lists(NAME, min_size=1, max_size=3, unique=True),
    min_size=1,
)


@settings(deadline=None, max_examples=25)
@given(NAMES, NAMES)
def test_adding_is_building_the_union(
    first: dict[str, list[str]], second: dict[str, list[str]]
) -> None:
    union = graph_from_records(
        [
            Text(entity, TextKind.LABEL, name)
            for part in (first, second)
            for entity, of_entity in part.items()
            for name in of_entity
        ]
    )
    parts = [
        graph_from_records(
            [Text(e, TextKind.LABEL, name) for e, of_entity in part.items() for name in of_entity]
        )
        for part in (first, second)
    ]
    surfaces = [
        name for part in (first, second) for of_entity in part.values() for name in of_entity
    ]
    built = NameIndex.build(union)
    added = NameIndex.build(parts[0]).add(parts[1])
    assert added.n_names == built.n_names

    def candidates_of(index: NameIndex) -> list[list[tuple[str, float]]]:
        return [[(c.entity, round(c.prior, 9)) for c in each] for each in answers(index, surfaces)]

    assert candidates_of(added) == candidates_of(built)


def _damage(folder: Path, how: str) -> None:
    manifest = folder / "manifest.json"
    output = json.loads(manifest.read_text())
    segment = folder / output["parts"][0]["folder"]
    column, _, value = how.partition(" = ")
    if how == "no manifest":
        manifest.unlink()
    elif how == "torn manifest":
        manifest.write_text(manifest.read_text()[:-9])
    elif how == "other kind":
        manifest.write_text('{"format_version": 4}')
    elif how == "newer":
        forge(folder, {"format_version": 99})
    elif how == "missing file":
        (segment / "keys.marisa").unlink()
    elif how == "short file":
        (segment / "names.arrow").write_bytes(b"")
    elif how == "missing segment":
        shutil.rmtree(segment)
    elif how == "a link":
        (segment / "names.arrow").rename(folder / "elsewhere.arrow")
        (segment / "names.arrow").symlink_to(folder / "elsewhere.arrow")
    elif value:
        rows = np.load(segment / f"{column}.npy")
        rows[-1] = float(value)
        np.save(segment / f"{column}.npy", rows)
        forge(folder, {})
    else:
        size = (segment / how).stat().st_size
        (segment / how).write_bytes(bytes(size))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no manifest", "no manifest.json"),
        ("torn manifest", "damaged"),
        ("other kind", "something else"),
        ("newer", "version 99"),
        ("missing file", r"keys.marisa is missing"),
        ("short file", r"names.arrow has 0 bytes"),
        ("missing segment", "is missing"),
        ("a link", "names.arrow is a link"),
        ("key_names.npy", "was altered"),
        ("keys.marisa", "was altered"),
        ("names.arrow", "was altered"),
        ("key_kinds = 7", "key_kinds holds"),
        ("key_names = -1", "key_names holds -1"),
        ("key_offsets = 1000000", "key_offsets does not begin at 0 and does not end"),
        ("key_table = 4", "key_table does not begin with its number of places and end empty"),
        ("word_names = 1000000", "word_names holds"),
        ("name_entities = 1000", "name_entities holds"),
        ("name_sources = 3", "name_sources holds"),
        ("popularity = nan", "popularity holds numbers that are not finite"),
    ],
)
def test_damaged_folders_are_refused(
    world: NameIndex, tmp_path: Path, how: str, message: str
) -> None:
    world.save(tmp_path / "names")
    NameIndex.open(tmp_path / "names")
    _damage(tmp_path / "names", how)
    with pytest.raises(LinkIndexError, match=message):
        NameIndex.open(tmp_path / "names")


def test_a_damaged_folder_is_replaced_by_force_alone(world: NameIndex, tmp_path: Path) -> None:
    world.save(tmp_path / "names")
    _damage(tmp_path / "names", "torn manifest")
    with pytest.raises(LinkIndexError, match="damaged"):
        world.save(tmp_path / "names")
    world.save(tmp_path / "names", force=True)
    assert answers(NameIndex.open(tmp_path / "names")) == answers(world)


def test_two_processes_share_an_index(world: NameIndex, tmp_path: Path) -> None:
    index = world.save(tmp_path / "names")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        actual = pool.map_async(answers, [index, index]).get(
            timeout=120
        )  # a dead one is waited for
    assert actual == [answers(world)] * 2


def test_texts_do_not_depend_on_their_batch(world: NameIndex) -> None:
    texts = [
        mentions("David Beckham or Beckham", "David Beckham"),
        mentions("Beckham", "Beckham"),
        LinkedText("none", ()),
        mentions("Italian Obama", "Italian", "Obama"),
    ] * 3
    source = NameCandidates(world)
    assert source.candidates(texts) == [
        NameCandidates(world).candidates([text])[0] for text in texts
    ]


@pytest.mark.parametrize("bad", [("", "Q1", 1), ("a", "Q1", 0)])
def test_faulty_counts_are_named(bad: tuple[str, str, int]) -> None:
    with pytest.raises(LinkingError, match="count 0"):
        NameIndex.build(graph_of({"Q1": ["a"]}), counts=[bad])


def test_faulty_settings_are_named(world: NameIndex) -> None:
    with pytest.raises(LinkingError, match="max_candidates"):
        NameCandidates(world, max_candidates=0)
    with pytest.raises(LinkingError, match="alpha"):
        PriorFormula(alpha=-1)
    with pytest.raises(LinkingError, match="case"):
        NameIndex.build(graph_of({"Q1": ["a"]}), case="Smart")  # type: ignore[arg-type]


def test_a_name_with_a_nul_harms_no_other() -> None:
    names = {"Q1": "a\x00b c", "Q2": "\x00", "Q3": "Paris"}
    records = [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]
    index = NameIndex.build(graph_from_records([Triple("Q1", "P1", "Q2"), *records]))
    whole = LinkedText("Paris \x00 a\x00b c", (gold_link(0, 5, None),))
    ((actual,),) = NameCandidates(index).candidates([whole])
    assert [candidate.entity for candidate in actual] == ["Q3"]
