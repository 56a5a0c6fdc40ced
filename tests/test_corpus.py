"""A folder, files or strings become a corpus; what is left out is said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.documents import MediaType, Source
from contextgrid.core.errors import CorpusError
from contextgrid.core.tables import CORPUS
from contextgrid.corpus import Corpus


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def ids(corpus: Corpus) -> list[str]:
    return [source.id for source in corpus]


def test_a_folder_is_read_recursively_and_sorted_by_id(tmp_path: Path) -> None:
    write(tmp_path, {"b.txt": "b", "a/z.md": "z", "a/b/c.HTML": "c", "d.pdf": b"%PDF"})
    corpus = Corpus.from_dir(tmp_path)
    assert ids(corpus) == ["a/b/c.HTML", "a/z.md", "b.txt", "d.pdf"]
    assert [source.media_type for source in corpus] == [
        MediaType.HTML,
        MediaType.MARKDOWN,
        MediaType.TEXT,
        MediaType.PDF,
    ]
    assert len(corpus) == 4


def test_files_of_other_kinds_are_counted_as_ignored(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "logo.png": b"\x89", "data/table.csv": "x", "LICENSE": "l"})
    assert Corpus.from_dir(tmp_path).ignored == ("LICENSE", "data/table.csv", "logo.png")


def test_hidden_and_build_folders_are_passed_over(tmp_path: Path) -> None:
    folders = (".git", "node_modules", "__pycache__", "venv", ".venv", "build", "dist", "target", "docs/.cache")
    write(tmp_path, {"docs/a.md": "a", ".hidden.md": "h"} | {f"{folder}/x.md": "x" for folder in folders})
    corpus = Corpus.from_dir(tmp_path)
    assert ids(corpus) == ["docs/a.md"]
    assert corpus.ignored == ()


def test_a_corpus_folder_may_itself_be_hidden_or_called_build(tmp_path: Path) -> None:
    assert ids(Corpus.from_dir(write(tmp_path / ".notes" / "build", {"a.md": "a"}))) == ["a.md"]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret.txt": "secret", "docs/a.txt": "a"})
    docs = tmp_path / "docs"
    (docs / "leak.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (docs / "leaks").symlink_to(tmp_path / "outside", target_is_directory=True)
    (docs / "broken.txt").symlink_to(tmp_path / "nowhere.txt")
    (docs / "again.txt").symlink_to(docs / "a.txt")
    corpus = Corpus.from_dir(docs)
    assert ids(corpus) == ["a.txt", "again.txt"]
    assert corpus.ignored == ("broken.txt", "leak.txt")


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a"})
    os.mkfifo(tmp_path / "pipe.txt")
    assert Corpus.from_dir(tmp_path).ignored == ("pipe.txt",)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere' does not exist; give the folder"):
        Corpus.from_dir(tmp_path / "nowhere")
    write(tmp_path, {"a.txt": "a"})
    with pytest.raises(CorpusError, match="is not a folder"):
        Corpus.from_dir(tmp_path / "a.txt")


def test_a_folder_without_documents_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no documents below"):
        Corpus.from_dir(tmp_path)
    write(tmp_path, {"a.docx": "a", "b.docx": "b"})
    with pytest.raises(CorpusError, match=r"2 files of other kinds, for example 'a.docx'\); put files ending in .md"):
        Corpus.from_dir(tmp_path)


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        (b"caf\xe9.txt", r"caf\xe9.txt: the name is not valid Unicode; rename it"),
        (b"a\\b.md", r"a\b.md: the name holds a backslash; rename it"),
        (b"\\\\host\\b.md", r"\\host\b.md: the name holds a backslash; rename it"),
        (b"a\nb.md", r"a\nb.md: the name holds a control character or line break; rename it"),
        (b"a\x1b[31m.md", r"a\x1b[31m.md: the name holds a control character or line break; rename it"),
    ],
)
def test_a_file_whose_name_cannot_be_an_id_is_reported_and_the_rest_loads(
    tmp_path: Path, name: bytes, reported: str
) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / os.fsdecode(name)).write_text("x")
    with pytest.raises(CorpusError, match=r"no documents below .* left out: sub/"):
        Corpus.from_dir(tmp_path)
    write(tmp_path, {"a.md": "a", "ü é.md": "b"})
    corpus = Corpus.from_dir(tmp_path)
    assert ids(corpus) == ["a.md", "ü é.md"]
    assert corpus.ignored == (f"sub/{reported}",)
    assert corpus.ignored[0].isprintable()


@pytest.mark.parametrize("path", ["~nouser/x", "a\0b", "x" * 5000, "\ud800"])
def test_a_path_that_no_folder_can_have_is_one_clear_error(path: str) -> None:
    with pytest.raises(CorpusError, match="does not exist; give the folder"):
        Corpus.from_dir(path)
    with pytest.raises(CorpusError, match=r"cannot read .*; check the path"):
        Corpus.from_files([f"{path}.md"])


def test_named_files_keep_their_order_and_are_relative_to_their_common_folder(tmp_path: Path) -> None:
    write(tmp_path, {"x/b.md": "b", "x/y/a.md": "a"})
    files = [tmp_path / "x/y/a.md", tmp_path / "x/b.md"]
    assert ids(Corpus.from_files(files)) == ["y/a.md", "b.md"]
    assert ids(Corpus.from_files(files, root=tmp_path)) == ["x/y/a.md", "x/b.md"]
    assert ids(Corpus.from_files([tmp_path / "x/b.md"])) == ["b.md"]


def test_named_files_must_exist_be_readable_kinds_and_lie_below_the_root(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "a", "b.csv": "b", "sub/c.md": "c"})
    with pytest.raises(CorpusError, match="empty list"):
        Corpus.from_files([])
    with pytest.raises(CorpusError, match=r"cannot read .*gone.md'"):
        Corpus.from_files([tmp_path / "gone.md"])
    with pytest.raises(CorpusError, match=r"b.csv' is of no kind"):
        Corpus.from_files([tmp_path / "b.csv"])
    with pytest.raises(CorpusError, match="lies outside"):
        Corpus.from_files([tmp_path / "sub" / ".." / "a.md"], root=tmp_path / "sub")
    with pytest.raises(CorpusError, match=r"'a.md' occurs twice"):
        Corpus.from_files([tmp_path / "a.md", tmp_path / "a.md"])


def test_texts_take_their_kind_from_the_id_unless_it_is_given() -> None:
    corpus = Corpus.from_texts({"a.md": "#", "b.html": "<p>", "c": "plain", "d.pdf": "text of a PDF"})
    kinds = [source.media_type for source in corpus]
    assert kinds == [MediaType.MARKDOWN, MediaType.HTML, MediaType.TEXT, MediaType.TEXT]
    [only] = Corpus.from_texts({"a.md": "#"}, media_type=MediaType.TEXT)
    assert only.media_type is MediaType.TEXT


@pytest.mark.parametrize(
    ("source_id", "problem"),
    [
        ("", "is blank"),
        (" \t", "is blank"),
        ("../a.md", "leads out"),
        ("a/../../b.md", "leads out"),
        ("a\\..\\b.md", "leads out"),
        ("/etc/passwd", "absolute"),
        ("C:\\a.md", "absolute"),
        ("a\0.md", "NUL"),
    ],
)
def test_ids_that_could_leave_the_store_are_refused(source_id: str, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem):
        Corpus.from_texts({source_id: "text"})


def test_dots_that_lead_nowhere_are_fine() -> None:
    assert ids(Corpus.from_texts({"v1..2/a...md": "text", "...": "text"})) == ["v1..2/a...md", "..."]


def test_no_documents_and_repeated_ids_are_refused() -> None:
    with pytest.raises(CorpusError, match="at least one document"):
        Corpus.from_texts({})
    source = Source("a", MediaType.TEXT, b"")
    with pytest.raises(CorpusError, match="'a' occurs twice"):
        Corpus((source, source))


@given(st.dictionaries(st.from_regex(r"[a-z0-9]{1,8}\.(md|txt|html)", fullmatch=True), st.text(), min_size=1))
def test_a_corpus_survives_its_table(texts: dict[str, str]) -> None:
    corpus = Corpus.from_texts(texts)
    table = corpus.to_table()
    assert table.schema == CORPUS
    assert Corpus.from_table(table) == corpus
