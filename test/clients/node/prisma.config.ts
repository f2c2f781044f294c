import { defineConfig } from 'prisma/config'

const { PGUSER, PGHOST, PGPORT, PGDATABASE } = process.env

// page: config
export default defineConfig({
  schema: 'prisma/schema.prisma',
  datasource: { url: `postgresql://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}` },
  experimental: { externalTables: true },
  tables: { external: ['outbox.event'] },   // a model that migrations leave alone
})
// page end
