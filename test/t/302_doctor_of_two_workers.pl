# One of two relay workers is in trouble with a destination that works for the other: doctor() says of how many, never that
# it gets nothing, and nothing while it is only being tried. Where it works for neither, it says that.
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'), lanes => 2);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub said { return sql(q(SELECT detail || ' / ' || hint FROM outbox.doctor() WHERE "check" = 'destination')) }
sub worker { my ($ordinal) = @_; return sql("SELECT pid FROM outbox.worker WHERE kind = 'relay' AND ordinal = $ordinal AND lanes > 0") }
sub emit { return sql(q(SELECT count(outbox.emit_text('t', i::text, 'x', 'x')) FROM generate_series(1, 20) i)) }

ok(wait_until(sub { worker(0) && worker(1) }, 30), 'each worker has a lane');
emit();
ok(wait_idle($node), 'all is delivered');
is(said(), '', 'nothing is said of a destination that works');

# The sink processes of these workers die as soon as they are there, by a process of its own, which a busy machine delays
# less than what asks here; those of other workers are let be. For eight seconds, and until something was said.
sub trouble
{
	my (@workers) = @_;
	my $killer = fork() // die "no fork";
	if ($killer == 0)
	{
		while (1) { kill 'KILL', child_pids($_) foreach @workers; sleep 0.01 }
	}
	my %said;
	my $began = time;
	while (time < $began + 8 || (!grep({ $_ ne '' } keys %said) && time < $began + 90))
	{
		emit();
		$said{ said() }++;
	}
	kill 'KILL', $killer;
	waitpid $killer, 0;
	return sort keys %said;
}
my ($one, $two) = (worker(0), worker(1));
my @said = grep { $_ ne '' } trouble($two);
note($_) foreach @said;
ok(scalar(@said), 'it is told of one of them');
is(scalar(grep { !/^Destination "\w+" gets nothing from 1 of 2 relay workers \(open\): SINK_\w+: .* \/ It is tried again by itself; outbox\.destination says when\. SELECT \* FROM outbox\.test_server\(.\w+., .\w+.\) says what can be done\.$/s } @said), 0,
	'that it gets nothing from one of two')
  or diag(join "\n", @said);
ok(wait_idle($node), 'all is delivered');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'destination'), 0, 30), 'then it is over');

@said = trouble($one, $two);
note($_) foreach @said;
ok(scalar(grep { /gets nothing \((?:open|half-open)\): SINK_/ } @said), 'of both: that it gets nothing');
is(scalar(grep { /has to be changed/ } @said), 0, 'that nobody has to change anything, although it was killed before it had started');
ok(wait_idle($node), 'all is delivered');
no_server_crashed($node);
done_testing();
