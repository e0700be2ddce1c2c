"""Tables of codes whose names a legend gives, and of calls with both their times."""

import pytest
from tileproof.conformance.beside.logs.hangs.lines.clocks import without_clocks
from tileproof.conformance.beside.logs.hangs.lines.coded import with_meanings
from tileproof.conformance.beside.logs.hangs.lines.intervals import with_both_times
from tileproof.conformance.beside.logs.hangs.lines.ranks import with_ranks

from benchmarks.strangers.exams.grade import logs
from tests.conformance.beside.logs.hangs.test_lines import counted, told
from tests.conformance.beside.logs.hangs.test_turns import answer, ring

KINDS = ("WAIT", "PASSED", "ARRIVE", "EXPECT", "COPY")
ROLES = ("filler", "eater")
BARS = ("tile_full", "tile_empty")
RAW = {
    "wait": "0 {role} {bar} {stage} {phase} {k} - -",
    "done": "1 {role} {bar} {stage} {phase} {k} - -",
    "arrive": "2 {role} {bar} {stage} - {k} - 0x1",
    "expect": "3 {role} {bar} {stage} - {k} {size} 0x1",
    "copy": "4 {role} {bar} {stage} - {k} {size} 0x1",
    "far": "",
}
LEGENDS = {
    "enums": "enum class Event : int { WAIT, PASSED, ARRIVE, EXPECT, COPY };\n"
    "enum Role { filler = 0, eater };\nenum Bar {\n  tile_full = 00,\n  tile_empty = 01\n};\n",
    "lists": "# ev: 0=wait 1=passed 2=arrive 3=expect 4=copy\n# roles: 0 = filler, 1 = eater\n"
    "# bars: tile_full=0 tile_empty=1\n",
    "constants": "".join(f"#define EV_{name} {code}\n" for code, name in enumerate(KINDS))
    + "#define ROLE_FILLER 0\n#define ROLE_EATER 1\n#define BAR_TILE_FULL 0\n#define BAR_TILE_EMPTY 1\n",
    "objects": '"events": {"0": "wait", "1": "passed", "2": "arrive", "3": "expect", "4": "copy"}\n'
    '"roles": {"0": "filler", "1": "eater"}\n"bars": {"0": "tile_full", "1": "tile_empty"}\n',
    "lines": "ops 0=wait 1=passed 2=arrive 3=expect 4=copy\nrole 0 -> filler\nrole 1 -> eater\n"
    "bar 0 is tile_full\nbar 1 is tile_empty\n",
}
ROWS = {
    "columns": (" row cta event role bar stage parity iter bytes peer", "{n} 0 {cells}"),
    "commas": (
        "cta,event,role,bar,stage,parity,iter,bytes,mask",
        "0,{0},{1},{2},{3},{4},{5},{6},{7}",
    ),
    "keys": ("", "cta=0 ev={0} role={1} bar={2} stage={3} parity={4} iter={5} bytes={6} to_mask={7}"),
}


@pytest.mark.parametrize("legend", LEGENDS)
@pytest.mark.parametrize("rows", ROWS)
def test_codes_by_their_legend(legend: str, rows: str) -> None:
    header, row = ROWS[rows]
    lines = [header.replace("event", "op") if legend == "lines" else header]
    form = row.replace("ev=", "op=") if legend == "lines" else row
    for number, line in enumerate(ring(RAW).splitlines()):
        cells = line.split()
        cells[1:3] = [str(ROLES.index(cells[1])), str(BARS.index(cells[2]))]
        lines.append(form.format(*cells, n=number, cells=" ".join(cells)))
    text = LEGENDS[legend] + "\n".join(lines) + "\n"
    found = told(text)
    assert {event.actor.role.split("_")[-1] for event in found} == {"filler", "eater"}
    assert counted(found) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert {event.phase for event in found if event.kind == "wait"} == {0, 1}
    assert {event.stage for event in found} == {0, 1}
    assert answer(text)["root"]["barrier"].lower().endswith("tile_empty")


def test_an_argument_and_the_cta_of_a_barrier_by_the_call() -> None:
    legend = ["# ops: 1=WAIT_ENTER 2=WAIT_LEAVE 3=ARRIVE 4=EXPECT_TX"]
    legend += [f"# bar {cta} = full[0] cta{cta} init 1" for cta in (0, 1)] + [
        "# warp 0 = load",
        "# warp 4 = mma",
    ]
    rows = ["0,4,100,1,0,0", "0,4,110,1,1,0", "0,0,120,4,0,4096", "0,0,130,4,1,8192", "0,4,140,2,0,0"] * 2
    found = with_meanings([*enumerate([*legend, "cta,warp,clk,op,bar,arg", *rows], 1)])
    assert [text for _, text in found[-4:-1]] == [
        "cta=0 role=mma WAIT_ENTER bar=full[0] bar_cta=1 parity=0",
        "cta=0 role=load EXPECT_TX bar=full[0] bar_cta=0 bytes=4096",
        "cta=0 role=load EXPECT_TX bar=full[0] bar_cta=1 bytes=8192",
    ]


