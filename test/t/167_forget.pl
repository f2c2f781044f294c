# outbox.forget() erases what is kept of a key and of no other: delivered, undelivered, parked, dead, delayed, toasted; in
# the middle of a window, while others emit; every other event is delivered exactly once. Not by a role without the
# right, not by a rollback undone, and after a crash still so.
# matrix: G9 R19
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node(conf => "outbox.sort_mem = '256kB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub forget { my ($arguments) = @_; return sql("CALL outbox.forget($arguments)") }
sub kept { my ($key) = @_; return sql("SELECT count(*) FROM outbox_internal.log WHERE aggregate_id = '$key' AND (octet_length(payload) > 0 OR headers <> '{}')") }
my $secret = 'S3CRET';
sub on_disk { my ($text) = @_; return sql(q{SELECT count(*) FROM (SELECT pg_relation_filepath(oid) AS path FROM pg_class
	WHERE relname ~ '^log_[0-9]{8}$' OR oid IN (SELECT reltoastrelid FROM pg_class WHERE relname ~ '^log_[0-9]{8}$')) p
	WHERE position('} . $text . q{'::bytea IN pg_read_binary_file(path)) > 0}) }

# Delivered: of each kind, small, compressed, in the toast table, with headers, as text and bytes.
sql(qq{SELECT outbox.emit('person', k, 'small', '{"name": "$secret"}', '{"who": "$secret"}') FROM unnest('{anna,bert}'::text[]) k;
	SELECT outbox.emit_text('person', k, 'large', (SELECT '$secret' || string_agg(md5(n::text), '') FROM generate_series(1, 3000) n)) FROM unnest('{anna,bert}'::text[]) k;
	SELECT outbox.emit_bytes('person', 'anna', 'bytes', '$secret', 'application/x'), outbox.emit_text('person', 'anna', 'empty', ''),
	  outbox.emit_tombstone('person', 'anna', 'gone', '{"who": "$secret"}'), outbox.emit_tombstone('person', 'anna', 'bare'),
	  outbox.emit('person', 'anna', 'full', '{"name": "$secret"}', '{"who": "$secret"}', topic => 'all', deliver_at => now())});
ok(wait_idle($node), 'delivered');
ok(wait_until(sub { $redis->xlen('all') == 9 }, 20), 'all of it');
is(forget(q{'person', 'anna'}), '6|0', 'a dry run is the default, and counts what says something');
is(kept('anna'), '5', 'and erases nothing');
is(forget(q{'person', 'anna', dry_run => false, reason => 'ticket 1'}), '6|0', 'erased');
is(kept('anna'), '0', 'nothing is left');
is(kept('bert'), '2', 'of the key, and of no other');
{
	my $open = $node->background_psql('postgres');
	$open->query_safe(q{BEGIN; SELECT outbox.emit('person', 'emil', 'late', '1')});
	like(($node->psql('postgres', $_->[0]))[2], $_->[1], 'what is open is told of')
		foreach [ q{CALL outbox.forget('person', 'emil', dry_run => false)}, qr/nothing is kept.*1 open transaction has emitted: what it commits of this key is left alone.*case and spaces.*when that is over/s ],
		[ q{CALL outbox.forget('person', 'bert')}, qr/would erase 2.*1 open transaction has emitted.*dry_run => false.*when that is over/s ];
	$open->query_safe('ROLLBACK');
	$open->quit;
}
unlike(($node->psql('postgres', q{CALL outbox.forget('person', 'bert')}))[2], qr/open transaction/, 'and of nothing else');
is(sql(q{SELECT string_agg(event_type, ',' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_id = 'anna' AND payload IS NOT NULL}), 'small,large,bytes,empty,full', 'the rows stay, and read well');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'forget' AND reason = 'ticket 1' AND detail ->> 'key_sha256' = encode(sha256('anna'), 'hex')}), '2', 'audited: before and after');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE detail::text ~ 'anna'}), '0', 'without the key');
is(forget(q{'person', 'anna', dry_run => false}), '0|0', 'a second time there is nothing');
like(($node->psql('postgres', "CALL outbox.forget('person', $_)"))[2], qr/nothing is kept of that key.*case and spaces count/s, "as it says of $_")
	foreach "'anna'", "'Bert', undelivered => true", "'bert ', dry_run => false, undelivered => true", "''";
