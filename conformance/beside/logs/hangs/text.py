"""The diagnosis of a hang as text: the hanging wait, its cause, the log lines that show it, and a fix."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs import as_data

OTHER = 3  # other hangs printed in full


def text(result: as_data.Diagnosis, full: bool = True) -> str:
    """The diagnosis as text; `full`: every cause, the wait-for graph, and the last event of each actor."""
    out: list[str] = []
    if result["runs"]:
        out += [f"{len(result['runs'])} runs in this log:", *map(_run_line, result["runs"]), ""]
        out.append(f"Of {result['title']}:")
    out += _answer(result)
    out += [line for other in result["others"][:OTHER] for line in ("", *_other(other))]
    more = result["others"][OTHER:]
    if more:
        out += ["", f"And {len(more)} more hangs: " + "; ".join(_short(hang) for hang in more[:6])]
    if full:
        out += _picture(result)
    counts = result["read"]
    out += ["", *(f"Remark: {remark}." for remark in result["remarks"])]
    did = f"{counts['events']} events, {counts['progress']} of progress"
    did += f", {counts['host']} of the host, {counts['not_understood']} not understood"
    if full and result["facts"]:
        out.append(
            "The host printed: " + "; ".join(f"{name} {value}" for name, value in result["facts"].items())
        )
    examples = counts["examples"] if full or result["outcome"] == "unclear" else []
    out.append(f"Read {counts['lines']} lines with text: {did}" + (", such as:" if examples else "."))
    out += [f"    {quote['line']:>6} | {quote['text']}" for quote in examples]
    if result.get("templates"):
        out.append("Lines that each template read:")
        out += [f"    {row['lines']:>6} | {row['template']}" for row in result["templates"]]
    if result.get("proposal"):
        out += ["", *proposal(result["proposal"])]
    return "\n".join(out)


def proposal(templates: list[str]) -> list[str]:
    """The command that states what the lines mean, for the user to complete."""
    quoted = [item.replace("'", "'\\''") for item in templates]
    return [
        "To have these lines read, state what they mean: replace each {?} by a field or {*}, and each ? in",
        "front by wait, done, arrive, expect, copy, init or end (docs/explain.md):",
        "    tileproof explain FILE \\",
        *(f"        --line '{item}'" + (" \\" if item is not quoted[-1] else "") for item in quoted),
    ]


def _run_line(run: as_data.RunRow) -> str:
    told = run["outcome"].upper()
    if run["root"] is not None and run["outcome"] == "hang":
        cause = f", {run['cause']['code']}" if run["cause"] else ""
        told += f": {_who(run['root']['actor'])} on {run['root']['copy']}{cause}"
    return f"  {run['title']}: {told}"


def _answer(result: as_data.Diagnosis) -> list[str]:
    root, verdict = result["root"], result["outcome"]
    if verdict == "no hang seen":
        return ["NO HANG SEEN: every wait ended, or its role continued."]
    if root is None:
        said = "no line is printed before a wait, so open waits cannot be seen"
        why = result["why"]
        return [
            f"UNCLEAR: {why[0] if len(why) > 1 else said}.",
            *(f"The log needs: {need}." for need in why[-1:]),
        ]
    if verdict == "unclear":
        out = [f"UNCLEAR, but if this run hung: {_root(root)}"]
        out += [f"The log needs: {need}." for need in result["why"][-1:]]
    else:
        out = [f"HANG: {_root(root)}"]
    out += _cause(result["causes"][0])
    if root["state"]:
        out.append(f"State of {root['copy']}: {root['state']}.")
    behind = ", ".join(map(_who, root["waits_behind_it"]))
    out.append(f"Blocked behind it: {behind}." if behind else "No other logged wait is blocked behind it.")
    rest = [cause["code"] for cause in result["causes"][1:]]
    if rest:
        out.append(f"Less likely: {', '.join(rest)}.")
    if verdict == "hang":
        sure = {"certain": "Certain", "likely": "Likely", "open": "The cause is open"}[result["certainty"]]
        out.append(sure + (f": {'; '.join(result['why'])}." if result["why"] else ": the lines show it."))
    return out


def _root(root: as_data.RootRow) -> str:
    if root["stopped"]:
        where = f"{root['copy']}{_phase(root)}, line {root['line']}"
        return f"{_who(root['actor'])} stopped before its arrival on {where}."
    return f"{_who(root['actor'])} waits on {root['copy']}{_phase(root)}, line {root['line']}."


def _cause(cause: as_data.CauseRow) -> list[str]:
    out = [f"Cause: {cause['code']}: {cause['what']}."]
    if cause["copies"]:
        out.append(f"The same in {cause['copies']}.")
    out += [f"    {quote['line']:>6} | {quote['text']}" for quote in cause["shows"]]
    return [*out, f"Fix: {cause['fix']}."]


def _other(other: as_data.OtherHang) -> list[str]:
    return [f"Another hang: {_root(other['root'])}", *_cause(other["causes"][0])]


def _short(other: as_data.OtherHang) -> str:
    return f"{_who(other['root']['actor'])} on {other['root']['copy']}, {other['causes'][0]['code']}"


def _picture(result: as_data.Diagnosis) -> list[str]:
    out: list[str] = []
    if result["causes"]:
        out += ["", "Likeliest causes:"]
        for number, cause in enumerate(result["causes"], 1):
            out.append(f" {number}. {cause['code']}: {cause['what']}")
            out += [f"    {also}" for also in cause["also"]]
            out += [f"    {quote['line']:>6} | {quote['text']}" for quote in cause["lines"]]
    if result["blocked"]:
        out += ["", "Wait-for graph:"]
        out += [f"  {line}" for blocked in result["blocked"] for line in _blocked_lines(blocked)]
    if result["asymmetries"]:
        out += ["", "CTAs differ:", *(f"  {line}" for line in result["asymmetries"])]
    out += ["", "Last event of each actor:"]
    for actor in result["actors"]:
        if actor["role"]:
            planned = f" ({actor['plan_role']})" if actor["plan_role"] not in ("", actor["role"]) else ""
            did = f"{actor['passed']} waits passed, {actor['arrivals']} arrivals"
            last = f"line {actor['last']['line']} | {actor['last']['text']}"
            out.append(f"  {_who(actor)}{planned}: {did}; {last}")
    return out


def _who(actor: as_data.ActorName) -> str:
    return actor["name"]


def _phase(wait: as_data.WaitRow) -> str:
    known = (("phase", wait["phase"]), ("k-block", wait["k"]))
    parts = [f"{label} {number}" for label, number in known if number is not None]
    return f" ({', '.join(parts)})" if parts else ""


def _blocked_lines(blocked: as_data.BlockedRow) -> list[str]:
    head = f"{_who(blocked['actor'])} on {blocked['copy']}{_phase(blocked)}, line {blocked['line']}"
    if not blocked["waits_for"]:
        return [head + ": ROOT, no logged producer's arrival is missing"]
    lines = [head + (": ROOT" if blocked["root"] else "")]
    for edge in blocked["waits_for"]:
        state = "which is blocked itself" if edge["blocked"] else "which is in no printed wait"
        lines.append(f"  -> {_who(edge)}, {state}: {edge['arrivals']} of {edge['needed']} arrivals")
    return lines
