"""Reads a topic as its users do, with the official SDK, and prints a line of JSON for each event: BOOTSTRAP TOPIC COUNT."""
import base64
import json
import sys

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat
from confluent_kafka import Consumer

CORE = {"id", "source", "type", "specversion", "subject", "time", "datacontenttype", "dataschema"}
bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "python", "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
for _ in range(count):
    message = consumer.poll(60)
    if message is None or message.error():
        sys.exit(f"no record: {message and message.error()}")
    event = from_kafka(KafkaMessage(dict(message.headers()), message.key(), message.value()), JSONFormat())
    data = event.get_data()
    print(json.dumps({
        "id": event.get_id(),
        "source": event.get_source(),
        "type": event.get_type(),
        "subject": event.get_subject(),
        "time": round(event.get_time().timestamp() * 1000000),
        "datacontenttype": event.get_datacontenttype(),
        "dataschema": event.get_dataschema(),
        "extensions": {name: value for name, value in event.get_attributes().items() if name not in CORE},
        "bytes": base64.b64encode(data).decode() if isinstance(data, bytes) else None,
        "data": None if isinstance(data, bytes) else data,
    }), flush=True)
