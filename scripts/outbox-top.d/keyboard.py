"""Keys of a terminal, by name: `up`, `tab`, `enter`, `escape`, ... or the character itself."""
import codecs
import os
import select
import termios
import tty

SEQUENCES = {
    "[A": "up", "[B": "down", "OA": "up", "OB": "down", "[5~": "page up", "[6~": "page down", "[H": "home", "[F": "end",
    "OH": "home", "OF": "end", "[1~": "home", "[4~": "end", "[7~": "home", "[8~": "end", "[Z": "back tab",
}
NAMES = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "q", "\x04": "q"}
ESCAPE_SECONDS = 0.05  # after that an escape is the key, and not the beginning of another one


class Keyboard:
    """Takes the terminal over until it is closed: a key counts when it is pressed, and is not shown."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)

    def close(self):
        termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self.before)

    def ready(self, seconds):
        return bool(select.select([self.descriptor], [], [], seconds)[0])

    def keys(self, seconds):
        """What was pressed, waiting so long for it; None: the terminal is gone."""
        if not self.ready(seconds):
            return []
        data = os.read(self.descriptor, 4096)
        if not data:
            return None
        while data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and self.ready(ESCAPE_SECONDS):
            data += os.read(self.descriptor, 4096)
        return list(split(self.decoder.decode(data)))


def split(text):
    at = 0
    while at < len(text):
        if text[at] == "\x1b":
            for sequence, name in SEQUENCES.items():
                if text.startswith(sequence, at + 1):
                    yield name
                    at += 1 + len(sequence)
                    break
            else:
                if text[at + 1:at + 2] in ("[", "O"):  # one that means nothing here: to its last letter
                    at += 2
                    while at < len(text) and not (text[at].isalpha() or text[at] == "~"):
                        at += 1
                else:
                    yield "escape"
                at += 1
            continue
        if text[at] in NAMES:
            yield NAMES[text[at]]
        elif text[at].isprintable():
            yield text[at]
        at += 1
