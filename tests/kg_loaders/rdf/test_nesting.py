"""Depths by one scan, against a loop over the characters."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders.rdf import nesting
from kg_loaders.rdf.nesting import (
    flat_entities,
    json_shape,
    n3_depth,
    xml_depth,
    xml_encoding_fault,
)


def naive_json(text: str) -> tuple[int, int]:
    depth = deepest = rows = 0
    in_string = escaped = False
    for letter in text:
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string = True
        elif letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
        elif letter == ",":
            rows += depth <= 2
    return deepest, rows


JSON = st.recursive(
    st.none() | st.integers() | st.text('a"\\[]{},', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('b"\\['), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(JSON, st.integers(1, 9))
def test_json_against_a_loop(value: object, block: int) -> None:
    text = json.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "BLOCK", block)
        assert json_shape(text.encode()) == naive_json(text)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ("<a><b/><c></c></a>", 2),
        ("<?xml version='1'?><!DOCTYPE a><a x='>' y=\"/>\"><b/></a>", 1),
        ("<a><!-- <b><c><d> --><![CDATA[<e><f>]]></a>", 1),
        ("<a x='<'><b>", 2),
        ("<!-- <a>", 0),
        ("<a/><a/>", 0),
        ("<a\n\tx = 'y'\n><b\n/></a\n>", 1),
    ],
)
def test_xml(text: str, depth: int) -> None:
    assert xml_depth(text.encode()) == depth


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("<a> <b> [ <c> ( 1 2 [] ) ] .", 3),
        ('<a[[> <b> "[[[" , \'((\' , """{{ " {{""" . # [[', 0),
        ("<a> <b> \"\\\"[\" , '''[ ' [''' , ( ) .", 1),
        ("{ <a> => <b> } => { ( [ ] ) } .", 3),
        ('"""[[[', 0),
    ],
)
def test_n3(text: str, depth: int) -> None:
    assert n3_depth(text.encode()) == depth


def test_entities_and_encodings() -> None:
    assert flat_entities(b"<!DOCTYPE a [<!ENTITY b 'c'><!ENTITY % d 'e'>]><a/>") == (
        {b"b": b"c"},
        1,
    )
    for declared in ("UTF-8", "utf8", "us-ascii", "ISO-8859-15", "windows-1252"):
        assert not xml_encoding_fault(f'<?xml version="1.0" encoding="{declared}"?>'.encode())
    for declared in ("UTF-16", "utf-7", "ISO-2022-JP", "cp037"):
        text = f"<?xml version='1.0' encoding='{declared}'?>"
        assert declared in xml_encoding_fault(text.encode())
    assert "NUL" in xml_encoding_fault("<a/>".encode("utf-16-le"))


UNITS = ("<!--", "<![CDATA[", "<?xml ", "<a '", '<a "<', '"""', "'''", '"\\', "'\\", "[", "<")


@pytest.mark.parametrize("unit", UNITS)
def test_scans_are_linear(unit: str) -> None:
    started = time.perf_counter()
    for scan in (xml_depth, n3_depth, flat_entities, xml_encoding_fault, json_shape):
        scan(unit.encode() * 300_000)
    assert time.perf_counter() - started < 20
