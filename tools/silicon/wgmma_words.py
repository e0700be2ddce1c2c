"""Words of wgmma on a Hopper card and in the emulator's exact mode: all types, drawn operands, from one seed.

    python -m tileproof.tools.silicon.wgmma_words assemble FOLDER
    python wgmma_words.py card . OUT [--problems N]                  in that folder on a card; needs cupy
    python -m tileproof.tools.silicon.wgmma_words compare OUT EVIDENCE.json.xz [--problems N]

Each problem is one instruction of N = 64 with drawn bits: numbers of ordinary size, of exponents far apart,
subnormal, any bits (NaN and infinity too), mostly zero, or such that halves of the products cancel.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED, N, CHUNK = 34, 64, 16
KINDS = ("ordinary", "far apart", "subnormal", "any bits", "sparse", "cancelling")
# Exponent and fraction bits of an element.
LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2), "f32": (8, 23)}


@dataclass(frozen=True)
class WordForm:
    """Types of D, A and B, and K."""

    d: str
    a: str
    b: str
    k: int
    tail: str = ""
    limit: str = ""

    @property
    def name(self) -> str:
        return "_".join(filter(None, (self.d, self.a, self.b, self.limit)))

    @property
    def registers(self) -> int:
        return N // 4 if self.d == "f16" else N // 2


FORMS = (
    WordForm("f32", "bf16", "bf16", 16),
    WordForm("f32", "f16", "f16", 16),
    WordForm("f16", "f16", "f16", 16),
    WordForm("f32", "tf32", "tf32", 8),
    *(WordForm(d, a, b, 32) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(
        WordForm("s32", a, b, 32, limit=limit)
        for a, b in (("s8", "u8"), ("u8", "s8"))
        for limit in ("", "satfinite")
    ),
    WordForm("s32", "b1", "b1", 256, ".and.popc"),
)


def text(form: WordForm) -> str:
    """One entry: a CTA of 128 threads for each problem."""
    opcode = f"wgmma.mma_async.sync.aligned.m64n{N}k{form.k}"
    opcode += f".{form.limit}" if form.limit else ""
    opcode += f".{form.d}.{form.a}.{form.b}{form.tail}"
    scales = ", 1, 1, 0, 0" if form.k == 16 else ", 1, 1" if form.d != "s32" else ""
    d = [f"%d{k}" for k in range(form.registers)]
    step = 512 * form.registers
    return f"""
