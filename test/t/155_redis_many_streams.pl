# matrix: E-5 R8
# What a Redis with a stream for each aggregate has lost is noticed as well: with one stream more than a row of progress
# names, with a thousand, with six thousand, also where those that the row names are all there. What is sent again is
# what was lost, and little else, also where it is all of the newest streams.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'many', topic => q('o.{aggregate_id}'), server_options => q(, timeout '5000'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub rewinds { return sql("SELECT count(*) FROM outbox.audit WHERE action = 'rewind'") }

# One event in each of so many streams, in one transaction.
sub emit { my ($name, $count) = @_; sql("SELECT outbox.emit_text('o', '$name' || i, 'e', 'x') FROM generate_series(1, $count) i"); return }

# [streams, entries] of a name.
sub there
{
	my ($name) = @_;
	return join ' ', @{ $redis->command('EVAL', q{
		local entries = 0
		local keys = redis.call('KEYS', ARGV[1])
		for _, key in ipairs(keys) do entries = entries + redis.call('XLEN', key) end
		return {#keys, entries}}, 0, "o.$name*") };
}
sub repeats { my ($name) = @_; my ($streams, $entries) = split / /, there($name); return $entries - $streams }

# Before a Redis is met for the first time progress is saved, which is to fail from now on.
sql(q{SELECT outbox.emit_text('o', 'first', 'e', 'x')});
ok(wait_idle($node), 'an event is delivered');

# The half that is saved comes first by name and by id; both are one row of progress.
foreach my $count (65, 1000, 6000)
{
	my $before = rewinds();
	Outbox::Faults::arm('save.before', 'fail *');
	emit("a$count.", $count - 1);
	ok(wait_until(sub { there("a$count.") eq join ' ', ($count - 1) x 2 }, 30), "$count streams: the first half is there");
	$redis->command('SAVE');
	emit("z$count.", $count);
	ok(wait_until(sub { there("z$count.") eq "$count $count" }, 30), 'so is the second');
	Outbox::Faults::disarm('save.before');
	ok(wait_for_value($node, "SELECT acknowledged IS NOT NULL AND places ? '...' FROM outbox_internal.progress ORDER BY at DESC LIMIT 1", 't', 30),
		'the row has no room for all places');
	$redis->kill9;
	$redis->restart;
	ok(wait_until(sub { rewinds() > $before }, 30), 'the loss is noticed');
	ok(wait_idle($node), 'idle');
	like(there("z$count."), qr/^$count /, 'all that was lost is there');
	cmp_ok(repeats("z$count."), '==', 0, 'once');
	cmp_ok(repeats("a$count."), '<=', $count, 'what is of the same row comes twice at most');
}

# The newest streams are all gone, and none of the older ones was written to for a while.
my $before = rewinds();
emit('old', 3000);
ok(wait_idle($node), 'idle');
foreach my $batch (1 .. 4)
{
	emit("b$batch.", 30);
	ok(wait_idle($node), 'idle');
}
$redis->command('SAVE');
foreach my $batch (1 .. 4)
{
	emit("new$batch.", 100);
	ok(wait_idle($node), 'idle');
}
$redis->kill9;
$redis->restart;
ok(wait_until(sub { rewinds() > $before }, 30), 'a loss of all of the newest streams is noticed');
ok(wait_idle($node), 'idle');
is(there('new'), '400 400', 'all that was lost is there');
cmp_ok(repeats('old') + repeats('b'), '<=', 30, 'and what is older was not sent again');
isnt(sql(q{SELECT detail ->> 'survived' FROM outbox.audit WHERE action = 'rewind' ORDER BY at DESC LIMIT 1}), '0-0', 'what survived was found');

# status() names a place that is of the event, or none.
my $unknown = sql(q{SELECT count(*) FROM outbox_internal.log e, outbox.status(e.id) s WHERE e.aggregate_id LIKE 'new%' AND s.places IS NULL});
my $wrong = sql(q{SELECT count(*) FROM outbox_internal.log e, outbox.status(e.id) s, jsonb_object_keys(s.places) k
	WHERE e.aggregate_id LIKE 'new%' AND k <> 'o.' || e.aggregate_id});
cmp_ok($unknown, '>', 100, 'status() does not know the places that a row had no room for');
is($wrong, 0, 'and shows no other');
no_server_crashed($node);
done_testing();
