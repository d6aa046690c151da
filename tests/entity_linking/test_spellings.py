"""Names in other spellings are linked, at the right offsets, and exact spellings win."""

from __future__ import annotations

import pytest

from entity_linking import DictionaryLinker
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records

NAMES = (
    "New York",
    "Yahoo!",
    ".NET",
    "C++",
    "C#",
    "AT&T",
    "U.S.",
    "R&D",
    "3M",
    "will.i.am",
    "Guinea-Bissau",
    "Côte d'Ivoire",
    "İzmir",
    "Ankara",
    "Straße des 17. Juni",
    "O'Neill",
    "北京",
    "東京都",
    "กรุงเทพ",
    "القدس",
    "Σίσυφος",
    "São Paulo",
    "Müller",
    "1984",
    "9/11",
    "TNF-α",
    "IL-2",
    "NF-κB",
    "vitamin B12",
    "5-HT",
    "H₂O",
    "Jr. Walker",
    "St. John's",
    "Rock 'n' Roll",
    "ﬁnland",
    "Москва",
    "Ёлка",
    "e.V.",
    "Beyoncé",
    "Hawaiʻi",
    "naïve Bayes",
    "Ａpple",
    "Schrödinger–Newton equation",
    "p53",
    "(E)-2-hexenal",
    "Panic! at the Disco",
    "?uestlove",
    "$ave",
    "A*Teens",
    "M&M's",
    "Dr. Who",
    "β-catenin",
    "T cell",
    "Alzheimer's disease",
)


def graph_of(*names: str) -> KnowledgeGraph:
    return graph_from_records([Text(f"E:{n}", TextKind.LABEL, n) for n in names])


def links(linker: DictionaryLinker, text: str) -> list[tuple[str, str]]:
    (linked,) = linker.link([text])
    assert linked.text == text
    return [(text[k.start : k.end], (k.entity or "")[2:]) for k in linked.links]


@pytest.fixture(scope="module")
def linker() -> DictionaryLinker:
    return DictionaryLinker(graph_of(*NAMES))


