// A consumer of a Redis stream's group that handles each event once: docs/consumers.md.
import Redis from 'ioredis'
import pg from 'pg'
import { handle } from './handle.mjs'

const stream = process.env.TOPIC
// page: redis
const db = new pg.Client({
  connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 10000,
  query_timeout: 90000, // of each query: a database that answers nothing any more
})
await db.connect()
const redis = new Redis(process.env.REDIS, {
  autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, // XREADGROUP sent again would ask for what is next
  socketTimeout: 10000, // longer than BLOCK: a connection that nobody closed and nobody answers
})
await redis.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM').catch((e) => {
  if (!e.message.startsWith('BUSYGROUP')) throw e
})
let after = '0' // first what this consumer was given before it died; then what is new: '>'
for (;;) {
  // Buffers, as a payload may be any bytes.
  const answer = await redis.xreadgroupBuffer('GROUP', 'billing', process.env.INSTANCE, 'COUNT', 100, 'BLOCK', 1000, 'STREAMS', stream, after)
  const entries = answer?.[0][1] ?? []
  if (after !== '>') after = entries.length > 0 ? entries.at(-1)[0] : '>'
  for (const [entry, list] of entries) {
    if (list) { // null: the entry was trimmed away after this consumer was given it
      const fields = {}
      for (let i = 0; i < list.length; i += 2) fields[list[i].toString()] = list[i + 1]
      await db.query('BEGIN')
      const { rows } = await db.query('SELECT outbox.receive($1, $2) AS fresh', ['billing', fields.id.toString()])
      if (rows[0].fresh) await handle(db, fields.payload ?? null) // null: a tombstone
      await db.query('COMMIT')
    }
    await redis.xack(stream, 'billing', entry)
  }
}
// page end
