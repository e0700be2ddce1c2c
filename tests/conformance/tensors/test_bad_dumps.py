"""Dumps that cannot be compared: each is named with what was expected and found."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from tileproof.conformance.tensors.files import SAFETENSORS, read
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.conformance.tensors.strided import with_strides
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.sparse_mla_bwd.inputs import key_mask

from tests.kit.dumps import dump, inputs, outputs_only

PROBLEM = problem_type("sparse_mla_bwd")
RIGHT = outputs_only(dump(inputs(s_q=2, h_q=4, topk=64, s_kv=80)))


def refused(tensors: dict[str, Any], *words: str, **options: Any) -> None:
    """The dump is refused, with these words."""
    with pytest.raises(TileproofError) as error:
        named(PROBLEM, tensors, **options)
    for value in words:
        assert value in str(error.value), str(error.value)


def test_the_right_dump_is_read() -> None:
    assert {form.name for form in named(PROBLEM, RIGHT).tensors} == {"dq", "dkv"}


@pytest.mark.parametrize("name", ["q", "kv", "o", "dO", "lse", "indices"])
def test_a_missing_input_is_named(name: str) -> None:
    refused({key: value for key, value in RIGHT.items() if key != name}, f"{name} [", "is missing")


def test_an_extra_tensor_is_named_and_can_be_ignored() -> None:
    refused(RIGHT | {"grad_q": RIGHT["dq"]}, "grad_q is not a tensor of the problem", "--ignore grad_q")
    named(PROBLEM, RIGHT | {"grad_q": RIGHT["dq"]}, ignore=("grad_q",))


def test_a_mapping_gives_the_dump_s_names() -> None:
    renamed = {("grad_q" if key == "dq" else key): value for key, value in RIGHT.items()}
    assert {form.name for form in named(PROBLEM, renamed, mapping={"dq": "grad_q"}).tensors} == {"dq", "dkv"}
    refused(RIGHT, "no tensor of the problem has this name", mapping={"dqq": "x"})


def test_inputs_alone_are_refused() -> None:
    refused({key: value for key, value in RIGHT.items() if key not in ("dq", "dkv")}, "only inputs")


def test_transposed_tensors_are_recognised() -> None:
    refused(RIGHT | {"dq": RIGHT["dq"].transpose(1, 0, 2)}, "dq", "another order", "(1, 0, 2)")
    refused(RIGHT | {"dkv": RIGHT["dkv"].T}, "[s_kv, d_qk] = [80, 576]", "[576, 80]", "(1, 0)")


def test_strides_name_the_elements_of_a_buffer() -> None:
    dq = RIGHT["dq"]
    heads_first = np.concatenate([np.zeros(7, dq.dtype), dq.transpose(1, 0, 2).reshape(-1)])
    found = with_strides(RIGHT | {"dq": heads_first}, {"dq": "2, 4, 576: 576, 1152, 1 @7"})
    assert np.array_equal(found["dq"], dq) and np.shares_memory(found["dq"], heads_first)
    assert judge_tensors(PROBLEM, named(PROBLEM, found), "dump").verdict == "clean"
    shifted = with_strides(RIGHT | {"dq": heads_first}, {"dq": "2,4,576:576,1152,1@6"})
    assert judge_tensors(PROBLEM, named(PROBLEM, shifted), "dump").verdict == "defect"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dqq": "2:1"}, "no such entry"),
        ({"dq": "2,4:1"}, "not a shape and its strides"),
        ({"dq": "2,4,576"}, "not a shape and its strides"),
        ({"dq": "2,4,576:-1,1,1"}, "not a shape and its strides"),
        ({"dq": "2,4,576:4608,1152,2"}, "beyond the entry"),
        ({"dq": "2,4,576:2304,576,1@1"}, "beyond the entry"),
    ],
)
def test_strides_that_do_not_fit_are_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(TileproofError, match=words):
        with_strides(RIGHT, given)


def test_other_shapes_and_dtypes_are_named() -> None:
    refused(RIGHT | {"dq": RIGHT["dq"][:, :3]}, "[2, 4, 576]", "[2, 3, 576]")
    refused(RIGHT | {"q": RIGHT["q"].astype(np.float64)}, "bfloat16 or float32", "float64")
    refused(RIGHT | {"q": RIGHT["q"].view(np.uint16)}, "must be saved as bfloat16")
    refused(RIGHT | {"q": RIGHT["q"].astype(np.float32) + 1e-4}, "not bf16 values")
    refused(RIGHT | {"indices": RIGHT["indices"].astype(np.float32)}, "int32 or int64")


def test_lse_of_the_other_base_is_recognised() -> None:
    natural = (RIGHT["lse"] * np.log(2)).astype(np.float32)
    refused(RIGHT | {"lse": natural}, "lse is not that of q, kv", "--lse-base e")
    named(PROBLEM, RIGHT | {"lse": natural}, lse_base="e")
    refused(RIGHT | {"lse": RIGHT["lse"] + 1}, "lse is not that of q, kv", "sink")
    refused(RIGHT | {"sm_scale": np.float64(0.2)}, "lse is not that of q, kv")


def test_numbers_are_not_guessed() -> None:
    refused({key: value for key, value in RIGHT.items() if key != "sm_scale"}, "--set sm_scale=VALUE")


def test_conventions_of_other_projects() -> None:
    flash = {"o": "out", "dO": "d_out", "dq": "d_q", "dkv": "d_kv"}
    tensors = {flash.get(key, key): value for key, value in RIGHT.items()}
    for name in ("kv", "d_kv"):
        tensors[name] = tensors[name][:, None]
    tensors["indices"] = tensors["indices"][:, None].astype(np.int64)
    refused(tensors, "the base of lse", convention="flashmla")
    named(PROBLEM, tensors, convention="flashmla", lse_base="2")
    refused(RIGHT, "did you mean flashmla?", convention="flash-mla")
    batched = {key: value if key == "sm_scale" else value[None] for key, value in RIGHT.items()}
    batched["do"] = batched.pop("dO")
    for name in ("kv", "dkv", "indices"):
        batched[name] = batched[name][..., None, :]
    value = named(PROBLEM, batched, convention="tilelang")
    other = named(PROBLEM, RIGHT).inputs
    assert np.array_equal(key_mask(value.inputs), key_mask(other))
    assert np.array_equal(value.inputs.indices[key_mask(other)], other.indices[key_mask(other)])


def test_batches_keep_their_own_rows() -> None:
    value, other = (outputs_only(dump(inputs(s_q=2, h_q=4, topk=64, s_kv=80, seed=seed))) for seed in (0, 5))
    both = {key: np.stack([value[key], other[key]]) for key in value if key != "sm_scale"}
    both["do"] = both.pop("dO")
    for name in ("kv", "dkv", "indices"):
        both[name] = both[name][..., None, :]
    made = judge_tensors(
        PROBLEM, named(PROBLEM, both | {"sm_scale": value["sm_scale"]}, convention="tilelang"), "batches"
    )
    assert made.verdict == "clean", made.why


@pytest.mark.parametrize("ending", ["safetensors", "npz", "pt", "folder"])
def test_each_format_gives_the_same_tensors(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"dump.{ending}"
    arrays: dict[str, Any] = {key: np.ascontiguousarray(value) for key, value in RIGHT.items()}
    if ending == "safetensors":
        safetensors.numpy.save_file(arrays, path)
    elif ending == "npz":
        np.savez(path, **arrays)
    elif ending == "pt":
        torch = pytest.importorskip("torch")
        bits = {
            key: torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
            if value.dtype == ml_dtypes.bfloat16
            else torch.from_numpy(value.copy())
            for key, value in arrays.items()
        }
        torch.save(bits, path)
    else:
        path.mkdir()
        for key, value in arrays.items():
            np.save(path / f"{key}.npy", value)
    found = read(path)
    assert set(found) == set(arrays)
    for key, value in arrays.items():
        assert found[key].dtype == value.dtype and np.array_equal(
            np.asarray(found[key]).view(np.uint8),
            value.view(np.uint8).reshape(found[key].view(np.uint8).shape),
        )


def test_safetensors_of_every_dtype_are_mapped_and_others_are_named(tmp_path: Path) -> None:
    path = tmp_path / "dump.safetensors"
    made = {name: np.arange(6).reshape(2, 3).astype(dtype) for name, dtype in SAFETENSORS.items()}
    made["empty"], made["number"] = np.zeros((0, 3), np.float32), np.asarray(0.5)
    safetensors.numpy.save_file(made, path)
    found = read(path)
    assert found.keys() == made.keys()
    for name, array in made.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
        assert name == "empty" or isinstance(found[name], np.memmap)
    with path.open("r+b") as file:
        file.write(path.read_bytes().replace(b'"F32"', b'"F3X"'))
    with pytest.raises(TileproofError, match="the dump cannot be read"):
        read(path)


def test_damaged_and_pickled_files_are_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    arrays: dict[str, Any] = {key: np.asarray(value) for key, value in RIGHT.items()}
    np.savez(whole, **arrays)
    cut = tmp_path / "cut.npz"
    cut.write_bytes(whole.read_bytes()[:1000])
    objects = tmp_path / "objects.npz"
    np.savez(objects, a=np.array([{}], dtype=object))
    pickled = tmp_path / "p.pt"
    pickled.write_bytes(pickle.dumps({"q": Path("x")}))
    short = tmp_path / "s.safetensors"
    safetensors.numpy.save_file({"a": np.zeros(100)}, short)
    short.write_bytes(short.read_bytes()[:-50])
    for path, words in (
        (cut, "cannot be read"),
        (objects, "pickled objects"),
        (pickled, ""),
        (short, "cannot be read"),
        (tmp_path / "none.npz", "the dump does not exist"),
        (tmp_path, "holds no tensor"),
    ):
        with pytest.raises(TileproofError) as error:
            read(path)
        assert words in str(error.value) and str(path) in str(error.value)
