# ruff: noqa: E501 - log lines are kept whole
"""Layouts of lines: headings over rows, waits with two times, legends of addresses, results of polls, labels apart."""

from collections import Counter, defaultdict

import pytest
from tileproof.conformance.beside.logs.hangs.general.lexicon import field
from tileproof.conformance.beside.logs.hangs.lines.headings import under_headings
from tileproof.conformance.beside.logs.hangs.lines.labels import with_labels
from tileproof.conformance.beside.logs.hangs.lines.legend import with_names
from tileproof.conformance.beside.logs.hangs.lines.polls import with_results
from tileproof.conformance.beside.logs.hangs.lines.spans import with_ends
from tileproof.conformance.beside.logs.hangs.log import OWN, Log, LogEvent
from tileproof.conformance.beside.logs.hangs.reader import read_text

from tests.conformance.beside.logs.hangs.test_turns import answer, ring

PLAIN = {
    "wait": "{role}|0|wait {bar}[{stage}]{far} parity={phase} k={k}",
    "done": "{role}|1|wait {bar}[{stage}]{far} parity={phase} k={k}",
    "arrive": "{role}||arrive {bar}[{stage}]{far} k={k}",
    "expect": "{role}||arrive.expect_tx {bar}[{stage}] bytes={size} k={k}",
    "copy": "{role}||tma_load {bar}[{stage}] bytes={size} k={k}",
    "far": " of cta {owner}",
}
WARPS = {"filler": 0, "eater": 3}
HEADINGS = {
    "a mark and a count": "-- cta 0 warp {warp} {role}: 20 entries",
    "a frame": "=== {role} (warp {warp}) ===",
    "a colon": "{role}:",
    "brackets": "[{role}]",
    "a title": "## {role}",
}
SPANS = {
    "dots": ("  {a:>6}..{b:<6}  {text}", "  {a:>6}..(open)  {text}", "  {a:>6}          {text}"),
    "an arrow": ("[{a} -> {b}] {text}", "[{a} -> ?] {text}", "[{a}] {text}"),
    "labels": ("{text} start={a} end={b}", "{text} start={a} end=-", "{text} at={a}"),
}


def told(text: str) -> list[LogEvent]:
    log = read_text(text)
    assert isinstance(log, Log)
    return log.events


def counted(found: list[LogEvent]) -> Counter[str]:
    return Counter(event.kind for event in found if event.scope == "mbarrier")


def dump(heading: str, span: tuple[str, str, str], far: int | None = None) -> str:
    """The ring's log as a dump of each role, a wait and its end on one row."""
    rows: dict[str, list[list[object]]] = defaultdict(list)
    for clock, line in enumerate(ring(PLAIN, far=far).splitlines()):
        role, edge, text = line.split("|")
        if edge == "1":
            rows[role][-1][1] = 1000 + 37 * clock
        else:
            rows[role].append([1000 + 37 * clock, "open" if edge == "0" else "", text])
    lines: list[str] = []
    for role, some in rows.items():
        lines.append(heading.format(role=role, warp=WARPS[role]))
        for begin, end, said in some:
            form = span[2] if end == "" else span[1] if end == "open" else span[0]
            lines.append(form.format(a=begin, b=end, text=said))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("heading", HEADINGS)
def test_headings_name_the_actor_of_the_rows_below(heading: str) -> None:
    far = 1 if "cta" in HEADINGS[heading] else None
    found = told(dump(HEADINGS[heading], SPANS["dots"], far))
    assert {event.actor.role.split()[0] for event in found} == {"filler", "eater"}
    assert counted(found) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    owners = {event.owner for event in found if event.barrier == "tileempty" and event.kind == "wait"}
    assert owners == {1 if far else OWN}


@pytest.mark.parametrize("span", SPANS)
def test_a_row_with_two_times_begins_and_ends_a_wait(span: str) -> None:
    text = dump(HEADINGS["a mark and a count"], SPANS[span])
    assert counted(told(text)) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert answer(text)["root"]["barrier"] == "tile_empty"


def test_a_heading_of_a_cta_stays_over_headings_of_warps() -> None:
    rows = [f"  wait full[{k % 2}] k={k}" for k in range(4)]
    lines = ["=== CTA 1 ===", "-- warp 0 load", *rows, "-- warp 4 mma", *rows]
    found = under_headings(list(enumerate(lines, 1)))
    assert found[0] == (3, "CTA 1 warp 0 load: wait full[0] k=0")
    assert found[-1] == (11, "CTA 1 warp 4 mma: wait full[1] k=3")


