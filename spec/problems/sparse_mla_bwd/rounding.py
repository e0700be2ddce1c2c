"""A rounding plan of sparse MLA in one line, such as ``operand=f16,late,rows=bf16``."""

from __future__ import annotations

from tileproof.spec.arithmetic import BF16, F16, F32, Form, Polynomial
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.problems.sparse_mla_bwd.stages import PLAIN, MlaRoundingPlan

FORMS = {form.name: form for form in (BF16, F16, F32)}
NARROW, ANY = (BF16, F16), (BF16, F16, F32)
OF_FORM = {"operand": NARROW, "softmax": ANY, "gradient": ANY, "rows": NARROW}
EXPECTED = (
    "words separated by commas: late, forward, operand=bf16|f16, softmax=bf16|f16|f32, gradient=bf16|f16|f32,"
    " rows=bf16|f16, exp2=C0:C1:... (coefficients of a polynomial), exp2-range=LOW:HIGH"
)


def plan_of(text: str) -> MlaRoundingPlan:
    """The plan of `text`; TileproofError says what is no word of a plan."""
    found: UncheckedObject = {}
    for word in text.split(","):
        name, equals, value = word.strip().partition("=")
        if name in found or not _known(name, bool(equals)):
            raise _wrong(word, "a word is given twice" if name in found else "no word of a rounding plan")
        found[name] = _value(name, value, word) if equals else True
    low_high = found.pop("exp2-range", None)
    if low_high is not None and ("exp2" not in found or len(low_high) != 2 or not low_high[0] < low_high[1]):
        raise _wrong(text, "exp2-range belongs to exp2, and is LOW:HIGH")
    if "exp2" in found:
        found["exp2"] = Polynomial(found["exp2"], *(low_high or ()))
    return MlaRoundingPlan(**found)


def text_of(plan: MlaRoundingPlan) -> str:
    """The words from which `plan_of` makes the plan, "" for the usual plan; `online` has no word."""
    words = [name for name in ("late", "forward") if getattr(plan, name)]
    forms = {name: getattr(plan, name) for name in OF_FORM}
    words += [f"{name}={form.name}" for name, form in forms.items() if form != getattr(PLAIN, name)]
    if plan.exp2 is not None:
        words.append("exp2=" + ":".join(map(repr, plan.exp2.coefficients)))
        words.append(f"exp2-range={plan.exp2.low!r}:{plan.exp2.high!r}")
    return ",".join(words)


def _known(name: str, has_value: bool) -> bool:
    return name in (*OF_FORM, "exp2", "exp2-range") if has_value else name in ("late", "forward")


def _value(name: str, value: str, word: str) -> Form | tuple[float, ...]:
    if name in OF_FORM:
        form = FORMS.get(value)
        if form not in OF_FORM[name]:
            raise _wrong(word, "no form of this")
        return form
    try:
        return tuple(float(number) for number in value.split(":"))
    except ValueError:
        raise _wrong(word, "not numbers") from None


def _wrong(word: str, what: str) -> TileproofError:
    return TileproofError(what, where="--rounding", expected=EXPECTED, found=word)
