"""Writes tests/golden/attention_permutations.txt: permutations drawn by an implementation of its own.

A line is: seed stream layer draw sequence n sigma(0) ... sigma(n-1). Run by hand from the repository root:
python3 tests/oracle/attention_permutations.py > tests/golden/attention_permutations.txt
"""

MASK = 0xFFFFFFFF


def philox4x32_10(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def sigma(seed, stream, layer, draw, sequence, n):
    key = (seed & MASK, seed >> 32)
    words = []
    for block in range((n + 1) // 2):
        x = philox4x32_10((block, sequence, draw, stream | layer << 8), key)
        words += [x[1] << 32 | x[0], x[3] << 32 | x[2]]
    order = sorted(range(n), key=lambda i: words[i])  # sorted() is stable
    ranks = [0] * n
    for rank, position in enumerate(order):
        ranks[position] = rank
    return ranks


assert philox4x32_10((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
for case in [(0, 3, 0, 0, 0, 7), (1, 3, 0, 0, 0, 64), (1, 3, 23, 0, 0, 64), (1, 3, 0, 28610, 0, 65),
             (1, 3, 0, 0, 511, 65), (1, 4, 5, 1, 0, 100), (0xFEDCBA9876543210, 3, 23, 4294967295, 4294967295, 257),
             (42, 3, 16777215, 7, 0, 1000)]:
    print(*case, *sigma(*case))
