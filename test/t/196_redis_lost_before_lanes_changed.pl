# A Redis loses what it had acknowledged before the number of lanes changed, and after: both are sent again, to the last
# change and across several, and not what it still has. What was delivered before seek() is not: it is said which, by lanes that are no more as well,
# and seek() sends it. A Redis that loses all of it again while that is under way is sent it again.
# matrix: E-5 S2
# ring: long
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'r', topic => q('t'), lanes => 3);
# Of the second and third lane; the first has nothing to deliver before there is one alone. The hash is FNV-1a, folded.
sub lane_of
{
	my ($bytes, $lanes) = @_;
	my $hash = 2166136261;
	$hash = (($hash ^ ord) * 16777619) & 0xffffffff foreach split //, $bytes;
	return ($hash ^ ($hash >> 16)) % $lanes;
}
my @keys = (grep { lane_of($_, 3) > 0 } 'a' .. 'z')[ 0 .. 5 ];
my $done = 0;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub lost { $redis->kill9; $redis->restart; return }
sub more { emit_counted($node, 't', \@keys, $done + 1, $done + 10); $done += 10; return }
# First occurrences, the same for all keys: FROM-TO, or each key by itself.
sub there
{
	my %seen;
	my $keys = by_key([ grep { !$seen{$_}++ } @{ $redis->column('t', 'payload') } ]);
	my %texts = map { $_ => 1 } values %$keys;
	return keys %$keys == @keys && keys %texts == 1 ? (keys %texts)[0] : join '|', map { "$_ $keys->{$_}" } sort keys %$keys;
}
sub from { my ($from) = @_; return join ' ', $from .. $done }
sub is_there { my ($from, $what) = @_; return ok(wait_until(sub { there() eq from($from) }, 30), $what) || diag(there()) }
sub log_says { my ($text) = @_; return scalar(() = slurp_file($node->logfile) =~ /WARNING:  outbox: destination "r": the Redis server has lost .*$text/g) }

sub lanes
{
	my ($lanes) = @_;
	sql("SELECT outbox.alter_route('r', lanes => $lanes)");
	return ok(wait_for_value($node, 'SELECT lanes FROM outbox.route', $lanes, 30), "now there are $lanes");
}
sub delivers { more(); return ok(wait_idle($node), 'delivered') }
sub rewinds { return sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}) }

delivers();
lanes(1);
delivers();
lost();
is_there(1, 'what was delivered is sent again, also what others had before the one lane that there is');
is(rewinds(), 1, 'it was put back once');
is(log_says('sends again all that it has delivered and the log still has'), 1, 'and that is said');
lanes(4);
delivers();
lost();
is_there(1, 'across two changes, by four lanes');
is(rewinds(), 5, 'each was put back');
# Progress of what is saved is not of what comes after.
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.lane l, LATERAL (SELECT g.places IS NOT NULL OR g.survived IS NULL AS saved FROM outbox_internal.progress g
	WHERE g.route_id = l.route_id AND g.lane = l.lane ORDER BY g.at DESC LIMIT 1) p WHERE p.saved}, 4, 30), 'how far they have come is noted');
delivers();
$redis->command('SAVE');
my $saved = $redis->xlen('t');
select undef, undef, undef, 0.6;    # progress is noted every quarter of a second
delivers();
lanes(2);
delivers();
lost();
is_there(1, 'what was acknowledged since a moment before the change is sent again');
my $expected = $saved + 20 * @keys;
my $there = $redis->xlen('t');
cmp_ok($there, '>=', $expected, 'all of it');
cmp_ok($there, '<=', $expected + 10 * @keys, 'and little of what had survived');
# Where they are now, not where they were.
ok(wait_until(sub { sql('SELECT count(*) FROM outbox.lag WHERE inflight > 0') eq '0' }, 30), 'all acknowledged');
my %entry = map { $_->{payload} => $_->{_entry} } @{ $redis->entries('t') };
my $n = $done - 15;
sub number { return join '.', map { sprintf '%020d', $_ } split /-/, $_[0] }
foreach my $key (@keys)
{
	ok(wait_until(sub
	{
		my ($state, $first, $last) = split /\|/, sql(qq{SELECT s.state, s.places -> 't' ->> 0, s.places -> 't' ->> 1 FROM outbox_internal.log l, outbox.status(l.id) s
			WHERE l.aggregate_id = '$key' AND convert_from(l.payload, 'UTF8') = '$key $n'});
		return $state eq 'delivered' && $last && number($first) le number($entry{"$key $n"}) && number($entry{"$key $n"}) le number($last);
	}, 10), "status() tells where event $n of $key is now");
}

# Before a seek: it is said which, exactly.
sql(q{CALL outbox.seek('r', 'infinity', dry_run => false)});
delivers();
my $before = rewinds();
lost();
my $had = join ' ', 1 .. $done - 30, $done - 9 .. $done;
ok(wait_until(sub { there() eq $had }, 30), 'what came after seek() is sent again, beside what was there') || diag(there());
is(rewinds(), $before + 2, 'both lanes are put back');
is(log_says('; what was delivered before 20[^,]*, when its lanes began anew, is not sent: outbox.seek\(\) to .* or outbox.replay\(since => .*\) sends it'), 1, 'what is missing is said');
is(sql(q{SELECT bool_and((detail ->> 'missing_before')::timestamptz = l.since) FROM outbox.audit, outbox_internal.lane l WHERE action = 'rewind' AND detail ? 'missing_before'}), 't', 'in the audit, too');
$redis->command('FLUSHALL');
sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)});
ok(wait_idle($node), 'seek() sends all of it');
is_there(1, 'from the beginning');
lost();
ok(wait_until(sub { $redis->xlen('t') > 0 }, 30), 'lost again, and being sent again');
lost();
more();
is_there(1, 'lost once more: all comes');
no_server_crashed($node);
done_testing();
