"""How a refusal is worded, in a dozen languages, and what may stand beside it without being an answer.

All patterns are for text that ``words.normalise`` has folded: lower case, straight apostrophes, no full-width forms.
"""

from __future__ import annotations

import re
from functools import cache

LABEL = re.compile(r"^(?:(?:final )?answer|response|antwort|réponse|respuesta|回答|答案|答え|答)\s*:\s*")
QUOTATION = re.compile(
    r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|„[^“”\n]{0,400}[“”]|«[^»\n]{0,400}»|»[^«\n]{0,400}«|「[^」\n]{0,400}」"
    r"|『[^』\n]{0,400}』|(?<!\w)'[^'\n]{0,200}(?:\w'\w[^'\n]{0,200}){0,5}'(?!\w)"
)
SENTENCE_END = re.compile(r"(?<=[.!?;])[\s\]\)]+(?!\d)|(?<=[。！？；])|[!?;。](?=\s|$)|\n+")
CONTRAST = re.compile(
    r"[,\s]*\b(?:but|however|although|even though|though|whereas|nevertheless|nonetheless|that said"
    r"|aber|jedoch|allerdings|sondern|dennoch|mais|cependant|toutefois|pero|sin embargo|aunque|tuttavia|però"
    r"|porém|no entanto|echter|однако)\b[,\s]*"
    r"|\s*[,;]\s*(?:yet|ma|mas|maar|но)\s"
    r"|[,，、\s]*(?:但是|但|不过|不過|然而|可是|ただし|しかし|ですが|하지만|그러나)[,，、\s]*"
)
CONCESSION = re.compile(
    r"\s*(?:(?:al|even )?though|although|while|whilst|obwohl|während|bien que|aunque|虽然|雖然|尽管|儘管)\s*"
)

# ---- what a refusal is -------------------------------------------------------------------------------------

WHOLLY = re.compile(
    r"n/?\s?a|none|no answer|unknown|unanswerable|not applicable|not available|not provided|not found"
    r"|no idea|idk|no information|no data|nothing|unclear|unbekannt|keine antwort|entfällt|k\.?\s?a"
    r"|未知|不明|不详|不詳|无|無|なし|없음"
    r"|desconocido|inconnu|sconosciuto|desconhecido|onbekend|неизвестно"
)

