"""A WordNet of eleven synsets around banks, written by hand, and two annotated documents."""

from __future__ import annotations

from pathlib import Path

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.formats.wordnet_lexicon import Lexicon

SHORE, LENDER, RIVER, MONEY, WATER, FLOW, LEND, RICH, SLOPE, ENTITY, SOON = (
    f"wn:{i:08d}-{part}" for i, part in enumerate("nnnnnvvanrr", start=1)
)
WORDS: dict[str, list[tuple[str, int]]] = {
    SHORE: [("bank", 20)], LENDER: [("bank", 25), ("depository", 0)], RIVER: [("river", 8)],
    MONEY: [("money", 9)], WATER: [("water", 30)], FLOW: [("flow", 3), ("run", 1)],
    LEND: [("lend", 2), ("bank", 1)], RICH: [("rich", 4)], SLOPE: [("slope", 2), ("bank", 0)],
    ENTITY: [("entity", 11)], SOON: [("soon", 5)],
}  # fmt: skip
GLOSSES = {
    SHORE: 'sloping land beside a body of water; "they sat on the bank of the river"',
    LENDER: "an institution that lends money",
    RIVER: "a large natural stream of water",
    MONEY: "what the rich have",
    FLOW: "move as water",
    SLOPE: "a bank",
}
EDGES = [
    (SHORE, SLOPE), (SHORE, RIVER), (RIVER, WATER), (FLOW, WATER), (LENDER, MONEY), (LEND, MONEY),
    (LEND, LENDER), (RICH, MONEY), (WATER, ENTITY), (MONEY, ENTITY), (LENDER, ENTITY),
]  # fmt: skip
SYNSETS = {
    ("bank", "n"): (SHORE, LENDER, SLOPE), ("bank", "v"): (LEND,), ("river", "n"): (RIVER,),
    ("depository", "n"): (LENDER,), ("money", "n"): (MONEY,), ("water", "n"): (WATER,),
    ("flow", "v"): (FLOW,), ("run", "v"): (FLOW,), ("lend", "v"): (LEND,), ("rich", "a"): (RICH,),
    ("slope", "n"): (SLOPE,), ("entity", "n"): (ENTITY,), ("soon", "r"): (SOON,),
}  # fmt: skip

DATA = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="mini">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="bank" pos="NOUN">banks</instance>
<wf lemma="of" pos="ADP">of</wf>
<wf lemma="the" pos="DET">the</wf>
<instance id="d0.s0.t1" lemma="river" pos="NOUN">river</instance>
<wf lemma="flow" pos="VERB">flow</wf>
<wf lemma="xyzzy" pos="NOUN">xyzzy</wf>
</sentence>
<sentence id="d0.s1">
<wf lemma="soon" pos="ADV">Soon</wf>
<instance id="d0.s1.t0" lemma="run" pos="VERB">ran</instance>
<wf lemma="water" pos="NOUN">water</wf>
</sentence>
</text>
<text id="d1">
<sentence id="d1.s0">
<instance id="d1.s0.t0" lemma="bank" pos="NOUN">Bank</instance>
<wf lemma="lend" pos="VERB">lends</wf>
<instance id="d1.s0.t1" lemma="money" pos="NOUN">money</instance>
<wf lemma="to" pos="PRT">to</wf>
<wf lemma="a" pos="DET">a</wf>
<instance id="d1.s0.t2" lemma="bank" pos="NOUN">bank</instance>
</sentence>
</text>
</corpus>
"""
KEYS = """d0.s0.t0 bank%1:17:01::
d0.s0.t1 river%1:17:00::
d0.s1.t0 run%2:38:00:: flow%2:38:01::
d1.s0.t0 bank%1:14:00::
d1.s0.t1 money%1:21:00::
d1.s0.t2 bank%1:14:00:: nonsense%1:00:00::
"""
SYNSET_OF = {
    "bank%1:17:01::": SHORE, "bank%1:14:00::": LENDER, "river%1:17:00::": RIVER,
    "run%2:38:00::": FLOW, "flow%2:38:01::": FLOW, "money%1:21:00::": MONEY,
}  # fmt: skip


def mini_graph() -> KnowledgeGraph:
    """The synsets with labels, tag counts, glosses and relations."""
    records: list[Triple | Text] = [Triple(head, "near", tail) for head, tail in EDGES]
    for synset, words in WORDS.items():
        for i, (word, n) in enumerate(words):
            kind = TextKind.ALIAS if i else TextKind.LABEL
            records.append(Text(synset, kind, word, "en", n))
        if synset in GLOSSES:
            records.append(Text(synset, TextKind.DESCRIPTION, GLOSSES[synset], "en"))
    return graph_from_records(records)


def mini_lexicon() -> Lexicon:
    return Lexicon(SYNSETS, {("ran", "v"): ("run",)})


def write_corpus(folder: Path, name: str = "mini") -> tuple[Path, Path]:
    """`NAME.data.xml` and `NAME.gold.key.txt` in `folder`."""
    data, keys = folder / f"{name}.data.xml", folder / f"{name}.gold.key.txt"
    data.write_text(DATA, encoding="utf-8")
    keys.write_text(KEYS, encoding="utf-8")
    return data, keys
