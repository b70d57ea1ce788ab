"""The tables of run.py: medians over rounds, ratios, and where Tutti misses what is asked of it."""
import csv
import os
import statistics

KIB, MIB = 1 << 10, 1 << 20
VARIANTS = ("touched", "untouched")
NAMES = {"tutti": "Tutti", "openmpi": "Open MPI", "gloo": "Gloo"}
SMALL = 64 * KIB  # Gloo sleeps between messages; up to here its wake-ups are what is compared


def summarise(rows):
    """Per ranks, variant, size and peer: the median of its better algorithm and how far the rounds lie from it."""
    groups = {}
    for row in rows:
        key = (row["ranks"], row["variant"], row["bytes"], row["peer"])
        groups.setdefault(key, {}).setdefault(row["algorithm"], []).append(row)
    summary = {}
    for key, algorithms in groups.items():
        best = min(algorithms, key=lambda name: statistics.median(row["us"] for row in algorithms[name]))
        times = sorted(row["us"] for row in algorithms[best])
        median = statistics.median(times)
        summary[key] = {"us": median, "least": times[0], "most": times[-1], "rounds": len(times), "algorithm": best,
                        "detail": algorithms[best][-1]["detail"]}
    return summary


def size_text(size):
    for unit, text in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {text}"
    return f"{size} B"


def figure(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def cell(entry):
    """Median and, in brackets, the fastest and the slowest round."""
    if entry is None:
        return "-"
    return f"{figure(entry['us'])} ({figure(entry['least'])}-{figure(entry['most'])})"


def ratio(above, below):
    return above["us"] / below["us"] if above and below else None


def ratio_text(above, below):
    value = ratio(above, below)
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def table(summary, given, ranks, variant):
    lines = ["| size | Tutti us | Open MPI us | Gloo us | Tutti / Open MPI | Gloo / Tutti | Tutti's algorithm |",
             "|---:|---:|---:|---:|---:|---:|---|"]
    for size in given.sizes:
        tutti, openmpi, gloo = (summary.get((ranks, variant, size, peer)) for peer in NAMES)
        chosen = tutti["detail"].split(",")[0] if tutti else "-"
        cells = [size_text(size), cell(tutti), cell(openmpi), cell(gloo), ratio_text(tutti, openmpi),
                 ratio_text(gloo, tutti), chosen]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def glance(summary, given):
    """One table for all rank counts, touched, medians only; the peers' own times for the first rank count only."""
    columns = ["size"]
    for i, ranks in enumerate(given.ranks):
        columns += [f"{ranks} ranks: Tutti us"] + ([] if i else ["Open MPI us", "Gloo us"])
        columns += ["Tutti / Open MPI", "Gloo / Tutti"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---:|" * len(columns)]
    for size in given.sizes:
        cells = [size_text(size)]
        for i, ranks in enumerate(given.ranks):
            tutti, openmpi, gloo = (summary.get((ranks, "touched", size, peer)) for peer in NAMES)
            cells += [figure(entry["us"]) if entry else "-" for entry in ((tutti,) if i else (tutti, openmpi, gloo))]
            cells += [ratio_text(tutti, openmpi), ratio_text(gloo, tutti)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def misses(summary):
    """Where Tutti misses what the project asks of it, as sentences."""
    found = []
    cores = len(os.sched_getaffinity(0))
    for (ranks, variant, size, peer), tutti in sorted(summary.items()):
        if peer != "tutti":
            continue
        where = f"{ranks} ranks, {variant}, {size_text(size)} ({tutti['detail']})"
        to_openmpi = ratio(tutti, summary.get((ranks, variant, size, "openmpi")))
        to_gloo = ratio(summary.get((ranks, variant, size, "gloo")), tutti)
        bound = 2.0 if ranks > cores else 1.5
        if to_openmpi and to_openmpi > bound:
            found.append(f"{where}: {to_openmpi:.2f} times Open MPI's time, at most {bound} is asked")
        if to_gloo and ranks == 2 and size <= SMALL and to_gloo < 20:
            found.append(f"{where}: {to_gloo:.1f} times as fast as Gloo's better algorithm, at least 20 is asked")
    return found


def limit_text(limits):
    """ "round trip 470 ns (450-520), ..." """
    return ", ".join(f"{name} {figure(statistics.median(values))} {unit} ({figure(min(values))}-{figure(max(values))})"
                     for (name, unit), values in limits.items())


def report(given, facts, summary, limits, errors, disturbance, wrong):
    rounds = [entry["rounds"] for entry in summary.values()] or [0]
    count = str(max(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    others = [100 * share for share in disturbance or [0]]
    lines = [f"{facts['cpu']}, {facts['cores']} cores, {facts['kernel']}; {'; '.join(facts['versions'])}; "
             f"{facts['date']}.", "",
             "Command: `" + facts["command"] + "`", "",
             f"All-reduce of float32, sum, between processes. Microseconds: median of {count} "
             "rounds, with the fastest and the slowest in brackets. Gloo: the better of its ring and its "
             "halving-doubling. Other programs took on average "
             f"{statistics.mean(others):.1f} % of the CPU, at most {max(others):.1f} % of it in one "
             f"launch. Wrong elements: {wrong}."]
    if limits:
        lines += ["", "The machine itself, two processes on two cores (`bench/peers/limit.cc`): " + limit_text(limits) +
                  "."]
    lines += ["", "**At a glance (touched)**", ""] + glance(summary, given)
    for ranks in given.ranks:
        for variant in VARIANTS:
            lines += ["", f"**{ranks} ranks, {variant}**", ""] + table(summary, given, ranks, variant)
    lines += ["", "Asked of Tutti: with a core per rank at most 1.5 times Open MPI's time at every size, and with 2 "
              "ranks up to 64 KiB at least 20 times as fast as Gloo; with more ranks than cores at most twice Open "
              "MPI's time."]
    missed = misses(summary)
    if any(peer == "tutti" for _, _, _, peer in summary):
        lines += ["", *([f"- missed: {text}" for text in missed] or ["All of it holds in this run."])]
    lines += [f"- failed launch: {text}" for text in errors]
    return "\n".join(lines) + "\n"


def write_csv(path, summary):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ranks", "variant", "bytes", "peer", "algorithm", "us", "least", "most", "rounds", "detail"])
        for (ranks, variant, size, peer), entry in sorted(summary.items()):
            writer.writerow([ranks, variant, size, peer, entry["algorithm"], entry["us"], entry["least"], entry["most"],
                             entry["rounds"], entry["detail"]])
