"""The page: what is drawn of a look, in a terminal of any size. Knows nothing of connections and keys."""
import textwrap
import time

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

import table
from table import Column
from words import count, milliseconds, octets, plain, seconds

STYLES = {"problem": "bold red", "warning": "yellow"}
SECTIONS = ("routes", "destinations", "trouble", "parked")
ORDERS = {
    "backlog": lambda route: (-route.pending, -route.oldest_seconds, route.route),
    "name": lambda route: (route.route,),
    "rate": lambda route: (-(route.rate or 0), route.route),
    "dead": lambda route: (-route.dead, -route.retrying, route.route),
    "age": lambda route: (-route.oldest_seconds, -route.pending, route.route),
}
GOOD_LANES = ("idle", "running", "draining", "starting", "")
LATE_SECONDS = 60  # as the first alert rule has it

HELP = """\
Up, Down, PgUp, PgDn, Home, End   move; Tab or 1 to 4: to another part of the page
o   order of routes: backlog, name, rate, dead, age of the oldest event
p   pause the route or destination under the bar     r   resume it
t   try again: the parked events under the bar (dead letters are redriven)
    Each shows its statement, and does it after y.   q   quit

rate is events per second acknowledged by the destination; waiting is an estimate where a route is behind;
drain: how long until nothing waits, by how the backlog shrank over the last minute. p50, p99 and max are
milliseconds from commit to acknowledgement (12s: seconds, from ten on), ack p99 the destination's part of it,
over the last minute. topic away: lanes are idle, topics have left them (trouble says why).
What is in parked: retry(ing), block(ed) behind another event of the key, (sch)eduled, dead (letters)."""


def drains(route):
    if route.pending <= 0:
        return ""
    if route.drain_seconds is None:
        return "" if route.change is None else "grows" if route.change > 0 else "stands"
    return seconds(route.drain_seconds)


def route_style(route):
    if route.state in ("unowned", "backing off") or route.oldest_seconds >= 10 * LATE_SECONDS:
        return STYLES["problem"]
    if route.state not in GOOD_LANES or route.oldest_seconds >= LATE_SECONDS or route.topics_away:
        return STYLES["warning"]
    return ""


ROUTES = (
    Column("route", 12, lambda r: plain(r.route), flexible=True, needed=100, style=route_style),
    Column("destination", 11, lambda r: plain(r.destination), needed=20),
    Column("state", 11, lambda r: plain(r.state), needed=80, style=route_style),
    Column("rate/s", 6, lambda r: count(r.rate), right=True, needed=70),
    Column("waiting", 7, lambda r: count(r.pending), right=True, needed=90),
    Column("oldest", 7, lambda r: seconds(r.oldest_seconds) if r.pending or r.oldest_seconds else "", right=True, needed=85, style=route_style),
    Column("drain", 8, drains, right=True, needed=60),
    Column("p50", 5, lambda r: milliseconds(r.p50_ms), right=True, needed=40),
    Column("p99", 5, lambda r: milliseconds(r.p99_ms), right=True, needed=50),
    Column("max", 5, lambda r: milliseconds(r.max_ms), right=True, needed=12),
    Column("ack p99", 7, lambda r: milliseconds(r.ack_p99_ms), right=True, needed=15),
    Column("retry", 5, lambda r: count(r.retrying) if r.retrying else "", right=True, needed=30),
    Column("block", 5, lambda r: count(r.blocked) if r.blocked else "", right=True, needed=11),
    Column("sch", 5, lambda r: count(r.scheduled) if r.scheduled else "", right=True, needed=10),
    Column("dead", 5, lambda r: count(r.dead) if r.dead else "", right=True, needed=55, style=lambda r: STYLES["warning"] if r.dead else ""),
    Column("away", 4, lambda r: count(r.topics_away) if r.topics_away else "", right=True, needed=14),
)
DESTINATIONS = (
    Column("destination", 12, lambda d: plain(d.destination), needed=100, style=lambda d: destination_style(d)),
    Column("kind", 12, lambda d: plain(d.wrapper), needed=10),
    Column("state", 9, lambda d: plain(d.state), needed=90, style=lambda d: destination_style(d)),
    Column("since", 19, lambda d: plain(d.since)[:19], needed=40),
    Column("trips", 5, lambda d: count(d.trips), right=True, needed=20),
    Column("deaths", 6, lambda d: count(d.deaths), right=True, needed=15),
    Column("why", 12, lambda d: plain(d.pause_reason or (f"{d.error_code}: {d.error}" if d.error else "")), flexible=True, needed=80),
)
TROUBLE = (
    Column("status", 7, lambda f: plain(f.status), needed=90, style=lambda f: STYLES.get(f.status, "")),
    Column("check", 13, lambda f: plain(f.check), needed=50),
    Column("what is so", 20, lambda f: plain(f.detail), flexible=True, needed=100),
)
PARKED = (
    Column("route", 12, lambda g: plain(g.route), needed=95),
    Column("state", 9, lambda g: plain(g.state), needed=90, style=lambda g: STYLES["warning"] if g.state == "dead" else ""),
    Column("events", 6, lambda g: count(g.events), right=True, needed=100),
    Column("topic", 14, lambda g: plain(g.topic), needed=30),
    Column("class", 10, lambda g: plain(g.error_class), needed=20),
    Column("reason", 12, lambda g: plain(": ".join(filter(None, (g.error_code, g.sample_error)))), flexible=True, needed=80),
    Column("oldest", 19, lambda g: plain(g.oldest)[:19], needed=40),
)
COLUMNS = {"routes": ROUTES, "destinations": DESTINATIONS, "trouble": TROUBLE, "parked": PARKED}


