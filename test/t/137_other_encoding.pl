# A database that is not in UTF-8. What is published is UTF-8, and lanes, order keys and topics are made of it; people and
# tables have the server's encoding. Looking, waiting, retry, redrive, replay, pauses and other names for topics agree about
# whose an event is and where it goes.
use strict;
use warnings;

$ENV{PGCLIENTENCODING} = 'UTF8';

use JSON::PP qw(decode_json);
use Outbox::Test;
use Test::More;

my $node = new_node(init => [ '--encoding=LATIN1', '--locale=C' ], conf => "outbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start(conf => [ 'appendonly yes', 'appendfsync always' ]);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub comes { my ($stream, $count, $what) = @_; return ok(wait_until(sub { $redis->xlen($stream) >= $count }, 30), $what) }
sub orders { my ($stream) = @_; return by_key($redis->column($stream, 'payload')) }

my @keys = map { "schlüssel$_" } 1 .. 8;
my @types = ('straße', 'weg');
is(sql('SHOW server_encoding'), 'LATIN1', 'the database is in LATIN1');
redis_route($node, $redis, 'r', topic => q('größe.{aggregate_type}'), aggregate_types => q('{straße,w*}'), lanes => 4);

emit_counted($node, $_, \@keys, 1, 10) foreach @types;
ok(wait_idle($node), 'all is delivered');
is_deeply(orders("größe.$_"), { map { $_ => join ' ', 1 .. 10 } @keys }, "$_: in order, nothing twice") foreach @types;
is(sql('SELECT count(DISTINCT lane) > 1 FROM outbox_internal.log l, outbox.status(l.id)'), 't', 'over several lanes');
is(sql('SELECT DISTINCT s.state, s.topic FROM outbox_internal.log l, outbox.status(l.id) s ORDER BY 2'), "delivered|größe.straße\ndelivered|größe.weg",
	'outbox.status knows, and the topics');
is(sql('SELECT count(*) FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.places IS NULL OR NOT s.places ? s.topic'), '0', 'and the places');
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag', '0', 20), 'outbox.lag, too');

# The server is killed and has lost nothing: nothing is sent again.
$redis->kill9;
$redis->restart;
emit_counted($node, 'weg', \@keys, 11, 11);
ok(wait_idle($node), 'idle after a restart of Redis');
is($redis->xlen('größe.straße'), 80, 'nothing is sent again');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}), '0', 'for nothing was lost');

# A topic on its own.
sql(q{SELECT outbox.pause('r', topic => 'größe.straße', reason => 'Prüfung')});
ok(wait_for_value($node, 'SELECT DISTINCT topic FROM outbox_internal.side_topic', 'größe.straße'), 'a paused topic leaves its lanes');
emit_counted($node, 'straße', \@keys, 11, 20);
emit_counted($node, 'weg', \@keys, 12, 20);
ok(wait_for_value($node, 'SELECT sum(pending) FILTER (WHERE topic IS NOT NULL), sum(pending) FILTER (WHERE topic IS NULL) FROM outbox.lag', '80|0', 30),
	'outbox.lag counts what waits for it');
is(sql('SELECT DISTINCT topic FROM outbox.lag WHERE side IS NOT NULL'), 'größe.straße', 'under its name');
is($redis->xlen('größe.weg'), 160, 'the other flows');
is(sql(q{SELECT DISTINCT s.state, s.reason FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.state <> 'delivered'}), 'paused|Prüfung', 'outbox.status says why');
is(sql(q{SELECT count(*) FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.state = 'paused'}), '80', 'of each');
is(sql(q{SELECT outbox.wait_for((SELECT id FROM outbox_internal.log WHERE aggregate_type = 'straße' ORDER BY created_at DESC LIMIT 1), '1 s')}), 'f', 'wait_for() waits');
sql(q{SELECT outbox.resume('r', topic => 'größe.straße')});
ok(wait_idle($node), 'and they go when it does');
is_deeply(orders('größe.straße'), { map { $_ => join ' ', 1 .. 20 } @keys }, 'in order, nothing twice');
is(sql(q{SELECT outbox.wait_for((SELECT id FROM outbox_internal.log WHERE aggregate_type = 'straße' ORDER BY created_at DESC LIMIT 1), '10 s')}), 't', 'wait_for() is content');

# The route waits.
sql(q{SELECT outbox.pause('r', reason => 'Prüfung')});
sql(q{SELECT outbox.emit('straße', 'schlüssel9', 'größer', '{}', headers => '{"maß": "groß"}')});
ok(wait_for_value($node, q{SELECT aggregate_type, aggregate_id, event_type, headers FROM outbox.peek('r')}, 'straße|schlüssel9|größer|{"maß": "groß"}', 20),
	'outbox.peek() shows what comes next');
sql(q{SELECT outbox.resume('r')});
ok(wait_idle($node), 'it goes');

