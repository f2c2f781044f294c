"""What one look at a database finds, as plain values: what the page draws and `--once --json` prints.

Each part is asked for by itself. One that cannot be had (a right, a version, a standby, a time limit) is told of in
`missing`, and the others are there all the same."""
import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional


@dataclass
class Route:
    route: str
    destination: str = ""
    state: str = ""  # of the lane that is worst off, as in outbox.lag; topic away: lanes are idle, topics have left them; empty: not asked yet
    rate: Optional[float] = None  # events per second acknowledged
    pending: float = 0  # an estimate where the route is behind
    oldest_seconds: float = 0
    change: Optional[float] = None  # of what waits, events per second over the last minute; None: not known yet
    drain_seconds: Optional[float] = None  # None: nothing waits, or it does not get less
    inflight: int = 0
    p50_ms: Optional[float] = None
    p99_ms: Optional[float] = None
    max_ms: Optional[float] = None
    ack_p99_ms: Optional[float] = None
    retrying: int = 0
    blocked: int = 0
    scheduled: int = 0
    dead: int = 0
    topics_away: int = 0
    error: str = ""  # what is in the way, in the destination's words


@dataclass
class Destination:
    destination: str
    wrapper: str = ""
    state: str = ""
    since: Optional[str] = None
    next_try: Optional[str] = None
    trips: int = 0
    deaths: int = 0
    error_class: Optional[str] = None
    error_code: Optional[str] = None
    error: Optional[str] = None
    pause_reason: Optional[str] = None


@dataclass
class Finding:
    check: str
    status: str
    detail: str
    hint: Optional[str] = None


@dataclass
class Parked:
    """Parked events of one route, state, topic and reason."""
    route: str
    state: str
    topic: Optional[str]
    error_class: Optional[str]
    error_code: Optional[str]
    events: int
    oldest: Optional[str]
    sample_id: Optional[str]  # None: they are only counted
    sample_error: Optional[str]


@dataclass
class Look:
    at: float = 0
    took_seconds: float = 0
    database: str = ""
    role: str = ""
    server_version: str = ""
    version: Optional[str] = None  # of the extension; None: it is not in this database
    standby: bool = False
    emitted_rate: Optional[float] = None
    figures: Dict[str, float] = field(default_factory=dict)  # of the database, under their own names
    routes: List[Route] = field(default_factory=list)
    destinations: List[Destination] = field(default_factory=list)
    trouble: List[Finding] = field(default_factory=list)
    parked: List[Parked] = field(default_factory=list)
    parked_capped: bool = False
    may: Dict[str, bool] = field(default_factory=dict)
    missing: Dict[str, str] = field(default_factory=dict)
    no_connection: str = ""

    def notices(self):
        """What comes before all figures: (how bad, what is so, what to type)."""
        if self.no_connection:
            yield "problem", f"no connection: {self.no_connection}", "it is tried again by itself"
        if self.database and self.version is None and "connection" not in self.missing:
            yield "problem", f"database {self.database} has no outbox", "CREATE EXTENSION outbox"
        if self.standby:
            yield "warning", "a standby: events are published where they are written, on the primary", ""
        if self.figures.get("outbox_adoption_needed") == 1:
            yield "problem", "this outbox is a copy of another one, and publishes nothing", "SELECT outbox.adopt()"
        if self.figures.get("outbox_version_mismatch") == 1:
            yield "problem", "library and extension are of different versions", "ALTER EXTENSION outbox UPDATE, or restart the server"
        if self.figures.get("outbox_enabled") == 0:
            yield "warning", "outbox.enabled is off: nothing is published", "ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()"

    def as_json(self):
        document = dataclasses.asdict(self)
        document["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at))
        document["notices"] = [{"status": s, "detail": d, "hint": h} for s, d, h in self.notices()]
        return json.dumps(document, indent=2, default=str)
