"""The axes of the grid and the two halves of a cell: a retrieval and a generation configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

RETRIEVAL_AXES = ("parser", "chunker", "embedder", "index", "transform", "reranker", "candidates")
GENERATION_AXES = ("generator", "prompt", "model")
AXES = (*RETRIEVAL_AXES, *GENERATION_AXES)

# Joins the axes in a partition key.
_JOIN = "__"


@dataclass(frozen=True)
class Retrieval:
    """A row of the grid: everything up to the ranked passages. ``None`` means the axis is not used."""

    parser: str
    chunker: str
    embedder: str | None
    index: str
    transform: str | None = None
    reranker: str | None = None
    candidates: int | None = None

    @property
    def index_is_hosted(self) -> bool:
        """Whether a service is called to embed the passages, and later the questions."""
        return _is_hosted(self.embedder)

    @property
    def retrieval_is_hosted(self) -> bool:
        """Whether a service is called to embed the questions or to rerank."""
        return self.index_is_hosted or _is_hosted(self.reranker)

    @property
    def parser_key(self) -> str:
        """Partition key of the documents this row reads."""
        return encode(self.parser)

    @property
    def chunks_key(self) -> str:
        """Partition key of the chunks this row searches."""
        return _join(self.parser, self.chunker)

    @property
    def index_key(self) -> str:
        """Partition key of the index this row searches."""
        return _join(self.parser, self.chunker, self.embedder, self.index)

    @property
    def key(self) -> str:
        """Partition key of the row: every axis in use, in order."""
        candidates = None if self.candidates is None else f"c{self.candidates}"
        return _join(self.parser, self.chunker, self.embedder, self.index, self.transform, self.reranker, candidates)


@dataclass(frozen=True)
class Generation:
    """A column of the grid: what turns ranked passages into an answer."""

    generator: str
    prompt: str | None = None
    model: str | None = None

    @property
    def key(self) -> str:
        """Partition key of the column: every axis in use, in order."""
        return _join(self.generator, self.prompt, self.model)


def settings_of(configuration: Retrieval | Generation) -> dict[str, str | int | None]:
    """Axis names and values of a configuration, in axis order."""
    return {field.name: getattr(configuration, field.name) for field in fields(configuration)}


def encode(spec: str) -> str:
    """A spec as part of a partition key: letters, digits and ``_ . -`` only, and still readable.

    ``recursive:512,overlap=64`` becomes ``recursive-512.overlap_64``. Whatever could be mistaken for one of
    these separators is written as ``_x<hex>_``, so different specs keep different keys.
    """
    name, colon, rest = spec.partition(":")
    encoded = _escape(name, keep="_")
    return f"{encoded}-{'.'.join(_encode_part(part) for part in rest.split(','))}" if colon else encoded


def values_of(key: str) -> list[str]:
    """The axis values of a partition key as a reader needs them: the characters that were escaped are shown again.

    They are no specs: ``-``, ``.`` and ``_`` may stand for ``:``, ``,`` and ``=``.
    """
    return [_ESCAPED.sub(_unescape, value) for value in _VALUE.findall(key)] or [key]


# Escapes side by side, and one behind an =, hold what else would end an axis value.
_ESCAPED = re.compile(r"_x([0-9a-f]{1,5})_")
_VALUE = re.compile(r"((?:_x[0-9a-f]{1,5}_|_(?=_x[0-9a-f]{1,5}_)|(?!__).)+)(?:__|\Z)")


def _unescape(escaped: re.Match[str]) -> str:
    character = chr(int(escaped[1], 16))
    return character if character.isprintable() else escaped[0]


def _encode_part(part: str) -> str:
    key, equals, value = part.partition("=")
    return f"{_escape(key, keep='_')}_{_escape(value)}" if equals else _escape(part)


def _escape(text: str, keep: str = "") -> str:
    return re.sub(rf"[^A-Za-z0-9.{keep}-]", lambda found: f"_x{ord(found[0]):x}_", text)


def _is_hosted(spec: str | None) -> bool:
    return spec is not None and spec.partition(":")[0].strip() == "hosted"


def _join(*axes: str | None) -> str:
    return _JOIN.join(encode(axis) for axis in axes if axis is not None)