@pytest.mark.parametrize(
    ("name", "text", "surface"),
    [
        ("New York", "He lives in New\xa0York now.", "New\xa0York"),
        ("New York", "He lives in New\nYork now.", "New\nYork"),
        ("New York", "in NEW YORK today", "NEW YORK"),
        ("New York", "in New  York today", "New  York"),
        ("New York", "in New\u200bYork today", None),
        ("New York", "the New York-based firm", "New York"),
        ("New York", "New York's mayor", "New York"),
        ("New York", "New York’s mayor", "New York"),
        ("New York", "New York`s mayor", "New York"),
        ("New York", "#NewYork rocks", None),
        ("New York", "in New\u2009York today", "New\u2009York"),
        ("New York", "in _New York_ today", "New York"),
        ("New York", "in **New York** today", "New York"),
        ("New York", "see New_York page", "New_York"),
        ("Yahoo!", "He joined Yahoo! in 1999.", "Yahoo!"),
        ("Yahoo!", "He joined Yahoo in 1999.", "Yahoo"),
        (".NET", "We use .NET and others.", ".NET"),
        ("C++", "We use C++ here.", "C++"),
        ("C++", "We use C++, too.", "C++"),
        ("C#", "Write it in C#.", "C#"),
        ("AT&T", "Calls by AT&T rose.", "AT&T"),
        ("AT&T", "Calls by AT&amp;T rose.", "AT&amp;T"),
        ("U.S.", "Made in the U.S. in May.", "U.S."),
        ("U.S.", "Made in the US in May.", "US"),
        ("U.S.", "Made in the U. S. in May.", "U. S."),
        ("R&D", "Spent on R&D.", "R&D"),
        ("3M", "Tape by 3M sells.", "3M"),
        ("will.i.am", "Song by will.i.am is out.", "will.i.am"),
        ("Guinea-Bissau", "in Guinea–Bissau today", "Guinea–Bissau"),
        ("Guinea-Bissau", "in Guinea‑Bissau today", "Guinea‑Bissau"),
        ("Guinea-Bissau", "in Guinea Bissau today", "Guinea Bissau"),
        ("Guinea-Bissau", "in Guinea−Bissau today", "Guinea−Bissau"),
        ("Côte d'Ivoire", "in Côte d’Ivoire today", "Côte d’Ivoire"),
        ("Côte d'Ivoire", "in Côte d'Ivoire today", "Côte d'Ivoire"),
        ("Côte d'Ivoire", "in Cote d'Ivoire today", "Cote d'Ivoire"),
        ("Côte d'Ivoire", "in Côte d`Ivoire today", "Côte d`Ivoire"),
        ("Côte d'Ivoire", "in Côte dʼIvoire today", "Côte dʼIvoire"),
        ("İzmir", "from İzmir to Ankara", "İzmir"),
        ("Ankara", "from İzmir to Ankara", "Ankara"),
        ("İzmir", "from Izmir by bus", "Izmir"),
        ("İzmir", "from izmir by bus", "izmir"),
        ("Straße des 17. Juni", "on Strasse des 17. Juni", "Strasse des 17. Juni"),
        ("O'Neill", "by O’Neill", "O’Neill"),
        ("O'Neill", "by O′Neill", "O′Neill"),
        ("北京", "我住在北京市中心。", "北京"),
        ("東京都", "彼は東京都に住む", "東京都"),
        ("กรุงเทพ", "ฉันอยู่ในกรุงเทพครับ", "กรุงเทพ"),
        ("القدس", "مدينة القدس قديمة", "القدس"),
        ("القدس", "مدينة القُدس قديمة", "القُدس"),
        ("Σίσυφος", "ο ΣΊΣΥΦΟΣ πάλι", "ΣΊΣΥΦΟΣ"),
        ("São Paulo", "😀😀 in São Paulo", "São Paulo"),
        ("Müller", "Frau Müllers Haus", None),
        ("1984", "I read 1984 twice.", "1984"),
        ("9/11", "after 9/11 all changed", "9/11"),
        ("TNF-α", "levels of TNF-α rose", "TNF-α"),
        ("TNF-α", "levels of TNF‐α rose", "TNF‐α"),
        ("TNF-α", "levels of TNF-alpha rose", "TNF-alpha"),
        ("TNF-α", "levels of TNFα rose", "TNFα"),
        ("IL-2", "levels of TNFα/IL-2 rose", "IL-2"),
        ("NF-κB", "the NF-kB path", "NF-kB"),
        ("vitamin B12", "low vitamin B₁₂", "vitamin B₁₂"),
        ("vitamin B12", "low Vitamin B12.", "Vitamin B12"),
        ("5-HT", "of 5-HT receptors", "5-HT"),
        ("H₂O", "drink H2O daily", "H2O"),
        ("H₂O", "drink H₂O daily", "H₂O"),
        ("Jr. Walker", "by Jr. Walker.", "Jr. Walker"),
        ("St. John's", "in St. John’s.", "St. John’s"),
        ("Rock 'n' Roll", "old Rock ’n’ Roll tune", "Rock ’n’ Roll"),
        ("Rock 'n' Roll", "old Rock 'n' Roll tune", "Rock 'n' Roll"),
        ("ﬁnland", "in Finland it snows", "Finland"),
        ("Москва", "в МОСКВА город", "МОСКВА"),
        ("Ёлка", "это елка дома", "елка"),
        ("e.V.", "der Verein e.V. tagt", "e.V."),
        ("Beyoncé", "song by Beyonce out", "Beyonce"),
        ("Hawaiʻi", "sun in Hawai'i now", "Hawai'i"),
        ("Hawaiʻi", "sun in Hawaii now", "Hawaii"),
        ("naïve Bayes", "a naive Bayes model", "naive Bayes"),
        ("Ａpple", "by Apple Inc", "Apple"),
        (
            "Schrödinger–Newton equation",
            "the Schrödinger-Newton equation is",
            "Schrödinger-Newton equation",
        ),
        ("p53", "of p53 and", "p53"),
        ("p53", "of P53 and", "P53"),
        ("(E)-2-hexenal", "smell of (E)-2-hexenal rose", "(E)-2-hexenal"),
        ("Panic! at the Disco", "by Panic! at the Disco", "Panic! at the Disco"),
        ("?uestlove", "drums by ?uestlove.", "?uestlove"),
        ("M&M's", "ate M&M’s today", "M&M’s"),
        ("A*Teens", "by A*Teens", "A*Teens"),
        ("β-catenin", "of β-catenin.", "β-catenin"),
        ("β-catenin", "of beta-catenin.", "beta-catenin"),
        ("T cell", "many T cells died", "T cells"),
        ("T cell", "many T-cells died", "T-cells"),
        ("Alzheimer's disease", "has Alzheimer’s disease", "Alzheimer’s disease"),
        ("Alzheimer's disease", "has Alzheimer disease", "Alzheimer disease"),
        ("Alzheimer's disease", "has Alzheimers disease", "Alzheimers disease"),
    ],
)
def test_a_name_is_linked_where_it_stands(
    linker: DictionaryLinker, name: str, text: str, surface: str | None
) -> None:
    answers = links(linker, text)
    if surface is None:
        assert name not in [entity for _, entity in answers]
    else:
        assert (surface, name) in answers


