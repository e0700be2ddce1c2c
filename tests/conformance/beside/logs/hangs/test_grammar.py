"""Logs in made-up words: what the explainer finds in them, it finds from the order of the lines."""

from dataclasses import replace
from itertools import islice

from benchmarks.hang_strangers import explain
from benchmarks.strangers import folder
from benchmarks.strangers.blanked import blanked, restored
from benchmarks.strangers.score import Score, logs

LOG = """<0> lotaq | biduq kv_a | fonuq 0
<0> lotaq | biduq kv_a | fonuq 0 | rimuq
<0> lotaq | sagoq kv_b
<0> lotaq | biduq kv_a | fonuq 1
<0> pavuq | biduq kv_b | fonuq 0
<0> pavuq | biduq kv_b | fonuq 0 | rimuq
<0> pavuq | sagoq kv_a
<0> pavuq | biduq kv_b | fonuq 1
<0> lotaq | biduq kv_a | fonuq 1 | rimuq
<0> lotaq | sagoq kv_b
<0> pavuq | biduq kv_b | fonuq 1 | rimuq
<0> lotaq | biduq kv_a | fonuq 0
"""


def test_words_that_nobody_knows_are_learned_from_the_log() -> None:
    found = explain(LOG)
    assert found is not None and found["outcome"] == "hang"
    assert found["root"]["barrier"] == "kv_a" and found["root"]["actor"]["role"] == "lotaq"
    assert found["certainty"] in ("likely", "open")
    assert any("inferred from their order" in why for why in found["why"])


def test_a_run_that_went_on_is_no_hang() -> None:
    done = LOG.replace("fonuq 1 | rimuq\n<0> lotaq | biduq kv_a | fonuq 0\n", "fonuq 1 | rimuq\n")
    found = explain(done)
    assert found is not None and found["outcome"] == "no hang seen"


def test_the_score_over_blanked_logs() -> None:
    score = Score()
    for number, log in enumerate(islice(logs(1, 1, "mixed"), 16)):
        text, back = blanked(log.text, number)
        score.add(replace(log, text=text), restored(explain(text), back))
    assert score.right >= 4 and not score.certain and not score.lies, score.table()


def test_a_folders_truth_decides() -> None:
    found = explain(LOG)
    assert found is not None
    code = found["causes"][0]["code"]
    kind = next(kind for kind, codes in folder.CODES.items() if code in codes)
    truth = {"name": "a", "kind": kind, "barrier": "kv_a", "role": "lotaq"}
    assert folder.is_right(truth, found) or found["causes"][0]["culprit"] is not None
    assert not folder.is_right(truth | {"barrier": "kv_b"}, found)
    assert not folder.is_right(truth | {"kind": "circular" if kind != "circular" else "bytes"}, found)
    assert not folder.is_right(truth, None)
