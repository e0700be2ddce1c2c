"""Messages with a single meaning: linking, the compiler's own failures, errors of a launch."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.builds.cause import BuildCause
from tileproof.conformance.beside.logs.builds.messages import Diagnostic


def known_message(diagnostic: Diagnostic) -> BuildCause | None:
    """The cause of a message that the table has, or None."""
    for pattern, tools, code, what, fits in _KNOWN:
        if diagnostic.tool in tools and (match := pattern.search(diagnostic.text)):
            return BuildCause(code, what.format(text=diagnostic.text, **match.groupdict()), fits)
    return None


# Pattern, tools, code, sentence ({text} is the message), what would fit
_KNOWN = [
    (re.compile(pattern), frozenset(tools.split()), code, what, fits)
    for pattern, tools, code, what, fits in (
        (
            r"requires PTX ISA \.version (?P<version>[\d.]+)",
            "ptxas",
            "arch",
            "an instruction needs PTX ISA {version}, newer than that of this compiler",
            "a newer CUDA toolkit",
        ),
        (
            r"(?:Instruction|Feature|Modifier) '[^']+'.*requires \.target",
            "ptxas",
            "arch",
            "{text}",
            "the target in the message",
        ),
        (
            r"Unexpected instruction types specified for '(?P<name>[^']+)'",
            "ptxas",
            "arch",
            "the compiled target has `{name}`, but not for these types (8-bit floats need sm_89 or newer)",
            "a target that has these types, or a toolkit whose ptxas supports them",
        ),
        (
            r"Register allocation failed|maximum register",
            "ptxas driver",
            "registers",
            "{text}",
            "fewer live values for each thread, smaller tiles, or another __launch_bounds__ or -maxrregcount",
        ),
        (
            r"(?i)undefined reference to [`'\"]?(?P<name>[^`'\"]+)",
            "link",
            "link",
            "`{name}` is declared and called, but no linked object defines it",
            (
                "the object or library that defines it (device code: -rdc=true, and the object in the device "
                "link)"
            ),
        ),
        (
            r"(?i)multiple definition of [`'\"]?(?P<name>[^`'\"]+)",
            "link",
            "link",
            "`{name}` is defined in more than one object file",
            "inline (or static) before a function that a header defines",
        ),
        (
            r"cannot find -l(?P<name>\S+)",
            "link",
            "link",
            "no library lib{name} is on the linker's path",
            "-L<folder> of the library",
        ),
        (
            r"died with status",
            "driver",
            "compiler",
            "a part of the compiler crashed",
            "another toolkit release; fewer parallel jobs if memory is short",
        ),
        (
            r"died due to signal|Killed|signal terminated program|out of memory",
            "driver",
            "compiler",
            "the compiler was killed, usually because memory ran out",
            "fewer parallel jobs (ninja -j, MAX_JOBS), smaller translation units",
        ),
        (
            r"cluster misconfiguration|cudaErrorInvalidClusterSize",
            "run",
            "launch",
            "the kernel or the device does not accept the launch's cluster shape "
            "(cudaErrorInvalidClusterSize)",
            "the cluster shape of __cluster_dims__ or the launch attribute, which divides the grid and has "
            "at most 8 CTAs unless cudaFuncAttributeNonPortableClusterSizeAllowed is set",
        ),
        (
            r"no kernel image is available",
            "run",
            "launch",
            "the program has no code for the device that it runs on",
            "-gencode for that device: sm_100a for a B200, sm_90a for an H100 or H200",
        ),
        (
            r"illegal instruction was encountered",
            "run",
            "launch",
            "the device executed an instruction with invalid operands or state, such as a tcgen05.mma "
            "with an illegal shape or descriptor, or a trap",
            "compute-sanitizer for the place; `tileproof check` for a kernel that is registered",
        ),
        (
            r"unsupported toolchain",
            "run",
            "launch",
            "the driver is older than the PTX of the compiler",
            "a newer driver, or SASS for the device in the binary",
        ),
        (
            r"too many resources requested for launch",
            "run",
            "launch",
            "the block needs more registers or shared memory than an SM has",
            "__launch_bounds__ with the block's size, a smaller block, or less shared memory",
        ),
        (
            r"illegal memory access|misaligned address|unspecified launch failure",
            "run",
            "launch",
            "the run ended with: {text}",
            "compute-sanitizer for the place",
        ),
    )
]
