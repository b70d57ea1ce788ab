"""Puts results between the marks of the documents that show them."""
import os
import textwrap

BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"
WIDTH = 120


def wrapped(text):
    """Paragraphs (a line each) and list items at the documents' width; tables and code stay."""
    lines = []
    for line in text.split("\n"):
        item = line.startswith("- ")
        fixed = line.startswith(("|", "    ")) or not line
        lines += [line] if fixed else textwrap.wrap(line, WIDTH, subsequent_indent="  " if item else "",
                                                    break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def replace_between(path, text):
    with open(path, encoding="utf-8") as file:
        before, _, rest = file.read().partition(BEGIN)
        _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"run.py: {path} lacks the marks {BEGIN} and {END}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{wrapped(text).strip()}\n{END}{after}")


def update(repository, report):
    replace_between(os.path.join(repository, "README.md"), report.readme())
    replace_between(os.path.join(repository, "docs", "peers.md"), report.markdown())
