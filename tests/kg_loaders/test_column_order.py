"""Tables without a header whose columns are in another order than they are read in."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from kg_loaders import Source, load

ORDERS = ["".join(letters) for letters in permutations("hrt")]


def table(order: str, names: str, n_relations: int = 7, n: int = 300, mark: str = "\t") -> str:
    """Facts of 60 entities, `names` of head, relation and tail, in columns of this order."""
    draws, (h, r, t) = Random(0), names.split()
    rows = []
    for _ in range(n):
        fact = {
            "h": f"{h}{draws.randrange(60)}", "r": f"{r}{draws.randrange(n_relations)}",
            "t": f"{t}{draws.randrange(60)}",
        }  # fmt: skip
        rows.append(mark.join(fact[letter] for letter in order))
    return "\n".join(rows)


def suggested(path: Path, order: str | None = None) -> str:
    """The order that a note names; "" if there is no note."""
    notes = load([path], order=order)[1].notes
    lines = [note for note in notes if "in another order" in note]
    assert len(lines) <= 1
    return lines[0].rpartition("--order ")[2] if lines else ""


@pytest.mark.parametrize(
    "names", ["/m/ /rel/ /m/", "Q P Q", "e is e", "http://a/ http://r/ http://a/"]
)
@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.txt"])
def test_another_order_is_noted_and_the_remedy_holds(name: str, names: str, tmp_path: Path) -> None:
    mark = "," if name.endswith("csv") else "\t"
    for order in ("htr", "rht"):
        (tmp_path / name).write_text(table(order, names, mark=mark))
        assert suggested(tmp_path / name) == order
        assert not suggested(tmp_path / name, order)
    (tmp_path / name).write_text(table("hrt", names, mark=mark))
    assert not suggested(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "n_relations", "n"),
    [
        ("a r b", 7, 300),  # bipartite
        ("Q P Q", 200, 300),  # more relations than entities
        ("Q Q Q", 60, 300),  # one space of names
        ("Q P Q", 7, 5),  # too few to say
    ],
)
def test_the_usual_order_is_not_noted(names: str, n_relations: int, n: int, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(table("hrt", names, n_relations, n))
    assert not suggested(tmp_path / "x.tsv")


def test_relations_that_are_entities_too(tmp_path: Path) -> None:
    """An ontology says things about its relations: in N-Triples no column can be elsewhere."""
    rows = [f"<u:r{i}> <u:r{i % 9}> <u:Class{i % 2}> ." for i in range(40)]
    (tmp_path / "x.nt").write_text("\n".join(rows))
    assert not load([Source(tmp_path / "x.nt")])[1].notes
