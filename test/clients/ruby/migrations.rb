# What Rails' db:schema:dump makes of a database that has the extension: for test/clients/migrations.pl.
require 'active_record'
require 'json'
require 'stringio'

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'], database: ENV['PGDATABASE'])
dump = StringIO.new
ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, dump)
puts JSON.generate(case: 'rails', lines: dump.string.lines.map(&:strip).reject { |line| line.empty? || line.start_with?('#') })
