"""Made-up worlds, each a graph and a CSV of labelled texts, as a user of `kept fit` has them.

    roles       the role of a person is in the graph alone
    relations   what a company is to another follows from what kind of company that is, in the graph
    homonyms    as roles, and each name is that of two people, of whom the text names the town
    sparse      a graph that covers a tenth of the people; the text itself says the role
    medicines   what a medicine is for; names in lower case, and columns sentence, entity and class
    tags        BIO tags of names, of which the graph says whether a person, a town or a company
    surnames    as roles; the text has the surname alone, inflected in a third of the texts
    dates       whether a person was born before 1900; the graph has the year
    absences    whether the graph has a fact of insurance of a person
    far         the town of the firm that a person works for: two facts away, and each firm is new

Every name is made up and no test name is in training, so that memorising helps nobody.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kept.objectives.mentions.made_up import made_up_names
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.records import Record

ROLES = ("curator", "gardener", "pilot", "nurse", "plumber", "notary")
KINDS = ("bank", "law firm", "auditor", "carrier", "insurer")
TIES = ("financed by", "advised by", "audited by", "shipped by", "covered by")
SCENES = (
    "{a} came to the meeting on {day}.", "On {day} nobody had seen {a}.",
    "We wrote to {a} again on {day}.", "{a} will call back on {day}, said {b}.",
    "{b} had lunch with {a} on {day}.",
)  # fmt: skip
DEALS = (
    "{a} and {b} signed a contract on {day}.", "{a} sent a letter to {b} on {day}.",
    "On {day} {a} renewed what it had agreed with {b}.",
)  # fmt: skip
SAYS = {
    "curator": "hung the paintings", "gardener": "pruned the roses", "pilot": "landed the plane",
    "nurse": "dressed the wound", "plumber": "mended the pipes", "notary": "sealed the deed",
}  # fmt: skip
EFFECTS = ("fever", "pain", "cough", "allergy")
DOSES = (
    "The patient took {a} on {day}.", "{a} was given twice on {day}.",
    "We stopped {a} last {day}.", "On {day} she asked for {a} 20 mg.",
)  # fmt: skip
TAGGED = ("person", "town", "company")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


class PrivateWorld(NamedTuple):
    """A graph, the header of a table and its rows; `decides` says whether the graph does."""

    graph: KnowledgeGraph
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    decides: bool

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `kg/` and `data.csv`; return both paths."""
        folder.mkdir(parents=True, exist_ok=True)
        self.graph.save(folder / "kg")
        with (folder / "data.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows])
        return folder / "kg", folder / "data.csv"


def roles(n: int, seed: int) -> PrivateWorld:
    """The role of a person, who is mentioned once."""
    draws = generator(seed, "private world", "roles")
    names = made_up_names(2 * n, draws)
    records = [*_named({f"P{i}": name for i, name in enumerate(names)})]
    records += _classes("R", ROLES, "holds the position")
    towns = made_up_names(12, generator(seed, "private world", "towns"))
    records += [Text(f"T{i}", TextKind.LABEL, name) for i, name in enumerate(towns)]
    records.append(Text("lives in", TextKind.LABEL, "lives in"))
    rows = []
    for i in range(n):
        role = int(draws.integers(len(ROLES)))
        records += [
            Triple(f"P{i}", "holds the position", f"R{role}"),
            Triple(f"P{i}", "lives in", f"T{int(draws.integers(len(towns)))}"),
        ]
        rows.append((_scene(SCENES, names[i], names[n + i], draws), names[i], ROLES[role]))
    return PrivateWorld(graph_from_records(records), ("text", "mention", "label"), rows, True)


def relations(n: int, seed: int) -> PrivateWorld:
    """What the first company is to the second: "financed by" where that is a bank."""
    draws = generator(seed, "private world", "relations")
    names = [f"{name} {end}" for name, end in zip(
        made_up_names(2 * n, draws), draws.choice(["Ltd", "Group", "AG"], 2 * n), strict=True
    )]  # fmt: skip
    records = [*_named({f"C{i}": name for i, name in enumerate(names)})]
    records += _classes("K", KINDS, "line of business")
    rows = []
    for i in range(n):
        kind, other = draws.integers(len(KINDS), size=2).tolist()
        records += [
            Triple(f"C{i}", "line of business", f"K{kind}"),
            Triple(f"C{n + i}", "line of business", f"K{other}"),
        ]
        rows.append(
            (_scene(DEALS, names[i], names[n + i], draws), names[i], names[n + i], TIES[other])
        )
    return PrivateWorld(graph_from_records(records), ("text", "head", "tail", "label"), rows, True)


def homonyms(n: int, seed: int) -> PrivateWorld:
    """As `roles`, with two people of each name; the text says which town theirs lives in."""
    draws = generator(seed, "private world", "homonyms")
    names = made_up_names(2 * n, draws)
    towns = made_up_names(16, generator(seed, "private world", "their towns"))
    records = [Text(f"T{i}", TextKind.LABEL, name) for i, name in enumerate(towns)]
    records += [Text("lives in", TextKind.LABEL, "lives in")]
    records += _classes("R", ROLES, "holds the position")
    rows = []
    for i in range(n):
        two = draws.choice(len(ROLES), 2, replace=False).tolist()
        homes = draws.choice(len(towns), 2, replace=False).tolist()
        for k in (0, 1):
            person = f"P{i}.{k}"
            records += [
                Text(person, TextKind.LABEL, names[i]),
                Triple(person, "holds the position", f"R{two[k]}"),
                Triple(person, "lives in", f"T{homes[k]}"),
            ]
        which = int(draws.integers(2))
        text = _scene(SCENES, names[i], names[n + i], draws)
        text = f"In {towns[homes[which]]}: {text}"
        rows.append((text, names[i], ROLES[two[which]]))
    return PrivateWorld(graph_from_records(records), ("text", "mention", "label"), rows, True)


def sparse(n: int, seed: int) -> PrivateWorld:
    """The text says what a person did; the graph knows every tenth of them."""
    draws = generator(seed, "private world", "sparse")
    names = made_up_names(2 * n, draws)
    records = [*_named({f"P{i}": names[i] for i in range(0, n, 10)})]
    records += _classes("R", ROLES, "holds the position")
    rows = []
    for i in range(n):
        role = int(draws.integers(len(ROLES)))
        if i % 10 == 0:
            records.append(Triple(f"P{i}", "holds the position", f"R{role}"))
        day = DAYS[int(draws.integers(len(DAYS)))]
        rows.append((f"On {day} {names[i]} {SAYS[ROLES[role]]}.", names[i], ROLES[role]))
    return PrivateWorld(graph_from_records(records), ("text", "mention", "label"), rows, False)


def medicines(n: int, seed: int) -> PrivateWorld:
    """What a medicine is for; the graph writes names in lower case, some texts do not."""
    draws = generator(seed, "private world", "medicines")
    names = [name.lower() + "in" for name in made_up_names(n, draws)]
    records = [*_named({f"M{i}": name for i, name in enumerate(names)})]
    records += _classes("E", EFFECTS, "used against")
    rows = []
    for i, name in enumerate(names):
        effect = int(draws.integers(len(EFFECTS)))
        records.append(Triple(f"M{i}", "used against", f"E{effect}"))
        written = name.capitalize() if draws.random() < 0.3 else name
        rows.append((_scene(DOSES, written, "", draws), written, EFFECTS[effect]))
    columns = ("sentence", "entity", "class")
    return PrivateWorld(graph_from_records(records), columns, rows, True)


def tags(n: int, seed: int) -> PrivateWorld:
    """Names of one or two words in sentences; the graph says what has the name."""
    draws = generator(seed, "private world", "tags")
    words = made_up_names(2 * n, draws)
    records = _classes("C", TAGGED, "is a")
    rows = []
    for i in range(n):
        name = [words[2 * i], words[2 * i + 1]][: int(draws.integers(1, 3))]
        which = int(draws.integers(len(TAGGED)))
        records += _named({f"N{i}": " ".join(name)})
        records.append(Triple(f"N{i}", "is a", f"C{which}"))
        scene = _scene(SCENES[:3], "@", "", draws).replace(".", " .").split()
        marks = [f"{'B' if k == 0 else 'I'}-{TAGGED[which].upper()}" for k in range(len(name))]
        tokens = [word for each in scene for word in (name if each == "@" else [each])]
        tags = [tag for each in scene for tag in (marks if each == "@" else ["O"])]
        rows.append((" ".join(tokens), " ".join(tags)))
    return PrivateWorld(graph_from_records(records), ("tokens", "tags"), rows, True)


def far(n: int, seed: int) -> PrivateWorld:
    """A person's town is that of a firm of which nobody else is: no fact of the person says it.

    Vectors of the graph's entities hold it all the same, so that ERNIE can read it.
    """
    draws = generator(seed, "private world", "far")
    names = made_up_names(2 * n, draws)
    towns = ("Oslo", "Bern", "Lyon", "Turin")
    people = {f"P{i}": names[i] for i in range(n)}
    firms = {f"F{i}": f"{names[n + i]} Works" for i in range(n)}
    records = [*_named(people | firms), *_classes("T", towns, "located in")]
    rows = []
    for i in range(n):
        town = int(draws.integers(len(towns)))
        records += [
            Triple(f"P{i}", "works for", f"F{i}"), Triple(f"F{i}", "located in", f"T{town}"),
        ]  # fmt: skip
        rows.append((_scene(SCENES[:3], names[i], "", draws), names[i], towns[town]))
    return PrivateWorld(graph_from_records(records), ("text", "mention", "label"), rows, True)


def surnames(n: int, seed: int) -> PrivateWorld:
    """The role of a person, whose surname is in the text, with an "s" in a third of the texts."""
    draws = generator(seed, "private world", "surnames")
    words = made_up_names(2 * n, draws)
    triples: list[Record] = []
    rows = []
    for i in range(n):
        role = int(draws.integers(len(ROLES)))
        triples.append(Triple(f"{words[2 * i]} {words[2 * i + 1]}", "works as", ROLES[role]))
        written = words[2 * i + 1] + ("s" if draws.random() < 1 / 3 else "")
        rows.append((_scene(SCENES[:3], written, "", draws), written, ROLES[role]))
    return PrivateWorld(graph_from_records(triples), ("text", "mention", "label"), rows, True)


def dates(n: int, seed: int) -> PrivateWorld:
    """Whether a person was born before 1900."""
    draws = generator(seed, "private world", "dates")
    triples: list[Record] = []
    rows = []
    for name in made_up_names(n, draws):
        year = int(draws.integers(1820, 1981))
        triples.append(Triple(name, "born in", str(year)))
        label = "before 1900" if year < 1900 else "later"
        rows.append((_scene(SCENES[:3], name, "", draws), name, label))
    return PrivateWorld(graph_from_records(triples), ("text", "mention", "label"), rows, True)


def absences(n: int, seed: int) -> PrivateWorld:
    """Whether the graph has a fact of insurance among the facts of a person."""
    draws = generator(seed, "private world", "absences")
    triples: list[Record] = []
    rows = []
    for name in made_up_names(n, draws):
        is_insured = bool(draws.random() < 0.5)
        triples.append(Triple(name, "works as", str(draws.choice(ROLES))))
        if is_insured:
            triples.append(Triple(name, "is insured by", f"the {draws.choice(KINDS)}"))
        label = "insured" if is_insured else "not insured"
        rows.append((_scene(SCENES[:3], name, "", draws), name, label))
    return PrivateWorld(graph_from_records(triples), ("text", "mention", "label"), rows, True)


WORLDS: dict[str, Callable[[int, int], PrivateWorld]] = {
    "roles": roles,
    "relations": relations,
    "homonyms": homonyms,
    "sparse": sparse,
    "medicines": medicines,
    "tags": tags,
    "surnames": surnames,
    "dates": dates,
    "absences": absences,
    "far": far,
}


def _named(names: dict[str, str]) -> Iterable[Record]:
    return [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]


def _classes(prefix: str, names: Iterable[str], relation: str) -> list[Record]:
    labels: list[Record] = [
        Text(f"{prefix}{i}", TextKind.LABEL, name) for i, name in enumerate(names)
    ]
    return [*labels, Text(relation, TextKind.LABEL, relation)]


def _scene(scenes: tuple[str, ...], a: str, b: str, draws: np.random.Generator) -> str:
    scene, day = (each[int(draws.integers(len(each)))] for each in (scenes, DAYS))
    return scene.format(a=a, b=b, day=day)


def questions(n: int, seed: int, *, known: float = 0.9) -> PrivateWorld:
    """Two questions to each person: the position, which the graph has of a share `known`; the town.

    Not one of `WORLDS`, whose tables are of texts with labels.
    """
    draws = generator(seed, "private world", "questions")
    names = made_up_names(n, draws)
    towns = made_up_names(12, generator(seed, "private world", "towns"))
    records = [*_named({f"P{i}": name for i, name in enumerate(names)})]
    records += _classes("R", ROLES, "position")
    records += [Text(f"T{i}", TextKind.LABEL, name) for i, name in enumerate(towns)]
    records.append(Text("town", TextKind.LABEL, "town"))
    records += [Text(f"P{i}", TextKind.TYPE, "person") for i in range(n)]
    rows = []
    for i, name in enumerate(names):
        role, town = int(draws.integers(len(ROLES))), int(draws.integers(len(towns)))
        records.append(Triple(f"P{i}", "town", f"T{town}"))
        if draws.random() < known:
            records.append(Triple(f"P{i}", "position", f"R{role}"))
        rows.append((f"What is the position of {name}?", ROLES[role]))
        rows.append((f"What is the town of {name}?", towns[town]))
    return PrivateWorld(graph_from_records(records), ("question", "answer"), rows, True)
