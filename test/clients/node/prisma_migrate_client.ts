// What Prisma makes of a database that has the extension, with its schema on outbox.event: one line of JSON for each question, which
// test/clients/migrations.pl judges. The engine of its migrations is a program that no registry has; the last version with one in
// WebAssembly is 6.19, which goes by the driver of node-postgres.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import * as c from './cases'

const modules = new URL('../node_modules', import.meta.url).pathname
const here = new URL('..', import.meta.url).pathname

// The driver lacks types of catalogs that the engine asks for: "char", which it wants as a character, and name.
const adapter = `
import { PrismaPg } from '@prisma/adapter-pg'
import { ColumnTypeEnum } from '@prisma/driver-adapter-utils'
import pg from 'pg'
let chars = []
const known = answer => {
  for (const one of [answer ?? []].flat()) {
    chars = (one.fields ?? []).map(field => field.dataTypeID === 18)
    for (const field of one.fields ?? []) if (field.dataTypeID === 18 || field.dataTypeID === 19) field.dataTypeID = 25
  }
  return answer
}
class Client extends pg.Client {
  query(...args) {
    const last = args.at(-1)
    if (typeof last === 'function') args[args.length - 1] = (error, answer) => last(error, known(answer))
    const asked = super.query(...args)
    return typeof asked?.then === 'function' ? asked.then(known) : asked
  }
}
const typed = adapter => {
  const query = adapter.queryRaw.bind(adapter)
  adapter.queryRaw = async one => {
    const answer = await query(one)
    return { ...answer, columnTypes: answer.columnTypes.map((type, i) => chars[i] ? ColumnTypeEnum.Character : type) }
  }
  return adapter
}
const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE } = process.env
const connection = database => ({ host, port: Number(port), user, database, Client })
let shadows = 0
// An empty database each time that it asks for one.
const shadow = async () => {
  const name = PGDATABASE + '_shadow_' + process.pid + '_' + shadows++
  const db = new pg.Client(connection(PGDATABASE))
  await db.connect()
  await db.query('CREATE DATABASE ' + name)
  await db.end()
  return factory(name).connect()
}
const factory = database => {
  const of = new PrismaPg(new pg.Pool(connection(database)))
  const connect = of.connect.bind(of)
  of.connect = async () => typed(await connect())
  of.connectToShadowDb = shadow
  return of
}
export default async () => factory(PGDATABASE)
`
// As prisma.config.ts of the page has it, but for the adapter.
const external = (readFileSync(`${here}/prisma.config.ts`, 'utf8').match(/external: \[([^\]]*)\]/) ?? [])[1]
// The schema of the page, with what else the database has.
const schema = readFileSync(`${here}/prisma/schema.prisma`, 'utf8')
  .replace('provider = "postgresql"', 'provider = "postgresql"\n  url = "postgresql://by-the-adapter"')
  .replace('  customer String\n', '  customer String\n  of       Customer @relation(fields: [customer], references: [name], onDelete: NoAction, onUpdate: NoAction)\n')
  + 'model Customer {\n  name   String  @id\n  orders Order[]\n\n  @@map("customer")\n  @@schema("public")\n}\n'

function project(schema: string, tables: string) {
  const folder = mkdtempSync(`${tmpdir()}/outbox-prisma-`)
  symlinkSync(modules, `${folder}/node_modules`)
  mkdirSync(`${folder}/migrations/0_init`, { recursive: true })
  writeFileSync(`${folder}/migrations/migration_lock.toml`, 'provider = "postgresql"\n')
  writeFileSync(`${folder}/schema.prisma`, schema)
  writeFileSync(`${folder}/adapter.mjs`, adapter)
  writeFileSync(`${folder}/prisma.config.ts`, `import adapter from './adapter.mjs'
import { defineConfig } from 'prisma-migrate/config'
export default defineConfig({ schema: 'schema.prisma', migrations: { path: 'migrations' }, engine: 'js', adapter,
  experimental: { adapter: true, externalTables: true }, tables: { external: [${tables}] } })`)
  const none = '/bin/true'    // engines that it would fetch, and does not need
  const env = { ...process.env, CHECKPOINT_DISABLE: '1', PRISMA_HIDE_UPDATE_MESSAGE: '1', NO_COLOR: '1', PRISMA_SCHEMA_ENGINE_BINARY: none,
    PRISMA_QUERY_ENGINE_LIBRARY: none, PRISMA_QUERY_ENGINE_BINARY: none, PRISMA_FMT_BINARY: none }
  return {
    folder,
    // At a terminal, which `migrate dev` wants.
    asks(...args: string[]) {
      const command = [process.execPath, `${modules}/prisma-migrate/build/index.js`, ...args].join(' ')
      const { stdout } = spawnSync('script', ['-qec', command, '/dev/null'], { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
      return stdout.replace(/\r|\x1b\[[0-9;]*[A-Za-z]/g, '')
    },
  }
}
const parts = (said: string) => said.split('\n').filter(line => /^(model|view|enum)|@@map|@@schema/.test(line))

await c.test('prisma_pull', async () => {
  const said = project(schema.replace(/schemas += .*/, 'schemas = ["public"]').replace(/model Event [^]*?\n}\n/, ''), '').asks('db', 'pull', '--print')
  return { statements: parts(said), said }
})
await c.test('prisma_pull_all', async () => {
  const said = project(schema, '').asks('db', 'pull', '--print')
  return { statements: parts(said), said }
})
await c.test('prisma_push', async () => ({ said: project(schema, '').asks('db', 'push', '--skip-generate', '--accept-data-loss') }))
await c.test('prisma_push_event', async () => ({ said: project(schema, "'outbox.event'").asks('db', 'push', '--skip-generate', '--accept-data-loss') }))
await c.test('prisma_set', async () => {
  const { folder, asks } = project(schema, external)
  const pushed = asks('db', 'push', '--skip-generate')
  const first = asks('migrate', 'diff', '--from-empty', '--to-schema-datamodel', 'schema.prisma', '--script')
  const script = first.slice(first.indexOf('-- '))
  writeFileSync(`${folder}/migrations/0_init/migration.sql`, script)
  const resolved = asks('migrate', 'resolve', '--applied', '0_init')
  return { statements: script.split(';\n'), pushed, resolved, developed: asks('migrate', 'dev', '--skip-generate', '--name', 'next'), external }
})
