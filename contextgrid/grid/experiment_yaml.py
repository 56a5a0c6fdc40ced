"""An experiment file as YAML: variables filled in, and no key let through."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml

from contextgrid.core.errors import ConfigError


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of an experiment file, every ``${VAR}`` outside of prompts replaced.

    Raises:
        ConfigError: naming file and line, for a variable that is not set, and for anything that looks like a key.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of an experiment file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{path}{line}: not readable as YAML: {problem}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys such as name, corpus, evalset and grid")
    return {key: value if key == "prompts" else _expand(value, f"{path}: {key}") for key, value in content.items()}


def _expand(value: Any, where: str) -> Any:
    """Replace ``${VAR}`` in every string; refuse anything that looks like a key without repeating it."""
    if isinstance(value, dict):
        for key in value:
            if _SECRET_NAME.search(str(key)):
                raise ConfigError(f"{where}.{key}: {_NO_KEYS}")
        return {key: _expand(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, where) for item in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if _SECRET_NAME.search(name):
            raise ConfigError(f"{where}: ${{{name}}}: {_NO_KEYS}")
        if name not in os.environ:
            raise ConfigError(f"{where}: the environment variable {name} is not set; set it or write the value")
    expanded = _VARIABLE.sub(lambda found: os.environ[found[1]], value)
    option_names = [part.partition("=")[0].rpartition(":")[2] for part in expanded.split(",") if "=" in part]
    if _SECRET_VALUE.search(expanded) or any(_SECRET_NAME.search(name.strip()) for name in option_names):
        raise ConfigError(f"{where}: {_NO_KEYS}")
    return expanded


_NO_KEYS = (
    "keys do not belong in an experiment file, because everything in it is stored with the results;"
    " set the provider's own environment variable, such as OPENAI_API_KEY"
)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(r"(?:api_?key|token|secret|password)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\b(?:sk|pk|gsk|hf|xai|key)[-_][A-Za-z0-9_-]{16,}")
