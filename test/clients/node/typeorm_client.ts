import 'reflect-metadata'
import { DataSource, EntityManager } from 'typeorm'
import { Event, Order, Shipment } from './typeorm_entities'
import * as c from './cases'

const db = new DataSource({ type: 'postgres', host: process.env.PGHOST, port: Number(process.env.PGPORT), username: process.env.PGUSER,
  database: process.env.PGDATABASE, entities: [Order, Shipment, Event] })
await db.initialize()

// page: emit
async function placeOrder(db: DataSource, customer: string) {
  return db.transaction(async manager => {
    const order = await manager.save(Order, { customer })
    const event = await manager.save(Event, { aggregate_type: 'order', aggregate_id: order.id, event_type: 'order.placed', payload: { customer } })
    return [order.id, event.id]
  })
}
// page end

async function emit(name: string, values: any[], manager: EntityManager = db.manager) {
  // page: function
  const [event] = await manager.query(`SELECT outbox.${name}(${values.map((_, i) => `$${i + 1}`)}) AS id`, values)
  // page end
  return { id: event.id }
}

const event = (event_type: string, more = {}) => ({ aggregate_type: 'order', aggregate_id: '7', event_type, payload: c.object, ...more })
const undo = () => { throw new Error('undo') }

await c.test('placed', async () => {
  const [order, id] = await placeOrder(db, c.customer)
  return { order, id }
})
await c.test('commit_fails', () => c.fails(() => placeOrder(db, c.nobody)))
await c.test('rolled_back', () => c.fails(() => db.transaction(async manager => {
  await manager.save(Order, { customer: c.customer })
  await emit('emit', ['order', 1, 'rolled.back', c.object], manager)
  undo()
})))
await c.test('entity', async () => ({ id: (await db.manager.save(Event, event('entity', { headers: c.headers }))).id }))
await c.test('entity_rolled_back', () => c.fails(() => db.transaction(async manager => {
  await manager.save(Event, event('entity.rolled.back'))
  undo()
})))
await c.test('savepoint', () => db.transaction(async manager => {
  await emit('emit', ['order', 1, 'savepoint.outer', c.object], manager)
  await c.fails(() => manager.transaction(async nested => {
    await emit('emit', ['order', 1, 'savepoint.inner', c.object], nested)
    undo()
  }))
}))
await c.test('key_number', () => emit('emit', ['order', c.number, 'key.number', c.object]))
await c.test('key_uuid', () => emit('emit', ['order', c.uuid, 'key.uuid', c.object]))
await c.test('key_text', () => emit('emit', ['order', c.text, 'key.text', c.object]))
await c.test('key_null', () => emit('emit', ['order', null, 'key.null', c.object]))
await c.test('as_sent', async () => ({ id: (await db.query('SELECT outbox.emit($1, $2, $3, $4::json) AS id', ['order', 1, 'as.sent', c.asSent]))[0].id }))
await c.test('text', () => emit('emit_text', ['order', 1, 'text', c.lines]))
await c.test('bytes', () => emit('emit_bytes', ['order', 1, 'bytes', c.bytes]))
await c.test('tombstone', () => emit('emit_tombstone', ['order', 1, 'tombstone']))
await c.test('nulls', () => emit('emit', ['order', 1, 'nulls', c.object, null, null, null]))
await c.test('all', () => emit('emit', ['order', 1, 'all', c.object, c.headers, 'elsewhere', c.hourAgo]))
await c.test('many', async () => {
  // page: many
  await db.manager.insert(Event, [1, 2, 3].map(n => ({ aggregate_type: 'order', aggregate_id: String(n), event_type: 'many', payload: { n } })))
  // page end
})
await c.test('repeated', () => db.transaction(async manager => {
  for (let n = 1; n <= 7; n++) await emit('emit', ['order', n, 'repeated', { n }], manager)
}))
await c.test('row', async () => {
  const shipment = await db.manager.save(Shipment, { state: 'sent' })
  await db.manager.update(Shipment, shipment.id, { state: 'lost' })
  await db.manager.delete(Shipment, shipment.id)
})
await c.test('sees_own', async () => {
  let inside = 0
  await c.fails(() => db.transaction(async manager => {
    await emit('emit', ['order', 1, 'unseen', c.object], manager)
    await manager.save(Event, event('unseen'))
    inside = await manager.count(Event)
    undo()
  }))
  return { counts: [inside, await db.manager.count(Event)] }
})
const said = (error: any) => error.driverError
await c.refused('refused_null', () => emit('emit', ['order', 1, 'refused', null]), said)
await c.refused('refused_twice', () => emit('emit', ['order', 1, 'refused', c.twice]), said)
await c.refused('refused_update', () => db.query("UPDATE outbox.event SET event_type = 'x'"), said)
await c.test('goes_on', () => emit('emit', ['order', 1, 'goes.on', c.object]))
await db.destroy()
