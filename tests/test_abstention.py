from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest

from contextgrid.core.sentences import sentence_spans
from contextgrid.core.words import words
from contextgrid.generate import Answer
from contextgrid.generate.abstention import is_abstention

DECLINING = [
    "I don’t know",
    "I don't know.",
    "The price has not yet been specified in the passages.",
    "The documents don't mention this.",
    "N/A",
    "Keine Angabe in den Dokumenten.",
    "The passages do not contain the answer.",
    "Not enough information.",
    "There is not enough information in the passages to answer this question.",
    "Cannot be determined.",
    "This cannot be determined from the provided context.",
    "I'm sorry, but I don't know.",
    "I am sorry, but the provided passages do not contain information about the CEO's phone number.",
    "Based on the provided passages, there is no information about the CEO's phone number.",
    "Unfortunately, the context doesn't specify the delivery time.",
    "I could not find the answer in the given documents.",
    "I cannot answer this question based on the information provided.",
    "The answer is not in the passages.",
    "Not mentioned in the passages [1][2].",
    "The warranty period is not specified.",
    "There is no mention of a cancellation fee in the text.",
    "None of the passages address this question.",
    "I do not have enough information to answer that.",
    "I'm unable to find this in the context. You may want to contact support@example.com.",
    "The passages discuss refunds but do not mention shipping costs.",
    "While the passages describe the refund policy, they do not mention the CEO.",
    "I'm not sure.",
    "Unknown.",
    "The text does not say. Please provide more context.",
    "The passages don't contain the answer. They only cover refunds and shipping [1].",
    "**Answer:** The passages do not contain this information.",
    '"I don\'t know."',
    "Ich weiß es nicht.",
    "Die Passagen enthalten keine Antwort auf diese Frage.",
    "Das geht aus den Texten nicht hervor.",
    "Leider kann ich die Frage anhand der Dokumente nicht beantworten.",
    "Dazu finden sich keine Informationen in den Quellen.",
    "我不知道。",
    "文中没有提到这一点。",
    "无法从提供的段落中确定答案。",
    "抱歉，提供的信息不足以回答这个问题。",
    "根据所给的资料，没有相关信息。",
    "文檔中未提及此事。",
    "Je ne sais pas.",
    "Les passages ne contiennent pas la réponse.",
    "No lo sé.",
    "Los documentos no mencionan el precio.",
    "Non lo so.",
    "Il testo non specifica la data.",
    "Não sei.",
    "O contexto não menciona isso.",
    "De documenten vermelden dit niet.",
    "В тексте не указано.",
    "Я не знаю.",
    "わかりません。",
    "本文には記載されていません。",
    "답을 찾을 수 없습니다.",
    "제공된 문서에는 해당 정보가 없습니다.",
    "I don't have information on that, but you can check the company's website.",
    "It is not possible to determine this from the passages.",
    "The provided context is insufficient to answer the question.",
    "No information about this is available.",
    "no relevant passages were found in the documents",
    "Information about the CEO is not available.",
    "The question cannot be answered with the given passages.",
    "I have no idea.",
    "There isn't any information about that in the provided documents.",
    "I can’t tell from the passages.",
    "Ｉ ｄｏｎ＇ｔ ｋｎｏｗ",
    "The documents do not include information on how long to consider adoption after experiencing infertility.",
    "",
    "…",
    "The passages don't mention the year. However, the first child born from egg donation was reported in Australia.",
    "It doesn't say.",
    "The contract's duration isn't stated in passage 1 or passage 2.",
    "I do not know the answer to that question.",
    "Sorry, I don't have access to that information.",
]
ANSWERING = [
    "The warranty period is not specified in section 2 but section 4 says 24 months [2].",
    "Refunds take thirty days [1].",
    '"I Don\'t Know" is a song by Paul McCartney [1].',
    'He answered "I don\'t know" when asked about the money [2].',
    "No, you cannot return digital goods [1].",
    "Batteries are not included [1].",
    "Breakfast is not included in the price [3].",
    "Water damage is not covered by the warranty [2].",
    "The passages do not mention shipping, but refunds take 30 days [1].",
    "Refunds take 30 days [1]. The passages do not specify how long shipping takes.",
    "She did not know the password [1].",
    "The team did not have enough information to act [2].",
    "Digital goods are not refundable once downloaded.",
    "There is no evidence that vaccines cause autism [1].",
    "Scientists were unable to determine the cause of the fire [1].",
    "The cause of the disease is unknown to science [2].",
    "Although the passages do not give the CEO's number, they say the CEO is Jane Doe [1].",
    "While the first document does not state a date, the second one says 12 May 1999 [2].",
    "The contract does not contain a termination clause [1].",
    "Yes, there is no fee [1].",
    "Das Frühstück ist nicht im Preis enthalten [1].",
    "Die Rückgabe ist innerhalb von 30 Tagen möglich [1].",
    "Der Akku ist nicht austauschbar [1].",
    "退款需要三十天[1]。",
    "该酒店不提供早餐[1]。",
    "他不知道真相，因此离开了北京[1]。",
    "La batterie n'est pas incluse [1].",
    "La garantía no cubre los daños por agua [1].",
    "La batteria non è inclusa [1].",
    "A bateria não está incluída [1].",
    "保証期間は二年です[1]。",
    "보증 기간은 2년입니다 [1].",
    "Гарантия составляет два года [1].",
    "The password must not contain spaces [2].",
    "The default limit is not 5 but 10 [1].",
    "You do not need to know the PIN [1].",
    "The author's real name is known only to the publisher [1].",
    "Unknown Pleasures is the debut album of Joy Division [1].",
    "Nothing Else Matters is a ballad by Metallica [2].",
    "N/A values are dropped before averaging [1].",
    "None of the players scored [1].",
    "If the value is missing, the field is not provided [2].",
    "I don't know based on the passages, but the capital of France is Paris.",
    "The exam cannot be retaken within 30 days [1].",
    "Support is not available on Sundays [1].",
    "The term 'not applicable' marks fields that do not apply [1].",
    "The API does not return an error [2].",
    "The committee could not find a quorum [1].",
    "30 days",
    "Paris",
    "Insufficient funds fees are $35 [1].",
    "The password is not stored anywhere [1].",
    "Employees who do not know their number can call 555-0100 [1].",
]


