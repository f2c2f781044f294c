# What a consumer of Redis finds: every field of the wire table to the letter, streams, lists and channels, explicit
# topics, tombstones, payloads of any bytes, events without a key, and a server that asks for user, password and database.
# matrix: H1 H3
use strict;
use warnings;

use IO::Select;
use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my $locked = Outbox::Redis->start(
	conf => [ 'user default off', 'user relay on >s3cret ~* &* +@all' ], user => 'relay', password => 's3cret', db => 3);

redis_route($node, $redis, 'streams', aggregate_types => q('{order,explicit}'));
create_server($node, 'lists', $redis);
$node->safe_psql('postgres', q{SELECT outbox.create_route('lists', server => 'lists', aggregate_types => '{job}',
	topic => 'jobs.{aggregate_id}.{event_type:kebab}', options => '{"mode": "list"}')});
$node->safe_psql('postgres', q{SELECT outbox.create_route('channels', server => 'lists', aggregate_types => '{news}',
	topic => 'news', options => '{"mode": "publish"}')});
$node->safe_psql('postgres', "CREATE SERVER locked FOREIGN DATA WRAPPER outbox_redis
	OPTIONS (host '127.0.0.1', port '$locked->{port}', db '3')");
$node->safe_psql('postgres', q{CREATE USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (username 'relay', password 's3cret')});
$node->safe_psql('postgres', q{SELECT outbox.create_route('locked', server => 'locked', topic => 'all')});

sub create_server
{
	my ($node, $name, $redis) = @_;
	$node->safe_psql('postgres', "CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
	return;
}

# A consumer of the channel, listening before anything is published.
my $listener = Outbox::Redis::connect_to($redis);
$listener->command('SUBSCRIBE', 'news');

$node->safe_psql('postgres', <<'SQL');
BEGIN;
SELECT outbox.emit('order', 42, 'order.created', '{"total": 129.97, "b": 1}', '{"trace": "abc", "who": "Jürgen"}');
SELECT outbox.emit('order', '42', 'order.noted', '{"b" :  1, "a":2}'::json);
SELECT outbox.emit_text('order', 42, 'order.described', 'Größe 42', 'text/plain; charset=utf-8');
SELECT outbox.emit_bytes('order', '0190b6f0-0000-7000-8000-000000000001'::uuid, 'order.signed', '\x00ff0d0a2a31');
SELECT outbox.emit_tombstone('order', 42, 'order.deleted');
SELECT outbox.emit('order', NULL::text, 'order.counted', '7');
SELECT outbox.emit('explicit', 1, 'x', '{}', topic => 'somewhere.else');
SELECT outbox.emit('job', 5, 'SendMail', '{"n": 1}');
SELECT outbox.emit('job', 5, 'SendMail', '{"n": 2}');
SELECT outbox.emit_text('news', 5, 'headline', 'it rains');
COMMIT;
SQL
ok(wait_idle($node), 'everything was delivered');

my %log = map { my @row = split /\|/; $row[0] => { id => $row[1], created_at => $row[2] } } split /\n/,
  $node->safe_psql('postgres', q{SELECT event_type, id, (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal.log});

# The entry as a hash, without Redis' own id, is exactly this, and the fields came in this order.
sub entry_is
{
	my ($entry, $type, %fields) = @_;
	my %got = %$entry;
	delete $got{_entry};
	is_deeply(\%got, { type => $type, id => $log{$type}{id}, created_at => $log{$type}{created_at}, %fields }, "entry of $type");
	return;
}

my $entries = $redis->entries('outbox.event.order');
is(scalar @$entries, 6, 'six entries in the stream of the default template');
entry_is($entries->[0], 'order.created', aggregate_type => 'order', key => '42',
	payload => $node->safe_psql('postgres', q{SELECT '{"total": 129.97, "b": 1}'::jsonb::text}), 'h:trace' => 'abc', 'h:who' => "J\xc3\xbcrgen");
entry_is($entries->[1], 'order.noted', aggregate_type => 'order', key => '42', payload => '{"b" :  1, "a":2}');
entry_is($entries->[2], 'order.described', aggregate_type => 'order', key => '42',
	payload => "Gr\xc3\xb6\xc3\x9fe 42", content_type => 'text/plain; charset=utf-8');
entry_is($entries->[3], 'order.signed', aggregate_type => 'order', key => '0190b6f0-0000-7000-8000-000000000001',
	payload => "\x00\xff\r\n*1", content_type => 'application/octet-stream');
entry_is($entries->[4], 'order.deleted', aggregate_type => 'order', key => '42');
entry_is($entries->[5], 'order.counted', aggregate_type => 'order', payload => '7');
my @times = map { $_->{created_at} } @$entries;
is_deeply(\@times, [ sort { $a <=> $b } @times ], 'created_at increases');

is($redis->entries('somewhere.else')->[0]{aggregate_type}, 'explicit', 'an explicit topic wins over the template');
is_deeply($redis->command('LRANGE', 'jobs.5.send-mail', 0, -1), [ '{"n": 1}', '{"n": 2}' ], 'a list holds the payloads in order');
is_deeply($listener->reply, [ 'message', 'news', 'it rains' ], 'a channel carries the payload');
is_deeply([ sort map { $_->{type} } @{ $locked->entries('all') } ],
	[ sort qw(order.created order.noted order.described order.signed order.deleted order.counted SendMail SendMail headline) ],
	'user, password and database number are used, and one event goes to every route that matches');
is($locked->entries('somewhere.else')->[0]{type}, 'x', 'there too');

# A wrong password is trouble of the destination, not of the events: mended, everything arrives.
$node->safe_psql('postgres', q{ALTER USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (SET password 'wrong')});
# The change is noticed in a moment; until then the old connection serves.
my $trouble = '';
for (1 .. 200)
{
	$node->safe_psql('postgres', q{SELECT outbox.emit_text('order', 42, 'order.late', 'x')});
	$trouble = $node->safe_psql('postgres', q{SELECT error_class FROM outbox.lag WHERE route = 'locked'});
	last if $trouble ne '';
	select undef, undef, undef, 0.05;
}
is($trouble, 'config', 'a wrong password shows as config trouble');
unlike($node->safe_psql('postgres', 'SELECT * FROM outbox.lag'), qr/wrong|s3cret/, 'outbox.lag shows no password');
$node->safe_psql('postgres', q{ALTER USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (SET password 's3cret')});
ok(wait_idle($node), 'delivered once the password is right');
is(scalar(grep { $_->{type} eq 'order.late' } @{ $locked->entries('all') }),
	$node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.log WHERE event_type = 'order.late'}), 'all of them, none twice');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'and nothing was parked');
