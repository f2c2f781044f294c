# ActiveRecord of the ring of clients: one line of JSON for each case, which test/clients/clients.pl judges.
require 'active_record'
require 'json'

CUSTOMER = %q(Zoë "Z" O'Neil)
NUMBER = 9007199254740993
UUID = '0190b6f0-0000-7000-8000-000000000001'
TEXT = 'a key "ü"'
OBJECT = { n: 1, t: 'ü "q" \\' }.freeze
AS_SENT = '{"b" :  1, "a":2}'
HEADERS = { tenant: 'acme', who: 'Jürgen' }.freeze
LINES = "Größe \"42\"\nsecond line\\"
BYTES = "\x00\xff\r\n'\\".b
$stdout.sync = true

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'], database: ENV['PGDATABASE'])

class Order < ActiveRecord::Base
end

class Shipment < ActiveRecord::Base
  self.table_name = 'shipment'
end

# page: entity
class OutboxEvent < ActiveRecord::Base
  self.table_name = 'outbox.event'
  self.primary_key = 'id'                    # a view has none of its own: without this the id stays nil
end
# page end

# page: emit
def place_order(customer)
  ActiveRecord::Base.transaction do
    order = Order.create!(customer: customer)
    event = OutboxEvent.create!(aggregate_type: 'order', aggregate_id: order.id, event_type: 'order.placed',
                                payload: { customer: customer })         # the hash, not hash.to_json
    [order, event]
  end
end
# page end

def report(name, what)
  puts JSON.generate({ case: name }.merge(what))
end

def test(name)
  what = yield
  report(name, what.is_a?(Hash) ? what : {})
rescue StandardError => e
  report(name, failed: "#{e.class}: #{e.message}"[0, 500])
end

def fails
  yield
rescue StandardError
  {}
else
  raise 'it did not fail'
end

def refused(name)
  yield
  report(name, failed: 'it was not refused')
rescue ActiveRecord::StatementInvalid => e
  said = e.cause.result
  report(name, sqlstate: said.error_field(PG::PG_DIAG_SQLSTATE), message: said.error_field(PG::PG_DIAG_MESSAGE_PRIMARY),
               hint: said.error_field(PG::PG_DIAG_MESSAGE_HINT))
end

def emit(function, *values)
  # page: function
  places = Array.new(values.size, '?').join(', ')
  sql = ActiveRecord::Base.sanitize_sql(["SELECT outbox.#{function}(#{places})", *values])
  { id: ActiveRecord::Base.connection.execute(sql).getvalue(0, 0) }    # execute, not select_value: see the query cache
  # page end
end

def new_event(type, **more)
  OutboxEvent.create!(aggregate_type: 'order', aggregate_id: '7', event_type: type, payload: OBJECT, **more)
end

def transaction(**options, &block)
  ActiveRecord::Base.transaction(**options, &block)
end

JSON_OBJECT = OBJECT.to_json
test('placed') { order, event = place_order(CUSTOMER); { order: order.id, id: event.id } }
test('commit_fails') { fails { place_order('nobody') } }
test('rolled_back') do
  transaction do
    Order.create!(customer: CUSTOMER)
    emit('emit', 'order', 1, 'rolled.back', JSON_OBJECT)
    raise ActiveRecord::Rollback
  end
end
test('entity') { transaction { { id: new_event('entity', headers: HEADERS).id } } }
test('entity_rolled_back') do
  transaction do
    new_event('entity.rolled.back')
    raise ActiveRecord::Rollback
  end
end
test('savepoint') do
  transaction do
    emit('emit', 'order', 1, 'savepoint.outer', JSON_OBJECT)
    transaction(requires_new: true) do
      emit('emit', 'order', 1, 'savepoint.inner', JSON_OBJECT)
      raise ActiveRecord::Rollback
    end
  end
end
test('key_number') { emit('emit', 'order', NUMBER, 'key.number', JSON_OBJECT) }
test('key_uuid') { emit('emit', 'order', UUID, 'key.uuid', JSON_OBJECT) }
test('key_text') { emit('emit', 'order', TEXT, 'key.text', JSON_OBJECT) }
test('key_null') { emit('emit', 'order', nil, 'key.null', JSON_OBJECT) }
test('as_sent') do
  sql = ActiveRecord::Base.sanitize_sql(["SELECT outbox.emit('order', 1, 'as.sent', ?::json)", AS_SENT])
  { id: ActiveRecord::Base.connection.execute(sql).getvalue(0, 0) }
end
test('text') { emit('emit_text', 'order', 1, 'text', LINES) }
test('bytes') do
  result = ActiveRecord::Base.connection.raw_connection.exec_params(
    "SELECT outbox.emit_bytes('order', 1, 'bytes', $1)", [{ value: BYTES, format: 1 }])
  { id: result.getvalue(0, 0) }
end
test('tombstone') { emit('emit_tombstone', 'order', 1, 'tombstone') }
test('nulls') { emit('emit', 'order', 1, 'nulls', JSON_OBJECT, nil, nil, nil) }
test('all') { emit('emit', 'order', 1, 'all', JSON_OBJECT, HEADERS.to_json, 'elsewhere', Time.now.utc - 3600) }
test('many') do
  # page: many
  OutboxEvent.create!((1..3).map { |n| { aggregate_type: 'order', aggregate_id: n, event_type: 'many', payload: { n: n } } })
  # page end
  {}
end
test('repeated') do
  transaction { (1..7).each { |n| OutboxEvent.create!(aggregate_type: 'order', aggregate_id: n, event_type: 'repeated', payload: { n: n }) } }
  {}
end
test('row') do
  shipment = Shipment.create!(state: 'sent')
  shipment.update!(state: 'lost')
  shipment.destroy!
  {}
end
test('sees_own') do
  inside = nil
  transaction do
    emit('emit', 'order', 1, 'unseen', JSON_OBJECT)
    new_event('unseen')
    inside = OutboxEvent.count
    raise ActiveRecord::Rollback
  end
  { counts: [inside, OutboxEvent.count] }
end
refused('refused_null') { emit('emit', 'order', 1, 'refused', nil) }
refused('refused_twice') { OutboxEvent.create!(aggregate_type: 'order', event_type: 'refused', payload: JSON_OBJECT) }
refused('refused_update') { ActiveRecord::Base.connection.execute("UPDATE outbox.event SET event_type = 'x'") }
test('goes_on') { emit('emit', 'order', 1, 'goes.on', JSON_OBJECT) }
# Every request of Rails runs in the query cache: two equal SELECTs are sent once.
test('trap_query_cache') do
  sql = "SELECT outbox.emit('order', '1', 'cached', '{}')"
  ActiveRecord::Base.cache { 2.times { ActiveRecord::Base.connection.select_value(sql) } }
  {}
end
test('trap_query_cache_execute') do
  ActiveRecord::Base.cache { 2.times { emit('emit', 'order', '1', 'not.cached', '{}') } }
  {}
end
