// What the Node programs of the ring of clients share: one line of JSON for each case, which test/clients/clients.pl judges.
export const customer = 'Zoë "Z" O\'Neil'
export const nobody = 'nobody'
export const number = 9007199254740993n
export const uuid = '0190b6f0-0000-7000-8000-000000000001'
export const text = 'a key "ü"'
export const object = { n: 1, t: 'ü "q" \\' }
export const asSent = '{"b" :  1, "a":2}'
export const headers = { tenant: 'acme', who: 'Jürgen' }
export const lines = 'Größe "42"\nsecond line\\'
export const bytes = Buffer.from([0x00, 0xff, 0x0d, 0x0a, 0x27, 0x5c])
export const hourAgo = new Date(Date.now() - 3600_000)
export const many = [1, 2, 3].map(n => ({ aggregate_type: 'order', aggregate_id: String(n), event_type: 'many', payload: { n } }))
export const twice = JSON.stringify(JSON.stringify(object))

export function report(name: string, what: object) {
  console.log(JSON.stringify({ case: name, ...what }, (_, value) => typeof value === 'bigint' ? Number(value) : value))
}

export async function test(name: string, run: () => Promise<any>) {
  try {
    report(name, await run() ?? {})
  } catch (error) {
    report(name, { failed: String(error).slice(0, 500) })
  }
}

export async function fails(run: () => Promise<any>) {
  try {
    await run()
  } catch {
    return {}
  }
  throw new Error('it did not fail')
}

// diagnosis(error): what of it is node-postgres' DatabaseError.
export async function refused(name: string, run: () => Promise<any>, diagnosis = (error: any) => error) {
  try {
    await run()
    report(name, { failed: 'it was not refused' })
  } catch (error) {
    const said = diagnosis(error)
    report(name, { sqlstate: said.code, message: said.message, hint: said.hint })
  }
}
