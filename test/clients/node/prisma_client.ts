import { PrismaPg } from '@prisma/adapter-pg'
import { Prisma, PrismaClient } from './prisma/generated/client'
import * as c from './cases'

const { PGUSER, PGHOST, PGPORT, PGDATABASE } = process.env
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: `postgresql://${PGUSER}@${PGHOST}:${PGPORT}/${PGDATABASE}` }) })

// page: emit
async function placeOrder(prisma: PrismaClient, customer: string) {
  return prisma.$transaction(async tx => {
    const order = await tx.order.create({ data: { customer } })
    const event = await tx.event.create({ data: {
      aggregate_type: 'order', aggregate_id: String(order.id), event_type: 'order.placed', payload: { customer } } })
    return [order.id, event.id]
  })
}
// page end

type Tx = Prisma.TransactionClient
const emitted = (rows: any) => ({ id: rows[0].id })
const event = (event_type: string, more = {}) => ({ data: { aggregate_type: 'order', aggregate_id: '7', event_type, payload: c.object, ...more } })
const undo = () => { throw new Error('undo') }

async function emit(type: string, key: string, payload: any = c.object, tx: Tx = prisma) {
  // page: function
  const rows = await tx.$queryRaw`SELECT outbox.emit('order', ${key}, ${type}, ${JSON.stringify(payload)}) AS id`
  // page end
  return emitted(rows)
}

await c.test('placed', async () => {
  const [order, id] = await placeOrder(prisma, c.customer)
  return { order, id }
})
await c.test('commit_fails', () => c.fails(() => placeOrder(prisma, c.nobody)))
await c.test('rolled_back', () => c.fails(() => prisma.$transaction(async tx => {
  await tx.order.create({ data: { customer: c.customer } })
  await emit('rolled.back', '1', c.object, tx)
  undo()
})))
await c.test('entity', async () => ({ id: (await prisma.event.create(event('entity', { headers: c.headers }))).id }))
await c.test('entity_rolled_back', () => c.fails(() => prisma.$transaction(async tx => {
  await tx.event.create(event('entity.rolled.back'))
  undo()
})))
await c.test('savepoint', () => prisma.$transaction(async tx => {
  await emit('savepoint.outer', '1', c.object, tx)
  await tx.$executeRaw`SAVEPOINT inner_one`
  await emit('savepoint.inner', '1', c.object, tx)
  await tx.$executeRaw`ROLLBACK TO inner_one`
}))
await c.test('key_number', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', ${c.number}, 'key.number', ${c.object}) AS id`))
await c.test('key_uuid', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', ${c.uuid}::uuid, 'key.uuid', ${c.object}) AS id`))
await c.test('key_text', () => emit('key.text', c.text))
await c.test('key_null', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', ${null}, 'key.null', ${c.object}) AS id`))
await c.test('as_sent', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', 1, 'as.sent', ${c.asSent}::json) AS id`))
await c.test('text', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit_text('order', 1, 'text', ${c.lines}) AS id`))
await c.test('bytes', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit_bytes('order', 1, 'bytes', ${c.bytes}) AS id`))
await c.test('tombstone', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit_tombstone('order', 1, 'tombstone') AS id`))
await c.test('nulls', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', 1, 'nulls', ${c.object}, ${null}, ${null}, ${null}) AS id`))
await c.test('all', async () => emitted(await prisma.$queryRaw`SELECT outbox.emit('order', 1, 'all', ${c.object}, ${c.headers}, 'elsewhere', ${c.hourAgo}) AS id`))
await c.test('many', async () => {
  // page: many
  await prisma.event.createMany({ data: [1, 2, 3].map(n => ({ aggregate_type: 'order', aggregate_id: String(n), event_type: 'many', payload: { n } })) })
  // page end
})
await c.test('repeated', () => prisma.$transaction(async tx => {
  for (let n = 1; n <= 7; n++) await emit('repeated', String(n), { n }, tx)
}))
await c.test('row', async () => {
  const { id } = await prisma.shipment.create({ data: { state: 'sent' } })
  await prisma.shipment.update({ where: { id }, data: { state: 'lost' } })
  await prisma.shipment.delete({ where: { id } })
})
await c.test('sees_own', async () => {
  let inside = 0
  await c.fails(() => prisma.$transaction(async tx => {
    await emit('unseen', '1', c.object, tx)
    await tx.event.create(event('unseen'))
    inside = await tx.event.count()
    undo()
  }))
  return { counts: [inside, await prisma.event.count()] }
})
const said = (error: any) => error.meta?.driverAdapterError?.cause ?? error.cause ?? error
const adapted = (error: any) => ({ code: said(error).originalCode ?? said(error).code, message: said(error).originalMessage ?? said(error).message, hint: said(error).hint })
await c.refused('refused_null', async () => prisma.$queryRaw`SELECT outbox.emit('order', 1, 'refused', NULL)`, adapted)
await c.refused('refused_twice', async () => prisma.$queryRaw`SELECT outbox.emit('order', 1, 'refused', ${c.twice})`, adapted)
await c.refused('refused_update', async () => prisma.$executeRaw`UPDATE outbox.event SET event_type = 'x'`, adapted)
await c.test('goes_on', () => emit('goes.on', '1'))
await prisma.$disconnect()
