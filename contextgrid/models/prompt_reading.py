"""What a prompt holds, found in its text alone: passages, question, and how many sentences it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from contextgrid.core.numbered import find_passages, unescape
from contextgrid.core.words import normalise


@dataclass(frozen=True)
class ReadPassage:
    """A numbered passage of a prompt."""

    number: int
    source_id: str
    text: str


@dataclass(frozen=True)
class ReadPrompt:
    """What was found in a prompt; ``sentences`` is ``None`` where no instruction limits the answer's length."""

    question: str
    passages: tuple[ReadPassage, ...]
    sentences: int | None


def read_prompt(prompt: str) -> ReadPrompt:
    """Take a prompt apart, wherever its template puts the passages and the question.

    The question is what a label (``Question:``, ``Frage:``, ``问题：``, ``<question>``) introduces, else the last
    paragraph behind the passages, else the last one before them. Instructions are what is neither: a passage can
    set no limit, and a question label inside one is not the question's.
    """
    found = find_passages(prompt)
    head, tail = (prompt[: found[0].header_start], prompt[found[-1].start :]) if found else (prompt, "")
    lone = _lone_question(head)
    end = _end_of_passages(head, tail, asked_before=lone is not None)
    behind = tail[end:]
    question = (
        lone or _last_labelled(behind) or _last_paragraph(behind) or _last_labelled(head) or _last_paragraph(head)
    )
    bodies = [prompt[passage.start : passage.end] for passage in found[:-1]] + [tail[:end]]
    passages = tuple(
        ReadPassage(passage.number, passage.source_id, unescape(_RULE_AT_END.sub("", body.strip())))
        for passage, body in zip(found, bodies, strict=False)
    )
    return ReadPrompt(question, passages, _sentence_limit(f"{head}\n{behind}"))


def _lone_question(head: str) -> str | None:
    """The question before the passages; several, or an answered one, are examples."""
    asked = list(_LABELLED.finditer(head))
    if len(asked) != 1 or _ANSWERED.match(head, asked[0].end()):
        return None
    return _text(asked[0])


def _end_of_passages(head: str, tail: str, *, asked_before: bool) -> int:
    """Where in ``tail``, which starts with the last passage, the template goes on."""
    opened = _OPENED.search(head)
    if opened:
        closing = tail.rfind(f"</{opened['tag']}>" if opened["tag"] else f"\n{opened['fence']}")
        if closing >= 0:
            return closing
    answer_label = _ANSWER_AT_END.search(tail)
    end = answer_label.start() if answer_label else len(tail)
    if asked_before:
        return end
    labels = list(_LABELLED.finditer(tail))
    if labels:
        return labels[-1].start()
    paragraph = tail[:end].rstrip().rpartition("\n\n")
    return len(paragraph[0]) if paragraph[0] and paragraph[2].endswith(("?", "？")) else end


def _last_labelled(text: str) -> str | None:
    asked = list(_LABELLED.finditer(text))
    return _text(asked[-1]) if asked else None


def _last_paragraph(text: str) -> str:
    return _ANSWER_AT_END.sub("", text).strip().rpartition("\n\n")[2].strip()


def _text(labelled: re.Match[str]) -> str:
    return (labelled["line"] or labelled["tagged"] or "").strip(' \t\n*"“”')


def _sentence_limit(instructions: str) -> int | None:
    limits = []
    for pattern in _LIMITS:
        for found in pattern.finditer(normalise(instructions)):
            word = found["most"] or found["number"]
            limits.append(int(word) if word.isdecimal() else _NUMBER_WORDS[word])
    return max(1, min(limits)) if limits else None


_ASKED = (
    r"(?:(?:user(?:'s)? |the )?(?:question|query)|q|frage|pregunta|domanda|pergunta|vraag|вопрос"
    r"|问题|問題|提问|質問|질문)"
)
_REPLIED = (
    r"(?:(?:(?:your|the|final|short) )*(?:answer|response)|a|antwort|réponse|respuesta|risposta|resposta"
    r"|回答|答案|答|답변)"
)
_ANSWER_LINE = rf"^[ \t>#*]*{_REPLIED}[ \t*]*[:：][ \t*]*"
# A further line of a question: not blank, not a label or heading of the template.
_MORE = rf"\n(?!\s*$)(?!{_ANSWER_LINE})(?![^\n]*[:：][ \t]*$)(?![ \t]*[<#])[^\n]+"
_LABELLED = re.compile(
    rf"^[ \t>*]*(?:{_ASKED}[ \t*]*[:：]|\#+[ \t]*{_ASKED}[ \t*]*[:：]?)[ \t*]*\n{{0,2}}(?P<line>[^\n]+(?:{_MORE})*)"
    r"|<(?P<tag>question|query)>\s*(?P<tagged>.*?)\s*</(?P=tag)>",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_ANSWERED = re.compile(rf"\s*{_ANSWER_LINE}\S", re.IGNORECASE | re.MULTILINE)
_ANSWER_AT_END = re.compile(rf"{_ANSWER_LINE}\s*\Z", re.IGNORECASE | re.MULTILINE)
# What a template may put around the passages.
_OPENED = re.compile(r"(?:<(?P<tag>[A-Za-z_][\w-]*)>|(?P<fence>```|\"\"\"|'''|={3,}|-{3,}|\*{3,})\w*)\s*\Z")
_RULE_AT_END = re.compile(r"\s*^-{3,}\Z", re.MULTILINE)

_NUMBER_WORDS = {
    **dict.fromkeys(("one", "single", "ein", "einem", "einen", "一"), 1),
    **dict.fromkeys(("two", "zwei", "二", "两", "兩"), 2),
    **dict.fromkeys(("three", "drei", "三"), 3),
    **dict.fromkeys(("four", "vier", "四"), 4),
    **dict.fromkeys(("five", "fünf", "五"), 5),
}
_N = rf"(?:\d{{1,2}}|{'|'.join(_NUMBER_WORDS)})"
_LIMITS = (
    re.compile(rf"\b(?P<number>{_N})(?:\s*(?:-|–|to|or)\s*(?P<most>{_N}))? (?:[a-z]+,? ){{0,2}}sentences?\b"),
    re.compile(rf"\b(?P<number>{_N})(?:\s*(?:-|–|bis|oder)\s*(?P<most>{_N}))? (?:\w+ )?(?:satz|sätzen?)\b"),
    re.compile(rf"(?P<number>{_N})(?:\s*[-–~到至]\s*(?P<most>{_N}))?\s*(?:个|個)?(?:短)?句"),
)
