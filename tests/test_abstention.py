from __future__ import annotations

import json
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
    "The handbook does not state who chairs the board.",
    "The handbook does not mention a cancellation fee.",
    "The handbook doesn't specify a weight limit.",
    "The manual does not state the weight.",
    "This is not covered by the handbook.",
    "The handbook is silent on this.",
    "The contract remains silent on overtime.",
    "Based on the passages, it is not possible to determine who chairs the board.",
    "Based on the passages provided, who chairs the board is unclear.",
    "According to the documents [1, 2], it is unknown.",
    "From the excerpts given, I can't tell.",
    "The passages do not contain the answer. [1] [2]",
    "The passages do not contain the answer. [1, 2]",
    "The passages do not contain the answer. See [1] and [2].",
    "I don't know. (Sources: [1], [2])",
    "The guide does not say how long the walk takes.",
    "The policy does not mention pets.",
    "The policy does not provide any information about pets.",
    "The report never states the cost.",
    "The article doesn't discuss its author.",
    "The FAQ does not answer this question.",
    "The contract does not specify a notice period.",
    "The leaflet does not list opening hours.",
    "The staff handbook's section on leave does not explain this.",
    "The excerpts say nothing about the crew.",
    "The manual says nothing about batteries.",
    "Nothing in the handbook says who chairs the board.",
    "The name of the chair is nowhere mentioned.",
    "Nowhere in the handbook is the chair named.",
    "The chair's name is not given in the handbook.",
    "This isn't in the handbook.",
    "The evidence does not say.",
    "The material does not cover this.",
    "The sections provided do not mention a deposit.",
    "The weight is left unspecified.",
    "The chair of the board is unknown based on the passages.",
    "The handbook leaves this question open.",
    "There is no information about whether guests may bring dogs.",
    "No details are given about the fee.",
    "No mention of a fee.",
    "There are no details available on the crew.",
    "No information was found.",
    "There is no information on who chairs the board [1][2].",
    "We do not have any information about this.",
    "Das Handbuch sagt nicht, wer den Vorsitz hat.",
    "Das Handbuch nennt den Vorsitzenden nicht.",
    "Dazu steht nichts im Handbuch.",
    "Im Handbuch steht nicht, wer den Vorsitz hat.",
    "Das wird in der Anleitung nicht beschrieben.",
    "Das Handbuch schweigt dazu.",
    "Der Vertrag enthält dazu keine Angaben.",
    "Anhand der Passagen ist es nicht möglich, den Vorsitz zu bestimmen.",
    "Le manuel ne précise pas le poids.",
    "Le règlement ne mentionne pas les chiens.",
    "Ce n'est pas mentionné dans le guide.",
    "Le manuel reste muet sur ce point.",
    "D'après les passages, il n'est pas possible de déterminer qui préside.",
    "El manual no especifica el peso.",
    "La guía no menciona perros.",
    "Esto no está en el manual.",
    "El reglamento guarda silencio.",
    "Il manuale non specifica il peso.",
    "O manual não menciona o peso.",
    "De handleiding vermeldt het gewicht niet.",
    "В руководстве не указан вес.",
    "手册没有提到这一点。",
    "合同未说明期限。",
    "ハンドブックには書かれていません。",
    "안내서에는 나와 있지 않습니다.",
    "لا أعرف.",
    "لا أعلم.",
    "لا توجد معلومات حول ذلك في المقاطع.",
    "المقاطع لا تذكر ذلك.",
    "Bilmiyorum.",
    "Nie wiem.",
    "Jag vet inte.",
    "Tôi không biết.",
    "मुझे नहीं पता।",
    "The report never specifies the cost.",
    "You won't find this in the handbook.",
    "I don't know",
    "Based on the provided context, I don't know who chairs the board.",
    "In the handbook there is no mention of a chair.",
    "The contract doesn't say.",
    "It is not clear from the report who chairs the board.",
    "The page does not say anything about it.",
    "The passages are silent on this matter [1].",
    "Selon le manuel, ce n'est pas précisé.",
    "Im Vertrag ist das nicht geregelt.",
    "The documents do not have this information.",
    "The handbook does not include the chair's name.",
    "Unfortunately, the handbook doesn't cover this topic.",
    "The provided excerpts do not mention who chairs the board. [1], [2], [3]",
    "I could not find any mention of this in the policy.",
    "The terms and conditions do not mention it.",
    "There's no information here.",
    "No information.",
    "No details provided.",
    "I have no information on that.",
    "There is no specific information regarding the fee in the handbook.",
    "The handbook provides no information on this.",
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
    "There is no information desk on the ground floor.",
    "There is no information point at the harbour [1].",
    "There isn't any information desk at the harbour [1].",
    "No information may be shared with third parties [1].",
    "No information about customers is sold [1].",
    "No details are needed for the refund [1].",
    "No details about the journey are required [1].",
    "No information is given to third parties [1].",
    "We share no information with third parties [1].",
    "The form needs no details about your income [1].",
    "Smoking is not specified as allowed; it is banned everywhere on site.",
    "Dogs are not listed as allowed in the regulations [1].",
    "The policy does not cover water damage [2].",
    "This damage is not covered by the policy [2].",
    "The contract does not include a termination clause [1].",
    "The guide does not speak German [1].",
    "Lunch is not provided by the guide [1].",
    "The plan does not include roaming [1].",
    "The agreement does not provide for overtime pay [1].",
    "The documents do not have to be originals [1].",
    "The study did not show any benefit [1].",
    "The manual says to remove nothing but the cover [1].",
    "We have no lockers at the harbour [1].",
    "We do not give refunds for bad weather [1].",
    "We do not provide helmets for children under two [1].",
    "We have no information desk [1].",
    "Not enough information desks are staffed on Sundays [1].",
    "The handbook does not mention dogs, but cats are welcome [1].",
    "According to the handbook, breakfast is not included [1].",
    "According to the passages, batteries are not included.",
    "Based on the passages, smoking is not allowed anywhere on site.",
    "Die Unterlagen dürfen nicht kopiert werden [1].",
    "Das Handbuch darf nicht mitgenommen werden [1].",
    "Laut Handbuch ist Rauchen nicht erlaubt [1].",
    "Der Vertrag enthält keine Kündigungsklausel [1].",
    "Le contrat ne couvre pas les dégâts des eaux [1].",
    "Le guide ne parle pas allemand [1].",
    "La póliza no cubre los daños [1].",
    "Il contratto non copre i danni [1].",
    "合同不包括早餐[1]。",
    "الضمان لا يشمل البطارية [1].",
    "كل المقاعد غير مدخنة [1].",
    "The manual must not be removed from the boat [1].",
    "The rules do not allow dogs [1].",
    "Guides do not carry luggage [1].",
    "The report does not need to be signed [1].",
    "The handbook does not need to be signed [1].",
    "The list does not include tandems [1].",
    "The form does not have to be printed [1].",
    "No, details are kept for two years [1].",
    "There is no information evening this year.",
    "There are no details to fill in [1].",
    "No information is stored on the card [1].",
    "The label does not contain plastic [1].",
    "The book does not cost anything [1].",
    "The office is silent on Sundays [1].",
    "Silent discs are available [1].",
    "The contract is unknown to third parties [1].",
    "The rate is not fixed in the contract; it changes monthly [1].",
    "The deposit is not included in the quoted price [1].",
    "No data plan is included [1].",
    "No answer is required [1].",
    "You need no information to enrol [1].",
    "We keep no information about visitors [1].",
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