forget(q{'person', 'bert', dry_run => false});
sql('CHECKPOINT');
is(on_disk($secret), '0', 'and not in the files of the log, nor its toast');

# Replay and seek leave erased events alone.
like(($node->psql('postgres', q{CALL outbox.replay(since => '-infinity', route => 'redis')}))[2], qr/would send 1 event .*left alone: 8 events/s, 'replay() sends no erased event');
my $before = $redis->xlen('all');
sql(q{CALL outbox.seek('redis', '-infinity', dry_run => false)});
ok(wait_idle($node), 'moved back');
is($redis->xlen('all') - $before, 1, 'seek() sends again what was not erased, and nothing else') or diag explain $redis->entries('all');

# Undelivered, by default kept; else it is never sent. A thousand of one key among others, in a window that is being
# read.
sql(q{SELECT outbox.pause('redis', reason => 'test')});
sql(qq{SELECT outbox.emit('person', CASE WHEN n % 10 = 0 THEN 'thousand' ELSE 'other' || n % 65 END, 'e', format('{"n": %s, "name": "$secret"}', n)::jsonb) FROM generate_series(1, 10000) n});
is(forget(q{'person', 'thousand', dry_run => false}), '0|1000', 'what is undelivered is kept');
is(kept('thousand'), '1000', 'as it is');
$before = $redis->xlen('all');
sql(q{SELECT outbox.resume('redis')});
ok(wait_until(sub { $redis->xlen('all') > $before }, 20), 'a window is being read');
my $answer = forget(q{'person', 'thousand', undelivered => true, dry_run => false});
like($answer, qr/^1000\|0$/, 'a thousand erased');
ok(wait_idle($node), 'the rest is delivered');
my (%seen, $blank);
foreach my $entry (@{ $redis->entries('all') }[ $before .. $redis->xlen('all') - 1 ])
{
	$blank++ if $entry->{payload} !~ /\Q$secret\E/;
	$seen{ $entry->{payload} }++;
}
is($blank // 0, 0, 'nothing is sent blank');
is(scalar(grep { $_ > 1 } values %seen), 0, 'nothing twice');
is(scalar(grep { /"n": (\d+)/ && $1 % 10 } keys %seen), 9000, 'every event of another key arrives');
is(sql(q{SELECT count(*) FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.aggregate_id = 'thousand' AND s.state NOT IN ('skipped', 'delivered')}), '0', 'status() says what became of it');

# Paused all the time: none arrives.
sql(q{SELECT outbox.pause('redis', reason => 'test')});
sql(q{SELECT outbox.emit('person', 'carl', 'e', '{"a": 1}') FROM generate_series(1, 65); SELECT outbox.emit('person', 'dora', 'e', '{"a": 1}')});
my $carl = sql(q{SELECT id FROM outbox_internal.log WHERE aggregate_id = 'carl' LIMIT 1});
$before = $redis->xlen('all');
is(forget(q{'person', 'carl', undelivered => true, dry_run => false}), '65|0', '65 undelivered');
is(sql("SELECT state FROM outbox.status('$carl')"), 'skipped', 'skipped at once');
sql(q{SELECT outbox.resume('redis')});
ok(wait_idle($node), 'resumed');
is($redis->xlen('all') - $before, 1, 'only the other key arrives');

# While the destination is away, for longer than it takes to let go: the first of what waits are in the worker's memory and
# the sink's. They are put down, with the key paused and without; others of the same window go when it is back.
ok(wait_idle($node), 'nothing waits');
$redis->stop;
sql(q{SELECT outbox.emit('person', k, 'e', format('{"of": "%s"}', k)::jsonb) FROM unnest('{ines,jack,ines,kurt,kurt,jack}'::text[]) k});
ok(wait_for_value($node, q{SELECT sum(inflight) FROM outbox.lag WHERE route = 'redis'}, '6', 30), 'they are in memory');
sql(q{SELECT outbox.pause('redis', aggregate_type => 'person', aggregate_id => 'kurt', reason => 'test')});
is(forget(qq{'person', '$_', undelivered => true, dry_run => false}), '2|0', "$_ is erased") foreach qw(ines kurt);
ok(wait_for_value($node, q{SELECT sum(inflight) FROM outbox.lag WHERE route = 'redis'}, '2', 30), 'put down, and read again without them');
$redis->restart;
sql(q{SELECT outbox.resume('redis', aggregate_type => 'person', aggregate_id => 'kurt')});
ok(wait_idle($node), 'it is back');
is(join(' ', map { $_->{payload} } grep { ($_->{payload} // '') =~ /"of"/ } @{ $redis->entries('all') }), '{"of": "jack"} {"of": "jack"}', 'only the other key arrives');

# Parked behind a pause of their key: they are in the log as well, and one event each.
sql(q{SELECT outbox.pause('redis', aggregate_type => 'person', aggregate_id => 'held', reason => 'test'); SELECT outbox.emit('person', 'held', 'e', '{"a": 1}') FROM generate_series(1, 65)});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE aggregate_id = 'held'}, '65', 60), '65 are parked');
is(forget(q{'person', 'held'}), '0|65', 'and counted once');
is(forget(q{'person', 'held', dry_run => false}), '0|65', 'also when it is not a dry run');
sql(q{SELECT outbox.resume('redis', aggregate_type => 'person', aggregate_id => 'held')});
ok(wait_idle($node), 'they go');

# Parked: scheduled ones, and a dead letter.
sql(q{SELECT outbox.emit('person', k, 'e', '{"a": 1}', deliver_at => now() + interval '1 hour') FROM unnest('{emil,fred}'::text[]) k});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '2'), 'parked');
sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL WHERE aggregate_id = 'fred'; RESET outbox.allow_loss;
	INSERT INTO outbox_internal.foreign_event (id, aggregate_type, aggregate_id, event_type) VALUES (gen_random_uuid(), 'person', 'fred', 'e')});
