"""The command: looks once for a script, or goes on looking for a person who presses keys."""
import argparse
import signal
import sys
import threading

import psycopg
from rich.console import Console
from rich.live import Live
from rich.text import Text

import actions
import page
from keyboard import Keyboard
from observer import Observer
from picture import save_svg
from words import plain

KEY_SECONDS = 0.2


def arguments():
    parser = argparse.ArgumentParser(prog="outbox-top", description="Routes, rates, backlog, destinations, trouble and parked events of one outbox.",
                                     epilog="To look takes the rights of pg_monitor, to act those of outbox.grant_operate().")
    parser.add_argument("connection", nargs="?", default="", metavar="CONNECTION", help="as psql takes it: a database, 'host=... dbname=...' or a URI")
    parser.add_argument("--interval", type=float, default=2, metavar="SECONDS", help="between two looks (2)")
    parser.add_argument("--once", action="store_true", help="look once, print it, end; status 1 where nothing could be seen")
    parser.add_argument("--json", action="store_true", help="with --once: as JSON")
    parser.add_argument("--svg", metavar="FILE", help="with --once: as a picture")
    parser.add_argument("--width", type=int, help="with --once: columns")
    parser.add_argument("--no-color", action="store_true", help="as the variable NO_COLOR does it")
    asked = parser.parse_args()
    if asked.interval <= 0:
        parser.error("--interval: more than 0")
    if (asked.json or asked.svg or asked.width) and not asked.once:
        parser.error("--json, --svg and --width go with --once")
    if asked.connection and "=" not in asked.connection and "://" not in asked.connection:
        asked.connection = psycopg.conninfo.make_conninfo(dbname=asked.connection)
    return asked


def main():
    asked = arguments()
    console = Console(no_color=True if asked.no_color else None, width=asked.width)
    if asked.once:
        sys.exit(once(asked, console))
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        sys.exit("outbox-top: this is no terminal: --once looks once")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # it would leave the terminal as it is here
    Page(asked, console).run()


def once(asked, console):
    observer = Observer(asked.connection)
    look = observer.observe()
    observer.close()
    if asked.json:
        print(look.as_json())
    else:
        height = 18 + 2 * len(list(look.notices())) + len(look.routes) + len(look.destinations) + len(look.trouble) + len(look.parked)
        view = page.View()
        if asked.svg:
            width = asked.width or 110
            save_svg(page.draw(look, view, width, height), width, asked.svg)
        else:
            console.print(page.draw(look, view, console.width, height, ellipsis=ellipsis_of(console)))
    return 1 if look.no_connection or look.version is None or "figures" in look.missing else 0


def ellipsis_of(console):
    return "…" if console.encoding.startswith("utf") else "~"


