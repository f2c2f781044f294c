"""What counting costs, in CPU time: two servers, one with figures and one without, asked in turn.

cost.py measure WITH WITHOUT PAIRS EVENTS   one line for each pair: what, CPU time with and without, in microseconds per event
cost.py summary FILE                        of all pairs: the mean of the relative differences, and its 95 % confidence interval

A pair is many short turns, one server after the other, the first of them changing, so that what else the machine does falls on
both. Counted is what the kernel says a process has had (/proc/PID/schedstat): the session that emits, the worker that drains."""
import statistics
import sys
import time

import psycopg

TURNS = 10
# 97.5 % of Student's t, by degrees of freedom; the last is good for more.
T = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
     2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]
BULK = "SELECT count(outbox.emit_text('order', (i %% 1000)::text, 'order.created', repeat('x', 300))) FROM generate_series(1, %s) i"
SINGLE = """DO $$ BEGIN FOR i IN 1 .. {0} LOOP
  PERFORM outbox.emit_text('order', i::text, 'order.created', repeat('x', 300)); COMMIT; END LOOP; END $$"""


def cpu_of(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1000


class Server:
    def __init__(self, conninfo):
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.ask("SET synchronous_commit = off; SET outbox.lone_emit = allow")
        self.pid = self.ask("SELECT pg_backend_pid()")

    def ask(self, statement, *values):
        cursor = self.connection.execute(statement, values or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def relay(self):
        return self.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay'")

    def emit_in_bulk(self, events):
        before = cpu_of(self.pid)
        self.ask(BULK, events)
        return cpu_of(self.pid) - before

    def emit_one_by_one(self, events):
        before = cpu_of(self.pid)
        self.ask(SINGLE.format(events))
        return cpu_of(self.pid) - before

    def drain(self, events):
        self.ask("SELECT outbox.pause('r1', reason => 'bench')")
        while not self.ask("SELECT bool_and(state = 'paused') FROM outbox.lag"):
            time.sleep(0.01)
        self.ask(BULK, events)
        pid = self.relay()
        before = cpu_of(pid)
        self.ask("SELECT outbox.resume('r1')")
        if not self.ask("SELECT outbox.wait_until_idle('5 min')"):
            sys.exit("not idle")
        return cpu_of(pid) - before


def measure(first, second, pairs, events):
    servers = [Server(first), Server(second)]
    single = max(events // 10, 1)
    parts = [("emit, 1000s in a transaction", Server.emit_in_bulk, events), ("emit, one in a transaction", Server.emit_one_by_one, single)]
    if servers[0].relay():
        parts = [("drain", Server.drain, events)]
    for _, part, count in parts:  # caches, plans, files
        for server in servers:
            part(server, max(count // TURNS, 1))
    for pair in range(pairs):
        for name, part, count in parts:
            spent = [0, 0]
            for turn in range(TURNS):
                order = (0, 1) if (turn + pair) % 2 == 0 else (1, 0)
                for which in order:
                    spent[which] += part(servers[which], count // TURNS)
            print(f"{name}\t{spent[0] / count:.4f}\t{spent[1] / count:.4f}", flush=True)


def summary(path):
    found = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            name, with_figures, without = line.rstrip("\n").split("\t")
            found.setdefault(name, []).append((float(with_figures), float(without)))
    for name, pairs in found.items():
        differences = [100 * (a / b - 1) for a, b in pairs]
        mean = statistics.fmean(differences)
        half = T[min(len(differences) - 1, len(T)) - 1] * statistics.stdev(differences) / len(differences) ** 0.5
        costs = [statistics.fmean(column) for column in zip(*pairs)]
        print(f"{name + ': microseconds per event':<56} {costs[0]:.3f} with figures, {costs[1]:.3f} without:"
              f" {mean:+.2f} % [{mean - half:+.2f} to {mean + half:+.2f}], {len(pairs)} pairs")


if sys.argv[1] == "measure":
    measure(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    summary(sys.argv[2])
