import pg from 'pg'
import * as c from './cases'

const client = new pg.Client()
await client.connect()

// page: emit
async function placeOrder(client, customer) {
  await client.query('BEGIN')
  try {
    const order = await client.query('INSERT INTO orders (customer) VALUES ($1) RETURNING id', [customer])
    const event = await client.query('SELECT outbox.emit($1, $2, $3, $4) AS id',
      ['order', order.rows[0].id, 'order.placed', { customer }])
    await client.query('COMMIT')
    return [order.rows[0].id, event.rows[0].id]
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}
// page end

async function emit(name: string, ...values: any[]) {
  const result = await client.query(`SELECT outbox.${name}(${values.map((_, i) => `$${i + 1}`)}) AS id`, values)
  return { id: result.rows[0].id }
}

async function inTransaction(run: () => Promise<any>, end = 'COMMIT') {
  await client.query('BEGIN')
  try {
    return await run()
  } finally {
    await client.query(end)
  }
}

async function view(type: string) {
  // page: view
  const event = await client.query(`INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, headers)
    VALUES ($1, $2, $3, $4, $5) RETURNING id`, ['order', 7, type, c.object, c.headers])
  // page end
  return { id: event.rows[0].id }
}

await c.test('placed', async () => {
  const [order, id] = await placeOrder(client, c.customer)
  return { order, id }
})
await c.test('commit_fails', () => c.fails(() => placeOrder(client, c.nobody)))
await c.test('rolled_back', () => inTransaction(async () => {
  await client.query('INSERT INTO orders (customer) VALUES ($1)', [c.customer])
  await emit('emit', 'order', 1, 'rolled.back', c.object)
  return {}
}, 'ROLLBACK'))
await c.test('entity', () => inTransaction(() => view('entity')))
await c.test('entity_rolled_back', async () => { await inTransaction(() => view('entity.rolled.back'), 'ROLLBACK') })
await c.test('savepoint', () => inTransaction(async () => {
  await emit('emit', 'order', 1, 'savepoint.outer', c.object)
  await client.query('SAVEPOINT inner_one')
  await emit('emit', 'order', 1, 'savepoint.inner', c.object)
  await client.query('ROLLBACK TO inner_one')
}))
await c.test('key_number', () => emit('emit', 'order', c.number, 'key.number', c.object))
await c.test('key_uuid', () => emit('emit', 'order', c.uuid, 'key.uuid', c.object))
await c.test('key_text', () => emit('emit', 'order', c.text, 'key.text', c.object))
await c.test('key_null', () => emit('emit', 'order', null, 'key.null', c.object))
await c.test('as_sent', async () => {
  const result = await client.query('SELECT outbox.emit($1, $2, $3, $4::json) AS id', ['order', 1, 'as.sent', c.asSent])
  return { id: result.rows[0].id }
})
await c.test('text', () => emit('emit_text', 'order', 1, 'text', c.lines))
await c.test('bytes', () => emit('emit_bytes', 'order', 1, 'bytes', c.bytes))
await c.test('tombstone', () => emit('emit_tombstone', 'order', 1, 'tombstone'))
await c.test('nulls', () => emit('emit', 'order', 1, 'nulls', c.object, null, null, null))
await c.test('all', () => emit('emit', 'order', 1, 'all', c.object, c.headers, 'elsewhere', c.hourAgo))
await c.test('many', async () => {
  const many = c.many
  // page: many
  await client.query('SELECT outbox.emit_many($1)', [JSON.stringify(many)])   // an array is not JSON for this driver
  // page end
})
await c.test('repeated', () => inTransaction(async () => {
  for (let n = 1; n <= 7; n++)
    await client.query({ name: 'emit', text: 'SELECT outbox.emit($1, $2, $3, $4)', values: ['order', n, 'repeated', { n }] })
}))
await c.test('row', async () => {
  await client.query('INSERT INTO shipment (state) VALUES ($1)', ['sent'])
  await client.query('UPDATE shipment SET state = $1', ['lost'])
  await client.query('DELETE FROM shipment WHERE state = $1', ['lost'])
})
await c.test('sees_own', async () => {
  const count = async () => Number((await client.query('SELECT count(*) FROM outbox.event')).rows[0].count)
  const inside = await inTransaction(async () => {
    await emit('emit', 'order', 1, 'unseen', c.object)
    await view('unseen')
    return count()
  }, 'ROLLBACK')
  return { counts: [inside, await count()] }
})
await c.refused('refused_null', () => emit('emit', 'order', 1, 'refused', null))
await c.refused('refused_twice', () => emit('emit', 'order', 1, 'refused', c.twice))
await c.refused('refused_update', () => client.query("UPDATE outbox.event SET event_type = 'x'"))
await c.test('goes_on', () => emit('emit', 'order', 1, 'goes.on', c.object))
await c.test('trap_empty_array', () => emit('emit', 'order', 1, 'empty.array', []))
await c.test('trap_array', () => emit('emit', 'order', 1, 'array', JSON.stringify([1, 2])))
await client.end()
