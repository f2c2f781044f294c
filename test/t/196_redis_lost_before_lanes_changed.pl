# A Redis loses what it had acknowledged before the number of lanes changed, and after: what came after the change is sent again,
# and of the rest it is said that it is not, by lanes that are no more as well; seek() sends it. A Redis that loses all
# of it again while that is being sent is sent it again.
# matrix: E-5 S2
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => ['appendonly no']);
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

more();
ok(wait_idle($node), 'delivered by three lanes');
sql(q{SELECT outbox.alter_route('r', lanes => 1)});
ok(wait_for_value($node, 'SELECT lanes FROM outbox.route', 1, 30), 'now there is one');
more();
ok(wait_idle($node), 'which delivers');
lost();
is_there(11, 'what it had delivered is sent again, of that before nothing is');
is(log_says('sends again what it delivered after .*; what was delivered before, with another number of lanes'), 1, 'and that is said');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind' AND detail ->> 'delivered_after' IS NOT NULL AND reason ~ 'outbox.seek\(\) sends it'}), 1, 'in the audit, too');

# Of one that is lost again while it is sent again, nothing is missing either.
$redis->command('FLUSHALL');
sql(q{CALL outbox.seek('r', '-infinity')});
ok(wait_idle($node), 'seek() sends all of it');
is_there(1, 'from the beginning');
lost();
ok(wait_until(sub { $redis->xlen('t') > 0 }, 30), 'lost again, and being sent again');
lost();
more();
is_there(1, 'lost once more: all comes');
is(log_says('what was delivered before'), 1, 'and nothing is said of what came before the beginning');

no_server_crashed($node);
done_testing();
