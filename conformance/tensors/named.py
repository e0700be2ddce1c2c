"""Names the tensors of a dump, and checks their shapes and dtypes. Nothing is guessed."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tileproof.conformance.tensors.parts import TensorPart, part_of, split_name
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.tensors import Convention, TensorForm, TensorForms


@dataclass(frozen=True)
class NamedDump:
    """A dump by the names of a problem: its inputs, and the stages and outputs that it holds, all of them
    (`tensors`) or in `parts`.
    """

    forms: TensorForms
    inputs: ProblemInputs
    tensors: Mapping[TensorForm, Array]
    parts: tuple[TensorPart, ...] = ()

    @property
    def held(self) -> dict[TensorForm, bool]:
        """Every tensor of which the dump has something, and whether it has all of it."""
        return {part.form: False for part in self.parts} | dict.fromkeys(self.tensors, True)

    def pieces(self, form: TensorForm) -> Iterator[TensorPart]:
        """What the dump has of a tensor."""
        if form in self.tensors:
            sizes = self.forms.sizes(self.inputs)
            yield TensorPart(form, tuple(slice(0, sizes[axis]) for axis in form.axes), self.tensors[form])
        yield from (part for part in self.parts if part.form == form)


def forms_of(problem: ProblemType) -> TensorForms:
    """The problem's tensors; TileproofError where it names none."""
    if problem.tensors is None:
        raise TileproofError("dumps of this problem are not supported", where="--problem", found=problem.name)
    return problem.tensors


def convention_of(forms: TensorForms, name: str | None) -> Convention:
    """The convention of that name; without a name, this project's own."""
    known = {convention.name: convention for convention in forms.conventions}
    if name is None:
        return forms.conventions[0]
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        raise TileproofError(
            "unknown convention",
            where="--convention",
            expected=", ".join(known),
            found=name,
            do=f"did you mean {close[0]}?" if close else "choose a convention from this list, or use --map",
        )
    return known[name]


def named(
    problem: ProblemType,
    tensors: Mapping[str, Array],
    *,
    convention: str | None = None,
    mapping: Mapping[str, str] | None = None,
    scalars: Mapping[str, float] | None = None,
    lse_base: str | None = None,
    layout: str | None = None,
    ignore: Sequence[str] = (),
) -> NamedDump:
    """The dump's tensors by the problem's names.

    `mapping`: this project's name to the dump's, over those of the convention. `scalars`: numbers such as
    sm_scale; else entries of the dump with a single element. `layout`: the order of axes, over the
    convention's. `ignore`: entries that are not judged.
    """
    forms = forms_of(problem)
    rules = convention_of(forms, convention)
    axes = layout_axes(forms, layout or rules.layout)
    given = {name: tensor for name, tensor in tensors.items() if name not in ignore}
    entries = _entries(forms, rules, given, mapping or {}, scalars or {}, list(tensors))
    base = _lse_base(rules, entries.names, lse_base)
    shaped, sizes = _shaped(forms, rules, entries, axes)
    outputs = [form for form in forms.forms if form.role != "input"]
    if not entries.parts and not any(form.name in shaped for form in outputs):
        wanted = ", ".join(entries.names[form.name] for form in outputs)
        raise TileproofError(
            "the dump has only inputs", expected=f"any of {wanted}", found=", ".join(tensors)
        )
    inputs = forms.inputs(shaped, entries.numbers, base)
    held = {form: forms.padded(form, shaped[form.name], inputs) for form in outputs if form.name in shaped}
    whole_sizes = forms.sizes(inputs)
    for form, tensor in held.items():
        lengths = [whole_sizes[axis] for axis in form.axes]
        if lengths != list(tensor.shape):
            raise TileproofError(
                "a tensor has another shape", where=entries.names[form.name],
                expected=f"[{', '.join(form.axes)}] = {lengths}", found=str(list(tensor.shape)),
            )  # fmt: skip
    return NamedDump(
        forms, inputs, held, _parts(problem, forms, entries.parts, {**whole_sizes, **sizes}, held)
    )


@dataclass(frozen=True)
class _Entries:
    """A dump's entries: whole tensors by this project's names, parts by theirs with an index, numbers.
    `names`: what the dump calls each.
    """

    names: Mapping[str, str]
    tensors: Mapping[str, Array]
    parts: Mapping[str, Array]
    numbers: Mapping[str, float]


def _entries(
    forms: TensorForms,
    rules: Convention,
    given: Mapping[str, Array],
    mapping: Mapping[str, str],
    scalars: Mapping[str, float],
    present: Sequence[str],
) -> _Entries:
    """The entries by name; TileproofError where an input is missing or an entry has no place."""
    names, rest = dict(rules.names), dict(given)
    called_here = _add_mapping(names, rest, mapping)
    parts = {called: rest.pop(name) for name, called in called_here.items()}
    numbers = _scalars(forms, rest, {**rules.scalars, **scalars}, names)
    found = {form.name: rest.pop(names[form.name]) for form in forms.forms if names[form.name] in rest}
    known = {names.get(name, name) for name in (*forms.scalars, *forms.optional_scalars)}
    extra = [name for name in rest if name not in known]
    missing = [f for f in forms.forms if f.role == "input" and not f.optional and f.name not in found]
    if missing or extra:
        raise _misnamed(names, missing, extra, present)
    return _Entries(names, found, parts, numbers)


