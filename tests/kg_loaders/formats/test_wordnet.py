"""WordNet's files: a hand-made WordNet of seven synsets, damage, and counts over the real one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kg_loaders import DamageError, SourceError, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.formats.wordnet import (
    PARTS,
    RELATIONS,
    SENSE_OF,
    find_wordnet,
    parse_synset,
    read,
    sense_keys,
)
from kg_loaders.formats.wordnet_lexicon import Lexicon
from kg_loaders.opening import open_graph

LICENCE = "  1 a licence line  \n"
DATA = {
    "noun": [
        "00000001 05 n 02 dog 0 Domestic_Dog 1 002 @ 00000002 n 0000 + 00000005 v 0101 | barks",
        "00000002 05 n 01 animal 0 001 ~ 00000001 n 0000 | lives  ",
    ],
    "verb": ["00000005 38 v 01 dog 2 001 + 00000001 n 0101 01 + 08 00 | follow"],
    "adj": [
        "00000007 00 a 01 dead(p) 0 002 ! 00000008 a 0101 & 00000009 a 0000 | without life",
        "00000008 00 a 01 living 0 001 ! 00000007 a 0101 | with life",
        "00000009 00 s 01 gone 3 001 & 00000007 a 0000 | no more",
    ],
    "adv": ["00000011 02 r 01 doggedly 0 000 | with tenacity"],
}
INDEX = {
    "noun": ["dog n 1 1 @ 1 1 00000001", "animal n 1 1 ~ 1 0 00000002"],
    "verb": ["dog v 1 1 + 1 0 00000005"],
    "adj": ["dead a 1 1 ! 1 0 00000007", "gone a 1 1 & 1 0 00000009"],
    "adv": ["doggedly r 1 0 1 0 00000011"],
}
COUNTS = ["dog%1:05:00:: 1 42", "gone%5:00:03:dead(p):00 1 2", "unicorn%1:05:00:: 1 9"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in PARTS:
        for stem, lines in (("data", DATA[part]), ("index", INDEX[part])):
            text = LICENCE + "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{stem}.{part}").write_text(text)
        (tmp_path / f"{part}.exc").write_text("dawgs dog\n" if part == "noun" else "")
    (tmp_path / "cntlist.rev").write_text("".join(f"{line}\n" for line in COUNTS))
    return tmp_path


def load(folder: Path, report: DamageReport, **options: str) -> list[Triple | Text]:
    records = list(read(folder, report, **options))  # type: ignore[arg-type]
    report.n_triples = sum(isinstance(record, Triple) for record in records)
    report.n_texts = len(records) - report.n_triples
    report.check()
    return records


def add_line(folder: Path, line: str) -> None:
    with (folder / "data.noun").open("a") as file:
        file.write(line + "\n")


def test_every_record_of_a_small_wordnet(folder: Path) -> None:
    report = DamageReport()
    records = load(folder, report)
    dog, dog_v = "wn:dog%1:05:00::", "wn:dog%2:38:02::"
    dead, living = "wn:dead%3:00:00::", "wn:living%3:00:00::"
    assert [record for record in records if isinstance(record, Triple)] == [
        ("wn:00000001-n", "hypernym", "wn:00000002-n"),
        (dog, "derivationally_related_form", dog_v),
        (dog, SENSE_OF, "wn:00000001-n"),
        (dog_v, SENSE_OF, "wn:00000005-v"),
        ("wn:00000002-n", "hyponym", "wn:00000001-n"),
        (dog_v, "derivationally_related_form", dog),
        (dead, "antonym", living),
        (dead, SENSE_OF, "wn:00000007-a"),
        (living, SENSE_OF, "wn:00000008-a"),
        ("wn:00000007-a", "similar_to", "wn:00000009-a"),
        (living, "antonym", dead),
        ("wn:00000009-a", "similar_to", "wn:00000007-a"),
    ]
    texts = [record for record in records if isinstance(record, Text)]
    assert [text for text in texts if text.node == "wn:00000001-n"] == [
        ("wn:00000001-n", TextKind.LABEL, "dog", "en", 42, False),
        ("wn:00000001-n", TextKind.ALIAS, "Domestic Dog", "en", 0, False),
        ("wn:00000001-n", TextKind.DESCRIPTION, "barks", "en", 0, False),
        ("wn:00000001-n", TextKind.TYPE, "noun.animal", "", 0, False),
    ]
    assert next(text.value for text in texts if text.node == "wn:00000007-a") == "dead"
    satellite = [text for text in texts if text.node == "wn:00000009-a"]
    assert satellite[0].frequency == 2
    assert [text.value for text in satellite[2:]] == ["adj.all", "adj.satellite"]
    assert [text.node for text in texts if text.is_relation] == [
        "hypernym", "derivationally_related_form", SENSE_OF, "hyponym", "antonym", "similar_to",
    ]  # fmt: skip
    assert report.n_comment == 4
    assert report.skipped == {"verb frame": 1, "tag count of a sense that is not there": 1}


def test_lexical_pointers_may_link_synsets(folder: Path) -> None:
    triples = [r for r in load(folder, DamageReport(), lexical="synsets") if isinstance(r, Triple)]
    assert Triple("wn:00000007-a", "antonym", "wn:00000008-a") in triples
    assert all(triple.relation != SENSE_OF for triple in triples)
    assert len(triples) == 8


GOOD = "00000020 05 n 01 cat 0 001 @ 00000002 n 0000 | purrs"
UNFIT = "the fields do not fit the counts of words and pointers"
DAMAGE = {  # a damaged line, what is said of it, how many texts it still gives
    "no gloss": (GOOD.replace(" | ", " "), "no gloss", 0),
    "count is not a number": (GOOD.replace("001 @", "one @"), UNFIT, 0),
    "count with an underscore": (GOOD.replace("001 @", "0_1 @"), UNFIT, 0),
    "count with a sign": (GOOD.replace("001 @", "+01 @"), UNFIT, 0),
    "short word numbers": (GOOD.replace("0000 |", "00 |"), UNFIT, 0),
    "pointer missing": (GOOD.replace("001 @", "002 @"), UNFIT, 0),
    "pointer too many": (GOOD.replace("001 @", "000 @"), "7 fields announced", 0),
    "short offset": (GOOD.replace("00000020", "20"), "not eight digits", 0),
    "other part of speech": (GOOD.replace("05 n 01", "05 v 01"), "synset type 'v'", 0),
    "no part of speech": (GOOD.replace("05 n 01", "05  01"), "synset type ''", 0),
    "no such file number": (GOOD.replace("05 n", "77 n"), "lexicographer file number", 0),
    "offset twice": (GOOD.replace("00000020", "00000002"), "a second synset", 0),
    "NUL": (GOOD.replace("cat", "c\0t"), "NUL byte", 0),
    "unknown symbol": (GOOD.replace("@", "?"), "unknown pointer symbol", 3),
    "dangling pointer": (GOOD.replace("00000002", "00000099"), "synset that is not there", 3),
    "no such word": (GOOD.replace("0000 |", "0109 |"), "word that its synset does not have", 3),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_stops_or_is_counted(case: str, folder: Path, tmp_path: Path) -> None:
    line, reason, n_texts = DAMAGE[case]
    n_good = len(load(folder, DamageReport()))
    add_line(folder, line)
    with pytest.raises(DamageError, match=r"data\.noun, line 4 \(byte \d+\)") as stopped:
        load(folder, DamageReport())
    assert reason in str(stopped.value)
    for policy in (DamagePolicy.SKIP, DamagePolicy.QUARANTINE):
        sink = tmp_path / "bad" if policy is DamagePolicy.QUARANTINE else None
        report = DamageReport(policy, sink)
        records = load(folder, report)
        assert report.n_rejected == 1
        assert report.rejections[0].line == 4
        assert reason in report.rejections[0].reason
        assert len(records) == n_good + n_texts
    assert (tmp_path / "bad").read_bytes().count(b"\n") == 1


def test_missing_files_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cntlist.rev").unlink()
    with pytest.raises(SourceError, match=r"cntlist\.rev"):
        load(folder, DamageReport())
    (folder / "data.adv").unlink()
    with pytest.raises(SourceError, match=r"data\.adv is missing"):
        load(folder, DamageReport())
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    assert find_wordnet() == folder
    monkeypatch.setenv("WNSEARCHDIR", str(folder / "none"))
    with pytest.raises(SourceError, match="wordnet-base"):
        find_wordnet()


def test_lexicon_on_a_small_wordnet(folder: Path) -> None:
    lexicon = Lexicon.open(folder)
    assert lexicon.synsets("Dog") == ("wn:00000001-n", "wn:00000005-v")
    assert lexicon.synsets("dog", "v") == ("wn:00000005-v",)
    assert lexicon.synsets("nothing") == ()
    assert lexicon.morphy("dawgs", "n") == ["dog"]
    assert lexicon.morphy("animals", "n") == ["animal"]
    assert lexicon.morphy("dogging", "v") == []  # morphy(7) does not undouble consonants
    with (folder / "index.noun").open("a") as file:
        file.write("cat n 2 1 @ 1 1 00000020\n")
    with pytest.raises(DamageError, match=r"index\.noun, line 4"):
        Lexicon.open(folder)


def test_parse_synset_keeps_markers_out_of_lemmas() -> None:
    synset = parse_synset("00014490 00 s 02 galore(ip) 0 plenty 0 000 | in plenty", "a")
    assert [word.lemma for word in synset.words] == ["galore", "plenty"]
    assert synset.id == "wn:00014490-a"


# ---- the real one --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(wordnet_files: Path) -> tuple[list[Triple | Text], DamageReport]:
    report = DamageReport()
    return load(wordnet_files, report), report


@pytest.mark.wordnet
def test_each_pointer_symbol_is_counted_as_in_the_files(
    wordnet_files: Path, real: tuple[list[Triple | Text], DamageReport]
) -> None:
    in_files: Counter[str] = Counter()
    n_synsets = 0
    for part in PARTS:
        for line in (wordnet_files / f"data.{part}").read_bytes().decode().split("\n"):
            if line[:1].isdigit():
                n_synsets += 1
                fields = line.split("|")[0].split()
                first = 5 + 2 * int(fields[3], 16)
                in_files.update(fields[first : first + 4 * int(fields[first - 1]) : 4])
    records, report = real
    in_records = Counter(r.relation for r in records if isinstance(r, Triple))
    del in_records[SENSE_OF]
    assert {RELATIONS[symbol]: n for symbol, n in in_files.items()} == in_records
    assert len(in_files) == len(RELATIONS) == 26
    assert n_synsets == 117_659
    labelled = [
        r for r in records
        if isinstance(r, Text) and r.kind is TextKind.LABEL and not r.is_relation
    ]  # fmt: skip
    assert len(labelled) == len({text.node for text in labelled}) == n_synsets
    assert report.n_rejected == 0


@pytest.mark.wordnet
def test_repeated_pointers_of_the_files_fall_together(
    real: tuple[list[Triple | Text], DamageReport],
) -> None:
    triples = [record for record in real[0] if isinstance(record, Triple)]
    repeated = Counter(triple.relation for triple in triples)
    repeated.subtract(triple.relation for triple in dict.fromkeys(triples))
    # Nine pointers stand twice in the files; "Baroque" and "baroque" are one sense key.
    assert +repeated == {"derivationally_related_form": 9, "pertainym": 1}


@pytest.mark.wordnet
def test_candidates_and_sense_keys_of_the_real_files(
    wordnet_files: Path, real: tuple[list[Triple | Text], DamageReport]
) -> None:
    lexicon = Lexicon.open(wordnet_files)
    assert lexicon.synsets("bank", "n")[:2] == ("wn:09213565-n", "wn:08420278-n")
    expected = {
        ("geese", "n"): ["goose"], ("ran", "v"): ["run"], ("boxesful", "n"): ["boxful"],
        ("glass", "n"): ["glass"], ("axes", "n"): ["ax", "axis"], ("best", "r"): ["best", "well"],
    }  # fmt: skip
    assert {key: lexicon.morphy(*key) for key in expected} == expected
    keys = sense_keys(wordnet_files)
    assert keys["bank%1:17:01::"] == "wn:09213565-n"
    assert keys["galore%5:00:00:abundant:00"].endswith("-a")
    bank = [r for r in real[0] if isinstance(r, Text) and r.node == "wn:09213565-n"]
    assert bank[0][2:5] == ("bank", "en", 25)
    assert len(keys) == 206_949
    for key, synset in keys.items():
        assert synset in lexicon.synsets(key.split("%")[0], synset[-1])


def test_small_wordnet_makes_a_graph(folder: Path) -> None:
    graph = graph_from_records(load(folder, DamageReport()))
    dog = graph.entities.id("wn:00000001-n")
    assert graph.label(dog) == "dog"
    assert graph.types(dog) == ["noun.animal"]


def test_a_folder_of_wordnet_is_known_by_its_files(folder: Path) -> None:
    graph = open_graph(folder)
    assert sorted(graph) == sorted(open_graph(folder, format="wordnet"))
    assert "wn:dog%1:05:00::" in graph