.visible .entry {form.name}(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{{
.reg .pred %p<4>;
.reg .b32 %r<40>;
.reg .b32 %d<64>;
.reg .b64 %rd<40>;
.shared .align 1024 .b8 image[4096];
ld.param.u64 %rd0, [p0];
ld.param.u64 %rd1, [p1];
ld.param.u64 %rd2, [p2];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mul.wide.u32 %rd3, %r1, 4096;
mul.wide.u32 %rd4, %r0, 32;
add.s64 %rd0, %rd0, %rd3;
add.s64 %rd0, %rd0, %rd4;
mov.u32 %r2, image;
shl.b32 %r3, %r0, 5;
add.u32 %r3, %r3, %r2;
ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd0];
ld.global.v4.b32 {{%r8, %r9, %r10, %r11}}, [%rd0+16];
st.shared.v4.b32 [%r3], {{%r4, %r5, %r6, %r7}};
st.shared.v4.b32 [%r3+16], {{%r8, %r9, %r10, %r11}};
fence.proxy.async.shared::cta;
bar.sync 0;
and.b32 %r12, %r2, 0x3FFFF;
shr.u32 %r12, %r12, 4;
cvt.u64.u32 %rd5, %r12;
or.b64 %rd5, %rd5, {64 << 16 | 8 << 32};
add.s64 %rd6, %rd5, 128;
mul.wide.u32 %rd7, %r1, {step};
mul.wide.u32 %rd8, %r0, 4;
add.s64 %rd7, %rd7, %rd8;
add.s64 %rd1, %rd1, %rd7;
add.s64 %rd2, %rd2, %rd7;
{chr(10).join(f"ld.global.b32 {name}, [%rd1+{512 * k}];" for k, name in enumerate(d))}
wgmma.fence.sync.aligned;
{opcode} {{{", ".join(d)}}}, %rd5, %rd6, 1{scales};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{chr(10).join(f"st.global.b32 [%rd2+{512 * k}], {name};" for k, name in enumerate(d))}
ret;
}}
"""


def module_text() -> str:
    """All entries."""
    return ".version 8.8\n.target sm_90a\n.address_size 64\n" + "".join(map(text, FORMS))


def _fields(rng: np.random.Generator, shape: tuple[int, ...], type_: str, kind: str) -> np.ndarray:
    """Bits of drawn numbers."""
    exponents, fractions = LAYOUT[type_]
    sign = rng.integers(0, 2, shape)
    fraction = rng.integers(0, 1 << fractions, shape)
    bias, top = (1 << (exponents - 1)) - 1, (1 << exponents) - 1
    if kind == "any bits":
        exponent = rng.integers(0, top + 1, shape)
    elif kind == "subnormal":
        exponent = rng.integers(0, 2, shape)
    elif kind == "far apart":
        spread = min(bias - 1, 30)
        exponent = rng.integers(bias - spread, bias + spread, shape)
    else:
        exponent = rng.integers(bias - 2, bias + 2, shape)
    bits = sign << (exponents + fractions) | exponent << fractions | fraction
    if kind == "sparse":
        bits = np.where(rng.random(shape) < 0.7, 0, bits)
    return np.asarray(bits)


def _packed(bits: np.ndarray, type_: str) -> np.ndarray:
    size = {"f16": "<u2", "bf16": "<u2", "e4m3": "u1", "e5m2": "u1"}.get(type_, "<u4")
    return bits.astype(size).view(np.uint8).reshape(*bits.shape[:-1], -1)


def problems(form: WordForm, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images ``[count, 4096]`` bytes, A then B in chunks of 16 bytes, and words of D ``[count, registers,
    128]``.
    """
    rng = np.random.default_rng([SEED, FORMS.index(form)])
    images = np.zeros((count, 4, 64, CHUNK), np.uint8)
    words = np.zeros((count, form.registers, 128), np.uint32)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        if form.d == "s32":
            images[number] = rng.integers(0, 256, images.shape[1:])
            if kind == "sparse":
                images[number] &= rng.integers(0, 256, images.shape[1:]).astype(np.uint8)
            high = 1 << 31 if kind == "any bits" or form.limit else 1 << 20
            words[number] = rng.integers(-high, high, words.shape[1:]).astype(np.int64) & 0xFFFFFFFF
            if form.limit:
                words[number] |= np.uint32(0x7FFF0000)
            continue
        for operand, type_ in enumerate((form.a, form.b)):
            size = {8: 4, 16: 2, 32: 1}[form.k]
            bits = _fields(rng, (2, 64, CHUNK // size), type_, kind)
            if kind == "cancelling":
                flip = 1 << sum(LAYOUT[type_]) if operand == 0 else 0
                bits[1] = bits[0] ^ flip ^ rng.integers(0, 2, bits[0].shape)
            images[number, 2 * operand : 2 * operand + 2] = _packed(bits, type_)
        like = "ordinary" if kind == "cancelling" else kind
        if form.d == "f16":
            pair = _fields(rng, (2, *words.shape[1:]), "f16", like).astype(np.uint32)
            words[number] = pair[0] | pair[1] << 16
        else:
            words[number] = _fields(rng, words.shape[1:], "f32", like)
            shift = rng.integers(-24, 8) if number % 3 else 0
            if kind in ("ordinary", "cancelling"):
                moved = (words[number].astype(np.int64) + (int(shift) << 23)) & 0xFFFFFFFF
                words[number] = moved.astype(np.uint32)
    return images.reshape(count, -1), words


def _count(default: int = 210) -> int:
    return int(sys.argv[sys.argv.index("--problems") + 1]) if "--problems" in sys.argv else default


def card(folder: Path, out: Path) -> None:
    """Run every form and keep the words of D."""
    import cupy  # type: ignore[import-not-found]

    module = cupy.RawModule(path=str(folder / "wgmma_words.cubin"))
    parts = []
    for form in FORMS:
        images, words = problems(form, _count())
        result = cupy.zeros(words.shape, cupy.uint32)
        module.get_function(form.name)(
            (len(images),), (128,), (cupy.asarray(images), cupy.asarray(words), result)
        )
        cupy.cuda.Device().synchronize()
        parts.append(cupy.asnumpy(result).ravel())
        print(form.name, parts[-1].size, flush=True)
    data = np.concatenate(parts).tobytes()
    limit = 15 << 20
    for n in range(0, len(data), limit):
        (out / f"words.{n // limit}").write_bytes(data[n : n + limit])
    (out / "card.txt").write_text(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def compare(out: Path, evidence_file: Path) -> None:
    """Run every form on the emulator in exact mode and count the words that differ."""
    from tileproof.emulator import Memory, Module
    from tileproof.tools import evidence

    files = sorted(out.glob("words.*"), key=lambda path: int(path.suffix[1:]))
    seen = np.frombuffer(b"".join(path.read_bytes() for path in files), np.uint32)
    module = Module.from_ptx(module_text())
    at = total = differ = 0
    rows = []
    for form in FORMS:
        images, words = problems(form, _count())
        memory = Memory()
        result = memory.empty(words.shape, np.uint32)
        ran = module.launch(
            form.name, grid=(len(images),), block=(128,), memory=memory, mma="exact",
            args=[memory.buffer(images), memory.buffer(words), result],
        )  # fmt: skip
        assert not ran.findings, ran.findings
        got, want = result.numpy(), seen[at : at + words.size].reshape(words.shape)
        at += words.size
        bad = got != want
        by_kind = {kind: int(bad[n :: len(KINDS)].sum()) for n, kind in enumerate(KINDS)}
        first = [
            [[int(x) for x in place], f"{want[tuple(place)]:08x}", f"{got[tuple(place)]:08x}"]
            for place in np.argwhere(bad)[:6]
        ]
        total, differ = total + words.size, differ + int(bad.sum())
        row = {"form": form.name, "words": words.size, "differ": int(bad.sum())}
        rows.append(row | {"by kind": by_kind, "first": first})
        print(rows[-1], flush=True)
    found = {
        "card": (out / "card.txt").read_text(),
        "words": total,
        "differ": differ,
        "forms": rows,
    }
    evidence.write_json(evidence_file, found)
    print({key: found[key] for key in ("card", "words", "differ")})


def assemble(folder: Path) -> None:
    """Put the module's machine code and this file into the folder that travels."""
    import subprocess

    from tileproof.kernels import toolchain

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wgmma_words.ptx").write_text(module_text())
    ptxas = toolchain.find().nvcc.with_name("ptxas")
    subprocess.run(
        [ptxas, "-arch=sm_90a", folder / "wgmma_words.ptx", "-o", folder / "wgmma_words.cubin"], check=True
    )
    (folder / "wgmma_words.py").write_text(Path(__file__).read_text())


def main() -> None:
    """Dispatch the subcommand."""
    command, *paths = [word for word in sys.argv[1:] if not word.startswith("--")][:3]
    folder, *rest = map(Path, paths)
    if command == "assemble":
        assemble(folder)
    elif command == "card":
        card(folder, *rest)
    elif command == "compare":
        compare(folder, *rest)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