def _lse_base(rules: Convention, names: Mapping[str, str], given: str | None) -> str:
    """The base of lse, if the problem has lse; TileproofError if it is unknown."""
    base = given or rules.lse_base
    if not base and "lse" in names:
        raise TileproofError(
            "the base of lse is unknown",
            where=f"convention {rules.name}",
            expected="2 or e",
            do="give --lse-base: kernels of this project have used both",
        )
    return base


def _shaped(
    forms: TensorForms, rules: Convention, entries: _Entries, axes: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Array], dict[str, int]]:
    """The tensors with the axes of their forms, and the sizes of the axes."""
    shaped = {name: _without_unit(name, tensor, rules) for name, tensor in entries.tensors.items()}
    if rules.batched:
        _batches(shaped)
        shaped = forms.flattened(shaped)
    sizes = _check(forms, shaped, entries.names, axes)
    by_name = {form.name: form for form in forms.forms}
    arranged = {
        name: in_form_order(by_name[name], tensor, axes.get(name, by_name[name].axes))
        for name, tensor in shaped.items()
    }
    return arranged, sizes


def _add_mapping(
    names: dict[str, str], given: Mapping[str, Array], mapping: Mapping[str, str]
) -> dict[str, str]:
    """Add `mapping` to `names`; the entries of the dump that are parts, and what they are called here.
    TileproofError for a name that the problem or the dump does not have.
    """
    parts: dict[str, str] = {}
    for name, theirs in mapping.items():
        own, index = split_name(name)
        if own not in names or (index is not None and theirs not in given):
            raise TileproofError(
                "no tensor of the problem has this name"
                if own not in names
                else "the dump has no such tensor",
                where="--map",
                expected=", ".join(names if own not in names else given),
                found=name if own not in names else theirs,
            )
        if index is None:
            names[name] = theirs
        else:
            parts[theirs] = name
    by_theirs = {theirs: name for name, theirs in names.items()}
    for name in given:
        theirs, index = split_name(name)
        if index is not None and theirs in by_theirs:
            parts.setdefault(name, f"{by_theirs[theirs]}[{index}]")
    return parts


def _parts(
    problem: ProblemType,
    forms: TensorForms,
    parts: Mapping[str, Array],
    sizes: Mapping[str, int],
    whole: Container[TensorForm],
) -> tuple[TensorPart, ...]:
    """The parts, by this project's names; TileproofError for invalid or overlapping parts."""
    by_name, made = {form.name: form for form in forms.forms}, list[TensorPart]()
    for called, values in parts.items():
        name, text = split_name(called)
        form = by_name[name]
        if form.role == "input" or problem.stages[form.stage].output == form.axes:
            raise TileproofError(
                "this tensor must be complete",
                where=called,
                expected="parts of stages and of outputs that belong to one "
                f"{problem.unit}: {', '.join(f.name for f in forms.forms if f.role == 'stage')}",
                found="a part of an input"
                if form.role == "input"
                else f"a part of sums over {problem.unit}s",
            )
        _check_dtype(form, values, called)
        part = part_of(form, text or "", values, sizes, called)
        if form in whole or any(part.overlaps(other) for other in made):
            raise TileproofError(
                "parts of a tensor overlap", where=called, expected="parts that do not overlap",
                found="the whole tensor" if form in whole else "another part with these elements",
            )  # fmt: skip
        made.append(part)
    return tuple(made)


def layout_axes(forms: TensorForms, name: str) -> Mapping[str, tuple[str, ...]]:
    """The axes of the tensors that have others than their form's."""
    if not name:
        return {}
    if name not in forms.layouts:
        raise TileproofError(
            "unknown layout", where="--layout", expected=", ".join(forms.layouts) or "none", found=name,
            do=did_you_mean(name, forms.layouts),
        )  # fmt: skip
    return forms.layouts[name]


def in_form_order(form: TensorForm, tensor: Array, axes: tuple[str, ...]) -> Array:
    """The tensor with the form's axes, of which those that it lacks have length 1; a view."""
    lacking = [axis for axis in form.axes if axis not in axes]
    order = (*lacking, *axes)
    return tensor.reshape(*[1] * len(lacking), *tensor.shape).transpose(
        [order.index(axis) for axis in form.axes]
    )


def _scalars(
    forms: TensorForms, given: Mapping[str, Array], scalars: Mapping[str, float], names: Mapping[str, str]
) -> dict[str, float]:
    wanted = (*forms.scalars, *forms.optional_scalars)
    unknown = [name for name in scalars if name not in wanted]
    if unknown:
        raise TileproofError(
            "the problem has no such number", where="--set", expected=", ".join(wanted) or "none",
            found=unknown[0],
        )  # fmt: skip
    found = dict(scalars)
    for name in wanted:
        theirs = names.get(name, name)
        if name in found or (name in forms.optional_scalars and theirs not in given):
            continue
        if theirs not in given or given[theirs].size != 1:
            raise TileproofError(
                f"{name} is unknown",
                where=f"--set {name}=VALUE",
                expected="the scalar argument of the kernel",
                found="nothing" if theirs not in given else f"shape {list(given[theirs].shape)}",
                do=f"give it, or save {theirs} with the tensors",
            )
        found[name] = float(given[theirs].reshape(()))
    return found


