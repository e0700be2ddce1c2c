"""Which cases of a long list run always."""

from __future__ import annotations

from tests.kit.sampled import sampled


def test_the_first_of_each_kind_and_every_third_after_it_run_always() -> None:
    cases = ["a0", "a1", "b0", "a2", "a3", "b1", "c0"]
    always = [param.values[0] for param in sampled(cases, 3, lambda name: name[0]) if not param.marks]
    assert always == ["a0", "b0", "a3", "c0"]
