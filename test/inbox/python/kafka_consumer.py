# A Kafka consumer that handles each event once: docs/consumers.md.
import os

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
with psycopg.connect(os.environ["DATABASE"], autocommit=True) as conn:
    while True:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error():
            raise KafkaException(record.error())
        headers = dict(record.headers())
        with conn.transaction():
            new, = conn.execute("SELECT outbox.receive(%s, %s)", ["billing", headers["id"].decode()]).fetchone()
            if new:
                handle(conn, record.value())  # None: a tombstone
        consumer.commit(record)  # asynchronous: what of it is lost comes again, and is not new then
# page end
