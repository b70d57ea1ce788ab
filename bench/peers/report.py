"""The tables of run.py, as data that become Markdown and HTML, and the files it writes."""
import csv
import html
import json
import re
import statistics

from plot import plot
from results import ROUNDS_ASKED, RULES, best_of, name_of_other
from settings import COLUMNS, KIB, MIB, OWN, PEERS, SETTINGS

METHOD = ("All-reduce of float32, sum, between processes of one host; microseconds. Main figures are touched: "
          "every rank writes its whole input before each call and reads its whole output after it, and only the "
          "call is timed. Untouched: calls back to back on the same buffers. Of every call (untouched: batch of "
          "calls) the slowest rank's time counts; a launch gives their median, a figure is the median of the "
          "rounds' launches. A column's figure at a size is that of its best setting there. All data were compared "
          "exactly.")

README = ("The same all-reduce of float32 (sum, between processes) through {}, by turns, with one timing method and all "
          "data compared exactly; the best peer at its best setting, and a hand-written all-reduce for ordinary memory "
          "(staged) as the bound. Every rank writes its input before each call and reads its output after it; only the "
          "call is timed. Microseconds, medians of rounds:")


def size_text(size):
    for unit, text in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {text}"
    return f"{size} B"


def figure(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def ratio_text(value):
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def cell(entry, spread=False):
    """A median; with the half of the rounds' interquartile range, in percent, where asked."""
    if entry is None:
        return "-"
    share = 50 * (entry["quartile_3"] - entry["quartile_1"]) / entry["us"]
    return figure(entry["us"]) + (f" ±{share:.0f}%" if spread else "")


def ratio(summary, ranks, variant, size, above, below):
    pair = [summary.get((ranks, variant, size, column)) for column in (above, below)]
    return pair[0]["us"] / pair[1]["us"] if all(pair) else None


class Table:
    def __init__(self, title, header, rows):
        self.title, self.header, self.rows = title, header, rows

    def markdown(self):
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---:|" * len(self.header)]
        return lines + ["| " + " | ".join(row) + " |" for row in self.rows]

    def html(self):
        def line(tag, words):
            return "<tr>" + "".join(f"<{tag}>{html.escape(word)}</{tag}>" for word in words) + "</tr>"

        def data(word):
            state = word.split()[-1]
            colour = f' class="{state}"' if state in ("holds", "misses", "undecided") else ""
            return f"<td{colour}>{html.escape(word)}</td>"

        body = ["<tr>" + "".join(map(data, row)) + "</tr>" for row in self.rows]
        return "\n".join([f"<h3>{html.escape(self.title)}</h3>", "<table>", line("th", self.header), *body, "</table>"])


def columns_present(summary):
    present = {column for _, _, _, column in summary}
    return [column for column in COLUMNS if column in present]


def times_table(summary, given, ranks):
    columns = columns_present(summary)
    both = len(given.variants) == 2
    header = ["size"]
    for column in columns:
        header += [f"{COLUMNS[column]} us"] + (["untouched"] if both else [])
    rows = []
    for size in given.sizes:
        row = [size_text(size)]
        for column in columns:
            row += [cell(summary.get((ranks, variant, size, column)), spread=variant == given.variants[0])
                    for variant in given.variants]
        rows.append(row)
    return Table(f"{ranks} ranks: times, {given.variants[0]}" + (" and untouched" if both else ""), header, rows)


def verdict_table(verdicts, given, ranks):
    """A column per rule; touched, then untouched in a column of its own."""
    cells = {(v["rule"], v["variant"], v["bytes"]): f"{ratio_text(v['ratio'])} {v['state']}"
             for v in verdicts if v["ranks"] == ranks}
    rules = [rule for rule in RULES if any(rule.name == name for name, _, _ in cells)]
    header = ["size"]
    for rule in rules:
        below = f", {rule.limit_below_1_kib:g} below 1 KiB" if rule.limit_below_1_kib else ""
        header += [f"{rule.name} (at most {rule.limit:g}{below})"] + ["untouched"] * (len(given.variants) - 1)
    rows = [[size_text(size)] + [cells.get((rule.name, variant, size), "-") for rule in rules
                                 for variant in given.variants] for size in given.sizes]
    return Table(f"{ranks} ranks: what is asked", header, rows)


def settings_table(summary, given, ranks):
    """Which setting was best, touched, and Tutti's choice."""
    columns = [column for column in columns_present(summary) if column not in OWN]
    rows = []
    for size in given.sizes:
        entries = [summary.get((ranks, given.variants[0], size, column)) for column in columns]
        tutti = summary.get((ranks, given.variants[0], size, "tutti"))
        rows.append([size_text(size), tutti["detail"] if tutti else "-"] +
                    [entry["candidate"] if entry else "-" for entry in entries])
    return Table(f"{ranks} ranks: Tutti's choice and the others' best settings, {given.variants[0]}",
                 ["size", "Tutti"] + [COLUMNS[column] for column in columns], rows)


def glance(summary, given):
    """One short table for all rank counts: the main variant, medians only."""
    header = ["size"]
    for ranks in given.ranks:
        header += [f"{ranks} ranks: Tutti us", "best peer us", "ratio", "to staged"]
    rows = []
    for size in given.sizes:
        row = [size_text(size)]
        for ranks in given.ranks:
            variant = given.variants[0]
            peer = best_of(summary, ranks, variant, size, PEERS)
            theirs = summary.get((ranks, variant, size, peer))
            row += [cell(summary.get((ranks, variant, size, "tutti"))),
                    f"{cell(theirs)} {COLUMNS[peer]}" if theirs else "-",
                    ratio_text(ratio(summary, ranks, variant, size, "tutti", peer)),
                    ratio_text(ratio(summary, ranks, variant, size, "tutti", "staged"))]
        rows.append(row)
    return Table("", header, rows)


def verdict_counts(verdicts, variant):
    return {state: sum(v["state"] == state and v["variant"] == variant for v in verdicts)
            for state in ("holds", "misses", "undecided")}


def verdict_sentences(verdicts, given):
    lines = []
    for variant in given.variants:
        counts = verdict_counts(verdicts, variant)
        lines.append(f"{variant}: {counts['holds']} ratios hold, {counts['misses']} miss, {counts['undecided']} are "
                     f"undecided (fewer than {ROUNDS_ASKED} rounds).")
    for v in verdicts:
        if v["state"] == "misses":
            lines.append(f"missed: {v['ranks']} ranks, {v['variant']}, {size_text(v['bytes'])}: {v['rule']} is "
                         f"{ratio_text(v['ratio'])} to {name_of_other(v)}; at most {v['limit']:g} plus "
                         f"{100 * v['tolerance']:.0f} % is asked; Tutti: {v['detail']}")
    return lines


def facts_text(facts, disturbance, distances, wrong, rounds):
    others = [100 * share for share in disturbance or [0]]
    apart = distances or [0]
    return [f"{facts['cpu']}, {facts['cores']} cores, {facts['kernel']}; {'; '.join(facts['versions'])}; "
            f"{facts['date']}.",
            f"Rounds: {rounds}, interleaved. Other programs took on average {statistics.mean(others):.1f} % of the "
            f"CPU, at most {max(others):.1f} % of it in one launch. A cache line's way to the other core and back, "
            f"before each launch: {figure(statistics.median(apart))} ns ({figure(min(apart))}-{figure(max(apart))}). Wrong "
            f"elements: {wrong}."]


def limits_table(limits):
    rows = [[name, f"{figure(statistics.median(values))} {unit}", figure(min(values)), figure(max(values))]
            for (name, unit), values in limits.items()]
    return Table("The machine itself, two processes on two cores (bench/peers/limit.cc)",
                 ["what", "median of rounds", "least", "most"], rows)


def cpu_table(summary, given, ranks):
    """What a call costs: of all ranks and their libraries' threads, back to back."""
    columns = columns_present(summary)
    rows = [[size_text(size)] + [figure(entry["cpu_us"]) if entry else "-" for entry in
                                 (summary.get((ranks, "untouched", size, column)) for column in columns)]
            for size in given.sizes]
    return Table(f"{ranks} ranks: CPU us per call, all ranks together, untouched",
                 ["size"] + [COLUMNS[column] for column in columns], rows)


class Report:
    """Everything that a run found; the files are views of it."""

    def __init__(self, given, facts, measured, summary, verdicts):
        self.given, self.facts, self.summary, self.verdicts = given, facts, summary, verdicts
        self.rows, self.limits, self.errors = measured.rows, measured.limits, measured.errors
        self.disturbance, self.distances = measured.disturbance, measured.distances
        self.wrong = sum(row["wrong"] for row in self.rows)

    def facts_text(self):
        return facts_text(self.facts, self.disturbance, self.distances, self.wrong, self.rounds())

    def rounds(self):
        counts = [len(entry["by_round"]) for entry in self.summary.values()] or [0]
        return str(max(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"

    def settings_lines(self):
        used = {row["setting"] for row in self.rows}
        return [f"{COLUMNS[SETTINGS[key].column]}, `{key}`: {SETTINGS[key].text}" for key in SETTINGS if key in used]

    def tables(self, ranks):
        found = [times_table(self.summary, self.given, ranks), verdict_table(self.verdicts, self.given, ranks),
                 settings_table(self.summary, self.given, ranks)]
        return found + ([cpu_table(self.summary, self.given, ranks)] if "untouched" in self.given.variants else [])

    def closing(self):
        return verdict_sentences(self.verdicts, self.given) + [f"failed launch: {text}" for text in self.errors]

    def markdown(self):
        lines = [*(line for text in self.facts_text() for line in (text, "")),
                 "Command: `" + self.facts["command"] + "`", "", METHOD, ""]
        lines += [f"- {text}" for text in self.settings_lines()]
        lines += ["", f"**At a glance ({self.given.variants[0]})**", ""] + glance(self.summary, self.given).markdown()
        for ranks in self.given.ranks:
            for table in self.tables(ranks):
                lines += [""] + table.markdown()
        if self.limits:
            lines += [""] + limits_table(self.limits).markdown()
        return "\n".join(lines + [""] + [f"- {text}" for text in self.closing()]) + "\n"

    def readme(self):
        """The short form."""
        facts = self.facts_text()
        names = [COLUMNS[column] for column in columns_present(self.summary) if column in ("tutti", *PEERS)]
        lines = [README.format(", ".join(names[:-1]) + " and " + names[-1]), ""]
        lines += glance(self.summary, self.given).markdown() + ["", " ".join(facts) + " Made by", "",
                                                                f"    {self.facts['command']}", ""]
        counts = verdict_counts(self.verdicts, self.given.variants[0])
        return "\n".join(lines) + f"""
[docs/peers.md](docs/peers.md) has the method, all settings and tables, and what is asked: of {sum(counts.values())}
ratios {counts['holds']} hold, {counts['misses']} miss and {counts['undecided']} are undecided.
"""

    def html(self):
        def code(text):
            return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))
        parts = ["<!doctype html>", '<html lang="en"><meta charset="utf-8"><title>Tutti and its peers</title>', STYLE,
                 "<h1>All-reduce: Tutti and its peers</h1>"]
        parts += [f"<p>{code(text)}</p>" for text in [*self.facts_text(), METHOD]]
        parts += [f"<p>Command: <code>{html.escape(self.facts['command'])}</code></p>", "<ul>"]
        parts += [f"<li>{code(text)}</li>" for text in self.settings_lines()] + ["</ul>"]
        for ranks in self.given.ranks:
            parts.append(f"<h2>{ranks} ranks</h2>")
            for variant in self.given.variants:
                parts.append(plot(f"{ranks} ranks, {variant}", self.series(ranks, variant)))
            parts += [table.html() for table in self.tables(ranks)]
        if self.limits:
            parts.append(limits_table(self.limits).html())
        parts += ["<h2>In sum</h2><ul>", *(f"<li>{code(text)}</li>" for text in self.closing()), "</ul></html>"]
        return "\n".join(parts) + "\n"

    def series(self, ranks, variant):
        """Column to its points: size, median, quartiles."""
        found = {}
        for column in columns_present(self.summary):
            entries = [(size, self.summary.get((ranks, variant, size, column))) for size in self.given.sizes]
            found[column] = [(size, e["us"], e["quartile_1"], e["quartile_3"]) for size, e in entries if e]
        return found

    def write_csv(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["ranks", "variant", "bytes", "column", "candidate", "us", "quartile_1", "quartile_3",
                             "cpu_us", "rounds", "detail"])
            for (ranks, variant, size, column), e in sorted(self.summary.items()):
                writer.writerow([ranks, variant, size, column, e["candidate"], e["us"], e["quartile_1"],
                                 e["quartile_3"], e["cpu_us"], len(e["by_round"]), e["detail"]])

    def write_json(self, path):
        limits = {name: {"unit": unit, "values": values} for (name, unit), values in self.limits.items()}
        settings = {key: {"column": s.column, "text": s.text, "arguments": s.arguments, "environment": s.environment}
                    for key, s in SETTINGS.items()}
        figures = [{"ranks": ranks, "variant": variant, "bytes": size, "column": column, **entry}
                   for (ranks, variant, size, column), entry in sorted(self.summary.items())]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"conditions": self.facts, "settings": settings, "limits": limits, "others_cpu": self.disturbance,
                       "cache_line_ns": self.distances,
                       "errors": self.errors, "rows": self.rows, "figures": figures, "verdicts": self.verdicts},
                      file, indent=1)


STYLE = """<style>
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; display: block;
        overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 3px 7px; text-align: right; }
td { white-space: nowrap; }
th { background: #f3f3f3; }
.holds { background: #e3f4e3; } .misses { background: #f9dcdc; } .undecided { background: #f4f0dc; }
svg { width: 49%; min-width: 420px; background: #fff; }
code { background: #f3f3f3; padding: 0 3px; }
</style>"""
