"""What KBLaM reads and writes: facts, questions, answers, chat formats and prompts as strings.

Wang et al. 2025, "KBLaM: Knowledge Base augmented Language Model" (ICLR), with the wording of the
released code, its slips included: "describe the the", "and" before an only entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

REFUSAL = "I am sorry I cannot find relevant information in the KB."
TEMPLATES = (
    "What {property} does {name} have?",
    "What is the {property} of {name}?",
    "Tell me about the {property} of {name}.",
    "Can you let me know the {property} of {name}?",
    "Can you inform me about the {property} of {name}?",
    "Describe the {property} of {name}.",
    "What details can you share about the {property} of {name}?",
    "What kind of {property} does {name} have?",
    "Provide details on the {property} of {name}.",
    "What features does the {property} of {name} include?",
    "Can you elaborate on the {property} of {name}?",
    "How would you describe the {property} of {name}?",
    "What can you tell me about the {property} characteristics of {name}?",
    "Can you explain the {property} of {name}?",
    "What insights can you provide about the {property} of {name}?",
    "What should I know about the {property} of {name}?",
)
"""Ways to ask for one fact."""
SEVERAL_TEMPLATES = (
    "What is {keys}?",
    "Tell me {keys}.",
    "Can you let me know {keys}?",
    "Can you inform me {keys}?",
    "Describe {keys}.",
    "Explain {keys}.",
    "Could you describe the {keys}?",
    "What can you tell me about {keys}?",
    "Could you provide information on {keys}?",
    "Please enlighten me about {keys}.",
    "Can you clarify {keys} for me?",
    "Could you give me a detailed description of {keys}?",
    "I need more information on {keys}.",
)
"""Ways to ask for several facts at once."""
ONE = "The {property} of {name} is {description}"
SEVERAL = (
    "The {property} of {name1} is {description}; The {property} of {name2} is {description}; ..."
)
IN_CONTEXT = f'\nPlease answer questions based on the given text with format: "{ONE}"\n'
IN_CONTEXT_SEVERAL = f'\nPlease answer questions based on the given text with format: "{SEVERAL}"\n'
ZERO_SHOT = f"\nPlease answer the question in a very compact manner with format: {ONE}\n"
ZERO_SHOT_SEVERAL = (
    f'\nPlease answer the question in a very compact manner with format: "{SEVERAL}\n'
)
IN_CONTEXT_OR_REFUSE = (
    f'Please answer questions based on the given text with format: "{ONE}", if relevant '
    f'information cannot be found in the text, please respond "{REFUSAL.removesuffix(".")}".'
)
ZERO_SHOT_OR_REFUSE = ZERO_SHOT.replace("\n", "\n    ")


@dataclass(frozen=True)
class Fact:
    """A property of something and its value, as words.

    >>> fact = Fact("Wexo", "purpose", "a quiet place")
    >>> fact.key, fact.answer
    ('the purpose of Wexo', 'The purpose of Wexo is a quiet place.')
    """

    name: str
    relation: str
    value: str

    @property
    def key(self) -> str:
        """The sentence whose vector makes the fact's key; `value` makes the value."""
        return f"the {self.relation} of {self.name}"

    @property
    def statement(self) -> str:
        """The fact as words of a prompt."""
        return f"{self.key} is {self.value}"

    @property
    def answer(self) -> str:
        """The sentence that a model answers with."""
        return f"The {self.statement[4:]}."

    def question(self, template: int = 1) -> str:
        """The question by one of `TEMPLATES`."""
        return TEMPLATES[template].format(property=self.relation, name=self.name)


def question_of_several(facts: Sequence[Fact], template: int = 0) -> str:
    """One question for all `facts`, by one of `SEVERAL_TEMPLATES`.

    >>> question_of_several([Fact("Wexo", "purpose", ""), Fact("Kovo", "origin", "")])
    'What is the purpose of Wexo, and the origin of Kovo?'
    """
    *others, last = (fact.key for fact in facts)
    keys = ",".join([*others, f" and {last}"])
    return SEVERAL_TEMPLATES[template].format(keys=keys)


def answer_of_several(facts: Sequence[Fact]) -> str:
    """The answer with every fact; it ends in a semicolon."""
    return " ".join(f"{fact.answer.removesuffix('.')};" for fact in facts)