def test_rows_that_are_drawn_like_headings_have_none() -> None:
    lines = ["====== SANITIZER"] + [
        f"====== Block {k % 2}, load warp: waits on full[0], k={k}" for k in range(9)
    ]
    assert under_headings(list(enumerate([*lines, "====== Block 0, mma warp:"], 1))) == [
        *enumerate([*lines, "====== Block 0, mma warp:"], 1)
    ]


def test_edges_and_stages_are_no_times() -> None:
    lines = [(k, f"0->1 wait full[{k % 2}]") for k in range(8)] + [(9, "2-3 wait full[0]")]
    assert with_ends(lines) == lines


LEGENDS = {
    "names first": ("{name}  {base:#x}  2 x 8 B", "{at:#x}"),
    "addresses first": ("{base:#06x} 2 {name}", "[{at:#x}]"),
    "decimal": ("{name} at {base}, 2 stages", "({at})"),
    "a stride": ("{name} base={base:#x} stride=16", "{at:#x}"),
}


@pytest.mark.parametrize("form", LEGENDS)
def test_addresses_by_a_legend(form: str) -> None:
    row, used = LEGENDS[form]
    step = 16 if "stride" in row else 8
    bases = {"tile_empty": 1024, "tile_full": 1024 + 2 * step}
    text = ring({
        "wait": "cta0 {role}: test_wait <{bar}.{stage}> parity {phase}",
        "done": "cta0 {role}: passed <{bar}.{stage}> parity {phase}",
        "arrive": "cta0 {role}: arrive <{bar}.{stage}>",
        "expect": "cta0 {role}: arrive.expect_tx <{bar}.{stage}>, 0x2000",
        "copy": "cta0 {role}: bulk copy <{bar}.{stage}> size=0x2000",
        "far": "",
    })  # fmt: skip
    for name, base in bases.items():
        for stage in range(2):
            text = text.replace(f"<{name}.{stage}>", used.format(at=base + step * stage))
    if form == "decimal":
        text = text.replace("0x2000", "8192")
    head = "".join(row.format(name=name, base=base) + "\n" for name, base in bases.items())
    found = told("barriers in shared memory:\n" + head + text)
    assert {(event.barrier, event.stage) for event in found} == {
        (name, stage) for name in ("tileempty", "tilefull") for stage in range(2)
    }
    assert {event.size for event in found if event.kind == "copy"} == {8192}


def test_sizes_are_no_legend() -> None:
    lines = [
        (1, "full 0x400"),
        (2, "empty 0x410"),
        *((k, f"mma waits full[{k % 2}] phase 0") for k in range(3, 9)),
    ]
    assert with_names(lines) == lines


@pytest.mark.parametrize(
    "results", [("-> 0, looping", "-> 1"), ("returned false", "returned true"), ("ok=0", "ok=1")]
)
def test_results_tell_the_end_of_a_polled_wait(results: tuple[str, str]) -> None:
    style = {
        "wait": "cta{cta} {role}: test_wait {bar}[{stage}] parity={phase} k={k} " + results[0],
        "done": "cta{cta} {role}: test_wait {bar}[{stage}] parity={phase} k={k} " + results[1],
        "arrive": "cta{cta} {role}: arrive {bar}[{stage}] k={k}",
        "expect": "cta{cta} {role}: arrive.expect_tx {bar}[{stage}] bytes={size} k={k}",
        "copy": "cta{cta} {role}: tma_load {bar}[{stage}] bytes={size} k={k}",
        "far": "",
    }
    lines = ring(style).splitlines()
    again = [line for line in lines for _ in range(2 if line.endswith(results[0]) else 1)]
    assert counted(told("\n".join(again) + "\n")) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}


def test_results_without_failures_tell_nothing() -> None:
    lines = [(k, f"mma wait full[{k}] -> 1") for k in range(5)]
    assert with_results(lines) == lines


def test_labels_apart_from_their_values() -> None:
    def put(text: str) -> str:
        return with_labels([(1, text)])[0][1]

    assert (
        put("msg='dma at wait(full[0]), parity' thread=0: value=1")
        == "msg='dma at wait(full[0])' thread=0: parity=1"
    )
    assert put("wait full (stage, phase) = (1, 0)").split() == ["wait", "full", "stage=1", "phase=0"]
    assert put("wait full stage/phase=2/1 k=3").split() == ["wait", "full", "stage=2", "phase=1", "k=3"]
    assert put("named_barrier(id, threads)=(3, 256)") == "named_barrier(id, threads)=(3, 256)"


