#!/usr/bin/env python3
"""Prints the table of GraphFinder.EqualsExactTails (src/algorithm/secure/graph/graph_test.cpp).

    python3 tests/golden/make_neighbour_graphs.py

Chooses neighbours and thresholds of SecAgg+ with exact hypergeometric tails (fractions), without any code of Chorus.
"""
from fractions import Fraction
from math import comb

LEAK, FAIL = Fraction(1, 2**41), Fraction(1, 2**20)


def tail(population, marked, draws, hits):
    """P[the number of marked among `draws` without replacement is one of `hits`]."""
    ways = sum(comb(marked, h) * comb(population - marked, draws - h) for h in hits if h <= min(draws, marked))
    return Fraction(ways, comb(population, draws))


def choose(clients, colluding, vanishing, lying):
    for k in range(2, clients - 1, 2):
        lost = colluding + vanishing
        cuts = Fraction(clients * (clients - k - 1), 2)
        if lost >= k and cuts * Fraction(comb(clients - k, lost - k), comb(clients, lost)) >= LEAK:
            continue
        most = next(t for t in range(k + 1) if clients * tail(clients, colluding, k, range(t + 1, k + 1)) <= LEAK)
        threshold = max(most + 1, 2, (k + most) // 2 + 1 if lying else 0)
        if threshold <= k and clients * tail(clients, clients - vanishing, k, range(threshold)) <= FAIL:
            return k, threshold, most
    raise ValueError("only the complete graph")


for case in [(4, 0, 0), (6, 0, 1), (6, 0, 2), (6, 1, 2), (7, 0, 2), (8, 0, 2), (8, 1, 2), (10, 0, 3), (12, 1, 3),
             (20, 0, 4), (20, 2, 4), (40, 4, 8), (100, 10, 20), (200, 20, 40), (1000, 50, 50)]:
    for lying in (False, True):
        try:
            k, threshold, most = choose(*case, lying)
        except ValueError:
            continue
        row = [*case, "kLying" if lying else "kCurious", k, threshold, most]
        print("{" + ", ".join(map(str, row)) + "},")
