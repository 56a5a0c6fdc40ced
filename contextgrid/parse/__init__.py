"""Parsers: from a file's bytes to plain text whose every character has an offset."""

from contextgrid.parse.base import NATIVE, PARSERS, Parser, parse_corpus, parser_for

__all__ = ["NATIVE", "PARSERS", "Parser", "parse_corpus", "parser_for"]