def destination_style(destination):
    return STYLES["problem"] if destination.state == "open" else "" if destination.state in ("closed", "unused", "not shown") else STYLES["warning"]


class View:
    """What the operator has chosen: the part of the page, the row of each part (by name, so that the bar stays where rows
    move), the order, and what is being asked."""

    def __init__(self):
        self.section = "routes"
        self.order = "backlog"
        self.chosen = {}  # by section: key of the row
        self.at = {section: 0 for section in SECTIONS}
        self.top = {section: 0 for section in SECTIONS}
        self.help = False
        self.question = None  # lines instead of the keys
        self.message = ""
        self.page_rows = 10  # of the chosen part, as last drawn

    def rows(self, look, section):
        if section == "routes":
            return sorted(look.routes, key=ORDERS[self.order])
        return {"destinations": look.destinations, "trouble": look.trouble, "parked": look.parked}[section]

    def selected(self, look):
        rows = self.rows(look, self.section)
        self.settle(look, self.section)
        return rows[self.at[self.section]] if rows else None

    def settle(self, look, section):
        keys = [key_of(section, row) for row in self.rows(look, section)]
        if self.chosen.get(section) in keys:
            self.at[section] = keys.index(self.chosen[section])
        self.at[section] = max(min(self.at[section], len(keys) - 1), 0)

    def move(self, look, by):
        self.settle(look, self.section)
        rows = self.rows(look, self.section)
        if rows:
            self.at[self.section] = max(min(self.at[self.section] + by, len(rows) - 1), 0)
            self.chosen[self.section] = key_of(self.section, rows[self.at[self.section]])


def key_of(section, row):
    if section == "routes":
        return row.route
    if section == "destinations":
        return row.destination
    if section == "trouble":
        return (row.check, row.detail)
    return (row.route, row.state, row.topic, row.error_class, row.error_code)


def heading(look):
    """One line that says which outbox this is, one that says how it is."""
    state = "-" if look.version is None else look.version
    yield [("outbox-top", "bold"), (f"  {plain(look.database) or '?'}", ""), (f"  outbox {state}", ""),
           (f"  PostgreSQL {plain(look.server_version.split(' ')[0])}" if look.server_version else "", ""),
           (f"  {time.strftime('%H:%M:%S', time.localtime(look.at))}", "bold red" if look.no_connection else "")]
    figures = look.figures
    if not figures and not look.routes:
        return
    published = sum(route.rate or 0 for route in look.routes)
    waiting = sum(route.pending for route in look.routes)
    oldest = max([route.oldest_seconds for route in look.routes], default=0)
    dead = sum(route.dead for route in look.routes)
    yield [(f"emitted {count(look.emitted_rate) or '-'}/s  published {count(published)}/s", ""),
           (f"  waiting {count(waiting)}", ""), (f", oldest {seconds(oldest)}" if oldest else "", "yellow" if oldest >= LATE_SECONDS else ""),
           (f"  dead {count(dead)}", "yellow" if dead else ""),
           (f"  workers {count(figures.get('outbox_workers_running', 0))}/{count(figures.get('outbox_workers_wanted', 0))}",
            "yellow" if figures.get("outbox_workers_running", 0) < figures.get("outbox_workers_wanted", 0) else ""),
           (f"  oldest writer {seconds(figures['outbox_oldest_transaction_age_seconds'])}"
            if figures.get("outbox_oldest_transaction_age_seconds") else "", ""),
           (f"  looked in {look.took_seconds * 1000:.0f} ms", "")]


def folded(parts, width, most):
    """As many lines as it takes of whole parts, `most` at most: then the last parts are left out."""
    lines = [Text(no_wrap=True)]
    for text, style in parts:
        if lines[-1].cell_len and lines[-1].cell_len + cell_len(text) > width:
            if len(lines) == most:
                break
            lines.append(Text(no_wrap=True))
            text = text.lstrip(" ,")
        lines[-1].append(text, style)
    for line in lines:
        line.truncate(width)
    return lines


def notices(look, width):
    for status, detail, hint in look.notices():
        yield from wrapped(f"{status}: {plain(detail)}" + (f". {plain(hint)}" if hint else ""), width, STYLES[status], 2)
    if look.missing:
        for part, why in list(look.missing.items())[:3]:
            yield from wrapped(f"{part} cannot be had: {plain(why)}", width, STYLES["warning"], 2)


def wrapped(text, width, style="", most=6, indent=""):
    found = textwrap.wrap(text, max(width, 10), subsequent_indent=indent, break_on_hyphens=False) or [""]
    for line in found[:most]:
        yield Text(line, style=style, no_wrap=True)


