"""Labelled texts by the names of their columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_linking.annotations import gold_link, read_jsonl
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.tasks.datasets.example import TaskExample
from kept.tasks.datasets.formats import FORMATS, read_examples, require_task
from kept.tasks.datasets.tables import KINDS, QUESTION, read_labelled, read_table, write_examples
from kg_loaders.damage import DamageReport


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", "text,label\nA day.,x\n", "classification"),
        ("a.csv", "\ufeffSentence;x,Class\nA day.,x\n", None),
        ("a.tsv", 'label\ttext\nx\tA "day".\n', "classification"),
        ("a.csv", 'text,label\n"A ""day"",\nlong",x\n', "classification"),
        ("a.csv", "text,mention,label\nAnna left.,Anna,x\n", "mention"),
        ("a.csv", "text,start,end,type\nAnna left.,0,4,x\n", "mention"),
        ("a.csv", "text,mention,labels\nAnna left.,Anna,x|y\n", "typing"),
        ("a.csv", "text,head,tail,relation\nAnna left Bo.,Anna,Bo,x\n", "relation"),
        ("a.csv", "tokens,tags\nAnna left .,B-PER O O\n", "tagging"),
        ("a.jsonl", '{"tokens": ["Anna", "left"], "tags": ["B-PER", "O"]}\n', "tagging"),
        ("a.jsonl", '{"text": "Anna left.", "mention": "Anna", "labels": ["x", "y"]}', "typing"),
        ("a.jsonl", '{"text": "Anna", "label": "x", "mentions": []}\n', "classification"),
    ],
)
def test_the_columns_say_which_task(tmp_path: Path, name: str, text: str, kind: str | None) -> None:
    path = written(tmp_path, text, name)
    if kind is None:
        with pytest.raises(ConfigError, match="no column for text"):
            read_labelled(path)
        return
    table = read_labelled(path)
    assert table.kind == kind
    assert kind in FORMATS["table"].tasks == KINDS
    (example,) = table.examples
    for target in example.targets:
        assert example.linked.text[target.start : target.end] in ("Anna", "Bo", "left", ".")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("text,label\nA.,x\nB.\n", 3, "1 cells under a header of 2"),
        ("text,label\nA.,x\n,y\n", 3, "no text"),
        ("text,label\nA.,x\nB.,\n", 3, "no label"),
        ("text,mention,label\nA.,A,x\nB.,C,y\n", 3, "'C' does not occur in the text"),
        ("text,start,end,label\nAnna.,0,4,x\nB.,1,9,y\n", 3, "a text of 2; end is exclusive"),
        ("text,start,end,label\nAnna.,a,4,x\n", 2, "are not numbers"),
        ("tokens,tags\na b,O\n", 2, "2 words with 1 tags"),
        ("text,label,split\nA.,x,train\nA.,x,trian\n", 3, "split 'trian' is none of"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_labelled(path)
    assert f"{path}:{line}" in str(caught.value)
    assert reason in str(caught.value)


def test_many_faulty_lines_are_named_at_once(tmp_path: Path) -> None:
    text = "text,label\nA.,x\n" + "B.,\n" * 7
    with pytest.raises(ConfigError) as caught:
        read_labelled(written(tmp_path, text))
    assert str(caught.value).startswith("7 lines held no example")
    assert str(caught.value).endswith("and 2 more")


def test_a_missing_column_says_which_there_are_and_how_to_name_it(tmp_path: Path) -> None:
    path = written(tmp_path, "satz,klasse\nEin Tag.,x\n")
    with pytest.raises(ConfigError, match="--column text=satz, or write"):
        read_labelled(path)
    table = read_labelled(path, {"text": "satz", "label": "klasse"})
    assert table.examples[0].labels == ("x",)
    with pytest.raises(ConfigError, match="no column 'wort' for text; it has satz, klasse"):
        read_labelled(path, {"text": "wort"})


def test_questions_and_files_of_other_names_are_refused(tmp_path: Path) -> None:
    questions = written(tmp_path, "question,answer\nWho?,Anna\n", "questions.csv")
    with pytest.raises(ConfigError, match="use `kept fit`"):
        list(read_table(questions, DamageReport()))
    with pytest.raises(ConfigError, match=r"\.csv, \.tsv or \.jsonl"):
        read_labelled(written(tmp_path, "text,label\nA.,x\n", "a.xlsx"))
    with pytest.raises(ConfigError, match="does not exist"):
        read_labelled(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="holds no row"):
        read_labelled(written(tmp_path, "", "b.csv"))


def test_questions_are_read_as_they_are_written(tmp_path: Path) -> None:
    text = "question,answer,entity\nWho is Ann?,Ann|Anna,Q1\nWho?,Bo,\n"
    table = read_labelled(written(tmp_path, text))
    assert table.kind == QUESTION
    assert [each.labels for each in table.examples] == [("Ann", "Anna"), ("Bo",)]
    assert [each.source for each in table.examples] == ["Q1", None]
    write_examples(table.examples, tmp_path / "again.jsonl", kind=QUESTION)
    assert read_labelled(tmp_path / "again.jsonl").examples == table.examples


def test_a_mention_is_a_whole_word_and_repeats_are_said(tmp_path: Path) -> None:
    path = written(tmp_path, "text,mention,label\nAnnabel met Ann and Ann.,Ann,x\n")
    table = read_labelled(path)
    assert table.examples[0].targets == (Mention(12, 15),)
    assert "1 mention occurred more than once" in table.notes[1]


def test_splits_are_read(tmp_path: Path) -> None:
    text = "text,label,split\nA.,x,train\nB.,x,validation\nC.,x,test\nD.,x,\n"
    assert read_labelled(written(tmp_path, text)).splits == ["train", "dev", "test", ""]


EXAMPLES = {
    "classification": TaskExample(LinkedText("A day.", (), "1"), ("x",)),
    "mention": TaskExample(
        LinkedText("Anna left.", (gold_link(0, 4, "P1"),), "1"), ("x",), (Mention(0, 4),)
    ),
    "typing": TaskExample(LinkedText("Anna left.", (), "1"), ("x", "y"), (Mention(0, 4),)),
    "relation": TaskExample(
        LinkedText("Anna left Bo.", (), "1"), ("x",), (Mention(0, 4), Mention(10, 12)),
        ("P1", "P2"),
    ),
    "tagging": TaskExample(
        LinkedText("Anna left", (), "1"), ("B", "O"), (Mention(0, 4), Mention(5, 9))
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_as_it_was(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.jsonl"
    write_examples([EXAMPLES[kind]], path, kind=kind)
    table = read_labelled(path)
    assert (table.kind, table.examples) == (kind, [EXAMPLES[kind]])
    assert list(read_jsonl(path, DamageReport())) == [EXAMPLES[kind].linked]
    assert json.loads(path.read_text(encoding="utf-8"))["id"] == "1"


def test_a_table_of_another_task_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "text,head,tail,label\nAnna left Bo.,Anna,Bo,x\n")
    examples = read_examples(path, "table")
    require_task(examples, "relation", path)
    with pytest.raises(ConfigError, match=r"2 target\(s\) a text, a classification 0"):
        require_task(examples, "classification", path)


def test_lines_without_a_cell_hold_no_example(tmp_path: Path) -> None:
    """Before the header, between rows and at the end; later lines keep their numbers."""
    path = written(tmp_path, "\n , \ntext,label\nA.,x\n,\n\nB.,y\n\n")
    table = read_labelled(path)
    assert [example.linked.text for example in table.examples] == ["A.", "B."]
    with pytest.raises(ConfigError, match=r"a\.csv:7"):
        read_labelled(written(tmp_path, "\n , \ntext,label\nA.,x\n,\n\nB.,\n"))


def test_a_column_entity_of_words_of_the_text_is_the_mention(tmp_path: Path) -> None:
    rows = "sentence,entity,class\nWe gave Zorin.,zorin,x\nWe gave Anol.,Anol,y\n"
    table = read_labelled(written(tmp_path, rows))
    assert (table.kind, table.columns["mention"]) == ("mention", "entity")
    assert [each.targets for each in table.examples] == [(Mention(8, 13),), (Mention(8, 12),)]
    table = read_labelled(written(tmp_path, "text,entity,label\nWe gave Zorin.,Q5,x\n"))
    assert table.kind == "classification"
    assert table.notes == ["columns: text from 'text', label from 'label'; not used: 'entity'"]


def test_what_is_read_and_what_is_not_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, "id,review,film,genre,set\n1,I saw Zorin twice.,Zorin,x,b-7\n")
    table = read_labelled(path, {"text": "review", "label": "genre"})
    assert table.splits == [""], "no cell of `set` is a split"
    assert table.notes[0] == (
        "columns: text from 'review', label from 'genre'; not used: 'film', 'set'"
    )
    assert "'film' holds words of the text" in table.notes[1]
    assert "give --column mention=film" in table.notes[1]
    with pytest.raises(ConfigError, match="with --column text=review, or"):
        read_labelled(path)
    rows = "my text,our class,n\nIt is a day.,x,1\nSo it is.,x,2\n"
    with pytest.raises(ConfigError, match='--column "text=my text" --column "label=our class", or'):
        read_labelled(written(tmp_path, rows))


@pytest.mark.parametrize(
    "text",
    ["text;label\nA; B.;x\n".replace("A; B", "A, B"), "text\tlabel\nA, B.\tx\n",
     "sep=;\ntext;label\n\"A, B.\";x\n", '"text";"label"\n"A, B.";"x"\n'],
)  # fmt: skip
def test_a_csv_may_have_another_delimiter(tmp_path: Path, text: str) -> None:
    (example,) = read_labelled(written(tmp_path, text)).examples
    assert (example.linked.text, example.labels) == ("A, B.", ("x",))


def test_a_name_of_two_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several columns called 'label'; rename all but one"):
        read_labelled(written(tmp_path, "text,label,label\nA.,x,y\n"))


def test_a_file_that_is_not_utf_8_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text,label\nCaf\xe9.,x\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"save the file as UTF-8.*iconv"):
        read_labelled(tmp_path / "a.csv")


def test_labels_that_are_joined_are_several_of_a_mention_and_one_of_a_text(tmp_path: Path) -> None:
    rows = "text,mention,label\nAnna left.,Anna,x|y\nBo left.,Bo,x\n"
    table = read_labelled(written(tmp_path, rows))
    assert (table.kind, table.examples[0].labels) == ("typing", ("x", "y"))
    assert table.notes[-1] == "1 label contained '|', which separates labels of a mention"
    table = read_labelled(written(tmp_path, "text,label\nAnna left.,x|y\n"))
    assert (table.kind, table.examples[0].labels) == ("classification", ("x|y",))
    assert "each is one class" in table.notes[-1]


@pytest.mark.parametrize(
    "line",
    ['{"text": "Anna", "label": [[0, 4, "x"]]}', '{"text": "Anna", "label": {"x": 1}}',
     '{"text": "Anna", "entities": [{"start": 0, "end": 4, "label": "x"}]}'],
)  # fmt: skip
def test_several_mentions_in_a_line_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match="one line per mention, with text, start, end and label"):
        read_labelled(written(tmp_path, line + "\n", "a.jsonl"))


def test_offsets_that_cut_words_are_said_and_half_a_pair_is_not_used(tmp_path: Path) -> None:
    rows = "text,start,end,label\nAnna left.,0,3,x\nSo Bo left.,2,5,y\nBo left.,0,2,x\n"
    notes = read_labelled(written(tmp_path, rows)).notes
    assert notes[1].startswith("2 mentions began or ended inside a word")
    table = read_labelled(written(tmp_path, "text,subject,start,label\nAnna left.,Re: x,0,x\n"))
    assert table.kind == "classification"
    assert "not used: 'subject', 'start'" in table.notes[0]
