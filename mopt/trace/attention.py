"""How many scores attention computes."""


def causal_pairs(queries: int, most: int) -> int:
    """Scores under a causal mask: query i of `queries` (from 1) sees i keys, and never more than `most`.

    What the mask leaves out is not computed: fused kernels skip masked blocks (Dao et al., FlashAttention, 2022).
    """
    growing = min(queries, most)
    return growing * (growing + 1) // 2 + (queries - growing) * most
