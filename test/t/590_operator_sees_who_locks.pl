# blocked_key says who has the first event of a key locked to everybody who may read it: an operator, who is no member of pg_monitor and
# does not see all of pg_stat_activity, is told the same as a monitor.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub seen
{
	my ($role) = @_;
	my ($code, $out, $err) = $node->psql('postgres', "SET ROLE $role; SELECT locked_by, behind, behind_state, waiting FROM outbox.blocked_key");
	return $code == 0 ? $out : $err;
}

sql('CREATE ROLE oncall; CREATE ROLE sees_all IN ROLE pg_monitor');
sql(q{SELECT outbox.grant_operate('oncall')});
sql('CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null');
# A paused key is left alone, so its head is blocked and stays that.
sql(q{BEGIN; SELECT outbox.create_route('r', 'nowhere'); SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => 'k', reason => 'test'); COMMIT});
sql(q{SELECT outbox.emit('a', 'k', 'e', '{}') FROM generate_series(1, 2)});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 2, 60), 'a key is parked');
foreach my $role (qw(oncall sees_all))
{
	is(seen($role), '|||2', "$role: nobody has it locked");
}
my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$holder->query_safe('BEGIN');
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
my $first = $holder->query_safe('SELECT id FROM outbox_internal.parked ORDER BY created_at LIMIT 1 FOR UPDATE');
foreach my $role (qw(oncall sees_all))
{
	is(seen($role), "$pid|$first|blocked|2", "$role: this session has");
}
$holder->query_safe('ROLLBACK');
$holder->quit;

no_server_crashed($node);
done_testing();
