"""wgmma on a Hopper card and in the emulator's exact mode: drawn matrix descriptors, majors, A in registers,
sparse A.

    python -m tileproof.tools.silicon.wgmma_layouts assemble FOLDER
    python wgmma_layouts.py card . OUT                             in that folder on a card; needs cupy
    python -m tileproof.tools.silicon.wgmma_layouts compare OUT EVIDENCE.json.xz

Shared memory holds the same drawn bytes for every problem; the descriptors are drawn: any start, offsets,
swizzle and base offset that stay inside.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED, PROBLEMS, IMAGE = 3490, 64, 44 * 1024
STEP = 72  # most steps of 16 bytes of an offset
# Exponents and fractions of the drawn elements: ordinary numbers.
BITS = {"bf16": (8, 7), "f16": (5, 10), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}
K = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}


@dataclass(frozen=True)
class LayoutForm:
    """Types of D and of A and B, N, majors (1: MN), whether A is in registers, and the sparsity selector."""

    d: str
    type: str
    n: int
    a_major: int = 0
    b_major: int = 0
    registers: bool = False
    selector: int = -1

    @property
    def name(self) -> str:
        sparse = "" if self.selector < 0 else f"_sp{self.selector}"
        a = "r" if self.registers else str(self.a_major)
        return f"{self.d}_{self.type}_n{self.n}_{a}{self.b_major}{sparse}"

    @property
    def words(self) -> int:
        return self.n // 4 if self.d == "f16" else self.n // 2


FORMS = (
    *(LayoutForm("f32", "bf16", n, a, b) for n in (8, 72, 256) for a in (0, 1) for b in (0, 1)),
    *(LayoutForm("f32", t, 40, registers=True) for t in ("bf16", "f16", "tf32", "e4m3", "e5m2")),
    LayoutForm("f16", "f16", 104, 1, 1),
    LayoutForm("f32", "bf16", 104, b_major=1, registers=True),
    *(LayoutForm("s32", t, 96, registers=r) for t in ("s8", "u8", "b1") for r in (False, True)),
    *(LayoutForm("f32", t, 48) for t in ("tf32", "e4m3")),
    *(
        LayoutForm("f32", t, 48, b_major=b, registers=r, selector=s)
        for t, b, r, s in itertools.product(("bf16",), (0, 1), (False, True), (0, 1))
    ),
    *(LayoutForm("f32", "tf32", 24, registers=r, selector=s) for r in (False, True) for s in (0, 1)),
    *(LayoutForm("f32", t, 24, registers=r, selector=0) for t in ("e4m3", "e5m2") for r in (False, True)),
    *(LayoutForm("s32", t, 24, registers=r, selector=0) for t in ("s8", "u8") for r in (False, True)),
    LayoutForm("f16", "f16", 16, a_major=1, selector=1),
)


def text(form: LayoutForm) -> str:
    """One entry: a CTA of 128 threads for each problem."""
    k = K[form.type] * (2 if form.selector >= 0 else 1)
    sp = ".sp" if form.selector >= 0 else ""
    opcode = f"wgmma.mma_async{sp}.sync.aligned.m64n{form.n}k{k}.{form.d}.{form.type}.{form.type}"
    opcode += ".and.popc" if form.type == "b1" else ""
    rest = "" if form.d == "s32" else ", 1, 1"
    if K[form.type] == 16:
        rest += f", {form.b_major}" if form.registers else f", {form.a_major}, {form.b_major}"
    metadata = f"%r30, {form.selector}, " if form.selector >= 0 else ""
    d = ", ".join(f"%d{k}" for k in range(form.words))
    stores = "\n".join(f"st.global.b32 [%rd9+{512 * k}], %d{k};" for k in range(form.words))
    return f"""
