"""Rows of cells in as many columns as fit: what is least needed is left out first, and names give way last."""
from dataclasses import dataclass
from typing import Callable

from rich.cells import cell_len
from rich.text import Text


@dataclass
class Column:
    title: str
    width: int  # of a flexible one the least
    text: Callable  # of a row
    right: bool = False
    flexible: bool = False  # takes what is left
    needed: int = 0  # the larger, the later it is left out
    style: Callable = lambda row: ""


def fit(text, width, right=False, ellipsis="…"):
    if cell_len(text) > width:
        while text and cell_len(text) > width - 1:
            text = text[:-1]
        text = (text + ellipsis) if width > 0 else ""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def choose(columns, width):
    """Those that fit, with their widths."""
    chosen = list(columns)
    while len(chosen) > 1 and sum(column.width + 1 for column in chosen) - 1 > width:
        chosen.remove(min(chosen, key=lambda column: column.needed))
    left = width - sum(column.width + 1 for column in chosen) + 1
    flexible = [column for column in chosen if column.flexible]
    widths = []
    for column in chosen:
        more = max(left, 0) // len(flexible) if column.flexible else 0
        widths.append(max(min(column.width + more, width), 1))
    return list(zip(chosen, widths))


def lines(columns, rows, width, selected=None, ellipsis="…"):
    """The heading and one line for each row."""
    fitted = choose(columns, width)
    heading = " ".join(fit(column.title, size, column.right, ellipsis) for column, size in fitted)
    yield Text(heading.rstrip(), style="bold", no_wrap=True)
    for number, row in enumerate(rows):
        line = Text(no_wrap=True)
        for at, (column, size) in enumerate(fitted):
            line.append((" " if at else "") + fit(column.text(row), size, column.right, ellipsis), column.style(row))
        if number == selected:
            line.stylize("reverse")
        else:
            line.rstrip()
        yield line
