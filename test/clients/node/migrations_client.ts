// What TypeORM and drizzle-kit make of a database that has the extension: one line of JSON for each question, which
// test/clients/migrations.pl judges.
import 'reflect-metadata'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { DataSource, Entity, Column, PrimaryGeneratedColumn } from 'typeorm'
import * as c from './cases'
import { Event, Order, Shipment } from './typeorm_entities'

@Entity({ schema: 'outbox', name: 'event' })
class SynchronizedEvent {
  @PrimaryGeneratedColumn('uuid') id!: string
  @Column('text') event_type!: string
}

// The statements that synchronize and migration:generate would run.
async function typeorm(entities: any[]) {
  const db = new DataSource({ type: 'postgres', host: process.env.PGHOST, port: Number(process.env.PGPORT), username: process.env.PGUSER,
    database: process.env.PGDATABASE, entities })
  await db.initialize()
  const statements = (await db.driver.createSchemaBuilder().log()).upQueries.map(query => query.query)
  await db.destroy()
  return { statements }
}

await c.test('typeorm_synchronized', () => typeorm([SynchronizedEvent]))
await c.test('typeorm_set', () => typeorm([Event, Order, Shipment]))

// drizzle-kit as a command, in a folder with what a project has.
const schema = `import { bigserial, pgSchema, pgTable, text, uuid, jsonb } from 'drizzle-orm/pg-core'
export const shipment = pgTable('shipment', { id: bigserial('id', { mode: 'number' }).primaryKey(), state: text('state').notNull() })
`
const event = `export const event = pgSchema('outbox').table('event', { id: uuid('id').primaryKey().defaultRandom(), event_type: text('event_type').notNull(), payload: jsonb('payload') })
`
function drizzle(command: string, config: object, withEvent = false) {
  const folder = mkdtempSync(`${tmpdir()}/outbox-drizzle-`)
  const { PGUSER, PGHOST, PGPORT, PGDATABASE } = process.env
  symlinkSync(new URL('../node_modules', import.meta.url).pathname, `${folder}/node_modules`)
  mkdirSync(`${folder}/out`)
  writeFileSync(`${folder}/schema.ts`, schema + (withEvent ? event : ''))
  writeFileSync(`${folder}/drizzle.config.json`, JSON.stringify({ dialect: 'postgresql', schema: './schema.ts', out: './out',
    dbCredentials: { url: `postgresql://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}` }, ...config }))
  execFileSync(`${folder}/node_modules/.bin/drizzle-kit`, [command, '--config=drizzle.config.json'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const statements = readdirSync(`${folder}/out`).filter(name => name.endsWith('.sql'))
    .map(name => readFileSync(`${folder}/out/${name}`, 'utf8').replace(/\/\*|\*\/|-->.*/g, ''))
  return { statements }
}

await c.test('drizzle_pull', async () => drizzle('pull', {}))
await c.test('drizzle_pull_all', async () => drizzle('pull', { schemaFilter: ['public', 'outbox', 'outbox_internal'] }))
await c.test('drizzle_generate_event', async () => drizzle('generate', {}, true))
await c.test('drizzle_set', async () => drizzle('generate', { schemaFilter: ['public'] }))