def test_columns_of_two_parts_and_masks_that_a_line_states() -> None:
    legend = ["codes: 10=wait begin (arg=parity) 11=wait end 20=arrive (arg=threads)", "dst=mask of CTAs"]
    legend += ["b0 = full", "b1 = empty", "warp 0 = load", "warp 1 = mma", "cta warp code bar.stage arg dst"]
    rows = ["0 0 10 b1.0 1 -", "0 0 11 b1.0 1 -", "1 1 20 b0.2 4 3", "0 1 10 b0.0 0 -"] * 2
    found = with_meanings([*enumerate([*legend, *rows], 1)])
    assert [text for _, text in found[-2:]] == [
        "cta=1 role=mma arrive bar=full stage=2 threads=4 cta_mask=0x3",
        "cta=0 role=mma wait begin bar=full stage=0 parity=0",
    ]


def test_rows_whose_keys_have_no_legend_stay() -> None:
    lines = [
        *enumerate(["sizes: 0=small 1=large"] + [f"warp=1 wait full stage={k % 2}" for k in range(9)], 1)
    ]
    assert with_meanings(lines) == lines


CALLS = {
    "commas": (
        "cta,who,call,mbar,slot,parity,t_begin,t_end",
        "0,{role},{call},{bar},{stage},{phase},{a},{b}",
        "",
    ),
    "times first": (
        "enter;exit;cta;role;op;barrier;stage;phase",
        "{a};{b};0;{role};{call};{bar};{stage};{phase}",
        "-",
    ),
    "a frame": (
        "| cta | role | what | barrier | stage | parity | t0 | t1 |",
        "| 0 | {role} | {call} | {bar} | {stage} | {phase} | {a} | {b} |",
        "open",
    ),
}


@pytest.mark.parametrize("form", CALLS)
def test_a_row_of_a_table_with_both_times_begins_and_ends_a_call(form: str) -> None:
    header, row, still = CALLS[form]
    calls: list[dict[str, str]] = []
    waits: dict[str, dict[str, str]] = {}
    names = dict(zip("01234", ("wait", "", "arrive", "arrive_expect_tx", "tma_load"), strict=True))
    for clock, line in enumerate(ring(RAW).splitlines()):
        code, role, bar, stage, phase, *_ = line.split()
        time = str(1000 + 37 * clock)
        if names[code]:
            last = still if names[code] == "wait" else time
            calls.append(
                {"call": names[code], "role": role, "bar": bar, "stage": stage, "a": time, "b": last}
            )
            calls[-1]["phase"] = "" if phase == "-" else phase
            waits[role] = calls[-1] if names[code] == "wait" else waits[role]
        else:
            waits[role]["b"] = time
    text = "\n".join([header, *(row.format(**call) for call in calls)]) + "\n"
    assert counted(told(text)) == {"wait": 13, "done": 12, "arrive": 11, "copy": 6}
    assert answer(text)["root"]["barrier"] == "tile_empty"


def test_quoted_cells_and_rows_without_an_end() -> None:
    rows = [f'0,mma,arrive,free,"0,1",{k},{k}' for k in range(4)] + ["1,mma,wait,full,,10,12"] * 3
    rows += [f"1,mma,wait,full,,{k + 10},{k + 15}" for k in range(4)] + ["1,mma,wait,full,,50,"]
    found = with_both_times([*enumerate(["cta,role,call,bar,to_cta,begin,end", *rows], 1)])
    assert [found[0][1], found[-2][1], found[-1][1]] == [
        "cta=0 role=mma arrive bar=free to_cta=0+1",
        "cta=1 role=mma wait bar=full done",
        "cta=1 role=mma wait bar=full",
    ]


def test_a_number_that_rises_from_row_to_row_is_no_thread() -> None:
    some = [each for each in logs("twelfth", 2) if each.name.startswith("jsonl-blocked")]  # {"t":1037,...
    roles = [{event.actor.role for event in told(each.text)} for each in some]
    assert all(not any("warp" in role for role in each) for each in roles) and len(roles) == 2


def test_numbers_of_threads_stay() -> None:
    rows = [(at, f"tid={at % 3 * 32} wait full") for at in range(12)]
    assert without_clocks(rows) == rows


def test_a_rank_behind_the_file_and_line_of_a_logger() -> None:
    rows = [f"V2 mbar.cuh:{77 + 2 * (k % 2)}] r{k % 2}.Loader mFull({k % 4}) await" for k in range(12)]
    found = [text for _, text in with_ranks([*enumerate(rows, 1)])]
    assert found[:2] == [
        f"V2 mbar.cuh:{line}] cta={cta} Loader mFull({cta}) await" for cta, line in ((0, 77), (1, 79))
    ]


def test_a_name_that_ends_in_a_word_for_warps_before_a_comma() -> None:
    """`(cta 0, 搬运线程束, 第3步)`: a role and a round."""
    some = next(each for each in logs("twelfth", 2) if each.name.startswith("zh-suspend"))
    found = told(some.text)
    assert {event.actor.role[-3:] for event in found if event.k is not None} == {"线程束"}
