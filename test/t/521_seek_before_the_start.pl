# seek() to before a route began: events older than the route are its own from then on, for the first time. The dry run
# counts exactly those that arrive: of several lanes, by the route's filter, delayed ones, without erased ones, on a paused
# route, and on a route that takes the name of one that was dropped.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# What seek() returns, and what it says.
sub seek_to
{
	my ($route, $at, $dry) = @_;
	my ($code, $out, $err) = $node->psql('postgres', "CALL outbox.seek('$route', $at, dry_run => " . ($dry ? 'true' : 'false') . ')');
	diag($err) if $code;
	return ($out, $err);
}
sub first_times { my ($said) = @_; return $said =~ /(\d+) older than the route/ ? $1 : 0 }

redis_route($node, $redis, 'early', aggregate_types => q('{order}'), topic => q('{aggregate_type}'));
my $begin = q{'} . sql('SELECT clock_timestamp()') . q{'};
sql(q{SELECT outbox.emit_text('order', 'k' || n % 7, 'created', 'old ' || n) FROM generate_series(1, 300) n});
sql(q{SELECT outbox.emit_text('other', 'k' || n % 7, 'created', 'other ' || n) FROM generate_series(1, 20) n});
sql(q{SELECT outbox.emit_text('order', 'd' || n, 'created', 'delayed ' || n, deliver_at => clock_timestamp() + interval '1 second') FROM generate_series(1, 5) n});
sql(q{SELECT outbox.emit_text('order', 'x', 'created', 'to be erased')});
ok(wait_until(sub { $redis->xlen('order') == 306 }, 60), 'one route has it all');
sql(q{CALL outbox.forget('order', 'x', dry_run => false)});
ok(wait_idle($node), 'idle');

sql(q{SELECT outbox.create_route('late', 'early', topic => 'late', aggregate_types => '{order}', lanes => 4)});
sql(q{SELECT outbox.emit_text('order', 'k1', 'created', 'new')});
ok(wait_until(sub { $redis->xlen('late') == 1 }), 'another one begins later');
ok(wait_idle($node), 'idle');
sql(q{SELECT outbox.pause(route => 'late', reason => 'to be moved')});
my ($counts, $said) = seek_to('late', $begin, 1);
is($counts, '1|0', 'one event was delivered, and goes again');
is(first_times($said), 305, 'a dry run counts what is older than the route') or diag($said);
($counts, $said) = seek_to('late', $begin, 0);
is("$counts @{[first_times($said)]}", '1|0 305', 'and so does the real one');
is(sql(q{SELECT detail->>'again', detail->>'first_time' FROM outbox.audit WHERE action = 'seek' ORDER BY at DESC LIMIT 1}), '1|305', 'the audit has it');
sql(q{SELECT outbox.resume(route => 'late')});
ok(wait_until(sub { $redis->xlen('late') >= 307 }, 60), 'they arrive');
ok(wait_idle($node), 'idle');
is($redis->xlen('late'), 307, 'exactly those');
($counts, $said) = seek_to('late', $begin, 1);
is("$counts @{[first_times($said)]}", '306|0 0', 'from now on they are events that it has delivered');

# From the middle of what is older; the rest stays another's.
my $middle = q{'} . sql(q{SELECT created_at FROM outbox_internal.log WHERE convert_from(payload, 'UTF8') = 'old 201'}) . q{'};
sql(q{SELECT outbox.create_route('half', 'early', topic => 'half', aggregate_types => '{order}')});
is(first_times((seek_to('half', $middle, 1))[1]), 100 + 5 + 1, 'only what is newer than the moment counts');
# Of the same name again: what another route had delivered counts for nothing.
sql(q{SELECT outbox.drop_route('late')});
sql(q{SELECT outbox.create_route('late', 'early', topic => 'again', aggregate_types => '{order}', lanes => 2)});
($counts, $said) = seek_to('late', $begin, 1);
is("$counts @{[first_times($said)]}", '0|0 306', 'a route of a name that there was begins like any');
seek_to('late', $begin, 0);
ok(wait_until(sub { $redis->xlen('again') >= 306 }, 60), 'they arrive');
ok(wait_idle($node), 'idle');
is($redis->xlen('again'), 306, 'exactly those');
no_server_crashed($node);
done_testing();
