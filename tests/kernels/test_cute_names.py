"""`sm100/cute_names.cuh`, which copies with a planted defect read, makes the instructions that CuTe makes."""

from __future__ import annotations

import pytest
from tileproof.kernels.image import Sources
from tileproof.kernels.places import instructions
from tileproof.kernels.registry import kernel, kernels

NAMES = "sm100/cute_names.cuh"


def edited(name: str, path: str, old: str = "", new: str = "// edited\n") -> list[str]:
    """Of a copy where `new` stands for the first `old` of a source."""
    target = kernel(name)
    assert isinstance(target.image, Sources)
    text = target.image.sources[path]
    assert old in text
    built = target.build(target.variants[0], source_overrides={path: text.replace(old, new, 1)})
    assert built.resources is None  # an edited copy is not assembled
    return instructions(built.ptx)


def as_it_is(name: str) -> list[str]:
    target = kernel(name)
    return instructions(target.build(target.variants[0]).ptx)


def readers() -> dict[str, str]:
    """A kernel for each main source that reads the names."""
    images = ((kernel(name).image, name) for name in kernels())
    return {
        image.main: name for image, name in images if isinstance(image, Sources) and NAMES in image.sources
    }


@pytest.mark.parametrize(("main", "name"), sorted(readers().items()))
def test_an_edited_copy_has_the_instructions_of_cute(main: str, name: str) -> None:
    made = edited(name, main)
    assert any(line.startswith("tcgen05.alloc") for line in made)
    assert made == as_it_is(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [("EVICT_LAST = 0x14f", "EVICT_LAST = 0x12f"), ("uint32_t(N / 8) << 17", "uint32_t(N / 8) << 16")],
)
def test_a_wrong_name_makes_others(old: str, new: str) -> None:
    assert edited("head128-part0", NAMES, old, new) != as_it_is("head128-part0")
