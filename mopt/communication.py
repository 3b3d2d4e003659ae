"""What accelerators hold and send each other: memory of a shared model, communication in a unit and between units.

With R copies in a unit, each on t·p accelerators (tensor and pipeline degree), and links of λ B/s from each accelerator:

Memory      (m0 − saved·(1 − 1/R) + m1·a) / (t·p) on each accelerator for a samples a copy. `saved` is what the copies
            share: optimizer states (ZeRO 1), gradients too (2), weights too (3). Source: Rajbhandari, Rasley, Ruwase,
            He, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020, section 5.
All-reduce  among n parties of V bytes: each sends 2·(n−1)/n·V, by rings. Source: Patarasuk and Yuan, Journal of
            Parallel and Distributed Computing 69, 2009.
Link roof   a launch sends, from each accelerator, a·2·(t−1)/t·V_t/p of summed activations (Shoeybi et al.,
            Megatron-LM, arXiv 1909.08053, section 3), a·V_p to the next stage, and with ZeRO 3 k·(R−1)/R·W/(t·p)
            of gathered weights, k = 2 in training (forward and backward) and 1 in inference: with the gradients' one
            pass, 1.5 times what plain data parallelism sends (ZeRO, section 7).
Parts       of a launch at a pipeline's stages each read weights W and, in training, read them again and add to the
            gradients G, 2·W + 2·G; what moves per launch beyond that moves once (the optimizer's step).
Exchange    of gradients once a period: in the unit 2·(R−1)/R·G/(t·p) over λ, half of it with ZeRO 3, and
            2·G over the network of the unit, the limit of the ring for many units.
"""

from __future__ import annotations

from mopt.resource import Resource
from mopt.workload import MemoryPiece, Workload


def copies(resource: Resource, workload: Workload) -> int:
    """R, the copies of the model in a unit; 0 if its accelerators can't be shared out."""
    count, left = divmod(resource.accelerator_count, workload.parallelism.degree)
    return 0 if left else count


def footprint_pieces(resource: Resource, workload: Workload) -> list[MemoryPiece]:
    """Bytes on each accelerator, by samples of a copy: the largest of the pieces."""
    return [_held(resource, workload, piece) for piece in workload.footprint_pieces]


def footprint_of(resource: Resource, workload: Workload, memory: float) -> float:
    """Bytes on each accelerator of a launch that takes `memory` where nothing is shared."""
    return _held(resource, workload, MemoryPiece(memory, 0.0)).fixed


def _held(resource: Resource, workload: Workload, piece: MemoryPiece) -> MemoryPiece:
    zero, degree = workload.parallelism.zero, workload.parallelism.degree
    states = workload.weight_bytes + workload.gradient_bytes + workload.optimizer_bytes
    # A peak below that of all states together is one at which there are no gradients.
    gradients = workload.gradient_bytes if piece.fixed >= states * (1 - 1e-9) else 0.0
    shared = (0.0, workload.optimizer_bytes, gradients, workload.weight_bytes)[1 : zero + 1]
    saved = sum(shared) * (1 - 1 / copies(resource, workload))
    return MemoryPiece(max(piece.fixed - saved, 0.0) / degree, piece.per_sample / degree)


def fixed_passes(workload: Workload) -> float:
    """How often the bytes per launch are moved at a stage: once for each part, but for what is done once a launch."""
    slots, fixed = workload.parallelism.slots, workload.bytes_fixed
    by_part = 2 * workload.weight_bytes + 2 * workload.gradient_bytes
    if workload.mode == "inference" or not workload.weight_bytes or by_part >= fixed:
        return slots
    return 1 + (slots - 1) * by_part / fixed


def link_traffic(resource: Resource, workload: Workload) -> tuple[float, float]:
    """Bytes that an accelerator sends in a launch: per sample of a copy, and whatever the batch (R ≥ 1)."""
    how, R = workload.parallelism, copies(resource, workload)
    sample = 2 * (how.tensor - 1) / how.tensor * (workload.tensor_bytes or 0.0) / how.pipeline
    if how.pipeline > 1:
        sample += workload.pipeline_bytes or 0.0
    passes = 2 if workload.mode == "training" else 1
    gathered = passes * (R - 1) / R * workload.weight_bytes / how.degree if how.zero == 3 else 0.0
    return sample, gathered


def exchange_time(resource: Resource, workload: Workload) -> float:
    """Seconds in which a unit exchanges gradients with its own accelerators and with other units, once a period.

    Its `link_bandwidth` and `network_bandwidth` must be known where they are needed: see `missing_bandwidth`.
    """
    how, R = workload.parallelism, copies(resource, workload)
    if not workload.gradient_bytes or not R:
        return 0.0
    passes = 1 if how.zero == 3 else 2
    seconds = 2 * workload.gradient_bytes / resource.network_bandwidth if resource.network_bandwidth else 0.0
    if R > 1 and resource.link_bandwidth:
        seconds += passes * (R - 1) / R * workload.gradient_bytes / how.degree / resource.link_bandwidth
    return seconds


def missing_bandwidth(resource: Resource, workload: Workload, *, exchange: bool) -> str:
    """Why communication can't be worked out, with the gradients' exchange or without; empty if it can."""
    R = copies(resource, workload)
    if not R:
        return ""
    exchange = exchange and workload.gradient_bytes > 0
    sends = any(link_traffic(resource, workload)) and not workload.measured(resource)
    if resource.link_bandwidth is None and (sends or (exchange and R > 1)):
        return "has no link_bandwidth, which communication between its accelerators takes"
    if resource.network_bandwidth is None and exchange:
        return "has no network_bandwidth, which the exchange of gradients between units takes"
    return ""
