"""`tileproof diagnose`: symptoms in words, ranked causes, and what to dump next."""

from __future__ import annotations

import json

import click
from tileproof.conformance.cli.options import json_option
from tileproof.spec.machine.errors import TileproofError

SHOWN = 5
FOUND, NOTHING = 0, 1


@click.command()
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option(
    "--problem", required=True, metavar="NAME",
    help="The problem type (docs/tensors.md), whose stages determine which errors reach which output.",
)  # fmt: skip
@json_option()
def diagnose(words: tuple[str, ...], problem: str, as_json: bool) -> int:
    """Rank the causes of symptoms in WORDS, such as "hangs only with 2 CTAs".

    The problem's stage graph limits which stages can be wrong; the corpus of public bugs gives causes. Words
    that are not understood are named. A ranking is a hint where to look, no verdict.

    Exit code 0: causes are listed; 1: no cause fits; 2: no word is understood.
    """
    from tileproof.conformance.beside.symptoms.ranking import ranked
    from tileproof.conformance.beside.symptoms.words import WORDS, read_symptoms
    from tileproof.spec.problems import problem_type

    kind = problem_type(problem)
    symptoms = read_symptoms(" ".join(words), kind)
    if not symptoms.outputs and not symptoms.kinds:
        raise TileproofError(
            "no symptom is understood", where="WORDS", found=" ".join(words),
            expected=f"outputs ({', '.join(kind.stages)}) that are {', '.join(WORDS['states'])}; "
            f"or {', '.join(WORDS['kinds'])}; under conditions: {', '.join(WORDS['conditions'])}",
        )  # fmt: skip
    causes = ranked(kind, symptoms)
    made = {
        "problem": kind.name,
        "understood": {
            "outputs": dict(symptoms.outputs),
            "kinds": sorted(symptoms.kinds),
            "conditions": sorted(symptoms.conditions),
        },
        "not understood": list(symptoms.unknown),
        "causes": [
            {"cause": item.cause, "check": item.check, "stages": item.stages, "corpus": item.rows}
            for item in causes
        ],
    }
    if as_json:
        click.echo(json.dumps(made))
        return FOUND if causes else NOTHING
    said = [f"{name} {state}" for name, state in symptoms.outputs.items()]
    said += [name for name in sorted(symptoms.kinds) if name not in symptoms.outputs.values()]
    click.echo(f"understood: {', '.join([*said, *sorted(symptoms.conditions)])} ({kind.name})")
    if symptoms.unknown:
        click.echo(f"not understood: {', '.join(symptoms.unknown)}")
    for number, cause in enumerate(causes[:SHOWN], 1):
        click.echo(f"{number}. {cause.cause}")
        click.echo(f"   next:   {cause.check}")
        if cause.rows:
            click.echo(f"   corpus: {', '.join(cause.rows)}")
    if not causes:
        click.echo("no cause fits: no single stage makes exactly these outputs wrong")
    return FOUND if causes else NOTHING
