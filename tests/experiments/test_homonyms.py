"""Two names of a private graph made one: what is renamed, where, and what was meant."""

from __future__ import annotations

from entity_linking import LinkedText, gold_link
from entity_linking.mentions import Mention
from experiments.entity_linking.end_to_end.homonyms import HOMONYM, OFTEN, conflated


def test_pairs_of_names_become_one() -> None:
    names = {"Q1": "ab", "Q2": "wxyz", "Q3": "rare"}
    texts, kinds = [], {}
    for number in range(OFTEN):
        words = "ab and wxyz, ab's kind"
        links = [gold_link(0, 2, "Q1"), gold_link(7, 11, "Q2"), gold_link(13, 17, "Q1")]
        texts.append(LinkedText(words, tuple(links), str(number)))
        for link, kind in zip(links, ("label", "label", "synonym"), strict=True):
            kinds[str(number), link.mention] = kind
    texts.append(LinkedText("rare", (gold_link(0, 4, "Q3"),), "rare"))
    kinds["rare", Mention(0, 4)] = "label"
    renamed, changed, of_kind = conflated(texts, kinds, seed=0)
    ((other, name),) = renamed.items()
    assert {other, name} in ({"Q1", "wxyz"}, {"Q2", "ab"})
    new_names = {**names, other: name}
    first, last = changed[0], changed[-1]
    output = [first.text[k.mention.start : k.mention.end] for k in first.links]
    assert output == [new_names["Q1"], new_names["Q2"], "ab's"]
    assert first.text == f"{new_names['Q1']} and {new_names['Q2']}, ab's kind"
    assert [of_kind["0", k.mention] for k in first.links] == [HOMONYM, HOMONYM, "synonym"]
    assert (last, of_kind["rare", Mention(0, 4)]) == (texts[-1], "label")
