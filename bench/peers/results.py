"""From rows to figures: medians over rounds, ratios within rounds, and whether the ratios that are asked hold."""
import dataclasses
import statistics

from settings import COLUMNS, KIB, PEERS, SETTINGS, column_of

ROUNDS_ASKED = 7  # fewer decide nothing
LEAST_TOLERANCE = 0.05


def quartiles(values):
    """First quartile, median, third quartile, interpolated."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def candidate_name(row):
    """ "Open MPI's setting openmpi-ucx" is "openmpi-ucx"; where a program has several algorithms, that of the row."""
    return row["algorithm"] if row["setting"] in ("gloo", "limit") else row["setting"]


def summarise(rows):
    """(ranks, variant, bytes, column) to the figure of the column's best candidate: median over rounds and quartiles,
    and its time in every round."""
    groups = {}
    for row in rows:
        key = (row["ranks"], row["variant"], row["bytes"], column_of(SETTINGS[row["setting"]], row["algorithm"]))
        groups.setdefault(key, {}).setdefault(candidate_name(row), []).append(row)
    summary = {}
    for key, candidates in groups.items():
        best = min(candidates, key=lambda name: statistics.median(row["us"] for row in candidates[name]))
        chosen = candidates[best]
        low, median, high = quartiles([row["us"] for row in chosen])
        summary[key] = {"us": median, "quartile_1": low, "quartile_3": high, "candidate": best,
                        "by_round": {row["round"]: row["us"] for row in chosen}, "detail": chosen[-1]["detail"],
                        "cpu_us": statistics.median(row["cpu_us"] for row in chosen)}
    return summary


@dataclasses.dataclass(frozen=True)
class Rule:
    """What is asked: subject / the best of `against` is at most a limit."""
    name: str
    subject: str
    against: tuple
    limit: float
    least: int = 0
    most: int = 1 << 62
    limit_below_1_kib: float = 0  # 0: the same
    only_ranks: int = 0           # 0: every number

    def concerns(self, ranks, size):
        return self.least <= size <= self.most and self.only_ranks in (0, ranks)

    def limit_at(self, size):
        return self.limit_below_1_kib if self.limit_below_1_kib and size < KIB else self.limit


RULES = (
    Rule("Tutti / best peer", "tutti", PEERS, 1.0),
    Rule("Tutti / staged", "tutti", ("staged",), 1.25, limit_below_1_kib=1.5),
    Rule("Tutti / Open MPI", "tutti", ("openmpi",), 0.7, least=64 * KIB),
    Rule("Tutti / MPICH", "tutti", ("mpich",), 0.7, least=64 * KIB),
    Rule("Tutti / Gloo", "tutti", ("gloo",), 0.05, most=64 * KIB, only_ranks=2),
    Rule("tutti::alloc / mapped", "alloc", ("mapped",), 1.25, least=64 * KIB),
    Rule("threads / mapped", "threads", ("mapped",), 1.25, least=64 * KIB),
)


def best_of(summary, ranks, variant, size, columns):
    """The fastest of the columns' figures, or None."""
    found = [column for column in columns if (ranks, variant, size, column) in summary]
    return min(found, key=lambda column: summary[ranks, variant, size, column]["us"], default=None)


def judge(summary, rule, ranks, variant, size):
    """A rule at one point: the ratio of each round, their median, and whether it holds; None where it lacks figures."""
    other = best_of(summary, ranks, variant, size, rule.against)
    mine = summary.get((ranks, variant, size, rule.subject))
    if other is None or mine is None or not rule.concerns(ranks, size):
        return None
    theirs = summary[ranks, variant, size, other]
    ratios = [us / theirs["by_round"][turn] for turn, us in mine["by_round"].items() if turn in theirs["by_round"]]
    if not ratios:
        return None
    low, median, high = quartiles(ratios)
    tolerance = max(LEAST_TOLERANCE, (high - low) / median)
    limit = rule.limit_at(size)
    state = "undecided" if len(ratios) < ROUNDS_ASKED else "holds" if median <= limit * (1 + tolerance) else "misses"
    return {"rule": rule.name, "ranks": ranks, "variant": variant, "bytes": size, "against": other,
            "candidate": theirs["candidate"], "ratio": median, "limit": limit, "tolerance": tolerance,
            "rounds": len(ratios), "state": state, "detail": mine["detail"]}


def verdicts(summary, given):
    found = [judge(summary, rule, ranks, variant, size) for ranks in given.ranks for variant in given.variants
             for rule in RULES for size in given.sizes]
    return [verdict for verdict in found if verdict]


def name_of_other(verdict):
    """ "Open MPI (openmpi-ucx)" """
    return f"{COLUMNS[verdict['against']]} ({verdict['candidate']})"
