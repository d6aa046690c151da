"""Damage to every file of a link index, and parts that were swapped for another index's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from entity_linking.errors import LinkIndexError
from kept.linking import index as link_index
from kept.linking.index import LinkIndex
from kg_loaders import KnowledgeGraph
from tests import flips
from tests.entity_linking.dense_parts import TrigramEncoder


@pytest.fixture
def index(small_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(link_index, "load_encoder", lambda host: TrigramEncoder())
    LinkIndex.build(small_graph, tmp_path / "index", fuzzy=True, host="trigrams")
    return tmp_path / "index"


def test_no_damage_to_an_index_is_silent_or_a_crash(
    index: Path, record_property: Callable[[str, object], None]
) -> None:
    damages = flips.damages(index, n_flips=4)
    outcomes = flips.outcomes({"index": (index, damages)})["index"]
    bad = [each for each in outcomes if each.verdict not in ("refused", "same")]
    assert not bad, bad
    all_flips = [each for each in outcomes if each.damage.how == "flip"]
    assert len(all_flips) >= 112
    assert all(each.verdict == "refused" for each in all_flips)
    record_property("damage to a link index", f"{len(outcomes)}, none silent, none a crash")


@pytest.mark.parametrize("part", ["names", "fuzzy", "dense"])
def test_parts_of_another_index_are_refused(
    index: Path, part: str, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    other = small_graph.with_triples(small_graph.triples[:3], note="three")
    LinkIndex.build(other, tmp_path / "other", fuzzy=True, host="trigrams")
    shutil.rmtree(index / part)
    shutil.copytree(tmp_path / "other" / part, index / part)
    with pytest.raises(LinkIndexError, match=r"made from other graphs than .*names; make the"):
        LinkIndex.open(index)
