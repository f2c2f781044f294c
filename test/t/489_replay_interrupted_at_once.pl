# A replay whose call ends early is told to be interrupted at once, however it ends, and not when the keeper looks next.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql('CREATE SERVER l FOREIGN DATA WRAPPER outbox_log');
sql(q{SELECT outbox.create_route('r', server => 'l'), outbox.create_route('again', server => 'l', aggregate_types => '{none}')});
sql(q{SELECT count(outbox.emit('o', i, 'e', '{}')) FROM generate_series(1, 1200) i});
ok(wait_idle($node), 'delivered');
sql(q{SELECT outbox.pause('again', reason => 'the test')});

# The keeper has just looked, and looks again in half a minute: a replay that nobody copies is marked then.
sub keeper_has_looked
{
	my $number = sql(q{INSERT INTO outbox.replay (who, route, to_route, filter, from_time, to_time, matched)
		VALUES ('nobody', 'r', 'again', '{}', now(), now(), 0) RETURNING number});
	sql('SELECT pg_reload_conf()');
	ok(wait_for_value($node, "SELECT state FROM outbox.replay WHERE number = $number", 'interrupted', 60), 'the keeper has looked');
	return sql("SELECT outbox.cancel_replay($number)");
}

# Begins a replay that is stopped when it has begun: a table that it writes is locked.
sub begin
{
	my $last = sql('SELECT coalesce(max(number), 0) FROM outbox.replay');
	my $copier = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
	my $pid = $copier->query_safe('SELECT pg_backend_pid()');
	my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$locker->query_safe('BEGIN; LOCK TABLE outbox_internal.parked IN SHARE MODE');
	$copier->{stdin} .= "CALL outbox.replay(since => '-infinity', route => 'r', to_route => 'again', dry_run => false);\n";
	$copier->{run}->pump_nb;
	ok(wait_for_value($node, "SELECT state FROM outbox.replay WHERE number > $last", 'copying', 60), 'a replay is copied');
	return ($copier, $locker, $pid, sql('SELECT max(number) FROM outbox.replay'));
}

foreach my $how ('cancelled', 'terminated')
{
	keeper_has_looked();
	my ($copier, $locker, $pid, $number) = begin();
	sql("SELECT pg_cancel_backend($pid)") if $how eq 'cancelled';
	sql("SELECT pg_terminate_backend($pid)") if $how eq 'terminated';
	ok(wait_for_value($node, "SELECT state FROM outbox.replay WHERE number = $number", 'interrupted', 15), "$how: it is interrupted at once");
	like(sql(q{SELECT detail FROM outbox.doctor() WHERE "check" = 'replay'}), qr/Replay $number was interrupted/, 'doctor() says so');
	$locker->query_safe('COMMIT');
	$locker->quit;
	eval { $copier->quit; 1 } or note("the copier is gone");
	sql("SELECT outbox.cancel_replay($number)");
}

# One that goes on is not.
my ($copier, $locker, undef, $number) = begin();
$locker->query_safe('COMMIT');
$locker->quit;
ok(wait_for_value($node, "SELECT state FROM outbox.replay WHERE number = $number", 'scheduled', 60), 'one that goes on ends');
$copier->quit;

no_server_crashed($node);
$node->stop;
done_testing();
