import { defineConfig } from 'prisma/config'

const { PGUSER, PGHOST, PGPORT, PGDATABASE } = process.env

// page: config
export default defineConfig({
  schema: 'prisma/schema.prisma',
  datasource: { url: `postgresql://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}` },
  experimental: { externalTables: true },
  // What migrations leave alone: the event, which is a model here, and the tables of its schema.
  tables: { external: ['outbox.event', 'outbox.route', 'outbox.pause', 'outbox.replay', 'outbox.audit'] },
})
// page end
