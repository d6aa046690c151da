"""Files of annotated text: gold links, mentions with types or relations, other linkers' output."""

from entity_linking.annotations.linked_texts import (
    Excerpt,
    TypedText,
    TypingExample,
    gold_link,
    read_elevant,
    read_elevant_articles,
    read_elevant_typed,
    read_jsonl,
    read_tagme,
    to_json,
    write_jsonl,
)
from entity_linking.annotations.rows import (
    convert_row,
    decode_row,
    decode_whole,
    read_array,
    read_rows,
    whole_file,
)

__all__ = [
    "Excerpt",
    "TypedText",
    "TypingExample",
    "convert_row",
    "decode_row",
    "decode_whole",
    "gold_link",
    "read_array",
    "read_elevant",
    "read_elevant_articles",
    "read_elevant_typed",
    "read_jsonl",
    "read_rows",
    "read_tagme",
    "to_json",
    "whole_file",
    "write_jsonl",
]
