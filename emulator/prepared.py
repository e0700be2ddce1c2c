"""A launch that passed its checks, and the part of the engine's request that its options determine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tileproof.emulator import schedule as schedules
from tileproof.emulator.budget import check_room, cluster_bytes, host_memory
from tileproof.emulator.causes import Allow, accepted
from tileproof.emulator.codes import strict_weights
from tileproof.emulator.engine_types import LaunchRequest
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import LaunchOptions
from tileproof.emulator.program import Decoded
from tileproof.emulator.register_record import chosen as chosen_instructions
from tileproof.emulator.request import check_clusters, check_shape, dimensions
from tileproof.emulator.symbols import SharedNames, given_names
from tileproof.emulator.taps import for_engine
from tileproof.spec.machine.limits import PROCESSORS, RESERVED_SHARED_BYTES
from tileproof.spec.machine.schedule import POLICIES, Schedule


class LaunchDimensions(NamedTuple):
    """Grid, block and cluster as (x, y, z)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]


def launch_shape(
    decoded: Decoded, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int] | None
) -> LaunchDimensions:
    """Return grid, block and cluster; LaunchError unless the entry and the machine allow them."""
    entry, directives = decoded.entry.name, decoded.entry.directives
    stated = cluster if cluster is not None else directives.get("reqnctapercluster") or (1, 1, 1)
    shape = LaunchDimensions(
        dimensions(grid, "grid"), dimensions(block, "block"), dimensions(stated, "cluster")
    )
    check_shape(entry, directives, *shape)
    if decoded.uses_pairs and math.prod(shape.cluster) % 2:
        raise LaunchError(
            "the kernel uses cta_group::2 but the cluster has no CTA pairs",
            where=entry[:80],
            expected="an even number of CTAs per cluster",
            found=str(shape.cluster),
        )
    return shape


@dataclass(frozen=True)
class PreparedLaunch:
    """`cluster_bytes`: of the host, for a resident cluster. `clusters`: those that run, None for all.
    `instructions`: those whose results are recorded. `names`: of shared memory. `allowances`: findings that
    are accepted.
    """

    decoded: Decoded
    shape: LaunchDimensions
    shared_bytes: int
    how: LaunchOptions
    schedule: Schedule
    cluster_bytes: int
    clusters: list[int] | None
    instructions: list[int]
    dynamic: int  # where the dynamic shared memory begins
    names: SharedNames
    allowances: list[Allow]

    @property
    def resident(self) -> int:
        """The maximum number of resident clusters."""
        asked = self.how.resident
        resident = PROCESSORS // math.prod(self.shape.cluster) if asked is None else asked
        return max(min(resident, host_memory() // self.cluster_bytes), 1)


def prepare(
    decoded: Decoded, shape: LaunchDimensions, shared_bytes: int, how: LaunchOptions, schedule: Schedule
) -> PreparedLaunch:
    """Return the launch; LaunchError if it does not fit into the host's memory, or for an unknown cluster,
    instruction, symbol or finding.
    """
    entry = decoded.entry.name
    each = cluster_bytes(
        math.prod(shape.cluster), math.prod(shape.block), decoded.static_shared + shared_bytes,
        decoded.registers.size, decoded.local_bytes,
    )  # fmt: skip
    check_room(each, "a cluster of the launch", entry)
    if how.cooperative:
        clusters = math.prod(shape.grid) // math.prod(shape.cluster)
        check_room(clusters * each, f"{clusters} clusters at once, as a cooperative grid needs,", entry)
        how, schedule = replace(how, resident=clusters), replace(schedule, initial_clusters=clusters)
    chosen = None
    if how.clusters is not None:
        chosen = check_clusters(entry, how.clusters, shape.grid, shape.cluster, how.cooperative)
    watched = chosen_instructions(decoded, how.registers)
    dynamic = RESERVED_SHARED_BYTES + decoded.static_shared
    names = SharedNames(decoded.shared_symbols, given_names(how.symbols, dynamic))
    return PreparedLaunch(
        decoded,
        shape,
        shared_bytes,
        how,
        schedule,
        each,
        chosen,
        watched,
        dynamic,
        names,
        accepted(how.allow),
    )


def request(launch: PreparedLaunch) -> LaunchRequest:
    """Return the arguments of the engine that the shape, the schedule and the options determine."""
    how, schedule = launch.how, launch.schedule
    return {
        "grid": launch.shape.grid,
        "block": launch.shape.block,
        "cluster": launch.shape.cluster,
        "dynamic_shared": launch.shared_bytes,
        "policy": POLICIES.index(schedule.policy),
        "seed": schedule.seed & ((1 << 64) - 1),
        "schedule": schedules.for_engine(schedule, how.record),
        "mma": int(how.mma == "exact"),
        "livelock_limit": how.livelock_limit,
        "instruction_limit": how.instruction_limit,
        "seconds_limit": how.seconds_limit,
        "taps": [for_engine(tap, launch.dynamic) for tap in how.taps],
        "trace_limit": how.trace_limit if how.trace else 0,
        "path": how.path and how.trace,
        "races": how.races,
        "grant_claims": how.clc == "grant",
        "strict": strict_weights() if how.strict else None,
        "outputs": [output.address for output in how.outputs],
        "resident": launch.resident,
        "room": host_memory(),
        "threads": how.host_threads,
        "clusters": launch.clusters,
        "recorded": launch.instructions,
    }
