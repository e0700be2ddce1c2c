"""How often `explain` names the cause of hangs that strangers print.

    python benchmarks/hang_strangers.py [--rounds 1] [--seed 0] [--set mixed] [--show 20] [--blank]
    python benchmarks/hang_strangers.py --exam third [--each 22] [--show 20]
    python benchmarks/hang_strangers.py --folder DIR [--show 20] [--templates [DIR]] [--lose head]

The kernels, the machine that runs them and the wordings are in benchmarks/strangers, apart from the tests'
generator (tests/kit/hang_logs). `--print NAME` prints the logs whose name contains NAME, and their answers.
Exit code 1: fewer than 90% right, or an answer wrong and certain.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tileproof.conformance.beside.logs.hangs import text
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.template.explain import explained, user_lines
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

from benchmarks.strangers import folder
from benchmarks.strangers.blanked import blanked, restored
from benchmarks.strangers.exams import grade
from benchmarks.strangers.score import DRAWN, SETS, Score, logs

TEMPLATES = Path(__file__).parent / "strangers" / "templates"


def explain(text: str) -> UncheckedObject | None:
    """The diagnosis of a log; None where it is refused."""
    try:
        return diagnosis(read_text(text))
    except TileproofError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1, help="logs of each mistake in each wording")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", choices=(*SETS, *DRAWN), default="all")
    parser.add_argument("--show", type=int, default=0, help="names of logs answered wrongly")
    parser.add_argument(
        "--print", default="", help="print the logs whose name contains this, and their answers"
    )
    parser.add_argument("--blank", action="store_true", help="replace the words of a log by made-up words")
    parser.add_argument("--folder", type=Path, help="logs with a truth.jsonl (strangers/folder.py)")
    parser.add_argument(
        "--templates", type=Path, nargs="?", const=TEMPLATES, metavar="DIR",
        help="read a folder's logs by DIR/STYLE.lines (default: strangers/templates)",
    )  # fmt: skip
    parser.add_argument("--lose", choices=folder.LOSSES, help="remove lines of a folder's logs")
    parser.add_argument("--exam", choices=tuple(grade.EXAMS), help="an exam (strangers/exams/grade.py)")
    parser.add_argument("--each", type=int, default=20, help="logs of each style of an exam")
    chosen = parser.parse_args()
    if chosen.exam is not None:
        return _exam(chosen)
    if chosen.folder is not None:
        return _folder(chosen)
    score = Score()
    for number, log in enumerate(logs(chosen.seed, chosen.rounds, chosen.set)):
        if chosen.blank:
            if log.said is None:
                continue
            text, back = blanked(log.text, number)
            log = replace(log, text=text)
            found = restored(explain(text), back)
        else:
            found = explain(log.text)
        good = score.add(log, found)
        if chosen.print and chosen.print in log.name:
            print(f"--- {log.name}: {'right' if good else 'WRONG'}\n{log.text}")
            if found is not None:
                causes = [(item["code"], item["what"]) for item in found["causes"][:2]]
                print(
                    found["outcome"],
                    found["certainty"],
                    found["why"],
                    found["root"] and found["root"]["copy"],
                    *causes,
                )
                print("not understood:", found["read"]["examples"])
    return _report(score, chosen.show)


def by_template(log: folder.FolderLog, templates: Path) -> UncheckedObject | None:
    """The diagnosis of a log by its style's templates; None where it is refused."""
    user = user_lines(file=templates / f"{log.style}.lines")
    assert user is not None
    try:
        return explained(log.text, log.name, user)
    except TileproofError:
        return None


def _exam(chosen: argparse.Namespace) -> int:
    score = grade.grade(explain, chosen.exam, chosen.each, chosen.seed)
    print(score.table())
    for name in score.failed[: chosen.show]:
        print("failed:", name)
    return 0 if score.count["correct"] >= 0.9 * score.n and not score.lies else 1


def _folder(chosen: argparse.Namespace) -> int:
    score = folder.FolderScore()
    for whole in folder.read(chosen.folder):
        log = folder.lose(whole, chosen.lose) if chosen.lose else whole
        found = by_template(log, chosen.templates) if chosen.templates else explain(log.text)
        good = score.add(log, found)
        if chosen.print and chosen.print in log.name:
            print(f"--- {log.truth}: {'right' if good else 'WRONG'}\n{log.text}")
            if found is not None:
                print(text.text(found))
    return _report(score, chosen.show)


def _report(score: Score | folder.FolderScore, show: int) -> int:
    print(score.table())
    for name in score.wrong[:show]:
        print("wrong:", name)
    for name in score.lies:
        print("wrong and certain:", name)
    return 0 if score.passes() else 1


if __name__ == "__main__":
    sys.exit(main())
