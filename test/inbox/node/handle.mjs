// What the consumer does about an event: it is in the transaction of `db`, and no unique key protects it.
import { rmSync } from 'node:fs'

const utf8 = new TextDecoder('utf-8', { fatal: true }) // takes bytes only

export async function handle(db, payload) {
  if (payload === null) return // a tombstone
  await db.query('INSERT INTO ledger (n) VALUES ($1)', [JSON.parse(utf8.decode(payload)).n])
  try {
    rmSync(process.env.FAILS) // made by the test: then this event fails, once
  } catch {
    return
  }
  throw new Error('as the test asks')
}
