"""What a question asks for beyond one fact: a count, a yes or no, two steps, a comparison.

The forms are read from the words of an English question alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Form = Literal["values", "count", "yes or no"]
COUNT = re.compile(r"(?:in |on |at |of |for |with |to )?how many\b|what is the number of\b", re.I)
YES_OR_NO = re.compile(
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would)(?:n't)?\b", re.I
)
IMPERATIVE = re.compile(
    r"(?:please\s+)?(?:name|list|show|give|find|tell)(?:\s+me)?(?:\s+(?:all|every|each))?\s+(?=\S)",
    re.I,
)
RANKED = (
    r"(?:old|young|tall|short|long|bigg|small|larg|high|deep|earli|lat|heavi|fast|rich|poor|"
    r"clos|near|few|cheap|great|hott|thinn|wid|new|warm|cold|strong|slow)"
)
COMPARISON = re.compile(
    rf"\b(?:{RANKED}er|more|less|fewer|better|worse|earlier|later)\b.*(?:\bthan\b|,|\bor\b)|"
    r"\bthe same\b|\bin common\b|\bdifference\b|\bboth\b|\bmore than \d",
    re.I,
)
SUPERLATIVE = re.compile(rf"\b(?:{RANKED}est|most (?!famous)\w+|least \w+|first|last)\b", re.I)
NEGATION = re.compile(r"\b(?:not|never|except|without|neither|nor)\b|n't\b", re.I)
CONDITION = re.compile(
    r"\b(?:before|after|between|until|in|since|from) (?:the year )?\d{3,4}\b", re.I
)
CONNECTING = r"(?:of|by|that|which|who|whom|whose|where|in which|by whom)"
CONNECTOR = rf"(?:{CONNECTING}|(?=\w+ing\b))"
"""Between two nouns of a phrase; before "holding" there is none."""
LISTED = re.compile(
    r"\b(?:which|what|how many)\s+(?:are\s+|is\s+)?(?:all\s+)?(?:the\s+)?"
    r"([^\W\d_]+(?:\s+[^\W\d_]+)?)\b",
    re.I,
)
CLASS = re.compile(r"\s+an?\s+([\w -]+?)\s*\??$", re.I)
OF = re.compile(r"\s+(?:the|an?)\s+[\w -]+\s+of(?:\s+the)?\s+$", re.I)
PARTICIPLE = re.compile(r"\s+(?:\w+ed|born|made|written|built|found|taught|held|from)\b", re.I)
WHERE_OR_WHEN = re.compile(r"(?:where|when)\b", re.I)
NAMES_NOTHING = re.compile(
    r"(?:(?:in|on|at|by|to|of|from|for|with|under)\s+)?"
    r"(?:what|which|who|whom|where|when)?\s*(?:is|are|was|were|be|called|named|does|did|has)?\s*"
    r"(?:called|named|located|situated|the name of)?\s*\??",
    re.I,
)


@dataclass(frozen=True)
class TwoSteps:
    """A question about what another phrase names.

    In "Where was the author of Hamlet born?" the `inner` question is "What is the author of
    Hamlet?"; `before` and `after` are what surrounds the phrase, and `is_clause` says whether it is
    a clause ("the museum that holds Hamlet") and so never the name of a relation.
    """

    before: str
    after: str
    inner: str
    is_clause: bool

    @property
    def inners(self) -> tuple[str, ...]:
        """The inner question, and the same with "who" where it could be about a person."""
        who = re.sub(r"^What is\b", "Who is", self.inner)
        return tuple(dict.fromkeys((self.inner, who)))

    def outer(self, name: str) -> str:
        """Return the question about `name`."""
        return f"{self.before}{name}{self.after}"


def form_of(question: str) -> Form:
    """Return the form of a question.

    >>> form_of("How many works did Ada paint?"), form_of("Is Ada a painter?")
    ('count', 'yes or no')
    """
    if COUNT.match(question):
        return "count"
    return "yes or no" if YES_OR_NO.match(question) else "values"


def as_question(text: str) -> str:
    """Return a request as a question: "List the works of Ada." as "What are the works of Ada?".

    >>> as_question("Name the capital of France.")
    'What is the capital of France?'
    """
    match = IMPERATIVE.match(text)
    if match is None:
        return text
    rest = text[match.end() :].rstrip(" .?!")
    noun = re.split(r"\b(?:of|by|in|that|which|who|from)\b", rest, maxsplit=1)[0].strip()
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    return f"What {'are' if is_plural else 'is'} {rest}?"


def as_list(question: str) -> str:
    """Return a question for a count as one for the things.

    >>> as_list("How many works did Ada paint?")
    'Which works did Ada paint?'
    """
    return COUNT.sub("Which", question, count=1)


def not_answerable(question: str) -> str:
    """Return what a question asks that is more than facts, in words; "" for none.

    >>> not_answerable("Who is older, Ada or Bo?")
    'compares things'
    """
    if COMPARISON.search(question):
        return "compares things"
    if NEGATION.search(question):
        return "asks what is not so"
    return "has a condition" if CONDITION.search(question) else ""


def listed(question: str) -> tuple[str, ...]:
    """Return the nouns, in lower case, of which a question wants those that fit.

    >>> listed("Which famous works are in the Tate?"), listed("How many towns are in France?")
    (('famous', 'works'), ('towns', 'are'))
    """
    match = LISTED.search(question)
    return () if match is None else tuple(match[1].lower().split())


def ranks(question: str) -> bool:
    """Whether a question asks for the first of several: the oldest, the most, the last."""
    return bool(SUPERLATIVE.search(question))


def two_steps(question: str, start: int, end: int) -> TwoSteps | None:
    """Return the two steps of a question whose entity is named from `start` to `end`; or None.

    >>> question = "Who is the director of the museum that holds Hamlet?"
    >>> steps = two_steps(question, 45, 51)
    >>> steps.inner, steps.outer("the Tate")
    ('What museum holds Hamlet?', 'Who is the director of the Tate?')
    >>> two_steps("Who is the author of Hamlet?", 21, 27)
    """
    possessive = _possessive(question, start, end)
    phrase = possessive or _phrase(question, start, end)
    if phrase is None:
        return None
    rest = phrase.before + phrase.after
    is_whole = NAMES_NOTHING.fullmatch(rest) and not (
        phrase.is_clause and WHERE_OR_WHEN.match(rest)
    )
    return None if is_whole else phrase


def _phrase(question: str, start: int, end: int) -> TwoSteps | None:
    """The last "the … of X" or "the … that … X" before the entity."""
    article = r"\b(?:the|a|an)\s+"
    pattern = re.compile(
        rf"{article}((?:(?!the\b|an?\b|{CONNECTING}\b)[\w-]+\s+){{1,4}}?)({CONNECTOR})\s*"
        r"((?:(?!of\b)[\w'-]+\s+)*?)$",
        re.I,
    )
    text = re.sub(r"(?:the|a|an)\s+$", lambda m: " " * len(m[0]), question[:start], flags=re.I)
    places = [m for i in range(len(text)) if (m := pattern.match(text, i)) is not None]
    if not places:
        return None
    match = places[-1]
    noun, connector, verb = match[1].strip(), match[2].lower(), match[3].strip()
    name = question[start:end]
    before, after = question[: match.start()], question[end:]
    if connector in ("of", "by"):
        inner = f"What is the {noun} {connector} {name}?"
        return None if verb else TwoSteps(before, after, inner, False)
    tail = ""
    if connector not in ("that", "which", "who", "") or re.fullmatch(r"(?:is|was|were|did)?", verb):
        words = re.match(r"(\s+(?:\w+ed|born|made|wrote|painted|founded|in|\w+s))\b", after)
        if words is not None:
            tail, after = words[1], after[words.end() :]
    article_before = question[len(question[:start].rstrip()) : start]
    inner = f"What {noun} {verb}{article_before if verb else ' '}{name}{tail}?"
    if not verb and (active := re.fullmatch(r"\s+(\w{2,}[^s\W])s", tail)):
        inner = f"What {noun} does {name} {active[1]}?"
    return TwoSteps(before, after, re.sub(r"\s+", " ", inner), True)


def _possessive(question: str, start: int, end: int) -> TwoSteps | None:
    """The phrase in "Where was Ada's father born?"."""
    match = re.match(r"['’]s?\s+([\w-]+)(['’]s)?", question[end:])
    if match is None:
        return None
    before, after = question[:start], question[end + match.end() :]
    if not match[2] and not (
        re.search(r"\b(?:do|does|did)\s+$", before) or PARTICIPLE.match(after)
    ):
        return None  # "What is Ada's mother tongue?": one thing of two words
    return TwoSteps(before, after, f"What is the {match[1]} of {question[start:end]}?", False)
