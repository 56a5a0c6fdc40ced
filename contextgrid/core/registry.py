"""The one plugin registry, and the spec strings that choose and parameterise a plugin.

A spec is ``name``, ``name:argument`` or ``name:argument,key=value``: ``recursive:512,overlap=64``. A plugin
is a frozen dataclass in one file of its axis's folder. The argument sets its first field, each ``key=value``
the field of that name.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from contextgrid.core.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """A parsed spec string; ``str()`` gives its canonical spelling."""

    name: str
    argument: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Read a spec string.

        Raises:
            ConfigError: if the name is empty, an option is not ``key=value``, or a key is repeated.
        """
        name, colon, rest = text.strip().partition(":")
        if not name.strip():
            raise ConfigError(f"spec {text!r} has no name; write it as name or name:argument,key=value")
        argument: str | None = None
        options: dict[str, str] = {}
        for position, part in enumerate(rest.split(",") if colon else []):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if position == 0 and not equals:
                argument = key or None
            elif not equals or not key:
                raise ConfigError(f"spec {text!r}: {part.strip()!r} is not key=value")
            elif key in options:
                raise ConfigError(f"spec {text!r}: {key!r} is given twice")
            else:
                options[key] = value
        return cls(name.strip(), argument, tuple(sorted(options.items())))

    def __str__(self) -> str:
        parts = [self.argument] if self.argument is not None else []
        parts += [f"{key}={value}" for key, value in self.options]
        return f"{self.name}:{','.join(parts)}" if parts else self.name


class Registry(Generic[T]):
    """The plugins of one axis, found by importing every module of the axis's folder on first use.

    Args:
        axis: what the axis is called in messages, for example ``chunker``.
        package: the folder to import, for example ``contextgrid.chunk``.
    """

    def __init__(self, axis: str, package: str) -> None:
        self.axis = axis
        self._package = package
        self._plugins: dict[str, type[T]] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator that makes a frozen dataclass available under ``name``."""

        def add(plugin: type[T]) -> type[T]:
            self._plugins[name] = plugin
            return plugin

        return add

    def names(self) -> tuple[str, ...]:
        """Names of all plugins of this axis, sorted."""
        self._load()
        return tuple(sorted(self._plugins))

    def plugin(self, name: str) -> type[T]:
        """The plugin class registered under ``name``.

        Raises:
            ConfigError: for an unknown name, naming the nearest valid one.
        """
        self._load()
        if name not in self._plugins:
            raise ConfigError(f"unknown {self.axis} {name!r}{nearest(name, self._plugins)}")
        return self._plugins[name]

    def build(self, text: str) -> T:
        """The plugin that a spec string describes.

        Raises:
            ConfigError: for an unknown plugin or option (naming the nearest valid one) or a bad value.
        """
        spec = Spec.parse(text)
        plugin = self.plugin(spec.name)
        try:
            return plugin(**_arguments(plugin, spec))
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{self.axis} {text!r}: {error}") from error

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")


def nearest(name: str, valid: Any) -> str:
    """The end of an "unknown name" message: the nearest valid name, or all of them."""
    close = get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; choose one of: {', '.join(sorted(valid))}"


def _arguments(plugin: type, spec: Spec) -> dict[str, Any]:
    parameters: dict[str, Field[Any]] = {field.name: field for field in fields(plugin) if field.init}
    values = dict(spec.options)
    if spec.argument is not None:
        if not parameters:
            raise ConfigError(f"{spec.name!r} takes no argument, got {spec.argument!r}")
        first = next(iter(parameters))
        if first in values:
            raise ConfigError(f"spec {str(spec)!r} gives {first!r} twice")
        values[first] = spec.argument
    for key in values:
        if key not in parameters:
            raise ConfigError(f"{spec.name!r} has no option {key!r}{nearest(key, parameters) if parameters else ''}")
    missing = [
        name
        for name, field in parameters.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(f"{spec.name!r} needs {missing[0]!r}, as in {spec.name}:<{missing[0]}>")
    return {key: _convert(value, parameters[key], spec.name) for key, value in values.items()}


def _convert(value: str, field: Field[Any], name: str) -> Any:
    kind = str(field.type if isinstance(field.type, str) else getattr(field.type, "__name__", field.type))
    kind = kind.split("|")[0].strip()
    try:
        if kind == "int":
            return int(value)
        if kind == "float":
            number = float(value)
            if not math.isfinite(number):
                raise ValueError(value)
            return number
        if kind == "bool":
            return {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}[value.lower()]
    except (ValueError, KeyError):
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        raise ConfigError(f"{name!r}: {field.name} must be {_KINDS[kind]}, got {shown!r}") from None
    return value


_KINDS = {"int": "a whole number", "float": "a finite number", "bool": "true or false"}