def test_a_label_of_ctas_that_all_rows_have_names_the_actors() -> None:
    style = {
        "wait": "msg='{role} at wait({bar}[{stage}]{far})' block={cta} thread={role}: parity={phase}",
        "done": "msg='{role} past wait({bar}[{stage}]{far})' block={cta} thread={role}: parity={phase}",
        "arrive": "msg='{role} did arrive({bar}[{stage}]{far})' block={cta} thread={role}: ko={k}",
        "expect": "msg='{role} did arrive_expect_tx({bar}[{stage}])' block={cta} thread={role}: bytes={size}",
        "copy": "msg='{role} did tma_load({bar}[{stage}])' block={cta} thread={role}: bytes={size}",
        "far": ", cta={owner}",
    }
    text = ring(style, far=1).replace("thread=filler", "thread=96").replace("thread=eater", "thread=32")
    found = told(text)
    assert {event.actor.cta for event in found} == {0}
    assert {event.actor.role for event in found} == {"filler", "eater"}  # not warps 3 and 1
    assert {event.owner for event in found if event.barrier == "tileempty" and event.kind == "wait"} == {1}


def test_parts_of_a_label_in_front_of_a_cta() -> None:
    assert field("at_cta") == "owner" and field("in_blk") == "owner" and field("sm_warp") == ""


MASKS = {
    "wait": "0,{role},wait_issue,{bar},{stage},{phase},{k},,",
    "done": "0,{role},wait_ret,{bar},{stage},{phase},{k},,",
    "arrive": "0,{role},arrive,{bar},{stage},,{k},,{far}",
    "expect": "0,{role},arrive_expect,{bar},{stage},,{k},{size},",
    "copy": "0,{role},tma_issue,{bar},{stage},,{k},{size},",
    "far": "{owner}",
}
COMMENT = "# remote: rank that owns the barrier (waits), ctaMask of the barriers hit (arrivals)\n"
HEADER = "cta_rank,warp,event,mbarrier,stage,phase,k_iter,bytes,remote\n"


def masked(far: int) -> str:
    """The ring in two CTAs, with a column that is empty, a CTA or a mask."""
    text = ring(MASKS, far=far)
    return HEADER + text + text.replace("0,filler", "1,filler").replace("0,eater", "1,eater")


def test_numbers_beyond_the_ctas_are_masks_and_comments_tell_no_event() -> None:
    found = told(COMMENT + masked(3))
    assert {event.to for event in found if event.kind == "arrive" and event.barrier == "tileempty"} == {3}
    assert min(event.line for event in found) == 3


def test_a_comment_names_a_column_of_masks() -> None:
    mine = told(COMMENT + masked(1))
    other = told(masked(1))
    assert {event.to for event in mine if event.kind == "arrive" and event.barrier == "tileempty"} == {1}
    assert {event.to for event in other if event.kind == "arrive" and event.barrier == "tileempty"} == {2}


def test_hyphens_join_a_role_and_its_number() -> None:
    text = ring({
        "wait": "B{cta} {role}, Runde {k}: wartet auf {bar}, Puffer {stage}, Phase {phase}",
        "done": "B{cta} {role}, Runde {k}: fertig mit {bar}, Puffer {stage}, Phase {phase}",
        "arrive": "B{cta} {role}, Runde {k}: arrive auf {bar}, Puffer {stage}",
        "expect": "B{cta} {role}, Runde {k}: arrive auf {bar}, Puffer {stage}, {size} Byte erwartet",
        "copy": "B{cta} {role}, Runde {k}: TMA auf {bar}, Puffer {stage}, {size} Byte",
        "far": "",
    }).replace("filler", "Softmax-Gruppe-0").replace("eater", "Softmax-Gruppe-1")  # fmt: skip
    assert {event.actor.role for event in told(text)} == {"softmax-gruppe-0", "softmax-gruppe-1"}


def test_the_index_of_a_roles_warp_is_no_cta() -> None:
    style = {
        "wait": "{k:5} {cta} {role} HOLD {bar} {stage} {phase}",
        "done": "{k:5} {cta} {role} PASS {bar} {stage} {phase}",
        "arrive": "{k:5} {cta} {role} ARV {bar} {stage} -",
        "expect": "{k:5} {cta} {role} ARV_TX {bar} {stage} - tx={size}",
        "copy": "{k:5} {cta} {role} TMA_LD {bar} {stage} - sz={size}",
        "far": "",
    }
    lines = ring(style).replace("filler", "0 filler").replace("eater", "2 eater").splitlines()
    both = [line for row in lines for line in (row, *(row.replace(" 0 ", f" {cta} ", 1) for cta in (1, 2)))]
    assert {event.actor.cta for event in told("\n".join(both) + "\n")} == {0, 1, 2}