@pytest.mark.parametrize("refusal", ["I don't know. ", "لا أعرف.\n", "The handbook does not say [1]. "])
def test_a_refusal_repeated_thousands_of_times_is_one_quickly(refusal: str) -> None:
    start = time.process_time()
    assert is_abstention(refusal * 5_000)
    assert not is_abstention(refusal * 5_000 + "The chair is Ada Byron [1].")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "piece",
    [
        *("the passages ", "i do not ", "ich kann nicht ", "dokumente nicht ", "not ", "没有", "'", '"a', "but ", "a"),
        *("the handbook does not ", "no information ", "according to ", "le manuel ne ", "im handbuch ", "nothing in "),
    ],
)
def test_degenerate_text_is_judged_in_bounded_time(piece: str) -> None:
    start = time.process_time()
    is_abstention(piece * 1_500)
    is_abstention(piece * 100_000)
    assert time.process_time() - start < 10


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
    handbook = Path(__file__).parents[1] / "examples" / "handbook" / "documents"
    for path in sorted(handbook.glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        sentences = [sentence for start, end in sentence_spans(text) if words(sentence := text[start:end])]
        assert not [sentence for sentence in sentences if is_abstention(sentence)]
    assert total > 5_000
    assert len(wrong) <= 5, wrong


def test_answers_of_people_and_models_decline_where_they_should(shared_data: Path) -> None:
    lines = (shared_data / "mtrag_labels" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    declining = [row for row in map(json.loads, lines) if is_abstention(row["answer"])]
    assert len(declining) == 9
    # Two of the nine decline although people found an answer in the passages.
    assert sum(row["answerability"] == "ANSWERABLE" for row in declining) == 2
