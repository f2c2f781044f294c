"""Text as an SVG, by rich."""
import os
import re

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

# Without the font that browsers would fetch from elsewhere.
FORM = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code,", "")


def save_svg(drawn, width, file):
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="standard", legacy_windows=False)
        console.print(drawn)
        console.save_svg(file, title="outbox-top", code_format=FORM)
