"""Blocks that pages show and nobody executes: commands, options, modules and imports exist."""

from __future__ import annotations

import pytest
from tileproof.tools.site import shown


def test_every_page() -> None:
    assert shown.main([]) == 0


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```sh\ntileproof nosuch head64\n```\n", "no command nosuch"),
        ("```console\n$ tileproof check head64 --no-such-option\n```\n", "--no-such-option"),
        ("```sh\nX=1 python -m tileproof.tools.nosuch\n```\n", "no module tileproof.tools.nosuch"),
        ("```sh\ntileproof check head64 \\\n    --odd 3 | tail\n```\n", "--odd"),
        ("    tileproof explore x --odd\n", "--odd"),
        ("```python\nx = (\n```\n", "does not compile"),
        ("```python\nfrom tileproof.emulator import Nosuch\n```\n", "has no Nosuch"),
        ("```python\nfrom tileproof.nosuch import X\n```\n", "no module tileproof.nosuch"),
    ],
)
def test_what_does_not_exist_is_seen(block: str, told: str) -> None:
    (problem,) = shown.problems(block)
    assert told in problem


def test_what_exists_passes() -> None:
    page = """```console
$ tileproof check head64 --examples 3   # a comment
$ python -m tests.kit.removals head64
$ EXAMPLES=3 make verify
```

```python
from tileproof.emulator import Memory, Module
```
"""
    assert shown.problems(page) == []
