// What the consumer does about an event: it is in the transaction of `db`, and no unique key protects it.
import { existsSync, rmSync } from 'node:fs'

const utf8 = new TextDecoder('utf-8', { fatal: true }) // takes bytes only

export async function handle(db, payload) {
  if (payload === null) return // a tombstone
  if (existsSync(process.env.FAILS)) { // made by the test: then this event fails, once
    rmSync(process.env.FAILS)
    throw new Error('as the test asks')
  }
  await db.query('INSERT INTO ledger (n) VALUES ($1)', [JSON.parse(utf8.decode(payload)).n])
}
