# What was emitted while the clock was ahead is found after reset_clock(), too: forget() erases it, replay() and seek() send it again, and a move to infinity passes over it.
# matrix: R4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($code, $out, $err) = $node->psql('postgres', $_[0]); return "$out $err" }
sub payloads { return map { $_->{payload} } @{ $redis->entries('a') } }
# What has come since there were so many.
sub since { my ($before) = @_; my @all = payloads(); return join ' ', @all[ $before .. $#all ] }

sql(q{SELECT outbox.emit('o', 'k', 'e', '"before"')});
ok(wait_idle($node), 'delivered');
sql(q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)});
$node->stop('immediate');
$node->start;
my $id = sql(q{SELECT outbox.emit('o', 'k', 'e', '"ahead"')});
sql(q{SELECT outbox.emit('person', 'anna', 'e', '"anna"')});
ok(wait_idle($node), 'delivered while the clock is ahead');
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE created_at > now() + interval '2 days'}), '2', 'with dates of the future');
said('SELECT outbox.reset_clock()');
sql(q{SELECT outbox.emit('o', 'k', 'e', '"after"')});
ok(wait_idle($node), 'delivered after it was put back');
is(sql(q{SELECT created_at < now() FROM outbox_internal.log ORDER BY xid DESC LIMIT 1}), 't', 'with the date of today');
is(join(' ', payloads()), '"before" "ahead" "anna" "after"', 'each once');

# Sent again.
like(said(q{CALL outbox.replay(since => '-infinity', route => 'a')}), qr/would send 4 events/, 'a replay of all time sends them, too');
like(said(q{CALL outbox.replay(since => now() + interval '1 day', route => 'a')}), qr/would send 2 events/, 'and one from a time of the future');
like(said(q{CALL outbox.replay(since => now() + interval '9 days', route => 'a')}), qr/since is in the future/, 'but not from one behind all events');
my $by_id = said(qq{CALL outbox.replay(ids => '{$id}', route => 'a')});
like($by_id, qr/would send 1 event /, 'one is found by its id');
unlike($by_id, qr/not found/, 'and not said to be unknown');
like(said(q{CALL outbox.seek('a', '-infinity', dry_run => false)}), qr/sends 4 delivered events again/, 'a move to the beginning counts them');
ok(wait_idle($node), 'it is done');
is(since(4), '"before" "after" "ahead" "anna"', 'and has sent those');
like(said(q{CALL outbox.seek('a', now() + interval '1 day', dry_run => false)}), qr/sends 2 delivered events again/, 'the route may be moved in between');
ok(wait_idle($node), 'it is done');
is(since(8), '"ahead" "anna"', 'and sends what is behind that');
like(said(q{CALL outbox.seek('a', now() + interval '9 days', dry_run => false)}), qr/cannot move a route into the future/, 'but not behind all events');

# Passed over.
sql(q{SELECT outbox.pause('a', reason => 'test')});
sql(q{SELECT outbox.emit('o', 'k', 'e', '"waits"')});
like(said(q{CALL outbox.seek('a', 'infinity', dry_run => false)}), qr/sends 0 delivered events again, and passes over 1 /, 'a move to infinity passes over what waits');
sql(q{SELECT outbox.resume('a')});
sql(q{SELECT outbox.emit('o', 'k', 'e', '"next"')});
ok(wait_idle($node), 'the next event is delivered');
is(since(10), '"next"', 'and nothing else');

# Erased.
like(said(q{CALL outbox.forget('person', 'anna')}), qr/would erase 1 event of the log/, 'a dry run of forget() finds it');
like(said(q{CALL outbox.forget('person', 'anna', dry_run => false)}), qr/erased 1 event of the log/, 'and forget() erases it');
is(sql(q{SELECT forgotten FROM outbox.events_of('person', 'anna')}), 't', 'which events_of() says');
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE convert_from(payload, 'UTF8') LIKE '%anna%'}), '0', 'nothing of it is left');
like(said(q{CALL outbox.forget('person', 'anna', dry_run => false)}), qr/nothing is kept of that key/, 'the next call says so');

no_server_crashed($node);
done_testing();
