// Reads Kafka records as lines of JSON {headers, key, value}, the value in base64, with the official SDK, which holds each event against the
// specification's own JSON Schema, and prints a line for each: its attributes and data, or the error.
import { Kafka } from 'cloudevents';
import { createInterface } from 'node:readline';

for await (const line of createInterface({ input: process.stdin })) {
  const { headers, key, value } = JSON.parse(line);
  try {
    const bytes = Buffer.from(value, 'base64');
    const structured = headers['content-type'].startsWith('application/cloudevents');
    const event = Kafka.toEvent({ headers, key, value: structured ? bytes.toString() : bytes });
    event.validate();
    console.log(JSON.stringify({ attributes: Object.fromEntries(Object.entries(event).filter(([name]) => !name.startsWith('data') || name === 'datacontenttype' || name === 'dataschema')),
      data: Buffer.isBuffer(event.data) ? event.data.toString() : event.data }));
  } catch (error) {
    console.log(JSON.stringify({ error: `${error.message} ${JSON.stringify(error.errors ?? null)}` }));
  }
}
