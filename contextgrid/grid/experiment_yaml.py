"""An experiment file as YAML: read strictly, variables filled in, and no key let through."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from contextgrid.core.errors import ConfigError


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of an experiment file, every ``${VAR}`` replaced except in the text of a prompt.

    Raises:
        ConfigError: naming file and line, for what is not YAML or says something twice; naming the key, for a
            variable that is not set, and for anything that looks like a secret.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=_StrictLoader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of an experiment file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{path}{line}: not readable as YAML: {problem}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys such as name, corpus, evalset and grid")
    return {str(key): _section(key, value, f"{path}: {key}") for key, value in content.items()}


def is_prompt_text(value: str) -> bool:
    """Whether a prompt of an experiment file is the text itself; otherwise it names a file."""
    # A template has to hold {context} and {question}; no sensible file name does.
    return "\n" in value or "{" in _VARIABLE.sub("", value)


def refuse_secrets(text: str, where: str) -> None:
    """Make sure that nothing in a text looks like a provider's key; the message does not repeat it.

    Raises:
        ConfigError: beginning with ``where``.
    """
    if _SECRET_VALUE.search(text):
        raise ConfigError(f"{where}: {_NO_KEYS}")


def _section(key: Any, value: Any, where: str) -> Any:
    if key != "prompts" or not isinstance(value, dict):
        return _expand(value, where)
    return {name: _expand(prompt, f"{where}.{name}", prompt=True) for name, prompt in value.items()}


def _expand(value: Any, where: str, *, prompt: bool = False) -> Any:
    """Replace ``${VAR}`` in every string; refuse anything that looks like a key without repeating it."""
    if isinstance(value, dict):
        for key in value:
            refuse_secrets(str(key), where)
            if _SECRET_NAME.search(str(key)):
                raise ConfigError(f"{where}.{key}: {_NO_KEYS}")
        return {key: _expand(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, where) for item in value]
    if not isinstance(value, str):
        return value
    if prompt and is_prompt_text(value):
        refuse_secrets(value, where)
        return _checked(value, where)
    for name in _VARIABLE.findall(value):
        if _SECRET_NAME.search(name):
            raise ConfigError(f"{where}: ${{{name}}}: {_NO_KEYS}")
        if name not in os.environ:
            raise ConfigError(f"{where}: the environment variable {name} is not set; set it or write the value")
    expanded = _VARIABLE.sub(lambda found: os.environ[found[1]], value)
    option_names = [part.partition("=")[0].rpartition(":")[2] for part in expanded.split(",") if "=" in part]
    if _SECRET_VALUE.search(expanded) or any(_SECRET_NAME.search(name.strip()) for name in option_names):
        raise ConfigError(f"{where}: {_NO_KEYS}")
    return _checked(expanded, where)


def _checked(text: str, where: str) -> str:
    """Refuse what can be stored neither in a path nor in a table."""
    if "\0" in text:
        raise ConfigError(f"{where}: holds a NUL character; remove it")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{where}: holds half a surrogate pair or bytes that are not UTF-8; remove them")
    return text


class _StrictLoader(yaml.SafeLoader):
    """Refuses repeated keys, nesting and aliases beyond reason, and values that do not fit their type."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._depth = 0

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None:
            _refuse_expansion(node)
        return node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _DEEPEST:
            here = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _refused(f"nested more than {_DEEPEST} levels deep", here)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        # Before merge keys are resolved: what a mapping says itself may override what it merges.
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _refused(f"the key {_short(key.value)} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Hashable:
        try:
            value: Hashable = super().construct_object(node, deep=deep)
            return value
        except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError):
            # Such as a date that no calendar has, or a number of thousands of digits.
            kind = node.tag.rpartition(":")[2]
            shown = _short(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            raise _refused(f"{shown} is no {kind}; put it in quotes if it is text", node.start_mark) from None


def _refuse_expansion(root: yaml.Node) -> None:
    """Refuse a document that holds itself, or that its aliases make far larger or deeper than it is written."""
    measured: dict[int, tuple[int, int] | None] = {}  # None while a node is being measured

    def measure(node: yaml.Node) -> tuple[int, int]:
        """How many nodes there are from here on, and on how many levels."""
        if id(node) in measured:
            known = measured[id(node)]
            if known is None:
                raise _refused("an alias stands inside what it refers to", node.start_mark)
            return known
        measured[id(node)] = None
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        below = [measure(part) for part in parts]
        count = 1 + sum(nodes for nodes, _ in below)
        levels = 1 + max((levels for _, levels in below), default=0)
        if count > _MOST_NODES or levels > _DEEPEST:
            limits = f"{_MOST_NODES} values on {_DEEPEST} levels"
            raise _refused(f"more than {limits} once aliases are replaced", node.start_mark)
        measured[id(node)] = count, levels
        return count, levels

    measure(root)


def _refused(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


_DEEPEST = 50
_MOST_NODES = 100_000

_NO_KEYS = (
    "keys do not belong in an experiment file or a prompt, because everything in them is stored with the results;"
    " set the provider's own environment variable, such as OPENAI_API_KEY"
)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(r"(?:api_?key|token|secret|password)$", re.IGNORECASE)
# "key-" begins words as well, so there a digit has to follow.
_SECRET_VALUE = re.compile(r"\b(?:(?:sk|pk|gsk|hf|xai)[-_]|key[-_](?=[A-Za-z_-]*[0-9]))[A-Za-z0-9_-]{16,}")
