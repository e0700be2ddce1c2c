"""How often `tileproof diagnose` names the true cause among the first three: `python benchmarks/symptoms.py`.

For each set of descriptions (tests/kit/symptom_exams.py), with two baselines.
"""

from __future__ import annotations

from tests.kit.symptom_exams import EXAMS, grade


def main() -> None:
    print(f"{'descriptions':20}{'number':>8}{'found':>8}{'names':>8}{'outputs only':>14}{'same three':>12}")
    for exam in EXAMS:
        made = grade(exam)
        shares = [
            f"{share / made.descriptions:.0%}" for share in (made.found, made.outputs_only, made.same_three)
        ]
        print(f"{exam:20}{made.descriptions:8}{shares[0]:>8}{made.names:8.1f}{shares[1]:>14}{shares[2]:>12}")


if __name__ == "__main__":
    main()
