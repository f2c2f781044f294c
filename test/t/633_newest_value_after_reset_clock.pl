# After outbox.reset_clock() a consumer that keeps the newest value of a key has a value of the future, and drops what is emitted from now on: who puts
# the clock back is told so, and outbox.reprocess() takes such keys back, and no others; what it cannot take back, positions of streams, it says.
# matrix: R4
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
sub sql { return $node->safe_psql('postgres', @_) }
sub told { my ($sql) = @_; my ($code, $out, $err) = $node->psql('postgres', $sql); return "$out\n$err" }
sub emit
{
	my $id = sql("SELECT outbox.emit('customer', '42', '$_[0]', '1')");
	return sql("SELECT (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal.log WHERE id = '$id'");
}
sub newest { my ($consumer, $key, $created) = @_; return sql("SELECT outbox.receive('$consumer', 'outbox.event.customer', '$key', $created)") }

is(newest('search', '42', emit('v1')), 't', 'the first value');
is(newest('search', 'old', '1700000000000000'), 't', 'a key whose newest value is of 2023');
is(newest('other', '42', emit('v1')), 't', 'another consumer');

# Three days ahead.
sql(q{SELECT setval('outbox_internal.clock_ceiling', (extract(epoch FROM now() + interval '3 days') * 1000000)::bigint)});
$node->stop('immediate');
$node->start;
my $future = emit('v2');
is(newest('search', '42', $future), 't', 'a value of the future');
is(newest('other', '42', $future), 't', 'for both');

like(told('SELECT outbox.reset_clock()'), qr/^7[12]:.*NOTICE:  events emitted from now on may have an earlier created_at than those before.*newest value of a key.*HINT:  .*outbox\.reprocess\('\.\.\.', now\(\)\)/s,
	'reset_clock() says what it means to consumers of newest values');
unlike(told('SELECT outbox.reset_clock()'), qr/NOTICE/, 'and where nothing is put back, nothing');
is(newest('search', '42', emit('v3')), 'f', 'as it says: what comes is dropped');

# The way out.
is(sql(q{SELECT outbox.reprocess('search', now())}), 1, 'reprocess() takes back the key of the future');
is(newest('search', 'old', '1600000000000000'), 'f', 'and not that of another time');
is(newest('search', '42', emit('v4')), 't', 'the next value is taken');
is(newest('search', '42', '1700000000000000'), 'f', 'and counts from then on');
is(newest('other', '42', emit('v5')), 'f', 'the other consumer is as it was');
is(sql(q{SELECT detail - 'since' FROM outbox.audit WHERE action = 'reprocess'}), '{"keys": "1", "marks": "0", "until": "infinity", "consumer": "search"}', 'it is audited');

# A time with an end; marks and keys of one consumer; all of them. The next event is taken whatever its time.
sql(q{SELECT outbox.receive('range', 's', k::text, 1700000000000000 + k) FROM generate_series(1, 5) k});
is(sql(q{SELECT outbox.reprocess('range', timestamptz 'epoch' + interval '1700000000.000002 s', timestamptz 'epoch' + interval '1700000000.000004 s')}), 2, 'since is in it, until is not');
is(sql(q{SELECT string_agg(k || ':' || outbox.receive('range', 's', k::text, 1600000000000000), ' ' ORDER BY k) FROM generate_series(1, 5) k}), '1:false 2:true 3:true 4:false 5:false', 'those of that time, whatever comes');
is(sql(q{SELECT outbox.receive('range', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('range', outbox.emit('t', 'k', 't', '1')), outbox.reprocess('range', '-infinity')}), 't|t|6', 'all keys, and the mark that has a time');
is(sql(q{SELECT string_agg(what || ' ' || rows, ', ' ORDER BY what) FROM outbox.received WHERE consumer = 'range'}), 'undated 1, undated, second table 1', 'are gone');
unlike(told(q{SELECT outbox.reprocess('range', '-infinity')}), qr/NOTICE/, 'nothing is said where nothing is left out');

# Positions of streams have no time.
sql(q{SELECT outbox.receive_next('range', 'it''s/0', 7)});
my $one = told(q{SELECT outbox.reprocess('range', '-infinity')});
like($one, qr/^0\n.*NOTICE:  1 stream of consumer "range" stays where it is\n/s, 'a stream is not moved');
my ($hint) = $one =~ /HINT:  (SELECT .*\)) /;
$hint =~ s/next_position/5/;
is(sql($hint) . sql(q{SELECT outbox.receive_next('range', 'it''s/0', 5)}), '8next', 'but by the hint');
sql(q{SELECT outbox.receive_next('range', 'others', 7)});
like(told(q{SELECT outbox.reprocess('range', '-infinity')}), qr/2 streams of consumer "range" stay where they are/, 'nor are several');
unlike(told(q{SELECT outbox.reprocess('search', now())}), qr/NOTICE/, 'of others there is no word');
done_testing();
