# Nothing of outbox runs for a template: who makes a route there, asks, or waits is told why, and what helps; and that helps.
# matrix: C9
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
sub psql { return $node->psql('template1', $_[0]) }
sub sql { return $node->safe_psql('template1', $_[0]) }
sql('CREATE EXTENSION IF NOT EXISTS outbox');
my $port = $redis->{port};
sql(qq(CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$port')));
like((psql(q(SELECT outbox.create_route('r', server => 'r', topic => 's'))))[2], qr/WARNING:  this database is a template.*not published.*IS_TEMPLATE false/s, 'who makes a route is told');
sql(q(SELECT outbox.emit('a', 'k', 'e', '1')));
my $told = sub { return sql(q(SELECT string_agg("check" || ': ' || detail || ' ' || hint, ';' ORDER BY "check") FROM outbox.doctor() WHERE "check" IN ('keeper', 'workers') AND status = 'problem')) };
ok(wait_until(sub { my $said = $told->(); return $said =~ /keeper: This database is a template.*IS_TEMPLATE false.*workers: There are routes, and nothing is sent: a template.*IS_TEMPLATE false/s }), 'doctor() says why');
like((psql(q(SELECT outbox.wait_until_idle('1 s'))))[2], qr/this database is a template/, 'who waits is told, too');
sql('ALTER DATABASE template1 IS_TEMPLATE false');
ok(wait_until(sub { $redis->xlen('s') == 1 }), 'what is advised helps');
is($told->(), '', 'and then nothing is said of it');
# It is still what a new database is made of, where none other is named: those who work in it make room.
foreach my $of ('', ' TEMPLATE DEFAULT', ' TEMPLATE template1')
{
	is(($node->psql('postgres', "CREATE DATABASE made$of"))[2], '', "a database is made of it: CREATE DATABASE made$of");
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS made');
}

sql('ALTER DATABASE template1 IS_TEMPLATE true');
ok(wait_until(sub { ($node->safe_psql('postgres', q(SELECT string_agg(detail, ' ') FROM outbox.process WHERE database = 'template1')) // '') =~ /is a template.*IS_TEMPLATE false/ }), 'of a database in use, outbox.process, too');
done_testing();