_SOURCE = (
    r"(?:passages?|documents?|docs?|documentation|contexts?|texts?|sources?|excerpts?|articles?|snippets?"
    r"|materials?"
    r"|(?:search )?results?|paragraphs?|extracts?|references?|(?:provided|given|available) (?:information"
    r"|data|content)"
    r"|information (?:provided|given|available|above|below)|evidence|knowledge base|corpus|sections?|pages?"
    r"|content(?: provided| given)?)"
)
# A handbook has no other effect than to inform, so it is silent about what it does not contain or cover. A policy or a
# guide also does things: what a policy does not cover is an answer, only what it does not state is none.
_BOOK = (
    r"(?:(?:hand|guide|text|rule)books?|booklets?|manuals?|guidelines?|faqs?|leaflets?|brochures?|pamphlets?|wikis?"
    r"|readmes?|chapters?|instructions|tutorials?|fact ?sheets?|data ?sheets?|catalog(?:ue)?s?|web ?pages?"
    r"|encyclop(?:a?e)dias?)"
)
_PAPER = (
    r"(?:polic(?:y|ies)|contracts?|agreements?|terms(?: and conditions| of (?:use|service))?|rules?|regulations?"
    r"|bylaws?|statutes?|specifications?|licen[cs]es?|leases?|plans?|laws?|warrant(?:y|ies)|labels?|tables?|charts?"
    r"|lists?|forms?"
    r"|emails?|letters?|messages?|posts?|entr(?:y|ies)|(?:web ?)?sites?|guides?|reports?|books?|notes|minutes"
    r"|files?|pdfs?|transcripts?|memos?|newsletters?|summar(?:y|ies)|papers?|stud(?:y|ies)|notices?|timetables?)"
)
_ANY = rf"(?:{_SOURCE}|{_BOOK}|{_PAPER})"
_ADVERB = (
    r"(?:(?:actually|explicitly|directly|specifically|clearly|currently|really|necessarily|fully|yet|even"
    r"|ever|seem to"
    r"|appear to|exactly|precisely|anywhere|further|otherwise|personally|quite|also) )*"
)
_NOT = rf"(?:does not|do not|did not|doesn't|don't|didn't|doesnt|dont|never|fails? to|cannot|can't|could not) {_ADVERB}"
_TELL = (
    r"(?:contain|mention|specif(?:y|ies)|state|provide|include|say|give|indicate|address|discuss|cover|answer"
    r"|have(?! to\b)"
    r"|list|reveal"
    r"|describe|explain|tell|disclose|identify|offer|detail|clarify|support|name|refer|show|note|present"
    r"|report|touch"
    r"|elaborate|define|supply|hold|talk|speak|help)"
)
# What a document of any kind does only in so far as it informs.
_SAY = (
    r"(?:mention|specif(?:y|ies)|state|say|address|discuss|describe|explain|disclose|clarify|elaborate|define"
    r"|tell (?:us|you|me)|touch on|go into|comment|refer to|talk about|speak (?:of|about|to)"
    r"|make (?:any )?(?:mention|reference|clear)|(?:contain|include|have|provide|offer|give|hold)"
    r" (?:any |an |a |the |enough |sufficient )?(?:\w+ ){0,2}?(?:information|info|details?|answers?|mention|reference"
    r"|anything|indication)\b(?! to (?!answer|determine|say)))"
)
_IS_NOT = rf"(?:is|are|was|were|has|have)(?:n't| not) {_ADVERB}(?:been )?{_ADVERB}"
_FACTS = (
    r"(?:information|info|details?|mention|data|answers?|context|evidence|knowledge|indication|reference"
    r"|specifics)"
)
_IN_SOURCE = (
    rf"(?:in|by|from|within|based on|with|using|on|given|according to) (?:\S+ ){{0,4}}?(?:{_SOURCE}|{_BOOK}"
    r"|(?<!by the )guides?|reports?|notes|minutes|information|data)\b"
)
# What may follow "no information" that is not there: the end, what it would be about, or where it is missing. Anything
# else makes it another noun ("no information desk") or something that is done ("no information may be shared").
_MISSING = (
    r"(?=\W*$|\s*[,.:;()\[\]–—-]|\s(?:about|on|regarding|concerning|in|from|as|that|which|who|whom|whose|what|whether"
    r"|if"
    r"|how|when|where|why|for|of|at|within|by|with|or|and|nor|either|here|there|this|these|the|those|your|my|our|i|we"
    r"|beyond|related|relating|relevant|specific|pertaining|pertinent|indicating|suggesting|specifying|confirming"
    r"|describing|stating|explaining|detailing|available|provided|given|found|included|contained|presented|present"
    r"|supplied|mentioned|listed|stated|exists?"
    r"|to (?:be found|answer|determine|say|tell|support|confirm|conclude|establish|identify|suggest|indicate|go on"
    r"|that)"
    r"|(?:is|are|was|were|has been|have been|can be|could be) (?:(?:in|regarding|about|on)\b|(?:\w+ )?(?:available"
    r"|provided"
    r"|given|included|found|present|mentioned|stated|listed|contained|there|specified|offered|located|made|supplied"
    r"|presented)(?! to (?!answer|determine|say|tell|support|confirm|conclude|establish|identify|suggest"
    r"|indicate))))\b)"
)
# No information can also be what is not kept or passed on.
_HANDLED = (
    r"(?!(?: \S+){1,8}? (?:is|are|was|were|be|been|gets?) (?:\w+ly )?(?:shared|stored|sold|kept|needed|required|passed"
    r"|collected|exchanged|transmitted|sent|retained|saved|asked|used|processed|published|lost|demanded|requested"
    r"|deleted|tracked|logged)\b)"
)
_NOT_HANDLING = "".join(
    rf"(?<!\b{verb} )"
    for stem in ("share", "keep", "store", "collect", "sell", "need", "require", "retain", "send", "disclose", "record")
    for verb in (stem, f"{stem}s")
)
# Nouns that "information" or "data" stands before.
_NO_DESK = (
    r"(?! (?:desks?|points?|cent(?:re|er)s?|boards?|booths?|kiosks?|stands?|counters?|sheets?|packs?|panels?|signs?"
    r"|screens?|leaflets?|systems?|technology|security|sessions?|evenings?|offices?|officers?|services?|stalls?"
    r"|(?:hot)?lines?|exchange|protection|protocols?|sharing|processing|storage|roaming|plans?|packages?|carriers?"
    r"|plates?|machines?|phones?|keys?|shops?|retention|management)\b)"
)
_CANNOT = (
    rf"(?:'m| am| are|'re)? (?:really |honestly |simply |just )?(?:{_NOT})?(?:don't|do not|cannot|can't|could not"
    rf"|couldn't|did not|didn't|am unable to|was unable to|'m unable to|unable to|not able to) ?{_ADVERB}"
)
_ENGLISH = (
    # The speaker does not know or cannot say.
    rf"\bi{_CANNOT}"
    r"(?:know|find|answer|determine|provide|say|tell|locate|identify|see|confirm|verify|give|help|offer"
    r"|have (?:\w+ ){0,3}?"
    rf"(?:{_FACTS}|access|idea|way|sample \w+))\b",
    # "We" may be the house itself, which offers no lockers and gives no refunds.
    rf"\bwe{_CANNOT}(?:know|determine|say|tell|(?:find|answer|locate|identify|confirm|verify) (?:this|that|it|the"
    rf"|any|an|your|who|what|when|where|which|why|how|whether)|(?:have|provide|give|offer"
    rf"|find) (?:\w+ ){{0,3}}?{_FACTS}"
    rf"(?! to (?:third|other|anyone|any )))\b{_NO_DESK}",
    rf"\b(?:i|we) (?:have|had|found|find|see) (?:no|insufficient|not enough) (?:\w+ ){{0,2}}?(?:{_FACTS}|idea|way|clue)"
    rf"\b{_NO_DESK}",
    r"\b(?:i|we) (?:found|find|see) (?:no|nothing|insufficient|not enough)\b|\bi (?:have|had) (?:no|nothing)\b",
    r"\b(?:i'm|i am|we're|we are) (?:really |honestly )?not (?:sure|certain|aware|familiar)\b",
    r"^\W*(?:(?:sorry|unfortunately)\W+)?(?:don't|do not|dont) know\b",
    r"\b(?:i|we) (?:must|have to|will|need to) (?:decline|abstain)\b",
    # The passages do not say.
    rf"\b{_SOURCE}(?: \S+){{0,6}}? {_NOT}{_TELL}s?\b",
    rf"\b{_BOOK}(?: \S+){{0,6}}? {_NOT}{_TELL}s?\b",
    rf"\b{_PAPER}(?: \S+){{0,6}}? {_NOT}{_SAY}s?(?!\w)",
    rf"\b{_ANY}(?: \S+){{0,6}}? (?:is|are|remains?|stays?|keeps?) (?:\w+ )?silent\b",
    rf"\b(?:{_BOOK}|{_PAPER})(?: \S+){{0,4}}? (?:says?|states?|mentions?|contains?|has|tells? (?:us|you|me)) nothing"
    r"(?: (?:about|on|of|regarding|concerning|to|that|at all|which|as)\b|\W*$)",
    rf"\b{_ANY}(?: \S+){{0,3}}? leaves? (?:\S+ ){{1,4}}?(?:open|unanswered|unclear|unspecified"
    r"|unstated)\b",
    rf"\bnothing in (?:\S+ ){{0,4}}?{_ANY}(?: \S+){{0,2}}? (?:says?|states?|mentions?|indicates?"
    r"|suggests?|address(?:es)?|answers?|specif(?:y|ies)|covers?|tells?|explains?|describes?|reveals?)\b",
    rf"\bnowhere in (?:\S+ ){{0,4}}?{_ANY}\b|\b(?:is|are) nowhere (?:\w+ )?(?:mentioned|stated"
    r"|specified|said|described|named)\b",
    rf"\b(?:won't|will not) find (?:\S+ ){{1,8}}?{_IN_SOURCE}",
    rf"\b{_SOURCE}(?: \S+){{0,4}}? (?:contains?|provides?|gives?|includes?|offers?|has|have|says?|makes?"
    r"|state|mentions?)"
    r" (?:no|nothing|neither|insufficient|not enough)\b",
    rf"\b{_SOURCE}(?: \S+){{0,3}}? (?:is|are) (?:silent|insufficient|not sufficient|unrelated|irrelevant"
    r"|not relevant)\b",
    r"^\W*(?:but |and )?(?:do|does|did)(?: not"
    rf"|n't) {_ADVERB}{_TELL}\b",  # "They discuss refunds but do not mention shipping."
    rf"\b(?:none|neither) of the (?:\w+ ){{0,3}}?{_SOURCE}\b",
    rf"\b(?:it|they|this|these|that)(?: \S+){{0,2}}? {_NOT}(?:mention|specif(?:y|ies)|state|say|indicate)\b",
    # It is not stated. Not so what is "not specified as allowed": that says what it is not.
    rf"{_IS_NOT}(?:mentioned|specified|stated|disclosed|indicated)\b(?! (?:as|to be)\b)",
    r"\b(?:is|are|was|were|remains?|left) (?:unspecified|unstated|unmentioned|undisclosed)\b",
    rf"{_IS_NOT}(?:\w+ ){{0,2}}?(?:provided|given|included|available|found|listed|described|addressed"
    r"|discussed|covered"
    r"|contained|answered|defined|present|known|clear|evident|apparent|detailed|explained|identified|named|there"
    r"|possible)"
    rf"\b(?! as\b)(?: \S+){{0,8}}? {_IN_SOURCE}",
    rf"\b(?:unclear|unknown)(?: \S+){{0,4}}? {_IN_SOURCE}",
    rf"\b{_FACTS}{_NO_DESK}(?: \S+){{0,12}}? {_IS_NOT}(?:\w+ ){{0,2}}?(?:provided|given|included|available|found"
    r"|contained|present|there)\b",
    rf"\b(?:answer|information|it|this|that)(?: \S+){{0,6}}? {_IS_NOT}(?:in|part of"
    rf"|within|covered (?:in|by)) (?:\S+ ){{0,4}}?(?:{_SOURCE}|{_BOOK})\b",
    r"^\W*not (?:mentioned|specified|stated|provided|given|found|listed|covered|described|addressed|answered"
    r"|included|in)\b",
    # There is not enough to go on.
    rf"(?<=\S ){_NOT_HANDLING}(?:no|isn't any|is not any|aren't any|not any|without any) (?:\w+ ){{0,3}}?"
    rf"(?:information|info|mention|details)\b{_MISSING}",
    rf"^\W*no (?:\w+ ){{0,3}}?(?:information|info|mention|details)\b{_MISSING}{_HANDLED}",
    r"\bno (?:\w+ ){0,2}?(?:data|evidence|indication|reference|answer|record|statement|context"
    r"|passage)s?\b(?: \S+){0,12}?"
    rf" {_IN_SOURCE}",
    r"\bno (?:\w+ )?answer (?:is|was|can|could|exists?|available|found|given)\b(?! (?:be )?(?:required|needed"
    r"|expected|necessary))",
    r"^\W*(?:(?:sorry|unfortunately)\W+)?(?:there is |there's |there are |there was )?(?:not|isn't"
    r"|insufficient|not sufficient)"
    rf" ?(?:enough|sufficient)? ?(?:\w+ ){{0,2}}?{_FACTS}\b{_NO_DESK}",
    r"\b(?:lack of|lacks?|insufficient|not enough) (?:\w+ ){0,2}?(?:information|context"
    rf"|details)\b(?! \w+ing\b){_NO_DESK}",
    r"\bnothing (?:\S+ ){0,4}?(?:is|was) (?:said|mentioned|stated)\b",
    # It cannot be answered.
    r"\b(?:cannot|can't|can not|could not|couldn't) be (?:\w+ )?(?:determined|answered|found|established"
    r"|inferred|ascertained"
    r"|identified|derived|concluded|confirmed|located|deduced)\b",
    r"\b(?:impossible|not possible|unable) to (?:\w+ )?(?:answer|determine|tell|say|find|provide|establish"
    r"|know|identify|locate)"
    rf"\b(?: \S+){{0,12}}? {_IN_SOURCE}",
    r"^\W*(?:(?:sorry|unfortunately)\W+)?(?:(?:it is|it's) )?(?:unable|impossible|not possible|cannot"
    r"|can't) (?:to )?"
    r"(?:answer|determine|tell|say|find|know|provide)\b",
    r"^\W*(?:(?:this|that|it|the answer)(?: is|'s) )?(?:unknown|unclear|unanswerable|not known|not clear)\W*$",
    r"\b(?:question|query)(?: \S+){0,3}? (?:is unanswerable|cannot be|can't be|remains unanswered"
    r"|is not answered)",
    r"\b(?:outside|beyond) (?:of )?(?:the scope|my knowledge|what i know)\b",
)
_HANDBUCH = (
    r"(?:\w*handb(?:uch|uchs|uches|ücher|üchern)|\w*anleitung(?:en)?|\w*leitf[aä]den|leitfadens|richtlinien?"
    r"|regelwerke?s?"
    r"|\w*berichte?[sn]?|artikel[sn]?|\w*vertr[aä]ge?[sn]?|vereinbarung(?:en)?|satzung|\w*ordnung|faqs?|(?:web)?seiten?"
    r"|kapiteln?|materiali?(?:en|s)?|brosch[uü]ren?|merkbl[aä]tt(?:s|er|ern)?|ausschnitte?n?|abschnitte?n?|passagen?"
    r"|dokumente?n?|texte?n?|quellen?|unterlagen|textstellen?|auszüge?n?)"
)
_GERMAN = (
    r"\bich (?:weiss|kenne)\b[^,]{0,80}\bnicht\b|\bweiss ich (?:leider )?nicht\b"
    r"|^\W*(?:leider )?keine ahnung\b",
    r"\b(?:ich|wir|man) (?:kann|könn\w+|konnten?)\b.{0,80}\b(?:nicht|keine)\b.{0,80}\b(?:beantworten|finden"
    r"|sagen|geben|entnehmen|bestimmen)\b",
    r"\b(?:ich|wir) (?:habe|haben|verfüge|finde|fand)\b(?: \S+){0,4}? (?:keine|nicht genug"
    r"|nicht genügend)\b.{0,80}"
    r"(?:information|angabe|antwort|daten|wissen)",
    r"\bkeine (?:\S+ ){0,2}?(?:angaben?|informationen?|auskunft|auskünfte|antwort)\b",
    r"(?:passagen?|dokumente?n?|dokumentation|texte?n?|kontext|quellen?|abschnitte?n?|unterlagen|auszüg\w*"
    r"|textstellen?"
    r"|informationen)\b(?! (?:darf|dürfen|muss|müssen|soll|sollen|sollten|brauch\w+)\b).{0,80}"
    r"\b(?:nicht|kein(?:e|en|er|em)?|nichts)\b",
    r"\bnicht (?:\S+ )?(?:angegeben|erwähnt|genannt|spezifiziert|ersichtlich|festgelegt)\b",
    r"\b(?:nicht|nichts)\b.{0,80}(?:enthalten|bekannt|beantwort\w+|beschrieben|hervor|entnehmen|bestimmen"
    r"|aufgeführt).{0,80}"
    r"(?:passage|dokument|text|kontext|quelle|abschnitt|unterlage)",
    r"\b(?:lässt|lassen|kann|können) (?:sich )?(?:\S+ ){0,6}?nicht (?:\S+ ){0,2}?(?:beantwort\w+|bestimm\w+"
    r"|ermittel\w+|entnehmen)",
    r"\bgeht\b.{0,80}\b(?:nicht|nichts)\b.{0,80}\bhervor\b",
    rf"\b{_HANDBUCH}\b.{{0,60}}?\b(?:sag|nenn|erwähn|beantworte|steh|verrät|beschreib|erklär|spezifizier|thematisier"
    rf"|äusser|geh"
    r"|schreib|benenn|behandel|führ)\w*\b.{0,80}?\b(?:nicht|nichts|kein\w*)\b",
    rf"\b(?:im|in|vom|von)\b (?:\S+ ){{0,3}}?{_HANDBUCH}\b.{{0,60}}?\b(?:nicht|nichts)\b.{{0,40}}?(?:behandelt"
    rf"|beschrieben"
    r"|beantwortet|erklärt|aufgeführt|definiert|geregelt|abgedeckt|thematisiert|zu finden|gefunden|benannt|erläutert)",
    rf"\bsteh(?:t|en)\b.{{0,40}}?\b(?:nicht|nichts)\b.{{0,40}}?\b(?:im|in)\b (?:\S+ ){{0,3}}?{_HANDBUCH}\b",
    rf"\b{_HANDBUCH}\b.{{0,40}}?\bschweig(?:t|en)\b",
    r"\b(?:nicht möglich|unmöglich)\b.{0,120}?\b(?:zu (?:bestimmen|sagen|beantworten|ermitteln|erkennen|beurteilen)"
    r"|festzustellen|anzugeben|herauszufinden)\b",
    r"\b(?:nicht genug|nicht genügend|unzureichende|zu wenig|nicht ausreichend\w*) (?:\S+ )?(?:information"
    r"|angaben|daten|kontext)",
)
_CHINESE = (
    r"^\W*(?:(?:很)?抱歉|对不起|對不起|很遗憾|不好意思)?\W*(?:我们?|我們)(?:并|並|也|还|還|实在|真的)?(?:不知道"
    r"|不清楚|不确定|不確定|不了解|不太清楚)",
    r"^\W*(?:(?:很)?抱歉|对不起|對不起|很遗憾|不好意思)?\W*(?:不知道|不清楚)(?:答案|这|這|该|該|\W*$)",
    r"我们?(?:也)?(?:无法|無法|不能|没有|沒有|没|找不到)",
    r"^\W*(?:(?:很)?抱歉|对不起|對不起|很遗憾)?\W*(?:无法|無法|不能|难以)(?:从.{0,15})?(?:回答|确定|確定|判断|判斷"
    r"|得知|提供|找到|得出)",
    r"(?:无法|無法|不能|难以)(?:直接)?(?:从|從|根据|根據|由).{0,15}(?:回答|确定|確定|判断|判斷|得知|得出|找到|推断)",
    r"(?:文中|文档|文檔|文件|段落|材料|资料|資料|上下文|文章|原文|文本|内容|內容|信息|資訊|语境|片段|来源|來源|上文"
    r"|以上|这里|這裡|问题|問題).{0,20}?"
    r"(?:没有|沒有|没|未|不|并未|並未|无法|無法)(?:有|能|曾)?(?:明确|明確|具体|具體|直接|详细|任何)?(?:地)?"
    r"(?:提到|提及|说明|說明|包含|包括|提供|给出|給出|涉及|指出|回答|记载|記載|描述|提|讨论|足|够|答案|相关|相關|关于"
    r"|關於|有关|确定|說|说|中)",
    r"(?:手册|手冊|指南|合同|合約|政策|规定|規定|报告|報告|章节|章節|说明书|說明書|条款|條款|网页|網頁|页面|頁面|协议"
    r"|協議|证据|證據).{0,20}?(?:没有|沒有|没|未|不|并未|並未)"
    r"(?:有|能|曾)?(?:明确|明確|具体|具體|直接|详细|任何)?(?:地)?(?:提到|提及|说明|說明|指出|写明|寫明|回答|记载|記載"
    r"|涉及|交代|给出|給出|描述|说|說)",
    r"^\W*(?:没有|沒有|未|并未|並未)(?:明确|明確|具体|直接)?(?:提到|提及|说明|說明|给出|給出|提供|找到|相关|相關|足够"
    r"|足夠)",
    r"(?:没有|沒有|无|無|缺乏|缺少)(?:任何|足够的?|足夠的?|相关的?|相關的?|有关|有關|具体的?|明确的?|充分的?"
    r"|关于.{1,20}的)*(?:信息|資訊|资讯|资料|資料|答案|说明)",
    r"(?:信息|資訊|资料|資料)(?:不足|不够|不夠|有限)",
    r"找不到(?:任何|相关|相關|有关|有關|答案|关于|關於)",
)
_JAPANESE = (
    r"(?:わかり|分かり|判り|存じ|知り)(?:ません|かねます)|わからない|分からない",
    r"(?:記載|言及|記述|説明|情報|答え|回答|該当).{0,14}?(?:ありません|いません|いない|ない|ません|不足|見つかり)",
    r"(?:お答え|回答|判断|特定|確認|お答えすることは)(?:は|が|する(?:こと)?(?:は|が))?(?:でき|出来)(?:ません|ない"
    r"|かねます)|答えられ(?:ません|ない)|見つかりません",
    r"(?:書かれて|載って|触れられて|示されて|述べられて|記されて|明記されて)(?:は|も)?(?:いません|いない|おりません)",
)
_KOREAN = (
    r"모르겠|알 수 없|알지 못|답(?:변)?할 수 없|답을 찾을 수 없|찾을 수 없|확인할 수 없|판단할 수 없",
    r"(?:정보|내용|언급|답변|자료|설명|기재|명시|근거)[가-힣]{0,4} ?(?:\S+ ){0,3}?(?:없|부족|않|못)|나와 있지 않",
)
_OTHER = (
    # French
    r"\b(?:je|nous) ne (?:le |la )?(?:sai[st]|savons|peu[xt]|pouvons|connais|trouve|dispose"
    r"|suis)\b.{0,40}?\bpas\b|\bje l'ignore\b"
    r"|\bje n'ai (?:pas|aucune)\b.{0,40}?(?:information|réponse|idée)",
    r"\b(?:passages?|documents?|contexte|textes?|sources?|extraits?)\b.{0,40}?\b(?:ne"
    r"|n')\s?\S+.{0,20}?(?:\bpas\b|\baucune?\b|\brien\b)",
    r"\b(?:aucune|pas d'|pas assez d'|pas suffisamment d'|manque d')\s?informations?\b|\b(?:n'(?:est|y est|y sont)"
    r"|ne (?:sont|figure|figurent|l'est)) pas (?:mentionné|précisé|indiqué|spécifié|dans|abordé|traité|couvert)"
    r"(?:e?s?\b)(?! par (?:la garantie|l'assurance|le contrat|la police))",
    r"\b(?:manuel|guide|livret|règlement|politique|contrat|rapport|article|page|section|faq|chapitre|notice|accord"
    r"|charte"
    r"|brochure|éléments|preuves)s?\b.{0,60}?\b(?:ne |n')\s?(?:\S+ )?(?:précise|mentionne|indique|dit|disent|spécifie"
    r"|évoque"
    r"|aborde|répond|nomme|explique|traite|donne (?:pas|aucune) (?:d')?(?:information|indication|détail|réponse))\w*",
    r"\b(?:est|sont|reste|restent) mue?ts?\b|\b(?:il|ce) n'est pas possible de (?:déterminer|dire|savoir|répondre"
    r"|préciser)",
    r"\bimpossible de (?:répondre|déterminer|dire)|\bne peut (?:pas )?être (?:déterminé|répondu)",
    # Spanish
    r"^\W*(?:lo siento\W+)?(?:yo )?no (?:lo )?sé\b|\bno (?:tengo|hay|dispongo de|cuento con|encuentro"
    r"|encontré|existe) (?:\S+ ){0,3}?(?:información|datos|respuesta)",
    r"\b(?:pasajes?|documentos?|textos?|contexto|fuentes?|fragmentos?)\b.{0,40}?\bno (?:se )?"
    r"(?:contien|mencion|especific|proporcion|indic|inclu|ofrec|respond|dan|da|dice|habla)",
    r"\bno (?:se|está|están|es|fue) (?:puede (?:determinar|responder|saber)|menciona|especifica|indica"
    r"|proporciona|posible (?:determinar|responder|saber))",
    r"\b(?:manual|guía|política|contrato|informe|artículo|página|sección|faq|folleto|reglamento|capítulo|extracto"
    r"|acuerdo"
    r"|normativa|material|evidencia)(?:e?s)?\b.{0,60}?\bno (?:se |lo )?(?:mencion|especific|indica|dice|aclara"
    r"|detalla|precisa"
    r"|aborda|responde|explica|nombra|habla de|trata)|\b(?:manual|guía|documento|texto|\w+)s? guardan? silencio\b",
    r"\bno (?:está|están|aparece|figura|se encuentra)n? (?:\S+ )?(?:en|dentro de) (?:\S+ ){0,2}?(?:manual|guía"
    r"|documento|texto"
    r"|contexto|fragmento|pasaje|fuente|informe|reglamento)",
    # Italian
    r"^\W*(?:mi dispiace\W+)?non (?:lo )?so\b|\bnon (?:ho|ci sono|c'è|dispongo di"
    r"|trovo) (?:\S+ ){0,3}?(?:informazion|dati|rispost)",
    r"\b(?:passaggi|passaggio|brani|brano|document[oi]|test[oi]|contesto"
    r"|font[ei])\b.{0,40}?\bnon (?:\S+ ){0,2}?(?:conten|menzion|specific|forn|indic|riport|dic|includ|parl)",
    r"\bnon (?:è|viene|sono|vengono) (?:\S+ )?(?:specificat|menzionat|indicat|possibile (?:rispondere"
    r"|determinare|stabilire))",
    r"\b(?:manuale|guida|regolamento|contratto|rapporto|relazione|articolo|pagina|sezione|opuscolo|capitolo|politica)\b"
    r".{0,60}?\bnon (?:lo )?(?:menzion|specific|indic|dice|precis|chiari|spieg|tratta|nomin|parla di)",
    # Portuguese
    r"^\W*(?:desculpe\W+)?(?:eu )?não sei\b|\bnão (?:há|tenho|existem|encontrei"
    r"|disponho de) (?:\S+ ){0,3}?(?:informaç|dados|resposta)",
    r"\b(?:passagens|passagem|documentos?|textos?|contexto|trechos?|fontes?)\b.{0,40}?\bnão (?:cont|mencion"
    r"|especific|fornec|inform|indic|diz|inclu|respond)",
    r"\bnão (?:é|está|foi|são|há) (?:\S+ )?(?:mencionad|especificad|informad|indicad|possível (?:responder"
    r"|determinar|saber))",
    r"\b(?:manual|guia|contrato|relatório|artigo|página|seção|secção|regulamento|folheto|capítulo"
    r"|política)s?\b.{0,60}?\bnão"
    r" (?:o )?(?:mencion|especific|indic|diz|informa|esclarec|explic|aborda|trata|nomei)",
    # Dutch
    r"\bik weet (?:het )?niet\b|\b(?:documenten|document|passages|passage|tekst|teksten|context|bronnen"
    r"|bron)\b.{0,60}?\b(?:niet|geen|niets)\b"
    r"|\bgeen informatie\b|\bniet (?:vermeld|genoemd|gespecificeerd)\b|\bonvoldoende informatie\b",
    r"\b(?:handboek|handleiding|gids|beleid|contract|verslag|rapport|artikel|pagina|sectie|hoofdstuk"
    r"|reglement)\b.{0,40}?"
    r"\b(?:zegt|vermeldt|noemt|beschrijft|beantwoordt|specificeert|behandelt|staat)\b.{0,60}?\b(?:niet|niets)\b",
    # Russian
    r"^\W*(?:к сожалению\W+)?(?:я )?не знаю\b|\b(?:документ|текст|контекст|фрагмент|отрыв|источник"
    r"|пассаж)\S*.{0,40}?\bне\b"
    r"|\b(?:нет|недостаточно|отсутствует) (?:\S+ ){0,2}?(?:информаци|данных|сведений|ответа)|\bне (?:указан"
    r"|упомина|упомянут|сказано|говорится)"
    r"|\b(?:руководств|инструкци|справочник|отчёт|отчет|стать|договор|раздел|правил)\S*.{0,40}?\bне (?:указыва"
    r"|упомина|сообща"
    r"|говор|уточня|описыва|содержит (?:\S+ )?(?:информац|сведен|ответ|данных))"
    r"|\b(?:невозможно|не могу|нельзя) (?:\S+ )?(?:определить|ответить|найти|сказать)",
    # Arabic
    r"\b(?:لا|لست) (?:أعرف|أعلم|أدري|متأكد)|\bليس(?:ت)? (?:لدي|هناك) (?:\S+ ){0,3}?(?:معلومات|إجابة|فكرة)"
    r"|\b(?:لا|لم) (?:يوجد|توجد|تتوفر|تتوافر|أجد|يتم ذكر|يرد|ترد) (?:\S+ ){0,4}?(?:معلومات|إجابة|ذكر|بيانات)"
    r"|\bلا يمكن(?:ني|نا)? (?:\S+ )?(?:تحديد|الإجابة|معرفة|تأكيد|العثور|الجزم)"
    r"|(?:المقاطع|المقطع|الوثائق|الوثيقة|المستند\S*|النص|النصوص|السياق|المصادر|المصدر|الدليل|التقرير|السياسة|العقد"
    r"|الكتيب)"
    r".{0,40}?\b(?:لا|لم) (?:ي|ت|ن)?(?:ذكر|حتو|وضح|حدد|شر|شير|تضمن|جب|جيب|تطرق|نص)|\bغير (?:مذكور|محدد|معروف)\S*\W*$",
    # "I don't know" and "there is no information" elsewhere
    r"^\W*(?:bilmiyorum|nie wiem|jag vet inte|jeg ved ikke|jeg vet ikke|nevím|neviem|nu știu|nem tudom|en tiedä"
    r"|saya tidak tahu"
    r"|tôi không biết|không biết|δεν (?:ξέρω|γνωρίζω)|(?:אני )?לא יודע\w*|نمی‌?دانم|मुझे (?:नहीं|नही) (?:पता|मालूम)"
    r"|मैं नहीं जानता"
    r"|ne znam|ฉันไม่ทราบ|ไม่ทราบ|ฉันไม่รู้|ไม่รู้)",
    r"\b(?:bilgi (?:yok|bulunm)\w*|brak (?:\S+ )?informacji|ingen information\b|ingen opplysninger|không có thông tin"
    r"|tidak ada informasi|δεν υπάρχ\w+ πληροφορ|जानकारी (?:\S+ )?(?:नहीं|नही)|אין מידע|ไม่มีข้อมูล)",
)


