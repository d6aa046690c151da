"""Language tags of Turtle: normal in their places, and nothing else is changed."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders.rdf.turtle_tags import BAD_TAG, with_normal_tags
from kg_loaders.reading.languages import language_tag

PIECES = (
    b'"x"', b"'x'", b'"""a "b"@en_US\nc"""', b"'''d'''",
    b"@en", b"@en_US", b"@e-", b"@-", b"@a-b_c",
    b'"', b"'", b'"""', b"\\\\", b"\n", b"\r", b" ", b"# ", b"<http://a/#b>", b"<", b">",
    b".", b",", b"@prefix",
)  # fmt: skip


def normal(*blocks: bytes) -> bytes:
    return b"".join(with_normal_tags(blocks))


@given(st.lists(st.sampled_from(PIECES), max_size=20), st.data())
def test_blocks_may_be_cut_anywhere(pieces: list[bytes], data: st.DataObject) -> None:
    document = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(document)), max_size=4)))
    blocks = [document[i:j] for i, j in zip([0, *cuts], [*cuts, len(document)], strict=True)]
    assert normal(*blocks) == normal(document)


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["en", "en_US", "zh_Hans", "e-"]))))
def test_literals_keep_their_text(literals: list[tuple[str, str]]) -> None:
    """In each way that Turtle quotes a string."""
    document = b""
    for i, (text, tag) in enumerate(literals):
        line = str(ox.Literal(text.replace("\0", ""), language="en")).removesuffix("@en")
        line = line if i % 2 else f'""{line}""'
        document += f"<a:a> <a:b> {line}@{tag} .\n".encode()
    quads = list(ox.parse(normal(document), ox.RdfFormat.TURTLE))
    assert [(quad.object.value, quad.object.language) for quad in quads] == [
        (text.replace("\0", ""), language_tag(tag) or BAD_TAG) for text, tag in literals
    ]


@pytest.mark.parametrize(
    ("written", "right"),
    [
        (b'"a"@en--ltr', b'"a"@en--ltr'),
        (b'"a"@en_US--rtl', b'"a"@en-us'),
        (b'"a \\"b\\"@en_US"@en', b'"a \\"b\\"@en_US"@en'),
        (b"<a'b'@en_US> 'a'@EN", b"<a'b'@en_US> 'a'@EN"),
        (b'"a"@en_US.', b'"a"@en-us.'),
        (b'# it\'s "x"@en_US\n"a"@en_US', b'# it\'s "x"@en_US\n"a"@en-us'),
        (b'"not ended\n"a"@en_US', b'"not ended\n"a"@en-us'),
        (b'"""not ended\n"a"@en_US', b'"""not ended\n"a"@en_US'),
        (b'""@en_US', b'""@en-us'),
    ],
)
def test_only_tags_of_strings_are_changed(written: bytes, right: bytes) -> None:
    assert normal(written) == right
