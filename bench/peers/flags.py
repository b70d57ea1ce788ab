"""Values of flags: what argparse's `type` takes, with errors that name the value and the valid ones."""
import argparse

from settings import KIB, MIB


def size_from(text):
    scale = {"K": KIB, "M": MIB, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdigit() or int(digits) * scale < 4 or int(digits) * scale % 4:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; valid: bytes, a multiple of 4, with K, M or G")
    return int(digits) * scale


def list_of(item):
    def parse(text):
        return [item(part) for part in text.split(",")]
    parse.__name__ = "list"
    return parse


def whole(least, most):
    def parse(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is out of range; valid: {least} to {most}")
        return int(text)
    return parse


def one_of(what, valid):
    def parse(text):
        if text not in valid:
            raise argparse.ArgumentTypeError(f"'{text}' is no {what}; valid: {', '.join(valid)}")
        return text
    return parse