@cache
def refusal() -> re.Pattern[str]:
    """What a refusal says. Compiled when it is first looked for: that takes a tenth of a second."""
    return re.compile("|".join((*_ENGLISH, *_GERMAN, *_CHINESE, *_JAPANESE, *_KOREAN, *_OTHER)))


# "Based on the passages, it is not possible to tell": what stands before the refusal proper.
FRAMING = re.compile(
    r"^\W*(?:(?:based|relying|going|judging) (?:solely |only |purely )?(?:on|by|from)|according to|from|in|within"
    r"|using|with"
    rf"|given|per|after (?:reading|reviewing|checking)) (?:\S+ ){{0,4}}?(?:{_ANY}|information)"
    r"(?: (?:you )?(?:provided|given|above|below|available|supplied|alone|here|at hand"
    r"|i have))*(?:\s*\[[\d, ]+\])*\s*,\s*"
    rf"|^\W*(?:anhand|aufgrund|auf (?:der )?(?:grundlage|basis)|gemäss|nach|laut|aus|in)\b[^,]{{0,60}},\s*"
    r"|^\W*(?:d'après|selon|sur la base|según|en base|basándome|con base)\b[^,]{0,60},\s*"
)
FRAMED = re.compile(r"\b(?:is|are|remains?|it's) (?:unknown|unclear|unspecified|not (?:known|clear|certain))\b")

