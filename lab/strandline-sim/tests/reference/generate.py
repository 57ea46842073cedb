"""Counts of an independent cache simulator, pycachesim 0.3 (pip install pycachesim), for tests/cache_reference.rs.

python3 generate.py prints the table that the test holds. LRU; levels are neither inclusive nor exclusive. The trace is
the test's: loads, a xorshift generator, three in four near the last. (A store that hits does not count as a use there.)
The digest is FNV-1a over a byte for each load: the level that had the line, from 0, the memory being the last.
"""
from cachesim import CacheSimulator, Cache, MainMemory

MASK = (1 << 64) - 1


def trace(accesses, lines):
    random, at = 88172645463325252, 0
    for _ in range(accesses):
        random ^= (random << 13) & MASK
        random ^= random >> 7
        random ^= (random << 17) & MASK
        at = (random >> 8) % lines if random & 3 == 0 else (at + ((random >> 40) & 1)) % lines
        yield at


def levels(shapes):
    memory = MainMemory()
    caches = []
    below = None
    for number, (sets, ways) in reversed(list(enumerate(shapes))):
        cache = Cache(f"L{number + 1}", sets, ways, 64, "LRU", write_back=True, write_allocate=True,
                      store_to=below, load_from=below)
        if below is None:
            memory.load_to(cache)
            memory.store_from(cache)
        caches.insert(0, cache)
        below = cache
    return CacheSimulator(caches[0], memory), caches


for shapes in [[(16, 2)], [(64, 1)], [(8, 8)], [(1, 64)], [(16, 2), (32, 4), (64, 8)], [(4, 4), (8, 16)]]:
    simulator, caches = levels(shapes)
    digest = 0xcbf29ce484222325
    missed = [0] * len(caches)
    for line in trace(100_000, 2048):
        simulator.load(line * 64, length=8)
        now = [cache.backend.MISS_count for cache in caches]
        level = sum(after - before for before, after in zip(missed, now))
        missed = now
        digest = ((digest ^ level) * 0x100000001b3) & MASK
    counts = [(cache.stats()["HIT_count"], cache.stats()["MISS_count"]) for cache in caches]
    print(shapes, counts, f"{digest:#x}")