def staged(full: str) -> str:
    """A loader of a ring of three stages that skips an arrival, or makes it on stage `full`."""
    lines: list[str] = []
    for k in range(5):
        lines += [
            f"load 0: wait ab_empty[{k % 3}] phase {1 - k // 3 % 2}",
            f"load 0: passed ab_empty[{k % 3}]",
        ]
        stage = str(k % 3) if k != 2 else full
        lines += [f"load 0: arrive ab_full[{stage}]"] if stage else []
        if k < 2:
            lines += [
                f"mma 0: wait ab_full[{k}] phase 0",
                f"mma 0: passed ab_full[{k}]",
                f"mma 0: arrive ab_empty[{k}]",
            ]
    return "\n".join([*lines, "load 0: wait ab_empty[2] phase 0", "mma 0: wait ab_full[2] phase 0"]) + "\n"


def test_arrivals_on_the_stages_waited_for_leave_an_arrival_skipped() -> None:
    skipped = answer(staged(""))["causes"][0]
    astray = answer(staged("0"))["causes"][0]
    assert (skipped["code"], astray["code"]) == ("skipped-arrive", "wrong-stage")


def test_a_legend_with_a_row_for_each_stage() -> None:
    legend = ["// 0x400 full[0]", "// 0x408 full[1]", "// 0x410 empty[0]", "// 0x418 empty[1]"]
    found = with_names([*enumerate([*legend, "mma: wait(0x408, 1)", "mma: arrive(0x410)"], 1)])
    assert [text for _, text in found] == ["mma: wait(full[1], 1)", "mma: arrive(empty[0])"]


def test_words_beside_a_role_in_all_its_lines_are_of_its_name() -> None:
    style = {key: f"cta 0 | {{role}} issue warp | {text}" for key, text in {
        "wait": "will wait {bar}[{stage}] phase {phase}", "done": "did wait {bar}[{stage}] phase {phase}",
        "arrive": "{bar}[{stage}] arrive", "expect": "{bar}[{stage}] arrive_and_expect_tx {size}",
        "copy": "{bar}[{stage}] tma_copy {size} bytes"}.items()}  # fmt: skip
    assert {event.actor.role for event in told(ring(style))} == {"filler issue warp", "eater issue warp"}


def test_a_role_and_its_cta_in_a_word_with_times_by_label() -> None:
    rows: list[str] = []
    for clock in (1000, 1100, 1200):
        rows += ["cta0_out_store:", f"  - {{op: wait, bar: full, buf: 0, in: {clock}, out: {clock + 37}}}"]
        rows += [f"  - {{op: arrive, bar: full, buf: 0, at: {clock + 50}}}"]
    rows.append("  - {op: wait, bar: full, buf: 0, in: 2000, out: ~}")
    assert with_labels([(1, "cta0_out_store: x")])[0][1] == "cta0 out_store: x"
    found = [text for _, text in with_ends([*enumerate(rows, 1)])]
    assert found[3] == "  - {op: arrive, bar: full, buf: 0}"
    assert sum(text.endswith("done") for text in found) == 3


def test_a_remark_behind_a_heading() -> None:
    rows = []
    for cta in (0, 1):
        rows += [f"==== CTA {cta} (52 records; seq counts over all CTAs) ===="]
        rows += [f"{at} mma blocks full 0 1" for at in range(4)]
    assert under_headings([*enumerate(rows, 1)])[-1][1].startswith("CTA 1")


LANES = {
    "bars": ("clk | c0 filler | c0 eater", "{clock} | {filler} | {eater}"),
    "a frame": (
        "| # | filler/0 | eater/0 | t |\n|---|---|---|---|",
        "| {number} | {filler} | {eater} | {clock} |",
    ),
    "dots": ("filler \u2502 eater \u2502 at", "{filler:\u00b7<40} \u2502 {eater:\u00b7<40} \u2502 {clock}"),
    "tabs": ("ns\teater\tfiller", "{clock}\t{eater}\t{filler}"),
    "widths": (f"cycle   {'CTA0 filler':42}CTA0 eater", "{clock:<8}{filler:42}{eater}"),
}


@pytest.mark.parametrize("form", LANES)
def test_a_cell_is_told_by_the_actor_of_its_column(form: str) -> None:
    header, row = LANES[form]
    lines = [header]
    for number, line in enumerate(ring(PLAIN).splitlines()):
        role, edge, said = line.split("|")
        cells = {"filler": "", "eater": "", role: said.replace("wait", "pass" if edge == "1" else "wait")}
        lines.append(row.format(number=number, clock=1000 + 37 * number, **cells).rstrip())
    text = "\n".join(lines) + "\n"
    found = told(text)
    assert {event.actor.role.split()[0] for event in found} == {"filler", "eater"}
    assert counted(found) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert answer(text)["root"]["barrier"] == "tile_empty"