# The same id from the application, again and again, under several keys and in one batch: each is an event.
$node->safe_psql('postgres', q{INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
	SELECT '11111111-2222-4333-8444-0123456789ab', 'same', 'k' || i % 3, 'same', to_jsonb(i) FROM generate_series(1, 60) i});
ok(wait_idle($node), 'sixty events of one id');
my @same = grep { $_->{type} eq 'same' } @{ $locked->entries('all') };
is(join(' ', map { $_->{payload} } @same), join(' ', 1 .. 60), 'arrive all, in their order');
is(scalar(grep { $_->{id} ne '11111111-2222-4333-8444-0123456789ab' } @same), 0, 'under that id');
is($node->safe_psql('postgres', q{SELECT state, count(*) FROM outbox.status('11111111-2222-4333-8444-0123456789ab') GROUP BY 1}), 'delivered|60', 'status() knows each');
# More than one look at the log takes in: waiting and looking agree also behind a large window.
$node->safe_psql('postgres', q{SELECT count(outbox.emit('many', i % 100, 'e', to_jsonb(i))) FROM generate_series(1, 40000) i});
ok(wait_idle($node), 'forty thousand more are delivered');
is($node->safe_psql('postgres', 'SELECT sum(pending) FROM outbox.lag'), '0', 'and outbox.lag says so at once');

no_server_crashed($node);
done_testing();
