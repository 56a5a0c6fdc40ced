"""The documents of an experiment as they lie on disk: read once, held as bytes, parsed later."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from contextgrid.core.documents import MediaType, Source
from contextgrid.core.errors import CorpusError

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPES = {
    ".md": MediaType.MARKDOWN,
    ".markdown": MediaType.MARKDOWN,
    ".txt": MediaType.TEXT,
    ".text": MediaType.TEXT,
    ".rst": MediaType.TEXT,
    ".html": MediaType.HTML,
    ".htm": MediaType.HTML,
    ".xhtml": MediaType.HTML,
    ".pdf": MediaType.PDF,
}
"""Which file suffixes a corpus reads, and as what."""

_BUILD_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "build", "dist", "target"})


@dataclass(frozen=True)
class Corpus:
    """Sources in a fixed order, and the files that were found but are of no readable kind.

    Args:
        sources: at least one; ids are unique relative paths with forward slashes.
        ignored: ids of files that ``from_dir`` left out because of their suffix, or because they are links
            that lead outside the folder or no regular files; and, in a printable form and with the
            reason, files whose name cannot be an id.

    Raises:
        CorpusError: without any source, or for an id that is blank, repeated, absolute or holds ``..`` or NUL.
    """

    sources: tuple[Source, ...]
    ignored: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.sources:
            raise CorpusError("a corpus needs at least one document; got none")
        seen: set[str] = set()
        for source in self.sources:
            _check_id(source.id)
            if source.id in seen:
                raise CorpusError(f"document id {source.id!r} occurs twice; rename one of the two")
            seen.add(source.id)

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    @classmethod
    def from_dir(cls, path: str | os.PathLike[str]) -> Corpus:
        """All readable files below a folder, sorted by id.

        Hidden files and folders and build folders (``node_modules``, ``__pycache__``, ``venv``, ``build``, ``dist``,
        ``target``) are passed over. Links are followed to files inside the folder only. Files whose name is not valid
        Unicode, or holds a backslash or a control character, are left out and listed in ``ignored``.

        Raises:
            CorpusError: if the folder is missing, holds no readable file, or a file cannot be opened.
        """
        root = Path(path)
        if not os.path.isdir(root):
            what = "is not a folder" if os.path.exists(root) else "does not exist"
            raise CorpusError(f"corpus folder {str(root)!r} {what}; give the folder that holds the documents")
        sources: list[Source] = []
        ignored: list[str] = []
        misnamed: list[str] = []
        for file in _files(root):
            source_id = file.relative_to(root).as_posix()
            media_type = MEDIA_TYPES.get(file.suffix.lower())
            problem = _name_problem(source_id)
            if problem:
                misnamed.append(f"{_printable(source_id)}: the name {problem}; rename it")
            elif media_type is None or not _is_readable(file, root):
                ignored.append(source_id)
            else:
                sources.append(_read(file, source_id, media_type))
        if not sources:
            found = f" ({len(ignored)} files of other kinds, for example {min(ignored)!r})" if ignored else ""
            found += f" ({len(misnamed)} left out: {misnamed[0]})" if misnamed else ""
            raise CorpusError(f"no documents below {str(root)!r}{found}; put files ending in {_suffixes()} there")
        return cls(tuple(sorted(sources, key=lambda source: source.id)), tuple(sorted(ignored + misnamed)))

    @classmethod
    def from_files(cls, paths: Iterable[str | os.PathLike[str]], root: str | os.PathLike[str] | None = None) -> Corpus:
        """The named files, in the order given.

        Args:
            paths: files with a suffix the corpus reads.
            root: the folder ids are relative to; by default the deepest folder that holds all files.

        Raises:
            CorpusError: for no files, a missing file, an unknown suffix, or a file outside ``root``.
        """
        files = [Path(path) for path in paths]
        if not files:
            raise CorpusError("a corpus needs at least one document; got an empty list of files")
        absolute = [Path(os.path.abspath(file)) for file in files]
        base = (
            Path(os.path.abspath(root)) if root is not None else Path(os.path.commonpath([f.parent for f in absolute]))
        )
        sources = []
        for file in absolute:
            if not file.is_relative_to(base):
                raise CorpusError(f"{str(file)!r} lies outside {str(base)!r}; give a root that holds all files")
            media_type = MEDIA_TYPES.get(file.suffix.lower())
            if media_type is None:
                raise CorpusError(f"{str(file)!r} is of no kind that can be read; use files ending in {_suffixes()}")
            sources.append(_read(file, file.relative_to(base).as_posix(), media_type))
        return cls(tuple(sources))

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], *, media_type: MediaType | None = None) -> Corpus:
        """Documents given as strings, in the order of the mapping.

        Args:
            texts: document id to text.
            media_type: what all of them are; by default each id's suffix decides, and an id without a known
                suffix is plain text.
        """
        sources = []
        for source_id, text in texts.items():
            kind = media_type or MEDIA_TYPES.get(Path(source_id).suffix.lower(), MediaType.TEXT)
            if kind is MediaType.PDF:  # A string is never a PDF file: it is text that was taken from one.
                kind = MediaType.TEXT
            try:
                content = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise CorpusError(f"{source_id!r} holds half a surrogate pair at {error.start}; remove it") from None
            sources.append(Source(source_id, kind, content))
        return cls(tuple(sources))

    def to_table(self) -> pa.Table:
        """One row per source, in order, with the schema ``tables.CORPUS``."""
        import pyarrow as pa

        from contextgrid.core.tables import CORPUS

        columns = (
            [source.id for source in self.sources],
            [source.media_type.value for source in self.sources],
            [source.content for source in self.sources],
        )
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, CORPUS, strict=True)], schema=CORPUS)

    @classmethod
    def from_table(cls, table: pa.Table) -> Corpus:
        """The corpus that ``to_table`` stored."""
        columns = (table[name].to_pylist() for name in ("source_id", "media_type", "content"))
        return cls(tuple(Source(name, MediaType(kind), content) for name, kind, content in zip(*columns, strict=True)))


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _BUILD_FOLDERS]
        for name in names:
            if not name.startswith("."):
                yield Path(folder, name)


def _is_readable(file: Path, root: Path) -> bool:
    # Pipes and sockets would block a read. Resolving costs a system call per path part, so only links pay for it.
    return file.is_file() and (not file.is_symlink() or file.resolve().is_relative_to(root.resolve()))


def _read(file: Path, source_id: str, media_type: MediaType) -> Source:
    try:
        return Source(source_id, media_type, file.read_bytes())
    except OSError as error:
        raise CorpusError(f"cannot read {str(file)!r}: {error.strerror}; check the path and its permissions") from error
    except ValueError as error:  # NUL or half a surrogate pair in the path
        raise CorpusError(f"cannot read {str(file)!r}: {error}; check the path") from error


def _name_problem(source_id: str) -> str | None:
    """Why a path below a corpus folder cannot be an id: ids go into tables, prompts, links and terminals."""
    kinds = {unicodedata.category(character) for character in source_id}
    if "Cs" in kinds:
        return "is not valid Unicode"
    if kinds & {"Cc", "Zl", "Zp"}:
        return "holds a control character or line break"
    # On Windows a backslash separates folders, and as_posix() has replaced it.
    return "holds a backslash" if "\\" in source_id else None


def _printable(source_id: str) -> str:
    text = os.fsencode(source_id).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _check_id(source_id: str) -> None:
    problem = None
    if not source_id.strip():
        problem = "is blank"
    elif "\0" in source_id:
        problem = "holds a NUL character"
    elif source_id.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[\\/]", source_id):
        problem = "is an absolute path"
    elif ".." in re.split(r"[\\/]", source_id):
        problem = "leads out of the corpus with '..'"
    elif any("\ud800" <= character <= "\udfff" for character in source_id):
        problem = "is not valid Unicode"
    if problem:
        raise CorpusError(
            f"document id {source_id!r} {problem}; use a path relative to the corpus, like 'guide/intro.md'"
        )


def _suffixes() -> str:
    return " ".join(MEDIA_TYPES)
