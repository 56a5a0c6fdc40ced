"""What an experiment's calls to models would cost, before any is made, less what the ledger holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from contextgrid.core.errors import ContextGridError
from contextgrid.models.calls import CallSettings, MeteredLLM, open_model
from contextgrid.models.session import session_of

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.generate.judging import Memory
    from contextgrid.grid.experiment import Experiment
    from contextgrid.models import LLM
    from contextgrid.settings import RunSettings

# Tokens in a reply where the ledger knows none of the model's: a share of what it may write.
_TYPICAL_LENGTH = 0.5
# Estimated tokens of a text are words and marks; providers split words further.
_TOKENS_PER_ESTIMATED = 1.3


class Call(NamedTuple):
    """A call that a stage would make."""

    key: str
    prompt_tokens: float
    max_tokens: int
    worst_usd: float | None


@dataclass(frozen=True)
class Needed:
    """The calls that one stage needs of one model.

    Attributes:
        stage: what for, as ``answers``.
        model: the model's name.
        calls: distinct calls in all.
        held: how many of them the ledger holds.
        usd: dollars of the others, an estimate: replies may be longer or shorter than they used to be. ``None``
            for a model without a price.
        usd_at_most: dollars of the others if every reply is as long as it may be.
    """

    stage: str
    model: str
    calls: int
    held: int
    usd: float | None
    usd_at_most: float | None

    @property
    def to_make(self) -> int:
        """Calls that would be made."""
        return self.calls - self.held


@dataclass(frozen=True)
class Estimate:
    """What is needed, stage by stage and model by model. Free models are not listed."""

    needed: tuple[Needed, ...] = ()

    @property
    def calls(self) -> int:
        """Calls that would be made."""
        return sum(item.to_make for item in self.needed)

    @property
    def held(self) -> int:
        """Calls that the ledger holds."""
        return sum(item.held for item in self.needed)

    @property
    def usd(self) -> float | None:
        """Dollars, estimated; ``None`` if any model that would be called has no price."""
        return _total(item.usd for item in self.needed if item.to_make)

    @property
    def usd_at_most(self) -> float | None:
        """Dollars at most; ``None`` likewise."""
        return _total(item.usd_at_most for item in self.needed if item.to_make)


@dataclass
class Estimator:
    """Collects the calls of many cells, identical ones once, and asks the ledger which of them it holds.

    Args:
        calls: how calls are made.

    Attributes:
        made_up: by the mark of each reply that was made up, the tokens that the real one may have.
    """

    calls: CallSettings
    made_up: dict[str, int] = field(default_factory=dict, init=False)
    _found: dict[tuple[str, str], dict[str, Call]] = field(default_factory=dict, init=False)
    _models: dict[str, MeteredLLM] = field(default_factory=dict, init=False)

    def add_answers(self, retrieved: pa.Table, generation_spec: pa.Table, run: RunSettings) -> None:
        """The calls that answer all questions of a retrieval with a generation configuration, exactly.

        Args:
            retrieved: schema ``tables.RETRIEVED``.
            generation_spec: one row, schema ``tables.GENERATION_SPEC``.
        """
        from contextgrid.assemble.context import ContextAssembler
        from contextgrid.generate import LLMGenerator, get_generator
        from contextgrid.generate.answering import ask

        spec = generation_spec.to_pylist()[0]
        if spec["model"] is None:
            return
        model = open_model(spec["model"], calls=self.calls, stage="answers")
        generator = get_generator(spec["generator"], model, prompt=spec["prompt"], max_tokens=run.max_tokens)
        if not model.is_paid or not isinstance(generator, LLMGenerator):
            return
        assembler = ContextAssembler(ordering=run.ordering, max_tokens=run.context_tokens)
        prompts = [generator.prompt_for(*asked) for asked in ask(retrieved, k=run.k, assembler=assembler)]
        self.add("answers", model, prompts, max_tokens=generator.max_tokens)

    def add(
        self,
        stage: str,
        model: MeteredLLM,
        prompts: Sequence[str],
        *,
        max_tokens: int,
        system: str | None = None,
        quoted_tokens: int = 0,
    ) -> None:
        """Calls with these prompts. Free models and those that may follow a script are left out.

        Args:
            quoted_tokens: tokens by which each prompt may turn out longer, for it quotes replies that are made up.
        """
        from contextgrid.core.words import count_tokens

        if not model.is_paid:
            return
        found = self._found.setdefault((stage, model.name), {})
        self._models[model.name] = model
        for prompt in prompts:
            key = model.key(prompt, max_tokens=max_tokens, system=system)
            if key not in found:
                tokens = _TOKENS_PER_ESTIMATED * count_tokens(f"{system or ''} {prompt}")
                worst = model.worst_case(prompt, max_tokens=max_tokens, system=system)
                if worst is not None and model.price is not None:
                    worst += model.price.usd(quoted_tokens, 0)
                found[key] = Call(key, tokens, max_tokens, worst)

    def estimate(self) -> Estimate:
        """What all calls so far need, less what the ledger holds."""
        ledger = session_of(self.calls).ledger
        lengths = {} if ledger is None else ledger.mean_completion_tokens()
        needed = []
        for (stage, name), found in self._found.items():
            held = set() if ledger is None or self.calls.mode == "fresh" else ledger.held(found)
            missing = [call for key, call in found.items() if key not in held]
            usd = _dollars(self._models[name], missing, lengths.get((name, stage)))
            at_most = _total(call.worst_usd for call in missing)
            needed.append(Needed(stage, name, len(found), len(held), usd, at_most))
        return Estimate(tuple(needed))


def stated_needs(experiment: Experiment) -> list[str]:
    """Calls and dollars that running an experiment would need now, in words."""
    try:
        needed = describe(estimate(experiment), experiment.run.call_settings)
    except ContextGridError as error:
        return [f"their number is not known: {error}"]
    return needed or ["no calls that cost anything"]


def estimate(experiment: Experiment) -> Estimate:
    """What running an experiment would need now. Retrieval is run for it in memory, nothing is called.

    Answers and verdicts that are not in the ledger are made up, a different one for every call, so what judges will be
    asked about them is a guess: as a rule there are no more calls than that.

    Raises:
        ContextGridError: if documents, questions or prompts cannot be read, or if hosted embeddings or rankings
            are needed that the ledger does not hold yet.
    """
    from contextgrid.generate.judging import judge_for
    from contextgrid.models.purpose import no_calls

    run = experiment.run
    judges = {column: judge_for(run, column.model) for column in experiment.matrix.columns}
    asking = [column for column in judges if _is_paid(column.model, run) or _is_paid(_spec(judges[column]), run)]
    if not asking and not any(row.retrieval_is_hosted for row in experiment.matrix.rows):
        return Estimate()
    from contextgrid.evalset import evalset_to_table
    from contextgrid.grid.rehearsal import made_up_answer, made_up_verdict, stand_in
    from contextgrid.grid.runner import Runner
    from contextgrid.stages import answer, judge

    evalset = experiment.load_evalset()
    questions = evalset_to_table(evalset)
    runner = Runner(experiment.load_corpus(), run.headline, run=run)
    estimator = Estimator(run.call_settings)
    verdicts: dict[str, Memory] = {}
    for row in experiment.matrix.rows:
        with no_calls():
            retrieved = runner.retrieved(row, evalset, run)
        for column in asking:
            model = None if column.model is None else stand_in(column.model, "answers", estimator, made_up_answer)
            answers = answer(retrieved, experiment.generation_spec(column), run, model)
            spec = _spec(judges[column])
            judging = None if spec is None else stand_in(spec, "judge_scores", estimator, made_up_verdict)
            if spec is not None and judging is not None:
                judge(answers, questions, run, judging, memory=verdicts.setdefault(spec, {}))
    return estimator.estimate()


def describe(estimate: Estimate, calls: CallSettings) -> list[str]:
    """An estimate in words, a line for each stage and model, then what the budget makes of it."""
    lines = []
    for item in estimate.needed:
        line = f"{item.stage}: {item.to_make} calls to {item.model}"
        if item.held:
            line += f" ({item.held} of {item.calls} are in the ledger)"
        if item.to_make:
            line += ", " + _in_words(item.usd, item.usd_at_most)
        lines.append(line)
    if any(item.stage == "judge_scores" and item.to_make for item in estimate.needed):
        lines.append(
            "judge_scores: what judges will be asked about answers and earlier judge replies that are not written yet"
            " is guessed"
        )
    if calls.budget_usd is not None and estimate.usd is not None:
        if estimate.usd > calls.budget_usd:
            lines.append(f"the budget of ${calls.budget_usd:g} will not cover them; the rest waits for the next run")
        else:
            lines.append(f"the budget is ${calls.budget_usd:g}")
    return lines


def _in_words(usd: float | None, at_most: float | None) -> str:
    if usd is None or at_most is None:
        return "at an unknown cost: the model has no price; set one under run.prices"
    return f"about ${usd:.4f}, at most ${at_most:.4f} (estimates)"


def _is_paid(spec: str | None, run: RunSettings) -> bool:
    return spec is not None and open_model(spec, calls=run.call_settings, stage="answers").is_paid


def _spec(judge: LLM | str | None) -> str | None:
    return judge if isinstance(judge, str) else None


def _dollars(model: MeteredLLM, calls: Iterable[Call], length: float | None) -> float | None:
    if model.price is None:
        return None
    per_token = model.price.input / 1e6, model.price.output / 1e6
    return sum(
        call.prompt_tokens * per_token[0]
        + min(call.max_tokens, length or _TYPICAL_LENGTH * call.max_tokens) * per_token[1]
        for call in calls
    )


def _total(parts: Iterable[float | None]) -> float | None:
    amounts = list(parts)
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