@pytest.mark.parametrize("text", DECLINING)
def test_declining(text: str) -> None:
    assert Answer(text).is_abstention


@pytest.mark.parametrize("text", ANSWERING)
def test_answering(text: str) -> None:
    assert not Answer(text).is_abstention


@pytest.mark.parametrize("text", DECLINING)
def test_spelling_does_not_matter(text: str) -> None:
    assert is_abstention(unicodedata.normalize("NFD", text))
    assert is_abstention(text.replace("'", "\u2019"))
    assert is_abstention(text.upper())
    assert is_abstention(f"  {text}\n")


def test_a_refusal_with_a_long_answer_of_its_own_is_an_answer() -> None:
    refusal = "The passages do not name a fee. "
    assert is_abstention(refusal + "It may well be low.")
    assert not is_abstention(
        refusal + "In practice a fee of thirty euros is charged for each change of the booking. " * 2
    )


@pytest.mark.parametrize(
    "piece",
    ["the passages ", "i do not ", "ich kann nicht ", "dokumente nicht ", "not ", "没有", "'", '"a', "but ", "a"],
)
def test_degenerate_text_is_judged_in_bounded_time(piece: str) -> None:
    start = time.perf_counter()
    is_abstention(piece * 1_500)
    is_abstention(piece * 100_000)
    assert time.perf_counter() - start < 2


def test_sentences_of_real_documents_are_not_taken_for_refusals(shared_data: Path) -> None:
    wrong = []
    total = 0
    for path in sorted(shared_data.glob("*/documents/**/*.*")):
        if path.suffix not in (".md", ".txt"):
            continue
        text = path.read_text(encoding="utf-8")
        sentences = [sentence for start, end in sentence_spans(text) if words(sentence := text[start:end])]
        total += len(sentences)
        wrong += [sentence for sentence in sentences if is_abstention(sentence)]
    assert total > 5_000
    assert len(wrong) <= 5, wrong