@pytest.mark.parametrize(
    ("name", "surface"),
    [
        ("Saint-Étienne", "Saint–Étienne"),
        ("Saint–Étienne", "Saint-Etienne"),
        ("Navier–Stokes equations", "Navier-Stokes equations"),
        ("Austria-Hungary", "Austria‐Hungary"),
        ("Austria-Hungary", "Austria－Hungary"),
        ("בית־לחם", "בית-לחם"),
        ("N'Djamena", "N´Djamena"),
        ("Sana'a", "Sanaʿa"),
        ("Xi'an", "Xi＇an"),
        ("Знам'янка", "Знамʼянка"),
        ("Side A", "Ｓｉｄｅ Ａ"),
        ("CO2", "CO₂"),
        ("CO₂", "CO2"),
        ("Oﬃce Depot", "Office Depot"),
        ("m²", "m2"),
        ("ℝ-tree", "R-tree"),
        ("Ⅳ Corps", "IV Corps"),
        ("ガンダム", "ｶﾞﾝﾀﾞﾑ"),
        ("مُحَمَّد", "محمد"),
        ("محمد", "محـــمد"),
        ("שָׁלוֹם", "שלום"),
        ("IFN-γ", "IFN-gamma"),
        ("IFN-gamma", "IFN-γ"),
        ("α-synuclein", "alpha-synuclein"),
        ("alpha-synuclein", "α-synuclein"),
        ("DNA polymerase", "DNA polymerases"),
        ("B cell", "B-cell"),
        ("Los_Angeles", "Los Angeles"),
        ("Los Angeles", "Los_Angeles"),
        ("Weißensee", "Weissensee"),
        ("İncirlik", "Incirlik"),
        ("Ёж", "еж"),
        ("Johnson & Johnson", "Johnson &amp; Johnson"),
        ("Johnson & Johnson", "Johnson &#38; Johnson"),
        ("Hodgkin's lymphoma", "Hodgkin lymphoma"),
        ("TGF-β1", "TGF-beta 1"),
        ("TGF-β1", "TGFβ1"),
        ("TGF-β1", "TGFbeta1"),
        ("PPARγ", "PPAR-γ"),
        ("PPARγ", "PPAR-gamma"),
        ("IL-1β", "IL-1beta"),
        ("RNA virus", "RNA viruses"),
        ("PCR analysis", "PCR analyses"),
        ("GPS compass", "GPS compasses"),
        ("Alsace-Lorraine", "Alsace\u2010Lorraine"),
        ("Oʻahu", "Oʼahu"),
        ("L’Aquila", "L'Aquila"),
        ("Henry Ⅷ", "Henry VIII"),
        ("Sony", "Ｓｏｎｙ"),
        ("Ångström unit", "\u212bngstro\u0308m unit"),
        ("Dvořák", "Dvor\u030ca\u0301k"),
        ("μ-opioid receptor", "µ-opioid receptor"),
        ("µ-opioid receptor", "mu-opioid receptor"),
        ("مكة", "مـكـة"),
        ("カメラ", "ｶﾒﾗ"),
        ("Gießen", "GIESSEN"),
        ("Straßburg", "STRAẞBURG"),
        ("Diyarbakır", "DIYARBAKIR"),
        ("Łódź", "LODZ"),
        ("Đà Nẵng", "Da Nang"),
        ("Αθήνα", "ΑΘΗΝΑ"),
        ("5′ cap", "5' cap"),
        ("Hong Kong", "Hong\u3000Kong"),
        ("Hannover", "Han\u00adno\u00adver"),
    ],
)
def test_each_kind_of_spelling(name: str, surface: str) -> None:
    assert links(DictionaryLinker(graph_of(name)), f"So {surface} is") == [(surface, name)]


def test_signs_before_a_name_move_no_link() -> None:
    """Where folding changes the length of a text, links still point at the text as it was given."""
    name, before = "TGF-β1", "😀 e\u0301 İ ẞ ﬁ ｶﾞ &amp; \u00ad> "
    for surface in ("TGF-β1", "TGF–beta 1", "ＴＧＦ-β₁"):
        (text,) = DictionaryLinker(graph_of(name)).link([f"{before}of {surface} is"])
        start = len(before) + len("of ")
        assert [(link.mention.start, link.mention.end) for link in text.links] == [
            (start, start + len(surface))
        ]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("H2O", "H₂O"), "H2O"),
        (("H2O", "H₂O"), "H₂O"),
        (("Guinea-Bissau", "Guinea–Bissau"), "Guinea–Bissau"),
        (("Guinea-Bissau", "Guinea–Bissau"), "Guinea-Bissau"),
        (("New_York", "New York"), "New_York"),
        (("O'Neill", "O’Neill"), "O’Neill"),
    ],
)
def test_the_very_characters_win(names: tuple[str, str], text: str) -> None:
    assert links(DictionaryLinker(graph_of(*names)), f"So {text} is") == [(text, text)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Windows", "Paris—Dakar"),
        ("half", "½"),
        ("apple", "Apples"),
        ("killer whale", "killer whales"),
        ("T cell", "T cellar"),
        ("Elka", "elka"),
        ("AT&T", "AT&ltT"),
    ],
)
def test_other_words_are_no_spelling(name: str, text: str) -> None:
    assert name not in [entity for _, entity in links(DictionaryLinker(graph_of(name)), text)]


def test_signs_do_not_become_letters() -> None:
    assert links(DictionaryLinker(graph_of("Windows")), "On Windows™.") == [("Windows", "Windows")]
