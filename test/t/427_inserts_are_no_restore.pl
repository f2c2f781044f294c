# A dump made with --inserts: into a new database it is restored, and adopted; a dump of data is not let into an outbox in
# use, whose lanes would go on from another server's positions, and whose routes would send its parked events.
# matrix: C5 C16 R14
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "max_worker_processes = 16\n");
sub sql { my ($sql, $database) = @_; return $node->safe_psql($database // 'postgres', $sql) }
my $null = 'CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; ';
sql(q{CREATE DATABASE target}, 'template1');
sql(q{CREATE EXTENSION outbox}, 'target');

# The source: something delivered, a route that waits, an event that is due one day.
sql($null . q{SELECT outbox.create_route('one', server => 'n'), outbox.create_route('away', server => 'n')});
sql(q{SELECT outbox.emit('a', '1', 'e', '{}')});
ok(wait_idle($node), 'the source has delivered');
sql(q{SELECT outbox.pause('away', reason => 'to have something to lose'); SELECT outbox.emit('a', '1', 'waits', '{}');
	SELECT outbox.emit('a', '1', 'later', '{}', deliver_at => now() + interval '1 day')});
ok(wait_for_value($node, q{SELECT count(*) > 0 FROM outbox_internal.parked WHERE state = 'scheduled'}, 't'), 'an event is parked');
my $db = $node->connstr('postgres');
my $directory = $node->basedir;
$node->command_ok([ 'pg_dump', '--inserts', '-f', "$directory/whole.sql", '-d', $db ], 'it is dumped');
$node->command_ok([ 'pg_dump', '--inserts', '--data-only', '-f', "$directory/data.sql", '-d', $db ], 'and its data are');

# The target is in use: its only route has the number that a route of the dump has.
sql($null . q{SELECT outbox.create_route('one', server => 'n'); SELECT outbox.emit('b', '1', 'e', '{}')}, 'target');
ok(wait_until(sub { sql(q{SELECT outbox.wait_until_idle('60 s')}, 'target') eq 't' }), 'the target works');
my $held = q{SELECT (SELECT string_agg(name, ' ') FROM outbox.route), (SELECT count(*) FROM outbox_internal.lane), (SELECT count(*) FROM outbox_internal.parked)};
is(sql($held, 'target'), 'one|1|0', 'with one route');
my (undef, undef, $errors) = $node->psql('target', "\\i $directory/data.sql", on_error_stop => 0);
like($errors, qr/ERROR:  cannot insert into \Q$_\E by hand/, "$_ is refused") foreach qw(outbox.route outbox_internal.lane outbox_internal.parked);
is(sql($held, 'target'), 'one|1|0', 'nothing of the dump works here');
is(sql(q{SELECT outbox.doctor_ok()}, 'target') =~ /adopt/ ? 'told' : '', '', 'and nobody is told to adopt it');
like(($node->psql('target', q{INSERT INTO outbox_internal.lane SELECT * FROM outbox_internal.lane}))[2],
	qr/ERROR:  cannot insert into outbox_internal.lane by hand.*HINT:.*A dump is restored into a new database\./s, 'the way is told');

# A new database.
sql(q{CREATE DATABASE fresh TEMPLATE template0}, 'template1');
my ($status, undef, $said) = $node->psql('fresh', "\\i $directory/whole.sql", on_error_stop => 1);
is($status, 0, 'into a new database it is restored') or diag($said);
is(sql($held, 'fresh') =~ s/\|.*//r, sql($held) =~ s/\|.*//r, 'with its routes');
sql(q{SELECT outbox.adopt()}, 'fresh');
sql(q{SELECT outbox.resume('away')}, 'fresh');
ok(wait_until(sub { sql(q{SELECT count(*) = 2 AND bool_and(pending = 0) FROM outbox.lag}, 'fresh') eq 't' }), 'and works');
is(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, 'fresh'), '2', 'what is due one day waits');
no_server_crashed($node);
done_testing();