# Every pattern of a refusal needs one of these; looking for them first spares most clauses the patterns.
CUES = (
    *(
        "not",
        "n't",
        "no ",
        "dont",
        "doesnt",
        "none",
        "neither",
        "nothing",
        "never",
        "fail",
        "without",
        "lack",
        "silent",
    ),
    *("unable", "unknown", "unclear", "unanswer", "insufficient", "impossible", "irrelevant", "unrelated", "outside"),
    *("beyond", "decline", "abstain"),
    *("nowhere", "unspecified", "unstated", "unmentioned", "undisclosed", "leave"),
    *("nicht", "kein", "unzureichend", "zu wenig", "schweig", "unmöglich"),
    *("pas", "aucun", "rien", "ignore", "manque", "non", "não", "niet", "geen", "onvoldoende", "silencio", "muet"),
    *(
        "bilmiyorum",
        "bilgi",
        "nie ",
        "brak",
        "inte",
        "ikke",
        "ingen",
        "nev",
        "nu ",
        "nem ",
        "en tied",
        "tidak",
        "không",
    ),
    *("δεν", "לא", "אין", "नही", "ไม่", "نمی", "ne "),
    *("не", "отсутств", "нельзя"),
    *("لا ", "لم ", "ليس", "لست", "غير"),
    *("不", "无", "無", "没", "沒", "未", "难", "缺"),
    *("ません", "ない", "かねます", "見つかり"),
    *("모르", "없", "못", "않", "부족"),
)

