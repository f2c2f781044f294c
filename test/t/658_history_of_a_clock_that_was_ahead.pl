# What became of events while the clock was ahead, and where routes were moved then, keeps its order after reset_clock(): a later move sends again what was delivered from parked, status() knows what was
# passed over, and what people have skipped stays given up for as long as the log has it.
# matrix: R4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.retention = '1d'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($code, $out, $err) = $node->psql('postgres', $_[0]); return "$out $err" }
sub state { return sql(qq{SELECT state FROM outbox.status('$_[0]')}) }
sub since { my ($before) = @_; my @all = map { $_->{payload} } @{ $redis->entries('a') }; return join ' ', @all[ $before .. $#all ] }
# Emits an event whose key is paused.
sub held
{
	my ($key) = @_;
	sql(qq{SELECT outbox.pause('a', aggregate_type => 'o', aggregate_id => '$key', reason => 'test')});
	my $id = sql(qq{SELECT outbox.emit_text('o', '$key', 'e', '$key')});
	ok(wait_for_value($node, qq{SELECT state FROM outbox.status('$id')}, 'blocked', 60), "$key is parked");
	return $id;
}
sub let_go { return sql(qq{SELECT outbox.resume('a', aggregate_type => 'o', aggregate_id => '$_[0]')}) }

sql(q{SELECT outbox.emit_text('o', 'k', 'e', 'first')});
ok(wait_idle($node), 'delivered');
sql(q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)});
$node->stop('immediate');
$node->start;
my $parked = held('parked');
my $skipped = held('skipped');
let_go('parked');
ok(wait_for_value($node, qq{SELECT state FROM outbox.status('$parked')}, 'delivered', 60), 'one is delivered from there');
is(sql(qq{SELECT outbox.skip('$skipped', reason => 'not wanted')}), '1', 'one is skipped');
let_go('skipped');
# Moved while the clock is ahead: behind everything, which passes over nothing.
like(said(q{CALL outbox.seek('a', 'infinity', dry_run => false)}), qr/passes over 0 /, 'the route is moved');
my $late = held('late');
let_go('late');
ok(wait_idle($node), 'all is delivered');
is(state($late), 'delivered', 'what was parked after the move, too');
is(sql('SELECT count(*) FROM outbox_internal.outcome WHERE at > now()'), '3', 'their outcomes are of the future');
said('SELECT outbox.reset_clock()');
sql(q{SELECT outbox.emit_text('o', 'k', 'e', 'after')});
ok(wait_idle($node), 'delivered after the clock was put back');
is(sql('SELECT count(*) FROM outbox_internal.outcome WHERE at > now()') . sql('SELECT count(*) FROM outbox_internal.lane_start WHERE at > now()'), '00', 'nothing is said to be of the future');
is(sql('SELECT string_agg(l.aggregate_id, $$ $$ ORDER BY o.at) FROM outbox_internal.outcome o JOIN outbox_internal.log l USING (id)'), 'parked skipped late', 'and the order is kept');
is(sql('SELECT string_agg((o.at > s.at)::text, $$ $$ ORDER BY o.at) FROM outbox_internal.outcome o, outbox_internal.lane_start s'), 'false false true', 'also with the move');
is(state($parked) . ' ' . state($skipped) . ' ' . state($late), 'delivered skipped delivered', 'status() says what it said');

# A move to the beginning sends again what was delivered from parked before it.
is(since(0), 'first parked late after', 'each came once');
like(said(q{CALL outbox.seek('a', '-infinity', dry_run => false)}), qr/sends 4 delivered events again/, 'a move says how many it sends again');
ok(wait_idle($node), 'it is done');
is(since(4), 'first after parked late', 'and it sends those');

# A move that passes over an event is known to be the last one.
sql(q{SELECT outbox.pause('a', reason => 'test')});
my $never = sql(q{SELECT outbox.emit_text('o', 'k', 'e', 'never')});
like(said(q{CALL outbox.seek('a', 'infinity', dry_run => false)}), qr/passes over 1 /, 'another move passes over an event');
sql(q{SELECT outbox.resume('a')});
sql(q{SELECT outbox.emit_text('o', 'k', 'e', 'next')});
ok(wait_idle($node), 'the next one is delivered');
is(since(8), 'next', 'alone');
is(state($never), 'passed over', 'and status() says so');

# Three days later the day of the reset is gone, and the one that the clock was at is there.
Outbox::Faults::shift_clock(3 * 86_400 * 1_000_000);
sql('SELECT pg_reload_conf()');
ok(wait_until(sub { upkeep($node); sql(q{SELECT count(*) FROM outbox_internal.log_table WHERE day <= current_date}) eq '0' }, 60), 'three days later');
upkeep($node);
is(state($skipped), 'skipped', 'what was skipped is known as long as the log has it');
like(said(q{CALL outbox.seek('a', '-infinity', dry_run => false)}), qr/sends 2 delivered events again.*1 that was skipped or discarded stays so/s, 'and stays given up');
ok(wait_until(sub { split(' ', since(9)) >= 2 }, 60), 'the others go again');
sql(q{SELECT outbox.emit_text('o', 'k', 'e', 'last')});
ok(wait_until(sub { since(9) =~ /last/ }, 60), 'the route goes on');
is(since(9), 'parked late last', 'without it');

no_server_crashed($node);
done_testing();
