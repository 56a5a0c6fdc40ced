"""The one rule for where a sentence ends, shared by chunkers and generators.

A sentence ends at ``.``, ``!``, ``?`` or an ellipsis followed by white space, at a full stop of a script that
writes none after it (``。！？``), at a blank line, and around headings, list items and table rows. Closing quotes and
numbered citations (``[1]``) stay with the sentence they follow. A full stop ends no sentence after English and
German abbreviations, initials and ordinals ("Dr. Smith", "z. B.", "am 3. Mai").
"""

from __future__ import annotations

import re

_END = re.compile(
    r"(?P<stop>[.!?…。！？｡．؟۔।॥]+)(?P<quote>[\"'”’»›)\]}」』）】》〉]*)"
    r"(?:[ ]?\[\^?\d{1,3}(?:[ ]?[,;–-][ ]?\d{1,3})*\])*"
)
_BLOCK = re.compile(
    r"\n(?=[ \t\r]*(?:\n|#{1,6}[ \t]|[-*+•‣–][ \t]|\d{1,3}[.)][ \t]|\||```|~~~))"  # what the next line opens
    r"|(?:(?<=\n)|\A)[ \t]*#{1,6}[ \t][^\n]*\n"  # a heading ends with its line
)
_UNSPACED_STOP = re.compile(r"[。！？｡]")
_UNSPACED_LETTER = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LAST_WORD = re.compile(r"(?:[^\W_]+\.)*[^\W_]+\Z")
_NEXT_WORD = re.compile(r"[\s\"'“„«‹(\[*_]*([^\W_]+)(\.?)")
_ENUMERATOR = re.compile(r"(?:\A|\n)[ \t]*\(?(?:\d{1,3}|[A-Za-z])\Z")
_ORDINAL = re.compile(r"(?:^|\W)([^\W\d_]+)\s+\d{1,2}\Z")
_SPACED_ABBREVIATION = re.compile(
    r"(?:^|\W)(?:z\.\s?B|d\.\s?h|u\.\s?a|v\.\s?a|o\.\s?ä|u\.\s?U|i\.\s?d\.\s?R|v\.\s?Chr|n\.\s?Chr|e\.\s?g|i\.\s?e)\Z"
)
_BEFORE = 32  # characters looked at before a full stop: longer than any abbreviation with its neighbour

# Abbreviations that always lead on to something.
_LEADING = frozenset(
    """
    mr mrs ms messrs dr prof st ste mt rev hon gen col maj capt lt sgt cmdr gov sen rep pres supt vs cf viz
    approx ca esp incl e.g i.e
    bzw vgl z.b d.h u.a v.a o.ä i.d.r sog inkl exkl zzgl ggf evtl bspw dipl ing geb gest chr tel
    """.split()
)
# Abbreviations that lead on to a number, and are ordinary words or ends of sentences otherwise.
_NUMBERED = frozenset(
    """
    no nos nr fig figs eq sec sect vol ch chap art para pp p ed pt
    jan feb mar apr jun jul aug sep sept oct nov dec
    abs bd kap anm abb tab ziff mär okt dez s
    """.split()
)
# Abbreviations that may close a sentence.
_CLOSING = frozenset("inc ltd co corp bros jr sr dept est assn univ ft min max mio mrd jh str hrsg hr fr usf".split())

# Capitalised words that open a sentence far more often than they continue a name or title.
_OPENERS = frozenset(
    """
    a an and as at after although before but by during each for from he her his how however if in it its many most
    no of on one our she since so some such that the their then there these they this those to under we what when
    where which while who why with you your
    am auf aus bei das dem den der des die diese dieser dieses ein eine einer er es für ich ihr ihre im in ist man
    mit nach nur sie sein seine seit so und unter von vor während wenn wie wir zu zum zur
    """.split()
)
_ORDINAL_CONTEXT = frozenset(
    """
    ab am beim bis das dem den der des die ihr ihre im ins jede jeden jeder oder sein seine seit und vom zum zur
    """.split()
)
_GERMAN_MONTHS = frozenset(
    "januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert".split()
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open code-point ranges of the sentences of ``text``, in order.

    Ranges are disjoint, free of outer white space, never blank, and together cover all text but white space.
    """
    cuts = {match.end() for match in _BLOCK.finditer(text)}
    cuts.update(match.end() for match in _END.finditer(text) if _is_boundary(text, match))
    spans = []
    start = 0
    for cut in (*sorted(cuts), len(text)):
        piece = text[start:cut]
        if body := piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            spans.append((begin, begin + len(body)))
        start = cut
    return spans


def _is_boundary(text: str, match: re.Match[str]) -> bool:
    stop, end = match["stop"], match.end()
    following = text[end : end + 1]
    if not following:
        return True
    if _UNSPACED_STOP.search(stop):
        # A quoted sentence may be the object of the verb that follows: 「行く。」と言った。
        return not (match["quote"] and following in "とっ、，")
    if stop == "．":
        return not following.isdigit()
    if not following.isspace():
        return bool(_UNSPACED_LETTER.match(following))
    upcoming = _NEXT_WORD.match(text, end, end + _BEFORE)
    word, dot = (upcoming[1], upcoming[2]) if upcoming else ("", "")
    if word[:1].islower() and (stop in ("...", "…") or match["quote"].strip(")]}）")):
        return False  # "Why?" he asked. / He waited ... and left.
    return stop != "." or not _is_abbreviated(text[max(0, match.start() - _BEFORE) : match.start()], word, bool(dot))


def _is_abbreviated(before: str, word: str, dotted: bool) -> bool:
    """Whether a full stop after ``before`` belongs to an abbreviation or ordinal; ``word`` is the next word."""
    if _SPACED_ABBREVIATION.search(before) or _ENUMERATOR.search(before):
        return True
    found = _LAST_WORD.search(before)
    if not found:
        return False
    last = found[0].casefold()
    parts = last.split(".")
    if last.isdecimal():
        context = _ORDINAL.search(before)
        named = word.casefold() in _GERMAN_MONTHS and len(last) <= 2
        return named or bool(context and context[1].casefold() in _ORDINAL_CONTEXT and word)
    if last in _LEADING:
        return True
    if last in _NUMBERED and word[:1].isdigit():
        return True
    continues = bool(word) and word.casefold() not in _OPENERS
    if last in ("etc", "usw"):
        return word[:1].islower()
    if len(parts) == 1 and len(last) == 1 and last.isalpha():
        return not word[:1].isupper() or continues or (dotted and len(word) == 1)  # an initial: George W. Bush
    if last in _CLOSING or (len(parts) > 1 and all(len(part) <= 2 and part.isalpha() for part in parts)):
        return not word[:1].isupper() or continues
    return False
