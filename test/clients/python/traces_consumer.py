"""Reads messages as docs/traces.md says, with OpenTelemetry's SDK, and prints the spans of each as a line of JSON: kafka BOOTSTRAP TOPIC
COUNT, or redis URL STREAM COUNT."""
import json
import sys

# page: span
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

tracer = trace.get_tracer("billing")


def producer_span(system, topic, headers, message_id, created_at, taken_at=None):
    """The span of a message's way to the broker, and the context to handle it in. created_at: microseconds, of the message;
    taken_at: nanoseconds, when the broker took it, where that is known."""
    emitter = propagate.extract(headers)  # traceparent, tracestate and baggage
    span = tracer.start_span(f"send {topic}", emitter, SpanKind.PRODUCER, start_time=created_at * 1000, attributes={
        "messaging.system": system,
        "messaging.destination.name": topic,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": message_id,
    })
    span.end(max(taken_at or 0, created_at * 1000))
    return trace.set_span_in_context(span, emitter)
# page end


from opentelemetry import baggage, context  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

exported = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exported))
trace.set_tracer_provider(provider)


def meta(headers, value, timestamp_ms):
    """The message's id and the time of the event, in microseconds, whatever the format."""
    if headers.get("content-type", "").startswith("application/cloudevents"):
        event = json.loads(value if value is not None else headers["event"])
        return event["id"], int(event["sequence"])
    if "ce_id" in headers:
        return headers["ce_id"], int(headers["ce_sequence"])
    return headers["id"], int(headers.get("created_at", timestamp_ms * 1000))


def kafka(bootstrap, topic, count):
    from confluent_kafka import Consumer, OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "traces", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    for _ in range(count):
        message = consumer.poll(60)
        if message is None or message.error():
            sys.exit(f"no record: {message and message.error()}")
        # page: kafka
        headers = {name: value.decode() for name, value in message.headers()}
        kind, timestamp_ms = message.timestamp()
        taken_at = timestamp_ms * 1_000_000 if kind == TIMESTAMP_LOG_APPEND_TIME else None
        # page end
        yield "kafka", topic, headers, *meta(headers, message.value(), timestamp_ms), taken_at
    consumer.close()


def redis(url, stream, count):
    import redis as client

    for entry, fields in client.Redis.from_url(url).xrange(stream, count=count):
        # page: redis
        # The payload is one of the fields, and may be any bytes.
        headers = {name.decode().removeprefix("h:"): value.decode(errors="replace") for name, value in fields.items()}
        taken_at = int(entry.split(b"-")[0]) * 1_000_000  # by the server's clock
        # page end
        headers |= {name.lower(): value for name, value in headers.items()}  # Debezium's are in upper case
        yield "redis", stream, headers, *meta(headers, None, taken_at // 1_000_000), taken_at


for message in {"kafka": kafka, "redis": redis}[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4])):
    topic = message[1]
    # page: handle
    token = context.attach(producer_span(*message))
    try:
        with tracer.start_as_current_span(f"process {topic}", kind=SpanKind.CONSUMER):
            items = baggage.get_all()  # of the request that emitted the event
    finally:
        context.detach(token)
    # page end
    print(json.dumps({"message": message[3], "baggage": dict(items), "spans": [{
        "name": span.name,
        "kind": span.kind.name,
        "trace": format(span.context.trace_id, "032x"),
        "span": format(span.context.span_id, "016x"),
        "parent": span.parent and format(span.parent.span_id, "016x"),
        "remote": span.parent and span.parent.is_remote,
        "tracestate": span.context.trace_state.to_header(),
        "start": span.start_time // 1000,
        "end": span.end_time // 1000,
        "attributes": dict(span.attributes),
    } for span in exported.get_finished_spans()]}), flush=True)
    exported.clear()