# ---- what is neither a refusal nor a claim -----------------------------------------------------------------

ASIDE = re.compile(
    "|".join(
        (
            # Where it was looked for: "See passages 1 and 2."
            r"^\W*(?:see|cf|source|reference|citation|siehe|vgl|quelle|voir|ver|fuente)s?\b(?:\W|\d|\b(?:also|and|und"
            r"|et|y"
            rf"|the|{_SOURCE}|quellen?|fuentes?)\b)*$",
            r"^\W*(?:i'm |i am |we're |we are )?(?:very |so |really )?(?:sorry|afraid)\b(?:\W+(?:for"
            r"|about)\b.*)?\W*$",
            r"^\W*(?:unfortunately|i apologi[sz]e\b.*|my apologies\b.*|apologies\b.*)\W*$",
            # What the passages are about, as long as no statement of theirs is repeated.
            rf"^\W*(?:they|it|the (?:\w+ ){{0,2}}?(?:{_SOURCE}|{_BOOK})|{_SOURCE}|these|this)(?: \S+)?(?: (?:only|just"
            r"|mainly|primarily|instead|mostly"
            r"|do|does|rather))* (?:discuss|cover|focus|mention|describe|talk|deal|relate|concern|address"
            r"|refer|pertain)\w*\b(?! that\b)",
            r"^\W*(?:the (?:question|user) (?:asks|is asking|asked)|you (?:asked|are asking)|you're asking)\b",
            # Where else to look, and offers.
            r"\b(?:please|kindly) (?:provide|contact|consult|check|refer|see|share|let|clarify|specify|try"
            r"|rephrase|ask|visit)\b",
            r"\b(?:if|once) you (?:have|can|could|provide|need|share|give|would|want|are|tell)\b"
            r"|\blet me know\b|\bfeel free\b",
            r"\byou (?:may|might|could|should|can|would|will|'ll)\b(?: \S+){0,4}? (?:check|consult|contact"
            r"|refer|ask|look|visit|try|search|reach)\b",
            r"\b(?:i|we)(?:'d| would)? (?:recommend|suggest|advise)\b|^\W*(?:try|consider|consult|contact"
            r"|check|ask)\b",
            r"\b(?:more|additional|further) (?:context|information|details)\b(?: \S+){0,6}? (?:needed"
            r"|required|necessary|help)\b",
            r"\b(?:would you like|can you|could you|is there anything)\b|\bi(?:'m| am| would be"
            r"|'d be) happy to\b|\bhappy to help\b",
            r"^\W*(?:(?:es )?tut mir leid|leider|entschuldigung|bitte\b.*|désolée?|lo siento|mi dispiace"
            r"|desculpe|helaas|к сожалению"
            r"|извините)\W*$|\bwenden sie sich\b|\bveuillez\b|\bpor favor\b",
            r"^\W*(?:(?:很)?抱歉|对不起|對不起|很遗憾|不好意思)\W*$|(?:请|請|建议|建議)(?:您|你)?(?:提供|联系|聯繫"
            r"|查阅|查閱|咨询|諮詢|参考|參考)",
            r"^\W*(?:申し訳(?:ありません|ございません)|すみません|죄송합니다)\W*$|(?:お問い合わせ|ご確認)ください"
            r"|문의하",
        )
    )
)
