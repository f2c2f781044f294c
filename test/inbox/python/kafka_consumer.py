# A Kafka consumer that handles each event once: docs/consumers.md.
import os
import signal

import psycopg
from confluent_kafka import Consumer, KafkaException

from handle import handle

TOPIC = os.environ["TOPIC"]
# page: kafka
consumer = Consumer({
    "bootstrap.servers": os.environ["BROKERS"],
    "group.id": os.environ["GROUP"],
    "group.instance.id": os.environ["INSTANCE"],  # a restart takes its partitions back at once
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
})
consumer.subscribe([TOPIC])
with psycopg.connect(os.environ["DATABASE"], autocommit=True, connect_timeout=10) as conn:
    while True:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error():
            raise KafkaException(record.error())
        headers = dict(record.headers())
        signal.alarm(90)  # ends the program where the database answers nothing any more; handle() takes less
        with conn.transaction():
            new, = conn.execute("SELECT outbox.receive(%s, %s)", ["billing", headers["id"].decode()]).fetchone()
            if new:
                handle(conn, record.value())  # None: a tombstone
        signal.alarm(0)
        consumer.commit(record)  # asynchronous: what of it is lost comes again, and is not new then
# page end
