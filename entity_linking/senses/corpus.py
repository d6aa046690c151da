"""All-words word sense disambiguation: the evaluation framework's files and its score.

Raganato, Camacho-Collados and Navigli (2017), "Word Sense Disambiguation: A Unified Evaluation
Framework and Empirical Comparison". `NAME.data.xml` holds `<text>` > `<sentence>` > `<wf>` or
`<instance>` with `lemma` and `pos`; `NAME.gold.key.txt` holds `instance_id sense_key ...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.scoring import LinkScore
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamageReport
from kg_loaders.formats.wordnet import sense_keys
from kg_loaders.rdf.nesting import check_xml
from kg_loaders.reading.lines import read_lines, read_whole

PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
"""WordNet's letter of each tag of the framework that WordNet has words for."""

_MARKER = re.compile(r"\((?:a|p|ip)\)(?=:)")


@dataclass(frozen=True, slots=True)
class SenseWord:
    """A content word: where it stands, its base form and part of speech (`n`, `v`, `a`, `r`).

    `id` is the instance's, None for a word that is context only; `keys` are its gold sense keys.
    """

    mention: Mention
    lemma: str
    part: str
    id: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SenseText:
    """A document, one sentence per line, tokens separated by spaces, with all its content words."""

    id: str
    text: str
    words: tuple[SenseWord, ...]

    @property
    def linked(self) -> LinkedText:
        """The text with a NIL link for each word, in the order of `words`."""
        return LinkedText(
            self.text, tuple(Link(word.mention, (), None, 1.0) for word in self.words), self.id
        )


def read_senses(data: str | Path, keys: str | Path | None = None) -> list[SenseText]:
    """Read `NAME.data.xml` (or `.xml.gz`) and the gold keys beside it; one text per document.

    Raises `LinkingError` for XML that is broken or not of this form, an instance whose part of
    speech WordNet does not have, and gold keys of instances that are not there, or instances
    without keys when `keys` is given.
    """
    path = Path(data)
    gold = {} if keys is None else dict(_read_keys(Path(keys)))
    budget = ReaderBudget.from_environment()
    raw = read_whole(path, budget)
    check_xml(str(path), raw, budget)
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise LinkingError(f"{path} is not well-formed XML: {error}") from error
    texts = [_text(node, gold, path) for node in root.iter("text")]
    ids = [word.id for text in texts for word in text.words if word.id is not None]
    if len(set(ids)) != len(ids):
        raise LinkingError(f"{path} has an instance id twice; ids name the instances of gold keys")
    if keys is not None and (odd := sorted(set(gold) ^ set(ids))):
        raise LinkingError(
            f"{path} and {keys} do not match: {len(odd)} instances are in one of them only, "
            f"such as {odd[0]!r}"
        )
    return texts


def _read_keys(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, _, line in read_lines(path, DamageReport()):
        fields = line.decode().split()
        if len(fields) == 1:
            raise LinkingError(f"{path}, line {number}: instance {fields[0]!r} has no sense key")
        if fields:
            yield fields[0], tuple(fields[1:])


def _text(node: ElementTree.Element, gold: Mapping[str, tuple[str, ...]], path: Path) -> SenseText:
    words: list[SenseWord] = []
    lines: list[str] = []
    at = 0
    for sentence in node.iter("sentence"):
        forms = []
        for token in sentence:
            form = " ".join((token.text or "").split())
            if not form:
                raise LinkingError(f"{path}: sentence {sentence.get('id')!r} has an empty token")
            word = _word(token, Mention(at, at + len(form)), gold, path)
            if word is not None:
                words.append(word)
            forms.append(form)
            at += len(form) + 1
        lines.append(" ".join(forms))
        at += not forms
    return SenseText(node.get("id", ""), "\n".join(lines), tuple(words))


def _word(
    token: ElementTree.Element, mention: Mention, gold: Mapping[str, tuple[str, ...]], path: Path
) -> SenseWord | None:
    part = PARTS_OF_SPEECH.get(token.get("pos", ""))
    name, lemma = token.get("id"), token.get("lemma", "")
    if token.tag == "instance" and (part is None or not name or not lemma):
        raise LinkingError(
            f"{path}: instance {name!r} needs an id, a lemma and one of the parts of speech "
            f"{', '.join(PARTS_OF_SPEECH)}, not lemma {lemma!r} and {token.get('pos')!r}"
        )
    if part is None or not lemma:
        return None
    if token.tag != "instance" or name is None:
        return SenseWord(mention, lemma, part)
    return SenseWord(mention, lemma, part, name, gold.get(name, ()))


def gold_synsets(wordnet: str | Path | None = None) -> dict[str, str]:
    """The synset of every sense key as the framework writes it; `wordnet` as in `sense_keys`.

    WordNet's `cntlist.rev` keeps the syntactic marker of a cluster's head, as in
    `several%5:00:00:some(a):00`, and so does `sense_keys`; the framework drops it.
    """
    return {_MARKER.sub("", key): synset for key, synset in sense_keys(wordnet).items()}


def answers(texts: Sequence[SenseText], linked: Sequence[LinkedText]) -> dict[str, str | None]:
    """The entity that each instance was linked to, by instance id; None where there is no answer.

    `linked` are the texts' links in the order of their words, as a `Pipeline` returns them for
    `SenseText.linked`.
    """
    keys: dict[str, str | None] = {}
    for text, links in zip(texts, linked, strict=True):
        for word, link in zip(text.words, links.links, strict=True):
            if word.mention != link.mention:
                raise LinkingError(f"{link.mention} of {text.id!r} stands for {word.mention}")
            if word.id is not None:
                keys[word.id] = link.entity
    return keys


def correct(
    texts: Sequence[SenseText], answered: Mapping[str, str | None], synset_of: Mapping[str, str]
) -> dict[str, bool]:
    """Whether the answer to each instance, in order, is one of its gold synsets.

    `synset_of` is `gold_synsets()`; a gold key that it lacks can never be met.
    """
    return {
        word.id: answered.get(word.id) in {synset_of[key] for key in word.keys if key in synset_of}
        for text in texts
        for word in text.words
        if word.id is not None
    }


def score_senses(
    texts: Sequence[SenseText], answered: Mapping[str, str | None], synset_of: Mapping[str, str]
) -> LinkScore:
    """The framework's precision (of those answered), recall (of all instances) and F1.

    An answer is right if it is any of the instance's gold senses; a system gives one answer.
    """
    right = correct(texts, answered, synset_of)
    n_answered = sum(answered.get(name) is not None for name in right)
    return LinkScore(n_gold=len(right), n_predicted=n_answered, n_correct=sum(right.values()))


def sentence_of(text: LinkedText) -> NDArray[np.int64]:
    """Number of the line that each link starts in, `[link]`: in sense texts, its sentence."""
    ends = np.array([i for i, letter in enumerate(text.text) if letter == "\n"], np.int64)
    starts = np.array([link.mention.start for link in text.links], np.int64)
    return np.searchsorted(ends, starts, side="left")