.visible .entry {form.name}(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{{
.reg .pred %p<4>;
.reg .b32 %r<40>;
.reg .b32 %d<128>;
.reg .b64 %rd<40>;
.shared .align 1024 .b8 image[{IMAGE}];
ld.param.u64 %rd0, [p0];
ld.param.u64 %rd1, [p1];
ld.param.u64 %rd2, [p2];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, image;
mul.wide.u32 %rd3, %r0, 16;
add.s64 %rd0, %rd0, %rd3;
shl.b32 %r3, %r0, 4;
add.u32 %r3, %r3, %r2;
mov.u32 %r8, 0;
COPY:
ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd0];
st.shared.v4.b32 [%r3], {{%r4, %r5, %r6, %r7}};
add.s64 %rd0, %rd0, 2048;
add.u32 %r3, %r3, 2048;
add.u32 %r8, %r8, 2048;
setp.lt.u32 %p1, %r8, {IMAGE};
@%p1 bra COPY;
fence.proxy.async.shared::cta;
bar.sync 0;
mul.wide.u32 %rd4, %r1, {16 + 5 * 512};
add.s64 %rd4, %rd4, %rd1;
ld.global.b64 %rd5, [%rd4];
ld.global.b64 %rd6, [%rd4+8];
mul.wide.u32 %rd7, %r0, 4;
add.s64 %rd4, %rd4, %rd7;
ld.global.b32 %r20, [%rd4+16];
ld.global.b32 %r21, [%rd4+{16 + 512}];
ld.global.b32 %r22, [%rd4+{16 + 1024}];
ld.global.b32 %r23, [%rd4+{16 + 1536}];
ld.global.b32 %r30, [%rd4+{16 + 2048}];
and.b32 %r12, %r2, 0x3FFFF;
shr.u32 %r12, %r12, 4;
cvt.u64.u32 %rd8, %r12;
add.s64 %rd5, %rd5, %rd8;
add.s64 %rd6, %rd6, %rd8;
mul.wide.u32 %rd9, %r1, {512 * form.words};
add.s64 %rd9, %rd9, %rd7;
add.s64 %rd9, %rd9, %rd2;
wgmma.fence.sync.aligned;
{opcode} {{{d}}}, {"{%r20, %r21, %r22, %r23}" if form.registers else "%rd5"}, %rd6, {metadata}0{rest};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""


def module_text() -> str:
    """All entries."""
    return ".version 8.8\n.target sm_90a\n.address_size 64\n" + "".join(map(text, FORMS))


def elements(rng: np.random.Generator, type_: str, count: int) -> np.ndarray:
    """Bytes of `count` bytes of ordinary numbers."""
    if type_ not in BITS:
        return rng.integers(0, 256, count).astype(np.uint8)
    exponents, fractions = BITS[type_]
    size = (exponents + fractions + 1) // 8
    bias, number = (1 << (exponents - 1)) - 1, count // size
    bits = rng.integers(0, 2, number) << (exponents + fractions)
    bits |= rng.integers(bias - 2, bias + 2, number) << fractions | rng.integers(0, 1 << fractions, number)
    return np.asarray(bits).astype(f"<u{size}").view(np.uint8)


def problems(form: LayoutForm) -> tuple[np.ndarray, np.ndarray]:
    """The image, and of each problem two descriptors without the image's address, then words of A and of
    metadata by thread, as bytes.
    """
    rng = np.random.default_rng([SEED, FORMS.index(form)])
    image = elements(rng, form.type, IMAGE)
    out = np.zeros((PROBLEMS, 16 + 5 * 512), np.uint8)
    for number in range(PROBLEMS):
        descriptors = []
        for operand in range(2):
            swizzle = int(rng.integers(0, 4)) if (number + operand) % 4 else number // 4 % 4
            start, lbo, sbo = (int(x) for x in rng.integers(0, (256, STEP, STEP)))
            base = int(rng.integers(0, 8)) if swizzle and number % 3 == 0 else 0
            descriptors.append(start | lbo << 16 | sbo << 32 | base << 49 | swizzle << 62)
        out[number, :16] = np.array(descriptors, "<u8").view(np.uint8)
        out[number, 16 : 16 + 2048] = elements(rng, form.type, 2048)
        if form.type == "tf32":
            nibbles = rng.choice(np.array([0x4, 0xE]), 8 * 128)
        else:
            nibbles = rng.choice(np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE]), 8 * 128)
        words = (nibbles.reshape(128, 8) << 4 * np.arange(8)).sum(axis=1)
        out[number, 16 + 2048 :] = words.astype("<u4").view(np.uint8)
    return image, out


def card(folder: Path, out: Path) -> None:
    """Run every form and keep the words of D."""
    import cupy  # type: ignore[import-not-found]

    module = cupy.RawModule(path=str(folder / "wgmma_layouts.cubin"))
    parts = []
    for form in FORMS:
        image, drawn = problems(form)
        result = cupy.zeros((PROBLEMS, form.words, 128), cupy.uint32)
        arguments = (cupy.asarray(image), cupy.asarray(drawn), result)
        module.get_function(form.name)((PROBLEMS,), (128,), arguments)
        cupy.cuda.Device().synchronize()
        parts.append(cupy.asnumpy(result).ravel())
    data = np.concatenate(parts).tobytes()
    limit = 15 << 20
    for n in range(0, len(data), limit):
        (out / f"layouts.{n // limit}").write_bytes(data[n : n + limit])
    (out / "card.txt").write_text(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def compare(out: Path, evidence_file: Path) -> None:
    """Run every form on the emulator in exact mode and count the words that differ."""
    from tileproof.emulator import Memory, Module
    from tileproof.tools import evidence

    files = sorted(out.glob("layouts.*"), key=lambda path: int(path.suffix[1:]))
    seen = np.frombuffer(b"".join(path.read_bytes() for path in files), np.uint32)
    module = Module.from_ptx(module_text())
    at = differ = 0
    rows = []
    for form in FORMS:
        image, drawn = problems(form)
        memory = Memory()
        result = memory.empty((PROBLEMS, form.words, 128), np.uint32)
        ran = module.launch(
            form.name, grid=(PROBLEMS,), block=(128,), memory=memory, mma="exact",
            args=[memory.buffer(image), memory.buffer(drawn), result],
        )  # fmt: skip
        assert not ran.findings, ran.findings
        got = result.numpy()
        want = seen[at : at + got.size].reshape(got.shape)
        at += got.size
        bad = got != want
        differ += int(bad.sum())
        wrong = np.nonzero(bad.any(axis=(1, 2)))[0]
        descriptors = drawn[wrong[:6], :16].copy().view("<u8")
        rows.append(
            {
                "form": form.name,
                "words": got.size,
                "differ": int(bad.sum()),
                "problems": len(wrong),
                "first": [[f"{word:016x}" for word in pair] for pair in descriptors],
            }
        )
        print(rows[-1], flush=True)
    found = {"card": (out / "card.txt").read_text(), "words": at, "differ": differ, "forms": rows}
    evidence.write_json(evidence_file, found)
    print({key: found[key] for key in ("card", "words", "differ")})


def assemble(folder: Path) -> None:
    """Put the module's machine code and this file into the folder that travels."""
    import subprocess

    from tileproof.kernels import toolchain

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wgmma_layouts.ptx").write_text(module_text())
    command = [str(toolchain.find().ptxas), "-arch=sm_90a", "wgmma_layouts.ptx", "-o", "wgmma_layouts.cubin"]
    subprocess.run(command, check=True, cwd=folder)
    (folder / "wgmma_layouts.py").write_text(Path(__file__).read_text())


def main() -> None:
    """Dispatch the subcommand."""
    command, *paths = sys.argv[1:]
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
