"""Looks at a database, again and again, at a bounded cost: a part that took long is asked for less often. Writes nothing,
waits for no lock longer than a second, and comes back by itself after a restart of the server."""
import collections
import copy
import time

import psycopg

from look import Destination, Finding, Look, Parked, Route

# Without an encoding of the client's own, psycopg hands out bytes where the database's is SQL_ASCII.
SETTINGS = ("SET client_encoding = 'UTF8'; SET application_name = 'outbox-top'; SET default_transaction_read_only = on;"
            " SET statement_timeout = '10 s'; SET lock_timeout = '1 s'; SET search_path = pg_catalog; SET datestyle = 'ISO'")
# A part that took so long is left alone for twenty times as long: looking takes 5 % of a session at most.
REST = 20
HISTORY_SECONDS = 60
PARKED_ROWS = 10000  # of dead letters, and of the others: a replay parks a million

SERVER = """
SELECT current_database(), current_user::text, current_setting('server_version'), pg_is_in_recovery(),
  (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'outbox'),
  has_schema_privilege(coalesce(to_regnamespace('outbox')::oid, 0), 'USAGE')
"""
RIGHTS = """
SELECT p.proname::text, bool_and(has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p
WHERE p.pronamespace = to_regnamespace('outbox') AND p.proname IN ('pause', 'resume', 'retry', 'redrive') GROUP BY 1
"""
# Without the histograms, which are most of it.
FIGURES = "SELECT m.name, m.labels, m.value FROM outbox.metrics() m WHERE m.kind <> 'histogram'"
LATENCY = "SELECT l.route, l.destination, l.rate::float8, l.p50::float8, l.p99::float8, l.max::float8, l.ack_p99::float8 FROM outbox.latency l WHERE l.period = 'minute'"
DESTINATIONS = """
SELECT d.server, d.wrapper, d.state, d.since::text, d.next_try::text, d.trips, d.deaths, d.error_class, d.error_code,
  d.error_message, d.pause_reason
FROM outbox.destination d ORDER BY 1
"""
LANES = "SELECT l.route, l.state, l.error_code, l.error_message, l.side IS NOT NULL FROM outbox.lag l"
TROUBLE = 'SELECT d."check", d.status, d.detail, d.hint FROM outbox.doctor() d WHERE d.status <> \'ok\''
PARKED = f"""
SELECT p.route, p.state, p.topic, p.error_class, p.error_code, count(*), min(p.parked_at)::text,
  (array_agg(p.id::text ORDER BY p.created_at DESC))[1], (array_agg(p.error_message ORDER BY p.created_at DESC))[1]
FROM (
  (SELECT d.route, 'dead' AS state, d.topic, d.error_class, d.error_code, d.parked_at, d.id, d.error_message, d.created_at
   FROM outbox.dead_letter d LIMIT {PARKED_ROWS})
  UNION ALL
  (SELECT e.route, e.state, e.topic, e.error_class, e.error_code, e.parked_at, e.id, e.error_message, e.created_at
   FROM outbox.parked_event e WHERE e.state <> 'dead' LIMIT {PARKED_ROWS})
) p
GROUP BY 1, 2, 3, 4, 5 ORDER BY p.state <> 'dead', 6 DESC, 1, 2, 3
"""
# The state of a route is that of the lane that is worst off.
WORST = ["unowned", "backing off", "paused", "gone", "starting", "releasing", "forking", "solo", "parking", "draining", "running", "idle"]
GOING = ("running", "idle", "draining", "parking", "solo")


def words(error):
    """What the server said, in one line."""
    said = getattr(error, "diag", None)
    if said is not None and said.message_primary:
        return said.message_primary + (f" ({said.message_hint})" if said.message_hint else "")
    return " ".join(str(error).split()) or type(error).__name__


