"""Large logs: one pipeline that runs for very many k-blocks and then hangs."""

from __future__ import annotations


def long_log(size: int, stages: int = 4) -> str:
    """About `size` bytes of a producer and a consumer in two CTAs; at the end CTA 1's producer stops."""
    lines: list[str] = []
    made = k = 0
    while made < size:
        stage, phase = k % stages, k // stages & 1
        for cta in (0, 1):
            head, consumer = f"[load CTA{cta}] k={k} ", f"[mma CTA{cta}] k={k} "
            some = [
                f"{head}wait kv_empty[{stage}] phase={1 - phase}",
                f"{head}kv_empty[{stage}] wait done",
                f"{head}arrive kv_full[{stage}] tx bytes=32768",
                f"{consumer}wait kv_full[{stage}] phase={phase}",
                f"{consumer}kv_full[{stage}] wait done",
                f"{consumer}arrive kv_empty[{stage}]",
            ]
            lines += some
            made += sum(map(len, some)) + len(some)
        k += 1
    stage, phase = k % stages, k // stages & 1
    lines.append(f"[mma CTA1] k={k} wait kv_full[{stage}] phase={phase}")
    return "\n".join(lines) + "\n"
