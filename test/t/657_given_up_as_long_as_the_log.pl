# What people have skipped stays given up for as long as the log has the event, though outbox.retention is over: a route that is paused keeps the log, and another one is moved back.
# matrix: B12
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.retention = '2d'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($code, $out, $err) = $node->psql('postgres', $_[0]); return "$out $err" }
sub payloads { my ($stream) = @_; return join ' ', map { $_->{payload} } @{ $redis->entries($stream) } }
sub outcomes { return sql('SELECT count(*) FROM outbox_internal.outcome') }

sql(q{SELECT outbox.create_route('b', server => 'a', topic => 'b'); SELECT outbox.pause('b', reason => 'slow partner')});
sql(q{SELECT outbox.pause('a', aggregate_type => 'order', aggregate_id => 'bad', reason => 'a wrong payment')});
my $id = sql(q{SELECT outbox.emit_text('order', 'bad', 'x', 'wrong')});
my $good = sql(q{SELECT outbox.emit_text('order', 'good', 'x', 'good')});
ok(wait_for_value($node, qq{SELECT state FROM outbox.status('$id') WHERE route = 'a'}, 'blocked', 60), 'an event is held');
is(sql(qq{SELECT outbox.skip('$id', reason => 'it was wrong', route => 'a')}), '1', 'and given up');
sql(q{SELECT outbox.resume('a', aggregate_type => 'order', aggregate_id => 'bad')});
ok(wait_for_value($node, qq{SELECT state FROM outbox.status('$good') WHERE route = 'a'}, 'delivered', 60), 'another one is delivered');

# Five days later: route b has kept the log.
Outbox::Faults::shift_clock(5 * 86_400 * 1_000_000);
sql('SELECT pg_reload_conf()');
ok(wait_until(sub { upkeep($node); sql(q{SELECT count(*) FROM outbox_internal.log_table WHERE day > current_date + 4}) ne '0' }, 60), 'five days later');
upkeep($node);
is(sql('SELECT count(*) FROM outbox_internal.log'), '2', 'the log is kept');
is(outcomes(), '1', 'so is what became of its events');
is(sql(qq{SELECT state FROM outbox.status('$id') WHERE route = 'a'}), 'skipped', 'status() says skipped');
like(said(q{CALL outbox.replay(since => '-infinity', route => 'a')}), qr/would send 1 event .*left alone: 1 event /s, 'replay() leaves it alone');
like(said(q{CALL outbox.seek('a', '-infinity', dry_run => false)}), qr/sends 1 delivered event again.*1 that was skipped or discarded stays so/s, 'so does seek()');
ok(wait_until(sub { payloads('a') =~ /good.*good/ }, 60), 'which sends the other one again');
sql(q{SELECT outbox.emit_text('order', 'good', 'x', 'last')});
ok(wait_until(sub { payloads('a') =~ /last/ }, 60), 'and goes on');
is(payloads('a'), 'good good last', 'without what was skipped');

# The spare table keeps it likewise. Its guard would put aside what does not come by emit().
sql(q{SET outbox.allow_loss = on; ALTER TABLE outbox_internal.log_spare DISABLE TRIGGER log_guard;
	INSERT INTO outbox_internal.log_spare SELECT * FROM outbox_internal.log WHERE created_at < now() + interval '4 days';
	ALTER TABLE outbox_internal.log_spare ENABLE ALWAYS TRIGGER log_guard;
	DELETE FROM outbox_internal.log WHERE created_at < now() + interval '4 days'});
is(sql('SELECT count(*) FROM outbox_internal.log_spare'), '2', 'the events are in the spare table now');
ok(wait_until(sub { upkeep($node); sql(q{SELECT count(*) FROM outbox_internal.log_table WHERE day <= current_date}) eq '0' }, 60), 'the day of the log is gone');
is(outcomes(), '1', 'what became of the events that are in the spare table is known');

# And it goes with the events.
sql(q{SELECT outbox.resume('b')});
ok(wait_until(sub { payloads('b') =~ /last/ }, 60), 'the other route goes on');
ok(wait_until(sub { upkeep($node); sql('SELECT count(*) FROM outbox_internal.log_spare') eq '0' && outcomes() eq '0' }, 60), 'what became of its events goes with them');

no_server_crashed($node);
done_testing();
