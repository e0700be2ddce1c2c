"""How many drawn mutants are proved equal from the code, and whether a check kills any of these mutants.

    python benchmarks/proved_mutants.py KERNEL [--variant d_qk=512] [--seed N] [--count N]
                                        [--operators A,B] [--runs]

Prints a line of JSON per mutant that is proved, then the counts. `--runs` judges each proved mutant by the
runs of the quick profile: none may be killed (exit code 1 otherwise).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter

from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.mutate.assembled import assemble
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Pool, draw, wanted
from tileproof.conformance.beside.mutate.judged import judge_all
from tileproof.conformance.beside.mutate.runs import original
from tileproof.conformance.beside.mutate.solved import proof
from tileproof.conformance.cli.variants import chosen
from tileproof.kernels.registry import kernel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel")
    parser.add_argument("--variant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--operators")
    parser.add_argument("--runs", action="store_true")
    given = parser.parse_args()
    found = kernel(given.kernel)
    variant = chosen(found, given.variant)[0]
    built, plan = found.build(variant), found.plan(variant)
    pool = Pool(PtxCode(built.ptx, built.entry), found.sources, found.image.prefix)
    extents = Extents((plan.threads, 1, 1), plan.cluster)
    names = [name for name in wanted(given.operators) if not name.startswith("source")]
    counts: Counter[str] = Counter()
    proved, took = [], 0.0
    for drawn in itertools.islice(draw(pool, names, given.seed), given.count):
        began = time.process_time()
        argument, unproved = proof(pool.code, drawn, extents)
        took += time.process_time() - began
        what = argument.split(":")[0] if argument else " ".join(unproved.split()[:3])
        counts[what if argument or "covered" in what else "not proved"] += 1
        if argument:
            proved.append(drawn)
            row = {"number": drawn.number, "operator": drawn.operator, "what": drawn.what}
            print(json.dumps({**row, "proof": argument}), flush=True)
    print(
        json.dumps({"kernel": found.title(variant), "seed": given.seed, **counts, "seconds": round(took, 1)})
    )
    if not given.runs or not proved:
        return 0
    base = original(found, variant, "quick")
    digest = assemble(built.ptx, found.arch).digest
    outcomes = Counter(judgement.outcome for judgement in judge_all(base, proved, digest, 2, 300))
    print(json.dumps({"judged": dict(outcomes)}))
    return 1 if outcomes["killed"] else 0


if __name__ == "__main__":
    sys.exit(main())
