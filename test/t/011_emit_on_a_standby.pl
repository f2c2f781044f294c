# A standby refuses to emit, with a SQLSTATE and a hint of its own; after promotion it emits, and its clock does not go
# back behind what the old primary handed out.
# matrix: C1
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "log_min_messages = info\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION outbox');
$primary->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'before', '{}')});
# A clock far ahead of the wall: the ceiling, not luck, must keep the standby's above it.
$primary->safe_psql('postgres', q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + '3 hours') * 1000000)::bigint)});

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'last', '{}')});
$primary->wait_for_catchup($standby);

foreach my $call (q{SELECT outbox.emit('order', 1, 'e', '{}')},
	q{SELECT outbox.emit_text('order', 1, 'e', 'x')},
	q{SELECT outbox.emit_tombstone('order', 1, 'e')},
	q{SELECT outbox.emit_many('order', NULL, 'e', '{1}')})
{
	my ($status, undef, $stderr) = $standby->psql('postgres', "\\set VERBOSITY verbose\n$call");
	isnt($status, 0, "refused: $call");
	like($stderr, qr/ERROR:  25006: cannot emit an event on a standby.*DETAIL: .*HINT:  Connect to the primary/s, 'with the reason');
}
is($standby->safe_psql('postgres', 'SELECT count(*) FROM outbox.event'), '0', 'the view can be read');

$primary->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'after', '{}') IS NOT NULL}), 't', 'the promoted standby emits');
is($standby->safe_psql('postgres', q{
	SELECT created_at > now() + '2 hours' FROM outbox_internal.log WHERE event_type = 'after'}),
	't', 'above the stored ceiling');
is($standby->safe_psql('postgres', q{SELECT string_agg(event_type, ',' ORDER BY created_at) FROM outbox_internal.log}),
	'before,last,after', 'and after everything that the old primary wrote');
no_server_crashed($standby);
done_testing();