# A refused event, and those of its key.
sql(q{SELECT outbox.alter_route('r', on_failure => 'block')});
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
my $huge = emit_huge($node, 'straße', 'schlüssel1', 2_000_000);
emit_counted($node, 'straße', ['schlüssel1'], 21, 30);
ok(wait_for_value($node, q{SELECT string_agg(state || n || ' ' || topic, ',' ORDER BY state) FROM (SELECT state, topic, count(*) n FROM outbox_internal.parked GROUP BY 1, 2) p},
	'blocked10 größe.straße,dead1 größe.straße', 30), 'one is refused, ten wait');
sql(q{SELECT outbox.alter_route('r', topic => 'maß.{aggregate_type}')});
is(sql('SELECT DISTINCT topic FROM outbox_internal.parked'), 'maß.straße', 'their topic gets another name');
is(sql('SELECT count(DISTINCT order_key) FROM outbox_internal.parked'), '1', 'and they know each other');
emit_counted($node, 'straße', ['schlüssel1'], 31, 31);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'}, '11', 30), 'a later one waits, too');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '512mb');
is(sql("SELECT outbox.retry('$huge', reason => 'größer')"), '1', 'retry()');
ok(wait_idle($node), 'the queue drains');
is(orders('maß.straße')->{'schlüssel1'}, join(' ', 21 .. 31), 'in order');
is($redis->xlen('maß.straße'), 12, 'and what was refused with them');
is(sql("SELECT state, topic FROM outbox.status('$huge') WHERE state = 'delivered'"), 'delivered|maß.straße', 'outbox.status says where');

# Replay.
is(sql(q{CALL outbox.replay(since => '-infinity', route => 'r', aggregate_type => 'straße', aggregate_id => 'schlüssel2', dry_run => false)}) =~ s/.*\|//r, '20', 'replay() of a key');
comes('maß.straße', 32, 'it arrives under the new name');
is(orders('maß.straße')->{'schlüssel2'}, join(' ', 1 .. 20), 'in order');
ok(wait_idle($node), 'idle');
is(join(' ', sort grep { !/^outbox/ } $redis->keys_like('*')), 'größe.straße größe.weg maß.straße', 'no event went anywhere else');

# A database that takes any bytes as text: its figures are UTF-8 all the same, and names that differ stay apart.
sql(q{CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
sub in_bytes { my ($query) = @_; return $node->safe_psql('bytes', $query) }
in_bytes(q{SET client_min_messages = error; CREATE EXTENSION outbox; CREATE SERVER nobody FOREIGN DATA WRAPPER outbox_null;
	SELECT outbox.create_route(E'bad\\xe9', server => 'nobody'), outbox.create_route(E'bad\\xea', server => 'nobody'), outbox.create_route('größe', server => 'nobody')});
my $figures = in_bytes('SELECT outbox.metrics_text()');
like($figures, qr/route="$_"/, "the figures of $_") foreach quotemeta('bad\\\\xe9'), quotemeta('bad\\\\xea'), 'größe';
# Nor does such a byte get into a CloudEvent, which is Unicode.
in_bytes(qq{SET client_min_messages = error; CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('events', server => 'redis', topic => 'events', format => 'cloudevents-json', aggregate_types => '{bytes}')});
in_bytes(q{SELECT outbox.emit('bytes', E'\\xff\\xfe', 'bad.key', '{}'), outbox.emit('bytes', 'k', E'bad\\xe9', '{}'),
	outbox.emit('bytes', 'k', 'bad.value', '{}', headers => E'{"tenant": "\\xe9"}'::jsonb)});
ok(wait_until(sub { $redis->xlen('events') == 2 && in_bytes('SELECT count(*) FROM outbox.dead_letter') == 1 }), 'two of three events are sent');
is(in_bytes('SELECT error_code FROM outbox.dead_letter'), 'NO_CLOUDEVENT', 'one whose type is none is a dead letter');
my @sent = map { decode_json($_) } @{ $redis->column('events', 'event') };
is_deeply([ map { [ @$_{qw(type subject tenant)} ] } @sent ], [ [ 'bad.key', undef, undef ], [ 'bad.value', 'k', undef ] ],
	'the others are JSON, without what is none');
# And in one whose encoding has no way to UTF-8, the extension is not made. (From 19 on there is none.)
SKIP:
{
	my ($none) = $node->psql('postgres', q{CREATE DATABASE mule ENCODING 'MULE_INTERNAL' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
	skip 'no encoding MULE_INTERNAL', 1 if $none != 0;
	local $ENV{PGCLIENTENCODING} = 'SQL_ASCII';
	like(($node->psql('mule', 'CREATE EXTENSION outbox'))[2], qr/ERROR:  outbox does not work in a database in encoding MULE_INTERNAL\n.*HINT:/s, 'the reason is said at once');
}
no_server_crashed($node);
done_testing();
