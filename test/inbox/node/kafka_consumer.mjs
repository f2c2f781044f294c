// A Kafka consumer that handles each event once: docs/consumers.md.
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'
import { handle } from './handle.mjs'

// page: kafka
const db = new pg.Client({
  connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 10000,
  query_timeout: 90000, // of each query: a database that answers nothing any more
})
await db.connect()
const kafka = new Kafka({ brokers: [process.env.BROKERS], logLevel: logLevel.ERROR })
// kafkajs knows no static members: after a kill the partitions are free when the session is over.
const consumer = kafka.consumer({ groupId: process.env.GROUP, sessionTimeout: Number(process.env.SESSION_MS ?? 30000), heartbeatInterval: 500 })
consumer.on('consumer.crash', () => process.exit(1)) // who started it starts it again, whatever it was
await consumer.connect()
await consumer.subscribe({ topic: process.env.TOPIC, fromBeginning: true })
await consumer.run({
  autoCommitInterval: 1000, // behind the transaction: what of it is lost comes again, and is not new then
  eachMessage: async ({ message }) => {
    try {
      await db.query('BEGIN')
      const { rows } = await db.query('SELECT outbox.receive($1, $2) AS fresh', ['billing', message.headers.id.toString()])
      if (rows[0].fresh) await handle(db, message.value) // null: a tombstone
      await db.query('COMMIT')
    } catch (e) {
      // kafkajs calls again at once: the mark must be gone by then, or the program ends.
      await db.query({ text: 'ROLLBACK', query_timeout: 5000 }).catch(() => process.exit(1))
      throw e
    }
  },
})
// page end