class Observer:
    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.connection = None
        self.look = Look()
        self.due = {}  # by part: when it is asked for again
        self.counters = None  # (when, reset, {(route, destination): published, None: emitted}) of the look before
        self.counted_parked = {}  # (route, state, error class): events
        self.history = collections.defaultdict(collections.deque)  # by route: (when, pending)

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def observe(self):
        """A new look; never raises what a server can cause. What it could not ask for now is as it was."""
        began = time.monotonic()
        look = copy.copy(self.look)
        look.missing = dict(self.look.missing)
        try:
            self.connect(look)
            self.ask_all(look)
            look.no_connection = ""
        except psycopg.Error as error:
            look.no_connection = words(error)
            self.close()
        look.at = time.time()
        look.took_seconds = round(time.monotonic() - began, 4)
        self.look = look
        return look

    def connect(self, look):
        if self.connection is not None:
            return
        self.connection = psycopg.connect(self.conninfo, autocommit=True, connect_timeout=5)
        self.connection.prepare_threshold = None  # a pooler may give the next statement to another server process
        self.connection.execute(SETTINGS)
        self.due = {}
        self.counters = None
        self.history.clear()
        look.missing = {}

    def rows(self, query):
        return self.connection.execute(query).fetchall()

    def ask_all(self, look):
        look.database, look.role, look.server_version, look.standby, look.version, usage = self.rows(SERVER)[0]
        if look.version is None or not usage:
            look.routes, look.destinations, look.trouble, look.parked, look.figures, look.may = [], [], [], [], {}, {}
            look.missing = {} if look.version is None else {
                "figures": f"role {look.role} may not look: GRANT pg_monitor TO {look.role}"}
            return
        self.part(look, "rights", 10, lambda: look.__setattr__("may", dict(self.rows(RIGHTS))))
        self.part(look, "figures", 0, lambda: self.ask_figures(look))
        self.part(look, "latency", 2, lambda: self.ask_latency(look))
        self.part(look, "lanes", 2, lambda: self.ask_lanes(look))
        self.part(look, "destinations", 0, lambda: look.__setattr__("destinations", [Destination(*row) for row in self.rows(DESTINATIONS)]))
        self.part(look, "trouble", 4, lambda: look.__setattr__("trouble", [Finding(*row) for row in self.rows(TROUBLE)]))
        self.part(look, "parked", 4, lambda: self.ask_parked(look))

    def part(self, look, name, every, ask):
        began = time.monotonic()
        if began < self.due.get(name, 0):
            return
        try:
            ask()
            look.missing.pop(name, None)
        except psycopg.Error as error:
            if self.connection.closed:
                raise
            look.missing[name] = words(error)
        took = time.monotonic() - began
        self.due[name] = time.monotonic() + max(every, took * REST)

    def ask_figures(self, look):
        now = time.monotonic()
        old = {route.route: route for route in look.routes}
        routes, figures, counters = {}, {}, {}
        self.counted_parked = {}
        for name, labels, value in self.rows(FIGURES):
            if "route" not in labels:
                if not labels:
                    figures[name] = value
                continue
            name_of_route = labels["route"]
            if name_of_route not in routes:
                routes[name_of_route] = copy.copy(old.get(name_of_route, Route(name_of_route)))
                for gauge in ("retrying", "blocked", "scheduled", "dead"):
                    setattr(routes[name_of_route], gauge, 0)
            route = routes[name_of_route]
            # A counter may be of a destination that the route had before; what is of now is of the one that it has.
            if not name.endswith("_total") or not route.destination:
                route.destination = labels.get("destination", "")
            if name == "outbox_pending_events":
                route.pending = value
            elif name == "outbox_oldest_pending_age_seconds":
                route.oldest_seconds = round(value, 3)
            elif name == "outbox_inflight_events":
                route.inflight = int(value)
            elif name == "outbox_topics_away":
                route.topics_away = int(value)
            elif name == "outbox_parked_events":
                setattr(route, labels["state"], getattr(route, labels["state"]) + int(value))
                self.counted_parked[name_of_route, labels["state"], labels.get("error_class", "")] = int(value)
            elif name == "outbox_events_published_total":
                counters[name_of_route, labels.get("destination", "")] = value
        counters[None] = figures.get("outbox_events_emitted_total", 0)
        reset = figures.get("outbox_stats_reset_timestamp_seconds")
        if self.counters is not None and self.counters[1] == reset and now > self.counters[0]:
            rates = collections.Counter()
            for key, value in counters.items():
                rates[key and key[0]] += max(value - self.counters[2].get(key, 0), 0) / (now - self.counters[0])
            look.emitted_rate = round(rates.pop(None), 1)
            for name_of_route, rate in rates.items():
                routes[name_of_route].rate = round(rate, 1)
        self.counters = (now, reset, counters)
        for route in routes.values():
            self.foresee(route, now)
        for gone in set(self.history) - set(routes):
            del self.history[gone]
        look.figures = figures
        look.routes = sorted(routes.values(), key=lambda route: route.route)

    def foresee(self, route, now):
        """How long until nothing waits: by how the backlog changed over the last minute; while that is not known yet, by the
        rate at which events go."""
        past = self.history[route.route]
        past.append((now, route.pending))
        while now - past[0][0] > HISTORY_SECONDS:
            past.popleft()
        since, before = past[0]
        known = now - since >= HISTORY_SECONDS / 6
        route.change = round((route.pending - before) / (now - since), 2) if known else None
        shrinks = -route.change if known else route.rate or 0
        route.drain_seconds = round(route.pending / shrinks, 1) if route.pending > 0 and shrinks > 0 else None

    def ask_latency(self, look):
        rates, found = collections.Counter(), {}
        for route, destination, rate, *times in self.rows(LATENCY):
            rates[route] += rate or 0.0
            found[route, destination] = times
        for route in look.routes:
            route.p50_ms, route.p99_ms, route.max_ms, route.ack_p99_ms = found.get((route.route, route.destination), (None,) * 4)
            if route.rate is None:  # of the last minute, until two looks tell
                route.rate = round(float(rates[route.route]), 4)

    def ask_lanes(self, look):
        lanes = collections.defaultdict(list)
        for route, state, code, message, side in self.rows(LANES):
            lanes[route].append((side, WORST.index(state) if state in WORST else len(WORST), state, f"{code}: {message}" if code else message or ""))
        for route in look.routes:
            of_route = sorted(lanes.get(route.route, []))
            route.state = of_route[0][2] if of_route else ""
            if route.state == "idle" and of_route[-1][0]:  # a side lane
                route.state = "topic away"
            route.error = next((lane[3] for lane in of_route if lane[3]), "")
            # The rate of the last minute says something of a route that goes, not of one whose destination has gone.
            if route.change is None and route.pending > 0 and route.drain_seconds is None and route.rate and not route.error and route.state in GOING:
                route.drain_seconds = round(route.pending / route.rate, 1)

    def ask_parked(self, look):
        look.parked = [Parked(*row) for row in self.rows(PARKED)]
        dead = sum(group.events for group in look.parked if group.state == "dead")
        look.parked_capped = max(dead, sum(group.events for group in look.parked) - dead) >= PARKED_ROWS
        # What the limit has hidden is told by the figures at least, which count every state.
        seen = {(group.route, "scheduled" if group.state == "due" else group.state, group.error_class or "") for group in look.parked}
        for (route, state, error_class), events in sorted(self.counted_parked.items()):
            if look.parked_capped and events and (route, state, error_class) not in seen:
                look.parked.append(Parked(route, state, None, error_class or None, None, events, None, None, None))
