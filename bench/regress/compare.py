"""From times of two builds to ratios and verdicts; no input or output."""
import dataclasses
import statistics

from results import LEAST_TOLERANCE, quartiles

PAIRS_ASKED = 6  # fewer decide nothing
STATES = ("faster", "same", "slower", "undecided")


@dataclasses.dataclass(frozen=True)
class Point:
    """One thing that is timed."""
    program: str  # of the build
    case: str     # "threads touched", "sum2"
    ranks: int    # 0: none
    size: int     # bytes; 0: none
    unit: str

    def text(self):
        parts = [self.case] + ([f"{self.ranks} ranks"] if self.ranks else []) + ([f"{self.size} B"] if self.size else [])
        return f"{self.program}: " + ", ".join(parts)


def order(rounds):
    """Whose turn it is: base new new base, round after round, so that a drift of the machine favours neither."""
    return ["base", "new", "new", "base"] * rounds


def pairs(turns):
    """Neighbours in time, a base's and a new one's each, from (side, time) in the order of running."""
    return [(second, first) if who == "new" else (first, second)
            for (who, first), (other, second) in zip(turns[::2], turns[1::2]) if who != other]


def judge(turns):
    """New against base at one point: the ratio of the medians, the spread of the ratios of neighbours, and a verdict.
    None when one side has no time."""
    base, new = ([time for who, time in turns if who == side] for side in ("base", "new"))
    if not base or not new:
        return None
    ratios = [after / before for before, after in pairs(turns)]
    ratio = statistics.median(new) / statistics.median(base)
    low, middle, high = quartiles(ratios) if ratios else (ratio, ratio, ratio)
    tolerance = max(LEAST_TOLERANCE, (high - low) / middle)
    state = ("undecided" if len(ratios) < PAIRS_ASKED else "slower" if ratio > 1 + tolerance
             else "faster" if ratio < 1 / (1 + tolerance) else "same")
    return {"base": statistics.median(base), "new": statistics.median(new), "ratio": ratio, "quartile_1": low,
            "quartile_3": high, "tolerance": tolerance, "pairs": len(ratios), "state": state}


def judge_all(times):
    """Of {point: [(side, time), ...]}: the points that both builds have, with their verdicts."""
    found = {point: judge(turns) for point, turns in times.items()}
    return {point: verdict for point, verdict in found.items() if verdict}


def one_sided(times):
    """Points that only one build has, with whose they are."""
    return {point: turns[0][0] for point, turns in times.items() if judge(turns) is None}


def exit_status(verdicts, errors, fail):
    """3: something did not run; 1: something is slower and that is asked for."""
    if errors:
        return 3
    return 1 if fail == "slower" and any(verdict["state"] == "slower" for verdict in verdicts.values()) else 0