is(forget(q{'person', 'fred', dry_run => false}), '0|2', 'a dead letter and a foreign row are kept by default, each counted once');
is(forget(q{'person', 'fred', undelivered => true, dry_run => false}), '1|0', 'and go when asked for');
is(sql('SELECT string_agg(aggregate_id, \',\') FROM outbox_internal.parked'), 'emil', 'of that key only');
is(sql('SELECT count(*) FROM outbox_internal.foreign_event'), '0', 'the foreign row has gone');

# A role without the right; inside a transaction; a crash afterwards.
sql(q{CREATE ROLE app LOGIN; SELECT outbox.grant_emit('app'), outbox.grant_operate('app')});
my ($status, undef, $error) = $node->psql('postgres', q{SET ROLE app; CALL outbox.forget('person', 'emil', dry_run => false)}, on_error_stop => 1);
like($error, qr/permission denied for procedure forget/, 'a role that may emit and operate may not forget');
($status, undef, $error) = $node->psql('postgres', q{BEGIN; CALL outbox.forget('person', 'emil', dry_run => false)}, on_error_stop => 1);
like($error, qr/cannot run inside a transaction block/, 'not where a rollback would seem to undo it');
sql(q{SELECT outbox.emit('person', 'gust', 'e', '{"a": 1}')});
ok(wait_idle($node), 'delivered');
is(forget(q{'person', 'gust', dry_run => false}), '1|0', 'erased');
$node->stop('immediate');
$node->start;
is(kept('gust'), '0', 'after a crash still so');
is(sql(q{SELECT count(*) > 10000 FROM outbox_internal.log WHERE octet_length(payload) >= 0 OR payload IS NULL}), 't', 'every row can be read');

$node->stop;
done_testing();