def shares(wanted, chosen, height):
    """How many lines each part gets: a title each; the chosen one half of the rest at least, if it wants that."""
    got = {section: 1 for section in wanted}
    left = height - len(got)
    others = sum(want - 1 for section, want in wanted.items() if section != chosen)
    got[chosen] += max(min(wanted[chosen] - 1, max(left // 2, left - others)), 0)
    left = height - sum(got.values())
    growing = True
    while left > 0 and growing:
        growing = False
        for section, want in wanted.items():
            if left > 0 and got[section] < want:
                got[section] += 1
                left -= 1
                growing = True
    return {section: 1 if lines == 2 else lines for section, lines in got.items()}  # a heading without rows says nothing


def title(view, look, section, shown, rows):
    number = SECTIONS.index(section) + 1
    text = f"{number} {section}"
    if section == "routes" and rows:
        text += f" by {view.order}"
    if section == "parked" and look.parked_capped:
        text += ", of the first 10,000 dead letters and 10,000 others"
    if not rows:
        text += ": none" if section not in look.missing and not look.missing.get("figures") else ": not known"
    elif shown == 0:
        text += f": {len(rows)}"
    elif shown < len(rows):
        text += f" {view.top[section] + 1}-{view.top[section] + shown} of {len(rows)}"
    return Text(text, style="bold reverse" if section == view.section else "bold", no_wrap=True)


def detail_of(look, view, width):
    """What the bar is on, in full."""
    row = view.selected(look)
    if row is None:
        return
    if view.section == "trouble":
        yield from wrapped(plain(row.detail), width, STYLES.get(row.status, ""), 4)
        if row.hint:
            yield from wrapped("-> " + plain(row.hint), width, "", 5, "   ")
    elif view.section == "routes" and row.error:
        yield from wrapped(f"{plain(row.route)}: {plain(row.error)}", width, "", 3)
    elif view.section == "destinations" and row.error:
        yield from wrapped(f"{plain(row.destination)}: {plain(row.error_code)}: {plain(row.error)}"
                           + (f"; tried again at {plain(row.next_try)[:19]}" if row.next_try else ""), width, "", 3)
    elif view.section == "parked":
        yield from wrapped(f"{plain(row.error_class or row.state)} {plain(row.error_code)}: {plain(row.sample_error)}"
                           + (f" (event {row.sample_id})" if row.sample_id else ""), width, "", 3)


def keys_line(look, width):
    may = look.may
    can = [name for name, needs in (("p pause", "pause"), ("r resume", "resume"), ("t try again", "redrive")) if may.get(needs) and not look.standby]
    text = "Tab part  o order  " + "  ".join(can + ["? help", "q quit"])
    if len(can) < 3:
        text += "  (to look only)" if not look.standby else "  (a standby)"
    return Text(table.fit(text, width).rstrip(), style="dim", no_wrap=True)


def draw(look, view, width, height, ellipsis="…", whole=False):
    """All lines of the page, `height` of them at most; exactly so many where it is the whole terminal."""
    top = [line for parts in heading(look) for line in folded(parts, width, 2 if height >= 16 else 1)]
    top += list(notices(look, width))
    bottom = list(view.question) if view.question else [Text(table.fit(plain(view.message), width, ellipsis=ellipsis).rstrip(), no_wrap=True),
                                                        keys_line(look, width)]
    if view.help:
        body = [line for text in HELP.splitlines() for line in wrapped(text, width)]
        return put_together(top + body, bottom, height, whole)
    detail = list(detail_of(look, view, width))
    room = height - len(top) - len(bottom)
    if room - len(detail) < len(SECTIONS) + 3:
        detail = detail[:max(room - len(SECTIONS) - 3, 0)]
    all_rows = {section: view.rows(look, section) for section in SECTIONS}
    wanted = {section: 1 + (len(rows) + 1 if rows else 0) for section, rows in all_rows.items()}
    body = []
    spacious = room - len(detail) >= sum(wanted.values()) + len(SECTIONS)
    for section, lines in shares(wanted, view.section, max(room - len(detail), len(SECTIONS))).items():
        rows, shown = all_rows[section], max(lines - 2, 0)
        view.settle(look, section)
        if section == view.section:
            view.page_rows = max(shown, 1)
        view.top[section] = max(min(view.top[section], len(rows) - shown, view.at[section]), view.at[section] - shown + 1 if shown else 0, 0)
        if spacious:
            body.append(Text())
        body.append(title(view, look, section, shown, rows))
        if shown:
            first = view.top[section]
            bar = view.at[section] - first if section == view.section else None
            body += table.lines(COLUMNS[section], rows[first:first + shown], width, bar, ellipsis)
        if section == view.section:
            body += detail
    return put_together(top + body, bottom, height, whole)


def put_together(body, bottom, height, whole):
    body = body[:max(height - len(bottom), 0)]
    if whole:
        body += [Text()] * (height - len(bottom) - len(body))
    return Group(*body, *bottom)