@dataclass(frozen=True)
class ChatFormat:
    """How a host marks a question and an answer.

    `marker` is the piece that begins a turn, `n_after` pieces of the turn's name follow it.
    `removed` and `opened` are cut out of what a host writes, `opened` leaving two line breaks.
    """

    before: str
    between: str
    after: str
    marker: str
    n_after: int
    removed: tuple[str, ...]
    opened: tuple[str, ...] = ()

    def prompt(self, question: str) -> str:
        """The question, and the beginning of the answer's turn."""
        return f"{self.before}{question}{self.between}"

    def dialogue(self, question: str, answer: str) -> str:
        """The question and its answer."""
        return f"{self.prompt(question)}{answer}{self.after}"

    def strip(self, written: str) -> str:
        """`written` without the marks of turns."""
        for mark in self.removed:
            written = written.replace(mark, "")
        for mark in self.opened:
            written = written.replace(mark, "\n\n")
        return written


LLAMA3 = ChatFormat(
    before="<|start_header_id|>user<|end_header_id|> ",
    between="<|eot_id|><|start_header_id|>assistant<|end_header_id|>",
    after="<|eot_id|>",
    marker="<|start_header_id|>",
    n_after=1,
    removed=("<|eot_id|>", "<|start_header_id|>user<|end_header_id|>", "<|end_of_text|>"),
    opened=("<|start_header_id|>assistant<|end_header_id|>",),
)
PHI3 = ChatFormat(
    before="<|user|>\n",
    between="<|end|>\n<|assistant|>\n",
    after="<|end|>\n",
    marker="<|user|>",
    n_after=0,
    removed=("<|end|>", "<|user|>"),
    opened=("<|assistant|>",),
)
CHATML = ChatFormat(
    before="<|im_start|>user\n",
    between="<|im_end|>\n<|im_start|>assistant\n",
    after="<|im_end|>",
    marker="<|im_start|>",
    n_after=2,
    removed=("<|im_end|>", "<|im_start|>user\n"),
    opened=("<|im_start|>assistant\n",),
)
"""That of SmolLM2 and Qwen, which the released code does not have."""
CHAT_FORMATS = {"llama3": LLAMA3, "phi3": PHI3, "chatml": CHATML}


def prompt_in_context(facts: Sequence[Fact], question: str, instruction: str = IN_CONTEXT) -> str:
    """The baseline's prompt: the instruction, every fact in words, the question."""
    context = "".join(f"{fact.statement}; " for fact in facts)
    return f"{instruction}{context}{question}"


def extracted(written: str) -> str:
    """The value in an answer about one fact: what follows the last " is " of a line; else all.

    >>> extracted("The purpose of Wexo is a quiet place.")
    'a quiet place.'
    """
    match = re.search(r".* is (.*)", written)
    return written if match is None else match[1]


def extracted_several(written: str) -> str:
    """The values in an answer about several facts: from each is or are to the next stop; else "".

    >>> extracted_several("The purpose of Wexo is a place; The age of Kovo is nine;")
    'a place; nine'
    """
    return "; ".join(re.findall(r"\b(?:is|are) (.*?)[.;]", written))


def is_refusal(written: str) -> bool:
    """Whether an answer counts as a refusal: it says that it is sorry."""
    return "sorry" in written


def refusal_counts(n_facts: int, n_questions: int, share: float) -> tuple[int, int]:
    """How many questions of a refusal test have a fact, and how many have none.

    >>> refusal_counts(10, 8, 0.25)
    (6, 2)
    """
    n = min(n_facts, n_questions)
    return int(n * (1 - share)), int(n * share)


UNKNOWN = "unknown, sorry"
"""The value of a refusal, in the place of the true one; `is_refusal` knows it by its last word.

The released wording of a refusal begins with it, before the host has come to the name.
"""


@dataclass(frozen=True)
class Dialogue:
    """A question with its answer; `prefix` is the text up to the value, `prompt` to the answer."""

    text: str
    prefix: str
    prompt: str

    @classmethod
    def about(cls, fact: Fact, template: int, *, refused: bool = False) -> Dialogue:
        """The question by one of `TEMPLATES`, and the value, or that it is not known.

        >>> Dialogue.about(Fact("Wexo", "sport", "golf"), 1, refused=True).text[-46:]
        'The sport of Wexo is unknown, sorry.<|im_end|>'
        """
        spoken_fact = Fact(fact.name, fact.relation, UNKNOWN if refused else fact.value)
        question = fact.question(template)
        prompt = CHATML.prompt(question)
        opening = f"{prompt}{spoken_fact.answer.removesuffix(f' {spoken_fact.value}.')}"
        return cls(CHATML.dialogue(question, spoken_fact.answer), opening, prompt)