class Page:
    """A thread looks, this one draws and takes keys: a server that does not answer stops neither."""

    def __init__(self, asked, console):
        self.asked = asked
        self.console = console
        self.observer = Observer(asked.connection)
        self.look = self.observer.look
        self.view = page.View()
        self.view.message = "looking ..."
        self.new = threading.Event()
        self.wake = threading.Event()
        self.needed = False
        self.asking = None  # (what is typed or None, what to do with it)
        self.acting = None

    def watch(self):
        while True:
            look = self.observer.observe()
            first = self.look.at == 0
            self.look = look
            if first and self.view.message == "looking ...":
                self.view.message = ""
            self.new.set()
            self.wake.wait(self.asked.interval)
            self.wake.clear()

    def run(self):
        keyboard = Keyboard(sys.stdin.fileno())
        try:
            with Live(console=self.console, screen=True, auto_refresh=False) as live:
                threading.Thread(target=self.watch, daemon=True).start()
                size = None
                while True:
                    changed = self.new.is_set()
                    self.new.clear()
                    keys = keyboard.keys(KEY_SECONDS)
                    if keys is None:
                        return
                    for key in keys:
                        if not self.pressed(key):
                            return
                    if keys or changed or size != self.console.size:
                        size = self.console.size
                        live.update(page.draw(self.look, self.view, size.width, size.height, ellipsis_of(self.console), whole=True), refresh=True)
        finally:
            keyboard.close()

    # --- keys ---

    def pressed(self, key):
        """False: to the end."""
        if self.asking is not None:
            self.answer(key)
            return True
        view = self.view
        view.message = ""
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -view.page_rows, "page down": view.page_rows, "home": -10 ** 9, "end": 10 ** 9}
        if key == "q":
            return False
        if view.help:
            view.help = False
        elif key == "?":
            view.help = True
        elif key in moves:
            view.move(self.look, moves[key])
        elif key in ("tab", "back tab"):
            at = page.SECTIONS.index(view.section) + (1 if key == "tab" else -1)
            view.section = page.SECTIONS[at % len(page.SECTIONS)]
        elif key in ("1", "2", "3", "4"):
            view.section = page.SECTIONS[int(key) - 1]
        elif key == "o":
            orders = list(page.ORDERS)
            view.order = orders[(orders.index(view.order) + 1) % len(orders)]
        elif key in ("p", "r", "t"):
            self.begin(key)
        return True

    def begin(self, key):
        row = self.view.selected(self.look)
        of = {"routes": ("route", "route"), "destinations": ("server", "destination")}.get(self.view.section)
        if row is None:
            self.view.message = "there is nothing under the bar"
        elif key == "t":
            action = actions.retry(row) if self.view.section == "parked" else None
            if action is None:
                self.view.message = ("it waits for its time, or for another event of its key" if self.view.section == "parked"
                                     else "4 goes to what is parked; t tries what is under the bar there again")
            else:
                self.confirm(action)
        elif of is None:
            self.view.message = "1 goes to routes, 2 to destinations: these are paused and resumed"
        elif key == "p":
            name = getattr(row, of[1])
            why = actions.refusal(actions.pause(of[0], name, ""), self.look)
            if why:
                self.view.message = why
            else:
                self.ask("", lambda reason: self.confirm(actions.pause(of[0], name, reason)), f"Pause {of[0]} {plain(name)}. Reason, which is kept (Esc: leave it): ", needed=True)
        else:
            self.confirm(actions.resume(of[0], getattr(row, of[1])))

    def ask(self, typed, then, prompt, needed=False):
        self.asking = [typed, then, prompt]
        self.needed = needed  # an answer of nothing is none
        self.show_question()

    def confirm(self, action):
        why = actions.refusal(action, self.look) or ("one thing after the other" if self.acting else "")
        if why:
            self.asking, self.view.question, self.view.message = None, None, why
        else:
            self.asking = [None, action, f"{action.statement}\nDo it? y/N"]
            self.show_question()

    def show_question(self):
        typed, _, prompt = self.asking
        lines = (prompt + (typed if typed is not None else "")).split("\n")
        self.view.question = [line for text in lines for line in page.wrapped(plain(text), self.console.width, "bold", 4)]

    def answer(self, key):
        typed, then, prompt = self.asking
        if typed is None:
            self.asking, self.view.question = None, None
            if key in ("y", "Y"):
                self.start(then)
            else:
                self.view.message = "left as it is"
        elif key == "escape":
            self.asking, self.view.question, self.view.message = None, None, "left as it is"
        elif key == "enter" and self.needed and not typed.strip():
            self.show_question()
        elif key == "enter":
            self.asking, self.view.question = None, None
            then(typed.strip())
        else:
            self.asking[0] = typed[:-1] if key == "backspace" else typed + key if len(key) == 1 else typed
            self.show_question()

    def start(self, action):
        self.view.message = f"{action.what} ..."

        def work():
            self.view.message = actions.act(self.asked.connection, action)
            self.acting = None
            self.observer.due = {}
            self.wake.set()
            self.new.set()
        self.acting = threading.Thread(target=work, daemon=True)
        self.acting.start()
