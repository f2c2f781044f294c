# A consumer of a Redis stream's group that handles each event once: docs/consumers.md.
import os
import signal

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from handle import handle

STREAM = os.environ["TOPIC"].encode()
# page: redis
r = redis.Redis.from_url(
    os.environ["REDIS"],
    retry=Retry(NoBackoff(), 0),  # XREADGROUP sent again would ask for what is next
    socket_timeout=10,  # longer than block: a connection that nobody closed and nobody answers
)
try:
    r.xgroup_create(STREAM, "billing", id="0", mkstream=True)
except redis.ResponseError as e:
    if not str(e).startswith("BUSYGROUP"):
        raise
with psycopg.connect(os.environ["DATABASE"], autocommit=True, connect_timeout=10) as conn:
    after = "0"  # first what this consumer was given before it died; then what is new: ">"
    while True:
        answer = dict(r.xreadgroup("billing", os.environ["INSTANCE"], {STREAM: after}, count=100, block=1000))
        entries = answer.get(STREAM, [])
        if after != ">":
            after = entries[-1][0] if entries else ">"
        for entry, fields in entries:
            if fields:  # none: the entry was trimmed away after this consumer was given it
                signal.alarm(90)  # ends the program where the database answers nothing any more; handle() takes less
                with conn.transaction():
                    new, = conn.execute("SELECT outbox.receive(%s, %s)", ["billing", fields[b"id"].decode()]).fetchone()
                    if new:
                        handle(conn, fields.get(b"payload"))  # None: a tombstone
                signal.alarm(0)
            r.xack(STREAM, "billing", entry)
# page end