def _misnamed(
    names: Mapping[str, str], missing: Sequence[TensorForm], extra: Sequence[str], present: Sequence[str]
) -> TileproofError:
    lines = []
    for form in missing:
        close = difflib.get_close_matches(
            names[form.name].lower(), [extra_name.lower() for extra_name in extra], 1, 0.5
        )
        near = next((extra_name for extra_name in extra if close and extra_name.lower() == close[0]), "")
        lines.append(
            f"{names[form.name]} {_shape_words(form)} is missing"
            + (f": --map {form.name}={near}?" if near else "")
        )
    lines += [
        f"{name} is not a tensor of the problem: --map NAME={name}, or --ignore {name}" for name in extra
    ]
    return TileproofError(
        "the tensors of the dump are not those of the problem",
        expected="; ".join(f"{theirs}" for theirs in names.values()),
        found=", ".join(present),
        do="; ".join(lines),
    )


def _shape_words(form: TensorForm) -> str:
    return f"[{', '.join(form.axes)}] {' or '.join(form.dtypes)}"


def _without_unit(name: str, tensor: Array, rules: Convention) -> Array:
    """Without the convention's axis of length 1, where it has an axis more than here."""
    at = rules.unit_axes.get(name)
    if at is None:
        return tensor
    if tensor.ndim >= abs(at) and tensor.shape[at] == 1:
        return np.squeeze(tensor, at)
    return tensor


def _batches(tensors: Mapping[str, Array]) -> None:
    sizes = {name: tensor.shape[0] for name, tensor in tensors.items() if tensor.ndim}
    if len(set(sizes.values())) > 1:
        raise TileproofError(
            "the batch axes differ",
            expected="the same first axis everywhere",
            found=", ".join(f"{name}: {size}" for name, size in sizes.items()),
        )


def _check(
    forms: TensorForms,
    tensors: Mapping[str, Array],
    names: Mapping[str, str],
    layout: Mapping[str, tuple[str, ...]],
) -> dict[str, int]:
    """The sizes, which are those of the tensors that come first; TileproofError where shapes or dtypes are
    not those of the forms.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for form in forms.forms:
        if form.name not in tensors:
            continue
        tensor, theirs = tensors[form.name], names[form.name]
        axes = layout.get(form.name, form.axes)
        expected = [str(sizes[axis][0]) if axis in sizes else axis for axis in axes]
        where = theirs if theirs == form.name else f"{theirs} ({form.name})"
        fits = tensor.ndim == len(axes) and all(
            axis not in sizes or sizes[axis][0] == length
            for axis, length in zip(axes, tensor.shape, strict=True)
        )
        if not fits:
            raise TileproofError(
                "a tensor has another shape",
                where=where,
                expected=f"[{', '.join(axes)}] = [{', '.join(expected)}]",
                found=str(list(tensor.shape)),
                do=_shape_hint(axes, tensor, sizes),
            )
        _check_dtype(form, tensor, where)
        if 0 in tensor.shape:
            raise TileproofError("a tensor is empty", where=where, found=str(list(tensor.shape)))
        for axis, length in zip(axes, tensor.shape, strict=True):
            sizes.setdefault(axis, (length, form.name))
    return {axis: length for axis, (length, _) in sizes.items()}


def _check_dtype(form: TensorForm, tensor: Array, where: str) -> None:
    if tensor.dtype.name not in form.dtypes:
        raise TileproofError(
            "a tensor has an unsupported dtype",
            where=where,
            expected=" or ".join(form.dtypes),
            found=tensor.dtype.name,
            do="bfloat16 saved as 16-bit integers must be saved as bfloat16"
            if tensor.dtype.itemsize == 2 and tensor.dtype.kind in "iu"
            else "dump the tensor in the dtype that the kernel used",
        )


def _shape_hint(axes: Sequence[str], tensor: Array, sizes: Mapping[str, tuple[int, str]]) -> str:
    """What would make the shape fit: axes in another order, or an axis too many."""
    wanted = [sizes[axis][0] for axis in axes if axis in sizes]
    if tensor.ndim == len(axes) == len(wanted) and sorted(tensor.shape) == sorted(wanted):
        order = []
        for size in wanted:
            order.append(next(i for i, own in enumerate(tensor.shape) if own == size and i not in order))
        return f"its axes are in another order: transpose it with ({', '.join(map(str, order))})"
    if tensor.ndim == len(axes) + 1 and 1 in tensor.shape:
        return "it has an extra axis of length 1: see --convention and --layout"
    taken = ", ".join(f"{axis} = {size} by {name}" for axis, (size, name) in sizes.items() if axis in axes)
    return f"the sizes so far: {taken}" if taken else ""
